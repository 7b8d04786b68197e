#' Ordinary vectors in page-locked memory
#'
#' A GPU copies at the full speed of the bus, and while the host does other work, if the pages of the host's memory are
#' locked. Here such memory is an R vector like any other: it has no class, every function accepts it, and `x[i] <- v`
#' writes to it in place as long as it has one name. (`source()` and knitr keep a reference to the value that they have
#' just evaluated, which counts as a second name: prefer `as_pinned(v)` to `x <- gpu_pinned(n); x[] <- v` there.)
#'
#' `gpu_copy(from, to)` overwrites the elements of `to`, in place, by the elements of `from`: `to` changes under all its
#' names. Operations recorded on an array before, and arrays that share its memory, keep the old values. Between a
#' pinned vector and an array with the same element type (double and float64, integer and int32, complex and complex128)
#' the copy is *queued*: the call returns at once. Do not modify `from`, or read `to`, before the copy has ended: call
#' `gpu_sync()`, or record an event after the copy ([gpu_event_record()]) and call `gpu_sync(event)`. Arrays need no
#' such care. All other copies have ended when the call returns.
#'
#' [as_gpu()] and `as.vector()` work as usual; for pinned vectors of several megabytes they also run at the speed of the
#' bus, and wait.
#'
#' Copies that R makes of a pinned vector (`y <- x; y[1] <- 0`, arithmetic) are ordinary vectors. Page-locked memory
#' cannot be paged out, so there is a limit: a quarter of the machine's memory, or option `verdigris.pinned_limit` in
#' bytes. The memory of vectors that R has collected is kept for new ones; `gpu_memory()` counts it as `pinned`, and
#' `gpu_memory(trim = TRUE)` releases it. Every vector takes at least a megabyte. `gpu_free(x)` unlocks a pinned vector
#' at once; it becomes an ordinary vector. On the cpu device a pinned vector is in ordinary memory, and every copy has
#' ended when the call returns.
#'
#' @param n The number of elements.
#' @param dtype `"double"`, `"integer"`, `"logical"` or `"complex"`.
#' @param x A logical, integer, double or complex vector, matrix or array.
#' @param device A device's name; `NULL` is the current device. Memory locked for one GPU is locked for all of them.
#' @param from An array, or a host vector; one of `from` and `to` must be an array.
#' @param to An array, or a pinned vector, of the same length.
#' @returns `gpu_pinned()`: a vector of zeros (`FALSE`). `as_pinned()`: a pinned copy of `x` with its attributes.
#'   `is_pinned()`: `TRUE` or `FALSE`. `gpu_copy()`: `to`, invisibly.
#' @section Errors:
#' `verdigris_error_memory` beyond the limit; `verdigris_error_shape` if the lengths differ; `verdigris_error_argument`
#' if `to` is an ordinary vector or neither is an array; `verdigris_error_dtype` for values that `to` cannot hold.
#' Nothing has changed in these cases.
#' @seealso [gpu_stream()], to copy and compute at the same time.
#' @examples
#' x <- gpu_pinned(5, device = "cpu")
#' x[2] <- 7
#' a <- gpu_zeros(5, device = "cpu")
#' gpu_copy(x, a)
#' a
#' gpu_copy(a * 2, x)
#' gpu_sync("cpu")
#' x
#' @export
gpu_pinned <- function(n, dtype = "double", device = NULL) .Call(C_pinned_new, n, dtype, device)

#' @rdname gpu_pinned
#' @export
as_pinned <- function(x, device = NULL) {
  if (is_gpu(x)) x <- collect(x)
  .Call(C_pinned_copy, x, device)
}

#' @rdname gpu_pinned
#' @export
is_pinned <- function(x) .Call(C_pinned_is, x)

#' @rdname gpu_pinned
#' @export
gpu_copy <- function(from, to) invisible(.Call(C_copy, from, to))
