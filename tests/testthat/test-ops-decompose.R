# QR, singular values and eigenvalues: base R's decompositions, and residuals where the signs of vectors may differ.

access <- options(verdigris.host_access = "allow")
on_gpu <- test_device != "cpu"
products <- verdigris:::products

hilbert <- function(n) outer(seq_len(n), seq_len(n), function(i, j) 1 / (i + j - 1))
inputs <- function() {
  set.seed(21)
  m <- matrix(rnorm(40), 8L)
  list(
    tall = m, named = `dimnames<-`(m, list(letters[1:8], LETTERS[1:5])),
      columns = `dimnames<-`(m, list(NULL, LETTERS[1:5])), rows = `dimnames<-`(m, list(letters[1:8], NULL)),
      wide = t(m), square = m[1:5, ], one = matrix(3), column = m[, 1L, drop = FALSE], row = m[1L, , drop = FALSE],
    hilbert = hilbert(6L), hilbert9 = hilbert(9L), doubled = cbind(a = 1, b = 1:8, c = 2 * (1:8), d = m[, 1L]),
      first = cbind(0, m[, 1:3]), constant = matrix(1, 4L, 3L), zeros = matrix(0, 3L, 2L),
      wide_doubled = cbind(m[1:3, 1L], m[1:3, 1L], m[1:3, 2:5]),
    integer = matrix(c(2L, 1L, 1L, 3L, 5L, 4L), 3L), logical = matrix(c(TRUE, FALSE, TRUE, TRUE), 2L),
      scaled = m %*% diag(10^(0:4 * 30)), identity = diag(4L), upper = diag(4L) + upper.tri(diag(4L)),
      no_rows = m[0L, ], no_columns = m[, 0L]
  )
}

alike <- function(got, want, tol, what) {
  got <- collect(got)
  plain <- function(a) if (length(a)) a[order(names(a))]
  ok <- identical(typeof(got), typeof(want)) && identical(plain(attributes(got)), plain(attributes(want))) &&
    isTRUE(all.equal(got, want, tolerance = tol))
  expect(ok, sprintf("%s: %s is not %s", what, paste(deparse(got, nlines = 4L), collapse = ""),
    paste(deparse(want, nlines = 4L), collapse = "")))
}

test_that("qr() and its family are base R's", {
  xs <- inputs()
  for (k in names(xs)) {
    x <- xs[[k]]
    want <- qr(x)
    got <- qr(gpu(x))
    expect_identical(class(got), c("gpu_qr", "qr"))
    expect_true(is_gpu(got$qr))
    expect_identical(got[c("rank", "pivot")], unclass(want)[c("rank", "pivot")], info = k)
    tol <- if (k == "hilbert9") 1e-4 else 1e-8
    alike(got, want, tol, paste("qr", k))
    n <- nrow(x)
    ys <- list(setNames(sin(seq_len(n)), seq_len(n)), matrix(cos(seq_len(2L * n)), n, 2L,
      dimnames = list(NULL, c("u", "v"))), matrix(seq_len(n), n, 1L))
    calls <- list(qr.R = function(q) qr.R(q), complete_R = function(q) qr.R(q, TRUE), qr.Q = function(q) qr.Q(q),
      complete_Q = function(q) qr.Q(q, TRUE), scaled_Q = function(q) qr.Q(q, Dvec = seq_len(min(dim(q$qr)))),
      qr.X = function(q) qr.X(q), complete_X = function(q) qr.X(q, TRUE), some_X = function(q) qr.X(q, ncol = 1),
                  solve = function(q) solve(q), qr.solve = function(q) qr.solve(q))
    for (y in ys) local({
      y <- y
      on <- function(f) function(q) f(q, if (inherits(q, "gpu_qr")) gpu(y) else y)
      calls <<- c(calls, list(qty = on(qr.qty), qy = on(qr.qy), coef = on(qr.coef), fitted = on(qr.fitted),
        fitted1 = on(function(q, y) qr.fitted(q, y, 1)), resid = on(qr.resid), solve_y = on(function(q, y) solve(q, y)),
        qr.solve_y = on(qr.solve), host = function(q) qr.coef(q, y)))
    })
    calls$short <- function(q) qr.coef(q, 1:99 + 0)
    calls$short_qty <- function(q) qr.qty(q, 1:99 + 0)
    calls$too_many <- function(q) qr.fitted(q, seq_len(n), 99)
    calls$missing <- function(q) qr.coef(q, replace(sin(seq_len(n)), n, NA))
    for (f in seq_along(calls)) {
      a <- outcome(calls[[f]](want))$value
      b <- outcome(calls[[f]](got))$value
      what <- paste(names(calls)[f], "of", k)
      if (inherits(a, "failed") || inherits(b, "failed")) expect_identical(b, a, info = what) else
        alike(b, a, tol, what)
    }
  }
})

