# Linear models of readers: one pass for the cross products if these are as accurate as reflections, otherwise a second
# pass, in which the triangle so far and the next block are decomposed by QR.

# The cross products of a block's scaled columns, response, and offset if there is one.
lm_products <- function(d, target) {
  if (d$p == 0L) return(collect(crossprod(target)))
  sums <- cross_products(d, target)
  rbind(cbind(sums$xx, sums$xy), cbind(t(sums$xy), collect(crossprod(target))))
}

# The triangle of [X y] from its cross products; NULL if they have lost too many digits, as the condition of `columns`
# tells. The other columns are right sides.
triangle_of_products <- function(products, tol, columns = seq_len(ncol(products))) {
  norms <- sqrt(diag(products))
  if (any(norms[columns] == 0) || !all(is.finite(products))) return(NULL)
  norms[norms == 0] <- 1
  scaled <- products / tcrossprod(norms)
  r <- factored(scaled[columns, columns, drop = FALSE])
  if (is.null(r) || min(diag(r)) < max(CHOLESKY_LIMIT, 10 * tol) || rcond(r, triangular = TRUE) < ONE_PASS) return(NULL)
  r <- r * rep(norms[columns], each = nrow(r))
  others <- setdiff(seq_len(ncol(products)), columns)
  if (!length(others)) return(r)
  right <- backsolve(r, products[columns, others, drop = FALSE], transpose = TRUE)
  left <- products[others, others, drop = FALSE] - crossprod(right)
  rbind(cbind(r, right), cbind(base::matrix(0, length(others), length(columns)), sqrt(base::pmax(left, 0))))
}

lm_of_reader <- function(call, formula, data, contrasts, singular.ok, tol, device, env, frame) {
  device <- .Call(C_device_name, device)
  rows <- model_rows(call, formula, data, c("formula", "data", "subset", "weights", "na.action", "offset"), env, device,
    frame)
  if (rows$n == 0) stop_as_base(gettext("0 (non-NA) cases", domain = "R-stats"), frame)
  found <- lm_of_columns(rows, contrasts, tol) %||% lm_of_frames(rows, contrasts, tol)
  facts <- found$facts
  p <- length(facts$names)
  d <- list(p = p, names = facts$names, n = found$n)
  reader_fit <- if (found$n == 0) no_fit(p) else stats::lm.fit(found$r[, seq_len(p), drop = FALSE], found$r[, p + 1L],
    tol = tol)
  z <- if (p == 0L || found$n == 0) reader_fit else solution(reader_fit, d, tol)
  if (!singular.ok && z$rank < p) stop_as_base(gettext("singular fit encountered", domain = "R-stats"), frame)
  out <- list(coefficients = z$coefficients, effects = z$effects, rank = z$rank, assign = facts$assign, qr = z$qr,
    df.residual = as_whole(found$n - z$rank), rss = sum(reader_fit$residuals^2), n = as_whole(found$n),
    rows = as_whole(found$rows))
  # the effect of the constant column is that of the mean, which is left out
  explained <- if (z$rank > 0L) z$effects[facts$assign[z$qr$pivot[seq_len(z$rank)]] != 0L |
    attr(facts$terms, "intercept") == 0L]
  out$mss <- if (is.null(found$offset)) sum(explained^2) else squares_with_offset(found$offset, z$coefficients,
    attr(facts$terms, "intercept"))
  if (found$weighted) out$log_weights <- found$log_weights
  out$weighted <- found$weighted
  out$na.action <- action_of_omitted(found$omitted)
  out$contrasts <- facts$used_contrasts
  out$xlevels <- facts$xlevels
  out$call <- call
  out$terms <- facts$terms
  structure(out, class = c("gpu_lm_reader", "lm"))
}

# What base R returns if all weights are 0.
no_fit <- function(p) list(coefficients = rep(NA_real_, p), residuals = numeric(), effects = numeric(), rank = 0L)

