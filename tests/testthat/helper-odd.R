# Random calls: everyday functions with unusual arguments (empty, missing, named, series, of the wrong type or length),
# by base R on host vectors and by the package on arrays.

# What may stand where an array is expected.
odd_inputs <- list(
  function() numeric(), function() integer(), function() logical(), function() c(a = 1)[0], function()
    matrix(0, 0, 3), function() matrix(1L, 2, 0), function() array(0, c(2, 0, 2)),
  function() NA, function() NA_real_, function() NaN, function() NA_integer_, function() c(NA, NaN, 1), function()
    c(NA_real_, NA_real_), function() Inf, function() c(-Inf, 3, Inf, NA, -2, NaN),
  function() 3, function() 2L, function() TRUE, function() c(x = 5), function() -0, function() c(0, -0, 0), function()
    0L,
  function() sample(c(-3:3, 0.5), 7, TRUE), function() sample.int(9L, 8L, TRUE), function()
    sample(c(TRUE, FALSE, NA), 6, TRUE), function() c(3L, NA, 3L, -1L, 7L, NA), function()
    c(2.5, 1, 2.5, NA, -1e300, 1e-300), function() c(46341L, 1L, -5L),
  function() c(b = 2, a = -1, c = NA, a = 4), function() c(z = TRUE, y = NA, x = FALSE), function()
    c(k = 1L, 2L, m = 3L),
  function() matrix(sample(-4:4, 12, TRUE), 4), function()
    matrix(c(1.5, NA, 3, -2, 0, 8), 2, dimnames = list(c("r", "s"), NULL)), function()
    matrix(1:6, 3, dimnames = list(NULL, c("u", "v"))), function()
    matrix(c(TRUE, FALSE, NA, TRUE), 2, dimnames = list(p = c("a", "b"), q = c("c", "d"))), function()
    matrix(2, 1, 1), function() matrix(c(4, 1, 1, 3), 2), function() matrix(5, 1, 4), function()
    matrix(1:4, 4, 1, dimnames = list(letters[1:4], "w")),
  function() array(1:24 / 2, c(2, 3, 4)), function() array(c(3L, NA, 1L), 3), function()
    array(1:8, c(2, 2, 2), dimnames = list(c("a", "b"), NULL, c("x", "y"))), function()
    array(c(q = 1, r = 2), 2, list(c("q", "r"))),
  function() ts(c(3, 1, NA, 2, 5), start = 2000, frequency = 4), function() ts(1:6), function()
    ts(matrix(c(1, 4, 2, 8, 5, 7), 3, dimnames = list(NULL, c("a", "b"))), start = 5), function()
    complex(real = c(1, NA, -2), imaginary = c(0, 1, 2)), function() 2i
)
# What stays on the host: the second operand, keys, names.
odd_others <- c(odd_inputs, list(function() NULL, function() "a", function() c("b", NA, "a", "b"),
  function() factor(c("u", "v", "u", NA)), function() list(1, 2), function() as.Date("2020-01-02") + 0:3, function()
  1:3, function() c(1, 2), function() -1, function() 0, function() 7))
odd_numbers <- list(0, 1, 2, 3L, -1, -2L, 1.7, NA, NA_real_, numeric(), NaN, 5, 100, 1:2, c(2, 1), TRUE, FALSE,
  c(NA, 1), c(-1, 0))
odd_switches <- list(TRUE, FALSE, TRUE, FALSE, 1, 0L)

