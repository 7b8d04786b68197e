# QR, singular values and eigenvalues: cuSOLVER on a CUDA device, base R's LINPACK and LAPACK on the cpu.

# ---- QR ------------------------------------------------------------------------------------------------------

setOldClass(c("gpu_qr", "qr"))
setOldClass(c("gpu_split_qr", "qr"))

# Decompositions of arrays and of splits.
QR_CLASSES <- c("gpu_qr", "gpu_split_qr")

#' QR decompositions
#'
#' [base::qr()] and related functions for arrays: computed by cuSOLVER on a CUDA device, by R's LINPACK on the cpu. R
#' handles an interrupt when the LINPACK routine has returned.
#'
#' @section Rank and pivots:
#' Base R's `qr()` moves a column to the end if its norm, after the preceding columns have been projected out, is less
#' than `tol` times the original norm. cuSOLVER does not pivot, so the diagonal of R is compared with the columns'
#' norms. If every column is well above the limit (by a factor of 2; for float32 matrices also relative to float32
#' precision), base R would not have moved any column either. The result is then cuSOLVER's decomposition in LINPACK's
#' form, which every function for base R's decompositions accepts. Otherwise the matrix is copied to the host (see
#' option `verdigris.host_access` in [verdigris-package]), and base R determines rank and pivots. Complex matrices,
#' matrices with values that are not finite, and all matrices with `LAPACK = TRUE` are also copied to the host.
#'
#' `qr.Q()`, `qr.R()`, `qr.X()`, `qr.qy()`, `qr.qty()`, `qr.coef()`, `qr.fitted()`, `qr.resid()` and `qr.solve()` have
#' base R's arguments; a right-hand side may be an array or an ordinary vector or matrix.
#' @param x A matrix.
#' @param tol,LAPACK,... As in [base::qr()].
#' @param a A result of `qr()`.
#' @param b A matrix or a vector; without it, `solve()` returns the inverse.
#' @returns `qr()` returns base R's list with class `c("gpu_qr", "qr")`: `qr`, an array, and ordinary `rank`, `qraux`
#'   and `pivot`; [collect()] converts it to an ordinary decomposition. The other functions return arrays of base R's
#'   shape and dimnames, in the decomposition's precision. `qr()` waits for the device, to determine the rank;
#'   `qr.coef()` and the functions that use it also wait.
#' @section Errors:
#' Base R's errors and messages; on a GPU `verdigris_error_library` if cuSOLVER or cuBLAS is missing (see
#' [gpu_sitrep()]) and `verdigris_error_memory`.
#' @examples
#' x <- as_gpu(cbind(1, c(1, 2, 4, 7)), device = "cpu")
#' q <- qr(x)
#' q$rank
#' qr.coef(q, c(1, 2, 3, 5))
#' qr.R(q)
#' @name qr
NULL

#' @rdname qr
#' @export
qr.gpu_array <- function(x, tol = 1e-07, LAPACK = FALSE, ...) {
  d <- as.double(dim(x))
  device <- gpu_device(x) != "cpu" && length(d) == 2L && all(d > 0)
  own <- device && !is.complex(x) && isFALSE(LAPACK) && is.numeric(tol) && length(tol) == 1L && !is.na(tol) &&
    max(d) < 2^31
  if (own) {
    f <- .Call(C_qr, strip_names(x), d)
    k <- min(d)
    norms <- f$parts[seq_len(d[2L])]
    left <- abs(f$parts[d[2L] + seq_len(k)])
    # Above this limit base R moves no column, however the norms are rounded.
    limit <- max(2 * tol, if (is_narrow(x)) 1e-5 else 0)
    own <- all(is.finite(norms)) && all(left >= limit * norms[seq_len(k)] & left > 0)
  }
  if (!own) {
    args <- list(x, tol = tol, LAPACK = LAPACK, ...)
    args[[1L]] <- read_for(x)
    out <- call_base(qr.default, args)
    out$qr <- upload_result_like(out$qr, x)
    return(structure(out, class = c("gpu_qr", "qr")))
  }
  form <- f$qr
  dim(form) <- d
  aux <- f$parts[d[2L] + k + seq_len(d[2L])]
  # For a column with zeros below its diagonal LINPACK flips the sign, whereas LAPACK applies no reflection.
  idle <- which(aux == 0 & seq_along(aux) < d[1L])
  if (length(idle)) {
    aux[idle] <- 2
    turn <- as_gpu(replace(rep(1, d[1L]), idle, -1), dtype = gpu_dtype(form), device = gpu_device(x))
    form <- ifelse(upper.tri(form, TRUE), form * turn, form)
  }
  form <- with_dimnames(match_precision(form, x), dimnames(x) %||% list(NULL))
  structure(list(qr = form, rank = as.integer(k), qraux = aux, pivot = seq_len(d[2L])), class = c("gpu_qr", "qr"))
}

