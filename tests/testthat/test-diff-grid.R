# The differential grid, generated from the operation table: operations of one argument, by dtype, layout and edges.

narrow_of <- list(double = c("float32", "float16", "bfloat16"), integer = c("int8", "uint8", "int16"),
  complex = "complex64")

test_that("operations of one argument agree with base R", {
  rows <- operations[operations$r != "" & operations$arity == 1L & operations$group %in% c("Math", "Complex",
    "Generic"), ]
  rows <- rows[!startsWith(rows$rule, "To"), ]
  expect_gt(nrow(rows), 30)
  for (k in seq_len(nrow(rows))) {
    r <- rows$r[k]
    f <- call_of(r)
    same <- function(x, what, dtype = NULL, before = identity) {
      compare(f, list(x), dtype, rows$ulp[k], sprintf("%s(%s)", r, what), r, before)
    }
    found <- list()
    for (type in names(edges)) {
      for (x in layouts(type)) {
        found <- c(found, same(x, sprintf("%s[%d]", type, length(x))))
        if (is.matrix(x)) found <- c(found, same(x, paste0("t(", type, ")"), before = t))
      }
      for (dtype in narrow_of[[type]]) {
        # what fits the narrow type: uint8 has no NA
        x <- values(type, 257L)
        if (type == "integer") x <- x[!is.na(x) & abs(x) < 100 & (dtype != "uint8" | x >= 0)]
        if (type == "integer" && dtype != "uint8") x <- c(NA, x)
        found <- c(found, same(x, dtype, dtype), same(matrix(x[1:12], 3L), paste0("t(", dtype, ")"), dtype, t))
      }
    }
    expect_all_same(found)
  }
})

test_that("unary operators agree with base R", {
  found <- list()
  for (type in names(edges)) for (x in layouts(type)) {
    found <- c(found,
      compare(function(v) -v, list(x), what = paste("-", type)),
      compare(function(v) +v, list(x), what = paste("+", type)),
      compare(function(v) !v, list(x), what = paste("!", type)))
  }
  expect_all_same(found)
})

test_that("special functions agree with base R over their ranges", {
  # away from the poles at whole numbers up to 0, where base R loses digits in proportion to the distance
  x <- c(seq(-9.9, 10, length.out = 400L), seq(10, 170, length.out = 300L), 10^seq(-12, 12, length.out = 200L))
  x <- x[x > 0 | abs(x - round(x)) > 1e-3]
  found <- list()
  for (r in c("gamma", "lgamma")) found <- c(found, compare(call_of(r), list(x), ulp = ulp_of(r), what = r, row = r))
  for (r in c("digamma", "trigamma"))
    found <- c(found, compare(call_of(r), list(x[x > 0]), ulp = ulp_of(r), what = r, row = r))
  for (r in c("exp", "expm1", "log1p", "sinh", "cosh", "tanh", "asinh", "sinpi", "cospi", "tanpi")) {
    y <- c(x, -x)
    y <- y[y > -1]
    found <- c(found, compare(call_of(r), list(y), ulp = ulp_of(r), what = r, row = r))
  }
  expect_all_same(found)
})

test_that("the grid of one argument is as large as it was", {
  expect_cases(2000L)
})
