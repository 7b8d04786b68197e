# Principal components: prcomp(), princomp() and cmdscale() for arrays.
#
# Columns are centered and scaled a block of rows at a time, or by correcting products, so that no second matrix of the
# size of x is needed. Small matrices (p by p or less, for p columns) are factored on the host.

#' Principal components
#'
#' [stats::prcomp()] and [stats::princomp()] of an array, with base R's components and methods.
#'
#' @section Algorithms of `prcomp()`:
#' - More rows than columns: the eigenvectors of the matrix of cross products, which is summed in float64 over blocks of
#'   centred and scaled rows. Squares lose digits: the error of a standard deviation s is up to about 1e-16 times the
#'   number of columns times s1^2 / s, where s1 is the largest standard deviation. If a standard deviation is less than
#'   1e-4 of the largest, the singular values of the centred matrix are computed instead, on a GPU from a QR
#'   decomposition, block by block. So no error exceeds 1e-11 of the largest standard deviation for each ten columns.
#' - Otherwise: [svd()][decompositions] of the centred and scaled matrix, as in base R.
#' - A small `rank.`, at most a tenth of the smaller extent less 10, of a matrix with both extents at least 500 (or
#'   `exact = FALSE`): a randomised method. `rank. + 10` vectors, which are random at first, are multiplied by the
#'   matrix and by its transpose, and made orthonormal, until none of the `rank.` standard deviations has changed by
#'   more than 1e-8 of the largest, at least twice and at most 10 times (subspace iteration; Halko, Martinsson and Tropp
#'   2011, algorithm 4.4, on the side of the columns). Let s be the singular values, m the smaller extent, k `rank.` and
#'   q the number of these iterations. The expected error of the matrix as projected on the vectors, in the spectral
#'   norm, is at most `(1 + sqrt(k / 9) + exp(1) * sqrt(k + 10) / 10 * sqrt(m - k))^(1 / (2 * q)) * s[k + 1]` (as in
#'   their corollary 10.10); leaving out the last 10 vectors adds at most `s[k + 1]` (theorem 9.3). Standard deviations
#'   are never too large, up to rounding, and converge first; components whose standard deviations are close to the next
#'   ones may be turned towards these. The random vectors are the same in every call, and R's generator is not used. The
#'   matrix is read in place.
#' - A sparse matrix: eigenvectors of its product with its transpose, on the shorter side, by the Lanczos method of
#'   [gpu_eigs()] with a tolerance of 1e-8 of the largest standard deviation, then standard deviations in the space of
#'   these vectors; or the randomised method. Centering corrects the products, so the matrix stays sparse. Without
#'   `rank.` all components are found, in time and memory that grow with the smaller extent as for a dense matrix.
#'
#' `princomp()` computes means and covariances on the device and their eigenvectors on the host, by base R.
#' @section Signs:
#' The sign of a component is arbitrary, and base R's depends on the LAPACK library. `prcomp()` of an array makes the
#' loading of largest magnitude in each column of `rotation` positive, on every device. (Of loadings whose magnitudes
#' differ by less than one part in a million the first one counts.) `princomp()` follows base R's rule, `fix_sign`.
#' @param x A matrix of finite numbers with a row for each observation; for `prcomp()` also a sparse matrix on a device.
#' @param retx,center,scale.,tol,rank. As in [stats::prcomp()].
#' @param exact `TRUE` for all standard deviations whatever `rank.` is, `FALSE` for the randomised method; by default
#'   the extents decide, see section "Algorithms of `prcomp()`".
#' @param cor,scores,covmat,subset,fix_sign As in [stats::princomp()].
#' @param ... For `prcomp()` and `princomp()` no further arguments.
#' @returns `prcomp()`: a list of class `prcomp`. `x`, the scores, is an array on the device of `x`, in its float type;
#'   the other components are ordinary, as in base R. By the randomised method, and of a sparse matrix if `rank.` is
#'   less than the smaller extent, `sdev` has `rank.` elements instead of all, and there is a component `totalvar`, the
#'   variance of all columns together, to which `summary()` relates the variances; the class is then
#'   `c("gpu_prcomp", "prcomp")`. `princomp()`: a list of class `princomp` in which `scores` is an array. [collect()]
#'   returns an ordinary object. The calls wait for the device.
#' @section Memory:
#' In addition to `x` and the scores: the cross products, and a block of 0.5 GiB of centred rows on a GPU. The
#' randomised method: matrices of rows (three) and of columns (two) by `rank. + 10`; where the means are more than 1e5
#' times the standard deviations (for float32, 4 times) products are taken block by block too. Singular values on the
#' cpu device, and of matrices that do not have more rows than columns: two matrices of the size of `x` in float64.
#' @section Errors:
#' Base R's errors and messages, such as "cannot rescale a constant/zero column to unit variance";
#' `verdigris_error_argument` for `exact`, and for other arguments if `x` is sparse; the errors of [matmult],
#' [svd()][decompositions] and [gpu_svds()].
#' @references
#' Halko, N., Martinsson, P.-G. and Tropp, J. A. (2011) Finding structure with randomness: probabilistic algorithms for
#' constructing approximate matrix decompositions. *SIAM Review* 53, 217-288.
#' @examples
#' x <- as_gpu(as.matrix(USArrests), device = "cpu")
#' fit <- prcomp(x, scale. = TRUE)
#' summary(fit)
#' head(fit$x, 3)
#' predict(fit, x[1:2, ])
#' princomp(x, cor = TRUE)$sdev
#' @name principal
NULL

