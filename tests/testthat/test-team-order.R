# Order statistics, sorting, decompositions, neighbours and tables of splits against base R on the whole.

here <- gpu_team(rep(test_device, 3))
cl <- worker_cluster(3)
workers <- within_seconds(60, gpu_team(cl[1:2], timeout = 30))
three <- within_seconds(60, gpu_team(cl, timeout = 30))
teams <- list(here, workers, three)
set.seed(8)
vectors <- list(normal = rnorm(3000), ties = sample(1:10, 2000, TRUE), few = c(2.5, NA, 1, NaN), one = 3L,
  same = rep(2, 500), ends = c(rnorm(300), rep(0, 3000), Inf, -Inf, NaN), ordered = as.double(1:1000),
  integers = c(NA, sample.int(1e6, 999)), none = numeric())

test_that("quantiles and medians are base R's, of all types", {
  probs <- c(0, 0.013, 0.25, 0.5, 0.777, 1)
  for (team in teams) for (name in names(vectors)) {
    v <- vectors[[name]]
    s <- gpu_split(v, team)
    cases$n <- cases$n + 1L
    for (type in if (identical(team, here)) 1:9 else c(1, 6, 7))
      expect_equal(quantile(s, probs, na.rm = TRUE, type = type), quantile(v, probs, na.rm = TRUE, type = type),
        tolerance = 1e-15, info = paste(name, type))
    expect_identical(median(s), median(v))
    expect_identical(median(s, na.rm = TRUE), median(v, na.rm = TRUE))
  }
  logicals <- c(TRUE, NA, FALSE, TRUE)
  expect_identical(median(gpu_split(logicals, here), na.rm = TRUE), median(logicals, na.rm = TRUE))
  m <- matrix(vectors$normal, 1000)
  expect_equal(quantile(gpu_split(m, here)), quantile(m))
  expect_named(quantile(gpu_split(m, here), 0.1, names = FALSE), NULL)
  expect_error(quantile(gpu_split(vectors$few, here)), "missing values and NaN's not allowed")
  expect_error(quantile(gpu_split(1:3, here), 2), "'probs' outside [0,1]", fixed = TRUE)
})

test_that("order() gives the places of one key or several", {
  set.seed(9)
  n <- 900
  keys <- list(a = sample(c(1:5, NA), n, TRUE), b = sample(c(round(rnorm(300), 1), NA, NaN, 0, -0, Inf), n, TRUE),
    l = sample(c(TRUE, FALSE, NA), n, TRUE), w = factor(sample(letters, n, TRUE), rev(letters)),
    d = as.Date("2024-01-01") + sample(9, n, TRUE))
  for (team in teams) {
    s <- lapply(keys[1:3], gpu_split, team)
    for (flags in list(FALSE, TRUE, c(TRUE, FALSE, TRUE))) for (last in c(TRUE, FALSE, NA)) {
      cases$n <- cases$n + 1L
      want <- order(keys$a, keys$b, keys$l, decreasing = flags, na.last = last, method = "radix")
      got <- order(s$a, s$b, s$l, decreasing = flags, na.last = last, method = "radix")
      expect_s3_class(got, "gpu_split")
      expect_identical(collect(got), want)
      expect_identical(length(got), length(want))
      expect_identical(collect(order(keys$a, s$b, as_gpu(keys$l), decreasing = flags, na.last = last,
        method = "radix")), want)
    }
    d <- gpu_split(data.frame(w = keys$w, d = keys$d), team)
    expect_identical(collect(order(d$w, d$d)), order(keys$w, keys$d))
    expect_identical(collect(order(s$a, as.character(keys$w), decreasing = TRUE)), order(keys$a, as.character(keys$w),
      decreasing = TRUE))
    expect_identical(collect(order(s$l, keys$d, keys$w)), order(keys$l, keys$d, keys$w))
    for (name in names(vectors)) for (flag in c(TRUE, FALSE)) {
      v <- vectors[[name]]
      expect_identical(collect(order(gpu_split(v, team), decreasing = flag, na.last = flag)), order(v,
        decreasing = flag, na.last = flag), info = name)
    }
    far <- gpu_cast(as_gpu(sample(0:5, n, TRUE)), "int64") + gpu_cast(as_gpu(2^60), "int64")
    expect_identical(collect(order(gpu_split(collect(far), team), s$b)), collect(order(far, keys$b)))
    expect_identical(collect(order(s$a, collect(far))), collect(order(keys$a, far)))
  }
  s <- gpu_split(c(2, 1, 3), here)
  expect_error(order(s, 1:2), "argument lengths differ")
  expect_error(order(s, decreasing = NA), "'decreasing' elements must be TRUE or FALSE")
  for (call in alist(order(s, gpu_reader(1:3)), order(s, c(1i, 2, 3)), order(gpu_split(matrix(1, 3, 2), here), s),
    order(gpu_split(c(1i, 2, 3), here)), order(s, list(1, 2, 3)), order(s, gpu_split(1:4, here))))
    expect_error(eval(call), class = "verdigris_error_split", label = deparse1(call))
})

