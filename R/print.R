# How arrays show themselves. Each method fetches only the elements that it shows; `str()` and what an editor
# calls compute nothing that is only recorded.

# A vector up to this long is shown whole; of a longer one the first SHOWN_FIRST.
SHOWN_WHOLE <- 100L
SHOWN_FIRST <- 20L
# Rows and columns of a matrix that is not shown whole.
SHOWN_ROWS <- 10L
SHOWN_COLUMNS <- 8L

#' Showing arrays
#'
#' `print()` shows the type, shape and device of an array and its elements: all of a short one, the first of a long
#' one. Only what is shown is copied from the device. `str()` and `format(x, what = "header")` compute
#' nothing; `str()` shows elements where they are computed.
#'
#' @param x,object An array.
#' @param n How many elements of a longer vector to show.
#' @param what `"values"` formats every element on the host; `"header"` gives one line on the array.
#' @param digits As in [base::summary()].
#' @param ... Passed on to the method for ordinary vectors.
#' @returns `print()`: `x`, invisibly. `format()`: strings of `x`'s shape. `summary()`: what base R gives, computed on the device.
#' @examples
#' x <- as_gpu(seq(0, 1, length.out = 1000), device = "cpu")
#' x
#' str(x)
#' summary(x)
#' @export
print.gpu_array <- function(x, ..., n = SHOWN_FIRST) {
  cat(header(x), "\n", sep = "")
  d <- dim(x)
  if (length(d) == 0L || length(d) == 1L) print_vector(x, n, ...) else if (length(x) <= SHOWN_WHOLE) print(collect(x), ...) else print_corner(x, d, ...)
  invisible(x)
}

setMethod("show", "gpu_array", function(object) print(object))

header <- function(x) {
  info <- gpu_info(x)
  extents <- if (is.null(dim(x))) info$length else dim(x)
  shape <- paste(format(extents, scientific = FALSE, trim = TRUE), collapse = " x ")
  sprintf("<gpu_array %s [%s] on %s>", info$dtype, shape, info$device)
}

print_vector <- function(x, n, ...) {
  length <- length(x)
  if (length <= max(SHOWN_WHOLE, n)) return(print(collect(x), ...))
  print(first(x, n), ...)
  cat(sprintf("... and %s more\n", format_count(length - n)))
}

# The upper left corner of a matrix, or of the first matrix of a larger array.
print_corner <- function(x, d, ...) {
  rows <- if (d[1L] <= 2L * SHOWN_ROWS) d[1L] else SHOWN_ROWS
  columns <- min(d[2L], SHOWN_COLUMNS)
  corner <- vapply(seq_len(columns), function(j) .Call(C_fetch, x, (j - 1) * d[1L], rows), vector(typeof(x), rows))
  corner <- matrix(corner, rows, columns)
  named <- dimnames(x)
  if (!is.null(named)) dimnames(corner) <- stats::setNames(list(named[[1L]][seq_len(rows)], named[[2L]][seq_len(columns)]), names(named)[1:2])
  if (length(d) > 2L) cat(sprintf(", , %s\n\n", paste(rep("1", length(d) - 2L), collapse = ", ")))
  print(corner, ...)
  left <- c(
    if (rows < d[1L]) sprintf("%s more rows", format_count(d[1L] - rows)),
    if (columns < d[2L]) sprintf("%s more columns", format_count(d[2L] - columns)),
    if (length(d) > 2L && prod(d[-(1:2)]) > 1) sprintf("%s more matrices", format_count(prod(d[-(1:2)]) - 1))
  )
  if (length(left)) cat("... and ", paste(left, collapse = ", "), "\n", sep = "")
}

# The first `n` elements as an ordinary vector, with names.
first <- function(x, n) {
  n <- min(n, length(x))
  y <- .Call(C_fetch, x, 0, n)
  if (!is.null(names(x)) && is.null(dim(x))) names(y) <- names(x)[seq_len(n)]
  y
}

#' @rdname print.gpu_array
#' @export
format.gpu_array <- function(x, ..., what = c("values", "header")) {
  if (match.arg(what) == "header") header(x) else format(collect(x), ...)
}

#' @importFrom utils str
#' @export
str.gpu_array <- function(object, ...) {
  info <- gpu_info(object)
  d <- dim(object)
  extents <- if (is.null(d)) paste0("1:", format(info$length, scientific = FALSE)) else paste0("1:", d, collapse = ", ")
  state <- if (info$pending > 0) {
    sprintf("%d operation%s recorded", as.integer(info$pending), if (info$pending > 1) "s" else "")
  } else {
    values <- format(first(object, 10L), digits = 3L, trim = TRUE)
    paste0(paste(values, collapse = " "), if (info$length > 10) " ...")
  }
  cat(sprintf(" gpu_array %s [%s] on %s: %s\n", info$dtype, extents, info$device, state))
  named <- attributes(object)
  named <- named[setdiff(names(named), c("class", "dim", "gpu_dtype"))]
  for (name in names(named)) {
    cat(sprintf(" - attr(*, \"%s\")=", name))
    str(named[[name]], ...)
  }
  invisible()
}

#' @rdname print.gpu_array
#' @export
summary.gpu_array <- function(object, ..., digits) {
  if (!is.numeric(object) || !is.null(dim(object))) return(summary(collect(object), ...))
  missing <- is.na(object)
  count <- sum(missing)
  if (count > 0) object <- object[!missing]
  quartiles <- stats::quantile(object, names = FALSE)
  value <- c(quartiles[1:3], mean(object), quartiles[4:5])
  if (!missing(digits)) value <- signif(value, digits)
  # base R's own object for this many values, so that it prints as the running R prints one
  out <- summary(c(0, if (count > 0) NA))
  out[] <- c(value, if (count > 0) count)
  out
}

#' @importFrom utils .DollarNames
#' @export
.DollarNames.gpu_array <- function(x, pattern = "") character()
