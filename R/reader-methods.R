# Base R's functions on readers: sums over blocks, products, and principal components.

#' Statistics of data larger than memory
#'
#' Base R's functions for a [gpu_reader()]. They are computed in passes over its blocks. A pass needs at most the memory
#' of three blocks and its result. The next block is read while the device computes with the current block. Values are
#' base R's except for the order of additions; sums are float64.
#'
#' - One pass: `colSums()`, `colMeans()`, `rowSums()`, `rowMeans()`, `sum()`, `prod()`, `min()`, `max()`, `range()`,
#'   `any()`, `all()`, `anyNA()`, `mean()`, `var()` (of a vector, or the covariances of a matrix's columns), `cov()` and
#'   `cor()` of a matrix, `sd()`, `which()` and `is.unsorted()` of a vector, `which.max()`, `which.min()`,
#'   `crossprod(x)`, `crossprod(x, y)` if `y` is an ordinary matrix or vector, an array or a reader with as many rows,
#'   and `x %*% y` with an ordinary matrix or an array, whose result is an array.
#' - Two passes: `median()`, `quantile()` and `IQR()` of all elements, exact, of all types. The first pass keeps 2048
#'   ordered values of each block, the second pass the elements near the quantiles. `scale()`, whose result is a reader,
#'   also takes two passes, `mean(x, trim)` three, `mad()` four and `summary()` five.
#' - Computed when the result is read, which is a reader: operators with one number, functions of the group `Math`,
#'   `round()`, `is.na()` and related functions, `pmin()`, `pmax()` and `ifelse()` with numbers, `match()` and `%in%` of
#'   a vector and an ordinary table, `findInterval()`, `cut(labels = FALSE)`, `rev()` of a vector, and `diff()`, which
#'   reads `lag` rows of a block twice. So `colMeans(log1p(x))` is one pass. `cumsum()`, `cumprod()`, `cummax()` and
#'   `cummin()` of a vector make one pass when they are called, which finds the running value before each block;
#'   `gpu_chunked(cumsum(x), identity, to = path)` writes the result.
#' - Counts, in one pass: `unique()`, `table()` and `tabulate()` of a vector; `rowsum()` by one key, and `tapply()` of a
#'   vector by one or several keys, with `sum`, `mean`, `min`, `max` or `length`. Keys are vectors, arrays, or readers.
#'   For readers another pass finds the distinct keys first. The distinct values are kept in memory, 2^27 at most.
#'   `hist()` takes two passes. `tabulate(cut(x, breaks, labels = FALSE))` counts by intervals.
#' - Sorting: `sort()`, and `order()`, `rank()`, `duplicated()` and `anyDuplicated()` of a vector. `order()`, `rank()`
#'   and `duplicated()` return an array of all positions, ranks or flags. Blocks are sorted, written to a temporary
#'   file, and merged. Sorting needs the memory of about six blocks, and disk space for all elements (twice for
#'   `order()`), in the folder of `to` or in [tempdir()]. Values, ties and missing values are in base R's order; for a
#'   matrix, equal zeros, `NA` and `NaN` are in the order in which they are read. `order()` accepts several keys, which
#'   may be readers, vectors and arrays: each reader is sorted separately, and the ranks of its elements are kept in
#'   memory. On Unix a process that is killed leaves no temporary file once the merge has begun.
#' - `kmeans()` with `algorithm = "Lloyd"` and [gpu_kmeans()] take a pass for each iteration and three more; the
#'   clusters are a reader. In [gpu_knn()] `x` and `query` may be readers.
#' - `prcomp()`: one pass computes means and cross products of the centred columns, whose eigenvectors are the
#'   components. If standard deviations are below 1e-4 of the largest, a second pass computes them from a QR
#'   decomposition, block by block. With `rank.` and more than 4000 columns (or with `exact = FALSE`) the randomised
#'   method of [prcomp()][principal] is used, which takes two passes for each of its iterations, at most 10. The scores
#'   are a reader: reading its rows reads rows of `x` and multiplies them by the rotation.
#'   `gpu_chunked(fit$x, identity, to = path)` writes the scores.
#' - Models: [gpu_lm()] and [gpu_glm()].
#'
#' Blocks of a data frame must be numbers for these functions.
#'
#' 64-bit integers have the values, types and warnings of an `int64` array in memory (see "int64 beyond 2^53" of
#' [elementwise]): sums, running values, sorting, distinct values and groups are exact. Results that are ordinary
#' vectors are of class `integer64` if the result for an array would be `int64`.
#' @param x A [gpu_reader()]; for `prcomp()` of a matrix of finite numbers.
#' @param retx,center,scale.,tol,rank.,... As in [stats::prcomp()].
#' @param scale As in [base::scale()].
#' @param decreasing,na.last As in [base::sort()].
#' @param object,digits,quantile.type As in [base::summary()].
#' @param to For `sort()`: `NULL`, for an array on the current device, or the path of a file or a [gpu_writer()].
#' @param incomparables,group,reorder As in [base::unique()] and [base::rowsum()]; `incomparables` other than `FALSE`
#'   are not supported.
#' @param breaks,labels,include.lowest,right,dig.lab,ordered_result As in [base::cut()], where `labels` must
#'   be `FALSE`.
#' @param probs,names,type,na.rm As in [stats::quantile()].
#' @param lag,differences As in [base::diff()].
#' @param exact As in [prcomp()][principal].
#' @returns Base R's results: ordinary vectors and matrices, or readers for the functions named above. `sort()`,
#'   `order()`, `rank()`, `duplicated()` and `which()` return arrays; `sort()` with `to` returns a reader of the file.
#'   `prcomp()` returns an object of class `prcomp`, as [principal] describes, whose scores are a reader.
#' @section Errors:
#' Base R's errors and messages; the errors of [gpu_chunked()]; `verdigris_error_reader` for functions that have no
#' method, and for arguments that methods do not accept; `verdigris_error_memory` if there are too many distinct values,
#' or if the result is too long; `verdigris_error_file` if a temporary file cannot be written. The temporary file is
#' then removed.
#' @examples
#' path <- tempfile(fileext = ".bin")
#' writeBin(as.vector(as.matrix(iris[, 1:4])), path)
#' x <- gpu_reader(path, dim = c(NA, 4), dimnames = list(NULL, names(iris)[1:4]))
#' colMeans(x)
#' range(x)
#' crossprod(x)
#' fit <- prcomp(x, scale. = TRUE)
#' summary(fit)
#' fit$x
#' quantile(log(x), c(0.1, 0.9))
#' sort(x, to = tempfile())
#' lengths <- gpu_reader(iris$Sepal.Length)
#' table(round(lengths))
#' tapply(lengths, iris$Species, mean)
#' @name reader-methods
NULL

