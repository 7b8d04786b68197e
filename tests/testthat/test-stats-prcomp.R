# prcomp(), princomp() and cmdscale() of arrays, against base R.

# With this package's rule for signs, on ordinary numbers.
with_signs <- function(fit) {
  fit <- collect(fit)
  signs <- verdigris:::signs_of(fit$rotation)
  fit$rotation[] <- fit$rotation * rep(signs, each = nrow(fit$rotation))
  if (!is.null(fit$x)) fit$x[] <- fit$x * rep(signs, each = nrow(fit$x))
  fit
}
# The first components, the others having no variance and any direction.
first <- function(fit, k) {
  at <- seq_len(min(k, ncol(fit$rotation)))
  fit$rotation <- fit$rotation[, at, drop = FALSE]
  if (!is.null(fit$x)) fit$x <- fit$x[, at, drop = FALSE]
  fit
}

set.seed(1)
tables <- list(arrests = as.matrix(USArrests), iris = as.matrix(iris[, 1:4]), wide = matrix(rnorm(300), 10),
  low = matrix(rnorm(120), 40) %*% matrix(rnorm(24), 3), far = matrix(rnorm(600), 120) + 1e7,
  spread = matrix(rnorm(200), 50) %*% diag(c(1, 1e-3, 1e-6, 1e-9)))
ranks <- c(arrests = 4, iris = 4, wide = 9, low = 3, far = 5, spread = 4)

test_that("prcomp() has base R's components, with the largest loading positive", {
  for (name in names(tables)) for (scale. in c(FALSE, TRUE)) for (rank. in list(NULL, 2)) {
    x <- tables[[name]]
    want <- with_signs(prcomp(x, scale. = scale., rank. = rank.))
    for (run in list(identity, composed, function(code) in_parts(40, code))) {
      got <- collect(run(prcomp(gpu(x), scale. = scale., rank. = rank.)))
      what <- paste(name, scale., deparse1(rank.))
      expect_equal(first(got, ranks[[name]]), first(want, ranks[[name]]), tolerance = 1e-8, info = what)
      # beside the largest
      expect_lt(max(abs(got$sdev - want$sdev)), 1e-11 * want$sdev[1L], label = what)
      expect_equal(crossprod(got$rotation), diag(ncol(got$rotation)), tolerance = 1e-8, info = what,
        ignore_attr = TRUE)
    }
    expect_true(all(verdigris:::signs_of(got$rotation) == 1))
  }
  # loadings of one magnitude: the first decides
  pair <- cbind(1:9, c(2, 1, 4, 3, 6, 5, 8, 7, 9))
  expect_gt(prcomp(gpu(pair), scale. = TRUE)$rotation[1L, 2L], 0)
})

test_that("center, scale., tol and retx have base R's effect", {
  x <- tables$arrests
  calls <- list(function(x) prcomp(x, center = FALSE), function(x) prcomp(x, center = FALSE, scale. = TRUE),
    function(x) prcomp(x, center = c(1, 2, 3, 4), scale. = c(a = 2, b = 1, c = 1, d = 3)),
    function(x) prcomp(x, tol = 0.1), function(x) prcomp(x, retx = FALSE), function(x) prcomp(x, rank. = 9),
    function(x) prcomp(unname(x)), function(x) prcomp(x[, 1, drop = FALSE]), function(x) prcomp(x > 10 & x < 100),
    function(x) prcomp(x[1:2, ], rank. = 1))
  for (call in calls) expect_equal(collect(composed(call(gpu(x)))), with_signs(call(x)), tolerance = 1e-8,
    info = deparse1(body(call)))
  fit <- prcomp(gpu(x))
  expect_true(is_gpu(fit$x))
  expect_identical(gpu_device(fit$x), test_device)
  expect_false(any(vapply(fit[names(fit) != "x"], is_gpu, NA)))
})

test_that("float32 and narrower give scores of their type, and float64's deviations of the same values", {
  for (dtype in c("float32", "float16")) {
    x <- gpu(tables$iris, dtype)
    fit <- prcomp(x)
    expect_identical(gpu_dtype(fit$x), dtype)
    expect_equal(fit$sdev, prcomp(collect(x))$sdev, tolerance = 1e-12)
    expect_equal(collect(fit$x), with_signs(prcomp(collect(x)))$x, tolerance = if (dtype == "float32") 1e-5 else 1e-2)
  }
  far <- gpu(tables$iris + 1000, "float32")
  expect_equal(collect(prcomp(far)$x), with_signs(prcomp(collect(far)))$x, tolerance = 1e-5)
})

