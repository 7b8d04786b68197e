# convolve() and filter() of arrays: sums of shifted views for short filters, Fourier transforms for long ones.

#' Convolutions and linear filters
#'
#' [stats::convolve()] and [stats::filter()] of arrays.
#'
#' A filter of at most 256 weights is computed as a sum of shifted views, in one fused kernel. Longer filters, and
#' `convolve()`, use Fourier transforms. Transforms of real elements cost half as much as transforms of complex
#' elements. A long series is transformed in blocks of about eight times the filter's length (the overlap-save method).
#' On the cpu device all cores share the blocks.
#'
#' @section Accuracy:
#' With Fourier transforms every element of the result has an absolute error of about
#' `1e-15 * max(abs(x)) * sum(abs(filter))` (float64), also if the element itself is much smaller. Sums of shifted views
#' have the same rounding as base R's loop. A filter of more than 256 weights is computed by base R's loop on the host
#' if `x` has infinite elements; missing elements affect only the windows that contain them.
#' @param x,y,conj,type As in [stats::convolve()]; at least one is an array.
#' @param filter,method,sides,circular,init As in [stats::filter()]; recursive and circular filters, and filters of
#'   matrices, are computed on the host.
#' @returns Arrays on the device of `x`, as base R's results. The call does not wait, except for `filter()`'s check for
#'   missing and infinite elements.
#' @section Errors:
#' Base R's errors and messages; `verdigris_error_library` if cuFFT is missing; `verdigris_error_memory`.
#' @references
#' Overlap-save: Oppenheim, A. V. and Schafer, R. W. (1989) *Discrete-Time Signal Processing*, chapter 8.
#' @examples
#' x <- as_gpu(c(1, 3, 2, 5, 4), device = "cpu")
#' convolve(x, c(0, 1, 0.5), type = "open")
#' filter(x, c(0.5, 0.5))
#' @name convolution
NULL

#' @rdname convolution
#' @export
convolve <- interposed("convolve", c("x", "y"), convolve_arrays(x, y, conj, match.arg(type)), home = "stats")

convolve_arrays <- function(x, y, conj, type, frame = parent.frame()) {
  n <- length(x)
  p <- length(y)
  if (type == "circular" && n != p) stop_as_base(base_message("length mismatch in convolution"), frame)
  like <- if (is_gpu(x)) x else y
  # base R computes with names, with single elements, and with arguments that are not numbers
  plain <- function(x) (is.numeric(x) || is.complex(x)) && is.null(names(x)) && is.null(dim(x)) &&
    is.null(attr(x, "tsp"))
  if (!plain(x) || !plain(y) || n < 2L || p < 2L)
    return(hosted(stats::convolve, list(x, y, conj = conj, type = type)))
  x <- upload_like(x, like)
  y <- upload_like(y, like)
  conj <- with_user_call(if (conj) TRUE else FALSE, frame)
  if (type == "circular") return(circular_convolution(x, y, conj))
  # with `conj` this is a correlation; without it base R's result is rotated to begin with element n + 1
  if (conj) y <- rev(if (is.complex(y)) Conj(y) else y)
  out <- linear_convolution(x, y)
  part <- function(from, count) strided(out, n + p - 1, 1, count, start = from)
  # omit the first and the last p - 1 elements of base R's result
  if (type == "filter") return(if (n < p) out[0L] else part(if (conj) p - 1 else 0, n - p + 1))
  if (conj) out else join(list(part(n, p - 1), part(0, n)))
}

# The elements of `x` on the device of `like`, without attributes. Ordinary vectors get the precision of `like`.
upload_like <- function(x, like) {
  if (is_gpu(x)) return(strip(x))
  dtype <- if (is_narrow(like)) if (is.complex(x)) "complex64" else if (is.complex(like)) "float32" else gpu_dtype(like)
  as_gpu(as.vector(x), dtype = dtype, device = gpu_device(like))
}

circular_convolution <- function(x, y, conj) {
  n <- length(x)
  turned <- function(y) if (conj) Conj(y) else y
  if (is.complex(x) || is.complex(y)) return(fft(fft(x) * turned(fft(y)), inverse = TRUE) / n)
  gpu_irfft(gpu_rfft(x) * turned(gpu_rfft(y)), n) / n
}

# A block is this many times as long as the filter, and at least LEAST_BLOCK: a launch for less is not worth it.
BLOCK_OF_FILTER <- 8
LEAST_BLOCK <- 2^12

