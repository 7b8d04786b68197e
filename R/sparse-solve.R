# Systems, determinants, factors and other operations on whole matrices: small ones as dense matrices on the device,
# larger ones by package Matrix on the host.

# Up to this order, work with a dense matrix on the device is no more than with a sparse one on the host.
DENSE_ORDER <- 1000

#' Solving systems with sparse matrices
#'
#' `solve()`, `determinant()` (hence `det()`), `rcond()`, `kappa()`, `chol()`, `chol2inv()`, `backsolve()`, `qr()`,
#' `svd()` and `eigen()` accept a sparse matrix. If Matrix is loaded, so do its functions `forceSymmetric()`,
#' `symmpart()`, `skewpart()`, `expm()`, `Schur()`, `lu()`, `Cholesky()`, `updown()`, `writeMM()` and `image()`.
#'
#' Matrices of up to 1000 rows are solved as dense ones on the device. Package Matrix factors larger matrices on the
#' host and solves there for each right-hand side; without Matrix they are also solved as dense matrices. [gpu_cg()] and
#' [gpu_gmres()] need no factors. Sparse right-hand sides are converted to dense arrays; solutions are dense.
#'
#' Matrix computes `expm()` on the host, and the result is a dense array. `lu()`, `Schur()`, `Cholesky()` and, if Matrix
#' is loaded, `qr()` return Matrix's factors of `collect(S)`, on the host; `image()` draws `collect(S)`, and `writeMM()`
#' writes it. Without Matrix `qr()` decomposes the dense array. `solve(factor, S)` with a factor of Matrix solves on the
#' host, and returns a `gpu_sparse` if Matrix returns a sparse matrix. `chol()` returns the sparse factor that Matrix
#' computes on the host, as a `gpu_sparse`. `svd()`, `eigen()`, `kappa()`, `chol2inv()`, `backsolve()`,
#' `forwardsolve()`, [dist()] and `outer()` compute with `gpu_dense(S)`. [gpu_svds()] and [gpu_eigs()] compute some
#' singular values and eigenvalues without a dense matrix.
#' @param a,x,z A `gpu_sparse`.
#' @param b Right-hand sides: a vector or a matrix, which may be ordinary, an array, sparse, or of Matrix. The default
#'   is the identity matrix.
#' @param tol,logarithm As in base R.
#' @param lag,differences As in [base::diff()]; differences are between rows.
#' @param ... For methods.
#' @returns `solve()`: a `gpu_array`, a vector or a matrix like `b`. `determinant()`: base R's list. `diff()`: a
#'   `gpu_sparse`.
#' @section Errors:
#' Base R's errors, such as for a singular matrix; `verdigris_error_memory`.
#' @examples
#' S <- gpu_sparse(i = c(1, 2, 3, 1), j = c(1, 2, 3, 3), x = c(2, 4, 5, 1), device = "cpu")
#' solve(S, 1:3)
#' det(S)
#' @name sparse-solve
NULL

#' @rdname sparse-solve
#' @export
solve.gpu_sparse <- function(a, b, tol = .Machine$double.eps, ...) {
  frame <- environment()
  if (!missing(b)) {
    b <- from_foreign_class(b, gpu_device(a))
    if (is_sparse(b)) b <- gpu_dense(b)
    if (!is_number(b)) abort_argument("b", "a vector or a matrix of numbers", b)
    if (!is_gpu(b)) b <- `dim<-`(cast_like(b, a@x), dim(b)) |> with_names_of(b)
  }
  n <- a@Dim[1L]
  square <- n == a@Dim[2L]
  fits <- missing(b) || NROW(b) == n && !is.complex(b)
  if (square && fits && n > DENSE_ORDER) {
    found <- solved_sparse(a, if (missing(b)) base::diag(n) else b, frame)
    if (!is.null(found)) {
      names <- list(a@Dimnames[[2L]], if (missing(b)) a@Dimnames[[1L]] else if (is.matrix(b)) colnames(b))
      return(if (!missing(b) && is.null(dim(b))) named_margin(found, names[[1L]]) else with_dimnames(found, names))
    }
  }
  solve(gpu_dense(a), b, tol = tol, ...)
}

