library(testthat)
library(verdigris)

test_check("verdigris")
