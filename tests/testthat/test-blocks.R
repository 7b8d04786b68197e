# Blocks: where many elements are computed together, what is uncommon among them is computed as before. Base R is the judge.

set.seed(11)
n <- 3000L
spread <- function(n, most = 30) rnorm(n) * 2^sample(-most:most, n, TRUE)

test_that("remainders and quotients of many numbers have base R's bits", {
  whole <- sample(-2000:2000, n, TRUE) + 0
  tenths <- sample(1:200, n, TRUE) / 10
  a <- list(rnorm(n), spread(n), whole, whole * tenths, ifelse(runif(n) < 0.01, NA, rnorm(n)), ifelse(runif(n) < 0.01, sample(c(Inf, -Inf, 0, NaN), n, TRUE), spread(n, 20)))
  b <- list(rnorm(n), spread(n), tenths, 2, -3.7, ifelse(runif(n) < 0.01, sample(c(0, Inf, -Inf, NA), n, TRUE), spread(n, 5)))
  found <- list()
  for (i in seq_along(a)) for (j in seq_along(b)) {
    found <- c(found, compare(`%%`, list(a[[i]], b[[j]]), ulp = 0, what = sprintf("%%%% %d %d", i, j)), compare(`%/%`, list(a[[i]], b[[j]]), ulp = 0, what = sprintf("%%/%% %d %d", i, j)))
  }
  z <- complex(real = a[[6]], imaginary = spread(n))
  w <- complex(real = spread(n), imaginary = b[[6]])
  plain <- complex(real = rnorm(n), imaginary = rnorm(n))
  # base R's division is the C compiler's, which scales and rounds elsewhere
  found <- c(found, compare(`/`, list(plain, rev(plain)), ulp = 16, what = "complex /"), compare(`/`, list(plain, 1 + 0i), ulp = 16, what = "complex / 1"))
  expect_all_same(found)
  expect_identical(is.na(as.vector(gpu(z) / gpu(w))), is.na(z / w))
})

test_that("reductions of blocks see what is missing, infinite and far from 1", {
  x <- rnorm(n)
  whole <- sample(-999:999, n, TRUE)
  put <- function(x, at, value) replace(x, at, value)
  cases <- list(x = x, na = put(x, n, NA), nan = put(x, 1500L, NaN), both = put(put(x, 5L, NaN), 2000L, NA), inf = put(x, 17L, Inf), opposed = put(put(x, 17L, Inf), 2900L, -Inf),
                large = x * 1e300, small = x * 1e-300, zero = put(x, 40L, 0), none = rep(NA_real_, n),
                i = whole, ina = put(whole, 33L, NA), z = complex(real = x, imaginary = rev(x)), zna = put(complex(real = x, imaginary = 1), 44L, NA))
  found <- list()
  for (what in names(cases)) for (na.rm in c(FALSE, TRUE)) {
    v <- cases[[what]]
    functions <- if (is.complex(v)) c("sum", "mean") else c("sum", "mean", if (is.double(v)) "prod", "min", "max", "range")
    for (name in functions) {
      f <- get(name)
      found <- c(found, compare(function(x) f(x, na.rm = na.rm), list(v), ulp = 64, what = paste(name, what, na.rm)))
    }
    # of NA and NaN in one sum base R's margins keep the first
    if (is.complex(v) || what == "both") next
    # groups of neighbours, short and long; neighbours of different groups, few and many
    for (d in list(c(4L, 750L), c(100L, 30L), c(1500L, 2L), c(3L, 1000L))) for (name in c("colSums", "rowSums", "colMeans", "rowMeans")) {
      f <- get(name)
      found <- c(found, compare(function(x) f(x, na.rm = na.rm), list(matrix(v, d[1L])), ulp = 64, what = paste(name, what, d[1L], na.rm)))
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
  for (v in list(x, x[!is.na(x)], x[!is.na(x) & x != 0], sample(-999:999, n, TRUE), c(NA, sample.int(n)))) for (decreasing in c(FALSE, TRUE)) {
    wanted <- sort(v, decreasing = decreasing, method = "radix")
    expect_identical(as.vector(sort(gpu(v), decreasing = decreasing)), wanted)
    if (is.double(v) && any(v == 0, na.rm = TRUE)) expect_identical(as.vector(1 / sort(gpu(v), decreasing = decreasing)), 1 / wanted)
  }
})

test_that("ends that are left out, and long ranges, are what base R takes", {
  x <- rnorm(n)
  found <- list()
  for (i in list(-1L, -1, -n, -(1:3), -c(3, 1, 2, 2), -(n - 0:2), -2L, c(-1L, -n), -(n + 1L), c(0L, -1L), -0.5, -(1:16), -(1:17), 2:n, n:1, seq(1, n, 7), c(1:2000, 5L), 0:10, 1:(n + 5L), c(NA, -1)))
    found <- c(found, compare(function(x) x[i], list(x), ulp = 0, what = deparse1(i)))
  found <- c(found, compare(function(x) x[-1L], list(1), ulp = 0, what = "nothing left"))
  expect_all_same(found)
})

test_that("a matrix by a vector agrees with base R, also where something is missing", {
  m <- matrix(rnorm(300L * 70L), 300L)
  holes <- replace(m, 77L, NA)
  found <- list()
  for (a in list(m, holes, replace(m, 5L, Inf))) found <- c(found,
    compare(`%*%`, list(a, rnorm(70L)), ulp = 4096, what = "m v"), compare(function(x, y) t(x) %*% y, list(a, rnorm(300L)), ulp = 4096, what = "t(m) v"),
    compare(`%*%`, list(rnorm(300L), a), ulp = 4096, what = "v m"), compare(function(x, y) y %*% t(x), list(a, rnorm(70L)), ulp = 4096, what = "v t(m)"),
    compare(`%*%`, list(a[1L, , drop = FALSE], a[1L, ]), ulp = 4096, what = "one number"))
  expect_all_same(found)
})

test_that("conversions to R's types are base R's, with its warnings", {
  x <- c(rnorm(n) * 1e3, NA, NaN, 3e9, -3e9, Inf, 0, -0)
  found <- list()
  for (v in list(x, sample(c(NA, -5:5), n, TRUE), sample(c(NA, TRUE, FALSE), n, TRUE), complex(real = rnorm(n), imaginary = c(0, 1)))) for (f in list(as.integer, as.double, as.logical, as.complex))
    found <- c(found, compare(f, list(v), ulp = 0, what = paste(typeof(v), deparse1(f))))
  expect_all_same(found)
})
