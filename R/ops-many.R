# Batches of matrices: linear systems, factorisations, eigenvalues and singular values of each matrix. Small matrices
# use this package's own kernels (kernels/dense.h); larger ones are computed one after the other by the functions for
# one matrix.

# The factorisations of C_many, in its order.
FACTORINGS <- c("chol", "solve", "qr", "eigen", "svd")

# Computes one of these for each of `count` m x n matrices in x, by the package's own kernels: list(x, y, z, status).
# `status` is present only if a matrix has failed. `columns`: the number of columns of the right sides b; `own`: whether
# each matrix has its own right sides. NULL for a size that the device leaves to libraries.
small_factors <- function(which, x, m, n, count = 1, b = NULL, columns = 0, own = FALSE, tol = 0)
  .Call(C_many, strip(x), b, c(base::match(which, FACTORINGS) - 1, m, n, count, columns, own), tol)

# The rows and columns of an array of matrices, its further extents, and their product, the number of matrices.
batch_of <- function(x, name, square = TRUE, frame = parent.frame()) {
  if (!takes_product(x) || length(dim(x)) < 2L)
    abort_argument(name, "a numeric matrix or array of matrices", x, call = frame)
  d <- as.double(dim(x))
  if (square && d[1L] != d[2L]) stop_verdigris("shape", sprintf("`%s` has matrices of %s.", name, paste(d[1:2],
    collapse = " x ")), "They must be square: the first two dimensions equal.", call = frame)
  list(m = d[1L], n = d[2L], dim = d[-(1:2)], count = prod(d[-(1:2)]), name = name, frame = frame)
}

want_array <- function(x, frame = parent.frame()) {
  if (!is_gpu(x)) abort_argument("x", "an array; see `as_gpu()`", x, call = frame)
}

# Computes one of FACTORINGS for each matrix of x, or with right sides list(b, columns, own). Returns a list of arrays
# whose extents are those in `shapes`, followed by the batch's. `one` is base R's function of a matrix (and right
# sides), which returns a list with the same names.
by_batch <- function(which, x, batch, shapes, one, sides = list(columns = 0, own = FALSE), tol = 0) {
  b <- sides$b
  computed <- function(x) {
    elements <- all(batch$m > 0, batch$n > 0, batch$count > 0, batch$dim > 0) && (is.null(b) || sides$columns > 0)
    f <- if (elements) small_factors(which, x, batch$m, batch$n, batch$count, b, sides$columns, sides$own, tol)
    if (is.null(f)) return(NULL)
    failed <- if (!is.null(f$status)) base::which(collect(f$status) != 0L)
    list(out = stats::setNames(f[seq_along(shapes)], names(shapes)), failed = failed)
  }
  f <- computed(x)
  # A failure in float32 may be due to its precision: repeat in float64.
  if (length(f$failed) > 16L && is_narrow(x)) f <- computed(widened(x))
  out <- if (is.null(f)) in_turn(x, batch, shapes, one, sides) else with_failed(f, x, batch, one, sides)
  Map(function(y, shape) {
    y <- match_precision(y, x)
    dim(y) <- c(shape, batch$dim)
    y
  }, out, shapes)
}

# Matrix k (1-based) of a batch, or its right sides, as an ordinary m x n matrix.
matrix_of <- function(x, k, m, n) {
  base::matrix(read_for(strided(strip(x), length(x), 1, m * n, start = (k - 1) * m * n)), m, n)
}

# Calls base R's function for the k-th matrix. An error names the matrix.
matrix_by_base <- function(x, k, batch, one, sides) {
  a <- matrix_of(x, k, batch$m, batch$n)
  b <- if (!is.null(sides$b)) matrix_of(sides$b, if (sides$own) k else 1, batch$n, sides$columns)
  tryCatch(if (is.null(b)) one(a) else one(a, b), error = function(e) stop_at_matrix(e, k, batch))
}

stop_at_matrix <- function(e, k, batch) {
  if (!length(batch$dim)) stop_as_base(conditionMessage(e), batch$frame)
  at <- arrayInd(k, batch$dim)[1L, ]
  stop_verdigris("matrix", conditionMessage(e), sprintf("The matrix is `%s[, , %s]`.", batch$name,
    paste(at, collapse = ", ")), element = at, call = batch$frame)
}

