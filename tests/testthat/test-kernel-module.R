source <- '
template <class T, int N = 1> __global__ void scale(T* x, T by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by * N;
}
__constant__ float weights[3];
__device__ int calls;
__global__ void smooth(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) calls += 1;
  if (i < n) y[i] = weights[0] * (i ? x[i - 1] : 0) + weights[1] * x[i] + weights[2] * (i < n - 1 ? x[i + 1] : 0);
}'
module <- gpu_module(source, names = c("scale<float>", "scale< double , 3 >"))

test_that("a module lists its kernels and gives them by name", {
  expect_identical(names(module), c("smooth", "scale<float>", "scale<double,3>"))
  expect_length(module, 3)
  expect_output(print(module), "<gpu_module> source\nvoid smooth(const float* x, float* y, int n)", fixed = TRUE)
  expect_output(print(module[["scale<double, 3>"]]), "void scale<double,3>(double* x, double by, int n)", fixed = TRUE)
  expect_identical(utils:::.DollarNames(module, "^s.*h$"), "smooth")
  e <- expect_error(module$other, "no kernel `other`", class = "verdigris_error_argument")
  expect_match(conditionMessage(e), "`smooth`", fixed = TRUE)
  expect_error(module[["scale<int>"]], "is a template", class = "verdigris_error_argument")
  expect_error(module$smooth <- 1, "cannot be replaced", class = "verdigris_error_argument")
  expect_error(module[[1]], "name of a kernel", class = "verdigris_error_argument")
  expect_error(gpu_kernel(source, "scale"), "is a template", class = "verdigris_error_argument")
})

test_that("files are told apart, and must be whole", {
  folder <- withr::local_tempdir()
  write <- function(name, content) {
    path <- file.path(folder, name)
    if (is.raw(content)) writeBin(content, path) else writeLines(content, path)
    path
  }
  expect_output(print(gpu_module(path = write("a.cu", source))), "<gpu_module> a.cu\nvoid smooth", fixed = TRUE)
  ptx <- c(".version 7.0", ".target sm_75", ".address_size 64",
    ".visible .entry f(.param .u64 f_0, .param .f32 f_1) { ret; }")
  expect_output(print(gpu_module(path = write("a.ptx", ptx))), "void f(address or 8 bytes, float)", fixed = TRUE)
  expect_output(print(gpu_module(ptx)), "<gpu_module> ptx", fixed = TRUE)
  for (wrong in list(raw(0), as.raw(1:9), as.raw(c(0x7f, 0x45, 0x4c, 0x46)),
    as.raw(c(0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0)))) {
    expect_error(gpu_module(path = write("a.cubin", wrong)), class = "verdigris_error_compile")
    expect_error(gpu_module(wrong), class = "verdigris_error_compile")
  }
  expect_error(gpu_module(path = write("b.cu", as.raw(c(65, 0, 66)))), class = "verdigris_error_compile")
  expect_error(gpu_module(path = file.path(folder, "none.cu")), "there is no file", class = "verdigris_error_argument")
  expect_error(gpu_module(path = folder), "there is no file", class = "verdigris_error_argument")
  expect_error(gpu_module(), "one of `code` and `path`", class = "verdigris_error_argument")
})

test_that("what is written down of compiled code is held against calls", {
  ptx <- ".version 7.0\n.visible .entry _Z1fPKfPfi(.param .u64 a, .param .u64 b, .param .u32 c) { ret; }"
  m <- gpu_module(ptx, signatures = "__global__ void f(const float* x, float* y, int n)")
  expect_identical(names(m), "f")
  x <- as_gpu(c(1, 2), dtype = "float32", device = "cpu")
  expect_error(m$f(x, gpu(1), 1), "it takes float32 arrays, not float64", class = "verdigris_error_dtype")
  expect_error(m$f(x, x, 1.5), "whole number", class = "verdigris_error_dtype")
  plain <- gpu_module(ptx)
  expect_error(plain$f(x, 2.5, 1L), "does not declare its type", class = "verdigris_error_dtype")
  expect_error(plain$f(x, x), "takes 3 arguments, not 2", class = "verdigris_error_argument")
  expect_error(gpu_module(ptx, signatures = "int"), "cannot be read", class = "verdigris_error_argument")
})

test_that("kernels are made again where they come from a file", {
  file <- tempfile()
  on.exit(unlink(file))
  saveRDS(list(module, module$smooth, gpu_kernel(source, "scale< float >")), file)
  back <- readRDS(file)
  expect_identical(names(back[[1]]), names(module))
  # still a check of arguments, which takes the pointer
  expect_error(back[[2]](1, 2, 3), "takes an array", class = "verdigris_error_dtype")
  expect_error(back[[3]](x = 1, by = 2, n = 3), "takes an array", class = "verdigris_error_dtype")
  expect_error(back[[1]]$smooth(1), "takes 3 arguments, not 1", class = "verdigris_error_argument")
})

