# Groups and statistics: calls over types, sizes, edges and layouts, compared with base R; also in the mode that
# computes as on a GPU, since the cpu device leaves some to base R.

keys_of <- function(v, k = 3L) rep_len(c(2L, 1L, 3L, 2L)[seq_len(k + 1L)], length(v))

# Of NA and NaN rowsum() leaves it to the compiler which their sum is.
no_nan <- function(v) {
  v[is.nan(v)] <- 0
  v
}

test_that("rowsum(), tapply(), ave() and split() agree with base R", {
  exact <- list(
    "tapply max" = function(v) tapply(v, keys_of(v), max), "tapply length" = function(v)
      tapply(v, keys_of(v), length), "tapply two" = function(v)
      tapply(v, list(a = keys_of(v), b = seq_along(v) %% 2 > 0), min), "tapply missing key" = function(v)
      tapply(v, rep_len(c("x", NA, "y"), length(v)), max),
    "tapply factor" = function(v) tapply(v, factor(rep_len(c("b", "a"), length(v)), levels = c("b", "none", "a")), min),
      "tapply f" = function(v) tapply(v, keys_of(v), function(p) p[1L]), "tapply codes" = function(v)
      tapply(v, keys_of(v)), "tapply range" = function(v) tapply(v, keys_of(v), range), "tapply default" = function(v)
      tapply(v, factor(keys_of(v), levels = 1:4), max, default = 0),
    "tapply wrong" = function(v) tapply(v, 1:9, max), "split" = function(v)
      split(v, keys_of(v)), "unsplit" = function(v) unsplit(split(v, keys_of(v)), keys_of(v)), "ave max" = function(v)
      ave(v, keys_of(v), FUN = max), "ave f" = function(v) ave(v, keys_of(v), FUN = function(p) p[1L]),
      "ave none" = function(v) ave(v, FUN = max), "rowsum wrong" = function(v) rowsum(v, 1:9))
  sums <- list(
    "tapply sum" = function(v) tapply(v, keys_of(v), sum), "tapply mean" = function(v)
      tapply(v, keys_of(v), mean), "rowsum" = function(v) rowsum(no_nan(v), keys_of(v)), "rowsum na.rm" = function(v)
      rowsum(no_nan(v), keys_of(v), na.rm = TRUE), "rowsum order" = function(v)
      rowsum(no_nan(v), keys_of(v), reorder = FALSE), "rowsum strings" = function(v)
      rowsum(no_nan(v), rep_len(c("b", "a", "c"), length(v))), "rowsum missing" = function(v)
      rowsum(no_nan(v), rep_len(c(1, NA), length(v))), "ave" = function(v) ave(v, keys_of(v)), "ave two" = function(v)
      ave(v, keys_of(v), seq_along(v) %% 2))
  spread <- list("tapply var" = function(v) tapply(v, keys_of(v), var), "tapply sd" = function(v) tapply(v, keys_of(v),
    sd), "tapply prod" = function(v) tapply(v, keys_of(v), prod))
  some <- sizes_tried[-1L] # of nothing rowsum() has row names that are no names
  run <- function() c(over_vectors(exact), over_vectors(sums, c("double", "integer"), "ties", limit = 8, sizes = some),
    over_vectors(sums, c("double", "integer", "logical"), "plain", limit = 4096, layouts = "whole", sizes = some),
    over_vectors(sums, "integer", "edges", layouts = "whole", limit = 8, sizes = some),
    over_vectors(spread, c("double", "integer"), "plain", sizes = c(63L, 257L), limit = 2^14))
  expect_all_same(run())
  expect_composed_same(run)
})

test_that("medians, quantiles and ranks of groups agree with base R", {
  calls <- list(
    "median" = function(v) tapply(v, keys_of(v), median), "quantile" = function(v) tapply(v, keys_of(v), quantile),
    "median of two" = function(v) tapply(v, list(a = keys_of(v), b = seq_along(v) %% 2 > 0), median),
    "quantile of two" = function(v) tapply(v, list(keys_of(v), seq_along(v) %% 2), quantile),
    "median of none" = function(v) tapply(v, factor(keys_of(v), levels = 0:4), median),
    "quantile of none" = function(v) tapply(v, factor(keys_of(v), levels = 0:4), quantile),
    "missing key" = function(v) tapply(v, rep_len(c("x", NA, "y"), length(v)), median),
    "median na.rm" = function(v) tapply(v, keys_of(v), median, na.rm = TRUE),
    "quantile probs" = function(v) tapply(v, keys_of(v), quantile, 0.3),
    "rank" = function(v) ave(v, keys_of(v), FUN = rank), "rank of two" = function(v)
      ave(v, keys_of(v), seq_along(v) %% 2, FUN = rank))
  run <- function() c(over_vectors(calls, c("double", "integer"), "plain", sizes = c(1L, 2L, 63L, 257L), limit = 2),
    over_vectors(calls, "double", c("ties", "edges"), sizes = c(64L, 257L), limit = 2, layouts = "whole"),
    lapply(c("median", "rank"), function(call) compare(calls[[call]], list(round(rnorm(100), 1)), dtype = "float32",
      what = call)))
  expect_all_same(run())
  expect_composed_same(run)
})

