# Functions that use codes, tables and ranks: counts, groups, matches, distinct elements and order statistics of many
# elements, many groups and large tables, over dtypes, compared with base R; also in the mode that computes as on a GPU.

many <- 100001L

drawn <- function(kind, n) {
  set.seed(n)
  switch(kind,
    normal = rnorm(n), ties = sample(c(NA, NaN, Inf, -Inf, 0, -0, 1:50), n, TRUE),
      whole = as.double(sample.int(300L, n, TRUE)), near = 1 + runif(n) * 1e-9,
    constant = rep(2.5, n), integer = sample(c(NA, -40:1000), n, TRUE), wide = sample.int(2147483647L, n, TRUE),
      logical = sample(c(TRUE, FALSE, NA), n, TRUE))
}

# The calls on these kinds of vectors, whole and in a narrower dtype.
over_drawn <- function(calls, kinds, n = many, limit = 0) {
  found <- list()
  for (kind in kinds) for (call in names(calls)) {
    found <- c(found, compare(calls[[call]], list(drawn(kind, n)), ulp = limit, what = paste(call, "of", kind, n)))
  }
  found
}

test_that("groups of many elements are reduced as base R reduces them", {
  exact <- list(
    "max" = function(v, g) tapply(v, g, max), "min" = function(v, g) tapply(v, g, min), "length" = function(v, g)
      tapply(v, g, length), "sum of integers" = function(v, g) tapply(g, g, sum),
    "rowsum of integers" = function(v, g) rowsum(g, g), "table" = function(v, g) table(g), "tabulate" = function(v, g)
      tabulate(g, 100L), "first" = function(v, g) ave(v, g, FUN = max))
  sums <- list("sum" = function(v, g) tapply(v, g, sum), "mean" = function(v, g) tapply(v, g, mean),
    "var" = function(v, g) tapply(v, g, var), "sd" = function(v, g) tapply(v, g, sd), "rowsum" = function(v, g)
    rowsum(v, g))
  run <- function() {
    found <- list()
    for (groups in c(1L, 2L, 63L, 1000L, 5000L)) for (n in c(257L, many)) {
      set.seed(groups)
      g <- if (groups == 63L) sort(sample.int(groups, n, TRUE)) else sample.int(groups, n, TRUE)
      v <- rnorm(n)
      for (call in names(exact))
        found <- c(found, compare(exact[[call]], list(v, g), what = sprintf("%s of %d in %d", call, n, groups)))
      for (call in names(sums))
        found <- c(found, compare(sums[[call]], list(v, g), ulp = 2^20, what = sprintf("%s of %d in %d", call, n,
        groups)))
    }
    found
  }
  expect_all_same(run())
  expect_composed_same(run)
})

test_that("more groups than a device has accumulators for are sorted", {
  set.seed(1)
  g <- sample.int(60000L, many, TRUE)
  run <- function() c(compare(function(v, g) tapply(v, g, max), list(rnorm(many), g), what = "max"),
    compare(function(v, g) rowsum(v, g), list(g, g), what = "rowsum"))
  expect_all_same(composed(run()))
  # NA, sums that do not fit, groups without elements
  x <- gpu(c(NA, 5L, .Machine$integer.max, 1L, 7L))
  sums <- gpu_group(x, factor(c("a", "b", "c", "c", "b"), levels = c("a", "b", "c", "none")), "sum")
  expect_identical(as.vector(sums), c(NA, 12, 2147483648, NA))
  expect_identical(as.vector(gpu_group(x, c(1, 2, 3, 3, 2), "sum", na.rm = TRUE)), c(NA, 12, 2147483648))
})

test_that("sums of groups are as exact as sum(), and the same on every run", {
  set.seed(2)
  x <- c(1e16, 1, -1e16, rnorm(9997))
  g <- rep(1:10, each = 1000L)
  wanted <- vapply(split(x, g), sum, 0)
  for (way in list(identity, composed)) {
    found <- way(as.vector(rowsum(gpu(x), gpu(g))))
    expect_identical(found, unname(wanted))
    expect_identical(found, way(as.vector(rowsum(gpu(x), gpu(g)))))
  }
})

