# Calls as users type them for a sparse matrix: each gives what Matrix does, or fails where that fails. One matrix, with
# names, and many calls; test-sparse-operators.R and its neighbours have few calls of many matrices.

skip_if_not_installed("Matrix")

typed_variables <- function() {
  set.seed(7)
  S <- Matrix::rsparsematrix(8, 6, 0.3)
  S@x <- round(S@x * 4)
  S@x[S@x == 0] <- 1
  dimnames(S) <- list(paste0("g", 1:8), paste0("c", 1:6))
  S[2, 3] <- 5
  T <- Matrix::rsparsematrix(8, 6, 0.4, rand.x = function(n) sample(1:5, n, TRUE))
  Q <- Matrix::rsparsematrix(6, 6, 0.4)
  Q <- methods::as(methods::as(Q + Matrix::t(Q) + Matrix::Diagonal(6, 4), "generalMatrix"), "CsparseMatrix")
  list(S = S, T = T, Q = Q, d = matrix(as.double(1:48), 8), v = as.double(1:6), w = as.double(1:8),
    g = rep(c("a", "b"), 4))
}

# As ordinary values, numbers as doubles.
ordinary <- function(v) {
  if (isS4(v) && inherits(v, "sparseVector")) v <- as.vector(v)
  if (inherits(v, "gpu_sparse") || isS4(v) && inherits(v, "Matrix")) v <- as.matrix(v)
  if (is_gpu(v)) v <- collect(v)
  if (is.list(v)) {
    names <- names(v)
    return(stats::setNames(lapply(v, ordinary), names))
  }
  if (is.matrix(v) && all(vapply(dimnames(v), is.null, NA))) dimnames(v) <- NULL
  if (is.integer(v) && !is.object(v)) storage.mode(v) <- "double"
  v
}

