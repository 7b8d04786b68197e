# Joining, repeating and reshaping arrays. Repetitions and windows are views, which take no memory.

# A view of x, taken as an array of shape `dim`. Axis k of the view has `extent[k]` elements and moves along axis
# `of[k]` of x (fastest axis first) by `step[k]` from index `start[k]` (0-based).
strided <- function(x, dim, of, extent, step = rep(1, length(of)), start = rep(0, length(of))) {
  .Call(C_strided, x, as.double(dim), as.double(of), as.double(start), as.double(step), as.double(extent))
}

# x[at + 1], for positions that are all inside. `[` has to read their range first, and so waits for the device.
elements_at <- function(x, at) .Call(C_gather, x, at)

# A view that repeats every element `each` times and all of that `times` times, without attributes.
repeated <- function(x, each = 1, times = 1) {
  if (each == 1 && times == 1) return(strip(x))
  strided(x, length(x), c(1, 1, 1), c(each, length(x), times), step = c(0, 1, 0))
}

# The elements recycled or cut to length n, without attributes.
recycle <- function(x, n) {
  size <- length(x)
  if (size == n) return(strip(x))
  if (size == 0) return(gpu_full(vector(typeof(x), 1L)[2L], n, dtype = gpu_dtype(x), device = gpu_device(x)))
  if (size == 1) return(repeated(x, each = n))
  if (size > n) return(strided(x, size, 1, n))
  y <- repeated(x, times = ceiling(n / size))
  if (n %% size == 0) y else strided(y, length(y), 1, n)
}

is_number <- function(x) is_array(x) || !is.object(x) && (is.numeric(x) || is.logical(x) || is.complex(x))

# Converts integer64 vectors to arrays if one of the parts is an array: base R would take their bits for doubles.
with_integer64 <- function(parts) {
  if (!.Call(C_any_inherit, parts, "integer64")) return(parts)
  wide <- vapply(parts, is_host_int64, NA)
  if (!is.null(device <- device_of(parts))) parts[wide] <- lapply(parts[wide], as_gpu, device = device)
  parts
}

# The device of the first array of a list.
device_of <- function(parts) for (part in parts) if (is_gpu(part)) return(gpu_device(part))

# Concatenates the parts, in their common dtype.
join <- function(parts, dtype = NULL) .Call(C_join, parts, dtype, device_of(parts))

# Whether base R's function on the host is faster for an array on the cpu device than several device passes. Tests set
# `settings$force_device_path` to disable this, so that the code paths of a GPU are compared with base R on machines
# without one. A host copy beyond the device's memory limit is never preferred: it would not count against the limit.
settings <- new.env(parent = emptyenv())
settings$force_device_path <- FALSE
prefers_host <- function(x) gpu_device(x) == "cpu" && !settings$force_device_path &&
  (length(x) < 2^16 || 8 * length(x) <= gpu_memory("cpu")[["limit"]])

# Sets dimnames if some axis has names.
with_dimnames <- function(x, names) {
  if (any(lengths(names) > 0L)) dimnames(x) <- names
  x
}

# ---- joining -----------------------------------------------------------------------------------------

# The names of the concatenated parts, computed by base R from vectors of the same lengths; NULL if there are none.
joined_names <- function(parts, use.names) {
  named <- !is.null(names(parts)) || any(vapply(parts, function(x) !is.null(names(x)), NA))
  if (!use.names || !named) return(NULL)
  names(do.call(c, lapply(parts, function(x) {
    if (is.null(x)) return(NULL)
    `names<-`(logical(length(x)), names(x))
  })))
}

# Labels of the arguments of cbind() and rbind(): names, or by `deparse.level` symbols or expressions.
labels_of <- function(expressions, level) {
  labels <- names(expressions) %||% character(length(expressions))
  if (level == 0) return(labels)
  for (k in seq_along(expressions)) if (labels[k] == "") {
    e <- expressions[[k]]
    if (level == 1 && is.symbol(e)) labels[k] <- as.character(e) else if (level == 2)
      labels[k] <- deparse(e, control = NULL, nlines = 1L)
  }
  labels
}

