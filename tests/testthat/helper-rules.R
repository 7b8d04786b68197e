# Helpers of the tests of the rules for arrays as R vectors.

counts <- function() setNames(.Call(verdigris:::C_live)[c(1, 2, 4)], c("handles", "bytes", "read"))
info <- function(x) verdigris:::gpu_info(x)
real <- function(n = 100) as.double(seq_len(n))
# C code of base R that asks for REAL(x), as it does whether it will write or not
touch <- function(x) base::colSums(x)
# how many elements came to the host
elements_read <- function(code) {
  before <- counts()[["read"]]
  force(code)
  counts()[["read"]] - before
}
# what another R says that has the package attached
in_new_r <- function(...) {
  code <- paste(c(sprintf(".libPaths(c(%s))", toString(dQuote(.libPaths(), FALSE))),
    "suppressMessages(library(verdigris))", ...), collapse = "; ")
  system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", "-e", shQuote(code)), stdout = TRUE, stderr = TRUE)
}
