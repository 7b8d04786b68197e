# gpu_compute() and gpu_explain(): what is computed when, together, and over what.

pending <- function(x) verdigris:::gpu_info(x)$pending
kernels <- function(x) length(gpu_explain(x)$kernels)

test_that("arrays are computed together, each with its values", {
  x <- runif(1000)
  y <- runif(1000)
  a <- gpu(x) + 1
  b <- a * gpu(y)
  n <- gpu(1:3) * 2L
  expect_identical(withVisible(gpu_compute(a, b, n, a))$visible, FALSE)
  expect_equal(c(pending(a), pending(b), pending(n)), c(0, 0, 0))
  expect_identical(as.vector(a), x + 1)
  expect_identical(as.vector(b), (x + 1) * y)
  expect_identical(as.vector(n), 1:3 * 2L)
  expect_error(gpu_compute(), class = "verdigris_error_argument")
  expect_error(gpu_compute(a, 1), class = "verdigris_error_argument")
})

test_that("warnings of arrays that are computed together name their own calls", {
  a <- sqrt(gpu(c(-1, 4)))
  b <- gpu(c(.Machine$integer.max, 1L)) + 1L
  seen <- list()
  withCallingHandlers({ gpu_compute(a, b); gpu_sync(test_device) }, warning = function(w) {
    seen <<- c(seen, list(w))
    invokeRestart("muffleWarning")
  })
  expect_setequal(vapply(seen, conditionMessage, ""), c("NaNs produced", "NAs produced by integer overflow"))
})

test_that("out is changed under all its names, and keeps its dtype and shape", {
  m <- matrix(c(1.5, 2, 3, 4), 2, dimnames = list(NULL, c("a", "b")))
  state <- gpu(m, "float32")
  alias <- state
  closure <- function() as.vector(state)
  before <- state + 0.5
  expect_identical(gpu_compute(state * 2, out = state), state)
  expect_identical(collect(alias), m * 2)
  expect_identical(closure(), as.vector(m) * 2)
  expect_identical(gpu_dtype(alias), "float32")
  expect_identical(collect(before), m + 0.5)
  gpu_compute(t(state) + state, out = state)
  expect_identical(unname(collect(alias)), unname(t(m * 2) + m * 2))
  for (i in 1:10) gpu_compute(state + 1, out = state)
  expect_identical(as.vector(alias), as.vector(t(m * 2) + m * 2) + 10)
})

test_that("out sees a host write first, and what was read of it before stays", {
  x <- gpu(as.double(1:3))
  host <- as.vector(x)
  gpu_compute(x * 10, out = x)
  expect_identical(as.vector(x), host * 10)
  expect_identical(host, as.double(1:3))
  expect_identical(as.vector(x[2]), 20)
})

test_that("an out that does not fit changes nothing", {
  x <- gpu(as.double(1:3))
  expect_error(gpu_compute(x + 1, out = c(1, 2, 3)), class = "verdigris_error_argument")
  expect_error(gpu_compute(x + 1, out = gpu(1:2)), class = "verdigris_error_shape")
  expect_error(gpu_compute(x, x, out = x), class = "verdigris_error_argument")
  expect_identical(as.vector(x), as.double(1:3))
  whole <- gpu(1:3)
  expect_warning({ gpu_compute(x + 3e9, out = whole); gpu_sync(test_device) }, "NAs introduced by coercion to integer range")
  expect_identical(as.vector(whole), rep(NA_integer_, 3))
})

test_that("gpu_explain tells what would run, and runs nothing", {
  a <- gpu(matrix(runif(6), 2))
  b <- gpu(as.double(1:2))
  y <- sqrt(t(t(a)) * 2 + b)
  e <- gpu_explain(y)
  expect_s3_class(e, "gpu_explanation")
  expect_gt(pending(y), 0)
  expect_length(e$kernels, 1)
  kernel <- e$kernels[[1]]
  expect_identical(kernel$code, c("t1 <- x1 * 2", "t2 <- t1 + x2", "y <- sqrt(t2)"))
  expect_identical(kernel$reads$access, c("linear", "recycled"))
  expect_identical(kernel$reads$bytes, c(48, 16))
  expect_identical(kernel$writes$bytes, 48)
  expect_match(kernel$source, "__global__")
  gpu_compute(y)
  expect_length(gpu_explain(y)$kernels, 0)
  expect_error(gpu_explain(1), class = "verdigris_error_argument")
})

test_that("a recorded operand that is recycled is a kernel of its own", {
  a <- gpu(runif(6))
  e <- gpu_explain(a + (gpu(c(1, 2, 3)) * 2))
  expect_length(e$kernels, 2)
  expect_identical(vapply(e$kernels, function(k) k$n, 0), c(3, 6))
})

test_that("an explanation prints", {
  x <- as_gpu(matrix(1, 3, 2), device = "cpu")
  expect_snapshot(gpu_explain(t(x) * 2 + c(0, 1)))
  expect_snapshot(gpu_explain(x))
})
