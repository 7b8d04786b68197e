# Running values of splits, and functions of places and summaries, against base R's of the whole.

here <- gpu_team(rep(test_device, 3))
cl <- worker_cluster(3)
workers <- within_seconds(60, gpu_team(cl, timeout = 30))
teams <- list(here, workers)
set.seed(64)
vectors <- list(doubles = round(rnorm(100), 2), integers = sample(-50:50, 90, TRUE), logicals = sample(c(TRUE, FALSE),
  40, TRUE), missing = c(1:20, NA, 3:30), nan = c(rnorm(30), NaN, 1), few = 2:1, none = numeric(), one = 3,
  high = c(rep(.Machine$integer.max %/% 4L, 6), -5L, 1:9), back = c(.Machine$integer.max, -5L, rep(3L, 4)),
  large = c(1e-200, 1e-200, rep(1e200, 8)), complex = complex(real = 1:9, imaginary = 9:1))
caught <- function(expr) {
  told <- NULL
  value <- withCallingHandlers(collect(expr), warning = function(w) {
    told <<- conditionMessage(w)
    tryInvokeRestart("muffleWarning")
  })
  list(value, told)
}

test_that("running values continue from member to member", {
  for (team in teams) for (name in names(vectors)) for (f in c("cumsum", "cumprod", "cummax", "cummin")) {
    v <- vectors[[name]]
    if (is.complex(v) && f %in% c("cummax", "cummin")) next
    cases$n <- cases$n + 1L
    expect_equal(caught(do.call(f, list(gpu_split(v, team)))), caught(get(f)(v)), tolerance = 1e-13,
      info = paste(f, name))
  }
  expect_error(cummax(gpu_split(1i, here)), "'cummax' not defined for complex numbers")
  expect_error(cumsum(gpu_split(matrix(1, 3, 2), here)), class = "verdigris_error_split")
  d <- gpu_split(data.frame(d = Sys.Date() + 0:3, f = factor(c("a", "b", "a", "a"))), here)
  expect_error(cumsum(d$d), "not defined")
  expect_error(cumsum(d$f), "not meaningful")
  # more is recorded on them
  s <- gpu_split(vectors$doubles, workers)
  expect_equal(sum(cumsum(s) * 2), sum(cumsum(vectors$doubles) * 2))
})

test_that("64-bit integers are exact", {
  far <- gpu_cast(as_gpu(c(1:9, NA, 3)), "int64") + gpu_cast(as_gpu(2^60), "int64")
  for (team in teams) for (v in list(far[1:7], far, gpu_cast(as_gpu(3:1), "int64"))) {
    s <- gpu_split(collect(v), team)
    for (f in list(cumsum, cummax, cummin)) expect_identical(caught(f(s)), caught(f(v)))
  }
})

test_that("which() and summaries are base R's", {
  for (team in teams) for (name in c("doubles", "integers", "missing", "few")) {
    v <- vectors[[name]]
    s <- gpu_split(v, team)
    expect_identical(collect(which(s > 1)), which(v > 1))
    expect_equal(summary(s), summary(v))
    expect_equal(IQR(s, na.rm = TRUE), IQR(v, na.rm = TRUE))
    expect_equal(mad(s, na.rm = TRUE), mad(v, na.rm = TRUE))
  }
  s <- gpu_split(1:3, here)
  expect_error(which(s), "argument to 'which' is not logical")
  for (call in alist(summary(gpu_split(TRUE, here)), mad(s, high = TRUE), which(gpu_split(matrix(TRUE, 2, 2), here))))
    expect_error(eval(call), class = "verdigris_error_split", label = deparse1(call))
})

