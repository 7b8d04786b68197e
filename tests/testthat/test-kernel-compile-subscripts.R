# Subscripts in compiled functions: logicals, negative numbers, 0, and functions of subscripts, as in base R.

# The value for each element of `x`, in R and on the device. R warns of extremes of nothing; the device does not.
expect_subscripts <- function(functions, x, ..., whole = character(), captured = list()) {
  found <- lapply(Filter(function(f) is_next_ours(), functions), function(f) {
    environment(f) <- list2env(captured, parent = globalenv())
    args <- list(x, ...)
    want <- by_element(f, args, whole)
    want$warnings <- grep("^no non-missing|^number of items", want$warnings, invert = TRUE, value = TRUE)
    got <- by_device(f, args, whole)
    said <- difference_subscripts(got, want, args)
    if (is.null(said)) NULL else paste0(deparse1(f), ": ", said)
  })
  expect_all_same(found)
}

# An element of which R stops, or gives nothing, need only fail.
difference_subscripts <- function(got, want, args) {
  if (length(want$errors) && length(got$errors)) want$errors <- got$errors
  difference_routine(got, want, args, ulp = 4, wider = TRUE, payload = FALSE)
}

# A function of x: what is taken of a vector, and what is done with it.
taken <- function(vector, subscript, consumer, ...) {
  code <- eval(call("bquote", consumer, list(w = call("[", quote(v), subscript), i = subscript)))
  f <- function(x) NULL
  formals(f) <- c(formals(f), ...)
  body(f) <- if (is.null(vector)) code else call("{", call("<-", quote(v), vector), code)
  f
}

subscripts <- expression(
  v > 1, !is.na(v), v > 1 & !is.na(v), v > 100, TRUE, FALSE, NA, c(TRUE, FALSE), c(TRUE, NA, FALSE), x > 0,
  is.na(v) | v < 3, c(x > 0, FALSE), rev(v) > 1, v == max(v, na.rm = TRUE),
  -1, -2, -9, -1.9, -c(1, 3), -(1:2), -k, -(k + 3), -(k / 2), -c(k, 1), c(-1, -k), -seq_len(k), -which(v > 1),
  c(-1, 0), 0, NULL, which(v > 1), c(0, 2), which(is.na(v)), 1:3, k, c(2, NA, 1)
)
consumers <- expression(
  sum(.(w)), mean(.(w)), var(.(w)), sd(.(w)), prod(.(w)), min(.(w)), max(.(w)), sum(range(.(w))), length(.(w)),
  any(.(w) > 2), all(.(w) > 1), sum(.(w)^2) - mean(.(w)),
  { s <- 0; for (e in .(w)) s <- s * 2 + e; s }, .(w)[1], .(w)[2], sum(rev(.(w)) * seq_along(.(w))),
  sum(.(w), na.rm = TRUE), mean(.(w), na.rm = TRUE), max(.(w), na.rm = TRUE),
  { u <- .(w); if (length(u) > 1) u[2] - u[1] else length(u) }
)

test_that("what logical, negative and other subscripts take, by what is done with it", {
  x <- c(-2, 0, 0.5, 3, NA)
  functions <- list()
  for (s in subscripts) for (consumer in consumers) {
    f <- taken(quote(c(2, x, 7, x * 3, 0.5)), s, consumer)
    body(f) <- call("{", quote(k <- 2L), body(f))
    functions[[length(functions) + 1L]] <- f
  }
  expect_subscripts(functions, x)
})

