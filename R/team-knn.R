# gpu_knn() with splits. If the reference data are split, each member finds its k nearest rows, and the session merges
# them. If only the queries are split, each member searches for its own queries.

# In a member: its k nearest rows to each query, first their numbers in the whole, then their distances, by which the
# session orders the rows of all members (squares for Euclid's). Inf if the part has fewer rows.
stat_neighbours <- function(data, query, k, metric, before) {
  m <- nrow(query)
  index <- distance <- base::matrix(Inf, m, k)
  own <- min(k, NROW(data))
  if (own > 0L) {
    found <- knn_of_arrays(as_gpu(data), query, own, metric, FALSE, raw = TRUE)
    index[, seq_len(own)] <- collect(found$index) + before
    distance[, seq_len(own)] <- collect(found$distance)
  }
  c(as.vector(index), as.vector(distance))
}
part_neighbours <- function(query, data, k, metric) {
  data <- as_gpu(data, device = running_member()$device)
  if (!NROW(query)) return(list(index = gpu_zeros(c(0, k), "int32"), distance = gpu_zeros(c(0, k))))
  gpu_knn(data, query, k, metric)
}
part_element <- function(x, name) x[[name]]

# How many elements members send in one request; more queries are searched in several.
NEIGHBOURS_AT_ONCE <- 2^24

knn_of_split <- function(data, query, k, metric, exclude_self, call) {
  for (x in list(data, query)) if (is_split(x)) {
    frames_refused(x, "gpu_knn", call)
    if (state_of(x)$margin != 1) refuse_split("gpu_knn", call, "Only matrices split by rows are supported.")
  }
  n <- if (is_split(data)) sum(state_of(data)$layout$counts) else NROW(data)
  if (!is_count(k, 1)) abort_argument("k", "one number, 1 or more", k, call)
  k <- trunc(as.double(k))
  if (k > n - exclude_self) stop_verdigris("argument", sprintf("`k` is %s, but `x` has %s%s.", format_count(k),
    format_count(n), if (exclude_self) " rows, one of which is the query" else " rows"), "Give a smaller `k`.",
    call = call)
  asked <- if (is.null(query)) data else query
  if (NCOL(asked) != NCOL(data)) stop_verdigris("shape", sprintf("`query` has %d columns, `x` has %d.",
    NCOL(asked), NCOL(data)), "Give both the same columns, in the same order.", call = call)
  if (!is_split(data)) {
    found <- record_split(query, "part_neighbours", list(query, if (is_gpu(data)) collect(data) else data, k, metric),
      kind = "object", across = NULL, names = NULL)
    return(lapply(c(index = "index", distance = "distance"), function(name) record_split(found, "part_element",
      list(found, name), kind = "matrix", across = k, names = NULL)))
  }
  if (!is_split(asked)) return(lapply(nearest_of_all(data, ordinary_rows(asked), k, metric, 0, FALSE, call), as_gpu))
  # the queries of one member after the other's
  counts <- state_of(asked)$layout$counts
  first <- cumsum(counts) - counts
  found <- lapply(base::which(counts > 0), function(rank) nearest_of_all(data, rows_of_member(asked, rank, call), k,
    metric, first[rank], exclude_self, call))
  lapply(c(index = "index", distance = "distance"), function(name) {
    whole <- do.call(base::rbind, lapply(found, `[[`, name))
    record_split(asked, "identity_part", list(structure(list(value = whole, margin = 1, across = k),
      class = "team_operand")), kind = "matrix", margin = 1, across = k, names = NULL)
  })
}

ordinary_rows <- function(x) {
  x <- if (is.data.frame(x)) as.matrix(collect(x)) else if (is_gpu(x)) collect(x) else x
  if (is.null(dim(x))) base::matrix(x) else unname(x)
}

# The rows of one member as an ordinary matrix.
rows_of_member <- function(x, rank, call) {
  state <- state_of(x)
  if (state$team$engine$kind == "env") refuse_split("gpu_knn", call,
    "In a launcher's team `query` must be an ordinary matrix.")
  part <- task_argument(x)
  ordinary_rows(request_all(state$team, function(k) if (k == rank) list(f = "collect", args = list(part)),
    "The queries could not be read", call)[[rank]])
}

# The k nearest rows of all members to ordinary queries. The first query is row `self + 1` of the whole, for
# `exclude_self`.
nearest_of_all <- function(data, query, k, metric, self, exclude_self, call) {
  counts <- state_of(data)$layout$counts
  size <- length(counts)
  first <- cumsum(counts) - counts
  before <- structure(function(rank) first[rank], class = "team_each")
  asked <- k + exclude_self
  step <- max(1, NEIGHBOURS_AT_ONCE %/% (asked * size))
  index <- base::matrix(0L, nrow(query), k)
  distance <- base::matrix(0, nrow(query), k)
  for (from in seq(1, nrow(query), by = step)) {
    rows <- from:min(nrow(query), from + step - 1)
    m <- length(rows)
    gathered <- reduced(data, "stat_neighbours", list(query[rows, , drop = FALSE], asked, metric, before),
      fold = "gather", call = call)
    each <- seq_len(m * asked)
    at <- as.vector(gathered[each, ])
    away <- as.vector(gathered[-each, ])
    row <- rep(seq_len(m), length.out = length(at))
    if (exclude_self) {
      own <- at == rows[row] + self
      at <- at[!own]
      away <- away[!own]
      row <- row[!own]
    }
    # rows with equal distances are ordered by their numbers
    by <- order(row, away, at)
    place <- base::sequence(base::tabulate(row, m))
    kept <- by[place <= k]
    index[rows, ] <- base::matrix(as.integer(at[kept]), m, byrow = TRUE)
    distance[rows, ] <- base::matrix(away[kept], m, byrow = TRUE)
  }
  list(index = index, distance = switch(metric, euclidean = sqrt(distance), cosine = distance / 2, distance))
}
