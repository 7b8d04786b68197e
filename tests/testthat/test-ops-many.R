# Batches of matrices against base R in a loop: shapes, types, layouts, failures.

access <- options(verdigris.host_access = "allow")
on_gpu <- test_device != "cpu"

drawn <- function(d, type = "double", definite = FALSE) {
  n <- prod(d)
  x <- switch(type, double = , float32 = round(rnorm(n), 2), integer = sample(-9:9, n, TRUE),
    complex = complex(real = round(rnorm(n), 2), imaginary = round(rnorm(n), 2)))
  x <- array(x, d)
  if (!definite) return(x)
  each(x, function(m) {
    p <- Conj(t(m)) %*% m + diag(nrow(m))
    if (type == "integer") storage.mode(p) <- "integer"
    p
  })
}
# f of each matrix of an array, joined again.
each <- function(x, f) {
  d <- dim(x)
  if (!prod(d[-(1:2)])) return(x)
  parts <- lapply(seq_len(prod(d[-(1:2)])), function(k) f(slice(x, k)))
  array(unlist(parts), c(dim(parts[[1L]]) %||% length(parts[[1L]]), d[-(1:2)]))
}
slice <- function(x, k) matrix(as.vector(x)[(k - 1) * prod(dim(x)[1:2]) + seq_len(prod(dim(x)[1:2]))], dim(x)[1L])
columns <- function(x, k, n) matrix(as.vector(x), n)[, k]
adjoint <- function(m) Conj(t(m))

# Layouts of the same values: as they are; transposed twice over; every second of twice as many.
layouts <- list(
  plain = function(x, dtype) gpu(x, dtype),
  turned = function(x, dtype) {
    p <- c(2L, 1L, seq_along(dim(x))[-(1:2)])
    aperm(gpu(aperm(x, p), dtype), p)
  },
  last = function(x, dtype) {
    p <- c(3L, 1L, 2L, seq_along(dim(x))[-(1:3)])
    aperm(gpu(aperm(x, p), dtype), order(p))
  },
  part = function(x, dtype) {
    d <- dim(x)
    y <- array(0, c(d[1L] + 1L, d[-1L]))
    if (is.complex(x)) y <- y + 0i
    y[] <- 7
    at <- rep(c(rep(TRUE, d[1L]), FALSE), prod(d[-1L]))
    y[at] <- x
    z <- gpu(y, dtype)
    do.call(`[`, c(list(z, seq_len(d[1L])), rep(list(TRUE), length(d) - 1L), list(drop = FALSE)))
  }
)

extents <- if (emulated) c(1L, 2L, 8L, 9L, 33L, 65L) else c(1L, 2L, 5L, 8L, 9L, 17L, 32L, 33L, 64L, 65L)
batches <- list(3L, 1L, c(2L, 1L, 3L))

for_each_case <- function(types, f) {
  set.seed(21)
  count <- 0L
  for (type in types) for (n in extents) {
    count <- count + 1L
    dtype <- if (type == "float32") "float32"
    tol <- if (type == "float32") 2e-3 else 1e-7
    f(type, n, batches[[count %% 3L + 1L]], layouts[[count %% 4L + 1L]], dtype, tol, sprintf("%s %d", type, n))
  }
}
near <- function(got, want, tol, what) {
  expect_identical(dim(got), as.integer(dim(want) %||% length(want)), info = what)
  expect_lte(max(0, Mod(as.vector(collect(got)) - as.vector(want))), tol * max(1, Mod(want)), label = what)
}
# Rows beside n columns.
row_counts <- function(n) unique(c(n, n + 3L, max(1L, n - 4L)))
# Each matrix of x is the product of those of `left` and `right`, and the columns of q's matrices are orthonormal.
expect_product <- function(left, right, x, tol, what) for (i in seq_len(prod(dim(x)[-(1:2)])))
  expect_lte(max(Mod(slice(left, i) %*% slice(right, i) - slice(x, i))), tol * max(1, Mod(x)), label = what)
