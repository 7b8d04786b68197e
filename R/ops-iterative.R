# Iterative solvers of linear systems with a linear operator (R/ops-operator.R): conjugate gradients, GMRES and LSQR.
#
# The scalars of each right side stay on the device. Right sides that have converged are frozen by steps of 0, so the
# result does not depend on how often the host checks for convergence.

#' Iterative solvers for linear systems
#'
#' Solve `A x = b` without a factorisation, using only products of `A` with vectors: `gpu_cg()` for symmetric positive
#' definite matrices, `gpu_gmres()` for other square matrices, and `gpu_lsqr()` for least squares with matrices of any
#' dimensions. `A` may be sparse, or a function.
#'
#' @section Algorithms:
#' - `gpu_cg()`: conjugate gradients (Hestenes and Stiefel 1952), preconditioned as in Saad (2003), algorithm 9.1. All
#'   right-hand sides are iterated together, with one product of `A` and a matrix; each has its own step lengths, and
#'   does not change after it has converged. An iteration takes one product, one application of the preconditioner, and
#'   about twelve reads or writes of a matrix of the size of `b`. The iteration of a right-hand side ends if `A` or the
#'   preconditioner proves not to be positive definite.
#' - `gpu_gmres()`: the generalised minimal residual method (Saad and Schultz 1986), preconditioned from the right, so
#'   that the residual is that of the original system. Vectors are orthogonalised by classical Gram-Schmidt, twice
#'   (Giraud et al. 2005). After `restart` iterations the method restarts from the current solution. Right-hand sides
#'   are solved one after the other. Iteration j of a cycle takes one product, one application of the preconditioner,
#'   and reads 4 j vectors.
#' - `gpu_lsqr()`: LSQR (Paige and Saunders 1982), which minimises `|A x - b|^2 + damp^2 |x - x0|^2`. If there are
#'   several solutions, it finds the one nearest to `x0`. All right-hand sides are iterated together. An iteration takes
#'   one product with `A` and one with `t(A)`.
#'
#' Let r be `b - A x`. `gpu_cg()` and `gpu_gmres()` stop when |r| is at most `tol` |b|. `gpu_cg()` then compares the
#' residual of its recurrence with r; if r is larger, it restarts from `x`, as long as this reduces |r| at least by a
#' factor of 4. `gpu_lsqr()` stops when |r| is at most `tol (|b| + |A| |x|)` or `|t(A) r|` is at most `tol |A| |r|`
#' (with `damp`, of the matrix of `A` above `damp` times the identity), with the Frobenius norm of `A` as estimated by
#' the iteration. It has converged if one of the two holds within a factor of 10 for the returned `x`.
#' @section Matrices and functions:
#' `A` may be
#' - an array, or an ordinary matrix, which is copied once to the device of `b`, or to the current device;
#' - a sparse matrix on a device;
#' - a matrix of the Matrix package, or of another class with methods for `%*%` and `crossprod()`. Its products are
#'   computed on the host, by its package; all other operations are computed on the cpu device;
#' - a function, which is called with a matrix (an array with a column for each right-hand side) and returns the
#'   products as a matrix with as many columns, either an array or an ordinary matrix. For one column (`gpu_gmres()` and
#'   the Lanczos methods of [gpu_svds()] use only one) it may return the numbers in any shape.
#'
#' Float16, bfloat16 and float32 matrices are multiplied in float32, all others in float64, and vectors have the same
#' type. If `A` is a function, the type of `b` determines the type. Scalar products are accumulated in float64.
#' @section Waiting:
#' On a GPU, R runs ahead of the device: the scalars of an iteration stay there. Every 4 iterations `gpu_cg()` and
#' `gpu_lsqr()` check which right-hand sides had converged 4 iterations before; `gpu_gmres()` checks every 10
#' iterations. `x` does not depend on these intervals. An interrupt ends the call between two operations.
#' @param A A square matrix (for `gpu_lsqr()` any matrix), or a function that multiplies by it, see section "Matrices
#'   and functions".
#' @param b Right-hand sides: a vector, or a matrix with a column for each, as an array or an ordinary matrix.
#' @param x0 The initial solution, in the shape of the result; 0 by default.
#' @param preconditioner NULL, `"diagonal"` for division by the diagonal of `A` (Jacobi), or a function that is called
#'   like a function `A`, with a matrix of residuals, and returns an approximate solution for each. It must be linear
#'   and the same in each call, and for `gpu_cg()` symmetric positive definite.
#' @param tol The relative tolerance, see section "Algorithms"; by default 1e-8, for float32 1e-5.
#' @param max_iter The largest number of iterations; by default 10 times the number of columns of `A`, at most 10000.
#' @param restart The number of iterations, and of vectors kept, in a cycle of `gpu_gmres()`.
#' @param damp A number, 0 or more.
#' @param dim For a function `A` of `gpu_lsqr()`: the numbers of rows and columns of its matrix.
#' @param transpose For a function `A` of `gpu_lsqr()`: a function that multiplies by the transposed matrix.
#' @returns A list of class `gpu_solution`: `x`, an array with the shape of `b` (vector or matrix), on the device of
#'   `b`, or, if `b` is not an array, on the device of the computation; and for each right-hand side `iterations`,
#'   `residual` (|b - A x| / |b| for the returned `x`) and `converged`. `gpu_lsqr()` adds `gradient`, the second
#'   quotient, which must fall below `tol`. `method` and `tol` are the method and tolerance used; `problem` explains why
#'   right-hand sides did not converge, otherwise it is "". The column names of `A` become the names of `x`. [collect()]
#'   converts arrays in the list to ordinary ones.
#' @section Memory:
#' In addition to `A` and `b`, matrices of the size of `b` or `x`: for `gpu_cg()` 5, for `gpu_lsqr()` 6; for
#' `gpu_gmres()` `restart + 4` columns. Matrices of earlier iterations occupy memory until R collects garbage, which
#' happens at the latest when the device runs out of memory.
#' @section Errors:
#' `verdigris_error_argument` for an invalid argument, for right-hand sides or products that are not finite, and for a
#' diagonal with zeros; `verdigris_error_shape` if extents do not conform, or a function returns a wrong shape; the
#' errors of [matmult]. If a right-hand side has not converged, a warning of class `verdigris_warning_convergence`.
#' @references
#' Giraud, L., Langou, J., Rozloznik, M. and van den Eshof, J. (2005) Rounding error analysis of the classical
#' Gram-Schmidt orthogonalization process. *Numerische Mathematik* 101, 87-100.
#'
#' Hestenes, M. R. and Stiefel, E. (1952) Methods of conjugate gradients for solving linear systems. *Journal of
#' Research of the National Bureau of Standards* 49, 409-436.
#'
#' Paige, C. C. and Saunders, M. A. (1982) LSQR: an algorithm for sparse linear equations and sparse least squares. *ACM
#' Transactions on Mathematical Software* 8, 43-71.
#'
#' Saad, Y. (2003) *Iterative methods for sparse linear systems*, 2nd edition. SIAM.
#'
#' Saad, Y. and Schultz, M. H. (1986) GMRES: a generalized minimal residual algorithm for solving nonsymmetric linear
#' systems. *SIAM Journal on Scientific and Statistical Computing* 7, 856-869.
#' @seealso [solve()][solve] for dense matrices of moderate size; [gpu_svds()].
#' @examples
#' # -u'' = 1 on a grid, with u = 0 at both ends, by a function
#' n <- 50
#' laplacian <- function(x) 2 * x - rbind(x[-1, , drop = FALSE], 0) - rbind(0, x[-n, , drop = FALSE])
#' b <- gpu_full(1, n, device = "cpu")
#' fit <- gpu_cg(laplacian, b)
#' fit
#' range(laplacian(matrix(collect(fit$x))))
#'
#' a <- as_gpu(matrix(c(4, 1, 2, 3, 5, 1, 2, 0, 6), 3), device = "cpu")
#' gpu_gmres(a, c(1, 2, 3), preconditioner = "diagonal")$x
#' gpu_lsqr(a[, 1:2], c(1, 2, 3))$x
#' @name gpu_cg
NULL