# Replaces the results of failed matrices by those of base R (for a matrix with NaN), or raises base R's error.
with_failed <- function(f, x, batch, one, sides) {
  if (!length(f$failed)) return(f$out)
  parts <- lapply(f$failed, function(k) matrix_by_base(x, k, batch, one, sides))
  for (j in seq_along(f$out)) {
    y <- f$out[[j]]
    values <- as_gpu(unlist(lapply(parts, function(p) as.vector(p[[j]]))), dtype = gpu_dtype(y), device = gpu_device(y))
    dim(y) <- c(length(y) / batch$count, batch$count)
    y[, f$failed] <- values
    f$out[[j]] <- strip(y)
  }
  f$out
}

# Computes matrices that are too large for the package's own kernels, or have no elements, one after the other: on a GPU
# by the methods for arrays, otherwise by base R's functions.
in_turn <- function(x, batch, shapes, one, sides) {
  on_host <- gpu_device(x) == "cpu" || batch$m * batch$n == 0
  float <- if (is.complex(x)) "complex128" else "float64"
  if (prod(batch$dim) == 0 || sides$columns == 0 && !is.null(sides$b))
    return(lapply(shapes, function(shape) gpu_zeros(0, dtype = float, device = gpu_device(x))))
  columns_of <- function(v, many) {
    v <- if (on_host) host_view(v) else strip(v)
    dim(v) <- c(length(v) / many, many)
    v
  }
  xs <- columns_of(x, batch$count)
  if (!is.null(sides$b)) bs <- sides$b <- columns_of(sides$b, if (sides$own) batch$count else 1)
  shaped <- function(v, k, m, n) {
    v <- v[, k]
    dim(v) <- c(m, n)
    v
  }
  at <- 0L
  compute <- function(k) {
    at <<- k
    a <- shaped(xs, k, batch$m, batch$n)
    if (is.null(sides$b)) one(a) else one(a, shaped(bs, if (sides$own) k else 1L, batch$n, sides$columns))
  }
  # If a method for arrays fails, base R computes the matrix on the host, or raises its error.
  each_of <- seq_len(batch$count)
  parts <- if (on_host) {
    tryCatch(lapply(each_of, compute), error = function(e) stop_at_matrix(e, at, batch))
  } else {
    lapply(each_of, function(k) tryCatch(compute(k), error = function(e) matrix_by_base(x, k, batch, one, sides)))
  }
  sapply(names(shapes), simplify = FALSE, function(j) {
    each <- lapply(parts, function(p) p[[j]])
    if (!on_host) return(join(lapply(each, strip)))
    y <- unlist(lapply(each, as.vector))
    as_gpu(y, dtype = result_dtype(y, gpu_dtype(x)), device = gpu_device(x))
  })
}

