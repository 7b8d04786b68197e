# k-means and nearest neighbours of readers against base R's and those of arrays.

withr::local_options(verdigris.device = test_device)
flowers <- as.matrix(iris[, 1:4])
read_of <- function(m, rows = 23, env = parent.frame()) gpu_reader(raw_file(m, env = env), dim = dim(m),
  dimnames = dimnames(m), memory = blocks_of_rows(rows, ncol(m)))

expect_same_clusters <- function(got, want) {
  expect_identical(unname(collect(got$cluster)), unname(want$cluster))
  expect_equal(got$centers, want$centers, tolerance = 1e-12)
  for (part in c("totss", "withinss", "tot.withinss", "betweenss")) expect_equal(got[[part]], want[[part]],
    tolerance = 1e-10, label = part)
  expect_identical(got[c("size", "iter", "ifault")], want[c("size", "iter", "ifault")])
}

test_that("kmeans() has base R's clusters from its centers", {
  x <- read_of(flowers)
  centers <- flowers[c(1, 51, 101, 140), ]
  expect_same_clusters(kmeans(x, centers, 50, algorithm = "Lloyd"), kmeans(flowers, centers, 50, algorithm = "Lloyd"))
  expect_warning(got <- kmeans(x, centers, iter.max = 2, algorithm = "Lloyd"), "did not converge in 2 iterations")
  expect_same_clusters(got, suppressWarnings(kmeans(flowers, centers, iter.max = 2, algorithm = "Lloyd")))
  set.seed(2)
  got <- kmeans(x, 3, algorithm = "Lloyd", iter.max = 50)
  set.seed(2)
  expect_same_clusters(got, kmeans(flowers, 3, algorithm = "Lloyd", iter.max = 50))
  one <- kmeans(x, flowers[1, , drop = FALSE], algorithm = "Lloyd")
  expect_identical(one$size, 150L)
  v <- gpu_reader(as.double(c(1:20, 41:60)), memory = 3 * 8 * 7)
  expect_same_clusters(kmeans(v, c(1, 50), algorithm = "Lloyd"), kmeans(c(1:20, 41:60) + 0, c(1, 50),
    algorithm = "Lloyd"))
})

test_that("several starts are read together, and seeds are k-means++'s", {
  x <- read_of(flowers, 40)
  set.seed(3)
  fit <- gpu_kmeans(x, 3, nstart = 5)
  expect_lt(fit$tot.withinss, 78.86)
  expect_true(50L %in% table(collect(fit$cluster)))
  expect_identical(fit$cluster[c(1, 100)], collect(fit$cluster)[c(1, 100)])
  expect_output(print(fit), "K-means clustering with 3 clusters")
})

test_that("wrong arguments of kmeans() have base R's errors, or classed ones", {
  x <- read_of(flowers)
  expect_error(kmeans(x, 3), "Lloyd", class = "verdigris_error_reader")
  expect_error(kmeans(x, 151, algorithm = "Lloyd"), "more cluster centers than data points")
  expect_error(kmeans(x, flowers[1:2, 1:3], algorithm = "Lloyd"), "must have same number of columns")
  expect_error(kmeans(x, flowers[c(1, 1), ], algorithm = "Lloyd"), "initial centers are not distinct")
  expect_error(kmeans(read_of(replace(flowers, 7, NA)), 2, algorithm = "Lloyd"), "NA/NaN/Inf")
  expect_error(gpu_kmeans(x, 0), class = "verdigris_error_argument")
  expect_error(gpu_kmeans(gpu_reader(iris), 2), class = "verdigris_error_reader")
})

test_that("neighbours are those of the whole, however it is cut", {
  ordinary <- function(found) lapply(found, collect)
  set.seed(47)
  ties <- matrix(sample(3, 240, TRUE) + 0, 60)
  metrics <- c("euclidean", "cosine", if (!emulated) c("manhattan", "maximum"))
  for (m in list(if (!emulated) flowers, ties, cbind(flowers[1:40, 1]))) for (metric in if (!is.null(m)) metrics) {
    m <- unname(m)
    query <- m[c(3, 30, 39, 8), , drop = FALSE] + 0.25
    want <- ordinary(gpu_knn(as_gpu(m), query, 7, metric))
    x <- read_of(m, if (emulated) 30 else 11)
    expect_equal(ordinary(gpu_knn(x, query, 7, metric)), want, label = metric)
    expect_equal(ordinary(gpu_knn(x, as_gpu(query), 7, metric)), want, label = metric)
    expect_equal(gpu_knn(x, read_of(query, 3), 7, metric), want, label = metric)
    expect_equal(gpu_knn(as_gpu(m), read_of(query, 3), 7, metric), want, label = metric)
    expect_equal(gpu_knn(x, k = 3, metric = metric), ordinary(gpu_knn(as_gpu(m), k = 3, metric = metric)))
    expect_equal(gpu_knn(x, k = 3, metric = metric, exclude_self = TRUE), ordinary(gpu_knn(as_gpu(m), k = 3,
      metric = metric, exclude_self = TRUE)), label = metric)
  }
  small <- gpu_reader(raw_file(flowers, 4L), dim = dim(flowers), dtype = "float32", memory = 3 * 4 * 4 * 31)
  found <- gpu_knn(small, as_gpu(flowers[1:3, ], "float32"), 2)
  expect_identical(gpu_dtype(found$distance), "float32")
  expect_identical(gpu_dtype(found$index), "int32")
})

test_that("wrong arguments of gpu_knn() are named", {
  x <- read_of(flowers)
  expect_error(gpu_knn(x, flowers[1:2, 1:3], 2), class = "verdigris_error_shape")
  expect_error(gpu_knn(x, flowers[1:2, ], 151), "150 rows", class = "verdigris_error_argument")
  expect_error(gpu_knn(x, k = 150, exclude_self = TRUE), "one of which is the query")
  expect_error(gpu_knn(x, flowers, 2, exclude_self = TRUE), "must be FALSE if there is a `query`")
  expect_error(gpu_knn(flowers, x, 2), class = "verdigris_error_argument")
  expect_error(gpu_knn(gpu_reader(iris), k = 2), class = "verdigris_error_reader")
})