#' @rdname gpu_cg
#' @export
gpu_cg <- function(A, b, x0 = NULL, preconditioner = NULL, tol = NULL, max_iter = NULL) {
  frame <- environment()
  problem <- linear_problem(A, b, x0, tol, max_iter, frame)
  precondition <- preconditioner_of(preconditioner, problem$op, frame)
  problem$op$preconditioned <- is.function(preconditioner)
  restarted(problem, function(x, limits, most) cg_pass(problem, x, precondition, limits, most), "conjugate gradients",
    frame)
}

#' @rdname gpu_cg
#' @export
gpu_gmres <- function(A, b, x0 = NULL, restart = 30, preconditioner = NULL, tol = NULL, max_iter = NULL) {
  frame <- environment()
  problem <- linear_problem(A, b, x0, tol, max_iter, frame)
  if (!is_count(restart, 1)) abort_argument("restart", "one number, 1 or more", restart)
  precondition <- preconditioner_of(preconditioner, problem$op, frame)
  problem$op$preconditioned <- is.function(preconditioner)
  columns <- lapply(seq_len(problem$columns), function(j) gmres_column(problem, j, precondition, trunc(restart)))
  x <- if (length(columns)) join(lapply(columns, function(column) strip(column$x))) else problem$b
  each <- function(name, kind) vapply(columns, `[[`, kind, name)
  solution_of(problem, x, each("iterations", 0), each("residual", 0), each("converged", NA), "GMRES",
    c(each("problem", ""), "")[1L], frame)
}

