#' Compute what is recorded
#'
#' Arithmetic on arrays is recorded, and computed when something needs the values: printing, a host read, a reduction.
#' `gpu_compute()` computes now, one argument after the other: a kernel for what is recorded below it. On a GPU that is
#' queued, not waited for (see [gpu_sync()]); the cpu device has finished when the call returns.
#'
#' It is seldom needed. It bounds the memory that recorded operands hold on to, keeps a value that several later
#' expressions use from being computed in each of them, and makes timings mean something. A value that is costly and used a
#' second time is kept without it, and so is what grows beyond one kernel.
#' @param ... Arrays, at least one.
#' @returns The first argument, invisibly. The arrays hold their values afterwards, under all their names.
#' @section Errors:
#' `verdigris_error_argument` for what is no array; `verdigris_error_memory` where the result has no room;
#' `verdigris_error_compile` and `verdigris_error_library` where its kernel cannot be made. The array is then as it was.
#' @examples
#' x <- as_gpu(c(1, 4, 9), device = "cpu")
#' y <- sqrt(x) + 1
#' str(y)
#' gpu_compute(y)
#' str(y)
#' @export
gpu_compute <- function(...) {
  arrays <- list(...)
  if (!length(arrays)) abort_argument("...", "at least one array", NULL)
  for (x in arrays) .Call(C_compute, x)
  invisible(..1)
}