refuse_reader <- function(name, call = parent.frame(), advice = NULL) {
  stop_verdigris("reader", sprintf("`%s()` has no method for readers%s.", name, if (length(advice))
    " with these arguments" else ""), c(advice,
    "`gpu_chunked(x, f)` runs a function on each block; `x[i, j]` and `collect(x)` read ordinary values."), call = call)
}

# A block of numbers as a matrix or a vector. Columns of a data frame become float64, or complex128 if one is complex.
block_numbers <- function(block, call) {
  if (!is.data.frame(block)) return(block)
  if (!all(vapply(block, is_gpu, NA))) stop_as_base("'x' must be numeric", call)
  out <- join(lapply(unname(as.list(block)), function(column) strip(widen_for_sum(column))))
  dim(out) <- c(nrow(block), ncol(block))
  out
}

# ---- margins -------------------------------------------------------------------------------------------------

reader_margin <- function(x, na.rm, dims, rows, mean) {
  call <- parent.frame()
  if (is_vector_reader(x) || !identical(as.integer(dims), 1L))
    stop_as_base("'x' must be an array of at least two dimensions", call)
  na.rm <- isTRUE(as.logical(na.rm))
  if (is_int64_reader(x) && !mean) return(margin_of_int64(x, na.rm, rows, call))
  f <- if (rows) rowSums else colSums
  counts <- mean && na.rm
  block <- function(block) {
    y <- strip_names(widen_for_sum(block_numbers(block, call)))
    sums <- strip(f(y, na.rm = na.rm))
    if (!counts) return(sums)
    known <- strip(f(widen_for_sum(!is.na(y))))
    gpu_compute(sums, known)
    out <- cbind(sums, known)
    out
  }
  # a block of whole columns has complete column sums, but only terms of the row sums; for a block of rows it is the
  # reverse
  margin <- margin_for(x, NULL, NULL, .Call(C_device_name, NULL))
  independent <- rows == (margin == 1)
  found <- if (x$dim[margin] == 0) NULL else if (independent) do.call(rbind, over_blocks(x, function(b)
    as.matrix(collect(block(b))), NULL, margin, call = call)) else as.matrix(collect(over_blocks(x, block, `+`, margin,
    call = call)))
  size <- as.double(x$dim[if (rows) 1L else 2L])
  if (is.null(found)) found <- base::matrix(0, size, 1L + counts)
  if (ncol(found) != 1L + counts) found <- base::matrix(found, size)
  out <- found[, 1L]
  if (mean) out <- out / if (counts) Re(found[, 2L]) else as.double(x$dim[if (rows) 2L else 1L])
  names(out) <- x$dimnames[[if (rows) 1L else 2L]]
  out
}

