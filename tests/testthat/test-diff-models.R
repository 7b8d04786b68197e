# Random designs: lm and glm with aliased columns, factors, interactions, missing values, weights (zeros among them),
# offsets, subsets and contrasts, against base R: coefficients, standard errors, deviance, iterations, what is aliased,
# warnings, errors, and the collected fit.

# Of few and of many rows, so that each way through least squares is met.
random_data <- function(seed) {
  set.seed(seed)
  n <- sample(c(12, 30, 60, 200, 1200), 1L)
  d <- data.frame(x1 = rnorm(n), x2 = runif(n), x3 = rexp(n), l = runif(n) > 0.4,
    f = factor(sample(letters[1:4], n, TRUE), levels = letters[1:5]), g = factor(sample(c("u", "v", "w"), n, TRUE)),
    h = factor(sample(12, n, TRUE)), o = ordered(sample(3, n, TRUE)), s = sample(c("p", "q"), n, TRUE))
  d$x4 <- d$x1 + 2 * d$x2
  d$x5 <- 3 * d$x3
  if (runif(1) < 0.4) for (v in sample(names(d), 2L)) d[[v]][sample(n, 2L)] <- NA
  d$off <- rnorm(n)
  d$w <- if (runif(1) < 0.5) runif(n) else rpois(n, 1) + 0
  eta <- with(d, 0.3 * x1 - 0.5 * x2 + 0.2 * (as.integer(g) == 2))
  eta[is.na(eta)] <- 0
  d$y <- eta + rnorm(n)
  d$m <- rpois(n, 5) + 1
  d$yb <- rbinom(n, 1, plogis(eta))
  d$yk <- rbinom(n, d$m, plogis(eta))
  d$yp <- rpois(n, exp(eta))
  d$yg <- rgamma(n, 2, 2 / exp(eta))
  d
}

TERMS <- c("x1", "x2", "x3", "x4", "x5", "f", "g", "h", "o", "s", "l", "f:x1", "g*x2", "g:o", "I(x1^2)", "log(x3)",
  "poly(x2, 2)", "x1:x2", "splines::ns(x3, 3)", "l:x2", "offset(off)", "f %in% g", "h:x2", "I(x1 > 0)")

# A random call: the function's name, formula, and arguments as they are written.
random_call <- function(seed) {
  set.seed(seed + 1000)
  right <- sample(TERMS, sample(5L, 1L))
  if (runif(1) < 0.2) right <- c(right, "-1")
  args <- list()
  if (runif(1) < 0.4) args$weights <- quote(w)
  if (runif(1) < 0.3) args$offset <- quote(off)
  if (runif(1) < 0.3) args$subset <- quote(x2 > 0.2)
  if (runif(1) < 0.3) args$na.action <- quote(na.exclude)
  if ("g" %in% right && runif(1) < 0.5) args$contrasts <- list(g = "contr.sum")
  kind <- sample(c("lm", "lm", "lm", "mlm", "binomial", "counts", "poisson", "Gamma", "gaussian"), 1L)
  left <- switch(kind, mlm = "cbind(y, x2)", binomial = "yb", counts = "cbind(yk, m - yk)", poisson = "yp",
    Gamma = "yg", "y")
  args$family <- switch(kind, binomial = binomial(sample(c("logit", "probit", "cloglog"), 1L)), counts = binomial(),
    poisson = poisson(), Gamma = Gamma("log"), gaussian = gaussian())
  list(kind = kind, formula = as.formula(paste(left, "~", paste(right, collapse = " + ")), globalenv()), args = args)
}

heard <- function(expr) {
  warnings <- character()
  value <- tryCatch(withCallingHandlers(expr, warning = function(w) {
    warnings <<- c(warnings, conditionMessage(w))
    invokeRestart("muffleWarning")
  }), error = function(e) structure(conditionMessage(e), class = "failed"))
  list(value = value, warnings = sort(unique(warnings)))
}

PARTS <- c("coefficients", "residuals", "fitted.values", "rank", "assign", "df.residual", "weights", "deviance",
  "null.deviance", "aic", "iter", "converged", "boundary", "df.null", "linear.predictors", "prior.weights", "y",
  "na.action", "offset", "contrasts", "xlevels", "terms", "model")

# What differs, in words.
differs <- function(got, want, what, tolerance = 1e-8) {
  # base R's parts are of the order of 1, or of the data's
  said <- all.equal(got, want, tolerance = tolerance)
  if (isTRUE(said)) NULL else paste0(what, ": ", paste(utils::head(said, 2L), collapse = "; "))
}

