# R numbers beside narrow floats take their type: they are rounded first, then compared or computed with, in every
# function and for tables of any length. An array keeps its own type.

calls_beside <- list(
  equal = function(x, h) x == rep_len(h, length(x)), "equal to one" = function(x, h)
    x == h[1L], "less than one" = function(x, h) x < h[2L], "the other way" = function(x, h)
    h[1L] >= x, product = function(x, h) x * h[1L],
  match = function(x, h) match(x, h), "match of numbers" = function(x, h) match(h, x), "in" = function(x, h)
    x %in% h, "numbers in" = function(x, h) h %in% x, is.element = function(x, h)
    is.element(x, h), "match, nomatch" = function(x, h) match(x, h, nomatch = 0L),
  union = function(x, h) union(x, h), "union of numbers" = function(x, h) union(h, x), intersect = function(x, h)
    intersect(x, h), setdiff = function(x, h) setdiff(x, h),
  "outer ==" = function(x, h) outer(x, h, "=="), "outer <" = function(x, h) outer(h, x, "<"), outer = function(x, h)
    outer(x, h), "outer -" = function(x, h) outer(x, h, "-"), "outer with a function" = function(x, h)
    outer(x, h, function(a, b) (a - b) * 2), "%o%" = function(x, h) h %o% x,
  kronecker = function(x, h) kronecker(matrix(x), matrix(h, 1L)), "kronecker -" = function(x, h)
    kronecker(matrix(x, 1L), matrix(h), "-"),
  findInterval = function(x, h) findInterval(x, sort(h)), "findInterval, left" = function(x, h)
    findInterval(x, sort(h), left.open = TRUE, rightmost.closed = TRUE), "findInterval of numbers" = function(x, h)
    findInterval(h, sort(x)),
  cut = function(x, h) as.integer(cut(x, c(-1e3, sort(h[!duplicated(round(h, 2))]), 1e3))), "cut, left" = function(x, h)
    as.integer(cut(x, c(-1e3, sort(h[!duplicated(round(h, 2))]), 1e3), right = FALSE)),
  unique = function(x, h) unique(c(x, h)), duplicated = function(x, h)
    duplicated(c(x, h)), anyDuplicated = function(x, h) anyDuplicated(c(x, h)), which = function(x, h)
    which(x == h[1L]), ifelse = function(x, h) ifelse(x == h[1L], h[2L], x), pmin = function(x, h) pmin(x, h[1L]),
  sweep = function(x, h) sweep(matrix(x, 1L), 1L, h[1L]), "%*%" = function(x, h)
    matrix(x) %*% matrix(h[1L]), filled = function(x, h) replace(x, 1L, h[1L])
)

computing <- c("product", "outer", "outer -", "outer with a function", "%o%", "kronecker", "kronecker -", "sweep",
  "%*%")

# As `compare()`; the host computes with the numbers as they are stored.
beside <- function(f, x, h, dtype, what) {
  cases$n <- cases$n + 1L
  y <- gpu(x, dtype)
  stored <- function(v) as.vector(collect(gpu(v, dtype)))
  want <- outcome(f(collect(y), stored(h)))
  got <- outcome(f(y, h))
  # what is computed is stored narrowly, too
  if (is.double(want$value)) want$value[] <- stored(want$value)
  if (is.double(got$value)) got$value[] <- stored(got$value)
  said <- difference(got$value, want$value)
  if (is.null(said) && !identical(got$warnings, want$warnings)) said <- paste("warnings", deparse1(got$warnings))
  if (!is.null(said)) sprintf("%s, %s: %s", what, dtype, said)
}

