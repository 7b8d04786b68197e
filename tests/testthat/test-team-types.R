# Reductions of splits of dates, times, factors, logical values, strings and 64-bit integers: base R's of the whole.

team <- gpu_team(rep(test_device, 3))
withr::local_options(verdigris.device = test_device)
days <- as.Date("2020-01-01") + c(5, 3, 9, NA, 1, 3, 0)
columns <- list(date = days, time = as.POSIXct(days, tz = "UTC") + 0.5, lapse = days - days[1L],
  group = factor(c("b", "a", "c", "a", NA, "c", "b"), c("c", "b", "a")),
  size = factor(c("b", "a", "c", "a", NA, "c", "b"), ordered = TRUE), truth = c(TRUE, FALSE, NA, TRUE, TRUE, FALSE, TRUE),
  text = c("b", "a", "c", "a", NA, "c", "b"), whole = c(5L, -1L, NA, 2L, 2L, 7L, 0L), real = c(1.5, NA, 2, 2, -3, 0, 7))

reductions <- alist(sum(x, na.rm = TRUE), sum(x), prod(x), mean(x, na.rm = TRUE), mean(x), range(x, na.rm = TRUE), range(x),
  min(x, na.rm = TRUE), min(x), max(x, na.rm = TRUE), any(x, na.rm = TRUE), all(x), quantile(x, na.rm = TRUE), quantile(x),
  quantile(x, c(0.1, 0.5), type = 1, na.rm = TRUE), quantile(x, 0.3, type = 3, na.rm = TRUE, names = FALSE),
  median(x, na.rm = TRUE), median(x), table(x), sort(x), sort(x, decreasing = TRUE), var(x, na.rm = TRUE), sd(x, na.rm = TRUE),
  unique(x), levels(x), is.numeric(x), which.max(x), which.min(x), head(x, 3), tail(x, 3))

ran <- function(code, x) tryCatch(suppressWarnings({
  value <- eval(code, list(x = x))
  if (inherits(value, "gpu_split")) collect(value) else value
}), error = identity)

test_that("values have the type and class of the whole's, or base R's error", {
  for (name in names(columns)) {
    whole <- columns[[name]]
    for (x in list(gpu_split(data.frame(x = whole, y = 1), team)$x, gpu_split(data.frame(x = whole[c(3, 1)]), team)$x)) {
      host <- if (length(x) == 7L) whole else whole[c(3, 1)]
      for (code in reductions) {
        cases$n <- cases$n + 1L
        want <- ran(code, host)
        got <- ran(code, x)
        label <- paste(deparse1(code), "of", name)
        if (inherits(want, "error")) {
          expect(inherits(got, "error"), paste(label, "is no error"))
        } else if (inherits(got, "verdigris_error_split")) {
          # strings are not sorted, and have places nowhere
          expect(name == "text", paste(label, conditionMessage(got)))
        } else {
          expect_equal(got, want, tolerance = 1e-11, label = label)
          expect_identical(class(got), class(want), label = label)
          expect_identical(typeof(got), typeof(want), label = label)
        }
      }
    }
  }
})

test_that("classes without a sum are base R's errors", {
  d <- gpu_split(as.data.frame(columns), team)
  expect_error(sum(d$date), "sum not defined for \"Date\" objects")
  expect_error(any(d$time), "not defined for \"POSIXt\" objects")
  expect_error(max(d$group), "not meaningful for factors")
  expect_error(quantile(d$group), "factors are not allowed")
  expect_error(median(d$group), "need numeric data")
  expect_error(var(d$group, na.rm = TRUE), "factor")
  expect_warning(expect_identical(mean(d$text), NA_real_), "not numeric or logical")
  expect_error(sort(d$text), "collect(x)", class = "verdigris_error_split", fixed = TRUE)
})

test_that("a condition selects elements of all classes", {
  d <- gpu_split(data.frame(columns, y = 1:7), team)
  for (name in names(columns)) {
    some <- d[[name]][d$y > 2]
    expect_identical(length(some), 5L, label = name)
    expect_identical(collect(some), columns[[name]][3:7], label = name)
    expect_identical(collect(some == some), columns[[name]][3:7] == columns[[name]][3:7], label = name)
  }
})

test_that("parts of other levels are refused", {
  unlike <- gpu_together(team, function() data.frame(f = factor(letters[gpu_team_rank()])), keep = TRUE)
  expect_error(max(unlike$f), "other levels", class = "verdigris_error_split")
})

