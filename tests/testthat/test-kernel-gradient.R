# Gradients of compiled functions, against deriv() and numeric differences.

x <- c(0.3, 0.7, 1.4, 2.2)

# The derivative of sum(f(x, a)) by numeric differences in R (five points).
numeric_gradient <- function(f, at, h = 1e-3) {
  vapply(seq_along(at), function(k) {
    value <- function(d) {
      at[k] <- at[k] + d
      f(at)
    }
    (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h)
  }, 0)
}

expect_gradient <- function(f, a, ..., tolerance = 1e-7) {
  slope <- gpu_grad(f, "a")
  got <- slope(gpu(x), a)
  total <- function(a) sum(mapply(f, x, a))
  expect_equal(got[["a"]], numeric_gradient(total, a), tolerance = tolerance, info = deparse1(f))
  expect_equal(attr(got, "value"), total(a), tolerance = 1e-12, info = deparse1(f))
}

test_that("functions of one number have the derivatives that deriv() has", {
  rules <- expression(
    -a * x, exp(a * x), expm1(a * x), log(a * x), log2(a * x), log10(a * x), log1p(a * x), sqrt(a * x), sin(a * x),
    cos(a * x), tan(a * x),
    asin(a * x / 5), acos(a * x / 5), atan(a * x), sinh(a * x), cosh(a * x), gamma(a + x), lgamma(a + x),
    digamma(a + x), trigamma(a + x),
    a + x, x - a, a - x, a * x * a, x / a, a / x, a / (a + x), x^a, a^x, (a * x)^3, a^(a * x), pnorm(a * x),
    dnorm(a * x)
  )
  for (k in if (emulated) 7L else seq_along(rules)) {
    f <- function(x, a) NULL
    body(f) <- rules[[k]]
    want <- deriv(rules[[k]], "a", function(x, a) NULL)(x, 0.8)
    got <- gpu_grad(f, "a")(gpu(x), 0.8)
    expect_equal(got[["a"]], sum(attr(want, "gradient")), tolerance = 1e-12, info = deparse1(rules[[k]]))
    expect_equal(attr(got, "value"), sum(want), tolerance = 1e-12, info = deparse1(rules[[k]]))
  }
})

test_that("and those that it has not agree with numeric differences", {
  functions <- list(
    function(x, a) tanh(a * x), function(x, a) asinh(a * x), function(x, a) acosh(1 + a * x),
    function(x, a) atanh(a * x / 5),
    function(x, a) abs(a - x), function(x, a) log(x + 1, a + 1), function(x, a) log(a, x + 1.5),
    function(x, a) atan2(a, x), function(x, a) atan2(x, a),
    function(x, a) (a * x) %% 0.7, function(x, a) x * floor(a * x) + a, function(x, a) ifelse(x > 1, a * x, a^2),
    function(x, a) pmin(a, x) + pmax(a * a, x),
    function(x, a) beta(a, x), function(x, a) lbeta(x, a), function(x, a) dnorm(x, a, 1 + a),
    function(x, a) dnorm(x, a, a, log = TRUE), function(x, a) pnorm(x, a, 2),
    function(x, a) pnorm(x, a, a, lower.tail = FALSE), function(x, a) pnorm(x, a, 1, log.p = TRUE),
    function(x, a) pnorm(a * x, lower.tail = FALSE, log.p = TRUE),
    function(x, a) qnorm(x / 3, a, 1 + a), function(x, a) x^a * a^2, function(x, a) round(a * x) + a,
    function(x, a) sum(c(a, x, a * x)), function(x, a) mean(c(a, x)^2),
    function(x, a) max(a * x, 1), function(x, a) var(c(a, x, 1)), function(x, a) prod(c(a, x, a)),
    function(x, a) crossprod(c(a, x), c(x, a))[1]
  )
  for (f in if (emulated) functions[4] else functions) expect_gradient(f, 0.83)
})