#' @rdname gpu_cg
#' @export
gpu_lsqr <- function(A, b, x0 = NULL, damp = 0, tol = NULL, max_iter = NULL, dim = NULL, transpose = NULL) {
  frame <- environment()
  if (!is_size(damp)) abort_argument("damp", "one number, 0 or more", damp)
  problem <- linear_problem(A, b, x0, tol, max_iter, frame, dim, transpose, square = FALSE)
  found <- lsqr_pass(problem, as.double(damp))
  solution_of(problem, found$x, found$iterations, found$residual, found$converged, "LSQR", found$problem, frame,
    list(gradient = found$gradient))
}

#' @export
collect.gpu_solution <- collect.list

#' @export
print.gpu_solution <- function(x, ...) {
  n <- length(x$iterations)
  cat(sprintf("%s: %s\n", x$method, if (all(x$converged)) "converged" else sprintf(
    "%s of %s right sides did not converge", format_count(sum(!x$converged)), format_count(n))))
  several <- function(v, format) if (length(unique(v)) < 2L) format(v[1L]) else paste(format(min(v)), "to",
    format(max(v)))
  short <- function(v) sprintf("%.3g", v)
  if (n) cat(sprintf("%s iterations, relative residual %s (tol = %s)\n", several(x$iterations, format_count),
    several(x$residual, short), short(x$tol)))
  if (nzchar(x$problem)) cat(x$problem, "\n", sep = "")
  cat("x: ")
  print(x$x)
  invisible(x)
}

# ---- problems and solutions --------------------------------------------------------------------------------------

