# Decompositions, covariances, tables and sums by group of splits. A matrix split by rows is decomposed by TSQR: the
# members' triangles, stacked in the order of ranks, have the same triangle as the whole matrix. Results that are as
# long as the rows are computed from it on the members.

# In a member: the triangle of its rows, with `y` as a further column, as launch_triangle() returns it.
launch_matrix_triangle <- function(x, y = NULL) {
  d <- as_design(as_gpu(x))
  launch_triangle(list(d = d, target = if (!is.null(y)) strip(as_float64(as_gpu(y)))))
}

# The triangles of all members, one below the other; NULL if x or y is not finite.
stacked_triangles <- function(x, y, call) {
  k <- ncol(x) + !is.null(y)
  gathered <- reduced(record_split(x, "launch_matrix_triangle", list(x, y), kind = "object"), "identity_part",
    fold = "gather", call = call)
  if (!all(is.finite(gathered))) return(NULL)
  do.call(base::rbind, lapply(seq_len(ncol(gathered)), function(j) base::matrix(gathered[, j], k)))
}

# Raises an error unless x is a real matrix split by rows.
check_real_row_split <- function(x, name, call) {
  check_row_split(x, name, call)
  if (type_of(x) == "complex") refuse_split(name, call, "Only real matrices are supported.")
}

# x %*% by with orthogonal columns, where `by` makes them nearly orthogonal: the product is divided by its own triangle
# twice, after which they are orthogonal to rounding errors.
orthogonal_columns <- function(x, by, call) {
  for (turn in 1:2) {
    x <- x %*% by
    r <- host_triangle(stacked_triangles(x, NULL, call))
    r <- r * sign(diag(r))
    by <- backsolve(r, diag(ncol(r)))
  }
  x %*% by
}

#' QR and singular value decompositions of split matrices
#'
#' `qr()` and `svd()` of a matrix whose rows are split over a team ([gpu_split()]). Each member decomposes its own rows.
#' The triangles, stacked in the order of ranks, are decomposed in this session (TSQR), so the data sent over the
#' network do not grow with the number of rows.
#'
#' The signs of the triangle's rows may differ from [base::qr()]. LINPACK's rule, applied to the stacked triangles,
#' determines the rank and the columns that are moved to the end; the columns of the stacked triangles have the same
#' norms as the columns of the matrix. Left singular vectors are the matrix times the right singular vectors divided by
#' the singular values, and `qr.Q()` is the matrix times the inverse of the triangle. A second and a third decomposition
#' make their columns orthogonal up to rounding errors.
#' @param x A split of a real matrix by rows, of finite numbers.
#' @param tol As in [base::qr()].
#' @param ... Not used.
#' @returns `qr()`: an object of class `c("gpu_split_qr", "qr")`. `qr.R()`, `qr.Q()`, `qr.coef()`, `qr.fitted()`,
#'   `qr.resid()` of this object and `qr.solve()` have methods; `qr.Q()`, fitted values and residuals are splits.
#'   `svd()`: a list of `d`, of the split `u` and of `v`.
#' @section Errors:
#' `verdigris_error_split` for other splits and functions; `verdigris_error_argument` for singular vectors of a matrix
#' whose rank is smaller than their number.
#' @references J. Demmel, L. Grigori, M. Hoemmen, J. Langou (2012): Communication-optimal parallel and sequential QR and
#'   LU factorizations. SIAM J. Sci. Comput. 34, A206-A239.
#' @examples
#' x <- gpu_split(as.matrix(iris[, 1:4]), gpu_team(c("cpu", "cpu")))
#' svd(x)$d
#' q <- qr(x)
#' crossprod(qr.Q(q))
#' qr.coef(q, x[, 1] + 2 * x[, 4])
#' @name split-decompositions
NULL

#' @rdname split-decompositions
#' @export
qr.gpu_split <- function(x, tol = 1e-07, ...) {
  call <- environment()
  if (...length()) rlang::check_dots_empty()
  check_real_row_split(x, "qr", call)
  stacked <- stacked_triangles(x, NULL, call)
  if (is.null(stacked)) stop_as_base("NA/NaN/Inf in foreign function call (arg 1)", call)
  colnames(stacked) <- colnames(x)
  found <- base::qr.default(stacked, tol = tol)
  r <- found$qr[seq_len(min(dim(x))), , drop = FALSE]
  r[row(r) > col(r)] <- 0
  structure(list(qr = kept_triangle(r, nrow(x)), rank = found$rank, qraux = found$qraux, pivot = found$pivot, x = x),
    class = c("gpu_split_qr", "qr"))
}

