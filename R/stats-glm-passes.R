# The iterations of glm.fit() as one pass over the rows each: the linear predictor, what the family computes from it,
# the cross products of the weighted columns, and the deviance. Nothing but the predictor and the weights is stored.
#
# These are the iterations in which glm.fit() has no case to decide: all rows count, means are valid, the least squares
# are well conditioned. Otherwise the result is NULL, and base R's own code starts from the beginning.

# What the iterations do not change: the rows, the response and weights as the family initialises them, and the linear
# predictor to begin with. `bernoulli`: whether the log-likelihood is -1/2 times the deviance, since each row is one trial
# of a binomial family: of weight 1, and its response has raised no warning.
begin_glm <- function(d, columns, family, y, w, offset, etastart, mustart, start) {
  if (!is.null(columns)) d <- design_columns(d, columns)
  to_device <- function(v) if (is.null(v) || is_gpu(v)) v else strip(on_device_of(v, d$device))
  own <- family_on_device(family)
  zeros <- gpu_full(0, d$n, device = d$device)
  given <- list2env(list(y = y, weights = w %||% (zeros + 1), nobs = d$n, start = start, etastart = etastart,
    mustart = mustart, offset = offset %||% zeros, family = own, n = NULL,
    rep.int = function(x, times) if (is.character(x)) x[0L] else gpu_full(as.double(x), times, device = d$device)),
    parent = MODEL_MASKS)
  warnings <- character()
  withCallingHandlers(eval(family$initialize, given), warning = function(warning) {
    warnings <<- c(warnings, conditionMessage(warning))
    tryInvokeRestart("muffleWarning")
  })
  mustart <- to_device(mustart %||% given$mustart)
  eta <- etastart %||% if (!is.null(start)) given$offset + part_times(d, NULL, start) else if (d$p == 0L) given$offset +
    0 else own$linkfun(mustart)
  list(d = d, family = own, y = to_device(given$y), w = to_device(given$weights), n = to_device(given$n),
    offset = given$offset, given_offset = offset, eta = eta, warnings = warnings, bernoulli = is.null(w) &&
      NCOL(y) == 1L && !length(warnings) && is_own(without_our_functions(own$aic), BINOMIAL_AIC))
}

BINOMIAL_AIC <- stats::binomial()$aic

# glm.fit() of a design; NULL as said above.
glm_fit_by_passes <- function(d, y, weights, start, etastart, mustart, offset, family, control, intercept) {
  control <- do.call(stats::glm.control, control)
  if (isTRUE(control$trace) || !has_cross_products(d)) return(NULL)
  # glm.fit() raises errors and warnings of the response
  begun <- tryCatch(begin_glm(d, NULL, family, y, weights, offset, etastart, mustart, start), error = function(e) NULL)
  if (is.null(begun) || length(begun$warnings)) return(NULL)
  pass <- passes_of_glm(begun)
  if (is.null(pass)) return(NULL)
  # glm.fit() raises the family's warnings, too
  iterations <- function(b) tryCatch(values_of_pass(pass(b)), warning = function(w) NULL)
  tol <- min(1e-07, control$epsilon / 1000)
  now <- iterations(NULL)
  before <- NULL
  for (iter in seq_len(control$maxit)) {
    if (is.null(now)) return(NULL)
    # one pass must be accurate enough
    found <- cholesky_qr(d, NULL, tol, now$sums(), again = function(inverse) list(NaN))
    if (is.null(found) || found$rank < d$p || !all(is.finite(found$coefficients))) return(NULL)
    # R's collector would come too late
    gpu_free(now$predictor)
    if (!is.null(before)) gpu_free(before$scale)
    before <- now
    now <- iterations(unname(found$coefficients))
    if (!is.null(now) && abs(now$deviance - before$deviance) / (abs(now$deviance) + 0.1) < control$epsilon)
      return(fit_of_passes(begun, now, before$scale, found, iter, intercept))
  }
  NULL
}

# Whether passes pay, and are accurate enough.
has_cross_products <- function(d) d$n >= 4 * d$p && !is_small(d) && has_columns(d)

# Whether all columns may be in memory during the fit. Factors of many levels are not columns, see cross_sums().
has_columns <- function(d) d$n > 0 && d$p > 0L && d$p < GRAM_COLUMNS && (!is.null(d$x) || !is.null(d$plain) ||
  8 * d$n * sum(!vapply(d$columns, is_in_memory, NA)) <= MOST_COMPUTED && !length(factor_columns(d)))

# The most bytes of columns that are computed for the time of a fit: indicators and products.
MOST_COMPUTED <- 2^30

