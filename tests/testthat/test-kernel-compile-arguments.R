# Arguments of functions of base R within compiled functions: by name, by part of a name, in any order.

body_of <- function(call) as.function(list(x = quote(expr = ), call), envir = globalenv())

test_that("named arguments mean what they mean in R", {
  calls <- alist(
    match(table = c(3, 1, 2.5), x = x),
    `%in%`(table = c(1, 4), x = x) + 0,
    sum(crossprod(y = c(1, 2) * x, x = c(3, 5))), sum(tcrossprod(x = c(3, 5), y = c(1, 2) * x) * c(1, 2, 3, 4)),
    sum(tcrossprod(c(1, 2) * x)), sum(t(x = c(x, 2 * x))),
    sum(seq(to = 5, length.out = 3) * c(1, 2, 4)), sum(seq(to = x, by = 2, length.out = 4) * c(1, 2, 4, 8)),
    sum(seq(length.out = 3, to = x) * c(1, 2, 4)), sum(seq(by = 0.5, from = x, length.out = 3) * c(1, 2, 4)),
    sum(seq(x, length.out = 3) * c(1, 2, 4)), sum(seq(x, x + 3, length.out = 3) * c(1, 2, 4)),
    sum(seq(length.out = 3, by = 2) * c(1, 2, 4)), sum(seq(length.out = 3) * c(1, 2, 4)),
    sum(seq(to = 7L, by = 2L, length.out = 3L) %/% 2L), sum(seq(2L, by = 3L, length.out = 3L) %/% 2L),
    sum(seq(to = 7, by = 2, length.out = 3L) %/% 2), sum(seq(to = 4)), sum(seq(by = 2, to = 9, 1)),
    sum(seq(2, 8, len = 3)),
    sum(rep(times = 2, x = x)), sum(rep_len(length.out = 3, x = x)), sum(rep.int(2, x = x)),
    sum(matrix(ncol = 2, data = x, nrow = 2)), ncol(x = matrix(1, ncol = 3, nrow = 2)) * x,
    sum(vector(length = 3, mode = "numeric") + x), length(numeric(length = 2)) * x, sum(seq_len(length.out = 3)) * x,
    sum(seq_along(along.with = c(x, x, x))), round(digits = 1, x = x), signif(digits = 2, x = x), log(base = 2, x = x),
    log(ba = 2, x), atan2(x = 1, y = x), beta(b = 2, a = x), choose(k = 2, n = 5) * x,
    ifelse(no = 1, test = x > 2, yes = 2), ifelse(yes = 2, x > 2, 1), switch(EXPR = 2, 1, x), switch(1, EXPR = 2, x),
    Re(complex(imaginary = 1, real = x)), Im(complex(arg = 0.5, mod = x)), dnorm(sd = 2, x = x, mean = 1),
    dnorm(m = 1, x, 2), pgamma(lower.tail = FALSE, x, rate = 2, shape = 3), besselJ(nu = 1, x = x),
    which.max(x = c(1, x, 3)), mean(x = c(x, 1)), sum(cumsum(x = c(x, 1))), sum(rev(x = c(x, 1)) * c(1, 2)),
    factorial(x = x), isTRUE(x = x > 2) + 0, as.integer(x = x), length(x = c(x, 1)), is.numeric(x = x) + 0,
    identity(x = x), bitwAnd(b = 3L, a = as.integer(x))
  )
  x <- c(0.5, 1, 2.5, 3, 4.25)
  for (call in calls) {
    f <- body_of(call)
    want <- vapply(x, function(v) as.double(f(v)), 0)
    got <- gpu_map(f, gpu(x))
    expect_equal(as.double(as.vector(got)), want, tolerance = 1e-12, label = deparse1(call))
    expect_identical(typeof(got), typeof(f(x[1L])), label = deparse1(call))
  }
})

test_that("arguments that R refuses, or that would be ignored, are refused", {
  for (call in alist(round(x, digits = 1, digits = 2), round(x, digits = 1, dig = 2), crossprod(x, x, x),
    seq(1, 5, 1, length.out = 3), complex(length.out = 2, real = x), match(x, c(1, 2), nomatch = 0L),
    match(x, c(1, 2), 0L), match(x, table = 1, table = 2), `%in%`(x, c(1, 2), 0), factorial(x, 2), factorial(n = x),
    seq_len(3, 4), log(x, 2, 3), atan2(x, 1, 2), dnorm(x, mean = 1, mean = 2), vector("list", 2), length(x, x),
    ifelse(x > 1, 1, 2, 3), as.integer(y = x), isTRUE(x, x)))
    expect_error(gpu_map(body_of(call), gpu(c(1, 2))), class = "verdigris_error_compile", label = deparse1(call))
})