# Fast path of cbind() and rbind() for arrays and numbers without names: matrices of a common extent and vectors of that
# length, with labels as names. NULL for other arguments. `bind()` spends more time on checks than on joining.
bind_plain <- function(parts, expressions, level, by_row) {
  if (by_row && settings$force_device_path) return(NULL)
  side <- if (by_row) 2L else 1L
  shared <- length(parts[[1L]])
  for (x in parts) if (length(d <- attr(x, "dim")) == 2L) {
    shared <- d[side]
    break
  }
  counts <- integer(length(parts))
  vectors <- logical(length(parts))
  device <- NULL
  for (k in seq_along(parts)) {
    x <- parts[[k]]
    d <- attr(x, "dim")
    if (inherits(x, "gpu_array")) {
      if (!is.null(attr(x, "tsp"))) return(NULL)
      if (is.null(device)) device <- gpu_device(x)
    } else if (is.object(x) || !(is.numeric(x) || is.logical(x) || is.complex(x))) {
      return(NULL)
    }
    if (is.null(d)) {
      if (length(x) != shared || !is.null(attr(x, "names"))) return(NULL)
      vectors[k] <- TRUE
      counts[k] <- 1L
    } else {
      if (length(d) != 2L || d[side] != shared || !is.null(attr(x, "dimnames"))) return(NULL)
      counts[k] <- d[3L - side]
    }
  }
  if (shared == 0L || is.null(device)) return(NULL)
  labelled <- any(vectors)
  if (labelled && !isTRUE(level == 1) && !isTRUE(level == 0)) return(NULL)
  out <- if (by_row) .Call(C_join_rows, parts, shared, device) else .Call(C_join, parts, NULL, device)
  if (is.null(out)) return(NULL)
  total <- sum(counts)
  # `out` is new: no copies and checks as in the methods for `dim<-` and `dimnames<-` are needed.
  attr(out, "class") <- NULL
  attr(out, "dim") <- if (by_row) c(total, shared) else c(shared, total)
  if (labelled) {
    labels <- labels_of(expressions, level)
    labels[!vectors] <- ""
    if (any(labels != "")) {
      labels <- rep.int(labels, counts)
      attr(out, "dimnames") <- if (by_row) list(labels, NULL) else list(NULL, labels)
    }
  }
  .Call(C_classed, out)
}

