# Matrix products: values, shapes, dimnames and errors as base R's.

products <- verdigris:::products
by_halves <- function(halves, code) {
  before <- products$halves
  products$halves <- halves
  on.exit(products$halves <- before)
  force(code)
}

in_precision <- function(precision, code) {
  before <- options(verdigris.matmul_precision = precision)
  on.exit(options(before))
  force(code)
}

test_that("%*% agrees with base R for all shapes", {
  found <- list()
  set.seed(3)
  draw <- function(type, n) switch(type, double = round(rnorm(n), 3), integer = sample(-9:9, n, TRUE),
    logical = sample(c(TRUE, FALSE), n, TRUE), complex = complex(real = round(rnorm(n), 2), imaginary = 1))
  for (type in c("double", "integer", "logical", "complex")) {
    m <- matrix(draw(type, 12L), 3L)
    named <- `dimnames<-`(m, list(letters[1:3], LETTERS[1:4]))
    operands <- list(m, named, t(m), t(named), m[1, , drop = FALSE], m[, 1, drop = FALSE], m[1, 1, drop = FALSE],
      m[0, ], m[, 0], draw(type, 3L), draw(type, 4L), draw(type, 1L),
                     setNames(draw(type, 3L), c("p", "q", "r")), draw(type, 0L), array(draw(type, 8L), c(2L, 2L, 2L)),
                       `dimnames<-`(m, list(r = letters[1:3], NULL)))
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
    compare(function(v) t(v) %*% v, list(m), ulp = 64, what = "t(m) %*% m"), compare(function(v) v[, 4:1] %*% t(v),
      list(m), ulp = 64, what = "reversed columns"),
    compare(`%*%`, list(m, matrix(1:8, 4L)), ulp = 64, what = "double by integer"),
      compare(`%*%`, list(m, matrix(1i, 4L, 1L)), ulp = 64, what = "double by complex"),
    compare(`%*%`, list(matrix(c(NA, 1, 2, 3), 2L), matrix(1:4 + 0, 2L)), ulp = 64, what = "with NA"),
      compare(`%*%`, list(matrix(c(Inf, 1, 2, 3), 2L), matrix(0, 2L, 2L)), ulp = 64, what = "with Inf"),
    compare(`%*%`, list(m, list("a")), what = "with a string"), compare(`%*%`, list(m, list(list(1))),
      what = "with a list"), compare(`%*%`, list(m, list(NULL)), what = "with NULL"),
    compare(function(v) v %*% NULL, list(diag(2) * 3), what = "square with NULL"),
    compare(function(v) v %*% NULL, list(1:3), what = "vector with NULL"),
    compare(function(v) NULL %*% v, list(diag(2) * 3), what = "NULL with square"),
    compare(function(v) crossprod(v, NULL), list(m), ulp = 64, what = "crossprod with NULL"),
    compare(function(v) tcrossprod(v, NULL), list(m), ulp = 64, what = "tcrossprod with NULL"))
  expect_all_same(found)
  expect_identical(gpu_dtype(gpu(m, "float32") %*% gpu(t(m), "float32")), "float32")
  expect_identical(gpu_device(gpu(m) %*% gpu(t(m))), test_device)
})

test_that("crossprod() and tcrossprod() agree with base R for all shapes", {
  found <- list()
  set.seed(4)
  draw <- function(type, n) switch(type, double = round(rnorm(n), 3), integer = sample(-9:9, n, TRUE),
    logical = sample(c(TRUE, FALSE), n, TRUE), complex = complex(real = round(rnorm(n), 2), imaginary = 1))
  for (type in c("double", "integer", "logical", "complex")) {
    m <- matrix(draw(type, 12L), 3L)
    operands <- list(m, `dimnames<-`(m, list(letters[1:3], LETTERS[1:4])), t(m), m[1, , drop = FALSE],
      m[, 1, drop = FALSE], m[0, ], m[, 0], draw(type, 3L), draw(type, 4L), setNames(draw(type, 3L), c("p", "q", "r")),
                     draw(type, 1L), array(draw(type, 8L), c(2L, 2L, 2L)),
                       `dimnames<-`(m, list(r = letters[1:3], NULL)))
    for (f in c("crossprod", "tcrossprod")) {
      g <- get(f)
      for (x in operands) {
        what <- sprintf("%s of %s %s", f, type, deparse1(dim(x) %||% length(x)))
        for (halves in 0:1) found <- c(found,
          by_halves(halves, compare(g, list(x), ulp = 64, what = paste(what, halves))))
        for (y in operands) {
          what <- sprintf("%s of %s %s and %s", f, type, deparse1(dim(x) %||% length(x)),
            deparse1(dim(y) %||% length(y)))
          found <- c(found, compare(g, list(x, y), ulp = 256, what = what), compare(g, list(x, list(y)), ulp = 256,
            what = paste(what, "(host)")))
          # before R 4.4 crossprod() is no generic, and still has a branch for either
          found <- c(found, compare(g, list(list(x), y), ulp = 256, what = paste("(host)", what)))
        }
      }
    }
  }
  expect_all_same(found)
})

