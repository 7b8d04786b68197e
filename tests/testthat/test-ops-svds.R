# gpu_svds() and gpu_eigs() against svd() and eigen(), and prcomp() of what has products against base R's.

set.seed(1)
basis <- function(n, k = n) qr.Q(qr(matrix(rnorm(n * k), n)))
# of these singular values
of_values <- function(n, p, d) basis(n, length(d)) %*% (d * t(basis(p, length(d))))

matrices <- list(
  tall = matrix(rnorm(80 * 50), 80), wide = matrix(rnorm(50 * 80), 50),
  falling = of_values(70, 60, 10^-seq(0, 6, length.out = 60)),
  low = of_values(60, 40, c(5, 3, 1)), equal = of_values(45, 45, rep(c(2, 1), c(3, 42))),
  close = of_values(60, 45, 1 + seq(1, 0, length.out = 45)^2 / 10)
)
signs_of <- verdigris:::signs_of
# Base R's with this package's signs.
svd_of <- function(x, k) {
  s <- svd(x)
  signs <- rep(signs_of(s$v), each = nrow(s$v))
  list(d = s$d[seq_len(k)], u = (s$u * rep(signs_of(s$v), each = nrow(s$u)))[, seq_len(k), drop = FALSE],
    v = (s$v * signs)[, seq_len(k), drop = FALSE])
}
expect_orthonormal <- function(v, ..., tolerance = 1e-12) expect_lt(max(abs(crossprod(collect(v)) - diag(ncol(v)))),
  tolerance, ...)
# The space that the columns span, whatever their order and signs are.
space <- function(v) tcrossprod(collect(v))

test_that("Lanczos has svd()'s leading values to ten digits, and the same vectors", {
  for (name in names(matrices)) for (k in c(1, 3, 12)) {
    x <- matrices[[name]]
    want <- svd_of(x, k)
    for (run in list(identity, composed)) {
      fit <- run(gpu_svds(gpu(x), k, method = "lanczos"))
      what <- paste(name, k)
      expect_s3_class(fit, "gpu_svds", exact = TRUE)
      expect_lt(max(abs(fit$d - want$d)), 1e-10 * want$d[1], label = what)
      # leading values, of their own size
      leading <- want$d > 1e-4 * want$d[1]
      expect_lt(max(abs(fit$d / want$d - 1)[leading]), 1e-10, label = what)
      expect_orthonormal(fit$u, label = what)
      expect_orthonormal(fit$v, label = what)
      expect_true(fit$converged)
      expect_lt(max(fit$residual), 1e-9)
      expect_identical(signs_of(collect(fit$v)), rep(1, k))
      left <- x - collect(fit$u) %*% (fit$d * t(collect(fit$v)))
      expect_equal(svd(left)$d[1], c(svd(x)$d, 0)[k + 1], tolerance = 1e-8 + 1e-12 / svd(x)$d[k + 1], info = what)
    }
  }
  # where values are apart vectors are base R's
  want <- svd_of(matrices$falling, 8)
  fit <- gpu_svds(gpu(matrices$falling), 8, method = "lanczos")
  expect_equal(collect(fit$u), want$u, tolerance = 1e-7)
  expect_equal(collect(fit$v), want$v, tolerance = 1e-7)
  # all of them
  fit <- gpu_svds(gpu(matrices$wide), 50, method = "lanczos")
  expect_equal(fit$d, svd(matrices$wide)$d, tolerance = 1e-12)
})