test_that("loops, conditions, local vectors and helpers", {
  helper <- function(u, v = 2) if (u > 1) u^v else v * u
  functions <- list(
    function(x, a) { s <- 0; for (k in 1:5) s <- s * a + x / k; s },
    function(x, a) { y <- x; while (y < 5) y <- y * (1 + a); y },
    function(x, a) { if (x > 1) return(a * x); b <- a * a; b + x },
    function(x, a) { v <- numeric(4); for (k in 1:4) v[k] <- a^k * x; sum(v) - v[2] * v[3] },
    function(x, a) { v <- c(1, a, x); v[2] <- v[2] * v[3]; w <- v + v; sum(w * v) },
    function(x, a) { m <- matrix(c(a, x, 1, a * x), 2, 2); m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1] },
    function(x, a) helper(a * x) + helper(x, a),
    function(x, a) { y <- a; for (k in 1:20) y <- y - (y * y - a * x) / (2 * y); y },
    function(x, a) { s <- 0; for (k in 1:10) { if (k %% 2 == 0) next; s <- s + a^k / k; if (s > 1) break }; s * x },
    function(x, a) { f <- function(u) u * a; f(f(x)) }
  )
  for (f in if (emulated) functions[4] else functions) expect_gradient(f, 0.83)
})

test_that("several parameters, captured numbers and vectors", {
  f <- function(x, a, b) exp(-a * x) * sin(b * x)
  got <- gpu_grad(f, c("a", "b"))(gpu(x), 0.5, 1.5)
  expect_named(got, c("a", "b"))
  expect_equal(as.vector(got), numeric_gradient(function(p) sum(f(x, p[1], p[2])), c(0.5, 1.5)), tolerance = 1e-8)

  scale <- 2.5
  g <- gpu_grad(function(x) log(scale + x^2), "scale")
  expect_equal(g(gpu(x))[["scale"]], sum(1 / (2.5 + x^2)), tolerance = 1e-12)
  scale <- 3.5
  expect_equal(g(gpu(x))[["scale"]], sum(1 / (3.5 + x^2)), tolerance = 1e-12)

  beta <- c(0.2, -0.4, 0.1)
  poly <- function(x) { s <- 0; for (k in seq_along(beta)) s <- s + beta[k] * x^(k - 1); (s - 1)^2 }
  got <- gpu_grad(poly, "beta")(gpu(x))
  design <- outer(x, 0:2, `^`)
  expect_equal(as.vector(got), as.vector(2 * crossprod(design, design %*% beta - 1)), tolerance = 1e-10)
  expect_named(got, c("beta1", "beta2", "beta3"))

  whole <- gpu_grad(function(x, beta) (beta[1] + beta[2] * x)^2, "beta", whole = "beta")
  got <- whole(gpu(x), c(0.5, 2))
  expect_equal(as.vector(got), c(sum(2 * (0.5 + 2 * x)), sum(2 * (0.5 + 2 * x) * x)), tolerance = 1e-12)
})

test_that("draws keep their standard draw", {
  f <- function(m, s) rnorm(1, m, s)
  slope <- gpu_grad(f, c("m", "s"))
  set.seed(3)
  got <- slope(gpu(rep(1, 100)), 2)
  set.seed(3)
  drawn <- collect(gpu_map(f, gpu(rep(1, 100)), 2))
  expect_equal(got[["m"]], 100)
  expect_equal(got[["s"]], sum((drawn - 1) / 2), tolerance = 1e-10)
})

test_that("what has no derivative is refused", {
  expect_error(gpu_grad(function(x, a) besselJ(x, a), "a")(gpu(x), 1), class = "verdigris_error_compile")
  expect_error(gpu_grad(function(x, a) c(a, x), "a")(gpu(x), 1), class = "verdigris_error_argument")
  expect_error(gpu_grad(function(x, a) x, "b")(gpu(x), 1), class = "verdigris_error_argument")
  expect_error(gpu_grad(function(x, a) x * a, "a")(gpu(x), 1L), class = "verdigris_error_dtype")
  expect_error(gpu_grad(function(x, a) x * a, character()), class = "verdigris_error_argument")
})

test_that("a compiled function's own settings hold", {
  f <- gpu_compile(function(x, w) x * w[3L], whole = "w", bounds = "NA")
  expect_equal(gpu_grad(f, "x")(gpu(c(1, 2)), gpu(c(5, 6, 7)))[["x"]], 14)
  expect_identical(environment(gpu_grad(f, "x"))$bounds, "NA")
  expect_identical(environment(gpu_grad(f, "x", bounds = "error"))$bounds, "error")
})
