on_gpu <- test_device != "cpu"

test_that("what is computed on several streams is what one computes, by bits", {
  # exhaustive: VERDIGRIS_STREAMS=100000 (steps)
  steps <- as.integer(Sys.getenv("VERDIGRIS_STREAMS", "150"))
  streams <- list(NULL, gpu_stream(device = test_device), gpu_stream(2, test_device))
  for (seed in c(2, 5)) {
    one <- random_program(seed, steps)
    expect_true(all(is.finite(unlist(one))))
    expect_identical(random_program(seed, steps, streams), one)
  }
})

test_that("a stream is current while code runs, and the one before comes back", {
  number <- function() if (length(current_streams())) .Call(verdigris:::C_stream_info,
    current_streams()[[1L]])$number else 0
  current_streams <- function() Filter(Negate(is.null), as.list(verdigris:::current_streams))
  a <- gpu_stream(device = test_device)
  b <- gpu_stream(device = test_device)
  seen <- with_gpu_stream(a, c(number(), with_gpu_stream(b, number()), with_gpu_stream(NULL, number()), number()))
  own <- function(s) .Call(verdigris:::C_stream_info, s)$number
  expect_identical(seen, c(own(a), own(b), 0, own(a)))
  expect_error(with_gpu_stream(a, stop("inside")), "inside")
  expect_identical(number(), 0)
  f <- function() {
    local_gpu_stream(b)
    number()
  }
  expect_identical(f(), own(b))
  expect_identical(number(), 0)
  if (on_gpu) expect_false(own(a) == own(b))
})

test_that("streams and events show what they are", {
  s <- gpu_stream(device = test_device)
  expect_output(print(s), "<gpu_stream> [0-9]+ of (cpu|cuda:0), priority 0, (idle|at work)")
  e <- gpu_event(test_device)
  expect_output(print(e), "not recorded")
  gpu_event_record(e)
  gpu_sync(e)
  expect_output(print(e), "done")
})

test_that("events time what is between them, and order streams", {
  x <- gpu(runif(5000))
  from <- gpu_event_record(gpu_event(test_device))
  gpu_compute(sort(x))
  to <- gpu_event_record(gpu_event(test_device))
  took <- gpu_event_elapsed(from, to)
  expect_gt(took, 0)
  expect_lt(took, 60)
  expect_lte(gpu_event_elapsed(to, from), 0)
  s <- gpu_stream(device = test_device)
  expect_identical(gpu_event_wait(to, s), to)
  expect_identical(gpu_event_wait(s), s)
  gpu_sync(s)
})

test_that("wrong streams and events are errors", {
  s <- gpu_stream(device = test_device)
  e <- gpu_event(test_device)
  restored <- unserialize(serialize(s, NULL))
  wrong <- list(
    quote(with_gpu_stream(1, 1)), quote(with_gpu_stream(e, 1)), quote(with_gpu_stream(restored, 1)),
      quote(local_gpu_stream("a")),
    quote(gpu_stream("high")), quote(gpu_stream(NA)), quote(gpu_stream(1:2)), quote(gpu_event_record(1)),
      quote(gpu_event_record(s)), quote(gpu_event_record(e, 1)),
    quote(gpu_event_wait(e)), quote(gpu_event_wait(1)), quote(gpu_event_elapsed(e, e)),
    quote(gpu_event_elapsed(1, 2)), quote(gpu_sync(e))
  )
  for (call in wrong) expect_error(eval(call), class = "verdigris_error_argument", label = deparse(call))
  expect_error(gpu_stream(device = "cuda:99"), class = "verdigris_error")
  expect_identical(as.vector(gpu(1:3) + 1L), 2:4)
  if (on_gpu) {
    expect_error(gpu_event_record(e, gpu_stream(device = "cpu")), class = "verdigris_error_device")
    on_cpu <- gpu_event_record(gpu_event("cpu"))
    expect_error(gpu_event_elapsed(gpu_event_record(e), on_cpu), class = "verdigris_error_device")
  }
})

test_that("streams that R collects serve again", {
  for (k in 1:50) gpu_stream(device = test_device)
  gc()
  gpu_sync(test_device)
  numbers <- vapply(1:20, function(k) {
    s <- gpu_stream(device = test_device)
    gc(full = FALSE)
    .Call(verdigris:::C_stream_info, s)$number
  }, 0)
  expect_lt(max(numbers), 100)
})

test_that("warnings of a stream come when it is waited for", {
  s <- gpu_stream(device = test_device)
  x <- gpu(c(-1, 4))
  warned <- testthat::capture_warnings({
    y <- with_gpu_stream(s, gpu_compute(sqrt(x)))
    gpu_sync(s)
  })
  expect_match(warned, "NaNs produced")
  expect_identical(as.vector(y), c(NaN, 2))
})