#' @export
collect.gpu_qr <- function(x, ...) {
  x$qr <- collect(x$qr)
  structure(x, class = "qr")
}

# Whether the decomposition is in LINPACK's form and on a GPU.
on_device <- function(qr) is_gpu(qr$qr) && gpu_device(qr$qr) != "cpu" && length(qr$qr) > 0L && !is.complex(qr$qr) &&
  is.null(attr(qr, "useLAPACK"))

# Calls a base R function with host copies; its result becomes an array.
qr_by_base <- function(f, qr, ..., frame = parent.frame()) {
  numbers_back(call_base(f, c(list(collect(qr)), lapply(list(...), host_copy)), frame), list(qr$qr))
}

# Q y, or t(Q) y, with the attributes of y.
reflected <- function(qr, y, transpose, k = qr$rank) {
  d <- as.double(dim(qr$qr))
  y <- as_operand_like(y, qr$qr, gpu_device(qr$qr))
  k <- min(k, d[1L] - 1)
  if (k == 0 || NCOL(y) == 0L) return(cast_to_product_dtype(if (is.double(y)) y else as_doubles(y), qr$qr, y))
  aux <- as_gpu(as.double(qr$qraux), device = gpu_device(qr$qr))
  out <- .Call(C_qr_apply, strip(qr$qr), aux, strip(y), c(d, k, NCOL(y)), transpose)
  shaped_as(cast_to_product_dtype(out, qr$qr, y), y)
}

# Casts to the dtype of a product of x and y.
cast_to_product_dtype <- function(out, x, y) {
  dtype <- product_dtype(x, y)
  if (is.null(dtype)) out else gpu_cast(out, dtype)
}

shaped_as <- function(out, y) {
  if (!is.null(dim(y))) {
    dim(out) <- dim(y)
    if (!is.null(dimnames(y))) dimnames(out) <- dimnames(y)
  } else if (!is.null(names(y))) {
    names(out) <- names(y)
  }
  out
}

# Whether y can be multiplied by the decomposition's Q on the device.
takes_reflection <- function(qr, y) {
  on_device(qr) && takes_product(y) && !is.complex(y) && length(dim(y)) %in% c(0L, 2L) && NROW(y) == nrow(qr$qr)
}

#' @rdname qr
#' @usage NULL
#' @export qr.qy
qr.qy <- interposed("qr.qy", "qr", reflection(qr, y, FALSE, base::qr.qy), class = "gpu_qr")
#' @rdname qr
#' @usage NULL
#' @export qr.qty
qr.qty <- interposed("qr.qty", "qr", reflection(qr, y, TRUE, base::qr.qty), class = "gpu_qr")

reflection <- function(qr, y, transpose, f) if (takes_reflection(qr, y)) reflected(qr, y, transpose) else
  qr_by_base(f, qr, y)

#' @rdname qr
#' @usage NULL
#' @export qr.R
qr.R <- interposed("qr.R", "qr", triangle_of_qr(qr, complete), class = "gpu_qr")

triangle_of_qr <- function(qr, complete) {
  d <- as.double(dim(qr$qr))
  if (!on_device(qr) || !(isTRUE(complete) || isFALSE(complete))) return(qr_by_base(base::qr.R, qr, complete))
  x <- if (complete || d[1L] <= d[2L]) qr$qr else qr$qr[seq_len(d[2L]), , drop = FALSE]
  shaped_as(.Call(C_upper_triangle, strip_names(x), as.double(dim(x))), x)
}

#' @rdname qr
#' @usage NULL
#' @export qr.Q
qr.Q <- interposed("qr.Q", "qr", orthogonal(qr, complete, if (missing(Dvec)) NULL else Dvec), class = QR_CLASSES)

