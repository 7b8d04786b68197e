#' Type, device and state of an array
#'
#' None of these functions computes or copies anything, except `gpu_cast()`, which records a cast.
#'
#' @param x An array, or a sparse matrix ([gpu_sparse()]); any object for `is_gpu()`.
#' @param dtype As in [as_gpu()].
#' @returns `is_gpu()`: `TRUE` for an array or a sparse matrix. `gpu_dtype()` and `gpu_device()`: a string; for a sparse
#'   matrix it describes the values. `gpu_cast()`: an array, or a sparse matrix, of that dtype on the same device;
#'   values that do not fit become `NA`, with a warning when they are computed.
#' @section Errors:
#' `verdigris_error_argument` if `x` is not an array, `verdigris_error_dtype` for an unknown dtype.
#' @examples
#' x <- as_gpu(1:3, device = "cpu")
#' gpu_dtype(x)
#' gpu_device(x)
#' gpu_cast(x, "float32")
#' @export
is_gpu <- function(x) is_of(x, c("gpu_array", "gpu_sparse"))
# An array, not a sparse matrix.
is_array <- function(x) is_of(x, "gpu_array")

# inherits(x, classes) at a fraction of its cost.
is_of <- function(x, classes) is.object(x) && .Call(C_inherits, x, classes)

#' @rdname is_gpu
#' @export
gpu_dtype <- function(x) .Call(C_dtype, elements_of(x))

#' @rdname is_gpu
#' @export
gpu_device <- function(x) .Call(C_device, elements_of(x))

#' @rdname is_gpu
#' @export
gpu_cast <- function(x, dtype) if (is_sparse(x)) as_gpu(x, dtype = dtype) else .Call(C_cast, x, dtype, sys.call())

# The array that holds the elements; for a sparse matrix that of its stored elements.
elements_of <- function(x) if (isS4(x) && inherits(x, "gpu_sparse")) x@x else x

# list(dtype, device, length, pending, host, dirty, address); computes nothing.
gpu_info <- function(x) .Call(C_info, x)

# Whether the elements are floats or complex numbers narrower than R's.
is_narrow <- function(x) gpu_dtype(x) %in% c("float32", "float16", "bfloat16", "complex64")

# Whether elements are floats of two bytes.
is_half <- function(x) gpu_dtype(x) %in% c("float16", "bfloat16")

# Whether elements are integers shorter than R's.
is_short_integer <- function(x) is.integer(x) && gpu_dtype(x) != "int32"

# Whether elements are int64, whose values a double may not represent.
is_int64 <- function(x) if (isS4(x)) is_sparse(x) && gpu_dtype(x) == "int64" else .Call(C_is_int64, x)

# Whether x is an ordinary integer64 vector, which is converted to int64 when combined with an array.
is_host_int64 <- function(x) is_of(x, "integer64")

# The dtype of arrays that the user creates without naming one and that R would hold as doubles: option verdigris.dtype,
# or NULL for R's own type. `frame` is the calling frame: arrays that this package creates for itself keep R's type.
float_dtype <- function(frame) {
  option <- getOption("verdigris.dtype")
  if (is.null(option) || identical(topenv(frame), topenv())) return(NULL)
  if (!is_choice(option, c("float64", "float32"))) abort_option("verdigris.dtype", "\"float64\" or \"float32\"")
  if (option == "float32") option
}

# The default dtype for an ordinary vector x: NULL keeps its R type.
default_dtype <- function(x, frame) {
  if (!is.double(x) && !is.complex(x) || is_gpu(x) || inherits(x, "integer64")) return(NULL)
  option <- float_dtype(frame)
  if (is.complex(x) && !is.null(option)) "complex64" else option
}
