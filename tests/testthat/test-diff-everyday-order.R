# Order, ranks, matches and counts: calls over types, sizes, edges and layouts, compared with base R; also in the mode
# that computes as on a GPU, since the cpu device leaves some to base R.

test_that("sorting, ordering and ranking agree with base R", {
  calls <- list(
    "sort" = function(v) sort(v), "sort decreasing" = function(v) sort(v, decreasing = TRUE), "sort last" = function(v)
      sort(v, na.last = TRUE), "sort first" = function(v) sort(v, na.last = FALSE), "sort partial" = function(v)
      sort(v, partial = 2), "sort method" = function(v) sort(v, method = "radix"),
    "order" = function(v) order(v), "order decreasing" = function(v)
      order(v, decreasing = TRUE), "order first" = function(v) order(v, na.last = FALSE), "order known" = function(v)
      order(v, na.last = NA), "order radix" = function(v) order(v, method = "radix", decreasing = TRUE),
    "order two" = function(v) order(v, -seq_along(v)), "order host first" = function(v)
      order(seq_along(v) %% 3, v, decreasing = c(TRUE, FALSE), method = "radix"), "order factor" = function(v)
      order(factor(rep_len(c("b", "a"), length(v))), v), "order two first" = function(v)
      order(v, rev(v), na.last = FALSE), "order two known" = function(v)
      order(v, rev(v), na.last = NA), "order two first decreasing" = function(v)
      order(v, rev(v), na.last = FALSE, decreasing = TRUE),
    "order wrong" = function(v) order(v, 1:9), "x[order]" = function(v) v[order(v)], "is.unsorted" = is.unsorted,
      "is.unsorted strictly" = function(v) is.unsorted(v, strictly = TRUE), "is.unsorted na.rm" = function(v)
      is.unsorted(v, na.rm = TRUE), "is.unsorted sorted" = function(v) is.unsorted(sort(v), strictly = TRUE))
  found <- over_vectors(calls)
  ranks <- list()
  for (ties in c("average", "first", "last", "max", "min")) for (na.last in list(TRUE, FALSE, NA, "keep")) {
    ranks[[paste("rank", ties, na.last)]] <- local({ ties <- ties; na.last <- na.last
    function(v) rank(v, na.last = na.last, ties.method = ties) })
  }
  found <- c(found, over_vectors(c(list("rank" = rank), ranks), layouts = "view"))
  found <- c(found, over_vectors(list("sort" = sort, "order" = function(v) order(v), "rank" = rank, "unique" = unique,
    "match" = function(v) match(v, rev(v))), "complex", sizes = c(0L, 1L, 64L)))
  found <- c(found, composed(over_vectors(calls[grep("order|unsorted", names(calls))], layouts = c("whole", "view"))))
  expect_all_same(found)
})

test_that("distinct elements and matches agree with base R", {
  some <- c(2, -1, NA, 0, 0.5, NaN, 3)
  many <- c(NaN, some, 1:40, -5:5, NA, 2.5)
  calls <- list(
    "unique" = unique, "unique last" = function(v) unique(v, fromLast = TRUE), "duplicated" = duplicated,
      "duplicated last" = function(v) duplicated(v, fromLast = TRUE), "anyDuplicated" = anyDuplicated,
      "anyDuplicated last" = function(v) anyDuplicated(v, fromLast = TRUE), "unique without" = function(v)
      unique(v, incomparables = 2),
    "rle" = function(v) unclass(rle(v)), "inverse.rle" = function(v) inverse.rle(rle(v)),
    "match few" = function(v) match(v, some), "match many" = function(v) match(v, many), "match own" = function(v)
      match(v, rev(v)), "match integers" = function(v) match(v, 1:20), "match table" = function(v)
      match(many, v), "match 0" = function(v) match(v, some, nomatch = 0L), "match many 0" = function(v)
      match(v, many, 0L),
    "match strings" = function(v) match(v, c("1", "2")), "match none" = function(v)
      match(v, numeric()), "match factor" = function(v) match(v, factor(c("1", "2"))), "match without" = function(v)
      match(v, some, incomparables = 2),
    "in few" = function(v) v %in% c(1, NA), "in NaN" = function(v) v %in% c(2, NaN), "in many" = function(v)
      v %in% many, "in own" = function(v) 2 %in% v, "in none" = function(v) v %in% NULL, "in TRUE" = function(v)
      v %in% TRUE,
    "union" = function(v) union(v, some), "setdiff" = function(v) setdiff(v, some), "intersect" = function(v)
      intersect(v, some), "factor" = factor)
  expect_all_same(over_vectors(calls, layouts = c("whole", "view")))
  expect_all_same(composed(over_vectors(calls)))
})

