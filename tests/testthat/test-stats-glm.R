# Generalised linear models: base R's data and families, iterations, warnings and errors. Random designs are in
# test-diff-models.R.

# Value, warnings and output of a fit.
told <- function(expr) {
  said <- character()
  shown <- utils::capture.output(value <- tryCatch(withCallingHandlers(expr, warning = function(w) {
    said <<- c(said, conditionMessage(w))
    invokeRestart("muffleWarning")
  }), error = function(e) conditionMessage(e)))
  list(value = value, said = said, shown = shown)
}

# glm()'s fit and ours, of ordinary vectors and of arrays: numbers, iterations, what is said and printed.
expect_same_glm <- function(formula, family, data, ..., tolerance = 1e-8) {
  more <- as.list(substitute(list(...)))[-1L]
  call <- function(f, data, extra = NULL) told(eval(as.call(c(list(f, formula, family = family, data = data), more,
    extra)), list(), parent.frame(2L)))
  want <- call(stats::glm, data)
  label <- paste(deparse1(formula), if (inherits(family, "family")) family$family)
  for (arrays in c(FALSE, TRUE)) {
    got <- call(gpu_glm, if (arrays) gpu(data) else data, list(device = test_device))
    expect_identical(got$said, want$said, label = label)
    expect_identical(got$shown, want$shown, label = label)
    if (is.character(want$value)) {
      expect_identical(got$value, want$value, label = label)
      next
    }
    fit <- got$value
    base <- want$value
    host <- collect(fit)
    expect_identical(class(host), class(base))
    expect_identical(names(host), names(base), label = label)
    for (part in setdiff(names(base), c("call", "qr", "R", "effects", "model", "family", "data", "control", "method",
      "formula"))) expect_equal(host[[part]], base[[part]], tolerance = tolerance, label = paste(label, part))
    if (base$rank > 0L) {
      expect_equal(abs(host$R), abs(base$R), tolerance = 100 * tolerance, label = label)
      ok <- seq_len(base$rank)
      expect_equal(abs(host$effects[ok]), abs(base$effects[ok]), tolerance = 100 * tolerance, label = label)
    }
    expect_identical(host$family$link, base$family$link)
    expect_equal(told(coef(summary(fit))), told(coef(summary(base))), tolerance = 10 * tolerance, label = label)
    for (part in c("residuals", "fitted.values", "linear.predictors", "weights", "prior.weights"))
      expect_true(is_gpu(fit[[part]]), label = paste(label, part))
  }
}

test_that("base R's example data give base R's fits, iteration by iteration", {
  expect_same_glm(case ~ spontaneous + induced + education, binomial(), infert)
  expect_same_glm(case ~ spontaneous, binomial("probit"), infert, control = list(trace = TRUE))
  expect_same_glm(case ~ spontaneous, binomial("cauchit"), infert)
  expect_same_glm(case ~ spontaneous, binomial("cloglog"), infert, subset = age > 25)
  expect_same_glm(cbind(ncases, ncontrols) ~ agegp + unclass(tobgp) + unclass(alcgp), binomial(), esoph)
  expect_same_glm(breaks ~ wool * tension, poisson(), warpbreaks, control = list(trace = TRUE))
  expect_same_glm(breaks ~ wool + tension, poisson("sqrt"), warpbreaks)
  expect_same_glm(breaks ~ wool + tension, quasipoisson(), warpbreaks)
  expect_same_glm(len ~ supp * dose, Gamma(), ToothGrowth)
  expect_same_glm(len ~ supp + dose, Gamma("log"), ToothGrowth, weights = dose)
  expect_same_glm(len ~ supp + dose, inverse.gaussian(), ToothGrowth)
  expect_same_glm(mpg ~ wt + factor(cyl), gaussian(), mtcars)
  expect_same_glm(mpg ~ wt, gaussian("log"), mtcars)
  expect_same_glm(carb ~ wt, quasi(link = "log", variance = "mu"), mtcars)
  expect_same_glm(am ~ wt, quasibinomial(), mtcars)
  expect_same_glm(vs == 1 ~ wt, binomial(), mtcars)
  expect_same_glm(factor(vs) ~ wt, binomial(), mtcars)
  expect_same_glm(carb ~ wt + offset(log(cyl)), poisson(), mtcars)
  expect_same_glm(carb ~ wt, poisson(), mtcars, offset = log(cyl))
  expect_same_glm(carb ~ 1, poisson(), mtcars)
  expect_same_glm(Ozone ~ Solar.R + ordered(Month), Gamma("log"), airquality, na.action = na.exclude)
  expect_same_glm(carb ~ wt, poisson(), mtcars, weights = ifelse(gear == 3, 0, 1))
  expect_same_glm(carb ~ wt + I(2 * wt) + hp, poisson(), mtcars)
})

