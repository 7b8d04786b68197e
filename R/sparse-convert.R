# Sparse matrices to and from others: package Matrix's classes, dense matrices, ordinary vectors.

# There is a method for each class of Matrix; those for SparseArray are in sparse-array.R.
#' @rdname as_gpu
#' @export
as_gpu.sparseMatrix <- function(x, dtype = NULL, device = NULL, ...) {
  if (...length()) rlang::check_dots_empty()
  x <- compressed(x)
  values <- if (methods::is(x, "nsparseMatrix")) rep.int(TRUE, length(x@i)) else x@x
  values <- sparse_values(values, dtype, device, parent.frame(), environment())
  from_unchecked(x@p, x@i, values, x@Dim, checked_dimnames(x@Dimnames, x@Dim), gpu_device(values), environment())
}

#' @rdname as_gpu
#' @export
as_gpu.denseMatrix <- function(x, dtype = NULL, device = NULL, ...) {
  if (...length()) rlang::check_dots_empty()
  x <- as.matrix(x)
  as_gpu(x, dtype = dtype %||% default_dtype(x, parent.frame()), device = device)
}

#' @rdname as_gpu
#' @export
as_gpu.sparseVector <- function(x, dtype = NULL, device = NULL, ...) {
  if (...length()) rlang::check_dots_empty()
  x <- as.vector(x)
  as_gpu(x, dtype = dtype %||% default_dtype(x, parent.frame()), device = device)
}

#' @rdname as_gpu
#' @export
as_gpu.gpu_sparse <- function(x, dtype = NULL, device = NULL, ...) {
  if (...length()) rlang::check_dots_empty()
  values <- sparse_values(stored(x), dtype, device, NULL, environment())
  moved <- gpu_device(values)
  if (moved == gpu_device(x)) return(with_stored(x, values))
  new_sparse(as_gpu(x@p, device = moved), as_gpu(x@i, device = moved), values, x@Dim, x@Dimnames)
}

# A sparse matrix of Matrix as a general one by columns: symmetric ones store a half, triangular ones maybe no diagonal.
compressed <- function(x) {
  if (!methods::is(x, "generalMatrix")) x <- methods::as(x, "generalMatrix")
  if (!methods::is(x, "CsparseMatrix")) x <- methods::as(x, "CsparseMatrix")
  x
}

# A dense or sparse matrix as a sparse one on the device, for gpu_sparse(x).
sparse_of_matrix <- function(x, dtype = NULL, device = NULL, call = parent.frame()) {
  if (is_sparse(x) || is_of_matrix(x, "sparseMatrix") || is_of_sparse_array(x))
    return(as_gpu(x, dtype = dtype, device = device))
  x <- from_foreign_class(x, device)
  if (is_sparse(x)) return(as_gpu(x, dtype = dtype))
  if (!is_number(x) || length(dim(x)) != 2L) abort_argument("i", "row indices (with `j` or `p`), or a matrix", x, call)
  dim <- dim(x)
  names <- dimnames(x)
  values <- sparse_values(x, dtype, device, parent.frame(2L), call)
  at <- which(is.na(values) | values != 0) - 1
  j <- if (dim[1L] > 0L) at %/% dim[1L] else at
  i <- gpu_cast(at - j * dim[1L], "int32")
  j <- gpu_cast(j, "int32")
  new_sparse(offsets_of(j, dim[2L]), i, values[at + 1], dim, checked_dimnames(names, dim))
}

# Whether x has this class of Matrix. Does not load Matrix.
is_of_matrix <- function(x, class = "Matrix") isS4(x) && inherits(x, class)

# Converts objects of Matrix or of Bioconductor: sparse and delayed matrices by as_gpu(), other matrices to ordinary
# ones, sparse vectors to ordinary vectors. Anything else is returned as it is.
from_foreign_class <- function(x, device = NULL) {
  if (!isS4(x) || is_sparse(x)) return(x)
  if (is_of_matrix(x, "sparseMatrix") || is_of_sparse_array(x) || is_delayed(x)) return(as_gpu(x, device = device))
  if (is_of_matrix(x)) as.matrix(x) else if (is_of_matrix(x, "sparseVector")) as.vector(x) else x
}