test_that("the randomised method finds the first components, and summary() relates them to all variance", {
  set.seed(2)
  basis <- function(n, k) qr.Q(qr(matrix(rnorm(n * k), n)))
  n <- 150
  p <- 90
  values <- 100 * 0.8^(0:29)
  x <- basis(n, 30) %*% (values * t(basis(p, 30))) + rep(rnorm(p), each = n)
  want <- with_signs(prcomp(x, rank. = 6))
  for (run in list(identity, function(code) in_parts(5000, code))) for (y in list(x, x + 1e9)) {
    got <- run(prcomp(gpu(y), rank. = 6, exact = FALSE))
    expect_s3_class(got, c("gpu_prcomp", "prcomp"), exact = TRUE)
    tolerance <- if (y[1L] > 1e8) 1e-5 else 1e-7
    expect_equal(got$sdev, want$sdev[1:6], tolerance = tolerance)
    expect_equal(got$rotation, want$rotation, tolerance = 100 * tolerance)
    expect_equal(collect(got$x), want$x, tolerance = 100 * tolerance)
    expect_equal(summary(got)$importance[2:3, ], summary(want)$importance[2:3, 1:6], tolerance = 1e-4)
  }
  scaled <- with_signs(prcomp(x, rank. = 3, scale. = TRUE))
  got <- prcomp(gpu(x, "float32"), rank. = 3, scale. = TRUE, exact = FALSE)
  expect_equal(got$sdev, scaled$sdev[1:3], tolerance = 1e-5)
  expect_equal(collect(got$x), scaled$x, tolerance = 1e-3)
  half <- gpu(x, "float16")
  expect_equal(prcomp(half, rank. = 3, exact = FALSE)$sdev, prcomp(collect(half))$sdev[1:3], tolerance = 1e-5)
  # of noise, whose values lie close together, the documented bound holds, even without what 10 vectors less add
  noise <- matrix(rnorm(6000), 100)
  got <- prcomp(gpu(noise), rank. = 5, exact = FALSE)
  centered <- scale(noise, scale = FALSE)
  left <- svd(centered - collect(got$x) %*% t(got$rotation))$d[1L]
  expect_lt(left, (1 + sqrt(5 / 9) + exp(1) * sqrt(15) / 10 * sqrt(60 - 5))^(1 / 20) * svd(centered)$d[6L])
  expect_true(all(got$sdev <= prcomp(noise)$sdev[1:5] * (1 + 1e-12)))
  # of a smaller rank than is asked for
  got <- prcomp(gpu(tables$low), rank. = 5, exact = FALSE)
  expect_equal(got$sdev, prcomp(tables$low)$sdev[1:5], tolerance = 1e-8)
  expect_equal(crossprod(got$rotation), diag(5), tolerance = 1e-8, ignore_attr = TRUE)
  expect_identical(prcomp(gpu(matrix(3, 20, 10)), rank. = 2, exact = FALSE)$sdev, c(0, 0))
  # the same in each call, and R's generator is left alone
  set.seed(9)
  state <- .Random.seed
  again <- lapply(1:2, function(k) prcomp(gpu(x), rank. = 2, exact = FALSE)$rotation)
  expect_identical(again[[1L]], again[[2L]])
  expect_identical(.Random.seed, state)
})

test_that("the extents decide about the randomised method, and `exact` does", {
  x <- gpu(matrix(rnorm(520 * 510), 520))
  expect_s3_class(prcomp(x, rank. = 2, retx = FALSE), "gpu_prcomp")
  expect_identical(class(prcomp(gpu(tables$iris), rank. = 2)), "prcomp")
  expect_error(prcomp(gpu(tables$iris), exact = 3), class = "verdigris_error_argument")
})

test_that("base R's methods work on the result", {
  withr::local_pdf(NULL)
  x <- tables$arrests
  fit <- prcomp(gpu(x), scale. = TRUE)
  plain <- collect(fit)
  expect_s3_class(plain, "prcomp")
  expect_output(print(fit), "Standard deviations")
  expect_output(print(summary(fit)), "Cumulative Proportion")
  expect_identical(summary(fit)$importance, summary(plain)$importance)
  expect_equal(collect(predict(fit, gpu(x[1:5, ]))), predict(plain, x[1:5, ]))
  expect_equal(collect(predict(fit, x[1:5, ])), predict(plain, x[1:5, ]))
  expect_no_error({
    plot(fit)
    screeplot(fit)
    biplot(fit)
  })
})

