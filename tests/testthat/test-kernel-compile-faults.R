# Compiled functions that gave other values than R does. Each is compared with the plain function.

body_of <- function(call) as.function(list(x = quote(expr = ), call), envir = globalenv())

# Compares body_of(call) for elements of x with R's values.
expect_as_in_r <- function(calls, x = c(0.5, 1, 2.5, 3)) {
  for (call in calls) {
    f <- body_of(call)
    want <- lapply(x, f)
    label <- deparse1(call)
    got <- gpu_map(f, gpu(x))
    got <- if (is.list(got)) lapply(got, as.vector) else as.vector(got)
    expect_equal(as.double(unlist(got)), as.double(unlist(if (is.list(got)) do.call(Map, c(c, want)) else want)),
      tolerance = 1e-12, label = label)
  }
}

expect_refused <- function(calls, x = c(1, 2)) {
  for (call in calls)
    expect_error(gpu_map(body_of(call), gpu(x)), class = "verdigris_error_compile", label = deparse1(call))
}

# A function that fails when it runs.
expect_failure_at_run <- function(call, x, regexp, ...) {
  expect_error(as.vector(gpu_map(body_of(call), gpu(x))), regexp, ..., label = deparse1(call))
}

test_that("conversions drop dimensions", {
  expect_as_in_r(alist(
    {m <- matrix(c(x, 2, 3, 4), 2); v <- as.numeric(m); (v %*% v)[1]},
    {m <- matrix(c(1L, 2L, 3L, 4L), 2); is.null(dim(as.integer(m))) + x},
    {m <- matrix(c(x, 0, 3, 4), 2); v <- as.logical(m) + 0; sum(v * c(1, 2, 3, 4))}
  ))
})

test_that("the value of an assignment to elements is the assigned one", {
  expect_as_in_r(alist(
    {v <- c(x, 2, 3); u <- (v[2:3] <- v[1:2]); u[2] * 10 + u[1]},
    {v <- c(x, 2, 3); sum((v[2:3] <- v[1:2]) * c(1, 10))},
    {v <- c(x, 2, 3); u <- (v[] <- v[3:1]); sum(u * c(1, 10, 100)) + sum(v)},
    {l <- list(a = x, b = 2); y <- (l$a <- l$a + 1); y * 10 + l$a},
    {l <- list(a = c(x, 1)); y <- (l$a <- l$a[2:1]); sum(y * c(1, 10)) + l$a[1]},
    {v <- c(x, 2); y <- (v[1] <- v[2]); y + v[1]}
  ))
  f <- function(x) {
    v <- c(x, 2, 3)
    v[2:3] <- v[1:2]
  }
  expect_equal(as.vector(unlist(lapply(gpu_map(f, gpu(c(1, 5))), as.vector))), c(1, 5, 2, 2))
})

test_that("a default that reads a later parameter takes that parameter", {
  k <- 100
  f <- function(x, n = k, k = 3) n + x
  expect_equal(as.vector(gpu_map(f, gpu(c(1, 2)))), f(c(1, 2)))
  g <- function(x) {
    h <- function(a, b = d(a), d = function(z) z * 2) b + 1
    h(x)
  }
  expect_equal(as.vector(gpu_map(g, gpu(c(1, 2)))), g(c(1, 2)))
  f <- function(x, y = (function(y = x) y + 1)()) y
  expect_equal(as.vector(gpu_map(f, gpu(c(1, 2)))), f(c(1, 2)))
  expect_error(gpu_map(function(x, a = b, b = a) x + a, gpu(1)), class = "verdigris_error_compile")
  expect_error(gpu_map(function(x, k = k) x + k, gpu(1)), class = "verdigris_error_compile")
})

