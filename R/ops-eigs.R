# Some eigenvalues of a linear operator (R/ops-operator.R): by the Lanczos method if it is symmetric (R/ops-svds.R),
# otherwise by the Arnoldi method. Eigenvalues nearest to a number are in R/ops-eigs-nearest.R.

EIGENVALUES <- c("LM", "LA", "SA", "SM", "LR", "SR", "LI", "SI")

#' @rdname gpu_svds
#' @export
gpu_eigs <- function(A, k, which = c("LM", "LA", "SA", "SM", "LR", "SR", "LI", "SI"), tol = NULL, max_iter = NULL,
  seed = 1, dim = NULL, sigma = NULL) {
  frame <- environment()
  if (is.numeric(dim) && length(dim) == 1L) dim <- rep(dim, 2L)
  op <- operator_of(A, NULL, dim, NULL, frame)
  which <- one_of("which", which, EIGENVALUES)
  if (op$dim[1L] != op$dim[2L]) stop_verdigris("shape", sprintf("`A` must be square, not %s.",
    paste(op$dim, collapse = " x ")), "For other matrices use `gpu_svds()`.")
  limits <- values_wanted(op, k, tol, max_iter, seed, frame)
  sigma <- nearest_wanted(sigma, which, frame)
  symmetric <- acts_symmetric(op, limits$seed, frame)
  if (symmetric && which %in% c("LI", "SI")) stop_verdigris("argument", sprintf(
    "`A` is symmetric, but `which` \"%s\" asks for imaginary parts.", which),
    "The eigenvalues of a symmetric matrix are real: use \"LM\", \"LA\", \"SA\" or \"SM\".")
  if (!symmetric && which %in% c("LA", "SA")) stop_verdigris("argument", sprintf(
    "`A` is not symmetric, so its eigenvalues have no order: `which` must not be \"%s\".", which),
    c(sprintf("\"%s\" selects those of %s real part.", c(LA = "LR", SA = "SR")[[which]],
      c(LA = "largest", SA = "smallest")[[which]]),
    "If `A` should be symmetric, pass `(A + t(A)) / 2`."))
  if (is.null(sigma)) {
    real <- c(LR = "LA", SR = "SA")
    f <- if (symmetric) lanczos_eigenvalues else arnoldi_eigenvalues
    found <- f(op, trunc(k), if (symmetric && which %in% names(real)) real[[which]] else which, limits$tol, limits$most,
      limits$seed, frame)
    found <- c(found, eigenvectors(op, found))
  } else {
    found <- nearest_eigenvalues(op, trunc(k), sigma, symmetric, limits, frame)
  }
  ended(list(values = found$d, vectors = named_rows(found$vectors, op$names[[2L]])),
    found$residual / max(found$largest, 2^-1022), found, if (symmetric) "lanczos" else "arnoldi", limits$tol,
    "gpu_eigs", frame)
}

# An estimate of the size of the operator, to which residuals are compared: the length of the image of a random unit
# vector.
size_of <- function(op, seed) {
  v <- as_float(random_vectors(op$dim[1L], 1, op$device, seed), op$dtype)
  sqrt(host_numbers(column_products(op, op$forward(v))) / host_numbers(column_products(op, v)))
}

# The eigenvectors, normalised in sign (real), or to length 1 with a real largest element (complex), and `residual`, the
# lengths of A v - value v.
eigenvectors <- function(op, found) {
  n <- op$dim[1L]
  times_columns <- function(x, by) x * broadcast_columns(op, by, n)
  image <- function(x) each_column(op, op$forward, x)
  lengths_of <- function(x) host_numbers(column_products(op, gpu_compute(x)))
  if (is.null(found$imaginary)) {
    v <- gpu_compute(times_columns(found$v, signs_of(found$v)))
    return(list(vectors = v, residual = sqrt(lengths_of(image(v) - times_columns(v, found$d)))))
  }
  largest <- vapply(seq_along(found$d), function(j) {
    re <- strip(column_at(found$v, j))
    im <- strip(column_at(found$imaginary, j))
    at <- which.max(re^2 + im^2)
    complex(real = re[at] + 0, imaginary = im[at] + 0)
  }, 0i)
  turn <- Conj(largest) / Mod(largest)
  size <- 1 / sqrt(lengths_of(found$v) + lengths_of(found$imaginary))
  re <- gpu_compute(times_columns(found$v, Re(turn) * size) - times_columns(found$imaginary, Im(turn) * size))
  im <- gpu_compute(times_columns(found$imaginary, Re(turn) * size) + times_columns(found$v, Im(turn) * size))
  a <- Re(found$d)
  b <- Im(found$d)
  residual <- lengths_of(image(re) - times_columns(re, a) + times_columns(im, b)) +
    lengths_of(image(im) - times_columns(im, a) - times_columns(re, b))
  list(vectors = gpu_compute(re + 1i * im), residual = sqrt(residual))
}

