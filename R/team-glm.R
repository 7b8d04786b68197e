# Generalised linear models of splits: the iterations of base R's glm.fit(), in which each pass over the rows is one
# call of all members, and one collective. Rules, warnings and messages are those of glm.fit().

# ---- what members compute, from the list of begin_glm() ------------------------------------------------

begun_warnings <- function(begun) list(begun$warnings, !is.null(begun$n), begun$bernoulli)
begun_part <- function(begun, name) begun[[name]]
begun_eta <- function(begun, start) if (is.null(start)) begun$eta else part_times(begun$d, NULL, start, begun$offset)
begun_mean <- function(begun, eta) begun$family$linkinv(eta)
begun_residuals <- function(begun, eta, mu) (begun$y - mu) / begun$family$mu.eta(eta)
begun_weights <- function(begun, eta) {
  slope <- begun$family$mu.eta(eta)
  select_by(begun$w > 0 & slope != 0, begun$w * slope^2 / begun$family$variance(begun$family$linkinv(eta)), 0)
}
family_value <- function(begun, part, ...) begun$family[[part]](...)

# In a member: the state of the iterations, an environment. glm_advance() changes the linear predictor and the means in
# it.
glm_state <- function(begun) {
  state <- list2env(begun, parent = emptyenv())
  state$mu <- state$family$linkinv(state$eta)
  if (has_columns(state$d)) state$pass <- passes_of_glm(begun)
  # a pass computes its own
  if (is.null(state$pass)) gpu_compute(state$eta, state$mu)
  state
}
glm_has_pass <- function(state) list(!is.null(state$pass))
# An iteration in one pass. Returns the cross products, then the numbers that counts_of_pass() takes.
glm_pass_of_part <- function(state, start) {
  out <- state$pass(start)
  if (is.null(out)) stop_verdigris("device", "The device has no kernel for cross products.", call = NULL)
  state$eta <- out$predictor
  state$d$scale <- out$scale
  # seldom needed
  delayedAssign("mu", state$family$linkinv(state$eta), assign.env = state)
  delayedAssign("target", working_response(state, state$eta, state$mu, state$family$mu.eta(state$eta)) * state$d$scale,
    assign.env = state)
  if (is.null(out$products)) out$results else flat_sums(list(out$results), list(out$products()))
}
glm_advance <- function(state, start) {
  state$eta <- part_times(state$d, NULL, start, state$offset)
  state$mu <- state$family$linkinv(state$eta)
  gpu_compute(state$eta, state$mu)
  state
}
# The deviance, and 1 if means or predictors are out of bounds, else 0. All is queued before anything is waited for.
stat_glm <- function(state) {
  own <- state$family
  deviance <- sum(own$dev.resids(state$y, state$mu, state$w))
  answer <- function(f, x) if (is.null(f)) TRUE else f(x)
  valid <- list(answer(own$valideta, state$eta), answer(own$validmu, state$mu))
  later(function() c(as.vector(deviance), !all(vapply(valid, function(x) isTRUE(as.vector(x)), NA))))
}
# Prepares the rows of an iteration's least squares. Returns the number of rows for which is_regular() is not TRUE,
# followed by the cross products if `products` is TRUE.
glm_step <- function(state, products) {
  own <- state$family
  variance <- own$variance(state$mu)
  slope <- own$mu.eta(state$eta)
  good <- state$w > 0 & slope != 0
  state$d$scale <- select_by(good, sqrt(state$w * slope^2 / variance), 0)
  state$target <- select_by(good, working_response(state, state$eta, state$mu, slope) * state$d$scale, 0)
  gpu_compute(state$d$scale, state$target)
  flat_sums(if (products) cross_sums(state$d, state$target, factor_columns(state$d)),
    list(number_true(is_irregular(variance, slope, state$w))))
}
# What the checks of glm.fit() ask if there are such rows: how many of positive weight have a missing variance, a
# variance of zero and a missing derivative, and how many rows are good.
glm_counts <- function(state) {
  variance <- state$family$variance(state$mu)
  slope <- state$family$mu.eta(state$eta)
  positive <- state$w > 0
  flat_sums(NULL, lapply(list(is.na(variance) & positive, variance == 0 & positive, is.na(slope) & positive, positive &
    slope != 0), number_true))
}
# The number of elements that are TRUE, as an array.
number_true <- function(x) {
  x <- widen_for_sum(select_by(is.na(x), FALSE, x))
  dim(x) <- c(length(x), 1L)
  strip(colSums(x))
}
# Sums for the null deviance, and the number of weights that are zero.
stat_null <- function(state) numbers_later(sum(state$w * state$y), sum(state$w), sum(widen_for_sum(state$w == 0)))
stat_null_deviance <- function(state, mean) numbers_later(sum(state$family$dev.resids(state$y, if (is.null(mean))
  state$family$linkinv(state$offset) else mean + 0 * state$mu, state$w)))
