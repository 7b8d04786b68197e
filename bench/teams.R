# Teams: latency and bandwidth of an all-reduce between workers, and how work on splits scales over one to two members.
# Members take the GPUs that there are, else the cpu; transport "host". Prints one line a figure.
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

latency <- function(n, calls = 500, runs = 20) {
  x <- runif(n)
  for (k in seq_len(calls)) gpu_all_reduce(x)
  vapply(seq_len(runs), function(run) system.time(for (k in seq_len(calls)) gpu_all_reduce(x))[[3L]] / calls, 1)
}
for (n in c(1, 200, 2000))
  cat(sprintf("all-reduce of %d doubles: %.0f us\n", n, 1e6 * least(gpu_together(team, latency, n))))

bandwidth <- function(bytes, runs = 5) {
  x <- as_gpu(runif(bytes / 4), dtype = "float32")
  gpu_all_reduce(x)
  vapply(seq_len(runs), function(run) system.time(gpu_compute(gpu_all_reduce(x)))[[3L]], 1)
}
on_gpu <- any(team$members$device != "cpu")
for (bytes in 2^c(20, 26, if (on_gpu) 30)) {
  seconds <- least(gpu_together(team, bandwidth, bytes))
  cat(sprintf("all-reduce of %d MiB of float32: %.2f GB/s of bus\n", bytes / 2^20,
    2 * (size - 1) / size * bytes / seconds / 1e9))
}

# The same rows on one member and on all of them.
work <- list(crossprod = crossprod, "colMeans of a chain" = function(x) colMeans(exp(x / 2) + 1))
rows <- if (on_gpu) 2e7 else 2e5
times <- lapply(list(gpu_team(cl[1L]), team), function(team) {
  x <- gpu_split(function(rows) gpu_rnorm(length(rows) * 30) |> matrix(ncol = 30), team, n = rows)
  lapply(work, function(f) {
    f(x)
    min(vapply(1:5, function(run) system.time(f(x))[[3L]], 1))
  })
})
for (name in names(work)) cat(sprintf("%s of %g x 30: %.1f ms on one member, %.1f ms on %d, %.2f x\n", name, rows,
  1e3 * times[[1L]][[name]], 1e3 * times[[2L]][[name]], size, times[[1L]][[name]] / times[[2L]][[name]]))
parallel::stopCluster(cl)
