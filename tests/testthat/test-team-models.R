# Models of split matrices against those of the whole, with members of this process and with workers.

here <- gpu_team(rep(test_device, 3))
cl <- worker_cluster(2)
workers <- within_seconds(60, gpu_team(cl, timeout = 30))
teams <- list(here, workers)
set.seed(3)
x <- as.matrix(iris[sample(150), 1:4])
numbers <- function(fit) lapply(unclass(fit)[setdiff(names(fit), c("x", "call"))], identity)

test_that("scale() centers and scales the columns of the whole", {
  missing <- replace(x, c(2, 200, 450), NA)
  for (team in teams) for (m in list(x, missing)) {
    s <- gpu_split(m, team)
    for (args in list(list(), list(center = FALSE), list(scale = FALSE), list(center = 1:4, scale = c(2, 1, 2, 1)))) {
      want <- do.call(scale, c(list(m), args))
      got <- do.call(scale, c(list(s), args))
      expect_equal(collect(got), want, tolerance = 1e-12, ignore_attr = c("scaled:center", "scaled:scale", "dimnames"))
      for (name in c("scaled:center", "scaled:scale")) expect_equal(attr(got, name), attr(want, name), tolerance = 1e-12)
    }
  }
  expect_error(scale(gpu_split(x, here), center = 1:3), "length of 'center' must equal")
})

test_that("prcomp() has the components of the whole", {
  for (team in teams) {
    s <- gpu_split(x, team)
    for (args in list(list(), list(scale. = TRUE), list(center = FALSE), list(rank. = 2), list(tol = 0.1),
      list(retx = FALSE))) {
      got <- do.call(prcomp, c(list(s), args))
      want <- do.call(prcomp, c(list(as_gpu(x, device = "cpu")), args))
      expect_equal(numbers(got), numbers(want), tolerance = 1e-8)
      expect_identical(is.null(got$x), is.null(want$x))
      if (!is.null(want$x)) expect_equal(collect(got$x), collect(want$x), tolerance = 1e-7, ignore_attr = "dimnames")
      expect_equal(unclass(summary(got))$importance, unclass(summary(want))$importance, tolerance = 1e-5)
    }
  }
  expect_error(prcomp(gpu_split(replace(x, 5, Inf), here)), "infinite or missing values in 'x'")
  expect_error(prcomp(gpu_split(cbind(x, 1), here), scale. = TRUE), "cannot rescale a constant/zero column")
  expect_error(prcomp(gpu_split(x, here), rank. = 0), "`rank.` must be", class = "verdigris_error_argument")
  expect_error(prcomp(gpu_split(x, here, margin = 2)), class = "verdigris_error_split")
})

test_that("kmeans() has base R's clusters from the same centers", {
  for (team in teams) {
    s <- gpu_split(x, team)
    for (at in list(1:3, c(5, 60, 100, 120), 7)) {
      centers <- x[at, , drop = FALSE]
      want <- kmeans(x, centers, 50, algorithm = "Lloyd")
      got <- within_seconds(60, kmeans(s, centers, 50, algorithm = "Lloyd"))
      expect_s3_class(got, "kmeans")
      expect_identical(collect(got$cluster), unname(want$cluster))
      for (part in c("centers", "totss", "withinss", "tot.withinss", "betweenss", "size", "iter", "ifault"))
        expect_equal(got[[part]], want[[part]], tolerance = 1e-10, info = part)
      expect_output(print(got), "clusters of sizes")
    }
    set.seed(8)
    best <- within_seconds(60, gpu_kmeans(s, 3, nstart = 5))
    expect_equal(best$tot.withinss, kmeans(x, 3, 50, nstart = 20)$tot.withinss, tolerance = 1e-8)
    set.seed(9)
    expect_length(within_seconds(60, kmeans(s, 3, 50, nstart = 2, algorithm = "Lloyd"))$size, 3L)
  }
  s <- gpu_split(x, here)
  expect_warning(kmeans(s, x[1:3, ], 1, algorithm = "Lloyd"), "did not converge in 1 iteration")
  expect_error(kmeans(s, x[1:3, ]), "Lloyd", class = "verdigris_error_split")
  expect_error(kmeans(s, x[c(1, 1), ], algorithm = "Lloyd"), "initial centers are not distinct")
  expect_error(kmeans(s, x[1:2, 1:3], algorithm = "Lloyd"), "same number of columns")
  expect_error(kmeans(s, 200, algorithm = "Lloyd"), "more cluster centers than data points")
  expect_error(gpu_kmeans(gpu_split(replace(x, 5, NA), here), 3), "NA/NaN/Inf")
})

