# R functions compiled to kernels: gpu_compile(), and the scopes and calls of compiled functions. This file looks up in
# R what the names in a function mean, and makes calls; the compiler is the crate `compile`.

#' Compile R functions to kernels
#'
#' `gpu_compile(f)` returns a function that runs `f` for each element of its arguments, on the device: one element, path
#' or pixel per thread. Loops are written in R. `gpu_map(f, ...)` compiles `f` and calls it in one step.
#'
#' @section The language:
#' * Numbers: logical, integer, double, complex, and the dtypes of arrays (an array's float type is kept: literals adopt
#'   it). Arithmetic, comparison and logic follow R's rules for `NA`, integer overflow and division; every operation
#'   that [gpu_operations()] lists; `c()`, `list()`, `sum`, `mean`, `var`, `sd`, `prod`, `min`, `max`, `range`, `any`,
#'   `all`, `which.max`, `which.min`, `ifelse`, `switch` by a number or by a literal string, `is.na` and related
#'   functions.
#' * `if` and `else` as statement and value, `for` over `a:b`, `seq_len()`, `seq_along()`, `seq()` and vectors, `while`,
#'   `repeat`, `break`, `next`, `return()`, `stop()` with strings, `stopifnot()`.
#' * Local variables. A variable that is assigned values of two types in different branches has the wider type.
#' * Short local vectors and matrices whose length is a literal: `numeric(3)`, `c(a, b)`, `matrix(0, 2, 2)`; arithmetic
#'   on them is elementwise, and `%*%`, `crossprod()`, `tcrossprod()` and `t()` have R's shapes.
#' * Subscripts by numbers, by logicals and by `-i`, of vectors and matrices: `mean(v[!is.na(v)])`, `v[v > 1] <- 0`,
#'   `for (x in v[-1])`, `m[-i, j]`, `which()`, and `na.rm = TRUE`. The number of elements that a logical subscript
#'   selects is not known when a function is compiled: such a subset can be reduced, looped over, assigned to, or
#'   indexed (`v[v > 0][1]`), but not returned.
#' * Captured variables: single numbers, whose value at the time of each call is used, and arrays and vectors accessed
#'   by `v[i]`, `m[i, j]`, `m[i, ]`, `length()`, `nrow()`. A host vector is copied to the device at each call: convert a
#'   long one by [as_gpu()] first.
#' * Calls of other R functions that obey these rules; recursion is refused.
#' * Random draws, one at a time: `runif(1)`, `rnorm(1)`, `rexp(1)`, `rbinom(1, n, p)`, `rpois`, `rgamma`, `rbeta`,
#'   `rt`, `rchisq`, `sample.int(n, 1)` and others. Each element has its own random stream, determined by [set.seed()],
#'   and both devices draw the same numbers.
#'
#' Differences from R: `sum()` of integers beyond their range is `NA`, with the warning of integer overflow;
#' `which.max()` of a vector of which all elements are `NA` is `NA`; the extreme of an integer vector that may be empty
#' is a double, and R's warning about an empty vector is omitted; a computed subscript below 1 is an error unless it is
#' written as `-i`, and so is an assignment beyond the end of a vector, which keeps its length; the number of values
#' assigned must divide the number of elements; `switch()` beyond its alternatives is an error; a sequence of more than
#' 2^31 - 1 elements, or of integers beyond 2^31 - 1, is an error; a variable of two types has the wider type
#' throughout. An argument that assigns a variable or returns is refused unless the called function surely evaluates it.
#' `sum()`, `mean()`, `var()`, `sd()`, `cumsum()`, and `prod()` and `cumprod()` of real
#' numbers may exceed the largest double in an intermediate step, as in R's 80-bit arithmetic.
#'
#' Code that cannot be compiled raises an error that shows the expression, its line, the reason and what to write
#' instead. If `f` would stop for an element (an `NA` in a condition, `stop()`), the results of that element are `NA`
#' and R raises the error when values are read. It raises the error of the first element that failed, and the message
#' contains the number of this element, and the value of a subscript that is out of bounds.
#'
#' A call is recorded like other operations: it is computed when values are needed, in one kernel with its inputs and
#' with the operations that use it. It is computed repeatedly if this is cheaper than storing the result. A function is
#' compiled once for each combination of types; a new value of a captured number does not recompile it.
#' @param f A function written in R.
#' @param whole Names of parameters of `f` that receive their whole argument, to be read by subscripts, rather than one
#'   element.
#' @param bounds How a subscript beyond the end is handled: `"R"` as in R (`NA` for a vector, an error for a matrix),
#'   `"NA"` or `"error"`.
#' @param ... Arguments of `f`: arrays, vectors and numbers, recycled to the longest, with or without names. Host
#'   vectors are copied to the device.
#' @param MoreArgs A list of further arguments of `f` that are passed whole, as in [base::mapply()].
#' @param device The device to run on; by default the device of the arguments, else the current one (see [gpu_use()]).
#' @param x A function made by `gpu_compile()` that has been called.
#' @param type What `gpu_code()` shows: `"cuda"`, the generated CUDA C, or `"form"`, the intermediate form.
#' @returns `gpu_compile()`: a function of class `gpu_function` with the parameters of `f`. It, and `gpu_map()`, return
#'   an array of the arguments' common length with the dimensions and names of the first argument of that length; a list
#'   of arrays if `f` returns several numbers by `list()` or `c()` with names; and a matrix with a row for each element
#'   if it returns a vector. The call computes nothing and does not wait.
#' @section Errors:
#' `verdigris_error_compile` for code that cannot be compiled; `verdigris_error_argument` for arguments that are not
#' numeric; `verdigris_error_device` for arrays on different devices; `verdigris_error_value` if an element failed, when
#' values are read. On CUDA a function needs NVRTC (see [gpu_sitrep()]).
#' @seealso [gpu_kernel()] for CUDA C; [gpu_apply()], [gpu_stencil()], [gpu_reduce()].
#' @examples
#' escape <- gpu_compile(function(re, im) {
#'   x <- y <- 0
#'   for (k in 1:100) {
#'     if (x * x + y * y > 4) return(k)
#'     new <- x * x - y * y + re
#'     y <- 2 * x * y + im
#'     x <- new
#'   }
#'   0L
#' })
#' escape(as_gpu(c(-2, -1, 0.3, 1), device = "cpu"), 0.5)
#' gpu_map(function(x, y) if (x > y) x - y else 0, as_gpu(1:4, device = "cpu"), 2)
#' @export
gpu_compile <- function(f, whole = character(), bounds = c("R", "NA", "error")) {
  if (!is.function(f)) abort_argument("f", "a function written in R", f)
  if (is_compiled(f)) return(f)
  if (is.primitive(f)) {
    stop_verdigris("argument", "`f` is a primitive function.",
      "Wrap it in function(x), or call it directly: operations on arrays run on the device.")
  }
  check_depth(f, "f")
  bounds <- one_of("bounds", bounds, BOUNDS)
  parameters <- names(formals(f))
  if (!is.character(whole) || anyNA(whole) || !all(whole %in% parameters)) {
    stop_verdigris("argument", sprintf("`whole` must name parameters of `f` (%s), not %s.",
      paste(parameters, collapse = ", "), describe(whole)))
  }
  self <- new.env(parent = topenv())
  self$f <- f
  self$whole <- parameters %in% whole
  self$bounds <- bounds
  self$exact <- FALSE
  self$parameters <- parameters
  self$variants <- list()
  self$name <- function_name(substitute(f))
  self$.self <- self
  compiled <- as.function(c(formals(f), quote(call_compiled(.self, environment()))), envir = self)
  structure(compiled, class = c("gpu_function", "function"))
}

