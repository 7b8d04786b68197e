# Functions of base R that have no device code yet and must not read an array as a plain vector: their C code copies the
# class to an ordinary result, they ask for a vector without attributes, or they compare elements in pairs.

# f on the host copies of its arguments; a result that is numbers goes back to where the first array is.
hosted <- function(f, args, exact = FALSE) {
  like <- NULL
  told <- is_beside_s4(args)
  for (k in seq_along(args)) if (is_gpu(args[[k]]) || is_host_int64(args[[k]])) {
    if (is.null(like) && is_gpu(args[[k]])) like <- args[[k]]
    args[[k]] <- ordinary_copy(args[[k]], exact = exact, told = told)
  }
  y <- call_base(f, args, parent.frame())
  if (is.object(y) && !inherits(y, "integer64") || !(is.numeric(y) || is.logical(y) || is.complex(y))) return(y)
  .Call(C_result, y, width_beside(y, gpu_dtype(like)), gpu_device(like))
}

# An ordinary result of numbers as an array where x is, with all its attributes. What no variable holds is not copied.
back_beside <- function(y, x) {
  keep <- attributes(y)
  out <- .Call(C_result, y, width_beside(y, gpu_dtype(x)), gpu_device(x))
  if (!anyNA(base::match(names(keep), c("dim", "dimnames", "names", "tsp", "class")))) out else with_attributes(out,
    keep)
}

# The dtype of an ordinary result of an array of this dtype: floats are as narrow as the array's.
width_beside <- function(y, dtype) {
  if (dtype == "float64") return(NULL)
  narrow <- c("float32", "float16", "bfloat16")
  if (is.complex(y)) return(if (dtype %in% c(narrow, "complex64")) "complex64")
  if (is.double(y) && dtype %in% narrow) return(dtype)
  if (is.double(y) && dtype == "complex64") "float32"
}

# The arguments that a method was called with.
supplied <- function(frame) {
  names <- names(formals(sys.function(sys.parent())))
  given <- vapply(names, function(name) !eval(call("missing", as.name(name)), frame), NA)
  mget(names[given], envir = frame)
}

# The same for an interposed function, whose frame this is.
hosted_call <- function(f, frame) {
  given <- Filter(function(name) !eval(call("missing", as.name(name)), frame), names(formals(f)))
  hosted(f, mget(given, envir = frame))
}

# A method with f's formals that runs f on the host.
hosted_method <- function(f) {
  method <- f
  body(method) <- bquote(hosted(.(f), supplied(environment())))
  environment(method) <- topenv()
  method
}

#' Functions that run on the host
#'
#' Functions of base R that have no device code yet. They copy their arguments to the host and numeric results back to
#' the device, so their results are arrays. Warnings are raised at once, with base R's messages.
#'
#' These are the Fourier transforms, Bessel functions and `psigamma()`.
#'
#' @section Everything else:
#' A function that has no help page here reads an array as an ordinary vector (see option `verdigris.host_access` in
#' [verdigris-package]), and returns an ordinary vector. There is one pitfall. Some C code copies all attributes of its
#' argument to its result, including class `gpu_array`, although the result is an ordinary vector in R's memory: the
#' functions of stats for the rarer distributions do so (`dhyper()`, `psignrank()`; the others have
#' [methods][probabilities]), and so do `attributes(y) <- attributes(x)` and [readRDS()]. Such a vector works, but every
#' operation uploads it again. `print()` and `str()` show that it is in ordinary memory, and `x <- as_gpu(x)` uploads it
#' once and for all.
#'
#' A call of `fft()` and so on inside another package reaches base R's function instead.
#' @param x An array.
#' @returns Arrays on the device of the argument, in the precision of its float type, with base R's shape.
#' @section Errors:
#' Those of base R, with its messages; those of [collect()] and [as_gpu()].
#' @examples
#' x <- as_gpu(c(1, 1, 3, 2), device = "cpu")
#' fft(x)
#' as_gpu(dsignrank(x, n = 5))
#' @eval sprintf("@aliases %s", paste0(unlist(HOSTED), ",gpu_array-method", collapse = " "))
#' @aliases besselI besselJ besselK besselY psigamma fft mvfft
#' @name host
NULL

# Made from base R's functions, as in ops-math.R. Each generic takes 3 ms to load.
HOSTED <- list(
  base = c("besselI", "besselJ", "besselK", "besselY", "psigamma"),
  stats = c("fft", "mvfft")
)
#' @evalNamespace sprintf("importFrom(stats,%s)", HOSTED$stats)
#' @evalNamespace sprintf("exportMethods(%s)", unlist(HOSTED))
for (from in names(HOSTED)) for (name in HOSTED[[from]]) {
  f <- get(name, envir = asNamespace(from))
  setGeneric(name)
  setMethod(name, "gpu_array", hosted_method(f))
}
rm(from, name, f)

# order() and sort.list() call xtfrm() for a class: numbers in the same order. These functions read them on the host, by
# the rule on access.
#' @rdname host
#' @export
xtfrm.gpu_array <- function(x) {
  if (gpu_dtype(x) != "int64") {
    y <- .Call(C_bare, x)
    # as unclass() leaves them
    for (kept in c("dim", "dimnames", "names")) if (!is.null(attr(x, kept))) attr(y, kept) <- attr(x, kept)
    return(y)
  }
  # doubles do not hold an int64: its place among the distinct ones, from the device
  sorted <- .Call(C_sort, x, FALSE, TRUE)
  n <- length(x)
  y <- numeric(n)
  if (n > 0L) y[as.vector(sorted[[2L]])] <- cumsum(c(1, !as.vector(sorted[[1L]][-1L] == sorted[[1L]][-n]) %in% TRUE))
  y[as.vector(is.na(x))] <- NA
  y
}

# A host copy in R's own memory, for functions of base R whose loops ask for one element after the other: they take up
# to four times as long on a large vector in memory of ours, each of whose elements is a call.
ordinary_copy <- function(x, exact = FALSE, told = FALSE) {
  if (!is_gpu(x) || length(x) < 2^17 || gpu_dtype(x) == "int64") return(host_copy(x, exact = exact, told = told))
  if (!told) report_read(x)
  with_each(.Call(C_collect_ordinary, x), host_attributes(x))
}

# Dates are on the host. Base R's methods for numbers add an origin to them, where base R before 4.3 finds its own method
# of `+` alone.
#' @export
as.Date.gpu_array <- function(x, ...) as.Date(host_copy(x), ...)
#' @export
as.POSIXct.gpu_array <- function(x, tz = "", ...) as.POSIXct(host_copy(x), tz = tz, ...)
#' @export
as.POSIXlt.gpu_array <- function(x, tz = "", ...) as.POSIXlt(host_copy(x), tz = tz, ...)
