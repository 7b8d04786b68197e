#' Share memory with torch for R
#'
#' `as_torch()` passes an array to torch as a tensor, `as_gpu()` makes an array of a tensor. Both share the same memory,
#' on the CPU or on a CUDA device, except in the cases below.
#'
#' An element has the same index on both sides: an array with `dim` `c(2, 3)` is a tensor of shape (2, 3), whose strides
#' are (1, 2), and views keep their strides. Some of torch's functions, such as `$view()`, require the strides (3, 1):
#' `$contiguous()` makes a copy of the tensor with these strides. An array without `dim` becomes a tensor of one
#' dimension; `names` and `dimnames` are dropped.
#'
#' The memory is kept until both sides have released it. Values that torch writes in place (`$add_()`,
#' `optimizer$step()`) change the array too: pass a copy (`as_torch(x + 0)`) to avoid this. R code on arrays never
#' writes in place.
#'
#' Therefore results derived from the array earlier must not share its memory. If there is a view of it, or an operation
#' recorded on it, or if the array is itself a view, the array first moves to memory of its own: `as_torch(t(x))` copies
#' while `x` exists, and `as_torch(x)$t()` does not. Memory that was imported read-only is copied too, since torch has
#' no read-only tensors.
#'
#' **Saving.** torch for R writes a tensor's memory as it is stored: `torch_save()`, and `safe_save_file()` of the
#' safetensors package, ignore strides, so a tensor that is not contiguous is saved in the wrong order. This applies to
#' a matrix passed by `as_torch()`, whose memory is column-major, and to torch's own `$t()`. Save `tensor$contiguous()`;
#' or the array, by [gpu_save()], which handles strides.
#'
#' **`$resize_()`** reallocates a tensor if it makes it larger. An array over that tensor then raises an error of class
#' `verdigris_error_consumed` at its next use; create it again by `as_gpu(tensor)`.
#'
#' Gradients belong to torch: a tensor from `as_torch()` records operations after `$requires_grad_()`, and an array
#' records none. So `as_gpu()` refuses a tensor that requires a gradient, unless `detach = TRUE` asks for its values.
#' `loss$backward()` stores gradients as tensors, which `as_gpu(x$grad)` accepts; before that call `x$grad` is
#' undefined, and `as_gpu(x$grad)` is an error.
#'
#' R's garbage collector does not count the memory of either library, and neither library counts the memory of the
#' other. Before an array's allocation fails, R collects garbage, and torch releases the memory that it caches; if an
#' allocation by torch fails, `gpu_memory(trim = TRUE)` releases the memory that this package caches.
#'
#' On a CUDA device neither side waits: torch's work on the default stream, which it normally uses, is ordered with the
#' work on the array, on the device. Float64 and int64 tensors need no conversion, but most models are float32:
#' `as_torch(gpu_cast(x, "float32"))`.
#'
#' @param x For `as_torch()` an array. For `as_gpu()` a tensor.
#' @param dtype,device As for other arguments of [as_gpu()]: if the tensor differs, a copy is converted.
#' @param detach Whether to take the values of a tensor that requires a gradient.
#' @param ... Ignored.
#' @returns `as_torch()`: a `torch_tensor`. `as_gpu()`: an array, with `dim` if the tensor has two dimensions or more.
#' @section Requirements:
#' Linux, and torch for R with libtorch installed (`torch::install_torch()`). Any version may work: the first use in a
#' session checks that the tensors of the running torch have the layout that this package expects.
#' @section Errors:
#' `verdigris_error_library` if torch is missing, was not loaded, or stores tensors in another layout;
#' `verdigris_error_argument` for a tensor that requires a gradient, is undefined or sparse, or is marked as conjugated
#' or negated; `verdigris_error_dtype` for types that one side does not have, and for `NA` in a logical array.
#' @seealso [as_dlpack()], and `vignette("torch", package = "verdigris")`.
#' @examplesIf requireNamespace("torch", quietly = TRUE) && torch::torch_is_installed()
#' x <- as_gpu(matrix(1:6 + 0, 2), device = "cpu")
#' tensor <- as_torch(x)
#' tensor$mul_(10) # in place: x has it too
#' x
#' y <- as_gpu(tensor$t())
#' y
#' @export
as_torch <- function(x) .External2(C_as_torch)

#' @rdname as_torch
#' @export
as_gpu.torch_tensor <- function(x, dtype = NULL, device = NULL, detach = FALSE, ...) .External2(C_from_torch)

# as_gpu() of a tensor with `dtype`, `device` or `detach`. Called from C.
take_tensor <- function(x, dtype, device, detach) {
  if (!identical(detach, FALSE)) {
    if (!isTRUE(detach)) abort_argument("detach", "TRUE or FALSE", detach)
    x <- x$detach()
  }
  y <- .Call(C_torch_import, x)
  if (is.null(dtype) && is.null(device)) y else as_gpu(y, dtype = dtype, device = device)
}

# Finds the libtorch that torch for R has loaded, and checks with a tensor that layouts are as torch_bridge.cpp expects.
start_torch <- function(call = parent.frame()) {
  fail <- function(message, ...) stop_verdigris("library", message, c(...), call = call)
  if (!nzchar(system.file(package = "torch"))) {
    fail("torch for R is not installed.", "Use `install.packages(\"torch\")` and `torch::install_torch()`.")
  }
  version <- sprintf("torch for R %s", utils::packageVersion("torch"))
  problem <- tryCatch(
    {
      folder <- getExportedValue("torch", "torch_install_path")()
      library <- list.files(file.path(folder, c("lib", "lib64", "bin")), "^liblantern[.]", full.names = TRUE)
      if (length(library)) {
        sample <- getExportedValue("torch", "torch_tensor")(c(1, 2, 3))
        said <- .Call(C_torch_start, library[[1L]], sample, isTRUE(getExportedValue("torch", "cuda_is_available")()))
        if (!is.null(said)) paste("cannot share its tensors:", said)
      } else {
        sprintf("has no liblantern under %s", folder)
      }
    },
    # the first sentence of torch's error; the advice is given below
    error = function(e) paste("was not started:", sub("[.]?\n.*|[.] .*", "", conditionMessage(e)))
  )
  if (!is.null(problem)) {
    fail(
      sprintf("%s %s.", version, sub("[.]$", "", problem)), "Use `torch::install_torch()`, then restart R.",
      "`as.array(tensor)` copies instead."
    )
  }
}
