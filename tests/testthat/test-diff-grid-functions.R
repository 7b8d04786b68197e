# The differential grid: functions of several arguments.

test_that("Math functions of two arguments agree with base R", {
  found <- list()
  for (type in c("double", "integer", "logical", "complex")) for (n in c(0L, 1L, 64L, 257L)) {
    x <- values(type, n)
    what <- sprintf("(%s[%d])", type, n)
    for (digits in list(0, 2, -1, 5L, 400)) {
      found <- c(found, compare(function(v) round(v, digits), list(x), ulp = ulp_of("round_digits"),
        what = paste("round", digits, what), row = "round"))
    }
    for (digits in list(1, 3, 6L, 15)) {
      found <- c(found, compare(function(v) signif(v, digits), list(x), ulp = ulp_of("signif"),
        what = paste("signif", digits, what), row = "signif"))
    }
    for (base in list(2, 10, 3, 0.5)) {
      found <- c(found, compare(function(v) log(v, base), list(x), ulp = ulp_of("log_base"),
        what = paste("log base", base, what), row = "log"))
    }
  }
  x <- values("double", 257L)
  found <- c(found,
    compare(atan2, list(x, rev(x)), ulp = ulp_of("atan2"), what = "atan2"),
    compare(atan2, list(x, list(2)), ulp = ulp_of("atan2"), what = "atan2(x, 2)"),
    compare(atan2, list(list(2), x), ulp = ulp_of("atan2"), what = "atan2(2, x)"),
    compare(atan2, list(values("integer", 65L), values("logical", 65L)), ulp = ulp_of("atan2"),
      what = "atan2 of integers"),
    compare(function(v) round(v, 1:5), list(x), ulp = ulp_of("round_digits"), what = "round(x, 1:5)"),
    compare(function(v) log(v, base = 2), list(matrix(x[1:60], 12)), ulp = ulp_of("log2"), what = "log(matrix, 2)"))
  expect_all_same(found)
})

test_that("users reach the methods of two arguments", {
  # the tests see the namespace, where methods are found without being registered; a user does not
  x <- gpu(c(1.234, 2.345))
  outside <- function(call) collect(eval(call, list(x = x), baseenv()))
  expect_equal(outside(quote(round(x, 2))), c(1.23, 2.35))
  expect_equal(outside(quote(round(x))), c(1, 2))
  expect_equal(outside(quote(signif(x, 2))), c(1.2, 2.3))
  expect_equal(outside(quote(log(x, 3))), log(c(1.234, 2.345), 3))
  expect_equal(outside(quote(log(x, base = 2))), log(c(1.234, 2.345), 2))
})

test_that("special functions of two arguments agree with base R", {
  x <- values("double", 257L)
  u <- abs(round(x[is.finite(x)], 3)) + 0.25
  u <- u[u < 1e15]
  found <- list(
    compare(beta, list(u, rev(u)), ulp = ulp_of("beta"), what = "beta", row = "beta"),
    compare(lbeta, list(u, rev(u)), ulp = ulp_of("lbeta"), what = "lbeta", row = "lbeta"),
    compare(beta, list(abs(x), rev(abs(x))), ulp = ulp_of("beta"), what = "beta at the edges", row = "beta"),
    compare(function(n) choose(n, 3), list(u), ulp = ulp_of("choose"), what = "choose(n, 3)"),
    compare(choose, list(c(5, 10, 50, 2.5, -3, 0, NA), c(2, 3, 25, 2, 4, 0, 1)), ulp = ulp_of("choose"),
      what = "choose"),
    compare(lchoose, list(c(5, 10, 50, 60.5), c(2, 3, 25, 40)), ulp = ulp_of("lchoose"), what = "lchoose",
      row = "lchoose"),
    compare(factorial, list(c(0, 1, 5, 10, 170, 0.5, NA)), ulp = ulp_of("gamma"), what = "factorial"))
  expect_all_same(found)
})

# the row of a tail
tail_of <- function(name, upper, log) paste0(name, if (upper) "_upper", if (log) "_log")

