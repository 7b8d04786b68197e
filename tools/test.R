# Runs the tests of the installed package and adds a line "NAME passed failed skipped" (tests, not
# expectations) to build/counts.
#
# usage: Rscript tools/test.R NAME [FILTER]       verdigris must be in R_LIBS

arguments <- commandArgs(TRUE)
name <- if (length(arguments)) arguments[[1]] else "testthat"
filter <- if (length(arguments) > 1) arguments[[2]]

Sys.setenv(NOT_CRAN = "true") # skip_on_cran() skips nothing here
library(testthat)
reporter <- if (interactive() || nzchar(Sys.getenv("VERDIGRIS_PROGRESS"))) "progress" else check_reporter()
results <- as.data.frame(test_dir(
  "tests/testthat", package = "verdigris", load_package = "installed", filter = filter,
  reporter = reporter, stop_on_failure = FALSE
))

failed <- sum(results$failed > 0 | results$error)
skipped <- sum(results$skipped & !(results$failed > 0 | results$error))
passed <- nrow(results) - failed - skipped
seconds <- sort(tapply(results$real, results$file, sum), decreasing = TRUE)
seconds <- seconds[seq_len(min(8L, length(seconds)))]
cat("slowest:", paste(sprintf("%s %.0f s", sub("^test-(.*)[.]R$", "\\1", names(seconds)), seconds), collapse = ", "), "\n")
dir.create("build", showWarnings = FALSE)
cat(sprintf("%s %d %d %d\n", name, passed, failed, skipped), file = "build/counts", append = TRUE)
cat(sprintf("%s: %d tests passed, %d failed, %d skipped\n", name, passed, failed, skipped))
quit(save = "no", status = failed > 0)
