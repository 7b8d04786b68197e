# rev() and diff() of splits against base R's of the whole.

withr::local_options(verdigris.device = test_device)
here <- gpu_team(rep(test_device, 3))
cl <- worker_cluster(3)
workers <- within_seconds(60, gpu_team(cl, timeout = 30))
teams <- list(here, workers, within_seconds(60, gpu_team(cl[1L], timeout = 30)))
set.seed(82)
vectors <- list(doubles = sample(c(round(rnorm(20), 1), NA, NaN, Inf, -Inf, 0, -0)), integers = sample(c(-3:9, NA), 25,
  TRUE), logicals = sample(c(TRUE, FALSE, NA), 16, TRUE), few = 2:1, one = 2.5, alone = NA, none = numeric(), nothing =
    integer(), complex = complex(real = 1:7, imaginary = 7:1))
# R 4.6 leaves dimnames that are all NULL to a matrix without rows
without_empty_dimnames <- function(want) {
  if (!is.null(dimnames(want)) && all(vapply(dimnames(want), is.null, NA))) dimnames(want) <- NULL
  want
}
expect_base <- function(...) expect_split_as_base(..., want_as = without_empty_dimnames)
calls <- alist(rev(x), rev(rev(x)), x + rev(x), diff(x), diff(x, 2), diff(x, 9), diff(x, lag = 2, differences = 2),
  diff(x, 1000), sum(is.na(diff(x))), diff(x) * 2L, diff(rev(x)))

test_that("vectors are reversed and differences taken across members", {
  for (team in teams) for (name in if (identical(team, teams[[3L]])) c("doubles", "none") else names(vectors)) {
    x <- gpu_split(vectors[[name]], team)
    for (call in calls) expect_base(call, vectors[[name]], x, name)
    expect_s3_class(rev(x), "gpu_split")
    expect_s3_class(diff(x), "gpu_split")
  }
  s <- gpu_split(1:3, here)
  for (call in alist(diff(s, 0), diff(s, 1, 0), diff(s, 1:2), diff(s, NA), diff(s, "1"))) expect_error(eval(call),
    "'lag' and 'differences' must be integers >= 1", label = deparse1(call))
  for (f in c(rev, diff)) expect_error(f(gpu_split(data.frame(a = 1:3), here)), "collect",
    class = "verdigris_error_split")
})

test_that("parts may have any length", {
  v <- c(9, 1, 5, NA, 2, 8, 8, 3)
  for (team in list(here, workers)) for (sizes in list(c(0, 8, 0), c(1, 0, 7), c(6, 1, 1), c(0, 0, 8), c(8, 0, 0))) {
    uneven <- gpu_together(team, function(v, sizes) {
      rank <- gpu_team_rank()
      as_gpu(v[sum(sizes[seq_len(rank - 1)]) + seq_len(sizes[rank])])
    }, v, sizes, keep = TRUE)
    expect_identical(collect(uneven), v)
    for (call in calls) expect_base(call, v, uneven, paste(sizes, collapse = " "))
  }
  # runs that depend on values
  x <- gpu_split(v, workers)
  expect_identical(collect(diff(sort(x), 3)), diff(sort(v), 3))
  expect_identical(collect(rev(sort(x))), rev(sort(v)))
  expect_identical(collect(diff(which(x > 2))), diff(which(v > 2)))
})

test_that("rev() of a matrix is a vector, and diff() is by rows", {
  m <- matrix(round(rnorm(60), 1), 15, dimnames = list(NULL, letters[1:4]))
  rows <- t(m)
  wholes <- list(m, rows, m > 0, unname(m[1:2, ]), unname(m[, 1, drop = FALSE]))
  for (team in teams) for (k in seq_along(wholes)) for (margin in 1:2) {
    whole <- wholes[[k]]
    # names along the margin that is split are not kept
    dimnames(whole)[margin] <- list(NULL)
    if (all(vapply(dimnames(whole), is.null, NA))) dimnames(whole) <- NULL
    x <- gpu_split(whole, team, margin)
    for (call in alist(rev(x), rev(-x), diff(x), diff(x, 2), diff(x, 1, 2), diff(x, 40), colSums(diff(x) > 0)))
      expect_base(call, whole, x, paste(k, margin))
  }
  x <- gpu_split(m, workers)
  expect_identical(dim(diff(x, 2)), dim(diff(m, 2)))
  expect_identical(colnames(diff(x)), colnames(m))
  expect_equal(crossprod(diff(x)), crossprod(diff(m)), tolerance = 1e-14)
})

