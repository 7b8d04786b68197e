# Makes the calls of one package, from a given one on, and writes what each gave to a file. run.R starts it in a process
# of its own, so that a call that ends R is one lost call.
#
# usage: Rscript child.R host|arrays PACKAGE FIRST FILE
#   host      U(x) is x itself, and verdigris is not loaded: what the call gives is what it has to give
#   arrays    U(x) is an array

arguments <- commandArgs(TRUE)
package <- arguments[[2L]]
folder <- "tests/packages"
lines <- readLines(file.path(folder, "calls", paste0(package, ".R")))
out <- file(arguments[[4L]], "wb")

if (arguments[[1L]] == "arrays") {
  suppressPackageStartupMessages(library(verdigris))
  gpu_use("cpu")
  U <- function(x) as_gpu(x)
} else {
  U <- function(x) x
}
suppressWarnings(suppressPackageStartupMessages({
  if (package == "tidyr") library(tibble) # as its calls use tibble()
  library(package, character.only = TRUE)
}))
inputs <- new.env(parent = globalenv())
sys.source(file.path(folder, "inputs.R"), inputs)
grDevices::pdf(NULL)
options(warn = 1, digits = 7, width = 80)

# ---- values without arrays -------------------------------------------------------------------------

# A value as data: arrays are ordinary vectors, and what is compared of functions, environments and pointers is that
# they are such.
plain <- function(v, depth = 0L) {
  if (depth > 30L) return("...")
  inner <- function(v) plain(v, depth + 1L)
  switch(typeof(v),
    closure = , builtin = , special = return(structure("a function", class = oldClass(v))),
    environment = return(structure("an environment", class = setdiff(class(v), ".environment"))),
    externalptr = , weakref = return("a pointer"),
    language = , symbol = return(structure(deparse(v), class = oldClass(v))),
    expression = return(list("expression", lapply(as.list(v), inner))),
    pairlist = return(lapply(as.list(v), inner)),
    S4 = return(list(S4 = TRUE, attributes = lapply(described(v), inner)))
  )
  given <- described(v)
  s4 <- isS4(v) && !is_array(v)
  if (is.list(v)) {
    class(v) <- NULL
    v <- lapply(seq_along(v), function(i) inner(v[[i]]))
  } else if (is.atomic(v) && !is.null(v)) {
    attributes(v) <- NULL
    v <- v[seq_along(v)] # in R's own memory
  }
  if (!length(given) && !s4) return(v)
  list(value = v, attributes = lapply(given, inner), S4 = s4)
}

is_array <- function(v) is.atomic(v) && any(grepl("^gpu_", oldClass(v)))

# Attributes, with the class that the value would have on the host. `class(x) <- c("mine", class(x))` names the classes
# of a number or a matrix too, which are left out for host and array alike. A package may keep an array's class in an
# attribute of its own, as zoo and survival do.
described <- function(v) {
  given <- attributes(v)
  kept <- vapply(given, keeps_class, NA)
  given[kept & names(given) != "class"] <- NULL
  # what as.matrix() of a DelayedMatrix may have
  if (is.list(given$dimnames) && !length(unlist(given$dimnames)) && is.null(names(given$dimnames))) given$dimnames <- NULL
  given[c("gpu_dtype", ".internal.selfref", "srcref", ".Environment", "index")] <- NULL
  if (is.atomic(v) && !is.null(given$class)) {
    classes <- given$class[!given$class %in% IMPLICIT]
    if (!length(classes) && !is.null(given$tsp)) classes <- c(if (!is.null(given$dim)) "mts", "ts")
    given$class <- if (length(classes)) classes
  }
  if (length(given)) given[order(names(given))]
}

IMPLICIT <- c("gpu_array", "gpu_logical", "gpu_integer", "gpu_numeric", "gpu_complex", "gpu_matrix", "gpu_tensor",
  "gpu_ts", "gpu_mts", "logical", "integer", "numeric", "complex", "double", "vector", "matrix", "array")

keeps_class <- function(a) {
  if (is.list(a)) length(a) > 0L && all(vapply(a, keeps_class, NA)) else is.character(a) && "gpu_array" %in% a
}

# ---- calls -----------------------------------------------------------------------------------------

outcome <- function(line) {
  warnings <- messages <- character()
  set.seed(1L)
  value <- tryCatch(
    withCallingHandlers(plain(eval(parse(text = line)[[1L]], new.env(parent = inputs))),
      warning = function(w) {
        warnings <<- c(warnings, conditionMessage(w))
        tryInvokeRestart("muffleWarning")
      },
      message = function(m) {
        messages <<- c(messages, conditionMessage(m))
        tryInvokeRestart("muffleMessage")
      }
    ),
    error = function(e) list(error = sub("\033.*?m", "", conditionMessage(e)))
  )
  list(value = value, warnings = unique(warnings), messages = unique(messages))
}

sink(nullfile())
for (line in utils::tail(lines, length(lines) - as.integer(arguments[[3L]]) + 1L)) {
  serialize(outcome(line), out)
  flush(out)
}
close(out)
