# Raises the condition that Rust code left pending: list(kind, message, detail, source, advice). Called from C.
raise <- function(condition, unused) {
  if (condition$kind == "interrupt") rlang::interrupt() # jumps like Ctrl-C
  frame <- if (sys.nframe() > 1L) sys.frame(-1L)
  if (is.null(condition$source)) {
    also <- if (grepl(BASE_MESSAGES, condition$message)) "simpleError"
    stop_verdigris(condition$kind, condition$message, condition$advice, detail = condition$detail, call = frame,
      also = also)
  }
  stop_verdigris(
    condition$kind, condition$message, condition$advice,
    detail = condition$detail, log = condition$detail, source = condition$source, call = frame
  )
}

# Messages of base R for complex numbers, which Rust code words for the functions that it computes.
BASE_MESSAGES <- paste0("^(invalid comparison with complex values|invalid 'type' [(]complex[)] of argument|",
  "invalid input type|unimplemented complex (function|operation)|'cum[a-z]*' not defined for complex numbers)$")

# Raises an error of classes verdigris_error_<kind>, `also` and verdigris_error. The texts are not formatted.
stop_verdigris <- function(kind, message, advice = character(), ..., call = parent.frame(), also = character()) {
  frame <- if (is.environment(call)) call else environment()
  if (is.environment(call)) call <- written_call(call) # before abort(), whose frames would be searched too
  rlang::abort(
    c(message, stats::setNames(advice, rep("i", length(advice)))),
    class = unique(c(paste0("verdigris_error_", kind), "verdigris_error", setdiff(also, c("rlang_error", "error",
      "condition")))),
    kind = kind, ..., call = call, .frame = frame
  )
}

# The user's call that led to `frame`, a frame of this package: that of the outermost of the package's running
# functions, with the name of its generic. cbind(), rbind(), rep.int() and rep_len() call their methods with arguments
# of their own, as in `cbind(deparse.level, ...)`.
written_call <- function(frame = parent.frame()) {
  frames <- sys.frames()
  k <- 1L
  while (k <= length(frames) && !identical(frames[[k]], frame)) k <- k + 1L
  if (k > length(frames)) return(NULL)
  home <- topenv()
  calls_with_its_own <- list(base::cbind, base::rbind, base::rep.int, base::rep_len)
  ours <- function(k) {
    if (k < 1L) return(FALSE)
    f <- sys.function(k)
    is_interposed(f) || identical(topenv(environment(f)), home) || any(vapply(calls_with_its_own, identical, NA, f))
  }
  parents <- sys.parents()
  # A method that R has called from C may be its own parent.
  while (parents[k] < k && ours(parents[k])) k <- parents[k]
  call <- short_call(sys.call(k))
  # A method of a group generic is called by the name of the group.
  if (identical(call[[1L]], quote(Summary)) || identical(call[[1L]], quote(Math))) {
    generic <- get0(".Generic", frames[[k]], mode = "character")
    if (!is.null(generic)) call[[1L]] <- as.name(generic)
  }
  call
}

# A call with the name of the generic instead of the method, and without the data that do.call() and the Summary group
# insert into calls: printing these would read arrays.
short_call <- function(call) {
  if (is.symbol(call[[1L]]) && grepl(".", name <- as.character(call[[1L]]), fixed = TRUE)) {
    call[[1L]] <- as.name(sub("(.)[.](gpu_[a-z]+|verdigris|default|data[.]frame|list)$", "\\1", name))
  }
  long <- vapply(as.list(call)[-1L], function(a) !missing(a) && (is_remote(a) || (is.atomic(a) || is.list(a)) &&
    (length(a) > 1L || is_gpu(a))), NA)
  call[1L + which(long)] <- list(quote(...))
  if (any(long)) call$na.rm <- NULL
  call
}

# Raises a warning of classes verdigris_warning_<kind> and verdigris_warning.
warn_verdigris <- function(kind, message, advice = character(), ..., call = parent.frame()) {
  call <- written_call(call)
  rlang::warn(c(message, stats::setNames(advice, rep("i", length(advice)))),
    class = c(paste0("verdigris_warning_", kind), "verdigris_warning"), kind = kind, ..., call = call)
}

