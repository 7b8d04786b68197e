#' Compute what is recorded
#'
#' Arithmetic on arrays is recorded, and computed when something needs the values: printing, a host read, a reduction.
#' `gpu_compute()` computes now: one kernel for everything recorded below each argument, queued on the device. It does not wait; see [gpu_sync()].
#' @param ... arrays.
#' @return The first argument, invisibly; the arrays themselves are computed.
#' @examples
#' x <- as_gpu(c(1, 4, 9), device = "cpu")
#' y <- sqrt(x) + 1
#' gpu_compute(y)
#' @export
gpu_compute <- function(...) {
  arrays <- list(...)
  if (!length(arrays)) abort_argument("...", "at least one array", NULL)
  for (x in arrays) .Call(C_compute, x)
  invisible(..1)
}