test_that("starting values, step halving, boundaries and failures are base R's", {
  separated <- data.frame(x = c(1:10, 3), y = c(rep(0:1, each = 5), 0))
  expect_same_glm(y ~ x, binomial(), separated, tolerance = 1e-5)
  expect_same_glm(am ~ wt, binomial(), mtcars, control = list(maxit = 2))
  expect_same_glm(am ~ wt, binomial(), mtcars, start = c(10, -3))
  expect_same_glm(am ~ wt, binomial(), mtcars, start = 1)
  expect_same_glm(am ~ wt, binomial(), mtcars, mustart = rep(0.4, 32))
  expect_same_glm(carb ~ wt, poisson(), mtcars, etastart = rep(1, 32))
  # out of bounds: steps are halved, and the rest is said
  expect_same_glm(am ~ wt + hp, binomial("log"), mtcars, start = c(-1, 0, 0), control = list(trace = TRUE, maxit = 12),
    tolerance = 1e-6)
  expect_same_glm(carb ~ wt, poisson("identity"), mtcars, start = c(1, 0.5), control = list(trace = TRUE))
  expect_same_glm(mpg ~ wt, Gamma("identity"), mtcars, start = c(1, 1e4))
  expect_same_glm(am ~ wt, binomial("log"), mtcars)
  expect_same_glm(mpg ~ wt, binomial(), mtcars)
  expect_same_glm(I(-mpg) ~ wt, poisson(), mtcars)
  expect_same_glm(I(mpg * 0) ~ wt, Gamma(), mtcars)
  expect_same_glm(I(mpg / 50) ~ wt, binomial(), mtcars)
  expect_same_glm(factor(gear) ~ wt, poisson(), mtcars)
  expect_same_glm(am ~ wt, binomial(), mtcars, weights = -gear)
  expect_same_glm(am ~ wt, binomial(), mtcars, offset = 1:3)
  expect_same_glm(am ~ nothing, binomial(), mtcars)
  expect_same_glm(am ~ wt + I(2 * wt), binomial(), mtcars, singular.ok = FALSE)
  expect_same_glm(am ~ wt, binomial(), mtcars, control = list(maxit = 0))
  expect_same_glm(am ~ wt, "no.such.family", mtcars)
  expect_same_glm(am ~ wt, list(1), mtcars)
  expect_same_glm(mpg ~ 0, gaussian(), mtcars)
  expect_error(gpu_glm(am ~ wt, binomial(), mtcars, method = "other"), "`method` must be",
    class = "verdigris_error_argument")
})

test_that("rows without information are left out, or said to be all, as in base R", {
  far <- data.frame(x = c(-40, -2:2, 45), y = c(0, 0, 1, 0, 1, 1, 1), w = c(1, 0, 2, 1, 1, 3, 1))
  for (link in c("probit", "cloglog", "cauchit", "logit")) {
    # some derivatives are 0 at these predictors, or variances
    expect_same_glm(y ~ x, binomial(link), far, etastart = far$x, tolerance = 1e-5)
    expect_same_glm(y ~ x, binomial(link), far, weights = w, tolerance = 1e-5)
    expect_same_glm(y ~ x, binomial(link), far, etastart = far$x * 1e3, tolerance = 1e-5)
  }
  expect_same_glm(carb ~ wt, poisson(), mtcars, etastart = rep(-800, 32))
  expect_same_glm(carb ~ wt, poisson(), mtcars, etastart = rep(c(-800, 1), 16), tolerance = 1e-6)
  expect_same_glm(carb ~ wt, poisson("sqrt"), mtcars, etastart = rep(0, 32))
  expect_same_glm(carb ~ wt, poisson("sqrt"), mtcars, etastart = rep(c(0, 1), 16), tolerance = 1e-6)
  expect_same_glm(mpg ~ wt, gaussian(), mtcars, weights = as.integer(gear == 4))
  expect_same_glm(mpg ~ wt, gaussian(), mtcars, weights = 0 * gear)
  expect_same_glm(mpg ~ wt, Gamma("inverse"), mtcars, etastart = rep(c(NA, 1), 16))
})

