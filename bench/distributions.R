# Distributions, Bessel functions and psigamma: elements a second on a device, beside base R on one core or more.
#
# usage: Rscript bench/distributions.R [DEVICE] [N] [CORES]   cuda:0 and 1e8 where there is a GPU, else cpu and 1e6; 1
# bench/distributions.py has the same by CuPy and PyTorch, where they have the function.

suppressPackageStartupMessages(library(verdigris))
arguments <- commandArgs(TRUE)
device <- if (length(arguments)) arguments[[1L]] else if (nrow(gpu_devices()) > 1L) "cuda:0" else "cpu"
n <- if (length(arguments) > 1L) as.numeric(arguments[[2L]]) else if (device == "cpu") 1e6 else 1e8
cores <- if (length(arguments) > 2L) as.integer(arguments[[3L]]) else 1L
few <- 1e6

set.seed(1)
data <- list(u = gpu_runif(n, device = device))
data$v <- gpu_compute(-log(gpu_runif(n, device = device)) * 3)
data$z <- gpu_compute(gpu_rnorm(n, device = device) * 2)
data$k <- gpu_compute(gpu_rbinom(n, 50, 0.3, dtype = "float64", device = device))
data$p <- gpu_compute(gpu_rpois(n, 20, dtype = "float64", device = device))
gpu_compute(data$u)
host <- lapply(data, function(x) collect(x[seq_len(min(few, n))]))

CALLS <- alist(pgamma(v, 3), qgamma(u, 3), pgamma(v * 300, 1000), pt(z, 5), pt(z, 1000), qt(u, 5), pbeta(u, 2, 3),
  pbeta(u, 2000, 2000), qbeta(u, 2, 3), qbeta(u, 0.5, 30), pf(v, 3, 10), dgamma(v, 3), dt(z, 5), dbinom(k, 50, 0.3),
  pbinom(k, 50, 0.3), qbinom(u, 50, 0.3), ppois(p, 20), qpois(u, 20), dnbinom(p, 3, mu = 20),
  besselI(v, 1, TRUE), besselK(v, 1.5), besselJ(v * 10, 2), besselY(v * 10, 2), besselJ(v * 30, 90.5), psigamma(v, 2))

best <- function(run, times = 5L) min(vapply(seq_len(times), function(k) {
  gpu_sync(device)
  system.time({
    run()
    gpu_sync(device)
  })[["elapsed"]]
}, 0))
base_only <- new.env(parent = asNamespace("stats"))
# Base R's functions themselves, on all cores at once; each computes `few` elements and returns none of them.
base_r <- function(call) {
  run <- function(k) is.null(eval(call, host, base_only))
  stopifnot(unlist(parallel::mclapply(seq_len(cores), run, mc.cores = cores)) %in% FALSE)
}

rows <- lapply(CALLS, function(call) {
  ours <- best(function() gpu_compute(eval(call, data)))
  base <- best(function() base_r(call), 3L)
  data.frame(call = deparse1(call), ns = 1e9 * ours / n, base_ns = 1e9 * base / (cores * length(host$u)))
})
out <- do.call(rbind, rows)
out$times <- out$base_ns / out$ns
cat(sprintf("%s, %g elements; base R on %d core(s), %g elements each\n", device, n, cores, few))
print(out, digits = 3, row.names = FALSE)
