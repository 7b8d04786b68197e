# Methods for fits on arrays: base R's own, evaluated in the enclosure of aaa-base-methods.R. Where base R uses the rows
# of the QR decomposition, which these fits do not keep, the masks compute them from the model matrix.

# Functions that base R's methods call instead of those of base and stats; zzz.R copies them into MODEL_MASKS.
model_masks <- function() {
  named <- c(ARITHMETIC_MASKS, "outer", "apply", "storage.mode<-")
  named <- setdiff(named, c("ifelse", "pmax", "pmin"))
  c(mget(Filter(function(name) exists(name, envir = topenv(), inherits = FALSE), named), envir = topenv()), list(
    lm.fit = lm_fit_on_device, lm.wfit = lm_wfit_on_device, glm.fit = glm_fit_on_device,
    lm.influence = influence_on_device, summary.lm = summary_of_lm, summary.glm = summary.gpu_glm,
    model.matrix = model_matrix_on_device, predict.lm = predict.gpu_lm,
    ifelse = split_aware("ifelse"), pmax = split_aware("pmax"), pmin = split_aware("pmin"),
    na.omit = function(object, ...) if (!is_gpu(object)) stats::na.omit(object, ...) else if (anyNA(object))
      object[!is.na(object)] else object,
    qr.lm = triangle_of_fit, qr.Q = orthogonal_of_fit,
    chol2inv = function(x, size = NCOL(x), ...) base::chol2inv(if (inherits(x, "gpu_triangle")) x$r else x, size, ...),
    diag = function(x = 1, ...) base::diag(if (inherits(x, "gpu_triangle")) x$r else x, ...),
    refuse_effects = refuse_effects, refuse_refit = refuse_refit, rank_with_effects = rank_with_effects,
    is_none = is_none, is_response = is_response, is_split_fit = is_split_fit, is_split = is_split,
    predict_of_split = predict_of_split, predict_glm_of_split = predict_glm_of_split,
    rstandard_of_split = rstandard_of_split, cooks_distance_of_split = cooks_distance_of_split,
    loglik_of_split = loglik_of_split
  ))
}

# Mask of qr.lm(): the decomposition, with the fit as an attribute for orthogonal_of_fit().
triangle_of_fit <- function(x, ...) {
  out <- utils::getFromNamespace("qr.lm", "stats")(x, ...)
  attr(out, "fit") <- x
  out
}

# Mask of qr.Q(): the columns of the orthogonal factor up to the rank, from the model matrix.
orthogonal_of_fit <- function(qr, ...) {
  fit <- attr(qr, "fit")
  if (is.null(fit)) return(base::qr.Q(qr, ...))
  d <- design_of_fit(fit)
  design_times(d, leading_inverse(fit))
}

# ---- the model matrix ------------------------------------------------------------------------------------------

device_of_fit <- function(fit) gpu_device(if (is_split_fit(fit)) as_gpu(0) else fit$residuals)

design_of_fit <- function(fit) {
  refuse_split_fit(fit, "This function")
  if (is_gpu(fit[["x"]])) return(as_design(fit[["x"]]))
  design_of(stats::terms(fit), stats::model.frame(fit), fit$contrasts, device_of_fit(fit))
}

# B such that X B is the orthogonal factor of the columns that are not aliased. B has a row for every column of X.
leading_inverse <- function(fit) {
  ok <- seq_len(fit$rank)
  out <- base::matrix(0, length(fit$qr$pivot), fit$rank)
  out[fit$qr$pivot[ok], ] <- backsolve(fit$qr$qr[ok, ok, drop = FALSE], diag(fit$rank))
  out
}

model_matrix_of_fit <- function(object, ...) {
  if (is_gpu(object[["x"]]) || is_split(object[["x"]])) return(object[["x"]])
  if (is_split_fit(object)) return(split_model_matrix(object$design))
  frame <- stats::model.frame(object, xlev = object$xlevels, ...)
  model_array(design_of(stats::terms(object), frame, object$contrasts, device_of_fit(object)))
}

#' @importFrom stats model.matrix
#' @export
model.matrix.gpu_lm <- model_matrix_of_fit
#' @export
model.matrix.gpu_glm <- model_matrix_of_fit

