# Readers: matrices, vectors and data frames that are elsewhere, and are read by blocks of rows or columns.
#
# A reader is a locked environment, whose fields `$` returns: extents `dim`, `dimnames`, dtype `type` (NULL for data
# frames), whether blocks are data frames (`frame`), the `margin` by which it is read at least cost, and how it is
# opened: by a function `open` of this package with arguments `args`, so that it can be sent to another process and
# opened there. The opened source is kept in the environment `state`, for this process only. A source is a list of
# `read(from, count, margin)`, which returns an ordinary value or an array; or of `ahead()`, which begins to read a
# block, and `take()`, which waits for it.

is_reader <- function(x) is_of(x, "gpu_reader")

# Makes a reader. `portable` says whether another process can open the source, `step` is the extent of the source's
# chunks along the margin, and `source` is the source if it is open already.
new_reader <- function(open, args, dim, dimnames = NULL, type, margin, memory, label, frame = FALSE, portable = TRUE,
  step = 1, source = NULL, call = parent.frame()) {
  if (!is.null(memory) && !(is_size(memory) && memory > 0))
    abort_argument("memory", "NULL or a number of bytes above 0", memory, call)
  if (all(dim <= .Machine$integer.max)) dim <- as.integer(dim)
  if (length(dim) == 2L) dimnames <- checked_names(dimnames, dim, call) else if (is.list(dimnames))
    dimnames <- dimnames[[1L]]
  state <- new.env(parent = emptyenv())
  if (!is.null(source)) {
    state$source <- source
    state$where <- place_of(state)
  }
  reader_of(list(open = open, args = args, dim = dim, dimnames = dimnames, type = type, margin = margin,
    memory = memory, label = label, frame = frame, portable = portable, step = step, state = state))
}
reader_of <- function(fields) remote_object("gpu_reader", fields = fields)
# The reader with other values of some fields.
reader_with <- function(x, ...) {
  fields <- fields_of(x)
  given <- list(...)
  fields[names(given)] <- given
  reader_of(fields)
}

checked_names <- function(names, dim, call) {
  if (is.null(names) || is.list(names) && all(vapply(names, is.null, NA))) return(NULL)
  if (!is.list(names) || length(names) != 2L) abort_argument("dimnames", "NULL or a list of two", names, call)
  for (k in 1:2) if (!is.null(names[[k]]) && length(names[[k]]) != dim[k]) stop_verdigris("argument",
    sprintf("`dimnames[[%d]]` must have %s names, not %s.", k, format_count(dim[k]), format_count(length(names[[k]]))),
    call = call)
  lapply(names, function(v) if (!is.null(v)) as.character(v))
}

# Identifies an environment in this process. A copy that was serialized, and read back here or elsewhere, has another.
place_of <- function(state) c(this_worker(), rlang::obj_address(state))

# The source that a reader's blocks are read from. It is opened in this process if that has not been done.
opened <- function(x) {
  state <- x$state
  here <- place_of(state)
  if (is.null(state$source) || !identical(state$where, here)) {
    state$source <- do.call(x$open, x$args)
    state$where <- here
  }
  state$source
}

# The reader without its open source, for another process.
described <- function(x) reader_with(x, state = new.env(parent = emptyenv()))

rows_of_reader <- function(x) as.double(x$dim[1L])
is_vector_reader <- function(x) length(x$dim) == 1L