bind <- function(parts, labels, given, level, by_row) {
  # Base R's functions: this package's masks of them would inspect their arguments for arrays.
  ifelse <- base::ifelse
  which <- base::which
  unlist <- base::unlist
  names(parts) <- NULL
  if (any(vapply(parts, is_sparse, NA))) return(bind_sparse(parts, labels, by_row, parent.frame()))
  if (!any(vapply(parts, is.data.frame, NA))) parts <- with_integer64(parts)
  f <- if (by_row) base::rbind else base::cbind
  plain <- vapply(parts, function(x) is.null(x) || is_number(x) && !inherits(x, "ts"), NA)
  if (!all(plain) || !any(vapply(parts, is_gpu, NA))) {
    # rbind() and cbind() of data frames take column names from the names of the arguments.
    frame <- any(vapply(parts, is.data.frame, NA))
    vectors <- vapply(parts, function(x) length(dim(x)) != 2L || frame && ncol(x) == 1L && is.null(colnames(x)), NA)
    names(parts) <- ifelse(vectors | given != "", labels, "")
    if (all(names(parts) == "")) names(parts) <- NULL
    if (frame) return(call_base(if (by_row) base::rbind.data.frame else base::cbind.data.frame, parts))
    return(call_base(f, c(host_copies(parts), list(deparse.level = level))))
  }
  side <- if (by_row) 2L else 1L
  extents <- lapply(parts, function(x) if (length(dim(x)) == 2L) dim(x))
  matrices <- !vapply(extents, is.null, NA)
  inner <- vapply(extents[matrices], `[`, 1L, side)
  if (any(inner != inner[1L])) {
    stop_as_base(sprintf("number of %s of matrices must match (see arg %d)", if (by_row) "columns" else "rows",
      which(matrices)[which(inner != inner[1L])[1L]]))
  }
  n <- if (any(matrices)) inner[1L] else max(lengths(parts))
  # As in base R, empty arguments are ignored unless all are empty.
  long <- lengths(parts)
  counts <- matrices | long > 0L | !any(ifelse(matrices, vapply(extents, function(d) (d %||% c(0L, 0L))[side], 1L),
    long) > 0L)
  odd <- which(counts & !matrices & long > 0L & (long > n | n %% pmax.int(long, 1L) != 0L))
  if (length(odd)) warn_as_base(sprintf("number of %s of result is not a multiple of vector length (arg %d)",
    if (by_row) "columns" else "rows", odd[1L]))

  device <- device_of(parts)
  present <- which(counts)
  # rbind() either joins the rows in one pass (cpu), or joins columns and returns a transposed view of them.
  below <- by_row && n > 0L && device == "cpu" && !settings$force_device_path
  turned <- by_row && !below
  columns <- lapply(present, function(k) {
    x <- parts[[k]] %||% logical()
    if (!matrices[k]) return(if (is_gpu(x)) recycle(x, n) else if (length(x) == n) strip(x) else rep_len(strip(x), n))
    if (turned && is_gpu(x)) strip(t(x)) else as_elements(if (turned) t(x) else x)
  })
  size <- vapply(present, function(k) if (matrices[k]) extents[[k]][3L - side] else 1L, 1L)
  # All arguments determine the type, including empty ones.
  types <- lapply(parts[!vapply(parts, is.null, NA)], function(x) if (is_gpu(x)) recycle(x, 0) else as.vector(x)[0L])
  out <- if (below) .Call(C_join_rows, c(columns, types), n, device) else .Call(C_join, c(columns, types), NULL, device)
  if (turned) out <- .Call(C_permute, out, c(n, sum(size)), 2:1)
  dim(out) <- if (by_row) c(sum(size), n) else c(n, sum(size))

  # Base R gives some matrices without elements dimnames that are all NULL.
  if (n == 0L) {
    likes <- lapply(parts, function(x) if (length(dim(x)) == 2L) blank(x) else if (!is.null(x))
      `names<-`(logical(length(x)), names(x)))
    names(likes) <- ifelse(matrices, "", labels)
    names <- attr(suppressWarnings(call_by_place(f, c(likes, list(deparse.level = 0)))), "dimnames")
    if (!is.null(names)) dimnames(out) <- names
    return(out)
  }
  # The shared axis takes the first names found.
  shared <- Filter(Negate(is.null), lapply(present, function(k) if (matrices[k]) dimnames(parts[[k]])[[side]] else
    if (long[k] == n) names(parts[[k]])))
  own <- lapply(present, function(k) if (matrices[k]) dimnames(parts[[k]])[[3L - side]] else if (labels[k] != "")
    labels[k])
  across <- if (!all(vapply(own, is.null, NA))) unlist(base::Map(function(names, n) names %||% character(n), own, size))
  names <- list(if (length(shared)) shared[[1L]], across)
  with_dimnames(out, if (by_row) rev(names) else names)
}

# The elements to be joined. Arrays and integer64 vectors are passed unchanged: C_join ignores their attributes.
as_elements <- function(x) if (is_gpu(x) || inherits(x, "integer64")) x else as.vector(x)

#' Bind arrays by columns or rows
#'
#' [base::cbind()] and [base::rbind()] if at least one argument is an array: the elements are copied once, on the
#' device. On a GPU the result of `rbind()` is a view of row-major memory. If one of the arguments is a data frame, so
#' is the result, and its columns remain arrays; if one is not numeric, such as a string or a factor, base R computes
#' the result on the host.
#' @param ... Arrays, numbers, matrices.
#' @param deparse.level As in [base::cbind()].
#' @returns A matrix of class `gpu_array` on the device of the first array, in the common dtype, with base R's dimnames.
#'   Recorded operations are computed first; the call does not wait.
#' @section Errors:
#' Base R's errors and messages; `verdigris_error_memory`.
#' @examples
#' x <- as_gpu(1:3, device = "cpu")
#' cbind(x, 1, y = x^2)
#' rbind(x, 4:6)
#' @name bind
NULL

