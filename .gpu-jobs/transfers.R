# Transfers at 1, 2, 4, 8, 16 threads (1e8 elements, medians of 5), reads cold and warm, and what a fork sees of a read vector.
suppressMessages(library(verdigris))
options(verdigris.host_access = "allow")
now <- function() as.numeric(Sys.time())
ms <- function(code, n = 5, after = NULL) {
  code <- substitute(code); env <- parent.frame(); t <- numeric()
  for (k in seq_len(n)) { gpu_sync("cuda"); s <- now(); v <- eval(code, env); gpu_sync("cuda"); t[k] <- 1e3 * (now() - s); rm(v); if (!is.null(after)) after() }
  sprintf("%7.1f (min %5.1f, first %6.1f)", median(t), min(t), t[1])
}
set.seed(1)
x <- rep_len(runif(1e6), 1e8); m <- matrix(x, 1e4); i <- rep_len(c(1L, NA, 100L), 1e8); l <- rep_len(c(TRUE, NA, FALSE), 1e8)
as_gpu(x[1:10], device = "cuda")
cat(parallel::detectCores(), "cores\n")
for (threads in c(1, 2, 4, 8, 16)) {
  options(verdigris.transfer_threads = threads)
  cat(sprintf("%2d threads  up double    %s ms\n", threads, ms(as_gpu(x, device = "cuda"), after = gc)))
  cat(sprintf("            up matrix    %s ms\n", ms(as_gpu(m, device = "cuda"), after = gc)))
  cat(sprintf("            up float32   %s ms\n", ms(as_gpu(x, "float32", "cuda"), after = gc)))
  if (threads %in% c(4, 8, 16)) {
    cat(sprintf("            up float16   %s ms\n", ms(as_gpu(x, "float16", "cuda"), after = gc)))
    cat(sprintf("            up int32     %s ms\n", ms(as_gpu(i, device = "cuda"), after = gc)))
    cat(sprintf("            up int8      %s ms\n", ms(as_gpu(i, "int8", "cuda"), after = gc)))
    cat(sprintf("            up logical   %s ms\n", ms(as_gpu(l, device = "cuda"), after = gc)))
  }
  g <- as_gpu(x, device = "cuda"); f <- as_gpu(x, "float32", "cuda")
  .Call(verdigris:::C_device_trim, "cpu") # nothing is kept: fresh pages
  cold <- numeric(); keep <- list()
  for (k in 1:3) { s <- now(); keep[[k]] <- as.vector(g); cold[k] <- 1e3 * (now() - s) }
  cat(sprintf("            down cold    %s ms\n", paste(sprintf("%.1f", cold), collapse = " ")))
  stopifnot(identical(keep[[3]][c(1, 5e7, 1e8)], x[c(1, 5e7, 1e8)]), sum(keep[[2]]) == sum(x)); rm(keep); gc()
  cat(sprintf("            down double, garbage collected between  %s ms\n", ms(as.vector(g), 7, after = gc)))
  cat(sprintf("            down double, as it comes                %s ms\n", ms(as.vector(g), 12)))
  y <- NULL; t <- numeric(); for (k in 1:12) { s <- now(); y <- as.vector(g); t[k] <- 1e3 * (now() - s) }
  cat(sprintf("            y <- as.vector(g)                       %s\n", paste(sprintf("%.1f", t), collapse = " ")))
  cat(sprintf("            down float32                            %s ms\n", ms(as.vector(f), 7, after = gc)))
  cat(sprintf("            down t(m), collect                      %s ms\n", ms(collect(t(as_gpu(m, device = "cuda"))), 3, after = gc)))
  print(unclass(gpu_memory("cuda"))[c("live", "pending", "cached", "pinned")]); rm(g, f, y); gc()
}
options(verdigris.transfer_threads = NULL)
g <- as_gpu(x, device = "cuda"); y <- as.vector(g); rm(y); gc(); y <- as.vector(g) # page-locked by now
cat("a child of a fork reads a page-locked vector:", unlist(parallel::mclapply(1:2, function(k) sum(y[1:1e6]) == sum(x[1:1e6]), mc.cores = 2)), "\n")
y[1] <- -1; stopifnot(y[1] == -1, as.vector(g[1]) == x[1])
a <- as_gpu(as.double(1:10), device = "cuda"); sum(a)
t <- replicate(2000, { s <- now(); sum(a); now() - s }); cat(sprintf("sum of 10: %.1f us\n", 1e6 * median(t)))
s <- as_gpu(as.double(1:1000), device = "cuda"); t <- replicate(2000, { a <- now(); as_gpu(1:1000 + 0, device = "cuda"); now() - a }); cat(sprintf("upload of 1000: %.1f us\n", 1e6 * median(t)))
