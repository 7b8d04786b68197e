# The differential grid: operators of two arguments, by pairs of types, layout, recycling and edges.

binary <- c("+", "-", "*", "/", "^", "%%", "%/%", "==", "!=", "<", "<=", ">", ">=", "&", "|")

test_that("operators agree with base R", {
  for (r in binary) {
    f <- get(r, baseenv())
    ulp <- operations$ulp[match(r, operations$r)]
    same <- function(args, what, ...) compare(f, args, NULL, ulp, what, r, ...)
    found <- list()
    for (a in names(edges)) {
      for (b in names(edges)) {
        what <- sprintf("%s %s %s", a, r, b)
        # all pairs of edges
        x <- rep(edges[[a]], times = length(edges[[b]]))
        y <- rep(edges[[b]], each = length(edges[[a]]))
        found <- c(found, same(list(x, y), what))
        # host operands on either side, scalar and vector
        found <- c(found, same(list(x, list(y)), paste(what, "(host)")))
        found <- c(found, same(list(list(y[[2L]]), x), paste(what, "(scalar)")))
      }
      for (n in lengths_tried) {
        x <- values(a, n)
        found <- c(found, same(list(x, values(a, n, 2L)), sprintf("%s[%d] %s", a, n, r)))
        # recycled, evenly and not
        found <- c(found, same(list(x, values(a, 3L, 2L)), sprintf("%s[%d] %s [3]", a, n, r)))
        found <- c(found, same(list(values(a, 1L, 2L), x), sprintf("%s[1] %s [%d]", a, r, n)))
      }
      m <- matrix(values(a, 60L), 12L, dimnames = list(letters[1:12], NULL))
      v <- values(a, 12L, 3L)
      named <- setNames(values(a, 12L), letters[1:12])
      found <- c(found,
        same(list(m, m), sprintf("%s matrix %s matrix", a, r)),
        same(list(m, v), sprintf("%s matrix %s vector", a, r)),
        same(list(v, m), sprintf("%s vector %s matrix", a, r)),
        same(list(named, m), sprintf("%s named %s matrix", a, r)),
        same(list(named, v), sprintf("%s named %s vector", a, r)),
        same(list(m[1, 1, drop = FALSE], v), sprintf("%s 1 x 1 matrix %s vector", a, r)),
        same(list(m[0, ], v[0]), sprintf("%s empty matrix %s empty", a, r)),
        same(list(m, m[1:2, ]), sprintf("%s non-conformable %s", a, r)),
        same(list(m, m), sprintf("t(%s) %s t()", a, r), before = t),
        compare(function(p, q) f(t(p), q), list(matrix(values(a, 80L)[21:80], 12L), values(a, 25L)[21:25]), NULL, ulp,
          sprintf("t(%s) %s vector", a, r), r))
    }
    expect_all_same(found)
  }
})

test_that("operators on narrow dtypes agree with base R on the values as stored", {
  found <- list()
  for (r in binary) {
    f <- get(r, baseenv())
    ulp <- operations$ulp[match(r, operations$r)]
    for (dtype in c("float32", "float16", "bfloat16")) {
      x <- values("double", 257L)
      found <- c(found,
        compare(f, list(x, rev(x)), dtype, ulp, paste(dtype, r), r),
        compare(f, list(x, list(2)), dtype, ulp, paste(dtype, r, "2"), r))
    }
    for (dtype in c("int8", "uint8", "int16")) {
      x <- if (dtype == "uint8") c(0:5, 200L, 255L) else c(NA, -5:5, 100L, -100L)
      found <- c(found,
        compare(f, list(x, rev(x)), dtype, ulp, paste(dtype, r), r),
        compare(f, list(x, list(3L)), dtype, ulp, paste(dtype, r, "3L"), r))
    }
    z <- values("complex", 65L)
    if (!r %in% c("<", "<=", ">", ">=", "%%", "%/%")) {
      found <- c(found, compare(f, list(z[c(-1, -8)], rev(z[c(-1, -8)])), "complex64", ulp, paste("complex64", r), r))
    }
  }
  expect_all_same(found)
})

test_that("operators on int64 agree with bit64", {
  x <- bit64::as.integer64(c("9223372036854775807", "-9223372036854775807", "4611686018427387904", "0", "1", "-7", "12",
    NA, "4294967296"))
  pairs <- expand.grid(i = seq_along(x), j = seq_along(x))
  found <- list()
  for (r in c("+", "-", "*", "==", "!=", "<", "<=", ">", ">=")) {
    found <- c(found, compare(get(r, baseenv()), list(x[pairs$i], x[pairs$j]), what = paste("int64", r)))
  }
  small <- x[c(4, 5, 6, 7, 8)]
  nonzero <- x[c(5, 6, 7, 8)]
  found <- c(found,
    compare(`+`, list(small, list(3L)), what = "int64 + 3L"),
    compare(`*`, list(small, small), what = "int64 * int64"),
    compare(function(v) -v, list(small), what = "-int64"),
    compare(abs, list(x), what = "abs(int64)"),
    compare(is.na, list(x), what = "is.na(int64)"))
  expect_all_same(found)
})

test_that("two dtypes meet in the wider one", {
  of <- function(a, b) gpu_dtype(gpu(1, a) + gpu(1, b))
  expect_identical(of("float32", "float64"), "float64")
  expect_identical(of("float16", "float32"), "float32")
  expect_identical(of("float16", "bfloat16"), "float32")
  expect_identical(gpu_dtype(gpu(1L) + gpu(1, "float32")), "float32")
  expect_identical(gpu_dtype(gpu(1L, "int8") + gpu(1L, "int8")), "int32")
  expect_identical(gpu_dtype(gpu(1, "float32") + 1), "float32")
  expect_identical(gpu_dtype(gpu(1, "float32") + c(1, 2)), "float32")
  expect_identical(gpu_dtype(gpu(1, "float32") * 1i), "complex64")
  expect_identical(gpu_dtype(gpu(TRUE) + gpu(TRUE)), "int32")
  expect_identical(gpu_dtype(gpu(1L) / gpu(2L)), "float64")
})

test_that("the grid of operators is as large as it was", {
  expect_cases(2500L)
})
