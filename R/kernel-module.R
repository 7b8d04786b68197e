#' Modules of CUDA kernels
#'
#' A module contains the kernels of one source or of one compiled file: CUDA C (`.cu`), PTX (`.ptx`), machine code
#' (`.cubin`, `.fatbin`), or a shared object built by nvcc (`.so`), with its device code and its host functions that
#' launch kernels.
#'
#' `module$name` and `module[["scale<float>"]]` are kernels, functions as made by [gpu_kernel()]; `names(module)` lists
#' them; `gpu_kernel(module, name, returns = "y")` makes one with further options. [gpu_global()] reads and writes
#' variables on the device.
#'
#' A module is loaded on a device when one of its kernels is first called there. The same code is loaded once: two
#' modules with the same code share their variables. Loaded code stays until the end of the session. A module and its
#' kernels can be saved, and sent to other processes, where they are loaded again.
#'
#' # Signatures
#' Source code declares the parameters of its kernels. PTX declares the sizes of the parameters and whether each is
#' floating point; machine code declares only the sizes (reported by the driver, from CUDA 12.4 on). Unknown types are
#' not guessed: every address accepts any array, which counts as written to; whole numbers (`5L`, `TRUE`, integer64) fit
#' any size; a double is refused if the parameter may be a `float` or an `int`. `signatures` declares more, in C, and
#' enables all checks made for source code: `"__global__ void axpy(const float* x, float* y, float a, int n)"`. Mangled
#' C++ names are found by their original names.
#'
#' In a shared object a signature without `__global__` declares a host function, which must be `extern "C"`:
#' `"int launch(const float* x, float* y, int n, cudaStream_t stream)"`. It takes numbers and pointers; the stream is
#' not an argument of the R function but the stream on which the package queues its work. If it returns `int` or
#' `cudaError_t`, a value other than 0 is an error. **Nothing can check that such a function matches its signature**: a
#' wrong signature may crash R.
#'
#' @param code CUDA C or PTX as a string or as lines, or the bytes of compiled code as a raw vector.
#' @param path A file, instead of `code`.
#' @param names Instances of templates, as written in C++: `"scale<float>"`.
#' @param options Options for NVRTC, as for nvcc: `"-DN=16"`, `"--use_fast_math"`, `"-lineinfo"`. C++17 unless `--std`
#'   specifies another standard. The architecture is the device's.
#' @param include Folders of headers. The folder of `path` and CUDA's own are searched as well.
#' @param signatures Declarations of the kernels of compiled code, and of host functions; see section "Signatures".
#' @param link Files to link a source with: PTX, cubins, fatbins, object files of nvcc and static libraries of them,
#'   LTO-IR (`.ltoir`). Their device code must be relocatable (`nvcc -dc`, `-rdc=true`). They are linked by nvJitLink if
#'   it is installed (`pip install nvidia-nvjitlink`), otherwise by the driver, which does not support LTO-IR. Neither
#'   can read the output of a compiler that is newer than itself.
#' @returns An environment of class `gpu_module`.
#' @section Errors:
#' `verdigris_error_compile` for sources that do not compile or link, and for files without device code or truncated
#' files; `verdigris_error_argument` for names and signatures; `verdigris_error_library` if NVRTC is missing.
#' @examples
#' module <- gpu_module('
#'   __constant__ float weights[3];
#'   template <class T> __global__ void scale(T* x, T a, int n) {
#'     int i = blockIdx.x * blockDim.x + threadIdx.x;
#'     if (i < n) x[i] *= a;
#'   }
#'   __global__ void smooth(const float* x, float* y, int n) {
#'     int i = blockIdx.x * blockDim.x + threadIdx.x;
#'     if (i > 0 && i < n - 1)
#'       y[i] = weights[0] * x[i - 1] + weights[1] * x[i] + weights[2] * x[i + 1];
#'   }', names = c("scale<float>", "scale<double>"))
#' names(module)
#' module$smooth
#' module[["scale<double>"]]
#' if (any(gpu_devices()$device != "cpu")) {
#'   gpu_global(module, "weights") <- c(0.25, 0.5, 0.25)
#'   x <- as_gpu(c(0, 0, 4, 0, 0), dtype = "float32", device = "cuda")
#'   y <- as_gpu(numeric(5), dtype = "float32", device = "cuda")
#'   module$smooth(x, y, 5L)
#'   y
#' }
#' @export
gpu_module <- function(code = NULL, path = NULL, names = NULL, options = NULL, include = NULL, signatures = NULL,
  link = NULL) {
  module <- make_module(code, path, names, options, include, signatures, link)
  .Call(C_module_check, module_pointer(module))
  module
}

