# Blocks with special cases: where many elements are computed together, uncommon ones among them are computed one by
# one. Compared with base R.

set.seed(11)
n <- 3000L
spread <- function(n, most = 30) rnorm(n) * 2^sample(-most:most, n, TRUE)

test_that("remainders and quotients of many numbers have base R's bits", {
  whole <- sample(-2000:2000, n, TRUE) + 0
  tenths <- sample(1:200, n, TRUE) / 10
  a <- list(rnorm(n), spread(n), whole, whole * tenths, ifelse(runif(n) < 0.01, NA, rnorm(n)),
    ifelse(runif(n) < 0.01, sample(c(Inf, -Inf, 0, NaN), n, TRUE), spread(n, 20)))
  b <- list(rnorm(n), spread(n), tenths, 2, -3.7, ifelse(runif(n) < 0.01, sample(c(0, Inf, -Inf, NA), n, TRUE),
    spread(n, 5)))
  found <- list()
  for (i in seq_along(a)) for (j in seq_along(b)) {
    found <- c(found, compare(`%%`, list(a[[i]], b[[j]]), ulp = 0, what = sprintf("%%%% %d %d", i, j)),
      compare(`%/%`, list(a[[i]], b[[j]]), ulp = 0, what = sprintf("%%/%% %d %d", i, j)))
  }
  z <- complex(real = a[[6]], imaginary = spread(n))
  w <- complex(real = spread(n), imaginary = b[[6]])
  plain <- complex(real = rnorm(n), imaginary = rnorm(n))
  # base R's division is the C compiler's, which scales and rounds elsewhere
  found <- c(found, compare(`/`, list(plain, rev(plain)), ulp = 16, what = "complex /"),
    compare(`/`, list(plain, 1 + 0i), ulp = 16, what = "complex / 1"))
  expect_all_same(found)
  expect_identical(is.na(as.vector(gpu(z) / gpu(w))), is.na(z / w))
})

test_that("reductions of blocks see what is missing, infinite and far from 1", {
  x <- rnorm(n)
  whole <- sample(-999:999, n, TRUE)
  put <- function(x, at, value) replace(x, at, value)
  cases <- list(x = x, na = put(x, n, NA), nan = put(x, 1500L, NaN), both = put(put(x, 5L, NaN), 2000L, NA),
    inf = put(x, 17L, Inf), opposed = put(put(x, 17L, Inf), 2900L, -Inf),
                large = x * 1e300, small = x * 1e-300, zero = put(x, 40L, 0), none = rep(NA_real_, n),
                i = whole, ina = put(whole, 33L, NA), z = complex(real = x, imaginary = rev(x)),
                  zna = put(complex(real = x, imaginary = 1), 44L, NA))
  found <- list()
  for (what in names(cases)) for (na.rm in c(FALSE, TRUE)) {
    v <- cases[[what]]
    functions <- if (is.complex(v)) c("sum", "mean") else c("sum", "mean", if (is.double(v)) "prod", "min", "max",
      "range")
    for (name in functions) {
      f <- get(name)
      found <- c(found, compare(function(x) f(x, na.rm = na.rm), list(v), ulp = 64, what = paste(name, what, na.rm)))
    }
    # of NA and NaN in one sum base R's margins keep the first
    if (is.complex(v) || what == "both") next
    # groups of neighbours, short and long; neighbours of different groups, few and many
    for (d in list(c(4L, 750L), c(100L, 30L), c(1500L, 2L), c(3L, 1000L)))
      for (name in c("colSums", "rowSums", "colMeans", "rowMeans")) {
      f <- get(name)
      found <- c(found, compare(function(x) f(x, na.rm = na.rm), list(matrix(v, d[1L])), ulp = 64,
        what = paste(name, what, d[1L], na.rm)))
    }
  }
  expect_all_same(found)
  # base R's 80 bits lose three digits here
  expect_equal(sum(gpu(put(put(x, 17L, 1e16), 2900L, -1e16))), sum(x[-c(17L, 2900L)]), tolerance = 1e-13)
  many <- matrix(rnorm(2e5), 2L)
  expect_equal(as.vector(rowSums(gpu(many))), rowSums(many), tolerance = 1e-14)
  expect_equal(as.vector(colSums(gpu(many))), colSums(many), tolerance = 1e-14)
})

