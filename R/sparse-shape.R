# Subsetting, transposing and joining sparse matrices: `[`, `t()`, `cbind()`, `diag()`, `kronecker()`, `which()`.

#' Subsets and shapes of sparse matrices
#'
#' `S[i, j]` selects rows and columns by number, negative number, name or mask; one row or column is a dense array
#' unless `drop = FALSE`. A range of columns is a view; other columns are copied. Rows are found among the stored
#' elements, or by the structure by rows if they are not in ascending order. `S[k]` with one subscript (numbers, a mask,
#' a matrix of two columns) returns a dense array of values. `S[i, j] <- v` makes a new structure, so a loop that
#' assigns elements one by one is slow; make the matrix from all positions at once ([gpu_sparse()]). Zeros that are
#' assigned are not stored.
#'
#' `Diagonal(x = v)` of an array is a sparse diagonal matrix on its device, and `drop0(S)` the matrix without stored
#' zeros. For other arguments these two functions call the functions of Matrix. Matrix's `Diagonal()` does not accept
#' arrays, and its `drop0()`, from version 1.6 on, does not accept sparse matrices on a device: attach Matrix before
#' this package, or write `verdigris::Diagonal(x = v)`.
#'
#' `c(S)` and `rep(S, n)` return the elements as a dense array; with a version of Matrix before 1.6 `c()` returns a
#' list, as for Matrix's own classes.
#'
#' `cbind()` and `rbind()` with a sparse matrix among the arguments return a sparse matrix, as in Matrix.
#' @param x A `gpu_sparse`.
#' @param i,j Subscripts.
#' @param value Numbers, an array or a sparse matrix.
#' @param ...,drop,deparse.level,n As in base R.
#' @returns A `gpu_sparse`, or a `gpu_array` if the result is dense (`drop`, `S[k]`, `diag()`, `which()`).
#' @section Errors:
#' "subscript out of bounds"; `verdigris_error_argument` for missing subscripts, which Matrix does not accept either.
#' @examples
#' S <- gpu_sparse(i = 1:3, j = c(1, 2, 2), x = c(1, -2, 3), device = "cpu")
#' S[2:3, ]
#' S[, 2]
#' S[1, 1] <- 5
#' S %*% Diagonal(x = 1 / colSums(abs(S)))
#' cbind(S, 1)
#' @name sparse-shapes
NULL

#' @rdname sparse-shapes
#' @export
t.gpu_sparse <- function(x) {
  rows <- row_structure(x)
  new_sparse(rows$p, rows$i, stored_by_rows(x), rev(x@Dim), rev(x@Dimnames))
}

# ---- subscripts --------------------------------------------------------------------------------------

#' @rdname sparse-shapes
#' @export
`[.gpu_sparse` <- function(x, i, j, ..., drop = TRUE) {
  if (...length()) stop_as_base("incorrect number of dimensions")
  if (nargs() - (!missing(drop)) < 3L) return(if (missing(i)) x else values_at(x, linear_places(x, i, environment())))
  rows <- if (!missing(i)) axis_places(x, 1L, i, environment())
  columns <- if (!missing(j)) axis_places(x, 2L, j, environment())
  if (!is.null(columns)) x <- take_columns(x, columns)
  if (!is.null(rows)) x <- take_rows(x, rows)
  if (isTRUE(drop) && any(x@Dim == 1L)) dropped(x) else x
}

# A row or column as a dense vector, with the names that base R gives it.
dropped <- function(S) {
  out <- strip(gpu_dense(S))
  names <- if (all(S@Dim == 1L)) Filter(Negate(is.null), S@Dimnames) else S@Dimnames[S@Dim != 1L]
  if (length(names) == 1L && !is.null(names[[1L]])) names(out) <- names[[1L]]
  out
}

