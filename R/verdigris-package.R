#' verdigris: arrays on NVIDIA GPUs that are R vectors
#'
#' [as_gpu()] moves a vector, matrix or array to a device. The result is an R vector of the same type whose data are
#' stored there: operators and functions of base R that have a method are computed on the device; all other functions
#' read the data on the host, as usual but more slowly. `as.vector()`, `as.matrix()` and related functions return an
#' ordinary R vector.
#'
#' # Options
#'
#' - `verdigris.host_access`: the action if a function without code for arrays reads an array, which copies it to the
#'   host. Such functions are in other packages, or are functions of base R without a method in this package. `"inform"`
#'   (the default) reports this for arrays of more than a million elements, once for each function called by the user;
#'   `"allow"` is silent; `"error"` refuses, for arrays of more than one element. Explicit copies do not count:
#'   `as.vector(x)`, `collect(x)`, `print(x)`, saving. Neither do base R's computations for the cpu device.
#'
#' - `verdigris.device`: the default device for new arrays, unless [gpu_use()] has chosen one.
#' - `verdigris.dtype`: the default dtype of arrays made from R's doubles, by [as_gpu()], [gpu_full()] and related
#'   functions and by random draws: `"float64"` (the default) or `"float32"`, which also makes complex numbers
#'   `"complex64"`. Most GPUs compute float64 at 1/64 of the rate of float32. The option affects the creation of arrays
#'   only, like `torch.set_default_dtype()`; operations depend on the types of their arrays: a float64 array remains
#'   float64, R numbers combined with a float32 array are rounded to float32, and operations on integers for which base
#'   R returns doubles (`as_gpu(1:3) / 2L`) return float64.
#' - `verdigris.memory_limit`: the most memory that arrays may use on a device, in bytes or as a fraction (up to 1) of
#'   its memory; a named vector such as `c(cpu = 4e9, cuda = 0.5)` for several devices. If arrays exceed this limit, or
#'   the device's memory, R collects garbage and arrays are moved to the host; if this does not suffice, an error is
#'   raised.
#' - `verdigris.pinned_limit`: the most host memory that may be page-locked for transfers, in bytes or as a fraction of
#'   the machine's; a quarter by default.
#' - `verdigris.transfer_threads`: the number of threads that copy to and from a GPU; by default as many as there are
#'   cores, up to 8 for copies, 12 for copies with conversion, and 16 for reads.
#' - `verdigris.threads`: the number of threads with which a member of a team computes on the cpu device; by default its
#'   share of the host's cores. Read when the team is made ([gpu_team()]).
#' - `verdigris.cuda_path`: folders (or files) in which CUDA's libraries are searched first.
#' - `verdigris.cache_dir`: the folder in which compiled kernels are kept between sessions; `NA` keeps none. Read when
#'   the package is loaded; the default is `tools::R_user_dir("verdigris", "cache")`.
#' - `verdigris.cache_size`: the size limit of that folder in bytes, 256 MB by default; the least recently used kernels
#'   are removed. Read when the package is loaded.
#' - `verdigris.tier`: how expressions are computed on a GPU. `"auto"` (the default) interprets a new expression of
#'   plain arithmetic or of uniform and normal draws at once, also inside a reduction or scan, while NVRTC compiles its
#'   kernel in the background; other new expressions wait for NVRTC. Without NVRTC all expressions are interpreted, so
#'   everything except [gpu_kernel()] works. `"compiled"` always waits for NVRTC; `"interpreted"` never compiles. If
#'   NVRTC is installed, the values are the same with all three settings. At its end R waits for a compilation in
#'   progress. Read when the package is loaded; the environment variable `VERDIGRIS_TIER` is the default.
#'
#' - `verdigris.preload`: whether the usual kernels, and after a second of inactivity cuBLAS and cuSOLVER, are loaded in
#'   the background once a GPU is in use (`TRUE`, the default), so that the first expression, product or factorisation
#'   does not wait for them. Read when the package is loaded.
#'
#' - `verdigris.matmul_precision`: the precision to which float32 factors may be rounded in a matrix product on a GPU:
#'   `"float32"` (the default: no rounding), `"tf32"` or `"bfloat16"`; see [matmult].
#'
#' - `verdigris.debug`: whether R waits for each launch on a GPU and checks it, so that an error names the kernel that
#'   caused it, and whether an error about different collectives of a team's members shows their calls. Read when a
#'   kernel of [gpu_kernel()] or a collective ([gpu_all_reduce()]) is called. It slows kernels down.
#'
#' An invalid value is an error of class `verdigris_error_argument` that names the option, raised when the option is
#' first read; the operation is not carried out. Options that are read when the package is loaded raise it at the first
#' use of a GPU, and [library()] reports it too; they are read again until they are valid.
#'
#' If kernels are launched in quick succession, a thread of this package launches them while R continues; later GPU
#' calls are kept in order. The thread polls for 0.1 ms before it sleeps. On machines with fewer than four processors it
#' is not used. A launch that is repeated is submitted as a CUDA graph of one kernel from the 17th time on. The
#' environment variable `VERDIGRIS_SUBMIT=never` disables both.
#'
#' # Conditions
#'
#' Errors have class `verdigris_error_<kind>` and `verdigris_error`, where the kind is `argument`, `capture`, `chunk`,
#' `compile`, `consumed`, `convergence`, `device`, `dtype`, `file`, `fork`, `host_access`, `launch`, `library`, `matrix`,
#' `member`, `memory`, `panic`, `reader`, `shape`, `split` or `value`.
#'
#' The element `detail` of a condition contains longer text, such as a compiler's log; an error in a source has the
#' source as `source`, and `log`, which equals `detail`.
#'
#' Warnings have base R's messages, and are signalled when values are computed. An operation that may warn is computed
#' at once if a handler of the user's code would catch its warning (`tryCatch(warning = )`, `withCallingHandlers()`), or
#' with `options(warn = 2)`; under `suppressWarnings()` it is silent. Handlers of frontends such as knitr do not count.
#' Warnings about integers beyond 2^53 that doubles cannot represent also have class `verdigris_warning_precision` (see
#' [elementwise]). An iterative method that has not converged gives a warning of classes `verdigris_warning_convergence`
#' and `verdigris_warning` ([gpu_cg()], [gpu_svds()]).
#' @keywords internal
#' @useDynLib verdigris, .registration = TRUE
#' @importFrom methods setGeneric setMethod setOldClass show
#' @importFrom stats dnorm pnorm qnorm quantile sd var
"_PACKAGE"

# In base R from R 4.4 on. Importing rlang's would load rlang, which takes as long as everything else; it is loaded when
# an error is raised.
`%||%` <- function(x, y) if (is.null(x)) y else x
