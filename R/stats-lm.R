# Linear models.

#' Linear models on arrays
#'
#' `gpu_lm()` is [stats::lm()] for data on a device: the same formulas, arguments, coefficients, standard errors,
#' warnings and errors, and base R's generics work on the fit. [lm()][stats::lm] itself remains base R's: it reads
#' arrays on the host.
#'
#' @section Data:
#' `data` is a data frame, a list or an environment; variables that are not in `data` are taken from the formula's
#' environment. A variable may be an array (also as a column of a data frame), an ordinary vector, or a factor. Ordinary
#' numbers, and the codes of factors, are uploaded. Base R's [model.frame()] evaluates the formula where the variables
#' are stored: `log(x)`, `I(x^2)` or `x > 0` is computed on the device for an array, and on the host for an ordinary
#' vector. `poly(x, 2)` or `splines::ns(x, 3)` of an array reads it on the host. Missing values, `subset`, contrasts,
#' names of columns and unused levels are base R's.
#'
#' @section Model matrix and memory:
#' Columns are computed in float64 from the variables, and for factors from codes and contrasts. They are computed for a
#' block of rows at a time, whenever they are needed: neither the matrix nor dummy variables are stored. Cross products
#' of a factor with 8 columns or more are sums over its levels. For 256 levels or more a GPU sorts the codes once for
#' all steps of a fit, and stores the order during the fit, in 4 bytes for each row. The whole matrix is computed only
#' for `model.matrix()`, a Householder QR, and fixed effects. The fit contains the model frame (unless `model = FALSE`),
#' whose arrays are shared with `data`, and the triangle of the decomposition. See `docs/models.md` in the sources.
#'
#' @section Least squares:
#' Tall matrices are solved by the Cholesky factor of their cross products, in float64, if the matrix with columns
#' scaled to the same length is well conditioned (reciprocal condition number 1e-3 or more). Otherwise CholeskyQR2 is
#' used: a second pass computes the cross products of the orthogonal factor of the first pass. Householder reflections
#' are used in three cases: for small matrices; if the diagonal of the triangle shows that a column is nearly a
#' combination of others (less than 1e-6 of it is left); and if the second cross products are not close to an identity.
#' cuSOLVER computes them on a GPU; R's LINPACK computes them on the cpu, and for up to 65536 elements. LINPACK's rule
#' (`tol`, 1e-7) then decides from the triangle which columns are aliased, as in base R: their coefficients are `NA`.
#'
#' @section Fixed effects:
#' `fe = ~ id + year` returns the same coefficients as factors `id` and `year` in the formula, and stores no columns for
#' them: group means are subtracted from the response and from all columns. With several factors the means are
#' subtracted in turn until the remaining changes sum up to less than `fe.control$tol` (1e-8) standard deviations of
#' each column, or for `fe.control$maxit` (10000) rounds, with a warning. Columns of which at most 1e-7 is left are
#' aliased. The residual degrees of freedom count the effects: the number of levels, less one for each part into which
#' observations connect the first two factors, less one for each further factor. Package lfe counts in the same way;
#' fixest assumes one part. The intercept is one of the effects. `predict()` with `newdata`, `influence()` and the
#' functions that use it, and `collect()` are not available, since the effects are not kept.
#' @section Splits:
#' `data` may be a split of a data frame ([gpu_split()]), and variables may be splits of vectors and of matrices: each
#' member of the team computes the model's columns of its own rows, and cross products are added over the members.
#' Results with an element for each observation are splits; other results are as for arrays. If the cross products are
#' not well conditioned, the members' triangles are stacked in the order of their ranks, and LINPACK's rule is applied
#' to the triangle of the stacked matrix.
#'
#' The formula's functions must compute each row from that row alone: arithmetic, comparisons, `ifelse()`, `log()` and
#' similar functions, `%in%`, `cut()` at given breaks. `factor()`, `poly()`, `scale()`, `splines::ns()` and
#' `splines::bs()` determine their levels, coefficients and knots from all rows; factors have the levels of all members.
#' Other functions, also user-defined functions, are refused: compute their columns before. Ordinary variables with the
#' same number of rows are split; constants must have one element. `fe`, `device`, matrices of responses and
#' `na.exclude` are refused. Of the generics listed below, `summary()`, `anova()`, `predict()` (`newdata` may be a
#' split), `residuals()`, `fitted()`, `vcov()`, `confint()` of linear models, `logLik()`, `AIC()`, `BIC()`, `nobs()`,
#' `deviance()`, `hatvalues()`, `rstandard()`, `cooks.distance()`, `model.matrix()`, `update()` and [collect()] have
#' methods.
#' @section Readers:
#' `data` may be a [gpu_reader()] of a matrix, whose columns are the variables (`V1`, `V2`, ... if they have no names),
#' or of data frames; and variables may be readers of a vector or a matrix. The rows are read block by block, in one
#' pass for the cross products. If the matrix with the response, with columns scaled to the same length, is not well
#' conditioned, a second pass computes QR decompositions of the current triangle and the next block. An earlier pass
#' finds the levels of factors. Missing values, weights, offsets, `subset` and contrasts are base R's. Each row of a
#' variable must depend only on the same row of the data: `poly(x, 2)`, `scale(x)` or `x - mean(x)` are errors.
#' `na.action` in the fit lists the rows that were left out. The fit, of class `c("gpu_lm_reader", "lm")`, has no
#' residuals, no model frame and only one response; `summary()`, `anova()`, `vcov()`, `confint()`, `predict()` with
#' `newdata`, `logLik()`, `AIC()`, `BIC()`, `nobs()`, `deviance()` and `update()` work.
#' @param formula,data,subset,weights,na.action,method,model,x,y,qr,singular.ok,contrasts,offset,... As in
#'   [stats::lm()]; `tol` in `...` is the tolerance of LINPACK.
#' @param fe A one-sided formula of factors whose effects are absorbed, or `NULL`.
#' @param fe.control A list of `tol` and `maxit`.
#' @param device Where the model is computed; by default on the device of the first array among the variables, or on the
#'   current device.
#' @returns An object of class `c("gpu_lm", "lm")`, with `"mlm"` first for a matrix of responses. It has the components
#'   of a base R fit, with these differences: `residuals`, `fitted.values` and `weights` are arrays, without names;
#'   `effects` has only as many elements as the rank; `qr$qr` has only the triangle. [collect()] returns an ordinary
#'   fit, whose decomposition base R computes on the host. The call waits for the device.
#'
#'   `summary()`, `anova()`, `predict()`, `residuals()`, `fitted()`, `vcov()`, `confint()`, `influence()`,
#'   `hatvalues()`, `cooks.distance()`, `rstandard()`, `rstudent()`, `dfbeta()`, `dfbetas()`, `update()`, `step()`,
#'   `add1()`, `drop1()`, `model.matrix()`, `logLik()`, `AIC()`, `BIC()`, `nobs()`, `deviance()`, `simulate()` and
#'   `plot()` are base R's methods on arrays; results with an element for each row are arrays. `predict()` of terms
#'   returns ordinary matrices, and `plot()` reads the fit on the host. Functions that are not generic, such as
#'   [stats::lm.influence()], need `collect(fit)`, or `influence(fit)` as an argument. For a matrix of responses
#'   coefficients, residuals, fitted values, `predict()`, `summary()`, `vcov()` (from residuals on the host),
#'   `deviance()` and [collect()] are supported.
#' @section Errors:
#' Base R's errors and messages; `verdigris_error_argument` for invalid `fe` and `fe.control`, complex responses, and
#' for functions that need rows of the decomposition, which are not stored; `verdigris_error_device`;
#' `verdigris_error_memory`: use fewer columns, or `fe` in place of factors of many levels.
#' @references Y. Yamamoto, Y. Nakatsukasa, Y. Yanagisawa, T. Fukaya (2015): Roundoff error analysis of the CholeskyQR2
#'   algorithm. ETNA 44, 306-326. S. Gaure (2013): OLS with multiple high dimensional category variables. Computational
#'   Statistics and Data Analysis 66, 8-18.
#' @seealso [gpu_glm()], [gpu_vcov()] for robust standard errors.
#' @examples
#' cars <- as_gpu(mtcars, device = "cpu")
#' fit <- gpu_lm(mpg ~ log(hp) + factor(cyl), cars)
#' fit
#' summary(fit)$r.squared
#' residuals(fit)
#' class(collect(fit))
#'
#' gpu_lm(weight ~ Time, ChickWeight, fe = ~ Chick, device = "cpu")
#' @export
gpu_lm <- function(formula, data, subset, weights, na.action, method = "qr", model = TRUE, x = FALSE, y = FALSE,
  qr = TRUE, singular.ok = TRUE, contrasts = NULL, offset, ..., fe = NULL, fe.control = list(), device = NULL) {
  call <- match.call()
  here <- environment()
  control <- fe_control(fe.control, here)
  effects <- fe_variables(fe, here)
  like <- split_in_call(call, if (!missing(formula)) formula, if (!missing(data)) data, parent.frame())
  if (!is.null(like)) {
    refuse_for_splits(fe, device, here)
    return(lm_of_split(like, call, formula, if (!missing(data)) data, parent.frame(), as.list(call)[intersect(
      c("weights", "offset", "subset"), names(call))], method, model, x, y, qr, singular.ok, contrasts,
      if (!missing(na.action)) na.action, tolerance_of(NULL, ...), here))
  }
  if (!missing(formula) && has_readers(formula, if (!missing(data)) data)) {
    refuse_beside_readers(list(fe = fe, x = if (!isFALSE(x)) x, y = if (!isFALSE(y)) y, method = if (!identical(method,
      "qr")) method), here)
    return(lm_of_reader(call, stats::as.formula(formula), if (!missing(data)) data, contrasts, singular.ok,
      tolerance_of(NULL, ...), device, parent.frame(), here))
  }
  wanted <- call
  wanted[names(effects)] <- effects
  coded_factors$all <- list()
  on.exit(coded_factors$all <- NULL)
  frame <- frame_of(wanted, if (!missing(formula)) formula, c("formula", "data", "subset", "weights", "na.action",
    "offset", names(effects)), parent.frame())
  if (identical(method, "model.frame")) return(frame)
  if (!identical(method, "qr"))
    warn_as_base(gettextf("method = '%s' is not supported. Using 'qr'", method, domain = "R-stats"))
  terms <- attr(frame, "terms")
  device <- device_for(frame, device)
  given <- response_of(frame, device)
  w <- weights_of(frame, device)
  many <- length(dim(given)) == 2L
  n <- NROW(given)
  offsets <- offset_of(frame, device)
  check_offsets(offsets, given)
  if (!is.null(effects) && (many || is.null(given)))
    abort_argument("fe", "NULL for a matrix of responses or none", fe)
  if (stats::is.empty.model(terms) && is.null(effects)) {
    d <- NULL
    z <- no_model(given, w, offsets)
  } else {
    d <- design_of(terms, frame, contrasts, device)
    tol <- tolerance_of(w, ...)
    if (n == 0L) stop_as_base(gettext("0 (non-NA) cases", domain = "R-stats"))
    z <- if (is.null(effects)) {
      fit_linear(d, given, w, offsets, tol, singular.ok)
    } else {
      groups <- fe_groups(frame, sprintf("(%s)", names(effects)), w, device)
      fit_within(d, if (is.null(offsets)) given else given - offsets, w, groups, tol, singular.ok, control, here)
    }
    if (!is.null(effects) && !is.null(offsets)) z$fitted.values <- z$fitted.values + offsets
  }
  class(z) <- c(if (many) "mlm", "gpu_lm", "lm")
  z$na.action <- attr(frame, "na.action")
  z$offset <- offsets
  z$contrasts <- d$contrasts
  z$xlevels <- levels_of(terms, frame)
  z$call <- call
  z$terms <- terms
  if (model) z$model <- frame
  if (x) z$x <- if (is.null(d)) NULL else model_array(d)
  if (y) z$y <- given
  if (!qr) z$qr <- NULL
  z
}

