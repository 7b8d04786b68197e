# Plots of arrays equal base R's, but for a few pixels; no more is fetched than they show.

# Draws with ordinary vectors and with arrays: the share of pixels that differ, and the bytes that came to the host.
drawn <- function(f, ..., size = 300) {
  pixels <- function(args) {
    file <- withr::local_tempfile(fileext = ".png")
    grDevices::png(file, size, size)
    f <- tryCatch(do.call(f, args), finally = grDevices::dev.off())
    png::readPNG(file)[, , 1:3]
  }
  host <- list(...)
  want <- pixels(host)
  arrays <- lapply(host, gpu)
  before <- .Call(verdigris:::C_counters)[[3L]]
  got <- pixels(arrays)
  list(apart = mean(apply(abs(got - want), 1:2, max) > 0.25), fetched = .Call(verdigris:::C_counters)[[3L]] - before,
    ink = mean(want < 0.5))
}

set.seed(12)
n <- 50000
x <- rnorm(n)
y <- 0.7 * x + rnorm(n)

test_that("scatter plots look like base R's, and fetch what they show", {
  skip_if_not_installed("png")
  pictures <- list(
    function(x, y) plot(x, y, main = "both"), function(x, y) plot(x), function(x, y)
      plot(x, y, pch = 20, col = 1:3, cex = 0.5), function(x, y) plot(exp(x), exp(y), log = "xy", pch = 20),
      function(x, y) plot(x, y, xlim = c(0, 1), ylim = c(-1, 1)),
    function(x, y) plot(cbind(a = x, b = y)), function(x, y) { plot(0, 0, xlim = c(-2, 2), ylim = c(-3, 3))
    points(x, y, col = "red") }, function(x, y) pairs(cbind(x, y, z = x * y)))
  for (f in pictures) {
    found <- drawn(f, x = x, y = y)
    expect_lt(found$apart, 0.02)
    expect_gt(found$ink, 0.01)
  }
  # dots of one pixel and nothing else
  found <- drawn(function(x, y) { par(mar = c(0, 0, 0, 0)); plot(x, y, pch = ".", axes = FALSE) }, x = rnorm(4e5),
    y = rnorm(4e5), size = 120)
  expect_lt(found$fetched, 1e6) # of 6.4e6
  expect_lt(found$apart, 0.05)
})

test_that("lines, images and box plots look like base R's", {
  skip_if_not_installed("png")
  pictures <- list(function(x, y) plot(cumsum(x), type = "l"), function(x, y) { plot(range(x), range(y))
  lines(sort(x), sort(y), col = "blue", lwd = 2) }, function(x, y) plot(sort(exp(x)), cumsum(y), type = "l", log = "x"))
  for (f in pictures) expect_lt(drawn(f, x = x, y = y)$apart, 0.02)
  same <- list(function(x, y) boxplot(x, y, names = c("a", "b"), col = "green"),
    function(x, y) boxplot(cbind(u = x, v = y), horizontal = TRUE), function(x, y)
    image(matrix(sort(x), 500)), function(x, y) image(matrix(x[1:400], 20), col = heat.colors(12), xlab = "rows"),
    function(x, y) image(z = matrix(x[1:400], 20)), function(x, y) image(z = matrix(x[1:400], 20), y = 1:20),
    function(x, y) hist(x, 50, col = "grey"), function(x, y) barplot(x[1:9], names.arg = 1:9), function(x, y)
      plot(density(x)), function(x, y) plot(x[1:100], y[1:100], type = "b"), function(x, y) plot(x[1:50], type = "h"))
  for (f in same) expect_lt(drawn(f, x = x, y = y)$apart, 0.005)
})

test_that("what is missing or infinite is not drawn, and ends a line", {
  skip_if_not_installed("png")
  holes <- replace(replace(x, seq(1, n, 7), NA), 2:5, Inf)
  expect_lt(drawn(function(x, y) plot(x, y), x = holes, y = y)$apart, 0.02)
  expect_lt(drawn(function(x, y) plot(x, y, type = "l"), x = as.double(seq_len(n)), y = replace(cumsum(x), 20000:30000,
    NA))$apart, 0.001)
  expect_lt(drawn(function(x) plot(x), x = ts(cumsum(rnorm(200)), start = 1990, frequency = 12))$apart, 0.001)
})

test_that("box plots and densities give base R's numbers", {
  expect_equal(boxplot(gpu(x), gpu(y), plot = FALSE), boxplot(x, y, plot = FALSE))
  expect_equal(boxplot(gpu(cbind(a = x, b = y)), range = 0, plot = FALSE), boxplot(cbind(a = x, b = y), range = 0,
    plot = FALSE))
  expect_equal(boxplot(gpu(c(1, 2, 30, NA)), plot = FALSE), boxplot(c(1, 2, 30, NA), plot = FALSE))
  expect_equal(suppressWarnings(boxplot(gpu(Inf), plot = FALSE)), suppressWarnings(boxplot(Inf, plot = FALSE)))
  expect_error(boxplot(gpu(1:3), range = -1, plot = FALSE), "'coef' must not be negative", fixed = TRUE)
  expect_error(boxplot(gpu(1i), plot = FALSE), "complex")
  expect_equal(boxplot(gpu(cbind(x, y)), FALSE, plot = FALSE)$n, boxplot(cbind(x, y), FALSE, plot = FALSE)$n)
  parts <- c("x", "y", "bw", "n")
  for (args in list(list(), list(bw = 0.3), list(bw = "nrd", adjust = 2), list(kernel = "epanechnikov", n = 1000),
    list(from = -1, to = 1), list(cut = 1), list(bw = "ucv"))) {
    v <- if (identical(args$bw, "ucv")) x[1:500] else x
    want <- suppressWarnings(do.call(density, c(list(v), args)))
    got <- suppressWarnings(do.call(density, c(list(gpu(v)), args)))
    expect_equal(got[parts], want[parts], tolerance = 1e-8)
  }
  expect_error(density(gpu(c(1, NA))), "'x' contains missing values", fixed = TRUE)
  expect_identical(density(gpu(c(1, 2, 5)), width = 2)$bw, density(c(1, 2, 5), width = 2)$bw)
  expect_identical(density(gpu(c(1, 2, 5)), give.Rkern = TRUE), density(c(1, 2, 5), give.Rkern = TRUE))
  z <- gpu(x)
  expect_identical(density(z)$data.name, "z")
})
