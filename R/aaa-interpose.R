# Interposed functions: functions of base R that are not generic, exported under their own names and with their own
# formals. A call with an array (or an object of another class) among its arguments goes to a function of this package,
# any other to base R's.
#
# It reaches base R's function as an S4 generic's call reaches its method: with the same call, frames and promises. So
# conditions show what the user wrote, and `missing()`, `nargs()`, `substitute()` and `match.call()` answer as always. A
# true generic would dispatch on classes, which does not find an array in a list and evaluates arguments, and it costs 3
# to 4 ms when the package is loaded.

# What an environment of interposed functions holds, by which `written_call()` knows them.
INTERPOSED <- ".verdigris"

# This package for the tests and methods of interposed functions, whose environments have it under the same name. It is
# a variable of the namespace for R CMD check, which evaluates the first argument of each .Call() there.
.ours <- topenv()

# `among` names the arguments that may be arrays, or is a call that finds out, in which `.ours` is this package;
# `arguments` then names what the call looks at, and `is` tells of a single value whether it counts, for masks of other
# packages' functions (base-masks.R). `frames`: the first argument may be a data frame of arrays (base-frames.R).
interposed <- function(name, among, method, home = "base", class = "gpu_array", arguments = among, is = NULL,
  frames = FALSE) {
  theirs <- get(name, envir = asNamespace(home))
  f <- theirs
  ours <- function(call) {
    call[[1L]] <- call("$", quote(.ours), call[[1L]])
    call
  }
  # What a call does not give is left to the function that it reaches. A primitive evaluates an argument in this frame,
  # which conditions name; inherits() would be named itself.
  is_object <- function(argument) bquote(!missing(.(as.name(argument))) && is.object(.(as.name(argument))))
  inherit <- function(argument, class) {
    if (argument == "...") return(bquote(.Call(.ours$C_any_inherit, list(...), .(class))))
    bquote(.(is_object(argument)) && inherits(.(as.name(argument)), .(class)))
  }
  among_any <- function(arguments, test, ...) Reduce(function(a, b) call("||", a, b), lapply(arguments, test, ...))
  method <- ours(substitute(method))
  # splits, readers and references that it does not take
  refused <- setdiff(REMOTES, class)
  if (length(refused) == length(REMOTES)) refused <- REMOTE
  remote <- among_any(arguments, inherit, refused)
  test <- if (is.call(among)) call("||", among, remote) else among_any(among, inherit, c(class, refused))
  if (frames) test <- bquote(.(test) || .(is_object(arguments[1L])) && .ours$is_matrix_frame(.(as.name(arguments[1L]))))
  # one look at ordinary arguments, which evaluates them in base R's order
  if (!"..." %in% arguments && !is.call(among)) test <- bquote((.(among_any(among, is_object))) && (.(test)))
  refuse <- ours(bquote(refuse_remote(.(name), .(given_of(arguments)))))
  body(f) <- bquote({
    if (.(test)) {
      if (.(remote)) .(refuse)
      return(.(method))
    }
    .(as.name(INTERPOSED)) <- TRUE
    .defined <- .Method <- .target <- NULL
    standardGeneric(.(name), .(always(theirs)))
  })
  selector <- list(arguments = arguments, class = unique(c(class, REMOTE)),
    is = if (!is.null(is)) function(x) is(x) || inherits(x, REMOTE), frames = frames)
  environment(f) <- list2env(list(.Generic = name, .Methods = NULL, .ours = .ours, .selector = selector),
    parent = asNamespace(home))
  assign(INTERPOSED, TRUE, envir = environment(f))
  f
}

# A list of the values of some arguments, as a call in the function's frame.
given_of <- function(arguments) {
  one <- function(argument) {
    if (argument == "...") return(quote(list(...)))
    bquote(if (!missing(.(as.name(argument)))) list(.(as.name(argument))))
  }
  as.call(c(list(quote(c)), lapply(arguments, one)))
}

# A generic, as far as `standardGeneric()` looks at it, that dispatches on the variable `.verdigris`, which is TRUE, and
# so always to `method`. The variables beside it are what a method's frame has from its generic's (`?Methods_Details`).
always <- function(method) {
  table <- list2env(list(logical = method), parent = emptyenv())
  tables <- list(.SigArgs = list(as.name(INTERPOSED)), .SigLength = 1L, .AllMTable = table, .MTable = table)
  generic <- function() NULL
  environment(generic) <- list2env(tables, parent = emptyenv())
  generic
}

is_interposed <- function(f) {
  home <- environment(f)
  is.environment(home) && exists(INTERPOSED, envir = home, inherits = FALSE)
}

# Defaults of base R's formals name variables of its bodies, and functions of blocks what block_function() gives them.
utils::globalVariables(c("R", "f", "list.names", "n", "p", "reader"))
