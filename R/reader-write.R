# gpu_writer(): files to which results are written block by block.

#' Write results larger than memory
#'
#' `gpu_chunked(x, f, to = gpu_writer(path))` appends the result of each chunk to a file, and returns a reader of the
#' file, so that results may be larger than memory too. `to = path` is short for `to = gpu_writer(path)`.
#'
#' A raw file contains only the elements, as [gpu_reader()] and [readBin()] read them. Results for chunks of columns
#' (`margin = 2`) are bound by columns, and stored as R stores matrices. Results for chunks of rows are bound by rows,
#' and stored row by row; their reader has `byrow = TRUE`. Vectors are concatenated. All results must have the same
#' number of rows (or, for chunks of rows, of columns).
#'
#' The file is written under a temporary name in the same folder, `.verdigris-*.part`, and is renamed when it is
#' complete and on the disk. If `f` fails, the disk is full, or the user interrupts, the temporary file is removed, and
#' an existing file of this name is left unchanged. An HDF5 dataset grows with each result; if writing fails the dataset
#' is removed (and the file, if it did not exist before).
#' @param path The path of the file.
#' @param dtype The dtype in which elements are stored: a dtype of [gpu_reader()] except `"uint16"` and `"uint32"`. The
#'   default is the dtype of the first result, which must then be able to hold the types of all later results. Values
#'   that `dtype` cannot hold become `NA` (0 for `"uint8"`, which has no `NA`), with a warning.
#' @param name The name of a dataset: the file is then an HDF5 file, to which package hdf5r adds the dataset. The type
#'   is then `"float64"`, `"float32"` or `"int32"`.
#' @returns A description of class `gpu_writer`.
#' @section Errors:
#' `verdigris_error_argument` for invalid arguments, and for a `name` that is already in the file;
#' `verdigris_error_file`, from [gpu_chunked()], if the file cannot be written; `verdigris_error_dtype` if, without
#' `dtype`, a result has a type that the type of the first one cannot hold.
#' @seealso [gpu_chunked()], [gpu_reader()].
#' @examples
#' x <- gpu_reader(function(rows) cbind(rows, 1), dim = 1e4)
#' path <- tempfile(fileext = ".bin")
#' roots <- gpu_chunked(x, sqrt, to = gpu_writer(path, "float32"), device = "cpu")
#' roots
#' file.size(path)
#' @export
gpu_writer <- function(path, dtype = NULL, name = NULL) {
  if (!is_readable(path) || length(path) != 1L || is.na(path) || !nzchar(path))
    abort_argument("path", "the path of a file", path)
  if (!is.null(name) && (!is_readable(name) || length(name) != 1L || is.na(name) || !nzchar(name)))
    abort_argument("name", "NULL or the name of a dataset", name)
  type <- dtype
  if (!is.null(type)) {
    if (!is_readable(type) || length(type) != 1L || is.na(type)) abort_argument("dtype", "NULL or the name of a dtype",
      type)
    type <- switch(type, double = "float64", integer = "int32", complex = "complex128", type)
    may <- if (is.null(name)) setdiff(RAW_TYPES, c("uint16", "uint32")) else names(HDF5_TYPES)
    if (!type %in% may) abort_argument("dtype", paste("one of", paste0("\"", may, "\"", collapse = ", ")), type,
      advice = did_you_mean(type, may))
  }
  structure(list(path = normalizePath(enc2utf8(path.expand(path)), mustWork = FALSE), type = type, name = name),
    class = "gpu_writer")
}

#' @export
print.gpu_writer <- function(x, ...) {
  cat(sprintf("<gpu_writer to %s%s%s>\n", if (is.null(x$name)) "" else sprintf("dataset %s in ", x$name), x$path,
    if (is.null(x$type)) "" else paste(" as", x$type)))
  invisible(x)
}

writer_of <- function(to, call) {
  if (inherits(to, "gpu_writer")) return(to)
  if (is.character(to)) {
    if (!is_readable(to) || length(to) != 1L || is.na(to) || !nzchar(to))
      abort_argument("to", "the path of a file, or a `gpu_writer()`", to, call)
    return(gpu_writer(to))
  }
  abort_argument("to", "the path of a file, or a `gpu_writer()`", to, call)
}

