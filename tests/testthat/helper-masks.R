# Calls that are made with and without the package attached, for test-base-masks.R: code for a child process.

# The value of a call, and its conditions.
outcome_code <- quote({
  outcome_of <- function(call) {
    heard <- list()
    note <- function(c) {
      heard[[length(heard) + 1L]] <<- list(class = class(c), message = conditionMessage(c), call = conditionCall(c))
      if (inherits(c, "warning")) tryInvokeRestart("muffleWarning") else if (inherits(c, "message"))
        tryInvokeRestart("muffleMessage")
    }
    value <- try(withCallingHandlers(withVisible(eval(call, globalenv())), condition = note), silent = TRUE)
    if (inherits(value, "try-error")) value <- "an error"
    list(value = value, heard = heard)
  }
  outcomes_of <- function(calls) lapply(as.list(calls), outcome_of)
  # prints the calls that give something else
  compare_outcomes <- function(calls, want, got, when) {
    for (k in seq_along(want)) if (!identical(want[[k]], got[[k]], ignore.environment = TRUE, ignore.bytecode = TRUE)) {
      cat(when, ": ", deparse(calls[[k]])[1L], "\n", sep = "")
      cat(utils::head(c(utils::capture.output(utils::str(want[[k]]$heard)), "is not",
        utils::capture.output(utils::str(got[[k]]$heard))), 30L), sep = "\n")
    }
  }
})
