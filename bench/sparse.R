# Products of sparse matrices: S %*% x, S %*% B (64 columns), crossprod(S, B), S %*% S, the structure by the other
# margin and sums of columns, of five matrices. On a GPU bench/sparse.py has the same of CuPy and PyTorch; on the cpu device
# Matrix is beside, where it is installed.
#
#   Rscript bench/sparse.R [--device=cuda|cpu] [--scale=1] [--matrices=uniform,power,banded,cells,long]
#                          [--dtypes=float64,float32] [--seconds=0.3] [--csv=OUT]
#
# At scale 1 the matrices are, by rows:
#   uniform  1e6 x 1e6, 20 elements a row anywhere
#   power    1e6 x 1e6, some 2e7 elements, rows of 1 to 20,000 by a power law
#   banded   2e7 x 2e7, the diagonal and two beside it on each side
#   cells    1e6 x 2e4, 1,000 elements a row, as cells and genes have
#   long     1e6 x 1e6, one element a row, but one row of 1e6
# Each result is first checked. Milliseconds, the fastest repeat; beside them the bytes that must be read and written,
# by the time.
suppressPackageStartupMessages(library(verdigris))
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)[1L]))
source(file.path(folder, "options.R"))
device <- option("device", if (any(gpu_devices()$device != "cpu")) "cuda" else "cpu")
scale <- as.numeric(option("scale", if (device == "cpu") "0.05" else "1"))
dtypes <- strsplit(option("dtypes", "float64,float32"), ",")[[1L]]
seconds <- as.numeric(option("seconds", "0.3"))
csv <- option("csv", "")
gpu_use(device)
own <- asNamespace("verdigris")
COLUMNS <- 64L

# Rows of these lengths (host) over `columns`: element k of a row is somewhere in the k-th of as many equal parts.
stratified <- function(lengths, columns) {
  p <- c(0, cumsum(lengths))
  n <- p[length(p)]
  p <- as_gpu(p, dtype = if (n < 2^31) "int32" else "int64")
  row <- own$segment_expand(p, n) + 1L
  k <- gpu_seq(0, by = 1, length.out = n) - gpu_cast(p, "float64")[row]
  part <- columns / as_gpu(lengths, dtype = "float64")[row]
  # in its part, of which the next one's begin is no more
  i <- gpu_cast(floor(k * part + gpu_runif(n) * (floor((k + 1) * part) - ceiling(k * part))), "int32")
  list(p = p, i = gpu_compute(i), rows = length(lengths), columns = columns, n = n)
}
banded <- function(rows) {
  offset <- rep(-2:2, rows) + rep(seq_len(rows) - 1L, each = 5L)
  inside <- offset >= 0L & offset < rows
  lengths <- colSums(matrix(inside, 5L))
  list(p = as_gpu(as.integer(c(0, cumsum(lengths)))), i = as_gpu(offset[inside]), rows = rows, columns = rows,
    n = sum(inside))
}
MATRICES <- list(
  uniform = function() stratified(rep(20, 1e6 * scale), 1e6 * scale),
  power = function() {
    rows <- 1e6 * scale
    set.seed(1)
    stratified(sample(pmax(1, floor(min(2e4, rows) * seq_len(rows)^-0.5))), rows)
  },
  banded = function() banded(as.integer(2e7 * scale)),
  cells = function() stratified(rep(1000, 1e6 * scale), 2e4),
  long = function() stratified(replace(rep(1, 1e6 * scale), 17L, 1e6 * scale), 1e6 * scale)
)
wanted <- strsplit(option("matrices", toString(names(MATRICES))), ", *")[[1L]]

