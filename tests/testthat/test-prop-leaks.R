# Nothing leaks: handles, host copies, device memory.

# All calls together may leave as much as one: the last value of a loop may stay in a register of R's.
expect_nothing_left <- function(before, bytes) {
  after <- alive()
  expect_lte(after[["handles"]], before[["handles"]] + 1)
  expect_lte(after[["bytes"]], before[["bytes"]] + bytes)
  expect_lte(after[["device"]], before[["device"]] + bytes)
}

test_that("1e5 small arrays leave nothing", {
  skip_on_cran()
  before <- alive()
  for (k in 1:1e5) .Call(verdigris:::C_bare, gpu_full(1, 3, device = test_device))
  expect_nothing_left(before, 256)
})

test_that("1e3 arrays of 8 MB leave nothing", {
  skip_on_cran()
  before <- alive()
  big <- as.double(1:1e6)
  for (k in 1:1000) as_gpu(big, device = test_device)
  expect_nothing_left(before, 0)
})

test_that("results, host copies, views, wrappers, capsules and failed calls leave nothing", {
  before <- alive()
  for (k in 1:100) {
    x <- gpu(matrix(as.double(1:1000), 10))
    y <- sqrt(x) + 1
    y[1, 1] <- 5
    base::colSums(x)
    base::colSums(t(y))
    z <- structure(y, extra = 1)
    z <- unclass(z)
    z[3] <- 2
    sum(y[y > 5])
    from_dlpack(as_dlpack(y))
    as_dlpack(x)
    unserialize(serialize(x, NULL))
    try(x + gpu(matrix(1, 2, 2)), silent = TRUE)
    try(x[11, 1], silent = TRUE)
    try(gpu_dtype("a"), silent = TRUE)
    suppressWarnings(as.vector(sqrt(-x)))
  }
  rm(x, y, z)
  expect_nothing_left(before, 0)
})

test_that("memory that R does not see makes it collect", {
  skip_on_cran()
  withr::local_options(verdigris.host_access = "allow")
  collect_garbage()
  # few and large: R's own gc, which counts R's memory, has no reason to come
  for (k in 1:40 + 0.5) {
    x <- gpu_full(k, c(4e6, 2), device = "cpu")
    base::colSums(x)
  }
  rm(x)
  held <- function() .Call(verdigris:::C_live)[2]
  # a collection may rest for a hundred times as long as the last one took
  for (k in 1:120) if (held() > 1300e6) Sys.sleep(0.5)
  # 2,560 MB were made; what outlived a quick collection waits for a full one
  expect_lt(held(), 1300e6)
})