# The smallest extent for which the randomised method (R/ops-svds.R) is chosen.
RANDOMISED_FROM <- 500

# The least ratio of eigenvalues of a matrix of cross products, smallest to largest, that is accurate enough.
LEAST_VARIANCE <- 1e-8

prcomp_default <- utils::getS3method("prcomp", "default", envir = asNamespace("stats"))
princomp_default <- utils::getS3method("princomp", "default", envir = asNamespace("stats"))

#' @rdname principal
#' @importFrom stats prcomp
#' @export
prcomp.gpu_array <- function(x, retx = TRUE, center = TRUE, scale. = FALSE, tol = NULL, rank. = NULL, exact = NULL,
  ...) {
  chkDots(...)
  if (!is.null(exact) && !is_flag(exact)) abort_argument("exact", "TRUE, FALSE or NULL", exact)
  d <- as.double(dim(x))
  usable <- length(d) == 2L && length(x) > 0L && !is.complex(x) && is_flag(retx) && is_by_column(center, d[2L]) &&
    is_by_column(scale., d[2L]) && (is.null(tol) || is.numeric(tol) && !is.object(tol) && length(tol) == 1L &&
    !is.na(tol)) && (is.null(rank.) || is_count(rank., 1))
  if (!usable) {
    fit <- call_base(prcomp_default, list(read_for(x), retx = retx, center = center, scale. = scale., tol = tol,
      rank. = rank.))
    if (!is.null(fit$x)) fit$x <- upload_result_like(fit$x, x)
    return(fit)
  }
  if (!isTRUE(all(is.finite(x)))) stop_as_base(base_message("infinite or missing values in '%s'", "x"))
  columns <- standard_columns(x, center, scale.)
  if (any(columns$scale == 0)) stop_as_base("cannot rescale a constant/zero column to unit variance")
  small <- min(d)
  k <- min(trunc(rank. %||% small), small)
  by_rule <- !is.null(rank.) && small >= RANDOMISED_FROM && 10 * (k + OVERSAMPLED) <= small
  randomised <- if (is.null(exact)) by_rule else !exact
  if (randomised) columns$total <- squares_of_all(columns)
  found <- if (randomised) random_components(operator_of_columns(columns), k) else all_components(columns, k)
  if (!randomised) columns$total <- sum(found$d^2)
  if (randomised) found$v <- collect(found$v)
  by_vectors <- function(at, signs) found$u[, at, drop = FALSE] * along_columns(as_gpu(signs * found$d[at],
    device = gpu_device(x)), d[1L])
  principal_fit(found, columns, d[1L], k, tol, dimnames(x), if (retx) function(at, signs, rotation) match_precision(
    gpu_compute(if (randomised) by_vectors(at, signs) else times(columns, rotation)), x), randomised)
}

#' @rdname principal
#' @param method For a sparse matrix: `"lanczos"` or `"randomized"`, see [gpu_svds()].
#' @export
prcomp.gpu_sparse <- function(x, retx = TRUE, center = TRUE, scale. = FALSE, tol = NULL, rank. = NULL,
  method = c("lanczos", "randomized"), ...) {
  chkDots(...)
  frame <- environment()
  components_of_operator(operator_of(x), retx, center, scale., tol, rank., one_of("method", method, c("lanczos",
    "randomized")), frame)
}

