# Sums and products within compiled functions reach beyond the largest double and come back, as R's long double does.

x <- c(1e308, -1e308, 1.6e308, 1e-308, 3, 0, 5e-324, Inf, -Inf, NaN, NA, -2, 1e200, 1e-200, -3e154)
triples <- expand.grid(a = x, b = x, c = x)
# which of NaN and NA wins depends on their order
count <- function(f) rowSums(vapply(triples, f, logical(nrow(triples))))
is_mixed <- count(function(v) is.na(v) & !is.nan(v)) > 0 &
  (count(is.nan) > 0 | count(function(v) v %in% Inf) > 0 & count(function(v) v %in% -Inf) > 0 |
    count(is.infinite) > 0 & count(function(v) v %in% 0) > 0)
triples <- triples[!is_mixed, ]
greatest <- do.call(pmax, lapply(triples, abs))

expect_as_base <- function(f, ulp = 4) {
  got <- collect(gpu_map(gpu_compile(f), as_gpu(triples$a), as_gpu(triples$b), as_gpu(triples$c)))
  want <- mapply(f, triples$a, triples$b, triples$c)
  # R's long double rounds what is 2^64 times less than the largest number
  off <- pmax(ulp * 2^-52 * abs(want), 2^-60 * greatest * (greatest < 1e308), 5e-324)
  rounded <- abs(want) <= 2^-60 * greatest & abs(got) <= 2^-60 * greatest
  ok <- is.nan(got) == is.nan(want) & is.na(got) == is.na(want) &
    (is.na(want) | got == want | abs(got - want) <= off | rounded)
  wrong <- which(!ok)
  expect(!length(wrong), paste(deparse1(f), "of", deparse1(unlist(triples[wrong[1L], ])), "is", got[wrong[1L]], "not",
    want[wrong[1L]]))
}

test_that("sums and means pass the largest double", {
  expect_as_base(function(a, b, c) sum(c(a, b, c)))
  expect_as_base(function(a, b, c) mean(c(a, b, c)))
  expect_as_base(function(a, b, c) sum(rep(c(a, b, c), 10)))
  expect_as_base(function(a, b, c) cumsum(c(a, b, c))[2])
  expect_as_base(function(a, b, c) cumsum(c(a, b, c))[3])
})

test_that("variances have squares beyond it, and are NA of what is missing", {
  expect_as_base(function(a, b, c) var(c(a, b, c)), 16)
  expect_as_base(function(a, b, c) sd(rep(c(a, b, c), 10)), 16)
  expect_identical(collect(gpu_map(function(x) var(c(x)), as_gpu(1))), var(1))
})

test_that("products pass the least and the largest double", {
  expect_as_base(function(a, b, c) prod(c(a, b, c)))
  expect_as_base(function(a, b, c) prod(rep(c(a, b, c), 10)), 64)
  expect_as_base(function(a, b, c) cumprod(c(a, b, c))[3])
  f <- function(x) prod(c(1e308, x, 1e-300, 1e-290, 3))
  expect_equal(collect(gpu_map(f, as_gpu(c(1e300, -2, 0)))), vapply(c(1e300, -2, 0), f, 1), tolerance = 1e-14)
})

test_that("complex sums do in both parts", {
  z <- complex(real = c(1e308, -1e308), imaginary = c(1.6e308, -1))
  g <- function(z) sum(c(z, z, -z))
  got <- collect(gpu_map(g, as_gpu(z)))
  expect_identical(got, vapply(z, g, 1i))
})
