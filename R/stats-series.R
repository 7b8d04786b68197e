# Time series and differences.

#' Differences and time series
#'
#' `diff()` is computed on the device; a time series keeps its time attributes. `time()` and `cycle()` return ordinary
#' time series and read no elements; `aggregate()`, `diffinv()`, `kernapply()` and `toeplitz()` are computed on the
#' host. `window()` and `lag()` return arrays. An array with the attribute `tsp` is a time series, even if `tsp<-` has
#' set it; an ordinary vector needs the class `ts` as well.
#' @param x An array.
#' @param lag,differences,... As in [base::diff()], [stats::time()] and [stats::aggregate()].
#' @returns `diff()`: an array on the device of `x`; operations recorded in `x` are computed first. `diffinv()`,
#'   `kernapply()` and `toeplitz()`: arrays. The others: base R's results.
#' @section Errors:
#' Base R's errors and messages.
#' @examples
#' x <- as_gpu(ts(c(1, 4, 9, 16), start = 2020), device = "cpu")
#' diff(x)
#' time(x)
#' @aliases toeplitz2
#' @name series
NULL

#' @rdname series
#' @export
diff.gpu_array <- function(x, lag = 1L, differences = 1L, ...) {
  if (!is_count(lag, 1) || !is_count(differences, 1)) return(hosted(diff, list(x, lag, differences)))
  # base R handles empty results: their type and shape differ between versions of R
  is_matrix <- length(dim(x)) == 2L
  extent <- function(y) if (is_matrix) nrow(y) else length(y)
  # its result for a lag that is not whole depends on the version, too
  time <- attr(x, "tsp")
  # a series with one element left gets a name from base R
  left <- extent(x) - lag * differences
  if (left <= 0 || left == 1 && !is.null(time) || lag != trunc(lag) || differences != trunc(differences)) {
    out <- hosted(diff, list(x, lag, differences))
    # from 4.6 on base R computes an empty result as any other, which keeps a user's class
    return(if (left <= 0 && is.null(time) && getRversion() >= "4.6.0") fronted_like(out, x) else out)
  }
  y <- x
  for (k in seq_len(differences)) {
    later <- (lag + 1L):extent(y)
    y <- if (is_matrix) y[later, , drop = FALSE] - y[later - lag, , drop = FALSE] else y[later] - y[later - lag]
  }
  if (is.null(time)) return(fronted_like(y, x))
  names <- if (is_matrix) list(NULL, colnames(x) %||% paste("Series", seq_len(ncol(x))))
  with_attributes(y, c(list(dim = dim(y), dimnames = names)[is_matrix],
    list(tsp = c(time[2L] - (NROW(y) - 1) / time[3L], time[2:3]))))
}

# An ordinary vector with the array's time attributes, for generics that read only these.
timed <- function(x) {
  y <- logical(NROW(x))
  if (!is.null(attr(x, "tsp"))) {
    stats::tsp(y) <- attr(x, "tsp")
    class(y) <- "ts"
  }
  y
}

#' @importFrom stats time
#' @export
time.gpu_array <- function(x, ...) time(timed(x), ...)

#' @importFrom stats cycle
#' @export
cycle.gpu_array <- function(x, ...) cycle(timed(x), ...)

# base R's method aggregates time series, on the host; other vectors and matrices are data frames of arrays.
#' @rawNamespace S3method(stats::aggregate,gpu_array)
aggregate.gpu_array <- function(x, ...) {
  if (is.null(attr(x, "tsp"))) aggregate_frame(as.data.frame(x), ...) else stats::aggregate(host_copy(x), ...)
}

# Base R's methods call is.vector(), which is FALSE for an object with a class.
#' @rdname series
#' @importFrom stats diffinv kernapply
#' @export
diffinv.gpu_array <- function(x, ...) hosted(stats::diffinv, list(x, ...))
#' @rdname series
#' @export
kernapply.gpu_array <- function(x, ...) upload_result_like(stats::kernapply(host_series(x), ...), x)

#' @rdname series
#' @usage NULL
#' @export
toeplitz <- interposed("toeplitz", "x", hosted_call(stats::toeplitz, environment()), home = "stats")

# toeplitz2() exists from R 4.3 on.
#' @rawNamespace if (exists("toeplitz2", envir = asNamespace("stats"), inherits = FALSE)) export(toeplitz2)
if (exists("toeplitz2", envir = asNamespace("stats"), inherits = FALSE))
  toeplitz2 <- interposed("toeplitz2", "x", hosted_call(stats::toeplitz2, environment()), home = "stats")

# Base R's method for series would make a `ts` of the result, which is no array.
#' @rawNamespace S3method(stats::window,gpu_array)
window.gpu_array <- function(x, ...) {
  out <- window_default(x, ...)
  if (is_gpu(out)) with_attributes(out, attributes(out)) else out
}
window_default <- utils::getS3method("window", "default", envir = asNamespace("stats"))
