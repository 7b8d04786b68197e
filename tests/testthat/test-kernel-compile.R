# R functions, run by R for each element and by the device: values, types, warnings and errors.

dd <- edge_pairs("double")
ii <- edge_pairs("integer")
ll <- edge_pairs("logical")
id <- edge_pairs("integer", "double")
d <- edges$double
i <- edges$integer
l <- edges$logical
z <- edges$complex
small <- c(NA, 0L, 1L, 2L, 3L, 7L)
finite <- c(-2.5, -1, -0.5, 0, 0.25, 1, 2, 3.75, 10)

test_that("arithmetic", {
  expect_same_as_r(list(
    case(function(x, y) x + y, dd[[1]], dd[[2]]),
    case(function(x, y) x - y * 2, dd[[1]], dd[[2]]),
    case(function(x, y) x / y, dd[[1]], dd[[2]]),
    case(function(x, y) x + y, ii[[1]], ii[[2]]),
    case(function(x, y) x - y, ii[[1]], ii[[2]]),
    case(function(x, y) x * y, ii[[1]], ii[[2]]),
    case(function(x, y) x / y, ii[[1]], ii[[2]]),
    case(function(x, y) x %/% y, ii[[1]], ii[[2]]),
    case(function(x, y) x %% y, ii[[1]], ii[[2]]),
    case(function(x, y) x %/% y, id[[1]], c(2, -2, 0.5, NA, 7)),
    case(function(x, y) x %% y, id[[1]], c(2, -2, 0.5, NA, 7)),
    case(function(x) x %/% 2L, i),
    case(function(x) -x %% 5L, i),
    case(function(x, y) x^y, finite, c(2, 0, -1)),
    case(function(x) x^2, d),
    case(function(x) x^3L, finite, ulp = 1),
    case(function(x, y) x + y, id[[1]], id[[2]]),
    case(function(x, y) x + y, ll[[1]], ll[[2]]),
    case(function(x) +x, l),
    case(function(x) -x, l),
    case(function(x) x + 1L, i),
    case(function(x) x + 1, i),
    case(function(x) 1e308 * x * 10, d),
    case(function(x) -(-x), i),
    case(function(x) 5 %/% 2 + x %% 1, finite),
    case(function(x) 7L %/% 2L + x, i),
    case(function(x) pi * x^2, d),
    case(function(x) x + .Machine$double.eps, finite),
    case(function(x) x - .Machine$integer.max, i),
    case(function(x) x + T - F, d),
    case(function(x) c(-7L %/% 2L, -7L %% 2L, x), i),
    case(function(x) 0L %/% 0L + x, i)
  ))
})

test_that("comparison and logic", {
  expect_same_as_r(list(
    case(function(x, y) x < y, dd[[1]], dd[[2]]),
    case(function(x, y) x >= y, id[[1]], id[[2]]),
    case(function(x, y) x == y, ii[[1]], ii[[2]]),
    case(function(x, y) x != y, ll[[1]], ll[[2]]),
    case(function(x, y) x & y, ll[[1]], ll[[2]]),
    case(function(x, y) x | y, ll[[1]], ll[[2]]),
    case(function(x, y) x && y, ll[[1]], ll[[2]]),
    case(function(x, y) x || y, ll[[1]], ll[[2]]),
    case(function(x, y) xor(x, y), ll[[1]], ll[[2]]),
    case(function(x, y) !x & y, dd[[1]], dd[[2]]),
    case(function(x, y) x && y, dd[[1]], dd[[2]]),
    case(function(x) !x, i),
    case(function(x) isTRUE(x > 0), d),
    case(function(x) isFALSE(x > 0), d),
    case(function(x) isTRUE(x), l),
    case(function(x) isTRUE(x), d),
    case(function(x) is.na(x), d),
    case(function(x) is.nan(x), d),
    case(function(x) is.finite(x) - is.infinite(x), d),
    case(function(x) is.na(x) || x > 1L, i),
    case(function(x) x > 0 && sqrt(x) > 1, finite),
    case(function(x, y) (x > 0) + (y > 0), dd[[1]], dd[[2]]),
    case(function(x, y) any(x > y, x == 0), finite, c(0, 1, NA)),
    case(function(x, y) all(x > y, x != 0, TRUE), finite, c(0, 1, NA)),
    case(function(x) x %in% c(1, 2, NA), d),
    case(function(x) x %in% 1:3, i),
    case(function(x) !(x %in% c(1L, 7L)), i),
    case(function(x, y) bitwAnd(x, y), ii[[1]], ii[[2]]),
    case(function(x, y) bitwXor(x, 5L) + bitwOr(y, 8L), small, 3L)
  ))
})

test_that("an argument that a variable takes is still what it was", {
  expect_same_as_r(list(
    case(function(a) { h <- function(u) u * 2; g <- function(v) { t <- v; t <- t + 1; t + 10 * v }; g(h(a)) }, d),
    case(function(a) { g <- function(v) { t <- v; w <- v; t + 10 * (w - v * 3) }; g(a * 2) }, d),
    case(function(a) { g <- function(v) { w <- v; w[1] <- 0; v[1] + 10 * w[1] + w[2] }; g(c(a, 2)) }, d),
    case(function(a) { v <- c(1, a * 2); t <- v[2]; t <- t + 1; t + 10 * v[2] }, d),
    case(function(a) { l <- list(x = a * 2, y = 1); t <- l$x; t <- t + 1; t + 10 * l$x + l$y }, d),
    case(function(a) { g <- function(v, w = v + 1) { t <- w; t <- t * 2; t + 10 * w + v }; g(a - 1) }, d)
  ))
})

