# Samples: base R's meaning of x, size, replace and prob; every element with its probability.

sampled <- function(..., seed = 1L) {
  set.seed(seed)
  collect(gpu_sample(..., device = test_device))
}
sampled_int <- function(..., seed = 1L) {
  set.seed(seed)
  collect(gpu_sample_int(..., device = test_device))
}

test_that("x is what base R takes it for", {
  expect_setequal(sampled(5), 1:5)
  expect_setequal(sampled(5.9), 1:5)
  expect_type(sampled(5), "integer")
  expect_length(sampled(5, 2), 2L)
  expect_setequal(sampled(c(5, 7)), c(5, 7))
  expect_identical(sampled(0.5), 0.5)
  expect_identical(sampled(TRUE), TRUE)
  expect_identical(sampled(integer()), integer())
  x <- c(a = 1.5, b = 2.5, c = 3.5)
  s <- sampled(x, 10, replace = TRUE)
  expect_identical(s, x[names(s)])
  expect_identical(sampled(matrix(1:4, 2), 4) |> sort(), 1:4)
  s <- sampled(gpu(x))
  expect_identical(s[names(x)], x)
  # what no device holds stays on the host
  expect_setequal(sampled(letters), letters)
  f <- sampled(factor(c("u", "v")), 5, replace = TRUE)
  expect_s3_class(f, "factor")
  expect_identical(levels(f), c("u", "v"))
  expect_type(sampled(list(1, "a"), 2), "list")
})

test_that("errors begin with base R's words, and have a class", {
  calls <- list(
    quote(sample.int(5, 6)), quote(sample.int(0, 1)), quote(sample.int(5, -1)), quote(sample.int(5, NA)),
      quote(sample.int(5, 2, prob = 1:3)),
    quote(sample.int(5, 3, prob = c(1, 1, 0, 0, 0))), quote(sample.int(5, 6, prob = 1:5)),
      quote(sample.int(5, 2, prob = c(1, NA, 1, 1, 1))),
    quote(sample.int(5, 2, prob = c(1, -1, 1, 1, 1))), quote(sample.int(5, 2, NA)),
      quote(sample.int(3, 2, TRUE, prob = c(0, 0, 0))), quote(sample.int(-1, 2, TRUE))
  )
  for (call in calls) {
    want <- tryCatch(eval(call), error = conditionMessage)
    call[[1L]] <- quote(gpu_sample_int)
    call$device <- "cpu"
    got <- tryCatch(eval(call), error = identity)
    expect_true(startsWith(conditionMessage(got), want), label = deparse(call))
    expect_s3_class(got, "verdigris_error_argument")
  }
})

test_that("with replacement every position is as likely", {
  x <- sampled_int(7, 70000, TRUE)
  expect_gt(chisq.test(tabulate(x, 7L))$p.value, 1e-3)
  expect_true(all(x %in% 1:7))
  # next to a power of two, where a remainder would be biased most: below and above the middle
  x <- sampled_int(2^52 * 0.75, 20000, TRUE, dtype = "float64")
  expect_gt(chisq.test(tabulate(findInterval(x, 2^52 * 0.25 * 0:2), 3L))$p.value, 1e-3)
  expect_type(sampled_int(3e9, 10, TRUE), "double")
})

test_that("probabilities are followed", {
  p <- c(1, 0, 2, 3, 0)
  x <- sampled_int(5, 60000, TRUE, p)
  expect_false(any(x %in% c(2L, 5L)))
  expect_gt(chisq.test(tabulate(x, 5L)[p > 0], p = p[p > 0] / 6)$p.value, 1e-3)
  # without replacement: the first is drawn by the weights, the second by those of the others
  set.seed(2)
  draws <- replicate(4000, collect(gpu_sample_int(3, 2, prob = c(1, 2, 3), device = "cpu")))
  pairs <- factor(paste(draws[1L, ], draws[2L, ]), c("1 2", "1 3", "2 1", "2 3", "3 1", "3 2"))
  w <- c(1, 2, 3) / 6
  want <- c(w[1] * w[2] / (1 - w[1]), w[1] * w[3] / (1 - w[1]), w[2] * w[1] / (1 - w[2]), w[2] * w[3] / (1 - w[2]),
    w[3] * w[1] / (1 - w[3]), w[3] * w[2] / (1 - w[3]))
  expect_gt(chisq.test(table(pairs), p = want)$p.value, 1e-3)
  expect_setequal(sampled_int(5, 3, prob = c(1, 1, 0, 1, 0)), c(1L, 2L, 4L))
})

test_that("permutations are all as likely", {
  set.seed(3)
  p <- replicate(6000, paste(collect(gpu_sample_int(3, device = "cpu")), collapse = ""))
  expect_gt(chisq.test(table(p))$p.value, 1e-3)
  expect_length(unique(p), 6L)
  x <- sampled_int(2000)
  expect_identical(sort(x), 1:2000)
  # a few of many, by another way
  x <- sampled_int(1e9, 500)
  expect_identical(anyDuplicated(x), 0L)
  expect_gt(ks.test(x / 1e9, "punif")$p.value, 1e-3)
})

test_that("samples are the same on every device", {
  skip_if(test_device == "cpu", "there is one device")
  for (f in list(function(d) gpu_sample_int(1000, 500, device = d), function(d) gpu_sample_int(1e6, 50, device = d),
    function(d) gpu_sample_int(9, 500, TRUE, device = d),
                 function(d) gpu_sample_int(5, 500, TRUE, c(1, 2, 0, 3, 1), device = d), function(d)
                   gpu_sample_int(50, 20, prob = 1:50, device = d))) {
    on <- lapply(c("cpu", test_device), function(device) {
      set.seed(7)
      collect(f(device))
    })
    expect_identical(on[[2L]], on[[1L]], label = deparse(body(f)))
  }
})
