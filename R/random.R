# Random numbers: drawn on the device, decided by R's generator.

# A stream's key: 64 bits from R's generator, so that set.seed() and future.seed decide.
stream_key <- function() floor(stats::runif(2L) * 4294967296)

# A count as R's own generators read it: a length stands for a vector.
count_of <- function(n) {
  size <- if (length(n) > 1L) length(n) else n
  if (!is.numeric(size) || length(size) != 1L || is.na(size) || size < 0) {
    abort_argument("n", "a number of draws, 0 or more", n)
  }
  trunc(as.numeric(size))
}

#' Random numbers on the device
#'
#' `gpu_runif()` and `gpu_rnorm()` record draws that are computed when they are used, inside the kernel that
#' uses them: `mean(gpu_rnorm(1e9) > 1.96)` allocates nothing.
#'
#' Each call takes a key from R's generator, so that [set.seed()] decides; element `i` is then a function of the key and `i`
#' (Philox 4x32-10; Salmon, Moraes, Dror and Shaw 2011). The numbers are the same on every device, to the last bit. Uniforms have 53 bits
#' (24 where they are drawn in float32) and are never 0 or 1, in narrower dtypes either (a scaled draw may round to `min` or `max`); normals are made in
#' pairs of neighbours (Box and Muller 1958), and reach to 8.6 standard deviations (6.7 in float32).
#' @param n How many, or a vector whose length says so.
#' @param min,max Limits.
#' @param mean,sd Of the normal distribution; numbers or arrays, recycled.
#' @param dtype `"float64"` (default), `"float32"`, `"float16"` or `"bfloat16"`. All but float64 are drawn and scaled in float32, and are other
#'   numbers than float64's.
#' @param device Where; the current device by default (see [gpu_use()]).
#' @returns An array of class `gpu_array`. Nothing is computed, allocated or waited for.
#' @section Errors:
#' `verdigris_error_argument` for a wrong `n`; `verdigris_error_dtype`, `verdigris_error_device`.
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
  min <- as_parameter(min, n, "min")
  .Call(C_random, "runif", n, stream_key(), min, as_parameter(max, n, "max") - min, dtype, device)
}

#' @rdname random
#' @export
gpu_rnorm <- function(n, mean = 0, sd = 1, dtype = NULL, device = NULL) {
  n <- count_of(n)
  .Call(C_random, "rnorm", n, stream_key(), as_parameter(mean, n, "mean"), as_parameter(sd, n, "sd"), dtype, device)
}

# A parameter of n draws: recycled by the device, and no longer than the draws.
as_parameter <- function(x, n, name) {
  if (!is.numeric(x) && !is.logical(x) || length(x) == 0L) abort_argument(name, "numbers or an array of numbers", x)
  if (!is_gpu(x)) x <- as.numeric(x)
  if (length(x) > max(n, 1)) x[seq_len(max(n, 1))] else x
}
