# int64 beyond 2^53, which doubles cannot distinguish: functions of equal elements and of order are exact, and a result
# that must be an R double is NA, with a warning.

skip_if_not_installed("bit64")
texts <- c("9007199254740993", "9007199254740992", "5", NA, "9007199254740993", "-9007199254740995", "9007199254740994",
  "4611686018427387905", "4611686018427387904", "-9007199254740996", "0")
whole64 <- bit64::as.integer64(texts)
lost <- "NAs produced: integers beyond 2^53 are not exact as doubles"

# What base R finds of the same elements as strings, whose order is that of the numbers.
ranks <- c(9, 7, 4, NA, 9, 2, 10, 12, 11, 1, 3)
sorted_texts <- function(x) x[order(match(x, texts[order(ranks)]))]
digits <- function(x) if (is_gpu(x) || inherits(x, "integer64")) bit64::as.character.integer64(collect(x)) else
  as.character(x)

over_int64 <- function() {
  found <- list()
  same <- function(what, got, want) {
    cases$n <- cases$n + 1L
    got <- outcome(got)
    if (length(got$warnings)) found <<- c(found, sprintf("%s: warned: %s", what, got$warnings[1L]))
    if (!identical(got$value, want))
      found <<- c(found, sprintf("%s: %s and not %s", what, deparse1(got$value), deparse1(want)))
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
    for (g in list(sum, max, length, function(v) 2 * sum(v)))
      same("tapply", c(collect(tapply(w, x, g))), c(tapply(v, f, g)))
    same("tapply of numbers", c(tapply(v, x, sum)), c(tapply(v, f, sum)))
    same("rowsum", collect(rowsum(w[!is.na(x)], known)), rowsum(v[!is.na(s)], as.integer(f)[!is.na(s)],
      reorder = TRUE) |> `rownames<-`(levels(f)))
    same("split", lapply(split(w, x), as.vector), split(v, f))
    same("split of numbers", split(v, x), split(v, f))
    same("unsplit", as.vector(unsplit(split(w[!is.na(x)], known), known)), v[!is.na(s)])
    same("ave", as.vector(ave(w[!is.na(x)], known)), ave(v[!is.na(s)], droplevels(f[!is.na(s)])))
    same("gpu_group", as.vector(gpu_group(w, x, "count")), as.vector(table(f)))
    same("as.factor", as.character(as.factor(x)), s)
    same("rle", bit64::as.character.integer64(rle(sort(x))$values), levels(f))
    same("table, exclude integer64", names(table(x, exclude = whole64[2L])), setdiff(c(levels(f), NA), texts[2L]))
    # levels as an integer64, of which base::match() of R before 4.3 takes the bits
    wide <- bit64::as.integer64(levels(f))
    same("factor", factor(x, wide), f)
    same("factor, array", factor(x, gpu(wide)), f)
    same("ordered", ordered(x, rev(wide)), ordered(s, rev(levels(f))))
    same("factor, some", factor(x, wide[c(7L, 2L)]), factor(s, levels(f)[c(7L, 2L)]))
    same("factor, labels", factor(x, wide, labels = letters[seq_along(wide)]),
      factor(s, levels(f), letters[seq_along(wide)]))
    same("factor, exclude", factor(x, wide, exclude = wide[8:9]), factor(s, levels(f), exclude = levels(f)[8:9]))
    same("factor, exclude alone", factor(x, exclude = wide[8:9]),
      factor(s, c(levels(f)[-(8:9)], NA), exclude = NULL))
    same("factor, NA", factor(x, c(wide, NA), exclude = NULL), factor(s, c(levels(f), NA), exclude = NULL))
    # lookups
    same("match", as.vector(match(x, x)), match(s, s))
    same("match with integer64", as.vector(match(x, whole64)), match(s, texts))
    same("match of integer64", match(whole64, x), match(texts, s))
    same("match of a number", match(2^53, x), match("9007199254740992", s))
    same("match with numbers", as.vector(match(x, c(2^53, 5, NA, .5, 1e300, -Inf))),
      match(s, c("9007199254740992", "5", NA)))
    same("match with many", as.vector(match(x, c(1:20, 2^53, NaN, 2^63, -2^63))), match(s, c(1:20, "9007199254740992")))
    same("match of many", match(c(2^53, 2^62, 5, 2^53 + 2, .5, NaN), x),
      match(c("9007199254740992", "4611686018427387904", "5", "9007199254740994", ".5", ".5"), s))
    same("match with an array of doubles", as.vector(match(x, gpu(c(2^53, 2^62)))),
      match(s, c("9007199254740992", "4611686018427387904")))
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
    for (ties in c("average", "min", "max", "first"))
      same("rank", as.vector(rank(x, ties.method = ties)), rank(place, ties.method = ties))
    same("which.max", which.max(x), which.max(place))
    same("which.min", which.min(x), which.min(place))
    same("is.unsorted", c(is.unsorted(sort(x)), is.unsorted(known), is.unsorted(sort(x), strictly = TRUE)),
      c(FALSE, TRUE, TRUE))
    same("cummax", digits(cummax(known)), sorted_texts(unique(s[!is.na(s)]))[cummax(place[!is.na(s)])])
    same("cummin", digits(cummin(known)), sorted_texts(unique(s[!is.na(s)]))[cummin(place[!is.na(s)])])
    same("group extremes", digits(strip_dims(gpu_group(known, gpu(rep(1L, length(known))), "max"))),
      "4611686018427387905")
    same("apply max", digits(apply(matrix(known, 2L), 1L, max)),
      vapply(1:2, function(k) rev(sorted_texts(matrix(s[!is.na(s)], 2L)[k, ]))[1L], ""))
    # intervals: how many bounds are at most each element
    bounds <- c(-Inf, -2^63, -2^53, 5, 2^53, 2^53 + 2, 2^62, 2^63)
    below <- c(5, 5, 4, NA, 5, 2, 6, 7, 7, 2, 3)
    same("findInterval", as.vector(findInterval(x, bounds)), as.integer(rep(below, times)))
    strictly <- c(5, 4, 3, NA, 5, 2, 5, 7, 6, 2, 3)
    same("findInterval, left", as.vector(findInterval(x, bounds, left.open = TRUE)), as.integer(rep(strictly, times)))
    many <- sort(c(bounds, seq(6.5, 40.5)))
    above <- ifelse(place > 4L, 35, 0)[seq_along(texts)]
    same("findInterval of many", as.vector(findInterval(x, many)), as.integer(rep(below + above, times)))
    same("findInterval of many, left", as.vector(findInterval(x, many, left.open = TRUE)),
      as.integer(rep(strictly + above, times)))
    same("findInterval in int64", findInterval(c(-Inf, -2^53, 5.5, 2^53, 2^53 + 2, 2^62, 2^63, Inf), sort(x)),
      as.integer(times * c(0, 2, 4, 5, 8, 9, 10, 10)))
    same("findInterval in int64, itself", as.vector(findInterval(x, sort(unique(known)))), as.integer(place))
    same("findInterval in integer64", as.vector(findInterval(x, collect(sort(unique(known))))), as.integer(place))
    # groups of integer64 that are one double base R has in any order
    sums <- aggregate(data.frame(v = w[!is.na(x)]), list(k = known), sum)
    same("aggregate", as.vector(sums$v)[match(levels(f), digits(sums$k))], as.vector(tapply(v, f, sum)))
    same("cut", as.integer(cut(x, c(-Inf, 2^53, Inf))), rep(c(2L, 1L, 1L, NA, 2L, 1L, 2L, 2L, 2L, 1L, 1L), times))
    # comparisons with doubles
    for (bound in c(2^53, 2^53 + 2, 2^62, 5.5, -2^53 - 4, 2^63, -2^63, Inf, -Inf, NaN, NA)) {
      exact <- function(op) vapply(texts, function(t) if (is.na(t) || is.na(bound)) NA else exactly(op, t, bound), NA,
        USE.NAMES = FALSE)
      for (op in c("==", "!=", "<", "<=", ">", ">=")) {
        f2 <- get(op)
        same(paste(op, bound), as.vector(f2(x, bound)), rep(exact(op), times))
        same(paste(op, bound, "as vector"), as.vector(f2(x, rep(bound, n))), rep(exact(op), times))
        same(paste(op, bound, "as array"), as.vector(f2(x, gpu(rep(bound, n)))), rep(exact(op), times))
        same(paste(bound, op),
          as.vector(get(c("==" = "==", "!=" = "!=", "<" = ">", "<=" = ">=", ">" = "<", ">=" = "<=")[[op]])(bound, x)),
          rep(exact(op), times))
      }
    }
  }
  # what must be a double
  x <- gpu(whole64)
  says <- function(what, code, want) {
    got <- outcome(code)
    if (!length(got$warnings) || !all(startsWith(got$warnings, lost)))
      found <<- c(found, sprintf("%s: warned %s", what, deparse1(got$warnings)))
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

# ---- the rule, function by function --------------------------------------------------------------------

around <- function(centre) bit64::as.integer64(centre) + bit64::as.integer64(c(-3:3, NA))
grids <- list("2^53" = around("9007199254740992"), "2^62" = around("4611686018427387904"),
  "-2^53" = -around("9007199254740992"), small = around("0"))
rounded <- "integer precision lost while converting to double"

# Exact: as bit64 has it, int64, without a warning. `w` is the integer64 of `v`, known elements first.
stays <- list(
  "v + 1L" = function(v) v + 1L, "v - v[1]" = function(v) v - v[1L], "v + TRUE" = function(v)
    v + TRUE, "-v" = function(v) -v, "abs" = function(v) abs(v), "sign" = function(v) sign(v),
  "c, itself" = function(v) c(v, v), "c, integers" = function(v) c(v, 1L, 2L), "c, logicals" = function(v)
    c(v, TRUE), "rev" = function(v) rev(v), "parts" = function(v) v[c(3L, 1L)], "head" = function(v) head(v, 2L),
  "rep" = function(v) rep(v, 2L), "diff" = function(v) diff(v), "floor" = function(v) floor(v), "ceiling" = function(v)
    ceiling(v), "trunc" = function(v) trunc(v), "round" = function(v) round(v), "round, digits" = function(v)
    round(v, 2L),
  "assigned integer" = function(v) { v[2L] <- 1L; v }, "assigned itself" = function(v)
    { v[2L] <- v[1L]; v }, "append" = function(v) append(v, v[1L])
)
# The same where bit64 has no such method: what it is to be, of the integer64.
is_to_be <- list(
  "ifelse" = list(function(v, w) ifelse(is.na(v), 0L, v), function(w) { w[is.na(w)] <- 0L; w }),
  "ifelse, integer64" = list(function(v, w) ifelse(is.na(v), w[2L], v), function(w) { w[is.na(w)] <- w[2L]; w }),
  "pmin" = list(function(v, w) pmin(v, v[3L]), function(w) { w[which(w > w[3L])] <- w[3L]; w }),
  "pmax" = list(function(v, w) pmax(v, v[3L]), function(w) { w[which(w < w[3L])] <- w[3L]; w }),
  "pmax, integer64" = list(function(v, w) pmax(v, w[3L]), function(w) { w[which(w < w[3L])] <- w[3L]; w }),
  "pmax, integers" = list(function(v, w) pmax(v, 0L), function(w) { w[which(w < 0L)] <- 0L; w }),
  "pmin, na.rm" = list(function(v, w) pmin(v, w[3L], na.rm = TRUE), function(w) { w[is.na(w) | w > w[3L]] <- w[3L]
  w }),
  "Re" = list(function(v, w) Re(v), identity), "Conj" = list(function(v, w) Conj(v), identity),
    "Mod" = list(function(v, w) Mod(v), abs),
  "as_gpu" = list(function(v, w) as_gpu(w, device = gpu_device(v)), identity),
  "c, integer64" = list(function(v, w) c(v, w), function(w) c(w, w)),
    "unlist" = list(function(v, w) unlist(list(v, list(w, 1L))), function(w) c(w, w, bit64::as.integer64(1))),
  "cbind" = list(function(v, w) cbind(v, v), function(w) c(w, w)), "cbind, integer64" = list(function(v, w) cbind(v, w),
    function(w) c(w, w)), "cbind, integers" = list(function(v, w) cbind(v, 1L), function(w)
    c(w, rep(bit64::as.integer64(1), length(w)))),
  "rbind, integer64" = list(function(v, w) t(rbind(v, w)), function(w) c(w, w)),
  "outer, -" = list(function(v, w) outer(v, w[1:2], "-"), function(w) c(w - w[1L], w - w[2L])),
    "outer" = list(function(v, w) outer(v, 1:2 - 1L), function(w) c(w * 0L, w)),
  "%o%" = list(function(v, w) v %o% c(TRUE, TRUE), function(w) c(w, w)),
    "kronecker" = list(function(v, w) kronecker(v, c(1L, 1L)), function(w) rep(w, each = 2L)),
  "assigned integer64" = list(function(v, w) { v[2L] <- w[1L]; v }, function(w) { w[2L] <- w[1L]; w }),
    "assigned NA" = list(function(v, w) { v[2L] <- NA; v }, function(w) { w[2L] <- NA; w }),
  "assigned to integers" = list(function(v, w) { x <- gpu(seq_along(w)); x[] <- v; x }, identity),
  "rowSums" = list(function(v, w) rowSums(cbind(v, 1L, -2L)), function(w) w - 1L),
    "colSums" = list(function(v, w) colSums(rbind(v, 1L, -2L)), function(w) w - 1L),
  "rowSums, na.rm" = list(function(v, w) rowSums(cbind(v, 1L), na.rm = TRUE), function(w) { w[is.na(w)] <- 0L
  w + 1L }),
  "apply" = list(function(v, w) apply(cbind(v, 1L), 1L, sum), function(w) w + 1L),
    "marginSums" = list(function(v, w) marginSums(cbind(v, 1L), 1L), function(w) w + 1L),
  "gpu_group" = list(function(v, w) gpu_group(c(v, v * 0L + 1L), rep(seq_along(w), 2L), "sum"), function(w) w + 1L),
    "tapply" = list(function(v, w) tapply(v, seq_along(w), max), identity),
  "rowsum of numbers" = list(function(v, w) rowsum(c(v, v * 0L), rep(seq_along(w) + .5, 2L)), identity),
    "rowsum" = list(function(v, w) rowsum(c(v, v * 0L), gpu(rep(seq_along(w), 2L))), identity),
    "cummax" = list(function(v, w) cummax(v[1:7]), function(w) if (w[1L] < w[2L]) w[1:7] else w[rep(1L, 7L)]),
  "cumsum" = list(function(v, w) cumsum(c(v[1:2], -v[1:2])), function(w) c(w[1L], w[1L] + w[2L], w[2L], w[2L] - w[2L])),
    "embed" = list(function(v, w) embed(v, 1L), identity)
)
# Float64 of the nearest doubles, with one warning where one of them is another number.
becomes_double <- list(
  "+" = function(v) v + 1, "*" = function(v) 2 * v, "/" = function(v) v / 2L, "^" = function(v) v^2, "%%" = function(v)
    v %% 7, "exp" = function(v) exp(-abs(v)), "sqrt" = function(v) sqrt(abs(v)), "atan2" = function(v)
    atan2(v, 2), "signif" = function(v) signif(v, 3L),
  "beside an array" = function(v) v + gpu(.5), "vectors" = function(v) v + seq(.5, 7.5), "complex" = function(v)
    v + 1i, "cast" = function(v) gpu_cast(v, "float64"), "cast to complex" = function(v) gpu_cast(v, "complex128"),
  "c" = function(v) c(v, .5), "ifelse" = function(v) ifelse(is.na(v), .5, v), "pmax" = function(v)
    pmax(v, .5), "cbind" = function(v) cbind(v, .5), "rbind" = function(v) rbind(.5, v), "unlist" = function(v)
    unlist(list(v, .5)), "outer" = function(v) outer(v, c(.5, 2)),
  "assigned a double" = function(v) { v[8L] <- .5; v }, "assigned to doubles" = function(v)
    { x <- gpu(rep(.5, 8L)); x[] <- v; x },
  "mean" = function(v) mean(v[1:7]), "mean, na.rm" = function(v) mean(v, na.rm = TRUE), "var" = function(v)
    var(v[1:7]), "sd" = function(v) sd(v[1:7]), "prod" = function(v) prod(v[1:7]), "rowMeans" = function(v)
    rowMeans(cbind(v, v)), "colMeans" = function(v) colMeans(cbind(v, v)), "apply mean" = function(v)
    apply(cbind(v, v), 1L, mean),
  "gpu_group mean" = function(v) gpu_group(v, rep(1:2, 4L), "mean"), "gpu_group var" = function(v)
    gpu_group(v, rep(1:2, 4L), "var"), "%*%" = function(v) cbind(v[1:7]) %*% c(1, 2), "crossprod" = function(v)
    crossprod(cbind(v[1:7])),
  "weighted.mean" = function(v) weighted.mean(v[1:7], 1:7), "approx" = function(v)
    approx(v[1:7], 1:7, 0)$y, "Map" = function(v) unlist(Map(function(a) a, v[1:7])), "tcrossprod" = function(v)
    tcrossprod(v[1:7]), "as.complex" = function(v) as.complex(v), "gpu_compile" = function(v)
    gpu_compile(function(a) a * .5)(v)
)

over_rule <- function() {
  found <- list()
  tell <- function(...) found <<- c(found, sprintf(...))
  text <- function(x) {
    y <- bit64::as.character.integer64(if (is_gpu(x)) collect(x) else x)
    y[y %in% "NA"] <- NA
    as.vector(y)
  }
  exactly_as <- function(what, code, want) {
    cases$n <- cases$n + 1L
    got <- outcome(code)
    if (length(got$warnings)) return(tell("%s: warned: %s", what, got$warnings[1L]))
    is_whole <- is_gpu(got$value) && gpu_dtype(got$value) == "int64" || inherits(got$value, "integer64")
    if (!is_whole) return(tell("%s: is no int64", what))
    if (!identical(text(got$value), text(want)))
      tell("%s: %s and not %s", what, deparse1(text(got$value)), deparse1(text(want)))
  }
  for (grid in names(grids)) {
    w <- grids[[grid]]
    loses <- grid != "small"
    for (name in names(stays))
      exactly_as(paste(name, grid), stays[[name]](gpu(w)), if (name %in% c("round, digits", "v + TRUE", "c, logicals"))
      switch(substr(name, 1L, 1L), r = w, v = w + 1L, c = c(w, bit64::as.integer64(1))) else stays[[name]](w))
    for (name in names(is_to_be))
      exactly_as(paste(name, grid), is_to_be[[name]][[1L]](gpu(w), w), is_to_be[[name]][[2L]](w))
    doubles <- suppressWarnings(as.double(w))
    for (name in names(becomes_double)) {
      cases$n <- cases$n + 1L
      f <- becomes_double[[name]]
      got <- outcome({
        out <- f(gpu(w))
        if (is_gpu(out)) collect(out) else out
      })
      want <- outcome({
        out <- f(gpu(doubles))
        if (is_gpu(out)) collect(out) else out
      })
      said <- setdiff(got$warnings, want$warnings)
      if (!identical(unique(said), if (loses) rounded else character()))
        tell("%s %s: warned %s", name, grid, deparse1(said))
      if (!identical(as.vector(got$value), as.vector(want$value)))
        tell("%s %s: %s and not %s", name, grid, deparse1(as.vector(got$value)), deparse1(as.vector(want$value)))
    }
  }
  found
}

test_that("each function is exact in int64 beyond 2^53, or warns", {
  expect_all_same(over_rule())
  expect_composed_same(over_rule)
})

# An integer64 beside an int64 array, in a function that computes in doubles: its numbers, and not its bits.
test_that("base R's functions get an integer64 beside an array as its numbers", {
  calls <- list(
    "%*%" = function(v, w) v %*% w, "%*%, reversed" = function(v, w) w %*% v, crossprod = function(v, w)
      crossprod(v, w), tcrossprod = function(v, w) tcrossprod(w, v), cov = function(v, w) cov(v, w),
    var = function(v, w) var(v, w), cor = function(v, w) cor(v, w, method = "spearman"),
    sweep = function(v, w) sweep(matrix(v, 2L), 2L, w[1:3]), scale = function(v, w) scale(matrix(v, 2L), w[1:3], FALSE),
    weighted.mean = function(v, w) weighted.mean(v, w), mahalanobis = function(v, w)
      mahalanobis(matrix(v, 2L), w[1:3], diag(3L)),
    filter = function(v, w) filter(v, w[1:2]), solve = function(v, w) solve(gpu(diag(6L)), w),
    cut = function(v, w) cut(v, w[c(2L, 1L, 5L)]), rep = function(v, w) rep(v, w),
    rep_len = function(v, w) rep_len(v, w[1L]), diff = function(v, w) diff(v, w[1L])
  )
  numbers <- c(3, 1, 2, 3, 7, 2)
  for (name in names(calls)) for (n in c(1L, 20L)) {
    many <- rep(numbers, if (name %in% c("%*%", "crossprod", "cov", "var")) n else 1L)
    got <- outcome(calls[[name]](gpu(many, "int64"), bit64::as.integer64(many)))
    want <- outcome(calls[[name]](many, many))
    plain <- function(y) if (is.factor(y)) y else as.double(y)
    expect_equal(plain(got$value), plain(want$value), tolerance = 1e-14, info = name)
    expect_identical(got$warnings, want$warnings, info = name)
  }
})

test_that("sums of groups that overflow int64 are NA with bit64's warning", {
  w <- bit64::as.integer64(c("4611686018427387904", "4611686018427387904", "1", NA, "5", "6"))
  over <- "NAs produced by integer64 overflow"
  sums <- bit64::as.integer64(c(NA, NA, "11"))
  calls <- list(rowSums = function(v) rowSums(matrix(v, 3L, byrow = TRUE)), colSums = function(v)
    colSums(matrix(v, 2L)), apply = function(v) apply(matrix(v, 2L), 2L, sum),
    gpu_group = function(v) c(gpu_group(v, rep(1:3, each = 2L), "sum")), tapply = function(v)
      c(tapply(v, rep(1:3, each = 2L), sum)))
  run <- function() {
    for (name in names(calls)) {
      got <- outcome(calls[[name]](gpu(w)))
      expect_identical(got$warnings, over, info = name)
      expect_identical(as.character(c(got$value)), as.character(sums), info = name)
      # of missing elements there is no warning
      expect_identical(outcome(calls[[name]](gpu(w)[c(1L, 3L, 3L, 4L, 5L, 6L)]))$warnings, character(), info = name)
    }
  }
  run()
  if (test_device == "cpu") composed(run())
})

test_that("what R reads as doubles is NA, and has a class of its own", {
  x <- function() gpu(whole64[1:3])
  reads <- list(as.vector = as.vector, as.matrix = as.matrix, as.array = as.array, "[[" = function(v)
    c(v[[1L]], v[[2L]], v[[3L]]), "apply of base R" = function(v)
    base::apply(matrix(v, 3L), 1L, sum), sapply = function(v) sapply(v, identity))
  for (name in names(reads)) {
    heard <- list()
    got <- withCallingHandlers(reads[[name]](x()), verdigris_warning_precision = function(w) {
      heard <<- c(heard, list(conditionMessage(w)))
      invokeRestart("muffleWarning")
    })
    expect_identical(as.vector(got), c(NA, 2^53, 5), info = name)
    expect_true(length(heard) > 0L && all(startsWith(unlist(heard), lost)), info = name)
  }
  expect_warning(collect(x() + .5), rounded, class = "verdigris_warning_precision")
  # an integer64 beside doubles
  expect_warning(collect(gpu(c(.5, 1)) + whole64[1L]), rounded, class = "verdigris_warning_precision")
  expect_no_warning(collect(gpu(c(.5, 1)) + whole64[2L]))
})

test_that("routines compare int64 with numbers exactly", {
  tests <- list(function(a) a == 9007199254740992, function(a) a > 9007199254740992, function(a) 9007199254740992 <= a,
    function(a) a < 9223372036854775808, function(a) a != 5.5, function(a) a >= -9007199254740994.5)
  for (f in tests) expect_identical(outcome(gpu_compile(f)(gpu(whole64)))[c("value", "warnings")],
    outcome(f(gpu(whole64)))[c("value", "warnings")], info = deparse1(f))
})

test_that("base R's match() and merge() tell int64 apart", {
  skip_if(getRversion() < "4.2.0")
  x <- gpu(whole64)
  expect_identical(base::match(x, x), match(texts, texts))
  expect_identical(base::match(c(2^53, 5, 2^62, NA), x), c(2L, 3L, 9L, 4L))
  expect_identical(base::match(x[c(8L, 3L)], c(5, 2^62)), c(NA, 1L))
  both <- merge(data.frame(k = gpu(unique(whole64[-4L])), a = 1:9), data.frame(k = gpu(unique(whole64[-4L])), b = 1:9))
  expect_identical(sort(both$a), 1:9)
  expect_identical(both$a, both$b)
})

test_that("aggregate() has the groups of int64 keys, and exact sums", {
  v <- bit64::as.integer64(c("9007199254740993", "9007199254740995", "4"))
  keys <- whole64[c(1L, 2L, 1L)]
  for (sums in list(aggregate(gpu(v), list(k = gpu(keys)), sum), aggregate(data.frame(x = gpu(v)), list(k = gpu(keys)),
    sum))) {
    expect_identical(sort(as.character(sums$k)), sort(texts[1:2]))
    expect_identical(as.character(sums$x)[match(texts[1:2], as.character(sums$k))],
      c("9007199254740997", "9007199254740995"))
  }
})

test_that("values of int64 that are doubles too are as doubles", {
  x <- c(3, 1, NA, 3, 2^52, -7, 1)
  calls <- list(
    table = function(v) as.vector(table(v)), tapply = function(v) c(tapply(1:7, v, sum)), match = function(v)
      match(v, c(3, 2^52)), "in" = function(v) v %in% c(1, NA), findInterval = function(v)
      findInterval(v, c(0, 2.5, 3)), cut = function(v) cut(v, c(-10, 1, 3, 2^52)), "cut in three" = function(v)
      cut(v, 3),
    rank = function(v) rank(v), max = function(v) max(v, na.rm = TRUE), range = function(v)
      range(v, na.rm = TRUE), median = function(v) median(v, na.rm = TRUE), quantile = function(v)
      quantile(v, na.rm = TRUE), hist = function(v) hist(v, plot = FALSE)$counts, setdiff = function(v)
      as.vector(setdiff(v, 3)), weighted = function(v) weighted.mean(v[1:2], c(1, 3))
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

test_that("each R function that reads int64 as NA is warned, once while it runs", {
  heard <- function(code) {
    n <- 0L
    withCallingHandlers(code, verdigris_warning_precision = function(w) {
      n <<- n + 1L
      invokeRestart("muffleWarning")
    })
    n
  }
  # C code of R's that asks for an address, for a region, and for one element after the other
  reads <- list(address = function(v) .Internal(rowsum_matrix(matrix(1, 3L), v, c(5, 7), FALSE, c("a", "b"))),
    whole = function(v) rev(stats::ecdf(c(v))(1)), elements = function(v) vapply(v, identity, 1),
    complete = function(v) stats::complete.cases(data.frame(v = v)))
  for (name in names(reads)) {
    x <- gpu(whole64[c(1L, 3L, 2L)])
    f <- reads[[name]]
    for (times in 1:3) expect_gte(heard(f(x)), 1L, label = paste(name, times))
    # what loses nothing is read in silence
    y <- gpu(whole64[c(2L, 3L, 4L)])
    for (times in 1:2) expect_identical(heard(try(f(y), silent = TRUE)), 0L, label = name)
  }
  # once in a loop of one function
  x <- gpu(whole64[c(1L, 3L)])
  loop <- function(v) for (k in 1:20) .Internal(rowsum_matrix(matrix(1, 2L), v, c(5, 7), FALSE, c("a", "b")))
  expect_identical(heard(loop(x)), 1L)
  # a copy that R makes, and what C code has written to
  y <- x
  attr(y, "note") <- "a"
  expect_gte(heard(stats::complete.cases(data.frame(v = y))), 1L)
  x[1L] <- 4L
  expect_identical(heard(stats::complete.cases(data.frame(v = x))), 0L)
  # rows, not numbers, are lost to base R's own functions
  keys <- gpu(whole64[c(1L, 2L, 5L)])
  expect_gte(heard(aggregate(1:3, list(k = keys), sum)), 1L)
  expect_gte(heard(aggregate(1:3, list(k = keys), sum)), 1L)
  expect_gte(heard(rowsum(1:3, keys)), 1L)
  expect_gte(heard(rowsum(1:3, keys)), 1L)
})

test_that("extremes of no 64-bit integers warn as base R's do", {
  none <- gpu_cast(gpu(integer()), "int64")
  missing <- gpu_cast(gpu(NA_integer_), "int64")
  for (x in list(none, missing)) for (name in c("min", "max", "range")) {
    f <- get(name)
    said <- function(v) {
      words <- character()
      value <- withCallingHandlers(f(v, na.rm = TRUE), warning = function(w) {
        words <<- c(words, conditionMessage(w))
        invokeRestart("muffleWarning")
      })
      list(value, words)
    }
    expect_identical(said(x), said(numeric()))
  }
})

test_that("repeated elements, and rows of matrices, are told by their values", {
  set.seed(12)
  int64 <- function(v) gpu_cast(as_gpu(v, device = test_device), "int64")
  for (k in 1:20) {
    v <- sample(c(-9:9, NA), 12, TRUE) + 0
    # as doubles the bits of all negative integers are NaN
    for (last in c(TRUE, FALSE)) {
      expect_identical(anyDuplicated(int64(v), fromLast = last), anyDuplicated(v, fromLast = last))
      expect_identical(as.vector(duplicated(int64(v), fromLast = last)), duplicated(v, fromLast = last))
    }
    m <- matrix(sample(c(-1, -2, 5, NA), 16, TRUE), 8, dimnames = list(letters[1:8], NULL))
    for (margin in 1:2) {
      expect_equal(duplicated(int64(m), MARGIN = margin), duplicated(m, MARGIN = margin))
      expect_identical(anyDuplicated(int64(m), MARGIN = margin), anyDuplicated(m, MARGIN = margin))
      got <- unique(int64(m), MARGIN = margin)
      want <- unique(m, MARGIN = margin)
      expect_identical(gpu_dtype(got), "int64")
      expect_identical(dimnames(got), dimnames(want))
      expect_identical(as.vector(got), as.vector(want))
    }
  }
})