# ---- on a CUDA device ----------------------------------------------------------------------------

on_cuda <- function() skip_if_not(grepl("^cuda", test_device), "no CUDA device to test on")
emulated <- nzchar(Sys.getenv("VERDIGRIS_EMULATOR"))
# what the device runs: machine code for its architecture, or PTX
arch <- if (grepl("^cuda", test_device)) {
  device <- gpu_devices()
  as.integer(sub(".", "", device$capability[device$device != "cpu"][[1]], fixed = TRUE))
}
compiled <- function(source, ptx = FALSE, for_arch = arch) {
  .Call(verdigris:::C_module_image, verdigris:::module_pointer(gpu_module(source)), for_arch, ptx)
}
# as the tool fatbinary writes it: a header, a header of the part (its kind, its bytes, what it is for), the part
fatbin <- function(cubin, arch) {
  size <- function(n) c(writeBin(as.integer(n), raw(), endian = "little"), raw(4))
  part <- c(as.raw(c(2, 0, 1, 1, 64, 0, 0, 0)), size(length(cubin)), raw(8), as.raw(c(8, 0, 1, 0, arch, 0, 0, 0)),
    raw(8), as.raw(0x11), raw(23))
  c(as.raw(c(0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0)), size(length(part) + length(cubin)), part, cubin)
}

test_that("templates and variables work on a device", {
  on_cuda()
  x <- gpu(c(1, 2, 3))
  module[["scale<double,3>"]](x, 2, 3)
  expect_identical(collect(x), 6 * c(1, 2, 3))
  y <- gpu(c(1, 2, 3), "float32")
  module[["scale<float>"]](y, 0.5, n = 3)
  expect_identical(collect(y), c(0.5, 1, 1.5))
  gpu_global(module, "weights") <- c(0.25, 0.5, 0.25)
  gpu_global(module, "calls") <- 0L
  w <- gpu_global(module, "weights")
  expect_identical(gpu_dtype(w), "float32")
  expect_identical(collect(w), c(0.25, 0.5, 0.25))
  x <- gpu(c(0, 4, 0, 8), "float32")
  smooth <- gpu_kernel(module, "smooth", returns = "y")
  expect_identical(collect(smooth(x, 4)), c(1, 2, 3, 4))
  expect_identical(collect(gpu_global(module, "calls")), 1L)
  # a copy, not the variable
  smooth(x, 4)
  expect_identical(collect(w), c(0.25, 0.5, 0.25))
  expect_identical(collect(gpu_global(module, "calls")), 2L)
  expect_identical(gpu_global(module, "calls", "raw"), as.raw(c(2, 0, 0, 0)))
  gpu_global(module, "weights") <- gpu(c(1, 0, 0), "float32")
  expect_identical(collect(smooth(x, 4)), c(0, 0, 4, 0))
  gpu_global(module, "calls") <- as.raw(c(7, 0, 0, 0))
  expect_identical(collect(gpu_global(module, "calls", "int32")), 7L)
  expect_error(gpu_global(module, "calls") <- 1:2, "1 elements", class = "verdigris_error_shape")
  expect_error(gpu_global(module, "calls") <- as.raw(1), "4 bytes", class = "verdigris_error_shape")
  expect_error(gpu_global(module, "none"), "no variable `none`", class = "verdigris_error_argument")
  expect_error(gpu_global(module, "calls", "float64"), "no float64 elements", class = "verdigris_error_dtype")
  expect_error(gpu_global(module, "calls") <- "a", class = "verdigris_error_dtype")
})

test_that("what is returned has the shape of what came in", {
  on_cuda()
  two <- gpu_kernel('
    __global__ void two(const double* x, double* up, int* sign, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) { up[i] = x[i] + 1; sign[i] = x[i] < 0 ? -1 : 1; }
    }', returns = c("sign", "up"))
  m <- matrix(c(-1, 2, -3, 4, -5, 6), 2)
  out <- two(gpu(m), n = 6)
  expect_identical(names(out), c("sign", "up"))
  expect_identical(as.matrix(out$up), m + 1)
  expect_identical(as.matrix(out$sign), matrix(as.integer(sign(m)), 2))
  # as long as n says, zeros behind what was written
  expect_identical(collect(two(gpu(c(1, 2)), 2, n = 4)$up), c(2, 3, 0, 0))
  fill <- gpu_kernel("__global__ void fill(float* z, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) z[i] = i; }", returns = "z")
  z <- fill(n = 5)
  expect_identical(collect(z), as.numeric(0:4))
  expect_identical(gpu_dtype(z), "float32")
  expect_error(fill(5), "give `n`", class = "verdigris_error_argument")
  for (wrong in c("n", "x", "none")) {
    expect_error(gpu_kernel(module, "smooth", returns = wrong), "`returns`", class = "verdigris_error_argument")
  }
  expect_error(gpu_kernel(module, "smooth", returns = c("y", "y")), "twice", class = "verdigris_error_argument")
})