test_that("classes of elements are kept", {
  days <- as.Date("2020-01-01") + c(5, 3, 9, NA, 1, 3, 0)
  times <- as.POSIXct("2020-01-01", tz = "UTC") + c(5, 30, 90.5, NA, 1, 3, 1e5)
  d <- data.frame(days = days, times = times, lapse = days - days[1L], group = factor(c("b", "a", NA,
    "a", "c", "c", "b"), c("c", "b", "a")), text = c("b", "\u00e4", NA, "a", "", "cc", "b"), truth = c(TRUE, NA, FALSE,
      TRUE, TRUE, FALSE, NA))
  d$hours <- times[1L] + 7200 * c(1, 2, 4, 8, 9, NA, 1)
  for (team in list(here, workers)) {
    s <- gpu_split(d, team)
    for (name in names(d)) {
      expect_base(quote(rev(x)), d[[name]], s[[name]], name)
      if (name %in% c("group", "text")) next
      for (call in alist(diff(x), diff(x, 3), diff(x, 1, 2), diff(x, 20))) {
        got <- collect(eval(call, list(x = s[[name]])))
        expect_equal(got, eval(call, list(x = d[[name]])), tolerance = 1e-14, label = paste(deparse1(call), name))
      }
    }
    expect_error(diff(s$text), "non-numeric argument")
    expect_error(diff(s$group), "factor", class = "verdigris_error_split")
  }
})

test_that("64-bit integers are exact", {
  far <- gpu_cast(as_gpu(c(1:9, NA, 3, 9, NA)), "int64") + gpu_cast(as_gpu(2^60), "int64")
  for (team in list(here, workers)) for (f in list(rev, diff, function(x) diff(x, 4), function(x) rev(diff(x, 2))))
    expect_identical(collect(f(gpu_split(collect(far), team))), collect(f(far)))
})

test_that("they are made again by gpu_repair()", {
  own <- parallel::makePSOCKcluster(3, outfile = "/dev/null")
  withr::defer(parallel::stopCluster(own[c(1, 3)]))
  # without this file's environment, whose arrays would be sent with it
  prepare <- function(paths, device) {
    .libPaths(paths)
    options(verdigris.device = device)
  }
  environment(prepare) <- globalenv()
  parallel::clusterCall(own, prepare, .libPaths(), test_device)
  team <- within_seconds(60, gpu_team(own, timeout = 10))
  v <- sample(c(1:20, NA))
  x <- gpu_split(v, team)
  m <- gpu_split(matrix(v, 7), team)
  made <- list(rev(x), diff(x, 9), diff(rev(x)), rev(m), rank(x), duplicated(x), match(x, rev(x)))
  want <- list(rev(v), diff(v, 9), diff(rev(v)), rev(v), rank(v), duplicated(v), match(v, rev(v)))
  expect_identical(lapply(made, collect), want)
  tools::pskill(parallel::clusterCall(own[2], Sys.getpid)[[1L]], tools::SIGKILL)
  Sys.sleep(0.3)
  expect_error(sum(x), class = "verdigris_error_member")
  within_seconds(60, gpu_repair(team))
  expect_identical(lapply(made, collect), want)
})

test_that("a result does not keep the parts of its operands", {
  team <- gpu_team(rep(test_device, 2))
  before <- alive()[["handles"]]
  x <- gpu_split(c(3, 1, 2, NA), team)
  made <- list(rev(x), diff(x), rank(x), duplicated(x), order(x), cumsum(x), which(x > 1), x * 2)
  want <- lapply(made, collect)
  rm(x)
  expect_lte(alive()[["handles"]], before + 2 * length(made))
  expect_identical(lapply(made, collect), want)
})