# The input of all solvers: the operator, right sides and start as matrices on its device, and the norms of the right
# sides. Raises the errors of their arguments.
linear_problem <- function(A, b, x0, tol, max_iter, frame, dim = NULL, transpose = NULL, square = TRUE) {
  if (!takes_product(b) || is.complex(b) || !length(base::dim(b)) %in% c(0L, 2L)) abort_argument("b",
    "a vector or matrix of real numbers", b, frame)
  if (is.function(A) && is.null(dim) && square) dim <- rep(NROW(b), 2L)
  op <- operator_of(A, if (is_gpu(b)) b, dim, transpose, frame)
  if (square && op$dim[1L] != op$dim[2L]) stop_verdigris("shape", sprintf("`A` must be square, not %s.",
    paste(op$dim, collapse = " x ")), "`gpu_lsqr()` takes other matrices.", call = frame)
  if (NROW(b) != op$dim[1L]) stop_verdigris("shape", sprintf("`b` must have as many rows as `A` (%s), not %s.",
    format_count(op$dim[1L]), format_count(NROW(b))), call = frame)
  tol <- tol %||% if (op$dtype == "float32") 1e-5 else 1e-8
  if (!is_size(tol)) abort_argument("tol", "one number, 0 or more", tol, frame)
  max_iter <- max_iter %||% base::pmin(10 * op$dim[2L], 1e4)
  if (!is_count(max_iter)) abort_argument("max_iter", "one number, 0 or more", max_iter, frame)
  problem <- list(op = op, columns = as.double(NCOL(b)), vector = is.null(base::dim(b)), frame = frame,
    home = if (is_gpu(b)) gpu_device(b), tol = as.double(tol), most = trunc(max_iter),
    names = list(op$names[[2L]], colnames(b)))
  problem$b <- on_operator(b, "b", c(op$dim[1L], problem$columns), op, frame)
  # Right sides whose squares would overflow or underflow are divided by a power of two.
  largest <- if (length(problem$b)) max(abs(problem$b)) else 0
  if (!is.finite(largest)) stop_verdigris("argument", "`b` has missing or infinite elements.", call = frame)
  problem$unit <- if (largest > 0 && abs(log2(largest)) > 300) 2^round(log2(largest)) else 1
  if (problem$unit != 1) problem$b <- gpu_compute(problem$b / problem$unit)
  problem$size <- sqrt(as.double(host_numbers(column_products(op, problem$b))))
  if (!is.null(x0)) {
    extent <- c(op$dim[2L], problem$columns)
    shaped <- takes_product(x0) && !is.complex(x0) && length(base::dim(x0)) %in% c(0L, 2L)
    if (!shaped) abort_argument("x0", "NULL, or a vector or matrix of real numbers", x0, frame)
    if (!identical(c(as.double(NROW(x0)), as.double(NCOL(x0))), extent)) stop_verdigris("shape",
      sprintf("`x0` must be %s, not %s.", paste(extent, collapse = " x "), paste(NROW(x0), "x", NCOL(x0))),
      call = frame)
    problem$x <- on_operator(x0, "x0", extent, op, frame)
    if (length(problem$x) && !isTRUE(all(is.finite(problem$x)))) stop_verdigris("argument",
      "`x0` has missing or infinite elements.", call = frame)
    if (problem$unit != 1) problem$x <- gpu_compute(problem$x / problem$unit)
  }
  problem
}

on_operator <- function(x, name, extent, op, frame) {
  if (is_gpu(x) && gpu_device(x) != op$device && op$kind != "other") stop_verdigris("device",
    sprintf("`A` is on %s and `%s` on %s.", op$device, name, gpu_device(x)),
    "`as_gpu(x, device = )` copies an array to another device.", call = frame)
  y <- if (is_gpu(x) && gpu_device(x) == op$device) strip(x) else as_gpu(as.vector(x), device = op$device)
  y <- as_float(y, op$dtype)
  dim(y) <- extent
  gpu_compute(y)
}

zeros_of <- function(problem) {
  x <- gpu_zeros(c(problem$op$dim[2L], problem$columns), dtype = problem$op$dtype, device = problem$op$device)
  gpu_compute(x)
}

# b - A x. Without x, which stands for 0, there is no product.
residual_of <- function(problem, x = NULL) gpu_compute(if (is.null(x)) problem$b else problem$b - problem$op$forward(x))