test_that("the randomised method is as good as its bound, and as more iterations make it", {
  for (name in names(matrices)) for (k in c(1, 5)) {
    x <- matrices[[name]]
    s <- svd(x)$d
    for (power in list(NULL, 1, 4)) {
      fit <- gpu_svds(gpu(x), k, power = power)
      what <- paste(name, k, deparse1(power))
      expect_orthonormal(fit$u, label = what)
      expect_orthonormal(fit$v, label = what)
      expect_true(all(fit$d <= s[seq_len(k)] + 1e-12 * s[1]), label = what)
      q <- max(fit$iterations, 1)
      if (!is.null(power)) expect_identical(fit$iterations, as.integer(power))
      factor <- (1 + sqrt(k / 9) + exp(1) * sqrt(k + 10) / 10 * sqrt(min(dim(x)) - k))^(1 / (2 * q))
      bound <- factor * s[k + 1] + s[k + 1]
      left <- svd(x - collect(fit$u) %*% (fit$d * t(collect(fit$v))))$d[1]
      expect_lte(left, bound + 1e-12 * s[1], label = what)
      expect_identical(fit$residual < 1, rep(TRUE, k))
    }
  }
  want <- svd_of(matrices$falling, 4)
  fit <- gpu_svds(gpu(matrices$falling), 4)
  expect_equal(fit$d, want$d, tolerance = 1e-10)
  expect_equal(collect(fit$v), want$v, tolerance = 1e-6)
  expect_equal(gpu_svds(gpu(matrices$low), 6)$d, c(5, 3, 1, 0, 0, 0), tolerance = 1e-12)
})

test_that("random vectors come from the seed alone", {
  x <- gpu(matrices$tall)
  set.seed(5)
  state <- .Random.seed
  for (method in c("randomized", "lanczos")) {
    runs <- lapply(c(1, 1, 2), function(seed) gpu_svds(x, 3, method = method, seed = seed, max_iter = 40))
    expect_identical(collect(runs[[1]]), collect(runs[[2]]))
    expect_false(identical(runs[[1]]$residual, runs[[3]]$residual))
  }
  expect_identical(.Random.seed, state)
})

test_that("any operator gives the same, centered and scaled or not", {
  x <- matrices$tall + rep(c(3, 0, -1, 2, 5), each = 160)
  forms <- list(array = list(gpu(x)), ordinary = list(x), `function` = list(function(w) gpu(x) %*% w, dim = dim(x),
    transpose = function(z) crossprod(gpu(x), z)))
  if (requireNamespace("Matrix", quietly = TRUE)) forms$sparse <- list(methods::as(x, "CsparseMatrix"))
  by <- seq(1, 2, length.out = 50)
  for (center in list(FALSE, TRUE, by)) for (scale in list(FALSE, TRUE, by)) {
    want <- svd_of(base::scale(x, center, scale), 4)
    for (form in names(forms)) for (method in c("lanczos", "randomized")) {
      call <- c(list(gpu_svds), forms[[form]], list(k = 4, center = center, scale = scale, method = method),
        if (method == "randomized") list(max_iter = 300, tol = 1e-13))
      what <- paste(form, method, deparse1(center)[1], deparse1(scale)[1])
      if (form == "function" && isTRUE(scale)) {
        expect_error(eval(as.call(call)), "`scale = TRUE` needs a matrix", class = "verdigris_error_argument")
        next
      }
      fit <- eval(as.call(call))
      expect_equal(fit$d, want$d, tolerance = 1e-9, info = what)
      expect_equal(space(fit$v), space(want$v), tolerance = 1e-5, info = what)
      expect_equal(fit$residual < 1e-5, rep(TRUE, 4), info = what)
    }
  }
  # means far from the origin lose no digits of a dense matrix
  far <- gpu_svds(gpu(matrices$tall + 1e9), 3, center = TRUE, method = "lanczos")
  expect_equal(far$d, svd(scale(matrices$tall + 1e9, scale = FALSE))$d[1:3], tolerance = 1e-10)
  # A %*% v is u d, of the centered matrix
  fit <- gpu_svds(gpu(x), 2, center = TRUE)
  expect_equal(collect(scale(x, scale = FALSE) %*% collect(fit$v)), collect(fit$u) %*% diag(fit$d), tolerance = 1e-8)
})