# Resolves the subscript of one axis to 1-based numbers, on the host.
axis_places <- function(S, axis, at, frame) {
  n <- S@Dim[axis]
  if (is_gpu(at)) at <- as.vector(collect(at))
  if (is.factor(at)) at <- as.integer(at)
  if (is.character(at)) {
    places <- base::match(at, S@Dimnames[[axis]])
    if (anyNA(places)) stop_as_base("subscript out of bounds", frame)
    return(places)
  }
  if (!is.numeric(at) && !is.logical(at) && !is.null(at)) stop_as_base(
    sprintf("invalid subscript type '%s'", typeof(at)), frame)
  if (is.logical(at) && length(at) > n) stop_as_base("(subscript) logical subscript too long", frame)
  if (anyNA(at)) stop_verdigris("argument", "Subscripts of a sparse matrix must not be missing.",
    "`which()` drops the missing elements of a mask.", call = frame)
  if (is.numeric(at) && any(at >= n + 1)) stop_as_base("subscript out of bounds", frame)
  with_user_call(seq_len(n)[as.vector(at)], frame)
}

# Resolves the subscript of S[at] to 1-based column-major positions, an array of doubles; NA where it is missing.
linear_places <- function(S, at, frame) {
  device <- gpu_device(S)
  if (!is_of_matrix(at) || is_of_matrix(at, "sparseMatrix")) at <- from_foreign_class(at, device)
  if (is_sparse(at)) {
    if (!is.logical(at@x)) stop_verdigris("argument", "A sparse subscript must be logical.",
      "An example is `S[S > 0]`.", call = frame)
    if (!identical(at@Dim, S@Dim)) stop_verdigris("argument", sprintf("A sparse subscript must have the dimensions %s.",
      paste(S@Dim, collapse = " x ")), call = frame)
    mask <- stored(at)
    chosen <- which(is.na(mask) | mask)
    places <- element_keys(strip(at@i)[chosen], columns_of(at)[chosen], S@Dim) + 1
    return(gpu_cast(select_by(mask[chosen], places, NA_real_), "float64"))
  }
  if (is.matrix(at) && is.character(at) && ncol(at) == 2L) {
    names <- at
    at <- base::cbind(match_names(names[, 1L], S@Dimnames[[1L]]), match_names(names[, 2L], S@Dimnames[[2L]]))
    if (any(is.na(at) & !is.na(names))) stop_as_base("subscript out of bounds", frame)
    at[is.na(names)] <- NA
  }
  if (is.null(at)) at <- integer()
  # elements have no names to match
  if (is.character(at)) at <- rep.int(NA_real_, length(at))
  if (!is_number(at)) stop_as_base(sprintf("invalid subscript type '%s'", typeof(at)), frame)
  if (length(dim(at)) == 2L && ncol(at) == 2L && !is.logical(at)) {
    at <- as_gpu(at, device = device)
    i <- trunc(strip(at[, 1L]))
    j <- trunc(strip(at[, 2L]))
    least <- if (length(i)) min(i, j, na.rm = TRUE) else 1
    if (least < 0) stop_as_base("negative values are not allowed in a matrix subscript", frame)
    # base R leaves out rows with a zero
    if (least < 1) {
      kept <- which(is.na(i) | is.na(j) | i != 0 & j != 0)
      i <- i[kept]
      j <- j[kept]
    }
    if (length(i) && (max(0, i, na.rm = TRUE) > S@Dim[1L] || max(0, j, na.rm = TRUE) > S@Dim[2L]))
      stop_as_base("subscript out of bounds", frame)
    return((gpu_cast(j, "float64") - 1) * S@Dim[1L] + i)
  }
  n <- prod(S@Dim)
  at <- strip(as_gpu(as_elements(at), device = device))
  if (is.logical(at)) {
    # elements of a mask beyond the end of the matrix give NA
    if (length(at) && length(at) < n) at <- recycle(at, n)
    chosen <- which(is.na(at) | at)
    return(select_by(at[chosen], gpu_cast(chosen, "float64"), NA_real_))
  }
  at <- trunc(gpu_cast(at, "float64"))
  if (length(at) && min(0, at, na.rm = TRUE) < 0) {
    if (anyNA(at) || max(at) > 0) stop_as_base("can't mix positive and negative subscripts", frame)
    mask <- gpu_full(TRUE, n, device = device)
    mask[-at[at >= -n & at != 0]] <- FALSE
    return(gpu_cast(which(mask), "float64"))
  }
  if (length(at)) at[is.na(at) | at > 0] else at
}

# Looks positions up among the stored elements: a 1-based index into `x`, or NA where none is stored.
stored_places <- function(S, at) {
  if (!length(S@i)) return(gpu_full(NA_integer_, length(at), device = gpu_device(S)))
  match(at, element_keys(S@i, columns_of(S), S@Dim) + 1)
}