setMethod("colSums", "gpu_reader", function(x, na.rm = FALSE, dims = 1L) reader_margin(x, na.rm, dims, FALSE, FALSE))
setMethod("rowSums", "gpu_reader", function(x, na.rm = FALSE, dims = 1L) reader_margin(x, na.rm, dims, TRUE, FALSE))
setMethod("colMeans", "gpu_reader", function(x, na.rm = FALSE, dims = 1L) reader_margin(x, na.rm, dims, FALSE, TRUE))
setMethod("rowMeans", "gpu_reader", function(x, na.rm = FALSE, dims = 1L) reader_margin(x, na.rm, dims, TRUE, TRUE))

# ---- reductions ----------------------------------------------------------------------------------------------

# An ordinary vector of length 0 with a reader's type.
no_elements <- function(x) vector(switch(x$type %||% "", bool8 = "logical", int8 = , uint8 = , int16 = , int32 =
  "integer", complex64 = , complex128 = "complex", "double"), 0L)

#' @export
Summary.gpu_reader <- function(..., na.rm = FALSE) {
  call <- environment()
  parts <- list(...)
  if (length(parts) != 1L) refuse_reader(.Generic, call, "Only one reader is supported.")
  x <- parts[[1L]]
  na.rm <- isTRUE(as.logical(na.rm))
  if (is_int64_reader(x) && .Generic %in% c("sum", "min", "max", "range"))
    return(summary_of_int64(x, .Generic, na.rm, call))
  types <- c("logical", "integer", "double", "complex")
  type <- 1L
  stat <- switch(.Generic, sum = stat_sum, prod = stat_prod, any = , all = stat_truth, stat_range)
  fold <- switch(.Generic, prod = `*`, sum = , any = , all = `+`, base::pmax)
  name <- .Generic
  found <- over_blocks(x, function(block) {
    kinds <- vapply(if (is.data.frame(block)) as.list(block) else list(block), stat_type, 1L)
    type <<- max(type, kinds, na.rm = TRUE)
    if (4L %in% kinds && !name %in% c("sum", "prod")) stop_as_base("invalid 'type' (complex) of argument", call)
    finished(stat(block_numbers(block, call), na.rm))
  }, fold, call = call)
  whole <- types[type] %in% c("logical", "integer")
  as_type <- function(value) if (whole) as.integer(value) else value
  # base R's values, and warnings, for no elements
  empty <- if (is.null(found) && !is.null(x$type)) no_elements(x) else if (whole) integer() else numeric()
  if (is.null(found)) return(get(name, baseenv())(empty))
  if (name == "sum") {
    # as in base R, a sum that is too large for an integer is a double
    return(if (whole && !is.na(found) && abs(found) > .Machine$integer.max) found else as_type(found))
  }
  if (name == "prod") return(found)
  if (name %in% c("any", "all")) {
    if (!whole) warn_as_base(sprintf("coercing argument of type '%s' to logical", types[type]), call)
    decided <- if (name == "any") found[1L] > 0 else found[2L] > 0
    return(if (decided) name == "any" else if (found[3L] > 0) NA else name == "all")
  }
  ends <- found * c(-1, 1)
  if (ends[1L] %in% Inf && ends[2L] %in% -Inf) return(get(name, baseenv())(empty))
  as_type(switch(name, min = ends[1L], max = ends[2L], range = ends))
}

#' @export
mean.gpu_reader <- function(x, trim = 0, na.rm = FALSE, ...) {
  call <- environment()
  if (x$frame) refuse_reader("mean", call)
  if (!is_untrimmed(trim)) {
    if (is.complex(no_elements(x)))
      stop_as_base(gettext("trimmed means are not defined for complex data", domain = "R-base"), call)
    if (is_int64_reader(x)) refuse_reader("mean", call, "64-bit integers have no trimmed means.")
    return(remote_trimmed(x, trim, isTRUE(na.rm), function(x, ranks) reader_at_ranks(x, ranks, "mean", call),
      function(low, high) over_blocks(x, function(block) stat_between(block, low, high), `+`, call = call), call))
  }
  sums <- over_blocks(x, function(block) finished(stat_count(block, isTRUE(na.rm))), `+`, call = call) %||% c(0, 0)
  sums[1L] / if (is.complex(sums)) Re(sums[2L]) else sums[2L]
}