test_that("sort() leaves each member a run of the whole in order", {
  for (team in teams) for (name in names(vectors)) for (decreasing in c(FALSE, TRUE)) {
    v <- vectors[[name]]
    sorted <- sort(gpu_split(v, team), decreasing = decreasing)
    expect_identical(collect(sorted), sort(v, decreasing = decreasing), info = name)
    expect_identical(length(sorted), sum(!is.na(v)))
  }
  runs <- gpu_together(workers, length, sort(gpu_split(vectors$normal, workers)))
  expect_lt(abs(runs[[1L]] - 1500), 150)
  s <- sort(gpu_split(vectors$normal, workers))
  expect_equal(sum(s * 2), 2 * sum(vectors$normal))
  expect_error(sort(gpu_split(1:3, here), na.last = TRUE), class = "verdigris_error_argument")
})

test_that("qr() and svd() of tall splits are base R's, up to signs", {
  set.seed(5)
  x <- matrix(rnorm(1200), 300, dimnames = list(NULL, letters[1:4]))
  y <- rnorm(300)
  hard <- cbind(x, x[, 1] + 1e-6 * rnorm(300))
  alias <- cbind(x[, 1:2], z = x[, 1] - x[, 2], w = x[, 4])
  for (team in teams) {
    for (m in list(x, hard, x * 1e200, x[1:5, ])) {
      s <- gpu_split(m, team)
      q <- qr(s)
      want <- qr(m)
      expect_equal(abs(qr.R(q)), abs(qr.R(want)), tolerance = 1e-9)
      expect_identical(q[c("rank", "pivot")], want[c("rank", "pivot")])
      expect_equal(crossprod(qr.Q(q)), diag(ncol(m)), tolerance = 1e-13)
      expect_equal(collect(qr.Q(q)) %*% qr.R(q), m, tolerance = 1e-9, ignore_attr = TRUE)
      found <- svd(s)
      base <- svd(m)
      expect_equal(found$d, base$d, tolerance = 1e-9)
      expect_equal(crossprod(found$u), diag(ncol(m)), tolerance = 1e-13)
      expect_equal(collect(found$u) %*% (found$d * t(found$v)), m, tolerance = 1e-9, ignore_attr = TRUE)
    }
    s <- gpu_split(x, team)
    ys <- gpu_split(y, team)
    q <- qr(s)
    expect_equal(qr.coef(q, ys), qr.coef(qr(x), y), tolerance = 1e-10)
    expect_equal(qr.coef(q, y), qr.coef(qr(x), y), tolerance = 1e-10)
    expect_equal(collect(qr.fitted(q, ys)), qr.fitted(qr(x), y), tolerance = 1e-10)
    expect_equal(collect(qr.resid(q, ys)), qr.resid(qr(x), y), tolerance = 1e-10)
    expect_equal(qr.solve(s, ys), qr.solve(x, y), tolerance = 1e-10)
    expect_identical(lengths(svd(s, nu = 0, nv = 2)), c(d = 4L, v = 8L))
    expect_equal(dim(svd(s, nu = 2)$u), c(300L, 2L))
    q <- qr(gpu_split(alias, team))
    expect_identical(q[c("rank", "pivot")], qr(alias)[c("rank", "pivot")])
    expect_error(qr.Q(q), "has rank 3, but 4 columns", class = "verdigris_error_argument")
    expect_error(svd(gpu_split(alias, team)), "of a split of rank 3", class = "verdigris_error_argument")
    expect_equal(svd(gpu_split(alias, team), nu = 3)$d, svd(alias)$d)
  }
  s <- gpu_split(replace(x, 5, NaN), here)
  expect_error(svd(s), "infinite or missing values in 'x'")
  expect_error(qr(s), "NA/NaN/Inf")
  expect_error(qr(gpu_split(x, here, margin = 2)), class = "verdigris_error_split")
  expect_error(qr.qty(qr(gpu_split(x, here)), y), class = "verdigris_error")
  m <- unname(x[1:5, ])
  expect_equal(tcrossprod(t(gpu_split(x, here))), crossprod(x), ignore_attr = TRUE)
  expect_equal(collect(tcrossprod(gpu_split(x, here), m)), tcrossprod(x, m), ignore_attr = TRUE)
  for (call in alist(tcrossprod(s), tcrossprod(s, s), s %*% t(s), order(s), solve(s)))
    expect_error(eval(call), "collect", class = "verdigris_error_split", info = deparse1(call))
})

