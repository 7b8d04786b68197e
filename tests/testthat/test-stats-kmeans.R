# kmeans() of arrays and gpu_kmeans(), against base R.

# The value without rounding in what is a difference of nearly equal numbers, and the warnings.
fit_of <- function(expr) {
  said <- character()
  fit <- withCallingHandlers(collect(expr), warning = function(w) {
    said <<- c(said, conditionMessage(w))
    invokeRestart("muffleWarning")
  })
  fit$betweenss <- fit$betweenss / fit$totss + 1
  c(unclass(fit), list(said = unique(said), class = class(fit)))
}
seeded <- function(expr) {
  set.seed(7)
  fit_of(expr)
}

set.seed(1)
tables <- list(iris = as.matrix(iris[, 1:4]), named = as.matrix(USArrests), far = matrix(rnorm(900), 150) + 1e5,
  ties = matrix(sample(0:3, 400, TRUE), 100), one = stats::setNames(rnorm(40), paste0("r", 1:40)))

test_that("Lloyd's algorithm has base R's clusters, centers, iterations and warnings", {
  for (name in names(tables)) for (k in c(1, 2, 5)) for (nstart in c(1, 3)) for (iter.max in c(1, 10)) {
    x <- tables[[name]]
    call <- function(x) kmeans(x, k, iter.max, nstart, algorithm = "Lloyd")
    expect_equal(composed(seeded(call(gpu(x)))), seeded(call(x)), tolerance = 1e-10, info = paste(name, k, nstart,
      iter.max))
  }
  x <- tables$iris
  at <- c(1, 51, 101)
  want <- fit_of(kmeans(x, x[at, ], algorithm = "Forgy"))
  for (centers in list(x[at, ], gpu(x[at, ])))
    expect_equal(composed(fit_of(kmeans(gpu(x), centers, algorithm = "Forgy"))), want, tolerance = 1e-10)
  # on the cpu device it is base R's own
  expect_equal(fit_of(kmeans(gpu(x), x[at, ], algorithm = "Lloyd")), want, tolerance = 1e-10)
  # by blocks of rows
  expect_equal(composed(in_parts(60, fit_of(kmeans(gpu(x), x[at, ], algorithm = "Lloyd")))), want, tolerance = 1e-10)
  # from the generator's same state, which both leave alike
  set.seed(3)
  kmeans(x, 4, nstart = 2, algorithm = "Lloyd")
  after <- .Random.seed
  set.seed(3)
  composed(kmeans(gpu(x), 4, nstart = 2, algorithm = "Lloyd"))
  expect_identical(.Random.seed, after)
})

test_that("what is in an array is computed in its precision, and compared by differences where that is too little", {
  x <- tables$iris
  for (dtype in c("float32", "float16")) {
    y <- gpu(x, dtype)
    got <- composed(kmeans(y, x[c(1, 51, 101), ], algorithm = "Lloyd"))
    expect_identical(gpu_dtype(got$centers), dtype)
    want <- kmeans(collect(y), x[c(1, 51, 101), ], algorithm = "Lloyd")
    expect_identical(collect(got$cluster), want$cluster)
    expect_equal(collect(got$centers), want$centers, tolerance = if (dtype == "float32") 1e-6 else 2e-3)
    expect_equal(got$withinss, want$withinss, tolerance = 1e-10)
  }
  # rows halfway between two centers, to a float32 product's rounding and beyond it
  for (gap in c(0, 1e-9, 1e-5)) {
    y <- cbind(c(0, 2, 1 + gap, 1 - gap, 1, 0.1, 1.9), 3000)
    centers <- y[1:2, ]
    want <- kmeans(y, centers, iter.max = 5, algorithm = "Lloyd")
    got <- composed(kmeans(gpu(y), centers, iter.max = 5, algorithm = "Lloyd"))
    expect_identical(collect(got$cluster), want$cluster, info = gap)
  }
  for (dtype in c("int64", "int32", "uint8")) {
    y <- gpu(c(1, 2, 21, 22), dtype)
    expect_identical(composed(kmeans(y, y[2:3], algorithm = "Lloyd")$size), c(2L, 2L))
    expect_identical(composed(gpu_kmeans(y, 2)$size), c(2L, 2L))
  }
  # products that float32 does not hold, and squares that it does not
  for (scale in c(1e-22, 1e25)) {
    y <- gpu(x * scale, "float32")
    want <- kmeans(collect(y), collect(y)[c(1, 51, 101), ], algorithm = "Lloyd")
    expect_identical(collect(composed(kmeans(y, y[c(1, 51, 101), ], algorithm = "Lloyd")$cluster)), want$cluster)
  }
  whole <- matrix(c(1:20, 101:120), ncol = 2)
  expect_equal(composed(fit_of(kmeans(gpu(whole), whole[c(1, 20), ], algorithm = "Lloyd"))),
    fit_of(kmeans(whole, whole[c(1, 20), ], algorithm = "Lloyd")))
})

