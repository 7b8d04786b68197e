# A second package that knows only inst/include/verdigris.h of this one (tests/testthat/exchanger).

test_that("another package's memory becomes an array, and is deleted once", {
  e <- exchanger()
  e$deleted()
  for (versioned in c(TRUE, FALSE)) {
    x <- e$give(2L, 3L, versioned)
    expect_true(is_gpu(x))
    expect_identical(gpu_device(x), "cpu")
    expect_identical(collect(x), matrix(as.numeric(0:5), 2, byrow = TRUE))
    y <- x
    dim(y) <- 3:2 # another array on the same memory
    rm(x)
    collect_garbage()
    expect_identical(e$deleted(), 0L)
    expect_identical(collect(y + 1), matrix(c(1, 4, 2, 5, 3, 6), 3))
    rm(y)
    collect_garbage()
    expect_identical(e$deleted(), 1L)
  }
  copied <- e$give(2L, 2L, copy = 1L)
  expect_identical(e$deleted(), 1L)
  expect_identical(collect(copied), matrix(c(0, 2, 1, 3), 2))
  expect_identical(dim(e$give(0L, 3L)), c(0L, 3L))
})

test_that("it reads arrays and vectors where they lie, and writes where it may", {
  e <- exchanger()
  m <- matrix(as.numeric(1:12), 3)
  x <- as_gpu(m, device = "cpu")
  for (versioned in c(TRUE, FALSE)) {
    expect_identical(e$sums(x, versioned), 78)
    expect_identical(e$sums(t(x)[2:4, ], versioned), sum(t(m)[2:4, ]))
    expect_identical(e$sums(rev(x), versioned), 78)
    expect_identical(e$sums(m, versioned), 78)
    expect_identical(e$sums(x * 2, versioned), 156)
    expect_identical(e$sums(as_gpu(numeric(), device = "cpu"), versioned), 0)
  }
  recorded <- x + 1
  y <- x
  e$double_it(x)
  expect_identical(collect(x), 2 * m)
  expect_identical(collect(y), 2 * m) # another name of the same object
  expect_identical(collect(recorded), m + 1)
  expect_error(e$double_it(m), class = "verdigris_error_argument")
  expect_error(e$double_it(gpu_as_strided(x, c(4, 3), c(2, 1))), class = "verdigris_error_shape")
  expect_identical(m, matrix(as.numeric(1:12), 3))
})

test_that("what fails is told, and raised where the caller wants", {
  e <- exchanger()
  expect_error(e$sums("a"), class = "verdigris_error_argument")
  expect_error(e$sums(as_gpu(c(TRUE, NA), device = "cpu")), class = "verdigris_error_dtype")
  told <- e$raise_twice()
  expect_match(told[[1]], "expected an array, got NULL", fixed = TRUE)
  expect_identical(told[[2]], "")
  expect_identical(collect(gpu(1) + 1), 2) # nothing is left behind
  expect_error(e$takes(as_dlpack(1), versioned = FALSE), class = "verdigris_error_argument")
  capsule <- as_dlpack(c(1, 2))
  expect_true(e$takes(capsule))
  expect_error(e$takes(capsule), class = "verdigris_error_consumed")
  expect_identical(collect(from_dlpack(e$through_capsule(c(1, 2)))), c(1, 2))
})

test_that("a vector is kept, and not written to, while someone reads it", {
  e <- exchanger()
  x <- c(1, 2, 3) + 0
  capsule <- as_dlpack(x)
  x[2] <- 20
  y <- from_dlpack(capsule)
  expect_identical(collect(y), c(1, 2, 3))
  rm(x, capsule)
  collect_garbage()
  invisible(lapply(1:50, function(k) rnorm(3)))
  expect_identical(collect(y), c(1, 2, 3))
  expect_error(gpu_compute(y * 2, out = y), NA) # read-only: new memory
  expect_identical(collect(y), c(2, 4, 6))
  # a vector that R makes of nothing, as it is needed
  expect_identical(e$sums(as.numeric(1:10)), 55)
  expect_identical(collect(from_dlpack(as_dlpack(1:10))), 1:10)
  big <- bit64::as.integer64(2^53) + 1:2
  expect_identical(gpu_dtype(from_dlpack(as_dlpack(big))), "int64")
  expect_identical(collect(from_dlpack(as_dlpack(as.raw(c(0, 255))))), c(0L, 255L))
  expect_identical(collect(from_dlpack(as_dlpack(c(1i, 2)))), c(1i, 2))
  expect_identical(collect(from_dlpack(as_dlpack(c(TRUE, FALSE)))), c(TRUE, FALSE))
  expect_error(as_dlpack(c(TRUE, NA)), class = "verdigris_error_dtype")
  expect_error(as_dlpack(1, writable = TRUE), class = "verdigris_error_argument")
  for (bad in list("a", NULL, list(1), factor(1), Sys.Date(), mean, quote(x))) {
    expect_error(as_dlpack(bad), class = "verdigris_error_argument")
  }
})

test_that("many exchanges: each deleter once, nothing left", {
  e <- exchanger()
  collect_garbage()
  e$deleted()
  live <- gpu_memory("cpu")[["live"]]
  for (k in 1:200) { # 1e5 in all, 500 at a time through one another
    x <- e$take_back(e$give(2L, 2L, versioned = k %% 2 == 0), 500L)
    expect_identical(collect(x), matrix(c(0, 2, 1, 3), 2))
  }
  rm(x)
  collect_garbage()
  expect_identical(e$deleted(), 200L)
  expect_lte(gpu_memory("cpu")[["live"]], live)
})
