# gpu_lm() and gpu_glm() of splits against base R's fits of the whole, with members of this process and with workers.

here <- gpu_team(rep(test_device, 3))
cl <- worker_cluster(3)
workers <- within_seconds(60, gpu_team(cl[1:2], timeout = 30))
three <- within_seconds(60, gpu_team(cl, timeout = 30))
teams <- list(here, workers, three)
set.seed(35)
n <- 420
d <- data.frame(x = rnorm(n), z = runif(n), g = factor(sample(letters[1:4], n, TRUE)), k = sample(1:9, n, TRUE),
  o = factor(sample(c("low", "mid", "high"), n, TRUE), c("low", "mid", "high"), ordered = TRUE),
  s = sample(c("u", "v", "w"), n, TRUE), l = runif(n) > 0.5, w = round(runif(n), 2), t = rep(1:12, 35))
# a level that the last members alone have, and one that none has
d$late <- factor(c(rep("first", 400), rep("last", 20)), c("none", "first", "last"))
d$y <- 1 + d$x - d$z + as.integer(d$g) / 2 + rnorm(n)
d$b <- rbinom(n, 1, plogis(d$x - 0.5))
d$c <- rpois(n, exp(0.3 * d$x))
d$m <- rbinom(n, 10, 0.4)
d$e <- rgamma(n, 2, 1)
gaps <- d
gaps$x[c(3, 200)] <- NA
gaps$g[c(7, 419)] <- NA
all_of <- function(data) lapply(teams, function(team) gpu_split(data, team))
whole <- all_of(d)
with_gaps <- all_of(gaps)

values <- function(v) if (is.null(v)) NULL else as.vector(unname(collect(v)))
# What differs between a fit of splits and base R's.
differences <- function(got, want) {
  parts <- list(coefficients = function(f) coef(f), residuals = function(f) values(residuals(f)),
    fitted = function(f) values(fitted(f)), df = function(f) df.residual(f), rank = function(f) f$rank,
    assign = function(f) f$assign, xlevels = function(f) f$xlevels, contrasts = function(f) f$contrasts,
    na = function(f) as.vector(f$na.action), vcov = vcov, deviance = deviance, AIC = AIC, BIC = BIC, nobs = nobs,
    logLik = function(f) as.vector(logLik(f)), weights = function(f) values(weights(f)),
    pivot = function(f) f$qr$pivot, summary = function(f) coef(summary(f)), aliased = function(f) summary(f)$aliased,
    anova = function(f) suppressWarnings(as.data.frame(anova(f))),
    classes = function(f) attr(terms(f), "dataClasses"))
  parts <- c(parts, if (inherits(want, "glm")) list(null = function(f) c(f$null.deviance, f$df.null), iter = function(f)
    f$iter, working = function(f) values(f$weights), pearson = function(f) values(residuals(f, "pearson")),
    deviances = function(f) values(residuals(f, "deviance"))) else list(r = function(f) unlist(summary(f)[c("sigma",
    "r.squared", "adj.r.squared", "fstatistic", "df")])))
  said <- lapply(names(parts), function(name) {
    same <- all.equal(parts[[name]](got), parts[[name]](want), tolerance = if (inherits(want, "glm")) 1e-7 else 1e-9)
    if (!isTRUE(same)) sprintf("%s: %s", name, paste(same, collapse = "; "))
  })
  unlist(said)
}

linear <- alist(
  y ~ x + z + g, y ~ x * g + log(z) + factor(k), y ~ 0 + g + x, y ~ x + I(2 * x) + z, y ~ 1, y ~ g:x + s + l,
  log(e) ~ o + s, y ~ poly(x, 3) + scale(z), y ~ splines::ns(x, 4) + splines::bs(z, df = 5), y ~ late + x,
  y ~ cut(z, c(0, 0.3, 0.6, 1)) + I(k %in% c(1, 3)), y ~ offset(2 * x) + z, y ~ ifelse(x > 0, x, 0) + pmin(z, 0.5),
  y ~ factor(t), y ~ scale(x, scale = FALSE) + poly(z, 2, raw = TRUE), y ~ factor(s, labels = c("a", "b", "c")),
  y ~ I(x > 0) + as.factor(k) + ordered(k)
)

