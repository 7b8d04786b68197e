# rev() and diff() of splits. A member takes the elements that it needs from the other members, from one at a time.

# ---- parts of other members --------------------------------------------------------------------------------

# An argument for from_member(): in a team of this process, a function that returns member k's part of the split x. NULL
# in other teams, whose members send each other their parts.
parts_of <- function(x) {
  state <- state_of(x)
  if (state$team$engine$kind == "local") structure(function(rank) function(k) part_here(state, k), class = "team_each")
}

# All members' numbers of rows: a function, since a repair changes them.
counts_of <- function(x) {
  layout <- state_of(x)$layout
  rm(x)
  structure(function(rank) layout$counts, class = "team_each")
}

# In a member: member k's vector, of which `own` is this member's; matrices become vectors. `others` is parts_of() of
# the split of these vectors. All members call this with the same k at once.
from_member <- function(k, own, others) {
  member <- running_member()
  if (k == member$rank && (!is.null(others) || member$size == 1L)) return(own)
  text <- is.character(own)
  if (!is.null(others)) return(if (text) others(k) else as_gpu(others(k), device = member$device))
  # only numbers are sent
  sent <- if (k != member$rank) gpu_zeros(0, device = member$device) else if (text) packed(own)[[2L]] else own
  sent <- .Call(C_team_broadcast, member$link, sent, k - 1, NULL)
  if (k == member$rank) return(own)
  if (!text) return(as_gpu(sent, device = member$device))
  sent <- as.vector(sent)
  unpacked(list(length(sent), sent), 1L)[[1L]]
}

# In a member: `count` rows of the whole after the first `first`. Each member sends `sent`, the beginning of its part x
# or all of it.
rows_of_whole <- function(x, first, count, others, counts, sent = x) {
  member <- running_member()
  ends <- cumsum(counts)
  starts <- ends - counts
  some <- function(part, at) if (length(dim(x)) == 2L) part[at, , drop = FALSE] else part[at]
  pieces <- list()
  for (k in seq_along(counts)) {
    from <- max(first, starts[k])
    size <- min(first + count, ends[k]) - from
    part <- if (k == member$rank) x else if (!is.null(others) && size > 0) others(k)
    if (is.null(others)) {
      got <- from_member(k, sent, NULL)
      if (k != member$rank) part <- if (length(dim(x)) == 2L) `dim<-`(got, c(length(got) / ncol(x), ncol(x))) else got
    }
    if (size <= 0) next
    piece <- some(part, from - starts[k] + seq_len(size))
    pieces[[length(pieces) + 1L]] <- if (is.character(piece)) piece else gpu_compute(as_gpu(piece, device =
      member$device))
  }
  if (!length(pieces)) return(some(x, 0L))
  if (length(pieces) == 1L) return(pieces[[1L]])
  if (is.character(x)) unlist(pieces) else if (length(dim(x)) == 2L) do.call(rbind, pieces) else join(pieces)
}

# In a member: the elements of its part without a class, on its device; strings are ordinary vectors.
part_elements <- function(x) {
  x <- part_numbers(x)
  if (is.character(x)) strip(x) else strip(as_gpu(strip(x), device = running_member()$device))
}

# A split with the class of the prototype, from one of plain numbers.
restored_split <- function(x, prototype) {
  if (!is.object(prototype) || inherits(prototype, "integer64")) return(x)
  record_split(x, "part_restored", list(x, prototype))
}

# A split vector of a matrix's elements, by columns.
vector_of_split <- function(x, call) {
  state <- state_of(x)
  if (state$kind == "vector") return(x)
  # columns of the whole are next to each other in the parts already
  if (state$margin == 2) return(compute_split(x, "strip", list(x), kind = "vector", call = call))
  compute_split(x, "part_by_columns", list(x, parts_of(x), counts_of(x)), kind = "vector", call = call)
}
part_by_columns <- function(x, others, counts) {
  member <- running_member()
  n <- sum(counts)
  bounds <- floor(n * ncol(x) * (0:member$size) / member$size)
  size <- bounds[member$rank + 1L] - bounds[member$rank]
  # from 0: places in the whole, by columns
  places <- if (size > 0) gpu_seq(bounds[member$rank], by = 1, length.out = size, device = member$device) else
    gpu_zeros(0, device = member$device)
  row <- gpu_compute(places %% n)
  column <- gpu_compute(places %/% n)
  own <- strip(as_gpu(x, device = member$device))
  values <- at <- list()
  before <- 0
  for (k in seq_along(counts)) {
    part <- from_member(k, own, others)
    inside <- which(row >= before & row < before + counts[k])
    if (length(inside)) {
      values[[length(values) + 1L]] <- gpu_compute(strip(part)[column[inside] * counts[k] + (row[inside] - before + 1)])
      at[[length(at) + 1L]] <- inside
    }
    before <- before + counts[k]
  }
  if (!length(values)) return(own[0L])
  if (length(values) == 1L) return(values[[1L]])
  out <- values <- join(values)
  out[join(at)] <- values
  out
}