typed <- c(
  "summary(S)", "{S[1, 2] <- 7; S}", "{S[2:3, c(1, 4)] <- 0; S}", '{S["g1", "c2"] <- 3; S}', "{S[S > 2] <- 0; S}",
  "{S[, 3] <- w; S}", "{S[4, ] <- v; S}", "{S[S == 0] <- 1; S}", "{S[cbind(1:3, 1:3)] <- 9; S}",
  "{S[is.na(S)] <- 0; S}", "{diag(S) <- 2; S}", "{S@x[S@x < 0] <- 0; S}", "{S[-1, ] <- 0; S}",
  "{S[w > 4, v < 3] <- 1; S}", "{S[1:2, ] <- T[3:4, ]; S}", "{dimnames(S) <- NULL; S}",
  "{colnames(S) <- letters[1:6]; S}", '{rownames(S)[2] <- "x"; S}', '{S[["g1", "c1"]] <- 4; S}', "S[S > 0]",
  "S[S != 0]", "S[[2, 3]]", 'S[["g2", "c3"]]', 'S["g2", ]', 'S[, "c3"]', "S[, 3, drop = FALSE]", "S[-(1:3), ]",
  "S[c(TRUE, FALSE), ]", "S[order(rowSums(S)), ]", "S[order(-S[, 1]), ]",
  "S[, order(colSums(S), decreasing = TRUE)]", "S[rowSums(S > 0) > 1, ]", "S[, colSums(S != 0) > 2]",
  "S[nrow(S):1, ]", "S[cbind(1:3, 2:4)]", "S[3]", 'S[c("g1", "g3"), c("c1", "c2")]', "S[which.max(rowSums(S)), ]",
  "S[1, , drop = FALSE]", "S[, c(2, 2, 1)]", "apply(S, 1, sum)", "apply(S, 2, function(x) sum(x > 0))",
  "apply(S, 1, which.max)", "apply(S, 2, sd)", "apply(S, 2, quantile)", "apply(S, c(1, 2), function(x) x + 1)",
  "apply(S, 1, function(x) x / sum(x))", "apply(S > 0, 2, any)", "apply(S, 2, sort)", "rowSums(S > 0)",
  "colSums(S != 0)", "colSums(S == 0)", "rowMeans(S[, 1:3])", "colMeans(S, na.rm = TRUE)", "rowSums(abs(S))",
  "rowSums(S^2)", "sqrt(rowSums(S^2))", "colSums(is.na(S))", "mean(S)", "mean(S@x)", "sum(S > 0) / length(S)",
  "max(S)", "range(S)", "length(S@x) / prod(dim(S))", "nnzero(S)", "nnzero(S) / length(S)", "any(S < 0)",
  "all(S >= 0)", "S %*% diag(6)", "S %*% Diagonal(6, v)", "diag(8) %*% S", "S %*% v", "w %*% S", "t(S) %*% S",
  "crossprod(S)", "tcrossprod(S)", "crossprod(S, T)", "crossprod(S, w)", "S %*% t(T)", "S %*% Q", "Q %*% Q %*% v",
  "S * T", "S + T", "S - S", "S * w", "S / rowSums(abs(S) + 1)", "t(t(S) / v)", "t(t(S) * v)", "S / 2",
  "2 / (S + 1)", "S %/% 2", "S %% 2", "-S", "+S", "!S", "S > T", "S & T", "S | T", "xor(S > 0, T > 0)", "S == T",
  "S^2", "sqrt(abs(S))", "log1p(abs(S))", "exp(S)", "round(S / 3, 2)", "sign(S)", "abs(S)", "pmax(S, 0)",
  "pmin(S, T)", "ifelse(as.matrix(S) > 0, 1, 0)", "cor(as.matrix(S))", "cov(as.matrix(S))", "dist(as.matrix(S))",
  "dist(S)", "cor(S)", "var(as.matrix(S))", 'sweep(S, 1, rowSums(S), "-")', 'sweep(S, 2, colSums(S) + 0.5, "/")',
  'sweep(S, 2, v, "*")', "scale(S)", "scale(S, scale = FALSE)", "sapply(1:6, function(j) sum(S[, j]))",
  "sapply(seq_len(ncol(S)), function(j) max(S[, j]))", "vapply(1:8, function(i) sum(S[i, ] != 0), 0)",
  "lapply(1:2, function(j) S[, j])", "lapply(split(1:8, g), function(i) colSums(S[i, , drop = FALSE]))",
  "Reduce(`+`, list(S, T, S))", "Reduce(cbind, list(S, T))", "do.call(rbind, list(S, S))",
  "do.call(cbind, lapply(1:3, function(j) S[, j, drop = FALSE]))", "mapply(function(i, j) S[i, j], 1:3, 1:3)",
  "which(S != 0, arr.ind = TRUE)", "which(S != 0)", "which(S > 2)", "which(rowSums(S) > 0)", "which.max(colSums(S))",
  "which(S == max(S), arr.ind = TRUE)", "head(S)", "head(S, 3)", "head(S, c(2, 3))", "tail(S, 2)", "tail(S, -6)",
  "rev(S)", "rev(S@x)", "order(S[, 1])", "sort(S[, 1])", "sort(S@x)", "unique(S@x)", "table(S@x)",
  "table(as.vector(S))", "quantile(S@x)", "summary(S@x)", "hist(S@x, plot = FALSE)$counts", "cbind(S, d)",
  "cbind(S, 1)", "cbind(1, S)", "cbind(S, w)", "cbind(S, new = w)", "rbind(S, v)", "rbind(S, total = colSums(S))",
  "cbind(d, S)", "rbind(S, T)", "cbind2(S, T)", "rbind2(S, T)", "dim(S)", "nrow(S)", "ncol(S)", "NROW(S)", "NCOL(S)",
  "length(S)", "dimnames(S)", "rownames(S)", "colnames(S)", "is.numeric(S)", "is.matrix(S)", "is.na(S)", "anyNA(S)",
  "is.finite(S)", "is.nan(S)", "is.infinite(S)", "isSymmetric(Q)", "isSymmetric(S)", "all.equal(S, S)",
  "as.matrix(S)", "as.vector(S)", "as.numeric(S)", "as.array(S)", "as.data.frame(as.matrix(S))", "as.data.frame(S)",
  "data.frame(summary(S))$x", 'as(S, "dgCMatrix")', 'as(S, "TsparseMatrix")', 'as(S, "RsparseMatrix")',
  'as(S, "CsparseMatrix")', 'as(S, "matrix")', 'as(S, "sparseMatrix")', 'as(S > 0, "dgCMatrix")',
  'as(S, "denseMatrix")', "(S > 0) * 1", "(S > 0) + 0", "1 * (S > 0)", 'as(as(S, "nMatrix"), "dMatrix")', "t(S)",
  "t(t(S))", "diag(Q)", "sum(diag(Q))", "diag(S)", "triu(Q)", "tril(Q)", "band(Q, -1, 1)", "forceSymmetric(Q)",
  "symmpart(Q)", "solve(Q)", "solve(Q, diag(6))", "chol(Q)", "det(Q)", "determinant(Q)$modulus", "norm(S)",
  'norm(S, "F")', 'norm(S, "2")', "rankMatrix(S)[1]", "svd(S)$d", "eigen(Q)$values", "prcomp(S)$sdev",
  "kronecker(S, diag(2))", "S %x% T", "S %o% 1", "drop(S[, 1, drop = FALSE])", "drop0(S)",
  "aggregate(as.matrix(S), list(g), sum)", "rowsum(as.matrix(S), g)", "aggregate(S, list(g), sum)",
  "tapply(rowSums(S), g, sum)", "by(as.matrix(S), g, colSums)", "split(S, g)", "cumsum(S[, 1])", "cumsum(S)",
  "diff(S)", "duplicated(S)", "unique(S)", "rowMeans(S)[order(rowMeans(S))]", "colnames(S)[colSums(S) > 0]",
  "cut(S@x, 3)", "nchar(rownames(S))", "subset(S, w > 3)", "with(summary(S), tapply(x, j, sum))",
  "with(summary(S), sparseMatrix(i = i, j = j, x = x, dims = dim(S)))",
  "sparseMatrix(i = S@i, p = S@p, x = S@x, dims = dim(S), index1 = FALSE)", "diff(S@p)", "rep(1:6, diff(S@p))",
  "tabulate(S@i + 1, 8)", "S@Dim", "S@Dimnames", "S@x / rep.int(colSums(S), diff(S@p))",
  "{S@x <- S@x / rep.int(colSums(abs(S)), diff(S@p)); S}", "{S@x <- log1p(abs(S@x)); S}", "{S@x[] <- 1; S}",
  "median(S)", "var(S[, 1])", "prod(dim(S))", "crossprod(scale(S))", "S %in% 1", "match(5, S)", 'rowSums(S)["g2"]',
  "matrix(S, 6)", "array(S, c(8, 6))", "c(S)", "unlist(S)", "list(S)[[1]]", "mean(S[S > 0])", 'sum(S[, "c3"] > 0)',
  "S[, 1] + S[, 2]", "S[, 1] * w", "S[1, ] %*% v", "S[S[, 1] > 0, , drop = FALSE]",
  "nrow(S[S[, 1] > 0, , drop = FALSE])", "max(S[1, ])", "names(S[, 1])", 'S[["c1"]]', "S$c1", "ncol(cbind(S, S))",
  "Negate(is.na)(S)", "Map(function(j) sum(S[, j]), 1:2)", "Filter(function(j) sum(S[, j]) > 0, 1:6)",
  "trunc(S / 2)", "ceiling(S / 3)", "floor(S / 3)", "cos(S)", "tanh(S)", "atan(S)", 'forceSymmetric(Q, "L")',
  "skewpart(Q)", "expm(Q / 10)", "Schur(Q)$EValues", "chol2inv(chol(crossprod(Q)))", 'as(S, "ngCMatrix")',
  'as(S, "dMatrix")', 'as(S, "lMatrix")', 'as(S, "nMatrix")', 'as(S, "generalMatrix")', 'as(S, "Matrix")',
  'as(Q, "symmetricMatrix")', 'as(S, "vector")', 'as(S, "numeric")', 'as(S, "dgeMatrix")', 'as(S, "sparseVector")',
  'as(S[, 1, drop = FALSE], "vector")', "as.logical(S)", "as.character(S)", "as.complex(S)", "as.list(S)",
  "diff(S, lag = 2)", "mean(S, na.rm = TRUE)", "range(S, na.rm = TRUE)", "prod(S)", "min(S, 3)",
  "sum(S, na.rm = TRUE)", "max(S@x, 0)", "crossprod(S, S > 0)", "crossprod(as.matrix(S), S)",
  "as.matrix(S) %*% t(S)", "S %*% as.matrix(Q)", "S %*% matrix(1:6)", "S %*% 1:6", "1:8 %*% S", "S %*% cbind(v, v)",
  "S %*% (1:6 > 2)", "tcrossprod(S, diag(6))", "tcrossprod(S, Q)", "S %*% Diagonal(6)", "Diagonal(8) %*% S",
  "S + Diagonal(8)[, 1:6]", "Q + Diagonal(6)", "Q - diag(6)", "Q * Diagonal(6)", "Q / 2 + t(Q) / 2",
  "(Q + t(Q)) / 2", "S + as.matrix(S)", "as.matrix(S) * S", "S * 0", "S * NA", "S + 0", "S^0", "S^-1", "0 / S",
  "S / 0", "S > 1 & S < 4", "!(S > 1)", "S != 0 & T != 0", "S == 5", "5 == S", "sum(S == 5)", "S[S > 1 & S < 5]",
  "{S[S < 0] <- NA; S}", "{S[S < 0] <- -S[S < 0]; S}", "{S[S > 0] <- 1; S}", "{S[S != 0] <- S[S != 0] * 2; S}",
  "{S[1, ] <- S[1, ] / sum(S[1, ]); S}", '{S[, "c1"] <- S[, "c1"] + 1; S}', '{S["g1", ] <- 0; S}', "{S[10] <- 3; S}",
  "{S[] <- 0; S}", "{S[,] <- 1; S}", "{S[w %% 2 == 0, ] <- 0; S}", '{S[, c("c1", "c2")] <- d[, 1:2]; S}',
  "{S[1:2, 1:2] <- diag(2); S}", "{S[1:2, 1:2] <- matrix(1:4, 2); S}", "{S[9, 1] <- 1; S}", '{S["zz", 1] <- 1; S}',
  '{S[1, 1] <- "a"; S}', "{S[1, 1] <- NULL; S}", "{S[1:3, 1] <- 1:2; S}", "{diag(Q) <- 0; Q}", "{diag(Q) <- 1:6; Q}",
  "{diag(Q) <- diag(Q) + 1; Q}", "{triu(Q)[1, 2]}", "{dim(S) <- c(6, 8); S}", "{dim(S) <- c(7, 8); S}",
  "{dimnames(S) <- list(letters[1:8], LETTERS[1:6]); S}", "{rownames(S) <- NULL; S}",
  '{colnames(S) <- paste0("x", 1:5); S}', '{names(S) <- "a"; 1}', "{S@x <- S@x + 1; S}",
  "{S@Dimnames <- list(NULL, NULL); S}", "{T[T == 1] <- 0; nnzero(T)}", 'S["zz", ]', "S[, 7]", "S[9, 1]",
  "S[c(1, NA), ]", "S[NA, 1]", "S[0, 0]", "S[, 0]", "S[-1]", "S[-(1:40)]", "S[c(TRUE, FALSE)]", "S[w]",
  "S[w > 100, ]", "S[, v[v > 3]]", "S[1.7, 2.2]", 'S["g1", , drop = FALSE]', 'S[c("g2", "g2"), "c3"]',
  'S[rownames(S) %in% c("g1", "g5"), ]', 'S[, startsWith(colnames(S), "c")]', 'S[, grep("[12]", colnames(S))]',
  "S[sort(rownames(S), decreasing = TRUE), ]", "S[do.call(order, as.data.frame(as.matrix(S))), ]",
  "S[apply(S, 1, function(x) any(x != 0)), ]", "S[rowMeans(S) > mean(S), colSums(S) > 0]", "apply(S, 1, mean)",
  "apply(S, 2, max)", "apply(S, 2, min)", "apply(S, 1, range)", "apply(S, 2, median)",
  "apply(S, 1, function(r) names(r)[which.max(r)])", "apply(S, 2, identity)", "apply(S, 2, length)",
  "apply(S, 2, function(x) NULL)", "apply(S, 1, sum, na.rm = TRUE)", "apply(S, 2, rank)", "apply(S, 1:2, identity)",
  "apply(S, 3, sum)", 'apply(S, 1, paste, collapse = "-")', "sapply(list(S, T), nnzero)", "sapply(list(S, T), dim)",
  "sapply(split(w, g), function(i) sum(S[i, ]))", "t(sapply(1:8, function(i) S[i, ] * 2))",
  "vapply(seq_len(6), function(j) nnzero(S[, j]), 0L)", "vapply(seq_len(6), function(j) sd(S[, j]), 0)",
  "tapply(S[, 1], g, mean)", "aggregate(S[, 1], list(g), mean)", "split(S[, 1], g)", "rowsum(S[, 1], g)",
  "ave(S[, 1], g)", "Reduce(`*`, list(S, T))", "Reduce(rbind, list(S, T, S))",
  "Reduce(function(a, b) a %*% b, list(Q, Q, Q))", "do.call(rbind, lapply(1:3, function(i) S[i, ]))",
  "do.call(rbind, lapply(split(1:8, g), function(i) colSums(S[i, ])))", "cbind(S[, 1:2], S[, 5:6])",
  "cbind(a = S[, 1], b = S[, 2])", "cbind(S, Matrix(0, 8, 2))", "cbind(S, Diagonal(8))", "cbind(S, g)",
  "cbind(S, T, d, 1)", "rbind(S, NULL)", "cbind(NULL, S)", "cbind(S)", "rbind(S, 1:2)", "rbind(S, d)",
  "rbind(S, d[, 1:6])", "rbind(S, diag(6))", "rbind(d[1, 1:6], S)", "head(S, 2)[, 1:2]", "head(S, -6)", "head(t(S))",
  "tail(S)", "tail(S, 1)", 'which(S > 0, arr.ind = TRUE)[, "row"]', "which(T != 0, arr.ind = TRUE)",
  "which(as.matrix(S) > 0)", "which(S)", "which(is.na(S))", "which.max(S)", "which.min(S@x)",
  "arrayInd(which.max(as.matrix(S)), dim(S))", "row(S)", "col(S)", "row(as.matrix(S))[as.matrix(S) > 0]",
  "lower.tri(Q)", "upper.tri(Q)", "Q[upper.tri(Q)]", "{Q[lower.tri(Q)] <- 0; Q}", "sum(Q[upper.tri(Q)])",
  "outer(rowSums(S), colSums(S)) / sum(S)", "S - outer(rowSums(S), colSums(S)) / sum(S)", "S / rowSums(S)",
  "S / sum(S)", "S * rep(v, each = 8)", "S * (rowSums(S) > 1)", "log(S + 1)", "log2(S@x^2 + 1)",
  "log1p(abs(S) / rowSums(abs(S)) * 1e4)", "log(abs(S))", "sqrt(S)", "round(S)", "signif(S, 1)", "S %*% S",
  "S + T[1:2, ]", "S + Q", "S * v", "S * 1:3", "S > w", "cumsum(S[1, ])", "cumprod(S[, 2])", "rev(S[1, ])",
  "sample(S@x, 2) * 0", "var(S)", "cov(S)", "sd(S@x)", "median(S@x)", "mad(S@x)", "scale(as.matrix(S))",
  "colMeans(S) / colMeans(T)", "cor(S[, 1], S[, 2])", "cor(as.matrix(S), as.matrix(T))", "dist(t(as.matrix(S)))",
  "hclust(dist(as.matrix(S)))$merge", "kmeans(as.matrix(S), as.matrix(S)[1:2, ])$size",
  "cmdscale(dist(as.matrix(S)))^2", "svd(as.matrix(S))$d", "qr.solve(as.matrix(Q), v)",
  "lm.fit(as.matrix(T), w)$rank", "lm(w ~ as.matrix(S))$rank", "solve(Q, S[1:6, ])", "solve(Q) %*% Q",
  "solve(crossprod(S) + Diagonal(6), t(S) %*% w)", "solve(S)", "chol(crossprod(S) + Diagonal(6))",
  "backsolve(chol(as.matrix(crossprod(Q))), v)", "eigen(crossprod(S))$values", "svd(S, nu = 0)$d", "kappa(Q)",
  "rcond(Q)", 'norm(Q, "I")', 'norm(S, "M")', 'norm(S, "x")', "crossprod(S)[1:2, 1:2]", "diag(crossprod(S))",
  "sum(diag(tcrossprod(S)))", "all(S == S)", "identical(dim(S), dim(T))", "any(is.na(S))", "is.null(S)",
  "is.list(S)", "is.vector(S)", "is.array(S)", "is.atomic(S)", "is.object(S)", "isS4(S)", "mode(S)", "typeof(S@x)",
  "storage.mode(S@x)", "class(S@Dim)", "nchar(capture.output(print(S))[1]) > 0", "seq_len(nrow(S))", "seq_along(S)",
  "length(S@i)", "lengths(S)", "ifelse(S > 0, 1, 0)", "S > 0 | S < 0", "if (any(S > 6)) 1 else 2",
  "for (j in 1:2) S[, j]", "{s <- 0; for (j in 1:6) s <- s + sum(S[, j]); s}",
  "{for (j in 1:6) S[, j] <- S[, j] / 2; S}", "{for (k in seq_along(S@x)) S@x[k] <- S@x[k] + 1; S}",
  "max(abs(S - T))", "mean(abs(S - T))", "sum((S - T)^2)", "sqrt(sum(S^2))", "crossprod(v, Q) %*% v",
  "drop(S %*% v)", "as.vector(S %*% v)", "as.numeric(crossprod(S, w))", "(S %*% v)[, 1]", "S %*% v + w",
  "S %*% v - 1", "1 / (1 + exp(-(S %*% v)))", "matrix(S@x, 1)", "data.frame(i = S@i, x = S@x)$x",
  "with(list(A = S), sum(A))", "local({A <- S; A[1, 1] <- 0; sum(A)})",
  'tryCatch(S[100, 1], error = function(e) "none")', "unname(S)", "nlevels(factor(S@x))", "toString(dim(S))",
  "paste(S@x)", 'sprintf("%d", nrow(S))', "format(S@x)", "stopifnot(nrow(S) == 8)", "vapply(list(S, T), sum, 0)",
  "stack(as.data.frame(as.matrix(S)))$values", 'merge(summary(S), summary(T), by = c("i", "j"))$x.x',
  "summary(S)[summary(S)$x > 1, ]", "nrow(summary(S))", 'colSums(S)[c("c1", "c2")]', "sort(colSums(S))",
  "order(rowSums(S))", "rank(rowSums(S))", "barplot(colSums(S), plot = FALSE)", "names(which.max(colSums(S)))",
  "round(colMeans(S), 2)", "cut(rowSums(S), 2)", "table(rowSums(S) > 0, g)", "quantile(rowSums(S))",
  "boxplot(rowSums(S) ~ g, plot = FALSE)$stats", "t.test(S[, 1], S[, 2])$p.value", 'rowSums(S[, c("c1", "c3")])',
  "colSums(S, 1)", "S |> rowSums()", "S |> t() |> colSums()", "replace(S, 1, 0)", "replace(S, S > 0, 1)",
  "crossprod(S[, 1], S[, 2])", "S[, 1] %*% S[, 2]", "S[, 1] %o% S[1, ]", "sum(S[, 1] * S[, 2])", "det(Q[1:2, 1:2])",
  "array(S@x)", "pmax(S, T)", "pmin(S, 1)", "pmax(0, S)", "range(S@x)", "bdiag(S, T)", "rankMatrix(Q)[1]",
  "nearPD(crossprod(S))$converged", "onenormest(Q)$est", "rowScale(S, w)"
)

