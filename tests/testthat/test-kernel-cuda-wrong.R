# Wrong calls and broken sources: each is an error of its class, R goes on, and no array has changed. Rows that need a
# compiler or a device are left out where there is none.

kernels <- '
struct pair { int a; double b; };
extern "C" __global__ void numbers(double* out, bool b, signed char c, unsigned char u, short s, unsigned short w, int i, unsigned int j,
                                   long long l, unsigned long long m, float f, double d, float2 z, double2 y, pair p) {
  out[0] = b + c + u + s + w + i + j + l + m + f + d + z.x + y.x + p.a;
}
extern "C" __global__ void pointers(const float* f, double* d, const int* i, long long* l, unsigned char* u, short* s, float2* z, double2* y, bool* b) {
  d[0] = f[0] + i[0] + l[0] + u[0] + s[0] + z[0].x + y[0].x + b[0];
}
extern "C" __global__ void copy(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
extern "C" __global__ void __launch_bounds__(128) bounded(float* x) { x[0] = 1; }
template <class T> __global__ void scale(T* x, T a) { x[0] *= a; }
__device__ float table[4];
__constant__ pair constant;'
module <- gpu_module(kernels, names = "scale<float>")
can_compile <- .Call(verdigris:::C_module_check, verdigris:::module_pointer(module))
has_device <- grepl("^cuda", test_device)
emulated <- nzchar(Sys.getenv("VERDIGRIS_EMULATOR"))

expected <- list(
  f = c(1, 2), d = c(3, 4), i = 5:6, l = c(7, 8), u = 9:10, s = 11:12, z = c(1i, 2i), y = c(3i, 4i), b = c(TRUE, FALSE)
)
dtypes <- c(
  f = "float32", d = "float64", i = "int32", l = "int64", u = "uint8", s = "int16", z = "complex64", y = "complex128",
    b = "bool8"
)
arrays <- Map(gpu, expected, dtypes)
numbers <- list(
  b = TRUE, c = 1, u = 1, s = 1, w = 1, i = 1L, j = 1, l = 1, m = 1, f = 1, d = 1, z = 1, y = 1, p = raw(16)
)

rows <- list()
row <- function(class, call, env = parent.frame()) {
  call <- substitute(call)
  rows[[length(rows) + 1L]] <<- list(class = class, call = call, env = env)
}

# ---- numbers out of their types -------------------------------------------------------------------

with_number <- function(name, value) {
  arguments <- numbers
  arguments[name] <- list(value)
  do.call(module$numbers, c(list(arrays$d), unname(arguments), grid = 1, block = 1))
}
ranges <- list(c = c(-129, 128), u = c(-1, 256), s = c(-32769, 32768), w = c(-1, 65536), i = c(-2^31 - 1, 2^31),
  j = c(-1, 2^32), l = c(-2^64, 2^63), m = c(-1, 2^64))
for (name in names(ranges)) {
  for (value in c(as.list(ranges[[name]]), 0.5, NaN, NA_integer_, Inf, list("1", 1i, NULL, 1:2, list(1), raw(3),
    expression(x), sum, Sys.Date))) {
    local({
      name <- name
      value <- value
      row("dtype", with_number(name, value))
    })
  }
}
for (name in c("f", "d", "z", "y", "b")) {
  for (value in list("1", NULL, c(1, 2), list(1), raw(9), sum, numeric(0))) {
    local({
      name <- name
      value <- value
      row("dtype", with_number(name, value))
    })
  }
}
row("dtype", with_number("f", 1e39))
row("dtype", with_number("f", 1i))
row("dtype", with_number("d", 1i))
row("dtype", with_number("z", 1e39 + 0i))
row("dtype", with_number("b", NA))
row("dtype", with_number("b", NaN))
row("dtype", with_number("p", 1))
row("dtype", with_number("p", "pair"))
row("dtype", with_number("p", list(a = 1, b = 2)))
row("dtype", with_number("i", arrays$i))
row("dtype", with_number("p", arrays$d))

# ---- arrays of other types ---------------------------------------------------------------------------

with_array <- function(name, value) {
  arguments <- arrays
  arguments[name] <- list(value)
  do.call(module$pointers, c(unname(arguments), grid = 1, block = 1))
}
for (name in names(arrays)) {
  for (value in c(unname(arrays[setdiff(c("f", "d", "i"), name)]), list(c(1, 2), "x", 2, list(), raw(8),
    expression(x)))) {
    local({
      name <- name
      value <- value
      row("dtype", with_array(name, value))
    })
  }
}
on_host <- as_gpu(c(1, 2), dtype = "float32", device = "cpu")
row("device", module$copy(on_host, on_host, 2))
if (has_device) row("device", module$copy(on_host, arrays$f, 2))
if (has_device) row("device", module$copy(arrays$f, on_host, 2))
freed <- gpu(c(1, 2), "float32")
gpu_free(freed)
row("consumed", module$copy(freed, arrays$f, 2))

# ---- numbers, names and places of arguments -------------------------------------------------------

x <- arrays$f
row("argument", module$copy())
row("argument", module$copy(x))
row("argument", module$copy(x, x, 1, 2))
row("argument", module$copy(x, x, m = 1))
row("argument", module$copy(x, x = x, x = x))
row("argument", module$copy(x = x, y = x, 1, 2))
row("argument", module$copy(x, n = 1))
row("argument", module$nothing(x))
row("argument", module[["scale<int>"]])
row("argument", module[["scale"]])
row("argument", module[[""]])
row("argument", module[[NA_character_]])
row("argument", module[[1]])
row("argument", module[[c("copy", "bounded")]])
row("argument", module$copy <- 1)
row("argument", gpu_kernel(module))
row("argument", gpu_kernel(module, "none"))
row("argument", gpu_kernel(module, 1))
row("argument", gpu_kernel(module, c("copy", "bounded")))
row("argument", gpu_kernel(module, "copy", options = "-DX"))
row("argument", gpu_kernel(module, "copy", returns = "x"))
row("argument", gpu_kernel(module, "copy", returns = "n"))
row("argument", gpu_kernel(module, "copy", returns = "none"))
row("argument", gpu_kernel(module, "copy", returns = 1))
row("argument", gpu_kernel(module, "copy", returns = NA_character_))
row("argument", gpu_kernel(module, "copy", cooperative = NA))
row("argument", gpu_kernel(module, "copy", cooperative = "yes"))
row("argument", gpu_kernel(module, "copy", cluster = "2"))
row("argument", gpu_kernel(module, "copy", cluster = 1:4))
row("argument", gpu_kernel(1))
row("argument", gpu_kernel(NA_character_))
row("argument", gpu_kernel(NULL))
row("argument", gpu_kernel(list(kernels)))
row("argument", gpu_module())
row("argument", gpu_module(kernels, path = "x"))
row("argument", gpu_module(path = "no such file.cu"))
row("argument", gpu_module(path = c("a", "b")))
row("argument", gpu_module(path = NA_character_))
row("argument", gpu_module(kernels, names = 1))
row("argument", gpu_module(kernels, names = "none<float>"))
row("argument", gpu_module(kernels, options = 1))
row("argument", gpu_module(kernels, include = "no such folder"))
row("argument", gpu_module(kernels, signatures = "f"))
row("argument", gpu_module(kernels, link = "no such file.o"))
row("argument", gpu_module(kernels, link = 5))
row("argument", gpu_global(1, "table"))
row("argument", gpu_global(module, 1))
row("argument", gpu_global(kernels, "table"))

# ---- grids, blocks, shared memory --------------------------------------------------------------------

for (value in list("1", 1.5, -1, NA, 1:4, integer(0), list(1), 2^40, NaN, 1i)) {
  local({
    value <- value
    row("argument", module$copy(x, x, 2, grid = value))
    row("argument", module$copy(x, x, 2, block = value))
  })
}
for (value in list(-1, "1", 1.5, NA_real_, c(1, 2), TRUE, raw(1))) {
  local({
    value <- value
    row("argument", module$copy(x, x, 2, shared = value))
    if (!is.null(value)) row("argument", module$copy(x, x, 2, n = value))
  })
}
for (value in list(1, "s", TRUE, NA, gpu_event(test_device),
  unserialize(serialize(gpu_stream(device = test_device), NULL)))) {
  local({
    value <- value
    row("argument", module$copy(x, x, 2, stream = value))
  })
}
if (has_device) {
  row("device", module$copy(x, x, 2, stream = gpu_stream(device = "cpu")))
  row("launch", module$copy(x, x, 2, block = 1025))
  row("launch", module$copy(x, x, 2, block = c(1, 1, 65), grid = 1))
  row("launch", module$copy(x, x, 2, block = c(64, 64), grid = 1))
  row("launch", module$copy(x, x, 2, block = 0))
  row("launch", module$copy(x, x, 2, grid = 0))
  row("launch", module$copy(x, x, 2, grid = 2^31))
  row("launch", module$copy(x, x, 2, grid = c(1, 65536)))
  row("launch", module$copy(x, x, 2, grid = c(1, 1, 65536)))
  row("launch", module$copy(x, x, 2, n = 2^45))
  row("launch", module$copy(x, x, 2, shared = 1e6))
  row("launch", module$copy(x, x, 2, shared = 2^40))
  row("launch", module$bounded(x, block = 256))
  row("launch", gpu_kernel(module, "copy", cooperative = TRUE)(x, x, 2, grid = 1e6, block = 1024))
  row("launch", gpu_kernel(module, "copy", cluster = 64)(x, x, 2, grid = 64))
  row("launch", gpu_kernel(module, "copy", cluster = 3)(x, x, 2, grid = 4))
  row("argument", module$copy(x, x, 2, block = c(8, 8)))
  row("argument", gpu_kernel("__global__ void f(int n) {}")(1))
  row("argument", gpu_kernel("__global__ void f(float* x) { x[0] = 1; }", returns = "x")())
  row("argument", gpu_global(module, "none"))
  row("argument", gpu_global(module, "copy"))
  row("dtype", gpu_global(module, "table", "float16x"))
  row("dtype", gpu_global(module, "constant"))
  row("device", gpu_global(module, "table", device = "cpu"))
  row("device", gpu_global(module, "table", device = "cuda:77"))
  row("shape", gpu_global(module, "table") <- 1:3)
  row("shape", gpu_global(module, "table") <- raw(15))
  row("dtype", gpu_global(module, "table") <- rep("a", 4))
}

# ---- sources that are no kernels, or do not compile -----------------------------------------------

broken <- c(
  argument = "", argument = "int x;", argument = "void f(int n) {}",
    argument = "extern \"C\" __global__ void f(int n);",
  argument = "extern \"C\" __global__ void f(float** x) {}", argument = "extern \"C\" __global__ void f(int& n) {}",
  argument = "extern \"C\" __global__ void f(int n = 1) {}", argument = "extern \"C\" __global__ void f(int n",
  argument = "extern \"C\" __global__ void (int n) {}", argument = "extern \"C\" __global__",
  argument = "extern \"C\" __global__ void f(void (*g)(int)) {}",
    argument = "template <class T> __global__ void f(T* x) {}",
  argument = "__global__ void f(int n) {} __global__ void g(int n) {}", argument = "// __global__ void f() {}",
  compile = "extern \"C\" __global__ void f(int* x) { x[0] = y; }",
    compile = "extern \"C\" __global__ void f(int* x) { x[0] = 1 }",
  compile = "extern \"C\" __global__ void f(int* x) { x[0] = g(1); }",
    compile = "extern \"C\" __global__ void f(int* x) { x = 1.5; }",
  compile = "extern \"C\" __global__ void f(int* x) {",
    compile = "extern \"C\" __global__ void f(int* x) { return 1; }",
  compile = "extern \"C\" __global__ void f(thing* x) { }",
    compile = "extern \"C\" __global__ void f(const int* x) { x[0] = 1; }",
  compile = "#include \"no such header.h\"\n__global__ void f(int* x) { }",
    compile = "#error on purpose\n__global__ void f(int* x) { }",
  compile = "__global__ void f(int* x) { static_assert(sizeof(int) == 3, \"\"); }",
    compile = "__global__ void f(int* x) { int x; } }",
  compile = "template <int N> struct A { static const int v = A<N + 1>::v; };\n__global__ void f(int* x) { x[0] = A<0>::v; }",
  compile = "template <class T> struct A { typedef typename A<A<T> >::type type; };\n__global__ void f(int* x) { A<int>::type y; }",
  compile = "constexpr int g(int n) { return n < 0 ? n : g(n + 1); }\n__global__ void f(int* x) { constexpr int v = g(0); x[0] = v; }",
  compile = "__global__ void f(int* x) { goto nowhere; }", compile = "__global__ void f(int* x) { for (;;; ) {} }",
  compile = "__global__ void f(int* x) { x->a = 1; }", compile = "__global__ void f(int* x) { break; }",
  compile = "__global__ void f(float* x) { x[0] = \"text\"; }",
    compile = "__global__ void f(float* x) { x[0] = (int*)1.5; }",
  compile = "__global__ void f(int* x) { x[0] = 'abc; }", compile = "__global__ void f(int* x) { class { } y = 1; }",
  compile = "__global__ void f(int* x) { auto y; }",
    compile = "__global__ void f(int* x) { x[0] = sizeof(void(int)[3]); }",
  compile = "namespace a { int g(); }\n__global__ void f(int* x) { x[0] = b::g(); }",
    compile = "using namespace nothing;\n__global__ void f(int* x) { }",
  compile = "__global__ void f(int* x) { int y[-1]; }", compile = "__global__ void f(int* x) { case 1: x[0] = 1; }",
  compile = "__device__ void g(int, int);\n__global__ void f(int* x) { g(1); }",
    compile = "struct S;\n__global__ void f(int* x) { S s; }",
  compile = "__global__ void f(int* x) { x[0] = 09; }", compile = "__global__ void f(int* x) { 1 = 2; }",
  compile = "__global__ void f(int* x) { int y = {1, 2}; }", compile = "#if 1\n__global__ void f(int* x) { }",
  compile = "__global__ void f(int* x) { typename int y; }", compile = "__global__ void f(int* x) { operator+; }",
  compile = "__global__ void f(int* x) { x[0] = 5 % 1.5; }", compile = "__global__ void f(int* x) { const int y; }",
  compile = "__global__ void f(int* x) { \u00e4\u00f6 \u20ac }", compile = "@\n__global__ void f(int* x) { }"
)
for (k in seq_along(broken)) {
  local({
    source <- broken[[k]]
    if (names(broken)[[k]] == "argument" || can_compile) row(names(broken)[[k]], gpu_kernel(source))
  })
}
if (can_compile) {
  row("compile", gpu_kernel(kernels, "copy", options = "--no-such-option"))
  row("compile", gpu_kernel(kernels, "scale<nothing>"))
  row("argument", gpu_kernel(kernels, "scale<float, int, 5>"))
  row("argument", gpu_kernel(kernels, "copy", options = "-arch=sm_90"))
}

# ---- compiled code that is broken ------------------------------------------------------------------

path_of <- function(bytes, name) {
  path <- file.path(folder, name)
  writeBin(bytes, path)
  path
}
folder <- tempfile("wrong")
dir.create(folder)
elf <- as.raw(c(0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, rep(0, 57)))
for (bytes in list(raw(0), raw(64), as.raw(1:200 %% 256), elf, elf[1:20], charToRaw("!<arch>\n"),
  as.raw(c(0x50, 0xed, 0x55, 0xba)),
                   as.raw(c(0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 255, 255, 255, 255, 255, 255, 255, 255)),
                     charToRaw("hello"))) {
  local({
    bytes <- bytes
    row("compile", gpu_module(bytes))
    row("compile", gpu_module(path = path_of(bytes, "x.cubin")))
  })
}
row("compile", gpu_module(path = path_of(charToRaw("no PTX"), "x.ptx")))
row("compile", gpu_module(path = path_of(as.raw(c(47, 47, 0, 65)), "x.cu")))
ptx <- "//\n.version 7.0\n.target sm_75\n.address_size 64\n.visible .entry f(.param .u64 f_0, .param .u32 f_1)\n{\n ret;\n}\n"
row("argument", gpu_kernel(gpu_module(ptx), "g"))
row("argument", gpu_module(ptx)$f(x))
row("dtype", gpu_module(ptx)$f(x, 1.5))
row("dtype", gpu_module(ptx)$f(x, x))
row("dtype", gpu_module(ptx, signatures = "__global__ void f(const double* x, int n)")$f(x, 1))
if (has_device) {
  # what the driver's compiler refuses; the emulated one has none
  for (wrong in c(" ret", " ret;\n nonsense;", " ld.param.u64 %rd1, [f_0];", " mov.u32 %r1, %nothing;",
    " .reg .u32 %r<2>;\n add.f32 %r1, %r1, %r1;", " call g;", " bra away;")) {
    local({
      text <- sub(" ret;", wrong, ptx, fixed = TRUE)
      row("compile", gpu_module(text)$f(x, 1L))
    })
  }
  for (edit in list(c("7.0", "99.0"), c("sm_75", "sm_999"), c("sm_75", "nonsense"),
    c(".address_size 64", ".address_size 48"))) {
    local({
      text <- sub(edit[[1]], edit[[2]], ptx, fixed = TRUE)
      row("compile", gpu_module(text)$f(x, 1L))
    })
  }
  if (!emulated) row("argument", gpu_module(ptx, signatures = "__global__ void f(float* x)")$f(x))
  if (!emulated) row("argument", gpu_module(ptx, signatures = "__global__ void f(float* x, double n)")$f(x, 1))
  device <- gpu_devices()
  arch <- as.integer(sub(".", "", device$capability[device$device != "cpu"][[1]], fixed = TRUE))
  cubin <- .Call(verdigris:::C_module_image, verdigris:::module_pointer(module), arch, FALSE)
  for (part in c(0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)) {
    local({
      cut <- cubin[seq_len(ceiling(length(cubin) * part))]
      row("compile", gpu_module(cut))
    })
  }
  row("argument", gpu_kernel(gpu_module(cubin), "none")(x))
  row("argument", gpu_kernel(gpu_module(cubin), "copy")(x))
}

test_that("wrong calls and broken sources are errors of their class, and change nothing", {
  expect_gte(length(rows), 150)
  if (nzchar(Sys.getenv("VERDIGRIS_PROGRESS"))) cat(length(rows), "wrong calls\n")
  wrong <- character()
  for (row in rows) {
    got <- tryCatch(
      {
        eval(row$call, new.env(parent = row$env))
        "no error"
      },
      error = function(e) class(e)
    )
    if (!paste0("verdigris_error_", row$class) %in% got) {
      bound <- Filter(Negate(is.function), mget(c("name", "value", "source", "text", "bytes"), row$env,
        ifnotfound = list(NULL)))
      shown <- paste(names(bound), vapply(bound, function(v) paste(deparse(v), collapse = "")[[1]], ""), sep = " = ",
        collapse = "; ")
      wrong <- c(wrong, sprintf("%s, not %s: %s  {%s}", got[[1]], row$class, paste(deparse(row$call), collapse = " "),
        substr(shown, 1, 200)))
    }
  }
  expect_identical(wrong, character())
  for (name in names(arrays)) {
    expect_identical(collect(arrays[[name]]), if (name == "l") bit64::as.integer64(7:8) else expected[[name]],
      label = name)
  }
})
unlink(folder, recursive = TRUE)
