#' Strided memory and views
#'
#' `gpu_empty()` allocates uninitialised memory in which neighbours along each dimension are `strides` elements apart.
#' `gpu_as_strided()` returns another view of an array's memory: any window, diagonal or repetition that can be
#' expressed by extents and strides.
#'
#' Strides are counted in elements, not bytes. The memory of `x` holds its elements in column-major order (an array
#' stored otherwise is made contiguous first); memory that came from another library or was allocated with strides is
#' used as it is, as far as `x` extends. Element `[i, j]` of a view is
#' `offset + (i - 1) * strides[1] + (j - 1) * strides[2]` elements after the first element of `x`. A stride of 0 repeats
#' an element, a negative stride walks backwards.
#'
#' In R, modifying one variable does not change another. These views are the exception: a view and `x` share memory, and
#' values written in place to one of them ([gpu_compute()] with `out`, a kernel, another library) are visible in the
#' other as long as both exist. During that time operations on them are computed at once, and values read on the host
#' are not cached. Operations recorded earlier keep their values: if there are any, `x` first moves to memory of its
#' own. A part of read-only memory also moves to memory of its own. A view of memory that was received read-only is
#' read-only: writing to it moves it to memory of its own and leaves `x` unchanged. `x[i] <- value` creates a new array,
#' as always, and does not write to the shared memory.
#'
#' If elements overlap, as with `dim = c(4, 3), strides = c(2, 1)`, the view can be read but not written to.
#'
#' @param dim The length of a vector, or the dimensions of a matrix or array.
#' @param strides The distance between neighbours along each dimension, in elements; column-major by default. Must not
#'   be negative for `gpu_empty()`.
#' @param dtype,device As in [as_gpu()].
#' @param x An array. Recorded operations are computed.
#' @param offset The start of the view, in elements from the first one of `x`.
#' @returns An array. The elements of `gpu_empty()` are arbitrary: it is meant to be written to.
#' @section Errors:
#' `verdigris_error_shape` if a view would extend beyond the memory of `x`, if extents and strides exceed the address
#' space, and for writes to overlapping elements; `verdigris_error_argument`, `verdigris_error_dtype`,
#' `verdigris_error_device` for invalid arguments; `verdigris_error_memory` if there is not enough memory.
#' @seealso [gpu_pointer()] for the address, [as_dlpack()] to share the memory with another library.
#' @examples
#' dim(gpu_empty(c(2, 2), device = "cpu"))
#'
#' x <- as_gpu(as.numeric(1:6), device = "cpu")
#' windows <- gpu_as_strided(x, dim = c(3, 4), strides = c(1, 1))
#' windows
#' evens <- gpu_as_strided(x, dim = 3, strides = 2, offset = 1)
#' gpu_compute(evens * 10, out = evens)
#' x
#' @export
gpu_empty <- function(dim, dtype = NULL, device = NULL, strides = NULL) {
  dtype <- dtype %||% float_dtype(parent.frame()) %||% "float64"
  dim <- as_extents(dim)
  strides <- if (is.null(strides)) column_major(dim) else as_strides(strides, dim)
  if (any(strides < 0)) abort_argument("strides", "0 or more in new memory", strides)
  shaped(.Call(C_empty, dim, strides, dtype, device), dim)
}

#' @rdname gpu_empty
#' @export
gpu_as_strided <- function(x, dim, strides = NULL, offset = 0) {
  if (!is_gpu(x)) abort_argument("x", "a GPU array", x)
  dim <- as_extents(dim)
  strides <- if (is.null(strides)) column_major(dim) else as_strides(strides, dim)
  if (!is.numeric(offset) || length(offset) != 1L || !is.finite(offset) || offset != trunc(offset))
    abort_argument("offset", "one whole number", offset)
  .Call(C_as_strided, x, dim, strides, offset)
}

column_major <- function(dim) cumprod(c(1, dim))[seq_along(dim)]

as_strides <- function(strides, dim, call = parent.frame()) {
  usable <- is.numeric(strides) && length(strides) == length(dim) && all(is.finite(strides))
  if (!usable || any(strides != trunc(strides))) {
    abort_argument("strides", "a whole number for each dimension", strides, call)
  }
  as.double(strides)
}