test_that("structs, halves and complex numbers arrive", {
  on_cuda()
  k <- gpu_kernel('
    struct pair { int a; double b; };
    __global__ void take(double* out, pair p, float2 z, unsigned short half_bits) {
      out[0] = p.a; out[1] = p.b; out[2] = z.x; out[3] = z.y; out[4] = half_bits;
    }')
  p <- c(writeBin(7L, raw()), raw(4), writeBin(2.5, raw()))
  out <- gpu(numeric(5))
  k(out, p, 1 - 2i, 0x3c00, grid = 1, block = 1)
  expect_identical(collect(out), c(7, 2.5, 1, -2, 0x3c00))
  expect_error(k(out, p[-1], 1i, 0, grid = 1), "it has 16 bytes, but the raw vector has 15",
    class = "verdigris_error_dtype")
  expect_error(k(out, 5, 1i, 0, grid = 1), "its bytes, a raw vector", class = "verdigris_error_dtype")
  expect_error(k(out, "a", 1i, 0, grid = 1), "takes a raw vector", class = "verdigris_error_dtype")
  expect_error(k(out, p, 1e300 + 0i, 0, grid = 1), "too large", class = "verdigris_error_dtype")
  expect_identical(collect(out), c(7, 2.5, 1, -2, 0x3c00))
})

test_that("compiled code is loaded, and its parameters are the driver's", {
  on_cuda()
  code <- '__device__ int calls;
    extern "C" __global__ void axpy(const float* x, float* y, float a, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] += a * x[i];
      if (i == 0) calls = 5;
    }'
  signature <- "__global__ void axpy(const float* x, float* y, float a, int n)"
  cubin <- compiled(code)
  images <- list(cubin = cubin, ptx = compiled(code, ptx = TRUE), fatbin = fatbin(cubin, arch))
  for (name in names(images)) {
    path <- tempfile(fileext = paste0(".", name))
    writeBin(images[[name]], path)
    m <- gpu_module(path = path, signatures = signature)
    x <- gpu(c(1, 2, 3), "float32")
    y <- gpu(c(10, 20, 30), "float32")
    m$axpy(x, y, 2, 3)
    expect_identical(collect(y), c(12, 24, 36), label = name)
    expect_identical(collect(gpu_global(m, "calls", "int32")), 5L)
    bare <- gpu_module(path = path)
    kernel <- gpu_kernel(bare, "axpy")
    expect_error(kernel(x, y, 2, 3, 4), "takes 4 arguments, not 5", class = "verdigris_error_argument")
    # the bytes of a float fit any four bytes
    kernel(x, y, writeBin(1, raw(), size = 4), 3L)
    expect_identical(collect(y), c(13, 26, 39), label = name)
    expect_error(gpu_kernel(bare, "nothing")(x), "no kernel `nothing`", class = "verdigris_error_argument")
    wrong <- gpu_module(path = path, signatures = sub("int n", "long long n", signature))
    expect_error(wrong$axpy(x, y, 2, 3), "does not match the code", class = "verdigris_error_argument")
    expect_identical(collect(y), c(13, 26, 39), label = name)
    # cut off anywhere: refused before the driver sees it, or by the driver
    whole <- images[[name]]
    for (n in floor(length(whole) * c(0, 0.01, 0.3, 0.9))) {
      cut <- tempfile(fileext = paste0(".", name))
      writeBin(whole[seq_len(n)], cut)
      if (name == "ptx" && n > 100) next # the compiler of the driver says what it misses
      expect_error(gpu_module(path = cut), class = "verdigris_error_compile")
    }
  }
  other <- cubin
  if (emulated) other[[16]] <- as.raw(0) # as of a real GPU
  else other <- compiled(code, for_arch = if (arch == 75L) 80L else 75L)
  expect_error(gpu_kernel(gpu_module(other, signatures = signature), "axpy")(x, y, 1, 3),
    "NO_BINARY_FOR_GPU|INVALID_IMAGE", class = "verdigris_error_compile")
})

