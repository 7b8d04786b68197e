# Products of sparse matrices. A product by rows uses row_structure(), which is computed once.

#' Products of sparse matrices
#'
#' `%*%`, `crossprod()` and `tcrossprod()` of a sparse matrix and a dense matrix or a vector (of R, an array, or of
#' Matrix) return a dense array; of two sparse matrices they return a sparse matrix. Sums are added in the order of the
#' elements, so that results have the same bits on every run. `crossprod(S, B)` uses the columns of `S`, in which it is
#' stored. `S %*% B` uses the structure by rows, which the first product computes and stores. Elements that are not
#' stored add nothing, not even where the other factor is infinite or missing, as in Matrix. A sparse vector of Matrix
#' is treated as a sparse row or column. Matrix's `S %&% T` is `TRUE` where a product has a term that is not 0, and
#' sparse.
#' @param x,y Factors, at least one of them a `gpu_sparse`. A vector is treated as the row or column that conforms.
#' @returns A `gpu_array` (a matrix), or for two sparse factors a `gpu_sparse`, with the names of rows and columns.
#'   Logical values count as 0 and 1. The dtype is determined as in [matmult].
#' @section Errors:
#' "non-conformable arguments"; `verdigris_error_dtype` for complex factors; `verdigris_error_device` for factors on
#' different devices; `verdigris_error_memory`.
#' @examples
#' S <- gpu_sparse(i = 1:3, j = c(1, 2, 2), x = c(1, 2, 3), device = "cpu")
#' S %*% 1:2
#' crossprod(S)
#' @name sparse-products
NULL

# The product of op(x) and op(y), where a factor is transposed if `turn_x`, `turn_y`.
sparse_product <- function(x, y, turn_x = FALSE, turn_y = FALSE, call = parent.frame()) {
  device <- gpu_device(if (is_sparse(x)) x else y)
  x <- as_factor(x, y, device, call)
  y <- as_factor(y, x, device, call)
  # a sparse vector is a sparse row or column
  if (is_of_matrix(y, "sparseVector")) y <- sparse_conforming(y, x@Dim[if (turn_x) 1L else 2L], turn_y, device)
  if (is_of_matrix(x, "sparseVector")) x <- sparse_conforming(x, y@Dim[if (turn_y) 2L else 1L], !turn_x, device)
  if (is_sparse(x) && is_sparse(y)) return(product_of_sparse(x, y, turn_x, turn_y, call))
  # a vector is a column, or else a row: what conforms, as in base R
  if (is_sparse(x)) {
    if (is.null(dim(y))) y <- as_conforming(y, x@Dim[if (turn_x) 1L else 2L], turn_y)
    check_conform(extents(x, turn_x)[2L], extents(y, turn_y)[1L], call)
    out <- product_with_dense(x, if (turn_y) t(y) else y, turn_x)
  } else {
    if (is.null(dim(x))) x <- as_conforming(x, y@Dim[if (turn_y) 2L else 1L], !turn_x)
    check_conform(extents(x, turn_x)[2L], extents(y, turn_y)[1L], call)
    # (x y)' is y' x'
    out <- t(product_with_dense(y, if (turn_x) x else t(x), !turn_y))
  }
  names <- product_dimnames(names_of(x, turn_x), names_of(y, turn_y))
  if (!is.null(names)) dimnames(out) <- names
  out
}

extents <- function(x, turn) if (turn) rev(dim(x)) else dim(x)
names_of <- function(x, turn) {
  names <- if (is_sparse(x)) x@Dimnames else attr(x, "dimnames")
  if (turn) rev(names) else names
}
check_conform <- function(a, b, call) if (a != b) stop_as_base("non-conformable arguments", call)

# A vector as a row or column whose inner extent is `n` if it has that length, else 1. `by_row`: whether a row has the
# whole vector as its inner extent, as for a left factor.
as_conforming <- function(v, n, by_row) {
  size <- length(v)
  # all elements along the inner extent; else the inner extent is 1
  lengthwise <- size == n
  dim(v) <- if (by_row == lengthwise) c(1L, size) else c(size, 1L)
  v
}

sparse_conforming <- function(v, n, by_row, device) sparse_of_vector(v, if (by_row == (length(v) == n))
  c(1L, length(v)) else c(length(v), 1L), device)

