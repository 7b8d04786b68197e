# Products of sparse matrices against package Matrix.

skip_if_not_installed("Matrix")

dense <- c("S %*% B", "S %*% w", "t(B) %*% t(S)", "w %*% t(S)", "v %*% S", "t(C) %*% S", "crossprod(S, C)",
  "crossprod(S, v)", "crossprod(C, S)", "crossprod(v, S)", "tcrossprod(S, t(B))", "tcrossprod(t(B), S)",
  "tcrossprod(S, t(w))", "S %*% B[, 0]", "crossprod(S, C[, 0])", "S %*% B[, 1]", "S %*% 1:2", "1:2 %*% S",
  "crossprod(S, 1:2)", "tcrossprod(S, 1:2)", "tcrossprod(1:2, S)", "S %*% matrix(1, 2, 2)", "S %*% cbind(1:7)")
sparse <- c("S %*% t(T)", "t(S) %*% T", "crossprod(S)", "crossprod(S, T)", "tcrossprod(S)", "tcrossprod(S, T)",
  "crossprod(T, S)", "S %*% S", "crossprod(S, t(T))", "S %*% t(S)", "crossprod(abs(T))")

test_that("products with dense matrices and vectors are Matrix's", {
  # whether a vector of two is a row of a matrix with two columns depends on Matrix's version
  skip <- function(name, call) call == "tcrossprod(S, 1:2)" && name %in% c("full", "one")
  expect_same_sparse(dense, skip = skip)
  expect_same_sparse(dense, skip = skip, front = beside_matrix)
})

test_that("the values by rows that a product keeps are those of its matrix", {
  set.seed(8)
  M <- Matrix::rsparsematrix(60, 40, 0.2)
  S <- as_gpu(M, device = test_device)
  hv <- runif(40)
  v <- as_gpu(hv, device = test_device)
  product <- function(S, M) {
    for (again in 1:2) expect_equal(as.vector(collect(S %*% v)), as.vector(M %*% hv), tolerance = 1e-12)
    expect_equal(collect(t(S)), Matrix::t(M))
    expect_equal(as.vector(collect(rowSums(S))), Matrix::rowSums(M))
  }
  keeps <- function(S) {
    space <- asNamespace("verdigris")
    values <- space$row_structure(S)$values
    !is.null(values) && .Call(space$C_is_derived, values, space$stored(S))
  }
  product(S, M)
  expect_true(keeps(S))
  # matrices of one structure
  T <- S
  T@x <- T@x * 2
  product(T, M * 2)
  product(S, M)
  product(T, M * 2)
  # values that are assigned, in place too
  S@x[3] <- 100
  M@x[3] <- 100
  product(S, M)
  S@x[1:4] <- 1:4 / 8
  M@x[1:4] <- 1:4 / 8
  product(S, M)
  S[2, 5] <- M[2, 5] <- 7
  product(S, M)
  # elements of other arrays
  r <- gpu_zeros(5, device = test_device)
  r[2] <- 1
  expect_true(keeps(S))
  # memory that is written from outside
  gpu_copy(as_gpu(M@x + 1, device = test_device), S@x)
  M@x <- M@x + 1
  product(S, M)
  capsule <- as_dlpack(S@x)
  product(S, M)
  gpu_copy(M@x - 3, S@x)
  M@x <- M@x - 3
  product(S, M)
  rm(capsule)
  # other types
  L <- S > 0
  for (again in 1:2) expect_equal(as.vector(collect(L %*% v)), as.vector((M > 0) %*% hv), tolerance = 1e-12)
  H <- as_gpu(S, dtype = "float16")
  for (again in 1:2) expect_equal(as.vector(collect(H %*% v)), as.vector(M %*% hv), tolerance = 1e-2)
  # a graph keeps the values that it was recorded with, and its recording is not used outside
  if (test_device != "cpu") {
    S <- as_gpu(M, device = test_device)
    gpu_compute(S %*% v)
    g <- gpu_graph(S %*% v)
    gpu_copy(as_gpu(M@x * 3, device = test_device), S@x)
    for (again in 1:2) expect_equal(as.vector(collect(S %*% v)), as.vector(M %*% hv) * 3, tolerance = 1e-12)
    expect_equal(as.vector(collect(g())), as.vector(M %*% hv), tolerance = 1e-12)
    expect_equal(as.vector(collect(g(v = v * 2))), as.vector(M %*% hv) * 2, tolerance = 1e-12)
  }
})

test_that("products of two sparse matrices are Matrix's", {
  expect_same_sparse(sparse)
  expect_same_sparse(sparse, front = beside_matrix)
})

