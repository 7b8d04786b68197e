# Elementwise functions of several arguments: base R's names and formals.

# Rows of the operation table that take real numbers only.
REAL_ROWS <- c("atan2", "beta", "lbeta", "choose", "lchoose", "dnorm", "dnorm_log",
  paste0(rep(c("pnorm", "qnorm"), each = 4L), c("", "_upper", "_log", "_upper_log")))

# Records an operation on several operands, which are recycled. Base R handles operands that the device does not take.
recycled <- function(row, f, ...) {
  # For complex numbers base R computes the function, or raises its error.
  for (x in list(...)) if (is.complex(x) && row %in% REAL_ROWS) return(on_host(f, ...))
  out <- .External2(C_recycled, row, list(...), -1L)
  if (is.null(out)) return(on_host(f, ...))
  # For a result without elements base R keeps only the attributes of the first argument, and densities keep none in
  # some versions.
  if (length(out) == 0L && (length(..1) || grepl("^[dpq]norm", row) && densities_lose_attributes())) strip(out) else out
}
densities_lose_attributes <- function() is.null(dim(stats::dnorm(base::matrix(0, 0L, 1L))))

#' Elementwise functions of several arguments
#'
#' Base R's functions for arrays. They are recorded, fused with surrounding operations, and computed on the device when
#' the values are needed. Arguments are recycled, and attributes kept, as in base R. Numbers and vectors combined with
#' an array adopt its float type; vectors are copied to its device.
#'
#' Functions of one argument (`sqrt()`, `exp()`, `abs()`, `is.na()`, `Re()` and so on) and the operators have methods
#' too; [gpu_operations()] lists all of them. `ifelse()`, `atan2()`, `beta()`, `dnorm()` and related functions are S4
#' generics made from base R's functions: they are called by code that finds them through this package, whereas a call
#' inside another package reaches base R's function, which reads the array on the host.
#'
#' `ifelse()` evaluates both `yes` and `no`, and computes both for every element if they have the same type, so the
#' warnings of both are raised. As in base R only values that are used decide the type of the result. If `yes` and `no`
#' differ in type, as in `ifelse(x > 0, x, 0L)` of doubles, the call therefore waits until the device has found out
#' whether `test` has elements of both kinds. If they have the same type it does not wait; the result is then of that
#' type even if all elements of `test` are missing, where base R's is logical.
#'
#' @section Numbers beside an array:
#' One rule holds whenever an ordinary number or vector is combined with an array of `float32`, `float16` or `bfloat16`:
#' it is first rounded to that type, and then used in the computation or comparison. So `x == 0.7` finds the `0.7` that
#' was stored in a float32 array, and so do `match(0.7, x)`, `x %in% c(0.7, 1:100)`, `setdiff(0.7, x)`,
#' `findInterval()`, `cut()` and `outer(x, 0.7, "==")`; `x * h`, `outer(x, h)` and `kronecker(x, h)` have the precision
#' of `x`. (Arithmetic with float16 and bfloat16 is computed in float32, to which a number is rounded.) An array keeps
#' its own type: two arrays are combined in the wider one, as in `x == as_gpu(0.7)`. Statistics of two variables
#' ([cov()][covariance]) and [hist()][histogram] use ordinary numbers unrounded.
#'
#' @section int64 beyond 2^53:
#' Doubles cannot distinguish all integers beyond 2^53. There is one rule for each kind of result:
#' * A result that can be `int64` is `int64`, and exact: arithmetic of `int64` with `int64`, integers and logicals;
#'   `c()`, `ifelse()`, `pmin()`, `pmax()`, `cbind()`, `outer()` and assignment of these; `round()`; sums (of all
#'   elements, along margins, of groups), scans and subsets. `integer64` vectors combined with an array count as
#'   `int64`. An overflow is `NA` with bit64's warning, "NAs produced by integer64 overflow".
#' * Comparisons are exact, also with doubles: `==`, `<`, [match()], sets, group keys, [order()], `which.max()`,
#'   intervals.
#' * A result that is float64 is computed from the nearest doubles: arithmetic with doubles, `/`, `^`, mathematical
#'   functions, matrix products, means, variances, casts and every combination of `int64` and doubles. If an element is
#'   rounded, R warns "integer precision lost while converting to double" (class `verdigris_warning_precision`), once
#'   for each array that an operation converts. Recorded operations warn when their values are computed. Conversion to
#'   float32 and narrower types rounds without a warning, as it does for doubles.
#' * When R itself reads the array as doubles, elements that no double represents are `NA`, with a warning of the same
#'   class, once per call of an R function: `as.vector(x)`, `max(x)`, `x[[1]]`, files, keys of `rowsum(1:3, x)` and
#'   `aggregate(1:3, list(x), sum)`. `collect(x)` returns an `integer64`, for use with the bit64 package.
#' @section Where results differ from base R:
#' The tests compare every operation with base R, bit for bit or within the limit in [gpu_operations()]. These results
#' differ on purpose:
#' * `asinh`, `acosh` and `atanh` of complex infinities (and `atanh` of 1 and -1) are those of the C standard (C99,
#'   Annex G); base R returns NaN, since it multiplies them by i. Complex quotients and powers that overflow are
#'   infinite; in base R their parts may be NaN.
#' * `sinpi` and `cospi` are accurate to the last digit; base R with a C library that lacks them has an error of 4e-16.
#' * `lgamma`, `digamma`, `lbeta`, `lchoose` and `qnorm` near their zeros, and `gamma`, `lgamma`, `digamma` and
#'   `trigamma` near their negative poles, where base R loses up to seven digits.
#' * `digamma` and `trigamma` within 1e-150 of 0, where base R returns NaN.
#' * `%%` and `%/%` if the quotient has more digits than a double: base R's remainder is arbitrary then, as its warning
#'   says (which is raised here too).
#' * `signif` beyond 1e306, where base R loses digits (`signif(1e308, 1)` is 0 there), and of complex numbers, in the
#'   last bit.
#' * For one NA and one NaN the sum and the product are the first operand, and the power is the second; in base R this
#'   depends on the compiler.
#' * `beta` and `lbeta` do not repeat base R's warnings about intermediate values that are out of range.
#' @param x,y,q,p,a,b,n,k,test,yes,no Numbers or arrays, at least one of them an array; for `ifelse()`, `dnorm()`,
#'   `pnorm()` and `qnorm()` the first.
#' @param base The base of the logarithm.
#' @param digits Decimal places or significant digits.
#' @param mean,sd Mean and standard deviation of the normal distribution.
#' @param log,log.p,lower.tail As in [stats::pnorm()].
#' @param ... Arrays or numbers.
#' @param na.rm Whether missing values are ignored.
#' @returns An array on the device of the arguments, of base R's type; among the float types the widest of the arrays'.
#'   Nothing is computed or waited for. Warnings ("NaNs produced") are raised when the values are computed.
#' @section Errors:
#' `verdigris_error_dtype` for types that base R refuses too (complex numbers if there is no complex function),
#' `verdigris_error_device` for arrays on different devices.
#' @examples
#' x <- as_gpu(c(-1, 0, 1.96), device = "cpu")
#' pnorm(x)
#' ifelse(x > 0, x, 0)
#' round(exp(x), 2)
#' pmax(x, 0)
#' log(x + 2, base = 3)
#' atan2(x, 1)
#' choose(5, as_gpu(0:5, device = "cpu"))
#' @usage
#' \S4method{atan2}{gpu_array,ANY}(y, x)
#' \S4method{beta}{gpu_array,ANY}(a, b)
#' \S4method{lbeta}{gpu_array,ANY}(a, b)
#' \S4method{choose}{gpu_array,ANY}(n, k)
#' \S4method{lchoose}{gpu_array,ANY}(n, k)
#' @aliases atan2 beta lbeta choose lchoose ifelse dnorm pnorm qnorm
#' @name elementwise
#' @aliases atan2,gpu_array,ANY-method
#' @aliases atan2,ANY,gpu_array-method
#' @aliases atan2,gpu_array,gpu_array-method
#' @aliases beta,gpu_array,ANY-method
#' @aliases beta,ANY,gpu_array-method
#' @aliases beta,gpu_array,gpu_array-method
#' @aliases lbeta,gpu_array,ANY-method
#' @aliases lbeta,ANY,gpu_array-method
#' @aliases lbeta,gpu_array,gpu_array-method
#' @aliases choose,gpu_array,ANY-method
#' @aliases choose,ANY,gpu_array-method
#' @aliases choose,gpu_array,gpu_array-method
#' @aliases lchoose,gpu_array,ANY-method
#' @aliases lchoose,ANY,gpu_array-method
#' @aliases lchoose,gpu_array,gpu_array-method
NULL

