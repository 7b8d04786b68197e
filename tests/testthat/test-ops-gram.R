# Cross products of columns that lie apart (C_gram), of which least squares are made.

gram <- function(columns, n, scale, scaled) collect(.Call(C_gram, lapply(columns, function(x) if (!is.null(x)) as_gpu(x)),
  n, if (!is.null(scale)) as_gpu(scale), scaled))

test_that("columns are multiplied where they are", {
  set.seed(1)
  for (m in c(1L, 2L, 3L, 4L, 5L, 11L, 12L, 31L, 63L, 64L)) for (n in c(0, 1, 31, 257, if (!emulated) c(5000, 70001))) {
    x <- matrix(rnorm(n * m), n, m)
    columns <- lapply(seq_len(m), function(j) x[, j])
    if (m > 2L) {
      columns[2L] <- list(NULL)
      x[, 2L] <- 1
    }
    for (scaled in unique(c(0L, m %/% 2L, m))) {
      s <- if (scaled) runif(n)
      z <- x
      if (scaled) z[, seq_len(scaled)] <- z[, seq_len(scaled)] * s
      got <- gram(columns, n, s, scaled)
      expect_equal(got, crossprod(z), tolerance = 1e-12)
      expect_identical(got, t(got))
    }
  }
})

test_that("parts of arrays, recorded ones and views of a matrix are columns", {
  x <- matrix(rnorm(3000), 1000)
  a <- as_gpu(x)
  columns <- list(a[, 2], a[, 1] * 2 + 1, strided(strip(a), 3000, 1, 1000, start = 2000))
  got <- collect(.Call(C_gram, columns, 1000, NULL, 0))
  expect_equal(got, crossprod(cbind(x[, 2], x[, 1] * 2 + 1, x[, 3])), tolerance = 1e-12)
})

test_that("a sum does not depend on the run", {
  columns <- lapply(1:9, function(k) rnorm(if (emulated) 3000 else 1e5))
  n <- length(columns[[1L]])
  expect_identical(gram(columns, n, columns[[1L]], 5L), gram(columns, n, columns[[1L]], 5L))
})

test_that("an element that is not finite makes its column's square not finite", {
  for (bad in c(NA, NaN, Inf, -Inf)) {
    got <- gram(list(c(1, bad, 3), c(1, 2, 3)), 3, NULL, 0L)
    expect_false(is.finite(got[1L, 1L]))
    expect_identical(got[2L, 2L], 14)
  }
})

test_that("columns of other lengths or types are refused", {
  one <- as_gpu(c(1, 2))
  expect_error(.Call(C_gram, list(one, as_gpu(1)), 2, NULL, 0L), class = "verdigris_error_shape")
  expect_error(.Call(C_gram, list(gpu_cast(one, "float32")), 2, NULL, 0L), class = "verdigris_error_shape")
  expect_error(.Call(C_gram, rep(list(one), 65L), 2, NULL, 0L), class = "verdigris_error_shape")
  expect_error(.Call(C_gram, list(NULL), 2, NULL, 0L), class = "verdigris_error_shape")
})
