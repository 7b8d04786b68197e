# Base R's generics on vectors that are not elementwise: what has no device code yet runs on the host, and its
# result goes back to where the array is.

# The result of f on the host copy, as an array of x's dtype on x's device.
through_host <- function(x, f, ...) {
  info <- gpu_info(x)
  as_gpu(f(host_copy(x, exact = TRUE), ...), dtype = info$dtype, device = info$device)
}

#' Vectors of arrays: joining, repeating, distinct elements
#'
#' Base R's generics for arrays. `rev()` and `rep()` work on the device. `c()`, `unique()`, `duplicated()` and `all.equal()` run on
#' the host for now: they copy the elements there, and `c()` and `unique()` copy the result back.
#'
#' `c()` is reached where the first argument is an array: `c(x, 1)` is an array, `c(1, x)` an ordinary vector, because base R looks
#' for a method of the first argument only. [vctrs::vec_c()], and with it tibble and dplyr, joins arrays and numbers in any order to an
#' array, by its own rules on types; slices of columns stay on the device. `cbind()` and `rbind()` have no method and give ordinary matrices.
#' @param x,target,current Arrays; `current` may be an ordinary vector.
#' @param ... For `c()` arrays and numbers. Else passed on to base R's method.
#' @param recursive,use.names As in [base::c()].
#' @param incomparables As in [base::unique()].
#' @param row.names,optional,nm As in [base::as.data.frame()].
#' @returns `rev()`, `rep()`, `unique()` and `c()`: an array on the device of `x` (of the first array), of its dtype where that can hold the
#'   elements; `c()` with what is no number gives what base R gives. `as.data.frame()`: a data frame whose columns are arrays.
#'   `duplicated()`, `anyDuplicated()` and `all.equal()`: as in base R.
#' @section Errors:
#' Those of [collect()] and [as_gpu()].
#' @examples
#' x <- as_gpu(c(3, 1, 3), device = "cpu")
#' c(x, 4)
#' rev(x)
#' rep(x, 2)
#' unique(x)
#' as.data.frame(as_gpu(matrix(1:4, 2), device = "cpu"))
#' all.equal(x, c(3, 1, 3))
#' @name vectors
NULL

#' @rdname vectors
#' @export
unique.gpu_array <- function(x, incomparables = FALSE, ...) through_host(x, unique, incomparables, ...)

#' @rdname vectors
#' @export
duplicated.gpu_array <- function(x, incomparables = FALSE, ...) duplicated(host_copy(x, exact = TRUE), incomparables, ...)

#' @rdname vectors
#' @export
anyDuplicated.gpu_array <- function(x, incomparables = FALSE, ...) anyDuplicated(host_copy(x, exact = TRUE), incomparables, ...)

#' @rdname vectors
#' @export
rev.gpu_array <- function(x) if (length(x)) x[length(x):1L] else x

#' @rdname vectors
#' @export
rep.gpu_array <- function(x, ...) {
  at <- rep(seq_along(x), ...)
  y <- x[at]
  if (is.null(dim(x)) && !is.null(names(x))) names(y) <- names(x)[at]
  y
}

# On the host for now. What means more than numbers decides the result's class there, as for base vectors.
#' @rdname vectors
#' @export
c.gpu_array <- function(..., recursive = FALSE, use.names = TRUE) {
  parts <- list(...)
  arrays <- vapply(parts, is_gpu, NA)
  host <- lapply(parts, function(x) {
    if (!is_gpu(x)) return(x)
    y <- as.vector(x)
    if (is.null(dim(x))) names(y) <- names(x)
    y
  })
  plain <- all(arrays | vapply(parts, function(x) is.null(x) || !is.object(x) && (is.numeric(x) || is.logical(x) || is.complex(x)), NA))
  y <- do.call(c, c(host, list(recursive = recursive, use.names = use.names)))
  if (!plain) return(y)
  # numbers from R adopt the arrays' dtype where it can hold their type
  dtype <- common_dtype(parts[arrays], typeof(y))
  as_gpu(y, dtype = dtype, device = gpu_device(parts[[which(arrays)[1L]]]))
}

#' @rdname vectors
#' @method all.equal gpu_array
#' @export
all.equal.gpu_array <- function(target, current, ...) {
  all.equal(host_copy(target, exact = TRUE), host_copy(current, exact = TRUE), ...)
}

# The columns stay arrays.
#' @rdname vectors
#' @export
as.data.frame.gpu_array <- function(x, row.names = NULL, optional = FALSE, ..., nm = deparse1(substitute(x))) {
  if (is_viewer(sys.function(sys.parent()))) return(as.data.frame(viewed(x), row.names = row.names, optional = optional, ..., nm = nm))
  if (length(dim(x)) > 2L) return(as.data.frame(host_copy(x), row.names = row.names, optional = optional, ...))
  if (length(dim(x)) == 2L) {
    columns <- lapply(seq_len(ncol(x)), function(j) {
      y <- x[, j]
      names(y) <- NULL
      y
    })
    names(columns) <- if (!is.null(colnames(x))) colnames(x) else if (length(columns)) paste0("V", seq_along(columns))
    rows <- row.names %||% rownames(x)
    n <- nrow(x)
  } else {
    named <- names(x)
    if (!is.null(named)) names(x) <- NULL
    columns <- list(x)
    if (!optional) names(columns) <- nm
    rows <- row.names %||% if (!is.null(named) && !anyDuplicated(named)) named
    n <- length(x)
  }
  structure(columns, row.names = if (is.null(rows)) .set_row_names(n) else as.character(rows), class = "data.frame")
}
