#' Time and profile code on a device
#'
#' `gpu_time()` runs code once, and reports the time on the host and on the device, the number of launches and the bytes
#' copied. `gpu_profile()` reports the time of each kernel and copy, and plots a timeline. `gpu_nvtx_range()` names a
#' piece of code in NVIDIA's profilers (NVTX 3, by the library that the profiler names in `NVTX_INJECTION64_PATH`;
#' otherwise by `libnvToolsExt`, which is part of CUDA up to 12).
#'
#' Both wait for the work that was queued before, run the code, compute its value if that is recorded, and wait for the
#' device. So the first run of a new expression includes its compilation: time the second run. `gpu_profile()` records
#' an event before and after each kernel and copy, which costs some microseconds each and keeps small kernels from
#' overlapping; use it for shares, and `gpu_time()` for totals.
#'
#' Times on a GPU are measured by its own clock; times on the cpu device by the clock of the host.
#' @param expr Code; it is evaluated once.
#' @param device A device's name; `NULL` is the current device.
#' @param x A result of `gpu_time()` or `gpu_profile()`.
#' @param name One string.
#' @param ... Not used; for `plot()`, graphical parameters of the frame.
#' @returns
#' - `gpu_time()`: a list of class `gpu_time`: `host`, seconds until the code had been evaluated (on a GPU: queued);
#'   `device`, seconds on the device's clock from before the code's first work to after its last, including time spent
#'   waiting for the host; `launches`; `up` and `down`, bytes copied to and from devices; `peak`, the most bytes that
#'   arrays occupied on the device; and `value`.
#' - `gpu_profile()`: a data frame of class `gpu_profile`, sorted by decreasing time, with a row for each `name`; `kind`
#'   (`kernel`, `library`, `graph`, `upload`, `download`, `copy`, `fill`); `calls`; `total`, `mean`, `least` and `most`
#'   seconds; `share` of the total time; and the `bytes` that were copied. Attribute `timeline` is a data frame with a
#'   row for each call: `name`, `kind`, `stream` (0 is the default one, -1 marks copies outside of streams), `bytes`,
#'   `start` and `end` in seconds. Attribute `value` is the code's value. `plot()` draws the timeline.
#' - `gpu_nvtx_range()`: the value of `expr`.
#' @section Errors:
#' The errors of the code. `verdigris_error_capture` while [gpu_graph()] records.
#' @seealso [gpu_event_elapsed()] for the time between two points of a stream.
#' @examples
#' x <- as_gpu(runif(1e5), device = "cpu")
#' gpu_time(sum(sqrt(x) + 1), device = "cpu")
#' p <- gpu_profile({ y <- gpu_compute(exp(-x)); sum(y) }, device = "cpu")
#' p
#' plot(p)
#' gpu_nvtx_range("a step", sum(x))
#' @export
gpu_time <- function(expr, device = NULL) {
  timing <- .Call(C_timing_begin, device)
  value <- withVisible(expr)$value
  if (is_gpu(value)) .Call(C_compute_one, value)
  taken <- .Call(C_timing_end, timing)
  taken["value"] <- list(value)
  structure(taken, class = "gpu_time")
}

#' @rdname gpu_time
#' @export
gpu_profile <- function(expr, device = NULL) {
  device <- .Call(C_device_name, device)
  .Call(C_profile_begin, device)
  open <- TRUE
  on.exit(if (open) .Call(C_profile_end, device))
  value <- withVisible(expr)$value
  if (is_gpu(value)) .Call(C_compute_one, value)
  open <- FALSE
  timeline <- as.data.frame(.Call(C_profile_end, device), stringsAsFactors = FALSE)
  structure(summarised(timeline), timeline = timeline, device = device, value = value,
    class = c("gpu_profile", "data.frame"))
}

