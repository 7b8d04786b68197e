# Readers of data of other packages: hdf5r, DelayedArray, bigmemory and ff. R reads these, not threads.

needs_package <- function(package, what, call) {
  if (requireNamespace(package, quietly = TRUE)) return(invisible())
  stop_verdigris("library", sprintf("%s is read by the package %s, which is not installed.", what, package),
    sprintf("`install.packages(\"%s\")` installs it.", package), call = call)
}

# The margin by which chunks of these extents are read in fewer pieces.
margin_of_chunks <- function(chunk, dim) if (length(dim) == 1L || chunk[1L] / max(1, dim[1L]) <
  chunk[2L] / max(1, dim[2L])) 1 else 2

# A source that reads elements by `[`.
subscripted <- function(x, vector, as = identity) list(read = function(from, count, margin) {
  i <- from + seq_len(count)
  as(if (vector) x[i] else if (margin == 1) x[i, , drop = FALSE] else x[, i, drop = FALSE])
})

check_two <- function(dim, call) {
  if (!length(dim) %in% 1:2) stop_verdigris("argument", sprintf("`x` must have one or two dimensions, not %d.",
    length(dim)), "DelayedArray's `x[, , k]` is a matrix.", call = call)
}

# ---- HDF5 ----------------------------------------------------------------------------------------------------

#' @rdname gpu_reader
#' @export
gpu_reader.H5D <- function(x, dimnames = NULL, memory = NULL, ...) {
  rlang::check_dots_empty()
  hdf5_reader(normalizePath(x$get_filename(), mustWork = FALSE), x$get_obj_name(), x, dimnames, memory, environment())
}

# A reader of the dataset with this name in a file; `dataset` is the object if the user has it open.
hdf5_reader <- function(path, name, dataset, dimnames, memory, call) {
  needs_package("hdf5r", "An HDF5 file", call)
  source <- hdf5_source(path, name, dataset, call)
  facts <- source$with(function(dataset) {
    type <- dataset$get_type()
    on.exit(type$close())
    list(dim = as.double(dataset$dims), chunk = tryCatch(dataset$chunk_dims, error = function(e) NA),
      kind = class(type)[1L])
  })
  dim <- facts$dim
  check_two(dim, call)
  chunk <- facts$chunk
  chunked <- length(chunk) == length(dim) && !anyNA(chunk)
  margin <- if (chunked) margin_of_chunks(chunk, dim) else if (length(dim) == 1L) 1 else 2
  if (!facts$kind %in% c("H5T_FLOAT", "H5T_INTEGER", "H5T_LOGICAL")) stop_verdigris("dtype", sprintf(
    "the dataset %s has elements of type %s, which arrays do not have", name, facts$kind),
    "Datasets of floats and integers are read.", call = call)
  # an empty dataset has no first element
  probe <- if (prod(dim) > 0) source$read(0, 1, margin) else numeric()
  new_reader(open_hdf5, list(path = path, name = name), dim, dimnames, type_of_value(as.vector(probe)), margin, memory,
    sprintf("dataset %s in %s", name, path), step = if (chunked) chunk[margin] else 1, source = source, call = call)
}

open_hdf5 <- function(path, name) {
  needs_package("hdf5r", "An HDF5 file", NULL)
  hdf5_source(path, name)
}

# Opens an HDF5 file. HDF5 locks files, and a process that was forked meanwhile holds the lock until it ends or runs its
# own program, so opening is tried again.
hdf5_file <- function(path, mode) {
  for (turn in 1:20) {
    opened <- tryCatch(hdf5r::H5File$new(path, mode = mode), error = identity)
    if (!inherits(opened, "error")) return(opened)
    if (!grepl("unable to lock", conditionMessage(opened), fixed = TRUE)) break
    Sys.sleep(0.01 * turn)
  }
  stop(opened)
}

# The file is open only while it is read, so that it may be written to in between. A dataset that the user has open is
# read directly.
hdf5_source <- function(path, name, dataset = NULL, call = NULL) {
  wrong <- function(e) stop_verdigris("file", sprintf("the dataset %s of the file %s cannot be read", name, path),
    "`x` must be an HDF5 file, and `name` the name of a dataset in it.", parent = e, call = call)
  with <- function(f) {
    if (!is.null(dataset) && isTRUE(dataset$is_valid)) return(f(dataset))
    file <- tryCatch(hdf5_file(path, "r"), error = wrong)
    open <- NULL
    # not `close_all()`, which collects garbage each time
    on.exit(for (object in list(open, file)) if (inherits(object, "H5RefClass")) object$close())
    tryCatch({
      open <- file[[name]]
      if (!inherits(open, "H5D")) stop("it is not a dataset")
      f(open)
    }, error = wrong)
  }
  read <- function(from, count, margin) with(function(dataset) {
    dims <- dataset$dims
    vector <- length(dims) == 1L
    if (count == 0) return(if (vector) numeric() else if (margin == 1) base::matrix(0, 0L, dims[2L]) else
      base::matrix(0, dims[1L], 0L))
    i <- from + seq_len(count)
    if (vector) as.vector(dataset[i]) else if (margin == 1) dataset[i, , drop = FALSE] else dataset[, i, drop = FALSE]
  })
  list(read = read, with = with)
}

