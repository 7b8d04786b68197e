# Teams for tests: workers are slow to start, so a file shares a cluster; nothing may wait longer than a minute.

worker_cluster <- function(n, env = parent.frame()) {
  cl <- parallel::makePSOCKcluster(n, outfile = "/dev/null")
  withr::defer(parallel::stopCluster(cl), envir = env)
  parallel::clusterCall(cl, function(paths, device) {
    .libPaths(paths)
    options(verdigris.device = device)
  }, .libPaths(), test_device)
  cl
}

# How much longer things take than on an idle machine: other tests, and other builds, may run beside these.
stretch <- function() {
  load <- if (file.exists("/proc/loadavg")) scan("/proc/loadavg", n = 1L, quiet = TRUE) else 1
  max(1, load / parallel::detectCores())
}

# Ends the code with an error where it takes longer; waits of this package's look for it as for Ctrl-C.
within_seconds <- function(seconds, code) {
  setTimeLimit(elapsed = seconds * stretch(), transient = TRUE)
  on.exit(setTimeLimit())
  code
}

# A call of a split x gives what it gives of the whole.
split_value <- function(value) if (inherits(value, "gpu_split")) collect(value) else value
expect_split_as_base <- function(call, whole, x, info, want_as = identity) {
  cases$n <- cases$n + 1L
  want <- want_as(eval(call, list(x = whole), globalenv()))
  got <- split_value(eval(call, list(x = x), globalenv()))
  label <- paste(deparse1(call), info)
  expect_identical(typeof(got), typeof(want), label = label)
  expect_identical(got, want, label = label)
}

# Calls of a matrix m, a vector v of its rows, and a value w of as many as its columns, that a split answers as m does.
split_calls <- list(
  recorded = alist(
    m, m + 1, 2 - m, -m, !m, m * m, m > 0, m & TRUE, m == v, m / v, v * m, m^2, m %% 3, m %/% 2, m * c(2, 3), m + w,
    sqrt(abs(m)), exp(m), round(m / 3, 1), is.na(m), is.finite(m), is.nan(m), is.infinite(m), floor(m / 2),
    log(abs(m), 2), t(m), t(m) * 2, t(t(m) + 1), m[, 2], m[, 2:3], m[, -1], m[, c(TRUE, FALSE, TRUE, FALSE)], m[, "b"],
    m[, "b", drop = FALSE], m[, c("d", "a")] * 2, m[, 1] + m[, 2], v + 1, v * v, m * m[, 1], rowSums(m), rowMeans(m),
    rowSums(m, na.rm = TRUE), sweep(m, 2, w), sweep(m, 1, v), sweep(m, 2, w, "*"),
    m %*% w, m %*% cbind(x = w, y = 1), (m + 1)[, 2] * 3
  ),
  reduced = alist(
    sum(m), sum(m, na.rm = TRUE), sum(m > 0), prod(m / 4), prod(m / 4, na.rm = TRUE), min(m), max(m), range(m),
    range(m, na.rm = TRUE), min(v), any(m > 3), all(m > -100), any(m > 100), all(m < 3, na.rm = TRUE), any(is.na(m)),
    mean(m), mean(m, na.rm = TRUE), mean(v), colSums(m), colMeans(m), colSums(m, na.rm = TRUE),
    colMeans(m, na.rm = TRUE), colSums(m * 2 + 1), rowSums(t(m)), rowMeans(t(m), na.rm = TRUE), var(m), var(m[, 1]),
    var(m[, 1], na.rm = TRUE), sd(m[, 2]), sd(v), crossprod(m), crossprod(m, v), crossprod(m, m + 1),
    crossprod(m[, 2:3]), dim(m), nrow(m), ncol(m), length(m), length(v), colnames(m),
    crossprod(sweep(m, 2, colMeans(m)))
  )
)

# Compares these calls on splits with those on matrices: sums of doubles within a few units in the last place, the rest
# exactly. Names are those of columns only.
compare_splits <- function(team, m, v, w = as.double(1:4)) {
  host <- list(m = m, v = v, w = w)
  ours <- list(m = gpu_split(m, team), v = gpu_split(v, team), w = w)
  found <- list()
  for (kind in names(split_calls)) for (call in split_calls[[kind]]) {
    cases$n <- cases$n + 1L
    # of an ordinary operand both spellings
    for (values in list(ours, replace(ours, "v", list(v)))) {
      if (!is_split(values$v) && "v" %in% all.vars(call) && kind == "reduced") next
      want <- outcome(eval(call, host, globalenv()))
      got <- outcome(eval(call, values, globalenv()))
      got$value <- if (inherits(got$value, "gpu_split")) tryCatch(collect(got$value), error = function(e)
        structure(list(message = conditionMessage(e)), class = "failed")) else got$value
      if (is.double(want$value)) {
        same <- all.equal(got$value, want$value, tolerance = 1e-12, check.attributes = TRUE)
        if (!isTRUE(same)) found <- c(found, paste0(deparse1(call), ": ", paste(same, collapse = "; ")))
      } else if (!identical(got$value, want$value)) {
        found <- c(found, paste0(deparse1(call), ": ", deparse1(got$value), " is not ", deparse1(want$value)))
      }
    }
  }
  found
}
