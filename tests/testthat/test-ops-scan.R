# Running sums, products and extremes against base R.

scans <- list(cumsum = cumsum, cumprod = cumprod, cummax = cummax, cummin = cummin)
exact <- c("cummax", "cummin")

# Base R adds in 80 bits, which may round otherwise than more do: one unit in the last place.
agree <- function(name, x, dtype = NULL, tolerance = 0) {
  want <- outcome(scans[[name]](x))
  got <- outcome(scans[[name]](gpu(x, dtype)))
  info <- paste(name, typeof(x), length(x), dtype)
  expect_identical(got$warnings, want$warnings, info = info)
  if (inherits(want$value, "failed")) return(expect_identical(got$value, want$value, info = info))
  expect_identical(typeof(got$value), typeof(want$value), info = info)
  expect_identical(attributes(got$value), attributes(want$value), info = info)
  if (is.double(x)) {
    # where both NaN and NA came, versions of R differ on which it is
    both <- cumsum(is.nan(x)) > 0 & cumsum(is.na(x) & !is.nan(x)) > 0
    got$value[both] <- want$value[both] <- if (all(is.na(c(got$value[both], want$value[both])))) NA else 0
  }
  if (tolerance == 0 && !is.double(x) && !is.complex(x) && name != "cumprod" || name %in% exact && tolerance == 0) {
    return(expect_identical(got$value, want$value, info = info))
  }
  if (is.complex(x)) {
    return(expect_true(all(is.na(got$value) == is.na(want$value)) &&
      all(Mod(got$value - want$value) <= max(tolerance, 2^-50) * Mod(want$value), na.rm = TRUE), info = info))
  }
  parts <- identity
  a <- parts(got$value)
  b <- parts(want$value)
  expect_identical(is.na(a), is.na(b), info = info)
  expect_identical(is.nan(a), is.nan(b), info = info)
  ok <- !is.na(b)
  expect_true(all(a[ok] == b[ok] | abs(a[ok] - b[ok]) <= max(tolerance, 2^-52) * abs(b[ok])), info = info)
}

# Multiples of 2^1000 up to the largest doubles, whose sums base R's 80 bits hold exactly, as two doubles do.
large <- function(n) sample(c(-1, 1), n, TRUE) * floor(runif(n) * 2^24) * 2^1000

lengths <- c(0, 1, 2, 63, 64, 65, 255, 257, 8191, 8193, 1e5 + 1)

test_that("doubles, whole numbers, logicals and complex numbers of every length", {
  set.seed(20)
  for (n in lengths) {
    positive <- runif(n)
    for (name in names(scans)) {
      # base R's running product has lost a bit of its 64 with each factor
      agree(name, if (name == "cumprod") 0.5 + positive else positive, tolerance = if (name == "cumprod") n * 2^-63 else
        0)
      agree(name, as.integer(positive * 100) - 20L)
      agree(name, positive > 0.3)
    }
    # a running complex product loses its last digits on both sides
    z <- complex(modulus = 1 + positive / 1e4, argument = positive)
    agree("cumsum", z, tolerance = 1e-12)
    if (n < 1e4) agree("cumprod", z, tolerance = 1e-9)
  }
})

test_that("what is missing stays missing from there on", {
  for (x in list(c(1, NA, 3), c(1, NaN, 3), c(NA, NaN, 1), c(Inf, 1, -Inf, 2), c(-0, 0), c(-Inf, NA, Inf))) {
    for (name in names(scans)) agree(name, x)
  }
  for (x in list(c(1L, NA, 3L), c(NA, 1L), NA_integer_, c(TRUE, NA, FALSE))) {
    for (name in names(scans)) agree(name, x)
  }
  x <- runif(20000)
  x[c(7000, 15000)] <- c(NaN, NA)
  for (name in names(scans)) agree(name, x)
})

test_that("of NA and NaN running extremes have the one that came first", {
  set.seed(5)
  for (n in c(3L, 70L, 3000L)) {
    x <- rnorm(n)
    at <- sort(sample.int(n, 3L))
    for (missing in list(c(NA, NaN, 1), c(NaN, NA, NaN), c(2, NaN, NA))) {
      x[at] <- missing
      first <- x[is.na(x)][1L]
      for (form in list(identity, rev, function(v) v + 0, function(v) t(matrix(v, 1L)))) for (f in list(cummax, cummin))
        {
        v <- form(x)
        first <- v[is.na(v)][1L]
        got <- as.vector(f(form(gpu(x))))
        missed <- which(is.na(got))
        expect_identical(missed, which(cumsum(is.na(v)) > 0))
        expect_true(all(is.nan(got[missed]) == is.nan(first)))
        expect_identical(got[-missed], f(as.vector(v))[-missed])
      }
    }
  }
})

