# Functions of base R that are no generics, exported under their own names: base R's own formals and body, in front of which a call
# with an array (or an object of another class) among its arguments goes to a function of this package.
#
# So for anything else they are base R's, to the frames and calls that their conditions name. An S4 generic would do the same,
# and cost 3 to 4 ms each when the package is loaded.

# What an environment of interposed functions holds, by which `written_call()` knows them.
INTERPOSED <- ".verdigris"

# `among` names the arguments that may be arrays, or is a call that finds out.
interposed <- function(name, among, method, home = "base", class = "gpu_array") {
  f <- get(name, envir = asNamespace(home))
  ours <- function(call) {
    call[[1L]] <- call("$", quote(asNamespace("verdigris")), call[[1L]])
    call
  }
  is_array <- function(argument) {
    if (argument == "...") return(bquote(any(vapply(list(...), inherits, NA, .(class)))))
    if (identical(formals(f)[[argument]], quote(expr = ))) return(bquote(!missing(.(as.name(argument))) && inherits(.(as.name(argument)), .(class))))
    bquote(inherits(.(as.name(argument)), .(class)))
  }
  test <- if (is.call(among)) ours(among) else Reduce(function(a, b) call("||", a, b), lapply(among, is_array))
  method <- ours(substitute(method))
  body(f) <- bquote({
    if (.(test)) return(.(method))
    .(body(f))
  })
  environment(f) <- new.env(parent = asNamespace(home))
  assign(INTERPOSED, TRUE, envir = environment(f))
  f
}

is_interposed <- function(f) {
  home <- environment(f)
  is.environment(home) && exists(INTERPOSED, envir = home, inherits = FALSE)
}