test_that("sorting keeps zeros' signs in their order, and missing values last", {
  x <- sample(c(0, -0, round(rnorm(n), 1), NA, NaN, Inf, -Inf), n, TRUE)
  for (v in list(x, x[!is.na(x)], x[!is.na(x) & x != 0], sample(-999:999, n, TRUE), c(NA, sample.int(n))))
    for (decreasing in c(FALSE, TRUE)) {
    wanted <- sort(v, decreasing = decreasing, method = "radix")
    expect_identical(as.vector(sort(gpu(v), decreasing = decreasing)), wanted)
    if (is.double(v) && any(v == 0, na.rm = TRUE))
      expect_identical(as.vector(1 / sort(gpu(v), decreasing = decreasing)), 1 / wanted)
  }
})

test_that("ends that are left out, and long ranges, are what base R takes", {
  x <- rnorm(n)
  found <- list()
  for (i in list(-1L, -1, -n, -(1:3), -c(3, 1, 2, 2), -(n - 0:2), -2L, c(-1L, -n), -(n + 1L), c(0L, -1L), -0.5, -(1:16),
    -(1:17), 2:n, n:1, seq(1, n, 7), c(1:2000, 5L), 0:10, 1:(n + 5L), c(NA, -1)))
    found <- c(found, compare(function(x) x[i], list(x), ulp = 0, what = deparse1(i)))
  found <- c(found, compare(function(x) x[-1L], list(1), ulp = 0, what = "nothing left"))
  expect_all_same(found)
})

test_that("a matrix by a vector agrees with base R, also where something is missing", {
  m <- matrix(rnorm(300L * 70L), 300L)
  holes <- replace(m, 77L, NA)
  found <- list()
  for (a in list(m, holes, replace(m, 5L, Inf))) found <- c(found,
    compare(`%*%`, list(a, rnorm(70L)), ulp = 4096, what = "m v"), compare(function(x, y) t(x) %*% y,
      list(a, rnorm(300L)), ulp = 4096, what = "t(m) v"),
    compare(`%*%`, list(rnorm(300L), a), ulp = 4096, what = "v m"), compare(function(x, y) y %*% t(x),
      list(a, rnorm(70L)), ulp = 4096, what = "v t(m)"),
    compare(`%*%`, list(a[1L, , drop = FALSE], a[1L, ]), ulp = 4096, what = "one number"))
  expect_all_same(found)
})

test_that("conversions to R's types are base R's, with its warnings", {
  x <- c(rnorm(n) * 1e3, NA, NaN, 3e9, -3e9, Inf, 0, -0)
  found <- list()
  for (v in list(x, sample(c(NA, -5:5), n, TRUE), sample(c(NA, TRUE, FALSE), n, TRUE),
    complex(real = rnorm(n), imaginary = c(0, 1)))) for (f in list(as.integer, as.double, as.logical, as.complex))
    found <- c(found, compare(f, list(v), ulp = 0, what = paste(typeof(v), deparse1(f))))
  expect_all_same(found)
})

test_that("vectors that repeat, and parts of matrices, are read where they lie", {
  set.seed(12)
  found <- list()
  # the cpu device's blocks have 1024 elements; an emulated GPU takes long
  for (rows in if (emulated) 300L else c(200L, 256L, 300L, 1024L, 1100L, 2050L))
    for (type in c("double", "integer", "logical")) {
    v <- switch(type, double = rnorm(rows), integer = sample.int(99L, rows, TRUE), logical = runif(rows) < 0.5)
    m <- matrix(switch(type, double = rnorm(rows * 5L), integer = sample.int(99L, rows * 5L, TRUE),
      logical = runif(rows * 5L) < 0.5), rows)
    calls <- list(
      recycled = function(m, v) m + v, "recycled twice" = function(m, v) (m + v) * v[-1L], rows = function(m, v)
        m[3:(nrow(m) - 4L), ] * 2L, "rows beside" = function(m, v) m[-1L, ] - v[-1L],
      columns = function(m, v) m[, c(4L, 1L)] + v, turned = function(m, v) t(m) * 3L, sweep = function(m, v)
        sweep(m, 1L, v), outer = function(m, v) outer(v, 1:3), sums = function(m, v)
        colSums(m + v), all = function(m, v) sum(m[-1L, ] * 2L))
    for (call in names(calls))
      found <- c(found, compare(calls[[call]], list(m, v), ulp = if (call %in% c("sums", "all")) 64 else 0,
      what = paste(call, rows, type)))
  }
  expect_all_same(found)
})