test_that("an integer sum that overflows is NA from there on, with base R's warning", {
  most <- .Machine$integer.max
  for (x in list(c(most, 1L, -5L), c(1L, NA, most, most), c(most, -most, most, 1L, NA),
    c(rep(1L, 9000), most, -most, 2L), c(rep(1L, 9000), most, rep(c(-most, NA, 5L), 20000)),
    c(rep(1L, 9000), NA, most, most, rep(1L, 9000)))) {
    agree("cumsum", x)
    agree("cumsum", -x)
  }
  w <- tryCatch(cumsum(gpu(c(most, 1L))), warning = identity)
  expect_match(conditionMessage(w), "integer overflow in 'cumsum'", fixed = TRUE)
})

test_that("a product's intermediate values may leave the range of doubles", {
  agree("cumprod", c(1e200, 1e200, 1e-300, 1e-300, 1e-200))
  agree("cumprod", c(1e-200, 1e-200, 1e300, 0, Inf))
})

test_that("sums keep more digits than a double", {
  expect_identical(as.vector(cumsum(gpu(c(1e16, 1, -1e16)))), cumsum(c(1e16, 1, -1e16)))
  x <- rep(c(1e10, 1e-10, -1e10), 5000)
  expect_equal(as.vector(cumsum(gpu(x)))[15000], 5000 * 1e-10, tolerance = 1e-3)
})

test_that("names stay, other attributes go; complex extremes are refused", {
  for (name in names(scans)) {
    agree(name, c(a = 1, b = 2))
    agree(name, matrix(1:4, 2))
    agree(name, matrix(c(1.5, 2), 1, dimnames = list("a", c("b", "c"))))
    agree(name, ts(1:3, start = 2000))
    agree(name, 1i)
  }
})

test_that("narrow types keep their dtype, and int64 its digits", {
  x <- gpu(c(1.5, 2.25, -4), "float32")
  expect_identical(gpu_dtype(cumsum(x)), "float32")
  expect_identical(as.vector(cumsum(x)), cumsum(c(1.5, 2.25, -4)))
  expect_identical(gpu_dtype(cumsum(gpu(1:3, "int8"))), "int32")
  expect_identical(as.vector(cumsum(gpu(c(100L, 100L), "int8"))), c(100L, 200L))
  expect_identical(gpu_dtype(cummax(gpu(1:3, "int16"))), "int16")
  expect_identical(gpu_dtype(cumprod(gpu(1:3, "int64"))), "float64")
  skip_if_not_installed("bit64")
  big <- bit64::as.integer64(c("9007199254740993", "2", NA, "1"))
  expect_identical(bit64::as.integer64(cumsum(as_gpu(big, device = test_device))), cumsum(big))
  expect_identical(bit64::as.integer64(cummax(as_gpu(big, device = test_device)))[1:2], cummax(big)[1:2])
})

test_that("what is recorded is taken in, and views are read in their own order", {
  x <- runif(1e4)
  y <- runif(1e4)
  expect_equal(as.vector(cumsum(gpu(x) * gpu(y) + 1)), cumsum(x * y + 1), tolerance = 1e-15)
  m <- matrix(1:6 + 0.5, 2)
  expect_identical(as.vector(cumsum(t(gpu(m)))), cumsum(t(m)))
  expect_identical(as.vector(cummax(rev(gpu(x)))), cummax(rev(x)))
  expect_warning({ cumsum(sqrt(gpu(c(-1, 1)))); gpu_sync(test_device) }, "NaNs produced")
})

test_that("the same call gives the same bits", {
  x <- gpu(rnorm(1e6))
  first <- as.vector(cumsum(x))
  for (i in 1:3) expect_identical(as.vector(cumsum(x)), first)
})

