# ifelse(): type, values and attributes compared with base R's, for every combination of branches that are taken.

tests <- list(c(TRUE, FALSE), c(TRUE, NA), c(FALSE, NA), c(NA, NA), logical(), TRUE, FALSE, NA, c(a = TRUE, b = FALSE),
  matrix(c(TRUE, TRUE), 1), matrix(logical(), 0, 2), c(1, 0, NA), c(2, 3), c(0L, NA), c(1i, 0), array(FALSE, 1L), NaN)
branches <- list(0, 1L, TRUE, 2i, 1:2, c(0.5, 1.5, 2), logical(), numeric(), NA, c(n = 3))

test_that("only the values that are used decide the type", {
  found <- list()
  for (test in tests) for (yes in branches) for (no in branches) {
    # values of one type keep it, which spares the call a wait
    if (length(test) && all(is.na(test)) && typeof(yes) == typeof(no)) next
    what <- paste(deparse1(test), deparse1(yes), deparse1(no))
    found <- c(found, compare(ifelse, list(test, list(yes), list(no)), what = what))
    if (length(yes) && length(no)) found <- c(found, compare(ifelse, list(test, yes, no), what = what))
  }
  expect_all_same(found)
})

test_that("an array of missing tests keeps the type of yes and no", {
  x <- ifelse(gpu(c(NA, NA)), 1, 2)
  expect_identical(collect(x), c(NA_real_, NA_real_))
})

test_that("narrow dtypes and int64 count as types of their own", {
  x <- gpu(1:6, "int64")
  expect_identical(gpu_dtype(ifelse(is.na(x), 0L, x)), "int64")
  expect_identical(gpu_dtype(ifelse(x > 3L, 0L, x)), "int64")
  expect_identical(gpu_dtype(ifelse(x > 0L, 0L, x)), "int32")
  y <- gpu(c(0.5, 1.5), "float32")
  expect_identical(gpu_dtype(ifelse(y > 1, y, 0L)), "float32")
  expect_identical(gpu_dtype(ifelse(y > 0, y, 0L)), "float32")
  expect_identical(gpu_dtype(ifelse(y < 0, y, 0)), "float32")
  expect_identical(gpu_dtype(ifelse(y < 0, y, 0L)), "int32")
})

expect_cases(2500L)
