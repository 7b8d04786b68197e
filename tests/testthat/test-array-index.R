# Subsetting: the same values, types, names, dimnames and errors as base R.

# x[...] of an array and of a host vector; arrays among the subscripts become host vectors there.
same_subset <- function(x, ..., drop = NULL, what = NULL) {
  dots <- as.list(substitute(list(...)))[-1L]
  dots <- lapply(dots, function(i) if (identical(i, quote(expr = ))) i else eval(i, parent.frame(3L)))
  take <- function(v, on_host) {
    subscripts <- lapply(dots, function(i) if (on_host && !identical(i, quote(expr = )) && is_gpu(i)) collect(i) else i)
    as.call(c(list(as.name("["), v), subscripts, if (!is.null(drop)) list(drop = drop)))
  }
  cases$n <- cases$n + 1L
  want <- outcome(eval(take(x, TRUE)))
  got <- outcome(eval(take(gpu(x), FALSE)))
  said <- difference(got$value, want$value)
  if (is.null(said) && !identical(got$warnings, want$warnings))
    said <- sprintf("warnings {%s} are not {%s}", toString(got$warnings), toString(want$warnings))
  if (is.null(said)) NULL else paste0(what %||% paste(deparse(substitute(list(...))), collapse = ""), " of ",
    deparse1(head(x, 3)), ": ", said)
}

vector_subscripts <- list(
  2, 2L, c(1, 3, 3), c(5L, 1L), -1, c(-1, -3), -10, 0, c(0, 2), c(0L, -1L), integer(), NULL, NA, NA_integer_,
    c(1, NA, 3), c(2.9, 1.1), -1.5,
  TRUE, FALSE, c(TRUE, FALSE), c(TRUE, NA, FALSE), c(TRUE, FALSE, TRUE, FALSE, TRUE, TRUE), logical(), 7, c(1, 9), 1:3,
    3:1, 5:1, c(1, 3, 5), 2^31,
  c(-1, 1), c(-1, NA), "b", c("a", "e", "a"), "z", c("b", NA), factor(c("b", "a")), matrix(1:4, 2), 1i, list(1), Inf,
    c(TRUE, rep(NA, 8)))

test_that("vectors are subset as in base R", {
  found <- list()
  for (type in names(edges)) {
    x <- values(type, 5L)
    for (v in list(x, setNames(x, letters[1:5]), x[0], matrix(values(type, 12L), 3L),
      array(values(type, 8L), c(2L, 2L, 2L)))) {
      for (i in vector_subscripts) found <- c(found, same_subset(v, i, what = paste0("[", deparse1(i), "]")))
      found <- c(found, same_subset(v, what = "[]"))
    }
  }
  expect_all_same(found)
})

test_that("arrays serve as subscripts", {
  found <- list()
  x <- setNames(values("double", 9L), letters[1:9])
  m <- matrix(values("double", 12L), 3L, dimnames = list(letters[1:3], NULL))
  for (i in list(gpu(c(2, 5)), gpu(c(9L, 1L)), gpu(c(TRUE, FALSE, NA)), gpu(-1), gpu(c(0, 3)), gpu(c(1, NA)),
    gpu(c(1, 30)), gpu(logical()), gpu(c(-1, 2)),
                 gpu(2L, "int8"), gpu(c(1.7, 2.2)))) {
    found <- c(found, same_subset(x, i, what = "array subscript"))
    found <- c(found, same_subset(m, i, what = "array subscript of a matrix"))
    found <- c(found, same_subset(m, i, , what = "array row subscript"))
  }
  compared <- gpu(x) > 0
  expect_identical(collect(gpu(x)[compared]), x[x > 0])
  expect_identical(collect(gpu(x)[gpu(bit64::as.integer64(c(3, 1)))]), x[c(3, 1)])
  expect_all_same(found)
})

