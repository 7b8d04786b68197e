# Functions of package Matrix, each of sparse matrices of several shapes and of arrays: values and names, the class of
# what collect() gives, and whether it fails, are those of the installed Matrix.

skip_if_not_installed("Matrix")

# Square and other ones at random, with names and without, missing values, and zeros that are stored.
matrices_of_calls <- function(seed) {
  set.seed(seed)
  general <- function(x) methods::as(methods::as(x, "generalMatrix"), "CsparseMatrix")
  m <- sample(2:9, 1L)
  n <- sample(setdiff(2:9, m), 1L)
  random <- function(m, n) general(Matrix::rsparsematrix(m, n, runif(1, 0.2, 0.7),
    rand.x = function(k) sample(c(-3:-1, 1:4, 0.5), k, TRUE)))
  named <- function(x, rows = TRUE, columns = TRUE) {
    dimnames(x) <- list(if (rows) paste0("r", seq_len(nrow(x))), if (columns) paste0("c", seq_len(ncol(x))))
    x
  }
  S <- named(random(m, n))
  Q <- random(m, m)
  N <- S
  N@x[sample(length(N@x), 1L)] <- NA
  Z <- S
  Z@x[1L] <- 0
  Q <- general(Q + Matrix::Diagonal(m, 4))
  list(S = S, N = N, Z = Z, Q = Q, QN = named(Q), QR = named(Q, columns = FALSE), T = random(m, n),
    L = general(methods::as(S > 0, "lMatrix")), L2 = general(methods::as(Q > 1, "lMatrix")),
    U = general(Matrix::triu(Q)), D = general(Matrix::Diagonal(m, seq_len(m) + 0)),
    P = named(general(Matrix::crossprod(Q) + Matrix::Diagonal(m))), E = S[0L, 0L, drop = FALSE],
    x = matrix(round(rnorm(m * n)), m), q = crossprod(matrix(round(rnorm(m * m)), m)) + diag(m),
    v = sample(c(1, 2, 4), m, TRUE), w = setNames(sample(c(-1, 0, 3), n, TRUE), letters[seq_len(n)]),
    ia = sample(m), ja = sample.int(n, m, TRUE), M = S, MQ = Q, k = m)
}
ON_HOST <- c("M", "MQ", "k")

