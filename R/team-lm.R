# Linear models of splits. Cross products are summed over the members' rows; if that is not accurate enough, the
# members' triangles are stacked in the order of ranks (TSQR). The session solves systems of the size of the columns.

# ---- what members compute ------------------------------------------------------------------------------

frame_response <- function(frame) response_of(frame, running_member()$device)
frame_outcome <- function(frame) outcome_of(frame, running_member()$device)
frame_weights <- function(frame) weights_of(frame, running_member()$device)
frame_offset <- function(frame) {
  out <- offset_of(frame, running_member()$device)
  check_offsets(out, frame[[1L]])
  out
}
frame_start <- function(frame, name) strip(on_device_of(frame[[name]], running_member()$device))

# The scaled rows `d` and the scaled right side `target` of a weighted least squares problem.
part_rows_of_lm <- function(d, columns, y, w, offset) {
  if (!is.null(columns)) d <- design_columns(d, columns)
  if (length(dim(y)) == 2L) stop_verdigris("split", "A linear model of splits cannot have a matrix of responses.",
    "Fit a model to each column.", call = NULL)
  target <- if (is.null(offset)) y else y - offset
  if (!is.null(w)) {
    d$scale <- sqrt(w)
    target <- target * d$scale
    gpu_compute(d$scale)
  }
  list(d = d, target = target)
}

# The sums of cross_sums() as one vector on the device. Nothing is waited for, so that all devices of a process are busy
# at once.
launch_products <- function(rows) flat_sums(cross_sums(rows$d, rows$target, factor_columns(rows$d)))
launch_second <- function(rows, inverse) flat_sums(second_sums(rows$d, rows$target, inverse))
flat_sums <- function(sums, before = NULL) {
  out <- join(c(before, lapply(sums, strip)))
  gpu_compute(out)
  out
}

# The triangle of the rows with the right side as last column, computed by blocks: a k x k matrix as a vector, with rows
# of zeros if there are too few rows. NaN if the matrix is not finite, Inf if the right side is not.
launch_triangle <- function(rows) {
  d <- rows$d
  k <- d$p + !is.null(rows$target)
  parts <- by_blocks(d, function(from, count) {
    x <- design_rows(d, from, count)
    v <- vector_rows(rows$target, from, count)
    if (count == 0) return(base::matrix(0, 0L, k))
    if (!all(is.finite(x))) return(NaN)
    if (!is.null(v) && !all(is.finite(v))) return(Inf)
    triangle_of(if (is.null(v)) x else cbind(x, v), d)
  })
  for (bad in c(NaN, Inf)) if (any(vapply(parts, identical, NA, bad))) return(rep(bad, k * k))
  r <- do.call(base::rbind, parts)
  if (length(parts) > 1L && nrow(r) > k) r <- host_triangle(r)
  out <- base::matrix(0, k, k)
  out[seq_len(nrow(r)), ] <- r
  as.vector(out)
}
triangle_of <- function(x, d) {
  x <- strip_names(x)
  if (nrow(x) <= ncol(x)) return(collect(x))
  if (d$device != "cpu" && !is_moderate(d))
    return(collect(unpivoted_qr(x, ncol(x))$r)[seq_len(ncol(x)), , drop = FALSE])
  host_triangle(host_copy(x, silent = TRUE))
}
# The triangle of an ordinary matrix. A tolerance of 0 keeps the columns in their places.
host_triangle <- function(x) {
  r <- base::qr.default(x, tol = 0)$qr[seq_len(min(dim(x))), , drop = FALSE]
  r[row(r) > col(r)] <- 0
  r
}

# The numbers of weights that are missing or negative, and of rows with other weights than zero.
stat_weights <- function(w) numbers_later(sum(widen_for_sum(is.na(w) | w < 0)),
  sum(widen_for_sum(w != 0), na.rm = TRUE))

part_times <- function(d, columns, b, offset = NULL) {
  if (!is.null(columns)) d <- design_columns(d, columns)
  out <- if (d$p > 0L) design_times(d, b) else gpu_zeros(d$n, device = d$device)
  if (is.null(offset)) out else out + offset
}

# Cross products of the rows, each row multiplied by its score.
launch_scores <- function(d, columns, score) {
  if (!is.null(columns)) d <- design_columns(d, columns)
  d$scale <- score
  flat_sums(gram_sums(d))
}

