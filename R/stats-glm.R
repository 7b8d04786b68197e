# Generalised linear models: the running R's glm.fit(), with designs and arrays in place of its matrix and vectors. So
# the iterations, convergence, step halving, warnings and messages are base R's.

#' Generalised linear models on arrays
#'
#' `gpu_glm()` is [stats::glm()] for data on a device. Data, the model matrix, least squares and memory are as described
#' for [gpu_lm()]. [glm()][stats::glm] itself remains base R's.
#'
#' The iterations use the code of [stats::glm.fit()] in the running R: only its weighted least squares are replaced by
#' the least squares of [gpu_lm()], and the family's functions are computed on the device. So starting values,
#' `control`, convergence, step halving, warnings and messages are base R's. The means, weights, working responses and
#' deviances of an iteration are recorded expressions, fused into few kernels. Where all rows count (have a positive
#' weight, and a variance and a derivative that are not zero), means are valid and the columns are well conditioned, an
#' iteration is one pass over the rows and one wait; if not, base R's code makes the fit from the beginning.
#'
#' With `fe` each iteration subtracts group means, weighted by the working weights, from the columns and the working
#' response (Stammann 2018); degrees of freedom, `logLik()` and `AIC()` count the effects. The limits are those of
#' [gpu_lm()]; in addition `anova()`, `add1()`, `drop1()` and `profile()` cannot refit such models, and `confint()`
#' returns Wald intervals.
#'
#' Any `family` object is accepted. Its functions are called with arrays. Calls of base R functions that do not
#' dispatch, such as `ifelse()`, `pmax()` and `dbinom()`, reach this package's functions; expressions replace the C code
#' of `binomial()` and the loops of `poisson()`. If a function of a family calls its own compiled code, it reads arrays
#' on the host. As for [gpu_lm()], `data` or variables may be [readers][gpu_reader]. Each iteration is one pass over the
#' blocks (two where the working matrix is badly conditioned), with base R's steps, convergence, step halving and
#' messages. The fit has class `c("gpu_glm_reader", "gpu_lm_reader", "glm", "lm")`; its `confint()` returns Wald
#' intervals, and dispersions are computed with the working weights of the last coefficients.
#' @param formula,data,weights,subset,na.action,start,etastart,mustart,offset,control,model,x,y As in [stats::glm()].
#' @param singular.ok,contrasts,... As in [stats::glm()].
#' @param family,method As in [stats::glm()]; `method` is `"glm.fit"` or `"model.frame"`.
#' @param fe,fe.control,device As in [gpu_lm()].
#' @returns An object of class `c("gpu_glm", "glm", "lm")`. It has the components of a base R fit, with the differences
#'   that [gpu_lm()] lists: components with an element for each observation are arrays without names. The functions of
#'   `family` accept arrays and ordinary vectors. [collect()] returns an ordinary fit.
#'
#'   The generics that [gpu_lm()] lists work, and so do `anova()` and `profile()`, which fit on the device. `confint()`
#'   is the method of the running R, which uses profiles.
#' @section Errors:
#' Base R's errors and messages; `verdigris_error_argument` for a user-defined `method`; `verdigris_error_device`,
#' `verdigris_error_memory`.
#' @references A. Stammann (2018): Fast and Feasible Estimation of Generalized Linear Models with High-Dimensional k-way
#'   Fixed Effects, arXiv:1707.01815.
#' @seealso [gpu_lm()], [gpu_vcov()].
#' @examples
#' infert <- as_gpu(infert, device = "cpu")
#' fit <- gpu_glm(case ~ spontaneous + induced, binomial(), infert)
#' summary(fit)
#' fitted(fit)
#' predict(fit, data.frame(spontaneous = 0:2, induced = 1), type = "response")
#' @export
gpu_glm <- function(formula, family = stats::gaussian, data, weights, subset, na.action, start = NULL, etastart,
  mustart, offset, control = list(...), model = TRUE, method = "glm.fit", x = FALSE, y = TRUE, singular.ok = TRUE,
  contrasts = NULL, ..., fe = NULL, fe.control = list(), device = NULL) {
  call <- match.call()
  here <- environment()
  absorbing <- fe_control(fe.control, here)
  effects <- fe_variables(fe, here)
  if (!is.null(effects) && !is.null(start))
    abort_argument("start", "NULL beside `fe`", start, advice = "`etastart` and `mustart` start from predictors or means.")
  if (is.character(family)) family <- get(family, mode = "function", envir = parent.frame())
  if (is.function(family)) family <- family()
  if (is.null(family$family)) {
    print(family)
    stop_as_base(gettext("'family' not recognized", domain = "R-stats"))
  }
  like <- split_in_call(call, formula, if (!missing(data)) data, parent.frame())
  if (!is.null(like)) {
    refuse_for_splits(fe, device, here)
    more <- c("weights", "offset", "subset", "etastart", "mustart")
    return(glm_of_split(like, call, formula, if (missing(data)) environment(formula) else data, parent.frame(),
      as.list(call)[intersect(more, names(call))], family, start, control, model, method, x, y, singular.ok, contrasts,
      if (!missing(na.action)) na.action, here))
  }
  if (!missing(formula) && has_readers(formula, if (!missing(data)) data)) {
    refuse_beside_readers(list(fe = fe, x = if (!isFALSE(x)) x, method = if (!identical(method, "glm.fit")) method), here)
    return(glm_of_reader(call, stats::as.formula(formula), if (!missing(data)) data, family, start,
      do.call(stats::glm.control, control), contrasts, singular.ok, device, parent.frame(), here))
  }
  wanted <- call
  wanted[names(effects)] <- effects
  coded_factors$all <- list()
  on.exit(coded_factors$all <- NULL)
  frame <- frame_of(wanted, formula, c("formula", "data", "subset", "weights", "na.action", "etastart", "mustart",
    "offset", names(effects)), parent.frame())
  if (identical(method, "model.frame")) return(frame)
  if (!identical(method, "glm.fit"))
    abort_argument("method", "\"glm.fit\" or \"model.frame\"", method, advice = "`stats::glm()` takes other methods.")
  control <- do.call(stats::glm.control, control)
  terms <- attr(frame, "terms")
  device <- device_for(frame, device)
  given <- outcome_of(frame, device)
  d <- if (stats::is.empty.model(terms) && is.null(effects)) structure(list(n = NROW(given), p = 0L, device = device), class =
    "gpu_design") else design_of(terms, frame, contrasts, device)
  w <- weights_of(frame, device)
  if (!is.null(w) && any(w < 0)) stop_as_base(gettext("negative weights not allowed", domain = "R-stats"))
  offsets <- offset_of(frame, device)
  if (!is.null(offsets) && length(offsets) != NROW(given)) stop_as_base(gettextf(
    "number of offsets is %d should equal %d (number of observations)", length(offsets), NROW(given),
    domain = "R-stats"))
  begin <- lapply(frame[intersect(c("(mustart)", "(etastart)"), names(frame))], function(v)
    strip(on_device_of(v, device)))
  intercept <- attr(terms, "intercept") > 0L
  z <- if (is.null(effects)) {
    glm_fit_on_device(d, given, weights = w, start = start, etastart = begin[["(etastart)"]],
      mustart = begin[["(mustart)"]], offset = offsets, family = family, control = control, intercept = intercept,
      singular.ok = singular.ok)
  } else {
    groups <- fe_groups(frame, sprintf("(%s)", names(effects)), w, device)
    glm_fit_within(d, given, w, groups, absorbing, here, etastart = begin[["(etastart)"]],
      mustart = begin[["(mustart)"]], offset = offsets, family = family, control = control, singular.ok = singular.ok)
  }
  if (length(offsets) && intercept && d$p > 0L) {
    null <- glm_fit_on_device(design_columns(d, "(Intercept)"), given, weights = w, mustart = z$fitted.values,
      offset = offsets, family = family, control = control, intercept = TRUE)
    if (!null$converged) warn_as_base(gettext(
      "fitting to calculate the null deviance did not converge -- increase 'maxit'?", domain = "R-stats"))
    z$null.deviance <- null$deviance
  }
  if (model) z$model <- frame
  z$na.action <- attr(frame, "na.action")
  if (x) z$x <- model_array(d)
  if (!y) z$y <- NULL
  structure(c(z, list(call = call, formula = formula, terms = terms, data = if (missing(data)) environment(formula) else
    data, offset = offsets, control = control, method = method, contrasts = d$contrasts,
    xlevels = levels_of(terms, frame))), class = c("gpu_glm", "glm", "lm"))
}

