# Generalised linear models of readers: the iterations of stats::glm.fit(), each a pass over the blocks. A pass with
# given coefficients returns their deviance, and the cross products from which the next coefficients are computed.

# A family's aic() in two steps: `parts` returns its sums over a block's rows, and `whole` the value from the sums of
# all blocks and the deviance.
aic_of_family <- function(family) {
  name <- family$family
  log_of <- function(v, w) select_by(w > 0, log(v), 0)
  if (grepl("^quasi", name)) return(list(parts = function(y, n, mu, w) 0, whole = function(s, dev) NA_real_))
  switch(name,
    gaussian = list(parts = function(y, n, mu, w) c(NROW(y), as.vector(sum(log(w)))),
      whole = function(s, dev) s[1L] * (log(2 * pi * dev / s[1L]) + 1) + 2 - s[2L]),
    Gamma = list(parts = function(y, n, mu, w) c(as.vector(sum(w)), as.vector(sum(w * log_of(y, w))),
      as.vector(sum(w * y / mu)), as.vector(sum(w * log(mu)))), whole = function(s, dev) {
        disp <- dev / s[1L]
        a <- 1 / disp
        -2 * ((a - 1) * s[2L] - a * s[3L] - a * s[4L] - (a * log(disp) + lgamma(a)) * s[1L]) + 2
      }),
    inverse.gaussian = list(parts = function(y, n, mu, w) c(as.vector(sum(w)), as.vector(sum(w * log_of(y, w)))),
      whole = function(s, dev) s[1L] * (log(dev / s[1L] * 2 * pi) + 1) + 3 * s[2L] + 2),
    # other families: aic() is a sum over rows
    list(parts = function(y, n, mu, w) as.vector(collect(family$aic(y, n, mu, w, NA_real_)))[1L],
      whole = function(s, dev) s))
}

# What glm.fit() does first, for one block: the family initialises the response, weights and starting values.
initialised <- function(family, frame, rows, used_offset) {
  device <- rows$device
  y <- outcome_of(frame, device)
  n <- NROW(y)
  w <- weights_of(frame, device)
  if (!is.null(w) && any(w < 0)) stop_as_base(gettext("negative weights not allowed", domain = "R-stats"), rows$frame)
  to_device <- function(v) if (is.null(v) || is_gpu(v)) v else strip(on_device_of(v, device))
  begin <- function(name) if (!is.null(frame[[name]])) strip(on_device_of(frame[[name]], device))
  around <- list2env(list(rep.int = function(x, times) gpu_full(as.double(x), times, device = device)),
    parent = MODEL_MASKS)
  state <- list2env(list(y = y, nobs = n, weights = w %||% gpu_ones(n, device = device), start = NULL,
    etastart = begin("(etastart)"), mustart = begin("(mustart)"), family = family), parent = around)
  state$offset <- used_offset
  given <- state$mustart
  eval(family$initialize, state)
  if (!is.null(given)) state$mustart <- given
  list(y = to_device(state$y), n = to_device(state$n), weights = to_device(state$weights),
    mustart = to_device(state$mustart), etastart = state$etastart, nobs = n)
}

glm_of_reader <- function(call, formula, data, family, start, control, contrasts, singular.ok, device, env, frame) {
  device <- .Call(C_device_name, device)
  rows <- model_rows(call, formula, data, c("formula", "data", "weights", "subset", "na.action", "etastart", "mustart",
    "offset"), env, device, frame)
  family <- family_on_device(family)
  facts <- model_facts(rows)
  facts$contrasts <- contrasts
  facts$xlevels <- facts$levels[setdiff(names(facts$levels), names(attr(facts$terms, "dataClasses"))[attr(facts$terms,
    "response")])]
  if (!length(facts$xlevels)) facts$xlevels <- no_levels(facts$terms)
  z <- iterate_reader_glm(rows, facts, family, start, control, singular.ok)
  intercept <- attr(facts$terms, "intercept") > 0L
  if (z$offset && intercept && length(facts$names)) {
    null <- iterate_reader_glm(rows, facts, family, NULL, control, TRUE, columns = "(Intercept)")
    if (!null$converged) warn_as_base(gettext(
      "fitting to calculate the null deviance did not converge -- increase 'maxit'?", domain = "R-stats"), frame)
    z$null.deviance <- null$deviance
  }
  z$offset <- NULL
  structure(c(z, list(call = call, formula = formula, terms = facts$terms, control = control, method = "glm.fit",
    contrasts = facts$used_contrasts, xlevels = facts$xlevels)), class = c("gpu_glm_reader", "gpu_lm_reader", "glm",
    "lm"))
}