with_names_of <- function(x, from) {
  if (!is.null(dimnames(from))) dimnames(x) <- dimnames(from) else if (is.null(dim(from)) && !is.null(names(from)))
    names(x) <- names(from)
  x
}

# Factors A - shift * I by package Matrix on the host. Returns a function that solves for an ordinary matrix of right
# sides; NULL if the matrix is singular; NA if there are no factors: without Matrix, or where memory does not suffice.
sparse_factors <- function(A, shift, symmetric) {
  if (!requireNamespace("Matrix", quietly = TRUE)) return(NA)
  M <- if (is_sparse(A)) collect(A) else A
  M <- methods::as(methods::as(methods::as(M, "dMatrix"), "generalMatrix"), "CsparseMatrix")
  M@Dimnames <- list(NULL, NULL)
  if (shift != 0) M <- methods::as(M - shift * Matrix::Diagonal(nrow(M)), "generalMatrix")
  quietly <- function(expr) tryCatch(suppressWarnings(expr), error = function(e) NULL)
  if (symmetric && all(Matrix::diag(M) > 0)) {
    factor <- quietly(suppressMessages(Matrix::Cholesky(Matrix::forceSymmetric(M), LDL = FALSE)))
    # Cholesky() may return a factor of an indefinite matrix: it then has missing elements
    solved <- if (!is.null(factor)) quietly(as.matrix(Matrix::solve(factor, base::matrix(1, nrow(M)))))
    if (!is.null(solved) && all(is.finite(solved))) return(function(b) as.matrix(Matrix::solve(factor, b)))
  }
  factors <- quietly(Matrix::lu(M, errSing = FALSE))
  if (is.null(factors)) return(NA)
  if (!isS4(factors) || any(Matrix::diag(factors@U) == 0)) return(NULL)
  # A[p, q] = L U
  p <- factors@p + 1L
  q <- if (length(factors@q)) factors@q + 1L else seq_along(p)
  back <- order(q)
  function(b) as.matrix(Matrix::solve(factors@U, Matrix::solve(factors@L, b[p, , drop = FALSE])))[back, , drop = FALSE]
}

# Solves by factors on the host; NULL where there are none.
solved_sparse <- function(a, b, frame) {
  factors <- sparse_factors(a, 0, isSymmetric(a, check.attributes = FALSE))
  if (is.null(factors)) stop_as_base("Lapack routine dgesv: system is exactly singular", frame)
  if (!is.function(factors)) return(NULL)
  host <- base::matrix(as.double(collect(strip(as_gpu(b)))), a@Dim[1L])
  out <- as_gpu(factors(host), dtype = if (is_narrow(a@x)) "float32", device = gpu_device(a))
  if (is.null(dim(b))) strip(out) else out
}

#' @rdname sparse-solve
#' @export
determinant.gpu_sparse <- function(x, logarithm = TRUE, ...) {
  if (x@Dim[1L] != x@Dim[2L] || x@Dim[1L] <= DENSE_ORDER || !requireNamespace("Matrix", quietly = TRUE))
    return(determinant(gpu_dense(x), logarithm = logarithm, ...))
  Matrix::determinant(collect(x), logarithm = logarithm, ...)
}

#' @rdname sparse-solve
#' @export
diff.gpu_sparse <- function(x, lag = 1L, differences = 1L, ...) {
  if (!is_count(lag, 1) || !is_count(differences, 1))
    stop_as_base("'lag' and 'differences' must be integers >= 1")
  # base R from 4.6 on has a matrix without rows
  if (lag * differences >= x@Dim[1L])
    return(if (is.null(dim(diff(base::matrix(0, 1L, 1L))))) x[0L] else x[0L, , drop = FALSE])
  for (k in seq_len(differences)) {
    at <- seq_len(x@Dim[1L] - lag)
    x <- x[at + lag, , drop = FALSE] - x[at, , drop = FALSE]
  }
  x
}

#' @importFrom graphics image
#' @rdname sparse-solve
#' @export
image.gpu_sparse <- function(x, ...) {
  if (requireNamespace("Matrix", quietly = TRUE)) Matrix::image(collect(x), ...) else image(as.matrix(x), ...)
}