# Base R's where Matrix fails: complex numbers before its 1.6, `na.rm` by its place from 1.6 on, places of extremes.
beyond_matrix <- c("as.complex(S)", "which.max(S)", "colSums(S, 1)", "cor(S)", "cov(S)", "var(S)")

test_that("calls as they are typed give what Matrix gives", {
  variables <- typed_variables()
  arrays <- lapply(variables, function(x) if (isS4(x)) as_gpu(x, device = test_device) else x)
  # generics of Matrix stand in front of base R's, or behind ours
  front <- rlang::new_environment(as.list(asNamespace("Matrix")), parent = as.environment("package:verdigris"))
  behind <- rlang::new_environment(mget(ls(as.environment("package:verdigris")),
    as.environment("package:verdigris")), parent = asNamespace("Matrix"))
  # an ordinary function of Matrix, which takes its own classes only
  if (utils::packageVersion("Matrix") >= "1.6") rm("drop0", envir = front)
  run <- function(text, variables, parent) tryCatch(suppressMessages(suppressWarnings(ordinary(eval(
    parse(text = text, keep.source = FALSE), list2env(variables, parent = parent))))), error = function(e) e)
  calls <- if (emulated) typed[seq(1, length(typed), by = 8)] else typed
  found <- character()
  for (text in calls) {
    want <- run(text, variables, asNamespace("Matrix"))
    for (parent in list(front, behind)) {
      got <- run(text, arrays, parent)
      said <- if (inherits(want, "error")) {
        if (!inherits(got, "error") && !text %in% beyond_matrix) "did not fail"
      } else if (inherits(got, "error")) {
        conditionMessage(got)
      } else {
        same <- all.equal(got, want, tolerance = 1e-8)
        if (!isTRUE(same)) paste(same, collapse = "; ")
      }
      if (!is.null(said)) found <- c(found, paste0(text, ": ", said))
    }
  }
  expect_identical(unique(found), character())
})

