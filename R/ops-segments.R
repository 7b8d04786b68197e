# Segments: neighbouring elements that belong together, as the columns of a sparse matrix do (or its rows, where it is
# stored by rows). `p` has the offsets of segments, one more than there are segments, `i` the positions of elements
# within them and `x` their values; all are arrays on one device. Numbers count from 0, as in the slots of Matrix. These
# functions take what the classes of sparse matrices have checked, and are internal.

# The matrix whose element [s, j] is the sum over the elements e of segment s of x[e] * b[i[e], j]: of a matrix by
# columns crossprod(S, b), by rows S %*% b. Without `x` all values are 1; a vector `b` is one column.
segment_products <- function(p, i, x, b)
  .Call(C_segment_products, p, i, x, b, segment_sizes(b))

segment_sizes <- function(b) dim(b) %||% c(length(b), 1L)

# One value a segment: "sum", "mean", "min", "max", "any" or "all" of `x`, without `x` how many elements there are. Of
# no elements it is what base R says, without a warning.
segment_reduce <- function(p, x, what = "sum", na.rm = FALSE) {
  if (is.null(x)) return(p[seq.int(2L, length.out = length(p) - 1L)] - p[seq_len(length(p) - 1L)])
  # the least of no integers is infinite
  if (what %in% c("min", "max") && typeof(x) != "double") x <- gpu_cast(x, "float64")
  .Call(C_segment_reduce, p, x, what, na.rm)
}

# list(p, i, order): the elements by position, of which there are `nrow`, instead of by segment. `order` says where each
# element was; those of a segment stay in their order, so that their positions rise.
segment_transpose <- function(p, i, nrow)
  .Call(C_segment_transpose, p, i, nrow)

# The number of each of `n` elements' segment.
segment_expand <- function(p, n = as.vector(p[length(p)]))
  .Call(C_segment_expand, p, n)

# list(p, i, x) of A %*% B, all by columns; A has `nrow` rows. Sums that are 0 are kept, as Matrix does.
segment_multiply <- function(pa, ia, xa, nrow, pb, ib, xb)
  .Call(C_segment_multiply, pa, ia, xa, pb, ib, xb, c(nrow, length(pa) - 1L))

# For each element the sum over l of a[i, l] * b[s, l], where s is its segment.
segment_sampled <- function(p, i, a, b)
  .Call(C_segment_sampled, p, i, a, b, segment_sizes(a)[2L])

# What solves A %*% x == b of a triangular A by columns, of whose other triangle nothing is used. With `unit` its
# diagonal counts as ones.
segment_solve <- function(p, i, x, b, upper, unit = FALSE)
  .Call(C_segment_solve, p, i, x, b, segment_sizes(b), upper, unit)
