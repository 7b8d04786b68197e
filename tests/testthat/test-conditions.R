test_condition <- function(what, text) .Call(verdigris:::C_test_condition, what, text)
odd <- "100% {of} %s %n \\ \"it\" \u00e9"

test_that("errors have classes, and their text is taken literally", {
  e <- tryCatch(test_condition("error", odd), error = identity)
  expect_s3_class(e, c("verdigris_error_shape", "verdigris_error", "rlang_error", "error", "condition"), exact = TRUE)
  expect_match(conditionMessage(e), odd, fixed = TRUE)
  expect_identical(e$detail, odd)
  expect_identical(e$kind, "shape")
})

test_that("a panic is an error, and the next call works", {
  e <- tryCatch(test_condition("panic", odd), error = identity)
  expect_s3_class(e, "verdigris_error_panic")
  expect_match(conditionMessage(e), odd, fixed = TRUE)
  expect_match(e$detail, "entries.rs")
  expect_identical(as.vector(gpu(1)), 1)
})

test_that("warnings are base R's, with the call that recorded the operation", {
  w <- tryCatch(test_condition("warning", odd), warning = identity)
  expect_s3_class(w, c("simpleWarning", "warning", "condition"), exact = TRUE)
  expect_identical(conditionMessage(w), odd)
  expect_warning(expect_true(test_condition("warning", "one")), "one")
  w <- tryCatch(as_gpu(3e9, dtype = "int32", device = test_device), warning = identity)
  expect_identical(conditionMessage(w), "NAs introduced by coercion to integer range")
  expect_identical(conditionCall(w)[[1]], quote(as_gpu))
})

test_that("a warning of a recorded operation comes when it is computed, once", {
  x <- sqrt(gpu(c(-1, 4)))
  expect_warning(v <- as.vector(x), "NaNs produced")
  expect_identical(v, c(NaN, 2))
  expect_no_warning(as.vector(x))
  x <- sqrt(gpu(c(-1, 4)))
  expect_warning(order(x), "NaNs produced")
})

test_that("a warning that is an error leaves the array usable", {
  x <- sqrt(gpu(c(-1, 4)))
  withr::local_options(warn = 2)
  expect_error(order(x), "NaNs produced")
  expect_error(as.vector(sqrt(gpu(-1))), "NaNs produced")
  withr::local_options(warn = 0)
  expect_identical(as.vector(x), c(NaN, 2))
})

test_that("wrong arguments are refused by name", {
  # the messages alone: how testthat shows a condition differs between its versions
  said <- function(expr) {
    e <- tryCatch(expr, verdigris_error = identity)
    cat(class(e)[1], "\n", conditionMessage(e), "\n\n", sep = "")
  }
  local_reproducible_output()
  expect_snapshot({
    said(as_gpu("a"))
    said(as_gpu(factor("a")))
    said(as_gpu(Sys.Date()))
    said(as_gpu(list(1)))
    said(as_gpu(NULL))
    said(as_gpu(1, dtype = "int33"))
    said(as_gpu(1, device = "tpu"))
    said(as_gpu(1, dtype = 1))
    said(gpu_dtype(1))
    said(gpu_zeros(-1))
    said(gpu_full(1:2, 3))
    said(gpu_seq(1))
  })
})