test_that("vectors of other types, captured ones, arguments that are taken whole, and rows", {
  picked <- subscripts[c(1, 2, 7, 8, 10, 12, 15, 20, 23, 24, 26, 27, 30)]
  reduced <- consumers[c(1, 2, 3, 6, 7, 9, 13, 14, 19, 20)]
  x <- c(1, 3, NA)
  on <- function(vector) unlist(lapply(picked, function(s) lapply(reduced, function(consumer) {
    f <- taken(vector, s, consumer)
    body(f) <- call("{", quote(k <- 2L), body(f))
    f
  })), recursive = FALSE)
  every <- function(functions, by) functions[seq(1L, length(functions), by = by)]
  expect_subscripts(every(on(quote(c(2L, as.integer(x), 7L, 0L))), 2L), x)
  expect_subscripts(every(on(quote(c(x > 2, TRUE, NA))), 3L), x)
  expect_subscripts(every(on(quote(outside)), 2L), x, captured = list(outside = c(5, NA, -2, 3)))
  whole <- every(on(NULL), 2L)
  for (k in seq_along(whole)) formals(whole[[k]]) <- alist(x = , v = )
  expect_subscripts(whole, x, v = c(4, NA, 0.5, -3, 2), whole = "v")
  rows <- lapply(every(on(quote(m[k, ])), 4L), function(f) {
    body(f) <- call("{", quote(k <- 1L), body(f)[[3L]])
    formals(f) <- alist(x = , m = )
    f
  })
  expect_subscripts(rows, x, m = matrix(c(4, 1, NA, 2, 0.5, 3, -3, 7), 2), whole = "m")
})

test_that("elements of matrices", {
  values <- list(
    quote(m[m > 1]), quote(m[TRUE, 1]), quote(m[c(TRUE, FALSE), j]), quote(m[-1, j]), quote(m[, -1][2]),
    quote(m[i, m[i, ] > 0]), quote(m[c(2, 1), j]), quote(m[-i, j]), quote(m[!is.na(m[, 2]), 2]),
    quote(m[c(TRUE, NA), 1]), quote(m[0, 1]), quote(m[FALSE, 2]), quote(m[, c(3, 1)]), quote(m[-1, -2]),
    quote(m[1:2, 2:3]), quote(m[2, -(1:2)]), quote(m[which(m[, 1] > 0), 1]), quote(m[is.na(m)]),
    quote(m[-9, j]), quote(m[m[, 1] > 0 & x > 0, 3])
  )
  functions <- unlist(lapply(values,
    function(value) lapply(list(quote(sum(.(w))), quote(length(.(w))), quote(.(w)[1]),
    quote(mean(.(w), na.rm = TRUE))), function(consumer) {
    f <- function(x, i = 2L, j = 3L) NULL
    body(f) <- call("{", quote(m <- matrix(c(x, 2, -1, x * 2, 0.5, 3), 2, 3)),
      eval(call("bquote", consumer, list(w = value))))
    f
  })), recursive = FALSE)
  x <- c(-2, 3, NA)
  expect_subscripts(functions, x)
  # those that need no size that is written in the code
  whole <- lapply(functions[-c(13:20, 49:60, 69:72)], function(f) {
    body(f) <- body(f)[[3L]]
    formals(f) <- alist(x = , m = , i = 2L, j = 3L)
    f
  })
  expect_subscripts(whole, x, m = matrix(c(NA, 2, -1, 4, 0.5, 3), 2, 3), whole = "m")
  products <- list(function(x) { m <- matrix(c(x, 2, 3, 4, 5, 6), 2, 3); p <- m[, 2:3] %*% m[, -1]; c(p[1, 2], p[2, 1], nrow(m[, -3]), sum(m[-1, ])) })
  expect_subscripts(products, x)
})

