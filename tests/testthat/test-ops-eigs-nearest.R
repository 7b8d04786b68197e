# gpu_eigs() of the values nearest to a number, and of smallest magnitude, against eigen(): sparse and dense matrices and
# functions, with singular matrices and repeated values.

skip_if_not_installed("Matrix")
set.seed(11)

# k of eigen()'s values nearest to sigma, from far to near.
nearest <- function(x, k, sigma) {
  values <- eigen(x)$values
  at <- order(Mod(values - sigma), -Im(values))[seq_len(k)]
  values[at][order(-Mod(values[at] - sigma), -Im(values[at]))]
}

expect_nearest <- function(fit, x, sigma, what, tolerance = 1e-9) {
  k <- length(fit$values)
  size <- max(norm(x, "2"), 1e-300)
  v <- collect(fit$vectors)
  # one of values as near as each other may come for another
  expect_lt(max(abs(Mod(fit$values - sigma) - Mod(nearest(x, k, sigma) - sigma))) / size, tolerance, label = what)
  expect_lt(max(Mod(x %*% v - v %*% diag(fit$values, k))) / size, 10 * tolerance, label = what)
  if (isSymmetric(x)) expect_lt(max(abs(crossprod(v) - diag(k))), 10 * tolerance, label = what)
  expect_equal(colSums(Mod(v)^2), rep(1, k), info = what, tolerance = 100 * tolerance)
  expect_true(fit$converged, info = what)
  expect_false(is.unsorted(-Mod(fit$values - sigma)))
}

second <- function(n) Matrix::bandSparse(n, k = 0:1, diagonals = list(rep(2, n), rep(-1, n - 1)), symmetric = TRUE)
# of a grid: most values twice
grid <- function(m) Matrix::kronecker(second(m), Matrix::Diagonal(m)) + Matrix::kronecker(Matrix::Diagonal(m), second(m))
laplacian <- function(n) {
  W <- abs(Matrix::rsparsematrix(n, n, 0.05, symmetric = TRUE))
  Matrix::diag(W) <- 0
  Matrix::Diagonal(x = Matrix::rowSums(W)) - W
}
symmetric <- list(second = second(50), grid = grid(12), singular = laplacian(120),
  twice = Matrix::bdiag(laplacian(60), laplacian(40)), indefinite = Matrix::rsparsematrix(200, 200, 0.03, symmetric = TRUE),
  zero = Matrix::Matrix(0, 60, 60, sparse = TRUE), repeated = Matrix::Diagonal(80, rep(c(1, 1, 1, 1, 2, 3, 4, 5), 10)),
  counted = Matrix::Diagonal(80, rep(0:7, 10)))
general <- list(scattered = Matrix::rsparsematrix(200, 200, 0.05) + Matrix::Diagonal(200, 3),
  imaginary = Matrix::bandSparse(101, k = c(-1, 1), diagonals = list(rep(-1, 100), rep(1, 100))),
  one_zero = Matrix::bdiag(Matrix::rsparsematrix(60, 60, 0.1) + Matrix::Diagonal(60, 2), 0))
if (emulated) symmetric <- symmetric[c("second", "twice", "repeated")]
if (emulated) general <- general["one_zero"]

test_that("of sparse matrices the values are eigen()'s", {
  matrices <- c(symmetric, general)
  for (name in names(matrices)) {
    x <- as.matrix(matrices[[name]])
    S <- gpu_sparse(matrices[[name]], device = test_device)
    for (k in c(1, 2, 5)) for (sigma in c(0, 1.3)) {
      fit <- if (sigma == 0) gpu_eigs(S, k, "SM") else gpu_eigs(S, k, sigma = sigma)
      expect_nearest(fit, x, sigma, paste(name, k, sigma))
      expect_identical(gpu_device(fit$vectors), test_device)
    }
  }
  x <- as.matrix(second(500))
  expect_nearest(gpu_eigs(gpu_sparse(gpu(x)), 3, "SM"), x, 0, "500 rows")
  expect_nearest(gpu_eigs(gpu_sparse(gpu(x[1:50, 1:50])), 50, "SM"), x[1:50, 1:50], 0, "all values")
})

test_that("arrays, functions and matrices of Matrix have the same", {
  for (name in intersect(c("second", "singular", "repeated", "zero"), names(symmetric))) {
    M <- symmetric[[name]]
    x <- as.matrix(M)
    for (k in c(1, 4)) for (sigma in c(0, 0.9)) {
      expect_nearest(gpu_eigs(gpu(x), k, sigma = sigma), x, sigma, paste("array", name))
      expect_nearest(gpu_eigs(M, k, sigma = sigma), x, sigma, paste("Matrix", name))
      expect_nearest(gpu_eigs(function(v) gpu(x) %*% v, k, sigma = sigma, dim = nrow(x)), x, sigma,
        paste("function", name))
    }
  }
  x <- as.matrix(second(60))
  for (S in list(gpu(x, "float32"), gpu_sparse(gpu(x, "float32")))) {
    fit <- gpu_eigs(S, 3, "SM")
    expect_nearest(fit, x, 0, "float32", 1e-5)
    expect_identical(gpu_dtype(fit$vectors), "float32")
  }
  expect_identical(gpu_eigs(gpu(x), 2, "SM")$values, gpu_eigs(gpu(x), 2, sigma = as_gpu(0))$values)
  logical <- gpu_sparse(gpu(x != 0))
  expect_nearest(gpu_eigs(logical, 2, "SM"), (x != 0) + 0, 0, "logical")
})

test_that("systems are solved by iteration where there are no factors", {
  package <- asNamespace("verdigris")
  frame <- environment()
  for (M in list(second(30), laplacian(30), Matrix::rsparsematrix(30, 30, 0.2) + Matrix::Diagonal(30, 3)))
    for (sigma in c(-0.1, 0.7)) {
      x <- as.matrix(M)
      op <- package$operator_of(gpu_sparse(M, device = test_device))
      inverse <- package$inverse_by_iteration(op, sigma, isSymmetric(x), frame)
      b <- matrix(rnorm(30), 30)
      expect_equal(collect(inverse(gpu(b))), solve(x - sigma * diag(30), b), tolerance = 1e-8)
      if (!isSymmetric(x)) next
      limits <- list(tol = 1e-10, most = 300, seed = 1)
      found <- package$nearest_symmetric(op, inverse, 2, limits, frame)
      expect_equal(sort(found$d), sort(nearest(x, 2, sigma)), tolerance = 1e-8)
    }
  # a system that has no solution
  op <- package$operator_of(gpu(diag(c(1, 2, 0))))
  inverse <- package$inverse_by_iteration(op, 0, TRUE, frame)
  expect_error(inverse(gpu(matrix(1, 3))), "less 0 times the identity are not solved.*preconditioner",
    class = "verdigris_error_convergence")
})

test_that("what cannot be is refused", {
  S <- gpu_sparse(second(20), device = test_device)
  refused <- function(expr, words) expect_error(expr, words, class = "verdigris_error_argument")
  refused(gpu_eigs(S, 2, sigma = NA), "`sigma` must be NULL or one finite number")
  refused(gpu_eigs(S, 2, sigma = 1i), "`sigma` must be")
  refused(gpu_eigs(S, 2, sigma = 1:2), "`sigma` must be")
  refused(gpu_eigs(S, 2, "SM", sigma = 1), "Leave out one of them")
  refused(gpu_eigs(S * NA, 1, sigma = 1), "missing or infinite")
  expect_warning(gpu_eigs(S, 1, sigma = 1.234, max_iter = 0, tol = 0), NA)
})
