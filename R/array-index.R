# Subsetting and assignment. Names and dimensions follow base R's rules here; the elements are moved on the device.

# The positions of subscripts among names, NA for unknown ones. As in base R, "" and NA match no name.
match_names <- function(i, names) {
  at <- base::match(i, names)
  at[is.na(i) | !nzchar(i)] <- NA
  at
}

# The position of the element with this name, for `[[`; the subscript itself if it is not one name of an element.
place_of_name <- function(x, i) {
  at <- if (length(i) == 1L && !is.object(i)) match_names(i, names(x))
  if (length(at) && !is.na(at)) at else i
}

# A subscript in the form that the device takes: names become 1-based positions, factors their codes. With `bounded`,
# unknown names are invalid. A subscript that base R would refuse signals bad_subscript().
positional <- function(i, names, bounded) {
  if (is_gpu(i)) return(if (is.complex(i)) bad_subscript() else i)
  if (is.character(i)) {
    at <- match_names(i, names)
    if (bounded && anyNA(at)) bad_subscript()
    return(at)
  }
  if (is.factor(i)) return(unclass(as.integer(i)))
  if (is.logical(i) || is.numeric(i)) return(if (is.object(i) && !inherits(i, "integer64")) as.vector(i) else i)
  if (is.null(i)) return(integer())
  bad_subscript()
}

# Signals an invalid subscript. `with_base_fallback()` catches it and lets base R word the error.
bad_subscript <- function() stop(structure(class = c("verdigris_fault", "error", "condition"),
  list(message = "subscript", call = NULL)))

# Evaluates the body. If a subscript is invalid, calls base R's `f` on host copies instead, which words the error (or
# accepts a rare form that this package does not handle).
with_base_fallback <- function(body, f, x, subscripts, ...) {
  out <- tryCatch(body, verdigris_fault = identity)
  if (inherits(out, "verdigris_fault")) call_base_with_subscripts(f, x, subscripts, ...) else out
}

call_base_with_subscripts <- function(f, x, subscripts, ...) {
  subscripts <- lapply(subscripts, function(g) if (is.null(g)) quote(expr = ) else host_copy(g[[1L]], silent = TRUE))
  out <- call_base(f, c(list(host_copy(x, exact = TRUE, silent = TRUE)), subscripts, list(...)))
  if (inherits(out, "integer64")) return(as_gpu(out, device = gpu_device(x)))
  if (is.object(out) || !(is.numeric(out) || is.logical(out) || is.complex(out))) return(out)
  .Call(C_result, out, if (typeof(out) == typeof(x)) gpu_dtype(x), gpu_device(x))
}

# The positions (from 1) of the elements that the rows of an index matrix select.
matrix_positions <- function(i, d, names) {
  if (is.character(i)) {
    if (is.null(names)) bad_subscript()
    missing <- is.na(i)
    at <- vapply(seq_along(d), function(k) match_names(i[, k], names[[k]]), integer(nrow(i)))
    if (any(is.na(at) & !missing)) bad_subscript()
    i <- at
    dim(i) <- c(length(i) / length(d), length(d))
  }
  if (is.double(i)) i <- trunc(i)
  if (any(i > rep(d, each = nrow(i)), na.rm = TRUE) || any(i < 0, na.rm = TRUE)) bad_subscript()
  # As in base R, the first 0 or NA in a row decides: a 0 drops the row.
  first <- rowSums(i == 0, na.rm = TRUE) > 0
  if (any(first) && anyNA(i))
    first[first] <- apply(i[first, , drop = FALSE], 1L, function(row) row[is.na(row) | row == 0][1L] %in% 0)
  i <- i[!first, , drop = FALSE]
  as.vector(1 + (i - 1) %*% c(1, cumprod(d))[seq_along(d)])
}

is_index_matrix <- function(i, d) {
  !is.null(d) && is.matrix(i) && (is.numeric(i) || is.character(i)) && ncol(i) == length(d)
}

