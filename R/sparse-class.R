# Class `gpu_sparse`: sparse matrices on a device in compressed columns, with the slot names of package Matrix.
#
# `p`, `i` and `x` are arrays. `rows` is an environment that caches the structure by rows (row_structure()). It holds a
# weak reference, so that saveRDS() and workers get the matrix without the cache. Matrices with elements in the same
# places share the environment: assigning new values does not rebuild the structure.

#' Sparse matrices on a device
#'
#' Sparse matrices are stored by columns, with the slots of package Matrix, and their values are on a device. [as_gpu()]
#' converts a sparse matrix of Matrix or of Bioconductor (`SVT_SparseMatrix`, `COO_SparseMatrix`, `SparseArraySeed`).
#' `gpu_sparse()` makes a sparse matrix from the positions and values of its elements or from a dense matrix.
#' [collect()] returns a `dgCMatrix` (`lgCMatrix` for logical values), [as.matrix()] an ordinary matrix, and
#' `gpu_dense()` a dense array on the device. If package SparseArray is loaded, `as(S, "SVT_SparseMatrix")` returns a
#' matrix of that package.
#'
#' `S@@x` is an array, so that work on the stored values (`S@@x <- log1p(S@@x)`) is recorded and fused as with any
#' array. `S@@i` contains the row numbers, which begin at 0 and ascend within a column; `S@@p` contains the offsets of
#' the columns. These two slots may be read, but must not be assigned. Values have a float dtype or are logical;
#' operators other than comparisons treat logical values as 0 and 1 and return doubles, as in Matrix.
#'
#' @section Operations:
#' The following functions have methods, with the results of package Matrix: `%*%`, `crossprod()`, `tcrossprod()`
#' ([sparse-products]); operators and functions of one argument, which return a sparse matrix if they map 0 to 0 and a
#' dense array otherwise ([sparse-operators]); `sum()` and related functions, `mean()`, `rowSums()`, `colSums()`,
#' `rowMeans()`, `colMeans()`, `rowsum()`, `apply()`, `sweep()`, `scale()` ([sparse-margins]); `S[i, j]`,
#' `S[i, j] <- v`, `t()`, `cbind()`, `rbind()`, `diag()`, `kronecker()`, `which()`, `head()`, `tail()`, `Diagonal()`,
#' `drop0()` ([sparse-shapes]); `dimScale()`, `rowScale()`, `colScale()`, `condest()` ([sparse-scale]); systems, factors
#' and decompositions ([sparse-solve]). [is_gpu()], [gpu_device()], [gpu_dtype()], [gpu_cast()] and [gpu_compute()]
#' accept sparse matrices too. Other functions do not: call them with `gpu_dense(S)` or `collect(S)`. Examples are
#' functions of Matrix that accept only its own classes: `Matrix()`, `update()` of a factor, `dmperm()`,
#' `printSpMatrix()`, `formatSpMatrix()`, and functions whose names begin with a point.
#'
#' @section In Python:
#' The three slots correspond to the three arrays of sparse matrices by columns in scipy, CuPy and PyTorch. Reticulate
#' exchanges them without a copy in both directions, like other arrays (see [python]):
#' ```
#' import <- function(name) reticulate::import(name, convert = FALSE)
#' np <- import("numpy")                  # on a GPU cupy
#' slots <- lapply(list(S@@x, S@@i, S@@p), np$from_dlpack)
#' extents <- reticulate::tuple(nrow(S), ncol(S))
#' M <- import("scipy.sparse")$csc_matrix(do.call(reticulate::tuple, slots), shape = extents) # cupyx.scipy.sparse
#'
#' torch <- import("torch")
#' slots <- lapply(list(S@@p, S@@i, S@@x), torch$from_dlpack)
#' torch$sparse_csc_tensor(slots[[1]], slots[[2]], slots[[3]], size = extents)
#'
#' gpu_sparse(i = as_gpu(M$indices), p = as_gpu(M$indptr), x = as_gpu(M$data), dim = dim(S), index1 = FALSE)
#' ```
#'
#' @param i,j Row and column numbers of the elements, from 1: vectors or arrays of the same length. Or `i` alone, a
#'   matrix: dense, sparse, of Matrix, or an array.
#' @param p Instead of `i` or `j`, the offsets of the columns or rows, as in [Matrix::sparseMatrix()].
#' @param x The values, recycled: `TRUE` by default. Values at the same position are added; logical values are combined
#'   by `|`. For `gpu_dense()` a sparse matrix; an array or an ordinary matrix is accepted too.
#' @param dim,dimnames The extents and names. By default the extents are the largest row and column numbers.
#' @param index1 Whether `i` and `j` count from 1 rather than 0.
#' @param dtype,device As in [as_gpu()]; a float dtype or `"bool8"`.
#' @param drop0 Whether elements that are 0 are left out.
#' @returns `gpu_sparse()`: an object of class `gpu_sparse`. `gpu_dense()`: a `gpu_array`, a matrix.
#' @section Errors:
#' `verdigris_error_argument` for positions that are not whole numbers or outside of the matrix, and for offsets that do
#' not ascend; `verdigris_error_dtype` for values that are not real numbers; `verdigris_error_memory`.
#' @examples
#' S <- gpu_sparse(i = c(1, 3, 2, 3), j = c(1, 1, 2, 4), x = c(5, 1, 2, 3), device = "cpu")
#' S
#' colSums(S)
#' S %*% 1:4
#' S@@x <- log1p(S@@x)
#' gpu_dense(S)
#' @aliases gpu_sparse-class
#' @aliases which,gpu_sparse-method ifelse,gpu_sparse-method
#' @aliases %*%,gpu_sparse,gpu_sparse-method
#' @aliases %*%,gpu_sparse,ANY-method
#' @aliases %*%,ANY,gpu_sparse-method
#' @aliases crossprod,gpu_sparse,gpu_sparse-method
#' @aliases crossprod,gpu_sparse,ANY-method
#' @aliases crossprod,ANY,gpu_sparse-method
#' @aliases crossprod,gpu_sparse,missing-method
#' @aliases tcrossprod,gpu_sparse,gpu_sparse-method
#' @aliases tcrossprod,gpu_sparse,ANY-method
#' @aliases tcrossprod,ANY,gpu_sparse-method
#' @aliases tcrossprod,gpu_sparse,missing-method
#' @exportClass gpu_sparse
#' @export
gpu_sparse <- function(i, j, p, x = TRUE, dim = NULL, dimnames = NULL, index1 = TRUE, dtype = NULL, device = NULL,
  drop0 = FALSE) {
  if (!is_flag(drop0)) abort_argument("drop0", "TRUE or FALSE", drop0)
  if (!missing(i) && missing(j) && missing(p)) {
    out <- sparse_of_matrix(i, dtype, device)
    return(if (drop0) without_zeros(out) else out)
  }
  absent <- missing(i) + missing(j) + missing(p)
  if (absent != 1L) stop_verdigris("argument", "`gpu_sparse()` needs two of `i`, `j` and `p`.",
    "`i` and `j` are row and column indices, `p` are offsets. Or pass a matrix as `i` alone.")
  if (!is_flag(index1)) abort_argument("index1", "TRUE or FALSE", index1)
  given <- list(if (!missing(i)) i, if (!missing(j)) j, x)
  device <- device %||% device_of(given) %||% device_of(list(if (!missing(p)) p))
  x <- sparse_values(x, dtype, device, parent.frame())
  device <- gpu_device(x)
  places <- list(i = if (!missing(i)) positions_from_0(i, "i", index1, device),
    j = if (!missing(j)) positions_from_0(j, "j", index1, device))
  n <- max(lengths(places))
  x <- if (length(x) == n) x else if (length(x) && n %% length(x) == 0) recycle(x, n) else stop_verdigris("argument",
    sprintf("`x` must have one value, or one for each of the %s elements, not %s.", format_count(n),
      format_count(length(x))))
  if (!missing(p)) {
    p <- checked_offsets(p, n, "p", device)
    if (missing(j)) {
      # `p` and `i` are the slots already; empty columns at the end may lack offsets
      dim <- checked_dims(dim, c(if (n) as.double(max(places$i)) + 1 else 0, length(p) - 1))
      empty <- dim[2L] + 1 - length(p)
      if (empty > 0) p <- join(list(p, rep.int(as.double(n), empty)), gpu_dtype(p))
      out <- from_slots(p, places$i, x, dim, checked_dimnames(dimnames, dim))
      return(if (drop0) without_zeros(out) else out)
    }
    places$i <- segment_expand(p)
  }
  if (length(places$i) != length(places$j)) stop_verdigris("argument",
    sprintf("`i` and `j` must have the same length, not %s and %s.", format_count(length(places$i)),
      format_count(length(places$j))))
  least <- vapply(places, function(at) if (length(at)) as.double(max(at)) + 1 else 0, 0)
  if (!missing(p)) least[["i"]] <- length(p) - 1
  dim <- checked_dims(dim, least)
  out <- from_triplets(places$i, places$j, x, dim, checked_dimnames(dimnames, dim))
  if (drop0) without_zeros(out) else out
}