#' @rdname bind
#' @export
cbind.gpu_array <- function(..., deparse.level = 1) {
  expressions <- as.list(substitute(list(...)))[-1L]
  parts <- list(...)
  out <- bind_plain(parts, expressions, level_given(base::cbind, deparse.level), FALSE)
  if (!is.null(out)) return(out)
  if (any(vapply(parts, function(x) !is.null(attr(x, "tsp")), NA)) && !any(vapply(parts, is.data.frame, NA))) {
    return(bind_series(parts, expressions))
  }
  deparse.level <- level_given(base::cbind, deparse.level)
  given <- names(expressions) %||% character(length(expressions))
  # Data frames name columns by the expressions at any deparse.level, as data.frame() does.
  frame <- any(vapply(parts, is.data.frame, NA))
  labels <- if (frame) frame_labels(expressions, given) else labels_of(expressions, deparse.level)
  if (frame) return(bind(parts, labels, given, 1, FALSE))
  bind(list(...), if (deparse.level == 2) ifelse(given == "", shortened(labels), labels) else labels, given,
    deparse.level, FALSE)
}

#' @rdname bind
#' @export
rbind.gpu_array <- function(..., deparse.level = 1) {
  expressions <- as.list(substitute(list(...)))[-1L]
  deparse.level <- level_given(base::rbind, deparse.level)
  out <- bind_plain(list(...), expressions, deparse.level, TRUE)
  if (!is.null(out)) return(out)
  given <- names(expressions) %||% character(length(expressions))
  labels <- labels_of(expressions, deparse.level)
  bind(list(...), if (deparse.level == 2) ifelse(given == "", shortened(labels), labels) else labels, given,
    deparse.level, TRUE)
}

# With deparse.level 2, cbind() and rbind() truncate long expressions.
shortened <- function(labels) ifelse(nchar(labels) > 10L, paste0(substr(labels, 1L, 10L), "..."), labels)

# The deparse.level of the call of base R's function, which it does not pass on to its methods.
level_given <- function(f, level) {
  if (identical(sys.function(sys.parent(2L)), f)) level <- get("deparse.level", envir = sys.frame(sys.parent(2L)))
  # Base R's C code coerces the first element to integer, and labels nothing unless it is 0, 1 or 2.
  if (!is.atomic(level) || !length(level)) return(0)
  level <- level[1L]
  if (is.object(level) || !is.numeric(level)) level <- suppressWarnings(as.integer(unclass(level)))
  if (is.na(level)) 0 else trunc(level)
}

# ---- made from elements ------------------------------------------------------------------------------

#' Make matrices and arrays
#'
#' [base::matrix()], [base::array()], [base::outer()], [base::kronecker()], [base::diag()] and related functions for
#' arrays: computed on the device, with views where elements repeat. Without an array among the arguments base R's
#' functions are called.
#'
#' `outer()` and `kronecker()` record their product, which is fused with the operations that use it; a function that is
#' not an operator receives arrays and must compute elementwise, as in base R. `row()`, `col()`, `upper.tri()` and
#' `lower.tri()` of an array return arrays.
#' @param data,x,X,Y Elements, or matrices.
#' @param nrow,ncol,byrow,dimnames,dim,names As in [base::matrix()], [base::array()] and [base::diag()].
#' @param FUN A function of two vectors, or the name of one.
#' @param make.dimnames As in [base::kronecker()].
#' @param as.factor,diag As in [base::row()] and [base::upper.tri()].
#' @param ... Passed on to `FUN`.
#' @returns An array on the device of the argument, with base R's shape and type. The call does not wait.
#' @section Errors:
#' Base R's errors and messages; `verdigris_error_memory`.
#' @examples
#' x <- as_gpu(c(1, 2, 3), device = "cpu")
#' matrix(x, 2, 3, byrow = TRUE)
#' outer(x, 1:2)
#' diag(x)
#' m <- matrix(x, 3, 3)
#' m[upper.tri(m)]
#' @name shape
NULL

