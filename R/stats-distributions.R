# Distributions beyond the uniform, normal and exponential: base R's names, arguments and limits.

#' Random numbers from further distributions
#'
#' Base R's generators for arrays, with base R's arguments. Draws are recorded, and computed when they are used, inside
#' the kernel that uses them: `mean(gpu_rgamma(1e9, 2) > 5)` allocates nothing. Each call takes a key from R's
#' generator, so that [set.seed()] determines the draws. Element `i` is a function of the key, `i` and its parameters,
#' and has the same bits on every device.
#'
#' Algorithms: gamma by Marsaglia and Tsang (2000), and beta, chi-square, t and negative binomial from gammas; Poisson
#' and binomial by Hoermann's PTRS and BTRS (1993), and by inversion if the expected count is below 10; hypergeometric by
#' Stadlober's HRUA (1990), and one object at a time if at most 10 are drawn; signed ranks by a random bit for each value,
#' rank sums by sampling the ranks, in time proportional to `m + n`; the others by inversion or from a normal. Base R uses
#' other algorithms, so a seed gives different numbers there.
#' @param n,nn The number of draws, or a vector whose length is that number. In `gpu_rhyper()`, `gpu_rsignrank()` and
#'   `gpu_rwilcox()` the number is `nn`, and `n` is a parameter, as in base R.
#' @param shape,shape1,shape2,rate,scale,df,ncp,location,meanlog,sdlog,size,prob,mu,lambda,m,k Parameters as in base R:
#'   numbers or arrays, recycled, and no longer than the number of draws.
#' @param dtype `"float64"` by default, and `"int32"` for counts that fit (as base R returns integers). Draws are
#'   computed in float64 and rounded; log-normal, Weibull, Cauchy and logistic draws are computed from draws of
#'   [gpu_rnorm()], [gpu_rexp()] and [gpu_runif()] in the dtype.
#' @param device The device; by default the device of the parameters, else the current device (see [gpu_use()]).
#' @returns An array of class `gpu_array`. Nothing is computed, allocated or waited for, except for counts whose
#'   parameters are arrays: the largest (or smallest) parameter decides whether they fit in integers. If the parameters
#'   are invalid, the draw is NaN (NA for counts), with base R's warning "NAs produced" when it is computed. The same
#'   holds for more than 1e7 ranks in `gpu_rsignrank()` and `gpu_rwilcox()`, and for more than 1e11 objects in
#'   `gpu_rhyper()`.
#' @section Errors:
#' `verdigris_error_argument` for an invalid `n` or a parameter that is not numeric; `verdigris_error_dtype`,
#' `verdigris_error_device`; base R's errors for combinations of arguments that it refuses.
#' @seealso [gpu_rnorm()], [gpu_sample()], [gpu_rmvnorm()].
#' @examples
#' set.seed(1)
#' gpu_rgamma(3, shape = 2, rate = c(1, 10, 100), device = "cpu")
#' table(gpu_rpois(1000, 0.5, device = "cpu"))
#' x <- as_gpu(c(0.1, 0.5, 0.9), device = "cpu")
#' gpu_rbinom(3, size = 10, prob = x)
#' @name distributions
NULL

#' @rdname distributions
#' @export
gpu_rgamma <- function(n, shape, rate = 1, scale = 1 / rate, dtype = NULL, device = NULL) {
  if (!is_real(rate)) abort_argument("rate", "numbers or an array of numbers", rate)
  if (!missing(rate) && !missing(scale)) {
    if (!is_real(scale)) abort_argument("scale", "numbers or an array of numbers", scale)
    if (!isTRUE(all(abs(rate * scale - 1) < 1e-15)))
      stop_verdigris("argument", "specify 'rate' or 'scale' but not both", "`scale` is 1 / `rate`.")
    warn_as_base("specify 'rate' or 'scale' but not both")
  }
  draws("rgamma", NULL, count_of(n), list(shape = shape, scale = scale), dtype, device)
}

#' @rdname distributions
#' @export
gpu_rchisq <- function(n, df, ncp = 0, dtype = NULL, device = NULL) {
  n <- count_of(n)
  if (missing(ncp)) return(draws("rchisq", NULL, n, list(df = df), dtype, device))
  draws("rchisq_noncentral", NULL, n, list(df = df, ncp = ncp), dtype, device)
}

#' @rdname distributions
#' @export
gpu_rbeta <- function(n, shape1, shape2, ncp = 0, dtype = NULL, device = NULL) {
  n <- count_of(n)
  if (missing(ncp)) return(draws("rbeta", NULL, n, list(shape1 = shape1, shape2 = shape2), dtype, device))
  if (!is_real(shape1)) abort_argument("shape1", "numbers or an array of numbers", shape1)
  if (!is_real(shape2)) abort_argument("shape2", "numbers or an array of numbers", shape2)
  device <- device %||% gpu_device_of_any(list(shape1, shape2, ncp))
  x <- gpu_rchisq(n, 2 * shape1, ncp, device = device)
  out <- x / (x + gpu_rchisq(n, 2 * shape2, device = device))
  dtype <- dtype %||% float_dtype(parent.frame())
  if (is.null(dtype)) out else gpu_cast(out, dtype)
}

