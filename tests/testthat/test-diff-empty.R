# Arrays without elements, and their attributes: each call compared with base R's.

elements <- list(numeric(), integer(), setNames(numeric(), character()), matrix(0, 0, 3), matrix(0L, 3, 0),
  matrix(0, 0, 0), array(0, c(0, 2, 3)), array(0, 0L), matrix(0, 0, 3, dimnames = list(NULL, c("a", "b", "c"))),
  matrix(0, 3, 0, dimnames = list(c("a", "b", "c"), NULL)))

test_that("densities, medians and products of arrays without elements", {
  found <- list()
  for (x in elements) for (f in list(function(x) dnorm(x), function(x) pnorm(x, log.p = TRUE),
    function(x) qnorm(x, 1, 2), function(x) dnorm(1, x), function(x) dbinom(x, 1, 0.5), function(x) dexp(x),
    function(x) pgamma(x, 2), function(x) dt(x, 3), function(x) dt(x, 3, 1), function(x) atan2(x, 1),
    function(x) beta(x, 1), function(x) median(x), function(x) median(x, na.rm = TRUE), function(x) mad(x),
    function(x) outer(x, x), function(x) outer(x, 1:2), function(x) outer(1:2, x, "+"), function(x) x %o% x,
    function(x) ifelse(x > 0, 1, 2), function(x) rowsum(as.vector(x), numeric()), function(x) quantile(x),
    function(x) rev(x), function(x) sort(x), function(x) t(x[0])))
    found <- c(found, compare(f, list(x), what = paste(deparse1(body(f)), deparse1(x))))
  for (x in list(numeric(), setNames(numeric(), character()), matrix(0, 0, 2))) for (group in list(numeric(),
    character(), factor(character(), "a")))
    # base R's C code sets row names of length 0, which R's own assignment turns into NULL
    found <- c(found, compare(function(x, group) {
      y <- rowsum(x, group)
      dimnames(y) <- dimnames(y)
      y
    }, list(x, list(group)), what = paste("rowsum", deparse1(x), deparse1(group))))
  for (x in list(c(a = NA_real_), c(a = NA, b = 1), c(a = TRUE, b = NA))) for (f in list(median, mad))
    for (na.rm in c(FALSE, TRUE))
      found <- c(found, compare(function(x) f(x, na.rm = na.rm), list(x), what = deparse1(x)))
  expect_all_same(found)
})

test_that("cbind() and rbind() of arrays without elements", {
  found <- list()
  for (x in Filter(function(x) length(dim(x)) < 3L, elements)) for (f in list(
    function(x) cbind(x), function(x) rbind(x), function(x) cbind(x, x), function(x) rbind(x, x),
    function(x) cbind(x, 1), function(x) rbind(1, x),
    function(x) cbind(a = x, 1:2), function(x) rbind(x, NULL), function(x) cbind(x[0]), function(x) rbind(b = x[0]),
    function(x) cbind(x, numeric()), function(x) cbind(x, x, deparse.level = 2),
    function(x) rbind(x, deparse.level = 0)))
    found <- c(found, compare(f, list(x), what = paste(deparse1(body(f)), deparse1(x))))
  for (x in list(matrix(1:6, 2), matrix(1:6, 2, dimnames = list(c("a", "b"), NULL)), matrix(1:6, 2,
    dimnames = list(c("a", "b"), c("x", "y", "z"))), matrix(0, 0, 3), matrix(0, 3, 0))) for (f in list(
    function(x) x[0, , drop = FALSE], function(x) x[0, 2, drop = FALSE], function(x) head(x, 0),
    function(x) rbind(x[0, , drop = FALSE], x), function(x) cbind(x[, 0, drop = FALSE], x[, 0]),
    function(x) outer(x[0, ], 1:2), function(x) outer(x[0, 1], x[0, 1])))
    found <- c(found, compare(f, list(x), what = paste(deparse1(body(f)), deparse1(x))))
  expect_all_same(found)
})

test_that("running extremes of complex vectors without elements", {
  found <- list()
  for (x in list(complex(), setNames(complex(), character()), matrix(0i, 0, 2), 1i))
    for (f in list(cummax, cummin, cumsum)) found <- c(found, compare(f, list(x), what = deparse1(x)))
  expect_all_same(found)
})

expect_cases(300L)
