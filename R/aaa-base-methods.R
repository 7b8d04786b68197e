# Functions of stats for models, evaluated on arrays.
#
# The stats methods for fits consist of loops and formulas over generics. If the few functions that do not dispatch
# (`ifelse()`, `%*%`, `lm.fit()` and so on) are replaced by this package's versions, they compute with arrays unchanged.
# So a method for fits on arrays is the stats function of the running R with another enclosure: its arguments, results,
# warnings and messages are those of that version of R.

# The enclosure of those functions. zzz.R fills it once all functions are defined.
MODEL_MASKS <- new.env(parent = asNamespace("stats"))

# The first of these functions that this version of stats has, with MODEL_MASKS as its enclosure.
on_arrays <- function(names) {
  there <- vapply(names, exists, NA, envir = asNamespace("stats"), inherits = FALSE)
  f <- get(names[there][1L], envir = asNamespace("stats"))
  environment(f) <- MODEL_MASKS
  # Some stats functions call qr(). The mask has the name qr.lm: if this package defined qr(), R CMD check would take
  # qr.Q() and similar functions for its methods.
  body(f) <- with_other_heads(body(f), "qr", "qr.lm")
  f
}

# A copy of the code in which calls of `from` are calls of `to`.
with_other_heads <- function(code, from, to) {
  if (!is.call(code)) return(code)
  for (k in seq_along(code)) if (is.call(code[[k]])) code[[k]] <- with_other_heads(code[[k]], from, to)
  if (identical(code[[1L]], as.name(from))) code[[1L]] <- as.name(to)
  code
}

# A copy of `f`, a function of a user or of any package, that calls this package's versions of the base and stats
# functions that it would find by name. A name that resolves to another function, such as the user's own, is left alone.
# `original`: what without_our_functions() gives back.
with_our_functions <- function(f, ..., original = f, within = our_functions_for(environment(f), ...)) {
  if (!is.function(f) || is.primitive(f)) return(f)
  own <- new.env(parent = within)
  own$.verdigris_original <- original
  environment(f) <- own
  f
}

# The enclosure of such copies of functions with enclosure `home`, with further functions.
our_functions_for <- function(home, ...) {
  # Functions that are generic in this version of R are not defined here.
  masks <- mget(ARITHMETIC_MASKS, envir = topenv(), ifnotfound = list(NULL))
  masks <- masks[lengths(masks) > 0L]
  if (!within_stats(home, names(masks))) masks <- masks[vapply(names(masks), function(name) {
    found <- get0(name, envir = home, mode = "function")
    is.null(found) || is_own_of_r(found)
  }, NA)]
  more <- list(...)
  masks[names(more)] <- more
  list2env(masks, parent = home)
}

# Whether a function is one of base or stats.
is_own_of_r <- function(f) environmentName(topenv(environment(f) %||% baseenv())) %in% c("base", "stats")

# Whether a function with enclosure `home` sees the base and stats functions of these names: `home` is the namespace of
# stats or a frame directly inside it, and defines none of them.
within_stats <- function(home, names) {
  stats <- asNamespace("stats")
  identical(home, stats) || !identical(home, emptyenv()) && identical(parent.env(home), stats) &&
    !any(names %in% names(home))
}

# Undoes with_our_functions().
without_our_functions <- function(f) {
  if (!is.function(f) || is.primitive(f)) return(f)
  get0(".verdigris_original", envir = environment(f), inherits = FALSE, ifnotfound = f)
}

# Functions that formulas over arrays call and that do not dispatch on arrays.
ARITHMETIC_MASKS <- c("ifelse", "pmax", "pmin", "%*%", "%o%", "crossprod", "drop", "sweep", "var", "dbinom", "dpois",
  "dgamma", "dnorm", "dcauchy", "pnorm", "qnorm", "pcauchy", "qcauchy")
