# Random numbers: determined by R's generator, in the open interval, of the right distribution.

draw <- function(f, n, ..., seed = 1L) {
  set.seed(seed)
  collect(f(n, ..., device = test_device))
}

test_that("set.seed() decides", {
  for (f in list(gpu_runif, gpu_rnorm, gpu_rexp)) {
    expect_identical(draw(f, 1000L), draw(f, 1000L))
    expect_false(any(draw(f, 1000L) == draw(f, 1000L, seed = 2L)))
  }
  set.seed(1)
  x <- gpu_rnorm(100, device = test_device)
  y <- gpu_rnorm(100, device = test_device)
  expect_false(any(collect(x) == collect(y)))
  # an element depends on its place and the key alone
  expect_identical(draw(gpu_rnorm, 5000L)[1:7], draw(gpu_rnorm, 7L))
})

test_that("a call advances R's generator by two draws", {
  set.seed(1)
  gpu_rnorm(10, device = test_device)
  after <- .Random.seed
  set.seed(1)
  runif(2)
  expect_identical(after, .Random.seed)
})

test_that("the numbers are of their distribution", {
  n <- 2e5
  for (dtype in c("float64", "float32")) {
    u <- draw(gpu_runif, n, dtype = dtype)
    expect_true(all(u > 0 & u < 1), label = dtype)
    expect_gt(suppressWarnings(ks.test(u, "punif"))$p.value, 0.001)
    z <- draw(gpu_rnorm, n, dtype = dtype)
    expect_gt(suppressWarnings(ks.test(z, "pnorm"))$p.value, 0.001)
    expect_lt(abs(mean(z)), 5 / sqrt(n))
    expect_lt(abs(var(z) - 1), 5 * sqrt(2 / n))
    expect_lt(abs(mean(z^3)), 5 * sqrt(15 / n))
    expect_lt(abs(mean(z^4) - 3), 5 * sqrt(96 / n))
    # neighbours are independent, though a pair shares a radius and an angle
    expect_lt(abs(cor(z[-1L], z[-n])), 5 / sqrt(n))
    expect_lt(abs(cor(z[c(TRUE, FALSE)]^2, z[c(FALSE, TRUE)]^2)), 5 / sqrt(n / 2))
    expect_gt(chisq.test(table(z[c(TRUE, FALSE)] > 0, z[c(FALSE, TRUE)] > 0))$p.value, 0.001)
    e <- draw(gpu_rexp, n, rate = 2, dtype = dtype)
    expect_true(all(e > 0), label = dtype)
    expect_gt(suppressWarnings(ks.test(e, "pexp", 2))$p.value, 0.001)
  }
  expect_false(anyDuplicated(draw(gpu_runif, n)) > 0)
})

test_that("the tails of normals are there", {
  # so few beyond 4 deviations that counts are Poisson
  for (dtype in c("float64", "float32")) {
    z <- draw(gpu_rnorm, 2e6, dtype = dtype)
    for (k in 3:4) {
      expected <- 2e6 * pnorm(-k)
      for (side in c(-1, 1)) expect_lt(abs(sum(side * z > k) - expected), 5 * sqrt(expected))
    }
  }
})

test_that("the generator is Philox 4x32-10", {
  # the first two 64-bit words of key 0, from the known answers of Random123 1.09 (philox4x32 10, all zeros)
  words <- list(c(0xe169c58d, 0x6627e8d5), c(0x9b00dbd8, 0xbc57ac4c))
  want <- vapply(words, function(w) (w[1L] * 2^20 + w[2L] %/% 2^12 + 0.5) / 2^52, 0)
  expect_identical(collect(.Call(verdigris:::C_random, "runif", 2, c(0, 0), 0, 1, NULL, test_device)), want)
})