test_that("base R's functions take the decomposition", {
  set.seed(22)
  x <- matrix(rnorm(40), 8L)
  q <- qr(gpu(x))
  expect_equal(as.vector(base::qr.coef(q, sin(1:8))), base::qr.coef(qr(x), sin(1:8)))
  expect_equal(base::qr.qty(collect(q), sin(1:8)), qr.qty(qr(x), sin(1:8)))
  expect_true(is.qr(q))
  expect_equal(solve(collect(qr(gpu(x[1:5, ]))), 1:5), solve(qr(x[1:5, ]), 1:5))
})

test_that("narrow matrices have the rank that base R finds in their values", {
  set.seed(23)
  x <- cbind(1, matrix(round(rnorm(60), 2), 20L))
  x <- cbind(x, x[, 2L] + x[, 3L])
  for (dtype in c("float32", "float16", "bfloat16")) {
    y <- gpu(x, dtype)
    want <- qr(collect(y))
    got <- qr(y)
    expect_identical(got$rank, want$rank)
    expect_identical(got$pivot, want$pivot)
    good <- qr(y[, 1:4])
    expect_identical(good$rank, 4L)
    expect_identical(gpu_dtype(good$qr), dtype)
    expect_equal(collect(qr.X(good)), collect(y)[, 1:4], tolerance = 50 * epsilon[[dtype]])
  }
})

test_that("qr() takes views and what is recorded, and what is not finite says so as base R does", {
  set.seed(24)
  m <- matrix(rnorm(60), 10L)
  x <- gpu(m)
  alike(qr(x[2:9, c(1, 3, 5)]), qr(m[2:9, c(1, 3, 5)]), 1e-10, "rows and columns")
  alike(qr(t(x)), qr(t(m)), 1e-10, "transposed")
  alike(qr(x * 2 + 1), qr(m * 2 + 1), 1e-10, "recorded")
  m[3L] <- NA
  expect_identical(outcome(qr(gpu(m)))$value$message, outcome(qr(m))$value$message)
  expect_identical(collect(qr(gpu(hilbert(3L) * 1i)))$rank, qr(hilbert(3L) * 1i)$rank)
  alike(qr(gpu(hilbert(4L)), LAPACK = TRUE), qr(hilbert(4L), LAPACK = TRUE), 1e-10, "LAPACK")
  expect_identical(qr(gpu(hilbert(9L)), tol = 1e-3)$rank, qr(hilbert(9L), tol = 1e-3)$rank)
})

