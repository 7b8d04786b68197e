# Attributes, names and dtypes that assignments, transposition and conversions keep.

test_that("attributes are kept where base R keeps them", {
  # as_gpu() takes shape, names and time alone: what else there is comes afterwards
  marked <- function(v) {
    attr(v, "u") <- "x"
    v
  }
  inputs <- list(
    vector = list(c(a = 1, b = 2), marked), plain = list(c(3, 1, 2), marked),
      matrix = list(base::matrix(c(1, 4, 2, 8), 2, dimnames = list(c("r", "s"), NULL)), marked),
    named = list(base::matrix(1:4, 2), function(v) { names(v) <- letters[1:4]; v }),
      scaled = list(base::matrix(c(1, 2, 3, 5), 2), scale),
    single = list(base::array(1:3, 3, list(p = c("x", "y", "z"))), marked), series = list(ts(c(1, 2, 4), start = 2000),
      marked)
  )
  calls <- list(
    t = t, negative = function(x) -x, sqrt = sqrt, round = round, cumsum = cumsum, rev = rev, head = function(x)
      head(x, 1L), part = function(x) x[1], all = function(x) x[],
    number = function(x) { x[2] <- 9L; x }, numbers = function(x) { x[c(1, 2)] <- 7L; x }, element = function(x)
      { x[[1]] <- 3L; x }, mask = function(x) { x[x > 1] <- 0L; x }, none = function(x) { x[0] <- 1L; x },
    row = function(x) { if (length(dim(x)) == 2L) x[1, ] <- 0L; x }, storage = function(x)
      { storage.mode(x) <- "double"; x }, mode = function(x) { mode(x) <- "integer"; x }
  )
  for (kept in names(inputs)) for (call in names(calls))
    expect_all_same(compare(calls[[call]], inputs[[kept]][1L], what = paste(call, kept), before = inputs[[kept]][[2L]]))
})

test_that("nothing assigned to nothing leaves nothing", {
  for (type in c("double", "integer", "logical")) for (value in list(numeric(), integer(), logical()))
    for (at in list(FALSE, c(FALSE, NA), integer(), TRUE, 1L)) {
    expect_all_same(compare(function(x) { x[at] <- value; x }, list(vector(type, 0L)), what = paste(type, typeof(value),
      deparse1(at))))
  }
})

test_that("an array keeps its dtype where the value fits", {
  assigned <- function(dtype, value, x = c(1L, 2L, 3L)) {
    x <- gpu(x, dtype)
    x[2] <- value
    list(gpu_dtype(x), as.vector(x))
  }
  for (dtype in c("int8", "uint8", "int16")) {
    expect_identical(assigned(dtype, 100L), list(dtype, c(1L, 100L, 3L)))
    expect_identical(assigned(dtype, TRUE), list(dtype, c(1L, 1L, 3L)))
    expect_identical(assigned(dtype, 70000L), list("int32", c(1L, 70000L, 3L)))
    expect_identical(assigned(dtype, 1.5), list("float64", c(1, 1.5, 3)))
    expect_identical(assigned(dtype, NA), list(if (dtype == "uint8") "int32" else dtype, c(1L, NA, 3L)))
    # another array has a dtype of its own
    expect_identical(assigned(dtype, gpu(5L))[[1L]], "int32")
    m <- gpu(matrix(1:4, 2), dtype)
    m[1, ] <- c(7L, 8L)
    m[[2, 2]] <- 9L
    expect_identical(list(gpu_dtype(m), as.vector(m)), list(dtype, c(7L, 2L, 8L, 9L)))
  }
  expect_identical(assigned("int8", c(-128L))[[1L]], "int32")
  expect_identical(assigned("float32", 0.5)[[1L]], "float32")
  expect_identical(assigned("int64", 5L)[[1L]], "int64")
})