#' Read data larger than memory
#'
#' A reader represents a matrix, vector or data frame that is stored in a file or made by a function, and reads it in
#' blocks of rows or columns. [gpu_chunked()] processes a reader block by block; with [gpu_split()] each member of a
#' team reads its own rows; [gpu_lm()], [gpu_glm()] and [prcomp()][reader-methods] fit models to it; sums, means, ranges
#' and cross products are computed by passes over its blocks, see [reader-methods].
#'
#' @section Sources:
#' - The path of a **raw file**: elements one after the other, without a header (or after a header of `offset` bytes).
#'   Matrices are stored by columns, as in R, or with `byrow = TRUE` by rows, as in NumPy, C and databases. Threads read
#'   the next block into page-locked memory, and convert it, while the device computes with the current block.
#' - A path with `name`, or a **dataset of hdf5r** (class `H5D`): an HDF5 dataset of one or two dimensions.
#' - **HDF5Array** and **DelayedArray**: any `DelayedArray` of one or two dimensions, or an `HDF5ArraySeed`.
#' - **bigmemory**'s `big.matrix`, **ff** vectors and matrices.
#' - A **function** `function(rows)` that returns the rows with these numbers, in ascending order: a matrix, a vector,
#'   or a data frame. Such functions can read Parquet files, databases and generators. The function is first called for
#'   one row, to determine the type of its result.
#' - Ordinary **matrices, vectors and data frames**, and arrays.
#'
#' Only raw files are read by threads. R itself reads all other sources, since R must not be called from other threads:
#' it reads a block while the device computes with the previous block.
#'
#' A reader can be sent to another process, which opens a file under the same path. Data that only this process has
#' (ordinary matrices, arrays, a `big.matrix` that is not shared) are sent as rows.
#' @param x The source.
#' @param dim The extents: rows and columns, or the length of a vector. For raw files one of them may be `NA`, and is
#'   then found by the file's size; the default is a vector of all elements. For functions the number of rows is enough.
#' @param dtype How a raw file stores an element: `"float64"`, `"float32"`, `"float16"`, `"bfloat16"`, `"int64"`,
#'   `"int32"`, `"int16"`, `"int8"`, `"uint8"`, `"bool8"`, `"complex64"`, `"complex128"`; `"uint16"` and `"uint32"`,
#'   which are read as `int32` and `float64`; or R's names `"double"`, `"integer"`, `"complex"` and `"logical"` (of 4
#'   bytes, as [writeBin()] writes them). `NA` of signed integers is their smallest number.
#' @param offset Bytes before the first element.
#' @param byrow Whether a matrix is stored row by row.
#' @param endian `"little"` or `"big"`.
#' @param name The name of a dataset in an HDF5 file. Package hdf5r reads it.
#' @param dimnames Names of rows and columns; those of the source by default.
#' @param memory The number of bytes that the three blocks on the device may occupy together. The default depends on the
#'   free memory of the device: a sixteenth for one block, at most 1 GB (64 MB on the cpu).
#' @param direct Whether a raw file is read by direct I/O, from the disk to page-locked memory without a copy in the
#'   page cache (Linux). Direct I/O takes a fraction of the processor time, and leaves the page cache to other files;
#'   but each pass over the data reads the disk again. By default (`NA`) direct I/O is used for files that are larger
#'   than the memory of the machine or container: their blocks would no longer be in the cache when they are read again.
#' @param ... Not used.
#' @returns An object of class `gpu_reader`, with methods for `dim()`, `dimnames()`, `length()`, `print()`; `x[i, j]`
#'   reads rows and columns, and [collect()] all elements, as ordinary values; [as_gpu()] reads all of them to a device.
#' @section Errors:
#' `verdigris_error_file` for a file that cannot be read, that direct I/O cannot read (`direct = TRUE`), whose size does
#' not agree with `dim`, `dtype` and `offset`, or that becomes shorter while it is read; `verdigris_error_argument` for
#' invalid arguments, and for functions that do not return the requested rows; `verdigris_error_library` if a package is
#' missing.
#' @examples
#' path <- tempfile(fileext = ".bin")
#' writeBin(as.double(as.matrix(mtcars)), path)
#' cars <- gpu_reader(path, dim = c(NA, 11), dimnames = list(NULL, names(mtcars)))
#' cars
#' cars[1:2, c("mpg", "hp")]
#' colMeans(cars)
#' gpu_lm(mpg ~ hp + wt, cars, device = "cpu")
#'
#' squares <- gpu_reader(function(rows) cbind(rows, rows^2), dim = 1e5)
#' gpu_chunked(squares, colSums, combine = "+", device = "cpu")
#' @export
gpu_reader <- function(x, ...) UseMethod("gpu_reader")

