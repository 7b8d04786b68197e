# Joining, repeating, shaping: calls over types, sizes, edges and layouts, against base R.

test_that("vectors are joined, repeated and shaped as in base R", {
  calls <- list(
    "c" = function(v) c(v, 1L, NA, v), "c with names" = function(v)
      c(v, a = 1, b = c(x = 2, y = 3)), "append" = function(v) append(v, 7, 1),
    "rep" = function(v) rep(v, 3), "rep each" = function(v) rep(v, each = 2), "rep both" = function(v)
      rep(v, 2, each = 3), "rep length" = function(v) rep(v, length.out = 70), "rep each length" = function(v)
      rep(v, each = 2, length.out = 5),
    "rep times" = function(v) rep(v, seq_along(v) %% 3), "rep_len" = function(v) rep_len(v, 5), "rep.int" = function(v)
      rep.int(v, 2), "rep 0" = function(v) rep(v, 0), "rev" = rev,
    "head" = function(v) head(v, 5), "tail" = function(v) tail(v, 5), "head -" = function(v)
      head(v, -3), "tail -" = function(v) tail(v, -3),
    "cbind" = function(v) cbind(v, v), "cbind one" = function(v) cbind(v, 1), "cbind host first" = function(v)
      cbind(a = 1L, v, 2.5), "rbind" = function(v) rbind(v, b = v), "rbind one" = function(v) rbind(1, v),
    "cbind levels" = function(v) cbind(v, v * 2L, deparse.level = 2), "cbind none" = function(v)
      cbind(v, 3, deparse.level = 0), "cbind short" = function(v) cbind(v, 1:3), "cbind NULL" = function(v)
      cbind(NULL, v, numeric()),
    "cbind frame" = function(v) cbind(data.frame(k = seq_along(v)), v), "cbind string" = function(v)
      cbind(v, "a"), "rbind matrix" = function(v) rbind(v, matrix(1:6, 2)), "cbind matrix" = function(v)
      cbind(matrix(1:6, 3, dimnames = list(letters[1:3], NULL)), v),
    "matrix" = function(v) matrix(v), "matrix 2" = function(v) matrix(v, 2), "matrix columns" = function(v)
      matrix(v, ncol = 3), "matrix by row" = function(v) matrix(v, 3, byrow = TRUE), "matrix both" = function(v)
      matrix(v, 4, 4),
    "matrix by row both" = function(v) matrix(v, 2, 5, byrow = TRUE), "matrix names" = function(v)
      matrix(v, 1, dimnames = list("a", NULL)), "matrix 0" = function(v) matrix(v, 0, 0), "matrix wrong" = function(v)
      matrix(v, -1), "matrix NA" = function(v) matrix(v, NA),
    "array" = function(v) array(v), "array 3" = function(v) array(v, c(2, 3, 2)), "array names" = function(v)
      array(v, 2:1, list(c("a", "b"), NULL)), "array empty" = function(v) array(v, c(0, 2)), "array wrong" = function(v)
      array(v, integer()), "array negative" = function(v) array(v, -1),
    "embed" = function(v) embed(v, 2), "embed 1" = function(v) embed(v, 1), "embed 0" = function(v) embed(v, 0))
  expect_all_same(over_vectors(calls))
})

test_that("complex vectors are joined, repeated and shaped as in base R", {
  calls <- list("c" = function(v) c(v, 1), "rep" = function(v) rep(v, 2, each = 2), "cbind" = function(v) cbind(v, 1),
    "rbind" = function(v) rbind(v, v), "matrix" = function(v) matrix(v, 2, byrow = TRUE), "array" = function(v)
    array(v, c(2, 2, 2)), "outer" = function(v) outer(v, v, "+"), "diag" = function(v) diag(v, 3))
  expect_all_same(over_vectors(calls, "complex", sizes = c(0L, 1L, 2L, 64L)))
})

test_that("outer products, diagonals and Kronecker products agree with base R", {
  small <- c(0L, 1L, 2L, 63L)
  # base R's outer product is its BLAS's, which decides what NaN times NA is
  either <- function(y) {
    if (is.numeric(y)) y[is.na(y)] <- NA
    y
  }
  calls <- list(
    "outer" = function(v) outer(v, 1:3), "outer both" = function(v)
      either(outer(v, v)), "outer host first" = function(v) outer(c(a = 1, b = 2.5), v), "outer +" = function(v)
      outer(v, 1:2, "+"), "outer >" = function(v) outer(v, v, ">"),
    "outer f" = function(v) outer(v, 1:3, function(x, y, z) x * y + z, z = 2), "outer wrong" = function(v)
      outer(v, 1:3, function(x, y) 1), "%o%" = function(v) v %o% c(1, 2), "outer matrix" = function(v)
      outer(v, matrix(1:4, 2, dimnames = list(NULL, c("a", "b")))),
    "kronecker" = function(v) kronecker(v, matrix(1:4, 2)), "%x%" = function(v)
      matrix(1:2, 1) %x% v, "kronecker +" = function(v) kronecker(v, 1:3, "+"), "kronecker names" = function(v)
      kronecker(v, c(a = 1, b = 2), make.dimnames = TRUE),
    "diag rows" = function(v) diag(v, 3), "diag both" = function(v) diag(v, 2, 5), "diag columns" = function(v)
      diag(v, ncol = 3), "diag wrong" = function(v) diag(v, -1))
  found <- over_vectors(calls, sizes = small)
  found <- c(found, over_vectors(list("diag" = function(v) diag(abs(v))), c("double", "integer"),
    sizes = c(0L, 2L, 63L), kinds = "plain"))
  found <- c(found, compare(diag, list(3), what = "diag of a number"),
    compare(diag, list(TRUE), what = "diag of a logical"), compare(diag, list(2L), what = "diag of an integer"),
    compare(diag, list(array(1:2, 2)), what = "diag of an array"), compare(diag, list(array(1:8, c(2, 2, 2))),
    what = "diag of three dimensions"))
  expect_all_same(found)
})

