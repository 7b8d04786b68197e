# R's own examples, run twice: as they are, and with their numbers in arrays. See test-diff-examples.R.

# Removes from a value what differs on purpose: calls, environments, functions, and the array's class.
plain_value <- function(x, depth = 0L) {
  if (depth > 12L || is.function(x) || is.environment(x) || is.language(x) || is.null(x) || typeof(x) == "S4")
    return(NULL)
  kept <- attributes(x)
  kept <- kept[setdiff(names(kept), c("call", "srcref", ".Environment", "gpu_dtype", "class", "na.action", "terms"))]
  kept <- Filter(Negate(is.null), lapply(kept, plain_value, depth + 1L))
  if (length(kept)) kept <- kept[order(names(kept))]
  x <- if (is_gpu(x)) as.vector(x) else unclass(x)
  if (is.list(x)) {
    # what a model was called with says what it was called with
    own <- setdiff(seq_along(x), which(names(x) %in% c("call", "terms", "data.name", "Call")))
    return(list(lapply(own, function(k) plain_value(.subset2(x, k), depth + 1L)), kept))
  }
  if (!is.atomic(x)) return(NULL)
  attributes(x) <- NULL
  if (length(kept)) list(x, kept) else x
}

# What is made an array of: plain numbers, matrices, series and frames of them.
as_example_array <- function(x) {
  if (is.data.frame(x)) return(tryCatch(as_gpu(x, device = test_device), error = function(e) x))
  usable <- (is.numeric(x) || is.logical(x) && length(x) > 1L || is.complex(x)) &&
    (!is.object(x) || inherits(x, "ts") && getRversion() >= "4.3.0") && !is_gpu(x) && is.null(attr(x, "class"))
  if (usable && length(setdiff(names(attributes(x)), c("dim", "dimnames", "names"))) == 0L) as_gpu(x,
    device = test_device) else x
}

# Functions whose results are arrays when an example calls them.
MAKERS <- c("c", ":", "seq", "seq_len", "seq.int", "rep", "matrix", "array", "cbind", "rbind", "rnorm", "runif", "rexp",
  "rpois", "rbinom", "outer", "sample", "diag", "hilbert")

# The code of a help page's examples, expression by expression.
example_code <- function(page) {
  file <- withr::local_tempfile()
  tools::Rd2ex(page, file, commentDonttest = TRUE)
  if (!file.exists(file)) return(expression())
  parse(file, keep.source = FALSE, encoding = "UTF-8")
}

# One expression: its value, or the message of its error, and the warnings.
run_example <- function(expr, env, arrays) {
  warned <- character()
  set.seed(42)
  setTimeLimit(elapsed = if (arrays) 60 else 20, transient = TRUE)
  on.exit(setTimeLimit())
  value <- tryCatch(
    withCallingHandlers(
      {
        utils::capture.output(type = "output", v <- withVisible(eval(expr, env))$value)
        plain_value(v)
      },
      warning = function(w) {
        warned <<- c(warned, conditionMessage(w))
        tryInvokeRestart("muffleWarning")
      },
      message = function(m) tryInvokeRestart("muffleMessage")),
    error = function(e) structure(list(message = conditionMessage(e)), class = "failed"))
  if (arrays && is.call(expr) && as.character(expr[[1L]])[1L] %in% c("<-", "=") && is.symbol(expr[[2L]]) &&
    !inherits(value, "failed")) {
    # what a name is given becomes an array
    name <- as.character(expr[[2L]])
    assign(name, as_example_array(get(name, env)), env)
  }
  list(value = value, warnings = unique(warned))
}

# All of a page's expressions, with R as it was afterwards.
run_page <- function(code, env, arrays) {
  withr::local_options(warn = 1)
  withr::local_preserve_seed()
  settings <- options()
  kind <- RNGkind()
  attached <- search()
  grDevices::pdf(NULL)
  on.exit({
    grDevices::dev.off()
    options(settings)
    RNGkind(kind[1L], kind[2L], kind[3L])
    for (name in setdiff(search(), attached)) if (!startsWith(name, "package:")) detach(name, character.only = TRUE)
  })
  lapply(code, run_example, env, arrays)
}

# Runs a page's examples both ways. A data frame: a row for each expression, with what differs ("" for nothing).
compare_examples <- function(page, makers = MAKERS) {
  code <- example_code(page)
  if (!length(code)) return(NULL)
  masks <- new.env(parent = globalenv())
  for (name in makers) {
    f <- get0(name, as.environment("package:verdigris"), mode = "function")
    if (!is.null(f)) assign(name, local({ f <- f; function(...) as_example_array(f(...)) }), masks)
  }
  for (name in all.names(code, unique = TRUE)) {
    found <- get0(name, as.environment("package:datasets"), inherits = FALSE)
    if (!is.null(found)) assign(name, as_example_array(found), masks)
  }
  want <- run_page(code, new.env(parent = globalenv()), FALSE)
  got <- run_page(code, new.env(parent = masks), TRUE)
  said <- mapply(example_difference, got, want)
  data.frame(k = seq_along(code), said = said, code = vapply(code, function(e) paste(deparse(e, nlines = 3L),
    collapse = " "), ""))
}

example_difference <- function(got, want) {
  if (inherits(want$value, "failed"))
    return(if (inherits(got$value, "failed")) "" else paste("did not fail:", want$value$message))
  if (inherits(got$value, "failed")) return(paste("failed:", got$value$message))
  same <- all.equal(got$value, want$value, tolerance = 1e-7)
  if (!isTRUE(same)) return(paste("differs:", same[1L]))
  if (!identical(sort(got$warnings), sort(want$warnings)))
    return(paste0("warnings {", paste(got$warnings, collapse = "; "), "} are not {",
    paste(want$warnings, collapse = "; "), "}"))
  ""
}