# For a formula whose variables are columns of a matrix reader, without functions: cross products of whole blocks. NULL
# for other formulas, and if values are missing.
lm_of_columns <- function(rows, contrasts, tol) {
  x <- rows$readers$.data
  if (length(rows$readers) != 1L || is.null(x) || x$frame || any(c("weights", "subset", "offset") %in%
    names(rows$call)) || x$type %in% c("bool8", "complex64", "complex128")) return(NULL)
  empty <- structure(lapply(rows$names, function(name) numeric()), names = rows$names, class = "data.frame",
    row.names = integer())
  terms <- stats::terms(rows$formula, data = empty)
  variables <- as.list(attr(terms, "variables"))[-1L]
  plain <- all(vapply(variables, is.name, NA)) && all(as.character(variables) %in% rows$names) &&
    attr(terms, "response") == 1L && all(attr(terms, "order") == 1L) && length(attr(terms, "term.labels"))
  if (!plain || anyDuplicated(rows$names)) return(NULL)
  labels <- as.character(variables)[match(attr(terms, "term.labels"), vapply(variables, function(v) deparse1(v,
    backtick = TRUE), ""))]
  if (anyNA(labels)) return(NULL)
  at <- match(c(labels, as.character(variables[[1L]])), rows$names)
  intercept <- attr(terms, "intercept") > 0L
  # other columns are left out if most are not used
  few <- 2 * length(at) < length(rows$names)
  columns <- if (few) at else seq_along(rows$names)
  numbers <- function(block) {
    b <- strip_names(block)
    as_float64(if (few) b[, columns, drop = FALSE] else b)
  }
  place <- c(if (intercept) 1L, match(at, columns) + intercept)
  products <- over_blocks(x, function(block) {
    b <- numbers(block)
    out <- crossprod(b)
    if (!intercept) return(out)
    sums <- strip(colMeans(b)) * nrow(b)
    gpu_compute(out, sums)
    edge <- join(list(gpu_full(as.double(nrow(b)), 1, device = rows$device), sums))
    dim(sums) <- c(1, ncol(b))
    out <- cbind(edge, rbind(sums, out))
    gpu_compute(out)
    out
  }, function(a, b) gpu_compute(a + b), 1, rows$device, rows$frame)
  products <- collect(products)[place, place, drop = FALSE]
  if (!all(is.finite(products))) return(NULL)
  facts <- new.env(parent = emptyenv())
  attr(terms, "predvars") <- attr(terms, "variables")
  attr(terms, "dataClasses") <- stats::setNames(rep("numeric", length(variables)), as.character(variables))
  facts$terms <- terms
  facts$xlevels <- no_levels(terms)
  facts$names <- c(if (intercept) "(Intercept)", attr(terms, "term.labels"))
  facts$assign <- c(if (intercept) 0L, seq_along(labels))
  r <- triangle_of_products(products, tol)
  if (is.null(r)) {
    own <- match(at, columns)
    r <- collect(over_blocks(x, function(block) {
      b <- numbers(block)[, own, drop = FALSE]
      if (intercept) b <- cbind(gpu_ones(nrow(b), device = rows$device), b)
      triangle_below(gpu_compute(b))
    }, triangle_below, 1, rows$device, rows$frame))
  }
  list(r = r, n = rows$n, rows = rows$n, facts = facts, weighted = FALSE)
}

# As base R's .getXlevels() returns it if no variable is a factor.
no_levels <- function(terms) if (length(attr(terms, "variables")) > 1L + (attr(terms, "response") > 0L))
  stats::setNames(list(), character())

# Whether summary.lm() subtracts the offset from the fitted values. It does not before R 4.3.
TAKES_OFFSET_AWAY <- "offset" %in% all.names(body(stats::summary.lm))

# The sum of squares of fitted values with an offset, from the cross products of columns and offset.
squares_with_offset <- function(products, coefficients, intercept) {
  b <- c(replace(coefficients, is.na(coefficients), 0), 1)
  fitted <- products %*% b
  total <- sum(b * fitted)
  if (intercept) total - fitted[1L]^2 / products[1L, 1L] else total
}

