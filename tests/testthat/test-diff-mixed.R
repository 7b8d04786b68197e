# Operands that mean more than numbers: with them base R computes, on the host.

test_that("dates, times, factors and units meet arrays as they meet vectors", {
  n <- c(1, 2, 3)
  day <- as.Date("2024-03-01") + 0:2
  others <- list(day, as.difftime(c(1, 2, 3), units = "hours"), as.POSIXct("2024-03-01", tz = "UTC") + 0:2,
    factor(c("a", "b", "a")), as.POSIXlt("2024-03-01", tz = "UTC"), "text")
  found <- list()
  for (other in others) for (r in c("+", "-", "*", "/", "==", "<", "%%", "&", "^")) {
    f <- get(r, baseenv())
    what <- paste(class(other)[1L], r)
    found <- c(found, compare(f, list(n, list(other)), what = paste("array", what)), compare(f, list(list(other), n),
      what = paste(what, "array")))
  }
  expect_all_same(found)
})

test_that("integer64 meets arrays of integers exactly", {
  big <- bit64::as.integer64("9007199254740993")
  x <- gpu(c(1L, 2L))
  for (total in list(x + big, big + x)) {
    expect_true(is_gpu(total))
    expect_identical(gpu_dtype(total), "int64")
    expect_identical(as.character(collect(total)), c("9007199254740994", "9007199254740995"))
  }
  expect_identical(collect(big > x), c(TRUE, TRUE))
  expect_identical(as.character(collect(gpu(big) * 1L)), "9007199254740993")
})

test_that("Matrix objects meet arrays", {
  m <- matrix(c(2, 0, 1, 3), 2L)
  sparse <- Matrix::Matrix(m, sparse = TRUE)
  x <- gpu(m)
  for (value in list(x + sparse, sparse + x, x * sparse, sparse * x))
    expect_true(inherits(value, c("Matrix", "matrix", "gpu_array")))
  expect_equal(unname(as.matrix(x + sparse)), m + m)
  expect_equal(unname(as.matrix(sparse * x)), m * m)
  expect_equal(unname(as.matrix(x %*% sparse)), m %*% m)
  expect_equal(unname(as.matrix(sparse %*% x)), m %*% m)
})

test_that("time series keep their time", {
  series <- ts(c(1, 2, 3, 4), start = 2000, frequency = 4)
  found <- list(
    compare(function(v) v * 2 + 1, list(series), what = "ts * 2"), compare(function(v, w) v + w, list(series, series),
      what = "ts + ts"),
    compare(function(v, w) v + w, list(series, list(1:4)), what = "ts + vector"),
      compare(function(v, w) v + w, list(series, list(1:8)), what = "ts + longer vector"),
    compare(function(v, w) v > w, list(series, list(2)), what = "ts > 2"),
      compare(function(v, w) v + w, list(series, list(ts(1:4, start = 2001, frequency = 4))), what = "another time"))
  expect_all_same(found)
})

test_that("reductions of several arrays leave out those in which nothing is left", {
  expect_all_same(c(
    compare(function(a, b) range(a, b, na.rm = TRUE), list(NA_real_, 1:3), what = "range"),
      compare(function(a, b) range(a, b, na.rm = TRUE), list(1:3, integer()), what = "range of nothing"),
    compare(function(a, b) any(a, b), list(TRUE, c(2, 3)), what = "any is known"),
      compare(function(a) any(a), list(numeric()), what = "any of nothing"), compare(function(a) sum(a, na.rm = 1),
      list(c(1, NA)), what = "na.rm is a number"),
    compare(function(a, b) range(a, b), list(c(2, 1), list("b")), what = "a string")))
})

test_that("keys of groups are levels as a factor has them", {
  x <- as.double(1:6)
  for (key in list(c(NaN, 1, NA, NaN, 2, 1), c(0.1 + 0.2, 0.3, 1, 1, 0.3, 2), rep(NaN, 6), rep(NA_real_, 6))) {
    expect_all_same(c(compare(function(v, k) tapply(v, k, sum), list(x, key), what = "tapply"),
      compare(function(v, k) split(v, k), list(x, key), what = "split")))
  }
})

test_that("what is no number is refused in base R's words", {
  found <- list()
  for (other in list(list(1), "a", NULL, sum, quote(x), as.raw(1))) for (r in c("+", "==", "&")) {
    found <- c(found, compare(get(r, baseenv()), list(c(1, 2), list(other)), what = paste(deparse1(other), r)))
  }
  expect_all_same(found)
})

test_that("words among numbers, a base of nothing and series of other times are base R's", {
  one <- ts(1:6)
  two <- ts(matrix(c(1, 4, 2, 8, 5, 7), 3, dimnames = list(NULL, c("a", "b"))), start = 5)
  expect_all_same(list(compare(function(x) range(x, "a"), list(2i), what = "range"), compare(function(x, y) log(x, y),
    list(one, numeric()), what = "log"), compare(function(x, y) x + y, list(one, list(two)), what = "series"),
    compare(function(x, y) x & y, list(one, two), what = "two series"), compare(function(x) var(x, "a"), list(2),
      what = "var"), compare(function(m) colSums(m, dims = 1:2), list(matrix(1:6, 2)), what = "dims")))
})

test_that("the mixed operands are as many as they were", {
  expect_cases(120L)
})
