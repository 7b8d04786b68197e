# int64 beyond 2^53, which doubles do not tell apart: functions of equal elements and of order are exact, and what must be an R double says that it is NA.

skip_if_not_installed("bit64")
texts <- c("9007199254740993", "9007199254740992", "5", NA, "9007199254740993", "-9007199254740995", "9007199254740994", "4611686018427387905", "4611686018427387904", "-9007199254740996", "0")
whole64 <- bit64::as.integer64(texts)
lost <- "NAs produced: integers beyond 2^53 have no double of their own"

# What base R finds of the same elements as strings, whose order is that of the numbers.
ranks <- c(9, 7, 4, NA, 9, 2, 10, 12, 11, 1, 3)
sorted_texts <- function(x) x[order(match(x, texts[order(ranks)]))]
digits <- function(x) if (is_gpu(x) || inherits(x, "integer64")) bit64::as.character.integer64(collect(x)) else as.character(x)

over_int64 <- function() {
  found <- list()
  same <- function(what, got, want) {
    cases$n <- cases$n + 1L
    got <- outcome(got)
    if (length(got$warnings)) found <<- c(found, sprintf("%s: warned: %s", what, got$warnings[1L]))
    if (!identical(got$value, want)) found <<- c(found, sprintf("%s: %s and not %s", what, deparse1(got$value), deparse1(want)))
  }
  for (times in c(1L, 30L)) {
    s <- rep(texts, times)
    x <- gpu(rep(whole64, times))
    n <- length(s)
    f <- factor(s, sorted_texts(unique(s[!is.na(s)])))
    place <- match(rep(ranks, times), sort(unique(ranks)))
    known <- x[!is.na(x)]
    v <- as.double(seq_len(n))
    w <- gpu(v)
    # keys
    same("unique", digits(unique(x)), unique(s))
    same("duplicated", as.vector(duplicated(x)), duplicated(s))
    same("anyDuplicated", anyDuplicated(x), anyDuplicated(s))
    same("table", as.vector(table(x)), as.vector(table(f)))
    same("names of a table", names(table(x)), levels(f))
    same("table, useNA", as.vector(table(x, useNA = "ifany")), as.vector(table(f, useNA = "ifany")))
    same("table of two", unname(unclass(table(x, rev(x)))[, ]), unname(unclass(table(f, rev(f)))[, ]))
    same("table, exclude", names(table(x, exclude = 5)), setdiff(c(levels(f), NA), "5"))
    for (g in list(sum, max, length, function(v) 2 * sum(v))) same("tapply", c(collect(tapply(w, x, g))), c(tapply(v, f, g)))
    same("tapply of numbers", c(tapply(v, x, sum)), c(tapply(v, f, sum)))
    same("rowsum", collect(rowsum(w[!is.na(x)], known)), rowsum(v[!is.na(s)], as.integer(f)[!is.na(s)], reorder = TRUE) |> `rownames<-`(levels(f)))
    same("split", lapply(split(w, x), as.vector), split(v, f))
    same("split of numbers", split(v, x), split(v, f))
    same("unsplit", as.vector(unsplit(split(w[!is.na(x)], known), known)), v[!is.na(s)])
    same("ave", as.vector(ave(w[!is.na(x)], known)), ave(v[!is.na(s)], droplevels(f[!is.na(s)])))
    same("gpu_group", as.vector(gpu_group(w, x, "count")), as.vector(table(f)))
    same("as.factor", as.character(as.factor(x)), s)
    same("rle", bit64::as.character.integer64(rle(sort(x))$values), levels(f))
    # lookups
    same("match", as.vector(match(x, x)), match(s, s))
    same("match with integer64", as.vector(match(x, whole64)), match(s, texts))
    same("match of integer64", match(whole64, x), match(texts, s))
    same("match of a number", match(2^53, x), match("9007199254740992", s))
    same("match with numbers", as.vector(match(x, c(2^53, 5, NA, .5, 1e300, -Inf))), match(s, c("9007199254740992", "5", NA)))
    same("match with many", as.vector(match(x, c(1:20, 2^53, NaN, 2^63, -2^63))), match(s, c(1:20, "9007199254740992")))
    same("match of many", match(c(2^53, 2^62, 5, 2^53 + 2, .5, NaN), x), match(c("9007199254740992", "4611686018427387904", "5", "9007199254740994", ".5", ".5"), s))
    same("match with an array of doubles", as.vector(match(x, gpu(c(2^53, 2^62)))), match(s, c("9007199254740992", "4611686018427387904")))
    same("in", as.vector(x %in% 2^53), s %in% "9007199254740992")
    same("in integer64", as.vector(x %in% whole64[2:3]), s %in% texts[2:3])
    same("equal", as.vector(x == 2^53), s == "9007199254740992")
    same("equal to integer64", as.vector(x == whole64[1L]), s == texts[1L])
    same("is.element", as.vector(is.element(x, c(2^53, 5))), s %in% texts[2:3])
    same("setdiff", digits(setdiff(x, 2^53)), setdiff(s, "9007199254740992"))
    same("intersect", digits(intersect(x, whole64[c(2L, 4L)])), texts[c(2L, 4L)])
    same("union", digits(union(x, c(2^53, 7))), c(unique(s), "7"))
    # order
    same("sort", digits(sort(x)), sorted_texts(s[!is.na(s)]))
    same("sort, decreasing", digits(sort(x, decreasing = TRUE)), rev(sorted_texts(s[!is.na(s)])))
    same("order", as.vector(order(x)), order(place))
    same("order of two", as.vector(order(rev(w), x)), order(rev(v), place))
    for (ties in c("average", "min", "max", "first")) same("rank", as.vector(rank(x, ties.method = ties)), rank(place, ties.method = ties))
    same("which.max", which.max(x), which.max(place))
    same("which.min", which.min(x), which.min(place))
    same("is.unsorted", c(is.unsorted(sort(x)), is.unsorted(known), is.unsorted(sort(x), strictly = TRUE)), c(FALSE, TRUE, TRUE))
    same("cummax", digits(cummax(known)), sorted_texts(unique(s[!is.na(s)]))[cummax(place[!is.na(s)])])
    same("cummin", digits(cummin(known)), sorted_texts(unique(s[!is.na(s)]))[cummin(place[!is.na(s)])])
    same("group extremes", digits(strip_dims(gpu_group(known, gpu(rep(1L, length(known))), "max"))), "4611686018427387905")
    same("apply max", digits(apply(matrix(known, 2L), 1L, max)), vapply(1:2, function(k) rev(sorted_texts(matrix(s[!is.na(s)], 2L)[k, ]))[1L], ""))
    # intervals: how many bounds are at most each element
    bounds <- c(-Inf, -2^63, -2^53, 5, 2^53, 2^53 + 2, 2^62, 2^63)
    below <- c(5, 5, 4, NA, 5, 2, 6, 7, 7, 2, 3)
    same("findInterval", as.vector(findInterval(x, bounds)), as.integer(rep(below, times)))
    strictly <- c(5, 4, 3, NA, 5, 2, 5, 7, 6, 2, 3)
    same("findInterval, left", as.vector(findInterval(x, bounds, left.open = TRUE)), as.integer(rep(strictly, times)))
    many <- sort(c(bounds, seq(6.5, 40.5)))
    above <- ifelse(place > 4L, 35, 0)[seq_along(texts)]
    same("findInterval of many", as.vector(findInterval(x, many)), as.integer(rep(below + above, times)))
    same("findInterval of many, left", as.vector(findInterval(x, many, left.open = TRUE)), as.integer(rep(strictly + above, times)))
    same("findInterval in int64", findInterval(c(-Inf, -2^53, 5.5, 2^53, 2^53 + 2, 2^62, 2^63, Inf), sort(x)), as.integer(times * c(0, 2, 4, 5, 8, 9, 10, 10)))
    same("findInterval in int64, itself", as.vector(findInterval(x, sort(unique(known)))), as.integer(place))
    same("findInterval in integer64", as.vector(findInterval(x, collect(sort(unique(known))))), as.integer(place))
    # groups of integer64 that are one double base R has in any order
    sums <- aggregate(data.frame(v = w[!is.na(x)]), list(k = known), sum)
    same("aggregate", as.vector(sums$v)[match(levels(f), digits(sums$k))], as.vector(tapply(v, f, sum)))
    same("cut", as.integer(cut(x, c(-Inf, 2^53, Inf))), rep(c(2L, 1L, 1L, NA, 2L, 1L, 2L, 2L, 2L, 1L, 1L), times))
    # comparisons with doubles
    for (bound in c(2^53, 2^53 + 2, 2^62, 5.5, -2^53 - 4, 2^63, -2^63, Inf, -Inf, NaN, NA)) {
      exact <- function(op) vapply(texts, function(t) if (is.na(t) || is.na(bound)) NA else exactly(op, t, bound), NA, USE.NAMES = FALSE)
      for (op in c("==", "!=", "<", "<=", ">", ">=")) {
        f2 <- get(op)
        same(paste(op, bound), as.vector(f2(x, bound)), rep(exact(op), times))
        same(paste(op, bound, "as vector"), as.vector(f2(x, rep(bound, n))), rep(exact(op), times))
        same(paste(op, bound, "as array"), as.vector(f2(x, gpu(rep(bound, n)))), rep(exact(op), times))
        same(paste(bound, op), as.vector(get(c("==" = "==", "!=" = "!=", "<" = ">", "<=" = ">=", ">" = "<", ">=" = "<=")[[op]])(bound, x)), rep(exact(op), times))
      }
    }
  }
  # what must be a double
  x <- gpu(whole64)
  says <- function(what, code, want) {
    got <- outcome(code)
    if (!length(got$warnings) || !all(startsWith(got$warnings, lost))) found <<- c(found, sprintf("%s: warned %s", what, deparse1(got$warnings)))
    if (!identical(unname(c(got$value)), want)) found <<- c(found, sprintf("%s: %s", what, deparse1(got$value)))
  }
  big <- gpu(whole64[c(1L, 1L, 2L)])
  says("max", max(x, na.rm = TRUE), NA_real_)
  says("min", min(x, na.rm = TRUE), NA_real_)
  says("range", range(x[c(3L, 1L)]), c(5, NA))
  says("max with a number", max(big, 3), NA_real_)
  says("sum", sum(big), NA_real_)
  says("median", median(big), NA_real_)
  says("quantile", quantile(big, c(0, .5)), c(2^53, NA))
  says("IQR", IQR(big), NA_real_)
  says("as.vector", as.vector(big), c(NA, NA, 2^53))
  says("as.double", as.double(big), c(NA, NA, 2^53))
  same("max that is a double", max(big[3L]), 2^53)
  same("sum that is a double", sum(big[3L], gpu(bit64::as.integer64(-1))), 2^53 - 1)
  found
}