#' Batched decompositions and solutions
#'
#' Base R's [solve()], [chol()], [qr()], [eigen()] and [svd()] for each matrix of an array: the first two dimensions
#' form a matrix, and all other dimensions form the batch, as in [gpu_matmul()]. A plain matrix is a batch of one.
#'
#' @section How it is computed:
#' Matrices of up to 64 rows and columns are computed by this package's code: on a GPU by one kernel for all of them,
#' with part of a warp, a warp or a block per matrix; on the cpu device by all cores. Larger matrices, and singular
#' values of more than 24 columns on the cpu device, are computed one after the other: by R's LAPACK on the cpu device,
#' by cuSOLVER on a GPU. Every run gives the same result. An array whose matrices are not contiguous in memory
#' (`aperm()`) is copied first.
#'
#' Integers and logicals are computed in float64; float16 and bfloat16 are computed in float32; the results have the
#' precision of `x`. All functions except `gpu_chol()` accept complex matrices. Dimnames are not kept, except those of a
#' plain matrix by `gpu_chol()` and `gpu_solve()`.
#'
#' @section Differences from base R:
#' `gpu_qr()` does not pivot and determines no rank: `q %*% r` is `x` with its columns in the original order, even if
#' columns are linearly dependent; the diagonal of `r` then contains zeros, up to rounding. If base R's `qr()` moves no
#' column, `q` and `r` equal its `qr.Q()` and `qr.R()`, including signs. `gpu_eigen()` takes symmetric (or Hermitian)
#' matrices and reads the lower triangle, as `eigen(x, symmetric = TRUE)` does. Vectors of `gpu_eigen()` and `gpu_svd()`
#' are determined up to a sign (a factor of modulus 1).
#' @param x,A An array of two dimensions or more. `gpu_chol()` reads the upper triangle of each matrix.
#' @param b Right-hand sides: a vector or a matrix is used for all matrices; an array of three dimensions or more, with
#'   the batch of `A` (or with any batch, if `A` is one matrix), has one for each (a single column: `dim(b)` is
#'   `c(n, 1, batch)`). Without `b` the inverses are computed. At least one of `A` and `b` is a `gpu_array`.
#' @param tol As in [solve()]: matrices with a smaller reciprocal condition number are refused. With 0 the condition
#'   number is not computed, which is faster.
#' @returns Arrays on the device of `x`, with the following dimensions, each followed by the dimensions of the batch:
#'   - `gpu_chol()`: `n x n`, the upper factors;
#'   - `gpu_solve()`: as `b`; `n` for a vector; `n x n` without `b`;
#'   - `gpu_qr()`: a list of `q`, `m x k`, and `r`, `k x n`, where `k` is the smaller of `m` and `n`;
#'   - `gpu_eigen()`: a list of `values`, `n`, in descending order, and `vectors`, `n x n`;
#'   - `gpu_svd()`: a list of `d`, `k`, in descending order, `u`, `m x k`, and `v`, `n x k`.
#'
#'   The call waits for the device, to check whether all matrices succeeded. Matrices that failed are copied to the
#'   host, where base R determines the error, or the result (of a matrix with NaN).
#' @section Errors:
#' `verdigris_error_matrix` with base R's message, such as "Lapack routine dgesv: system is exactly singular: U\[2,2\] =
#' 0", for the first matrix that failed; the message names the matrix, and the field `element` is its position in the
#' batch. For a plain matrix base R's error. `verdigris_error_shape` if dimensions do not match;
#' `verdigris_error_argument` if an argument is not an array of matrices; on a GPU `verdigris_error_memory`, and beyond
#' 64 rows or columns `verdigris_error_library` if cuSOLVER is missing.
#' @examples
#' x <- as_gpu(array(c(4, 1, 1, 3, 2, 0, 0, 5), c(2, 2, 2)), device = "cpu")
#' gpu_chol(x)
#' gpu_solve(x, c(1, 2))
#' gpu_solve(x)[, , 2]
#' gpu_qr(x)$r
#' gpu_eigen(x)$values
#' gpu_svd(x)$d
#' try(gpu_chol(-x))
#' @name gpu_solve
NULL

#' @rdname gpu_solve
#' @export
gpu_chol <- function(x) {
  want_array(x)
  batch <- batch_of(x, "x")
  if (!length(batch$dim)) return(chol(x))
  by_batch("chol", x, batch, list(x = c(batch$n, batch$n)), function(a) list(x = chol(a)))$x
}

