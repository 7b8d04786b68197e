cpu <- function(x, dtype = NULL) as_gpu(x, dtype, device = "cpu")

test_that("an address says where the elements lie, and its owner keeps them", {
  m <- matrix(as.numeric(1:6), 2)
  x <- gpu(m)
  p <- gpu_pointer(x)
  expect_s3_class(p, "gpu_pointer", exact = TRUE)
  expect_identical(p[c("dim", "strides", "dtype", "device")], list(dim = 2:3, strides = c(1, 2), dtype = "float64",
    device = test_device))
  expect_identical(typeof(p$owner), "externalptr")
  expect_identical(gpu_pointer(x, writable = FALSE)$address, p$address)
  expect_identical(gpu_pointer(aperm(array(gpu(1:6), 1:3)), writable = FALSE)$strides[1:2], c(2, 1))
  expect_identical(gpu_pointer(gpu(1:5000)[4000:2], writable = FALSE)$strides, -1)
  expect_identical(gpu_pointer(gpu(numeric()))[c("address", "dim", "strides")],
    list(address = 0, dim = 0L, strides = 1))
  y <- gpu_from_pointer(p)
  rm(x, p)
  collect_garbage()
  expect_identical(collect(y), m)
  expect_identical(collect(y + 1), m + 1)
  expect_error(gpu_pointer(1), class = "verdigris_error_argument")
  expect_error(gpu_pointer(gpu(1), writable = NA), class = "verdigris_error_argument")
  freed <- gpu(1)
  gpu_free(freed)
  expect_error(gpu_pointer(freed), class = "verdigris_error_consumed")
})

test_that("an address comes as a number, a string, an integer64 or a pointer", {
  x <- gpu(c(1, 2, 3))
  p <- gpu_pointer(x)
  hexadecimal <- verdigris:::format_address(p$address)
  forms <- list(p$address, hexadecimal, toupper(sub("0x", "", hexadecimal)), sprintf("%.0f", p$address),
    bit64::as.integer64(sprintf("%.0f", p$address)), p$owner)
  forms[[3]] <- paste0("0X", forms[[3]])
  for (address in forms) {
    y <- gpu_from_pointer(address, 3, "float64", device = test_device)
    expect_identical(collect(y), c(1, 2, 3))
    expect_identical(gpu_pointer(y)$address, p$address)
  }
  expect_identical(collect(gpu_from_pointer(p, dim = 2)), c(1, 2))
  expect_identical(collect(gpu_from_pointer(p$owner, c(2, 2), "float64", c(1, 1), test_device)),
    matrix(c(1, 2, 2, 3), 2))
  expect_identical(collect(gpu_from_pointer(p$address + 16, 3, "float64", -1, test_device)), c(3, 2, 1))
  expect_identical(collect(gpu_from_pointer(p$address, 0, "float64", device = test_device)), numeric())
  expect_identical(verdigris:::format_address(c(10)), "0xa")
  expect_output(print(p), paste0("<gpu_pointer ", hexadecimal, ">\nfloat64 [3] on"), fixed = TRUE)
})

test_that("what both see is written by either", {
  x <- gpu(c(1, 2, 3))
  y <- gpu_from_pointer(gpu_pointer(x))
  recorded <- x * 2
  gpu_compute(y * 10, out = y)
  expect_identical(collect(x), c(10, 20, 30))
  expect_identical(collect(recorded), c(2, 4, 6))
  expect_identical(x[2] + 0, y[2] + 0)
  kept <- gpu_from_pointer(gpu_pointer(x, writable = FALSE), read_only = TRUE)
  gpu_compute(kept + 1, out = kept) # read-only: it moves
  expect_identical(collect(x), c(10, 20, 30))
  expect_error(gpu_pointer(gpu_from_pointer(gpu_pointer(x), read_only = TRUE)), class = "verdigris_error_argument")
})

