# Some singular values and eigenvalues of a linear operator (R/ops-operator.R): subspace iteration from random vectors,
# and Lanczos methods with thick restarts.

#' Leading singular values and eigenvalues
#'
#' Computes the `k` largest singular values of a matrix and their vectors, or `k` eigenvalues of a square matrix, using
#' only products with vectors. The matrix may be sparse, or a function, and may be centred and scaled without being
#' changed.
#'
#' @section Algorithms:
#' - `"randomized"`: `k + 10` random vectors are multiplied alternately by the matrix and its transpose, and
#'   orthonormalised (subspace iteration; Halko, Martinsson and Tropp 2011, algorithms 4.4 and 5.1, on the side of the
#'   columns). `power = q` does this q times. By default it ends when none of the `k` values has changed by more than
#'   `tol` (1e-8) times the largest value, after at least 2 and at most `max_iter` (10) iterations. An iteration takes
#'   two products with `k + 10` vectors. Let s be the singular values, and m the smaller extent. The expected error, in
#'   the spectral norm, of the matrix projected on the vectors is at most
#'   `(1 + sqrt(k / 9) + exp(1) * sqrt(k + 10) / 10 * sqrt(m - k))^(1 / (2 * q)) * s[k + 1]` (their corollary 10.10);
#'   omitting the last 10 vectors adds at most `s[k + 1]`. Values are never too large, up to rounding. Values close to
#'   the next ones converge slowly.
#' - `"lanczos"`: Golub-Kahan-Lanczos bidiagonalisation with thick restarts (Baglama and Reichel 2005, section 2). The
#'   vectors of the shorter side are orthogonalised against all before them. The vectors of the longer side follow from
#'   the recurrence alone (Simon and Zha 2000), as long as the smallest singular value of the projected matrix is at
#'   least 1.5e-8 (for float32 3.5e-4) times its largest one. If it is smaller, the steps are repeated, and from then on
#'   both sides are orthogonalised. `max(2 k, k + 20)` vectors of each side are kept, at most the smaller extent. The
#'   method ends when the residuals of the `k` triples, `t(A) u - d v`, are estimated to be at most `tol` (1e-10, for
#'   float32 1e-5) times the largest value, or after `max_iter` (300) restarts. A restart takes about `max(k, 20) / 2`
#'   pairs of products with one vector.
#' - `gpu_eigs()`: for a symmetric matrix the Lanczos method with thick restarts (Wu and Simon 2000), with the settings
#'   of the method above, and residuals `A v - value v` relative to the largest eigenvalue in magnitude of the projected
#'   matrix. For other matrices the Arnoldi method, whose restarts keep the space of the eigenvectors that rank first by
#'   `which` (the Krylov-Schur method, Stewart 2001). Two products with random vectors decide whether `A` is symmetric.
#' - `gpu_eigs(sigma = s)`: the largest eigenvalues of the inverse of `A - s I`, which are `1 / (value - s)`. For an
#'   array the inverse is computed. A sparse matrix is factored by package Matrix on the host: by Cholesky if `A - s I`
#'   is positive definite, otherwise by LU; each product is then a solve there. A function with up to 1000 rows is
#'   called with the columns of the identity, and the resulting matrix is inverted. With more rows, and if factors take
#'   too much memory, each product solves a system by conjugate gradients, or by GMRES if the matrix is not positive
#'   definite, to a residual of 1e-12 (float32 1e-6). For a symmetric matrix the method then searches for further
#'   eigenvectors among the vectors orthogonal to those found, so that repeated eigenvalues occur with their
#'   multiplicity; the values returned are those of `A` in the space of the vectors. If `A - s I` is singular, or its
#'   inverse is larger than 1e9 (float32 1e3) over the size of `A`, a shift is used that is `2^-17` (float32 `2^-8`)
#'   times that size below `s`.
#'
#' `"lanczos"` reaches full precision, and reads the matrix for one vector at a time. `"randomized"` reads it few times,
#' for all vectors together, and its accuracy depends on how fast the singular values decrease.
#' @section Centering and scaling:
#' `center` and `scale` have the meaning of [base::scale()]: with `TRUE` column means are subtracted, and columns are
#' divided by their standard deviations (or root mean squares). The products are corrected instead of the matrix. If the
#' means of a dense matrix are so large relative to the deviations that this would lose digits, the matrix is centred
#' block by block, as by [prcomp()][principal]. `scale = TRUE` needs a matrix; for a function pass the numbers.
#' @section Signs:
#' As for [prcomp()][principal], on every device: the element of largest magnitude in each column of `v`, or of
#' `vectors`, is positive. (Of elements whose magnitudes differ by less than one part in a million the first one
#' counts.)
#' @param A A matrix (for `gpu_eigs()` a square one), or a function that multiplies by it: see [gpu_cg()], section
#'   "Matrices and functions".
#' @param k The number of values, from 1 to the smaller extent.
#' @param center,scale `TRUE`, `FALSE`, or a number for each column.
#' @param method `"randomized"` or `"lanczos"`, see section "Algorithms".
#' @param power NULL, or the number of iterations of the randomised method.
#' @param tol,max_iter See section "Algorithms"; NULL is the default given there.
#' @param seed A whole number. The random vectors depend only on it, and are the same on all devices; R's generator is
#'   not used.
#' @param dim,transpose For a function `A`: the numbers of rows and columns of its matrix (for `gpu_eigs()` one number
#'   is enough), and a function that multiplies by the transposed matrix.
#' @param which Which eigenvalues: of largest magnitude (`"LM"`), of largest (`"LR"`) or smallest (`"SR"`) real part, of
#'   largest (`"LI"`) or smallest (`"SI"`) magnitude of the imaginary part; for a symmetric matrix also `"LA"` and
#'   `"SA"`, which equal `"LR"` and `"SR"`, but not `"LI"` and `"SI"`. `"SM"`, of smallest magnitude, is `sigma = 0`.
#' @param sigma NULL, or a number: the eigenvalues nearest to it are computed, and `which` must be left out.
#' @returns `gpu_svds()`: a list of class `gpu_svds` with `d`, ordinary numbers in decreasing order; `u` and `v`, arrays
#'   of `k` orthonormal columns on the device of `A`; and `iterations` (of the randomised method, or restarts),
#'   `products` (the number of vectors multiplied by `A`, its transpose or the inverse), `residual` (the norms of
#'   `t(A) u - d v` divided by the largest `d`), `converged`, `method` and `tol`. `gpu_eigs()`: a list of class
#'   `gpu_eigs` with `values`, ordinary numbers in decreasing order of the quantity that `which` names, or of the
#'   distance from `sigma`; `vectors`, an array; and the same other elements. Both are complex if a value is, as in
#'   [base::eigen()]: of a conjugate pair the one with positive imaginary part comes first, and vectors have length 1
#'   and a real largest element. [collect()] converts arrays in the list to ordinary ones. The call waits for the device
#'   at each restart or iteration.
#' @section Memory:
#' In addition to `A`, in float64, or in float32 if `A` is narrower and not centred: three matrices of rows by `k + 10`
#' and two of columns by `k + 10`; for `"lanczos"`, one of rows and one of columns by `max(2 k, k + 20)`, and
#' temporarily by `k`.
#' @section Errors:
#' `verdigris_error_argument` for an invalid argument, a `which` that does not apply to the matrix, elements that are
#' not finite, or a constant column with `scale = TRUE`; `verdigris_error_shape` if a function returns a wrong shape;
#' the errors of [matmult]. A warning of class `verdigris_warning_convergence` if the Lanczos or Arnoldi method has not
#' converged; `verdigris_error_convergence` if the systems that `sigma` needs cannot be solved by iteration.
#' @references
#' Baglama, J. and Reichel, L. (2005) Augmented implicitly restarted Lanczos bidiagonalization methods. *SIAM Journal on
#' Scientific Computing* 27, 19-42.
#'
#' Halko, N., Martinsson, P.-G. and Tropp, J. A. (2011) Finding structure with randomness: probabilistic algorithms for
#' constructing approximate matrix decompositions. *SIAM Review* 53, 217-288.
#'
#' Simon, H. and Zha, H. (2000) Low-rank matrix approximation using the Lanczos bidiagonalization process with
#' applications. *SIAM Journal on Scientific Computing* 21, 2257-2274.
#'
#' Stewart, G. W. (2001) A Krylov-Schur algorithm for large eigenproblems. *SIAM Journal on Matrix Analysis and
#' Applications* 23, 601-614.
#'
#' Wu, K. and Simon, H. (2000) Thick-restart Lanczos method for large symmetric eigenvalue problems. *SIAM Journal on
#' Matrix Analysis and Applications* 22, 602-616.
#' @seealso [svd()][decompositions] and [eigen()][decompositions] for all values; [prcomp()][principal].
#' @examples
#' x <- as_gpu(as.matrix(iris[, 1:4]), device = "cpu")
#' fit <- gpu_svds(x, 2, center = TRUE, method = "lanczos")
#' fit$d
#' svd(scale(as.matrix(iris[, 1:4]), scale = FALSE))$d[1:2]
#'
#' # a function: the second differences of a vector
#' n <- 100
#' differences <- function(x) rbind(x[-1, , drop = FALSE], 0) + rbind(0, x[-n, , drop = FALSE]) - 2 * x
#' gpu_eigs(differences, 3, "SA", dim = n)$values
#' gpu_eigs(differences, 2, sigma = -1, dim = n)$values
#' 2 * cos(pi * (n - 2):n / (n + 1)) - 2
#' @export
gpu_svds <- function(A, k, center = FALSE, scale = FALSE, method = c("randomized", "lanczos"), power = NULL, tol = NULL,
  max_iter = NULL, seed = 1, dim = NULL, transpose = NULL) {
  frame <- environment()
  op <- operator_of(A, NULL, dim, transpose, frame)
  method <- one_of("method", method, c("randomized", "lanczos"))
  if (!is.null(power) && !is_count(power)) abort_argument("power", "NULL or one number, 0 or more", power)
  if (!is.null(power) && method == "lanczos") abort_argument("power", "NULL for the Lanczos method", power)
  random <- method == "randomized"
  limits <- values_wanted(op, k, tol %||% if (random) 1e-8, max_iter %||% if (random) MOST_ITERATIONS, seed, frame)
  op <- with_columns(op, center, scale, frame)
  k <- trunc(k)
  found <- if (!random) {
    lanczos_values(op, k, limits$tol, limits$most, limits$seed, frame)
  } else if (is.null(power)) {
    random_components(op, k, limits$tol, limits$most, limits$seed, frame)
  } else {
    random_components(op, k, -1, trunc(power), limits$seed, frame)
  }
  signs <- signs_of(found$v)
  v <- gpu_compute(found$v * broadcast_columns(op, signs, op$dim[2L]))
  u <- gpu_compute(found$u * broadcast_columns(op, signs, op$dim[1L]))
  d <- found$d
  residual <- column_products(op,
    gpu_compute(each_column(op, op$backward, u) - v * broadcast_columns(op, d, op$dim[2L])))
  out <- list(d = d, u = named_rows(u, op$names[[1L]]), v = named_rows(v, op$names[[2L]]))
  ended(out, sqrt(host_numbers(residual)) / max(d, 2^-1022), found, method, limits$tol, "gpu_svds", frame)
}

