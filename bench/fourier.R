# Fourier transforms on a card, beside cuFFT called directly (bench/fourier.py) and base R. Prints a line a case:
# name, milliseconds of the device (median of ten), peak bytes.
#
# usage: Rscript bench/fourier.R [quick]
suppressMessages(library(verdigris))
quick <- "quick" %in% commandArgs(TRUE)
gpu_use("cuda")

median_ms <- function(f, times = if (quick) 3L else 10L) {
  f()
  gpu_sync()
  stats::median(vapply(seq_len(times), function(k) {
    gpu_sync()
    at <- Sys.time()
    out <- f()
    gpu_sync()
    took <- as.numeric(Sys.time() - at, units = "secs")
    if (inherits(out, "gpu_array")) gpu_free(out)
    took * 1000
  }, 0))
}

say <- function(name, f) {
  ms <- tryCatch(median_ms(f), error = function(e) {
    cat(conditionMessage(e), "\n")
    NA
  })
  cat(sprintf("%-28s %10.3f ms\n", name, ms))
  invisible(gc(FALSE))
}

complex_of <- function(n, dtype) gpu_compute(gpu_cast(gpu_rnorm(n) + 1i * gpu_rnorm(n), dtype))
z <- complex_of(2^26, "complex128")
say("c128 2^26", function() fft(z))
z <- complex_of(2^26, "complex64")
say("c64 2^26", function() fft(z))
z <- complex_of(10007 * 4096, "complex128")
dim(z) <- c(10007, 4096)
say("c128 10007 x 4096", function() mvfft(z))
z <- complex_of(512^3, "complex128")
dim(z) <- c(512, 512, 512)
say("c128 512^3", function() fft(z))
x <- gpu_compute(gpu_rnorm(2^27))
say("r64 2^27 half", function() gpu_rfft(x))
say("r64 2^27 whole", function() fft(x))
z <- complex_of(1e7 + 19, "complex128")
say("c128 1e7 + 19", function() fft(z))
x <- z <- NULL
gc(FALSE)
x <- gpu_compute(gpu_rnorm(1e8))
y <- gpu_compute(gpu_rnorm(1e5))
say("convolve 1e8, 1e5", function() convolve(x, y, type = "open"))
say("filter 1e8, 1e5", function() filter(x, y))
say("spectrum 1e8", function() gpu_compute(spectrum(x, plot = FALSE)$spec))
say("acf 1e8, 80 lags", function() acf(x, plot = FALSE))
say("acf 1e8, 1000 lags", function() acf(x, lag.max = 1000, plot = FALSE))
say("stft 1e8, 1024, 512", function() gpu_stft(x, 1024, 512)$values)
if (!quick) {
  x <- NULL
  gc(FALSE)
  z <- complex_of(2^31, "complex64")
  say("c64 2^31", function() fft(z))
}
