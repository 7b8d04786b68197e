# Fourier transforms, against base R's, which are off by more at lengths with large prime factors.

# The largest difference in units of the largest element; Inf where attributes differ.
distance <- function(got, want) {
  keep <- function(x) attributes(x)[sort(setdiff(names(attributes(x)), "class"))]
  if (is_gpu(got)) got <- collect(got)
  if (!identical(keep(got), keep(want)) || is.complex(got) != is.complex(want)) return(Inf)
  if (!identical(is.na(as.vector(got)), is.na(as.vector(want)))) return(Inf)
  got <- as.vector(got)[!is.na(want)]
  want <- as.vector(want)[!is.na(want)]
  max(Mod(got - want), 0) / max(Mod(want), 1e-300)
}
is_gpu <- function(x) inherits(x, "gpu_array")

# By the definition: the n x n matrix of powers of the root of unity.
by_definition <- function(x, inverse = FALSE) {
  n <- length(x)
  k <- seq_len(n) - 1
  as.vector(exp((if (inverse) 2i else -2i) * pi * (outer(k, k) %% n) / n) %*% x)
}

LENGTHS <- c(1, 2, 3, 4, 5, 7, 8, 16, 30, 49, 64, 101, 128, 210, 263, 1000, 1024, 1155, if (!emulated) c(2310, 2^14, 30030))

test_that("vectors of all lengths are transformed as by base R, forward and back", {
  found <- list()
  set.seed(1)
  for (n in LENGTHS) {
    x <- stats::rnorm(n)
    z <- complex(real = stats::rnorm(n), imaginary = stats::rnorm(n))
    limit <- if (n > 200) 1e-13 * max(1, n / 1e5) else 4e-15
    says <- function(what, got, want, tolerance = limit) {
      d <- distance(got, want)
      if (!(d <= tolerance)) found <<- c(found, sprintf("%s of %d: %g", what, n, d))
    }
    want <- stats::fft(x)
    says("fft(x)", fft(gpu(x)), want)
    says("inverse of x", fft(gpu(x), inverse = TRUE), Conj(want))
    says("fft(z)", fft(gpu(z)), stats::fft(z))
    says("inverse of z", fft(gpu(z), TRUE), stats::fft(z, TRUE))
    says("gpu_rfft(x)", gpu_rfft(gpu(x)), want[seq_len(n %/% 2 + 1)])
    says("there and back", gpu_irfft(gpu_rfft(gpu(x)), n), n * x, 4e-15)
    says("there and back, complex", fft(fft(gpu(z)), TRUE), n * z, 4e-15)
    says("recorded", fft(gpu(x) * 2 + 1), stats::fft(x * 2 + 1))
    says("recorded, complex", fft(gpu(z) * 2i), stats::fft(z * 2i))
    if (n <= 263) says("by the definition", fft(gpu(z)), by_definition(z), 1e-13)
  }
  expect_all_same(found)
})

test_that("long lines of any length have the elements of their definition", {
  skip_if(emulated, "it is slow")
  set.seed(3)
  for (n in c(2^20 + 1, 1000003, 2^21)) {
    x <- stats::rnorm(n)
    y <- fft(gpu(x))
    at <- c(1, 2, n %/% 2, n %/% 2 + 2, n)
    # angles are exact: the products are whole numbers below 2^53
    want <- vapply(at, function(k) sum(x * exp(-2i * pi * (((seq_len(n) - 1) * (k - 1)) %% n) / n)), 1i)
    expect_lt(max(Mod(as.vector(y[at]) - want)) / sqrt(n), 1e-12)
    expect_equal(as.vector(sum(Mod(y)^2)), n * sum(x^2), tolerance = 1e-13)
    expect_lt(distance(Re(fft(y, inverse = TRUE)), n * x), 1e-14)
  }
})

test_that("arrays of up to five dimensions are transformed, along all of them and along each", {
  found <- list()
  set.seed(2)
  along <- function(x, m, inverse = FALSE, keep = dim(x)[m]) {
    order <- c(m, seq_along(dim(x))[-m])
    y <- aperm(x, order)
    lines <- stats::mvfft(matrix(y, dim(x)[m]), inverse)[seq_len(keep), , drop = FALSE]
    aperm(array(lines, c(keep, dim(y)[-1L])), base::order(order))
  }
  for (d in list(c(2, 3), c(1, 5), c(4, 1), c(1, 1), c(8, 8), c(5, 7), c(64, 3), c(2, 3, 4), c(3, 1, 5), c(1, 1, 7),
    c(4, 4, 4), c(7, 5, 3), c(2, 3, 4, 5), c(3, 2, 2, 2, 3))) {
    x <- array(stats::rnorm(prod(d)), d)
    z <- x + 1i * stats::rnorm(prod(d))
    says <- function(what, got, want) {
      far <- distance(got, want)
      if (!(far <= 4e-15)) found <<- c(found, sprintf("%s of %s: %g", what, deparse1(d), far))
    }
    says("fft(x)", fft(gpu(x)), stats::fft(x))
    says("fft(z)", fft(gpu(z)), stats::fft(z))
    says("inverse", fft(gpu(z), TRUE), stats::fft(z, TRUE))
    says("inverse of real", gpu_fft(gpu(x), inverse = TRUE), stats::fft(x, TRUE))
    for (m in seq_along(d)) {
      says("gpu_fft(x)", gpu_fft(gpu(x), m), along(x, m))
      says("gpu_fft(z)", gpu_fft(gpu(z), m), along(z, m))
      says("inverse", gpu_fft(gpu(z), m, inverse = TRUE), along(z, m, TRUE))
      half <- gpu_rfft(gpu(x), m)
      says("gpu_rfft(x)", half, along(x, m, keep = d[m] %/% 2 + 1))
      says("gpu_irfft()", gpu_irfft(half, d[m], m), d[m] * x)
    }
  }
  m <- matrix(stats::rnorm(12), 4, dimnames = list(letters[1:4], NULL))
  for (v in list(m, m + 0i, m > 0, ts(m, start = 1990, names = c("u", "v", "w")))) {
    far <- c(distance(mvfft(gpu(v)), stats::mvfft(v)), distance(mvfft(gpu(v), TRUE), stats::mvfft(v, TRUE)))
    if (any(far > 4e-15)) found <- c(found, paste("mvfft of", deparse1(v)))
  }
  # parts of arrays: strided, and not aligned to pairs
  v <- stats::rnorm(41)
  odd <- list(gpu(v)[2:41], gpu(v)[seq(1, 41, 2)], rev(gpu(v)), t(gpu(matrix(v[1:40], 8))))
  plain <- list(v[2:41], v[seq(1, 41, 2)], rev(v), t(matrix(v[1:40], 8)))
  for (k in seq_along(odd)) {
    d <- distance(fft(odd[[k]]), stats::fft(plain[[k]]))
    if (!(d <= 4e-15)) found <- c(found, sprintf("part %d: %g", k, d))
  }
  expect_all_same(found)
})

