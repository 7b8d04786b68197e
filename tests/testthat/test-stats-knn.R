# gpu_knn() against the distances of all pairs in base R.

# Neighbours by the definition: distances in float64, ties by index.
by_definition <- function(data, query, k, metric, self = FALSE) {
  data <- as.matrix(data)
  query <- as.matrix(query)
  found <- lapply(seq_len(nrow(query)), function(i) {
    gap <- t(data) - query[i, ]
    d <- switch(metric, euclidean = sqrt(colSums(gap^2)), manhattan = colSums(abs(gap)),
      maximum = apply(abs(gap), 2L, max),
      cosine = 1 - colSums(t(data) * query[i, ]) / sqrt(rowSums(data^2) * sum(query[i, ]^2)))
    at <- order(d)
    if (self) at <- at[at != i]
    list(at[seq_len(k)], d[at[seq_len(k)]])
  })
  list(index = do.call(rbind, lapply(found, `[[`, 1L)), distance = do.call(rbind, lapply(found, `[[`, 2L)))
}

expect_neighbours <- function(data, query, k, metric, self = FALSE, tolerance = 1e-12, info = NULL) {
  got <- collect(gpu_knn(gpu(data), if (!self) query, k, metric, exclude_self = self))
  want <- by_definition(data, query, k, metric, self)
  expect_equal(got$distance, want$distance, tolerance = tolerance, info = info)
  expect_identical(got$index, want$index, info = info)
}

set.seed(1)
cloud <- matrix(rnorm(1500), 300)
metrics <- c("euclidean", "cosine", "manhattan", "maximum")

test_that("neighbours and distances are those of all pairs", {
  asked <- matrix(rnorm(100), 20)
  for (metric in metrics) for (k in c(1, 2, 7, 300))
    expect_neighbours(cloud, asked, k, metric, info = paste(metric, k))
  for (metric in metrics) expect_neighbours(cloud, cloud, 4, metric, self = TRUE, tolerance = 1e-10, info = metric)
  flat <- rnorm(50)
  expect_neighbours(flat, flat[3:9] + 0.1, 3, "euclidean")
  expect_neighbours(cloud[1:3, ], asked, 2, "euclidean")
  expect_neighbours(as.matrix(iris[1:4]), iris[5:9, 1:4], 3, "euclidean")
  expect_identical(collect(gpu_knn(gpu(c(5, 1, 9), "int64"), c(8, 2), k = 1)$index), matrix(c(3L, 2L)))
  expect_identical(collect(gpu_knn(gpu(4))$index), matrix(1L))
})

test_that("of equal distances the smaller index comes first", {
  grid <- as.matrix(expand.grid(0:6, 0:6, 0:3))
  dimnames(grid) <- NULL
  for (metric in c("euclidean", "manhattan", "maximum")) {
    expect_neighbours(grid, grid, 9, metric, info = metric)
    expect_neighbours(grid, grid, 9, metric, self = TRUE, info = metric)
  }
  same <- matrix(1, 70, 3)
  expect_identical(collect(gpu_knn(gpu(same), k = 3)$index), matrix(1:3, 70, 3, byrow = TRUE))
  expect_true(all(gpu_knn(gpu(same), k = 3)$distance == 0))
  others <- collect(gpu_knn(gpu(same), k = 2, exclude_self = TRUE)$index)
  expect_identical(others[c(1, 2, 70), ], rbind(2:3, c(1L, 3L), 1:2))
})

test_that("distances are accurate between rows that are nearly equal, or far from the origin", {
  near <- cloud[rep(1:30, 10), ] + 1e-9 * matrix(rnorm(1500), 300)
  expect_neighbours(near, near[1:20, ], 5, "euclidean")
  far <- cloud + 1e8
  expect_neighbours(far, far[1:20, ], 5, "euclidean")
  expect_neighbours(cloud * 1e100, cloud[1:20, ] * 1e100, 5, "euclidean")
  outlier <- rbind(cloud, 1e9)
  expect_neighbours(outlier, outlier[280:301, ], 5, "euclidean")
})

test_that("float32 has the neighbours of its own values, and float32 distances", {
  x <- gpu(cloud, "float32")
  host <- collect(x)
  for (values in list(host, host + 1000)) for (metric in metrics) {
    x <- gpu(values, "float32")
    got <- gpu_knn(x, k = 5, metric = metric)
    expect_identical(gpu_dtype(got$distance), "float32")
    want <- by_definition(collect(x), collect(x), 5, metric)
    if (metric != "cosine" || values[1L] < 100) expect_identical(collect(got$index), want$index, info = metric)
    expect_lt(max(abs(collect(got$distance) - want$distance)), 1e-6)
  }
  expect_identical(gpu_dtype(gpu_knn(x, cloud, k = 2)$distance), "float32")
  expect_identical(gpu_dtype(gpu_knn(x, gpu(cloud), k = 2)$distance), "float64")
  # products that float32 does not hold, and squares that it does not
  for (scale in c(1e-22, 1e-30, 1e25)) {
    x <- gpu(cloud * scale, "float32")
    expect_identical(collect(gpu_knn(x, k = 5)$index), by_definition(collect(x), collect(x), 5, "euclidean")$index)
  }
  half <- gpu(cloud[1:50, ], "float16")
  expect_identical(collect(gpu_knn(half, k = 3)$index), by_definition(collect(half), collect(half), 3,
    "euclidean")$index)
  expect_neighbours(matrix(1:60, 20), matrix(c(3L, 9L, 11L), 1), 4, "euclidean")
})

test_that("several blocks give what one gives", {
  whole <- collect(gpu_knn(gpu(cloud), k = 6))
  few <- in_parts(2000, collect(gpu_knn(gpu(cloud), k = 6)))
  expect_identical(few, whole)
})

test_that("wrong arguments are classed errors", {
  x <- gpu(cloud)
  wrong <- function(..., class = "argument", says = NULL) expect_error(gpu_knn(...), says,
    class = paste0("verdigris_error_", class))
  wrong(cloud, says = "`x` must be")
  wrong(x, k = 0, says = "`k` must be")
  wrong(x, k = 301, says = "`k` is 301, but `x` has 300 rows")
  wrong(x, k = 300, exclude_self = TRUE, says = "one of which is the query")
  wrong(x, cloud, k = 1, exclude_self = TRUE)
  wrong(x, exclude_self = NA)
  wrong(x, "a", says = "`query` must be")
  wrong(x, cloud[, 1:2], class = "shape", says = "`query` has 2 columns, `x` has 5.")
  wrong(x, metric = "euclidian", says = "Did you mean")
  wrong(gpu(replace(cloud, 7, NA)), says = "`x` has missing or infinite elements")
  wrong(gpu(replace(cloud, 7, Inf)), says = "`x` has missing or infinite elements")
  wrong(x, replace(cloud, 7, NaN), says = "`query` has missing or infinite elements")
  wrong(gpu(rbind(cloud, 0)), metric = "cosine", says = "rows of zeros")
})

test_that("blocks are freed one by one", {
  x <- gpu_compute(as_gpu(matrix(rnorm(2048 * 4), 2048), device = test_device))
  # 64 blocks of 32 queries
  block <- 2048 * 32
  for (metric in c("euclidean", "cosine", "maximum")) in_parts(block, {
    gpu_knn(x, x[1:64, ], k = 4, metric = metric)
    before <- alive()[["device"]]
    most <- gpu_time(gpu_knn(x, k = 4, metric = metric), test_device)$peak
    expect_lt((most - before) / (8 * block), 16)
  })
})
