# Sizes of a transfer's piece against threads (run once for each VERDIGRIS_PIECE), and the two ways to wait (VERDIGRIS_WAIT).
suppressMessages(library(verdigris)); now <- function() as.numeric(Sys.time()); set.seed(1); x <- rep_len(runif(1e6), 1e8)
ms <- function(code) { code <- substitute(code); env <- parent.frame(); t <- numeric(); for (k in 1:8) { gpu_sync("cuda"); s <- now(); v <- eval(code, env); gpu_sync("cuda"); t[k] <- 1e3 * (now() - s); rm(v); gc() }; sprintf("%5.1f (min %5.1f)", median(t), min(t)) }
for (threads in c(4, 8, 12, 16)) { options(verdigris.transfer_threads = threads)
  cat(sprintf("piece %s KiB, %2d threads: double %s  float32 %s\n", Sys.getenv("VERDIGRIS_PIECE", "4096"), threads, ms(as_gpu(x, device = "cuda")), ms(as_gpu(x, "float32", "cuda")))) }
a <- as_gpu(as.double(1:10), device = "cuda"); sum(a); t <- replicate(5000, { s <- now(); sum(a); now() - s })
cat(sprintf("sum of 10, wait by %s: %.1f us\n", Sys.getenv("VERDIGRIS_WAIT", "asking"), 1e6 * median(t)))
