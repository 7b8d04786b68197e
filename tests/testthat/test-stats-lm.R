# Linear models: certified values, base R's data, robust and clustered covariances, absorbed effects, and bad input.
# Random designs are in test-diff-models.R.

# ---- NIST StRD, linear regression --------------------------------------------------------------------------------
# https://www.itl.nist.gov/div898/strd/lls/lls.shtml: data and certified values as published.
wampler <- c(759, -2048, 2048, -2048, 2523, -2048, 2048, -2048, 1838, -2048, 2048, -2048, 1838, -2048, 2048, -2048,
  2523, -2048, 2048, -2048, 759)
powers <- function(x, b) as.vector(outer(x, seq_along(b) - 1, "^") %*% b)
wampler_case <- function(y, b, se, sigma) list(data = data.frame(x = 0:20 + 0, y = y),
  formula = y ~ x + I(x^2) + I(x^3) + I(x^4) + I(x^5), b = b, se = se, sigma = sigma)
wampler_se <- c(2152.32624678170, 2363.55173469681, 779.343524331583, 101.475507550350, 5.64566512170752,
  0.112324854679312)
longley_nist <- data.frame(y = longley$Employed * 1000, x1 = longley$GNP.deflator, x2 = longley$GNP * 1000,
  x3 = longley$Unemployed * 10, x4 = longley$Armed.Forces * 10, x5 = longley$Population * 1000, x6 = longley$Year)
longley_nist[c("y", "x2", "x3", "x4", "x5")] <- round(longley_nist[c("y", "x2", "x3", "x4", "x5")])

