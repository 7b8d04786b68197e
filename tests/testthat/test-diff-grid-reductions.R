# The differential grid: reductions of whole arrays and along margins.

test_that("reductions agree with base R", {
  functions <- list(sum = sum, prod = prod, min = min, max = max, range = range, any = function(x, ...)
    any(x != 0, ...),
                    all = function(x, ...) all(x != 0, ...), mean = mean, var = var, sd = sd)
  for (name in names(functions)) {
    f <- functions[[name]]
    found <- list()
    for (type in names(edges)) {
      if (type == "complex" && name %in% c("var", "sd")) next
      for (x in c(layouts(type), if (type == "double") c(list(rep(0.1, 5000L)), if (name == "sum")
        list(c(1e16, 1, -1e16))),
                  if (type == "integer") list(abs(values("integer", 300L))))) {
        if (name %in% c("var", "sd") && is.matrix(x)) x <- as.vector(x)
        calm <- x[!is.na(x) & (!is.double(x) | (abs(x) < 1e4 & abs(x) > 1e-4))]
        for (v in list(x, calm)) for (na.rm in c(FALSE, TRUE)) {
          found <- c(found, compare(function(w) f(w, na.rm = na.rm), list(v), ulp = 8,
                                    what = sprintf("%s(%s[%d], na.rm = %s)", name, type, length(v), na.rm)))
        }
      }
    }
    expect_all_same(found)
  }
})

test_that("a variance of many has the odd values that lie among usual ones", {
  n <- 20011L
  x <- values("double", n)
  x[is.na(x) | abs(x) > 1e4] <- 3
  found <- compare(var, list(x + 1e6), ulp = 8, what = "far from nought")
  for (odd in c(NA, NaN, Inf, 1e150, -1e300, 5e-324)) for (at in c(1L, 2L, 777L, 9000L, n))
    for (na.rm in c(FALSE, TRUE)) {
    v <- replace(x, at, odd)
    found <- c(found, compare(function(w) var(w, na.rm = na.rm), list(v), ulp = 8,
      what = sprintf("%g at %d, na.rm = %s", odd, at, na.rm)))
  }
  for (share in c(0.01, 0.5)) {
    v <- replace(x, seq_len(n) %% round(1 / share) == 0, NA)
    found <- c(found, compare(function(w) var(w, na.rm = TRUE), list(v), ulp = 8, what = sprintf("%g of them missing",
      share)))
  }
  expect_all_same(found)
})

test_that("reductions take several arguments, and refuse as base R does", {
  x <- values("double", 65L)[-(1:2)]
  found <- list(
    compare(function(v, w) sum(v, w, 1L), list(x, 1:3), ulp = 8, what = "sum of three"),
    compare(function(v, w) max(v, w, 2), list(x, c(1, NA)), what = "max of three"),
    compare(function(v, w) max(v, w, na.rm = TRUE), list(x, c(1, NA)), what = "max na.rm of two"),
    compare(function(v, w) range(v, 5, w), list(x, 1:3), what = "range of three"),
    compare(function(v) range(v, finite = TRUE), list(x), what = "range finite"),
    compare(function(v) any(v), list(c(TRUE, NA)), what = "any"),
    compare(function(v) all(v), list(c(TRUE, NA)), what = "all"),
    compare(function(v) any(v), list(1:3), what = "any of integers"),
    compare(function(v) mean(v, trim = 0.1), list(x), ulp = 8, what = "mean trim"),
    compare(function(v) min(v), list(integer()), what = "min of nothing"),
    compare(function(v) max(v, 1i), list(x), what = "max of complex"),
    compare(function(v) max(v), list(1i), what = "max of a complex array"),
    compare(function(v) range(v), list(1i), what = "range of a complex array"),
    compare(function(v) var(matrix(1:6, 3)[, 1], v), list(c(1, 5, 2)), ulp = 8, what = "var of two"))
  for (type in c("double", "integer", "logical")) for (x in layouts(type)) {
    found <- c(found, compare(which.max, list(x), what = paste("which.max", type)),
               compare(which.min, list(x), what = paste("which.min", type)))
  }
  expect_all_same(found)
})

test_that("variances of huge, tiny and missing numbers are base R's", {
  set.seed(6)
  found <- list()
  known <- list(c(1e300, 2e300, -1e300, 5), c(1e154, 2e154, -1e154, 5), c(1.7e308, -1.7e308, 1.6e308),
    c(1e300, 1e300, 1e300), c(1:2000, 3e153, 2, 4e153, 5e150), c(3e153, 1:5000), rnorm(5000) * 1e153,
    c(5, 1e-160, 2e-160), c(1e-150, 2e-150, 5e-150), 1e9 + rnorm(3000), c(1e200, -1e200), numeric(), 1)
  unknown <- list(c(NaN, 2, 1), c(NaN, NA, 1), c(NA, NaN, 1), NaN, c(Inf, NaN, 1), c(Inf, 1, 2), c(Inf, -Inf, NA),
    c(1, NA, 1e300), replace(rnorm(3000), 2500, NaN), replace(rnorm(3000), c(1, 7, 2999), NA),
    replace(1e160 * rnorm(3000), c(5, 40), NA))
  for (x in c(known, unknown)) for (name in c("var", "sd")) {
    f <- get(name)
    what <- sprintf("%s of %s", name, deparse1(utils::head(x)))
    found <- c(found, compare(f, list(x), ulp = 64, what = what), compare(function(v) f(v, na.rm = TRUE), list(x),
      ulp = 64, what = paste(what, "na.rm")),
      compare(function(v) f(rev(v) * 1), list(x), ulp = 64, what = paste(what, "reversed")))
    if (length(x) > 3L) found <- c(found, compare(function(v) as.vector(tapply(v, seq_along(v) %% 2, f)), list(x),
      ulp = 64, what = paste(what, "by groups")),
      composed(compare(function(v) as.vector(tapply(v, seq_along(v) %% 2, f)), list(x), ulp = 64,
        what = paste(what, "by groups, composed"))))
  }
  expect_all_same(found)
})