# Raise an error or a warning with base R's message and the user's call.
stop_as_base <- function(message, frame = parent.frame()) stop(simpleError(message, written_call(frame)))
warn_as_base <- function(message, frame = parent.frame()) warning(simpleWarning(message, written_call(frame)))

# Evaluates an expression. Errors of base R in it get the user's call instead of this package's.
with_user_call <- function(expr, frame = parent.frame()) {
  withCallingHandlers(expr, error = function(e) stop_as_base(conditionMessage(e), frame))
}

# Raises the error or warning of the running R about an array of one element, the first or the second operand, that is
# recycled.
recycled_array <- function(place, frame) {
  one <- base::array(0L, 1L)
  withCallingHandlers(
    if (place == "first") one + c(0L, 0L) else c(0L, 0L) + one,
    error = function(e) stop_as_base(conditionMessage(e), frame),
    warning = function(w) {
      warn_as_base(conditionMessage(w), frame)
      tryInvokeRestart("muffleWarning")
    }
  )
}

# Called from C: raises `message` by the function named `how`, for the R function that called C.
say <- function(how, message) get(how)(message, if (sys.nframe() > 1L) sys.frame(-1L) else globalenv())

# ---- handlers of warnings, from C (handlers.c) ----------------------------------------------------

# Packages that run the user's code inside warning handlers of their own. A warning may reach these handlers later,
# while the same code runs.
FRONTENDS <- c("evaluate", "knitr", "rmarkdown", "shiny", "promises", "later", "IRkernel", "testthat", "tools:rstudio")

# The handler that a warning raised now by the operation being recorded would reach: 0 none, or only a frontend's, so it
# may be raised later; 1 suppressWarnings(); 2 another.
warning_fate <- function(unused, unused_too) .External2(C_warning_fate)

# The same codes for frame k, which is a frame of eval(), or of tryCatch() or withCallingHandlers() with warning
# handlers other than those of suppressWarnings(). 3: continue with the next outer frame.
frame_verdict <- function(k, unused) {
  parent <- sys.parents()[k]
  caller <- if (parent > 0L) sys.function(parent)
  package <- if (is.function(caller) && !is.primitive(caller)) environmentName(topenv(environment(caller))) else ""
  # Code that a frontend evaluates for the user.
  if (identical(sys.function(k), base::eval)) return(if (package %in% FRONTENDS) 0L else 3L)
  if (identical(caller, call_base)) return(3L) # it only rewrites calls
  # Handlers of testthat may be expectations of a warning.
  if (package %in% setdiff(FRONTENDS, "testthat")) 0L else 2L
}

# Calls f with arguments written as `.values[[1L]]` and so on. do.call() would put the values themselves into the call,
# and functions that deparse their arguments, or keep their call, would take 20 times as long. The arguments are not
# symbols, from which cbind() and similar functions would take names.
VALUES <- as.name(".values")
value_places <- function(n) lapply(seq_len(n), function(k) call("[[", VALUES, k))
VALUE_PLACES <- value_places(8L)
call_by_place <- function(f, .values) {
  n <- length(.values)
  places <- if (n <= length(VALUE_PLACES)) VALUE_PLACES[seq_len(n)] else value_places(n)
  names(places) <- names(.values)
  do.call(f, places)
}

# call_by_place() for a function that may signal conditions: a condition that f itself signals gets the user's call.
call_base <- function(f, args, frame = parent.frame()) {
  # The call of a method that f has called contains the arguments `.values[[k]]`.
  placed <- function(call) any(vapply(as.list(call)[-1L], function(a) !missing(a) && is.call(a) && length(a) == 3L &&
    identical(a[[2L]], VALUES), NA))
  rewritten <- function(condition) {
    call <- conditionCall(condition)
    # The condition of a primitive has the call of do.call() above.
    if (identical(call, quote(do.call(f, places)))) call[[1L]] <- base::do.call
    if (!is.call(call) || is.symbol(call[[1L]]) && !placed(call)) return(NULL)
    condition$call <- written_call(frame)
    condition
  }
  withCallingHandlers(
    call_by_place(f, args),
    error = function(e) if (!is.null(e <- rewritten(e))) stop(e),
    warning = function(w) {
      if (is.null(w <- rewritten(w))) return()
      warning(w)
      tryInvokeRestart("muffleWarning")
    }
  )
}

