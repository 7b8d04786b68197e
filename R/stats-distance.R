# Distances between the rows of a matrix: dist(), and functions that k-means and nearest neighbours share.

#' Distances between rows
#'
#' [stats::dist()] of an array: pairs of rows are compared on the device, as repeating views, in one kernel for each
#' block of rows; no intermediate result has the size of all pairs times all columns. Matrices with missing or infinite
#' values and the binary distance are computed on the host, as is everything on the cpu device.
#' @param x A matrix.
#' @param method,diag,upper,p As in [stats::dist()].
#' @returns An ordinary object of class `dist`. The call waits for the device.
#' @section Errors:
#' Base R's errors and messages; `verdigris_error_memory`.
#' @examples
#' dist(as_gpu(matrix(c(0, 3, 0, 4), 2), device = "cpu"))
#' @name distance
NULL

#' @rdname distance
#' @export
dist <- interposed("dist", "x", distances(x, method, diag, upper, p), home = "stats", class = ON_DEVICE,
  frames = TRUE)

# The number of pairs of rows that one kernel compares.
PAIRS_AT_ONCE <- 2^26

distances <- function(x, method, diag, upper, p) {
  x <- dense_numbers(without_frame(x))
  methods <- c("euclidean", "maximum", "manhattan", "canberra", "binary", "minkowski")
  which <- if (length(method) == 1L) pmatch(method, methods) else NA
  usable <- !is.na(which) && methods[which] != "binary" && (methods[which] != "minkowski" ||
    is_count(p, .Machine$double.xmin)) && length(dim(x)) == 2L && is.numeric(x) && !is.complex(x) && all(dim(x) > 0L) &&
    nrow(x) > 1L && !prefers_host(x)
  if (!usable || !all(is.finite(x))) {
    out <- call_base(stats::dist, list(host_view(x), method = method, diag = diag, upper = upper, p = p))
    # call_base() has put the function and the elements into the call
    attr(out, "call") <- match.call(stats::dist, written_call())
    return(out)
  }
  n <- nrow(x)
  k <- ncol(x)
  y <- as_float64(strip(x))
  lower <- numeric(n * (n - 1) / 2)
  done <- 0
  # compare the rows of a block with all rows below the block's first one
  step <- max(1, PAIRS_AT_ONCE %/% n)
  for (from in seq(1, n - 1, by = step)) {
    columns <- min(step, n - from)
    rows <- n - from
    a <- strided(y, c(n, k), c(1, 1, 2), c(rows, columns, k), step = c(1, 0, 1), start = c(from, 0, 0))
    b <- strided(y, c(n, k), c(1, 1, 2), c(rows, columns, k), step = c(0, 1, 1), start = c(0, from - 1, 0))
    gap <- abs(a - b)
    term <- switch(methods[which], euclidean = gap * gap, minkowski = gap^p, canberra = gap / (abs(a) + abs(b)), gap)
    if (methods[which] == "canberra") {
      # columns where both rows are 0 do not count; the sum is scaled up to all columns
      none <- is.nan(term)
      total <- .Call(C_reduce_groups, "sum", select_by(none, 0, term), FALSE, c(1, k, rows * columns), FALSE)
      left <- k - .Call(C_reduce_groups, "sum", none, FALSE, c(1, k, rows * columns), FALSE)
      value <- select_by(left == 0, NA_real_, total / (left / k))
    } else {
      value <- .Call(C_reduce_groups, if (methods[which] == "maximum") "max" else "sum", term, FALSE,
        c(1, k, rows * columns), FALSE)
      if (methods[which] == "euclidean") value <- sqrt(value)
      if (methods[which] == "minkowski") value <- value^(1 / p)
    }
    block <- as.vector(value)
    for (j in seq_len(columns)) {
      count <- n - from - j + 1
      lower[done + seq_len(count)] <- block[(j - 1) * rows + (j - 1) + seq_len(count)]
      done <- done + count
    }
  }
  shape <- list(Size = n, Labels = dimnames(x)[[1L]], Diag = diag, Upper = upper, method = methods[which],
    p = if (methods[which] == "minkowski") p, call = match.call(stats::dist, written_call()), class = "dist")
  attributes(lower) <- shape[!vapply(shape, is.null, NA)]
  lower
}

# ---- nearest rows ------------------------------------------------------------------------------------------------

# |x - y|^2 is |x|^2 + |y|^2 - 2 x.y, and one matrix product gives all x.y. Cancellation loses digits where rows are
# close, so this sum only selects candidates: rows whose lower bound is below the least upper bound. If there are
# several, they are compared by their differences in float64. So results are those of differences throughout.