# Principal components of an operator: products, and column sums of squares. Centering would fill a sparse matrix.
components_of_operator <- function(op, retx, center, scale., tol, rank., method, frame) {
  n <- op$dim[1L]
  p <- op$dim[2L]
  small <- min(op$dim)
  if (small == 0) abort_argument("x", "a matrix with elements", op$source, frame)
  if (!is_flag(retx)) abort_argument("retx", "TRUE or FALSE", retx, frame)
  for (name in c("center", "scale.")) if (!is_by_column(get(name), p)) abort_argument(name,
    sprintf("TRUE, FALSE or %s finite numbers", format_count(p)), get(name), frame)
  check_kept(tol, rank., frame)
  op$called <- "x"
  columns <- column_moments(op, center, scale., frame, squares = TRUE)
  if (any(columns$scale == 0)) stop_as_base("cannot rescale a constant/zero column to unit variance", frame)
  k <- min(trunc(rank. %||% small), small)
  op <- standardised(op, columns$center, columns$scale)
  found <- if (method == "randomized") random_components(op, k, frame = frame) else normal_values(op, k, 1e-8, 300, 1,
    frame)
  if (isFALSE(found$settled)) warn_verdigris("convergence",
    "The Lanczos method did not converge: the last components are approximate.",
    "A larger `rank.`, or `method = \"randomized\"`, may help.", call = frame)
  found$v <- collect(found$v)
  scores <- function(at, signs, rotation) gpu_compute(found$u[, at, drop = FALSE] * broadcast_columns(op,
    signs * found$d[at], n))
  principal_fit(found, columns, n, k, tol, op$names, if (retx) scores, k < small)
}

# Checks the arguments for the number of components.
check_kept <- function(tol, rank., frame) {
  if (!is.null(tol) && !is_size(tol)) abort_argument("tol", "NULL or one number, 0 or more", tol, frame)
  if (!is.null(rank.) && !is_count(rank., 1)) abort_argument("rank.", "NULL or one number, 1 or more", rank., frame)
}

is_by_column <- function(v, p) is_flag(v) || is.numeric(v) && !is.object(v) && length(v) == p && all(is.finite(v))

# The object of class prcomp. `found$d`: singular values; `found$v`: the first k right vectors, ordinary numbers;
# `scores(at, signs, rotation)` computes the scores. `partial`: not all components were computed.
principal_fit <- function(found, columns, n, k, tol, names, scores, partial) {
  sdev <- found$d / sqrt(max(1, n - 1))
  at <- seq_len(k)
  if (!is.null(tol)) at <- seq_len(min(k, sum(sdev > sdev[1L] * tol)))
  signs <- signs_of(found$v)[at]
  named <- list(names[[2L]], if (length(at)) paste0("PC", at))
  rotation <- found$v[, at, drop = FALSE] * rep(signs, each = nrow(found$v))
  fit <- list(sdev = sdev, rotation = rotation, center = columns$center %||% FALSE, scale = columns$scale %||% FALSE)
  if (partial) fit$totalvar <- columns$total / max(1, n - 1)
  if (!is.null(scores)) fit$x <- with_dimnames(scores(at, signs, rotation), list(names[[1L]], named[[2L]]))
  dimnames(fit$rotation) <- named
  structure(fit, class = c(if (partial) "gpu_prcomp", "prcomp"))
}