test_that("matrices are subset as in base R", {
  found <- list()
  rows <- list(1, 1:2, 2:3, c(3, 1), -1, 0, integer(), c(TRUE, FALSE, TRUE), TRUE, NA, c(1, NA), 4, "b", c("c", "a"),
    "z", c(TRUE, FALSE, TRUE, TRUE), NULL,
               factor("b"), c(1.9, 2), c(-1, 2))
  for (type in c("double", "integer", "logical", "complex")) {
    plain <- matrix(values(type, 12L), 3L)
    for (m in list(plain, `dimnames<-`(plain, list(letters[1:3], LETTERS[1:4])),
      `dimnames<-`(plain, list(NULL, LETTERS[1:4])),
                   `dimnames<-`(plain, list(rows = letters[1:3], columns = NULL)),
                     `dimnames<-`(plain, list(r = letters[1:3], c = LETTERS[1:4])))) {
      for (i in rows) {
        what <- paste0("[", deparse1(i), ", ]")
        found <- c(found, same_subset(m, i, , what = what), same_subset(m, i, , drop = FALSE,
          what = paste(what, "drop = FALSE")),
                   same_subset(m, i, 2:3, what = paste(what, "2:3")), same_subset(m, i, 2, what = paste(what, "2")),
                   same_subset(m, i, 2, drop = FALSE, what = paste(what, "2, drop = FALSE")))
      }
      found <- c(found, same_subset(m, , 2, what = "[, 2]"), same_subset(m, , -1, what = "[, -1]"),
        same_subset(m, , , what = "[, ]"),
                 same_subset(m, , 5, what = "[, 5]"), same_subset(m, 1, 1, 1, what = "[1, 1, 1]"),
                   same_subset(m, , "B", what = "[, 'B']"),
                 same_subset(m, 2, 3, what = "[2, 3]"), same_subset(m, , drop = FALSE, what = "[, drop = FALSE]"))
    }
  }
  expect_all_same(found)
})

test_that("arrays of one and three dimensions are subset as in base R", {
  found <- list()
  a <- array(values("double", 24L), c(2L, 3L, 4L))
  named <- a
  dimnames(named) <- list(letters[1:2], NULL, d = LETTERS[1:4])
  one <- array(values("integer", 4L), 4L, list(letters[1:4]))
  for (x in list(a, named)) {
    found <- c(found, same_subset(x, 1, , ), same_subset(x, , 2, ), same_subset(x, , , 3), same_subset(x, 1, 2, ),
      same_subset(x, 1, 2, 3),
               same_subset(x, 1, 2, 3, drop = FALSE), same_subset(x, -1, 2:3, c(TRUE, FALSE)), same_subset(x, , , -1),
                 same_subset(x, 1, 1),
               same_subset(x, 0, , ), same_subset(x, 3, , ), same_subset(x, c(2, 1), , 4:1),
                 same_subset(x, , 2, , drop = FALSE), same_subset(x, 5))
  }
  found <- c(found, same_subset(one, 2), same_subset(one, 2:3), same_subset(one, "b"),
    same_subset(one, 2, drop = FALSE), same_subset(one, -1),
             same_subset(one, integer()), same_subset(array(1:3, 3L), 2:3), same_subset(one, 5))
  expect_all_same(found)
})

test_that("index matrices are taken as in base R", {
  found <- list()
  m <- matrix(values("double", 12L), 3L, dimnames = list(letters[1:3], LETTERS[1:4]))
  for (i in list(cbind(1:3, c(1, 4, 2)), cbind(c(1, NA), 1:2), cbind(c(0, 2), c(1, 1)), cbind(4, 1), cbind(-1, 1),
    matrix(0, 0, 2), cbind("a", "B"),
                 cbind(c("a", "c"), c("D", "A")), cbind("z", "A"), cbind(1, 1, 1), m > 0, cbind(TRUE, FALSE))) {
    found <- c(found, same_subset(m, i, what = deparse1(i)))
  }
  expect_all_same(found)
})

