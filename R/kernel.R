#' A CUDA kernel as an R function
#'
#' Makes an R function of a kernel that is written in CUDA C. It is compiled at run time (by NVRTC, no toolkit is
#' needed), for the device that its arrays are on, once for each source and device.
#'
#' The function takes the kernel's parameters in their order, or by name, and:
#'
#' - `grid`, `block`: blocks and threads in a block, one to three whole numbers each. The default has 256 threads
#'   in a block and as many blocks as `n` needs.
#' - `shared`: bytes of shared memory in a block beyond what the source declares.
#' - `n`: how many threads are needed; by default the length of the longest array. A parameter called `n` takes its value,
#'   if nothing else is given for it.
#'
#' Arguments are checked: a pointer takes an array of the type that it points to (`float*` float32, `double*` float64, `int*`
#' int32, `long long*` int64, `unsigned char*` uint8 or the bytes of bool8, `float2*` complex64, `void*` any) or `NULL`; another
#' parameter takes one number, which must fit its type. Where the source includes no header for the half types, `unsigned short*`
#' takes their bits.
#'
#' # In place
#' What the kernel may write (a pointer that is not `const`) **changes the array itself, under all its names**: after
#' `y <- x` both are changed. Others that share the memory keep what they have: recorded operations that read
#' it, views, copies made by assignment into them, capsules of [as_dlpack()].
#' A host copy that R has read is read again.
#'
#' The call queues the kernel and returns; errors on the device appear at the next wait. Writing outside an array is not
#' noticed, and may end with an error that needs a restart of R, as in CUDA itself.
#'
#' @param code CUDA C, as one string or as lines. The kernel must be `extern "C" __global__ void`.
#' @param name The kernel's name, where the source has several.
#' @returns A function of class `gpu_kernel`. It returns `NULL`, invisibly.
#' @section Errors:
#' `verdigris_error_compile`, with the line in the message and the compiler's log as `detail`;
#' `verdigris_error_dtype` for an argument that does not fit its parameter; `verdigris_error_device` for arrays on the cpu device or
#' on several devices; `verdigris_error_launch` beyond the device's limits; `verdigris_error_argument`. Nothing has changed then.
#'
#' Compile errors come at once where NVRTC is found, else at the first call.
#' @examples
#' axpy <- gpu_kernel('
#'   extern "C" __global__ void axpy(const float* x, float* y, float a, int n) {
#'     int i = blockIdx.x * blockDim.x + threadIdx.x;
#'     if (i < n) y[i] += a * x[i];
#'   }')
#' axpy
#' if (any(gpu_devices()$device != "cpu")) {
#'   x <- as_gpu(1:10, dtype = "float32", device = "cuda")
#'   y <- as_gpu(numeric(10), dtype = "float32", device = "cuda")
#'   axpy(x, y, 2.5, 10)
#'   y
#' }
#' @export
gpu_kernel <- function(code, name = NULL) {
  if (!is.character(code) || anyNA(code)) {
    stop_verdigris("argument", sprintf("`code` must be CUDA C as a string, not %s.", describe(code)))
  }
  code <- paste(code, collapse = "\n")
  parsed <- .Call(C_kernel_parse, code, name)
  .Call(C_kernel_check, code)
  name <- parsed$name
  signature <- parsed$signature
  parameters <- parsed$parameters
  kernel <- function(..., grid = NULL, block = NULL, shared = 0, n = NULL) {
    arguments <- list(...)
    # in their order and all there, as most calls have them
    if (!is.null(names(arguments)) || length(arguments) != length(parameters)) {
      arguments <- match_parameters(arguments, parameters, name, n)
    }
    .Call(C_kernel_call, code, name, arguments, grid, block, shared, n)
    invisible(NULL)
  }
  structure(kernel, class = c("gpu_kernel", "function"), signature = signature)
}

#' @export
print.gpu_kernel <- function(x, ...) {
  cat("<gpu_kernel>\n", attr(x, "signature"), "\n", sep = "")
  invisible(x)
}

# Arguments in the order of the parameters: named ones in their places, the others in the gaps.
match_parameters <- function(arguments, parameters, kernel, n, call = parent.frame()) {
  given <- names(arguments)
  if (is.null(given)) given <- character(length(arguments))
  named <- given[nzchar(given)]
  unknown <- setdiff(named, parameters)
  if (length(unknown)) {
    stop_verdigris(
      "argument", sprintf("kernel `%s` has no parameter `%s`.", kernel, unknown[[1]]),
      sprintf("Its parameters are %s.", paste0("`", parameters, "`", collapse = ", ")), call = call
    )
  }
  twice <- anyDuplicated(named)
  if (twice) stop_verdigris("argument", sprintf("parameter `%s` is given twice.", named[[twice]]), call = call)
  # every argument is at least passed on, so that a wrong number of them is seen where the signature is known
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