test_that("the normal distribution agrees with base R", {
  x <- values("double", 257L)
  p <- c(seq(0, 1, length.out = 257L), NA, NaN, -1, 2)
  found <- list(
    compare(function(v) dnorm(v, 1, 2), list(x), ulp = ulp_of("dnorm"), what = "dnorm"),
    compare(function(v) dnorm(v, log = TRUE), list(x), ulp = ulp_of("dnorm_log"), what = "dnorm log"),
    compare(function(v) dnorm(v, 0, 0), list(x), ulp = ulp_of("dnorm"), what = "dnorm sd 0"),
    compare(function(v) dnorm(v, 0, -1), list(x), ulp = ulp_of("dnorm"), what = "dnorm sd -1"))
  for (upper in c(FALSE, TRUE)) for (log in c(FALSE, TRUE)) {
    what <- sprintf("upper %s log %s", upper, log)
    found <- c(found,
      compare(function(v) pnorm(v, 1, 2, !upper, log), list(x), ulp = ulp_of(tail_of("pnorm", upper, log)),
        what = paste("pnorm", what)),
      compare(function(v) qnorm(v, 1, 2, !upper, log), list(if (log) log(p[p > 0 & p <= 1]) else p),
        ulp = ulp_of(tail_of("qnorm", upper, log)), what = paste("qnorm", what), row = "qnorm"))
  }
  expect_all_same(found)
})

test_that("pmin and pmax agree with base R", {
  found <- list()
  for (a in c("double", "integer", "logical")) for (b in c("double", "integer", "logical"))
    for (n in c(0L, 1L, 64L, 257L)) {
    x <- values(a, n)
    y <- values(b, n, 2L)
    for (f in list(pmin, pmax)) for (na.rm in c(FALSE, TRUE)) {
      what <- sprintf("pmin/pmax(%s, %s)[%d] na.rm = %s", a, b, n, na.rm)
      found <- c(found,
        compare(function(p, q) f(p, q, na.rm = na.rm), list(x, y), what = what),
        compare(function(p) f(p, 1L, na.rm = na.rm), list(x), what = paste(what, "with 1L")),
        compare(function(p, q) f(p, q, 2, na.rm = na.rm), list(x, list(y)), what = paste(what, "of three")))
    }
  }
  m <- matrix(values("double", 60L), 12L, dimnames = list(letters[1:12], NULL))
  named <- setNames(values("double", 5L), letters[1:5])
  found <- c(found,
    compare(function(v) pmin(v, 1), list(m), what = "pmin(matrix, 1)"),
    compare(function(v) pmin(1, v), list(m), what = "pmin(1, matrix)"),
    compare(pmax, list(m, values("double", 12L)), what = "pmax(matrix, vector)"),
    compare(pmax, list(named, 0), what = "pmax(named, 0)"),
    compare(pmax, list(values("double", 10L), values("double", 4L)), what = "pmax, unevenly recycled"))
  expect_all_same(found)
})

test_that("ifelse agrees with base R", {
  found <- list()
  for (type in names(edges)) for (n in c(0L, 1L, 64L, 257L)) {
    test <- values("logical", n)
    x <- values(type, n)
    y <- values(type, n, 2L)
    what <- sprintf("ifelse %s[%d]", type, n)
    if (n > 1L) {
      found <- c(found,
        compare(ifelse, list(test, x, y), what = what),
        compare(ifelse, list(test, list(x), y), what = paste(what, "host yes")),
        compare(ifelse, list(test, x, list(y[[3L]])), what = paste(what, "scalar no")),
        compare(ifelse, list(test, x[1:3], y), what = paste(what, "recycled")),
        compare(ifelse, list(test, c(x, x), y), what = paste(what, "longer")),
        compare(ifelse, list(matrix(test[1:60], 12L), x, y), what = paste(what, "matrix")))
    }
  }
  x <- values("double", 257L)
  found <- c(found,
    compare(function(v) ifelse(v > 0, v, -v), list(x), what = "ifelse of a comparison"),
    compare(function(v) ifelse(v, 1, 2), list(x), what = "ifelse of numbers"),
    compare(function(v) ifelse(v > 0, 1L, 2.5), list(x), what = "ifelse of two types"))
  expect_all_same(found)
})

test_that("the grid of functions is as large as it was", {
  expect_cases(400L)
})