# Calls: X an array, Y an array or any value, N a number of sorts, L a switch of sorts.
ODD_CALLS <- c(
  "X[N]", "X[N, ]", "X[, N]", "X[N, N]", "X[Y]", "X[[N]]", "X[[N, N]]", "X[N, drop = L]", "X[, N, drop = L]",
    "X[X > 1]", "X[is.na(X)]", "X[N, , N]", "X[, , N]", "X[]", "X[-1]", "X[c('a', 'zz')]", "X['b', ]", "X[Y, Y]",
    "X[NULL]", "X[-N]", "X[c(TRUE, NA)]", "X[factor('b')]",
  "X[N] <- N", "X[N, ] <- N", "X[, N] <- N", "X[[N]] <- N", "X[Y] <- N", "X[X > 1] <- N", "X[] <- N", "X[N] <- Y",
    "X['new'] <- 1", "X[['a']] <- N", "X[N, N] <- Y", "X[is.na(X)] <- 0", "X[c(TRUE, NA)] <- N", "X[NULL] <- N",
    "X[, , N] <- 1", "X[length(X) + 2] <- N", "X[c(-1, -2)] <- N", "X[c('a', 'b')] <- c(8, 9)", "X[0] <- N",
  "dim(X) <- N", "dim(X) <- c(length(X), 1)", "names(X) <- Y", "dimnames(X) <- Y", "dimnames(X) <- list(NULL, Y)",
    "names(X) <- letters[seq_along(X)]", "length(X) <- N", "diag(X) <- N", "rownames(X) <- Y", "colnames(X) <- Y",
    "attr(X, 'u') <- N",
  "head(X, N)", "tail(X, N)", "head(X)", "tail(X, 2)", "rev(X)", "rep(X, N)", "rep(X, each = N)",
    "rep(X, length.out = N)", "rep(X, N, each = N)", "rep_len(X, N)", "rep.int(X, N)", "rep(X, times = Y)",
    "append(X, Y, N)", "c(X, Y)", "c(X, a = N)", "c(X, Y, recursive = L)", "unlist(list(X, b = Y))",
    "unlist(list(a = X), use.names = L)",
  "t(X)", "aperm(X)", "aperm(X, N)", "aperm(X, c(2, 1))", "aperm(X, c(3, 1, 2))", "matrix(X, N)", "matrix(X, ncol = N)",
    "matrix(X, N, N)", "matrix(X, 2, byrow = L)", "matrix(X, dimnames = Y)", "array(X, N)", "array(X, c(2, 2), Y)",
    "cbind(X, Y)", "rbind(X, Y)", "cbind(X, N)", "rbind(N, X)", "cbind(a = X, Y, deparse.level = 0)",
    "cbind(a = X, Y, deparse.level = 2)", "cbind(X, X)", "rbind(X, u = X)", "cbind(X, NULL)", "cbind(1:3, X)",
    "rbind(X, c(a = 1, b = 2))",
  "outer(X, Y)", "outer(X, N, '+')", "outer(X, 1:2, Y)", "X %o% Y", "kronecker(X, Y)", "kronecker(X, diag(2))",
    "diag(X)", "diag(X, N)", "diag(X, 2, N)", "row(X)", "col(X)", "upper.tri(X, L)", "lower.tri(X)", "sweep(X, N, Y)",
    "sweep(X, 1, N)", "sweep(X, 2, colMeans(X))", "scale(X)", "scale(X, L, L)", "scale(X, N, N)", "scale(X, Y)",
    "apply(X, N, sum)", "apply(X, 1, range)", "apply(X, 2, Y)", "apply(X, c(1, 2), max)",
    "apply(X, 1, mean, na.rm = L)", "asplit(X, N)", "embed(X, N)",
  "sort(X)", "sort(X, L)", "sort(X, na.last = L)", "sort(X, decreasing = L, na.last = L)", "sort(X, partial = N)",
    "sort(X, index.return = L)", "sort(X, method = 'quick')", "order(X)", "order(X, Y)", "order(X, decreasing = L)",
    "order(X, na.last = L)", "order(X, Y, decreasing = c(TRUE, FALSE), method = 'radix')", "order(Y, X, na.last = L)",
    "rank(X)", "rank(X, L)", "rank(X, ties.method = Y)", "rank(X, 'keep', 'min')", "rank(X, L, 'first')",
    "rank(X, L, 'max')", "unique(X)", "unique(X, Y)", "unique(X, fromLast = L)", "duplicated(X)",
    "duplicated(X, fromLast = L)", "duplicated(X, MARGIN = N)", "unique(X, MARGIN = N)", "anyDuplicated(X)",
    "anyDuplicated(X, fromLast = L)", "unclass(rle(X))", "inverse.rle(rle(X))", "table(X)", "table(X, Y)",
    "table(X, useNA = 'ifany')", "table(X, exclude = N)", "table(X, useNA = Y)", "tabulate(X)", "tabulate(X, N)",
    "match(X, Y)", "match(Y, X)", "match(X, Y, nomatch = N)", "match(X, Y, incomparables = N)", "X %in% Y", "Y %in% X",
    "findInterval(X, c(0, 1, 2), L, L)", "findInterval(X, c(-2, 0.5, 0.5, 3), left.open = L)", "cut(X, N)",
    "cut(X, c(0, 1, 5), labels = L)", "cut(X, Y)", "cut(X, 3, include.lowest = L, right = L)", "which(X)",
    "which(X > N)", "which(X > 0, arr.ind = L)", "which(Y == X)", "which.max(X)", "which.min(X)", "quantile(X, N)",
    "quantile(X)", "quantile(X, c(0.1, 0.5), na.rm = L)", "quantile(X, 0.3, na.rm = TRUE, type = N)",
    "quantile(X, na.rm = TRUE, names = L)", "median(X)", "median(X, L)", "mad(X)", "mad(X, na.rm = L)", "mad(X, N)",
    "IQR(X, L)", "IQR(X, TRUE, N)", "fivenum(X, L)", "is.unsorted(X, L)", "is.unsorted(X, strictly = L)", "summary(X)",
    "unclass(summary(X > 1))",
  "cumsum(X)", "cumprod(X)", "cummax(X)", "cummin(X)", "diff(X)", "diff(X, N)", "diff(X, 1, N)", "filter(X, N)",
    "filter(X, c(0.5, 0.5), sides = 1)", "filter(X, 1, 'recursive')", "filter(X, c(1, 1), circular = L)",
    "rowsum(X, Y)", "rowsum(X, rep_len(c(2, 1), NROW(X)))", "rowsum(X, rep_len(c('b', NA), NROW(X)), na.rm = L)",
    "rowsum(X, rep_len(1, NROW(X)), reorder = L)", "tapply(X, Y, sum)", "tapply(X, rep_len(1:2, length(X)), mean)",
    "tapply(X, rep_len(c('a', NA), length(X)), max)", "tapply(X, X, length)",
    "tapply(X, rep_len(1:2, length(X)), range)",
    "tapply(X, list(rep_len(1:2, length(X)), rep_len(1:3, length(X))), sum, default = N)",
    "tapply(X, rep_len(1:2, length(X)), sum, na.rm = L)", "split(X, Y)", "split(X, rep_len(1:2, length(X)))",
    "split(X, rep_len(1:2, length(X)), drop = L)",
    "unsplit(split(X, rep_len(1:2, length(X))), rep_len(1:2, length(X)))", "ave(X, rep_len(1:2, length(X)))",
    "ave(X, Y)", "ave(X)", "ave(X, rep_len(1:2, length(X)), FUN = Y)",
    "aggregate(X, list(g = rep_len(1:2, NROW(X))), sum)",
    "aggregate(data.frame(v = as.vector(X)), list(g = rep_len(1:2, length(X))), mean)",
  "var(X)", "var(X, Y)", "var(X, na.rm = L)", "var(X, use = 'complete.obs')", "sd(X)", "sd(X, L)", "cov(X)",
    "cov(X, Y)", "cor(X)", "cor(X, Y)", "cor(X, rev(X))", "cor(X, use = 'pairwise')", "cor(X, method = 'spearman')",
    "cor(X, as.vector(X), method = 'kendall')", "weighted.mean(X, Y)",
    "weighted.mean(X, rep_len(1:3, length(X)), na.rm = L)", "unclass(hist(X, plot = FALSE))$counts",
    "unclass(hist(X, N, plot = FALSE))$breaks", "as.vector(dist(X))", "as.vector(dist(X, 'manhattan'))",
    "density(X)$bw",
  "sum(X)", "sum(X, Y)", "sum(X, na.rm = L)", "prod(X)", "prod(X, N)", "max(X)", "max(X, Y)", "max(Y, X, na.rm = L)",
    "max(X, na.rm = L)", "min(X)", "min(X, N)", "range(X)", "range(X, Y, na.rm = L)", "range(X, finite = L)", "any(X)",
    "any(X, Y)", "all(X > 0, na.rm = L)", "all(X)", "mean(X)", "mean(X, N)", "mean(X, na.rm = L)",
    "mean(X, trim = 0.2)", "rowSums(X)", "rowSums(X, L)", "colSums(X, dims = N)", "rowMeans(X, na.rm = L)",
    "colMeans(X)", "rowSums(X, dims = 2)",
  "X + Y", "Y - X", "X * N", "X / Y", "X ^ N", "N ^ X", "X %% Y", "X %/% N", "X == Y", "Y < X", "X & Y", "N | X", "!X",
    "-X", "+X", "xor(X, Y)", "isTRUE(X)", "ifelse(c(X > 0, TRUE, FALSE), 1, 2)", "pmin(X, Y)", "pmax(X, N, na.rm = L)",
    "pmin(X, X)", "abs(X)", "sqrt(X)", "exp(X)", "log(X)", "log(X, N)", "log(X, Y)", "log2(X)", "log1p(X)", "floor(X)",
    "round(X, N)", "signif(X, N)", "round(X)", "trunc(X)", "gamma(X)", "lgamma(X)", "beta(X, Y)", "choose(X, N)",
    "factorial(X)", "is.na(X)", "is.nan(X)", "is.finite(X)", "anyNA(X)", "Re(X)", "Im(X)", "Mod(X)", "Conj(X)",
    "Arg(X)", "sign(X)", "atan2(X, Y)", "cos(X)", "sinpi(X)",
  "X %*% Y", "Y %*% X", "X %*% t(X)", "crossprod(X)", "crossprod(X, Y)", "tcrossprod(X)", "tcrossprod(X, Y)",
    "solve(X)", "solve(X, Y)", "chol(X)", "chol2inv(X)", "backsolve(X, N)", "forwardsolve(X, Y)", "qr(X)$rank",
    "qr.coef(qr(X), Y)", "abs(qr.R(qr(X)))", "svd(X)$d", "eigen(X)$values", "eigen(X, L, TRUE)$values", "det(X)",
    "determinant(X)$sign", "norm(X)", "norm(X, Y)", "norm(X, 'F')", "rcond(X)", "rcond(X, N)", "isSymmetric(X)",
    "mahalanobis(X, 0, diag(ncol(X)))",
  "as.vector(X)", "as.integer(X)", "as.numeric(X)", "as.logical(X)", "as.character(X)", "as.complex(X)", "as.list(X)",
    "as.matrix(X)", "as.vector(X, 'list')", "as.vector(X, Y)", "format(X)", "toString(X)", "paste(X)", "nchar(X)",
    "length(X)", "dim(X)", "nrow(X)", "NCOL(X)", "names(X)", "dimnames(X)", "rownames(X)", "is.numeric(X)",
    "is.matrix(X)", "is.array(X)", "is.logical(X)", "typeof(X)", "mode(X)", "storage.mode(X)", "seq_along(X)",
    "is.vector(as.vector(X))", "all.equal(X, Y)", "all.equal(X, X)", "identical(as.vector(X), as.vector(X))",
    "as.data.frame(X)", "data.frame(a = X)", "lapply(X, function(v) v)", "sapply(X, function(v) v * 2)",
    "vapply(X, function(v) v + 1, 0)", "Map(function(a, b) a + b, X, 1)", "Reduce(`+`, X)",
    "Filter(function(v) v > 0, X)", "mapply(function(a) a, X)", "do.call(sum, list(X))", "for (k in X) k",
    "if (X) 1 else 2", "seq_len(X)", "switch(X, 'a', 'b')", "rev(X)[[1]]", "setdiff(X, Y)", "union(X, Y)",
    "intersect(X, Y)", "is.element(N, X)", "max.col(X)", "prettyNum(X)", "rowMeans(X > 0)", "nlevels(X)", "factor(X)",
    "interaction(X, Y)", "trimws(X)", "by(X, rep_len(1:2, NROW(X)), sum)",
    "merge(data.frame(k = as.vector(X)), data.frame(k = 1:3))", "cor.test(X, rev(X))$p.value", "t.test(X)$statistic",
    "ecdf(X)(1)", "approx(X, X, 1:2)$y", "cumall(X)", "rowsum(X, X)", "crossprod(X, X)", "proportions(X, N)",
    "addmargins(table(X))", "array2DF(X)", "mapply(rep, X, N)", "bitwAnd(X, 3L)",
    "rapply(list(X), function(v) v, how = 'unlist')", "complete.cases(X)", "na.omit(X)", "nrow(na.omit(data.frame(X)))",
    "replace(X, N, Y)", "within(data.frame(a = as.vector(X)), b <- a * 2)",
    "transform(data.frame(a = as.vector(X)), b = a)", "mean(data.frame(a = X)$a)", "toupper(X)", "rowSums(is.na(X))",
    "nchar(format(X))", "subset(X, X > 1)", "zapsmall(X)", "jitter(X, amount = 0)", "rev(as.list(X))",
    "round(convolve(X, rev(X), type = 'o'), 9)", "round(fft(X), 9)", "polyroot(X)", "cumsum(rev(X))", "trunc(X, 2)", "range(rank(X))",
    "rowsum(X, Y, reorder = L)", "slice.index(X, N)", "arrayInd(N, dim(X))", "which(is.na(X))", "nchar(X, Y)",
    "as.numeric(cut(X, 2))", "vapply(split(X, rep_len(1:2, length(X))), sum, 0)", "outer(X, X, pmax)",
    "mapply(identity, X)", "expand.grid(X, N)", "rowMeans(X, dims = N)", "crossprod(X)[1]", "det(crossprod(X))",
    "ts(X)", "unname(X)", "setNames(X, Y)", "structure(X, dim = N)", "invisible(X)", "identity(X)", "is.null(X)",
    "Negate(is.null)(X)", "stopifnot(X)", "stopifnot(X >= X)", "any(duplicated(X))", "sum(X > N)", "mean(X == Y)",
    "array(X, dim(Y))", "drop(X)", "mean(sort(X))", "order(order(X))", "rank(-X)", "X[order(X)]",
    "X[rev(seq_along(X))]", "X[sample.int(length(X), 0)]", "X[cbind(1, 1)]", "X[cbind(N, N)]", "X[as.matrix(Y)]",
  "aggregate(X, by = list(rep_len(1:2, NROW(X)), rep_len(c('a','b','c'), NROW(X))), FUN = mean)",
    "aggregate(X, list(g = rep_len(c('a', NA), NROW(X))), range)",
    "aggregate(v ~ g, data.frame(v = as.vector(X), g = rep_len(1:2, length(X))), mean)",
    "aggregate(data.frame(a = X), list(k = X), length)",
  "unsplit(split(X, rep_len(c('b','a'), length(X))), rep_len(c('b','a'), length(X)))",
    "unsplit(list(X, N), rep_len(1:2, 4))", "unsplit(split(X, Y), Y)",
    "unsplit(split(X, factor(rep_len(1:2, length(X)), 1:3)), factor(rep_len(1:2, length(X)), 1:3))",
    "unsplit(split(X, rep_len(c(1, NA), length(X))), rep_len(c(1, NA), length(X)))",
    "unsplit(split(X, factor(rep_len(1:2, length(X)), 1:3), drop = TRUE), factor(rep_len(1:2, length(X)), 1:3), drop = L)", "split(X, rep_len(1:2, length(X))) <- N", "split(X, rep_len(1:2, length(X))) <- list(N, Y)", "split(X, rep_len(c(1, NA), length(X))) <- list(5)", "split(X, X > 1) <- list(0, 1)", "split(X, rep_len(c('b', 'a', NA), length(X)))", "split(X, X)", "split(1:6, X)",
  "dist(X, 'minkowski', p = N)", "dist(X, diag = L, upper = L)", "as.matrix(dist(X))", "dist(t(X), 'man')",
    "embed(X, 2)", "embed(t(X), 2)", "asplit(X, c(2, 1))", "asplit(X, 'p')", "asplit(X + 0, 1)[[1]]",
    "asplit(X[-1, , drop = FALSE], 2)", "do.call(rbind, asplit(X, 1))", "filter(X, c(1, 2, 3), sides = 2)",
  "approx(X, Y, xout = c(0, 1.5), rule = 2)", "approx(X, n = 5)", "approx(1:3, c(2, 4, 8), X)",
    "Vectorize(function(a, b) a + b)(X, N)", "Vectorize(function(a, b = 2) a * b)(X)",
    "Vectorize(function(a, b) a, 'b')(X, 1:2)", "Vectorize(function(a) a, USE.NAMES = L, SIMPLIFY = L)(X)",
  "order(X > 0, X)", "order(X > 0, decreasing = L, na.last = L)", "order(sort(X))",
    "order(rev(sort(X)), decreasing = TRUE)", "order(rep(X, 60))", "order(rep(X, 60), decreasing = TRUE)",
    "rank(rep(X, 60))", "sort(rep(X, 70), na.last = L)", "order(rep(X, 300), rep(Y, 300))",
  "crossprod(X, N)", "crossprod(as.vector(X), as.vector(X))", "tcrossprod(as.vector(X))", "tcrossprod(as.vector(X), N)",
    "c(X) %*% t(c(Y))", "t(c(X)) %*% c(X)", "tcrossprod(matrix(X, ncol = 1), matrix(1:2, ncol = 1))",
    "crossprod(matrix(X, nrow = 1))", "cov(c(X), N)", "apply(X, 2, sort)", "apply(X, c(2, 1), identity)"
)