# The name of a function in messages.
function_name <- function(expression) if (is.symbol(expression)) as.character(expression) else "f"

#' @rdname gpu_compile
#' @export
gpu_map <- function(f, ..., MoreArgs = NULL, device = NULL) {
  if (!is.null(MoreArgs) && !is.list(MoreArgs)) abort_argument("MoreArgs", "a list or NULL", MoreArgs)
  given <- list(...)
  self <- compiled_self(f, whole_parameters(plain_function(f), given, MoreArgs), function_name(substitute(f)))
  arguments <- match_arguments(self, given, MoreArgs)
  call_routine(self, plain_function(f), arguments, device, sys.call())
}

# The parameters that receive the elements of MoreArgs that are not single numbers. R matches MoreArgs after the other
# arguments.
whole_parameters <- function(f, given, more) {
  if (!length(more)) return(character())
  stand_ins <- c(stats::setNames(rep(list(0), length(given)), names(given)),
    stats::setNames(as.list(seq_along(more)), names(more)))
  # match_arguments() raises the error of arguments that do not fit
  matched <- tryCatch(as.list(match.call(code_of(f), as.call(c(quote(f), stand_ins)), envir = baseenv()))[-1L],
    error = function(e) NULL)
  long <- which(lengths(more) != 1L | !vapply(more, function(x) is.null(dim(x)), NA))
  names(matched)[matched %in% long & names(matched) %in% names(formals(f))]
}

