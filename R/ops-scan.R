# Scans: running sums, products, maxima and minima.

scan_method <- function(name) {
  force(name)
  function(x) {
    if (is.complex(x) && length(x) == 0L) {
      # Versions of R may refuse complex vectors without elements too.
      call_base(get(name, baseenv()), list(complex()))
      y <- strip(x)
      return(if (is.null(names(x))) y else `names<-`(y, names(x)))
    }
    out <- .Call(C_scan, name, x)
    y <- out[[1L]]
    if (out[[2L]]) {
      # Base R's message, or for int64 bit64's.
      text <- if (gpu_dtype(x) == "int64") "NAs produced by integer64 overflow" else
        "integer overflow in 'cumsum'; use 'cumsum(as.numeric(.))'"
      warning(simpleWarning(text, sys.call()))
    }
    if (!is.null(names(x))) names(y) <- names(x)
    y
  }
}

#' Cumulative sums, products and extremes
#'
#' [base::cumsum()] and related functions, computed on the device of the array. The array, with the operations recorded
#' in it, is read once, and the result is written once. On a GPU the work is queued and the call does not wait, except
#' for sums of integers, which may overflow.
#'
#' Base R keeps the running value of doubles in 80 bits. Arrays keep two doubles (106 bits) and add in an order that
#' depends on the length alone: a result has the same bits on every device and run, and can differ from base R's in the
#' last bit. A running sum of doubles is infinite where it exceeds the largest double, and later elements can be finite
#' again, as in base R. The same holds for complex numbers, for which base R's sum stays infinite. float32 and narrower
#' types are computed in float64; products of complex numbers are computed in double precision, as in base R.
#' @param x An array.
#' @returns An array of the same length and dtype; but `cumprod()` of integers is float64, and `cumsum()` of integers
#'   narrower than 32 bits is int32. As in base R it keeps only the names. All elements from the first `NA` on are `NA`,
#'   also after an integer overflow, which raises base R's warning.
#' @section Errors:
#' Base R's errors for `cummax()` and `cummin()` of complex numbers; the errors of [gpu_compute()].
#' @examples
#' x <- as_gpu(c(3, 1, NA, 2), device = "cpu")
#' cumsum(x)
#' cummax(x)
#' @name scans
#' @export
cumsum.gpu_array <- scan_method("cumsum")
#' @rdname scans
#' @export
cumprod.gpu_array <- scan_method("cumprod")
#' @rdname scans
#' @export
cummax.gpu_array <- scan_method("cummax")
#' @rdname scans
#' @export
cummin.gpu_array <- scan_method("cummin")
