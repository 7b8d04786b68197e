test_that("what goes in comes out", {
  values <- list(
    c(TRUE, FALSE, NA), c(1L, NA, -5L), c(1.5, NA, NaN, Inf, -Inf, -0),
      c(1 + 2i, NA, complex(real = NaN, imaginary = 1)),
    matrix(1:6, 2, dimnames = list(c("a", "b"), NULL)), array(as.double(1:24), 2:4), c(a = 1, b = 2), double(),
    matrix(double(), 0, 3), ts(1:24, start = 2000, frequency = 12), ts(matrix(1:4, 2))
  )
  for (v in values) {
    expect_identical(collect(gpu(v)), v)
    expect_identical(as.vector(gpu(v)), as.vector(v))
    expect_identical(typeof(gpu(v)), typeof(v))
    expect_identical(dim(gpu(v)), dim(v))
  }
})

test_that("conversions give what base R gives for the host vector", {
  for (v in list(c(a = 1.7, b = 0, c = NA), matrix(0:3, 2), c(TRUE, NA))) {
    for (f in list(as.vector, as.numeric, as.double, as.integer, as.logical, as.complex, as.matrix, as.array,
      as.character)) {
      expect_identical(f(gpu(v)), f(v))
    }
    expect_identical(as.vector(gpu(v), "list"), as.vector(v, "list"))
    expect_identical(as.vector(gpu(v), "integer"), as.vector(v, "integer"))
  }
})

test_that("dtypes round, saturate to NA and come back", {
  expect_identical(as.vector(gpu(c(0.1, NA), "float32"))[1], 0.100000001490116119384765625)
  expect_warning(x <- gpu(c(1, 300, NA), "int8"), "NAs introduced")
  expect_identical(as.vector(x), c(1L, NA, NA))
  expect_identical(as.vector(gpu(c(TRUE, NA), "float64")), c(1, NA))
  for (d in c("float64", "float32", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool8",
    "complex64", "complex128")) {
    x <- gpu(c(0, 1), d)
    expect_identical(gpu_dtype(x), d)
    expect_identical(as.numeric(x), c(0, 1))
    expect_identical(as.numeric(gpu_cast(x, "float64")), c(0, 1))
  }
})

test_that("integer64 goes in and out", {
  skip_if_not_installed("bit64")
  v <- bit64::as.integer64(c("9007199254740993", NA, "-1"))
  x <- gpu(v)
  expect_identical(gpu_dtype(x), "int64")
  expect_identical(collect(x), v)
  expect_warning(d <- as.vector(x), "2\\^53")
  expect_identical(d, c(NA, NA, -1))
})

test_that("arrays that are there are shared, cast or moved", {
  x <- gpu(c(a = 1, b = 2))
  expect_identical(collect(as_gpu(x)), c(a = 1, b = 2))
  expect_identical(gpu_dtype(as_gpu(x, dtype = "float32")), "float32")
  expect_identical(names(as_gpu(x, device = "cpu")), c("a", "b"))
})

test_that("columns of a data frame that are numbers become arrays", {
  frame <- data.frame(a = 1:2, b = c("x", "y"), c = c(TRUE, NA), d = factor(1:2), e = c(0.5, 1))
  out <- as_gpu(frame, device = test_device)
  expect_identical(vapply(out, is_gpu, NA), c(a = TRUE, b = FALSE, c = TRUE, d = FALSE, e = TRUE))
  expect_identical(collect(out), frame)
})

test_that("constants and sequences", {
  expect_identical(collect(gpu_zeros(c(2, 3), device = test_device)), matrix(0, 2, 3))
  expect_identical(collect(gpu_ones(2, "int32", device = test_device)), c(1L, 1L))
  expect_identical(collect(gpu_full(NA, 2, device = test_device)), c(NA, NA))
  expect_identical(collect(gpu_full(1i, c(1, 2), device = test_device)), matrix(1i, 1, 2))
  expect_identical(dim(gpu_empty(c(3, 0), device = test_device)), c(3L, 0L))
  expect_identical(dim(gpu_empty(c(3, 2), strides = c(2, 6), device = test_device)), c(3L, 2L))
  same <- function(...) expect_identical(collect(gpu_seq(..., device = test_device)), seq(...))
  same(1, 10)
  same(10, 1)
  same(1L, 9L, by = 2L)
  same(1, 9, by = 2)
  same(0.5, 3)
  same(0, 1, length.out = 5)
  same(2, by = 3, length.out = 4)
  same(2, length.out = 3)
  same(3L, length.out = 3)
})

test_that("attributes are set as base R sets them, and the class follows", {
  on_both <- function(f, v) {
    expect_identical(collect(f(gpu(v))), f(v))
    class(f(gpu(v)))[-(1:2)]
  }
  expect_identical(on_both(function(x) { dim(x) <- c(2, 3); x }, 1:6), c("matrix", "array", "integer", "numeric"))
  expect_identical(on_both(function(x) { dim(x) <- NULL; x }, matrix(1:6, 2)), c("integer", "numeric", "vector"))
  on_both(function(x) { dim(x) <- c(1, 2, 3); x }, c(a = 1, b = 2, c = 3, d = 4, e = 5, f = 6))
  on_both(function(x) { names(x) <- c("a", "b"); x }, c(1, 2))
  on_both(function(x) { names(x) <- NULL; x }, c(a = 1, b = 2))
  on_both(function(x) { dimnames(x) <- list(NULL, c("u", "v")); x }, matrix(1:4, 2))
  on_both(function(x) { rownames(x) <- c("u", "v"); x }, matrix(1:4, 2))
  x <- gpu(1:6)
  expect_error({ dim(x) <- c(4, 4) }, "dims [product 16] do not match the length of object [6]", fixed = TRUE)
  expect_identical(as.vector(x), 1:6)
  # the old one keeps its shape
  y <- x
  dim(y) <- c(2, 3)
  expect_null(dim(x))
})

test_that("base R's vector functions", {
  same <- function(f, v) expect_identical(collect(f(gpu(v))), f(v))
  same(rev, c(1, 2, 3))
  same(unique, c(1, 1, 2))
  same(function(x) rep(x, 2), c(a = 1, b = 2))
  same(function(x) rep(x, each = 2), 1:3)
  same(function(x) c(x, 4), c(1, 2))
  same(function(x) c(x, z = 4), c(a = 1, b = 2))
  same(function(x) head(x, 2), 1:5)
  same(function(x) tail(x, 2), 1:5)
  same(function(x) head(x, 1), matrix(1:6, 2))
  expect_identical(gpu_dtype(c(gpu(1, "float32"), gpu(2, "float32"))), "float32")
  expect_true(all.equal(gpu(c(1, 2)), c(1, 2)))
  expect_match(all.equal(gpu(c(1, 2)), c(1, 3)), "relative difference")
  expect_identical(collect(as.data.frame(gpu(matrix(1:6, 2)))), as.data.frame(matrix(1:6, 2)))
})
