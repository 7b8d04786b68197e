# Base R's functions that read or mark arrays: the same values as base R, in arrays where they are numbers.

test_that("transforms and cumulative functions agree with base R, and give arrays", {
  found <- list()
  m <- matrix(c(3, 1, 2, 5, 4, 7), 2)
  for (x in list(c(3, 1, 2, 7), 1:5, c(TRUE, FALSE, TRUE), c(a = 1, b = 2), m, c(1 + 2i, -1i), double())) {
    for (f in list(fft, function(v) fft(v, inverse = TRUE), function(v) embed(v, 2))) {
      if (length(x)) found <- c(found, compare(f, list(x), ulp = 4, what = deparse1(f)))
    }
    for (f in list(cumsum, cumprod)) found <- c(found, compare(f, list(x), what = deparse1(f)))
    if (!is.complex(x)) for (f in list(cummax, cummin)) found <- c(found, compare(f, list(x), what = deparse1(f)))
  }
  found <- c(found, compare(mvfft, list(m), ulp = 4, what = "mvfft"),
    compare(cumsum, list(c(.Machine$integer.max, 1L)), what = "integer overflow"), compare(cumsum, list(c(1, NA, 2)),
      what = "NA"))
  expect_all_same(found)
  for (y in list(fft(gpu(1:4)), cumsum(gpu(1:4)))) expect_true(.Call(verdigris:::C_is_array, y))
  expect_identical(gpu_dtype(fft(gpu(c(1, 2), "float32"))), "complex64")
  expect_identical(gpu_dtype(cumsum(gpu(c(1, 2), "float32"))), "float32")
  expect_identical(gpu_dtype(cumsum(gpu(1:2, "int8"))), "int32")
})

test_that("what C code of base R gives the class is right, shown as ordinary, and an array after as_gpu()", {
  x <- gpu(c(a = 1, b = 2, c = NA))
  for (f in list(function(v) stats::dhyper(v, 5, 3, 4), function(v) stats::psignrank(v, 5),
    function(v) stats::qhyper(v / 4, 5, 3, 4), function(v) stats::dwilcox(v, 3, 4))) {
    want <- f(collect(x))
    got <- f(x)
    expect_output(print(got), "in ordinary memory")
    expect_identical(collect(got), want)
    expect_identical(collect(got * 2), want * 2)
    got <- as_gpu(got)
    expect_true(.Call(verdigris:::C_is_array, got))
    expect_identical(collect(got), want)
  }
})

test_that("rank, order, sort.list and xtfrm compare no pairs", {
  set.seed(3)
  x <- round(rnorm(5e4), 2)
  x[7] <- NA
  trace_of <- function(code) {
    calls <- 0
    suppressMessages(trace(".gt", tracer = function() calls <<- calls + 1, where = baseenv(), print = FALSE))
    on.exit(suppressMessages(untrace(".gt", where = baseenv())))
    force(code)
    calls
  }
  expect_identical(trace_of(rank(gpu(x))), 0)
  expect_identical(trace_of(order(gpu(c(2i, 1, 3)))), 0)
  found <- list()
  for (method in c("average", "first", "last", "max", "min")) for (na.last in list(TRUE, FALSE, NA, "keep")) {
    found <- c(found, compare(function(v) rank(v, na.last = na.last, ties.method = method),
      list(c(a = 3, b = 1, c = NA, d = 3, e = NaN)), what = paste("rank", method, na.last)))
  }
  for (v in list(x, c(3L, NA, 1L), c(TRUE, FALSE), c(2i, 1, NA), double(), matrix(c(2, 1, 4, 3), 2), c(b = 2, a = 1))) {
    found <- c(found, compare(rank, list(v), what = "rank"), compare(order, list(v), what = "order"),
      compare(sort.list, list(v), what = "sort.list"),
      compare(function(v) order(v, decreasing = TRUE), list(v), what = "decreasing"),
        compare(function(v) order(-seq_along(v) %/% 2, v), list(v), what = "two keys"))
  }
  expect_all_same(found)
})