# Raises an error of qr.Q() and similar functions unless the columns are linearly independent. `qr` is a gpu_split_qr.
check_full_rank <- function(qr, name, call) {
  if (qr$rank < ncol(qr$x)) stop_verdigris("argument", sprintf("The matrix has rank %d, but %d columns.", qr$rank,
    ncol(qr$x)), sprintf("`%s()` of splits needs full rank: select the columns `qr$pivot[seq_len(qr$rank)]` first.",
    name), call = call)
}
orthogonal_of_split <- function(qr, call) {
  check_full_rank(qr, "qr.Q", call)
  if (nrow(qr$x) < ncol(qr$x)) refuse_split("qr.Q", call,
    "Only matrices with at least as many rows as columns are supported.")
  r <- qr$qr$r
  # the signs of the triangle's rows are kept, so that Q times R is x
  orthogonal_columns(qr$x, backsolve(r, diag(ncol(r))), call)
}
coefficients_of_split <- function(qr, y, call) {
  x <- qr$x
  if (!is_split(y)) y <- gpu_split(if (is_gpu(y)) collect(y) else y, state_of(x)$team)
  if (state_of(y)$kind != "vector") refuse_split("qr.coef", call, "The right side must be a vector.")
  check_alike(x, y, call)
  stacked <- stacked_triangles(x, y, call)
  if (is.null(stacked)) stop_as_base("NA/NaN/Inf in foreign function call (arg 5)", call)
  k <- ncol(x)
  out <- base::qr.coef(base::qr.default(stacked[, seq_len(k), drop = FALSE], tol = 1e-07), stacked[, k + 1L])
  names(out) <- colnames(x)
  list(coefficients = out, fitted = function() strip_columns(x %*% replace(unname(out), is.na(out), 0)), y = y)
}
# A matrix of one column as a vector.
strip_columns <- function(x) record_split(x, "part_column", list(x, 1L), kind = "vector", across = NULL, names = NULL)

svd_of_split <- function(x, nu, nv, call) {
  check_real_row_split(x, "svd", call)
  small <- min(dim(x))
  nu <- nu %||% small
  nv <- nv %||% small
  for (name in c("nu", "nv")) if (!is_count(get(name)) || get(name) > if (name == "nu") small else ncol(x))
    abort_argument(name, sprintf("a number up to %d for splits", small), get(name), call)
  stacked <- stacked_triangles(x, NULL, call)
  if (is.null(stacked)) stop_as_base("infinite or missing values in 'x'", call)
  found <- base::svd(stacked, nu = 0L, nv = max(nv, nu))
  out <- list(d = found$d[seq_len(small)])
  if (nu > 0) {
    kept <- seq_len(nu)
    if (!all(found$d[kept] > 1e-14 * found$d[1L])) stop_verdigris("argument", sprintf(
      "%d left singular vectors of a split of rank %d cannot be computed.", nu,
      sum(found$d > 1e-14 * found$d[1L])), "Set `nu` to the number of vectors that you need.", call = call)
    out$u <- orthogonal_columns(x, found$v[, kept, drop = FALSE] / rep(found$d[kept], each = ncol(x)), call)
  }
  if (nv > 0) out$v <- found$v[, seq_len(nv), drop = FALSE]
  out
}

# ---- correlations, tables and sums by groups -----------------------------------------------------------

