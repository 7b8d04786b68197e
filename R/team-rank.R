# rank(), duplicated(), match() and rle() of splits. Each member compares its elements with those of the other members,
# one member at a time.

# ---- rank() --------------------------------------------------------------------------------------------------

# Other members send their known elements in order. An element's rank is that in its own part, and for each other member
# the number of elements that are before it.
setMethod("rank", "gpu_split", `body<-`(base::rank, envir = topenv(), quote({
  call <- environment()
  ties <- match.arg(ties.method)
  ordered_split(x, "rank", call)
  check_vector_split(x, "rank", call)
  # base R checks the argument
  call_base(base::rank, list(NA, na.last = na.last))
  if (ties == "random") return(random_ranks(x, na.last, call))
  ranks_of_split(x, na.last, ties, call)
})))

ranks_of_split <- function(x, na.last, ties, call) {
  sorted <- record_split(x, "part_sorted", list(x))
  compute_split(x, "part_ranked", list(x, sorted, parts_of(sorted), counts_of(x), na.last, ties), kind = "vector",
    call = call)
}
part_ranked <- function(x, sorted, others, counts, na.last, ties) {
  rank <- running_member()$rank
  x <- part_elements(x)
  if (is.logical(x)) x <- x + 0L
  own <- ranked(equal_runs(x), ties, TRUE)
  # integers hold no larger rank
  large <- sum(counts) > .Machine$integer.max
  if (large) own <- as_float64(own)
  whole <- function(count) if (large || ties == "average") count else as.integer(count)
  known <- numeric(length(counts))
  values <- as_doubles(x)
  for (k in seq_along(counts)) {
    other <- from_member(k, sorted, others)
    known[k] <- length(other)
    if (k == rank || known[k] == 0 || length(x) == 0L) next
    # ties with elements of other members: those of earlier members are first
    before <- switch(ties, first = k < rank, last = k > rank, min = FALSE, max = TRUE, NA)
    below <- function(strictly) count_below(values, other, strictly)
    more <- if (is.na(before)) (as_float64(below(TRUE)) + below(FALSE)) / 2 else below(!before)
    own <- gpu_compute(own + more)
  }
  absent <- counts - known
  if (identical(na.last, "keep") || sum(absent) == 0 || length(x) == 0L) return(own)
  missing <- is.na(x)
  if (is.na(na.last)) return(own[!missing])
  place <- cumsum(missing + 0L) + whole(sum(absent[seq_len(rank - 1L)]))
  if (na.last) return(select_by(missing, place + whole(sum(known)), own))
  select_by(missing, place, own + whole(sum(absent)))
}

# Ties are broken by random numbers, those that base R draws, which are added to the ranks. Base R draws none for
# missing elements, so the session needs their places. From 1e8 ties on, sums of ranks and draws may be equal: the first
# is then before.
random_ranks <- function(x, na.last, call) {
  n <- length(x)
  missing <- collect(which(is.na(x)))
  draws <- stats::runif(n - length(missing))
  if (length(missing)) draws <- replace(numeric(n), -missing, draws)
  ranks <- ranks_of_split(x, "keep", "min", call)
  ranks_of_split(record_split(ranks, "+", list(ranks, team_operand(draws, ranks))), na.last, "first", call)
}

# ---- duplicated() --------------------------------------------------------------------------------------------

#' @export
duplicated.gpu_split <- function(x, incomparables = FALSE, fromLast = FALSE, ...) {
  repeats_in_split(x, "duplicated", incomparables, fromLast, ..., call = environment())
}
#' @export
anyDuplicated.gpu_split <- function(x, incomparables = FALSE, fromLast = FALSE, ...) {
  call <- environment()
  repeated <- repeats_in_split(x, "anyDuplicated", incomparables, fromLast, ..., call = call)
  at <- as.vector(reduced(repeated, "stat_true", list(isTRUE(as.logical(fromLast))), fold = "gather", call = call))
  counts <- state_of(repeated)$layout$counts
  places <- cumsum(counts) - counts + at
  if (all(is.na(places))) return(0L)
  place <- (if (isTRUE(as.logical(fromLast))) max else min)(places, na.rm = TRUE)
  if (place <= .Machine$integer.max) as.integer(place) else place
}
stat_true <- function(x, from_last) c(as.double(first_position(x, from_last)), NA_real_)[1L]

