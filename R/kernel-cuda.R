#' CUDA kernels as R functions
#'
#' Creates an R function from a kernel that is written in CUDA C or already compiled. Source code is compiled at run
#' time for the device of its arrays, once for each source and device, and the result is cached on disk. NVRTC compiles
#' it, so the CUDA toolkit is not needed.
#'
#' The function takes the kernel's parameters by position or by name, and:
#'
#' - `grid`, `block`: the number of blocks and of threads per block, one to three whole numbers each. By default the
#'   driver determines the block size of highest occupancy, and there are as many blocks as `n` requires; for short
#'   ranges blocks are smaller, so that all multiprocessors have work. A source that relies on a block size
#'   (`__shared__ float tile[256]`) must be called with that `block`, or declare `__launch_bounds__(256)`, which no
#'   block exceeds.
#' - `shared`: bytes of dynamic shared memory per block. More than 48 kB is enabled if the device supports it.
#' - `n`: the number of threads; by default the length of the longest array. A parameter called `n` takes this value
#'   unless it is given another one.
#' - `stream`: a [gpu_stream()] to queue the call on, instead of the current one; as inside [with_gpu_stream()], it
#'   waits for work on its arrays in other streams.
#'
#' Arguments are checked: a pointer parameter takes an array of its element type (`float*` float32, `double*` float64,
#' `int*` int32, `long long*` int64, `unsigned char*` uint8 or the bytes of bool8, `__half*` float16, `__nv_bfloat16*`
#' bfloat16, `float2*` complex64, `double2*` complex128, `void*` and structs any) or `NULL`; another parameter takes one
#' number, which must fit its type, or a raw vector with its bytes, for example the bytes of a struct in C's layout. If
#' the source includes no header for the half types, `unsigned short*` takes their bits. CUDA's own headers are found
#' next to NVRTC (`pip install nvidia-cuda-runtime`, or the toolkit).
#'
#' # In place
#' A pointer that is not `const` may be written to, which **changes the array itself, under all its names**: after `y <-
#' x` both are changed. Objects that share the memory keep their values: recorded operations that read it, views, copies
#' made by assignment, capsules of [as_dlpack()]. Values that R has read are read again.
#'
#' A parameter named by `returns` is not a parameter of the R function: the call creates an array for it, filled with
#' zeros, and returns this array.
#'
#' The call queues the kernel and returns; errors on the device are raised at the next wait. Out-of-bounds writes are
#' not detected, and may cause an error that requires a restart of R, as in CUDA itself. With
#' `options(verdigris.debug = TRUE)` R waits for each launch, so that the error names the kernel, its grid, its block
#' and its arguments.
#'
#' @param code CUDA C, as one string or as lines; or a [gpu_module()] that contains the kernel.
#' @param name The kernel's name, if there are several. An instance of a template is named as in C++: `"scale<float>"`.
#'   `extern "C"` is not needed.
#' @param returns Names of parameters to be allocated and returned: pointers that are not `const`.
#' @param ... Further arguments of [gpu_module()]: `options`, `include`, `link`, `signatures`.
#' @param cooperative Whether all blocks must run at once, because they wait for each other
#'   (`cooperative_groups::this_grid().sync()`). By default there are then as many blocks as fit.
#' @param cluster The size of a thread block cluster, one to three whole numbers, at most 8 blocks in all (compute
#'   capability 9.0 and later).
#' @returns A function of class `gpu_kernel`. It returns `NULL`, invisibly; or, with `returns`, an array with the
#'   dimensions of the first of the longest arrays given, or of length `n`, if that is given; a list of arrays if
#'   `returns` names several.
#' @section Errors:
#' `verdigris_error_compile`, with the line and a caret in the message, the compiler's log as `log` and the source as
#' `source`; `verdigris_error_dtype` for an argument that does not match its parameter; `verdigris_error_device` for
#' arrays on the cpu device or on several devices; `verdigris_error_launch` beyond the device's limits;
#' `verdigris_error_argument`. Nothing has changed in these cases.
#'
#' Compile errors are raised at once if NVRTC is installed, otherwise at the first call.
#' @seealso [gpu_module()] for several kernels, compiled files and variables on the device.
#' @examples
#' axpy <- gpu_kernel('
#'   extern "C" __global__ void axpy(const float* x, float* y, float a, int n) {
#'     int i = blockIdx.x * blockDim.x + threadIdx.x;
#'     if (i < n) y[i] += a * x[i];
#'   }')
#' axpy
#' add <- gpu_kernel('
#'   template <class T> __global__ void add(const T* x, const T* y, T* z, int n) {
#'     int i = blockIdx.x * blockDim.x + threadIdx.x;
#'     if (i < n) z[i] = x[i] + y[i];
#'   }', "add<double>", returns = "z")
#' if (any(gpu_devices()$device != "cpu")) {
#'   x <- as_gpu(1:10, dtype = "float32", device = "cuda")
#'   y <- as_gpu(numeric(10), dtype = "float32", device = "cuda")
#'   axpy(x, y, 2.5, 10)
#'   y
#'   add(as_gpu(1:3 / 2, device = "cuda"), as_gpu(1:3 * 1, device = "cuda"), n = 3)
#' }
#' @export
gpu_kernel <- function(code, name = NULL, returns = NULL, ..., cooperative = FALSE, cluster = NULL) {
  if (inherits(code, "gpu_module")) {
    if (...length()) stop_verdigris("argument", "an existing module takes no further arguments.")
    module <- code
  } else {
    if (!is.character(code) && !is.raw(code) || anyNA(code)) {
      stop_verdigris("argument", sprintf("`code` must be CUDA C as a string, or a module made by gpu_module(), not %s.",
        describe(code)))
    }
    if (is.character(name)) name <- instance_name(name)
    instance <- if (is.character(name) && length(name) == 1L && !is.na(name) && grepl("<", name, fixed = TRUE)) name
    module <- make_module(code, names = as.character(instance), ...)
  }
  # errors found in the source's declarations come before those of the compiler
  kernel <- new_kernel(module, name, returns, cooperative, cluster)
  .Call(C_module_check, module_pointer(module))
  kernel
}

