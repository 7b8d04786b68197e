# k-means and nearest neighbours of readers: a pass over the blocks for each iteration, or for each block of queries.

# ---- kmeans() ----------------------------------------------------------------------------------------------------

# Arguments are those of kmeans_of_split().
kmeans_of_reader <- function(x, centers, iter.max, nstart, algorithm, seeding, call) {
  if (x$frame) refuse_reader("kmeans", call, "Only matrices and vectors are supported.")
  check_lloyd(algorithm, seeding, iter.max, nstart, refuse_reader, call)
  n <- rows_of_reader(x)
  p <- if (is_vector_reader(x)) 1 else as.double(x$dim[2L])
  if (n == 0 || p == 0) abort_argument("x", "a matrix or vector with elements", x, call)
  given <- length(centers) > 1L
  if (given && NCOL(centers) != p) stop_as_base("must have same number of columns in 'x' and 'centers'", call)
  if (!given && !is_count(centers, 1))
    abort_argument("centers", "a number of clusters, or a matrix of centers", centers, call)
  if (!given && n < trunc(centers)) stop_as_base("more cluster centers than data points", call)
  largest <- max(abs(range(x)))
  finite_or_stop(largest, 1L, call)
  starts <- if (given) list(centers_given(centers, n, call)) else starts_among(n, trunc(centers), nstart, seeding,
    function(at) plain_rows(if (is_vector_reader(x)) base::matrix(x[at]) else x[at, , drop = FALSE]), call)
  fits <- lloyd_of_reader(x, starts, trunc(iter.max), largest, call)
  fit <- least_within(fits, iter.max)
  near <- block_function(function(block) nearest_in_block(block, list(centers), largest)[[1L]],
    list(centers = fit$from, largest = largest))
  rows <- if (is_vector_reader(x)) x$dimnames else x$dimnames[[1L]]
  fit$cluster <- mapped_reader(x, near, n, rows, sprintf("clusters of %s", x$label), "int32")
  dimnames(fit$centers) <- list(as.character(seq_len(nrow(fit$centers))), if (!is_vector_reader(x)) x$dimnames[[2L]])
  kmeans_object(fit, sum(column_squares(x, call)$squares), iter.max)
}

nearest_in_block <- function(block, centers, largest) {
  y <- strip_names(matrix_of_rows(block))
  finished(nearest_centers(y, product_space(y, largest), centers))
}

# Runs all starts. Returns a list for each, as lloyd() does, with `from`, the centers that the final clusters are
# nearest to.
lloyd_of_reader <- function(x, starts, iter.max, largest, call) {
  fits <- lapply(starts, function(centers) list(centers = centers, iter = iter.max + 1L))
  active <- seq_along(fits)
  for (turn in seq_len(iter.max)) {
    totals <- over_blocks(x, function(block) {
      y <- strip_names(matrix_of_rows(block))
      codes <- nearest_in_block(y, lapply(fits[active], `[[`, "centers"), largest)
      lapply(seq_along(active), function(j) unlist(cluster_sums(y, codes[[j]], nrow(fits[[active[j]]]$centers))))
    }, function(a, b) Map(`+`, a, b), 1, call = call)
    moved <- vapply(seq_along(active), function(j) !identical(totals[[j]], fits[[active[j]]]$totals), NA)
    for (j in seq_along(active)) {
      fit <- fits[[active[j]]]
      fit$from <- fit$centers
      if (moved[j]) {
        k <- nrow(fit$centers)
        fit$totals <- totals[[j]]
        fit$size <- as.integer(fit$totals[seq_len(k)])
        fit$centers <- base::matrix(fit$totals[-seq_len(k)], k) / fit$size
      } else {
        fit$iter <- turn
      }
      fits[[active[j]]] <- fit
    }
    active <- active[moved]
    if (!length(active)) break
  }
  within <- over_blocks(x, function(block) {
    y <- strip_names(matrix_of_rows(block))
    codes <- nearest_in_block(y, lapply(fits, `[[`, "from"), largest)
    Map(function(fit, code) squares_within(y, list(cluster = code, centers = fit$centers)), fits, codes)
  }, function(a, b) Map(`+`, a, b), 1, call = call)
  Map(function(fit, within) {
    # base R reports one iteration for one cluster
    fit$iter <- if (nrow(fit$centers) == 1L) 1L else as.integer(fit$iter)
    fit$withinss <- within
    fit
  }, fits, within)
}

# ---- gpu_knn() -------------------------------------------------------------------------------------------------------