expect_orthonormal <- function(q, tol, what) for (i in seq_len(prod(dim(q)[-(1:2)])))
  expect_lte(max(Mod(adjoint(slice(q, i)) %*% slice(q, i) - diag(dim(q)[2L]))), tol, label = what)
# diag(d) t(v) of each matrix, where d has a column for each.
scaled <- function(d, v) {
  d <- matrix(as.vector(d), dim(d)[1L])
  k <- 0L
  each(v, function(m) d[, k <<- k + 1L] * adjoint(m))
}
wide <- function(type) c(double = "float64", integer = "float64", float32 = "float32", complex = "complex128")[[type]]

test_that("gpu_chol() is chol() of each matrix", {
  for_each_case(c("double", "float32", "integer"), function(type, n, batch, layout, dtype, tol, what) {
    x <- drawn(c(n, n, batch), type, TRUE)
    # the lower triangle is not read
    x[1L + (n > 1L) + (seq_len(prod(batch)) - 1L) * n * n] <- if (n > 1L) 5L else x[1L]
    if (n == 1L) x[] <- abs(x) + 1L
    got <- gpu_chol(layout(x, dtype))
    near(got, each(x, chol), tol, what)
    expect_identical(gpu_dtype(got), wide(type))
    expect_identical(gpu_device(got), test_device)
  })
})

test_that("gpu_solve() is solve() of each matrix", {
  for_each_case(c("double", "float32", "integer", "complex"), function(type, n, batch, layout, dtype, tol, what) {
    a <- drawn(c(n, n, batch), type, TRUE)
    g <- layout(a, dtype)
    near(gpu_solve(g), each(a, solve), tol, paste(what, "inverse"))
    v <- drawn(n, type)
    near(gpu_solve(g, as.vector(v)), each(a, function(m) solve(m, v)), tol, paste(what, "vector"))
    b <- drawn(c(n, 3L), type)
    got <- gpu_solve(g, b)
    near(got, each(a, function(m) solve(m, b)), tol, paste(what, "matrix"))
    expect_identical(gpu_dtype(got), wide(type))
    b <- drawn(c(n, 2L, batch), type)
    k <- 0L
    own <- each(a, function(m) solve(m, slice(b, k <<- k + 1L)))
    near(gpu_solve(g, layout(b, dtype)), own, tol, paste(what, "own"))
    near(gpu_solve(gpu(slice(a, 1L), dtype), layout(b, dtype)), each(b, function(s) solve(slice(a, 1L), s)), tol,
      paste(what, "one matrix"))
  })
  # right sides of another kind, and on the host
  a <- drawn(c(3, 3, 2), "double", TRUE)
  near(gpu_solve(gpu(a), c(1, 2i, 3)), each(a, function(m) solve(m + 0i, c(1, 2i, 3))), 1e-10, "complex right sides")
  near(gpu_solve(a, gpu(1:3)), each(a, function(m) solve(m, 1:3)), 1e-10, "matrices of the host")
})

test_that("gpu_qr() has base R's factors, without pivots", {
  for_each_case(c("double", "float32", "integer", "complex"), function(type, n, batch, layout, dtype, tol, what) {
    for (m in row_counts(n)) {
      x <- drawn(c(m, n, batch), type)
      f <- gpu_qr(layout(x, dtype))
      k <- min(m, n)
      expect_identical(names(f), c("q", "r"))
      expect_identical(list(dim(f$q), dim(f$r)), list(c(m, k, batch), c(k, n, batch)))
      expect_identical(gpu_dtype(f$q), wide(type))
      r <- collect(f$r)
      expect_product(collect(f$q), r, x, tol, what)
      expect_orthonormal(collect(f$q), tol, what)
      for (i in seq_len(prod(batch))) {
        expect_true(all(slice(r, i)[lower.tri(slice(r, i))] == 0))
        base <- qr(slice(x, i))
        if (type == "double" && base$rank == k && identical(base$pivot, seq_len(n)))
          expect_equal(slice(r, i), qr.R(base), tolerance = 1e-7, info = what)
      }
    }
  })
  # columns that base R would move, or that have nothing below
  for (x in list(diag(3), cbind(1:3, 2 * 1:3, c(1, 0, 2)), matrix(0, 3, 2), cbind(c(2, 0, 0), c(1, 0, 0), 1:3))) {
    f <- gpu_qr(gpu(array(x, c(dim(x), 1L))))
    expect_equal(slice(collect(f$q), 1L) %*% slice(collect(f$r), 1L), x + 0, tolerance = 1e-12)
    expect_equal(crossprod(slice(collect(f$q), 1L)), diag(ncol(x)), tolerance = 1e-12)
  }
  expect_equal(collect(gpu_qr(gpu(diag(3)))$r), qr.R(qr(diag(3))))
})