# duplicated() of a split vector, of the rows of a matrix or data frame, or of the columns of a matrix split by columns.
# An element is repeated if its part has it before, or an earlier member has it.
repeats_in_split <- function(x, name, incomparables, fromLast, MARGIN = 1L, nmax = NA, ..., call) {
  if (...length() || !isFALSE(incomparables)) refuse_split(name, call, "`incomparables` is not supported.")
  # base R checks the argument
  base::duplicated.default(0, fromLast = fromLast)
  state <- state_of(x)
  if (state$kind == "object") refuse_split(name, call)
  if (state$kind == "matrix") {
    if (!identical(as.double(MARGIN), as.double(state$margin)) || state$across == 0) refuse_split(name, call,
      "Only rows of a matrix split by rows are compared, and columns (`MARGIN = 2`) of one split by columns.")
    if (state$margin == 2) x <- t(x)
  }
  distinct <- record_split(x, "part_distinct", list(x))
  compute_split(x, "part_repeated", list(x, distinct, parts_of(distinct), isTRUE(as.logical(fromLast))),
    kind = "vector", call = call)
}

# In a member: the columns of its part, or a list of its vector.
key_columns <- function(x) {
  columns <- if (is.data.frame(x)) as.list(x) else if (length(dim(x)) == 2L) lapply(seq_len(ncol(x)), function(j)
    x[, j]) else list(x)
  unname(lapply(columns, part_elements))
}
part_distinct <- function(x) {
  keys <- key_columns(x)
  if (length(keys) == 1L) return(list(unique(keys[[1L]])))
  at <- which(!duplicated(codes_of_rows(keys)))
  lapply(keys, function(key) if (is.character(key)) key[as.vector(at)] else gpu_compute(key[at]))
}
part_repeated <- function(x, distinct, others, from_last) {
  member <- running_member()
  keys <- key_columns(x)
  own <- as_gpu(duplicated(if (length(keys) == 1L) keys[[1L]] else codes_of_rows(keys), fromLast = from_last),
    device = member$device)
  for (k in seq_len(member$size)) {
    other <- lapply(seq_along(distinct), function(j) from_member(k, distinct[[j]], if (!is.null(others)) function(k)
      others(k)[[j]]))
    if (k != member$rank && length(own) && (k < member$rank) != from_last)
      own <- gpu_compute(own | as_gpu(rows_among(keys, other), device = member$device))
  }
  own
}

# Numbers from 1, equal for equal rows.
codes_of_rows <- function(keys) {
  device <- running_member()$device
  code <- function(v) as_gpu(match(v, unique(v)), device = device)
  Reduce(function(codes, key) {
    each <- code(key)
    # pairs of codes as one number, which a double holds exactly up to 9e7 rows
    gpu_compute(code(as_float64(codes) * (length(each) + 1) + each))
  }, keys[-1L], code(keys[[1L]]))
}
# Whether each row of `keys` is among the rows of `table`.
rows_among <- function(keys, table) {
  if (length(keys) == 1L) return(keys[[1L]] %in% table[[1L]])
  n <- length(keys[[1L]])
  m <- length(table[[1L]])
  if (m == 0L) return(gpu_full(FALSE, n, device = running_member()$device))
  codes <- codes_of_rows(Map(function(key, other) if (is.character(key)) c(key, other) else join(list(key, other)),
    keys, table))
  codes[seq_len(n)] %in% codes[n + seq_len(m)]
}

# ---- match() -------------------------------------------------------------------------------------------------

