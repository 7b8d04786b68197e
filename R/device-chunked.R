#' Work on data larger than the device
#'
#' Passes a host vector, a matrix, a reader's data, or data returned by a function, to `f` chunk by chunk. The next
#' chunk is copied to the device, or read from a file by threads, while `f` works on the current one. The host waits for
#' a result only after the next chunk has been started.
#'
#' At most three chunks are on the device at a time. A chunk is freed once its result has been computed, so `f` must not
#' keep it. A result that is an array is copied to the host; with `combine = "+"` and other functions of two values it
#' stays on the device. A progress bar of cli with the size of a chunk appears after two seconds. If the namespace of
#' progressr is loaded and the number of chunks is known, progress is signalled to progressr instead. An interrupt stops
#' the work between two chunks, or while the host waits.
#'
#' @param x A double, integer, logical, complex or `integer64` vector or matrix on the host; or a function of one
#'   argument `n` that returns the next `n` elements at most (or a matrix of at most `n` rows or columns, depending on
#'   `margin`), and `NULL` or a zero-length vector at the end. It may return an array that it has created on the device.
#'   Or a [gpu_reader()]; chunks of data frames are data frames of arrays.
#' @param f A function that is called with a chunk: an array, which is a matrix if `x` is one. Further arguments are
#'   passed by `...`.
#' @param combine How the results are combined: `c`, `rbind`, `cbind` or `list` of all of them; any other function of
#'   two values (`"+"`, `pmax`) is applied to the accumulated result and the next one, so that memory stays bounded.
#' @param chunk The number of elements in a chunk; rows or columns for a matrix. The default depends on the free memory
#'   of the device: a sixteenth of it, at most 256 MB (32 MB on the cpu). A reader has its own size, see `memory` of
#'   [gpu_reader()].
#' @param ... Further arguments of `f`.
#' @param margin 1 for chunks of whole rows, 2 for chunks of whole columns; 2 is the default for a matrix, and faster.
#'   If `x` is a function that returns matrices, the dimension that `n` counts. The default for a reader is the
#'   dimension along which its source is read at the lowest cost.
#' @param dtype,device As for [as_gpu()].
#' @param to The path of a file, or a [gpu_writer()]: results are appended to this file instead of being combined by
#'   `combine`.
#' @returns The combined results, on the host; if `combine` is a function of two values, on the device of its results.
#'   `NULL` if there are no chunks. With `to`, a reader of the file.
#' @section Errors:
#' `verdigris_error_argument` and `verdigris_error_dtype` for invalid data, functions or numbers;
#' `verdigris_error_memory` if not even one chunk fits; `verdigris_error_file` if a file cannot be read or written; the
#' output is then removed. If `f`, `combine` or a function `x` fails, a `verdigris_error_chunk` names the chunk: it also
#' has the classes of the original error, which is its `parent`.
#' @examples
#' x <- runif(1e5)
#' gpu_chunked(x, function(x) sum(x^2), combine = "+", chunk = 3e4, device = "cpu")
#' sum(x^2)
#'
#' m <- matrix(1:12, 4)
#' gpu_chunked(m, colSums, chunk = 2, device = "cpu")
#' gpu_chunked(m, rowSums, chunk = 3, margin = 1, device = "cpu")
#'
#' # a generator: three chunks of ones
#' left <- 3
#' ones <- function(n) if ((left <<- left - 1) >= 0) rep(1, n)
#' gpu_chunked(ones, sum, combine = c, chunk = 1000, device = "cpu")
#' @export
gpu_chunked <- function(x, f, combine = c, chunk = NULL, ..., margin = NULL, dtype = NULL, device = NULL, to = NULL) {
  f <- function_of("f", f)
  if (!is.null(to) && !missing(combine)) abort_argument("combine", "missing beside `to`", combine)
  combine <- function_of("combine", combine, such = c("c", "rbind", "cbind", "list", "+", "*", "pmax", "pmin"))
  if (!is.null(margin) && !(is_count(margin, 1) && margin %in% c(1, 2)))
    abort_argument("margin", "1 (rows) or 2 (columns)", margin)
  device <- .Call(C_device_name, device)
  if (!is.null(dtype)) dtype <- gpu_dtype(gpu_full(0L, 0, dtype, "cpu")) else if (!is_reader(x))
    dtype <- default_dtype(x, parent.frame())
  if (is_reader(x)) margin <- margin %||% margin_for(x, chunk, dtype, device)
  source <- if (is_reader(x)) reader_blocks(x, chunk, margin, dtype, device, environment()) else if (is.function(x))
    reader_source(x, chunk, margin, dtype, device) else host_source(x, chunk, margin, dtype, device)
  if (!is.null(to)) {
    sink <- new_sink(writer_of(to, environment()), margin %||% 2, environment())
    done <- FALSE
    on.exit(if (!done) sink$undo())
    frame <- environment()
    run_chunks(source, function(chunk) f(chunk, ...), function(result) sink$put(result$value), "`f` failed on", frame)
    written <- sink$end()
    done <- TRUE
    return(written)
  }

  gathers <- any(vapply(list(c, rbind, cbind, list), identical, NA, combine))
  results <- list()
  so_far <- NULL
  first <- TRUE
  frame <- environment()
  put <- function(result) {
    if (gathers) {
      results[[length(results) + 1L]] <<- result$with_chunk_number(plain(result$value), "`f` failed on")
    } else if (first) {
      so_far <<- result$value
    } else {
      so_far <<- result$with_chunk_number(combine(so_far, result$value), "`combine` failed at")
      if (is_gpu(so_far)) gpu_compute(so_far)
    }
    first <<- FALSE
    so_far
  }
  run_chunks(source, function(chunk) f(chunk, ...), put, "`f` failed on", frame)
  if (gathers) do.call(combine, results) else so_far
}