# The response as an array, or a factor, which the family's `initialize` turns into numbers.
outcome_of <- function(frame, device) {
  place <- attr(attr(frame, "terms"), "response")
  y <- if (place > 0L) frame[[place]]
  if (!is_gpu(y)) y <- stats::model.response(frame, "any")
  if (!(is.numeric(y) || is.logical(y))) return(y)
  if (length(dim(y)) == 1L) dim(y) <- NULL
  out <- on_device_of(y, device)
  if (length(dim(out)) == 2L) out else strip(out)
}

# ---- glm.fit() -------------------------------------------------------------------------------------------------

# Base R's glm.fit() of a design or a matrix. `absorbed_effects`: those of effects_in_glm(), or NULL.
glm_fit_on_device <- function(x, y, weights = NULL, start = NULL, etastart = NULL, mustart = NULL, offset = NULL,
  family = stats::gaussian(), control = list(), intercept = TRUE, singular.ok = TRUE, absorbed_effects = NULL) {
  if (inherits(x, "gpu_split_design")) return(glm_fit_of_split(x, y, weights, start, etastart, mustart, offset, family,
    control, intercept, singular.ok, environment()))
  d <- as_design(x)
  if (is.null(absorbed_effects)) {
    z <- glm_fit_by_passes(d, y, weights, start, etastart, mustart, offset, family, control, intercept)
    if (!is.null(z)) return(z)
  }
  family <- family_on_device(family)
  own <- family
  to_device <- function(v) if (is.null(v) || is_gpu(v)) v else strip(on_device_of(v, d$device))
  # ordinary vectors if the response is a factor, or if the user's `initialize` makes them
  own$given <- family$initialize
  own$initialize <- as.expression(bquote({
    eval(family$given)
    y <- .(to_device)(y)
    mustart <- .(to_device)(mustart)
  }))
  # other packages' functions are called as often as base R calls them
  are_known <- is_known(family$variance) && is_known(family$mu.eta)
  if (are_known) {
    own$variance <- memoise_last(family$variance)
    own$mu.eta <- memoise_last(family$mu.eta)
  }
  passes <- memoise_last(function(eta, frame) is_regular(own$variance(frame$mu), own$mu.eta(eta), frame$weights))
  is_checked <- function(frame) are_known && is_gpu(eta <- get0("eta", frame, inherits = FALSE)) && length(eta) > 0L &&
    passes(eta, frame)
  keeps_all <- memoise_last(function(good, frame) is_checked(frame) || isTRUE(all(good)))
  # whether an argument is glm.fit()'s `good`, and that all rows: then nothing is copied
  has_all_rows <- function(written, x, frame) identical(written, quote(good)) && is_gpu(x) && keeps_all(x, frame)
  fit <- stats::glm.fit
  environment(fit) <- list2env(list(
    "[" = function(x, i, ...) if (!missing(i) && has_all_rows(substitute(i), i, parent.frame())) x else
      base::`[`(x, i, ...),
    "[<-" = function(x, i, ..., value) if (missing(i)) base::`[<-`(x, , ..., value = value) else
      if (has_all_rows(substitute(i), i, parent.frame()) && length(value) == length(x)) value else
        base::`[<-`(x, i, ..., value = value),
    # what is_regular() has answered
    any = function(x, ...) if (is_step_check(substitute(x)) && is_checked(parent.frame())) FALSE else
      base::any(x, ...),
    anyNA = function(x, ...) if (identical(substitute(x), quote(varmu)) && is_checked(parent.frame())) FALSE else
      base::anyNA(x, ...),
    all = function(x, ...) if (identical(substitute(x), quote(!good)) && is_checked(parent.frame())) FALSE else
      base::all(x, ...),
    sum = function(x, ...) {
      frame <- parent.frame()
      if (has_all_rows(substitute(x), x, frame)) return(length(x))
      # the deviance: predictors and means are stored by the kernel that computes them
      if (is_gpu(frame$eta) && is_gpu(frame$mu)) gpu_compute(frame$eta, frame$mu)
      base::sum(x, ...)
    },
    .Call = function(.NAME, x, y, tol, ...) if (is.null(absorbed_effects)) weighted_step(x, y, tol) else
      absorbed_effects$step(x, y, tol, get("good", parent.frame())),
    rep.int = function(x, times) if (is.character(x)) x[0L] else gpu_full(as.double(x), times, device = d$device),
    as.vector = function(x, ...) if (is_gpu(x)) strip(x) else base::as.vector(x, ...),
    "%*%" = function(x, y) if (!inherits(x, "gpu_design")) matrix_product(x, y) else if (is.null(absorbed_effects))
      design_times(x, y) else absorbed_effects$times(y),
    "*" = function(e1, e2) if (inherits(e1, "gpu_design")) scaled_design(e1, e2) else base::`*`(e1, e2)
  ), parent = MODEL_MASKS)
  glm.fit <- fit
  z <- glm.fit(d, y, weights = weights, start = start, etastart = etastart, mustart = mustart, offset = offset,
    family = own, control = control, intercept = intercept, singular.ok = singular.ok)
  for (part in c("residuals", "fitted.values", "linear.predictors", "weights", "prior.weights", "y"))
    if (!is.null(z[[part]])) z[[part]] <- to_device(z[[part]])
  gpu_compute(z$residuals, z$fitted.values, z$linear.predictors, z$weights, z$prior.weights)
  for (part in c("deviance", "null.deviance", "aic")) z[[part]] <- z[[part]][1L]
  z$family <- family
  z
}