#' @rdname distributions
#' @export
gpu_rt <- function(n, df, ncp, dtype = NULL, device = NULL) {
  n <- count_of(n)
  if (missing(ncp)) return(draws("rt", NULL, n, list(df = df), dtype, device))
  if (!is_real(ncp)) abort_argument("ncp", "numbers or an array of numbers", ncp)
  device <- device %||% gpu_device_of_any(list(df, ncp))
  out <- gpu_rnorm(n, ncp, device = device) / sqrt(gpu_rchisq(n, df, device = device) / df)
  dtype <- dtype %||% float_dtype(parent.frame())
  if (is.null(dtype)) out else gpu_cast(out, dtype)
}

#' @rdname distributions
#' @export
gpu_rlnorm <- function(n, meanlog = 0, sdlog = 1, dtype = NULL, device = NULL) {
  draws("lognormal_draw", "rnorm", count_of(n), list(meanlog = meanlog, sdlog = sdlog), dtype, device)
}

#' @rdname distributions
#' @export
gpu_rweibull <- function(n, shape, scale = 1, dtype = NULL, device = NULL) {
  draws("weibull_draw", "rexp", count_of(n), list(shape = shape, scale = scale), dtype, device)
}

#' @rdname distributions
#' @export
gpu_rcauchy <- function(n, location = 0, scale = 1, dtype = NULL, device = NULL) {
  draws("cauchy_draw", "runif", count_of(n), list(location = location, scale = scale), dtype, device)
}

#' @rdname distributions
#' @export
gpu_rlogis <- function(n, location = 0, scale = 1, dtype = NULL, device = NULL) {
  draws("logistic_draw", "runif", count_of(n), list(location = location, scale = scale), dtype, device)
}

# ---- counts: integers, unless they may be beyond them -------------------------------------------------------

# The dtype of counts that exceed `largest` with a probability of less than 2^-53.
count_dtype <- function(largest) if (isTRUE(largest > .Machine$integer.max)) "float64" else "int32"

# The largest or smallest value of a parameter; on a device this waits for one number. NA if it is not positive, or
# infinite where the distribution does not allow that.
extreme_of <- function(x, f, infinite = FALSE) {
  out <- if (is.numeric(x) && length(x)) suppressWarnings(as.numeric(f(x, na.rm = TRUE))) else NA
  if (isTRUE(out > 0 && (infinite || is.finite(out)))) out else NA_real_
}

#' @rdname distributions
#' @export
gpu_rpois <- function(n, lambda, dtype = NULL, device = NULL) {
  n <- count_of(n)
  if (is.null(dtype)) {
    mean <- extreme_of(lambda, max)
    dtype <- count_dtype(mean + 20 * sqrt(mean) + 200)
  }
  draws("rpois", NULL, n, list(lambda = lambda), dtype, device)
}

#' @rdname distributions
#' @export
gpu_rbinom <- function(n, size, prob, dtype = NULL, device = NULL) {
  n <- count_of(n)
  if (is.null(dtype)) dtype <- count_dtype(extreme_of(size, max))
  draws("rbinom", NULL, n, list(size = size, prob = prob), dtype, device)
}

#' @rdname distributions
#' @export
gpu_rgeom <- function(n, prob, dtype = NULL, device = NULL) {
  n <- count_of(n)
  # the smallest uniform is 2^-53
  if (is.null(dtype)) dtype <- count_dtype(53 * log(2) / extreme_of(prob, min))
  draws("rgeom", NULL, n, list(prob = prob), dtype, device)
}

#' @rdname distributions
#' @export
gpu_rnbinom <- function(n, size, prob, mu, dtype = NULL, device = NULL) {
  n <- count_of(n)
  if (!missing(mu) && !missing(prob)) stop_verdigris("argument", "'prob' and 'mu' both specified", "Give one of them.")
  if (is.null(dtype)) {
    # a gamma draw of shape s is below s + 60 sqrt(s) + 60
    most <- extreme_of(size, max, infinite = TRUE)
    each <- if (!missing(mu)) extreme_of(mu, max) / extreme_of(size, min) else 1 / extreme_of(prob, min)
    dtype <- count_dtype((most + 60 * sqrt(most) + 60) * each * 1.1 + 200)
  }
  if (!missing(mu)) return(draws("rnbinom_mu", NULL, n, list(size = size, mu = mu), dtype, device))
  draws("rnbinom", NULL, n, list(size = size, prob = prob), dtype, device)
}