# The loop of gpu_chunked(). `put` gets a list for each result: `value`, `number`, and `with_chunk_number(expr, what)`,
# which evaluates the user's code and names the chunk in its errors. `put` returns the object whose memory must be kept.
run_chunks <- function(source, f, put, what, frame) {
  progress <- chunk_progress(source$chunks, source$bytes, environment())
  on.exit(progress$end(), add = TRUE)
  # an error of the user's function names the chunk, and keeps its own classes
  of_chunk <- function(expr, what, number) withCallingHandlers(expr, error = function(e) {
    stop_verdigris("chunk", sprintf("%s chunk %s%s.", what, format_count(number),
      if (is.na(source$chunks)) "" else paste(" of", format_count(source$chunks))), parent = e, also = class(e),
      call = frame)
  })
  # hands a result to `put` and frees its chunk, except for an array that a function `x` returned
  finish <- function(done) {
    done$with_chunk_number <- function(expr, what) of_chunk(expr, what, done$number)
    kept <- put(done)
    if (done$own && !rlang::is_reference(done$chunk, kept)) free_block(done$chunk)
  }
  coming <- of_chunk(source$start(), "`x` failed to give", 1)
  last <- NULL
  done <- 0
  while (!is.null(coming)) {
    own <- is.null(coming$array)
    current <- of_chunk(source$take(coming), "`x` failed to give", done + 1)
    coming <- of_chunk(source$start(), "`x` failed to give", done + 2) # on its way while f works
    value <- of_chunk(
      {
        value <- f(current)
        if (is_gpu(value)) gpu_compute(value) # queued, not waited for
        value
      }, what, done + 1
    )
    if (!is.null(last)) finish(last)
    # operations that f recorded keep the chunk until R collects them; a quick collection finds young objects
    done <- done + 1
    if (done %% 4 == 0 && length(current) >= 2e6) gc(verbose = FALSE, full = FALSE)
    last <- list(value = value, chunk = current, own = own, number = done)
    progress$step()
  }
  if (!is.null(last)) finish(last)
}

# Copies arrays in a result, which may be nested lists, to the host.
plain <- function(value) if (is_gpu(value)) collect(value) else if (is.list(value)) lapply(value, plain) else value

# Signals progress to progressr if that is loaded and the number of chunks is known; otherwise shows cli's progress bar.
chunk_progress <- function(chunks, bytes, frame) {
  if (!is.na(chunks) && chunks > 0 && isNamespaceLoaded("progressr")) {
    return(list(step = progressr::progressor(chunks, envir = frame), end = function() NULL))
  }
  name <- if (is.null(bytes)) "Chunks" else sprintf("Chunks of %s", format_bytes(bytes))
  bar <- cli::cli_progress_bar(name, total = chunks, .auto_close = FALSE)
  list(step = function() cli::cli_progress_update(id = bar), end = function() cli::cli_progress_done(id = bar))
}

