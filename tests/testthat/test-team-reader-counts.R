# Distinct values, counts and sums by group of readers, and running values, against base R's of the whole.

withr::local_options(verdigris.device = test_device)

samples <- function() {
  set.seed(52)
  list(
    doubles = sample(c(round(rnorm(200), 1), NA, NaN, 0, -0, Inf, NA)), integers = c(sample(-3:40, 210, TRUE), NA),
    logicals = sample(c(TRUE, FALSE, NA), 90, TRUE), known = rep(c(2.5, 1, 7), 40), none = numeric(),
    empty = integer(), close = c(0.1 + 0.2, 0.3, 0.3, 1), late = c(rep(1, 60), NaN, NA)
  )
}
readers <- function(v) lapply(c(17, 1e4), function(rows) gpu_reader(v, memory = 3 * 8 * rows))

test_that("unique() has base R's values in base R's order", {
  for (v in c(samples(), list(complex(real = c(1, 2, 1), imaginary = c(0, 1, 0))))) for (x in readers(v))
    expect_identical(unique(x), unique(v))
  expect_identical(unique(gpu_reader(c(a = 1, b = 1))), 1)
  for (odd in alist(unique(gpu_reader(matrix(1, 2, 2))), unique(gpu_reader(data.frame(a = 1))),
    unique(gpu_reader(1), fromLast = TRUE), unique(gpu_reader(1), incomparables = 1), duplicated(gpu_reader(diag(2)))))
    expect_error(eval(odd), class = "verdigris_error_reader", label = deparse1(odd))
  withr::defer(utils::assignInNamespace("MOST_DISTINCT", 2^27, "verdigris"))
  utils::assignInNamespace("MOST_DISTINCT", 10, "verdigris")
  expect_error(unique(readers(as.double(1:100))[[1L]]), "sort(x, to = path)", fixed = TRUE,
    class = "verdigris_error_memory")
  expect_error(table(readers(as.double(1:100))[[1L]]), class = "verdigris_error_memory")
})

test_that("table() is base R's, with all its arguments", {
  calls <- alist(table(x), table(x, useNA = "ifany"), table(x, useNA = "always"), table(x, exclude = NULL),
    table(x, exclude = c(1, NA)), table(a = x), table(x, dnn = "name"), table(x, deparse.level = 0))
  for (name in names(samples())) {
    v <- samples()[[name]]
    for (x in readers(v)) for (call in calls) expect_identical(eval(call, list(x = x)), eval(call, list(x = v)),
      label = paste(name, deparse1(call)))
  }
  expect_error(table(x, x), "Only one reader", class = "verdigris_error_reader")
  expect_error(table(gpu_reader(matrix(1, 2, 2))), class = "verdigris_error_reader")
})

test_that("tabulate() counts what base R counts", {
  for (v in list(c(1L, 5L, 2L, 5L, NA, 0L, -3L), c(1.9, 3, NA, 2), rep(1:30, 5), integer())) for (x in readers(v)) {
    expect_identical(tabulate(x), tabulate(v))
    for (bins in c(1, 4, 100)) expect_identical(tabulate(x, bins), tabulate(v, bins))
  }
  expect_error(tabulate(gpu_reader(c(TRUE, FALSE))), "'bin' must be numeric or a factor")
  expect_error(tabulate(x, -1), "invalid 'nbin' argument")
})