# A function of the coefficients, NULL for the initial predictor, that queues a pass; see values_of_pass(). NULL if a
# pass cannot compute the family's functions.
passes_of_glm <- function(begun) {
  d <- begun$d
  own <- begun$family
  y <- begun$y
  w <- begun$w
  given <- list(y, w, begun$eta)
  if (!all(vapply(given, is_gpu, NA)) || !all(lengths(given) == d$n)) return(NULL)
  # a copy: with an identity link the predictor is the response
  eta <- strip(begun$eta + 0)
  steps <- function() list(mu = strip(own$linkinv(eta)), slope = strip(own$mu.eta(eta)))
  values <- steps()
  values$variance <- strip(own$variance(values$mu))
  if (!all(vapply(values, is_gpu, NA))) return(NULL)
  gpu_compute(eta, values$mu, values$slope, values$variance)
  recorded <- c(steps(), list(variance = strip(own$variance(values$mu))))
  scale <- sqrt(w * values$slope^2 / values$variance)
  counted <- list(is_irregular(values$variance, values$slope, w), invalid_rows(own$valideta, eta),
    invalid_rows(own$validmu, values$mu))
  if (anyNA(counted)) return(NULL)
  sums <- c(list(own$dev.resids(y, values$mu, w)), lapply(Filter(is_gpu, counted), widen_for_sum))
  outputs <- lapply(c(list(scale, working_response(begun, eta, values$mu, values$slope) * scale), sums), function(x)
    if (is_gpu(x)) strip(x))
  if (any(vapply(outputs, is.null, NA))) return(NULL)
  columns <- dense_parts(d, 0, d$n)
  computed_arrays(Filter(is_gpu, columns))
  offset <- begun$given_offset
  program <- .Call(C_weighted_gram, columns, eta, unname(values), unname(recorded), outputs, 1L, Filter(is_gpu,
    list(y, w, offset)))
  if (is.null(program)) return(NULL)
  n <- d$n
  p <- d$p
  count <- length(sums)
  # their memory is needed no longer
  rm(begun, d, given, values, recorded, scale, counted, sums, outputs)
  function(b) {
    out <- .Call(C_weighted_gram_pass, program, b %||% numeric(), if (is.null(b)) eta else offset)
    if (is.null(out)) return(NULL)
    # cross products of the columns and the working response
    products <- if (!is.null(out$rights)) function() strip(.Call(C_gram, c(columns, out$rights), n, out$scale, p))
    list(predictor = out$predictor, scale = out$scale, results = out$results, products = products, p = p, count = count)
  }
}

working_response <- function(begun, eta, mu, slope) eta - begun$offset + (begun$y - mu) / slope

# What a pass has computed: list(predictor, scale, deviance, sums), of which sums() gives the cross products. NULL if
# some row or mean needs a decision.
values_of_pass <- function(out) {
  if (is.null(out)) return(NULL)
  results <- as.vector(collect(out$results))
  counts <- counts_of_pass(out$count, results)
  if (!is.finite(counts$deviance) || !isTRUE(counts$irregular == 0) || !counts$valid) return(NULL)
  list(predictor = out$predictor, scale = out$scale, deviance = counts$deviance, sums = function() {
    k <- out$p + 1L
    products <- if (is.null(out$products)) results[seq_len(k^2)] else as.vector(collect(out$products()))
    products <- base::matrix(products, k)
    list(xx = products[-k, -k, drop = FALSE], xy = products[-k, k, drop = FALSE])
  })
}

# The last `count` numbers of a pass: the deviance, how many rows are irregular, and how many predictors or means are
# not valid.
counts_of_pass <- function(count, results) {
  counts <- results[length(results) - count + seq_len(count)]
  list(deviance = counts[1L], irregular = counts[2L], valid = isTRUE(all(counts[-(1:2)] == 0)))
}

# The rows for which `valid`, a family's check of means or predictors, is not TRUE: an array, or FALSE if it does not
# look at them. NA if its code is not `TRUE` or base R's all() of something, or two of these.
invalid_rows <- function(valid, x) {
  if (is.null(valid)) return(FALSE)
  code <- body(valid)
  while (is.call(code) && identical(code[[1L]], quote(`{`)) && length(code) == 2L) code <- code[[2L]]
  if (isTRUE(code)) return(FALSE)
  if (!is_all(code) || !identical(get("all", environment(valid), mode = "function"), base::all)) return(NA)
  body(valid) <- code[[2L]]
  answers <- valid(x)
  if (is_gpu(answers)) !answers else NA
}

# glm.fit()'s warnings of means at the bounds, by family.
BOUND_REACHED <- c(binomial = "glm.fit: fitted probabilities numerically 0 or 1 occurred",
  poisson = "glm.fit: fitted rates numerically 0 occurred")

# The list of glm.fit(). `scale`: the square roots of the last step's weights.
fit_of_passes <- function(begun, now, scale, found, iter, intercept) {
  own <- begun$family
  d <- begun$d
  y <- begun$y
  w <- begun$w
  eta <- now$predictor
  mu <- strip(begun_mean(begun, eta))
  residuals <- begun_residuals(begun, eta, mu)
  weights <- scale^2
  gpu_compute(mu, residuals, weights, w)
  eps <- 10 * .Machine$double.eps
  ends <- switch(own$family, binomial = any(mu > 1 - eps | mu < eps), poisson = any(mu < eps), FALSE)
  if (isTRUE(ends)) warning(gettext(BOUND_REACHED[[own$family]], domain = "R-stats"), call. = FALSE)
  mean <- if (intercept) sum(w * y) / sum(w) else own$linkinv(begun$offset)
  found$qr <- structure(unclass(found$qr)[c("qr", "rank", "qraux", "pivot", "tol")], class = "qr")
  list(coefficients = found$coefficients, residuals = residuals, fitted.values = mu, effects = found$effects,
    R = with_triangle(found$qr$qr$r, d$names), rank = found$rank, qr = found$qr, family = own, linear.predictors = eta,
    deviance = now$deviance, aic = (if (begun$bernoulli) now$deviance else as.vector(own$aic(y, begun$n, mu, w,
      now$deviance))[1L]) + 2 * found$rank,
    null.deviance = as.vector(sum(own$dev.resids(y, mean, w))), iter = iter, weights = weights, prior.weights = w,
    df.residual = as_whole(d$n - found$rank), df.null = as_whole(d$n - as.integer(intercept)), y = y, converged = TRUE,
    boundary = FALSE)
}