# A row for each name and kind.
summarised <- function(timeline) {
  took <- timeline$end - timeline$start
  key <- factor(paste(timeline$kind, timeline$name), unique(paste(timeline$kind, timeline$name)))
  first <- match(levels(key), key)
  by <- function(x, f) vapply(split(x, key), f, 0, USE.NAMES = FALSE)
  table <- data.frame(
    name = timeline$name[first], kind = timeline$kind[first], calls = tabulate(key, nlevels(key)),
      total = by(took, sum), mean = by(took, mean),
    least = by(took, min), most = by(took, max), share = by(took, sum) / max(sum(took), .Machine$double.xmin),
      bytes = by(timeline$bytes, sum),
    stringsAsFactors = FALSE
  )
  table <- table[order(-table$total), ]
  row.names(table) <- NULL
  table
}

format_seconds <- function(x) {
  one <- function(s) {
    if (is.na(s)) return("NA")
    k <- if (s < 1e-3) 1e6 else if (s < 1) 1e3 else 1
    paste(format(s * k, digits = 3), c("us", "ms", "s")[match(k, c(1e6, 1e3, 1))])
  }
  vapply(x, one, "")
}

#' @rdname gpu_time
#' @export
print.gpu_time <- function(x, ...) {
  cat(sprintf("host %s, device %s, %s %s\n", format_seconds(x$host), format_seconds(x$device),
    format_count(x$launches), if (x$launches == 1) "launch" else "launches"))
  cat(sprintf("%s up, %s down, at most %s held\n", format_bytes(x$up), format_bytes(x$down), format_bytes(x$peak)))
  invisible(x)
}

#' @rdname gpu_time
#' @export
print.gpu_profile <- function(x, ...) {
  if (!nrow(x)) {
    cat("<gpu_profile> nothing ran on ", attr(x, "device"), "\n", sep = "")
    return(invisible(x))
  }
  shown <- data.frame(
    kind = x$kind, calls = x$calls, total = format_seconds(x$total), mean = format_seconds(x$mean),
      share = sprintf("%.1f%%", 100 * x$share),
    bytes = ifelse(x$bytes > 0, vapply(x$bytes, format_bytes, ""), ""), name = ifelse(nchar(x$name) > 60L,
      paste0(substr(x$name, 1L, 57L), "..."), x$name)
  )
  print.data.frame(shown, row.names = FALSE, right = FALSE)
  invisible(x)
}

#' @rdname gpu_time
#' @export
plot.gpu_profile <- function(x, ...) {
  timeline <- attr(x, "timeline")
  if (is.null(timeline) || !nrow(timeline)) stop_verdigris("argument", "nothing ran, so there is nothing to draw.")
  # uploads and downloads have lanes of their own: they overlap with kernels, even of the same stream
  up <- timeline$kind == "upload"
  down <- timeline$kind == "download"
  lane <- ifelse(up, "up",
    ifelse(down, "down", ifelse(timeline$stream < 0, "copies", paste("stream", timeline$stream))))
  lanes <- unique(c("up", "down", sort(unique(lane))))
  lanes <- rev(lanes[lanes %in% lane])
  kinds <- unique(timeline$kind)
  colours <- stats::setNames(grDevices::hcl.colors(max(3L, length(kinds)), "Dark 3")[seq_along(kinds)], kinds)
  at <- match(lane, lanes)
  scale <- if (max(timeline$end) < 1e-3) 1e6 else 1e3
  from <- min(timeline$start)
  old <- graphics::par(mar = c(4, 6, 2, 1))
  on.exit(graphics::par(old))
  graphics::plot(
    NULL, xlim = c(0, max(timeline$end) - from) * scale, ylim = c(0.4, length(lanes) + 0.6),
      xlab = if (scale == 1e6) "microseconds" else "milliseconds",
    ylab = "", yaxt = "n", ...
  )
  graphics::axis(2, seq_along(lanes), lanes, las = 1, tick = FALSE)
  graphics::rect((timeline$start - from) * scale, at - 0.35, (timeline$end - from) * scale, at + 0.35,
    col = colours[timeline$kind], border = NA)
  graphics::legend("topright", kinds, fill = colours, border = NA, bty = "n", horiz = TRUE, inset = c(0, -0.02),
    xpd = NA)
  invisible(x)
}

#' @rdname gpu_time
#' @export
gpu_nvtx_range <- function(name, expr) {
  if (.Call(C_range_push, name)) on.exit(.Call(C_range_pop))
  expr
}