# Leverages and the like of (nearly) saturated fits are rounding errors, and so is 1 - mu for a probability near 1.
determined <- function(fit) fit$df.residual > 1 && (is.null(fit$converged) || fit$converged && !fit$boundary &&
  (fit$family$family != "binomial" || all(abs(fit$fitted.values - 0.5) < 0.5 - 1e-6)))

# Whether base R's own outcome depends on the order of the rows: at the edge of separation, rounding errors decide which
# columns are aliased in an iteration.
undecided <- function(call, d) {
  set.seed(1)
  outcomes <- replicate(24L, {
    again <- as.call(c(stats::glm, call$formula, list(data = d[sample(nrow(d)), ]), call$args))
    found <- heard(eval(again, globalenv()))
    z <- found$value
    list(found$warnings, if (inherits(z, "failed")) c(z) else c(z$iter, z$rank))
  }, simplify = FALSE)
  length(unique(outcomes)) > 1L
}

compare_design <- function(seed) {
  call <- random_call(seed)
  d <- random_data(seed)
  arrays <- seed %% 2L == 0L
  made <- function(f, data, more = NULL) heard(eval(as.call(c(f, call$formula, list(data = data), call$args, more)),
    globalenv()))
  linear <- call$kind %in% c("lm", "mlm")
  want <- made(if (linear) stats::lm else stats::glm, d)
  got <- made(if (linear) gpu_lm else gpu_glm, if (arrays) gpu(d) else d, list(device = test_device))
  cases$n <- cases$n + 1L
  what <- sprintf("%d, %s, %d rows%s: %s", seed, call$kind, nrow(d), if (arrays) ", arrays" else "",
    deparse1(call$formula))
  found <- if (!identical(got$warnings, want$warnings)) sprintf("warnings {%s} are not {%s}",
    paste(got$warnings, collapse = "; "), paste(want$warnings, collapse = "; "))
  if (inherits(want$value, "failed") || inherits(got$value, "failed")) {
    if (!identical(c(got$value), c(want$value)) || !inherits(got$value, "failed")) found <- c(found, "errors differ")
    return(if (length(found) && (linear || !undecided(call, d))) paste(what, found))
  }
  fit <- got$value
  base <- want$value
  host <- collect(fit)
  if (!identical(names(host), names(base)) || !identical(class(host), class(base))) found <- c(found, "structure")
  # where means are at their limits, or steps were halved, an iteration's rounding errors are larger
  close <- if (determined(base)) 1e-8 else 1e-5
  for (part in PARTS) found <- c(found, differs(host[[part]], base[[part]], part, close))
  ok <- seq_len(base$rank)
  if (determined(base)) found <- c(found, differs(host$qr$qr[, ok], base$qr$qr[, ok], "qr", 1e-6))
  found <- c(found, differs(host$qr$pivot, base$qr$pivot, "pivot"))
  if (base$rank > 0L && base$df.residual > 0 && call$kind != "mlm") {
    generic <- function(f, what, tolerance = 1e-8) {
      a <- heard(collect(f(fit)))
      b <- heard(f(base))
      # base R's naresid() does not know the rows that influence() leaves out for their weight
      if (inherits(b$value, "failed") && grepl("non-NA residual length|'names' attribute", b$value)) return()
      a$value <- unname(a$value)
      b$value <- unname(b$value)
      if (!identical(a$warnings, b$warnings)) found <<- c(found, paste(what, "warns"))
      found <<- c(found, differs(a$value, b$value, what, tolerance))
    }
    generic(function(m) coef(summary(m)), "summary", 10 * close)
    if (seed %% 4L == 0L && determined(base)) {
      new <- stats::na.omit(d)[1:3, ]
      generic(function(m) as.matrix(anova(m)), "anova", 1e-7)
      generic(function(m) as.vector(predict(m, new)), "predict")
      for (name in c("hatvalues", "rstandard", "cooks.distance")) generic(get(name), name, 1e-6)
    }
  }
  if (length(found) && (linear || !undecided(call, d))) paste(what, found)
}

test_that("random designs give base R's fits", {
  seeds <- Filter(is_ours, 1:200)
  expect_all_same(lapply(seeds, compare_design))
  expect_cases(200)
})

# The cpu device has paths of base R's own for small arrays; here those of a GPU.
test_that("random designs give base R's fits where the device does all", {
  skip_if(test_device != "cpu")
  expect_all_same(composed(lapply(201:230, compare_design)))
  expect_cases(30)
})