test_that("systems, determinants and differences of sparse matrices are base R's", {
  variables <- typed_variables()
  Q <- variables$Q
  x <- as.matrix(Q)
  dimnames(Q) <- dimnames(x) <- list(letters[1:6], LETTERS[1:6])
  S <- as_gpu(Q, device = test_device)
  v <- stats::setNames(1:6 + 0, month.abb[1:6])
  for (b in list(v, x[, 1:2], unname(x[, 3, drop = FALSE]))) expect_equal(collect(solve(S, b)), solve(x, b))
  expect_equal(collect(solve(S)), solve(x))
  expect_equal(collect(solve(S, S)), solve(x, x))
  expect_equal(collect(solve(S, Q[, 1:2])), solve(x, x[, 1:2]))
  expect_equal(det(S), det(x))
  expect_equal(determinant(S, logarithm = FALSE)$modulus[1L], abs(det(x)))
  for (lag in 1:2) for (times in 1:2) expect_equal(as.matrix(diff(S, lag, times)), diff(x, lag, times))
  for (lag in 6:7) {
    none <- diff(S, lag)
    expect_identical(if (inherits(none, "gpu_sparse")) as.matrix(none) else collect(none), diff(x, lag))
  }
  expect_error(diff(S, 0), "integers >= 1")
  expect_error(solve(gpu_sparse(gpu(diag(c(1, 0))))), "singular")
  expect_error(solve(S[1:3, ]), "square")
  expect_error(solve(S, "a"), "vector or a matrix", class = "verdigris_error_argument")
  expect_error(solve(S, 1:4))
  skip_if(emulated)
  # by factors of Matrix
  n <- 1100
  M <- Matrix::bandSparse(n, k = -1:1, diagonals = list(rep(-1, n - 1), rep(3, n), rep(-0.5, n - 1)))
  S <- gpu_sparse(M, device = test_device)
  b <- cbind(a = sin(1:n), b = cos(1:n))
  expect_equal(collect(solve(S, b)), as.matrix(Matrix::solve(M, b)))
  expect_equal(collect(solve(S, gpu(b[, 1]))), as.vector(Matrix::solve(M, b[, 1])))
  expect_equal(collect(solve(crossprod(S), b)), as.matrix(Matrix::solve(Matrix::crossprod(M), b)))
  expect_equal(c(determinant(S)$modulus), c(Matrix::determinant(M)$modulus))
  expect_error(solve(S * 0, b), "singular")
})

