# Readers: a raw file of float64 through colSums() and gpu_lm(), in both orders, beside a plain copy of as many bytes
# from page-locked memory to the device. The file is read from the page cache; in another FOLDER than /dev/shm from the
# disk too, through the page cache and by direct I/O. Prints a line a figure.
#
# usage: Rscript bench/readers.R [GB] [FOLDER] [COLUMNS]
#   GB defaults to 40 on a GPU and 1 on the cpu, FOLDER to /dev/shm where there is one, COLUMNS to 31
suppressMessages(library(verdigris))
options(cli.progress_show_after = Inf)

arguments <- commandArgs(TRUE)
on_gpu <- any(gpu_devices()$device != "cpu")
gigabytes <- if (length(arguments)) as.numeric(arguments[1L]) else if (on_gpu) 40 else 1
folder <- if (length(arguments) > 1L) arguments[2L] else if (dir.exists("/dev/shm")) "/dev/shm" else tempdir()
p <- if (length(arguments) > 2L) as.integer(arguments[3L]) else 31L
n <- floor(gigabytes * 1e9 / 8 / p)
bytes <- n * p * 8
device <- if (on_gpu) "cuda:0" else "cpu"
gpu_use(device)
print(gpu_devices())

seconds_of <- function(expr) {
  gpu_sync()
  system.time({
    expr
    gpu_sync()
  })[[3L]]
}
tell <- function(what, seconds, bus) cat(sprintf("%-44s %6.2f s, %6.1f GB/s, %4.2f of the bus\n", what, min(seconds),
  bytes / min(seconds) / 1e9, bus / min(seconds)))

# As many bytes over the bus, from one page-locked gigabyte.
part <- gpu_pinned(min(2^27, ceiling(bytes / 8)))
target <- gpu_zeros(length(part))
turns <- bytes / 8 / length(part)
copies <- function() {
  for (k in seq_len(floor(turns))) {
    gpu_copy(part, target)
    # a queue of two copies
    if (k %% 2 == 0) gpu_sync()
  }
}
copies()
bus <- min(vapply(1:3, function(run) seconds_of(copies()), 1)) * turns / floor(turns)
cat(sprintf("%-44s %6.2f s, %6.1f GB/s\n", sprintf("%.0f GB from page-locked memory", bytes / 1e9), bus,
  bytes / bus / 1e9))
gpu_free(target)
rm(part, target)
gc()

made <- function(rows) gpu_rnorm(length(rows) * p) |> matrix(ncol = p)
for (byrow in c(FALSE, TRUE)) {
  path <- file.path(folder, sprintf("verdigris-readers-%d.bin", Sys.getpid()))
  order <- if (byrow) "by rows" else "by columns"
  # by columns the same numbers in another order: as good
  written <- seconds_of(if (byrow) gpu_chunked(gpu_reader(made, dim = n), identity, to = path) else
    gpu_chunked(gpu_reader(function(rows) gpu_rnorm(length(rows)), dim = n * p), identity, to = path))
  cat(sprintf("%-44s %6.2f s, %6.1f GB/s\n", paste("written,", order), written, bytes / written / 1e9))
  x <- gpu_reader(path, dim = c(n, p), byrow = byrow, dimnames = list(NULL, paste0("x", seq_len(p))))
  tell(paste("colSums,", order), vapply(1:3, function(run) seconds_of(colSums(x)), 1), bus)
  tell(paste("gpu_lm(x1 ~ .),", order), vapply(1:3, function(run) seconds_of(gpu_lm(x1 ~ ., x)), 1), bus)
  tell(paste("gpu_chunked(sum), rows,", order), vapply(1:2, function(run) seconds_of(gpu_chunked(x, sum, combine = "+",
    margin = 1)), 1), bus)
  # what is wrong shows here
  fit <- gpu_lm(x1 ~ ., x)
  stopifnot(abs(coef(fit)) < 10 / sqrt(n), abs(summary(fit)$sigma - 1) < 10 / sqrt(n),
    abs(colMeans(x)) < 10 / sqrt(n))
  gc()
  peak <- 0
  gpu_chunked(x, function(block) {
    peak <<- max(peak, gpu_memory(device)[["live"]])
    sum(block)
  }, combine = "+", margin = 1)
  cat(sprintf("%-44s %6.2f GB\n", paste("device memory in gpu_chunked(),", order), peak / 1e9))
  # from a disk, after dd has told the system to drop the file from its page cache
  if (folder != "/dev/shm") for (direct in c(FALSE, TRUE)) {
    from_disk <- function(run) {
      system2("dd", c(paste0("if=", shQuote(path)), "iflag=nocache", "count=0"), stderr = FALSE)
      seconds_of(colSums(gpu_reader(path, dim = c(n, p), byrow = byrow, direct = direct)))
    }
    tell(paste0("colSums from the disk, ", if (direct) "direct, " else "", order), vapply(1:3, from_disk, 1), bus)
  }
  unlink(path)
}