test_that("families of other packages and of users are taken", {
  skip_if_not_installed("MASS")
  expect_same_glm(carb ~ wt, MASS::negative.binomial(2), mtcars)
  odd <- binomial()
  odd$linkfun <- function(mu) stats::qlogis(mu)
  odd$linkinv <- function(eta) pmin(pmax(1 / (1 + exp(-eta)), 1e-10), 1 - 1e-10)
  odd$mu.eta <- function(eta) ifelse(abs(eta) > 25, 1e-10, exp(-eta) / (1 + exp(-eta))^2)
  fit <- gpu_glm(am ~ wt, odd, gpu(mtcars))
  expect_equal(coef(fit), coef(glm(am ~ wt, odd, mtcars)), tolerance = 1e-8)
  # a function of this package's own stands in the family while it computes, and not after collect()
  expect_identical(collect(fit)$family$linkinv, odd$linkinv)
  expect_equal(fit$family$linkinv(0.3), odd$linkinv(0.3))
  power <- quasi(link = power(1 / 3), variance = "mu^2")
  expect_same_glm(mpg ~ wt, power, mtcars, start = c(3, 0))
})

test_that("generics work on fits, and what is long is an array", {
  fit <- gpu_glm(case ~ spontaneous + induced, binomial, gpu(infert))
  want <- glm(case ~ spontaneous + induced, binomial, infert)
  same <- function(f, long = FALSE) {
    got <- f(fit)
    if (long) expect_true(is_gpu(got), label = deparse1(body(f)))
    expect_equal(collect(got), f(want), tolerance = 1e-7, ignore_attr = TRUE, label = deparse1(body(f)))
  }
  new <- data.frame(spontaneous = 0:2, induced = 1)
  for (f in list(residuals, fitted, predict, hatvalues, cooks.distance, rstandard, rstudent, dfbeta, dfbetas,
    function(m) residuals(m, "pearson"), function(m) residuals(m, "working"), function(m) residuals(m, "response"),
    function(m) predict(m, new), function(m) predict(m, new, type = "response"), function(m) weights(m, "working"),
    function(m) influence(m)$pear.res, model.matrix)) same(f, long = TRUE)
  for (f in list(vcov, AIC, BIC, logLik, nobs, deviance, extractAIC, df.residual, formula, family,
    function(m) as.matrix(anova(m, test = "Chisq")), function(m) as.matrix(anova(update(m, . ~ spontaneous), m)),
    function(m) as.matrix(drop1(m, test = "LRT")), function(m) coef(step(m, trace = 0)),
    function(m) as.matrix(add1(update(m, . ~ 1), ~ spontaneous + induced, test = "Rao")),
    function(m) predict(m, new, se.fit = TRUE), function(m) predict(m, type = "terms"), function(m)
      residuals(m, "partial"))) if (identical(f, family)) expect_identical(f(fit)$family, "binomial") else same(f)
  if (getRversion() >= "4.4.0" || requireNamespace("MASS", quietly = TRUE))
    expect_equal(suppressMessages(confint(fit)), suppressMessages(confint(want)), tolerance = 1e-6)
  expect_output(print(summary(fit)), "Number of Fisher Scoring iterations: 4")
  grDevices::pdf(tempfile(fileext = ".pdf"))
  expect_silent(plot(fit, which = 1:6))
  grDevices::dev.off()
})

test_that("many rows have base R's fits", {
  set.seed(5)
  n <- 3000
  d <- data.frame(x = rnorm(n), z = runif(n), g = factor(sample(30, n, TRUE)), h = factor(sample(12, n, TRUE)))
  eta <- d$x / 2 - d$z + as.integer(d$g) / 20
  d$b <- rbinom(n, 1, plogis(eta))
  d$k <- rpois(n, exp(eta / 2))
  d$w <- rpois(n, 3) + 0
  # sums over levels, of two factors, weighted; interactions
  expect_same_glm(b ~ x + z + g, binomial(), d)
  expect_same_glm(k ~ x * z + g + h, poisson(), d, weights = w)
  expect_same_glm(k ~ g:x + h - 1, poisson(), d)
  want <- lm(k ~ x + g + h, d, weights = w, contrasts = list(g = "contr.sum"))
  got <- gpu_lm(k ~ x + g + h, gpu(d), weights = w, contrasts = list(g = "contr.sum"))
  expect_equal(coef(summary(got)), coef(summary(want)), tolerance = 1e-8)
  expect_equal(collect(hatvalues(got)), unname(hatvalues(want)), tolerance = 1e-8)
  expect_equal(collect(rstudent(got)), unname(rstudent(want)), tolerance = 1e-8)
  expect_equal(collect(influence(got)$coefficients), unname(influence(want)$coefficients), tolerance = 1e-7,
    ignore_attr = TRUE)
  # narrow arrays are computed in float64
  x <- as_gpu(d$x, dtype = "float32", device = test_device)
  k <- gpu(d$k)
  expect_equal(coef(gpu_glm(k ~ x, poisson)), coef(glm(d$k ~ v, poisson, data.frame(v = collect(x)))), tolerance = 1e-8,
    ignore_attr = TRUE)
})