# For any formula: base R's model frame of each block.
lm_of_frames <- function(rows, contrasts, tol) {
  facts <- model_facts(rows)
  facts$contrasts <- contrasts
  each <- function(f, fold) over_frames(rows, function(frame) {
    d <- block_design(rows, facts, frame)
    if (is.null(d)) return(f(NULL, NULL, NULL, frame))
    y <- response_of(frame, rows$device)
    if (is.null(y) || length(dim(y)) == 2L) stop_verdigris("argument",
      "`formula` must have one response where its data are readers.", call = rows$frame)
    offsets <- offset_of(frame, rows$device)
    check_offsets(offsets, y, rows$frame)
    if (!is.null(offsets)) y <- y - strip(offsets)
    w <- weights_of(frame, rows$device)
    if (!is.null(w)) {
      if (anyNA(w) || any(w < 0))
        stop_as_base(gettext("missing or negative weights not allowed", domain = "R-stats"), rows$frame)
      d$scale <- gpu_compute(sqrt(w))
      y <- y * d$scale
      if (!is.null(offsets)) offsets <- offsets * d$scale
    }
    f(d, y, w, frame, offsets)
  }, fold, facts$levels)
  offset <- FALSE
  sums <- each(function(d, y, w, frame, offsets = NULL) list(products = if (is.null(d)) 0 else lm_products(d,
    if (is.null(offsets)) gpu_compute(`dim<-`(strip(y), c(d$n, 1))) else {
      offset <<- TRUE
      gpu_compute(cbind(strip(y), strip(offsets)))
    }),
    n = if (is.null(d)) 0 else if (is.null(w)) d$n else as.vector(sum(w != 0)), weighted = !is.null(w),
    log_weights = if (is.null(w)) 0 else as.vector(sum(ifelse(w > 0, log(w), 0))), omitted = omitted(frame)),
    function(a, b) list(products = a$products + b$products, n = a$n + b$n, weighted = a$weighted || b$weighted,
    log_weights = a$log_weights + b$log_weights, omitted = joined_omitted(a$omitted, b$omitted)))
  sums$rows <- sums$omitted$rows - length(sums$omitted$at)
  if (sums$rows == 0) stop_as_base(gettext("0 (non-NA) cases", domain = "R-stats"), rows$frame)
  p <- length(facts$names)
  if (!all(is.finite(sums$products))) stop_as_base(sprintf("NA/NaN/Inf in '%s'", if (all(is.finite(sums$products[
    seq_len(p), seq_len(p)]))) "y" else "x"), rows$frame)
  both <- seq_len(p + 1L)
  r <- if (p == 0L) sqrt(sums$products[1L, 1L, drop = FALSE]) else if (sums$n == 0) base::matrix(0, p + 1L, p + 1L) else
    triangle_of_products(sums$products[both, both], tol) %||% each(function(d, y, w, frame, offsets = NULL)
    if (!is.null(d)) triangle_below(gpu_compute(cbind(design_rows(d, 0, d$n), strip(y)))), function(a, b)
    if (is.null(a) || is.null(b)) a %||% b else triangle_below(a, b))
  facts$xlevels <- facts$levels[setdiff(names(facts$levels), names(attr(facts$terms, "dataClasses"))[attr(facts$terms,
    "response")])]
  if (!length(facts$xlevels)) facts$xlevels <- no_levels(facts$terms)
  c(list(r = unname(collect(r)), facts = facts, offset = if (offset && !TAKES_OFFSET_AWAY) sums$products[-(p + 1L),
    -(p + 1L)]), sums[c("n", "rows", "weighted", "log_weights", "omitted")])
}

# ---- methods -------------------------------------------------------------------------------------------------

# A fit for base R's methods: the fewest residuals and fitted values that have the fit's sums of squares.
surrogate <- function(fit) {
  out <- unclass(fit)
  out[c("residuals", "fitted.values", "weights")] <- NULL
  out$residuals <- sqrt(fit$rss)
  out$fitted.values <- sqrt(fit$mss / 2) * c(-1, 1)
  structure(out, class = "lm")
}

refuse_rows_of_fit <- function(what, call = parent.frame()) stop_verdigris("argument", sprintf(
  "%s needs a value for each row, which a fit to a reader does not keep.", what),
  "`gpu_chunked(data, function(block) predict(fit, block), margin = 1, to = path)` writes fitted values.", call = call)

