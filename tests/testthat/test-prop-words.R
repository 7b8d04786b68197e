# Messages about wrong arguments: they show what came, and what is near it.

said <- function(expr) {
  e <- tryCatch(expr, verdigris_error = identity)
  expect_s3_class(e, "verdigris_error")
  conditionMessage(e)
}

test_that("a single value is shown, and of others type and length", {
  expect_match(said(gpu_rnorm(-1)), "`n` must be a number of draws, 0 or more, not -1.", fixed = TRUE)
  expect_match(said(gpu_zeros(-1)), "not -1", fixed = TRUE)
  expect_match(said(gpu_zeros(2.5)), "not 2.5", fixed = TRUE)
  expect_match(said(gpu_group(gpu(1:3), c(1, 1))), "as long as `x` (3 elements), not a double vector of length 2.",
    fixed = TRUE)
  expect_match(said(gpu_chunked(1:3, sum, chunk = c(1L, 2L))), "not an integer vector of length 2", fixed = TRUE)
  expect_match(said(gpu_memory(trim = "yes")), "`trim` must be TRUE or FALSE, not \"yes\".", fixed = TRUE)
  expect_match(said(gpu_memory(trim = NA)), "not NA.", fixed = TRUE)
  expect_match(said(as_gpu(list(1))), "not a list", fixed = TRUE)
  expect_match(said(gpu_cast(gpu(1), TRUE)), "`dtype` must be one string, not TRUE", fixed = TRUE)
  # no number is written longer than it is, and nothing that has to be waited for is read
  expect_match(said(gpu_zeros(-1e300)), "not -1e+300", fixed = TRUE)
  expect_match(said(gpu_zeros(-Inf)), "not -Inf", fixed = TRUE)
  for (value in list(NULL, "a", 1i, c, quote(a), globalenv(), raw(1), NA_character_, NaN, "\xff", list(), -1L, gpu(1)))
    expect_false(grepl("\\ba [aeiou]", describe(value)), info = describe(value))
})

test_that("names that are near a dtype, a device or a choice are proposed", {
  near <- function(text, name) expect_match(text, sprintf("Did you mean \"%s\"?", name), fixed = TRUE)
  dtypes <- c(f32 = "float32", f64 = "float64", fp16 = "float16", bf16 = "bfloat16", i32 = "int32", i64 = "int64",
    Float32 = "float32", flaot32 = "float32", c128 = "complex128", u8 = "uint8", boolean = "bool8")
  for (name in names(dtypes)) near(said(as_gpu(1, name)), dtypes[[name]])
  devices <- c(gpu = "cuda", GPU = "cuda", "gpu:1" = "cuda:1", cuda0 = "cuda:0", CPU = "cpu", "1" = "cuda:1")
  for (name in names(devices)) near(said(as_gpu(1, device = name)), devices[[name]])
  near(said(as_gpu(1, device = 0)), "cuda:0")
  near(said(gpu_use(1L)), "cuda:1")
  near(said(gpu_chunked(1:3, sum, combine = "plus")), "+")
  near(said(gpu_group(gpu(1:3), 1:3, "avg")), "mean")
  near(said(gpu_group(gpu(1:3), 1:3, "summ")), "sum")
  near(said(format(gpu(1), what = "headers")), "header")
  for (name in c("tpu", "zzz")) expect_false(grepl("Did you mean", said(as_gpu(1, device = name))))
  expect_false(grepl("Did you mean", said(as_gpu(1, "quaternion"))))
})

test_that("gpu_grad() names what is no parameter before it is called", {
  f <- function(x, a, b) a * x + b
  expect_match(said(gpu_grad(f, "beta")), "`wrt` names `beta`", fixed = TRUE)
  expect_match(said(gpu_grad(f, c("a", "bb"))), "Did you mean \"b\"?", fixed = TRUE)
})

test_that("gpu_save() names the element that it cannot write", {
  path <- withr::local_tempfile()
  expect_match(said(gpu_save(list(a = "x"), path)), "`x$a` must be", fixed = TRUE)
  expect_match(said(gpu_save(list(b = 1, a = factor("x")), path)), "`x$a` must be", fixed = TRUE)
  expect_match(said(gpu_save("x", path)), "`x` must be", fixed = TRUE)
  expect_false(file.exists(path))
})

