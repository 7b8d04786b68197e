# k-means: kmeans() for arrays, and gpu_kmeans().
#
# Lloyd's algorithm on a device. A matrix product gives the distances of a block of rows to the centers of all starts
# at once (product_space() in stats-distance.R); only the nearest center is kept. Rows for which rounding could change
# the nearest center are compared again, by differences. So each iteration has base R's clusters.

#' k-means clustering
#'
#' [stats::kmeans()] of an array, and `gpu_kmeans()`, which chooses initial centres by k-means++.
#'
#' @section Algorithms:
#' `"Lloyd"` (or `"Forgy"`; Lloyd 1982) is computed on the device. From the same centres it finds base R's clusters,
#' centres and number of iterations, up to the rounding of means, and after [set.seed()] it draws base R's initial
#' centres. A matrix product computes the distances to the centres, for a block of rows at a time. If its rounding
#' errors leave open which centre is nearest, the distances of the row are computed from differences in float64. The
#' sums of clusters are computed in float64. With `nstart` one product serves all starts that have not yet converged.
#'
#' `"Hartigan-Wong"` (base R's default) and `"MacQueen"` move one row after the other, which does not suit a GPU. Base R
#' computes them on the host (see option `verdigris.host_access` in [verdigris-package]). On the cpu device base R
#' computes Lloyd's algorithm too.
#'
#' k-means++ (Arthur and Vassilvitskii 2007) draws each centre from the rows, with a probability proportional to the
#' squared distance from the nearest centre drawn before. Each draw uses one number of R's generator.
#'
#' A [gpu_reader()] is read once in each iteration, for all starts, and three times more; Lloyd's algorithm ends when
#' the sums and sizes of the clusters equal those of the previous iteration. Initial centres that are not given are the
#' rows that base R would draw (with `nstart` only if all rows are distinct); k-means++ chooses them from a sample of at
#' most 50 rows for each cluster (at least 1000). `cluster` is then a reader that finds the nearest centre of each row
#' that it reads.
#'
#' To find distinct rows (with `nstart`, and if it drew two equal rows) base R compares 15 significant digits. For
#' arrays, rows are distinct if any element differs.
#' @param x A matrix with a row for each observation, or a vector; a split of a matrix ([split-models]), or a
#'   [gpu_reader()]. All elements must be finite.
#' @param centers The number of clusters; for `kmeans()` also a matrix of initial centres, an array or an ordinary
#'   matrix.
#' @param iter.max,nstart,algorithm,trace As in [stats::kmeans()]. `trace` has an effect on `"Hartigan-Wong"` alone, as
#'   in base R.
#' @param seeding How `gpu_kmeans()` chooses initial centres: `"kmeans++"`, or `"random"` rows, as in `kmeans()`.
#' @returns An object of class `kmeans`, with base R's components and methods. `cluster` and `centers` are arrays on the
#'   device of `x` (`centers` in its float type), the others ordinary numbers. [collect()] returns an ordinary object.
#'   The call waits for the device, once in each iteration and start.
#' @section Memory:
#' In addition to `x`: a block of products (on a GPU 2 GiB, or an eighth of the free memory), 8 bytes for each row,
#' and 9 more for each start. If the rows are farther from the origin than from each other, a copy of `x` with its
#' columns centred. `x` is read in place if it is float64 or float32, and converted otherwise.
#' @section Errors:
#' Base R's errors and messages, such as "more cluster centers than distinct data points.", and base R's warnings ("did
#' not converge in 10 iterations"). `verdigris_error_argument` for invalid arguments of `gpu_kmeans()`;
#' `verdigris_error_memory`.
#' @references
#' Arthur, D. and Vassilvitskii, S. (2007) k-means++: the advantages of careful seeding. *Proceedings of the eighteenth
#' annual ACM-SIAM symposium on discrete algorithms*, 1027-1035.
#'
#' Lloyd, S. P. (1982) Least squares quantization in PCM. *IEEE Transactions on Information Theory* 28, 129-137.
#' @examples
#' x <- as_gpu(as.matrix(iris[, 1:4]), device = "cpu")
#' set.seed(1)
#' fit <- kmeans(x, 3, nstart = 4, algorithm = "Lloyd")
#' fit$size
#' table(fit$cluster, iris$Species)
#' gpu_kmeans(x, 3)$tot.withinss
#' @name kmeans
NULL