#' Subsets and assignment
#'
#' `x[i]`, `x[i, j]` and `x[[i]]` work as in base R, for positive, negative, zero, `NA`, logical and character
#' subscripts and index matrices; subscripts may themselves be arrays. Ranges are views of the same memory. Other
#' subsets are recorded: the kernel that reads the result gathers the elements itself, so `sum(x[i])` and `x[i] + y[i]`
#' store no intermediate result. On the cpu device `x[i, j]` of a computed array is a copy.
#'
#' After `x[i] <- value` other references to `x` keep the old values. The elements are written in place if there are no
#' such references: no other variable, list, closure or promise refers to `x`, and no view, recorded operation, export
#' or graph to its memory (unused views and operations count until R has collected them). The same holds for `x[i, j]`,
#' `x[[i]]` and `diag(x)`. Otherwise, and if `value` reads `x`, one kernel fills a second buffer, which becomes the
#' buffer of `x`. In-place assignment requires that a subscript consist of numbers, logicals, variables, or arithmetic,
#' comparisons, `c()`, `:`, `length()`, `seq_len()` or `is.na()` of these: other calls might keep a reference to `x`, so
#' they cause a copy, as does assignment by name. `"[<-"(x, i, value = v)`, called as a function, returns a new array.
#'
#' Operations recorded in `x` are computed first, unless they are a few operations on one array: `(x * 2)[i]` is
#' `x[i] * 2`. Subscripts that are R vectors are checked on the host and copied; the range of a subscript that is an
#' array is checked on the device (to which it is moved first), and `x[x > 0]` waits for the number of elements that it
#' selects.
#' @param x An array.
#' @param i,... Subscripts: one, or one for each dimension.
#' @param drop Whether dimensions of extent one are dropped.
#' @param value The new elements, recycled: an R vector, or an array on the same device. As in base R the result has the
#'   common type: doubles turn an integer array into a double one, but take the precision of a float32 array. R integers
#'   and logicals that all fit an int8, uint8 or int16 array (`NA` does not fit uint8) keep its dtype; others make it
#'   int32. With values that are not numeric, such as strings, the result is an ordinary vector.
#' @returns An array on the same device; for `[[` an R number.
#' @section Errors:
#' Base R's errors and messages; `verdigris_error_dtype` for complex subscripts, `verdigris_error_memory`.
#' @examples
#' m <- as_gpu(matrix(1:6, 2), device = "cpu")
#' m[, 2:3]
#' m[m > 2]
#' m[1, ] <- 0L
#' m
#' m[[2, 3]]
#' @name subsetting
NULL

#' @rdname subsetting
#' @export
`[.gpu_array` <- function(x, ..., drop = TRUE) {
  out <- .External2(C_subset)
  # C returns a list of subscripts for R code to handle: names, index matrices and invalid subscripts.
  if (!is.list(out)) return(out)
  # x[] with a class of the user's own, which base R drops, and nothing else
  if (!length(out) || length(out) == 1L && is.null(out[[1L]]))
    return(with_attributes(x, attributes(x)[names(attributes(x)) != "class"]))
  with_base_fallback(select(x, out, drop), `[`, x, out, drop = drop)
}

# Base R's method queries the extents of an array, and takes twice as long.
#' @rdname subsetting
#' @usage NULL
#' @importFrom utils head
#' @export
head.gpu_array <- function(x, n = 6L, ...) {
  if (is_plain(x) && is.numeric(n) && length(n) == 1L && isTRUE(n >= 0) && ...length() == 0L)
    x[seq_len(min(n, length(x)))] else NextMethod()
}

select <- function(x, given, drop) {
  out <- .Call(C_take, x, if (length(given) > 1L) on_axes(x, given) else list(on_vector(x, given[[1L]][[1L]])), drop)
  if (is.character(out)) bad_subscript()
  time <- attr(x, "tsp")
  if (is.null(time) || length(given) != 2L || !is.null(given[[1L]]) || !length(out)) return(out)
  # Columns of a time series remain a time series.
  names <- if (!is.null(dim(out))) list(NULL, colnames(out) %||% paste("Series", seq_len(ncol(out))))
  with_attributes(out, c(attributes(out)["dim"], list(dimnames = names)[!is.null(names)], list(tsp = time)))
}

on_axes <- function(x, given) {
  if (length(given) != length(dim(x))) bad_subscript()
  names <- dimnames(x)
  Map(function(g, k) if (!is.null(g)) {
    # Names of an array without dimnames are an error, even if there are none.
    if (is.null(names) && is.character(g[[1L]])) bad_subscript()
    positional(g[[1L]], names[[k]], TRUE)
  }, given, seq_along(given))
}

on_vector <- function(x, i) if (is_index_matrix(i, dim(x))) matrix_positions(host_copy(i), dim(x), dimnames(x)) else
  positional(i, names(x), FALSE)

# The position (from 1) of one element on each axis. Each subscript must be one name or one number.
single <- function(given, d, names) {
  if (length(given) != length(d)) bad_subscript()
  Map(function(i, extent, names) {
    i <- host_copy(i, silent = TRUE)
    if (length(i) != 1L || is.object(i)) bad_subscript()
    at <- if (is.character(i)) match_names(i, names) else if (is.numeric(i)) trunc(i) else NA
    if (is.na(at) || at < 1 || at > extent) bad_subscript()
    at
  }, given, d, if (is.null(names)) vector("list", length(d)) else names)
}

