#' Share an array's memory by DLPack
#'
#' `as_dlpack()` gives an array out to another library in this R process (torch, or Python's numpy, CuPy, JAX through
#' reticulate); `from_dlpack()` takes one in. Nothing is copied.
#'
#' The same element has the same index on both sides: an array of `dim` `c(2, 3)` goes out with shape (2, 3) and
#' strides (1, 2), since R's arrays are column-major; views such as `t(x)` go out with their own strides. Row-major
#' memory comes in as a strided view of the same shape.
#'
#' The memory lives until both sides have let go of it.
#'
#' A logical array goes out as bool, if it has no `NA`. What comes in as int8, int16, int32 or int64 has the smallest
#' number of the type as `NA`. Ordinary double, integer, complex and raw vectors and `integer64` go out as they are too:
#' as host memory, read-only, kept until the consumer is done. Logical vectors, whose elements R keeps in four bytes
#' each, and `gpu_array`s from a file are copied.
#'
#' vignette("dlpack") is the convention for other packages that make or take capsules, and describes the C functions
#' that they can call.
#'
#' # Who sees what
#' What goes out is marked as read-only, and its consumer must not write to it; `writable = TRUE` allows it. What comes
#' in may be written to by its producer at any time, unless the capsule says read-only.
#'
#' While someone who may write lives, R's next read of the array sees what he has written, under all its names. What is
#' made of it has the values of that moment: operations on it are computed at once, and `x[i]` or `t(x)` are copies,
#' where they would be views else ([gpu_as_strided()] is one still). What R writes to the memory where it lies, by
#' [gpu_compute()] with `out` and kernels, he sees. `x[i] <- value` makes a new array, as always. What comes back of an
#' array that went out read-only is read-only, also in the older form, which cannot say so. While `x` lives, which R may
#' write to by `out`, it is taken for memory that others write to. What is made of it is R's copy, a part too: where
#' `x[1:3]` of read-only memory is given out to be written to, or [gpu_as_strided()] is asked for a view of it, it moves
#' to memory of its own first. What was recorded on `x` before it is given out to be written to keeps its values: if
#' there is any, or a view, `x` moves to memory of its own first.
#'
#' # Order of work
#' On a CUDA device `as_dlpack()` waits until the values are there, unless it is given the consumer's `stream`, which
#' then waits instead. `from_dlpack()` expects the producer's work to be done, or queued on the device's default stream,
#' as DLPack's protocol for Python asks. Later work of others on the default stream, or on streams that wait for it, and
#' ours are kept in order. A consumer that works on a stream of its own must be done with that before R uses the array,
#' and before it deletes the tensor.
#'
#' @param x For `as_dlpack()` an array, an ordinary vector, or a tensor of torch for R (see [as_torch()]). For `print()`
#'   a capsule.
#' @param versioned Whether to use the form that DLPack has since version 1.0, which can say that data are read-only
#'   (`"dltensor_versioned"`), or the older one (`"dltensor"`).
#' @param stream `NULL`, or the consumer's CUDA stream: what [gpu_stream()] gave, or an address (1 is the default
#'   stream), as [gpu_from_pointer()] takes them; `-1` if nobody is to wait.
#' @param writable Whether the consumer may write. Not for ordinary vectors, memory that came in read-only, and views
#'   whose elements overlap.
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
#' types that arrays do not have; `verdigris_error_device`; `verdigris_error_shape` for extents that `dim` cannot say,
#' and writable memory in which elements overlap; `verdigris_error_argument` for what is no capsule, or one that
#' contradicts itself or points to what is no memory. A capsule that is refused can still be used.
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

# What is neither an array nor a vector whose elements lie as a dtype has them.
as_dlpack_other <- function(x, versioned, stream, writable) {
  if (inherits(x, "torch_tensor")) return(.Call(C_dlpack_export, as_gpu(x), versioned, stream, writable))
  if (is.logical(x) && !is.object(x)) {
    if (writable) stop_verdigris("argument", "An ordinary R vector cannot be given out to be written to.",
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

# What is no external pointer.
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