#' @rdname gpu_reader
#' @export
gpu_reader.character <- function(x, dim = NULL, dtype = "float64", offset = 0, byrow = FALSE, endian = .Platform$endian,
  name = NULL, dimnames = NULL, memory = NULL, direct = NA, ...) {
  rlang::check_dots_empty()
  call <- environment()
  if (!is_readable(x) || length(x) != 1L || is.na(x) || !nzchar(x)) abort_argument("x", "the path of a file", x)
  path <- normalizePath(enc2utf8(path.expand(x)), mustWork = FALSE)
  if (!is.null(name)) {
    if (!is_readable(name) || length(name) != 1L || is.na(name)) abort_argument("name", "the name of a dataset", name)
    return(hdf5_reader(path, name, NULL, dimnames, memory, call))
  }
  if (!is_flag(byrow)) abort_argument("byrow", "TRUE or FALSE", byrow)
  endian <- one_of("endian", endian, c("little", "big"))
  if (!is_count(offset)) abort_argument("offset", "a number of bytes, 0 or more", offset)
  if (!is.logical(direct) || length(direct) != 1L) abort_argument("direct", "TRUE, FALSE or NA", direct)
  type <- dtype
  if (!is_readable(type) || length(type) != 1L || is.na(type)) abort_argument("dtype", "the name of a dtype", type)
  type <- switch(type, double = "float64", integer = "int32", complex = "complex128", logical = "int32", type)
  if (!type %in% RAW_TYPES) abort_argument("dtype", paste("one of", paste0("\"", RAW_TYPES, "\"", collapse = ", ")),
    type, advice = did_you_mean(type, RAW_TYPES))
  dim <- raw_extents(path, dim, type, offset, call)
  args <- list(path = path, type = type, swap = endian != .Platform$endian, offset = offset, dim = dim,
    byrow = byrow && length(dim) == 2L, direct = if (!is.na(direct)) direct)
  source <- do.call(open_raw, args)
  new_reader(open_raw, args, dim, dimnames, switch(type, uint16 = "int32", uint32 = "float64", type),
    if (args$byrow || length(dim) == 1L) 1 else 2, memory, sprintf("file %s", path), source = source)
}

RAW_BYTES <- c(float64 = 8, float32 = 4, float16 = 2, bfloat16 = 2, int64 = 8, int32 = 4, int16 = 2, int8 = 1,
  uint8 = 1, uint16 = 2, uint32 = 4, bool8 = 1, complex64 = 8, complex128 = 16)
RAW_TYPES <- names(RAW_BYTES)

# The extents of a raw file. One of them may be NA: the file's size gives it.
raw_extents <- function(path, dim, type, offset, call) {
  if (is.null(dim)) dim <- NA_real_
  known <- dim[!is.na(dim)]
  if (!(is.numeric(dim) || all(is.na(dim))) || !length(dim) %in% 1:2 || length(known) < length(dim) - 1L ||
    any(known < 0 | known != floor(known) | known >= 2^52))
    abort_argument("dim", "rows and columns, or a length; one of them may be NA", dim, call)
  dim <- as.double(dim)
  if (!anyNA(dim)) return(dim)
  size <- file.size(path)
  if (is.na(size)) stop_verdigris("file", sprintf("the file %s cannot be read: it does not exist", path),
    "`x` must be the path of a file.", call = call)
  row <- RAW_BYTES[[type]] * prod(known)
  left <- size - offset
  if (left < 0 || row == 0 || left %% row != 0) stop_verdigris("file", sprintf(
    "the file %s has %s bytes from `offset` on, which is not a multiple of %s (`dtype` and `dim`)", path,
    format_count(max(left, 0)), format_count(row)), "Check `dim`, `dtype` and `offset`.", call = call)
  dim[is.na(dim)] <- left / row
  dim
}

# The source of a raw file. `fast` is the extent along which elements are contiguous.
open_raw <- function(path, type, swap, offset, dim, byrow, direct = NULL) {
  fast <- if (byrow) dim[2L] else dim[1L]
  slow <- if (byrow) dim[1L] else c(dim, 1)[2L]
  pointer <- .Call(C_raw_open, path, type, swap, offset, fast, slow, direct)
  ahead <- function(from, count, margin, dtype, device) {
    part <- c(from, count)
    along <- (margin == 1) != byrow
    fast <- if (along) part else c(0, fast)
    slow <- if (along) c(0, slow) else part
    list(pointer = .Call(C_raw_ahead, pointer, fast, slow, dtype, device), fast = fast[2L], slow = slow[2L])
  }
  take <- function(coming) if (byrow) .Call(C_upload_take_turned, coming$pointer, coming$fast, coming$slow) else
    .Call(C_upload_take, coming$pointer)
  list(ahead = ahead, take = take, direct = .Call(C_raw_is_direct, pointer))
}

