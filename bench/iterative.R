# Iterative solvers, and some singular values and eigenvalues, on a card, beside CuPy (bench/iterative.py). Prints a
# line a case: name, milliseconds (median), iterations or products with the matrix, milliseconds for each, and a
# residual or the first value, which the peer has nearly the same (its random numbers are others).
#
# usage: Rscript bench/iterative.R [quick] [device]       device: cuda (default) or cpu, with smaller cases
suppressMessages(library(verdigris))
given <- commandArgs(TRUE)
quick <- "quick" %in% given
device <- c(setdiff(given, "quick"), "cuda")[1L]
gpu_use(device)
small <- device == "cpu"

say <- function(name, f, times = if (quick) 2L else 5L) {
  took <- tryCatch({
    found <- f()
    vapply(seq_len(times), function(k) {
      found <<- NULL
      gc(FALSE)
      gpu_sync()
      at <- Sys.time()
      found <<- f()
      gpu_sync()
      as.numeric(Sys.time() - at, units = "secs") * 1000
    }, 0)
  }, error = function(e) {
    cat(sprintf("%-34s %s\n", name, conditionMessage(e)))
    NULL
  })
  if (is.null(took)) return(invisible())
  count <- found$products
  if (is.null(count)) count <- if (is.null(found$iterations)) 1 else max(found$iterations)
  first <- if (!is.null(found$d)) found$d[1L] else if (!is.null(found$values)) found$values[1L] else if (
    !is.null(found$sdev)) found$sdev[1L] else found$residual[1L]
  ms <- stats::median(took)
  cat(sprintf("%-34s %10.2f ms %6.0f x %8.4f ms  %.8g\n", name, ms, count, ms / count, first))
}
# solvers stopped after so many iterations warn
counted <- function(code) suppressWarnings(code, classes = "verdigris_warning_convergence")

# ---- solvers: so many iterations, whatever they reach ------------------------------------------------------------
m <- if (small) 300 else 2000
laplacian <- function(x) {
  dim(x) <- c(m, m)
  gpu_stencil(x, function(w) 4 * w[2, 2] - w[1, 2] - w[3, 2] - w[2, 1] - w[2, 3], 1, edge = 0)
}
wind <- function(x) {
  dim(x) <- c(m, m)
  gpu_stencil(x, function(w) 4 * w[2, 2] - 1.2 * w[1, 2] - 0.8 * w[3, 2] - 1.1 * w[2, 1] - 0.9 * w[2, 3], 1, edge = 0)
}
b <- gpu_compute(gpu_rnorm(m * m))
say(sprintf("cg, Poisson %d x %d", m, m), function() counted(gpu_cg(laplacian, b, tol = 0, max_iter = 500)))
say("the same, diagonal by function", function() counted(gpu_cg(laplacian, b, preconditioner = function(r) r / 4,
  tol = 0, max_iter = 500)))
say(sprintf("gmres(30), convection %d x %d", m, m), function() counted(gpu_gmres(wind, b, tol = 0, max_iter = 300)))
n <- if (small) 1000 else 8192
a <- gpu_compute(gpu_rnorm(n * n))
dim(a) <- c(n, n)
spd <- gpu_compute(crossprod(a) / n + diag(gpu_ones(n)))
sides <- gpu_compute(gpu_rnorm(n * 16))
dim(sides) <- c(n, 16)
one <- gpu_compute(sides[, 1])
say(sprintf("cg, dense %d", n), function() counted(gpu_cg(spd, one, tol = 0, max_iter = 100)))
say(sprintf("cg, dense %d, 16 sides", n), function() counted(gpu_cg(spd, sides, tol = 0, max_iter = 100)))
say(sprintf("cg, dense %d, to 1e-8", n), function() gpu_cg(spd, one))
say(sprintf("gmres(30), dense %d", n), function() counted(gpu_gmres(a, one, tol = 0, max_iter = 90)))
a <- spd <- NULL
rows <- if (small) 20000 else 1e6
x <- gpu_compute(gpu_rnorm(rows * 200))
dim(x) <- c(rows, 200)
y <- gpu_compute(gpu_rnorm(rows))
say(sprintf("lsqr, %.0e x 200, to 1e-8", rows), function() gpu_lsqr(x, y))

# ---- singular values and eigenvalues -----------------------------------------------------------------------------
x <- y <- NULL
rows <- if (small) 5000 else 1e5
columns <- if (small) 500 else 2000
# values that fall as those of data do
x <- gpu_rnorm(rows * columns)
dim(x) <- c(rows, columns)
x <- gpu_compute(x * rep((1 + seq_len(columns) / 20)^-0.7, each = rows) + 0.5)
size <- sprintf("%.0e x %d, k = 50", rows, columns)
say(paste("svds, randomised,", size), function() gpu_svds(x, 50, power = 4))
say(paste("svds, Lanczos,", size), function() gpu_svds(x, 50, method = "lanczos", tol = 1e-6))
say("the same, centered", function() gpu_svds(x, 50, center = TRUE, method = "lanczos", tol = 1e-6))
say("prcomp, randomised", function() prcomp(x, rank. = 50))
x <- NULL
say(sprintf("eigs, Poisson %d x %d, k = 6, LA", m, m), function() counted(gpu_eigs(laplacian, 6, "LA", tol = 1e-6,
  max_iter = 30, dim = m * m)))

# ---- sparse, where the package has the class ---------------------------------------------------------------------
if (requireNamespace("Matrix", quietly = TRUE)) {
  set.seed(1)
  shape <- if (small) c(2e4, 2e3) else c(1e6, 2e4)
  host <- Matrix::rsparsematrix(shape[1L], shape[2L], nnz = prod(shape) / 1000)
  s <- tryCatch(as_gpu(host), error = function(e) NULL)
  if (is.null(s)) {
    cat("sparse matrices: not in this package\n")
    s <- host
  }
  size <- sprintf("sparse %.0e x %.0e, %.0e", shape[1L], shape[2L], length(host@x))
  say(paste("svds, Lanczos, k = 50,", size), function() gpu_svds(s, 50, center = TRUE, method = "lanczos", tol = 1e-6),
    1L)
  say(paste("svds, randomised, k = 50,", size), function() gpu_svds(s, 50, center = TRUE, power = 4), 1L)
  known <- verdigris:::operator_of(s)
  say(paste("prcomp, k = 50,", size), function() if (inherits(s, "gpu_sparse")) prcomp(s, rank. = 50) else
    verdigris:::components_of_operator(known, TRUE, TRUE, FALSE, NULL, 50, "lanczos", globalenv()), 1L)
  say(paste("lsqr,", size), function() gpu_lsqr(s, rep(1, shape[1L]), tol = 1e-6), 1L)
  if (small) for (peer in c("irlba", "RSpectra")) if (requireNamespace(peer, quietly = TRUE)) {
    mu <- Matrix::colMeans(host)
    say(paste(peer, size), function() if (peer == "irlba") irlba::irlba(host, 50, center = mu, tol = 1e-6) else
      RSpectra::svds(host, 50, opts = list(center = TRUE, tol = 1e-6)), 1L)
  }
}
