#' Evaluate recorded operations
#'
#' Arithmetic on arrays is recorded, and computed when something needs the values: printing, a host read, a reduction.
#' `gpu_compute()` computes now: one kernel for all arrays that have the same length, which reads what they have in
#' common once. On a GPU that is queued, not waited for (see [gpu_sync()]); the cpu device has finished when the call
#' returns.
#'
#' It is seldom needed. It bounds the memory that recorded operands hold on to, keeps a value that several later
#' expressions use from being computed in each of them, and makes timings mean something. A value that is costly and
#' used a second time is kept without it, and so is what grows beyond one kernel.
#'
#' With `out`, the values become those of an array that exists, under all its names, cast to its dtype: a state that
#' several functions or closures share. The expression may use `out` itself. Recorded operations and copies that were
#' made of the old values keep them. The old memory goes back to the pool as soon as nothing holds it; where there is no
#' room for old and new at once, and nothing else holds the old values, they are overwritten where they are. Memory that
#' is shared with another library by DLPack is overwritten in any case, unless it is read-only, so that both sides see
#' the new values.
#' @param ... Arrays, at least one; with `out` exactly one.
#' @param out NULL, or an array of the same length on the same device. Its dim, names and dtype stay.
#' @returns `out`, or else the first argument, invisibly. The arrays hold their values afterwards, under all their
#'   names.
#' @section Errors:
#' `verdigris_error_argument` for what is no array; `verdigris_error_shape` and `verdigris_error_device` for an `out`
#' that does not fit; `verdigris_error_memory` where the result has no room; `verdigris_error_compile` and
#' `verdigris_error_library` where its kernel cannot be made. The arrays are then as they were.
#' @seealso [gpu_explain()], which tells what would be run.
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

# What is not one array without `out`.
compute_several <- function(..., out, call) {
  arrays <- list(...)
  if (!length(arrays)) abort_argument("...", "at least one array", NULL)
  for (x in arrays) if (!is_gpu(x)) abort_argument("...", "GPU arrays", x)
  if (!is.null(out)) {
    if (length(arrays) > 1L) abort_argument("...", "one array where `out` is given", arrays)
    return(.Call(C_compute_into, ..1, out, call))
  }
  .Call(C_compute, arrays)
  ..1
}

#' Show the kernels that would compute an array
#'
#' Shows the kernels that [gpu_compute()] would run for what is recorded in an array: the operations of each, what it
#' reads and writes, and its source. Nothing is computed.
#' @param x An array.
#' @returns A list of class `gpu_explanation`: `dtype`, `device`, `length`, and `kernels`, a list with an element for
#'   each kernel, in the order they would run; none where the values are computed already. A kernel is a list of
#'   * `n`: elements of its result, one thread or lane each;
#'   * `code`: its operations in R's notation, where `x1`, `x2` ... are what it reads and `y` is the result;
#'   * `reads`, `writes`: data frames with columns `name`, `dtype`, `access` (`linear`; `one for all`; `recycled`; or
#'     the strides of a view, in elements), `elements`, and `bytes` of memory that move, each element counted once;
#'   * `source`: the CUDA C that a cuda device runs. The cpu device evaluates the same operations in blocks.
#'
#'   `print()` leaves out the sources unless `source = TRUE`.
#' @section Errors:
#' `verdigris_error_argument` where `x` is no array.
#' @examples
#' x <- as_gpu(c(1, 4, 9), device = "cpu")
#' gpu_explain(sqrt(x * x + 1) / sum(x))
#' @export
gpu_explain <- function(x) {
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
