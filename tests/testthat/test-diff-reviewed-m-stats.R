# Calls in which reviewers found another result than base R's: models, histograms, quantiles, series, sparse matrices,
# splits and readers. A call is evaluated with arrays, and with ordinary values under the same names.

# The value (on the host, without names of rows), the message of the error, and the warnings.
outcome_of <- function(call, values) {
  warned <- character()
  value <- tryCatch(withCallingHandlers(eval(call, values, parent.frame()), warning = function(w) {
    warned <<- c(warned, conditionMessage(w))
    invokeRestart("muffleWarning")
  }), error = function(e) paste("error:", conditionMessage(e)))
  value <- if (inherits(value, "gpu_sparse")) as.matrix(value) else if (is.list(value) && !is.object(value))
    lapply(value, collect) else collect(value)
  list(value = value, warned = unique(warned))
}
expect_as_base <- function(calls, arrays, ordinary) for (call in calls) {
  cases$n <- cases$n + 1L
  expect_equal(outcome_of(call, arrays), outcome_of(call, ordinary), tolerance = 1e-8, info = deparse1(call))
}

d <- data.frame(x = c(1, 3, 2, 5, 4, 7), y = c(2, 1, 4, 3, 6, 5), z = c(1, 1, 2, 3, 5, 8), w = c(1, 2, 1, 2, 0, 1),
  g = c(1, 1, 2, 2, 3, 3), text = c("a", "b", "a", "b", "a", "b"))
models <- list(d = gpu(d), fit = gpu_lm, glm_fit = gpu_glm)
base_models <- list(d = d, fit = lm, glm_fit = glm)

test_that("models without columns are refitted, predicted and have a model matrix", {
  expect_as_base(alist(drop1(fit(y ~ 0 + x, d)), drop1(fit(y ~ 0 + x, d, weights = w)), add1(fit(y ~ 0, d), ~ . + x),
    drop1(fit(y ~ 0 + x, d, offset = z)), coef(step(fit(y ~ 0 + x + z, d), trace = 0)), anova(fit(y ~ 0 + x, d)),
    unname(predict(fit(y ~ 0, d), d)), unname(predict(glm_fit(y ~ 0, data = d), d)), dim(model.matrix(fit(y ~ 0, d))),
    dim(model.matrix(glm_fit(y ~ 0, data = d))), dim(fit(y ~ 0, d, x = TRUE)$x)), models, base_models)
  none <- list(new = gpu(d)[integer(), ])
  expect_length(predict(gpu_lm(y ~ scale(x), models$d), none$new), 0L)
})

test_that("fits beside absorbed effects count their degrees of freedom", {
  fit <- gpu_lm(mpg ~ hp + wt, gpu(mtcars), fe = ~ gear)
  full <- lm(mpg ~ factor(gear) + hp + wt, mtcars)
  expect_equal(as.matrix(anova(fit)), as.matrix(anova(full))[-1L, ], tolerance = 1e-8)
  expect_equal(sigma(fit), sigma(full), tolerance = 1e-8)
  expect_equal(sigma(gpu_lm(mpg ~ hp, gpu(mtcars))), sigma(lm(mpg ~ hp, mtcars)), tolerance = 1e-8)
  among <- gpu_glm(am ~ wt, binomial, gpu(mtcars), fe = ~ vs)
  expect_equal(sigma(among), sigma(glm(am ~ wt + factor(vs), binomial, mtcars)), tolerance = 1e-6)
  expect_error(logLik(fit, REML = TRUE), class = "verdigris_error_argument")
})

test_that("restricted likelihoods and offsets of several columns are base R's", {
  on_test_device()
  expect_as_base(alist(logLik(fit(y ~ x, d), REML = TRUE), logLik(fit(y ~ x, d, weights = w), REML = TRUE),
    logLik(fit(y ~ x + I(2 * x), d), REML = TRUE), fit(y ~ x, d, offset = cbind(x, z)),
    coef(fit(y ~ x, d, offset = cbind(z))), coef(fit(cbind(y, w) ~ x, d, offset = cbind(x, z)))), models, base_models)
  expect_error(gpu_lm(y ~ x, gpu_reader(d[1:5]), offset = cbind(x, z)), "number of offsets is 12")
})

test_that("hist() of arrays and readers takes base R's arguments, and warns as it does", {
  on_test_device()
  x <- c(1, 5, 2, 8, 9, 3, 4, NA, 20, Inf)
  h <- function(...) unclass(hist(..., plot = FALSE))[c("breaks", "counts", "density", "mids", "equidist")]
  calls <- alist(h(x, nclass = 2), h(x, 3, nclass = 2), h(x, freq = TRUE, main = "a"), h(x, 3, include.lowest = FALSE),
    h(x, c(0, 5, 30), incl = FALSE, right = FALSE), h(x, c(0, 5)), h(x[0L]), h(x, -1), h(x, "nope"),
    hist(x, plot = FALSE)$xname)
  expect_as_base(calls, list(x = gpu(x), h = h), list(x = x, h = h))
  expect_as_base(c(calls[-7L], alist(h(x))), list(x = gpu_reader(x), h = h), list(x = x, h = h))
  expect_as_base(alist(h(x, "FD"), h(x, function(v) c(0, max(v))), h(x > 1), h(x[8L]), h(x[8L], c(0, 1, 2))),
    list(x = gpu(x), h = h), list(x = x, h = h))
  grDevices::pdf(NULL)
  withr::defer(grDevices::dev.off())
  expect_silent(hist(gpu(x), nclass = 3, probability = TRUE))
})

