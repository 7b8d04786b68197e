# Linear systems: LU and Cholesky factors and triangular solves by cuSOLVER and cuBLAS on a CUDA device, base R's LAPACK
# on the cpu device.

# ---- devices -------------------------------------------------------------------------------------------------

# The order of a square matrix that a CUDA device can factor; NULL for matrices that base R handles or refuses.
order_of <- function(x) {
  d <- dim(x)
  if (is_gpu(x) && gpu_device(x) != "cpu" && length(d) == 2L && d[1L] == d[2L] && d[1L] > 0L) as.double(d[1L])
}

# Calls f with host copies, for cases that the device does not support. Copying an array from a GPU counts as a read
# under option verdigris.host_access. Numeric results go back to the device.
hosted_by <- function(f, args, frame = parent.frame()) {
  numbers_back(call_base(f, lapply(args, read_for), frame), args)
}

read_for <- function(x) if (is_gpu(x) && gpu_device(x) != "cpu") ordinary_copy(x) else cpu_copy(x)

# Calls f where base R is the implementation (cpu device) or raises the error. Copies for S4 arguments of other packages
# are intended and not reported.
by_base <- function(f, args, frame = parent.frame()) {
  numbers_back(call_base(f, if (is_beside_s4(args)) host_copies(args) else lapply(args, cpu_copy), frame), args)
}

# A numeric result of base R as an array on the device of the first array among the arguments.
numbers_back <- function(y, args) if (is.numeric(y) || is.complex(y)) upload_result_like(y, Find(is_gpu, args)) else y

# Base R's message, translated as base R does.
base_message <- function(template, ...) gettextf(template, ..., domain = "R")

# An array of the same values in double precision.
widened <- function(x) gpu_cast(x, if (is.complex(x)) "complex128" else "float64")

# Casts a result to the precision of the array that it was computed from; float16 and bfloat16 are computed in float32.
match_precision <- function(y, x) {
  dtype <- result_dtype(y, gpu_dtype(x))
  if (is.null(dtype) || dtype == gpu_dtype(y)) y else gpu_cast(y, dtype)
}

identity_on <- function(n, like) {
  out <- diag(gpu_ones(n, device = gpu_device(like)))
  if (is.complex(like)) out + 0i else out
}

# The first k elements of the diagonal of a matrix with `rows` rows, as an ordinary vector.
diagonal_of <- function(x, rows, k = rows) collect(strided(strip(x), length(x), 1, k, step = rows + 1))

# ---- LU ----------------------------------------------------------------------------------------------------

# list(lu, pivots, info, n): the LU factors, the row exchanges, the index of a zero of U (0 if there is none), and the
# order.
lu_of <- function(x, n) {
  f <- .Call(C_lu, x, n)
  f$n <- n
  f
}

lu_solve <- function(f, b, columns, transpose = FALSE) .Call(C_lu_solve, f$lu, f$pivots, b, c(f$n, columns), transpose)

# LAPACK's estimate of the 1-norm of an inverse (dlacn2; Higham, ACM TOMS 14, 1988): `solve(b, transpose)` takes and
# returns an ordinary vector.
inverse_norm <- function(solve, n) {
  v <- solve(rep(1 / n, n), FALSE)
  if (n == 1 || anyNA(v)) return(sum(abs(v)))
  signs <- function(v) ifelse(v >= 0, 1, -1)
  estimate <- sum(abs(v))
  side <- signs(v)
  v <- solve(side, TRUE)
  at <- which.max(abs(v))
  for (k in 1:4) {
    v <- solve(replace(numeric(n), at, 1), FALSE)
    before <- estimate
    estimate <- sum(abs(v))
    if (anyNA(v) || all(signs(v) == side) || estimate <= before) break
    side <- signs(v)
    v <- solve(side, TRUE)
    last <- at
    at <- which.max(abs(v))
    if (anyNA(v) || abs(v[last]) == abs(v[at])) break
  }
  alternate <- (1 + (seq_len(n) - 1) / (n - 1)) * c(1, -1)[(seq_len(n) - 1) %% 2 + 1]
  max(estimate, 2 * sum(abs(solve(alternate, FALSE))) / (3 * n))
}