test_that("functions of one and two numbers", {
  expect_same_as_r(list(
    case(function(x) sqrt(x), d),
    case(function(x) sqrt(abs(x)), d),
    case(function(x) exp(-x), finite, ulp = 1),
    case(function(x) log(x), d, ulp = 1),
    case(function(x) log(x, 2), c(1, 2, 4.5, 10), ulp = 2),
    case(function(x) log(x, base = 10) + log10(x) + log2(x) + log1p(x), c(1, 2, 4.5, 10), ulp = 4),
    case(function(x) sin(x)^2 * cos(x)^2 * tanh(x), finite, ulp = 8),
    case(function(x, y) atan2(x, y), finite, c(-1, 0, 2), ulp = 2),
    case(function(x) floor(x) + ceiling(x) * trunc(x), finite),
    case(function(x) round(x) + round(x, 1) + signif(x, 2), finite),
    case(function(x) round(-x, digits = 1), finite),
    case(function(x) sign(x) * abs(x), d),
    case(function(x) abs(x), i),
    case(function(x) gamma(x) + lgamma(x), c(0.5, 1, 2.5, 6), ulp = 16),
    case(function(x) factorial(x), c(0, 1, 3, 5), ulp = 16),
    case(function(n, k) choose(n, k), c(5, 10, 10), c(0, 1, 3)),
    case(function(x) beta(x, 2), c(0.5, 1, 4), ulp = 64),
    case(function(x) dnorm(x, 1, 2) + pnorm(x), finite, ulp = 16),
    case(function(p) qnorm(p, lower.tail = FALSE), c(0.01, 0.4, 0.9), ulp = 64),
    case(function(x) dnorm(x, log = TRUE), finite, ulp = 16),
    case(function(x, y) pmin(x, y) - pmax(x, y, 1), dd[[1]], dd[[2]], payload = FALSE),
    case(function(x, y) min(x, y), dd[[1]], dd[[2]], payload = FALSE),
    case(function(x, y) max(x, y, 0L), ii[[1]], ii[[2]]),
    case(function(x, y) c(min(x, 2L, y), max(x), max(y, TRUE)), id[[1]], id[[2]], payload = FALSE),
    case(function(x, y) max(x, y) + min(x), ll[[1]], ll[[2]]),
    case(function(x) as.integer(x), d),
    case(function(x) as.numeric(x) / 2, i),
    case(function(x) as.logical(x), d),
    case(function(x) as.integer(x > 0), d),
    case(function(x) as.double(as.integer(x)), finite),
    case(function(x) is.numeric(x) && !is.logical(x), i),
    case(function(x) is.integer(x), d),
    case(function(x) expm1(x) + sinpi(x), finite, ulp = 8)
  ))
})

test_that("if and else", {
  expect_same_as_r(list(
    case(function(x, y) if (x > y) x else y, dd[[1]], dd[[2]]),
    case(function(x) if (is.na(x)) 0 else x, d),
    case(function(x) if (x) 1 else 2, d),
    case(function(x) if (x) 1L else 2L, i),
    case(function(x) if (x > 0L) 1L else 0.5, i),
    case(function(x) if (x > 0) TRUE else 0L, finite),
    case(function(x) { y <- 0; if (x > 1) y <- x; y }, finite),
    case(function(x) { if (x > 1) y <- x else y <- -x; y * 2 }, finite),
    case(function(x) { y <- if (x > 1) { z <- x + 1; z * 2 } else 3L; y }, finite),
    case(function(x) if (x > 2) 1 else if (x > 1) 2 else if (x > 0) 3 else 4, finite),
    case(function(x) { if (x < 0) return(NA); sqrt(x) }, finite),
    case(function(x) { if (x < 0) return(NA_real_); if (x < 1) return(1L); sqrt(x) }, finite),
    case(function(x) ifelse(x > 0, sqrt(x), -1), d),
    case(function(x) ifelse(x > 0, x, -x), d),
    case(function(x) ifelse(x, 1L, 2), l),
    case(function(x) { a <- b <- x; a <- a + 1; c(a, b) }, finite),
    case(function(x) { x <- x + 1; x <- x * x; x }, finite),
    case(function(x) { y <- 1L; if (x > 0) y <- 2.5; y }, finite),
    case(function(x) { y <- TRUE; if (x > 0) y <- 2L; if (x > 2) y <- 0.5; y }, finite),
    case(function(x) (function(u) u + 1)(x), d),
    case(function(x) { if (x > 0 && x < 3) "unused"; x }, finite),
    case(function(x) switch(2L, x, x * 2, x * 3), finite),
    case(function(k) switch(k, 10, 20, 30), c(1L, 2L, 3L)),
    case(function(k) switch(k, a = 10, b = 20, 30), c(1, 2.9, 3)),
    case(function(x) { switch(5, x, x); switch("none", a = stop("never")); x }, finite),
    case(function(x) switch("b", a = no_such_function(x), b = x * 2, x) + switch("z", a = 1, x * 3), finite),
    case(function(x) switch("b", a = 1, b = , c = x * 4, 5), finite),
    case(function(x) { area <- function(r, kind) switch(kind, square = r^2, circle = pi * r^2); area(x, "square") + area(x, kind = "circle") }, finite),
    case(function(x) { stopifnot(x >= 0, is.finite(x)); sqrt(x) }, c(0, 1, 4)),
    case(function(x) { stopifnot("x is negative" = x >= 0); sqrt(x) }, c(0, 1, -4)),
    case(function(x) { if (x < 0) stop("a negative number"); sqrt(x) }, finite),
    case(\(x) x |> abs() |> sqrt(), d),
    case(function(x) `+`(x, 1), finite),
    case(function(x) { "y" <- x; y }, finite),
    case(function(x) { x; NULL; x }, finite),
    case(function(x) invisible(x * 2), finite)
  ))
})