#' @rdname gpu_reader
#' @export
gpu_reader.function <- function(x, dim, dimnames = NULL, memory = NULL, ...) {
  rlang::check_dots_empty()
  if (missing(dim) || !is.numeric(dim) || !length(dim) %in% 1:2 || anyNA(dim) || any(dim < 0 | dim != floor(dim)))
    abort_argument("dim", "the number of rows, or of rows and columns, where `x` is a function",
      if (missing(dim)) NULL else dim)
  n <- dim[1L]
  call <- environment()
  probe <- withCallingHandlers(x(seq_len(min(n, 1))), error = function(e) stop_verdigris("argument",
    "`x` failed to give its first row.", parent = e, also = class(e), call = call))
  usable <- is.data.frame(probe) || is_number(probe) && length(base::dim(probe)) %in% c(0L, 2L) ||
    inherits(probe, "integer64")
  if (!usable) abort_argument("x", "a function that returns a matrix, a vector or a data frame", probe)
  p <- if (!is.null(base::dim(probe))) ncol(probe)
  if (length(dim) == 2L && !identical(as.double(p), as.double(dim[2L]))) stop_verdigris("argument", sprintf(
    "`x` gives %s columns, but `dim` says %s.", if (is.null(p)) "a vector, no" else format_count(p),
    format_count(dim[2L])))
  if (is.null(dimnames) && !is.null(p)) dimnames <- list(NULL, colnames(probe))
  new_reader(open_function, list(f = x), c(n, p), dimnames, type_of_value(probe), 1, memory, "function(rows)",
    is.data.frame(probe))
}

open_function <- function(f) list(read = function(from, count, margin) f(from + seq_len(count)))

# The dtype that an ordinary value or an array has as an array; NULL for a data frame.
type_of_value <- function(x) {
  if (is.data.frame(x)) return(NULL)
  if (is_gpu(x)) gpu_dtype(x) else gpu_dtype(as_gpu(x[0L], device = "cpu"))
}

#' @rdname gpu_reader
#' @export
gpu_reader.data.frame <- function(x, memory = NULL, ...) {
  rlang::check_dots_empty()
  new_reader(open_memory, list(x = x), dim(x), list(NULL, names(x)), NULL, 1, memory, "data frame", TRUE, FALSE)
}

#' @rdname gpu_reader
#' @export
gpu_reader.default <- function(x, dimnames = NULL, memory = NULL, ...) {
  rlang::check_dots_empty()
  if (!is_number(x) && !inherits(x, "integer64") || !length(dim(x)) %in% c(0L, 2L)) abort_argument("x",
    paste("a path, a function, a matrix, vector or data frame, or an object of hdf5r, HDF5Array, DelayedArray,",
      "bigmemory or ff"), x)
  given <- dimnames %||% if (is.null(dim(x))) names(x) else base::dimnames(x)
  new_reader(open_memory, list(x = x), dim(x) %||% length(x), given, type_of_value(x), if (is.null(dim(x))) 1 else 2,
    memory, if (is_gpu(x)) paste("array on", gpu_device(x)) else "memory", portable = FALSE)
}

open_memory <- function(x) list(read = function(from, count, margin) {
  i <- from + seq_len(count)
  if (is.null(dim(x))) x[i] else if (margin == 1) x[i, , drop = FALSE] else x[, i, drop = FALSE]
})

#' @export
gpu_reader.gpu_reader <- function(x, memory = x$memory, ...) {
  rlang::check_dots_empty()
  if (!is.null(memory) && !(is_size(memory) && memory > 0))
    abort_argument("memory", "NULL or a number of bytes above 0", memory)
  if (identical(memory, x$memory)) x else reader_with(x, memory = memory)
}

#' @export
`[<-.gpu_reader` <- function(x, i, j, value) stop_verdigris("argument", "The elements of a reader cannot be changed.",
  "`gpu_chunked(x, f, to = path)` writes the results of `f` to a file.")

# ---- blocks --------------------------------------------------------------------------------------------------