nist <- list(
  Norris = list(data = data.frame(
    x = c(0.2, 337.4, 118.2, 884.6, 10.1, 226.5, 666.3, 996.3, 448.6, 777.0, 558.2, 0.4, 0.6, 775.5, 666.9, 338.0,
      447.5, 11.6, 556.0, 228.1, 995.8, 887.6, 120.2, 0.3, 0.3, 556.8, 339.1, 887.2, 999.0, 779.0, 11.1, 118.3, 229.2,
      669.1, 448.9, 0.5),
    y = c(0.1, 338.8, 118.1, 888.0, 9.2, 228.1, 668.5, 998.5, 449.1, 778.9, 559.2, 0.3, 0.1, 778.1, 668.8, 339.3,
      448.9, 10.8, 557.7, 228.3, 998.0, 888.8, 119.6, 0.3, 0.6, 557.6, 339.3, 888.0, 998.5, 778.9, 10.2, 117.6, 228.9,
      668.4, 449.2, 0.2)),
    formula = y ~ x, b = c(-0.262323073774029, 1.00211681802045), se = c(0.232818234301152, 0.429796848199937e-03),
    sigma = 0.884796396144373),
  Pontius = list(data = data.frame(
    x = rep(150000 * 1:20, 2),
    y = c(0.11019, 0.21956, 0.32949, 0.43899, 0.54803, 0.65694, 0.76562, 0.87487, 0.98292, 1.09146, 1.20001, 1.30822,
      1.41599, 1.52399, 1.63194, 1.73947, 1.84646, 1.95392, 2.06128, 2.16844, 0.11052, 0.22018, 0.32939, 0.43886,
      0.54798, 0.65739, 0.76596, 0.87474, 0.98300, 1.09150, 1.20004, 1.30818, 1.41613, 1.52408, 1.63159, 1.73965,
      1.84696, 1.95445, 2.06177, 2.16829)),
    formula = y ~ x + I(x^2), b = c(0.673565789473684e-03, 0.732059160401003e-06, -0.316081871345029e-14),
    se = c(0.107938612033077e-03, 0.157817399981659e-09, 0.486652849992036e-16), sigma = 0.205177424076185e-03),
  NoInt1 = list(data = data.frame(x = 60:70 + 0, y = 130:140 + 0), formula = y ~ x - 1, b = 2.07438016528926,
    se = 0.165289256198347e-01, sigma = 3.56753034006338),
  NoInt2 = list(data = data.frame(x = c(4, 5, 6), y = c(3, 4, 4)), formula = y ~ x - 1, b = 0.727272727272727,
    se = 0.420827318078432e-01, sigma = 0.369274472937998),
  Filip = list(data = data.frame(
    x = c(-6.860120914, -4.324130045, -4.358625055, -4.358426747, -6.955852379, -6.661145254, -6.355462942,
      -6.118102026, -7.115148017, -6.815308569, -6.519993057, -6.204119983, -5.853871964, -6.109523091, -5.79832982,
      -5.482672118, -5.171791386, -4.851705903, -4.517126416, -4.143573228, -3.709075441, -3.499489089, -6.300769497,
      -5.953504836, -5.642065153, -5.031376979, -4.680685696, -4.329846955, -3.928486195, -8.56735134, -8.363211311,
      -8.107682739, -7.823908741, -7.522878745, -7.218819279, -6.920818754, -6.628932138, -6.323946875, -5.991399828,
      -8.781464495, -8.663140179, -8.473531488, -8.247337057, -7.971428747, -7.676129393, -7.352812702, -7.072065318,
      -6.774174009, -6.478861916, -6.159517513, -6.835647144, -6.53165267, -6.224098421, -5.910094889, -5.598599459,
      -5.290645224, -4.974284616, -4.64454848, -4.290560426, -3.885055584, -3.408378962, -3.13200249, -8.726767166,
      -8.66695597, -8.511026475, -8.165388579, -7.886056648, -7.588043762, -7.283412422, -6.995678626, -6.691862621,
      -6.392544977, -6.067374056, -6.684029655, -6.378719832, -6.065855188, -5.752272167, -5.132414673, -4.811352704,
      -4.098269308, -3.66174277, -3.2644011),
    y = c(0.8116, 0.9072, 0.9052, 0.9039, 0.8053, 0.8377, 0.8667, 0.8809, 0.7975, 0.8162, 0.8515, 0.8766, 0.8885,
      0.8859, 0.8959, 0.8913, 0.8959, 0.8971, 0.9021, 0.909, 0.9139, 0.9199, 0.8692, 0.8872, 0.89, 0.891, 0.8977,
      0.9035, 0.9078, 0.7675, 0.7705, 0.7713, 0.7736, 0.7775, 0.7841, 0.7971, 0.8329, 0.8641, 0.8804, 0.7668, 0.7633,
      0.7678, 0.7697, 0.77, 0.7749, 0.7796, 0.7897, 0.8131, 0.8498, 0.8741, 0.8061, 0.846, 0.8751, 0.8856, 0.8919,
      0.8934, 0.894, 0.8957, 0.9047, 0.9129, 0.9209, 0.9219, 0.7739, 0.7681, 0.7665, 0.7703, 0.7702, 0.7761, 0.7809,
      0.7961, 0.8253, 0.8602, 0.8809, 0.8301, 0.8664, 0.8834, 0.8898, 0.8964, 0.8963, 0.9074, 0.9119, 0.9228)),
    formula = y ~ x + I(x^2) + I(x^3) + I(x^4) + I(x^5) + I(x^6) + I(x^7) + I(x^8) + I(x^9) + I(x^10),
    b = c(-1467.48961422980, -2772.17959193342, -2316.37108160893, -1127.97394098372, -354.478233703349,
      -75.1242017393757, -10.8753180355343, -1.06221498588947, -0.670191154593408e-01, -0.246781078275479e-02,
      -0.402962525080404e-04),
    se = c(298.084530995537, 559.779865474950, 466.477572127796, 227.204274477751, 71.6478660875927, 15.2897178747400,
      2.23691159816033, 0.221624321934227, 0.142363763154724e-01, 0.535617408889821e-03, 0.896632837373868e-05),
    sigma = 0.334801051324544e-02, tol = 1e-12),
  Longley = list(data = longley_nist, formula = y ~ x1 + x2 + x3 + x4 + x5 + x6,
    b = c(-3482258.63459582, 15.0618722713733, -0.358191792925910e-01, -2.02022980381683, -1.03322686717359,
      -0.511041056535807e-01, 1829.15146461355),
    se = c(890420.383607373, 84.9149257747669, 0.334910077722432e-01, 0.488399681651699, 0.214274163161675,
      0.226073200069370, 455.478499142212), sigma = 304.854073561965),
  Wampler1 = wampler_case(powers(0:20, rep(1, 6)), rep(1, 6), rep(0, 6), 0),
  Wampler2 = wampler_case(powers(0:20, 10^-(0:5)), 10^-(0:5), rep(0, 6), 0),
  Wampler3 = wampler_case(powers(0:20, rep(1, 6)) + wampler, rep(1, 6), wampler_se, 2360.14502379268),
  Wampler4 = wampler_case(powers(0:20, rep(1, 6)) + 100 * wampler, rep(1, 6), 100 * wampler_se, 236014.502379268),
  Wampler5 = wampler_case(powers(0:20, rep(1, 6)) + 10000 * wampler, rep(1, 6), 1e4 * wampler_se, 23601450.2379268)
)

