# Faults that a review of 2026-11 found in methods of base R's functions: each call is compared with base R's result.

# Evaluates the call with x as an array of `dtype` and as R vectors, and compares value, type, attributes, warnings and
# error. `x` is the only array unless `also` names more variables.
same <- function(call, ..., also = NULL, dtype = NULL) {
  variables <- list(...)
  arrays <- variables
  for (name in c("x", also)) arrays[[name]] <- as_gpu(variables[[name]], dtype = dtype, device = "cpu")
  run <- function(variables) {
    warnings <- character()
    value <- tryCatch(withCallingHandlers(eval(call, variables, globalenv()), warning = function(w) {
      warnings <<- c(warnings, conditionMessage(w))
      invokeRestart("muffleWarning")
    }), error = function(e) structure(list(conditionMessage(e)), class = "failed"))
    if (is.list(value)) value[] <- lapply(value, function(v) if (is_gpu(v)) as_r(v) else v)
    value <- if (is_gpu(value)) as_r(value) else value
    if (identical(dtype, "int64") && is.integer(value)) storage.mode(value) <- "double"
    list(value = value, warnings = warnings)
  }
  expect_identical(run(arrays), run(variables), label = paste(deparse(call), collapse = " "))
}

# The array as an R vector; int64 as doubles, as which same() takes integers beside it.
as_r <- function(x) if (gpu_dtype(x) == "int64") collect(gpu_cast(x, "float64")) else collect(x)

test_that("log() takes its base by name", {
  for (call in expression(log(base = 2, x = x), log(2, x = x), log(b = 2, x), log(base = x, x = 2),
    log(base = x, x * 2), log(x = x, base = 2), log(x, b = 3), log(x = x), do.call(log, list(base = 2, x = x)), round(digits = 1, x = x),
    log(base = 3, x = x + 1i))) same(call, x = c(1.5, 8, 0.25))
})

test_that("int64 time series are read as numbers", {
  for (call in expression(cbind(x, 1L), cbind(x, y), cbind(y, x), window(x, 2001), lag(x, 1), as.numeric(x)))
    same(call, x = ts(1:3, start = 2000), y = ts(4:6, start = 2001), dtype = "int64")
  same(quote(cbind(x, y)), x = 1:3, y = ts(4:6), dtype = "int64")
  x <- as_gpu(ts(1:3, start = 2000), dtype = "int64", device = "cpu")
  expect_identical(collect(x), ts(c(1, 2, 3), start = 2000))
  expect_identical(cbind(x, 1.5)[, 1L] |> collect(), ts(c(1, 2, 3), start = 2000))
  expect_true(all.equal(x, x))
})

test_that("rare forms of [[ and [[<- read int64 as numbers", {
  for (call in expression(x[[-1]], x[[2, 1, exact = FALSE]], x[[3]], x[["b"]], x[[TRUE]], x[[c(1, 2)]]))
    same(call, x = 1:2, dtype = "int64")
  same(quote(x[[1, 2, exact = FALSE]]), x = matrix(1:4, 2), dtype = "int64")
  changed <- function(x, i, value) {
    x[[i]] <- value
    x
  }
  # Imaginary parts of the elements between are 0 or NA, by the version of R.
  for (value in list(9L, TRUE, NA, 2.5, 2 + 1i)) for (i in list(2, 4L, if (!is.complex(value)) 7, "a", "new", TRUE))
    if (!is.null(i)) same(quote(changed(x, i, value)), changed = changed, i = i, value = value, x = c(a = 1L, b = 2L, c = NA),
      dtype = "int64")
  for (i in list(-1, -3, 0, NA, c(1, 2), list(1)))
    same(quote(changed(x, i, 5L)), changed = changed, i = i, x = 1:2, dtype = "int64")
  same(quote(changed(x, 1, 2 + 1i)), changed = changed, x = integer(), dtype = "int64")
  expect_identical(gpu_dtype(changed(as_gpu(1:3, dtype = "int64", device = "cpu"), 6, 1L)), "int64")
})

test_that("cut() joins intervals with the same label", {
  for (labels in list(c("lo", "mid", "lo"), c("a", "a", "a"), c(1, 2, 2), factor(c("u", "v", "u"))))
    same(quote(cut(x, 0:3, labels = labels)), x = c(1, 2, 3, NA, 0, 2.5), labels = labels)
})

test_that("ifelse() takes operands without elements as NA", {
  for (call in expression(ifelse(x, 1:2, integer()), ifelse(x, c(1, 2), numeric()), ifelse(x, numeric(), numeric()),
    ifelse(x, NULL, 1)))
    for (x in list(c(TRUE, FALSE), c(TRUE, FALSE, NA), matrix(c(FALSE, TRUE), 1))) same(call, x = x)
  x <- as_gpu(c(TRUE, FALSE), device = "cpu")
  expect_identical(collect(ifelse(x, as_gpu(c(1, 2), device = "cpu"), as_gpu(numeric(), device = "cpu"))), c(1, NA))
})