# One pass with coefficients `b`, NULL for the family's starting values. `last` are the coefficients before the step to
# `b`: Pearson's statistic is computed with their working weights, as in glm.fit() (FALSE: with those of `b`). With
# `triangle` the products are replaced by the triangle of a QR decomposition. `mean` is the mean of the null model, NA
# if only the offset gives it.
glm_pass <- function(rows, facts, family, b, columns, mean, aic, seen_warnings, last = FALSE, triangle = FALSE) {
  fail <- function(message) stop_as_base(gettext(message, domain = "R-stats"), rows$frame)
  over_frames(rows, function(frame) {
    d <- block_design(rows, facts, frame)
    if (is.null(d)) return(list(products = 0, counts = 0, omitted = omitted(frame)))
    if (!is.null(columns)) d <- design_columns(d, columns)
    offsets <- offset_of(frame, rows$device)
    offset <- if (is.null(offsets)) 0 else strip(offsets)
    g <- with_first_warnings(initialised(family, frame, rows, if (is.null(offsets)) gpu_zeros(d$n,
      device = rows$device) else offset), seen_warnings)
    eta_of <- function(b) if (!is.null(b)) (if (d$p == 0L) gpu_zeros(d$n, device = rows$device) else design_times(d,
      b)) + offset else if (!is.null(g$etastart)) g$etastart else
      family$linkfun(g$mustart)
    eta <- eta_of(b)
    mu <- family$linkinv(eta)
    valid <- isTRUE((is.null(family$valideta) || family$valideta(eta)) && (is.null(family$validmu) ||
      family$validmu(mu)))
    w <- g$weights
    null_mean <- if (is.null(mean)) NULL else if (is.na(mean)) family$linkinv(offset + gpu_zeros(d$n,
      device = rows$device)) else gpu_full(mean, d$n, device = rows$device)
    total <- function(v) as.vector(collect(sum(v)))[1L]
    ends <- range(as.vector(collect(range(mu))))
    counts <- c(rows = g$nobs, used = total(w != 0), deviance = total(family$dev.resids(g$y, mu, w)),
      null = if (is.null(null_mean)) 0 else total(family$dev.resids(g$y, null_mean, w)), wy = total(w * g$y),
      w = total(w), invalid = !valid)
    out <- list(counts = counts, ends = ends, aic = if (valid) aic$parts(g$y, g$n %||% gpu_ones(d$n,
      device = rows$device), mu, w) else NA, offset = !is.null(offsets), omitted = omitted(frame), products = 0,
      pearson = 0)
    if (!valid) return(out)
    slope <- family$mu.eta(eta)
    variance <- family$variance(mu)
    used <- w > 0
    if (any(is.na(variance) & used)) fail("NAs in V(mu)")
    if (any(variance == 0 & used)) fail("0s in V(mu)")
    if (any(is.na(slope) & used)) fail("NAs in d(mu)/d(eta)")
    good <- used & slope != 0
    working <- select_by(good, (g$y - mu) / slope, 0)
    scale <- sqrt(select_by(good, w * slope^2 / variance, 0))
    weight <- if (isFALSE(last) || family$family %in% c("binomial", "poisson")) scale^2 else {
      eta <- eta_of(last)
      select_by(used, w * family$mu.eta(eta)^2 / family$variance(family$linkinv(eta)), 0)
    }
    out$pearson <- total(weight * working^2)
    out$good <- total(good)
    target <- select_by(good, eta_of(b) - offset + working, 0) * scale
    gpu_compute(scale, target)
    d$scale <- scale
    if (d$p > 0L) out$products <- if (triangle) triangle_below(gpu_compute(cbind(design_rows(d, 0,
      d$n), strip(target)))) else lm_products(d, `dim<-`(strip(target), c(d$n, 1)))
    out
  }, function(a, b) {
    triangle <- is_gpu(a$products) || is_gpu(b$products)
    products <- if (!triangle) a$products + b$products else if (!is_gpu(a$products)) b$products else if (
      !is_gpu(b$products)) a$products else triangle_below(a$products, b$products)
    list(products = products, counts = a$counts + b$counts, ends = range(a$ends, b$ends), aic = (a$aic %||% 0) +
      (b$aic %||% 0), offset = isTRUE(a$offset) || isTRUE(b$offset), omitted = joined_omitted(a$omitted, b$omitted),
      pearson = (a$pearson %||% 0) + (b$pearson %||% 0), good = (a$good %||% 0) + (b$good %||% 0))
  }, facts$levels)
}

# Raises each warning of a family about the response once, not for each block and pass.
with_first_warnings <- function(expr, seen_warnings) withCallingHandlers(expr, warning = function(w) {
  message <- conditionMessage(w)
  if (message %in% seen_warnings$messages) tryInvokeRestart("muffleWarning") else
    seen_warnings$messages <- c(seen_warnings$messages, message)
})

