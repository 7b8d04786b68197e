# Time series and differences, against base R.

test_that("diff() agrees with base R and stays on the device", {
  found <- list()
  series <- ts(c(1, 4, 9, 16, 25, 36), start = c(2000, 2), frequency = 4)
  wide <- ts(matrix(c(1, 4, 9, 16, 2, 3, 5, 8), 4), start = 1990)
  values <- list(c(1, NA, 3, 7), 1:5, c(a = 1, b = 3, c = 7), c(TRUE, FALSE, NA), c(1i, 2, 3), double(), 1,
    matrix(c(1, 4, 9, 2, 3, 5), 3, dimnames = list(letters[1:3], c("u", "v"))), series, wide)
  for (x in values) for (lag in 1:2) for (differences in 1:2) {
    found <- c(found, compare(function(v) diff(v, lag, differences), list(x), what = sprintf("diff(%s, %d, %d)",
      deparse1(x), lag, differences)))
  }
  found <- c(found, compare(function(v) diff(v, lag = 0), list(1:3), what = "lag = 0"))
  expect_all_same(found)
  expect_true(.Call(verdigris:::C_is_array, diff(gpu(c(1, 2, 4)))))
  expect_true(.Call(verdigris:::C_is_array, diff(gpu(series))))
})

test_that("time, cycle, window, lag and aggregate of a series are base R's", {
  series <- ts(c(1, 4, 9, 16, 25, 36, 49, 64), start = c(2000, 2), frequency = 4)
  found <- list()
  for (f in list(time, cycle, frequency, start, end, tsp, deltat, function(v) window(v, 2001),
    function(v) stats::lag(v, 1), function(v) aggregate(v, nfrequency = 1, FUN = sum),
                 function(v) collect(v)[2:3], function(v) summary(as.vector(v)))) {
    found <- c(found, compare(f, list(series), what = deparse1(f)))
  }
  found <- c(found, compare(time, list(c(1, 2, 3)), what = "time of a vector"),
    compare(function(v) time(v, offset = 0.5), list(series), what = "offset"))
  expect_all_same(found)
  x <- gpu_compute(gpu(series))
  before <- .Call(verdigris:::C_live)[3]
  time(x)
  cycle(x)
  expect_identical(.Call(verdigris:::C_live)[3], before)
})

test_that("differences of an array of three dimensions are those of its elements", {
  expect_all_same(compare(diff, list(array(c(1, 4, 9), c(2, 3, 4))), what = "three dimensions"))
  expect_all_same(compare(function(v) diff(v, 1.7), list(c(1, 4, 9)), what = "a lag that is not whole"))
})

test_that("aggregate() finds the method of a series also from stats' own table", {
  x <- ts(c(3, 1, 4, 1, 5, 9, 2, 6), start = 2000, frequency = 4)
  found <- list(
    compare(function(x) aggregate(x, FUN = mean), list(x), what = "years"), compare(function(x) aggregate(x, 2, sum),
      list(x), what = "halves"),
    compare(function(x) stats::aggregate(x, nfrequency = 1), list(x), what = "by full name")
  )
  expect_all_same(found)
})

test_that("odd series are as in base R: one difference, other dimensions, missing ends", {
  series <- ts(c(1, 4, NA, 16, 25, 3, 2, 1), start = 2000, frequency = 4)
  long <- ts(c(1, 4, 9, 16, 25, 3, 2, 1, 5, 6, 8, 9, 1, 2, 3, 4), start = 2000, frequency = 4)
  ends <- ts(c(NA, 4, 9, 16, NA), start = 1990)
  wide <- ts(matrix(c(1, 4, 9, 16, 25, 3, 2, 1, 5, 6, 8, 9), 6), start = 2000, frequency = 4, names = c("u", "v"))
  found <- list()
  same <- function(f, x, what) found <<- c(found, compare(f, list(x), what = what, ulp = 64))
  for (differences in 1:8) same(function(v) diff(v, 1, differences), series, paste("diff", differences))
  for (lag in 1:3) same(function(v) diff(v, lag, 2), ts(1:5, frequency = 12), paste("diff, lag", lag))
  for (dim in list(8, c(2, 4), c(4, 2), c(2, 2, 2), c(8, 1), c(1, 8)))
    same(function(v) { dim(v) <- dim; c(NROW(v), as.vector(v)) }, series, paste("dim", deparse1(dim)))
  same(function(v) { dim(v) <- 8; v }, series, "one dimension")
  same(function(v) { dim(v) <- c(2, 4); v }, series, "a matrix of other rows")
  same(stats::na.omit, ends, "na.omit of missing ends")
  same(stats::na.omit, long, "na.omit of nothing missing")
  same(stats::na.omit, series, "na.omit of a gap")
  same(stats::na.omit, wide, "na.omit of two")
  same(function(v) class(as.vector(stats::na.omit(v))), c(1, NA, 2), "na.omit of a vector")
  same(function(v) stats::acf(v, plot = FALSE)$snames, wide, "names of acf()")
  same(function(v) stats::acf(v, plot = FALSE)$acf, wide, "acf()")
  for (interval in c(FALSE, TRUE))
    same(function(v) stats::predict(stats::HoltWinters(v), 2, prediction.interval = interval), long, "HoltWinters()")
  expect_all_same(found)
})

test_that("a list is a grouping of ave() as interaction() takes it", {
  found <- list()
  for (x in list(c(1, 2), 1:4 + 0, c(NA, 3, 1, 2)))
    for (keys in list(list(1, 2), list(rep(1:2, length.out = length(x))), list(c("a", "b"), 2)))
      for (f in list(mean, length)) found <- c(found, compare(function(v) ave(v, keys, FUN = f), list(x),
        what = deparse1(keys)))
  expect_all_same(found)
})

test_that("an array of another shape beside a time series is what base R makes of it", {
  series <- list(ts(1:6), ts(c(1.5, 2)), ts(matrix(c(1, 4, 2, 8, 5, 7), 3L), start = 5))
  operators <- c("+", "-", "*", "/", "^", "%%", "%/%", "==", "<", "&", "|")
  found <- list()
  for (operator in operators) for (y in series) for (x in list(integer(), numeric(), logical(),
    matrix(1:6, 3L), matrix(1:6, 2L), matrix(1:6, 6L), matrix(2, 1L), array(1:6, 6L), array(1:6, c(3L, 2L, 1L)), 3,
    1:6, matrix(1, 0L, 2L))) {
    f <- get(operator)
    found <- c(found, compare(f, list(x, y), what = operator),
      compare(f, list(y, x), what = paste(operator, "reversed")))
  }
  expect_all_same(found)
})
