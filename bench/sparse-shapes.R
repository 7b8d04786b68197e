# What one does with a sparse matrix around its products: to the device and back, operators, margins, parts, joining. On
# the cpu device package Matrix is beside.
#
#   Rscript bench/sparse-shapes.R [--device=cuda|cpu] [--rows=1e6] [--columns=2e4] [--stored=1e8] [--seconds=0.5]
#     [--csv=OUT]
#
# The elements are spread evenly. Each result is first checked against Matrix on a matrix of a thousandth of the
# elements. Milliseconds a call, the fastest repeat; calls wait for the device.
suppressPackageStartupMessages(library(verdigris))
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)[1L]))
source(file.path(folder, "options.R"))
device <- option("device", if (any(gpu_devices()$device != "cpu")) "cuda" else "cpu")
extents <- c(numbers(option("rows", "1e6")), numbers(option("columns", "2e4")))
stored <- numbers(option("stored", "1e8"))
seconds <- as.numeric(option("seconds", "0.5"))
csv <- option("csv", "")
gpu_use(device)
Matrix <- asNamespace("Matrix")

# Made on the device: 1e8 elements of Matrix take half a minute. Places are drawn, repeated ones added.
made <- function(extents, stored) {
  set.seed(1)
  gpu_sparse(i = gpu_sample_int(extents[1L], stored, TRUE), j = gpu_sample_int(extents[2L], stored, TRUE),
    x = round(gpu_runif(stored, 1, 9)), dim = extents)
}

operands <- function(extents, stored) {
  S <- made(extents, stored)
  list(S = S, T = made(extents, stored / 4), v = rnorm(extents[1L]), w = abs(rnorm(extents[2L])) + 1,
    rows = sort(sample.int(extents[1L], extents[1L] %/% 10)), columns = sample.int(extents[2L], extents[2L] %/% 10),
    group = sample.int(10L, extents[1L], TRUE))
}

CASES <- list(
  "S * 2" = function(o) o$S * 2, "S * v" = function(o) o$S * o$v, "S + T" = function(o) o$S + o$T,
  "S * T" = function(o) o$S * o$T, "S > 3" = function(o) o$S > 3,
  "log1p(S) of scaled columns" = function(o) log1p(t(t(o$S) / o$w)),
  "rowSums" = function(o) rowSums(o$S), "colSums" = function(o) colSums(o$S), "sum" = function(o) sum(o$S),
  "t" = function(o) t(o$S), "a tenth of the rows" = function(o) o$S[o$rows, ],
  "a tenth of the columns" = function(o) o$S[, o$columns], "cbind" = function(o) cbind(o$S, o$T)
)
# Matrix has other words, or none
OWN <- list(
  "log1p of sweep()" = function(o) log1p(sweep(o$S, 2, o$w, "/")),
  "variances of columns" = function(o) apply(o$S, 2, var), "rowsum by ten groups" = function(o) rowsum(o$S, o$group)
)

finished <- function(value) {
  if (inherits(value, "gpu_sparse") || inherits(value, "gpu_array")) gpu_compute(value)
  if (device != "cpu") gpu_sync(device)
  value
}
fastest <- function(f) {
  best <- Inf
  spent <- 0
  while (spent < seconds || spent == best && spent < 10 * seconds) {
    time <- system.time(f())[["elapsed"]]
    best <- min(best, time)
    spent <- spent + max(time, 1e-4)
  }
  best
}
plain <- function(value) if (is.numeric(value) && is.null(dim(value))) as.vector(value) else as.matrix(value)
on_host <- function(o) lapply(o, function(x) if (inherits(x, "gpu_sparse")) collect(x) else x)

small <- operands(pmax(round(extents / 30), 10), ceiling(stored / 1000))
for (name in names(CASES)) {
  f <- CASES[[name]]
  theirs <- f
  environment(theirs) <- Matrix
  same <- all.equal(plain(f(small)), plain(theirs(on_host(small))), check.attributes = FALSE)
  if (!isTRUE(same)) stop(name, ": ", same)
}

o <- operands(extents, stored)
cat(sprintf("%s x %s, %s stored, on %s\n", format(extents[1L], big.mark = ","), format(extents[2L], big.mark = ","),
  format(length(o$S@i), big.mark = ","), device))
host <- if (device == "cpu") on_host(o)
rows <- list()
for (name in c(names(CASES), names(OWN))) {
  f <- if (is.null(CASES[[name]])) OWN[[name]] else CASES[[name]]
  finished(f(o))
  ours <- fastest(function() finished(f(o)))
  theirs <- if (!is.null(host) && !is.null(CASES[[name]])) {
    environment(f) <- Matrix
    fastest(function() f(host))
  } else NA_real_
  cat(sprintf("%-28s %10.2f ms%s\n", name, 1e3 * ours, if (is.na(theirs)) "" else sprintf(", Matrix %10.2f ms (%.2f)",
    1e3 * theirs, theirs / ours)))
  rows[[name]] <- data.frame(case = name, device = device, ms = 1e3 * ours, matrix_ms = 1e3 * theirs)
}
if (nzchar(csv)) utils::write.csv(do.call(rbind, rows), csv, row.names = FALSE)