# The number of rows, the means, and the cross products of the columns less their means, merged from block to block
# (Chan, Golub and LeVeque, 1979).
reader_moments <- function(x, na.rm, call) {
  p <- if (is_vector_reader(x)) 1L else x$dim[2L]
  merge <- function(a, b) {
    n <- a[1L] + b[1L]
    if (!(b[1L] > 0)) return(a)
    if (!(a[1L] > 0)) return(b)
    at <- 1L + seq_len(p)
    off <- b[at] - a[at]
    c(n, a[at] + off * (b[1L] / n), a[-c(1L, at)] + b[-c(1L, at)] + as.vector(tcrossprod(off)) * (a[1L] * b[1L] / n))
  }
  moments <- function(block) finished(stat_moments(block_numbers(block, call), na.rm))
  found <- over_blocks(x, moments, merge, 1, call = call) %||% numeric(1L + p + p^2)
  list(n = found[1L], mean = found[1L + seq_len(p)], products = base::matrix(found[-seq_len(1L + p)], p))
}

setMethod("var", "gpu_reader", function(x, y = NULL, na.rm = FALSE, use) {
  call <- environment()
  if (!is.null(y) || !missing(use)) refuse_reader("var", call, "Only `var(x)` of one reader is supported.")
  vector <- is_vector_reader(x)
  if (!vector && isTRUE(na.rm)) refuse_reader("var", call, "Only vectors are supported with `na.rm`.")
  if (is.complex(no_elements(x))) refuse_reader("var", call, "Only real numbers are supported.")
  moments <- reader_moments(x, isTRUE(na.rm), call)
  out <- if (moments$n < 2) replace(moments$products, TRUE, NA) else moments$products / (moments$n - 1)
  if (vector) return(out[1L])
  names <- x$dimnames[[2L]]
  if (!is.null(names)) dimnames(out) <- list(names, names)
  out
})
setMethod("sd", "gpu_reader", function(x, na.rm = FALSE) {
  if (!is_vector_reader(x)) refuse_reader("sd", environment(), "Only vectors are supported.")
  if (is.complex(no_elements(x))) refuse_reader("sd", environment(), "Only real numbers are supported.")
  moments <- reader_moments(x, isTRUE(na.rm), environment())
  if (moments$n < 2) NA_real_ else sqrt(moments$products[1L] / (moments$n - 1))
})

register_reader_methods <- function() {
  registerS3method("$", "gpu_reader", column_of_reader, envir = baseenv())
  for (fit in c("gpu_lm_reader", "gpu_glm_reader")) registerS3method("extractAIC", fit, reader_extract_aic,
    envir = asNamespace("stats"))
}
# `$` gives this package the fields of a reader. Users get an error instead of columns of a data frame.
column_of_reader <- function(x, name) {
  fields <- fields_of(x)
  ours <- identical(topenv(parent.frame()), topenv())
  if (name %in% names(fields) && (ours || !name %in% fields$dimnames[[2L]])) return(fields[[name]])
  refuse_reader("$", environment(), sprintf("`x[, \"%s\"]` reads a column.", name))
}

# ---- products ------------------------------------------------------------------------------------------------

# A function of a block's place that returns the rows of `y` for it, on a device. `y` must have n rows: a reader, an
# array or an ordinary matrix or vector.
rows_for_blocks <- function(y, n, call, name = "y") {
  if (is_reader(y)) {
    if (rows_of_reader(y) != n) stop_as_base("non-conformable arguments", call)
    return(function(from, count, device) block_numbers(block_take(y, block_start(y, from, count, 1, NULL, device)),
      call))
  }
  if (!is_number(y) || NROW(y) != n) stop_as_base("non-conformable arguments", call)
  if (is.null(dim(y))) y <- if (is_gpu(y)) `dim<-`(strip(y), c(n, 1)) else base::matrix(y, n)
  function(from, count, device) as_gpu(y[from + seq_len(count), , drop = FALSE], device = device)
}

