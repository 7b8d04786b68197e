# Matrix products: cuBLAS on a CUDA device; on the cpu R's own BLAS, and for a long vector the engine.

# The three products. product_of() takes base R's function, and whether each factor is transposed. Two unnamed arrays,
# the usual case, are multiplied by one call of C, before any test of their class.
matrix_product <- function(x, y) {
  out <- .Call(C_product_unnamed, x, y, 0, products$halves)
  if (is.null(out)) product_of(x, y, base::`%*%`, FALSE, FALSE) else out
}
cross_product <- function(x, y = NULL) {
  out <- .Call(C_product_unnamed, x, y, 1, products$halves)
  if (!is.null(out)) return(out)
  if (is_sparse(x) || is_sparse(y)) return(sparse_crossprod(x, y))
  if (is_split(x) || is_split(y)) return(split_crossprod(x, y, parent.frame()))
  if (is_reader(x) || is_reader(y)) return(reader_crossprod(x, y, parent.frame()))
  product_of(x, y %||% x, base::crossprod, TRUE, FALSE, is.null(y))
}
tcross_product <- function(x, y = NULL) {
  out <- .Call(C_product_unnamed, x, y, 2, products$halves)
  if (!is.null(out)) return(out)
  if (is_sparse(x) || is_sparse(y)) return(sparse_tcrossprod(x, y))
  if (is_split(x) || is_split(y)) return(split_tcrossprod(x, y, parent.frame()))
  product_of(x, y %||% x, base::tcrossprod, FALSE, TRUE, is.null(y))
}

product_of <- function(x, y, f, turn_x, turn_y, own = FALSE) {
  out <- .Call(C_product, x, y, turn_x + 2 * turn_y, products$halves)
  # C returns NULL for factors that base R handles: unusual shapes, elements that are not finite, and non-numeric
  # factors.
  if (is.null(out)) {
    if (is_remote(x) || is_remote(y)) return(remote_product(x, y, turn_x, turn_y, parent.frame(2L)))
    value <- call_base(f, lapply(if (own) list(x) else list(x, y), host_view))
    if (!takes_product(x) || !takes_product(y)) return(value)
    return(.Call(C_result, value, product_dtype(x, y), gpu_device(if (is_gpu(x)) x else y)))
  }
  # Most factors have no names, and attr() does not dispatch.
  if (is.null(attr(x, "dimnames")) && is.null(attr(y, "dimnames"))) return(out)
  left <- if (length(dim(x)) == 2L) dimnames(x)
  right <- if (length(dim(y)) == 2L) dimnames(y)
  names <- product_dimnames(if (turn_x) rev(left) else left, if (turn_y) rev(right) else right)
  if (!is.null(names)) dimnames(out) <- names
  out
}

# x as an array on `device`, converted as a number is when combined with the array `like`. An array is unchanged.
as_operand_like <- function(x, like, device) {
  if (is_gpu(x)) x else as_gpu(x, dtype = host_dtype(x, like), device = device)
}

# R numbers as an array on the device of `like`, rounded to its float type as by an operator (section "Numbers beside an
# array" of `?elementwise`). For an array its elements.
cast_like <- function(x, like) {
  if (is_gpu(x)) return(strip(x))
  if (!inherits(x, "integer64")) return(as_gpu(as.vector(x), dtype = host_dtype(x, like), device = gpu_device(like)))
  y <- as_gpu(x, device = gpu_device(like))
  strip(if (is_narrow(like)) gpu_cast(y, gpu_dtype(like)) else y)
}

# The dimnames of a product: the row names of the left factor and the column names of the right one, with the names of
# these dimnames.
product_dimnames <- function(left, right) {
  names <- list(left[[1L]], right[[2L]])
  if (all(vapply(names, is.null, NA))) return(NULL)
  if (!is.null(names(left)) || !is.null(names(right)))
    names(names) <- c(names(left)[1L] %||% "", names(right)[2L] %||% "")
  names
}

takes_product <- function(x) {
  inherits(x, "gpu_array") || (!is.object(x) && (is.numeric(x) || is.logical(x) || is.complex(x)))
}

# The dtype to which R numbers are converted when combined with an array: its width if it is a narrow float; NULL for
# the default of x.
host_dtype <- function(x, like) {
  if (!is_narrow(like)) return(NULL)
  if (is.complex(x)) "complex64" else if (is.double(x)) if (is.complex(like)) "float32" else gpu_dtype(like)
}

