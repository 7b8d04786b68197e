# Random numbers, drawn on the device and determined by R's generator.

# The key of a stream: 64 bits from R's generator, so that set.seed() and future.seed determine the draws.
stream_key <- function() floor(stats::runif(2L) * 4294967296)

# A number of draws as R's own generators read it: a vector that is not a single number stands for its length.
count_of <- function(n, argument = "n") {
  size <- if (length(n) != 1L) length(n) else n
  if (is.language(n) && !is.expression(n) || !is.numeric(size) || length(size) != 1L || is.na(size) || size < 0) {
    abort_argument(argument, "a number of draws, 0 or more", n)
  }
  trunc(as.numeric(size))
}

#' Uniform, normal and exponential random numbers
#'
#' `gpu_runif()`, `gpu_rnorm()` and `gpu_rexp()` record draws that are computed when they are used, inside the kernel
#' that uses them: `mean(gpu_rnorm(1e9) > 1.96)` allocates nothing.
#'
#' Each call takes a key from R's generator, so that [set.seed()] determines the draws; element `i` is a function of the
#' key and `i` (Philox 4x32-10; Salmon, Moraes, Dror and Shaw 2011). The numbers are the same on every device, to the
#' last bit. Uniform draws have 53 bits (24 if they are drawn in float32) and are never 0 or 1, also not in narrower
#' dtypes (a scaled draw may round to `min` or `max`). Normal draws are made in pairs (Box and Muller 1958); the largest
#' are 8.6 standard deviations from the mean (6.7 in float32).
#' @param n The number of draws, or a vector whose length is that number.
#' @param min,max Limits.
#' @param mean,sd Mean and standard deviation of the normal distribution. All parameters are numbers or arrays,
#'   recycled.
#' @param rate Rate of the exponential distribution: 1 over its mean.
#' @param dtype `"float64"` (the default, unless option `verdigris.dtype` sets another), `"float32"`, `"float16"` or
#'   `"bfloat16"`. All but float64 are drawn and scaled in float32, and differ from the float64 numbers.
#' @param device The device; by default the device of the parameters, else the current device (see [gpu_use()]).
#' @returns An array of class `gpu_array`. Nothing is computed, allocated or waited for. If the parameters are invalid,
#'   the draw is NaN, with base R's warning "NAs produced" when it is computed.
#' @section Errors:
#' `verdigris_error_argument` for an invalid `n`; `verdigris_error_dtype`, `verdigris_error_device`.
#' @seealso [gpu_rgamma()] and other distributions, [gpu_sample()].
#' @examples
#' set.seed(1)
#' gpu_rnorm(3, device = "cpu")
#' mean(gpu_runif(1e5, 0, 10, device = "cpu") > 9)
#' @name random
NULL

#' @rdname random
#' @export
gpu_runif <- function(n, min = 0, max = 1, dtype = NULL, device = NULL) {
  n <- count_of(n)
  if (is_single_number(min) && is_single_number(max) && is.finite(max - min) && min <= max)
    return(scaled_draws("runif", n, max - min, min, dtype, device))
  draws("uniform_draw", "runif", n, list(min = min, max = max), dtype, device)
}

#' @rdname random
#' @export
gpu_rnorm <- function(n, mean = 0, sd = 1, dtype = NULL, device = NULL) {
  n <- count_of(n)
  if (is_single_number(mean) && is_single_number(sd) && sd >= 0 && is.finite(sd))
    return(scaled_draws("rnorm", n, sd, mean, dtype, device))
  draws("normal_draw", "rnorm", n, list(mean = mean, sd = sd), dtype, device)
}

#' @rdname random
#' @export
gpu_rexp <- function(n, rate = 1, dtype = NULL, device = NULL) {
  n <- count_of(n)
  if (is_single_number(rate) && rate > 0 && is.finite(1 / rate))
    return(scaled_draws("rexp", n, 1 / rate, 0, dtype, device))
  draws("exponential_draw", "rexp", n, list(rate = rate), dtype, device)
}

# Whether x is a single number on the host, which can be tested without waiting for a device.
is_single_number <- function(x) is.numeric(x) && length(x) == 1L && !is_gpu(x) && !is.object(x) && !is.na(x)

# shift + scale * draw, of finite scale.
scaled_draws <- function(stream, n, scale, shift, dtype, device) {
  if (is.null(dtype)) dtype <- float_dtype(parent.frame(2L))
  .Call(C_random, stream, n, stream_key(), as.numeric(shift), as.numeric(scale), dtype, device)
}

# Records draws by a row of ops/table/draw.rs. The row transforms the draws of `stream`, or draws by itself if `stream`
# is NULL. `call` is the exported function's, for warnings.
draws <- function(row, stream, n, parameters, dtype, device, call = sys.call(-1L)) {
  if (is.null(dtype)) dtype <- float_dtype(parent.frame(2L)) # for counts the caller has set one
  if (is.null(device)) device <- gpu_device_of_any(parameters)
  for (name in names(parameters)) {
    x <- parameters[[name]]
    if (!is.numeric(x) && !is.logical(x) || is.factor(x))
      abort_argument(name, "numbers or an array of numbers", x, parent.frame())
    if (length(x) == 0L) {
      # an empty parameter gives NA, as in base R
      out <- gpu_full(NA, n, dtype %||% "float64", device)
      if (n > 0) warn_as_base("NAs produced", parent.frame())
      return(out)
    }
    if (length(x) > max(n, 1)) x <- x[seq_len(max(n, 1))]
    parameters[[name]] <- if (is_gpu(x)) x else as.numeric(x)
  }
  .Call(C_draw, row, stream, n, stream_key(), unname(parameters), dtype, device, call)
}

gpu_device_of_any <- function(x) if (any(gpu <- vapply(x, is_gpu, NA))) gpu_device(x[[which(gpu)[1L]]])
