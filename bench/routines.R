# Compiled R functions compared with hand-written CUDA C kernels (on a GPU), or with the byte-compiled R loop on one
# core (--device=cpu; set RAYON_NUM_THREADS=1). Also the cost of compiling, without NVRTC.
#
#   Rscript bench/routines.R [--device=cuda|cpu] [--scale=1] [--seconds=0.5] [--csv=OUT]
#
# On a GPU at scale 1: 1e7 paths of 252 steps, and 4096 x 4096 pixels of at most 1000 iterations. Results are compared
# first: escape counts are equal, means of paths agree within their standard errors (the hand-written kernel draws other
# numbers).
suppressPackageStartupMessages(library(verdigris))
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)[1L]))
source(file.path(folder, "options.R"))
device <- option("device", if (any(gpu_devices()$device != "cpu")) "cuda" else "cpu")
scale <- as.numeric(option("scale", "1"))
seconds <- as.numeric(option("seconds", "0.5"))
csv <- option("csv", "")
gpu_use(device)

paths_r <- function(s0, drift, step, steps) {
  s <- s0
  total <- 0
  for (k in 1:steps) {
    s <- s * exp(drift + step * rnorm(1))
    total <- total + s
  }
  max(total / steps - s0, 0)
}
escape_r <- function(re, im, turns) {
  x <- 0
  y <- 0
  for (k in 1:turns) {
    x2 <- x * x
    y2 <- y * y
    if (x2 + y2 > 4) return(k)
    y <- 2 * x * y + im
    x <- x2 - y2 + re
  }
  0L
}
root_r <- function(a) {
  x <- if (a > 1) a else 1
  for (k in 1:60) {
    new <- (2 * x + a / (x * x)) / 3
    if (abs(new - x) <= 1e-15 * x) return(new)
    x <- new
  }
  x
}
epidemic_r <- function(beta, gamma, days) {
  s <- 0.999
  i <- 0.001
  peak <- i
  for (k in 1:days) {
    new <- beta * s * i
    out <- gamma * i
    s <- s - new
    i <- i + new - out
    if (i > peak) peak <- i
  }
  peak
}

# By hand: a path with the two normals of a Philox block, as a CUDA programmer would write it without curand.
by_hand <- '
__device__ uint4 philox(uint4 c, unsigned k0, unsigned k1) {
  for (int r = 0; r < 10; r++) {
    unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x, h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
    c = make_uint4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }
  return c;
}
extern "C" __global__ void paths(double* out, double s0, double drift, double step, int steps, unsigned key, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  double s = s0, total = 0;
  for (int k = 0; k < steps; k += 2) {
    uint4 b = philox(make_uint4((unsigned)i, (unsigned)(i >> 32), k, 0), key, 7u);
    double u = (((unsigned long long)b.x << 21 ^ b.y >> 11) + 0.5) * 1.1102230246251565e-16, v = (((unsigned long long)b.z << 21 ^ b.w >> 11) + 0.5) * 2.220446049250313e-16;
    double r = sqrt(-2.0 * log(u)), sine, cosine;
    sincospi(v, &sine, &cosine);
    s *= exp(drift + step * r * cosine); total += s;
    if (k + 1 < steps) { s *= exp(drift + step * r * sine); total += s; }
  }
  out[i] = fmax(total / steps - s0, 0.0);
}
extern "C" __global__ void escape(int* out, const double* re, const double* im, int turns, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  double x = 0, y = 0, a = re[i], b = im[i];
  int count = 0;
  for (int k = 1; k <= turns; k++) {
    double x2 = x * x, y2 = y * y;
    if (x2 + y2 > 4) { count = k; break; }
    y = 2 * x * y + b;
    x = x2 - y2 + a;
  }
  out[i] = count;
}'

rows <- list()
record <- function(case, ours, other, against) {
  rows[[length(rows) + 1L]] <<- data.frame(case = case, seconds = ours, other = other, against = against,
    ratio = if (against == "R") other / ours else ours / other)
  cat(sprintf("%-28s %10.3g s   %s %10.3g s   %s %.2f\n", case, ours, against, other,
    if (against == "R") "times as fast:" else "ratio:", rows[[length(rows)]]$ratio))
}

