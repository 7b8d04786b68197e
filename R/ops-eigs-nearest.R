# The eigenvalues nearest to a number sigma (shift and invert): 1 / (value - sigma) are the largest eigenvalues of the
# inverse of A - sigma I. A is factored if possible; otherwise systems are solved by iteration.

# The shift, or NULL if values at an end of the spectrum are wanted. `which = "SM"` means a shift of 0.
nearest_wanted <- function(sigma, which, frame) {
  if (is.null(sigma)) return(if (which == "SM") 0)
  if (is_gpu(sigma)) sigma <- collect(sigma)
  if (!is.numeric(sigma) || is.object(sigma) || length(sigma) != 1L || !is.finite(sigma)) abort_argument("sigma",
    "NULL or one finite number", sigma, frame)
  if (which != "LM") stop_verdigris("argument", sprintf(
    "`sigma` asks for the values nearest to it, and `which` \"%s\" for others.", which), "Leave out one of them.",
    call = frame)
  as.double(sigma)
}

# If A - sigma I is singular, or so nearly that the other eigenvalues would be lost beside the largest one of the
# inverse, other shifts are tried. NEIGHBOURS are their distances below sigma, relative to the size of A; the first
# makes a positive semidefinite A definite. MOST_GAIN limits the size of the inverse. MORE_VALUES additional eigenvalues
# are computed at such a shift, and those nearest to sigma itself are kept.
NEIGHBOURS <- list(float64 = c(2^-17, -2^-14), float32 = c(2^-8, -2^-7))
MOST_GAIN <- list(float64 = 1e9, float32 = 1e3)
MORE_VALUES <- 2

# The k eigenvalues nearest to sigma: the list of eigenvectors(), with the counts of the iteration.
nearest_eigenvalues <- function(op, k, sigma, symmetric, limits, frame) {
  size <- size_of(op, limits$seed)
  best <- unsolved <- NULL
  for (away in c(0, NEIGHBOURS[[op$dtype]])) {
    shift <- sigma - away * if (size > 0) size else 1
    inverse <- inverse_of(op, shift, symmetric, frame)
    if (is.null(inverse)) next
    gain <- size * tryCatch(gain_of(op, inverse, limits$seed), verdigris_error_convergence = function(e) {
      unsolved <<- e
      Inf
    })
    if (gain > if (away == 0) MOST_GAIN[[op$dtype]] else 2^1000) next
    count <- min(op$dim[1L], k + if (away == 0) 0 else MORE_VALUES)
    found <- if (symmetric) nearest_symmetric(op, inverse, count, limits, frame) else
      nearest_general(op, inverse, shift, count, limits, frame)
    # Decreasing distance from sigma; of a pair, the value with positive imaginary part comes first.
    far <- Mod(found$d - sigma)
    nearest <- order(far, -Im(found$d))[seq_len(k)]
    at <- nearest[order(-far[nearest], -Im(found$d[nearest]))]
    found$d <- found$d[at]
    if (is.complex(found$d) && all(Im(found$d) == 0)) {
      found$d <- Re(found$d)
      found$imaginary <- NULL
    }
    for (part in intersect(c("v", "imaginary"), names(found))) found[[part]] <- gpu_compute(found[[part]][, at,
      drop = FALSE])
    found <- c(found, eigenvectors(op, found))
    found$largest <- max(size, abs(sigma))
    if (is.null(best) || max(found$residual) < max(best$residual)) best <- found
    if (max(found$residual) <= 10 * max(limits$tol, 2^-50) * found$largest) break
  }
  if (is.null(best) && !is.null(unsolved)) stop(unsolved)
  best %||% stop_verdigris("argument", sprintf("`A` less %s times the identity is singular, and so are its neighbours.",
    format(sigma)), "Another `sigma`, near to it, may do.", call = frame)
}

# The factor by which the inverse lengthens a random vector; Inf if the result is not finite.
gain_of <- function(op, inverse, seed) {
  v <- as_float(random_vectors(op$dim[1L], 1, op$device, seed, 5), op$dtype)
  gain <- sqrt(host_numbers(column_products(op, inverse(v))) / host_numbers(column_products(op, v)))
  if (is.finite(gain)) gain else Inf
}

# The sizes to which residuals of the inverse's eigenvalues are compared. Each is compared to its own value, since the
# residual of A is smaller by the factor by which the value is larger, but not below the rounding error of the largest.
sizes_of_inverse <- function(op, tol) function(values) base::pmax(Mod(values), max(Mod(values)) *
  min(1, 16 * unit_of(op) / max(tol, unit_of(op))))

