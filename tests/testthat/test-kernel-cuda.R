axpy_source <- '
extern "C" __global__ void axpy(const float* x, float* __restrict__ y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}'
axpy <- gpu_kernel(axpy_source)

test_that("the signature is read from the source", {
  expect_s3_class(axpy, c("gpu_kernel", "function"), exact = TRUE)
  expect_output(print(axpy), "<gpu_kernel>\nvoid axpy(const float* x, float* y, float a, int n)", fixed = TRUE)
  two <- c('extern "C" {', "__global__ void one(double *x) {}", "__global__ void two(size_t n) {}", "}")
  expect_output(print(gpu_kernel(two, "two")), "void two(unsigned long long n)", fixed = TRUE)
  e <- expect_error(gpu_kernel(two), class = "verdigris_error_argument")
  expect_match(conditionMessage(e), "`one`, `two`", fixed = TRUE)
  expect_error(gpu_kernel(two, "three"), "no kernel `three`", class = "verdigris_error_argument")
  expect_output(print(gpu_kernel("__global__ void f() {}")), "void f()", fixed = TRUE)
  expect_error(gpu_kernel("int x;"), "defines no kernel", class = "verdigris_error_argument")
  expect_error(gpu_kernel(1), class = "verdigris_error_argument")
})

test_that("arguments are checked by number, name and type", {
  x <- gpu(c(1, 2), "float32")
  expect_error(axpy(x, x), "takes 4 arguments, not 2", class = "verdigris_error_argument")
  expect_error(axpy(x, x, 1, 2, 3), "takes 4 arguments, not 5", class = "verdigris_error_argument")
  expect_error(axpy(x, x, 1, b = 2), "no parameter `b`", class = "verdigris_error_argument")
  expect_error(axpy(x, x = x, x = x, 1), "given twice", class = "verdigris_error_argument")
  expect_error(axpy(x = x, x, 1), "takes 4 arguments, not 3", class = "verdigris_error_argument")
  e <- expect_error(axpy(x, gpu(1), 1, 1), class = "verdigris_error_dtype")
  expect_match(conditionMessage(e), "argument `y` of kernel `axpy` is `float*`: it takes float32 arrays, not float64",
    fixed = TRUE)
  expect_match(conditionMessage(e), 'gpu_cast(y, "float32")', fixed = TRUE)
  expect_error(axpy(c(1, 2), x, 1, 2), "takes an array, not a double vector", class = "verdigris_error_dtype")
  expect_error(axpy(x, x, "1", 2), 'takes one number, not "1"', class = "verdigris_error_dtype")
  expect_error(axpy(x, x, 1, 2.5), "argument `n` of kernel `axpy` is `int`: it takes a whole number, not 2.5",
    class = "verdigris_error_dtype")
  expect_error(axpy(x, x, 1, 2^31), "outside", class = "verdigris_error_dtype")
  expect_error(axpy(x, x, 1, NA_integer_), "not NA", class = "verdigris_error_dtype")
  expect_error(axpy(x, x, 1, x), "takes one number, not an array", class = "verdigris_error_dtype")
  expect_error(axpy(x, x, 1, 2, block = 1:4), "one to three", class = "verdigris_error_argument")
  expect_error(axpy(x, x, 1, 2, shared = -1), class = "verdigris_error_argument")
})

test_that("arrays on the cpu device are refused, and not changed", {
  x <- as_gpu(c(1, 2), dtype = "float32", device = "cpu")
  e <- expect_error(axpy(x, x, 1, 2), class = "verdigris_error_device")
  expect_match(conditionMessage(e), 'as_gpu(x, device = "cuda")', fixed = TRUE)
  expect_error(axpy(x, y = x, a = 1, n = 2), class = "verdigris_error_device")
  expect_identical(collect(x), c(1, 2))
})

test_that("the compiler's complaint is an error with its log", {
  wrong <- sub("a * x[i]", "b * x[i]", axpy_source, fixed = TRUE)
  compiles <- function(source) .Call(verdigris:::C_module_check, verdigris:::module_pointer(gpu_module(source)))
  skip_if_not(compiles(axpy_source), "there is no NVRTC")
  e <- expect_error(gpu_kernel(wrong), class = "verdigris_error_compile")
  expect_match(conditionMessage(e), 'line 4: identifier "b" is undefined', fixed = TRUE)
  expect_match(conditionMessage(e), "if (i < n) y[i] += b * x[i];", fixed = TRUE)
  expect_match(e$log, "kernel.cu(4): error", fixed = TRUE)
  expect_identical(e$source, wrong)
  # the caret stands below the name
  lines <- strsplit(conditionMessage(e), "\n")[[1]]
  expect_identical(regexpr("^", lines[[3]], fixed = TRUE)[[1]], regexpr("b * x", lines[[2]], fixed = TRUE)[[1]])
})

# ---- on a CUDA device ----------------------------------------------------------------------------

on_cuda <- function() skip_if_not(grepl("^cuda", test_device), "no CUDA device to test on")

