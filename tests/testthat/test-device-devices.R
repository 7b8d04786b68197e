test_that("the cpu is listed first, and one device is current", {
  devices <- gpu_devices()
  expect_s3_class(devices, "data.frame")
  expect_named(devices, c("device", "name", "memory", "capability", "processors", "current"))
  expect_identical(devices$device[[1]], "cpu")
  expect_identical(devices$capability[[1]], "")
  expect_identical(sum(devices$current), 1L)
  expect_true(all(devices$processors >= 1))
  expect_false(anyDuplicated(devices$device) > 0)
  expect_true(all(grepl("^cuda:[0-9]+$", devices$device[-1])))
})

test_that("a chosen device is where arrays are made, until the choice is taken back", {
  before <- gpu_use("cpu")
  withr::defer(gpu_use(before))
  expect_identical(gpu_device(as_gpu(1:3)), "cpu")
  expect_identical(gpu_use(NULL), "cpu")
  expect_null(gpu_use(NULL))
  expect_invisible(gpu_use(NULL))
})

test_that("with_gpu and local_gpu restore, also after an error", {
  before <- gpu_use(NULL)
  withr::defer(gpu_use(before))
  expect_identical(with_gpu("cpu", gpu_device(as_gpu(1))), "cpu")
  expect_null(gpu_use(NULL))
  expect_error(with_gpu("cpu", stop("halt")), "halt")
  expect_null(gpu_use(NULL))
  f <- function(fail) {
    local_gpu("cpu")
    if (fail) stop("halt")
    gpu_device(as_gpu(1))
  }
  expect_identical(f(FALSE), "cpu")
  expect_null(gpu_use(NULL))
  expect_error(f(TRUE), "halt")
  expect_null(gpu_use(NULL))
  # one inside another
  g <- function() {
    local_gpu("cpu")
    f(FALSE)
    gpu_use("cpu")
  }
  expect_identical(g(), "cpu")
  expect_null(gpu_use(NULL))
  expect_error(local_gpu("cpu", .local_envir = globalenv()), class = "verdigris_error_argument")
  expect_error(local_gpu("cpu", .local_envir = 1), class = "verdigris_error_argument")
})

test_that("option verdigris.device serves where nothing is chosen", {
  before <- gpu_use(NULL)
  withr::defer(gpu_use(before))
  withr::local_options(verdigris.device = "cpu")
  expect_identical(gpu_device(as_gpu(1)), "cpu")
  withr::local_options(verdigris.device = "nonsense")
  expect_error(as_gpu(1), class = "verdigris_error_device")
  expect_identical(with_gpu("cpu", gpu_device(as_gpu(1))), "cpu")
  withr::local_options(verdigris.device = 1)
  expect_error(as_gpu(1), class = "verdigris_error_argument")
})

test_that("a device that is not there is an error, and the current one stays", {
  before <- gpu_use("cpu")
  withr::defer(gpu_use(before))
  for (name in c("gpu0", "CUDA", "cuda:x", "cuda:-1", "")) {
    expect_error(gpu_use(name), class = "verdigris_error_device")
  }
  # no fallback: the driver is missing, or shows fewer
  error <- expect_error(gpu_use("cuda:999"), class = "verdigris_error")
  expect_true(error$kind %in% c("device", "library"))
  expect_error(as_gpu(1, device = "cuda:999"), class = "verdigris_error")
  expect_error(gpu_use(c("cpu", "cpu")), class = "verdigris_error_argument")
  expect_error(gpu_use(NA_character_), class = "verdigris_error_argument")
  expect_identical(gpu_use("cpu"), "cpu")
})

test_that("operations run where their operands are", {
  x <- gpu(1:10)
  expect_match(gpu_device(x), test_device, fixed = TRUE)
  expect_match(with_gpu("cpu", gpu_device(x + 1L)), test_device, fixed = TRUE)
})

test_that("memory is counted, and comes back", {
  collect_garbage()
  memory <- gpu_memory(test_device)
  expect_s3_class(memory, "gpu_memory")
  expect_true(all(c("live", "cached", "free", "total") %in% names(memory)))
  expect_output(print(memory), "live")
  live <- memory[["live"]]
  x <- gpu(as.double(1:1e5))
  expect_equal(gpu_memory(test_device)[["live"]] - live, 8e5, tolerance = 0.01)
  gpu_free(x)
  expect_lt(gpu_memory(test_device)[["live"]] - live, 8e3)
  expect_s3_class(gpu_memory(test_device, trim = TRUE), "gpu_memory")
  expect_error(gpu_memory(test_device, trim = NA), class = "verdigris_error_argument")
  expect_null(gpu_sync(test_device))
})

