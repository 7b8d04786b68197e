# gpu_eigs() of matrices that are not symmetric, and of smallest magnitude, against eigen().

set.seed(2)
signs_of <- verdigris:::signs_of
# k of eigen()'s values, in the order of gpu_eigs().
wanted <- function(x, k, which) {
  values <- eigen(x)$values
  size <- switch(which, LM = , SM = Mod(values), LR = , SR = Re(values), LI = , SI = abs(Im(values)))
  at <- order(-size, -Im(values))
  at <- if (startsWith(which, "L")) at[seq_len(k)] else at[seq(to = length(at), length.out = k)]
  values[at]
}
expect_eigen <- function(fit, x, k, which, tolerance = 1e-9) {
  what <- paste(nrow(x), k, which)
  want <- wanted(x, k, which)
  v <- collect(fit$vectors)
  # what is as wanted as another one, as those of a pair that is cut, may be the other
  size <- function(values) switch(which, LM = , SM = Mod(values), LR = , SR = Re(values), LI = , SI = abs(Im(values)))
  expect_lt(max(abs(size(fit$values) - size(want))), tolerance * max(Mod(eigen(x)$values)), label = what)
  near <- vapply(fit$values, function(value) min(Mod(value - eigen(x)$values)), 0)
  expect_lt(max(near), tolerance * max(Mod(eigen(x)$values)), label = what)
  expect_equal(x %*% v, v %*% diag(fit$values, k), tolerance = 1e-7, info = what)
  expect_equal(colSums(Mod(v)^2), rep(1, k), info = what)
  expect_true(fit$converged)
  expect_identical(is.complex(v), is.complex(fit$values))
}
# Of these eigenvalues, blocks of pairs first.
of_values <- function(pairs, single) {
  n <- 2 * length(pairs) + length(single)
  d <- diag(c(rep(Re(pairs), each = 2), single), n)
  for (k in seq_along(pairs)) {
    d[2 * k - 1, 2 * k] <- Im(pairs[k])
    d[2 * k, 2 * k - 1] <- -Im(pairs[k])
  }
  s <- matrix(rnorm(n * n), n) + diag(3 * sqrt(n), n)
  s %*% d %*% solve(s)
}
spread <- of_values(c(3 + 2i, -4 + 1i, 0.5 + 5i, 1 + 0.1i), c(6, -5.5, 2, seq(-1, 1, length.out = 66) + 0.01))

test_that("eigenvalues of matrices that are not symmetric are eigen()'s", {
  for (which in c("LM", "LR", "SR", "LI", "SI", "SM")) for (k in c(1, 4, 7)) {
    if (which == "SI" && k > 1) next # these are real, and 69 of them alike
    expect_eigen(gpu_eigs(gpu(spread), k, which), spread, k, which)
  }
  for (n in c(2, 3, 6)) {
    x <- matrix(rnorm(n * n), n)
    for (k in c(1, n)) for (which in c("LM", "LR", "SR", "LI", "SI", "SM")) for (run in list(identity, composed))
      expect_eigen(run(gpu_eigs(gpu(x), k, which)), x, k, which)
  }
  # all real: real values and vectors, with this package's signs
  x <- of_values(complex(), c(9, 7, 4, seq(0, 1, length.out = 40)))
  fit <- gpu_eigs(gpu(x), 3)
  expect_type(fit$values, "double")
  expect_equal(fit$values, c(9, 7, 4), tolerance = 1e-9)
  expect_identical(signs_of(collect(fit$vectors)), rep(1, 3))
})

test_that("of pairs the positive imaginary part comes first, and the largest element is real", {
  fit <- gpu_eigs(gpu(spread), 4, "LI")
  expect_equal(fit$values, c(0.5 + 5i, 0.5 - 5i, 3 + 2i, 3 - 2i), tolerance = 1e-8)
  v <- collect(fit$vectors)
  largest <- v[cbind(apply(Mod(v), 2, which.max), 1:4)]
  expect_lt(max(abs(Im(largest))), 1e-12)
  expect_true(all(Re(largest) > 0))
  expect_output(print(fit), "4 eigenvalues of 77 rows and columns: Arnoldi method, converged")
})

test_that("any operator gives the same, and float32 keeps its precision", {
  want <- wanted(spread, 4, "LM")
  forms <- list(spread, function(v) gpu(spread) %*% v, function(v) spread %*% collect(v))
  if (requireNamespace("Matrix", quietly = TRUE)) forms <- c(forms, list(methods::as(spread, "CsparseMatrix"),
    as_gpu(methods::as(spread, "CsparseMatrix"), device = test_device)))
  for (form in forms)
    expect_equal(gpu_eigs(form, 4, dim = if (is.function(form)) 77)$values, want, tolerance = 1e-8)
  fit <- gpu_eigs(gpu(spread, "float32"), 4)
  expect_identical(gpu_dtype(fit$vectors), "complex64")
  expect_equal(fit$values, want, tolerance = 1e-3)
  expect_equal(composed(gpu_eigs(gpu(spread), 4))$values, want, tolerance = 1e-8)
})

test_that("matrices with too few eigenvectors, and of low rank, have their values", {
  jordan <- diag(2, 40)
  jordan[cbind(1:39, 2:40)] <- rep(c(1, 0, 0), 13)
  expect_equal(max(abs(gpu_eigs(gpu(jordan), 3, tol = 1e-6)$values - 2)), 0, tolerance = 1e-5)
  shift <- diag(30)[c(2:30, 1), ]
  fit <- gpu_eigs(gpu(shift), 3)
  expect_equal(Mod(fit$values), rep(1, 3))
  for (run in list(identity, composed)) {
    fit <- run(gpu_eigs(gpu(outer(1:50, 50:1) / 100), 2))
    expect_lt(max(Mod(fit$values - c(sum(1:50 * 50:1) / 100, 0))), 1e-9)
  }
})

test_that("of symmetric matrices the smallest magnitudes are those of the inverse", {
  x <- crossprod(matrix(rnorm(900), 30)) - 20 * diag(30)
  values <- eigen(x)$values
  fit <- gpu_eigs(gpu(x), 3, "SM")
  expect_equal(fit$values, values[order(-abs(values))][28:30], tolerance = 1e-8)
  expect_lt(max(abs(crossprod(collect(fit$vectors)) - diag(3))), 1e-10)
  expect_identical(gpu_eigs(gpu(x), 2, "LR")$values, gpu_eigs(gpu(x), 2, "LA")$values)
  expect_identical(gpu_eigs(gpu(x), 2, "SR")$values, gpu_eigs(gpu(x), 2, "SA")$values)
})
