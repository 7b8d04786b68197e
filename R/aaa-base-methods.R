# Base R's functions for models, run on arrays.
#
# The methods of stats for fits are loops and formulas over generics: given this package's versions of the few functions
# that do not dispatch (`ifelse()`, `%*%`, `lm.fit()` and so on), they compute with arrays as they are. So a method for
# our fits is base R's function of the running R with another enclosure: its arguments, results, warnings and messages
# are base R's own, in each version.

# The enclosure, filled in zzz.R when all functions are defined.
MODEL_MASKS <- new.env(parent = asNamespace("stats"))

# Base R's function of the first of these names that this version of R has, which calls ours where there are some.
on_arrays <- function(names) {
  there <- vapply(names, exists, NA, envir = asNamespace("stats"), inherits = FALSE)
  f <- get(names[there][1L], envir = asNamespace("stats"))
  environment(f) <- MODEL_MASKS
  # some call the generic, where R CMD check takes qr.Q() and its like for its methods
  body(f) <- with_other_heads(body(f), "qr", "qr.lm")
  f
}

# Code in which calls of a function are those of another one.
with_other_heads <- function(code, from, to) {
  if (!is.call(code)) return(code)
  for (k in seq_along(code)) if (is.call(code[[k]])) code[[k]] <- with_other_heads(code[[k]], from, to)
  if (identical(code[[1L]], as.name(from))) code[[1L]] <- as.name(to)
  code
}

# A function of any package, or the user's, that calls ours in place of those of base and stats that it would find.
with_our_functions <- function(f, ...) {
  if (!is.function(f) || is.primitive(f)) return(f)
  home <- environment(f)
  # those that dispatch in this version of R are not ours
  masks <- mget(ARITHMETIC_MASKS, envir = topenv(), ifnotfound = list(NULL))
  masks <- masks[lengths(masks) > 0L]
  if (!within_stats(home, names(masks))) masks <- masks[vapply(names(masks), function(name) {
    found <- get0(name, envir = home, mode = "function")
    is.null(found) || environmentName(topenv(environment(found) %||% baseenv())) %in% c("base", "stats")
  }, NA)]
  masks <- c(masks, list(...))
  masks$.verdigris_original <- f
  environment(f) <- list2env(masks, parent = home)
  f
}

# Whether these names are base R's in an enclosure: one of stats' own functions made it, and it has none of them.
within_stats <- function(home, names) {
  stats <- asNamespace("stats")
  identical(home, stats) || !identical(home, emptyenv()) && identical(parent.env(home), stats) &&
    !any(names %in% names(home))
}

# The function that it was.
without_our_functions <- function(f) {
  if (!is.function(f) || is.primitive(f)) return(f)
  get0(".verdigris_original", envir = environment(f), inherits = FALSE, ifnotfound = f)
}

# What formulas over arrays call that does not dispatch on them.
ARITHMETIC_MASKS <- c("ifelse", "pmax", "pmin", "%*%", "%o%", "crossprod", "drop", "sweep", "var", "dbinom", "dpois",
  "dgamma", "dnorm", "dcauchy", "pnorm", "qnorm", "pcauchy", "qcauchy")