test_that("other algorithms are base R's, and clusters come back as arrays", {
  x <- tables$iris
  for (algorithm in c("Hartigan-Wong", "MacQueen"))
    expect_equal(seeded(kmeans(gpu(x), 3, algorithm = algorithm)), seeded(kmeans(x, 3, algorithm = algorithm)),
      tolerance = 1e-12)
  fit <- kmeans(gpu(x), x[c(1, 51, 101), ])
  expect_true(is_gpu(fit$cluster) && is_gpu(fit$centers))
  expect_identical(gpu_device(fit$cluster), test_device)
  expect_identical(kmeans(x, x[1:3, ])$size, kmeans(x, gpu(x[1:3, ]))$size)
  if (test_device != "cpu") {
    withr::local_options(verdigris.host_access = "error")
    expect_error(kmeans(gpu(x), 3), class = "verdigris_error_host_access")
    expect_s3_class(kmeans(gpu(x), 3, algorithm = "Lloyd"), "kmeans")
  }
})

test_that("clusters may be empty, and start from rows that are equal", {
  x <- matrix(c(1, 2, 3, 4, 100, 101))
  centers <- matrix(c(1, 50, 200))
  call <- function(x) kmeans(x, centers, algorithm = "Lloyd")
  want <- fit_of(call(x))
  expect_identical(want$said, "empty cluster: try a better set of initial centers")
  expect_equal(composed(fit_of(call(gpu(x)))), want)
  twice <- rbind(tables$ties, tables$ties)
  expect_identical(as.double(composed(verdigris:::distinct_rows(gpu(twice)))),
    as.double(which(!duplicated(twice))))
  expect_null(composed(verdigris:::distinct_rows(gpu(matrix(1:20, 10)))))
  for (k in 2:4) expect_equal(composed(seeded(kmeans(gpu(twice), k, algorithm = "Lloyd"))),
    seeded(kmeans(twice, k, algorithm = "Lloyd")))
})

test_that("errors are base R's", {
  x <- tables$iris
  same <- function(call) {
    message_of <- function(expr) tryCatch({
      expr
      "none"
    }, error = conditionMessage)
    want <- message_of(call(identity))
    expect_false(want == "none")
    expect_identical(composed(message_of(call(gpu))), want, info = deparse1(body(call)))
  }
  same(function(g) kmeans(g(x), 3, algorithm = "none"))
  same(function(g) kmeans(g(x), algorithm = "Lloyd"))
  same(function(g) kmeans(g(x), x[c(1, 1), ], algorithm = "Lloyd"))
  same(function(g) kmeans(g(x[1:2, ]), x[1:3, ], algorithm = "Lloyd"))
  same(function(g) kmeans(g(x[1:4, ]), 5, algorithm = "Lloyd"))
  same(function(g) kmeans(g(x[c(1, 1, 1, 2), ]), 3, nstart = 2, algorithm = "Lloyd"))
  same(function(g) kmeans(g(x), x[1:2, 1:3], algorithm = "Lloyd"))
  same(function(g) kmeans(g(x), 3, iter.max = 0, algorithm = "Lloyd"))
  same(function(g) kmeans(g(replace(x, 3, NA)), x[1:2, ], algorithm = "Lloyd"))
  same(function(g) kmeans(g(replace(x, 3, Inf)), x[1:2, ], algorithm = "Lloyd"))
  same(function(g) kmeans(g(x), replace(x[1:2, ], 3, NA), algorithm = "Lloyd"))
})