lu_inverse_norm <- function(f, infinity = FALSE) {
  like <- f$lu
  solve <- function(b, transpose)
    collect(lu_solve(f, as_gpu(b, dtype = gpu_dtype(like), device = gpu_device(like)), 1, transpose != infinity))
  inverse_norm(solve, f$n)
}

one_norm <- function(x) max(as.vector(colSums(abs(strip_names(x)))))
strip_names <- function(x) {
  if (!is.null(dimnames(x))) dimnames(x) <- NULL
  x
}

# Random right sides give a lower bound of the norm of an inverse, which is assumed to be within a factor of SLACK: of
# four normal vectors in any direction the largest component is below a thousandth with probability 4e-13 (Kenney and
# Laub, SIAM J. Sci. Comput. 15, 1994).
PROBES <- 4
SLACK <- 1000

# PROBES random right sides, drawn without changing the state of R's generator.
probes_for <- function(n, like)
  gpu_cast(.Call(C_random, "rnorm", n * PROBES, c(1, 2), 0, 1, "float64", gpu_device(like)), gpu_dtype(like))

# Largest number of right sides that the single-block kernel solves for.
SMALL_COLUMNS <- 512

# Solves a x = b like solve.default(); b NULL is the identity. NULL if the precision is too small to tell whether the
# matrix is singular, unless `final`; NA if the matrix is not finite. LAPACK's estimate of the condition number takes
# several solves; in most cases a few random right sides, solved together with b, prove that the matrix is not singular.
solve_lu <- function(a, b, n, columns, tol, frame, final) {
  # Base R does not check the condition number of complex matrices.
  asks <- !is.complex(a) && isTRUE(tol > 0)
  # A small real matrix is solved by one kernel. If it fails, the code below finds the reason. The kernel for complex
  # matrices is not prebuilt.
  if (columns <= SMALL_COLUMNS && !is.complex(a)) {
    f <- small_factors("solve", a, n, n, b = b, columns = columns, tol = if (asks) tol else 0)
    if (!is.null(f) && is.null(f$status)) return(f$x)
  }
  b <- b %||% identity_on(n, a)
  anorm <- one_norm(a)
  # Base R handles matrices that are not finite: cuSOLVER may lose such values.
  if (!is.finite(anorm)) return(NA)
  f <- lu_of(a, n)
  if (f$info > 0) {
    if (!final) return(NULL)
    stop_as_base(if (is.complex(a)) base_message("Lapack routine %s: system is exactly singular", "zgesv") else
      base_message("Lapack routine %s: system is exactly singular: U[%d,%d] = 0", "dgesv", f$info, f$info), frame)
  }
  if (!asks) return(lu_solve(f, b, columns))
  x <- lu_solve(f, join(list(strip(b), probes_for(n, f$lu)), gpu_dtype(f$lu)), columns + PROBES)
  size <- sqrt(sum(as.double(collect(strided(x, length(x), 1, n * PROBES, start = n * columns))^2)) / PROBES)
  eps <- if (is_narrow(f$lu)) 2^-23 else 0
  bound <- 1 / (anorm * sqrt(n) * size * SLACK)
  if (is.na(bound)) return(NA)
  if (bound <= max(tol, eps)) {
    if (!final) return(NULL)
    rcond <- 1 / anorm / lu_inverse_norm(f)
    if (is.na(rcond)) return(NA)
    if (rcond < tol)
      stop_as_base(base_message("system is computationally singular: reciprocal condition number = %g", rcond), frame)
  }
  strided(x, length(x), 1, n * columns)
}

