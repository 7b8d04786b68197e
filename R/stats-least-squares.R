# Least squares, for lm and for each step of glm.
#
# A tall matrix is reduced to its triangle by the Cholesky factor of cross products. If the matrix, with columns scaled
# to one length, is well conditioned, the cross products of X suffice. Otherwise CholeskyQR2 (Fukaya, Nakatsukasa,
# Yanagisawa and Yamamoto, ScalA 2014) takes those of Q = X / R as well, computed block by block and not stored. They
# restore orthogonality to rounding errors, provided that the first factor is far enough from singular, which both
# factors show. All other matrices, and small ones, get a Householder QR. Base R's lm.fit(), that is LINPACK's dqrdc2
# with its limited pivoting, then decides from the triangle which columns are aliased: the norms that it compares are
# those of the matrix.

# Up to this number of elements base R is at least as fast as two passes.
SMALL_DESIGN <- 2^12

is_small <- function(d) as.double(d$n) * d$p <= SMALL_DESIGN

# One pass is enough from this reciprocal condition number on: its relative errors are below 1e6 rounding errors.
ONE_PASS <- 1e-3

# An entry on the scaled triangle's diagonal is the share of a column's norm that the columns before it do not explain.
# Below this limit the cross products have lost too many digits.
CHOLESKY_LIMIT <- 1e-6

# Solves for right sides y, a vector or a matrix, scaled as the design's rows. Returns `coefficients`, NA for aliased
# columns; `effects`, as many as the rank; `qr`, of class "qr"; and where they are known `residuals`, scaled as well.
least_squares <- function(d, y, tol = 1e-07) {
  out <- if (d$n >= 4 * d$p && !is_small(d)) cholesky_qr(d, y, tol)
  out %||% householder(d, y, tol)
}

# Sums over blocks of rows of the arrays that f returns; summed() returns them on the host.
summed_arrays <- function(d, f, size = block_rows(d)) {
  parts <- by_blocks(d, f, size)
  lapply(seq_along(parts[[1L]]), function(k) Reduce(`+`, lapply(parts, `[[`, k)))
}
summed <- function(d, f) lapply(summed_arrays(d, f), collect)

# NULL if another method is needed. `sums`: the cross products; `again(inverse)` gives those of the second pass.
cholesky_qr <- function(d, y, tol, sums = cross_products(d, y), again = function(inverse) lapply(second_sums(d, y,
  inverse), collect)) {
  norms <- sqrt(diag(sums$xx))
  if (!all(is.finite(norms), is.finite(sums$xy)) || any(norms == 0)) return(NULL)
  first <- factored(sums$xx / tcrossprod(norms))
  if (is.null(first) || min(diag(first)) < max(CHOLESKY_LIMIT, 10 * tol)) return(NULL)
  if (rcond(first, triangular = TRUE) >= ONE_PASS)
    return(of_triangle(first * rep(norms, each = d$p), backsolve(first, sums$xy / norms, transpose = TRUE), d, tol))
  sums <- again(backsolve(first, diag(d$p)) / norms)
  # this bound makes the second factor as accurate as Householder reflections
  if (!all(is.finite(base::unlist(sums))) || max(abs(sums[[1L]] - diag(d$p))) > 0.01) return(NULL)
  second <- factored(sums[[1L]])
  if (is.null(second)) return(NULL)
  of_triangle(second %*% (first * rep(norms, each = d$p)), backsolve(second, sums[[2L]], transpose = TRUE), d, tol)
}

# Cross products of the orthogonal factor that the first pass gives, with itself and with y.
second_sums <- function(d, y, inverse) {
  inverse <- as_gpu(inverse, device = d$device)
  summed_arrays(d, function(from, count) with_rows(d, from, count, function(x) {
    q <- x %*% inverse
    out <- computed_arrays(list(crossprod(q), crossprod(q, vector_rows(y, from, count))))
    gpu_free(q)
    out
  }))
}

# ---- cross products --------------------------------------------------------------------------------------------