# Digits that agree with certified values, the fewest of all: of a value that is 0 those after the point.
digits_of <- function(got, certified) {
  off <- ifelse(certified == 0, abs(got), abs(got - certified) / abs(certified))
  min(15, -log10(pmax(off, 1e-15)))
}

test_that("certified values of NIST are met with as many digits as base R has", {
  for (name in names(nist)) {
    case <- nist[[name]]
    digits <- function(fit) {
      s <- suppressWarnings(summary(fit))
      c(b = digits_of(coef(fit), case$b), se = digits_of(coef(s)[, 2L], case$se),
        sigma = digits_of(s$sigma, case$sigma))
    }
    tol <- if (is.null(case$tol)) 1e-7 else case$tol
    base <- digits(lm(case$formula, case$data, tol = tol))
    # that the values were typed as published, base R says too
    expect_gt(base[["b"]], if (name %in% c("Filip", "Wampler5")) 5 else 7, label = name)
    host <- digits(gpu_lm(case$formula, case$data, tol = tol, device = test_device))
    shown <- function(digits) paste(name, paste(signif(c(digits, base), 4), collapse = " "))
    expect_true(all(host >= base - 0.01), label = shown(host))
    # arrays: powers are the device's, so the last bit of a column may differ
    arrays <- digits(gpu_lm(case$formula, as_gpu(case$data, device = test_device), tol = tol))
    expect_true(all(arrays >= base - 1), label = shown(arrays))
  }
  # with R's tolerance one power is aliased
  filip <- nist$Filip
  expect_identical(is.na(coef(gpu_lm(filip$formula, filip$data, device = test_device))),
    is.na(coef(lm(filip$formula, filip$data))))
})

# The same data many times over have the same coefficients, and take the other ways through least squares.
test_that("tall matrices have the coefficients and standard errors of base R", {
  for (name in setdiff(names(nist), c("NoInt2", "Wampler1", "Wampler2"))) {
    case <- nist[[name]]
    data <- case$data[rep(seq_len(nrow(case$data)), length.out = 3000), ]
    tol <- if (is.null(case$tol)) 1e-7 else case$tol
    got <- gpu_lm(case$formula, as_gpu(data, device = test_device), tol = tol)
    want <- lm(case$formula, data, tol = tol)
    close <- if (name == "Filip") 1e-5 else 1e-7
    expect_equal(coef(got), coef(want), tolerance = close, label = name)
    expect_equal(coef(summary(got))[, 2L], coef(summary(want))[, 2L], tolerance = close, label = name)
    expect_equal(deviance(got), deviance(want), tolerance = 1e-8, label = name)
  }
})

test_that("each way of least squares is taken, and gives the same", {
  set.seed(1)
  # on a GPU the reflections are cuSOLVER's
  n <- 14000
  x <- cbind(1, matrix(rnorm(n * 4), n))
  y <- rnorm(n)
  taken <- function(x, tol = 1e-7) {
    d <- verdigris:::as_design(gpu(x))
    found <- verdigris:::cholesky_qr(d, gpu(y), tol)
    want <- stats::lm.fit(x, y, tol = tol)
    got <- verdigris:::least_squares(d, gpu(y), tol)
    expect_equal(unname(got$coefficients), unname(want$coefficients), tolerance = 1e-8)
    expect_equal(got$rank, want$rank)
    expect_equal(abs(diag(got$qr$qr[1:5, 1:5])), abs(diag(want$qr$qr)), tolerance = 1e-8)
    if (is.null(found)) "reflections" else "cholesky"
  }
  expect_identical(taken(x), "cholesky")
  passes <- 0L
  suppressMessages(trace(verdigris:::factored, tracer = function() passes <<- passes + 1L, print = FALSE,
    where = asNamespace("verdigris")))
  on.exit(suppressMessages(untrace(verdigris:::factored, where = asNamespace("verdigris"))))
  count <- function(x) {
    passes <<- 0L
    verdigris:::cholesky_qr(verdigris:::as_design(gpu(x)), gpu(y), 1e-7)
    passes
  }
  expect_identical(count(x), 1L)
  x[, 5L] <- x[, 2L] + 1e-4 * x[, 5L]
  expect_identical(count(x), 2L)
  expect_identical(taken(x), "cholesky")
  x[, 5L] <- x[, 2L] + 1e-3 * (x[, 5L] - x[, 2L])
  expect_identical(taken(x), "reflections")
  x[, 5L] <- 2 * x[, 2L]
  expect_identical(taken(x), "reflections")
})

