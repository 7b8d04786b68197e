# int64 in base R's match(), on which merge() and the set functions of packages rest: exact, or an error of this package.

skip_if_not_installed("bit64")
skip_if(getRversion() < "4.2.0")

around <- function(digits) bit64::as.integer64(digits) + bit64::as.integer64(c(1, 0, 3, -5, 2))
keys <- list("2^53" = around("9007199254740992"), "2^62" = around("4611686018427387904"), small = around("7"),
  "15 digits" = bit64::as.integer64(c("123456789012345680", "123456789012345696", "100000", "0", "123456789012345681")))
# doubles of the same bits are NaN for negative numbers, which R before 4.3 matches by
takes_negative <- getRversion() >= "4.3.0"
digits <- function(x) if (is_gpu(x)) as.character(x) else bit64::as.character.integer64(x)

test_that("merge() finds the rows of int64 keys, with arrays and integer64 on either side", {
  for (name in names(keys)) {
    w <- keys[[name]]
    sides <- list(array = gpu(w), integer64 = w)
    for (left in names(sides)) for (right in names(sides)) {
      if (left == "integer64" && right == "integer64") next
      cases$n <- cases$n + 1L
      a <- data.frame(k = rep(0, 5), a = 1:5)
      b <- data.frame(k = rep(0, 3), b = 11:13)
      a$k <- sides[[left]]
      b$k <- sides[[right]][3:1]
      got <- outcome(merge(a, b, sort = FALSE))
      label <- paste(name, left, right)
      expect_identical(got$warnings, character(), info = label)
      expect_identical(got$value[order(got$value$a), c("a", "b")], data.frame(a = 1:3, b = 13:11, row.names = NULL),
        ignore_attr = TRUE, info = label)
      expect_identical(digits(got$value$k)[order(got$value$a)], digits(w[1:3]), info = label)
      more <- merge(a, b, all = TRUE)
      expect_identical(sort(more$a), 1:5, info = label)
      expect_identical(sum(is.na(more$b)), 2L, info = label)
    }
  }
})

test_that("base::match() of int64 is exact with integer64, int64, words and numbers", {
  for (name in names(keys)) {
    w <- keys[[name]]
    s <- digits(w)
    x <- gpu(w)
    places <- c(2L, 5L, 1L)
    for (table in list(w[places], gpu(w)[places], s[places], factor(s[places]))) {
      label <- paste(name, class(table)[1L])
      expect_identical(base::match(x, table), match(s, s[places]), info = label)
      expect_identical(base::match(table, x), places, info = label)
      expect_identical(base::`%in%`(x, table), s %in% s[places], info = label)
    }
    # a number is matched where it is that integer
    numbers <- as.double(s)
    exact <- vapply(seq_along(s), function(k) identical(format(numbers[k], digits = 22, scientific = FALSE), s[k]) ||
      bit64::as.integer64(numbers[k]) == w[k], NA)
    expect_identical(!is.na(base::match(x, c(numbers[exact], .5, NA))), exact, info = name)
    expect_identical(base::match(c(.5, numbers[exact], 1 / 3), x), c(NA, which(exact), NA), info = name)
    expect_identical(base::match(gpu(c(.5, numbers[exact])), x), c(NA, which(exact)), info = name)
  }
  expect_identical(base::match(gpu(keys[[1L]]), NULL), rep(NA_integer_, 5L))
  # the package's own
  expect_identical(as.vector(match(gpu(keys[[1L]]), digits(keys[[1L]])[3:1])), c(3L, 2L, 1L, NA, NA))
  expect_identical(union(gpu(keys[[1L]])[1:2], "5"), c(digits(keys[[1L]])[1:2], "5"))
})

test_that("what base R cannot tell apart is an error", {
  negative <- bit64::as.integer64(c(-1, -2, 3))
  with_na <- bit64::as.integer64(c(NA, 4))
  zero <- bit64::as.integer64(c(0, 4))
  pairs <- list(list(negative, negative), list(with_na, zero), list(zero, with_na))
  for (pair in pairs) {
    x <- gpu(pair[[1L]])
    if (takes_negative) {
      expect_identical(base::match(x, pair[[2L]]), match(digits(pair[[1L]]), digits(pair[[2L]])))
    } else {
      expect_error(base::match(x, pair[[2L]]), class = "verdigris_error_argument")
      expect_error(base::match(pair[[2L]], x), class = "verdigris_error_argument")
    }
    # here they are
    expect_identical(as.vector(match(x, pair[[2L]])), match(digits(pair[[1L]]), digits(pair[[2L]])))
  }
  expect_identical(base::match(gpu(with_na), with_na), 1:2)
})

test_that("tables, groups and intervals take integer64 keys beside arrays", {
  w <- keys[["2^53"]]
  x <- gpu(w)
  f <- factor(digits(w), digits(sort(w)))
  expect_identical(unname(unclass(table(x, w))[, ]), unname(unclass(table(f, f))[, ]))
  expect_identical(names(dimnames(table(x, w))), c("x", "w"))
  expect_identical(dimnames(table(w, x))[["x"]], levels(f))
  v <- gpu(c(1, 2, 3, 4, 5))
  expect_identical(rownames(collect(rowsum(v, w))), levels(f))
  expect_identical(c(collect(rowsum(v, w))), c(rowsum(1:5 + 0, as.integer(f))))
  expect_identical(names(c(collect(tapply(v, w, sum)))), levels(f))
  expect_identical(dimnames(gpu_group(v, list(a = w, b = x), "sum"))$a, levels(f))
  sorted <- sort(w)
  for (breaks in list(sorted, gpu(sorted))) {
    got <- outcome(cut(x, breaks))
    expect_identical(got$warnings, character())
    expect_identical(as.integer(got$value), c(2L, 1L, 4L, NA, 3L))
    expect_identical(levels(got$value)[2L], "(9007199254740992,9007199254740993]")
    expect_identical(as.integer(cut(x, breaks, right = FALSE)), c(3L, 2L, NA, 1L, 4L))
    expect_identical(as.integer(cut(x, breaks, include.lowest = TRUE)), c(2L, 1L, 4L, 1L, 3L))
    expect_identical(levels(cut(x, breaks, include.lowest = TRUE, right = FALSE))[4L],
      "[9007199254740994,9007199254740995]")
    expect_identical(as.vector(cut(x, breaks, labels = FALSE)), c(2L, 1L, 4L, NA, 3L))
    expect_identical(levels(cut(x, breaks, labels = letters[1:4])), letters[1:4])
    expect_error(cut(x, c(breaks, breaks)), "not unique")
  }
})