# Writes results one after the other: `put(value)` appends one; `end()` completes the file and returns its reader, NULL
# without results; `undo()` removes what was written.
new_sink <- function(to, margin, call) {
  state <- list2env(list(shape = NULL, extent = 0, names = list(), across = NULL, type = to$type), parent = emptyenv())
  out <- if (is.null(to$name)) raw_sink(to, call) else hdf5_sink(to, call)
  put <- function(value) {
    value <- checked_result(value, call)
    vector <- is.null(dim(value))
    if (is.null(state$shape)) {
      state$shape <- if (vector) "vector" else "matrix"
      if (!vector) {
        state$other <- dim(value)[3L - margin]
        state$across <- dimnames(value)[[3L - margin]]
      }
      state$type <- state$type %||% type_of_value(value)
    } else if (vector != (state$shape == "vector") || !vector && dim(value)[3L - margin] != state$other) {
      stop_verdigris("shape", sprintf("The results of `f` do not match: %s after %s.", describe_shape(value), if (
        state$shape == "vector") "vectors" else sprintf("matrices of %s %s", format_count(state$other),
        if (margin == 1) "columns" else "rows")),
        "With `to`, all results must have the same shape, except along the chunk's margin.",
        call = call)
    }
    if (is.null(to$type) && !type_of_value(value) %in% TYPES_IN[[state$type]]) stop_verdigris("dtype", sprintf(
      "A result of `f` is %s, after others of %s.", type_of_value(value), state$type), sprintf(
      "Choose a type that holds all results: `to = gpu_writer(path, dtype = \"%s\")`.", type_of_all(type_of_value(value),
      state$type)), call = call)
    count <- if (vector) length(value) else dim(value)[margin]
    own <- if (vector) names(value) else dimnames(value)[[margin]]
    state$names[[length(state$names) + 1L]] <- own %||% if (length(unlist(state$names))) character(count)
    if (count > 0) out$append(value, state, margin)
    state$extent <- state$extent + count
  }
  end <- function() {
    if (is.null(state$shape)) {
      out$undo()
      return(NULL)
    }
    names <- unlist(state$names)
    if (length(names) != state$extent) names <- NULL
    out$end(state, margin, names)
  }
  list(put = put, end = end, undo = out$undo)
}

# For each type, the types whose values it can hold.
TYPES_IN <- local({
  small <- c("bool8", "int8", "uint8")
  short <- c(small, "int16")
  single <- c(short, "float16", "bfloat16", "float32")
  double <- c(single, "int32", "float64")
  list(bool8 = "bool8", int8 = c("bool8", "int8"), uint8 = c("bool8", "uint8"), int16 = short,
    float16 = c(small, "float16"), bfloat16 = c(small, "bfloat16"), int32 = c(short, "int32"),
    int64 = c(short, "int32", "int64"), float32 = single, float64 = double, complex64 = c(single, "complex64"),
    complex128 = c(double, "complex64", "complex128"))
})
type_of_all <- function(a, b) c(names(Filter(function(types) all(c(a, b) %in% types), TYPES_IN)), "float64")[1L]

checked_result <- function(value, call) {
  if (inherits(value, "integer64") || is_number(value) && length(dim(value)) %in% c(0L, 2L)) return(value)
  stop_verdigris("argument", sprintf("With `to`, `f` must return a vector or a matrix of numbers, not %s.",
    describe(value)), "Without `to`, results of any kind are combined in memory.", call = call)
}
describe_shape <- function(value) if (is.null(dim(value))) "a vector" else paste("a matrix of", paste(format_each(
  dim(value)), collapse = " x "))