# ---- summaries and predictions ---------------------------------------------------------------------------------

summary_of_lm <- on_arrays("summary.lm")
#' @export
summary.gpu_lm <- function(object, ...) {
  out <- summary_of_lm(object, ...)
  if (is.null(object$fe)) return(out)
  # the absorbed effects are regressors too, but are not tested
  out$fstatistic <- NULL
  fitted <- object$fitted.values
  # newer versions of R subtract the offset first
  if ("offset" %in% all.names(body(summary_of_lm)) && !is.null(object$offset)) fitted <- fitted - object$offset
  w <- object$weights %||% 1
  explained <- sum(w * (fitted - sum(w * fitted) / sum(w + 0 * fitted))^2)
  left <- sum(w * object$residuals^2)
  out$r.squared <- explained / (explained + left)
  rows <- object$df.residual + object$rank + object$fe$df
  out$adj.r.squared <- 1 - (1 - out$r.squared) * (rows - 1) / object$df.residual
  out
}
#' @export
summary.gpu_glm <- on_arrays("summary.glm")

# Base R's method counts coefficients, but absorbed effects take degrees of freedom, too.
#' @importFrom stats sigma
#' @export
sigma.gpu_lm <- function(object, ...) if (is.null(object$fe)) NextMethod() else
  sqrt(stats::deviance(object) / stats::df.residual(object))
#' @export
sigma.gpu_glm <- function(object, ...) {
  if (is.null(object$fe)) return(NextMethod())
  # from R 4.5 on the square root of the dispersion, which is 1 for some families
  if (is.null(utils::getS3method("sigma", "glm", optional = TRUE, envir = asNamespace("stats"))))
    return(sigma.gpu_lm(object))
  sqrt(summary(object)$dispersion)
}

#' @importFrom stats vcov
#' @export
vcov.gpu_lm <- on_arrays("vcov.lm")
#' @export
vcov.gpu_glm <- on_arrays("vcov.glm")

#' @export
print.gpu_lm <- function(x, ...) {
  NextMethod()
  print_effects(x)
}
#' @export
print.gpu_glm <- function(x, ...) {
  NextMethod()
  print_effects(x)
}
print_effects <- function(x) {
  if (!is.null(x$fe)) cat(sprintf("Absorbed: %s levels of %s (%s degrees of freedom)\n\n",
    paste(vapply(x$fe$levels, format_count, ""), collapse = " + "), deparse1(x$call$fe), format_count(x$fe$df)))
  invisible(x)
}

predict_of_lm <- on_arrays("predict.lm")
#' @importFrom stats predict
#' @export
predict.gpu_lm <- predict_of_lm
body(predict.gpu_lm) <- call("{", quote(if (is_split_fit(object) && missing(newdata) || !missing(newdata) &&
  is_split(newdata)) return(predict_of_split(object, if (!missing(newdata)) newdata, se.fit, scale, df,
  match.arg(interval), level, match.arg(type), list(...), environment()))), quote(refuse_effects(object, "predict()",
  missing(newdata) && !se.fit && is_none(interval) && is_response(type))), quote(
  if (!is.null(object$fe)) return(stats::fitted(object))),
  body(predict_of_lm))
refuse_effects <- function(fit, what, unless = FALSE) {
  if (is.null(fit$fe) || unless) return(invisible())
  stop_verdigris("argument", sprintf("%s needs the effects that this fit has absorbed, and not kept.", what),
    "`fitted(fit)` has the fitted values; with the factors in the formula in place of `fe` all of it works.",
    call = NULL)
}
is_none <- function(interval) identical(interval[1L], "none")
is_response <- function(type) identical(type[1L], "response")

predict_of_glm <- on_arrays("predict.glm")
#' @export
predict.gpu_glm <- predict_of_glm
body(predict.gpu_glm) <- call("{", quote(if (is_split_fit(object) && missing(newdata) && (se.fit || identical(type[1L],
  "terms")) || !missing(newdata) && is_split(newdata)) return(predict_glm_of_split(object, if (!missing(newdata))
  newdata, match.arg(type), se.fit, dispersion, list(...), environment()))), quote(refuse_effects(object,
  "predict()", missing(newdata) && !se.fit &&
  type[1L] %in% c("link", "response"))), body(predict_of_glm))