test_that("an array that was freed says so", {
  x <- gpu(c(1, 2, 3))
  y <- x
  expect_null(gpu_free(x))
  expect_length(x, 3L)
  expect_error(x + 1, class = "verdigris_error_consumed")
  expect_error(sum(y), class = "verdigris_error_consumed")
  expect_error(as.vector(x), class = "verdigris_error_consumed")
  expect_error(base::rev(unclass(x)), "gpu_free")
  expect_null(gpu_free(x))
  expect_error(gpu_free(1), class = "verdigris_error_argument")
})

test_that("what was recorded before keeps its elements", {
  x <- gpu(c(1, 2, 3))
  y <- x * 2
  gpu_free(x)
  expect_identical(as.vector(y), c(2, 4, 6))
})

test_that("tiers are chosen by name", {
  skip_on_os("mac")
  before <- .Call(verdigris:::C_tier, NULL)
  expect_true(before %in% c("auto", "compiled", "interpreted"))
  for (tier in c("compiled", "interpreted", "auto")) {
    .Call(verdigris:::C_tier, tier)
    expect_identical(.Call(verdigris:::C_tier, NULL), tier)
  }
  .Call(verdigris:::C_tier, before)
  expect_error(.Call(verdigris:::C_tier, "quick"), "no tier \"quick\"", class = "verdigris_error_argument")
  expect_error(.Call(verdigris:::C_tier, 1), class = "verdigris_error_argument")
  expect_identical(.Call(verdigris:::C_tier, NULL), before)
})

test_that("a new expression is interpreted until its kernel is there, with the same values", {
  skip_if(test_device == "cpu", "no GPU is tested")
  skip_if(.Call(verdigris:::C_tier, NULL) != "auto", "another tier is chosen")
  counts <- function(seconds) .Call(verdigris:::C_tier_counts, gpu_device(x), seconds)
  x <- gpu(c(NA, seq(-3, 3, length.out = 1000)))
  expression <- function() gpu_compute(exp(-x^2 / 7) - x * 3 / (1 + abs(x)) + sin(x))
  before <- counts(60)
  first <- expression()
  expect_identical(counts(60)$interpreted, before$interpreted + 1)
  second <- expression()
  expect_identical(counts(0)$compiled, before$compiled + 1)
  expect_identical(as.vector(second), as.vector(first))
  # functions that depend on the CUDA version wait for their kernel, or are those of that version
  expression <- function() gpu_compute(asinh(x) * 2 - asin(x / 4) + atan2(x, 2))
  first <- expression()
  counts(60)
  expect_identical(as.vector(expression()), as.vector(first))
  expect_equal(as.vector(first), asinh(as.vector(x)) * 2 - asin(as.vector(x) / 4) + atan2(as.vector(x), 2))
})

test_that("expressions, reductions and scans need no NVRTC", {
  skip_if(test_device == "cpu", "no GPU is tested")
  skip_if(emulated, "an emulated driver does not compile PTX")
  code <- paste(
    "library(verdigris); options(verdigris.host_access = 'allow')",
    "x <- as_gpu(c(2, 1, 4, 3), device = 'cuda')",
    "m <- as_gpu(matrix(1:6 / 2, 2), device = 'cuda')",
    "z <- as_gpu(complex(real = 1:2, imaginary = 1), device = 'cuda')",
    "stopifnot(identical(as.vector(sqrt(x^2) + 1), c(3, 2, 5, 4)), sum(x * 2) == 20, identical(range(x), c(1, 4)))",
    "stopifnot(identical(as.vector(rowSums(m)), rowSums(matrix(1:6 / 2, 2))), identical(as.vector(cumsum(x)), c(2, 3, 7, 10)))",
    "stopifnot(identical(as.vector(sort(x)), c(1, 2, 3, 4)), identical(as.vector(x[x > 2]), c(4, 3)), which.max(x) == 3L)",
    "stopifnot(identical(as.vector(z * z), complex(real = 1:2, imaginary = 1)^2), all.equal(as.vector(gamma(x)), gamma(c(2, 1, 4, 3))))",
    "x[2] <- 9; stopifnot(identical(as.vector(x), c(2, 9, 4, 3)), length(gpu_rnorm(10, device = 'cuda')) == 10)",
    "r <- tryCatch(gpu_kernel('extern \"C\" __global__ void f(double* x, int n) { }', 'f')(x, 4L), error = function(e) e)",
    "stopifnot(inherits(r, 'verdigris_error_library')); cat('all good')",
    sep = "\n"
  )
  file <- withr::local_tempfile(lines = code, fileext = ".R")
  said <- withr::with_envvar(c(VERDIGRIS_NVRTC = "none", VERDIGRIS_TIER = "auto",
    R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep)), {
    suppressWarnings(system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", file), stdout = TRUE, stderr = TRUE))
  })
  expect_true(any(grepl("all good", said)), info = paste(said, collapse = "\n"))
})