solution_of <- function(problem, x, iterations, residual, converged, method, trouble, frame, more = NULL) {
  x <- strip(x)
  if (problem$unit != 1) x <- gpu_compute(x * problem$unit)
  if (!is.null(problem$home) && problem$home != gpu_device(x)) x <- as_gpu(x, device = problem$home)
  if (problem$vector) {
    if (!is.null(problem$names[[1L]])) names(x) <- problem$names[[1L]]
  } else {
    dim(x) <- c(problem$op$dim[2L], problem$columns)
    x <- with_dimnames(x, problem$names)
  }
  if (all(converged)) trouble <- ""
  out <- structure(c(list(x = x, iterations = as.integer(iterations), residual = as.double(residual),
    converged = as.vector(converged)), more, list(method = method, tol = problem$tol, problem = trouble)),
    class = "gpu_solution")
  if (!all(converged)) {
    message <- if (length(converged) == 1L) "The solution did not converge" else sprintf(
      "%s of %s right sides did not converge", format_count(sum(!converged)), format_count(length(converged)))
    warn_verdigris("convergence", sprintf("%s: the relative residual is %.3g after %s iterations.", message,
      max(residual[!converged]), format_count(max(iterations))), trouble, call = frame)
  }
  out
}

# ---- preconditioners ---------------------------------------------------------------------------------------------

# The preconditioner as a function of a matrix of residuals, or NULL.
preconditioner_of <- function(preconditioner, op, frame) {
  if (is.null(preconditioner)) return(NULL)
  if (is.function(preconditioner)) {
    return(function(r) columns_from(preconditioner(r), base::dim(r), op$device, op$dtype, "preconditioner", frame))
  }
  if (!identical(preconditioner, "diagonal")) abort_argument("preconditioner", "NULL, \"diagonal\" or a function",
    preconditioner, frame)
  if (op$kind == "function") stop_verdigris("argument",
    "`preconditioner = \"diagonal\"` needs a matrix, and `A` is a function.",
    "Divide by the diagonal yourself: `preconditioner = function(r) r / d`.", call = frame)
  d <- as.double(host_numbers(generic_for(op$source, "diag")(op$source)))
  wrong <- base::which(!is.finite(d) | d == 0)
  if (length(wrong)) stop_verdigris("argument", sprintf("The diagonal of `A` has %s at row %s.",
    if (is.finite(d[wrong[1L]])) "a zero" else "a missing or infinite element", format_count(wrong[1L])),
    "Use a function as the preconditioner, or none.", call = frame)
  inverse <- as_float(as_gpu(1 / d, device = op$device), op$dtype)
  function(r) r * along_rows(inverse, ncol(r))
}

# ---- conjugate gradients -----------------------------------------------------------------------------------------

# Runs passes of a method whose recurrence loses accuracy of the residual. Each pass starts from the last x, until the
# true residual is small, or a pass reduces it by less than a factor of 4. `pass` returns `x`, `counts` (iterations of
# each right side) and `broken`.
restarted <- function(problem, pass, method, frame) {
  size <- problem$size
  x <- problem$x
  # Where b is 0 the solution is 0, since no residual above 0 is within a relative tolerance.
  if (!is.null(x) && any(size == 0)) x <- gpu_compute(x * broadcast_columns(problem$op, (size > 0) + 0, nrow(x)))
  limits <- (problem$tol * size)^2
  counts <- numeric(problem$columns)
  squares <- size^2
  broken <- logical(problem$columns)
  repeat {
    if (!is.null(x)) squares <- squares_of_residual(problem, residual_of(problem, x))
    open <- squares > limits & !broken & size > 0
    left <- problem$most - max(counts, 0)
    stuck <- !is.null(x) && any(counts > 0) && !any(squares[open] <= before[open] / 16)
    if (!any(open) || left < 1 || stuck) break
    before <- squares
    found <- pass(x, base::ifelse(open, limits, Inf), left)
    x <- found$x
    counts <- counts + found$counts
    broken <- broken | found$broken
  }
  converged <- squares <= limits
  trouble <- if (any(broken & !converged)) {
    "`A`, or the preconditioner, is not positive definite: `gpu_gmres()` takes other matrices."
  } else if (left < 1) {
    at_most(problem)
  } else {
    limited(problem$op)
  }
  solution_of(problem, x %||% zeros_of(problem), counts, relative_to(sqrt(squares), size), converged, method, trouble,
    frame)
}

