# Teams: latency and bandwidth of an all-reduce between workers, copies and work on the cards of one process, and how
# work on splits scales over one to two members. Members take the GPUs that there are, else the cpu. Prints one line a
# figure; bench/teams.py has the same of PyTorch.
#
# usage: Rscript bench/teams.R [MEMBERS]      MEMBERS defaults to the number of GPUs, at least 2
suppressMessages(library(verdigris))

arguments <- commandArgs(TRUE)
size <- if (length(arguments)) as.integer(arguments[1L]) else max(2L, sum(gpu_devices()$device != "cpu"))
cl <- parallel::makePSOCKcluster(size)
team <- gpu_team(cl)
print(team)

# The least of several runs, by the slowest member.
least <- function(times) min(do.call(pmax, times))

# Ordinary vectors, and where there are GPUs arrays: with a wait after each call, and without.
latency <- function(n, kind, calls = 500, runs = 10) {
  x <- if (kind == "vector") runif(n) else gpu_compute(as_gpu(runif(n)))
  call <- switch(kind, vector = , queued = function() gpu_all_reduce(x), waited = function() {
    gpu_all_reduce(x)
    gpu_sync()
  })
  for (k in seq_len(calls)) call()
  vapply(seq_len(runs), function(run) {
    gpu_barrier()
    system.time({
      for (k in seq_len(calls)) call()
      if (kind == "queued") gpu_sync()
    })[[3L]] / calls
  }, 1)
}
on_gpu <- any(team$members$device != "cpu")
for (n in c(1, 200, 2000)) for (kind in c("vector", if (on_gpu) c("waited", "queued")))
  cat(sprintf("all-reduce of %d doubles, %s: %.1f us\n", n, kind, 1e6 * least(gpu_together(team, latency, n, kind))))

bandwidth <- function(bytes, runs = 8) {
  x <- gpu_full(1, bytes / 4, dtype = "float32")
  gpu_compute(x)
  gpu_all_reduce(x)
  vapply(seq_len(runs), function(run) {
    gc(FALSE)
    gpu_barrier()
    gpu_sync()
    at <- Sys.time()
    for (k in 1:5) y <- gpu_all_reduce(x)
    gpu_sync()
    as.numeric(Sys.time() - at, units = "secs") / 5
  }, 1)
}
for (bytes in 2^c(20, 26, if (on_gpu) 30)) {
  seconds <- least(gpu_together(team, bandwidth, bytes))
  cat(sprintf("all-reduce of %d MiB of float32: %.1f GB/s of bus\n", bytes / 2^20,
    2 * (size - 1) / size * bytes / seconds / 1e9))
}

# What a small addition costs the host, alone and while sums of large arrays are under way.
launches <- function(bytes, calls = 500, runs = 5) {
  x <- gpu_compute(gpu_runif(bytes / 4, dtype = "float32"))
  a <- gpu_compute(as_gpu(runif(10)))
  add <- function() system.time(for (k in seq_len(calls)) gpu_compute(a + a))[[3L]] / calls
  for (k in 1:3) add()
  under_way <- function(sums) vapply(seq_len(runs), function(run) {
    gpu_sync()
    gpu_barrier()
    kept <- lapply(seq_len(sums), function(k) gpu_all_reduce(x))
    add()
  }, 0)
  rbind(under_way(0), under_way(4))
}
if (on_gpu) {
  seconds <- Reduce(pmax, gpu_together(team, launches, 2^30))
  cat(sprintf("x + x of ten, beside %s: %.1f us\n", c("nothing", "sums of 1 GiB"), 1e6 * apply(seconds, 1L, min)), sep = "")
}

# Two cards of this process: a copy between them, and work that is queued on both.
if (sum(gpu_devices()$device != "cpu") > 1L) {
  best <- function(f, runs = 10) {
    f()
    min(vapply(seq_len(runs), function(run) {
      gc(FALSE)
      for (device in c("cuda:0", "cuda:1")) gpu_sync(device)
      at <- Sys.time()
      f()
      for (device in c("cuda:0", "cuda:1")) gpu_sync(device)
      as.numeric(Sys.time() - at, units = "secs")
    }, 1))
  }
  x <- gpu_full(1, 1e8, device = "cuda:0")
  gpu_compute(x)
  cat(sprintf("copy of 800 MB between the cards: %.3f ms\n", 1e3 * best(function() as_gpu(x, device = "cuda:1"))))
  draws <- function(devices) function() for (device in devices) gpu_compute(exp(gpu_rnorm(2e8, device = device)))
  one <- best(draws("cuda:0"))
  cat(sprintf("exp(gpu_rnorm(2e8)): %.2f ms on one card, %.2f on the other, %.2f on both\n", 1e3 * one,
    1e3 * best(draws("cuda:1")), 1e3 * best(draws(c("cuda:0", "cuda:1")))))
}

# The same rows on one member and on all of them.
seconds <- function(f, runs = 5) {
  f()
  min(vapply(seq_len(runs), function(run) {
    at <- Sys.time()
    f()
    as.numeric(Sys.time() - at, units = "secs")
  }, 1))
}
scale <- if (on_gpu) 1 else 0.005
matrix_of <- function(columns) {
  force(columns)
  function(rows) matrix(gpu_rnorm(length(rows) * columns), ncol = columns)
}
cases <- list(
  "crossprod, 2e7 x 30" = list(2e7, matrix_of(30), crossprod),
  "sum of a chain, 2e8" = list(2e8, function(rows) gpu_rnorm(length(rows)), function(x) sum(exp(sin(x) / 2) + x^2)),
  "glm, binomial, 2e7 x 30" = list(2e7, function(rows) {
    columns <- lapply(1:30, function(k) gpu_rnorm(length(rows)))
    names(columns) <- paste0("x", 1:30)
    columns$y <- gpu_cast(gpu_runif(length(rows)) < plogis(columns$x1 - columns$x2 / 2), "float64")
    structure(columns, class = "data.frame", row.names = .set_row_names(length(rows)))
  }, function(x) gpu_glm(y ~ ., binomial(), x)),
  "kmeans, 4e6 x 128, k = 1000" = list(4e6, matrix_of(128), function(x) {
    set.seed(1)
    suppressWarnings(kmeans(x, if (on_gpu) 1000 else 10, iter.max = 5, algorithm = "Lloyd"))
  })
)
one <- gpu_team(cl[1L])
for (name in names(cases)) {
  case <- cases[[name]]
  times <- lapply(list(one, team), function(team) {
    x <- gpu_split(case[[2L]], team, n = round(case[[1L]] * scale))
    gpu_together(team, gpu_sync)
    seconds(function() case[[3L]](x), if (grepl("kmeans|glm", name)) 2 else 5)
  })
  cat(sprintf("%s: %.1f ms on one member, %.1f ms on %d, %.2f x\n", name, 1e3 * times[[1L]], 1e3 * times[[2L]], size,
    times[[1L]] / times[[2L]]))
}
parallel::stopCluster(cl)
