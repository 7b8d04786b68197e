# Distances between the rows of a matrix.

#' Distances between rows
#'
#' [stats::dist()] of an array: pairs of rows are compared on the device, as repeating views, in one kernel for each
#' block of rows; no intermediate result has the size of all pairs times all columns. Matrices with missing or infinite
#' values and the binary distance are computed on the host, as is everything on the cpu device.
#' @param x A matrix.
#' @param method,diag,upper,p As in [stats::dist()].
#' @returns An ordinary object of class `dist`. The call waits for the device.
#' @section Errors:
#' Those of base R, with its messages; `verdigris_error_memory`.
#' @examples
#' dist(as_gpu(matrix(c(0, 3, 0, 4), 2), device = "cpu"))
#' @name distance
NULL

#' @rdname distance
#' @export
dist <- interposed("dist", "x", distances(x, method, diag, upper, p), home = "stats")

# Pairs of rows that one kernel compares.
PAIRS_AT_ONCE <- 2^26

distances <- function(x, method, diag, upper, p) {
  methods <- c("euclidean", "maximum", "manhattan", "canberra", "binary", "minkowski")
  which <- if (length(method) == 1L) pmatch(method, methods) else NA
  usable <- !is.na(which) && methods[which] != "binary" && (methods[which] != "minkowski" ||
    is_count(p, .Machine$double.xmin)) && length(dim(x)) == 2L && is.numeric(x) && !is.complex(x) && all(dim(x) > 0L) &&
    nrow(x) > 1L && !prefers_host(x)
  if (!usable || !all(is.finite(x))) {
    out <- call_base(stats::dist, list(host_view(x), method = method, diag = diag, upper = upper, p = p))
    # base R's has the function and the elements in it
    attr(out, "call") <- match.call(stats::dist, written_call())
    return(out)
  }
  n <- nrow(x)
  k <- ncol(x)
  y <- as_float64(strip(x))
  lower <- numeric(n * (n - 1) / 2)
  done <- 0
  # the rows below those of a block, against each of the block
  step <- max(1, PAIRS_AT_ONCE %/% n)
  for (from in seq(1, n - 1, by = step)) {
    columns <- min(step, n - from)
    rows <- n - from
    a <- strided(y, c(n, k), c(1, 1, 2), c(rows, columns, k), step = c(1, 0, 1), start = c(from, 0, 0))
    b <- strided(y, c(n, k), c(1, 1, 2), c(rows, columns, k), step = c(0, 1, 1), start = c(0, from - 1, 0))
    gap <- abs(a - b)
    term <- switch(methods[which], euclidean = gap * gap, minkowski = gap^p, canberra = gap / (abs(a) + abs(b)), gap)
    if (methods[which] == "canberra") {
      # what is 0 in both rows does not count, and the sum is as large as if all did
      none <- is.nan(term)
      total <- .Call(C_reduce_groups, "sum", ifelse(none, 0, term), FALSE, c(1, k, rows * columns), FALSE)
      left <- k - .Call(C_reduce_groups, "sum", none, FALSE, c(1, k, rows * columns), FALSE)
      value <- ifelse(left == 0, NA_real_, total / (left / k))
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
