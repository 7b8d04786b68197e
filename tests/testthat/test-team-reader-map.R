# Readers that are computed when they are read: elementwise functions and scale().

withr::local_options(verdigris.device = test_device)
set.seed(46)
whole <- matrix(round(rexp(60), 2), 15, dimnames = list(NULL, letters[1:4]))
whole[c(4, 50)] <- NA

read_of <- function(m, env = parent.frame()) list(
  gpu_reader(raw_file(m, env = env), dim = dim(m), dimnames = dimnames(m), memory = blocks_of_rows(4, 4)),
  gpu_reader(raw_file(m, env = env), dim = dim(m), dimnames = dimnames(m), memory = 3 * 8 * 15 * 2),
  gpu_reader(raw_file(t(m), env = env), dim = dim(m), byrow = TRUE, dimnames = dimnames(m)),
  gpu_reader(function(rows) m[rows, , drop = FALSE], dim = nrow(m), memory = blocks_of_rows(7, 4)))

calls <- alist(log(x), log(x, 2), sqrt(x) + 1, 2 - x, x^2, -x, !x, x > 0.5, x == 1, is.na(x), is.finite(x), round(x, 1),
  signif(x, 1), x %/% 0.3, abs(x - 1) < 0.5, exp(-x / 2) * 3, is.nan(x), is.infinite(1 / (x * 0)))

test_that("elementwise functions are the whole's", {
  for (x in read_of(whole)[if (emulated) 2 else 1:4]) for (call in calls) {
    want <- eval(call, list(x = whole))
    got <- eval(call, list(x = x))
    expect_s3_class(got, "gpu_reader")
    expect_equal(collect(got), want, tolerance = 1e-14, label = deparse1(call))
    expect_equal(got[3:5, ], want[3:5, ], tolerance = 1e-14)
    expect_equal(got[, c("b", "d")], want[, c("b", "d")], tolerance = 1e-14)
    expect_equal(colMeans(got), colMeans(want), tolerance = 1e-12)
    expect_identical(typeof(sum(got, na.rm = TRUE)), if (is.logical(want)) "integer" else "double")
  }
  v <- gpu_reader(1:10 + 0.5, memory = 3 * 8 * 3)
  expect_equal(sum(v * 2), sum((1:10 + 0.5) * 2))
  expect_equal(quantile(sqrt(v)), quantile(sqrt(1:10 + 0.5)))
})

test_that("what needs other rows or two readers is refused", {
  x <- read_of(whole)[[1L]]
  for (call in alist(x + x, x + 1:15, cumsum(x), x > "a", round(x, 1:2), log(x, 1:15)))
    expect_error(eval(call), class = "verdigris_error_reader", label = deparse1(call))
  expect_error(log(gpu_reader(data.frame(a = 1:3))), class = "verdigris_error_reader")
})

test_that("scale() is base R's, and columns of what needs whole rows can be read", {
  for (m in list(whole, whole[, 1:4] * 1e3 - 7)) for (x in read_of(m)[if (emulated) 1 else 1:4]) {
    for (arguments in list(list(), list(scale = FALSE), list(center = FALSE), list(center = 1:4, scale = c(2, 1, 4, 3)),
      list(FALSE, FALSE))) {
      want <- do.call(scale, c(list(m), arguments))
      got <- do.call(scale, c(list(x), arguments))
      expect_equal(collect(got), want, ignore_attr = c("scaled:center", "scaled:scale"), tolerance = 1e-12)
      expect_equal(attr(got, "scaled:center"), attr(want, "scaled:center"))
      expect_equal(attr(got, "scaled:scale"), attr(want, "scaled:scale"))
      expect_equal(got[, 2:3], want[, 2:3], tolerance = 1e-12)
      expect_equal(got[5, 1, drop = FALSE], want[5, 1, drop = FALSE], tolerance = 1e-12)
    }
  }
  expect_error(scale(x, 1:3), "length of 'center' must equal the number of columns of 'x'")
  full <- whole
  full[is.na(full)] <- 1
  fit <- prcomp(read_of(full)[[1L]])
  expect_equal(abs(fit$x[, 1:2]), abs(prcomp(full)$x[, 1:2]), tolerance = 1e-8)
})