#' @rdname principal
#' @importFrom stats princomp
#' @export
princomp.gpu_array <- function(x, cor = FALSE, scores = TRUE, covmat = NULL, subset = NULL, fix_sign = TRUE, ...) {
  chkDots(...)
  call <- match.call()
  call[[1L]] <- as.name("princomp")
  if (is_gpu(covmat)) covmat <- host_copy(covmat)
  # princomp(covmat = ) dispatches on that argument
  if (missing(x)) {
    fit <- call_base(princomp_default, list(cor = cor, scores = scores, covmat = covmat, fix_sign = fix_sign))
    fit$call <- call
    return(fit)
  }
  z <- if (is.null(subset)) x else matrix_of_rows(x)[subset, , drop = FALSE]
  d <- as.double(dim(z))
  if (!is.null(covmat) || length(d) != 2L || !length(z) || is.complex(z)) {
    fit <- call_base(princomp_default, c(list(read_for(z), cor = cor, scores = scores, fix_sign = fix_sign),
      list(covmat = covmat)))
    fit$call <- call
    if (!is.null(fit$scores)) fit$scores <- upload_result_like(fit$scores, x)
    return(fit)
  }
  if (d[1L] < d[2L]) stop_as_base("'princomp' can only be used with more units than variables")
  if (!isTRUE(all(is.finite(z)))) stop_as_base("'x' must contain finite values only")
  columns <- standard_columns(z, TRUE, FALSE)
  covariance <- list(cov = collect(products_of_columns(columns)) / d[1L], n.obs = as.integer(d[1L]),
    center = columns$center)
  if (!is.null(colnames(z))) dimnames(covariance$cov) <- list(colnames(z), colnames(z))
  fit <- call_base(princomp_default, list(covmat = covariance, cor = cor, scores = FALSE, fix_sign = fix_sign))
  fit$call <- call
  if (isTRUE(as.logical(scores))) {
    if (cor) columns$scale <- fit$scale
    columns$total <- d[1L] * sum(diag(covariance$cov) / fit$scale^2)
    fit$scores <- with_dimnames(match_precision(gpu_compute(times(columns, unname(unclass(fit$loadings)))), x),
      list(rownames(z), colnames(fit$loadings)))
  }
  fit
}

#' @export
collect.prcomp <- collect.list
#' @export
collect.princomp <- collect.list

# As base R's, with variances relative to the variance of all columns, also of components that were not computed.
#' @export
summary.gpu_prcomp <- function(object, ...) {
  chkDots(...)
  part <- object$sdev^2 / object$totalvar
  importance <- base::rbind(`Standard deviation` = object$sdev, `Proportion of Variance` = base::round(part, 5),
    `Cumulative Proportion` = base::round(base::cumsum(part), 5))
  colnames(importance) <- c(colnames(object$rotation), rep("", length(part) - ncol(object$rotation)))
  object$importance <- importance
  structure(object, class = "summary.prcomp")
}

# ---- columns that are centered and scaled where they are used ----------------------------------------------------

# A matrix with `center` and `scale`: ordinary vectors as base R's scale() finds them, or NULL.
standard_columns <- function(x, center, scale) {
  n <- nrow(x)
  y <- as_float64(x)
  named <- function(v) stats::setNames(as.vector(v), colnames(x))
  columns <- list(x = strip_names(x), center = if (isTRUE(center)) named(colMeans(y)) else if (!isFALSE(center))
    center)
  if (isTRUE(scale)) {
    columns$scale <- named(sqrt(colSums(block_of(columns, 1, n)^2) / max(1, n - 1)))
  } else if (!isFALSE(scale)) {
    columns$scale <- scale
  }
  columns
}

# Some rows, centered and scaled, recorded. Keeps the order of base R's operations, and so its rounding.
block_of <- function(columns, from, to) {
  x <- columns$x
  y <- as_float64(if (from == 1 && to == nrow(x)) x else rows_of(x, from, to))
  on_device <- function(v) along_columns(as_gpu(as.double(v), device = gpu_device(x)), to - from + 1)
  if (!is.null(columns$center)) y <- y - on_device(columns$center)
  if (!is.null(columns$scale)) y <- y / on_device(columns$scale)
  y
}

blocks_of <- function(columns, f) in_blocks(nrow(columns$x), max(1, elements_at_once(columns$x) %/% ncol(columns$x)),
  function(from, to) f(from, to, gpu_compute(block_of(columns, from, to))))

sum_of_blocks <- function(columns, f) {
  out <- NULL
  blocks_of(columns, function(from, to, block) {
    part <- f(from, to, block)
    out <<- gpu_compute(if (is.null(out)) part else out + part)
    NULL
  })
  out
}

# t(y) %*% y of the centered and scaled matrix y, in float64.
products_of_columns <- function(columns) sum_of_blocks(columns, function(from, to, block) cross_product(block))

