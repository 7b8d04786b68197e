#' Move data to a device
#'
#' Creates an array on a device from an R vector, matrix or array, or moves or casts an array that is already on one.
#' The result is an R vector of the same type, with the same `dim`, `dimnames`, `names` and `tsp`.
#'
#' @param x A double, integer, logical or complex vector, matrix, array or time series; an `integer64` vector; an
#'   existing array; a data frame; or a matrix of package Matrix: a sparse matrix becomes a sparse matrix
#'   ([gpu_sparse()]), a dense matrix an array. Sparse matrices of Bioconductor are accepted too: SparseArray's
#'   `SVT_SparseMatrix` and `COO_SparseMatrix`, and DelayedArray's `SparseArraySeed`. A `DelayedArray` is computed and
#'   read as a whole; use [gpu_reader()] for a `DelayedArray` that does not fit in memory.
#' @param dtype The element type: `"float64"`, `"float32"`, `"float16"`, `"bfloat16"`, `"int8"`, `"uint8"`, `"int16"`,
#'   `"int32"`, `"int64"`, `"bool8"`, `"complex64"` or `"complex128"`. R's names (`"double"`, `"integer"`, `"logical"`,
#'   `"complex"`, `"integer64"`) select the dtype that stores this type. The default keeps R's type, or the array's;
#'   option `verdigris.dtype` (see [verdigris-package]) makes it `"float32"` for doubles. Values that do not fit become
#'   `NA` with a warning (0 in `"uint8"`, which has no `NA`).
#' @param device `"cpu"`, `"cuda"`, `"cuda:1"` and so on. The default is the current device, or the array's.
#' @param ... For methods.
#' @returns An array of class `gpu_array`; for a sparse matrix an object of class `gpu_sparse`. For a data frame, a data
#'   frame whose numeric, logical and complex columns are arrays; the other columns stay as they are.
#'
#'   An ordinary vector that carries the class, such as [readRDS()] returns (see [host]), is uploaded and keeps its
#'   dtype. `saveRDS()` and `serialize()` write an ordinary vector, which R can read without this package: the elements,
#'   the attributes and the class. A dtype that R's type does not imply (all but float64, int32, bool8 and complex128)
#'   is written as attribute `gpu_dtype`. The saved array then has this attribute too; no operation copies it to a
#'   result.
#'
#'   The data are copied: once the call has returned, `x` may be modified. An array that is already on the device and
#'   has the dtype is shared, not copied.
#' @section Errors:
#' `verdigris_error_dtype` for data that an array cannot hold or an unknown dtype; `verdigris_error_device` if the
#' device does not exist; `verdigris_error_memory`.
#' @examples
#' x <- as_gpu(c(a = 1, b = 2, c = 3), device = "cpu")
#' x
#' as.vector(x)
#' as_gpu(matrix(1:6, 2), dtype = "float32", device = "cpu")
#'
#' frame <- as_gpu(data.frame(n = 1:3, name = c("a", "b", "c")), device = "cpu")
#' frame$n * 2L
#' @export
as_gpu <- function(x, dtype = NULL, device = NULL, ...)
  if (.External2(C_needs_no_conversion)) .External2(C_as_gpu_direct) else UseMethod("as_gpu")

#' @export
as_gpu.default <- function(x, dtype = NULL, device = NULL, ...) {
  if (...length()) rlang::check_dots_empty()
  if (is.object(x) && !is_array_like(x)) refuse(x)
  if (!(is.numeric(x) || is.logical(x) || is.complex(x))) refuse(x)
  if (is.null(dtype)) dtype <- default_dtype(x, parent.frame())
  .Call(C_upload, x, dtype, device, sys.call(-1L))
}

#' @export
as_gpu.gpu_array <- function(x, dtype = NULL, device = NULL, ...) {
  if (...length()) rlang::check_dots_empty()
  .Call(C_upload, x, dtype, device, sys.call(-1L))
}

#' @export
as_gpu.data.frame <- function(x, dtype = NULL, device = NULL, ...) {
  if (...length()) rlang::check_dots_empty()
  for (k in seq_along(x)) {
    column <- x[[k]]
    takes <- inherits(column, "gpu_array") ||
      (is.numeric(column) || is.logical(column) || is.complex(column)) && (!is.object(column) || is_array_like(column))
    if (takes) x[[k]] <- as_gpu(column, dtype = dtype %||% default_dtype(column, parent.frame()), device = device)
  }
  x
}

# Classes whose elements are plain numbers. The data of other objects would lose their meaning.
is_array_like <- function(x) inherits(x, c("integer64", "ts", "gpu_array", "AsIs"))

refuse <- function(x, call = parent.frame(), argument = "x") {
  remedy <- if (is.factor(x)) {
    "Use `as.integer(x)` for its codes."
  } else if (inherits(x, c("Date", "POSIXct", "difftime"))) {
    "Use `as.numeric(x)` for its number of days or seconds."
  } else if (is.character(x)) {
    "Use `as.numeric(x)` where it holds numbers, or `factor(x)` and `as.integer()` for codes."
  } else if (is.raw(x)) {
    "Use `as_gpu(as.integer(x), dtype = \"uint8\")`."
  } else if (is.null(x)) {
    "Use `numeric()` for an empty array."
  } else if (is.function(x) || is.environment(x) || is.language(x)) {
    "Arrays hold numbers."
  } else if (is.list(x)) {
    "Use `unlist(x)`, or `lapply(x, as_gpu)` for an array of each element."
  } else {
    "Use `as.numeric(x)` or `unclass(x)` to take its numbers."
  }
  stop_verdigris(
    "dtype", sprintf("`%s` must be a double, integer, logical or complex vector, not %s.", argument, describe(x)),
    remedy, call = call
  )
}

describe <- function(x) {
  if (is.null(x)) return("NULL")
  if (is.object(x)) return(sprintf("an object of class <%s>", paste(class(x), collapse = "/")))
  if (is.function(x)) return("a function")
  if (is.list(x)) return("a list")
  if (is.environment(x)) return("an environment")
  if (is.language(x)) return("an R expression")
  if (length(x) == 1L && is.atomic(x)) {
    if (is.na(x) && !is.nan(x)) return("NA")
    if (!is.character(x) || is_readable(x) && nchar(x, "bytes") <= 60L) return(deparse(as.vector(x), nlines = 1L))
  }
  type <- typeof(x)
  sprintf("%s %s vector of length %s", if (grepl("^[aeiou]", type)) "an" else "a", type, format_count(length(x)))
}

# A new array of x's elements with these attributes (`dim` must precede `dimnames`). R checks them, and the class
# follows from them.
with_attributes <- function(x, attributes) {
  y <- .Call(C_bare, x)
  if (is.null(.Call(C_front_classes, attributes$class))) attributes$class <- NULL
  attributes$gpu_dtype <- NULL
  if (length(attributes)) attributes(y) <- attributes
  .Call(C_classed, y)
}