#' @export
collect.gpu_svds <- collect.list
#' @export
collect.gpu_eigs <- collect.list

#' @export
print.gpu_svds <- function(x, ...) {
  values <- x$d %||% x$values
  cat(sprintf("%s %s of %s: %s, %s products, residual %.3g\n", length(values),
    if (is.null(x$d)) "eigenvalues" else "singular values", if (is.null(x$d)) sprintf("%s rows and columns",
    format_count(nrow(x$vectors))) else sprintf("%s x %s", format_count(nrow(x$u)), format_count(nrow(x$v))),
    if (x$method == "randomized") "randomised method" else paste0(METHOD_NAMES[[x$method]], " method, ",
      if (!x$converged) "not ", "converged"), format_count(x$products), max(x$residual)))
  print(values)
  invisible(x)
}
#' @export
print.gpu_eigs <- print.gpu_svds

# ---- arguments and results ---------------------------------------------------------------------------------------

METHOD_NAMES <- c(lanczos = "Lanczos", arnoldi = "Arnoldi")

# The randomised method: the number of vectors in excess of k, and the largest number of iterations.
OVERSAMPLED <- 10
MOST_ITERATIONS <- 10

values_wanted <- function(op, k, tol, max_iter, seed, frame) {
  smaller <- min(op$dim)
  if (smaller == 0) abort_argument("A", "a matrix with elements", op$source, frame)
  if (!is_count(k, 1) || trunc(k) > smaller) abort_argument("k", sprintf("one number, 1 to %s (the smaller extent)",
    format_count(smaller)), k, frame)
  tol <- tol %||% if (op$dtype == "float32") 1e-5 else 1e-10
  if (!is_size(tol)) abort_argument("tol", "NULL or one number, 0 or more", tol, frame)
  if (!is.null(max_iter) && !is_count(max_iter)) abort_argument("max_iter", "NULL or one number, 0 or more", max_iter,
    frame)
  if (!is_count(seed) || seed != trunc(seed)) abort_argument("seed", "a whole number, 0 or more", seed, frame)
  list(tol = as.double(tol), most = trunc(max_iter %||% 300), seed = as.double(seed))
}