test_that("a function of the host launches kernels of its library", {
  on_cuda()
  skip_if(Sys.which("g++") == "" || Sys.info()[["machine"]] != "x86_64", "no C++ compiler")
  folder <- withr::local_tempdir()
  # the section that nvcc writes, and a launcher that asks the driver
  cubin <- compiled('extern "C" __global__ void twice(double* x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }')
  writeBin(fatbin(cubin, arch), file.path(folder, "image.bin"))
  writeLines(c(
    '__asm__(".section .nv_fatbin,\\"a\\"\\n.align 8\\n.incbin \\"image.bin\\"\\n.previous");',
    "#include <dlfcn.h>",
    'extern "C" int clear(double* x, float scale, int n, void* stream, double check) {',
    "  if (scale != 0.5f || check != 0.25) return 77;",
    '  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);',
    "  typedef unsigned (*fill)(unsigned long long, unsigned char, unsigned long, void*);",
    '  return (int)((fill)dlsym(driver, "cuMemsetD8Async"))((unsigned long long)x, 0, 8ul * n, stream);',
    "}"
  ), file.path(folder, "l.cpp"))
  library <- file.path(folder, "l.so")
  status <- system(sprintf("cd %s && g++ -shared -fPIC -o l.so l.cpp -ldl", folder))
  skip_if(status != 0, "the library does not build")
  m <- gpu_module(path = library, signatures = c(
    "__global__ void twice(double* x, int n)",
      "int clear(double* x, float scale, int n, cudaStream_t stream, double check)",
    "void missing(int n)"
  ))
  x <- gpu(c(1, 2, 3))
  y <- x
  m$twice(x, 3)
  expect_identical(collect(y), c(2, 4, 6))
  m$clear(x, 0.5, 2, 0.25)
  expect_identical(collect(y), c(0, 0, 6))
  e <- expect_error(m$clear(x, 1, 2, 0.25), "`clear` returned 77", class = "verdigris_error_launch")
  expect_match(conditionMessage(e), "scale: 1, n: 2", fixed = TRUE)
  expect_error(m$clear(x, 0.5, 2), "takes 4 arguments, not 3", class = "verdigris_error_argument")
  expect_error(m$missing(1), "has no function `missing`", class = "verdigris_error_argument")
})

test_that("include folders and macros", {
  on_cuda()
  folder <- withr::local_tempdir()
  writeLines("#define PLUS 5", file.path(folder, "plus.h"))
  source <- '#include "plus.h"
    __global__ void add(int* x) { if (threadIdx.x == 0) x[0] += PLUS * TIMES; }'
  value <- function(...) {
    x <- gpu(1L)
    gpu_kernel(source, ..., include = folder)(x)
    collect(x)
  }
  expect_identical(value(options = "-DTIMES=2"), 11L)
  expect_identical(value(options = "-DTIMES=3"), 16L)
  # a header that has changed is another source
  writeLines("#define PLUS 7", file.path(folder, "plus.h"))
  expect_identical(value(options = "-DTIMES=2"), 15L)
  expect_error(value(options = "--gpu-architecture=sm_90"), "architecture", class = "verdigris_error_argument")
  expect_error(value(options = "--no-such-option"), "no-such-option", class = "verdigris_error_compile")
  expect_error(gpu_kernel(source, include = file.path(folder, "none")), "no folder", class = "verdigris_error_argument")
  expect_error(gpu_kernel(source, options = "-DTIMES=1"), "plus.h", class = "verdigris_error_compile")
})

test_that("cooperative launches, clusters and large shared memory", {
  on_cuda()
  k <- gpu_kernel("__global__ void k(int* x) { if (threadIdx.x == 0) x[blockIdx.x] = gridDim.x; }", cooperative = TRUE)
  x <- gpu(integer(1e5))
  k(x, block = 1024)
  blocks <- collect(x)[[1]]
  expect_gt(blocks, 0)
  expect_error(k(x, grid = 1e5, block = 1024), "blocks at once", class = "verdigris_error_launch")
  cluster <- gpu_kernel("__global__ void k(int* x) { x[blockIdx.x] = 1; }", cluster = 2)
  if (as.numeric(gpu_devices()$capability[[nrow(gpu_devices())]]) >= 9) {
    x <- gpu(integer(8))
    cluster(x, grid = 4, block = 1)
    expect_identical(collect(x), rep(1:0, each = 4))
  }
  expect_error(cluster(x, grid = 3, block = 1), "not a multiple", class = "verdigris_error_launch")
  expect_error(gpu_kernel(module, "smooth", cluster = 0.5), class = "verdigris_error_argument")
  shared <- gpu_kernel("__global__ void k(double* x, int n) {
      extern __shared__ double room[];
      for (int i = threadIdx.x; i < n; i += blockDim.x) room[i] = i;
      __syncthreads();
      if (threadIdx.x == 0) x[0] = room[n - 1];
    }")
  x <- gpu(0)
  shared(x, 8000, grid = 1, block = 64, shared = 64000)
  expect_identical(collect(x), 7999)
  expect_error(shared(x, 10, grid = 1, shared = 1e6), "bytes of shared memory", class = "verdigris_error_launch")
})