test_that("a kernel writes in place, under all names", {
  on_cuda()
  x <- gpu(as.numeric(1:1000), "float32")
  y <- gpu(numeric(1000), "float32")
  z <- y
  expect_identical(sum(y), 0)
  expect_null(expect_invisible(axpy(x, y, 2, 1000)))
  expect_identical(collect(y), 2 * (1:1000))
  expect_identical(collect(z), 2 * (1:1000))
  axpy(x, a = 1, y = y, n = 1000)
  expect_identical(collect(y), 3 * (1:1000))
  axpy(x, y, 1, 10, grid = 1, block = 32)
  expect_identical(collect(y), c(4 * (1:10), 3 * (11:1000)))
})

test_that("recorded operations, views, copies and capsules keep what they have", {
  on_cuda()
  x <- gpu(as.numeric(1:6), "float32")
  y <- gpu(matrix(1, 2, 3), "float32")
  pending <- y + 1
  view <- t(y)
  other <- y
  other[1, 1] <- 5
  capsule <- as_dlpack(y)
  axpy(x, y, 1, 6)
  expect_identical(collect(y), matrix(1 + (1:6), 2))
  expect_identical(collect(pending), matrix(2, 2, 3))
  expect_identical(collect(view), matrix(1, 3, 2))
  expect_identical(collect(other), matrix(c(5, 1, 1, 1, 1, 1), 2))
  expect_identical(collect(from_dlpack(capsule)), matrix(1, 2, 3))
})

test_that("views and recorded values are arguments too; what R has read is read again", {
  on_cuda()
  m <- gpu(matrix(as.numeric(1:6), 2), "float32")
  y <- gpu(numeric(6), "float32") + 0
  axpy(t(m), y, 1, 6)
  expect_identical(collect(y), as.numeric(t(matrix(1:6, 2))))
  expect_identical(rev(as.vector(y))[1], 6) # reads on the host
  first <- y[[1]]
  axpy(m * 2, y, 1, 6)
  expect_identical(y[[1]], first + 2)
  expect_identical(as.numeric(y), as.numeric(t(matrix(1:6, 2))) + 2 * (1:6))
})

test_that("one array twice, strided arrays that are written, limits", {
  on_cuda()
  x <- gpu(c(1, 2, 3), "float32")
  axpy(x, x, 1, 3)
  expect_identical(collect(x), c(2, 4, 6))
  m <- t(gpu(matrix(as.numeric(1:6), 2), "float32"))
  axpy(gpu(rep(1, 6), "float32"), m, 1, 6)
  expect_identical(collect(m), t(matrix(as.numeric(1:6), 2)) + 1)
  expect_error(axpy(x, x, 1, 3, block = 2048), "2048 threads", class = "verdigris_error_launch")
  expect_error(axpy(x, x, 1, 3, grid = c(1, 70000)), class = "verdigris_error_launch")
  expect_error(axpy(x, x, 1, 3, shared = 1e9), class = "verdigris_error_launch")
  expect_identical(collect(x), c(2, 4, 6))
})

test_that("every type of argument arrives", {
  on_cuda()
  types <- gpu_kernel('
    extern "C" __global__ void types(double* out, bool b, signed char c, unsigned short s, long long l, double d,
                                     float2 z, const int* null) {
      out[0] = b; out[1] = c; out[2] = s; out[3] = l; out[4] = d; out[5] = z.x; out[6] = z.y; out[7] = null == 0;
    }')
  out <- gpu(numeric(8))
  types(out, TRUE, -5L, 65535, 2^40, 0.1, 1 - 2i, NULL, grid = 1, block = 1)
  expect_identical(collect(out), c(1, -5, 65535, 2^40, 0.1, 1, -2, 1))
})

test_that("shared memory and two dimensions", {
  on_cuda()
  transpose <- gpu_kernel('
    extern "C" __global__ void transpose(const double* in, double* out, int rows, int columns) {
      extern __shared__ double tile[];
      int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
      if (i < rows && j < columns) tile[threadIdx.x + blockDim.x * threadIdx.y] = in[i + rows * j];
      __syncthreads();
      if (i < rows && j < columns) out[j + columns * i] = tile[threadIdx.x + blockDim.x * threadIdx.y];
    }')
  m <- matrix(runif(40 * 70), 40)
  out <- gpu(matrix(0, 70, 40))
  transpose(gpu(m), out, 40, 70, grid = c(3, 5), block = c(16, 16), shared = 8 * 256)
  expect_identical(as.matrix(out), t(m))
  expect_error(transpose(gpu(m), out, 40, 70, block = c(16, 16)), "needs `grid`", class = "verdigris_error_argument")
})

test_that("memory that came by DLPack is written where it is", {
  on_cuda()
  x <- gpu(c(1, 2, 3), "float32")
  owner <- as_dlpack(x, versioned = FALSE)
  y <- from_dlpack(owner)
  axpy(gpu(c(1, 1, 1), "float32"), y, 1, 3)
  expect_identical(collect(y), c(2, 3, 4))
})
