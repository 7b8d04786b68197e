# The differential grid: every row of the operation table that R can name, in every dtype that R has no type for (and
# bool8), in every layout.

dtypes <- c("float32", "float16", "bfloat16", "int8", "uint8", "int16", "int64", "bool8", "complex64")

# Values that the dtype holds, the edges first.
values_of <- function(dtype, n, seed = 1L) {
  x <- switch(dtype,
    bool8 = values("logical", n, seed), complex64 = values("complex", n + 2L, seed)[-c(1L, 8L)],
    float32 = , float16 = , bfloat16 = values("double", n, seed),
    {
      set.seed(seed)
      most <- switch(dtype, int8 = 127L, uint8 = 255L, int16 = 32767L, int64 = 1e6L)
      c(if (dtype != "uint8") c(NA, -1L, -most), 0L, 1L, 2L, most, sample(if (dtype == "uint8") 0:9 else -9:9, n, TRUE))
    })
  x <- rep_len(x, n)
  if (dtype == "int64") bit64::as.integer64(x) else x
}

# The operands of a layout: as many as asked for, and what is done to each first.
laid_out <- function(layout, dtype, arity) {
  lengths <- switch(layout, recycled = c(60L, 20L, 5L), contiguous = , transposed = 60L, as.integer(layout))
  operands <- lapply(seq_len(arity), function(k) {
    n <- lengths[min(k, length(lengths))]
    x <- values_of(dtype, n, k)
    # edges meet ordinary values, and each other in a place that depends on the length
    if (k > 1L) x <- rev(x)
    if (layout == "transposed") dim(x) <- c(12L, 5L)
    x
  })
  list(operands = operands, before = if (layout == "transposed") t else identity)
}
layouts_tried <- c("contiguous", "recycled", "transposed", "0", "1", "63", "64", "65", "257")

# Lengths share a kernel, layouts do not: where each is compiled an operation meets every other dtype in every other
# layout.
layouts_for <- function(name, dtype, k) {
  left_out <- c(if (name == "select") "0", if (test_device != "cpu")
    c("recycled", "transposed")[(k + match(dtype, dtypes)) %% 2L + 1L])
  setdiff(layouts_tried, left_out)
}

# What R calls a row, as a function of its operands. Rows without a name of R's, casts, integers' bits, distributions
# (test-diff-distributions.R) and Bessel functions (test-ops-special.R) have their own tests.
call_of_row <- function(row) {
  if (startsWith(row$rule, "To") || startsWith(row$name, "bit_")) return(NULL)
  if (row$group %in% c("Distribution", "Bessel")) return(NULL)
  # the mean of a quantile is 0: a sum may cancel
  quantile <- function(upper, log) function(p, m, s) qnorm(p, m * 0, s, !upper, log)
  switch(row$name,
    dnorm_log = function(x, m, s) dnorm(x, m, s, log = TRUE),
    pnorm_upper = function(x, m, s) pnorm(x, m, s, FALSE), pnorm_log = function(x, m, s) pnorm(x, m, s, TRUE, TRUE),
    pnorm_upper_log = function(x, m, s) pnorm(x, m, s, FALSE, TRUE),
    qnorm = quantile(FALSE, FALSE), qnorm_upper = quantile(TRUE, FALSE), qnorm_log = quantile(FALSE, TRUE),
      qnorm_upper_log = quantile(TRUE, TRUE),
    pmin_na_rm = function(x, y) pmin(x, y, na.rm = TRUE), pmax_na_rm = function(x, y) pmax(x, y, na.rm = TRUE),
    # far out base R loses the digits of its two logarithms of beta
    choose = function(n, k) choose(n, pmax(pmin(round(k), 100), -100)), lchoose = function(n, k)
      lchoose(n, pmax(pmin(round(k), 100), -100)),
    # a test that is never NA: base R's ifelse() takes the type of what it uses
    select = function(x, y, z) ifelse(is.na(x), y, z),
    if (row$group != "Internal") match.fun(row$r))
}