# Leverages. `to_q` is the inverse of the triangle, so that the rows times `to_q` are orthogonal columns.
part_leverages <- function(d, columns, to_q, w) {
  if (!is.null(columns)) d <- design_columns(d, columns)
  if (!is.null(w)) d$scale <- sqrt(w)
  to_q <- as_gpu(to_q, device = d$device)
  hat <- join(by_blocks(d, function(from, count)
    with_rows(d, from, count, function(x) list(rowSums((x %*% to_q)^2)))[[1L]]))
  select_by(hat > 1 - 10 * .Machine$double.eps, 1, hat)
}

# ---- least squares -------------------------------------------------------------------------------------

# least_squares() for splits. `h` is a gpu_split_design, and `rows` is the split of what part_rows_of_lm() returns, or
# of states of gpu_glm(). `sums()` gives the cross products as a vector, if they are known already.
split_least_squares <- function(h, rows, tol, here, sums = function() split_sum(rows, "launch_products", list(),
  here)) {
  d <- list(n = h$n, p = h$p, names = h$names, device = "cpu")
  out <- if (is_tall(h)) cholesky_qr(d, NULL, tol, products_of(h, sums()), function(inverse) {
    flat <- split_sum(rows, "launch_second", list(inverse), here)
    list(base::matrix(flat[seq_len(h$p^2)], h$p), base::matrix(flat[-seq_len(h$p^2)], h$p))
  })
  if (!is.null(out)) return(out)
  k <- h$p + 1L
  stacked <- reduced(record_split(rows, "launch_triangle", list(rows), kind = "object"), "identity_part",
    fold = "gather", call = here)
  for (bad in c(NaN, Inf)) if (any(stacked %in% bad)) stop_as_base(gettextf("NA/NaN/Inf in '%s'", if (is.nan(bad)) "x"
    else "y", domain = "R-stats"), here)
  stacked <- do.call(base::rbind, lapply(seq_len(ncol(stacked)), function(j) base::matrix(stacked[, j], k)))
  of_triangle(stacked[, seq_len(h$p), drop = FALSE], stacked[, k, drop = FALSE], d, tol)
}

is_tall <- function(h) h$n >= 4 * h$p && !is_small(h)

# Calls the function named `f`, which launches work, on all members, then adds its values, vectors of one length.
split_sum <- function(x, f, args, here) reduced(record_split(x, f, c(list(x), args), kind = "object"), "identity_part",
  call = here)

products_of <- function(h, flat) {
  lengths <- lengths_of_sums(h$p, 1, h$factors)
  ends <- cumsum(lengths)
  assembled(lapply(seq_along(lengths), function(k) flat[ends[k] - lengths[k] + seq_len(lengths[k])]), h$p, 1,
    h$factors)
}

# fit_linear() for a gpu_split_design and splits.
fit_linear_of_split <- function(h, y, w, offset, tol, singular.ok, here) {
  used <- h$n
  if (!is.null(w)) {
    found <- reduced(w, "stat_weights", call = here)
    if (found[1L] > 0)
      stop_as_base(gettext("missing or negative weights not allowed", domain = "R-stats"), here)
    used <- found[2L]
  }
  rows <- record_split(h$part, "part_rows_of_lm", list(h$part, h$columns, y, w, offset), kind = "object")
  found <- split_least_squares(h, rows, tol, here)
  if (!singular.ok && found$rank < h$p) stop_as_base(gettext("singular fit encountered", domain = "R-stats"), here)
  known <- replace(found$coefficients, is.na(found$coefficients), 0)
  fitted <- split_times(h, known, offset)
  found$qr$qr$rows <- used
  c(list(coefficients = found$coefficients, residuals = y - fitted, fitted.values = fitted, effects = found$effects),
    if (!is.null(w)) list(weights = w), list(rank = found$rank, assign = h$assign, qr = found$qr,
    df.residual = as_whole(used - found$rank)))
}

# A split of the unscaled rows times coefficients, plus an offset.
split_times <- function(h, b, offset = NULL) record_split(h$part, "part_times", list(h$part, h$columns, unname(b),
  offset), kind = "vector", margin = 1, across = NULL, names = NULL)

# ---- gpu_lm() ------------------------------------------------------------------------------------------

# Refuses arguments of gpu_lm() and gpu_glm() that splits do not support.
refuse_for_splits <- function(fe, device, here) {
  if (!is.null(fe)) abort_argument("fe", "NULL for splits", fe, here,
    advice = "Put the factors into the formula: products of their columns are computed as sums by level.")
  if (!is.null(device)) abort_argument("device", "NULL for splits, which stay on their members' devices", device, here)
}