test_that("fits and their methods read no array on the host", {
  rule <- options(verdigris.host_access = "error")
  on.exit(options(rule))
  set.seed(6)
  n <- 3000
  x <- gpu(rnorm(n))
  z <- gpu(runif(n))
  g <- factor(sample(9, n, TRUE))
  b <- gpu(rbinom(n, 1, 0.4) + 0)
  k <- gpu(rpois(n, 2))
  p <- gpu(rexp(n) + 0.1)
  fits <- list(gpu_lm(p ~ x * z + g + log(p) + (z > 0.5)), gpu_lm(p ~ x, weights = z, offset = z, subset = x > 0),
    gpu_lm(p ~ x, fe = ~ g), gpu_lm(cbind(p, z) ~ x))
  for (link in c("logit", "probit", "cloglog", "cauchit", "log")) fits <- c(fits, list(gpu_glm(b ~ x + z + g,
    binomial(link), start = c(-1, 0 * seq_len(10)))))
  fits <- c(fits, list(gpu_glm(k ~ x + g, poisson, weights = z), gpu_glm(k ~ x, poisson("sqrt"), offset = z),
    gpu_glm(k ~ x, quasipoisson), gpu_glm(p ~ x + z, Gamma("log")), gpu_glm(p ~ x, inverse.gaussian("log")),
    gpu_glm(p ~ x, gaussian)))
  for (fit in fits) {
    summary(fit)
    # base R's covariance of several responses is computed on the host
    if (inherits(fit, "mlm")) next
    vcov(fit)
    anova(fit)
    gpu_vcov(fit, "HC1")
    AIC(fit)
    if (!is.null(fit$fe)) next
    for (f in list(hatvalues, cooks.distance, rstandard, rstudent, dfbetas, residuals, predict, model.matrix))
      expect_true(is_gpu(f(fit)))
    drop1(fit)
    gpu_vcov(fit, "HC3")
    gpu_vcov(fit, cluster = rep_len(1:20, length(fit$residuals)))
    new <- list(x = x[1:5], z = z[1:5], p = p[1:5], g = g[1:5])
    if (is.null(fit$offset)) expect_true(is_gpu(predict(fit, new)))
  }
})

test_that("codes of many levels are sorted once for all steps of a fit", {
  set.seed(12)
  n <- 3000
  # of pairs more than a device has accumulators for; level 300 has rows, some pairs have none
  d <- data.frame(g = factor(c(1:300, sample(300, n - 300, TRUE))), h = factor(sample(40, n, TRUE)), x = rnorm(n))
  d$y <- rpois(n, exp(0.2 * d$x + (as.integer(d$g) %% 5) / 10))
  sorts <- 0L
  home <- asNamespace("verdigris")
  suppressMessages(trace("sorted_rows", tracer = function() sorts <<- sorts + 1L, where = home, print = FALSE))
  withr::defer(suppressMessages(untrace("sorted_rows", where = home)))
  for (f in list(y ~ x + g, y ~ g + h, y ~ g + x + offset(x / 10))) {
    want <- glm(f, poisson(), d)
    sorts <- 0L
    got <- suppressMessages(composed(gpu_glm(f, poisson(), as_gpu(d, device = test_device), device = test_device)))
    expect_lte(sorts, 2L)
    expect_gte(sorts, 1L)
    expect_identical(got$iter, want$iter)
    expect_equal(coef(got), coef(want), tolerance = 1e-8)
    expect_equal(got$deviance, want$deviance, tolerance = 1e-10)
  }
  # rows without weight leave other codes, in each step the same
  w <- rep(c(0, 2, 1), n / 3)
  want <- lm(y ~ g + x, d, weights = w)
  got <- composed(gpu_lm(y ~ g + x, as_gpu(d, device = test_device), weights = w, device = test_device))
  expect_equal(coef(got), coef(want), tolerance = 1e-8)
})

test_that("errors of a family's compiled code have base R's call", {
  y <- c(0, 1, 1)
  bad <- c(2, 0.5, 0.5)
  told <- function(expr) {
    e <- tryCatch(expr, error = identity)
    list(conditionMessage(e), conditionCall(e))
  }
  want <- told(glm(y ~ 1, binomial(), mustart = bad))
  expect_identical(told(gpu_glm(y ~ 1, binomial(), mustart = bad, device = test_device)), want)
  device_y <- gpu(y)
  expect_identical(told(gpu_glm(device_y ~ 1, binomial(), mustart = gpu(bad))), want)
})
