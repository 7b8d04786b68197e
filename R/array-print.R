# Printing arrays. Each method fetches only the elements that it shows; of a large recorded array only those are
# computed. `str()` and the methods that editors call compute nothing.

# A vector of at most SHOWN_WHOLE elements is shown completely, of a longer one the first SHOWN_FIRST.
SHOWN_WHOLE <- 100L
SHOWN_FIRST <- 20L
# Rows and columns shown of a larger matrix.
SHOWN_ROWS <- 10L
SHOWN_COLUMNS <- 8L
# The number of elements passed to a viewer or a document.
VIEWED <- 1000L

#' Print arrays
#'
#' `print()` shows the type, shape and device of an array and its elements: all elements of a short array, the first
#' ones of a long array. Only the printed elements are copied from the device. For a long recorded array only these
#' elements are computed, and the array stays recorded. `str()` and `format(x, what = "header")` compute nothing;
#' `str()` shows elements if they have been computed.
#'
#' [utils::View()] and RStudio's viewer receive the first 1,000 elements, with a message that says so; in a column of a
#' data frame the remaining elements are shown as dots. In a knitr document a chunk prints as R does, and inline code
#' shows up to 1,000 elements of a vector, or the first ones of a longer vector.
#'
#' An array that was freed, and an ordinary vector that merely carries the class (for example after it was read from a
#' file, see [as_gpu()]), are printed with a note that says so.
#'
#' @param x,object An array.
#' @param n How many elements of a longer vector to show.
#' @param what `"values"` formats every element on the host; `"header"` returns one line that describes the array.
#' @param digits As in [base::summary()].
#' @param ... Passed on to the method for ordinary vectors.
#' @returns `print()`: `x`, invisibly. `format()`: strings in the shape of `x`. `summary()`: base R's result, computed
#'   on the device.
#' @examples
#' x <- as_gpu(seq(0, 1, length.out = 1000), device = "cpu")
#' x
#' str(x)
#' summary(x)
#' @export
print.gpu_array <- function(x, ..., n = SHOWN_FIRST) {
  if (is_text_of_array(x)) {
    print(unclass(x), ...)
    return(invisible(x))
  }
  cat(header(x), "\n", sep = "")
  d <- dim(x)
  if (gpu_info(x)$state == "freed") return(invisible(x))
  if (length(d) < 2L) print_vector(x, n, ...) else if (length(x) <= SHOWN_WHOLE) print_values(whole(x), ...) else
    print_corner(x, d, ...)
  invisible(x)
}

setMethod("show", "gpu_array", function(object) print(object))

header <- function(x) {
  info <- gpu_info(x)
  extents <- if (is.null(dim(x))) info$length else dim(x)
  shape <- paste(format(extents, scientific = FALSE, trim = TRUE), collapse = " x ")
  sprintf("<gpu_array %s [%s]%s>", info$dtype, shape, where(info))
}

where <- function(info) {
  switch(info$state,
    device = paste(" on", info$device),
    freed = ", freed by gpu_free()",
    host = sprintf(" in ordinary memory: as_gpu() moves it to %s", info$device)
  )
}

print_vector <- function(x, n, ...) {
  length <- length(x)
  if (length <= max(SHOWN_WHOLE, n)) return(print_values(whole(x), ...))
  print_values(first(x, n), ...)
  cat(sprintf("... and %s more\n", format_count(length - n)))
}

# The upper left corner of a matrix, or of the first matrix of a larger array.
print_corner <- function(x, d, ...) {
  rows <- if (d[1L] <= 2L * SHOWN_ROWS) d[1L] else SHOWN_ROWS
  columns <- min(d[2L], SHOWN_COLUMNS)
  if (length(d) > 2L) cat(sprintf(", , %s\n\n", paste(rep("1", length(d) - 2L), collapse = ", ")))
  print_values(corner(x, d, rows, columns), ...)
  left <- c(
    if (rows < d[1L]) sprintf("%s more rows", format_count(d[1L] - rows)),
    if (columns < d[2L]) sprintf("%s more columns", format_count(d[2L] - columns)),
    if (length(d) > 2L && prod(d[-(1:2)]) > 1) sprintf("%s more matrices", format_count(prod(d[-(1:2)]) - 1))
  )
  if (length(left)) cat("... and ", paste(left, collapse = ", "), "\n", sep = "")
}

corner <- function(x, d, rows, columns) {
  y <- unlist(lapply(seq_len(columns), function(j) fetched(x, (j - 1) * d[1L], rows)))
  if (is.null(y)) y <- vector(typeof(x), 0L)
  y <- matrix(y, rows, columns)
  named <- dimnames(x)
  if (!is.null(named)) dimnames(y) <- stats::setNames(list(named[[1L]][seq_len(rows)], named[[2L]][seq_len(columns)]),
    names(named)[1:2])
  y
}

