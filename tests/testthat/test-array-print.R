info <- function(x) verdigris:::gpu_info(x)

test_that("arrays show what they are", {
  skip_if(test_device != "cpu")
  local_reproducible_output(width = 80)
  expect_snapshot({
    gpu(c(a = 1, b = 2))
    gpu(c(TRUE, NA))
    gpu(1:1000)
    gpu(matrix(1:6, 2), "float32")
    gpu(matrix(1:6000 / 2, 60, dimnames = list(NULL, paste0("c", 1:100))))
    gpu(array(1:240, c(40, 3, 2)))
    gpu(ts(1:12, start = 2000, frequency = 12))
    gpu(double())
    str(gpu(1:1000))
    str(gpu(c(a = 1, b = 2)))
    str(gpu(c(1, 2)) + 1)
    str(list(x = gpu(matrix(1:4, 2))))
    format(gpu(c(1, 2.5)))
    format(gpu(c(1, 2.5)), what = "header")
    data.frame(x = gpu(1:2), y = c("a", "b"))
  })
})

test_that("showing fetches no more than it shows", {
  withr::local_options(verdigris.host_access = "error")
  x <- gpu(matrix(1:1e6, 1000))
  y <- gpu(1:1e6)
  expect_output(print(x), "990 more rows")
  expect_output(print(y), "999,980 more")
  expect_output(str(x))
  expect_s3_class(object.size(x), "object_size")
  expect_false(info(x)$host || info(y)$host)
})

test_that("an editor's questions compute nothing", {
  x <- gpu(c(1, 2)) + 1
  utils::capture.output(str(x), str(list(x)))
  object.size(x)
  utils:::.DollarNames(x, "a")
  names(x)
  class(x)
  format(x, what = "header")
  expect_gt(info(x)$pending, 0)
})

test_that("a summary is base R's", {
  for (v in list(c(1, 2, 3, NA), c(5, 1, 2), 1:10, c(TRUE, NA, FALSE), matrix(1:4, 2))) {
    expect_identical(utils::capture.output(summary(gpu(v))), utils::capture.output(summary(v)))
  }
})
