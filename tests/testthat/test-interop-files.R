# Arrays in safetensors files: round trips, files as Python reads and writes them, and broken files.

round_trip <- function(x, ...) {
  file <- withr::local_tempfile()
  gpu_save(x, file, ...)
  gpu_load(file, device = test_device)
}

test_that("arrays come back as they were", {
  cases <- list(
    c(1.5, NA, NaN, -Inf), 1:3, c(NA, 2L), c(TRUE, FALSE), c(TRUE, NA, FALSE), c(1 + 2i, NA), c(a = 1, b = 2),
    matrix(as.numeric(1:6), 2), matrix(1:6, 2, dimnames = list(NULL, c("x", NA, "z"))),
      matrix(1:4, 2, dimnames = list(rows = c("a", "b"), NULL)),
    array(as.numeric(1:24), 2:4), array(1:3, 3), array(1:2, 2, list(c("u", "v"))), matrix(c(TRUE, NA, FALSE, TRUE), 2),
    matrix(complex(real = 1:6, imaginary = 6:1), 2), ts(c(1, 2, 3), start = c(2020, 2), frequency = 12), numeric(),
      matrix(0, 0, 3), 7
  )
  for (x in cases) {
    y <- round_trip(gpu(x))
    expect_identical(collect(y), x)
    expect_identical(class(y), class(gpu(x)))
    expect_identical(gpu_dtype(y), gpu_dtype(gpu(x)))
    expect_identical(gpu_device(y), test_device)
  }
  for (dtype in c("float32", "float16", "bfloat16", "int8", "uint8", "int16", "int64", "complex64")) {
    y <- round_trip(gpu(matrix(1:6, 2), dtype))
    expect_identical(gpu_dtype(y), dtype)
    expect_identical(collect(y), collect(gpu(matrix(1:6, 2), dtype)))
  }
})

test_that("views and what is recorded are saved", {
  m <- matrix(as.numeric(1:20), 4)
  expect_identical(collect(round_trip(t(gpu(m)))), t(m))
  expect_identical(collect(round_trip(gpu(m)[3:2, ] * 2)), m[3:2, ] * 2)
  expect_identical(collect(round_trip(aperm(gpu(array(1:24, 2:4)), c(3, 1, 2)))), aperm(array(1:24, 2:4), c(3, 1, 2)))
})

test_that("lists keep their names and their order", {
  x <- list(b = gpu(1:2), a = gpu(c(TRUE, FALSE, TRUE)), `c d` = c(1, 2), "\u00e9\"\\" = gpu(1, "float32"))
  file <- withr::local_tempfile()
  expect_identical(withVisible(gpu_save(x, file)), list(value = file, visible = FALSE))
  y <- gpu_load(file, device = test_device)
  expect_identical(names(y), names(x))
  expect_identical(lapply(y, collect), lapply(x, collect))
  expect_identical(names(gpu_load(file, names = c("c d", "b"), device = "cpu")), c("c d", "b"))
  expect_identical(length(gpu_load(file, names = character())), 0L)
  e <- expect_error(gpu_load(file, names = "z"), class = "verdigris_error_argument")
  expect_match(conditionMessage(e), "no tensor \"z\"", fixed = TRUE)
  expect_length(round_trip(list()), 0)
  expect_identical(names(round_trip(data.frame(u = 1:2, v = c(1, 2)))), c("u", "v"))
  expect_identical(attr(round_trip(list(a = gpu(1)), metadata = c(format = "pt")), "metadata"), c(format = "pt"))
})

test_that("a file that was there is replaced whole, or not at all", {
  folder <- withr::local_tempdir()
  file <- file.path(folder, "x")
  gpu_save(gpu(1:3), file)
  gpu_save(gpu(c(1, 2)), file)
  expect_identical(collect(gpu_load(file)), c(1, 2))
  expect_error(gpu_save(list(a = gpu(1), a = gpu(2)), file), class = "verdigris_error_argument")
  expect_error(gpu_save(list(a = "text"), file), class = "verdigris_error_dtype")
  expect_identical(collect(gpu_load(file)), c(1, 2))
  expect_identical(dir(folder), "x")
})