test_that("the owner is kept and told, once", {
  told <- 0
  kept <- new.env()
  gone <- FALSE
  reg.finalizer(kept, function(e) gone <<- TRUE)
  p <- gpu_pointer(gpu(c(1, 2, 3)))
  y <- gpu_from_pointer(p$address, 3, "float64", device = test_device, owner = list(kept, p), on_free = function()
    told <<- told + 1)
  rm(kept, p)
  z <- y
  dim(z) <- c(1, 3)
  rm(y)
  collect_garbage()
  expect_identical(told, 0)
  expect_false(gone)
  expect_identical(collect(z), matrix(c(1, 2, 3), 1))
  rm(z)
  collect_garbage()
  expect_identical(told, 1)
  expect_true(gone)
  # an error in it is a warning, and nothing else
  p <- gpu_pointer(gpu(1))
  y <- gpu_from_pointer(p, on_free = function() stop("no"))
  rm(y)
  expect_warning(collect_garbage(), "`on_free` failed: no")
  # what is refused is not told
  expect_error(gpu_from_pointer(p, dtype = "float32", strides = 2^52, dim = 2^20, on_free = function() told <<- told +
    1), class = "verdigris_error_shape")
  collect_garbage()
  expect_identical(told, 1)
})

test_that("wrong addresses, sizes, types and devices are refused", {
  x <- gpu(c(1, 2, 3))
  p <- gpu_pointer(x)
  from <- function(address = p$address, dim = 3, dtype = "float64", ...)
    gpu_from_pointer(address, dim, dtype, ..., device = test_device)
  refused <- function(call, kind) expect_error(call, class = paste0("verdigris_error_", kind))
  for (address in list(NULL, NA, NA_real_, -1, 1.5, 2^60, Inf, "", "0x", "0x-1", "0x+1", "12z", "-5", c("1", "2"), TRUE,
    1i, list(), mean, bit64::as.integer64(-1))) {
    refused(from(address), "argument")
  }
  for (address in list(0, "0", 0L)) refused(from(address), "argument")
  away <- if (test_device == "cpu") "argument" else "device"
  for (address in list(8, 64, "0x10000", 2^46, "0x7ffffffff000")) refused(from(address), away)
  refused(from("0xffffffffffffff00"), away)
  refused(from("0xfffffffffffffff0"), "shape")
  refused(from(dim = 1e12), "argument")
  refused(from(dim = c(1e6, 1e6)), "argument")
  refused(from(strides = 1e12), "argument")
  refused(from(dim = 1e18), "argument")
  refused(from(dim = c(2^30, 2^30)), "shape")
  refused(from(dim = c(2^31, 1), strides = c(0, 0)), "shape")
  refused(from(dim = 2^20, strides = 2^52), "shape")
  refused(from(strides = -2^52), "shape")
  refused(from(strides = 2^60), "argument")
  refused(from(p$address + 4), "argument")
  refused(from(p$address + 1, dtype = "int16"), "argument")
  refused(from(dtype = "float8"), "dtype")
  refused(from(dtype = NULL), "argument")
  refused(from(dtype = NA), "argument")
  refused(gpu_from_pointer(p$address, 3), "argument")
  refused(from(dim = -1), "argument")
  refused(from(dim = NULL), "argument")
  refused(from(dim = "3"), "argument")
  refused(from(dim = 1.5), "argument")
  refused(from(strides = c(1, 2)), "argument")
  refused(from(strides = 1.5), "argument")
  refused(from(strides = NA), "argument")
  refused(from(on_free = 1), "argument")
  refused(from(read_only = NA), "argument")
  refused(gpu_from_pointer(p$address, 3, "float64", device = "tpu"), "device")
  refused(gpu_from_pointer(new("externalptr"), 3, "float64", device = test_device), "argument")
  saved <- unserialize(serialize(p, NULL)) # an address of another process, whose owner is empty
  refused(gpu_from_pointer(saved), "argument")
  bytes <- gpu_pointer(gpu(c(2L, 3L), "uint8"))
  refused(gpu_from_pointer(bytes, dtype = "bool8"), "dtype")
})