# ---- base R's data ---------------------------------------------------------------------------------------------

# The collected fit, and base R's.
expect_same_fit <- function(formula, data, ..., tolerance = 1e-8) {
  more <- match.call(expand.dots = FALSE)$...
  want <- eval(as.call(c(quote(lm), formula, list(data = quote(data)), more)))
  for (arrays in c(FALSE, TRUE)) {
    fit <- eval(as.call(c(quote(gpu_lm), formula, list(data = if (arrays) gpu(data) else data, device = test_device),
      more)))
    got <- collect(fit)
    expect_identical(class(got), class(want))
    expect_identical(names(got), names(want))
    expect_s3_class(fit$residuals, "gpu_array")
    for (part in setdiff(names(want), c("call", "qr", "model", "effects")))
      expect_equal(got[[part]], want[[part]], tolerance = tolerance, label = paste(deparse1(formula), part))
    expect_equal(got$qr, want$qr, tolerance = tolerance)
    expect_equal(got$effects, want$effects, tolerance = tolerance)
    expect_identical(dim(got$model), dim(want$model))
    expect_equal(coef(summary(fit)), coef(summary(want)), tolerance = tolerance)
    expect_equal(as.matrix(anova(fit)), as.matrix(anova(want)), tolerance = tolerance)
    expect_equal(collect(predict(fit)), unname(predict(want)), tolerance = tolerance)
  }
}

test_that("base R's example data give base R's fits", {
  expect_same_fit(mpg ~ wt + hp + factor(cyl), mtcars)
  expect_same_fit(log(mpg) ~ poly(wt, 2) * am, mtcars, subset = gear < 5)
  expect_same_fit(Sepal.Length ~ Species * Petal.Width + I(Petal.Length^2), iris)
  expect_same_fit(breaks ~ wool * tension, warpbreaks)
  expect_same_fit(breaks ~ 0 + wool:tension, warpbreaks)
  expect_same_fit(len ~ supp * dose, ToothGrowth, weights = len)
  expect_same_fit(Ozone ~ Solar.R + Wind + ordered(Month), airquality)
  expect_same_fit(weight ~ group, PlantGrowth, contrasts = list(group = "contr.helmert"))
  expect_same_fit(weight ~ splines::ns(Time, 3) + Diet, as.data.frame(ChickWeight))
  expect_same_fit(Employed ~ ., longley)
  expect_same_fit(dist ~ speed, cars, offset = speed)
})

test_that("factors whose codes a GPU counts have base R's fits", {
  set.seed(3)
  n <- 400L
  d <- data.frame(x = rnorm(n), g = factor(sample(c("a", "b", "d"), n, TRUE), levels = letters[1:5]), h = gl(4, 100))
  d$y <- rnorm(n) + as.integer(d$h)
  copies <- 0
  suppressMessages(trace(verdigris:::factor_codes, tracer = function() copies <<- copies + 1, print = FALSE,
    where = asNamespace("verdigris")))
  on.exit(suppressMessages(untrace(verdigris:::factor_codes, where = asNamespace("verdigris"))))
  composed({
    expect_same_fit(y ~ x + g, d)
    expect_same_fit(y ~ x + g * h, d, subset = h != "2")
    # the codes are copied once
    copies <- 0
    gpu_lm(y ~ x + h + x:h, gpu(d))
    expect_identical(copies, 1)
    d$g[c(5, 17, 300)] <- NA
    d$h[17] <- NA
    expect_same_fit(y ~ x + g + h, d)
    expect_same_fit(y ~ g, d, na.action = na.exclude)
    expect_error(gpu_lm(y ~ g, gpu(d), na.action = na.fail), "missing values in object")
  })
  # nothing outlives a fit, even one that failed
  expect_null(verdigris:::coded_factors$all)
})

