# Bessel functions and psigamma: against a table of mpmath (tools/test/special-tables.py), base R where it has digits,
# edges, warnings, compiled functions and derivatives.

NAMES <- c("besselI", "besselJ", "besselK", "besselY", "psigamma")
# On a GPU each call below is a kernel that takes seconds to compile.
is_slow <- test_device != "cpu"

test_that("values are those of mpmath", {
  table <- utils::read.csv("special.csv", colClasses = c(name = "character"))
  expect_gte(nrow(table), 600L)
  for (name in NAMES) {
    rows <- table[table$name == name, ]
    expect_gte(nrow(rows), 90L)
    f <- get(name)
    scaled <- if (name %in% c("besselI", "besselK")) list(TRUE)
    got <- collect(do.call(f, c(list(gpu(rows$x), gpu(rows$order)), scaled)))
    ok <- abs(got - rows$value) <= 1e-13 * rows$scale
    expect(all(ok), sprintf("%s: %d of %d, first case %s", name, sum(!ok), length(ok),
      deparse1(as.list(rows[which(!ok)[1L], ]))))
    if (is.null(scaled)) next
    # without the factor, whose own error is that of exp()
    shift <- if (name == "besselI") rows$x else -rows$x
    want <- log(rows$value) + shift
    some <- abs(want) < 700
    got <- log(collect(f(gpu(rows$x), gpu(rows$order))))
    expect_lt(max(abs(got - want)[some]), 1e-12)
  }
})

# Base R's functions on the host's numbers, and ours.
agrees <- function(name, x, order, ..., ulp = 1e4, mute = character()) {
  want <- outcome(get(name, baseenv())(x, order, ...))
  got <- outcome(get(name)(if (is.list(x)) x[[1L]] else gpu(x), order, ...))
  said <- difference(got$value, want$value, ulp)
  for (text in mute) want$warnings <- want$warnings[!startsWith(want$warnings, text)]
  if (is.null(said) && !identical(got$warnings, want$warnings))
    said <- paste0("warnings {", toString(got$warnings), "} are not {", toString(want$warnings), "}")
  if (!is.null(said)) paste0(name, ": ", said)
}

test_that("random cases agree with base R as far as it has digits", {
  set.seed(31)
  n <- if (is_slow) 300L else 5000L
  x <- 10^stats::runif(n, -4, 2.5)
  nu <- stats::runif(n, 0, 60)
  nu[seq(1, n, 3)] <- round(nu[seq(1, n, 3)])
  nu[seq(2, n, 3)] <- -nu[seq(2, n, 3)]
  close <- function(name, ..., scale = abs(want)) {
    want <- suppressWarnings(get(name, baseenv())(x, nu, ...))
    got <- collect(get(name)(gpu(x), nu, ...))
    some <- is.finite(want) & abs(want) > 1e-290 & abs(want) < 1e290
    expect_gt(sum(some), n / 2)
    expect_lt(max((abs(got - want) / scale)[some], 0), 1e-11, label = name)
  }
  close("besselI", TRUE)
  close("besselK", TRUE)
  waves <- suppressWarnings(sqrt(besselJ(x, nu)^2 + besselY(x, nu)^2))
  close("besselJ", scale = waves)
  close("besselY", scale = waves)
  # above 5 base R has none below 0
  x <- ifelse(x > 50, x / 10 - 30, x)
  nu <- ifelse(x < 0, nu %% 6, nu)
  x <- x - (x < 0) * (abs(x - round(x)) < 0.05) * 0.3
  nu <- abs(nu)
  want <- suppressWarnings(psigamma(x, nu))
  got <- collect(psigamma(gpu(x), nu))
  some <- is.finite(want)
  expect_gt(sum(some), n / 2)
  # below 0 sums cancel
  expect_lt(max((abs(got - want) / pmax(abs(want), (x < 0) * 1))[some]), 1e-8)
  expect_lt(max((abs(got - want) / abs(want))[some & x > 0]), 1e-11)
})

test_that("edges have base R's values and warnings", {
  x <- c(NA, NaN, Inf, 0, -0, 1, 1e-50, 30.5, 700)
  nu <- c(NA, NaN, 0, 1, 2.5, -0.5, -1, -1.3, -1.5, -2, -2.5, 30)
  grid <- expand.grid(x = x, nu = nu)
  found <- list()
  for (name in setdiff(NAMES, "psigamma")) {
    mute <- c("value out of range in 'J_bessel'", "bessel_", paste0(name, "(x, nu)"))
    found <- c(found, agrees(name, grid$x, grid$nu, mute = mute), agrees(name, -1, 1), agrees(name, c(1, -Inf), -2))
    if (name %in% c("besselI", "besselK")) found <- c(found, agrees(name, grid$x, grid$nu, TRUE, mute = mute))
  }
  x <- c(NA, NaN, Inf, -Inf, 0, -0, -1, -2, 1, 2.5, -2.5, -0.3, 1e300)
  grid <- expand.grid(x = x, deriv = c(NA, NaN, -2, -1, -0.5, 0, 0.4, 0.5, 0.6, 1, 1.5, 2, 2.5, 3, 5))
  found <- c(found, agrees("psigamma", grid$x, grid$deriv, ulp = 1e6))
  found <- c(found, agrees("psigamma", c(1, 2.5, Inf), c(7, 100, 50)), agrees("psigamma", 1, 101, mute = "deriv = 101"),
    agrees("psigamma", 1, Inf))
  expect_all_same(found)
})

