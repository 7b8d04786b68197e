# Fourier transforms: cuFFT's on a CUDA device, rustfft's on the cpu device.

#' Fourier transforms
#'
#' Base R's `fft()` and `mvfft()` for arrays, transforms along one dimension, and transforms of real elements to half of
#' their spectrum and back.
#'
#' As in base R results are not divided by the length, in either direction: `fft(fft(x), inverse = TRUE) / length(x)` is
#' `x`.
#'
#' * `fft()` transforms all dimensions, `mvfft()` each column; both keep the attributes of their argument.
#' * `gpu_fft()` transforms all lines along the dimension `margin`, or all dimensions.
#' * `gpu_rfft()` computes the first `n %/% 2 + 1` elements of the transforms of real lines of length `n`. The other
#'   elements are conjugates of these, so the transform takes half of the time and memory.
#' * `gpu_irfft()` is the inverse of `gpu_rfft()`: it returns the real lines, multiplied by `n`. The imaginary part of
#'   the first element, and for even `n` of the last one, is ignored.
#'
#' @section Precision and cost:
#' Results are complex128, or complex64 if `x` is float32, float16, bfloat16 or complex64. The error is about
#' `log2(n)` units in the last place of the largest result, for any `n`; lengths with large prime factors take about
#' five times as long ([stats::nextn()] finds lengths without large prime factors). Operations recorded in `x` are
#' computed first. On a CUDA device the call does not wait; plans and their tables are kept for the last 32 shapes. On
#' the cpu device lines are shared among all cores, and each line is computed by one core. If cuFFT is missing, `fft()`
#' and `mvfft()` are computed by base R on the host, and the other functions raise an error.
#' @param z,inverse As in [stats::fft()].
#' @param x An array; of real elements for `gpu_rfft()`.
#' @param margin The dimension to transform, from 1. `NULL` means all dimensions (or, for `gpu_rfft()` and
#'   `gpu_irfft()`, the only one).
#' @param n The number of elements of a real line, as given to `gpu_rfft()`.
#' @returns Arrays on the device of the argument: complex, and real from `gpu_irfft()`. `fft()` and `mvfft()` keep all
#'   attributes, the other functions keep `dim`, with the new extent of dimension `margin`, and the names of the
#'   dimensions that were not transformed.
#' @section Errors:
#' Base R's errors and messages; `verdigris_error_argument` for an invalid `x`, `margin` or `n`;
#' `verdigris_error_library` if cuFFT is missing; `verdigris_error_memory`.
#' @references
#' Cooley, J. W. and Tukey, J. W. (1965) An algorithm for the machine calculation of complex Fourier series.
#' *Mathematics of Computation* 19, 297--301. Prime lengths: Rader (1968), Bluestein (1970).
#' @examples
#' x <- as_gpu(c(1, 1, 3, 2, 0), device = "cpu")
#' fft(x)
#' Re(fft(fft(x), inverse = TRUE)) / 5
#' half <- gpu_rfft(x)
#' gpu_irfft(half, n = 5) / 5
#' m <- as_gpu(matrix(1:6, 2), device = "cpu")
#' gpu_fft(m, margin = 2)
#' @name fourier
NULL

#' @rdname fourier
#' @export
fft <- interposed("fft", "z", fft_array(z, inverse, 0), home = "stats")

#' @rdname fourier
#' @export
mvfft <- interposed("mvfft", "z", mvfft_array(z, inverse), home = "stats")

mvfft_array <- function(z, inverse) {
  if (length(dim(z)) != 2L) return(hosted(stats::mvfft, list(z, inverse)))
  fft_array(z, inverse, 1)
}

fft_array <- function(z, inverse, margin) {
  backward <- is.atomic(inverse) && isTRUE(as.logical(inverse)[1L])
  shape <- as.double(dim(z) %||% length(z))
  out <- if (gpu_device(z) == "cpu") .Call(C_fft, z, shape, margin, backward) else tryCatch(
    .Call(C_fft, z, shape, margin, backward), verdigris_error_library = function(e) NULL)
  if (is.null(out)) return(hosted(if (margin == 0) stats::fft else stats::mvfft, list(z, inverse)))
  keep <- attributes(z)
  # The class alone is kept if a user has put classes in front of the array's.
  if (length(keep) > 1L || !is.null(.Call(C_front_classes, keep$class))) with_attributes(out, keep) else out
}

#' @rdname fourier
#' @export
gpu_fft <- function(x, margin = NULL, inverse = FALSE) {
  if (!is_gpu(x)) abort_argument("x", "an array", x)
  if (!is_flag(inverse)) abort_argument("inverse", "TRUE or FALSE", inverse)
  shape <- dim(x) %||% length(x)
  margin <- if (is.null(margin)) 0 else margin_of(margin, shape)
  reshaped(.Call(C_fft, x, as.double(shape), margin, inverse), x, shape, margin)
}

#' @rdname fourier
#' @export
gpu_rfft <- function(x, margin = NULL) {
  if (!is_gpu(x) || is.complex(x)) abort_argument("x", "an array of real elements", x)
  shape <- dim(x) %||% length(x)
  margin <- margin_of(margin, shape)
  if (!length(x)) abort_argument("x", "an array with elements", x)
  out <- .Call(C_rfft, x, as.double(shape), margin)
  shape[margin] <- shape[margin] %/% 2 + 1
  reshaped(out, x, shape, margin)
}

#' @rdname fourier
#' @export
gpu_irfft <- function(x, n, margin = NULL) {
  if (!is_gpu(x)) abort_argument("x", "an array", x)
  shape <- dim(x) %||% length(x)
  margin <- margin_of(margin, shape)
  least <- 2 * shape[margin] - 2
  if (missing(n)) n <- max(1, least)
  if (!length(x)) abort_argument("x", "an array with elements", x)
  if (!is_count(n, 1) || n %/% 2 + 1 != shape[margin])
    abort_argument("n", sprintf("%.0f or %.0f, of which %.0f elements are the half", max(1, least), least + 1,
      shape[margin]), n)
  out <- .Call(C_irfft, x, as.double(shape), margin, as.double(n))
  shape[margin] <- n
  reshaped(out, x, shape, margin)
}

# The dimension to transform (1-based); for one dimension it may be NULL.
margin_of <- function(margin, shape, call = parent.frame()) {
  if (is.null(margin) && length(shape) == 1L) return(1)
  if (!is_count(margin, 1) || margin > length(shape) || margin != trunc(margin))
    abort_argument("margin", sprintf("a dimension of `x`, 1 to %d", length(shape)), margin, call)
  as.double(margin)
}

# Sets the shape of a transform, and the names of x along the dimensions that were not transformed.
reshaped <- function(out, x, shape, margin) {
  if (is.null(dim(x))) return(out)
  names <- dimnames(x)
  if (!is.null(names)) names[if (margin == 0) seq_along(names) else margin] <- list(NULL)
  dim(out) <- shape
  if (!all(vapply(names, is.null, NA))) dimnames(out) <- names
  out
}