test_that("the columns of a matrix have the sums that each has by itself", {
  set.seed(3)
  # several columns a task, one, and several pieces a column
  for (rows in c(7L, 20000L, 6e5L)) {
    m <- matrix(rnorm(3L * rows), rows)
    g <- sample.int(5L, rows, TRUE)
    found <- as.vector(rowsum(gpu(m), gpu(g)))
    expect_identical(found, unlist(lapply(1:3, function(k) as.vector(rowsum(gpu(m[, k]), gpu(g))))))
    expect_equal(found, as.vector(rowsum(m, g)))
  }
})

test_that("distinct elements, matches and counts of many elements agree with base R", {
  table_of <- drawn("whole", 5000L)
  calls <- list(
    "unique" = unique, "duplicated" = duplicated, "unique last" = function(v)
      unique(v, fromLast = TRUE), "match" = function(v) match(v, table_of), "match 0" = function(v)
      match(v, c(NA, rev(table_of)), 0L), "match own" = function(v) match(v[1:999], v),
    "in" = function(v) v %in% table_of, "sort" = sort, "sort decreasing" = function(v)
      sort(v, decreasing = TRUE), "order" = order, "order decreasing" = function(v)
      order(v, decreasing = TRUE), "is.unsorted" = is.unsorted, "is.unsorted sorted" = function(v) is.unsorted(sort(v)))
  counts <- list("table" = function(v) table(v), "table ifany" = function(v) table(v, useNA = "ifany"),
    "tabulate" = function(v) tabulate(v, 60L))
  steps <- list("findInterval" = function(v) findInterval(v, seq(-3, 3, length.out = 4099)),
    "findInterval open" = function(v) findInterval(v, seq(-3, 3, length.out = 4099), left.open = TRUE),
    "cut" = function(v) cut(v, seq(-3, 3, 0.25)))
  run <- function() {
    c(over_drawn(calls, c("normal", "ties", "whole", "near", "constant", "integer", "wide", "logical")),
      over_drawn(counts[1:2], c("whole", "constant", "integer", "logical")),
      over_drawn(counts[3L], c("whole", "integer")), over_drawn(steps, c("normal", "near", "integer")))
  }
  expect_all_same(run())
  expect_composed_same(run)
})

test_that("order statistics of many elements are those of a sort", {
  types <- lapply(1:9, function(type) function(v) quantile(v, c(0, 0.001, 0.25, 0.5, 0.77, 1), na.rm = TRUE,
    type = type))
  names(types) <- paste("quantile", 1:9)
  calls <- c(types, list("median" = median, "median na.rm" = function(v) median(v, na.rm = TRUE), "IQR" = function(v)
    IQR(v, na.rm = TRUE), "mad" = function(v) mad(v, na.rm = TRUE)))
  run <- function() over_drawn(calls, c("normal", "whole", "near", "constant", "integer", "wide"), limit = 4)
  expect_all_same(run())
  expect_composed_same(run)
  # positions that are whole but for rounding, and types and arguments that only newer versions of R check
  at <- c(1, 7, 33, 49, 98) / 99
  outcome <- function(v, ...) tryCatch(quantile(v, at, ...), error = conditionMessage)
  for (v in list((1:99)^2, (1:198)^2, c(3L, 1L, 2L))) {
    for (type in c(as.list(1:9), 1.7, TRUE, 0, "7"))
      expect_identical(outcome(gpu(v), type = type), outcome(v, type = type), info = format(type))
    expect_identical(outcome(gpu(v), type = 6, fuzz = 0.01), outcome(v, type = 6, fuzz = 0.01))
  }
  x <- gpu(c(NaN, rnorm(many)))
  expect_error(quantile(x), "missing values and NaN's not allowed")
  expect_true(is.na(median(x)))
})

test_that("split() gives views in the elements' order", {
  x <- gpu(drawn("normal", 1000L))
  g <- rep_len(c("b", "a", "none"), 1000L)
  parts <- split(x, factor(g, levels = c("b", "a", "none", "empty")))
  expect_identical(lapply(parts, as.vector), split(as.vector(x), factor(g, levels = c("b", "a", "none", "empty"))))
  expect_identical(names(split(x, factor(g, levels = c("b", "a", "none", "empty")), drop = TRUE)), c("b", "a", "none"))
  expect_identical(lapply(split(x, list(g, rev(g))), as.vector), split(as.vector(x), list(g, rev(g))))
})
