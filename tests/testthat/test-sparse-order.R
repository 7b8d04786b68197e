# Order statistics, extremes and spreads of sparse matrices, against base R on dense matrices.

skip_if_not_installed("Matrix")

dense_kind <- function(name, call) FALSE

test_that("medians, quantiles and spreads of all elements are base R's", {
  calls <- c("median(S)", "median(S, na.rm = TRUE)", "quantile(S)", "quantile(S, na.rm = TRUE)",
    "quantile(S, c(0.9, 0.1, 0.5), names = FALSE, na.rm = TRUE)", "quantile(T, numeric())", "quantile(T, c(0.2, NA))",
    "quantile(T, 2)", sprintf("quantile(T, c(0, 0.05, 0.3, 0.77, 1), type = %d)", 1:9), "IQR(S)",
    "IQR(S, na.rm = TRUE)", "mad(S)", "mad(S, na.rm = TRUE)", "mad(S, 1)", "sd(S)", "sd(S, na.rm = TRUE)",
    "fivenum(S)")
  expect_same_sparse(calls, of = "base", kind = dense_kind)
  expect_same_sparse(calls, of = "base", kind = dense_kind, front = beside_matrix)
})

test_that("extremes are found at base R's places", {
  calls <- c("which.max(S)", "which.min(S)", "which.max(-abs(S))", "which.min(abs(S))", "which.max(S > 0)",
    "which.min(S > 0)", "which.max(S * 0)", "which.min(abs(S) + 1)")
  expect_same_sparse(calls, of = "base", kind = dense_kind)
  expect_type(which.max(as_gpu(sparse_inputs()$plain, device = test_device)), "integer")
})

test_that("tests of ifelse() are taken as their elements", {
  calls <- c("ifelse(S > 0, 1, 0)", "ifelse(S > 0, S, T)", "ifelse(S > 0, S, 0)", "ifelse(S, 1, 2)",
    "ifelse(S > 0, d, 1:3)", 'ifelse(S > 0, "a", "b")')
  # without extents, as of Matrix's objects
  expect_same_sparse(calls, kind = dense_kind, skip = function(name, call) grepl("S, T|S, 0", call) && name == "empty")
  expect_true(is_gpu(ifelse(as_gpu(sparse_inputs()$plain, device = test_device) > 0, 1, 0)))
})

test_that("medians and quantiles of rows and columns are base R's", {
  few <- c("median", "quantile", "quantile, 0.3", "quantile, c(0.9, 0.25, 0)", "quantile, probs = 0.5, names = FALSE",
    "quantile, c(0.1, 0.8), names = FALSE", "quantile, c(0.1, 0.8), type = 6", "median, na.rm = TRUE",
    "quantile, na.rm = TRUE", "quantile, 0.5, TRUE", "quantile, 3", "quantile, na.rm = NA")
  calls <- c(sprintf("apply(S, 1, %s)", few), sprintf("apply(S, 2, %s)", few))
  expect_same_sparse(calls, of = "base", kind = dense_kind)
  S <- as_gpu(sparse_inputs()$named, device = test_device)
  for (out in list(apply(S, 1, median), apply(S, 2, quantile), apply(S, 2, quantile, 0.5))) expect_true(is_gpu(out))
  narrow <- as_gpu(sparse_inputs()$named, device = test_device, dtype = "float32")
  expect_identical(gpu_dtype(apply(narrow, 1, median)), "float32")
  expect_equal(collect(apply(narrow, 1, median)), apply(as.matrix(narrow), 1, median), tolerance = 1e-6)
})

test_that("statistics of a matrix too large to be dense need its stored elements alone", {
  skip_if(emulated)
  n <- 60000L
  S <- gpu_sparse(i = c(1:3, n), j = c(1:3, n), x = c(-2, 5, NA, 5), dim = c(n, n), device = test_device)
  T <- S
  T@x[3] <- 1
  expect_identical(median(T), 0)
  expect_identical(unname(quantile(T, c(0, 1))), c(-2, 5))
  expect_identical(median(S), NA_real_)
  expect_error(quantile(S), "missing values and NaN's not allowed")
  expect_identical(IQR(T), 0)
  expect_identical(mad(T), 0)
  expect_equal(sd(T), sqrt((55 - 81 / n^2) / (n^2 - 1)))
  expect_identical(which.max(S), n + 2L)
  expect_identical(which.min(S), 1L)
  expect_identical(which.min(T[, -1]), 1L)
  expect_identical(collect(apply(T, 2, median)), double(n))
  expect_identical(sum(apply(T, 1, quantile, 1)), 11)
})