product_dtype <- function(x, y) {
  narrow <- c(if (is_gpu(x)) gpu_dtype(x), if (is_gpu(y)) gpu_dtype(y))
  if ("float64" %in% narrow) return(NULL)
  floats <- narrow[narrow %in% c("float16", "bfloat16", "float32", "float64")]
  if (is.complex(x) || is.complex(y))
    return(if (length(floats) + ("complex64" %in% narrow) > 0 && !("complex128" %in% narrow)) "complex64")
  if (!length(floats)) return(NULL)
  if (length(unique(floats)) == 1L) floats[1L] else "float32"
}

# Switches for tests and benchmarks: `halves`, whether a product of a matrix and its own transpose computes only half of
# the result (0 no, 1 yes, 2 depending on the extents); `polar`, whether singular values use the polar decomposition.
products <- new.env(parent = emptyenv())
products$halves <- 2
products$polar <- TRUE

#' Matrix products
#'
#' `x %*% y`, `crossprod()` and `tcrossprod()` of arrays, and of arrays with ordinary matrices and vectors. cuBLAS
#' computes them on a CUDA device. On the cpu R's BLAS computes them; the product of a large matrix and a vector is
#' computed by the package's own loops, on all cores. R handles an interrupt when the BLAS routine has returned.
#' Operations recorded in a factor are computed first. On a GPU the product is queued, not waited for. A transposed
#' factor (`t(x) %*% y`), or a range of a matrix's rows or columns, is not copied; for R's BLAS a float32 factor is
#' copied to doubles. The product of a matrix and its own transpose is exactly symmetric. Only half of this product is
#' computed, on a GPU if the matrix is large. Products of real matrices with extents up to 64 use a kernel of this
#' package, so that the first one does not wait for cuBLAS to be loaded. Integers and logicals become float64; float16
#' and bfloat16 are accumulated in float32.
#'
#' @section Precision:
#' Products are computed in the precision of the factors. With `options(verdigris.matmul_precision = "tf32")` float32
#' factors (complex64 too) may be rounded to 10 bits of mantissa for the tensor cores of a GPU, with `"bfloat16"` to 7
#' bits; the sums remain float32. `"float32"` is the default.
#' @param x,y Matrices or vectors, at least one of them an array; a vector is treated as the row or column that
#'   conforms.
#' @returns A matrix of class `gpu_array` on the device of the arrays, with base R's dimnames.
#' @section Errors:
#' Base R's "non-conformable arguments"; `verdigris_error_device` for arrays on different devices; on a GPU
#' `verdigris_error_library` if cuBLAS is missing (see [gpu_sitrep()]) and `verdigris_error_memory`.
#' @seealso [gpu_matmul()] for many products at once.
#' @examples
#' x <- as_gpu(matrix(1:4 / 2, 2), device = "cpu")
#' x %*% x
#' t(x) %*% c(1, 2)
#' crossprod(x)
#' @aliases %*%
#' @name matmult
#' @aliases %*%,gpu_array,ANY-method %*%,ANY,gpu_array-method %*%,gpu_array,gpu_array-method crossprod tcrossprod
#'   crossprod.gpu_array tcrossprod.gpu_array
NULL

#' @rdname matmult
#' @method %*% gpu_array
#' @export
`%*%.gpu_array` <- matrix_product

# crossprod() is generic from R 4.4 on. Before, base R's functions are interposed.
#' @rawNamespace if (getRversion() >= "4.4.0") {
#'   S3method(crossprod, gpu_array)
#'   S3method(crossprod, gpu_remote)
#'   S3method(tcrossprod, gpu_array)
#'   S3method(tcrossprod, gpu_remote)
#' } else {
#'   export(crossprod)
#'   export(tcrossprod)
#' }
NULL
if (getRversion() >= "4.4.0") {
  crossprod.gpu_array <- function(x, y = NULL, ...) cross_product(x, y)
  crossprod.gpu_remote <- crossprod.gpu_array
  tcrossprod.gpu_array <- function(x, y = NULL, ...) tcross_product(x, y)
  tcrossprod.gpu_remote <- tcrossprod.gpu_array
} else {
  crossprod <- interposed("crossprod", c("x", "y"), cross_product(x, y),
    class = c(ON_DEVICE, "gpu_split", "gpu_reader"))
  tcrossprod <- interposed("tcrossprod", c("x", "y"), tcross_product(x, y),
    class = c(ON_DEVICE, "gpu_split", "gpu_reader"))
}

