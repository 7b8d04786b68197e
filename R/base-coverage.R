#' Coverage of base R's functions
#'
#' This page lists the numeric functions of base and stats, and where each is computed for arrays. A program
#' (`tools/test/coverage.R`) generates the list: it calls each function with arrays and counts the elements that are
#' copied to the host. A test repeats the calls.
#'
#' A function is *on the device* if no more than its result, or a few elements, was copied to the host: because it has a
#' method, because it is built from functions that have one, or because it reads no elements at all (`length()`,
#' `dim()`, `is.numeric()`). A function runs *through the host* if it read the elements, subject to option
#' `verdigris.host_access` (see [verdigris-package]). Every function that is not listed here also runs through the host.
#' The result is base R's. To copy an array only once for several such calls, use `collect(x)`.
#'
#' The list applies to code that finds this package's functions, such as a script after `library(verdigris)`. A call
#' inside another package of a function that is not generic in base R (`rowSums()`, `order()`, `outer()`) reaches base
#' R's function, which reads the array.
#'
#' @section Functions that mask others:
#' `library(verdigris)` masks functions of base and stats that need code for arrays. A call without an array reaches the
#' function that it would have reached without this package: base R's function, or the function of another package,
#' whether attached before or later (`filter()` of dplyr, `order()` of bit64, the generics of Matrix). If the other
#' package is attached later, its function comes first, and reads arrays as vectors unless it has a method; use
#' `verdigris::order()` to call this package's. `conflicts(detail = TRUE)` lists the masked functions.
#'
#' `read.csv(system.file("coverage.csv", package = "verdigris"))` lists each tested call, and whether base R's function,
#' an S3 method, an S4 method or a mask handles it.
#' @eval coverage_sections("inst/coverage.csv")
#' @seealso [host], [verdigris-package]
#' @examples
#' coverage <- read.csv(system.file("coverage.csv", package = "verdigris"))
#' table(coverage$where, coverage$by)
#' subset(coverage, name == "quantile")
#' @name verdigris-coverage
NULL

# The sections of the help page, generated from the table that tools/test/coverage.R writes.
coverage_sections <- function(file) {
  table <- utils::read.csv(file, na.strings = character())
  kinds <- list(
    "On the device, with an array as result" = table$where == "device" & table$result == "array",
    "On the device, with an R value as result" = table$where == "device" & table$result == "R",
    "Through the host, with an array as result" = table$where == "host" & table$result == "array",
    "Through the host, with an R value as result" = table$where == "host" & table$result == "R",
    "Refused" = table$where == "refused",
    "Different result than for an ordinary vector" = table$note == "another value"
  )
  remarks <- c("Refused" = "Call these with `collect(x)`.",
    "Different result than for an ordinary vector" = "These functions describe an array as an object.")
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
