on_gpu <- test_device != "cpu"

test_that("a graph gives what the block gives, on other inputs", {
  h <- runif(500)
  x <- gpu(h)
  y <- gpu(rev(h))
  k <- 3
  block <- quote({
    u <- gpu_compute(x * k + y)
    v <- cumsum(u) / sum(u)
    list(v = v, deep = list(w = rev(x), n = 7), t = sum(y), word = "a")
  })
  g <- eval(call("gpu_graph", block))
  check <- function(result, hx, hy) {
    u <- hx * 3 + hy
    expect_equal(as.vector(result$v), cumsum(u) / sum(u))
    expect_identical(as.vector(result$deep$w), rev(hx))
    expect_equal(as.vector(result$t), sum(hy))
    expect_identical(result[["deep"]][["n"]], 7)
    expect_identical(result$word, "a")
  }
  first <- g()
  check(first, h, rev(h))
  other <- rnorm(500)
  check(g(x = other), other, rev(h))
  check(g(y = gpu(other)), other, other)
  check(g(), other, other)
  check(g(x = h, y = h), h, h)
  # results are copies, and the caller's arrays are as they were
  check(first, h, rev(h))
  expect_identical(as.vector(x), h)
  expect_false(exists("u", inherits = FALSE))
})

test_that("shapes and types of results are those of the block", {
  m <- gpu(matrix(as.numeric(1:6), 2, dimnames = list(c("a", "b"), NULL)))
  n <- gpu(c(p = 1L, q = 2L))
  g <- gpu_graph(list(t(m), rowSums(m), n + 1L, m > 2, m %*% t(m)))
  r <- g(m = matrix(0:5 + 0.5, 2))
  want <- matrix(0:5 + 0.5, 2, dimnames = list(c("a", "b"), NULL))
  expect_equal(lapply(r, function(x) collect(x)), list(t(want), rowSums(want), c(p = 2L, q = 3L), want > 2,
    want %*% t(want)), ignore_attr = FALSE)
})

test_that("what changes outside is seen by a graph only where it should be", {
  x <- gpu(c(1, 2, 3))
  held <- list(gpu(c(10, 20, 30)))
  scale <- 2
  g <- gpu_graph(gpu_compute(x * scale + held[[1]]))
  scale <- 100
  held[[1]] <- gpu(c(0, 0, 0))
  gc()
  if (on_gpu) expect_identical(as.vector(g()), c(12, 24, 36))
  # the caller's array is not the graph's
  gpu_compute(x * 0, out = x)
  if (on_gpu) expect_identical(as.vector(g()), c(12, 24, 36))
  expect_identical(as.vector(x), c(0, 0, 0))
})

test_that("a graph's inputs are its own, whatever is written to theirs, or freed", {
  x <- gpu(c(1, 2, 3))
  z <- gpu(c(1, 1, 1))
  lent <- from_dlpack(as_dlpack(z, writable = TRUE))
  g <- gpu_graph(x * 2 + z)
  expect_identical(as.vector(g()), c(3, 5, 7))
  gpu_copy(c(10, 20, 30), x)
  gpu_compute(gpu(c(5, 5, 5)), out = z)
  expect_identical(as.vector(g()), c(3, 5, 7))
  gpu_compute(gpu(c(7, 7, 7)), out = x)
  gpu_compute(gpu(c(6, 6, 6)), out = lent)
  expect_identical(as.vector(g()), c(3, 5, 7))
  y <- gpu(c(5, 5, 5))
  expect_identical(as.vector(g(x = y)), c(11, 11, 11))
  gpu_copy(c(1, 1, 1), y)
  expect_identical(as.vector(g()), c(11, 11, 11))
  expect_identical(as.vector(g(z = lent)), c(16, 16, 16))
  gpu_compute(lent * 0, out = lent)
  expect_identical(as.vector(g()), c(16, 16, 16))
  gpu_free(x)
  gpu_free(y)
  gpu_free(z)
  gpu_free(lent)
  expect_identical(as.vector(g()), c(16, 16, 16))
})

