# Costs of operations on R's side: recording, a small result computed, a number, and a loop of updates with R's gc.
#
#   Rscript bench/recording.R [cpu|cuda]        the device; default: the current one
#
# Times are elapsed microseconds a call, R's gc included: the median of repeats and, in brackets, the minimum.
suppressMessages(library(verdigris))
device <- c(commandArgs(TRUE), gpu_device(as_gpu(0)))[1]

times <- function(label, f, n = 5000L, repeats = 15L, reach = "") {
  f(n %/% 5L)
  gpu_sync(device)
  took <- vapply(seq_len(repeats), function(k) {
    t <- proc.time()[[3L]]
    f(n)
    gpu_sync(device)
    (proc.time()[[3L]] - t) / n * 1e6
  }, 0)
  cat(sprintf("%-46s %7.2f (%.2f)  %s\n", label, median(took), min(took), reach))
}

x <- as_gpu(as.numeric(1:10), device = device)
y <- as_gpu(as.numeric(10:1), device = device)
plain <- structure(1:10, class = "plain")
registerS3method("+", "plain", function(e1, e2) NULL, baseenv())
cat(R.version.string, "on", device, "\n")
times("a method that does nothing (S3)", function(n) for (i in seq_len(n)) plain + plain)
times("record x + y", function(n) for (i in seq_len(n)) x + y, reach = "reach 2")
times("record x * 2", function(n) for (i in seq_len(n)) x * 2, reach = "reach 2")
times("record sqrt(x), which may warn", function(n) for (i in seq_len(n)) sqrt(x))
times("gpu_compute(x + y), 10 elements", function(n) for (i in seq_len(n)) gpu_compute(x + y), reach = "reach 5")
times("sum(x), 10 elements, as a number", function(n) for (i in seq_len(n)) sum(x) > 0, reach = "reach 11")
times("sum(x), not read", function(n) for (i in seq_len(n)) sum(x), n = 1000L)
times("(x - mean(x)) / sd(x), computed", function(n) for (i in seq_len(n)) gpu_compute((x - mean(x)) / sd(x)),
  n = 1000L)

a <- 0.999
b <- 0.001
x <- as_gpu(rep(1, 1e6), dtype = "float32", device = device)
steps <- if (device == "cpu") 2e3 else 1e5
update <- function(x, steps) {
  for (i in seq_len(steps)) x <- x * a + b
  gpu_compute(x)
  gpu_sync(device)
  x
}
invisible(update(x, 500))
invisible(gc())
held <- gpu_memory(device)[["live"]]
before <- gc.time()
took <- system.time(x <- update(x, steps), gcFirst = FALSE)[[3L]]
spent <- (gc.time() - before)[[3L]]
invisible(gc())
cat(sprintf("%g steps of x <- x * a + b, 1e6 floats: %.2f s, %.2f us a step; gc %.1f%% (reach 5)\n", steps, took,
  took / steps * 1e6, 100 * spent / took))
cat(sprintf("live device memory before and after: %.1f, %.1f MB\n", held / 1e6, gpu_memory(device)[["live"]] / 1e6))
