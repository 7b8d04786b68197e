# Absorbs fixed effects: instead of adding a column for each level of a factor, subtracts group means from all columns,
# for several factors in turn until nothing changes (alternating projections: Halperin 1962; Gaure, Computational
# Statistics and Data Analysis 66, 2013). The result is regressed as any matrix (Frisch, Waugh, Lovell).

FE_CONTROL <- list(tol = 1e-8, maxit = 10000)

# A column whose remainder, relative to its norm, is at most this is explained by the effects: R's rule for aliased
# columns.
FE_ALIASED <- 1e-7

fe_control <- function(control, call) {
  if (!is.list(control) || length(setdiff(names(control), names(FE_CONTROL))) ||
    length(control) && is.null(names(control)))
    abort_argument("fe.control", "a list of `tol` and `maxit`", control, call)
  control <- utils::modifyList(FE_CONTROL, control)
  if (!is.numeric(control$tol) || length(control$tol) != 1L || !isTRUE(control$tol > 0))
    abort_argument("fe.control$tol", "a number above 0", control$tol, call)
  if (!is_count(control$maxit, 1)) abort_argument("fe.control$maxit", "a number of iterations", control$maxit, call)
  control
}

# The factors that a one-sided formula names, as expressions.
fe_variables <- function(fe, call) {
  if (is.null(fe)) return(NULL)
  if (!inherits(fe, "formula") || length(fe) != 2L)
    abort_argument("fe", "a one-sided formula such as ~ id + year", fe, call)
  terms <- stats::terms(fe)
  if (any(attr(terms, "order") != 1L) || length(attr(terms, "offset")) || !length(attr(terms, "term.labels")))
    stop_verdigris("argument", "`fe` must be a sum of variables, such as ~ id + year.",
      "`interaction(a, b)` makes one variable of the combinations of two.", call = call)
  variables <- as.list(attr(terms, "variables"))[-1L]
  stats::setNames(variables, paste0("fe", seq_along(variables)))
}

# Sums of the columns of z, n x m, by groups: a matrix with a row for each group.
group_sums <- function(z, codes, groups, rows = rows_by_group(z, codes, groups)) {
  n <- nrow(z)
  if (!is.null(rows)) return(segment_products(rows$p, rows$i, NULL, z))
  out <- if (ncol(z) > 1L) reduce_coded(strip(z), codes, groups, "sum")
  out <- out %||% join(lapply(seq_len(ncol(z)), function(j)
    reduce_by(as_float64(strided(strip(z), length(z), 1, n, start = n * (j - 1))), codes, groups, "sum", FALSE, 0)))
  dim(out) <- c(groups, ncol(z))
  out
}

# For each factor of a frame: codes, number of groups, sums of weights by group, number of groups that have weight.
fe_groups <- function(frame, names, w, device) {
  lapply(names, function(name) {
    by <- grouping(list(frame[[name]]), device)
    n <- length(by$codes)
    ones <- gpu_ones(n, device = device)
    size <- reduce_by(w %||% ones, by$codes, by$extent, "sum", FALSE, 0)
    list(codes = by$codes, groups = by$extent, size = size, used = sum(size > 0))
  })
}

# Subtracts group means from z, for one factor after the other until nothing changes.
absorbed <- function(z, groups, w, control, call) {
  spread <- sqrt(as.vector(colSums(z * z)) / nrow(z))
  spread[spread == 0] <- 1
  groups <- lapply(groups, function(g) c(g, list(rows = rows_by_group(z, g$codes, g$groups))))
  before <- NULL
  for (iteration in seq_len(control$maxit)) {
    old <- z
    for (g in groups) {
      mean <- group_sums(if (is.null(w)) z else z * w, g$codes, g$groups, g$rows) / pmax(g$size, .Machine$double.xmin)
      z <- z - mean[g$codes, , drop = FALSE]
      gpu_compute(z)
    }
    if (length(groups) == 1L) return(list(z = z, iterations = 1L, converged = TRUE))
    changes <- .Call(C_reduce_groups, "max", strip(abs(z - old)), FALSE, c(ncol(z), nrow(z), 1), FALSE)
    change <- max(collect(changes) / spread)
    if (is.na(change)) break
    # the sum of all further changes, if each is the same fraction of the one before
    rate <- if (is.null(before)) 0.99 else min(change / before, 0.999)
    if (change == 0 || change * rate / (1 - rate) < control$tol)
      return(list(z = z, iterations = iteration, converged = TRUE))
    before <- change
  }
  warn_as_base(sprintf("fixed effects: the projections did not converge in %s iterations (fe.control$maxit)",
    format_count(iteration)), call)
  list(z = z, iterations = iteration, converged = FALSE)
}

# The rank of the effects' indicators: the number of groups, less one for each connected part of the first two factors
# and one for each further factor (Abowd, Creecy and Kramarz 2002). lfe counts so; fixest takes a single part.
fe_rank <- function(groups, w) {
  used <- sum(vapply(groups, `[[`, 0, "used"))
  if (length(groups) == 1L) return(used)
  used - connected_parts(groups[[1L]], groups[[2L]], w) - (length(groups) - 2L)
}