test_that("gpu_knn() has the neighbours of the whole", {
  x <- round(matrix(rnorm(900), 300), 1) # with equal distances
  asked <- x[c(5, 300, 7), ] + 0.05
  whole <- as_gpu(x, device = test_device)
  same <- function(got, want) {
    expect_identical(collect(got$index), collect(want$index))
    expect_equal(collect(got$distance), collect(want$distance), tolerance = 1e-14)
  }
  for (team in teams) {
    s <- gpu_split(x, team)
    for (metric in c("euclidean", "cosine", "manhattan", "maximum")) {
      got <- gpu_knn(s, asked, 6, metric)
      expect_true(is_gpu(got$index))
      same(got, gpu_knn(whole, asked, 6, metric))
      got <- gpu_knn(s, k = 4, metric = metric, exclude_self = TRUE)
      expect_s3_class(got$index, "gpu_split")
      same(got, gpu_knn(whole, k = 4, metric = metric, exclude_self = TRUE))
    }
    same(gpu_knn(s, gpu_split(asked, team), 3), gpu_knn(whole, asked, 3))
    got <- gpu_knn(whole, gpu_split(asked, team), 3)
    expect_s3_class(got$index, "gpu_split")
    same(got, gpu_knn(whole, asked, 3))
    # more than a member has
    same(gpu_knn(gpu_split(x[1:5, ], team), asked, 5), gpu_knn(whole[1:5, ], asked, 5))
    expect_error(gpu_knn(s, asked, 301), "`k` is 301", class = "verdigris_error_argument")
    expect_error(gpu_knn(s, asked[, 1:2], 3), "2 columns", class = "verdigris_error_shape")
  }
  expect_error(gpu_knn(gpu_split(replace(x, 3, NA), here), asked, 2), "missing or infinite",
    class = "verdigris_error_argument")
})

test_that("tables, sums by groups, correlations and functions of rows are base R's", {
  x <- matrix(round(rnorm(400), 2), 100, dimnames = list(NULL, letters[1:4]))
  k <- sample(c(3L, 10L, 1L), 100, TRUE)
  f <- factor(sample(c("u", "v"), 100, TRUE), c("none", "v", "u"))
  w <- runif(100)
  for (team in teams) {
    s <- gpu_split(x, team)
    ks <- gpu_split(k, team)
    d <- gpu_split(data.frame(f = f, s = as.character(f)), team)
    expect_identical(table(ks), table(ks = k))
    expect_identical(unname(table(d$f)), unname(table(f)))
    expect_identical(c(table(d$s)), c(table(as.character(f))))
    expect_equal(rowsum(s, ks), rowsum(x, k))
    expect_equal(rowsum(s, k, reorder = FALSE), rowsum(x, k, reorder = FALSE))
    expect_identical(rowsum(ks, d$s), rowsum(k, as.character(f)))
    expect_identical(rowsum(ks, d$f), rowsum(k, f))
    # ordinary groups, also beside runs of any length
    for (g in list(as.character(f), f, replace(w > 0.5, 3, NA), Sys.Date() - k, replace(round(w, 1), 7, NA)))
      for (reorder in c(TRUE, FALSE)) expect_equal(suppressWarnings(rowsum(ks, g, reorder)),
        suppressWarnings(rowsum(k, g, reorder)))
    expect_equal(rowsum(sort(ks), f), rowsum(sort(k), f))
    expect_identical(rowsum(ks, gpu_cast(as_gpu(k - 5), "int64")), rowsum(k, k - 5))
    expect_error(rowsum(ks, 1:2), "incorrect length for 'group'")
    none <- gpu_split(collect(gpu_cast(as_gpu(numeric()), "int64")), team)
    expect_identical(unname(table(none)), unname(table(numeric())))
    expect_equal(cor(s), cor(x))
    expect_equal(cov(s), cov(x))
    expect_equal(weighted.mean(s[, 1], gpu_split(w, team)), weighted.mean(x[, 1], w))
    expect_equal(collect(apply(s, 1, function(row) sum(row^2) > 1)), apply(x, 1, function(row) sum(row^2) > 1))
    expect_equal(collect(apply(t(s), 2, max)), apply(x, 1, max))
    expect_error(apply(s, 2, sum), "collect", class = "verdigris_error_split")
    expect_error(table(ks, ks), "collect", class = "verdigris_error_split")
    expect_error(cor(s, method = "spearman"), "collect", class = "verdigris_error_split")
  }
  expect_warning(constant <- cor(gpu_split(cbind(x, 1), here)), "standard deviation is zero")
  expect_equal(constant, suppressWarnings(cor(cbind(x, 1))), ignore_attr = TRUE)
})

