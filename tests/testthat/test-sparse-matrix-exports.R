# What package Matrix exports, of matrices with empty rows, without rows, with zeros that are stored, missing and
# infinite elements, logical ones: answers are those of the installed Matrix, in front on the search path and behind.

skip_if_not_installed("Matrix")

in_front <- function(variables) list2env(variables, parent = rlang::new_environment(as.list(asNamespace("Matrix")),
  parent = as.environment("package:verdigris")))
behind <- function(variables) {
  ours <- as.environment("package:verdigris")
  list2env(variables, parent = rlang::new_environment(mget(ls(ours), ours), parent = asNamespace("Matrix")))
}
expect_as_matrix <- function(calls, ...) for (front in list(in_front, behind))
  expect_same_sparse(if (emulated) calls[seq(1, length(calls), by = 4)] else calls, front = front, ...)

# Matrix names an axis without extent by character(0).
unnamed_axes <- function(name, call) name %in% c("no_rows", "no_columns", "empty")
square <- function(name, call) !name %in% c("square", "zeros", "empty", "one")
finite_square <- function(name, call) !name %in% c("square", "one")

test_that("margins, products and operators take what is Matrix's", {
  expect_as_matrix(c("cbind2(S)", "rbind2(S)", "cbind2(S, T)", "rbind2(S, T)", "S %&% t(T)", "t(S) %&% T",
    "crossprod(S) %*% w", "t(S) %*% S %*% w", "v %*% S %*% w", "t(v) %*% S %*% w", "d %*% t(S) %*% T",
    "S %*% t(d) %*% S", "S %*% B", "S %*% t(T) %*% C", "crossprod(d, S)", "tcrossprod(B, S[, 0:ncol(S)]) ",
    "rowScale(S, v)", "colScale(S, w)", "dimScale(S, v, w)", "band(S, -1, 1)", "triu(S)", "tril(S)", "symmpart(S)",
    "skewpart(S)", "KhatriRao(S, T)", "nnzero(S)", "nnzero(S, TRUE)", "mat2triplet(S)$x", "bdiag(S, T)", "norm(S)",
    'norm(S, "I")', 'norm(S, "M")', 'norm(S, "F")', "mean(S)", "mean(S, na.rm = TRUE)", "unname(S)",
    "is.na(S)", "anyNA(S)", "S + T + d", "S * T * d", "d * S * T"), more = TRUE,
    kind = function(name, call) !startsWith(call, "S + T + d") && !grepl("\\* d|d \\*", call),
    skip = function(name, call) unnamed_axes(name, call) && grepl("Scale", call) ||
      # Matrix takes a stored 0 for TRUE
      name %in% c("odd", "unsure", "zeros") && grepl("%&%", call))
})

test_that("sparse vectors are rows, columns and recycled operands", {
  with_vectors <- function(S) c(sparse_variables(S), list(sv = methods::as(rep_len(c(2, 0, 0, -1), nrow(S)),
    "sparseVector"), sw = methods::as(rep_len(c(0, 3, 0), ncol(S)), "sparseVector")))
  calls <- c("S %*% sw", "sv %*% S", "crossprod(S, sv)", "crossprod(sv, S)", 
    "S + sv", "S * sv", "sv * S", "S - sv", "S > sv", "sv != S", "S & sv", "t(S) %*% S %*% sw")
  for (name in c("plain", "named", "holes", "nothing", "logical")) {
    S <- sparse_inputs()[[name]]
    variables <- with_vectors(S)
    dense <- lapply(variables, function(x) if (isS4(x) && inherits(x, "sparseVector")) as.vector(x) else if (isS4(x))
      as.matrix(x) else x)
    for (text in calls) for (front in list(in_front, behind)) {
      frame <- front(c(list(S = as_gpu(S, device = test_device)), variables[c("sv", "sw")]))
      got <- eval(parse(text = text)[[1L]], frame)
      expect_s4_class(got, "gpu_sparse")
      want <- eval(parse(text = text)[[1L]], dense)
      got <- as.matrix(got)
      expect_equal(unname(got) + 0, unname(want) + 0, info = paste(text, name))
      if (name == "named" && !grepl("prod|%", text)) expect_identical(dimnames(got), dimnames(want))
    }
    S <- as_gpu(S, device = test_device)
    S[1, ] <- variables$sw
    expect_equal(as.vector(S[1, ]), as.vector(variables$sw), ignore_attr = TRUE)
  }
  v <- methods::as(c(0, 2, 0), "sparseVector")
  expect_identical(collect(as_gpu(v, device = test_device)), c(0, 2, 0))
  S <- as_gpu(Matrix::Diagonal(3, 1:3 + 0), device = test_device)
  expect_equal(as.vector(solve(S, v)), c(0, 1, 0))
  expect_s4_class(methods::as(S, "sparseVector"), "sparseVector")
  expect_warning(S + methods::as(c(1, 0), "sparseVector"), "longer object length")
  expect_error(S %*% methods::as(1:2 + 0, "sparseVector"), "non-conformable")
})

