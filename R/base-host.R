# Calls of base R functions on host copies of arrays. They are needed where a function must not see the array itself,
# because its C code copies the class to an ordinary result, requires a vector without attributes, or compares elements
# in pairs.

# Calls f with host copies of its arguments. A numeric result becomes an array on the device of the first array.
hosted <- function(f, args, exact = FALSE) {
  like <- NULL
  silent <- is_beside_s4(args)
  for (k in seq_along(args)) if (is_gpu(args[[k]]) || is_host_int64(args[[k]])) {
    if (is.null(like) && is_gpu(args[[k]])) like <- args[[k]]
    args[[k]] <- ordinary_copy(args[[k]], exact = exact, silent = silent)
  }
  y <- call_base(f, args, parent.frame())
  if (is.object(y) && !inherits(y, "integer64") || !(is.numeric(y) || is.logical(y) || is.complex(y))) return(y)
  .Call(C_result, y, result_dtype(y, gpu_dtype(like)), gpu_device(like))
}

# An ordinary numeric vector y as an array on the device of x, with all its attributes. On the cpu device the memory of
# a vector without other references is not copied.
upload_result_like <- function(y, x) {
  keep <- attributes(y)
  out <- .Call(C_result, y, result_dtype(y, gpu_dtype(x)), gpu_device(x))
  if (!anyNA(base::match(names(keep), c("dim", "dimnames", "names", "tsp", "class")))) out else with_attributes(out,
    keep)
}

# The dtype for an ordinary result computed from an array of this dtype: floats and complex numbers become as narrow as
# the array's. NULL keeps the type of y.
result_dtype <- function(y, dtype) {
  if (dtype == "float64") return(NULL)
  narrow <- c("float32", "float16", "bfloat16")
  if (is.complex(y)) return(if (dtype %in% c(narrow, "complex64")) "complex64")
  if (is.double(y) && dtype %in% narrow) return(dtype)
  if (is.double(y) && dtype == "complex64") "float32"
}

# Calls f on the host with the arguments that were given in the call of an interposed function. `frame` is the frame of
# that call.
hosted_call <- function(f, frame) {
  given <- Filter(function(name) !eval(call("missing", as.name(name)), frame), names(formals(f)))
  hosted(f, mget(given, envir = frame))
}

#' Functions that run on the host
#'
#' A function of R that has no help page in this package reads an array as an ordinary vector (see option
#' `verdigris.host_access` in [verdigris-package]): the elements are copied to the host, and the result is an ordinary
#' vector. [verdigris-coverage] lists where each function of base and stats computes.
#'
#' An ordinary vector in R's memory may have class `gpu_array`. Some C code makes such vectors, since it copies all
#' attributes of its argument to its result: the distributions of stats and base R's Bessel functions, if they are
#' called by their namespace (`stats::ptukey()`) or inside another package. (Without the namespace they have methods,
#' see [probabilities] and [special].) `attributes(y) <- attributes(x)` and [readRDS()] also return such vectors. A
#' vector of this kind works, but every operation uploads it again. `print()` and `str()` show that it is in ordinary
#' memory, and `x <- as_gpu(x)` uploads it once.
#' @param x,object An array.
#' @param con,size,endian,useBytes As in [base::writeBin()].
#' @returns `xtfrm()`: an ordinary vector of numbers that sort as the elements do. `writeBin()`: raw bytes, or `NULL`
#'   invisibly; base R's function takes vectors without attributes only.
#' @section Errors:
#' Base R's errors and messages; the errors of [collect()] and [as_gpu()].
#' @examples
#' x <- as_gpu(c(1, 1, 3, 2), device = "cpu")
#' as_gpu(stats::dsignrank(x, n = 5))
#' writeBin(x, raw(), size = 4)
#' @name host
NULL

# order() and sort.list() call xtfrm() for objects, to get numbers in the same order. They read these on the host, which
# counts as a read under option verdigris.host_access.
#' @rdname host
#' @export
xtfrm.gpu_array <- function(x) {
  # Base R ranks what is not numeric.
  if (is.complex(x) || is.logical(x)) return(xtfrm(host_copy(x)))
  if (gpu_dtype(x) != "int64") {
    y <- .Call(C_bare, x)
    # the attributes that unclass() keeps
    for (kept in c("dim", "dimnames", "names")) if (!is.null(attr(x, kept))) attr(y, kept) <- attr(x, kept)
    return(y)
  }
  # Doubles may not represent int64 values: the ranks among the distinct values, from a sort on the device, replace
  # them.
  sorted <- .Call(C_sort, x, FALSE, TRUE)
  n <- length(x)
  y <- numeric(n)
  if (n > 0L) y[as.vector(sorted[[2L]])] <- cumsum(c(1, !as.vector(sorted[[1L]][-1L] == sorted[[1L]][-n]) %in% TRUE))
  y[as.vector(is.na(x))] <- NA
  y
}

#' @rdname host
#' @export
writeBin <- interposed("writeBin", "object", on_host(base::writeBin, object, con, size = size, endian = endian,
  useBytes = useBytes))

# A host copy in memory that R allocated, for base R functions that access one element after the other. On a large
# ALTREP vector of this package each access is a function call, which takes up to four times as long.
ordinary_copy <- function(x, exact = FALSE, silent = FALSE) {
  if (!is_gpu(x) || length(x) < 2^17 || gpu_dtype(x) == "int64") return(host_copy(x, exact = exact, silent = silent))
  if (!silent) report_read(x)
  with_each(.Call(C_collect_ordinary, x), host_attributes(x))
}

# Dates are computed on the host. Base R's methods for numbers add an origin to them; before R 4.3 base R's code finds
# only its own method of `+` there.
#' @export
as.Date.gpu_array <- function(x, ...) as.Date(host_copy(x), ...)
#' @export
as.POSIXct.gpu_array <- function(x, tz = "", ...) as.POSIXct(host_copy(x), tz = tz, ...)
#' @export
as.POSIXlt.gpu_array <- function(x, tz = "", ...) as.POSIXlt(host_copy(x), tz = tz, ...)