#' @rdname elementwise
#' @export
log.gpu_array <- function(x, base = exp(1)) {
  if (!missing(base) && BINDS_IN_ORDER && is_base_first(sys.call()) && (is_gpu(base) || !is_gpu(x)))
    return(log.gpu_array(x = base, base = x))
  if (missing(base)) return(.External2(C_elementwise, "log", 2L, x))
  # Base R drops the attributes of complex vectors without elements.
  if (length(base) == 0L || length(x) == 0L && (is.complex(x) || is.complex(base)))
    return(hosted(base::log, list(x, base)))
  if (!is_number(base)) return(on_host(log, x, base))
  if (!is_gpu(base) && length(base) == 1L && !is.complex(x) && !is.complex(base)) {
    # Base R computes these two bases without a division.
    if (base %in% 10) return(.Call(C_unary, "log10", 2L, x, sys.call()))
    if (base %in% 2) return(.Call(C_unary, "log2", 2L, x, sys.call()))
  }
  recycled("log_base", log, x, base)
}

# Whether R's primitive log() gives a method its arguments in the order of x and base, but with the names as written, so
# that in log(base = 2, x = y) the method's `base` is y (it depends on the version of R).
BINDS_IN_ORDER <- local({
  log.verdigris_probe <- function(x, base) inherits(base, "verdigris_probe")
  isTRUE(log(base = 2, x = structure(1, class = "verdigris_probe")))
})

