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
  parts <- vector("list", team$engine$size)
  f <- get(f, envir = parent.env(environment()), mode = "function")
  for (member in team$engine$members) parts[member$rank] <- list(as_member(member, tryCatch(call_by_place(f,
    lapply(args, argument_here, member, layout)), error = failed_part)))
  parts
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

# Takes the parts that members have stored under this id.
stored_parts <- function(team, id) {
  parts <- vector("list", team$engine$size)
  for (member in team$engine$members) {
    parts[member$rank] <- list(member$store[[id]])
    rm(list = id, envir = member$store)
  }
  parts
}