test_that("loops", {
  expect_same_as_r(list(
    case(function(n) { s <- 0L; for (k in seq_len(n)) s <- s + k; s }, c(0L, 1L, 5L, 100L)),
    case(function(n) { s <- 0; for (k in 1:n) s <- s + k; s }, c(-2, 0, 1, 5, 2.5)),
    case(function(a, b) { s <- 0; for (k in a:b) s <- s + k * k; s }, c(-1, 0.5, 3, 2), c(3, 0)),
    case(function(a, b) { s <- 0L; for (k in a:b) s <- s + k; s }, ii[[1]][c(1, 2, 3, 4, 5, 12, 13)], 7L),
    case(function(x) { s <- 0; for (k in seq(1, 10, by = 3)) s <- s + k * x; s }, finite),
    case(function(x) { s <- 0; for (k in seq(x, 5, by = 0.5)) s <- s + k; s }, c(0, 1.25, 4.9)),
    case(function(x) { s <- 0; for (k in seq(10L, 1L, by = -3L)) s <- s + k; s * x }, finite),
    case(function(x) { s <- 0; for (k in seq(0, 1, length.out = 5)) s <- s + k * x; s }, finite),
    case(function(x) { s <- 0; for (v in c(1, x, x^2)) s <- s * 2 + v; s }, finite),
    case(function(x) { v <- c(3L, 1L, 2L); s <- 0L; for (k in seq_along(v)) s <- s * 10L + v[k]; s + x }, i[1:5]),
    case(function(x) { k <- 0; while (k * k < x) k <- k + 1; k }, c(0, 1, 10, 99.5)),
    case(function(x) { n <- 0L; repeat { if (x <= 1) break; x <- x / 2; n <- n + 1L }; n }, c(0, 1, 10, 1e6)),
    case(function(x) { n <- 0L; repeat { n <- n + 1L; if (n > 50L) break; if (n %% 2L == 0L) next; x <- x + n; if (x > 30) break }; c(x, n) }, finite),
    case(function(n) { i <- 0L; while ((i <- i + 1L) < n) {}; i }, c(0L, 3L, 9L)),
    case(function(n) { s <- 0; for (i in 1:5) for (j in i:5) { if (j == n) next; if (i == n) break; s <- s + i * 10 + j }; s }, 1:6),
    case(function(n) { for (k in 1:10) { if (k * k > n) return(k) }; 0L }, c(0L, 5L, 50L, 500L)),
    case(function(x) { for (k in 1:3) x <- x * 2; x }, d),
    case(function(x) { for (k in 1:3) y <- x * k; y + k }, finite),
    case(function(x) { for (k in 1:3) { v <- c(x, k); w <- v * 2 }; sum(w) + v[1] }, finite),
    case(function(x) { y <- 1L; for (k in 1:3) y <- y * x; y }, finite),
    case(function(x) { y <- 1L; for (k in 1:3) y <- y * x; y }, i),
    case(function(x) { for (k in 1:4) { if (k > 2) next; x <- x + k }; x * k }, finite),
    case(function(x) { k <- 10; for (k in seq_len(0)) x <- x + 1; x + k }, finite),
    case(function(x) { s <- 0; k <- 5L; while (k) { s <- s + k * x; k <- k - 1L }; s }, finite),
    case(function(n) { a <- 0; b <- 1; for (k in seq_len(n)) { t <- a + b; a <- b; b <- t }; a }, c(0L, 1L, 10L, 60L)),
    case(function(x) { s <- 0; i <- 0; while (TRUE) { i <- i + 1; if (i > 10) break; if (i %% 3 == 0) next; s <- s + i }; s + x }, finite),
    case(function(n) { while (n != 1L) { n <- if (n %% 2L == 0L) n %/% 2L else 3L * n + 1L; if (n < 0L) stop("lost") }; n }, c(1L, 7L, 27L)),
    case(function(n) { s <- 0L; for (k in 1:3) { for (k in 1:2) s <- s + k; s <- s + 10L * k }; s + n }, 1:2),
    case(function(n) { v <- 1:3; for (x in v) { v <- v * 2L; n <- n + x }; c(n, v[2]) }, 1:2),
    case(function(x) { for (i in 1:3) { for (j in 1:3) { if (i * j > x) return(c(i, j)) } }; c(0L, 0L) }, c(0, 3, 5, 100)),
    case(function(x) { y <- 0; repeat { y <- y + 1; if (y > 3) { if (x > 0) break else { y <- y + 10; break } } }; y }, finite),
    case(function(x) { n <- 0L; for (k in rev(1:4)) n <- n * 10L + k; n + x }, 1:2),
    case(function(x) { i <- 0L; repeat { i <- i + 1L; j <- 0L; repeat { j <- j + 1L; if (j > i) break; if (i * j == x) return(i * 100L + j) }; if (i > 6L) break }; -1L }, 1:12)
  ))
})