test_that("gpu_lm() of a split data frame is lm() of the whole", {
  # all in this process, some with workers, which take longer
  for (k in seq_along(teams)) for (f in linear[seq(1, length(linear), by = c(1, 2, 4)[k])]) {
    f <- as.formula(f)
    got <- within_seconds(60, gpu_lm(f, whole[[k]]))
    expect_s3_class(got, c("gpu_lm", "lm"), exact = TRUE)
    expect_identical(differences(got, lm(f, d)), NULL, info = deparse1(f))
  }
})

test_that("weights, offsets, subsets, missing values and contrasts are base R's", {
  for (s in with_gaps[1:2]) {
    fit <- within_seconds(60, gpu_lm(y ~ x + g, s, weights = w, subset = z > 0.2, offset = 2 * z))
    expect_identical(differences(fit, lm(y ~ x + g, gaps, weights = w, subset = z > 0.2, offset = 2 * z)), NULL)
    fit <- gpu_lm(y ~ x + g + o, s, contrasts = list(g = "contr.sum"))
    expect_identical(differences(fit, lm(y ~ x + g + o, gaps, contrasts = list(g = "contr.sum"))), NULL)
    expect_output(print(summary(fit)), "4 observations deleted due to missingness")
    expect_error(gpu_lm(y ~ x, s, na.action = na.fail), "missing values in object")
    expect_error(gpu_lm(y ~ x, s, na.action = na.exclude), "na.omit or na.fail", class = "verdigris_error_argument")
    expect_error(gpu_lm(y ~ x, s, weights = w - 0.5), "missing or negative weights not allowed")
    expect_error(gpu_lm(y ~ x, s, subset = z > 2), "0 (non-NA) cases", fixed = TRUE)
    expect_error(gpu_lm(y ~ log(x - 10), s) |> suppressWarnings(), "0 (non-NA) cases", fixed = TRUE)
    expect_error(gpu_lm(y ~ I(1 / (k - 1)), s), "NA/NaN/Inf in 'x'")
    expect_error(gpu_lm(y ~ x + I(2 * x), s, singular.ok = FALSE), "singular fit encountered")
  }
})

test_that("nearly singular columns have base R's rank, by triangles in the order of ranks", {
  set.seed(4)
  big <- data.frame(a = rnorm(3000), b = runif(3000), y = rnorm(3000))
  for (size in c(1e-3, 1e-5, 1e-9)) {
    big$near <- big$a + size * rnorm(3000)
    want <- lm(y ~ a + b + near + I(a + b), big)
    for (team in teams) {
      got <- gpu_lm(y ~ a + b + near + I(a + b), gpu_split(big, team))
      expect_identical(is.na(coef(got)), is.na(coef(want)))
      expect_equal(values(fitted(got)), values(fitted(want)), tolerance = 1e-9)
      expect_equal(deviance(got), deviance(want), tolerance = 1e-9)
    }
  }
})

test_that("factors with many levels are sums over levels", {
  many <- data.frame(f = factor(sample(1:40, 2000, TRUE)), h = factor(sample(1:15, 2000, TRUE)), x = rnorm(2000))
  many$y <- rnorm(2000) + as.integer(many$f) / 10
  for (team in teams) {
    got <- gpu_lm(y ~ f + h + x, gpu_split(many, team), weights = x^2)
    expect_identical(differences(got, lm(y ~ f + h + x, many, weights = x^2)), NULL)
  }
})