#' @importFrom stats residuals
#' @export
residuals.gpu_glm <- on_arrays("residuals.glm")
#' @importFrom stats logLik
#' @export
logLik.gpu_lm <- on_arrays("logLik.lm")
body(logLik.gpu_lm) <- call("{", quote(if (is_split_fit(object)) return(loglik_of_split(object, REML))),
  quote(if (REML) refuse_effects(object, "logLik(REML = TRUE)")), quote(object$rank <- rank_with_effects(object)),
  body(logLik.gpu_lm))
#' @export
logLik.gpu_glm <- on_arrays("logLik.glm")
body(logLik.gpu_glm) <- call("{", quote(object$rank <- rank_with_effects(object)), body(logLik.gpu_glm))
rank_with_effects <- function(fit) as.integer(fit$rank + (fit$fe$df %||% 0))

# ---- influence -------------------------------------------------------------------------------------------------

# lm.influence() on the device: leverages are row sums of squares of the orthogonal factor, which is computed block by
# block. The change of coefficients without an observation is stats' formula (Belsley, Kuh and Welsch 1980).
influence_on_device <- function(model, do.coef = TRUE, ...) {
  refuse_effects(model, "influence()")
  if (is_split_fit(model)) return(influence_of_split(model, do.coef))
  if (!inherits(model, c("gpu_lm", "gpu_glm"))) return(stats::lm.influence(model, do.coef, ...))
  if (inherits(model, "mlm"))
    stop_verdigris("argument", "influence() of a fit of several responses is not computed on arrays.",
      "`collect(fit)` makes an ordinary fit.", call = NULL)
  residuals <- stats::weighted.residuals(model)
  kept <- if (inherits(model$na.action, "exclude")) which(!is.na(residuals))
  e <- if (is.null(kept)) residuals else residuals[kept]
  used <- if (inherits(model, "gpu_glm")) model$prior.weights else model$weights
  rows <- if (!is.null(used) && any(used == 0)) which(used != 0)
  n <- length(e)
  rank <- model$rank
  if (rank == 0L) {
    hat <- gpu_zeros(n, device = gpu_device(e))
    sigma <- gpu_full(sqrt(stats::deviance(model) / stats::df.residual(model)), n, device = gpu_device(e))
    coefficients <- base::matrix(0, n, 0L)
  } else {
    e <- ifelse(abs(e) < 100 * .Machine$double.eps * stats::median(abs(e)), 0, e)
    found <- leverages(model, rows, e, do.coef)
    hat <- found$hat
    sigma <- found$sigma
    coefficients <- found$coefficients
    # columns are in pivot order, which differs from the design's order only for aliased ones
    if (do.coef) dimnames(coefficients) <- list(NULL, names(model$coefficients)[!is.na(model$coefficients)])
  }
  if (!is.null(action <- model$na.action)) {
    hat <- stats::naresid(action, hat)
    sigma <- stats::naresid(action, sigma)
    if (inherits(action, "exclude")) {
      hat <- ifelse(is.na(hat), 0, hat)
      sigma <- ifelse(is.na(sigma), sqrt(stats::deviance(model) / stats::df.residual(model)), sigma)
      if (do.coef) {
        names <- dimnames(coefficients)
        coefficients <- stats::naresid(action, coefficients)
        coefficients <- ifelse(is.na(coefficients), 0, coefficients)
        dimnames(coefficients) <- names
      }
    }
  }
  c(list(hat = hat), if (do.coef) list(coefficients = coefficients), list(sigma = sigma,
    wt.res = stats::naresid(model$na.action, e)))
}

