# Covariances of coefficients under heteroscedasticity and clusters.

VCOV_TYPES <- c("const", "HC0", "HC1", "HC2", "HC3")

#' Robust covariance matrices
#'
#' Computes the covariance matrix of the coefficients of a fit by [gpu_lm()] or [gpu_glm()]. Its standard errors are
#' valid under heteroscedasticity, or if observations of a cluster are correlated. The cross products are computed on
#' the device.
#'
#' With the model matrix X, working weights w and working residuals r, the estimate is
#' `solve(X'WX) %*% M %*% solve(X'WX)`. Without clusters M is the sum of `f * (w * r)^2 * x x'` over the observations:
#' f is 1 for `"HC0"` (White 1980), n / (n - k) for `"HC1"`, 1 / (1 - h) for `"HC2"` and 1 / (1 - h)^2 for `"HC3"`
#' (MacKinnon and White 1985), where h is the leverage. With clusters M is the sum of `s s'` over the clusters, where s
#' is the sum of `w * r * x` (Liang and Zeger 1986), times 1 for `"HC0"`, and G / (G - 1) * (n - 1) / (n - k) for
#' `"HC1"` with G clusters. n counts observations with positive weight; n - k are the residual degrees of freedom, so
#' they count absorbed effects.
#' @param fit A fit by `gpu_lm()` with one response, or by `gpu_glm()`.
#' @param type `"const"` is `vcov(fit)`; with `cluster` the default is `"HC1"`.
#' @param cluster `NULL`, or the clusters: an array, vector or factor with an element for each observation that was
#'   fitted, or for each row of the data from which rows with missing values were omitted.
#'   Fits of splits take no clusters.
#' @returns An ordinary matrix with the names of the coefficients; `NA` for aliased ones. The call waits for the device.
#' @section Errors:
#' `verdigris_error_argument` if `fit` or `cluster` is invalid, for `"HC2"` and `"HC3"` with clusters or
#' absorbed effects, and for `"const"` with clusters.
#' @references J. G. MacKinnon, H. White (1985): Some heteroskedasticity-consistent covariance matrix estimators with
#'   improved finite sample properties. Journal of Econometrics 29, 305-325. K.-Y. Liang, S. L. Zeger (1986):
#'   Longitudinal data analysis using generalized linear models. Biometrika 73, 13-22.
#' @examples
#' fit <- gpu_lm(mpg ~ hp, mtcars, device = "cpu")
#' sqrt(diag(gpu_vcov(fit, "HC3")))
#' gpu_vcov(fit, cluster = mtcars$cyl)
#' @export
gpu_vcov <- function(fit, type = c("const", "HC0", "HC1", "HC2", "HC3"), cluster = NULL) {
  if (!inherits(fit, c("gpu_lm", "gpu_glm")) || inherits(fit, "mlm"))
    abort_argument("fit", "a fit of one response by gpu_lm() or gpu_glm()", fit)
  type <- if (missing(type) && !is.null(cluster)) "HC1" else one_of("type", type, VCOV_TYPES)
  if (!is.null(cluster) && !type %in% c("HC0", "HC1"))
    abort_argument("type", "\"HC0\" or \"HC1\" with `cluster`", type)
  if (!is.null(fit$fe) && type %in% c("HC2", "HC3"))
    abort_argument("type", "\"const\", \"HC0\" or \"HC1\" for a fit with absorbed effects", type,
      advice = "Leverages need the effects' columns: put the factors into the formula.")
  if (type == "const" || fit$rank == 0L) return(stats::vcov(fit))
  split <- is_split_fit(fit)
  if (split && !is.null(cluster)) abort_argument("cluster", "NULL for a fit of splits", cluster)
  groups <- if (!is.null(cluster)) clusters_of(fit, cluster)
  d <- if (split) fit$design else if (is.null(fit$fe)) design_of_fit(fit) else within_of_fit(fit)
  score <- fit$residuals
  if (!is.null(fit$weights)) score <- score * fit$weights
  # rows without weight may have residuals that are not finite
  used <- if (is.null(fit$weights)) d$n else sum(fit$weights != 0)
  if (used < d$n) score <- split_aware("ifelse")(fit$weights == 0, 0, score)
  if (type %in% c("HC2", "HC3")) {
    left <- 1 - if (split) influence_of_split(fit, FALSE)$hat else leverages(fit)$hat
    score <- score / if (type == "HC2") sqrt(left) else left
  }
  if (!split) {
    d$scale <- score
    gpu_compute(d$scale)
  }
  by_cluster <- function(from, count) with_rows(d, from, count, function(scores)
    list(group_sums(scores, vector_rows(groups$codes, from, count), groups$extent)))
  middle <- if (split) base::matrix(split_sum(d$part, "launch_scores", list(d$columns, score), environment()), d$p) else
    if (is.null(groups)) collect(gram_sums(d)[[1L]]) else summed(d, by_cluster)[[1L]]
  if (!is.null(groups)) middle <- crossprod(middle)
  factor <- if (type != "HC1") 1 else if (is.null(groups)) used / fit$df.residual else
    groups$extent / (groups$extent - 1) * (used - 1) / fit$df.residual
  ok <- seq_len(fit$rank)
  columns <- fit$qr$pivot[ok]
  bread <- chol2inv(fit$qr$qr[ok, ok, drop = FALSE])
  names <- names(fit$coefficients)
  out <- base::matrix(NA_real_, length(names), length(names), dimnames = list(names, names))
  out[columns, columns] <- factor * (bread %*% middle[columns, columns, drop = FALSE] %*% bread)
  out
}

# Clusters of the observations that were fitted: codes from 1 without gaps, and `extent`, the number of clusters.
clusters_of <- function(fit, cluster, frame = parent.frame()) {
  n <- length(fit$residuals)
  omitted <- as.integer(fit$na.action)
  if (!is.atomic(cluster) || !length(cluster) %in% c(n, n + length(omitted)))
    abort_argument("cluster", sprintf("a vector of the %s observations of the fit", format_count(n)), cluster, frame)
  if (length(cluster) != n) cluster <- cluster[-omitted]
  if (anyNA(cluster)) abort_argument("cluster", "without missing values", cluster, frame)
  if (is.factor(cluster)) cluster <- cluster[, drop = TRUE]
  by <- grouping(list(cluster), gpu_device(fit$residuals))
  if (by$extent < 2) abort_argument("cluster", "at least two clusters", cluster, frame)
  by
}

# The design of a fit with absorbed effects: its columns less their group means.
within_of_fit <- function(fit) {
  device <- device_of_fit(fit)
  frame <- stats::model.frame(fit)
  groups <- fe_groups(frame, grep("^\\(fe[0-9]+\\)$", names(frame), value = TRUE), fit$weights, device)
  d <- design_of(stats::terms(fit), frame, fit$contrasts, device)
  d <- design_columns(d, d$names != "(Intercept)")
  control <- list(tol = fit$fe$tol, maxit = fit$fe$iterations + 1)
  x <- absorbed(design_rows(d, 0, d$n, FALSE), groups, fit$weights, control, environment())$z
  structure(list(n = d$n, p = d$p, names = d$names, x = x, device = device), class = "gpu_design")
}
