# rev(), diff(), duplicated(), is.unsorted() and trimmed means of readers, against base R's of the whole.

withr::local_options(verdigris.device = test_device)

set.seed(71)
vectors <- list(doubles = sample(c(round(rnorm(20), 1), NA, NA, NaN, NaN, Inf, -Inf, 0, -0)),
  integers = sample(c(-3:9, NA), 25, TRUE), logicals = sample(c(TRUE, FALSE, NA), 16, TRUE),
  named = stats::setNames(round(rnorm(13), 1), letters[1:13]), up = sort(round(rnorm(30), 1)),
  ties = rep(1:4, each = 5), gap = c(1, NA, 2:12, NA), down = 20:1, one = 2.5, alone = NA, none = numeric(), nothing = integer())
# blocks of one element, of few, and of all
readers <- function(v) lapply(c(1, 7, 1e4), function(rows) gpu_reader(v, memory = 3 * 8 * rows))
plain <- function(value) if (inherits(value, c("gpu_array", "gpu_reader"))) collect(value) else value
expect_base <- function(calls, values = vectors) for (name in names(values)) for (x in readers(values[[name]]))
  for (call in calls) {
    cases$n <- cases$n + 1L
    want <- suppressWarnings(eval(call, list(x = values[[name]]), globalenv()))
    got <- suppressWarnings(plain(eval(call, list(x = x), globalenv())))
    expect_identical(typeof(got), typeof(want), label = paste(deparse1(call), name))
    expect_equal(got, want, tolerance = 1e-14, label = paste(deparse1(call), name))
  }

test_that("rev() and diff() are computed when they are read", {
  expect_base(alist(rev(x), rev(rev(x)), diff(x), diff(x, 9), diff(x, lag = 2, differences = 2), diff(x, 1000),
    cumsum(rev(x)), which.max(rev(x)), sum(diff(x)^2, na.rm = TRUE)))
  x <- gpu_reader(vectors$doubles, memory = 3 * 8 * 7)
  expect_s3_class(diff(x), "gpu_reader")
  expect_identical(rev(x)[c(2, 5)], rev(vectors$doubles)[c(2, 5)])
  expect_identical(diff(x)[3:9], diff(vectors$doubles)[3:9])
  z <- complex(real = 1:9, imaginary = 9:1)
  expect_identical(collect(rev(gpu_reader(z, memory = 3 * 16 * 2))), rev(z))
  expect_identical(collect(diff(gpu_reader(z, memory = 3 * 16 * 2))), diff(z))
  for (call in alist(diff(x, 0), diff(x, 1, 0), diff(x, 1:2), diff(x, NA))) expect_error(eval(call),
    "'lag' and 'differences' must be integers >= 1", label = deparse1(call))
  for (call in alist(rev(gpu_reader(diag(2))), diff(gpu_reader(mtcars)))) expect_error(eval(call),
    class = "verdigris_error_reader", label = deparse1(call))
})

test_that("diff() of a matrix is by columns, from files too", {
  m <- matrix(round(rnorm(120), 1), 30, dimnames = list(1:30, letters[1:4]))
  path <- withr::local_tempfile()
  writeBin(as.vector(m), path)
  rows <- withr::local_tempfile()
  writeBin(as.vector(t(m)), rows)
  for (memory in c(blocks_of_rows(1, 4), blocks_of_rows(7, 4), 1e6)) for (x in list(gpu_reader(m, memory = memory),
    gpu_reader(path, dim = dim(m), dimnames = dimnames(m), memory = memory), gpu_reader(rows, dim = dim(m),
      dimnames = dimnames(m), memory = memory, byrow = TRUE))) {
    for (lag in c(1, 3, 12)) expect_identical(collect(diff(x, lag)), diff(m, lag))
    expect_identical(collect(diff(x, 2, 2)), diff(m, 2, 2))
    expect_identical(collect(diff(x, 30)), diff(m, 30))
    expect_equal(colMeans(diff(x)), colMeans(diff(m)))
    expect_equal(crossprod(diff(x)), crossprod(diff(m)))
  }
  x <- gpu_reader(path, dim = 120, memory = 3 * 8 * 11)
  expect_identical(collect(rev(x)), rev(as.vector(m)))
  expect_identical(collect(diff(x, 5)), diff(as.vector(m), 5))
})

test_that("duplicated() tells NA from NaN", {
  expect_base(alist(duplicated(x), duplicated(x, fromLast = TRUE), anyDuplicated(x), anyDuplicated(x, fromLast = TRUE)))
  for (call in alist(duplicated(gpu_reader(1), 1), anyDuplicated(gpu_reader(1), 1), duplicated(gpu_reader(1i)),
    duplicated(gpu_reader(diag(2))))) expect_error(eval(call), class = "verdigris_error_reader", label = deparse1(call))
})

test_that("is.unsorted() compares the ends of blocks", {
  expect_base(alist(is.unsorted(x), is.unsorted(x, na.rm = TRUE), is.unsorted(x, strictly = TRUE), is.unsorted(x, TRUE,
    TRUE), is.unsorted(rev(x)), is.unsorted(cumsum(x * 0 + 1), TRUE)))
  for (call in alist(is.unsorted(gpu_reader(1:3), na.rm = NA), is.unsorted(gpu_reader(1:3), strictly = 1)))
    expect_error(eval(call), class = "verdigris_error_argument", label = deparse1(call))
})

test_that("64-bit integers are exact", {
  far <- gpu_cast(as_gpu(c(1:9, NA, 3, 9, NA)), "int64") + gpu_cast(as_gpu(2^60), "int64")
  for (rows in c(2, 1e3)) {
    reader <- function(v) gpu_reader(collect(v), memory = 3 * 8 * rows)
    for (f in list(rev, diff, duplicated, function(x) rev(diff(x, 2)))) expect_identical(collect(f(reader(far))),
      collect(f(far)))
    expect_identical(anyDuplicated(reader(far)), anyDuplicated(far))
    expect_false(is.unsorted(reader(far[1:9]), strictly = TRUE))
    expect_true(is.unsorted(reader(far[c(1:9, 8)])))
    expect_identical(is.unsorted(reader(far)), NA)
    expect_error(mean(reader(far), trim = 0.1), class = "verdigris_error_reader")
  }
})

test_that("trimmed means find what is left out by its ranks", {
  expect_base(alist(mean(x, trim = 0.1), mean(x, trim = 0.1, na.rm = TRUE), mean(x, trim = 0.34, na.rm = TRUE),
    mean(x, trim = 0.499, na.rm = TRUE), mean(x, trim = 0.5, na.rm = TRUE), mean(x, trim = 1), mean(x, trim = 0L,
      na.rm = TRUE), mean(x, trim = -1, na.rm = TRUE)))
  m <- matrix(rnorm(120), 30)
  expect_equal(mean(gpu_reader(m, memory = blocks_of_rows(7, 4)), trim = 0.2), mean(m, trim = 0.2))
  expect_error(mean(gpu_reader(1:3), trim = "a"), "'trim' must be numeric of length one")
  expect_error(mean(gpu_reader(1i), trim = 0.1), "not defined for complex data")
})