stat_bounds <- function(state, eps) numbers_later(sum(widen_for_sum(state$mu > 1 - eps)),
  sum(widen_for_sum(state$mu < eps)))

# ---- families ------------------------------------------------------------------------------------------

FAMILY_PARTS <- c("linkfun", "linkinv", "variance", "dev.resids", "mu.eta", "validmu", "valideta")

# A family as members are sent it: with base R's functions instead of this package's. Functions of a user's family must
# compute row by row.
plain_family <- function(family, here) {
  for (part in intersect(c(FAMILY_PARTS, "aic"), names(family))) family[[part]] <- without_our_functions(family[[part]])
  for (part in intersect(FAMILY_PARTS, names(family))) {
    f <- family[[part]]
    if (is.primitive(f) || environmentName(topenv(environment(f))) %in% c("stats", "MASS", "base")) next
    used <- setdiff(all.names(body(f)), c(all.vars(body(f)), ROW_BY_ROW, "{", "if", "<-", "return", "all", "any", "&&",
      "||", "rep", "length", "rep.int", "stop", "function", ".Machine", "$"))
    if (length(used)) stop_verdigris("split", sprintf(
      "The family's function `%s()` calls `%s()`, which is not known to work row by row.", part, used[1L]),
      "For splits, a family's functions may call only arithmetic, `ifelse()`, `pmax()`, `exp()` and the like.",
      call = here)
  }
  family
}

# The family of a fit: its functions take splits, arrays and ordinary vectors.
split_family <- function(family, begun) {
  ordinary <- family_on_device(family)
  for (part in intersect(FAMILY_PARTS, names(family))) local({
    name <- part
    ours <- ordinary[[name]]
    .verdigris_original <- family[[name]]
    ordinary[[name]] <<- function(...) {
      args <- list(...)
      splits <- base::which(vapply(args, is_split, NA))
      if (!length(splits)) return(ours(...))
      record_split(args[[splits[1L]]], "family_value", c(list(begun, name), unname(args)))
    }
  })
  ordinary
}

# Minus twice the log-likelihood, computed by the family's own function on splits.
aic_of_split <- function(family, y, n, mu, w, dev) {
  densities <- c("dbinom", "dpois", "dgamma", "dnorm", "ifelse", "pmax", "pmin")
  masks <- stats::setNames(lapply(densities, split_aware), densities)
  f <- family$aic
  environment(f) <- list2env(masks, parent = environment(f))
  f(y, n, mu, w, dev)
}

# ---- glm.fit() -----------------------------------------------------------------------------------------

