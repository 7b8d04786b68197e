# Spectra and autocorrelations of time series.

#' Spectra and autocorrelations
#'
#' [stats::spectrum()], [stats::spec.pgram()], [stats::acf()] and [stats::pacf()] of arrays.
#'
#' The series is tapered, detrended, transformed and smoothed on the device; only half of the spectrum is computed.
#' Autocovariances at more than 32 lags are computed by Fourier transforms (Wiener-Khinchin), at fewer lags as sums of
#' lagged products in one pass.
#' @param x A series: an array that is a vector or a time series. Matrices of several series, and `method = "ar"`, are
#'   computed by base R on the host.
#' @param spans,kernel,taper,pad,fast,demean,detrend,plot,na.action,method,... As in [stats::spec.pgram()] and
#'   [stats::spectrum()].
#' @param lag.max,type As in [stats::acf()].
#' @returns `spectrum()` and `spec.pgram()`: an object of class `spec` with base R's components, of which `spec` and
#'   `freq` are arrays on the device of `x`. `acf()` and `pacf()`: an ordinary object of class `acf`; these wait for
#'   the device.
#' @section Accuracy:
#' Autocovariances computed by Fourier transforms have an absolute error of about `1e-15 * log2(n)` times the variance.
#' @section Errors:
#' Base R's errors and messages; `verdigris_error_library` if cuFFT is missing; `verdigris_error_memory`.
#' @references
#' Bloomfield, P. (1976) *Fourier Analysis of Time Series: An Introduction*. Wiley. Partial autocorrelations: Durbin,
#' J. (1960) The fitting of time-series models. *Review of the International Statistical Institute* 28, 233--244.
#' @examples
#' x <- as_gpu(sunspots, device = "cpu")
#' s <- spectrum(x, spans = c(3, 3), plot = FALSE)
#' s$freq[which.max(s$spec)]
#' acf(x, lag.max = 5, plot = FALSE)
#' @name spectra
NULL

#' @rdname spectra
#' @export
spectrum <- interposed("spectrum", "x", spectrum_array(x, match.arg(method), list(...)),
  home = "stats")

spectrum_array <- function(x, method, more, frame = parent.frame()) {
  if (method != "pgram") return(call_base(stats::spectrum, c(list(host_series(x)), more, method = method), frame))
  plots <- more$plot %||% TRUE
  given <- formals(stats::spec.pgram)
  # other arguments go to plot(), as in base R
  arguments <- more[names(more) %in% names(given)]
  more <- more[!names(more) %in% names(given)]
  arguments$plot <- NULL
  with_picture(do.call(periodogram, c(list(x, series = "x", frame = frame), arguments)), plots, more, shown_spectrum)
}

#' @rdname spectra
#' @export
spec.pgram <- interposed("spec.pgram", "x", spec_pgram_array(x, plot, list(...), deparse1(substitute(x)), spans = spans,
  kernel = kernel, taper = taper, pad = pad, fast = fast, demean = demean, detrend = detrend, na.action = na.action),
  home = "stats")

spec_pgram_array <- function(x, plots, more, series, ..., frame = parent.frame()) {
  with_picture(periodogram(x, series, ..., frame = frame), plots, more, shown_spectrum)
}

# Returns a result, or plots it and returns it invisibly. `shown(out)` is plotted.
with_picture <- function(out, plots, more, shown = identity) {
  if (!plots) return(out)
  do.call(plot, c(list(shown(out)), more))
  invisible(out)
}

# Up to this number of frequencies a plot shows each; otherwise the extremes of this number of intervals.
SHOWN_FREQUENCIES <- 2^14
SHOWN_INTERVALS <- 2^12

# A spectrum in ordinary vectors, reduced for a plot.
shown_spectrum <- function(out) {
  n <- length(out$spec)
  if (n > SHOWN_FREQUENCIES) {
    each <- ceiling(n / SHOWN_INTERVALS)
    count <- n %/% each
    of <- function(statistic) collect(.Call(C_reduce_groups, statistic, strided(out$spec, n, 1, count * each), FALSE,
      c(count, each, 1), FALSE))
    step <- as.vector(out$freq[1L])
    out$freq <- step * rep((seq_len(count) - 0.5) * each + 0.5, each = 2L)
    out$spec <- as.vector(rbind(of("min"), of("max")))
  }
  out[c("freq", "spec")] <- list(collect(out$freq), collect(out$spec))
  out
}

# Whether `na.action` returns a series without missing values unchanged. Another function may change it.
keeps_complete <- function(na.action) any(vapply(list(stats::na.fail, stats::na.omit, stats::na.pass, stats::na.exclude),
  identical, NA, na.action))

