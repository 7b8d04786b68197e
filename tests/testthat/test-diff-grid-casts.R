# The differential grid: casts between every pair of dtypes, against R's as.* and independent rounding.

dtypes <- c("bool8", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
  "complex64", "complex128")

# Round to nearest even with `bits` of significand and exponents from `least` to `most`.
rounded <- function(x, bits, least, most) {
  finite <- is.finite(x) & x != 0
  e <- floor(log2(abs(x[finite])))
  e <- e + (abs(x[finite]) >= 2^(e + 1)) - (abs(x[finite]) < 2^e)
  unit <- 2^(pmax(e, least) - bits + 1)
  y <- round(x[finite] / unit) * unit
  x[finite] <- ifelse(abs(y) >= 2^(most + 1), sign(y) * Inf, y)
  x
}
as_float <- function(x, dtype) {
  switch(dtype, float64 = x, float32 = readBin(writeBin(x, raw(), size = 4L), "double", length(x), size = 4L),
         float16 = rounded(x, 11L, -14L, 15L), bfloat16 = rounded(x, 8L, -126L, 127L))
}
as_small <- function(x, limit) {
  x <- suppressWarnings(as.integer(x))
  replace(x, !is.na(x) & abs(x) > limit, NA)
}
as_byte <- function(x) {
  x <- if (inherits(x, "integer64")) as.double(x) else if (is.complex(x)) suppressWarnings(as.double(x)) else
    as.double(x)
  out <- !is.na(x) & x > -1 & x < 256
  as.integer(ifelse(out, trunc(x), 0))
}
as_int64 <- function(x) {
  if (is.complex(x)) x <- suppressWarnings(as.double(x))
  if (is.double(x) && !inherits(x, "integer64")) x <- replace(x, !is.na(x) & abs(x) >= 2^63, NA)
  suppressWarnings(bit64::as.integer64(x))
}
# what R says a value of dtype `from` is as `to`
converted <- function(x, to) {
  real <- function(x) suppressWarnings(as.double(x))
  switch(to,
    bool8 = as.logical(x),
    int8 = as_small(if (is.complex(x)) real(x) else x, 127), int16 = as_small(if (is.complex(x)) real(x) else x, 32767),
    int32 = as_small(if (is.complex(x)) real(x) else x, .Machine$integer.max),
    uint8 = as_byte(x), int64 = as_int64(x),
    complex128 = as.complex(if (inherits(x, "integer64")) as.double(x) else x),
    complex64 = {
      z <- as.complex(if (inherits(x, "integer64")) as.double(x) else x)
      complex(real = as_float(Re(z), "float32"), imaginary = as_float(Im(z), "float32"))
    },
    as_float(real(x), to))
}

sources <- list(
  logical = c(NA, TRUE, FALSE),
  integer = c(0L, 1L, -1L, 100L, 127L, -127L, 128L, 255L, 256L, 32767L, 32768L, -32768L, 65536L, .Machine$integer.max,
    -.Machine$integer.max, 16777217L, NA),
  integer64 = bit64::as.integer64(c("0", "1", "-7", "127", "128", "255", "256", "32768", "2147483647", "2147483648",
    "-2147483648", "9007199254740991", NA)),
  double = c(0, -0, 1, -1, 0.5, -0.9, 1.5, 127.9, -127.9, 128, 255.9, 256, -1e-9, 2049, 2051, 65504, 65519, 65520, 1e-8,
    6e-8, 1e-40, 3.4e38, 1e39, -1e300,
             2^31 - 1, 2^31, -2^31, 2^53, 2^62, 1 + 2^-11, 1 + 2^-11 + 2^-40, 1 + 3 * 2^-11, 1 + 2^-8, 1 + 2^-8 + 2^-30,
               5e-324, pi, Inf, -Inf, NaN, NA),
  complex = c(0i, 1+0i, -2.5+0i, 300+0i, 3+4i, complex(real = NA, imaginary = 1), complex(real = Inf, imaginary = 0),
    1e39+0i))

test_that("casts between all pairs of dtypes follow R's as.* functions", {
  found <- list()
  for (from in dtypes) {
    x <- suppressWarnings(gpu(sources[[kind_of(from)]], from))
    stored <- collect(x)
    for (to in dtypes) {
      cases$n <- cases$n + 1L
      got <- outcome(gpu_cast(x, to))
      want <- converted(stored, to)
      said <- difference(got$value, want, payload = to == "float64" && from %in% c("bool8", "int32", "float64"))
      if (!is.null(said)) found <- c(found, sprintf("%s to %s: %s", from, to, said))
    }
  }
  expect_all_same(found)
})

test_that("casts warn as R's as.* functions do", {
  said <- function(x, to) outcome(gpu_cast(gpu(x), to))$warnings
  expect_identical(said(3e9, "int32"), "NAs introduced by coercion to integer range")
  expect_identical(said(c(1, NaN, NA), "int32"), character())
  expect_identical(said(200L, "int8"), "NAs introduced by coercion to integer range")
  expect_identical(said(1+1i, "float64"), "imaginary parts discarded in coercion")
  expect_identical(said(1+0i, "float64"), character())
  expect_identical(said(c(-1L, 300L, NA), "uint8"), "out-of-range values treated as 0 in coercion to raw")
  expect_identical(outcome(gpu(3e9, "int32"))$warnings, "NAs introduced by coercion to integer range")
})

test_that("casts keep the shape, in every layout", {
  found <- list()
  for (to in c("float32", "int32", "bool8", "complex128")) for (x in layouts("double")) {
    cases$n <- cases$n + 1L
    want <- x
    suppressWarnings(storage.mode(want) <- switch(to, float32 = "double", int32 = "integer", bool8 = "logical",
      complex128 = "complex"))
    if (to == "float32") want[] <- as_float(as.vector(x), "float32")
    got <- outcome(gpu_cast(gpu(x), to))$value
    said <- difference(got, want, payload = FALSE)
    found <- c(found, if (!is.null(said)) paste(to, said))
    if (is.matrix(x)) {
      said <- difference(outcome(gpu_cast(t(gpu(x)), to))$value, t(want), payload = FALSE)
      found <- c(found, if (!is.null(said)) paste("t()", to, said))
    }
  }
  expect_all_same(found)
})

test_that("the casts are as many as they were", {
  expect_cases(144L)
})