knn_of_reader <- function(data, query, k, metric, exclude_self, call) {
  for (x in list(data, query)) if (is_reader(x) && x$frame) refuse_reader("gpu_knn", call,
    "Only matrices and vectors are supported.")
  if (is_split(data) || is_split(query)) refuse_reader("gpu_knn", call, "Give a split and an array, or two readers.")
  if (!is_flag(exclude_self)) abort_argument("exclude_self", "TRUE or FALSE", exclude_self, call)
  if (exclude_self && !is.null(query)) stop_verdigris("argument", "`exclude_self` must be FALSE if there is a `query`.",
    "Without `query`, neighbours of the rows of `x` are searched among the other rows.", call = call)
  columns <- function(x) if (!is_reader(x)) NCOL(x) else if (is_vector_reader(x)) 1 else as.double(x$dim[2L])
  if (!is.null(query) && columns(query) != columns(data)) stop_verdigris("shape",
    sprintf("`query` has %s columns, `x` has %s.", format_count(columns(query)), format_count(columns(data))),
    "Give both the same columns, in the same order.", call = call)
  if (!is_reader(data)) {
    # ordinary data would be uploaded again for each block of queries, so they must be on a device
    if (!is_gpu(data)) abort_argument("x", "a numeric matrix or vector on a device, or a reader", data, call)
    found <- over_blocks(query, function(block) lapply(knn_of_arrays(data, block, k, metric, FALSE), collect), NULL, 1,
      gpu_device(data), call)
    return(below_each_other(found, k))
  }
  n <- rows_of_reader(data)
  if (!is_count(k, 1)) abort_argument("k", "one number, 1 or more", k, call)
  k <- trunc(as.double(k))
  if (k > n - exclude_self) stop_verdigris("argument", sprintf("`k` is %s, but `x` has %s%s.", format_count(k),
    format_count(n), if (exclude_self) " rows, one of which is the query" else " rows"), "Give a smaller `k`.",
    call = call)
  if (!is.null(query) && !is_reader(query)) {
    if (is.data.frame(query)) query <- as.matrix(collect(query))
    if (!is_rows(query)) abort_argument("query", "a numeric matrix or vector, a reader, or NULL", query, call)
    return(nearest_in_reader(data, query, k, metric, NULL, call))
  }
  before <- 0
  found <- over_blocks(query %||% data, function(block) {
    own <- if (exclude_self) before
    before <<- before + NROW(block)
    lapply(nearest_in_reader(data, block, k, metric, own, call), collect)
  }, NULL, 1, call = call)
  below_each_other(found, k)
}

below_each_other <- function(found, k) lapply(c(index = "index", distance = "distance"), function(name) {
  if (length(found)) do.call(base::rbind, lapply(found, `[[`, name)) else
    base::matrix(if (name == "index") integer() else numeric(), 0L, k)
})

# The k nearest rows of a reader to queries, an array or ordinary, in one pass. If `own` is a number, the queries are
# the reader's rows after the first `own`, and no row is a neighbour of itself.
nearest_in_reader <- function(data, query, k, metric, own, call) {
  asked <- k + !is.null(own)
  before <- 0
  narrow <- NULL
  here <- NULL
  best <- over_blocks(data, function(block) {
    block <- strip_names(matrix_of_rows(block))
    if (is.null(here)) {
      rows <- if (is_gpu(query)) query else as.matrix(query)
      here <<- strip_names(matrix_of_rows(as_gpu(rows, dtype = if (!is_gpu(query)) host_dtype(query, block), device =
        gpu_device(block))))
      narrow <<- if (is_narrow(block) && is_narrow(here)) product_dtype(block, here)
    }
    found <- knn_of_arrays(block, here, min(asked, nrow(block)), metric, FALSE, raw = TRUE)
    found$index <- as_float64(found$index) + before
    before <<- before + nrow(block)
    lapply(found, gpu_compute)
  }, function(a, b) merged_nearest(a, b, asked), 1, if (is_gpu(query)) gpu_device(query), call)
  if (!is.null(own)) {
    m <- nrow(here)
    itself <- best$index == repeated(gpu_seq(own + 1, by = 1, length.out = m, device = gpu_device(here)), times = asked)
    best$distance <- ifelse(itself, Inf, best$distance)
    best <- nearest_of_each(best, k)
  }
  distance <- switch(metric, euclidean = sqrt(best$distance), cosine = best$distance / 2, best$distance)
  list(index = gpu_compute(if (rows_of_reader(data) <= .Machine$integer.max) gpu_cast(best$index, "int32") else
    best$index), distance = gpu_compute(if (is.null(narrow)) distance else gpu_cast(distance, narrow)))
}

# Merges the neighbours that were found in a block and in the next one.
merged_nearest <- function(a, b, k) nearest_of_each(list(index = cbind(a$index, b$index), distance = cbind(a$distance,
  b$distance)), k)

# The k nearest of each row's candidates; if they are equally near, the first of them.
nearest_of_each <- function(found, k) {
  d <- dim(found$distance)
  k <- min(k, d[2L])
  device <- gpu_device(found$distance)
  at <- .Call(C_order, strip(found$distance), FALSE)
  at <- at[.Call(C_order, (at - 1L) %% d[1L], FALSE)]
  place <- at[repeated(gpu_seq(0, by = d[2L], length.out = d[1L], device = device), times = k) +
    repeated(gpu_seq(1, by = 1, length.out = k, device = device), each = d[1L])]
  lapply(found, function(part) {
    out <- strip(part)[place]
    dim(out) <- c(d[1L], k)
    gpu_compute(out)
  })
}