test_that("assignments to what subscripts take", {
  values <- list(
    quote(v[v > 1] <- 0), quote(v[is.na(v)] <- -1), quote(v[-2] <- 0), quote(v[-k] <- x), quote(v[-c(1, 3)] <- 9),
    quote(v[c(TRUE, FALSE)] <- 5), quote(v[TRUE] <- x), quote(v[FALSE] <- x),
    quote(v[x > 0] <- 1), quote(v[NA] <- 3), quote(v[c(TRUE, NA, FALSE)] <- 4), quote(v[c(4, 1)] <- c(8, 9)),
    quote(v[2:3] <- v[c(3, 2)]), quote(v[2:1] <- v[1:2]), quote(v[v > 1] <- v[v > 1] * 2),
    quote(v[!is.na(v)] <- v[!is.na(v)] - 1), quote(v[rev(v) > 1] <- 7), quote(v[which(v > 1)] <- 6), quote(v[0] <- 1),
    quote(v[NULL] <- 1), quote(v[c(NA, 1)] <- 2), quote(v[1:4] <- c(x, 1)),
    quote(v[c(TRUE, FALSE)] <- c(1, 2)), quote(v[-1] <- c(3, 2, 1)), quote(v[[2]] <- 1), quote(v[[TRUE]] <- 1),
    quote(v[1] <- TRUE), quote(v[-seq_len(k)] <- 0), quote(v[v > 1 & !is.na(v)] <- w[v > 1 & !is.na(v)]),
    quote(v[!is.na(v)] <- rev(v)[!is.na(v)]), quote(v[is.na(v)] <- c(1, 2)), quote(v[v > 1] <- c(1, 2)),
    quote(v[] <- 0), quote({ u <- v > 1; v[u] <- 0; v[!u] <- 1 })
  )
  functions <- lapply(values, function(value) {
    f <- function(x) NULL
    body(f) <- call("{", quote(k <- 3L), quote(w <- c(10, 20, 30, 40)), quote(v <- c(2, x, 5, x * 2)), value,
      quote(sum(ifelse(is.na(v), 500, v) * c(1, 10, 100, 1000))))
    f
  })
  x <- c(-2, 1.5, 3, NA)
  expect_subscripts(functions, x)
  whole_numbers <- list(
    function(x) { v <- 1:4; v[v > 2L] <- 0L; v }, function(x) { v <- 1:4; v[v > x] <- 0.5; v },
    function(x) { v <- c(TRUE, NA, FALSE); v[is.na(v)] <- x > 0; v }, function(x) { v <- 1:3; v[-1] <- c(1.5, x); v },
    function(x) { v <- c(x, 1); v[v > 0] <- 2i; Re(v) + Im(v) },
    function(x) { v <- numeric(4); for (k in 1:4) { v[v < k] <- x; v[-k] <- v[-k] + 1 }; v }
  )
  expect_subscripts(whole_numbers, c(-1, 2))
  matrices <- lapply(list(
    quote(m[m > 1] <- 0), quote(m[1, ] <- x), quote(m[, 2] <- c(7, 8)), quote(m[-1, 2] <- 5),
    quote(m[c(TRUE, FALSE), 3] <- x), quote(m[m[, 1] > 0, 2] <- 9), quote(m[1:2, c(3, 1)] <- 1:4),
    quote(m[2, ] <- m[1, ]),
    quote(m[, -2] <- m[, -1]), quote(m[TRUE, 1] <- 4), quote(m[is.na(m)] <- 0), quote(m[2, m[2, ] > 0] <- -1),
    quote(m[, c(TRUE, FALSE, NA)] <- 3), quote(m[-i, i] <- 6), quote(m[[2, 3]] <- 1), quote(m[, 1] <- 0)
  ), function(value) {
    f <- function(x, i = 2L) NULL
    body(f) <- call("{", quote(m <- matrix(c(x, 2, -1, x * 2, 0.5, 3), 2, 3)), value,
      quote(sum(ifelse(is.na(m), 500, m) * matrix(c(1, 10, 100, 1e3, 1e4, 1e5), 2, 3))))
    f
  })
  expect_subscripts(matrices, x)
})