# f with a cache of its last first argument (the same object) and result.
memoise_last <- function(f) {
  last <- out <- NULL
  function(x, ...) {
    if (is.null(last) || !rlang::is_reference(x, last)) {
      out <<- f(x, ...)
      last <<- x
    }
    out
  }
}

# What glm.fit() asks of an iteration in six passes over the rows, asked in one: whether no observation has a missing or
# zero variance or derivative, or a weight that is not positive. If so the answers to its own questions are known, and
# all rows are good; otherwise it asks them, and raises its errors.
is_regular <- function(variance, slope, weights) isFALSE(any(is_irregular(variance, slope, weights)))
is_irregular <- function(variance, slope, weights)
  is.na(variance) | variance == 0 | is.na(slope) | slope == 0 | is.na(weights) | weights <= 0
is_step_check <- function(code) identical(code, quote(varmu == 0)) || identical(code, quote(is.na(mu.eta.val[good])))

# What glm.fit() expects of LINPACK: coefficients in pivot order, 0 for aliased columns.
weighted_step <- function(d, z, tol) {
  z <- strip(z)
  # in one kernel
  if (is_gpu(z) && is_gpu(d$scale)) gpu_compute(d$scale, z)
  found <- least_squares(d, z, tol)
  pivot <- found$qr$pivot
  coefficients <- unname(found$coefficients[pivot])
  coefficients[seq_along(coefficients) > found$rank] <- 0
  list(qr = found$qr$qr, coefficients = coefficients, effects = found$effects, rank = found$rank, pivot = pivot,
    qraux = found$qr$qraux, tol = tol, pivoted = !identical(pivot, seq_along(pivot)))
}