# ---- DelayedArray, HDF5Array ---------------------------------------------------------------------------------

#' @rdname gpu_reader
#' @export
gpu_reader.DelayedArray <- function(x, dimnames = NULL, memory = NULL, ...) {
  rlang::check_dots_empty()
  call <- environment()
  dim <- dim(x)
  check_two(dim, call)
  chunk <- DelayedArray::chunkdim(x)
  margin <- if (!is.null(chunk)) margin_of_chunks(chunk, dim) else if (length(dim) == 1L) 1 else 2
  probe <- vector(DelayedArray::type(x), 0L)
  if (!is_number(probe)) abort_argument("x", "a DelayedArray of numbers", x)
  new_reader(open_delayed, list(x = x), as.double(dim), dimnames %||% base::dimnames(x), type_of_value(probe), margin,
    memory, class(x)[1L], step = if (is.null(chunk)) 1 else chunk[margin])
}
# Calls DelayedArray's functions by name, whatever packages are attached.
open_delayed <- function(x) {
  loadNamespace("DelayedArray")
  vector <- length(dim(x)) == 1L
  list(read = function(from, count, margin) {
    i <- from + seq_len(count)
    index <- if (vector) list(i) else if (margin == 1) list(i, NULL) else list(NULL, i)
    out <- DelayedArray::extract_array(x, index)
    if (vector) as.vector(out) else out
  })
}

#' @rdname gpu_reader
#' @export
gpu_reader.HDF5ArraySeed <- function(x, dimnames = NULL, memory = NULL, ...) {
  needs_package("HDF5Array", "An HDF5ArraySeed", environment())
  gpu_reader(DelayedArray::DelayedArray(x), dimnames = dimnames, memory = memory, ...)
}

# ---- bigmemory and ff ----------------------------------------------------------------------------------------

#' @rdname gpu_reader
#' @export
gpu_reader.big.matrix <- function(x, dimnames = NULL, memory = NULL, ...) {
  rlang::check_dots_empty()
  call <- environment()
  needs_package("bigmemory", "A big.matrix", call)
  # a matrix in the memory of one process cannot be described to another
  shared <- bigmemory::is.shared(x)
  args <- list(x = if (shared) bigmemory::describe(x) else x)
  probe <- if (nrow(x) > 0) x[1L, 1L] else numeric()
  new_reader(open_big, args, as.double(dim(x)), dimnames %||% base::dimnames(x), type_of_value(probe), 2, memory,
    "big.matrix", portable = shared, source = subscripted(x, FALSE, as_numbers))
}
open_big <- function(x) {
  loadNamespace("bigmemory")
  subscripted(if (methods::is(x, "big.matrix.descriptor")) bigmemory::attach.big.matrix(x) else x, FALSE, as_numbers)
}
# bigmemory's type raw: bytes are numbers
as_numbers <- function(x) {
  dimnames(x) <- NULL
  if (is.raw(x)) array(as.integer(x), dim(x)) else x
}

#' @rdname gpu_reader
#' @export
gpu_reader.ff <- function(x, dimnames = NULL, memory = NULL, ...) {
  rlang::check_dots_empty()
  call <- environment()
  needs_package("ff", "An ff vector", call)
  if (is.factor(x) || inherits(x, c("Date", "POSIXct"))) refuse(x, call = call)
  dim <- dim(x) %||% length(x)
  check_two(dim, call)
  # in the file the last dimension of `dimorder` is slowest
  by_rows <- length(dim) == 2L && identical(as.integer(attr(attr(x, "virtual"), "dimorder")), 2:1)
  given <- dimnames %||% if (length(dim) == 2L) base::dimnames(x) else names(x)
  source <- open_ff(x)
  margin <- if (length(dim) == 1L || by_rows) 1 else 2
  probe <- if (prod(dim) > 0) source$read(0, 1, margin) else numeric()
  if (!is_number(probe)) refuse(probe, call = call)
  new_reader(open_ff, list(x = x), as.double(dim), given, type_of_value(as.vector(probe)), margin, memory, sprintf(
    "ff %s", ff::vmode(x)), source = source)
}
open_ff <- function(x) {
  loadNamespace("ff")
  vector <- is.null(dim(x))
  subscripted(x, vector, function(v) {
    if (is.raw(v)) v <- array(as.integer(v), dim(v) %||% length(v))
    if (vector) as.vector(v) else {
      dimnames(v) <- NULL
      v
    }
  })
}