#' Solve linear systems
#'
#' Base R's functions for square and triangular matrices, for arrays. They are computed by cuSOLVER and cuBLAS on a CUDA
#' device, by R's LAPACK on the cpu. R handles an interrupt when the LAPACK routine has returned.
#'
#' @section Where it is computed:
#' `solve()`, `chol()`, `chol2inv()`, `backsolve()`, `forwardsolve()`, `determinant()` (hence `det()`), `rcond()`,
#' `kappa()` and `norm()` are computed on the device of their array; for complex matrices only `solve()` is computed on
#' the device. For real matrices of up to 64 rows `solve()` and `chol()` are one kernel of this package.
#' `chol(pivot = TRUE)`, and other unsupported cases, are computed on the host (see option `verdigris.host_access` in
#' [verdigris-package]).
#'
#' Integers and logicals are computed in float64; float16 and bfloat16 are computed in float32. If a matrix narrower
#' than float64 is singular or nearly singular in float32, `solve()` and `chol()` repeat the computation in float64, and
#' then raise the error that base R raises for the stored values, if any.
#'
#' `solve()` finds a matrix singular if base R does: by a zero pivot, or by the reciprocal condition number. LAPACK
#' estimates that number by several additional solves. On a device a few random right-hand sides are solved together
#' with `b`. They show that most matrices are far from the limit; LAPACK's estimate is computed only for the others.
#' `rcond()` has base R's arguments.
#' @param a,x,r,l,z Matrices.
#' @param b Right-hand sides: a matrix or a vector, on a device or ordinary. Without it `solve()` returns the inverse.
#' @param tol,pivot,size,LINPACK,k,upper.tri,transpose,norm,type,logarithm,exact,... As in base R's functions of these
#'   names.
#' @returns Arrays on the device of the matrix, in its precision, with base R's dimnames. `rcond()`, `kappa()`, `norm()`
#'   and `determinant()` return ordinary numbers. The call waits for the device, to check whether the matrix is
#'   singular; `backsolve()` and `forwardsolve()` wait for the diagonal.
#' @section Errors:
#' Base R's errors and messages, such as "Lapack routine dgesv: system is exactly singular: U\[2,2\] = 0"; on a GPU
#' `verdigris_error_library` if cuSOLVER or cuBLAS is missing (see [gpu_sitrep()]) and `verdigris_error_memory`.
#' @examples
#' a <- as_gpu(matrix(c(4, 1, 1, 3), 2), device = "cpu")
#' solve(a, c(1, 2))
#' u <- chol(a)
#' chol2inv(u)
#' backsolve(u, c(1, 2))
#' det(a)
#' rcond(a)
#' norm(a, "F")
#' @name solve
NULL

#' @rdname solve
#' @export
solve.gpu_array <- function(a, b, tol = .Machine$double.eps, ...) {
  n <- order_of(a)
  frame <- environment()
  inverse <- missing(b)
  # Base R raises its error.
  on_base <- function() by_base(solve.default, c(list(a), if (!inverse) list(b), list(tol = tol, ...)), frame)
  if (is.null(n)) return(on_base())
  d <- if (inverse) c(n, n) else dim(b)
  fits <- inverse || takes_product(b) && (if (is.null(d)) length(b) == n else length(d) == 2L && d[1L] == n &&
    d[2L] > 0L)
  if (!fits || !is.numeric(tol) || length(tol) != 1L || ...length()) return(on_base())
  columns <- if (is.null(d)) 1 else as.double(d[2L])
  solved <- function(a, final) {
    if (inverse) return(solve_lu(strip_names(a), NULL, n, columns, tol, frame, final))
    b <- as_operand_like(b, a, gpu_device(a))
    if (is.complex(b) && !is.complex(a))
      a <- gpu_cast(a, if (gpu_dtype(b) == "complex64") "complex64" else "complex128")
    solve_lu(strip_names(a), strip(b), n, columns, tol, frame, final)
  }
  x <- solved(a, !is_narrow(a))
  if (is.null(x)) x <- solved(widened(a), TRUE)
  if (!is_gpu(x)) return(on_base())
  x <- match_precision(x, a)
  rows <- dimnames(a)[[2L]]
  if (is.null(d)) {
    names(x) <- rows
    return(x)
  }
  dim(x) <- c(n, columns)
  # For complex matrices base R sets names only if `a` has some.
  if (is.complex(x) && is.null(dimnames(a))) return(x)
  with_dimnames(x, list(rows, if (inverse) dimnames(a)[[1L]] else dimnames(b)[[2L]]))
}