# The result of spec.pgram().
periodogram <- function(x, series, spans = NULL, kernel = NULL, taper = 0.1, pad = 0, fast = TRUE, demean = FALSE,
  detrend = TRUE, na.action = stats::na.fail, frame = parent.frame()) {
  on_host <- function() {
    out <- call_base(stats::spec.pgram, list(host_series(x), spans = spans, kernel = kernel, taper = taper, pad = pad,
      fast = fast, demean = demean, detrend = detrend, plot = FALSE, na.action = na.action), frame)
    out$series <- series
    out
  }
  n <- length(x)
  usable <- is.null(dim(x)) && is.numeric(x) && n >= 4L && is_flag(fast) && is_flag(demean) && is_flag(detrend) &&
    is_count(taper) && taper <= 0.5 && is_count(pad) && keeps_complete(na.action) && !anyNA(x) && (is.null(kernel) || stats::is.tskernel(kernel))
  if (!usable) return(on_host())
  if (!is.null(spans)) {
    if (!is.numeric(spans) || anyNA(spans) || any(spans < 1)) return(on_host())
    kernel <- stats::kernel("modified.daniell", spans %/% 2)
  }
  frequency <- if (is.null(attr(x, "tsp"))) 1 else attr(x, "tsp")[3L]
  y <- tapered(without_trend(as_float64(strip(x)), demean, detrend), taper)
  # as in base R, n.used includes the zeros that pad the series to a length with small factors
  padded <- n + floor(n * pad)
  if (fast) padded <- stats::nextn(padded)
  if (padded > n) y <- join(list(y, gpu_zeros(padded - n, "float64", device = gpu_device(x))))
  half <- gpu_rfft(y)
  power <- (Re(half)^2 + Im(half)^2) / (n * frequency)
  kept <- padded %/% 2
  if (!is.null(kernel)) {
    if (kernel$m > kept - 1) return(on_host())
    power <- smoothed(power, kernel, padded)
  }
  # corrections for tapering, which reduces the second and fourth moments
  u2 <- 1 - 5 / 8 * taper * 2
  u4 <- 1 - 93 / 128 * taper * 2
  df <- if (is.null(kernel)) 2 else stats::df.kernel(kernel)
  bandwidth <- if (is.null(kernel)) sqrt(1 / 12) else stats::bandwidth.kernel(kernel)
  structure(list(
    freq = gpu_seq(frequency / padded, by = frequency / padded, length.out = kept, dtype = "float64",
      device = gpu_device(x)),
    spec = match_precision(strided(power, length(power), 1, kept, start = 1) / u2, x), coh = NULL, phase = NULL,
    kernel = kernel, df = df / (u4 / u2^2) * (n / padded), bandwidth = bandwidth * frequency / padded,
    n.used = if (padded < 2^31) as.integer(padded) else padded, orig.n = n, series = series, snames = NULL,
    method = if (is.null(kernel)) "Raw Periodogram" else "Smoothed Periodogram", taper = taper, pad = pad,
    detrend = detrend, demean = demean), class = "spec")
}

# Subtracts the mean, or the least squares line.
without_trend <- function(x, demean, detrend) {
  if (!demean && !detrend) return(x)
  n <- length(x)
  x <- x - mean(x)
  if (!detrend) return(x)
  time <- gpu_seq(-(n - 1) / 2, by = 1, length.out = n, dtype = "float64", device = gpu_device(x))
  x - time * (sum(x * time) * 12 / (as.double(n) * (as.double(n)^2 - 1)))
}

# Applies a split cosine bell to a fraction `part` of the series at either end.
tapered <- function(x, part) {
  n <- length(x)
  m <- floor(n * part)
  if (m < 1) return(x)
  k <- gpu_seq(0, by = 1, length.out = n, dtype = "float64", device = gpu_device(x))
  x * select_by(pmin(k, n - 1 - k) < m, 0.5 * (1 - cos(pi * (2 * pmin(k, n - 1 - k) + 1) / (2 * m))), 1)
}

# Smooths power at frequencies 0 to 1 / 2 by a symmetric kernel. Power is an even function of period `n`. Its value at 0
# reflects only the mean, so the next value replaces it.
smoothed <- function(power, kernel, n) {
  m <- kernel$m
  size <- length(power)
  inner <- strided(power, size, 1, size - 1, start = 1)
  before <- strided(power, size, 1, m, start = m, step = -1)
  after <- strided(power, size, 1, m, start = if (n %% 2 == 0) size - 2 else size - 1, step = -1)
  extended <- join(list(before, strided(power, size, 1, 1, start = 1), inner, after))
  weights <- c(rev(kernel$coef[-1L]), kernel$coef)
  if (length(weights) <= MOST_VIEWS) return(weighted_windows(extended, weights))
  p <- length(weights)
  out <- linear_convolution(extended, as_gpu(weights, device = gpu_device(power)))
  strided(out, length(out), 1, size, start = p - 1)
}

