# k-means, nearest neighbours and principal components: gpu_kmeans(), kmeans(), gpu_knn() and prcomp(). On the cpu
# device base R is beside.
#
#   Rscript bench/clusters.R [--device=cuda|cpu] [--dtype=float64] [--rows=1e6] [--columns=128] [--clusters=1000]
#     [--points=1e5] [--neighbours=15] [--tall=1e6] [--wide=1000] [--rank=50] [--seconds=1]
#
# The defaults are for an H100; on the cpu device 2e4 x 16 with 20 clusters, 3000 points with 15 neighbours, and 4000 x
# 600 with rank 10. Each result is first checked: clusters' sums of squares and neighbours of some points against their
# definition, deviations against the exact method. Seconds, the fastest run; and the memory that the device's pool held
# at most, the data included. bench/models.py has the same by hand in PyTorch.
suppressPackageStartupMessages(library(verdigris))
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)[1L]))
source(file.path(folder, "options.R"))
device <- option("device", if (any(gpu_devices()$device != "cpu")) "cuda" else "cpu")
dtype <- option("dtype", "float64")
on_cpu <- device == "cpu"
seconds <- as.numeric(option("seconds", "1"))
size <- function(name, gpu, cpu) as.numeric(option(name, if (on_cpu) cpu else gpu))
rows <- size("rows", 1e6, 2e4)
columns <- size("columns", 128, 16)
clusters <- size("clusters", 1000, 20)
points <- size("points", 1e5, 3000)
neighbours <- size("neighbours", 15, 15)
wide <- size("wide", 1000, 600)
rank <- size("rank", 50, 10)
tall <- size("tall", 1e6, 4000)
gpu_use(device)

# A pool keeps what it has taken, so what it holds after the runs is the most that was in use.
report <- function(what, run, base = NULL) {
  gpu_memory(trim = TRUE)
  ours <- fastest(run)
  memory <- gpu_memory()
  line <- sprintf("%-58s %8.3f s, %7.2f GB", what, ours, sum(memory[c("live", "cached")]) / 1e9)
  if (!is.null(base) && on_cpu) {
    theirs <- fastest(base)
    line <- sprintf("%s, base R %8.3f s (%.1f)", line, theirs, theirs / ours)
  }
  cat(line, "\n")
  run()
}
check <- function(is_right, what) if (!isTRUE(is_right)) stop(what, " is wrong")

set.seed(1)
clouds <- function(n, p, k) {
  centers <- matrix(gpu_rnorm(k * p, dtype = dtype) * 3, k, p)
  x <- centers[gpu_sample_int(k, n, replace = TRUE), ]
  gpu_compute(x + matrix(gpu_rnorm(n * p, dtype = dtype), n, p))
}

x <- clouds(rows, columns, clusters)
host <- if (on_cpu) collect(x)
start <- collect(x[seq_len(clusters), ])
quiet <- suppressWarnings
fit <- report(sprintf("kmeans, Lloyd, 10 iterations, %g x %g, k = %g", rows, columns, clusters),
  function() quiet(kmeans(x, start, algorithm = "Lloyd")), function() quiet(kmeans(host, start, algorithm = "Lloyd")))
some <- seq_len(min(rows, 100))
gaps <- apply(collect(x[some, ]), 1L, function(row) which.min(colSums((t(collect(fit$centers)) - row)^2)))
check(mean(gaps == as.vector(fit$cluster[some])) > 0.7, "kmeans")
seeded <- report(sprintf("gpu_kmeans, k-means++ and 10 iterations, k = %g", clusters),
  function() quiet(gpu_kmeans(x, clusters, iter.max = 10)))
check(seeded$tot.withinss < 1.2 * fit$tot.withinss, "gpu_kmeans")
rm(x, host, fit, seeded)

data <- clouds(points, columns, 100)
host <- if (on_cpu) collect(data)
by_distances <- function() {
  d <- as.matrix(dist(host))
  t(apply(d, 1L, function(row) order(row)[seq_len(neighbours)]))
}
for (metric in c("euclidean", "cosine", if (on_cpu) "manhattan")) {
  found <- report(sprintf("gpu_knn, %s, %g x %g, k = %g", metric, points, columns, neighbours),
    function() gpu_knn(data, k = neighbours, metric = metric), if (metric == "euclidean") by_distances)
  if (metric != "euclidean") next
  all <- t(collect(data))
  for (i in c(1, 17)) {
    want <- order(colSums((all - all[, i])^2))[seq_len(neighbours)]
    check(identical(as.vector(found$index[i, ]), want), "gpu_knn")
  }
}
rm(data, host, found)

# a spectrum that decays, with noise
x <- matrix(gpu_rnorm(tall * 2 * rank, dtype = dtype), tall, 2 * rank) %*% matrix(gpu_rnorm(2 * rank * wide,
  dtype = dtype) * 0.95^seq_len(2 * rank), 2 * rank, wide)
x <- gpu_compute(x + 0.1 * matrix(gpu_rnorm(tall * wide, dtype = dtype), tall, wide))
host <- if (on_cpu) collect(x)
by_base <- function() prcomp(host, rank. = rank)
few <- report(sprintf("prcomp, randomised, %g x %g, rank %g", tall, wide, rank),
  function() prcomp(x, rank. = rank, exact = FALSE), by_base)
all <- report(sprintf("prcomp, exact, %g x %g, rank %g", tall, wide, rank),
  function() prcomp(x, rank. = rank, exact = TRUE), by_base)
check(max(abs(few$sdev - all$sdev[seq_len(rank)])) < 1e-5 * all$sdev[1L], "prcomp")