test_that("memory that the system protects is read-only", {
  skip_on_os(c("windows", "mac"))
  maps <- readLines("/proc/self/maps")
  range <- strsplit(grep(" r--p .*libR[.]so", maps, value = TRUE)[[1]], "[- ]")[[1]]
  constant <- gpu_from_pointer(paste0("0x", range[[1]]), 4, "uint8", device = "cpu")
  expect_identical(collect(constant), c(0x7fL, 0x45L, 0x4cL, 0x46L)) # an ELF header
  gpu_compute(constant * 0L, out = constant)
  expect_identical(collect(gpu_from_pointer(paste0("0x", range[[1]]), 1, "uint8", device = "cpu")), 0x7fL)
  size <- diff(as.numeric(paste0("0x", range[1:2])))
  last <- maps[[length(maps)]]
  expect_error(gpu_from_pointer(paste0("0x", range[[1]]), size + 2^40, "uint8", device = "cpu"),
    class = "verdigris_error_argument")
})

test_that("array interfaces go both ways", {
  for (dtype in setdiff(c("float64", "float32", "float16", "int8", "uint8", "int16", "int32", "int64", "complex64",
    "complex128"), "")) {
    x <- gpu(1:3, dtype)
    interface <- gpu_array_interface(x)
    y <- gpu_from_array_interface(interface)
    expect_identical(gpu_dtype(y), dtype)
    expect_identical(gpu_device(y), gpu_device(x))
    expect_identical(collect(y), collect(x))
    expect_identical(gpu_pointer(y)$address, interface$data[[1]])
  }
  expect_identical(gpu_array_interface(gpu(1:3))[c("typestr", "shape", "version")], list(typestr = "<i4", shape = 3L,
    version = 3L))
  expect_identical(collect(gpu_from_array_interface(gpu_array_interface(gpu(c(TRUE, FALSE))))), c(TRUE, FALSE))
  expect_error(gpu_array_interface(gpu(c(TRUE, NA))), class = "verdigris_error_dtype")
  expect_error(gpu_array_interface(gpu(1, "bfloat16")), class = "verdigris_error_dtype")
  expect_error(gpu_array_interface(1), class = "verdigris_error_argument")
  m <- matrix(as.numeric(1:6), 2)
  x <- gpu(m)
  interface <- gpu_array_interface(x)
  expect_identical(interface$strides, c(8, 16))
  # without strides the elements are row after row
  rows <- utils::modifyList(interface, list(strides = NULL))
  attributes(rows)[c("device", "owner")] <- attributes(interface)[c("device", "owner")]
  expect_identical(collect(gpu_from_array_interface(rows)), matrix(1:6 + 0, 2, byrow = TRUE))
  rm(x)
  collect_garbage()
  expect_identical(collect(gpu_from_array_interface(interface)), m) # the list keeps the memory
  bad <- function(...) {
    changed <- interface
    fields <- list(...)
    for (name in names(fields)) changed[name] <- fields[name]
    tryCatch(gpu_from_array_interface(changed), error = function(e) sub("verdigris_error_", "", class(e)[[1]]))
  }
  expect_identical(bad(version = 4L), "argument")
  expect_identical(bad(version = 1L), "argument")
  expect_identical(bad(mask = 1), "argument")
  expect_identical(bad(data = list(1)), "argument")
  expect_identical(bad(data = list("x", FALSE)), "argument")
  expect_identical(bad(stream = 0L), "argument")
  expect_identical(bad(typestr = "<U4"), "dtype")
  expect_identical(bad(typestr = ">f8"), "dtype")
  expect_identical(bad(typestr = "<f"), "dtype")
  expect_identical(bad(strides = c(8, 12)), "shape")
  expect_identical(bad(strides = 8), "shape")
  expect_identical(bad(shape = "a"), "argument")
  for (name in c("shape", "typestr", "data", "version")) {
    expect_error(gpu_from_array_interface(unclass(interface)[setdiff(names(interface), name)]),
      class = "verdigris_error_argument")
  }
  expect_error(gpu_from_array_interface(1), class = "verdigris_error_argument")
})