#' @rdname sparse-solve
#' @export
qr.gpu_sparse <- function(x, ...) qr.gpu_array(gpu_dense(x), ...)

#' @rdname sparse-solve
#' @export
chol.gpu_sparse <- function(x, ...) {
  if (!requireNamespace("Matrix", quietly = TRUE)) return(chol(dense_numbers(x), ...))
  factor <- Matrix::chol(collect(x), ...)
  out <- as_gpu(factor, device = gpu_device(x))
  # which `pivot = TRUE` sets
  attr(out, "pivot") <- attr(factor, "pivot")
  out
}

#' @rdname sparse-solve
#' @export
kappa.gpu_sparse <- function(z, ...) kappa(dense_numbers(z), ...)

# ---- registration when Matrix is loaded --------------------------------------------------------------------------

register_sparse_factors <- function(set_method, where, matrix) {
  set_method("solve", list(c("gpu_sparse", "ANY"), c("gpu_sparse", "missing"), c("gpu_sparse", "gpu_sparse")),
    function(a, b, ...) solve.gpu_sparse(a, b, ...))
  # a factor of Matrix solves on the host
  set_method("solve", list(c("MatrixFactorization", "gpu_sparse")), function(a, b, ...)
    as_gpu(Matrix::solve(a, collect(b), ...), device = gpu_device(b)))
  for (class in c("Matrix", "CsparseMatrix", "ddiMatrix"))
    set_method("solve", list(c(class, "gpu_sparse")), function(a, b, ...) solve(as_gpu(a, device = gpu_device(b)),
      gpu_dense(b), ...))
  set_method("determinant", list(c("gpu_sparse", "missing"), c("gpu_sparse", "logical")), function(x, logarithm, ...)
    determinant.gpu_sparse(x, missing(logarithm) || logarithm))
  set_method("rcond", list(c("gpu_sparse", "missing"), c("gpu_sparse", "character")), function(x, norm, ...)
    rcond(gpu_dense(x), if (missing(norm)) "O" else norm))
  set_method("image", "gpu_sparse", function(x, ...) image.gpu_sparse(x, ...))
  set_method("forceSymmetric", list(c("gpu_sparse", "missing"), c("gpu_sparse", "character")), function(x, uplo)
    mirrored(x, if (missing(uplo)) "U" else uplo))
  set_method("symmpart", "gpu_sparse", function(x) half_of_both(x, `+`))
  set_method("skewpart", "gpu_sparse", function(x) half_of_both(x, `-`))
  set_method("expm", "gpu_sparse", function(x) as_gpu(as.matrix(Matrix::expm(collect(x))), device = gpu_device(x)))
  set_method("chol2inv", "gpu_sparse", function(x, ...) chol2inv(gpu_dense(x), ...))
  # Matrix computes these on the host
  set_method("chol", "gpu_sparse", function(x, ...) chol.gpu_sparse(x, ...))
  set_method("updown", list(c("character", "gpu_sparse", "ANY"), c("logical", "gpu_sparse", "ANY")),
    function(update, C, L) Matrix::updown(update, collect(C), L))
  set_method("qr", "gpu_sparse", function(x, ...) Matrix::qr(collect(x), ...))
  set_method("Schur", list(c("gpu_sparse", "missing"), c("gpu_sparse", "logical")), function(x, vectors, ...)
    Matrix::Schur(collect(x), missing(vectors) || vectors, ...))
  methods::setClass("gpu_sparse_factors", slots = c(perm = "integer", L = "ANY", U = "ANY"), where = where)
  set_method("expand", "gpu_sparse_factors", function(x, ...) list(L = x@L, U = x@U))
  for (f in c("lu", "Cholesky")) {
    generic <- methods::getGeneric(f, where = matrix)
    first <- names(formals(generic))[1L]
    passed <- setdiff(names(formals(generic)), c(first, "..."))
    call <- c(list(generic, call("collect", as.name(first))), stats::setNames(lapply(passed, as.name), passed),
      if ("..." %in% names(formals(generic))) list(quote(...)))
    body <- as.call(call)
    if (f == "lu") body <- call("if", quote(called_by_matrix(sys.function(sys.parent()))), call("row_factors",
      as.name(first)), body)
    set_method(f, "gpu_sparse", as.function(c(formals(generic), body)))
  }
}

