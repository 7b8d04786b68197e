# Solving and factoring: residuals beside base R's, base R's shapes, dimnames and errors.

access <- options(verdigris.host_access = "allow")
on_gpu <- test_device != "cpu"

# Base R's outcome and ours: the same error, or values that are near; attributes and type are base R's.
near <- function(f, args, tol = 1e-8, what = "") {
  cases$n <- cases$n + 1L
  want <- outcome(do.call(f, lapply(args, function(x) if (is.list(x)) x[[1L]] else x)))
  got <- outcome(do.call(f, lapply(args, function(x) if (is.list(x)) x[[1L]] else gpu(x))))
  plain <- function(a) if (length(a)) a[order(names(a))]
  same <- function(a, b) {
    if (inherits(a, "failed") || inherits(b, "failed")) return(identical(unclass(a), unclass(b)))
    identical(typeof(a), typeof(b)) && identical(plain(attributes(a)), plain(attributes(b))) &&
      isTRUE(all.equal(a, b, tolerance = tol))
  }
  short <- function(v) if (inherits(v, "failed")) structure(list(message = sub("number = .*", "number =", v$message)),
    class = "failed") else v
  if (!same(short(want$value), short(got$value)))
    return(sprintf("%s: %s is not %s", what, paste(deparse(got$value, nlines = 3L), collapse = ""),
    paste(deparse(want$value, nlines = 3L), collapse = "")))
  if (!identical(want$warnings, got$warnings)) sprintf("%s: warnings %s", what, deparse1(got$warnings))
}

hilbert <- function(n) outer(seq_len(n), seq_len(n), function(i, j) 1 / (i + j - 1))
matrices <- function() {
  set.seed(11)
  m <- matrix(rnorm(25), 5L)
  list(
    general = m, named = `dimnames<-`(m, list(letters[1:5], LETTERS[1:5])),
      rows = `dimnames<-`(m, list(letters[1:5], NULL)), columns = `dimnames<-`(m, list(NULL, A = LETTERS[1:5])),
    one = matrix(2), zero = matrix(0), hilbert = hilbert(4L), hilbert12 = hilbert(12L), hilbert14 = hilbert(14L),
      singular = matrix(1, 3L, 3L), zeros = matrix(0, 3L, 3L),
    integer = matrix(c(2L, 1L, 1L, 3L), 2L), logical = matrix(c(TRUE, FALSE, TRUE, TRUE), 2L),
      complex = matrix(complex(real = m, imaginary = rev(m)), 5L), empty = matrix(0, 0L, 0L), wide = m[1:2, ],
      tall = m[, 1:2],
    columns_only = m[, 0L], permuted = diag(5L)[c(3, 1, 5, 2, 4), ] * 1, triangle = {
      t <- m
      t[lower.tri(t)] <- 0
      t
    }, definite = crossprod(m) + diag(5L), indefinite = diag(c(1, -1, 1)), vector = 1:3 + 0,
      three = array(1, c(2, 2, 2)), missing = replace(m, 7L, NA), huge = m * 1e200, tiny = m * 1e-200,
    # a unit diagonal and yet singular to a computer
    wilkinson = diag(60L) - upper.tri(diag(60L))
  )
}

test_that("solve() is base R's", {
  found <- list()
  ms <- matrices()
  for (k in names(ms)) {
    a <- ms[[k]]
    n <- NROW(a)
    sides <- list(none = NULL, vector = seq_len(n) / 7, matrix = `dimnames<-`(matrix(seq_len(2L * n) / 3, n, 2L),
      list(NULL, c("u", "v"))), plain = matrix(seq_len(n) + 0, n, 1L), none_at_all = matrix(0, n, 0L),
      short = c(1, 2, 3, 4, 5, 6, 7), complex = seq_len(n) * 1i, named = setNames(seq_len(n) + 0, seq_len(n)),
      text = rep("a", n))
    tol <- if (k == "hilbert12") 1 else 1e-8
    for (b in names(sides)) {
      args <- c(list(a), if (!is.null(sides[[b]])) list(sides[[b]]))
      what <- sprintf("solve(%s, %s)", k, b)
      if (b != "text") found <- c(found, near(solve, args, tol, what))
      if (length(args) > 1L) found <- c(found, near(solve, list(a, list(sides[[b]])), tol, paste(what, "(host)")))
    }
    found <- c(found, near(function(a) solve(a, tol = 0), list(a), 10, paste("without tol", k)),
      near(function(a) solve(a, tol = 1e-2), list(a), tol, paste("with a large tol", k)))
  }
  expect_all_same(Filter(function(s) !is.null(s) && !grepl("without tol hilbert14|solve\\(hilbert14, complex", s),
    found))
})

