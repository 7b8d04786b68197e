test_that("a view shows the elements that extents and strides say", {
  x <- gpu(as.numeric(1:12))
  at <- function(dim, strides, offset = 0) {
    index <- Reduce(function(a, k) outer(a, (seq_len(dim[k]) - 1) * strides[k], `+`), seq_along(dim), offset)
    values <- 1 + as.vector(index)
    if (length(dim) > 1) array(values, dim) else values
  }
  for (v in list(
    list(c(4, 3), c(1, 4), 0), list(c(3, 4), c(4, 1), 0), list(c(4, 3), c(2, 1), 0), list(5, -2, 10),
      list(c(3, 3), c(1, 1), 5), list(c(2, 6), c(0, 2), 1),
    list(c(2, 3, 2), c(6, 1, 3), 0), list(1, 7, 11), list(c(1, 1), c(9, 9), 3), list(12, 1, 0)
  )) {
    expect_identical(collect(gpu_as_strided(x, v[[1]], v[[2]], v[[3]])), at(v[[1]], v[[2]], v[[3]]), label = deparse(v))
    expect_identical(collect(gpu_as_strided(x, v[[1]], v[[2]], v[[3]]) * 2), at(v[[1]], v[[2]], v[[3]]) * 2,
      label = deparse(v))
  }
  expect_identical(collect(gpu_as_strided(x, c(2, 3))), matrix(1:6 + 0, 2))
  expect_identical(dim(gpu_as_strided(x, c(0, 3), c(100, 100))), c(0L, 3L))
  # of a part: its own elements, column after column
  m <- gpu(matrix(as.numeric(1:12), 4))
  for (part in list(m[, 2], m[2, ], t(m))) {
    values <- as.vector(collect(part))
    expect_identical(collect(gpu_as_strided(part, 2, 2)), values[c(1, 3)])
    expect_error(gpu_as_strided(part, 2, 1, -1), class = "verdigris_error_shape")
    expect_error(gpu_as_strided(part, length(part) + 1), class = "verdigris_error_shape")
  }
  # of a view that was asked for: as it lies
  back <- gpu_as_strided(x, 6, -2, 11)
  expect_identical(collect(gpu_as_strided(back, 3, -4)), c(12, 8, 4))
  expect_error(gpu_as_strided(back, 2, 1), class = "verdigris_error_shape")
  expect_identical(collect(gpu_as_strided(x + 1, 2, 1, 3)), c(5, 6))
})

test_that("a view stays inside", {
  x <- gpu(as.numeric(1:12))
  for (v in list(
    list(13, 1, 0), list(1, 1, 12), list(1, 1, -1), list(2, -1, 0), list(c(4, 4), c(3, 1), 1), list(2, 2^40, 0),
      list(2, 2^52, 0), list(2, -2^52, 0), list(c(2^52, 2^52), c(2^52, 2^52), 0),
    list(c(2^30, 2^30, 2^30), c(0, 0, 0), 0), list(1, 1, 2^52), list(1, 1, -2^52)
  )) {
    expect_error(gpu_as_strided(x, v[[1]], v[[2]], v[[3]]), class = "verdigris_error_shape")
  }
  for (v in list(list(2, 1, NA), list(2, 1, 1.5), list(2, 1, "1"), list(2, 1, NULL), list(2, c(1, 2), 0),
    list(2, NA, 0), list(2, "a", 0), list(-1, 1, 0), list("a", 1, 0), list(NULL, 1, 0))) {
    expect_error(gpu_as_strided(x, v[[1]], v[[2]], v[[3]]), class = "verdigris_error_argument")
  }
  expect_error(gpu_as_strided(1, 1), class = "verdigris_error_argument")
})

