# Memory: accounting, limits, garbage collection, and ordinary vectors in our memory.

memory <- function() gpu_memory(test_device)
block <- function(megabytes) gpu_compute(gpu_full(1, megabytes * 1e6 / 8, device = test_device))

test_that("a vector that was read is an ordinary one", {
  n <- 3e5
  shown <- c(collect = "read from a GPU array", as.vector = "an ordinary vector")
  for (read in names(shown)) for (dtype in c("float64", "float32", "int32", "bool8", "complex128")) {
    host <- switch(dtype, int32 = rep_len(c(1L, NA, 3L), n), bool8 = rep_len(c(TRUE, NA, FALSE), n),
      complex128 = rep_len(c(1i, NA, 2), n), rep_len(c(1, NA, 0.5, Inf), n))
    x <- gpu(host, dtype)
    y <- match.fun(read)(x)
    if (dtype == "float32") host[is.na(host)] <- NaN
    expect_output(.Internal(inspect(y)), shown[[read]])
    expect_identical(y, host)
    expect_null(attributes(y))
    expect_identical(sum(is.na(y)), sum(is.na(host)))
    # written in place, without the array or a copy noticing
    z <- y
    y[2] <- y[1]
    expect_identical(y[1:3], host[c(1, 1, 3)])
    expect_identical(z, host)
    expect_identical(as.vector(x), host)
    expect_identical(y[n], host[n])
    # a file holds a plain vector
    file <- withr::local_tempfile(fileext = ".rds")
    saveRDS(z, file, compress = FALSE)
    expect_identical(readRDS(file), host)
    expect_no_match(capture.output(.Internal(inspect(readRDS(file)))), shown[[read]])
  }
})

test_that("any number of threads copies the same, in every dtype", {
  n <- 1.3e6 # more than a chunk of a transfer
  x <- rep_len(c(NA, -1.5, 0.1, 7, 100), n)
  for (dtype in c("float64", "float32", "float16", "int8", "int16", "int32", "int64", "bool8", "complex64")) {
    small <- as.vector(gpu(x[1:5], dtype))
    for (threads in if (dtype %in% c("float64", "float32", "int8")) c(1, 2, 4, 8, 16) else 3) {
      withr::local_options(verdigris.transfer_threads = threads)
      y <- as.vector(gpu(x, dtype))
      expect_identical(y, rep_len(small, n), label = paste(dtype, threads))
    }
  }
})

test_that("collect() keeps attributes without a copy", {
  m <- matrix(as.double(1:4e5), 1000, dimnames = list(NULL, 1:400))
  y <- collect(gpu(m))
  expect_identical(y, m)
  expect_match(paste(capture.output(.Internal(inspect(y))), collapse = " "), "read from a GPU array")
  expect_identical(collect(t(gpu(m))), t(m))
  expect_identical(as.vector(gpu(m, "float32")[1000:1, 400:1]), rev(as.vector(m)))
})

test_that("memory of a vector serves the next one, and a child of a fork can use it", {
  skip_on_os("windows")
  x <- gpu(as.double(1:4e5))
  y <- as.vector(x)
  child <- parallel::mclapply(1:2, function(k) sum(y) + k, mc.cores = 2)
  expect_identical(unlist(child), sum(as.double(1:4e5)) + 1:2)
  rm(y)
  collect_garbage()
  before <- .Call(verdigris:::C_live)[[2]]
  for (k in 1:3) y <- collect(x)
  expect_lte(.Call(verdigris:::C_live)[[2]], before + 3 * 3.2e6)
  expect_gte(.Call(verdigris:::C_live)[[2]], before + 3.2e6)
})

test_that("memory is counted exactly", {
  collect_garbage()
  start <- memory()
  expect_named(start, c("live", "pending", "cached", "pinned", "limit", "free", "total"))
  x <- block(8)
  expect_identical(memory()[["live"]] - start[["live"]], 8e6)
  y <- x
  z <- gpu_compute(x + 1)
  expect_identical(memory()[["live"]] - start[["live"]], 16e6)
  rm(x, y, z)
  gc()
  pending <- memory()
  expect_identical(pending[["live"]], start[["live"]])
  expect_gte(pending[["pending"]], 8e6)
  gpu_sync(test_device) # any call frees it
  expect_identical(memory()[["pending"]], 0)
  expect_identical(memory()[["live"]], start[["live"]])

  # and what is recorded, with what it reads: twice, by two, and through another
  x <- block(8)
  y <- x + x
  z <- sqrt(x * 2) - y
  rm(x, y)
  gc()
  expect_identical(memory()[["live"]] - start[["live"]], 8e6)
  rm(z)
  gc()
  pending <- memory()
  expect_identical(pending[["live"]], start[["live"]])
  expect_gte(pending[["pending"]], 8e6)
})