test_that("quantiles of missing probabilities and names of few digits are base R's", {
  on_test_device()
  team <- gpu_team(rep(test_device, 3))
  calls <- list()
  for (type in 1:9) for (probs in list(c(.5, NA), NA_real_, c(1 / 3, NA, NaN, 1)))
    calls <- c(calls, bquote(quantile(x, .(probs), type = .(type), digits = 3)))
  calls <- c(calls, quote(quantile(x, 1 / 3, digits = 3)), quote(quantile(x, 1 / 3, digits = 0)))
  for (x in list(1:11 + 0, 1:10)) for (f in list(gpu, function(x) gpu_split(x, team), function(x)
    gpu_reader(x))) expect_as_base(calls, list(x = f(x)), list(x = x))
})

test_that("acf(), spec.pgram(), convolve() and princomp() take unusual arguments as base R does", {
  x <- c(1, 5, 2, 8, 9, 3, 4)
  calls <- alist(acf(x, 5.7, plot = FALSE)$acf, acf(x, 0.5, plot = FALSE)$acf, pacf(x, 3.2, plot = FALSE)$acf,
    pacf(x, 0.5, plot = FALSE), acf(x, na.action = function(v) v[1:5], plot = FALSE)$n.used,
    spec.pgram(x, na.action = function(v) v[1:5], plot = FALSE)$n.used, convolve(x, x, NA), convolve(x, x, 0),
    princomp(covmat = V)$sdev, princomp(covmat = V, cor = TRUE)$sdev)
  V <- cov(d[1:3])
  expect_as_base(calls, list(x = gpu(x), V = gpu(V)), list(x = x, V = V))
})

test_that("sparse matrices have base R's names, ranges, and errors of subscripts", {
  m <- matrix(c(0, 1, 0, -2, NA, Inf), 2, dimnames = list(c("a", "b"), c("u", "v", "w")))
  A <- matrix(1:6 + 0, 2, dimnames = list(c("p", "q"), NULL))
  calls <- alist(A + S, S + A, A * S, A < S, unname(A) - S, S * array(1:6), array(2, 1) * S, pmax(S, array(1:6)),
    as.vector(S[cbind(c("a", "b"), c("v", "w"))]), S[cbind("a", "zz")], S[cbind(NA, "zz")],
    as.vector(S[cbind(c("a", NA), c("v", "w"))]), S[matrix("a", 1, 1)], `[<-`(S, cbind("a", "zz"), value = 1),
    range(S, finite = TRUE), range(S, finite = FALSE), range(S, 100, NaN, finite = TRUE), max(S, NaN, na.rm = TRUE))
  S <- gpu_sparse(gpu(m))
  expect_as_base(calls, list(S = S, A = A), list(S = m, A = A))
  expect_as_base(calls[1:5], list(S = S, A = gpu(A)), list(S = m, A = A))
  known <- m
  known[is.na(m) | is.infinite(m)] <- 1
  expect_equal(collect(gpu_dense(scale(gpu_sparse(gpu(known)), FALSE))), scale(known, FALSE))
})

test_that("splits have base R's ends, weighted means, spreads, labels and attributes", {
  on_test_device()
  team <- gpu_team(rep(test_device, 3))
  split <- function(x) gpu_split(x, team)
  m <- matrix(1:22 + 0, 11, dimnames = list(NULL, c("a", "b")))
  D <- as.Date("2020-01-01") + c(0, 5, 9, 2)
  d <- data.frame(D, a = c(1, 3, 2, 8), b = c(4, 1, 1, 2), t = as.POSIXct("2020-01-01", tz = "UTC") + 1:4,
    dt = as.difftime(c(1, 2, 3, 9), units = "mins"), f = factor(c("p", "q", "p", "q")))
  calls <- alist(tail(v, 2.7), tail(v, -9.5), tail(v, 0.3), head(v, 2.7), tail(m, 2.7), pmin(v, c(1, 2)),
    weighted.mean(d$D, 1:4), weighted.mean(d$D, d$a), weighted.mean(d$t, 1:4), weighted.mean(d$dt, 1:4),
    cor(d[, c("a", "b")]), cov(d[, c("a", "b")]), IQR(d$dt), IQR(d$D), IQR(d$f), rowsum(d$a, d$D), scale(m),
    scale(m, FALSE))
  expect_as_base(calls, list(v = split(1:11 + 0), m = split(m), d = split(d)), list(v = 1:11 + 0, m = m, d = d))
  expect_error(split(d)[[c(1, 2)]], class = "verdigris_error_split")
  expect_as_base(alist(scale(m), m[1, 1, 1], m[1, 2, 3, 4], m[1, 2], m[1, , drop = FALSE]),
    list(m = gpu_reader(m)), list(m = m))
})

test_that("fits to splits and readers refuse responses of strings, and warn of weights of 0", {
  on_test_device()
  team <- gpu_team(rep(test_device, 3))
  s <- gpu_split(d, team)
  r <- gpu_reader(d)
  for (data in list(s, r)) expect_error(suppressWarnings(gpu_glm(text ~ x, binomial, data)), "y values must be 0 <= y <= 1")
  expect_equal(dim(model.matrix(gpu_lm(y ~ 0, s))), c(6, 0))
  expect_equal(collect(predict(gpu_lm(y ~ 0, s), s)), numeric(6))
  expect_warning(summary(gpu_glm(y ~ x, data = r, weights = w)), "observations with zero weight not used")
})
