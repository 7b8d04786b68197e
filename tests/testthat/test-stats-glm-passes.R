# Iterations of gpu_glm() that are one pass over the rows each: base R's fits, the cases that are left to glm.fit(), and
# the cross products of a pass.

passes_data <- function(n = if (emulated) 1000 else 4000) {
  set.seed(41)
  d <- data.frame(a = rnorm(n), b = rnorm(n), c = runif(n), e = rnorm(n), f = rnorm(n), g = rnorm(n), w = runif(n) + 0.5,
    o = rnorm(n) / 4)
  eta <- 0.5 + d$a / 2 - d$b / 3 + d$c / 4
  d$y <- rbinom(n, 1L, plogis(eta))
  d$k <- rpois(n, exp(eta))
  d$z <- rgamma(n, shape = 2, rate = 2 / exp(eta))
  d$x <- eta + rnorm(n)
  # glm.fit() diverges with an inverse Gaussian family and z
  d$v <- exp(eta + rnorm(n) / 4)
  d
}
columns <- ~ a + b + c + e + f + g

# What glm_fit_by_passes() returns for a formula's design, on arrays.
fit_by_passes <- function(formula, family, data, weights = NULL, offset = NULL, start = NULL, ..., control = list()) {
  frame <- model.frame(formula, data)
  x <- as_gpu(unclass(model.matrix(formula, frame)))
  glm_fit_by_passes(as_design(x), as_gpu(as.double(model.response(frame))), if (!is.null(weights)) as_gpu(weights),
    start, NULL, NULL, if (!is.null(offset)) as_gpu(offset), family, control, TRUE)
}

expect_same_fit <- function(formula, family, data, ...) {
  got <- fit_by_passes(formula, family, data, ...)
  label <- paste(family$family, family$link)
  expect_type(got, "list")
  if (is.null(got)) return()
  more <- list(...)
  frame <- model.frame(formula, data)
  want <- glm.fit(model.matrix(formula, frame), as.double(model.response(frame)), family = family,
    weights = more$weights %||% rep(1, nrow(data)), offset = more$offset %||% rep(0, nrow(data)), start = more$start)
  expect_identical(names(got), names(want))
  for (part in setdiff(names(want), c("family", "qr", "effects", "R")))
    expect_equal(unname(collect(got[[part]])), unname(want[[part]]), tolerance = 1e-8, label = paste(label, part))
  expect_equal(abs(got$R), abs(want$R), tolerance = 1e-8, label = label)
  expect_equal(abs(got$effects), abs(want$effects[seq_along(got$effects)]), tolerance = 1e-6, label = label)
  expect_identical(names(got$qr), names(want$qr))
}

test_that("fits are base R's", {
  d <- passes_data()
  of <- function(y) update(columns, reformulate(".", y))
  expect_same_fit(of("y"), binomial(), d)
  expect_same_fit(of("y"), binomial("probit"), d, offset = d$o)
  expect_same_fit(of("y"), binomial("cloglog"), d)
  expect_same_fit(of("y"), quasibinomial(), d, weights = d$w)
  expect_same_fit(of("k"), poisson(), d)
  expect_same_fit(of("k"), quasipoisson(), d, weights = d$w, offset = d$o)
  expect_same_fit(of("z"), Gamma("log"), d)
  expect_same_fit(of("z"), Gamma("log"), d, weights = d$w)
  # with an identity link the response is the first predictor
  expect_same_fit(of("x"), gaussian(), d)
  expect_same_fit(of("x"), gaussian(), d, weights = d$w, offset = d$o)
  expect_same_fit(of("v"), inverse.gaussian("log"), d)
  # as of another package
  own <- quasipoisson()
  own$validmu <- function(mu) {
    all(mu > 0)
  }
  own$variance <- function(mu) mu + mu^2 / 3
  own$dev.resids <- function(y, mu, wt) 2 * wt * (y * log(pmax(1, y) / mu) - (y + 3) * log((y + 3) / (mu + 3)))
  expect_same_fit(of("k"), own, d)
  start <- unname(coef(glm(of("k"), poisson(), d))) * 0.9
  expect_same_fit(of("k"), poisson(), d, start = start)
})