#' @rdname gpu_solve
#' @export
gpu_solve <- function(A, b, tol = .Machine$double.eps) {
  batch <- batch_of(A, "A")
  if (!is.numeric(tol) || length(tol) != 1L || is.na(tol)) abort_argument("tol", "a number", tol)
  if (missing(b)) {
    if (!is_gpu(A)) abort_argument("A", "an array (or `b`); see `as_gpu()`", A)
    if (!length(batch$dim)) return(solve(A, tol = tol))
    return(by_batch("solve", A, batch, list(x = c(batch$n, batch$n)), function(a, b) list(x = solve(a, tol = tol)),
      tol = tol)$x)
  }
  if (!takes_product(b)) abort_argument("b", "a numeric vector, matrix or array of matrices", b)
  if (!is_gpu(A) && !is_gpu(b)) abort_argument("A", "an array (or `b`); see `as_gpu()`", A)
  A <- as_operand_like(A, b, gpu_device(b))
  b <- as_operand_like(b, A, gpu_device(A))
  d <- as.double(dim(b) %||% length(b))
  if (!length(batch$dim) && length(d) < 3L) return(solve(A, b, tol = tol))
  sides <- d[-(1:2)]
  own <- length(d) > 2L && prod(sides) != 1
  fits <- d[1L] == batch$n && (!own || batch$count == 1 || identical(sides, batch$dim))
  if (!fits) stop_verdigris("shape",
    sprintf("Right-hand sides of %s do not fit matrices of %s.", paste(d, collapse = " x "),
      paste(dim(A), collapse = " x ")),
    "The numbers of rows must be equal, and the further dimensions too, unless `A` or `b` has none.")
  columns <- if (length(d) == 1L) 1 else d[2L]
  b <- strip(b)
  if (is.complex(b) && !is.complex(A)) A <- gpu_cast(A, if (gpu_dtype(b) == "complex64") "complex64" else "complex128")
  if (batch$count == 1 && length(d) > 2L && all(d > 0)) {
    # One matrix: the right sides of the whole batch are solved as columns of one matrix.
    dim(A) <- c(batch$n, batch$n)
    dim(b) <- c(batch$n, columns * prod(sides))
    x <- solve(A, b, tol = tol)
    dim(x) <- d
    return(x)
  }
  if (own) batch$dim <- sides
  shape <- if (length(d) == 1L) batch$n else c(batch$n, columns)
  by_batch("solve", A, batch, list(x = shape), function(a, b) list(x = solve(a, b, tol = tol)),
    list(b = b, columns = columns, own = own), tol)$x
}

#' @rdname gpu_solve
#' @export
gpu_qr <- function(x) {
  want_array(x)
  batch <- batch_of(x, "x", square = FALSE)
  k <- min(batch$m, batch$n)
  by_batch("qr", x, batch, list(q = c(batch$m, k), r = c(k, batch$n)), function(a) {
    if (!is_gpu(a)) {
      # Base R's qr.R() fails without rows.
      if (k == 0) return(list(q = a[, 0L] + 0, r = a[0L, ] + 0))
      q <- qr.default(a)
      return(list(q = qr.Q(q), r = qr.R(q)[, order(q$pivot), drop = FALSE]))
    }
    if (!is.complex(a)) return(unpivoted_qr(a, k))
    # Base R's qr() of complex matrices pivots; the cpu device's kernel takes all sizes.
    lapply(gpu_qr(as_gpu(read_for(a), device = "cpu")), as_gpu, device = gpu_device(a))
  })
}

# QR without pivoting by cuSOLVER, for any rank.
unpivoted_qr <- function(x, k) {
  d <- as.double(dim(x))
  f <- .Call(C_qr, x, d)
  if (!all(is.finite(f$parts))) stop("not finite") # caught by in_turn(), which calls base R
  form <- f$qr
  dim(form) <- d
  aux <- as.vector(f$parts)[d[2L] + k + seq_len(d[2L])]
  q <- structure(list(qr = form, rank = as.integer(k), qraux = aux, pivot = seq_len(d[2L])), class = c("gpu_qr", "qr"))
  list(q = qr.Q(q), r = qr.R(q))
}

#' @rdname gpu_solve
#' @export
gpu_eigen <- function(x) {
  want_array(x)
  batch <- batch_of(x, "x")
  by_batch("eigen", x, batch, list(values = batch$n, vectors = c(batch$n, batch$n)), function(a)
    unclass(eigen(a, symmetric = TRUE)))
}

#' @rdname gpu_solve
#' @export
gpu_svd <- function(x) {
  want_array(x)
  batch <- batch_of(x, "x", square = FALSE)
  if (batch$m < batch$n) {
    # Decompose the (conjugate) transpose.
    y <- aperm(x, c(2L, 1L, 2L + seq_along(batch$dim)))
    batch[c("m", "n")] <- batch[c("n", "m")]
    f <- svd_of_batch(if (is.complex(y)) Conj(y) else y, batch)
    return(list(d = f$d, u = f$v, v = f$u))
  }
  svd_of_batch(x, batch)
}

svd_of_batch <- function(x, batch) {
  shapes <- list(d = batch$n, u = c(batch$m, batch$n), v = c(batch$n, batch$n))
  by_batch("svd", x, batch, shapes, function(a) svd(a)[c("d", "u", "v")])
}
