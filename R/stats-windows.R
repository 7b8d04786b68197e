# Moving windows: embed() by overlapping views, gpu_roll() by passes that double the window.

#' Moving windows
#'
#' `gpu_roll()` computes the sum, mean, smallest or largest element of each window of `width` neighbours. [stats::embed()]
#' of an array returns a view of its windows, which takes no memory.
#'
#' A window's sum is the sum of two windows of half its width. So `gpu_roll()` reads the array about `2 * log2(width)`
#' times, and a missing or infinite element affects only the windows that contain it, as if each were summed separately.
#' @param x An array: a vector, or a matrix for `embed()`.
#' @param width The number of elements in a window.
#' @param f The statistic of each window: `"sum"`, `"mean"`, `"min"` or `"max"`.
#' @param align The position of a window's value: at its last element (`"right"`), its first or its middle one (left of
#'   the middle if `width` is even).
#' @param fill The value at positions where a window would extend beyond the array; `NULL` omits these positions.
#' @param dimension As in [stats::embed()].
#' @returns `gpu_roll()`: an array on the device of `x`, as long as `x`, or with `length(x) - width + 1` elements if
#'   `fill = NULL`; double, except for `"min"` and `"max"` of integers. `embed()`: base R's result, as an array. The
#'   call does not wait.
#' @section Errors:
#' `verdigris_error_argument` for an invalid `width` or `fill`; base R's errors and messages.
#' @examples
#' x <- as_gpu(c(1, 3, 2, 5, 4), device = "cpu")
#' gpu_roll(x, 3, "mean")
#' gpu_roll(x, 2, "max", fill = NULL)
#' embed(x, 2)
#' @export
gpu_roll <- function(x, width, f = c("sum", "mean", "min", "max"), align = c("right", "center", "left"), fill = NA) {
  if (!is_gpu(x)) abort_argument("x", "an array", x)
  f <- one_of("f", f, c("sum", "mean", "min", "max"))
  align <- one_of("align", align, c("right", "center", "left"))
  n <- length(x)
  if (!is.numeric(width) || is_gpu(width) || length(width) != 1L || !is.finite(width) || width < 1 ||
    width != trunc(width)) abort_argument("width", "a whole number, 1 or more", width)
  if (!is.null(fill) && !(is_number(fill) && length(fill) == 1L)) abort_argument("fill", "one number or NULL", fill)
  x <- strip(x)
  if (is.logical(x)) x <- gpu_cast(x, "int32")
  if (f %in% c("sum", "mean") && !is.double(x) && !is.complex(x)) x <- gpu_cast(x, "float64")
  join_windows <- switch(f, min = pmin, max = pmax, `+`)
  out <- if (width > n) recycle(x, 0) else rolled(x, width, join_windows)
  if (f == "mean") out <- out / width
  if (is.null(fill)) return(out)
  before <- min(n, switch(align, right = width - 1, left = 0, center = (width - 1) %/% 2))
  after <- n - length(out) - before
  fill <- if (is_gpu(fill)) as.vector(fill) else fill
  join(c(if (before > 0) list(rep(fill, before)), list(out), if (after > 0) list(rep(fill, after))))
}

# Results of windows of k elements. Windows of 2, 4, 8 ... elements are joined from two halves; the binary digits of k
# select those that are joined into windows of k.
rolled <- function(x, k, f) {
  n <- length(x)
  part <- function(y, from, count) if (from == 0 && count == length(y)) y else strided(y, length(y), 1, count,
    start = from)
  wide <- x
  size <- 1
  out <- NULL
  done <- 0
  repeat {
    if (k %/% size %% 2 == 1) {
      count <- n - done - size + 1
      out <- if (is.null(out)) wide else f(part(out, 0, count), part(wide, done, count))
      done <- done + size
    }
    if (done == k) return(out)
    count <- n - 2 * size + 1
    wide <- f(part(wide, 0, count), part(wide, size, count))
    size <- 2 * size
  }
}

#' @rdname gpu_roll
#' @export
embed <- interposed("embed", "x", embed_array(x, dimension), home = "stats")

embed_array <- function(x, dimension) {
  n <- NROW(x)
  usable <- is.numeric(dimension) && !is_gpu(dimension) && length(dimension) == 1L &&
    isTRUE(dimension >= 1 && dimension <= n && dimension == trunc(dimension))
  if (!usable || length(dim(x)) %in% 1L || length(dim(x)) > 2L) return(hosted(stats::embed, list(x, dimension)))
  rows <- n - dimension + 1
  p <- NCOL(x)
  if (length(dim(x)) == 2L && !is.complex(x)) x <- as_doubles(x) # as base R, which fills a matrix of zeros
  y <- if (p == 1L) {
    strided(x, length(x), c(1, 1), c(rows, dimension), step = c(1, -1), start = c(0, dimension - 1))
  } else {
    strided(x, c(n, p), c(1, 2, 1), c(rows, p, dimension), step = c(1, 1, -1), start = c(0, 0, dimension - 1))
  }
  dim(y) <- c(rows, p * dimension)
  y
}

# The array as an ordinary vector or time series; int64 as doubles, because stats would compute with the bits of an
# integer64.
host_series <- function(x, silent = FALSE) {
  if (!is_gpu(x)) return(host_copy(x))
  if (!silent) report_read(x)
  y <- collected(if (is_int64(x)) gpu_cast(x, "float64") else x, FALSE)
  if (is.null(attr(x, "tsp"))) y else stats::ts(y, start = attr(x, "tsp")[1L], frequency = attr(x, "tsp")[3L])
}

# cbind() of time series. Base R's method names columns by the expressions at any deparse.level.
bind_series <- function(parts, expressions) {
  texts <- vapply(expressions, function(e) deparse(e)[1L], "")
  given <- names(expressions) %||% character(length(expressions))
  y <- call_base(base::cbind, stats::setNames(lapply(parts, host_series), base::ifelse(given == "", texts, given)))
  if (!(is.numeric(y) || is.logical(y) || is.complex(y))) return(y)
  whole <- vapply(parts, function(x) is_int64(x) || is.null(x) || is.integer(x) || is.logical(x), NA)
  dtype <- if (all(whole) && any(vapply(parts, is_int64, NA))) "int64" else
    result_dtype(y, gpu_dtype(Find(is_gpu, parts)))
  as_gpu(y, dtype = dtype, device = device_of(parts))
}
