# Linear and generalised linear models of readers against base R's on the whole data.

withr::local_options(verdigris.device = test_device)
set.seed(44)
n <- 300
d <- data.frame(a = rnorm(n), b = rnorm(n), g = factor(sample(letters[1:4], n, TRUE)), s = sample(c("u", "v", "w"), n,
  TRUE), w = sample(0:4, n, TRUE), o = rnorm(n) / 5)
d$l <- runif(n) > 0.5
d$y <- 1 + d$a - 2 * d$b + as.integer(d$g) + rnorm(n)
d$e <- rbinom(n, 1, plogis(d$a - d$b / 2))
d$k <- rpois(n, exp(d$a / 2 + 0.3))
d$z <- 2 + rgamma(n, 2, rate = 2 / exp(d$a / 3))
d$t <- d$w + 1L
d$q <- rbinom(n, d$t, plogis(d$b))
d$f <- factor(ifelse(d$e == 1, "yes", "no"))
numbers <- c("y", "a", "b", "w", "o", "e", "k", "z")
complete <- d
d$a[c(3, 77, 201)] <- NA

frames <- gpu_reader(d, memory = blocks_of_rows(110, ncol(d)))
matrices <- function(d, env = parent.frame()) {
  m <- as.matrix(d[numbers])
  list(gpu_reader(raw_file(m, env = env), dim = dim(m), dimnames = dimnames(m), memory = blocks_of_rows(130, 8)),
    gpu_reader(raw_file(t(m), env = env), dim = dim(m), dimnames = list(NULL, numbers), byrow = TRUE))
}
compare_fits <- function(call, data, reader, tolerance = 1e-8) {
  ours <- call
  theirs <- call
  glm <- identical(call[[1L]], quote(glm))
  ours[[1L]] <- if (glm) quote(gpu_glm) else quote(gpu_lm)
  # what is said of weights, counts and predictions is looked at below
  quiet <- suppressWarnings
  got <- quiet(eval(ours, list(data = reader), globalenv()))
  want <- quiet(eval(theirs, list(data = data), globalenv()))
  same <- function(f, ...) expect_equal(quiet(f(got)), quiet(f(want)), tolerance = tolerance,
    label = paste(deparse1(call), "of", reader$label, deparse1(substitute(f))), ...)
  same(stats::coef)
  same(stats::vcov)
  same(stats::deviance)
  same(stats::nobs)
  same(stats::df.residual)
  same(function(fit) summary(fit)$coefficients)
  same(function(fit) fit$rank)
  same(function(fit) fit$xlevels)
  same(function(fit) fit$contrasts)
  same(function(fit) unclass(fit$na.action))
  same(stats::AIC)
  same(stats::BIC)
  same(function(fit) as.vector(logLik(fit)))
  same(function(fit) attributes(logLik(fit))[c("nobs", "df")])
  if (glm) {
    same(function(fit) fit$null.deviance)
    same(function(fit) fit$df.null)
    same(function(fit) fit$iter)
    same(function(fit) summary(fit)$dispersion)
  } else {
    same(function(fit) summary(fit)[c("sigma", "r.squared", "adj.r.squared", "fstatistic", "df", "aliased")])
    same(stats::confint)
    same(function(fit) as.data.frame(anova(fit)))
  }
  same(function(fit) predict(fit, data[1:5, ]))
  if (!glm) same(function(fit) predict(fit, data[1:5, ], interval = "prediction"))
}

test_that("linear models are base R's", {
  for (call in alist(lm(y ~ a + b, data), lm(y ~ ., data), lm(y ~ a + b - 1, data), lm(y ~ b, data),
    lm(a ~ o + w, data))) {
    for (x in matrices(complete)) compare_fits(call, complete[numbers], x)
    for (x in matrices(d)) compare_fits(call, d[numbers], x)
  }
  for (call in alist(lm(y ~ a * b + I(b^2) + log(z), data, weights = w), lm(y ~ a + offset(o), data),
    lm(y ~ a, data, offset = o, subset = b > -1), lm(log(z) ~ poly(b, 2, raw = TRUE), data)))
    for (x in matrices(d)) compare_fits(call, d[numbers], x)
  for (call in alist(lm(y ~ a + g, data), lm(y ~ a * g + s + l, data, weights = w, offset = o, subset = b > -1),
    lm(y ~ g + s, data, contrasts = list(g = "contr.sum")), lm(y ~ 0 + s, data), lm(y ~ g:a + l, data),
    lm(y ~ factor(w) + (b > 0), data))) compare_fits(call, d, frames)
})

