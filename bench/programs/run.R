# Runs the programs of this folder: each a file of plain R with `inputs()`, made before the clock starts, and
# `program()`. Each runs in a fresh process, with the package loaded.
#
#   Rscript bench/programs/run.R OUT.jsonl [--who=base,cpu,cuda] [--scale=1] [--times=4] [--seconds=60] [NAME ...]
#
# Appends a line of JSON for each: seconds of the first run and the median of the later ones. `who` is base R on
# ordinary vectors, or a device. `scale` shrinks the programs; --check fails where a device's result is not base R's, or
# its later runs take longer.
arguments <- commandArgs(TRUE)
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)[1L]))
source(file.path(dirname(folder), "options.R"))
plain <- arguments[!startsWith(arguments, "--")]
out <- plain[1L]
all <- sub("[.]R$", "", setdiff(list.files(folder, "[.]R$"), "run.R"))
names <- if (length(plain) > 1L) plain[-1L] else all
if (!all(names %in% all)) stop("there is no program ", paste(setdiff(names, all), collapse = ", "))
who <- strsplit(option("who", "base,cpu"), ",")[[1L]]
scale <- as.numeric(option("scale", "1"))
times <- as.integer(option("times", "4"))
seconds <- as.numeric(option("seconds", "60"))

# One program by one of them, in this process.
run_here <- function(name, who) {
  if (who != "base") {
    suppressPackageStartupMessages(library(verdigris))
    gpu_use(who)
    options(verdigris.host_access = "allow")
  }
  # what a program finds: its size, its numbers (the same for all), and where they live
  around <- list2env(list(N = function(n) max(8L, as.integer(n * scale)), det = function(n, k = 1) {
    i <- seq_len(n) * 0.6180339887 * k
    i - floor(i)
  }, up = if (who == "base") function(x, dtype = NULL) x else function(x, dtype = NULL) as_gpu(x, dtype = dtype),
  full = if (who == "base") rep else function(x, n) gpu_full(x, n, dtype = "float32"),
  normal = if (who == "base") stats::rnorm else function(n) gpu_rnorm(n, dtype = "float32"),
  index = if (who == "base") function(n, size) sample.int(n, size, replace = TRUE) else
    function(n, size) gpu_sample(n, size, replace = TRUE)), parent = globalenv())
  sys.source(file.path(folder, paste0(name, ".R")), around)
  given <- around$inputs()
  sync <- if (who == "base") function() NULL else function() gpu_sync()
  value <- NA
  # what was recorded of the inputs is computed before the clock starts
  if (who != "base") for (one in given) if (is_gpu(one)) gpu_compute(one)
  taken <- numeric()
  while (length(taken) < times && (length(taken) < 2L || sum(taken) < seconds)) {
    gc()
    sync()
    # proc.time() counts milliseconds
    from <- Sys.time()
    value <- as.numeric(do.call(around$program, given))
    sync()
    taken <- c(taken, as.numeric(Sys.time() - from, units = "secs"))
  }
  cat(sprintf('{"program": "%s", "who": "%s", "status": "ok", "first_s": %.6g, "later_s": %.6g, "check": %.10g}\n', name,
    if (who == "base") "base R" else paste0("verdigris ", who), taken[1L], stats::median(taken[-1L]), value))
}

if (nzchar(option("in", ""))) {
  run_here(names, option("in", ""))
  quit("no")
}
rscript <- file.path(R.home("bin"), "Rscript")
script <- sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)[1L])
number <- function(line, field) as.numeric(sub(sprintf('.*"%s": ([^,}]*).*', field), "\\1", line))
failed <- 0L
for (name in names) {
  lines <- vapply(who, function(one) {
    said <- suppressWarnings(system2(rscript, shQuote(c("--vanilla", script, "-", name, paste0("--in=", one),
      paste0("--scale=", scale), paste0("--times=", times), paste0("--seconds=", seconds))), stdout = TRUE, stderr = TRUE))
    line <- grep("^\\{", said, value = TRUE)
    if (length(line) == 1L) return(line)
    sprintf('{"program": "%s", "who": "%s", "status": "failed", "why": %s}', name,
      if (one == "base") "base R" else paste0("verdigris ", one),
      encodeString(paste(utils::tail(said, 3L), collapse = " "), quote = '"'))
  }, "")
  cat(lines, sep = "\n", file = out, append = TRUE)
  later <- number(lines, "later_s")
  first <- number(lines, "first_s")
  cat(sprintf("%-11s %s\n", name, paste(sprintf("%s %.4g / %.4g s", who, first, later), collapse = "   ")))
  if ("--check" %in% arguments && who[1L] == "base") {
    check <- number(lines, "check")
    # draws are others, and float32 has seven digits
    near <- abs(check - check[1L]) <= if (name %in% c("asian", "bootstrap")) 0.1 * abs(check[1L]) else
      1e-3 * abs(check[1L]) + 1e-6
    slow <- later > later[1L] + 0.002
    if (anyNA(near) || !all(near)) cat("  differs from base R:", check, "\n")
    if (anyNA(slow) || any(slow)) cat("  slower than base R\n")
    failed <- failed + (anyNA(near) || !all(near)) + (anyNA(slow) || any(slow))
  }
}
if (failed) quit("no", 1L)