# The subscripts `i` and `...` of the call with this frame: each in a list, NULL for an empty one.
subscripts_given <- function(frame) {
  dots <- as.list(eval(quote(substitute(list(...))), frame))[-1L]
  empty <- vapply(dots, identical, NA, quote(expr = ))
  out <- lapply(seq_along(dots), function(k) if (!empty[k]) list(eval(call("...elt", k), frame)))
  c(list(if (!eval(quote(missing(i)), frame)) list(frame$i)), stats::setNames(out, names(dots)))
}

#' @rdname subsetting
#' @export
`[[.gpu_array` <- function(x, i, ...) {
  if (!missing(i) && is.character(i) && !...length()) i <- place_of_name(x, i)
  out <- .External2(C_subset2)
  if (!is.null(out)) return(out)
  given <- subscripts_given(environment())
  if (any(vapply(given, is.null, NA))) return(as.vector(call_base_with_subscripts(`[[`, x, given)))
  given <- lapply(given, `[[`, 1L)
  flat <- length(given) == 1L
  d <- if (flat) length(x) else dim(x)
  names <- if (flat) list(names(x)) else dimnames(x)
  as.vector(with_base_fallback(select(x, lapply(single(given, d, names), list), TRUE), `[[`, x, lapply(given, list)))
}

#' @rdname subsetting
#' @export
`[<-.gpu_array` <- function(x, ..., value) {
  given <- .External2(C_replace)
  if (!is.list(given)) return(given)
  if (missing(value)) {
    # Called as a function with the value unnamed: it is the last argument.
    value <- given[[length(given)]][[1L]]
    given <- given[-length(given)]
  }
  # With a value that is not numeric the result is a host vector, whose type base R decides.
  if (!(is.numeric(value) || is.logical(value) || is.complex(value)) || (is.object(value) && !is_gpu(value) &&
    !inherits(value, "integer64"))) {
    args <- lapply(given, function(g) if (is.null(g)) quote(expr = ) else host_copy(g[[1L]]))
    return(call_base(`[<-`, c(list(host_copy(x)), args, list(value = value))))
  }
  with_base_fallback(assign_part(x, given, value), `[<-`, x, given,
    value = host_copy(value, exact = TRUE, silent = TRUE))
}

names_drop_dim <- function() {
  x <- base::array(1L, 1L, list("a"))
  x["a"] <- 2L
  is.null(dim(x))
}

assign_part <- function(x, given, value) {
  new_names <- NULL
  i <- if (length(given) == 1L) given[[1L]][[1L]]
  if (length(given) > 1L) {
    at <- on_axes(x, given)
  } else if (is.character(i) && !is_index_matrix(i, dim(x))) {
    found <- match_names(i, names(x))
    unknown <- i[is.na(found)]
    # As in base R, a vector remains; before R 4.6 even if every name is known.
    if (!is.null(dim(x)) && (length(unknown) || names_drop_dim())) {
      names <- names(x)
      dim(x) <- NULL
      if (!is.null(names)) names(x) <- names
    }
    # Each "" and each NA is an element of its own.
    apart <- is.na(unknown) | !nzchar(unknown)
    first <- apart | !duplicated(unknown)
    place <- base::match(unknown, unknown[first])
    place[apart] <- cumsum(first)[apart]
    found[is.na(found)] <- length(x) + place
    new_names <- c(names(x) %||% rep("", length(x)), unknown[first])
    at <- list(found)
  } else {
    at <- list(if (length(given) == 1L && !is.null(given[[1L]])) on_vector(x, i))
  }
  out <- .Call(C_put, x, at, value, new_names)
  if (is.character(out)) bad_subscript()
  out
}