# The operator of the centered and scaled matrix.
with_columns <- function(op, center, scale, frame) {
  p <- op$dim[2L]
  for (name in c("center", "scale")) {
    v <- get(name)
    if (!is_by_column(v, p)) abort_argument(name,
      sprintf("TRUE, FALSE or %s finite numbers", format_count(p)), v, frame)
  }
  if (isFALSE(center) && isFALSE(scale)) return(op)
  columns <- if (op$kind == "array") standard_columns(op$source, center, scale) else column_moments(op, center, scale,
    frame)
  zero <- base::which(!(columns$scale != 0))
  if (length(zero)) stop_verdigris("argument", sprintf("`scale` would divide column %s by 0%s.",
    format_count(zero[1L]), if (isTRUE(scale)) ", since it is constant" else ""), "Leave such columns out.",
    call = frame)
  if (op$kind != "array") return(standardised(op, columns$center, columns$scale))
  columns$total <- squares_of_all(columns)
  named <- op$names
  op <- operator_of_columns(columns)
  op$names <- named
  op
}

# Means and scales of the columns of an operator that is known only by products, in the form of standard_columns().
# `total`: the sum of squares of the centered and scaled matrix, computed with `squares`.
column_moments <- function(op, center, scale, frame, squares = isTRUE(scale)) {
  n <- op$dim[1L]
  sums <- as.double(collect(op$backward(gpu_full(1, c(n, 1), dtype = op$dtype, device = op$device))))
  if (!all(is.finite(sums))) not_finite(op, frame)
  named <- function(v) stats::setNames(v, op$names[[2L]])
  columns <- list(center = if (isTRUE(center)) named(sums / n) else if (!isFALSE(center)) center,
    scale = if (!is_flag(scale)) scale)
  if (!squares) return(columns)
  if (op$kind == "function") stop_verdigris("argument", "`scale = TRUE` needs a matrix, and `A` is a function.",
    "Pass the numbers that its columns are to be divided by.", call = frame)
  raw <- as.double(host_numbers(generic_for(op$source, "colSums")(op$source^2)))
  at <- as.double(columns$center %||% numeric(op$dim[2L]))
  squares <- raw - 2 * at * sums + n * at^2
  # For a constant column only rounding errors are left.
  squares[squares <= 2^-48 * raw] <- 0
  if (isTRUE(scale)) columns$scale <- named(sqrt(squares / max(1, n - 1)))
  columns$total <- sum(squares / (columns$scale %||% 1)^2)
  columns
}