test_that("anyNA(), is.unsorted() and trimmed means are base R's", {
  orders <- list(up = sort(vectors$doubles), ties = rep(1:9, each = 3), down = 9:1, one = c(NA, 1:8),
    gap = c(1, NA, 2, NA),
    flags = rep(c(FALSE, TRUE), 4), ends = c(-Inf, rnorm(9), Inf, Inf), alone = NA_real_)
  for (team in teams) for (v in c(vectors[names(vectors) != "complex"], orders)) {
    cases$n <- cases$n + 1L
    s <- gpu_split(v, team)
    expect_identical(anyNA(s), anyNA(v))
    for (na.rm in c(TRUE, FALSE)) {
      for (strictly in c(TRUE, FALSE)) expect_identical(is.unsorted(s, na.rm, strictly), is.unsorted(v, na.rm,
        strictly))
      for (trim in c(0.05, 0.3, 0.499, 0.5)) expect_equal(mean(s, trim, na.rm = na.rm), mean(v, trim, na.rm = na.rm),
        tolerance = 1e-14)
    }
  }
  far <- gpu_cast(as_gpu(c(1:6, NA)), "int64") + gpu_cast(as_gpu(2^60), "int64")
  for (team in teams) {
    expect_false(is.unsorted(gpu_split(collect(far[1:6]), team), strictly = TRUE))
    expect_true(is.unsorted(gpu_split(collect(far[c(1:5, 5:1)]), team)))
    expect_identical(is.unsorted(gpu_split(collect(far), team)), NA)
  }
  strings <- gpu_split(data.frame(a = c("b", NA)), here)
  expect_true(anyNA(strings$a))
  expect_warning(expect_identical(mean(strings$a, trim = 0.1), NA_real_), "argument is not numeric or logical")
  expect_error(mean(gpu_split(1:3, here), trim = "a"), "'trim' must be numeric of length one")
  expect_error(mean(gpu_split(1:3, here), trim = NA_real_), "`trim` must be", class = "verdigris_error_argument")
  expect_error(mean(gpu_split(1i, here), trim = 0.1), "not defined for complex data")
  for (call in alist(is.unsorted(strings$a), is.unsorted(gpu_split(diag(3), here)), anyNA(strings),
    mean(gpu_split(data.frame(d = Sys.Date()), here)$d, trim = 0.1))) expect_error(eval(call),
      class = "verdigris_error_split", label = deparse1(call))
  expect_error(is.unsorted(gpu_split(1:3, here), strictly = NA), class = "verdigris_error_argument")
})

test_that("types, warnings and errors of summaries are base R's", {
  for (team in teams) {
    told <- expect_warning(expect_true(any(gpu_split(c(0, 1), team))), "coercing argument of type 'double' to logical")
    expect_identical(deparse(conditionCall(told)), "any(...)")
    expect_identical(IQR(gpu_split(1:9, team), type = 3), IQR(1:9, type = 3))
    v <- c(NA, Inf, 2.5, NaN, 1)
    expect_identical(tabulate(gpu_split(v, team)), suppressWarnings(tabulate(v)))
    expect_identical(var(gpu_split(NaN, team)), NA_real_)
  }
  expect_error(rowsum(gpu_split(c(TRUE, FALSE), here), 1:2), "'x' must be numeric")
  for (call in alist(var(gpu_split(1i, here)), sd(gpu_split(1i, here)))) expect_error(eval(call),
    class = "verdigris_error_split", label = deparse1(call))
})

test_that("order() and running values are made again by gpu_repair()", {
  own <- parallel::makePSOCKcluster(3, outfile = "/dev/null")
  withr::defer(parallel::stopCluster(own[c(1, 3)]))
  parallel::clusterCall(own, function(paths, device) {
    .libPaths(paths)
    options(verdigris.device = device)
  }, .libPaths(), test_device)
  team <- within_seconds(60, gpu_team(own, timeout = 10))
  v <- c(vectors$integers, NA, 3L)
  s <- gpu_split(v, team)
  made <- list(order(s, rev(v)), cumsum(s), cumprod(s), which(s > 0))
  want <- list(order(v, rev(v)), cumsum(v), cumprod(v), which(v > 0))
  expect_equal(lapply(made, collect), want)
  tools::pskill(parallel::clusterCall(own[2], Sys.getpid)[[1L]], tools::SIGKILL)
  Sys.sleep(0.3)
  expect_error(sum(s), class = "verdigris_error_member")
  within_seconds(60, gpu_repair(team))
  expect_equal(lapply(made, collect), want)
})