KMEANS <- c("Hartigan-Wong", "Lloyd", "Forgy", "MacQueen")

#' @rdname kmeans
#' @export
kmeans <- interposed("kmeans", c("x", "centers"), kmeans_of_array(x, if (missing(centers)) NULL else centers, iter.max,
  nstart, algorithm, trace), home = "stats", class = c("gpu_array", "gpu_split", "gpu_reader"))

kmeans_of_array <- function(x, centers, iter.max, nstart, algorithm, trace) {
  if (is_split(x)) return(kmeans_of_split(x, centers, iter.max, nstart, algorithm, NULL, parent.frame()))
  if (is_reader(x)) return(kmeans_of_reader(x, centers, iter.max, nstart, algorithm, NULL, parent.frame()))
  given <- list(iter.max = iter.max, nstart = nstart, algorithm = algorithm, trace = trace)
  method <- if (is.character(algorithm) && length(algorithm) == 1L) KMEANS[pmatch(algorithm, KMEANS)] else KMEANS[1L]
  # either a number of clusters or a matrix of centers
  known <- is_count(centers, 1) || length(centers) > 1L && is_rows(centers) && NCOL(centers) == NCOL(x)
  usable <- known && method %in% c("Lloyd", "Forgy") && is_rows(x) && is_count(iter.max, 1) && is_count(nstart, 1) &&
    nstart == trunc(nstart) && !base_clusters(x)
  if (!usable) return(clusters_by_base(x, centers, given))
  x <- matrix_of_rows(x)
  largest <- largest_magnitude(x)
  # base R decides about squares that overflow
  if (is.finite(largest) && largest > 1e150) return(clusters_by_base(x, centers, given))
  finite_or_stop(largest, 1L)
  starts <- if (length(centers) > 1L) list(centers_given(centers, nrow(x))) else drawn_starts(x, trunc(centers),
    nstart)
  best_of(x, lloyd(x, starts, iter.max, largest), iter.max)
}

#' @rdname kmeans
#' @export
gpu_kmeans <- function(x, centers, iter.max = 100L, nstart = 1L, seeding = c("kmeans++", "random")) {
  if (is_split(x)) return(kmeans_of_split(x, centers, iter.max, nstart, NULL, one_of("seeding", seeding, c("kmeans++",
    "random")), environment()))
  if (is_reader(x)) return(kmeans_of_reader(x, centers, iter.max, nstart, NULL, one_of("seeding", seeding,
    c("kmeans++", "random")), environment()))
  if (!is_gpu(x) || !is_rows(x)) abort_argument("x",
    "a numeric matrix or vector on a device, of one element or more; see `as_gpu()`", x)
  seeding <- one_of("seeding", seeding, c("kmeans++", "random"))
  for (name in c("centers", "iter.max", "nstart"))
    if (!is_count(get(name), 1)) abort_argument(name, "one number, 1 or more", get(name))
  x <- matrix_of_rows(x)
  k <- trunc(centers)
  if (k > nrow(x)) stop_verdigris("argument", "more cluster centers than data points",
    sprintf("`x` has %s rows, `centers` is %s.", format_count(nrow(x)), format_count(k)))
  largest <- largest_magnitude(x)
  if (!is.finite(largest) || largest > 1e150) stop_verdigris("argument",
    if (is.finite(largest)) "`x` has elements beyond 1e150, whose squares overflow." else
      "`x` has missing or infinite elements.",
    "Leave out such rows first: `x[which(rowSums(!is.finite(x)) == 0), ]`, or rescale the columns.")
  starts <- if (seeding == "random") drawn_starts(x, k, nstart) else lapply(seq_len(nstart), function(s)
    kmeans_plus_plus(x, k))
  if (base_clusters(x)) {
    # one center is passed as a number of clusters, since base R takes a single number so
    fits <- lapply(starts, function(centers) clusters_by_base(x, if (length(centers) > 1L) centers else 1L,
      list(iter.max = iter.max, algorithm = "Lloyd")))
    return(fits[[which.min(vapply(fits, `[[`, 0, "tot.withinss"))]])
  }
  best_of(x, lloyd(x, starts, iter.max, largest), iter.max)
}

#' @export
collect.kmeans <- collect.list

# ---- arguments ---------------------------------------------------------------------------------------------------