# Whether a call of log() with two arguments has its base first.
is_base_first <- function(call) {
  names <- names(call)
  if (is.null(names) || length(call) != 3L) return(FALSE)
  nzchar(names[2L]) && startsWith("base", names[2L]) || names[3L] == "x"
}

#' @rdname elementwise
#' @export
round.gpu_array <- function(x, digits = 0, ...) {
  if (length(digits) == 0L) stop("invalid second argument of length 0")
  if (!is_real(digits) || length(x) == 0L && is.complex(x)) return(on_host(round, x, digits))
  # int64 has no decimal places.
  if (is_int64(x) && !is_gpu(digits) && all(digits >= 0) %in% TRUE && length(digits) == 1L) digits <- 0
  if (!is_gpu(digits) && length(digits) == 1L && digits %in% 0) return(.Call(C_unary, "round", 2L, x, sys.call()))
  recycled("round_digits", round, x, digits)
}

#' @rdname elementwise
#' @export
signif.gpu_array <- function(x, digits = 6) {
  if (length(digits) == 0L) stop("invalid second argument of length 0")
  if (!is_real(digits) || length(x) == 0L && is.complex(x)) return(on_host(signif, x, digits))
  recycled("signif", signif, x, digits)
}

# S4 generics made from base R's functions: attaching this package masks nothing of them, and Matrix shares them.
setGeneric("atan2")
setGeneric("beta")
setGeneric("lbeta")
setGeneric("choose")
setGeneric("lchoose")
setGeneric("ifelse")
setGeneric("dnorm")
setGeneric("pnorm")
setGeneric("qnorm")

# Whether all are whole numbers; while a graph records calls, arrays are taken for such.
is_whole <- function(k) !is.double(k) || tryCatch(all(k == round(k), na.rm = TRUE), verdigris_error = function(e) TRUE)

#' @exportMethod atan2
#' @exportMethod beta
#' @exportMethod lbeta
#' @exportMethod choose
#' @exportMethod lchoose
PAIRS <- list(c("gpu_array", "ANY"), c("ANY", "gpu_array"), c("gpu_array", "gpu_array"))
for (signature in PAIRS) {
  setMethod("atan2", signature, function(y, x) recycled("atan2", base::atan2, y, x))
  setMethod("beta", signature, function(a, b) recycled("beta", base::beta, a, b))
  setMethod("lbeta", signature, function(a, b) recycled("lbeta", base::lbeta, a, b))
  # Base R warns about k that is not a whole number, and names it.
  setMethod("choose", signature, function(n, k) if (is_whole(k)) recycled("choose", base::choose, n, k) else
    hosted(base::choose, list(n, k)))
  setMethod("lchoose", signature, function(n, k) if (is_whole(k)) recycled("lchoose", base::lchoose, n, k) else
    hosted(base::lchoose, list(n, k)))
}
rm(signature)

#' @rdname elementwise
#' @export
setMethod("ifelse", "gpu_array", function(test, yes, no) {
  taken <- if (!length(test)) c(FALSE, FALSE) else if (type_beside(yes) != type_beside(no)) any_and_not(test)
  if (is.null(taken)) return(select_by(test, yes, no))
  select_by(test, if (taken[1L]) yes else NA, if (taken[2L]) no else NA)
})

# ifelse() without base R's rule that only values which are used decide the type, so that it never waits: the result has
# the common type of yes and no.
select_by <- function(test, yes, no) {
  if (!is_gpu(test)) return(ifelse(test, yes, no))
  out <- .External2(C_recycled, "select", list(test, fit(yes, test), fit(no, test)), NULL)
  if (is.null(out)) base::ifelse(host_copy(test), yes, no) else out
}

# R's type of an operand; int64 counts as a type.
type_beside <- function(x) if (is.object(x) && is_int64(x)) "int64" else typeof(x)