test_that("ranks are found where few distinct values leave no place between", {
  for (team in list(here, gpu_team(rep(test_device, 2)))) within_seconds(60, {
    rare <- rep(c(1, 2), c(997, 3))
    expect_equal(quantile(gpu_split(rare, team)), quantile(rare))
    set.seed(2)
    for (k in 1:5) {
      coins <- as.double(rbinom(2001, 1, 0.5))
      few <- as.double(rbinom(2000, 1, 0.002))
      expect_identical(median(gpu_split(coins, team)), median(coins))
      expect_equal(quantile(gpu_split(few, team)), quantile(few))
      expect_equal(quantile(gpu_split(coins, team), mean(coins == 0)), quantile(coins, mean(coins == 0)))
    }
  })
})

test_that("weights of 0, missing ones, sums beyond the integers and operands of functions are base R's", {
  s <- function(x) gpu_split(x, here)
  x <- c(NA, 1, 2, 5)
  for (w in list(c(0, 1, 1, 2), c(1, 1, 3, 0), c(NA, 1, 1, 1))) for (na.rm in c(FALSE, TRUE))
    for (weights in list(w, s(w))) expect_equal(weighted.mean(s(x), weights, na.rm = na.rm), weighted.mean(x, w,
      na.rm = na.rm))
  expect_error(weighted.mean(s(x), 1), "same length")
  large <- c(.Machine$integer.max, 1L, 2L, 3L)
  expect_identical(sum(s(large)), sum(large))
  expect_equal(collect(log(s(1:4), 2:5)), log(1:4, 2:5))
  expect_equal(collect(round(s(1:4 / 3), 0:3)), round(1:4 / 3, 0:3))
  widened <- gpu_split(function(rows) if (rows[1] == 1) rows else rows + 0.25, gpu_team(rep(test_device, 2)), n = 4)
  expect_identical(sum(widened), 10.5)
  expect_identical(median(widened), 2.625)
  uneven <- function(rows) matrix(1, length(rows), if (rows[1] == 1) 2 else 3)
  expect_error(gpu_split(uneven, gpu_team(rep(test_device, 2)), n = 4), class = "verdigris_error_split")
})

test_that("what was computed with runs of its own is made again after a repair", {
  out <- expect_child_ends(c(
    "cl <- parallel::makePSOCKcluster(3, outfile = '/dev/null')",
    sprintf("invisible(parallel::clusterCall(cl, function() options(verdigris.device = %s)))", deparse(test_device)),
    "team <- gpu_team(cl, timeout = 30); set.seed(1); v <- rnorm(200); x <- rnorm(200); x[3] <- NA",
    "s <- sort(gpu_split(v, team)); twice <- s * 2",
    "fit <- gpu_lm(v ~ x, gpu_split(data.frame(v, x), team)); want <- lm(v ~ x)",
    "tools::pskill(team$members$pid[2], 9); Sys.sleep(0.2); try(sum(s), silent = TRUE); gpu_repair(team)",
    "stopifnot(identical(collect(twice), sort(v) * 2), identical(median(s), median(v)))",
    "stopifnot(all.equal(collect(residuals(fit)), unname(residuals(want))), all.equal(deviance(fit), deviance(want)))",
    "cat('end\\n')"
  ), timeout = 60 * stretch())
  expect_true(any(out == "end"))
})
