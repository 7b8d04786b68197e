#' Arrays over raw addresses
#'
#' `gpu_pointer()` returns the address of an array's memory, for code that takes addresses; `gpu_from_pointer()` creates
#' an array over memory that other code has allocated, without a copy.
#'
#' [as_dlpack()] does the same more safely, if the other side supports DLPack.
#'
#' # Ownership
#' The memory of `gpu_pointer(x)` is kept as long as its `owner` exists, even if `x` was removed or was freed by
#' [gpu_free()]. The memory given to `gpu_from_pointer()` must stay valid until `on_free` is called. `owner` is any R
#' object that keeps the memory alive; it is referenced until then. `on_free` is called once, without arguments, when no
#' array uses the memory any more: not during garbage collection but by the next call of a function of this package, and
#' never at the end of R. An error in it becomes a warning.
#'
#' # Visibility of writes
#' While the owner exists, other code may write to the memory, and R's next read returns the new values; values that R
#' writes in place ([gpu_compute()] with `out`) are visible to the other code. Operations on such an array are computed
#' at once; operations recorded earlier keep their values: if there are any, `x` first moves to memory of its own.
#' `writable = FALSE` promises that no other code will write; then nothing is computed early, and nothing moves.
#' `gpu_from_pointer()` observes this promise: memory whose address was returned only with `writable = FALSE` is
#' imported read-only.
#'
#' On a CUDA device, `gpu_pointer()` waits until the values have been computed, or makes `stream` wait; other code must
#' work on the default stream, or have finished.
#'
#' # Checks
#' On a CUDA device the driver is queried whether the address is memory of that device, and whether the allocation is as
#' large as extents and strides require. On the cpu device under Linux the list of the process's mappings is searched,
#' so that an invalid address or a size beyond the mapping is refused; memory that was freed but is still mapped cannot
#' be recognised, and on other systems nothing is checked. No check can verify the dtype of the elements, or that the
#' memory stays valid.
#'
#' @param x An array; recorded operations are computed. A strided view keeps its strides.
#' @param writable Whether other code may write to the memory.
#' @param stream `NULL`, or the CUDA stream on which the memory will be used: a [gpu_stream()], or an address.
#' @param address The address of the first element: a number, a string (`"0x7f00c0de0000"` or decimal), an `integer64`,
#'   an external pointer or a `gpu_pointer()`, whose other elements are then the defaults.
#' @param dim The length of a vector, or the dimensions of a matrix or array.
#' @param dtype As in [as_gpu()].
#' @param strides The distance between neighbours along each dimension, in elements; may be 0 or negative. `NULL` means
#'   column-major.
#' @param device As in [as_gpu()]; the default is the current device.
#' @param owner An R object that is referenced as long as the memory is used. The default is the external pointer, if
#'   `address` is one.
#' @param on_free `NULL`, or a function without arguments that is called when the memory is no longer used.
#' @param read_only Whether kernels and `out` must not write to the memory. Memory that the system has write-protected
#'   is read-only in any case.
#' @param ... Ignored.
#' @returns `gpu_pointer()`: a list of class `gpu_pointer` with
#'   * `address`: of the first element, a number (0 where there are no elements);
#'   * `dim`: the dimensions, or the length of a vector; `strides`: in elements, for each of them;
#'   * `dtype`, `device`: strings;
#'   * `owner`: an external pointer to the same address, which keeps the memory alive.
#'
#'   `gpu_from_pointer()`: an array over the memory, with `dim` if it has two dimensions or more.
#' @section Errors:
#' `verdigris_error_device` for memory that is not on that device; `verdigris_error_argument` for an address that is
#' invalid, not mapped or too close to the end of its mapping, and for unaligned data; `verdigris_error_shape` for
#' extents and strides that do not fit; `verdigris_error_dtype`. `on_free` is not called in these cases.
#' @seealso [gpu_array_interface()], which describes the memory by a list that Python's libraries accept;
#'   [gpu_as_strided()].
#' @examples
#' x <- as_gpu(matrix(as.numeric(1:6), 2), device = "cpu")
#' p <- gpu_pointer(x)
#' p
#' y <- gpu_from_pointer(
#'   p$address, c(3, 2), "float64", strides = c(2, 1), device = "cpu", owner = p$owner
#' )
#' y
#' gpu_compute(x * 10, out = x)
#' y
#' @export
gpu_pointer <- function(x, writable = TRUE, stream = NULL) {
  found <- .Call(C_pointer, x, writable, stream)
  extents <- dim(x)
  structure(
    list(
      address = found$address, dim = if (is.null(extents)) length(x) else extents, strides = found$strides,
      dtype = gpu_dtype(x), device = gpu_device(x), owner = found$owner
    ),
    class = "gpu_pointer"
  )
}