test_that("matrices of other packages are multiplied by their own methods", {
  skip_if_not_installed("DelayedArray")
  x <- matrices$tall
  y <- DelayedArray::DelayedArray(x)
  fit <- gpu_svds(y, 3, center = TRUE, scale = TRUE, method = "lanczos")
  expect_equal(fit$d, svd(scale(x))$d[1:3], tolerance = 1e-10)
  b <- rnorm(80)
  expect_equal(collect(gpu_lsqr(y, b, tol = 1e-12)$x), qr.solve(x, b), tolerance = 1e-8)
})

test_that("degenerate matrices have orthonormal vectors", {
  for (x in list(matrix(0, 5, 4), diag(6), matrix(1, 7, 3), diag(c(5, 0, 0, 0)), diag(c(1, 1, 2, 2, 3)), matrix(3),
    matrix(1:3 + 0, 1), matrix(1:3, 3), outer(1:4, 1:3), matrix(1:4, 2) > 2)) {
    k <- min(dim(x), 3)
    for (method in c("lanczos", "randomized")) for (run in list(identity, composed)) {
      fit <- run(gpu_svds(gpu(x), k, method = method))
      expect_equal(fit$d, svd(x)$d[seq_len(k)], tolerance = 1e-12)
      expect_orthonormal(fit$u)
      expect_orthonormal(fit$v)
      expect_true(fit$converged)
    }
    s <- tcrossprod(x + 0)
    for (run in list(identity, composed)) {
      fit <- run(gpu_eigs(gpu(s), min(nrow(s), 3), "LA"))
      expect_equal(fit$values, eigen(s)$values[seq_along(fit$values)], tolerance = 1e-12)
      expect_orthonormal(fit$vectors)
    }
  }
})

test_that("gpu_eigs() has eigen()'s values at either end", {
  for (n in c(1, 2, 5, 60)) {
    x <- crossprod(matrix(rnorm(n * n), n)) - n * diag(n)
    e <- eigen(x)
    for (k in unique(pmin(n, c(1, 4, 30)))) for (which in c("LM", "LA", "SA")) for (run in list(identity, composed)) {
      at <- switch(which, LA = seq_len(k), SA = seq(n - k + 1, n), LM = order(-abs(e$values))[seq_len(k)])
      fit <- run(gpu_eigs(gpu(x), k, which))
      expect_equal(fit$values, e$values[at], tolerance = 1e-10)
      expect_orthonormal(fit$vectors)
      expect_equal(x %*% collect(fit$vectors), collect(fit$vectors) %*% diag(fit$values, k), tolerance = 1e-8)
      expect_identical(signs_of(collect(fit$vectors)), rep(1, k))
      expect_lt(max(fit$residual), 1e-9)
    }
  }
  # the smallest of many that are close together, beside larger ones
  second <- 2 * diag(100)
  second[abs(row(second) - col(second)) == 1] <- -1
  fit <- gpu_eigs(gpu(second), 3, "SA")
  expect_true(fit$converged)
  expect_equal(fit$values, 2 - 2 * cos(pi * 3:1 / 101), tolerance = 1e-8)
  for (form in list(x, function(v) gpu(x) %*% v, if (requireNamespace("Matrix", quietly = TRUE)) methods::as(x,
    "CsparseMatrix") else gpu(x)))
    expect_equal(gpu_eigs(form, 2, dim = if (is.function(form)) 60)$values, e$values[order(-abs(e$values))[1:2]])
})

test_that("float32 has the digits that it has, and results keep it", {
  x <- matrices$falling
  for (method in c("lanczos", "randomized")) for (dtype in c("float32", "float16")) {
    y <- gpu(x, dtype)
    fit <- gpu_svds(y, 3, method = method)
    expect_identical(gpu_dtype(fit$u), "float32")
    expect_equal(fit$d, svd(collect(y))$d[1:3], tolerance = 1e-5)
    expect_orthonormal(fit$v, tolerance = 1e-4)
  }
  expect_equal(gpu_eigs(gpu(crossprod(x), "float32"), 2)$values, svd(x)$d[1:2]^2, tolerance = 1e-5)
})

