test_that("gpu_sitrep prints and returns what it found", {
  out <- capture.output(found <- withVisible(gpu_sitrep()))
  expect_false(found$visible)
  found <- found$value
  expect_s3_class(found, "gpu_sitrep")
  expect_named(found, c("summary", "system", "driver", "devices", "libraries", "problem", "cache", "options"))
  for (part in c("verdigris", "Driver", "Devices", "CUDA libraries", "Cache and options")) {
    expect_true(any(grepl(part, out, fixed = TRUE)), info = part)
  }
  if (Sys.info()[["sysname"]] == "Darwin") skip("no CUDA")
  expect_setequal(names(found$libraries), c("NVRTC", "nvJitLink", "cuBLAS", "cuSPARSE", "cuSOLVER", "cuFFT", "NCCL"))
  for (library in found$libraries) {
    if (is.null(library$error)) {
      expect_true(nzchar(library$path) && nzchar(library$version) && nzchar(library$origin))
    } else {
      expect_match(library$remedy, "install.packages", fixed = TRUE)
    }
  }
  if (is.null(found$driver$error)) {
    expect_match(found$driver$cuda, "^[0-9]+[.][0-9]+$")
    expect_gte(nrow(found$devices), 2L)
  } else {
    expect_true(length(found$driver$advice) >= 1L)
    expect_identical(found$devices$device, "cpu")
    expect_false(is.null(found$problem))
  }
})

test_that("lacks come with the command that mends them", {
  found <- list(
    system = list(version = "0.1.0", r = "4.5.0", platform = "x86_64-pc-linux-gnu", os = "Debian 12"),
    driver = list(cuda = "13.0", version = "580.95", path = "/usr/lib/libcuda.so.1", devices = 1),
    devices = data.frame(
      device = c("cpu", "cuda:0"), name = c("A Processor", "NVIDIA H100"), memory = c(NA, 8e10),
      capability = c("", "9.0"), processors = c(16, 132), current = c(TRUE, FALSE)
    ),
    libraries = list(
      NVRTC = list(version = "13.0", path = "/opt/libnvrtc.so.13", origin = "R package", purpose = "kernels"),
      cuBLAS = list(error = "cuBLAS (matrix products) was not found", detail = "", purpose = "matrix products",
        remedy = "install.packages(\"cuda12.8\")"),
      cuFFT = list(error = "cuFFT (fft) was found, but cannot be loaded", detail = "/a: garbage", purpose = "fft",
        remedy = "install.packages(\"cuda12.8\")"),
      cuSOLVER = list(version = "12.0", path = "/opt/libcusolver.so.12", origin = "R package", purpose = "solve")
    ),
    problem = NULL, cache = list(path = NULL, files = 0L, bytes = 0), options = list(verdigris.device = "cpu")
  )
  withr::local_options(cli.num_colors = 1L, cli.unicode = FALSE, cli.width = 80L)
  out <- capture.output(print(structure(found, class = "gpu_sitrep")))
  expect_snapshot(writeLines(out))
  expect_identical(sum(grepl("install.packages", out, fixed = TRUE)), 1L)

  found$driver <- list(error = "there is no driver 100%s", advice = "Install {it}.")
  out <- capture.output(print(structure(found, class = "gpu_sitrep")))
  expect_true(any(grepl("100%s", out, fixed = TRUE)))
  expect_true(any(grepl("Install {it}.", out, fixed = TRUE)))
})

test_that("a path that is garbage is reported, not fatal", {
  skip_on_os(c("mac", "windows"))
  folder <- withr::local_tempdir()
  writeLines("garbage", file.path(folder, "libcufft.so.12"))
  withr::local_options(verdigris.cuda_path = folder)
  capture.output(found <- gpu_sitrep())
  cufft <- found$libraries$cuFFT
  # what was loaded before stays
  if (!is.null(cufft$error)) expect_match(cufft$detail, "not a shared library")
  expect_s3_class(found, "gpu_sitrep")
})

test_that("attaching says one line, and does not start CUDA", {
  said <- attach_message()
  expect_length(said, 1L)
  expect_match(said, "^verdigris [0-9.]+ \\(.*gpu_sitrep")
})

test_that("packages with CUDA are found in the libraries, the newest first", {
  folder <- withr::local_tempdir()
  for (name in c("cuda12.8", "cuda13.2", "cuda12.10", "cudanot", "cuda9.1")) dir.create(file.path(folder, name))
  withr::with_libpaths(folder, action = "prefix", {
    found <- cuda_packages()
  })
  expect_identical(basename(found[dirname(found) == normalizePath(folder)]), c("cuda13.2", "cuda12.10", "cuda12.8"))
})

test_that("the cache folder can be chosen or refused", {
  withr::local_options(verdigris.cache_dir = NA)
  expect_null(cache_folder())
  withr::local_options(verdigris.cache_dir = "/somewhere")
  expect_identical(cache_folder(), "/somewhere")
  withr::local_options(verdigris.cache_dir = NULL)
  expect_match(cache_folder(), "verdigris")
})
