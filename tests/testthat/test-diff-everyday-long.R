# The everyday functions on many elements, beyond every block, piece and table of the devices: 1e5 + 1, as a vector,
# matrices and arrays of three dimensions that are contiguous, views or recorded. A part here; all types, kinds of
# values and layouts where VERDIGRIS_EXAMPLES is "all" (make examples).

all_of_them <- Sys.getenv("VERDIGRIS_EXAMPLES") == "all"

test_that("functions of long vectors agree with base R", {
  skip_if(emulated, "as telling on the cpu device, and slow")
  at <- function(v) seq(1L, length(v), 7L)
  exact <- list(
    "sort" = sort, "sort decreasing" = function(v) sort(v, decreasing = TRUE, na.last = TRUE), "order" = function(v)
      order(v), "order two" = function(v) order(v, rev(v), decreasing = TRUE), "rank" = function(v)
      rank(v, ties.method = "min"), "rank average" = rank, "unique" = unique, "duplicated" = duplicated,
      "rle" = function(v) unclass(rle(v)), "is.unsorted" = is.unsorted,
    "match" = function(v) match(v, rev(v)[at(v)]), "in" = function(v) v %in% c(1, NA), "table" = function(v)
      table(trunc(v), useNA = "ifany"), "tabulate" = function(v)
      tabulate(abs(trunc(v * 10)) + 1, 100), "findInterval" = function(v)
      findInterval(v, seq(-3, 3, 0.25)), "cut" = function(v) cut(v, c(-1, 0, 2), labels = FALSE), "which" = function(v)
      which(v > 0), "which.max" = which.max, "range" = function(v) range(v, na.rm = TRUE),
    "quantile" = function(v) quantile(v, c(0.01, 0.5, 0.99), na.rm = TRUE), "median" = function(v)
      median(v, na.rm = TRUE), "cummax" = cummax, "diff" = diff, "rev" = rev, "tail" = function(v)
      tail(v, 70000), "rep" = function(v) rep(v, 2), "rep each" = function(v) rep(v, each = 2), "c" = function(v)
      c(v, v, 1L), "embed" = function(v) embed(v, 2),
    "x[i]" = function(v) v[at(v)], "x[-i]" = function(v) v[-at(v)], "x[mask]" = function(v)
      v[v > 0], "x[NA]" = function(v) v[c(at(v), NA, length(v) + 1)], "x[i] <-" = function(v)
      { v[at(v)] <- 0L; v }, "x[mask] <-" = function(v) { v[is.na(v)] <- 1L; v[v > 1] <- 0L; v },
      "x[last twice] <-" = function(v) { v[c(at(v), at(v))] <- seq_len(2 * length(at(v))); v },
    "tapply" = function(v) tapply(v, seq_along(v) %% 20000, max), "split" = function(v)
      split(v, seq_along(v) %% 30)[[7L]], "ave" = function(v)
      ave(v, seq_along(v) %% 300, FUN = min), "ifelse" = function(v) ifelse(v > 0, v, -1L), "pmax" = function(v)
      pmax(v, rev(v)), "complete.cases" = complete.cases)
  close <- list("cumsum" = cumsum, "sum" = function(v) sum(v, na.rm = TRUE), "mean" = function(v) mean(v, na.rm = TRUE),
    "var" = function(v) var(v, na.rm = TRUE), "cumprod" = function(v) cumprod(1 + v / 1e6), "tapply mean" = function(v)
    tapply(v, seq_along(v) %% 500, mean), "filter" = function(v)
    filter(v, c(0.25, 0.5, 0.25)), "weighted.mean" = function(v) weighted.mean(v, seq_along(v), na.rm = TRUE),
    "cov" = function(v) cov(v, rev(v)), "mad" = function(v) mad(v, na.rm = TRUE))
  n <- 100001L
  types <- if (all_of_them) c("double", "integer", "logical") else "double"
  kinds <- if (all_of_them) names(variants) else "ties"
  layouts <- if (all_of_them) names(arrangements) else "view"
  found <- c(over_vectors(exact, types, kinds, n, 4, layouts, FALSE), over_vectors(close, setdiff(types, "logical"),
    intersect(kinds, c("ties", "plain")), n, 2^20, layouts, FALSE))
  found <- c(found, composed(over_vectors(exact, "integer", "plain", n, 4, "whole", FALSE)))
  expect_all_same(found)
})

test_that("functions of large matrices and arrays of three dimensions agree with base R", {
  skip_if(emulated, "as telling on the cpu device, and slow")
  of_matrices <- list("t" = function(m) t(m), "rows" = function(m) m[c(7:3, 1L), ], "columns" = function(m) m[, -(2:5)],
    "scattered" = function(m) m[m[, 1L] %in% 2, , drop = FALSE], "places" = function(m)
    m[cbind(1:9, 9:1)], "m[i, ] <-" = function(m) { m[3:9, ] <- 1L; m }, "cbind" = function(m)
    cbind(m, 1L), "rbind" = function(m) rbind(m, m[2L, ]), "diag" = diag, "upper" = function(m) m[upper.tri(m)],
    "apply" = function(m) apply(m, 1, max), "sweep" = function(m) sweep(m, 2, m[1L, ]), "rowSums" = function(m)
      rowSums(m, na.rm = TRUE), "colSums" = function(m) colSums(m, na.rm = TRUE), "+ t" = function(m)
      m + t(t(m)), "max" = function(m) max(m, na.rm = TRUE), "outer" = function(m)
      outer(m[, 1L], m[2L, ], "+"), "aperm" = function(m) aperm(m) + 1L)
  # base R's 80 bits lose more digits where large numbers cancel
  sums <- list("rowsum" = function(m) rowsum(m, seq_len(nrow(m)) %% 9L, na.rm = TRUE))
  of_cubes <- list("aperm 231" = function(a) aperm(a, c(2, 3, 1)) + 1L, "aperm 213" = function(a) aperm(a, c(2, 1, 3)),
    "a[i, , ]" = function(a) a[3:1, , ], "a[, i, ]" = function(a) a[, -1L, ], "a[, , i]" = function(a)
    a[, , c(2L, 2L)], "apply" = function(a) apply(a, 2, max), "apply 31" = function(a)
    apply(a, c(3, 1), min), "rowSums" = function(a) rowSums(a, na.rm = TRUE, dims = 2L), "colSums" = function(a)
    colSums(a, na.rm = TRUE), "sweep" = function(a) sweep(a, c(1, 3), 1L), "a[, i, ] <-" = function(a)
    { a[, 2L, ] <- 0L; a }, "asplit" = function(a) asplit(a, 3)[[2L]])
  types <- if (all_of_them) c("double", "integer", "logical") else "integer"
  kinds <- if (all_of_them) c("edges", "ties", "plain") else "ties"
  layouts <- if (all_of_them) names(arrangements) else "view"
  found <- c(over_matrices(of_matrices, types, kinds, list(c(317L, 316L), c(9L, 11112L)), 2^12, layouts),
    over_matrices(of_cubes, types, kinds, list(c(47L, 46L, 47L), c(3L, 1L, 33334L)), 2^12, layouts))
  found <- c(found, over_matrices(sums, types, kinds, list(c(317L, 316L)), 2^20, layouts))
  expect_all_same(found)
})

test_that("the long cases are as many as they were", {
  skip_if(emulated)
  expect_cases(if (all_of_them) 1700L else 200L)
})