# Begins to read `count` rows (columns for margin 2) after the first `from`, and to copy them to a device.
block_start <- function(x, from, count, margin, dtype, device) {
  source <- opened(x)
  where <- list(from = from, count = count, margin = margin)
  if (!is.null(source$ahead)) return(c(source$ahead(from, count, margin, dtype, device), where))
  value <- checked_block(x, source$read(from, count, margin), count, margin)
  if (is.data.frame(value)) return(c(list(frame = as_gpu(value, device = device)), where))
  if (is_gpu(value)) return(c(list(array = if (is.null(device)) value else as_gpu(value, device = device),
    given = value), where))
  c(list(pointer = .Call(C_upload_ahead, value, 0, length(value), NULL, dtype, device)), where)
}

# Completes block_start(): the block as an array, a matrix if the reader is one; or a data frame of arrays.
block_take <- function(x, coming) {
  source <- opened(x)
  if (is.null(source$take) && !is.null(coming$frame)) return(coming$frame)
  y <- if (!is.null(source$take)) source$take(coming) else coming$array %||% .Call(C_upload_take, coming$pointer)
  if (is_vector_reader(x)) {
    if (is.null(x$dimnames)) return(y)
    return(with_attributes(y, list(names = x$dimnames[coming$from + seq_len(coming$count)])))
  }
  names <- x$dimnames
  margin <- coming$margin
  if (!is.null(names[[margin]])) names[[margin]] <- names[[margin]][coming$from + seq_len(coming$count)]
  shape <- as.double(x$dim)
  shape[margin] <- coming$count
  shape <- as.integer(shape)
  if (!is.null(dim(y)) && identical(dim(y), shape) && identical(dimnames(y), names)) return(y)
  kept <- c(list(dim = shape), if (!is.null(names)) list(dimnames = names))
  if (is.null(coming$pointer)) return(with_attributes(strip(y), kept))
  z <- with_attributes(y, kept)
  gpu_free(y)
  z
}

# A value that a source has read, after checks of its type and shape.
checked_block <- function(x, value, count, margin) {
  got <- if (is.data.frame(value)) sprintf("one of %s", paste(format_each(dim(value)), collapse = " x ")) else if (
    length(dim(value)) == 2L) describe_shape(value) else describe(value)
  wrong <- function(what) stop_verdigris("argument", sprintf("`x` must give %s, not %s.", what, got),
    "A reader's function must return the rows that it is called with, in the same order.", call = NULL)
  if (x$frame) {
    same <- is.data.frame(value) && nrow(value) == count && identical(names(value), x$dimnames[[2L]])
    if (!same) wrong(sprintf("a data frame of %s rows and the columns %s", format_count(count), paste(x$dimnames[[2L]],
      collapse = ", ")))
    return(value)
  }
  if (is_vector_reader(x)) {
    if (!is_number(value) && !inherits(value, "integer64") || length(value) != count)
      wrong(sprintf("%s numbers", format_count(count)))
    return(if (is.object(value)) value else as.vector(value))
  }
  shape <- as.double(x$dim)
  shape[margin] <- count
  if (!is_number(value) && !inherits(value, "integer64") || !identical(as.double(dim(value)), shape))
    wrong(sprintf("a matrix of %s rows and %s columns", format_count(shape[1L]), format_count(shape[2L])))
  value
}

# A block as an ordinary value. A file is read by threads to the cpu device, whose memory R shares.
read_block <- function(x, from, count, margin) {
  source <- opened(x)
  if (is.null(source$ahead)) {
    value <- collect(checked_block(x, source$read(from, count, margin), count, margin))
    if (x$frame) return(value)
    if (is_vector_reader(x)) {
      if (!is.null(x$dimnames)) names(value) <- x$dimnames[from + seq_len(count)]
      return(value)
    }
    names <- x$dimnames
    if (!is.null(names[[margin]])) names[[margin]] <- names[[margin]][from + seq_len(count)]
    dimnames(value) <- names
    return(value)
  }
  collect(block_take(x, block_start(x, from, count, margin, NULL, "cpu")))
}

free_block <- function(block) {
  if (is.data.frame(block)) for (column in as.list(block)) if (is_gpu(column)) gpu_free(column)
  if (is_gpu(block)) gpu_free(block)
}

# Whether a source can only be read by rows.
gives_rows <- function(x) is_vector_reader(x) || x$frame || identical(x$open, open_function) ||
  identical(x$open, open_differences) ||
  identical(x$open, open_mapped) && (!x$args$each || gives_rows(x$args$x))