values_at <- function(S, at) {
  x <- stored(S)
  found <- stored_places(S, at)
  absent <- is.na(found)
  value <- if (length(x)) x[select_by(absent, 1L, found)] else gpu_full(if (is.logical(x)) FALSE else 0, length(at),
    dtype = gpu_dtype(x), device = gpu_device(x))
  select_by(is.na(at) | at > prod(S@Dim), vector(typeof(x), 1L)[2L], select_by(absent, vector(typeof(x), 1L), value))
}

# Dimnames of a subset. An axis of extent 0 has none, as in base R.
names_chosen <- function(dimnames, axis, at) {
  names <- dimnames[[axis]][at]
  dimnames[axis] <- list(if (length(names)) names)
  dimnames
}

take_columns <- function(S, at) {
  names <- names_chosen(S@Dimnames, 2L, at)
  n <- length(at)
  dim <- c(S@Dim[1L], n)
  if (n && at[n] - at[1L] == n - 1L && !is.unsorted(at, strictly = TRUE)) {
    # the elements of a range of columns are contiguous
    p <- S@p[at[1L]:(at[n] + 1L)]
    ends <- as.double(p[c(1L, n + 1L)])
    inside <- if (ends[2L] > ends[1L]) (ends[1L] + 1):ends[2L] else integer()
    return(new_sparse(strip(p - p[1L]), S@i[inside], stored(S)[inside], dim, names))
  }
  first <- S@p[at]
  counts <- S@p[at + 1L] - first
  total <- sum(as_doubles(counts))
  p <- running_total(counts, total)
  segment <- segment_expand(p) + 1L
  places <- if (total > 0) (first - p[seq_len(n)])[segment] + gpu_seq(1, by = 1, length.out = total,
    device = gpu_device(S)) else integer()
  new_sparse(p, S@i[places], stored(S)[places], dim, names)
}

take_rows <- function(S, at) {
  names <- names_chosen(S@Dimnames, 1L, at)
  if (is.unsorted(at, strictly = TRUE)) {
    out <- t(take_columns(t(S), at))
    out@Dimnames <- names
    return(out)
  }
  # new numbers of the rows that are kept
  number <- integer(S@Dim[1L])
  number[at] <- seq_along(at)
  if (!length(S@i)) return(new_sparse(S@p, S@i, stored(S), c(length(at), S@Dim[2L]), names))
  number <- as_gpu(number, device = gpu_device(S))[strip(S@i) + 1L]
  stays <- number > 0L
  places <- which(stays)
  counts <- segment_reduce(S@p, as_int32(stays), "sum")
  new_sparse(running_total(as_int32(counts), length(places)), number[places] - 1L, stored(S)[places],
    c(length(at), S@Dim[2L]), names)
}

# ---- assignment --------------------------------------------------------------------------------------

#' @rdname sparse-shapes
#' @export
`[<-.gpu_sparse` <- function(x, i, j, ..., value) {
  frame <- environment()
  if (...length()) stop_as_base("number of subscripts is not that of dimensions")
  value <- from_foreign_class(value, gpu_device(x))
  if (nargs() == 3L && !missing(i) && is.character(i) && !is.matrix(i)) stop_as_base("subscript out of bounds")
  if (!is_sparse(value) && (!is_number(value) || is.complex(value))) stop_verdigris("dtype",
    sprintf("Values of a sparse matrix must be real numbers or logical, not %s.", describe(value)))
  if (nargs() > 3L) {
    rows <- if (missing(i)) seq_len(x@Dim[1L]) else axis_places(x, 1L, i, frame)
    columns <- if (missing(j)) seq_len(x@Dim[2L]) else axis_places(x, 2L, j, frame)
    if (length(value) == 1L && !is_sparse(value) && isTRUE(as.vector(value) == 0) && length(rows) && length(columns))
      return(zeroed(x, rows, columns, is.logical(value)))
    at <- as_gpu(rep.int(rows, length(columns)) + (rep(columns, each = length(rows)) - 1) * x@Dim[1L],
      device = gpu_device(x))
    if (length(at) && length(value) && length(at) %% length(value) != 0)
      stop_as_base("number of items to replace is not a multiple of replacement length")
    return(assign_places(x, at, value, frame))
  }
  # a logical subscript of the same structure and a single value: only the values change
  if (!missing(i) && is_sparse(i) && is.logical(i@x) && same_structure(x, i) && length(value) == 1L &&
    !is_sparse(value)) {
    values <- stored(x)
    if (is.logical(values) && !is.logical(value)) values <- as_doubles(values)
    if (any(i@x, na.rm = TRUE)) values[which(i@x)] <- value
    return(with_stored(x, values))
  }
  at <- if (missing(i)) gpu_seq(1, by = 1, length.out = prod(x@Dim), device = gpu_device(x)) else
    linear_places(x, i, frame)
  if (length(at) && anyNA(at)) {
    if (length(value) > 1L) stop_as_base("NAs are not allowed in subscripted assignments")
    at <- at[!is.na(at)]
  }
  if (length(at) && length(value) && length(at) %% length(value) != 0)
    warn_as_base("number of items to replace is not a multiple of replacement length")
  assign_places(x, at, value, frame)
}

