# Order statistics, sorting and ordering of splits. Each member sorts its part. To find the element of a rank, members
# send values at a few positions of the runs that may hold it. The values bound the element. Elements outside the bounds
# are dropped, and the others are sampled again until one value is left. So few numbers are sent for any number of
# elements, and the values are exact.

# How many positions a member samples in each run.
PLACES <- 64L

# In a member: its non-missing elements in order; and the values at positions, NA where the position is NA.
part_sorted <- function(x) {
  matrix <- !is.null(dim(x))
  x <- as_gpu(strip(part_numbers(x)))
  if (is.logical(x)) x <- x + 0L
  sort(if (matrix && is_int64(x)) part_rounded(x) else x)
}
stat_at <- function(x, places) {
  out <- rep(NA_real_, length(places))
  at <- base::which(!is.na(places))
  if (length(at)) out[at] <- as.double(collect(x[places[at]]))
  out
}

# The elements of a split vector or matrix whose ranks `ranks(known)` returns, where `known` is the number of elements
# that are not missing: list(values, known), as at_ranks() returns it.
split_at_ranks <- function(x, ranks, call) {
  if (is_split_int64(x, call)) return(int64_at_ranks(x, ranks, call))
  sorted <- compute_split(x, "part_sorted", list(x), kind = "vector", call = call)
  counts <- state_of(sorted)$layout$counts
  known <- sum(counts)
  wanted <- if (known > 0) ranks(known) else numeric()
  # for each rank, the runs of the members that may hold it: elements after `low`, up to `high`
  open <- lapply(wanted, function(rank) list(rank = rank, low = 0 * counts, high = counts))
  values <- rep(NA_real_, length(wanted))
  left <- seq_along(wanted)
  while (length(left)) {
    places <- lapply(seq_along(counts), function(k) lapply(open[left], function(run) {
      size <- run$high[k] - run$low[k]
      out <- if (size > 0) run$low[k] + unique(round(seq(1, size, length.out = min(size, PLACES))))
      c(out, rep(NA_real_, PLACES - length(out)))
    }))
    gathered <- reduced(sorted, "stat_at", list(structure(function(rank) unlist(places[[rank]]), class = "team_each")),
      fold = "gather", call = call)
    done <- integer()
    for (j in seq_along(left)) {
      rows <- (j - 1L) * PLACES + seq_len(PLACES)
      before <- open[[left[j]]]
      run <- narrowed(before, lapply(places, `[[`, j), gathered[rows, , drop = FALSE])
      # no run became shorter: no position is left between two values, so the elements not above the smaller one are
      # counted
      if (is.null(run$value) && identical(run$low, before$low) && identical(run$high, before$high)) {
        not_above <- as.vector(reduced(sorted, "stat_not_above", list(run$lower), fold = "gather", call = call))
        if (sum(not_above) >= run$rank) run$value <- run$lower else run$low <- pmax(run$low, not_above)
      }
      open[[left[j]]] <- run
      if (!is.null(run$value)) {
        values[left[j]] <- run$value
        done <- c(done, left[j])
      }
    }
    left <- setdiff(left, done)
  }
  type <- type_of(x)
  list(values = if (type == "double") values else as.integer(values), known = known)
}

# For 64-bit integers: finds the doubles that they are rounded to, which have the same order. NA, with the warning of an
# array, if the element of a rank differs from its double.
int64_at_ranks <- function(x, ranks, call) {
  found <- split_at_ranks(record_split(x, "part_rounded", list(x)), ranks, call)
  wanted <- if (found$known > 0) ranks(found$known) else numeric()
  lost <- vapply(seq_along(wanted), function(k) {
    value <- found$values[k]
    if (abs(value) < 2^53) return(FALSE)
    !(sum(x < value, na.rm = TRUE) < wanted[k] && wanted[k] <= sum(x <= value, na.rm = TRUE))
  }, NA)
  # the warning is that of an array
  if (any(lost)) found$values[lost] <- as.vector(int64_number(2^53, "cpu") + 1L)
  found
}
part_rounded <- function(x) suppressWarnings(gpu_compute(as_float64(strip(x))))