test_that("seq() ends where R's does", {
  expect_as_in_r(alist(
    {n <- 0; for (t in seq(0, 0.3, by = 0.1)) if (t <= 0.3) n <- n + 1; n + x},
    {n <- 0; for (t in seq(x, x + 0.3, by = 0.1)) if (t <= x + 0.3) n <- n + 1; n},
    {n <- 0; for (t in seq(x + 0.3, x, by = -0.1)) if (t >= x) n <- n + 1; n},
    {b <- 0.1 * x; s <- 0; for (t in seq(0, 0.3 * x, by = b)) s <- s + t; s},
    (seq(x, 1, length.out = 50)[50] == 1) + 0, sum(seq(1, 10, length.out = 2.5)) + x,
    sum(seq(x, 10, length.out = x + 0.25)), sum(seq(x, 7, length.out = x + 2)), sum(seq(1, 4, length.out = 6)) * x,
    {v <- c(x); sum(seq(v))}, seq(x, x, by = 0)[1] + 1, sum(seq(0, 1, by = 0.1)) * x, sum(seq(10, 1, by = -3)) * x,
    length(seq(0, 1, by = 0.1)) + x, seq(0, 1, 0.1)[4] + x, sum(seq(1L, 6, by = 2L) / 2) + x,
    seq(1, 2, length.out = 1)[1] + x, sum(seq.int(1, 9, by = 2L)) + x, sum(seq.int(0, x, by = 0.3))
  ))
  expect_refused(alist(sum(seq(1, 5, by = -1)) + x, sum(seq(0, 1, by = -0.1)) + x))
  expect_failure_at_run(quote(sum(seq(x, 5, by = -1))), 1, "wrong sign")
  f <- function(x, v) sum(seq(v)) + x
  compiled <- gpu_compile(f, whole = "v")
  expect_equal(as.vector(compiled(gpu(1), gpu(c(5, 5, 5)))), 7)
  expect_error(as.vector(compiled(gpu(1), gpu(5))), "one element")
})

test_that("sequences beyond 2^31 are refused, or of doubles", {
  expect_as_in_r(alist(sum(2147483646:2147483648) + x, {s <- 0; for (k in 2147483646:2147483649) s <- k; s + x}))
  expect_refused(alist({s <- 0; for (i in 1:3e9) s <- s + 1; s}, (1:3e9)[3] + x, seq_len(3e9)[2] + x,
    sum(seq(1, 3e9, by = 0.5)) + x))
  expect_failure_at_run(quote({s <- 0; for (k in x:(x + 2e10)) {s <- k; if (s > 5) break}; s}), 1, "too many")
  expect_failure_at_run(quote({s <- 0; for (k in seq_len(x)) {s <- k; if (s > 5) break}; s}), 3e9, "coercible")
  expect_failure_at_run(quote(sum(1:x)), NA_real_, "NA/NaN argument")
  f <- function(x) {
    s <- 0
    for (k in x:(x + 2)) s <- k
    s
  }
  expect_error(as.vector(gpu_map(f, gpu(2147483646L))), "beyond 2147483647")
  expect_equal(as.vector(gpu_map(f, gpu(c(5L, -3L)))), c(7, -1))
  expect_as_in_r(alist({s <- 0; for (k in 1:x) s <- s + k; s}, {s <- 0; for (k in 3:x) s <- s * 2 + k; s}))
  expect_warning(y <- as.vector(gpu_map(function(x) as.integer(3e9) + x, gpu(1L))), "NAs introduced")
  expect_identical(y, NA_integer_)
})

test_that("missing() follows assignments", {
  f <- function(x, y = 2) {
    y <- 3
    if (missing(y)) 1 else x + y
  }
  expect_equal(as.vector(gpu_map(f, gpu(c(1, 2)))), f(c(1, 2)))
  f <- function(x, n) {
    if (missing(n)) n <- 3
    if (missing(n)) 1 else n * x
  }
  expect_equal(as.vector(gpu_map(f, gpu(1:3))), f(1:3))
  f <- function(x, n = 1) {
    if (x > 1) n <- 3
    if (missing(n)) 1 else n * x
  }
  expect_equal(as.vector(gpu_map(f, gpu(c(0, 1, 2)))), vapply(c(0, 1, 2), f, 0))
  f <- function(x, n = 1) {
    s <- 0
    for (k in 1:3) {
      if (missing(n)) s <- s + 10
      n <- x
    }
    s + n
  }
  expect_equal(as.vector(gpu_map(f, gpu(c(0, 1)))), vapply(c(0, 1), f, 0))
  f <- function(x, y = 2) {
    h <- function(a, b) if (b > 0) a else 0
    h(if (missing(y)) sqrt(x - 2) else 99, x - 1)
  }
  expect_equal(as.vector(gpu_map(f, gpu(c(3, 6)))), vapply(c(3, 6), f, 0))
  f <- function(x, y = 2) if (missing("y")) x else y
  expect_equal(as.vector(gpu_map(f, gpu(5))), f(5))
  expect_refused(alist({y <- x; if (missing(y)) 1 else 2}))
})

