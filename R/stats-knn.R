# Nearest neighbours: gpu_knn().
#
# Works on a block of queries at a time. A matrix product gives bounds of all squared distances (product_space() in
# stats-distance.R), or a kernel gives the distances themselves. The columns are divided into groups. The k-th smallest
# of the groups' least upper bounds is an upper bound of the k-th distance, and only pairs below it are compared again.
# So the block is read twice, whatever k is.

#' Nearest neighbours
#'
#' Finds the `k` rows of `x` that are nearest to each row of `query`. The search is exact: every pair is compared.
#'
#' @section How it is computed:
#' For `"euclidean"` and `"cosine"` a matrix product bounds the distances of a block of queries to all rows of `x`;
#' for `"euclidean"` in the precision of the arrays (see [matmult] for float32), for `"cosine"` in float64. The pairs
#' within the bounds, somewhat more than `k` for each query, are compared by their differences in float64. So distances
#' are as accurate as those of [stats::dist()], even between rows that are nearly equal or far from the origin, and
#' rounding in the product does not change which neighbours are found. For `"manhattan"` and `"maximum"` one kernel
#' computes all distances of a block by differences, in float64.
#'
#' Neighbours are ordered by their distances as computed in float64. For equal distances the smaller index comes first.
#' @section Splits:
#' If `x` is a split by rows ([gpu_split()]), each member searches its own rows, and the result is the `k` nearest rows
#' of all members. If the queries are not split, the results are arrays on the current device. If `query` is a split (by
#' default it is `x`), the results are splits like it; the queries then pass through this session, one member after the
#' other. If only `query` is a split, `x` is sent to all members.
#'
#' A [gpu_reader()] as `x` is read once if `query` is an array, and once for each block of `query` if `query` is a
#' reader (by default it is `x`). `x` may also be an array if `query` is a reader.
#' @section Memory:
#' A block of distances (on a GPU 2 GiB, or an eighth of the free memory), or the distances of one query if they need
#' more, and up to three blocks of differences; each block is freed before the next block. So at most 3.5 GiB are used
#' on a GPU, for any number of queries; nothing has the size of all pairs. In addition 8 bytes for each row, and a copy of
#' `x` and `query` if they are not float64 or float32, if their rows are farther from the origin than from each other,
#' and for `"cosine"`. If very many pairs are equally near (rows that are all equal), all pairs of a block are compared
#' again, which takes about eight times its memory.
#' @param x A matrix with a row for each point, or a vector, which is one column: an array, a split or a reader.
#' @param query The points whose neighbours are searched, with as many columns: an array on the same device, or an
#'   ordinary matrix, data frame or vector. The default is the rows of `x`.
#' @param k The number of neighbours.
#' @param metric `"euclidean"`; `"cosine"`, one minus the cosine of the angle between rows; `"manhattan"`, the sum of
#'   absolute differences; `"maximum"`, the largest.
#' @param exclude_self Whether a row of `x` is excluded from its own neighbours. Only without `query`.
#' @returns A list of two arrays on the device of `x`, or of two ordinary matrices if the queries are a reader, each
#'   with a row for each query and `k` columns: `index`, integers, and `distance`, float64, or the float type of `x` and
#'   `query` if both are narrower. The call waits for the device, once for each block.
#' @section Errors:
#' `verdigris_error_argument` for missing or infinite elements, for rows of zeros with `"cosine"`, which have no
#' direction, and for a `k` that is larger than the number of rows; `verdigris_error_shape` if `query` has a different
#' number of columns; `verdigris_error_device` for arrays on different devices; `verdigris_error_memory`.
#' @seealso [dist()][distance] for all distances.
#' @examples
#' x <- as_gpu(as.matrix(iris[, 1:4]), device = "cpu")
#' near <- gpu_knn(x, k = 3, exclude_self = TRUE)
#' near$index[1:2, ]
#' near$distance[1:2, ]
#'
#' # the species that most of the neighbours have
#' new <- rbind(c(5, 3.4, 1.5, 0.2), c(6.5, 3, 5.5, 1.8))
#' votes <- gpu_knn(x, new, k = 5)$index
#' apply(collect(votes), 1, function(at) names(which.max(table(iris$Species[at]))))
#' @export
gpu_knn <- function(x, query = NULL, k = 1L, metric = c("euclidean", "cosine", "manhattan", "maximum"),
  exclude_self = FALSE) {
  metric <- one_of("metric", metric, c("euclidean", "cosine", "manhattan", "maximum"))
  if (is_split(x) || is_split(query)) {
    if (!is_flag(exclude_self)) abort_argument("exclude_self", "TRUE or FALSE", exclude_self)
    if (exclude_self && !is.null(query)) stop_verdigris("argument",
      "`exclude_self` must be FALSE if there is a `query`.")
    return(knn_of_split(x, query, k, metric, exclude_self, environment()))
  }
  if (is_reader(x) || is_reader(query)) return(knn_of_reader(x, query, k, metric, exclude_self, environment()))
  knn_of_arrays(x, query, k, metric, exclude_self)
}

