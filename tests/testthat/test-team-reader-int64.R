# Readers of 64-bit integers, against the array of the same elements in memory.

withr::local_options(verdigris.device = test_device)

int64 <- function(x, device = test_device) gpu_cast(as_gpu(x, device = device), "int64")
samples <- function() {
  set.seed(57)
  far <- int64(2^60)
  list(
    small = int64(sample(c(-40:40, NA), 150, TRUE)), known = int64(sample(-3:60, 130, TRUE)), ties = int64(rep(7, 90)),
    # that differ beyond a double's digits
    large = int64(sample(c(0:30, NA), 140, TRUE)) + far,
    signs = (int64(sample(1:90, 120, TRUE)) + far) * rep(c(1L, -1L), 60), mixed = c(int64(1:60), int64(3:1) + far, int64(NA_real_)), none = int64(numeric()), one = int64(5),
    missing = int64(rep(NA_real_, 40))
  )
}
on_device <- function(x) as_gpu(x, device = test_device)
# An array as one block, a file and a function by several.
readers <- function(v, env = parent.frame()) {
  host <- collect(v)
  path <- raw_file(unclass(host), env = env)
  c(list(gpu_reader(v), gpu_reader(path, dtype = "int64", memory = 3 * 8 * 29)), if (length(v))
    list(gpu_reader(function(rows) as_gpu(v[rows], device = "cpu"), dim = length(v), memory = 3 * 8 * 60)))
}

# The value as R has it, and what has been said meanwhile.
said <- function(expr) {
  told <- character()
  value <- withCallingHandlers(tryCatch({
    v <- expr
    looked_at(if (is_remote(v)) collect(v) else v)
  }, error = function(e) e), warning = function(w) {
    told <<- c(told, paste(class(w)[1L], conditionMessage(w)))
    tryInvokeRestart("muffleWarning")
  })
  if (inherits(value, "error")) return(list(error = sub("^.*\\n", "", conditionMessage(value)), told = unique(told)))
  list(value = value, told = unique(told))
}
is_remote <- function(x) inherits(x, c("gpu_array", "gpu_reader"))
expect_as_array <- function(calls, values = samples(), equal = character()) {
  for (name in names(values)) for (x in readers(values[[name]])) for (call in calls) {
    cases$n <- cases$n + 1L
    want <- said(eval(call, list(x = values[[name]]), globalenv()))
    got <- said(eval(call, list(x = x), globalenv()))
    label <- paste(deparse1(call), "of", name, "as", format(x))
    # the limit of no elements is no 64-bit integer that is lost
    want$told <- want$told[!(grepl("^verdigris", want$told) & length(want$told) > 1L & !length(stats::na.omit(
      want$value)))]
    if (as.character(call[[1L]]) %in% equal) expect_equal(got, want, label = label, tolerance = 1e-12) else
      expect_identical(got, want, label = label)
  }
}

test_that("sums, ranges and means have the array's values, types and warnings", {
  values <- samples()
  values <- values[!names(values) %in% c("none", "missing")]
  expect_as_array(alist(sum(x), sum(x, na.rm = TRUE), min(x), max(x), range(x), min(x, na.rm = TRUE),
    max(x, na.rm = TRUE), range(x, na.rm = TRUE), any(x), all(x), any(x, na.rm = TRUE), prod(x), mean(x),
    mean(x, na.rm = TRUE), var(x), sd(x), var(x, na.rm = TRUE), sum(x > 3, na.rm = TRUE), sum(is.na(x)),
    sum(x + 1L, na.rm = TRUE), max(-x, na.rm = TRUE)), values,
    c("prod", "mean", "var", "sd"))
  none <- readers(int64(numeric()))[[1L]]
  expect_identical(list(sum(none), prod(none), any(none), all(none), mean(none)), list(0, 1, FALSE, TRUE, NaN))
  expect_identical(suppressWarnings(c(min(none), max(none), range(none))), c(Inf, -Inf, Inf, -Inf))
  expect_identical(suppressWarnings(max(readers(int64(NA_real_))[[1L]], na.rm = TRUE)), -Inf)
})

test_that("a sum overflows where the whole does", {
  top <- int64(2^62)
  for (v in list(c(top, top, -top, int64(5)), c(-top, -top, int64(rep(1, 40)), top), c(top, top - 1L, int64(1)),
    c(-top, -top, int64(1)), c(top, top, int64(0)))) {
    for (x in readers(v)) {
      expect_identical(said(sum(x)), said(sum(v)))
      expect_identical(said(cumsum(x)), said(cumsum(v)))
    }
    m <- v
    dim(m) <- c(length(v), 1L)
    y <- gpu_reader(m, memory = blocks_of_rows(2, 1))
    expect_identical(said(colSums(y)), said(colSums(m)))
    expect_identical(said(rowsum(y, rep(1, length(v)))), said(rowsum(m, rep(1, length(v)))))
  }
})

test_that("running values are the array's, and readers", {
  expect_as_array(alist(cumsum(x), cummax(x), cummin(x), cumprod(x), cumsum(x + 1L), cummax(-x), cumsum(abs(x))),
    equal = "cumprod")
  x <- cumsum(readers(int64(1:200))[[1L]])
  expect_identical(collect(x[150:151]), collect(cumsum(int64(1:200))[150:151]))
  expect_match(format(x), "int64")
})