test_that("gpu_eigen() is eigen() of each symmetric matrix", {
  for_each_case(c("double", "float32", "integer", "complex"), function(type, n, batch, layout, dtype, tol, what) {
    x <- each(drawn(c(n, n, batch), type), function(m) m + adjoint(m))
    # the upper triangle is not read
    g <- x
    if (n > 1L) g[n + 1L] <- 99
    f <- gpu_eigen(layout(g, dtype))
    near(f$values, each(x, function(m) eigen(m, TRUE)$values), tol, what)
    expect_identical(dim(f$vectors), c(n, n, batch))
    v <- collect(f$vectors)
    expect_product(v, scaled(collect(f$values), v), x, tol, what)
    expect_orthonormal(v, tol, what)
    expect_identical(c(gpu_dtype(f$values), gpu_dtype(f$vectors)),
      c(if (type == "complex") "float64" else wide(type), wide(type)))
  })
  # diagonal, without elements, of equal values, of odd sizes
  block <- matrix(c(2, 1, 0, 0, 1, 2, 0, 0, 0, 0, 5, 0, 0, 0, 0, 5), 4L)
  for (x in list(diag(4), matrix(0, 3, 3), block, diag(c(1e-200, 1, 1e200)), crossprod(matrix(1:9, 3)) * 1e-250,
    crossprod(matrix(1:9, 3)) * 1e250, outer(1:5, 1:5))) {
    f <- gpu_eigen(gpu(array(x, c(dim(x), 1L))))
    expect_equal(as.vector(collect(f$values)), eigen(x, TRUE)$values, tolerance = 1e-12)
    v <- slice(collect(f$vectors), 1L)
    expect_equal(crossprod(v), diag(ncol(x)), tolerance = 1e-12)
  }
})

test_that("gpu_svd() is svd() of each matrix", {
  for_each_case(c("double", "float32", "integer", "complex"), function(type, n, batch, layout, dtype, tol, what) {
    for (m in row_counts(n)) {
      x <- drawn(c(m, n, batch), type)
      f <- gpu_svd(layout(x, dtype))
      k <- min(m, n)
      near(f$d, each(x, function(s) svd(s)$d), tol, what)
      expect_identical(list(dim(f$u), dim(f$v)), list(c(m, k, batch), c(n, k, batch)))
      u <- collect(f$u)
      v <- collect(f$v)
      expect_product(u, scaled(collect(f$d), v), x, tol, what)
      for (w in list(u, v)) expect_orthonormal(w, tol, what)
    }
  })
  # ranks below the columns', and odd sizes
  for (x in list(matrix(0, 3, 2), outer(1:4, 1:3) + 0, diag(c(1, 1e-200)), diag(c(3, 0, 2)),
    cbind(1e-170, 1:3 * 1e-170), cbind(1:3, 1:3) * 1e200)) {
    f <- gpu_svd(gpu(array(x, c(dim(x), 1L))))
    expect_equal(as.vector(collect(f$d)), svd(x)$d, tolerance = 1e-12)
    u <- slice(collect(f$u), 1L)
    expect_equal(crossprod(u), diag(ncol(u)), tolerance = 1e-12)
    expect_equal(u %*% (as.vector(collect(f$d)) * t(slice(collect(f$v), 1L))) / max(x, 1e-300), x / max(x, 1e-300),
      tolerance = 1e-12)
  }
})

