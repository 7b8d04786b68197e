# scale(), prcomp() and kmeans() of matrices that are split by rows: each member contributes sums over its rows.

# ---- scale() and prcomp() --------------------------------------------------------------------------------------------

# Raises an error unless x is a matrix split by rows.
check_row_split <- function(x, name, call) {
  frames_refused(x, name, call)
  state <- state_of(x)
  if (state$kind != "matrix" || state$margin != 1) refuse_split(name, call,
    "Only matrices split by rows are supported.")
}

# `center` or `scale` of scale() for p columns: TRUE, FALSE, or a number for each column.
given_by_column <- function(v, name, p, call) {
  if (is_flag(v)) return(v)
  if (!is_number(v) || length(v) != p)
    stop_as_base(gettextf("length of '%s' must equal the number of columns of 'x'", name, domain = "R-base"), call)
  as.vector(collect(v))
}

#' @export
scale.gpu_split <- function(x, center = TRUE, scale = TRUE) {
  check_row_split(x, "scale", environment())
  p <- ncol(x)
  call <- environment()
  center <- given_by_column(center, "center", p, call)
  if (isTRUE(center)) center <- colMeans(x, na.rm = TRUE)
  if (is.numeric(center)) x <- sweep(x, 2, center)
  scale <- given_by_column(scale, "scale", p, call)
  if (isTRUE(scale)) {
    known <- nrow(x) - colSums(is.na(x))
    scale <- sqrt(colSums(x^2, na.rm = TRUE) / pmax(1, known - 1))
  }
  if (is.numeric(scale)) x <- sweep(x, 2, scale, "/")
  if (is.numeric(center)) attr(x, "scaled:center") <- center
  if (is.numeric(scale)) attr(x, "scaled:scale") <- scale
  x
}

# The collected values of a split or reader, with the attributes that scale() gave it.
with_scaling <- function(values, x) {
  for (name in c("scaled:center", "scaled:scale")) if (!is.null(attr(x, name))) attr(values, name) <- attr(x, name)
  values
}

#' Components and clusters of split matrices
#'
#' `prcomp()`, [kmeans()][stats::kmeans] and [gpu_kmeans()] of a matrix whose rows are split over a team
#' ([gpu_split()]). A member contributes sums over its own rows, so the data sent over the network do not grow with the
#' number of rows.
#'
#' Components are the eigenvectors of the columns' cross products after centring, which takes two collectives. So
#' standard deviations below about 1e-8 of the largest are rounding errors; [prcomp()][principal] of an array would find
#' them. The signs of the rotation are determined as by [prcomp()][principal] of arrays; the scores are a split.
#'
#' Each iteration of Lloyd's algorithm takes one collective for all starts. It adds the sums and sizes of the clusters,
#' and the number of rows that have moved. From the same centres it finds base R's clusters. Initial centres that are
#' not given are rows drawn from the whole matrix; k-means++ chooses them from a sample of at most 50 rows for each
#' cluster (at least 1000). Other algorithms of [stats::kmeans()] move one row after the other, and are refused. In a
#' team of one member the cost is the same as for an array, except for k-means++.
#' @param x A split of a matrix by rows, of finite numbers.
#' @param retx,center,scale.,tol,rank.,... As in [stats::prcomp()].
#' @returns Objects of base R's classes `prcomp` and `kmeans`: scores and clusters are splits, the other components are
#'   ordinary.
#' @section Errors:
#' Base R's errors and messages; `verdigris_error_split` for an `x` that is not a matrix split by rows, and for other
#' algorithms; the errors of [gpu_together()].
#' @examples
#' team <- gpu_team(c("cpu", "cpu"))
#' x <- gpu_split(as.matrix(iris[, 1:4]), team)
#' summary(prcomp(x, scale. = TRUE))
#' set.seed(1)
#' fit <- kmeans(x, 3, nstart = 4, algorithm = "Lloyd")
#' fit$size
#' table(collect(fit$cluster), iris$Species)
#' @name split-models
NULL

