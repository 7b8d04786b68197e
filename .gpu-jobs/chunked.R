# 1e10 elements from a generator in bounded memory; a matrix on the host by columns and rows; whether copies overlap with computing.
suppressMessages(library(verdigris))
block <- rep_len(runif(1e6), 32e6); left <- 1e10
read <- function(n) { n <- min(n, left, length(block)); left <<- left - n; if (n == length(block)) block else if (n > 0) block[seq_len(n)] }
peak <- 0; watch <- function() peak <<- max(peak, gpu_memory("cuda")[["live"]])
t0 <- proc.time()[[3]]
s <- gpu_chunked(read, function(x) { watch(); sum(sqrt(x)) }, "+", device = "cuda")
cat(sprintf("1e10 doubles from a generator: %.2f s, %.1f GB/s, peak %.2f GB on the device, relative error %.1e\n", proc.time()[[3]] - t0,
  80 / (proc.time()[[3]] - t0), peak / 1e9, abs(s / (sum(sqrt(block)) * 1e10 / length(block)) - 1)))
made <- 1e10; gen <- function(n) { n <- min(n, made); made <<- made - n; if (n > 0) gpu_runif(n, device = "cuda") }
t0 <- proc.time()[[3]]; s <- gpu_chunked(gen, sum, "+", device = "cuda"); cat(sprintf("1e10 made on the device: %.2f s, mean %.5f\n", proc.time()[[3]] - t0, s / 1e10))
m <- matrix(runif(2e8), 2e4)
for (margin in 2:1) { t0 <- proc.time()[[3]]; r <- gpu_chunked(m, if (margin == 2) colSums else rowSums, margin = margin, device = "cuda"); cat(sprintf("1.6 GB matrix, margin %d: %.3f s, right: %s\n", margin, proc.time()[[3]] - t0, isTRUE(all.equal(r, if (margin == 2) colSums(m) else rowSums(m))))) }
x <- runif(2e8); heavy <- function(x) { for (k in 1:12) x <- sin(x) + 1e-3; gpu_compute(x); sum(x) }
t <- function(e) { s <- proc.time()[[3]]; force(e); proc.time()[[3]] - s }
invisible(gpu_chunked(x[1:1e7], heavy, "+", chunk = 1e7, device = "cuda"))
up <- t({ for (k in 0:7) { y <- as_gpu(x[k * 2.5e7 + 1:2.5e7], device = "cuda") }; gpu_sync("cuda") }); copyR <- t(for (k in 0:7) x[k * 2.5e7 + 1:2.5e7])
work <- t({ for (k in 1:8) heavy(y); gpu_sync("cuda") }); both <- t(gpu_chunked(x, heavy, "+", chunk = 2.5e7, device = "cuda"))
cat(sprintf("8 chunks of 200 MB: copying alone %.3f s, computing alone %.3f s, chunked %.3f s\n", up - copyR, work, both)); print(gpu_memory("cuda"))
