# The eigenvalues that are nearest to a number, sigma: 1 / (value - sigma) are the largest ones of the inverse of
# A - sigma I. A is factored where it can be, and otherwise systems are solved by iteration.

# Where to look from, NULL if at an end of the spectrum.
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

# Where A - sigma I is singular, or so nearly that the other values would be lost beside the largest of the inverse,
# its neighbours are asked: so far below, in units of the size of A, so that what is positive semidefinite becomes
# definite. Some more values are sought there, of which those nearest to sigma itself are kept.
NEIGHBOURS <- list(float64 = c(2^-17, -2^-14), float32 = c(2^-8, -2^-7))
MOST_GAIN <- list(float64 = 1e9, float32 = 1e3)
MORE_VALUES <- 2

# As eigenvectors() gives them, with the numbers of the iteration.
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
    # from far to near; of a pair, the one of positive imaginary part first
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
    if (is.null(best) || max(found$apart) < max(best$apart)) best <- found
    if (max(found$apart) <= 10 * max(limits$tol, 2^-50) * found$largest) break
  }
  if (is.null(best) && !is.null(unsolved)) stop(unsolved)
  best %||% stop_verdigris("argument", sprintf("`A` less %s times the identity is singular, and so are its neighbours.",
    format(sigma)), "Another `sigma`, near to it, may do.", call = frame)
}

# How much longer the inverse makes a random vector; Inf where the result is not finite.
gain_of <- function(op, inverse, seed) {
  v <- as_float(random_vectors(op$dim[1L], 1, op$device, seed, 5), op$dtype)
  gain <- sqrt(host_numbers(column_products(op, inverse(v))) / host_numbers(column_products(op, v)))
  if (is.finite(gain)) gain else Inf
}

# To which size residuals of values of the inverse are compared: to each one's own, since a residual of A is by as much
# smaller as the value is larger, but not below what rounding leaves of the largest.
sizes_of_inverse <- function(op, tol) function(values) base::pmax(Mod(values), max(Mod(values)) *
  min(1, 16 * unit_of(op) / max(tol, unit_of(op))))

nearest_symmetric <- function(op, inverse, k, limits, frame) {
  n <- op$dim[1L]
  iterated <- op
  iterated$forward <- inverse
  look <- function(op, k, seed) lanczos_eigenvalues(op, k, "LM", limits$tol, limits$most, seed, frame,
    sizes_of_inverse(op, limits$tol))
  found <- look(iterated, k, limits$seed)
  # a vector knows one direction of each eigenspace: what else is there shows among what is orthogonal to all found
  for (round in seq_len(k)) {
    if (k == n) break
    v <- found$v
    clear <- function(x) gpu_compute(x - matrix_product(v, cross_product(v, x)))
    beside <- iterated
    beside$forward <- function(x) clear(iterated$forward(clear(x)))
    more <- look(beside, 1, limits$seed + round)
    found[c("iterations", "products")] <- list(found$iterations + more$iterations, found$products + more$products)
    if (!(abs(more$d) > min(abs(found$d)) * (1 + 1e-8))) break
    # in place of the least one
    least <- which.min(abs(found$d))
    found$v <- gpu_compute(cbind(v[, -least, drop = FALSE], clear(more$v)))
    found$d <- c(found$d[-least], more$d)
  }
  # the values of A in their space
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

# Functions are asked for all columns of a matrix of so many rows, which is then inverted.
MOST_COLUMNS <- 1000

# A function that multiplies by the inverse of A - shift I; NULL where that is singular.
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
  # base R's error for a singular matrix has no class; what is nearly singular shows by its gain
  inverse <- tryCatch(gpu_compute(solve(a, tol = 0)), error = function(e) if (inherits(e, "verdigris_error")) stop(e))
  if (!is.null(inverse)) function(x) matrix_product(inverse, x)
}

# By conjugate gradients as long as the matrix is found to be positive definite, and by GMRES.
inverse_by_iteration <- function(op, shift, symmetric, frame) {
  n <- op$dim[1L]
  shifted <- function(x) op$forward(x) - shift * x
  tol <- if (op$dtype == "float32") 1e-6 else 1e-12
  definite <- symmetric
  # numbers of a system without a solution may overflow
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
