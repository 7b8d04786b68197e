# gpu_cg(), gpu_gmres() and gpu_lsqr() against solve() and least squares of base R.

set.seed(1)
basis <- function(n, k = n) qr.Q(qr(matrix(rnorm(n * k), n)))
# symmetric, with eigenvalues from 1 to 1 / condition
definite <- function(n, condition) {
  q <- basis(n)
  a <- q %*% (condition^-seq(0, 1, length.out = n) * t(q))
  (a + t(a)) / 2
}
unsymmetric <- function(n) matrix(rnorm(n * n), n) + diag(n) * 2 * sqrt(n)

# Everything that multiplies by a matrix; what needs the Matrix package where that is installed.
forms <- function(a) {
  found <- list(array = gpu(a), ordinary = a, `function` = function(x) gpu(a) %*% x,
    `on the host` = function(x) a %*% collect(x))
  if (requireNamespace("Matrix", quietly = TRUE)) found$sparse <- methods::as(a, "CsparseMatrix")
  found
}
# The numbers of a solution that must not depend on how it was found.
same_solution <- function(a, b) {
  for (part in c("x", "iterations", "converged")) expect_identical(collect(a)[[part]], collect(b)[[part]])
  expect_equal(a$residual, b$residual, tolerance = 1e-6)
}
residual_of <- function(a, x, b) sqrt(colSums(as.matrix(b - a %*% collect(x))^2) / colSums(as.matrix(b)^2))
quietly <- function(code) suppressWarnings(code, classes = "verdigris_warning_convergence")

test_that("conjugate gradients solve definite systems, several right sides at once", {
  n <- 40
  for (condition in c(3, 1e3)) {
    a <- definite(n, condition)
    b <- matrix(rnorm(3 * n), n)
    want <- solve(a, b)
    for (form in names(found <- forms(a))) {
      fit <- gpu_cg(found[[form]], gpu(b), tol = 1e-12)
      expect_s3_class(fit, "gpu_solution", exact = TRUE)
      expect_equal(collect(fit$x), want, tolerance = 1e-12 * condition * 10, info = form)
      expect_true(all(fit$converged) && all(fit$residual <= 1e-12), info = form)
      expect_identical(gpu_device(fit$x), test_device)
      expect_equal(fit$residual, residual_of(a, fit$x, b), tolerance = 1e-2)
    }
  }
  # one right side is a vector; in exact arithmetic no more iterations than distinct eigenvalues are needed
  few <- diag(rep(c(1, 2, 5), length.out = n))
  fit <- gpu_cg(gpu(few), rnorm(n))
  expect_null(dim(fit$x))
  expect_lte(fit$iterations, 3L)
  # each right side stops for itself
  fit <- gpu_cg(gpu(few), cbind(rnorm(n), replace(numeric(n), 2, 1), 0))
  expect_identical(fit$iterations, c(3L, 1L, 0L))
  expect_identical(collect(fit$x[, 3]), numeric(n))
})

test_that("what is looked at later gives the same solutions and iterations", {
  a <- definite(30, 100)
  g <- unsymmetric(30)
  r <- matrix(rnorm(40 * 12), 40)
  b <- matrix(rnorm(60), 30)
  for (solve_one in list(function(...) gpu_cg(gpu(a), gpu(b), ...), function(...) gpu_cg(gpu(a), gpu(b),
    preconditioner = "diagonal", ...), function(...) gpu_gmres(gpu(g), gpu(b), restart = 25, ...),
    function(...) gpu_lsqr(gpu(r), gpu(matrix(rnorm(80), 40)), ...))) for (most in c(7, 400)) {
      set.seed(3)
      here <- quietly(solve_one(max_iter = most))
      set.seed(3)
      same_solution(here, composed(quietly(solve_one(max_iter = most))))
    }
  # and few products more than iterations
  calls <- 0
  fit <- composed(gpu_cg(function(x) {
    calls <<- calls + 1
    gpu(a) %*% x
  }, gpu(b)))
  expect_lte(calls, max(fit$iterations) + 10)
})

test_that("an iteration is few launches, and reads nothing", {
  skip_if(test_device == "cpu", "needs a GPU")
  a <- gpu(definite(50, 1e6))
  b <- gpu(rnorm(50))
  # what is interpreted while kernels compile takes more launches
  with_tier("compiled", for (solver in list(gpu_cg, gpu_lsqr)) {
    time_of <- function(most) gpu_time(quietly({
      solver(a, b, tol = 0, max_iter = most)
      NULL
    }))
    time_of(20)
    few <- time_of(8)
    many <- time_of(24)
    expect_lte((many$launches - few$launches) / 16, if (identical(solver, gpu_cg)) 7.5 else 13.5)
    expect_identical(many$down, few$down)
  })
})