test_that("streams of different keys have nothing to do with each other", {
  n <- 4000L
  # keys as R's generator gives them, and keys that differ in one bit
  streams <- vapply(1:24, function(seed) draw(gpu_rnorm, n, seed = seed), numeric(n))
  near <- vapply(0:23, function(k) {
    collect(.Call(verdigris:::C_random, "rnorm", n, c(7, 2^k), 0, 1, NULL, test_device))
  }, numeric(n))
  for (z in list(streams, near)) {
    r <- cor(z)[upper.tri(diag(24L))]
    # 276 correlations of deviation 1/sqrt(n), and their squares together
    expect_lt(max(abs(r)), 4.5 / sqrt(n))
    expect_gt(pchisq(sum(r^2) * n, length(r), lower.tail = FALSE), 0.001)
    lagged <- vapply(2:24, function(k) cor(z[-1L, k - 1L], z[-n, k]), 0)
    expect_lt(max(abs(lagged)), 4.5 / sqrt(n))
  }
})

test_that("the bits of uniforms are even, and one by one independent of those before", {
  bits <- function(u) outer(u, 2^(1:20), function(u, p) floor(u * p) %% 2)
  b <- bits(draw(gpu_runif, 50000L))
  expect_lt(max(abs(colMeans(b) - 0.5)), 4 * 0.5 / sqrt(50000))
  expect_lt(max(abs(cor(b[-1L, ], b[-50000L, ]))), 5 / sqrt(50000))
})

test_that("any of R's generators decides, as parallel streams want it", {
  skip_on_cran()
  kind <- RNGkind("L'Ecuyer-CMRG")
  on.exit(RNGkind(kind[1L]))
  set.seed(1)
  seed <- .Random.seed
  x <- collect(gpu_rnorm(5, device = test_device))
  assign(".Random.seed", parallel::nextRNGStream(seed), globalenv())
  y <- collect(gpu_rnorm(5, device = test_device))
  assign(".Random.seed", seed, globalenv())
  expect_identical(collect(gpu_rnorm(5, device = test_device)), x)
  expect_false(any(x == y))
})

test_that("limits, means and deviations are recycled, arrays among them", {
  u <- draw(gpu_runif, 1000L)
  expect_equal(draw(gpu_runif, 1000L, min = -2, max = 3), -2 + 5 * u)
  z <- draw(gpu_rnorm, 1000L)
  expect_equal(draw(gpu_rnorm, 1000L, mean = c(0, 100), sd = 2), c(0, 100) + 2 * z)
  expect_equal(draw(gpu_rnorm, 1000L, mean = gpu(c(0, 100)), sd = gpu(1:4 + 0)), c(0, 100) + 1:4 * z)
  expect_length(draw(gpu_rnorm, 3L, mean = gpu(1:10 + 0)), 3L)
})

test_that("n is read as R's generators read it, and the dtype as asked", {
  expect_length(draw(gpu_runif, 0), 0L)
  expect_length(draw(gpu_runif, c(5, 6, 7)), 3L)
  expect_length(draw(gpu_runif, 2.9), 2L)
  expect_error(gpu_runif(-1, device = test_device), class = "verdigris_error")
  expect_error(gpu_runif(NA, device = test_device), class = "verdigris_error")
  expect_error(gpu_rnorm("a", device = test_device), class = "verdigris_error")
  for (dtype in c("float64", "float32", "float16", "bfloat16")) {
    x <- gpu_rnorm(10, dtype = dtype, device = test_device)
    expect_identical(gpu_dtype(x), dtype)
    expect_identical(typeof(x), "double")
  }
  # narrower ones are rounded from float32
  expect_identical(draw(gpu_rnorm, 100L, dtype = "float16"),
                   { set.seed(1); collect(gpu_cast(gpu_rnorm(100, dtype = "float32", device = test_device),
                     "float16")) })
})

test_that("narrow uniforms stay within the open interval", {
  for (dtype in c("float32", "float16", "bfloat16")) {
    u <- draw(gpu_runif, 1e5, dtype = dtype)
    expect_true(all(u > 0 & u < 1), label = dtype)
  }
})
