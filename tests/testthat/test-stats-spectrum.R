# Spectra and autocorrelations, against base R's.

# The components of a list that differ.
differs <- function(got, want, tolerance = 1e-11) {
  ordinary <- function(v) if (inherits(v, "gpu_array")) collect(v) else v
  got <- lapply(unclass(got), ordinary)
  said <- all.equal(got, unclass(want), tolerance = tolerance)
  if (isTRUE(said)) character() else paste(said, collapse = "; ")
}

set.seed(1)
SERIES <- list(monthly = ldeaths, long = if (emulated) lh else sunspots, trend = ts(stats::rnorm(200) + (1:200) / 50,
  start = 3, frequency = 7), vector = stats::rnorm(90), short = c(3, 1, 4, 1, 5, 9, 2))

test_that("spec.pgram() is base R's for all its arguments", {
  found <- list()
  for (name in names(SERIES)) for (spans in list(NULL, 3, c(3, 5), c(7, 7))) for (taper in c(0, 0.1, 0.5)) {
    for (pad in c(0, 0.3, 1)) for (fast in c(TRUE, FALSE)) for (of in list(c(FALSE, FALSE), c(TRUE, FALSE), c(FALSE,
      TRUE))) {
      x <- SERIES[[name]]
      if (emulated && (pad == 1 || taper == 0.5)) next
      call <- function(x) spec.pgram(x, spans = spans, taper = taper, pad = pad, fast = fast, demean = of[1],
        detrend = of[2], plot = FALSE)
      said <- differs(outcome(call(gpu(x)))$value, outcome(call(x))$value)
      if (length(said)) found <- c(found, paste(name, deparse1(spans), taper, pad, fast, deparse1(of), said))
    }
  }
  expect_all_same(found)
})

test_that("a long kernel smooths by a transform, with the same result", {
  skip_if(emulated, "it is slow")
  x <- SERIES$long
  kernel <- stats::kernel("daniell", 150)
  call <- function(x) spec.pgram(x, kernel = kernel, plot = FALSE)
  expect_identical(differs(call(gpu(x)), call(x)), character())
})

test_that("spectrum() names the series as base R does, and leaves what is not one series to it", {
  x <- gpu(ldeaths)
  s <- spectrum(x, plot = FALSE)
  expect_identical(s$series, spectrum(ldeaths, plot = FALSE)$series)
  expect_true(.Call(verdigris:::C_is_array, s$spec))
  ar <- spectrum(x, method = "ar", plot = FALSE)
  expect_equal(ar$spec, spectrum(ldeaths, method = "ar", plot = FALSE)$spec)
  both <- ts(cbind(mdeaths, fdeaths))
  expect_equal(spec.pgram(gpu(both), plot = FALSE)$coh, spec.pgram(both, plot = FALSE)$coh)
  expect_error(spec.pgram(gpu(c(1, NA, 3, 4, 5)), plot = FALSE), "missing values in object")
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  expect_s3_class(spectrum(x), "spec")
  expect_s3_class(acf(x), "acf")
})

test_that("a picture fetches the extremes of intervals of a long spectrum", {
  x <- stats::rnorm(2^17)
  s <- spec.pgram(gpu(x), plot = FALSE)
  withr::local_options(verdigris.host_access = "error")
  shown <- verdigris:::shown_spectrum(s)
  parts <- matrix(collect(s$spec), 16L)
  expect_identical(shown$spec, as.vector(rbind(apply(parts, 2, min), apply(parts, 2, max))))
  expect_equal(shown$freq[1:3], c(8.5, 8.5, 24.5) / 2^17)
  grDevices::pdf(NULL)
  withr::defer(grDevices::dev.off())
  expect_s3_class(spec.pgram(gpu(x)), "spec")
  expect_s3_class(spectrum(gpu(ldeaths)), "spec")
})

test_that("acf() and pacf() are base R's", {
  found <- list()
  series <- c(SERIES, list(missing = c(1, 2, 4, NA, 3, 9, 1), integers = 1:10, two = c(0, 1)))
  for (name in names(series)) for (lags in list(NULL, 1, 5, 40, 1000)) for (type in c("correlation", "covariance",
    "partial")) {
    for (demean in c(TRUE, FALSE)) for (action in list(na.fail, na.pass)) {
      x <- series[[name]]
      call <- function(x) acf(x, lags, type, plot = FALSE, na.action = action, demean = demean)
      want <- outcome(call(x))
      got <- outcome(call(gpu(x)))
      what <- paste(name, deparse1(lags), type, demean)
      said <- differs(got$value, want$value)
      if (length(said)) found <- c(found, paste(what, said))
    }
  }
  expect_all_same(found)
  expect_identical(differs(pacf(gpu(lh), plot = FALSE), pacf(lh, plot = FALSE)), "Component \"series\": 1 string mismatch")
})