methods::setClass("gpu_sparse", slots = c(p = "gpu_array", i = "gpu_array", x = "gpu_array", Dim = "integer",
  Dimnames = "list", rows = "environment"))

is_sparse <- function(x) isS4(x) && inherits(x, "gpu_sparse")

# Makes a matrix of these slots. To share the cache of a matrix with the same structure, pass its `rows`. new() takes
# 220 us, most of it to check the classes of the slots.
new_sparse <- function(p, i, x, dim, dimnames = list(NULL, NULL), rows = new.env(parent = emptyenv())) {
  out <- NO_SLOTS
  attr(out, "p") <- p
  attr(out, "i") <- i
  attr(out, "x") <- if (inherits(x, "gpu_array")) x else as_gpu(x, device = gpu_device(p))
  attr(out, "Dim") <- as.integer(dim)
  attr(out, "Dimnames") <- dimnames
  attr(out, "rows") <- rows
  out
}
NO_SLOTS <- methods::new("gpu_sparse")

# A matrix with the structure of `S`, but other values and names.
with_stored <- function(S, x, dimnames = S@Dimnames) new_sparse(S@p, S@i, x, S@Dim, dimnames, S@rows)

# The stored values. Checks that there is one for each place: users can assign to the slot.
stored <- function(S, call = parent.frame()) {
  if (length(S@x) != length(S@i)) stop_verdigris("argument",
    sprintf("Slot `x` of a sparse matrix must have %s values, not %s.", format_count(length(S@i)),
      format_count(length(S@x))), "`S@x <- f(S@x)` replaces them if `f` keeps the length.", call = call)
  if (is.complex(S@x)) stop_verdigris("dtype", "Sparse matrices hold real numbers, not complex ones.", call = call)
  strip(S@x)
}