test_that("splits of vectors and matrices, and ordinary variables, are variables", {
  m <- as.matrix(d[c("x", "z")])
  y <- d$y
  group <- d$g
  two <- 2
  want <- lm(y ~ m + I(m[, 1]^two) + group)
  for (team in teams) {
    ms <- gpu_split(m, team)
    ys <- gpu_split(y, team)
    got <- gpu_lm(ys ~ ms + I(ms[, 1]^two) + group)
    expect_equal(unname(coef(got)), unname(coef(want)), tolerance = 1e-9)
    got <- gpu_lm(y ~ m + group, list(y = ys, m = ms, group = group))
    expect_equal(coef(got), coef(lm(y ~ m + group)), tolerance = 1e-9)
    expect_error(gpu_lm(ys ~ ms + three, list(three = 1:3)), "variable lengths differ")
  }
  expect_error(gpu_lm(ys ~ x, whole[[1]]), "different teams", class = "verdigris_error_split")
})

test_that("gpu_glm() of a split data frame is glm() of the whole", {
  cases <- alist(
    list(b ~ x + g, binomial()), list(b ~ x * z, binomial("probit")), list(cbind(m, 10 - m) ~ x + s, binomial()),
    list(factor(b) ~ x + o, binomial("cloglog")), list(c ~ x + factor(k), poisson()), list(e ~ z, Gamma("log")),
    list(y ~ x + poly(z, 2), gaussian()), list(c ~ x + offset(log(z)), quasipoisson()), list(b ~ 1, binomial()),
    list(e ~ x, inverse.gaussian("log")), list(c ~ x + I(3 * x), poisson())
  )
  for (k in seq_along(teams)) for (case in cases[seq(1, length(cases), by = c(1, 2, 4)[k])]) {
    case <- eval(case)
    got <- within_seconds(60, gpu_glm(case[[1L]], case[[2L]], whole[[k]]))
    expect_s3_class(got, c("gpu_glm", "glm", "lm"), exact = TRUE)
    expect_identical(differences(got, glm(case[[1L]], case[[2L]], d)), NULL, info = deparse1(case[[1L]]))
  }
  for (s in with_gaps[2:3]) {
    got <- gpu_glm(c ~ x + g, poisson, s, weights = w, subset = z > 0.2, offset = z)
    want <- glm(c ~ x + g, poisson, gaps, weights = w, subset = z > 0.2, offset = z)
    expect_identical(differences(got, want), NULL)
    got <- gpu_glm(b ~ x, binomial, s, start = c(0.1, 0.2), control = list(epsilon = 1e-12))
    want <- glm(b ~ x, binomial, gaps, start = c(0.1, 0.2), control = list(epsilon = 1e-12))
    expect_identical(differences(got, want), NULL)
    expect_warning(gpu_glm(b ~ x, binomial, s, control = list(maxit = 1)), "did not converge")
    expect_error(gpu_glm(x ~ z, poisson, s), "negative values not allowed")
    expect_error(gpu_glm(b ~ x, binomial, s, start = 1), "length of 'start' should equal 2")
  }
})

test_that("long splits are fitted by one pass an iteration", {
  set.seed(12)
  n <- 2400
  long <- data.frame(x = rnorm(n), z = runif(n), o = rnorm(n) / 4, w = runif(n) + 0.5)
  long$b <- rbinom(n, 1, plogis(long$x - long$z))
  long$c <- rpois(n, exp(long$x / 3 + long$z))
  long$none <- replace(long$w, 3, 0)
  calls <- list(function(fit, data) fit(b ~ x + z, binomial(), data),
    function(fit, data) fit(b ~ x + z, binomial("probit"), data, offset = o),
    function(fit, data) fit(c ~ x + I(z^2), poisson(), data, weights = w),
    function(fit, data) fit(c ~ x + z, quasipoisson(), data, weights = w, start = c(0.1, 0.2, 0.3)),
    # a row that does not count, and columns that need a second pass
    function(fit, data) fit(c ~ x + z, quasipoisson(), data, weights = none),
    function(fit, data) fit(c ~ x + I(x + z / 1e4), poisson(), data))
  for (team in teams) {
    split <- gpu_split(long, team)
    for (call in calls) {
      got <- within_seconds(60, call(gpu_glm, split))
      # summary() warns of a weight of zero
      expect_identical(suppressWarnings(differences(got, call(glm, long))), NULL)
    }
  }
})

