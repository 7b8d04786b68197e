# Sums and other reductions of sparse matrices: of all elements, along margins, by group.

#' Sums, means and margins of sparse matrices
#'
#' `sum()`, `prod()`, `min()`, `max()`, `range()`, `any()`, `all()`, `mean()`, `sd()`, `median()`, `quantile()`,
#' `which.max()`, `which.min()`, `rowSums()`, `colSums()`, `rowMeans()`, `colMeans()`, `rowsum()`, `apply()`, `sweep()`
#' and `scale()` of sparse matrices. Elements that are not stored are 0.
#'
#' Column sums read the matrix once. Row sums use the structure by rows, which is computed once and stored.
#' `apply(S, MARGIN, f)` with `sum`, `mean`, `min`, `max`, `range`, `any`, `all`, `var`, `sd`, `median` or `quantile` (of
#' type 7) uses the stored elements only; with another function it is `apply(gpu_dense(S), MARGIN, f)`. `sweep()` returns
#' a sparse matrix if its function maps 0 to 0, as `*` and `/` do; a function of the user is called with the matrix and
#' a dense one of the statistics. `scale(center = FALSE)` also returns a sparse matrix; with centring the result is a
#' dense array. `rowsum()` returns a dense array with a row for each group. If package MatrixGenerics is loaded, its
#' `colVars()`, `colSds()`, `colMaxs()`, `colMins()`, `colSums2()`, `colMeans2()` and the corresponding functions of
#' rows accept sparse matrices, too.
#'
#' `var()`, [cov()] and [cor()], which do not accept Matrix's own sparse matrices, are computed from `gpu_dense(x)`.
#' `mean(trim = )`, `median()` and `quantile()`, with [mad()] and [IQR()], which are based on them, read the stored
#' values alone and count the zeros; so do `sd()`, `which.max()` and `which.min()`.
#' @param x,... A `gpu_sparse`. `rowSums()` and related functions accept Matrix's argument `sparseResult`, which has no
#'   effect.
#' @param na.rm,dims,trim,probs,names,type,group,reorder,center,scale,y,use As in base R.
#' @returns `sum()` and related functions: an R number, as in base R. Margins: a dense `gpu_array` with the names of
#'   rows or columns, as for dense arrays ([margins]). There is no sparse result (argument `sparseResult` of Matrix):
#'   one value for each row or column takes little memory compared with the matrix.
#' @section Errors:
#' Base R's errors; `verdigris_error_memory`.
#' @examples
#' S <- gpu_sparse(i = 1:3, j = c(1, 2, 2), x = c(1, -2, 3), device = "cpu")
#' colMeans(S)
#' apply(S, 2, var)
#' quantile(S, c(0.5, 0.9))
#' sweep(S, 2, colSums(S), "/")
#' @name sparse-margins
NULL

# ---- all elements ------------------------------------------------------------------------------------

#' @rdname sparse-margins
#' @export
Summary.gpu_sparse <- function(..., na.rm = FALSE) {
  name <- .Generic
  f <- get(name, baseenv())
  frame <- environment()
  # Reduces each argument, then the results. The second step goes without `na.rm`: missing elements are gone by then,
  # and the NaN of an infinite sum minus another must stay.
  given <- list(...)
  # range() has an argument `finite`, which leaves out missing elements too
  finite <- name == "range" && isTRUE(as.logical(given$finite))
  if (name == "range") given$finite <- NULL
  extreme <- name %in% c("min", "max", "range")
  parts <- lapply(given, function(part) {
    if (is_of_matrix(part)) part <- as_gpu(part)
    if (is_sparse(part)) return(reduced_sparse(name, f, part, na.rm || finite, frame, finite))
    # base R leaves out missing elements of all arguments together, so that one may be left empty
    if (finite) part <- part[is.finite(part)] else if (extreme && isTRUE(na.rm)) part <- part[!is.na(part)]
    list(if (length(part)) f(part, na.rm = na.rm) else part)
  })
  parts <- do.call(c, parts)
  if (length(parts) == 1L && length(parts[[1L]])) parts[[1L]] else do.call(f, parts)
}

# The values that represent a matrix in a reduction, a list: its stored elements reduced, and a 0 if any is not stored.
reduced_sparse <- function(name, f, S, na.rm, call, finite = FALSE) {
  x <- stored(S)
  if (finite) x <- x[is.finite(x)]
  zeros <- structural_zeros(S) > 0
  if (name %in% c("any", "all") && !is.logical(x)) {
    warn_as_base("coercing argument of type 'double' to logical", call)
    x <- x != 0
  }
  # no elements: pass an empty vector on, since base R warns only if all arguments are empty
  none <- !length(x) || name %in% c("min", "max", "range") && isTRUE(na.rm) && all(is.na(x))
  # a sum needs no zero, and stays an integer for logical values
  c(list(if (none) vector(typeof(x), 0L) else f(x, na.rm = na.rm)),
    if (zeros && name != "sum") list(vector(typeof(x), 1L)))
}