# The length of R's longest vectors. Base R raises an error for longer ones.
MOST_ELEMENTS <- 2^52

# Reshapes x for unusual arguments: `places` is what base R's function returns for the indices of x.
placed <- function(x, places) {
  # Evaluated first, so that its errors keep base R's call even if `[` dispatches by S4.
  force(places)
  out <- strip(x)[as.vector(places)]
  with_attributes(out, attributes(places))
}

#' @rdname shape
#' @export
matrix <- interposed("matrix", "data", matrix_of_array(data, nrow, ncol, byrow, dimnames, missing(nrow), missing(ncol)))

matrix_of_array <- function(data, nrow, ncol, byrow, dimnames, no_rows, no_columns) {
  n <- length(data)
  whole <- function(k) is.numeric(k) && !is_gpu(k) && length(k) >= 1L &&
    isTRUE(k[1L] >= 0 && k[1L] <= .Machine$integer.max)
  rows <- if (no_rows && no_columns) n else if (no_rows && whole(ncol)) ceiling(n / trunc(ncol[1L])) else nrow
  columns <- if (no_columns && whole(rows)) (if (no_rows) 1 else ceiling(n / trunc(rows[1L]))) else ncol
  d <- if (whole(rows) && whole(columns)) unname(trunc(c(rows[1L], columns[1L])))
  if (is.null(d) || anyNA(d) || n == 0L || prod(d) != n && n != 1L || prod(d) == 0 ||
    prod(d) > MOST_ELEMENTS || !is_flag(byrow) || !is_labels(dimnames)) {
    args <- c(list(seq_len(n)), if (!no_rows) list(nrow = nrow), if (!no_columns) list(ncol = ncol),
      list(byrow = byrow, dimnames = dimnames))
    return(placed(data, call_base(base::matrix, args)))
  }
  out <- if (n == prod(d)) data else recycle(data, prod(d))
  out <- shaped(if (byrow && n > 1L) .Call(C_permute, out, rev(d), 2:1) else out, d)
  if (length(dimnames)) dimnames(out) <- dimnames
  out
}

#' @rdname shape
#' @export
array <- interposed("array", c("data", "dim"), array_of_array(data, dim, dimnames))

array_of_array <- function(data, dim, dimnames) {
  dim <- host_copy(dim, silent = TRUE)
  if (!is_gpu(data)) return(call_base(base::array, list(data, dim, dimnames)))
  plain <- is.numeric(dim) && !is.object(dim) && is.null(attributes(dim)) && length(dim) &&
    isTRUE(all(dim >= 0 & dim <= .Machine$integer.max))
  if (!plain || !is_labels(dimnames)) return(placed(data, call_base(base::array, list(seq_along(data), dim, dimnames))))
  if (prod(dim) > MOST_ELEMENTS) call_base(base::array, list(0, dim))
  dim <- as.integer(dim)
  out <- recycle(data, prod(dim))
  # One dimension is not that of a vector.
  if (length(dim) > 1L) out <- shaped(out, dim) else dim(out) <- dim
  if (length(dimnames)) dimnames(out) <- dimnames
  out
}

#' @rdname shape
#' @export
outer <- interposed("outer", c("X", "Y"), outer_arrays(X, Y, if (is.character(FUN) && FUN == "*") "*" else
  match.fun(FUN), ...), class = ON_DEVICE)

