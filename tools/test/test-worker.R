# One of the processes among which tools/test/test.R shares the tests: takes files one by one, runs them, and saves the
# results.
#
# usage: Rscript tools/test/test-worker.R FOLDER       FOLDER/files names the test files; FOLDER/NAME.rds gets the
#                                                      results of one

folder <- commandArgs(TRUE)
Sys.setenv(NOT_CRAN = "true") # skip_on_cran() skips nothing here
library(testthat)
for (name in readLines(file.path(folder, "files"))) {
  # to make a folder succeeds once
  if (!dir.create(file.path(folder, paste0("taken-", name)), showWarnings = FALSE)) next
  results <- test_dir(
    "tests/testthat", package = "verdigris", load_package = "installed", filter = paste0("^", name, "$"),
      reporter = "silent", stop_on_failure = FALSE
  )
  saveRDS(results, file.path(folder, paste0(name, ".rds")))
}