test_that("a start and preconditioners are used", {
  n <- 60
  d <- 10^seq(0, 4, length.out = n)
  a <- diag(d) + definite(n, 10)
  b <- rnorm(n)
  want <- solve(a, b)
  plain <- gpu_cg(gpu(a), b)
  for (preconditioner in list("diagonal", function(r) r / diag(a), function(r) gpu(1 / diag(a)) * r)) {
    fit <- gpu_cg(gpu(a), b, preconditioner = preconditioner)
    expect_equal(collect(fit$x), want, tolerance = 1e-6)
    expect_lt(fit$iterations, plain$iterations / 2)
    fit <- gpu_gmres(gpu(a), b, preconditioner = preconditioner)
    expect_equal(collect(fit$x), want, tolerance = 1e-6)
    expect_lt(fit$iterations, 30L)
  }
  for (solver in list(gpu_cg, gpu_gmres, gpu_lsqr)) {
    expect_identical(solver(gpu(a), b, x0 = want)$iterations, 0L)
    expect_equal(collect(solver(gpu(a), b, x0 = gpu(want * (1 + 1e-9)), tol = 1e-12)$x), want, tolerance = 1e-8)
  }
  expect_identical(collect(gpu_cg(gpu(a), numeric(n), x0 = b)$x), numeric(n))
  if (requireNamespace("Matrix", quietly = TRUE)) {
    s <- methods::as(a, "CsparseMatrix")
    expect_equal(collect(gpu_cg(s, b, preconditioner = "diagonal")$x), want, tolerance = 1e-6)
  }
})

test_that("GMRES solves systems that are not symmetric, with and without restarts", {
  n <- 40
  a <- unsymmetric(n)
  b <- matrix(rnorm(2 * n), n)
  want <- solve(a, b)
  for (form in names(found <- forms(a))) for (restart in c(4, 100)) {
    fit <- gpu_gmres(found[[form]], b, restart = restart, tol = 1e-11)
    expect_equal(collect(fit$x), want, tolerance = 1e-9, info = form)
    expect_true(all(fit$residual <= 1e-11), info = form)
  }
  # without restarts it ends after n iterations at the latest
  expect_true(all(gpu_gmres(gpu(a), b, restart = n, tol = 1e-11)$iterations <= n))
  expect_identical(gpu_gmres(gpu(diag(5)), 1:5)$iterations, 1L)
  # a cyclic shift gains nothing until the last of n iterations
  shift <- diag(6)[c(2:6, 1), ]
  fit <- gpu_gmres(gpu(shift), c(1, 0, 0, 0, 0, 0), restart = 6)
  expect_identical(fit$iterations, 6L)
  expect_equal(collect(fit$x), c(0, 1, 0, 0, 0, 0))
  expect_warning(fit <- gpu_gmres(gpu(shift), c(1, 0, 0, 0, 0, 0), restart = 3), "larger `restart`",
    class = "verdigris_warning_convergence")
  expect_false(fit$converged)
  # singular, with a right side in its range
  s <- diag(c(1, 2, 3, 0))
  expect_equal(collect(gpu_gmres(gpu(s), c(1, 1, 1, 0))$x), c(1, 1 / 2, 1 / 3, 0))
  expect_warning(fit <- gpu_gmres(gpu(s), c(1, 1, 1, 1)), class = "verdigris_warning_convergence")
  expect_equal(fit$residual, 0.5, tolerance = 1e-6)
})

