# Arrays and Python's, in one process: numpy always, PyTorch where it is installed.

python_module <- function(name) {
  skip_if_not_installed("reticulate")
  skip_if_not(tryCatch(reticulate::py_module_available(name), error = function(e) FALSE), paste(name, "is not there"))
  reticulate::import(name, convert = FALSE)
}
describe <- function(x) .Call(verdigris:::C_dlpack_describe, as_dlpack(x))
address <- function(x) describe(x)$address
number <- function(x) reticulate::py_to_r(x$`__float__`())

test_that("an array goes to numpy as often as wanted, and lives there", {
  np <- python_module("numpy")
  skip_if(test_device != "cpu")
  m <- matrix(as.numeric(1:6), 2)
  x <- gpu(m)
  there <- np$from_dlpack(x)
  expect_identical(reticulate::py_to_r(there$tolist()), list(c(1, 3, 5), c(2, 4, 6)))
  expect_identical(number(there$ctypes$data), address(x))
  expect_identical(number(np$from_dlpack(x)$ctypes$data), address(x))
  expect_identical(reticulate::py_to_r(np$from_dlpack(t(x))$shape), list(3L, 2L))
  expect_identical(reticulate::py_to_r(np$from_dlpack(gpu(1:3))$tolist()), 1:3)
  expect_identical(number(np$sum(x)), 21)
  expect_identical(reticulate::py_to_r(np$asarray(x, dtype = "float32")$dtype$name), "float32")
  object <- reticulate::r_to_py(x)
  expect_identical(object$`__dlpack_device__`(), list(1L, 0L))
  expect_identical(reticulate::py_len(object), 2L)
  expect_output(print(object), "<R array float64 (2, 3) on cpu>", fixed = TRUE)
  expect_error(object$`__dlpack__`(dl_device = reticulate::tuple(2L, 0L)), "not moved")
  rm(x)
  collect_garbage()
  expect_identical(number(np$sum(there)), 21)
  expect_false(number(np$from_dlpack(object, copy = TRUE)$ctypes$data) == number(there$ctypes$data))
})

test_that("numpy's arrays come in: strides, types, sharing, refusals", {
  np <- python_module("numpy")
  row_major <- np$arange(6)$reshape(2L, 3L)$astype("float64")
  y <- as_gpu(row_major)
  expect_identical(as.matrix(y), matrix(as.numeric(0:5), 2, byrow = TRUE))
  expect_identical(address(y), number(row_major$ctypes$data))
  row_major$fill(7)
  expect_identical(collect(y + 1), matrix(8, 2, 3))
  rm(row_major)
  reticulate::import("gc")$collect()
  expect_identical(collect(y), matrix(7, 2, 3))
  reversed <- reticulate::py_run_string("import numpy; reversed = numpy.arange(10)[::-2]", local = TRUE,
    convert = FALSE)$reversed
  expect_identical(gpu_dtype(as_gpu(np$arange(3), dtype = "float32")), "float32")
  expect_identical(collect(as_gpu(reversed, dtype = "double")), c(9, 7, 5, 3, 1))
  expect_identical(collect(as_gpu(np$ones(list(2L, 1L, 3L), dtype = "int32"))), array(1L, c(2, 1, 3)))
  expect_error(as_gpu(np$arange(3, dtype = "uint32")), class = "verdigris_error_dtype")
  expect_error(as_gpu(np$arange(3, dtype = ">f4")), "Python did not share", class = "verdigris_error_argument")
  expect_error(as_gpu(reticulate::r_to_py(list(1, 2))), "__dlpack__", class = "verdigris_error_argument")
  expect_error(as_gpu(np), "__dlpack__", class = "verdigris_error_argument")
})

test_that("refusals of R's side are Python's exceptions", {
  np <- python_module("numpy")
  expect_error(np$from_dlpack(gpu(c(TRUE, NA))), "NA")
})

test_that("exchanges with Python leave nothing behind", {
  np <- python_module("numpy")
  skip_if(test_device != "cpu")
  x <- gpu(as.numeric(1:1000))
  as_gpu(np$from_dlpack(x))
  reticulate::import("gc")$collect()
  collect_garbage()
  before <- .Call(verdigris:::C_live)[[1]]
  for (k in 1:200) as_gpu(np$from_dlpack(x))
  reticulate::import("gc")$collect()
  collect_garbage()
  expect_lte(.Call(verdigris:::C_live)[[1]], before + 2)
})

test_that("a consumer's refusal is an error, and frees the tensor", {
  np <- python_module("numpy")
  skip_if(test_device != "cpu")
  before <- alive()
  for (k in 1:20) {
    x <- as_gpu(as.numeric(1:1e5), "bfloat16", device = "cpu")
    expect_error(np$from_dlpack(x), "dtype")
    expect_error(np$from_dlpack(reticulate::r_to_py(as_dlpack(x))), "dtype")
  }
  # a capsule that is dropped with an exception pending, or unused
  drop <- reticulate::py_run_string("
def drop(x):
    capsule = x.__dlpack__()
    raise ValueError('dropped')
def forget(x):
    x.__dlpack__()
", local = TRUE, convert = FALSE)
  for (k in 1:20) {
    x <- gpu(as.numeric(1:1e5))
    expect_error(drop$drop(x), "dropped")
    drop$forget(x)
  }
  rm(x)
  reticulate::import("gc")$collect()
  reticulate::py_run_string("import sys; sys.last_value = sys.last_traceback = None")
  after <- alive()
  expect_lte(after[["device"]], before[["device"]] + 1e6)
  expect_lte(after[["handles"]], before[["handles"]] + 2)
})

test_that("PyTorch shares memory both ways", {
  torch <- python_module("torch")
  skip_if(test_device != "cpu")
  m <- matrix(as.numeric(1:6), 2)
  x <- gpu(m)
  tensor <- torch$from_dlpack(x)
  expect_identical(reticulate::py_to_r(tensor$data_ptr()$`__float__`()), address(x))
  tensor$mul_(10)
  expect_identical(collect(x), m * 10)
  y <- as_gpu(torch$ones(2L, 3L))
  expect_identical(collect(y), matrix(1, 2, 3))
  expect_error(as_gpu(torch$ones(2L, requires_grad = TRUE)), "detach", class = "verdigris_error_argument")
})