# For each column 1 or -1, such that its largest element becomes positive.
signs_of <- function(v) vapply(seq_len(ncol(v)), function(j) {
  x <- if (is_gpu(v)) strip(column_at(v, j)) else v[, j]
  size <- abs(x)
  if (x[which.max(size >= (1 - 1e-6) * max(size))] < 0) -1 else 1
}, 0)

named_rows <- function(x, names) with_dimnames(x, list(names, NULL))

ended <- function(out, residual, found, method, tol, class, frame) {
  converged <- method == "randomized" || all(residual <= 10 * max(tol, 2^-50))
  # including those for the residuals
  products <- found$products + length(residual)
  out <- structure(c(out, list(iterations = as.integer(found$iterations), products = products,
    residual = residual, converged = converged, method = method, tol = tol)), class = class)
  if (!converged) warn_verdigris("convergence", sprintf(
    "The %s method did not converge: the largest residual is %.3g of the largest value after %s restarts.",
    METHOD_NAMES[[method]], max(residual), format_count(found$iterations)),
    "A larger `max_iter` or `tol` may help, or a larger `k`, of which more vectors are kept.", call = frame)
  out
}

# ---- the randomised method ---------------------------------------------------------------------------------------

# Columns of normal random numbers, which depend only on the arguments; R's generator is not used.
random_vectors <- function(size, count, device, stream = 1, key = 3) {
  out <- .Call(C_random, "rnorm", as.double(size) * count, c(stream, key), 0, 1, "float64", device)
  dim(out) <- c(size, count)
  out
}