test_that("groups that cut() makes are not read on the way", {
  set.seed(10)
  v <- runif(2e4)
  x <- gpu(v)
  breaks <- c(0.1, 0.5, 0.7, 1)
  # so large that the cpu device leaves the codes where they are
  read <- function() .Call(C_live)[3L]
  before <- read()
  counts <- table(cut(x, breaks), useNA = "ifany")
  both <- table(cut(x, breaks), cut(x, 2))
  means <- tapply(x, cut(x, breaks, labels = c("z", "y", "a")), mean)
  sums <- rowsum(x, cut(x, c(0, breaks), labels = c("z", "y", "x", "a")))
  expect_lt(read() - before, 5e4)
  g <- cut(v, breaks)
  expect_identical(as.vector(counts), as.vector(table(g, useNA = "ifany")))
  expect_identical(dimnames(unname(counts)), dimnames(unname(table(g, useNA = "ifany"))))
  expect_identical(unname(unclass(both)), unname(unclass(table(g, cut(v, 2)))))
  expect_equal(collect(means), tapply(v, cut(v, breaks, labels = c("z", "y", "a")), mean))
  expect_equal(collect(sums), rowsum(v, cut(v, c(0, breaks), labels = c("z", "y", "x", "a"))))
})

test_that("keys that as.vector() gave are not read on the way", {
  set.seed(11)
  k <- sample.int(5L, 2e4, TRUE)
  v <- runif(2e4)
  x <- gpu(v)
  key <- gpu(k)
  read <- function() .Call(C_live)[3L]
  before <- read()
  found <- list(tapply(x, as.vector(key), sum), rowsum(x, as.vector(key)), ave(x, as.vector(key)),
    table(key, as.vector(key)), split(x, as.vector(key))[[2L]], cbind(x, as.vector(key)))
  expect_lt(read() - before, 8e4)
  want <- list(tapply(v, k, sum), rowsum(v, k), ave(v, k), table(k, k), split(v, k)[[2L]], cbind(v, k))
  for (i in seq_along(want)) expect_equal(collect(found[[i]]), want[[i]], ignore_attr = i %in% c(4L, 6L))
})

test_that("sums by a factor stand in the order of its levels", {
  f <- factor(c("b", "a", NA, "b", "c"), levels = c("d", "b", "a", "c"))
  run <- function() list(compare(function(v) rowsum(v, f[-3L]), list(1:4), what = "levels"), compare(function(v)
    rowsum(v, f[-3L], reorder = FALSE), list(1:4), what = "first"), compare(function(v) rowsum(v, f), list(1:5 + 0),
    what = "missing"), compare(function(v) rowsum(cbind(a = v, b = v), f[-3L]), list(1:4), what = "matrix"))
  expect_all_same(run())
  expect_composed_same(run)
})

test_that("codes are counted whatever their range", {
  set.seed(9)
  ways <- list(small = sample.int(7L, 500L, TRUE), zero = c(0L, 3L, 3L), wide = c(5L, 1023L, 1024L, 9000L),
    negative = c(-3L, 2L, 2L), missing = c(2L, NA, 1L, 1L), one = 4L)
  run <- function() unlist(lapply(names(ways), function(way) list(
    compare(function(v) tabulate(v), list(ways[[way]]), what = paste("tabulate", way)),
    compare(function(v) table(v, useNA = "ifany"), list(ways[[way]]), what = paste("table", way)),
    compare(function(v) rowsum(v + 0.5, v), list(ways[[way]]), what = paste("rowsum", way)))))
  expect_all_same(run())
  expect_composed_same(run)
})