# Calls whose results differ on purpose: how their code begins, which values they are given, and why.
odd_known <- list(
  list("pm(in|ax)|ts\\(X", function(v) any(vapply(v, function(x) length(dim(x[[1L]])) > 1L, NA)),
    "base R refuses time series of several columns, and makes them of any matrix"),
  list("pm(in|ax)", function(v) any(vapply(v, function(x) is.complex(x[[1L]]) || !length(x[[1L]]), NA)),
    "of nothing base R gives the type of the first argument; words of complex numbers"),
  list("sd|var|which[.]m", function(v) any(vapply(v, function(x) is.complex(x[[1L]]), NA)),
    "base R drops imaginary parts"),
  list("median|mad", function(v) !length(v$X[[1L]]), "names of a median of nothing"),
  list("as.data.frame", function(v) !is.null(attr(v$X[[1L]], "tsp")) || !length(v$X[[1L]]),
    "names of columns and of no rows"),
  list("!X|X %% ", function(v) TRUE,
    "names beside dimnames; a warning of digits that are lost, which depends on the version of R"),
  list("cor", function(v) any(abs(v$X[[1L]]) > 1e150, na.rm = TRUE), "squares that overflow"),
  list("rowsum", function(v) length(dim(v$X[[1L]])) > 2L || any(vapply(v, function(x) length(dim(x[[1L]])) > 1L, NA)),
    "base R reads memory that is not its own, and takes a matrix of groups by rows"),
  list("filter|asplit", function(v) length(dim(v$X[[1L]])) > 1L, "a class less, and dimnames that are none"),
  list("[cr]bind\\(.*deparse", function(v) any(vapply(v, function(x) !is.null(attr(x[[1L]], "tsp")), NA)),
    "time series do not take it, which R says from 4.6 on"),
  list("rcond", function(v) anyNA(v$X[[1L]]), "base R's BLAS decides what NA does"),
  list("dim\\(X|X /|.*[-+*/]", function(v) sum(vapply(v, function(x) !is.null(attr(x[[1L]], "tsp")), NA)) > 1L ||
    length(dim(v$X[[1L]])) > 1L && !is.null(attr(v$X[[1L]], "tsp")),
    "time series of different times meet, and of other dimensions"),
  list("X\\[", function(v) any(vapply(v, function(x) is.numeric(x[[1L]]) && any(is.infinite(x[[1L]])), NA)),
    "base R warns of infinite subscripts of a matrix"),
  list("signif", function(v) is.complex(v$X[[1L]]) && anyNA(v$N1[[1L]]), "of no number of digits base R makes 0"),
  list("[XYN] ?[-+*/^%]", function(v) any(lengths(lapply(v, `[[`, 1L)) == 1L &
    vapply(v, function(x) !is.null(dim(x[[1L]])), NA)) &&
    any(vapply(v, function(x) is.logical(x[[1L]]) && !is.null(names(x[[1L]])), NA)),
    "beside an array of one element base R keeps the names of what it has to convert"),
  list("xor", function(v) any(vapply(v, function(x) !is.null(attr(x[[1L]], "tsp")), NA)),
    "base R names columns by its own expressions"),
  list("X\\[\\[N, N", function(v) any(c(v$N1[[1L]], v$N2[[1L]]) < 0, na.rm = TRUE),
    "base R looks at memory that it has not set"),
  list("choose", function(v) is.double(v$X[[1L]]) && any(v$N1[[1L]] >= 30, na.rm = TRUE),
    "of what is not whole, and many, base R loses digits"),
  list("X\\[, N", function(v) !is.null(attr(v$X[[1L]], "tsp")), "no columns of a series")
)