test_that("hist(), cut() and findInterval() have base R's bins", {
  set.seed(53)
  for (v in list(round(rexp(500), 2), c(rnorm(100), NA, Inf, NaN), 1:60, c(3, 3, 3))) for (x in readers(v)) {
    for (breaks in list("Sturges", 7, c(-1e3, 0, 0.5, 1, 1e3))) for (right in c(TRUE, FALSE)) {
      want <- hist(v, breaks = breaks, right = right, plot = FALSE)
      got <- hist(x, breaks = breaks, right = right, plot = FALSE)
      want$xname <- got$xname
      expect_equal(got, want)
    }
    for (breaks in list(4, c(0, 0.5, 1, 20))) for (right in c(TRUE, FALSE)) {
      if (length(breaks) == 1L && !all(is.finite(v))) next
      want <- cut(v, breaks, labels = FALSE, right = right, include.lowest = TRUE)
      got <- cut(x, breaks, labels = FALSE, right = right, include.lowest = TRUE)
      expect_s3_class(got, "gpu_reader")
      expect_identical(collect(got), want)
      expect_identical(tabulate(got, 4), tabulate(want, 4))
    }
    expect_identical(collect(findInterval(x, c(0, 0.5, 2))), findInterval(v, c(0, 0.5, 2)))
    expect_identical(table(findInterval(x, c(0, 2), left.open = TRUE)), table(findInterval(v, c(0, 2),
      left.open = TRUE)), ignore_attr = TRUE)
  }
  expect_error(cut(x, 3), "labels = FALSE", class = "verdigris_error_reader")
  expect_error(cut(x, 1, labels = FALSE), "invalid number of intervals")
  expect_error(findInterval(x, 2:1), "sorted")
  expect_error(findInterval(1:3, x), class = "verdigris_error_reader")
  expect_error(hist(x, "scott"), class = "verdigris_error_reader")
  expect_error(hist(gpu_reader(c(1, 9)), c(2, 3), plot = FALSE), "some 'x' not counted")
  expect_error(hist(gpu_reader(TRUE)), "'x' must be numeric")
})

test_that("rowsum() is base R's, for groups in memory and in readers", {
  set.seed(54)
  m <- matrix(round(rnorm(300), 2), 100, dimnames = list(NULL, c("a", "b", "c")))
  m[c(7, 150)] <- NA
  whole <- matrix(1:300, 100)
  keys <- list(sample(c(3, 1, 2.5), 100, TRUE), sample(5L, 100, TRUE), sample(letters[1:4], 100, TRUE),
    factor(sample(letters[1:4], 100, TRUE), levels = letters[6:1]), c(NA, rep(1:2, length.out = 99)))
  for (x in list(m, whole, m[, 1], as.integer(whole[, 1]))) for (key in keys) for (reorder in c(TRUE, FALSE)) {
    r <- gpu_reader(x, memory = 3 * 8 * 17 * NCOL(x))
    same <- function(f) if (anyNA(key)) expect_warning(f, "missing values for 'group'") else f
    for (na.rm in c(FALSE, TRUE)) {
      suppressWarnings(want <- rowsum(x, key, reorder = reorder, na.rm = na.rm))
      same(got <- rowsum(r, key, reorder = reorder, na.rm = na.rm))
      expect_equal(got, want, tolerance = 1e-14)
      expect_identical(typeof(got), typeof(want))
    }
    if (!is.numeric(key) || anyNA(key)) next
    suppressWarnings(want <- rowsum(x, key, reorder = reorder))
    expect_equal(rowsum(r, gpu(key), reorder = reorder), want, tolerance = 1e-14)
    expect_equal(rowsum(r, gpu_reader(key, memory = 3 * 8 * 9), reorder = reorder), want, tolerance = 1e-14)
  }
  expect_equal(rowsum(gpu_reader(data.frame(a = 1:4, b = 5)), c(1, 1, 2, 2)), rowsum(cbind(a = 1:4, b = 5),
    c(1, 1, 2, 2)))
  expect_error(rowsum(r, 1:3), "incorrect length for 'group'")
})

test_that("tapply() of sums, means, counts and extremes is base R's", {
  set.seed(55)
  v <- c(round(rnorm(198), 2), NA, 5)
  whole <- sample(-9:9, 200, TRUE)
  keys <- list(sample(c(3, 1, 2.5), 200, TRUE), sample(letters[1:4], 200, TRUE), c(NA, rep(1:2, length.out = 199)),
    factor(sample(letters[1:4], 200, TRUE), levels = letters[6:1]), list(a = rep(1:2, 100), b = rep(1:3, c(1, 99, 100))))
  for (x in list(v, whole)) for (key in keys) for (f in list(sum, mean, length, min, max)) {
    r <- gpu_reader(x, memory = 3 * 8 * 17)
    expect_equal(tapply(r, key, f), tapply(x, key, f), tolerance = 1e-14)
    expect_identical(typeof(tapply(r, key, f)), typeof(tapply(x, key, f)))
    if (!identical(f, length)) expect_equal(tapply(r, key, f, na.rm = TRUE), suppressWarnings(tapply(x, key, f,
      na.rm = TRUE)), tolerance = 1e-14)
    if (is.numeric(key) && !anyNA(key)) expect_equal(tapply(r, gpu_reader(key, memory = 3 * 8 * 13), f), tapply(x, key,
      f), tolerance = 1e-14)
  }
  for (call in alist(tapply(r, keys[[1]], median), tapply(r, keys[[1]], function(x) 1), tapply(1:200, r, sum)))
    expect_error(eval(call), class = "verdigris_error_reader", label = deparse1(call))
  expect_error(tapply(r, 1:3, sum), "arguments must have same length")
  # no columns
  expect_identical(dim(rowsum(gpu_reader(matrix(numeric(), 3, 0)), c(1, 2, 1))), c(2L, 0L))
  # a group without known elements, and no elements at all
  for (v in list(c(NA, NA, 1), c(NA, 3L, 1L, NA))) for (f in list(sum, mean, min, max)) {
    groups <- c("a", "a", "b", "c")[seq_along(v)]
    expect_identical(suppressWarnings(tapply(gpu_reader(v, memory = 24), groups, f, na.rm = TRUE)),
      suppressWarnings(tapply(v, groups, f, na.rm = TRUE)))
  }
  expect_warning(tapply(gpu_reader(c(NA, 1)), c("a", "b"), max, na.rm = TRUE),
    "no non-missing arguments to max; returning -Inf")
  expect_identical(tapply(gpu_reader(numeric()), factor(character(), "a"), sum), tapply(numeric(), factor(character(),
    "a"), sum))
})