# Refuses arguments that fits to readers do not support.
refuse_beside_readers <- function(given, frame) {
  for (name in names(given)) if (!is.null(given[[name]])) stop_verdigris("argument", sprintf(
    "`%s` cannot be given where data are readers.", name), "Leave it out, or fit to arrays.", call = frame)
}

# LINPACK's tolerance, if it is among the arguments that lm() passes on. Base R warns of arguments it does not know.
tolerance_of <- function(w, ...) {
  x <- base::matrix(1)
  y <- 1
  offset <- NULL
  singular.ok <- TRUE
  # base R's warnings show these names
  lm.fit <- stats::lm.fit
  lm.wfit <- stats::lm.wfit
  if (is.null(w)) return(lm.fit(x, y, offset = offset, singular.ok = singular.ok, ...)$qr$tol)
  w <- 1
  lm.wfit(x, y, w, offset = offset, singular.ok = singular.ok, ...)$qr$tol
}

# As stats' .getXlevels(), which deparses all variables even if none is a factor or character.
levels_of <- function(terms, frame) {
  coded <- function(v) is.factor(v) || is.character(v)
  if (any(vapply(frame, coded, NA))) return(stats::.getXlevels(terms, frame))
  if (length(attr(terms, "variables")) > 1L + (attr(terms, "response") > 0L)) structure(list(), names = character())
}

