# Operators between objects of base R's classes, without an array: the same with this package loaded as without it.

test_that("operators of other classes are base R's when this package is loaded", {
  program <- quote({
    objects <- list(date = as.Date("2020-01-01") + 0:1, time = as.POSIXct("2020-01-01", tz = "UTC") + 0:1,
      parts = as.POSIXlt("2020-01-01", tz = "UTC"), span = as.difftime(c(24, 1), units = "hours"),
      factor = factor(c("a", "b")), ordered = factor(c("a", "b"), ordered = TRUE), frame = data.frame(x = 1:2, y = 3:4),
      version = numeric_version(c("1.2", "3")), series = ts(1:2), doubles = c(1, 2), integers = 1:2,
      string = "2020-01-01", logical = TRUE, matrix = matrix(1:4, 2), octal = as.octmode(8), text = noquote("a"),
      table = table(c(1, 1, 2)), own = structure(1, class = "own"), nothing = NULL)
    calls <- c(outer(outer(names(objects), c("+", "-", "*", "/", "==", "<", "!=", "%%", "&", "^", "%/%", ">="), paste),
      names(objects), paste), outer(c("-", "+", "!"), names(objects), paste))
    # as an argument of a base function, in a function of the user's, in one of base R's namespace
    ways <- list(function(call) eval(bquote(identity(.(call))), objects),
      function(call) eval(as.call(list(as.function(list(call), envir = list2env(objects))))),
      function(call) {
        f <- as.function(c(objects, call), envir = baseenv())
        f()
      })
    outcome <- function(way, call) {
      said <- character()
      value <- withCallingHandlers(tryCatch(way(call), error = function(e) paste("error:", conditionMessage(e))),
        warning = function(w) {
          said <<- c(said, conditionMessage(w))
          invokeRestart("muffleWarning")
        })
      list(value, said)
    }
    outcomes <- lapply(calls, function(text) lapply(ways, outcome, str2lang(text)))
    names(outcomes) <- calls
    saveRDS(outcomes, file)
  })
  outcomes <- function(load) {
    file <- withr::local_tempfile()
    out <- in_child(c(if (load) "loadNamespace('verdigris')", sprintf("file <- %s", deparse(file)),
      deparse(program)), attach = FALSE)
    expect_identical(attr(out, "status"), 0L, label = paste(out, collapse = "\n"))
    readRDS(file)
  }
  expect_identical(outcomes(TRUE), outcomes(FALSE))
})
