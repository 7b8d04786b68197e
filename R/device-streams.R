#' Streams and events
#'
#' Work on a GPU is queued on a stream and runs in the order of the calls. One stream exists from the start, and most
#' code needs no other. With two streams a copy and a kernel, or two small kernels, can run at the same time.
#'
#' Work is queued on the stream that is current when it is *computed*. Arithmetic is recorded first and computed later,
#' on the stream that is current then, so end a block with [gpu_compute()]. A kernel is called with `stream =` (see
#' [gpu_kernel()]), and [as_dlpack()] takes the stream on which a capsule will be used.
#'
#' Streams need no care for correctness. Each array records its last uses. If work on one stream reads data that another
#' stream writes, or writes data that another stream reads, it waits on the device for this other work only; memory that
#' was freed is not reused before all streams have finished with it. Warnings ("NaNs produced") are raised when their
#' stream is waited for. Programs that create no stream have no cost for this order; after the first `gpu_stream()` each
#' operation also records an event.
#'
#' An event marks a point in a stream's work. `gpu_event_record()` puts it behind the work queued so far,
#' `gpu_event_wait()` makes another stream wait for it, and `gpu_event_elapsed()` returns the time between two events.
#' Arrays need events for timing only. A [gpu_copy()] to a pinned vector is different: the host must wait for it, with
#' `gpu_sync(event)`.
#'
#' On the cpu device work is complete when a call returns. Streams are accepted there but have no effect, and events
#' record the time of the host's clock.
#'
#' @param priority A whole number. If kernels of several streams are waiting, those of the stream with the higher
#'   priority are run first. Devices have a few levels starting at 0; the nearest level is used.
#' @param device A device's name; `NULL` is the current device.
#' @param stream A stream made by `gpu_stream()`. `NULL` is the stream that exists from the start or, for
#'   `gpu_event_record()` and `gpu_event_wait()`, the current stream.
#' @param expr Code to run while `stream` is its device's current stream.
#' @param event,from,to Events made by `gpu_event()`. `gpu_event_wait()` also takes a stream, and then waits for all
#'   work queued on it so far.
#' @param .local_envir The frame whose exit restores the previous stream.
#' @returns
#' - `gpu_stream()`: an object of class `gpu_stream`. It is valid in this session; when R collects it, its work
#'   continues.
#' - `with_gpu_stream()`: the value of `expr`.
#' - `local_gpu_stream()`: `stream`, invisibly.
#' - `gpu_event()`: an object of class `gpu_event`.
#' - `gpu_event_record()`, `gpu_event_wait()`: `event`, invisibly. Neither waits.
#' - `gpu_event_elapsed()`: seconds from `from` to `to`. Waits for both.
#' @section Errors:
#' `verdigris_error_argument` for an argument that is not a stream or an event, and for an event that was not recorded;
#' `verdigris_error_device` for streams and events of different devices; `verdigris_error_capture` where the stream is
#' changed or an event is used while [gpu_graph()] records.
#' @seealso [gpu_sync()] waits for a stream, an event or a device. [gpu_graph()] and [gpu_time()].
#' @examples
#' s <- gpu_stream(device = "cpu")
#' x <- as_gpu(runif(1e4), device = "cpu")
#' y <- with_gpu_stream(s, gpu_compute(sqrt(x) + 1))
#' sum(y - 1) # waits for `y` alone
#'
#' from <- gpu_event_record(gpu_event("cpu"))
#' gpu_compute(exp(x))
#' to <- gpu_event_record(gpu_event("cpu"))
#' gpu_event_elapsed(from, to)
#' @name gpu_stream
#' @export
gpu_stream <- function(priority = 0, device = NULL) {
  if (!is.numeric(priority) || length(priority) != 1L || is.na(priority))
    abort_argument("priority", "one whole number", priority)
  structure(.Call(C_stream_new, device, as.double(priority)), class = "gpu_stream")
}

# The current stream of each device, by the device's name; none for the default stream. The reference keeps R from
# collecting the stream.
current_streams <- new.env(parent = emptyenv())

# Makes a stream the current one of its device. Returns a function that restores the previous one.
select_stream <- function(stream, call = parent.frame()) {
  if (!is.null(stream) && !inherits(stream, "gpu_stream"))
    abort_argument("stream", "a stream made by gpu_stream(), or NULL", stream, call)
  device <- .Call(C_stream_select, stream, NULL)
  before <- current_streams[[device]]
  assign(device, stream, envir = current_streams)
  function() {
    .Call(C_stream_select, before, device)
    assign(device, before, envir = current_streams)
  }
}

#' @rdname gpu_stream
#' @export
with_gpu_stream <- function(stream, expr) {
  restore <- select_stream(stream)
  on.exit(restore())
  expr
}

#' @rdname gpu_stream
#' @export
local_gpu_stream <- function(stream, .local_envir = parent.frame()) {
  if (!is.environment(.local_envir)) abort_argument(".local_envir", "an environment", .local_envir)
  if (identical(.local_envir, globalenv())) {
    stop_verdigris("argument", "`local_gpu_stream()` must be called in a function.",
      "Use `with_gpu_stream(stream, expr)`.")
  }
  restore <- select_stream(stream)
  do.call(on.exit, list(as.call(list(restore)), add = TRUE, after = FALSE), envir = .local_envir)
  invisible(stream)
}

#' @rdname gpu_stream
#' @export
gpu_event <- function(device = NULL) structure(.Call(C_event_new, device), class = "gpu_event")

#' @rdname gpu_stream
#' @export
gpu_event_record <- function(event, stream = NULL) {
  .Call(C_event_record, event, stream)
  invisible(event)
}

#' @rdname gpu_stream
#' @export
gpu_event_wait <- function(event, stream = NULL) {
  if (inherits(event, "gpu_stream")) .Call(C_stream_join, event, stream) else .Call(C_event_await, event, stream)
  invisible(event)
}

#' @rdname gpu_stream
#' @export
gpu_event_elapsed <- function(from, to) .Call(C_event_elapsed, from, to)

#' @export
print.gpu_stream <- function(x, ...) {
  info <- .Call(C_stream_info, x)
  cat(sprintf("<gpu_stream> %d of %s, priority %d, %s\n", info$number, info$device, info$priority,
    if (info$idle) "idle" else "at work"))
  invisible(x)
}

#' @export
print.gpu_event <- function(x, ...) {
  info <- .Call(C_event_info, x)
  cat(sprintf("<gpu_event> of %s, %s\n", info$device, if (!info$recorded) "not recorded" else if (info$done) "done" else
    "to come"))
  invisible(x)
}