# Assigns 0 or FALSE to rows and columns: leaves out the elements there, without a list of all positions.
zeroed <- function(S, rows, columns, logical) {
  x <- stored(S)
  if (!logical || !is.logical(x)) x <- as_doubles(x)
  out <- with_stored(S, x)
  if (!length(x)) return(out)
  among <- function(at, n, places) as_gpu(base::`[<-`(logical(n), at, TRUE), device = gpu_device(S))[strip(places) + 1L]
  kept_elements(out, !(among(rows, S@Dim[1L], S@i) & among(columns, S@Dim[2L], columns_of(S))))
}

# Assigns to 1-based column-major positions. The last of equal positions counts.
assign_places <- function(S, at, value, frame) {
  n <- length(at)
  # the type is that of both, even if no element is replaced
  if (!n) return(if (is.logical(if (is_sparse(value)) value@x else value)) S else with_stored(S, stored_numbers(S)))
  if (!length(value)) stop_as_base("replacement has length zero", frame)
  if (max(at) > prod(S@Dim)) stop_as_base("subscript out of bounds", frame)
  x <- stored(S)
  value <- if (is_sparse(value)) strip(gpu_dense(value)) else cast_like(value, x)
  value <- recycle(value, n)
  if (!is.logical(x) || !is.logical(value)) {
    x <- as_doubles(x)
    value <- gpu_cast(value, gpu_dtype(x))
  }
  if (anyDuplicated(at)) {
    last <- which(!duplicated(at, fromLast = TRUE))
    at <- at[last]
    value <- value[last]
  }
  columns <- columns_of(S)
  stays <- if (length(x)) which(is.na(match(element_keys(S@i, columns, S@Dim) + 1, at))) else integer()
  new <- which(is.na(value) | value != 0)
  j <- (at[new] - 1) %/% S@Dim[1L]
  i <- at[new] - 1 - j * S@Dim[1L]
  from_triplets(join(list(strip(S@i)[stays], as_int32(i))), join(list(columns[stays], as_int32(j))),
    join(list(x[stays], value[new])), S@Dim, S@Dimnames)
}

# The same matrix without stored zeros.
without_zeros <- function(S) {
  x <- stored(S)
  kept_elements(S, is.na(x) | x != 0)
}

#' @rdname sparse-shapes
#' @param is.Csparse,give.Csparse For objects of Matrix, see [Matrix::drop0()].
#' @export
drop0 <- function(x, tol = 0, is.Csparse = NA, give.Csparse = TRUE) {
  if (is_sparse(x)) {
    if (!is.numeric(tol) || length(tol) != 1L || is.na(tol)) abort_argument("tol", "a number", tol)
    values <- stored(x)
    return(kept_elements(x, is.na(values) | abs(values) > as.double(tol)))
  }
  need_matrix("drop0")
  # earlier versions have no argument `give.Csparse`
  if (missing(give.Csparse)) Matrix::drop0(x, tol, is.Csparse) else
    Matrix::drop0(x, tol, is.Csparse, give.Csparse = give.Csparse)
}

need_matrix <- function(name, call = parent.frame()) if (!requireNamespace("Matrix", quietly = TRUE))
  stop_verdigris("library", sprintf("`%s()` of what is not on a device needs package Matrix, which is not installed.",
    name), call = call)

