#' List and choose devices
#'
#' An array is stored on one device: `"cpu"`, or an NVIDIA GPU, `"cuda"` (the first one, also `"cuda:0"`), `"cuda:1"`
#' and so on. Functions that create arrays use the current device unless another is named. The current device is the
#' device chosen by `gpu_use()`, else option `verdigris.device`, else the first GPU that works, else the cpu. There is
#' no fallback for a device that is named: if it cannot be used, an error is raised.
#'
#' Operations run on the device of their operands, whatever the current device is. Work on a GPU is queued: `gpu_sync()`
#' waits for it. This is needed only for timing, since every function that reads values waits by itself. Warnings of the
#' work that has run are raised at that point.
#'
#' @param device `"cpu"`, `"cuda"` or `"cuda:1"` and so on. `NULL` is the current device; for `gpu_use()` it undoes the
#'   choice. `gpu_sync()` also takes a stream or an event ([gpu_stream()]), and waits only for this stream or event.
#' @param expr Code to run while `device` is the current one.
#' @param .local_envir The environment (of a function's call) whose exit restores the previous device.
#' @returns
#' - `gpu_devices()`: a data frame with a row for each device: `device`; `name`, the product; `memory` in bytes (`NA`
#'   if unknown); `capability`, the compute capability, `""` for the cpu; `processors`, its multiprocessors or
#'   threads; and `current`. A driver library that exists but cannot be loaded, such as a truncated file, is
#'   reported by a warning.
#' - `gpu_available()`: whether the driver reports that device, or, without an argument, any GPU; always `TRUE` for
#'   `"cpu"`, and `FALSE` for an argument that does not name a device. It never fails, compiles nothing and does not
#'   initialise a GPU, so it says nothing about CUDA's libraries; [gpu_sitrep()] does.
#' - `gpu_use()`, `local_gpu()`: the name of the previously chosen device, or `NULL`, invisibly.
#' - `with_gpu()`: the value of `expr`.
#' - `gpu_sync()`: `NULL`, invisibly.
#'
#' @section Errors:
#' `verdigris_error_device` if the device does not exist, `verdigris_error_library` if the driver is missing,
#' `verdigris_error_fork` in a process that was forked after CUDA was initialised.
#' @seealso [gpu_sitrep()] explains why a GPU is not found, [gpu_memory()] shows how much memory is in use.
#' @examples
#' gpu_devices()
#' gpu_available()
#' with_gpu("cpu", gpu_device(as_gpu(1:3)))
#'
#' f <- function(x) {
#'   local_gpu("cpu")
#'   sum(as_gpu(x)^2)
#' }
#' f(1:3)
#' gpu_sync("cpu")
#' @name gpu_devices
#' @export
gpu_devices <- function() {
  if (!is.null(problem <- .Call(C_driver_problem))) {
    warning(paste0(sub("^the", "The", problem), ". `gpu_sitrep()` tells more."), call. = FALSE)
  }
  device_table()
}

device_table <- function() {
  devices <- as.data.frame(.Call(C_device_list), stringsAsFactors = FALSE)
  devices$current <- devices$device == .Call(C_device_current)
  devices
}

#' @rdname gpu_devices
#' @export
gpu_available <- function(device = NULL) {
  there <- tryCatch(suppressWarnings(.Call(C_device_list)$device), error = function(e) "cpu")
  if (is.null(device)) return(any(there != "cpu"))
  if (!is.character(device) || is.object(device) || length(device) != 1L) return(FALSE)
  if (identical(c(device), "cuda")) device <- "cuda:0"
  isTRUE(c(device) %in% there)
}

#' @rdname gpu_devices
#' @export
gpu_use <- function(device) {
  invisible(.Call(C_device_use, device))
}

#' @rdname gpu_devices
#' @export
with_gpu <- function(device, expr) {
  before <- .Call(C_device_use, device)
  on.exit(.Call(C_device_use, before))
  expr
}

#' @rdname gpu_devices
#' @export
local_gpu <- function(device, .local_envir = parent.frame()) {
  if (!is.environment(.local_envir)) abort_argument(".local_envir", "an environment", .local_envir)
  if (identical(.local_envir, globalenv())) {
    stop_verdigris(
      "argument", "`local_gpu()` must be called in a function.",
      "Use `gpu_use(device)` for the session, or `with_gpu(device, expr)`."
    )
  }
  before <- .Call(C_device_use, device)
  restore <- function() .Call(C_device_use, before)
  do.call(on.exit, list(as.call(list(restore)), add = TRUE, after = FALSE), envir = .local_envir)
  invisible(before)
}