#' @rdname gpu_pointer
#' @export
gpu_from_pointer <- function(address, dim, dtype, strides = NULL, device = NULL, owner = NULL, on_free = NULL,
  read_only = FALSE) {
  if (inherits(address, "gpu_pointer")) {
    if (is.null(strides) && missing(dim)) strides <- address$strides
    if (missing(dim)) dim <- address$dim
    if (missing(dtype)) dtype <- address$dtype
    if (is.null(device)) device <- address$device
    if (is.null(owner)) owner <- address$owner
    address <- address$owner
  }
  if (is.null(owner) && typeof(address) == "externalptr") owner <- address
  if (missing(dtype) || is.null(dtype))
    stop_verdigris("argument", "`dtype` must be given: an address does not imply a type.")
  if (!is.null(on_free) && !is.function(on_free)) abort_argument("on_free", "NULL or a function", on_free)
  dim <- as_extents(dim)
  if (!is.null(strides)) strides <- as_strides(strides, dim)
  .Call(C_from_pointer, address, dim, dtype, strides, device, owner, on_free, read_only)
}

#' @rdname gpu_pointer
#' @export
print.gpu_pointer <- function(x, ...) {
  cat(sprintf(
    "<gpu_pointer %s>\n%s [%s] on %s, strides %s\n", format_address(x$address), x$dtype,
      paste(format_count(x$dim), collapse = " x "), x$device,
    paste(format(x$strides, scientific = FALSE, trim = TRUE), collapse = " ")
  ))
  invisible(x)
}

# An address in hexadecimal digits, in two parts: a double holds an address, but not an R integer, which %x takes.
format_address <- function(address) {
  high <- address %/% 2^24
  paste0("0x", if (high > 0) sprintf("%x%06x", high, address %% 2^24) else sprintf("%x", address))
}

# Called by preserve.rs when the memory is no longer used.
call_on_free <- function(on_free, unused) {
  tryCatch(on_free(), error = function(e) {
    warning("`on_free` failed: ", conditionMessage(e), call. = FALSE)
  })
}

