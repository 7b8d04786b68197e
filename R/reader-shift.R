# Readers of elements in other places: rev() and diff(). They are computed when they are read.

#' @export
rev.gpu_reader <- function(x) {
  one_vector(x, "rev", environment())
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
  for (count in list(lag, differences)) if (!is.numeric(count) || length(count) != 1L || !isTRUE(count >= 1))
    stop_as_base(gettext("'lag' and 'differences' must be integers >= 1", domain = "R-base"), call)
  lag <- trunc(as.double(lag))
  differences <- trunc(as.double(differences))
  # base R's is of the type of `x` then
  if (lag * differences >= rows_of_reader(x)) return(reader_of_differences(x, Inf))
  for (k in seq_len(differences)) x <- reader_of_differences(x, lag)
  x
}

# With a lag of Inf no elements, a vector as base R's.
reader_of_differences <- function(x, lag) {
  if (!is.finite(lag)) return(new_reader(open_differences, list(x = described(x), lag = lag), 0, if (
    is_vector_reader(x) && !is.null(x$dimnames)) character(), x$type, 1, x$memory, sprintf("diff() of %s", x$label),
    portable = x$portable))
  n <- rows_of_reader(x) - lag
  none <- as_gpu(numeric(), dtype = x$type, device = "cpu")
  kept <- function(names) if (!is.null(names)) names[lag + seq_len(n)]
  names <- x$dimnames
  names <- if (is_vector_reader(x)) kept(names) else if (!is.null(names)) list(kept(names[[1L]]), names[[2L]])
  new_reader(open_differences, list(x = described(x), lag = lag), c(n, x$dim[-1L]), names,
    gpu_dtype(none - none), 1, x$memory, sprintf("diff() of %s", x$label), portable = x$portable)
}

# A block of what is behind the first rows, and one of what is before the last; one of both where they overlap.
open_differences <- function(x, lag) list(
  ahead = function(from, count, margin, dtype, device) {
    start <- function(from, count) block_start(x, from, count, 1, NULL, device)
    if (!is.finite(lag)) return(list(inner = list(start(0, 0))))
    list(rows = count, inner = if (lag < count) list(start(from, count + lag)) else list(start(from + lag, count),
      start(from, count)))
  },
  take = function(coming) {
    blocks <- lapply(coming$inner, function(inner) block_take(x, inner))
    if (!is.finite(lag)) return(strip(blocks[[1L]]))
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
