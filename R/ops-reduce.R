# Reductions. The results are ordinary R numbers.

STATUS_EMPTY <- 1L
STATUS_OVERFLOW <- 2L

# Reduces one array on the device. Base R words the warnings.
reduce_one <- function(name, x, na.rm, call = NULL) {
  out <- .Call(C_reduce, name, x, na.rm)
  if (is.list(out)) explain_status(name, out, x, call) else out
}

# Raises the warnings for a result of C_reduce that comes as list(value, status).
explain_status <- function(name, out, x, call) {
  value <- out[[1L]]
  status <- out[[2L]]
  if (bitwAnd(status, STATUS_OVERFLOW)) {
    # Only int64 overflows: bit64's message.
    warning(simpleWarning("NAs produced by integer64 overflow", short_call(call)))
  }
  if (bitwAnd(status, STATUS_EMPTY)) {
    # No element was left: base R determines the result, and warns, for an empty vector.
    value <- eval(call(name, vector(typeof(x), 0L)))
  }
  value
}

# A method of the Summary group. C_summary takes the arguments from the frame of the method.
summary_method <- function(name) {
  force(name)
  function(..., na.rm = FALSE) .External2(C_summary)
}

# Whether missing elements are removed for an `na.rm` that is not TRUE or FALSE. It depends on the version of R, so base
# R's function is called to find out.
leaves_out <- function(name, na.rm, frame = parent.frame()) {
  !is.na(call_base(get(name, baseenv()), list(c(NA, name == "all"), na.rm = na.rm), frame)[1L])
}

# Reduces several arguments: each array on its device, then base R reduces the results.
reduce_parts <- function(name, x, na.rm) {
  frame <- environment()
  if (any(vapply(x, is.character, NA)))
    return(call_base(get(name, baseenv()), c(lapply(x, host_copy), list(na.rm = na.rm)), frame))
  decided <- FALSE
  if (!is_flag(na.rm)) na.rm <- leaves_out(name, na.rm, frame)
  reduced <- function(x) {
    # As in base R, arguments after the one that decides any() or all() are not evaluated further.
    if (decided) return(logical())
    if (!is_gpu(x)) {
      decided <<- name %in% c("any", "all") && is.logical(x) && (name == "any") %in% x
      return(x)
    }
    if (name %in% c("any", "all")) {
      if ((is.double(x) || is.complex(x)) && length(x))
        warn_as_base(sprintf("coercing argument of type '%s' to logical", typeof(x)), frame)
      decided <<- identical(.Call(C_reduce, name, x, TRUE), name == "any")
    }
    out <- .Call(C_reduce, name, x, na.rm)
    if (!is.list(out)) return(out)
    if (bitwAnd(out[[2L]], STATUS_EMPTY)) return(vector(typeof(x), 0L))
    out[[1L]]
  }
  # A call of lapply() would become that of conditions.
  for (k in seq_along(x)) x[k] <- list(reduced(x[[k]]))
  call_base(get(name, baseenv()), c(x, list(na.rm = na.rm)), frame)
}

#' Reductions
#'
#' `sum`, `prod`, `min`, `max`, `range`, `any`, `all`, `mean`, `var`, `sd`, `which.max` and `which.min` of an array are
#' computed on its device, in one pass that includes the operations recorded in it, and return ordinary R values, with
#' base R's types and warnings. Only the result is copied.
#'
#' Float64 sums and means are accumulated in two doubles (compensated sums) with an extended range, like base R's 80-bit
#' sums; integer sums are exact; float32 and narrower types are accumulated in float64. The order of additions is fixed:
#' the same elements give the same bits on every run, on the cpu device and on every card. Along margins of float32 and
#' narrower arrays the results are rounded to float32, once, so that they remain float32 when they are combined with the
#' array; the variance of values near 1e-25 or 1e20 is 0 or infinite there, while the standard deviation is correct.
#'
#' On a GPU, `sum`, `prod`, `mean`, `var`, `sd`, `min` and `max` of floats (`mean`, `var`, `sd`, `prod`, `min` and `max`
#' of integers too) return before the device has finished: R waits when the number is used, so `(x - mean(x)) / sd(x)`
#' does not wait at all. Until then it is an ordinary number for R in every respect; errors and warnings of the recorded
#' operations are raised when it is used. The other reductions wait.
#'
#' `var()` of a matrix or of two arguments is documented with [cov()][covariance]; a trimmed mean is computed on the
#' host.
#'
#' @param x,... Arrays; ordinary numbers are allowed among them.
#' @param y,use As in [stats::var()].
#' @param w As in [stats::weighted.mean()].
#' @param na.rm Whether missing values are ignored.
#' @param finite Whether infinite values are ignored too.
#' @param trim The fraction trimmed from each end; unless it is 0 the mean is computed on the host.
#' @returns An R number, logical or complex, as in base R. `range()` returns two numbers, and `var()` of a matrix
#'   returns an ordinary matrix.
#' @section Errors:
#' `verdigris_error_dtype` for complex arrays if base R refuses them; the errors of [gpu_compute()] for recorded
#' operations.
#' @examples
#' x <- as_gpu(c(1, NA, 3), device = "cpu")
#' sum(x, na.rm = TRUE)
#' mean(x^2, na.rm = TRUE)
#' range(x, na.rm = TRUE)
#' any(x > 2, na.rm = TRUE)
#' which.max(x)
#' sd(as_gpu(1:10, device = "cpu"))
#' @aliases var sd which.max which.min
#' @name reductions
NULL

