# The figures of ?plots: a million points drawn by base R and thinned by the package, side by side; prints how far they
# differ, and how much was fetched.
#
# usage: Rscript tools/doc/thinning.R [FILE]     verdigris and png must be in R_LIBS; FILE is man/figures/thinning.png

suppressPackageStartupMessages(library(verdigris))
gpu_use("cpu")
file <- c(commandArgs(TRUE), "man/figures/thinning.png")[1L]
set.seed(7)
n <- 1e6
x <- rnorm(n)
y <- 0.7 * x + sin(3 * x) + rnorm(n) / 2
picture <- function(x, y) {
  at <- tempfile(fileext = ".png")
  grDevices::png(at, 480, 480)
  graphics::par(mar = c(3, 3, 1, 1))
  seconds <- system.time(plot(x, y, xlab = "", ylab = ""))[["elapsed"]]
  grDevices::dev.off()
  list(pixels = png::readPNG(at)[, , 1:3], seconds = seconds)
}
host <- picture(x, y)
a <- as_gpu(x)
b <- as_gpu(y)
before <- .Call(verdigris:::C_counters)[[3L]]
thin <- picture(a, b)
fetched <- .Call(verdigris:::C_counters)[[3L]] - before
far <- mean(apply(abs(host$pixels - thin$pixels), 1:2, max) > 0.25)
cat(sprintf("base R %.1f s; thinned %.1f s, %.1f MB fetched of %.0f; pixels of another colour: %.3f%%\n", host$seconds,
  thin$seconds, fetched / 1e6, 16 * n / 1e6, 100 * far))
both <- array(0, c(480, 960, 3))
both[, 1:480, ] <- host$pixels
both[, 481:960, ] <- thin$pixels
png::writePNG(both[, , 1], file)