# A factor as a sparse matrix, an array that is a matrix, or a plain array.
as_factor <- function(v, other, device, call) {
  if (is_of_matrix(v, "sparseVector")) return(v)
  v <- from_foreign_class(v, device)
  if (is_sparse(v)) return(v)
  if (is_host_int64(v)) v <- as_gpu(v, device = device)
  if (!is_number(v)) stop_as_base("requires numeric/complex matrix/vector arguments", call)
  if (is.complex(v)) stop_verdigris("dtype", "A sparse matrix cannot be multiplied by complex numbers.",
    "Multiply by their `Re()` and `Im()`.", call = call)
  if (length(dim(v)) > 2L) stop_as_base("non-conformable arguments", call)
  like <- if (is_sparse(other)) other@x else if (is_gpu(other)) other
  names <- if (length(dim(v)) == 2L) dimnames(v)
  if (!is_gpu(v)) {
    extents <- if (length(dim(v)) == 2L) dim(v)
    v <- as_gpu(as.vector(v), dtype = if (!is.null(like)) host_dtype(as.double(v[0L]), like), device = device)
    if (!is.null(extents)) dim(v) <- extents
  } else if (length(dim(v)) == 1L) {
    v <- strip(v)
  }
  if (!is.null(names)) dimnames(v) <- names
  v
}

# S b, or S' b if `turned`; b is a matrix.
product_with_dense <- function(S, b, turned) {
  x <- stored(S)
  dtype <- product_dtype(x, b) %||% "float64"
  if (gpu_dtype(x) != dtype && !is.logical(x)) x <- gpu_cast(x, dtype)
  if (gpu_dtype(b) != dtype) b <- `dim<-`(gpu_cast(strip(b), dtype), dim(b))
  dimnames(b) <- NULL
  out <- if (turned) segment_products(S@p, S@i, x, b) else {
    rows <- row_structure(S)
    segment_products(rows$p, rows$i, stored_by_rows(S, x, keep = TRUE), b)
  }
  # sums of half floats are float32
  in_dtype(out, dtype)
}

in_dtype <- function(x, dtype) if (gpu_dtype(x) == dtype) x else gpu_cast(x, dtype)

# Two sparse factors: the product is computed by the columns of the right factor.
product_of_sparse <- function(x, y, turn_x, turn_y, call) {
  check_conform(extents(x, turn_x)[2L], extents(y, turn_y)[1L], call)
  names <- list(names_of(x, turn_x)[[1L]], names_of(y, turn_y)[[2L]])
  both <- list(names_of(x, turn_x)[1L], names_of(y, turn_y)[2L])
  if (!is.null(names(both[[1L]])) || !is.null(names(both[[2L]])))
    names(names) <- c(names(both[[1L]]) %||% "", names(both[[2L]]) %||% "")
  a <- if (turn_x) t(x) else x
  b <- if (turn_y) t(y) else y
  values <- list(stored_numbers(a, call), stored_numbers(b, call))
  dtype <- product_dtype(values[[1L]], values[[2L]]) %||% "float64"
  values <- lapply(values, in_dtype, dtype)
  out <- segment_multiply(a@p, a@i, values[[1L]], a@Dim[1L], b@p, b@i, values[[2L]])
  new_sparse(out$p, out$i, in_dtype(out$x, dtype), c(a@Dim[1L], b@Dim[2L]), names)
}

sparse_crossprod <- function(x, y = NULL) sparse_product(x, if (is.null(y)) x else y, turn_x = TRUE)
sparse_tcrossprod <- function(x, y = NULL) sparse_product(x, if (is.null(y)) x else y, turn_y = TRUE)

# From R 4.3 on `%*%` dispatches on S4 methods if an operand is an S4 object. Before, this package masks the operator
# (ops-linear.R), and Matrix's generic has these methods (sparse-matrix.R).
SPARSE_PAIRS <- list(c("gpu_sparse", "gpu_sparse"), c("gpu_sparse", "ANY"), c("ANY", "gpu_sparse"))
if (getRversion() >= "4.3.0") for (pair in SPARSE_PAIRS)
  methods::setMethod("%*%", pair, function(x, y) sparse_product(x, y))
if (getRversion() >= "4.4.0") for (pair in c(SPARSE_PAIRS, list(c("gpu_sparse", "missing")))) {
  methods::setMethod("crossprod", pair, function(x, y = NULL, ...) sparse_crossprod(x, if (missing(y)) NULL else y))
  methods::setMethod("tcrossprod", pair, function(x, y = NULL, ...) sparse_tcrossprod(x, if (missing(y)) NULL else y))
}