#' @export
summary.gpu_lm_reader <- function(object, ...) {
  out <- summary_of_lm(surrogate(object), ...)
  out$call <- object$call
  out["residuals"] <- list(NULL)
  if (object$rank == 0L) out$df[2L] <- object$rows
  class(out) <- c("summary.gpu_lm_reader", class(out))
  out
}
#' @export
print.summary.gpu_lm_reader <- function(x, ...) {
  whole <- x
  whole$residuals <- 0
  class(whole) <- "summary.lm"
  print_without(whole, "Residuals:$", ...)
  invisible(x)
}
# Prints what base R prints, without the paragraph that begins with `heading`.
print_without <- function(x, heading, ...) {
  lines <- utils::capture.output(print(x, ...))
  from <- grep(heading, lines)[1L]
  if (!is.na(from)) {
    blank <- base::which(!nzchar(lines) & seq_along(lines) > from)[1L]
    lines <- lines[-seq(from, if (is.na(blank)) from else blank)]
  }
  cat(lines, sep = "\n")
}

#' @export
vcov.gpu_lm_reader <- function(object, ...) vcov.gpu_lm(surrogate(object), ...)
#' @importFrom stats deviance nobs
#' @export
deviance.gpu_lm_reader <- function(object, ...) object$rss
#' @export
nobs.gpu_lm_reader <- function(object, ...) object$n
#' @export
logLik.gpu_lm_reader <- function(object, REML = FALSE, ...) {
  if (isTRUE(REML)) refuse_rows_of_fit("The restricted likelihood")
  n <- as.double(object$n)
  value <- 0.5 * ((object$log_weights %||% 0) - n * (log(2 * pi) + 1 - log(n) + log(object$rss)))
  structure(value, nall = object$n, nobs = object$n, df = object$rank + 1, class = "logLik")
}
# extractAIC() of both kinds of fits. Rows of weight 0 count, as in base R.
reader_extract_aic <- function(fit, scale = 0, k = 2, ...) {
  edf <- fit$rows - fit$df.residual
  if (inherits(fit, "glm")) return(c(edf, fit$aic + (k - 2) * edf))
  value <- if (scale > 0) fit$rss / scale - fit$rows else fit$rows * log(fit$rss / fit$rows)
  c(edf, value + k * edf)
}
#' @export
anova.gpu_lm_reader <- function(object, ...) {
  if (...length()) stop_verdigris("argument", "`anova()` has no method for several fits to readers.",
    "`anova(fit)` of one fit tests its terms in order.")
  on_arrays("anova.lm")(surrogate(object))
}
#' @export
predict.gpu_lm_reader <- function(object, newdata, ...) {
  if (missing(newdata) || is_reader(newdata)) refuse_rows_of_fit("`predict()` without `newdata`")
  newdata <- new_rows(newdata)
  f <- if (any(vapply(newdata, is_gpu, NA))) predict_of_lm else stats::predict.lm
  f(surrogate(object), newdata = newdata, ...)
}
# New data for predict(): a matrix, such as a block of a reader, becomes a data frame whose variables have its column
# names.
new_rows <- function(newdata) {
  if (is.data.frame(newdata) || length(dim(newdata)) != 2L) return(newdata)
  names <- colnames(newdata) %||% paste0("V", seq_len(ncol(newdata)))
  if (!is_gpu(newdata)) return(stats::setNames(as.data.frame(newdata), names))
  variables_of_block(newdata, list(names = names, used = "."))
}
#' @export
residuals.gpu_lm_reader <- function(object, ...) refuse_rows_of_fit("`residuals()`")
#' @importFrom stats fitted
#' @export
fitted.gpu_lm_reader <- function(object, ...) refuse_rows_of_fit("`fitted()`")
#' @importFrom stats model.frame
#' @export
model.frame.gpu_lm_reader <- function(formula, ...) refuse_rows_of_fit("`model.frame()`")
#' @export
model.matrix.gpu_lm_reader <- function(object, ...) refuse_rows_of_fit("`model.matrix()`")
#' @importFrom stats influence hatvalues
#' @export
influence.gpu_lm_reader <- function(model, ...) refuse_rows_of_fit("`influence()`")
#' @export
hatvalues.gpu_lm_reader <- function(model, ...) refuse_rows_of_fit("`hatvalues()`")
#' @export
plot.gpu_lm_reader <- function(x, ...) refuse_rows_of_fit("`plot()`")
#' @export
collect.gpu_lm_reader <- function(x, ...) refuse_rows_of_fit("An ordinary fit")
