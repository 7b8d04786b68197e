#' Strided memory and views
#'
#' `gpu_empty()` allocates memory that nothing is written to, with neighbours along each dimension as far apart as
#' `strides` says. `gpu_as_strided()` is another view of an array's memory: any window, diagonal or repetition that
#' extents and strides can say.
#'
#' Strides count elements, not bytes. The memory of `x` is its elements, column after column (what is not like that is
#' brought together first); but of memory that came from elsewhere or was made with strides it is what `x` reaches, as
#' it lies. Element `[i, j]` of a view lies `offset + (i - 1) * strides[1] + (j - 1) * strides[2]` elements behind the
#' first element of `x`. A stride of 0 repeats, a negative one walks backwards.
#'
#' Values in R do not change under other names, and these views are the exception that one asks for: a view and `x`
#' share memory, and what is written to one where it lies ([gpu_compute()] with `out`, a kernel, another library) is
#' seen in both as long as both live. Meanwhile operations on them are computed at once and reads are not kept. What was
#' recorded before keeps its values: if there is any, `x` moves to memory of its own first, and so does a part of
#' read-only memory. A view of memory that came in read-only is read-only: what is written to it moves it to memory of
#' its own, and `x` stays as it is. `x[i] <- value` makes a new array, as always, and leaves the memory alone.
#'
#' Where elements overlap, as with `dim = c(4, 3), strides = c(2, 1)`, reads work and writes are refused.
#'
#' @param dim The length of a vector, or the dimensions of a matrix or array.
#' @param strides How many elements apart neighbours along each dimension are; by default column after column. For
#'   `gpu_empty()` 0 or more.
#' @param dtype,device As in [as_gpu()].
#' @param x An array. What is recorded is computed.
#' @param offset Where the view begins, in elements from the first one of `x`.
#' @returns An array. The elements of `gpu_empty()` are whatever the memory holds: it is made to be written to.
#' @section Errors:
#' `verdigris_error_shape` where a view would leave the memory of `x`, where extents and strides are larger than memory
#' can be, and for writes where elements overlap; `verdigris_error_argument`, `verdigris_error_dtype`,
#' `verdigris_error_device` for wrong arguments; `verdigris_error_memory` where there is no room.
#' @seealso [gpu_pointer()] for the address, [as_dlpack()] to give the memory to another library.
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