# NIST's Statistical Reference Datasets, linear least squares (https://www.itl.nist.gov/div898/strd/): certified
# coefficients, their standard errors and the residual sum of squares. Longley's data ship with R, Filip's are in data/,
# and Wampler's are a polynomial and multiples of one disturbance.
certified <- list(
  longley = list(coef = c(-3482258.63459582, 15.0618722713733, -0.358191792925910e-01, -2.02022980381683,
    -1.03322686717359, -0.511041056535807e-01, 1829.15146461355),
    se = c(890420.383607373, 84.9149257747669, 0.334910077722432e-01, 0.488399681651699, 0.214274163161675,
      0.226073200069370, 455.478499142212), rss = 836424.055505915),
  filip = list(coef = c(-1467.48961422980, -2772.17959193342, -2316.37108160893, -1127.97394098372, -354.478233703349,
    -75.1242017393757, -10.8753180355343, -1.06221498588947, -0.670191154593408e-01, -0.246781078275479e-02,
    -0.402962525080404e-04),
    se = c(298.084530995537, 559.779865474950, 466.477572127796, 227.204274477751, 71.6478660875927, 15.2897178747400,
      2.23691159816033, 0.221624321934227, 0.142363763154724e-01, 0.535617408889821e-03, 0.896632837373868e-05),
      rss = 0.795851382172941e-03),
  wampler3 = list(coef = rep(1, 6L), se = c(2152.32624678170, 2363.55173469681, 779.343524331583, 101.475507550350,
    5.64566512170752, 0.112324854679312), rss = 83554268)
)
disturbance <- c(759, -2048, 2048, -2048, 2523, -2048, 2048, -2048, 1838, -2048, 2048, -2048, 1838, -2048, 2048, -2048,
  2523, -2048, 2048, -2048, 759)

# The greatest relative error of what NIST certifies, as qr() of an array gives it.
certified_error <- function(x, y, certified, tol) {
  q <- qr(gpu(x), tol = tol)
  expect_identical(q$rank, ncol(x))
  coef <- as.vector(qr.coef(q, gpu(y)))
  residual <- as.vector(qr.resid(q, gpu(y)))
  rss <- sum(residual^2)
  inverse <- collect(chol2inv(qr.R(q)))
  se <- sqrt(diag(inverse) * rss / (nrow(x) - ncol(x)))
  max(abs(c(coef / certified$coef, se / certified$se, rss / certified$rss) - 1))
}

test_that("regressions have NIST's certified values, and lm()'s", {
  d <- as.matrix(longley[c("GNP.deflator", "GNP", "Unemployed", "Armed.Forces", "Population", "Year")])
  x <- cbind(1, sweep(d, 2L, c(1, 1000, 10, 10, 1000, 1), "*")) # in NIST's units
  y <- longley$Employed * 1000
  expect_lt(certified_error(x, y, certified$longley, 1e-7), 1e-7)
  expect_equal(as.vector(qr.coef(qr(gpu(cbind(1, d))), gpu(y))), unname(coef(lm(y ~ d))), tolerance = 1e-8)

  t <- 0:20
  wampler <- outer(t, 0:5, `^`)
  q <- qr(gpu(wampler))
  expect_identical(collect(q)[c("rank", "pivot")], unclass(qr(wampler))[c("rank", "pivot")])
  expect_equal(as.vector(qr.coef(q, gpu(rowSums(wampler)))), rep(1, 6L), tolerance = 1e-7)
  expect_equal(as.vector(qr.coef(q, gpu(drop(wampler %*% 10^-(0:5))))), 10^-(0:5), tolerance = 1e-7)
  for (size in c(1, 100, 10000)) {
    of <- certified$wampler3
    of[c("se", "rss")] <- list(of$se * size, of$rss * size^2)
    expect_lt(certified_error(wampler, rowSums(wampler) + size * disturbance, of, 1e-7), 1e-5)
  }

  # a polynomial of degree 10 with a condition number of 1.8e15: R's own error is 6e-8, at a tolerance that keeps all
  # columns
  filip <- utils::read.csv(test_path("data", "nist-filip.csv"))
  powers <- outer(filip$x, 0:10, `^`)
  expect_lt(certified_error(powers, filip$y, certified$filip, 1e-10), 1e-5)
  for (tol in c(1e-7, 1e-10)) {
    q <- qr(gpu(powers), tol = tol)
    base <- qr(powers, tol = tol)
    expect_identical(q$rank, base$rank)
    expect_identical(q$pivot, base$pivot)
    expect_equal(is.na(as.vector(qr.coef(q, gpu(filip$y)))), is.na(qr.coef(base, filip$y)))
    expect_equal(as.vector(qr.fitted(q, gpu(filip$y))), qr.fitted(base, filip$y), tolerance = 1e-6)
  }
})

