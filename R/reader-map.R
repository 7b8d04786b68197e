# Readers of a function of another reader's blocks. Elementwise functions and `scale()` are computed when the result is
# read.

# A reader of f(block) for the blocks of a reader. If `each` is TRUE, f is elementwise, and blocks may be rows or
# columns; otherwise f is called with whole rows.
mapped_reader <- function(x, f, dim, dimnames, label, type = "float64", each = FALSE)
  new_reader(open_mapped, list(x = described(x), f = f, each = each), dim, dimnames, type, if (each) x$margin else 1,
    x$memory, label, portable = x$portable, step = if (each) x$step else 1)

open_mapped <- function(x, f, each) list(
  ahead = function(from, count, margin, dtype, device) block_start(x, from, count, margin, NULL, device),
  take = function(coming) {
    block <- block_take(x, coming)
    out <- gpu_compute(f(block))
    # f may return the block itself, which must not be freed then
    if (is.null(coming$given) && !rlang::is_reference(out, block)) free_block(block)
    out
  }
)

# A function of blocks whose environment holds only `values`, so that it can be sent to another process.
block_function <- function(f, values = list()) {
  environment(f) <- list2env(values, parent = topenv())
  f
}

# A reader of a function that is computed element by element.
each_of_reader <- function(x, name, f, type = "float64") {
  if (x$frame) refuse_reader(name, parent.frame(), "Only matrices and vectors are supported.")
  # f of no elements tells the result's type; if that fails, the error is raised with the first block
  none <- tryCatch(suppressWarnings(f(as_gpu(numeric(), dtype = x$type, device = "cpu"))), error = function(e) NULL)
  if (is_gpu(none)) type <- gpu_dtype(none)
  mapped_reader(x, f, x$dim, x$dimnames, sprintf("%s() of %s", name, x$label), type, TRUE)
}

# The method of R's operators.
reader_operators <- function(e1, e2) {
  call <- environment()
  name <- .Generic
  x <- if (is_reader(e1)) e1 else e2
  type <- if (name %in% c("==", "!=", "<", "<=", ">", ">=", "&", "|", "!")) "bool8" else "float64"
  if (missing(e2)) return(each_of_reader(x, name, block_function(function(block) f(block), list(f = get(name,
    baseenv()))), type))
  first <- is_reader(e1)
  other <- if (first) e2 else e1
  if (is_gpu(other)) other <- collect(other)
  if (is_reader(other) || !is_number(other) && !is_host_int64(other) || length(other) != 1L) refuse_reader(name, call,
    "The other operand must be one number; `gpu_chunked(x, f)` computes with blocks as arrays.")
  if (!is_host_int64(other)) other <- as.vector(other)
  f <- if (is_host_int64(other)) {
    if (first) function(block) f(block, as_gpu(other, device = gpu_device(block))) else function(block)
      f(as_gpu(other, device = gpu_device(block)), block)
  } else if (first) function(block) f(block, other) else function(block) f(other, block)
  each_of_reader(x, name, block_function(f, list(f = get(name, baseenv()), other = other)), type)
}

#' @export
Math.gpu_reader <- function(x, ...) {
  name <- .Generic
  if (name %in% c("cumsum", "cumprod", "cummax", "cummin")) return(cumulative_reader(x, name, environment()))
  more <- list(...)
  if (!all(vapply(more, function(v) is_number(v) && length(v) == 1L, NA))) refuse_reader(name, environment(),
    "Its other argument must be one number.")
  each_of_reader(x, name, block_function(function(block) do.call(f, c(list(block), more)), list(f = get(name,
    baseenv()), more = lapply(more, function(v) as.vector(collect(v))))))
}

#' @export
round.gpu_reader <- function(x, digits = 0, ...) {
  if (!is_number(digits) || length(digits) != 1L) refuse_reader("round", environment(), "`digits` must be one number.")
  each_of_reader(x, "round", block_function(function(block) round(block, digits), list(digits = as.vector(collect(
    digits)))))
}

each_element_of_reader <- function(name) {
  force(name)
  function(x) each_of_reader(x, name, block_function(function(block) f(block), list(f = get(name, baseenv()))), "bool8")
}
#' @export
is.na.gpu_reader <- each_element_of_reader("is.na")
#' @export
is.nan.gpu_reader <- each_element_of_reader("is.nan")
#' @export
is.finite.gpu_reader <- each_element_of_reader("is.finite")
#' @export
is.infinite.gpu_reader <- each_element_of_reader("is.infinite")

#' @rdname reader-methods
#' @export
scale.gpu_reader <- function(x, center = TRUE, scale = TRUE) {
  call <- environment()
  if (x$frame || is_vector_reader(x)) refuse_reader("scale", call, "Only matrices are supported.")
  p <- as.double(x$dim[2L])
  center <- given_by_column(center, "center", p, call)
  scale <- given_by_column(scale, "scale", p, call)
  if (isTRUE(center)) center <- colMeans(x, na.rm = TRUE)
  if (isTRUE(scale)) {
    about <- if (is.numeric(center)) scaled_reader(x, center, NULL) else x
    known <- as.double(x$dim[1L]) - colSums(is.na(x))
    scale <- sqrt(colSums(about^2, na.rm = TRUE) / pmax(1, known - 1))
  }
  out <- scaled_reader(x, if (is.numeric(center)) center, if (is.numeric(scale)) scale)
  if (is.numeric(center)) attr(out, "scaled:center") <- center
  if (is.numeric(scale)) attr(out, "scaled:scale") <- scale
  out
}

scaled_reader <- function(x, center, scale) {
  scaled <- function(block) {
    if (!is.null(center)) block <- block - along_columns(as_gpu(center, device = gpu_device(block)), nrow(block))
    if (!is.null(scale)) block <- block / along_columns(as_gpu(scale, device = gpu_device(block)), nrow(block))
    block
  }
  values <- list(center = if (!is.null(center)) as.double(center), scale = if (!is.null(scale)) as.double(scale))
  mapped_reader(x, block_function(scaled, values), x$dim, x$dimnames, sprintf("scale() of %s", x$label))
}