test_that("functions, flags and syntax of the user are looked up", {
  f <- local({
    stop <- function(m) 0
    function(x) {
      if (x > 1) stop("a")
      x
    }
  })
  expect_equal(as.vector(gpu_map(f, gpu(c(0, 5)))), c(0, 5))
  f <- local({
    T <- FALSE
    function(x) sum(c(x, NA), na.rm = T)
  })
  expect_error(gpu_map(f, gpu(1)), class = "verdigris_error_compile")
  expect_as_in_r(alist(sum(c(x, NA), na.rm = T)))
  env <- new.env(parent = baseenv())
  f <- as.function(list(x = quote(expr = ), quote(sum(c(x, NA), na.rm = T))), envir = env)
  compiled <- gpu_compile(f)
  expect_equal(as.vector(compiled(gpu(2))), 2)
  assign("T", FALSE, envir = env)
  expect_error(compiled(gpu(2)), class = "verdigris_error_compile")
  for (keyword in c("[", "(", "&&", "{", "if")) {
    env <- new.env(parent = globalenv())
    assign(keyword, function(...) 42, envir = env)
    code <- switch(keyword, `[` = quote(x[1]), `(` = quote((x)), `&&` = quote(x && x), `{` = quote({x}),
      `if` = quote(if (x > 0) 1 else 2))
    expect_error(gpu_map(as.function(list(x = quote(expr = ), code), envir = env), gpu(1)),
      class = "verdigris_error_compile", label = keyword)
  }
  expect_refused(alist({`[` <- function(a, i) 42; x[1]}))
})

test_that("a subscript that assigns changes no other subscript", {
  expect_as_in_r(alist({m <- matrix(c(x, 2, 3, 4), 2); i <- 1; m[i, (i <- 2)]},
    {v <- c(x, 2); v[(v[1] <- 1)] + v[1]}), c(5, 6))
})

test_that("elements of lists and named vectors are assigned as in R", {
  expect_as_in_r(alist(
    {l <- list(a = x, b = 2); l$a <- NULL; length(l)}, {l <- list(a = x, b = 2); l$c <- 1; length(l) + l$c},
    {v <- c(a = x, b = 2); v["b"] <- 5; sum(v)}, {l <- list(a = c(x, 1)); l[["a"]] <- c(2, x); sum(l$a * c(1, 10))},
    {l <- list(a = x, b = 2); l[["b"]] <- NULL; length(l)}, {l <- list(a = 1L, b = x); l[["a"]] <- 1.5; l$a + l$b}, sum(c(c(a = x, b = 1), 2, use.names = FALSE)),
    length(c(x, 1, use.names = TRUE)), length(c(x, 1, recursive = FALSE))
  ))
  expect_refused(alist({v <- c(a = 2147483647L, b = 1L); v["b"] <- 1.5; v[["a"]] + x}, length(c(recursive = x)),
    {l <- list(a = x, b = 1); l["a"] <- c(1, 2); length(l)}))
})

test_that("stopifnot() and stop() are R's", {
  expect_refused(alist({stopifnot(x); x}, {stopifnot(NULL); x}, {stopifnot(exprs = {x > 0}); x}, stop("a", x)))
  expect_failure_at_run(quote({stopifnot(c(x, 1) > 0); x}), -1, "c(x, 1) > 0 are not all TRUE", fixed = TRUE)
  expect_failure_at_run(quote({stopifnot(x > 0); x}), -1, "x > 0 is not TRUE", fixed = TRUE)
  expect_failure_at_run(quote({if (x < 0) stop("ab", "cd", call. = FALSE); x}), -1, "abcd")
  expect_failure_at_run(quote({if (x < 0) stop(call. = FALSE, "zz"); x}), -1, "zz")
  expect_as_in_r(alist({stopifnot(x > 0, TRUE, c(x, 2) > 0); x}))
})

test_that("draws refuse what R refuses", {
  for (call in alist(sample.int(x, 1), sample(x, 1))) for (bad in c(0, NA, 0.5, -3))
    expect_error(as.vector(gpu_map(body_of(call), gpu(c(bad, 3)))), "invalid first argument|below 1", label = bad)
  expect_refused(alist(rgamma(1, x, 3, 4), rgamma(1, x, rate = 3, scale = 4)))
  y <- as.vector(gpu_map(function(x) sample.int(x, 1), gpu(c(1, 1))))
  expect_identical(y, c(1L, 1L))
})