test_that("int64 arrays are ranked beyond what doubles hold", {
  skip_if_not_installed("bit64")
  x <- gpu(bit64::as.integer64(c("9007199254740993", "9007199254740992", NA, "9007199254740993")))
  expect_identical(collect(rank(x)), c(2.5, 1, 4, 2.5))
  expect_identical(base::order(x), c(2L, 1L, 4L, 3L))
})

test_that("det, determinant, isSymmetric and rle agree with base R", {
  m <- matrix(c(2, 1, 1, 3), 2)
  found <- list()
  for (f in list(det, determinant, isSymmetric)) found <- c(found, compare(f, list(m), what = deparse1(f)))
  found <- c(found, compare(det, list(matrix(1:6, 2)), what = "not square"))
  for (v in list(c(1, 1, 2), c(1L, NA, NA), c(TRUE, TRUE), double(), c(a = 1, b = 1))) {
    found <- c(found, compare(rle, list(v), what = "rle"), compare(function(v) inverse.rle(rle(v)), list(v),
      what = "inverse.rle"))
  }
  expect_all_same(found)
})

test_that("an ordinary vector of the class shows itself, and as_gpu() uploads it once", {
  x <- unserialize(serialize(gpu(c(1, 2), "float32"), NULL))
  expect_output(print(x), "<gpu_array float32 [2] in ordinary memory: as_gpu() moves it to", fixed = TRUE)
  expect_output(str(x), "in ordinary memory")
  expect_identical(as.vector(x * 2), c(2, 4))
  expect_false(.Call(verdigris:::C_is_array, x))
  x <- as_gpu(x)
  expect_output(print(x), sprintf("<gpu_array float32 [2] on %s>", gpu_device(x)), fixed = TRUE)
  # C code of base R that copies all attributes
  y <- gpu(c(1, 2))
  y <- base::`storage.mode<-`(y, "integer")
  expect_output(print(y), "int32 [2] in ordinary memory", fixed = TRUE)
  expect_identical(as.vector(y + 1L), c(2L, 3L))
})

test_that("int64 arrays reach base R as numbers, not as the bits of an integer64", {
  x <- gpu(matrix(c(1, 0, 1, 1), 2), "int64")
  expect_identical(collect(x %*% x), matrix(c(1, 0, 2, 1), 2))
  expect_equal(collect(fft(gpu(c(1, 2), "int64"))), c(3+0i, -1+0i))
  expect_identical(det(x), 1)
  expect_identical(c(summary(gpu(c(1, 2, 4), "int64")))[["Median"]], 2)
  expect_identical(as.character(gpu(c(3, NA), "int64")), c("3", NA))
  skip_if_not_installed("bit64")
  big <- bit64::as.integer64("9007199254740993")
  expect_identical(collect(cumsum(gpu(c(big, big)))), cumsum(c(big, big)))
  expect_identical(as.character(gpu(big)), "9007199254740993")
  expect_output(print(gpu(c(big, NA))), "9007199254740993 +NA")
  expect_identical(format(gpu(big)), "9007199254740993")
  expect_identical(collect(unique(gpu(c(big, big)))), big)
})

test_that("what base R has computed is not copied to the cpu device, and no write to one shows in the other", {
  skip_if(test_device != "cpu")
  sent <- function() .Call(verdigris:::C_counters)[[2L]]
  v <- runif(5000)
  before <- sent()
  x <- .Call(verdigris:::C_result, v, NULL, "cpu")
  expect_identical(sent(), before)
  first <- v[1L]
  v[1L] <- 2
  expect_identical(as.vector(x[1L]), first)
  y <- x
  y[2L] <- 3
  expect_true(v[2L] < 1 && as.vector(x[2L]) < 1)
  sum <- sum(x)
  rm(v, y)
  for (k in 1:3) gc()
  expect_identical(sum(x), sum)
  # somebody else holds it: copied
  v <- runif(5000)
  w <- v
  before <- sent()
  x <- .Call(verdigris:::C_result, v, NULL, "cpu")
  expect_identical(sent() - before, 40000)
  w[1L] <- 2
  expect_identical(as.vector(x), v)
  m <- matrix(runif(4e4), 200, dimnames = list(NULL, paste(1:200)))
  expect_identical(collect(.Call(verdigris:::C_result, m, NULL, "cpu")), m)
})

