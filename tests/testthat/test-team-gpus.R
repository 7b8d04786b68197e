# Teams of GPUs: NCCL between processes, copies between the devices of this one. Only where there are two GPUs.

gpus <- setdiff(gpu_devices()$device, "cpu")
several <- length(gpus) > 1L && is.na(Sys.getenv("VERDIGRIS_EMULATOR", NA))

gpu_workers <- function(n, env = parent.frame()) {
  cl <- parallel::makePSOCKcluster(n, outfile = "/dev/null")
  withr::defer(stop_workers(cl), envir = env)
  parallel::clusterCall(cl, function(paths) .libPaths(paths), .libPaths())
  cl
}

# Each by itself: one that was killed does not keep the others.
stop_workers <- function(cl) for (node in cl) try(parallel::stopCluster(structure(list(node), class = class(cl))),
  silent = TRUE)

test_that("the GPUs of one process copy to each other", {
  skip_if_not(several, "two GPUs")
  for (dtype in c("float64", "float32", "int32", "int8", "bool8", "complex128", "int64")) {
    x <- as_gpu(as.integer(runif(1e5) < 0.5), device = gpus[1L], dtype = dtype)
    for (k in 1:20) {
      # used and changed on both sides meanwhile
      y <- as_gpu(x, device = gpus[2L])
      x[k] <- x[k]
      z <- as_gpu(y, device = gpus[1L])
      y <- NULL
    }
    expect_identical(gpu_dtype(z), dtype)
    expect_identical(collect(z)[-20], collect(x)[-20])
    expect_identical(collect(as_gpu(x[10:1], device = gpus[2L])), collect(x)[10:1])
  }
  expect_identical(length(as_gpu(x[0], device = gpus[2L])), 0L)
  # queued behind what makes the values, and before what frees them
  for (k in 1:50) {
    a <- as_gpu(rep(k, 1e6), device = gpus[1L])
    b <- as_gpu(a * 2 + 1, device = gpus[2L])
    rm(a)
    expect_identical(sum(b), 1e6 * (2 * k + 1))
  }
})

test_that("NCCL's collectives are those of the host, to the bit", {
  skip_if_not(several, "two GPUs")
  cl <- gpu_workers(2)
  team <- gpu_team(cl, transport = "nccl", timeout = 60)
  expect_identical(team$transport, "nccl")
  expect_identical(sort(team$members$device), sort(gpus[1:2]))
  host <- gpu_team(cl, transport = "host", timeout = 60)
  values <- function(n, dtype) {
    set.seed(gpu_team_rank())
    x <- round(rnorm(n) * 100) / 8
    x[seq_len(n) %% 17 == gpu_team_rank()] <- NA
    if (n > 4) x[3:4] <- list(c(Inf, 2e9), c(-Inf, 2e9))[[gpu_team_rank()]]
    if (!dtype %in% c("float64", "float32", "complex128")) x <- pmin(pmax(trunc(x), -100), if (dtype == "int32") 2e9 else
      100)
    list(x = as_gpu(x, dtype = dtype), cpu = as_gpu(x, dtype = dtype, device = "cpu"))
  }
  run <- function(values, n, dtype, op) {
    x <- suppressWarnings(values(n, dtype))
    quiet <- function(code) suppressWarnings(collect(code))
    list(device = gpu_device(gpu_all_reduce(x$x, op)), reduce = quiet(gpu_all_reduce(x$x, op)),
      scatter = quiet(gpu_reduce_scatter(x$x, op)), gather = quiet(gpu_all_gather(x$x[seq_len(n / gpu_team_rank())])),
      first = quiet(gpu_broadcast(x$x)), last = quiet(gpu_broadcast(x$cpu, root = 2)))
  }
  for (dtype in c("float64", "float32", "int32", "int8", "bool8", "complex128")) {
    for (n in c(0, 1, 7, 1000, 300001)) {
      op <- if (dtype == "complex128") "+" else c("+", "*", "min", "max")[1 + n %% 4]
      got <- gpu_together(team, run, values, n, dtype, op)
      want <- gpu_together(host, run, values, n, dtype, op)
      expect_true(all(startsWith(vapply(got, `[[`, "", "device"), "cuda")))
      for (rank in 1:2) for (what in names(want[[1L]])[-1L]) expect_true(identical(got[[rank]][[what]],
        want[[rank]][[what]]), info = paste(dtype, n, op, what, rank))
    }
  }
  # long ones, whose pieces travel while others are folded; NA among them or not
  long <- function(dtype, op, missing) {
    set.seed(gpu_team_rank())
    x <- round(gpu_rnorm(2e7 + 3) * 8) / 8 + 2
    if (missing) x[c(5, 1.5e7)] <- c(NA, NaN)
    x <- gpu_cast(x, dtype)
    y <- suppressWarnings(gpu_all_reduce(x, op))
    part <- gpu_all_gather(x[1:10])
    list(y, sum(is.na(y)), collect(y[c(1:5, 1e7, 2e7)]), collect(part), gpu_dtype(y))
  }
  for (dtype in c("float64", "float32", "int32")) for (op in c("+", "*", "max")) for (missing in c(FALSE, TRUE)) {
    got <- gpu_together(team, function(f, ...) {
      found <- f(...)
      kept <<- found[[1L]]
      found[-1L]
    }, long, dtype, op, missing)
    want <- gpu_together(host, function(f, ...) {
      found <- f(...)
      c(found[-1L], sum(found[[1L]] != kept, na.rm = TRUE))
    }, long, dtype, op, missing)
    for (rank in 1:2) expect_identical(c(got[[rank]], 0L), want[[rank]], info = paste(dtype, op, missing))
  }
  # ordinary vectors, and arrays of the cpu, go by sockets in between
  mixed <- gpu_together(team, function() {
    a <- gpu_all_reduce(gpu_team_rank())
    b <- gpu_all_reduce(as_gpu(1:3))
    c <- gpu_all_gather(as_gpu(5, device = "cpu"))
    list(a, collect(b), collect(c))
  })
  expect_identical(mixed[[1L]], list(3L, 2L * 1:3, c(5, 5)))
  # many without a wait, on several streams, and in a graph
  loops <- gpu_together(team, function() {
    x <- as_gpu(c(1, 2))
    for (k in 1:2000) x <- gpu_all_reduce(x) / 2
    s <- gpu_stream()
    y <- with_gpu_stream(s, gpu_all_reduce(as_gpu(rep(2, 1e6))))
    z <- gpu_all_reduce(x)
    z <- z + y[1]
    c(collect(x), collect(z))
  })
  expect_identical(loops[[2L]], c(1, 2, 2 + 4, 4 + 4))
  graphs <- gpu_together(team, function() {
    y <- as_gpu(c(1, 2, 3))
    g <- gpu_graph({
      z <- gpu_all_reduce(y) * 2
      z
    })
    list(collect(g()), collect(g(y = as_gpu(c(10, 2, gpu_team_rank())))))
  })
  expect_identical(graphs[[1L]], list(c(4, 8, 12), c(40, 8, 6)))
  x <- gpu_split(matrix(as.double(1:40), 10), team)
  expect_equal(crossprod(x), crossprod(matrix(as.double(1:40), 10)))
})

