# max.col(): ties and what is missing, against base R; also as on a GPU.

rows <- function(n, p, few, seed) {
  set.seed(seed)
  m <- matrix(if (few) sample(c(-1, 0, 0.5, 2), n * p, TRUE) else rnorm(n * p), n)
  if (seed %% 2L) m[sample.int(n * p, max(1L, n %/% 4L))] <- NA
  if (seed %% 3L == 0L) m[sample.int(n * p, max(1L, n %/% 4L))] <- NaN
  if (seed %% 5L == 0L) m[sample.int(n * p, max(1L, n))] <- sample(c(Inf, -Inf), max(1L, n), TRUE)
  m
}

# The result and the next draw.
drawn <- function(m, ...) {
  set.seed(5)
  y <- max.col(m, ...)
  c(as.vector(y), runif(1))
}

test_that("the places are base R's, and so is what is drawn", {
  run <- function() {
    found <- list()
    for (seed in 1:12) for (few in c(TRUE, FALSE)) for (d in list(c(1L, 1L), c(7L, 1L), c(1L, 7L), c(40L, 5L))) {
      m <- rows(d[1L], d[2L], few, seed)
      what <- paste(seed, few, paste(d, collapse = "x"))
      found <- c(found, compare(function(m) drawn(m), list(m), what = what), compare(function(m) max.col(m, "first"),
        list(m), what = what), compare(function(m) max.col(m, "last"), list(m), what = what))
    }
    found
  }
  expect_all_same(run())
  expect_composed_same(run)
})

test_that("elements within the tolerance are ties, also where a larger one follows", {
  m <- rbind(c(1, 1 + 1e-7, 5), c(1, 1 - 1e-6, 0), c(1e5, 1, 1), c(-Inf, -Inf, -Inf), c(Inf, Inf, 1), c(1, 1, 1),
    c(0, -0, 1e-9), c(NA, 1, 1), c(1, 2, NaN))
  run <- function() list(compare(function(m) drawn(m), list(m), what = "double"), compare(function(m) drawn(m),
    list(m), dtype = "float32", what = "single"), compare(function(m) drawn(m), list(round(m)), what = "whole"))
  expect_all_same(run())
  expect_composed_same(run)
})

test_that("other types and shapes, and wrong calls, are base R's", {
  set.seed(1)
  run <- function() {
    i <- matrix(sample.int(5L, 60L, TRUE), 12)
    wide <- matrix(rnorm(200), 2)
    list(compare(function(m) drawn(m), list(i), what = "integer"), compare(function(m) max.col(m, "last"), list(i > 2),
      what = "logical"), compare(function(m) drawn(m), list(i > 2), what = "logical"), compare(function(m)
      max.col(m), list(1:4 + 0), what = "vector"), compare(function(m) drawn(m), list(wide), what = "wide"),
      compare(function(m) max.col(m, ties.method = "l"), list(i), what = "part of a word"), compare(function(m)
        max.col(m, "second"), list(i), what = "wrong"), compare(function(m) max.col(m, 1), list(i), what = "number"),
      compare(function(m) max.col(t(m), "first"), list(i), what = "view"), compare(function(m) max.col(-m * 2, "first"),
        list(wide), what = "recorded"), compare(function(m) max.col(m[0L, , drop = FALSE]), list(wide), what = "none"))
  }
  expect_all_same(run())
  expect_composed_same(run)
  expect_true(is_gpu(max.col(gpu(matrix(1:4, 2)), "first")))
  expect_identical(max.col(matrix(1:4, 2), "first"), c(2L, 2L))
  # its dots take nothing
  for (m in list(matrix(1:4, 2), gpu(matrix(1:4, 2)))) expect_error(max.col(m, nosuch = 2), "unused argument (nosuch = 2)",
    fixed = TRUE)
})