test_that("modes that no array has give ordinary vectors", {
  for (mode in c("character", "list", "raw", "double", "integer", "logical", "complex", "numeric"))
    for (x in list(c(a = 1, b = 0), matrix(0:3, 2), c(TRUE, FALSE))) {
    expect_all_same(compare(function(x) { mode(x) <- mode; x }, list(x), what = paste("mode", mode)))
    if (mode != "list") expect_all_same(compare(function(x) { storage.mode(x) <- mode; x }, list(x),
      what = paste("storage.mode", mode)))
  }
  x <- gpu(c(1.5, 2))
  mode(x) <- "character"
  expect_identical(x, c("1.5", "2"))
  expect_error(storage.mode(x) <- "nonsense")
  host <- 1:3
  storage.mode(host) <- "double"
  expect_identical(host, c(1, 2, 3))
})

test_that("what is written out by deparse() and dput() comes back", {
  for (x in list(c(1, 2), c(a = 1L, b = NA), matrix(c(TRUE, FALSE, NA, TRUE), 2), 1i)) {
    expect_identical(as.vector(as_gpu(eval(parse(text = deparse(gpu(x)))))), as.vector(x))
    expect_identical(as.vector(as_gpu(eval(parse(text = capture.output(dput(gpu(x))))))), as.vector(x))
  }
  expect_identical(deparse(quote(a + b)), "a + b")
})

test_that("draws of no length are none", {
  expect_length(gpu_rnorm(numeric(), device = test_device), 0L)
  expect_length(gpu_runif(integer(), device = test_device), 0L)
})

test_that("classes that a user puts in front stay where base R keeps a class", {
  mine <- function(v) {
    class(v) <- c("mine", class(v))
    v
  }
  inputs <- list(vector = c(3, 1, 2), named = c(a = 1, b = 2, c = 3), matrix = base::matrix(c(1, 4, 2, 8, 5, 7), 3,
    dimnames = list(NULL, c("u", "v"))), one = 2)
  calls <- list(
    arithmetic = function(x) list(x + 1, 2 - x, x * x, -x, +x, x %% 2, x^2), other = function(x) x + 1:3,
    beside = function(x) list(x + unclass(x), unclass(x) * x), math = function(x) list(sqrt(x), exp(x), round(x, 1),
      abs(x), log(x), floor(x), gamma(x)), comparison = function(x) list(x > 1, x == x, !x, is.na(x), x & TRUE),
    part = function(x) list(x[1], x[-1], x[x > 1], rev(x), sort(x), head(x, 1L), c(x, 1), rep(x, 2), unique(x), x[]),
    number = function(x) { x[1] <- 9; x }, mask = function(x) { x[x > 1] <- 0; x }, element = function(x)
      { x[[1]] <- 5; x }, beyond = function(x) { x[length(x) + 2L] <- 5; x }, name = function(x) { x[["z"]] <- 5; x },
    names = function(x) { names(x) <- letters[seq_along(x)]; x }, attribute = function(x) { attr(x, "u") <- "m"; x },
    chain = function(x) { x <- x * 2; x[1] <- 0; x <- sqrt(x + 1); attr(x, "u") <- "m"; x - 1 },
    storage = function(x) { storage.mode(x) <- "double"; x }, diff = diff, ifelse = function(x) ifelse(x > 1, x, 0),
    column = function(x) data.frame(x = x[1:2], y = 1:2), again = function(x) mine(x + 1) + 1,
    removed = function(x) { class(x) <- setdiff(class(x), "mine"); x + 1 }, sum = function(x) list(sum(x), mean(x)),
    extremes = function(x) list(pmax(x, 2), pmin(x, 2))
  )
  for (kept in names(inputs)) for (call in setdiff(names(calls), if (kept == "matrix") c("beyond", "name", "names", "removed")))
    expect_all_same(compare(calls[[call]], unname(inputs[kept]), what = paste(call, kept), before = mine))
  # base R's class attribute tells the old shape
  for (call in list(t, function(x) { dim(x) <- c(3, 2); x }))
    expect_true(inherits(call(mine(gpu(base::matrix(1:6, 2)))), "mine"))
  series <- mine(gpu(ts(c(1, 2, 4), start = 2000)))
  expect_identical(class(series + 1)[1:2], c("mine", "gpu_ts"))
})