reader_crossprod <- function(x, y, call) {
  if (!is_reader(x)) return(t(reader_crossprod(y, x, call)))
  if (is_vector_reader(x)) refuse_reader("crossprod", call, "Only matrices are supported.")
  p <- x$dim[2L]
  names <- list(x$dimnames[[2L]], if (is.null(y)) x$dimnames[[2L]] else if (is_reader(y)) y$dimnames[[2L]] else
    colnames(y))
  rows_of_y <- if (!is.null(y)) rows_for_blocks(y, rows_of_reader(x), call)
  at <- 0
  q <- if (is.null(y)) p else if (is_reader(y)) c(y$dim, 1)[2L] else NCOL(y)
  out <- over_blocks(x, function(block) {
    b <- strip_names(block_numbers(block, call))
    n <- nrow(b)
    other <- if (!is.null(rows_of_y)) rows_of_y(at, n, gpu_device(b))
    at <<- at + n
    if (!is.null(other) && is.null(dim(other))) dim(other) <- c(n, 1)
    stat_crossprod(b, if (!is.null(other)) strip_names(other))
  }, function(a, b) gpu_compute(a + b), 1, call = call)
  out <- if (is.null(out)) base::matrix(0, p, q) else collect(out)
  storage.mode(out) <- if (is.complex(out)) "complex" else "double"
  dimnames(out) <- if (!all(vapply(names, is.null, NA))) names
  out
}

reader_product <- function(x, y, call) {
  if (!is_reader(x) || is_reader(y)) refuse_reader("%*%", call,
    "`x %*% y` needs a reader `x` and an ordinary `y`; `crossprod(x, y)` adds over rows.")
  if (is_vector_reader(x)) refuse_reader("%*%", call, "Only matrices are supported.")
  p <- as.double(x$dim[2L])
  if (!is_number(y) || length(dim(y)) > 2L) stop_as_base("requires numeric/complex matrix/vector arguments", call)
  if (is.null(dim(y))) y <- if (length(y) == p) `dim<-`(y, c(p, 1)) else if (p == 1) `dim<-`(y, c(1, length(y))) else
    stop_as_base("non-conformable arguments", call)
  if (nrow(y) != p) stop_as_base("non-conformable arguments", call)
  device <- if (is_gpu(y)) gpu_device(y)
  factor <- as_float64(as_gpu(unname(y), device = device))
  parts <- over_blocks(x, function(block) {
    matrix_product(as_float64(strip_names(block_numbers(block, call))), strip_names(factor))
  }, NULL, 1, device, call)
  out <- if (length(parts)) do.call(rbind, parts) else gpu_zeros(c(0, ncol(y)), device = device)
  names <- list(x$dimnames[[1L]], colnames(y))
  if (all(vapply(names, is.null, NA))) out else with_dimnames(out, names)
}

# ---- principal components ------------------------------------------------------------------------------------

# With so many columns their cross products are too large.
MANY_COLUMNS <- 4000

#' @rdname reader-methods
#' @export
prcomp.gpu_reader <- function(x, retx = TRUE, center = TRUE, scale. = FALSE, tol = NULL, rank. = NULL, exact = NULL,
  ...) {
  chkDots(...)
  call <- environment()
  if (is_vector_reader(x)) refuse_reader("prcomp", call, "Only matrices are supported.")
  n <- rows_of_reader(x)
  p <- as.double(x$dim[2L])
  small <- min(n, p)
  if (small == 0) abort_argument("x", "a matrix with elements", x)
  if (!is_flag(retx)) abort_argument("retx", "TRUE or FALSE", retx)
  if (!is.null(exact) && !is_flag(exact)) abort_argument("exact", "TRUE, FALSE or NULL", exact)
  for (name in c("center", "scale.")) if (!is_by_column(get(name), p)) abort_argument(name,
    sprintf("TRUE, FALSE or %s finite numbers", format_count(p)), get(name))
  check_kept(tol, rank., call)
  k <- min(trunc(rank. %||% small), small)
  randomised <- if (is.null(exact)) !is.null(rank.) && p > MANY_COLUMNS && 10 * (k + OVERSAMPLED) <= small else !exact
  moments <- if (randomised) column_squares(x, call) else reader_moments(x, FALSE, call)
  squares <- if (randomised) moments$squares else diag(moments$products)
  if (!all(is.finite(squares))) stop_as_base(base_message("infinite or missing values in '%s'", "x"))
  named <- function(v) stats::setNames(as.vector(v), x$dimnames[[2L]])
  columns <- list(center = if (isTRUE(center)) named(moments$mean) else if (!isFALSE(center)) center)
  # sums of squares about the centers
  off <- moments$mean - as.double(columns$center %||% 0)
  about <- squares + n * off^2
  if (isTRUE(scale.)) columns$scale <- named(sqrt(about / max(1, n - 1))) else if (!isFALSE(scale.))
    columns$scale <- scale.
  by <- as.double(columns$scale %||% rep(1, p))
  if (any(by == 0)) stop_as_base("cannot rescale a constant/zero column to unit variance")
  columns$total <- sum(about / by^2)
  found <- if (randomised) random_components_of_reader(x, columns, k, call) else
    components_by_products(x, columns, (moments$products + n * tcrossprod(off)) / tcrossprod(by), n, p, k, call)
  fit <- principal_fit(found, columns, n, k, tol, list(x$dimnames[[1L]], x$dimnames[[2L]]), NULL, randomised)
  if (retx) {
    rotation <- fit$rotation
    scores <- function(block) times(c(list(x = strip_names(block_numbers(block, NULL))), columns), unname(rotation))
    environment(scores) <- list2env(list(columns = columns, rotation = rotation), parent = topenv())
    fit$x <- mapped_reader(x, scores, c(n, ncol(rotation)), list(x$dimnames[[1L]], colnames(rotation)),
      "principal components")
  }
  fit
}