# What compiling costs, from closure to a recorded call: each time another constant, so that nothing is known.
compile_ms <- local({
  x <- gpu_zeros(4)
  functions <- lapply(1:200, function(k) {
    f <- escape_r
    body(f)[[2L]][[3L]] <- k / 7
    f
  })
  1000 / 200 * system.time(for (f in functions) gpu_compile(f)(x, x, 100L), gcFirst = FALSE)[["elapsed"]]
})
cat(sprintf("from closure to recorded call: %.2f ms (mean of 200)\n", compile_ms))

paths <- gpu_compile(paths_r)
escape <- gpu_compile(escape_r)
if (device == "cpu") {
  # the R loop on few elements, byte-compiled; the device on more
  against_r <- function(case, f, few, many) {
    plain <- compiler::cmpfun(f)
    loop <- function() for (k in seq_along(few[[1L]]))
      do.call(plain, lapply(few, function(v) v[[if (length(v) == 1L) 1L else k]]))
    compiled <- gpu_compile(f)
    arrays <- lapply(many, function(v) if (length(v) > 1L) as_gpu(v) else v)
    invisible(do.call(compiled, arrays))
    ours <- fastest(function() gpu_compute(do.call(compiled, arrays))) / length(many[[1L]])
    theirs <- fastest(loop) / length(few[[1L]])
    record(case, ours, theirs, "R")
  }
  grid <- expand.grid(re = seq(-2, 0.6, length.out = 256), im = seq(-1.2, 1.2, length.out = 256))
  some <- grid[seq(1, nrow(grid), by = 211), ]
  against_r("mandelbrot_1000", escape_r, list(some$re, some$im, 1000L), list(grid$re, grid$im, 1000L))
  against_r("paths_252", paths_r, list(rep(100, 500), 1e-4, 0.01, 252L), list(rep(100, 20000), 1e-4, 0.01, 252L))
  against_r("cube_root_newton", root_r, list(seq(0.1, 100, length.out = 2000)), list(seq(0.1, 100, length.out = 1e5)))
  against_r("epidemic_100", epidemic_r, list(seq(0.1, 0.6, length.out = 500), 0.1, 100L),
    list(seq(0.1, 0.6, length.out = 50000), 0.1, 100L))
} else {
  module <- gpu_module(by_hand)
  n <- 1e7 * scale
  start <- gpu_full(100, n)
  out <- gpu_zeros(n)
  hand <- gpu_kernel(module, "paths")
  set.seed(1)
  ours <- as.numeric(mean(paths(start, 1e-4, 0.01, 252L)))
  hand(out, 100, 1e-4, 0.01, 252L, 11L, n, n = n)
  theirs <- as.numeric(mean(out))
  error <- as.numeric(sd(out)) / sqrt(n)
  if (abs(ours - theirs) > 6 * error)
    stop(sprintf("means of paths differ: %g and %g, standard error %g", ours, theirs, error))
  record("paths_252", fastest(function() gpu_compute(paths(start, 1e-4, 0.01, 252L))),
    fastest(function() hand(out, 100, 1e-4, 0.01, 252L, 11L, n, n = n)), "hand")
  side <- round(4096 * sqrt(scale))
  re <- gpu_compute(rep(gpu_seq(-2, 0.6, length.out = side), times = side))
  im <- gpu_compute(rep(gpu_seq(-1.2, 1.2, length.out = side), each = side))
  counts <- gpu_zeros(side^2, dtype = "int32")
  hand <- gpu_kernel(module, "escape")
  hand(counts, re, im, 1000L, side^2, n = side^2)
  ours <- escape(re, im, 1000L)
  # by hand products and sums are fused, so that some pixels at the border differ
  differs <- as.numeric(mean(ours != counts))
  if (differs > 1e-2) stop(sprintf("escape counts differ at %g of the pixels", differs))
  record("mandelbrot_1000", fastest(function() gpu_compute(escape(re, im, 1000L))),
    fastest(function() hand(counts, re, im, 1000L, side^2, n = side^2)), "hand")
}
if (nzchar(csv)) utils::write.csv(do.call(rbind, rows), csv, row.names = FALSE)
