# One process of tools/test/odd-calls.R: makes the odd calls, or runs the random programs, of these seeds. It writes the
# seed that it is at before it begins, and a line for each seed whose values differ from base R's.
#
# usage: Rscript tools/test/odd-worker.R call|composed|program FROM TO AT FOUND
#   call       an odd call (tests/testthat/helper-odd.R); composed: as a GPU computes it, on the cpu device
#   program    a random program with exports and `out =` (tests/testthat/helper-shared-memory.R)
#   AT, FOUND  the files that it writes

arguments <- commandArgs(TRUE)
kind <- arguments[[1L]]
at <- arguments[[4L]]
found <- arguments[[5L]]
suppressMessages({
  library(testthat)
  library(verdigris)
})
options(verdigris.host_access = "allow")
env <- new.env(parent = asNamespace("verdigris"))
invisible(source_test_helpers("tests/testthat", env))
odd <- function(seed) {
  set.seed(seed)
  call <- env$odd_call()
  said <- env$odd_compare(call)
  if (!is.null(said)) paste0(env$odd_text(call), ": ", said)
}
run <- switch(kind, call = odd, composed = function(seed) env$composed(odd(seed)), program = env$shared_program)

for (seed in seq.int(as.double(arguments[[2L]]), as.double(arguments[[3L]]))) {
  cat(seed, "\n", file = at, sep = "")
  said <- tryCatch(run(seed), error = function(e) paste("the test failed:", conditionMessage(e)))
  if (length(said))
    cat(kind, " ", seed, " on ", env$test_device, ": ", gsub("\n", " | ", paste(said, collapse = " ")), "\n",
      file = found, sep = "", append = TRUE)
}
cat("end\n", file = at)