# The stored values as numbers: logical values as 0 and 1, integers as doubles.
stored_numbers <- function(S, call = parent.frame()) as_doubles(stored(S, call))

# ---- checks ------------------------------------------------------------------------------------------

SPARSE_DTYPES <- c("float64", "float32", "float16", "bfloat16", "bool8", "double", "logical")

# Values as an array of a dtype that a sparse matrix can have.
sparse_values <- function(x, dtype, device, frame, call = parent.frame()) {
  if (is_sparse(x)) x <- x@x
  if (!is.null(dtype) && !is_choice(dtype, SPARSE_DTYPES)) stop_verdigris("dtype",
    sprintf("`dtype` of a sparse matrix must be a float dtype or \"bool8\", not %s.", describe(dtype)), call = call)
  if (!is_number(x) && !inherits(x, "integer64") || is.complex(x)) stop_verdigris("dtype",
    sprintf("Values of a sparse matrix must be real numbers or logical, not %s.",
      if (is.complex(x)) "complex" else describe(x)), call = call)
  x <- strip(as_gpu(x, dtype = dtype %||% default_dtype(x, frame), device = device))
  if (is.double(x) || is.logical(x)) x else gpu_cast(x, "float64")
}

# Checks row or column numbers, and returns them 0-based as an int32 array.
positions_from_0 <- function(at, argument, index1, device, call = parent.frame()) {
  if (!is_number(at) || !(is.numeric(at) || is_gpu(at) && !is.complex(at))) abort_argument(argument, "whole numbers",
    at, call)
  at <- strip(as_gpu(at, device = device))
  first <- if (index1) 1 else 0
  if (length(at)) {
    ends <- suppressWarnings(c(min(at), max(at)))
    odd <- anyNA(at) || ends[1L] < first || ends[2L] > .Machine$integer.max || is.double(at) && any(at != trunc(at))
    if (odd) stop_verdigris("argument", sprintf("`%s` must be whole numbers from %d to %s.", argument, first,
      format_count(.Machine$integer.max)), "Use `index1 = FALSE` for numbers from 0.", call = call)
  }
  gpu_cast(if (index1) at - 1L else at, "int32")
}