# The first k singular values and vectors, by the randomised method. `op` is centered and scaled already. `tol` of -1
# runs all `most` iterations.
random_components <- function(op, k, tol = 1e-8, most = MOST_ITERATIONS, seed = 1, frame = NULL) {
  p <- op$dim[2L]
  size <- min(k + OVERSAMPLED, op$dim)
  typed <- function(x) as_float(x, op$dtype)
  w <- typed(orthonormal(random_vectors(p, size, op$device, seed)))
  before <- NULL
  iterations <- 0
  repeat {
    y <- gpu_compute(op$forward(w))
    e <- cross_eigen(y)
    if (is.null(e)) not_finite(op, frame)
    d <- sqrt(base::pmax(e$values[seq_len(k)], 0))
    if (iterations >= most || iterations > 1 && max(abs(d - before)) <= tol * d[1L]) break
    before <- d
    iterations <- iterations + 1
    # The columns are nearly orthogonal already, since they are multiplied by the current vectors.
    w <- typed(orthonormal(matrix_product(as_float64(op$backward(y)), e$vectors)))
  }
  c(in_space(op, w, y, k), list(iterations = iterations, products = size * (2 * iterations + 1)))
}

# Eigenvalues and eigenvectors of crossprod(y), on the host; NULL if it is not finite.
cross_eigen <- function(y) {
  products <- collect(cross_product(as_float64(y)))
  if (all(is.finite(products))) base::eigen(products, symmetric = TRUE)
}

# An orthonormal basis of the columns, by eigenvectors of their cross products, twice (Stathopoulos and Wu, SIAM J. Sci.
# Comput. 23, 2002); linearly dependent columns are replaced by random vectors.
orthonormal <- function(z) {
  count <- ncol(z)
  for (round in 1:2) {
    size <- ncol(z)
    products <- collect(cross_product(z))
    inverse <- base::ifelse(base::diag(products) > 0, 1 / sqrt(base::diag(products)), 0)
    e <- base::eigen(products * base::outer(inverse, inverse), symmetric = TRUE)
    kept <- e$values > 1e-13 * max(e$values, 1)
    if (!any(kept)) return(orthonormal(random_vectors(nrow(z), count, gpu_device(z), 2)))
    basis <- inverse * e$vectors[, kept, drop = FALSE] * rep(1 / sqrt(e$values[kept]), each = size)
    z <- gpu_compute(matrix_product(z, basis))
  }
  size <- ncol(z)
  if (size == count) return(z)
  more <- random_vectors(nrow(z), count - size, gpu_device(z), 2)
  orthonormal(cbind(z, more - matrix_product(z, cross_product(z, more))))
}

# ---- Lanczos methods ---------------------------------------------------------------------------------------------

# The number of vectors that the method builds for k wanted values, and the number of them that a restart keeps.
vectors_for <- function(k, all) min(all, max(2 * k, k + 20))
kept_of <- function(k, m) min(m - 1, k + (m - k) %/% 2)