test_that("functions within functions", {
  square <- function(x) x * x
  clamp <- function(x, low = 0, high = low + 1) { if (x < low) return(low); if (x > high) return(high); x }
  horner <- function(x, ...) max(x, ...) + 1
  first_above <- function(x, from = 1L) { for (k in from:20L) if (k * k > x) return(k); NA_integer_ }
  expect_same_as_r(list(
    case(function(x) square(x) + square(x + 1), finite),
    case(function(x) clamp(x), finite),
    case(function(x) clamp(high = 2, x), finite),
    case(function(x) clamp(x, hi = 3, lo = -1), finite),
    case(function(x) clamp(x, 1), finite),
    case(function(x, y = x * 2) x + y, finite),
    case(function(x, n = 3L) { s <- 0; for (k in seq_len(n)) s <- s + square(x); s }, finite),
    case(function(x) { f <- function(u) u + x; x <- 10; f(1) }, finite),
    case(function(x) { f <- function(u) { x <- u * 2; x + 1 }; f(x) + x }, finite),
    case(function(x) { twice <- function(f, v) f(f(v)); twice(function(u) u * 3 + x, x) }, finite),
    case(function(x) { f <- if (TRUE) function(u) u + 1 else function(u) u; f(x) }, finite),
    case(function(x) first_above(x) + first_above(x * 2, from = 3L), c(0, 5, 50, 399, 500)),
    case(function(x) { s <- 0L; for (v in 1:4) s <- s + first_above(x * v); s }, c(0, 5, 50)),
    case(function(x) { g <- function(a) { if (a > 2) return(a * 2); a + 1 }; g(g(g(x))) }, finite),
    case(function(x) { y <- square(x -> t) + t; y }, finite),
    case(function(x) { f <- function(a, unused) a + 1; f(x) }, finite),
    case(function(x) { f <- function(a, unused) a + 1; f(x, stop("never")) }, finite),
    case(function(x) { f <- function(a, b) if (a > 0) b else a; f(x, sqrt(x)) + f(x, if (x > 0) 1 else stop("never")) }, finite),
    case(function(x) { f <- function(a, b) if (a > 1) b + b else a; g <- function(u, v) f(u, v * 2); g(x, sqrt(x)) + f(x, f(x, log(x))) }, finite, ulp = 1),
    case(function(x) { f <- function(a, b = sqrt(a)) if (a > 0) b else a; f(x) }, finite),
    case(function(x) { f <- function(a, b = a, c = stop("c is needed")) if (missing(c)) b + 1 else c; f(x) + f(x, c = 2) }, finite),
    case(function(x) { f <- function(a, b) { b; a }; f(x, sqrt(x)) }, finite),
    case(function(x) { f <- function(a, b) a || b; f(x > 0, sqrt(x) > 1) }, c(1, -1, 4)),
    case(function(x) { f <- function(a, b) if (missing(b)) a else a + b; c(f(x), f(x, 1)) }, finite),
    case(function(x) horner(x), finite),
    case(function(x) { f <- function(v, k) v[k] + sum(v); f(c(x, 1, 2), 2L) }, finite),
    case(function(x) { f <- function() c(1, x, 3); v <- f(); v[2] * v[3] }, finite),
    case(function(x) { f <- function(p) list(a = p, b = p * 2); r <- f(x); r$a + r$b }, finite),
    case(function(x) { f <- function(v) { v[1] <- 0; sum(v) }; v <- c(x, 2); f(v) + v[1] }, finite)
  ))
})

test_that("local vectors", {
  expect_same_as_r(list(
    case(function(x) { v <- numeric(3); v[1] <- x; v[3] <- x * 2; sum(v) }, finite),
    case(function(x) { v <- c(x, 2, 3); v[[2]] }, finite),
    case(function(x) { v <- c(5, 3, x); c(max(v), min(v), sum(v), mean(v), prod(v)) }, finite),
    case(function(x) { v <- c(5, 3, x); c(var(v), sd(v)) }, finite, ulp = 4),
    case(function(x) { v <- 1:5; sum(v * x) }, finite),
    case(function(x) { v <- 1:5; v[3] <- 10L; sum(v) + x }, i[1:4]),
    case(function(x) { v <- 1:3; v[2] <- x; v }, finite),
    case(function(x) { v <- integer(2); v[1] <- x; v[2] <- 2.5; v }, c(1L, NA, 7L)),
    case(function(k) { v <- c(10, 20, 30); v[k] }, c(1, 2.9, 3, 4, NA)),
    case(function(k) { v <- c(10, 20, 30); v[[k]] }, c(1, 2.9, 3)),
    case(function(k) { v <- c(10L, 20L, 30L); v[k] <- 0L; v }, c(1L, 3L)),
    case(function(x) { m <- matrix(0, 2, 3); m[2, 3] <- x; m[1, 1] <- 1; sum(m) + m[2, 3] + nrow(m) * ncol(m) + length(m) }, finite),
    case(function(x) { m <- matrix(c(1, 2, 3, x), 2, 2); m[1, 2] * m[2, 1] - m[1, 1] * m[2, 2] }, finite),
    case(function(x) { m <- matrix(1:6, 2); s <- 0; for (i in 1:2) s <- s + sum(m[i, ]) * x; s + sum(m[, 2]) }, finite),
    case(function(x) { v <- c(1, 2, 3); w <- v; w[1] <- x; v[1] + w[1] }, finite),
    case(function(x) { v <- rep(x, 4); v <- v + 1:4; v }, finite),
    case(function(x) { v <- c(x, 1, 2); v <- rev(v); v }, finite),
    case(function(x) { v <- c(3, x, 2); c(which.max(v), which.min(v)) }, c(finite, NaN, NA)),
    case(function(x) { v <- c(TRUE, x > 0); sum(v) + any(v) + all(v) }, finite),
    case(function(x) { v <- c(x, 2L, TRUE); v }, finite),
    case(function(x) { v <- c(1, 2, 3, 4, 5, 6); v[2:4] * x }, finite),
    case(function(x) { v <- c(1, 2, x, 4); sum(v[-1]) + sum(v[-2]) }, finite),
    case(function(x) { v <- c(1, x, 3); max(v[1:2]) + length(v) }, finite),
    case(function(x) { v <- abs(c(x, -1, 2)); v }, finite),
    case(function(x) { v <- is.na(c(x, NA, 1)); sum(v) }, c(1, NA, NaN)),
    case(function(x) { v <- c(1, 2, 3); any(v > x) }, c(0, 2.5, 3, NA)),
    case(function(x) cumsum(c(x, 1, 2)), finite),
    case(function(x) cumprod(c(x, 3, 2)), finite),
    case(function(x) cumsum(c(x, 1L, 2L)), i),
    case(function(x) { v <- cumsum(1:6); v[4] + x }, finite),
    case(function(x) { v <- numeric(4); for (k in 1:4) v[k] <- x^k; v }, finite, ulp = 1),
    case(function(x) { a <- c(x, 1); b <- c(2, 3); a <- b; b[1] <- x; c(a, b) }, finite),
    case(function(x) { v <- c(1, 2); if (x > 0) v <- c(x, x) else v[2] <- 7; v }, finite),
    case(function(x) { v <- 1:2; for (k in 1:3) v <- v * x; v }, finite),
    case(function(x) { v <- c(x, 1); v <- v[c(2, 1)]; v }, finite),
    case(function(x) { v <- c(2, 1, 3); v[v[1]] + x }, finite),
    case(function(x) { v <- c(a = x, b = 2); v[["a"]] + v[["b"]] }, finite),
    case(function(x) { l <- list(p = x, q = c(1, 2)); l$p <- l$p + 1; l$p * l$q[2] }, finite),
    case(function(x) { v <- numeric(5); v[] <- x; sum(v) }, finite),
    case(function(x) { v <- logical(2); v[1] <- x > 0; v }, finite),
    case(function(x) range(c(x, 1, 0)), finite),
    case(function(x) sum(c(1e16, x, -1e16)), finite),
    case(function(x) sum((1:10)^2 * x) / 10, finite),
    case(function(x) sum(1:10) + x, i[1:4]),
    case(function(x) { v <- c(x, NA, 1); sum(v) }, c(1, NaN), payload = FALSE),
    case(function(x) c(crossprod(c(x, 1, 2), c(3, 4, 5))), finite, ulp = 1),
    case(function(k) { v <- 1:3; v[k] <- 9L; v }, c(1L, NA, 3L)),
    case(function(x) { v <- 1:3; sum(v * .Machine$integer.max) + x }, 1L),
    case(function(x) match(x, c(3, 1, NA)), c(finite, NA)),
    case(function(x) { v <- c(x, 1, NA, 4); v[v > 1] <- 0; v }, finite),
    case(function(x) { v <- c(1L, x, 3L, 2L, 9L); v[rev(v) >= 3L] <- 0.5; v }, i[1:5]),
    case(function(x) sum(c(x, 2, 9) %in% c(2, 1)), finite),
    case(function(x) { v <- c(x, 3, 1); for (a in 1:2) for (b in 1:(3 - a)) if (v[b] > v[b + 1]) { t <- v[b]; v[b] <- v[b + 1]; v[b + 1] <- t }; v }, finite)
  ))
})