test_that("dimScale() and its like keep the structure, on vectors of any kind", {
  set.seed(3)
  M <- Matrix::rsparsematrix(6, 6, 0.4) + Matrix::Diagonal(6, 4)
  M <- methods::as(methods::as(M, "generalMatrix"), "CsparseMatrix")
  dimnames(M) <- list(letters[1:6], LETTERS[1:6])
  S <- as_gpu(M, device = test_device)
  d <- 1:6 / 2
  x <- as.matrix(M)
  of <- function(f) function(...) as.matrix(f(...))
  expect_equal(of(dimScale)(S), as.matrix(Matrix::dimScale(M)))
  expect_equal(of(Matrix::dimScale)(S), as.matrix(Matrix::dimScale(M)))
  for (v in list(d, gpu(d), 1:6, gpu(1:6))) {
    host <- as.double(v)
    expect_equal(of(dimScale)(S, v), as.matrix(Matrix::dimScale(M, host)))
    expect_equal(of(dimScale)(S, d2 = v), as.matrix(Matrix::dimScale(M, d2 = host)))
    expect_equal(of(rowScale)(S, v), as.matrix(Matrix::rowScale(M, host)))
    expect_equal(of(colScale)(S, v), as.matrix(Matrix::colScale(M, host)))
    expect_equal(of(rowScale)(gpu(x), v), x * host)
    expect_equal(of(colScale)(gpu(x), v), t(t(x) * host))
    expect_s4_class(colScale(M, gpu(host)), "gpu_sparse")
    expect_equal(of(colScale)(M, gpu(host)), t(t(x) * host))
  }
  expect_identical(rowScale(S, d)@i, S@i)
  expect_identical(dimScale(M), Matrix::dimScale(M))
  expect_identical(dimScale(M, d, 1:6), Matrix::dimScale(M, d, 1:6))
  expect_identical(dimScale(M, d2 = d), Matrix::dimScale(M, d2 = d))
  expect_identical(rowScale(M, d), Matrix::rowScale(M, d))
  expect_identical(colScale(M, d), Matrix::colScale(M, d))
  expect_error(rowScale(S, gpu(numeric())), "recycle")
  wide <- gpu_sparse(1, 1, x = 2, dim = c(2, 3))
  expect_error(dimScale(wide), "non-conformable matrix dimensions")
  expect_error(dimScale(gpu(diag(2)[, c(1, 2, 2)]), 2), "non-conformable matrix dimensions")
  expect_equal(of(dimScale)(wide, 1:2, 1:3), as.matrix(wide))
  expect_error(rowScale(S, "a"), class = "verdigris_error_argument")
  expect_error(rowScale(gpu(1:3), 1), class = "verdigris_error_argument")
})

