# gpu_compute() and gpu_explain(): which operations are computed, together or apart, and in whose memory.

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
  expect_warning({ gpu_compute(x + 3e9, out = whole); gpu_sync(test_device) },
    "NAs introduced by coercion to integer range")
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

test_that("what is picked is taken into its readers", {
  x <- c(5, NA, 7, NaN, -1)
  i <- c(5, 1, 2, 4, 1)
  a <- gpu(x)
  j <- gpu(i)
  e <- gpu_explain(a[j] * 2 + a[j + 0])
  expect_length(e$kernels, 1)
  expect_setequal(e$kernels[[1]]$reads$access, c("linear", "picked"))
  expect_length(e$kernels[[1]]$reads$access, 2)
  expect_identical(as.vector(a[j] * 2 + a[j]), x[i] * 3)
  # subscripts from the host
  e <- gpu_explain(a[i] + gpu(as.double(1:5)))
  expect_identical(e$kernels[[1]]$code, c("t1 <- x2[x1 + 1]", "y <- t1 + x3"))
  expect_identical(as.vector(a[c(6, 1, NA)] + 1), c(NA, 6, NA))
  launches <- function(value) {
    before <- .Call(verdigris:::C_counters)
    force(value)
    (.Call(verdigris:::C_counters) - before)[[1L]]
  }
  # (an interpreter would store the values before they are reduced)
  if (test_device == "cpu") expect_identical(launches(sum(a[i], na.rm = TRUE) + 0), 1)
  expect_identical(sum(a[i], na.rm = TRUE), sum(x[i], na.rm = TRUE))
  # as a mask's values, and as a mask
  k <- gpu(c(1L, 3L, 5L))
  expect_identical(as.vector(a[k][a[k] > 0]), c(5, 7))
  # a few operations on one array wait for what is picked of it; NA is theirs to give
  twice <- a * 2 + 1
  expect_identical(as.vector(twice[i]), x[i] * 2 + 1)
  expect_gt(pending(twice), 0)
  expect_identical(as.vector(is.na(a)[c(NA, 7, 2)]), is.na(x)[c(NA, 7, 2)])
  # a subscript is looked through once, and anew when it has changed
  big <- gpu(c(2, 3, 1))
  expect_identical(as.vector(a[big]), x[c(2, 3, 1)])
  if (test_device == "cpu") expect_identical(launches(gpu_compute(a[big] * 2)), 1)
  gpu_compute(big - 1, out = big)
  expect_identical(as.vector(a[big]), x[c(1, 2)])
  # a matrix: positions of rows and columns are computed on the way
  m <- matrix(as.double(1:12), 3)
  expect_length(gpu_explain(gpu(m)[c(3, 1), c(1, 4, 2)] + 1)$kernels, 1)
  expect_identical(collect(gpu(m)[c(3, 1), gpu(c(1, 4, 2))] + 1), m[c(3, 1), c(1, 4, 2)] + 1)
})

test_that("of the second reader on what is picked is stored", {
  a <- gpu(runif(10))
  b <- a[c(3, 9, 3)]
  expect_gt(pending(b), 0)
  first <- as.vector(b + 1)
  expect_gt(pending(b), 0)
  second <- as.vector(b + 1)
  expect_identical(pending(b), 0)
  expect_identical(first, second)
})

test_that("what a mask chooses reads each operand once", {
  x <- c(0.5, -1, 3, NA, 2)
  y <- c(0.5, 0.5, 0.5, 0.5, 3)
  a <- gpu(x)
  b <- gpu(y)
  expect_identical(as.vector(a[a > 0 & b < 1]), x[x > 0 & y < 1])
  expect_identical(gpu_explain(a > 0 & b < 1)$kernels[[1]]$reads$name, c("x1", "x2"))
})