orthogonal <- function(qr, complete, Dvec) {
  if (inherits(qr, "gpu_split_qr")) {
    if (!isFALSE(complete) || !is.null(Dvec)) refuse_split("qr.Q", advice = "`complete` and `Dvec` are not supported.")
    return(orthogonal_of_split(qr, parent.frame()))
  }
  d <- as.double(dim(qr$qr))
  if (!on_device(qr) || !(isTRUE(complete) || isFALSE(complete)))
    return(do.call(qr_by_base, c(list(base::qr.Q, qr, complete), if (!is.null(Dvec)) list(Dvec))))
  n <- if (complete) d[1L] else min(d)
  like <- qr$qr
  ones <- if (is.null(Dvec)) gpu_ones(n, dtype = if (is_narrow(like)) "float32" else "float64",
    device = gpu_device(like)) else as_operand_like(Dvec, like, gpu_device(like))
  square <- diag(recycle(ones, n))
  start <- if (n == d[1L]) square else rbind(square, gpu_zeros(c(d[1L] - n, n), dtype = gpu_dtype(square),
    device = gpu_device(like)))
  match_precision(reflected(qr, start, FALSE), like)
}

#' @rdname qr
#' @usage NULL
#' @export qr.coef
qr.coef <- interposed("qr.coef", "qr", coefficients_of_qr(qr, y), class = QR_CLASSES)

coefficients_of_qr <- function(qr, y) {
  if (inherits(qr, "gpu_split_qr")) return(coefficients_of_split(qr, y, parent.frame())$coefficients)
  d <- as.double(dim(qr$qr))
  k <- as.double(qr$rank)
  if (!takes_reflection(qr, y) || k < 1 || NCOL(y) == 0L) return(qr_by_base(base::qr.coef, qr, y))
  if (any(diagonal_of(qr$qr, d[1L], k) == 0)) stop_as_base(base_message("exact singularity in '%s'", "qr.coef"))
  columns <- as.double(NCOL(y))
  z <- reflected(qr, y, TRUE)
  dim(z) <- c(d[1L], columns)
  r <- strip_names(qr$qr)[seq_len(k), seq_len(k), drop = FALSE]
  coef <- .Call(C_triangular_solve, r, strip(z[seq_len(k), , drop = FALSE]), c(k, columns), TRUE, FALSE)
  coef <- cast_to_product_dtype(coef, qr$qr, as_operand_like(y, qr$qr, gpu_device(qr$qr)))
  dim(coef) <- c(k, columns)
  if (k < d[2L]) {
    # Columns beyond the rank have no coefficient (NA).
    at <- rep(d[2L], d[2L])
    at[qr$pivot[seq_len(k)]] <- seq_len(k)
    coef <- rbind(coef, gpu_full(NA_real_, c(d[2L] - k, columns), dtype = gpu_dtype(coef), device = gpu_device(coef)))[
      at, , drop = FALSE]
  }
  rows <- NULL
  if (!is.null(names <- dimnames(qr$qr)[[2L]])) {
    rows <- names
    rows[qr$pivot] <- names
  }
  if (length(dim(y)) == 2L) return(with_dimnames(coef, list(rows, dimnames(y)[[2L]])))
  out <- strip(coef)
  # As in base R, a single coefficient has no names: drop() removes them.
  if (!is.null(rows) && length(rows) > 1L) names(out) <- rows
  out
}

#' @rdname qr
#' @usage NULL
#' @export qr.fitted
qr.fitted <- interposed("qr.fitted", "qr", projection(qr, y, k, TRUE, base::qr.fitted), class = QR_CLASSES)
#' @rdname qr
#' @usage NULL
#' @export qr.resid
qr.resid <- interposed("qr.resid", "qr", projection(qr, y, qr$rank, FALSE, base::qr.resid), class = QR_CLASSES)

