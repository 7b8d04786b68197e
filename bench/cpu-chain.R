# A chain of arithmetic on 1e7 doubles: base R against the cpu device, in one run.
#
#   Rscript bench/cpu-chain.R [elements] [repeats]
#
# Each repeat ends with the values computed (gpu_compute()). The medians and their ratio are printed; the
# project asks for a ratio of at least 3 on two cores.
suppressPackageStartupMessages(library(verdigris))

arguments <- as.numeric(commandArgs(TRUE))
n <- if (length(arguments) >= 1L) arguments[[1L]] else 1e7
repeats <- if (length(arguments) >= 2L) arguments[[2L]] else 15L

set.seed(1)
x <- rnorm(n)
y <- rnorm(n)
a <- as_gpu(x, device = "cpu")
b <- as_gpu(y, device = "cpu")
chain <- function(x, y) sqrt(x * x + y * y) * 2 - exp(-x) / (1 + abs(y))

stopifnot(identical(collect(chain(a, b)), chain(x, y)))
timed <- function(f) {
  gc(FALSE)
  start <- Sys.time()
  f()
  as.numeric(Sys.time() - start, units = "secs")
}
# in turn, so that whatever else the machine does falls on both
times <- replicate(repeats, c(base = timed(function() chain(x, y)), cpu = timed(function() gpu_compute(chain(a, b)))))
median_ms <- apply(times, 1L, median) * 1e3
cat(sprintf("%d cores, %g doubles, %d repeats\n", parallel::detectCores(), n, repeats))
cat(sprintf("base R      %7.1f ms (fastest %.1f)\ncpu device  %7.1f ms (fastest %.1f)\nratio       %7.2f\n",
            median_ms[["base"]], min(times["base", ]) * 1e3, median_ms[["cpu"]], min(times["cpu", ]) * 1e3,
            median_ms[["base"]] / median_ms[["cpu"]]))