# Whether the operator is symmetric: u' A v equals v' A u for random vectors u and v. An asymmetric part of A shows in
# the difference with its own size, unless it is orthogonal to both by chance.
acts_symmetric <- function(op, seed, frame) {
  pair <- as_float(random_vectors(op$dim[1L], 2, op$device, seed), op$dtype)
  images <- each_column(op, op$forward, gpu_compute(pair))
  products <- collect(cross_product(as_float64(pair), as_float64(images)))
  if (!all(is.finite(products))) not_finite(op, frame)
  size <- sqrt(host_numbers(column_products(op, images)) * op$dim[1L])
  abs(products[1L, 2L] - products[2L, 1L]) <= 1000 * unit_of(op) * max(size)
}

# The sort key of values by preference, largest first.
wanted_by <- function(which, values) switch(which, LM = Mod(values), LR = Re(values), SR = -Re(values),
  LI = abs(Im(values)), SI = -abs(Im(values)))

# k eigenvalues and vectors of a matrix that is not symmetric (Krylov-Schur). A restart keeps an orthonormal basis of
# the wanted eigenvectors of the projected matrix, in which that is a smaller matrix; the remainder of all kept columns
# is along one vector.
arnoldi_eigenvalues <- function(op, k, which, tol, most, seed, frame, sizes = function(values) rep(max(Mod(values)),
  length(values))) {
  n <- op$dim[1L]
  m <- vectors_for(min(k + 1, n), n)
  numbers <- new_scalars(op, numbers_for(m))
  basis <- new_basis(op, n, m + 1, numbers)
  basis$extend(0, as_float(random_vectors(n, 1, op$device, seed), op$dtype))
  step <- function(j, kept, careful) list(basis$extend(j, basis$with(j, op$forward), replace = j < n,
    careful = careful))
  # A times the kept columns, in coordinates of the basis and its next column.
  known <- base::matrix(0, m + 1, m)
  reduced <- function(steps, kept) {
    projected <- known
    for (j in seq(kept + 1, m)) {
      last <- steps[[j - kept]][[1L]]
      projected[seq_len(j), j] <- last$products
      projected[j + 1, j] <- if (j < n) last$norm else 0
    }
    # Rounding errors are set to 0: the balancing of rows and columns in eigen() would enlarge them.
    projected[abs(projected) <= 8 * unit_of(op) * max(abs(projected))] <- 0
    e <- base::eigen(projected[seq_len(m), , drop = FALSE], symmetric = FALSE)
    at <- order(-wanted_by(which, e$values), -Im(e$values))
    e <- list(values = e$values[at], vectors = e$vectors[, at, drop = FALSE])
    rest <- abs(projected[m + 1, m]) * Mod(e$vectors[m, seq_len(k)])
    list(e = e, projected = projected, settled = all(rest <= tol * sizes(e$values)[seq_len(k)]))
  }
  found <- restarted_steps(op, m, most, numbers, 1, step, reduced, function(found) {
    e <- found$e
    count <- kept_of(k, m)
    # Keep conjugate pairs together.
    if (Im(e$values[count]) > 0) count <- if (count < m - 1) count + 1 else count - 1
    at <- seq_len(count)
    first <- at[Im(e$values[at]) >= 0]
    complex <- at[Im(e$values[at]) > 0]
    space <- base::qr.default(base::cbind(Re(e$vectors[, first, drop = FALSE]), Im(e$vectors[, complex, drop = FALSE])),
      tol = 1e-10)
    # The eigenvectors of a defective matrix span a smaller space.
    q <- base::qr.Q(space)[, seq_len(space$rank), drop = FALSE]
    at <- seq_len(space$rank)
    known[] <<- 0
    known[at, at] <<- base::crossprod(q, found$projected[seq_len(m), ] %*% q)
    known[space$rank + 1, at] <<- found$projected[m + 1, ] %*% q
    basis$restart(m, q, TRUE)
    space$rank
  }, frame)
  e <- found$e
  values <- e$values[seq_len(k)]
  at <- order(-switch(which, SR = Re(values), SI = abs(Im(values)), wanted_by(which, values)), -Im(values))
  values <- values[at]
  vectors <- e$vectors[, at, drop = FALSE]
  product <- function(y) basis$product(m, as_operand(op, y))
  real <- all(Im(values) == 0)
  c(list(d = if (real) Re(values) else values, v = product(Re(vectors)), largest = max(Mod(e$values))),
    if (!real) list(imaginary = product(Im(vectors))), found[c("iterations", "products", "settled")])
}