test_that("without a block the driver says which", {
  on_cuda()
  k <- gpu_kernel("__global__ void k(int* x) { if (threadIdx.x == 0) x[blockIdx.x] = blockDim.x; }")
  threads <- function(n, ...) {
    x <- gpu(integer(2e6))
    k(x, n = n, ...)
    x <- collect(x)
    x[x > 0]
  }
  few <- threads(10)
  expect_identical(few, 64L)
  many <- threads(2e6)
  expect_true(length(many) >= 2e6 / 1024 && many[[1]] >= 128L)
  expect_gte(length(many) * many[[1]], 2e6)
  bounded <- gpu_kernel(
    "__global__ void __launch_bounds__(96) k(int* x) { if (threadIdx.x == 0) x[blockIdx.x] = blockDim.x; }")
  x <- gpu(integer(1e5))
  bounded(x, n = 1e5)
  expect_lte(max(collect(x)), 96L)
})

# ---- in processes of their own ---------------------------------------------------------------------

in_process <- function(code, options = "") {
  file <- tempfile(fileext = ".R")
  on.exit(unlink(file))
  writeLines(c(options, "suppressMessages(library(verdigris))", code), file)
  suppressWarnings(system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", file), stdout = TRUE, stderr = TRUE))
}

test_that("a kernel that fails is named, at once where that is asked for, and R goes on", {
  on_cuda()
  code <- c(
    'fails <- gpu_kernel("__global__ void fails(float* x, int n) { if (n == 7) __trap(); }")',
    'x <- as_gpu(c(1, 2), dtype = "float32", device = "cuda")',
    "say <- function(e) cat(gsub(\"\\n\", \" | \", conditionMessage(e)), class(e)[[1]], \"\\n\")"
  )
  out <- in_process(c("options(verdigris.debug = TRUE)", code, "fails(x, 6)", "tryCatch(fails(x, 7), error = say)",
    "tryCatch(gpu_sync(), error = say)", 'cat("alive\\n")'))
  said <- grep("^device", out, value = TRUE)
  expect_match(said[[1]], "failed in kernel `fails`", fixed = TRUE)
  expect_match(said[[1]], "R must be restarted", fixed = TRUE)
  expect_match(said[[1]], "grid 1 x 1 x 1, block 64 x 1 x 1", fixed = TRUE)
  expect_match(said[[1]], "x: float32[2], n: 7", fixed = TRUE)
  expect_match(said[[1]], "verdigris_error_launch", fixed = TRUE)
  # the next call says so too
  expect_match(said[[2]], "failed in kernel `fails`", fixed = TRUE)
  expect_identical(out[[length(out)]], "alive")
  # without, the wait says it
  out <- in_process(c(code, "fails(x, 7)", "tryCatch(gpu_sync(), error = say)", "tryCatch(fails(x, 1), error = say)"))
  said <- grep("^device", out, value = TRUE)
  expect_match(said, "in kernel `fails`", fixed = TRUE)
  expect_length(said, 2)
})

test_that("a compiled source is found on disk by the next process, without NVRTC", {
  on_cuda()
  folder <- withr::local_tempdir()
  code <- c(
    'x <- as_gpu(1, device = "cuda")',
    "before <- .Call(verdigris:::C_counters)",
    'k <- gpu_kernel("template <class T> __global__ void k(T* x) { x[0] = 5; }", "k<double>")',
    "k(x, grid = 1, block = 1)",
    "cat(collect(x), (.Call(verdigris:::C_counters) - before)[4:5])"
  )
  options <- sprintf("options(verdigris.cache_dir = '%s')", folder)
  expect_identical(in_process(code, options), "5 1 0")
  expect_identical(in_process(code, options), "5 0 1")
  # a file that is damaged is none
  files <- list.files(folder, full.names = TRUE)
  for (file in files) writeBin(as.raw(1:100), file)
  expect_identical(in_process(code, options), "5 1 0")
})