# The number of elements of a matrix that is computed in parts, for one part. Tests set another one.
block_size_override <- new.env(parent = emptyenv())
block_size_override$elements <- NULL
elements_at_once <- function(x) block_size_override$elements %||% if (gpu_device(x) == "cpu") 2^20 else 2^26

# The same for a matrix of pairs of rows. Results do not depend on it. A part costs R a dozen launches, and in gpu_knn()
# a wait, beside a millisecond of work for 2^26 elements: so on a GPU parts are larger, at most an eighth of the free
# memory.
pairs_at_once <- function(x) {
  if (gpu_device(x) == "cpu") return(elements_at_once(x))
  min(block_size_override$elements %||% 2^28, max(2^16, free_memory(gpu_device(x)) %/% 64))
}

# Frees a block's products, and arrays recorded from them, which keep them alive: R's collector would come too late.
free_all <- function(...) for (held in list(...)) if (is_gpu(held)) gpu_free(held)

# Beyond this magnitude float32 products could overflow.
LARGEST_FLOAT32 <- 1e18

# Prepares a matrix for products of its rows. `rows`: float64 or float32, minus `origin` (FALSE for none) where that
# keeps digits; `squares`: |x|^2 of each row; `margin` and `tiny`: a computed |y|^2 - 2 x.y is off by at most
# margin (|x|^2 + |y|^2) + tiny.
product_space <- function(x, largest, origin = NULL) {
  x <- strip_names(x)
  if (is_half(x)) x <- gpu_cast(x, "float32")
  if (!is_narrow(x) || largest > LARGEST_FLOAT32) x <- as_float64(x)
  d <- as.double(dim(x))
  if (is.null(origin)) {
    # round the means to the type of x, so that their differences from x are rounded only once
    means <- match_precision(colMeans(as_float64(x)), x)
    away <- sum(as_float64(means)^2)
    spread <- sum(as_float64(x - along_columns(means, d[1L]))^2) / d[1L]
    origin <- if (isTRUE(away > 4 * spread)) means else FALSE
  }
  rows <- if (isFALSE(origin)) x else shifted(x, origin)
  list(rows = rows, origin = origin, squares = squares_of(rows), margin = product_margin(x, d[2L]),
    # a device may round smaller terms to 0
    tiny = 4 * d[2L] * if (is_narrow(x)) 2^-126 else 2^-1022)
}

shifted <- function(x, origin) gpu_compute(x - along_columns(match_precision(origin, x), nrow(x)))

squares_of <- function(x) gpu_compute(rowSums(as_float64(x)^2))

# The error bound of a dot product of p rounded terms, added in any order (Higham, Accuracy and Stability of Numerical
# Algorithms, 2002, section 3.1), plus a margin for rounding the terms and the squared lengths that are added to it.
product_margin <- function(x, p) {
  if (gpu_dtype(x) == "float64") return((p + 16) * 2^-53)
  rounded <- if (gpu_device(x) == "cpu") 0 else switch(getOption("verdigris.matmul_precision", "float32"),
    tf32 = 2^-9, bfloat16 = 2^-6, 0)
  (p + 16) * 2^-24 + rounded
}

# For each row of x and each row of y the sum of their squared differences, or of absolute ones, or the largest. Returns
# a computed vector without extents: setting these would make a copy, which the caller could not free.
pairs_of <- function(x, y, metric) {
  n <- as.double(nrow(x))
  m <- as.double(nrow(y))
  p <- as.double(ncol(x))
  a <- strided(as_float64(x), c(n, p), c(1, 1, 2), c(n, m, p), step = c(1, 0, 1))
  b <- strided(as_float64(y), c(m, p), c(1, 1, 2), c(n, m, p), step = c(0, 1, 1))
  gap <- a - b
  gpu_compute(.Call(C_reduce_groups, if (metric == "maximum") "max" else "sum", if (metric == "euclidean") gap * gap else
    abs(gap), FALSE, c(1, p, n * m), FALSE))
}

# A list of f(from, to) for rows 1 to n, `step` at a time.
in_blocks <- function(n, step, f) lapply(seq(1, n, by = step), function(from) f(from, min(from + step - 1, n)))

# Rows of a matrix, without names: a view.
rows_of <- function(x, from, to) {
  extent <- c(to - from + 1, ncol(x))
  out <- strided(x, dim(x), c(1, 2), extent, start = c(from - 1, 0))
  dim(out) <- extent
  out
}