# The shorter runs of a rank, given the members' `values` at `places`; or the element itself once it is known.
narrowed <- function(run, places, values) {
  some <- lapply(places, function(p) !is.na(p))
  places <- Map(function(p, at) p[at], places, some)
  values <- lapply(seq_along(places), function(k) values[some[[k]], k])
  target <- run$rank - sum(run$low)
  candidates <- sort(unique(unlist(values)))
  # bounds for each candidate: at least so many elements are not above it, and at most so many are below it
  not_above <- below <- numeric(length(candidates))
  for (k in seq_along(places)) if (length(places[[k]])) {
    relative <- c(0, places[[k]] - run$low[k])
    not_above <- not_above + relative[findInterval(candidates, values[[k]]) + 1L]
    next_one <- findInterval(candidates, values[[k]], left.open = TRUE) + 1L
    below <- below + c(relative[-1L] - 1, run$high[k] - run$low[k])[next_one]
  }
  upper <- candidates[base::which(not_above >= target)[1L]]
  lower <- candidates[max(base::which(below < target))]
  if (upper == lower) return(list(rank = run$rank, value = upper))
  run$lower <- lower
  for (k in seq_along(places)) if (length(places[[k]])) {
    under <- places[[k]][values[[k]] < lower]
    over <- places[[k]][values[[k]] > upper]
    if (length(under)) run$low[k] <- max(under)
    if (length(over)) run$high[k] <- min(over) - 1
  }
  run
}

ordered_split <- function(x, name, call) {
  frames_refused(x, name, call)
  prototype <- prototype_of(x, call)
  if (is.character(prototype)) refuse_split(name, call, "`table(x)` counts strings in sorted order.")
  if (type_of(x) == "complex") refuse_split(name, call)
}

#' @export
median.gpu_split <- function(x, na.rm = FALSE, ...) {
  call <- environment()
  ordered_split(x, "median", call)
  whole <- is_split_int64(x, call)
  # base R raises its error for other classes
  if (!whole) in_class(x, stats::median, c(1, 1), call)
  found <- split_at_ranks(x, median_ranks, call)
  if (whole) return(median_found(found, length(x), "double", na.rm))
  in_class(x, stats::median, median_found(found, length(x), type_of(x), na.rm), call)
}

#' @export
quantile.gpu_split <- function(x, probs = seq(0, 1, 0.25), na.rm = FALSE, names = TRUE, type = 7, ...) {
  call <- environment()
  ordered_split(x, "quantile", call)
  if (is_gpu(probs)) probs <- collect(probs)
  check_quantile_arguments(type, ..., call = call)
  # base R raises its errors, and computes the result of no probabilities
  fuzz <- 100 * .Machine$double.eps
  if (!is.numeric(probs) || any(probs < -fuzz | probs > 1 + fuzz, na.rm = TRUE) || !length(probs))
    return(stats::quantile(numeric(), probs, na.rm = na.rm, names = names, type = type, ...))
  probs <- pmax(0, pmin(1, probs))
  # base R's quantile() of one or two such elements has the attributes of the result, or raises the error
  prototype <- if (!is_split_int64(x, call)) prototype_of(x, call)
  few <- if (!is.null(prototype)) restored(c(1, 1), prototype) else if (type_of(x) == "logical") TRUE else 1
  like <- stats::quantile(few, probs, names = names, type = type, ...)
  found <- split_at_ranks(x, function(known) quantile_ranks(known, probs), call)
  if (found$known < length(x) && !isTRUE(as.logical(na.rm))) stop_as_base(gettext(
    "missing values and NaN's not allowed if 'na.rm' is FALSE", domain = "R-stats"), call)
  out <- quantiles_found(found, probs, names, type, ...)
  # factor codes must be integers: from R 4.3 on no other type can have class factor
  if (is.logical(like) || is.factor(like)) storage.mode(out) <- typeof(like)
  if (!is.null(prototype)) attributes(out) <- attributes(like)
  out
}

