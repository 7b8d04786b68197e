# The helper file for packages that accept arrays, inst/testthat/helper-verdigris.R.

helper <- new.env(parent = globalenv())
sys.source(system.file("testthat", "helper-verdigris.R", package = "verdigris"), helper)
expect_gpu_equal <- helper$expect_gpu_equal
local_gpu_cpu <- helper$local_gpu_cpu

test_that("expect_gpu_equal() takes what agrees", {
  local_gpu_cpu()
  m <- matrix(c(1, 4, 9, 16), 2, dimnames = list(NULL, c("a", "b")))
  got <- expect_gpu_equal(function(x, k) sqrt(x) * k, m, 2)
  expect_true(is_gpu(got))
  expect_identical(collect(got), sqrt(m) * 2)
  expect_gpu_equal(function(x) sqrt(x), c(-1, 4)) # a warning, on both sides
  expect_gpu_equal(function(x) stop("no"), 1:2) # an error, on both sides
  expect_gpu_equal(function(x) list(a = x + 1, b = list(sum(x), "text")), c(1, 2))
  expect_gpu_equal(function(x, f) f(x), c(3, 1, 2), sort)
})

test_that("expect_gpu_equal() fails where arrays give something else", {
  local_gpu_cpu()
  expect_failure(expect_gpu_equal(function(x) if (is_gpu(x)) x + 1e-3 else x, c(1, 2)))
  expect_failure(expect_gpu_equal(function(x) if (is_gpu(x)) { warning("one more"); x } else x, c(1, 2)))
  expect_failure(expect_gpu_equal(function(x) if (is_gpu(x)) stop("not here") else x, c(1, 2)), "not here")
  expect_failure(expect_gpu_equal(function(x) if (is_gpu(x)) x else stop("only on vectors"), c(1, 2)))
  expect_failure(expect_gpu_equal(function(x) if (is_gpu(x)) unname(x) else x, c(a = 1, b = 2)))
})

test_that("local_gpu_cpu() forbids reads on the host, and ends with its frame", {
  before <- getOption("verdigris.host_access")
  inside <- function(...) {
    local_gpu_cpu(...)
    expect_identical(gpu_device(gpu_zeros(2)), "cpu")
    sprintf("%g", as_gpu(c(1, 2)))
  }
  expect_error(inside(), class = "verdigris_error_host_access")
  expect_identical(inside("allow"), c("1", "2"))
  expect_error(inside("anything"))
  expect_identical(getOption("verdigris.host_access"), before)
})
