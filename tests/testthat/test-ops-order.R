# Sorting, positions and quantiles: as base R's, NA and ties included.

test_that("sort() agrees with base R", {
  found <- list()
  for (type in c("double", "integer", "logical", "complex")) for (x in layouts(type)) {
    x <- if (is.matrix(x)) as.vector(x) else x
    for (decreasing in c(FALSE, TRUE)) for (na.last in c(NA, TRUE, FALSE)) {
      found <- c(found, compare(function(v) sort(v, decreasing = decreasing, na.last = na.last), list(x),
                                what = sprintf("sort(%s[%d], %s, %s)", type, length(x), decreasing, na.last)))
    }
  }
  ties <- setNames(c(2, 1, 2, 1, NA, 1), letters[1:6])
  found <- c(found, compare(sort, list(ties), what = "ties with names"), compare(function(v) sort(v, decreasing = TRUE),
    list(ties), what = "ties with names, decreasing"),
             compare(function(v) sort(v, method = "quick"), list(unname(ties)), what = "method"),
               compare(function(v) sort(v, partial = 3), list(c(3, 1, 2)), what = "partial"))
  expect_all_same(found)
})

test_that("which() agrees with base R", {
  found <- list()
  for (x in layouts("logical")) found <- c(found, compare(which, list(x), what = paste("which", length(x))),
    compare(function(v) which(v, useNames = FALSE), list(x), what = "useNames = FALSE"))
  m <- matrix(values("logical", 12L), 3L, dimnames = list(letters[1:3], NULL))
  found <- c(found, compare(function(v) which(v, arr.ind = TRUE), list(m), what = "arr.ind"),
    compare(function(v) which(v > 0), list(values("double", 257L)), what = "which of a comparison"),
             compare(which, list(1:3), what = "which of integers"), compare(which, list(logical()),
               what = "which of nothing"))
  expect_all_same(found)
})

test_that("quantile() agrees with base R, all nine types", {
  found <- list()
  set.seed(4)
  probs <- list(seq(0, 1, 0.25), c(0.1, 0.333, 0.9, 1), 0.5, c(0, 1e-9, 1 - 1e-9), numeric(), c(NA, 0.5), 1.5)
  for (x in list(rnorm(100), 1:10 + 0, c(3, 1, 2, 2, 2), 7, 1:7, c(1, Inf, -Inf, 2), c(1, NA, 3), c(TRUE, FALSE),
    numeric(), matrix(1:6 + 0, 2), c(a = 1, b = 2))) {
    for (type in 1:9) for (p in probs) {
      found <- c(found, compare(function(v) quantile(v, p, type = type), list(x), ulp = 4,
        what = sprintf("quantile(%s, %s, type = %d)", deparse1(head(x, 3)), deparse1(p), type)))
    }
    found <- c(found, compare(function(v) quantile(v, na.rm = TRUE), list(x), ulp = 4, what = "na.rm"),
      compare(function(v) quantile(v, 0.5, names = FALSE, na.rm = TRUE), list(x), ulp = 4, what = "names = FALSE"))
  }
  expect_all_same(found)
})

test_that("median(), order(), rev(), unique() and duplicated() agree with base R", {
  found <- list()
  for (type in c("double", "integer", "logical")) for (n in c(1L, 64L, 257L)) {
    x <- values(type, n)
    what <- sprintf("%s[%d]", type, n)
    found <- c(found,
      compare(function(v) median(v, na.rm = TRUE), list(x), what = paste("median", what)),
        compare(function(v) order(v), list(x), what = paste("order", what)),
      compare(function(v) rank(v), list(x), what = paste("rank", what)),
        compare(rev, list(x), what = paste("rev", what)), compare(unique, list(x), what = paste("unique", what)),
      compare(duplicated, list(x), what = paste("duplicated", what)), compare(function(v) table(v), list(x),
        what = paste("table", what)),
      compare(function(v) cumsum(v), list(x), ulp = 8, what = paste("cumsum", what)),
        compare(function(v) diff(v), list(x), what = paste("diff", what)),
      compare(lengths, list(x), what = paste("lengths", what)), compare(function(v) order(v, rev(v), decreasing = TRUE),
        list(x), what = paste("order by two", what)), compare(function(v)
        tabulate(v, 5), list(x), what = paste("tabulate", what)),
      compare(function(v) head(v, 3), list(x), what = paste("head", what)), compare(function(v) rep(v, 2), list(x),
        what = paste("rep", what)), compare(function(v) c(v, 1), list(x), what = paste("c", what)))
  }
  expect_all_same(found)
})

test_that("one-dimensional arrays keep or lose their dimension as in base R", {
  found <- list()
  for (x in list(array(c(3, 1, 2), 3L), array(c(3, 1, 2), 3L, list(c("a", "b", "c"))), array(c(3, NA, 2), 3L),
    array(3:1, 3L), array(1:3, 3L), array(c(1L, NA, 2L), 3L, list(c("a", "b", "c"))), array(c(TRUE, FALSE), 2L),
    array(numeric(), 0L), array(1, 1L), array(c(1i, 0), 2L), array(c(3, 1), 2L, list(axis = c("a", "b")))))
    for (f in list(function(x) sort(x), function(x) sort(x, decreasing = TRUE), function(x) sort(x, na.last = TRUE),
      function(x) sort(x, na.last = FALSE), function(x) sort(x, method = "quick"),
      function(x) sort(x, method = "radix"), function(x) sort(x, method = "shell"), function(x) rev(sort(x)),
      stats::fivenum, rev))
      found <- c(found, compare(f, list(x), what = paste(deparse1(f), deparse1(x))))
  expect_all_same(found)
})

test_that("sets of complex arrays are arrays, as those of others are", {
  found <- list()
  x <- c(1i, 2, 2, 3 + 0i)
  for (f in list(union, intersect, setdiff, setequal, is.element)) for (y in list(2i, x, 1, 1:3, "a", complex()))
    found <- c(found, compare(f, list(x, list(y)), what = deparse1(y)),
      compare(f, list(list(y), x), what = deparse1(y)),
      if (!is.character(y)) compare(f, list(x, y), what = deparse1(y)))
  expect_all_same(found)
  x <- gpu(x)
  for (y in list(union(x, 2i), union(2i, x), union(x, 1), intersect(x, 2 + 0i), setdiff(x, 1i), setdiff(x, "a")))
    expect_true(is_gpu(y))
  expect_identical(gpu_dtype(union(gpu(1i, "complex64"), 2i)), "complex64")
  expect_false(is_gpu(setdiff(2i, x)))
})

test_that("the orders are as many as they were", {
  expect_cases(900L)
})