# The diagonals from the k1-th to the k2-th.
band_of_sparse <- function(S, k1, k2) {
  off <- columns_of(S) - strip(S@i)
  kept_elements(S, off >= k1 & off <= k2)
}

# band_of_sparse() for a user's k1 and k2, which are checked.
checked_band <- function(S, k1, k2, frame) {
  for (k in c("k1", "k2")) {
    given <- get(k)
    if (!is.numeric(given) || length(given) != 1L || is.na(given) || given < -S@Dim[1L] || given > S@Dim[2L])
      stop_as_base(sprintf("'%s' must be an integer from -Dim[1] to Dim[2]", k), frame)
  }
  k1 <- trunc(as.double(k1))
  k2 <- trunc(as.double(k2))
  if (k1 > k2) stop_as_base("'k1' must be less than or equal to 'k2'", frame)
  band_of_sparse(S, k1, k2)
}

# The elements where `stays`, a logical array with a value for each stored element, is TRUE.
kept_elements <- function(S, stays) {
  x <- stored(S)
  places <- which(stays)
  if (length(places) == length(x)) return(S)
  counts <- segment_reduce(S@p, as_int32(stays), "sum")
  new_sparse(running_total(as_int32(counts), length(places)), strip(S@i)[places], x[places], S@Dim, S@Dimnames)
}

# ---- joining -----------------------------------------------------------------------------------------

#' @rdname sparse-shapes
#' @export
cbind.gpu_sparse <- function(..., deparse.level = 1) {
  level <- level_given(base::cbind, deparse.level)
  bind_sparse(list(...), labels_of(as.list(substitute(list(...)))[-1L], level), FALSE, environment())
}

#' @rdname sparse-shapes
#' @export
rbind.gpu_sparse <- function(..., deparse.level = 1) {
  level <- level_given(base::rbind, deparse.level)
  bind_sparse(list(...), labels_of(as.list(substitute(list(...)))[-1L], level), TRUE, environment())
}

bind_sparse <- function(parts, labels, by_row, frame) {
  names(parts) <- NULL
  there <- !vapply(parts, is.null, NA)
  first <- Find(is_sparse, parts)
  device <- gpu_device(first)
  side <- if (by_row) 2L else 1L
  extent <- vapply(parts, function(x) if (length(dim(x)) == 2L) as.integer(dim(x)[side]) else NA_integer_, 1L)
  n <- extent[!is.na(extent)][1L]
  odd <- which(!is.na(extent) & extent != n)
  if (length(odd)) stop_as_base(sprintf("number of %s of matrices must match (see arg %d)",
    if (by_row) "columns" else "rows", odd[1L]), frame)
  sparse <- lapply(which(there), function(k) {
    x <- from_foreign_class(parts[[k]], device)
    if (is.factor(x)) x <- as.integer(x)
    if (!is_sparse(x)) {
      if (!is_number(x)) stop_verdigris("dtype", sprintf("A sparse matrix cannot be joined with %s.", describe(x)),
        call = frame)
      names <- if (is.na(extent[k])) list(if (length(x) == n) names(x), if (labels[k] != "") labels[k]) else
        if (by_row) rev(dimnames(x)) else dimnames(x)
      if (is.na(extent[k])) {
        if (n > 0L && (length(x) > n || !length(x) || n %% length(x) != 0)) warn_as_base(sprintf(
          "number of %s of result is not a multiple of vector length (arg %d)", if (by_row) "columns" else "rows", k),
          frame)
        if (!length(x)) return(NULL)
        x <- recycle(cast_like(x, first@x), n)
        dim(x) <- c(n, 1L)
      } else {
        extents <- dim(x)
        x <- cast_like(x, first@x)
        dim(x) <- extents
        if (by_row) x <- t(x)
      }
      x <- sparse_of_matrix(x)
      x@Dimnames <- names %||% list(NULL, NULL)
      return(x)
    }
    if (by_row) t(x) else x
  })
  out <- bind_columns(Filter(Negate(is.null), sparse))
  if (by_row) t(out) else out
}