# The next coefficients from the cross products of a pass, by R's rule on aliased columns. If the products are not
# accurate enough, another pass finds the triangle.
reader_glm_step <- function(pass, rows, facts, family, b, columns, aic, seen_warnings, tol) {
  p <- if (is.null(columns)) length(facts$names) else length(columns)
  names <- columns %||% facts$names
  r <- triangle_of_products(pass$products, tol, seq_len(p))
  if (is.null(r)) {
    if (!all(is.finite(pass$products))) stop_as_base("NA/NaN/Inf in 'x'", rows$frame)
    r <- unname(collect(glm_pass(rows, facts, family, b, columns, NULL, aic, seen_warnings, triangle = TRUE)$products))
  }
  z <- stats::lm.fit(r[, seq_len(p), drop = FALSE], r[, p + 1L], tol = tol)
  solution(z, list(p = p, names = names, n = pass$counts[["used"]]), tol)
}

iterate_reader_glm <- function(rows, facts, family, start, control, singular.ok, columns = NULL) {
  frame <- rows$frame
  fail <- function(...) stop_as_base(gettextf(..., domain = "R-stats"), frame)
  say <- function(...) warn_as_base(gettextf(..., domain = "R-stats"), frame)
  seen_warnings <- new.env(parent = emptyenv())
  aic <- aic_of_family(family)
  tol <- min(1e-07, control$epsilon / 1000)
  # the design of the first block gives the columns' names
  pass <- glm_pass(rows, facts, family, NULL, columns, NULL, aic, seen_warnings)
  names <- columns %||% facts$names
  p <- length(names)
  intercept <- attr(facts$terms, "intercept") > 0L
  if (pass$counts[["rows"]] == 0) stop_as_base(gettext("object 'fit' not found", domain = "R"), frame)
  mean <- if (intercept) pass$counts[["wy"]] / pass$counts[["w"]] else NA_real_
  if (!is.null(start)) {
    if (length(start) != p) fail("length of 'start' should equal %d and correspond to initial coefs for %s", p,
      paste(deparse(names), collapse = ", "))
    pass <- glm_pass(rows, facts, family, start, columns, mean, aic, seen_warnings)
  }
  if (pass$counts[["invalid"]] > 0)
    stop_as_base(gettext("cannot find valid starting values: please specify some", domain = "R-stats"), frame)
  deviance <- old <- pass$counts[["deviance"]]
  before <- if (is.null(start)) NULL else start
  converged <- boundary <- FALSE
  null <- NULL
  found <- NULL
  b <- before
  iter <- 0L
  if (p == 0L) {
    # the offset alone gives the means
    pass <- glm_pass(rows, facts, family, numeric(), columns, mean, aic, seen_warnings)
    converged <- TRUE
    deviance <- pass$counts[["deviance"]]
  } else for (iter in seq_len(control$maxit)) {
    if (!isTRUE(pass$good > 0)) {
      say("no observations informative at iteration %d", iter)
      break
    }
    found <- reader_glm_step(pass, rows, facts, family, b, columns, aic, seen_warnings, tol)
    if (any(!is.finite(found$coefficients[!is.na(found$coefficients)]))) {
      say("non-finite coefficients at iteration %d", iter)
      break
    }
    if (pass$counts[["used"]] < found$rank) fail("X matrix has rank %d, but only %d observations", found$rank,
      as.integer(pass$counts[["used"]]))
    last <- b
    b <- replace(unname(found$coefficients), is.na(found$coefficients), 0)
    pass <- glm_pass(rows, facts, family, b, columns, mean, aic, seen_warnings, last)
    deviance <- pass$counts[["deviance"]]
    if (control$trace) cat("Deviance = ", deviance, " Iterations - ", iter, "\n", sep = "")
    boundary <- FALSE
    halve <- function(bad, why, end) {
      if (!bad()) return()
      if (is.null(before)) stop_as_base(gettext(
        "no valid set of coefficients has been found: please supply starting values", domain = "R-stats"), frame)
      say(why)
      turn <- 1L
      while (bad()) {
        if (turn > control$maxit) fail(end)
        turn <- turn + 1L
        b <<- (b + before) / 2
        pass <<- glm_pass(rows, facts, family, b, columns, mean, aic, seen_warnings, last)
        deviance <<- pass$counts[["deviance"]]
      }
      boundary <<- TRUE
      if (control$trace) cat("Step halved: new deviance = ", deviance, "\n", sep = "")
    }
    halve(function() !is.finite(deviance), "step size truncated due to divergence",
      "inner loop 1; cannot correct step size")
    halve(function() pass$counts[["invalid"]] > 0, "step size truncated: out of bounds",
      "inner loop 2; cannot correct step size")
    if (abs(deviance - old) / (abs(deviance) + 0.1) < control$epsilon) {
      converged <- TRUE
      break
    }
    old <- deviance
    before <- b
  }
  if (!converged) say("glm.fit: algorithm did not converge")
  if (boundary) say("glm.fit: algorithm stopped at boundary value")
  # glm.fit()'s error if all weights are 0
  if (p > 0L && is.null(found)) stop_as_base(gettext("object 'fit' not found", domain = "R"), frame)
  eps <- 10 * .Machine$double.eps
  if (family$family == "binomial" && (pass$ends[2L] > 1 - eps || pass$ends[1L] < eps))
    say(BOUND_REACHED[["binomial"]])
  if (family$family == "poisson" && pass$ends[1L] < eps) say(BOUND_REACHED[["poisson"]])
  rank <- if (is.null(found)) 0L else found$rank
  if (!singular.ok && rank < p) stop_as_base(gettext("singular fit encountered", domain = "R-stats"), frame)
  used <- pass$counts[["used"]]
  coefficients <- if (p == 0L) numeric() else {
    out <- found$coefficients
    # if steps were halved, `b` differs from the last step's coefficients
    out[!is.na(out)] <- b[!is.na(out)]
    out
  }
  list(coefficients = coefficients, effects = found$effects, R = if (p > 0L) with_triangle(found$qr$qr$r,
    names[found$qr$pivot]), rank = rank, qr = found$qr, family = family, deviance = deviance,
    aic = as.vector(aic$whole(pass$aic, deviance)) + 2 * rank, null.deviance = pass$counts[["null"]],
    iter = iter, df.residual = as_whole(used - rank), df.null = as_whole(used - intercept), converged = converged,
    boundary = boundary, pearson = pass$pearson, n = as_whole(used),
    rows = as_whole(pass$counts[["rows"]]), na.action = action_of_omitted(pass$omitted),
    offset = pass$offset,
    prior.weights = NULL)
}