outer_arrays <- function(X, Y, FUN, ...) {
  # Base R does not treat sparse matrices (like those of Matrix) as arrays here: their elements are used.
  if (is_sparse(X)) X <- strip(gpu_dense(X))
  if (is_sparse(Y)) Y <- strip(gpu_dense(Y))
  if (is_int64(X) || is_int64(Y)) {
    both <- with_integer64(list(X, Y))
    X <- both[[1L]]
    Y <- both[[2L]]
  } else if (is.character(FUN) && is_plain(X) && is_plain(Y) && is.double(X) && is.double(Y) && !...length() &&
    gpu_device(X) == gpu_device(Y)) {
    # For plain double vectors on the cpu device, base R's product makes a single pass over memory.
    if (prefers_host(X)) {
      a <- host_alias(X)
      b <- host_alias(Y)
      dtype <- if (is.null(a) && is.null(b)) product_dtype(X, Y)
      return(.Call(C_result, (a %||% cpu_copy(X)) %*% t(b %||% cpu_copy(Y)), dtype, "cpu"))
    }
    d <- c(length(X), length(Y))
    return(shaped(repeated(X, times = d[2L]) * repeated(Y, each = d[1L]) + 0, d))
  }
  if (!is_number(X) || !is_number(Y)) return(call_base(base::outer, list(host_copy(X), host_copy(Y), FUN, ...)))
  if (identical(FUN, "*") && ...length()) stop_as_base("using ... with FUN = \"*\" is an error")
  shape <- function(x) dim(x) %||% length(x)
  names_of <- function(x) if (is.null(dim(x))) list(names(x)) else dimnames(x) %||% vector("list", length(dim(x)))
  x <- cast_like(X, Y)
  y <- cast_like(Y, X)
  d <- c(shape(X), shape(Y))
  a <- repeated(x, times = length(y))
  b <- repeated(y, each = length(x))
  if (identical(FUN, "*")) {
    out <- matrix_like(a, b)
  } else {
    out <- FUN(a, b, ...)
    if (length(out) != prod(d)) {
      stop_as_base(sprintf("dims [product %d] do not match the length of object [%d]", as.integer(prod(d)),
        length(out)))
    }
  }
  dim(out) <- d
  # As in base R, dimnames are set even if the names of an empty vector leave them empty.
  labelled <- function(x) !is.null(if (is.null(dim(x))) names(x) else dimnames(x))
  if (labelled(X) || labelled(Y)) dimnames(out) <- c(names_of(X), names_of(Y))
  out
}

# An array without dimensions and names.
is_plain <- function(x) is_gpu(x) && is.null(attr(x, "dim")) && is.null(attr(x, "names")) && is.null(attr(x, "tsp"))

# outer() and kronecker() follow base R's matrix product: computed in doubles, each product added to 0. Products of
# int64 remain int64.
matrix_like <- function(a, b) {
  floats <- function(x) is.complex(x) || is.double(x) && !is_int64(x)
  if (floats(a) || floats(b)) return(a * b + 0)
  if (is_int64(a) || is_int64(b)) return(a * b)
  as_doubles(a) * as_doubles(b) + 0
}

as_doubles <- function(x) if (is.double(x)) x else gpu_cast(x, "float64")

# Statistics are computed in float64 and rounded at the end: in float32 squares overflow and means lose digits.
as_float64 <- function(x) if (gpu_dtype(x) == "float64") x else gpu_cast(x, "float64")

#' @rdname shape
#' @usage X \%o\% Y
#' @export
`%o%` <- interposed("%o%", c("X", "Y"), outer_arrays(X, Y, "*"), class = ON_DEVICE)

#' @rdname shape
#' @export
kronecker <- interposed("kronecker", c("X", "Y"), kronecker_arrays(X, Y, if (is.character(FUN) && FUN[[1L]] == "*")
  `*` else match.fun(FUN), make.dimnames, ...), class = ON_DEVICE)
#' @rdname shape
#' @usage X \%x\% Y
#' @export
`%x%` <- interposed("%x%", c("X", "Y"), kronecker_arrays(X, Y, `*`, FALSE), class = ON_DEVICE)

