# Diagonals of matrices, and diagonal matrices: the functions behind diag() and `diag<-`().

diagonal <- function(x, extents, names, given) {
  if (is_sparse(x)) return(diag_of_sparse(x, names))
  if (is_gpu(x)) diag_of_array(x, extents, names, given) else diagonal_matrix(x, extents$nrow)
}

# Whether `diag()` creates a large square matrix from a number while arrays exist; `nrow` is in a list. The result is
# then an ordinary matrix whose elements are written only when R reads them: an operation with an array generates them
# on the device.
is_large_diagonal <- function(x, nrow) {
  n <- if (length(nrow)) nrow[[1L]] else x
  is.null(attributes(x)) && (!length(nrow) || is.double(x)) && is.numeric(n) && !is.object(n) && length(n) == 1L &&
    isTRUE(n >= LARGE_DIAGONAL & n <= 2^15) && !is.na(x) && .Call(C_live)[1L] > 0
}

# Number of rows from which writing a square matrix takes longer than an operation that generates it.
LARGE_DIAGONAL <- 256

diagonal_matrix <- function(x, nrow) {
  n <- as.integer(nrow %||% x)
  out <- .Call(C_diagonal, if (is.null(nrow)) 1 else x, n, n)
  dim(out) <- c(n, n)
  out
}

# `frame` is the frame of `diag<-`: if R permits it, its first argument is modified in place.
assign_diagonal <- function(x, value, frame) {
  if (is_sparse(x)) return(assign_sparse_diagonal(x, value, frame))
  d <- attr(x, "dim")
  if (length(d) != 2L) stop_as_base("only matrix diagonals can be replaced")
  m <- min(d)
  if (length(value) != 1L && length(value) != m) stop_as_base("replacement diagonal has wrong length")
  if (m == 0L) return(x)
  i <- seq_len(m)
  out <- .External2(C_replace_at, frame, i + (i - 1) * d[1L])
  if (is.null(out)) {
    x[cbind(i, i)] <- value
    x
  } else out
}

# `extents`: the arguments nrow and ncol that were given; `given`: the number of arguments of the call.
diag_of_array <- function(x, extents, names, given) {
  d <- attr(x, "dim")
  if (!is_switch(names) || !all(vapply(extents, is_count, NA)))
    return(hosted(base::diag, c(list(x), extents, list(names = names))))
  nrow <- extents$nrow
  ncol <- extents$ncol
  if (length(d) == 2L) {
    if (!is.null(nrow) || !is.null(ncol)) stop_as_base("'nrow' or 'ncol' cannot be specified when 'x' is a matrix")
    m <- min(d)
    if (m == 0L) return(recycle(x, 0))
    y <- strided(x, length(x), 1, m, step = d[1L] + 1)
    nms <- attr(x, "dimnames")
    if (names && length(nms) == 2L && !any(vapply(nms, is.null, NA))) {
      own <- lapply(nms, `[`, seq_len(m))
      if (identical(own[[1L]], own[[2L]])) names(y) <- own[[1L]]
    }
    return(y)
  }
  if (length(d) > 2L) stop_as_base("'x' is an array, but not one-dimensional.")
  # A single number without extents is the extent.
  if (length(x) == 1L && given == 1L)
    return(as_gpu(base::diag(as.vector(x)), dtype = result_dtype(1, gpu_dtype(x)), device = gpu_device(x)))
  n <- p <- m <- length(x)
  if (given > 1L || n == 0L) {
    n <- nrow %||% n
    p <- ncol %||% n
    usual <- function(k) is.numeric(k) && length(k) == 1L && isTRUE(k >= 1 && k <= .Machine$integer.max)
    if (!usual(n) || !usual(p) || length(x) == 0L) {
      return(as_gpu(call_base(base::diag, list(host_copy(x), n, p)), dtype = gpu_dtype(x), device = gpu_device(x)))
    }
    n <- trunc(n[[1L]])
    p <- trunc(p[[1L]])
    m <- min(n, p)
  }
  if (n >= LARGE_DIAGONAL && length(x) == n && !is_short_integer(x)) {
    # Recorded rather than written: fused with an operation on a matrix it takes no memory.
    y <- select_by(along_rows(gpu_seq(1L, n, device = gpu_device(x)), p) == along_columns(gpu_seq(1L, p,
      device = gpu_device(x)), n), along_rows(x, p), FALSE)
    dim(y) <- c(n, p)
    return(y)
  }
  y <- .Call(C_full, vector(typeof(x), 1L), as.double(n) * p, gpu_dtype(x), gpu_device(x))
  y <- .Call(C_put, y, list(seq.int(1, by = n + 1, length.out = m)), if (length(x) == m) x else recycle(x, m), NULL)
  dim(y) <- c(n, p)
  y
}
