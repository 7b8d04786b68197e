# Functions as users write them: run by R for each element, and compiled on the device under test.

# R's results, element by element: values of each result, failing elements, warnings, and the errors' messages.
# Arguments named in `whole` are passed as whole vectors.
by_element <- function(f, args, whole = character()) {
  is_whole <- if (is.null(names(args))) rep(FALSE, length(args)) else names(args) %in% whole
  single <- args[!is_whole]
  n <- if (any(lengths(single) == 0L)) 0L else max(1L, lengths(single))
  warnings <- character()
  errors <- character()
  one <- function(k) {
    given <- args
    given[!is_whole] <- lapply(single, function(x) x[[(k - 1L) %% length(x) + 1L]])
    tryCatch(
      withCallingHandlers(do.call(f, given), warning = function(w) {
        warnings <<- c(warnings, conditionMessage(w))
        invokeRestart("muffleWarning")
      }),
      error = function(e) {
        errors <<- c(errors, conditionMessage(e))
        NULL
      }
    )
  }
  values <- lapply(seq_len(n), one)
  failed <- vapply(values, is.null, NA)
  list(values = values, failed = failed, warnings = unique(warnings), errors = unique(errors))
}

# Code as testthat runs it, whose handlers do not count: what may warn stays recorded.
as_frontend <- function(code, env) eval(code, env)
environment(as_frontend) <- asNamespace("testthat")

# The same by the device: a list of results, warnings, and the first error.
by_device <- function(f, args, whole = character(), bounds = "R") {
  warnings <- character()
  errors <- character()
  value <- tryCatch(
    withCallingHandlers(
      {
        f <- gpu_compile(f, whole = whole, bounds = bounds)
        given <- lapply(args, function(x) if (is_gpu(x)) x else gpu(x))
        out <- as_frontend(quote(do.call(f, given)), environment())
        read <- function() if (is_gpu(out)) collect(out) else lapply(out, collect)
        # what failed is said once, and the elements are NA
        tryCatch(read(), verdigris_error_value = function(e) {
          errors <<- c(errors, conditionMessage(e))
          read()
        })
      },
      warning = function(w) {
        warnings <<- c(warnings, conditionMessage(w))
        invokeRestart("muffleWarning")
      }
    ),
    error = function(e) structure(list(message = conditionMessage(e)), class = "failed")
  )
  list(value = value, warnings = unique(warnings), errors = errors)
}

# Results of elements as vectors, one for each number that the function gives; NULL where they differ in form.
in_columns <- function(got) {
  there <- got$values[!got$failed]
  if (!length(there)) return(list())
  lapply(seq_along(there[[1L]]), function(j) {
    column <- rep(NA, length(got$values))
    column <- do.call(c, lapply(there, function(v) v[[j]]))
    full <- rep(column[NA_integer_], length(got$values))
    full[!got$failed] <- column
    full
  })
}

# Compares them. `wider`: the type may be wider than that of R's values, where ways with another type are not taken by
# any element. `payload`: whether NA and NaN are told apart (where several of them meet R leaves it to the machine).
compare_routine <- function(f, args, whole = character(), bounds = "R", ulp = 0, wider = FALSE, payload = TRUE,
  what = deparse1(f)) {
  cases$n <- cases$n + 1L
  want <- by_element(f, args, whole)
  got <- by_device(f, args, whole, bounds)
  said <- difference_routine(got, want, args, ulp, wider, payload)
  if (is.null(said)) NULL else paste0(what, ": ", said)
}

difference_routine <- function(got, want, args, ulp, wider, payload) {
  if (inherits(got$value, "failed")) return(paste("failed:", got$value$message))
  columns <- in_columns(want)
  values <- got$value
  values <- if (is.list(values)) values else if (is.matrix(values) && length(columns) > 1L) asplit_columns(values) else list(values)
  if (length(columns) && length(values) != length(columns)) return(sprintf("%d results are not %d", length(values),
    length(columns)))
  missing <- Reduce(`+`, lapply(args,
    function(x) if (length(x)) rep_len(as.integer(is.na(x)), length(want$values)) else 0L), 0L)
  for (k in seq_along(columns)) {
    value <- as.vector(values[[k]])
    column <- columns[[k]]
    # R's ifelse() of NA, and a way that gives NA, have NA of another type
    if ((wider || all(is.na(column))) && typeof(value) != typeof(column)) storage.mode(column) <- typeof(value)
    if (any(!is.na(value[want$failed]))) return("an element that fails is not NA")
    here <- !want$failed
    eps <- 2^-52
    said <- difference(value[here], column[here], ulp, eps, payload = FALSE)
    if (is.null(said) && payload && is.double(value)) said <- difference(value[here & missing < 2L],
      column[here & missing < 2L], ulp, eps)
    if (!is.null(said)) return(paste0(if (k > 1L) sprintf("result %d: ", k), said))
  }
  # cumsum() of integers warns as `+` does
  want$warnings <- sub("^integer overflow in 'cumsum'.*", "NAs produced by integer overflow", want$warnings)
  if (!setequal(got$warnings, want$warnings)) {
    return(sprintf("warnings {%s} are not {%s}", paste(got$warnings, collapse = "; "),
      paste(want$warnings, collapse = "; ")))
  }
  # the device says where it was; of several errors it says one
  of_r <- function(message) any(startsWith(message, want$errors))
  if (length(got$errors) != min(1L, length(want$errors)) || length(got$errors) && !of_r(got$errors)) {
    return(sprintf("errors {%s} are not {%s}", paste(got$errors, collapse = "; "), paste(want$errors, collapse = "; ")))
  }
  NULL
}

asplit_columns <- function(m) lapply(seq_len(ncol(m)), function(j) m[, j])

# Every pair of edge values of two types, as two arguments.
edge_pairs <- function(a, b = a) {
  x <- edges[[a]]
  y <- edges[[b]]
  list(rep(x, times = length(y)), rep(y, each = length(x)))
}

# A case of a table: a function, and what it is called with.
case <- function(f, ..., whole = character(), bounds = "R", ulp = 0, wider = FALSE, payload = TRUE) {
  list(f = f, args = list(...), whole = whole, bounds = bounds, ulp = ulp, wider = wider, payload = payload)
}

expect_same_as_r <- function(table) {
  # the emulator's compiler takes a second for each; VERDIGRIS_EXAMPLES=all has them all
  if (emulated && Sys.getenv("VERDIGRIS_EXAMPLES") != "all") table <- table[seq(3L, length(table), by = 16L)]
  found <- lapply(Filter(function(one) is_next_ours(), table), function(one) {
    compare_routine(one$f, one$args, one$whole, one$bounds, one$ulp, one$wider, one$payload)
  })
  expect_all_same(found)
}
