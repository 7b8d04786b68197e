# as_gpu() methods for sparse matrices of Bioconductor: the two classes of SparseArray, and SparseArraySeed, which
# DelayedArray had before. They read slots only, so that an object from a file needs neither package.

# `SVT` ("sparse vector tree") is a list of columns. Each is NULL, or a list of the row numbers of its elements
# (0-based, ascending) and of their values.
#' @rdname as_gpu
#' @export
as_gpu.SVT_SparseMatrix <- function(x, dtype = NULL, device = NULL, ...) {
  if (...length()) rlang::check_dots_empty()
  frame <- environment()
  parts <- slots_of(x, c("dim", "dimnames", "type", "SVT"), frame)
  # The version alone tells which component holds the row numbers: values may be integers too.
  version <- attr(x, ".svt_version", exact = TRUE) %||% 0L
  if (!version %in% 0:1) stop_verdigris("argument",
    sprintf("`x` has version %s of the layout of SVT_SparseMatrix; versions 0 and 1 are known.", format(version)),
    "`as(x, \"dgCMatrix\")` makes a matrix of package Matrix of it.")
  columns <- parts$SVT %||% vector("list", parts$dim[2L])
  if (!is.list(columns) || length(columns) != parts$dim[2L]) malformed(x, "SVT", frame)
  there <- which(!vapply(columns, is.null, NA))
  filled <- columns[there]
  if (!all(vapply(filled, function(column) is.list(column) && length(column) == 2L, NA))) malformed(x, "SVT", frame)
  rows <- lapply(filled, `[[`, if (version == 0L) 1L else 2L)
  values <- lapply(filled, `[[`, if (version == 0L) 2L else 1L)
  counts <- lengths(rows)
  # from version 1 on, NULL values mean that all of them are 1
  ones <- version == 1L & vapply(values, is.null, NA)
  type <- values_type(parts$type, x, frame)
  if (!all(vapply(rows, is.integer, NA)) || any(counts != lengths(values) & !ones) ||
    !all(ones | vapply(values, typeof, "") == type)) malformed(x, "SVT", frame)
  values[ones] <- lapply(counts[ones], function(count) rep.int(as.vector(1L, type), count))
  all <- double(parts$dim[2L])
  all[there] <- counts
  values <- sparse_values(as_stored(unlist(values, use.names = FALSE), type), dtype, device, parent.frame(), frame)
  from_unchecked(cumsum(c(0, all)), unlist(rows, use.names = FALSE) %||% integer(), values, parts$dim,
    checked_dimnames(parts$dimnames, parts$dim), gpu_device(values), frame)
}

# A matrix of coordinates: 1-based row and column numbers in any order, and a vector of values.
#' @rdname as_gpu
#' @export
as_gpu.COO_SparseMatrix <- function(x, dtype = NULL, device = NULL, ...) {
  if (...length()) rlang::check_dots_empty()
  of_coordinates(x, "nzcoo", dtype, device, parent.frame(), environment())
}

#' @rdname as_gpu
#' @export
as_gpu.SparseArraySeed <- function(x, dtype = NULL, device = NULL, ...) {
  if (...length()) rlang::check_dots_empty()
  if (length(attr(x, "dim")) != 2L) refuse_extents(x, environment())
  of_coordinates(x, "nzindex", dtype, device, parent.frame(), environment())
}

#' @rdname as_gpu
#' @export
as_gpu.SVT_SparseArray <- function(x, dtype = NULL, device = NULL, ...) refuse_extents(x, environment())

#' @rdname as_gpu
#' @export
as_gpu.COO_SparseArray <- as_gpu.SVT_SparseArray

refuse_extents <- function(x, frame) stop_verdigris("shape",
  sprintf("A sparse array on a device has two extents, not %s.", length(attr(x, "dim"))),
  "`as_gpu(as.array(x))` makes a dense array of it.", call = frame)

