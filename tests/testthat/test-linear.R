# Matrix products: values, shapes, dimnames and errors as base R's.

test_that("%*% agrees with base R for all shapes", {
  found <- list()
  set.seed(3)
  draw <- function(type, n) switch(type, double = round(rnorm(n), 3), integer = sample(-9:9, n, TRUE), logical = sample(c(TRUE, FALSE), n, TRUE), complex = complex(real = round(rnorm(n), 2), imaginary = 1))
  for (type in c("double", "integer", "logical", "complex")) {
    m <- matrix(draw(type, 12L), 3L)
    named <- `dimnames<-`(m, list(letters[1:3], LETTERS[1:4]))
    operands <- list(m, named, t(m), t(named), m[1, , drop = FALSE], m[, 1, drop = FALSE], m[1, 1, drop = FALSE], m[0, ], m[, 0], draw(type, 3L), draw(type, 4L), draw(type, 1L),
                     setNames(draw(type, 3L), c("p", "q", "r")), draw(type, 0L), array(draw(type, 8L), c(2L, 2L, 2L)), `dimnames<-`(m, list(r = letters[1:3], NULL)))
    for (x in operands) for (y in operands) {
      what <- sprintf("%s %s %%*%% %s", type, deparse1(dim(x) %||% length(x)), deparse1(dim(y) %||% length(y)))
      found <- c(found, compare(`%*%`, list(x, y), ulp = 64, what = what))
      found <- c(found, compare(`%*%`, list(x, list(y)), ulp = 64, what = paste(what, "(host)")))
      found <- c(found, compare(`%*%`, list(list(x), y), ulp = 64, what = paste("(host)", what)))
    }
  }
  expect_all_same(found)
})

test_that("%*% of views, mixed types and missing values agrees with base R", {
  m <- matrix(values("double", 40L)[21:32], 3L)
  found <- list(
    compare(function(v) t(v) %*% v, list(m), ulp = 64, what = "t(m) %*% m"), compare(function(v) v[, 4:1] %*% t(v), list(m), ulp = 64, what = "reversed columns"),
    compare(`%*%`, list(m, matrix(1:8, 4L)), ulp = 64, what = "double by integer"), compare(`%*%`, list(m, matrix(1i, 4L, 1L)), ulp = 64, what = "double by complex"),
    compare(`%*%`, list(matrix(c(NA, 1, 2, 3), 2L), matrix(1:4 + 0, 2L)), ulp = 64, what = "with NA"), compare(`%*%`, list(matrix(c(Inf, 1, 2, 3), 2L), matrix(0, 2L, 2L)), ulp = 64, what = "with Inf"),
    compare(`%*%`, list(m, list("a")), what = "with a string"), compare(`%*%`, list(m, list(list(1))), what = "with a list"), compare(`%*%`, list(m, list(NULL)), what = "with NULL"))
  expect_all_same(found)
  expect_identical(gpu_dtype(gpu(m, "float32") %*% gpu(t(m), "float32")), "float32")
  expect_identical(gpu_device(gpu(m) %*% gpu(t(m))), test_device)
})

test_that("the products are as many as they were", {
  expect_cases(3000L)
})