test_that("what solve() gives solves", {
  set.seed(12)
  for (n in c(1L, 2L, 33L, 70L))
    for (dtype in c("float64", "float32", "float16", "bfloat16", "complex128", "complex64")) {
    complex <- startsWith(dtype, "complex")
    draw <- function(m, k) matrix(if (complex) complex(real = rnorm(m * k), imaginary = rnorm(m * k)) else rnorm(m * k),
      m)
    a <- gpu(draw(n, n) + diag(n), dtype)
    b <- gpu(draw(n, 3L), dtype)
    x <- solve(a, b)
    expect_identical(gpu_dtype(x), dtype)
    expect_identical(gpu_device(x), test_device)
    eps <- epsilon[[dtype]]
    h <- collect(a)
    expect_lte(max(Mod(h %*% collect(x) - collect(b))), 50 * n * eps * max(Mod(h)) * max(Mod(collect(x)), 1))
    inverse <- solve(a)
    expect_lte(max(Mod(h %*% collect(inverse) - diag(n))), 50 * n * eps * max(Mod(h)) * max(Mod(collect(inverse)), 1))
    if (n > 2L) expect_equal(collect(solve(t(a), b)), solve(t(h), collect(b)), tolerance = 1e4 * eps)
  }
})

test_that("narrow matrices are singular where base R finds the values so", {
  set.seed(13)
  m <- matrix(rnorm(36), 6L)
  m[, 6L] <- m[, 1L]
  for (dtype in c("float32", "float16")) {
    x <- gpu(m, dtype)
    expect_error(solve(x, 1:6), "singular")
    expect_error(solve(x), "singular")
  }
  # too near for float32, and not for float64
  h <- gpu(hilbert(7L), "float32")
  expect_equal(collect(solve(h)), solve(collect(h)), tolerance = 1e-5)
  expect_identical(gpu_dtype(solve(h)), "float32")
  s <- crossprod(hilbert(5L))
  x <- gpu(s, "float32")
  expect_equal(outcome(chol(x))$value, outcome(chol(collect(x)))$value, tolerance = 1e-3)
})

test_that("chol(), chol2inv(), backsolve() and forwardsolve() are base R's", {
  found <- list()
  ms <- matrices()
  ms$flipped <- t(ms$triangle)
  for (k in names(ms)) {
    a <- ms[[k]]
    # rounding decides which minor of the largest is the first that is not positive
    if (k == "hilbert14") expect_error(chol(gpu(a)), "minor") else if (k != "missing")
      found <- c(found, near(chol, list(a), 1e-7, paste("chol", k)))
    if (k %in% c("definite", "hilbert", "singular")) {
      got <- suppressWarnings(chol(gpu(a), pivot = TRUE))
      want <- suppressWarnings(chol(a, pivot = TRUE))
      expect_true(is_gpu(got))
      expect_identical(attributes(got)[c("pivot", "rank")], attributes(want)[c("pivot", "rank")])
      expect_equal(collect(got), want, ignore_attr = TRUE)
    }
    found <- c(found, near(chol2inv, list(a), 1e-6, paste("chol2inv", k)), near(function(a) chol2inv(a, 2), list(a),
      1e-6, paste("chol2inv size", k)), near(function(a)
      chol2inv(a, size = 9), list(a), 1e-6, paste("chol2inv large", k)))
    n <- NROW(a)
    for (side in list(seq_len(n) / 3, matrix(seq_len(2L * n) + 0, n, 2L, dimnames = list(NULL, c("p", "q"))), 1,
      matrix(1:2 + 0, 2L))) for (f in c("backsolve", "forwardsolve")) {
      g <- get(f)
      what <- sprintf("%s(%s, %s)", f, k, deparse1(dim(side) %||% length(side)))
      found <- c(found, near(g, list(a, side), 1e-6, what), near(g, list(list(a), side), 1e-6, paste("(host)", what)),
        near(g, list(a, list(side)), 1e-6, paste(what, "(host)")))
      found <- c(found, near(function(a, x) g(a, x, transpose = TRUE), list(a, side), 1e-6, paste(what, "transposed")),
        near(function(a, x) g(a, x, upper.tri = f != "backsolve"), list(a, side), 1e-6, paste(what, "other")))
      found <- c(found, near(function(a, x) g(a, x, k = 2), list(a, side), 1e-6, paste(what, "k")),
        near(function(a, x) g(a, x, k = 0), list(a, side), 1e-6, paste(what, "no k")))
    }
  }
  expect_all_same(found)
})

test_that("a factor of a matrix that is a view, or recorded, is its factor", {
  set.seed(14)
  m <- matrix(rnorm(48), 8L)
  x <- gpu(m)
  s <- crossprod(m[2:7, 1:5]) + diag(5L)
  expect_equal(collect(chol(crossprod(x[2:7, 1:5]) + diag(5L))), chol(s))
  expect_equal(collect(solve(x[1:6, ] + 1, x[1:6, 2])), solve(m[1:6, ] + 1, m[1:6, 2]))
  expect_equal(collect(backsolve(x[3:8, ], x[3:8, 2:3])), backsolve(m[3:8, ], m[3:8, 2:3]))
  expect_equal(collect(backsolve(t(x[3:8, ]), x[3:8, 2])), backsolve(t(m[3:8, ]), m[3:8, 2]))
  # the arrays themselves have not changed
  expect_identical(collect(x), m)
})

