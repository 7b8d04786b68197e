# The class of a split's elements: dates, times, differences of times, factors, 64-bit integers. Members compute with
# numbers; what class the result has, or what is wrong, base R's own function says of a few elements of the class.

# No element of a split vector, with the attributes of its class: levels, units, time zone. NULL where it has none.
prototype_of <- function(x, call = parent.frame()) {
  state <- state_of(x)
  if (state$kind != "vector") return(NULL)
  if (is.null(state$prototype)) {
    part <- structure(list(id = state$id), class = "team_part")
    task <- function(rank) list(f = "part_prototype", args = list(part))
    found <- unique(together(state$team, task, "The split could not be read", call))
    if (length(found) > 1L) stop_verdigris("split", "The members' parts are of different classes, or have other levels.",
      "The function must return parts of the same form on all members.", call = call)
    state$prototype <- list(found[[1L]])
  }
  state$prototype[[1L]]
}
part_prototype <- function(x) {
  none <- if (is_gpu(x)) collect(x[0L]) else x[0L]
  if (is.object(none) || !is.numeric(none) && !is.logical(none) && !is.complex(none)) none
}

is_split_int64 <- function(x, call = parent.frame()) inherits(prototype_of(x, call), "integer64")

is_no_number <- function(x, call = parent.frame()) {
  prototype <- prototype_of(x, call)
  is.factor(prototype) || is.character(prototype)
}

# Numbers as elements of the prototype's class.
restored <- function(numbers, prototype) {
  if (is.null(prototype)) return(numbers)
  if (is.factor(prototype)) numbers <- as.integer(numbers) else if (is.character(prototype))
    numbers <- rep("", length(numbers))
  attributes(numbers) <- attributes(prototype)
  numbers
}
# In a member: codes of a factor as numbers; and what `restored()` makes of an array.
part_numbers <- function(x) if (is.factor(x)) as.integer(x) else x
part_restored <- function(x, prototype) restored(if (is.factor(prototype)) collect(x) else x, prototype)

# The value of a function of a vector, from numbers of which it has the same value. Of a class f is base R's, which may
# raise its error.
in_class <- function(x, f, numbers, call = parent.frame()) {
  prototype <- prototype_of(x, call)
  if (is.null(prototype)) numbers else f(restored(numbers, prototype))
}

# sum(), min(), max() and range() of 64-bit integers: exact, as of one array.
int64_summary <- function(x, name, na.rm, call) {
  if (name == "prod") refuse_split(name, call, "64-bit integers have `sum()`, `min()`, `max()` and `range()`.")
  if (name == "sum") return(reduced(x, "stat_sum64", list(na.rm), call = call))
  ends <- reduced(x, "stat_range64", list(na.rm), "max", call = call)
  low <- -as_gpu(ends[1L], device = "cpu")
  high <- as_gpu(ends[2L], device = "cpu")
  collect(switch(name, min = low, max = high, join(list(low, high))))
}
# As bit64's: whole, without what is behind the point.
int64_mean <- function(x, na.rm, call) {
  total <- as_gpu(reduced(x, "stat_sum64", list(na.rm), call = call), device = "cpu")
  n <- if (na.rm) reduced(x, "stat_known", call = call) else length(x)
  as_int <- function(number) gpu_cast(as_gpu(as.double(number), device = "cpu"), "int64")
  collect(if (n == 0) as_int(NA) else ifelse(total < 0, -(-total %/% as_int(n)), total %/% as_int(n)))
}
stat_known <- function(x) as.vector(sum(wide(!is.na(x))))

# In a member, as arrays of one element: their reductions are doubles. NA where an element is.
stat_sum64 <- function(x, na.rm) last64(x, na.rm, cumsum, 0)
stat_range64 <- function(x, na.rm) {
  # of none what no other is below
  join(list(last64(-x, na.rm, cummax, -2^62), last64(x, na.rm, cummax, -2^62)))
}
last64 <- function(x, na.rm, cumulated, none) {
  x <- strip(x)
  if (na.rm) x <- x[!is.na(x)]
  if (length(x) == 0L) gpu_cast(as_gpu(none, device = running_member()$device), "int64") else
    cumulated(x)[length(x)]
}

# Of strings only their order is known to all members.
string_summary <- function(x, name, na.rm, call) {
  if (!name %in% c("min", "max", "range")) return(get(name, baseenv())("", na.rm = na.rm))
  values <- unlist(gathered_lists(x, "part_string_range", list(na.rm), call))
  get(name, baseenv())(if (is.null(values)) character() else values, na.rm = na.rm)
}
part_string_range <- function(x, na.rm) {
  if (na.rm) x <- x[!is.na(x)]
  if (length(x)) range(x) else character()
}

# Whole numbers as strings in their order, whatever their size.
in_order_of_integers <- function(texts) {
  below <- startsWith(texts, "-")
  up <- function(digits) digits[order(nchar(digits), digits)]
  c(rev(up(texts[below])), up(texts[!below]))
}