test_that("designs that products cannot tell take a second pass", {
  m <- complete[numbers]
  m$c <- m$a + 1e-5 * rnorm(n)
  m$d <- m$a + m$b
  m$r <- m$a + 1e-9 * rnorm(n)
  # far from 0 beside their deviations
  m$far <- 1e4 + m$b
  m$exact <- 3 * m$a - m$b
  x <- gpu_reader(as.matrix(m), memory = blocks_of_rows(120, ncol(m)))
  by_frames <- gpu_reader(m, memory = blocks_of_rows(120, ncol(m)))
  for (reader in list(x, by_frames)) {
    compare_fits(quote(lm(y ~ a + b + c, data)), m, reader, 1e-6)
    compare_fits(quote(lm(y ~ a + b + d, data)), m, reader)
    compare_fits(quote(lm(y ~ d + a + b + o, data)), m, reader)
    compare_fits(quote(lm(y ~ a + r + o, data)), m, reader)
    compare_fits(quote(lm(y ~ far + a, data)), m, reader)
    fit <- gpu_lm(exact ~ a + b, reader)
    expect_equal(coef(fit), c("(Intercept)" = 0, a = 3, b = -1), tolerance = 1e-10)
    expect_lt(deviance(fit), 1e-20)
  }
  # fewer rows than columns
  few <- gpu_reader(m[1:3, ])
  expect_equal(coef(gpu_lm(y ~ a + b + w + o, few)), coef(lm(y ~ a + b + w + o, m[1:3, ])))
  expect_error(gpu_lm(y ~ a + d + b, x, singular.ok = FALSE), "singular fit encountered")
})

test_that("variables may be readers beside ordinary ones", {
  y <- d$y
  x <- gpu_reader(d$b, memory = blocks_of_rows(64, 1))
  both <- gpu_reader(as.matrix(complete[c("a", "b")]), memory = blocks_of_rows(50, 2))
  fit <- gpu_lm(y ~ x + d$o)
  expect_equal(unname(coef(fit)), unname(coef(lm(y ~ b + o, d))))
  whole <- as.matrix(complete[c("a", "b")])
  expect_equal(unname(coef(gpu_lm(y ~ both))), unname(coef(lm(y ~ whole))))
  expect_equal(unname(coef(gpu_lm(y ~ x, weights = w, list(w = d$w)))), unname(coef(lm(y ~ b, d, weights = w))))
  short <- gpu_reader(1:10)
  expect_error(gpu_lm(short ~ x), "10 and 300|300 and 10", class = "verdigris_error_argument")
})

test_that("generalised linear models are base R's", {
  for (call in alist(glm(e ~ a + b, binomial, data), glm(k ~ a + offset(o), poisson, data), glm(e ~ a + b - 1,
    binomial("probit"), data), glm(z ~ a, gaussian, data, weights = w + 1), glm(e ~ 1, binomial, data)))
    for (x in matrices(d)) compare_fits(call, d[numbers], x, 1e-6)
  for (call in alist(glm(f ~ a * g, binomial, data), glm(cbind(q, t - q) ~ a + b, binomial, data),
    glm(q / t ~ b, binomial, data, weights = t), glm(k ~ a + g + s, poisson, data), glm(z ~ a + g, Gamma("log"), data),
    glm(z ~ a, inverse.gaussian("log"), data), glm(e ~ a, binomial("cloglog"), data, subset = b > 0),
    glm(k ~ a, poisson, data, start = c(0, 0)))) compare_fits(call, d, frames, 1e-6)
  fit <- gpu_glm(k ~ a + g, quasipoisson, frames)
  want <- glm(k ~ a + g, quasipoisson, d)
  expect_equal(summary(fit)$coefficients, summary(want)$coefficients, tolerance = 1e-6)
  expect_identical(fit$aic, NA_real_)
  # aliased columns
  m <- complete
  m$c <- m$a + m$b
  expect_equal(coef(gpu_glm(e ~ a + b + c, binomial, gpu_reader(m, memory = blocks_of_rows(120, ncol(m))))),
    coef(glm(e ~ a + b + c, binomial, m)), tolerance = 1e-6)
})