at_most <- function(problem) sprintf("`max_iter` is %s.", format_count(problem$most))
limited <- function(op) sprintf("Rounding in %s limits the residual: a larger `tol`, or a preconditioner, may help.",
  op$dtype)

relative_to <- function(a, size) base::ifelse(size > 0, a / size, a)

squares_of_residual <- function(problem, r) {
  squares <- host_numbers(column_products(problem$op, r))
  if (!all(is.finite(squares))) not_finite(problem$op, problem$frame)
  squares
}

cg_pass <- function(problem, x, precondition, limits, most) {
  op <- problem$op
  n <- op$dim[1L]
  r <- residual_of(problem, x)
  x <- x %||% zeros_of(problem)
  rr <- column_products(op, r)
  if (is_gpu(rr)) limits <- as_gpu(limits, device = op$device)
  active <- rr > limits
  p <- if (is.null(precondition)) r else precondition(r)
  rz <- if (is.null(precondition)) rr else column_products(op, r, p)
  counts <- 0 * rr
  broken <- active & FALSE
  keep_iterating <- convergence_check(op)
  for (k in seq_len(most)) {
    state <- keep_iterating(active)
    if (is.na(state)) not_finite(problem$op, problem$frame)
    if (!state) break
    q <- op$forward(p)
    pq <- column_products(op, p, q)
    definite <- pq > 0 & rz > 0
    broken <- broken | active & !definite
    active <- active & definite
    counts <- counts + active
    step <- broadcast_columns(op, only_where(active, rz / pq), n)
    x <- x + p * step
    r <- r - q * step
    gpu_compute(x, r)
    rr <- column_products(op, r)
    z <- if (is.null(precondition)) r else precondition(r)
    before <- rz
    rz <- if (is.null(precondition)) rr else column_products(op, r, z)
    turn <- ratio(rz, before)
    active <- active & rr > limits
    # One kernel computes all four.
    if (is_gpu(active)) gpu_compute(turn, active, counts, broken)
    p <- gpu_compute(z + p * broadcast_columns(op, turn, n))
  }
  list(x = x, counts = host_numbers(counts), broken = host_numbers(broken))
}

# ---- GMRES -------------------------------------------------------------------------------------------------------

# Iterations of a cycle between two checks of convergence on a GPU.
GMRES_LOOKS <- 10L

gmres_column <- function(problem, j, precondition, restart) {
  size <- problem$size[j]
  one <- problem
  one$columns <- 1
  column <- function(m) gpu_compute(column_at(m, j))
  one$b <- column(problem$b)
  x <- if (!is.null(problem$x) && size > 0) column(problem$x)
  restart <- min(restart, max(problem$op$dim[1L], 1))
  used <- 0
  trouble <- ""
  before <- Inf
  repeat {
    r <- residual_of(one, x)
    norm <- sqrt(squares_of_residual(one, r))
    if (norm <= problem$tol * size) break
    if (used >= problem$most) trouble <- at_most(problem)
    if (norm >= before * (1 - 1e-12)) trouble <- if (restart < problem$op$dim[1L]) sprintf(
      "A cycle of %s iterations has not made the residual smaller: a larger `restart`, or a preconditioner, may help.",
      format_count(restart)) else limited(problem$op)
    if (nzchar(trouble)) break
    before <- norm
    cycle <- gmres_cycle(problem, r, norm, precondition, min(restart, problem$most - used), problem$tol * size)
    used <- used + cycle$iterations
    x <- gpu_compute(if (is.null(x)) cycle$step else x + cycle$step)
  }
  list(x = x %||% zeros_of(one), iterations = used, residual = relative_to(norm, size), problem = trouble,
    converged = norm <= problem$tol * size)
}