# ---- parts of a frame ------------------------------------------------------------------------------------------

# The response in float64. Base R raises the error if it is not a response.
response_of <- function(frame, device) {
  y <- frame[[max(1L, attr(attr(frame, "terms"), "response"))]]
  if (attr(attr(frame, "terms"), "response") == 0L) return(NULL)
  if (!is_gpu(y)) y <- stats::model.response(frame, "numeric")
  if (is.complex(y)) abort_argument("formula", "of a real response", y, parent.frame())
  out <- on_device_of(y, device)
  if (length(dim(y)) != 2L) return(strip(out))
  with_dimnames(out, list(NULL, colnames(y)))
}

weights_of <- function(frame, device) {
  w <- frame[["(weights)"]]
  if (is.null(w)) return(NULL)
  if (!is.numeric(w)) stop_as_base(gettext("'weights' must be a numeric vector", domain = "R-stats"), parent.frame())
  strip(on_device_of(w, device))
}

# The sum of all offsets: of the formula, and the argument's.
offset_of <- function(frame, device) {
  places <- c(attr(attr(frame, "terms"), "offset"), base::which(names(frame) == "(offset)"))
  if (!length(places)) return(NULL)
  if (!any(vapply(frame, is_gpu, NA))) {
    # base R raises the error for offsets that are no numbers
    out <- stats::model.offset(frame)
    return(if (!is.null(out)) on_device_of(out, device))
  }
  stats::model.offset(one_row(frame, 1L))
  Reduce(`+`, lapply(frame[places], function(v) {
    v <- on_device_of(v, device)
    if (length(dim(v)) == 2L && ncol(v) > 1L) v else strip(v)
  }))
}