# The bytes of a row (or column), and the bytes that a block may have.
bytes_of_row <- function(x, margin, dtype) {
  own <- (if (is_vector_reader(x)) 1 else max(1, as.double(x$dim[3L - margin]))) *
    if (x$frame) 8 else bytes_in_block(dtype %||% x$type)
  # a row of the source may be wider than the row that is computed from it
  if (identical(x$open, open_mapped) && x$args$each) max(own, bytes_of_row(x$args$x, margin, NULL)) else own
}
bytes_of_block <- function(x, device) {
  if (!is.null(x$memory)) return(x$memory / 3)
  min(if (device == "cpu") 64e6 else 1e9, free_memory(device) / 16)
}

# The margin by which a source is read at least cost; the other one if a row (or column) along it is too long for a
# block.
margin_for <- function(x, chunk, dtype, device) {
  margin <- x$margin
  if (!is.null(chunk) || gives_rows(x)) return(margin)
  bytes <- bytes_of_block(x, device)
  if (bytes_of_row(x, margin, dtype) > bytes && bytes_of_row(x, 3 - margin, dtype) <= bytes) 3 - margin else margin
}

# How many rows (or columns) make a block.
block_extent <- function(x, chunk, margin, dtype, device, call = parent.frame()) {
  if (!is.null(chunk)) return(chunk_size(chunk, 1, dtype, device))
  row <- bytes_of_row(x, margin, dtype)
  bytes <- bytes_of_block(x, device)
  if (!is.null(x$memory) && bytes < row) stop_verdigris("argument", sprintf(
    "`memory` is %s, but three blocks of a single %s take %s.", format_bytes(x$memory), if (margin == 1) "row" else
      "column", format_bytes(3 * row)), "Make the reader with more `memory`, or with the other `margin`.", call = call)
  count <- max(1, min(floor(bytes / row), .Machine$integer.max))
  # a multiple of the extent of the source's chunks
  if (count > x$step) count <- count - count %% x$step
  count
}

bytes_in_block <- function(dtype) RAW_BYTES[[switch(dtype, complex = "complex128", double = , numeric = "float64",
  integer = "int32", single = "float32", logical = "bool8", dtype)]]

# The blocks of a reader in the form that run_chunks() takes.
reader_blocks <- function(x, chunk, margin, dtype, device, call = parent.frame()) {
  margin <- margin %||% margin_for(x, chunk, dtype, device)
  if (margin == 2 && gives_rows(x)) stop_verdigris("argument", "`margin` must be 1: this reader gives rows.",
    call = call)
  extent <- as.double(x$dim[margin])
  chunk <- block_extent(x, chunk, margin, dtype, device, call)
  at <- 0
  start <- function() {
    if (at >= extent) return(NULL)
    n <- min(chunk, extent - at)
    coming <- block_start(x, at, n, margin, dtype, device)
    at <<- at + n
    coming
  }
  bytes <- min(chunk, extent) * bytes_of_row(x, margin, dtype)
  list(start = start, take = function(coming) block_take(x, coming), chunks = ceiling(extent / chunk), bytes = bytes)
}

# Calls f on each block of a reader in gpu_chunked()'s loop, which shows progress, handles interrupts and overlaps
# copies with f. The results are folded by `fold`; without it they are returned as a list.
over_blocks <- function(x, f, fold = NULL, margin = NULL, device = NULL, call = parent.frame()) {
  device <- .Call(C_device_name, device)
  source <- reader_blocks(x, NULL, margin, NULL, device, call)
  results <- list()
  so_far <- NULL
  put <- function(done) {
    if (is.null(fold)) results[[length(results) + 1L]] <<- done$value
    else so_far <<- if (is.null(so_far)) done$value else fold(so_far, done$value)
  }
  warned <- FALSE
  # rounding of 64-bit integers is one warning for all blocks, as for one array
  withCallingHandlers(run_chunks(source, f, put, "The computation failed on", call),
    verdigris_warning_precision = function(w) {
      if (warned) tryInvokeRestart("muffleWarning")
      warned <<- TRUE
    })
  if (is.null(fold)) results else so_far
}

# ---- what a reader is ----------------------------------------------------------------------------------------