# is.unsorted(): each member sends whether its part is unsorted, and its first and last elements.
split_unsorted <- function(x, na.rm, strictly, call) {
  check_vector_split(x, "is.unsorted", call)
  whole <- is_split_int64(x, call)
  if (!is.null(prototype_of(x, call)) && !whole || type_of(x) == "complex") refuse_split("is.unsorted", call,
    "Only real numbers are supported.")
  parts <- gathered_lists(x, "part_ends", list(na.rm, strictly), call)
  if (whole) parts <- lapply(parts, function(part) {
    if (length(part$ends)) part$ends <- collect_values(of_two_doubles(part$ends$high, part$ends$low))
    part
  })
  joined_unsorted(parts, length(x), na.rm, strictly)
}
part_ends <- function(x, na.rm, strictly) {
  out <- ends_in_order(as_gpu(strip(x)), na.rm, strictly)
  # as doubles, which all engines can send
  if (is_host_int64(out$ends)) out$ends <- in_two_doubles(on_cpu(out$ends))
  out
}

# ---- sorting -------------------------------------------------------------------------------------------

# How many positions of a member's sorted part are sampled for splitters.
SAMPLES <- 64L

# In a member: values at regular positions of its sorted part, NA if it is empty.
stat_samples <- function(sorted) {
  n <- length(sorted)
  if (n == 0L) return(rep(NA_real_, SAMPLES))
  sampled(sorted, round(seq(1, n, length.out = SAMPLES)))
}
# Splitters: values among all members' samples that divide the whole into runs of nearly equal length.
splitters_of <- function(samples, size) {
  known <- sort(samples[!is.na(samples)])
  if (!length(known)) return(rep(0, size - 1L))
  known[pmax(1, round(seq_len(size - 1L) * length(known) / size))]
}
# Samples as doubles. Rounded 64-bit integers serve as splitters as well as exact ones.
sampled <- function(x, places) suppressWarnings(as.vector(collect(as_float64(x[places]))))
# For each splitter, how many elements of a sorted part are not above it.
stat_not_above <- function(sorted, splitters)
  vapply(splitters, function(v) as.double(sum(widen_for_sum(sorted <= v))), 1)
# The runs between the splitters, one for each member.
runs_of_part <- function(sorted, splitters) {
  ends <- c(0, stat_not_above(sorted, splitters), length(sorted))
  lapply(seq_len(length(ends) - 1L), function(k) sorted[ends[k] + seq_len(ends[k + 1L] - ends[k])])
}
merged_runs <- function(runs, decreasing) sort(join(runs), decreasing = decreasing)

# In a member of several processes: its run of the whole, in order. All runs are gathered on all members.
part_exchanged <- function(x, decreasing) {
  sorted <- part_sorted(x)
  member <- running_member()
  gather <- function(v) gathered_by_members(v, member)
  splitters <- splitters_of(unlist(lapply(gather(stat_samples(sorted)), collect)), member$size)
  runs <- runs_of_part(sorted, splitters)
  if (decreasing) runs <- rev(runs)
  own <- NULL
  for (k in seq_along(runs)) {
    all <- gather(runs[[k]])
    if (k == member$rank) own <- lapply(all, as_gpu, device = member$device)
  }
  merged_runs(own, decreasing)
}
# For members of one process: the session has taken the runs from their parts.
part_merged <- function(runs, decreasing) merged_runs(lapply(runs, as_gpu, device = running_member()$device),
  decreasing)

