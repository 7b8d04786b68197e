chunked <- function(...) gpu_chunked(..., device = test_device)

test_that("a vector in chunks is the vector", {
  x <- c(1.5, NA, -3, 4, 5, 6, 7)
  for (chunk in c(1, 2, 3, 7, 100)) {
    expect_identical(chunked(x, function(x) x * 2, chunk = chunk), x * 2)
    expect_identical(chunked(x, identity, chunk = chunk), x)
    expect_identical(chunked(x, length, list, chunk = chunk), as.list(as.integer(diff(unique(c(seq(0, 7, chunk), 7))))))
  }
  expect_identical(chunked(x, function(x) x), x)
  expect_identical(chunked(1:10, sum, "+", chunk = 3), 55L)
  expect_identical(chunked(c(TRUE, NA, FALSE), function(x) !x, chunk = 2), c(FALSE, NA, TRUE))
  expect_identical(chunked(c(1i, 2, NA), Re, chunk = 2), c(0, 2, NA))
  expect_null(chunked(double(), sum))
})

test_that("every dtype arrives as it does in one piece", {
  x <- c(1.7, -2, 100, NA, NaN, 300)
  for (dtype in c("float32", "float16", "bfloat16", "int8", "int16", "int32", "int64", "bool8", "complex64",
    "complex128", "float64")) {
    whole <- suppressWarnings(as.vector(gpu(x, dtype)))
    expect_identical(suppressWarnings(chunked(x, as.vector, chunk = 4, dtype = dtype)), whole, label = dtype)
  }
})

test_that("rows and columns of a matrix, with their names", {
  m <- matrix(as.double(1:35), 7, dimnames = list(letters[1:7], LETTERS[1:5]))
  for (chunk in c(1, 2, 5, 9)) {
    expect_identical(chunked(m, function(x) collect(x), cbind, chunk = chunk), m)
    expect_identical(chunked(m, function(x) x + 1, cbind, chunk = chunk), m + 1)
    expect_identical(chunked(m, function(x) x + 1, rbind, chunk = chunk, margin = 1), m + 1)
    expect_identical(chunked(m, colSums, chunk = chunk), colSums(m))
    expect_identical(chunked(m, rowSums, chunk = chunk, margin = 1), rowSums(m))
    expect_identical(chunked(m, function(x) dim(x), rbind, chunk = chunk, margin = 1, dtype = "int16")[, 2],
      rep(5L, ceiling(7 / chunk)))
    # accumulated on the device
    expect_identical(as.vector(chunked(m, rowSums, "+", chunk = chunk)), as.vector(rowSums(m)))
  }
})

test_that("a reader is asked until it has no more", {
  asked <- NULL
  reader <- function(total) {
    at <- 0
    function(n) {
      asked <<- c(asked, n)
      n <- min(n, total - at)
      at <<- at + n
      if (n > 0) as.double(seq.int(at - n + 1, length.out = n))
    }
  }
  expect_identical(chunked(reader(10), function(x) x^2, chunk = 4), (1:10)^2)
  expect_identical(asked, c(4, 4, 4, 4))
  expect_identical(chunked(reader(10), sum, "+", chunk = 10), 55)
  expect_null(chunked(function(n) NULL, sum))
  # matrices, and arrays made on the device
  left <- 3
  rows <- function(n) if ((left <<- left - 1) >= 0) matrix(left, n, 2, dimnames = list(NULL, c("a", "b")))
  expect_identical(chunked(rows, colSums, rbind, chunk = 5), cbind(a = c(10, 5, 0), b = c(10, 5, 0)))
  left <- 3
  made <- function(n) if ((left <<- left - 1) >= 0) gpu_full(left, n, device = test_device)
  expect_identical(chunked(made, function(x) x, chunk = 2), c(2, 2, 1, 1, 0, 0))
})

test_that("chunks are freed, also where f fails", {
  before <- alive()[["device"]]
  x <- as.double(1:4e6)
  peak <- 0
  total <- chunked(x, function(x) {
    peak <<- max(peak, gpu_memory(test_device)[["live"]])
    sum(x)
  }, "+", chunk = 2e5)
  expect_identical(total, sum(x))
  expect_lte(peak - before, 3 * 1.6e6)
  expect_error(chunked(x, function(x) stop("halt"), chunk = 1e5), "halt")
  expect_error(chunked(function(n) stop("no more"), sum), "no more")
  expect_lte(alive()[["device"]], before)
  # a chunk that f has kept says that it is gone
  kept <- NULL
  chunked(c(1, 2, 3), function(x) { kept <<- x; 1 })
  expect_error(as.vector(kept), class = "verdigris_error_consumed")
})

test_that("what cannot be streamed is refused", {
  expect_error(chunked("a", sum), class = "verdigris_error_dtype")
  expect_error(chunked(factor("a"), sum), class = "verdigris_error_dtype")
  expect_error(chunked(function(n) "a", sum), class = "verdigris_error_dtype")
  expect_error(chunked(1:3, sum, chunk = 0), class = "verdigris_error_argument")
  expect_error(chunked(1:3, sum, chunk = "a"), class = "verdigris_error_argument")
  expect_error(chunked(1:3, sum, margin = 1), class = "verdigris_error_argument")
  expect_error(chunked(matrix(1, 2, 2), sum, margin = 3), class = "verdigris_error_argument")
  expect_error(chunked(1:3, sum, dtype = "float12"), class = "verdigris_error_dtype")
  expect_error(chunked(1:3, "nofunction_"), "nofunction_")
})

test_that("progress goes to progressr where that is loaded", {
  skip_if_not_installed("progressr")
  loadNamespace("progressr")
  old <- options(progressr.enable = TRUE)
  on.exit(options(old))
  progress <- list()
  note <- function(p) progress[[length(progress) + 1L]] <<- p[c("type", "max_steps", "amount")]
  run <- function(...) withCallingHandlers(gpu_chunked(..., device = test_device), progression = function(p) {
    note(unclass(p))
    if (!is.null(findRestart("muffleProgression"))) invokeRestart("muffleProgression")
  })
  expect_identical(run(c(1, 2, 3, 4, 5), sum, combine = "+", chunk = 2), 15)
  types <- vapply(progress, `[[`, "", "type")
  expect_identical(sum(types == "update"), 3L)
  expect_identical(types[1L], "initiate")
  # an end that is not known, nothing at all, and a function that fails
  progress <- list()
  left <- 2
  expect_identical(run(function(n) if ((left <<- left - 1) >= 0) c(1, 2), sum, combine = "+"), 6)
  expect_identical(run(numeric(), sum), NULL)
  expect_identical(progress, list())
  expect_error(run(c(1, 2), function(x) stop("no")), class = "verdigris_error_chunk")
})

test_that("chunks of complex numbers have as many bytes as those of doubles", {
  size <- function(...) verdigris:::chunk_size(NULL, 1, ..., device = "cpu")
  expect_equal(size("complex128"), size("float64") / 2)
  expect_equal(size("complex64"), size("float64"))
  expect_equal(size(NULL), size("float64"))
})