test_that("dates, times and factors in front of an array's class are sorted, unique and keys as in base R", {
  # without the names of R's vector types, which class() of a host vector has and a date has not
  alone <- function(v) {
    if (is.list(v)) v[] <- lapply(v, alone) else if (inherits(v, c("Date", "POSIXct", "difftime", "factor")))
      class(v) <- setdiff(class(v), c("numeric", "integer"))
    v
  }
  inputs <- list(
    Date = list(c(18001, 18000, NA, 18001), class = "Date"), one = list(18001, class = "Date"),
    POSIXct = list(c(1.6e9, 1.5e9, NA, 1.6e9), class = c("POSIXct", "POSIXt"), tzone = "UTC"),
    difftime = list(c(2, 1, NA, 2), class = "difftime", units = "hours"),
    factor = list(c(2L, 1L, NA, 2L), class = "factor", levels = c("b", "a")))
  calls <- list(sort = sort, decreasing = function(x) sort(x, decreasing = TRUE, na.last = TRUE),
    unique = function(x) if (inherits(x, "difftime")) NULL else unique(x),
    last = function(x) if (inherits(x, "difftime")) NULL else unique(x, fromLast = TRUE),
    factor = function(x) factor(x), split = function(x) split(seq_along(x), x),
    tapply = function(x) tapply(seq_along(x), x, sum),
    aggregate = function(x) if (!is.factor(x)) aggregate(seq_along(x), list(k = as.vector(match(x, unique(x)))), sum))
  for (kind in names(inputs)) for (call in names(calls)) {
    given <- inputs[[kind]]
    fronted <- function(v) {
      for (name in setdiff(names(given), c("", "class"))) attr(v, name) <- given[[name]]
      class(v) <- c(given$class, if (is_gpu(v)) class(v))
      v
    }
    expect_all_same(compare(function(x) alone(collect(calls[[call]](x))), given[1L], what = paste(call, kind),
      before = fronted))
  }
})

test_that("sort() takes the `[` of a user's class, and fft() keeps the class", {
  registerS3method("[", "verdigris_sorted", function(x, i) structure(NextMethod(), from = "mine"))
  mine <- function(v) structure(v, class = c("verdigris_sorted", class(v)))
  expect_all_same(compare(sort, list(c(4, 1, 9)), before = mine))
  for (shape in list(3L, c(3L, 1L))) for (call in list(fft, if (length(shape) == 2L) mvfft)) if (!is.null(call)) {
    x <- base::array(c(4, 1, 9), shape)
    if (length(shape) == 1L) dim(x) <- NULL
    got <- call(structure(gpu(x), class = c("mine", class(gpu(x)))))
    want <- call(structure(x, class = "mine"))
    expect_true(is_gpu(got) && inherits(got, "mine") && inherits(want, "mine"))
    expect_equal(unclass(collect(got)), unclass(want))
  }
})

test_that("methods of a user's class and of arrays follow each other", {
  registered <- c(`[.verdigris_kept` = function(x, i) structure(NextMethod(), from = "mine"),
    Math.verdigris_kept = function(x, ...) structure(NextMethod(), by = .Generic))
  for (name in names(registered)) {
    generic <- sub("\\..*", "", name)
    registerS3method(generic, "verdigris_kept", registered[[name]])
  }
  calls <- list(part = function(x) x[2:3], math = function(x) sqrt(x), both = function(x) exp(x)[1])
  for (call in names(calls)) expect_all_same(compare(calls[[call]], list(c(1, 4, 9)), what = call,
    before = function(v) { class(v) <- c("verdigris_kept", class(v)); v }))
})