# Whether any element is TRUE, and whether any is FALSE, in one pass.
any_and_not <- function(test) {
  reach <- .Call(C_reduce, "range", if (is.logical(test)) test else test != 0, TRUE)
  # a list: every element is missing
  if (is.list(reach)) c(FALSE, FALSE) else c(reach[2L] != 0, reach[1L] == 0)
}

# Cuts an operand to the length of the test, as base R's ifelse() does. An operand without elements counts as NA.
fit <- function(x, test) {
  if (length(x) > length(test)) x[seq_along(test)] else if (length(x) == 0L && length(test)) x[1L] else x
}

#' @rdname elementwise
#' @export
setMethod("dnorm", "gpu_array", function(x, mean = 0, sd = 1, log = FALSE) {
  if (!is_flag(log)) return(on_host(stats::dnorm, x, mean, sd, log))
  recycled(if (log) "dnorm_log" else "dnorm", stats::dnorm, x, mean, sd)
})
#' @rdname elementwise
#' @export
setMethod("pnorm", "gpu_array", function(q, mean = 0, sd = 1, lower.tail = TRUE, log.p = FALSE) {
  if (!is_flag(lower.tail) || !is_flag(log.p)) return(on_host(stats::pnorm, q, mean, sd, lower.tail, log.p))
  recycled(tail_row("pnorm", lower.tail, log.p), stats::pnorm, q, mean, sd)
})
#' @rdname elementwise
#' @export
setMethod("qnorm", "gpu_array", function(p, mean = 0, sd = 1, lower.tail = TRUE, log.p = FALSE) {
  if (!is_flag(lower.tail) || !is_flag(log.p)) return(on_host(stats::qnorm, p, mean, sd, lower.tail, log.p))
  recycled(tail_row("qnorm", lower.tail, log.p), stats::qnorm, p, mean, sd)
})

tail_row <- function(name, lower.tail, log.p) {
  paste0(name, if (!lower.tail) "_upper", if (log.p) "_log")
}

# pmin() and pmax(). Base R computes them if an argument is not a plain number.
extreme <- function(row, f, na.rm, args) {
  if (.Call(C_any_inherit, args, "gpu_split")) return(split_extreme(row, args, na.rm, parent.frame()))
  if (.Call(C_any_inherit, args, "gpu_reader")) return(reader_extreme(row, args, na.rm, parent.frame()))
  if (.Call(C_any_inherit, args, "gpu_sparse") && length(args) > 1L && is_switch(na.rm))
    return(extreme_of_sparse(row, na.rm, args, parent.frame()))
  # Fast path: two arguments, of which the first has the length and attributes of the result.
  if (length(args) == 2L && isFALSE(na.rm)) {
    a <- args[[1L]]
    b <- args[[2L]]
    if ((is_gpu(a) || !is.object(a)) && (is_gpu(b) || !is.object(b)) && length(a) && length(b) %in% c(1L, length(a))) {
      out <- .External2(C_recycled, row, args, NULL)
      if (!is.null(out)) return(out)
    }
  }
  args <- with_integer64(args)
  takes <- vapply(args, function(x) is_gpu(x) || !is.object(x) && (is.numeric(x) || is.logical(x) || is.complex(x)), NA)
  if (!all(takes) || !is_switch(na.rm)) {
    return(call_base(f, c(lapply(args, host_copy), list(na.rm = na.rm))))
  }
  n <- if (min(lengths(args)) == 0L) 0L else max(lengths(args))
  if (n > 0L && any(n %% lengths(args) != 0L)) warn_as_base("an argument will be fractionally recycled")
  if (na.rm) row <- paste0(row, "_na_rm")
  out <- Reduce(function(a, b) {
    if (!is_gpu(a) && !is_gpu(b)) suppressWarnings(f(a, b, na.rm = na.rm)) else .External2(C_recycled, row, list(a, b),
      NULL)
  }, lapply(args, strip))
  if (length(args) == 1L) out <- .External2(C_recycled, "pos", list(out), NULL)
  # as mostattributes<- does
  kept <- attributes(args[[1L]])
  if (length(kept$dim) && prod(kept$dim) != n) kept[c("dim", "dimnames")] <- NULL
  if (length(kept$names) != n) kept$names <- NULL
  with_attributes(out, kept)
}

# The elements without attributes. Recorded operations stay recorded.
strip <- function(x) if (is_gpu(x)) .Call(C_shaped, x, NULL) else as.vector(x)

#' @rdname elementwise
#' @export
pmin <- interposed("pmin", "...", extreme("pmin", base::pmin, na.rm, list(...)),
  class = c(ON_DEVICE, "gpu_split", "gpu_reader"))
#' @rdname elementwise
#' @export
pmax <- interposed("pmax", "...", extreme("pmax", base::pmax, na.rm, list(...)),
  class = c(ON_DEVICE, "gpu_split", "gpu_reader"))
