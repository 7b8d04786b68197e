#' Save arrays to a file, and load them
#'
#' Files are in the safetensors format, which Python's safetensors and many other programs read and write. The data are
#' written from and read to the device in pieces: no complete copy is made on the host.
#'
#' An element has the same index in every program: an array with `dim` `c(2, 3)` is a tensor of shape (2, 3) in Python.
#' The format is row-major, so arrays with two or more dimensions are transposed on their device while they are written.
#'
#' An existing file is replaced once the new one is complete and on the disk; if saving fails, or R is killed, the old
#' file is unchanged. The new file keeps the mode of the replaced file, and the owner if the system allows it. A
#' symbolic link is kept, and the file that it points to is replaced; other hard links of the file keep the old data.
#' The temporary file is in the same folder and is called `.verdigris-*.part`; the next save removes temporary files
#' that killed processes have left. Only regular files are written and read: no devices, FIFOs or sockets.
#'
#' Attributes that only R has (`names`, `dimnames`, `tsp`, and `dim` of one dimension) are stored in the file's
#' metadata, in the entry `verdigris`, which other programs ignore. Types are kept: F64, F32, F16, BF16, I64, I32, I16,
#' I8, U8, BOOL and C64 correspond to the dtypes. `NA` in an integer type is stored as its smallest number. A logical
#' array with `NA` is saved as I8 (`NA` is -128), a complex128 array as F64 with a last dimension of 2, the real and the
#' imaginary part; [gpu_load()] restores both.
#'
#' @param x An array, or a named list of arrays. Elements may also be ordinary vectors, which are converted by
#'   [as_gpu()].
#' @param path The path of the file.
#' @param metadata A named character vector for other programs, or `NULL`.
#' @param names The tensors to load, in this order. The default is all of them, in the file's order.
#' @param device The device to load to; the default is the current device.
#' @returns `gpu_save()`: `path`, invisibly. `gpu_load()`: a named list of arrays; attribute `"metadata"` is a named
#'   character vector, if the file has metadata other than R's attributes. If the file was saved from a single array,
#'   that array, unless `names` is given.
#' @section Errors:
#' `verdigris_error_file` if the file cannot be written or read, or is not a valid safetensors file: truncated, not
#' JSON, with tensors that overlap or lie outside it; `verdigris_error_argument` for names that are missing, duplicated,
#' or not in the file; `verdigris_error_dtype` for types that arrays do not have (F8, U16, U32, U64);
#' `verdigris_error_device`; `verdigris_error_memory`.
#' @source The format: <https://github.com/huggingface/safetensors>.
#' @examples
#' file <- tempfile(fileext = ".safetensors")
#' weights <- as_gpu(matrix(1:6 + 0, 2, dimnames = list(c("a", "b"), NULL)), device = "cpu")
#' gpu_save(list(weights = weights, bias = as_gpu(1:3, "float32")), file)
#' gpu_load(file, device = "cpu")
#' gpu_load(file, names = "bias", device = "cpu")
#' @export
gpu_save <- function(x, path, metadata = NULL) {
  path <- file_path(path)
  single <- !is.list(x)
  if (single) x <- list(x = x)
  tensors <- names(x)
  if (is.null(tensors) && length(x) == 0L) tensors <- character()
  if (is.null(tensors) || anyNA(tensors) || !all(nzchar(tensors))) {
    stop_verdigris("argument", "Each element of `x` must have a name, which is stored in the file.",
      "Use `list(weights = w, bias = b)`.")
  }
  if (!is.null(metadata) && !(is.character(metadata) && !is.null(names(metadata)) && !anyNA(metadata))) {
    abort_argument("metadata", "a named character vector", metadata)
  }
  for (k in seq_along(x)) {
    element <- x[[k]]
    plain <- is.numeric(element) || is.logical(element) || is.complex(element)
    if (!is_gpu(element) && !(plain && (!is.object(element) || is_array_like(element))))
      refuse(element, environment(), if (single) "x" else paste0("x$", tensors[k]))
  }
  arrays <- lapply(x, function(element) if (is_gpu(element)) element else as_gpu(element, device = "cpu"))
  attributes <- lapply(arrays, function(array) {
    kept <- attributes(array)
    kept <- list(
      names = if (is.null(kept$dim)) kept$names, dimnames = unname(kept$dimnames), axes = names(kept$dimnames),
        tsp = kept$tsp,
      dim = if (length(kept$dim) == 1L) as.double(kept$dim)
    )
    kept[!vapply(kept, is.null, NA)]
  })
  if (single) metadata <- c(metadata, verdigris_single = tensors)
  .Call(C_file_save, path, unname(arrays), tensors, unname(attributes), metadata)
  invisible(path)
}

#' @rdname gpu_save
#' @export
gpu_load <- function(path, names = NULL, device = NULL) {
  path <- file_path(path)
  if (!is.null(names) && !(is.character(names) && !anyNA(names))) abort_argument("names", "a character vector", names)
  loaded <- .Call(C_file_load, path, names, device)
  out <- Map(with_saved, loaded$arrays, loaded$attributes)
  names(out) <- loaded$names
  metadata <- loaded$metadata
  single <- is.null(names) && length(out) == 1L && identical(unname(metadata["verdigris_single"]), loaded$names)
  metadata <- metadata[names(metadata) != "verdigris_single"]
  if (single) return(out[[1L]])
  if (length(metadata)) attr(out, "metadata") <- metadata
  out
}

# The array with the attributes that the file has for it. Attributes that do not fit, which another program may have
# left, are dropped with a warning.
with_saved <- function(array, saved) {
  strings <- function(x) if (is.character(x)) x
  kept <- list(dim = dim(array))
  if (is.list(saved)) {
    if (is.null(kept$dim) && is.numeric(saved$dim) && length(saved$dim) == 1L) kept$dim <- length(array)
    if (is.list(saved$dimnames)) kept$dimnames <- stats::setNames(lapply(saved$dimnames, strings), strings(saved$axes))
    kept$names <- strings(saved$names)
    if (is.numeric(saved$tsp)) kept$tsp <- saved$tsp
  }
  kept <- kept[!vapply(kept, is.null, NA)]
  if (!length(setdiff(names(kept), "dim")) && identical(kept$dim, dim(array))) return(array)
  tryCatch(with_attributes(array, kept), error = function(e) {
    warning("The attributes stored in the file do not fit their tensor: ", conditionMessage(e), call. = FALSE)
    array
  })
}

file_path <- function(path, call = parent.frame()) {
  if (!is_readable(path) || length(path) != 1L || is.na(path) || !nzchar(path))
    abort_argument("path", "the path of a file", path, call = call)
  enc2utf8(path.expand(path))
}
