# Lazy cells: a recorded operation is in R's heap until something needs its values (lazy.rs). It keeps the values of its
# operands at that time, whatever happens to them, and costs R's gc no finalizer.

handles <- function() alive()[["handles"]]

test_that("what is recorded makes no handle, what is computed makes one", {
  x <- gpu(c(1, 2, 3))
  before <- handles()
  y <- (x + 1) * 2 - x
  z <- sqrt(y) > 1
  expect_lte(handles(), before)
  expect_identical(length(z), 3L)
  expect_lte(handles(), before)
  gpu_compute(y)
  expect_lte(handles(), before + 1)
  expect_identical(as.vector(y), c(3, 4, 5))
  expect_identical(as.vector(z), c(TRUE, TRUE, TRUE))
})

test_that("a reduction of what is recorded leaves it recorded", {
  x <- gpu(c(1, 2, 3))
  y <- x * 2
  before <- handles()
  expect_equal(sum(y), 12)
  expect_equal(max(y), 6)
  expect_lte(handles(), before)
})

test_that("an operand that gets other values leaves the old ones to what was recorded on it", {
  state <- gpu(c(1, 2, 3))
  y <- state + 1
  z <- y * state
  gpu_compute(state * 10, out = state)
  w <- state + 1
  expect_identical(as.vector(y), c(2, 3, 4))
  expect_identical(as.vector(z), c(2, 6, 12))
  expect_identical(as.vector(w), c(11, 21, 31))
  gpu_compute(state * 10, out = state)
  expect_identical(as.vector(w), c(11, 21, 31))
  expect_identical(as.vector(state), c(100, 200, 300))
})

test_that("a recorded operand that is computed and then gets other values is kept too", {
  x <- gpu(c(1, 2, 3))
  y <- x + 1
  z <- y * 2
  gpu_compute(y)
  gpu_compute(y * 0, out = y)
  expect_identical(as.vector(z), c(4, 6, 8))
  expect_identical(as.vector(y), c(0, 0, 0))
  a <- x + 1
  b <- a * 2
  gpu_compute(a * 0, out = a)
  expect_identical(as.vector(b), c(4, 6, 8))
})

test_that("gpu_free() takes an operand's elements, not those of what was recorded", {
  x <- gpu(c(1, 2, 3))
  y <- x + 1
  gpu_free(x)
  expect_identical(as.vector(y), c(2, 3, 4))
  expect_error(x + 1, class = "verdigris_error_consumed")
  x <- gpu(rep(1, 4e5))
  as.vector((x + 1)[1:2])
  held <- alive()[["device"]]
  gpu_free(x)
  expect_lte(alive()[["device"]], held - 3.2e6)
})

test_that("a host write to an operand comes after what was recorded before", {
  withr::local_options(verdigris.host_access = "allow")
  x <- gpu(c(1, 2, 3))
  y <- x + 1
  # what C code does that asks for a place to write
  base::colSums(matrix(x, 1))
  x[2] <- 20
  expect_identical(as.vector(y), c(2, 3, 4))
  expect_identical(as.vector(x + 1), c(2, 21, 4))
})

test_that("what is used twice is computed once", {
  x <- gpu(c(0.5, 1, 2))
  y <- x
  # 60 doublings, were each use computed by itself
  for (k in 1:60) y <- (y + y) * 0.5
  expect_identical(as.vector(y), c(0.5, 1, 2))
  costly <- exp(sqrt(abs(sin(cos(tan(log(exp(sqrt(x + 1)))))))))
  launches <- function(code) {
    before <- .Call(verdigris:::C_counters)[[1]]
    force(code)
    .Call(verdigris:::C_counters)[[1]] - before
  }
  expect_equal(launches(gpu_compute(costly + 1)), 1)
  second <- costly + 2
  expect_equal(launches(gpu_compute(second)), 1)
  expect_identical(gpu_explain(costly)$kernels, list())
})

test_that("numbers, types and warnings are those of the recording", {
  x <- gpu(c(4L, 9L, NA))
  expect_identical(as.vector(x + 1L), c(5L, 10L, NA))
  expect_identical(as.vector(x * 0.5), c(2, 4.5, NA))
  expect_identical(as.vector(x > TRUE), c(TRUE, TRUE, NA))
  expect_identical(as.vector(!(x > 5L) | FALSE), c(TRUE, FALSE, NA))
  half <- gpu(c(1, 2, 3), "float32")
  expect_identical(gpu_dtype(half * 2), "float32")
  expect_identical(gpu_dtype(half + gpu(c(1, 2, 3))), "float64")
  y <- sqrt(x - 5)
  z <- y + 1
  warned <- expect_warning(as.vector(z), "NaNs produced")
  expect_identical(deparse(conditionCall(warned)), "sqrt(x - 5)")
  y <- gpu(.Machine$integer.max) + 1L
  expect_warning(as.vector(y), "NAs produced by integer overflow")
  expect_warning(as.vector(gpu(c(1L, .Machine$integer.max)) + 1L), "NAs produced by integer overflow")
})

test_that("a chain without end is computed now and then, and is right", {
  x <- gpu(c(1, 2))
  for (k in 1:1000) x <- x * 0.5 + 1
  expect_equal(as.vector(x), c(2, 2))
  x <- gpu(c(1, 2))
  y <- gpu(c(1, 1))
  for (k in 1:100) y <- y * x / x + x - x
  expect_equal(as.vector(y), c(1, 1))
})