# `raw`: returns the distances by which neighbours are ordered, which for "euclidean" are squares.
knn_of_arrays <- function(data, query, k, metric, exclude_self, raw = FALSE) {
  if (!is_gpu(data) || !is_rows(data)) abort_argument("x",
    "a numeric matrix or vector on a device, of one element or more; see `as_gpu()`", data)
  if (is.data.frame(query)) query <- as.matrix(collect(query))
  if (!is.null(query) && !is_rows(query)) abort_argument("query", "a numeric matrix or vector, or NULL", query)
  if (!is_flag(exclude_self)) abort_argument("exclude_self", "TRUE or FALSE", exclude_self)
  if (exclude_self && !is.null(query)) stop_verdigris("argument", "`exclude_self` must be FALSE if there is a `query`.",
    "Without `query` the rows of `x` are searched among each other.")
  data <- strip_names(matrix_of_rows(data))
  if (!is.null(query)) {
    query <- if (is_gpu(query)) strip_names(matrix_of_rows(query)) else strip_names(as_gpu(as.matrix(query),
      dtype = host_dtype(query, data), device = gpu_device(data)))
    if (ncol(query) != ncol(data)) stop_verdigris("shape", sprintf("`query` has %d columns, `x` has %d.",
      ncol(query), ncol(data)), "Give both the same columns, in the same order.")
    if (gpu_device(query) != gpu_device(data)) stop_verdigris("device", sprintf("`query` is on %s, `x` on %s.",
      gpu_device(query), gpu_device(data)), "`gpu_copy()` copies an array to another device.")
  }
  if (nrow(data) > .Machine$integer.max) abort_argument("x", "a matrix of fewer than 2^31 rows", data)
  if (!is_count(k, 1)) abort_argument("k", "one number, 1 or more", k)
  k <- trunc(as.double(k))
  if (k > nrow(data) - exclude_self) stop_verdigris("argument", sprintf("`k` is %s, but `x` has %s%s.",
    format_count(k), format_count(nrow(data)), if (exclude_self) " rows, one of which is the query" else " rows"),
    "Give a smaller `k`.")
  largest <- max(largest_finite(data, "x"), if (!is.null(query)) largest_finite(query, "query"))
  neighbours_of(data, query %||% data, k, metric, exclude_self, is.null(query), largest, raw)
}

largest_finite <- function(x, name, frame = parent.frame()) {
  largest <- largest_magnitude(x)
  if (!is.finite(largest)) stop_verdigris("argument", sprintf("`%s` has missing or infinite elements.", name),
    sprintf("Leave out such rows first: `%s[which(rowSums(!is.finite(%s)) == 0), ]`.", name, name), call = frame)
  if (largest > 1e150) stop_verdigris("argument", sprintf("`%s` has elements beyond 1e150, whose squares overflow.",
    name), "Rescale the columns.", call = frame)
  largest
}

# Rows scaled to length 1, whose differences measure angles.
unit_rows <- function(x, name, frame = parent.frame()) {
  lengths <- sqrt(rowSums(as_float64(x)^2))
  if (any(lengths == 0)) stop_verdigris("argument", sprintf("`%s` has rows of zeros, whose direction is undefined.",
    name), "Leave out these rows, or use another `metric`.", call = frame)
  gpu_compute(match_precision(as_float64(x) / along_rows(lengths, ncol(x)), x))
}