# Whether centering the product is as accurate as centering the factor: not if the means are large relative to the
# deviations, nor if products are rounded to halves.
is_near_origin <- function(columns, squares) {
  if (is_half(columns$x)) return(FALSE)
  if (is.null(columns$center)) return(TRUE)
  away <- sum((columns$center / (columns$scale %||% 1))^2) * nrow(columns$x)
  is.finite(squares) && sqrt(away) <= (if (is_narrow(columns$x)) 4 else 1e5) * sqrt(squares)
}

# The sum of squares of all elements of the centered and scaled matrix.
squares_of_all <- function(columns) as.vector(sum(block_of(columns, 1, nrow(columns$x))^2)) + 0

in_type_of <- function(w, x) {
  if (!is_gpu(w)) w <- as_gpu(w, device = gpu_device(x))
  if (is_narrow(x)) gpu_cast(w, gpu_dtype(x)) else w
}

# y %*% w, where y is the centered and scaled matrix, and w an ordinary matrix or an array. Needs `columns$total`.
times <- function(columns, w) {
  x <- columns$x
  if (!is_gpu(w)) w <- as_gpu(w, device = gpu_device(x))
  if (!is_near_origin(columns, columns$total)) {
    parts <- blocks_of(columns, function(from, to, block) gpu_compute(matrix_product(block, w)))
    return(if (length(parts) == 1L) parts[[1L]] else do.call(rbind, parts))
  }
  if (!is.null(columns$scale)) w <- w / along_rows(as_gpu(as.double(columns$scale), device = gpu_device(x)), ncol(w))
  out <- as_float64(matrix_product(x, in_type_of(w, x)))
  if (is.null(columns$center)) return(out)
  center <- as_gpu(base::matrix(as.double(columns$center), 1L), device = gpu_device(x))
  out - along_columns(strip(matrix_product(center, w)), nrow(x))
}

# t(y) %*% z, where z is an array. Needs `columns$total`.
crossed <- function(columns, z) {
  x <- columns$x
  device <- gpu_device(x)
  if (!is_near_origin(columns, columns$total)) {
    return(sum_of_blocks(columns, function(from, to, block) cross_product(block, rows_of(z, from, to))))
  }
  out <- as_float64(cross_product(x, in_type_of(z, x)))
  if (!is.null(columns$center)) {
    center <- as_gpu(as.double(columns$center), device = device)
    out <- out - along_rows(center, ncol(z)) * along_columns(strip(colSums(z)), ncol(x))
  }
  if (is.null(columns$scale)) out else out / along_rows(as_gpu(as.double(columns$scale), device = device), ncol(z))
}

# times() and crossed() as an operator (R/ops-operator.R). Needs `columns$total`.
operator_of_columns <- function(columns) list(dim = as.double(dim(columns$x)), names = list(NULL, NULL),
  device = gpu_device(columns$x), dtype = "float64", kind = "array", source = columns$x,
  forward = function(w) times(columns, w), backward = function(z) crossed(columns, z))

# ---- singular values, and the first k right singular vectors: ordinary numbers -----------------------------------

all_components <- function(columns, k) {
  x <- columns$x
  if (nrow(x) > ncol(x)) {
    products <- products_of_columns(columns)
    e <- if (!has_small_values(products)) eigen(products, symmetric = TRUE)
    values <- as.vector(e$values)
    if (length(values) && values[length(values)] >= LEAST_VARIANCE * values[1L]) return(list(d = sqrt(values),
      v = unname(collect(e$vectors[, seq_len(k), drop = FALSE]))))
  }
  # LAPACK's svd begins with a QR decomposition itself
  y <- if (nrow(x) > ncol(x) && gpu_device(x) != "cpu") triangle_of_columns(columns) else
    gpu_compute(block_of(columns, 1, nrow(x)))
  s <- svd(y, nu = 0L, nv = k)
  list(d = as.vector(s$d), v = unname(collect(s$v)))
}

# R of the QR decomposition of the centered and scaled matrix: the triangle of some rows is decomposed with the next
# ones (Demmel, Grigori, Hoemmen and Langou, SIAM J. Sci. Comput. 34, 2012).
triangle_of_columns <- function(columns) {
  triangle <- NULL
  blocks_of(columns, function(from, to, block) {
    rows <- if (is.null(triangle)) block else rbind(triangle, block)
    d <- as.double(dim(rows))
    form <- .Call(C_qr, rows, d)$qr
    dim(form) <- d
    extent <- c(min(d), d[2L])
    upper <- .Call(C_upper_triangle, rows_of(form, 1, extent[1L]), extent)
    dim(upper) <- extent
    triangle <<- gpu_compute(upper)
    NULL
  })
  triangle
}

