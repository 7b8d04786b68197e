# Linear and generalised linear models: seconds of gpu_lm() and gpu_glm(), the most memory taken, and at a smaller
# size base R's time beside.
#
#   Rscript bench/models.R [--device=cuda|cpu] [--scale=1] [--base=0.01] [--repeats=3] [--csv=OUT]
#
# Sizes on a GPU, times `scale`: lm of 1e8 rows and 10 columns, glm (binomial, 10 times as few rows) of 30, lm with two
# factors of 1e5 and 100 levels absorbed, glm (poisson) with a factor of 50 levels, and HC1 covariances. Each case is
# first checked: on `base` times as many rows its coefficients are those of base R to 1e-8. Columns are drawn on the
# device. The fastest repeat counts. bench/models.py has the same by hand in PyTorch.
suppressPackageStartupMessages(library(verdigris))
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)[1L]))
source(file.path(folder, "options.R"))
device <- option("device", if (any(gpu_devices()$device != "cpu")) "cuda" else "cpu")
scale <- as.numeric(option("scale", "1"))
base_part <- as.numeric(option("base", "0.01"))
repeats <- as.integer(option("repeats", "3"))
csv <- option("csv", "")
gpu_use(device)
options(verdigris.host_access = "allow")

# p - 1 normal columns, and what depends on them.
normal <- function(n, p) {
  columns <- stats::setNames(lapply(seq_len(p - 1L), function(k) gpu_rnorm(n)), paste0("x", seq_len(p - 1L)))
  columns$eta <- Reduce(`+`, lapply(seq_len(p - 1L), function(k) columns[[k]] * (0.3 / k)))
  structure(columns, class = "data.frame", row.names = .set_row_names(n))
}
formula_of <- function(y, p, more = NULL) reformulate(c(paste0("x", seq_len(p - 1L)), more), y)
code <- function(n, levels) gpu_cast(floor(gpu_runif(n) * levels), "int32") + 1L

CASES <- list(
  "lm, 10 columns" = list(n = 1e8, data = function(n) {
    d <- normal(n, 10)
    d$y <- d$eta + gpu_rnorm(n)
    d
  }, ours = function(d) gpu_lm(formula_of("y", 10), d, model = FALSE), base = function(d) lm(formula_of("y", 10), d)),
  "glm binomial, 30 columns" = list(n = 1e7, data = function(n) {
    d <- normal(n, 30)
    d$y <- gpu_cast(gpu_runif(n) < 1 / (1 + exp(-d$eta)), "float64")
    d
  }, ours = function(d) gpu_glm(formula_of("y", 30), binomial(), d, model = FALSE),
  base = function(d) glm(formula_of("y", 30), binomial(), d)),
  "glm poisson, factor of 50 levels" = list(n = 1e7, data = function(n) {
    d <- normal(n, 4)
    # codes come from the host, as factors do
    d$g <- factor(collect(code(n, 50)), levels = 1:50)
    d$y <- gpu_rpois(n, lambda = exp(d$eta))
    d
  }, ours = function(d) gpu_glm(formula_of("y", 4, "g"), poisson(), d, model = FALSE),
  base = function(d) glm(formula_of("y", 4, "g"), poisson(), d)),
  "lm, effects of 1e5 and 100 levels absorbed" = list(n = 1e7, data = function(n) {
    d <- normal(n, 6)
    d$id <- code(n, max(2, n / 100))
    d$year <- code(n, 100)
    d$y <- d$eta + gpu_rnorm(n)
    d
  }, ours = function(d) gpu_lm(formula_of("y", 6), d, fe = ~ id + year), base = NULL),
  "HC1 covariances, 10 columns" = list(n = 1e7, data = function(n) {
    d <- normal(n, 10)
    d$y <- d$eta + gpu_rnorm(n) * abs(d$x1)
    list(fit = gpu_lm(formula_of("y", 10), d))
  }, ours = function(d) gpu_vcov(d$fit, "HC1"), base = NULL)
)

# The first run loads kernels, and what it has compiled beside is waited for.
seconds <- function(f, times) {
  f()
  gpu_sync()
  if (device != "cpu") .Call(verdigris:::C_tier_counts, gpu_device(as_gpu(0)), 60)
  best <- Inf
  for (k in seq_len(times)) {
    gc(FALSE)
    best <- min(best, system.time({
      value <- f()
      gpu_sync()
    })[["elapsed"]])
    rm(value)
  }
  best
}

# Bytes that arrays and the pool hold. The pool keeps what was freed, so after a call these are the most that it took.
taken <- function(trim) sum(unclass(gpu_memory(trim = trim))[c("live", "pending", "cached")])

rows <- list()
for (name in names(CASES)) {
  case <- CASES[[name]]
  n <- round(case$n * scale)
  few <- max(1000, round(n * base_part))
  base_time <<- few_time <- NA
  if (!is.null(case$base)) {
    small <- case$data(few)
    for (v in small) if (is_gpu(v)) gpu_compute(v)
    host <- collect(small)
    stopifnot(isTRUE(all.equal(coef(case$ours(small)), coef(case$base(host)), tolerance = 1e-8)))
    few_time <- seconds(function() case$ours(small), repeats)
    base_time <- seconds(function() case$base(host), repeats)
    rm(small, host)
  }
  data <- case$data(n)
  # draws are recorded
  for (v in data) if (is_gpu(v)) gpu_compute(v)
  gpu_sync()
  held <- taken(TRUE)
  time <- seconds(function() case$ours(data), repeats)
  peak <- taken(FALSE)
  cat(sprintf("%-44s n = %g: %.3f s, peak %.2f GB (data %.2f GB)%s\n", name, n, time, peak / 1e9,
    held / 1e9, if (is.na(base_time)) "" else sprintf("; n = %g: %.3f s, base R %.3f s (%.1f times)", few,
      few_time, base_time, base_time / few_time)))
  rows[[name]] <- data.frame(case = name, device = device, n = n, seconds = time, peak = peak,
    held = held, few = few, few_seconds = few_time, base_seconds = base_time)
  rm(data)
}
if (nzchar(csv)) write.csv(do.call(rbind, rows), csv, row.names = FALSE)