#' @rdname distributions
#' @export
gpu_rhyper <- function(nn, m, n, k, dtype = NULL, device = NULL) {
  nn <- count_of(nn, "nn")
  if (is.null(dtype)) dtype <- count_dtype(extreme_of(k, max))
  draws("rhyper", NULL, nn, list(m = m, n = n, k = k), dtype, device)
}

#' @rdname distributions
#' @export
gpu_rsignrank <- function(nn, n, dtype = NULL, device = NULL) {
  nn <- count_of(nn, "nn")
  if (is.null(dtype)) dtype <- count_dtype(extreme_of(n, max)^2)
  draws("rsignrank", NULL, nn, list(n = n), dtype, device)
}

#' @rdname distributions
#' @export
gpu_rwilcox <- function(nn, m, n, dtype = NULL, device = NULL) {
  nn <- count_of(nn, "nn")
  if (is.null(dtype)) dtype <- count_dtype(extreme_of(m, max) * extreme_of(n, max))
  draws("rwilcox", NULL, nn, list(m = m, n = n), dtype, device)
}

# ---- several variables -------------------------------------------------------------------------------------

#' Random numbers from a multivariate normal distribution
#'
#' @param n The number of draws.
#' @param mean The means, a vector of length `d`; 0 by default.
#' @param sigma The covariances, a symmetric `d` x `d` matrix without negative eigenvalues. It is read and factored on
#'   the host.
#' @param dtype,device As for [gpu_rnorm()].
#' @returns A matrix of `n` rows and `d` columns, an array on the device: normal draws times a root of `sigma`, plus the
#'   means. The product is computed by the device's library, so the last bits differ between devices. The column names
#'   are the column names of `sigma`, else the names of `mean`.
#' @section Errors:
#' `verdigris_error_argument` if `sigma` is not a covariance matrix, or `mean` has a different length.
#' @examples
#' set.seed(1)
#' sigma <- matrix(c(2, 1, 1, 3), 2)
#' x <- gpu_rmvnorm(1e4, c(0, 10), sigma, device = "cpu")
#' colMeans(x)
#' @export
gpu_rmvnorm <- function(n, mean = NULL, sigma = diag(length(mean)), dtype = NULL, device = NULL) {
  n <- count_of(n)
  device <- device %||% gpu_device_of_any(list(mean, sigma))
  if (is_gpu(mean)) mean <- collect(mean)
  sigma <- if (is_gpu(sigma)) collect(sigma) else sigma
  if (is.numeric(sigma) && length(sigma) == 1L) sigma <- as.matrix(sigma)
  if (!is.numeric(sigma) || !is.matrix(sigma) || nrow(sigma) != ncol(sigma) || !nrow(sigma) || !all(is.finite(sigma))) {
    abort_argument("sigma", "a square matrix of finite numbers", sigma)
  }
  if (!isSymmetric(unname(sigma), tol = sqrt(.Machine$double.eps)))
    stop_verdigris("argument", "`sigma` must be symmetric.")
  d <- ncol(sigma)
  if (!is.null(mean) && (!is.numeric(mean) || length(mean) != d))
    abort_argument("mean", sprintf("%d numbers, one for each column of `sigma`", d), mean)
  z <- gpu_rnorm(n * d, dtype = dtype %||% float_dtype(parent.frame()), device = device)
  dim(z) <- c(n, d)
  out <- z %*% root_of(sigma)
  if (!isTRUE(all(mean == 0))) out <- sweep(out, 2L, as.numeric(mean), "+")
  names <- colnames(sigma) %||% names(mean)
  if (!is.null(names)) dimnames(out) <- list(NULL, names)
  out
}