# Whether x is a numeric matrix, or a vector, whose elements are rows of one column each.
is_rows <- function(x) is_number(x) && !is.complex(x) && length(dim(x)) %in% c(0L, 2L) && length(x) > 0L

matrix_of_rows <- function(x) {
  if (length(dim(x)) == 2L) return(x)
  names <- names(x)
  x <- strip(x)
  dim(x) <- c(length(x), 1L)
  if (is.null(names)) x else with_dimnames(x, list(names, NULL))
}

base_clusters <- function(x) !is_gpu(x) || prefers_host(x)

clusters_by_base <- function(x, centers, given) {
  args <- c(list(x = if (is_gpu(x)) read_for(x) else x), if (!is.null(centers)) list(centers = host_copy(centers)),
    given)
  out <- call_base(stats::kmeans, args, parent.frame())
  if (is_gpu(x)) for (part in c("cluster", "centers")) {
    values <- out[[part]]
    out[part] <- list(NULL) # drops the list's reference, so that upload_result_like() need not copy
    out[[part]] <- upload_result_like(values, x)
  }
  out
}

# The largest magnitude; NaN or infinite if an element is missing or infinite.
largest_magnitude <- function(x) max(abs(range(strip(x))))

finite_or_stop <- function(largest, argument, frame = parent.frame()) {
  if (!is.finite(largest)) stop_as_base(base_message("NA/NaN/Inf in foreign function call (arg %d)", argument), frame)
}

centers_given <- function(centers, n, frame = parent.frame()) {
  centers <- if (is_gpu(centers)) collect(as_float64(matrix_of_rows(centers))) else as.matrix(centers)
  if (any(duplicated(centers))) stop_as_base("initial centers are not distinct", frame)
  if (n < nrow(centers)) stop_as_base("more cluster centers than data points", frame)
  finite_or_stop(max(abs(centers)), 4L, frame)
  plain_rows(centers)
}

# An ordinary matrix of doubles without names.
plain_rows <- function(m) base::matrix(as.double(m), nrow(m))

# ---- initial centers: a list of ordinary matrices ----------------------------------------------------------------

rows_at <- function(x, at) plain_rows(collect(as_float64(x[at, , drop = FALSE])))

# Draws rows as base R's kmeans() does.
drawn_starts <- function(x, k, nstart, frame = parent.frame()) {
  n <- nrow(x)
  if (nstart < 2) {
    first <- with_user_call(rows_at(x, sample.int(n, k)), frame)
    if (!any(duplicated(first))) return(list(first))
  }
  distinct <- distinct_rows(x)
  many <- if (is.null(distinct)) n else length(distinct)
  if (many < k) stop_as_base("more cluster centers than distinct data points.", frame)
  lapply(seq_len(nstart), function(s) {
    at <- sample.int(many, k)
    rows_at(x, if (is.null(distinct)) at else distinct[at])
  })
}

# The positions of rows that equal no earlier row; NULL if that is all rows. Equal rows have bitwise equal sums with
# random weights; rows with equal sums are compared by their elements.
distinct_rows <- function(x) {
  x <- strip_names(x)
  n <- nrow(x)
  y <- as_float64(x)
  weights <- strided(probes_for(ncol(x), y), PROBES * ncol(x), 1, ncol(x))
  sums <- rowSums(y * along_columns(weights, n))
  first <- match(sums, sums)
  own <- gpu_seq(1L, by = 1L, length.out = n, device = gpu_device(x))
  later <- which(first != own)
  if (!length(later)) return(NULL)
  if (!all(x[later, , drop = FALSE] == x[first[later], , drop = FALSE]))
    return(base::which(!base::duplicated(collect(y))))
  collect(which(first == own))
}

kmeans_plus_plus <- function(x, k, frame = parent.frame()) {
  n <- nrow(x)
  y <- as_float64(strip_names(x))
  at <- sample.int(n, 1L)
  least <- NULL
  while (length(at) < k) {
    center <- y[at[length(at)], , drop = FALSE]
    distance <- rowSums((y - along_columns(strip(center), n))^2)
    before <- least
    least <- gpu_compute(if (is.null(before)) distance else pmin(before, distance))
    free_all(before, if (!is.null(before)) distance)
    sums <- cumsum(least)
    last <- sums[n]
    total <- as.vector(last)
    if (total == 0) stop_as_base("more cluster centers than distinct data points.", frame)
    below <- sums <= stats::runif(1L) * total
    drawn <- min(sum(below) + 1, n)
    # sums are rounded: take another row if this one has distance 0, that is, has been drawn already
    its <- least[drawn]
    at <- c(at, if (as.vector(its) > 0) drawn else which.max(least))
    # recorded arrays and views keep their operands' memory alive
    free_all(below, last, sums, its)
  }
  rows_at(x, at)
}

