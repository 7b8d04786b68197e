# Times elementwise operations, reductions and transfers on one device, under the names of the peers' cases.
#
# usage: Rscript bench/first-light.R OUT.csv [DEVICE [ELEMENTS]]
# Each repeat ends in a synchronisation; the figure is the median in milliseconds. Reductions are timed to the number in R.
suppressPackageStartupMessages(library(verdigris))
arguments <- commandArgs(TRUE)
out <- arguments[1L]
device <- if (length(arguments) >= 2L) arguments[2L] else "cuda"
n <- if (length(arguments) >= 3L) as.numeric(arguments[3L]) else 1e8
rows <- data.frame(name = character(), ms = numeric())

record <- function(name, ms) {
  rows[nrow(rows) + 1L, ] <<- list(name, ms)
  cat(sprintf("%-26s %10.4f ms\n", name, ms))
  write.csv(rows, out, row.names = FALSE)
}
# A batch's results are alive until R's gc runs, so the pool is first filled for as many.
time <- function(name, f, reps = 9L, inner = 5L) {
  for (k in seq_len(2L * inner + 1L)) r <- f()
  gpu_sync()
  invisible(gc(FALSE))
  seconds <- replicate(reps, {
    start <- Sys.time()
    for (k in seq_len(inner)) r <- f()
    gpu_sync()
    spent <- as.numeric(Sys.time() - start, units = "secs")
    gc(FALSE)
    spent
  })
  record(name, median(seconds) * 1e3 / inner)
  invisible(gc(FALSE))
}

set.seed(1)
host <- rnorm(n)
matrix_host <- host
dim(matrix_host) <- c(1e4, n / 1e4)
time("transfer.h2d_f64", function() as_gpu(host, device = device), 3L, 1L)
time("transfer.h2d_f64_to_f32", function() as_gpu(host, dtype = "float32", device = device), 3L, 1L)
time("transfer.h2d_f64_matrix", function() as_gpu(matrix_host, device = device), 3L, 1L)
x <- as_gpu(host, device = device)
time("transfer.d2h_f64", function() as.vector(x), 3L, 1L)
for (dtype in c("float32", "float64")) {
  tag <- c(float32 = "f32", float64 = "f64")[[dtype]]
  a <- gpu_cast(x, dtype)
  b <- gpu_rnorm(n, dtype = dtype, device = device)
  gpu_compute(a, b)
  m <- a
  dim(m) <- c(1e4, n / 1e4)
  time(paste0("axpy_", tag), function() gpu_compute(2.5 * a + b))
  time(paste0("chain_", tag), function() gpu_compute(sqrt(a * a + b * b) * 2 - exp(-a) / (1 + abs(b))))
  time(paste0("host_", tag, ".sum"), function() sum(a))
  time(paste0("host_", tag, ".norm"), function() sqrt(sum((a - b)^2)))
  time(paste0("var_", tag), function() var(a))
  time(paste0("whichmax_", tag), function() which.max(a))
  # numpy's sum(1) of a row-major matrix reads as R's colSums
  time(paste0("rowsums_", tag), function() colSums(m))
  time(paste0("colsums_", tag), function() rowSums(m))
  time(paste0("transpose_", tag), function() gpu_compute(t(m) + 0))
  time(paste0("mask_", tag), function() a[a > 0], 5L, 1L)
  time(paste0("sort_", tag), function() sort(a), 5L, 1L)
  time(paste0("rnorm_", tag), function() gpu_compute(gpu_rnorm(n, dtype = dtype, device = device)))
  rm(a, b, m)
  invisible(gc(FALSE))
}
small <- as_gpu(runif(10), dtype = "float32", device = device)
other <- as_gpu(runif(10), dtype = "float32", device = device)
per_call <- function(name, f, times = 3000L) {
  for (k in 1:200) f()
  gpu_sync()
  start <- Sys.time()
  for (k in seq_len(times)) f()
  gpu_sync()
  record(name, as.numeric(Sys.time() - start, units = "secs") * 1e3 / times)
}
per_call("record.add", function() small + other)
per_call("small.add", function() gpu_compute(small + other))
per_call("small.sum_to_host", function() sum(small))