bind_columns <- function(parts) {
  if (length(parts) == 1L) return(parts[[1L]])
  sizes <- vapply(parts, function(S) length(S@i), 0)
  before <- cumsum(c(0, sizes))
  wide <- if (before[length(before)] > .Machine$integer.max) "int64" else "int32"
  p <- lapply(seq_along(parts), function(k) {
    p <- gpu_cast(parts[[k]]@p, wide)
    if (k == 1L) p else p[-1L] + (if (wide == "int32") as.integer(before[k]) else before[k])
  })
  widths <- vapply(parts, function(S) S@Dim[2L], 1L)
  named <- Filter(Negate(is.null), lapply(parts, function(S) S@Dimnames[[1L]]))
  across <- if (any(vapply(parts, function(S) !is.null(S@Dimnames[[2L]]), NA)))
    base::unlist(lapply(parts, function(S) S@Dimnames[[2L]] %||% character(S@Dim[2L])))
  new_sparse(join(p, wide), join(lapply(parts, function(S) strip(S@i))), join(lapply(parts, stored)),
    c(parts[[1L]]@Dim[1L], sum(widths)), list(if (length(named)) named[[1L]], across))
}

# ---- diagonals, Kronecker products, places -------------------------------------------------------------

#' @rdname sparse-shapes
#' @param names Whether the names of `x` become the names of rows and columns; or the names themselves, as in
#'   [Matrix::Diagonal()].
#' @export
Diagonal <- function(n, x = NULL, names = FALSE) {
  if (!is_gpu(x)) {
    need_matrix("Diagonal")
    if (!missing(n)) n <- host_copy(n, silent = TRUE)
    return(if (missing(n)) Matrix::Diagonal(x = x, names = names) else Matrix::Diagonal(n, x, names))
  }
  if (is_sparse(x)) abort_argument("x", "a vector", x)
  given <- names(x)
  values <- sparse_values(x, NULL, NULL, parent.frame())
  n <- if (missing(n)) length(values) else host_copy(n, silent = TRUE)
  if (!is.numeric(n) || length(n) != 1L || is.na(n) || n < 0) stop_as_base("'n' must be a non-negative integer")
  n <- trunc(as.double(n))
  if (n > .Machine$integer.max) stop_as_base("dimensions cannot exceed 2^31-1")
  if (n > 0 && !length(values)) stop_as_base("attempt to recycle 'x' of length 0 to length 'n' (n > 0)")
  names <- if (isTRUE(names)) rep_len(given, if (is.null(given)) 0 else n) else if (is.character(names)) names
  values <- recycle(values, n)
  device <- gpu_device(x)
  at <- gpu_cast(gpu_seq(0, by = 1, length.out = n + 1, device = device), "int32")
  named <- length(names) == n && n > 0
  new_sparse(at, at[seq_len(n)], values, c(n, n), if (named) list(names, names) else list(NULL, NULL))
}

diag_of_sparse <- function(x, names) {
  n <- min(x@Dim)
  values <- stored(x)
  out <- gpu_full(if (is.logical(values)) FALSE else 0, n, dtype = gpu_dtype(values), device = gpu_device(x))
  columns <- columns_of(x)
  at <- which(x@i == columns)
  if (length(at)) out[columns[at] + 1L] <- values[at]
  both <- lapply(x@Dimnames, `[`, seq_len(n))
  if (isTRUE(names) && !is.null(x@Dimnames[[1L]]) && identical(both[[1L]], both[[2L]])) names(out) <- both[[1L]]
  out
}

assign_sparse_diagonal <- function(x, value, frame) {
  n <- min(x@Dim)
  if (length(value) != 1L && length(value) != n) stop_as_base("replacement diagonal has wrong length", frame)
  assign_places(x, as_gpu((seq_len(n) - 1) * (x@Dim[1L] + 1) + 1, device = gpu_device(x)), value, frame)
}

