# Places, matches and summaries of readers, against base R's of the whole.

withr::local_options(verdigris.device = test_device)

vectors <- function() {
  set.seed(62)
  list(doubles = sample(c(round(rnorm(200), 1), NA, NaN, 0, Inf)), integers = sample(c(-9:40, NA), 200, TRUE),
    known = rep(c(2.5, 1, 7, 7), 30), named = stats::setNames(as.double(40:1), 1:40), missing = rep(NA_real_, 30),
    one = 3L)
}
readers <- function(v) lapply(c(17, 1e4), function(rows) gpu_reader(v, memory = 3 * 8 * rows))
plain <- function(value) if (inherits(value, c("gpu_array", "gpu_reader"))) collect(value) else value
expect_base <- function(calls, values = vectors()) for (name in names(values)) for (x in readers(values[[name]]))
  for (call in calls) {
    cases$n <- cases$n + 1L
    want <- eval(call, list(x = values[[name]]), globalenv())
    expect_equal(plain(eval(call, list(x = x), globalenv())), want, tolerance = 1e-14, label = paste(deparse1(call),
      name))
  }

test_that("places and ranks are base R's", {
  expect_base(alist(which.max(x), which.min(x), which(x > 2), which(is.na(x)), which(x > 1e9), anyNA(x), rank(x),
    rank(x, ties.method = "min"), rank(x, na.last = "keep"), rank(x, ties.method = "first")))
  set.seed(63)
  m <- matrix(sample(c(1:9, NA), 120, TRUE), 30)
  for (memory in c(blocks_of_rows(7, 4), 1e6)) for (x in list(gpu_reader(m, memory = memory),
    gpu_reader(function(rows) m[rows, , drop = FALSE], dim = dim(m), memory = memory))) {
    expect_identical(which.max(x), which.max(m))
    expect_identical(which.min(x), which.min(m))
    expect_true(anyNA(x))
  }
  expect_true(anyNA(gpu_reader(data.frame(a = 1:2, b = c(1, NA)))))
  expect_false(anyNA(gpu_reader(integer())))
  expect_identical(which.max(gpu_reader(numeric())), integer())
  expect_identical(collect(which(gpu_reader(logical()))), integer())
  expect_error(which(gpu_reader(1:3)), "argument to 'which' is not logical")
  for (call in alist(which(gpu_reader(matrix(TRUE))), which.max(gpu_reader(1i)), rank(gpu_reader(matrix(1)))))
    expect_error(eval(call), class = "verdigris_error_reader", label = deparse1(call))
})

test_that("matches, extremes and choices are computed when they are read", {
  few <- lapply(vectors(), unname)
  expect_base(alist(match(x, c(1, 7, NA)), match(x, 3:5, nomatch = 0L), x %in% c(1, NaN, 2.5), is.element(x, 7),
    pmin(x, 2), pmax(x, 1L), pmax(0, x), pmin(x, 3, na.rm = TRUE), ifelse(x > 2, 1, 0), ifelse(is.na(x), 0L, 1L),
    sum(pmax(x, 0), na.rm = TRUE)), few[names(few) != "missing"])
  x <- gpu_reader(c(1, 2))
  expect_identical(collect(pmin(gpu_reader(diag(2)), 0.5)), pmin(diag(2), 0.5))
  expect_identical(collect(pmin(2, gpu_reader(c(a = 1, b = 3)))), pmin(2, c(a = 1, b = 3)))
  for (call in alist(pmin(2, gpu_reader(diag(2))), match(1, x), match(x, x), x %in% "a", 1 %in% x, pmin(x, x), pmin(x, 1:2), ifelse(x > 1, 1:2, 0),
    match(x, 1, incomparables = 1))) expect_error(eval(call), class = "verdigris_error_reader", label = deparse1(call))
})

test_that("summaries are base R's", {
  for (x in readers(vectors()$integers)) for (v in list(vectors()$integers)) {
    expect_equal(summary(x), summary(v))
    expect_equal(summary(x, digits = 2), summary(v, digits = 2))
    expect_equal(IQR(x, na.rm = TRUE), IQR(v, na.rm = TRUE))
    expect_equal(mad(x, na.rm = TRUE), mad(v, na.rm = TRUE))
    expect_equal(mad(x, 3, constant = 1, na.rm = TRUE), mad(v, 3, constant = 1, na.rm = TRUE))
    expect_error(IQR(x), "missing values and NaN's not allowed")
  }
  x <- gpu_reader(as.matrix(mtcars), memory = blocks_of_rows(9, 11))
  expect_equal(cov(x), cov(mtcars))
  expect_equal(cor(x), cor(mtcars))
  expect_warning(cor(gpu_reader(cbind(1:4, 1))), "the standard deviation is zero")
  gaps <- cbind(c(1, NA, 3), c(4, 6, 5), 3:1)
  for (y in list(gpu_reader(gaps), gpu_split(gaps, gpu_team(rep(test_device, 2))))) expect_equal(cor(y), cor(gaps))
  expect_equal(cor(gpu_reader(diag(2)[1, , drop = FALSE])), cor(diag(2)[1, , drop = FALSE]))
  expect_error(cor(gpu_reader(1:4)), "supply both 'x' and 'y'")
  for (call in alist(cor(x, x), cov(x, method = "spearman"), summary(x), mad(gpu_reader(1:3), low = TRUE),
    summary(gpu_reader(TRUE)))) expect_error(eval(call), class = "verdigris_error_reader", label = deparse1(call))
})

test_that("complex elements, and readers as subscripts, are refused before anything is read", {
  z <- gpu_reader(function(rows) if (length(rows) > 1L) stop("read") else rep(1i, length(rows)), dim = 5)
  for (name in c("rank", "order", "sort", "median", "quantile", "var", "sd")) {
    f <- get(name)
    condition <- expect_error(f(z), class = "verdigris_error_reader", label = name)
    expect_match(conditionMessage(condition), sprintf("`%s()` has no method", name), fixed = TRUE)
  }
  expect_error(match(z, 1), "Only real numbers are supported", class = "verdigris_error_reader")
  expect_error(rowsum(z, 1:5), "'x' must be numeric")
  x <- gpu_reader(c(5, NA, 2))
  expect_error(x[is.na(x)], "cannot be subscripted by a reader", class = "verdigris_error_reader")
})

test_that("types and names are base R's where results are small", {
  m <- matrix(1:40, 10)
  for (x in list(gpu_reader(m), gpu_split(m, gpu_team(rep(test_device, 2))))) expect_identical(tail(x, 2), tail(m, 2))
  expect_identical(IQR(gpu_reader(1:9), type = 3), IQR(1:9, type = 3))
  expect_identical(collect(findInterval(gpu_reader(c(a = 1, b = 3)), 2)), findInterval(c(a = 1, b = 3), 2))
  expect_identical(collect(match(gpu_reader(1:3), NULL)), match(1:3, NULL))
  expect_identical(var(gpu_reader(NaN)), NA_real_)
})

test_that("any() and all() of numbers warn as base R's", {
  told <- expect_warning(any(gpu_reader(c(0, 1))))
  expect_identical(deparse(conditionCall(told)), "any(...)")
  expect_warning(expect_true(any(gpu_reader(c(0, 1)))), "coercing argument of type 'double' to logical")
  expect_no_warning(all(gpu_reader(c(1L, 0L))))
})
