#' Share an array's memory by DLPack
#'
#' `as_dlpack()` exports an array to another library in this R process (torch, or Python's numpy, CuPy and JAX by way of
#' reticulate); `from_dlpack()` imports an array of another library. Nothing is copied.
#'
#' An element has the same index on both sides: an array with `dim` `c(2, 3)` is exported with shape (2, 3) and strides
#' (1, 2), since R's arrays are column-major; views such as `t(x)` are exported with their own strides. Row-major memory
#' is imported as a strided view of the same shape.
#'
#' The memory is kept until both sides have released it.
#'
#' A logical array is exported as bool, if it has no `NA`. In imported int8, int16, int32 and int64 data the smallest
#' number of the type is `NA`. Ordinary double, integer, complex and raw vectors and `integer64` vectors can be exported
#' without a copy too: as read-only host memory, kept until the consumer has finished. Logical vectors, whose elements R
#' stores in four bytes each, and `gpu_array`s read from a file are copied.
#'
#' `vignette("dlpack")` documents the convention for packages that create or accept capsules, and the C functions that
#' they can call.
#'
#' # Visibility of writes
#' Exported memory is marked as read-only, and its consumer must not write to it unless `writable = TRUE`. The producer
#' of imported memory may write to it at any time, unless the capsule is read-only.
#'
#' As long as another library may write to the memory, R's next read returns the values that this library has written,
#' under all names of the array. Results derived from the array have the values at the time of the call: operations on
#' it are computed at once, and `x[i]` and `t(x)`, otherwise views, are copies ([gpu_as_strided()] is still a view).
#' Values that R writes in place, by [gpu_compute()] with `out` and by kernels, are visible to the other library.
#' `x[i] <- value` creates a new array, as always.
#'
#' An array that was exported read-only and imported again is read-only, even by the older form of capsule, which cannot
#' express this. While `x` itself still exists, and R may write to it by `out`, it counts as memory that others write
#' to. Parts derived from read-only memory are copies: if `x[1:3]` is exported as writable, or viewed by
#' [gpu_as_strided()], it first moves to memory of its own. Operations recorded on `x` before it is exported as writable
#' keep their values: if there are any, or a view, `x` first moves to memory of its own.
#'
#' # Order of work
#' On a CUDA device `as_dlpack()` waits until the values have been computed, unless it is given the consumer's `stream`,
#' which then waits instead. `from_dlpack()` requires that the producer's work be finished, or queued on the device's
#' default stream, as DLPack's protocol for Python specifies. Later work of other libraries on the default stream, or on
#' streams that wait for it, is ordered with this package's. A consumer that works on another stream must have finished
#' before R uses the array, and before it deletes the tensor.
#'
#' @param x For `as_dlpack()` an array, an ordinary vector, or a tensor of torch for R (see [as_torch()]). For `print()`
#'   a capsule.
#' @param versioned Whether to use the form of DLPack 1.0 and later, which can express that data are read-only
#'   (`"dltensor_versioned"`), or the older form (`"dltensor"`).
#' @param stream `NULL`, or the consumer's CUDA stream: a [gpu_stream()], or an address (1 is the default stream) as
#'   accepted by [gpu_from_pointer()]; `-1` if no stream is to wait.
#' @param writable Whether the consumer may write. Not possible for ordinary vectors, memory that was imported
#'   read-only, and views with overlapping elements.
#' @param capsule A capsule: an external pointer tagged `dltensor` or `dltensor_versioned`. Or a Python object with
#'   `__dlpack__`, or a Python capsule.
#' @param copy `NULL` copies only data that cannot be shared (unaligned host data); `TRUE` always copies, `FALSE` never
#'   does and fails instead.
#' @param ... Ignored.
#' @returns `as_dlpack()`: an object of class `dlpack_capsule`, an external pointer that can be used once; after that
#'   its tag begins with `used_`. An unused capsule is freed by R's garbage collector. If it is passed to a Python
#'   function by reticulate, it becomes an object with `__dlpack__`.
#'
#'   `from_dlpack()`: an array, with `dim` if it has two dimensions or more. Host memory (pinned memory too) becomes
#'   an array on `"cpu"`.
#' @section Errors:
#' `verdigris_error_consumed` for a capsule that was used; `verdigris_error_dtype` for `NA` in a logical array, and for
#' types that arrays do not have; `verdigris_error_device`; `verdigris_error_shape` for extents that `dim` cannot hold,
#' and for writable memory with overlapping elements; `verdigris_error_argument` for an object that is not a capsule, or
#' a capsule that is inconsistent or points to invalid memory. A capsule that was refused can still be used.
#' @source DLPack 1.3, <https://dmlc.github.io/dlpack/latest/>.
#' @examples
#' x <- as_gpu(matrix(1:6, 2), device = "cpu")
#' capsule <- as_dlpack(x)
#' capsule
#' y <- from_dlpack(capsule)
#' identical(as.matrix(y), as.matrix(x))
#' capsule
#'
#' plain <- c(1, 2, 3)
#' from_dlpack(as_dlpack(plain))
#' @export
as_dlpack <- function(x, versioned = TRUE, stream = NULL, writable = FALSE) .External2(C_as_dlpack)

# as_dlpack() of what C cannot export directly: torch tensors and logical vectors; errors for anything else.
as_dlpack_other <- function(x, versioned, stream, writable) {
  if (inherits(x, "torch_tensor")) return(.Call(C_dlpack_export, as_gpu(x), versioned, stream, writable))
  if (is.logical(x) && !is.object(x)) {
    if (writable) stop_verdigris("argument", "An ordinary R vector cannot be exported as writable.",
      call = parent.frame())
    return(.Call(C_dlpack_export, as_gpu(x, device = "cpu"), versioned, stream, FALSE))
  }
  stop_verdigris(
    "argument", sprintf("`x` must be a GPU array or a vector of numbers, not %s.", describe(x)),
      "Use `as_gpu(x)` first.",
    call = parent.frame()
  )
}

#' @rdname as_dlpack
#' @export
from_dlpack <- function(capsule, copy = NULL) .External2(C_from_dlpack)

# from_dlpack() of Python objects; errors for anything else that is not an external pointer.
from_dlpack_other <- function(capsule, copy) {
  if (!inherits(capsule, "python.builtin.object")) {
    stop_verdigris(
      "argument", sprintf("`capsule` must be a DLPack capsule, not %s.", describe(capsule)),
      "A capsule comes from `as_dlpack(x)`, or from another package's export.",
      call = parent.frame()
    )
  }
  .Call(C_dlpack_import, take_from_python(capsule), copy)
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