test_that("running sums and products have the same bits on the cpu device, whatever comes", {
  skip_if(test_device == "cpu", "it is the cpu device")
  set.seed(21)
  bits <- function(v) {
    v <- as.vector(v)
    v[is.nan(v)] <- NaN
    v
  }
  # tiles of 4,096 doubles, by 32 and by 1,024
  lengths <- c(17L, 5000L, 4096L * 33L + 5L, if (!emulated) 4096L * 1030L + 7L)
  for (n in lengths) for (dtype in c("float64", "float32")) for (name in c("cumsum", "cumprod")) {
    x <- if (name == "cumsum") rnorm(n) * 10^sample(-3:3, n, TRUE) else exp(rnorm(n) / 100) * sample(c(1, -1), n, TRUE)
    third <- n %/% 3L
    odd <- list(usual = list(1L, x[1L]), infinite = list(third, Inf), missing = list(third, NA), zero = list(third, 0),
      opposite = list(c(third, n - 2L, n - 1L), c(Inf, -Inf, NA)),
      beyond = list(c(third, third + 1L, n - 1L), c(1.6e308, 1.7e308, -1.6e308)),
      border = list(c(4096L, 4097L, 8192L, 8193L), c(1.6e308, 1.6e308, -1.6e308, 3e300)),
      all = list(seq_len(n), large(n)), mixed = list(c(third - 1:2, n - 2L, n - 1L), c(1.7e308, 1.7e308, -Inf, NA)))
    for (what in names(odd)) {
      y <- x
      at <- odd[[what]][[1L]]
      y[at[at <= n]] <- odd[[what]][[2L]][at <= n]
      expect_identical(bits(scans[[name]](gpu(y, dtype))), bits(scans[[name]](as_gpu(y, dtype, device = "cpu"))),
        info = paste(name, dtype, n, what))
    }
  }
})

# Of what is missing only that it is: `agree()` tells NA from NaN.
expect_same_sums <- function(x, info, form = identity) {
  got <- as.vector(cumsum(form(gpu(x))))
  want <- cumsum(x)
  expect_identical(is.na(got), is.na(want), info = info)
  expect_identical(got[!is.na(want)], want[!is.na(want)], info = info)
}

test_that("running sums that pass the largest double come back, as in base R", {
  most <- .Machine$double.xmax
  for (x in list(c(1.6e308, 1.6e308, -1.6e308), c(-1e308, -1e308, 1e308, 1e308), c(most, most, -most, -most, 1e-300),
    c(1.6e308, 1.6e308, -Inf), c(1.6e308, 1.6e308, -Inf, Inf, 1), c(1.6e308, 1.6e308, NA, -1.6e308),
    c(Inf, 1.6e308, 1.6e308, -1.6e308), c(NaN, 1.6e308, 1.6e308), c(most, most / 2^53, most / 2^53),
    c(most, -most, most, -most), rep(most, 70), c(rep(most, 40), rep(-most, 45)), c(1e300, -1e300, 1e-300))) {
    agree("cumsum", x)
    agree("cumsum", -x)
    # what it is computed from is recorded
    expect_same_sums(x, "recorded", function(v) v * 0.5 + v * 0.5)
  }
  agree("cumsum", c(a = 1.6e308, b = 1.6e308, c = -1.6e308))
  m <- matrix(c(1.6e308, 1, 1.6e308, 2, -1.6e308, 3), 2)
  expect_identical(as.vector(cumsum(t(gpu(m)))), cumsum(t(m)))
  expect_identical(as.matrix(apply(gpu(t(m)), 2, cumsum)), apply(t(m), 2, cumsum))
  x <- c(1.6e308, 1, 1.6e308, 2, -1.6e308, 3)
  expect_identical(as.vector(ave(gpu(x), rep(1:2, 3), FUN = cumsum)), ave(x, rep(1:2, 3), FUN = cumsum))
  x <- c(-1.6e308, 1.6e308, 1.6e308, 1.6e308)
  expect_identical(as.vector(rev(cumsum(rev(gpu(x))))), rev(cumsum(rev(x))))
})

