# Splits over members of this process. The state of such a split holds the members' parts (`parts`, a list by rank): an
# operation is called on them at once, and R's collector frees them. Parts in other processes have names, and
# operations on them are queued (team-split.R).

# Whether the members that this session asks are in its own process.
are_here <- function(team) {
  kind <- team$engine$kind
  kind == "local" || kind == "env"
}

# The values of f(args) by rank, where `f` is the name of a function. An error is kept in place of a part, and raised by
# what uses it, as in other processes. In a launcher's team there is only this process's own part.
parts_made <- function(team, f, args, layout) {
  is_elementwise <- !is.null(ELEMENTWISE[[f]]) && length(args) <= 2L
  f <- get(f, envir = parent.env(environment()), mode = "function")
  parts <- if (is_elementwise) tryCatch(elementwise_parts(team, f, args), error = function(e) NULL)
  if (!is.null(parts)) return(parts)
  parts <- vector("list", team$engine$size)
  for (member in team$engine$members) parts[member$rank] <- list(as_member(member, tryCatch(call_by_place(f,
    lapply(args, argument_here, member, layout)), error = failed_part)))
  parts
}

# The same for an elementwise function of arrays and single numbers, which needs no running member. It takes a third of
# the time. Fails for other arguments; an error of f is left to parts_made(), which keeps it in place of the part.
elementwise_parts <- function(team, f, args) {
  parts <- vector("list", team$engine$size)
  for (member in team$engine$members) {
    own <- lapply(args, elementwise_argument, member$rank)
    parts[[member$rank]] <- if (length(own) == 1L) f(own[[1L]]) else f(own[[1L]], own[[2L]])
  }
  parts
}
elementwise_argument <- function(arg, rank) {
  if (!is.object(arg)) return(arg)
  part <- if (is_split(arg)) state_of(arg)$parts[[rank]]
  if (!is_gpu(part)) stop("The argument has no array on this member.")
  part
}

# An argument of a recorded operation as this member's function gets it.
argument_here <- function(arg, member, layout) {
  if (is.object(arg)) part_of(wire_for_rank(wire_argument(arg, layout), member$rank), member) else arg
}

# A member's part of the split with this state.
part_here <- function(state, rank) {
  part <- state$parts[[rank]]
  if (is_later(part)) state$parts[rank] <- list(part <- finished_part(part))
  usable_part(part)
}

# The parts of all members, whose attributes tell types and classes. NULL if some are in other processes, or no arrays.
arrays_here <- function(x) {
  state <- state_of(x)
  if (state$team$engine$kind != "local") return()
  for (part in state$parts) if (!is_gpu(part)) return()
  state$parts
}

# Takes the parts that members have stored under this id.
stored_parts <- function(team, id) {
  parts <- vector("list", team$engine$size)
  for (member in team$engine$members) {
    parts[member$rank] <- list(member$store[[id]])
    rm(list = id, envir = member$store)
  }
  parts
}