# match() and %in% with a split as the table. Of an ordinary x the result is ordinary.
match_in_split <- function(name, x, table, nomatch, call) {
  check_vector_split(table, name, call)
  if (!is_split(x)) {
    if (is_remote(x)) refuse_split(name, call, "`x` must be a split of the same team, or an ordinary vector.")
    if (is_gpu(x)) x <- collect(x)
    if (is.factor(x)) x <- as.character(x)
    if (!length(x)) return(if (name == "match") integer() else logical())
    places <- as.vector(reduced(table, "stat_match", list(x, elements_before(table)), fold = "min", call = call))
    found <- is.finite(places)
    if (name != "match") return(found)
    places[!found] <- as.integer(nomatch)
    return(if (length(table) <= .Machine$integer.max) as.integer(places) else places)
  }
  check_vector_split(x, name, call)
  check_team_of(table, state_of(x)$team, call)
  if (!identical(class(prototype_of(x, call)), class(prototype_of(table, call))) || is.factor(prototype_of(x, call)))
    refuse_split(name, call, "Splits of different classes, and factors, are not supported.")
  out <- compute_split(x, "part_matched", list(x, table, parts_of(table), counts_of(table)), kind = "vector",
    call = call)
  if (name != "match") return(record_split(out, "!", list(record_split(out, "is.na", list(out)))))
  nomatch <- as.integer(nomatch)
  if (is.na(nomatch)) out else record_split(out, "part_unmatched", list(out, nomatch))
}
# Infinite for elements that are not found, so that the minimum over the members is the first place.
stat_match <- function(table, x, before) {
  at <- as.double(collect(match(x, if (is.factor(table)) as.character(table) else table)))
  select_by(is.na(at), Inf, at + before)
}
part_matched <- function(x, table, others, counts) {
  x <- part_elements(x)
  table <- part_elements(table)
  device <- running_member()$device
  large <- sum(counts) > .Machine$integer.max
  out <- gpu_full(if (large) NA_real_ else NA_integer_, length(x), device = device)
  before <- 0
  for (k in seq_along(counts)) {
    other <- from_member(k, table, plain_parts(others))
    if (length(x) && length(other)) {
      at <- as_gpu(match(x, other), device = device)
      out <- gpu_compute(select_by(is.na(out), if (large) as_float64(at) + before else at + as.integer(before), out))
    }
    before <- before + counts[k]
  }
  out
}
part_unmatched <- function(at, nomatch) select_by(is.na(at), nomatch, at)

# ---- rle() ---------------------------------------------------------------------------------------------------

setMethod("rle", "gpu_split", function(x) {
  call <- environment()
  frames_refused(x, "rle", call)
  prototype <- prototype_of(x, call)
  whole <- is_split_int64(x, call)
  # base R raises its error for matrices and classes
  if (state_of(x)$kind == "matrix") base::rle(base::matrix(0))
  if (is.object(prototype) && !whole) base::rle(restored(1, prototype))
  if (is.null(prototype) && type_of(x) == "complex") refuse_split("rle", call, "Only real numbers are supported.")
  parts <- gathered_lists(x, "part_runs", list(), call)
  of_all <- function(name) unlist(lapply(parts, `[[`, name))
  values <- if (whole) of_two_doubles(of_all("high") %||% numeric(), of_all("low") %||% numeric()) else of_all("values")
  lengths <- of_all("lengths")
  if (!length(lengths)) return(rle(if (whole) values else vector(if (is.character(prototype)) "character" else
    type_of(x), 0L)))
  # runs go on from part to part
  runs <- rle(values)
  ends <- cumsum(as.double(lengths))[cumsum(runs$lengths)]
  structure(list(lengths = as.integer(diff(c(0, ends))), values = runs$values), class = "rle")
})
part_runs <- function(x) {
  x <- part_elements(x)
  # a part without elements has no runs
  runs <- if (length(x)) rle(x) else list(lengths = integer(), values = collect(x))
  if (!is_int64(x)) return(list(lengths = runs$lengths, values = as.vector(runs$values)))
  c(list(lengths = runs$lengths), in_two_doubles(on_cpu(runs$values)))
}