raw_sink <- function(to, call) {
  writer <- .Call(C_raw_create, to$path)
  append <- function(value, state, margin) {
    value <- if (is_gpu(value)) value else as_gpu(value, device = "cpu")
    if (gpu_dtype(value) != state$type) value <- gpu_cast(value, state$type)
    # elements by columns as they are stored, or by rows if results are bound by rows
    dim <- if (state$shape == "matrix" && margin == 1) dim(value) else length(value)
    # C_raw_end raises the error of the append that failed
    if (!.Call(C_raw_append, writer, value, as.double(dim))) .Call(C_raw_end, writer)
  }
  end <- function(state, margin, names) {
    .Call(C_raw_end, writer)
    vector <- state$shape == "vector"
    dim <- if (vector) state$extent else if (margin == 1) c(state$extent, state$other) else c(state$other, state$extent)
    named <- if (vector) names else if (margin == 1) list(names, state$across) else list(state$across, names)
    gpu_reader(to$path, dim = dim, dtype = state$type, byrow = !vector && margin == 1, dimnames = named)
  }
  # if C_raw_end failed, the writer is gone
  undo <- function() try(.Call(C_raw_drop, writer), silent = TRUE)
  list(append = append, end = end, undo = undo)
}

HDF5_TYPES <- c(float64 = "H5T_NATIVE_DOUBLE", float32 = "H5T_NATIVE_FLOAT", int32 = "H5T_NATIVE_INT")

hdf5_sink <- function(to, call) {
  needs_package("hdf5r", "An HDF5 file", call)
  new <- !file.exists(to$path)
  wrong <- function(e) stop_verdigris("file", sprintf("the dataset %s of the file %s cannot be written", to$name,
    to$path), "`to` must name an HDF5 file that may be written to, in a folder that exists.", parent = e, call = call)
  file <- tryCatch(hdf5_file(to$path, "a"), error = wrong)
  dataset <- NULL
  close <- function() {
    # not `close_all()`, which collects garbage
    for (object in list(dataset, file)) if (!is.null(object)) object$close()
    dataset <<- file <<- NULL
  }
  if (file$exists(to$name)) {
    close()
    stop_verdigris("argument", sprintf("the file %s already has a dataset %s", to$path, to$name),
      sprintf("Choose another `name`, or remove it: `hdf5r::H5File$new(path)$link_delete(\"%s\")`.", to$name),
      call = call)
  }
  append <- function(value, state, margin) tryCatch({
    vector <- state$shape == "vector"
    value <- collect(value)
    count <- if (vector) length(value) else dim(value)[margin]
    at <- state$extent + seq_len(count)
    shape <- if (vector) count else dim(value)
    if (is.null(dataset)) {
      kind <- HDF5_TYPES[state$type]
      if (is.na(kind)) kind <- if (is.double(value)) "H5T_NATIVE_DOUBLE" else "H5T_NATIVE_INT"
      most <- as.double(shape)
      most[if (vector) 1L else margin] <- Inf
      # a chunk of some 1 MB along the margin that grows
      chunk <- as.double(shape)
      grows <- if (vector) 1L else margin
      other <- if (vector) 1 else max(1, shape[-margin])
      chunk[grows] <- max(1, min(shape[grows], floor(2^17 / other)))
      space <- hdf5r::H5S$new("simple", dims = shape, maxdims = most)
      dataset <<- file$create_dataset(to$name, space = space, dtype = hdf5r::h5types[[kind]],
        chunk_dims = base::pmax(1, chunk))
      space$close()
    } else {
      extents <- dataset$dims
      extents[if (vector) 1L else margin] <- state$extent + count
      dataset$set_extent(extents)
    }
    if (vector) dataset[at] <- value else if (margin == 1) dataset[at, ] <- value else dataset[, at] <- value
  }, error = wrong)
  end <- function(state, margin, names) {
    tryCatch(file$flush(), error = wrong)
    close()
    vector <- state$shape == "vector"
    named <- if (vector) names else if (margin == 1) list(names, state$across) else list(state$across, names)
    hdf5_reader(to$path, to$name, NULL, named, NULL, call)
  }
  undo <- function() {
    if (is.null(file)) return()
    if (!is.null(dataset)) try(file$link_delete(to$name), silent = TRUE)
    try(close(), silent = TRUE)
    if (new) unlink(to$path)
  }
  list(append = append, end = end, undo = undo)
}