calls_of_matrix <- c(
  "kronecker(S, T)", "kronecker(M, S)", "kronecker(S, M)", "kronecker(Diagonal(2), S)", "kronecker(S, Diagonal(2))",
  "kronecker(Diagonal(2), x)", "kronecker(M, v)", "kronecker(S, x)", "kronecker(x, S)", "S %x% S", "M %x% x",
  "x %x% M", "S %x% Diagonal(2)", "kronecker(S, T, make.dimnames = TRUE)", "bdiag(S, S)", "bdiag(S)", "bdiag(S, M)",
  "bdiag(list(S, T, M))", "bdiag(S, x)", "bdiag(x, x)", "bdiag(S, 1)", "bdiag(L, L)", "bdiag(Diagonal(2), S)",
  "rankMatrix(S)[1]", 'rankMatrix(S, method = "qr")[1]', "rankMatrix(x)[1]", "rankMatrix(Q)[1]", 'norm(S, "1")',
  'norm(S, "F")', 'norm(S, "I")', 'norm(S, "M")', 'norm(S, "O")', 'norm(S, "2")', "norm(L)", 'norm(N, "M")',
  'norm(S, "z")', "nnzero(S)", "nnzero(N)", "nnzero(N, na.counted = TRUE)", "nnzero(N, na.counted = FALSE)",
  "nnzero(Z)", "nnzero(x)", "nnzero(x > 0)", "tril(S)", "triu(S)", "tril(S, -1)", "triu(S, k = 1)", "band(S, -1, 1)",
  "band(S, 0, 0)", "band(S, 1, -1)", "band(S, 1)", "triu(S, 100)", "tril(S, -100)", 'tril(S, "a")', "triu(S, NA)",
  "tril(L)", "tril(x)", "triu(x, 1)", "band(x, -1, 1)", "tril(S, 0.5)", "symmpart(Q)", "skewpart(Q)", "symmpart(QN)",
  "skewpart(QN)", "symmpart(QR)", "symmpart(L2)", "symmpart(S)", "skewpart(S)", "symmpart(q)", "isDiagonal(S)",
  "isDiagonal(Q)", "isDiagonal(D)", "isDiagonal(E)", "isDiagonal(q)", "isDiagonal(U)", "isTriangular(S)",
  "isTriangular(Q)", "isTriangular(U)", "isTriangular(t(U))", "isTriangular(U, upper = TRUE)", "isTriangular(U, FALSE)",
  "isTriangular(D)", "isTriangular(D, upper = FALSE)", "isTriangular(E)", "isTriangular(q)", "isSymmetric(S)",
  "isSymmetric(Q)", "isSymmetric(Q + t(Q))", "isSymmetric(P)", "isSymmetric(L2)", "isSymmetric(QN)",
  "isSymmetric(QN, check.attributes = FALSE)", "isSymmetric(q)", "forceSymmetric(Q)", 'forceSymmetric(Q, "L")',
  'forceSymmetric(QN, "L")', "forceSymmetric(QN)", 'forceSymmetric(QR, "L")', "forceSymmetric(L2)", "forceSymmetric(S)",
  'forceSymmetric(Q, "x")', "forceSymmetric(q)", "which(L)", "which(L, arr.ind = TRUE)", "which(S > 0, arr.ind = TRUE)",
  "which(L, arr.ind = TRUE, useNames = FALSE)", "which(S, arr.ind = TRUE)", "which(is.na(N), arr.ind = TRUE)",
  "summary(S)$x", "summary(N)$i", "summary(L)$j", "dim(summary(S))", "inherits(image(S), 'trellis')",
  "inherits(image(L), 'trellis')", "Matrix(x)", "Matrix(x, sparse = TRUE)", "Matrix(x > 0)", "Matrix(v)",
  "Matrix(v, 2, length(v))", "Matrix(x * 0)", "Matrix(q)", 'as(x, "dgCMatrix")', 'as(x, "CsparseMatrix")',
  'as(x, "sparseMatrix")', 'as(x, "Matrix")', 'as(x, "TsparseMatrix")', 'as(x, "dMatrix")', 'as(q, "symmetricMatrix")',
  'as(q, "dsyMatrix")', 'as(q, "packedMatrix")', 'as(x > 0, "lMatrix")', 'as(v, "sparseVector")', 'as(v, "dgCMatrix")',
  'as(q, "triangularMatrix")', "sparseMatrix(i = ia, j = ja, x = v)", "sparseMatrix(i = ia, j = ja)",
  "sparseMatrix(i = ia, j = ja, x = v > 1)", "spMatrix(k, 9, i = ia, j = ja, x = v)", "Diagonal(k) %*% v",
  "bandSparse(k, k = 0, diagonals = list(v))", "bandSparse(k, k = 0:1, diagonals = list(v, v[-1]))",
  "sparseMatrix(i = S@i, p = S@p, x = S@x, dims = dim(S), index1 = FALSE)", "c(S)", "c(S, T)", "c(a = S, 1)", "c(L)",
  "rep(S, 2)", "rep(S, times = 2)", 'as(S, "dgTMatrix")', 'as(S, "lgCMatrix")', 'as(Q, "packedMatrix")',
  'as(D, "diagonalMatrix")', 'as(P, "symmetricMatrix")', 'as(U, "dtCMatrix")', 'as(U, "triangularMatrix")',
  'as(S, "symmetricMatrix")', 'as(S, "dsparseMatrix")', 'as(S, "nsparseMatrix")', 'as(S, "unpackedMatrix")',
  "cov2cor(P)", "cov2cor(S)", "toeplitz(v)", "zapsmall(S)", "unname(S)", "colSums(N, na.rm = TRUE)",
  "colMeans(S, dims = 1)", "KhatriRao(S, S)", "mat2triplet(S)$x",
  "writeMM(S, tempfile())", "S %&% t(T)", "M[S > 0]", "{M[S > 0] <- 7; M}", "{S[M > 0] <- 7; S}",
  "{M[1:2, ] <- S[2:1, ]; M}", "{M[, 1] <- S[, 1]; M}", "{diag(MQ) <- v; MQ}", "lu(Q)@U", "rcond(Q)", "det(Q)"
)

# What a call gave: numbers as doubles, and the class of Matrix that stands for it, of a general matrix.
outcome_of_call <- function(text, variables, parent) tryCatch(suppressMessages(suppressWarnings({
  v <- eval(parse(text = text, keep.source = FALSE), list2env(variables, parent = parent))
  if (is_gpu(v)) v <- collect(v)
  sparse <- isS4(v) && inherits(v, "sparseMatrix")
  if (isS4(v) && inherits(v, "sparseVector")) v <- as.vector(v)
  logical <- if (isS4(v)) inherits(v, c("lMatrix", "nMatrix")) else is.logical(v)
  if (isS4(v)) v <- as.matrix(v)
  if (is.matrix(v) && all(vapply(dimnames(v), is.null, NA))) dimnames(v) <- NULL
  if (is.list(v)) v <- lapply(v, function(x) if (isS4(x)) as.matrix(x) else if (is_gpu(x)) collect(x) else x)
  if (is.atomic(v) && !is.character(v)) storage.mode(v) <- "double"
  list(value = v, sparse = sparse, logical = logical)
})), error = function(e) e)

# Dense results of ours are base R's matrices.
compare_calls <- function(calls, front, seed) {
  variables <- matrices_of_calls(seed)
  arrays <- variables
  for (name in setdiff(names(variables), ON_HOST)) arrays[[name]] <- as_gpu(variables[[name]], device = test_device)
  unlist(lapply(calls, function(text) {
    want <- outcome_of_call(text, variables, asNamespace("Matrix"))
    got <- outcome_of_call(text, arrays, front)
    said <- if (inherits(want, "error") != inherits(got, "error")) {
      if (inherits(got, "error")) conditionMessage(got) else "did not fail"
    } else if (!inherits(want, "error")) {
      same <- all.equal(got$value, want$value, tolerance = 1e-8)
      if (!isTRUE(same)) same else if (got$sparse != want$sparse || got$logical != want$logical) "is of another kind"
    } else if (inherits(got, "verdigris_error_panic")) {
      "panics"
    }
    if (!is.null(said)) sprintf("%s [%d]: %s", text, seed, paste(said, collapse = "; "))
  }))
}

