# With VERDIGRIS_GCTORTURE=step in the environment each test runs under gctorture2(step): R collects garbage at every
# step-th allocation, so that an object which we failed to protect is gone when it is used. See docs/testing.md.

gctorture_step <- suppressWarnings(as.integer(Sys.getenv("VERDIGRIS_GCTORTURE", "0")))

if (isTRUE(gctorture_step > 0L)) {
  test_that <- function(desc, code) {
    body <- bquote({
      withr::defer(gctorture2(0L))
      gctorture2(.(gctorture_step))
      .(substitute(code))
    })
    eval(bquote(testthat::test_that(.(desc), .(body))), parent.frame())
  }
}