test_that("a matrix of responses has base R's fits", {
  fit <- gpu_lm(cbind(mpg, disp) ~ wt + factor(cyl), gpu(mtcars))
  want <- lm(cbind(mpg, disp) ~ wt + factor(cyl), mtcars)
  expect_equal(coef(fit), coef(want), tolerance = 1e-10)
  expect_equal(vcov(fit), vcov(want), tolerance = 1e-10)
  expect_equal(unname(collect(fitted(fit))), unname(fitted(want)))
  got <- collect(fit)
  expect_identical(class(got), class(want))
  for (part in c("coefficients", "residuals", "effects", "fitted.values", "qr"))
    expect_equal(got[[part]], want[[part]], tolerance = 1e-9)
  expect_equal(coef(summary(fit))[[2L]], coef(summary(want))[[2L]], tolerance = 1e-10)
})

test_that("generics work on fits, and what is long is an array", {
  fit <- gpu_lm(mpg ~ wt + hp + qsec, gpu(mtcars))
  want <- lm(mpg ~ wt + hp + qsec, mtcars)
  same <- function(f, long = FALSE) {
    got <- f(fit)
    if (long) expect_true(is_gpu(got), label = deparse1(body(f)))
    expect_equal(collect(got), f(want), tolerance = 1e-9, ignore_attr = TRUE, label = deparse1(body(f)))
  }
  for (f in list(hatvalues, cooks.distance, rstandard, rstudent, dfbeta, dfbetas, residuals, fitted,
    function(m) residuals(m, "pearson"), function(m) predict(m, interval = "confidence"),
    function(m) predict(m, mtcars[1:9, ], interval = "prediction"), function(m) influence(m)$sigma, model.matrix))
    same(f, long = TRUE)
  for (f in list(confint, vcov, AIC, BIC, logLik, nobs, deviance, extractAIC, formula, df.residual,
    function(m) as.matrix(drop1(m, test = "F")),
    function(m) as.matrix(add1(update(m, . ~ . - qsec), ~ . + qsec + drat)),
    function(m) coef(step(m, trace = 0)), function(m) as.matrix(anova(update(m, . ~ wt), m)),
    function(m) dffits(m, infl = influence(m)), function(m)
      if (inherits(m, "gpu_lm")) verdigris:::dffits.gpu_lm(m) else dffits(m), function(m) predict(m, type = "terms"),
    function(m) predict(m, mtcars[3:4, ], se.fit = TRUE), kappa, labels, variable.names)) same(f)
  expect_output(print(fit), "gpu_lm(formula = mpg ~ wt + hp + qsec", fixed = TRUE)
  expect_output(print(summary(fit)), "Multiple R-squared:  0.8348", fixed = TRUE)
  expect_identical(attributes(model.matrix(fit))[c("assign", "contrasts")],
    attributes(model.matrix(want))[c("assign", "contrasts")])
  drawn <- tempfile(fileext = ".pdf")
  grDevices::pdf(drawn)
  expect_silent(plot(fit, which = 1:6))
  grDevices::dev.off()
  expect_gt(file.size(drawn), 1000)
})

test_that("na.exclude pads residuals, leverages and predictions as base R does", {
  fit <- gpu_lm(Ozone ~ Wind + Temp, gpu(airquality), na.action = na.exclude)
  want <- lm(Ozone ~ Wind + Temp, airquality, na.action = na.exclude)
  for (f in list(residuals, fitted, predict, hatvalues, rstandard, cooks.distance))
    expect_equal(collect(f(fit)), unname(f(want)), tolerance = 1e-9)
  expect_error(gpu_lm(Ozone ~ Wind, gpu(airquality), na.action = na.fail), "missing values in object")
  expect_error(gpu_lm(Ozone ~ Wind, gpu(airquality), na.action = na.pass), "NA/NaN/Inf in 'y'")
  custom <- function(object, ...) na.omit(object)
  expect_equal(coef(gpu_lm(Ozone ~ Wind, gpu(airquality), na.action = custom)), coef(lm(Ozone ~ Wind, airquality)))
})

# ---- robust covariances ------------------------------------------------------------------------------------------

