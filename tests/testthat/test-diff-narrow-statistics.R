# Statistics of float32 and narrower arrays are computed in float64 and rounded once at the end. Means of elements
# around 1e7 have more digits than float32 holds; squares of 1e-25 and 1e20 are outside its range.

columns <- list(
  "around 1e7" = function(n) 1e7 + runif(n, 0, 20), "around 1e-25" = function(n)
    rnorm(n) * 1e-25, "around 1e20" = function(n) (2 + rnorm(n)) * 1e20, "around 1" = function(n) rnorm(n),
  "far from each other" = function(n) rnorm(n) * rep_len(c(1e-25, 1, 1e15), n)
)

weights <- c(1, 2, 0, 4)
statistics <- list(
  cov = function(m, g) cov(m), "cov of two" = function(m, g)
    cov(m[, 1L], m[, 2L]), "cov of two matrices" = function(m, g) cov(m, m[, 2:1]), cor = function(m, g)
    cor(m), "cor of two" = function(m, g) cor(m[, 1L], m[, 2L]),
  "cor with a vector" = function(m, g) cor(m, seq_len(nrow(m)) %% 5), spearman = function(m, g)
    cor(m, method = "spearman"), kendall = function(m, g)
    cor(m[1:9, ], method = "kendall"), "var of a matrix" = function(m, g) var(m), cov.wt = function(m, g)
    cov.wt(m)$cov, "cov.wt by weights" = function(m, g)
    cov.wt(m, g / sum(g), cor = TRUE)$cor, "cov, complete" = function(m, g) cov(m, use = "complete.obs"),
  var = function(m, g) var(m[, 1L]), sd = function(m, g) sd(m[, 1L]), mean = function(m, g)
    mean(m[, 1L]), "trimmed mean" = function(m, g) mean(m[, 1L], trim = 0.1),
  "weighted.mean" = function(m, g) weighted.mean(m[1:4, 1L], weights), "weighted.mean by an array" = function(m, g)
    weighted.mean(m[, 1L], abs(m[, 2L])), "weighted.mean without weights" = function(m, g) weighted.mean(m[, 2L]),
  "apply sd" = function(m, g) apply(m, 2, sd), "apply sd, rows" = function(m, g)
    apply(m, 1, sd), "apply mean" = function(m, g) apply(m, 2, mean), colMeans = function(m, g)
    colMeans(m), rowMeans = function(m, g) rowMeans(m), colSums = function(m, g) colSums(m),
  scale = function(m, g) scale(m), "scale, not centred" = function(m, g)
    scale(m, center = FALSE), "scale, centred alone" = function(m, g) scale(m, scale = FALSE),
  dist = function(m, g) dist(m[1:9, ]), "dist, maximum" = function(m, g)
    dist(m[1:9, ], "maximum"), "dist, manhattan" = function(m, g)
    dist(m[1:9, ], "manhattan"), "dist, canberra" = function(m, g)
    dist(m[1:9, ], "canberra"), "dist, minkowski" = function(m, g) dist(m[1:9, ], "minkowski", p = 3),
  mahalanobis = function(m, g) mahalanobis(m, colMeans(as.matrix(m)), diag(apply(as.matrix(m), 2L, var))),
  quantile = function(m, g) quantile(m[, 1L], c(0.1, 0.5, 0.77)), median = function(m, g)
    median(m[1:10, 1L]), mad = function(m, g) mad(m[1:10, 1L]), "mad, low" = function(m, g)
    mad(m[1:10, 1L], low = TRUE), IQR = function(m, g) IQR(m[, 1L]), fivenum = function(m, g)
    fivenum(m[, 1L]), summary = function(m, g) unclass(summary(m[, 1L])), range = function(m, g) range(m[, 1L]),
  "tapply sd" = function(m, g) tapply(m[, 1L], g, sd), "tapply var" = function(m, g)
    tapply(m[, 1L], g, var), "tapply mean" = function(m, g) tapply(m[, 1L], g, mean), "ave sd" = function(m, g)
    ave(m[, 1L], g, FUN = sd), rowsum = function(m, g) rowsum(m, g),
  "aggregate sd" = function(m, g) aggregate(data.frame(v = m[, 1L]), list(g = g), sd)$v, ecdf = function(m, g)
    ecdf(m[, 1L])(as.vector(m[1:5, 1L])), hist = function(m, g) hist(m[, 1L], plot = FALSE)[c("counts", "breaks")],
    prcomp = function(m, g) prcomp(m)$sdev, "cut in three" = function(m, g) as.integer(cut(m[, 1L], 3))
)