# As in base R, an offset of several columns needs a response of several columns.
check_offsets <- function(offset, y, call = parent.frame()) {
  given <- if (length(dim(y)) == 2L) NROW(offset) else length(offset)
  if (!is.null(offset) && given != NROW(y)) stop_as_base(gettextf(
    "number of offsets is %d, should equal %d (number of observations)", given, NROW(y), domain = "R-stats"), call)
}

# ---- fits ------------------------------------------------------------------------------------------------------

# A model without terms, for which base R's lm() makes the result itself.
no_model <- function(y, w, offset) {
  fitted <- if (is.null(offset)) y * 0 else offset
  list(coefficients = if (length(dim(y)) == 2L) base::matrix(NA_real_, 0L, ncol(y)) else numeric(),
    residuals = if (is.null(offset)) y else y - offset, fitted.values = fitted, weights = w, rank = 0L,
    df.residual = if (is.null(w)) NROW(y) else sum(w != 0))
}

# Base R's lm.fit() and lm.wfit() for a design.
fit_linear <- function(d, y, w, offset, tol = 1e-07, singular.ok = TRUE) {
  # as base R, which ignores the offset here
  if (d$p == 0L) return(no_model(y, w, NULL))
  target <- if (is.null(offset)) y else y - offset
  if (!is.null(w)) {
    if (anyNA(w) || any(w < 0))
      stop_as_base(gettext("missing or negative weights not allowed", domain = "R-stats"), parent.frame())
    d$scale <- sqrt(w)
    gpu_compute(d$scale)
    target <- target * d$scale
  }
  used <- if (is.null(w)) d$n else sum(w != 0)
  # Base R drops rows of weight 0. Here they add zeros to the sums, unless an element of such a row is not finite.
  found <- if (used == d$n) least_squares(d, target, tol) else tryCatch(least_squares(d, target, tol),
    error = function(e) NULL)
  if (is.null(found)) {
    rows <- which(w != 0)
    kept <- if (length(dim(target)) == 2L) target[rows, , drop = FALSE] else target[rows]
    found <- replace(least_squares(design_at(d, rows), kept, tol), "residuals", list(NULL))
  }
  if (!singular.ok && found$rank < d$p)
    stop_as_base(gettext("singular fit encountered", domain = "R-stats"), parent.frame())
  coefficients <- found$coefficients
  effects <- found$effects
  if (length(dim(y)) == 2L) {
    coefficients <- base::matrix(coefficients, d$p, dimnames = list(d$names, colnames(y)))
    effects <- base::matrix(effects, found$rank, dimnames = list(d$names[found$qr$pivot[seq_len(found$rank)]],
      colnames(y)))
  }
  known <- replace(coefficients, is.na(coefficients), 0)
  residuals <- found$residuals
  if (is.null(residuals) || !is.null(w)) {
    fitted <- design_times(d, known)
    if (!is.null(offset)) fitted <- fitted + offset
    residuals <- if (is.null(residuals)) y - fitted else unscaled(residuals, d$scale, y - fitted)
  }
  fitted <- y - residuals
  if (length(dim(y)) == 2L) dimnames(residuals) <- dimnames(fitted) <- list(NULL, colnames(y))
  gpu_compute(residuals, fitted)
  if (!is.null(w)) found$qr$qr$rows <- used
  c(list(coefficients = coefficients, residuals = residuals), if (!is.null(w)) list(fitted.values = fitted),
    list(effects = effects), if (!is.null(w)) list(weights = w), list(rank = found$rank),
    if (is.null(w)) list(fitted.values = fitted), list(assign = d$assign, qr = found$qr,
    df.residual = as_whole(used - found$rank)))
}