test_that("two views see each other's writing, and what was recorded before does not", {
  x <- gpu(as.numeric(1:6))
  recorded <- x * 2
  earlier <- x[2:3]
  evens <- gpu_as_strided(x, 3, 2, 1)
  m <- gpu_as_strided(x, c(2, 3))
  rows <- gpu_as_strided(m, c(3, 2), c(2, 1))
  gpu_compute(evens * 10, out = evens)
  want <- c(1, 20, 3, 40, 5, 60)
  expect_identical(collect(x), want)
  expect_identical(collect(m), matrix(want, 2))
  expect_identical(collect(rows), matrix(want, 3, byrow = TRUE))
  expect_identical(base::sum(unclass(m)), sum(want))
  gpu_compute(rows * 0, out = rows)
  expect_identical(base::sum(unclass(m)), 0)
  expect_identical(collect(evens), c(0, 0, 0))
  expect_identical(collect(recorded), 2 * as.numeric(1:6))
  expect_identical(collect(earlier), c(2, 3))
  # values of a moment
  now <- list(x + 1, x[1:2], t(m), rep(x, 2))
  gpu_compute(gpu(rep(7, 6)), out = x)
  expect_identical(lapply(now, collect), list(rep(1, 6), c(0, 0), matrix(0, 3, 2), numeric(12)))
  m[1, 1] <- 5
  expect_identical(collect(x), rep(7, 6))
  rm(evens, m, rows)
  collect_garbage()
  expect_identical(verdigris:::gpu_info(x + 1)$pending, 1)
})

test_that("memory whose elements overlap is read, and not written", {
  x <- gpu_empty(c(4, 3), strides = c(2, 1), device = test_device)
  gpu_compute(gpu(as.numeric(1:9)), out = gpu_as_strided(x, 9, 1))
  want <- matrix(c(1, 3, 5, 7, 2, 4, 6, 8, 3, 5, 7, 9), 4)
  expect_identical(collect(x), want)
  expect_identical(collect(x + x), 2 * want)
  expect_identical(sum(x), sum(want))
  expect_identical(collect(x %*% c(1, 1, 1)), want %*% c(1, 1, 1))
  expect_error(gpu_compute(x * 2, out = x), class = "verdigris_error_shape")
  expect_error(x[1, 1] <- 100, class = "verdigris_error_shape")
  expect_error(as_dlpack(x, writable = TRUE), class = "verdigris_error_shape")
  expect_identical(collect(from_dlpack(as_dlpack(x))), want)
  expect_identical(collect(x), want)
  own <- x + 0
  own[1, 1] <- 100
  expect_identical(collect(own)[1:2], c(100, 3))
  repeated <- gpu_as_strided(gpu(1), 3, 0)
  expect_error(gpu_compute(repeated * 2, out = repeated), class = "verdigris_error_shape")
  # what repeats or overlaps for the package's own reasons is a value like others
  r <- rep(gpu(c(1, 2)), 2)
  r[1] <- 9
  expect_identical(collect(r), c(9, 2, 1, 2))
})

test_that("strided memory is written where it lies", {
  for (dtype in c("float64", "float32", "int16", "complex128", "bool8")) {
    x <- gpu_empty(c(2, 3), dtype, test_device, strides = c(3, 1))
    address <- gpu_pointer(x)$address
    values <- if (dtype == "bool8") c(TRUE, FALSE, NA, TRUE, TRUE, FALSE) else if (dtype == "complex128") 1:6 + 1i else
      if (dtype == "int16") 1:6 else 1:6 + 0
    gpu_compute(gpu(values), out = x)
    expect_identical(collect(x), matrix(values, 2))
    expect_identical(gpu_pointer(x)$strides, c(3, 1))
    expect_identical(gpu_pointer(x)$address, address)
    expect_identical(collect(gpu_as_strided(x, 6)), as.vector(t(matrix(values, 2))))
  }
  expect_error(gpu_empty(2, strides = -1), class = "verdigris_error_argument")
  expect_error(gpu_empty(2^20, strides = 2^50, device = test_device), class = "verdigris_error_shape")
  expect_error(gpu_empty(2, strides = 2^50, device = test_device), class = "verdigris_error_memory")
  expect_error(gpu_empty(2, strides = 2^60), class = "verdigris_error_argument")
  expect_error(gpu_empty(2^50, device = test_device), class = "verdigris_error_memory")
  expect_identical(dim(gpu_empty(c(0, 2), strides = c(5, 5), device = test_device)), c(0L, 2L))
})