# ---- methods -------------------------------------------------------------------------------------------------

# A fit for methods that need residuals: its only residual gives Pearson's statistic.
surrogate_glm <- function(fit) {
  out <- unclass(fit)
  out$residuals <- sqrt(fit$pearson)
  # a second weight of 0 stands for rows without weight: base R warns of them
  out$weights <- c(1, if (fit$rows > fit$df.residual + fit$rank) 0)
  out$prior.weights <- 1
  # the response equals the fitted value, so the residual deviance is 0
  out$y <- out$fitted.values <- 0.5
  out["na.action"] <- list(NULL)
  structure(out, class = c("glm", "lm"))
}

#' @export
summary.gpu_glm_reader <- function(object, ...) {
  out <- summary.gpu_glm(surrogate_glm(object), ...)
  out$deviance.resid <- NULL
  out$na.action <- object$na.action
  class(out) <- c("summary.gpu_glm_reader", class(out))
  out
}
#' @export
print.summary.gpu_glm_reader <- function(x, ...) {
  whole <- x
  class(whole) <- "summary.glm"
  whole$deviance.resid <- 0
  print_without(whole, "Deviance Residuals:", ...)
  invisible(x)
}
#' @export
vcov.gpu_glm_reader <- function(object, ...) vcov.gpu_glm(surrogate_glm(object), ...)
#' @export
deviance.gpu_glm_reader <- function(object, ...) object$deviance
#' @export
logLik.gpu_glm_reader <- function(object, ...) {
  p <- object$rank + (object$family$family %in% c("gaussian", "Gamma", "inverse.gaussian"))
  structure(p - object$aic / 2, nobs = object$rows, df = p, class = "logLik")
}
#' @importFrom stats confint
#' @export
confint.gpu_glm_reader <- function(object, parm, level = 0.95, ...) {
  # Wald's intervals: profiles would fit the model again and again
  stats::confint.default(object, parm, level, ...)
}
#' @export
anova.gpu_glm_reader <- function(object, ...) stop_verdigris("argument",
  "`anova()` has no method for fits to readers: it would fit again without each term.",
  "Fit both models, and compare their deviances.")
#' @export
predict.gpu_glm_reader <- function(object, newdata, ...) {
  if (missing(newdata) || is_reader(newdata)) refuse_rows_of_fit("`predict()` without `newdata`")
  newdata <- new_rows(newdata)
  fit <- surrogate_glm(object)
  if (any(vapply(newdata, is_gpu, NA))) return(predict_of_glm(fit, newdata = newdata, ...))
  stats::predict.glm(fit, newdata = newdata, ...)
}