# One cycle of at most m iterations from the residual r of this norm. Returns the correction of x and the number of
# iterations.
gmres_cycle <- function(problem, r, norm, precondition, m, target) {
  op <- problem$op
  numbers <- new_scalars(op, numbers_for(m))
  basis <- new_basis(op, op$dim[1L], m + 1, numbers)
  basis$put(1L, gpu_compute(r / norm))
  through <- if (is.null(precondition)) op$forward else function(v) op$forward(precondition(v))
  looks <- if (reads_at_once(op)) 1L else GMRES_LOOKS
  squares <- least_residual(m, norm, target)
  columns <- list()
  for (j in seq_len(m)) {
    columns[[j]] <- basis$extend(j, basis$with(j, through))
    if (j %% looks && j < m) next
    read <- numbers$read()
    if (!all(is.finite(read))) not_finite(problem$op, problem$frame)
    for (column in columns[seq.int(squares$count() + 1L, j)])
      if (!squares$is_done()) squares$add(read[column$at + seq_len(column$products + 1)])
    if (squares$is_done()) break
  }
  y <- squares$solution()
  k <- length(y)
  step <- basis$product(k, as_gpu(base::matrix(y), device = op$device))
  list(step = if (is.null(precondition)) step else precondition(step), iterations = k)
}

# The least squares problem of a Hessenberg matrix that grows by a column, solved by Givens rotations on the host.
# is_done(): the residual has reached `target`, or the Krylov space cannot grow.
least_residual <- function(m, norm, target) {
  r <- base::matrix(0, m, m)
  g <- c(norm, numeric(m))
  cosines <- sines <- numeric(m)
  count <- 0L
  done <- FALSE
  list(
    count = function() count,
    is_done = function() done,
    add = function(h) {
      j <- count + 1L
      ended <- h[j + 1L] <= 2^-50 * sqrt(sum(h[seq_len(j)]^2))
      for (i in seq_len(count)) {
        above <- cosines[i] * h[i] + sines[i] * h[i + 1L]
        h[i + 1L] <- cosines[i] * h[i + 1L] - sines[i] * h[i]
        h[i] <- above
      }
      size <- sqrt(h[j]^2 + h[j + 1L]^2)
      if (size > 0) {
        cosines[j] <<- h[j] / size
        sines[j] <<- h[j + 1L] / size
        h[j] <- size
      }
      # A column of zeros leaves the residual unchanged.
      g[j + 1L] <<- if (size > 0) -sines[j] * g[j] else g[j]
      g[j] <<- cosines[j] * g[j]
      r[seq_len(j), j] <<- h[seq_len(j)]
      count <<- j
      done <<- abs(g[j + 1L]) <= target || ended
    },
    solution = function() {
      at <- seq_len(count)
      # For a singular matrix, coefficients that have no effect are 0.
      y <- base::qr.coef(base::qr.default(r[at, at, drop = FALSE], tol = 1e-14), g[at])
      base::ifelse(is.na(y), 0, y)
    }
  )
}

# ---- LSQR --------------------------------------------------------------------------------------------------------