test_that("products of small matrices", {
  expect_same_as_r(list(
    case(function(x) { a <- matrix(c(1, 2, x, 4), 2); b <- matrix(c(3, 0, -1, x, 5, 7), 2); a %*% b }, finite, ulp = 2),
    case(function(x) { m <- matrix(c(2, 1, 0, x, 3, 1), 3); c(m %*% c(1, 2), c(1, 2, 3) %*% m, t(m) %*% m, t(m)) },
      finite, ulp = 2),
    case(function(x) { m <- matrix(1:6, 2); c(crossprod(m), tcrossprod(m), crossprod(m, c(1L, 2L)), tcrossprod(m, matrix(x, 1, 3))) }, finite, ulp = 2),
    case(function(x) { v <- c(x, 1, 2); c(v %*% v, 2 %*% v, tcrossprod(v, c(1, 2)), t(v)) }, finite, ulp = 2),
    case(function(x) { v <- c(x, 1); c(v %*% matrix(c(1, 2, 3), 1), nrow(v %*% matrix(1, 1, 3)), ncol(t(v)), dim(v %*% t(v))) }, finite),
    case(function(x) { m <- matrix(c(1, 1, 1, 0), 2); p <- m; for (k in 1:8) p <- p %*% m; p[1, 2] + x }, finite),
    case(function(x) { m <- matrix(0, 6, 6); for (i in 1:6) for (j in 1:6) m[i, j] <- i * x + j; sum(m %*% t(m)) },
      finite, ulp = 4),
    case(function(x) { z <- complex(real = x, imaginary = 1); m <- matrix(c(z, 1, 2, z), 2); p <- m %*% m; c(Re(p[1, 1]), Im(p[2, 1])) }, finite)
  ))
})

test_that("several results", {
  expect_same_as_r(list(
    case(function(x) c(x, x^2), finite),
    case(function(x) c(a = x, b = 1L), finite),
    case(function(x) list(a = x, b = x > 0, c = 1L), finite),
    case(function(x) list(x, 2L), finite),
    case(function(x) { if (x > 0) return(list(a = 1, b = 2L)); list(a = x, b = 3L) }, finite),
    case(function(x) if (x > 0) c(1, 2) else c(x, 3), finite),
    case(function(x) { v <- numeric(3); v[2] <- x; v }, finite),
    case(function(x) matrix(c(x, 1, 2, 3), 2, 2), finite),
    case(function(x) c(list(a = x), list(b = 1)), finite)
  ))
})

test_that("complex numbers", {
  expect_same_as_r(list(
    case(function(x) x * (2 + 1i) - Conj(x), z[2:7]),
    case(function(x) Mod(x) + Re(x) * Im(x), z[2:7], ulp = 2),
    case(function(x) is.na(x), z),
    case(function(x) x == 1 + 0i, z),
    case(function(x) { s <- 0; for (k in 1:3) s <- s * x + k; s }, z[2:7]),
    case(function(x) complex(real = x, imaginary = 1), finite),
    case(function(x) if (Mod(x) > 2) 0i else x^2, z[2:7], ulp = 4),
    case(function(x) c(x, 1), z[2:7])
  ))
})