test_that("columns of a data frame are multiplied where they are, and gpu_glm() takes this way", {
  d <- passes_data()
  arrays <- as.data.frame(lapply(d, as_gpu))
  formula <- y ~ a + b + c + e + f + g + I(a * b)
  taken <- new.env()
  taken$times <- 0
  note <- as.call(list(function() taken$times <- taken$times + 1))
  suppressMessages(trace("fit_of_passes", note, where = asNamespace("verdigris"), print = FALSE))
  on.exit(suppressMessages(untrace("fit_of_passes", where = asNamespace("verdigris"))))
  fit <- gpu_glm(formula, binomial(), arrays)
  want <- glm(formula, binomial(), d)
  expect_identical(taken$times, 1)
  expect_equal(coef(summary(fit)), coef(summary(want)), tolerance = 1e-7)
  expect_equal(unname(collect(residuals(fit, "deviance"))), unname(residuals(want)), tolerance = 1e-7)
  expect_identical(fit$iter, want$iter)
  expect_equal(AIC(fit), AIC(want), tolerance = 1e-10)
  expect_equal(unname(collect(fit$weights)), unname(want$weights), tolerance = 1e-8)
})

test_that("indicators and products are columns of a pass", {
  d <- passes_data()
  d$h <- factor(sample(letters[1:4], nrow(d), TRUE))
  d$t <- d$o > 0
  calls <- list(list(y ~ a * h + b + c, binomial()), list(k ~ h + t + poly(a, 2), poisson()),
    list(z ~ 0 + h + a:b, Gamma("log")), list(x ~ a * b * t + h, gaussian()))
  for (call in calls) for (data in list(d, gpu(d))) {
    fit <- gpu_glm(call[[1L]], call[[2L]], data, device = test_device)
    want <- glm(call[[1L]], call[[2L]], d)
    frame <- model.frame(fit)
    design <- design_of(terms(frame), frame, NULL, gpu_device(fit$weights))
    expect_true(has_cross_products(design))
    expect_equal(coef(summary(fit)), coef(summary(want)), tolerance = 1e-7)
    expect_identical(fit$iter, want$iter)
    expect_equal(deviance(fit), deviance(want), tolerance = 1e-9)
  }
})

test_that("what glm.fit() has to decide is left to it", {
  d <- passes_data()
  formula <- y ~ a + b + c + e + f + g
  expect_null(fit_by_passes(formula, binomial(), d, weights = replace(d$w, 3, 0)))
  expect_null(fit_by_passes(formula, quasibinomial(), d, weights = replace(rep(1, nrow(d)), 3, 0)))
  # a response that warns, or is refused
  expect_null(fit_by_passes(formula, binomial(), d, weights = d$w))
  expect_null(fit_by_passes(x ~ a + b + c + e + f + g, binomial(), d))
  # aliased and badly conditioned columns, a start without valid means, and no convergence
  expect_null(fit_by_passes(y ~ a + b + c + e + f + I(a + b), binomial(), d))
  expect_null(fit_by_passes(y ~ a + b + c + e + f + I(a + 1e-6 * b), binomial(), d))
  expect_null(fit_by_passes(z ~ a + b + c + e + f + g, Gamma(), d, start = rep(-1, 7)))
  expect_null(fit_by_passes(formula, binomial(), d, control = list(maxit = 1)))
  expect_null(fit_by_passes(formula, binomial(), d, control = list(trace = TRUE)))
  # separated groups: weights become 0
  d$y <- as.integer(d$a > 0)
  expect_null(fit_by_passes(formula, binomial(), d))
  # a family whose checks are not known
  own <- quasibinomial()
  own$validmu <- function(mu) sum(mu <= 0) == 0
  d <- passes_data()
  expect_null(fit_by_passes(formula, own, d))
})

test_that("fitted probabilities of 0 or 1 are warned of as in base R", {
  d <- passes_data()
  d$b <- d$a * 5
  d$y <- rbinom(nrow(d), 1L, plogis(d$b))
  d$a[1L] <- 400
  d$y[1L] <- 1L
  formula <- y ~ a + c + e + f + g + I(c^2)
  said <- function(expr) {
    messages <- character()
    withCallingHandlers(expr, warning = function(w) {
      messages <<- c(messages, conditionMessage(w))
      invokeRestart("muffleWarning")
    })
    messages
  }
  expect_identical(said(gpu_glm(formula, binomial(), gpu(d), device = test_device)), said(glm(formula, binomial(), d)))
})