test_that("warnings and errors are base R's", {
  apart <- data.frame(x = 1:10, y = rep(0:1, each = 5))
  ours <- outcome(coef(gpu_glm(y ~ x, binomial, gpu_reader(apart, memory = blocks_of_rows(4, 2)))))
  theirs <- outcome(coef(glm(y ~ x, binomial, apart)))
  expect_identical(ours$warnings, theirs$warnings)
  halves <- data.frame(x = 1:8, y = c(0, 0.5, 1, 0, 0.3, 1, 1, 0))
  expect_identical(outcome(coef(gpu_glm(y ~ x, binomial, gpu_reader(halves, memory = blocks_of_rows(2, 2)))))$warnings,
    outcome(coef(glm(y ~ x, binomial, halves)))$warnings)
  x <- matrices(d)[[1]]
  expect_error(gpu_lm(y ~ nothing, x), "object 'nothing' not found")
  expect_error(gpu_lm(y ~ a, x, na.action = na.fail), "missing values in object")
  expect_error(gpu_lm(y ~ a, x, weights = o), "missing or negative weights not allowed")
  expect_error(gpu_glm(y ~ a, poisson, x), "negative values not allowed")
  infinite <- gpu_reader(cbind(y = c(1, 2, Inf, 4), a = 1:4))
  expect_error(gpu_lm(y ~ a, infinite), "NA/NaN/Inf in 'y'")
  expect_error(gpu_lm(a ~ y, infinite), "NA/NaN/Inf in 'x'")
  expect_error(gpu_lm(y ~ a, gpu_reader(matrix(0, 0, 2, dimnames = list(NULL, c("y", "a"))))), "0 (non-NA) cases",
    fixed = TRUE)
  refused <- function(code, pattern) expect_error(code, pattern, class = "verdigris_error_argument")
  for (formula in c(y ~ poly(b, 2), y ~ scale(b), y ~ I(b - mean(b)), y ~ cumsum(b), y ~ rank(b)))
    refused(gpu_lm(formula, x), "depend on all rows")
  refused(gpu_lm(y ~ a, x, fe = ~w), "`fe` cannot be given")
  refused(gpu_lm(cbind(y, a) ~ b, x), "one response")
  refused(gpu_lm(y ~ a, gpu_reader(1:3)), "`data` must be")
  fit <- gpu_lm(y ~ a, x)
  for (call in alist(residuals(fit), fitted(fit), model.matrix(fit), model.frame(fit), influence(fit), hatvalues(fit),
    plot(fit), collect(fit), predict(fit))) refused(eval(call), "does not keep")
})

test_that("fits print as base R's, and predict block by block", {
  fit <- gpu_lm(y ~ a + g, frames)
  want <- lm(y ~ a + g, d)
  lines <- function(fit) {
    out <- capture.output(print(summary(fit)))
    out[-grep("lm\\(|^Call|Residuals:|Min|^$|^-?[0-9. -]+$", out)]
  }
  expect_identical(lines(fit), lines(want))
  expect_identical(capture.output(print(fit))[-(1:3)], capture.output(print(want))[-(1:3)])
  glm <- gpu_glm(f ~ a, binomial, frames)
  expect_output(print(summary(glm)), "Null deviance")
  expect_false(any(grepl("Residuals:", capture.output(print(summary(glm))))))
  path <- withr::local_tempfile()
  fitted <- gpu_chunked(frames, function(block) predict(glm, block, type = "response"), to = path)
  expect_equal(fitted[], unname(predict(glm(f ~ a, binomial, d), d, type = "response")), tolerance = 1e-6)
  x <- matrices(d)[[1]]
  by_matrix <- gpu_lm(y ~ a + b, x)
  fitted <- gpu_chunked(x, function(block) predict(by_matrix, block), margin = 1, to = path)
  expect_equal(fitted[], unname(predict(lm(y ~ a + b, d), d)))
  again <- update(by_matrix, . ~ . - b)
  expect_equal(coef(again), coef(lm(y ~ a, d)))
})

