# Base R's generics on vectors that are not elementwise: what has no device code yet runs on the host, and its
# result goes back to where the array is.

# The result of f on the host copy, as an array of x's dtype on x's device.
through_host <- function(x, f, ...) {
  info <- gpu_info(x)
  as_gpu(f(collect(x), ...), dtype = info$dtype, device = info$device)
}

#' @export
unique.gpu_array <- function(x, incomparables = FALSE, ...) through_host(x, unique, incomparables, ...)

#' @export
duplicated.gpu_array <- function(x, incomparables = FALSE, ...) duplicated(collect(x), incomparables, ...)

#' @export
anyDuplicated.gpu_array <- function(x, incomparables = FALSE, ...) anyDuplicated(collect(x), incomparables, ...)

#' @export
rev.gpu_array <- function(x) if (length(x)) x[length(x):1L] else x

#' @export
rep.gpu_array <- function(x, ...) {
  at <- rep(seq_along(x), ...)
  y <- x[at]
  if (is.null(dim(x)) && !is.null(names(x))) names(y) <- names(x)[at]
  y
}

# On the host for now. What means more than numbers decides the result's class there, as for base vectors.
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
  dtypes <- unique(vapply(parts[arrays], gpu_dtype, ""))
  # numbers from R adopt the arrays' dtype where it can hold their type
  dtype <- if (length(dtypes) == 1L && typeof(y) == typeof(parts[[which(arrays)[1L]]])) dtypes
  as_gpu(y, dtype = dtype, device = gpu_device(parts[[which(arrays)[1L]]]))
}

#' @export
all.equal.gpu_array <- function(target, current, ...) {
  all.equal(collect(target), if (is_gpu(current)) collect(current) else current, ...)
}

# The columns stay arrays.
#' @export
as.data.frame.gpu_array <- function(x, row.names = NULL, optional = FALSE, ..., nm = deparse1(substitute(x))) {
  if (length(dim(x)) > 2L) return(as.data.frame(collect(x), row.names = row.names, optional = optional, ...))
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