#' @rdname gpu_devices
#' @export
gpu_sync <- function(device = NULL) {
  if (inherits(device, "gpu_stream")) return(invisible(.Call(C_stream_sync, device)))
  if (inherits(device, "gpu_event")) return(invisible(.Call(C_event_sync, device)))
  invisible(.Call(C_device_sync, device))
}

#' Device memory
#'
#' `gpu_memory()` reports the memory of a device. `gpu_free()` releases the memory of an array at once, which R would
#' otherwise do at a later garbage collection.
#'
#' Memory that arrays no longer need stays in the device's pool for new arrays, and is not available to other programs;
#' `gpu_memory(trim = TRUE)` returns it to the system, after a garbage collection and once the device has finished its
#' work.
#'
#' R's garbage collector does not see device memory, so it is started when the arrays have grown considerably since the
#' last collection (for at most 5% of the time until three quarters of the limit are used). If there is no memory for an
#' array, the following is tried in turn: waiting for queued work, a quick collection, releasing the pool's memory, a
#' full collection, and, on a GPU, moving the least recently used arrays to the host, from which they return when they
#' are used. If all of this fails, an error lists the largest arrays and the calls that created them. Option
#' `verdigris.memory_limit` sets a lower limit than the device's own.
#'
#' An array that was freed keeps its length and can be removed; using its elements is an error, also under its other
#' names. Memory that it shares with another array (a copy, a slice, a recorded operation) is kept until that array is
#' freed too.
#'
#' @inheritParams gpu_devices
#' @param trim Whether to collect garbage and return unused memory to the system first.
#' @param x An array; or a pinned vector ([gpu_pinned()]), whose pages are unlocked, and which becomes an ordinary
#'   vector.
#' @returns `gpu_memory()`: bytes, a named vector of class `gpu_memory`: `live`, used by arrays; `pending`, used by
#'   arrays that R has collected and that the next call frees; `cached`, kept in the pool; `pinned`, page-locked memory
#'   of the host; `limit`, the most that arrays may use; `free` and `total`, of the whole device (`NA` for the cpu).
#'   `gpu_free()`: `NULL`, invisibly.
#' @section Errors:
#' `verdigris_error_consumed` for the use of an array that was freed; `verdigris_error_argument` for an option that is
#' not a valid limit.
#' @examples
#' x <- as_gpu(runif(1e5), device = "cpu")
#' gpu_memory("cpu")
#' gpu_free(x)
#' gpu_memory("cpu")
#' @export
gpu_memory <- function(device = NULL, trim = FALSE) {
  if (!isTRUE(trim) && !isFALSE(trim)) abort_argument("trim", "TRUE or FALSE", trim)
  if (trim) {
    gc()
    .Call(C_device_trim, device)
  }
  bytes <- stats::setNames(.Call(C_device_memory, device), c("live", "pending", "cached", "pinned", "limit", "free",
    "total"))
  structure(bytes, class = "gpu_memory")
}

# Bytes that new arrays may take: within the limit, and on a GPU at most what other programs leave.
free_memory <- function(device) {
  memory <- gpu_memory(device)
  free <- memory[["limit"]] - memory[["live"]]
  if (is.na(memory[["free"]])) free else min(free, memory[["free"]] + memory[["cached"]])
}

#' @export
format.gpu_memory <- function(x, ...) {
  vapply(unclass(x), function(n) if (is.na(n)) "unknown" else format_bytes(n), "")
}

#' @export
print.gpu_memory <- function(x, ...) {
  text <- format(x)
  cat(sprintf("%s %s\n", format(names(text)), format(text, justify = "right")), sep = "")
  invisible(x)
}

#' @rdname gpu_memory
#' @export
gpu_free <- function(x) {
  if (is_sparse(x)) stop_verdigris("argument", "`gpu_free()` takes an array, not a sparse matrix.",
    "Matrices share their structure; `gpu_free(S@x)` frees the values of this one.")
  if (!is_gpu(x) && .Call(C_pinned_unlock, x)) return(invisible())
  invisible(.Call(C_free, x))
}