test_that("expressions that may depend on other rows are refused, wherever they are", {
  up <- d[order(d$b), ]
  x <- gpu_reader(up, memory = blocks_of_rows(60, ncol(up)))
  refused <- function(code) expect_error(code, "depend on all rows", class = "verdigris_error_argument")
  double <- function(v) v * 2
  # rows with missing values among the first, a subset, and values of which a half has the whole's largest
  for (formula in c(y ~ I(b / max(b)), y ~ I(a - mean(a, na.rm = TRUE)), y ~ double(b), y ~ cut(b, 3), y ~ rev(b),
    y ~ as.integer(factor(s)), y ~ addNA(g), y ~ factor(g, exclude = "a"), y ~ splines::ns(b, 3), y ~ scale(b),
    log(z / sum(z)) ~ b, y ~ b[1:3], y ~ b:I(order(a)))) {
    refused(gpu_lm(formula, x))
    refused(gpu_lm(formula, x, subset = b > 0))
  }
  refused(gpu_lm(y ~ b, x, weights = w / sum(w)))
  refused(gpu_lm(y ~ b, x, weights = rank(w)))
  refused(gpu_lm(y ~ b, x, offset = o - mean(o)))
  refused(gpu_lm(y ~ b, x, subset = b > mean(b)))
  refused(gpu_lm(y ~ offset(o - mean(o)), x))
  refused(gpu_glm(k ~ b, poisson, x, etastart = o - mean(o)))
  refused(gpu_glm(k ~ b, poisson, x, mustart = k / mean(k)))
  condition <- function(code) expect_error(code, "`subset` must be a condition", class = "verdigris_error_argument")
  at <- seq_len(n)
  some <- 1:20
  condition(gpu_lm(y ~ b, x, subset = 1:20))
  condition(gpu_lm(y ~ b, x, subset = -1))
  condition(gpu_lm(y ~ b, x, subset = at))
  condition(gpu_lm(y ~ b, x, subset = some))
  condition(gpu_lm(y ~ b, x, subset = w))
  condition(gpu_lm(y ~ b, x, subset = c(TRUE, FALSE, FALSE)))
  expect_error(gpu_lm(y ~ b, x, weights = 1:2), "has 2 elements", class = "verdigris_error_argument")
  expect_error(gpu_lm(y ~ I(b * c(1, 2)), x), "recycles several numbers", class = "verdigris_error_argument")
})

test_that("what a row alone decides is computed in each block", {
  keep <- rep(c(TRUE, FALSE, TRUE), n / 3)
  for (call in alist(lm(y ~ pmax(b, 0) + abs(o) + log1p(z), data),
    lm(y ~ a, data, subset = w > 1 & b < 1),
    lm(y ~ I(as.integer(g)) + pmin(a, 0), data),
    lm(y ~ scale(b, center = 0.5, scale = 2) + poly(o, 2, raw = TRUE), data),
    lm(y ~ paste(s, l), data), lm(log(z) ~ a, data, weights = pmin(w, 2), offset = o / 2)))
    compare_fits(call, d, frames)
  # ours on the search path, and base R's
  got <- coef(gpu_lm(y ~ ifelse(b > 0, b, 0) + pnorm(o) + atan2(o, b), frames))
  want <- coef(lm(y ~ base::ifelse(b > 0, b, 0) + stats::pnorm(o) + base::atan2(o, b), d))
  expect_equal(unname(got), unname(want))
  fit <- gpu_lm(y ~ b, frames, weights = rep(1:3, n / 3), subset = keep)
  expect_equal(coef(fit), coef(lm(y ~ b, d, weights = rep(1:3, n / 3), subset = rep(c(TRUE, FALSE, TRUE), n / 3))))
  given <- coef(gpu_glm(k ~ b, poisson, frames, mustart = k + 0.5, subset = TRUE))
  expect_equal(given, coef(glm(k ~ b, poisson, d)), tolerance = 1e-6)
})