#' @rdname reductions
#' @export
sum.gpu_array <- summary_method("sum")
#' @rdname reductions
#' @export
prod.gpu_array <- summary_method("prod")
#' @rdname reductions
#' @export
min.gpu_array <- summary_method("min")
#' @rdname reductions
#' @export
max.gpu_array <- summary_method("max")
#' @rdname reductions
#' @export
any.gpu_array <- summary_method("any")
#' @rdname reductions
#' @export
all.gpu_array <- summary_method("all")

#' @rdname reductions
#' @export
range.gpu_array <- function(..., na.rm = FALSE, finite = FALSE) {
  parts <- list(...)
  if (any(vapply(parts, is.character, NA))) return(reduce_parts("range", parts, na.rm))
  if (any(vapply(parts, is.complex, NA))) stop_as_base("invalid 'type' (complex) of argument")
  if (!is_switch(na.rm) || !is_switch(finite))
    return(call_base(base::range, c(lapply(parts, host_copy), list(na.rm = na.rm, finite = finite))))
  if (finite) {
    parts <- lapply(parts, function(x) x[is.finite(x)])
    return(do.call("range", c(parts, list(na.rm = TRUE))))
  }
  if (...length() == 1L && !is.complex(..1)) return(reduce_one("range", ..1, !isFALSE(as.logical(na.rm)), sys.call()))
  reduce_parts("range", parts, na.rm)
}

#' @rdname reductions
#' @export
mean.gpu_array <- function(x, trim = 0, na.rm = FALSE, ...) {
  if (!is_untrimmed(trim)) return(mean(host_copy(x), trim = trim, na.rm = na.rm, ...))
  reduce_one("mean", x, isTRUE(na.rm))
}

# Whether mean() is the mean of all elements: base R trims none for a `trim` of 0 or less.
is_untrimmed <- function(trim) identical(trim, 0) || is.numeric(trim) && !is.object(trim) && length(trim) == 1L &&
  isTRUE(trim <= 0)

#' @rdname reductions
#' @importFrom stats weighted.mean
#' @export
weighted.mean.gpu_array <- function(x, w, ..., na.rm = FALSE) {
  # The method of stats multiplies elements and weights; they are converted to float64 first.
  wide <- function(v) if (is_gpu(v) && (is_narrow(v) || is_int64(v))) as_float64(v) else v
  call_base(weighted_mean, c(list(wide(x)), if (!missing(w)) list(wide(w)), list(..., na.rm = na.rm)))
}
weighted_mean <- utils::getS3method("weighted.mean", "default", envir = asNamespace("stats"))

# Sums and means along margins. As in base R, `dims` splits the dimensions into rows and columns. Sums are accumulated
# in float64. For arrays no wider than float32 the results are float32, so that operations on both remain float32.
margin <- function(name, x, na.rm, dims, rows) {
  d <- attr(x, "dim")
  if (is.null(d) || length(d) < 2L) stop_as_base("'x' must be an array of at least two dimensions")
  if (!is_switch(na.rm) || !is_count(dims, -Inf))
    return(hosted(get(paste0(if (rows) "row" else "col", if (name == "sum") "Sums" else "Means"), baseenv()),
    list(x, na.rm, dims)))
  if (dims < 1L || dims > length(d) - 1L) stop_as_base("invalid 'dims'")
  # R before 4.6 sums real and imaginary parts separately, which matters if only one part is missing.
  if (is.complex(x) && getRversion() < "4.6.0")
    return(margin(name, Re(x), na.rm, dims, rows) + 1i * margin(name, Im(x), na.rm, dims, rows))
  if (length(d) == 2L) {
    out <- .Call(C_reduce_groups, name, x, as.logical(na.rm)[1L], if (rows) c(1, d[2:1]) else c(d[2:1], 1), TRUE)
    names <- attr(x, "dimnames")[[if (rows) 1L else 2L]]
    if (!is.null(names)) names(out) <- names
    return(out)
  }
  first <- seq_len(dims)
  groups <- if (rows) c(1, prod(d[-first]), prod(d[first])) else c(prod(d[-first]), prod(d[first]), 1)
  out <- .Call(C_reduce_groups, name, x, as.logical(na.rm)[1L], groups, TRUE)
  kept <- if (rows) first else seq_along(d)[-first]
  names <- attr(x, "dimnames")[kept]
  if (length(kept) > 1L) {
    dim(out) <- d[kept]
    dimnames(out) <- if (!all(vapply(names, is.null, NA))) names
  } else if (!is.null(names[[1L]])) {
    names(out) <- names[[1L]]
  }
  out
}