BOUNDS <- c("R", "NA", "error")

#' @rdname gpu_compile
#' @export
gpu_code <- function(x, type = c("cuda", "form")) {
  type <- one_of("type", type, c("cuda", "form"))
  if (!is_compiled(x)) abort_argument("x", "a function made by gpu_compile()", x)
  self <- compiled_self(x)
  if (!length(self$variants)) {
    stop_verdigris("argument", "the function has not been called yet, so its argument types are not known.",
      "Call it once.")
  }
  pointer <- self$variants[[length(self$variants)]]$pointer
  text <- if (type == "cuda") .Call(C_routine_source, pointer) else .Call(C_routine_listing, pointer)
  structure(paste0("// ", gsub("\n", "\n// ", paste(deparse(self$f), collapse = "\n")), "\n", text),
    class = "gpu_code")
}

#' @export
print.gpu_code <- function(x, ...) {
  cat(x, sep = "\n")
  invisible(x)
}

#' @export
print.gpu_function <- function(x, ...) {
  self <- compiled_self(x)
  cat("<gpu_function>", if (length(self$variants)) sprintf("compiled for %d combination%s of types",
    length(self$variants), if (length(self$variants) > 1L) "s" else "") else "not called yet", "\n")
  print(self$f, useSource = TRUE)
  invisible(x)
}

# The environment of a compiled function. Any other function is looked up by its code in a cache of recent ones, so that
# gpu_map() in a loop compiles once, even if each iteration creates the function anew. The cache does not keep the
# environments of functions, which may hold arrays.
compiled_self <- function(f, whole = character(), name = "f") {
  wrt <- NULL
  bounds <- "R"
  if (is_compiled(f)) {
    self <- environment(f)
    already <- self$parameters[self$whole]
    if (all(whole %in% already)) return(self)
    whole <- union(already, whole)
    wrt <- self$wrt
    bounds <- self$bounds
  }
  f <- plain_function(f, parent.frame())
  # identical() compares code by recursion
  check_depth(f, name)
  for (self in recent$selves) if (has_code(f, self$f) && setequal(self$parameters[self$whole], whole) &&
    identical(self$wrt, wrt) && self$bounds == bounds) return(self)
  self <- environment(gpu_compile(code_of(f), whole = as.character(whole), bounds = bounds))
  self$name <- name
  self$wrt <- wrt
  recent$selves <- c(list(self), recent$selves[seq_len(min(length(recent$selves), 31L))])
  self
}

# The R function of a compiled one.
plain_function <- function(f, call = parent.frame()) {
  if (is_compiled(f)) return(environment(f)$f)
  if (!is.function(f)) abort_argument("f", "a function", f, call)
  f
}

recent <- new.env(parent = emptyenv())
recent$selves <- list()

# A function without its environment and attributes.
code_of <- function(f) {
  attributes(f) <- NULL
  environment(f) <- baseenv()
  f
}

# Whether f is a function that gpu_grad() returned.
is_gradient <- function(f) is_compiled(f) && !is.null(environment(f)$wrt)

# Whether f is a function, written in R, with this code.
has_code <- function(f, code) {
  same <- function(f) identical(f, code, num.eq = FALSE, ignore.environment = TRUE)
  is.function(f) && (same(f) || !is.null(attributes(f)) && same(code_of(f)))
}

# The body of the function that gpu_compile() returns. `frame` has its arguments.
call_compiled <- function(self, frame) {
  call_routine(self, self$f, gathered(self$parameters, frame), NULL, sys.call(-1L))
}

# Arguments in the order of the function's parameters, by R's matching.
match_arguments <- function(self, given, more) {
  # all are given, by position
  if (is.null(more) && is.null(names(given)) && length(given) == length(self$parameters) &&
    !"..." %in% self$parameters && !any(vapply(given, is.null, NA))) return(given)
  if (is.null(self$matcher)) {
    matcher <- code_of(self$f)
    body(matcher) <- bquote(.(gathered)(.(self$parameters), environment()))
    environment(matcher) <- baseenv()
    self$matcher <- matcher
  }
  tryCatch(do.call(self$matcher, c(given, more), quote = TRUE), error = function(e) {
    if (inherits(e, "verdigris_error")) stop(e)
    parameters <- paste(self$parameters, collapse = ", ")
    stop_verdigris("argument", sprintf("The arguments do not fit the parameters of the function (%s).", parameters),
      detail = conditionMessage(e), call = NULL)
  })
}