# glm_fit_on_device() for a gpu_split_design and splits.
glm_fit_of_split <- function(h, y, weights = NULL, start = NULL, etastart = NULL, mustart = NULL, offset = NULL,
  family = stats::gaussian(), control = list(), intercept = TRUE, singular.ok = TRUE, here = parent.frame()) {
  control <- do.call(stats::glm.control, control)
  translate <- function(text) gettext(text, domain = "R-stats")
  family <- plain_family(family, here)
  if (!is.null(start) && length(start) != h$p) stop_as_base(gettextf(
    "length of 'start' should equal %d and correspond to initial coefs for %s", h$p, paste(deparse(h$names), collapse =
      ", "), domain = "R-stats"), here)
  part_of_rows <- function(f, ...) record_split(h$part, f, list(...), kind = "vector", margin = 1, across = NULL,
    names = NULL)
  begun <- part_of_rows("begin_glm", h$part, h$columns, family, y, weights, offset, etastart, mustart, start)
  gathered <- gathered_lists(begun, "begun_warnings", list(), here)
  for (text in unique(unlist(lapply(gathered, `[[`, 1L)))) warning(text, call. = FALSE)
  state <- part_of_rows("glm_state", begun)
  has_passes <- h$p > 0L && is_tall(h) && all(unlist(gathered_lists(state, "glm_has_pass", list(), here)))
  # the deviance, and whether the bounds hold, after the members have changed their state
  at <- function(moved) {
    found <- reduced(moved, "stat_glm", call = here)
    list(dev = found[1L], valid = found[2L] == 0)
  }
  move <- if (!has_passes) function(start) at(part_of_rows("glm_advance", state, unname(start))) else function(start) {
    flat <- split_sum(state, "glm_pass_of_part", list(unname(start)), here)
    products <- seq_len((h$p + 1L)^2)
    counts <- counts_of_pass(length(flat) - length(products), flat)
    list(dev = counts$deviance, valid = counts$valid, products = if (isTRUE(counts$irregular == 0)) flat[products])
  }
  now <- if (has_passes) move(NULL) else at(state)
  iter <- 0L
  coefficients <- numeric()
  before <- NULL # the coefficients of the predictor from which the last step was made
  boundary <- FALSE
  if (h$p == 0L) {
    if (!now$valid) stop_as_base(translate("invalid linear predictor values in empty model"), here)
    converged <- TRUE
    found <- NULL
  } else {
    if (!now$valid) stop_as_base(translate("cannot find valid starting values: please specify some"), here)
    moved <- iterate_glm(h, state, start, now, move, control, singular.ok, translate, here)
    now <- moved$now
    iter <- moved$iter
    coefficients <- moved$coefficients
    before <- moved$before
    converged <- moved$converged
    boundary <- moved$boundary
    found <- moved$found
    if (!converged) warning(translate("glm.fit: algorithm did not converge"), call. = FALSE)
    if (boundary) warning(translate("glm.fit: algorithm stopped at boundary value"), call. = FALSE)
    warn_bounds(family, state, translate, here)
  }
  sums <- reduced(state, "stat_null", call = here)
  null <- reduced(state, "stat_null_deviance", list(if (intercept) sums[1L] / sums[2L]), call = here)
  eta <- part_of_rows("begun_eta", begun, if (h$p > 0L) unname(moved$last))
  mu <- part_of_rows("begun_mean", begun, eta)
  part <- function(name) part_of_rows("begun_part", begun, name)
  prior <- part("w")
  response <- part("y")
  ok <- h$n - sums[3L]
  rank <- if (is.null(found)) 0L else found$rank
  if (!is.null(found)) {
    coefficients[setdiff(seq_along(coefficients), found$qr$pivot[seq_len(rank)])] <- NA
    names(coefficients) <- h$names
    # base R's R is square
    r <- with_triangle(found$qr$qr$r, h$names[found$qr$pivot])
  }
  n <- if (isTRUE(gathered[[1L]][[2L]])) part("n")
  bernoulli <- all(vapply(gathered, `[[`, NA, 3L))
  aic <- if (bernoulli) now$dev else aic_of_split(family, response, n, mu, prior, now$dev)
  list(coefficients = coefficients, residuals = part_of_rows("begun_residuals", begun, eta, mu), fitted.values = mu,
    effects = found$effects, R = if (!is.null(found)) r, rank = rank, qr = found$qr,
    family = split_family(family, begun), linear.predictors = eta, deviance = now$dev, aic = as.vector(aic)[1L] + 2 *
      rank, null.deviance = null, iter = iter, weights = part_of_rows("begun_weights", begun, part_of_rows("begun_eta",
      begun, unname(before))), prior.weights = prior, df.residual = as_whole(ok - rank),
    df.null = as_whole(ok - as.integer(intercept)), y = response, converged = converged, boundary = boundary)
}