# Leverages `hat`. With residuals `e` also `sigma`, the residual standard deviation without each observation, and with
# `changes` the changes of the `coefficients`.
leverages <- function(fit, rows = NULL, e = NULL, changes = FALSE) {
  d <- design_of_fit(fit)
  if (!is.null(fit$weights)) d$scale <- sqrt(fit$weights)
  if (!is.null(rows)) d <- design_at(d, rows)
  ok <- seq_len(fit$rank)
  r <- fit$qr$qr[ok, ok, drop = FALSE]
  r[row(r) > col(r)] <- 0
  singular <- any(abs(diag(r)) < CHOLESKY_LIMIT * sqrt(colSums(r^2)))
  if (is_small(d) || singular) return(leverages_on_host(d, fit, e, changes))
  to_q <- as_gpu(leading_inverse(fit), device = d$device)
  hat <- join(by_blocks(d, function(from, count)
    with_rows(d, from, count, function(x) list(rowSums((x %*% to_q)^2)))[[1L]]))
  hat <- ifelse(hat > 1 - 10 * .Machine$double.eps, 1, hat)
  if (is.null(e)) return(list(hat = hat))
  left <- sum(e * e) - ifelse(hat < 1, e * e / (1 - hat), 0)
  sigma <- sqrt(pmax(left, 0) / (d$n - fit$rank - 1))
  gpu_compute(hat, sigma)
  list(hat = hat, sigma = sigma, coefficients = if (changes) {
    back <- as_gpu(t(backsolve(r, diag(fit$rank))), device = d$device)
    do.call(rbind, by_blocks(d, function(from, count)
      with_rows(d, from, count, function(x) list(x %*% to_q %*% back))[[1L]])) * ifelse(hat == 1, 0, e / (1 - hat))
  })
}

# By base R, with Householder reflections: for few rows, and where the triangle is nearly singular.
leverages_on_host <- function(d, fit, e, changes) {
  x <- host_rows(d)
  e <- if (is.null(e)) numeric(d$n) else host_copy(e, silent = d$device == "cpu" || is_moderate(d))
  qr <- stats::lm.fit(x, e, tol = fit$qr$tol)$qr
  # keep the rank that the fit found
  qr$rank <- fit$rank
  host <- structure(list(residuals = e, coefficients = fit$coefficients, rank = fit$rank, qr = qr,
    df.residual = fit$df.residual), class = "lm")
  found <- stats::lm.influence(host, do.coef = changes)
  lapply(found[c("hat", "sigma", if (changes) "coefficients")], function(v) strip_names(as_gpu(unname(v),
    device = d$device)))
}

#' @importFrom stats influence
#' @export
influence.gpu_lm <- function(model, do.coef = TRUE, ...) influence_on_device(model, do.coef)
#' @export
influence.gpu_glm <- on_arrays("influence.glm")
#' @importFrom stats hatvalues
#' @export
hatvalues.gpu_lm <- function(model, infl = influence_on_device(model, do.coef = FALSE), ...) infl$hat
#' @export
hatvalues.gpu_glm <- hatvalues.gpu_lm
#' @importFrom stats rstandard
#' @export
rstandard.gpu_lm <- on_arrays("rstandard.lm")
body(rstandard.gpu_lm) <- call("{", quote(if (is_split_fit(model)) return(rstandard_of_split(model))),
  body(rstandard.gpu_lm))
#' @export
rstandard.gpu_glm <- on_arrays("rstandard.glm")
body(rstandard.gpu_glm) <- call("{", quote(if (is_split_fit(model)) return(rstandard_of_split(model,
  match.arg(type)))), body(rstandard.gpu_glm))
#' @importFrom stats rstudent
#' @export
rstudent.gpu_lm <- on_arrays("rstudent.lm")
#' @export
rstudent.gpu_glm <- on_arrays("rstudent.glm")
#' @importFrom stats cooks.distance
#' @export
cooks.distance.gpu_lm <- on_arrays("cooks.distance.lm")
body(cooks.distance.gpu_lm) <- call("{", quote(if (is_split_fit(model)) return(cooks_distance_of_split(model))),
  body(cooks.distance.gpu_lm))
#' @export
cooks.distance.gpu_glm <- on_arrays("cooks.distance.glm")
body(cooks.distance.gpu_glm) <- call("{", quote(if (is_split_fit(model)) return(cooks_distance_of_split(model))),
  body(cooks.distance.gpu_glm))