test_that("views with short axes are read in order", {
  set.seed(13)
  found <- list()
  for (rows in if (emulated) c(1L, 3L) else c(1:9, 40L)) for (columns in c(1L, 2L, 5L, if (!emulated) 300L)) {
    m <- matrix(round(rnorm(rows * columns), 3), rows)
    found <- c(found, compare(function(m) kronecker(m, matrix(1:4, 2)), list(m), what = paste("kronecker", rows,
      columns)), compare(function(m) aperm(array(m, c(dim(m), 1L)), c(3, 2, 1)) + 0, list(m),
      what = paste("aperm", rows, columns)),
      compare(function(m) rep(m, each = 3L) + 0, list(m), what = paste("each", rows, columns)),
        compare(function(m) t(m)[, rev(seq_len(nrow(m)))] + 0, list(m), what = paste("turned", rows, columns)))
  }
  expect_all_same(found)
})

test_that("sums of short groups see what is missing, infinite and -0", {
  set.seed(14)
  found <- list()
  for (rows in if (emulated) c(4L, 64L) else c(1:9, 63L, 64L))
    for (odd in list(numeric(), NA, NaN, Inf, c(Inf, -Inf), -0)) for (na.rm in c(FALSE, TRUE)) {
    m <- matrix(round(rnorm(rows * 100L), 3), rows)
    if (length(odd)) m[sample.int(length(m), 40L)] <- rep_len(odd, 40L)
    if (identical(odd, -0)) m[, 7L] <- -0
    for (name in c("colSums", "colMeans"))
      found <- c(found, compare(function(m) get(name)(m, na.rm = na.rm), list(m), ulp = 4,
      what = paste(name, rows, deparse(odd), na.rm)))
  }
  expect_all_same(found)
  # base R's sum of nothing but -0 is 0
  expect_identical(1 / as.vector(colSums(gpu(matrix(-0, 4, 9)))), rep(Inf, 9L))
})

test_that("keys that are few, near each other, or each there once are put in order", {
  set.seed(15)
  n <- 2000L
  with_na <- function(x) replace(x, sample.int(length(x), 50L), NA)
  vectors <- list(permutation = sample.int(n), shifted = sample.int(n) - 700L, "nearly one" = replace(sample.int(n), 5L,
    7L), near = sample(3000L, n, TRUE), few = sample(-2:0, n, TRUE), two = sample(0:1, n, TRUE), one = rep(7L, n),
    far = as.integer(sample(c(-2e9, 2e9), n, TRUE)),
    l = sample(c(TRUE, FALSE), n, TRUE), true = rep(TRUE, n), x = rnorm(n), zeros = sample(c(0, -0, 1, -1), n, TRUE),
      whole = round(rnorm(n)) + 0)
  vectors <- c(vectors, stats::setNames(lapply(vectors, with_na), paste(names(vectors), "NA")))
  calls <- list(order = order, decreasing = function(v) order(v, decreasing = TRUE), first = function(v)
    order(v, na.last = FALSE), sort = sort, "sort decreasing" = function(v)
    sort(v, decreasing = TRUE), named = function(v) sort(stats::setNames(v, seq_along(v))),
    unique = unique, duplicated = duplicated, match = function(v) match(v, v[600:1]))
  found <- list()
  for (what in names(vectors)) for (call in names(calls))
    found <- c(found, compare(calls[[call]], list(vectors[[what]]), what = paste(call, what)))
  expect_all_same(found)
})