test_that("subscripts are the caller's, as in base R", {
  passed <- function(v, ...) v[...]
  preset <- function(v, i = 2) v[i, ]
  calls <- list(
    dots = function(v) passed(v, 2), "dots of two" = function(v) passed(v, 1, 2), "an empty one in dots" = function(v)
      passed(v, 1, ), "drop in dots" = function(v) passed(v, 1, , drop = FALSE),
    "no dots" = function(v) passed(v), lapply = function(v)
      lapply(list(v, v), `[`, 2)[[2L]], "lapply with drop" = function(v) lapply(list(v), `[`, 1, 2, drop = FALSE)[[1L]],
    preset = function(v) preset(v),
    "names of arguments" = function(v) v[j = 1, i = 2], "one name" = function(v) v[1, i = 2], exact = function(v)
      v[2, 1, exact = TRUE], "drop first" = function(v) v[drop = FALSE, 1, ],
    "drop NA" = function(v) v[1, , drop = NA], "drop 0" = function(v) v[1, , drop = 0], "drop a string" = function(v)
      v[1, , drop = "F"], prefix = function(v) `[`(v, 2, 3), "x by name" = function(v) `[`(x = v, 2, 3),
    do.call = function(v) do.call(`[`, list(v, 2:1, 3)), "do.call of an empty one" = function(v)
      do.call(`[`, alist(v, , 3)), "twice" = function(v) { n <- 0; w <- v[n <- n + 1, ]; c(n, w[1]) },
    "[[ of dots" = function(v) (function(...) v[[...]])(2, 3), "[[ by name" = function(v)
      v[[i = 2]], "[[ exact" = function(v) v[[2, exact = FALSE]],
    assign = function(v) (function(...) { v[...] <- 0; v })(2, 3), "assign prefix" = function(v)
      `[<-`(v, 2, 9), "assign two" = function(v) `[<-`(v, 2, 3, value = 9),
    "assign once" = function(v) { n <- 0; v[n <- n + 1, 2] <- 5; c(n, v[1:4]) }, "assign a name" = function(v)
      { v["b", ] <- 1; v }
  )
  found <- list()
  plain <- matrix(values("double", 12L), 3L)
  for (m in list(plain, `dimnames<-`(plain, list(letters[1:3], LETTERS[1:4])))) {
    for (name in names(calls)) found <- c(found, compare(calls[[name]], list(m), what = name))
  }
  found <- c(found, compare(function(v) v[1, 2, , drop = FALSE], list(array(1:24 + 0, 2:4)), what = "drop of three"))
  expect_all_same(found)
})

test_that("[[ agrees with base R", {
  found <- list()
  x <- setNames(values("double", 5L), letters[1:5])
  m <- matrix(values("integer", 12L), 3L, dimnames = list(letters[1:3], NULL))
  for (i in list(1, 3L, 5, 0, 6, -1, "b", "z", NA, TRUE, c(1, 2), integer(), NULL, 2.7, 1i, list(1), NA_integer_)) {
    what <- deparse1(i)
    found <- c(found, compare(function(v) v[[i]], list(x), what = paste("x", what)),
      compare(function(v) v[[i]], list(unname(x)), what = paste("unnamed x", what)),
               compare(function(v) v[[i]], list(m), what = paste("m", what)))
    # (what base R 4.5 makes of m[[-1, 2]] changes from call to call)
    if (!identical(i, -1)) found <- c(found, compare(function(v) v[[i, 2]], list(m), what = paste("m, 2", what)))
  }
  found <- c(found, compare(function(v) v[[-1]], list(c(1, 2)), what = "[[-1]] of two"),
    compare(function(v) v[[1, 2, 3]], list(m), what = "three subscripts"))
  expect_all_same(found)
})

test_that("subsetting keeps the dtype and stays on the device", {
  x <- gpu(c(1, 2, 3), "float32")
  expect_identical(gpu_dtype(x[2:3]), "float32")
  expect_identical(gpu_dtype(x[c(TRUE, FALSE, NA)]), "float32")
  expect_identical(gpu_device(x[2]), test_device)
  big <- gpu(bit64::as.integer64("9007199254740993"))
  expect_identical(as.character(collect(big[c(1, 1)])), rep("9007199254740993", 2L))
})

test_that("the subsets are as many as they were", {
  expect_cases(2000L)
})

test_that("subscripts may be arguments that the caller has not got", {
  skip_on_cran()
  # in an R of its own: where a package has S4 methods of `[`, as Matrix has, R evaluates the subscripts before any
  # method sees them
  said <- in_new_r(
    "m <- matrix(1:12 + 0, 3L)", "a <- array(1:24 + 0, 2:4)", sprintf('up <- function(v) as_gpu(v, device = "%s")',
      test_device),
    "rows <- function(v, i, j, ...) v[i, j, ...]", "third <- function(v, k) v[1, 2, k]",
      "put <- function(v, i) { v[i, 2] <- 0; v }",
    "same <- function(f, v = m) identical(as.array(f(up(v))), as.array(f(v)))",
    "cat(same(function(v) rows(v, , 2)), same(function(v) rows(v, 2)), same(function(v) rows(v)), same(function(v) rows(v, 2, drop = FALSE)), same(put), same(third, a))"
  )
  expect_identical(utils::tail(said, 1L), "TRUE TRUE TRUE TRUE TRUE TRUE")
})

