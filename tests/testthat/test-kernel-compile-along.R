# Margins, neighbourhoods, reductions, scans and sorts by R functions, compared with loops in R.

m <- matrix(c(1.5, NA, 3, -2, 5, 0, 7, 8, 2, 1, -4, 6), 3, dimnames = list(letters[1:3], NULL))
whole <- matrix(c(3L, 1L, 2L, 9L, 8L, 7L), 2)

test_that("gpu_apply() gives what apply() gives", {
  functions <- list(
    function(v) max(v) - min(v), function(v) sum(v * v),
    function(v) { s <- 0; for (x in v) if (!is.na(x) && x > 0) s <- s + x; s }, function(v) v[1] + v[length(v)],
    function(v) { n <- 0L; for (k in seq_along(v)) if (is.na(v[k])) n <- n + 1L; n }
  )
  for (f in functions) for (margin in 1:2) expect_equal(collect(gpu_apply(gpu(m), margin, f)), apply(m, margin, f),
    info = deparse1(f))
  expect_identical(collect(gpu_apply(gpu(whole), 1, function(v, k) sum(v) * k, 2L)),
    apply(whole, 1, function(v) sum(v) * 2L))
  expect_equal(collect(gpu_apply(gpu(whole), 2, function(v) c(min(v), max(v)))), t(apply(whole, 2, range)))
  expect_identical(collect(gpu_apply(whole, 1, function(v) which.max(v))), apply(whole, 1, which.max))
  expect_error(gpu_apply(gpu(1:3), 1, sum), class = "verdigris_error_shape")
  expect_error(gpu_apply(gpu(m), 3, function(v) v[1]), class = "verdigris_error_argument")
})

# What stands at a place, by the rule for borders.
beyond <- function(x, k, edge) {
  n <- length(x)
  if (k >= 1 && k <= n) return(x[k])
  switch(as.character(edge), wrap = x[(k - 1) %% n + 1], clamp = x[min(max(k, 1), n)],
         reflect = { j <- (k - 1) %% max(2 * n - 2, 1); x[1 + if (j < n) j else 2 * n - 2 - j] }, edge)
}

test_that("gpu_stencil() sees each neighbourhood", {
  x <- c(1, 4, 9, 16, 25)
  f <- function(w) w[1] - 2 * w[2] + w[3]
  for (edge in list(NA, 0, "wrap", "clamp", "reflect")) {
    want <- vapply(seq_along(x), function(k) as.numeric(f(c(beyond(x, k - 1, edge), x[k], beyond(x, k + 1, edge)))), 0)
    expect_identical(collect(gpu_stencil(gpu(x), f, 1, edge)), want, info = edge)
  }
  expect_identical(collect(gpu_stencil(gpu(1:6), function(w) w[5] - w[1], 2)), c(NA, NA, 4L, 4L, NA, NA))
  # the game of life, on a torus
  set.seed(2)
  board <- matrix(sample(0:1, 42, TRUE), 6)
  life <- function(w) { n <- sum(w) - w[2, 2]; if (n == 3L || n == 2L && w[2, 2] == 1L) 1L else 0L }
  around <- function(i, j) board[(i + -1:1 - 1) %% 6 + 1, (j + -1:1 - 1) %% 7 + 1]
  want <- outer(1:6, 1:7, Vectorize(function(i, j) as.integer(life(around(i, j)))))
  expect_identical(collect(gpu_stencil(gpu(board), life, 1, "wrap")), want)
  expect_identical(collect(gpu_stencil(gpu(m), function(w) w[2, 2], 1)), m)
  expect_error(gpu_stencil(gpu(x), f, 9), class = "verdigris_error_argument")
  expect_error(gpu_stencil(gpu(x), f, 1, "other"), class = "verdigris_error_argument")
})

test_that("gpu_reduce(), gpu_scan() and gpu_sort_by() give what R's loops give", {
  set.seed(4)
  for (n in c(1L, 2L, 63L, 65L, if (emulated) 70L else 5000L)) {
    x <- sample(-20:20, n, TRUE)
    # the larger by absolute value, the first of equal ones: associative, not commutative
    f <- function(a, b) if (abs(b) > abs(a)) b else a
    expect_identical(collect(gpu_reduce(gpu(x), f)), Reduce(f, x), info = n)
    expect_identical(collect(gpu_reduce(gpu(x), f, init = 0L)), Reduce(f, x, 0L), info = n)
    expect_identical(collect(gpu_scan(gpu(x), f)), Reduce(f, x, accumulate = TRUE), info = n)
    before <- function(a, b) a %% 5L < b %% 5L
    expect_identical(collect(gpu_sort_by(gpu(x), before)), x[order(x %% 5L)], info = n)
  }
  expect_identical(collect(gpu_reduce(gpu(numeric()), function(a, b) a + b, init = 2)), 2)
  expect_error(gpu_reduce(gpu(numeric()), function(a, b) a + b), class = "verdigris_error_argument")
  expect_error(gpu_reduce(gpu(c(1, 2)), function(a, b) c(a, b)), class = "verdigris_error_argument")
})

test_that("outer(), Map(), mapply() and sapply() take compiled functions", {
  f <- gpu_compile(function(x, y) if (x > y) x - y else 0)
  expect_identical(collect(outer(gpu(c(1, 5)), c(0, 2, 9), f)),
    outer(c(1, 5), c(0, 2, 9), Vectorize(function(x, y) if (x > y) x - y else 0)))
  g <- gpu_compile(function(x) x * 2)
  expect_identical(as.numeric(sapply(gpu(c(1, 2)), g)), c(2, 4))
})