# ---- families --------------------------------------------------------------------------------------------------

# Whether a function is that of one of stats' families.
is_own <- function(f, original) identical(f, original, ignore.environment = TRUE, ignore.bytecode = TRUE,
  ignore.srcref = TRUE)

# Whether a family's function is one of R's, whose code is known.
is_known <- function(f) is.function(f) && is_own_of_r(f)

# A family whose functions take arrays as well as ordinary vectors.
family_on_device <- function(family) {
  parts <- intersect(c("linkfun", "linkinv", "variance", "dev.resids", "aic", "mu.eta", "validmu", "valideta"),
    names(family))
  # functions of one enclosure share the masks
  known <- list()
  masks <- function(home) {
    for (made in known) if (identical(parent.env(made), home)) return(made)
    made <- our_functions_for(home, .Call = family_call, rep.int = ones_beside)
    known <<- c(known, made)
    made
  }
  for (part in parts) {
    f <- without_our_functions(family[[part]])
    family[[part]] <- if (is_own(f, POISSON_DEVIANCE)) poisson_deviance_or(f) else
      with_our_functions(in_one_pass(f), original = f, within = masks(environment(f)))
  }
  family
}
POISSON_DEVIANCE <- stats::poisson()$dev.resids

is_all <- function(code) is.call(code) && identical(code[[1L]], quote(all)) && length(code) == 2L

# A function of R's that is `all(a) && all(b)`, as one reduction.
in_one_pass <- function(f) {
  code <- body(f)
  if (!is_known(f) || !is.call(code) || !identical(code[[1L]], quote(`&&`)) || !is_all(code[[2L]]) ||
    !is_all(code[[3L]])) return(f)
  out <- f
  body(out) <- call("all", call("&", code[[2L]][[2L]], code[[3L]][[2L]]))
  out
}

# Mask of rep.int(1, length(mu)) in a family's functions: an array if mu is one.
ones_beside <- function(x, times) {
  like <- get(names(formals(sys.function(-1L)))[1L], parent.frame())
  if (is_gpu(like)) gpu_full(as.double(x), times, device = gpu_device(like)) else base::rep.int(x, times)
}

