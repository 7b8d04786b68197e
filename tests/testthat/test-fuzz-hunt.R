# Random programs, by base R on host vectors and by the package on arrays: helper-hunt.R. VERDIGRIS_HUNT=2000 runs that
# many; a program that differs is printed in the shortest form that still does.

hunted <- function(seeds, length, big = FALSE) {
  found <- list()
  for (seed in seeds) {
    set.seed(seed)
    program <- hunt_program(length, big)
    said <- hunt_compare(program)
    cases$n <- cases$n + 1L
    if (!is.null(said)) {
      shortest <- hunt_shrink(program)
      found <- c(found, paste0("seed ", seed, ": ", said, "\n", hunt_text(shortest)))
    }
  }
  found
}

test_that("random programs give what base R gives", {
  withr::local_options(verdigris.host_access = "allow")
  count <- as.integer(Sys.getenv("VERDIGRIS_HUNT", if (emulated) "24" else "100"))
  expect_all_same(hunted(seq_len(count), 12L))
  expect_all_same(composed(hunted(count + seq_len(count %/% 2L), 16L)))
  if (!emulated) expect_all_same(hunted(seq_len(count %/% 25L), 10L, big = TRUE))
  expect_cases(as.integer(count * 1.5))
})
