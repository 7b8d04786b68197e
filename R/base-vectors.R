# Methods for base R's generics on vectors that are not elementwise. Where there is no device code, they run on the
# host, and the result is copied back to the array's device.

# Applies f to a host copy. The result is an array of x's dtype on x's device.
through_host <- function(x, f, ...) {
  info <- gpu_info(x)
  as_gpu(f(ordinary_copy(x, exact = TRUE), ...), dtype = info$dtype, device = info$device)
}

#' Join, repeat and reverse arrays
#'
#' Base R's generics for arrays. `rev()` and, if all elements are repeated equally often, `rep()` return views; `c()`
#' copies the elements once, on the device. `all.equal()` reads the arrays on the host; it also compares arrays with
#' ordinary vectors.
#'
#' `unlist()` of a list of arrays and numbers, in any order, returns an array.
#'
#' The method of `c()` is called if the first argument is an array: `c(x, 1)` is an array, `c(1, x)` an ordinary vector,
#' because base R dispatches on the first argument only. [vctrs::vec_c()], and therefore tibble and dplyr, combines
#' arrays and numbers in any order to an array, by its own rules for types; slices of columns stay on the device.
#' @param x An array.
#' @param ... For `c()` arrays and numbers. Otherwise passed on to base R's method.
#' @param recursive,use.names As in [base::c()] and [base::unlist()].
#' @param times,length.out,each As in [base::rep()].
#' @param row.names,optional,nm As in [base::as.data.frame()].
#' @returns `rev()`, `rep()` and `c()`: an array on the device of `x` (of the first array), of its dtype if that can
#'   hold the elements; `c()` and `unlist()` with arguments that are not numeric return base R's result.
#'   `as.data.frame()`: a data frame whose columns are arrays. `all.equal()`: as in base R.
#' @section Errors:
#' The errors of [collect()] and [as_gpu()].
#' @examples
#' x <- as_gpu(c(3, 1, 3), device = "cpu")
#' c(x, 4)
#' rev(x)
#' rep(x, 2)
#' as.data.frame(as_gpu(matrix(1:4, 2), device = "cpu"))
#' all.equal(x, c(3, 1, 3))
#' unlist(list(a = 1, b = x))
#' @name vectors
NULL

#' @rdname vectors
#' @export
rev.gpu_array <- function(x) {
  n <- length(x)
  # Positions beyond the integers would take as much memory of the host as the elements.
  if (n > .Machine$integer.max && is.null(names(x)) && length(dim(x)) != 1L)
    return(strided(x, n, 1, n, step = -1, start = n - 1))
  if (n) x[n:1L] else x
}

#' @rdname vectors
#' @export
rep.gpu_array <- function(x, times = 1, length.out = NA, each = 1, ...) {
  plain <- function(k, least) is.numeric(k) && !is_gpu(k) && length(k) == 1L && isTRUE(k >= least && k < 2^52)
  all_plain <- ...length() == 0L && plain(times, 0) && plain(each, 1) && (identical(length.out, NA) ||
    plain(length.out, 0))
  if (all_plain && length(x) == 0L && (is.na(length.out) || length.out == 0)) return(x)
  if (!all_plain || length(x) == 0L) {
    at <- call_base(base::rep, list(seq_along(x), times = host_copy(times), length.out = length.out, each = each, ...))
    if (length(x) == 0L && length(at) == 0L) return(x)
    y <- strip(x)[at]
    # Base R sets empty names when it lengthens an empty vector.
    if (!is.null(names(x))) names(y) <- if (length(x)) names(x)[at] else character(length(y))
    return(y)
  }
  each <- trunc(each)
  y <- if (is.na(length.out)) repeated(x, each, trunc(times)) else recycle(repeated(x, each), trunc(length.out))
  if (!is.null(names(x))) names(y) <- rep(names(x), times = times, length.out = length.out, each = each)
  y
}

# Base R would query the length of each element.
#' @rawNamespace S3method(lengths,gpu_array)
lengths.gpu_array <- function(x, use.names = TRUE) {
  like <- blank(x)
  if (!isTRUE(use.names)) dimnames(like) <- NULL else if (is.null(dim(x))) names(like) <- names(x)
  base::lengths(like)
}

# As in base R, the results have no names, with one exception below. The dots are needed because R CMD check takes these
# functions for methods of rep().
#' @rawNamespace S3method(rep.int,gpu_array)
rep.int.gpu_array <- function(x, times, ...) {
  if (!is_count(times)) return(placed(x, call_base(base::rep.int, list(seq_along(x), host_copy(times)))))
  strip(rep.gpu_array(strip(x), times))
}
#' @rawNamespace S3method(rep_len,gpu_array)
rep_len.gpu_array <- function(x, length.out, ...) {
  if (!is_count(length.out)) {
    at <- call_base(base::rep_len, list(seq_along(x), host_copy(length.out)))
    if (length(x)) return(placed(x, at))
    length.out <- length(at)
  }
  # Base R keeps the attributes of an empty vector.
  if (!length(x)) return(rep.gpu_array(x, length.out = length.out))
  strip(rep.gpu_array(strip(x), length.out = length.out))
}