test_that("keys may be arrays", {
  set.seed(6)
  x <- round(rnorm(5000), 3)
  k <- sample(c(1.5, -2, 0, 7), 5000, TRUE)
  i <- sample.int(300L, 5000, TRUE)
  run <- function() {
    c(compare(function(v, g) tapply(v, g, max), list(x, k), what = "tapply"), compare(function(v, g) tapply(v, g, sum),
      list(i, i), what = "tapply of integers"), compare(function(v, g, h) tapply(v, list(g, h), length), list(x, i, k),
      what = "two keys"), compare(function(v, g) rowsum(v, g), list(i, i), what = "rowsum"), compare(function(v, g)
      rowsum(no_nan(v), g, reorder = FALSE), list(cbind(a = i, b = rev(i)), i), what = "rowsum of a matrix"),
      compare(function(v, g) ave(v, g, FUN = max), list(x, i), what = "ave"), compare(function(v, g) split(v, g),
        list(x, i), what = "split"), compare(function(v, g) aggregate(v, list(g = g), max)$x, list(x, i),
        what = "aggregate"), compare(function(v, g) aggregate(data.frame(v = v), data.frame(g = g), sum), list(i, i),
        what = "aggregate a frame"))
  }
  expect_all_same(run())
  expect_composed_same(run)
})

test_that("gpu_group() computes what it says", {
  set.seed(7)
  x <- round(rnorm(20000), 3)
  g <- sample(c(rep(1L, 50), 2:40), 20000, TRUE)
  x[g == 5L] <- 2
  y <- gpu(x)
  for (key in list(g, gpu(g))) {
    for (f in c("min", "max", "count", "first", "last")) {
      want <- tapply(x, g, switch(f, count = length, first = function(v) v[1L], last = function(v) v[length(v)],
        get(f)))
      got <- gpu_group(y, key, f)
      expect_true(.Call(verdigris:::C_is_array, got))
      expect_identical(collect(got), want)
    }
    for (f in c("sum", "mean", "var", "sd", "prod"))
      expect_equal(collect(gpu_group(y, key, f)), tapply(x, g, get(f)), tolerance = 1e-12)
  }
  expect_identical(as.vector(gpu_group(y, g, "sum")), as.vector(gpu_group(y, g, "sum")))
  z <- replace(x, c(3, 500), NA)
  expect_equal(collect(gpu_group(gpu(z), g, "mean", na.rm = TRUE)), tapply(z, g, mean, na.rm = TRUE), tolerance = 1e-12)
  two <- list(a = g %% 3, b = g > 20)
  expect_equal(collect(gpu_group(y, two, "sum")), tapply(x, two, sum), tolerance = 1e-12)
  expect_identical(collect(gpu_group(y, data.frame(two), "count")), tapply(x, two, length))
  expect_identical(collect(gpu_group(gpu(1:3), factor(c("a", "c", "a"), levels = c("a", "b", "c")), "count")),
    tapply(1:3, factor(c("a", "c", "a"), levels = c("a", "b", "c")), length, default = 0L))
  expect_error(gpu_group(y, 1:3, "sum"), class = "verdigris_error_argument")
  expect_error(gpu_group(1:3, 1:3, "sum"), class = "verdigris_error_argument")
})

test_that("windows are rolled as each by itself", {
  set.seed(8)
  x <- c(round(rnorm(200), 3), NA, Inf, 1, 2)
  for (k in c(1, 2, 3, 5, 8, 31, 204, 300)) for (f in c("sum", "mean", "min", "max")) {
    n <- length(x)
    windows <- if (k <= n) vapply(seq_len(n - k + 1), function(i) get(f)(x[i + seq_len(k) - 1]), 0) else numeric()
    expect_equal(as.vector(gpu_roll(gpu(x), k, f, fill = NULL)), windows, tolerance = 1e-12)
    for (align in c("right", "center", "left")) {
      before <- min(n, switch(align, right = k - 1, left = 0, center = (k - 1) %/% 2))
      expect_equal(as.vector(gpu_roll(gpu(x), k, f, align)),
        c(rep(NA, before), windows, rep(NA, n - length(windows) - before)), tolerance = 1e-12)
    }
  }
  expect_identical(typeof(gpu_roll(gpu(1:5), 2, "max")), "integer")
  expect_error(gpu_roll(gpu(1), 0), class = "verdigris_error_argument")
  expect_error(gpu_roll(gpu(1), 1, fill = "a"), class = "verdigris_error_argument")
  w <- c(0.5, -1, 0.25)
  # by the name alone, as a user has it
  calls <- list("filter" = function(v) filter(v, w), "filter one side" = function(v) filter(v, w, sides = 1),
    "filter two" = function(v) filter(v, c(1, 2)), "filter circular" = function(v)
    filter(v, w, circular = TRUE), "filter recursive" = function(v)
    filter(v, 0.5, "recursive"), "filter wrong" = function(v) filter(v, w, sides = 3), "filter array" = function(v)
    filter(v, v[1:2]))
  expect_all_same(over_vectors(calls, c("double", "integer"), named = FALSE, sizes = c(2L, 63L, 64L, 257L)))
  expect_all_same(compare(function(v) filter(v, w), list(ts(c(1, 4, 2, 8, 5, 7), start = 2000, frequency = 4)),
    what = "filter of a series"))
})