test_that("reductions along margins go on to what is done with them", {
  m <- matrix(c(3, 1, NA, 2, 4, 2), 2, dimnames = list(c("a", "b"), NULL))
  x <- gpu(m)
  one <- function(y) expect_length(gpu_explain(y)$kernels, 1)
  e <- gpu_explain(sqrt(rowSums(x^2, na.rm = TRUE)))
  expect_identical(e$kernels[[1]]$code[2:3], c("t2 <- apply(t1, 1, sum, na.rm = TRUE)", "y <- sqrt(t2)"))
  expect_identical(e$kernels[[1]]$n, 2)
  expect_match(e$kernels[[1]]$source, "namespace after")
  y <- gpu(c(1, 2, 3))
  one(colMeans(x) * 2 + y)
  one(rowSums(x) / rowMeans(x))
  expect_identical(collect(sqrt(rowSums(x^2, na.rm = TRUE))), sqrt(rowSums(m^2, na.rm = TRUE)))
  expect_identical(collect(colMeans(x) * 2 + y), colMeans(m) * 2 + c(1, 2, 3))
  expect_identical(collect(rowSums(x) / rowMeans(x)), rowSums(m) / rowMeans(m))
  expect_identical(collect(x / rowSums(x)), m / rowSums(m))
  a <- array(as.double(1:24), 2:4)
  one(log(colSums(gpu(a), dims = 2)))
  expect_identical(collect(1 / colSums(gpu(a), dims = 2)), 1 / colSums(a, dims = 2))
  expect_identical(collect(-rowMeans(gpu(a), dims = 2)), -rowMeans(a, dims = 2))
  s <- rowSums(x)
  root <- sqrt(s - 100)
  expect_warning(as.vector(root), "NaNs produced")
  expect_identical(pending(s), 0)
  expect_identical(collect(s), rowSums(m))
})

test_that("what is done with elements and their group's result is one kernel", {
  m <- matrix(sin(1:(643 * 520)), 643)
  # 512 groups or more, of 512 elements or more
  for (dtype in c("float64", "float32", "float16")) {
    x <- gpu(m, dtype = dtype)
    tolerance <- c(float64 = 1e-13, float32 = 1e-6, float16 = 2e-3)[[dtype]]
    softmax <- function(x) {
      e <- exp(x)
      t(t(e) / colSums(e))
    }
    expect_length(gpu_explain(softmax(x))$kernels, 1)
    expect_equal(collect(softmax(x)), softmax(m), tolerance = tolerance)
    expect_equal(collect(t(t(x) - colMeans(x))), t(t(m) - colMeans(m)), tolerance = tolerance)
    expect_equal(collect(t(t(x[, 3:520]) * (2 * colSums(x[, 3:520]) + 1))),
      t(t(m[, 3:520]) * (2 * colSums(m[, 3:520]) + 1)), tolerance = tolerance)
    # and what is not: few or short groups, other margins, what warns
    expect_equal(collect(t(t(x[, 1:20]) - colMeans(x[, 1:20]))), t(t(m[, 1:20]) - colMeans(m[, 1:20])),
      tolerance = tolerance)
    expect_equal(collect(x - rowMeans(x)), m - rowMeans(m), tolerance = tolerance)
    expect_equal(collect(t(t(x) - colMeans(x) - colSums(x))), t(t(m) - colMeans(m) - colSums(m)), tolerance = tolerance)
    expect_warning(found <- collect(t(t(x) * sqrt(colSums(x)))), "NaNs produced")
    expect_equal(found, suppressWarnings(t(t(m) * sqrt(colSums(m)))), tolerance = 10 * tolerance)
  }
  # in single precision where the array is
  x <- gpu(m, dtype = "float32")
  expect_identical(vapply(list(colSums(x), rowMeans(x), apply(x, 2, sum), softmax(x)), gpu_dtype, ""),
    rep("float32", 4))
  s <- colMeans(x)
  centred <- collect(t(t(x) - s))
  expect_equal(collect(s), colMeans(m), tolerance = 1e-6)
})

test_that("a reduction that is not computed does not outlive the next", {
  x <- gpu(matrix(runif(20), 4))
  s <- rowSums(x)
  expect_gt(pending(s), 0)
  t <- colSums(x)
  expect_identical(pending(s), 0)
  v <- x[1:4]
  for (k in 1:300) v <- rowSums(x * v) / 2
  expect_identical(length(as.vector(v)), 4L)
})

test_that("an explanation prints", {
  x <- as_gpu(matrix(1, 3, 2), device = "cpu")
  expect_snapshot(gpu_explain(t(x) * 2 + c(0, 1)))
  expect_snapshot(gpu_explain(x))
})