test_that("views are factors where they lie", {
  set.seed(5)
  m <- matrix(round(rnorm(80), 2), 10L)
  y <- matrix(round(rnorm(40), 2), 10L)
  x <- gpu(m)
  z <- gpu(y)
  gpu_sync(test_device)
  calls <- list(
    function(x, z) t(x) %*% z, function(x, z) x[, 2:5] %*% t(z), function(x, z) t(z[3:6, ]) %*% x[3:6, ], function(x, z)
      x[2:9, 3:5] %*% t(x[2:4, 3:5]),
    function(x, z) x[, c(1, 3, 5)] %*% z[1:3, ], function(x, z) crossprod(x[2:7, ], z[2:7, ]), function(x, z)
      tcrossprod(x[, 8:5], z)
  )
  for (k in seq_along(calls)) {
    before <- .Call(verdigris:::C_counters)
    got <- calls[[k]](x, z)
    # of matrices this small the product is a kernel, the only one; the columns that go backwards are copied
    if (test_device != "cpu" && k < 7L) expect_equal(.Call(verdigris:::C_counters)[[1L]], before[[1L]] + 1)
    expect_equal(collect(got), calls[[k]](m, y), tolerance = 1e-13)
  }
})

test_that("a matrix times its own transpose is symmetric, in every dtype", {
  set.seed(6)
  for (dtype in c("float64", "float32", "float16", "bfloat16", "complex64", "complex128", "int32", "bool8")) {
    m <- matrix(switch(dtype, int32 = sample(-9:9, 35L, TRUE), bool8 = sample(c(TRUE, FALSE), 35L, TRUE), complex64 = ,
      complex128 = complex(real = rnorm(35), imaginary = rnorm(35)), rnorm(35)), 7L)
    x <- gpu(m, dtype)
    stored <- collect(x)
    eps <- switch(dtype, float16 = 2^-9, bfloat16 = 2^-6, float32 = , complex64 = 1e-6, 1e-14)
    for (halves in 0:1) by_halves(halves, {
      for (got in list(crossprod(x), t(x) %*% x)) {
        expect_identical(collect(got), t(collect(got)))
        expect_lte(max(Mod(collect(got) - crossprod(stored))), eps * max(Mod(crossprod(stored)), 1) * 4)
      }
      got <- collect(tcrossprod(x))
      expect_identical(got, t(got))
      expect_lte(max(Mod(got - tcrossprod(stored))), eps * max(Mod(tcrossprod(stored)), 1) * 4)
    })
  }
})

test_that("factors of large extents agree with base R", {
  set.seed(7)
  m <- matrix(rnorm(130 * 70), 130L)
  for (halves in 0:1) by_halves(halves, {
    expect_equal(collect(crossprod(gpu(m))), crossprod(m), tolerance = 1e-12)
    expect_equal(collect(tcrossprod(gpu(m))), tcrossprod(m), tolerance = 1e-12)
  })
})

test_that("the precision of products is an option that says what it takes", {
  x <- gpu(matrix(c(1, 2, 3, 4), 2L), "float32")
  for (p in c("float32", "tf32", "bfloat16"))
    in_precision(p, expect_identical(collect(x %*% x), matrix(c(7, 10, 15, 22), 2L)))
  if (test_device != "cpu") {
    e <- in_precision("half", expect_error(x %*% x, class = "verdigris_error_argument"))
    expect_match(conditionMessage(e), "matmul_precision")
  }
})