test_that("functions of Matrix take sparse matrices and arrays as they take its own", {
  ours <- as.environment("package:verdigris")
  front <- rlang::new_environment(as.list(asNamespace("Matrix")), parent = ours)
  behind <- rlang::new_environment(mget(ls(ours), ours), parent = asNamespace("Matrix"))
  calls <- if (emulated) calls_of_matrix[seq(1, length(calls_of_matrix), by = 6)] else calls_of_matrix
  found <- character()
  for (seed in if (emulated) 1L else 1:4) for (parent in list(front, behind))
    found <- c(found, compare_calls(calls, parent, seed))
  expect_identical(unique(found), character())
})

test_that("Diagonal() of an array is a sparse matrix on its device", {
  cases <- expand.grid(x = list(c(1, 2, 0), c(a = 2, b = 3), c(TRUE, FALSE), 5L, 1, numeric()), n = list(NULL, 0, 1, 4),
    names = list(FALSE, TRUE, c("u", "v")))
  for (k in seq_len(nrow(cases))) {
    x <- cases$x[[k]]
    n <- cases$n[[k]]
    names <- cases$names[[k]]
    call_of <- function(f, x) tryCatch(if (is.null(n)) f(x = x, names = names) else f(n, x, names),
      error = function(e) e)
    want <- call_of(Matrix::Diagonal, x)
    got <- call_of(Diagonal, as_gpu(x, device = test_device))
    if (inherits(want, "error")) {
      expect_s3_class(got, "error")
      expect_identical(conditionMessage(got), conditionMessage(want))
      next
    }
    expect_s4_class(got, "gpu_sparse")
    expect_equal(as.matrix(got), as.matrix(want))
    expect_identical(dimnames(got), dimnames(want))
    expect_true(methods::validObject(collect(got)))
  }
  S <- as_gpu(Matrix::rsparsematrix(5, 4, 0.6), device = test_device)
  scaled <- S %*% Diagonal(x = 1 / colSums(abs(S)))
  expect_s4_class(scaled, "gpu_sparse")
  expect_equal(c(collect(colSums(abs(scaled)))), rep(1, 4))
  expect_identical(Diagonal(3), Matrix::Diagonal(3))
  expect_identical(Diagonal(x = 1:2 + 0), Matrix::Diagonal(x = 1:2 + 0))
  expect_error(Diagonal(x = S), class = "verdigris_error_argument")
  expect_error(Diagonal(x = as_gpu(1i, device = "cpu")), class = "verdigris_error_dtype")
  expect_error(Diagonal(-1, gpu(1)), "non-negative")
})

test_that("drop0() leaves out what is small", {
  set.seed(5)
  for (k in 1:6) {
    M <- Matrix::rsparsematrix(7, 5, 0.5, rand.x = function(n) sample(c(-2:2, 1e-9, NA, Inf), n, TRUE))
    S <- as_gpu(M, device = test_device)
    for (tol in c(0, 1e-6, 1, 5)) expect_identical(collect(drop0(S, tol)), Matrix::drop0(M, tol))
  }
  expect_identical(collect(drop0(as_gpu(M > 0, device = test_device))), Matrix::drop0(M > 0))
  expect_identical(drop0(M), Matrix::drop0(M))
  expect_error(drop0(S, "a"), class = "verdigris_error_argument")
})

test_that("decompositions of Matrix are reached, and what base R refuses is refused", {
  S <- as_gpu(Matrix::rsparsematrix(6, 4, 0.6), device = test_device)
  expect_s4_class(Matrix::qr(S), "sparseQR")
  for (f in list(colSums, rowSums, colMeans, rowMeans)) expect_error(f(S, na.rm = NA), "invalid 'na.rm'")
  expect_error(Matrix::cov2cor(S), "square")
  expect_warning(Matrix::cov2cor(as_gpu(Matrix::Diagonal(2, c(1, 0)), device = test_device)), "dubious")
})

test_that("elements become vectors", {
  M <- Matrix::rsparsematrix(4, 3, 0.5)
  S <- as_gpu(M, device = test_device)
  expect_identical(as.complex(S), as.complex(as.matrix(M)))
  expect_true(is_gpu(rep(S, 2)))
  expect_identical(collect(rep(S, each = 2)), rep(as.vector(as.matrix(M)), each = 2))
  if (utils::packageVersion("Matrix") >= "1.6") {
    expect_true(is_gpu(c(S, S)))
    expect_identical(collect(c(S, 1)), c(as.vector(as.matrix(M)), 1))
  } else {
    expect_type(c(S, 1), "list")
  }
})