test_that("matrices are joined, shaped, swept and scaled as in base R", {
  # base R gives names that are none, list(NULL, NULL), to what is empty
  found <- over_matrices(list("cbind" = function(m) cbind(m, m), "rbind" = function(m) rbind(m, m),
    "cbind expression" = function(m) cbind((m), -m), "cbind NULL" = function(m) cbind(NULL, m)),
    shapes = Filter(all, shapes_tried))
  calls <- list(
    "cbind vector" = function(m) cbind(m, k = 1), "rbind vector" = function(m)
      rbind(0L, m, k = 1:2), "cbind wrong" = function(m) cbind(m, matrix(1, 5, 1)), "rbind wrong" = function(m)
      rbind(matrix(1, 1, 5), m),
    "cbind host" = function(m) cbind(matrix(0, nrow(m), 1, dimnames = list(NULL, "z")), m), "c" = function(m)
      c(m, m), "rep" = function(m) rep(m, 2), "outer" = function(m) outer(m, c(x = 1, y = 2), "+"),
    "diag" = diag, "diag no names" = function(m) diag(m, names = FALSE), "diag nrow" = function(m)
      diag(m, 2), "diag<-" = function(m) { diag(m) <- 1L; m }, "diag<- wrong" = function(m) { diag(m) <- 1:9; m },
    "row" = row, "col" = col, "row factor" = function(m) row(m, as.factor = TRUE), "upper" = upper.tri,
      "lower" = function(m) lower.tri(m, diag = TRUE), "m[upper]" = function(m)
      m[upper.tri(m)], "m[lower] <-" = function(m) { m[lower.tri(m)] <- 0L; m },
    "head" = function(m) head(m, 2), "tail" = function(m) tail(m, 2), "embed" = function(m)
      embed(m, 2), "matrix" = function(m) matrix(m, 2), "array" = function(m) array(m, c(2, 2)), "aperm" = function(m)
      aperm(m, 2:1))
  expect_all_same(c(found, over_matrices(calls)))
})

test_that("sweep(), scale() and apply() agree with base R", {
  calls <- list(
    "sweep" = function(m) sweep(m, 2, seq_len(ncol(m))), "sweep rows" = function(m)
      sweep(m, 1, seq_len(nrow(m)) / 2, "*"), "sweep own" = function(m) sweep(m, 2, m[1L, ]), "sweep one" = function(m)
      sweep(m, 1, 2), "sweep odd" = function(m) sweep(m, 1, 1:2),
    "sweep long" = function(m) sweep(m, 1, 1:100), "sweep both" = function(m)
      sweep(m, 1:2, m), "sweep unchecked" = function(m)
      sweep(m, 1, 1:2, check.margin = FALSE), "sweep wrong" = function(m) sweep(m, 3, 1), "sweep f" = function(m)
      sweep(m, 2, 3, function(a, b) a > b),
    "apply max" = function(m) apply(m, 1, max), "apply min" = function(m) apply(m, 2, min), "apply sum" = function(m)
      apply(m, 2, sum), "apply sum na" = function(m) apply(m, 1, sum, na.rm = TRUE), "apply any" = function(m)
      apply(m > 0, 1, any), "apply all" = function(m) apply(m > 0, 2, all), "apply all na" = function(m)
      apply(m > 0, 2, all, na.rm = TRUE),
    "apply range" = function(m) apply(m, 2, range), "apply f" = function(m)
      apply(m, 1, function(r) r[1L]), "apply names" = function(m)
      apply(m, 2, function(k) names(k)), "apply max na" = function(m)
      apply(m, 2, max, na.rm = TRUE), "apply both" = function(m) apply(m, 1:2, sum),
    "apply list" = function(m) apply(m, 1, max, simplify = FALSE), "apply by name" = function(m)
      apply(m, 1, "max"), "asplit" = function(m) asplit(m, 1), "asplit 2" = function(m)
      asplit(m, 2), "asplit both" = function(m) asplit(m, 1:2), "apply wrong" = function(m) apply(m, 3, sum))
  found <- over_matrices(calls, limit = 2)
  close <- list("apply mean" = function(m) apply(m, 1, mean), "apply prod" = function(m) apply(m, 1, prod),
    "apply var" = function(m) apply(m, 2, var), "apply sd" = function(m) apply(m, 2, sd), "apply mean na" = function(m)
    apply(m, 2, mean, na.rm = TRUE), "apply sd na" = function(m) apply(m, 2, sd, na.rm = TRUE),
    "scale" = function(m) scale(m)[, , drop = FALSE], "scale center" = function(m)
      scale(m, scale = FALSE)[, , drop = FALSE], "scale only" = function(m) scale(m, center = FALSE)[, , drop = FALSE],
      "scale numbers" = function(m) scale(m, seq_len(ncol(m)), rep(2, ncol(m)))[, , drop = FALSE],
      "scale wrong" = function(m) scale(m, 1:9)[, , drop = FALSE],
    "scaled:center" = function(m) attr(scale(m), "scaled:center"))
  found <- c(found, over_matrices(close, c("double", "integer"), "plain", limit = 64),
    over_matrices(close[c("apply mean", "apply prod")], c("double", "integer", "logical"), "ties", limit = 64))
  found <- c(found, over_matrices(list("scaled:scale" = function(m) attr(scale(m), "scaled:scale")),
    c("double", "integer"), "plain", limit = 16))
  expect_all_same(found)
})