#' @export
sort.gpu_split <- function(x, decreasing = FALSE, na.last = NA, ...) {
  call <- environment()
  ordered_split(x, "sort", call)
  if (!is_flag(decreasing)) abort_argument("decreasing", "TRUE or FALSE", decreasing)
  if (!identical(na.last, NA)) abort_argument("na.last", "NA: missing values are left out", na.last)
  if (state_of(x)$kind != "vector") refuse_split("sort", call, "Only vectors, such as `x[, 1]`, are supported.")
  out <- sorted_numbers(x, decreasing, call)
  prototype <- prototype_of(x, call)
  if (type_of(x) == "logical") return(record_split(out, "!=", list(out, 0L)))
  if (is.null(prototype) || inherits(prototype, "integer64")) return(out)
  record_split(out, "part_restored", list(out, prototype))
}
sorted_numbers <- function(x, decreasing, call) {
  team <- state_of(x)$team
  if (team$engine$kind != "local") return(compute_split(x, "part_exchanged", list(x, decreasing), kind = "vector"))
  sorted <- compute_split(x, "part_sorted", list(x), kind = "vector", call = call)
  splitters <- splitters_of(reduced(sorted, "stat_samples", fold = "gather"), team$engine$size)
  runs <- lapply(seq_len(team$engine$size), function(rank) runs_of_part(part_here(state_of(sorted), rank), splitters))
  if (decreasing) runs <- lapply(runs, rev)
  compute_split(x, "part_merged", list(structure(function(rank) lapply(runs, `[[`, rank), class = "team_each"),
    decreasing), kind = "vector")
}

# ---- order() ---------------------------------------------------------------------------------------------

# order() of splits: positions in the whole, a split with runs like sort()'s. Members order their parts by all keys.
# Rows at regular positions divide the whole into runs, one for each member, as for sort(). A run joins the rows of the
# members in the order of their ranks, so that ties stay in the order of the whole.
order_of_splits <- function(keys, na.last, decreasing, method, call) {
  # base R checks the arguments
  call_base(base::order, c(rep(list(0L), length(keys)), list(na.last = na.last, decreasing = decreasing,
    method = method)))
  x <- Find(is_split, keys)
  for (key in Filter(is_split, keys)) {
    ordered_split(key, "order", call)
    check_vector_split(key, "order", call)
    check_alike(x, key, call)
  }
  n <- length(x)
  keys <- lapply(keys, function(key) {
    if (is_split(key)) return(key)
    if (is_remote(key)) refuse_split("order", call, "The other keys must be splits, vectors or arrays.")
    if (length(key) != n) stop_as_base(gettext("argument lengths differ", domain = "R-base"), call)
    team_operand(ordinary_key(key, method, call), x)
  })
  decreasing <- rep_len(decreasing, length(keys))
  team <- state_of(x)$team
  args <- c(list(na.last, decreasing, elements_before(x), n > .Machine$integer.max), keys)
  if (team$engine$kind != "local")
    return(compute_split(x, "part_order_exchanged", c(list(x), args), kind = "vector", call = call))
  parts <- gathered_lists(x, "part_in_order", args, call)
  splitters <- row_splitters(do.call(rbind, lapply(parts, function(part) sampled_rows(part$keys))), team$engine$size,
    na.last, decreasing)
  runs <- lapply(parts, runs_of_rows, splitters, na.last, decreasing)
  compute_split(x, "part_order_merged", list(x, structure(function(rank) lapply(runs, `[[`, rank), class = "team_each"),
    na.last, decreasing), kind = "vector", call = call)
}

# An ordinary key as numbers that have the same order.
ordinary_key <- function(key, method, call) {
  if (is_int64(key)) return(as.vector(rank(as_gpu(key, device = "cpu"), na.last = "keep", ties.method = "min")))
  if (is_gpu(key)) key <- collect(key)
  if (is.factor(key)) return(as.integer(key))
  if (is.object(key)) key <- as.vector(xtfrm(key))
  if (is.character(key)) return(match(key, sort(unique(key), method = if (identical(method, "radix")) "radix" else
    "shell")))
  if (!is_number(key) || is.complex(key)) refuse_split("order", call, "Keys must be real numbers, factors or strings.")
  as.vector(key)
}

# In a member: its rows in order: their `keys`, and `at`, their positions in the whole.
part_in_order <- function(x, na.last, decreasing, before, large, ...) {
  device <- running_member()$device
  keys <- lapply(list(...), function(key) {
    key <- as_gpu(strip(part_numbers(key)), device = device)
    if (is.logical(key)) key + 0L else key
  })
  rows_in_order(keys, gpu_seq(1L, by = 1L, length.out = length(keys[[1L]]), device = device) + if (large) before else
    as.integer(before), na.last, decreasing)
}
rows_in_order <- function(keys, places, na.last, decreasing) {
  at <- as_gpu(order_arrays(keys, na.last, decreasing, "radix"), device = gpu_device(places))
  list(keys = lapply(keys, function(key) gpu_compute(key[at])), at = gpu_compute(places[at]))
}