test_that("LSQR finds least squares, the shortest of several, and damped ones", {
  for (d in list(c(60, 15), c(15, 60), c(20, 20))) {
    a <- matrix(rnorm(prod(d)), d[1])
    b <- matrix(rnorm(2 * d[1]), d[1])
    s <- svd(a)
    want <- s$v %*% (crossprod(s$u, b) / s$d)
    damped <- s$v %*% (crossprod(s$u, b) * s$d / (s$d^2 + 0.25))
    for (form in names(found <- forms(a))) {
      more <- if (is.function(found[[form]])) list(dim = d, transpose = function(y) crossprod(gpu(a), y))
      solved <- function(...) do.call(gpu_lsqr, c(list(found[[form]], b, tol = 1e-13, ...), more))
      fit <- solved()
      expect_equal(collect(fit$x), want, tolerance = 1e-8, info = form)
      expect_equal(fit$residual, residual_of(a, want, b), tolerance = 1e-6)
      fit <- solved(damp = 0.5)
      expect_equal(collect(fit$x), damped, tolerance = 1e-8, info = form)
      expect_true(all(fit$converged))
    }
  }
  # of lower rank: the shortest
  a <- basis(30, 4) %*% (c(4, 3, 2, 1) * t(basis(10, 4)))
  b <- rnorm(30)
  s <- svd(a)
  want <- s$v[, 1:4] %*% (crossprod(s$u[, 1:4], b) / s$d[1:4])
  expect_equal(collect(gpu_lsqr(gpu(a), b)$x), as.vector(want), tolerance = 1e-7)
  # nearest to the start
  null <- qr.Q(qr(cbind(s$v[, 1:4], rnorm(10))))[, 5]
  expect_equal(collect(gpu_lsqr(gpu(a), b, x0 = null)$x), as.vector(want) + null, tolerance = 1e-7)
  # with damping the distance from the start counts
  x0 <- rnorm(10)
  fit <- gpu_lsqr(gpu(a), b, x0 = x0, damp = 2, tol = 1e-12)
  expect_equal(collect(fit$x), as.vector(x0 + solve(crossprod(a) + 4 * diag(10), crossprod(a, b - a %*% x0))))
  expect_lt(fit$gradient, 1e-11)
})

test_that("ill-conditioned systems converge as far as is claimed, or warn", {
  hilbert <- function(n) 1 / (outer(seq_len(n), seq_len(n), "+") - 1)
  for (a in list(hilbert(6), hilbert(12), definite(40, 1e8), definite(40, 1e15))) {
    b <- as.vector(a %*% rep(1, nrow(a)))
    for (solver in list(gpu_cg, gpu_gmres, gpu_lsqr)) for (tol in c(1e-6, 1e-10, 0)) {
      warned <- FALSE
      fit <- withCallingHandlers(solver(gpu(a), b, tol = tol, max_iter = 300), warning = function(w) {
        expect_s3_class(w, "verdigris_warning_convergence")
        warned <<- TRUE
        invokeRestart("muffleWarning")
      })
      expect_identical(warned, !fit$converged)
      expect_identical(nzchar(fit$problem), warned)
      own <- residual_of(a, fit$x, b)
      expect_equal(fit$residual, own, tolerance = 1e-2 + 1e-15 / own)
      if (tol == 1e-6) expect_true(fit$converged)
      if (fit$converged && !identical(solver, gpu_lsqr)) expect_lte(own, tol * (1 + 1e-6) + 1e-15)
    }
  }
})

test_that("degenerate systems have solutions", {
  for (solver in list(gpu_cg, gpu_gmres, gpu_lsqr)) {
    expect_equal(collect(solver(gpu(matrix(4)), 2)$x), 0.5)
    expect_identical(collect(solver(gpu(diag(3)), c(0, 0, 0))$x), c(0, 0, 0))
    expect_identical(collect(solver(gpu(matrix(0, 3, 3)), c(0, 0, 0))$x), c(0, 0, 0))
    expect_identical(collect(solver(gpu(diag(3)), matrix(0, 3, 0))$x), matrix(0, 3, 0))
    expect_identical(collect(solver(gpu(matrix(0, 0, 0)), numeric(0))$x), numeric(0))
    expect_equal(collect(solver(gpu(diag(3) * 1e-150), c(1, 2, 3) * 1e-150)$x), c(1, 2, 3))
    # whole numbers and logicals are numbers
    expect_equal(collect(solver(gpu(diag(3L)), 1:3)$x), c(1, 2, 3))
    expect_equal(collect(solver(gpu(diag(3) > 0), c(TRUE, FALSE, TRUE))$x), c(1, 0, 1))
  }
  # a zero matrix: the residual is the right side
  for (solver in list(gpu_cg, gpu_gmres)) expect_warning(fit <- solver(gpu(matrix(0, 2, 2)), c(3, 4)),
    class = "verdigris_warning_convergence")
  expect_identical(fit$residual, 1)
  fit <- gpu_lsqr(gpu(matrix(0, 3, 2)), c(1, 2, 3))
  expect_identical(collect(fit$x), c(0, 0))
  expect_true(fit$converged)
})