test_that("rows and columns of gpu_apply(), and whoever else compiles", {
  m <- matrix(c(2, 5, NA, 3, 7, 9, 4, -1, 0.5, 6, NA, 8), 3)
  functions <- list(
    function(r) sum(r[r > 3]), function(r) mean(r[!is.na(r)]), function(r) max(r[-1], na.rm = TRUE),
    function(r) length(r[r > 1]), function(r) { s <- 0; for (v in r[!is.na(r)]) s <- s * 2 + v; s },
    function(r) sd(r, na.rm = TRUE), function(r) { k <- !is.na(r); sum((r[k] - mean(r[k]))^2) },
    function(r) r[r > 2 & !is.na(r)][1], function(r) { q <- r[!is.na(r)]; q <- q[q > 2]; q <- q[-1]; sum(q) },
    function(r) sum(r[-2] * r[-3]), function(r) sum(r[c(TRUE, FALSE)]), function(r) length(which(r > 2)),
    function(r) which.max(r[-1]), function(r) sum(rev(r[r > 2 & !is.na(r)]) * 2)
  )
  if (emulated) functions <- functions[c(2, 9)]
  for (f in functions) for (margin in 1:2) expect_equal(collect(gpu_apply(gpu(m), margin, f)),
    as.numeric(apply(m, margin, f)), info = deparse1(f), tolerance = 1e-14)
  x <- gpu(c(3, 1, 2, 5))
  expect_equal(collect(gpu_stencil(x, function(w) sum(w[!is.na(w)]), 1)), c(4, 6, 8, 7))
  expect_equal(collect(gpu_stencil(x, function(w) sum(w[-2]), 1, edge = 0)), c(1, 5, 6, 2))
  expect_equal(as.numeric(gpu_reduce(x, function(a, b) { v <- c(a, b); v[v > 2][1] })), 3)
  expect_equal(collect(gpu_scan(x, function(a, b) { v <- c(a, b); v[v < 2] <- 2; sum(v) - 1 })),
    Reduce(function(a, b) { v <- c(a, b); v[v < 2] <- 2; sum(v) - 1 }, c(3, 1, 2, 5), accumulate = TRUE))
})

test_that("extremes of nothing are infinite, and negative numbers that a variable holds are refused", {
  functions <- list(
    function(n) max(seq_len(n)), function(n) min(seq_len(n)), function(n) sum(range(seq_len(n) * 2L)),
    function(n) max(-seq_len(n)), function(n) max((1:3)[0]), function(n) min(c(n, 2L)[FALSE]),
    function(n) max(n[n > 2L]),
    function(n) mean(seq_len(n)), function(n) prod(seq_len(n)), function(n) sum(seq_len(n)),
    function(n) all(seq_len(n) > 3L), function(n) any(seq_len(n) > 3L), function(n) var(seq_len(n)),
    function(n) length(seq_len(n))
  )
  expect_subscripts(functions, c(0L, 4L, 1L))
  expect_identical(collect(gpu_map(function(n) max(seq_len(n)), gpu(c(0L, 4L)))), c(-Inf, 4))
  v <- c(1, 2, 3)
  expect_match(by_device(function(x, k) sum(v[k]), list(x = 1, k = -1L))$errors, "^a subscript below 1")
})

test_that("derivatives by numbers and elements that subscripts take", {
  x <- c(0.3, 0.7, 1.4, 2.2)
  functions <- list(
    function(x, a) { v <- c(a, x, a * x); sum(v[v > 0.8]^2) }, function(x, a) { v <- c(a, x, a * x); mean(v[-2]) },
    function(x, a) { v <- c(x, a * x, a^2, 1); v[v > 1] <- a; sum(v * c(1, 2, 3, 4)) },
    function(x, a) { v <- c(x, a * x, a^2, 1); v[-1] <- v[-1] * a; prod(v) },
    function(x, a) { v <- c(a * x, NA, a); sum(v, na.rm = TRUE) + max(v, na.rm = TRUE) },
    function(x, a) { s <- a; for (e in c(x, 2, a)[c(x, 2, a) < 1.5]) s <- s * (e + a); s },
    function(x, a) { v <- c(x, a * x, a^2); v[v > 0.5][1] * a },
    function(x, a) { v <- c(x, a * x, a^2, a); var(v[v < 2]) }
  )
  for (f in if (emulated) functions[3] else functions) {
    got <- gpu_grad(f, "a")(gpu(x), 0.83)
    total <- function(a) sum(mapply(f, x, a))
    h <- 1e-4
    want <- (8 * (total(0.83 + h) - total(0.83 - h)) - (total(0.83 + 2 * h) - total(0.83 - 2 * h))) / (12 * h)
    expect_equal(got[["a"]], want, tolerance = 1e-7, info = deparse1(f))
    expect_equal(attr(got, "value"), total(0.83), tolerance = 1e-12, info = deparse1(f))
  }
  got <- gpu_grad(function(x, v) sum(v[v > 1]) * x + sum(v[-1]), "v", whole = "v")(gpu(x), c(0.5, 2, 3))
  expect_equal(as.vector(got), c(0, sum(x) + 4, sum(x) + 4))
})
