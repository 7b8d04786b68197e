# Convolutions and filters, against base R's.

test_that("convolutions of all types are base R's", {
  found <- list()
  set.seed(1)
  for (n in c(1, 2, 3, 5, 50, if (!emulated) 3000)) for (p in c(1, 2, 3, 7, 50)) for (type in c("circular", "open",
    "filter")) {
    for (conj in c(TRUE, FALSE)) for (complex in 0:3) {
      x <- stats::rnorm(n) + if (complex %% 2) 1i * stats::rnorm(n) else 0
      y <- stats::rnorm(p) + if (complex > 1) 2i * stats::rnorm(p) else 0
      want <- outcome(stats::convolve(x, y, conj, type))
      for (k in 1:2) {
        got <- outcome(if (k == 1) convolve(gpu(x), y, conj, type) else convolve(x, gpu(y), conj, type))
        same <- isTRUE(all.equal(got$value, want$value, tolerance = 1e-12))
        if (!same) found <- c(found, sprintf("%d with %d, %s, conj = %s, complex %d", n, p, type, conj, complex))
      }
    }
  }
  expect_all_same(found)
})

test_that("names, integers, logicals and missing elements are as in base R", {
  found <- list()
  near <- function(f, args, what) {
    want <- do.call(f, args)
    got <- do.call(f, lapply(args, function(v) if (is.numeric(v) || is.logical(v)) gpu(v) else v))
    if (!isTRUE(all.equal(collect(got), want, tolerance = 1e-13))) found <<- c(found, what)
  }
  near(convolve, list(c(a = 1, b = 2, c = 3), c(1, 2, 3), type = "open"), "names")
  near(convolve, list(1:5, 2:3, type = "filter"), "integers")
  near(convolve, list(c(TRUE, FALSE, TRUE), c(1, 2, 3)), "logicals")
  near(convolve, list(c(1, NA, 3), c(1, 2), type = "open"), "a missing element")
  expect_all_same(found)
  expect_error(convolve(gpu(1:3), 1:2), "length mismatch in convolution")
  single <- gpu(c(1, 2, 3, 4), "float32")
  expect_identical(gpu_dtype(convolve(single, c(1, 2), type = "open")), "float32")
  # block by block every element is missing, too
  x <- replace(stats::rnorm(3e4), 7, NA)
  expect_true(all(is.na(collect(convolve(gpu(x), c(1, 2, 3), type = "open")))))
})

test_that("long series are convolved block by block", {
  skip_if(emulated, "it is slow")
  set.seed(2)
  for (n in c(9000, 40000, 100001)) for (p in c(2, 300, 1000)) {
    x <- stats::rnorm(n)
    y <- stats::rnorm(p)
    # by the definition, at some places
    at <- c(1, 2, p, p + 1, n, n + p - 1, sample(n, 20))
    want <- vapply(at, function(i) {
      k <- seq_len(p)
      k <- k[i - k + 1 >= 1 & i - k + 1 <= n]
      sum(y[k] * x[i - k + 1])
    }, 0)
    got <- convolve(gpu(x), rev(y), type = "open")
    expect_identical(length(got), as.integer(n + p - 1))
    expect_lt(max(abs(as.vector(got[at]) - want)), 1e-15 * max(abs(x)) * sum(abs(y)) * 20)
  }
})

test_that("filters short and long are base R's, also beside missing elements", {
  found <- list()
  set.seed(3)
  x <- stats::rnorm(if (emulated) 2000 else 20000)
  for (weights in list(1, c(0.5, 0.5), stats::rnorm(255), stats::rnorm(257), stats::rnorm(700))) for (sides in 1:2) {
    for (v in list(x, replace(x, c(5, 1200), NA), ts(x, start = 4, frequency = 12), replace(x, 3, Inf), x[1:700])) {
      want <- stats::filter(v, weights, sides = sides)
      got <- filter(gpu(v), weights, sides = sides)
      if (!identical(tsp(got), tsp(want)) || !isTRUE(all.equal(as.vector(got), as.vector(want), tolerance = 1e-11)))
        found <- c(found, sprintf("%d weights, %d sides, %s", length(weights), sides, deparse1(utils::head(v))))
    }
  }
  expect_all_same(found)
  expect_identical(gpu_dtype(filter(gpu(x, "float32"), stats::rnorm(300))), "float32")
})

test_that("long filters take finite elements whose sum is not", {
  x <- rep(1.2e304, 2e4)
  weights <- rep(c(1e-3, 0), 150)
  got <- as.vector(filter(gpu(x), weights))
  want <- as.vector(stats::filter(x, weights))
  expect_identical(is.na(got), is.na(want))
  expect_lt(max(abs(got - want), na.rm = TRUE), 1e304 * 1e-11)
})