# A factor with fewer columns is multiplied like other columns. So is the factor with fewer levels of two that have more
# combinations than GROUPED_PAIRS.
GROUPED_COLUMNS <- 8
GROUPED_PAIRS <- 2^20

# Cross products of the scaled rows with themselves and with y. Those of a factor's columns are sums over its levels.
cross_products <- function(d, y) {
  factors <- factor_columns(d)
  assembled(lapply(cross_sums(d, y, factors), collect), d$p, NCOL(y), factors)
}

# The sums that cross products are assembled from: products of the dense columns and right sides; and for each factor
# sums, by level, of these, of weights, and of weights by pairs with each factor before it.
cross_sums <- function(d, y, factors) {
  rest <- design_columns(d, dense_columns(d$p, factors))
  if (!length(factors)) return(gram_sums(rest, y))
  summed_arrays(rest, function(from, count) {
    scale <- vector_rows(d$scale, from, count)
    weights <- if (is.null(scale)) gpu_ones(count, device = d$device) else scale * scale
    # the dense columns and right sides
    others <- joined_columns(c(scaled_columns(dense_parts(rest, from, count), if (!is.null(scale)) weights, count,
      d$device), scaled_columns(columns_in(y, from, count), scale, count, d$device)), count)
    out <- computed_arrays(c(list(gram_of(rest, y, from, count)), base::unlist(lapply(seq_along(factors), function(k) {
      f <- factors[[k]]
      codes <- vector_rows(f$codes, from, count)
      rows <- rows_by_group(others, codes, f$levels, d$sorted, paste(f$key, from, count))
      pairs <- lapply(factors[seq_len(k - 1L)], function(g) weight_sums(weights, codes + f$levels *
        (vector_rows(g$codes, from, count) - 1L), f$levels * g$levels, NULL, d$sorted, paste(f$key, g$key, from, count,
        sep = "\n")))
      c(list(group_sums(others, codes, f$levels, rows), weight_sums(weights, codes, f$levels, rows)), pairs)
    }), recursive = FALSE)))
    if (rest$p + NCOL(y) > 1L) gpu_free(others) # a single one may be a variable's own memory
    out
  })
}

# Sums of weights by codes, none of which is missing. If there are more groups than a device has accumulators for, rows
# are sorted by group, once: `sorted` caches them under `key`.
weight_sums <- function(weights, codes, groups, rows, sorted = NULL, key = NULL) {
  rows <- rows %||% sorted[[key]]
  if (is.null(rows)) {
    out <- reduce_coded(weights, codes, groups, "sum")
    if (!is.null(out)) return(out)
    rows <- sorted_rows(codes, groups)
    if (!is.null(sorted)) sorted[[key]] <- rows
  }
  strip(segment_products(rows$p, rows$i, NULL, weights))
}

# The most columns that one pass multiplies (`MOST_COLUMNS` in backend/gram.rs).
GRAM_COLUMNS <- 64

# Products of a design's scaled columns and right sides y (or of the columns alone) with each other, as one array.
# Columns that are all in memory are read in place, all rows at once.
gram_sums <- function(d, y = NULL) {
  if (d$p + NCOL(y) * !is.null(y) <= GRAM_COLUMNS && !(is.null(d$x) && is.null(d$plain)))
    return(list(gram_of(d, y, 0, d$n)))
  summed_arrays(d, function(from, count) list(gram_of(d, y, from, count)))
}

gram_of <- function(d, y, from, count) {
  own <- dense_parts(d, from, count)
  right <- columns_in(y, from, count)
  columns <- c(own, right)
  scale <- vector_rows(d$scale, from, count)
  if (length(columns) <= GRAM_COLUMNS && !all(vapply(columns, is.null, NA))) {
    out <- .Call(C_gram, columns, count, scale, d$p)
    if (!is.null(out)) return(out)
  }
  x <- joined_columns(c(scaled_columns(own, scale, count, d$device), right), count)
  out <- gpu_compute(crossprod(x))
  gpu_free(x)
  out
}

