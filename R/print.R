# How arrays show themselves. Each fetches only the elements that it shows.

header <- function(x) {
  info <- gpu_info(x)
  shape <- paste(format(if (is.null(dim(x))) info$length else dim(x), scientific = FALSE, trim = TRUE), collapse = " x ")
  sprintf("<gpu_array %s [%s] on %s>", info$dtype, shape, info$device)
}

# The first `n` elements as an ordinary vector, with names.
first <- function(x, n) {
  n <- min(n, length(x))
  y <- .Call(C_fetch, x, 0, n)
  if (!is.null(names(x)) && is.null(dim(x))) names(y) <- names(x)[seq_len(n)]
  y
}

#' @export
print.gpu_array <- function(x, ...) {
  cat(header(x), "\n", sep = "")
  n <- length(x)
  if (n <= 1000L) print(collect(x), ...) else print(first(x, 20L), ...)
  invisible(x)
}