test_that("classes and factors of Matrix are reached", {
  variables <- typed_variables()
  S <- as_gpu(variables$S, device = test_device)
  for (class in c("dgTMatrix", "dgRMatrix", "lgCMatrix", "ngCMatrix", "lgTMatrix", "dgCMatrix")) {
    M <- methods::as(S, class)
    expect_s4_class(M, class)
    expect_true(methods::validObject(M))
    expect_equal(as.matrix(M) + 0, if (startsWith(class, "d")) as.matrix(variables$S) else (as.matrix(variables$S) !=
      0) + 0)
  }
  Q <- as_gpu(variables$Q, device = test_device)
  expect_s4_class(methods::as(Q, "dsCMatrix"), "dsCMatrix")
  expect_s4_class(Matrix::lu(Q), "sparseLU")
  expect_s4_class(Matrix::Schur(Q), "Schur")
  expect_s4_class(Matrix::Cholesky(Q %*% Q), "CHMfactor")
  expect_s3_class(image(S), "trellis")
  expect_error(Matrix::Matrix(S), "collect\\(S\\)", class = "verdigris_error_argument")
  expect_error(do.call(Matrix::Matrix, list(S)), class = "verdigris_error_argument")
  # code of Matrix gets ordinary diagonals and factors of permuted rows; users' functions that it calls do not
  expect_equal(as.matrix(Matrix::dimScale(Q)), as.matrix(Matrix::dimScale(variables$Q)))
  expect_equal(Matrix::condest(Q)$est, Matrix::condest(variables$Q)$est)
  seen <- character()
  f <- function(x) {
    seen <<- c(class(Matrix::lu(Q))[1L], class(Matrix::diag(Q))[1L], class(as.vector(Q)))
    as.matrix(variables$Q) %*% x
  }
  Matrix::onenormest(A.x = f, At.x = f, n = 6)
  expect_identical(seen, c("sparseLU", "gpu_numeric", "numeric"))
  expect_error(Matrix::forceSymmetric(S), "non-square")
  expect_error(Matrix::symmpart(S), "non-square")
})