# The arguments in a call's frame; NULL for a missing one.
gathered <- function(parameters, frame) {
  lapply(parameters, function(name) {
    if (name == "...") {
      if (eval(quote(...length()), frame) > 0L) stop_verdigris("argument",
        "A compiled function cannot take arguments by `...`.", "Write a parameter for each of them.", call = NULL)
      return(NULL)
    }
    if (eval(call("missing", as.name(name)), frame)) return(NULL)
    get(name, envir = frame, inherits = FALSE) %||% abort_argument(name, "numeric", NULL, call = NULL)
  })
}

# Calls f, a function with the code of `self`, on arguments (NULL for a missing one). Compiles it first if the types are
# new, or if names in it have got another meaning.
call_routine <- function(self, f, arguments, device, call) {
  single <- !self$whole
  lengths <- vapply(arguments[single], function(a) if (is.null(a)) NA_real_ else as.double(length(a)), 0)
  lengths <- lengths[!is.na(lengths)]
  n <- if (!length(lengths)) 1 else if (any(lengths == 0)) 0 else max(lengths)
  if (n > 0 && any(n %% lengths != 0))
    warn_as_base("longer argument not a multiple of length of shorter", parent.frame())
  for (variant in rev(self$variants)) {
    # a routine does not survive being saved to a file
    if (is_stale(variant$pointer)) next
    envs <- scopes_for(variant$names_in_scopes, f)
    if (is.null(envs)) next
    out <- run_variant(self, variant, envs, arguments, n, device, call)
    if (is.null(out)) next
    self$last <- variant
    return(shaped_results(out, variant, arguments[single], n))
  }
  around <- surroundings(f, self$name, free_stack())
  self$last <- variant <- compile_variant(self, around, arguments)
  out <- run_variant(self, variant, around$envs, arguments, n, device, call)
  self$variants <- c(self$variants[seq_len(min(length(self$variants), 15L))], list(variant))
  shaped_results(out, variant, arguments[single], n)
}

run_variant <- function(self, variant, envs, arguments, n, device, call) {
  captured <- captured_values(variant, envs)
  device <- device %||% gpu_device_of_any(arguments) %||% gpu_device_of_any(captured)
  .Call(C_routine_call, variant$pointer, arguments, self$whole, captured, n, if (variant$draws) stream_key(), device,
    call)
}

# The environments of a function's scopes, if the functions named in its code are still those noted in `names`; else
# NULL.
scopes_for <- function(names, f) tryCatch({
  envs <- list(environment(f))
  for (name in names) {
    if (isTRUE(name$flag)) {
      if (identical(get0(name$name, envir = envs[[name$scope]]), name$value)) next
      return(NULL)
    }
    value <- get0(name$name, envir = envs[[name$scope]], mode = "function")
    if (is.null(name$home)) {
      if (identical(value, name$value) || is_gradient(value) && has_code(value, name$value)) next
      return(NULL)
    }
    if (is_compiled(value)) value <- plain_function(value)
    if (!has_code(value, name$value)) return(NULL)
    home <- environment(value)
    if (name$home > length(envs)) envs[[name$home]] <- home else if (!identical(envs[[name$home]], home)) return(NULL)
  }
  envs
}, error = function(e) NULL)

# The values of the variables outside of the function that the compiled code reads.
captured_values <- function(variant, envs) .mapply(function(scope, path) captured_value(envs[[scope]], path),
  list(variant$scopes, variant$paths), NULL)

captured_value <- function(env, path) {
  value <- get0(path[[1L]], envir = env)
  for (key in path[-1L]) {
    value <- if (grepl("^\\[\\[[0-9]+\\]\\]$", key)) value[[as.integer(gsub("[^0-9]", "", key))]] else value[[key]]
  }
  value
}

compile_variant <- function(self, around, arguments) {
  # the compiler may use half of the free stack for its recursion over the code
  out <- .Call(C_routine_compile, around$functions, around$scopes, arguments, self$whole, self$bounds, self$exact,
    self$wrt, floor(free_stack() / 2))
  out$names_in_scopes <- around$names
  out
}