nearest_symmetric <- function(op, inverse, k, limits, frame) {
  n <- op$dim[1L]
  iterated <- op
  iterated$forward <- inverse
  look <- function(op, k, seed) lanczos_eigenvalues(op, k, "LM", limits$tol, limits$most, seed, frame,
    sizes_of_inverse(op, limits$tol))
  found <- look(iterated, k, limits$seed)
  # A Krylov space contains one direction of each eigenspace. Further vectors of repeated eigenvalues are sought in the
  # orthogonal complement of all vectors found.
  for (round in seq_len(k)) {
    if (k == n) break
    v <- found$v
    clear <- function(x) gpu_compute(x - matrix_product(v, cross_product(v, x)))
    deflated <- iterated
    deflated$forward <- function(x) clear(iterated$forward(clear(x)))
    more <- look(deflated, 1, limits$seed + round)
    found[c("iterations", "products")] <- list(found$iterations + more$iterations, found$products + more$products)
    if (!(abs(more$d) > min(abs(found$d)) * (1 + 1e-8))) break
    # The new value replaces the least one.
    least <- which.min(abs(found$d))
    found$v <- gpu_compute(cbind(v[, -least, drop = FALSE], clear(more$v)))
    found$d <- c(found$d[-least], more$d)
  }
  # The eigenvalues of A in the space of the vectors (Rayleigh-Ritz).
  q <- orthonormal(as_float64(found$v))
  typed <- as_float(q, op$dtype)
  e <- base::eigen(symmetric_part(collect(cross_product(q, as_float64(each_column(op, op$forward, typed))))),
    symmetric = TRUE)
  found$v <- as_float(gpu_compute(matrix_product(q, e$vectors)), op$dtype)
  found$d <- e$values
  found
}

symmetric_part <- function(x) (x + base::t(x)) / 2

nearest_general <- function(op, inverse, shift, k, limits, frame) {
  iterated <- op
  iterated$forward <- inverse
  found <- arnoldi_eigenvalues(iterated, k, "LM", limits$tol, limits$most, limits$seed, frame,
    sizes_of_inverse(op, limits$tol))
  found$d <- shift + 1 / found$d
  found
}

# ---- inverses ----------------------------------------------------------------------------------------------------

# A function is evaluated at all columns of the identity, and the matrix inverted, up to this many rows.
MOST_COLUMNS <- 1000

# A function that multiplies by the inverse of A - shift I; NULL if that is singular.
inverse_of <- function(op, shift, symmetric, frame) {
  if (op$kind == "array") return(inverse_of_dense(op$source, shift))
  if (op$kind == "sparse" || is_of_matrix(op$source, "sparseMatrix")) {
    factors <- sparse_factors(op$source, shift, symmetric)
    if (is.null(factors) || is.function(factors)) return(if (is.function(factors)) function(x)
      gpu_compute(as_float(as_gpu(factors(collect(as_float64(x))), device = op$device), op$dtype)))
  }
  n <- op$dim[1L]
  if (n <= MOST_COLUMNS) {
    columns <- as_float(identity_on(n, gpu_zeros(0, device = op$device)), op$dtype)
    return(inverse_of_dense(gpu_compute(each_column(op, op$forward, columns)), shift))
  }
  inverse_by_iteration(op, shift, symmetric, frame)
}

inverse_of_dense <- function(a, shift) {
  if (shift != 0) a <- a - shift * as_float(identity_on(nrow(a), a), gpu_dtype(a))
  # Base R's error for a singular matrix has no class of this package. A nearly singular matrix is detected by its gain.
  inverse <- tryCatch(gpu_compute(solve(a, tol = 0)), error = function(e) if (inherits(e, "verdigris_error")) stop(e))
  if (!is.null(inverse)) function(x) matrix_product(inverse, x)
}

# Solves by conjugate gradients until the matrix proves not to be positive definite, and by GMRES from then on.
inverse_by_iteration <- function(op, shift, symmetric, frame) {
  n <- op$dim[1L]
  shifted <- function(x) op$forward(x) - shift * x
  tol <- if (op$dtype == "float32") 1e-6 else 1e-12
  definite <- symmetric
  # A system without a solution may overflow, which the solvers report as an error.
  quietly <- function(expr) tryCatch(withCallingHandlers(expr, verdigris_warning_convergence = function(w)
    invokeRestart("muffleWarning")), verdigris_error_argument = function(e) list(residual = Inf, iterations = 0))
  function(x) {
    x <- gpu_compute(x + 0)
    if (definite) {
      fit <- quietly(gpu_cg(shifted, x, tol = tol))
      definite <<- all(fit$residual <= SOLVED)
    }
    if (!definite) fit <- quietly(gpu_gmres(shifted, x, restart = min(n, 200), tol = tol))
    if (!all(fit$residual <= SOLVED)) stop_verdigris("convergence", sprintf(paste0(
      "Systems with `A` less %s times the identity are not solved: the relative residual is %.3g after %s iterations."),
      format(shift), max(fit$residual), format_count(max(fit$iterations))),
      c("Pass a function that solves, such as by `gpu_cg()` with a preconditioner, and leave out `sigma`.",
        "Its values of largest magnitude are 1 / (value - sigma)."), call = frame)
    y <- fit$x
    dim(y) <- base::dim(x)
    y
  }
}
SOLVED <- 1e-4
