# Masks: the functions that package:verdigris exports under the names of functions of base R and other packages. A call
# without an array reaches the function that it would have reached without this package: the next one of that name on
# the search path, whether attached before or later.
#
# Each name is an active binding that searches the path as R does for a function. If the next function is base R's, the
# value is this package's interposed function (aaa-interpose.R). Otherwise, and for S4 generics, it is a mask: a
# function with the formals of the next function that passes calls on to it. So the choice is made at each lookup. Calls
# through the namespace, imported or by `verdigris::`, always fall back to base R's function.
#
# A mask passes a call on as an interposed function does. Its test must have no side effects: an argument may be an
# expression that is evaluated elsewhere (`filter(mtcars, mpg > 25)` of dplyr) or never. Of the arguments that may be
# arrays, the test evaluates the first, and those by which an S4 generic dispatches. Of the others it inspects only
# values that are known without evaluation (`C_known`).

mask <- function(name, theirs) {
  ours <- get(name, envir = topenv())
  # A primitive, or a function without arguments to inspect, is not masked.
  selector <- selector_of(name, ours)
  if (typeof(theirs) != "closure" || is.null(selector)) return(theirs)
  f <- function() NULL
  formals(f) <- formals(theirs)
  # Generics that dispatch on `...` define their own standardGeneric() in their environment.
  generic <- methods::is(theirs, "standardGeneric") && !exists("standardGeneric", envir = environment(theirs),
    inherits = FALSE)
  tests <- mask_tests(selector, theirs, names(formals(ours)))
  if (!length(tests)) return(theirs)
  test <- Reduce(function(a, b) call("||", a, b), tests)
  # If one of several dispatch arguments is an S4 object, the package of its class decides: R/interop-matrix.R registers
  # methods for arrays there.
  dispatched <- setdiff(dispatched_by(theirs), "...")
  if (length(dispatched) > 1L) {
    objects <- lapply(lapply(dispatched, as.name), function(argument)
      bquote(!missing(.(argument)) && isS4(.(argument))))
    test <- bquote((.(test)) && !(.(Reduce(function(a, b) call("||", a, b), objects))))
  }
  # UseMethod() passes the promises of the call to this package's function. It is in parentheses because utils and tools
  # take a function for an S3 generic if its body's value is a call of UseMethod(), and would then take `which.max()`
  # for a method of `which()`.
  to_ours <- call("(", call("UseMethod", name, structure(list(), class = "verdigris")))
  # standardGeneric() dispatches on the promises of the calling frame: this frame replaces the generic's own.
  to_theirs <- if (generic) {
    bquote(standardGeneric(.(name), .(theirs)))
  } else {
    bquote({
      .(as.name(INTERPOSED)) <- TRUE
      .defined <- .Method <- .target <- NULL
      standardGeneric(.(name), .(constant_generic(theirs)))
    })
  }
  body(f) <- bquote({
    if (.(test)) .(to_ours)
    .(to_theirs)
  })
  methods <- list2env(stats::setNames(list(ours), paste0(name, ".verdigris")), parent = emptyenv())
  home <- topenv(environment(theirs))
  # UseMethod() finds the method in .__S3MethodsTable__. of this environment, as in a package's namespace.
  package <- methods::getPackageName(home)
  around <- list(.packageName = package, .__S3MethodsTable__. = methods, .Generic = name, .Methods = NULL,
    .selector = selector)
  if (generic) around$.Generic <- get0(".Generic", envir = environment(theirs), ifnotfound = name)
  around[[INTERPOSED]] <- TRUE
  environment(f) <- list2env(around, parent = if (isNamespace(home)) home else baseenv())
  f
}

# How to recognise a call with an array: list(arguments, class, is, frames), the arguments of this package's function
# that may be arrays and what counts as one. NULL for a function that needs no mask.
selector_of <- function(name, ours) {
  if (is_interposed(ours)) return(environment(ours)$.selector)
  if (name == "collect") return(list(arguments = "x", is = is_collected))
  if (!methods::is(ours, "standardGeneric")) return(NULL)
  has <- function(signature) exists(signature, envir = environment(ours)$.MTable, inherits = FALSE)
  list(arguments = ours@signature[if (has("ANY#gpu_array")) 1:2 else 1L], operands = has("ANY#gpu_array"),
    class = c("gpu_array", if (has("gpu_sparse")) "gpu_sparse", REMOTE), frames = has("data.frame"))
}

# Calls, to be evaluated in the frame of a mask, that test whether an argument is an array.
mask_tests <- function(selector, theirs, our_formals) {
  their_formals <- names(formals(theirs))
  # The first formal may have another name in the other function.
  arguments <- selector$arguments
  arguments[arguments == our_formals[1L] & !arguments %in% their_formals] <- their_formals[1L]
  dispatched <- dispatched_by(theirs)
  # Base R's own function of several operands evaluates all of them, in this order.
  if (is.null(selector$is) && isTRUE(selector$operands) && is_own_of_r(theirs)) dispatched <- c(dispatched, arguments)
  # A call that tests a value, or the values of a list (`parts`). is.object() comes first: a primitive evaluates the
  # argument in this frame, so that conditions name the user's call.
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

# Replaces the functions in package:verdigris by active bindings, when it is attached.
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

# The function of an active binding. attach() of a copy of package:verdigris turns the binding into an ordinary variable
# with this function as its value; a call of it is then forwarded to the function that the binding would return.
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