kronecker_arrays <- function(X, Y, FUN, make.dimnames, ...) {
  if (is_sparse(X) || is_sparse(Y)) return(kronecker_sparse(X, Y, FUN, make.dimnames, ...))
  both <- with_integer64(list(X, Y))
  X <- both[[1L]]
  Y <- both[[2L]]
  if (!is_number(X) || !is_number(Y) || !is_switch(make.dimnames) || make.dimnames || !length(X) || !length(Y)) {
    f <- if ((isS4(X) && !is_gpu(X)) || (isS4(Y) && !is_gpu(Y))) methods::kronecker else base::kronecker
    return(hosted(f, list(X, Y, if (identical(FUN, `*`)) "*" else FUN, make.dimnames, ...)))
  }
  dx <- attr(X, "dim") %||% length(X)
  dy <- attr(Y, "dim") %||% length(Y)
  rank <- max(length(dx), length(dy))
  dx <- c(dx, rep.int(1L, rank - length(dx)))
  dy <- c(dy, rep.int(1L, rank - length(dy)))
  # Axis k of the result runs through Y's axis k within each element of X's axis k.
  ours <- rep.int(c(FALSE, TRUE), rank)
  extent <- numeric(2L * rank)
  extent[ours] <- dx
  extent[!ours] <- dy
  axes <- rep(seq_len(rank), each = 2L)
  a <- strided(cast_like(X, Y), dx, axes, extent, as.double(ours))
  b <- strided(cast_like(Y, X), dy, axes, extent, as.double(!ours))
  out <- if (identical(FUN, `*`)) matrix_like(a, b) else FUN(a, b, ...)
  dim(out) <- dx * dy
  out
}

#' @rdname shape
#' @export
diag <- interposed("diag", quote(is.object(x) && inherits(x, c("gpu_array", "gpu_sparse")) || is.numeric(x) &&
  length(x) == 1L && (nargs() == 1L || !missing(nrow) && missing(ncol) && (is.object(nrow) || TRUE)) &&
  .ours$is_large_diagonal(x, if (nargs() == 1L) list() else list(nrow))),
  diagonal(x, c(if (!missing(nrow)) list(nrow = nrow), if (!missing(ncol)) list(ncol = ncol)), names, nargs()),
  arguments = "x", is = is_gpu)

#' @rdname subsetting
#' @usage NULL
#' @export
`diag<-` <- interposed("diag<-", "x", assign_diagonal(x, value, environment()), class = ON_DEVICE)

# Views that repeat a vector as each of `columns` columns, or as each of `rows` rows.
along_rows <- function(x, columns) repeated(x, times = columns)
along_columns <- function(x, rows) repeated(x, each = rows)

index_of <- function(x, margin) {
  d <- dim(x)
  whole <- gpu_seq(1L, by = 1L, length.out = d[margin], device = gpu_device(x))
  shaped(if (margin == 1L) along_rows(whole, d[2L]) else along_columns(whole, d[1L]), d)
}

#' @rdname shape
#' @export
drop <- interposed("drop", "x", drop_extents(x), class = ON_DEVICE)

drop_extents <- function(x) {
  if (is_sparse(x)) return(if (any(x@Dim == 1L)) dropped(x) else x)
  .Call(C_classed, base::drop(x))
}

#' @rdname shape
#' @export
row <- interposed("row", "x", index_matrix(x, 1L, base::row, as.factor))
#' @rdname shape
#' @export
col <- interposed("col", "x", index_matrix(x, 2L, base::col, as.factor))

index_matrix <- function(x, margin, f, as.factor) {
  if (!is_switch(as.factor) || as.factor || length(dim(x)) != 2L || length(x) == 0L)
    return(call_base(f, list(blank(x), as.factor)))
  index_of(x, margin)
}

# An ordinary logical array with the shape and dimnames of x, for base R functions that only look at these.
blank <- function(x) {
  y <- logical(length(x))
  if (!is.null(dim(x))) dim(y) <- dim(x)
  if (!is.null(dimnames(x))) dimnames(y) <- dimnames(x)
  y
}

#' @rdname shape
#' @export
upper.tri <- interposed("upper.tri", "x", triangle(x, diag, `<`, `<=`, base::upper.tri))
#' @rdname shape
#' @export
lower.tri <- interposed("lower.tri", "x", triangle(x, diag, `>`, `>=`, base::lower.tri))

triangle <- function(x, diag, strict, with_diagonal, f) {
  if (!is_switch(diag) || length(dim(x)) != 2L || length(x) == 0L) return(call_base(f, list(blank(x), diag)))
  (if (diag) with_diagonal else strict)(index_of(x, 1L), index_of(x, 2L))
}