odd_is_known <- function(call) {
  for (k in odd_known) if (grepl(paste0("^(", k[[1L]], ")"), call$text) && k[[2L]](call$values)) return(TRUE)
  FALSE
}

odd_draw <- function(list) {
  v <- list[[sample.int(length(list), 1L)]]
  if (is.function(v)) v() else v
}

# A random call: its expression, with values for its letters, each a list(value, on_device).
odd_call <- function(text = sample(ODD_CALLS, 1L)) {
  e <- parse(text = text, keep.source = FALSE)[[1L]]
  values <- list()
  fill <- function(e) {
    if (is.symbol(e) && as.character(e) %in% c("X", "Y", "N", "L")) {
      what <- as.character(e)
      if (what == "X") {
        if (is.null(values$X)) values$X <<- list(odd_draw(odd_inputs), TRUE)
        return(e)
      }
      name <- paste0(what, length(values))
      values[[name]] <<- if (what == "Y") {
        v <- odd_draw(odd_others)
        list(v, is.numeric(v) && !inherits(v, c("factor", "Date")) && runif(1) < 0.5)
      } else list(odd_draw(if (what == "N") odd_numbers else odd_switches), FALSE)
      return(as.name(name))
    }
    if (is.call(e)) for (k in seq_along(e)) if (!identical(e[[k]], quote(expr = )) && !is.null(e[[k]]))
      e[[k]] <- fill(e[[k]])
    e
  }
  e <- fill(e)
  if (is.call(e) && identical(e[[1L]], quote(`<-`))) e <- call("{", e, quote(X))
  list(text = text, expr = e, values = values)
}

