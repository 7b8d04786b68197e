# Medians and quantiles of readers, by two passes, against those of the whole.

withr::local_options(verdigris.device = test_device)

vectors <- function() {
  set.seed(44)
  list(
    doubles = round(rnorm(5000), 3), ties = rep(c(1, 2, 5), c(4000, 1, 999)), few = c(3, 1, 2), one = 7,
    sorted = as.double(1:5003), falling = as.double(5003:1), integers = sample.int(100L, 4001L, TRUE),
    logicals = c(TRUE, FALSE, TRUE), infinite = c(-Inf, rnorm(100), Inf, Inf), tiny = c(5e-324, -5e-324, 0, -0)
  )
}

test_that("quantiles of all types and medians are base R's", {
  for (name in names(vectors())) {
    v <- vectors()[[name]]
    for (memory in c(3 * 8 * 1700, if (!emulated) 3e6)) {
      x <- gpu_reader(v, memory = memory)
      expect_identical(median(x), median(v), label = name)
      if (is.logical(v)) next
      for (type in if (emulated) 7 else 1:9) expect_equal(quantile(x, c(0, 0.013, 0.5, 0.77, 1), type = type),
        quantile(v, c(0, 0.013, 0.5, 0.77, 1), type = type), tolerance = 1e-15, label = paste(name, type))
      expect_identical(quantile(x, 0.3, names = FALSE), quantile(v, 0.3, names = FALSE))
    }
  }
})

test_that("missing values, matrices, files and no elements are as in base R", {
  v <- c(vectors()$doubles, NA, NaN)
  x <- gpu_reader(v, memory = 3 * 8 * 700)
  expect_identical(median(x), NA_real_)
  expect_identical(median(x, na.rm = TRUE), median(v, na.rm = TRUE))
  expect_error(quantile(x), "missing values and NaN's not allowed")
  expect_equal(quantile(x, na.rm = TRUE), quantile(v, na.rm = TRUE))
  m <- matrix(round(rnorm(3000), 2), 1000)
  for (byrow in c(FALSE, TRUE)) {
    y <- gpu_reader(raw_file(if (byrow) t(m) else m), dim = dim(m), byrow = byrow, memory = blocks_of_rows(90, 3))
    expect_equal(quantile(y, 0.9), quantile(m, 0.9))
    expect_identical(median(y), median(m))
  }
  expect_identical(median(gpu_reader(numeric())), NA_real_)
  expect_identical(median(gpu_reader(integer())), NA_integer_)
  expect_equal(quantile(gpu_reader(numeric())), quantile(numeric()))
  float <- gpu_reader(raw_file(c(0.1, 0.3, 0.2), 4L), dtype = "float32")
  expect_equal(median(float), 0.2, tolerance = 1e-7)
})

test_that("what has no order is refused", {
  expect_error(median(gpu_reader(complex(real = 1:3))), class = "verdigris_error_reader")
  expect_error(median(gpu_reader(data.frame(a = 1:3))), class = "verdigris_error_reader")
  expect_error(quantile(gpu_reader(1:3), 2), "'probs' outside [0,1]", fixed = TRUE)
})

test_that("values between samples are found whatever the order of the blocks", {
  set.seed(45)
  for (turn in if (emulated) 4:5 else 1:6) {
    v <- switch(turn, rnorm(3e4), sort(rexp(3e4)), rev(sort(runif(3e4))), sample(1e3, 3e4, TRUE) + 0, rcauchy(3e4),
      rep(c(-1, 1), 15000) * rexp(3e4))
    x <- gpu_reader(v, memory = 3 * 8 * 9001)
    probs <- runif(20)
    expect_equal(quantile(x, probs, type = 1), quantile(v, probs, type = 1), tolerance = 0)
  }
})
