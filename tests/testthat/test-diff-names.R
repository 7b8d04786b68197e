# Subscripts by name, above all "" and NA, which match no name, and empty subscripts of [[: each call compared with base
# R's.

get_at <- function(x, i) x[i]
set_at <- function(x, i, value) {
  x[i] <- value
  x
}
get_in <- function(x, i) x[[i]]
set_in <- function(x, i, value) {
  x[[i]] <- value
  x
}
label <- function(f, x, i) paste(f, deparse1(x), deparse1(i))

vectors <- list(setNames(1:3, c("a", "", "b")), setNames(c(1, 2, 3), c("a", NA, "b")), setNames(1:3, c("NA", NA, "")),
  setNames(1:3, c(NA, "NA", "b")), 1:3, numeric(), c(a = 1, b = 2), setNames(c(1i, 2), c("", "a")),
  array(1:3, 3L, list(c("a", "", "b"))), array(c(3, 1, 2), 3L, list(c("a", "b", "c"))), array(1:3, 3L),
  array(1:3, 3L, list(axis = c(NA, "NA", "b"))), matrix(1:4, 2), matrix(1:4, 2, dimnames = list(c("a", ""), NULL)))
names_tried <- list("", NA_character_, c("", ""), c(NA, "a", NA), "a", "NA", c("z", "z", "", NA, "", "b", "a"),
  character())

test_that("vectors are read and assigned by name as in base R", {
  found <- list()
  for (x in vectors) for (i in names_tried) {
    found <- c(found, compare(get_at, list(x, list(i)), what = label("[", x, i)))
    for (value in list(9L, 2.5, 3i)) found <- c(found, compare(set_at, list(x, list(i), list(value)),
      what = label("[<-", x, i)))
    if (length(i)) found <- c(found, compare(set_at, list(x, list(i), seq_along(i)), what = label("[<-", x, i)),
      compare(replace, list(x, list(i), list(7L)), what = label("replace", x, i)))
  }
  for (x in vectors) for (i in list("", NA_character_, "a", "NA", "z")) {
    found <- c(found, compare(get_in, list(x, list(i)), what = label("[[", x, i)))
    for (value in list(9L, 2.5)) found <- c(found, compare(set_in, list(x, list(i), list(value)),
      what = label("[[<-", x, i)))
  }
  expect_all_same(found)
})

test_that("assignment by name leaves an array on its device, of its dtype", {
  x <- gpu(setNames(c(1, 2, 3), c("a", "", "b")), "float32")
  x[c("", NA, "a")] <- 9
  expect_identical(gpu_dtype(x), "float32")
  expect_identical(collect(x), setNames(c(9, 2, 3, 9, 9), c("a", "", "b", "", NA)))
  x <- gpu(setNames(1:2, c("", NA)), "int64")
  x[[""]] <- 5L
  x[c("a", "a")] <- 6:7
  expect_identical(gpu_dtype(x), "int64")
  expect_identical(names(x), c("", NA, "", "a"))
  expect_identical(as.vector(x), c(1, 2, 5, 7))
  like <- array(1:3, 3L, list(c("a", "b", "c")))
  x <- gpu(like, "int16")
  x["b"] <- 8L
  like["b"] <- 8L
  expect_true(is_gpu(x))
  expect_identical(dim(x), dim(like))
  expect_identical(gpu_dtype(x), "int16")
})

matrices <- list(matrix(1:4, 2, dimnames = list(c("a", ""), c(NA, "d"))),
  matrix(c(1, 2, 3, 4), 2, dimnames = list(c("a", "b"), NULL)), matrix(1:4, 2),
  matrix(1:4, 2, dimnames = list(c("a", "b"), c("NA", ""))))

test_that("matrices are read and assigned by name as in base R", {
  found <- list()
  for (x in matrices) for (i in list("", NA_character_, "a", "d", c("a", ""), c("a", NA), character())) {
    for (f in list(function(x, i) x[i, 1], function(x, i) x[i, ], function(x, i) x[1, i], function(x, i) x[[i, 1]],
      function(x, i) x[[1, i]], function(x, i) { x[i, 1] <- 9L; x }, function(x, i) { x[1, i] <- 2.5; x },
      function(x, i) { x[[i, 1]] <- 7L; x }, function(x, i) { x[[1, i]] <- 7.5; x }))
      found <- c(found, compare(f, list(x, list(i)), what = label(deparse1(body(f)), x, i)))
  }
  expect_all_same(found)
})

test_that("index matrices of names are read and assigned as in base R", {
  found <- list()
  for (x in matrices) for (i in list(matrix(c("", "d"), 1), matrix(c(NA, "d"), 1), matrix(c("a", "d"), 1),
    matrix(c("a", NA, "d", "zz"), 2), matrix(c("a", NA, "d", "d"), 2), matrix(c("a", "b", "d", NA), 2),
    matrix(NA_character_, 1, 2), matrix("", 1, 2), matrix("", 0, 2))) {
    found <- c(found, compare(get_at, list(x, list(i)), what = label("[", x, i)))
    for (value in list(9L, 8:9)) found <- c(found, compare(set_at, list(x, list(i), list(value)),
      what = label("[<-", x, i)))
  }
  expect_all_same(found)
})

test_that("empty subscripts of [[ and [[<- are base R's errors", {
  found <- list()
  for (x in c(matrices, list(1:3, c(a = 1), array(1:8, c(2, 2, 2)))))
    for (f in list(function(x) x[[]], function(x) x[[1, ]], function(x) x[[, 1]], function(x) x[[, ]],
      function(x) x[[9, ]], function(x) x[["a", ]], function(x) x[[1, , 2]], function(x) { x[[]] <- 7L; x },
      function(x) { x[[1, ]] <- 7L; x }, function(x) { x[[, 1]] <- 7L; x }, function(x) { x[[, ]] <- 7L; x },
      function(x) { x[[1, ]] <- 7:8; x }, function(x) { x[[1, ]] <- integer(); x }, function(x) `[[<-`(x, 1, , 7L)))
      found <- c(found, compare(f, list(x), what = label(deparse1(body(f)), x, NULL)))
  expect_all_same(found)
  m <- gpu(matrices[[1L]])
  # of another class from R 4.6 on
  expect_error(m[[1, ]], class = class(tryCatch(matrices[[1L]][[1, ]], error = identity))[1L])
  expect_error(m[["", 1]], class = "subscriptOutOfBoundsError")
  expect_error(m[NA_character_, 1], class = "subscriptOutOfBoundsError")
  x <- gpu(setNames(1:2, c("", NA)))
  expect_error(x[[""]], class = "subscriptOutOfBoundsError")
  expect_error(x[[NA_character_]], class = "subscriptOutOfBoundsError")
})

expect_cases(900L)