# A sparse vector of Matrix as a sparse matrix, recycled along the columns.
sparse_of_vector <- function(v, dim, device) {
  n <- prod(dim)
  m <- length(v)
  values <- if (is_of_matrix(v, "nsparseVector")) rep.int(TRUE, length(v@i)) else v@x
  times <- if (m > 0) ceiling(n / m) else 0
  at <- rep.int(as.double(v@i) - 1, times) + rep(m * (seq_len(times) - 1), each = length(v@i))
  inside <- at < n
  x <- sparse_values(rep.int(values, times)[inside], NULL, device, NULL)
  at <- at[inside]
  j <- at %/% dim[1L]
  on_device <- function(at) as_gpu(as.integer(at), device = gpu_device(x))
  from_triplets(on_device(at - j * dim[1L]), on_device(j), x, as.integer(dim))
}

# A sparse matrix as a dense array of numbers; anything else as it is.
dense_numbers <- function(x) if (is_sparse(x)) as_doubles(gpu_dense(x)) else x

#' @rdname gpu_sparse
#' @export
gpu_dense <- function(x) {
  x <- from_foreign_class(x)
  if (!is_sparse(x)) {
    if (!is_number(x)) abort_argument("x", "a sparse matrix", x)
    return(as_gpu(x))
  }
  values <- stored(x)
  out <- gpu_full(if (is.logical(values)) FALSE else 0, prod(x@Dim), dtype = gpu_dtype(values),
    device = gpu_device(values))
  if (length(values)) out[element_keys(x@i, columns_of(x), x@Dim) + 1] <- values
  dim(out) <- x@Dim
  out <- with_dimnames(out, x@Dimnames)
  # an attribute that scale() gives
  scaled <- attr(x, "scaled:scale")
  if (is.null(scaled)) out else with_attributes(out, c(attributes(out), list("scaled:scale" = scaled)))
}

#' @rdname collect
#' @export
collect.gpu_sparse <- function(x, ...) {
  if (...length()) rlang::check_dots_empty()
  if (!requireNamespace("Matrix", quietly = TRUE)) stop_verdigris("library",
    "`collect()` of a sparse matrix needs package Matrix, which is not installed.",
    "`as.matrix()` gives a dense matrix.")
  if (length(x@i) > .Machine$integer.max) stop_verdigris("memory",
    sprintf("Package Matrix cannot hold %s elements.", format_count(length(x@i))),
    "Collect parts of the matrix, or its slots.")
  values <- host_values(x)
  class <- if (is.logical(values)) "lgCMatrix" else "dgCMatrix"
  methods::new(class, p = as.integer(x@p), i = collect(strip(x@i)), x = values, Dim = x@Dim,
    Dimnames = x@Dimnames)
}

# The stored values on the host. Integers, which a user may have assigned, become doubles.
host_values <- function(S) collect(if (is.logical(S@x)) stored(S) else stored_numbers(S))

#' @rdname collect
#' @method as.matrix gpu_sparse
#' @rawNamespace S3method(base::as.matrix,gpu_sparse)
as.matrix.gpu_sparse <- function(x, ...) {
  values <- host_values(x)
  out <- rep.int(if (is.logical(values)) FALSE else 0, prod(x@Dim))
  columns <- rep.int(seq_len(x@Dim[2L]) - 1, base::diff(as.double(x@p)))
  out[columns * x@Dim[1L] + collect(x@i) + 1] <- values
  dim(out) <- x@Dim
  with_dimnames(out, x@Dimnames)
}

#' @rdname collect
#' @export
as.array.gpu_sparse <- as.matrix.gpu_sparse

#' @rdname collect
#' @export
as.vector.gpu_sparse <- function(x, mode = "any") {
  # Matrix() turns objects of other classes into vectors, and would make one column of all elements. The method's
  # caller is base R's as.vector(), whose caller is Matrix().
  if (called_by_matrix(sys.function(sys.parent(2L)), "Matrix")) stop_verdigris("argument",
    "`Matrix()` of package Matrix does not take a sparse matrix on a device.", "`collect(S)` is one of Matrix.")
  as.vector(as.matrix(x), mode)
}