rebuilt <- function(s) s$u %*% (s$d * (if (is.complex(s$v)) Conj(t(s$v)) else t(s$v)))

test_that("svd() is base R's, but for signs", {
  xs <- c(inputs(), list(complex = hilbert(4L) * 1i + diag(4L),
    complex_wide = matrix(complex(real = 1:6, imaginary = 6:1), 2L)))
  for (polar in c(TRUE, FALSE)) {
    products$polar <- polar
    for (k in setdiff(names(xs), c("no_rows", "no_columns"))) {
      x <- xs[[k]]
      want <- svd(x)
      got <- lapply(svd(gpu(x)), collect)
      expect_identical(lapply(got, attributes), lapply(want, attributes), info = k)
      tol <- 1e-12 * max(want$d, 1e-300)
      expect_lte(max(abs(got$d - want$d)), tol)
      expect_lte(max(Mod(rebuilt(got) - x)), tol * 10)
      expect_equal(Conj(t(got$u)) %*% got$u, diag(ncol(got$u)) * (got$u[1L] * 0 + 1), tolerance = 1e-10, info = k)
      expect_equal(Conj(t(got$v)) %*% got$v, diag(ncol(got$v)) * (got$v[1L] * 0 + 1), tolerance = 1e-10, info = k)
      n <- nrow(x)
      p <- ncol(x)
      for (counts in list(c(0, 0), c(1, 0), c(0, 1), c(n, p), c(n, 0), c(1, p))) {
        want <- svd(x, counts[1L], counts[2L])
        got <- lapply(svd(gpu(x), counts[1L], counts[2L]), collect)
        expect_identical(lapply(got, attributes), lapply(want, attributes), info = paste(k, deparse1(counts)))
        expect_lte(max(abs(got$d - want$d)), tol)
        if (counts[1L] == n) expect_equal(Conj(t(got$u)) %*% got$u, diag(n) * (got$u[1L] * 0 + 1), tolerance = 1e-10)
      }
    }
  }
  products$polar <- TRUE
  for (bad in list(xs$no_rows, xs$no_columns, matrix(c(1, NA, 2, 3), 2L), matrix(c(1, Inf, 2, 3), 2L)))
    expect_identical(outcome(svd(gpu(bad)))$value, outcome(svd(bad))$value)
  for (dtype in c("float32", "float16", "complex64")) {
    s <- svd(gpu(hilbert(5L) + 0, dtype))
    expect_identical(gpu_dtype(s$u), dtype)
    expect_identical(gpu_dtype(s$d), if (dtype == "complex64") "float32" else dtype)
  }
})

