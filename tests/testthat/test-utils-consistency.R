# What R CMD check compares between code, methods and help, which differs between versions of R.

test_that("no object lacks a help page", {
  skip_if_not(file.exists(system.file("help", "aliases.rds", package = "verdigris")), "installed without help")
  expect_length(unlist(unclass(tools::undoc("verdigris"))), 0L)
})

test_that("no function looks like a method of a generic that the package calls", {
  # before, max.col() is taken for a method of max()
  skip_if(getRversion() < "4.5.0")
  found <- tools::checkS3methods("verdigris")
  expect_length(unclass(found), 0L)
  expect_identical(setdiff(names(attributes(found)), c("class", "names")), character())
})