test_that("factors may be arrays, ordinary matrices or objects of Matrix", {
  S <- sparse_inputs()$named
  G <- as_gpu(S, device = test_device)
  B <- matrix(1:16 + 0, 8)
  want <- as.matrix(S %*% B)
  for (factor in list(B, as_gpu(B, device = test_device), Matrix::Matrix(B), methods::as(B, "CsparseMatrix"),
    matrix(1:16, 8))) expect_equal(described_result(G %*% factor)$value$values, as.vector(want), tolerance = 1e-12)
  for (one in list(G, S)) for (other in list(G, S)) {
    if (!is_gpu(one) && !is_gpu(other)) next
    expect_s4_class(crossprod(one, other), "gpu_sparse")
    expect_equal(as.matrix(crossprod(one, other)), as.matrix(Matrix::crossprod(S, S)))
    expect_equal(as.matrix(tcrossprod(one, other)), as.matrix(Matrix::tcrossprod(S, S)))
    expect_equal(as.matrix(one * other), as.matrix(S * S))
  }
  D <- Matrix::Diagonal(8)
  expect_equal(as.matrix(G %*% D), as.matrix(S), ignore_attr = TRUE)
  expect_equal(as.matrix(G %*% as(8:1, "pMatrix")), as.matrix(S[, 8:1]), ignore_attr = TRUE)
})

test_that("what does not conform is refused in base R's words", {
  S <- gpu_sparse(i = 1:3, j = c(1, 2, 2), x = 1:3, dim = c(3, 4), device = test_device)
  for (call in expression(S %*% 1:3, S %*% diag(2), S %*% S, crossprod(S, 1:4), tcrossprod(S, 1:5), 1:5 %*% S,
    diag(2) %*% S, crossprod(S, t(S)))) expect_error(eval(call), "non-conformable arguments", info = deparse(call))
  expect_error(S %*% "a", "requires numeric/complex matrix/vector arguments")
  expect_error(S %*% (1:4 + 1i), class = "verdigris_error_dtype")
  expect_error(S %*% list(1), "requires numeric/complex matrix/vector arguments")
})

test_that("the structure by rows is made once, and again after slots were assigned", {
  S <- gpu_sparse(i = c(1, 3, 2), j = c(1, 1, 2), x = c(1, -2, 3), dim = c(3, 2), device = test_device)
  first <- verdigris:::row_structure(S)
  R <- S * 2
  expect_true(rlang::is_reference(verdigris:::row_structure(R)$order, first$order))
  S@i <- as_gpu(c(0L, 1L, 2L), device = test_device)
  expect_equal(as.vector(S %*% 1:2), c(1, -2, 6))
  expect_equal(as.vector(R %*% 1:2), c(2, 12, -4))
})

test_that("what a product keeps of a structure is forgotten where the structure changes", {
  p <- as_gpu(c(0L, 2L, 5L, 6L))
  i <- as_gpu(c(0L, 2L, 0L, 1L, 2L, 1L))
  x <- as_gpu(as.double(1:6))
  b <- as_gpu(c(1, 10, 100))
  wide <- as_gpu(matrix(c(1, 10, 100, 2, 20, 200), 3))
  expected <- function(p, b) {
    rows <- rep(seq_len(3L), diff(p))
    out <- rowsum(as.double(1:6) * matrix(b, 3)[c(1L, 3L, 1L, 2L, 3L, 2L), , drop = FALSE], factor(rows, 1:3))
    full <- matrix(0, 3, ncol(out))
    full[as.integer(rownames(out)), ] <- out
    full
  }
  product <- function(b) matrix(collect(segment_products(p, i, x, b)), 3)
  for (times in 1:2) {
    expect_equal(product(b), expected(c(0L, 2L, 5L, 6L), collect(b)))
    expect_equal(product(wide), expected(c(0L, 2L, 5L, 6L), collect(wide)))
  }
  # assigned in place, or where that is not possible to a copy
  p[2L] <- 1L
  p[3L] <- 3L
  for (times in 1:2) {
    expect_equal(product(b), expected(c(0L, 1L, 3L, 6L), collect(b)))
    expect_equal(product(wide), expected(c(0L, 1L, 3L, 6L), collect(wide)))
  }
  # written by another array's values
  gpu_copy(as_gpu(c(0L, 3L, 3L, 6L)), p)
  expect_equal(product(b), expected(c(0L, 3L, 3L, 6L), collect(b)))
  # parts of an array with the same buffer
  all <- as_gpu(c(0L, 2L, 5L, 6L, 0L, 4L, 4L, 6L))
  gpu_compute(all)
  for (from in c(0, 4, 0)) {
    p <- all[from + 1:4]
    expect_equal(product(b), expected(collect(p), collect(b)))
  }
})
