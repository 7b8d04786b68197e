# The class of a split's elements: dates, times, differences of times, factors, 64-bit integers. Members compute with
# plain numbers. Base R's own function, called on a few elements of the class, gives the class of the result, or raises
# the error.

# A vector of length 0 with the class and attributes of a split vector's elements: levels, units, time zone. NULL for
# plain numbers, and for splits that are not vectors.
prototype_of <- function(x, call = parent.frame()) {
  state <- state_of(x)
  if (state$kind != "vector") return(NULL)
  if (is.null(state$prototype)) {
    found <- unique(told_by_parts(x, "part_prototype", "The split could not be read", call))
    if (length(found) > 1L) stop_verdigris("split", "The members' parts are of different classes, or have other levels.",
      "The function must return parts of the same form on all members.", call = call)
    state$prototype <- list(found[[1L]])
  }
  state$prototype[[1L]]
}

# f(part) by rank, of attributes of the parts alone. Nobody is asked where all parts are arrays of this process.
told_by_parts <- function(x, f, what, call) {
  here <- arrays_here(x)
  if (!is.null(here)) return(lapply(here, f))
  task <- list(f = f, args = list(task_argument(x)))
  request_all(state_of(x)$team, function(rank) task, what, call)
}

# ---- types that are known without asking the members ----------------------------------------------------

# Notes the type of a split's numbers, NULL if it is not known. Asking for it takes a message to each member and back.
knowing_type <- function(x, type) {
  state <- state_of(x)
  kind <- state$kind
  if (is.null(type) || kind != "vector" && kind != "matrix") return(x)
  state$type <- type
  if (kind == "vector") state$prototype <- list(NULL)
  state$is_plain <- TRUE
  x
}

# That type, unless the elements may be 64-bit integers, which type_of() calls doubles.
known_type <- function(x) {
  state <- state_of(x)
  if (isTRUE(state$is_plain) || state$kind == "vector" && identical(state$prototype, list(NULL))) state$type
}

# Elementwise functions: the result's type depends on the types of their arguments alone.
ELEMENTWISE <- list2env(sapply(c(names(OPERATORS), "!", "abs", "sign", "sqrt", "exp", "expm1", "log", "log1p", "log2",
  "log10", "floor", "ceiling", "trunc", "round", "signif", "cos", "sin", "tan", "acos", "asin", "atan", "cosh", "sinh",
  "tanh", "gamma", "lgamma", "digamma", "trigamma", "is.na", "is.nan", "is.finite", "is.infinite"),
  function(name) TRUE, simplify = FALSE))

# The type of the elements of f(args), NULL if it is not known.
type_of_call <- function(f, args) {
  if (f == "t" || f == "part_columns" || f == "part_column") return(known_type(args[[1L]]))
  types <- character(length(args))
  for (k in seq_along(args)) {
    arg <- args[[k]]
    if (inherits(arg, "team_operand")) arg <- arg$value
    type <- if (is_split(arg)) known_type(arg) else if (!is.object(arg)) typeof(arg)
    if (is.null(type)) return(NULL)
    types[k] <- type
  }
  key <- paste(c(f, types), collapse = " ")
  if (is.null(TYPES_OF_CALLS[[key]])) TYPES_OF_CALLS[[key]] <- list(type_by_base(f, types))
  TYPES_OF_CALLS[[key]][[1L]]
}
TYPES_OF_CALLS <- new.env(parent = emptyenv())

# Base R tells the type for one element of each type.
type_by_base <- function(f, types) {
  if (is.null(ELEMENTWISE[[f]]) || !all(types %in% c("logical", "integer", "double", "complex"))) return(NULL)
  examples <- lapply(types, function(type) as.vector(1, type))
  tryCatch(typeof(suppressWarnings(do.call(f, examples))), error = function(e) NULL)
}

part_prototype <- function(x) {
  if (is_gpu(x) && oldClass(x)[1L] %in% names(KINDS) && !is_int64(x)) return()
  none <- if (is_gpu(x)) collect(x[0L]) else x[0L]
  if (is.object(none) || !is.numeric(none) && !is.logical(none) && !is.complex(none)) none
}

is_split_int64 <- function(x, call = parent.frame()) inherits(prototype_of(x, call), "integer64")

is_no_number <- function(x, call = parent.frame()) {
  prototype <- prototype_of(x, call)
  is.factor(prototype) || is.character(prototype)
}

# Numbers with the class and attributes of the prototype.
restored <- function(numbers, prototype) {
  if (is.null(prototype)) return(numbers)
  if (is.factor(prototype)) numbers <- as.integer(numbers) else if (is.character(prototype))
    numbers <- rep("", length(numbers))
  attributes(numbers) <- attributes(prototype)
  numbers
}
# In a member: the codes of a factor as numbers; and `restored()` of an array.
part_numbers <- function(x) if (is.factor(x)) as.integer(x) else x
part_restored <- function(x, prototype) restored(if (is.factor(prototype)) collect(x) else x, prototype)

# The value of f of a split vector. `numbers` are numbers of which f has the same value; they are the result if there is
# no class. For a class, f is base R's function, called on elements of the class: it may raise its error.
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
  # no member has an element: base R determines the result, and warns
  if (isTRUE(as.vector(low > high))) return(eval(call(name, numeric())))
  collect(switch(name, min = low, max = high, join(list(low, high))))
}
# As in bit64, the mean is truncated to a whole number.
int64_mean <- function(x, na.rm, call) {
  total <- as_gpu(reduced(x, "stat_sum64", list(na.rm), call = call), device = "cpu")
  n <- if (na.rm) reduced(x, "stat_known", call = call) else length(x)
  as_int <- function(number) gpu_cast(as_gpu(as.double(number), device = "cpu"), "int64")
  collect(if (n == 0) as_int(NA) else select_by(total < 0, -(-total %/% as_int(n)), total %/% as_int(n)))
}
stat_known <- function(x) numbers_later(sum(widen_for_sum(!is.na(x))))

# In a member: sums and extremes as arrays of one element. They are taken from running values, since reductions of
# 64-bit integers are doubles. NA if an element is NA.
stat_sum64 <- function(x, na.rm) last64(x, na.rm, cumsum, function() int64_number(0, running_member()$device))
stat_range64 <- function(x, na.rm) {
  # an empty part contributes the smallest number, -(2^63 - 1)
  none <- function() int64_number(-2^62, running_member()$device) + 1L - int64_number(2^62, running_member()$device)
  join(list(last64(-x, na.rm, cummax, none), last64(x, na.rm, cummax, none)))
}
last64 <- function(x, na.rm, cumulated, none) {
  x <- strip(x)
  if (na.rm) x <- x[!is.na(x)]
  if (length(x) == 0L) none() else cumulated(x)[length(x)]
}

# min(), max() and range() of strings. Base R raises its error for other functions.
string_summary <- function(x, name, na.rm, call) {
  if (!name %in% c("min", "max", "range")) return(get(name, baseenv())("", na.rm = na.rm))
  values <- unlist(gathered_lists(x, "part_string_range", list(na.rm), call))
  get(name, baseenv())(if (is.null(values)) character() else values, na.rm = na.rm)
}
part_string_range <- function(x, na.rm) {
  if (na.rm) x <- x[!is.na(x)]
  if (length(x)) range(x) else character()
}

# Whole numbers of any size, given as strings, in ascending order.
in_order_of_integers <- function(texts) {
  below <- startsWith(texts, "-")
  up <- function(digits) digits[order(nchar(digits), digits)]
  c(rev(up(texts[below])), up(texts[!below]))
}