test_that("precision and names are those of the matrix, the shape that of the right sides", {
  a <- definite(20, 10)
  dimnames(a) <- list(letters[1:20], LETTERS[1:20])
  b <- matrix(rnorm(40), 20, dimnames = list(NULL, c("p", "q")))
  for (solver in list(gpu_cg, gpu_gmres, gpu_lsqr)) {
    fit <- solver(gpu(a), b)
    expect_identical(dimnames(fit$x), list(LETTERS[1:20], c("p", "q")))
    expect_identical(names(solver(a, gpu(b[, 1]))$x), LETTERS[1:20])
    for (dtype in c("float32", "float16", "bfloat16")) {
      fit <- solver(gpu(a, dtype), gpu(b))
      expect_identical(gpu_dtype(fit$x), "float32")
      expect_equal(fit$tol, 1e-5)
      expect_true(all(fit$converged))
    }
    expect_identical(gpu_dtype(solver(gpu(a), gpu(b, "float32"))$x), "float64")
    expect_identical(gpu_dtype(solver(a, gpu(b, "float32"))$x), "float32")
  }
  expect_identical(gpu_dtype(gpu_cg(function(x) gpu(a, "float32") %*% x, gpu(b, "float32"))$x), "float32")
})

test_that("a matrix that is not definite, or too few iterations, give a warning and what there is", {
  a <- definite(20, 1e4)
  b <- rnorm(20)
  expect_warning(fit <- gpu_cg(gpu(a), b, max_iter = 3), "after 3 iterations.*max_iter", class =
    "verdigris_warning_convergence")
  expect_identical(fit$iterations, 3L)
  expect_false(fit$converged)
  expect_equal(fit$residual, residual_of(a, fit$x, b), tolerance = 1e-6)
  expect_output(print(fit), "did not converge.*3 iterations, relative residual.*max_iter")
  expect_output(print(gpu_cg(gpu(a), b)), "conjugate gradients: converged")
  expect_warning(fit <- gpu_cg(gpu(-a), b), "not positive definite", class = "verdigris_warning_convergence")
  expect_identical(collect(fit$x), numeric(20))
  expect_warning(gpu_cg(gpu(diag(c(1, -1))), c(1, 1)), "not positive definite")
  expect_warning(gpu_cg(gpu(a), b, preconditioner = function(r) -r), "not positive definite")
  # of several right sides those that converge do
  expect_warning(fit <- gpu_cg(gpu(diag(c(1, -1))), diag(2)), "1 of 2 right sides")
  expect_identical(fit$converged, c(TRUE, FALSE))
  expect_equal(collect(fit$x[, 1]), c(1, 0))
  for (solver in list(gpu_gmres, gpu_lsqr)) expect_warning(solver(gpu(a), b, max_iter = 2), "max_iter",
    class = "verdigris_warning_convergence")
  expect_warning(fit <- gpu_cg(gpu(a), b, max_iter = 0))
  expect_identical(fit$residual, 1)
})

test_that("elements that are not finite are refused by the name of their argument", {
  a <- definite(6, 10)
  b <- rnorm(6)
  refused <- function(code, pattern) expect_error(code, pattern, class = "verdigris_error_argument")
  for (solver in list(gpu_cg, gpu_gmres, gpu_lsqr)) for (odd in c(NA, NaN, Inf)) {
    refused(solver(gpu(a), replace(b, 2, odd)), "`b` has missing or infinite")
    refused(solver(gpu(a), b, x0 = replace(b, 6, odd)), "`x0` has missing or infinite")
    refused(solver(gpu(replace(a, 4, odd)), b), "product with `A`")
    refused(composed(solver(gpu(replace(a, 4, odd)), b)), "product with `A`")
    refused(solver(function(x) gpu(a) %*% x * odd, b), if (identical(solver, gpu_lsqr)) "dim" else "product with `A`")
  }
  refused(gpu_cg(gpu(a), b, preconditioner = function(r) r * NA), "product with `A`, or")
  refused(gpu_cg(gpu(replace(a, 8, 0)), b, preconditioner = "diagonal"), "has a zero at row 2")
  refused(gpu_gmres(gpu(replace(a, 8, NA)), b, preconditioner = "diagonal"), "missing or infinite element at row 2")
})