test_that("gpu_chunked() says at which chunk a function failed, and why", {
  fails <- function(x) if (any(x == 3)) rlang::abort("three", class = "mine") else sum(x)
  e <- expect_error(gpu_chunked(c(1, 2, 3, 4), fails, chunk = 1, device = test_device), class = "verdigris_error_chunk")
  expect_s3_class(e, "mine")
  expect_match(e$message, "`f` failed on chunk 3 of 4.", fixed = TRUE)
  expect_identical(conditionMessage(e$parent), "three")
  e <- expect_error(gpu_chunked(1:4, sum, combine = function(a, b) stop("no sum"), chunk = 2, device = test_device),
    class = "verdigris_error_chunk")
  expect_match(e$message, "`combine` failed at chunk 2 of 2.", fixed = TRUE)
  n <- 0
  reader <- function(k) if ((n <<- n + 1) < 3) c(1, 2) else stop("torn tape")
  e <- expect_error(gpu_chunked(reader, sum, device = test_device), class = "verdigris_error_chunk")
  expect_match(e$message, "`x` failed to give chunk 3.", fixed = TRUE)
  expect_identical(conditionMessage(e$parent), "torn tape")
})

test_that("gpu_available() tells what the driver shows, and never fails", {
  expect_identical(gpu_available(), any(gpu_devices()$device != "cpu"))
  expect_true(gpu_available("cpu"))
  expect_true(gpu_available(test_device))
  expect_identical(gpu_available("cuda"), "cuda:0" %in% gpu_devices()$device)
  odd <- list("cuda:99", "gpu", NA, NA_character_, 0, c("cpu", "cpu"), character(), list(), sum, "\xff", factor("cpu"))
  for (device in odd) expect_false(gpu_available(device))
  withr::local_options(verdigris.cuda_path = 1, verdigris.device = "none")
  expect_false(gpu_available("cuda:99"))
  expect_true(is.logical(gpu_available()))
})

test_that("gpu_sitrep() says in one sentence what there is to do", {
  lacks <- list(error = "there is no driver", advice = "Install NVIDIA's driver, version 525 or newer.", broken = FALSE)
  cpu <- data.frame(device = "cpu", name = "A Processor")
  both <- rbind(cpu, data.frame(device = "cuda:0", name = "NVIDIA H100"))
  around <- function(gpu, container) list(gpu = gpu, container = container)
  expect_identical(to_do(lacks, cpu, list(), "no driver", around(FALSE, FALSE)),
    "No NVIDIA GPU: everything runs on the cpu device, nothing to do.")
  expect_identical(to_do(lacks, cpu, list(), "no driver", around(TRUE, FALSE)),
    "Do this: install NVIDIA's driver, version 525 or newer.")
  expect_match(to_do(lacks, cpu, list(), "no driver", around(TRUE, TRUE)), "^Do this: .*`--gpus all`")
  expect_match(to_do(lacks, cpu, list(), "no driver", around(FALSE, TRUE)),
    "^No NVIDIA GPU.*nothing to do.*`--gpus all`")
  broken <- utils::modifyList(lacks, list(broken = TRUE))
  expect_match(to_do(broken, cpu, list(), "no driver", around(FALSE, TRUE)), "^Do this: install")
  fine <- list(cuda = "13.0", version = "580.95")
  expect_identical(to_do(fine, both, list(), NULL, around(TRUE, FALSE)), "cuda:0 (NVIDIA H100) works, nothing to do.")
  missing <- list(NVRTC = list(error = "not found", remedy = "install.packages(\"cuda12.8\")"))
  expect_identical(to_do(fine, both, missing, "NVRTC was not found", around(TRUE, FALSE)),
    "Do this: run `install.packages(\"cuda12.8\")`, then restart R.")
  later <- list(NCCL = list(error = "not found", remedy = "install.packages(\"cuda12.8\")"))
  expect_identical(to_do(fine, both, later, NULL, around(TRUE, FALSE)), "cuda:0 (NVIDIA H100) works, nothing to do.")
  expect_match(to_do(fine, cpu, list(), "no device", around(TRUE, FALSE)), "^Do this: .*CUDA_VISIBLE_DEVICES")
  out <- capture.output(found <- gpu_sitrep())
  expect_identical(gsub("[[:space:]]+", " ", paste(out[seq_along(strwrap(found$summary, cli::console_width())) + 1L],
    collapse = " ")), found$summary)
})