# The projection of y onto the space of the first k columns (`fitted`), or the residual.
projection <- function(qr, y, k, fitted, f) {
  if (inherits(qr, "gpu_split_qr")) {
    if (!identical(as.double(k), as.double(qr$rank))) refuse_split("qr.fitted",
      advice = "`k` must be the number of columns.")
    found <- coefficients_of_split(qr, y, parent.frame())
    return(if (fitted) found$fitted() else found$y - found$fitted())
  }
  usable <- takes_reflection(qr, y) && is.numeric(k) && length(k) == 1L && isTRUE(k >= 1 & k <= qr$rank) && NCOL(y) > 0L
  if (!usable) return(if (fitted) qr_by_base(f, qr, y, k) else qr_by_base(f, qr, y))
  k <- trunc(as.double(k))
  z <- reflected(qr, y, TRUE, k)
  # The row of each element.
  row <- if (is.null(dim(z))) gpu_seq(1, length(z), device = gpu_device(z)) else index_of(z, 1L)
  kept <- if (fitted) row <= k else row > k
  shaped_as(reflected(qr, select_by(kept, z, 0), FALSE, k), z)
}

#' @rdname qr
#' @usage NULL
#' @export qr.X
qr.X <- interposed("qr.X", "qr", matrix_of_qr(qr, complete, if (missing(ncol)) NULL else ncol), class = "gpu_qr")

matrix_of_qr <- function(qr, complete, ncol) {
  pivoted <- !identical(qr$pivot, seq_along(qr$pivot))
  d <- dim(qr$qr)
  # The product of the factors, if no column was moved or is to be added; otherwise base R's.
  if (!on_device(qr) || pivoted || !(is.null(ncol) || isTRUE(ncol <= d[2L])))
    return(do.call(qr_by_base, c(list(base::qr.X, qr, complete), if (!is.null(ncol)) list(ncol))))
  r <- qr.R(qr, complete = TRUE)
  ncol <- if (!is.null(ncol)) ncol else if (complete) d[1L] else min(d)
  if (ncol > d[2L]) return(qr_by_base(base::qr.X, qr, complete, ncol))
  qr.qy(qr, if (ncol < d[2L]) r[, seq_len(ncol), drop = FALSE] else r)
}

#' @rdname qr
#' @usage NULL
#' @export qr.solve
qr.solve <- interposed("qr.solve", c("a", "b"), solve_by_qr(a, if (missing(b)) NULL else b, tol, base::qr.solve),
  class = c("gpu_array", "gpu_qr", "gpu_split", "gpu_split_qr"))

solve_by_qr <- function(a, b, tol, f) {
  if (is_split(a) || inherits(a, "gpu_split_qr") || is_split(b)) {
    if (is.null(b)) refuse_split("qr.solve")
    a <- if (inherits(a, "gpu_split_qr")) a else if (is_split(a)) qr.gpu_split(a, tol) else refuse_split("qr.solve")
    if (a$rank < ncol(a$x)) stop_as_base("singular matrix 'a' in solve")
    return(coefficients_of_split(a, b, parent.frame())$coefficients)
  }
  # A matrix or decomposition of another package.
  if (isS4(a) && !is_gpu(a)) return(call_base(f, list(a, host_copy(b), tol = tol)))
  # Not through the generic qr(): if a package calls it, R CMD check takes functions named qr.Q() and so on for its
  # methods.
  if (!inherits(a, "qr")) {
    a <- qr.gpu_array(if (is_gpu(a)) a else as_gpu(a, dtype = host_dtype(a, b), device = gpu_device(b)), tol = tol)
  }
  if (!inherits(a, "gpu_qr")) return(call_base(f, c(list(a), if (!is.null(b)) list(host_copy(b)), list(tol = tol))))
  d <- dim(a$qr)
  if (a$rank != min(d)) stop_as_base(if (identical(f, base::qr.solve)) "singular matrix 'a' in solve" else
    "singular matrix 'a' in 'solve'")
  if (is.null(b)) {
    if (d[1L] != d[2L]) stop_as_base("only square matrices can be inverted")
    b <- identity_on(as.double(d[2L]), a$qr)
  }
  x <- qr.coef(a, b)
  # As in base R, NA becomes 0, whether of columns beyond the rank or of the right-hand side.
  if (anyNA(x)) x[is.na(x)] <- 0
  x
}

#' @rdname qr
#' @export
solve.gpu_qr <- function(a, b, ...) solve_by_qr(a, if (missing(b)) NULL else b, 1e-07, solve.qr)

# ---- singular values -------------------------------------------------------------------------------------------

