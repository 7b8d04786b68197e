# Runs the tests of the installed package. Adds a line "NAME passed failed skipped" (tests, not expectations) to
# build/counts, and failures with their messages to build/failures. Two processes share the files
# (tools/test/test-worker.R).
#
# usage: Rscript tools/test/test.R NAME [FILTER]       verdigris must be in R_LIBS
#   FILTER                     a regular expression (Perl's) for names of files without "test-" and ".R"; default all
#   VERDIGRIS_SHARES           in CI, which counts its turns in VERDIGRIS_TURN, take one of so many shares of the files,
#                              and always those that VERDIGRIS_ALWAYS, another expression, matches
#   VERDIGRIS_TEST_WORKERS     how many processes; default 2, on a GPU 1, since the tests look at its memory

arguments <- commandArgs(TRUE)
name <- if (length(arguments)) arguments[[1]] else "testthat"
filter <- if (length(arguments) > 1) arguments[[2]] else ""
on_gpu <- Sys.getenv("VERDIGRIS_TEST_DEVICE", "cpu") != "cpu" && !nzchar(Sys.getenv("VERDIGRIS_EMULATOR"))
workers <- as.integer(Sys.getenv("VERDIGRIS_TEST_WORKERS", if (on_gpu) "1" else "2"))

there <- sub("^test-(.*)[.]R$", "\\1", list.files("tests/testthat", "^test-.*[.]R$"))
files <- grep(filter, there, value = TRUE, perl = TRUE)
shares <- as.integer(Sys.getenv("VERDIGRIS_SHARES", "1"))
turn <- Sys.getenv("VERDIGRIS_TURN")
if (nzchar(turn)) {
  ours <- seq_along(files) %% shares == as.integer(turn) %% shares
  files <- files[ours | grepl(Sys.getenv("VERDIGRIS_ALWAYS", "^$"), files)]
}
if (!length(files)) {
  message("No test file matches ", filter,
    "; `make test-one F=NAME` takes a name or its end, from a dash on. The names:")
  writeLines(strwrap(paste(there, collapse = " "), 120L), stderr())
  quit(save = "no", status = 1L)
}
# Those that take longest come first, so that no worker is left with one of them at the end.
long <- c(
  "base-coverage", "fuzz-compile-random", "prop-rules-session", "diff-everyday-codes", "diff-everyday-order",
  "diff-everyday-shape", "diff-examples", "base-plots", "ops-decompose", "prop-leaks", "diff-everyday-groups",
  "prop-memory", "diff-grid-dtypes", "fuzz-dlpack-forged", "stats-distributions", "ops-solve"
)
files <- c(intersect(long, files), setdiff(files, long))

folder <- tempfile("tests")
dir.create(folder)
writeLines(files, file.path(folder, "files"))
rscript <- file.path(R.home("bin"), "Rscript")
logs <- file.path(folder, paste0("log", seq_len(workers)))
running <- lapply(logs, function(log) pipe(sprintf("%s --vanilla tools/test/test-worker.R %s >%s 2>&1; echo $?",
  shQuote(rscript), shQuote(folder), shQuote(log))))
for (process in running) open(process, "r")
status <- vapply(running, function(process) as.integer(readLines(process)), 0L)
for (process in running) close(process)
writeLines(unlist(lapply(logs, readLines, warn = FALSE)))

# What there is of them, as one run of testthat would show it
library(testthat)
results <- lapply(stats::setNames(nm = files), function(file) {
  found <- file.path(folder, paste0(file, ".rds"))
  if (file.exists(found)) readRDS(found)
})
reporter <- CheckReporter$new()
invisible(reporter$start_reporter())
for (file in files) {
  reporter$start_file(paste0("test-", file, ".R"))
  for (test in results[[file]]) for (result in test$results) reporter$add_result(test$context, test$test, result)
  reporter$end_file()
}
reporter$end_reporter()

tests <- do.call(rbind, lapply(files, function(file) {
  if (length(results[[file]])) as.data.frame(structure(results[[file]], class = "testthat_results"))
}))
if (is.null(tests)) tests <- data.frame(file = character(), failed = integer(), skipped = logical(), error = logical(),
  real = numeric())
broken <- files[vapply(results, is.null, NA)]
ended <- if (length(broken)) paste("R ended before the end of", paste0("test-", broken, ".R", collapse = ", "))
writeLines(as.character(ended))
failed <- sum(tests$failed > 0 | tests$error) + max(length(broken), any(status != 0L))
skipped <- sum(tests$skipped & !(tests$failed > 0 | tests$error))
passed <- sum(!tests$skipped & !(tests$failed > 0 | tests$error))
seconds <- sort(tapply(tests$real, tests$file, sum), decreasing = TRUE)
seconds <- seconds[seq_len(min(12L, length(seconds)))]
cat("slowest:", paste(sprintf("%s %.0f s", sub("^test-(.*)[.]R$", "\\1", names(seconds)), seconds), collapse = ", "),
  "\n")
dir.create("build", showWarnings = FALSE)
cat(sprintf("%s %d %d %d\n", name, passed, failed, skipped), file = "build/counts", append = TRUE)
said <- unlist(lapply(unlist(results, recursive = FALSE), function(test) {
  bad <- Filter(function(result) inherits(result, c("expectation_failure", "expectation_error")), test$results)
  if (length(bad)) c(sprintf("%s: %s: %s", name, test$file, test$test),
    paste0("  ", head(unlist(strsplit(vapply(bad, conditionMessage, ""), "\n")), 12L)))
}))
cat(c(said, if (length(ended)) paste0(name, ": ", ended)), file = "build/failures", sep = "\n", append = TRUE)
cat(sprintf("%s: %d tests passed, %d failed, %d skipped\n", name, passed, failed, skipped))
quit(save = "no", status = failed > 0)