test_that("wrong arguments and files are refused", {
  file <- withr::local_tempfile()
  expect_error(gpu_save(list(gpu(1)), file), class = "verdigris_error_argument")
  expect_error(gpu_save(gpu(1), file, metadata = "a"), class = "verdigris_error_argument")
  for (path in list(NULL, NA_character_, 1, c("a", "b"), "")) {
    expect_error(gpu_save(gpu(1), path), class = "verdigris_error_argument")
    expect_error(gpu_load(path), class = "verdigris_error_argument")
  }
  expect_error(gpu_load(file), class = "verdigris_error_file")
  expect_error(gpu_load(tempdir()), class = "verdigris_error_file")
  expect_error(gpu_save(gpu(1), file.path(file, "x")), class = "verdigris_error_file")
  expect_error(gpu_load(file, names = 1), class = "verdigris_error_argument")
  expect_error(gpu_load(file, names = NA_character_), class = "verdigris_error_argument")

  header <- function(text, data = raw()) {
    bytes <- charToRaw(text)
    writeBin(c(as.raw(length(bytes) %% 256), as.raw(length(bytes) %/% 256), raw(6), bytes, data), file)
  }
  tensor <- function(dtype, shape, from, to) sprintf('{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}', dtype, shape,
    from, to)
  refused <- function(pattern, kind = "file")
    expect_error(gpu_load(file, device = test_device), pattern, class = paste0("verdigris_error_", kind))
  header(sprintf('{"a":%s}', tensor("U8", "3", 0, 3)), as.raw(1:3))
  expect_identical(collect(gpu_load(file, device = test_device)$a), 1:3)
  header(sprintf('{"a":%s,"b":%s}', tensor("U8", "2", 0, 2), tensor("U8", "2", 1, 3)), as.raw(1:3)); refused("overlaps")
  header(sprintf('{"a":%s}', tensor("U8", "4", 0, 4)), as.raw(1:3)); refused("truncated")
  header(sprintf('{"a":%s}', tensor("F64", "2", 0, 3)), as.raw(1:3)); refused("has 3 bytes")
  header(sprintf('{"a":%s', tensor("U8", "3", 0, 3)), as.raw(1:3)); refused("not JSON")
  header(sprintf('{"a":%s,"a":%s}', tensor("U8", "3", 0, 3), tensor("U8", "0", 3, 3)), as.raw(1:3)); refused("twice")
  header(sprintf('{"a":%s}', tensor("BOOL", "3", 0, 3)), as.raw(0:2)); refused("0 and 1")
  header(sprintf('{"a":%s}', tensor("U16", "2", 0, 4)), as.raw(1:4)); refused("U16", "dtype")
  header('{"a\\u0000":1}'); refused("no character")
  # attributes that do not fit
  header(sprintf('{"__metadata__":{"verdigris":"%s"},"a":%s}',
    '{\\"a\\":{\\"names\\":[\\"x\\"],\\"dimnames\\":[1],\\"tsp\\":[1,2,3]}}', tensor("U8", "3", 0, 3)), as.raw(1:3))
  expect_warning(y <- gpu_load(file, device = test_device), "do not fit")
  expect_identical(collect(y$a), 1:3)
  for (text in c("[", "1", "{\\\"a\\\":{\\\"dtype\\\":\\\"complex128\\\"}}", "{\\\"a\\\":[1]}")) {
    header(sprintf('{"__metadata__":{"verdigris":"%s"},"a":%s}', text, tensor("U8", "3", 0, 3)), as.raw(1:3))
    expect_identical(collect(gpu_load(file, device = test_device)$a), 1:3)
  }
})

test_that("sources and device code are read from regular files only", {
  skip_on_os("windows")
  folder <- withr::local_tempdir()
  at <- function(name) file.path(folder, name)
  system2("mkfifo", shQuote(at("fifo.cu")))
  file.symlink(at("fifo.cu"), at("link.cubin"))
  writeLines("extern \"C\" __global__ void f(float* x) { }", at("source.cu"))
  out <- expect_child_ends(c(
    "said <- function(e) cat(class(e)[[1L]], conditionMessage(e), \"\\n\")",
    sprintf("for (path in %s) {", paste(deparse(c(at("fifo.cu"), at("link.cubin"), "/dev/null", "/dev/zero")),
      collapse = "")),
    "tryCatch(gpu_module(path = path), error = said)",
    sprintf("tryCatch(gpu_module(path = %s, link = path), error = said)", deparse(at("source.cu"))), "}"
  ), timeout = 30)
  expect_length(grep("^verdigris_error_file .*cannot be read: it is a (FIFO|device), not a file", out), 8L)
  expect_length(grep("`path` must name a regular file", out), 4L)
  expect_length(grep("`link` must name a regular file", out), 4L)
})