#' @rdname solve
#' @export
determinant.gpu_array <- function(x, logarithm = TRUE, ...) {
  n <- order_of(x)
  if (is.null(n) || is.complex(x) || !is.finite(one_norm(x)))
    return(call_base(determinant, list(cpu_copy(x), logarithm = logarithm, ...)))
  f <- lu_of(x, n)
  if (f$info > 0) {
    modulus <- -Inf
    sign <- 1L
  } else {
    u <- diagonal_of(f$lu, n)
    swaps <- sum(collect(gpu_cast(f$pivots, "float64")) != seq_len(n))
    modulus <- sum(log(abs(u)))
    sign <- if ((swaps + sum(u < 0)) %% 2 == 1) -1L else 1L
  }
  structure(list(modulus = structure(if (logarithm) modulus else exp(modulus), logarithm = logarithm), sign = sign),
    class = "det")
}

# ---- Cholesky ------------------------------------------------------------------------------------------------

#' @rdname solve
#' @export
chol.gpu_array <- function(x, pivot = FALSE, ...) {
  n <- order_of(x)
  if (!isFALSE(pivot) && !is.null(n) && !is.complex(x))
    return(hosted_by(chol.default, list(x, pivot = pivot, ...)))
  if (is.null(n) || is.complex(x)) return(by_base(chol.default, list(x, pivot = pivot, ...)))
  f <- small_factors("chol", x, n, n)
  f <- if (is.null(f) || !is.null(f$status)) .Call(C_cholesky, x, n) else list(factor = f$x, info = 0)
  if (f$info > 0 && is_narrow(x)) f <- .Call(C_cholesky, widened(x), n)
  if (f$info > 0) {
    # The message differs between versions of R.
    said <- tryCatch(chol.default(base::matrix(-1)), error = conditionMessage)
    stop_as_base(sub("1", format(f$info), said, fixed = TRUE))
  }
  out <- match_precision(f$factor, x)
  dim(out) <- dim(x)
  with_dimnames(out, dimnames(x) %||% list(NULL))
}

#' @rdname solve
#' @export
chol2inv <- interposed("chol2inv", "x", inverse_of_factor(x, size), class = ON_DEVICE)

inverse_of_factor <- function(x, size) {
  x <- dense_numbers(x)
  d <- dim(x)
  usable <- gpu_device(x) != "cpu" && length(d) == 2L && !is.complex(x) && is.numeric(size) && length(size) == 1L &&
    isTRUE(size >= 1 & size <= min(d))
  size <- if (usable) trunc(as.double(size)) else size
  if (usable) {
    r <- if (all(d == size)) x else x[seq_len(size), seq_len(size), drop = FALSE]
    usable <- isTRUE(all(diagonal_of(r, size) != 0))
  }
  if (!usable) return(by_base(base::chol2inv, list(x, size)))
  half <- .Call(C_triangular_solve, strip(r), identity_on(size, x), c(size, size), TRUE, FALSE)
  dim(half) <- c(size, size)
  match_precision(tcross_product(half), x)
}

# ---- triangles -------------------------------------------------------------------------------------------------

#' @rdname solve
#' @export
backsolve <- interposed("backsolve", c("r", "x"), solve_triangle(r, x, if (!missing(k)) list(k = k), upper.tri,
  transpose, base::backsolve), class = ON_DEVICE)