test_that("determinants and norms are base R's", {
  found <- list()
  ms <- matrices()
  for (k in names(ms)) {
    a <- ms[[k]]
    if (!k %in% c("vector", "three")) {
      tol <- c(hilbert12 = 1e-3)[k]
      if (is.na(tol)) tol <- 1e-6
      if (k != "hilbert14")
        found <- c(found, near(det, list(a), 100 * tol, paste("det", k)), near(determinant, list(a), tol,
        paste("determinant", k)), near(function(a) determinant(a, logarithm = FALSE), list(a), 100 * tol,
        paste("no logarithm", k)))
    }
    for (type in c("O", "I", "F", "M", "2", "1", "e", "x", ""))
      found <- c(found, composed(near(function(a) norm(a, type), list(a), 1e-10, paste("norm", type, k))))
    found <- c(found, composed(near(norm, list(a), 1e-10, paste("norm", k))))
  }
  expect_all_same(found)
  expect_true(is.double(norm(gpu(hilbert(3L)))))
  expect_false(is_gpu(det(gpu(hilbert(3L)))))
})

test_that("condition numbers are base R's", {
  found <- list()
  ms <- matrices()
  for (k in setdiff(names(ms), c("missing", "vector", "three", "empty", "columns_only"))) {
    a <- ms[[k]]
    # rounding decides what of a singular matrix is seen
    tol <- if (k %in% c("hilbert14", "hilbert12")) 10 else 1e-4
    for (norm in c("O", "I")) found <- c(found, near(function(a) rcond(a, norm), list(a), tol, paste("rcond", norm, k)))
    if (k != "complex") found <- c(found, near(function(a) rcond(a, triangular = TRUE), list(a), 1e-4,
      paste("rcond triangular", k)))
    if (k != "complex" && !is.null(formals(base::rcond)$uplo))
      found <- c(found, near(function(a) rcond(a, triangular = TRUE, uplo = "L"), list(a), 1e-4,
      paste("rcond lower", k)))
    if (!k %in% c("complex", "zero", "zeros", "singular", "huge", "tiny", "wide", "logical"))
      found <- c(found, near(kappa, list(a), tol, paste("kappa", k)))
    if (k != "complex") found <- c(found, near(function(a) kappa(a, exact = TRUE), list(a),
      if (k == "singular") 1e300 else if (k == "wilkinson") 1 else tol, paste("exact kappa", k)))
  }
  expect_all_same(found)
})

test_that("isSymmetric() is base R's", {
  m <- crossprod(matrix(c(1, 2, 4, 1, 0, 3, 2, 2, 5), 3L))
  for (by in c(0, 1e-16, 1e-14, 1e-13, 1e-12, 1e-3, NA, Inf)) {
    near_m <- m
    near_m[2L, 3L] <- m[2L, 3L] * (1 + by)
    expect_identical(isSymmetric(gpu(near_m)), isSymmetric(near_m), info = by)
  }
  for (v in list(matrix(1, 2L, 3L), matrix(2L), matrix(0, 0L, 0L), diag(3L) * 1i, matrix(c(1, 1i, -1i, 1), 2L)))
    expect_identical(isSymmetric(gpu(v)), isSymmetric(v))
})

test_that("what goes through the host says so, or is refused", {
  skip_if(!on_gpu)
  s <- crossprod(matrix(c(1, 2, 4, 1, 0, 3, 2, 2, 5), 3L)) + diag(3L)
  before <- options(verdigris.host_access = "error")
  on.exit(options(before))
  expect_error(chol(gpu(s), pivot = TRUE), class = "verdigris_error_host_access")
  expect_identical(dim(chol(gpu(s))), c(3L, 3L))
  expect_identical(dim(solve(gpu(s))), c(3L, 3L))
  expect_error(solve(gpu(matrix(1, 2L, 2L))), "exactly singular")
})

test_that("arrays keep their functions where Matrix is attached later", {
  skip_if_not_installed("Matrix")
  out <- in_new_r(
    "suppressMessages(library(Matrix))", "options(verdigris.host_access = 'error')",
      sprintf("x <- as_gpu(matrix(c(4, 1, 1, 3), 2), device = '%s')", test_device), "q <- qr(x)",
    "values <- list(crossprod(x), tcrossprod(x), crossprod(x, diag(2)), crossprod(diag(2), x), chol(x), chol2inv(chol(x)), solve(x), solve(x, 1:2), q$qr, qr.Q(q), qr.R(q), qr.X(q), qr.coef(q, 1:2), qr.fitted(q, 1:2), qr.qty(q, 1:2), svd(x)$u, backsolve(x, 1:2))",
    "cat(vapply(values, is_gpu, NA), is.double(norm(x)), is.double(norm(x, 'F')), is.double(rcond(x)), is.double(rcond(x, 'I')), is.double(det(x)))"
  )
  expect_identical(out[length(out)], paste(rep("TRUE", 22L), collapse = " "))
})

test_that("solving does not touch R's generator", {
  set.seed(1)
  before <- .Random.seed
  invisible(solve(gpu(hilbert(3L)), 1:3))
  expect_identical(.Random.seed, before)
})

test_that("the cases of solving are as many as they were", {
  expect_cases(1500L)
})
options(access)