test_that("64-bit integers are exact", {
  whole <- as_gpu(c(2^53, 3, -7, NA, 2^53), dtype = "int64", device = "cpu") + gpu_cast(as_gpu(1, device = "cpu"), "int64")
  host <- collect(whole)
  x <- gpu_split(host, team)
  same <- function(got, want) expect_identical(collect(got), collect(want))
  known <- sort(whole)
  same(sum(x, na.rm = TRUE), cumsum(known)[4])
  same(min(x, na.rm = TRUE), known[1])
  same(max(x, na.rm = TRUE), known[4])
  same(range(x, na.rm = TRUE), known[c(1, 4)])
  for (f in list(sum, min, max)) same(f(x), whole[4])
  same(range(x), whole[c(4, 4)])
  same(mean(x, na.rm = TRUE), gpu_cast(as_gpu(4503599627370496, device = "cpu"), "int64"))
  same(mean(gpu_split(host[3], team)), whole[3])
  same(mean(x), whole[4])
  same(sort(x), known)
  # fewer elements than members
  same(range(gpu_split(host[1:2], team)), whole[2:1])
  expect_identical(names(table(x)), c("-6", "4", "9007199254740993"))
  expect_identical(as.vector(table(x)), c(1L, 1L, 2L))
  expect_error(prod(x), "64-bit", class = "verdigris_error_split")
  # as those of the array
  for (call in alist(quantile(x, na.rm = TRUE), quantile(x, c(0.2, 0.5), na.rm = TRUE, type = 1), median(x, na.rm = TRUE),
    median(x), unique(x), which.max(x), which.min(x), pmin(x, 3L), pmax(x, whole[1]), IQR(x, na.rm = TRUE),
    x - whole[1])) {
    warned <- function(value) {
      told <- NULL
      value <- withCallingHandlers(collect(value), warning = function(w) {
        told <<- unique(c(told, class(w)[1L]))
        tryInvokeRestart("muffleWarning")
      })
      list(value, told)
    }
    expect_identical(warned(eval(call, list(x = x, whole = whole))), warned(eval(call, list(x = whole, whole = whole))),
      label = deparse1(call))
  }
  suppressWarnings(expect_error(quantile(x), "missing values and NaN's not allowed"))
  m <- matrix(c(5, 1, 7, 3), 2)
  expect_equal(quantile(gpu_split(as_gpu(m, dtype = "int64", device = "cpu"), team)), quantile(m))
})

test_that("extremes of 64-bit integers are exact beside parts without elements", {
  skip_if_not_installed("bit64")
  requireNamespace("bit64")
  large <- function(v) Reduce(`+`, lapply(v, function(x) gpu_cast(as_gpu(x, device = "cpu"), "int64")))
  # -(2^62 + 2^61), 2^62 + 2^61 and neighbours
  low <- large(list(c(-2^62, -2^62), c(-2^61, -2^61 + 4096)))
  for (values in list(low, -low)) {
    x <- gpu_split(values, team)
    for (f in list(min, max, range)) expect_identical(f(x), f(collect(values)))
  }
  none <- gpu_split(as_gpu(rep(NA_real_, 4), dtype = "int64", device = "cpu"), team)
  for (f in list(min, max, range)) expect_identical(suppressWarnings(f(none, na.rm = TRUE)),
    suppressWarnings(f(numeric())))
  expect_warning(max(none, na.rm = TRUE), "no non-missing arguments to max; returning -Inf")
})

test_that("the type of elementwise results is known without asking, and is what the members say", {
  ns <- asNamespace("verdigris")
  for (v in list(c(TRUE, NA, FALSE), c(3L, NA, -2L), c(0.5, NA, -2), c(1 + 2i, NA, -1i))) for (whole in list(v, cbind(v, v)))
    for (f in names(ns$ELEMENTWISE)) for (other in list(NULL, 2L, TRUE, 2.5, v)) {
      x <- gpu_split(whole, team)
      args <- c(list(x), if (!is.null(other)) list(other))
      out <- tryCatch(suppressWarnings(do.call(f, args)), error = identity)
      if (!inherits(out, "gpu_split")) next
      known <- ns$type_of_call(f, args)
      if (is.null(known)) next
      cases$n <- cases$n + 1L
      # an operation that base R refuses fails when a member computes it
      asked <- tryCatch(suppressWarnings(ns$type_of(out)), error = function(e) known)
      expect_identical(known, asked, label = paste(f, "of", typeof(v), "and", typeof(other)))
      expect_identical(typeof(suppressWarnings(collect(out))), known)
    }
  x <- gpu_split(cbind(1:5, 5:1), team)
  messages <- 0L
  ask <- team$engine$ask
  withr::defer(team$engine$ask <- ask)
  team$engine$ask <- function(...) {
    messages <<- messages + 1L
    ask(...)
  }
  expect_identical(sum(exp(x[, 1L]) > 3), 4L)
  expect_identical(sum(t(x) * 2L), 60L)
  expect_lte(messages, 2L)
})

test_that("64-bit integers are not taken for doubles by what is computed from them", {
  skip_if_not_installed("bit64")
  big <- bit64::as.integer64(c("9007199254740993", "-5", "7"))
  m <- big
  dim(m) <- c(3L, 1L)
  for (x in list(gpu_split(big, team), gpu_split(as_gpu(big), team) + 0L, gpu_split(as_gpu(m), team)[, 1L])) {
    expect_s3_class(sum(x), "integer64")
    expect_identical(format(max(x + 1L)), "9007199254740994")
    expect_s3_class(sum(x * 2L), "integer64")
  }
})
