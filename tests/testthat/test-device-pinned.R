on_gpu <- test_device != "cpu"

test_that("pinned vectors are vectors", {
  for (type in c("double", "integer", "logical", "complex")) {
    x <- gpu_pinned(100, type, test_device)
    expect_identical(x[], vector(type, 100))
    expect_true(is_pinned(x))
    expect_null(attributes(x))
    y <- x
    y[3] <- as(1, class(vector(type, 1)))
    expect_identical(x[3], vector(type, 1))
    expect_identical(unserialize(serialize(x, NULL)), vector(type, 100))
  }
  x <- gpu_pinned(10, device = test_device)
  x[2:3] <- c(5, 6)
  expect_true(is_pinned(x))
  expect_identical(sum(x), 11)
  x[20] <- 1
  expect_identical(length(x), 20L)
  expect_identical(length(gpu_pinned(0, device = test_device)), 0L)
  expect_false(is_pinned(1:3))
  expect_false(is_pinned(gpu(1:3)))
  expect_false(is_pinned(NULL))
  expect_false(is_pinned("a"))
})

test_that("a pinned copy has the attributes", {
  m <- matrix(runif(6), 2, dimnames = list(NULL, c("a", "b", "c")))
  expect_identical(as_pinned(m, test_device), m)
  expect_true(is_pinned(as_pinned(m, test_device)))
  v <- c(a = 1L, b = NA)
  expect_identical(as_pinned(v, test_device), v)
  expect_identical(as_pinned(gpu(m), test_device), m)
  expect_identical(as.matrix(gpu(as_pinned(m, test_device))), m)
  s <- ts(1:5, start = 2000)
  expect_identical(as_pinned(s, test_device), s)
})

test_that("elements are copied where they are, under all names", {
  p <- gpu_pinned(1000, device = test_device)
  other <- p
  h <- runif(1000)
  x <- gpu(h)
  alias <- x
  recorded <- x + 1
  expect_identical(gpu_copy(x, p), p)
  gpu_sync(test_device)
  expect_identical(p[], h)
  expect_identical(other[], h)
  gpu_copy(gpu(rev(h)), x)
  expect_identical(as.vector(alias), rev(h))
  expect_identical(as.vector(recorded), h + 1)
  gpu_copy(p, x)
  expect_identical(as.vector(alias), h)
  gpu_copy(as.numeric(1:1000), x)
  expect_identical(as.vector(alias), as.numeric(1:1000))
  # dtypes that are not R's
  f <- gpu(h, "float32")
  gpu_copy(p, f)
  expect_equal(as.vector(f), h, tolerance = 1e-6)
  gpu_copy(f, p)
  gpu_sync(test_device)
  expect_identical(p[], as.vector(f))
  l <- gpu(c(TRUE, NA))
  gpu_copy(as_pinned(c(NA, FALSE), test_device), l)
  expect_identical(as.vector(l), c(NA, FALSE))
  pl <- gpu_pinned(2, "logical", test_device)
  gpu_copy(l, pl)
  gpu_sync(test_device)
  expect_identical(pl[], c(NA, FALSE))
  empty <- gpu_zeros(0, device = test_device)
  expect_identical(length(gpu_copy(gpu_pinned(0, device = test_device), empty)), 0L)
})

test_that("a copy that is queued keeps its memory", {
  x <- gpu_zeros(4e5, device = test_device)
  for (k in 1:10) {
    p <- as_pinned(rep(as.numeric(k), 4e5), test_device)
    gpu_copy(p, x)
    rm(p)
    gc(full = k == 5)
    q <- gpu_pinned(4e5, device = test_device)
    expect_identical(as.vector(x[c(1, 4e5)]), c(k, k) + 0)
  }
})

test_that("copies and work overlap on streams without harm", {
  s <- gpu_stream(device = test_device)
  p <- lapply(1:3, function(k) as_pinned(rep(as.numeric(k), 3e5), test_device))
  x <- gpu_zeros(3e5, device = test_device)
  sums <- vapply(rep(1:3, 4), function(k) {
    with_gpu_stream(s, gpu_copy(p[[k]], x))
    sum(x) + 0
  }, 0)
  expect_identical(sums, rep(1:3, 4) * 3e5)
})

test_that("wrong copies change nothing", {
  p <- as_pinned(c(1, 2, 3), test_device)
  x <- gpu(c(4, 5, 6))
  expect_error(gpu_copy(x, c(1, 2, 3)), class = "verdigris_error_argument")
  expect_error(gpu_copy(p, c(1, 2, 3)), class = "verdigris_error_argument")
  expect_error(gpu_copy(p, p), class = "verdigris_error_argument")
  expect_error(gpu_copy("a", x), class = "verdigris_error_argument")
  expect_error(gpu_copy(x, NULL), class = "verdigris_error_argument")
  expect_error(gpu_copy(1:4, x), class = "verdigris_error_shape")
  expect_error(gpu_copy(x, gpu_pinned(4, device = test_device)), class = "verdigris_error_shape")
  expect_error(gpu_copy(gpu(1:2), x), class = "verdigris_error_shape")
  expect_error(gpu_pinned(-1), class = "verdigris_error_argument")
  expect_error(gpu_pinned(1.5), class = "verdigris_error_argument")
  expect_error(gpu_pinned("a"), class = "verdigris_error_argument")
  expect_error(gpu_pinned(3, "character"), class = "verdigris_error_argument")
  expect_error(gpu_pinned(1e15, device = test_device), class = "verdigris_error_memory")
  expect_error(as_pinned("a", test_device), class = "verdigris_error_dtype")
  expect_error(as_pinned(list(1), test_device), class = "verdigris_error_dtype")
  expect_error(as_pinned(NULL, test_device), class = "verdigris_error_dtype")
  expect_identical(p[], c(1, 2, 3))
  expect_identical(as.vector(x), c(4, 5, 6))
})

test_that("page-locked memory is counted, bounded and given back", {
  skip_if(!on_gpu, "the cpu device locks nothing")
  invisible(gpu_memory(test_device, trim = TRUE))
  before <- gpu_memory(test_device)[["pinned"]]
  p <- gpu_pinned(1e6, device = test_device)
  expect_gte(gpu_memory(test_device)[["pinned"]] - before, 8e6)
  p[1] <- 5
  gpu_free(p)
  expect_identical(gpu_memory(test_device)[["pinned"]], before)
  expect_identical(p[1:2], c(5, 0))
  expect_false(is_pinned(p))
  expect_error(gpu_free(c(1, 2)), class = "verdigris_error_argument")
  old <- options(verdigris.pinned_limit = before + 4e6)
  on.exit(options(old))
  expect_error(gpu_pinned(1e6, device = test_device), class = "verdigris_error_memory")
  options(old)
  expect_true(is_pinned(gpu_pinned(1e6, device = test_device)))
})