# A sentence that suggests the choice closest to a word; character() if none is close. Names of operators are also
# known.
did_you_mean <- function(word, among) {
  named <- c(plus = "+", add = "+", minus = "-", times = "*", multiply = "*", max = "pmax", min = "pmin",
    concat = "c", append = "c", avg = "mean", average = "mean", std = "sd", stdev = "sd", n = "count")
  near <- if (word %in% names(named)) named[[word]] else if (length(among)) {
    off <- utils::adist(word, among, ignore.case = TRUE)[1L, ]
    if (min(off) <= max(1, nchar(word) %/% 3)) among[which.min(off)]
  }
  if (length(near) && near %in% among) sprintf("Did you mean \"%s\"?", near) else character()
}

# Raises the error for an invalid argument.
abort_argument <- function(argument, expected, got, call = parent.frame(), advice = character()) {
  message <- sprintf("`%s` must be %s, not %s.", argument, expected, describe(got))
  stop_verdigris("argument", message, advice, call = call)
}

# match.arg() for this package's functions, without abbreviations. The vector of all choices, which is the default
# value, selects the first.
one_of <- function(argument, value, choices, call = parent.frame()) {
  if (identical(value, choices)) return(choices[1L])
  if (is_choice(value, choices)) return(value)
  near <- if (is_readable(value) && length(value) == 1L && !is.na(value)) did_you_mean(value, choices) else character()
  abort_argument(argument, paste0("one of ", paste0("\"", choices, "\"", collapse = ", ")), value, call, near)
}

# A function, or the function of this name that is visible to the caller of `call`. `such`: usual names, for the advice
# of the error.
function_of <- function(argument, value, call = parent.frame(), such = character()) {
  if (is.function(value)) return(value)
  if (!is_readable(value) || length(value) != 1L || is.na(value) || !nzchar(value))
    abort_argument(argument, "a function, or the name of one", value, call)
  found <- get0(value, envir = parent.frame(2L), mode = "function")
  if (is.null(found)) stop_verdigris("argument",
    sprintf("`%s` must be a function, or the name of one; there is no function \"%s\".", argument, value),
    c(did_you_mean(value, such), if (length(such)) paste0("Usual ones are ", paste0("\"", such, "\"", collapse = ", "),
      ".")), call = call)
  found
}

# Raises the error for an option with an invalid value.
abort_option <- function(name, expected, call = NULL) {
  stop_verdigris(
    "argument", sprintf("Option `%s` must be %s, not %s.", name, expected, paste(deparse(getOption(name), nlines = 1L),
      collapse = "")),
    sprintf("`options(%s = NULL)` restores the default.", name), call = call
  )
}

# The value of option verdigris.host_access, which says what happens on an implicit read.
access_rule <- function() {
  rule <- getOption("verdigris.host_access", "inform")
  if (!is_choice(rule, c("inform", "allow", "error")))
    abort_option("verdigris.host_access", "\"inform\", \"allow\" or \"error\"")
  rule
}

# Called from C if that option is invalid: raises the error.
refuse_access_rule <- function(unused, unused_too) access_rule()

# ---- implicit reads --------------------------------------------------------------------------------

# Whether a function is a package's, not the user's.
in_package <- function(f) !is.primitive(f) && isNamespace(topenv(environment(f)))

# The name by which the function of frame k was called.
called_as <- function(k) {
  fun <- sys.call(k)[[1L]]
  if (is.call(fun)) return(deparse(fun, nlines = 1L)[[1L]])
  if (is.symbol(fun)) sub("(.)[.](gpu_array|verdigris)$", "\\1", as.character(fun)) else "a function"
}

# The name of the function in the user's code for which frame k reads an array: the outermost in the chain of package
# functions that called each other.
user_called <- function(k) {
  if (k < 1L) return("R")
  parents <- sys.parents()
  repeat {
    while (parents[k] > 0L && parents[k] < k && in_package(sys.function(parents[k]))) k <- parents[k]
    # The generic of a method is called from the same frame, with the same arguments.
    if (k > 1L && parents[k - 1L] == parents[k] && identical(as.list(sys.call(k - 1L))[-1L], as.list(sys.call(k))[-1L]))
      k <- k - 1L
    # lm() and similar functions evaluate calls that they construct in the frame of their caller.
    if (k < 4L || !is.primitive(sys.function(k - 1L)) || (by <- parents[k - 2L]) < 1L) break
    f <- sys.function(by)
    there <- identical(sys.frame(k - 1L), sys.frame(parents[by]))
    if (!there || !in_package(f) || identical(topenv(environment(f)), .BaseNamespaceEnv)) break
    k <- by
  }
  called_as(k)
}

