#' List and choose devices
#'
#' An array lives on one device: `"cpu"`, or an NVIDIA GPU, `"cuda"` (the first one, also `"cuda:0"`), `"cuda:1"` and so
#' on. What makes arrays without naming a device uses the current one. That is the choice of `gpu_use()`, else option
#' `verdigris.device`, else the first GPU if one works, else the cpu. A device that is named is used or it is
#' an error; nothing falls back from it.
#'
#' Operations run where their operands are, whatever the current device is. Work on a GPU is queued: `gpu_sync()`
#' waits for it, which is needed only for timing, since whatever reads values waits by itself. Warnings of what ran
#' come then.
#'
#' @param device `"cpu"`, `"cuda"` or `"cuda:1"` and so on. `NULL` is the current device; for `gpu_use()` it
#'   takes back the choice. `gpu_sync()` also takes a stream or an event ([gpu_stream()]), and waits for that alone.
#' @param code Code to run while `device` is the current one.
#' @param .local_envir The environment (of a function's call) at whose end the device before comes back.
#' @returns
#' - `gpu_devices()`: a data frame with a row for each device: `device`; `name`, the product; `memory` in bytes (`NA`
#'   where unknown); `capability`, the compute capability, `""` for the cpu; `processors`, its multiprocessors or
#'   threads; and `current`. A driver that is there and whose library cannot be loaded, such as a truncated file, is a
#'   warning.
#' - `gpu_available()`: whether the driver shows that device, or, without an argument, any GPU; always `TRUE` for
#'   `"cpu"`, `FALSE` for what names no device. It never fails, compiles nothing and starts no GPU, so it says nothing
#'   of CUDA's libraries: that does [gpu_sitrep()].
#' - `gpu_use()`, `local_gpu()`: invisibly the name of the device chosen before, or `NULL`.
#' - `with_gpu()`: the value of `code`.
#' - `gpu_sync()`: `NULL`, invisibly.
#'
#' @section Errors:
#' `verdigris_error_device` where there is no such device, `verdigris_error_library` where the driver is missing,
#' `verdigris_error_fork` in a process forked after CUDA was used.
#' @seealso [gpu_sitrep()] tells why a GPU is not found, [gpu_memory()] what a device holds.
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
with_gpu <- function(device, code) {
  before <- .Call(C_device_use, device)
  on.exit(.Call(C_device_use, before))
  code
}

#' @rdname gpu_devices
#' @export
local_gpu <- function(device, .local_envir = parent.frame()) {
  if (!is.environment(.local_envir)) abort_argument(".local_envir", "an environment", .local_envir)
  if (identical(.local_envir, globalenv())) {
    stop_verdigris(
      "argument", "`local_gpu()` must be called in a function.",
      "Use `gpu_use(device)` for the session, or `with_gpu(device, code)`."
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
#' `gpu_memory()` tells what a device holds. `gpu_free()` gives the memory of an array back at once, where R would
#' do so at some later garbage collection.
#'
#' Memory that arrays no longer need stays in the device's pool for the next ones, and other programs
#' cannot have it; `gpu_memory(trim = TRUE)` gives it back to the system, after a garbage collection.
#'
#' R's garbage collector does not count device memory, so it is started when the arrays have grown much since the last
#' collection (for at most 5% of the time until three quarters of the limit are used). Where there is no room for an
#' array, this is tried in turn: waiting for queued work, a quick collection, giving the pool's memory back, a full
#' collection, and, on a GPU, moving those arrays to the host that were not used for longest; they come back when they
#' are used. After that it is an error that lists the largest arrays with the calls that made them. Option
#' `verdigris.memory_limit` sets a limit below the device's own.
#'
#' An array that was freed keeps its length and can be removed; anything that needs its elements is an error, also
#' under its other names. Memory that it shares with another array (a copy, a slice, what is recorded but not computed)
#' stays until that one goes too.
#'
#' @inheritParams gpu_devices
#' @param trim Whether to collect garbage and give unused memory back to the system first.
#' @param x An array; or a pinned vector ([gpu_pinned()]), whose pages are unlocked, and which stays as an ordinary
#'   vector.
#' @returns `gpu_memory()`: bytes, a named vector of class `gpu_memory`: `live`, in arrays; `pending`, in arrays that R
#'   has collected and that the next call frees; `cached`, kept in the pool; `pinned`, page-locked memory of the host;
#'   `limit`, what arrays may hold; `free` and `total`, of the whole device (`NA` for the cpu). `gpu_free()`: `NULL`,
#'   invisibly.
#' @section Errors:
#' Using an array that was freed is a `verdigris_error_consumed`; an option that is no limit a
#' `verdigris_error_argument`.
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
  if (!is_gpu(x) && .Call(C_pinned_unlock, x)) return(invisible())
  invisible(.Call(C_free, x))
}
