# Many small matrices at once: gpu_chol(), gpu_solve(), gpu_qr(), gpu_eigen() and gpu_svd(); one system of 50 unknowns;
# one small product. On a GPU bench/many.py has the same of CuPy and PyTorch; on the cpu device base R in a loop is
# beside.
#
#   Rscript bench/many.R [--device=cuda|cpu] [--counts=1,100,1e4,1e5] [--sizes=4,8,16,32,64] [--seconds=0.3] [--csv=OUT]
#
# Each result is first checked against base R on the first and the last matrix. Microseconds a call, the fastest repeat;
# calls wait for the device to learn whether all went well.
suppressPackageStartupMessages(library(verdigris))
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)[1L]))
source(file.path(folder, "options.R"))
device <- option("device", if (any(gpu_devices()$device != "cpu")) "cuda" else "cpu")
counts <- numbers(option("counts", "1,100,1e4,1e5"))
sizes <- as.integer(numbers(option("sizes", "4,8,16,32,64")))
seconds <- as.numeric(option("seconds", "0.3"))
csv <- option("csv", "")
gpu_use(device)

CASES <- list(
  chol = list(ours = function(o) gpu_chol(o$spd), base = function(o, k) chol(o$spd[, , k])),
  solve = list(ours = function(o) gpu_solve(o$a, o$b), base = function(o, k) solve(o$a[, , k], o$b[, , k])),
  inverse = list(ours = function(o) gpu_solve(o$a), base = function(o, k) solve(o$a[, , k])),
  qr = list(ours = function(o) gpu_qr(o$a)$r, base = function(o, k) {
    q <- qr(o$a[, , k])
    qr.Q(q)
    qr.R(q)
  }),
  eigen = list(ours = function(o) gpu_eigen(o$spd)$values, base = function(o, k) eigen(o$spd[, , k], TRUE)$values),
  svd = list(ours = function(o) gpu_svd(o$a)$d, base = function(o, k) svd(o$a[, , k])$d)
)

operands <- function(n, count, dtype) {
  set.seed(1)
  a <- array(rnorm(n * n * count), c(n, n, count))
  spd <- a / 10
  for (k in seq_len(count)) spd[, , k] <- spd[, , k] + t(spd[, , k]) + diag(n) * n
  list(a = a, spd = spd, b = array(rnorm(n * count), c(n, 1L, count)))
}

rows <- list()
report <- function(case, dtype, n, count, time, base) {
  cat(sprintf("%-8s %-8s n = %2d, %6d matrices: %10.1f us%s\n", case, dtype, n, count, 1e6 * time,
    if (is.na(base)) "" else sprintf(", base R %10.1f us (%.2f)", 1e6 * base, base / time)))
  rows[[length(rows) + 1L]] <<- data.frame(case = case, dtype = dtype, n = n, count = count, us = 1e6 * time,
    base_us = 1e6 * base)
}
for (dtype in c("float64", "float32")) for (n in sizes) for (count in counts) {
  # a GPU's memory, and this machine's patience
  if (n^2 * count > 2e8 || device == "cpu" && n^3 * count > 4e7) next
  host <- operands(n, count, dtype)
  o <- lapply(host, as_gpu, dtype = dtype)
  for (case in names(CASES)) {
    ours <- CASES[[case]]$ours
    base <- CASES[[case]]$base
    got <- collect(ours(o))
    size <- length(got) / count
    for (k in unique(c(1, count))) {
      want <- as.vector(base(lapply(o, collect), k))
      part <- as.vector(got)[(k - 1) * size + seq_len(size)]
      if (!isTRUE(all.equal(part, want, tolerance = if (dtype == "float32") 1e-2 else 1e-7)))
        stop(sprintf("%s of %d x %d (%s) is wrong in matrix %d", case, n, n, dtype, k))
    }
    with_base <- device == "cpu" && dtype == "float64"
    loop <- if (with_base) fastest(function() for (k in seq_len(count)) base(host, k)) else NA
    report(case, dtype, n, count, fastest(function() ours(o)), loop)
  }
}

# One system, and one product, as a program has them in a loop.
for (dtype in c("float64", "float32")) {
  o <- lapply(operands(50L, 1L, dtype), function(v) as_gpu(v[, , 1L], dtype = dtype))
  report("solve1", dtype, 50L, 1L, fastest(function() solve(o$a, o$b)), NA)
  report("chol1", dtype, 50L, 1L, fastest(function() chol(o$spd)), NA)
  for (n in sizes) {
    o <- lapply(operands(n, 1L, dtype), function(v) as_gpu(v[, , 1L], dtype = dtype))
    report("product1", dtype, n, 1L, fastest(function() o$a %*% o$spd), NA)
  }
}
if (nzchar(csv)) write.csv(do.call(rbind, rows), csv, row.names = FALSE)