test_that("sums of large numbers are base R's for every length", {
  set.seed(22)
  tile <- 4096L
  for (n in c(1L, 2L, 3L, 31L, 257L, 4095L, 4097L, 3L * tile + 1L, 5L * tile, 9L * tile + 17L,
    if (!emulated) c(33L * tile + 1L, 1000000L))) {
    x <- large(n)
    expect_same_sums(x, paste(n, "large"))
    # far beyond, and back at the end
    expect_same_sums(sort(x), paste(n, "sorted"))
    y <- numeric(n)
    at <- seq_len(n) %% 1000L == 0L
    y[at] <- x[at]
    expect_same_sums(y, paste(n, "few"))
    y[sample.int(n, 1L)] <- Inf
    expect_same_sums(y, paste(n, "an infinity"))
    y[sample.int(n, 1L)] <- -Inf
    y[sample.int(n, 1L)] <- NA
    expect_same_sums(y, paste(n, "missing"))
  }
})

test_that("sums pass the largest double on both sides of the borders of threads, warps and tiles", {
  for (border in c(16L, 512L, 4096L, 5L * 4096L, if (!emulated) c(32L, 1024L) * 4096L)) {
    n <- max(6L * 4096L, border) + 5000L
    pairs <- list(border + 0:1, border + 1:2, border + c(-1L, 0L), c(1L, border), c(border, n - 1L))
    for (at in if (border > 1e6) pairs[1L] else pairs) {
      x <- numeric(n)
      x[at] <- 2^1023
      x[c(at[2L] + 1L, n)] <- -2^1023
      expect_same_sums(x, paste(border, "at", at[1L]))
      # beyond within the sums of a thread alone, or of its neighbours
      x[at] <- c(2^1023, -2^1023)
      x[border + 3L] <- 2^1023
      expect_same_sums(x, paste(border, "within", at[1L]))
    }
  }
})

test_that("so it is with the parts of complex numbers, and with narrower types", {
  set.seed(23)
  for (n in c(5L, 2049L, 30000L)) {
    re <- large(n)
    im <- rev(sort(large(n)))
    got <- as.vector(cumsum(gpu(complex(real = re, imaginary = im))))
    # base R's own are added in doubles
    expect_identical(Re(got), cumsum(re))
    expect_identical(Im(got), cumsum(im))
  }
  x <- c(3e38, 3e38, -3e38, 1)
  expect_equal(as.vector(cumsum(gpu(x, "float32"))), c(3e38, Inf, 3e38, 3e38), tolerance = 1e-7)
  x <- rep(c(65504, 65504, -65504, -65504), 20)
  expect_identical(as.vector(cumsum(gpu(x, "float16"))), rep(c(65504, Inf, 65504, 0), 20))
})

test_that("products leave the range of doubles and come back at the borders of tiles", {
  agree("cumprod", c(1e308, 10, 1e-300))
  agree("cumprod", c(1e308, 10, 1e-300, 0, Inf))
  n <- 4L * 4096L
  for (border in c(16L, 512L, 4096L, 2L * 4096L)) {
    x <- rep(1, n)
    x[border + 0:3] <- 2^c(1000, 1000, -1000, -1000)
    x[c(n - 1L, n)] <- 2^c(-1000, -900)
    agree("cumprod", x)
  }
})

test_that("all dtypes have running values of their own type, which end with their memory", {
  values <- list(logical = c(TRUE, FALSE, NA, TRUE), integer = c(3L, 1L, 2L, 2L), double = c(1.5, -2, 0.25, 3),
    complex = c(1+1i, 2, 3-2i, 0.5i))
  dtypes <- list(logical = c("bool8", "int32"), integer = c("int8", "int16", "int32", "int64", "uint8"),
    double = c("float16", "bfloat16", "float32", "float64"), complex = c("complex64", "complex128"))
  for (type in names(values)) for (dtype in dtypes[[type]]) for (name in names(scans)) {
    x <- gpu(values[[type]], dtype)
    want <- outcome(as.vector(scans[[name]](if (type == "logical" && dtype == "int32") values[[type]] + 0L else
      values[[type]])))
    # as often as memory that is written beyond its end takes to be noticed
    for (turn in 1:20) got <- outcome(as.vector(scans[[name]](x)))
    info <- paste(name, dtype)
    if (inherits(want$value, "failed")) expect_s3_class(got$value, "failed") else
      expect_equal(as.vector(got$value), as.vector(want$value), tolerance = 1e-2, ignore_attr = TRUE, info = info)
    if (type == "complex" && name %in% c("cumsum", "cumprod"))
      expect_identical(gpu_dtype(scans[[name]](x)), dtype, info = info)
  }
})
