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
  gc() # so that none comes between
  gpu_sync(test_device)
  memory <- gpu_memory(test_device)
  expect_s3_class(memory, "gpu_memory")
  expect_true(all(c("live", "cached", "free", "total") %in% names(memory)))
  expect_output(print(memory), "live")
  live <- memory[["live"]]
  x <- gpu(as.double(1:1e5))
  expect_equal(gpu_memory(test_device)[["live"]] - live, 8e5, tolerance = 0.01)
  gpu_free(x)
  expect_equal(gpu_memory(test_device)[["live"]], live, tolerance = 0.01)
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