# Matrix's condest(), its only function that calls lu(), expects it to permute rows alone for matrices that are not its
# own sparse ones: A[perm, ] = L U. So the columns of U are put back in their order, and U is not triangular.
row_factors <- function(x) {
  f <- Matrix::lu(collect(x))
  back <- if (length(f@q)) order(f@q) else seq_len(x@Dim[1L])
  methods::new("gpu_sparse_factors", perm = f@p + 1L, L = f@L, U = f@U[, back, drop = FALSE])
}

# forceSymmetric(): one triangle, and its mirror image.
mirrored <- function(x, uplo, frame = parent.frame()) {
  if (x@Dim[1L] != x@Dim[2L]) stop_as_base("attempt to symmetrize a non-square matrix", frame)
  if (!is_choice(uplo, c("U", "L"))) stop_as_base("'uplo' must be \"U\" or \"L\"", frame)
  names <- symmetric_names(x@Dimnames)
  x@Dimnames <- list(NULL, NULL)
  half <- if (uplo == "U") band_of_sparse(x, 1, Inf) else band_of_sparse(x, -Inf, -1)
  out <- band_of_sparse(x, 0, 0) + half + t(half)
  if (is.logical(x@x)) out <- out != 0
  out@Dimnames <- names
  out
}

# symmpart() and skewpart(): half of x + t(x) or x - t(x).
half_of_both <- function(x, f, frame = parent.frame()) {
  if (x@Dim[1L] != x@Dim[2L]) stop_as_base(sprintf("attempt to get %s part of non-square matrix",
    if (identical(f, `+`)) "symmetric" else "skew-symmetric"), frame)
  names <- symmetric_names(x@Dimnames)
  x@Dimnames <- list(NULL, NULL)
  out <- f(x, t(x)) / 2
  out@Dimnames <- names
  out
}

symmetric_names <- function(names) {
  one <- names[[2L]] %||% names[[1L]]
  list(one, one)
}

# Converts to the class of Matrix whose name has these letters: kind, shape and representation.
to_matrix_class <- function(from, class) {
  part <- strsplit(class, "", fixed = TRUE)[[1L]]
  M <- methods::as(collect(from), paste0(part[1L], "Matrix"))
  M <- methods::as(M, c(g = "generalMatrix", s = "symmetricMatrix", t = "triangularMatrix")[[part[2L]]])
  methods::as(M, c(C = "CsparseMatrix", R = "RsparseMatrix", T = "TsparseMatrix")[[part[3L]]])
}

register_sparse_coercion <- function(where, matrix) {
  names <- expand.grid(kind = c("d", "l", "n"), shape = c("g", "s", "t"), form = c("C", "R", "T"))
  classes <- setdiff(do.call(paste0, c(names, "Matrix")), c("dgCMatrix"))
  for (class in classes) if (methods::isClass(class, where = matrix)) {
    convert <- eval(bquote(function(from) to_matrix_class(from, .(class))))
    environment(convert) <- topenv()
    methods::setAs("gpu_sparse", class, convert, where = where)
  }
  # classes that Matrix converts its own sparse matrices to
  others <- c("dsparseMatrix", "lsparseMatrix", "nsparseMatrix", "dCsparseMatrix", "lCsparseMatrix", "nCsparseMatrix",
    "compMatrix", "unpackedMatrix", "packedMatrix", "lgeMatrix", "dpoMatrix", "dppMatrix", "dsyMatrix", "ddiMatrix",
    "indMatrix", "pMatrix", "sparseVector")
  for (class in others) if (methods::isClass(class, where = matrix)) {
    convert <- eval(bquote(function(from) methods::as(collect(from), .(class))))
    environment(convert) <- topenv()
    methods::setAs("gpu_sparse", class, convert, where = where)
  }
}
