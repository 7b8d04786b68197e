# Exchange with Python by reticulate, if that is installed: `__dlpack__` in both directions. The Python side is
# inst/python/verdigris_dlpack.py.

#' Share memory with Python
#'
#' With reticulate, arrays are exchanged with Python libraries by DLPack, without a copy: NumPy, CuPy, PyTorch, JAX, TVM
#' and every other library that supports it.
#'
#' To Python: `reticulate::r_to_py(x)`, or an array passed to a Python function, is an object with `__dlpack__` and
#' `__dlpack_device__`, for `np.from_dlpack()`, `torch.from_dlpack()`, `cupy.from_dlpack()` and so on. It can be used
#' any number of times, and keeps the array alive. NumPy's functions accept it directly: an array on a GPU is copied to
#' the host for them. Libraries that support DLPack 1.0 treat it as read-only; if one writes to it nevertheless, R sees
#' the change.
#'
#' From Python: `as_gpu(object)` takes any object with `__dlpack__`. Keep objects in Python by
#' `reticulate::import(..., convert = FALSE)`: an object that reticulate has converted is already an R array. Row-major
#' memory becomes a strided view: an element has the same index on both sides.
#'
#' On a CUDA device the other library's work on its current stream is ordered with the work on the array, on the device.
#'
#' @param x For `as_gpu()` a Python object with `__dlpack__`. For `r_to_py()` an array.
#' @param dtype,device As for other arguments of [as_gpu()]: if the object differs, a copy is converted.
#' @param convert Ignored.
#' @param ... Ignored.
#' @returns `as_gpu()`: an array. `r_to_py()`: a Python object.
#' @section Errors:
#' `verdigris_error_argument` for an object without `__dlpack__`, and if Python refuses (for example a PyTorch tensor
#' that requires a gradient); `verdigris_error_dtype` for types that arrays do not have; `verdigris_error_device`.
#' Errors of `__dlpack__` in Python are Python exceptions.
#' @seealso [as_dlpack()]
#' @name python
#' @examplesIf requireNamespace("reticulate", quietly = TRUE) && reticulate::py_module_available("numpy")
#' np <- reticulate::import("numpy", convert = FALSE)
#' x <- as_gpu(matrix(1:6 + 0, 2), device = "cpu")
#' there <- np$from_dlpack(x)
#' there$shape
#' y <- as_gpu(np$arange(6)$reshape(2L, 3L))
#' y
NULL

#' @rdname python
#' @export
as_gpu.python.builtin.object <- function(x, dtype = NULL, device = NULL, ...) {
  y <- from_dlpack(x)
  if (is.null(dtype) && is.null(device)) y else as_gpu(y, dtype = dtype, device = device)
}

#' @rdname python
#' @exportS3Method reticulate::r_to_py
r_to_py.gpu_array <- function(x, convert = FALSE) {
  force(x)
  info <- .Call(C_info, x)
  # called from Python, on R's thread; returns the address of a tensor, which Python owns from then on
  export <- function(versioned, stream, copy) {
    if (copy) x <- from_dlpack(as_dlpack(x), copy = TRUE)
    .Call(C_dlpack_take, as_dlpack(x, versioned = versioned, stream = stream))
  }
  host <- function() if (is.null(dim(x))) as.vector(x) else as.array(x)
  shape <- as.list(if (is.null(dim(x))) as_whole(length(x)) else dim(x))
  python_helpers()$Array(export, host, python_device(info$device), shape, info$dtype)
}

#' @exportS3Method reticulate::r_to_py
r_to_py.dlpack_capsule <- function(x, convert = FALSE) {
  info <- .Call(C_dlpack_describe, x)
  # raises the error for a capsule that was used
  address <- .Call(C_dlpack_take, x)
  python_helpers()$Tensor(address, info$tag == "dltensor_versioned", python_device(info$device))
}

# DLPack's device type (1 for the cpu, 2 for CUDA) and the number of the device.
python_device <- function(device) {
  cuda <- grepl("^cuda:", device)
  list(if (cuda) 2L else 1L, if (cuda) as.integer(sub("cuda:", "", device)) else 0L)
}

python <- new.env(parent = emptyenv())

python_helpers <- function() {
  if (is.null(python$helpers)) {
    helpers <- reticulate::import_from_path("verdigris_dlpack", system.file("python", package = "verdigris"))
    helpers$start(.Call(C_python_destructor, helpers$address_of("PyCapsule_GetName"),
      helpers$address_of("PyCapsule_GetPointer")))
    python$helpers <- helpers
  }
  python$helpers
}

# An R capsule with the tensor of a Python object.
take_from_python <- function(x, call = parent.frame()) {
  refuse <- function(message, ...) stop_verdigris("argument", message, as.character(c(...)), call = call)
  taken <- tryCatch(python_helpers()$take(x), error = function(e) {
    said <- sub("^([A-Za-z.]*Error): *", "", strsplit(conditionMessage(e), "\n")[[1]][1])
    refuse(sprintf("Python did not share the object: %s", said))
  })
  if (is.null(taken)) {
    refuse(
      sprintf("Expected a Python object with `__dlpack__`, or an unused capsule, not an object of type %s.",
        class(x)[[1]]),
      "Convert it in Python first, for example by `numpy.asarray(x)`."
    )
  }
  .Call(C_dlpack_capsule, taken[[1]], taken[[2]])
}