test_that("narrow dtypes have one missing value, which is NA", {
  for (dtype in c("float32", "float16", "bfloat16")) {
    for (call in expression(match(x, c(3, NA)), match(x, c(3, NA, 1:20)), x %in% NA, x %in% c(NA, 7:40),
      table(x, useNA = "always"), table(x), table(x, useNA = "ifany"), length(unique(x)), duplicated(x),
      anyDuplicated(x), tapply(1:4, x, sum), lengths(split(1:4, x)), tapply(x, x, length), length(setdiff(x, NA)),
      names(split(x, x)), rowsum(c(1, 2), x[c(1, 3)]), length(intersect(x, NA))))
      same(call, x = c(1, NA, 3, NA), dtype = dtype)
    expect_identical(dimnames(gpu_group(as_gpu(1:3, device = "cpu"), as_gpu(c(1, NA, 1), dtype = dtype,
      device = "cpu"), "sum")), list("1"))
  }
})

test_that("rbind() and cbind() take one-dimensional arrays beside vectors", {
  for (call in expression(rbind(n = c(2, 2), x), rbind(x, c(2, 2)), cbind(c(2, 2), x), cbind(x, 1), rbind(x, x)))
    same(call, x = array(c(1, 3), 2L, list(c("u", "v"))))
})

test_that("rle() takes int64 with names or of few elements", {
  for (x in list(c(a = 1L, b = 1L, c = 2L), 5L, integer(), c(u = 3L), c(a = NA, b = NA, c = 1L))) {
    r <- rle(as_gpu(x, dtype = "int64", device = "cpu"))
    expect_identical(r$lengths, rle(x)$lengths)
    expect_identical(as.integer(r$values), as.vector(rle(x)$values))
    expect_identical(names(r$values), names(rle(x)$values))
  }
})

test_that("statistics of complex numbers take the real parts with base R's warning", {
  for (call in expression(var(x), sd(x), which.max(x), which.min(x), var(x, 1:3), sd(x, TRUE), xtfrm(x)))
    same(call, x = c(a = 1i, b = 3, c = 2 + 1i))
  same(quote(var(x)), x = matrix(c(1i, 2, 3, 4), 2))
  same(quote(xtfrm(x)), x = c(TRUE, NA, FALSE))
})

test_that("all.equal() compares int64 with ordinary numbers in any order", {
  x <- as_gpu(1:3, dtype = "int64", device = "cpu")
  for (y in list(1:3, c(1, 2, 3), as_gpu(1:3, device = "cpu"), x)) {
    expect_true(all.equal(x, y))
    expect_true(all.equal(y, x))
  }
  expect_identical(all.equal(x, 1:2), all.equal(1:3 + 0, 1:2))
  expect_identical(stack(list(u = x))$values, c(1, 2, 3))
})

test_that("tabulate() takes elements beyond the integers as missing", {
  same(quote(tabulate(x)), x = c(1, 3e9))
  same(quote(tabulate(x)), x = c(1, 2, 2))
})

test_that("as.data.frame() has base R's row and column names", {
  for (names in list(list(c("r", "r"), c("a", "")), list(c("r", NA), NULL), list(NULL, c("", "")),
    list(c("a", "b"), c("u", "v")))) for (call in expression(as.data.frame(x), as.data.frame(x, optional = TRUE),
    as.data.frame(x, row.names = c("p", "q")))) same(call, x = matrix(1:4, 2, dimnames = names))
  for (x in list(integer(), c(a = 1, a = 2), c(a = 1, b = 2), numeric(0))) same(quote(as.data.frame(x)), x = x)
  same(quote(as.data.frame(x)), x = matrix(1, 0, 2, dimnames = list(NULL, c("a", "b"))))
})

test_that("cbind() beside a data frame names columns by expressions", {
  for (call in expression(cbind(x * 2, d), cbind(d, x * 2), cbind(x, d), cbind(I(x), d), cbind(a = x, d, x + 1),
    cbind(x[1:2], b = 1, d), cbind(matrix(x, 2), d), cbind(d, x * 2, deparse.level = 0), rbind(d, x[1])))
    same(call, x = c(3, 4), d = data.frame(v = 1:2))
  for (call in expression(rbind(x, d), rbind(d, x), rbind(a = x, d), rbind(x * 2, d), rbind(d, b = x)))
    same(call, x = c(3, 4), d = data.frame(v = 1:2, w = 3:4))
})