test_that("robust covariances are the formulas', of few and of many rows", {
  set.seed(3)
  for (n in c(60, 3000)) {
    d <- data.frame(x = rnorm(n), g = factor(sample(letters[1:3], n, TRUE)), w = rpois(n, 2) + 0, id = rep_len(1:20, n))
    d$y <- d$x + rnorm(n) * (1 + abs(d$x))
    for (weighted in c(TRUE, FALSE)) {
      if (!weighted) d$w <- 1
      fit <- if (weighted) gpu_lm(y ~ x * g, gpu(d), weights = w) else gpu_lm(y ~ x * g, gpu(d))
      used <- d$w > 0
      w <- d$w[used]
      x <- model.matrix(y ~ x * g, d)[used, ]
      r <- residuals(lm(y ~ x * g, d[used, ], weights = w))
      bread <- solve(crossprod(x * w, x))
      h <- rowSums((x * w) %*% bread * x)
      m <- nrow(x)
      meat <- function(f) crossprod(x * (w * r * f))
      sandwich <- function(middle) bread %*% middle %*% bread
      want <- list(HC0 = meat(1), HC1 = meat(1) * m / (m - 6), HC2 = meat(1 / sqrt(1 - h)), HC3 = meat(1 / (1 - h)))
      for (type in names(want)) expect_equal(gpu_vcov(fit, type), sandwich(want[[type]]), tolerance = 1e-8,
        ignore_attr = TRUE, label = type)
      expect_equal(gpu_vcov(fit), vcov(fit))
      s <- rowsum(x * (w * r), d$id[used])
      expect_equal(gpu_vcov(fit, "HC0", cluster = d$id), sandwich(crossprod(s)), tolerance = 1e-8, ignore_attr = TRUE)
      expect_equal(gpu_vcov(fit, cluster = gpu(d$id)), 20 / 19 * (m - 1) / (m - 6) * sandwich(crossprod(s)),
        tolerance = 1e-8, ignore_attr = TRUE)
    }
  }
  # of a glm, and with an aliased column
  fit <- gpu_glm(am ~ wt + I(2 * wt), binomial, gpu(mtcars))
  want <- glm(am ~ wt, binomial, mtcars)
  x <- model.matrix(want)
  u <- want$weights * want$residuals
  bread <- summary(want)$cov.unscaled
  got <- gpu_vcov(fit, "HC0")
  expect_equal(got[1:2, 1:2], bread %*% crossprod(x * u) %*% bread, tolerance = 1e-6)
  expect_true(all(is.na(got[3L, ])))
})

test_that("wrong arguments of gpu_vcov() are named", {
  fit <- gpu_lm(mpg ~ wt, gpu(mtcars))
  expect_error(gpu_vcov(lm(mpg ~ wt, mtcars)), "`fit` must be", class = "verdigris_error_argument")
  expect_error(gpu_vcov(fit, "HC9"), "`type` must be one of", class = "verdigris_error_argument")
  expect_error(gpu_vcov(fit, "HC3", cluster = mtcars$cyl), "`type` must be", class = "verdigris_error_argument")
  expect_error(gpu_vcov(fit, cluster = 1:3), "`cluster` must be a vector of the 32", class = "verdigris_error_argument")
  expect_error(gpu_vcov(fit, cluster = rep(1, 32)), "at least two", class = "verdigris_error_argument")
  expect_error(gpu_vcov(fit, cluster = c(NA, 2:32)), "without missing", class = "verdigris_error_argument")
})

# ---- absorbed effects ----------------------------------------------------------------------------------------------