split_covariance <- function(x, y, use, method, scale, call) {
  name <- if (scale) "cor" else "cov"
  if (!is.null(y) || !identical(use, "everything") || method != "pearson") refuse_split(name, call,
    "Only one split, with `use = \"everything\"` and Pearson's method, is supported.")
  state <- state_of(x)
  if (state$kind == "frame") x <- record_split(x, "part_numeric_matrix", list(x), kind = "matrix", margin = 1)
  if (!state$kind %in% c("matrix", "frame")) stop_as_base("supply both 'x' and 'y' or a matrix-like 'x'", call)
  remote_covariance(x, scale, call)
}
# In a member: a data frame of numbers as a matrix.
part_numeric_matrix <- function(x) {
  if (!all(vapply(x, function(column) is_number(column) && !is.object(collect(column)), NA)))
    stop_as_base(gettext("'x' must be numeric", domain = "R-stats"))
  out <- join(lapply(unname(as.list(x)), function(column) as_float64(as_gpu(column, device = running_member()$device))))
  dim(out) <- dim(x)
  with_dimnames(out, list(NULL, names(x)))
}

#' @importFrom stats weighted.mean
#' @export
weighted.mean.gpu_split <- function(x, w, ..., na.rm = FALSE) {
  frames_refused(x, "weighted.mean")
  if (missing(w)) return(mean(x, na.rm = na.rm))
  if (length(w) != length(x)) stop_as_base(gettext("'x' and 'w' must have the same length", domain = "R-stats"))
  prototype <- prototype_of(x)
  if (inherits(prototype, c("Date", "POSIXct", "difftime"))) {
    # base R's methods compute with the numbers
    value <- weighted.mean(record_split(x, "part_plain", list(x)), w, na.rm = na.rm)
    return(restored(value, prototype))
  }
  missing <- is.na(x)
  none <- missing & FALSE
  w <- none + if (is_split(w)) w * 1 else as.double(w)
  choose <- split_aware("ifelse")
  if (isTRUE(na.rm)) w <- choose(missing, 0, w)
  # as in base R, elements of weight 0 do not count, even if they are missing or infinite
  sum(choose(w != 0, x * w, 0)) / sum(w)
}

# In a member: the numbers of dates and the like.
part_plain <- function(x) as.double(unclass(x))

# Counts of a split vector's values, as table() returns them for the whole.
table_of_split <- function(x, name, call) {
  if (state_of(x)$kind != "vector") refuse_split("table", call, "Only vectors, such as `x[, 1]`, are supported.")
  gathered <- gathered_lists(x, "part_counts", list(), call)
  values <- unlist(lapply(gathered, `[[`, "values"))
  counts <- unlist(lapply(gathered, `[[`, "counts"))
  # a factor's levels, or all values in order
  levels <- unique(unlist(lapply(gathered, `[[`, "levels")))
  prototype <- prototype_of(x, call)
  shown <- levels
  if (inherits(prototype, "integer64") && is.null(values)) values <- character()
  if (is.null(levels)) {
    levels <- if (inherits(prototype, "integer64")) in_order_of_integers(unique(as.character(values))) else
      sort(unique(values))
    # like factor(), doubles that agree in 15 digits count as one value
    shown <- as.character(if (is.object(prototype) && !is.character(values)) restored(levels, prototype) else levels)
  }
  at <- factor(shown[match(values, levels)], unique(shown))
  found <- vapply(split(counts, at), sum, 1)
  out <- array(as_whole_counts(unname(found)), nlevels(at), stats::setNames(list(levels(at)), name))
  structure(out, class = "table")
}
# Sums of whole numbers, as integers if all fit.
as_whole_sums <- function(x) {
  if (all(is.na(x) | abs(x) <= .Machine$integer.max)) storage.mode(x) <- "integer"
  x
}
as_whole_counts <- function(n) if (all(n <= .Machine$integer.max)) as.integer(n) else n
# In a member: its distinct values, and how often each occurs; of a factor, its levels.
part_counts <- function(x) {
  if (is.factor(x)) return(list(values = levels(x), counts = as.double(base::tabulate(as.integer(x), nlevels(x))),
    levels = levels(x)))
  if (is_gpu(x) && is_int64(x)) {
    found <- table(x)
    return(list(values = names(found), counts = as.double(found)))
  }
  x <- as.vector(if (is_gpu(x)) collect(strip(x)) else x)
  values <- sort(unique(x))
  list(values = values, counts = as.double(base::tabulate(match(x, values), length(values))))
}