components_by_products <- function(x, columns, products, n, p, k, call) {
  # only if there are more rows than columns, and no variance has lost its digits in the products
  if (n > p && !has_small_values(as_gpu(products, device = "cpu"))) {
    e <- eigen(as_gpu(products), symmetric = TRUE)
    values <- as.vector(e$values)
    if (values[p] >= LEAST_VARIANCE * values[1L]) return(list(d = sqrt(values), v = unname(collect(e$vectors[,
      seq_len(k), drop = FALSE]))))
  }
  triangle <- over_blocks(x, function(block) {
    b <- strip_names(block_numbers(block, call))
    gpu_compute(block_of(c(list(x = b), columns[c("center", "scale")]), 1, nrow(b)))
  }, function(a, b) triangle_below(a, b), 1, call = call)
  s <- svd(triangle, nu = 0L, nv = k)
  list(d = as.vector(s$d), v = unname(collect(s$v)))
}

# R of the QR decomposition of a matrix, or of two of them one above the other (Demmel, Grigori, Hoemmen and Langou,
# SIAM J. Sci. Comput. 34, 2012).
triangle_below <- function(a, b = NULL) {
  rows <- if (is.null(b)) a else rbind(a, b)
  d <- as.double(dim(rows))
  if (d[1L] <= 1) return(rows)
  if (gpu_device(rows) == "cpu") {
    # LINPACK with a tolerance of 0 moves no column to the end
    r <- base::qr.R(base::qr.default(host_copy(rows, silent = TRUE), tol = 0))
    return(as_gpu(unname(r), device = "cpu"))
  }
  form <- .Call(C_qr, rows, d)$qr
  dim(form) <- d
  extent <- c(min(d), d[2L])
  upper <- .Call(C_upper_triangle, rows_of(form, 1, extent[1L]), extent)
  dim(upper) <- extent
  gpu_compute(upper)
}

# Means, and sums of squares about them, if there are too many columns for cross products.
column_squares <- function(x, call) {
  p <- if (is_vector_reader(x)) 1 else as.double(x$dim[2L])
  merge <- function(a, b) {
    n <- a[1L] + b[1L]
    at <- 1L + seq_len(p)
    off <- b[at] - a[at]
    c(n, a[at] + off * (b[1L] / n), a[-c(1L, at)] + b[-c(1L, at)] + off^2 * (a[1L] * b[1L] / n))
  }
  found <- over_blocks(x, function(block) {
    y <- strip_names(matrix_of_rows(widen_for_sum(block_numbers(block, call))))
    mean <- strip(colMeans(y))
    c(nrow(y), collect(mean), collect(strip(colSums((y - along_columns(mean, nrow(y)))^2))))
  }, merge, 1, call = call)
  list(n = found[1L], mean = found[1L + seq_len(p)], squares = found[-seq_len(1L + p)])
}

random_components_of_reader <- function(x, columns, k, call) {
  device <- .Call(C_device_name, NULL)
  op <- list(dim = as.double(x$dim), names = list(NULL, NULL), device = device, dtype = "float64", kind = "reader",
    source = x, called = "x", forward = function(w) reader_product(x, w, call),
    backward = function(y) as_gpu(reader_crossprod(x, y, call), device = device))
  found <- random_components(standardised(op, columns$center, columns$scale), k, frame = call)
  list(d = found$d, v = collect(found$v))
}