test_that("what is no regular file is neither written nor read", {
  skip_on_os("windows")
  folder <- withr::local_tempdir()
  at <- function(name) file.path(folder, name)
  system2("mkfifo", shQuote(at("fifo")))
  file.symlink(at("fifo"), at("link"))
  dir.create(at("folder"))
  before <- dir(folder, all.files = TRUE)
  out <- expect_child_ends(c(
    "said <- function(e) cat(class(e)[[1L]], conditionMessage(e), \"\\n\")",
    sprintf("for (path in %s) {", paste(deparse(c(at("fifo"), at("link"), at("folder"), "/dev/null", "/dev/full")),
      collapse = "")),
    "tryCatch(gpu_save(as_gpu(1), path), error = said); tryCatch(gpu_load(path), error = said)", "}"
  ))
  expect_length(grep("^verdigris_error_file .*cannot be (written|read): it is a (FIFO|device|folder), not a file", out),
    10L)
  expect_length(grep("`path` must name a regular file", out), 10L)
  expect_identical(dir(folder, all.files = TRUE), before)
  expect_identical(system2("stat", c("-c", "%F", shQuote(at("fifo"))), stdout = TRUE), "fifo")
  expect_identical(system2("stat", c("-c", "%F", "/dev/null"), stdout = TRUE), "character special file")
})

test_that("links stay, modes are kept, and new files have the umask's", {
  skip_on_os("windows")
  folder <- withr::local_tempdir()
  at <- function(name) file.path(folder, name)
  mode <- function(name) format(file.info(at(name))$mode)
  before <- Sys.umask("027")
  gpu_save(gpu(1), at("x"))
  Sys.umask(before)
  expect_identical(mode("x"), "640")
  for (kept in c("600", "644", "666")) {
    Sys.chmod(at("x"), kept, use_umask = FALSE)
    gpu_save(gpu(2), at("x"))
    expect_identical(mode("x"), kept)
  }
  dir.create(at("below"))
  file.symlink("x", at("a"))
  file.symlink("a", at("b"))
  file.symlink("below/y", at("new"))
  gpu_save(gpu(3), at("b"))
  gpu_save(gpu(4), at("new"))
  expect_identical(Sys.readlink(at(c("a", "b", "new"))), c("x", "a", "below/y"))
  expect_identical(collect(gpu_load(at("x"), device = test_device)), 3)
  expect_identical(collect(gpu_load(at("below/y"), device = test_device)), 4)
  # in the working directory, without a folder
  withr::with_dir(folder, gpu_save(gpu(5), "here"))
  expect_identical(collect(gpu_load(at("here"), device = test_device)), 5)
  expect_setequal(dir(folder, all.files = TRUE, no.. = TRUE), c("a", "b", "below", "here", "new", "x"))
})

test_that("a full disk leaves the file as it was, and what killed processes have left is removed", {
  skip_on_os(c("mac", "windows"))
  folder <- withr::local_tempdir()
  file <- file.path(folder, "x")
  gpu_save(gpu(c(1, 2)), file)
  # a file may have 100 kB
  out <- in_child(
    c(sprintf("r <- tryCatch(gpu_save(as_gpu(as.double(1:1e5)), %s), error = function(e) class(e)[[1L]])",
      deparse(file)), "cat(r)"),
    limits = "ulimit -f 100; trap '' XFSZ"
  )
  expect_identical(out[[length(out)]], "verdigris_error_file")
  expect_identical(collect(gpu_load(file, device = test_device)), c(1, 2))
  expect_identical(dir(folder, all.files = TRUE, no.. = TRUE), "x")
  left <- file.path(folder, c(".verdigris-0123456789abcdef.part", ".verdigris-0123456789abcdee.part", "theirs.part"))
  file.create(left)
  Sys.setFileTime(left[c(1, 3)], Sys.time() - 3600)
  out <- expect_child_ends(sprintf("gpu_save(as_gpu(1), %s)", deparse(file)))
  # a young one may be at work
  expect_identical(file.exists(left), c(FALSE, TRUE, TRUE))
})