test_that("gpu_matmul() multiplies slices", {
  set.seed(8)
  each <- function(x, y) {
    d <- max(c(dim(x), 1L)[3L], c(dim(y), 1L)[3L])
    slice <- function(v, k)
      matrix(v[seq_len(prod(dim(v)[1:2])) + (if (isTRUE(dim(v)[3L] > 1L)) (k - 1L) * prod(dim(v)[1:2]) else 0L)],
      dim(v)[1L])
    simplify2array(lapply(seq_len(d), function(k) slice(x, k) %*% slice(y, k)), except = NULL)
  }
  for (dtype in c("float64", "float32", "complex128", "int32")) {
    draw <- function(d) array(switch(dtype, complex128 = complex(real = rnorm(prod(d)), imaginary = rnorm(prod(d))),
      int32 = sample(-9:9, prod(d), TRUE), rnorm(prod(d))), d)
    pairs <- list(list(c(2, 3, 4), c(3, 5, 4)), list(c(2, 3), c(3, 5, 4)), list(c(2, 3, 4), c(3, 5)),
      list(c(2, 3, 1), c(3, 2, 4)), list(c(1, 1, 3), c(1, 1, 3)), list(c(4, 1, 2), c(1, 4, 2)), list(c(2, 2), c(2, 2)))
    for (p in pairs) {
      x <- gpu(draw(p[[1L]]), dtype)
      y <- gpu(draw(p[[2L]]), dtype)
      got <- gpu_matmul(x, y)
      want <- each(collect(x), collect(y))
      expect_identical(dim(got), as.integer(c(p[[1L]][1L], p[[2L]][2L], max(c(p[[1L]], 1)[3L], c(p[[2L]], 1)[3L]))))
      expect_lte(max(Mod(as.vector(collect(got)) - as.vector(want))), if (dtype == "float32") 1e-5 else 1e-12)
      turned <- gpu_matmul(aperm(y, c(2, 1, 3)[seq_along(dim(y))]), aperm(x, c(2, 1, 3)[seq_along(dim(x))]))
      expect_lte(max(Mod(as.vector(collect(aperm(turned, c(2, 1, 3)))) - as.vector(want))),
        if (dtype == "float32") 1e-5 else 1e-12)
    }
  }
  x <- gpu(array(1:12 / 3, c(2, 3, 2)))
  expect_identical(dim(gpu_matmul(x, array(0, c(3, 0, 2)))), c(2L, 0L, 2L))
  expect_identical(collect(gpu_matmul(x[, 0, ], array(0, c(0, 2, 2)))), array(0, c(2, 2, 2)))
  expect_equal(collect(gpu_matmul(x, diag(3))), array(1:12 / 3, c(2, 3, 2)))
  expect_error(gpu_matmul(x, x), class = "verdigris_error_shape")
  expect_error(gpu_matmul(x, 1:3), class = "verdigris_error_argument")
  expect_error(gpu_matmul(x, "a"), class = "verdigris_error_argument")
  expect_error(gpu_matmul(matrix(1, 2, 2), diag(2)), class = "verdigris_error_argument")
})

test_that("the products are as many as they were", {
  expect_cases(6000L)
})

test_that("products of small matrices are base R's around the sizes that kernels are made for", {
  set.seed(9)
  sizes <- c(1L, 7L, 16L, 17L, 64L, 65L)
  for (type in c("float64", "float32", "complex128", "complex64")) for (m in sizes) for (k in sample(sizes, 2L)) {
    n <- sample(sizes, 1L)
    draw <- function(r, c) {
      x <- round(rnorm(r * c), 2)
      matrix(if (startsWith(type, "complex")) complex(real = x, imaginary = rev(x)) else x, r, c)
    }
    x <- draw(m, k)
    y <- draw(k, n)
    want <- x %*% y
    tol <- if (type %in% c("float64", "complex128")) 1e-13 else 1e-5
    near <- function(got, what) expect_equal(collect(got), want, tolerance = tol, info = paste(type, m, k, n, what))
    gx <- gpu(x, type)
    gy <- gpu(y, type)
    near(gx %*% gy, "plain")
    near(t(gpu(t(x), type)) %*% gy, "left transposed")
    near(gx %*% t(gpu(t(y), type)), "right transposed")
    near(crossprod(gpu(t(x), type), gy), "crossprod")
    near(gpu(rbind(x, 0, 1), type)[seq_len(m), , drop = FALSE] %*% gpu(cbind(1, y), type)[, -1L, drop = FALSE], "parts")
  }
  x <- gpu(matrix(c(NA, 1, Inf, 2), 2L))
  expect_identical(is.na(collect(x %*% diag(2))), is.na(collect(x) %*% diag(2)))
})

test_that("what is recorded is computed once for all its products", {
  skip_if(test_device == "cpu")
  launches <- function(value) {
    before <- .Call(verdigris:::C_counters)[[1L]]
    gpu_compute(value)
    .Call(verdigris:::C_counters)[[1L]] - before
  }
  m <- gpu(matrix(runif(600), 200), "float32")
  gpu_compute(m)
  of_values <- launches(crossprod(m))
  recorded <- m * 2
  expect_identical(launches(crossprod(recorded)), of_values + 1)
  expect_identical(launches(crossprod(recorded)), of_values)
  # the product is made symmetric by one kernel, beside the library's
  expect_lte(of_values, 2)
})