# A split vector that members compute from their model frames.
of_frame <- function(made, f, ...) record_split(made$frame, f, list(made$frame, ...), kind = "vector", margin = 1,
  across = NULL, names = NULL)

# gpu_lm() of splits; `call` is its call, and `more` the expressions of weights, subset and offset.
lm_of_split <- function(like, call, formula, data, env, more, method, model, x, y, qr, singular.ok, contrasts, action,
  tol, here) {
  made <- split_frame(like, formula, data, env, more, action, contrasts, here)
  if (identical(method, "model.frame")) return(made$frame)
  if (!identical(method, "qr"))
    warn_as_base(gettextf("method = '%s' is not supported. Using 'qr'", method, domain = "R-stats"), here)
  if (attr(made$terms, "response") == 0L) stop_verdigris("argument", "`formula` must have a response.", call = here)
  given <- of_frame(made, "frame_response")
  w <- if (made$has[1L]) of_frame(made, "frame_weights")
  offset <- if (made$has[2L]) of_frame(made, "frame_offset")
  h <- split_design(made, contrasts, here)
  z <- if (stats::is.empty.model(made$terms)) no_model(given, w, offset) else
    fit_linear_of_split(h, given, w, offset, tol, singular.ok, here)
  class(z) <- c("gpu_lm", "lm")
  z$na.action <- made$na.action
  z$offset <- offset
  z$contrasts <- h$contrasts
  z$xlevels <- made$xlevels
  z$call <- call
  z$terms <- made$terms
  if (model) z$model <- made$frame
  if (x) z$x <- split_model_matrix(h)
  if (y) z$y <- given
  if (!qr) z$qr <- NULL
  z$design <- h
  z
}

is_split_fit <- function(fit) is_split(fit$residuals)

# The first split among the variables that the call of a model names.
split_in_call <- function(call, formula, data, env) {
  expressions <- c(list(formula), as.list(call)[intersect(c("weights", "offset", "subset", "etastart", "mustart"),
    names(call))])
  home <- if (inherits(formula, "formula")) environment(formula)
  split_among(data, Filter(is.language, expressions), home %||% env)
}

split_model_matrix <- function(h) record_split(h$part, "part_model_matrix", list(h$part, h$columns), kind = "matrix",
  margin = 1, across = h$p, names = h$names)
part_model_matrix <- function(d, columns) {
  if (!is.null(columns)) d <- design_columns(d, columns)
  with_dimnames(design_rows(d, 0, d$n, FALSE), list(NULL, d$names))
}

# Raises an error if the fit is one of splits, for which `what` has no method.
refuse_split_fit <- function(fit, what, advice = character()) {
  if (is_split_fit(fit)) stop_verdigris("split", sprintf("%s has no method for fits to splits.", what), c(advice,
    "`collect(fit)` makes an ordinary fit, and copies all rows to this session."), call = NULL)
}

# ---- predictions ---------------------------------------------------------------------------------------

# A fit without its vectors that are as long as the rows, for predictions on the members.
light_fit <- function(fit) {
  out <- unclass(fit)[intersect(c("coefficients", "rank", "qr", "df.residual", "terms", "xlevels", "contrasts", "call",
    "assign"), names(fit))]
  # predictions ask for the number of rows and the device
  out$residuals <- numeric()
  structure(out, class = c("gpu_lm", "lm"))
}

# The same, with the variables of the formula as members evaluate them for `newdata`, and the `sources` that they need.
light_fit_for <- function(fit, newdata, here) {
  out <- light_fit(fit)
  context <- split_context(newdata, newdata, environment(out$terms), here)
  predvars <- attr(out$terms, "predvars")
  for (k in setdiff(seq_along(predvars)[-1L], attr(out$terms, "response") + 1L))
    predvars[k] <- list(read_expression(predvars[[k]], context)$expr)
  attr(out$terms, "predvars") <- predvars
  environment(out$terms) <- baseenv()
  list(fit = out, sources = context$sources)
}