test_that("rows of an index matrix count by their whole parts", {
  expect_all_same(compare(function(m, i) m[i], list(matrix(1:6, 2), list(matrix(c(1.9, 2.2, 0.5, 3.7, 1, 2), 3))),
    what = "fractions"))
  # the first that is 0 or NA decides
  for (i in list(cbind(NaN, 0), cbind(0, NA), cbind(NA, -0.5), cbind(c(0, NA, 2), c(NA, 0, 1))))
    expect_all_same(compare(function(m, i) m[i], list(matrix(1:6, 2), list(i)), what = deparse1(i)))
})

test_that("elements that are asked for one by one come without the array being read", {
  withr::local_options(verdigris.host_access = "error")
  set.seed(3)
  for (dtype in c("float64", "float32", "int32", "bool8", "complex128")) {
    x <- switch(dtype, int32 = sample.int(50000L), bool8 = runif(50000) > 0.5,
      complex128 = complex(real = rnorm(50000)), rnorm(50000))
    y <- gpu(x, dtype)
    host <- collect(y)
    at <- c(1, 50000, sample.int(50000L, 40L), 40000:40010, 2.7)
    expect_identical(lapply(at, function(k) y[[k]]), lapply(at, function(k) host[[k]]))
  }
  z <- gpu(1:3) + 1L
  expect_identical(z[[2]], 3L)
  expect_error(z[[4]], "subscript out of bounds")
})

test_that("columns of a time series keep its time", {
  m <- ts(matrix(c(1, 4, 2, 8, 5, 7), 3, dimnames = list(NULL, c("a", "b"))), start = 5)
  expect_all_same(c(compare(function(m) m[, 2], list(m), what = "one column"), compare(function(m) m[, 2:1], list(m),
    what = "columns"), compare(function(m) cbind(m, 1), list(m), what = "cbind"), compare(function(m)
    cbind(m, k = m[, 1]), list(m), what = "cbind of two")))
})

test_that("assignment to windows that overlap in memory changes the elements that it names", {
  composed({
    x <- embed(gpu(c(1, 2, 3, 4, 5)), 2)
    # until the view is all that holds the memory
    for (k in 1:2) gc()
    host <- embed(c(1, 2, 3, 4, 5), 2)
    x[2, 1] <- 99
    host[2, 1] <- 99
    expect_identical(collect(x), host)
    x <- embed(gpu(c(1, 2, 3, 4, 5)), 2)
    for (k in 1:2) gc()
    host <- embed(c(1, 2, 3, 4, 5), 2)
    x[2:3, ] <- 99
    host[2:3, ] <- 99
    expect_identical(collect(x), host)
  })
})

test_that("`[[` and `[[<-` by name are those by the element's number, and base R's otherwise", {
  h <- c(b = 1, a = 2)
  calls <- list(function(v) v[["a"]], function(v) v[["z"]], function(v) v[[NA_character_]], function(v) v[[""]],
    function(v) v[["a", exact = FALSE]], function(v) v[[c("a", "b")]], function(v) v[[factor("a")]],
    function(v) {
      v[["a"]] <- 5
      v
    }, function(v) {
      v[["z"]] <- 5
      v
    }, function(v) {
      v[["NA"]] <- 5
      v
    }, function(v) {
      v[["a"]] <- 1:2
      v
    }, function(v) {
      w <- v
      w[["a"]] <- 9
      c(v[["a"]], w[["a"]])
    }, function(v) `[[<-`(v, "a", 3), function(v) {
      a <- array(v, 2L, list(c("b", "a")))
      a[["a"]] <- 7
      a
    })
  run <- function(f, v) tryCatch({
    value <- f(v)
    if (is_gpu(value)) collect(value) else value
  }, error = conditionMessage)
  for (f in calls) {
    cases$n <- cases$n + 1L
    expect_identical(run(f, gpu(h)), run(f, h), label = deparse1(body(f)))
  }
  # as by number, an element is written in place
  x <- gpu(stats::setNames(numeric(1e6), c("a", paste0("n", 2:1e6))))
  invisible(sum(x))
  before <- .Call(verdigris:::C_live)[[3L]]
  for (k in 1:10) x[["a"]] <- k
  expect_lt(.Call(verdigris:::C_live)[[3L]] - before, 1e6)
  expect_identical(x[["a"]], 10)
})
