# Keys with rounding noise: functions that make codes of values distinguish the same values as base R.

noise <- .1 + .2 - .3
keys <- list(
  "noise at 0" = c(-1, 0, 1, noise, 0, noise, 1),
  "noise in place of 0" = c(-1, 1, 1 - .9 - .1, 1),
  "noise above the smallest" = c(0, 1, 1e-17, 1, 0),
  "the least above 1" = c(-5, 1, 1 + 2^-52, 1, 1 - 2^-53),
  "the least about -1" = c(-1, -1 + 2^-53, -1 - 2^-52, 0, 3),
  "of 15 digits one" = c(.3, .1 + .2, .3, 1, 1 + 4e-16),
  "a large minimum" = c(-1e6, 1e-11, 3, 0, 3),
  "large whole numbers" = 2^52 + c(0, 1, 3, 1, 0),
  "whole numbers at 2^53" = 2^53 + c(-2, -1, 0, 2, 4, -1),
  "below -2^53" = -2^53 - c(0, 2, 4, 2),
  "halves at 2^51" = 2^51 + c(0, .5, 1, .5, 2),
  "an offset of 1e6" = 1e6 + c(0, 1, 1e-10, 2, 0),
  decimals = c(.1, .2, .3, .1 * 3, .7, .1 * 7, .1),
  missing = c(NA, 1, NaN, 1, 0, -0, NaN, NA, noise),
  infinite = c(Inf, -Inf, 1, Inf, noise, -1),
  "zeros of both signs" = c(-0, 0, 1, -0, -1),
  "denormal" = c(5e-324, 0, -1, 5e-324, 1)
)
narrow <- list(
  "float32 noise" = c(-1, 0, 1e-9, 1, 1e-9), "float32 decimals" = c(.1, .7, .1, .3, NA),
    "float32 whole" = c(2^24, 2^24 - 1, 5, 2^24), "float32, the least above 1" = c(-3, 1, 1 + 2^-23, 1)
)

# `x` numbers the elements; `k` are the keys. With a third argument there are two keys.
by_key <- list(
  table = function(x, k) table(k), "table, useNA" = function(x, k)
    table(k, useNA = "ifany"), "table of two" = function(x, k) table(k, rev(k)),
  "table, exclude" = function(x, k) table(k, exclude = c(1, NaN)), "table with a factor" = function(x, k)
    table(factor(rep_len(c("a", "b"), length(k))), k),
  tapply = function(x, k) tapply(x, k, sum), "tapply of two" = function(x, k)
    tapply(x, list(k, rev(k)), max), "tapply, another function" = function(x, k) tapply(x, k, function(v) 2 * sum(v)),
  rowsum = function(x, k) rowsum(x, k), "rowsum as they come" = function(x, k) rowsum(x, k, reorder = FALSE),
  split = function(x, k) split(x, k), unsplit = function(x, k) unsplit(split(x, k), k),
  ave = function(x, k) if (anyNA(k)) 0 else ave(x, k), "ave of two" = function(x, k)
    if (anyNA(k)) 0 else ave(x, k, rev(k), FUN = sum),
  factor = function(x, k) factor(k), levels = function(x, k) levels(as.factor(k)), interaction = function(x, k)
    interaction(k, rev(k)),
  aggregate = function(x, k) aggregate(data.frame(v = x), list(k = k), sum), by = function(x, k)
    c(by(data.frame(v = seq_along(k)), k, nrow)), xtabs = function(x, k) xtabs(~k),
  unique = function(x, k) unique(k), duplicated = function(x, k) duplicated(k), anyDuplicated = function(x, k)
    anyDuplicated(k), rle = function(x, k) rle(sort(k)),
  match = function(x, k) match(k, rev(k)), "in" = function(x, k) k %in% k[2:3], rank = function(x, k)
    rank(k), order = function(x, k) order(k), "order of two" = function(x, k) order(k, x),
  tabulate = function(x, k) suppressWarnings(tabulate(k, 9L)), cut = function(x, k)
    cut(k, c(-1, 0, .3, 1, 2^53)), "cut, left" = function(x, k) cut(k, c(-1, 0, .3, 1, 2^53), right = FALSE),
  findInterval = function(x, k) findInterval(k, c(-1, 0, .3, 1)), hist = function(x, k)
    hist(k[is.finite(k) & abs(k) < 100], breaks = c(-101, -1, 0, 1, 101), plot = FALSE)$counts
)

# Calls that make groups of keys. A narrow float has one missing value, which is NA here, although R reads it as NaN.
makes_groups <- c("table, useNA", "table, exclude", "tapply", "tapply of two", "tapply, another function", "split",
  "unsplit", "factor", "levels", "interaction", "by")
without_nan <- function(f) function(x, k) f(x, if (inherits(k, "gpu_array")) k else replace(k, is.nan(k), NA))

over_keys <- function() {
  found <- list()
  try_each <- function(k, what, dtype = NULL) {
    x <- as.double(seq_along(k))
    # by cut() and findInterval() breaks meet narrow floats as numbers do: test-diff-narrow-lookups.R
    calls <- if (is.null(dtype)) names(by_key) else setdiff(names(by_key), c("cut", "cut, left", "findInterval"))
    for (call in calls) if (is_next_ours())
      found <<- c(found, compare(if (is.null(dtype) || !call %in% makes_groups) by_key[[call]] else
        without_nan(by_key[[call]]), list(x, k), dtype = dtype, what = paste(call, "by", what)))
  }
  for (what in names(keys)) {
    try_each(keys[[what]], what)
    # more elements than are looked at one by one, and a view
    try_each(rev(rep(keys[[what]], 40L)), paste(what, "many times"))
  }
  for (what in names(narrow)) try_each(narrow[[what]], what, "float32")
  found
}

test_that("keys with rounding noise are told apart as base R tells them apart", {
  expect_all_same(over_keys())
  expect_composed_same(over_keys)
})

test_that("gpu_group() has the groups that tapply() has", {
  for (what in names(keys)) {
    k <- keys[[what]]
    count <- function(how) {
      out <- how(gpu_group(gpu(seq_along(k)), gpu(k), "count"))
      expect_identical(as.vector(out), as.vector(table(k, exclude = NA)), info = what)
      expect_identical(names(out), names(table(k, exclude = NA)), info = what)
    }
    count(function(x) collect(x))
    count(function(x) composed(collect(x)))
  }
})