# In a member: predictions for its rows. `part` names an element of predict()'s list; NULL returns the whole value.
part_predict <- function(fit, data, args, part, ...) {
  data <- c(if (!is.null(data)) as.list(data), list(...))
  fit$residuals <- gpu_zeros(0, device = running_member()$device)
  environment(fit$terms) <- row_functions()
  out <- do.call(stats::predict, c(list(fit, newdata = as_frame(data)), args))
  if (is.null(part)) out else out[[part]]
}
as_frame <- function(data) structure(data, class = "data.frame", row.names = .set_row_names(NROW(data[[1L]])))

# predict() of a split fit, or with a split as `newdata`.
predict_of_split <- function(fit, newdata, se.fit, scale, df, interval, level, type, rest, here) {
  if (!identical(type, "response")) refuse_split("predict", here, "Only `type = \"response\"` is supported.")
  if (length(rest)) abort_argument("...", "empty for splits", rest, here)
  intervals <- !identical(interval, "none")
  if (is.null(newdata)) {
    if (!se.fit && !intervals) return(fit$fitted.values)
    if (interval[1L] == "prediction")
      warning("predictions on current data refer to _future_ responses\n", call. = FALSE)
    to_q <- leading_inverse(fit)
    value <- fit$fitted.values
    hat <- record_split(fit$design$part, "part_leverages", list(fit$design$part, fit$design$columns, to_q, NULL),
      kind = "vector", margin = 1, across = NULL, names = NULL)
    if (is.null(scale)) {
      scale <- sqrt(stats::deviance(fit) / fit$df.residual)
      df <- fit$df.residual
    }
    spread <- sqrt(hat) * scale
    if (intervals) {
      w <- if (interval == "prediction") fit$weights %||% 1 else 1
      reach <- stats::qt((1 + level) / 2, df) * if (interval == "prediction") sqrt(hat * scale^2 + scale^2 / w) else
        spread
      value <- record_split(value, "part_intervals", list(value, reach), kind = "matrix", across = 3L, names = c("fit",
        "lwr", "upr"))
    }
    return(if (se.fit) list(fit = value, se.fit = spread, df = df, residual.scale = scale) else value)
  }
  # `newdata` is a split; the fit may be of arrays or of splits
  if (is.null(scale) && (se.fit || intervals)) {
    scale <- sqrt(stats::deviance(fit) / fit$df.residual)
    df <- fit$df.residual
  }
  args <- list(se.fit = se.fit, interval = interval, level = level)
  if (!is.null(scale)) args <- c(args, list(scale = scale, df = df))
  light <- light_fit_for(fit, newdata, here)
  one <- function(part, kind = "vector") record_split(newdata, "part_predict", c(list(light$fit, newdata, args, part),
    light$sources), kind = kind, margin = 1, across = if (kind == "matrix") 3L,
    names = if (kind == "matrix") c("fit", "lwr", "upr"))
  kind <- if (intervals) "matrix" else "vector"
  if (!se.fit) return(one(NULL, kind))
  list(fit = one("fit", kind), se.fit = one("se.fit"), df = df, residual.scale = scale)
}
part_intervals <- function(value, reach) {
  out <- cbind(value, value - reach, value + reach)
  dimnames(out) <- list(NULL, c("fit", "lwr", "upr"))
  out
}

#' @importFrom stats simulate
#' @export
simulate.gpu_lm <- function(object, nsim = 1, seed = NULL, ...) {
  refuse_split_fit(object, "simulate()")
  NextMethod()
}
#' @export
simulate.gpu_glm <- simulate.gpu_lm

# ---- influence -----------------------------------------------------------------------------------------

# Leverages, and standard deviations with each row left out, as influence_on_device() returns them.
influence_of_split <- function(fit, do.coef) {
  if (do.coef) refuse_split_fit(fit, "influence(do.coef = TRUE)")
  e <- stats::weighted.residuals(fit, drop0 = FALSE)
  w <- fit$weights
  h <- fit$design
  hat <- if (is.null(h)) e * 0 else record_split(h$part, "part_leverages", list(h$part, h$columns, leading_inverse(fit),
    w), kind = "vector", margin = 1, across = NULL, names = NULL)
  if (!is.null(w) && any(w == 0)) refuse_split_fit(fit, "influence() with weights of zero")
  left <- sum(e * e) - split_aware("ifelse")(hat < 1, e * e / (1 - hat), 0)
  list(hat = hat, sigma = sqrt(split_aware("pmax")(left, 0) / (nrow_of(fit) - fit$rank - 1)), wt.res = e)
}
rstandard_of_split <- function(fit, type = "deviance") {
  if (!inherits(fit, "gpu_glm")) return(stats::weighted.residuals(fit, drop0 = FALSE) / (sqrt(stats::deviance(fit) /
    fit$df.residual) * sqrt(1 - influence_of_split(fit, FALSE)$hat)))
  stats::residuals(fit, type) / sqrt(summary(fit)$dispersion * (1 - influence_of_split(fit, FALSE)$hat))
}
cooks_distance_of_split <- function(fit) {
  hat <- influence_of_split(fit, FALSE)$hat
  glm <- inherits(fit, "gpu_glm")
  e <- if (glm) stats::residuals(fit, "pearson") else stats::weighted.residuals(fit, drop0 = FALSE)
  spread <- if (glm) summary(fit)$dispersion else stats::deviance(fit) / fit$df.residual
  (e / (1 - hat))^2 * hat / (spread * fit$rank)
}
nrow_of <- function(fit) fit$df.residual + fit$rank

