#' verdigris: arrays on NVIDIA GPUs that are R vectors
#'
#' [as_gpu()] moves a vector, matrix or array to a device. The result is an R vector of the same type
#' whose data live there: operators and functions of base R that have a method work on the device,
#' everything else reads the data as usual, only slower. `as.vector()`, `as.matrix()` and so on bring a
#' plain R vector back.
#'
#' # Options
#'
#' - `verdigris.host_access`: what happens when a function that has no code for arrays reads one, which copies it to the
#'   host: code of other packages, and what this package leaves to base R. `"inform"` (the default) says so for arrays
#'   above a million elements, once for each function that the user called; `"allow"` says nothing; `"error"` refuses,
#'   for arrays of more than one element. What is copied on purpose is no such read: `as.vector(x)`, `collect(x)`,
#'   `print(x)`, saving. Nor is what base R computes for the cpu device.
#'
#' - `verdigris.device`: the device of arrays that name none, unless [gpu_use()] has chosen one.
#' - `verdigris.dtype`: what arrays are made of R's doubles, by [as_gpu()], [gpu_full()] and its like and by draws, where
#'   no dtype is named: `"float64"` (the default) or `"float32"`; complex numbers become `"complex64"` then. Most GPUs
#'   compute float64 at 1/64 of the rate of float32. It says how arrays are made, as `torch.set_default_dtype()` does;
#'   operations go by the types of their arrays: a float64 array stays one, numbers of R beside a float32 array are
#'   rounded to it, and what is computed of integers where base R gives doubles (`as_gpu(1:3) / 2L`) is float64.
#' - `verdigris.memory_limit`: what arrays may hold on a device, in bytes or as a fraction (up to 1) of its memory; a
#'   vector with names such as `c(cpu = 4e9, cuda = 0.5)` for several. Beyond it, as beyond the device's memory, garbage
#'   is collected and arrays are moved to the host, and then there is an error.
#' - `verdigris.pinned_limit`: how much host memory may be page-locked for transfers, in bytes or as a fraction of the
#'   machine's; a quarter by default.
#' - `verdigris.transfer_threads`: how many threads copy to and from a GPU; by default as many as there are cores, up to
#'   8 for copies, 12 where they convert, and 16 for reads.
#' - `verdigris.cuda_path`: folders (or files) in which CUDA's libraries are searched first.
#' - `verdigris.cache_dir`: where compiled kernels are kept between sessions; `NA` keeps none. Read when the
#'   package is loaded; the default is `tools::R_user_dir("verdigris", "cache")`.
#'
#' - `verdigris.cache_size`: bytes of compiled kernels to keep there, 256 MB by default; what was not used for longest
#'   is removed. Read when the package is loaded.
#' - `verdigris.tier`: how expressions are computed on a GPU. `"auto"` (the default) interprets a new expression of
#'   plain arithmetic, of uniform and normal draws at once, a reduction or scan of it too, while NVRTC compiles its
#'   kernel in the background; other new expressions wait for NVRTC.
#'   Without NVRTC all is interpreted, so that everything but [gpu_kernel()] works. `"compiled"` always waits for NVRTC;
#'   `"interpreted"` never compiles. The values are the same in all of them where NVRTC is there. A compilation under
#'   way is waited for when R ends. Read when the package is loaded; the environment variable `VERDIGRIS_TIER` is the
#'   default.
#'
#' - `verdigris.preload`: whether the usual kernels, and after a second of quiet cuBLAS and cuSOLVER, are loaded in the
#'   background once a GPU is in use (`TRUE`, the default), so that the first expression, product or factorisation does
#'   not wait for them. Read when the package is loaded.
#'
#' - `verdigris.matmul_precision`: what float32 factors may be rounded to on the way into a matrix product on a GPU:
#'   `"float32"` (the default: they are not), `"tf32"` or `"bfloat16"`; see [matmult].
#'
#' - `verdigris.debug`: whether each launch on a GPU is waited for and checked, so that an error names the kernel that
#'   made it. Looked at when a kernel of [gpu_kernel()] is called; slow.
#'
#' A value that means nothing is an error of class `verdigris_error_argument` that names the option, where the option is
#' first looked at; what was asked for is not done. Of those that are read when the package is loaded, that is the first
#' use of a GPU, and [library()] says it too; they are read again until they are right.
#'
#' Where kernels are launched closely one after the other, a thread of the package's does it while R goes on; what else
#' is asked of the GPU comes behind them as ever. It looks for more for 0.1 ms before it sleeps. With fewer than four
#' processors there is none. The same launch is handed to the driver as a graph of one kernel from the 17th time on. The
#' environment variable `VERDIGRIS_SUBMIT=never` does without both.
#'
#' # Conditions
#'
#' Errors have class `verdigris_error_<kind>` and `verdigris_error`, where the kind is `argument`, `capture`, `chunk`,
#' `compile`, `consumed`, `device`, `dtype`, `fork`, `host_access`, `launch`, `library`, `memory`, `panic` or `shape`.
#' The element `detail` of a condition holds longer text, such as a compiler's log; of one about a source, `source`
#' holds that, and `log` is the same as `detail`.
#'
#' Warnings are base R's, and are signalled when values are computed. An operation that may warn is computed at once
#' where a handler of the user's code would take its warning (`tryCatch(warning = )`, `withCallingHandlers()`), or with
#' `options(warn = 2)`; under `suppressWarnings()` it stays silent. Handlers of frontends such as knitr do not count.
#' Warnings of integers beyond 2^53 that doubles do not hold also have class `verdigris_warning_precision` (see
#' [elementwise]).
#'
#' @keywords internal
#' @useDynLib verdigris, .registration = TRUE
#' @importFrom methods setGeneric setMethod setOldClass show
#' @importFrom stats dnorm pnorm qnorm quantile sd var
"_PACKAGE"

# Base R's from R 4.4 on. rlang's would load rlang, which takes as long as all the rest; errors load it.
`%||%` <- function(x, y) if (is.null(x)) y else x
