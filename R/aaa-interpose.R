# Interposed functions: base R functions that are not generic, exported under their own names and with their own
# formals. A call with an array (or an object of another supported class) among its arguments goes to a function of this
# package, any other call to base R.
#
# Base R's function is reached as an S4 method is reached from its generic: with the same call, frames and promises. So
# conditions show the call that the user wrote, and `missing()`, `nargs()`, `substitute()` and `match.call()` work as
# always. A real generic would not find an array inside a list, would evaluate arguments in order to dispatch, and would
# add 3 to 4 ms to the loading of the package.

# A variable in the environment of each interposed function, by which `written_call()` recognises it.
INTERPOSED <- ".verdigris"

# This namespace. The environments of interposed functions bind it under the same name, for their tests and methods. It
# is also a variable of the namespace because R CMD check evaluates the first argument of each .Call() there.
.ours <- topenv()

# `among` names the arguments that may be arrays, or is a call that tests for them, in which `.ours` is this package;
# then `arguments` names the arguments that the call inspects, and `is` tests a single value, for masks of other
# packages' functions (base-masks.R). `frames`: the first argument may be a data frame of arrays (base-frames.R).
interposed <- function(name, among, method, home = "base", class = "gpu_array", arguments = among, is = NULL,
  frames = FALSE) {
  theirs <- get(name, envir = asNamespace(home))
  f <- theirs
  ours <- function(call) {
    call[[1L]] <- call("$", quote(.ours), call[[1L]])
    call
  }
  # Missing arguments are left to the function that is reached. is.object() comes before inherits(): if evaluating the
  # argument fails inside a primitive, the condition names this frame's call, whereas it would name inherits().
  is_object <- function(argument) bquote(!missing(.(as.name(argument))) && is.object(.(as.name(argument))))
  inherit <- function(argument, class) {
    if (argument == "...") return(bquote(.Call(.ours$C_any_inherit, list(...), .(class))))
    bquote(.(is_object(argument)) && inherits(.(as.name(argument)), .(class)))
  }
  among_any <- function(arguments, test, ...) Reduce(function(a, b) call("||", a, b), lapply(arguments, test, ...))
  method <- ours(substitute(method))
  # Remote classes that this function does not support.
  refused <- setdiff(REMOTES, class)
  if (length(refused) == length(REMOTES)) refused <- REMOTE
  remote <- among_any(arguments, inherit, refused)
  test <- if (is.call(among)) call("||", among, remote) else among_any(among, inherit, c(class, refused))
  if (frames) test <- bquote(.(test) || .(is_object(arguments[1L])) && .ours$is_matrix_frame(.(as.name(arguments[1L]))))
  # Ordinary arguments fail this one cheap test, which evaluates them in base R's order.
  if (!"..." %in% arguments && !is.call(among)) test <- bquote((.(among_any(among, is_object))) && (.(test)))
  refuse <- ours(bquote(refuse_remote(.(name), .(given_of(arguments)))))
  body(f) <- bquote({
    if (.(test)) {
      if (.(remote)) .(refuse)
      return(.(method))
    }
    .(as.name(INTERPOSED)) <- TRUE
    .defined <- .Method <- .target <- NULL
    standardGeneric(.(name), .(constant_generic(theirs)))
  })
  selector <- list(arguments = arguments, class = unique(c(class, REMOTE)),
    is = if (!is.null(is)) function(x) is(x) || inherits(x, REMOTE), frames = frames)
  environment(f) <- list2env(list(.Generic = name, .Methods = NULL, .ours = .ours, .selector = selector),
    parent = asNamespace(home))
  assign(INTERPOSED, TRUE, envir = environment(f))
  f
}

# A call that collects the values of these arguments in a list when evaluated in the function's frame.
given_of <- function(arguments) {
  one <- function(argument) {
    if (argument == "...") return(quote(list(...)))
    bquote(if (!missing(.(as.name(argument)))) list(.(as.name(argument))))
  }
  as.call(c(list(quote(c)), lapply(arguments, one)))
}

# The part of a generic that `standardGeneric()` reads. It dispatches on the variable `.verdigris`, which is always
# TRUE, and so always selects `method`. The other variables are those that a method's frame receives from its generic's
# (`?Methods_Details`).
constant_generic <- function(method) {
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

# Defaults of base R's formals refer to variables of its function bodies; functions evaluated in blocks refer to
# variables that block_function() defines.
utils::globalVariables(c("R", "f", "list.names", "n", "p", "reader"))