# The keys of rows at regular positions: a matrix with a column for each key.
sampled_rows <- function(keys) {
  n <- length(keys[[1L]])
  places <- if (n > 0L) unique(round(seq(1, n, length.out = min(n, SAMPLES)))) else numeric()
  base::matrix(unlist(lapply(keys, sampled, places)), length(places), length(keys))
}
# Those rows of the samples that divide the whole into runs of nearly equal length.
row_splitters <- function(rows, size, na.last, decreasing) {
  if (!nrow(rows)) return(base::matrix(0, size - 1L, ncol(rows)))
  columns <- lapply(seq_len(ncol(rows)), function(j) rows[, j])
  at <- do.call(base::order, c(columns, list(na.last = !isFALSE(na.last), decreasing = decreasing, method = "radix")))
  rows[at[pmax(1, round(seq_len(size - 1L) * length(at) / size))], , drop = FALSE]
}

# How many rows of a part in order do not come after `row`.
rows_not_after <- function(keys, row, na.last, decreasing) {
  earlier <- FALSE
  tied <- TRUE
  for (j in seq_along(keys)) {
    key <- keys[[j]]
    missing <- is.na(key)
    if (is.na(row[j])) {
      below <- if (isFALSE(na.last)) FALSE else !missing
      equal <- missing
    } else {
      below <- !missing & (if (decreasing[j]) key > row[j] else key < row[j])
      if (isFALSE(na.last)) below <- below | missing
      equal <- !missing & key == row[j]
    }
    earlier <- earlier | tied & below
    tied <- tied & equal
  }
  as.double(sum(widen_for_sum(earlier | tied)))
}
runs_of_rows <- function(part, splitters, na.last, decreasing) {
  n <- length(part$at)
  ends <- c(0, if (n > 0L) apply(splitters, 1L, function(row) rows_not_after(part$keys, row, na.last, decreasing)) else
    numeric(nrow(splitters)), n)
  lapply(seq_len(length(ends) - 1L), function(k) {
    own <- ends[k] + seq_len(ends[k + 1L] - ends[k])
    list(keys = lapply(part$keys, function(key) key[own]), at = part$at[own])
  })
}
merged_rows <- function(runs, na.last, decreasing) {
  keys <- lapply(seq_along(runs[[1L]]$keys), function(j) join(lapply(runs, function(run) run$keys[[j]])))
  rows_in_order(keys, join(lapply(runs, `[[`, "at")), na.last, decreasing)$at
}

# In a member of several processes: the positions of its run of the whole.
part_order_exchanged <- function(x, na.last, decreasing, before, large, ...) {
  part <- part_in_order(x, na.last, decreasing, before, large, ...)
  member <- running_member()
  gather <- function(v) gathered_by_members(v, member)
  rows <- lapply(gather(as.vector(t(sampled_rows(part$keys)))), function(v) base::matrix(collect(v), ncol =
    length(part$keys), byrow = TRUE))
  runs <- runs_of_rows(part, row_splitters(do.call(rbind, rows), member$size, na.last, decreasing), na.last, decreasing)
  own <- NULL
  for (k in seq_along(runs)) {
    keys <- lapply(runs[[k]]$keys, gather)
    at <- gather(runs[[k]]$at)
    if (k == member$rank) own <- lapply(seq_along(at), function(rank) list(keys = lapply(keys, function(key)
      as_gpu(key[[rank]], device = member$device)), at = as_gpu(at[[rank]], device = member$device)))
  }
  merged_rows(own, na.last, decreasing)
}
# For members of one process: the session has taken the runs from their parts.
part_order_merged <- function(x, runs, na.last, decreasing) {
  device <- running_member()$device
  merged_rows(lapply(runs, function(run) list(keys = lapply(run$keys, as_gpu, device = device),
    at = as_gpu(run$at, device = device))), na.last, decreasing)
}
