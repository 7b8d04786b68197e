#' Evaluate recorded operations
#'
#' Arithmetic on arrays is recorded, and computed when the values are needed: to print them, to read them on the host,
#' for a reduction. `gpu_compute()` computes them at once. Arrays of the same length are computed in one kernel, which
#' reads their common operands once. On a GPU the kernel is queued, not waited for (see [gpu_sync()]); on the cpu device
#' it has finished when the call returns.
#'
#' Explicit calls are seldom needed. `gpu_compute()` limits the memory that recorded operands occupy, prevents a value
#' that several later expressions use from being computed in each of them, and makes timings meaningful. Two cases need
#' no call: a costly value is stored when it is used a second time, and so is an expression that grows beyond one
#' kernel.
#'
#' With `out`, the values are written to an existing array, under all its names, and cast to its dtype: use this for
#' state that several functions or closures share. The expression may use `out` itself. Operations that were recorded on
#' the old values, and copies of them, keep the old values. The old memory returns to the pool as soon as nothing refers
#' to it; if the old and the new values do not fit in memory together, and nothing else refers to the old values, they
#' are overwritten in place. Memory shared with another library by DLPack is always overwritten, unless it is read-only,
#' so that both sides see the new values.
#' @param ... Arrays or sparse matrices, whose values are computed; at least one; with `out` exactly one array.
#' @param out NULL, or an array of the same length on the same device. Its dim, names and dtype are kept.
#' @returns `out`, or else the first argument, invisibly. The arrays then hold their values, under all their names.
#' @section Errors:
#' `verdigris_error_argument` if an argument is not an array; `verdigris_error_shape` and `verdigris_error_device` if
#' `out` does not match; `verdigris_error_memory` if there is no memory for the result; `verdigris_error_compile` and
#' `verdigris_error_library` if the kernel cannot be compiled. The arrays are then unchanged.
#' @seealso [gpu_explain()] shows the kernels that would be run.
#' @examples
#' x <- as_gpu(c(1, 4, 9), device = "cpu")
#' y <- sqrt(x) + 1
#' str(y)
#' gpu_compute(y)
#' str(y)
#'
#' state <- gpu_zeros(3, device = "cpu")
#' alias <- state
#' gpu_compute(state + x, out = state)
#' alias
#' @export
gpu_compute <- function(..., out = NULL) invisible(.External2(C_evaluate))

# The calls of gpu_compute() that C_evaluate does not handle: several arguments, sparse matrices, or `out`.
compute_several <- function(..., out, call) {
  arrays <- list(...)
  if (!length(arrays)) abort_argument("...", "at least one array", NULL)
  given <- arrays[[1L]]
  arrays <- lapply(arrays, elements_of)
  for (x in arrays) if (!is_gpu(x)) abort_argument("...", "GPU arrays", x)
  if (!is.null(out)) {
    if (length(arrays) > 1L) abort_argument("...", "one array if `out` is given", arrays)
    return(.Call(C_compute_into, arrays[[1L]], out, call))
  }
  .Call(C_compute, arrays)
  given
}

#' Show the kernels that would compute an array
#'
#' Shows the kernels that [gpu_compute()] would run for the operations recorded in an array: the operations of each
#' kernel, its inputs and outputs, and its source. Nothing is computed.
#' @param x An array, or a sparse matrix, whose values are explained.
#' @returns A list of class `gpu_explanation`: `dtype`, `device`, `length`, and `kernels`, a list with one element per
#'   kernel, in the order of execution, which is empty if the values have been computed. A kernel is a list of
#'   * `n`: the number of elements of its result, one thread or SIMD lane each;
#'   * `code`: its operations in R's notation, where `x1`, `x2` ... are its inputs and `y` is the result;
#'   * `reads`, `writes`: data frames with columns `name`, `dtype`, `access` (`linear`; `one for all`; `recycled`; or
#'     the strides of a view, in elements), `elements`, and `bytes` of memory traffic, each element counted once;
#'   * `source`: the CUDA C that a cuda device runs. The cpu device evaluates the same operations in blocks.
#'
#'   `print()` leaves out the sources unless `source = TRUE`.
#' @section Errors:
#' `verdigris_error_argument` if `x` is not an array.
#' @examples
#' x <- as_gpu(c(1, 4, 9), device = "cpu")
#' gpu_explain(sqrt(x * x + 1) / sum(x))
#' @export
gpu_explain <- function(x) {
  x <- elements_of(x)
  if (!is_gpu(x)) abort_argument("x", "a GPU array", x)
  info <- gpu_info(x)
  kernels <- lapply(.Call(C_explain, x), function(kernel) {
    kernel$reads <- as.data.frame(kernel$reads)
    kernel$writes <- as.data.frame(kernel$writes)
    kernel
  })
  structure(list(dtype = info$dtype, device = info$device, length = info$length, kernels = unname(kernels)),
    class = "gpu_explanation")
}

#' @rdname gpu_explain
#' @param source Whether the kernels' sources are printed too.
#' @param ... Not used.
#' @export
print.gpu_explanation <- function(x, source = FALSE, ...) {
  count <- length(x$kernels)
  cat(sprintf(
    "%s[%s] on %s: %s\n", x$dtype, format_count(x$length), x$device,
    if (count == 0L) "computed" else if (count == 1L) "one kernel" else paste(count, "kernels")
  ))
  for (k in seq_along(x$kernels)) {
    kernel <- x$kernels[[k]]
    if (count > 1L) cat(sprintf("\nkernel %d\n", k))
    rows <- function(what, table) {
      if (!nrow(table)) return()
      shape <- sprintf("%s[%s]", table$dtype, vapply(table$elements, format_count, ""))
      size <- vapply(table$bytes, format_bytes, "")
      cat(sprintf("  %-6s %s  %s  %s%s\n", what, format(table$name), format(shape), format(size, justify = "right"),
        ifelse(table$access == "", "", paste0("  ", table$access))), sep = "")
    }
    rows("reads", kernel$reads)
    rows("writes", kernel$writes)
    cat(paste0("  ", kernel$code, "\n"), sep = "")
    if (source) cat("\n", kernel$source, sep = "")
  }
  invisible(x)
}