test_that("members without rows take part", {
  few <- x[1:2, ]
  s <- gpu_split(few, here)
  expect_equal(kmeans(s, few, algorithm = "Lloyd")$withinss, c(0, 0))
  # one direction is all that two rows have
  whole <- prcomp(as_gpu(few, device = "cpu"), rank. = 1)
  expect_equal(numbers(prcomp(s, rank. = 1)), numbers(whole), tolerance = 1e-7)
})

test_that("a team of one member computes and copies what an array does", {
  one <- gpu_team(test_device)
  h <- matrix(rnorm(2000 * 8) + 5, 2000)
  x <- gpu_compute(as_gpu(h, device = test_device))
  # the rows stay where they are
  made <- gpu_time(gpu_split(x, one), test_device)
  expect_identical(c(made$up, made$down), c(0, 0))
  s <- made$value
  starts <- h[c(1, 40, 800, 1999), ]
  taken <- function(run, x) {
    run(x)
    found <- gpu_time(run(x), test_device)
    c(launches = found$launches, up = found$up, down = found$down)
  }
  calls <- list(
    kmeans = function(x) suppressWarnings(kmeans(x, starts, 5, algorithm = "Lloyd")),
    several = function(x) {
      set.seed(4)
      suppressWarnings(gpu_kmeans(x, 5, nstart = 3, seeding = "random", iter.max = 4))
    },
    var = var, cor = cor
  )
  for (name in names(calls)) {
    array <- composed(taken(calls[[name]], x))
    split <- taken(calls[[name]], s)
    # nothing as long as the rows is copied, 16 kB for a column
    expect_lt(split[["up"]], max(array[["up"]], 2000) + 2000)
    expect_lt(split[["down"]], array[["down"]] + 4000)
    if (test_device != "cpu") expect_lte(split[["launches"]], array[["launches"]] * 1.2 + 10)
  }
  for (name in c("kmeans", "several")) for (part in c("centers", "totss", "withinss", "size", "iter", "ifault"))
    expect_equal(calls[[name]](s)[[part]], collect(composed(calls[[name]](x)))[[part]], tolerance = 1e-12)
})

test_that("all starts go through one product, and each has the result of its own", {
  for (team in teams) {
    s <- gpu_split(x, team)
    set.seed(21)
    several <- suppressWarnings(kmeans(s, 4, 20, nstart = 3, algorithm = "Lloyd"))
    set.seed(21)
    alone <- lapply(1:3, function(k) suppressWarnings(kmeans(x, x[sample.int(150, 4), ], 20, algorithm = "Lloyd")))
    best <- alone[[which.min(vapply(alone, `[[`, 0, "tot.withinss"))]]
    expect_identical(collect(several$cluster), unname(best$cluster))
    for (part in c("centers", "totss", "withinss", "size", "iter", "ifault"))
      expect_equal(several[[part]], best[[part]], tolerance = 1e-10, info = part)
  }
})

test_that("splits of arrays have the arrays' elements, types and names", {
  local <- gpu_team(rep(test_device, 2))
  m <- matrix(1:12, 6, dimnames = list(NULL, c("a", "b")))
  for (dtype in c("float64", "float32", "int32")) for (margin in 1:2) {
    a <- as_gpu(m, dtype = dtype, device = test_device)
    for (team in list(local, gpu_team(test_device))) {
      s <- gpu_split(a, team, margin)
      expect_identical(unique(unlist(gpu_together(team, gpu_dtype, s))), dtype)
      expect_identical(collect(s), collect(a))
      expect_identical(dimnames(s), if (margin == 1) dimnames(m))
      # the array is a value of its own
      b <- a
      b[1, 1] <- 100L
      expect_identical(collect(s), collect(a))
    }
  }
  v <- as_gpu(c(2.5, NA, 1), device = test_device)
  expect_identical(collect(gpu_split(v, local)), collect(v))
})