# The main loop of a Lanczos or Arnoldi method with restarts. `step(j, kept, careful)` extends the bases by a step and
# returns the columns that it added. `reduced(steps, kept)` evaluates the scalars of steps kept + 1 to m: a list with
# `settled` (converged), or NULL if the steps must be repeated. `restart(found)` makes the bases those of the next
# cycle, and returns the number of columns kept. If a step lost a vector without noticing, which happens on a GPU, the
# steps are repeated with `careful`.
restarted_steps <- function(op, m, most, numbers, each, step, reduced, restart, frame) {
  kept <- 0
  products <- 0
  restarts <- 0
  repeat {
    careful <- FALSE
    repeat {
      numbers$forget()
      columns <- lapply(seq(kept + 1, m), step, kept = kept, careful = careful)
      steps <- numbers_of(columns, numbers)
      if (is.null(steps)) not_finite(op, frame)
      products <- products + each * (m - kept)
      if (!careful && attr(steps, "lost")) {
        careful <- TRUE
        next
      }
      found <- reduced(steps, kept)
      if (!is.null(found)) break
    }
    if (found$settled || restarts >= most) break
    restarts <- restarts + 1
    kept <- restart(found)
  }
  c(found, list(iterations = restarts, products = products))
}

# The first k singular values and vectors. The matrix is transposed so that columns are the shorter side, whose basis
# can be complete. The vectors of that side are orthogonalised against all before them. Those of the other side follow
# from the recurrence alone, as long as the projected matrix is well conditioned (Simon and Zha 2000).
lanczos_values <- function(op, k, tol, most, seed, frame) {
  if (op$dim[1L] < op$dim[2L]) {
    found <- lanczos_values(turned(op), k, tol, most, seed, frame)
    found[c("u", "v")] <- found[c("v", "u")]
    return(found)
  }
  m <- vectors_for(k, op$dim[2L])
  numbers <- new_scalars(op, 2 * numbers_for(m))
  left <- new_basis(op, op$dim[1L], m, numbers)
  right <- new_basis(op, op$dim[2L], m + 1, numbers)
  right$extend(0, as_float(random_vectors(op$dim[2L], 1, op$device, seed), op$dtype))
  one_sided <- TRUE
  following <- NULL
  # The index of the scalar by which the new column is coupled to the one before; 0 if that column was replaced.
  known <- function(column) if (column$lost) 0 else column$norm
  step <- function(j, kept, careful) {
    # The first column after a restart is coupled to all kept columns, any other to the one before.
    local <- j > kept + 1
    near <- if (local) j - 1 else 0
    column <- left$extend(j - 1, right$with(j, op$forward), near, if (local && one_sided) near else 0,
      if (local) known(following) else 0, TRUE, careful)
    # A complete basis has no next column.
    following <<- if (j < op$dim[2L]) right$extend(j, left$with(j, op$backward), j, 0, known(column), TRUE, careful)
    list(column, following)
  }
  reduced <- function(steps, kept) {
    # b is t(left) A right.
    b <- base::matrix(0, m, m)
    b[cbind(seq_len(kept), seq_len(kept))] <- values[seq_len(kept)]
    beta <- 0
    for (j in seq(kept + 1, m)) {
      both <- steps[[j - kept]]
      b[j, j] <- both[[1L]]$norm
      b[seq_len(j - 1), j] <- if (j == kept + 1) both[[1L]]$products else c(numeric(j - 2), beta)
      beta <- both[[2L]]$norm %||% 0
    }
    s <- base::svd(b)
    if (one_sided && s$d[m] < sqrt(unit_of(op)) * s$d[1L]) {
      one_sided <<- FALSE
      return(NULL)
    }
    list(s = s, settled = all(beta * abs(s$u[m, seq_len(k)]) <= tol * s$d[1L]))
  }
  values <- numeric()
  found <- restarted_steps(op, m, most, numbers, 2, step, reduced, function(found) {
    at <- seq_len(kept_of(k, m))
    left$restart(m, found$s$u[, at, drop = FALSE])
    right$restart(m, found$s$v[, at, drop = FALSE], TRUE)
    values <<- found$s$d[at]
    length(at)
  }, frame)
  at <- seq_len(k)
  d <- found$s$d[at]
  u <- left$product(m, as_operand(op, found$s$u[, at, drop = FALSE]))
  v <- right$product(m, as_operand(op, found$s$v[, at, drop = FALSE]))
  # One-sided: u is not orthonormal enough, so it is recomputed from u d = A v.
  both <- if (one_sided) in_space(op, v, gpu_compute(u * broadcast_columns(op, d, op$dim[1L]))) else list(d = d, u = u,
    v = v)
  c(both, found[c("iterations", "products", "settled")])
}