test_that("condition numbers are estimated", {
  set.seed(4)
  for (k in 1:5) {
    M <- methods::as(methods::as(Matrix::rsparsematrix(9, 9, 0.4) + Matrix::Diagonal(9, 3), "generalMatrix"),
      "CsparseMatrix")
    S <- as_gpu(M, device = test_device)
    want <- Matrix::condest(M, t = 4)$est
    for (x in list(S, M, gpu(as.matrix(M)))) expect_equal(condest(x, t = 4)$est, want)
    expect_equal(Matrix::condest(S, t = 4)$est, want)
    expect_equal(as.double(Matrix::onenormest(S)$est), Matrix::onenormest(M)$est)
    expect_equal(as.double(kappa(S)), kappa(as.matrix(M)))
  }
  expect_error(condest(S[1:3, ]), "square")
  n <- 1100
  S <- as_gpu(Matrix::Diagonal(n, seq_len(n) + 0), device = test_device)
  expect_equal(condest(S)$est, n)
  expect_equal(Matrix::condest(S)$est, n)
})

test_that("factors of Matrix solve for sparse right sides, and are made and updated of them", {
  set.seed(5)
  Q <- methods::as(methods::as(Matrix::rsparsematrix(7, 7, 0.3) + Matrix::Diagonal(7, 3), "generalMatrix"),
    "CsparseMatrix")
  Y <- methods::as(Matrix::crossprod(Q), "generalMatrix")
  S <- as_gpu(Y, device = test_device)
  B <- as_gpu(Q, device = test_device)
  factor <- Matrix::Cholesky(Matrix::forceSymmetric(Y))
  solved <- Matrix::solve(factor, B)
  expect_s4_class(solved, "gpu_sparse")
  expect_equal(as.matrix(solved), as.matrix(Matrix::solve(factor, Q)))
  for (f in list(chol, Matrix::chol)) {
    expect_s4_class(f(S), "gpu_sparse")
    expect_equal(as.matrix(f(S)), as.matrix(Matrix::chol(Y)))
    expect_equal(as.matrix(chol2inv(f(S))), solve(as.matrix(Y)))
  }
  expect_equal(as.matrix(Matrix::chol2inv(as_gpu(methods::as(Matrix::chol(Y), "generalMatrix"), device = test_device))),
    solve(as.matrix(Y)))
  expect_equal(Matrix::solve(Matrix::updown("+", B, factor), 1:7), Matrix::solve(Matrix::updown("+", Q, factor), 1:7))
  R <- Matrix::chol(Y)
  expect_equal(as.vector(backsolve(as_gpu(R, device = test_device), 1:7)), backsolve(as.matrix(R), 1:7))
  expect_equal(as.vector(forwardsolve(t(as_gpu(R, device = test_device)), 1:7)), forwardsolve(t(as.matrix(R)), 1:7))
})

test_that("dense results are made on the device", {
  M <- sparse_inputs()$square
  S <- as_gpu(M, device = test_device)
  x <- as.matrix(M)
  expect_true(is_gpu(svd(S)$d))
  expect_equal(as.vector(svd(S)$d), svd(x)$d)
  expect_equal(sort(Mod(as.vector(eigen(S)$values))), sort(Mod(eigen(x)$values)))
  expect_true(is_gpu(eigen(crossprod(S))$values))
  expect_equal(dist(S), dist(x), ignore_attr = TRUE)
  suppressWarnings({
    expect_equal(collect(cov(S)), cov(x))
    expect_equal(collect(var(S)), var(x))
    expect_equal(collect(cor(S)), cor(x))
    expect_equal(collect(cor(S, seq_len(nrow(x)))), cor(x, seq_len(nrow(x))))
    expect_equal(collect(cor(S, method = "spearman")), cor(x, method = "spearman"))
  })
  expect_equal(as.vector(outer(S, 1:2)), as.vector(outer(x, 1:2)))
})

test_that("extremes beside numbers are sparse where 0 stays", {
  for (M in sparse_inputs()) {
    S <- as_gpu(M, device = test_device)
    x <- as.matrix(M) + 0
    for (na.rm in c(TRUE, FALSE)) {
      expect_equal(as.matrix(pmax(S, 0, na.rm = na.rm)), pmax(x, 0, na.rm = na.rm), ignore_attr = TRUE)
      expect_equal(as.matrix(pmin(S, 1, na.rm = na.rm)), pmin(x, 1, na.rm = na.rm), ignore_attr = TRUE)
      expect_equal(as.vector(pmax(0, S, na.rm = na.rm)), as.vector(pmax(0, x, na.rm = na.rm)))
    }
    expect_s4_class(pmax(S, 0), "gpu_sparse")
  }
  expect_s4_class(pmax(S, S), "gpu_sparse")
  expect_identical(dim(pmax(S, -1)), dim(S))
})