test_that("a graph is recorded where memory is short, beside other streams", {
  skip_if(!emulated, "another device has more memory")
  expect_child_ends(quote({
    s <- gpu_stream()
    n <- 2e5
    x <- as_gpu(as.double(1:n))
    with_gpu_stream(s, gpu_compute(x + 0))
    keep <- lapply(1:7, function(k) gpu_compute(x + k))
    for (k in 1:2) {
      r <- tryCatch({ gpu_graph(gpu_compute(x * 2 + 1)); "recorded" }, verdigris_error_memory = function(e) "no room")
      stopifnot(r %in% c("recorded", "no room"))
      stopifnot(all.equal(vapply(keep, function(a) sum(a) - sum(x), 0), n * 1:7))
    }
    keep <- NULL
    gc()
    stopifnot(all.equal(as.vector(sum(gpu_graph(gpu_compute(x * 2 + 1))())), sum(as.double(1:n) * 2 + 1)))
  }), env = "VERDIGRIS_EMULATOR_MEMORY=16777216", timeout = 120)
})

test_that("a block that writes in place does so to its own arrays", {
  h <- c(1, 2, 3)
  x <- gpu(h)
  g <- gpu_graph({
    gpu_compute(x + 1, out = x)
    x * 10
  })
  expect_identical(as.vector(g()), (h + 1) * 10)
  expect_identical(as.vector(g()), (h + 1) * 10)
  expect_identical(as.vector(x), h)
})

test_that("results without a copy are the graph's own memory", {
  x <- gpu(c(1, 2, 3))
  g <- gpu_graph(gpu_compute(x * 2), copy = FALSE)
  a <- g()
  expect_identical(as.vector(a), c(2, 4, 6))
  b <- g(x = c(4, 5, 6))
  expect_identical(as.vector(b), c(8, 10, 12))
  rm(g)
  gc()
  expect_identical(as.vector(b), c(8, 10, 12))
})

test_that("an input that is not as the first is an error, and nothing has run", {
  x <- gpu(c(1, 2, 3))
  m <- gpu(matrix(1:4, 2))
  g <- gpu_graph(list(x * 2, m + 1L))
  before <- lapply(g(), as.vector)
  expect_error(g(x = 1:4), class = "verdigris_error_shape")
  expect_error(g(m = 1:4), class = "verdigris_error_shape")
  expect_error(g(m = gpu(matrix(1, 2, 2))), class = "verdigris_error_dtype")
  expect_error(g(x = gpu(c(1, 2, 3), "float32")), class = "verdigris_error_dtype")
  expect_error(g(x = "a"), class = "verdigris_error_argument")
  expect_error(g(x = list(1)), class = "verdigris_error_argument")
  expect_error(g(1:3), class = "verdigris_error_argument")
  expect_error(g(z = 1:3), class = "verdigris_error_argument")
  expect_error(g(x = 1:3, x = 1:3), class = "verdigris_error_argument")
  if (on_gpu) expect_error(g(x = as_gpu(c(1, 2, 3), device = "cpu")), class = "verdigris_error_device")
  expect_identical(lapply(g(), as.vector), before)
  expect_error(g(x = 1:4), "`x` must have length 3, as when the graph was recorded, not length 4.", fixed = TRUE)
})

test_that("what the host would wait for cannot be recorded, and the arrays stay sound", {
  skip_if(!on_gpu, "the cpu device evaluates the block")
  h <- runif(300)
  x <- gpu(h)
  pending <- x * 2
  capture <- function(code) expect_error(code, class = "verdigris_error_capture")
  capture(gpu_graph(x[x > 0.5]))
  capture(gpu_graph(if (sum(x) > 1) x))
  capture(gpu_graph(which(x > 0.5)))
  capture(gpu_graph(as.vector(x)))
  capture(gpu_graph(format(x)))
  capture(gpu_graph(x[[2]]))
  capture(gpu_graph(sum(x > 0.5) + 1L))
  capture(gpu_graph(solve(gpu(diag(3)))))
  capture(gpu_graph(gpu_graph(x + 1)))
  capture(gpu_graph(with_gpu_stream(gpu_stream(), x)))
  capture(gpu_graph(gpu_event_record(gpu_event())))
  capture(gpu_graph(as_dlpack(x)))
  g <- gpu_graph(x + 1)
  capture(gpu_graph(g()))
  # computed in a recording that failed
  expect_error(gpu_graph({
    gpu_compute(pending)
    stop("user")
  }), "user")
  expect_identical(as.vector(pending), h * 2)
  # and in one that did not
  escaped <- NULL
  total <- NULL
  g <- gpu_graph({
    escaped <<- gpu_compute(x + 5)
    total <<- sum(x)
    x
  })
  expect_identical(as.vector(escaped), h + 5)
  expect_equal(total + 0, sum(h))
  rm(g)
  gc()
  expect_identical(as.vector(escaped), h + 5)
  expect_identical(as.vector(gpu_compute(x - 1)), h - 1)
})

