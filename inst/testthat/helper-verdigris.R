# Helpers for packages that accept arrays of verdigris. Copy this file into tests/testthat; verdigris is needed in
# Suggests. No GPU is needed: the cpu device computes the same values.

# Until the end of the calling test or function arrays are made on the cpu device. A function that reads an array on the
# host although it has no code for arrays is then an error; host_access = "allow" permits it.
local_gpu_cpu <- function(host_access = c("error", "allow", "inform"), .local_envir = parent.frame()) {
  testthat::skip_if_not_installed("verdigris")
  before <- options(verdigris.host_access = match.arg(host_access))
  restore <- as.call(list(function() options(before)))
  do.call(on.exit, list(restore, add = TRUE, after = FALSE), envir = .local_envir)
  verdigris::local_gpu("cpu", .local_envir = .local_envir)
}

# f called on ordinary vectors, and on arrays of their numbers, gives the same values, dimensions, names and warnings,
# or fails both times. `...`: arguments of f. Arguments that are not numbers, logicals or complex numbers are passed as
# they are. Returns the array's result, invisibly.
expect_gpu_equal <- function(f, ..., tolerance = testthat::testthat_tolerance()) {
  bring <- function(value) {
    if (verdigris::is_gpu(value)) return(verdigris::collect(value))
    if (is.list(value)) value[] <- lapply(value, bring)
    value
  }
  run <- function(arguments) {
    warnings <- character()
    value <- tryCatch(
      withCallingHandlers(
        {
          value <- do.call(f, arguments)
          list(array = value, host = bring(value))
        },
        warning = function(w) {
          warnings <<- c(warnings, conditionMessage(w))
          invokeRestart("muffleWarning")
        }
      ),
      error = function(e) list(error = conditionMessage(e))
    )
    c(value, list(warnings = unique(warnings)))
  }
  arguments <- list(...)
  is_number <- function(x) (is.numeric(x) || is.logical(x) || is.complex(x)) && !is.object(x) && length(x) > 1L
  on_host <- run(arguments)
  on_device <- run(lapply(arguments, function(x) if (is_number(x)) verdigris::as_gpu(x) else x))
  if (!is.null(on_device$error) && is.null(on_host$error)) {
    testthat::fail(paste0("An error on arrays, none on vectors: ", on_device$error))
  } else if (is.null(on_device$error) && !is.null(on_host$error)) {
    testthat::fail(paste0("An error on vectors, none on arrays: ", on_host$error))
  } else {
    testthat::expect_equal(list(value = on_device$host, warnings = on_device$warnings),
      list(value = on_host$host, warnings = on_host$warnings), tolerance = tolerance)
  }
  invisible(on_device$array)
}
