live <- function() .Call(verdigris:::C_live)[[1]]
describe <- function(capsule) .Call(verdigris:::C_dlpack_describe, capsule)

test_that("an array goes out as it lies in memory, and comes in again without a copy", {
  x <- gpu(matrix(as.numeric(1:6), 2))
  for (versioned in c(TRUE, FALSE)) {
    capsule <- as_dlpack(x, versioned = versioned)
    expect_s3_class(capsule, "dlpack_capsule", exact = TRUE)
    info <- describe(capsule)
    expect_identical(info$tag, if (versioned) "dltensor_versioned" else "dltensor")
    expect_identical(info$shape, c(2, 3))
    expect_identical(info$strides, c(1, 2))
    expect_identical(info$dtype, "float64")
    expect_identical(info$read_only, versioned)
    y <- from_dlpack(capsule)
    expect_identical(describe(as_dlpack(y))$address, info$address)
    expect_identical(as.matrix(y), matrix(as.numeric(1:6), 2))
    expect_identical(class(y), class(x))
    expect_identical(gpu_device(y), gpu_device(x))
  }
  copy <- from_dlpack(as_dlpack(x), copy = TRUE)
  expect_false(describe(as_dlpack(copy))$address == describe(as_dlpack(x))$address)
  expect_identical(collect(copy), collect(x))
})

test_that("a capsule is used once", {
  x <- gpu(c(1, 2, 3))
  capsule <- as_dlpack(x)
  expect_identical(collect(from_dlpack(capsule)), c(1, 2, 3))
  expect_error(from_dlpack(capsule), class = "verdigris_error_consumed")
  expect_identical(.Call(verdigris:::C_dlpack_describe, capsule), "used_dltensor_versioned")
  saved <- unserialize(serialize(as_dlpack(x), NULL))
  expect_error(from_dlpack(saved), class = "verdigris_error_consumed")
  expect_error(from_dlpack(1), class = "verdigris_error_argument")
  expect_error(as_dlpack(1), class = "verdigris_error_argument")
  expect_error(as_dlpack(x, versioned = NA), class = "verdigris_error_argument")
})

test_that("every type keeps its values; what is recorded is computed", {
  for (x in list(1:3, c(1.5, NA, -Inf), c(TRUE, FALSE), c(1 + 2i, 0i))) {
    expect_identical(collect(from_dlpack(as_dlpack(gpu(x)))), x)
  }
  for (dtype in c("float32", "float16", "bfloat16", "int8", "uint8", "int16", "int64", "complex64")) {
    y <- from_dlpack(as_dlpack(gpu(1:3, dtype)))
    expect_identical(gpu_dtype(y), dtype)
    expect_identical(collect(y), collect(gpu(1:3, dtype)))
  }
  expect_identical(collect(from_dlpack(as_dlpack(gpu(c(1, 2)) * 2 + 1))), c(3, 5))
})

test_that("views go out with their strides", {
  x <- gpu(matrix(as.numeric(1:6), 2))
  capsule <- as_dlpack(t(x))
  y <- from_dlpack(capsule)
  expect_identical(as.matrix(y), t(matrix(as.numeric(1:6), 2)))
  expect_identical(as.matrix(y * 2 + t(x)), 3 * t(matrix(as.numeric(1:6), 2)))
})

test_that("shapes: none, one, zero, three", {
  expect_identical(describe(as_dlpack(gpu(numeric())))$shape, 0)
  expect_identical(collect(from_dlpack(as_dlpack(gpu(numeric())))), numeric())
  expect_identical(dim(from_dlpack(as_dlpack(gpu(matrix(0, 0, 3))))), c(0L, 3L))
  a <- array(1:24, 2:4)
  expect_identical(as.array(from_dlpack(as_dlpack(gpu(a)))), a)
  expect_null(dim(from_dlpack(as_dlpack(gpu(1:3)))))
})

test_that("a logical array with NA stays", {
  e <- expect_error(as_dlpack(gpu(c(TRUE, NA))), class = "verdigris_error_dtype")
  expect_match(conditionMessage(e), "NA", fixed = TRUE)
  expect_identical(collect(from_dlpack(as_dlpack(gpu_cast(gpu(c(TRUE, NA)), "int32")))), c(1L, NA))
})

test_that("memory lives as long as someone uses it", {
  before <- live()
  local({
    x <- gpu(c(1, 2, 3) + 0)
    capsule <- as_dlpack(x)
    rm(x)
    gc()
    y <- from_dlpack(capsule)
    rm(capsule)
    gc()
    expect_identical(collect(y + 1), c(2, 3, 4))
    as_dlpack(y) # nobody takes it
  })
  gc()
  gpu(1)
  gc()
  gpu(1)
  expect_lte(live() - before, 1)
})

test_that("values stay values", {
  x <- gpu(c(1, 2, 3))
  y <- from_dlpack(as_dlpack(x))
  x[2] <- 20
  expect_identical(collect(y), c(1, 2, 3))
  y[1] <- 10
  expect_identical(collect(x), c(1, 20, 3))
})

test_that("what R only reads stays shared, and is read again", {
  x <- gpu(c(3, 1, 2))
  y <- from_dlpack(as_dlpack(x))
  address <- describe(as_dlpack(y))$address
  expect_identical(base::order(y), c(2L, 3L, 1L)) # asks for a pointer to write
  expect_identical(collect(y + 1), c(4, 2, 3))
  expect_identical(describe(as_dlpack(y))$address, address)
  z <- unclass(y)
  z[1] <- 7
  expect_identical(collect(y), c(3, 1, 2))
})

test_that("capsules print", {
  capsule <- as_dlpack(gpu(matrix(1:6, 2)))
  expect_output(print(capsule), "<dlpack_capsule dltensor_versioned>\nint32 [2 x 3] on", fixed = TRUE)
  expect_output(print(capsule), "strides 1 2, read-only", fixed = TRUE)
  from_dlpack(capsule)
  expect_output(print(capsule), "<dlpack_capsule used_dltensor_versioned>", fixed = TRUE)
})

test_that("numpy and R share memory in one process", {
  # the engine's own tests exchange with numpy without R; this one goes through the R functions
  skip_if_not_installed("reticulate")
  skip_if_not(tryCatch(reticulate::py_module_available("numpy"), error = function(e) FALSE), "numpy is not there")
  skip_if(test_device != "cpu")
  np <- reticulate::import("numpy", convert = FALSE)
  x <- gpu(matrix(as.numeric(1:6), 2))
  for (versioned in c(TRUE, FALSE)) {
    there <- np$from_dlpack(as_dlpack(x, versioned = versioned))
    expect_identical(reticulate::py_to_r(there$tolist()), list(c(1, 3, 5), c(2, 4, 6)))
    expect_identical(reticulate::py_to_r(there$ctypes$data$`__float__`()), describe(as_dlpack(x))$address)
  }
  # numpy's row-major arrays are views here
  row_major <- np$arange(6)$reshape(2L, 3L)$astype("float64")
  y <- from_dlpack(row_major)
  expect_identical(as.matrix(y), matrix(as.numeric(0:5), 2, byrow = TRUE))
  expect_identical(describe(as_dlpack(y))$strides, c(3, 1))
  row_major$fill(7)
  expect_identical(collect(y), matrix(7, 2, 3))
  expect_error(from_dlpack(np$arange(3, dtype = "uint32")), class = "verdigris_error_dtype")
})