# ---- Lloyd's algorithm ------------------------------------------------------------------------------------------

# Runs all starts. Returns for each a list of `cluster`, an array, `centers` (NaN for an empty cluster), `size`, `iter`.
lloyd <- function(x, starts, iter.max, largest) {
  space <- product_space(x, largest)
  fits <- lapply(starts, function(centers) list(centers = centers, iter = iter.max + 1L))
  active <- seq_along(fits)
  for (iter in seq_len(iter.max)) {
    codes <- finished(nearest_centers(x, space, lapply(fits[active], `[[`, "centers")))
    moved <- vapply(seq_along(active), function(j) {
      old <- fits[[active[j]]]$cluster
      is.null(old) || any(codes[[j]] != old)
    }, NA)
    for (j in seq_along(active)) {
      fit <- fits[[active[j]]]
      if (moved[j]) fit[c("cluster", "size", "centers")] <- c(list(codes[[j]]), means_of(x, codes[[j]],
        nrow(fit$centers))) else fit$iter <- iter
      fits[[active[j]]] <- fit
    }
    active <- active[moved]
    if (!length(active)) break
  }
  # base R counts one iteration for a single cluster
  lapply(fits, function(fit) {
    fit$iter <- if (nrow(fit$centers) == 1L) 1L else as.integer(fit$iter)
    fit$withinss <- squares_within(x, fit)
    fit
  })
}

# The nearest center of each row, the first of equals, for each of several matrices of centers: arrays of codes, once
# it is finished(), since how many rows need exact distances must be waited for.
nearest_centers <- function(x, space, centers) {
  n <- as.double(nrow(x))
  k <- as.double(nrow(centers[[1L]]))
  starts <- length(centers)
  all <- do.call(base::rbind, centers)
  empty <- is.na(all[, 1L])
  if (!isFALSE(space$origin)) all <- all - rep(as.vector(space$origin), each = nrow(all))
  all[empty, ] <- 0
  device <- gpu_device(x)
  y <- as_gpu(all, dtype = gpu_dtype(space$rows), device = device)
  # no row is near an empty cluster
  squares <- ifelse(as_gpu(empty, device = device), Inf, squares_of(y))
  y <- gpu_compute(2 * y)
  lower <- squares * (1 - space$margin)
  upper <- squares * (1 + space$margin)
  parts <- in_blocks(n, max(1, pairs_at_once(x) %/% (k * starts)), function(from, to) {
    rows <- to - from + 1
    product <- tcross_product(rows_of(space$rows, from, to), y)
    twice <- strip(product)
    shape <- c(starts, k, rows)
    distances <- along_columns(squares, rows) - twice
    at <- gpu_compute(.Call(C_reduce_groups, "which.min", distances, FALSE, shape, FALSE))
    # the index, from 0, of that center among those of all starts, and of each row's product with it
    place <- at + repeated(gpu_seq(0, by = k, length.out = starts, device = device), each = rows)
    own <- place * rows + repeated(gpu_seq(0, by = 1, length.out = rows, device = device), times = starts)
    nearest <- gpu_compute(elements_at(twice, own))
    limit <- elements_at(upper, place) - nearest + 2 * space$tiny + 2 * space$margin *
      repeated(strided(space$squares, n, 1, rows, start = from - 1), times = starts)
    limits <- strided(limit, c(rows, starts), c(1, 1, 2), c(rows, k, starts), step = c(1, 0, 1))
    least <- along_columns(lower, rows) - twice
    near <- least <= limits
    candidates <- .Call(C_reduce_groups, "sum", near, FALSE, shape, FALSE)
    out <- list(codes = gpu_compute(gpu_cast(at + 1, "int32")), doubtful = gpu_compute(candidates > 1))
    free_all(near, least, nearest, distances, twice, product)
    out
  })
  joined <- lapply(seq_len(starts), function(s) {
    of_start <- function(name) gpu_compute(join(lapply(parts, function(part) {
      rows <- length(part[[name]]) / starts
      strided(part[[name]], length(part[[name]]), 1, rows, start = (s - 1) * rows)
    })))
    list(codes = of_start("codes"), doubtful = of_start("doubtful"))
  })
  later(function() lapply(seq_len(starts), function(s) {
    codes <- joined[[s]]$codes
    doubtful <- which(joined[[s]]$doubtful)
    if (!length(doubtful)) return(codes)
    known <- base::which(!is.na(centers[[s]][, 1L]))
    exact <- as_gpu(centers[[s]][known, , drop = FALSE], device = device)
    step <- max(1, pairs_at_once(x) %/% max(length(known), ncol(x)))
    found <- in_blocks(length(doubtful), step, function(from, to) {
      gap <- pairs_of(strip_names(x[doubtful[from:to], , drop = FALSE]), exact, "euclidean")
      out <- gpu_compute(gpu_cast(of_rows("which.min", gap, c(to - from + 1, length(known))) + 1, "int32"))
      free_all(gap)
      out
    })
    codes[doubtful] <- as_gpu(known, device = device)[join(found)]
    codes
  }))
}