#' @export
dim.gpu_reader <- function(x) if (!is_vector_reader(x)) fields_of(x)$dim
#' @export
length.gpu_reader <- function(x) {
  fields <- fields_of(x)
  n <- if (fields$frame) fields$dim[2L] else prod(fields$dim)
  if (n <= .Machine$integer.max) as.integer(n) else n
}
#' @export
dimnames.gpu_reader <- function(x) if (!is_vector_reader(x)) fields_of(x)$dimnames
#' @export
names.gpu_reader <- function(x) {
  fields <- fields_of(x)
  if (fields$frame) fields$dimnames[[2L]] else if (length(fields$dim) == 1L) fields$dimnames
}

#' @export
format.gpu_reader <- function(x, ...) {
  what <- if (x$frame) "data frame" else if (is_vector_reader(x)) "vector" else "matrix"
  sprintf("<gpu_reader %s [%s]%s of %s>", what, paste(format_each(x$dim), collapse = " x "),
    if (is.null(x$type)) "" else paste0(" ", x$type), x$label)
}

#' @export
print.gpu_reader <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  n <- rows_of_reader(x)
  few <- min(6, n)
  wide <- !is_vector_reader(x) && x$dim[2L] > 20
  # in a file that is stored by columns this reads few elements of each column
  if (few > 0 && !wide) {
    print(if (is_vector_reader(x)) x[seq_len(few)] else x[seq_len(few), , drop = FALSE])
    if (n > few) cat(sprintf("... and %s more %s\n", format_count(n - few), if (is_vector_reader(x)) "elements" else
      "rows"))
  }
  if (isTRUE(opened(x)$direct)) cat("It is read without the page cache.\n")
  if (!is.null(x$memory)) cat(sprintf("Blocks take at most %s of a device's memory.\n", format_bytes(x$memory)))
  invisible(x)
}

#' @export
str.gpu_reader <- function(object, ...) cat("", format(object), "\n")

# Ascending runs of positions, each read in one piece. Gaps of up to 16 positions are read, too.
runs_of <- function(at) {
  at <- sort(unique(at))
  if (!length(at)) return(list())
  new <- c(TRUE, diff(at) > 16)
  from <- at[new]
  to <- at[c(which(new)[-1L] - 1L, length(at))]
  Map(function(from, to) list(from = from - 1, count = to - from + 1, at = at[at >= from & at <= to]), from, to)
}

# The positions that a subscript selects, by base R's rules and with its messages.
positions_of <- function(i, n, names, call) {
  known <- seq_len(n)
  if (is_remote(i)) stop_verdigris("reader", sprintf("A reader cannot be subscripted by a %s.",
    if (is_reader(i)) "reader" else if (is_split(i)) "split" else "reference"),
    if (is_reader(i)) "Subscripts are in memory: `x[collect(i)]`, or `x[which(i)]` with an array of places." else
      "Subscripts are in memory: `x[collect(i)]`.", call = call)
  if (is.character(i)) {
    at <- match_names(i, names)
    if (anyNA(at)) stop_as_base("subscript out of bounds", call)
    return(at)
  }
  if (is.double(i)) i <- trunc(i)
  if (is.numeric(i) && all(i >= 0, na.rm = TRUE) && !anyNA(i)) {
    if (any(i > n)) stop_as_base("subscript out of bounds", call)
    return(i[i > 0])
  }
  if (!is.numeric(i) && !is.logical(i)) stop_as_base(sprintf("invalid subscript type '%s'", typeof(i)), call)
  if (is.logical(i) && length(i) > n) stop_as_base("(subscript) logical subscript too long", call)
  at <- known[i]
  if (anyNA(at)) stop_verdigris("argument", "A reader's subscripts must not be NA.", call = call)
  at
}