# What is not asked of a dtype: base R has no such function of complex numbers, and of whole numbers bit64 has few.
leaves_out <- function(row, dtype) {
  dtype == "complex64" && (row$rule == "Real" && row$arity > 1L || row$name %in% c("pmin", "pmax", "pmin_na_rm",
    "pmax_na_rm", "select"))
}

# An int64 array beside doubles of the same values: what it gives in int64 is compared as doubles.
compare64 <- function(f, given, ulp, what, row) {
  cases$n <- cases$n + 1L
  doubles <- function(x) {
    y <- if (inherits(x, "integer64")) as.double(unclass_shape(x)) + 0 else x
    dim(y) <- dim(x)
    y
  }
  unclass_shape <- function(x) {
    dim(x) <- NULL
    x
  }
  hosts <- lapply(lapply(given$operands, doubles), given$before)
  got <- outcome(do.call(f, lapply(lapply(given$operands, gpu), given$before)))
  want <- outcome(do.call(f, hosts))
  if (inherits(got$value, "integer64")) want$value <- want$value + 0 # no negative zeros
  got$value <- if (inherits(got$value, "integer64")) doubles(got$value) else got$value
  fine <- excused(row, hosts, want$value, got$value)
  said <- difference(got$value, want$value, ulp, payload = FALSE, fine = fine$elements)
  if (is.null(said)) NULL else paste0(what, ": ", said)
}

test_that("every operation agrees with base R in every dtype and layout", {
  skip_if_not_installed("bit64")
  for (k in Filter(is_ours, seq_len(nrow(operations)))) {
    row <- operations[k, ]
    f <- call_of_row(row)
    if (is.null(f)) next
    found <- list()
    for (dtype in dtypes) {
      if (leaves_out(row, dtype)) next
      for (layout in layouts_for(row$name, dtype, k)) {
        given <- laid_out(layout, dtype, row$arity)
        what <- sprintf("%s(%s) %s", row$name, dtype, layout)
        g <- f
        if (layout == "recycled" && row$arity == 1L) {
          # one operand: its result is the one that is recycled
          given$operands <- list(values_of(dtype, 20L), rep(FALSE, 60L))
          g <- function(v, w) f(v) + w
        }
        found <- c(found, if (dtype == "int64") compare64(g, given, row$ulp, what, row$r) else
          compare(g, given$operands, dtype, row$ulp, what, row$r, given$before))
      }
    }
    expect_all_same(found)
  }
})

test_that("reductions agree with base R in every dtype and layout", {
  functions <- list(sum = sum, min = min, max = max, range = range, mean = mean, any = function(x, ...)
    any(x != 0, ...),
                    all = function(x, ...) all(x != 0, ...), which.max = function(x, ...)
                      which.max(x), which.min = function(x, ...) which.min(x))
  found <- list()
  for (dtype in setdiff(dtypes, "int64")) {
    eps <- if (dtype %in% names(epsilon)) epsilon[[dtype]] else 2^-52
    for (layout in layouts_tried) {
      x <- laid_out(layout, dtype, 1L)$operands[[1L]]
      x[] <- suppressWarnings(collect(gpu(x, dtype)))
      x <- list(x, x[!is.na(x) & Mod(x) < 1e4])
      for (name in names(functions)) for (v in x) for (na.rm in c(FALSE, TRUE)) {
        if (dtype == "complex64" && !name %in% c("sum", "mean")) next
        f <- functions[[name]]
        before <- function(w) {
          if (layout == "transposed" && is.matrix(w)) w <- t(w)
          if (is_gpu(w)) gpu_cast(w, dtype) else w
        }
        found <- c(found, compare(function(w) f(w, na.rm = na.rm), list(v), NULL, 8 * eps / 2^-52,
          sprintf("%s(%s, na.rm = %s) %s", name, dtype, na.rm, layout), before = before))
      }
    }
  }
  expect_all_same(found)
})

test_that("the grid of dtypes is as large as it was", {
  expect_cases(if (test_device == "cpu") 8000L else 6000L)
})
