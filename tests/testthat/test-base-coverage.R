# ?verdigris-coverage is up to date: tools/test/coverage.R calls every function again.

test_that("the page of coverage is not out of date", {
  script <- test_path("..", "..", "tools", "test", "coverage.R")
  skip_if(!file.exists(script), "not in a checkout")
  skip_if(getRversion() < "4.2" || getRversion() >= "4.3", "the page is made with R 4.2")
  skip_if(test_device != "cpu", "the page is made on the cpu device")
  file <- withr::local_tempfile()
  withr::local_envvar(R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep))
  system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", shQuote(script), file), stdout = FALSE, stderr = FALSE)
  now <- readRDS(file)
  tool <- new.env()
  sys.source(script, tool)
  written <- utils::read.csv(system.file("coverage.csv", package = "verdigris"), na.strings = character())
  expect_gt(nrow(now), 600L)
  expect_identical(now$name, written$name)
  # what the cpu device hands to base R a GPU may compute itself
  libraries <- tool$library_functions(now)
  now$where[now$name %in% libraries] <- written$where[written$name %in% libraries]
  now$result[now$name %in% libraries] <- written$result[written$name %in% libraries]
  lines <- function(table)
    do.call(paste, c(table[c("name", "package", "where", "result", "by", "call", "note")], sep = " | "))
  expect_identical(setdiff(lines(now), lines(written)), character())
})

test_that("no function gives another value than base R's, but those that say what an array is", {
  written <- utils::read.csv(system.file("coverage.csv", package = "verdigris"), na.strings = character())
  about <- c("attributes", "class", "data.class", "deparse", "deparse1", "inherits", "is.object", "is.vector", "isa",
    "oldClass", "is.ts")
  expect_identical(setdiff(written$name[written$note == "another value"], about), character())
  expect_identical(setdiff(written$name[written$where == "refused"], "PP.test"), character())
})