# R before 4.3 dispatches `%*%` only to S4 methods, and only if an operand is an S4 object.
#' @rawNamespace if (getRversion() < "4.3.0") export("%*%")
NULL
if (getRversion() < "4.3.0") {
  base_product <- .Primitive("%*%")
  `%*%` <- function(x, y) {
    # Numbers that conform raise no error, so they need no handler.
    if (!is.object(x) && !is.object(y) && is.numeric(x) && is.numeric(y)) {
      dx <- dim(x)
      dy <- dim(y)
      if (length(dx) == 2L && if (is.null(dy)) dx[2L] == length(y) else length(dy) == 2L && dx[2L] == dy[1L])
        return(base_product(x, y))
    }
    if (is_sparse(x) || is_sparse(y)) return(sparse_product(x, y))
    if (inherits(x, "gpu_array") || inherits(y, "gpu_array")) return(matrix_product(x, y))
    if (is_remote(x) || is_remote(y)) return(remote_product(x, y, FALSE, FALSE, environment()))
    with_user_call(base_product(x, y))
  }
}

#' Batched matrix products
#'
#' Multiplies the slices of two three-dimensional arrays: `out[, , i]` is `x[, , i] %*% y[, , i]`. A matrix, or an array
#' with one slice, is a factor of every product. On a GPU the products are one call of cuBLAS, queued and not waited
#' for; transposed slices (`aperm(x, c(2, 1, 3))`) and ranges are not copied. On the cpu R's BLAS multiplies slice by
#' slice.
#' @param x,y Three-dimensional arrays or matrices, at least one of them a `gpu_array`.
#' @returns A three-dimensional `gpu_array`, rows of `x` by columns of `y` by slices, on the device of the arrays, in
#'   the dtype of [matmult]. Dimnames are not kept.
#' @section Errors:
#' `verdigris_error_shape` if the extents do not conform; `verdigris_error_argument` if an argument is neither a matrix
#' nor a three-dimensional array; the errors of [matmult].
#' @seealso [gpu_solve()] for systems and factors of many matrices.
#' @examples
#' x <- as_gpu(array(1:12, c(2, 3, 2)), device = "cpu")
#' gpu_matmul(x, aperm(x, c(2, 1, 3)))
#' gpu_matmul(x, diag(3))
#' @export
gpu_matmul <- function(x, y) {
  for (name in c("x", "y")) {
    v <- get(name)
    if (!takes_product(v) || !length(dim(v)) %in% 2:3)
      abort_argument(name, "a numeric matrix or three-dimensional array", v)
  }
  if (!is_gpu(x) && !is_gpu(y)) abort_argument("x", "an array (or `y`); see `as_gpu()`", x)
  dx <- c(dim(x), 1L)[1:3]
  dy <- c(dim(y), 1L)[1:3]
  slices <- if (dx[3L] == 1L) dy[3L] else dx[3L]
  if (dx[2L] != dy[1L] || dy[3L] != 1L && dy[3L] != slices) {
    stop_verdigris("shape", sprintf("Slices of %s cannot be multiplied by slices of %s.",
      paste(dim(x), collapse = " x "), paste(dim(y), collapse = " x ")),
                   "`x` must have as many columns as `y` has rows, and equal third extents unless one is 1.")
  }
  device <- gpu_device(if (is_gpu(x)) x else y)
  a <- as_operand_like(x, y, device)
  b <- as_operand_like(y, x, device)
  many <- c(dx[3L], dy[3L]) == slices & slices > 1L
  out <- if (device != "cpu") .Call(C_multiply_batched, a, b, as.double(c(dx[1:2], dy[2L], slices, many)),
    products$halves)
  if (is.null(out)) {
    hosts <- lapply(list(a, b), function(v) {
      v <- cpu_copy(v)
      dim(v) <- c(dim(v), 1L)[1:3]
      v
    })
    parts <- lapply(seq_len(slices), function(k) {
      base::matrix(hosts[[1L]][, , if (many[1L]) k else 1L], dx[1L], dx[2L]) %*% base::matrix(hosts[[2L]][, ,
        if (many[2L]) k else 1L], dy[1L], dy[2L])
    })
    empty <- 0 * (hosts[[1L]][0L] + hosts[[2L]][0L])
    out <- as_gpu(c(empty, unlist(parts)), dtype = product_dtype(a, b), device = device)
  }
  dim(out) <- c(dx[1L], dy[2L], slices)
  out
}