test_that("writeBin() writes what it writes of an ordinary vector, and refuses what it refuses", {
  for (x in list(c(1.5, NA, -Inf), c(2L, NA, -7L), c(TRUE, NA, FALSE), c(1 + 2i, NA), numeric())) {
    expect_identical(writeBin(gpu(x), raw()), base::writeBin(x, raw()))
    if (is.integer(x)) expect_identical(writeBin(gpu(x), raw(), 2L, "big"), base::writeBin(x, raw(), 2L, "big"))
  }
  file <- withr::local_tempfile()
  con <- base::file(file, "wb")
  expect_identical(withVisible(writeBin(gpu(c(1, 2)), con, size = 4L)), list(value = NULL, visible = FALSE))
  close(con)
  expect_identical(readBin(file, "double", 3L, 4L), c(1, 2))
  expect_error(writeBin(gpu(matrix(1:4, 2L)), raw()), "can only write vector objects", class = "simpleError")
  expect_identical(conditionCall(tryCatch(writeBin(gpu(c(a = 1)), 3), error = identity))[[1L]], quote(writeBin))
})

test_that("what C code of R computes in a copy of int64 elements keeps its fractions", {
  x <- c(1, 2, 3, 5)
  y <- c(3, 5, 8, 9)
  wide <- gpu(y, "int64")
  expect_equal(unname(collect(residuals(lm(wide ~ x)))), unname(residuals(lm(y ~ x))), tolerance = 1e-12)
  expect_equal(summary(lm(wide ~ x))$coefficients, summary(lm(y ~ x))$coefficients, tolerance = 1e-12)
  par <- optim(gpu(c(1, 2), "int64"), function(p) sum((p - 0.3)^2), method = "BFGS")$par
  expect_identical(gpu_dtype(par), "float64")
  expect_equal(collect(par), c(0.3, 0.3), tolerance = 1e-4)
  expect_output(print(par), "0.3")
  expect_identical(gpu_dtype(wide), "int64")
  d <- data.frame(g = c(1, 1, 2, 2), y = wide)
  for (f in list(mean, median))
    expect_equal(aggregate(d["y"], list(g = d$g), f), data.frame(g = c(1, 2), y = c(4, 8.5)))
})

test_that("text with an array's attributes prints as text", {
  text <- format(c(0.5, 0.25))
  attributes(text) <- attributes(gpu(c(0.5, 0.25)))
  setTimeLimit(elapsed = 60)
  withr::defer(setTimeLimit())
  expect_output(print(text), "\"0.50\" \"0.25\"", fixed = TRUE)
  expect_output(print(list(text)), "0.50")
  expect_identical(format(text), c("0.50", "0.25"))
  # an error in a method that print() has called from C
  freed <- gpu(c(1, 2))
  wrong <- structure(list(), class = c("gpu_numeric", "gpu_array"))
  expect_output(print(list(wrong)), "list()")
})

test_that("functions of several operands find the array in any of them, and warn as base R does", {
  x <- gpu(c(1, 2))
  for (f in list(choose, lchoose, beta, lbeta, atan2)) {
    expect_true(.Call(verdigris:::C_is_array, f(5, x)))
    expect_true(.Call(verdigris:::C_is_array, f(5, x + 0)))
    expect_identical(collect(f(5, x + 0)), f(5, c(1, 2)))
  }
  for (f in list(choose, lchoose)) {
    expect_warning(expect_identical(collect(f(5, gpu(c(0.5, 1)))), suppressWarnings(f(5, c(0.5, 1)))), "rounded to 0")
    expect_warning(f(gpu(c(5, 6)), c(0.5, 1)), "rounded to 0")
    expect_warning(f(gpu(c(5, 6)), c(1, 2)), NA)
  }
  a <- array(0, gpu(c(1, 2)))
  expect_identical(dim(a), 1:2)
})