#' @rdname subsetting
#' @export
`[[<-.gpu_array` <- function(x, i, ..., value) {
  # Base R's assignment does not distinguish the name "NA" from a missing one.
  if (!missing(i) && is.character(i) && !...length() && !identical(as.vector(i), "NA")) i <- place_of_name(x, i)
  out <- .External2(C_replace_element)
  if (!is.null(out)) return(out)
  given <- subscripts_given(environment())
  if (missing(value)) {
    value <- given[[length(given)]][[1L]]
    given <- given[-length(given)]
  }
  if (any(vapply(given, is.null, NA)))
    return(call_base_with_subscripts(`[[<-`, x, given, value = host_copy(value, silent = TRUE)))
  given <- lapply(given, `[[`, 1L)
  plain <- is_gpu(value) || !is.object(value) && (is.numeric(value) || is.logical(value) || is.complex(value))
  body <- quote({
    if (!plain || length(value) != 1L) bad_subscript()
    flat <- length(given) == 1L
    # Base R's assignment does not distinguish the name "NA" from a missing one.
    if (flat && identical(as.vector(given[[1L]]), "NA")) bad_subscript()
    at <- single(given, if (flat) length(x) else dim(x), if (flat) list(names(x)) else dimnames(x))
    assign_part(x, lapply(at, list), value)
  })
  # bit64's method would round values, and write base R's NA into gaps.
  if (is_int64(x) && plain && length(value) == 1L) return(assign_int64_element(x, given, value))
  fronted_like(with_base_fallback(eval(body), `[[<-`, x, lapply(given, list), value = host_copy(value,
    silent = TRUE)), x)
}

# x[[...]] <- value for an int64 array: base R finds the position among the positions, and words the errors. A name or
# number beyond the elements appends.
assign_int64_element <- function(x, given, value) {
  i <- if (length(given) == 1L) host_copy(given[[1L]], silent = TRUE)
  if (length(i) == 1L && !is.object(i) && is.numeric(i) && isTRUE(i >= length(x) + 1))
    return(assign_part(x, list(list(i)), value))
  places <- `attributes<-`(as.double(seq_along(x)), attributes(blank(x)))
  if (is.null(dim(x))) names(places) <- names(x)
  given <- lapply(given, host_copy, silent = TRUE)
  # The assigned element becomes 0. Base R's assignment checks the subscripts.
  done <- call_base(`[[<-`, c(list(places), given, list(value = 0)))
  assign_part(x, list(list(if (length(done) > length(x)) i else base::which(done == 0))), value)
}

#' Transpose and permute arrays
#'
#' `t()` and `aperm()` return views of the same memory; no data are moved until the values are needed in another order.
#' @param x,a An array.
#' @param perm,resize,... As in [base::aperm()].
#' @returns An array with permuted dimensions and dimnames. Recorded operations are computed first; the call does not
#'   wait.
#' @section Errors:
#' Base R's errors, for an invalid `perm`.
#' @examples
#' t(as_gpu(matrix(1:6, 2), device = "cpu"))
#' dim(aperm(as_gpu(array(1:24, 2:4), device = "cpu"), c(2, 3, 1)))
#' @name transpose
NULL

#' @rdname transpose
#' @export
t.gpu_array <- function(x) {
  # only `dim` and `class`
  if (length(attributes(x)) == 2L && length(attr(x, "dim")) == 2L) return(fronted_like(.Call(C_transpose, x), x))
  out <- transposed(x)
  names <- names(attributes(x))
  kept <- names[is.na(base::match(names, c("class", "dim", "dimnames", "names", "tsp", "gpu_dtype")))]
  fronted_like(if (length(kept)) with_attributes(out, c(attributes(out), attributes(x)[kept])) else out, x)
}

transposed <- function(x) {
  d <- attr(x, "dim")
  if (length(d) > 2L) stop_as_base("argument is not a matrix")
  if (length(d) < 2L) {
    names <- if (is.null(d)) names(x) else dimnames(x)[[1L]]
    out <- .Call(C_permute, x, length(x), 1L)
    dim(out) <- c(1L, length(x))
    if (!is.null(names)) {
      axis <- names(dimnames(x))
      dimnames(out) <- stats::setNames(list(NULL, names), if (!is.null(axis)) c("", axis))
    }
    return(out)
  }
  out <- .Call(C_permute, x, d, 2:1)
  dim(out) <- d[2:1]
  names <- attr(x, "dimnames")
  if (!is.null(names)) dimnames(out) <- names[2:1]
  out
}

#' @rdname transpose
#' @export
aperm.gpu_array <- function(a, perm = NULL, resize = TRUE, ...) {
  d <- dim(a)
  order <- if (is.null(perm)) rev(seq_along(d)) else margin_axes(a, perm)
  if (is.null(d) || length(order) != length(d) || !is_flag(resize))
    return(call_base_with_subscripts(aperm, a, list(list(perm)), resize = resize))
  out <- .Call(C_permute, a, d, order)
  if (!resize) {
    dim(out) <- d
    return(out)
  }
  perm <- order
  dim(out) <- d[perm]
  if (!is.null(dimnames(a))) dimnames(out) <- dimnames(a)[perm]
  out
}

# The array as a plain vector, on its device.
as_flat <- function(x) {
  if (is.null(dim(x)) && is.null(names(x))) return(x)
  .Call(C_permute, x, length(x), 1L)
}