# Whether `caller`, the function that called a method, is code of package Matrix: any of its functions, or the one of
# this name. Matrix's functions that are not generic continue with values of generics, and expect ordinary vectors and
# factors. A user's call of the same generic gets arrays.
called_by_matrix <- function(caller, name = NULL) {
  if (!isNamespaceLoaded("Matrix")) return(FALSE)
  matrix <- asNamespace("Matrix")
  if (is.null(name)) identical(environment(caller), matrix) else identical(caller, matrix[[name]])
}
#' @rdname collect
#' @export
as.double.gpu_sparse <- function(x, ...) as.double(as.matrix(x))
#' @rdname collect
#' @export
as.integer.gpu_sparse <- function(x, ...) as.integer(as.matrix(x))
#' @rdname collect
#' @export
as.complex.gpu_sparse <- function(x, ...) as.complex(as.matrix(x))
#' @rdname collect
#' @export
as.logical.gpu_sparse <- function(x, ...) as.logical(as.matrix(x))

# All elements as a dense vector, as c() of Matrix from 1.6 on; with an older Matrix a list of the arguments, as there.
#' @export
c.gpu_sparse <- function(...) {
  parts <- list(...)
  if (lists_matrices()) return(parts)
  plain <- function(x) if (is_sparse(x)) strip(gpu_dense(x)) else if (is_of_matrix(x)) as.vector(as.matrix(x)) else
    as.vector(x)
  do.call(c, lapply(parts, plain))
}
lists_matrices <- function() {
  path <- system.file(package = "Matrix")
  nzchar(path) && utils::packageVersion("Matrix") < "1.6"
}

#' @export
rep.gpu_sparse <- function(x, ...) rep(strip(gpu_dense(x)), ...)

# ---- attributes --------------------------------------------------------------------------------------

#' @export
dim.gpu_sparse <- function(x) x@Dim
#' @export
length.gpu_sparse <- function(x) if ((n <- prod(x@Dim)) <= .Machine$integer.max) as.integer(n) else n
# Always a list, as in Matrix.
#' @export
dimnames.gpu_sparse <- function(x) x@Dimnames
#' @export
`dimnames<-.gpu_sparse` <- function(x, value) {
  x@Dimnames <- checked_dimnames(value, x@Dim)
  x
}
# Changes the extents. Elements keep their column-major order.
#' @export
`dim<-.gpu_sparse` <- function(x, value) {
  value <- host_copy(value, silent = TRUE)
  if (!is.numeric(value) || length(value) != 2L || anyNA(value) || any(value < 0) || prod(value) != prod(x@Dim))
    stop_verdigris("shape", sprintf("A sparse matrix of %s elements cannot have dimensions %s.",
      format_count(prod(x@Dim)), paste(value, collapse = " x ")),
      "It must have two dimensions, whose product is its length.")
  at <- element_keys(x@i, columns_of(x), x@Dim)
  j <- if (value[1L] > 0) at %/% value[1L] else at
  new_sparse(offsets_of(gpu_cast(j, "int32"), value[2L]), gpu_cast(at - j * value[1L], "int32"), stored(x), value)
}

# ---- showing -----------------------------------------------------------------------------------------

sparse_header <- function(x) sprintf("<gpu_sparse %s [%s] on %s, %s stored>", gpu_dtype(x@x), paste(format(x@Dim,
  scientific = FALSE, trim = TRUE), collapse = " x "), gpu_device(x@x), format_count(length(x@i)))

