# More elements than 31 bits count; on a GPU machine only: the host copy alone takes 17 GB.

test_that("a float16 array of 2^31 + 5 elements is summed, indexed, searched and read", {
  skip_if(test_device == "cpu" || emulated, "takes the memory of a GPU machine")
  n <- 2^31 + 5
  x <- gpu_full(0.5, n, dtype = "float16", device = test_device)
  expect_equal(length(x), n)
  expect_identical(sum(x), n / 2)
  y <- x
  y[2^31 + 3] <- 7
  expect_identical(which.max(y), 2^31 + 3)
  expect_identical(as.vector(y[c(1, 2^31 + 2, 2^31 + 3, n)]), c(0.5, 0.5, 7, 0.5))
  expect_identical(sum(y), n / 2 + 6.5)
  expect_identical(as.vector(x[2^31 + 3]), 0.5)
  host <- as.vector(y)
  expect_identical(length(host), as.integer(0) + n)
  expect_identical(host[c(1, 2^31 + 2, 2^31 + 3, n)], c(0.5, 0.5, 7, 0.5))
  expect_identical(sum(host), n / 2 + 6.5)
})