test_that("what fails is named, in base R's words", {
  words <- function(expr) tryCatch(expr, error = conditionMessage)
  a <- drawn(c(3, 3, 2, 2), "double", TRUE)
  a[, , 1, 2] <- 1
  a[, , 2, 2] <- 0
  for (dtype in c("float64", "float32")) {
    e <- expect_error(gpu_solve(gpu(a, dtype), 1:3), class = "verdigris_error_matrix")
    expect_identical(unname(e$element), c(1L, 2L))
    expect_match(conditionMessage(e), words(solve(a[, , 1, 2], 1:3)), fixed = TRUE)
    expect_match(conditionMessage(e), "`A[, , 1, 2]`", fixed = TRUE)
    e <- expect_error(gpu_chol(gpu(-a, dtype)), class = "verdigris_error_matrix")
    expect_identical(unname(e$element), c(1L, 1L))
    expect_match(conditionMessage(e), words(chol(-a[, , 1, 1])), fixed = TRUE)
  }
  # next to singular
  n <- 14L
  hilbert <- outer(1:n, 1:n, function(i, j) 1 / (i + j - 1))
  a <- array(c(diag(n), hilbert), c(n, n, 2))
  e <- expect_error(gpu_solve(gpu(a), 1:n), "computationally singular", class = "verdigris_error_matrix")
  expect_identical(unname(e$element), 2L)
  expect_equal(dim(gpu_solve(gpu(a), 1:n, tol = 0)), c(n, 2L))
  # what float32 cannot solve is solved in float64
  n <- 8L
  hilbert <- outer(1:n, 1:n, function(i, j) 1 / (i + j - 1))
  a <- collect(gpu(array(c(diag(n), rep(hilbert, 20L)), c(n, n, 21)), "float32"))
  for (count in c(2L, 21L)) {
    got <- gpu_solve(gpu(a[, , seq_len(count)], "float32"), 1:n)
    expect_equal(collect(got)[, 2L], solve(a[, , 2L], 1:n), tolerance = 1e-6)
    expect_identical(gpu_dtype(got), "float32")
  }
  # as of one matrix
  expect_identical(words(gpu_solve(gpu(matrix(1, 2, 2)))), words(solve(matrix(1, 2, 2))))
  expect_identical(words(gpu_chol(gpu(-diag(2)))), words(chol(-diag(2))))
})

test_that("values that are not finite are base R's", {
  for (bad in c(NA, NaN, Inf)) {
    a <- drawn(c(3, 3, 3), "double", TRUE)
    a[2, 2, 2] <- bad
    for (f in list(gpu_eigen, gpu_svd)) {
      e <- expect_error(f(gpu(a)), "infinite or missing", class = "verdigris_error_matrix")
      expect_identical(unname(e$element), 2L)
    }
    expect_error(gpu_qr(gpu(a)), "NA/NaN/Inf", class = "verdigris_error_matrix")
    want <- lapply(1:3, function(k) outcome(solve(a[, , k], 1:3))$value)
    got <- outcome(gpu_solve(gpu(a), 1:3))$value
    if (inherits(want[[2L]], "failed")) expect_match(got$message, want[[2L]]$message, fixed = TRUE) else
      expect_equal(got, do.call(cbind, want))
    want <- lapply(1:3, function(k) outcome(chol(a[, , k]))$value)
    got <- outcome(gpu_chol(gpu(a)))$value
    if (inherits(want[[2L]], "failed")) expect_match(got$message, want[[2L]]$message, fixed = TRUE) else
      expect_equal(got, array(unlist(want), c(3, 3, 3)))
    expect_error(gpu_svd(gpu(a[, , 2L])), "infinite or missing")
  }
})