# The number of parts into which observations connect two factors' levels: spreads least labels until nothing changes.
connected_parts <- function(a, b, w) {
  # observations without weight connect nothing
  on <- if (!is.null(w) && any(w == 0)) which(w > 0)
  of_a <- if (is.null(on)) a$codes else a$codes[on]
  of_b <- if (is.null(on)) b$codes else b$codes[on]
  labels <- gpu_seq(1, by = 1, length.out = a$groups, device = gpu_device(of_a))
  least <- function(x, codes, groups) reduce_by(x, codes, groups, "min", FALSE, Inf)
  repeat {
    spread <- least(least(labels[of_a], of_b, b$groups)[of_b], of_a, a$groups)
    if (all(spread == labels | is.infinite(spread))) break
    labels <- select_by(is.finite(spread), spread, labels)
  }
  length(unique(collect(labels)[collect(a$size) > 0]))
}

# Least squares with absorbed effects.
fit_within <- function(d, y, w, groups, tol, singular.ok, control, call) {
  x <- design_columns(d, d$names != "(Intercept)")
  x$assign <- d$assign[d$names != "(Intercept)"]
  left <- within_groups(x, if (x$p > 0L) design_rows(x, 0, x$n, FALSE), y, w, groups, control, call)
  rank <- fe_rank(groups, w)
  used <- if (is.null(w)) x$n else sum(w != 0)
  if (x$p > 0L) {
    out <- fit_linear(left$design, left$y, w, NULL, tol, singular.ok)
    out$qr$qr$rows <- used - rank
  } else {
    out <- list(coefficients = numeric(), residuals = left$y, effects = numeric(), rank = 0L)
  }
  out$fitted.values <- y - out$residuals
  out$assign <- x$assign
  out$df.residual <- used - rank - out$rank
  out$fe <- list(levels = vapply(groups, `[[`, 0, "groups"), df = rank, iterations = left$iterations,
    converged = left$converged, tol = control$tol)
  out
}

# A design (x is its matrix) and a response, less their group means.
within_groups <- function(d, x, y, w, groups, control, call) {
  z <- cbind(x, strip(y))
  dim(z) <- c(d$n, d$p + 1)
  norm <- function(z) sqrt(as.vector(colSums(if (is.null(w)) z * z else z * z * w)))
  whole <- norm(z)
  done <- absorbed(z, groups, w, control, call)
  columns <- seq_len(d$p)
  # a column of rounding errors is no regressor
  gone <- columns[(norm(done$z) <= FE_ALIASED * whole)[columns]]
  left <- done$z[, columns, drop = FALSE]
  if (length(gone)) left[, gone] <- 0
  list(design = structure(list(n = d$n, p = d$p, names = d$names, x = left, device = d$device), class = "gpu_design"),
    y = done$z[, d$p + 1L], iterations = done$iterations, converged = done$converged)
}

# ---- in glm.fit() ----------------------------------------------------------------------------------------------

# Iteratively reweighted least squares with absorbed effects: each iteration subtracts means, by the working weights,
# from columns and working response (Stammann 2018, arXiv:1707.01815). In base R's glm.fit(), `step()` replaces LINPACK
# and `times()` the product of matrix and coefficients, since the predictor includes the effects.
effects_in_glm <- function(d, groups, control, call) {
  x <- design_rows(d, 0, d$n, FALSE)
  now <- before <- NULL
  last <- list(iterations = 0L, converged = TRUE)
  everywhere <- function(v, at) {
    out <- gpu_zeros(d$n, device = d$device)
    out[at] <- v
    out
  }
  step <- function(scaled, z, tol, good) {
    w <- scaled$scale^2
    z <- strip(z) / scaled$scale
    if (!all(good)) {
      at <- which(good)
      w <- everywhere(w, at)
      z <- everywhere(z, at)
    }
    weighted <- lapply(groups, function(g) {
      g$size <- reduce_by(w, g$codes, g$groups, "sum", FALSE, 0)
      g
    })
    left <- within_groups(d, x, z, w, weighted, control, call)
    last <<- left[c("iterations", "converged")]
    left$design$scale <- sqrt(w)
    out <- weighted_step(left$design, left$y * left$design$scale, tol)
    start <- numeric(d$p)
    start[out$pivot] <- out$coefficients
    before <<- now
    now <<- list(start = start, eta = gpu_compute(z - left$y + design_times(left$design, start)))
    out
  }
  # where base R halves a step, it averages two vectors of coefficients: average their predictors
  times <- function(start) {
    if (any(start != now$start)) now <<- list(start = start, eta = gpu_compute((now$eta + before$eta) / 2))
    now$eta
  }
  list(step = step, times = times, state = function() last)
}

# Base R's glm.fit() with absorbed effects. A design without columns gets a constant one, which the effects explain.
glm_fit_within <- function(d, y, w, groups, absorbing, call, ...) {
  columns <- d$names != "(Intercept)"
  none <- !any(columns)
  x <- if (none) structure(list(n = d$n, p = 1L, names = "(Intercept)", x = gpu_ones(c(d$n, 1), device = d$device),
    device = d$device), class = "gpu_design") else design_columns(d, columns)
  absorbed_effects <- effects_in_glm(x, groups, absorbing, call)
  z <- glm_fit_on_device(x, y, weights = w, ..., intercept = TRUE, absorbed_effects = absorbed_effects)
  if (none) {
    z$coefficients <- stats::setNames(numeric(), character())
    z$R <- z$qr$qr <- base::matrix(0, 0L, 0L)
    z$effects <- numeric()
    z$qr$pivot <- integer()
  }
  rank <- fe_rank(groups, w)
  z$df.residual <- z$df.residual - rank
  z$aic <- z$aic + 2 * rank
  state <- absorbed_effects$state()
  z$fe <- list(levels = vapply(groups, `[[`, 0, "groups"), df = rank, iterations = state$iterations,
    converged = state$converged, tol = absorbing$tol)
  z
}
