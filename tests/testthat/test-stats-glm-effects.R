# gpu_glm() with absorbed effects, against glm() with a column for each level.

gpu <- function(d) as_gpu(d, device = test_device)

set.seed(7)
n <- 900
d <- data.frame(x = rnorm(n), z = runif(n), id = sample(40, n, TRUE), year = factor(sample(2001:2006, n, TRUE)),
  w = rpois(n, 2) + 0, o = rnorm(n) / 4)
eta <- d$x / 2 - d$z + d$id / 40 + as.integer(d$year) / 6
d$count <- rpois(n, exp(eta / 2))
d$hit <- rbinom(n, 1, plogis(eta))
d$positive <- rgamma(n, 3, 3 / exp(eta / 3))
d$y <- eta + rnorm(n)
d$trials <- 1 + rpois(n, 4)
d$hits <- rbinom(n, d$trials, plogis(eta))
d$constant <- d$id^2

test_that("coefficients, errors, deviance and criteria are those of dummies", {
  compare <- function(formula, dummies, family, fe, ..., data = d) {
    more <- match.call(expand.dots = FALSE)$...
    fit <- eval(as.call(c(quote(gpu_glm), formula, list(family = family, data = gpu(data), fe = fe), more)))
    want <- eval(as.call(c(quote(glm), dummies, list(family = family, data = quote(data)), more)))
    rows <- names(coef(fit))
    known <- rows[!is.na(coef(fit))]
    expect_equal(coef(fit), coef(want)[rows], tolerance = 1e-6)
    # both say that rows without weight do not count
    errors <- suppressWarnings(list(coef(summary(fit)), coef(summary(want))[known, , drop = FALSE]))
    expect_equal(errors[[1L]], errors[[2L]], tolerance = 1e-5)
    for (part in c("deviance", "null.deviance", "df.residual", "df.null", "aic", "iter", "converged"))
      expect_equal(fit[[part]], want[[part]], tolerance = 1e-7)
    expect_equal(collect(fitted(fit)), unname(fitted(want)), tolerance = 1e-6)
    expect_equal(c(logLik(fit)), c(logLik(want)), tolerance = 1e-8)
    expect_equal(c(AIC(fit), BIC(fit)), c(AIC(want), BIC(want)), tolerance = 1e-8)
    for (type in c("deviance", "pearson", "working", "response"))
      expect_equal(collect(residuals(fit, type)), unname(residuals(want, type)), tolerance = 1e-5)
    expect_equal(collect(predict(fit)), unname(predict(want)), tolerance = 1e-6)
    fit
  }
  compare(count ~ x + z, count ~ x + z + factor(id), poisson(), ~ id)
  two <- compare(count ~ x + z, count ~ x + z + factor(id) + year, poisson(), ~ id + year)
  expect_equal(two$fe$df, 45)
  expect_output(print(two), "Absorbed: 40 + 6 levels of ~id + year (45 degrees of freedom)", fixed = TRUE)
  compare(hit ~ x + z, hit ~ x + z + year, binomial(), ~ year)
  compare(cbind(hits, trials - hits) ~ x, cbind(hits, trials - hits) ~ x + factor(id), binomial(), ~ id)
  compare(hits / trials ~ x, hits / trials ~ x + year, quote(binomial("probit")), ~ year, weights = trials)
  compare(positive ~ x, positive ~ x + year, quote(Gamma("log")), ~ year, offset = o)
  compare(y ~ x, y ~ x + factor(id), gaussian(), ~ id, weights = w)
  compare(count ~ x, count ~ x + factor(id), poisson(), ~ id, subset = x > -1)
  compare(count ~ x + constant, count ~ x + factor(id) + constant, poisson(), ~ id)
  gap <- replace(d, "count", replace(d$count, 3:5, NA))
  compare(count ~ x, count ~ x + year, poisson(), ~ year, data = gap)
})

test_that("a model of effects alone has the fit of dummies", {
  fit <- gpu_glm(count ~ 1, poisson(), gpu(d), fe = ~ year)
  want <- glm(count ~ year, poisson(), d)
  expect_length(coef(fit), 0L)
  expect_equal(deviance(fit), deviance(want), tolerance = 1e-9)
  expect_equal(c(AIC(fit), df.residual(fit)), c(AIC(want), df.residual(want)), tolerance = 1e-9)
  expect_output(print(summary(fit)), "No Coefficients")
})

test_that("robust errors are those of the columns that are left", {
  fit <- gpu_glm(count ~ x + z, poisson(), gpu(d), fe = ~ year)
  full <- glm(count ~ x + z + year, poisson(), d)
  x <- model.matrix(full)
  bread <- solve(crossprod(x * sqrt(full$weights)))
  score <- x * (residuals(full, "working") * full$weights)
  want <- (bread %*% crossprod(score) %*% bread)[c("x", "z"), c("x", "z")]
  expect_equal(gpu_vcov(fit, "HC0"), want, tolerance = 1e-5)
  expect_equal(gpu_vcov(fit), vcov(full)[c("x", "z"), c("x", "z")], tolerance = 1e-5)
  wald <- confint.default(full, c("x", "z"))
  expect_equal(confint(fit), wald, tolerance = 1e-5)
})

test_that("what needs the effects is refused, and says what to do", {
  fit <- gpu_glm(count ~ x + z, poisson(), gpu(d), fe = ~ id)
  refused <- list(predict = quote(predict(fit, d)), terms = quote(predict(fit, type = "terms")),
    hat = quote(hatvalues(fit)), collect = quote(collect(fit)), anova = quote(anova(fit)), add1 = quote(add1(fit, ~ .)),
    drop1 = quote(drop1(fit)), step = quote(step(fit, trace = 0)), profile = quote(profile(fit)))
  for (call in refused) expect_error(eval(call), "absorbed", class = "verdigris_error_argument")
  for (call in list(quote(drop1(linear)), quote(add1(linear, ~ . + z)))) {
    linear <- gpu_lm(y ~ x, gpu(d), fe = ~ id)
    expect_error(eval(call), "absorbed", class = "verdigris_error_argument")
  }
  expect_error(gpu_glm(count ~ x, poisson(), d, fe = "id"), "`fe` must be", class = "verdigris_error_argument")
  expect_error(gpu_glm(count ~ x, poisson(), d, fe = ~ id, start = 0, device = test_device), "`start` must be NULL",
    class = "verdigris_error_argument")
  expect_equal(coef(update(fit, . ~ . - z)), coef(glm(count ~ x + factor(id), poisson(), d))["x"], tolerance = 1e-6)
})

test_that("groups of one outcome are fitted as by dummies, with base R's warnings", {
  e <- d
  e$hit[e$id == 3] <- 0
  for (epsilon in c(1e-8, 1e-14)) {
    control <- glm.control(epsilon = epsilon, maxit = 50)
    said <- function(code) testthat::capture_warnings(code)
    ours <- said(fit <- gpu_glm(hit ~ x, binomial(), gpu(e), fe = ~ id, control = control))
    expect_identical(ours, said(want <- glm(hit ~ x + factor(id), binomial(), e, control = control)))
    expect_equal(coef(fit), coef(want)["x"], tolerance = 1e-5)
  }
})
