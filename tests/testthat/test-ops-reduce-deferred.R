# Deferred scalars: results of reductions that are not computed yet. The cpu device computes at once; C_defer makes it
# defer.

deferring <- function(code, env = parent.frame()) {
  before <- .Call(C_defer, TRUE)
  on.exit(.Call(C_defer, before))
  force(code)
}

shown <- function(x) paste(utils::capture.output(.Internal(inspect(x))), collapse = "\n")
is_pending <- function(x) grepl("an ordinary vector", shown(x)) && !grepl("host copy", shown(x))

host <- c(1, 2, 3.5, -7)

test_that("a reduction gives a number that is not read yet, and base R's value", {
  x <- gpu(host)
  for (f in c("sum", "prod", "mean", "min", "max", "var", "sd")) {
    s <- deferring(match.fun(f)(x))
    expect_true(is_pending(s), label = f)
    expect_false(is_gpu(s))
    expect_null(attributes(s))
    expect_equal(s, match.fun(f)(host), tolerance = 1e-15, label = f)
    expect_false(is_pending(s))
  }
})

test_that("integers and float32 keep the type that base R gives", {
  i <- gpu(c(3L, 1L, 2L))
  expect_identical(deferring(max(i)) + 0L, 3L)
  expect_type(deferring(min(i)), "integer")
  expect_identical(deferring(mean(i)) + 0, 2)
  f <- gpu(host, dtype = "float32")
  expect_identical(deferring(max(f)) + 0, 3.5)
})

test_that("what may warn, and what depends on the elements, is not deferred", {
  x <- gpu(numeric())
  expect_warning(expect_identical(deferring(max(x)), -Inf), "no non-missing arguments to max")
  i <- gpu(c(.Machine$integer.max, 1L))
  expect_identical(deferring(sum(i)), sum(i))
  expect_false(is_pending(deferring(range(gpu(host)))))
})

test_that("operators take it as it is, without reading it", {
  x <- gpu(host)
  m <- deferring(mean(x))
  s <- deferring(sd(x))
  z <- (x - m) / s
  expect_true(is_pending(m))
  expect_true(is_pending(s))
  expect_equal(as.vector(z), (host - mean(host)) / sd(host), tolerance = 1e-15)
  expect_true(is_pending(m))
  expect_identical(as.vector(m * x), mean(host) * host)
  # it adopts the array's type, as any number does
  f <- gpu(host, dtype = "float32")
  expect_identical(gpu_dtype(f * m), "float32")
  expect_identical(gpu_dtype(gpu(1:4) - deferring(max(gpu(1:4)))), "int32")
})

test_that("R sees a plain number", {
  x <- gpu(host)
  s <- function() deferring(sum(x))
  expect_identical(s(), sum(host))
  expect_identical(c(s(), 1), c(sum(host), 1))
  expect_identical(sqrt(abs(s())), sqrt(abs(sum(host))))
  expect_output(print(s()), "[1] -0.5", fixed = TRUE)
  expect_true(if (s() < 0) TRUE else FALSE)
  expect_identical(unserialize(serialize(s(), NULL)), sum(host))
  f <- gpu(host, dtype = "float32")
  expect_null(attributes(unserialize(serialize(deferring(max(f)), NULL))))
  expect_identical(vapply(1:3, function(k) s(), 0), rep(sum(host), 3))
  expect_identical(rev(sort(c(s(), 3))), c(3, sum(host)))
  expect_identical(as.integer(s()), 0L)
  expect_identical(matrix(1, 2, 2) * s(), matrix(sum(host), 2, 2))
  expect_identical(is.na(s()), FALSE)
})

test_that("copies are each their own", {
  x <- gpu(host)
  s <- deferring(sum(x))
  named <- s
  names(named) <- "total"
  expect_null(names(s))
  expect_identical(named, c(total = sum(host)))
  written <- s
  written[1] <- 9
  expect_identical(s, sum(host))
  expect_identical(written, 9)
  expect_identical(as.vector(x * written), host * 9)
  longer <- deferring(sum(x))
  longer[3] <- 1
  expect_identical(longer, c(sum(host), NA, 1))
  read <- deferring(sum(x))
  expect_lt(read, 0)
  again <- read
  attr(again, "unit") <- "m"
  expect_identical(as.vector(again), sum(host))
  expect_identical(as.vector(x + read), host + sum(host))
})

test_that("a warning of what was recorded comes when the number is looked at, or before", {
  x <- gpu(c(1, -1))
  expect_warning(expect_true(is.nan(deferring(sum(sqrt(x))) + 0)), "NaNs produced")
})
