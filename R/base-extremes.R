# The column of the largest element of each row: max.col().

# Largest number of columns that are compared one after the other to find the rows with ties, for which base R draws.
MOST_TIED <- 64L

TIES <- c("random", "first", "last")

#' Position of the largest element of each row
#'
#' `max.col(m, ties.method = c("random", "first", "last"))` returns the column of the largest element of each row, as
#' [base::max.col()] does.
#'
#' With ties `"first"` and `"last"` the columns are found on the device, and the call does not wait. Random ties, base
#' R's default, are resolved by R's generator, in base R's order and for the same rows: after [set.seed()] the result,
#' and the state of the generator, are those of base R. The call waits until the device has found the rows with ties,
#' and only these rows are copied to the host. On the cpu device base R resolves random ties, and processes doubles,
#' directly in the array's memory.
#' @param m A matrix.
#' @param ties.method As in [base::max.col()].
#' @param ... Not used: any further argument is an error, as in base R.
#' @returns An array of integers on the device of `m`, `NA` for a row with a missing element.
#' @section Errors:
#' Base R's errors and messages; the errors of [gpu_compute()].
#' @examples
#' m <- as_gpu(matrix(c(1, 5, 2, 8, 3, 8), 2), device = "cpu")
#' max.col(m, ties.method = "first")
#' max.col(m, ties.method = "last")
#' @usage NULL
#' @export max.col
max.col <- local({
  f <- interposed("max.col", "m", places_in_rows(m, ties.method))
  # R CMD check takes max.col() for a method of max(), whose formals include dots. Arguments in the dots are an error,
  # raised by base R.
  formals(f) <- c(formals(f), alist(... = ))
  body(f) <- bquote({
    if (...length()) return(eval(`[[<-`(sys.call(), 1L, quote(base::max.col)), parent.frame()))
    .(body(f))
  })
  f
})

places_in_rows <- function(m, ties.method) {
  d <- attr(m, "dim")
  ties <- if (identical(ties.method, TIES)) 1L else
    if (is.character(ties.method) && length(ties.method) == 1L) pmatch(ties.method, TIES) else NA
  usable <- !is.na(ties) && length(d) == 2L && length(m) && !is.complex(m) && (ties > 1L || d[2L] <= MOST_TIED)
  # On the cpu device base R is faster with random ties, and reads doubles from the array's memory without a copy.
  if (!usable || prefers_host(m) && (ties == 1L || gpu_dtype(m) == "float64")) {
    y <- call_base(base::max.col, list(if (length(d) == 2L) host_view(m) else host_copy(m), ties.method))
    return(.Call(C_result, y, NULL, gpu_device(m)))
  }
  x <- strip(m)
  if (is.logical(x)) x <- gpu_cast(x, "int32")
  last <- d[2L] - 1L
  backwards <- if (ties == 3L) strided(x, d, c(1, 2), d, step = c(1, -1), start = c(0, last)) else x
  at <- of_rows("which.max", backwards, d)
  # A row with a missing element has no largest element.
  at <- select_by(is.na(of_rows("max", x, d)), NA_integer_, if (ties == 3L) d[2L] - at else at + 1)
  at <- gpu_cast(at, "int32")
  drawn <- if (ties == 1L) rows_with_draws(x, d)
  if (length(drawn)) {
    dim(x) <- d
    at[drawn] <- base::max.col(collect(x[drawn, , drop = FALSE]))
  }
  at
}

of_rows <- function(name, x, d) .Call(C_reduce_groups, name, x, FALSE, c(1, d[2L], d[1L]), TRUE)

# The rows for which base R may draw a random number: an element is within 1e-5 of the row's largest magnitude of the
# element that base R takes for the largest before it, which is at most as far below the largest one. A row that is
# listed without need costs a copy, but no draw.
rows_with_draws <- function(x, d) {
  if (d[2L] == 1L) return(NULL)
  x <- as_float64(x)
  reach <- 1e-5 * of_rows("max", ifelse(is.finite(x), abs(x), 0), d)
  column <- function(k) strided(x, length(x), 1, d[1L], start = (k - 1) * d[1L])
  largest <- column(1L)
  below <- 2 * reach
  tied <- FALSE
  for (k in seq_len(d[2L])[-1L]) {
    y <- column(k)
    tied <- tied | y >= largest - below & y <= largest + reach
    largest <- .External2(C_recycled, "pmax", list(largest, y), NULL)
  }
  which(tied)
}
