describe <- function(capsule) .Call(verdigris:::C_dlpack_describe, capsule)

test_that("an array goes out as it lies in memory, and comes in again without a copy", {
  x <- gpu(matrix(as.numeric(1:6), 2))
  for (versioned in c(TRUE, FALSE)) {
    capsule <- as_dlpack(x, versioned = versioned)
    expect_s3_class(capsule, "dlpack_capsule", exact = TRUE)
    info <- describe(capsule)
    expect_identical(info$tag, if (versioned) "dltensor_versioned" else "dltensor")
    expect_identical(info$shape, c(2, 3))
    expect_identical(info$strides, c(1, 2))
    expect_identical(info$dtype, "float64")
    expect_identical(info$read_only, versioned)
    y <- from_dlpack(capsule)
    expect_identical(describe(as_dlpack(y))$address, info$address)
    expect_identical(as.matrix(y), matrix(as.numeric(1:6), 2))
    expect_identical(class(y), class(x))
    expect_identical(gpu_device(y), gpu_device(x))
  }
  copy <- from_dlpack(as_dlpack(x), copy = TRUE)
  expect_false(describe(as_dlpack(copy))$address == describe(as_dlpack(x))$address)
  expect_identical(collect(copy), collect(x))
})

test_that("a capsule is used once", {
  x <- gpu(c(1, 2, 3))
  capsule <- as_dlpack(x)
  expect_identical(collect(from_dlpack(capsule)), c(1, 2, 3))
  expect_error(from_dlpack(capsule), class = "verdigris_error_consumed")
  expect_identical(.Call(verdigris:::C_dlpack_describe, capsule), "used_dltensor_versioned")
  saved <- unserialize(serialize(as_dlpack(x), NULL))
  expect_error(from_dlpack(saved), class = "verdigris_error_consumed")
  expect_error(from_dlpack(1), class = "verdigris_error_argument")
  expect_error(as_dlpack("a"), class = "verdigris_error_argument")
  expect_error(from_dlpack(NULL), class = "verdigris_error_argument")
  expect_error(as_dlpack(x, versioned = NA), class = "verdigris_error_argument")
})

test_that("every type keeps its values; what is recorded is computed", {
  for (x in list(1:3, c(1.5, NA, -Inf), c(TRUE, FALSE), c(1 + 2i, 0i))) {
    expect_identical(collect(from_dlpack(as_dlpack(gpu(x)))), x)
  }
  for (dtype in c("float32", "float16", "bfloat16", "int8", "uint8", "int16", "int64", "complex64")) {
    y <- from_dlpack(as_dlpack(gpu(1:3, dtype)))
    expect_identical(gpu_dtype(y), dtype)
    expect_identical(collect(y), collect(gpu(1:3, dtype)))
  }
  expect_identical(collect(from_dlpack(as_dlpack(gpu(c(1, 2)) * 2 + 1))), c(3, 5))
})

test_that("views go out with their strides", {
  x <- gpu(matrix(as.numeric(1:6), 2))
  capsule <- as_dlpack(t(x))
  y <- from_dlpack(capsule)
  expect_identical(as.matrix(y), t(matrix(as.numeric(1:6), 2)))
  expect_identical(as.matrix(y * 2 + t(x)), 3 * t(matrix(as.numeric(1:6), 2)))
})

test_that("shapes: none, one, zero, three", {
  expect_identical(describe(as_dlpack(gpu(numeric())))$shape, 0)
  expect_identical(collect(from_dlpack(as_dlpack(gpu(numeric())))), numeric())
  expect_identical(dim(from_dlpack(as_dlpack(gpu(matrix(0, 0, 3))))), c(0L, 3L))
  a <- array(1:24, 2:4)
  expect_identical(as.array(from_dlpack(as_dlpack(gpu(a)))), a)
  expect_null(dim(from_dlpack(as_dlpack(gpu(1:3)))))
})

test_that("a logical array with NA stays", {
  e <- expect_error(as_dlpack(gpu(c(TRUE, NA))), class = "verdigris_error_dtype")
  expect_match(conditionMessage(e), "NA", fixed = TRUE)
  expect_identical(collect(from_dlpack(as_dlpack(gpu_cast(gpu(c(TRUE, NA)), "int32")))), c(1L, NA))
})

test_that("memory lives as long as someone uses it", {
  before <- alive()[["handles"]]
  local({
    x <- gpu(c(1, 2, 3) + 0)
    capsule <- as_dlpack(x)
    rm(x)
    gc()
    y <- from_dlpack(capsule)
    rm(capsule)
    gc()
    expect_identical(collect(y + 1), c(2, 3, 4))
    as_dlpack(y) # nobody takes it
  })
  expect_lte(alive()[["handles"]] - before, 1)
})

