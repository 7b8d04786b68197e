# Cumulative functions of splits. Each member continues from the carry, the last running value of the members before it.
# For sums of doubles and for extremes all members compute at once, and the last values of their parts are joined. Sums
# of integers and products may overflow or become infinite on the way, so one member computes after the other.

cumulative_split <- function(x, name, call) {
  check_vector_split(x, name, call)
  prototype <- prototype_of(x, call)
  whole <- inherits(prototype, "integer64")
  if (!is.null(prototype) && !whole) {
    # base R raises its error for the class
    get(name, baseenv())(restored(1, prototype))
    refuse_split(name, call, "Only numbers are supported.")
  }
  type <- type_of(x)
  if (type == "complex" && name %in% c("cummax", "cummin")) return(get(name, baseenv())(0i))
  narrow <- whole || type %in% c("logical", "integer")
  independent <- name %in% c("cummax", "cummin") || name == "cumsum" && !narrow
  team <- state_of(x)$team
  if (team$engine$kind != "local") {
    out <- compute_split(x, "part_cumulated", list(x, name, independent), kind = "vector", call = call)
  } else {
    carries <- cumulated_before(x, name, independent, call)
    out <- record_split(x, "part_continued", list(x, name, structure(function(rank) carries[rank],
      class = "team_each")))
  }
  if (name == "cumsum" && narrow && overflows(x, out)) warning(simpleWarning(scan_overflow(whole), written_call(call)))
  out
}

scan_overflow <- function(int64) if (int64) "NAs produced by integer64 overflow" else
  "integer overflow in 'cumsum'; use 'cumsum(as.numeric(.))'"

# Whether a running sum has overflowed: it is missing before the first missing element.
overflows <- function(x, sums) {
  if (!any(is.na(sums))) return(FALSE)
  !any(is.na(x)) || which.max(is.na(sums)) < which.max(is.na(x))
}

# In a member: running values that continue from `carry`, a list of the carry, or of NULL if there is none.
part_continued <- function(x, name, carry) withCallingHandlers(gpu_compute(strip(cumulated(name, carry[[1L]],
  as_gpu(strip(x), device = running_member()$device)))), warning = function(w) tryInvokeRestart("muffleWarning"))
# The last running value, in a list; of an empty part, the carry.
part_last <- function(x, name, carry) {
  n <- length(x)
  if (n > 0L) list(value = collect_values(part_continued(x, name, carry)[n])) else list(value = carry[[1L]])
}
# The carry after some members' parts, from the last running value of each part alone.
joined_last <- function(name, values) Reduce(function(carry, value) if (is.null(carry)) value else if (is.null(value))
  carry else collect_values(cumulated(name, carry, on_cpu(value))), values, NULL)

# For members of this process: the carry of each rank.
cumulated_before <- function(x, name, independent, call) {
  team <- state_of(x)$team
  size <- team$engine$size
  if (independent) {
    own <- lapply(gathered_lists(x, "part_last", list(name, list(NULL)), call), `[[`, "value")
    return(lapply(seq_len(size), function(rank) joined_last(name, own[seq_len(rank - 1L)])))
  }
  part <- task_argument(x)
  carries <- vector("list", size)
  for (k in seq_len(size - 1L)) {
    task <- function(rank) if (rank == k) list(f = "part_last", args = list(part, name, carries[k]))
    carries[k + 1L] <- list(request_all(team, task, "The split could not be read", call)[[k]]$value)
  }
  carries
}

# In a member of several processes: its running values.
part_cumulated <- function(x, name, independent) {
  member <- running_member()
  gather <- function(v) lapply(gathered_by_members(v, member), function(v) if (length(v)) collect_values(v))
  own <- part_continued(x, name, list(NULL))
  last <- function(y) y[if (length(y)) length(y) else 0L]
  if (independent) {
    carry <- joined_last(name, gather(last(own))[seq_len(member$rank - 1L)])
    return(part_continued(x, name, list(carry)))
  }
  carry <- NULL
  for (k in seq_len(member$size)) {
    if (k == member$rank) own <- part_continued(x, name, list(carry))
    gathered <- gather(if (k == member$rank) last(own) else own[0L])[[k]]
    if (k < member$rank && !is.null(gathered)) carry <- gathered
  }
  own
}