# A non-numeric argument decides the class of the result on the host, as for base vectors.
#' @rdname vectors
#' @export
c.gpu_array <- function(..., recursive = FALSE, use.names = TRUE) {
  parts <- list(...)
  if (missing(use.names) && missing(recursive) && is.null(names(parts))) {
    out <- .Call(C_combine, parts)
    if (!is.null(out)) return(out)
  }
  if (!is_switch(use.names) || !is_switch(recursive))
    return(hosted(c, c(parts, list(recursive = recursive, use.names = use.names))))
  # Most calls combine numbers without names.
  bare <- !use.names || is.null(names(parts))
  for (x in parts) if (!is_number(x) || use.names && !is.null(names(x))) bare <- FALSE
  if (isTRUE(bare)) return(join(parts))
  plain <- vapply(parts, function(x) is.null(x) || is_number(x) || inherits(x, "integer64"), NA)
  if (!all(plain)) {
    host <- lapply(parts, function(x) {
      if (!is_gpu(x)) return(x)
      report_read(x)
      y <- as.vector(x)
      names(y) <- names(x)
      y
    })
    return(do.call(c, c(host, list(recursive = recursive, use.names = use.names))))
  }
  y <- join(unname(lapply(parts[!vapply(parts, is.null, NA)], as_elements)))
  names <- joined_names(parts, use.names)
  if (!is.null(names)) names(y) <- names
  y
}

holds_array <- function(x) .Call(C_holds_array, x)

#' @rdname vectors
#' @export
unlist <- interposed("unlist", quote(.Call(.ours$C_holds_array, x)), unlist_arrays(x, recursive, use.names),
  arguments = "x", is = holds_array)

unlist_arrays <- function(x, recursive, use.names) {
  within <- function(x, f) if (is.list(x)) `attributes<-`(lapply(x, within, f), attributes(x)) else
    if (is.null(x)) NULL else f(x)
  leaves <- function(x) if (is.list(x)) base::unlist(lapply(unname(x), leaves), FALSE, FALSE) else list(x)
  # A list with a class may have a method. Without `recursive`, a list of lists remains a list.
  usable <- is_switch(use.names) && is_switch(recursive) && (!is.object(x) || is.data.frame(x)) &&
    (recursive || !any(vapply(x, is.list, NA)))
  flat <- if (usable) with_integer64(leaves(x))
  if (!usable || !all(vapply(flat, function(part) is.null(part) || is_number(part), NA))) {
    return(call_base(base::unlist, list(within(x, host_copy), recursive, use.names)))
  }
  y <- join(lapply(flat[!vapply(flat, is.null, NA)], as_elements))
  has_names <- function(x) !is.null(names(x)) || is.list(x) && any(vapply(x, has_names, NA))
  # The names follow from a list of vectors of the same lengths.
  if (use.names && has_names(x))
    names(y) <- names(base::unlist(unclass(within(x, function(v) `names<-`(logical(length(v)), names(v))))))
  y
}

#' @rdname vectors
#' @usage NULL
#' @rawNamespace S3method(base::all.equal,gpu_array)
all.equal.gpu_array <- function(target, current, ...) {
  if (is_sparse(target) || is_sparse(current)) return(all.equal.gpu_sparse(target, current, ...))
  # bit64 compares only integer64 with integer64.
  exact <- is_int64(target) && is_int64(current) && is.null(attr(target, "tsp")) && is.null(attr(current, "tsp"))
  base::all.equal(host_copy(target, exact = exact), host_copy(current, exact = exact), ...)
}

# Base R dispatches on the target only, and would report different classes for an ordinary vector and an array.
#' @rdname vectors
#' @usage NULL
#' @rawNamespace export(all.equal)
all.equal <- interposed("all.equal", c("target", "current"), all.equal.gpu_array(target, current, ...),
  class = ON_DEVICE)

# The columns of the data frame are arrays.
#' @rdname vectors
#' @export
as.data.frame.gpu_array <- function(x, row.names = NULL, optional = FALSE, ..., nm = deparse1(substitute(x))) {
  # model.frame() converts objects, and refuses ordinary matrices and vectors. So arrays are refused too.
  if (identical(sys.function(sys.parent()), stats::model.frame.default)) {
    call <- sys.call(sys.parent())
    tryCatch(stats::model.frame.default(~1, blank(x)), error = function(e) stop(simpleError(conditionMessage(e), call)))
  }
  if (is_viewer(sys.function(sys.parent())))
    return(as.data.frame(viewed(x), row.names = row.names, optional = optional, ..., nm = nm))
  if (length(dim(x)) > 2L)
    return(as.data.frame(host_copy(x, silent = TRUE), row.names = row.names, optional = optional, ...))
  # Base R checks the row names and words the errors.
  if (!is.null(row.names))
    row.names <- attr(call_base(base::as.data.frame, list(blank(x), row.names = row.names, optional = optional)),
    "row.names")
  if (length(dim(x)) == 2L) {
    columns <- lapply(seq_len(ncol(x)), function(j) {
      strip(x[, j])
    })
    names <- colnames(x) %||% if (!optional) character(length(columns))
    empty <- !nzchar(names)
    names[empty] <- paste0("V", seq_along(columns))[empty]
    if (length(columns)) names(columns) <- names
    rows <- row.names %||% rownames(x)
    n <- nrow(x)
    # Base R makes row names unique.
    if (is.character(rows) && length(rows) == n) {
      frame <- structure(columns, row.names = .set_row_names(n), class = "data.frame")
      return(base::`.rowNamesDF<-`(frame, make.names = TRUE, value = rows))
    }
  } else {
    named <- names(x)
    columns <- list(if (is.null(named) && is.null(dim(x))) x else strip(x))
    if (!optional) names(columns) <- nm
    n <- length(x)
    rows <- row.names %||% if (n == 0L) character() else if (!is.null(named) && !anyDuplicated(named)) named
  }
  structure(columns, row.names = rows %||% .set_row_names(n), class = "data.frame")
}