dense_columns <- function(p, factors) setdiff(seq_len(p), base::unlist(lapply(factors, `[[`, "columns")))

# Assembles the cross products from the host copies of cross_sums().
assembled <- function(sums, p, q, factors) {
  dense <- dense_columns(p, factors)
  xx <- base::matrix(0, p, p)
  xy <- base::matrix(0, p, q)
  own <- seq_along(dense)
  products <- base::matrix(sums[[1L]], length(dense) + q)
  xx[dense, dense] <- products[own, own]
  xy[dense, ] <- products[own, length(dense) + seq_len(q)]
  at <- 1L
  for (k in seq_along(factors)) {
    f <- factors[[k]]
    cross_terms <- crossprod(f$table, base::matrix(sums[[at + 1L]], f$levels))
    xx[f$columns, dense] <- cross_terms[, seq_along(dense)]
    xx[dense, f$columns] <- t(cross_terms[, seq_along(dense)])
    xy[f$columns, ] <- cross_terms[, length(dense) + seq_len(q)]
    xx[f$columns, f$columns] <- crossprod(f$table, f$table * as.vector(sums[[at + 2L]]))
    at <- at + 2L
    for (g in factors[seq_len(k - 1L)]) {
      at <- at + 1L
      pair <- crossprod(f$table, base::matrix(sums[[at]], f$levels) %*% g$table)
      xx[f$columns, g$columns] <- pair
      xx[g$columns, f$columns] <- t(pair)
    }
  }
  list(xx = xx, xy = xy)
}

# The number of elements of each of cross_sums()'s sums.
lengths_of_sums <- function(p, q, factors) {
  dense <- length(dense_columns(p, factors))
  c((dense + q)^2, base::unlist(lapply(seq_along(factors), function(k) {
    levels <- factors[[k]]$levels
    c(levels * (dense + q), levels, vapply(factors[seq_len(k - 1L)], function(g) levels * g$levels, 1))
  })))
}

# The factors of a design that are main effects with many columns: codes, number of levels, columns and contrasts.
factor_columns <- function(d) {
  # most designs have none
  if (d$p < GROUPED_COLUMNS || is.null(d$columns) || length(unique(d$groups)) > d$p - GROUPED_COLUMNS + 1L)
    return(list())
  groups <- split(seq_len(d$p), factor(d$groups, unique(d$groups)))
  # sums over levels would omit rows with a missing code
  groups <- Filter(function(j) length(j) >= GROUPED_COLUMNS && length(d$columns[[j[1L]]]) == 1L &&
    !d$columns[[j[1L]]][[1L]]$gaps, groups)
  out <- lapply(unname(groups), function(j) {
    part <- d$columns[[j[1L]]][[1L]]
    list(key = part$key, codes = part$codes, levels = length(part$table), columns = j, table = vapply(d$columns[j], function(column)
      column[[1L]]$table, part$table))
  })
  out <- out[order(-vapply(out, function(f) as.double(f$levels), 0))]
  if (length(out) > 1L) for (k in length(out):2) if (out[[k]]$levels * as.double(out[[1L]]$levels) > GROUPED_PAIRS)
    out[[k]] <- NULL
  out
}

factored <- function(a) if (all(is.finite(a))) tryCatch(base::chol.default(a), error = function(e) NULL)

# A solution from a triangle and the right sides multiplied by Q', by base R's lm.fit().
of_triangle <- function(r, right, d, tol) {
  one <- ncol(right) == 1L
  solution(stats::lm.fit(r, if (one) as.vector(right) else right, tol = tol), d, tol)
}

