# Entries: typed arguments are refused by their names, and what is registered is what R calls.

refused <- function(name, ...) {
  entry <- get(paste0("C_", name), asNamespace("verdigris"))
  e <- tryCatch(.Call(entry, ...), error = identity)
  expect_s3_class(e, "verdigris_error_argument")
  conditionMessage(e)
}

test_that("an argument of a wrong type is refused by its name", {
  x <- gpu(c(1, 2))
  expect_match(refused("range_push", 1), "`name` must be one string, not 1", fixed = TRUE)
  expect_match(refused("range_push", NA_character_), "`name` must be one string, not NA", fixed = TRUE)
  expect_match(refused("tier", 5), "`tier` must be one string, not 5", fixed = TRUE)
  expect_match(refused("device_name", 1), "`device` must be one string, not 1", fixed = TRUE)
  expect_match(refused("device_works", NULL), "`device` must be one string, not NULL", fixed = TRUE)
  expect_match(refused("stream_new", "cpu", "a"), "`priority` must be one number, not \"a\"", fixed = TRUE)
  expect_match(refused("stream_sync", 1), "`stream` must be made by gpu_stream(), not 1", fixed = TRUE)
  expect_match(refused("event_sync", x), "`event` must be made by gpu_event()", fixed = TRUE)
  expect_match(refused("graph_run", 1, list(), list(), TRUE), "the graph is of another session", fixed = TRUE)
  expect_match(refused("graph_begin", 1, "cpu"), "`inputs` must be a list, not 1", fixed = TRUE)
  expect_match(refused("pinned_new", -1, "double", "cpu"), "`n` must be one whole number, 0 or more, not -1", fixed = TRUE)
  expect_match(refused("pinned_new", 8, 1, "cpu"), "`type` must be one string, not 1", fixed = TRUE)
  expect_match(refused("file_bytes", 1, "file"), "`path` must be one string, not 1", fixed = TRUE)
  expect_match(refused("module_names", x), "expected a kernel or a module", fixed = TRUE)
  expect_match(refused("as_strided", x, 1, 0.5, 0), "`strides` must be whole numbers", fixed = TRUE)
  expect_match(refused("full", 1:2, 1, NULL, "cpu"), "`value` must be one number, not an integer vector", fixed = TRUE)
  expect_match(refused("full", 1, NA, NULL, "cpu"), "`dim` must be one whole number", fixed = TRUE)
  expect_match(refused("multiply_batched", x, x, 1, c(0, 0)), "`sizes` must be 6 sizes", fixed = TRUE)
  expect_match(refused("svd", x, c(2, 1), NA, FALSE, FALSE), "`vectors` must be TRUE or FALSE, not NA", fixed = TRUE)
  expect_match(refused("reduce", "sum", x, NA), "`na.rm` must be TRUE or FALSE, not NA", fixed = TRUE)
})

test_that("NULL is what an optional argument is without", {
  expect_type(.Call(verdigris:::C_tier, NULL), "character")
  event <- gpu_event("cpu")
  expect_null(.Call(verdigris:::C_event_record, event, NULL))
  expect_true(.Call(verdigris:::C_event_info, event)$recorded)
})

test_that("text in an error is no format, and may have a NUL", {
  odd <- "100%s of %n %d"
  e <- tryCatch(.Call(verdigris:::C_tier, odd), error = identity)
  expect_match(paste(conditionMessage(e), collapse = ""), odd, fixed = TRUE)
  e <- tryCatch(.Call(verdigris:::C_test_condition, "nul", odd), error = identity)
  expect_match(conditionMessage(e), paste0(odd, "\\0", odd), fixed = TRUE)
})

test_that("each entry that R code calls is registered, and no other", {
  folder <- test_path("..", "..", "R")
  skip_if(!dir.exists(folder), "not in a checkout")
  code <- function(folder) unlist(lapply(list.files(folder, "[.]R$", full.names = TRUE), readLines))
  called <- function(code) unique(unlist(regmatches(code, gregexpr("\\bC_[a-z0-9_]+", code))))
  registered <- getDLLRegisteredRoutines("verdigris")
  registered <- c(names(registered$.Call), names(registered$.External))
  expect_identical(setdiff(called(code(folder)), registered), character())
  expect_identical(setdiff(registered, called(c(code(folder), code(test_path())))), character())
})