# The distance from 1 to the next number of the operator's type.
unit_of <- function(op) if (op$dtype == "float32") 2^-23 else 2^-52

# k eigenvalues and eigenvectors of a symmetric matrix. A residual is compared to `tol` times `sizes(values)`.
lanczos_eigenvalues <- function(op, k, which, tol, most, seed, frame, sizes = function(values) rep(max(abs(values)),
  length(values))) {
  n <- op$dim[1L]
  m <- vectors_for(k, n)
  numbers <- new_scalars(op, numbers_for(m))
  basis <- new_basis(op, n, m + 1, numbers)
  basis$extend(0, as_float(random_vectors(n, 1, op$device, seed), op$dtype))
  column <- NULL
  step <- function(j, kept, careful) {
    # A column is coupled to the last two, whose first product is known; after a restart to all.
    local <- j > kept + 1
    column <<- basis$extend(j, basis$with(j, op$forward), if (local) j - 1 else 0, 0, if (local && !column$lost)
      column$norm else 0, j < n, careful)
    list(column)
  }
  reduced <- function(steps, kept) {
    projected <- base::matrix(0, m, m)
    projected[cbind(seq_len(kept), seq_len(kept))] <- values[seq_len(kept)]
    beta <- 0
    for (j in seq(kept + 1, m)) {
      last <- steps[[j - kept]][[1L]]
      first <- seq(to = j, length.out = length(last$products))
      projected[first, j] <- projected[j, first] <- last$products
      if (j > kept + 1) projected[j - 1, j] <- projected[j, j - 1] <- beta
      beta <- if (j < n) last$norm else 0
    }
    e <- base::eigen(projected, symmetric = TRUE)
    order <- order(switch(which, LM = -abs(e$values), LA = -e$values, SA = e$values))
    e <- list(values = e$values[order], vectors = e$vectors[, order, drop = FALSE])
    list(e = e, settled = all(beta * abs(e$vectors[m, seq_len(k)]) <= tol * sizes(e$values)[seq_len(k)]))
  }
  values <- numeric()
  found <- restarted_steps(op, m, most, numbers, 1, step, reduced, function(found) {
    at <- seq_len(kept_of(k, m))
    basis$restart(m, found$e$vectors[, at, drop = FALSE], TRUE)
    values <<- found$e$values[at]
    length(at)
  }, frame)
  e <- found$e
  # In the order of eigen().
  at <- if (which == "SA") rev(seq_len(k)) else seq_len(k)
  c(list(d = e$values[at], v = basis$product(m, as_operand(op, e$vectors[, at, drop = FALSE])),
    largest = max(abs(e$values))), found[c("iterations", "products", "settled")])
}

# The first k singular values and vectors, from eigenvectors of the matrix times its transpose on the shorter side: half
# of the work, and no basis of the longer side. Squaring loses digits of vectors whose values are small relative to the
# largest. The values themselves are computed in the space of these vectors and keep their digits.
normal_values <- function(op, k, tol, most, seed, frame) {
  wide <- op$dim[1L] < op$dim[2L]
  if (wide) op <- turned(op)
  square <- op
  square$dim <- rep(op$dim[2L], 2L)
  square$forward <- function(x) op$backward(op$forward(x))
  found <- lanczos_eigenvalues(square, k, "LA", tol, most, seed, frame, function(values) sqrt(values[1L] *
    base::pmax(values, 1e-8 * values[1L])))
  both <- in_space(op, found$v)
  both$settled <- found$settled
  both$iterations <- found$iterations
  if (wide) both[c("u", "v")] <- both[c("v", "u")]
  both
}

# Singular values and vectors of the matrix restricted to the space of the orthonormal columns w. `y` is its product
# with w.
in_space <- function(op, w, y = gpu_compute(op$forward(w)), k = ncol(w)) {
  # With orthonormal vectors small values keep digits that cross products would lose.
  q <- orthonormal(as_float64(y))
  s <- base::svd(collect(cross_product(q, as_float64(y))), nu = k, nv = k)
  typed <- function(x, s) as_float(gpu_compute(matrix_product(as_float64(x), s)), op$dtype)
  list(d = s$d[seq_len(k)], u = typed(q, s$u), v = typed(w, s$v))
}

as_operand <- function(op, x) as_gpu(x, device = op$device)