kronecker_sparse <- function(X, Y, FUN, make.dimnames, ..., frame = parent.frame()) {
  device <- gpu_device(if (is_sparse(X)) X else Y)
  product <- is.character(FUN) && identical(FUN[[1L]], "*") || identical(FUN, base::`*`)
  if (!product) return(kronecker(gpu_dense(X), gpu_dense(Y), FUN, make.dimnames, ...))
  as_one <- function(x, other) {
    if (!is_sparse(x) && !is_of_matrix(x) && is.null(dim(x))) dim(x) <- c(length(x), 1L)
    names <- dimnames(x)
    if (is_number(x)) x <- `dim<-`(cast_like(x, if (is_sparse(other)) other@x else other), dim(x))
    x <- sparse_of_matrix(x, NULL, device, frame)
    if (!is.null(names)) x@Dimnames <- names
    x
  }
  X <- as_one(X, Y)
  Y <- as_one(Y, X)
  a <- length(X@i)
  b <- length(Y@i)
  dim <- X@Dim * as.double(Y@Dim)
  if (any(dim > .Machine$integer.max)) stop_verdigris("shape", sprintf("The product would have %s rows and columns.",
    paste(format_count(dim), collapse = " x ")), call = frame)
  names <- if (isTRUE(make.dimnames)) lapply(1:2, function(k) {
    if (is.null(X@Dimnames[[k]]) && is.null(Y@Dimnames[[k]])) return(NULL)
    paste(rep(X@Dimnames[[k]] %||% character(X@Dim[k]), each = Y@Dim[k]),
      rep(Y@Dimnames[[k]] %||% character(Y@Dim[k]), X@Dim[k]), sep = ":")
  }) else list(NULL, NULL)
  if (a == 0 || b == 0) return(new_sparse(gpu_full(0L, dim[2L] + 1, device = device), gpu_full(0L, 0L, device = device),
    stored_numbers(X)[0L], dim, names))
  element <- gpu_seq(0, by = 1, length.out = as.double(a) * b, device = device)
  of_x <- element %/% b + 1
  of_y <- element %% b + 1
  from_triplets((X@i * Y@Dim[1L])[of_x] + Y@i[of_y], (columns_of(X) * Y@Dim[2L])[of_x] + columns_of(Y)[of_y],
    stored_numbers(X)[of_x] * stored_numbers(Y)[of_y], dim, names)
}

#' @rdname sparse-shapes
#' @param object A `gpu_sparse`.
#' @param tol For `drop0()`: elements whose magnitude is at most `tol` are dropped; for `isSymmetric()` as in base R.
#' @param check.attributes As in [base::isSymmetric()]; names are compared only if it is `TRUE`.
#' @export
isSymmetric.gpu_sparse <- function(object, tol = 100 * .Machine$double.eps, check.attributes = TRUE, ...) {
  if (object@Dim[1L] != object@Dim[2L]) return(FALSE)
  if (isTRUE(check.attributes) && !identical(object@Dimnames[[1L]], object@Dimnames[[2L]])) return(FALSE)
  object@Dimnames <- list(NULL, NULL)
  object@x <- stored_numbers(object)
  # as all.equal(): missing elements must be in symmetric places, and are not compared
  missing <- is.na(object@x)
  if (any(missing)) {
    pattern <- object
    pattern@x <- missing * 1
    if (any(stored(pattern - t(pattern)) != 0)) return(FALSE)
    object@x[missing] <- 0
  }
  off <- stored(abs(object - t(object)))
  if (!length(off)) return(TRUE)
  size <- mean(abs(object@x))
  # compares the sum of the differences with the sum of the elements, as all.equal() compares means
  isTRUE(sum(off) <= tol * if (is.finite(size) && size > tol) sum(abs(object@x)) else length(off))
}

methods::setMethod("which", "gpu_sparse", function(x, arr.ind = FALSE, useNames = TRUE) {
  if (!is.logical(x@x)) stop_as_base("argument to 'which' is not logical")
  at <- which(stored(x))
  i <- strip(x@i)[at]
  j <- columns_of(x)[at]
  if (!isTRUE(arr.ind)) {
    out <- element_keys(i, j, x@Dim) + 1
    return(if (prod(x@Dim) <= .Machine$integer.max) as_int32(out) else out)
  }
  out <- base::cbind(row = collect(i) + 1L, col = collect(j) + 1L)
  if (!isTRUE(useNames)) return(unname(out))
  if (!is.null(x@Dimnames[[1L]])) rownames(out) <- x@Dimnames[[1L]][out[, 1L]]
  out
})

#' @importFrom utils head tail
#' @rdname sparse-shapes
#' @export
head.gpu_sparse <- function(x, n = 6L, ...) utils::head.matrix(x, n, ...)
#' @rdname sparse-shapes
#' @export
tail.gpu_sparse <- function(x, n = 6L, ...) utils::tail.matrix(x, n, ...)