strip_dims <- function(x) {
  dim(x) <- NULL
  x
}

# A comparison of an int64 with a double by their digits.
exactly <- function(op, text, bound) {
  if (abs(bound) >= 2^63) return(get(op)(0, sign(bound)))
  low <- bit64::as.integer64(floor(bound))
  a <- bit64::as.integer64(text)
  order <- if (a < low) -1 else if (a > low) 1 else if (bound > floor(bound)) -1 else 0
  get(op)(order, 0)
}

test_that("int64 beyond 2^53 is told apart, or said to be lost", {
  expect_all_same(over_int64())
  expect_composed_same(over_int64)
})

test_that("values of int64 that are doubles too are as doubles", {
  x <- c(3, 1, NA, 3, 2^52, -7, 1)
  calls <- list(
    table = function(v) as.vector(table(v)), tapply = function(v) c(tapply(1:7, v, sum)), match = function(v) match(v, c(3, 2^52)), "in" = function(v) v %in% c(1, NA), findInterval = function(v) findInterval(v, c(0, 2.5, 3)), cut = function(v) cut(v, c(-10, 1, 3, 2^52)), "cut in three" = function(v) cut(v, 3),
    rank = function(v) rank(v), max = function(v) max(v, na.rm = TRUE), range = function(v) range(v, na.rm = TRUE), median = function(v) median(v, na.rm = TRUE), quantile = function(v) quantile(v, na.rm = TRUE), hist = function(v) hist(v, plot = FALSE)$counts, setdiff = function(v) as.vector(setdiff(v, 3)), weighted = function(v) weighted.mean(v[1:2], c(1, 3))
  )
  run <- function() {
    y <- gpu(bit64::as.integer64(x))
    unlist(lapply(names(calls), function(call) {
      said <- difference(outcome(calls[[call]](y))$value, outcome(calls[[call]](x))$value, 2)
      if (!is.null(said)) paste0(call, ": ", said)
    }))
  }
  expect_all_same(run())
  expect_composed_same(run)
})