test_that("absorbed effects have the fit of dummies", {
  set.seed(4)
  n <- 1200
  d <- data.frame(x = rnorm(n), z = rnorm(n), id = sample(60, n, TRUE), year = factor(sample(2000:2009, n, TRUE)),
    w = rpois(n, 2) + 0, o = rnorm(n))
  d$y <- d$x + d$id / 30 + as.integer(d$year) / 5 + rnorm(n)
  d$constant <- d$id^2
  d$y[5] <- NA
  compare <- function(formula, dummies, fe, ...) {
    more <- match.call(expand.dots = FALSE)$...
    fit <- eval(as.call(c(quote(gpu_lm), formula, list(data = gpu(d), fe = fe), more)))
    want <- eval(as.call(c(quote(lm), dummies, list(data = quote(d)), more)))
    rows <- names(coef(fit))
    expect_equal(coef(fit), coef(want)[rows], tolerance = 1e-7)
    known <- rows[!is.na(coef(fit))]
    expect_equal(coef(summary(fit)), coef(summary(want))[known, , drop = FALSE], tolerance = 1e-7)
    expect_equal(df.residual(fit), df.residual(want))
    expect_equal(collect(residuals(fit)), unname(residuals(want)), tolerance = 1e-6)
    expect_equal(collect(fitted(fit)), unname(fitted(want)), tolerance = 1e-6)
    for (part in c("r.squared", "adj.r.squared")) expect_equal(summary(fit)[[part]], summary(want)[[part]],
      tolerance = 1e-7)
    fit
  }
  compare(y ~ x + z, y ~ x + z + factor(id), ~ id)
  two <- compare(y ~ x + z, y ~ x + z + factor(id) + year, ~ id + year)
  compare(y ~ x, y ~ x + factor(id) + year, ~ id + year, weights = w)
  compare(y ~ x, y ~ x + factor(id) + year, ~ id + year, offset = o, subset = x > -1)
  compare(y ~ x + constant, y ~ x + factor(id) + constant, ~ id)
  expect_lt(two$fe$iterations, 60)
  expect_equal(two$fe$df, 69)
  # in two parts that nothing connects
  d$side <- d$id %% 2
  d$place <- d$side * 10 + sample(5, n, TRUE)
  compare(y ~ x, y ~ x + factor(id) + factor(place), ~ id + place)
  # HC1 with the effects' degrees of freedom, and clusters
  fit <- gpu_lm(y ~ x, gpu(d), fe = ~ id)
  full <- lm(y ~ x + factor(id), d)
  x <- model.matrix(full)
  bread <- solve(crossprod(x))
  want <- (bread %*% crossprod(x * residuals(full)) %*% bread)[2L, 2L] * nrow(x) / df.residual(full)
  expect_equal(gpu_vcov(fit, "HC1")[1L, 1L], want, tolerance = 1e-7)
  expect_error(predict(fit, d), "absorbed", class = "verdigris_error_argument")
  expect_error(collect(fit), "absorbed", class = "verdigris_error_argument")
  expect_error(hatvalues(fit), "absorbed", class = "verdigris_error_argument")
  expect_error(gpu_vcov(fit, "HC3"), "`type` must be", class = "verdigris_error_argument")
  expect_error(gpu_lm(y ~ x, d, fe = "id"), "`fe` must be a one-sided formula", class = "verdigris_error_argument")
  expect_error(gpu_lm(y ~ x, d, fe = ~ id:year), "`fe` must be a sum", class = "verdigris_error_argument")
  expect_error(gpu_lm(y ~ x, d, fe = ~ id, fe.control = list(eps = 1)), "`fe.control` must be",
    class = "verdigris_error_argument")
  expect_warning(gpu_lm(y ~ x, d, fe = ~ id + year, fe.control = list(maxit = 1), device = test_device),
    "did not converge in 1 iterations")
})

# ---- bad input -----------------------------------------------------------------------------------------------------

test_that("bad input has base R's errors and warnings", {
  d <- gpu(mtcars)
  same <- function(...) {
    call <- match.call(expand.dots = FALSE)$...
    run <- function(f, data) tryCatch(eval(as.call(c(list(f), call, list(data = data)))),
      error = conditionMessage, warning = conditionMessage)
    want <- run(quote(lm), mtcars)
    expect_type(want, "character")
    expect_identical(run(quote(gpu_lm), d), want)
  }
  same(mpg ~ nothing)
  same(mpg ~ wt, weights = 1:3)
  same(mpg ~ wt, weights = -wt)
  same(mpg ~ wt, weights = letters[gear])
  same(mpg ~ wt, offset = 1:3)
  same(mpg ~ wt, method = "svd")
  same(mpg ~ wt, subset = wt > 100)
  same(mpg ~ wt, surplus = 1)
  same(mpg ~ wt + I(wt * 2), singular.ok = FALSE)
  same(mpg ~ log(wt - 5))
  same(mpg ~ factor(rep("a", 32)))
  same(mpg ~ wt, na.action = "no.such.function")
  same(I(mpg / 0) ~ wt)
  same(rep(mpg, 40) ~ factor(c(NA, rep_len(1:20, 1279))), na.action = na.pass)
  same(mpg ~ I(wt / 0))
  expect_error(gpu_lm(I(mpg * 1i) ~ wt, d), "real response", class = "verdigris_error_argument")
  fit <- gpu_lm(mpg ~ wt, d)
  # what needs rows that are not kept is refused; memory stays as it is
  expect_error(qr.qy(fit$qr, mtcars$mpg), "keeps the triangle", class = "verdigris_error_argument")
  expect_error(qr.Q(fit$qr), "keeps the triangle", class = "verdigris_error_argument")
  expect_error(qr.X(fit$qr))
  expect_error(lm.influence(fit))
  expect_error(predict(fit, data.frame(hp = 1)), "object 'wt' not found")
  expect_identical(collect(predict(fit, data.frame(wt = numeric()))), numeric())
  # of zero columns and of a single row
  expect_equal(collect(residuals(gpu_lm(mpg ~ 0, d))), mtcars$mpg)
  expect_equal(coef(gpu_lm(mpg ~ wt, d, subset = 1)), coef(lm(mpg ~ wt, mtcars, subset = 1)))
})

