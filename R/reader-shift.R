# rev() and diff() of readers, computed when the result is read.

#' @export
rev.gpu_reader <- function(x) {
  check_vector_reader(x, "rev", environment())
  new_reader(open_reversed, list(x = described(x)), x$dim, if (!is.null(x$dimnames)) rev(x$dimnames), x$type, 1,
    x$memory, sprintf("rev() of %s", x$label), portable = x$portable, step = x$step)
}

open_reversed <- function(x) {
  n <- rows_of_reader(x)
  list(
    ahead = function(from, count, margin, dtype, device) list(inner = block_start(x, n - from - count, count, 1, NULL,
      device)),
    take = function(coming) {
      block <- block_take(x, coming$inner)
      strip(rev(strip(block)))
    }
  )
}

#' @rdname reader-methods
#' @export
diff.gpu_reader <- function(x, lag = 1L, differences = 1L, ...) {
  call <- environment()
  if (x$frame) refuse_reader("diff", call, "Only matrices and vectors are supported.")
  by <- differences_by(lag, differences, call)
  if (by$lag * by$differences >= rows_of_reader(x)) return(reader_of_no_differences(x))
  for (k in seq_len(by$differences)) x <- reader_of_differences(x, by$lag)
  x
}

# The arguments of diff() as whole numbers, or base R's error.
differences_by <- function(lag, differences, call) {
  for (count in list(lag, differences)) if (!is.numeric(count) || length(count) != 1L || !isTRUE(count >= 1))
    stop_as_base(gettext("'lag' and 'differences' must be integers >= 1", domain = "R-base"), call)
  list(lag = trunc(as.double(lag)), differences = trunc(as.double(differences)))
}

dtype_of_differences <- function(x) {
  none <- as_gpu(numeric(), dtype = x$type, device = "cpu")
  gpu_dtype(none - none)
}

reader_of_differences <- function(x, lag) {
  n <- rows_of_reader(x) - lag
  kept <- function(names) if (!is.null(names)) names[lag + seq_len(n)]
  names <- x$dimnames
  names <- if (is_vector_reader(x)) kept(names) else if (!is.null(names)) list(kept(names[[1L]]), names[[2L]])
  new_reader(open_differences, list(x = described(x), lag = lag), c(n, x$dim[-1L]), names,
    dtype_of_differences(x), 1, x$memory, sprintf("diff() of %s", x$label), portable = x$portable)
}

# For a lag that leaves no rows: it depends on the version of R whether the result is still a matrix, and whether
# differences of logical values are integers.
reader_of_no_differences <- function(x) {
  one <- if (is_vector_reader(x)) FALSE else matrix(FALSE, 1L, x$dim[2L])
  base <- diff(one)
  dim <- dim(base) %||% 0
  names <- if (!is.null(x$dimnames)) {
    if (is_vector_reader(x)) character() else if (length(dim) == 2L) list(NULL, x$dimnames[[2L]])
  }
  type <- if (is.integer(base)) dtype_of_differences(x) else x$type
  new_reader(open_no_differences, list(x = described(x), type = type), dim, names, type, 1, x$memory,
    sprintf("diff() of %s", x$label), portable = x$portable)
}

open_no_differences <- function(x, type) list(
  ahead = function(from, count, margin, dtype, device) list(inner = block_start(x, 0, 0, 1, NULL, device)),
  take = function(coming) gpu_cast(strip(block_take(x, coming$inner)), type)
)

# Reads the rows of the two operands: one block if they overlap, otherwise two.
open_differences <- function(x, lag) list(
  ahead = function(from, count, margin, dtype, device) {
    start <- function(from, count) block_start(x, from, count, 1, NULL, device)
    list(rows = count, inner = if (lag < count) list(start(from, count + lag)) else list(start(from + lag, count),
      start(from, count)))
  },
  take = function(coming) {
    blocks <- lapply(coming$inner, function(inner) block_take(x, inner))
    out <- if (length(blocks) == 2L) {
      gpu_compute(strip_names(blocks[[1L]]) - strip_names(blocks[[2L]]))
    } else {
      block <- strip_names(blocks[[1L]])
      some <- function(at) if (is.null(dim(block))) block[at] else block[at, , drop = FALSE]
      gpu_compute(some(lag + seq_len(coming$rows)) - some(seq_len(coming$rows)))
    }
    for (k in seq_along(blocks)) if (is.null(coming$inner[[k]]$given)) free_block(blocks[[k]])
    out
  }
)