test_that("warnings of glm.fit() are given once", {
  apart <- data.frame(x = c(-(10:1), 1:10), y = rep(0:1, each = 10))
  halves <- data.frame(x = 1:9, y = c(0.5, rep(0:1, 4)))
  # the longer one is fitted by passes
  for (team in teams) for (times in c(1, 150)) {
    apart <- apart[rep(seq_len(20L), times), ]
    said <- testthat::capture_warnings(got <- gpu_glm(y ~ x, binomial, gpu_split(apart, team)))
    expect_identical(said, testthat::capture_warnings(want <- glm(y ~ x, binomial, apart)))
    expect_identical(got$converged, want$converged)
    said <- testthat::capture_warnings(gpu_glm(y ~ x, binomial, gpu_split(halves, team)))
    expect_identical(said, "non-integer #successes in a binomial glm!")
  }
})

test_that("steps are halved as by glm.fit()", {
  set.seed(9)
  few <- data.frame(x = c(1, 2, 3, 4, 5, 60), y = c(1, 3, 2, 5, 4, 9))
  calls <- list(function(fit, data) fit(y ~ x, poisson("identity"), data, start = c(60, 1)),
    function(fit, data) fit(y ~ x, Gamma("inverse"), data, start = c(0.2, 0.01)),
    function(fit, data) fit(y ~ x, poisson("identity"), data, start = c(1, -1)))
  for (call in calls) for (times in c(1, 400)) {
    few <- few[rep(1:6, times), ]
    want <- tryCatch(suppressWarnings(call(glm, few)), error = identity)
    for (team in teams) {
      got <- tryCatch(suppressWarnings(call(gpu_glm, gpu_split(few, team))), error = identity)
      if (inherits(want, "error")) expect_identical(conditionMessage(got), conditionMessage(want)) else
        expect_equal(got[c("coefficients", "boundary", "iter", "deviance")], want[c("coefficients", "boundary", "iter",
          "deviance")], tolerance = 1e-7)
    }
  }
})

test_that("predictions are those of the whole", {
  new <- data.frame(x = c(-1, 0, 2), z = c(0.1, 0.5, 0.9), g = factor(c("a", "d", "b"), letters[1:4]))
  want <- lm(y ~ poly(x, 2) + scale(z) + g, d, weights = w)
  logit <- glm(b ~ x + g, binomial, d)
  for (k in 1:2) {
    got <- gpu_lm(y ~ poly(x, 2) + scale(z) + g, whole[[k]], weights = w)
    expect_equal(values(predict(got, new)), values(predict(want, new)), tolerance = 1e-9)
    expect_equal(values(predict(got)), values(predict(want)), tolerance = 1e-9)
    expect_equal(values(predict(got, whole[[k]])), values(predict(want, d)), tolerance = 1e-9)
    one <- predict(got, whole[[k]], se.fit = TRUE, interval = "confidence", level = 0.9)
    base <- predict(want, d, se.fit = TRUE, interval = "confidence", level = 0.9)
    expect_equal(unname(collect(one$fit)), unname(base$fit), tolerance = 1e-8)
    expect_equal(values(one$se.fit), values(base$se.fit), tolerance = 1e-8)
    expect_equal(one[c("df", "residual.scale")], base[c("df", "residual.scale")])
    own <- predict(got, se.fit = TRUE, interval = "confidence", level = 0.9)
    expect_equal(unname(collect(own$fit)), unname(base$fit), tolerance = 1e-8)
    expect_equal(values(own$se.fit), values(base$se.fit), tolerance = 1e-8)
    expect_equal(values(predict(gpu_lm(y ~ x + g, d, device = test_device), whole[[k]])),
      values(predict(lm(y ~ x + g, d))), tolerance = 1e-9)
    fit <- gpu_glm(b ~ x + g, binomial, whole[[k]])
    for (type in c("link", "response")) {
      expect_equal(values(predict(fit, type = type)), values(predict(logit, type = type)), tolerance = 1e-8)
      expect_equal(values(predict(fit, new, type)), values(predict(logit, new, type)), tolerance = 1e-8)
      expect_equal(values(predict(fit, whole[[k]], type)), values(predict(logit, d, type)), tolerance = 1e-8)
      expect_equal(lapply(predict(fit, type = type, se.fit = TRUE), values), lapply(predict(logit, type = type, se.fit =
        TRUE), values), tolerance = 1e-7)
      expect_equal(lapply(predict(fit, whole[[k]], type, se.fit = TRUE), values), lapply(predict(logit, d, type,
        se.fit = TRUE), values), tolerance = 1e-7)
    }
  }
})