test_that("members on one GPU, or without one, use the host; and are told", {
  skip_if_not(several, "two GPUs")
  cl <- gpu_workers(2)
  parallel::clusterCall(cl, function() options(verdigris.device = "cuda:0"))
  expect_message(team <- gpu_team(cl, timeout = 60), class = "verdigris_shared_gpu")
  expect_identical(team$transport, "host")
  expect_error(gpu_team(cl, transport = "nccl", timeout = 60), class = "verdigris_error_library")
})

test_that("a member that dies in NCCL's collective is an error on the others within seconds", {
  skip_if_not(several, "two GPUs")
  for (kind in c("killed", "killed in flight", "erring", "elsewhere")) {
    cl <- gpu_workers(2)
    team <- gpu_team(cl, transport = "nccl", timeout = 20)
    gpu_together(team, function() gpu_all_reduce(as_gpu(1)))
    began <- proc.time()[[3L]]
    e <- tryCatch(gpu_together(team, function(kind) {
      x <- as_gpu(rep(1, 5e7))
      for (k in 1:50) {
        if (gpu_team_rank() == 2 && k == 20) switch(kind,
          killed = tools::pskill(Sys.getpid(), 9),
          "killed in flight" = {
            gpu_all_reduce(x)
            tools::pskill(Sys.getpid(), 9)
          },
          erring = stop("planted"),
          elsewhere = gpu_barrier())
        x <- gpu_all_reduce(x) / 2
        assign("last", x, envir = globalenv())
      }
      sum(x)
    }, kind), error = identity)
    # what was lost is an error at each read, never other values; so is what is computed of it
    if (startsWith(kind, "killed")) {
      reads <- parallel::clusterCall(cl[1L], function() lapply(1:4, function(k) tryCatch(range(if (k > 2) last * 2 - 1
        else last), error = function(e) class(e)[1L])))[[1L]]
      for (read in reads) expect_true(identical(read, c(1, 1)) || identical(read, "verdigris_error_member"))
      expect_length(unique(reads[-1L]), 1L)
    }
    expect_s3_class(e, "verdigris_error_member")
    expect_lt(proc.time()[[3L]] - began, 15)
    team <- suppressMessages(gpu_repair(team))
    again <- gpu_together(team, function() collect(gpu_all_reduce(as_gpu(2))))
    expect_identical(again[[1L]], 2 * team$engine$size)
    # their memory is needed
    stop_workers(cl)
  }
})
