# Short-time Fourier transforms and their windows.

#' Short-time Fourier transforms
#'
#' `gpu_stft()` computes the spectra of overlapping frames of a series, in one batch; `plot()` of the result draws a
#' spectrogram. `gpu_window()` returns the weights by which the elements of a frame are multiplied.
#'
#' Frames begin at every `step`-th element, as long as they fit into the series. The frames are copied, which takes
#' `width / step` times the memory of the series, and as much again for the spectra.
#' @param x For `gpu_stft()` an array that is a vector or a time series, of real or complex elements; for `plot()` its
#'   result.
#' @param width The number of elements in a frame, 2 or more.
#' @param step The number of elements from the beginning of one frame to the beginning of the next frame.
#' @param window The name of a window, or `width` weights.
#' @param type The window: `"hann"`, `"hamming"`, `"blackman"`, `"bartlett"` or `"rectangular"`.
#' @param n The number of weights.
#' @param periodic Whether the weights are one period of a periodic function (`n + 1` symmetric weights without the
#'   last), as for spectra, or symmetric, as for filters.
#' @param device The device of the weights; `NULL` is the default device.
#' @param range The range of the colour scale, in decibels below the largest value.
#' @param col,xlab,ylab,... As in [graphics::image()].
#' @returns `gpu_stft()`: an object of class `gpu_stft`, a list of `values`, a complex matrix (an array on the device of
#'   `x`) with a row for each frequency and a column for each frame: `width %/% 2 + 1` frequencies for a real series,
#'   else `width`; `frequency` and `time` (of the middle of a frame), ordinary vectors in units of the series; and
#'   `window`, the weights. The call does not wait. `gpu_window()`: a float64 array. `plot()`: its argument, invisibly;
#'   it reads at most 1024 frequencies and frames.
#' @section Errors:
#' `verdigris_error_argument` for invalid arguments; `verdigris_error_library` if cuFFT is missing;
#' `verdigris_error_memory`.
#' @references
#' Windows: Harris, F. J. (1978) On the use of windows for harmonic analysis with the discrete Fourier transform.
#' *Proceedings of the IEEE* 66, 51--83.
#' @examples
#' # a tone whose frequency rises
#' t <- seq(0, 2, length.out = 8192)
#' x <- as_gpu(ts(sin(2 * pi * 400 * t^2), frequency = 4096), device = "cpu")
#' s <- gpu_stft(x, width = 256)
#' s
#' plot(s)
#' @export
gpu_stft <- function(x, width = 256, step = max(1, width %/% 4), window = "hann") {
  if (!is_gpu(x) || length(dim(x)) > 1L) abort_argument("x", "an array that is a vector or a time series", x)
  n <- length(x)
  if (!is_count(width, 2) || width != trunc(width)) abort_argument("width", "a whole number, 2 or more", width)
  if (width > n) abort_argument("width", sprintf("at most the length of `x`, %.0f", n), width)
  if (!is_count(step, 1) || step != trunc(step)) abort_argument("step", "a whole number, 1 or more", step)
  weights <- if (is.character(window)) window_of(window, width, TRUE) else host_copy(window)
  if (!is.numeric(weights) || length(weights) != width)
    abort_argument("window", sprintf("the name of a window, or %.0f weights", width), window)
  time <- attr(x, "tsp") %||% c(1, n, 1)
  count <- (n - width) %/% step + 1
  values <- strip(x)
  if (!is.double(values) && !is.complex(values)) values <- gpu_cast(values, "float64")
  frames <- strided(values, n, c(1, 1), c(width, count), step = c(1, step)) *
    repeated(upload_like(as.double(weights), values), times = count)
  dim(frames) <- c(width, count)
  kept <- if (is.complex(values)) width else width %/% 2 + 1
  middles <- (seq_len(count) - 1) * step + (width - 1) / 2
  structure(list(values = if (is.complex(values)) gpu_fft(frames, 1) else gpu_rfft(frames, 1),
    frequency = (seq_len(kept) - 1) * (time[3L] / width), time = time[1L] + middles / time[3L],
    window = as.double(weights)), class = "gpu_stft")
}

#' @rdname gpu_stft
#' @export
gpu_window <- function(n, type = c("hann", "hamming", "blackman", "bartlett", "rectangular"), periodic = TRUE,
  device = NULL) {
  if (!is_count(n, 1) || n != trunc(n)) abort_argument("n", "a whole number, 1 or more", n)
  if (!is_flag(periodic)) abort_argument("periodic", "TRUE or FALSE", periodic)
  as_gpu(window_of(type, n, periodic, "type"), dtype = "float64", device = device)
}

window_of <- function(type, n, periodic, argument = "window", call = parent.frame()) {
  type <- one_of(argument, type, c("hann", "hamming", "blackman", "bartlett", "rectangular"), call)
  if (n == 1) return(1)
  at <- (seq_len(n) - 1) / (n - !periodic)
  switch(type, hann = 0.5 - 0.5 * cos(2 * pi * at), hamming = 0.54 - 0.46 * cos(2 * pi * at),
    blackman = 0.42 - 0.5 * cos(2 * pi * at) + 0.08 * cos(4 * pi * at), bartlett = 1 - abs(2 * at - 1),
    rectangular = rep(1, n))
}

#' @export
print.gpu_stft <- function(x, ...) {
  extent <- dim(x$values)
  cat(sprintf("<gpu_stft %s [%d frequencies x %d frames] on %s>\n", gpu_dtype(x$values), extent[1L], extent[2L],
    gpu_device(x$values)))
  cat(sprintf("frequency %s to %s, time %s to %s\n", format(x$frequency[1L]), format(x$frequency[extent[1L]]),
    format(x$time[1L]), format(x$time[extent[2L]])))
  invisible(x)
}

# The largest numbers of frequencies and frames in a plot.
MOST_SHOWN <- 1024

#' @rdname gpu_stft
#' @export
plot.gpu_stft <- function(x, range = 80, col = grDevices::hcl.colors(64), xlab = "Time", ylab = "Frequency", ...) {
  if (!is_count(range, .Machine$double.xmin)) abort_argument("range", "a positive number of decibels", range)
  extent <- dim(x$values)
  every <- pmax(1, ceiling(extent / MOST_SHOWN))
  rows <- seq(1, extent[1L], by = every[1L])
  columns <- seq(1, extent[2L], by = every[2L])
  # show the largest of neighbouring frequencies, so that no line is lost
  power <- Mod(x$values)
  if (every[1L] > 1) power <- largest_of(power, every[1L], extent)
  shown <- power[, columns, drop = FALSE]
  if (every[1L] == 1) shown <- shown[rows, , drop = FALSE]
  decibels <- as.matrix(collect(20 * log10(shown)))
  top <- max(decibels[is.finite(decibels)], -Inf)
  if (is.finite(top)) decibels <- pmax(decibels - top, -range) else decibels[] <- -range
  graphics::image(x$time[columns], x$frequency[rows], t(decibels), zlim = c(-range, 0), col = col, xlab = xlab,
    ylab = ylab, ...)
  invisible(x)
}

# The largest value in each group of `each` rows of a matrix, by column. The last group may have fewer rows.
largest_of <- function(x, each, extent) {
  groups <- ceiling(extent[1L] / each)
  lacking <- groups * each - extent[1L]
  if (lacking > 0) x <- rbind(x, x[rep(extent[1L], lacking), , drop = FALSE])
  out <- .Call(C_reduce_groups, "max", strip(x), FALSE, c(groups * extent[2L], each, 1), FALSE)
  dim(out) <- c(groups, extent[2L])
  out
}