test_that("types, attributes, missing elements and conditions are base R's", {
  found <- list()
  values <- list(1:6, c(TRUE, FALSE, NA), c(a = 1, b = 2, c = 4), numeric(), 1, 1L, NA_real_, complex(),
    ts(c(1, 2, 4), start = c(2000, 2), frequency = 4), matrix(1:4, 2, dimnames = list(c("a", "b"), c("u", "v"))),
    matrix(numeric(), 0, 3), matrix(numeric(), 2, 0), c(1, NaN, 3, 4), array(1:8, c(2, 2, 2)))
  for (v in values) for (inverse in list(FALSE, TRUE, NA, 1, "TRUE")) {
    far <- distance(fft(gpu(v), inverse), stats::fft(v, inverse))
    if (!(far <= 4e-15)) found <- c(found, sprintf("fft(%s, %s): %g", deparse1(v), deparse1(inverse), far))
    if (length(dim(v)) == 2L) {
      far <- distance(mvfft(gpu(v), inverse), stats::mvfft(v, inverse))
      if (!(far <= 4e-15)) found <- c(found, sprintf("mvfft(%s, %s): %g", deparse1(v), deparse1(inverse), far))
    }
  }
  found <- c(found, compare(function(x) mvfft(x), list(1:3), what = "mvfft of a vector"))
  expect_all_same(found)
  expect_identical(vapply(c("float16", "bfloat16", "float32", "float64", "int64", "int32"), function(type)
    gpu_dtype(fft(gpu(1:4, type))), ""), c(float16 = "complex64", bfloat16 = "complex64", float32 = "complex64",
    float64 = "complex128", int64 = "complex128", int32 = "complex128"))
  single <- gpu(stats::rnorm(1000), "float32")
  expect_lt(distance(fft(single), stats::fft(collect(single))), 1e-6)
  expect_lt(distance(gpu_irfft(gpu_rfft(single), 1000), 1000 * collect(single)), 1e-6)
  expect_identical(gpu_dtype(gpu_irfft(gpu_rfft(single), 1000)), "float32")
  named <- gpu_fft(gpu(matrix(1:6, 2, dimnames = list(c("a", "b"), c("u", "v", "w")))), 2)
  expect_identical(dimnames(named), list(c("a", "b"), NULL))
})

test_that("wrong arguments are classed errors that say what is expected", {
  x <- gpu(c(1, 2, 3))
  expect_error(gpu_fft(1:3), class = "verdigris_error_argument", "`x` must be an array")
  expect_error(gpu_fft(x, 2), class = "verdigris_error_argument", "a dimension of `x`, 1 to 1")
  expect_error(gpu_fft(x, inverse = NA), class = "verdigris_error_argument", "TRUE or FALSE")
  expect_error(gpu_rfft(x + 1i), class = "verdigris_error_argument", "real elements")
  expect_error(gpu_rfft(gpu(matrix(1:4, 2))), class = "verdigris_error_argument", "`margin` must be")
  expect_error(gpu_rfft(x[0]), class = "verdigris_error_argument", "with elements")
  expect_error(gpu_irfft(fft(x), 9), class = "verdigris_error_argument", "4 or 5")
  expect_identical(distance(gpu_irfft(gpu_rfft(gpu(1:4))), 4 * 1:4) < 1e-15, TRUE)
})

test_that("a transform is part of a graph, also when its plan is kept no longer", {
  h <- stats::rnorm(64)
  x <- gpu(h)
  g <- gpu_graph(gpu_compute(Re(fft(fft(x * 2), inverse = TRUE)) / 64))
  for (n in 65:110) fft(gpu(seq_len(n))) # more plans than are kept
  expect_lt(distance(g(), 2 * h), 1e-14)
  expect_lt(distance(g(x = rev(h)), 2 * rev(h)), 1e-14)
})
