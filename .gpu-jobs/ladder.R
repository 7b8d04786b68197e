# The card 99% full, 1e4 tries to allocate: every one recovered or a classed error, nothing leaked. Then a loop's gc and memory.
suppressMessages(library(verdigris))
tries <- as.integer(Sys.getenv("TRIES", "10000"))
gpu_sync("cuda"); invisible(gc()); gpu_sync("cuda")
start <- gpu_memory("cuda"); print(start)
one <- 1e9 # bytes
fill <- list()
while (gpu_memory("cuda")[["free"]] > 0.01 * start[["total"]] + one) fill[[length(fill) + 1]] <- gpu_compute(gpu_full(length(fill) + 1.0, one / 8, device = "cuda"))
print(gpu_memory("cuda"))
cat("filled with", length(fill), "arrays of 1 GB\n")
room <- gpu_memory("cuda"); counts <- c(recovered = 0, refused = 0, other = 0)
sizes <- c(1e6, 1e7, 2e8, 1.5e9, 4e9, 2e11)
t0 <- proc.time()[[3]]
for (k in seq_len(tries)) {
  size <- sizes[[k %% length(sizes) + 1]]
  out <- tryCatch({ x <- gpu_compute(gpu_full(as.double(k), size / 8, device = "cuda")); if (k %% 50 == 0) stopifnot(identical(as.vector(x[1]), as.double(k))); rm(x); "recovered" },
    verdigris_error_memory = function(e) { if (k <= 6) cat(conditionMessage(e), "\n"); "refused" }, error = function(e) { print(e); "other" })
  counts[[out]] <- counts[[out]] + 1
  if (proc.time()[[3]] - t0 > as.numeric(Sys.getenv("SECONDS", "300"))) { cat("stopped after", k, "tries\n"); break }
}
cat("tries:", paste(names(counts), counts), sprintf("in %.1f s\n", proc.time()[[3]] - t0))
ok <- vapply(seq_along(fill), function(k) identical(as.vector(fill[[k]][c(1, one / 8)]), c(k, k) + 0), NA)
cat("filled arrays still right:", all(ok), "\n"); print(gpu_memory("cuda"))
rm(fill); if (exists('x')) rm(x); invisible(gc()); gpu_sync("cuda"); invisible(gc()); end <- gpu_memory("cuda", trim = TRUE); print(end)
cat("leaked:", end[["live"]] - start[["live"]], "\n")
# the loop
for (lazy in c(TRUE, FALSE)) {
  x <- as_gpu(rep(1, 1e6), "float32", "cuda"); gpu_sync("cuda"); invisible(gc())
  spent <- .Call(verdigris:::C_live)[[5]]; gc0 <- gc.time()[[3]]; peak <- 0; t0 <- proc.time()[[3]]
  for (k in 1:1e5) { x <- x * 0.999 + 0.001; if (!lazy) gpu_compute(x); if (k %% 1000 == 0) peak <- max(peak, gpu_memory("cuda")[["live"]]) }
  gpu_sync("cuda"); took <- proc.time()[[3]] - t0
  cat(sprintf("loop of 1e5 (%s): %.2f s, collections for memory %.2f%%, all gc %.2f%%, peak live %.2f GB\n", if (lazy) "recorded" else "computed each step",
    took, 100 * (.Call(verdigris:::C_live)[[5]] - spent) / took, 100 * (gc.time()[[3]] - gc0) / took, peak / 1e9))
}
print(gpu_memory("cuda"))