test_that("headers that are deep, long or contradictory are errors", {
  file <- withr::local_tempfile()
  header <- function(text, length = nchar(text, "bytes"), data = raw()) {
    size <- as.raw(length %/% 256^(0:7) %% 256)
    writeBin(c(size, charToRaw(text), data), file)
  }
  refused <- function(pattern)
    expect_error(gpu_load(file, device = test_device), pattern, class = "verdigris_error_file")
  deep <- strrep("[", 1e5)
  header(paste0("{\"a\":", deep)); refused("nested too deeply")
  header(paste0("{\"a\":", strrep("{\"a\":", 1e5))); refused("nested too deeply")
  header(sprintf("{\"__metadata__\":{\"verdigris\":\"%s\"},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", deep), data = as.raw(7))
  expect_identical(collect(gpu_load(file, device = test_device)$a), 7L)
  for (length in c(3, 1e6, 2^40, 2^62)) {
    header("{}", length)
    refused("header")
  }
  tensor <- function(shape, from, to) sprintf("{\"dtype\":\"U8\",\"shape\":[%s],\"data_offsets\":[%s,%s]}", shape, from,
    to)
  for (wrong in list(
    tensor("4294967296,4294967296", 0, 0), tensor("18446744073709551615", 0, "18446744073709551615"), tensor("1", 5, 6),
    tensor("2", 1, 0), tensor("99999999999999999999", 0, 1), tensor("1", "18446744073709551615", "18446744073709551616")
  )) {
    header(sprintf("{\"a\":%s}", wrong), data = as.raw(1))
    refused("tensor|truncated")
  }
})

test_that("Python's safetensors and R read each other's files", {
  skip_if_not_installed("reticulate")
  skip_if_not(tryCatch(reticulate::py_module_available("safetensors.numpy"), error = function(e) FALSE),
    "safetensors is not there")
  safetensors <- reticulate::import("safetensors.numpy", convert = FALSE)
  np <- reticulate::import("numpy", convert = FALSE)
  file <- withr::local_tempfile()
  m <- matrix(as.numeric(1:6), 2)
  a <- array(1:24, 2:4)
  gpu_save(list(m = gpu(m), t = t(gpu(m)), a = gpu(a), half = gpu(m, "float16"), flag = gpu(c(TRUE, FALSE)),
    z = gpu(c(1 + 2i, 3i))), file, metadata = c(by = "R"))
  there <- safetensors$load_file(file)
  # in row-major order, in which Python walks them
  expect_seen <- function(x, expected) {
    expect_identical(as.integer(unlist(reticulate::py_to_r(x$shape))), if (is.null(dim(expected))) length(expected) else
      dim(expected))
    expect_identical(unlist(reticulate::py_to_r(x$ravel()$tolist())), as.vector(aperm(as.array(expected))))
  }
  expect_seen(there["m"], m)
  expect_seen(there["t"], t(m))
  expect_seen(there["a"], a)
  expect_identical(reticulate::py_to_r(there["half"]$dtype$name), "float16")
  expect_seen(there["flag"], c(TRUE, FALSE))
  expect_seen(there["z"], matrix(c(1, 0, 2, 3), 2))

  safetensors$save_file(reticulate::dict(b = np$arange(6L, dtype = "int32")$reshape(2L, 3L), s = np$array(2.5),
    e = np$zeros(list(0L, 2L))), file, metadata = reticulate::dict(format = "np"))
  here <- gpu_load(file, device = test_device)
  expect_setequal(names(here), c("b", "s", "e"))
  expect_identical(collect(here$b), matrix(0:5, 2, byrow = TRUE))
  expect_identical(collect(here$s), 2.5)
  expect_identical(dim(here$e), c(0L, 2L))
  expect_identical(attr(here, "metadata"), c(format = "np"))
})