#' @rdname solve
#' @export
forwardsolve <- interposed("forwardsolve", c("l", "x"), solve_triangle(l, x, if (!missing(k)) list(k = k), upper.tri,
  transpose, base::forwardsolve), class = ON_DEVICE)

solve_triangle <- function(r, x, given, upper.tri, transpose, f) {
  r <- dense_numbers(r)
  x <- dense_numbers(x)
  device <- gpu_device(if (is_gpu(r)) r else x)
  flag <- function(v) isTRUE(v) || isFALSE(v)
  d <- dim(r)
  k <- if (is.null(given)) d[2L] else given$k
  usable <- device != "cpu" && takes_product(r) && takes_product(x) && !is.complex(r) && !is.complex(x) &&
    length(d) == 2L && length(dim(x)) %in% c(0L, 2L) &&
    flag(upper.tri) && flag(transpose) && is.numeric(k) && length(k) == 1L && isTRUE(k >= 1 & k <= min(d, NROW(x))) &&
      NCOL(x) > 0L
  if (usable) {
    k <- trunc(as.double(k))
    a <- strip_names(as_operand_like(r, x, device))
    if (any(d != k)) a <- a[seq_len(k), seq_len(k), drop = FALSE]
    usable <- isTRUE(all(diagonal_of(a, k) != 0))
  }
  if (!usable) return(by_base(f, c(list(r, x), given, list(upper.tri = upper.tri, transpose = transpose))))
  columns <- as.double(NCOL(x))
  b <- as_operand_like(x, r, device)
  if (NROW(x) != k) b <- if (is.null(dim(b))) strip(b)[seq_len(k)] else strip_names(b)[seq_len(k), , drop = FALSE]
  out <- match_precision(.Call(C_triangular_solve, a, strip(b), c(k, columns), upper.tri, transpose),
    as_operand_like(r, x, device))
  if (is.null(dim(x))) return(out)
  dim(out) <- c(k, columns)
  out
}

# ---- numbers of a matrix -----------------------------------------------------------------------------------------

#' @rdname solve
#' @export
norm <- interposed("norm", "x", norm_of(x, type), class = ON_DEVICE)

norm_of <- function(x, type) {
  if (is_sparse(x)) return(norm_of_sparse(x, type))
  on_base <- function() call_base(base::norm, list(cpu_copy(x), type))
  letter <- if (is.character(type)) substr(type[1L], 1L, 1L) else ""
  if (length(dim(x)) != 2L || is.complex(x) || length(x) == 0L || prefers_host(x) || !letter %in% c("1", "O", "o", "I",
    "i", "F", "f", "E", "e", "M", "m", "2")) return(on_base())
  if (letter == "2") {
    if (!identical(type, "2")) return(on_base())
    return(if (anyNA(x)) NA_real_ else as.vector(singular_values(x)[1L]))
  }
  y <- as_doubles(strip_names(x))
  switch(tolower(letter),
    "1" = , o = one_norm(y),
    i = max(as.vector(rowSums(abs(y)))),
    m = max(abs(y)) + 0,
    {
      plain <- sqrt(sum(y^2)) + 0
      largest <- if (is.na(plain) || plain > 1e-140 && plain < 1e150) 1 else max(abs(y)) + 0
      # Scale as LAPACK does if squares overflow or underflow.
      if (largest == 1 || largest == 0 || is.infinite(largest)) plain else largest * sqrt(sum((y / largest)^2))
    }
  )
}

#' @rdname solve
#' @usage NULL
#' @export
rcond <- if (is.null(formals(base::rcond)$uplo)) {
  interposed("rcond", "x", reciprocal_condition(x, match.arg(norm), triangular, ...), class = ON_DEVICE)
} else {
  # From R 4.4 on `uplo` selects the triangle; the lower one is left to base R.
  interposed("rcond", "x", reciprocal_condition(x, match.arg(norm), triangular, if (!identical(uplo, "U"))
    list(uplo = uplo), ...), class = ON_DEVICE)
}