#' Random numbers from multinomial and Wishart distributions
#'
#' Base R's [stats::rmultinom()] and [stats::rWishart()] on a device.
#'
#' Multinomial counts are drawn category by category: each count is a binomial draw from the objects that are not yet in
#' a category. Wishart matrices are cross products of a triangular matrix of normals and chi-square draws, times a root
#' of the scale (Bartlett 1933).
#' @param n The number of draws.
#' @param size The number of objects that each draw puts into categories: one number, or an array or vector with a
#'   number for each draw.
#' @param prob Weights of the categories; they are divided by their sum. An array is read on the host.
#' @param df Degrees of freedom, at least as many as `Sigma` has columns.
#' @param Sigma The scale, a positive definite matrix. It is read and factored on the host.
#' @param dtype,device As for [gpu_rnorm()]; the default for counts is `"int32"`.
#' @returns For `gpu_rmultinom()` a matrix with a row for each category, which has the names of `prob`, and a column for
#'   each draw; for `gpu_rwishart()` an array of dimensions `ncol(Sigma)`, `ncol(Sigma)`, `n`.
#' @section Errors:
#' `verdigris_error_argument` for invalid arguments.
#' @examples
#' set.seed(1)
#' gpu_rmultinom(5, 10, c(a = 1, b = 2, c = 1), device = "cpu")
#' w <- gpu_rwishart(1000, 4, diag(2), device = "cpu")
#' apply(w, 1:2, mean)
#' @export
gpu_rmultinom <- function(n, size, prob, dtype = NULL, device = NULL) {
  n <- count_of(n)
  device <- device %||% gpu_device_of_any(list(size, prob))
  if (is_gpu(prob)) prob <- collect(prob)
  if (!is.numeric(prob) || !length(prob) || anyNA(prob) || any(prob < 0) || !any(prob > 0) || any(is.infinite(prob)))
    abort_argument("prob", "non-negative numbers, one above 0", prob)
  if (!is_real(size) || length(size) == 0L) abort_argument("size", "numbers or an array of numbers", size)
  if (is.null(dtype)) dtype <- count_dtype(extreme_of(size, max))
  # each category's share of the remaining weight, summed from the last one so that small weights keep their digits
  rest <- rev(cumsum(rev(as.numeric(prob))))
  left <- if (length(size) == 1L) size else rep_len(size, n)
  rows <- vector("list", length(prob))
  last <- max(which(prob > 0))
  for (k in seq_along(prob)) {
    share <- if (k == last) 1 else if (prob[k] == 0) 0 else prob[k] / rest[k]
    # compute each count now: the draws of later categories would repeat a recorded one
    rows[[k]] <- gpu_compute(draws("rbinom", NULL, n, list(size = left, prob = share), dtype, device))
    left <- gpu_compute(left - rows[[k]])
  }
  out <- do.call(rbind, rows)
  dimnames(out) <- if (!is.null(names(prob))) list(names(prob), NULL)
  out
}

#' @rdname gpu_rmultinom
#' @export
gpu_rwishart <- function(n, df, Sigma, dtype = NULL, device = NULL) {
  n <- count_of(n)
  device <- device %||% gpu_device_of_any(list(df, Sigma))
  if (is_gpu(Sigma)) Sigma <- collect(Sigma)
  if (!is.numeric(Sigma) || !is.matrix(Sigma) || nrow(Sigma) != ncol(Sigma) || !all(is.finite(Sigma)))
    abort_argument("Sigma", "a square matrix of finite numbers", Sigma)
  p <- ncol(Sigma)
  if (is_gpu(df)) df <- collect(df)
  if (!is.numeric(df) || length(df) != 1L || !isTRUE(df >= p) || p == 0L)
    abort_argument("df", "one number, at least as many as `Sigma` has columns", df)
  root <- tryCatch(chol(unname(Sigma)), error = function(e) NULL)
  if (is.null(root)) stop_verdigris("argument", "`Sigma` must be positive definite.")
  dtype <- dtype %||% float_dtype(parent.frame())
  # Bartlett's upper triangles of n matrices, by rows: column j has j - 1 normals above a chi
  z <- lapply(seq_len(p), function(i) {
    row <- lapply(seq_len(p), function(j) {
      if (j > i) gpu_rnorm(n, dtype = dtype, device = device)
      else if (j == i) sqrt(gpu_rchisq(n, df - i + 1, dtype = dtype, device = device))
    })
    # row i of the triangle times the root: for each column of the root a vector of n elements
    lapply(seq_len(p), function(j) {
      terms <- lapply(seq.int(i, length.out = max(0L, j - i + 1L)), function(k) row[[k]] * root[k, j])
      if (length(terms)) Reduce(`+`, terms)
    })
  })
  entries <- vector("list", p * p)
  for (j in seq_len(p)) for (k in seq_len(j)) {
    value <- gpu_compute(Reduce(`+`, lapply(seq_len(k), function(i) z[[i]][[j]] * z[[i]][[k]])))
    entries[[(j - 1L) * p + k]] <- entries[[(k - 1L) * p + j]] <- value
  }
  out <- do.call(rbind, entries)
  dim(out) <- c(p, p, n)
  out
}

# A matrix r with crossprod(r) == sigma, which may be singular.
root_of <- function(sigma) {
  root <- tryCatch(chol(unname(sigma)), error = function(e) NULL)
  if (!is.null(root)) return(root)
  parts <- eigen(unname(sigma), symmetric = TRUE)
  largest <- max(abs(parts$values))
  if (any(parts$values < -sqrt(.Machine$double.eps) * largest)) {
    stop_verdigris("argument", "`sigma` has negative eigenvalues, so it is not a covariance matrix.",
      call = parent.frame())
  }
  # eigenvalues as small as rounding errors are 0
  parts$values[parts$values < 8 * .Machine$double.eps * ncol(sigma) * largest] <- 0
  sqrt(parts$values) * t(parts$vectors)
}