test_that("missing values of any variable are found, of whatever kind and place", {
  set.seed(5)
  host <- data.frame(y = rnorm(40), a = rnorm(40), b = 1:40, l = rep(c(TRUE, FALSE), 20), g = factor(rep(1:4, 10)))
  for (name in names(host)) for (at in list(1, 40, c(3, 20), integer())) {
    h <- host
    h[at, name] <- NA
    d <- as_gpu(h, device = test_device)
    want <- lm(y ~ a + b + l + g, h)
    got <- gpu_lm(y ~ a + b + l + g, d)
    expect_equal(coef(got), coef(want), tolerance = 1e-8)
    expect_identical(got$na.action, want$na.action)
    expect_identical(got$xlevels, want$xlevels)
    if (length(at)) expect_error(gpu_lm(y ~ a + b + l + g, d, na.action = na.fail), "missing values in object")
  }
  for (f in list(y ~ 1, y ~ a, y ~ a + b, y ~ g)) expect_identical(
    gpu_lm(f, as_gpu(host, device = test_device))$xlevels, lm(f, host)$xlevels)
})

test_that("a variable that is written to after a fit is looked through again", {
  set.seed(6)
  d <- list(x = gpu(rnorm(2000)), y = gpu(rnorm(2000)))
  gpu_compute(d$x, d$y)
  left_out <- function() length(gpu_lm(y ~ x, d)$na.action)
  expect_identical(c(left_out(), left_out()), c(0L, 0L))
  d$x[7] <- NA
  expect_identical(c(left_out(), left_out()), c(1L, 1L))
  d$x[7] <- 0
  expect_identical(c(left_out(), left_out()), c(0L, 0L))
  gpu_copy(c(NA, NaN, rnorm(1998)), d$y)
  expect_identical(left_out(), 2L)
  gpu_copy(rnorm(2000), d$y)
  expect_identical(left_out(), 0L)
  gpu_compute(ifelse(d$x > 2.5, NA, d$x), out = d$x)
  expect_identical(left_out(), sum(is.na(collect(d$x))))
})

test_that("rows of weight 0 may have elements that are not finite", {
  set.seed(3)
  d <- data.frame(x = rnorm(200), z = rnorm(200), g = factor(sample(3, 200, TRUE)))
  d$y <- 1 + d$x - d$z + rnorm(200)
  d$w <- rep(c(0, 1, 2, 0.5), 50)
  for (spoil in list(list("y", 1, Inf), list("x", 5, -Inf), list("y", 9, 1e308), list("z", 13, Inf))) {
    e <- d
    e[[spoil[[1L]]]][spoil[[2L]]] <- spoil[[3L]]
    want <- lm(y ~ x + z + g, e, weights = w)
    got <- gpu_lm(y ~ x + z + g, as_gpu(e, device = test_device), weights = w)
    expect_equal(coef(got), coef(want), tolerance = 1e-9)
    expect_equal(df.residual(got), df.residual(want))
    expect_equal(unname(as.vector(residuals(got))), unname(residuals(want)), tolerance = 1e-9)
    expect_equal(deviance(got), deviance(want), tolerance = 1e-9)
  }
  d$y[2] <- Inf
  expect_error(gpu_lm(y ~ x, as_gpu(d, device = test_device), weights = w), "NA/NaN/Inf in 'y'")
})