test_that("arrays of three dimensions agree with base R", {
  calls <- list("asplit" = function(a) asplit(a, 2), "asplit 31" = function(a) asplit(a, c(3, 1)), "apply" = function(a)
    apply(a, 1, max), "apply 2" = function(a) apply(a, c(1, 3), max), "apply 3" = function(a)
    apply(a, 3:2, sum), "apply middle" = function(a) apply(a, 2, min), "sweep" = function(a)
    sweep(a, 2, seq_len(dim(a)[2L])), "sweep 2" = function(a) sweep(a, c(1, 3), 1:2), "sweep 31" = function(a)
    sweep(a, c(3, 1), seq_len(prod(dim(a)[c(3, 1)]))),
    "c" = function(a) c(a, 1), "outer" = function(a) outer(a, 1:2, "+"), "kronecker" = function(a)
      kronecker(a, matrix(1:4, 2)), "array" = function(a) array(a, rev(dim(a))), "head" = function(a)
      head(a, 1), "cbind" = function(a) cbind(a, 1), "rep" = function(a) rep(a, 2), "matrix" = function(a)
      matrix(a, 2), "aperm" = function(a) aperm(a, c(2, 3, 1)))
  expect_all_same(over_matrices(calls, shapes = list(c(2L, 3L, 4L), c(1L, 1L, 1L), c(2L, 2L, 2L), c(5L, 1L, 3L)),
    limit = 2))
})

test_that("narrow types keep theirs, and views take no memory", {
  x <- gpu(c(1.5, 2, 3), "float32")
  for (y in list(c(x, 1), cbind(x, 1), rbind(1, x), rep(x, 3), matrix(x, 1), outer(x, 1:2, "+"), diag(x),
    sweep(cbind(x, x), 2, 1:2), scale(cbind(x, x)))) expect_identical(gpu_dtype(y), "float32")
  expect_identical(gpu_dtype(c(x, gpu(1))), "float64")
  expect_identical(gpu_dtype(c(gpu(1L, "int8"), gpu(2L, "int8"))), "int8")
  x <- gpu(as.double(1:1000))
  before <- alive()[["bytes"]]
  y <- list(rep(x, 1000), rep(x, each = 1000), embed(x, 500), outer(x, x))
  expect_lt(.Call(verdigris:::C_live)[[2L]] - before, 100000)
  expect_identical(sum(y[[3L]]), sum(embed(as.double(1:1000), 500)))
})

test_that("what has no array among its arguments is base R's, to its conditions", {
  f <- function(x, y) x - y # found from where outer() is called
  local({
    here <- function(x, y) 2 * x + y
    expect_identical(outer(1:2, 1:3, "here"), base::outer(1:2, 1:3, here))
    expect_identical(apply(diag(2), 1, "sum"), c(1, 1))
  })
  expect_identical(conditionCall(tryCatch(matrix(1:6, -1), error = identity)), quote(matrix(1:6, -1)))
  expect_identical(conditionCall(tryCatch(diag(array(1, c(1, 1, 1))), error = identity)),
    quote(diag(array(1, c(1, 1, 1)))))
  a <- c(1, 1, 2)
  expect_identical(table(a), base::table(a))
  expect_identical(names(dimnames(table(a, b = a))), c("a", "b"))
  expect_identical(order(c(2, 1), decreasing = TRUE), 1:2)
  expect_identical(formals(match), formals(base::match))
})

test_that("the shapes are as many as they were", {
  expect_cases(25000L)
})
