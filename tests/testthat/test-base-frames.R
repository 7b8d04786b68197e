# Data frames of arrays as matrices, beside base R's of ordinary columns.

frames <- function() {
  numbers <- data.frame(a = c(1, NA, 3.5, -2), b = c(4, 5, 6, Inf))
  mixed <- data.frame(i = 1:4, l = c(TRUE, NA, FALSE, TRUE), x = c(.5, 1, 2, 3))
  list(numbers = numbers, mixed = mixed, integer = data.frame(i = 1:3, j = c(4L, NA, 6L)),
    logical = data.frame(p = c(TRUE, FALSE), q = c(NA, TRUE)), complex = data.frame(z = c(1i, 2), x = c(1, 2)),
    named = data.frame(a = c(1, 2), b = 3:4, row.names = c("r", "s")), subset = numbers[c(3L, 1L), ],
    one = data.frame(a = c(1, 2)), row = data.frame(a = 1, b = 2L), text = data.frame(a = 1:2, b = c("x", "y")),
    factor = data.frame(a = 1:2, f = factor(c("u", "v"))), none = data.frame(a = numeric(), b = integer()),
    empty = data.frame(), dates = data.frame(d = as.Date("2020-01-01") + 0:1, a = 1:2),
    matrix = data.frame(a = 1:2, m = I(matrix(1:4, 2))))
}
calls <- expression(as.matrix(d), as.matrix(d, rownames.force = TRUE), as.matrix(d, rownames.force = FALSE),
  data.matrix(d), data.matrix(d, TRUE), colSums(d), colSums(d, na.rm = TRUE), rowSums(d), rowMeans(d, TRUE), colMeans(d),
  rowSums(d, dims = 2), cov(d), cor(d), cor(d, use = "complete.obs"), cor(d, method = "spearman"), var(d),
  var(d, na.rm = TRUE), cov(d, d[[1L]]), dist(d), apply(d, 2, max), apply(d, 1, function(v) sum(v)), apply(d, 1:2, abs))

test_that("matrices and margins of data frames are base R's", {
  found <- frames()
  for (name in names(found)) for (k in seq_along(calls)) {
    d <- found[[name]]
    want <- tryCatch(suppressWarnings(eval(calls[[k]])), error = identity)
    d <- as_gpu(d, device = test_device)
    got <- tryCatch(suppressWarnings(eval(calls[[k]])), error = identity)
    label <- paste(name, deparse1(calls[[k]]))
    if (inherits(want, "error")) {
      expect_identical(conditionMessage(got), conditionMessage(want), label = label)
      expect_identical(class(got), class(want), label = label)
    } else {
      expect_equal(collect(got), want, label = label, tolerance = 1e-14)
      expect_identical(typeof(got), typeof(want), label = label)
    }
  }
})

test_that("they stay on the device", {
  d <- as_gpu(data.frame(a = c(1, 2, 4), b = 3:1), device = test_device)
  for (k in c(1L, 4L, 6L, 8L)) expect_s3_class(eval(calls[[k]], list(d = d), globalenv()), "gpu_array")
  for (f in list(cov, cor, var)) expect_identical(is_gpu(f(d)), is_gpu(f(as.matrix(d))))
  # a column of each kind of place has no common one
  d$c <- c(1, 2, 3)
  expect_false(is_gpu(as.matrix(d)))
  d$c <- NULL
  d$b <- gpu_cast(d$b, "int64")
  expect_false(is_gpu(suppressWarnings(as.matrix(d))))
})

test_that("other objects go to base R with the call that was written", {
  expect_identical(as.matrix(mtcars), base::as.matrix(mtcars))
  expect_identical(colSums(mtcars), base::colSums(mtcars))
  expect_identical(as.matrix(1:3), base::as.matrix(1:3))
  said <- function(f) tryCatch(f(data.frame(a = "x")), error = identity)
  expect_identical(conditionMessage(said(colSums)), conditionMessage(said(base::colSums)))
  local({
    as.matrix.some_class <- function(x, ...) "theirs"
    expect_identical(as.matrix(structure(list(), class = "some_class")), "theirs")
  })
})