# Checks offsets, and returns them as an array: int32 where the number of elements fits, else int64.
checked_offsets <- function(p, n, argument, device, call = parent.frame()) {
  host <- host_copy(p, silent = TRUE)
  odd <- !is.numeric(host) || !length(host) || anyNA(host)
  if (odd || host[1L] != 0 || is.unsorted(host) || host[length(host)] != n || any(host != trunc(host)))
    stop_verdigris("argument", sprintf("`%s` must increase from 0 to the number of elements, %s.", argument,
      format_count(n)), call = call)
  gpu_cast(strip(as_gpu(if (is_gpu(p)) p else host, device = device)), if (n > .Machine$integer.max) "int64" else
    "int32")
}

# Checks extents, and returns them as integers. `least`: the smallest that hold all elements, and the default.
checked_dims <- function(dims, least, call = parent.frame()) {
  if (is.null(dims)) return(as.integer(unname(least)))
  dims <- host_copy(dims, silent = TRUE)
  if (!is.numeric(dims) || length(dims) != 2L || anyNA(dims) || any(dims < 0 | dims > .Machine$integer.max))
    abort_argument("dim", "two whole numbers, 0 or more", dims, call)
  if (any(dims < least)) stop_verdigris("argument", sprintf("`dim` must be at least %s, not %s.",
    paste(format(least, trim = TRUE, scientific = FALSE), collapse = " x "),
    paste(format(dims, trim = TRUE, scientific = FALSE), collapse = " x ")),
    "Some indices are outside of the matrix.", call = call)
  as.integer(dims)
}

# Dimnames as a list of two, as in Matrix. Names that do not fit raise base R's errors.
checked_dimnames <- function(dimnames, dims, call = parent.frame()) {
  if (is.null(dimnames) || identical(dimnames, list())) return(list(NULL, NULL))
  if (!is.list(dimnames)) stop_as_base("'dimnames' must be a list", call)
  if (length(dimnames) != 2L) stop_as_base(
    sprintf("length of 'dimnames' [%d] must match that of 'dims' [2]", length(dimnames)), call)
  for (k in 1:2) {
    one <- dimnames[[k]]
    if (is_gpu(one)) one <- collect(one)
    if (is.null(one) || !length(one)) {
      dimnames[k] <- list(NULL)
      next
    }
    if (length(one) != dims[k]) stop_as_base(
      sprintf("length of 'dimnames' [%d] not equal to array extent", k), call)
    dimnames[[k]] <- as.character(one)
  }
  dimnames
}

# ---- construction ------------------------------------------------------------------------------------

# A unique number for each element that ascends in column-major order: a double where that is exact, else an int64.
element_keys <- function(i, j, dim) {
  if (prod(dim) <= 2^53) return(gpu_cast(j, "float64") * dim[1L] + i)
  gpu_cast(j, "int64") * dim[1L] + i
}

# Offsets of `n` columns, from the 0-based column numbers `j` of the elements.
offsets_of <- function(j, n) {
  counts <- if (n > 0L) tabulate(j + 1L, n) else integer()
  running_total(as_gpu(counts, device = gpu_device(j)), length(j))
}

# Offsets from counts: 0 and the cumulative sums. `total` is the sum of all counts.
running_total <- function(counts, total) {
  if (total > .Machine$integer.max) counts <- gpu_cast(counts, "int64")
  join(list(0L, cumsum(counts)), if (total > .Machine$integer.max) "int64" else "int32")
}

