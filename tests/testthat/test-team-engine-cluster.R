# Teams of workers: splits, collectives and references in clusters of two and three, however the workers are reached.

cl <- worker_cluster(3)
team <- within_seconds(60, gpu_team(cl, timeout = 30))
two <- within_seconds(60, gpu_team(cl[1:2], timeout = 30))
set.seed(35)
m <- matrix(round(rnorm(44) * 3, 2), 11, dimnames = list(NULL, letters[1:4]))

test_that("splits over workers answer as the whole matrix does", {
  within_seconds(120, for (workers in list(team, two)) {
    expect_all_same(compare_splits(workers, m, seq(-2, 3, by = 0.5)))
    missing <- m
    missing[c(3, 40)] <- c(NA, Inf)
    expect_all_same(compare_splits(workers, missing, 11:1))
  })
  expect_cases(350L)
})

test_that("workers free parts when their split is garbage", {
  stored <- function() {
    gc()
    unlist(gpu_together(team, function() length(ls(verdigris:::running_member()$store))))
  }
  before <- stored()
  x <- gpu_split(c(1, 2, 3), team)
  for (k in 1:20) sum(x + k)
  expect_identical(stored(), before + 1L)
  rm(x)
  expect_identical(stored(), before)
})

test_that("the session leaves memory that it does not use to the workers of its GPU", {
  skip_if(test_device == "cpu" || all(team$members$device == "cpu"), "no GPU")
  # whole blocks of the driver's, so that no other array keeps them
  x <- gpu_compute(gpu_runif(2^23, device = test_device) + 1)
  gpu_free(x)
  cached <- function() gpu_memory(test_device)[["cached"]]
  before <- cached()
  expect_gte(before, 2^26)
  within_seconds(60, suppressMessages(gpu_team(cl[1:2], timeout = 30)))
  expect_lte(cached(), before - 2^26)
})

test_that("collectives give all members the same, in the order of ranks", {
  all_same <- function(want, f, ...) {
    for (workers in list(team, two)) for (value in within_seconds(60, gpu_together(workers, f, ...)))
      expect_identical(value, if (is.function(want)) want(workers$engine$size) else want)
  }
  ranks <- function(f) function(size) f(seq_len(size))
  all_same(ranks(function(k) sum(k) * c(1, 10)), function() gpu_all_reduce(gpu_team_rank() * c(1, 10)))
  all_same(ranks(function(k) sum(k)), function() gpu_all_reduce(gpu_team_rank()))
  all_same(ranks(prod), function() gpu_all_reduce(as.double(gpu_team_rank()), "*"))
  all_same(ranks(function(k) c(max(k), NA)), function() gpu_all_reduce(c(gpu_team_rank(), NA), "max"))
  all_same(c(a = 1, b = NaN), function() gpu_all_reduce(c(a = gpu_team_rank(), b = NaN), "min"))
  all_same(function(size) size + 0L, function() gpu_all_reduce(TRUE))
  all_same(ranks(function(k) complex(real = sum(k), imaginary = length(k))), function()
    gpu_all_reduce(complex(real = gpu_team_rank(), imaginary = 1)))
  # three numbers whose sum depends on the order
  tiny <- c(1e16, 1, -1e16)
  all_same(function(size) Reduce(`+`, tiny[seq_len(size)]), function(x) gpu_all_reduce(x[gpu_team_rank()],
    exact = TRUE), tiny)
  all_same(ranks(function(k) rep(k, k)), function() gpu_all_gather(rep(gpu_team_rank(), gpu_team_rank())))
  all_same(ranks(function(k) cbind(a = rep(k, k), b = 1L)), function() gpu_all_gather(cbind(a = rep(gpu_team_rank(),
    gpu_team_rank()), b = 1L)))
  all_same(ranks(function(k) rbind(k, k, deparse.level = 0)), function() gpu_all_gather(matrix(gpu_team_rank(), 2, 1),
    margin = 2))
  all_same(matrix(1:4, 2), function() gpu_broadcast(if (gpu_team_rank() == 2) matrix(1:4, 2), root = 2))
  all_same(NULL, function() gpu_barrier())
  # arrays stay arrays, on their device and of their dtype; the result is too long for one message
  arrays <- function() {
    x <- gpu_all_reduce(as_gpu(seq_len(1e5) / 8, dtype = "float32"))
    same <- sum(x == gpu_team_size() * seq_len(1e5) / 8)
    list(is_gpu(x), gpu_dtype(x), gpu_device(x) == gpu_device(gpu_zeros(1)), same)
  }
  all_same(list(TRUE, "float32", TRUE, 100000L), arrays)
  for (workers in list(team, two)) {
    x <- matrix(1:22 / 2, 11)
    parts <- gpu_together(workers, function(x) gpu_reduce_scatter(x), x)
    expect_identical(do.call(rbind, parts), x * workers$engine$size)
    expect_identical(unlist(gpu_together(workers, function(x) gpu_reduce_scatter(x, "max"), 1:7)), 1:7)
  }
})