test_that("results have names, print, and become ordinary", {
  x <- matrices$tall
  dimnames(x) <- list(paste0("r", 1:80), paste0("c", 1:50))
  fit <- gpu_svds(gpu(x), 2, method = "lanczos")
  expect_identical(dimnames(fit$u), list(rownames(x), NULL))
  expect_identical(dimnames(fit$v), list(colnames(x), NULL))
  expect_identical(gpu_device(fit$u), test_device)
  expect_true(is.matrix(collect(fit)$u) && !is_gpu(collect(fit)$u))
  expect_output(print(fit), "2 singular values of 80 x 50: Lanczos method, converged, [0-9]+ products, residual")
  expect_output(print(gpu_svds(gpu(x), 2)), "randomised method")
  expect_output(print(gpu_eigs(gpu(crossprod(x)), 2)), "2 eigenvalues of 50 rows and columns: Lanczos method")
})

test_that("the Lanczos method says where it has not converged", {
  x <- gpu(matrices$close)
  expect_warning(fit <- gpu_svds(x, 2, method = "lanczos", max_iter = 0), "after 0 restarts",
    class = "verdigris_warning_convergence")
  expect_false(fit$converged)
  expect_true(all(fit$d <= svd(matrices$close)$d[1:2] * (1 + 1e-12)))
  expect_output(print(fit), "not converged")
  expect_warning(gpu_eigs(gpu(crossprod(matrices$close)), 2, max_iter = 0), class = "verdigris_warning_convergence")
})

test_that("wrong arguments are refused by name", {
  x <- matrices$tall
  refused <- function(code, pattern, kind = "argument") expect_error(code, pattern,
    class = paste0("verdigris_error_", kind))
  for (odd in list(0, 51, -1, NA, "a", c(1, 2), NULL, TRUE)) refused(gpu_svds(gpu(x), odd), "`k` must be one number")
  for (odd in list(NULL, "a", 1:3, x + 1i, list(1), array(1, c(2, 2, 2)), factor(1))) {
    refused(gpu_svds(odd, 1), "`A` must be a matrix")
    refused(gpu_eigs(odd, 1), "`A` must be a matrix")
  }
  refused(gpu_svds(gpu(x[0, ]), 1), "`A` must be a matrix with elements")
  for (odd in list(NA, "a", 1:3, c(1, NA), replace(numeric(50), 3, Inf), NULL)) {
    refused(gpu_svds(gpu(x), 2, center = odd), "`center` must be TRUE, FALSE or 50 finite numbers")
    refused(gpu_svds(gpu(x), 2, scale = odd), "`scale` must be TRUE, FALSE or 50 finite numbers")
  }
  refused(gpu_svds(gpu(cbind(x, 2)), 2, center = TRUE, scale = TRUE), "column 51 by 0, since it is constant")
  refused(gpu_svds(gpu(x), 2, scale = replace(rep(1, 50), 7, 0)), "column 7 by 0\\.")
  refused(gpu_svds(gpu(x), 2, method = "power"), "`method` must be one of")
  for (odd in list(-1, NA, "a", c(1, 2))) {
    refused(gpu_svds(gpu(x), 2, power = odd), "`power` must be")
    refused(gpu_svds(gpu(x), 2, tol = odd), "`tol` must be")
    refused(gpu_svds(gpu(x), 2, max_iter = odd), "`max_iter` must be")
    refused(gpu_svds(gpu(x), 2, seed = odd), "`seed` must be")
  }
  refused(gpu_svds(gpu(x), 2, seed = 1.5), "`seed` must be")
  refused(gpu_svds(gpu(x), 2, method = "lanczos", power = 2), "`power` must be NULL")
  for (odd in c(NA, Inf)) for (method in c("lanczos", "randomized"))
    refused(gpu_svds(gpu(replace(x, 9, odd)), 2, method = method), "product with `A`")
  refused(gpu_eigs(gpu(x), 2), "must be square", "shape")
  refused(gpu_eigs(gpu(x[1:50, ]), 2, "LA"), "not symmetric")
  refused(gpu_eigs(gpu(replace(crossprod(x), 9, 1e3)), 2, "SA"), "not symmetric.*\"SA\"")
  refused(gpu_eigs(gpu(crossprod(x)), 2, "LI"), "asks for imaginary parts")
  refused(gpu_eigs(gpu(crossprod(x)), 2, sigma = NA), "`sigma` must be NULL or one finite number")
  refused(gpu_eigs(gpu(crossprod(x)), 2, "LA", sigma = 1), "`sigma` asks for the values nearest to it")
  refused(gpu_eigs(gpu(replace(crossprod(x), 9, NA)), 2), "product with `A`")
  refused(gpu_eigs(gpu(crossprod(x)), 2, "BE"), "`which` must be one of")
  refused(gpu_svds(function(v) v, 1), "`dim` must be")
  refused(gpu_svds(function(v) v, 1, dim = c(5, 5)), "`transpose` must be")
  refused(gpu_svds(function(v) v[-1], 1, dim = c(5, 5), transpose = identity), "`A` must return a matrix", "shape")
  refused(gpu_eigs(function(v) NULL, 1, dim = 5), "`A` must return real numbers")
})