test_that("graphs run on streams, one after the other", {
  h <- runif(2000)
  x <- gpu(h)
  g <- gpu_graph(cumsum(x) * 2)
  a <- gpu_stream(device = test_device)
  b <- gpu_stream(device = test_device)
  for (k in 1:10) {
    y <- with_gpu_stream(a, g(x = h * k))
    z <- with_gpu_stream(b, g(x = h + k))
    expect_equal(as.vector(y), cumsum(h * k) * 2)
    expect_equal(as.vector(z), cumsum(h + k) * 2)
  }
})

test_that("copies from pinned vectors and host data can be part of a graph", {
  p <- as_pinned(c(1, 2, 3), device = test_device)
  x <- gpu(c(0, 0, 0))
  g <- gpu_graph({
    y <- gpu_zeros(3, device = test_device)
    gpu_copy(p, y)
    gpu_compute(x + y + as_gpu(c(100, 200, 300), device = test_device))
  })
  expect_identical(as.vector(g()), c(101, 202, 303))
  p[2] <- 50
  expect_true(is_pinned(p))
  expect_identical(as.vector(g(x = c(1, 1, 1))), c(102, 251, 304))
})

test_that("a graph gives its memory back", {
  x <- gpu(runif(1e5))
  gpu_sync(test_device)
  live <- function() {
    collect_garbage()
    sum(gpu_memory(test_device)[c("live", "pending")])
  }
  before <- live()
  for (k in 1:5) {
    g <- gpu_graph({
      y <- gpu_compute(x * k)
      gpu_compute(rev(y) + y)
    })
    g()
  }
  if (on_gpu) expect_gt(live(), before)
  rm(g)
  expect_lte(live(), before + 4096)
})

test_that("kernels are part of a graph", {
  skip_if(!on_gpu, "kernels run on CUDA devices")
  add <- gpu_kernel("extern \"C\" __global__ void add(const double* x, double* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += x[i];
  }")
  x <- gpu(c(1, 2, 3))
  y <- gpu(c(10, 20, 30))
  g <- gpu_graph({
    for (k in 1:4) add(x, y, 3L)
    y
  })
  expect_identical(as.vector(g()), c(14, 28, 42))
  expect_identical(as.vector(g(x = c(0, 0, 1))), c(10, 20, 34))
  expect_identical(as.vector(y), c(10, 20, 30))
})

test_that("a graph shows what it is", {
  x <- gpu(matrix(c(1, 2), 1))
  g <- gpu_graph(x + 1)
  expect_output(print(g), "<gpu_graph> on (cpu|cuda:0)")
  expect_output(print(g), "x: float64[1, 2]", fixed = TRUE)
  expect_error(gpu_graph(x, copy = NA), class = "verdigris_error_argument")
})

test_that("what was recorded on an array keeps its values when a kernel writes there", {
  skip_if(!on_gpu, "kernels run on CUDA devices")
  add <- gpu_kernel("extern \"C\" __global__ void add(double* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += 1;
  }")
  x <- gpu(c(1, 2, 3))
  recorded <- x * 2
  add(x, 3L)
  expect_identical(as.vector(recorded), c(2, 4, 6))
  expect_identical(as.vector(x), c(2, 3, 4))
})