# A version of a function of this package that is recorded if an argument is a split.
split_aware <- function(name) {
  force(name)
  ours <- get(name, envir = topenv())
  function(...) {
    args <- list(...)
    splits <- base::which(vapply(args, is_split, NA))
    if (!length(splits)) return(ours(...))
    x <- args[[splits[1L]]]
    # each member is sent the elements of an ordinary vector for its rows
    long <- base::which(vapply(args, function(arg) !is_split(arg) && length(arg) > 1L, NA))
    args[long] <- lapply(args[long], operand_for, x = x, call = parent.frame())
    record_split(x, if (name == "ifelse") "part_ifelse" else name, args)
  }
}

loglik_of_split <- function(fit, REML) {
  if (!isFALSE(REML)) refuse_split_fit(fit, "logLik(REML = TRUE)")
  n <- nrow_of(fit)
  w <- fit$weights
  value <- 0.5 * ((if (is.null(w)) 0 else sum(log(w[w > 0]))) - n * (log(2 * pi) + 1 - log(n) +
    log(stats::deviance(fit))))
  structure(value, nall = n, nobs = n, df = fit$rank + 1, class = "logLik")
}

# predict() of a generalised linear model of splits, or with a split as `newdata`.
predict_glm_of_split <- function(fit, newdata, type, se.fit, dispersion, rest, here) {
  if (type == "terms") refuse_split("predict", here, "Only types \"link\" and \"response\" are supported.")
  scale <- if (se.fit) sqrt(dispersion %||% summary(fit)$dispersion)
  plain <- fit
  plain$fitted.values <- fit$linear.predictors
  plain$weights <- NULL
  out <- predict_of_split(plain, newdata, FALSE, NULL, Inf, "none", 0.95, "response", rest, here)
  if (!se.fit) return(if (type == "link") out else fit$family$linkinv(out))
  spread <- if (is.null(newdata)) sqrt(record_split(fit$design$part, "part_leverages", list(fit$design$part,
    fit$design$columns, leading_inverse(fit), NULL), kind = "vector", margin = 1, across = NULL, names = NULL)) * scale
  else predict_of_split(plain, newdata, TRUE, scale, Inf, "none", 0.95, "response", rest, here)$se.fit
  if (type == "response") {
    spread <- spread * abs(fit$family$mu.eta(out))
    out <- fit$family$linkinv(out)
  }
  list(fit = out, se.fit = spread, residual.scale = scale)
}

# The fit with ordinary vectors instead of splits, for collect().
gathered_fit <- function(fit) {
  class <- class(fit)
  out <- unclass(fit)
  if (!is.null(out$model)) out$model <- collected_frame(fit)
  out$design <- NULL
  if (is_split(out$data)) out$data <- collect(out$data)
  out <- lapply(out, function(part) if (is_split(part)) collect(part) else part)
  structure(out, class = class)
}

# The frames of all members as one, with base R's attributes.
collected_frame <- function(fit) {
  frame <- fit$model
  if (is.null(frame)) stop_verdigris("argument", "The fit has no model frame.", "Fit it with `model = TRUE`.",
    call = NULL)
  parts <- parts_here(frame, environment())
  out <- do.call(rbind, lapply(parts, function(part) {
    attr(part, "terms") <- NULL
    part
  }))
  n <- nrow(out)
  rows <- if (is.null(fit$na.action)) seq_len(n) else setdiff(seq_len(n + length(fit$na.action)), fit$na.action)
  structure(out, terms = fit$terms, row.names = rows, na.action = fit$na.action)
}