# gpu_module() without compiling.
make_module <- function(code = NULL, path = NULL, names = NULL, options = NULL, include = NULL, signatures = NULL,
  link = NULL, call = parent.frame()) {
  if (is.null(code) == is.null(path)) stop_verdigris("argument", "give one of `code` and `path`.", call = call)
  label <- "kernel.cu"
  file <- NULL
  if (!is.null(path)) {
    file <- existing_files(path, "path", most = 1L)
    label <- basename(file)
    code <- .Call(C_file_bytes, enc2utf8(file), "path")
    if (is_text(code, label)) {
      code <- bytes_text(code, label)
      include <- c(include, dirname(file))
    }
  } else if (!is.character(code) && !is.raw(code) || anyNA(code)) {
    stop_verdigris("argument",
      sprintf("`code` must be CUDA C or PTX as a string, or compiled code as a raw vector, not %s.", describe(code)))
  }
  if (is.character(code)) {
    code <- paste(code, collapse = "\n")
    if (grepl("^\\s*(//[^\n]*\n\\s*)*[.]version\\s", code, useBytes = TRUE)) {
      code <- charToRaw(code)
      if (label == "kernel.cu") label <- "kernel.ptx"
    }
  } else if (is.null(path)) {
    label <- "the compiled code"
  }
  for (argument in c("names", "options", "include", "signatures")) {
    value <- get(argument, inherits = FALSE)
    if (!is.null(value) && (!is.character(value) || anyNA(value))) abort_argument(argument, "strings", value)
  }
  missing <- if (length(include)) include[!dir.exists(include)]
  if (length(missing)) stop_verdigris("argument", sprintf("`include`: there is no folder \"%s\".", missing[[1]]))
  files <- if (length(link)) existing_files(link, "link")
  link <- lapply(files, function(f) .Call(C_file_bytes, enc2utf8(f), "link"))
  names(link) <- basename(as.character(files))
  module <- new.env(parent = emptyenv())
  module$parts <- list(
    code, label, file, options, if (length(include)) normalizePath(include), if (length(names))
      instance_name(names), signatures, link
  )
  module$kernels <- new.env(parent = emptyenv())
  class(module) <- "gpu_module"
  module
}

# The name of a template's instance without the blanks that C++ allows.
instance_name <- function(name) gsub("\\s*([<>,])\\s*", "\\1", name)

# Checks that files exist, and returns their full paths.
existing_files <- function(path, argument, most = Inf, call = parent.frame()) {
  if (!is_readable(path) || anyNA(path) || !length(path) || length(path) > most) {
    abort_argument(argument, if (most == 1L) "the path of a file" else "paths of files", path, call = call)
  }
  wrong <- path[!file.exists(path) | dir.exists(path)]
  if (length(wrong)) stop_verdigris("argument", sprintf("`%s`: there is no file \"%s\".", argument, wrong[[1]]),
    call = call)
  normalizePath(path)
}

# Whether a file is source text: it has neither the extension nor the first bytes of compiled code.
is_text <- function(bytes, label) {
  if (grepl("[.](cubin|fatbin|so|dll|o|obj|a|ptx|ltoir)$", label)) return(FALSE)
  starts <- function(...) length(bytes) >= ...length() && identical(bytes[seq_len(...length())], as.raw(c(...)))
  !starts(0x7f, 0x45, 0x4c, 0x46) && !starts(0x50, 0xed, 0x55, 0xba) && !starts(0x21, 0x3c, 0x61, 0x72)
}

bytes_text <- function(bytes, label, call = parent.frame()) {
  if (any(bytes == 0)) stop_verdigris("compile",
    sprintf("%s is neither source nor device code: it contains zero bytes.", label), call = call)
  text <- rawToChar(bytes)
  Encoding(text) <- "UTF-8"
  if (!validUTF8(text)) text <- iconv(text, "latin1", "UTF-8")
  text
}

# The module's pointer, made at first use, and again in another session. `.subset2()`, since `$` looks for kernels.
module_pointer <- function(module) {
  pointer <- .subset2(module, "pointer")
  if (is.null(pointer) || is_stale(pointer)) {
    pointer <- do.call(.Call, c(list(C_module_new), .subset2(module, "parts")))
    assign("pointer", pointer, envir = module)
  }
  pointer
}