test_that("what else base R computes of fits works, and the rest names collect()", {
  want <- lm(y ~ x + g, d)
  for (s in whole[1:2]) {
    fit <- gpu_lm(y ~ x + g, s, x = TRUE, y = TRUE)
    expect_equal(values(hatvalues(fit)), values(hatvalues(want)), tolerance = 1e-9)
    expect_equal(values(rstandard(fit)), values(rstandard(want)), tolerance = 1e-8)
    expect_equal(values(cooks.distance(fit)), values(cooks.distance(want)), tolerance = 1e-8)
    expect_equal(confint(fit), confint(want), tolerance = 1e-8)
    expect_equal(unname(collect(model.matrix(fit))), unname(model.matrix(want))[, ], ignore_attr = TRUE)
    expect_identical(colnames(model.matrix(fit)), colnames(model.matrix(want)))
    expect_equal(collect(fit$y), d$y)
    smaller <- update(fit, . ~ . - g)
    expect_equal(as.data.frame(anova(smaller, fit)), as.data.frame(anova(update(want, . ~ . - g), want)),
      tolerance = 1e-8)
    expect_output(print(summary(fit)), "Residuals:.*Min.*Median.*F-statistic")
    expect_output(print(fit), "Coefficients")
    ordinary <- collect(fit)
    expect_s3_class(ordinary, "lm", exact = TRUE)
    expect_equal(coef(summary(ordinary)), coef(summary(want)), tolerance = 1e-8)
    expect_equal(unname(residuals(ordinary)), unname(residuals(want)), tolerance = 1e-9)
    expect_equal(unname(cooks.distance(ordinary)), unname(cooks.distance(want)), tolerance = 1e-8)
    logit <- gpu_glm(b ~ x + g, binomial, s)
    expect_equal(coef(summary(collect(logit))), coef(summary(glm(b ~ x + g, binomial, d))), tolerance = 1e-6)
    expect_output(print(summary(logit)), "Null deviance")
    for (type in c("const", "HC0", "HC1", "HC2", "HC3")) {
      expect_equal(gpu_vcov(fit, type), gpu_vcov(gpu_lm(y ~ x + g, d, device = test_device), type), tolerance = 1e-9)
      expect_equal(gpu_vcov(logit, type), gpu_vcov(gpu_glm(b ~ x + g, binomial, d, device = test_device), type),
        tolerance = 1e-7)
    }
    expect_error(gpu_vcov(fit, cluster = d$k), class = "verdigris_error_argument")
    for (call in alist(drop1(fit), plot(fit), influence(fit), confint(logit), predict(fit, type = "terms"),
      simulate(fit), influence(logit)))
      expect_error(eval(call), "collect|no method", class = "verdigris_error_split", info = deparse1(call))
  }
})