#' @rdname sparse-margins
#' @export
mean.gpu_sparse <- function(x, trim = 0, na.rm = FALSE, ...) {
  if (!is.numeric(trim) || length(trim) != 1L) stop_as_base("'trim' must be numeric of length one")
  values <- stored_numbers(x)
  absent <- sum(is.na(values))
  n <- length(x) - if (isTRUE(na.rm)) absent else 0
  if (is.na(trim) || trim <= 0 || n == 0) return(sum(values, na.rm = isTRUE(na.rm)) / n)
  if (absent > 0 && !isTRUE(na.rm)) return(NA_real_)
  if (trim >= 0.5) return(as.double(median(x, na.rm = TRUE)))
  # in ascending order, zeros that are not stored come between the negative and the other elements
  values <- sort(values)
  below <- sum(values < 0)
  place <- gpu_seq(1, by = 1, length.out = length(values), device = gpu_device(x))
  place <- select_by(place > below, place + (n - length(values)), place)
  first <- floor(n * trim) + 1
  sum(select_by(place >= first & place <= n + 1 - first, values, 0)) / (n - 2 * (first - 1))
}

# ---- margins -----------------------------------------------------------------------------------------

# The elements by rows or columns: offsets `p`, values `x`, the other extent `n`, and the names of the margin.
segments_of <- function(S, rows, x = stored(S)) {
  if (rows) list(p = row_structure(S)$p, x = stored_by_rows(S, x), n = S@Dim[2L], names = S@Dimnames[[1L]]) else
    list(p = S@p, x = x, n = S@Dim[1L], names = S@Dimnames[[2L]])
}

named_margin <- function(out, names) {
  out <- strip(out)
  if (!is.null(names)) names(out) <- names
  out
}

# Sums or means of rows or columns.
sparse_margin <- function(name, S, na.rm, rows) {
  na.rm <- if (is.atomic(na.rm) && length(na.rm)) as.logical(na.rm)[1L] else NA
  if (is.na(na.rm)) stop_as_base("invalid 'na.rm' argument", parent.frame())
  x <- stored_numbers(S)
  absent <- if (na.rm) is.na(x)
  if (na.rm) x <- select_by(absent, 0, x)
  parts <- segments_of(S, rows, x)
  out <- as_doubles(segment_reduce(parts$p, parts$x, "sum"))
  if (name == "mean") {
    out <- out / if (na.rm) parts$n - segment_reduce(parts$p, segments_of(S, rows, as_doubles(absent))$x, "sum") else
      parts$n
  }
  named_margin(out, parts$names)
}

# Checks `dims`. `sparseResult` of Matrix is accepted, but results are always dense.
check_margin_dims <- function(dims, ..., sparseResult = FALSE) {
  if (...length()) stop_as_base("unused argument", parent.frame())
  if (!identical(as.double(dims), 1)) stop_as_base("invalid 'dims'", parent.frame())
}

#' @rdname sparse-margins
#' @export
methods::setMethod("rowSums", "gpu_sparse", function(x, na.rm = FALSE, dims = 1L, ...) {
  check_margin_dims(dims, ...)
  sparse_margin("sum", x, na.rm, TRUE)
})
#' @rdname sparse-margins
#' @export
methods::setMethod("colSums", "gpu_sparse", function(x, na.rm = FALSE, dims = 1L, ...) {
  check_margin_dims(dims, ...)
  sparse_margin("sum", x, na.rm, FALSE)
})
#' @rdname sparse-margins
#' @export
methods::setMethod("rowMeans", "gpu_sparse", function(x, na.rm = FALSE, dims = 1L, ...) {
  check_margin_dims(dims, ...)
  sparse_margin("mean", x, na.rm, TRUE)
})
#' @rdname sparse-margins
#' @export
methods::setMethod("colMeans", "gpu_sparse", function(x, na.rm = FALSE, dims = 1L, ...) {
  check_margin_dims(dims, ...)
  sparse_margin("mean", x, na.rm, FALSE)
})

#' @rdname sparse-margins
#' @export
methods::setMethod("var", "gpu_sparse", function(x, y = NULL, na.rm = FALSE, use) {
  x <- dense_numbers(x)
  if (missing(use)) var(x, y, na.rm) else var(x, y, na.rm, use)
})