# Gives arrays the shape of the first argument of length n.
shaped_results <- function(arrays, variant, arguments, n) {
  like <- NULL
  for (x in arguments) if (length(x) == n && !is.null(attributes(x))) {
    like <- x
    break
  }
  shape <- function(x) {
    if (is.null(like)) return(x)
    if (!is.null(dim(like))) {
      dim(x) <- dim(like)
      if (!is.null(dimnames(like))) dimnames(x) <- dimnames(like)
    } else if (!is.null(names(like))) {
      names(x) <- names(like)
    }
    x
  }
  if (is.null(variant$names)) return(shape(arrays[[1L]]))
  if (variant$is_vector) return(do.call(cbind, unname(arrays)))
  names <- variant$names
  names(arrays) <- if (any(nzchar(names))) names
  lapply(arrays, shape)
}

# ---- scopes of a function ------------------------------------------------------------------------------------------

# Resolves the names in a function and in the functions that it calls. `functions`: formals, body, name, line and number
# of the scope of each. `scopes`: for each environment of `envs` the variables and functions that code there names. A
# function is the number of one in `functions`, the name of one of base R, or list(what it is) for one that cannot be
# compiled. `names`, for scopes_for(): each name of a function, its scope, and its value. For a function that is
# compiled the value is its code, and `home` its own scope.
surroundings <- function(f, name, stack) {
  functions <- list()
  values <- list()
  envs <- list()
  scopes <- list()
  known <- list()
  scope_of <- function(env) {
    for (k in seq_along(envs)) if (identical(envs[[k]], env)) return(k)
    envs[[length(envs) + 1L]] <<- env
    scopes[[length(envs)]] <<- list(variables = list(), functions = list())
    length(envs)
  }
  number_of <- function(f, name) {
    for (k in seq_along(values)) if (identical(values[[k]], f, num.eq = FALSE)) return(k)
    k <- length(values) + 1L
    check_depth(f, name, stack)
    values[[k]] <<- f
    srcref <- attr(f, "srcref")
    functions[[k]] <<- list(
      formals = as.pairlist(formals(f)), body = body(f), scope = scope_of(environment(f)), name = name,
      line = if (is.null(srcref)) 0L else as.integer(srcref[[1L]])
    )
    k
  }
  number_of(f, name)
  k <- 0L
  while (k < length(functions)) {
    k <- k + 1L
    one <- functions[[k]]
    env <- envs[[one$scope]]
    code <- as.call(c(as.name("{"), one$body, given_defaults(one$formals)))
    if ("function" %in% all.names(code)) code <- as.call(c(as.list(code), inner_defaults(code)))
    every <- all.names(code, unique = TRUE)
    scope <- scopes[[one$scope]]
    for (name in intersect(every, KEYWORDS)) {
      value <- get0(name, envir = env, mode = "function")
      if (!identical(value, get(name, envir = baseenv())))
        scopes[[one$scope]]$functions[[name]] <- list("a function of yours")
    }
    # a flag may be written T or F
    for (name in intersect(every, c("T", "F"))) {
      value <- get0(name, envir = env)
      if (identical(value, name == "T")) scopes[[one$scope]]$functions[[name]] <- name
      known[[length(known) + 1L]] <- list(name = name, scope = one$scope, value = value, flag = TRUE)
    }
    every <- setdiff(every, KEYWORDS)
    for (name in setdiff(every, names(scope$functions))) {
      if (is_active(name, env)) next
      # a promise or an active binding that fails has no meaning
      value <- tryCatch(get0(name, envir = env, mode = "function"), error = function(e) NULL)
      if (is.null(value)) next
      gradient <- is_gradient(value)
      value <- if (gradient) code_of(value) else if (is_compiled(value)) plain_function(value) else value
      builtin <- if (!gradient) builtin_name(name, value)
      meaning <- if (gradient) {
        list("a gradient, which is called from R")
      } else if (!is.null(builtin)) {
        builtin
      } else if (inherits(value, c("gpu_kernel", "gpu_module"))) {
        list("a CUDA C kernel, which is launched from R")
      } else if (is.primitive(value)) {
        list("an R primitive that has no meaning on a device")
      } else {
        number_of(value, name)
      }
      scopes[[one$scope]]$functions[[name]] <- meaning
      home <- if (is.numeric(meaning)) functions[[meaning]]$scope
      known[[length(known) + 1L]] <- list(name = name, scope = one$scope, home = home,
        value = if (is.null(home)) value else code_of(value))
    }
    for (name in setdiff(all.vars(code, unique = TRUE), names(scope$variables))) {
      if (is_active(name, env)) {
        scopes[[one$scope]]$functions[[name]] <- list("an active binding, whose function runs at each read")
        next
      }
      value <- tryCatch(get0(name, envir = env), error = function(e) NULL)
      if (is.null(value) || is.function(value)) next
      if (is.list(value) && has_own_elements(value))
        scopes[[one$scope]]$functions[[name]] <- list("a list whose class has methods for its elements") else
        scopes[[one$scope]]$variables[[name]] <- value
    }
  }
  list(functions = functions, scopes = scopes, envs = envs, names = known)
}

