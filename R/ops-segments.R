# Segments: runs of adjacent elements that belong together, such as the columns of a sparse matrix in CSC form (or its
# rows in CSR form). `p` has the offsets of the segments, one more than there are segments; `i` the positions of the
# elements within their segment; `x` their values. All are arrays on one device, and indices are 0-based, as in the
# slots of Matrix. These internal functions do not check their arguments: the sparse matrix classes have done so.

# The matrix whose element [s, j] is the sum over the elements e of segment s of x[e] * b[i[e], j]. For a matrix S in
# CSC form this is crossprod(S, b), in CSR form S %*% b. Without `x` all values are 1; a vector `b` is one column.
segment_products <- function(p, i, x, b)
  .Call(C_segment_products, p, i, x, b, segment_sizes(b))

segment_sizes <- function(b) dim(b) %||% c(length(b), 1L)

# One value per segment: "sum", "mean", "min", "max", "any" or "all" of `x`; if `x` is NULL the number of elements. The
# value of an empty segment is base R's for an empty vector, without a warning.
segment_reduce <- function(p, x, what = "sum", na.rm = FALSE) {
  if (is.null(x)) return(p[seq.int(2L, length.out = length(p) - 1L)] - p[seq_len(length(p) - 1L)])
  # An extreme of an empty segment is infinite, so integers become doubles.
  if (what %in% c("min", "max") && typeof(x) != "double") x <- gpu_cast(x, "float64")
  .Call(C_segment_reduce, p, x, what, na.rm)
}

# list(p, i, order): the transposed structure, whose segments are the `nrow` positions. `order` has the former index of
# each element. The sort is stable, so the positions within a segment increase.
segment_transpose <- function(p, i, nrow)
  .Call(C_segment_transpose, p, i, nrow)

# The segment (0-based) of each of `n` elements.
segment_expand <- function(p, n = as.vector(p[length(p)]))
  .Call(C_segment_expand, p, n)

# list(p, i, x) of A %*% B, all in CSC form; A has `nrow` rows. Like Matrix it keeps sums that are 0.
segment_multiply <- function(pa, ia, xa, nrow, pb, ib, xb)
  .Call(C_segment_multiply, pa, ia, xa, pb, ib, xb, c(nrow, length(pa) - 1L))

# For each element, at position i in segment s, the sum over l of a[i, l] * b[s, l].
segment_sampled <- function(p, i, a, b)
  .Call(C_segment_sampled, p, i, a, b, segment_sizes(a)[2L])

# Solves A %*% x == b for a triangular A in CSC form, of which only the `upper` or the lower triangle is used. With
# `unit` the diagonal counts as ones.
segment_solve <- function(p, i, x, b, upper, unit = FALSE)
  .Call(C_segment_solve, p, i, x, b, segment_sizes(b), upper, unit)