neighbours_of <- function(data, query, k, metric, exclude_self, own, largest, raw = FALSE, frame = parent.frame()) {
  n <- as.double(nrow(data))
  m <- as.double(nrow(query))
  narrow <- if (is_narrow(data) && is_narrow(query)) product_dtype(data, query)
  # halves are multiplied in float32; float32 beside float64 in float64
  widest <- if (is.null(narrow)) "float64" else "float32"
  as_computed <- function(x) if (gpu_dtype(x) == widest) x else gpu_cast(x, widest)
  data <- as_computed(data)
  query <- if (own) data else as_computed(query)
  if (metric == "cosine") {
    # unit rows in float64, since their differences are taken
    data <- unit_rows(as_float64(data), "x", frame)
    query <- if (own) data else unit_rows(as_float64(query), "query", frame)
    largest <- 1
  }
  by_product <- metric %in% c("euclidean", "cosine")
  if (by_product) {
    pool <- product_space(data, largest)
    asked <- if (own) pool else product_space(query, largest, pool$origin)
  }
  found <- in_blocks(m, max(1, pairs_at_once(data) %/% n), function(from, to) {
    rows <- to - from + 1
    if (by_product) {
      # twice the product
      block <- tcross_product(2 * rows_of(asked$rows, from, to), pool$rows)
      bounds <- function(sign) pool$squares * (1 + sign * pool$margin)
      spread <- 2 * pool$tiny + 2 * pool$margin * strided(asked$squares, m, 1, rows, start = from - 1)
    } else {
      pairs <- pairs_of(rows_of(query, from, to), data, metric)
      block <- gpu_compute(-pairs)
      gpu_free(pairs)
      bounds <- function(sign) gpu_full(0, n, device = gpu_device(data))
      spread <- 0
    }
    made <- gpu_compute(block)
    block <- strip(made)
    limit <- kth_of_groups(block, bounds(1), rows, n, k + exclude_self) + spread
    least <- along_columns(bounds(-1), rows) - block
    inside <- least <= repeated(limit, times = n)
    near <- which(inside) - 1L
    row <- near %% as.integer(rows)
    column <- near %/% as.integer(rows)
    if (exclude_self) {
      others <- which(column != row + as.integer(from - 1))
      near <- near[others]
      row <- row[others]
      column <- column[others]
    }
    exact <- if (by_product) {
      squared_gaps(rows_of(query, from, to), data, row, column)
    } else {
      chosen <- block[near + 1L]
      gpu_compute(-chosen)
    }
    at <- .Call(C_order, exact, FALSE)
    at <- at[.Call(C_order, row[at], FALSE)]
    counts <- .Call(C_count_bins, row + 1L, 1, rows)[seq_len(rows)]
    first <- cumsum(counts) - counts
    # the first k neighbours of each query, one query after the other
    picked <- at[repeated(first, each = k) + repeated(gpu_seq(1, by = 1, length.out = k, device = gpu_device(data)),
      times = rows)]
    out <- computed_arrays(list(index = column[picked] + 1L, distance = exact[picked]))
    free_all(inside, least, if (!by_product) chosen, exact, at, picked, near, row, column, limit, block, made)
    out
  })
  by_query <- function(name) {
    parts <- lapply(found, `[[`, name)
    out <- join(parts)
    dim(out) <- c(k, m)
    gpu_compute(t(out))
  }
  index <- by_query("index")
  distance <- by_query("distance")
  if (raw) return(list(index = index, distance = distance))
  if (metric == "euclidean") distance <- sqrt(distance)
  # the squared difference of unit rows is 2 - 2 cos
  if (metric == "cosine") distance <- distance / 2
  list(index = index, distance = gpu_compute(if (is.null(narrow)) distance else gpu_cast(distance, narrow)))
}

# An upper bound of the k-th smallest value of each row of `offset` (by column) minus `block`, a matrix of `rows` rows:
# the k-th smallest of the minima of groups of columns. Each group takes columns at regular distances, since neighbours
# are often adjacent.
kth_of_groups <- function(block, offset, rows, columns, k) {
  groups <- min(columns, max(64, 4 * k))
  each <- columns %/% groups
  whole <- groups * each
  # this view is freed below, or it would keep the block alive
  view <- strided(block, rows * columns, 1, rows * whole)
  values <- along_columns(strided(offset, columns, 1, whole), rows) - view
  least <- gpu_compute(.Call(C_reduce_groups, "min", values, FALSE, c(1, each, rows * groups), FALSE))
  free_all(values, view)
  if (k == 1) return(of_rows("min", least, c(rows, groups)))
  by <- .Call(C_order, least, FALSE)
  at <- by[.Call(C_order, (by - 1L) %% as.integer(rows), FALSE)]
  out <- gpu_compute(least[strided(at, rows * groups, 1, rows, step = groups, start = k - 1)])
  free_all(at, by, least)
  out
}

# Squared distances of pairs of rows, given by 0-based row numbers.
squared_gaps <- function(x, y, row, column) {
  parts <- in_blocks(length(row), max(1, elements_at_once(y) %/% ncol(y)), function(from, to) {
    of <- function(m, at) as_float64(m[strided(at, length(at), 1, to - from + 1, start = from - 1) + 1L, ,
      drop = FALSE])
    a <- of(x, row)
    b <- of(y, column)
    # named, so that it can be freed: rowSums() may store it
    squares <- (a - b)^2
    out <- gpu_compute(rowSums(squares))
    free_all(squares, a, b)
    out
  })
  join(parts)
}
