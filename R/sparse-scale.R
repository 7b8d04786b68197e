# dimScale(), rowScale(), colScale() and condest(): in Matrix these are not generic and do not take device arrays.

#' Scaling rows and columns, and condition numbers
#'
#' Matrix's `dimScale()`, `rowScale()`, `colScale()` and `condest()` for matrices and vectors on a device. `rowScale(x,
#' d)` is `Diagonal(x = d) %*% x`, `colScale(x, d)` is `x %*% Diagonal(x = d)`, with the dimnames of `x`; for a sparse
#' matrix the result has the same structure. `dimScale(x)` scales rows and columns by the square roots of the reciprocal
#' diagonal, which converts covariances to correlations. `condest(A)` estimates the condition number in the 1-norm by
#' sparse factors on the host; Matrix's own `onenormest()` accepts sparse matrices on a device, and computes the
#' products there.
#'
#' These functions are not generic in Matrix. If Matrix is attached after this package, R finds Matrix's functions
#' first: Matrix's `dimScale(S)` and `condest(S)` accept `S`, but a vector `d` on a device needs
#' `verdigris::rowScale(S, d)`. Calls without an argument on a device are passed to Matrix.
#' @param x,A A matrix: `gpu_sparse`, an array, or of Matrix.
#' @param d,d1,d2 Factors of the rows and columns, recycled: vectors or arrays.
#' @param ... Further arguments of [Matrix::condest()].
#' @returns A matrix of the kind of `x`: a `gpu_sparse` or a `gpu_array`. `condest()`: Matrix's list.
#' @section Errors:
#' "attempt to recycle 'x' of length 0"; `non-conformable matrix dimensions in D1 %*% x %*% D2` of `dimScale()` if `x`
#' is not square and `d2` is not given; the errors of [Matrix::condest()]; `verdigris_error_library` without Matrix.
#' @examples
#' S <- gpu_sparse(i = c(1, 2, 2), j = c(1, 1, 2), x = c(4, 1, 9), device = "cpu")
#' dimScale(S)
#' rowScale(S, 1 / rowSums(S))
#' @name sparse-scale
NULL

#' @rdname sparse-scale
#' @export
dimScale <- function(x, d1 = sqrt(1 / diag(x, names = FALSE)), d2 = d1) {
  if (!is_gpu(x) && (missing(d1) || !is_gpu(d1)) && (missing(d2) || !is_gpu(d2))) {
    need_matrix("dimScale")
    return(if (missing(d1) && missing(d2)) Matrix::dimScale(x) else if (missing(d2)) Matrix::dimScale(x, d1) else
      if (missing(d1)) Matrix::dimScale(x, d2 = d2) else Matrix::dimScale(x, d1, d2))
  }
  # as Matrix, which has one diagonal matrix then
  if (missing(d2) && length(dim(x)) == 2L && dim(x)[1L] != dim(x)[2L])
    stop_as_base("non-conformable matrix dimensions in D1 %*% x %*% D2")
  columns_times(rows_times(x, d1), d2)
}

#' @rdname sparse-scale
#' @export
rowScale <- function(x, d) {
  if (is_gpu(x) || is_gpu(d)) return(rows_times(x, d))
  need_matrix("rowScale")
  Matrix::rowScale(x, d)
}

#' @rdname sparse-scale
#' @export
colScale <- function(x, d) {
  if (is_gpu(x) || is_gpu(d)) return(columns_times(x, d))
  need_matrix("colScale")
  Matrix::colScale(x, d)
}

#' @rdname sparse-scale
#' @export
condest <- function(A, ...) {
  need_matrix("condest")
  # Matrix 1.7 and before takes the pivots of dense factors for a permutation
  if (is_gpu(A) && !is_sparse(A) && length(dim(A)) == 2L) A <- gpu_sparse(A)
  Matrix::condest(if (is_sparse(A)) collect(A) else A, ...)
}

rows_times <- function(x, d, call = parent.frame()) {
  x <- scaled_operand(x, d, call)
  d <- scaling_factors(d, dim(x)[1L], x, call)
  if (is_sparse(x)) with_stored(x, stored_numbers(x) * d[strip(x@i) + 1L]) else x * d
}

columns_times <- function(x, d, call = parent.frame()) {
  x <- scaled_operand(x, d, call)
  d <- scaling_factors(d, dim(x)[2L], x, call)
  if (is_sparse(x)) with_stored(x, stored_numbers(x) * d[columns_of(x) + 1L]) else sweep(x, 2L, d, base::`*`, FALSE)
}

scaled_operand <- function(x, d, call) {
  x <- from_foreign_class(x, if (is_gpu(d)) gpu_device(d))
  if (!is_number(x) && !is_sparse(x) || length(dim(x)) != 2L) abort_argument("x", "a matrix", x, call)
  if (is_gpu(x)) x else as_gpu(x, device = gpu_device(d))
}

scaling_factors <- function(d, n, x, call) {
  d <- from_foreign_class(d)
  if (!is_number(d)) abort_argument("d", "a vector of numbers", d, call)
  if (n > 0L && !length(d)) stop_as_base("attempt to recycle 'x' of length 0 to length 'n' (n > 0)", call)
  recycle(as_doubles(cast_like(d, if (is_sparse(x)) x@x else x)), n)
}