test_that("products of shapes that do not conform are refused", {
  expect_refused(alist(sum(crossprod(c(1, 2, 3), c(x))), sum(crossprod(c(1, 2, 3), c(x, 1))),
    sum(tcrossprod(matrix(c(x, 2, 3, 4, 5, 6), 2), c(1, 2, 3))),
    sum(crossprod(c(1, 2, 3), matrix(c(x, 2, 3, 4, 5, 6), 1)))))
  expect_as_in_r(alist(
    sum(tcrossprod(matrix(c(x, 2), 2), c(1, 2, 3)) * c(1, 2, 3, 4, 5, 6)),
    sum(tcrossprod(c(1, 2, 3), matrix(c(x, 2, 3, 4, 5, 6), 2)) * c(1, 2)),
    sum(tcrossprod(c(1, x), matrix(c(1, 2), 2)) * c(1, 2, 3, 4)), sum(tcrossprod(c(1, x), matrix(c(1, 2), 1))),
    sum(crossprod(c(1, x), matrix(c(1, 2, 3, 4), 2)) * c(1, 2)), sum(crossprod(c(1, x), c(2, 3))),
    sum(crossprod(matrix(c(x, 2, 3), 1), c(1, 2)) * c(1, 2, 3, 4, 5, 6))
  ))
  compiled <- gpu_compile(function(x, v) (crossprod(c(x), v))[1], whole = "v")
  expect_error(as.vector(compiled(gpu(1), gpu(c(1, 2)))), "non-conformable")
  expect_refused(alist(nrow(x), ncol(x) + 1))
  expect_as_in_r(alist(NROW(x) + NCOL(x) + x))
})

test_that("ifelse() and pmin() have R's lengths and dimensions", {
  expect_as_in_r(alist(sum(ifelse(c(x, 1) > 1, c(1, 2), c(3, 4)) * c(1, 10)),
    length(ifelse(c(x > 0), c(1), 0)) + x, length(dim(pmin(matrix(c(x, 1, 2, 3), 2), 2))),
    sum(dim(ifelse(matrix(c(x, 1, 2, 3), 2) > 1, 1, 0)))))
  expect_refused(alist(length(ifelse(c(x > 0), c(1, 2, 3), 0)),
    dim(pmin(3, matrix(c(x, 1, 2, 3), 2)))[1], dim(ifelse(c(x, 1, 2, 3) > 1, matrix(c(1, 2, 3, 4), 2), 0))[1]))
})

test_that("NA goes before NaN in max() and min()", {
  for (call in alist(max(c(x, NaN)), max(x, 1, NaN), max(NaN, 1, x), min(c(NaN, x)), max(x, NaN), min(x, NaN),
    range(c(x, NaN))[1], cummax(c(1, NaN, x))[3], cummin(c(1, x, NaN))[3], cummax(c(x, 2, 1))[3], max(x, 2),
    min(c(x, 3)), max(match(x, 1), NaN) + 0, min(NaN, match(5, x)), max(match(x, 1), x), max(match(x, 1), match(x, 1)) + 0)) {
    f <- body_of(call)
    x <- c(NA, NaN, 1)
    got <- as.vector(gpu_map(f, gpu(x)))
    want <- vapply(x, f, 0)
    # whether running extremes tell NA from NaN depends on the version of R
    if (startsWith(deparse1(call), "cum") && getRversion() >= "4.3") expect_equal(is.na(got), is.na(want)) else
      expect_identical(got, want, label = deparse1(call))
  }
  expect_refused(alist(Re(var(c(2i, x))), Re(sd(c(2i, x)))))
})

test_that("arguments that assign or return are refused unless they are surely evaluated", {
  expect_refused(alist(
    {g <- function(a) 1; y <- 0; g(y <- 5); y + x}, {g <- function(a) 1; g(return(5)); x},
    {g <- function(a, b) b - a; g(x, (x <- 5))}
  ))
  expect_as_in_r(alist({g <- function(a) a + 1; z <- g(y <- x); y + z}, {g <- function(a) a + 1; g(return(x * 2)); x}))
})

test_that("return(), break and next may stand where a value is expected", {
  expect_as_in_r(alist(
    {(x > 1) && return(9); x}, {(x > 1) || return(9); x}, {s <- 0; for (i in 1:5) {(i > x) && break; s <- s + i}; s},
    {s <- 0; for (i in 1:5) {(i > x) || next; s <- s + i}; s}, {y <- 1; (x > 1) && {y <- 2; return(y + x)}; y},
    {if (x > 1) sum(x, return(4)); x}, {if (x > 1) mean(return(4)); x}, {if (x > 1) var(c(x, return(4))); x},
    {if (x > 1) max(x, return(4)); x}, {if (x > 1) prod(x, return(4)); x}
  ))
})