test_that("terms that need all rows are refused, and say how to go on", {
  s <- whole[[2L]]
  own <- function(x) x - mean(x)
  for (call in alist(gpu_lm(y ~ own(x), s), gpu_lm(y ~ rank(x), s), gpu_lm(y ~ cumsum(x), s), gpu_lm(y ~ cut(x, 3), s),
    gpu_lm(y ~ I(x - mean(x)), s), gpu_lm(y ~ rev(x), s), gpu_lm(y ~ x[k], s), gpu_lm(y ~ c(0, diff(x)), s),
    gpu_lm(y ~ x, s, subset = order(x) < 10), gpu_glm(b ~ x / max(x), binomial, s)))
    expect_error(eval(call), "in a formula of splits|in the formula", class = "verdigris_error", info = deparse1(call))
  for (rows in list(1:200, c(TRUE, FALSE))) expect_error(gpu_lm(y ~ x, s, subset = rows), "`subset` must be a condition",
    class = "verdigris_error_argument")
  expect_error(gpu_lm(y ~ x, s, subset = k), "`subset` must be a condition", class = "verdigris_error")
  few <- 1:210 # as many as a member of two has
  expect_error(gpu_lm(y ~ x + few, s), "variable lengths differ (found for 'few')", fixed = TRUE)
  expect_error(gpu_lm(y ~ x, s, weights = few), "variable lengths differ (found for '(weights)')", fixed = TRUE)
  expect_identical(coef(gpu_lm(y ~ x, s, subset = TRUE)), coef(gpu_lm(y ~ x, s)))
  expect_equal(coef(gpu_lm(y ~ ., gpu_split(d[c("y", "x", "g")], here))), coef(lm(y ~ ., d[c("y", "x", "g")])))
  expect_error(gpu_lm(y ~ x, s, fe = ~g), "`fe` must be NULL for splits", class = "verdigris_error_argument")
  expect_error(gpu_lm(y ~ x, s, device = "cpu"), "`device` must be NULL", class = "verdigris_error_argument")
  expect_error(gpu_lm(cbind(y, x) ~ z, s), "matrix of responses", class = "verdigris_error")
  expect_error(gpu_lm(y ~ as.numeric(g), s), "codes of a factor", class = "verdigris_error")
  odd <- binomial()
  odd$linkinv <- function(eta) plogis(eta - mean(eta))
  expect_error(gpu_glm(b ~ x, odd, s), "not known to work row by row", class = "verdigris_error_split")
  expect_error(gpu_lm(y ~ x, gpu_split(as.matrix(d[c("x", "y")]), here)), "split of a data frame",
    class = "verdigris_error_argument")
})

test_that("levels are agreed on where members read their own rows", {
  # each member makes factors and strings of what it has
  read <- function(rows) data.frame(y = sin(rows), g = factor(c("b", "a", "c")[rows %/% 10 + 1]),
    s = c("v", "u", "w")[rows %/% 15 + 1], k = rows %/% 6)
  all <- read(1:29)
  all$g <- factor(as.character(all$g), c("a", "b", "c"))
  for (team in teams) {
    parts <- gpu_split(read, team, n = 29)
    got <- gpu_lm(y ~ g + s + factor(k), parts)
    # the levels' order is that in which members have them
    reference <- all
    reference$g <- factor(as.character(all$g), got$xlevels$g)
    expect_setequal(got$xlevels$g, c("a", "b", "c"))
    expect_identical(differences(got, lm(y ~ g + s + factor(k), reference)), NULL)
  }
})

test_that("members without rows take part", {
  few <- d[c(1, 2), ]
  few$g <- factor(c("a", "b"))
  for (team in teams) {
    expect_equal(coef(gpu_lm(y ~ g, gpu_split(few, team))), coef(lm(y ~ g, few)))
    expect_equal(coef(gpu_glm(c ~ 1, poisson, gpu_split(few, team))), coef(glm(c ~ 1, poisson, few)), tolerance = 1e-6)
  }
})
