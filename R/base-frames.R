# Conversion of data frames of arrays to matrices. Base R's functions would read the columns element by element.

#' Data frames whose columns are arrays
#'
#' A data frame may hold arrays: `as_gpu(frame)` moves its columns to a device, and a column may be assigned an array.
#' Columns, rows and formulas of such a data frame work as in base R. If all columns are arrays on one device,
#' `as.matrix()` and `data.matrix()` return an array there. Margins, [cov()], [cor()], [var()], [dist()] and [apply()]
#' convert the data frame in the same way; for [prcomp()], products and other functions call `as.matrix()` first. Data
#' frames with other columns are passed to base R.
#'
#' The elements are copied once, on the device.
#' @param x,frame A data frame; for `as.matrix()` any object.
#' @param rownames.force,... As in base R.
#' @param na.rm,dims As in [base::colSums()].
#' @returns `as.matrix()`, `data.matrix()`: an array with base R's dimnames. Margins: an array.
#' @section Errors:
#' Base R's errors; `verdigris_error_memory`.
#' @examples
#' d <- as_gpu(data.frame(a = c(1, 2, 4), b = 3:1), device = "cpu")
#' m <- as.matrix(d)
#' cor(m)
#' colMeans(d)
#' @name frames
NULL

# Whether a data frame can be converted to an array: its columns are arrays without dimensions, on one device. Classes
# other than tibbles may have their own methods.
is_matrix_frame <- function(x) {
  if (!is.data.frame(x) || !length(x) || .row_names_info(x, 2L) == 0L) return(FALSE)
  if (!all(class(x) %in% c("data.frame", "tbl_df", "tbl"))) return(FALSE)
  # int64 columns would lose digits as doubles
  all(vapply(x, function(v) inherits(v, "gpu_array") && is.null(dim(v)) && !is_int64(v), NA)) &&
    length(unique(vapply(x, gpu_device, ""))) == 1L
}

matrix_of_frame <- function(x, rownames.force = NA, ...) {
  named <- rownames.force %in% TRUE || !(rownames.force %in% FALSE) && .row_names_info(x) > 0L
  out <- do.call(c.gpu_array, c(unname(as.list(x)), list(use.names = FALSE)))
  dim(out) <- base::dim(x)
  dimnames(out) <- list(if (named) row.names(x), names(x))
  out
}

# A data frame of arrays as a matrix; anything else unchanged.
without_frame <- function(x) if (is_matrix_frame(x)) matrix_of_frame(x) else x

#' @rdname frames
#' @export
as.matrix <- interposed("as.matrix", quote(!missing(x) && is.object(x) && .ours$is_matrix_frame(x)),
  matrix_of_frame(x, ...), class = c("gpu_array", REMOTES), arguments = "x", is = is_matrix_frame)

#' @rdname frames
#' @export
data.matrix <- interposed("data.matrix", quote(!missing(frame) && is.object(frame) && .ours$is_matrix_frame(frame)),
  numbers_of_frame(frame, rownames.force), class = c("gpu_array", REMOTES), arguments = "frame", is = is_matrix_frame)
# As in base R, logicals become integers, and complex numbers their real parts, with a warning.
numbers_of_frame <- function(frame, rownames.force) {
  frame[] <- lapply(frame, function(v) if (is.logical(v)) gpu_cast(v, "int32") else if (is.complex(v)) as.double(v) else
    v)
  matrix_of_frame(frame, rownames.force)
}

# The column names that data.frame() makes of its arguments' expressions.
frame_labels <- function(expressions, given) {
  texts <- vapply(expressions, function(e) deparse(e, nlines = 1L)[1L], "")
  inside <- startsWith(texts, "I(") & endsWith(texts, ")")
  texts[inside] <- substr(texts[inside], 3L, nchar(texts[inside]) - 1L)
  texts[given != ""] <- given[given != ""]
  texts
}