#' @export
`[.gpu_reader` <- function(x, i, j, ..., drop = TRUE) {
  call <- environment()
  if (...length() || is_vector_reader(x) && nargs() - (!missing(drop)) > 2L)
    stop_as_base("incorrect number of dimensions", call)
  if (is_vector_reader(x)) {
    if (missing(i)) return(read_block(x, 0, rows_of_reader(x), 1))
    return(read_rows(x, positions_of(i, rows_of_reader(x), x$dimnames, call), NULL, 1))
  }
  if (nargs() - (!missing(drop)) == 2L && !missing(i)) {
    # x[i] selects columns of a data frame
    if (x$frame) return(x[, i, drop = FALSE])
    stop_verdigris("argument", "Subscript a reader of a matrix by rows and columns: `x[i, j]`.")
  }
  at <- list(if (!missing(i)) positions_of(i, x$dim[1L], x$dimnames[[1L]], call),
    if (!missing(j)) positions_of(j, x$dim[2L], x$dimnames[[2L]], call))
  # reads along the margin of which a smaller share is selected
  share <- vapply(1:2, function(k) if (is.null(at[[k]])) 1 else length(at[[k]]) / max(1, x$dim[k]), 1)
  margin <- if (gives_rows(x) || share[1L] < share[2L]) 1 else if (share[2L] < share[1L]) 2 else x$margin
  out <- read_rows(x, at[[margin]], at[[3L - margin]], margin)
  if (missing(drop) && x$frame) drop <- ncol(out) == 1L
  if (drop) if (x$frame) out[, , drop = TRUE] else base::drop(out) else out
}

# Reads rows (or columns) at positions `at`, and of these the elements at positions `others`; NULL means all.
read_rows <- function(x, at, others, margin) {
  vector <- is_vector_reader(x)
  take <- function(value, i, j) {
    if (vector) return(value[i])
    if (margin == 1) if (is.null(j)) value[i, , drop = FALSE] else value[i, j, drop = FALSE]
    else if (is.null(j)) value[, i, drop = FALSE] else value[j, i, drop = FALSE]
  }
  whole <- is.null(at)
  n <- as.double(x$dim[margin])
  runs <- if (!whole) runs_of(at) else if (n > 0) list(list(from = 0, count = n))
  if (!length(runs)) return(take(read_block(x, 0, 0, margin), integer(), others))
  # if only some elements of the rows are kept, long runs are read in pieces
  most <- if (is.null(others)) Inf else block_extent(x, NULL, margin, NULL, "cpu")
  pieces <- lapply(runs, function(run) {
    begin <- seq(run$from, run$from + run$count - 1, by = min(most, run$count))
    lapply(begin, function(from) {
      count <- min(most, run$from + run$count - from)
      if (whole && is.null(others)) return(read_block(x, from, count, margin))
      wanted <- if (whole) from + seq_len(count) else run$at[run$at > from & run$at <= from + count]
      if (length(wanted)) take(read_block(x, from, count, margin), wanted - from, others)
    })
  })
  pieces <- Filter(Negate(is.null), do.call(c, pieces))
  bind <- if (vector) c else if (margin == 1) rbind else cbind
  out <- if (length(pieces) == 1L) pieces[[1L]] else do.call(bind, pieces)
  if (whole) return(out)
  order <- match(at, sort(unique(at)))
  if (identical(order, seq_along(at))) out else take(out, order, NULL)
}

#' @rdname gpu_reader
#' @export
collect.gpu_reader <- function(x, ...) {
  if (...length()) rlang::check_dots_empty()
  with_scaling(read_block(x, 0, rows_of_reader(x), 1), x)
}
#' @method as.matrix gpu_reader
#' @rawNamespace S3method(base::as.matrix,gpu_reader)
as.matrix.gpu_reader <- function(x, ...) as.matrix(collect(x))
#' @export
as.data.frame.gpu_reader <- function(x, row.names = NULL, optional = FALSE, ..., nm = deparse1(substitute(x))) {
  as.data.frame(collect(x), row.names = row.names, optional = optional, ..., nm = nm)
}
# Labels of rows without names, as base R's tail() makes them.
row_labels <- function(at) format(sprintf("[%s,]", format_each(at)), justify = "right")
#' @export
tail.gpu_reader <- function(x, n = 6L, keepnums = TRUE, ...) {
  out <- NextMethod()
  # as in base R, rows of a matrix without names are labelled by their numbers
  if (is.matrix(out) && is.null(rownames(out)) && keepnums && nrow(out) > 0L)
    rownames(out) <- row_labels(nrow(x) - nrow(out) + seq_len(nrow(out)))
  out
}
#' @export
as_gpu.gpu_reader <- function(x, dtype = NULL, device = NULL, ...) {
  if (...length()) rlang::check_dots_empty()
  device <- .Call(C_device_name, device)
  out <- block_take(x, block_start(x, 0, as.double(x$dim[x$margin]), x$margin, NULL, device))
  if (is.null(dtype)) out else as_gpu(out, dtype = dtype)
}