#' @importFrom stats dfbeta
#' @export
dfbeta.gpu_lm <- on_arrays("dfbeta.lm")
#' @export
dfbeta.gpu_glm <- on_arrays(c("dfbeta.glm", "dfbeta.lm"))
#' @importFrom stats dfbetas
#' @export
dfbetas.gpu_lm <- on_arrays("dfbetas.lm")
#' @export
dfbetas.gpu_glm <- on_arrays(c("dfbetas.glm", "dfbetas.lm"))

# dffits() is generic only in newer versions of R.
#' @rawNamespace if (exists("dffits.lm", envir = asNamespace("stats"), inherits = FALSE)) {
#'   S3method(stats::dffits, gpu_lm)
#'   S3method(stats::dffits, gpu_glm)
#' }
NULL
dffits.gpu_lm <- on_arrays(c("dffits.lm", "dffits"))
dffits.gpu_glm <- on_arrays(c("dffits.glm", "dffits.lm", "dffits"))

# ---- other models ----------------------------------------------------------------------------------------------

# Base R's methods that fit models with other columns. They do not support absorbed effects.
refitting <- function(name) {
  f <- on_arrays(name)
  body(f) <- call("{", bquote(refuse_refit(object, .(sub("\\..*", "()", name)))), body(f))
  f
}
refuse_refit <- function(fit, what) {
  if (what != "anova()") refuse_split_fit(fit, what,
    "`update(fit, . ~ . - x)` fits another model; `anova(fit, other)` and `AIC()` compare them.")
  if (!is.null(fit$fe)) stop_verdigris("argument", sprintf("%s does not refit beside absorbed effects.", what),
    "`update(fit, . ~ . - x)` fits another model; `AIC()` and `logLik()` compare them.", call = NULL)
}

#' @importFrom stats add1
#' @export
add1.gpu_lm <- refitting("add1.lm")
#' @export
add1.gpu_glm <- refitting("add1.glm")
#' @importFrom stats drop1
#' @export
drop1.gpu_lm <- refitting("drop1.lm")
#' @export
drop1.gpu_glm <- refitting("drop1.glm")
#' @importFrom stats anova
#' @export
anova.gpu_lm <- on_arrays("anova.lm")
# Base R's table drops its first row, that of the intercept. Beside absorbed effects there is no such row.
body(anova.gpu_lm) <- call("{", quote(if (!is.null(object$fe) && !...length())
  attr(object$terms, "intercept") <- 0L), body(anova.gpu_lm))
#' @export
anova.gpu_glm <- refitting("anova.glm")
body(anova.gpu_glm) <- call("{", quote(if (is_split_fit(object)) object$x <- object$design), body(anova.gpu_glm))

# profile.glm() is in stats from R 4.4 on, before in MASS.
#' @importFrom stats profile
#' @export
profile.gpu_glm <- function(fitted, ...) {
  refuse_refit(fitted, "profile()")
  home <- if (exists("profile.glm", envir = asNamespace("stats"), inherits = FALSE)) "stats" else "MASS"
  profile <- with_our_functions(get("profile.glm", envir = asNamespace(home)), glm.fit = glm_fit_on_device,
    "%*%" = matrix_product)
  profile(fitted, ...)
}

#' @importFrom stats confint
#' @export
confint.gpu_glm <- function(object, parm, level = 0.95, ...) {
  refuse_split_fit(object, "confint()", "`confint.default(fit)` has Wald's intervals.")
  if (is.null(object$fe)) NextMethod() else stats::confint.default(object, parm, level, ...)
}

# plot.lm() of base R, with masks that copy what it draws to the host.
plot_on_host <- function(x, ...) {
  refuse_split_fit(x, "plot()")
  draw <- utils::getS3method("plot", "lm", envir = asNamespace("stats"))
  read <- function(generic) function(...) collect(generic(...))
  environment(draw) <- list2env(list(residuals = read(stats::residuals), predict = read(stats::predict),
    influence = read(stats::influence), weights = read(stats::weights), rstandard = read(stats::rstandard),
    cooks.distance = read(stats::cooks.distance), hatvalues = read(stats::hatvalues),
    lm.influence = read(influence_on_device)), parent = MODEL_MASKS)
  draw(x, ...)
}
#' @export
plot.gpu_lm <- plot_on_host
#' @export
plot.gpu_glm <- plot_on_host