#' Singular value and eigenvalue decompositions
#'
#' [base::svd()] and [base::eigen()] for arrays: computed by cuSOLVER on a CUDA device, by R's LAPACK on the cpu. R
#' handles an interrupt when the LAPACK routine has returned.
#'
#' Vectors are determined up to a sign (a factor of modulus 1 for complex vectors), which may differ from base R's.
#' Singular values are computed by the polar decomposition, which is based on matrix products, and are as accurate as
#' LAPACK's. If the matrix is close to singular and this method does not reach this accuracy, they are computed by
#' bidiagonalisation. Eigenvalues of symmetric and Hermitian matrices are computed by divide and conquer. Eigenvalues of
#' other real matrices are computed on the device if cuSOLVER has the function (CUDA 12.6, update 2, and later);
#' otherwise, and for other complex matrices, on the host (see option `verdigris.host_access` in [verdigris-package]).
#'
#' Integers and logicals are computed in float64; float16 and bfloat16 are computed in float32.
#' @param x A matrix.
#' @param nu,nv,LINPACK,symmetric,only.values,EISPACK As in [base::svd()] and [base::eigen()].
#' @returns Base R's list, with arrays on the device of `x`, in its precision. The call waits for the device.
#' @section Errors:
#' Base R's errors and messages; on a GPU `verdigris_error_library` if cuSOLVER is missing (see [gpu_sitrep()]) and
#' `verdigris_error_memory`.
#' @examples
#' x <- as_gpu(matrix(c(2, 1, 1, 3), 2), device = "cpu")
#' svd(x)$d
#' eigen(x)
#' @name decompositions
NULL

#' @rdname decompositions
#' @export
svd <- interposed("svd", "x", svd_of_array(x, nu, nv, missing(nu), missing(nv), !missing(LINPACK)),
  class = c(ON_DEVICE, "gpu_split"))

svd_of_array <- function(x, nu, nv, all_u, all_v, linpack) {
  x <- dense_numbers(x)
  if (is_split(x)) return(svd_of_split(x, if (!all_u) nu, if (!all_v) nv, parent.frame()))
  d <- as.double(dim(x))
  count <- function(n) is.numeric(n) && length(n) == 1L && isTRUE(n >= 0)
  usable <- gpu_device(x) != "cpu" && length(d) == 2L && all(d > 0) && !linpack && isTRUE(all(is.finite(x)))
  if (usable) {
    nu <- if (all_u) min(d) else nu
    nv <- if (all_v) min(d) else nv
    usable <- count(nu) && count(nv) && nu <= d[1L] && nv <= d[2L]
  }
  if (!usable) {
    out <- call_base(base::svd, c(list(read_for(x)), if (!all_u) list(nu = nu), if (!all_v) list(nv = nv),
      if (linpack) list(LINPACK = TRUE)))
    return(lapply(out, upload_result_like, x))
  }
  k <- min(d)
  f <- singular_decomposition(x, nu > 0 || nv > 0, nu > k || nv > k)
  columns <- function(m, n) match_precision(if (ncol(m) > n) m[, seq_len(n), drop = FALSE] else m, x)
  c(list(d = match_precision(f$d, x)), if (nu > 0) list(u = columns(f$u, trunc(nu))),
    if (nv > 0) list(v = columns(f$v, trunc(nv))))
}

# The singular values `d`, and with `vectors` the matrices `u` and `v`. x must be on a GPU.

singular_decomposition <- function(x, vectors, full = FALSE) {
  d <- as.double(dim(x))
  wide <- d[1L] < d[2L]
  conjugated <- function(m) if (is.complex(m)) Conj(t(m)) else t(m)
  y <- strip_names(x)
  if (wide) y <- conjugated(y)
  d <- if (wide) rev(d) else d
  # Without vectors the polar decomposition fails on the GPU, and breaks the context (cuSOLVER 12.0, seen at 1 x 1).
  polar <- products$polar && vectors
  f <- .Call(C_svd, y, d, vectors, full, polar)
  # For a nearly singular matrix the polar decomposition perturbs it. The result is used if the perturbation of the
  # singular values (`moved`) is within rounding.
  unit <- if (is_narrow(f$d)) 2^-23 else 2^-52
  if (polar && (f$info != 0 || !isTRUE(f$moved <= 8 * unit * d[2L] * as.vector(f$d[1L]))))
    f <- .Call(C_svd, y, d, vectors, full, FALSE)
  if (f$info != 0) stop_as_base(base_message("error code %d from Lapack routine '%s'", f$info, "dgesdd"))
  if (!vectors) return(list(d = f$d))
  u <- f$u
  dim(u) <- c(d[1L], length(u) / d[1L])
  v <- f$v
  dim(v) <- c(d[2L], d[2L])
  if (f$transposed) v <- conjugated(v)
  list(d = f$d, u = if (wide) v else u, v = if (wide) u else v)
}