test_that("what is captured", {
  vec <- c(10, 20, NA, 40)
  whole_numbers <- 1:6
  m <- matrix(c(1, 2, 3, 4, 5, 6), 2)
  array_on_device <- gpu(c(2, 4, 8))
  matrix_on_device <- gpu(matrix(1:6, 2))
  params <- list(rate = 0.5, inner = list(n = 3L), v = c(1, 2))
  k <- c(1, 2, 3, 4, 2.7)
  expect_same_as_r(list(
    case(function(i) vec[i], c(k, NA, 5)),
    case(function(i) vec[[i]], k),
    case(function(i) vec[[i]], c(1, 5, 2)),
    case(function(i) whole_numbers[i] + length(vec), k),
    case(function(i) m[1, i] * nrow(m) + ncol(m), c(1, 2, 3)),
    case(function(i) m[2, i], c(1, 4, NA)),
    case(function(i) sum(m[i, ]), c(1, 2)),
    case(function(j) max(m[, j]) - m[1, j], 1:3),
    case(function(x) { s <- 0; for (v in vec) if (!is.na(v)) s <- s + v * x; s }, k),
    case(function(x) { s <- 0; for (i in seq_along(vec)) s <- s + i * x; s }, k),
    case(function(x) { s <- 0; for (i in seq_len(nrow(m))) for (j in seq_len(ncol(m))) s <- s * x + m[i, j]; s }, k),
    case(function(x) params$rate * x + params$inner$n + params[["rate"]], k),
    case(function(x) params$v[2] * x, k),
    case(function(x) sum(whole_numbers * x), k),
    case(function(x) mean(vec[-3]) + x, k[1])[0],
    case(function(v, i) v[i] * length(v), v = c(1, 2, 3), i = c(3, 1), whole = "v"),
    case(function(v, i) sum(v) - v[i], v = 1:4, i = 1:4, whole = "v"),
    case(function(a, i) a[i, 2] + dim(a)[2], a = matrix(1:6, 2), i = 1:2, whole = "a"),
    case(function(a, i) { r <- a[i, ]; sum(r * r) / length(r) }, a = matrix(c(1.5, 2, 3, 4), 2), i = 1:2, whole = "a")
  )[-15])
  on_device <- gpu_compile(function(i) array_on_device[i] + matrix_on_device[2, i] + length(array_on_device))
  expect_identical(collect(on_device(gpu(1:3))), c(2 + 2, 4 + 4, 8 + 6) + 3)
})

test_that("a captured number is an argument: another value counts at the next call, and compiles nothing", {
  scale <- 2
  f <- gpu_compile(function(x) x * scale)
  expect_identical(collect(f(gpu(c(1, 2)))), c(2, 4))
  scale <- 5
  expect_identical(collect(f(gpu(c(1, 2)))), c(5, 10))
  expect_length(environment(f)$variants, 1L)
  scale <- 3L
  expect_identical(collect(f(gpu(1:2))), c(3L, 6L))
  # a helper that is defined anew is compiled anew
  helper <- function(x) x + 1
  g <- gpu_compile(function(x) helper(x) * 2)
  expect_identical(collect(g(gpu(c(1, 2)))), c(4, 6))
  helper <- function(x) x + 10
  expect_identical(collect(g(gpu(c(1, 2)))), c(22, 24))
})

test_that("subscripts beyond the end, by option", {
  v <- c(1, 2, 3)
  m <- matrix(1:4, 2)
  i <- c(1, 4, NA, 2)
  by <- function(f, bounds) by_device(f, list(i), bounds = bounds)
  expect_identical(by(function(i) v[i], "R")$value, c(1, NA, NA, 2))
  expect_identical(by(function(i) v[[i]], "NA")$value, c(1, NA, NA, 2))
  expect_identical(by(function(i) m[1, i], "NA")$value, c(1L, NA, NA, 3L))
  got <- by(function(i) v[i], "error")
  expect_identical(got$value, c(1, NA, NA, 2))
  expect_match(by(function(i) m[1, i], "R")$errors, "^subscript out of bounds")
  expect_match(by_device(function(i) v[i], list(c(0, 1)))$errors, "subscript below 1")
})

test_that("an error says which element failed first, and of a subscript what it was", {
  said <- function(f, ..., bounds = "R") by_device(f, list(...), bounds = bounds)$errors
  v <- c(1, 2, 3)
  m <- matrix(1:4, 2)
  i <- c(1, 4, NA, 2, 9)
  expect_identical(said(function(i) v[i], i, bounds = "error"),
    "subscript out of bounds: `i` is 4 of 3, in `v[i]` (line 1, element 2)")
  expect_match(said(function(i, j) m[j, i + 1], i, 2L),
    "^subscript out of bounds: `i \\+ 1` is 5 of 2, in `m\\[j, i \\+ 1\\]` \\(line 1, element 2\\)$")
  expect_match(said(function(i) v[i], c(2, -3.5, 0)),
    "^a subscript below 1: `i` is -3.5, in `v\\[i\\]` \\(line 1, element 2\\)$")
  expect_match(said(function(i) m[5L, i], 1:2), "^subscript out of bounds: 5 of 2, in `m\\[5L, i\\]` \\(line 1, element 1\\)$")
  expect_match(said(function(i) { w <- numeric(2); w[i] <- 1; sum(w) }, c(1L, 3L)),
    "^subscript out of bounds: `i` is 3 of 2, in `w\\[i\\]` \\(line 1, element 2\\)$")
  expect_match(said(function(x) if (x > 0) 1 else stop("not so"), c(1, 2, NA, -1)),
    "^missing value .*, in `x > 0` \\(line 1, element 3\\)$")
  # of many elements the first, whichever way it fails and whoever computes it
  n <- if (emulated) 3000L else 200000L
  x <- seq_len(n)
  first <- said(function(x) if (x %% 7L == 6L && x > 1000L) v[[x]] else if (x > 1500L) stop("late") else 0, x)
  expect_match(first, sprintf("^subscript out of bounds: `x` is %d of 3, in `v\\[\\[x\\]\\]` \\(line 1, element %d\\)$", 1007L, 1007L))
})

