#' Create arrays on a device
#'
#' Nothing is copied from R, and a constant or a sequence takes no memory until all of it is needed.
#'
#' @param dim The length of a vector, or the dimensions of a matrix or array.
#' @param value One number or logical.
#' @param from,to The first number, and the limit of the sequence.
#' @param by The step; by default 1 or -1, or as `length.out` requires.
#' @param length.out The number of elements.
#' @param dtype,device As in [as_gpu()]. The default dtype is `"float64"`; for `gpu_full()` and `gpu_seq()` it follows
#'   the R type of `value` and of the result of [base::seq()]. With option `verdigris.dtype` (see [verdigris-package])
#'   the default for doubles may be `"float32"`.
#' @returns An array.
#' @section Errors:
#' `verdigris_error_argument` for an invalid argument, `verdigris_error_dtype` and `verdigris_error_device` for an
#' unknown dtype or device.
#' @seealso [gpu_empty()] for uninitialised memory.
#' @examples
#' gpu_zeros(c(2, 3), device = "cpu")
#' gpu_ones(3, dtype = "float32", device = "cpu")
#' gpu_full(NA, 3, device = "cpu")
#' gpu_seq(1, 2, by = 0.25, device = "cpu")
#' @export
gpu_full <- function(value, dim, dtype = NULL, device = NULL) {
  dim <- as_extents(dim)
  if (is.object(value) && !is_gpu(value) && !inherits(value, c("integer64", "AsIs", "ts", "gpu_array")))
    abort_argument("value", "one number", value)
  if (is.null(dtype)) dtype <- default_dtype(value, parent.frame())
  x <- .Call(C_full, value, prod(dim), dtype, device)
  shaped(x, dim)
}

#' @rdname gpu_full
#' @export
gpu_zeros <- function(dim, dtype = NULL, device = NULL)
  gpu_full(0, dim, dtype %||% float_dtype(parent.frame()), device)

#' @rdname gpu_full
#' @export
gpu_ones <- function(dim, dtype = NULL, device = NULL)
  gpu_full(1, dim, dtype %||% float_dtype(parent.frame()), device)

#' @rdname gpu_full
#' @export
gpu_seq <- function(from = 1, to = NULL, by = NULL, length.out = NULL, dtype = NULL, device = NULL) {
  one <- function(x, name) {
    if ((!is.null(x) || name == "from") && !(is.numeric(x) && length(x) == 1L && is.finite(x)))
      abort_argument(name, "one finite number", x, parent.frame(2L))
  }
  one(from, "from")
  one(to, "to")
  one(by, "by")
  one(length.out, "length.out")
  if (!is.null(to) && !is.null(by) && !is.null(length.out)) {
    stop_verdigris("argument", "Give at most two of `to`, `by` and `length.out`.")
  }
  if (is.null(to) && is.null(length.out)) stop_verdigris("argument", "Give `to` or `length.out`.")
  missing_by <- is.null(by)
  if (!is.null(length.out)) {
    n <- ceiling(length.out)
    if (n < 0) abort_argument("length.out", "0 or more", length.out)
    if (is.null(by)) by <- if (is.null(to)) 1 else if (n > 1) (to - from) / (n - 1) else 0
  } else {
    if (is.null(by)) by <- if (from <= to) 1 else -1
    if (by == 0 && from != to || (to - from) * by < 0) stop_verdigris("argument", "`by` has the wrong sign.")
    n <- if (by == 0) 1 else floor((to - from) / by + 1e-10) + 1 # the fuzz is that of base::seq.default()
  }
  # As in base R, from:to and steps of integers are integer.
  by_step <- missing_by && (is.null(length.out) || is.null(to) && (missing(from) || is.integer(from) &&
    is.integer(length.out)))
  whole <- from == trunc(from) && abs(from) < 2^31 && abs(from + by * max(n - 1, 0)) < 2^31
  integer <- if (by_step) whole else is.integer(from) && is.integer(by)
  from <- if (integer) as.integer(from) else as.double(from)
  by <- if (integer) as.integer(by) else as.double(by)
  if (is.null(dtype)) dtype <- default_dtype(from, parent.frame())
  .Call(C_sequence, from, by, as.double(n), dtype, device)
}

as_extents <- function(dim, call = parent.frame()) {
  dim <- host_copy(dim, silent = TRUE)
  if (!is.numeric(dim) || length(dim) == 0L || !all(is.finite(dim)) || any(dim < 0 | dim != trunc(dim))) {
    abort_argument("dim", "whole numbers, 0 or more", dim, call)
  }
  as.double(dim)
}

# x with these extents (one: a vector) and no other attributes.
shaped <- function(x, dim) .Call(C_shaped, x, if (length(dim) > 1L) dim)