# The R function of a kernel. Its environment has what is needed to make it again in another session; src/kernel.c reads
# `pointer` there.
new_kernel <- function(module, name = NULL, returns = NULL, cooperative = FALSE, cluster = NULL) {
  made <- .Call(C_kernel_new, module_pointer(module), name, returns, cooperative, cluster)
  self <- environment()
  pointer <- made$pointer
  parameters <- made$parameters
  name <- made$name
  kernel <- if (length(returns)) {
    function(..., grid, block, shared, n, stream) .External2(C_launch)
  } else {
    function(..., grid, block, shared, n, stream) invisible(.External2(C_launch))
  }
  structure(kernel, class = c("gpu_kernel", "function"), signature = made$signature)
}

# Completes a call that C cannot match: wrong arguments, a kernel from another session, or a binary whose parameters
# only the driver knows. Called from C.
launch_matched <- function(self, arguments, grid, block, shared, n, stream, call = parent.frame()) {
  if (is_stale(self$pointer)) {
    made <- .Call(C_kernel_new, module_pointer(self$module), self$name, self$returns, self$cooperative, self$cluster)
    self$pointer <- made$pointer
  }
  if (is.null(self$parameters)) self$parameters <- .Call(C_kernel_signature, self$pointer)$parameters
  arguments <- match_parameters(arguments, self$parameters, self$name, n, call)
  .Call(C_kernel_call, self$pointer, arguments, grid, block, shared, n, stream)
}

# Whether a pointer was restored in this process from a file or another process: serialisation drops the address.
is_stale <- function(pointer) identical(pointer, stale_pointer)
stale_pointer <- methods::new("externalptr")

#' @export
print.gpu_kernel <- function(x, ...) {
  signature <- attr(x, "signature")
  if (is.null(signature))
    signature <- paste0(environment(x)$name, "(...), whose parameters are known after the first call")
  cat("<gpu_kernel>\n", signature, "\n", sep = "")
  invisible(x)
}

# Orders arguments by parameter: named ones in their places, the others in the places that are left.
match_parameters <- function(arguments, parameters, kernel, n, call = parent.frame()) {
  given <- names(arguments)
  if (is.null(given)) given <- character(length(arguments))
  named <- given[nzchar(given)]
  unknown <- setdiff(named, parameters)
  if (length(unknown)) {
    known <- parameters[nzchar(parameters)]
    stop_verdigris(
      "argument", sprintf("kernel `%s` has no parameter `%s`.", kernel, unknown[[1]]),
      if (length(known)) sprintf("Its parameters are %s.", paste0("`", known, "`", collapse = ", ")) else
        "Its parameters have no names.",
      call = call
    )
  }
  twice <- anyDuplicated(named)
  if (twice) stop_verdigris("argument", sprintf("parameter `%s` is given twice.", named[[twice]]), call = call)
  # pass on every argument: C knows the signature, and raises the error for a wrong number of them
  open <- setdiff(seq_along(parameters), match(named, parameters))
  free <- arguments[!nzchar(given)]
  if (!is.null(n) && length(free) < length(open)) {
    takes_n <- match("n", parameters[open])
    if (!is.na(takes_n)) {
      named <- c(named, "n")
      arguments <- c(arguments, list(n = n))
      open <- open[-takes_n]
    }
  }
  if (!length(named)) return(unname(free))
  if (length(free) != length(open)) {
    stop_verdigris(
      "argument",
      sprintf("kernel `%s` takes %d arguments, not %d.", kernel, length(parameters), length(free) + length(named)),
      call = call
    )
  }
  ordered <- vector("list", length(parameters))
  # single brackets keep NULL, which is a null pointer
  ordered[match(named, parameters)] <- arguments[named]
  ordered[open] <- free
  ordered
}
