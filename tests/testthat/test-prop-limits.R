# A call that needs more memory, or more threads, than the process may have is a classed error; R goes on, and its next
# values are right.

skip_on_os(c("mac", "windows"))

# Each is one call on an array of `n` elements that is recorded and takes no memory, or on what is made of it.
greedy <- c(
  "rowMeans(m)", "rowSums(m)", "colSums(m)", "colMeans(m)", "sweep(m, 2, c(1, 2))", "prop.table(x)", "scale(m)",
    "t(m) * 2", "aperm(m) + 1",
  "rep(x, times = 3)", "rep(x, each = 2)", "rep(x, times = rep(1:2, n / 2))", "rep_len(x, 2 * n)",
  "x[c(TRUE, FALSE)]", "x[c(TRUE, NA)]", "x[-(3:5)]", "x[n:1]", "x[c(n, 1:(n - 1))]", "x[as.double(c(5, 1:(n - 1)))]",
    "x[x > 0L]", "m[, c(2, 1)]",
  "m[c(TRUE, FALSE), ]", "m[-3, ]", "x[c(1, n)] <- 2L", "x[c(TRUE, FALSE)] <- 2L", "head(x, -5)", "tail(x, n - 5)",
    "rev(x)",
  "sort(x)", "order(x)", "rank(x)", "unique(x)", "duplicated(x)", "table(x)", "tabulate(x)", "match(x, 1:3)",
    "x %in% 1:3", "findInterval(x, 1:3)",
  "cumsum(x)", "cumprod(x)", "cummax(x)", "diff(x)", "range(x)", "quantile(x, c(.1, .5))", "median(x)", "var(x)",
    "sd(x)", "which(x > 0L)",
  "which.max(x)", "outer(x, 1:3)", "cbind(x, x)", "rbind(x, x)", "c(x, 1.5)", "ifelse(x > 0L, 1, 2)", "is.na(x)",
    "round(x / 3, 1)", "crossprod(m)",
  "m %*% matrix(1, 2, 2)", "rowsum(x, rep(1:2, n / 2))", "tapply(x, x, sum)", "ave(x, x)", "gpu_cast(x, 'float64') + 1",
    "as.vector(x)",
  "gpu_rnorm(n)", "gpu_runif(n)", "gpu_pinned(n)", "apply(m, 1, sum)", "gpu_save(x * 2, tempfile())",
    "as.integer(x) + 1L"
)

test_that("calls that find no memory are errors, and R goes on", {
  skip_if(test_device != "cpu", "CUDA reserves more addresses than any limit here")
  # glibc reserves 64 MB for each thread that happens to meet another in malloc(), more than is left here
  env <- "MALLOC_ARENA_MAX=1"
  # kB of addresses that R and the package take by themselves
  size <- in_child(c(
    "invisible(sum(sort(as_gpu(as.double(1e6:1)))))",
    "cat('\\n', sub('[^0-9]*([0-9]+).*', '\\\\1', grep('VmPeak', readLines('/proc/self/status'), value = TRUE)), sep = '')"
  ), env = env)
  size <- as.numeric(size[[length(size)]])
  # with less R itself may fail while it says what has failed
  for (more in c(60e3, 120e3)) {
    code <- c(
      "n <- 1e7; full <- function(dim) gpu_full(1L, dim, 'int8')",
      sprintf("calls <- %s", paste(deparse(greedy), collapse = "\n")),
      "for (call in calls) {",
      "  x <- full(n); m <- full(c(n / 2, 2))",
      "  kind <- tryCatch({ y <- eval(str2lang(call)); if (is_gpu(y)) gpu_compute(y); 'computed' }, error = function(e) {",
      "    if (inherits(e, 'verdigris_error')) class(e)[[1L]] else if (grepl('cannot allocate', conditionMessage(e))) 'R' else conditionMessage(e)",
      "  })",
      "  rm(list = intersect(c('x', 'y', 'm'), ls()))",
      "  cat(call, '->', kind, if (!identical(sum(as_gpu(as.double(1:10))), 55)) 'wrong', '\\n')",
      "}",
      "invisible(gc()); stopifnot(gpu_memory('cpu')[['live']] < 1e5)"
    )
    out <- expect_child_ends(code, timeout = 120, env = env, limits = sprintf("ulimit -v %.0f", size + more))
    lines <- grep(" -> ", out, value = TRUE, fixed = TRUE)
    expect_length(lines, length(greedy))
    known <- "-> (computed|R|verdigris_error_memory) $"
    expect_identical(grep(known, lines, value = TRUE, invert = TRUE), character())
    expect_gt(length(grep("verdigris_error_memory", lines, fixed = TRUE)), 0L)
  }
})

test_that("a process that gets no threads computes on the one that it has", {
  code <- c(
    "x <- as.double(1:3e5); y <- as_gpu(x)",
    "stopifnot(identical(sum(y), sum(x)), identical(as.vector(sort(-y)), sort(-x)), identical(as.vector(cumsum(y)), cumsum(x)))",
    "stopifnot(identical(as.vector(y * 2 + 1), x * 2 + 1), identical(as.vector(rev(y)[1:3]), rev(x)[1:3]))",
    "f <- tempfile(); gpu_save(y, f); stopifnot(identical(as.vector(gpu_load(f)), x))",
    "stopifnot(identical(as.vector(gpu_compile(function(x) x + 1)(y)), x + 1))",
    "for (k in 1:50) stopifnot(identical(sum(y + k), sum(x + k)))"
  )
  # stacks of 64 TB, which no system gives
  expect_child_ends(code, env = "RUST_MIN_STACK=70368744177664")
})

test_that("arrays beyond the memory limit are not copied to the host", {
  old <- options(verdigris.memory_limit = 1e6)
  on.exit(options(old))
  x <- gpu_full(1, 2e5, device = "cpu")
  expect_false(verdigris:::prefers_host(x))
  expect_true(verdigris:::prefers_host(gpu_full(1, 100, device = "cpu")))
  expect_error(anyDuplicated(x), class = "verdigris_error_memory")
  vast <- gpu_full(1, 3e9, device = "cpu")
  expect_error(as.vector(rev(vast)[1L]), class = "verdigris_error_memory")
  expect_error(diag(vast), class = "verdigris_error_shape")
  options(old)
  expect_true(verdigris:::prefers_host(x))
})

test_that("dimensions whose product is no number are errors", {
  wrong <- quote(list(
    gpu_full(1L, c(2^26, 2^26, 2^26)), gpu_full(1L, c(2^31 - 1, 2^31 - 1, 4)), gpu_full(1L, 2^60),
      rep(as_gpu(1:2), 2^52), rep(as_gpu(1:2), each = 2^52),
    rep_len(as_gpu(1:2), 2^60), rep(as_gpu(1:4), times = 2^51), outer(gpu_full(1L, 2^30), gpu_full(1L, 2^30)),
      as_gpu(1:4)[rep(1, 2^50)],
    array(as_gpu(1:2), c(2^26, 2^27)), gpu_runif(2^60)
  ))
  code <- unlist(lapply(as.list(wrong)[-1L], function(call) {
    sprintf("cat(tryCatch({ gpu_compute(%1$s); 'computed' }, error = function(e) paste('error', class(e)[[1L]])), '\\n')", paste(deparse(call), collapse = " "))
  }))
  out <- expect_child_ends(c(code, "stopifnot(sum(as_gpu(1:3)) == 6L)"))
  expect_identical(grep("^error ", out, value = TRUE, invert = TRUE), "end")
})