test_that("factors of expressions have base R's levels in base R's order", {
  d$h <- c(2, 10, 9, 100)[as.integer(d$g)]
  d <- d[order(d$h, decreasing = TRUE), ]
  x <- gpu_reader(d, memory = blocks_of_rows(40, ncol(d)))
  for (call in alist(lm(y ~ factor(h), data), lm(y ~ as.factor(h) + b, data), lm(y ~ relevel(g, "c"), data),
    lm(y ~ factor(g, levels = c("d", "b", "a", "c")), data), lm(y ~ cut(b, c(-9, 0, 1, 9)), data),
    lm(y ~ cut(b, c(-9, 0, 1, 9), c("z", "y", "x")) + a, data), lm(y ~ ordered(h), data), lm(y ~ factor(g) + l, data),
    lm(y ~ factor(s, levels = c("w", "u", "v"), labels = c("z", "y", "x")), data), lm(y ~ C(g, contr.sum), data),
    lm(y ~ interaction(g, l), data), lm(y ~ factor(b > 0), data), lm(y ~ factor(-h), data))) {
    ours <- call
    ours[[1L]] <- quote(gpu_lm)
    got <- eval(ours, list(data = x))
    want <- eval(call, list(data = d))
    expect_equal(coef(got), coef(want), label = deparse1(call))
    expect_equal(got$xlevels, want$xlevels, label = deparse1(call))
  }
  # other levels in each block
  apart <- function(levels) gpu_reader(function(rows) data.frame(y = d$y[rows], g = levels(as.character(d$g[rows]))),
    dim = n, memory = blocks_of_rows(40, 2))
  sorted <- apart(factor)
  expect_equal(coef(gpu_lm(y ~ g, sorted)), coef(lm(y ~ g, d)))
  other <- function(code) expect_error(code, "has different levels in different blocks",
    class = "verdigris_error_argument")
  other(gpu_lm(y ~ g, apart(function(v) factor(v, unique(c(v, "a"))))))
  other(gpu_lm(y ~ I(as.integer(g)), sorted))
  other(gpu_lm(y ~ g + I(as.integer(g)), sorted))
  # relevel() needs a level in each block
  alone <- gpu_reader(d[order(d$s), ], memory = blocks_of_rows(40, ncol(d)))
  for (formula in list(y ~ relevel(factor(s), "w"), y ~ a + relevel(relevel(factor(s), "u"), ref = "w"))) {
    expect_error(gpu_lm(formula, alone), "`relevel()` finds no level", class = "verdigris_error_argument", fixed = TRUE)
    expect_error(gpu_lm(formula, alone), "factor(x, levels)", fixed = TRUE)
  }
  known <- y ~ relevel(factor(s, levels = c("u", "v", "w")), "w")
  expect_equal(coef(gpu_lm(known, alone)), coef(lm(known, d)))
  expect_error(gpu_lm(y ~ relevel(a, "w"), alone), "only for (unordered) factors", fixed = TRUE)
  other(gpu_lm(y ~ interaction(s, l), gpu_reader(d[order(d$s, decreasing = TRUE), ],
    memory = blocks_of_rows(150, ncol(d)))))
})

test_that("extractAIC() and logLik() count rows as base R does", {
  for (call in alist(lm(y ~ a + b, data), lm(y ~ a, data, weights = w), glm(e ~ a, binomial, data),
    glm(k ~ b, poisson, data, weights = w), lm(y ~ 0 + g, data))) {
    ours <- call
    ours[[1L]] <- if (identical(call[[1L]], quote(glm))) quote(gpu_glm) else quote(gpu_lm)
    got <- eval(ours, list(data = frames))
    want <- eval(call, list(data = d))
    expect_equal(extractAIC(got), extractAIC(want), tolerance = 1e-6, label = deparse1(call))
    expect_equal(extractAIC(got, k = 3), extractAIC(want, k = 3), tolerance = 1e-6)
    expect_equal(attributes(logLik(got)), attributes(logLik(want)), label = deparse1(call))
    expect_equal(BIC(got), BIC(want), tolerance = 1e-6)
  }
})

test_that("models without columns, and without weight, are base R's", {
  for (x in c(list(frames), matrices(d))) for (call in alist(lm(y ~ 0, data), lm(y ~ 0, data, weights = w),
    lm(y ~ 0 + offset(o), data))) {
    ours <- call
    ours[[1L]] <- quote(gpu_lm)
    got <- eval(ours, list(data = x))
    want <- eval(call, list(data = d))
    for (f in list(coef, deviance, df.residual, nobs, function(fit) fit$rank, function(fit) as.vector(logLik(fit)),
      function(fit) summary(fit)[c("sigma", "df", "r.squared")])) expect_equal(f(got), f(want), label = deparse1(call))
  }
  d$none <- 0
  got <- gpu_lm(y ~ b, gpu_reader(d, memory = blocks_of_rows(110, ncol(d))), weights = none)
  want <- lm(y ~ b, d, weights = none)
  expect_equal(unname(coef(got)), unname(coef(want)))
  expect_equal(c(got$rank, df.residual(got), nobs(got)), c(want$rank, df.residual(want), nobs(want)))
})

test_that("generalised linear models without columns, and without weight, are base R's", {
  for (call in alist(glm(k ~ 0, poisson, data), glm(k ~ 0 + offset(o), poisson, data, weights = w))) {
    ours <- call
    ours[[1L]] <- quote(gpu_glm)
    got <- eval(ours, list(data = frames))
    want <- eval(call, list(data = d))
    for (f in list(coef, deviance, df.residual, nobs, AIC, extractAIC, function(fit) fit$null.deviance))
      expect_equal(f(got), f(want), tolerance = 1e-8, label = deparse1(call))
  }
  suppressWarnings(expect_error(gpu_glm(k ~ b, poisson, frames, weights = rep(0, n)), "object 'fit' not found"))
})