test_that("a number that one stream is to give is an operand on another", {
  s <- gpu_stream(device = test_device)
  h <- runif(3000)
  x <- gpu(h)
  total <- with_gpu_stream(s, sum(x))
  expect_equal(as.vector(gpu_compute(x / total)), h / sum(h))
  for (k in 1:20) {
    part <- with_gpu_stream(s, sum(x * k))
    y <- gpu_compute(x + part)
    rm(part)
    with_gpu_stream(s, sum(x * 2 * k))
    expect_equal(as.vector(y)[1:2], h[1:2] + k * sum(h))
  }
})

test_that("matrix products and factorisations run on any stream", {
  s <- gpu_stream(device = test_device)
  h <- crossprod(matrix(rnorm(400), 20)) + diag(20)
  m <- gpu(h)
  p <- with_gpu_stream(s, gpu_compute(m %*% m))
  expect_equal(as.matrix(p), h %*% h)
  expect_equal(as.matrix(with_gpu_stream(s, chol(m))), chol(h))
})

test_that("a kernel's call is queued on the stream that it names, behind what other streams do with its arrays", {
  skip_if_not(on_gpu, "no CUDA device to test on")
  slow <- gpu_kernel("
    __global__ void slow(const double* x, double* y, int turns, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      double v = x[i < n ? i : 0];
      for (int k = 0; k < turns; k++) v = v * 0.5 + 1;
      if (i < n) y[i] = v;
    }")
  number <- function(s) .Call(verdigris:::C_stream_info, s)$number
  timeline <- function(expr) attr(gpu_profile(expr), "timeline")
  a <- gpu_stream(device = test_device)
  b <- gpu_stream(device = test_device)
  x <- gpu(c(2, 4, 6))
  y <- gpu(numeric(3))
  z <- gpu(numeric(3))
  spans <- timeline({
    slow(x, y, 1000L, 3L, stream = a)
    slow(y, z, 1L, 3L, stream = b)
    slow(x, y, 1L, n = 3L, stream = NULL)
  })
  ran <- spans[spans$kind == "kernel" & spans$name == "slow", ]
  expect_identical(as.numeric(ran$stream), c(number(a), number(b), 0))
  expect_identical(as.vector(z), c(2, 2, 2))
  expect_identical(as.vector(y), c(2, 3, 4))
  # the one before is current again, also after an error
  expect_error(slow(x, y, 1L, 3L, block = 9999, stream = a), class = "verdigris_error_launch")
  expect_identical(with_gpu_stream(b, {
    slow(x, y, 1L, 3L, stream = a)
    spans <- timeline(slow(x, y, 1L, 3L))
    as.numeric(spans$stream[spans$name == "slow"])
  }), number(b))
  made <- gpu_kernel("__global__ void fill(double* z, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) z[i] = i; }", returns = "z")
  expect_identical(as.vector(made(n = 4, stream = a)), c(0, 1, 2, 3))
  expect_error(gpu_graph(slow(x, y, 1L, 3L, stream = a)), class = "verdigris_error_capture")
  expect_error(slow(x, y, 1L, 3L, stream = gpu_stream(device = "cpu")), class = "verdigris_error_device")
  for (wrong in list(1, "a", gpu_event(test_device), unserialize(serialize(a, NULL)), TRUE)) {
    expect_error(slow(x, y, 1L, 3L, stream = wrong), class = "verdigris_error_argument")
  }
})

test_that("variables of a module are read and written between the kernels that use them", {
  skip_if_not(on_gpu, "no CUDA device to test on")
  module <- gpu_module("
    __device__ double last[4];
    __constant__ double scale;
    __global__ void work(const double* x, double* y, int turns) {
      double v = x[threadIdx.x];
      for (int k = 0; k < turns; k++) v = v * 0.5 + 1;
      last[threadIdx.x] = y[threadIdx.x] = v * scale;
    }")
  a <- gpu_stream(device = test_device)
  b <- gpu_stream(device = test_device)
  x <- gpu(c(2, 4, 6, 8))
  for (k in 1:25) {
    y <- gpu(numeric(4))
    with_gpu_stream(b, gpu_global(module, "scale") <- k)
    module$work(x, y, if (k %% 2) 20000L else 1L, grid = 1, block = 4, stream = a)
    # while that runs the variable is written again, and what it leaves is read
    with_gpu_stream(b, gpu_global(module, "scale") <- -1)
    seen <- with_gpu_stream(b, gpu_global(module, "last"))
    bytes <- with_gpu_stream(NULL, gpu_global(module, "last", "raw"))
    expect_identical(as.vector(seen), as.vector(y))
    expect_identical(readBin(bytes, "double", 4L), as.vector(y))
    expect_equal(as.vector(y), k * if (k %% 2) rep(2, 4) else c(2, 3, 4, 5))
  }
})
