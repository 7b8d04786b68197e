# Vectors that grow by an assignment behind their end.

test_that("a vector that grows keeps its other attributes", {
  for (v in list(1:3, c(a = 1, b = 2), c(TRUE, NA), 1i)) {
    attr(v, "unit") <- "m"
    x <- gpu(v)
    attr(x, "unit") <- "m"
    v[5] <- v[1]
    x[5] <- x[1]
    # The imaginary part of NA is 0 or NA, by the version of R.
    if (is.complex(v)) expect_identical(is.na(collect(x)), is.na(v)) else expect_equal(collect(x), v)
    expect_setequal(names(attributes(collect(x))), names(attributes(v)))
    expect_s3_class(x, "gpu_array")
  }
  v <- stats::na.omit(c(1, NA, 3))
  x <- stats::na.omit(gpu(c(1, NA, 3)))
  v[4] <- 7
  x[4] <- 7
  expect_identical(attributes(collect(x)), attributes(v))
})

test_that("positions that no vector has are refused, and nothing is written", {
  for (n in list(2^61 + 512, 2^62 + 1024, 2^53, 1e300, c(1, 2^61 + 512))) {
    x <- gpu(c(a = 1, b = 2, c = 3))
    expect_error(x[n] <- 1, "vector is too large|cannot allocate|too long", label = format(n))
    if (all(n < 2^63)) expect_error(x[gpu(n)] <- 1, "vector is too large|cannot allocate|too long", label = format(n))
    expect_identical(collect(x), c(a = 1, b = 2, c = 3))
  }
  x <- gpu(1:3)
  expect_error(is.na(x) <- 2^61 + 512)
  expect_error(x[2^62 + 1024] <- 5L)
  expect_identical(collect(x), 1:3)
})

test_that("multiple series of one time have the names that base R gives them", {
  h <- ts(matrix(1:6 + 0, 3, dimnames = list(NULL, c("s", "t"))), start = 2000)
  g <- gpu(h)
  for (call in alist(x + x, x > x, -x, x + 1, x & x)) expect_identical(collect(eval(call, list(x = g))),
    eval(call, list(x = h)), label = deparse1(call))
})