# The iterations of glm.fit(), from `now`, what `move(start)` returns: the deviance, whether the bounds hold, and the
# cross products if a pass has computed them and all rows count. `last` are the coefficients of the members' final
# predictor, `before` those of the predictor that the last least squares problem was built from; NULL means the initial
# predictor.
iterate_glm <- function(h, state, start, now, move, control, singular.ok, translate, here) {
  old <- start
  before <- current <- NULL
  coefficients <- start %||% numeric(h$p)
  converged <- boundary <- FALSE
  dev_before <- now$dev
  found <- NULL
  tol <- min(1e-07, control$epsilon / 1000)
  for (iter in seq_len(control$maxit)) {
    flat <- if (is.null(now$products)) split_sum(state, "glm_step", list(is_tall(h)), here) else c(0, now$products)
    counts <- if (flat[1L] > 0) split_sum(state, "glm_counts", list(), here) else c(0, 0, 0, h$n)
    if (counts[1L] > 0) stop_as_base(translate("NAs in V(mu)"), here)
    if (counts[2L] > 0) stop_as_base(translate("0s in V(mu)"), here)
    if (counts[3L] > 0) stop_as_base(translate("NAs in d(mu)/d(eta)"), here)
    before <- current
    if (counts[4L] == 0) {
      converged <- FALSE
      warning(gettextf("no observations informative at iteration %d", iter, domain = "R-stats"), call. = FALSE)
      break
    }
    found <- split_least_squares(h, state, tol, here, function() flat[-1L])
    step <- replace(found$coefficients, is.na(found$coefficients), 0)
    if (!all(is.finite(step))) {
      converged <- FALSE
      warning(gettextf("non-finite coefficients at iteration %d", iter, domain = "R-stats"), call. = FALSE)
      break
    }
    if (h$n < found$rank) stop_as_base(sprintf(ngettext(h$n, "X matrix has rank %d, but only %d observation",
      "X matrix has rank %d, but only %d observations", domain = "R-stats"), found$rank, h$n), here)
    if (!singular.ok && found$rank < h$p) stop_as_base(translate("singular fit encountered"), here)
    start <- as.vector(step)
    now <- move(start)
    traced <- function(...) if (control$trace) cat(..., "\n", sep = "")
    traced("Deviance = ", now$dev, " Iterations - ", iter)
    boundary <- FALSE
    # goes half of the way back until the deviance is finite and the means are valid
    halve <- function(text, loop, unfit) {
      if (is.null(old)) stop(translate("no valid set of coefficients has been found: please supply starting values"),
        call. = FALSE)
      warning(translate(text), call. = FALSE)
      turns <- 1
      while (unfit(now)) {
        if (turns > control$maxit) stop(translate(loop), call. = FALSE)
        turns <- turns + 1
        start <<- (start + old) / 2
        now <<- move(start)
      }
      boundary <<- TRUE
      traced("Step halved: new deviance = ", now$dev)
    }
    if (!is.finite(now$dev)) halve("step size truncated due to divergence", "inner loop 1; cannot correct step size",
      function(now) !is.finite(now$dev))
    if (!now$valid) halve("step size truncated: out of bounds", "inner loop 2; cannot correct step size",
      function(now) !now$valid)
    current <- start
    coefficients <- start
    if (abs(now$dev - dev_before) / (abs(now$dev) + 0.1) < control$epsilon) {
      converged <- TRUE
      break
    }
    dev_before <- now$dev
    old <- start
  }
  list(now = now, iter = iter, coefficients = coefficients, last = current, before = before, converged = converged,
    boundary = boundary, found = found)
}

warn_bounds <- function(family, state, translate, here) {
  if (!family$family %in% names(BOUND_REACHED)) return()
  found <- reduced(state, "stat_bounds", list(10 * .Machine$double.eps), call = here)
  if (switch(family$family, binomial = any(found > 0), poisson = found[2L] > 0))
    warning(translate(BOUND_REACHED[[family$family]]), call. = FALSE)
}

# ---- gpu_glm() -----------------------------------------------------------------------------------------

# gpu_glm() of splits. Arguments are those of lm_of_split().
glm_of_split <- function(like, call, formula, data, env, more, family, start, control, model, method, x, y,
  singular.ok, contrasts, action, here) {
  made <- split_frame(like, formula, data, env, more, action, contrasts, here)
  if (identical(method, "model.frame")) return(made$frame)
  if (!identical(method, "glm.fit")) abort_argument("method", "\"glm.fit\" or \"model.frame\"", method, here)
  control <- do.call(stats::glm.control, control)
  if (attr(made$terms, "response") == 0L) stop_verdigris("argument", "`formula` must have a response.", call = here)
  given <- of_frame(made, "frame_outcome")
  w <- if (made$has[1L]) of_frame(made, "frame_weights")
  if (!is.null(w) && reduced(w, "stat_weights", call = here)[1L] > 0)
    stop_as_base(gettext("negative weights not allowed", domain = "R-stats"), here)
  offset <- if (made$has[2L]) of_frame(made, "frame_offset")
  h <- split_design(made, contrasts, here)
  intercept <- attr(made$terms, "intercept") > 0L
  z <- glm_fit_of_split(h, given, weights = w, start = start, etastart = if (made$has[3L]) of_frame(made,
    "frame_start", "(etastart)"), mustart = if (made$has[4L]) of_frame(made, "frame_start", "(mustart)"),
    offset = offset, family = family, control = control, intercept = intercept, singular.ok = singular.ok, here = here)
  if (!is.null(offset) && intercept && h$p > 0L) {
    null <- glm_fit_of_split(h[, match("(Intercept)", h$names)], given, weights = w, mustart = z$fitted.values,
      offset = offset, family = family, control = control, intercept = TRUE, here = here)
    if (!null$converged) warn_as_base(gettext(
      "fitting to calculate the null deviance did not converge -- increase 'maxit'?", domain = "R-stats"), here)
    z$null.deviance <- null$deviance
  }
  if (model) z$model <- made$frame
  z$na.action <- made$na.action
  if (x) z$x <- split_model_matrix(h)
  if (!y) z$y <- NULL
  structure(c(z, list(call = call, formula = formula, terms = made$terms, data = data, offset = offset,
    control = control, method = method, contrasts = h$contrasts, xlevels = made$xlevels, design = h)),
    class = c("gpu_glm", "glm", "lm"))
}