reciprocal_condition <- function(x, norm, triangular = FALSE, more = NULL, ...) {
  if (is_sparse(x)) x <- gpu_dense(x)
  d <- dim(x)
  if (length(d) == 2L && d[1L] != d[2L] && length(x) && !is.complex(x) && gpu_device(x) != "cpu" && is.null(more) &&
    !...length()) {
    return(reciprocal_condition(qr.R(qr.gpu_array(if (d[1L] < d[2L]) t(x) else x)), norm, FALSE))
  }
  n <- order_of(x)
  if (is.null(n) || is.complex(x) || !is.null(more) || ...length() || !(isTRUE(triangular) || isFALSE(triangular))) {
    return(call_base(base::rcond, c(list(cpu_copy(x), norm = norm, triangular = triangular, ...), more)))
  }
  infinity <- norm == "I"
  x <- strip_names(x)
  if (triangular) {
    r <- .Call(C_upper_triangle, if (is.double(x)) x else as_doubles(x), c(n, n))
    dim(r) <- c(n, n)
    if (any(diagonal_of(r, n) == 0)) return(0)
    solve <- function(b, transpose) {
      collect(.Call(C_triangular_solve, r, as_gpu(b, dtype = gpu_dtype(r), device = gpu_device(r)), c(n, 1), TRUE,
        transpose != infinity))
    }
    inverse <- inverse_norm(solve, n)
  } else {
    r <- x
    f <- lu_of(x, n)
    if (f$info > 0) return(0)
    inverse <- lu_inverse_norm(f, infinity)
  }
  anorm <- if (infinity) max(as.vector(rowSums(abs(r)))) else one_norm(r)
  1 / anorm / inverse
}

#' @rdname solve
#' @export
kappa.gpu_array <- function(z, exact = FALSE, norm = NULL, ...) {
  usable <- length(dim(z)) == 2L && length(z) > 0L && !is.complex(z) && gpu_device(z) != "cpu" && !...length() &&
    is.null(norm)
  if (!usable) return(call_base(kappa.default, list(cpu_copy(z), exact = exact, norm = norm, ...)))
  if (isTRUE(exact)) {
    d <- collect(singular_values(z))
    return(max(d) / min(d[d > 0]))
  }
  # Base R only uses the triangle, which is small.
  d <- dim(z)
  decomposition <- qr.gpu_array(if (d[1L] < d[2L]) t(z) else z)
  decomposition$qr <- collect(qr.R(decomposition))
  call_base(kappa.qr, list(structure(unclass(decomposition), class = "qr"), exact = FALSE))
}

#' @export
isSymmetric.gpu_array <- function(object, ...) {
  n <- order_of(object)
  if (is.null(n) || is.complex(object) || ...length() || !is.null(dimnames(object)))
    return(isSymmetric(cpu_copy(object), ...))
  is_symmetric(object)
}

# The test of isSymmetric.matrix(): a matrix that is not exactly symmetric is judged by mean differences, as in
# all.equal().
is_symmetric <- function(x) {
  x <- strip_names(x)
  if (isTRUE(all(x == t(x)))) return(TRUE)
  y <- as_doubles(x)
  n <- nrow(y)
  tol <- 100 * .Machine$double.eps
  alike <- function(a, b, tol) isTRUE(all.equal(collect(strip(a)), collect(strip(b)), tolerance = tol))
  for (i in unique(c(1, 2, n - 1, n))) if (n > 1 && !alike(y[i, ], y[, i], 8 * tol)) return(FALSE)
  other <- t(y)
  if (anyNA(y)) return(alike(y, other, tol))
  differ <- y != other
  difference <- sum(ifelse(differ, abs(y - other), 0)) + 0
  size <- sum(ifelse(differ, abs(y), 0)) + 0
  isTRUE((if (is.finite(size) && size > tol * sum(differ)) difference / size else difference / sum(differ)) <= tol)
}