test_that("covariances and correlations agree with base R", {
  set.seed(9)
  m <- matrix(round(rnorm(120), 3), 20, dimnames = list(NULL, letters[1:6]))
  holes <- replace(m, c(3, 50), NA)
  constant <- cbind(m[, 1:2], 1)
  run <- function() {
    found <- list()
    for (x in list(m, unname(holes), constant, m > 0, matrix(1:10, 5))) for (f in list(cov, cor, var))
      for (use in c("everything", "all.obs", "complete.obs", "na.or.complete", "pairwise.complete.obs", "no")) {
      found <- c(found, compare(function(v) round(f(v, use = use), 12) + 0, list(x), ulp = 2^12,
        what = paste("cov", use)))
    }
    for (f in list(cov, cor)) for (method in c("spearman", "kendall")) {
      found <- c(found, compare(function(v) f(v, method = method), list(m), ulp = 2^10, what = method),
        compare(function(v) f(v, use = "complete.obs", method = method), list(holes), ulp = 2^10, what = method))
      found <- c(found, compare(function(v, w) f(v, w, method = method), list(m[, 1], m[, 2]), ulp = 2^10,
        what = method))
    }
    for (f in list(cov, cor)) {
      found <- c(found, compare(function(v, w) f(v, w), list(m[, 1], m[, 2]), ulp = 2^12, what = "vectors"),
        compare(function(v, w) f(v, w), list(m, m[, 2]), ulp = 2^12, what = "matrix and vector"),
        compare(function(v, w) f(v, w), list(m, list(m[, 2:3])), ulp = 2^12, what = "host"),
        compare(function(v) f(v), list(m[, 1]), what = "one vector"), compare(function(v, w) f(v, w), list(m, m[1:3, ]),
        what = "dimensions"), compare(function(v, w) f(v, w, use = "complete.obs"), list(holes[, 1], holes[, 3]),
        ulp = 2^12, what = "complete vectors"))
    }
    found
  }
  expect_all_same(run())
  expect_composed_same(run)
})

test_that("distances agree with base R", {
  set.seed(10)
  m <- matrix(round(rnorm(60), 2), 12, dimnames = list(letters[1:12], NULL))
  zeros <- m * (abs(m) > 0.7)
  run <- function() {
    found <- list()
    for (x in list(m, unname(zeros), matrix(1:6, 3), m[1, , drop = FALSE], replace(m, 5, NA), replace(m, 5, Inf))) {
      for (method in c("euclidean", "maximum", "manhattan", "canberra", "binary", "minkowski", "none")) {
        # the call is another, as the tests make it
        found <- c(found, compare(function(v) `attr<-`(dist(v, method, p = 3), "call", NULL), list(x), ulp = 64,
          what = paste("dist", method)))
      }
    }
    found
  }
  expect_all_same(run())
  expect_composed_same(run)
  expect_identical(attr(composed(dist(gpu(m))), "call"), quote(dist(x = gpu(m))))
  expect_identical(attr(dist(gpu(m), "max"), "call"), quote(dist(x = gpu(m), method = "max")))
})

test_that("weighted means and histograms agree with base R", {
  calls <- list("weighted.mean" = function(v) weighted.mean(v, seq_along(v)), "weighted.mean na.rm" = function(v)
    weighted.mean(v, seq_along(v), na.rm = TRUE), "weighted.mean own" = function(v)
    weighted.mean(v, abs(v)), "weighted.mean none" = function(v) weighted.mean(v))
  hists <- list("hist" = function(v) unclass(hist(v, plot = FALSE)), "hist 20" = function(v)
    unclass(hist(v, 20, plot = FALSE)), "hist breaks" = function(v)
    unclass(hist(v, seq(-1000, 1000, 50), plot = FALSE)), "hist left" = function(v)
    unclass(hist(v, 10, right = FALSE, plot = FALSE)), "hist lowest" = function(v)
    unclass(hist(v, c(-1000, 0, 1, 1000), include.lowest = FALSE, plot = FALSE)), "hist few" = function(v)
    unclass(hist(v, c(0, 1), plot = FALSE)), "hist rule" = function(v) unclass(hist(v, "scott", plot = FALSE)))
  found <- over_vectors(calls, limit = 2^12, kinds = c("ties", "plain"), layouts = "whole")
  found <- c(found, over_vectors(hists, c("double", "integer"), kinds = c("ties", "plain"),
    layouts = c("whole", "recorded")), composed(over_vectors(hists, c("double", "integer"), kinds = "plain",
    layouts = "whole")))
  expect_all_same(found)
})