odd_compare <- function(call) {
  if (odd_is_known(call)) return(NULL)
  run <- function(device) {
    env <- new.env(parent = globalenv())
    for (name in names(call$values)) {
      v <- call$values[[name]]
      assign(name, if (device && v[[2L]]) gpu(v[[1L]]) else v[[1L]], env)
    }
    set.seed(1)
    outcome(eval(call$expr, env))
  }
  want <- run(FALSE)
  got <- run(TRUE)
  said <- odd_difference(got$value, want$value)
  if (is.null(said) && !setequal(by_group(got$warnings), by_group(want$warnings)))
    said <- paste0("warnings {", toString(got$warnings), "} are not {", toString(want$warnings), "}")
  said
}

odd_difference <- function(got, want) {
  if (inherits(got, "failed") && isTRUE(got$panic)) return(paste("a panic:", got$message))
  # words of errors are compared by the tables of calls
  if (inherits(got, "failed") && inherits(want, "failed")) return(NULL)
  # names that are none
  empty <- function(y) {
    if (inherits(y, "failed")) return(y)
    if (!length(y)) names(y) <- NULL
    if (length(dim(y)) > 1L && !length(y) && length(dimnames(y)))
      dimnames(y) <- lapply(dimnames(y), function(n) if (length(n)) n)
    if (length(dimnames(y)) && all(vapply(dimnames(y), is.null, NA))) dimnames(y) <- NULL
    y
  }
  if (is.list(want) && !inherits(want, "failed")) {
    if (!identical(typeof(got), typeof(want))) return(paste("type", typeof(got), "is not", typeof(want)))
    same <- all.equal(collect_all(got), want, tolerance = 1e-12)
    return(if (!isTRUE(same)) paste(same[1L], collapse = " "))
  }
  if (is.atomic(got)) got <- empty(got)
  if (is.atomic(want)) want <- empty(want)
  if (is.language(want) || is.function(want)) return(NULL)
  difference(got, want, ulp = if (is.double(want) || is.complex(want)) 256 else 0, payload = FALSE)
}

collect_all <- function(y) {
  if (is_gpu(y)) return(collect(y))
  if (!is.list(y)) return(y)
  kept <- attributes(y)
  y <- lapply(unclass(y), collect_all)
  attributes(y) <- lapply(kept, collect_all)
  y
}

odd_text <- function(call) {
  values <- vapply(names(call$values), function(name) paste0(name, " = ", if (call$values[[name]][[2L]]) "gpu(",
    deparse1(call$values[[name]][[1L]]), if (call$values[[name]][[2L]]) ")"), "")
  paste0(paste(deparse(call$expr), collapse = " "), "   # ", paste(values, collapse = "; "))
}
