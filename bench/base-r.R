# Base R and the cpu device on cases of bench/run.sh, at the same number of elements: what README compares a card with.
#
#   Rscript bench/base-r.R [CASE,...]        writes bench/base-r.csv; some 6 GB of memory, some minutes
#
# The time is processor time of all threads (bench/clock.c) on one core, so that other load on the machine counts
# little; for base R, which has one thread, that is the elapsed time on an idle machine. The better of two runs is taken.
Sys.setenv(RAYON_NUM_THREADS = "1")
suppressPackageStartupMessages(library(verdigris))
gpu_use("cpu")
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)[1L]))
source(file.path(folder, "options.R"))
now <- processor_clock()

# The expressions of bench/bench.R, as base R writes them; gpu_compute() gives ordinary values back as they are.
cases <- list(
  chain_f64 = function(x, y) sqrt(x * x + y * y) * 2 - exp(-x) / (1 + abs(y)),
  sum_f64 = function(x, y) sum(x),
  var_f64 = function(x, y) var(x),
  quantile_f64 = function(x, y) quantile(x),
  mask_f64 = function(x, y) x[x > 0],
  sort_f64 = function(x, y) sort(x),
  rnorm_f64 = function(x, y) if (is_gpu(x)) gpu_rnorm(length(x)) else rnorm(length(x))
)
n <- 1e8
only <- strsplit(c(commandArgs(TRUE), paste(names(cases), collapse = ","))[1L], ",")[[1L]]
seconds <- function(code) {
  before <- now()
  value <- code()
  if (is_gpu(value)) gpu_compute(value)
  now() - before
}
set.seed(1)
x <- rnorm(n)
y <- rnorm(n)
measure <- function(x, y) vapply(only, function(name) {
  f <- function() cases[[name]](x, y)
  took <- replicate(2, { gc(verbose = FALSE); seconds(f) })
  cat(sprintf("%s %s %.3f s\n", if (is_gpu(x)) "cpu device" else "base R", name, min(took)))
  min(took)
}, 0)
base <- measure(x, y)
x <- as_gpu(x)
y <- as_gpu(y)
cpu <- measure(x, y)
model <- sub(".*: *", "", grep("^model name", readLines("/proc/cpuinfo"), value = TRUE)[1L])
write.csv(data.frame(name = only, n = n, base_s = signif(base, 3), cpu_s = signif(cpu, 3), r = as.character(getRversion()),
  processor = model, date = format(Sys.Date())), file.path(folder, "base-r.csv"), row.names = FALSE, quote = FALSE)