# sum_k y[k] x[i - k], of n + p - 1 elements, by Fourier transforms. One element that is not finite makes the whole
# result NaN, as in a single transform.
linear_convolution <- function(x, y) {
  if (length(x) < length(y)) return(linear_convolution(y, x))
  n <- length(x)
  p <- length(y)
  size <- n + p - 1
  is_complex <- is.complex(x) || is.complex(y)
  forward <- function(x) if (is_complex) gpu_fft(x, 1) else gpu_rfft(x, 1)
  backward <- function(x, n) if (is_complex) gpu_fft(x, 1, inverse = TRUE) else gpu_irfft(x, n, 1)
  zeros <- function(n) gpu_full(0, n, dtype = if (is_narrow(x)) gpu_dtype(x) else "float64", device = gpu_device(x))
  block <- max(2^ceiling(log2(BLOCK_OF_FILTER * p)), LEAST_BLOCK)
  if (2 * block >= size) {
    whole <- stats::nextn(size, c(2, 3, 5, 7))
    padded <- function(x) if (whole == length(x)) x else join(list(x, zeros(whole - length(x))))
    out <- backward(forward(padded(x)) * forward(padded(y)), whole)
    return(strided(out, whole, 1, size) / whole)
  }
  # the first p - 1 elements of each block's result are wrong: they lack the elements before the block
  step <- block - p + 1
  count <- ceiling(size / step)
  total <- (count - 1) * step + block
  padded <- join(list(zeros(p - 1), x, zeros(total - n - p + 1)))
  blocks <- strided(padded, total, c(1, 1), c(block, count), step = c(1, step))
  dim(blocks) <- c(block, count)
  response <- forward(join(list(y, zeros(block - p))))
  spectra <- forward(blocks)
  product <- spectra * `dim<-`(repeated(response, times = count), dim(spectra))
  out <- backward(product, block)
  out <- strided(out, c(block, count), c(1, 2), c(step, count), start = c(p - 1, 0))
  # 0, or NaN if an element is not finite
  zero <- sum(x * 0) + sum(y * 0)
  strided(out, step * count, 1, size) / block + zero
}

#' @rdname convolution
#' @export
filter <- interposed("filter", "x", filter_array(x, filter, match.arg(method), sides, circular, if (!missing(init))
  list(init = init)), home = "stats")

# The most weights of a filter that is computed as a sum of views.
MOST_VIEWS <- 256L

# `start`: list(init = ) if the caller gave it, else NULL.
filter_array <- function(x, filter, method, sides, circular, start) {
  weights <- host_copy(filter)
  p <- length(weights)
  n <- length(x)
  usable <- identical(method, "convolution") && is.numeric(weights) && !is.object(weights) && all(is.finite(weights)) &&
    p >= 1L && p <= n && NCOL(x) == 1L && is.null(dim(x)) && !is.complex(x) && is_count(sides, 1) &&
    sides %in% c(1L, 2L) && isFALSE(circular) && is.null(start)
  values <- if (usable) as_doubles(strip(x))
  missing <- usable && anyNA(values)
  known <- if (missing) select_by(is.na(values), 0, values) else values
  if (!usable || p > MOST_VIEWS && !all(is.finite(known))) {
    plain <- is_plain(x) && is.double(x)
    args <- list(if (plain) host_view(x) else host_series(x), weights, method = method, sides = sides,
      circular = circular)
    return(upload_result_like(call_base(stats::filter, c(args, start)), x))
  }
  out <- if (p <= MOST_VIEWS) weighted_windows(values, weights) else match_precision(strided(linear_convolution(known,
    upload_like(as.double(weights), values)), n + p - 1, 1, n - p + 1, start = p - 1), values)
  # a window that contains a missing element is NA, whatever the weight of that element
  if (missing) out <- select_by(rolled(is.na(values) + 0L, p, `+`) > 0L, NA_real_, out)
  after <- if (sides == 2L) p %/% 2L else 0L
  before <- p - 1L - after
  out <- join(c(list(rep(NA_real_, before))[before > 0L], list(out), list(rep(NA_real_, after))[after > 0L]))
  with_attributes(out, list(tsp = attr(x, "tsp") %||% c(1, n, 1)))
}

# Weighted sums of all windows of neighbours, one view for each weight. The last weight is for a window's first element.
weighted_windows <- function(x, weights) {
  n <- length(x)
  p <- length(weights)
  out <- NULL
  for (k in seq_len(p)) {
    term <- strided(x, n, 1, n - p + 1, start = p - k) * as.double(weights[k])
    out <- if (is.null(out)) 0 + term else out + term
  }
  out
}