# ---- autocovariances -----------------------------------------------------------------------------------

#' @rdname spectra
#' @export
acf <- interposed("acf", "x", acf_array(x, lag.max, match.arg(type), plot, na.action, demean, list(...),
  deparse1(substitute(x))), home = "stats")

# From this number of lags on, a transform of the padded series is faster than a product for each lag.
LAGS_BY_TRANSFORM <- 32

acf_array <- function(x, lag.max, type, plots, na.action, demean, more, series, frame = parent.frame()) {
  with_picture(autocorrelations(x, lag.max, type, na.action, demean, series, frame), plots, more)
}

autocorrelations <- function(x, lag.max, type, na.action, demean, series, frame) {
  n <- length(x)
  passes <- identical(na.action, stats::na.pass)
  usable <- is.null(dim(x)) && is.numeric(x) && n >= 2L && (is.null(lag.max) || is_count(lag.max, 1)) &&
    is_flag(demean) && keeps_complete(na.action) && (passes || !anyNA(x))
  # as in base R, a number that is not whole is truncated
  lags <- if (usable) trunc(min(lag.max %||% floor(10 * log10(n)), n - 1))
  # base R computes partial autocorrelations of series with missing values
  if (!usable || type == "partial" && anyNA(x)) {
    out <- call_base(stats::acf, list(host_series(x), lag.max = lag.max, type = type, plot = FALSE,
      na.action = na.action, demean = demean), frame)
    out$series <- series
    return(out)
  }
  y <- as_float64(strip(x))
  missing <- is.na(y)
  has_missing <- anyNA(y)
  if (demean || type == "partial") y <- y - mean(y, na.rm = TRUE)
  if (has_missing) y <- select_by(missing, 0, y)
  products <- lagged_products(y, lags)
  pairs <- if (has_missing) round(lagged_products(select_by(missing, 0, 1), lags)) else n - 0:lags
  covariance <- select_by(pairs > 0, products / (pairs + 0:lags), NA_real_)
  values <- covariance
  if (type != "covariance") values <- pmax(-1, pmin(1, covariance / covariance[1L]))
  frequency <- if (is.null(attr(x, "tsp"))) 1 else attr(x, "tsp")[3L]
  at <- 0:lags
  if (type == "partial") {
    values <- partial_correlations(values)
    at <- at[-1L]
  }
  extent <- c(length(at), 1L, 1L)
  structure(list(acf = array(values, extent), type = type, n.used = n, lag = array(at / frequency, extent),
    series = series, snames = NULL), class = "acf")
}

# sum(x[i + lag] * x[i]) for lags 0 to `lags`, an ordinary vector.
lagged_products <- function(x, lags) {
  n <- length(x)
  zeros <- function(n) gpu_zeros(n, "float64", device = gpu_device(x))
  if (lags > LAGS_BY_TRANSFORM && all(is.finite(x))) {
    whole <- stats::nextn(n + lags, c(2, 3, 5, 7))
    half <- gpu_rfft(join(list(x, zeros(whole - n))))
    return(as.vector(gpu_irfft(half * Conj(half), whole)[seq_len(lags + 1)]) / whole)
  }
  later <- strided(join(list(x, zeros(lags))), n + lags, c(1, 1), c(n, lags + 1))
  as.vector(.Call(C_reduce_groups, "sum", later * repeated(x, times = lags + 1), FALSE, c(lags + 1, n, 1), FALSE))
}

# Partial autocorrelations from autocorrelations (from lag 0 on), by Durbin's recursion.
partial_correlations <- function(r) {
  lags <- length(r) - 1L
  r <- r[-1L]
  out <- numeric(lags)
  phi <- numeric()
  for (k in seq_len(lags)) {
    before <- seq_len(k - 1L)
    out[k] <- if (k == 1L) r[1L] else (r[k] - sum(phi * r[k - before])) / (1 - sum(phi * r[before]))
    phi <- c(phi - out[k] * rev(phi), out[k])
  }
  out
}

#' @rdname spectra
#' @importFrom stats pacf
#' @export
pacf.gpu_array <- function(x, lag.max = NULL, plot = TRUE, na.action = stats::na.fail, ...) {
  series <- deparse1(substitute(x))
  with_picture(autocorrelations(x, lag.max, "partial", na.action, TRUE, series, environment()), plot, list(...))
}