of_coordinates <- function(x, places, dtype, device, user, frame) {
  data <- if (is.null(attr(x, "nzdata", exact = TRUE))) "nzvals" else "nzdata"
  parts <- slots_of(x, c("dim", "dimnames", places, data), frame)
  at <- parts[[3L]]
  values <- parts[[4L]]
  if (!is.matrix(at) || ncol(at) != 2L || length(values) != nrow(at)) malformed(x, places, frame)
  type <- values_type(typeof(values), x, frame)
  values <- sparse_values(as_stored(as.vector(values), type), dtype, device, user, frame)
  device <- gpu_device(values)
  i <- positions_from_0(at[, 1L], "i", TRUE, device, frame)
  j <- positions_from_0(at[, 2L], "j", TRUE, device, frame)
  if (length(i) && (max(i) >= parts$dim[1L] || max(j) >= parts$dim[2L])) malformed(x, places, frame)
  from_triplets(i, j, values, parts$dim, checked_dimnames(parts$dimnames, parts$dim))
}

# Carries out the delayed operations on the host first, for the whole matrix.
#' @rdname as_gpu
#' @export
as_gpu.DelayedArray <- function(x, dtype = NULL, device = NULL, ...) {
  if (...length()) rlang::check_dots_empty()
  if (inherits(x, "gpu_sparse_delayed")) return(as_gpu(x@seed, dtype = dtype, device = device))
  loadNamespace("DelayedArray")
  is_matrix <- length(dim(x)) == 2L
  as_gpu(if (is_matrix && DelayedArray::is_sparse(x)) methods::as(x, "sparseMatrix") else as.array(x), dtype = dtype,
    device = device)
}

is_delayed <- function(x) isS4(x) && inherits(x, "DelayedArray")

is_of_sparse_array <- function(x) isS4(x) && inherits(x, c("SVT_SparseArray", "COO_SparseArray", "SparseArraySeed"))

# slot() rather than attr(): S4 stores a NULL slot as a symbol. A slot that `x` does not have is NULL.
slots_of <- function(x, names, frame) {
  out <- lapply(names, function(name) if (methods::.hasSlot(x, name)) methods::slot(x, name))
  names(out) <- names
  if (!is.integer(out$dim) || length(out$dim) != 2L || anyNA(out$dim) || any(out$dim < 0L)) malformed(x, "dim", frame)
  out
}

malformed <- function(x, slot, frame) stop_verdigris("argument",
  sprintf("Slot `%s` of `x`, an object of class <%s>, is not what the class has.", slot, class(x)[1L]),
  "`validObject(x)` of its package may tell more.", call = frame)

# Checks that a sparse matrix on a device can have values of this type, and returns it.
values_type <- function(type, x, frame) {
  if (is_choice(type, c("logical", "integer", "double"))) return(type)
  stop_verdigris("dtype", sprintf("Values of a sparse matrix must be real numbers or logical, not %s.",
    if (is_choice(type, c("complex", "raw", "character", "list"))) type else describe(type)), switch(
    if (is.character(type)) type[1L] else "", complex = "`Re(x)` and `Im(x)` are two matrices of numbers.",
    raw = "`type(x) <- \"integer\"` makes numbers of them.", character()), call = frame)
}

# Sparse matrices on a device have no integer values: integers become doubles.
as_stored <- function(values, type) {
  if (is.null(values)) values <- vector(type, 0L)
  if (type == "integer") as.double(values) else values
}

# ---- registration when SparseArray is loaded -------------------------------------------------------------

register_sparse_array <- function(package = asNamespace("SparseArray")) {
  where <- new.env(parent = package)
  for (class in c("SVT_SparseMatrix", "SVT_SparseArray", "SparseMatrix", "SparseArray"))
    if (methods::isClass(class, where = package))
      methods::setAs("gpu_sparse", class, function(from) methods::as(collect(from), "SVT_SparseMatrix"), where = where)
  for (class in c("SVT_SparseMatrix", "COO_SparseMatrix")) if (methods::isClass(class, where = package))
    methods::setAs(class, "gpu_sparse", function(from) as_gpu(from), where = where)
}