# The number of elements, or of rows or columns of `width` elements, in a chunk.
chunk_size <- function(chunk, width, dtype, device) {
  if (!is.null(chunk)) {
    if (!(is.numeric(chunk) && length(chunk) == 1L && is.finite(chunk) && chunk >= 1)) {
      abort_argument("chunk", "a number of elements, 1 or more", chunk, call = parent.frame(2L))
    }
    return(floor(chunk))
  }
  most <- if (device == "cpu") 32e6 else 256e6
  size <- switch(dtype %||% "float64", complex = , complex128 = 16, complex64 = 8, dtype_bytes(dtype %||% "float64"))
  max(1, floor(min(most, free_memory(device) / 16) / (size * max(1, width))))
}

# Bytes of an element of a dtype as it is computed with; of complex numbers those of one part.
dtype_bytes <- function(dtype) if (dtype %in% c("float32", "single", "int32", "integer", "complex64")) 4 else 8

# The source of a host vector or matrix: start() begins the upload of the next chunk, take() returns its array.
host_source <- function(x, chunk, margin, dtype, device) {
  if (is.object(x) && !is_array_like(x)) refuse(x, call = parent.frame())
  if (is_gpu(x)) x <- collect(x)
  if (!(is.numeric(x) || is.logical(x) || is.complex(x))) refuse(x, call = parent.frame())
  matrix <- length(dim(x)) == 2L
  if (!matrix && !is.null(margin)) abort_argument("x", "a matrix where `margin` is given", x, call = parent.frame())
  if (is.null(margin)) margin <- 2L
  extent <- if (!matrix) length(x) else dim(x)[[margin]]
  width <- if (matrix) dim(x)[[3L - margin]] else 1L
  chunk <- chunk_size(chunk, width, dtype %||% if (is.complex(x)) "complex128", device)
  at <- 0
  start <- function() {
    if (at >= extent) return(NULL)
    n <- min(chunk, extent - at)
    from <- at
    at <<- at + n
    pointer <- if (!matrix) {
      .Call(C_upload_ahead, x, from, n, NULL, dtype, device)
    } else if (margin == 2L) {
      .Call(C_upload_ahead, x, from * width, n * width, NULL, dtype, device)
    } else {
      .Call(C_upload_ahead, x, from, n, extent, dtype, device)
    }
    list(pointer = pointer, from = from, n = n)
  }
  take <- function(coming) {
    y <- .Call(C_upload_take, coming$pointer)
    if (!matrix) return(y)
    names <- dimnames(x)
    if (!is.null(names[[margin]])) names[[margin]] <- names[[margin]][coming$from + seq_len(coming$n)]
    shape <- if (margin == 2L) c(width, coming$n) else c(coming$n, width)
    as_chunk(y, as.integer(shape), names)
  }
  list(start = start, take = take, chunks = ceiling(extent / chunk))
}

# The array as a matrix. Frees the original object, so that freeing the matrix releases the memory.
as_chunk <- function(y, dim, dimnames) {
  z <- with_attributes(y, c(list(dim = dim), if (!is.null(dimnames)) list(dimnames = dimnames)))
  gpu_free(y)
  z
}

# The source of a function that returns data. C_upload_ahead keeps the data alive until they have been copied.
reader_source <- function(read, chunk, margin, dtype, device) {
  chunk <- chunk_size(chunk, 1L, dtype, device)
  start <- function() {
    x <- read(chunk)
    if (length(x) == 0L) return(NULL)
    if (is_gpu(x)) return(list(array = x))
    if (is.object(x) && !is_array_like(x)) refuse(x, call = NULL)
    list(pointer = .Call(C_upload_ahead, x, 0, length(x), NULL, dtype, device), dim = dim(x), dimnames = dimnames(x))
  }
  take <- function(coming) {
    if (!is.null(coming$array)) return(coming$array)
    y <- .Call(C_upload_take, coming$pointer)
    if (is.null(coming$dim)) return(y)
    as_chunk(y, coming$dim, coming$dimnames)
  }
  list(start = start, take = take, chunks = NA)
}