test_that("recorded vectors are copied, wrapped, saved and shown as others", {
  x <- gpu(c(1, 2, 3))
  y <- x + 1
  z <- y
  attr(z, "note") <- "a copy"
  expect_identical(as.vector(z * 1), c(2, 3, 4))
  expect_identical(as.vector(y), c(2, 3, 4))
  w <- structure(x * 2, extra = 1)
  expect_identical(as.vector(w + 0), c(2, 4, 6))
  expect_identical(unserialize(serialize(as.vector(x * 3), NULL)), c(3, 6, 9))
  expect_identical(as.vector(unserialize(serialize(x * 3, NULL))), c(3, 6, 9))
  expect_output(.Internal(inspect(x * 4)), "1 operations recorded")
})

test_that("gctorture finds nothing unprotected in recording", {
  skip_on_cran()
  x <- gpu(c(1, 2, 3))
  gctorture(TRUE)
  on.exit(gctorture(FALSE))
  y <- sqrt((x + 1) * x)
  z <- y + y
  s <- sum(z)
  gpu_compute(z)
  w <- z - y
  gpu_compute(w, out = z)
  u <- as.vector(w)
  gctorture(FALSE)
  expect_equal(u, sqrt(c(2, 6, 12)))
  expect_equal(s, 2 * sum(sqrt(c(2, 6, 12))))
  expect_equal(as.vector(z), u)
})

test_that("single elements, and what is computed of them, are base R's", {
  hosts <- list(c(1.5, NA, NaN, -0, 3, Inf), c(1L, NA, -3L, .Machine$integer.max), c(TRUE, NA, FALSE))
  calls <- list(function(x, k) x[k], function(x, k) x[k] + 1, function(x, k) x[k] * x[1L], function(x, k) x[k] > 1,
    function(x, k) x[k] == x[k], function(x, k) -x[k], function(x, k) x[k] + 1L, function(x, k) x[k] %/% 2L,
    function(x, k) sqrt(abs(x[k])), function(x, k) !x[k], function(x, k) x[k] & TRUE, function(x, k) x[k] / 0L,
    function(x, k) x[1] * x, function(x, k) c(x[k], x[k]), function(x, k) sum(x[k]), function(x, k) sqrt(x[k] - 2),
    function(x, k) matrix(x, 1)[1, k], function(x, k) x[k]^2 - x[k], function(x, k) if (isTRUE(as.vector(x[k] > 1))) 1,
    function(x, k) {
      y <- x
      y[1] <- x[k] * x[k]
      y[k] <- y[1]
      list(x, y, y[k])
    }, function(x, k) {
      y <- x[k]
      y[1] <- x[1]
      list(x[k], y, identical(x[k], x[k]), length(y), rep(y, 2), unserialize(serialize(x[k], NULL)))
    })
  found <- list()
  for (host in hosts) for (k in seq_along(host)) for (f in seq_along(calls))
    found <- c(found, compare(function(x) calls[[f]](x, k), list(host), what = paste(typeof(host), k, f)))
  expect_all_same(found)
  narrow <- gpu(c(0.1, 2), "float32")
  expect_identical(gpu_dtype(narrow[1] * 3), "float32")
  expect_identical(as.vector(narrow[1] * 3), as.vector((narrow * 3)[1]))
  wide <- gpu(c(0.1, 2))
  narrow[1] <- wide[1]
  expect_identical(gpu_dtype(narrow), gpu_dtype({
    other <- gpu(c(0.1, 2), "float32")
    other[1] <- wide[c(1, 1)][-1]
    other
  }))
  expect_warning(as.vector(sqrt(wide[1] - 1)), "NaNs produced")
  expect_warning(as.vector(gpu(.Machine$integer.max)[1] + gpu(1L)[1]), "integer overflow")
})

test_that("operators of single elements agree with base R", {
  numbers <- list(c(-2L, 0L, 1L, 5L, 256L, NA, 46341L), c(TRUE, FALSE, NA), c(-2, 0, 1, 0.5, NA, NaN, Inf))
  binary <- c("+", "-", "*", "/", "^", "%%", "%/%", "<", "<=", "==", "!=", ">", ">=", "&", "|", "xor")
  unary <- c("-", "+", "!", "abs", "sign", "floor", "is.na", "as.logical", "as.integer")
  found <- list()
  for (x in numbers) for (k in seq_along(x)) {
    for (f in unary) found <- c(found, compare(function(x) get(f)(x[k]), list(x), what = paste(f, x[k])))
    for (y in numbers) for (j in seq_along(y)) for (f in binary) {
      what <- paste(typeof(x), x[k], f, typeof(y), y[j])
      found <- c(found, compare(function(x, y) get(f)(x[k], y[j]), list(x, y), ulp = 2, what = what))
    }
    for (y in list(TRUE, FALSE, NA, 3L, 0)) for (f in c("&", "|", "xor")) {
      what <- paste(f, x[k], y)
      found <- c(found, compare(function(x) c(get(f)(x[k], y), get(f)(y, x[k])), list(x), what = what))
    }
  }
  expect_all_same(found)
})