test_that("the groups are as many as they were", {
  expect_cases(4000L)
})

test_that("sums and shares of margins, extremes of rows and fits agree with base R", {
  calls <- list("marginSums 1" = function(m) marginSums(m, 1), "margin.table 2" = function(m) margin.table(m, 2),
    marginSums = function(m) marginSums(m), "marginSums both" = function(m)
    marginSums(m, 1:2), "marginSums NULL" = function(m) marginSums(m, NULL),
    "marginSums name" = function(m) marginSums(`dimnames<-`(m, list(a = NULL, b = NULL)), "b"),
      "marginSums wrong" = function(m) marginSums(m, 4), "marginSums vector" = function(m) marginSums(m[seq_along(m)]))
  shares <- list("proportions 1" = function(m) proportions(m, 1), "prop.table 2" = function(m) prop.table(m, 2),
    proportions = function(m) proportions(m), "proportions both" = function(m) proportions(m, 2:1))
  rows <- list("max.col" = function(m) max.col(m, "first"), "max.col last" = function(m)
    max.col(m, ties.method = "last"), "max.col wrong" = function(m) max.col(m, "second"))
  some <- if (emulated) list(c(3L, 4L)) else list(c(3L, 4L), c(64L, 2L), c(1L, 1L))
  layouts <- if (emulated) "whole" else names(arrangements)
  expect_all_same(c(over_matrices(calls, kinds = c("plain", "ties"), shapes = some, limit = 4, layouts = layouts),
    over_matrices(shares, c("double", "integer"), "plain", some, limit = 16, layouts = layouts),
    over_matrices(rows, c("double", "integer"), "plain", some, layouts = layouts)))
  set.seed(8)
  m <- matrix(rnorm(60), 20, dimnames = list(NULL, c("a", "b", "c")))
  m[, 3L] <- m[, 1L] + m[, 2L]
  y <- stats::setNames(rnorm(20), letters[1:20])
  fit <- c("coefficients", "residuals", "effects", "rank", "fitted.values", "weights", "df.residual")
  of <- function(fit, parts) fit[intersect(parts, names(fit))]
  expect_all_same(c(
    compare(function(x, y) of(lm.fit(x, y), fit), list(m, y), what = "lm.fit"),
      compare(function(x, y) of(lm.fit(x, cbind(y, 2 * y)), fit), list(m, y), what = "lm.fit of two"),
      compare(function(x, y) of(lm.fit(x, y, offset = y / 2, tol = 1e-9), fit), list(m, y), what = "offset"),
    compare(function(x, y) of(lm.wfit(x, y, rep_len(c(1, 2, 0), 20)), fit), list(m, y), what = "lm.wfit"),
      compare(function(x, y) lm.fit(x, y, singular.ok = FALSE), list(m, y), what = "singular"),
      compare(function(x, y) lm.fit(x, y[1:3]), list(m, y), what = "wrong"),
    compare(function(x, y) lm.fit(x), list(m, y), what = "no y")))
  expect_true(is_gpu(lm.fit(gpu(m), gpu(y))$residuals))
  frame <- function(v) data.frame(v = v, w = v * 2)
  keys <- rep_len(c(3L, 1L, 2L, 1L), 20L)
  expect_all_same(c(
    compare(function(v, g) aggregate(frame(v), list(g = g, h = rep_len(1:2, length(v))), sum), list(y, keys),
      what = "two keys"), compare(function(v, g) aggregate(frame(v), list(g), function(p) p[1L] + 1), list(y, keys),
      what = "own"),
    compare(function(v, g) aggregate(frame(v), by = list(g = g), FUN = range), list(y, keys), what = "range"),
      compare(function(v, g) aggregate(v ~ g, data.frame(v = v, g = as.vector(g)), mean), list(y, keys),
      what = "formula"),
    compare(function(v, g) aggregate(frame(v), list(1:3), sum), list(y, keys), what = "wrong")))
})