test_that("subscripts that loops and conditions keep inside are not tested", {
  skip_on_os("mac")
  source_of <- function(f, args, whole = character()) {
    f <- gpu_compile(f, whole = whole)
    try(collect(do.call(f, args)), silent = TRUE)
    grep("^ *//", strsplit(gpu_code(f), "\n")[[1L]], value = TRUE, invert = TRUE)
  }
  m <- gpu(matrix(as.numeric(1:12), 3))
  v <- gpu(c(1, 2, 3))
  k <- gpu(1:3)
  sums <- list(
    function(k) { s <- 0; for (j in seq_len(ncol(m))) for (i in seq_len(nrow(m))) s <- s + m[i, j]; s + k },
    function(k) { s <- 0; n <- length(v); for (i in seq_len(n)) s <- s + v[i]; s + k },
    function(k) { s <- 0; for (i in seq_along(v)) s <- s + v[i]; s + k },
    function(k) { w <- c(1, k, 3); for (i in 1:3) w[i] <- w[i] * 2; for (i in 3:1) w[i] <- w[i] + 1; sum(w) },
    function(k) { s <- 0; for (d in -1:1) { a <- k + d; if (a >= 1 && a <= length(v)) s <- s + v[a] }; s }
  )
  for (f in sums) {
    expect_identical(grep("position\\(|AT_|pick_", source_of(f, list(k)), value = TRUE), character(), info = deparse1(f))
  }
  # of no elements 1:n has two turns, and the first fails: that is asked once, in front
  rows <- function(k) { s <- 0; for (j in 1:ncol(m)) s <- s + m[k, j]; s }
  text <- source_of(rows, list(k))
  loop <- grep("for \\(", text)
  expect_length(loop, 1L)
  expect_true(all(grep("position\\(|failed = ", text) < loop))
  m <- gpu(matrix(numeric(), 3, 0))
  expect_match(by_device(rows, list(1:3))$errors, "^subscript out of bounds: `j` is 1 of 0, in `m\\[k, j\\]`")
  sums <- function(k) { s <- k; for (j in 1:length(v)) s <- s + v[j]; s }
  expect_identical(grep("position\\(", source_of(sums, list(k)), value = TRUE)[-1L], character())
  v <- gpu(numeric())
  expect_match(by_device(sums, list(1:3))$errors, "^a subscript below 1: `j` is 0, in `v\\[j\\]`")
  # what is not known stays tested
  v <- gpu(c(1, 2, 3))
  tested <- list(
    function(k) { s <- 0; for (i in seq_len(3)) s <- s + v[[i]]; s + k },
    function(k) { s <- 0; for (i in seq_along(v)) { i <- i + k - 1L; if (i < 4L) s <- s + v[[i]] }; s },
    function(k) { s <- 0; for (i in 0:2) s <- s + v[[i + 1L]]; s + k },
    function(k) { x <- k / 2; if (x > 0 && x <= length(v)) v[[x]] else 0 }
  )
  for (f in tested) expect_true(any(grepl("// .*subscript", source_of(f, list(k)))), info = deparse1(f))
})

test_that("loops over sizes are R's loops where there is nothing, too", {
  loops <- list(
    function(m, i) { s <- 0; for (j in 1:ncol(m)) s <- s + m[i, j]; s },
    function(m, i) { s <- 0; for (j in seq_len(ncol(m))) s <- s + m[i, j]; s },
    function(m, i) { s <- 0; for (r in 1:nrow(m)) for (j in 1:ncol(m)) s <- s + m[r, j] * j; s + i },
    function(m, i) { s <- 0; n <- ncol(m); for (j in 1:n) { if (j > 2L) break; s <- s + m[i, j] }; s },
    function(m, i) { s <- 0; for (j in 1:ncol(m)) { if (j == i) next; s <- s + m[1L, j] }; s },
    function(m, i) { s <- 0; for (j in 1:ncol(m)) { if (i > 1L) s <- s + m[i, j] else return(-1) }; s },
    function(m, i) { s <- 0; for (j in 1:nrow(m)) { k <- j + i - 2L; if (k >= 1L && k <= ncol(m)) s <- s + m[j, k] }; s },
    function(m, i) { s <- 0; for (j in 1:ncol(m)) { s <- s + 1; j <- j + i - 1L; if (j <= ncol(m)) s <- s + m[1L, j] }; s },
    function(m, i) { s <- 0; for (j in nrow(m):1) s <- s * 2 + m[j, 1L]; s + i },
    function(m, i) { s <- 0; v <- m[i, ]; for (j in seq_along(v)) s <- s + v[[j]]; for (j in 1:length(v)) s <- s - v[[j]]; s }
  )
  sizes <- list(c(3, 2), c(3, 4), c(1, 1), c(3, 0), c(0, 2), c(0, 0))
  if (emulated) sizes <- sizes[c(2, 4)]
  # those that read with subscript 0 in a matrix of no elements, which R does not refuse
  zero <- c(5, 8, 9)
  table <- lapply(seq_along(loops),
    function(l) lapply(if (l %in% zero) Filter(function(d) all(d > 0), sizes) else sizes,
    function(d) case(loops[[l]], m = matrix(as.numeric(seq_len(prod(d))), d[[1]], d[[2]]),
    i = seq_len(max(1, min(d[[1]], 3))), whole = "m")))
  expect_same_as_r(unlist(table, recursive = FALSE))
})

test_that("stored types are kept", {
  of <- function(f, x, dtype) gpu_map(f, gpu(x, dtype))
  expect_identical(gpu_dtype(of(function(x) x * 2 + 1, c(1, 2), "float32")), "float32")
  expect_identical(gpu_dtype(of(function(x) { s <- 0; for (k in 1:3) s <- s + x; s }, c(1, 2), "float32")), "float32")
  expect_identical(gpu_dtype(of(function(x) if (x > 1) x else 0, c(1, 2), "float16")), "float16")
  expect_identical(gpu_dtype(of(function(x) x + 1L, 1:3, "int8")), gpu_dtype(gpu(1:3, "int8") + 1L))
  expect_identical(gpu_dtype(of(function(x) x > 1, c(1, 2), "bfloat16")), "bool8")
  x <- c(0.1, 2.7, -3.3)
  expect_identical(collect(of(function(x) { y <- x * x; y - 1 }, x, "float32")),
    collect(gpu(x, "float32") * gpu(x, "float32") - 1))
  long <- bit64::as.integer64(c("1", "4611686018427387904", NA))
  got <- bit64::as.integer64(gpu_map(function(x) if (is.na(x)) x else x + x %/% 2L, gpu(long, "int64")))
  expect_identical(as.character(got), as.character(long + long %/% 2L))
  expect_identical(collect(gpu_map(function(z) z * Conj(z) + 1, gpu(c(1 + 2i, 3i), "complex64"))), c(6 + 0i, 10 + 0i))
  expect_identical(typeof(collect(gpu_map(function(a, b) a & !b, gpu(c(TRUE, NA)), gpu(c(FALSE, TRUE))))), "logical")
})