test_that("a limit holds, garbage makes room below it, and the error says what is held", {
  collect_garbage()
  withr::local_options(verdigris.memory_limit = memory()[["live"]] + 40e6)
  expect_identical(memory()[["limit"]], getOption("verdigris.memory_limit"))
  # ten times the limit goes through it
  for (k in 1:40) x <- block(10)
  rm(x)
  big <- as_gpu(as.double(1:2e6), device = test_device)
  other <- gpu_compute(big * 2 + 1)
  keep <- list(big, other)
  if (test_device == "cpu") {
    error <- expect_error(block(20), class = "verdigris_error_memory")
    expect_match(conditionMessage(error), "20.0 MB")
    expect_match(conditionMessage(error), "verdigris.memory_limit")
    expect_match(conditionMessage(error), "16.0 MB  big * 2 + 1", fixed = TRUE)
    expect_match(conditionMessage(error), "gpu_chunked", fixed = TRUE)
  } else {
    # what was not used for longest waits on the host
    for (k in 1:3) expect_identical(as.vector(block(20)[1:2]), c(1, 1))
  }
  # more than there may ever be
  expect_error(block(400), class = "verdigris_error_memory")
  expect_identical(as.vector(other), as.double(1:2e6) * 2 + 1)
  expect_identical(as.vector(big), as.double(1:2e6))
  expect_lte(memory()[["live"]], memory()[["limit"]])
})

test_that("limits are fractions, bytes, or by device; nonsense is refused", {
  total <- { withr::local_options(verdigris.memory_limit = NULL); memory()[["limit"]] }
  withr::local_options(verdigris.memory_limit = 0.5)
  expect_equal(memory()[["limit"]], total / 2)
  withr::local_options(verdigris.memory_limit = c(cpu = 0.25, cuda = 0.25))
  expect_equal(memory()[["limit"]], total / 4)
  withr::local_options(verdigris.memory_limit = c("cuda:9" = 1e6))
  expect_equal(memory()[["limit"]], total)
  for (wrong in list(-1, NA_real_, "much")) {
    withr::local_options(verdigris.memory_limit = wrong)
    expect_error(memory(), class = "verdigris_error_argument")
    expect_error(block(2), class = "verdigris_error_argument")
  }
})

test_that("refusals leave nothing behind", {
  skip_on_cran()
  withr::local_options(verdigris.memory_limit = 1e9)
  start <- alive()[["device"]]
  failed <- 0
  for (k in 1:300) failed <- failed +
    inherits(try(.Call(verdigris:::C_compute, .Call(verdigris:::C_full, 1, 2e8, NULL, test_device)), silent = TRUE),
    "try-error")
  expect_identical(failed, 300)
  expect_lte(alive()[["device"]], start)
})

test_that("a long loop holds little, and collecting takes little of its time", {
  skip_on_cran()
  x <- gpu(rep(1, 1e6), "float32")
  steps <- function() {
    peak <- 0
    for (k in 1:300) {
      x <- gpu_compute(x * 0.5 + 0.5)
      peak <- max(peak, memory()[["live"]])
    }
    expect_identical(as.vector(x[1:2]), c(1, 1))
    peak
  }
  # below a limit, near which R is asked to collect whatever that costs: elsewhere a clock decides when it is
  collect_garbage()
  room <- 100e6
  limit <- memory()[["live"]] + room
  withr::with_options(list(verdigris.memory_limit = limit), expect_lte(steps(), limit))
  # a few collections come whatever they cost, the others rest for a hundred times that
  one <- system.time(gc())[["user.self"]] # of this session, as large as it is by now
  spent <- .Call(verdigris:::C_live)[[5]]
  start <- proc.time()[[3]]
  steps()
  took <- proc.time()[[3]] - start
  expect_lt(.Call(verdigris:::C_live)[[5]] - spent, 0.1 * took + 6 * max(one, 0.03))
})

test_that("an interrupt ends a long computation, and leaves the array as it was", {
  skip_on_os("windows")
  skip_on_cran()
  code <- sprintf("
    .libPaths(%s); library(verdigris)
    x <- gpu_seq(0, 1, length.out = 2e7, device = '%s')
    y <- x
    for (k in 1:12) y <- sin(y) + cos(x * k) # few enough to be one computation, of some seconds
    cat('ready\\n', file = stderr())
    started <- proc.time()[[3]]
    system(paste('sh -c \"sleep 0.3; kill -INT', Sys.getpid(), '\"'), wait = FALSE)
    caught <- tryCatch({ while (proc.time()[[3]] - started < 60) gpu_compute(y + 1); 'done' }, interrupt = function(i) 'interrupted')
    cat(caught, proc.time()[[3]] - started < 30, sum(x[1:3] >= 0))
  ", paste(deparse(.libPaths()), collapse = ""), test_device)
  file <- withr::local_tempfile(lines = code)
  # who runs the tests in the background has them ignore interrupts
  skip_if(system2("env", c("--default-signal=INT", "true"), stdout = FALSE, stderr = FALSE) != 0,
    "env cannot set signals")
  out <- system2("env", c("--default-signal=INT", file.path(R.home("bin"), "Rscript"), "--vanilla", file),
    stdout = TRUE, stderr = FALSE)
  expect_identical(out[length(out)], "interrupted TRUE 3")
})