# A solution from the result of base R's lm.fit(). Keeps the triangle only.
solution <- function(z, d, tol) {
  top <- seq_len(min(nrow(z$qr$qr), d$p))
  rank <- seq_len(z$rank)
  r <- z$qr$qr[top, , drop = FALSE]
  r[row(r) > col(r)] <- 0
  dimnames(r) <- list(NULL, d$names[z$qr$pivot])
  coefficients <- z$coefficients
  if (is.matrix(coefficients)) rownames(coefficients) <- d$names else names(coefficients) <- d$names
  effects <- if (is.matrix(z$effects)) z$effects[rank, , drop = FALSE] else z$effects[rank]
  labels <- d$names[z$qr$pivot][rank]
  if (is.matrix(effects)) rownames(effects) <- labels else names(effects) <- labels
  list(coefficients = coefficients, effects = effects, rank = z$rank, qr = structure(list(qr = kept_triangle(r, d$n),
    qraux = z$qr$qraux, pivot = z$qr$pivot, tol = tol, rank = z$rank), class = "qr"))
}

# Householder reflections: on a GPU by cuSOLVER; by base R on the cpu device and for moderate sizes.
householder <- function(d, y, tol) {
  # the GPU's triangle has as many rows as columns, so x must have more rows
  if (d$device != "cpu" && !is_moderate(d) && d$n > d$p + NCOL(y) && is_finite(d, y)) {
    x <- cbind(design_rows(d, 0, d$n), y)
    r <- collect(unpivoted_qr(strip_names(x), ncol(x))$r)
    return(of_triangle(r[seq_len(d$p), seq_len(d$p), drop = FALSE], r[seq_len(d$p), -seq_len(d$p), drop = FALSE], d,
      tol))
  }
  x <- host_rows(d)
  y <- host_copy(y, silent = d$device == "cpu" || is_moderate(d))
  z <- stats::lm.fit(x, y, tol = tol)
  c(solution(z, d, tol), list(residuals = as_gpu(unname(z$residuals), device = d$device)))
}

# Up to this number of elements a GPU does not pay: such a matrix is copied to the host on purpose.
is_moderate <- function(d) as.double(d$n) * d$p <= 2^16

host_rows <- function(d) host_copy(design_rows(d, 0, d$n), silent = d$device == "cpu" || is_moderate(d))

is_finite <- function(d, y) all(is.finite(design_rows(d, 0, d$n))) && all(is.finite(y))

# ---- the triangle in place of a decomposition ------------------------------------------------------------------

# The first rows of a decomposition's matrix, which suffice for base R's summary() and its like. Its dim() reports
# `rows` rows, but subscripts of rows below the triangle raise an error.
kept_triangle <- function(r, rows) structure(list(r = r, rows = rows), class = "gpu_triangle")

#' @export
dim.gpu_triangle <- function(x) c(if (x$rows < 2^31) as.integer(x$rows) else x$rows, ncol(x$r))
#' @export
dimnames.gpu_triangle <- function(x) dimnames(x$r)
#' @export
`dimnames<-.gpu_triangle` <- function(x, value) {
  dimnames(x$r) <- list(NULL, value[[2L]])
  x
}
#' @method as.matrix gpu_triangle
#' @rawNamespace S3method(base::as.matrix,gpu_triangle)
as.matrix.gpu_triangle <- function(x, ...) x
#' @export
`[.gpu_triangle` <- function(x, i, j, ..., drop = TRUE) {
  rows <- seq_len(nrow(x$r))
  if (missing(i)) refuse_rows(x)
  if (is.numeric(i) && any(i > nrow(x$r)) || is.logical(i) && length(i) > nrow(x$r)) refuse_rows(x)
  x$r[i, j, drop = drop]
}
#' @export
as.double.gpu_triangle <- function(x, ...) refuse_rows(x)
#' @export
as.vector.gpu_triangle <- function(x, mode = "any") refuse_rows(x)
#' @export
print.gpu_triangle <- function(x, ...) {
  cat(sprintf("The triangle of a QR decomposition of %s rows:\n", format_count(x$rows)))
  print(x$r, ...)
  invisible(x)
}

refuse_rows <- function(x) {
  stop_verdigris("argument", sprintf(
    "A fit on arrays keeps the triangle of its QR decomposition alone, not its %s rows.", format_count(x$rows)),
    c("`collect(fit)` makes an ordinary fit, with the whole decomposition on the host.",
      "`hatvalues(fit)` and `model.matrix(fit)` are computed on the device."), call = NULL)
}
