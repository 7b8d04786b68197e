# Dispatch of operators between an array and an object of another class, for R before 4.3.
#
# R looks up a method for each operand. If both operands have one and they differ, R before 4.3 warns of "incompatible
# methods" and uses the internal operator on the data, such as the codes of a factor. (From R 4.3 on it calls
# chooseOpsMethod().) Therefore the methods in base R's table are active bindings here: looking one up runs code, which
# ensures that both operands get the same method.
#
# - x + date: the array method was looked up last and has not been called yet when the date's is looked up. The lookup
# returns the array method.
# - date + x: the date's method was looked up last when the array method is. The lookup returns the date's method, which
# is the original function with a test in front that hands a call with an array over to the array method.
# - x + other, of a class that is not listed here: R uses the data, and the first read of the array's memory while a
# method was looked up and not called is an error.

# Classes with methods of operators, by package.
BESIDE <- list(base = c("Date", "POSIXt", "difftime", "factor", "ordered", "data.frame", "numeric_version", "ts"),
  bit64 = "integer64", zoo = c("zoo", "yearmon", "yearqtr"), xts = "xts", survival = "Surv")

register_operators <- function(methods) {
  for (operator in names(methods)) {
    binding <- of_arrays(methods[[operator]])
    for (class in c(names(KINDS), ON_DEVICE)) bind_method(paste0(operator, ".", class), binding)
  }
  # Splits, readers and references have methods for the Ops group.
  bind_classes(c(setdiff(REMOTES, "gpu_ref"), REMOTE), methods)
  lapply(names(BESIDE), function(package) when_loaded(package, function() bind_classes(BESIDE[[package]], methods)))
}

bind_classes <- function(classes, methods) {
  table <- methods_table()
  for (class in classes) {
    group <- table[[paste0("Ops.", class)]]
    for (name in paste0(names(methods), ".", class))
      bind_method(name, if (is.null(table[[name]])) of_group() else of_others(table[[name]], methods))
    if (!is.null(group)) bind_method(paste0("Ops.", class), of_others(group, methods))
  }
}

methods_table <- function() get(".__S3MethodsTable__.", envir = baseenv())

bind_method <- function(name, f) {
  force(f)
  table <- methods_table()
  if (exists(name, envir = table, inherits = FALSE)) rm(list = name, envir = table)
  makeActiveBinding(name, f, table)
}

of_arrays <- function(ours) {
  force(ours)
  function(value) .Call(C_method_of_array, ours)
}

of_others <- function(theirs, methods) {
  if (typeof(theirs) != "closure") return(function(value) theirs)
  tested <- with_test(theirs, methods)
  function(value) {
    if (missing(value)) return(.Call(C_method_beside, tested))
    .Call(C_other_method_called)
    tested <<- with_test(value, methods)
  }
}

# If another class has only a method for the Ops group, R looks for a method of the operator first. There is none, unless
# the lookup of an array's method is pending. The group's method must not be returned here under the operator's name: R
# compares names to find that `Ops.difftime` and `+.Date` go together, and `Ops.ordered` calls NextMethod().
of_group <- function() function(value) .Call(C_method_beside, NULL)

# Another class's method with a test in front that hands calls with an array over to the array method. The original body
# is evaluated in the same frame, where R has set `.Generic` and related variables.
with_test <- function(theirs, methods) {
  arguments <- lapply(names(formals(theirs))[1:2], as.name)
  has_array <- function(e1, e2) {
    .Call(C_other_method_called)
    inherits(e1, "gpu_array") || inherits(e2, "gpu_array")
  }
  ours <- function(operator, e1, e2) {
    if (missing(e2)) methods[[operator]](e1) else methods[[operator]](e1, e2)
  }
  body(theirs) <- bquote({
    if (.(has_array)(.(arguments[[1L]]), if (!missing(.(arguments[[2L]]))) .(arguments[[2L]])))
      return(.(ours)(.Generic, .(arguments[[1L]]), .(arguments[[2L]])))
    .(body(theirs))
  })
  theirs
}

# Raised if R reads an array while a method was looked up and not called.
refuse_operator <- function(...) {
  stop_verdigris("argument", "R before 4.3 finds no common method for the operands of an operator.",
    "Use `collect()` on the array first.", call = sys.call(-1L))
}