# Variances: squared differences from the mean, of the stored elements and of the zeros.
sparse_variance <- function(S, rows, na.rm = FALSE) {
  x <- stored_numbers(S)
  narrow <- is_narrow(x)
  wide <- with_stored(S, gpu_cast(x, "float64"))
  mean <- strip(sparse_margin("mean", wide, na.rm, rows))
  parts <- segments_of(wide, rows)
  absent <- is.na(parts$x)
  off <- (parts$x - mean[segment_expand(parts$p) + 1L])^2
  counts <- segment_reduce(parts$p, NULL, "sum")
  n <- parts$n
  if (na.rm) {
    off <- select_by(absent, 0, off)
    n <- n - segment_reduce(parts$p, as_doubles(absent), "sum")
  }
  out <- (segment_reduce(parts$p, off, "sum") + (parts$n - counts) * mean^2) / (n - 1)
  # the variance of fewer than two elements is missing
  if (is_gpu(n)) out <- select_by(n < 2, NA_real_, out) else if (n < 2) out <- out * NA_real_
  named_margin(if (narrow) gpu_cast(out, gpu_dtype(x)) else out, parts$names)
}

# Minima or maxima of the stored elements, and of 0 where some element is not stored.
sparse_extreme <- function(name, S, rows, na.rm = FALSE) {
  x <- stored_numbers(S)
  if (na.rm) x <- select_by(is.na(x), if (name == "max") -Inf else Inf, x)
  parts <- segments_of(S, rows, x)
  out <- as_doubles(segment_reduce(parts$p, parts$x, name))
  some <- segment_reduce(parts$p, NULL, "sum") < parts$n
  beside_zero <- if (name == "max") pmax(out, 0) else pmin(out, 0)
  named_margin(select_by(some, beside_zero, out), parts$names)
}

# any() or all() of each row or column.
sparse_decision <- function(name, S, rows, na.rm = FALSE) {
  x <- stored(S)
  if (!is.logical(x)) x <- x != 0
  if (na.rm) x <- select_by(is.na(x), name == "all", x)
  parts <- segments_of(S, rows, x)
  out <- segment_reduce(parts$p, parts$x, name)
  if (name == "all") out <- out & segment_reduce(parts$p, NULL, "sum") == parts$n
  named_margin(out, parts$names)
}

# Functions that apply() computes from the stored elements.
SPARSE_APPLIED <- list(
  sum = function(S, rows, na.rm) sparse_margin("sum", S, na.rm, rows),
  mean = function(S, rows, na.rm) sparse_margin("mean", S, na.rm, rows),
  var = function(S, rows, na.rm) sparse_variance(S, rows, na.rm),
  sd = function(S, rows, na.rm) sqrt(sparse_variance(S, rows, na.rm)),
  median = function(S, rows, na.rm) sparse_medians(S, rows, na.rm),
  max = function(S, rows, na.rm) sparse_extreme("max", S, rows, na.rm),
  min = function(S, rows, na.rm) sparse_extreme("min", S, rows, na.rm),
  range = function(S, rows, na.rm) rbind(strip(sparse_extreme("min", S, rows, na.rm)),
    strip(sparse_extreme("max", S, rows, na.rm))),
  any = function(S, rows, na.rm) sparse_decision("any", S, rows, na.rm),
  all = function(S, rows, na.rm) sparse_decision("all", S, rows, na.rm)
)

apply_sparse <- function(X, MARGIN, FUN, ..., simplify = TRUE) {
  name <- known_function(FUN, c(names(SPARSE_APPLIED), "quantile"))
  more <- list(...)
  rows <- if (is.character(MARGIN)) match(MARGIN, names(X@Dimnames)) else MARGIN
  usable <- !is.na(name) && isTRUE(simplify) && (identical(as.double(rows), 1) || identical(as.double(rows), 2)) &&
    all(X@Dim > 0L) && if (name == "quantile") are_quantile_arguments(more) else
    !length(more) || identical(names(more), "na.rm") && is_flag(more[[1L]])
  # base R gives integers for logical values, and halves of medians alone
  if (!usable || is.logical(X@x) && name %in% c("sum", "max", "min", "range", "median", "quantile"))
    return(apply(gpu_dense(X), MARGIN, FUN, ..., simplify = simplify))
  # once; base R warns for each row or column
  if (name %in% c("any", "all") && !is.logical(X@x)) warn_as_base("coercing argument of type 'double' to logical")
  if (name == "quantile") return(do.call(sparse_quantiles, c(list(X, rows == 1), more)))
  out <- SPARSE_APPLIED[[name]](X, rows == 1, isTRUE(more$na.rm))
  names <- X@Dimnames[[rows]]
  if (name == "range" && !is.null(names)) dimnames(out) <- list(NULL, names)
  out
}

