#' Ordinary vectors in page-locked memory
#'
#' A GPU copies at the bus's full speed, and while the host does something else, from and to memory whose pages are
#' locked. Here such memory is an R vector like others: it has no class, every function takes it, and it is written in
#' place by `x[i] <- v` as any vector is that has one name. (`source()` and knitr hold on to what they have just
#' evaluated, as a second name: there `as_pinned(v)` is better than `x <- gpu_pinned(n); x[] <- v`.)
#'
#' `gpu_copy(from, to)` writes the elements of `from` over those of `to`, where they are: an array or a pinned vector
#' changes under all its names. What was recorded on an array before, and arrays that share its memory, keep the old
#' values. Between a pinned vector and an array whose elements are stored alike (double and float64, integer and int32,
#' complex and complex128) the copy is *queued*: the call returns at once. Then do not write to `from`, or read `to`,
#' before the copy has ended: call `gpu_sync()`, or record an event behind the copy ([gpu_event_record()]) and call
#' `gpu_sync(event)`. Arrays need no such care. All other copies are done when the call returns.
#'
#' [as_gpu()] and `as.vector()` work as ever; from and to pinned vectors of some megabytes they too run at the bus's
#' speed, and wait.
#'
#' Copies that R makes of a pinned vector (`y <- x; y[1] <- 0`, arithmetic) are ordinary vectors. Page-locked memory
#' cannot be paged out, so there is a limit: a quarter of the machine's memory, or option `verdigris.pinned_limit` in
#' bytes. The memory of vectors that R has collected is kept for the next ones; `gpu_memory()` counts it as `pinned`,
#' and `gpu_memory(trim = TRUE)` gives it back. Every vector takes at least a megabyte. `gpu_free(x)` unlocks a pinned
#' vector at once, which stays as an ordinary one. On the cpu device this is ordinary memory, and every copy is done at
#' once.
#'
#' @param n How many elements.
#' @param type `"double"`, `"integer"`, `"logical"` or `"complex"`.
#' @param x A logical, integer, double or complex vector, matrix or array.
#' @param device A device's name; `NULL` is the current device. Memory that is locked for one GPU is for all of them.
#' @param from An array, or a host vector; one of `from` and `to` must be an array.
#' @param to An array, or a pinned vector, of the same length.
#' @returns `gpu_pinned()`: a vector of zeros (`FALSE`). `as_pinned()`: a pinned copy of `x` with its attributes.
#'   `is_pinned()`: `TRUE` or `FALSE`. `gpu_copy()`: `to`, invisibly.
#' @section Errors:
#' `verdigris_error_memory` beyond the limit; `verdigris_error_shape` where lengths differ; `verdigris_error_argument`
#' where `to` is an ordinary vector or neither is an array; `verdigris_error_dtype` for what such vectors cannot hold.
#' Nothing has changed then.
#' @seealso [gpu_stream()], to copy while something else is computed.
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
gpu_pinned <- function(n, type = "double", device = NULL) .Call(C_pinned_new, n, type, device)

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
