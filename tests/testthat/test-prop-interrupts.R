# Interrupts: a long call ends within 0.2 seconds of SIGINT wherever the package's own code runs.

# Runs each call in a child that is sent SIGINT while it is at it. Prints for each how long it went on after that; of a
# call that ended by itself before, "short".
interrupted_calls <- quote({
  options(verdigris.host_access = "allow")
  after <- 0.15
  mark <- tempfile()
  delay <- function(call) {
    unlink(mark)
    invisible(gc(FALSE))
    kill <- sprintf("(sleep %g; date +%%s.%%N > %s; kill -INT %d) > /dev/null 2>&1 &", after, mark, Sys.getpid())
    system(kill)
    how <- tryCatch({
      eval(call, globalenv())
      gpu_sync()
      "ended"
    }, interrupt = function(e) "interrupted")
    now <- as.numeric(Sys.time())
    if (how == "ended") {
      short <- !file.exists(mark)
      tryCatch(Sys.sleep(2 * after), interrupt = identity)
      if (short) return(NA)
    }
    now - as.numeric(readLines(mark))
  }
  for (name in names(calls)) {
    # a busy machine may take its time: of three tries the best
    for (turn in 1:3) if (is.na(best <- min(if (turn > 1) best, delay(calls[[name]]))) || best <= 0.2) break
    cat("\n@", name, if (is.na(best)) "short" else best, "\n")
  }
})

test_that("long calls end soon after an interrupt", {
  skip_on_os("windows")
  skip_if(emulated, "the emulated GPU takes long for a single kernel")
  set_up <- quote({
    n <- 3e7
    x <- gpu_compute(gpu_rnorm(n))
    u <- gpu_compute(gpu_cast(gpu_runif(n) * 2e9, "int32"))
    f32 <- gpu_compute(gpu_cast(x, "float32"))
    wide <- matrix(x, 1000)
  })
  calls <- quote(calls <- alist(
    draws = gpu_compute(gpu_rnorm(6e7)), gamma = gpu_compute(gpu_rgamma(n, 2)), poisson = gpu_compute(gpu_rpois(n, 1000)),
    sample = gpu_compute(gpu_sample(n)), running_sum = gpu_compute(cumsum(gpu_rnorm(2 * n))),
    read = as.vector(cumsum(gpu_rnorm(n))), running_extreme = gpu_compute(cummax(lgamma(x))),
    sort = gpu_compute(sort(x)), sort_whole = gpu_compute(sort(u)), sort_single = gpu_compute(sort(f32)),
    order = gpu_compute(order(x)), rank = gpu_compute(rank(x)), close = gpu_compute(sort(c(1 + x * 1e-12, 1e300))),
    unique = gpu_compute(unique(u)), duplicated = gpu_compute(duplicated(x)), match = match(u, u),
    quantile = quantile(x, 1:99 / 100), median = median(lgamma(x)), which = gpu_compute(which(lgamma(x) > 1)),
    mask = gpu_compute(x[lgamma(x) > 1]), elementwise = gpu_compute(digamma(x)), sum = sum(digamma(x)),
    rows = gpu_compute(rowSums(digamma(wide))), columns = gpu_compute(colSums(digamma(wide))),
    groups = tapply(x, u, mean), table = table(u %/% 100L), search = findInterval(x, sort(as.vector(x[1:1e5]))),
    assign = {
      y <- x
      y[seq_len(n - 1)] <- digamma(x[-1])
    },
    function_of_the_users = gpu_compute(gpu_map(function(v) {
      s <- 0
      for (j in 1:100) s <- s + v / j
      s
    }, x)), vector = as.vector(digamma(x)), joined = gpu_compute(cbind(digamma(x), x)),
    loop = for (k in 1:1000) gpu_compute(x + k), window = gpu_compute(gpu_roll(x, 100, "max"))
  ))
  out <- in_child(c(deparse(set_up), deparse(calls), deparse(interrupted_calls)), timeout = 400)
  expect_identical(attr(out, "status"), 0L)
  told <- do.call(rbind, strsplit(grep("^@", out, value = TRUE), " "))
  expect_identical(told[, 2L], names(eval(calls)))
  late <- suppressWarnings(as.numeric(told[, 3L]))
  expect_identical(told[!is.na(late) & late > 0.2, 2L], character(), info = paste(out, collapse = "\n"))
  # enough of them are at it when the interrupt comes; a GPU has done many by then
  expect_gte(sum(!is.na(late)), if (test_device == "cpu") 20 else 3)
})

test_that("a time limit that is reached within a wait is an error, in forked children too", {
  skip_on_os("windows")
  skip_if(emulated, "the emulated GPU takes long for a single kernel")
  code <- quote({
    x <- gpu_compute(gpu_rnorm(2e7))
    long <- function() {
      setTimeLimit(elapsed = 0.3, transient = TRUE)
      for (k in 1:1000) x <- gpu_compute(sin(sort(x)))
      sum(x)
    }
    how <- function(f) tryCatch({
      f()
      "ended"
    }, error = function(e) paste("error", conditionMessage(e), is.null(conditionCall(e))), interrupt = function(e) "interrupt")
    cat("@", how(long), "\n")
    setTimeLimit()
    # the next call is not disturbed by what was kept
    cat("@", how(function() collect(sum(x))), "\n")
  })
  out <- expect_child_ends(code)
  expect_match(grep("^@", out, value = TRUE)[1L], "^@ error .*time limit")
  expect_identical(grep("^@", out, value = TRUE)[2L], "@ ended ")
  expect_false(any(grepl("^Error", out)))
  skip_if(test_device != "cpu", "a forked child cannot use the parent's GPU")
  forked <- bquote({
    .(code)
    cat("@ child", parallel::mclapply(1, function(k) how(long), mc.cores = 1L)[[1L]], "\n")
    job <- parallel::mcparallel(how(long))
    cat("@ child", parallel::mccollect(job)[[1L]], "\n")
  })
  out <- expect_child_ends(forked)
  expect_match(utils::tail(grep("^@ child", out, value = TRUE), 1L), "error .*time limit")
})