#' @rdname split-models
#' @export
prcomp.gpu_split <- function(x, retx = TRUE, center = TRUE, scale. = FALSE, tol = NULL, rank. = NULL, ...) {
  chkDots(...)
  call <- environment()
  check_row_split(x, "prcomp", call)
  n <- nrow(x)
  p <- ncol(x)
  if (!is_flag(retx)) abort_argument("retx", "TRUE or FALSE", retx)
  check_kept(tol, rank., call)
  if (!all(is.finite(x))) stop_as_base(base_message("infinite or missing values in '%s'", "x"))
  z <- scale(x, center, scale.)
  columns <- list(center = attr(z, "scaled:center"), scale = attr(z, "scaled:scale"))
  if (any(columns$scale == 0)) stop_as_base("cannot rescale a constant/zero column to unit variance")
  found <- eigen(crossprod(z), symmetric = TRUE)
  small <- min(n, p)
  k <- min(trunc(rank. %||% small), small)
  fit <- principal_fit(list(d = sqrt(pmax(found$values[seq_len(small)], 0)), v = found$vectors[, seq_len(k), drop =
    FALSE]), columns, n, k, tol, list(NULL, colnames(x)), NULL, FALSE)
  if (retx) fit$x <- z %*% fit$rotation
  fit
}

# ---- kmeans() ----------------------------------------------------------------------------------------------------

# In a member: the rows in the form that products need, made once; and the codes, which are the clusters' numbers, an
# array for each start that has not converged.
part_space <- function(x, largest) {
  x <- as_gpu(x)
  if (length(x)) product_space(x, largest)
}
part_nearest <- function(x, space, centers) {
  x <- as_gpu(x)
  if (!length(x)) return(lapply(centers, function(m) gpu_zeros(0, dtype = "int32", device = gpu_device(x))))
  nearest_centers(x, space, centers)
}
# For each start: how many codes have changed, then the clusters' sizes and sums. Start j was number `before[j]` in
# `last`, the codes of the previous iteration.
stat_clusters <- function(codes, x, last, before, k) {
  if (!length(x)) return(numeric(length(codes) * (1 + k * (1 + ncol(x)))))
  x <- as_gpu(x)
  n <- as.double(nrow(x))
  queued <- lapply(seq_along(codes), function(j) {
    changed <- if (!is.null(last)) gpu_compute(.Call(C_reduce_groups, "sum", codes[[j]] != last[[before[j]]], FALSE,
      c(1, n, 1), FALSE))
    c(list(changed = changed), queued_cluster_sums(x, codes[[j]], k))
  })
  later(function() unlist(lapply(queued, function(sums) c(if (is.null(last)) n else .Call(C_collect,
    sums$changed), .Call(C_collect, sums$size)[seq_len(k)], collect(sums$sums)))))
}
stat_within <- function(codes, x, place, centers) {
  if (!length(x)) return(numeric(nrow(centers)))
  squares_within(as_gpu(x), list(cluster = codes[[place]], centers = centers))
}
part_rows <- function(x, at) as.matrix(x[at, , drop = FALSE])

# Rows of the whole, as an ordinary matrix in the order of `at`.
rows_of_split <- function(x, at, call) {
  state <- state_of(x)
  if (state$team$engine$kind == "env") refuse_split("kmeans", call, "In a launcher's team `centers` must be a matrix.")
  ends <- cumsum(state$layout$counts)
  rank <- findInterval(at - 1, ends) + 1L
  own <- structure(function(k) at[rank == k] - (ends - state$layout$counts)[k], class = "team_each")
  task <- list(f = part_rows, args = list(task_argument(x), own))
  parts <- request_all(state$team, function(k) task, "Rows could not be read", call)
  out <- base::matrix(0, length(at), ncol(x))
  for (k in seq_along(parts)) if (any(rank == k)) out[rank == k, ] <- collect(parts[[k]])
  out
}

# Refuses algorithms other than Lloyd's.
check_lloyd <- function(algorithm, seeding, iter.max, nstart, refuse, call) {
  method <- if (is.character(algorithm)) KMEANS[pmatch(algorithm[1L], KMEANS)]
  if (is.null(seeding) && !isTRUE(method %in% c("Lloyd", "Forgy"))) refuse("kmeans", call,
    "Only `algorithm = \"Lloyd\"` is supported.")
  for (name in c("iter.max", "nstart")) if (!is_count(get(name), 1)) abort_argument(name, "one number, 1 or more",
    get(name), call)
}