test_that("apply() keeps the names of axes", {
  names <- list(list(a = NULL, b = NULL), list(a = c("p", "q"), b = NULL), list(a = NULL, b = c("x", "y", "z", "w")),
    list(c("p", "q"), c("x", "y", "z", "w")), NULL)
  for (dimnames in names) for (call in expression(apply(x, 1, function(r) r[3:4] + 1), apply(x, 2, range),
    apply(x, 1, range), apply(x, 2, function(r) sum(r)), apply(x, 1, function(r) c(sum(r))), apply(x, 1, sum)))
    same(call, x = matrix(as.double(1:8), 2, dimnames = dimnames))
})

test_that("asplit() keeps the names of axes", {
  for (names in list(NULL, list(c("a", "b"), NULL), list(u = c("a", "b"), v = NULL), list(NULL, c("x", "y", "z"))))
    for (margin in 1:2) same(quote(asplit(x, margin)), x = matrix(1:6, 2, dimnames = names), margin = margin)
  for (names in list(list(NULL, c("a", "b"), NULL), list(p = NULL, q = NULL, r = c("u", "v"))))
    for (margin in list(1, 2, 3, 1:2))
      same(quote(asplit(x, margin)), x = array(1:8, c(2, 2, 2), names), margin = margin)
})

test_that("functions that run on the device return base R's vectors", {
  settings <- asNamespace("verdigris")$settings
  settings$force_device_path <- TRUE
  on.exit(settings$force_device_path <- FALSE)
  big <- .Machine$integer.max
  names <- list(list(a = NULL, b = NULL), list(a = c("p", "q"), b = NULL), list(a = NULL, b = c("x", "y", "z", "w")),
    list(c("p", "q"), c("x", "y", "z", "w")), NULL)
  for (dimnames in names) for (call in expression(apply(x, 1, function(r) r[3:4] + 1), apply(x, 2, range),
    apply(x, 2, function(r) sum(r)), apply(x, 1, function(r) c(sum(r))), apply(x, 1, function(r) r[2])))
    same(call, x = matrix(as.double(1:8), 2, dimnames = dimnames))
  for (call in expression(sapply(x, function(v) c(v)), sapply(x, function(v) c(v, 1)), vapply(x, function(v) c(v), 1L),
    mapply(function(a, b) c(a), x, 1:3), sapply(x, function(v) sum(v, 5L)), mapply(function(v) sum(v, 5L), x),
    tapply(x, c(1, 1, 2), function(v) sum(v)), sapply(x, function(v) v + 1L)))
    same(call, x = c(a = big, b = 1L, c = 2L))
  for (call in expression(sapply(sqrt(x), function(v) v + 1), sapply(sqrt(x), function(v) sum(v, 1))))
    same(call, x = c(-1, 4, 9))
  same(quote(apply(x, 1, function(r) sum(r))), x = matrix(c(big, 1L, 2L, 3L), 2))
})

test_that("compiled functions match further arguments as R does", {
  f <- gpu_compile(function(v, w) v + sum(w))
  x <- as_gpu(c(1, 2, 3), device = "cpu")
  expect_identical(collect(sapply(x, f, c(1, 2, 3))), c(7, 8, 9))
  expect_identical(collect(sapply(x, f, w = c(1, 2))), c(4, 5, 6))
  expect_identical(collect(gpu_map(function(v, w) v + sum(w), x, MoreArgs = list(c(1, 2, 3)))), c(7, 8, 9))
  expect_identical(collect(gpu_map(function(v, weights) v + sum(weights), x, MoreArgs = list(w = 1:3))), c(7, 8, 9))
  expect_identical(collect(gpu_map(function(v, m) v + m[1, 1], x, MoreArgs = list(m = matrix(5)))), c(6, 7, 8))
  expect_identical(collect(sapply(x, function(v, w) v + sum(w), c(1, 2, 3))), c(7, 8, 9))
  expect_error(gpu_map(function(x, ...) sum(x, ...), x, 5), class = "verdigris_error_argument")
  expect_error(gpu_compile(function(x, ...) sum(x, ...))(x, 5), class = "verdigris_error_argument")
  expect_identical(collect(gpu_map(function(x, ...) sum(x, ...), x)), c(1, 2, 3))
  expect_error(gpu_map(function(x, y = 5) x + y, x, NULL), class = "verdigris_error_argument")
  expect_error(gpu_map(function(x, y = 5) x + y, x, y = NULL), class = "verdigris_error_argument")
  expect_error(gpu_compile(function(x, y = 5) x + y)(x, NULL), class = "verdigris_error_argument")
  expect_identical(collect(gpu_map(function(x, y = 5) x + y, x)), c(6, 7, 8))
})