#' @export
rowsum.gpu_split <- function(x, group, reorder = TRUE, na.rm = FALSE, ...) {
  call <- environment()
  frames_refused(x, "rowsum", call)
  if (type_of(x) %in% c("logical", "complex") || is_no_number(x, call)) stop_as_base("'x' must be numeric", call)
  if (is_split(group)) check_alike(x, group, call)
  if (state_of(x)$margin == 2) refuse_split("rowsum", call, "Only matrices split by rows are supported.")
  known <- if (!is_split(group)) groups_known(group, dim(x)[1L] %||% length(x), reorder, call)
  gathered <- gathered_lists(x, "part_rowsum", list(if (is.null(known)) group else team_operand(known$codes, x),
    isTRUE(na.rm)), call)
  groups <- unlist(lapply(gathered, `[[`, "groups"))
  if (anyNA(if (is.null(known)) groups else known$names))
    warn_as_base(gettext("missing values for 'group'", domain = "R-base"), call)
  all <- if (!is.null(known)) seq_along(known$names) else if (!reorder) unique(groups) else {
    levels <- levels(group)
    all <- unique(groups)
    # base R sorts the values of a factor by its levels
    if (is.null(levels)) sort(all, na.last = TRUE) else all[base::order(match(all, levels))]
  }
  p <- state_of(x)$across %||% 1L
  # labels are those of dates and the like, not of their numbers
  prototype <- if (is.null(known)) prototype_of(group, call)
  labels <- if (!is.null(known)) known$names else as.character(if (is.numeric(all) && is.object(prototype) &&
    !inherits(prototype, c("factor", "integer64"))) restored(all, prototype) else all)
  out <- base::matrix(0, length(all), p, dimnames = list(labels, state_of(x)$names))
  for (part in gathered) if (length(part$groups)) {
    at <- match(part$groups, all)
    out[at, ] <- out[at, ] + base::matrix(part$sums, ncol = p)
  }
  if (type_of(x) %in% c("integer", "logical")) as_whole_sums(out) else out
}
# Codes from 1 of an ordinary grouping vector of length n, and the groups' names.
groups_known <- function(group, n, reorder, call) {
  if (is_gpu(group)) group <- if (is_int64(group)) strip(group) else collect(group)
  if (is_host_int64(group)) group <- on_cpu(group)
  if (!is.atomic(group) && !is_gpu(group) || length(group) != n)
    stop_as_base(gettext("incorrect length for 'group'", domain = "R-base"), call)
  values <- unique(group)
  if (reorder) values <- values[order(values, na.last = TRUE)]
  list(codes = as.vector(match(group, values)), names = as.character(values))
}
part_rowsum <- function(x, group, na.rm) {
  if (is.factor(group)) group <- as.character(group)
  if (!length(group)) return(list(groups = if (is_gpu(group)) collect(group) else group, sums = numeric()))
  host <- if (is_gpu(group)) collect(group) else group
  groups <- unique(host)
  codes <- as_gpu(match(host, groups), device = running_member()$device)
  y <- widen_for_sum(as_gpu(x))
  if (na.rm) y <- select_by(is.na(y), 0, y)
  if (is.null(dim(y))) dim(y) <- c(length(y), 1L)
  list(groups = groups, sums = as.vector(collect(group_sums(y, codes, length(groups)))))
}

# apply() over the margin that is split: each member holds whole rows (or columns), so it can call the function on its
# own.
split_apply <- function(x, margin, f, more, simplify, call) {
  state <- state_of(x)
  if (state$kind != "matrix" || !is_count(margin, 1) || margin != state$margin || !isTRUE(simplify))
    refuse_split("apply", call, "Only the margin that is split, such as the rows, is supported.")
  record_split(x, "part_apply", list(x, margin, f, more), kind = "vector", margin = 1, across = NULL, names = NULL)
}
part_apply <- function(x, margin, f, more) {
  out <- do.call(apply, c(list(x, margin, f), more))
  if (!is.atomic(out) || length(dim(out)) > 1L) stop_verdigris("split",
    "`apply()` of splits needs a function that returns one number or string for each row.",
    "`gpu_together(team, f, x, keep = TRUE)` keeps other values on the members.", call = NULL)
  if (is_number(out)) as_gpu(unname(as.vector(out)), device = running_member()$device) else unname(out)
}
