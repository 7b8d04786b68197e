# Samples and permutations on the device.

#' Samples and permutations
#'
#' [base::sample()] and [base::sample.int()] on the device. Sampling works as in base R: with or without replacement,
#' with equal or given probabilities; `gpu_sample(5)` is a permutation of `1:5`. For the same seed the numbers differ
#' from base R's, and they are the same on every device.
#'
#' With replacement and equal probabilities the positions are recorded, and drawn when they are used (Lemire's unbiased
#' integers); with probabilities they are found by a search in the cumulative weights. Without replacement random keys
#' are sorted (with probabilities: exponential draws divided by the weights; Efraimidis and Spirakis 2006); a small
#' sample of a large population is drawn with replacement until enough elements are distinct.
#' @param x A vector, array or factor to sample from, or one number, which is equivalent to `1:x`.
#' @param n The number of positions to choose from.
#' @param size The number of draws; by default the number of elements.
#' @param replace Whether an element may be drawn again.
#' @param prob Weights of the elements, which need not add up to 1. They are read on the host.
#' @param dtype The dtype of positions: by default `"int32"`, or `"float64"` for positions beyond the largest integer.
#'   For `gpu_sample()` of values, the dtype of the result.
#' @param device The device; by default the device of `x`, else the current device (see [gpu_use()]).
#' @returns `gpu_sample_int()`: an array of positions. `gpu_sample()`: the elements at such positions, with their names:
#'   an array, or, for factors, strings and other vectors that a device cannot store, a vector on the host. Sampling
#'   without replacement is computed at once.
#' @section Errors:
#' `verdigris_error_argument` for arguments that base R refuses, with its messages; `verdigris_error_dtype`,
#' `verdigris_error_device`.
#' @examples
#' set.seed(1)
#' gpu_sample(5, device = "cpu")
#' gpu_sample(c(a = 1.5, b = 2.5), 3, replace = TRUE, device = "cpu")
#' gpu_sample(c("head", "tail"), 4, replace = TRUE, prob = c(0.9, 0.1), device = "cpu")
#' @export
gpu_sample <- function(x, size, replace = FALSE, prob = NULL, dtype = NULL, device = NULL) {
  device <- device %||% if (is_gpu(x)) gpu_device(x)
  if (is.environment(x) || is.function(x) || is.symbol(x))
    abort_argument("x", "a vector, an array or a factor to sample from", x)
  n <- length(x)
  if (n == 1L && is.numeric(x) && !is.factor(x) && is.finite(x) && x >= 1) {
    x <- as.numeric(x)
    return(if (missing(size)) gpu_sample_int(x, x, replace, prob, dtype, device) else gpu_sample_int(x, size, replace,
      prob, dtype, device))
  }
  at <- gpu_sample_int(n, if (missing(size)) n else size, replace, prob, device = device)
  plain <- is_gpu(x) || (is.numeric(x) || is.logical(x) || is.complex(x)) && !is.object(x)
  if (!plain) return(x[collect(at)])
  if (!is_gpu(x)) x <- as_gpu(x, dtype = dtype %||% default_dtype(x, parent.frame()), device = gpu_device(at))
  out <- x[at]
  if (is.null(dtype)) out else gpu_cast(out, dtype)
}

#' @rdname gpu_sample
#' @export
gpu_sample_int <- function(n, size = n, replace = FALSE, prob = NULL, dtype = NULL, device = NULL) {
  whole <- function(x) (is.numeric(x) || is.logical(x)) && length(x) == 1L && is.finite(x) && x >= 0 && x < 2^52
  if (!whole(n) || trunc(n) == 0 && whole(size) && size > 0)
    abort_sample("invalid first argument", "a number of positions, 1 or more", n)
  if (!whole(size)) abort_sample("invalid 'size' argument", "a number of draws, 0 or more", size)
  if (!is.logical(replace) && !is.numeric(replace) || length(replace) != 1L || is.na(replace))
    abort_sample("invalid 'replace' argument", "TRUE or FALSE", replace)
  n <- trunc(as.numeric(n))
  size <- trunc(as.numeric(size))
  if (!replace && size > n) stop_verdigris("argument",
    "cannot take a sample larger than the population when 'replace = FALSE'",
    "Give a smaller `size`, or `replace = TRUE`.")
  if (!is.null(prob)) prob <- as_weights(prob, n, size, replace)
  if (!is.null(dtype) && (!is.character(dtype) || length(dtype) != 1L || is.na(dtype)))
    abort_argument("dtype", "the name of a dtype", dtype)
  dtype <- dtype %||% if (n > .Machine$integer.max) "float64" else "int32"
  as_wanted <- function(at) if (gpu_dtype(at) == dtype) at else gpu_cast(at, dtype)
  if (size == 0) return(gpu_full(0L, 0, dtype, device))
  if (replace && is.null(prob)) return(positions(n, size, dtype, device))
  if (replace) {
    # sum on the host, so that all devices search the same numbers; pmin() guards against rounding at the end
    sums <- cumsum(prob)
    at <- findInterval(gpu_runif(size, device = device) * sums[n], sums[-n]) + 1L
    return(as_wanted(pmin(at, max(which(prob > 0)))))
  }
  if (is.null(prob) && size <= n / 8) return(different_positions(n, size, dtype, device))
  keys <- if (is.null(prob)) gpu_runif(n, device = device) else gpu_rexp(n, device = device) / prob
  at <- .Call(C_order, keys, FALSE)
  as_wanted(if (size < n) at[seq_len(size)] else at)
}

# Raises base R's message for an argument, with what the argument should be.
abort_sample <- function(message, expected, got, frame = parent.frame()) {
  stop_verdigris("argument", message, sprintf("It must be %s, not %s.", expected, describe(got)), call = frame)
}

# Positions with replacement, all equally likely.
positions <- function(n, size, dtype, device) {
  .Call(C_draw, "rindex", NULL, size, stream_key(), list(n), dtype, device, NULL)
}

# A small sample of a large population without replacement: draws more than needed, and drops duplicates.
different_positions <- function(n, size, dtype, device) {
  more <- size
  repeat {
    more <- ceiling(1.25 * more) + 16
    at <- unique(positions(n, more, dtype, device))
    if (length(at) >= size) return(at[seq_len(size)])
  }
}

# Checks the weights of n positions as base R does, and copies them to the host.
as_weights <- function(prob, n, size, replace, frame = parent.frame()) {
  wrong <- function(message, advice) stop_verdigris("argument", message, advice, call = frame)
  if (!is_real(prob)) abort_sample("invalid 'prob' argument", "numbers or NULL", prob, frame)
  prob <- as.double(if (is_gpu(prob)) collect(prob) else prob)
  if (length(prob) != n) wrong("incorrect number of probabilities",
    sprintf("`prob` has %s elements, for %s positions.", format_count(length(prob)), format_count(n)))
  if (!all(is.finite(prob))) wrong("NA in probability vector", "All elements of `prob` must be finite.")
  if (any(prob < 0)) wrong("negative probability", "All elements of `prob` must be 0 or more.")
  positive <- sum(prob > 0)
  if (positive == 0L || !replace && size > positive) wrong("too few positive probabilities",
    sprintf("%s elements of `prob` are above 0; `size` is %s.", format_count(positive), format_count(size)))
  prob
}