test_that("derivatives that are not known are refused, and those at zeros are R's", {
  for (f in list(function(x, a) Mod(complex(real = x, imaginary = a)), function(x, a) rgamma(1, a) + x,
    function(x, a) rbeta(1, a, 2), function(x, a) rchisq(1, a), function(x, a) rt(1, a)))
    expect_error(gpu_grad(f, "a")(gpu(1), 2), class = "verdigris_error_compile")
  slope <- function(f, x, a) as.double(gpu_grad(f, "a")(gpu(x), a)[["a"]])
  expect_equal(slope(function(x, a) prod(c(x, a)), 2, 0), 2)
  expect_equal(slope(function(x, a) cumprod(c(x, a, 2))[3], 2, 0), 4)
  expect_equal(slope(function(x, a) (a - 0.8)^0 * x, 2, 0.8), 0)
  expect_equal(slope(function(x, a) sinpi(a) + cospi(a) + tanpi(a), 1, 0.2),
    pi * (cospi(0.2) - sinpi(0.2) + 1 + tanpi(0.2)^2), tolerance = 1e-12)
})

test_that("lists are no vectors", {
  lists <- alist(list(x, 2), c(list(a = x), 2), if (x > 1) list(x, 1) else list(2, x), outer_list,
    {g <- function(p) {for (k in 1:2) if (p > k) return(list(p, k)); list(p, 1)}; g(x)})
  outer_list <- list(a = 1, b = 2)
  uses <- alist(l + 1, -l, !l, l > 1, sqrt(l), exp(l), abs(l), round(l), is.na(l), sum(l), mean(l), max(l), max(x, l), range(l), any(l),
    prod(l), cumsum(l), rev(l), which(l), as.numeric(l), as.integer(l), ifelse(l, 1, 2), ifelse(x > 1, l, 1),
    if (l) 1 else 2, l && TRUE, l & TRUE, switch(l, 1, 2), x %in% l, l %in% x, match(x, l), l %*% c(1, 2), crossprod(l),
    t(l), matrix(l, 1), rep(l, 2), c(1, 2)[l], c(1, 2)[[l]], {v <- c(x, 2); v[l] <- 3; v}, {v <- c(x, 2); v[1] <- l; v},
    {v <- c(x, 2); v[] <- l; v}, {v <- c(x, 2); v[[1]] <- l; v}, l[1] + 1, l[2:1], l[-1], l[x], l[["a", 1]], l[1, 1], sum(1, l), pmin(l, 1),
    atan2(l, 1), dnorm(l), 1:l, seq(l), seq_len(l), numeric(l), factorial(l), isTRUE(l), x^l, var(l), c(l, 1) + 1, bitwAnd(l, 1L))
  for (made in lists) for (use in uses) {
    f <- body_of(bquote({l <- .(made); .(use)}))
    environment(f) <- environment()
    expect_error(gpu_map(f, gpu(c(1, 2))), class = "verdigris_error_compile", label = deparse1(body(f)))
  }
  expect_refused(alist({v <- c(x, 2); v$a <- 1; sum(v)}, {v <- c(a = x, b = 2); v$a <- 1; sum(v)}, c(a = x, b = 2)$a,
    {v <- c(a = x, b = 2); v[["a"]] <- list(1); v}, {v <- c(a = x, b = 2); v["a"] <- NULL; sum(v)},
    {s <- 0; for (e in list(c(x, 1), 2)) s <- s + length(e); s}, {for (e in list(2.5, 1L)) x; e},
    if (x > 1) list(1, 2) else c(1, 2), if (x > 1) list(a = 1) else c(a = 1), list(x, ), c(x, ), sum(x, ), max(x, ),
    {g <- function(p) {for (k in 1:2) if (p > k) return(c(1, k)); list(3, p)}; g(x)}))
})