# The centers of each start: rows drawn from n, or chosen among such rows by k-means++ on `device`. `rows(at)` returns
# rows as an ordinary matrix.
starts_among <- function(n, k, nstart, seeding, rows, call, device = "cpu") {
  starts <- lapply(seq_len(nstart), function(s) {
    if (is.null(seeding) || seeding == "random") return(rows(sample.int(n, k)))
    kmeans_plus_plus(as_gpu(rows(sample.int(n, min(n, max(1000, 50 * k)))), device = device), k, call)
  })
  if (any(vapply(starts, function(start) any(duplicated(start)), NA)))
    stop_as_base("initial centers are not distinct", call)
  starts
}

kmeans_of_split <- function(x, centers, iter.max, nstart, algorithm, seeding, call) {
  check_row_split(x, "kmeans", call)
  check_lloyd(algorithm, seeding, iter.max, nstart, refuse_split, call)
  n <- nrow(x)
  largest <- max(abs(range(x)))
  finite_or_stop(largest, 1L, call)
  if (length(centers) > 1L) {
    if (NCOL(centers) != ncol(x)) stop_as_base("must have same number of columns in 'x' and 'centers'", call)
    starts <- list(centers_given(centers, n, call))
  } else {
    if (!is_count(centers, 1)) abort_argument("centers", "a number of clusters, or a matrix of centers", centers, call)
    k <- trunc(centers)
    if (n < k) stop_as_base("more cluster centers than data points", call)
    team <- state_of(x)$team
    starts <- starts_among(n, k, nstart, seeding, function(at) rows_of_split(x, at, call), call, if (are_here(team))
      team$members$device[1L] else "cpu")
  }
  fits <- lloyd_of_split(x, starts, iter.max, largest)
  fit <- least_within(fits, iter.max)
  dimnames(fit$centers) <- list(as.character(seq_len(nrow(fit$centers))), colnames(x))
  fit$cluster <- record_split(x, "part_element", list(fit$codes, fit$place), kind = "vector", across = NULL,
    names = NULL)
  kmeans_object(fit, total_squares(x, call), iter.max)
}

# A list for each start, as lloyd() returns it. The codes of a fit are element `place` of the split `codes`, which holds
# those of all starts in an iteration.
lloyd_of_split <- function(x, starts, iter.max, largest) {
  k <- nrow(starts[[1L]])
  each <- 1 + k * (1 + ncol(x))
  of_parts <- function(f, args) record_split(x, f, args, kind = "object", across = NULL, names = NULL)
  space <- of_parts("part_space", list(x, largest))
  # the space may be a copy of the rows
  on.exit(free_parts(space))
  fits <- lapply(starts, function(centers) list(centers = centers, iter = iter.max + 1L))
  active <- seq_along(fits)
  last <- before <- NULL
  for (turn in seq_len(iter.max)) {
    codes <- of_parts("part_nearest", list(x, space, lapply(fits[active], `[[`, "centers")))
    totals <- base::matrix(reduced(codes, "stat_clusters", list(x, last, before, k)), each)
    moved <- totals[1L, ] > 0
    for (j in seq_along(active)) {
      fit <- fits[[active[j]]]
      fit[c("codes", "place")] <- list(codes, j)
      if (moved[j]) {
        fit$size <- as.integer(totals[1L + seq_len(k), j])
        fit$centers <- base::matrix(totals[-seq_len(1L + k), j], k) / fit$size
      } else {
        fit$iter <- turn
      }
      fits[[active[j]]] <- fit
    }
    active <- active[moved]
    if (!length(active)) break
    last <- codes
    before <- base::which(moved)
  }
  lapply(fits, function(fit) {
    # base R reports one iteration for one cluster
    fit$iter <- if (k == 1L) 1L else as.integer(fit$iter)
    fit$withinss <- as.vector(reduced(fit$codes, "stat_within", list(x, fit$place, fit$centers)))
    fit
  })
}