# The sizes of clusters and the means of their rows, ordinary numbers.
means_of <- function(x, codes, k) {
  sums <- cluster_sums(x, codes, k)
  list(sums[[1L]], sums[[2L]] / sums[[1L]])
}

cluster_sums <- function(x, codes, k) {
  sums <- queued_cluster_sums(x, codes, k)
  list(as.integer(.Call(C_collect, sums$size)[seq_len(k)]), base::matrix(collect(sums$sums), k))
}
# The same as arrays, not waited for.
queued_cluster_sums <- function(x, codes, k) {
  x <- strip_names(x)
  # sums of integers would be int64
  if (!is_narrow(x)) x <- as_float64(x)
  list(size = .Call(C_count_bins, codes, 1, k), sums = gpu_compute(group_sums(x, codes, k)))
}

# The sum of squared distances of each cluster's rows to its center.
squares_within <- function(x, fit) {
  x <- strip_names(x)
  centers <- as_gpu(fit$centers, device = gpu_device(x))
  parts <- in_blocks(nrow(x), max(1, elements_at_once(x) %/% ncol(x)), function(from, to) {
    near <- centers[strided(fit$cluster, nrow(x), 1, to - from + 1, start = from - 1), , drop = FALSE]
    gpu_compute(rowSums((as_float64(rows_of(x, from, to)) - near)^2))
  })
  as.vector(reduce_by(join(parts), fit$cluster, nrow(centers), "sum", FALSE, NULL))
}

warn_of_fits <- function(fits, iter.max) {
  for (fit in fits) {
    if (fit$iter > iter.max) warning(sprintf(ngettext(iter.max, "did not converge in %d iteration",
      "did not converge in %d iterations", domain = "R-stats"), as.integer(iter.max)), call. = FALSE, domain = NA)
    if (any(fit$size == 0L)) warning("empty cluster: try a better set of initial centers", call. = FALSE)
  }
}

# The start with the least sum of squares, as base R's object. Each start gives its own warnings.
best_of <- function(x, fits, iter.max) {
  fit <- least_within(fits, iter.max)
  if (!is.null(rownames(x))) names(fit$cluster) <- rownames(x)
  fit$centers <- with_dimnames(match_precision(as_gpu(fit$centers, device = gpu_device(x)), x),
    list(as.character(seq_len(nrow(fit$centers))), colnames(x)))
  y <- as_float64(strip_names(x))
  kmeans_object(fit, sum((y - along_columns(colMeans(y), nrow(y)))^2), iter.max)
}

# The fit with the least sum of squares. Each fit gives its own warnings.
least_within <- function(fits, iter.max) {
  warn_of_fits(fits, iter.max)
  fits[[which.min(vapply(fits, function(fit) sum(fit$withinss), 0))]]
}

# Base R's object. `total` is the sum of squares about the mean of all rows.
kmeans_object <- function(fit, total, iter.max) {
  within <- sum(fit$withinss)
  structure(class = "kmeans", list(cluster = fit$cluster, centers = fit$centers, totss = total + 0, withinss =
    fit$withinss, tot.withinss = within, betweenss = total - within, size = fit$size, iter = fit$iter,
    ifault = if (fit$iter > as.integer(iter.max)) 2L))
}