# Whether a name is an active binding of the first environment that has it, but not a mask of this package's.
is_active <- function(name, env) {
  while (!identical(env, emptyenv())) {
    if (exists(name, envir = env, inherits = FALSE)) return(bindingIsActive(as.name(name), env) &&
      !identical(environmentName(env), "package:verdigris"))
    env <- parent.env(env)
  }
  FALSE
}

# Whether `$` or `[[` of a list of this class may be something else than its elements.
has_own_elements <- function(x) is.object(x) && !is.data.frame(x) && (isS4(x) ||
  any(vapply(c("$", "[["), function(generic) any(vapply(class(x), function(class)
    !is.null(utils::getS3method(generic, class, optional = TRUE)), NA)), NA)))

given_defaults <- function(formals) Filter(function(default) !identical(default, quote(expr = )), as.list(formals))

# The defaults of functions within code, which all.names() does not visit.
inner_defaults <- function(code) {
  found <- list()
  pending <- list(code)
  while (length(pending)) {
    code <- pending[[length(pending)]]
    pending[[length(pending)]] <- NULL
    if (!is.call(code)) next
    if (identical(code[[1L]], as.name("function"))) {
      defaults <- given_defaults(code[[2L]])
      found <- c(found, defaults)
      pending <- c(pending, defaults, list(code[[3L]]))
    } else {
      pending <- c(pending, Filter(is.call, given_defaults(code)))
    }
  }
  found
}

# Unused bytes of R's stack. STACK_OF_LEVEL: bytes that R and the compiler use for each level of nested calls in their
# recursion over code.
free_stack <- function() {
  stack <- Cstack_info()
  free <- stack[["size"]] - stack[["current"]]
  if (is.na(free)) 2^20 else free
}
STACK_OF_LEVEL <- 1600

# Raises an error if the stack does not suffice for recursion over a function's code.
check_depth <- function(f, name, stack = free_stack()) {
  if (.Call(C_routine_depth, formals(f), body(f)) <= stack / STACK_OF_LEVEL) return(invisible())
  stop_verdigris("compile",
    sprintf("`%s` cannot be compiled: its calls are nested too deeply, or there are too many.", name),
    "Assign parts of it to variables; write repeated code as a loop.")
}

# Syntax that the compiler knows without looking a name up.
KEYWORDS <- c("{", "(", "if", "for", "while", "repeat", "break", "next", "return", "function", "<-", "=", "<<-", "&&",
  "||", "[", "[[", "$")

# The name of a function of base R or stats, or of this package's mask of one; NULL for any other function.
builtin_name <- function(name, value) {
  if (is.primitive(value)) {
    known <- get0(name, envir = baseenv(), mode = "function")
    if (identical(known, value)) return(name)
    for (other in ls(baseenv(), all.names = TRUE)) if (identical(get(other, envir = baseenv()), value)) return(other)
    return(NULL)
  }
  # a mask knows its name, whatever the user has called it
  if (is_interposed(value)) return(get0(".Generic", environment(value), inherits = FALSE, ifnotfound = name))
  # a generic that the user has made may have methods for numbers
  if (methods::is(value, "standardGeneric") && !identical(attr(value, "package"), ".GlobalEnv"))
    return(as.character(value@generic))
  home <- environment(value)
  # functions of this package that mask base R's, such as pmin()
  if (is.environment(home) && identical(topenv(home), topenv()) && exists(name, envir = baseenv(), mode = "function",
    inherits = FALSE) && identical(get0(name, envir = topenv(), inherits = FALSE), value)) return(name)
  if (is.environment(home) && environmentName(topenv(home)) %in% c("base", "stats", "methods", "utils")) {
    for (package in c("base", "stats", "methods", "utils")) {
      if (identical(get0(name, envir = asNamespace(package), inherits = FALSE), value)) return(name)
    }
  }
  NULL
}