test_that("trimmed means count the zeros that are not stored", {
  for (M in sparse_inputs()) for (trim in c(0, 0.05, 0.1, 0.25, 0.4, 0.5, 1)) for (na.rm in c(TRUE, FALSE)) {
    S <- as_gpu(M, device = test_device)
    x <- as.vector(as.matrix(M)) + 0
    expect_equal(mean(S, trim, na.rm), mean(x, trim, na.rm))
  }
  expect_error(mean(S, "a"), "numeric of length one")
})

test_that("base R's rules hold where Matrix has none, or another", {
  M <- sparse_inputs()$named
  S <- as_gpu(M, device = test_device)
  x <- as.matrix(M)
  expect_identical(collect(S[cbind(c(0, 1), c(2, 1))]), unname(x[cbind(c(0, 1), c(2, 1))]))
  expect_length(S[cbind(0, 1)], 0L)
  expect_identical(collect(S["r1"]), NA_real_)
  expect_error(S["r1"] <- 1, "out of bounds")
  expect_identical(collect(S[rep(TRUE, 42)]), x[rep(TRUE, 42)])
  expect_identical(collect(S[, 0][NA]), x[, 0][NA])
  expect_error(S[rep(TRUE, 42)] <- 1, "out of bounds")
  expect_error(S[cbind(-1, 1)], "negative")
  expect_length(S + NULL, 0L)
  expect_identical(dimnames(S[0, ]), dimnames(x[0, , drop = FALSE]))
  expect_null(names(rowSums(S[0, ])))
  expect_null(names(collect(S[, 0][1, ])))
  expect_identical(dimnames(as_gpu(M[0, ], device = test_device))[[1L]], NULL)
  expect_equal(as.matrix(cbind(S, factor(c("b", "a", "b", "a", "b")))), cbind(x, c(2, 1, 2, 1, 2)),
    ignore_attr = TRUE)
  expect_warning(expect_true(any(S)), "coercing argument of type 'double'")
  expect_equal(as.vector(colSums(S, sparseResult = TRUE)), as.vector(colSums(x)))
  expect_error(colSums(S, other = 1), "unused argument")
  expect_identical(format(S), Matrix::format(M))
  expect_identical(format(S > 0), Matrix::format(M > 0))
  expect_true(all.equal(S, M))
  expect_true(all.equal(M, S))
  expect_type(all.equal(S, S * 2), "character")
  expect_type(all.equal(S, S[1:2, ]), "character")
  expect_true(isTRUE(all.equal(S, S * (1 + 1e-12))))
  expect_equal(as.matrix(Matrix::`%&%`(S, M[1:8 %% 5 + 1, 0:1] > 0)), as.matrix(Matrix::`%&%`(M, M[1:8 %% 5 + 1, 0:1] >
    0)), ignore_attr = TRUE)
})

test_that("classes of Matrix are reached by as()", {
  inputs <- sparse_inputs()
  for (name in c("plain", "logical", "nothing", "no_rows", "zeros")) {
    S <- as_gpu(inputs[[name]], device = test_device)
    for (class in c("dCsparseMatrix", "lCsparseMatrix", "nCsparseMatrix", "dsparseMatrix", "lsparseMatrix",
      "nsparseMatrix", "generalMatrix", "CsparseMatrix", "RsparseMatrix", "TsparseMatrix", "denseMatrix", "dMatrix",
      "lMatrix", "nMatrix", "unpackedMatrix")) {
      made <- tryCatch(methods::as(inputs[[name]], class), error = function(e) NULL)
      if (!is.null(made)) expect_equal(as.matrix(methods::as(S, class)), as.matrix(made), info = paste(name, class),
        ignore_attr = TRUE)
    }
  }
})