# ---- prcomp() of what has products -------------------------------------------------------------------------------

components <- function(x, retx = TRUE, center = TRUE, scale. = FALSE, tol = NULL, rank. = NULL, method = "lanczos")
  verdigris:::components_of_operator(verdigris:::operator_of(x), retx, center, scale., tol, rank., method,
    environment())

test_that("principal components of a sparse matrix are base R's of the dense one", {
  skip_if_not_installed("Matrix")
  dense <- matrix(rbinom(120 * 25, 1, 0.2) * round(rexp(3000), 2), 120, dimnames = list(paste0("r", 1:120),
    paste0("c", 1:25)))
  x <- methods::as(dense, "CsparseMatrix")
  by <- seq(1, 2, length.out = 25)
  for (given in list(list(), list(center = FALSE), list(scale. = TRUE), list(center = by, scale. = by), list(rank. = 4),
    list(rank. = 3, scale. = TRUE), list(tol = 0.4), list(retx = FALSE), list(center = FALSE, scale. = TRUE))) {
    want <- do.call(prcomp, c(list(dense), given))
    signs <- signs_of(want$rotation)
    want$rotation[] <- want$rotation * rep(signs, each = 25)
    if (!is.null(want$x)) want$x[] <- want$x * rep(signs, each = 120)
    got <- do.call(components, c(list(x), given))
    what <- deparse1(given)
    partial <- !is.null(given$rank.)
    expect_s3_class(got, c(if (partial) "gpu_prcomp", "prcomp"), exact = TRUE)
    expect_equal(got$sdev, want$sdev[seq_along(got$sdev)], tolerance = 1e-10, info = what)
    for (part in c("rotation", "center", "scale", "x")) expect_equal(collect(got)[[part]], want[[part]],
      tolerance = 1e-6, info = paste(what, part))
    if (partial) expect_equal(summary(got)$importance[2:3, ], summary(want)$importance[2:3, seq_along(got$sdev)],
      tolerance = 1e-4)
  }
  got <- components(x, rank. = 3, method = "randomized")
  expect_equal(got$sdev, prcomp(dense)$sdev[1:3], tolerance = 1e-2)
  expect_error(components(methods::as(cbind(dense, 1), "CsparseMatrix"), scale. = TRUE),
    "cannot rescale a constant/zero column to unit variance")
  expect_error(components(methods::as(replace(dense, 5, NA), "CsparseMatrix")), "product with `x`",
    class = "verdigris_error_argument")
  for (wrong in list(list(rank. = 0), list(center = 1:3), list(scale. = NA), list(retx = NA), list(tol = "a")))
    expect_error(do.call(components, c(list(x), wrong)), sprintf("`%s` must be", names(wrong)),
      class = "verdigris_error_argument")
})