test_that("values stay values", {
  x <- gpu(c(1, 2, 3))
  y <- from_dlpack(as_dlpack(x))
  x[2] <- 20
  expect_identical(collect(y), c(1, 2, 3))
  y[1] <- 10
  expect_identical(collect(x), c(1, 20, 3))
})

test_that("what R only reads stays shared, and is read again", {
  x <- gpu(c(3, 1, 2))
  y <- from_dlpack(as_dlpack(x))
  address <- describe(as_dlpack(y))$address
  expect_identical(base::order(y), c(2L, 3L, 1L)) # asks for a pointer to write
  expect_identical(collect(y + 1), c(4, 2, 3))
  expect_identical(describe(as_dlpack(y))$address, address)
  z <- unclass(y)
  z[1] <- 7
  expect_identical(collect(y), c(3, 1, 2))
})

# Reads of every kind, of which none may be a copy that was kept: an element, a region, a pointer, what is computed, a
# view.
reads <- list(
  element = function(y) y[[2]], elements = function(y) vapply(seq_along(y), function(k) .subset2(y, k), 0),
  region = function(y) utils::head(as.vector(y), 3), pointer = function(y) base::rev(base::order(y)), all = function(y)
    collect(y),
  computed = function(y) collect(y * 2), sum = function(y) sum(y) + 0, sorted = function(y)
    collect(sort(y)), subset = function(y) collect(y[c(3, 1)]),
  view = function(y) collect(y[2:3]), mean = function(y) base::mean.default(unclass(y)), deparsed = function(y)
    deparse(as.vector(y)),
  duplicate = function(y) { names(y) <- c("a", "b", "c"); sum(as.vector(y)) }, matrix = function(y)
    collect(matrix(y, 3) %*% c(1, 2))
)

test_that("each read sees what was written meanwhile, and nothing that was recorded changes", {
  x <- gpu(c(1, 2, 3))
  y <- from_dlpack(as_dlpack(x, writable = TRUE)) # two owners of one memory
  write <- function(values) gpu_compute(gpu(values), out = x)
  for (values in list(c(1, 2, 3), c(30, 10, 20), c(-1, 5, 2))) {
    write(values)
    for (read in names(reads)) {
      expect_identical(reads[[read]](y), reads[[read]](values + 0), label = paste(read, "of a shared array"))
      expect_identical(reads[[read]](x), reads[[read]](values + 0), label = paste(read, "of the array"))
    }
  }
  before <- y * 2 + 1
  total <- sum(y)
  margins <- rowSums(matrix(y, 3))
  picked <- y[c(3, 1)]
  write(c(7, 8, 9))
  expect_identical(collect(before), c(-1, 11, 5))
  expect_identical(total + 0, 6)
  expect_identical(collect(margins), c(-1, 5, 2))
  expect_identical(collect(picked), c(2, -1))
  # the other way round
  gpu_compute(gpu(c(1, 1, 1)), out = y)
  expect_identical(collect(x), c(1, 1, 1))
  # R's own writing makes a new array, on either side
  y[1] <- 100
  x[2] <- 200
  expect_identical(list(collect(x), collect(y)), list(c(1, 200, 1), c(100, 1, 1)))
})

test_that("what is recorded or viewed before memory is lent to a writer keeps its values", {
  x <- gpu(c(1, 2, 3))
  recorded <- x * 10
  several <- ifelse(x > 1, x, -x)
  view <- x[2:3]
  y <- from_dlpack(as_dlpack(x, writable = TRUE))
  gpu_compute(y * 0, out = y)
  expect_identical(collect(x), c(0, 0, 0))
  expect_identical(collect(recorded), c(10, 20, 30))
  expect_identical(collect(several), c(-1, 2, 3))
  expect_identical(collect(view), c(2, 3))
  # nothing that could see it: no copy
  z <- gpu(c(1, 2, 3))
  address <- describe(as_dlpack(z))$address
  expect_identical(describe(as_dlpack(z, writable = TRUE))$address, address)
  expect_false(describe(as_dlpack(z, writable = TRUE))$read_only)
  # once nobody else holds it, it is an array like others: recorded, not computed
  rm(y)
  collect_garbage()
  w <- x + 1
  expect_identical(verdigris:::gpu_info(w)$pending, 1)
})

test_that("who may only read sees new values where nothing else would", {
  x <- gpu(c(1, 2, 3))
  y <- from_dlpack(as_dlpack(x))
  gpu_compute(gpu(c(4, 5, 6)), out = x)
  expect_identical(collect(y), c(4, 5, 6))
  recorded <- x * 2
  gpu_compute(gpu(c(0, 0, 0)), out = x)
  expect_identical(collect(recorded), c(8, 10, 12))
  expect_identical(collect(x), c(0, 0, 0))
  expect_identical(collect(y), c(4, 5, 6))
})

