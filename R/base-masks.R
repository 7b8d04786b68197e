# Masks: the functions that package:verdigris has under names of other functions. A call without an array reaches the
# function that it would have reached without this package: the next one of that name on the search path, whatever is
# attached there, before or later.
#
# Each name is an active binding, which searches the path as R does for a function. If the next function is base R's,
# the value is this package's own (aaa-interpose.R); otherwise, and for S4 generics, it is a mask of the next function,
# with its formals. So the choice is made when the function is looked up, as always. Calls of the namespace's functions,
# imported or by `verdigris::`, have base R's function behind them.
#
# A mask passes a call on as an interposed function does. Its test must have no side effects: an argument may be an
# expression that is evaluated elsewhere (`filter(mtcars, mpg > 25)` of dplyr) or never. Of the arguments that may be
# arrays, the test evaluates the first, and those by which an S4 generic dispatches; of the others it only sees values
# that are known already (`C_known`).

mask <- function(name, theirs) {
  ours <- get(name, envir = topenv())
  # what is not evaluated in a frame of its own, or has no arguments to look at, is what it is
  selector <- selector_of(name, ours)
  if (typeof(theirs) != "closure" || is.null(selector)) return(theirs)
  f <- function() NULL
  formals(f) <- formals(theirs)
  # generics that dispatch on `...` have a standardGeneric() of their own in their environment
  generic <- methods::is(theirs, "standardGeneric") && !exists("standardGeneric", envir = environment(theirs),
    inherits = FALSE)
  tests <- mask_tests(selector, theirs, names(formals(ours)))
  if (!length(tests)) return(theirs)
  test <- Reduce(function(a, b) call("||", a, b), tests)
  # beside an object of a class with methods its package decides; R/interop-matrix.R gives it methods for arrays
  dispatched <- setdiff(dispatched_by(theirs), "...")
  if (length(dispatched) > 1L) {
    objects <- lapply(lapply(dispatched, as.name), function(argument)
      bquote(!missing(.(argument)) && isS4(.(argument))))
    test <- bquote((.(test)) && !(.(Reduce(function(a, b) call("||", a, b), objects))))
  }
  # UseMethod() matches the call's promises to the formals of this package's function. In parentheses: utils and tools
  # take a function for an S3 generic where the value of its body is a call of UseMethod(), and then `which.max()` for a
  # method of `which()`
  to_ours <- call("(", call("UseMethod", name, structure(list(), class = "verdigris")))
  # a generic dispatches in this frame, as in its own
  to_theirs <- if (generic) {
    bquote(standardGeneric(.(name), .(theirs)))
  } else {
    bquote({
      .(as.name(INTERPOSED)) <- TRUE
      .defined <- .Method <- .target <- NULL
      standardGeneric(.(name), .(always(theirs)))
    })
  }
  body(f) <- bquote({
    if (.(test)) .(to_ours)
    .(to_theirs)
  })
  methods <- list2env(stats::setNames(list(ours), paste0(name, ".verdigris")), parent = emptyenv())
  home <- topenv(environment(theirs))
  # as of a package: UseMethod() looks for methods in its table
  package <- methods::getPackageName(home)
  around <- list(.packageName = package, .__S3MethodsTable__. = methods, .Generic = name, .Methods = NULL,
    .selector = selector)
  if (generic) around$.Generic <- get0(".Generic", envir = environment(theirs), ifnotfound = name)
  around[[INTERPOSED]] <- TRUE
  environment(f) <- list2env(around, parent = if (isNamespace(home)) home else baseenv())
  f
}

# The arguments of this package's function in which it takes arrays, and what counts as one; NULL for a function that
# is as good as any other.
selector_of <- function(name, ours) {
  if (is_interposed(ours)) return(environment(ours)$.selector)
  if (name == "collect") return(list(arguments = "x", is = is_collected))
  if (!methods::is(ours, "standardGeneric")) return(NULL)
  has <- function(signature) exists(signature, envir = environment(ours)$.MTable, inherits = FALSE)
  list(arguments = ours@signature[if (has("ANY#gpu_array")) 1:2 else 1L],
    class = c("gpu_array", if (has("gpu_sparse")) "gpu_sparse", REMOTE), frames = has("data.frame"))
}

# Calls that look for arrays in the frame of a mask.
mask_tests <- function(selector, theirs, our_formals) {
  their_formals <- names(formals(theirs))
  # what is first here is first there, by another name
  arguments <- selector$arguments
  arguments[arguments == our_formals[1L] & !arguments %in% their_formals] <- their_formals[1L]
  dispatched <- dispatched_by(theirs)
  # whether a value counts, or one of a list; a primitive evaluates an argument in this frame, which conditions name
  counts <- function(value, parts = FALSE) {
    if (!is.null(selector$is)) {
      is <- if (parts) function(x) any(base::vapply(x, selector$is, NA)) else selector$is
      return(bquote((is.object(.(value)) || TRUE) && .(is)(.(value))))
    }
    if (parts) return(as.call(list(quote(.Call), C_any_inherit, value, selector$class)))
    inherited <- bquote(inherits(.(value), .(selector$class)))
    if (isTRUE(selector$frames)) inherited <- bquote(.(inherited) || .(is_matrix_frame)(.(value)))
    bquote(is.object(.(value)) && (.(inherited)))
  }
  known <- function(argument) counts(bquote(.External2(.(C_known), .(argument))), argument == "...")
  test <- function(argument) {
    variable <- as.name(argument)
    if (!argument %in% c(their_formals[1L], dispatched)) return(known(argument))
    if (argument != "...") return(bquote(!missing(.(variable)) && .(counts(variable))))
    if (argument %in% dispatched) return(counts(quote(list(...)), TRUE))
    bquote(...length() && !missing(..1) && .(counts(quote(..1))) || .(known("...")))
  }
  lapply(base::intersect(arguments, their_formals), test)
}

# The arguments that an S4 generic evaluates to find a method.
dispatched_by <- function(f) {
  if (!methods::is(f, "standardGeneric")) return(NULL)
  f@signature[seq_len(get0(".SigLength", envir = environment(f), ifnotfound = 1L))]
}

is_collected <- function(x) is_gpu(x) || inherits(x, c("gpu_qr", REMOTE)) || holds_array(x)

# Makes the bindings in package:verdigris.
bind_masks <- function(package) {
  here <- topenv()
  names <- names(MASKED)[vapply(names(MASKED), exists, NA, envir = package, inherits = FALSE)]
  rm(list = names, envir = package)
  for (name in names) {
    home <- MASKED[[name]]
    theirs <- if (home != "") asNamespace(home)
    state <- list(as.name(name), package, here, theirs, NULL, NULL, NULL)
    makeActiveBinding(name, mask_binding(state), package)
  }
}

# The function of an active binding. attach() of a copy of package:verdigris makes an ordinary variable of it, which
# is then called.
mask_binding <- function(state) {
  force(state)
  assign(INTERPOSED, TRUE)
  function(value, ...) {
    if (missing(value)) return(.Call(C_masked, state))
    call <- sys.call()
    if (is.function(call[[1L]])) return(.Call(C_mask_assign, state, value))
    call[[1L]] <- .Call(C_masked, state)
    eval(call, parent.frame())
  }
}