test_that("gpu_kmeans() seeds by k-means++, with a probability proportional to the squared distance", {
  set.seed(2)
  # four clouds far from each other: each start has one center in each
  x <- matrix(rnorm(400, sd = 0.01), ncol = 2) + rep(c(0, 10, 20, 30), each = 50)
  fit <- composed(gpu_kmeans(gpu(x), 4))
  expect_s3_class(fit, "kmeans")
  expect_identical(sort(fit$size), rep(50L, 4))
  expect_equal(fit$iter, 2L)
  # three points on a line, of which the second center is drawn: 9 of 10 times the far one, from the first
  y <- gpu(matrix(c(0, 1, 3)))
  second <- replicate(300, {
    centers <- verdigris:::kmeans_plus_plus(y, 2)
    paste(centers, collapse = " ")
  })
  share <- mean(second[startsWith(second, "0 ")] == "0 3")
  expect_gt(share, 0.8)
  expect_lt(share, 0.98)
  expect_identical(collect(composed(gpu_kmeans(gpu(tables$iris), 3, nstart = 3, seeding = "random")$size)) > 0L,
    rep(TRUE, 3))
  set.seed(5)
  best <- composed(gpu_kmeans(gpu(tables$iris), 3, nstart = 5))
  expect_equal(best$tot.withinss, 78.85144, tolerance = 1e-6)
  set.seed(5)
  expect_equal(gpu_kmeans(gpu(tables$iris), 3, nstart = 5)$tot.withinss, 78.85144, tolerance = 1e-6)
  for (run in list(identity, composed)) expect_equal(as.vector(run(gpu_kmeans(gpu(3), 1)$centers)), 3)
  wrong <- function(...) expect_error(composed(gpu_kmeans(...)), class = "verdigris_error_argument")
  wrong(tables$iris, 3)
  wrong(gpu(tables$iris), "a")
  wrong(gpu(tables$iris), 151)
  wrong(gpu(tables$iris), 3, nstart = 0)
  wrong(gpu(tables$iris), 3, seeding = "fast")
  wrong(gpu(replace(tables$iris, 2, NA)), 3)
  expect_error(composed(gpu_kmeans(gpu(matrix(1, 5, 2)), 2)), "more cluster centers than distinct data points.",
    fixed = TRUE)
})

test_that("base R's methods work on the result, and collect() makes an ordinary object", {
  x <- tables$iris
  fit <- kmeans(gpu(x), x[c(1, 51, 101), ], algorithm = "Lloyd")
  plain <- collect(fit)
  expect_s3_class(plain, "kmeans")
  expect_false(is_gpu(plain$cluster))
  expect_output(print(fit), "K-means clustering with 3 clusters of sizes")
  expect_equal(collect(fitted(fit)), fitted(plain))
  expect_equal(collect(gpu(x) - fitted(fit)), x - fitted(plain))
  expect_identical(as.vector(fitted(fit, "classes")), plain$cluster)
})

test_that("k-means++ frees each center's distances", {
  n <- 4096
  x <- gpu_compute(as_gpu(matrix(rnorm(n * 2), n), device = test_device))
  set.seed(1)
  verdigris:::kmeans_plus_plus(x, 2)
  before <- alive()[["device"]]
  most <- gpu_time(verdigris:::kmeans_plus_plus(x, 100), test_device)$peak
  expect_lt((most - before) / (8 * n), 30)
})