#' @rdname print.gpu_array
#' @export
print.gpu_sparse <- function(x, ...) {
  cat(sparse_header(x), "\n", sep = "")
  rows <- if (x@Dim[1L] <= 2L * SHOWN_ROWS) x@Dim[1L] else SHOWN_ROWS
  columns <- if (x@Dim[2L] <= 2L * SHOWN_COLUMNS) x@Dim[2L] else SHOWN_COLUMNS
  if (rows > 0L && columns > 0L) {
    part <- corner_of_sparse(x, rows, columns)
    text <- ifelse(part$stored, if (is.logical(part$values)) ifelse(is.na(part$values), "N", ifelse(part$values, "|",
      ":")) else format(part$values, ...), ".")
    text <- base::array(text, c(rows, columns), dimnames = list(
      x@Dimnames[[1L]][seq_len(rows)] %||% sprintf("[%d,]", seq_len(rows)),
      x@Dimnames[[2L]][seq_len(columns)] %||% rep.int("", columns)))
    print(text, quote = FALSE, right = TRUE)
  }
  left <- c(if (rows < x@Dim[1L]) sprintf("%s more rows", format_count(x@Dim[1L] - rows)),
    if (columns < x@Dim[2L]) sprintf("%s more columns", format_count(x@Dim[2L] - columns)))
  if (length(left)) cat("... and ", paste(left, collapse = ", "), "\n", sep = "")
  invisible(x)
}

methods::setMethod("show", "gpu_sparse", function(object) print(object))

# The upper left corner on the host: values, and which of them are stored. Downloads only elements of these columns.
corner_of_sparse <- function(x, rows, columns) {
  p <- as.double(x@p[seq_len(columns + 1L)])
  places <- if (p[columns + 1L] > 0) seq_len(p[columns + 1L]) else integer()
  i <- collect(strip(x@i)[places])
  j <- rep.int(seq_len(columns), base::diff(p))
  inside <- i < rows
  values <- collect(stored(x)[places[inside]])
  at <- (j[inside] - 1) * rows + i[inside] + 1
  out <- list(values = vector(typeof(values), rows * columns), stored = logical(rows * columns))
  out$values[at] <- values
  out$stored[at] <- TRUE
  out
}

#' @export
format.gpu_sparse <- function(x, ..., what = c("values", "header")) {
  if (one_of("what", what, c("values", "header")) == "header") return(sparse_header(x))
  # as in Matrix, with points for elements that are not stored
  if (requireNamespace("Matrix", quietly = TRUE)) Matrix::format(collect(x), ...) else format(as.matrix(x), ...)
}

#' @export
str.gpu_sparse <- function(object, ...) {
  cat(" ", sparse_header(object), "\n", sep = "")
  for (slot in c("p", "i", "x")) {
    cat("  ..@ ", slot, ":", sep = "")
    str(methods::slot(object, slot))
  }
  named <- Filter(function(k) !is.null(object@Dimnames[[k]]), 1:2)
  for (k in named) {
    shown <- paste0("\"", utils::head(object@Dimnames[[k]], 3L), "\"", collapse = " ")
    cat(sprintf("  ..@ Dimnames[[%d]]: %s%s\n", k, shown, if (object@Dim[k] > 3L) " ..." else ""))
  }
  invisible()
}

# The 1-based places and the values of the stored elements, a data frame on the host, as in Matrix.
#' @export
summary.gpu_sparse <- function(object, ...) {
  columns <- rep.int(seq_len(object@Dim[2L]), base::diff(as.double(object@p)))
  out <- data.frame(i = collect(strip(object@i)) + 1L, j = columns, x = collect(stored(object)))
  attr(out, "header") <- sub("^<(.*)>$", "\\1", sparse_header(object))
  class(out) <- c("sparseSummary", class(out))
  out
}

#' @rawNamespace S3method(base::all.equal,gpu_sparse)
all.equal.gpu_sparse <- function(target, current, ...) {
  # two sparse matrices are compared by their stored elements
  sparse <- function(x) is_sparse(x) || is_of_matrix(x, "sparseMatrix")
  if (sparse(target) && sparse(current) && requireNamespace("Matrix", quietly = TRUE)) {
    as_one <- function(x) if (is_sparse(x)) collect(x) else compressed(if (is_of_matrix(x, "nsparseMatrix"))
      methods::as(x, "lMatrix") else x)
    return(Matrix::all.equal(as_one(target), as_one(current), ...))
  }
  plain <- function(x) if (is_sparse(x)) as.matrix(x) else if (is_gpu(x)) collect(x) else if (is_of_matrix(x))
    as.matrix(x) else x
  all.equal(plain(target), plain(current), ...)
}
