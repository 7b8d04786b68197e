#' Share memory with torch for R
#'
#' `as_torch()` gives an array to torch as a tensor, `as_gpu()` takes a tensor in as an array. Both are the same memory,
#' on the CPU or on a CUDA device, unless something else here still reads it.
#'
#' The same element has the same index on both sides: an array of `dim` `c(2, 3)` is a tensor of shape (2, 3), whose
#' strides are (1, 2), and views go over with their strides. Some of torch's functions, as `$view()`, want the strides
#' (3, 1): `$contiguous()` copies the tensor so. An array without `dim` is a tensor of one dimension; `names` and
#' `dimnames` stay behind.
#'
#' The memory lives until both sides have let go of it. What torch writes in place (`$add_()`, `optimizer$step()`) is
#' seen by the array: give torch a copy (`as_torch(x + 0)`) where it must not be. R code on arrays never writes in
#' place.
#'
#' So what was made of an array before must not lie in that memory. Where there is a view of it, or an operation
#' recorded on it, or where the array is itself a view, the array moves to memory of its own first: `as_torch(t(x))`
#' copies while `x` lives, and `as_torch(x)$t()` does not. Memory that came in read-only is copied too, since torch has
#' no such tensors.
#'
#' **Saving.** torch for R writes a tensor's memory as it lies: `torch_save()` and `safe_save_file()` of its package
#' safetensors ignore strides, so a tensor that is not contiguous comes out scrambled: one of a matrix by `as_torch()`,
#' whose memory is column-major, and torch's own `$t()`. Save `tensor$contiguous()`; or the array, by [gpu_save()],
#' which knows strides.
#'
#' **`$resize_()`**, where it makes a tensor larger, gives it other memory. An array of that tensor then is an error of
#' class `verdigris_error_consumed` at its next use; make it again by `as_gpu(tensor)`.
#'
#' Gradients are torch's: a tensor from `as_torch()` records what is done with it after `$requires_grad_()`, and an
#' array records nothing. So `as_gpu()` refuses a tensor that requires a gradient, unless `detach = TRUE` says that its
#' values are meant. `loss$backward()` leaves gradients as tensors, which `as_gpu(x$grad)` takes; before it `x$grad` is
#' undefined, and an error.
#'
#' Neither library's memory is seen by R's garbage collector or by the other one. Before an array's allocation fails R
#' collects, and torch gives back what it keeps unused; where torch fails, `gpu_memory(trim = TRUE)` gives back what
#' arrays keep.
#'
#' On a CUDA device no side waits: torch's work on the default stream, which it uses unless told otherwise, and that of
#' the array are put in order on the device. Float64 and int64 tensors need no conversion, but most models are float32:
#' `as_torch(gpu_cast(x, "float32"))`.
#'
#' @param x For `as_torch()` an array. For `as_gpu()` a tensor.
#' @param dtype,device As for other arguments of [as_gpu()]: what the tensor is not is made, in a copy.
#' @param detach Whether to take the values of a tensor that requires a gradient.
#' @param ... Ignored.
#' @returns `as_torch()`: a `torch_tensor`. `as_gpu()`: an array, with `dim` where the tensor has two dimensions or
#'   more.
#' @section Requirements:
#' Linux, and torch for R with libtorch installed (`torch::install_torch()`); no particular version, but the first use
#' in a session checks that the running torch keeps tensors as this package expects it.
#' @section Errors:
#' `verdigris_error_library` where torch is absent, was not started, or is of a version that keeps tensors otherwise;
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

# With arguments that exceed the tensor's memory.
take_tensor <- function(x, dtype, device, detach) {
  if (!identical(detach, FALSE)) {
    if (!isTRUE(detach)) abort_argument("detach", "TRUE or FALSE", detach)
    x <- x$detach()
  }
  y <- .Call(C_torch_import, x)
  if (is.null(dtype) && is.null(device)) y else as_gpu(y, dtype = dtype, device = device)
}

# Finds the libtorch that torch for R has loaded, and checks on a tensor that it is what torch_bridge.cpp takes it for.
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
    # torch's first sentence; what it advises is said below
    error = function(e) paste("was not started:", sub("[.]?\n.*|[.] .*", "", conditionMessage(e)))
  )
  if (!is.null(problem)) {
    fail(
      sprintf("%s %s.", version, sub("[.]$", "", problem)), "Use `torch::install_torch()`, and start R again.",
      "`as.array(tensor)` copies instead."
    )
  }
}
