# Random programs, by R for each element and by the device. VERDIGRIS_PROGRAMS is their number; VERDIGRIS_PROGRAM runs
# one, and prints it.

test_that("random programs give what R gives", {
  skip_if(emulated && !nzchar(Sys.getenv("VERDIGRIS_PROGRAMS")))
  before <- compiler::enableJIT(0L)
  on.exit(compiler::enableJIT(before))
  alone <- Sys.getenv("VERDIGRIS_PROGRAM")
  count <- as.integer(Sys.getenv("VERDIGRIS_PROGRAMS", if (test_device == "cpu") "2000" else "100"))
  seeds <- if (nzchar(alone)) as.integer(alone) else Filter(is_ours, seq_len(count))
  arrays <- lapply(random_arguments, gpu)
  found <- list()
  for (seed in seeds) {
    f <- random_function(seed)
    if (nzchar(alone)) print(f)
    want <- by_element(f, random_arguments)
    got <- by_device(f, arrays)
    said <- difference_routine(got, want, random_arguments, ulp = 0, wider = all(want$failed), payload = FALSE)
    # refused by rule: R evaluates such an argument where it is used, if at all
    refused <- any(grepl("an argument that assigns or returns, which a function defined in another", said, fixed = TRUE))
    if (!is.null(said) && !refused) found[[length(found) + 1L]] <- sprintf("program %d: %s", seed, said)
  }
  expect_all_same(found)
})