test_that("views of every kind go out without a copy", {
  x <- gpu(array(as.numeric(1:24), 2:4))
  start <- describe(as_dlpack(x))$address
  out <- function(v) {
    info <- describe(as_dlpack(v))
    list((info$address - start) / 8, info$shape, info$strides)
  }
  expect_identical(out(rev(gpu(x))), list(23, 24, -1))
  expect_identical(out(aperm(x, c(3, 1, 2))), list(0, c(4, 2, 3), c(6, 1, 2)))
  expect_identical(out(x[2, 2:3, c(4, 2)]), list(21, c(2, 2), c(2, -12)))
  collect_garbage() # a view that nobody has any more counts as one until it is collected
  expect_identical(out(gpu_as_strided(x, 24, -1, 23)), list(23, 24, -1))
  expect_identical(out(gpu_as_strided(x, c(5, 3), c(0, 2), 1)), list(1, c(5, 3), c(0, 2)))
  for (v in list(aperm(x, c(3, 1, 2)), x[2, 2:3, c(4, 2)], gpu_as_strided(x, c(5, 3), c(0, 2), 1))) {
    expect_identical(collect(from_dlpack(as_dlpack(v), copy = FALSE)), collect(v))
    expect_identical(collect(from_dlpack(as_dlpack(v), copy = FALSE) * 2), collect(v) * 2)
  }
})

test_that("sixteen dimensions go out and come in, in any order", {
  dims <- rep(2L, 16)
  a <- array(as.numeric(seq_len(2^16)), dims)
  order <- c(16:9, 1, 3, 5, 7, 2, 4, 6, 8)
  x <- aperm(gpu(a), order)
  y <- from_dlpack(as_dlpack(x), copy = FALSE)
  expect_identical(dim(y), dims)
  expect_identical(collect(y), aperm(a, order))
  expect_identical(collect(y + t(t(1))[1]), aperm(a, order) + 1)
  expect_identical(length(describe(as_dlpack(y))$strides), 16L)
})

test_that("a capsule's stream is an address, or none", {
  x <- gpu(c(1, 2))
  for (stream in list(NULL, 1, 1L, "0x1", "2", bit64::as.integer64(1), -1)) {
    expect_identical(collect(from_dlpack(as_dlpack(x, stream = stream))), c(1, 2))
  }
  s <- gpu_stream(device = test_device)
  expect_identical(collect(from_dlpack(as_dlpack(x, stream = s))), c(1, 2))
  expect_identical(gpu_pointer(x, stream = s)$address, gpu_pointer(x)$address)
  restored <- unserialize(serialize(s, NULL))
  for (stream in list(restored, gpu_event(test_device)))
    expect_error(as_dlpack(x, stream = stream), class = "verdigris_error_argument")
  if (test_device != "cpu") expect_error(as_dlpack(1:3 + 0, stream = s), class = "verdigris_error_device")
  expect_error(gpu_from_pointer(s, 1, "float64", device = test_device), "must be an address",
    class = "verdigris_error_argument")
  for (stream in list("x", -2, NA, 1.5, TRUE, list()))
    expect_error(as_dlpack(x, stream = stream), class = "verdigris_error_argument")
})

test_that("capsules print", {
  capsule <- as_dlpack(gpu(matrix(1:6, 2)))
  expect_output(print(capsule), "<dlpack_capsule dltensor_versioned>\nint32 [2 x 3] on", fixed = TRUE)
  expect_output(print(capsule), "strides 1 2, read-only", fixed = TRUE)
  from_dlpack(capsule)
  expect_output(print(capsule), "<dlpack_capsule used_dltensor_versioned>", fixed = TRUE)
})

numpy <- function() {
  skip_if_not_installed("reticulate")
  skip_if_not(tryCatch(reticulate::py_module_available("numpy"), error = function(e) FALSE), "numpy is not there")
  skip_if(test_device != "cpu")
  reticulate::import("numpy", convert = FALSE)
}
values <- function(there) reticulate::py_to_r(there$flatten()$tolist())