test_that("large orders and x have values, limits, or NaN with a warning", {
  expect_equal(collect(besselI(gpu(c(1, 0, 1e300)), Inf)), c(0, 0, 0))
  expect_equal(collect(besselK(gpu(c(1, 0)), c(Inf, -Inf))), c(Inf, Inf))
  for (name in c("besselI", "besselK")) {
    got <- outcome(get(name)(gpu(Inf), Inf))
    expect_identical(got, list(value = NaN, warnings = "NaNs produced"))
  }
  for (name in c("besselJ", "besselY")) {
    got <- outcome(get(name)(gpu(c(1, 2)), c(1e8, -Inf)))
    expect_identical(got, list(value = c(NaN, NaN), warnings = "NaNs produced"))
  }
  expect_identical(outcome(besselI(gpu(1), -Inf)), list(value = NaN, warnings = "NaNs produced"))
  # values of mpmath
  expect_equal(collect(besselI(gpu(712), 0)), 2.468411057762753e307, tolerance = 1e-12)
  expect_equal(collect(besselK(gpu(c(1, 1e300)), 1e300)), c(Inf, 0))
  expect_equal(collect(besselK(gpu(1e-310), 0)), 713.91731034381258, tolerance = 1e-13)
  x <- c(1e7, 1e12, 1e300)
  got <- collect(besselJ(gpu(x), 0.5))
  expect_equal(got / sqrt(2 / pi / x), sin(x), tolerance = 1e-13)
  expect_true(all(is.finite(collect(besselY(gpu(c(1e7, 1e7 + 1000, 1e7 - 1000)), 1e7)))))
})

test_that("attributes, recycling, types and errors are base R's", {
  m <- matrix(c(3, 1, 2, 5, 4, 7), 2, dimnames = list(NULL, c("a", "b", "c")))
  found <- list()
  for (name in NAMES) {
    f <- function(x, nu) get(name)(x, nu)
    calls <- list(list(m, 1), list(m, list(2L)), list(1:4, c(1, 2)), list(c(TRUE, FALSE), 1L),
      list(c(a = 1, b = 2), 0:1), list(2, m), list(double(), 1), list(1, double()), list(1:3, 1:2))
    for (args in calls[if (is_slow) 1:2 else seq_along(calls)])
      found <- c(found, compare(f, args, ulp = 1e4, what = name))
    expect_identical(formals(get(name)), formals(get(name, baseenv())))
    got <- get(name)(gpu(c(0.5, 2), "float32"), 2)
    expect_identical(gpu_dtype(got), "float32")
    want <- collect(gpu(get(name, baseenv())(c(0.5, 2), 2), "float32"))
    expect_equal(collect(got), want, tolerance = 1e-7)
  }
  for (scaled in list(TRUE, 1, "TRUE", c(TRUE, FALSE), NA))
    found <- c(found, agrees("besselI", c(1, 2), 1.5, scaled), agrees("besselK", c(1, 2), 1.5, expon.scaled = scaled))
  expect_all_same(found)
  x <- gpu(c(1, 2))
  expect_error(besselJ(x, "a"), "non-numeric argument to mathematical function")
  expect_error(besselJ(x), "argument \"nu\" is missing, with no default")
  expect_error(psigamma(gpu(1i)), "unimplemented complex function")
  expect_error(psigamma(x, 1i), "non-numeric argument to mathematical function")
  expect_identical(collect(psigamma(x)), collect(digamma(x)))
})

test_that("float32 is the float64 value, rounded", {
  set.seed(4)
  x <- gpu(10^stats::runif(2000, -3, 2), "float32")
  nu <- gpu(stats::runif(2000, -5, 60), "float32")
  wide <- lapply(list(x, nu), function(v) gpu(collect(v)))
  for (name in if (is_slow) "besselJ" else NAMES) {
    f <- get(name)
    got <- suppressWarnings(collect(f(x, nu)))
    want <- suppressWarnings(collect(gpu(collect(f(wide[[1L]], wide[[2L]])), "float32")))
    expect_identical(got, want, label = name)
  }
})

test_that("compiled functions have them", {
  x <- c(0.5, 3, 40)
  nu <- c(0.3, 2, 70.5)
  f <- function(x, nu) besselI(x, nu, expon.scaled = TRUE) * besselK(nu = nu, x, TRUE) +
    besselJ(x, nu) * besselY(x, nu) + psigamma(x, deriv = 2L) + psigamma(x)
  expect_equal(collect(gpu_map(f, gpu(x), gpu(nu))), f(x, nu), tolerance = 1e-11)
  expect_equal(collect(gpu_map(function(x) sum(besselJ(x, 0:2)), gpu(x))),
    vapply(x, function(x) sum(besselJ(x, 0:2)), 0), tolerance = 1e-11)
  expect_error(gpu_map(function(x, s) besselI(x, 1, s), gpu(x), 1), class = "verdigris_error_compile")
  expect_error(gpu_map(function(x) besselI(x), gpu(x)), class = "verdigris_error_compile")
})

test_that("derivatives by x are those of numeric differences", {
  x <- c(0.4, 1.7, 2.9, 31)
  h <- 1e-4
  functions <- list(function(x, a) besselI(a * x, 1.3, TRUE), function(x, a) besselK(a * x, 0),
    function(x, a) besselJ(a * x, 2.5), function(x, a) besselY(a * x, 0), function(x, a) besselK(a * x, 1.2, TRUE), function(x, a) besselI(a * x, 0.5),
    function(x, a) psigamma(a * x, 3), function(x, a) psigamma(a * x))
  for (f in if (is_slow) functions[3L] else functions) {
    got <- gpu_grad(f, "a")(gpu(x), 0.9)
    value <- function(d) sum(f(x, 0.9 + d))
    want <- (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h)
    expect_equal(got[["a"]], want, tolerance = 1e-8, info = deparse1(f))
  }
  expect_error(gpu_grad(function(x, a) besselK(x, a), "a")(gpu(x), 1), class = "verdigris_error_compile")
})