test_that("running values are base R's, wherever they are read", {
  for (v in c(samples()[1:6], list(complex(real = 1:50, imaginary = 2), c(1e300, 1e300, -1e300, 2), rnorm(80) * 3)))
    for (x in readers(v)) for (f in list(cumsum, cumprod, cummax, cummin)) {
      if (is.complex(v) && (identical(f, cummax) || identical(f, cummin))) {
        expect_error(f(x), "not defined for complex numbers")
        next
      }
      want <- f(v)
      got <- f(x)
      expect_s3_class(got, "gpu_reader")
      expect_equal(collect(got), want, tolerance = 1e-14)
      expect_identical(typeof(collect(got)), typeof(want))
      if (length(v) < 60) next
      expect_equal(got[c(40, 3, 19)], want[c(40, 3, 19)], tolerance = 1e-14)
      expect_equal(unname(unlist(gpu_chunked(got, function(y) collect(y), list, chunk = 23))), want, tolerance = 1e-14)
      expect_equal(mean(got), mean(want), tolerance = 1e-12)
    }
  big <- gpu_reader(rep(c(.Machine$integer.max, 1L), 20), memory = 3 * 4 * 7)
  expect_warning(got <- cumsum(big), "integer overflow in 'cumsum'")
  expect_identical(collect(got), suppressWarnings(cumsum(rep(c(.Machine$integer.max, 1L), 20))))
  named <- gpu_reader(c(a = 1, b = 2, c = 5), memory = 3 * 8 * 2)
  expect_identical(collect(cumsum(named)), cumsum(c(a = 1, b = 2, c = 5)))
  path <- withr::local_tempfile()
  written <- gpu_chunked(cumsum(gpu_reader(1:100 + 0, memory = 3 * 8 * 9)), identity, to = path)
  expect_identical(readBin(path, "double", 200), cumsum(1:100 + 0))
  float <- gpu_reader(raw_file(rep(0.1, 50), 4L), dtype = "float32", memory = 3 * 4 * 9)
  expect_equal(collect(cumsum(float)), cumsum(rep(0.1, 50)), tolerance = 1e-6)
  expect_error(cumsum(gpu_reader(matrix(1, 2, 2))), class = "verdigris_error_reader")
  # another process continues at the same places
  copy <- unserialize(serialize(verdigris:::described(cumsum(gpu_reader(function(rows) rows + 0, dim = 50,
    memory = 3 * 8 * 9))), NULL))
  expect_identical(copy[c(50, 11)], cumsum(1:50 + 0)[c(50, 11)])
})

test_that("a source that fails is an error of its block", {
  x <- gpu_reader(function(rows) if (rows[1L] > 50) stop("torn tape") else rows + 0, dim = 100, memory = 3 * 8 * 10)
  for (call in alist(unique(x), table(x), tabulate(x), hist(x, plot = FALSE), rowsum(x, rep(1, 100)), tapply(x, rep(1,
    100), sum), cumsum(x))) expect_error(eval(call), "torn tape", class = "verdigris_error_chunk",
      label = deparse1(call))
})