test_that("numpy and R share memory in one process", {
  # the engine's own tests exchange with numpy without R; this one goes through the R functions
  np <- numpy()
  x <- gpu(matrix(as.numeric(1:6), 2))
  for (versioned in c(TRUE, FALSE)) {
    there <- np$from_dlpack(as_dlpack(x, versioned = versioned))
    expect_identical(reticulate::py_to_r(there$tolist()), list(c(1, 3, 5), c(2, 4, 6)))
    expect_identical(reticulate::py_to_r(there$ctypes$data$`__float__`()), describe(as_dlpack(x))$address)
    expect_false(reticulate::py_to_r(there$flags$writeable))
  }
  # numpy's row-major arrays are views here
  row_major <- np$arange(6)$reshape(2L, 3L)$astype("float64")
  y <- from_dlpack(row_major)
  expect_identical(as.matrix(y), matrix(as.numeric(0:5), 2, byrow = TRUE))
  expect_identical(describe(as_dlpack(y))$strides, c(3, 1))
  row_major$fill(7)
  expect_identical(collect(y), matrix(7, 2, 3))
  expect_error(from_dlpack(np$arange(3, dtype = "uint32")), class = "verdigris_error_dtype")
})

test_that("numpy writes and R reads, R writes and numpy reads", {
  np <- numpy()
  # memory of numpy's: row-major, so R's writing goes where it lies
  there <- np$arange(6, dtype = "float64")$reshape(2L, 3L)
  here <- from_dlpack(there)
  host <- base::sum(unclass(here)) # leaves a host copy behind, were it not shared
  expect_identical(host, 15)
  reticulate::py_set_item(there, reticulate::tuple(0L, 0L), 100)
  expect_identical(collect(here)[1, 1], 100)
  expect_identical(base::sum(unclass(here)), 115)
  expect_output(print(here), "100")
  doubled <- here * 2
  there$fill(1)
  expect_identical(collect(doubled), matrix(c(200, 6, 2, 8, 4, 10), 2))
  gpu_compute(gpu(matrix(as.numeric(1:6), 2)), out = here)
  expect_identical(values(there), c(1, 3, 5, 2, 4, 6))
  # memory of R's
  x <- gpu(c(1, 2, 3))
  there <- np$from_dlpack(as_dlpack(x, writable = TRUE))
  expect_true(reticulate::py_to_r(there$flags$writeable))
  reticulate::py_set_item(there, 1L, 100)
  expect_identical(collect(x), c(1, 100, 3))
  gpu_compute(x + 1, out = x)
  expect_identical(values(there), c(2, 101, 4))
})

test_that("either side may go first", {
  np <- numpy()
  there <- np$from_dlpack(as_dlpack(gpu(c(1, 2, 3)) + 0))
  collect_garbage()
  expect_identical(values(there), c(1, 2, 3))
  here <- from_dlpack(np$arange(3, dtype = "float64"))
  reticulate::import("gc")$collect()
  expect_identical(collect(here), c(0, 1, 2))
  # strides of every sign, and none
  a <- np$arange(24, dtype = "int32")$reshape(2L, 3L, 4L)
  expect_identical(collect(from_dlpack(a)), aperm(array(0:23, 4:2)))
  expect_identical(collect(from_dlpack(np$flip(a))), aperm(array(23:0, 4:2)))
  expect_identical(collect(from_dlpack(np$broadcast_to(np$arange(3, dtype = "int32"), reticulate::tuple(2L, 3L)))),
    matrix(rep(0:2, each = 2), 2))
  expect_identical(values(np$from_dlpack(as_dlpack(rev(gpu(1:3))))), 3:1)
  capsule <- as_dlpack(gpu(1))
  np$from_dlpack(capsule)
  expect_error(np$from_dlpack(capsule), class = "verdigris_error_consumed")
})

test_that("array interfaces describe the same memory to numpy", {
  np <- numpy()
  x <- gpu(matrix(as.numeric(1:6), 2))
  interface <- gpu_array_interface(x)
  holder <- reticulate::py_run_string("
class Holder:
    def __init__(self, shape, typestr, address, strides):
        self.__array_interface__ = dict(
            shape=tuple(int(k) for k in shape), typestr=typestr, data=(int(address), False), strides=tuple(int(k) for k in strides), version=3)
", local = TRUE, convert = FALSE)$Holder
  there <- np$asarray(holder(interface$shape, interface$typestr, interface$data[[1]], interface$strides))
  expect_identical(values(there), c(1, 3, 5, 2, 4, 6))
  reticulate::py_set_item(there, reticulate::tuple(1L, 2L), -1)
  expect_identical(collect(x)[2, 3], -1)
  # an address as a number of Python's would become one of R's integers
  back <- list(
    shape = c(2, 3), typestr = reticulate::py_to_r(there$dtype$str),
      data = list(reticulate::py_to_r(there$ctypes$data$`__str__`()), FALSE),
    strides = as.list(reticulate::py_to_r(there$strides)), version = 3L
  )
  y <- gpu_from_array_interface(back, device = "cpu", owner = there)
  expect_identical(collect(y), collect(x))
  expect_identical(gpu_pointer(y)$address, interface$data[[1]])
})