# Called from C: the environment of the R function that reads an array.
reading_frame <- function(unused, unused_too) if (sys.nframe() > 1L) sys.frame(-1L) else globalenv()

# Called from C, like inform_host_access().
refuse_host_access <- function(length, bytes) {
  # try() and traceback() deparse calls, which may contain an array. An error raised there would not be caught.
  if (sys.nframe() > 1L && called_as(sys.nframe() - 1L) %in% c("deparse", "dput")) return()
  stop_verdigris(
    "host_access",
    sprintf("%s reads %s elements of a GPU array (%s) on the host.", user_called(sys.nframe() - 1L),
      format_count(length), format_bytes(bytes)),
    c(
      "Option `verdigris.host_access` is \"error\".",
      "Use `as.vector(x)` to copy the array to the host explicitly, or a function that works on the device."
    ),
    call = NULL
  )
}

informed <- new.env(parent = emptyenv())

inform_host_access <- function(length, bytes) {
  name <- user_called(sys.nframe() - 1L)
  if (!is.null(informed[[name]])) return()
  assign(name, TRUE, envir = informed)
  rlang::inform(
    c(
      sprintf("%s read %s elements of a GPU array (%s) on the host.", name, format_count(length), format_bytes(bytes)),
      i = "This message is shown once for each function; options(verdigris.host_access = \"allow\") silences it."
    ),
    class = "verdigris_host_access", function_name = name, length = length, bytes = bytes
  )
}

# Called from R code that copies an array for a function that does not support arrays: applies option
# verdigris.host_access.
report_read <- function(x) {
  if (length(x) < 2L) return()
  rule <- access_rule()
  bytes <- length(x) * switch(typeof(x), complex = 16, double = 8, 4)
  if (rule == "error") refuse_host_access(length(x), bytes)
  if (rule == "inform" && length(x) > 1e6) inform_host_access(length(x), bytes)
}

# Called from methods of as.vector() and similar functions. A conversion called, or applied to a list, by the user's
# code is explicit and not reported. Called by a function of another package it is an implicit read.
report_conversion <- function(x) {
  if (length(x) <= 1e6 && !identical(getOption("verdigris.host_access"), "error")) return()
  parents <- sys.parents()
  k <- sys.nframe() - 1L
  if (parents[k] > 0L && identical(sys.function(parents[k]), base::as.vector)) k <- parents[k]
  by <- parents[k]
  if (by == 0L || !in_package(f <- sys.function(by)) || identical(topenv(environment(f)), topenv())) return()
  applied <- c("lapply", "vapply", "sapply", "mapply", "rapply", "apply", "Map", "Reduce", "Filter", "do.call")
  if (!grepl("^(base::)?as[.]", called_as(k)) || called_as(by) %in% applied) return()
  report_read(x)
}

format_count <- function(n) format(n, big.mark = ",", scientific = FALSE, trim = TRUE)

format_bytes <- function(n) {
  units <- c("B", "kB", "MB", "GB", "TB")
  k <- if (n < 1) 1 else min(length(units), 1 + floor(log(n, 1000)))
  paste(format(n / 1000^(k - 1), digits = 3), units[[k]])
}

# A recorded call as the user wrote it: base R's dispatch turns `*` into `*.gpu_array`(x, 2).
call_text <- function(call, unused) {
  plain <- function(call) {
    if (!is.call(call)) return(call)
    if (is.symbol(call[[1]])) call[[1]] <- as.name(sub("[.](gpu_[a-z]+|verdigris)$", "", as.character(call[[1]])))
    as.call(lapply(call, plain))
  }
  text <- deparse(plain(call), width.cutoff = 60L, nlines = 2L)
  if (length(text) > 1L) paste(text[[1]], "...") else text
}