module_kernel <- function(module, name) {
  known <- if (nzchar(name)) .subset2(.subset2(module, "kernels"), name)
  if (is.null(known)) {
    known <- new_kernel(module, name)
    assign(name, known, envir = .subset2(module, "kernels"))
  }
  known
}

#' @export
`$.gpu_module` <- function(x, name) {
  known <- .subset2(.subset2(x, "kernels"), name)
  if (!is.null(known)) return(known)
  if (name %in% c("pointer", "parts", "kernels")) return(get0(name, envir = x, inherits = FALSE))
  module_kernel(x, name)
}

#' @export
`[[.gpu_module` <- function(x, i, ...) {
  if (!is.character(i) || length(i) != 1L || is.na(i)) abort_argument("i", "the name of a kernel", i)
  module_kernel(x, instance_name(i))
}

#' @export
`$<-.gpu_module` <- function(x, name, value) {
  stop_verdigris("argument", "the kernels of a module cannot be replaced.",
    "Write variables with `gpu_global(module, \"name\") <- value`.")
}

#' @export
`[[<-.gpu_module` <- `$<-.gpu_module`

#' @export
names.gpu_module <- function(x) .Call(C_module_names, module_pointer(x))

#' @export
length.gpu_module <- function(x) length(names(x))

#' @rawNamespace S3method(utils::.DollarNames,gpu_module)
NULL
.DollarNames.gpu_module <- function(x, pattern = "") grep(pattern, names(x), value = TRUE)

#' @export
print.gpu_module <- function(x, ...) {
  parts <- get("parts", envir = x)
  cat("<gpu_module> ", if (is.null(parts[[3]])) .Call(C_module_format, module_pointer(x)) else parts[[2]], "\n",
    sep = "")
  for (name in names(x)) {
    signature <- attr(module_kernel(x, name), "signature")
    cat(if (is.null(signature)) paste0(name, "(...)") else signature, "\n", sep = "")
  }
  invisible(x)
}

#' Device variables of a module
#'
#' Reads and writes variables that a module declares at file scope as `__device__` or `__constant__`. The reads and
#' writes are ordered with the kernels that use the variables, on all streams (see [gpu_stream()]). Two kernels of a
#' module on two streams are ordered by their arrays only: if they communicate by variables, use one stream, or
#' [gpu_event_wait()].
#'
#' @param module A module of [gpu_module()].
#' @param name The variable's name, with its namespaces, if any: `"a::table"`.
#' @param dtype The element type. By default the type declared in the source; required for variables of compiled code,
#'   and for structs. `"raw"` selects the bytes.
#' @param device A CUDA device: each has its own copy of the variable. By default the current one, else the first.
#' @param value An array or a vector of the variable's length, whose elements are converted to its type; or a raw vector
#'   of its bytes.
#' @returns `gpu_global()` returns a copy on the device, a vector without dimensions; for `"raw"` a raw vector, for
#'   which it waits. The replacement function queues a copy; `value` is copied at once.
#' @section Errors:
#' `verdigris_error_argument` if there is no such variable (the compiler may remove one that no kernel uses),
#' `verdigris_error_shape` for another length, `verdigris_error_dtype` if the type is not known or a value does not fit
#' it; and the errors of loading a module.
#' @examples
#' module <- gpu_module('
#'   __device__ int calls;
#'   __global__ void count() { atomicAdd(&calls, 1); }')
#' if (any(gpu_devices()$device != "cpu")) {
#'   gpu_global(module, "calls") <- 0L
#'   module$count(grid = 2, block = 32)
#'   gpu_global(module, "calls")
#' }
#' @export
gpu_global <- function(module, name, dtype = NULL, device = NULL) {
  if (!inherits(module, "gpu_module")) abort_argument("module", "a module made by gpu_module()", module)
  .Call(C_global_read, module_pointer(module), name, dtype, device)
}

#' @rdname gpu_global
#' @export
`gpu_global<-` <- function(module, name, dtype = NULL, device = NULL, value) {
  if (!inherits(module, "gpu_module")) abort_argument("module", "a module made by gpu_module()", module)
  .Call(C_global_write, module_pointer(module), name, dtype, device, value)
  module
}
