# Matrix products: cuBLAS on a CUDA device; on the cpu R's own BLAS, and for a vector the engine.

matrix_product <- function(x, y) {
  if (!takes_product(x) || !takes_product(y)) return(on_host(`%*%`, x, y))
  device <- gpu_device(if (is_gpu(x)) x else y)
  extents <- product_extents(x, y)
  # base R has the say of matrices on the cpu, and where the shapes are odd: vectors that fit both ways, no rows, three dimensions
  by_host <- function() as_gpu(on_host(`%*%`, x, y), dtype = product_dtype(x, y), device = device)
  if (is.null(extents) || device == "cpu" && min(extents[c(1L, 3L)]) > 1) return(by_host())
  like <- if (is_gpu(x)) x else y
  a <- if (is_gpu(x)) x else as_gpu(x, dtype = host_dtype(x, like), device = device)
  b <- if (is_gpu(y)) y else as_gpu(y, dtype = host_dtype(y, like), device = device)
  out <- .Call(C_multiply, a, b, extents)
  if (is.null(out)) return(by_host())
  dim(out) <- extents[c(1L, 3L)]
  dimnames(out) <- product_dimnames(if (length(dim(x)) == 2L) dimnames(x), if (length(dim(y)) == 2L) dimnames(y))
  out
}

# Rows, inner extent and columns of a product of matrices, or of a matrix and a vector that fits it as the row or
# the column; NULL for everything else.
product_extents <- function(x, y) {
  dx <- dim(x)
  dy <- dim(y)
  if (is.null(dx) && length(dy) == 2L && length(x) == dy[1L]) dx <- c(1L, length(x))
  if (is.null(dy) && length(dx) == 2L && length(y) == dx[2L]) dy <- c(length(y), 1L)
  if (length(dx) == 2L && length(dy) == 2L && dx[2L] == dy[1L] && all(dx > 0L, dy > 0L)) c(dx, dy[2L])
}

# The rows' names of the left factor and the columns' of the right, with the names that these have.
product_dimnames <- function(left, right) {
  names <- list(left[[1L]], right[[2L]])
  if (all(vapply(names, is.null, NA))) return(NULL)
  if (!is.null(names(left)) || !is.null(names(right))) names(names) <- c(names(left)[1L] %||% "", names(right)[2L] %||% "")
  names
}

takes_product <- function(x) {
  is_gpu(x) || (!is.object(x) && (is.numeric(x) || is.logical(x) || is.complex(x)))
}

# The dtype in which a host factor meets an array: its width, where that is a float's.
host_dtype <- function(x, like) {
  dtype <- gpu_dtype(like)
  if (is.double(x) && dtype %in% c("float32", "float16", "bfloat16")) dtype else NULL
}

product_dtype <- function(x, y) {
  narrow <- vapply(list(x, y), function(v) if (is_gpu(v)) gpu_dtype(v) else "", "")
  floats <- narrow[narrow %in% c("float16", "bfloat16", "float32", "float64")]
  if (is.complex(x) || is.complex(y) || !length(floats) || "float64" %in% floats) return(NULL)
  if (length(unique(floats)) == 1L) floats[1L] else "float32"
}

#' Matrix products
#'
#' `x %*% y` for arrays, and arrays with host matrices and vectors: by cuBLAS on a CUDA device, in the factors' own
#' precision (no TF32), by R's BLAS on the cpu, unless one of them is a vector of doubles. What is recorded in a factor is computed first. On a GPU a transposed factor
#' (`t(x) %*% y`) costs no copy and the product is queued, not waited for; R's BLAS works on copies. Integers
#' and logicals become float64; float16 and bfloat16 add in float32.
#' @param x,y Matrices or vectors, at least one of them an array; a vector is the row or the column that fits.
#' @returns A matrix of class `gpu_array` on the device of the arrays, with the dimnames that base R gives.
#' @section Errors:
#' Base R's "non-conformable arguments"; `verdigris_error_device` for arrays on different devices; on a GPU
#' `verdigris_error_library` where cuBLAS is missing (see [gpu_sitrep()]) and `verdigris_error_memory`.
#' @examples
#' x <- as_gpu(matrix(1:4 / 2, 2), device = "cpu")
#' x %*% x
#' t(x) %*% c(1, 2)
#' @name matmult
#' @aliases %*%,gpu_array,ANY-method %*%,ANY,gpu_array-method %*%,gpu_array,gpu_array-method
NULL

#' @rdname matmult
#' @method %*% gpu_array
#' @export
`%*%.gpu_array` <- matrix_product

if (getRversion() < "4.3.0") {
  for (signature in list(c("gpu_array", "ANY"), c("ANY", "gpu_array"), c("gpu_array", "gpu_array"))) {
    setMethod("%*%", signature, function(x, y) matrix_product(x, y))
  }
  rm(signature)
}