pass_of <- function(x, right, by = NULL, before = NULL) {
  eta <- gpu_compute(as_gpu(rep(1, nrow(x))) + 0)
  y <- as_gpu(right)
  half <- gpu_compute(eta / 2)
  scale <- 1 / (1 + half * half)
  program <- .Call(C_weighted_gram, lapply(seq_len(ncol(x)), function(j) if (j > 1L) as_gpu(x[, j])), eta, list(half),
    list(eta / 2), list(scale, half * y + eta, y * eta, half), 1L, list(y))
  out <- .Call(C_weighted_gram_pass, program, by %||% numeric(), if (is.null(by)) eta else if (!is.null(before))
    as_gpu(before))
  results <- collect(out$results)
  if (!is.null(out$rights)) {
    columns <- lapply(seq_len(ncol(x)), function(j) if (j > 1L) as_gpu(x[, j]))
    results <- c(collect(.Call(C_gram, c(columns, out$rights), nrow(x), out$scale, ncol(x))), results)
  }
  list(predictor = collect(out$predictor), scale = collect(out$scale), results = results)
}

test_that("a pass computes the predictor, factors, products and sums", {
  set.seed(5)
  for (p in c(2L, 7L, 8L, 15L, 31L, 63L)) for (n in c(1L, 31L, 700L, if (!emulated) 70001L)) {
    x <- matrix(rnorm(n * p), n, p)
    x[, 1L] <- 1
    y <- rnorm(n)
    before <- rnorm(n)
    by <- rnorm(p)
    for (given in list(list(), list(by), list(by, before))) {
      got <- do.call(pass_of, c(list(x, y), given))
      eta <- if (!length(given)) rep(1, n) else as.vector(x %*% by) + if (length(given) > 1L) before else 0
      s <- 1 / (1 + (eta / 2)^2)
      whole <- cbind(x * s, eta / 2 * y + eta)
      expect_equal(got$predictor, eta, tolerance = 1e-12)
      expect_equal(got$scale, s, tolerance = 1e-12)
      expect_equal(got$results, c(crossprod(whole), sum(y * eta), sum(eta / 2)), tolerance = 1e-10)
    }
  }
})

test_that("a pass in one kernel has the bits of several", {
  skip_if(test_device == "cpu", "the cpu device has one way")
  set.seed(6)
  n <- if (emulated) 1500L else 100003L
  for (p in c(3L, 8L, 31L, 47L)) {
    x <- matrix(rnorm(n * p), n, p)
    y <- rnorm(n)
    by <- rnorm(p)
    ways <- lapply(c("compiled", "interpreted"), function(tier) with_tier(tier, pass_of(x, y, by, y)))
    expect_identical(ways[[1L]], ways[[2L]])
  }
})

test_that("a pass refuses what it cannot compute", {
  x <- as_gpu(c(1, 2, 3))
  eta <- gpu_compute(x + 0)
  expect_null(.Call(C_weighted_gram, list(x), eta, list(), list(), list(eta * 2, eta * as_gpu(c(2, 3, 4))), 1L, list()))
  expect_null(.Call(C_weighted_gram, list(x), eta, list(), list(), list(x * 2, x * 3), 1L, list(x)))
  expect_null(.Call(C_weighted_gram, list(x), eta, list(), list(), list(gpu_cast(eta, "float32"), eta), 1L, list()))
  expect_error(.Call(C_weighted_gram, list(x), eta, list(), list(), list(eta * 2, as_gpu(1)), 1L, list()), class =
    "verdigris_error_shape")
  expect_error(.Call(C_weighted_gram, rep(list(x), 64L), eta, list(), list(), list(eta * 2, eta), 1L, list()), class =
    "verdigris_error_shape")
  program <- .Call(C_weighted_gram, list(x), eta, list(), list(), list(eta * 2, eta * 3), 1L, list())
  expect_error(.Call(C_weighted_gram_pass, program, c(1, 2), NULL), class = "verdigris_error_shape")
  expect_error(.Call(C_weighted_gram_pass, program, numeric(), NULL), class = "verdigris_error_shape")
  expect_error(.Call(C_weighted_gram_pass, program, 1, as_gpu(1)), class = "verdigris_error_shape")
  expect_error(.Call(C_weighted_gram_pass, NULL, 1, NULL), class = "verdigris_error_argument")
})