# A matrix from 0-based places in any order: sorts them by columns, and adds the values of equal places (logical: `|`).
from_triplets <- function(i, j, x, dim, dimnames = list(NULL, NULL)) {
  n <- length(i)
  if (n > 1L) {
    key <- element_keys(i, j, dim)
    if (!all(key[-1L] > key[-n])) {
      order <- order(key)
      key <- key[order]
      i <- i[order]
      j <- j[order]
      x <- x[order]
      begins <- join(list(TRUE, key[-1L] != key[-n]))
      if (!all(begins)) {
        first <- which(begins)
        offsets <- join(list(gpu_cast(first, "int32") - 1L, n), "int32")
        x <- gpu_cast(segment_reduce(offsets, x, if (is.logical(x)) "any" else "sum"), gpu_dtype(x))
        i <- i[first]
        j <- j[first]
      }
    }
  }
  new_sparse(offsets_of(j, dim[2L]), gpu_cast(i, "int32"), x, dim, dimnames)
}

# A matrix from checked slots of another origin. Sorts and merges elements if rows do not ascend strictly in a column.
from_slots <- function(p, i, x, dim, dimnames) {
  n <- length(i)
  if (n > 1L && !all(i[-1L] > i[-n])) {
    j <- segment_expand(p)
    if (!all(i[-1L] > i[-n] | j[-1L] > j[-n])) return(from_triplets(i, j, x, dim, dimnames))
  }
  new_sparse(p, i, x, dim, dimnames)
}

# The same from slots that are not checked yet, such as those of an object of Matrix.
from_unchecked <- function(p, i, x, dim, dimnames, device, call = parent.frame()) {
  p <- checked_offsets(p, length(i), "p", device, call)
  if (length(p) != dim[2L] + 1) stop_verdigris("argument", sprintf("`p` must have %s offsets, not %s.",
    format_count(dim[2L] + 1), format_count(length(p))), call = call)
  i <- positions_from_0(i, "i", FALSE, device, call)
  if (length(i) && max(i) >= dim[1L]) stop_verdigris("argument", sprintf("`i` must be below the number of rows, %s.",
    format_count(dim[1L])), call = call)
  if (length(x) != length(i)) stop_verdigris("argument", sprintf("`x` must have %s values, not %s.",
    format_count(length(i)), format_count(length(x))), call = call)
  from_slots(p, i, x, dim, dimnames)
}

# ---- by rows -----------------------------------------------------------------------------------------

# The structure by rows: an environment with `p`, `i`, and `order`, the 0-based positions in `x` of the elements in row
# order. `of` keeps the slots that it was made from: the user may have assigned others since.
row_structure <- function(S) {
  kept <- S@rows$kept
  kept <- if (!is.null(kept)) rlang::wref_value(kept)
  if (!is.null(kept) && rlang::is_reference(kept$of[[1L]], S@p) && rlang::is_reference(kept$of[[2L]], S@i)) return(kept)
  made <- segment_transpose(S@p, S@i, S@Dim[1L])
  made$of <- list(S@p, S@i)
  # an environment: R copies any other value that a weak reference gets
  made <- list2env(made, parent = emptyenv())
  assign("kept", rlang::new_weakref(S@rows, made), envir = S@rows)
  made
}

# The values in row order. For products, of which another one often follows, they are kept with the structure until `x`
# is another array or is changed, if there is memory for them.
stored_by_rows <- function(S, x = stored(S), keep = FALSE) {
  rows <- row_structure(S)
  if (!is.null(rows$values) && .Call(C_is_derived, rows$values, x)) return(rows$values)
  values <- elements_at(x, rows$order)
  if (!keep) return(values)
  rows$values <- NULL
  tryCatch({
    gpu_compute(values)
    if (.Call(C_note_derived, values, x)) rows$values <- values
  }, verdigris_error_memory = function(e) NULL)
  values
}

# Column numbers of the elements, from 0.
columns_of <- function(S) segment_expand(S@p)

# Whether two matrices share the arrays of their structure.
same_structure <- function(A, B) identical(A@Dim, B@Dim) && rlang::is_reference(A@i, B@i) &&
  rlang::is_reference(A@p, B@p)

# How many elements are not stored.
structural_zeros <- function(S) prod(S@Dim) - length(S@i)