# The first `n` elements as an ordinary vector, with names.
first <- function(x, n) {
  n <- min(n, length(x))
  y <- fetched(x, 0, n)
  if (!is.null(names(x)) && is.null(dim(x))) names(y) <- names(x)[seq_len(n)]
  y
}

# All elements as an ordinary vector with shape, names and time; int64 as strings of digits.
whole <- function(x) {
  if (gpu_dtype(x) != "int64") return(collect(x))
  y <- fetched(x, 0, length(x))
  attributes(y) <- attributes(x)[c("dim", "dimnames", "names")[c("dim", "dimnames", "names") %in% names(attributes(x))]]
  y
}

# `n` elements for printing, starting at `from` (0-based). Elements of an int64 array are fetched as digits, since
# doubles may not represent them and bit64 may not be installed.
fetched <- function(x, from, n) {
  if (gpu_dtype(x) != "int64") return(.Call(C_fetch, x, from, n))
  format(.Call(C_digits, x, from, n), justify = "right")
}

print_values <- function(y, ...) if (is.character(y)) print(y, ..., quote = FALSE) else print(y, ...)

# Whether x is text that has been given the attributes of the array that it describes, as packages do with what
# format() returns.
is_text_of_array <- function(x) is.character(x) || is.list(x)

#' @rdname print.gpu_array
#' @export
format.gpu_array <- function(x, ..., what = c("values", "header")) {
  if (is_text_of_array(x)) return(format(unclass(x), ...))
  if (one_of("what", what, c("values", "header")) == "header") return(header(x))
  # A viewer formats a whole column of a data frame.
  above <- sys.parent()
  if (length(x) > VIEWED && identical(sys.function(above), base::format.data.frame) &&
    is_viewer(sys.function(sys.parents()[above]))) {
    return(c(format(first(x, VIEWED), ...), rep("...", length(x) - VIEWED)))
  }
  format(whole(x), ...)
}

#' @importFrom utils str
#' @export
str.gpu_array <- function(object, ...) {
  info <- gpu_info(object)
  d <- dim(object)
  extents <- if (is.null(d)) paste0("1:", format(info$length, scientific = FALSE)) else paste0("1:", d, collapse = ", ")
  values <- if (info$state == "freed") {
    ""
  } else if (info$pending > 0) {
    sprintf(": %d operation%s recorded", as.integer(info$pending), if (info$pending > 1) "s" else "")
  } else {
    shown <- fetched(object, 0, min(info$length, 10L))
    paste0(": ", paste(format(shown, digits = 3L, trim = TRUE), collapse = " "), if (info$length > 10) " ...")
  }
  cat(sprintf(" gpu_array %s [%s]%s%s\n", info$dtype, extents, where(info), values))
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
  if (!is.numeric(object) || !is.null(dim(object))) return(summary(host_copy(object), ...))
  missing <- is.na(object)
  count <- sum(missing)
  if (count > 0) object <- object[!missing]
  quartiles <- stats::quantile(object, names = FALSE, type = list(...)$quantile.type %||% 7)
  value <- c(quartiles[1:3], mean(object), quartiles[4:5])
  if (!missing(digits)) value <- signif(value, digits)
  # The class and names come from base R's own summary, so that the result prints as in the running R.
  out <- summary(c(0, if (count > 0) NA))
  out[] <- c(value, if (count > 0) count)
  out
}

#' @importFrom utils .DollarNames
#' @export
.DollarNames.gpu_array <- function(x, pattern = "") character()

# ---- viewers and documents -----------------------------------------------------------------------

# Whether a function is utils::View() or one of RStudio's own functions. They convert the object to a data frame and
# format all of it. View() is not generic, and a generic of that name in this package would hide the View() that RStudio
# installs.
is_viewer <- function(f) {
  identical(f, utils::View) || "tools:rstudio" %in% search() && identical(environment(f),
    as.environment("tools:rstudio"))
}

# The first elements of an array, on the host, for a viewer.
viewed <- function(x) {
  d <- dim(x)
  if (length(d) > 2L) d <- c(d[1L], prod(d[-1L])) # the layout of as.data.frame()
  columns <- if (length(d) < 2L) 1L else min(d[2L], 50L)
  rows <- if (length(d) < 2L) min(length(x), VIEWED) else min(d[1L], VIEWED %/% max(columns, 1L))
  if (rows * columns < length(x)) {
    rlang::inform(sprintf("This shows the first %s of %s elements.", format_count(rows * columns),
      format_count(length(x))))
  }
  if (length(d) < 2L) first(x, rows) else if (length(dim(x)) > 2L) corner(`dim<-`(x, d), d, rows, columns) else
    corner(x, d, rows, columns)
}

# Method for knitr's generic. Inline code formats every element of its value.
knit_print_array <- function(x, ..., inline = FALSE) {
  if (!inline) return(knitr::normal_print(x))
  if (length(x) <= VIEWED) return(as.vector(x))
  paste0(paste(format(first(x, SHOWN_FIRST), trim = TRUE), collapse = ", "), ", ... (", format_count(length(x)),
    " elements)")
}