# Replaces the compiled code of stats' binomial() and its logit link by expressions. Errors have the call of the
# family's function, as in base R.
family_call <- function(.NAME, ...) {
  args <- list(...)
  expression <- if (any(vapply(args, is_gpu, NA))) LOGIT[[.NAME$name]]
  # only the link's expression can raise an error
  if (!is.null(expression) && .NAME$name != "logit_link") return(expression(...))
  call <- sys.call(-1L)
  tryCatch(if (is.null(expression)) call_theirs(.NAME, ...) else expression(...), simpleError = function(e)
    stop(simpleError(conditionMessage(e), call)))
}

# An alias, as R CMD check looks for the routine of each .Call() in this package; these are stats' own.
call_theirs <- .Call

# The limits of stats' logit link: beyond a linear predictor of 30 in size a mean is 1 or 0 to rounding.
LOGIT_LIMIT <- 30
LOGIT <- list(
  logit_link = function(mu) {
    # let base R raise its error, which names the value
    if (any(mu <= 0 | mu >= 1)) stats::binomial()$linkfun(collect(mu))
    log(mu / (1 - mu))
  },
  logit_linkinv = function(eta) {
    odds <- ifelse(eta < -LOGIT_LIMIT, .Machine$double.eps, ifelse(eta > LOGIT_LIMIT, 1 / .Machine$double.eps,
      exp(eta)))
    odds / (1 + odds)
  },
  logit_mu_eta = function(eta) {
    one <- 1 + exp(eta)
    ifelse(abs(eta) > LOGIT_LIMIT, .Machine$double.eps, exp(eta) / (one * one))
  },
  binomial_dev_resids = function(y, mu, wt) {
    part <- function(y, mu) ifelse(y == 0, 0, y * log(y / mu))
    2 * wt * (part(y, mu) + part(1 - y, 1 - mu))
  }
)

# The deviance of stats' poisson() as one expression, where base R assigns to positions.
poisson_deviance_or <- function(original) {
  # without_our_functions() looks for this name
  .verdigris_original <- original
  function(y, mu, wt) if (is_gpu(y) || is_gpu(mu))
    2 * wt * ifelse(y > 0, y * log(ifelse(y > 0, y / mu, 1)) - (y - mu), mu) else original(y, mu, wt)
}

# ---- collect() -------------------------------------------------------------------------------------------------

# The triangle as glm.fit() returns it: square even if there are fewer rows.
with_triangle <- function(qr, names) {
  out <- diag(ncol(qr))
  rows <- seq_len(min(dim(qr)))
  out[rows, ] <- qr[rows, ]
  out[row(out) > col(out)] <- 0
  dimnames(out) <- list(names, names)
  out
}

#' @export
collect.gpu_glm <- function(x, ...) {
  if (...length()) rlang::check_dots_empty()
  refuse_ordinary_form(x)
  if (is_split_fit(x)) x <- gathered_fit(x)
  data <- x$data
  out <- collected_parts(x)
  frame <- out$model %||% collect(stats::model.frame(x))
  rows <- as.character(attr(frame, "row.names"))
  for (part in c("residuals", "fitted.values", "linear.predictors", "weights", "prior.weights", "y"))
    if (!is.null(out[[part]])) names(out[[part]]) <- rows
  out$data <- if (is.list(data)) collect(data) else data
  out$family[] <- lapply(x$family, without_our_functions)
  if (x$rank > 0L) {
    host <- stats::model.matrix(x$terms, frame, x$contrasts)
    good <- out$weights > 0
    w <- sqrt(out$weights[good])
    z <- (out$linear.predictors - (out$offset %||% 0) + out$residuals)[good]
    found <- stats::lm.fit(host[good, , drop = FALSE] * w, z * w, tol = x$qr$tol)
    # the effects of the last step, with signs that suit this triangle: its working responses are no longer known
    ok <- seq_len(x$rank)
    signs <- function(qr) sign(diag(qr[ok, ok, drop = FALSE]))
    found$effects[ok] <- x$effects * signs(found$qr$qr) * signs(x$qr$qr)
    names(found$effects) <- c(names(x$effects), rep.int("", length(found$effects) - x$rank))
    out$effects <- found$effects
    out$qr <- structure(found$qr[c("qr", "rank", "qraux", "pivot", "tol")], class = "qr")
    out$R <- with_triangle(found$qr$qr, colnames(host)[found$qr$pivot])
    if (!is.null(out[["x"]])) out$x <- host
  }
  out$call <- ordinary_call(x$call, "glm")
  structure(out, class = setdiff(class(x), "gpu_glm"))
}