test_that("reductions of int64 agree with bit64", {
  x <- bit64::as.integer64(c("12", "-5", "4294967296", NA))
  for (na.rm in c(FALSE, TRUE)) for (f in list(sum, min, max)) {
    want <- as.character(f(x, na.rm = na.rm))
    expect_identical(as.character(bit64::as.integer64(f(gpu(x), na.rm = na.rm))), want)
  }
})

test_that("sums and means along margins agree with base R", {
  found <- list()
  for (type in c("double", "integer", "logical", "complex")) {
    x <- values(type, 24L * 5L)
    shapes <- list(matrix(x, 24L), matrix(x, 5L, dimnames = list(letters[1:5], NULL)), array(x, c(4L, 6L, 5L)),
      matrix(x[0], 0L, 3L))
    for (m in shapes) for (na.rm in c(FALSE, TRUE)) for (f in list(rowSums, colSums, rowMeans, colMeans)) {
      found <- c(found, compare(function(v) f(v, na.rm = na.rm), list(m), ulp = 8, what = paste("margins", type)))
    }
    found <- c(found, compare(function(v) rowSums(v, dims = 2L), list(shapes[[3L]]), ulp = 8,
      what = "rowSums dims = 2"))
    found <- c(found, compare(function(v) colSums(v), list(shapes[[1L]]), ulp = 8, what = "colSums(t())", before = t))
    found <- c(found, compare(function(v) rowSums(v), list(x), ulp = 8, what = "rowSums of a vector"))
  }
  expect_all_same(found)
})

test_that("the grid of reductions is as large as it was", {
  expect_cases(1400L)
})

test_that("products of the largest doubles, and sums by group that are infinite, agree with base R", {
  large <- list(1e308, c(1e308, 10), c(1e308, 1e-8), c(1e308, Inf), .Machine$double.xmax, c(1e308, NA), c(NaN, 1e308),
    c(1, 1e308, -Inf), c(-1e308, 1e308, 1e-308, 1e-308), c(5e-324, 1e308), rep(1e308, 5), c(rep(1, 4999), 1e308),
    c(rep(1.5, 400), 1e308, rep(.5, 600)))
  infinite <- list(c(Inf, -1, 1), c(-1, Inf, 1), c(Inf, Inf, 1), c(1, 2, Inf), c(-Inf, 5, 1), c(Inf, -Inf, 1),
    c(Inf, NA, 1), c(NaN, Inf, 1), c(Inf, -1e308, 1))
  of_groups <- function(f, k) function(v) as.vector(tapply(v, k, f))
  found <- c(
    do.call(c, lapply(large, function(v) compare(prod, list(v), ulp = 8, what = paste("prod of", deparse(v)[[1]])))),
    do.call(c, lapply(large, function(v) compare(cumprod, list(v), ulp = 64,
      what = paste("cumprod of", deparse(v)[[1]]))))
  )
  for (v in infinite) for (k in list(c(1L, 1L, 2L), rep(1L, 3L))) for (f in c("sum", "mean", "prod")) {
    found <- c(found, compare(of_groups(f, k), list(v), what = paste(f, "by group of", deparse(v))))
  }
  expect_all_same(found)
})

test_that("sums that pass the largest double come back, as in base R", {
  # what base R's 80 bits hold exactly
  beyond <- list(c(1.6e308, 1.6e308, 1), c(-1.6e308, -1.6e308, 1), c(1e308, 1e308, -1e308), c(1e308, 1e308, -1e308, -1e308),
    c(1.7e308, 1.7e308, -1.7e308, 5), c(1e308, NA, 1e308), c(1e308, 1e308, NaN, -1e308), c(1e308, Inf, 1e308),
    c(-Inf, 1e308, 1e308), c(1e308, 1e308, -Inf), c(Inf, 1e308, -Inf), c(rep(2^1015, 1088), rep(-2^1015, 960)),
    c(1.5e308, rep(1, 5000), 1.5e308, -1.5e308), c(2^960, 2^900, -2^960), c(-2^1000, 2^950, 2^1000))
  first <- function(v) as.vector(tapply(v, rep(1L, length(v)), sum))
  calls <- list(sum = sum, mean = mean, cumsum = cumsum, sum_known = function(v) sum(v, na.rm = TRUE),
    mean_known = function(v) mean(v, na.rm = TRUE), colSums = function(v) colSums(matrix(v, ncol = 1)),
    rowSums = function(v) rowSums(matrix(rep(v, each = 3), nrow = 3)), rowMeans = function(v) rowMeans(matrix(v, nrow = 1)),
    colMeans = function(v) colMeans(matrix(rep(v, 4), ncol = 4), na.rm = TRUE), group = first,
    expression = function(v) sum(v * 1), scaled = function(v) sum(v / 2) * 2)
  # a running sum on a GPU stays infinite
  if (test_device != "cpu") calls$cumsum <- NULL
  found <- character()
  for (v in beyond) for (name in names(calls)) {
    found <- c(found, compare(calls[[name]], list(v), ulp = 2, what = paste(name, "of", deparse(v)[[1]])))
  }
  expect_all_same(found)
})