test_that("long sums are those in the order of ranks, of all lengths", {
  f <- function(n) {
    set.seed(gpu_team_rank())
    gpu_all_reduce(stats::rnorm(n))
  }
  for (n in c(0, 1, 200, 4097, 20011)) {
    parts <- lapply(1:3, function(rank) {
      set.seed(rank)
      stats::rnorm(n)
    })
    for (value in within_seconds(60, gpu_together(team, f, n))) expect_identical(value, Reduce(`+`, parts))
  }
})

test_that("as_gpu() of a reference is the member's array", {
  withr::local_options(verdigris.device = test_device)
  long <- matrix(seq_len(3e5) / 8, 3, dimnames = list(letters[1:3], NULL))
  values <- list(c(a = 1, b = NA), 1:3, c(TRUE, NA), complex(real = 1:2, imaginary = NaN), numeric(), long, ts(1:5 / 2, 2000))
  dtypes <- c("float64", "float32", "float16", "int32", "bool8")
  held <- list()
  for (x in values) held <- c(held, list(as_gpu(x)))
  for (dtype in dtypes) held <- c(held, list(as_gpu(c(x = 1, y = 0), dtype)))
  for (x in held) {
    refs <- within_seconds(60, gpu_together(team, function(x) gpu_ref(x), x))
    got <- within_seconds(60, as_gpu(refs[[2]]))
    expect_identical(list(gpu_dtype(got), gpu_device(got)), list(gpu_dtype(x), gpu_device(x)))
    expect_identical(attributes(collect(got)), attributes(collect(x)))
    expect_identical(collect(got), collect(x))
    expect_identical(collect(as_gpu(refs[[3]], device = "cpu")), collect(x))
  }
  refs <- gpu_together(team, function() gpu_ref(as_gpu(gpu_runif(10, dtype = "float32"))[2:4] * gpu_team_rank()))
  for (k in 1:3) expect_identical(collect(as_gpu(refs[[k]], "float64")), collect(refs[[k]]))
  expect_identical(gpu_dtype(as_gpu(refs[[1]], "float64")), "float64")
  # by a handle between processes where the driver can
  exports <- function(x, host) {
    exported <- get("export_to", envir = asNamespace("verdigris"))(x, host)
    if (!is.null(exported)) get("free_export", envir = asNamespace("verdigris"))()
    !is.null(exported)
  }
  host <- get("this_host", envir = asNamespace("verdigris"))()
  can <- function(x, host) unique(unlist(within_seconds(60, gpu_together(team, exports, x, host))))
  expect_identical(can(as_gpu(long), host), gpu_device(gpu_zeros(1)) != "cpu")
  expect_identical(can(as_gpu(long), list(host = "elsewhere", boot = "")), FALSE)
  expect_identical(can(as_gpu(1:3), host), FALSE)
  # a handle that the session cannot open: the array travels through the host
  replaced <- function(broken) {
    space <- asNamespace("verdigris")
    if (broken) OWN_EXPORT <<- space$export_to
    unlockBinding("export_to", space)
    assign("export_to", if (!broken) OWN_EXPORT else function(x, host) {
      exported <- OWN_EXPORT(x, host)
      if (!is.null(exported)) exported$handle[] <- as.raw(0)
      exported
    }, envir = space)
    NULL
  }
  environment(replaced) <- globalenv()
  gpu_together(team, replaced, TRUE)
  refs <- gpu_together(team, function(x) gpu_ref(x), held[[6]])
  expect_identical(collect(as_gpu(refs[[2]])), collect(held[[6]]))
  gpu_together(team, replaced, FALSE)
  # other values
  refs <- gpu_together(team, function() gpu_ref(gpu_sparse(i = 1:400, j = 1:400, x = 1:400 / 2, dim = c(400, 400))))
  expect_s4_class(as_gpu(refs[[2]]), "gpu_sparse")
  expect_identical(collect(as_gpu(refs[[2]])@x), 1:400 / 2)
  refs <- gpu_together(team, function() gpu_ref(list("a", data.frame(n = 1:2, s = c("x", "y")), "b")[[gpu_team_rank()]]))
  expect_error(as_gpu(refs[[1]]), class = "verdigris_error_dtype")
  expect_identical(collect(as_gpu(refs[[2]])), data.frame(n = 1:2, s = c("x", "y")))
  expect_error(as_gpu(refs[[1]], device = "tpu"), class = "verdigris_error_device")
  expect_identical(gpu_together(team, function() gpu_team_rank()), list(1L, 2L, 3L))
})

