# Arrays in other processes: forked children, PSOCK workers and futures.

test_that("a forked child computes with cpu arrays, and is refused cuda ones", {
  skip_on_os("windows")
  x <- gpu(c(1, 2, 3))
  y <- sqrt(x) * 2
  gpu_compute(x + 0) # the device is in use before the fork
  job <- parallel::mcparallel(tryCatch({
    z <- as_gpu(1:1e5, device = "cpu") + 1
    list(sum(x), collect(y), sum(z), collect(as_gpu(c(b = 2, a = 1), device = "cpu")))
  }, error = identity))
  got <- parallel::mccollect(job)[[1L]]
  if (test_device == "cpu") {
    expect_identical(got, list(6, sqrt(c(1, 2, 3)) * 2, sum(1:1e5 + 1), c(b = 2, a = 1)))
  } else {
    expect_s3_class(got, "verdigris_error_fork")
  }
  # the parent goes on
  expect_identical(collect(y), sqrt(c(1, 2, 3)) * 2)
})

test_that("an array that a forked child returns arrives", {
  skip_on_os("windows")
  skip_if(test_device != "cpu")
  x <- gpu(matrix(1:4, 2), "int16")
  back <- parallel::mccollect(parallel::mcparallel(x * 2L))[[1L]]
  expect_true(is_gpu(back))
  expect_identical(collect(back), matrix(1:4, 2) * 2L)
})

test_that("futures take arrays along and bring them back", {
  skip_on_cran()
  skip_if_not_installed("future")
  worker <- parallel::makePSOCKcluster(1)
  on.exit(parallel::stopCluster(worker))
  parallel::clusterCall(worker, eval, call(".libPaths", .libPaths()))
  old <- future::plan(future::cluster, workers = worker)
  on.exit(future::plan(old), add = TRUE, after = FALSE)
  x <- gpu(matrix(c(1.5, 2, 3, 4), 2), "float32")
  pending <- x * 2
  f <- future::future({
    list(verdigris::gpu_dtype(x), sum(pending), x + 1, class(x))
  }, seed = TRUE)
  got <- future::value(f)
  expect_identical(got[[1L]], "float32")
  expect_identical(got[[2L]], 21)
  expect_identical(collect(got[[3L]]), matrix(c(1.5, 2, 3, 4), 2) + 1)
  expect_identical(got[[4L]], class(x))
  expect_identical(gpu_dtype(as_gpu(got[[3L]])), "float32")
})

test_that("futures in forked children compute on the cpu", {
  skip_on_os("windows")
  skip_if_not_installed("future")
  skip_if(test_device != "cpu" || !future::supportsMulticore())
  old <- future::plan(future::multicore, workers = 2)
  on.exit(future::plan(old))
  x <- gpu(c(1, 2, 3))
  expect_identical(future::value(future::future(sum(x^2))), 14)
})

test_that("a file from saveRDS is read back, in every dtype", {
  for (dtype in c("float64", "float32", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool8",
    "complex64", "complex128")) {
    file <- withr::local_tempfile()
    saveRDS(gpu(c(a = 1, b = 0), dtype), file)
    x <- readRDS(file)
    expect_identical(gpu_dtype(x), dtype)
    y <- as_gpu(x, device = test_device)
    expect_identical(gpu_dtype(y), dtype)
    expect_identical(as.numeric(y), c(1, 0))
    expect_identical(names(y), c("a", "b"))
  }
})

test_that("a file from saveRDS holds the base vector, its class, and a dtype that R's type does not say", {
  vectors <- list(float64 = c(a = 1.5, b = 2), int32 = matrix(1:4, 2, dimnames = list(NULL, c("u", "v"))),
    bool8 = c(TRUE, NA), complex128 = c(1i, 2))
  for (dtype in names(vectors)) {
    x <- gpu(vectors[[dtype]])
    before <- attributes(x)
    y <- unserialize(serialize(x, NULL))
    # saving changes nothing of what is saved
    expect_identical(attributes(x), before, info = dtype)
    expect_identical(attributes(y), before, info = dtype)
    attr(y, "class") <- NULL
    expect_identical(asS4(y, FALSE), vectors[[dtype]], info = dtype)
  }
  # of another dtype that alone is more, and operations do not hand it on
  x <- gpu(c(a = 1.5, b = 2), "float32")
  y <- unserialize(serialize(x, NULL))
  expect_identical(attr(y, "gpu_dtype"), "float32")
  expect_setequal(names(attributes(y)), c("names", "class", "gpu_dtype"))
  expect_identical(gpu_dtype(y + 0), "float32")
  expect_identical(collect(x), c(a = 1.5, b = 2))
  for (z in list(x + 1, y + 1, x[1], y[1], rev(x), as_gpu(y), sqrt(x)))
    expect_null(attr(z, "gpu_dtype"))
})

test_that("a file from saveRDS is a vector where the package is not", {
  file <- withr::local_tempfile()
  saveRDS(list(gpu(c(a = 1.5, b = 2)), gpu(matrix(1:4, 2), "int8"), gpu(c(1, 4), "float32")), file)
  out <- in_child(c(sprintf("s <- readRDS(%s)", deparse(file)),
    "stopifnot(!\"verdigris\" %in% loadedNamespaces())",
    "stopifnot(identical(as.vector(s[[1]]), c(1.5, 2)), sum(s[[1]] * 2) == 7, s[[1]][[\"b\"]] == 2)",
    "stopifnot(identical(dim(s[[2]]), c(2L, 2L)), identical(rowSums(s[[2]]), c(4, 6)), s[[2]][2, 2] == 4L)",
    "stopifnot(identical(as.vector(sqrt(s[[3]])), c(1, 2)), identical(vapply(s[[3]], identity, 1), c(1, 4)))",
    "s[[1]][[1]] <- 7; stopifnot(mean(s[[1]]) == 4.5)", "cat(\"end\\n\")"), attach = FALSE)
  expect_identical(out[length(out)], "end")
})