# ---- rev() -------------------------------------------------------------------------------------------------

#' @export
rev.gpu_split <- function(x) {
  call <- environment()
  frames_refused(x, "rev", call)
  prototype <- prototype_of(x, call)
  x <- vector_of_split(x, call)
  restored_split(compute_split(x, "part_reversed", list(x, parts_of(x), counts_of(x)), kind = "vector", call = call),
    prototype)
}
# The result has the runs of x, so that `x + rev(x)` is possible.
part_reversed <- function(x, others, counts) {
  rank <- running_member()$rank
  rev(rows_of_whole(part_elements(x), sum(counts) - sum(counts[seq_len(rank)]), counts[rank], plain_parts(others),
    counts))
}
# parts_of() of the parts' elements without their class. Arrays stay on their devices until some elements are taken.
plain_parts <- function(others) if (!is.null(others)) function(k) {
  part <- others(k)
  if (is_gpu(part)) strip(part) else part_elements(part)
}

# ---- diff() ------------------------------------------------------------------------------------------------

#' @export
diff.gpu_split <- function(x, lag = 1L, differences = 1L, ...) {
  call <- environment()
  frames_refused(x, "diff", call)
  by <- differences_by(lag, differences, call)
  state <- state_of(x)
  prototype <- prototype_of(x, call)
  # base R raises its error for other classes
  if (is_no_number(x, call)) {
    diff(restored(c(1, 1), prototype))
    refuse_split("diff", call, "Differences of a factor's codes are no factor.")
  }
  n <- if (state$margin == 2) state$across else sum(state$layout$counts)
  if (by$lag * by$differences >= n) return(split_of_no_differences(x, call))
  for (k in seq_len(by$differences)) x <- split_differences(x, by$lag, call)
  x
}

split_differences <- function(x, lag, call) {
  state <- state_of(x)
  if (state$margin == 2) return(record_split(x, "part_diff", list(x, lag), across = state$across - lag, names =
    state$names[-seq_len(lag)]))
  out <- compute_split(x, "part_differences", list(x, lag, parts_of(x), counts_of(x)), kind = state$kind, call = call)
  prototype <- prototype_of(x, call)
  if (!is.object(prototype) || inherits(prototype, "integer64")) return(out)
  # base R's difference of two elements has the class; of times also the unit, which the smallest difference selects
  smallest <- if (inherits(prototype, "POSIXct")) suppressWarnings(min(abs(out), na.rm = TRUE)) else 0
  like <- diff(restored(c(0, if (is.finite(smallest)) smallest else 0), prototype))
  if (inherits(prototype, "POSIXct")) out <- out / c(secs = 1, mins = 60, hours = 3600, days = 86400)[[units(like)]]
  restored_split(out, like[0L])
}
part_diff <- function(x, lag) diff(x, lag)
part_differences <- function(x, lag, others, counts) {
  x <- if (is.null(dim(x))) part_elements(x) else x
  rank <- running_member()$rank
  before <- sum(counts[seq_len(rank - 1L)])
  own <- counts[rank]
  rows <- max(0, min(own, sum(counts) - lag - before))
  some <- function(at) if (is.null(dim(x))) x[at] else x[at, , drop = FALSE]
  # other members need no more than this one's first `lag` rows
  shifted <- rows_of_whole(x, before + lag, rows, if (is.null(dim(x))) plain_parts(others) else others, counts,
    some(seq_len(min(lag, own))))
  gpu_compute(shifted - some(seq_len(rows)))
}

# For a lag that leaves no rows. Base R's differences of an element, or row, have the type and form.
split_of_no_differences <- function(x, call) {
  state <- state_of(x)
  prototype <- prototype_of(x, call)
  if (is.object(prototype) && !inherits(prototype, "integer64")) {
    none <- compute_split(x, "part_no_differences", list(x, FALSE, FALSE), kind = "vector", call = call)
    return(restored_split(none, diff(restored(1, prototype))))
  }
  like <- diff(if (state$kind == "matrix") base::matrix(FALSE, 1L, 2L) else FALSE)
  matrix <- length(dim(like)) == 2L
  args <- list(x, is.integer(like), matrix)
  if (matrix && state$margin == 2) return(record_split(x, "part_no_differences", args, across = 0, names = NULL))
  compute_split(x, "part_no_differences", args, kind = if (matrix) "matrix" else "vector", call = call)
}
part_no_differences <- function(x, subtracted, matrix) {
  none <- if (matrix) x[0L, , drop = FALSE] else part_elements(x)[0L]
  if (subtracted) none - none else none
}