# Where a call of an array differs from that of an ordinary vector with the same elements: by more than `off` of the
# largest element of the answer.
differs <- function(f, x, g, off) {
  want <- outcome(f(collect(x), g))$value
  got <- outcome(f(x, g))$value
  if (inherits(got, "failed") || inherits(want, "failed")) return(if (!identical(got, want)) deparse1(list(got, want)))
  got <- unlist(got)
  want <- unlist(want)
  a <- c(as.numeric(got), attr(got, "scaled:center"), attr(got, "scaled:scale"))
  b <- c(as.numeric(want), attr(want, "scaled:center"), attr(want, "scaled:scale"))
  if (length(a) != length(b) || !identical(dim(got), dim(want)) || !identical(is.na(a), is.na(b)))
    return("another shape, or missing elsewhere")
  worst <- max(abs(a - b), 0, na.rm = TRUE) / max(abs(b[is.finite(b)]), 0)
  if (!identical(a[is.infinite(b)], b[is.infinite(b)]) || isTRUE(worst > off))
    sprintf("%s and not %s (%.1g)", paste(format(a[seq_len(min(3, length(a)))], digits = 9), collapse = " "),
    paste(format(b[seq_len(min(3, length(b)))], digits = 9), collapse = " "), worst)
}

over_statistics <- function() {
  found <- list()
  set.seed(1)
  n <- 60L
  g <- rep_len(1:4, n)
  for (what in names(columns)) {
    m <- cbind(columns[[what]](n), columns[[what]](n))
    for (call in names(statistics)) if (is_next_ours()) {
      said <- differs(statistics[[call]], gpu(m, "float32"), g, 2^-22)
      if (!is.null(said)) found <- c(found, sprintf("%s of float32 %s: %s", call, what, said))
    }
  }
  # two columns of which one is narrower, and the narrowest types
  m <- cbind(1000 + rnorm(n), 1000 + rnorm(n))
  for (dtype in c("float16", "bfloat16")) for (call in names(statistics)) if (is_next_ours()) {
    said <- differs(statistics[[call]], gpu(m, dtype), g, if (dtype == "float16") 2^-9 else 2^-6)
    if (!is.null(said)) found <- c(found, sprintf("%s of %s: %s", call, dtype, said))
  }
  found
}

test_that("statistics of narrow arrays have the digits and the range of float64", {
  expect_all_same(over_statistics())
  expect_composed_same(over_statistics)
})

test_that("statistics of narrow arrays are of the type that other operations along margins have", {
  x <- gpu(matrix(c(1, 3, 2, 5, 4, 1) * 1e20, 3), "float32")
  for (y in list(scale(x), apply(x, 2, sd), apply(x, 2, mean), fivenum(x[, 1L])))
    expect_identical(gpu_dtype(y), "float32")
  expect_identical(gpu_dtype(scale(gpu_cast(x / 1e20, "float16"))), "float16")
  expect_identical(gpu_dtype(scale(gpu(matrix(1:4, 2)), FALSE, FALSE)), "int32")
  expect_type(cov(x), "double")
  # a number beside narrow floats is rounded to them, here too
  y <- gpu(matrix(c(.7, 1.7), 2), "float32")
  expect_identical(as.vector(scale(y, center = .7, scale = FALSE)), as.vector(y - .7))
  expect_identical(mad(y[, 1L], center = .7), mad(collect(y)[, 1L], center = as.vector(gpu(.7, "float32"))))
})

test_that("sums by group are of the type that sums along margins have, and rounded once", {
  set.seed(2)
  g <- rep_len(c(3L, 1L, 2L), 300L)
  for (columns in c(1L, 2L, 40L)) for (na.rm in c(FALSE, TRUE)) {
    m <- matrix(1e7 + runif(300 * columns, 0, 20), ncol = columns)
    x <- gpu(m, "float32")
    run <- function() {
      sums <- rowsum(x, g, na.rm = na.rm)
      expect_identical(gpu_dtype(sums), "float32")
      expect_identical(collect(sums), collect(gpu_cast(rowsum(gpu_cast(x, "float64"), g, na.rm = na.rm), "float32")))
      means <- ave(x[, 1L], g)
      expect_identical(gpu_dtype(means), "float32")
      expect_identical(collect(means), collect(gpu_cast(ave(gpu_cast(x[, 1L], "float64"), g), "float32")))
    }
    run()
    composed(run())
  }
  expect_identical(gpu_dtype(rowsum(gpu(m), g)), "float64")
  expect_identical(gpu_dtype(tapply(x[, 1L], g, var)), "float64")
})