test_that("references, kept values and functions of rows stay on the workers", {
  refs <- gpu_together(team, function() gpu_ref(as_gpu(1:3 * gpu_team_rank())))
  expect_identical(gpu_together(team, function(x) sum(x), refs), list(6L, 12L, 18L))
  expect_identical(collect(refs[[2]]), c(2L, 4L, 6L))
  # the connections are made anew, and what was kept is there
  expect_error(gpu_together(team, function() stop("planted")), "planted")
  more <- gpu_together(team, function() gpu_ref(gpu_team_rank()))
  expect_identical(gpu_together(team, function(x, y) sum(x) + y, refs, more), list(7L, 14L, 21L))
  twice <- function(x, a) c(gpu_device(a) == gpu_device(gpu_zeros(1)), gpu_dtype(a), sum(a) + x)
  expect_identical(gpu_together(team, twice, 1, as_gpu(c(1, 2), "float32", test_device)), rep(list(c("TRUE", "float32",
    "4")), 3))
  x <- gpu_split(function(rows) cbind(rows, Sys.getpid()), team, n = 9)
  expect_identical(collect(x[, 1]), 1:9)
  expect_identical(unique(collect(x[, 2])), team$members$pid)
  arrays <- gpu_together(team, function(x) x[, 1] * 2, x)
  expect_identical(lapply(arrays, collect), list(c(2, 4, 6), c(8, 10, 12), c(14, 16, 18)))
  expect_true(all(vapply(arrays, is_gpu, NA)))
  d <- data.frame(a = 1:7, s = letters[1:7])
  expect_identical(collect(gpu_split(d, team)), d)
  # a step of logistic regression
  set.seed(1)
  X <- cbind(1, matrix(rnorm(60), 30))
  y <- rbinom(30, 1, 0.5)
  step <- function(x, y, b) gpu_all_reduce(crossprod(x, 1 / (1 + exp(-(x %*% b))) - y))
  b <- c(0.1, -0.2, 0.3)
  value <- gpu_together(team, step, gpu_split(X, team), gpu_split(y, team), b)[[1L]]
  expect_equal(collect(value), crossprod(X, 1 / (1 + exp(-(X %*% b))) - y))
})

test_that("workers that are reached all at once, in any order, are members too", {
  # as mirai's everywhere() does it: which worker takes which call is not known
  ended <- integer()
  everywhere <- function(f, args, patience, limit) {
    order <- sample(setdiff(seq_along(cl), ended))
    values <- parallel::clusterCall(cl[order], f, args[[1L]], args[[2L]], args[[3L]])
    # mirai's value for a daemon that has ended
    c(values, lapply(ended, function(k) structure(19L, class = c("errorValue", "try-error"))))
  }
  any_order <- within_seconds(60, gpu_team(structure(everywhere, class = "broadcast_engine"), timeout = 30))
  for (k in 1:3) expect_identical(gpu_together(any_order, function() gpu_all_reduce(gpu_team_rank())), list(6L, 6L, 6L))
  ranks <- lapply(1:3, function(k) unlist(gpu_together(any_order, function() Sys.getpid())))
  expect_identical(ranks[[1L]], ranks[[2L]])
  expect_identical(ranks[[1L]], any_order$members$pid)
  x <- gpu_split(m, any_order)
  expect_equal(colSums(x), colSums(m), tolerance = 1e-13)
  expect_identical(collect(x * 2), m * 2)
  ended <- 2L
  expect_error(gpu_together(any_order, function() 1), "ended", class = "verdigris_error_member")
})

test_that("calls under way are waited for as long as the engine says", {
  done <- c(FALSE, FALSE)
  values <- list(list(value = list(answer = list(value = 1))), list(value = list(answer = list(value = 2))))
  wait <- function(patience, limit) system.time(out <<- verdigris:::values_in_time(1:2, function(k) !done[k],
    function(k) values[[k]], patience, limit))[["elapsed"]]
  out <- NULL
  expect_lt(wait(Inf, 0.1), 2)
  expect_identical(out, list(NULL, NULL))
  done <- c(TRUE, FALSE)
  expect_lt(wait(0.01, 0.3), 2)
  expect_gt(wait(0.01, 0.3), 0.25)
  expect_identical(out, list(values[[1L]], NULL))
  # one has failed, or raised an error: the other has `patience` left
  for (failed in list(structure(19L, class = "errorValue"), list(error = list(message = "no")),
    list(value = list(answer = list(error = list(message = "no")))))) {
    values[[1L]] <- failed
    expect_lt(wait(0.05, 60), 5)
    expect_identical(out, list(failed, NULL))
  }
  done <- c(TRUE, TRUE)
  expect_lt(wait(60, 60), 1)
  expect_identical(out, values)
})

test_that("a collective of 200 doubles costs little", {
  skip_if(test_device != "cpu")
  f <- function() {
    x <- runif(200)
    for (k in 1:100) gpu_all_reduce(x)
    spent <- vapply(1:20, function(k) system.time(for (k in 1:25) gpu_all_reduce(x))[[3L]], 1)
    min(spent) / 25 * 1e6
  }
  us <- unlist(within_seconds(60, gpu_together(two, f)))
  cat(sprintf("\nall-reduce of 200 doubles between 2 workers: %.0f us\n", max(us)))
  expect_lt(max(us), 200 * 2 * stretch())
})