test_that("sort(), order(), medians and quantiles are the array's", {
  expect_as_array(alist(sort(x), sort(x, decreasing = TRUE), sort(x, na.last = TRUE),
    sort(x, decreasing = TRUE, na.last = FALSE), order(x), order(x, decreasing = TRUE), order(x, na.last = NA),
    order(x, na.last = FALSE)))
  expect_as_array(alist(median(x), median(x, na.rm = TRUE), quantile(x, na.rm = TRUE),
    quantile(x, c(0.1, 0.9), na.rm = TRUE, type = 6), quantile(x)), equal = c("median", "quantile"))
  # more equal elements than a block holds, among such as are equal as doubles
  set.seed(58)
  v <- int64(sample(c(rep(3, 300), 0:6, NA))) + int64(2^60)
  path <- withr::local_tempfile()
  for (rows in c(20, 64)) {
    x <- gpu_reader(v, memory = 3 * 8 * rows)
    expect_identical(collect(sort(x)), collect(sort(v)))
    expect_identical(collect(order(x, decreasing = TRUE)), collect(order(v, decreasing = TRUE)))
    expect_identical(collect(sort(x, to = path)), collect(sort(v)))
  }
  expect_identical(collect(sort(gpu_reader(int64(numeric())), to = path)), collect(int64(numeric())))
})

test_that("distinct values, counts and bins are the array's", {
  expect_as_array(alist(unique(x), table(x), table(x, useNA = "ifany"), table(x, useNA = "always"),
    table(x, exclude = c(1, 3)), table(a = x), findInterval(x, c(0, 5, 2^60)), cut(x, c(-10, 0, 20, 2^61),
    labels = FALSE), is.na(x), abs(x), -x, sign(x), x + 1L, x * 2, x > 3, x == 5L, sqrt(abs(x)), round(x, 1)))
  few <- samples()[c("small", "known", "ties", "one", "missing")]
  expect_as_array(alist(tabulate(x), tabulate(x, 10), cut(x, 4, labels = FALSE)), few[1:3])
  far <- collect(int64(2:3) + int64(2^60))
  for (x in readers(samples()$large)) {
    expect_identical(collect(findInterval(x, far)), collect(findInterval(samples()$large, far)))
    expect_identical(collect(cut(x, far, labels = FALSE)), collect(cut(samples()$large, far, labels = FALSE)))
    first <- on_device(far)[1]
    expect_identical(collect(x - first), collect(samples()$large - first))
    expect_identical(collect(x > first), collect(samples()$large > first))
  }
})

test_that("sums by group are the array's, of such and by such", {
  set.seed(59)
  for (name in c("small", "known", "large", "signs")) {
    v <- samples()[[name]]
    n <- length(v)
    g <- sample(c("a", "b", "c"), n, TRUE)
    f <- factor(g, c("c", "a", "none", "b"))
    values <- c(0.5, 2, 4)[match(g, c("a", "b", "c"))]
    for (x in readers(v)) {
      for (call in alist(rowsum(x, g), rowsum(x, g, reorder = FALSE), rowsum(x, g, na.rm = TRUE), tapply(x, g, sum),
        tapply(x, f, min), tapply(x, f, max, na.rm = TRUE), tapply(x, list(g, f), sum), tapply(x, g, length),
        tapply(x, g, sum, na.rm = TRUE))) {
        env <- list(x = v, g = g, f = f)
        want <- said(eval(call, env))
        # the array's counts and means are ordinary, too
        expect_identical(said(eval(call, replace(env, "x", list(x)))), want, label = paste(deparse1(call), name))
      }
      expect_equal(said(tapply(x, g, mean)), said(collect(tapply(v, g, mean))), tolerance = 1e-12)
      key <- as_gpu(values, device = test_device)
      expect_equal(said(tapply(gpu_reader(values), x, sum)), said(tapply(key, v, sum)))
      sums <- suppressWarnings(rowsum(gpu_reader(values), x))
      byword <- suppressWarnings(rowsum(values, as.character(v)))
      expect_equal(sums[!is.na(rownames(sums)), ], byword[rownames(sums)[!is.na(rownames(sums))], ])
      expect_false(is.unsorted(as.numeric(rownames(sums)), na.rm = TRUE))
    }
  }
})

test_that("matrices of files have the array's sums along margins", {
  set.seed(60)
  for (far in c(0, 2^60)) {
    m <- int64(sample(c(-50:50, if (far == 0) NA), 120, TRUE)) + int64(far)
    dim(m) <- c(30L, 4L)
    dimnames(m) <- list(NULL, letters[1:4])
    path <- raw_file(unclass(collect(m)))
    for (memory in c(blocks_of_rows(7, 4), 3 * 8 * 30, 1e6)) for (x in list(gpu_reader(path, dim = c(30, 4),
      dtype = "int64", dimnames = list(NULL, letters[1:4]), memory = memory), gpu_reader(function(rows)
        m[rows, , drop = FALSE], dim = c(30, 4), memory = max(memory, blocks_of_rows(7, 4))))) for (call in alist(colSums(m), rowSums(m),
          colSums(m, na.rm = TRUE), rowSums(m, na.rm = TRUE), colMeans(m), rowMeans(m, na.rm = TRUE), sum(m), range(m),
          crossprod(m), m %*% c(1, 2, 3, 4), sort(m), var(m), colSums(m + 1L), colSums(m > 0))) {
      if (far > 0 && deparse1(call[[1L]]) == "var") next
      cases$n <- cases$n + 1L
      want <- said(eval(call, list(m = m)))
      got <- said(eval(call, list(m = x)))
      expect_equal(got, want, label = paste(deparse1(call), far, memory), tolerance = 1e-12)
    }
  }
})