test_that("elements of lists are R's", {
  outer_list <- list(a = 1, b = c(2, 3), d = list(e = 4))
  is_list <- function(x) is.list(outer_list) * 100 + is.list(outer_list$d) * 10 + is.list(outer_list$a) + x
  expect_equal(as.vector(gpu_map(is_list, gpu(1))), 111)
  expect_as_in_r(alist(
    is.list(list(x)) + x, is.list(x) + x, is.list(c(a = x, b = 1)) + x, is.numeric(list(x)) + x, is.null(list()) + x,
    is.numeric(c(a = x)) + x, is.integer(c(a = 1L, b = 2L)) + x, is.logical(c(a = TRUE)) + x,
    length(list(list(x, 2), 3)) + x, NROW(list(1, 2)) + NCOL(list(1, 2)) + x, sum(seq_along(list(x, 2, 3))),
    list(x, 2)[1], list(a = x, b = 2)["b"], list(x, 2)[[1]] + 1, list(x, list(2, 3))[[2]][[1]] + x,
    c(list(a = x), 2), c(list(a = x), b = 2), c(list(x), c(1, 2)), c(list(x), y = c(1, 2)), c(z = list(a = x, b = 2)),
    c(z = list(x, 2)), c(z = list(x)), c(list(x), NULL), c(list(), x), c(list(a = x), list(b = 1), use.names = FALSE),
    c(z = c(a = x, b = 1)), c(z = c(a = x)), c(a = c(x, 1), b = 3), length(c(list(x), c(1, 2, 3))) + x,
    {s <- 0; for (e in list(x, 2)) s <- s * 10 + e; s}, {s <- 0; for (e in c(a = x, b = 2)) s <- s * 10 + e; s},
    {l <- list(); l$a <- x; l[["b"]] <- 2; l}, {l <- list(a = x); l["a"] <- 2; l}, {l <- list(a = x, 2, b = 1); l$a <- NULL; l},
    {l <- list(a = x); l[["a"]] <- list(2, x); l$a[[2]]}, {l <- list(f = function(y) y + 1); l$f(x)}
  ))
})

test_that("a list whose elements change places keeps their values", {
  expect_as_in_r(alist(
    {l <- list(a = 1, a = x); l[[2]] * 10 + l[[1]]}, {l <- list(`2` = x, 5); l[[1]] * 10 + l[[2]]},
    {l <- list(x, 2); l <- list(l[[2]], l[[1]]); l[[1]] * 10 + l[[2]]},
    {l <- list(a = c(x, 1), b = c(2, 3)); l <- list(a = l$b, b = l$a); sum(c(l$a, l$b) * c(1, 10, 100, 1000))},
    {v <- c(a = x, b = 2); v <- c(a = v[["b"]], b = v[["a"]]); v[["a"]] * 10 + v[["b"]]},
    {l <- list(p = list(x, 2), q = list(3, 4)); l <- list(p = l$q, q = l$p); l$p[[1]] * 10 + l$q[[1]]},
    {l <- list(a = x, b = 2); for (k in 1:3) l <- list(a = l$b, b = l$a * 2); l$a * 10 + l$b},
    {l <- list(a = x, b = 2); if (x > 1) l <- list(a = l$b, b = l$a); l$a * 10 + l$b}
  ))
})

test_that("named vectors keep their names where R's do", {
  expect_as_in_r(alist(c(a = x, b = 2) * 2, 2 - c(a = x, b = 2), sqrt(c(a = x)), c(a = x, b = 2) > 1, is.na(c(a = x, b = NA)),
    pmin(c(a = x, b = 2), 1), ifelse(c(a = x > 1, b = TRUE), 1, 2), c(a = x, b = 2) + c(p = 1, q = 2), -c(a = x, b = 2),
    {g <- function(p) {for (k in 1:3) if (p > k) return(c(a = 1, b = k)); c(a = 3, b = p)}; g(x) * 2},
    {v <- c(a = 0, b = 1); for (k in 1:3) v <- v * 2 + x; v}, if (c(a = x) > 1) 1 else 2, sum(c(a = x, b = 2), 3)))
  for (call in alist(c(a = x, b = 2) * 2, pmax(1, c(a = x, b = 2)), as.integer(c(a = x, b = 2)),
    ifelse(c(x, 1) > 1, c(a = 1, b = 2), 3), bitwAnd(c(a = 1L, b = 2L), 3L), {g <- function(p) {for (k in 1:3) if (p > k)
      return(c(1, k)); c(3, p)}; g(x)}, list(x, 2))) {
    f <- body_of(call)
    expect_identical(names(gpu_map(f, gpu(c(1, 2)))), names(f(1)), label = deparse1(call))
    if (is.null(names(f(1))) && !is.list(f(1)))
      expect_equal(unname(as.matrix(gpu_map(f, gpu(c(0.5, 4))))), rbind(f(0.5), f(4)), label = deparse1(call))
  }
})
