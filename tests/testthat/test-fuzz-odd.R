# Random calls with odd arguments, by base R on host vectors and by the package on arrays: helper-odd.R.
# VERDIGRIS_HUNT=20000 makes that many.

test_that("functions of odd arguments give what base R gives", {
  withr::local_options(verdigris.host_access = "allow")
  count <- as.integer(Sys.getenv("VERDIGRIS_HUNT", if (emulated) "150" else "1500"))
  run <- function(seeds) {
    found <- list()
    for (seed in seeds) {
      set.seed(seed)
      call <- odd_call()
      said <- odd_compare(call)
      if (!is.null(said)) found <- c(found, paste0("seed ", seed, ": ", odd_text(call), ": ", said))
      cases$n <- cases$n + 1L
    }
    found
  }
  expect_all_same(run(seq_len(count)))
  expect_all_same(composed(run(count + seq_len(count))))
  expect_cases(2L * count)
})