#' The CUDA Array Interface
#'
#' Exports an array as the list that Python libraries call `__cuda_array_interface__` (version 3), and imports such a
#' list. For an array on the cpu device the list is NumPy's `__array_interface__`, which has the same entries.
#'
#' By the protocol, such a list describes memory without owning it; this list keeps the memory alive by its attribute
#' `owner`. For Python prefer [as_dlpack()]: reticulate converts R's doubles to Python floats, and Python's integers to
#' R integers, which cannot hold an address. Pass an address from Python as a string.
#' @param x An array; recorded operations are computed.
#' @param stream For a CUDA array: `NULL` waits until the values have been computed; a [gpu_stream()], or the address of
#'   a stream (1 is the default stream, 2 the per-thread default stream), is made to wait for the values and then stored
#'   in the list, for the consumer to wait for.
#' @param interface A list with `shape`, `typestr`, `data` (the address, and whether the memory is read-only) and
#'   `version`, and optionally `strides` (in bytes), `stream` and `mask` (which must be `NULL`), as returned by
#'   `gpu_array_interface()` and reticulate.
#' @param device The device of the memory; the default is `"cuda"` for an interface with `stream`, and otherwise the
#'   device in attribute `device`, or the current device.
#' @param owner,on_free As in [gpu_from_pointer()]; the default owner is `interface`.
#' @returns `gpu_array_interface()`: a list with `shape` (integers, or doubles if they are large), `typestr` (such as
#'   `"<f8"`), `data` (a list of the address, a number, and a flag), `strides` (in bytes), `version` (3), for CUDA
#'   `stream`; attributes `device` and `owner`.
#'   `gpu_from_array_interface()`: an array over the memory.
#' @section Errors:
#' The errors of [gpu_pointer()]; `verdigris_error_dtype` for bfloat16, which array interfaces do not support, for a
#' logical array with `NA`, and for types that arrays do not have; `verdigris_error_shape` for strides that are not
#' multiples of the element size.
#' @source <https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html>,
#'   <https://numpy.org/doc/stable/reference/arrays.interface.html>
#' @examples
#' x <- as_gpu(matrix(as.numeric(1:6), 2), device = "cpu")
#' interface <- gpu_array_interface(x)
#' str(interface$strides)
#' gpu_from_array_interface(interface)
#' @export
gpu_array_interface <- function(x, stream = NULL) {
  if (!is_gpu(x)) abort_argument("x", "a GPU array", x)
  if (gpu_dtype(x) == "bool8" && anyNA(x)) {
    stop_verdigris("dtype", "A logical array with NA cannot be exported as bool.",
      "Replace the NAs, or export `gpu_cast(x, \"int32\")`.")
  }
  typestr <- .Call(C_typestr, gpu_dtype(x), FALSE)
  found <- gpu_pointer(x, writable = TRUE, stream = stream)
  interface <- list(
    shape = found$dim, typestr = typestr, data = list(found$address, FALSE),
      strides = found$strides * element_bytes(typestr), version = 3L
  )
  if (inherits(stream, "gpu_stream")) stream <- as.numeric(.Call(C_stream_info, stream)$address)
  if (found$device != "cpu") interface["stream"] <- list(stream)
  structure(interface, device = found$device, owner = found$owner)
}

#' @rdname gpu_array_interface
#' @export
gpu_from_array_interface <- function(interface, device = NULL, owner = interface, on_free = NULL) {
  wrong <- function(what) stop_verdigris("argument", sprintf("`interface` %s.", what), call = parent.frame())
  if (!is.list(interface)) abort_argument("interface", "a list", interface)
  if (!is.null(on_free) && !is.function(on_free)) abort_argument("on_free", "NULL or a function", on_free)
  lacking <- setdiff(c("shape", "typestr", "data", "version"), names(interface))
  if (length(lacking)) wrong(paste("lacks", paste0("`", lacking, "`", collapse = ", ")))
  version <- interface$version
  if (!is.numeric(version) || length(version) != 1L || is.na(version) || !version %in% 2:3)
    wrong("must be of version 3 (or 2)")
  if (!is.null(interface$mask)) wrong("has a mask; arrays have none and store `NA` as a value")
  data <- as.list(interface$data)
  if (length(data) != 2L) wrong("must have the address and the read-only flag as `data`")
  dtype <- .Call(C_typestr, interface$typestr, TRUE)
  shape <- unlist(interface$shape)
  if (!(is.null(shape) || is.numeric(shape))) wrong("must have whole numbers as `shape`")
  shape <- as.double(shape)
  scalar <- length(shape) == 0L
  dim <- if (scalar) 1 else as_extents(shape)
  strides <- interface$strides
  if (!is.null(strides)) {
    strides <- as.double(unlist(strides))
    if (length(strides) != length(shape)) stop_verdigris("shape", "`interface` must have as many strides as extents.")
    strides <- strides / element_bytes(interface$typestr)
    if (anyNA(strides) || any(strides %% 1 != 0)) {
      stop_verdigris("shape", "Strides in `interface` must be multiples of the element size.",
        "Copy the data before they are exported.")
    }
  } else {
    # row-major, the default of these interfaces
    strides <- rev(column_major(rev(shape)))
  }
  if (scalar) strides <- 1
  if (is.null(device)) device <- if ("stream" %in% names(interface)) "cuda" else attr(interface, "device")
  if (!is.null(attr(interface, "device")) && identical(device, "cuda")) device <- attr(interface, "device")
  if (identical(interface$stream, 0L) || identical(interface$stream, 0))
    wrong("has stream 0, which the interface forbids because it is ambiguous")
  .Call(C_from_pointer, data[[1L]], dim, dtype, strides, device, owner, on_free, isTRUE(data[[2L]]))
}

element_bytes <- function(typestr) as.integer(substring(typestr, 3L))