# Whether these are arguments of quantile() that sparse_quantiles() takes.
are_quantile_arguments <- function(more) {
  names <- names(more) %||% rep.int("", length(more))
  if (length(more) && names[1L] == "") names[1L] <- "probs"
  if (anyDuplicated(names) || !all(names %in% c("probs", "na.rm", "names"))) return(FALSE)
  probs <- if ("probs" %in% names) more[[base::match("probs", names)]] else 0
  flags <- more[names != "probs"]
  is.numeric(probs) && !is.object(probs) && length(probs) > 0L && !anyNA(probs) && all(probs >= 0 & probs <= 1) &&
    all(vapply(flags, is_flag, NA))
}

# ---- by group and by column ------------------------------------------------------------------------------

#' @rdname sparse-margins
#' @export
rowsum.gpu_sparse <- function(x, group, reorder = TRUE, na.rm = FALSE, ...) {
  if (is.logical(x@x)) stop_as_base("'x' must be numeric")
  if (isTRUE(na.rm)) x <- with_stored(x, select_by(is.na(stored(x)), 0, stored(x)))
  group <- host_copy(group, silent = TRUE)
  if (length(group) != nrow(x)) stop_as_base("incorrect length for 'group'")
  if (anyNA(group)) warn_as_base("missing values for 'group'")
  kinds <- unique(group)
  if (reorder) kinds <- sort(kinds, na.last = TRUE, method = "quick")
  codes <- base::match(group, kinds)
  # a matrix with a row for each group and a column for each row of `x`: 1 where the row is in the group
  of_groups <- gpu_sparse(i = codes, j = seq_along(codes), x = 1, dim = c(length(kinds), nrow(x)),
    dtype = gpu_dtype(stored_numbers(x)), device = gpu_device(x))
  out <- gpu_dense(product_of_sparse(of_groups, x, FALSE, FALSE, environment()))
  dimnames(out) <- list(as.character(kinds), x@Dimnames[[2L]])
  out
}

# sweep() of a sparse matrix. `STATS` has a value for each row or column.
sweep_sparse <- function(x, MARGIN, STATS, FUN, check.margin, ..., call = parent.frame()) {
  rows <- if (is.character(MARGIN)) match(MARGIN, names(x@Dimnames)) else MARGIN
  operator <- operator_named(FUN)
  one <- identical(as.double(rows), 1) || identical(as.double(rows), 2)
  if (!one || !is_number(STATS) || !length(STATS)) return(sweep(gpu_dense(x), MARGIN, STATS, FUN, check.margin, ...))
  n <- x@Dim[rows]
  STATS <- cast_like(STATS, x@x)
  # as base R does: a call with the matrix and the statistics as another one, which decides whether the result is sparse
  if ((is.null(operator) || ...length()) && length(STATS) == n)
    return(FUN(x, `dim<-`(if (rows == 1) recycle(STATS, length(x)) else repeated(STATS, each = x@Dim[1L]), x@Dim), ...))
  if (is.null(operator) || ...length()) return(sweep(gpu_dense(x), MARGIN, STATS, FUN, check.margin, ...))
  # sweep() of the dense matrix checks other lengths and recycles as base R does
  if (length(STATS) != n && length(STATS) != 1L) return(sweep(gpu_dense(x), MARGIN, STATS, FUN, check.margin))
  STATS <- recycle(STATS, n)
  f <- get(operator, baseenv())
  if (rows == 1) return(sparse_dense_op(operator, f, x, STATS, FALSE, call))
  if (!isTRUE(all(suppressWarnings(f(0, STATS)) == 0)))
    return(sweep(if (operator %in% SPARSE_ARITHMETIC) as_doubles(gpu_dense(x)) else gpu_dense(x), 2L, STATS, FUN,
      FALSE))
  values <- if (operator %in% SPARSE_ARITHMETIC) stored_numbers(x) else stored(x)
  with_stored(x, f(values, STATS[columns_of(x) + 1L]))
}

# The name of the operator that a function is, or NULL.
operator_named <- function(f) {
  for (name in names(OPERATORS)) if (identical(f, get(name, baseenv()))) return(name)
  NULL
}

#' @rdname sparse-margins
#' @export
scale.gpu_sparse <- function(x, center = TRUE, scale = TRUE) {
  if (!isFALSE(center)) return(scale(as_doubles(gpu_dense(x)), center, scale))
  if (isFALSE(scale)) return(x)
  x <- with_stored(x, stored_numbers(x))
  if (isTRUE(scale)) scale <- collect(sqrt(strip(colSums(x^2, na.rm = TRUE)) / pmax(1, nrow(x) -
    strip(colSums(is.na(x))) - 1)))
  else scale <- host_copy(scale, silent = TRUE)
  if (!is.numeric(scale) || length(scale) != ncol(x))
    stop_as_base("length of 'scale' must equal the number of columns of 'x'")
  out <- sweep_sparse(x, 2L, scale, base::`/`, FALSE)
  if (!is.null(x@Dimnames[[2L]])) names(scale) <- x@Dimnames[[2L]]
  attr(out, "scaled:scale") <- scale
  out
}