over_numbers <- function() {
  found <- list()
  x <- c(.1, .7, .3, .1 + .2, 1, .7, 2 / 3, 12.3)
  for (dtype in c("float32", "float16", "bfloat16")) for (k in c(2L, 8L, 9L, 100L)) {
    h <- c(.7, .1 + .2, 2 / 3, 5.5, .7 + 1e-12, seq_len(100L) / 7)[seq_len(k)]
    # products with float16 are computed in float32, in which the number is not rounded to 16 bits
    calls <- if (dtype == "float32") names(calls_beside) else setdiff(names(calls_beside), computing)
    for (call in calls) if (is_next_ours())
      found <- c(found, beside(calls_beside[[call]], x, h, dtype, sprintf("%s beside %d", call, k)))
  }
  missing <- c(.7, NA, NaN, .1, Inf, -0)
  for (call in c("match", "match of numbers", "in", "numbers in", "union", "intersect", "setdiff", "outer ==", "unique",
    "equal")) {
    found <- c(found, beside(calls_beside[[call]], missing, rev(missing), "float32", paste(call, "with missing ones")))
    found <- c(found, beside(calls_beside[[call]], missing, c(rev(missing), 1:20), "float32",
      paste(call, "with missing ones among many")))
  }
  found
}

test_that("numbers beside narrow arrays are rounded first, everywhere", {
  expect_all_same(over_numbers())
  expect_composed_same(over_numbers)
})

test_that("what an array brings along keeps its type", {
  run <- function() {
    x <- gpu(c(.1, .7, .3), "float32")
    for (k in c(1, 5, 20, 100)) {
      table <- c(.7, seq_len(k))
      expect_identical(as.vector(x %in% gpu(table)), collect(x) %in% table)
      expect_identical(as.vector(match(gpu(table), x)), match(table, collect(x)))
      expect_identical(as.vector(findInterval(x, gpu(sort(table)))), findInterval(collect(x), sort(table)))
      expect_identical(as.vector(outer(x, gpu(table), "==")), as.vector(outer(collect(x), table, "==")))
      expect_identical(as.vector(x %in% table), c(FALSE, TRUE, FALSE))
    }
    expect_identical(gpu_dtype(outer(x, gpu(1))), "float64")
  }
  run()
  if (test_device == "cpu") composed(run())
})

test_that("outer() and kronecker() are of the type of a product", {
  for (dtype in c("float32", "float16", "int32", "float64", "complex64"))
    for (h in list(c(2, 3), 2:3, c(TRUE, FALSE), c(1i, 2))) {
    x <- gpu(1:2, dtype)
    like <- gpu_dtype(x * h)
    if (startsWith(like, "int")) like <- "float64" # base R multiplies matrices of doubles
    expect_identical(gpu_dtype(outer(x, h)), like, info = paste(dtype, typeof(h)))
    expect_identical(gpu_dtype(outer(h, x)), like, info = paste(dtype, typeof(h)))
    expect_identical(gpu_dtype(outer(x, h, "+")), gpu_dtype(x + h), info = paste(dtype, typeof(h)))
    expect_identical(gpu_dtype(kronecker(matrix(x), matrix(h))), like, info = paste(dtype, typeof(h)))
  }
})

test_that("set functions give elements of their first argument, arrays where that is one", {
  x <- gpu(c(.7, .1, .7, 2), "float32")
  expect_identical(setdiff(.7, x), numeric())
  expect_identical(setdiff(c(5, .7, 5), x), 5)
  expect_identical(intersect(c(5, .7, .1), x), c(.7, .1))
  expect_identical(gpu_dtype(setdiff(x, .7)), "float32")
  expect_identical(gpu_dtype(union(x, 1:3)), "float32")
  expect_true(is.element(.7, x))
  expect_true(setequal(x, c(2, .1, .7)))
  expect_false(setequal(c(2, .1), x))
  calls <- list(union = union, intersect = intersect, setdiff = setdiff, is.element = is.element, setequal = setequal)
  sets <- list(c(3, 1, NA, 1, NaN), c(1L, 5L, NA), c(TRUE, NA), numeric(), integer(), 7, c(a = 1, b = 2),
    matrix(1:4, 2), NULL, c(1 + 0i, 2i), c("1", "x"))
  found <- list()
  for (call in names(calls)) for (x in sets[c(1:8)]) for (y in sets) for (turned in c(FALSE, TRUE)) {
    args <- if (turned) list(list(y), x) else list(x, list(y))
    found <- c(found, compare(calls[[call]], args, what = paste(call, deparse1(x), deparse1(y), turned)))
    if (!turned && is.numeric(y))
      found <- c(found, compare(calls[[call]], list(x, y), what = paste(call, deparse1(x), deparse1(y), "arrays")))
  }
  expect_all_same(found)
})