setGeneric("rowSums")
setGeneric("colSums")
setGeneric("rowMeans")
setGeneric("colMeans")
setGeneric("var")
setGeneric("sd")
setGeneric("which.max")
setGeneric("which.min")

#' Sums and means along margins
#'
#' As [base::colSums()]; the result is an array on the same device. It is recorded: one pass over `x` includes the
#' operations recorded in it and the operations applied to the sums, so `sqrt(rowSums(x^2))` is one kernel. It is
#' computed when the values are needed, or when another sum along a margin is recorded; It is computed at once if `x`
#' has more than 256 MiB, since `x` would otherwise have to be kept. On a GPU it is queued, not waited for. Sums are
#' accumulated as described for [sum()][reductions].
#' @param x An array of at least two dimensions.
#' @param na.rm Whether missing values are ignored.
#' @param dims The number of dimensions that count as rows.
#' @returns An array of class `gpu_array`, double (or complex; sums of `int64` are `int64`), with base R's names.
#' @section Errors:
#' Base R's errors, for arguments that are not matrices and for invalid `dims`; the errors of [gpu_compute()].
#' @examples
#' m <- as_gpu(matrix(1:6, 2), device = "cpu")
#' rowSums(m)
#' colMeans(m)
#' @aliases rowSums colSums rowMeans colMeans
#' @name margins
NULL

#' @rdname margins
#' @export
setMethod("rowSums", "gpu_array", function(x, na.rm = FALSE, dims = 1L) margin("sum", x, na.rm, dims, TRUE))
#' @rdname margins
#' @export
setMethod("colSums", "gpu_array", function(x, na.rm = FALSE, dims = 1L) margin("sum", x, na.rm, dims, FALSE))
#' @rdname margins
#' @export
setMethod("rowMeans", "gpu_array", function(x, na.rm = FALSE, dims = 1L) margin("mean", x, na.rm, dims, TRUE))
#' @rdname margins
#' @export
setMethod("colMeans", "gpu_array", function(x, na.rm = FALSE, dims = 1L) margin("mean", x, na.rm, dims, FALSE))

# Margins of data frames of arrays. Other data frames go to base R's function, the default method.
frame_margins <- function(name) {
  f <- get(name, topenv())
  function(x, na.rm = FALSE, dims = 1L) if (is_matrix_frame(x)) f(matrix_of_frame(x), na.rm, dims) else
    methods::callNextMethod()
}
#' @rdname frames
#' @export
setMethod("colSums", "data.frame", frame_margins("colSums"))
#' @rdname frames
#' @export
setMethod("rowSums", "data.frame", frame_margins("rowSums"))
#' @rdname frames
#' @export
setMethod("colMeans", "data.frame", frame_margins("colMeans"))
#' @rdname frames
#' @export
setMethod("rowMeans", "data.frame", frame_margins("rowMeans"))
#' @rdname frames
#' @usage NULL
#' @export
setMethod("var", "data.frame", function(x, y = NULL, na.rm = FALSE, use) {
  # Base R uses the real parts of complex columns.
  if (!is_matrix_frame(x) || any(vapply(x, is.complex, NA))) return(methods::callNextMethod())
  x <- matrix_of_frame(x)
  if (missing(use)) var(x, y, na.rm) else var(x, y, na.rm, use)
})

#' @rdname reductions
#' @export
setMethod("var", "gpu_array", function(x, y = NULL, na.rm = FALSE, use) {
  if (!is.null(y) || !missing(use) || length(dim(x)) == 2L || is.complex(x)) {
    # the default of stats::var()
    if (missing(use)) use <- if (na.rm) "na.or.complete" else "everything"
    if (is.null(y) && length(dim(x)) != 2L || !is.null(y) && !is_number(y) || prefers_host(x))
      return(call_base(stats::var, list(host_view(x), host_view(y), na.rm = na.rm, use = use)))
    return(covariance(x, y, use, "pearson", FALSE))
  }
  reduce_one("var", x, if (na.rm) TRUE else FALSE)
})
#' @rdname reductions
#' @export
setMethod("sd", "gpu_array", function(x, na.rm = FALSE) {
  if (is.complex(x)) return(call_base(stats::sd, list(host_copy(x), na.rm)))
  variance <- reduce_one("var", x, if (na.rm) TRUE else FALSE)
  root <- .Call(C_defer_sqrt, variance)
  if (is.null(root)) sqrt(variance) else root
})

which_extreme <- function(name, x) {
  # Base R takes the real parts, and warns.
  if (is.complex(x)) return(call_base(get(name, baseenv()), list(host_copy(x))))
  at <- reduce_one(name, x, FALSE) + 1
  if (at == 0) return(integer())
  if (at <= .Machine$integer.max) at <- as.integer(at)
  if (!is.null(names(x))) names(at) <- names(x)[at]
  at
}
#' @rdname reductions
#' @export
setMethod("which.max", "gpu_array", function(x) which_extreme("which.max", x))
#' @rdname reductions
#' @export
setMethod("which.min", "gpu_array", function(x) which_extreme("which.min", x))
