# What the scripts of this folder share: options of the command line, clocks, and timing. A script sources it by `folder`.

option <- function(name, default) {
  given <- sub(sprintf("^--%s=", name), "", grep(sprintf("^--%s=", name), commandArgs(TRUE), value = TRUE))
  if (length(given)) given[[length(given)]] else default
}
numbers <- function(text) as.numeric(strsplit(text, ",")[[1L]])

# The processor time of all threads, in seconds: clock.c, compiled for this run in its own folder.
processor_clock <- function() {
  file.copy(file.path(folder, "clock.c"), tempdir())
  to <- file.path(tempdir(), paste0("clock", .Platform$dynlib.ext))
  stopifnot(system2(file.path(R.home("bin"), "R"), c("CMD", "SHLIB", "-o", to, file.path(tempdir(), "clock.c")),
    stdout = FALSE) == 0L)
  processor_time <- getNativeSymbolInfo("processor_time", dyn.load(to))
  function() .C(processor_time, 0)[[1L]]
}

# Elapsed seconds of a run: the fastest of repeats of about `seconds` together, which the script sets, each of as many
# runs as take 50 ms; the first two, which load kernels and wait for those that are compiled, do not count.
fastest <- function(run) {
  now <- function() as.numeric(Sys.time())
  times <- 1
  timed <- function() {
    gpu_sync()
    from <- now()
    for (k in seq_len(times)) run()
    gpu_sync()
    now() - from
  }
  timed()
  # kernels that are compiled beside the first run are part of every later one
  device <- gpu_device(as_gpu(0))
  if (device != "cpu") .Call(verdigris:::C_tier_counts, device, 60)
  timed()
  while ((first <- timed()) < 0.05) times <- 2 * times
  best <- first
  spent <- first
  while (spent < seconds) {
    time <- timed()
    best <- min(best, time)
    spent <- spent + time
  }
  best / times
}