# Whether a matrix of cross products certainly has eigenvalues that are too small relative to the largest: the smallest
# is at most the least squared pivot of the Cholesky factor, the largest at least the mean of the diagonal.
has_small_values <- function(products) {
  n <- nrow(products)
  factor <- tryCatch(chol(products), error = function(e) if (inherits(e, "verdigris_error")) stop(e))
  is.null(factor) || !isTRUE(min(diagonal_of(factor, n))^2 >= LEAST_VARIANCE * mean(diagonal_of(products, n)))
}

# ---- classical scaling -------------------------------------------------------------------------------------------

#' Classical multidimensional scaling
#'
#' [stats::cmdscale()] of an array: the matrix of squared distances is centred, and its eigenvectors are computed, on
#' the device. With `add = TRUE`, and on the cpu device, base R's function is used. A `dist` of an array is an ordinary
#' vector ([dist()][distance]), which is passed to base R's function.
#'
#' The signs of the coordinates are those of the eigenvectors, see [eigen()][decompositions].
#' @param d A symmetric matrix of distances, an array.
#' @param k,eig,add,x.ret,list. As in [stats::cmdscale()].
#' @returns Base R's result: a matrix of `k` columns, or a list. Matrices are arrays on the device of `d`. The call
#'   waits for the device. It takes three matrices of the size of `d`, and the memory of [eigen()][decompositions].
#' @section Errors:
#' Base R's errors, messages and warnings; the errors of [eigen()][decompositions].
#' @examples
#' towns <- as_gpu(as.matrix(eurodist), device = "cpu")
#' head(cmdscale(towns))
#' @name scaling
NULL

#' @rdname scaling
#' @export
cmdscale <- interposed("cmdscale", "d", scaled_distances(d, k, eig, add, x.ret, list.), home = "stats")

scaled_distances <- function(d, k, eig, add, x.ret, list.) {
  n <- as.double(dim(d))
  usable <- length(n) == 2L && n[1L] == n[2L] && n[1L] > 1 && is_number(d) && !is.complex(d) && is_count(k, 1) &&
    k < n[1L] && n[1L] <= 46340 && is_flag(eig) && isFALSE(add) && is_flag(x.ret) && is_flag(list.) &&
    !prefers_host(d) && !anyNA(d)
  if (!usable) {
    out <- call_base(stats::cmdscale, list(read_for(d), k = k, eig = eig, add = add, x.ret = x.ret, list. = list.))
    if (!is.list(out)) return(upload_result_like(out, d))
    for (part in c("points", "x")) if (!is.null(out[[part]])) out[[part]] <- upload_result_like(out[[part]], d)
    return(out)
  }
  if (!list. && eig) warn_as_base(gettext("eig=TRUE is disregarded when list.=FALSE", domain = "R-stats"))
  if (!list. && x.ret) warn_as_base(gettext("x.ret=TRUE is disregarded when list.=FALSE", domain = "R-stats"))
  n <- n[1L]
  k <- trunc(k)
  squares <- as_float64(strip_names(d))^2
  # center rows first, then columns, as base R does
  centered <- gpu_compute(squares - along_rows(rowMeans(squares), n))
  centered <- gpu_compute(centered - along_columns(colMeans(centered), n))
  e <- eigen(-centered / 2, symmetric = TRUE)
  all <- as.vector(e$values)
  values <- all[seq_len(k)]
  positive <- sum(values > 0)
  if (positive < k) warn_as_base(gettextf("only %d of the first %d eigenvalues are > 0", positive, as.integer(k),
    domain = "R-stats"))
  values <- values[values > 0]
  points <- e$vectors[, seq_along(values), drop = FALSE]
  points <- points * along_columns(as_gpu(sqrt(values), device = gpu_device(d)), n)
  points <- match_precision(gpu_compute(points), d)
  if (!is.null(rownames(d))) points <- with_dimnames(points, list(rownames(d), NULL))
  if (!list.) return(points)
  list(points = points, eig = if (eig) all, x = if (x.ret) with_dimnames(centered, dimnames(d) %||% list(NULL)), ac = 0,
    GOF = sum(values) / c(sum(abs(all)), sum(base::pmax(all, 0))))
}