# Unscales residuals. Rows without weight, which the fit ignores, get those of `others`.
unscaled <- function(residuals, scale, others) {
  scale <- repeated(scale, times = NCOL(others))
  out <- ifelse(scale == 0, strip(others), strip(residuals) / scale)
  if (length(dim(others)) == 2L) dim(out) <- dim(others)
  out
}

# n as an integer if R can hold it.
as_whole <- function(n) if (n < 2^31) as.integer(n) else n

# lm.fit() and lm.wfit() for base R's methods that refit models.
lm_fit_on_device <- function(x, y, offset = NULL, method = "qr", tol = 1e-07, singular.ok = TRUE, ...)
  fit_linear(as_design(x), y, NULL, offset, tol, singular.ok)
lm_wfit_on_device <- function(x, y, w, offset = NULL, method = "qr", tol = 1e-07, singular.ok = TRUE, ...)
  fit_linear(as_design(x), y, w, offset, tol, singular.ok)

#' @export
collect.gpu_lm <- function(x, ...) {
  if (...length()) rlang::check_dots_empty()
  refuse_ordinary_form(x)
  if (is_split_fit(x)) x <- gathered_fit(x)
  out <- collected_parts(x)
  frame <- out$model %||% collect(stats::model.frame(x))
  rows <- attr(frame, "row.names")
  named <- function(v) {
    if (is.null(v)) return(NULL)
    if (length(dim(v)) == 2L) rownames(v) <- rows else names(v) <- rows
    v
  }
  for (part in c("residuals", "fitted.values")) out[[part]] <- named(out[[part]])
  if (x$rank > 0L) {
    host <- stats::model.matrix(x$terms, frame, x$contrasts)
    y <- out$residuals + out$fitted.values
    tol <- x$qr$tol %||% 1e-07
    z <- if (is.null(x$weights)) stats::lm.fit(host, y, offset = out$offset, tol = tol) else
      stats::lm.wfit(host, y, out$weights, offset = out$offset, tol = tol)
    out[c("effects", "qr")] <- z[c("effects", "qr")]
    if (is.null(x$qr)) out$qr <- NULL
    if (!is.null(out[["x"]])) out$x <- host
  }
  if (!is.null(out$y)) out$y <- named(out$y)
  out$call <- ordinary_call(x$call, "lm")
  structure(out, class = setdiff(class(x), "gpu_lm"))
}

refuse_ordinary_form <- function(fit) {
  if (!is.null(fit$fe)) stop_verdigris("argument", "A fit with absorbed effects has no ordinary form.",
    "Use `collect()` of its parts, such as `collect(residuals(fit))`, or put the factors into the formula.",
    call = NULL)
}

collected_parts <- function(fit) {
  lapply(unclass(fit), function(part) if (is_gpu(part) || is.data.frame(part)) collect(part) else part)
}

# The call of base R's function that corresponds to a fit's call.
ordinary_call <- function(call, name) {
  call[[1L]] <- as.name(name)
  call[c("fe", "fe.control", "device")] <- NULL
  call
}