test_that("wrong arguments and shapes are refused by name", {
  a <- definite(6, 10)
  b <- rnorm(6)
  refused <- function(code, pattern, kind = "argument") expect_error(code, pattern,
    class = paste0("verdigris_error_", kind))
  for (solver in list(gpu_cg, gpu_gmres, gpu_lsqr)) {
    for (odd in list(NULL, "a", list(1), a + 1i, 1:3, array(1, c(2, 2, 2)), factor(1), as.Date("2020-01-01"), quote(x),
      data.frame(a = 1))) refused(solver(odd, b), "`A` must be a matrix of real numbers")
    for (odd in list(NULL, "a", list(1), b + 1i, array(1, c(6, 1, 1)), factor(1:6), sum, quote(x)))
      refused(solver(gpu(a), odd), "`b` must be a vector or matrix")
    refused(solver(gpu(a), b[-1]), "as many rows as `A` \\(6\\), not 5", "shape")
    refused(solver(gpu(a), t(b)), "as many rows as `A`", "shape")
    for (odd in list("a", list(1), b + 1i, sum)) refused(solver(gpu(a), b, x0 = odd), "`x0` must be")
    refused(solver(gpu(a), b, x0 = b[-1]), "`x0` must be 6 x 1, not 5 x 1", "shape")
    for (odd in list(NA, -1, "a", c(1, 2), Inf, list(1))) refused(solver(gpu(a), b, tol = odd), "`tol` must be one")
    for (odd in list(NA, -1, "a", c(1, 2), Inf)) refused(solver(gpu(a), b, max_iter = odd), "`max_iter` must be one")
  }
  for (solver in list(gpu_cg, gpu_gmres)) {
    refused(solver(gpu(a[, 1:3]), b), "`A` must be square, not 6 x 3", "shape")
    for (odd in list("jacobi", 1, NA, a)) refused(solver(gpu(a), b, preconditioner = odd), "`preconditioner` must be")
    refused(solver(function(x) x, b, preconditioner = "diagonal"), "needs a matrix")
    refused(solver(gpu(a), b, preconditioner = function(r) r[-1]), "`preconditioner` must return a matrix of 6 rows",
      "shape")
    for (odd in list(function(x) x[-1], function(x) rbind(x, x), function(x) numeric()))
      refused(solver(odd, b), "`A` must return a matrix of 6 rows", "shape")
    expect_equal(collect(solver(function(x) t(2 * x), b)$x), b / 2)
    for (odd in list(function(x) NULL, function(x) "a", function(x) x + 1i, function(x) list(x)))
      refused(solver(odd, b), "`A` must return real numbers")
    # another's error is passed on
    expect_error(solver(function(x) stop("mine"), b), "mine")
  }
  refused(gpu_cg(function(x) t(x), cbind(b, b)), "takes each column", "shape")
  for (odd in list(0, NA, "a", c(1, 2), -3)) refused(gpu_gmres(gpu(a), b, restart = odd), "`restart` must be one")
  for (odd in list(-1, NA, "a", c(1, 2), Inf)) refused(gpu_lsqr(gpu(a), b, damp = odd), "`damp` must be one")
  for (odd in list(NULL, 6, c(6, NA), c("a", "b"), c(-1, 6), c(6, 2.5))) refused(gpu_lsqr(function(x) x, b, dim = odd),
    "`dim` must be")
  refused(gpu_lsqr(function(x) x, b, dim = c(6, 6)), "`transpose` must be")
  refused(gpu_lsqr(function(x) x, b, dim = c(6, 6), transpose = 3), "`transpose` must be")
  refused(gpu_lsqr(function(x) x, b, dim = c(6, 6), transpose = function(y) y[-1]), "`transpose` must return a matrix",
    "shape")
  refused(gpu_lsqr(gpu(a), b, dim = c(6, 6)), "`dim` must be NULL unless")
  expect_error(gpu_cg(gpu(a)), "\"b\" is missing")
})

test_that("a call can be interrupted", {
  a <- gpu(definite(50, 1e12))
  b <- rnorm(50)
  slowly <- function(x) {
    Sys.sleep(0.02)
    a %*% x
  }
  for (solver in list(gpu_cg, function(...) gpu_gmres(..., restart = 50), function(...) gpu_lsqr(..., dim = c(50, 50),
    transpose = slowly))) {
    took <- system.time(expect_error({
      setTimeLimit(elapsed = 0.3, transient = TRUE)
      tryCatch(quietly(solver(slowly, b, tol = 0, max_iter = 1e6)), finally = setTimeLimit())
    }, "time limit"))[["elapsed"]]
    expect_lt(took, 20)
  }
})
