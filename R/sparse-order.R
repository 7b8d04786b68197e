# Order statistics and extremes of sparse matrices. In ascending order the zeros that are not stored come between the
# negative elements and the others, so the stored elements and the number of zeros suffice.

# ---- all elements ------------------------------------------------------------------------------------

# at_ranks() of all elements of a sparse matrix: list(values, known).
sparse_at_ranks <- function(S, ranks) {
  x <- if (is.logical(S@x)) stored(S) else stored_numbers(S)
  zeros <- structural_zeros(S)
  known <- length(x) - sum(is.na(x)) + zeros
  values <- vector(typeof(x), 0L)
  if (known == 0) return(list(values = values, known = 0))
  wanted <- ranks(known)
  below <- sum(x < 0, na.rm = TRUE)
  is_stored <- wanted <= below | wanted > below + zeros
  values <- vector(typeof(x), length(wanted))
  places <- wanted[is_stored] - select_by(wanted[is_stored] > below, zeros, 0)
  if (length(places)) values[is_stored] <- at_ranks(x, function(known) places)$values
  list(values = values, known = known)
}

#' @rdname sparse-margins
#' @export
median.gpu_sparse <- function(x, na.rm = FALSE, ...) {
  found <- sparse_at_ranks(x, median_ranks)
  median_found(found, length(x), if (is.logical(x@x)) "logical" else "double", na.rm)
}

#' @rdname sparse-margins
#' @export
quantile.gpu_sparse <- function(x, probs = seq(0, 1, 0.25), na.rm = FALSE, names = TRUE, type = 7, ...)
  quantiles_by_ranks(function(ranks) sparse_at_ranks(x, ranks), length(x), probs, na.rm, names, type, ...,
    call = environment())

#' @rdname sparse-margins
#' @export
methods::setMethod("sd", "gpu_sparse", function(x, na.rm = FALSE) {
  values <- gpu_cast(stored_numbers(x), "float64")
  zeros <- structural_zeros(x)
  if (na.rm) values <- values[!is.na(values)]
  n <- length(values) + zeros
  if (n < 2) return(NA_real_)
  mean <- sum(values) / n
  sqrt((sum((values - mean)^2) + zeros * mean^2) / (n - 1))
})

# which.max() or which.min(): the first of the stored extremes, or of the zeros if none is beyond 0.
sparse_place <- function(name, S) {
  x <- stored_numbers(S)
  as_place <- function(at) if (at <= .Machine$integer.max) as.integer(at) else at
  keys <- strip(element_keys(strip(S@i), columns_of(S), S@Dim))
  first <- if (length(x)) get(name)(x) else integer()
  if (structural_zeros(S) == 0) return(if (length(first)) as_place(as.double(keys[first]) + 1) else first)
  extreme <- if (length(first)) as.double(x[first])
  beyond <- length(first) && (if (name == "which.max") extreme > 0 else extreme < 0)
  if (beyond) return(as_place(as.double(keys[first]) + 1))
  # the first position that is not stored: keys ascend, so the first gap among them
  gaps <- if (length(keys)) which(keys != gpu_seq(0, by = 1, length.out = length(keys), device = gpu_device(S)))
  at <- if (length(gaps)) as.double(gaps[1L]) else length(keys) + 1
  # a stored 0 may come before
  if (length(first) && extreme == 0) at <- min(at, as.double(keys[first]) + 1)
  as_place(at)
}

#' @rdname sparse-margins
#' @export
methods::setMethod("which.max", "gpu_sparse", function(x) sparse_place("which.max", x))
#' @rdname sparse-margins
#' @export
methods::setMethod("which.min", "gpu_sparse", function(x) sparse_place("which.min", x))

# As in base R, which makes a vector of a test that is an S4 object: without extents and names.
methods::setMethod("ifelse", "gpu_sparse", function(test, yes, no) {
  as_elements <- function(x) if (is_sparse(x)) strip(gpu_dense(x)) else if (is_of_matrix(x)) as.vector(x) else x
  ifelse(as_elements(test), as_elements(yes), as_elements(no))
})

# ---- by row and column -------------------------------------------------------------------------------

# The order statistics of each row or column: `at`, a function of one rank for each of them, and `known`, the number of
# elements that are not missing.
segment_ranks <- function(S, rows) {
  parts <- segments_of(S, rows, gpu_cast(stored_numbers(S), "float64"))
  of <- segment_expand(parts$p)
  # missing elements are the last of their row or column
  sorted <- if (length(parts$x)) parts$x[order(of, parts$x)]
  count <- function(x) segment_reduce(parts$p, as_doubles(x), "sum")
  zeros <- parts$n - segment_reduce(parts$p, NULL)
  absent <- is.na(parts$x)
  below <- count(!absent & parts$x < 0)
  before <- strip(parts$p)[seq_along(zeros)]
  at <- function(rank) {
    if (is.null(sorted)) return(zeros * 0)
    place <- before + select_by(rank > below, rank - zeros, rank)
    select_by(rank > below & rank <= below + zeros, 0, sorted[pmin(pmax(place, 1), length(sorted))])
  }
  list(at = at, known = parts$n - count(absent), n = parts$n, names = parts$names)
}

# Medians of rows or columns.
sparse_medians <- function(S, rows, na.rm = FALSE) {
  found <- segment_ranks(S, rows)
  low <- found$at((found$known + 1) %/% 2)
  high <- found$at(found$known %/% 2 + 1)
  out <- select_by(found$known %% 2 == 0, (low + high) / 2, low)
  out <- select_by(if (na.rm) found$known > 0 else found$known == found$n, out, NA_real_)
  named_margin(if (is_narrow(S@x)) gpu_cast(out, gpu_dtype(S@x)) else out, found$names)
}

# Quantiles (type 7) of rows or columns: a matrix with a row for each probability, or a vector for a single one. NULL if
# base R is to raise its error.
sparse_quantiles <- function(S, rows, probs = seq(0, 1, 0.25), na.rm = FALSE, names = TRUE) {
  found <- segment_ranks(S, rows)
  if (!na.rm && any(found$known < found$n)) stop_as_base(gettext(
    "missing values and NaN's not allowed if 'na.rm' is FALSE", domain = "R-stats"))
  parts <- lapply(probs, function(p) {
    index <- 1 + pmax(found$known - 1, 0) * p
    low <- found$at(floor(index))
    high <- found$at(ceiling(index))
    weight <- index - floor(index)
    out <- select_by(weight > 0 & high != low, (1 - weight) * low + weight * high, low)
    if (na.rm) out <- select_by(found$known > 0, out, NA_real_)
    if (is_narrow(S@x)) gpu_cast(out, gpu_dtype(S@x)) else out
  })
  if (length(probs) == 1L) return(named_margin(parts[[1L]], found$names))
  out <- join(lapply(parts, strip))
  dim(out) <- c(length(parts[[1L]]), length(probs))
  with_dimnames(t(out), list(if (names) names(stats::quantile(0, probs)), found$names))
}