test_that("bins and counts agree with base R", {
  wide <- seq(-6, 6, 0.25)
  calls <- list(
    "findInterval" = function(v) findInterval(v, c(-1, 0, 2)), "findInterval open" = function(v)
      findInterval(v, c(-1, 0, 2), left.open = TRUE), "findInterval closed" = function(v)
      findInterval(v, c(-1, 0, 2), rightmost.closed = TRUE), "findInterval inside" = function(v)
      findInterval(v, c(-1, 0, 2), all.inside = TRUE),
    "findInterval both" = function(v) findInterval(v, c(-1, 0, 2), rightmost.closed = TRUE, left.open = TRUE),
      "findInterval many" = function(v) findInterval(v, wide), "findInterval many open" = function(v)
      findInterval(v, wide, left.open = TRUE, rightmost.closed = TRUE), "findInterval none" = function(v)
      findInterval(v, numeric()), "findInterval wrong" = function(v)
      findInterval(v, 2:1), "findInterval vec" = function(v) findInterval(c(0.5, NA, 3), sort(v)),
    "cut" = function(v) cut(v, c(-1, 0, 2)), "cut left" = function(v)
      cut(v, c(-1, 0, 2), right = FALSE), "cut lowest" = function(v) cut(v, c(-1, 0, 2), include.lowest = TRUE),
      "cut highest" = function(v) cut(v, c(2, -1, 0), include.lowest = TRUE, right = FALSE), "cut labels" = function(v)
      cut(v, c(-1, 0, 2), labels = c("a", "b")),
    "cut codes" = function(v) cut(v, c(-1, 0, 2), labels = FALSE), "cut ordered" = function(v)
      cut(v, wide, ordered_result = TRUE, dig.lab = 2), "cut wrong" = function(v)
      cut(v, 1), "cut labels wrong" = function(v) cut(v, c(-1, 0, 2), labels = "a"), "cut twice" = function(v)
      cut(v, c(0, 1, 1)),
    "tabulate 5" = function(v) tabulate(v, 5), "tabulate wrong" = function(v) tabulate(v, -1),
    "table" = function(v) table(v), "table ifany" = function(v) table(v, useNA = "ifany"), "table always" = function(v)
      table(v, useNA = "always"), "table exclude" = function(v)
      table(v, exclude = 2), "table exclude none" = function(v) table(v, exclude = NULL), "table named" = function(v)
      table(k = v), "table dnn" = function(v) table(v, dnn = "u"), "table expression" = function(v)
      table(v > 0), "table deparsed" = function(v) table(v + 1, deparse.level = 2),
    "table factor" = function(v) table(v, factor(rep_len(c("b", "a", NA), length(v)), levels = c("b", "a", "none"))),
      "table two" = function(v) table(v, w = rev(v), useNA = "ifany"), "table strings" = function(v)
      table(rep_len(c("x", NA), length(v)), v, useNA = "always"), "table lengths" = function(v) table(v, 1:9))
  finite <- list("cut 3" = function(v) cut(v, 3), "cut 5 codes" = function(v) cut(v, 5, labels = FALSE),
    "cut 2 left" = function(v) cut(v, 2, right = FALSE, include.lowest = TRUE))
  found <- c(over_vectors(calls, layouts = c("whole", "view")), over_vectors(finite, kinds = "plain"),
    over_vectors(finite, kinds = "ties", layouts = "whole"))
  # the number of bins is the greatest element
  found <- c(found, over_vectors(list("tabulate" = function(v) tabulate(v)), kinds = c("ties", "plain")))
  found <- c(found, composed(over_vectors(calls, layouts = "whole")),
    composed(over_vectors(finite, kinds = c("plain", "ties"), layouts = "whole")))
  found <- c(found, composed(over_vectors(list("tabulate" = function(v) tabulate(v)), kinds = c("ties", "plain"),
    layouts = "whole")))
  expect_all_same(found)
})

test_that("medians, quantiles and what rests on them agree with base R", {
  calls <- list("median" = median, "median na.rm" = function(v) median(v, na.rm = TRUE), "mad" = mad,
    "mad na.rm" = function(v) mad(v, na.rm = TRUE), "mad low" = function(v)
    mad(v, low = TRUE, na.rm = TRUE), "IQR" = function(v) IQR(v, na.rm = TRUE), "IQR NA" = IQR, "IQR type" = function(v)
    IQR(v, TRUE, 2), "fivenum" = fivenum, "fivenum NA" = function(v) fivenum(v, na.rm = FALSE), "quantile" = function(v)
    quantile(v, na.rm = TRUE), "quantile 3" = function(v) quantile(v, c(0.1, 0.9), na.rm = TRUE, type = 3))
  # mad() of nothing that has names has some in base R
  found <- c(over_vectors(calls, layouts = "whole", limit = 4, named = FALSE),
    composed(over_vectors(calls, limit = 4, named = FALSE)))
  expect_all_same(found)
})

test_that("base R's own match() and %in% compare numbers, not their texts", {
  x <- 0.1 + 0.2
  expect_identical(base::match(gpu(x), c(0.3, x)), 2L)
  expect_identical(base::match(c(1, x), gpu(x)), c(NA, 1L))
})

test_that("order(), rank(), match() and unique() of int64 arrays have all digits", {
  skip_if_not_installed("bit64")
  big <- bit64::as.integer64(c("9007199254740993", "9007199254740992", NA, "9007199254740993"))
  x <- gpu(big)
  expect_identical(collect(order(x)), c(2L, 1L, 4L, 3L))
  expect_identical(collect(rank(x)), rank(c(2, 1, NA, 2)))
  expect_identical(collect(duplicated(x)), c(FALSE, FALSE, FALSE, TRUE))
  expect_identical(collect(match(x, x[2:4])), c(3L, 1L, 2L, 3L))
})

test_that("what is recorded is fused with a comparison with a few numbers", {
  x <- gpu(as.double(1:100))
  y <- x %in% c(2, 3, NA)
  expect_true(gpu_info(y)$pending > 0)
  expect_identical(collect(x[y]), c(2, 3))
})

test_that("the orders are as many as they were", {
  expect_cases(20000L)
})