lsqr_pass <- function(problem, damp) {
  op <- problem$op
  n <- op$dim[1L]
  p <- op$dim[2L]
  tol <- max(problem$tol, 2^-52)
  known <- problem$size
  on_side <- function(v) if (reads_at_once(op)) v else as_gpu(v, device = op$device)
  size <- on_side(known)
  x <- problem$x %||% zeros_of(problem)
  dx <- zeros_of(problem)
  u <- residual_of(problem, problem$x)
  # u and v are not normalised: their lengths are beta and alpha, so that one pass over memory computes each. w has
  # length 1.
  norm <- function(v) root(column_products(op, v))
  beta <- norm(u)
  v <- gpu_compute(op$backward(u) * broadcast_columns(op, ratio(1, beta), p))
  alpha <- norm(v)
  w <- gpu_compute(v * broadcast_columns(op, ratio(1, alpha), p))
  phibar <- beta
  rhobar <- alpha
  anorm <- 0 * alpha
  damped <- 0 * alpha
  counts <- 0 * alpha
  active <- beta > tol * size & alpha > 0
  by_alpha <- ratio(1, alpha)
  alpha_beta <- ratio(alpha, beta)
  keep_iterating <- convergence_check(op)
  # Scalars that are available at the same time are computed by one kernel.
  compute_scalars <- function(...) if (is_gpu(..1)) gpu_compute(...)
  for (k in seq_len(problem$most)) {
    state <- keep_iterating(active)
    if (is.na(state)) not_finite(problem$op, problem$frame)
    if (!state) break
    counts <- counts + active
    # The next vectors of the bidiagonalisation.
    u <- gpu_compute(op$forward(v) * broadcast_columns(op, by_alpha, n) - u * broadcast_columns(op, alpha_beta, n))
    anorm <- anorm + alpha * alpha
    beta <- norm(u)
    by_beta <- ratio(1, beta)
    beta_alpha <- ratio(beta, alpha)
    compute_scalars(by_beta, beta_alpha, anorm)
    v <- gpu_compute(op$backward(u) * broadcast_columns(op, by_beta, p) - v * broadcast_columns(op, beta_alpha, p))
    alpha <- norm(v)
    by_alpha <- ratio(1, alpha)
    alpha_beta <- ratio(alpha, beta)
    anorm <- anorm + beta * beta + damp^2
    # Rotations that eliminate the damping and the element below the diagonal.
    first <- root(rhobar * rhobar + damp^2)
    psi <- ratio(damp, first) * phibar
    damped <- damped + psi * psi
    phibar <- ratio(rhobar, first) * phibar
    rho <- root(first * first + beta * beta)
    cs <- ratio(first, rho)
    sn <- ratio(beta, rho)
    phi <- cs * phibar
    phibar <- sn * phibar
    rhobar <- -cs * alpha
    step <- only_where(active, ratio(phi, rho))
    turn <- ratio(sn * alpha, rho)
    rnorm <- root(phibar * phibar + damped)
    arnorm <- alpha * abs(sn * phi)
    compute_scalars(step, turn, by_alpha, alpha_beta, anorm, damped, phibar, rhobar, rnorm, arnorm, counts)
    dx <- dx + w * broadcast_columns(op, step, p)
    w <- v * broadcast_columns(op, by_alpha, p) - w * broadcast_columns(op, turn, p)
    gpu_compute(dx, w)
    xnorm <- norm(dx)
    length <- root(anorm)
    active <- active & rnorm > tol * (size + length * xnorm) & arnorm > tol * length * rnorm
    compute_scalars(active)
  }
  lsqr_solution(problem, x, dx, sqrt(host_numbers(anorm)), host_numbers(counts), damp, tol)
}

# The solution x + dx, with its true residual and gradient.
lsqr_solution <- function(problem, x, dx, anorm, counts, damp, tol) {
  op <- problem$op
  known <- problem$size
  x <- gpu_compute(x + dx)
  r <- residual_of(problem, x)
  norms <- function(v) sqrt(host_numbers(column_products(op, v)))
  gradient <- norms(op$backward(r) - damp^2 * dx)
  steps <- norms(dx)
  rnorm <- norms(r)
  if (!all(is.finite(c(rnorm, gradient, steps)))) not_finite(problem$op, problem$frame)
  whole <- sqrt(rnorm^2 + damp^2 * steps^2)
  gradient <- base::ifelse(gradient > 0, gradient / (anorm * whole), 0)
  # Without an iteration the norm of A is unknown.
  gradient[anorm == 0 & gradient > 0] <- Inf
  converged <- rnorm <= 10 * tol * (known + anorm * norms(x)) | gradient <= 10 * tol
  list(x = x, iterations = counts, residual = relative_to(rnorm, known), gradient = gradient, converged = converged,
    problem = if (max(counts, 0) >= problem$most) at_most(problem) else limited(op))
}