test_that("random draws: set.seed() decides, and they do not depend on how the elements are divided", {
  f <- gpu_compile(function(i) { a <- rnorm(1); b <- runif(1); if (i %% 2L == 0L) b <- rexp(1, 2); c(a, b, rpois(1, 3), rnorm(1)) })
  n <- if (emulated) 200L else 3000L
  set.seed(11)
  first <- collect(f(gpu(seq_len(n))))
  set.seed(11)
  expect_identical(collect(f(gpu(seq_len(n)))), first)
  set.seed(11)
  expect_identical(collect(f(gpu(seq_len(150L))))[1:150, ], first[1:150, ])
  expect_false(identical(collect(f(gpu(seq_len(n)))), first))
  expect_lt(abs(cor(first[, 1], first[, 4])), 5 / sqrt(n))
})

test_that("draws have the distributions that they are named after", {
  skip_if(emulated)
  n <- 4000
  i <- gpu(seq_len(n))
  set.seed(5)
  drawn <- list(
    unif = list(function(i) runif(1, -1, 3), function(q) punif(q, -1, 3)),
    norm = list(function(i) rnorm(1, 2, 0.5), function(q) pnorm(q, 2, 0.5)),
    exp = list(function(i) rexp(1, 3), function(q) pexp(q, 3)),
    gamma = list(function(i) rgamma(1, 2.5, 2), function(q) pgamma(q, 2.5, 2)),
    scale = list(function(i) rgamma(1, 0.7, scale = 2), function(q) pgamma(q, 0.7, scale = 2)),
    beta = list(function(i) rbeta(1, 2, 3), function(q) pbeta(q, 2, 3)),
    chisq = list(function(i) rchisq(1, 4), function(q) pchisq(q, 4)),
    t = list(function(i) rt(1, 5), function(q) pt(q, 5)),
    lnorm = list(function(i) rlnorm(1, 0, 0.5), function(q) plnorm(q, 0, 0.5)),
    weibull = list(function(i) rweibull(1, 2, 3), function(q) pweibull(q, 2, 3)),
    cauchy = list(function(i) rcauchy(1), pcauchy),
    logis = list(function(i) rlogis(1, 1, 2), function(q) plogis(q, 1, 2))
  )
  for (name in names(drawn)) expect_gt(ks.test(collect(gpu_map(drawn[[name]][[1]], i)), drawn[[name]][[2]])$p.value,
    1e-4, label = name)
  counted <- list(
    pois = list(function(i) rpois(1, 3), function(k) dpois(k, 3)),
    binom = list(function(i) rbinom(1, 9, 0.3), function(k) dbinom(k, 9, 0.3)),
    geom = list(function(i) rgeom(1, 0.4), function(k) dgeom(k, 0.4)),
    nbinom = list(function(i) rnbinom(1, 3, 0.5), function(k) dnbinom(k, 3, 0.5)),
    hyper = list(function(i) rhyper(1, 5, 8, 6), function(k) dhyper(k, 5, 8, 6)),
    sample = list(function(i) sample.int(6L, 1L) - 1L, function(k) (k < 6) / 6)
  )
  for (name in names(counted)) {
    x <- collect(gpu_map(counted[[name]][[1]], i))
    expect_type(x, "integer")
    want <- n * counted[[name]][[2]](0:5)
    expect_lt(max(abs(tabulate(x + 1L, 6L) - want) / sqrt(want)), 5, label = name)
  }
})

test_that("shapes, recycling and names of arguments", {
  m <- matrix(c(1, 2, 3, 4), 2, dimnames = list(c("a", "b"), NULL))
  expect_identical(collect(gpu_map(function(x, y) x + y, gpu(m), c(10, 20))), m + c(10, 20))
  expect_identical(collect(gpu_map(function(x) x * 2, gpu(c(p = 1, q = 2)))), c(p = 2, q = 4))
  expect_identical(collect(gpu_map(function(x, y) x - y, y = gpu(c(1, 2)), x = 5)), c(4, 3))
  expect_identical(collect(gpu_map(function(x) x, gpu(numeric()))), numeric())
  expect_warning(gpu_map(function(x, y) x + y, gpu(1:3), 1:2), "longer argument not a multiple")
})

test_that("a function takes more arrays than a word has bits", {
  names <- paste0("x", 1:40)
  f <- eval(call("function", as.pairlist(setNames(rep(list(quote(expr = )), 40), names)),
    Reduce(function(a, b) call("+", a, b), lapply(names, as.name))))
  m <- lapply(1:40, function(k) matrix(k + 1:420 / 7, 20))
  for (turned in c(1, 33, 40)) {
    own <- lapply(m, gpu)
    # read along the other axis, and from an odd place
    own[[turned]] <- t(gpu(t(m[[turned]])))
    own[[41 - turned]] <- gpu(rbind(0, m[[41 - turned]]))[-1L, ]
    expect_equal(collect(do.call(gpu_map, c(list(f), own))), Reduce(`+`, m), tolerance = 1e-12, label = turned)
  }
})

test_that("a compiled call is part of the graph", {
  f <- gpu_compile(function(x) if (x > 0) sqrt(x) else 0)
  x <- gpu(c(-1, 4, 9))
  expect_identical(sum(f(x * 1) + 1)[], 8)
  expect_identical(collect(f(f(x))), c(0, sqrt(2), sqrt(3)))
})
