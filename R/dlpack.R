#' Share an array's memory by DLPack
#'
#' `as_dlpack()` gives an array out to another library in this R process (torch, or Python's numpy, CuPy, JAX through
#' reticulate); `from_dlpack()` takes one in. Nothing is copied.
#'
#' The same element has the same index on both sides: an array of `dim` `c(2, 3)` goes out with shape (2, 3) and
#' strides (1, 2), since R's arrays are column-major; views such as `t(x)` go out with their own strides. Row-major
#' memory comes in as a strided view of the same shape.
#'
#' The memory lives until both sides have let go of it. R's values do not change under its feet: what goes out is
#' marked as read-only, and a consumer that writes all the same changes `x` and what shares its memory. A kernel
#' (see [gpu_kernel()]) that writes to `x` afterwards gives `x` a copy first; one that writes to an array that came in
#' writes to the other library's memory, unless that is read-only.
#'
#' A logical array goes out as bool, if it has no `NA`. What comes in as int8, int16, int32 or int64 has the
#' smallest number of the type as `NA`.
#'
#' # Order of work
#' On a CUDA device `as_dlpack()` waits until the values are there, unless it is given the consumer's `stream`, which
#' then waits instead. `from_dlpack()` expects the producer's work to be done, or queued on the device's default
#' stream, as DLPack's protocol for Python asks. A consumer that reads on a stream of its own must be done
#' with that before it deletes the tensor.
#'
#' @param x For `as_dlpack()` an array, or a tensor of torch for R (see [as_torch()]). For `print()` a capsule.
#' @param versioned Whether to use the form that DLPack has since version 1.0, which can say that data are read-only
#'   (`"dltensor_versioned"`), or the older one (`"dltensor"`).
#' @param stream `NULL`, or the address of the consumer's CUDA stream as a number; 1 is the default stream.
#' @param capsule A capsule: an external pointer tagged `dltensor` or `dltensor_versioned`. Or a Python object with
#'   `__dlpack__`, or a Python capsule.
#' @param copy `NULL` copies only what cannot be shared (host data that are not aligned); `TRUE` always copies, `FALSE`
#'   never does and fails instead.
#' @param ... Ignored.
#' @returns `as_dlpack()`: an object of class `dlpack_capsule`, an external pointer that can be used once: then its tag
#'   begins with `used_`. What is never used is freed by R's garbage collector. Given to a Python function by
#'   reticulate it becomes an object with `__dlpack__`.
#'
#'   `from_dlpack()`: an array, with `dim` where it has two dimensions or more. Host memory (pinned memory too) becomes
#'   an array on `"cpu"`.
#' @section Errors:
#' `verdigris_error_consumed` for a capsule that was used; `verdigris_error_dtype` for `NA` in a logical array, and for
#' types that arrays do not have; `verdigris_error_device`; `verdigris_error_argument`. A capsule that is refused can still be used.
#' @source DLPack 1.3, <https://dmlc.github.io/dlpack/latest/>.
#' @examples
#' x <- as_gpu(matrix(1:6, 2), device = "cpu")
#' capsule <- as_dlpack(x)
#' capsule
#' y <- from_dlpack(capsule)
#' identical(as.matrix(y), as.matrix(x))
#' capsule
#' @export
as_dlpack <- function(x, versioned = TRUE, stream = NULL) {
  if (inherits(x, "torch_tensor")) x <- as_gpu(x)
  .Call(C_dlpack_export, x, versioned, stream)
}

#' @rdname as_dlpack
#' @export
from_dlpack <- function(capsule, copy = NULL) {
  if (inherits(capsule, "python.builtin.object")) capsule <- take_from_python(capsule)
  .Call(C_dlpack_import, capsule, copy)
}

#' @rdname as_dlpack
#' @export
print.dlpack_capsule <- function(x, ...) {
  info <- .Call(C_dlpack_describe, x)
  if (!is.list(info)) {
    cat("<dlpack_capsule ", info, ">\n", sep = "")
    return(invisible(x))
  }
  extents <- function(n, separator) paste(format(n, scientific = FALSE, trim = TRUE), collapse = separator)
  shape <- if (length(info$shape)) extents(info$shape, " x ") else "0-d"
  cat("<dlpack_capsule ", info$tag, ">\n", sep = "")
  cat(sprintf("%s [%s] on %s", info$dtype, shape, info$device))
  if (length(info$strides)) cat(", strides", extents(info$strides, " "))
  if (info$read_only) cat(", read-only")
  cat("\n")
  invisible(x)
}