test_that("princomp() is base R's, signs included", {
  withr::local_pdf(NULL)
  x <- tables$arrests
  calls <- list(function(x) princomp(x), function(x) princomp(x, cor = TRUE), function(x) princomp(x, scores = FALSE),
    function(x) princomp(x, subset = 1:30), function(x) princomp(unname(x)),
    function(x) princomp(x, covmat = cov(tables$arrests)))
  plain <- function(fit) {
    fit <- collect(fit)
    fit$call <- NULL
    fit
  }
  for (call in calls) expect_equal(suppressWarnings(plain(call(gpu(x)))), suppressWarnings(plain(call(x))),
    tolerance = 1e-8, info = deparse1(body(call)))
  fit <- princomp(gpu(x), cor = TRUE)
  expect_true(is_gpu(fit$scores))
  expect_identical(fit$call, quote(princomp(x = gpu(x), cor = TRUE)))
  expect_output(print(summary(fit, loadings = TRUE)), "Importance of components")
  expect_equal(collect(predict(fit, gpu(x[1:3, ]))), predict(princomp(x, cor = TRUE), x[1:3, ]))
  expect_no_error({
    plot(fit)
    biplot(fit)
  })
  expect_identical(gpu_dtype(princomp(gpu(x, "float32"))$scores), "float32")
})

test_that("cmdscale() is base R's up to signs", {
  for (d in list(dist(tables$arrests), eurodist)) {
    m <- as.matrix(d)
    points <- function(fit) {
      fit <- collect(fit)
      if (is.list(fit)) fit$points <- abs(fit$points) else fit <- abs(fit)
      fit
    }
    for (call in list(function(m) cmdscale(m), function(m) cmdscale(m, k = 3, eig = TRUE, x.ret = TRUE),
      function(m) cmdscale(m, add = TRUE), function(m) cmdscale(m, k = 1)))
      expect_equal(composed(points(call(gpu(m)))), points(call(m)), tolerance = 1e-7, info = deparse1(body(call)))
    expect_true(is_gpu(cmdscale(gpu(m))))
    expect_warning(composed(cmdscale(gpu(m), eig = TRUE, list. = FALSE)), "eig=TRUE is disregarded")
  }
  expect_error(composed(cmdscale(gpu(matrix(1:6, 2)))), "distances must be result of 'dist' or a square matrix")
  expect_error(composed(cmdscale(gpu(replace(as.matrix(eurodist), 2, NA)))), "NA values not allowed in 'd'")
  expect_warning(composed(cmdscale(gpu(as.matrix(eurodist)), k = 20)),
    "only [0-9]+ of the first 20 eigenvalues are > 0")
})

test_that("hclust() takes the distances of an array", {
  x <- tables$arrests
  d <- dist(gpu(x))
  expect_false(is_gpu(d))
  want <- hclust(dist(x))
  got <- hclust(d)
  expect_identical(got$merge, want$merge)
  expect_equal(got$height, want$height)
})

test_that("errors are base R's", {
  x <- tables$arrests
  same <- function(call) {
    message_of <- function(expr) tryCatch({
      expr
      "none"
    }, error = conditionMessage)
    want <- message_of(call(identity))
    expect_false(want == "none")
    expect_identical(composed(message_of(call(gpu))), want, info = deparse1(body(call)))
  }
  same(function(g) prcomp(g(cbind(x, 3)), scale. = TRUE))
  same(function(g) prcomp(g(replace(x, 5, NA))))
  same(function(g) prcomp(g(replace(x, 5, Inf))))
  same(function(g) prcomp(g(x), rank. = 0))
  same(function(g) prcomp(g(x), center = 1:3))
  same(function(g) prcomp(g(x), scale. = 1:4 > 0))
  same(function(g) prcomp(g(x), center = c(1, NA, 3, 4)))
  same(function(g) princomp(g(x[1:3, ])))
  same(function(g) princomp(g(replace(x, 5, NA))))
  same(function(g) princomp(g(cbind(x, 3)), cor = TRUE))
  same(function(g) princomp(g(x), covmat = 3))
})
