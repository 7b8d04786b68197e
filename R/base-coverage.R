#' Coverage of base R's functions
#'
#' The functions of base and stats that are about numbers, and where each computes when its data are arrays. This page
#' is made by a program (`tools/test/coverage.R`) that calls each of them with arrays and counts what comes to the host;
#' a test calls them again.
#'
#' A function is *on the device* where no more than its result, or a few elements, came to the host; that may be because
#' it has a method, because it is made of functions that have one, or because it reads no elements at all (`length()`,
#' `dim()`, `is.numeric()`). It runs *through the host* where the elements were read: as everything does that is not on
#' this page, and by the rule of option `verdigris.host_access` (see [verdigris-package]). Its answer is base R's. With
#' `collect(x)` the copy is made once.
#'
#' What is said here holds for calls from code that finds this package's functions, such as a script after
#' `library(verdigris)`. Another package's own call of what is no generic in base R (`rowSums()`, `order()`, `outer()`)
#' reaches base R's function, which reads the array.
#'
#' @section Functions that stand before others:
#' `library(verdigris)` puts functions of base and stats that arrays need before base R's own. A call of one without an
#' array reaches the function that it would have reached without this package: base R's, or that of another package,
#' whether attached before or later (`filter()` of dplyr, `order()` of bit64, the generics of Matrix). Where the other
#' package is attached later its function is in front, and reads arrays as vectors unless it has a method;
#' `verdigris::order()` names this package's. `conflicts(detail = TRUE)` lists them.
#'
#' The call that was tried, and whether base R's function itself, an S3 method, an S4 method or a function that stands
#' before base R's serves it, is in `read.csv(system.file("coverage.csv", package = "verdigris"))`.
#' @eval coverage_sections("inst/coverage.csv")
#' @seealso [host], [verdigris-package]
#' @examples
#' coverage <- read.csv(system.file("coverage.csv", package = "verdigris"))
#' table(coverage$where, coverage$by)
#' subset(coverage, name == "quantile")
#' @name verdigris-coverage
NULL

# The lists of the page, from the table that tools/test/coverage.R writes.
coverage_sections <- function(file) {
  table <- utils::read.csv(file, na.strings = character())
  kinds <- list(
    "On the device, with an array as result" = table$where == "device" & table$result == "array",
    "On the device, with an R value as result" = table$where == "device" & table$result == "R",
    "Through the host, with an array as result" = table$where == "host" & table$result == "array",
    "Through the host, with an R value as result" = table$where == "host" & table$result == "R",
    "Refused" = table$where == "refused",
    "Another answer than for an ordinary vector" = table$note == "another value"
  )
  remarks <- c("Refused" = "Call these with `collect(x)`.",
    "Another answer than for an ordinary vector" = "These say of an array what it is.")
  unlist(lapply(names(kinds), function(title) {
    lists <- vapply(c("base", "stats"), function(package) {
      names <- table$name[kinds[[title]] & table$package == package]
      if (length(names)) sprintf("%s: %s.", package, paste0("\\code{", gsub("([%\\\\{}])", "\\\\\\1", names), "}",
        collapse = ", ")) else ""
    }, "")
    c(sprintf("@section %s:", title), remarks[title][!is.na(remarks[title])], "",
      paste(lists[lists != ""], collapse = "\n\n"))
  }))
}