singular_values <- function(x) if (gpu_device(x) == "cpu" || !isTRUE(all(is.finite(x)))) svd(x, nu = 0L, nv = 0L)$d else
  singular_decomposition(x, FALSE)$d

# ---- eigenvalues -------------------------------------------------------------------------------------------------

#' @rdname decompositions
#' @export
eigen <- interposed("eigen", "x", eigen_of_array(x, if (!missing(symmetric)) list(symmetric = symmetric), only.values),
  class = ON_DEVICE)

# `given`: list(symmetric = ), or NULL if the argument is missing and symmetry must be tested.
eigen_of_array <- function(x, given, only.values) {
  x <- dense_numbers(x)
  symmetric <- given$symmetric
  n <- order_of(x)
  flag <- function(v) isTRUE(v) || isFALSE(v)
  device <- !is.null(n) && flag(only.values) && (is.null(given) || flag(symmetric)) && isTRUE(all(is.finite(x)))
  base_copy <- function(copy) {
    out <- call_base(base::eigen, c(list(copy), given, list(only.values = only.values)))
    out[] <- lapply(out, function(v) if (!is.null(v)) upload_result_like(v, x))
    out
  }
  if (!device) return(base_copy(read_for(x)))
  y <- strip_names(x)
  if (is.null(symmetric)) symmetric <- if (is.complex(x)) isTRUE(all(y == Conj(t(y)))) || isSymmetric(host_copy(y)) else
    is_symmetric(y)
  f <- if (symmetric) .Call(C_eigen_symmetric, y, n, !only.values) else if (!is.complex(x))
    general_eigen(y, n, !only.values)
  if (is.null(f)) return(base_copy(read_for(x)))
  if (f$info != 0) stop_as_base(base_message("error code %d from Lapack routine '%s'", f$info,
    if (symmetric) "dsyevr" else "dgeev"))
  if (symmetric) {
    # The device returns ascending values, base R descending ones: reversed views.
    f$values <- f$values[n:1]
    if (!only.values) {
      dim(f$vectors) <- c(n, n)
      f$vectors <- f$vectors[, n:1, drop = FALSE]
    }
  }
  values <- match_precision(f$values, x)
  if (only.values) return(list(values = values, vectors = NULL))
  structure(class = "eigen", list(values = values, vectors = match_precision(f$vectors, x)))
}

# Eigenvalues of a real matrix that is not symmetric, in base R's order. NULL if this cuSOLVER lacks the function.
general_eigen <- function(x, n, vectors) {
  f <- tryCatch(.Call(C_eigen_general, x, n, vectors), verdigris_error_library = function(e) NULL)
  if (is.null(f) || f$info != 0) return(f)
  parts <- base::matrix(collect(f$values), ncol = 2L)
  real <- all(parts[, 2L] == 0)
  values <- if (real) parts[, 1L] else complex(real = parts[, 1L], imaginary = parts[, 2L])
  at <- sort.list(Mod(values), decreasing = TRUE)
  dtype <- if (real) gpu_dtype(f$values) else if (is_narrow(x)) "complex64" else "complex128"
  out <- list(values = as_gpu(values[at], dtype = dtype, device = gpu_device(x)), info = 0)
  if (!vectors) return(out)
  v <- f$vectors
  dim(v) <- c(n, n)
  if (!real) {
    # For a pair of conjugates, two columns hold the real and the imaginary part of a vector.
    side <- sign(parts[, 2L])
    first <- seq_len(n) - (side < 0)
    v <- v[, first[at], drop = FALSE] + v[, pmin(first + 1, n)[at], drop = FALSE] *
      rep(as_gpu(complex(imaginary = side[at]), dtype = dtype, device = gpu_device(x)), each = n)
  } else if (is.unsorted(at)) {
    v <- v[, at, drop = FALSE]
  }
  out$vectors <- v
  out
}
