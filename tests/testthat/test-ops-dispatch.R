# Operators beside other classes, above all what a dispatch leaves behind for the next one in R before 4.3.

test_that("operands that base R finds incompatible leave nothing behind", {
  codes <- factor(c("u", "v", "u", NA))
  series <- stats::ts(1:6)
  day <- as.Date("2020-01-01")
  # without an array; through a function of base R, where a group's method is found
  leave <- function() suppressWarnings(try(codes == series, silent = TRUE))
  x <- gpu(c(1L, 4L))
  cases <- list(
    function(x) x + x, function(x) x == x, function(x) -x, function(x) x < 3, function(x) 2L * x, function(x) day + x,
    function(x) x %/% rev(x), function(x) range(rank(x)), function(x) mean(x == 4L))
  for (f in cases) {
    leave()
    expect_identical(as.vector(f(x)), as.vector(f(c(1L, 4L))), info = paste(deparse(f), collapse = " "))
  }
  leave()
  expect_identical(day + 1, as.Date("2020-01-02"))
  expect_warning(codes + gpu(1), "not meaningful for factors")
  leave()
  expect_identical(as.vector(x * x), c(1L, 16L))
})
