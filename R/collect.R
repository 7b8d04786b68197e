#' Bring an array back to the host
#'
#' `as.vector()`, `as.numeric()`, `as.integer()`, `as.logical()`, `as.complex()`, `as.matrix()` and `as.array()`
#' give ordinary R vectors, as they do for those. `collect()` gives an ordinary vector with `dim`, `dimnames`,
#' `names` and `tsp` kept.
#'
#' All compute what is recorded, wait, and copy the elements once.
#'
#' @param x An array; for `collect()` also a data frame or list whose arrays are brought back.
#' @param mode As in [base::as.vector()].
#' @param ... Ignored.
#' @returns An ordinary R vector, matrix or array. `collect()` of an `int64` array is an `integer64`.
#' @examples
#' x <- as_gpu(matrix(1:4, 2), device = "cpu")
#' as.vector(x)
#' collect(x)
#' @export
collect <- function(x, ...) UseMethod("collect")

#' @export
collect.default <- function(x, ...) x

#' @export
collect.gpu_array <- function(x, ...) {
  long <- gpu_dtype(x) == "int64"
  y <- .Call(if (long) C_collect_long else C_collect, x)
  keep <- attributes(x)[c("dim", "dimnames", "names", "tsp")]
  keep <- keep[lengths(keep) > 0L]
  if (long) {
    requireNamespace("bit64", quietly = TRUE) # whose methods make sense of the class
    keep$class <- "integer64"
  }
  if (!is.null(keep$tsp) && !long) keep$class <- c(if (length(keep$dim) == 2L) "mts", "ts", if (length(keep$dim) == 2L) c("matrix", "array"))
  attributes(y) <- keep
  y
}

#' @export
collect.list <- function(x, ...) {
  x[] <- lapply(x, collect)
  x
}

#' @export
collect.data.frame <- collect.list

#' @rdname collect
#' @export
as.vector.gpu_array <- function(x, mode = "any") {
  y <- .Call(C_collect, x)
  if (identical(mode, "list")) names(y) <- names(x) # as base does
  as.vector(y, mode)
}

#' @rdname collect
#' @export
as.double.gpu_array <- function(x, ...) as.double(.Call(C_collect, x))

#' @rdname collect
#' @export
as.integer.gpu_array <- function(x, ...) as.integer(.Call(C_collect, x))

#' @rdname collect
#' @export
as.logical.gpu_array <- function(x, ...) as.logical(.Call(C_collect, x))

#' @rdname collect
#' @export
as.complex.gpu_array <- function(x, ...) as.complex(.Call(C_collect, x))

# Every integer that the array holds, where as.double() knows those up to 2^53.
#' @exportS3Method bit64::as.integer64
as.integer64.gpu_array <- function(x, ...) {
  y <- collect(gpu_cast(x, "int64"))
  attributes(y) <- list(class = "integer64")
  y
}

#' @rdname collect
#' @export
as.matrix.gpu_array <- function(x, ...) as.matrix(collect(x))

#' @rdname collect
#' @export
as.array.gpu_array <- function(x, ...) as.array(collect(x))