test_that("batches may be empty, and matrices not", {
  x <- gpu(array(0, c(3, 3, 0)))
  expect_identical(dim(gpu_chol(x)), c(3L, 3L, 0L))
  expect_identical(dim(gpu_solve(x)), c(3L, 3L, 0L))
  expect_identical(dim(gpu_solve(x, 1:3)), c(3L, 0L))
  expect_identical(dim(gpu_solve(x, matrix(1, 3, 2))), c(3L, 2L, 0L))
  expect_identical(dim(gpu_solve(gpu(diag(3)), gpu(array(0, c(3, 2, 0))))), c(3L, 2L, 0L))
  expect_identical(lapply(gpu_qr(gpu(array(0, c(3, 2, 0, 4)))), dim), list(q = c(3L, 2L, 0L, 4L),
    r = c(2L, 2L, 0L, 4L)))
  expect_identical(lapply(gpu_eigen(x), dim), list(values = c(3L, 0L), vectors = c(3L, 3L, 0L)))
  expect_identical(lapply(gpu_svd(gpu(array(0, c(2, 3, 0)))), dim), list(d = c(2L, 0L), u = c(2L, 2L, 0L),
    v = c(3L, 2L, 0L)))
  words <- function(expr) tryCatch(expr, error = conditionMessage)
  for (f in list(list(gpu_chol, chol), list(gpu_svd, svd), list(gpu_solve, solve))) expect_error(
    f[[1L]](gpu(array(0, c(0, 0, 2)))), words(f[[2L]](matrix(0, 0, 0))), fixed = TRUE, class = "verdigris_error_matrix")
  expect_identical(lapply(gpu_qr(gpu(array(0, c(3, 0, 2)))), dim), list(q = c(3L, 0L, 2L), r = c(0L, 0L, 2L)))
  expect_identical(lapply(gpu_qr(gpu(array(0, c(0, 3, 2)))), dim), list(q = c(0L, 0L, 2L), r = c(0L, 3L, 2L)))
  expect_identical(dim(gpu_solve(gpu(array(diag(2), c(2, 2, 3))), matrix(0, 2, 0))), c(2L, 0L, 3L))
})

test_that("wrong arguments are classed errors", {
  x <- gpu(array(1:18 + 0, c(3, 3, 2)))
  for (f in list(gpu_chol, gpu_qr, gpu_eigen, gpu_svd)) {
    expect_error(f(diag(3)), class = "verdigris_error_argument")
    expect_error(f(gpu(1:3)), class = "verdigris_error_argument")
    expect_error(f("a"), class = "verdigris_error_argument")
  }
  for (f in list(gpu_chol, gpu_eigen, gpu_solve)) expect_error(f(gpu(array(0, c(2, 3, 2)))),
    class = "verdigris_error_shape")
  expect_error(gpu_solve(array(1, c(2, 2, 2)), 1:2), class = "verdigris_error_argument")
  expect_error(gpu_solve(x, "a"), class = "verdigris_error_argument")
  expect_error(gpu_solve(x, 1:3, tol = "a"), class = "verdigris_error_argument")
  expect_error(gpu_solve(x, 1:4), class = "verdigris_error_shape")
  expect_error(gpu_solve(x, gpu(array(0, c(3, 1, 5)))), class = "verdigris_error_shape")
  expect_error(gpu_chol(gpu(array(1i, c(2, 2, 2)))), class = "verdigris_error_matrix")
})

test_that("a result does not depend on the run or on the batch", {
  set.seed(5)
  for (n in c(7L, 30L, 50L)) {
    x <- gpu(drawn(c(n, n, 3L), "double", TRUE))
    one <- gpu(collect(x)[, , 2L, drop = FALSE])
    for (f in list(gpu_chol, function(x) gpu_solve(x, seq_len(n)), function(x) gpu_qr(x)$r,
      function(x) gpu_eigen(x)$values, function(x) gpu_svd(x)$u)) {
      first <- collect(f(x))
      expect_identical(collect(f(x)), first)
      expect_identical(as.vector(collect(f(one))), as.vector(matrix(first, ncol = 3L)[, 2L]))
    }
  }
})

options(access)