rows <- list()
report <- function(matrix, case, dtype, time, bytes, base) {
  cat(sprintf("%-8s %-10s %-8s %10.3f ms, %7.0f GB/s%s\n", matrix, case, dtype, 1e3 * time, bytes / time / 1e9,
    if (is.na(base)) "" else sprintf(", Matrix %10.3f ms (%.2f)", 1e3 * base, base / time)))
  rows[[length(rows) + 1L]] <<- data.frame(matrix = matrix, case = case, dtype = dtype, ms = 1e3 * time,
    base_ms = 1e3 * base)
}
draws <- function(dtype, ...) {
  x <- gpu_compute(gpu_cast(gpu_runif(prod(...)), dtype))
  if (...length() > 1L) dim(x) <- c(...)
  x
}
near <- function(found, want, dtype)
  isTRUE(all.equal(as.vector(found), as.vector(want), tolerance = if (dtype == "float32") 1e-4 else 1e-10))

has_matrix <- device == "cpu" && requireNamespace("Matrix", quietly = TRUE)
for (name in wanted) for (dtype in dtypes) {
  s <- MATRICES[[name]]()
  turned <- own$segment_transpose(s$p, s$i, s$columns)
  x <- draws(dtype, s$n)
  by_column <- gpu_compute(x[turned$order + 1L])
  size <- if (dtype == "float32") 4 else 8
  b <- draws(dtype, s$columns)
  B <- draws(dtype, s$columns, COLUMNS)
  C <- draws(dtype, s$rows, COLUMNS)
  structure <- s$n * (4 + size) + 4 * s$rows
  cases <- list(
    "S %*% x" = list(ours = function() own$segment_products(s$p, s$i, x, b), base = function() m %*% hb,
      bytes = structure + size * (s$rows + s$columns)),
    "S %*% B" = list(ours = function() own$segment_products(s$p, s$i, x, B), base = function() m %*% hB,
      bytes = structure + size * COLUMNS * (s$rows + s$columns)),
    "t(S) %*% x" = list(ours = function() own$segment_products(turned$p, turned$i, by_column, C[, 1L]),
      base = function() Matrix::crossprod(m, hC[, 1L]), bytes = structure + size * (s$rows + s$columns)),
    "t(S) %*% B" = list(ours = function() own$segment_products(turned$p, turned$i, by_column, C),
      base = function() Matrix::crossprod(m, hC), bytes = structure + size * COLUMNS * (s$rows + s$columns)),
    "t(S)" = list(ours = function() own$segment_transpose(turned$p, turned$i, s$rows), base = function() Matrix::t(m),
      bytes = 2 * structure),
    colSums = list(ours = function() own$segment_reduce(turned$p, by_column), base = function() Matrix::colSums(m),
      bytes = s$n * size)
  )
  # the product with its transpose, or itself, where that is no larger than ten times the factors
  if (name %in% c("uniform", "banded")) cases[["S %*% S"]] <- list(
    ours = function() own$segment_multiply(turned$p, turned$i, by_column, s$rows, turned$p, turned$i, by_column),
    base = function() m %*% m, bytes = 2 * structure)
  if (has_matrix) {
    m <- Matrix::sparseMatrix(i = as.vector(turned$i), p = as.vector(turned$p), x = collect(by_column),
      dims = c(s$rows, s$columns), index1 = FALSE)
    hb <- collect(b)
    hB <- collect(B)
    hC <- collect(C)
  }
  # the sum of a product is that of a product with sums
  stopifnot(near(sum(cases[["S %*% x"]]$ours()), sum(own$segment_reduce(turned$p, by_column) * b), dtype),
    near(sum(cases[["t(S) %*% B"]]$ours()), sum(own$segment_reduce(s$p, x) * rowSums(C)), dtype))
  for (case in names(cases)) {
    if (has_matrix && !case %in% c("t(S)", "S %*% S"))
      stopifnot(near(cases[[case]]$ours(), cases[[case]]$base(), dtype))
    base <- if (has_matrix && dtype == "float64") fastest(cases[[case]]$base) else NA
    report(name, case, dtype, fastest(function() {
      out <- cases[[case]]$ours()
      if (is_gpu(out)) gpu_compute(out)
    }), cases[[case]]$bytes, base)
  }
}
if (nzchar(csv)) write.csv(do.call(rbind, rows), csv, row.names = FALSE)