test_that("eigen() is base R's, but for signs", {
  set.seed(25)
  m <- matrix(rnorm(36), 6L)
  xs <- list(symmetric = crossprod(m), indefinite = m + t(m), general = m,
    named = `dimnames<-`(m + t(m), list(letters[1:6], letters[1:6])), identity = diag(3L), one = matrix(-2),
    hilbert = hilbert(7L), rotation = matrix(c(0, 1, 0, 0, 0, 1, 1, 0, 0), 3L), integer = matrix(c(2L, 1L, 1L, 3L), 2L),
    upper = m * upper.tri(m, TRUE), hermitian = (m + t(m)) + 1i * (m - t(m)), zeros = matrix(0, 2L, 2L),
             complex = m + 1i * t(m), defective = matrix(c(1, 0, 1, 1), 2L), float = m * 1e-200)
  for (k in names(xs)) for (only in c(FALSE, TRUE)) for (symmetric in list(NULL, TRUE, FALSE)) {
    x <- xs[[k]]
    args <- c(if (!is.null(symmetric)) list(symmetric = symmetric), list(only.values = only))
    want <- do.call(eigen, c(list(x), args))
    got <- do.call(eigen, c(list(gpu(x)), args))
    what <- paste(k, only, deparse1(symmetric))
    expect_identical(class(got), class(want), info = what)
    expect_identical(names(got), names(want), info = what)
    expect_true(is_gpu(got$values), info = what)
    values <- collect(got$values)
    expect_identical(typeof(values), typeof(want$values), info = what)
    scale <- max(Mod(want$values), 1e-300)
    # a conjugate pair, or a value of multiplicity, may come in the other order
    apart <- max(vapply(values, function(v) min(Mod(v - want$values)), 0))
    expect_lte(apart, (if (k == "defective") 1e-7 else 1e-12) * scale, label = what)
    as_symmetric <- if (is.null(symmetric)) isSymmetric(unname(x)) else symmetric
    expect_false(is.unsorted(-round(if (as_symmetric) Re(values) / scale else Mod(values) / scale, 10)), info = what)
    if (only) next
    v <- collect(got$vectors)
    expect_identical(dim(v), dim(want$vectors))
    # base R reads the lower triangle of what it is told is symmetric
    h <- unname(x)
    if (as_symmetric) {
      h[upper.tri(h)] <- if (is.complex(h)) Conj(t(h)[upper.tri(h)]) else t(h)[upper.tri(h)]
      if (is.complex(h)) diag(h) <- Re(diag(h))
    }
    expect_lte(max(Mod(h %*% v - v %*% diag(values, length(values)))), 1e-11 * scale * length(values), label = what)
    expect_equal(colSums(Mod(v)^2), rep(1, ncol(v)), tolerance = 1e-8, info = what)
  }
  for (bad in list(matrix(0, 0L, 0L), m[, 1:2], matrix(c(1, NA, 2, 3), 2L)))
    expect_identical(outcome(eigen(gpu(bad)))$value, outcome(eigen(bad))$value)
  for (dtype in c("float32", "float16")) {
    e <- eigen(gpu(crossprod(m), dtype))
    expect_identical(gpu_dtype(e$vectors), dtype)
    expect_identical(gpu_dtype(e$values), dtype)
  }
})

test_that("whole numbers of every width are computed in float64", {
  m <- matrix(c(7, 2, 1, 2, 9, 3, 1, 3, 8), 3L)
  for (dtype in c("int8", "uint8", "int16", "int32", "int64")) {
    x <- gpu_cast(gpu(matrix(as.integer(m), 3L)), dtype)
    got <- list(solve(x), solve(x, x), chol(x), crossprod(x), tcrossprod(x, x), backsolve(x, x), chol2inv(x),
      qr.Q(qr(x)), qr.coef(qr(x), 1:3), svd(x)$d, eigen(x)$values, x %*% x)
    want <- list(solve(m), solve(m, m), chol(m), crossprod(m), tcrossprod(m), backsolve(m, m), chol2inv(m), qr.Q(qr(m)),
      qr.coef(qr(m), 1:3), svd(m)$d, eigen(m)$values, m %*% m)
    for (k in seq_along(want)) {
      expect_identical(gpu_dtype(got[[k]]), "float64", info = paste(dtype, k))
      expect_equal(collect(got[[k]]), want[[k]], tolerance = 1e-10, info = paste(dtype, k))
    }
    expect_equal(c(det(x), rcond(x), norm(x), norm(x, "2"), kappa(x)), c(det(m), rcond(m), norm(m), norm(m, "2"),
      kappa(m)), tolerance = 1e-8)
  }
})

test_that("what cuSOLVER cannot do goes through the host by the rule on access", {
  skip_if(!on_gpu)
  x <- gpu(cbind(1, 1:6, 2 * (1:6)))
  before <- options(verdigris.host_access = "error")
  on.exit(options(before))
  expect_error(qr(x), class = "verdigris_error_host_access")
  expect_identical(qr(x[, 1:2])$rank, 2L)
  expect_error(eigen(gpu(hilbert(3L) + 1i * upper.tri(diag(3L)), NULL), FALSE), class = "verdigris_error_host_access")
})
options(access)
