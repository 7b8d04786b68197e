# Functions of R along margins and over elements: on the device where they compile and do nothing but compute, and base
# R's answer in any case.

# Whether the package has compiled this function for sapply() and its like.
was_compiled <- function(f) {
  found <- verdigris:::known_pure$found
  is <- vapply(found, function(entry) verdigris:::has_code(f, entry$code), NA)
  any(is) && !is.null(found[[which(is)[1L]]]$self)
}

fetched <- function() .Call(C_live)[3L]

matrices <- function() {
  set.seed(3)
  m <- matrix(rnorm(42), 6, dimnames = list(letters[1:6], NULL))
  gaps <- m
  gaps[c(2, 17, 30)] <- c(NA, NaN, NA)
  list(plain = m, gaps = gaps, integer = matrix(sample.int(9L, 20L, TRUE), 4, dimnames = list(NULL, LETTERS[1:5])),
    logical = m > 0)
}

test_that("apply() of reductions agrees with base R", {
  calls <- list()
  for (margin in 1:2) for (f in c("which.min", "which.max", "range", "sum", "max")) {
    calls[[paste(f, margin)]] <- eval(bquote(function(m) apply(m, .(margin), .(as.name(f)))))
  }
  calls[["which.min na.rm"]] <- function(m) apply(m, 1, which.min, na.rm = TRUE)
  calls[["range na.rm"]] <- function(m) apply(m, 1, range, na.rm = TRUE)
  calls[["range both"]] <- function(m) apply(m, 1:2, range)
  calls[["none known"]] <- function(m) apply(m * NA, 1, which.max)
  run <- function() {
    found <- list()
    for (kind in names(matrices())) for (call in names(calls)) {
      found <- c(found, compare(calls[[call]], list(matrices()[[kind]]), ulp = 8, what = paste(call, "of", kind)))
    }
    a <- array(runif(24), 2:4, list(NULL, letters[1:3], NULL))
    c(found, list(compare(function(a) apply(a, c(3, 1), which.max), list(a), what = "which.max of an array"),
      compare(function(a) apply(a, 2, range), list(a), what = "range of an array"), compare(function(a) apply(a, 2:3,
        range), list(a), what = "range of two margins")))
  }
  expect_all_same(run())
  expect_composed_same(run)
})

test_that("a function of one's own is run for all rows at once, and gives base R's vector", {
  scale_by <- 3
  third <- function(v) v[3L]
  calls <- list(
    "squares" = function(m) apply(m, 1, function(v) sum(v^2) / 2),
    "columns" = function(m) apply(m, 2, function(v) max(v) - min(v)),
    "captured" = function(m) apply(m, 1, function(v) sum(v) * scale_by),
    "called" = function(m) apply(m, 1, function(v) third(v) + 1),
    "argument" = function(m) apply(m, 1, function(v, a, b) v[1L] * a + b, 2, b = 1),
    "several" = function(m) apply(m, 1, function(v) c(v[1L], v[2L])),
    "loop" = function(m) apply(m, 2, function(v) {
      s <- 0
      for (k in seq_along(v)) s <- s + k * v[k]
      s
    }),
    "logical" = function(m) apply(m, 1, function(v) v[1L] > v[2L]),
    "infinite" = function(m) apply(m / 0, 1, max),
    "none known" = function(m) apply(replace(m, 1, NA) * ifelse(row(m) == 2, NA, 1), 1, function(v) which.max(v)),
    "largest of none" = function(m) apply(m, 1, function(v) max(v[v > 1])),
    "by name" = function(m) apply(m, MARGIN = 2, FUN = function(v) v[2L])
  )
  run <- function() {
    found <- list()
    for (kind in c("plain", "integer")) for (call in names(calls)) {
      found <- c(found, compare(calls[[call]], list(matrices()[[kind]]), ulp = 64, what = paste(call, "of", kind)))
    }
    found
  }
  expect_all_same(run())
  expect_composed_same(run)
})

test_that("what does more than compute runs on the host, in order", {
  m <- matrices()$plain
  run <- function() {
    count <- 0
    set.seed(1)
    want <- c(apply(m, 1, function(v) sum(v) + runif(1)), runif(1))
    set.seed(1)
    got <- c(apply(gpu(m), 1, function(v) sum(v) + runif(1)), runif(1))
    expect_equal(got, want)
    apply(gpu(m), 1, function(v) {
      count <<- count + 1
      v[1L]
    })
    expect_identical(count, 6)
    expect_error(apply(gpu(m), 1, function(v) stop("no ", v[1L] > 9)), "no FALSE")
    expect_error(apply(gpu(m), 1, function(v) if (v[1L] > 0) 1 else stop("negative")), "negative")
    expect_output(apply(gpu(m), 1, function(v) print("a row")), "a row")
    expect_identical(apply(gpu(m), 1, function(v) paste(v[1L] > 0)), apply(m, 1, function(v) paste(v[1L] > 0)))
    expect_identical(apply(gpu(m), 1, function(v) list(1)), apply(m, 1, function(v) list(1)))
    expect_equal(apply(gpu(m), 1, function(v) v[v > 0]), apply(m, 1, function(v) v[v > 0]))
    expect_error(apply(gpu(matrices()$gaps), 1, function(v) if (v[3L] > 0) 1 else 2),
      "missing value where TRUE/FALSE needed")
    # a function that is called may become another
    helper <- function(v) v[1L]
    f <- function(v) helper(v)
    expect_equal(apply(gpu(m), 1, f), m[, 1L])
    helper <- function(v) v[2L] + stats::runif(1) * 0
    set.seed(2)
    expect_equal(apply(gpu(m), 1, f), m[, 2L])
    drawn <- runif(1)
    set.seed(2)
    runif(6)
    expect_identical(drawn, runif(1))
    helper <- function(v) v[3L]
    expect_equal(apply(gpu(m), 1, f), m[, 3L])
  }
  run()
  composed(run())
})

test_that("sapply(), vapply(), mapply() and Map() agree with base R", {
  set.seed(4)
  x <- stats::setNames(rnorm(9), letters[1:9])
  y <- sample.int(5L, 9L, TRUE)
  offset <- 2
  calls <- list(
    "sapply" = function(x, y) sapply(x, function(v) if (v > 0) v else -v * offset),
    "sapply whole" = function(x, y) sapply(y, function(v) v %/% 2L),
    "sapply more" = function(x, y) sapply(x, function(v, a) v + a, a = 3),
    "sapply several" = function(x, y) sapply(x, function(v) c(v, v^2)),
    "sapply names" = function(x, y) sapply(x, function(v) v, USE.NAMES = FALSE),
    "sapply list" = function(x, y) sapply(x, function(v) v > 0, simplify = FALSE),
    "sapply strings" = function(x, y) sapply(y, function(v) paste(v)),
    "vapply" = function(x, y) vapply(x, function(v) v * 2, 0),
    "vapply type" = function(x, y) vapply(x, function(v) v > 0, 0),
    "vapply wrong" = function(x, y) vapply(x, function(v) c(v, v), 0),
    "vapply two" = function(x, y) vapply(y, function(v) c(v, v + 1L), integer(2)),
    "vapply named" = function(x, y) vapply(y, function(v) c(v, v + 1L), c(a = 0L, b = 0L)),
    "mapply" = function(x, y) mapply(function(a, b) a * b, x, y),
    "mapply swapped" = function(x, y) mapply(function(a, b) a - b, b = x, a = y),
    "mapply more" = function(x, y) mapply(function(a, b, k) a * b + k, x, y, MoreArgs = list(k = 4)),
    "mapply recycled" = function(x, y) mapply(function(a, b) a + b, x, 1:3),
    "mapply list" = function(x, y) mapply(function(a, b) a + b, x, y, SIMPLIFY = FALSE),
    "Map" = function(x, y) Map(function(a, b) a + b, x, y),
    "Map names" = function(x, y) Map(function(a) a + 1L, y)
  )
  run <- function() {
    found <- list()
    for (call in names(calls)) found <- c(found, compare(calls[[call]], list(x, y), what = call))
    found
  }
  expect_all_same(run())
  expect_composed_same(run)
  expect_composed_same(function() lapply(names(calls), function(call) compare(calls[[call]], list(x, list(y)),
    what = paste(call, "beside a vector"))))
})

test_that("tapply() agrees with base R", {
  set.seed(5)
  v <- rnorm(60)
  g <- sample.int(7L, 60L, TRUE)
  factor_of <- function(g) factor(letters[as.vector(g)], levels = letters[9:1])
  calls <- list(
    "squares" = function(v, g) tapply(v, g, function(p) sum(p^2)),
    "first" = function(v, g) tapply(v, g, function(p) p[1L]),
    "last" = function(v, g) tapply(v, g, function(p) p[length(p)]),
    "order" = function(v, g) tapply(v, g, function(p) {
      s <- 0
      for (a in p) s <- s / 2 + a
      s
    }),
    "whole" = function(v, g) tapply(g, g, function(p) p[1L] * 2L),
    "logical" = function(v, g) tapply(v, g, function(p) p[1L] > 0),
    "more" = function(v, g) tapply(v, g, function(p, a) sum(p) + a, 3),
    "two" = function(v, g) tapply(v, list(a = g, b = as.vector(g) %% 2 > 0), function(p) max(p) - min(p)),
    "levels without elements" = function(v, g) tapply(v, factor_of(g), function(p) sum(p) / 2),
    "missing keys" = function(v, g) tapply(v, ifelse(g == 2L, NA, g), function(p) sum(p) / 2),
    "several" = function(v, g) tapply(v, g, function(p) c(p[1L], 1)),
    "default" = function(v, g) tapply(v, factor_of(g), function(p) sum(p) / 2, default = 0),
    "list" = function(v, g) tapply(v, g, function(p) sum(p) / 2, simplify = FALSE),
    "string" = function(v, g) tapply(v, g, function(p) "a"),
    "missing" = function(v, g) tapply(replace(v, 3, NA), g, function(p) sum(p) / 2)
  )
  run <- function() lapply(names(calls), function(call) compare(calls[[call]], list(v, g), ulp = 16, what = call))
  expect_all_same(run())
  expect_composed_same(run)
  # many groups, without composed()
  x <- gpu(runif(3e4))
  key <- gpu(rep(1:1000, 30))
  expect_equal(tapply(x, key, function(p) p[2L] - p[1L]), tapply(collect(x), collect(key), function(p) p[2L] - p[1L]))
})

test_that("nothing is read, and a function's data are not kept", {
  m <- gpu(matrix(runif(2e5), 2e4))
  before <- fetched()
  y <- composed(apply(m, 1, function(v) v[1L] - v[2L]))
  z <- composed(sapply(m, function(v) v * 2))
  w <- m * y
  expect_lt(fetched() - before, 100)
  expect_equal(as.vector(collect(w)), as.vector(collect(m) * (collect(m)[, 1L] - collect(m)[, 2L])))
  gone <- FALSE
  local({
    big <- gpu(runif(1e4))
    reg.finalizer(environment(), function(e) gone <<- TRUE)
    composed(apply(m, 1, function(v) v[1L] + big[1L]))
  })
  gc()
  gc()
  expect_true(gone)
})

test_that("a function that calls a gradient is analysed once", {
  slope <- gpu_grad(function(x, a) a * x, "a")
  m <- gpu(matrix(as.double(1:8), 4))
  found <- function() length(verdigris:::known_pure$found)
  apply(m, 1, function(v) slope(v, 2)[["a"]])
  before <- found()
  for (k in 1:3) expect_identical(composed(apply(m, 1, function(v) slope(v, 2)[["a"]])), c(6, 8, 10, 12))
  expect_lte(found() - before, 1L)
})

test_that("a value whose type or class depends on the way taken has base R's type, or is computed by base R", {
  # on a GPU short arrays would be left to base R
  before <- force_device_path(test_device != "cpu")
  on.exit(force_device_path(before))
  w <- c(1.5, 2.5, 3.5)
  named <- c(a = 1.5, b = 2.5)
  m <- matrix(1:4 + 0.5, 2L, dimnames = list(c("p", "q"), c("r", "s")))
  hours <- as.difftime(1, units = "hours")
  minutes <- as.difftime(30, units = "mins")
  early <- ts(1:10, start = 2000)
  late <- ts(1:10, start = 2003)
  day <- as.Date("2024-01-01")
  counts <- table(c(1, 1, 2))
  own <- structure(list(a = 1), class = "verdigris_test_list")
  registerS3method("$", "verdigris_test_list", function(x, name) 42, envir = baseenv())
  reads <- 0
  makeActiveBinding("active", function() reads <<- reads + 1, environment())
  compiled <- list(function(v) if (v > 0) 1L else 0.5, function(v) if (v > 5) 0.5 else 1L,
    function(v) if (v > 5) TRUE else 2L, function(v) ifelse(v > 0, 1L, 0.5), function(v) ifelse(v > 5, v, NA),
    function(v) if (v > 2) 1L else NA, function(v) {
      k <- 1L
      while (k < v) k <- k * 2
      k
    }, function(v) {
      best <- 0
      for (i in 1:3) if (w[i] > v) best <- i
      best
    }, function(v) {
      best <- NA
      for (i in 1:3) if (isTRUE(w[i] > v)) best <- i
      best
    }, function(v) {
      s <- 0
      for (i in 1:2) for (j in (i + 1):3) s <- s + w[i] * w[j] * (j - i)
      s
    }, function(v) {
      for (i in 1:10) if (i * v > 4) return(i)
      10
    }, function(v) {
      y <- rep(NA, 3)
      for (i in 1:3) y[i] <- w[i] * v
      sum(y)
    }, function(v) {
      s <- 0L
      for (i in 1:3) s <- s + w[i] * v
      s^2
    }, function(v) as.numeric(if (v > 0) 2L else 0.5) + 1L, function(v) sum(w * (if (v > 0) 1L else 2)),
    function(v) ifelse(v > 0, 1, 2), function(v) if (v > 0) complex(real = v, imaginary = 1) else v,
    function(v) (if (v > 0) 1L else 2) / 2, function(v) (if (v > 0) 1L else 2) + 1,
    function(v) (if (v > 0) TRUE else 2) == 1, function(v) sum(named) * v)
  others <- list(function(v) {
    i <- if (v > 0) TRUE else 2L
    sum(w[i])
  }, function(v) length(w[if (v > 0) 1L else NA]), function(v) {
    i <- v > 0
    if (!i) i <- 3L
    sum(w[i])
  }, function(v) {
    u <- if (v > 0) 2147483647L else 0.5
    u + 1L
  }, function(v) 5L %/% (if (v > 0) 0L else 2), function(v) 5L %% (if (v > 0) 0L else 2),
    function(v) is.integer(if (v > 0) 3L else 1.5), function(v) {
      x <- c(1L, 2L)
      if (v > 0) x[1L] <- 0.5
      x[1L]
    }, function(v) max(if (v > 0) 1L else 0.5, 2L), function(v) rep(if (v > 0) 1L else 0.5, 2L)[1L],
    function(v) -(if (v > 0) 1L else 2), function(v) named[1L], function(v) c(named[1L], v),
    function(v) which.max(named),
    function(v) m[1L, ], function(v) hours > minutes, function(v) as.numeric(hours - minutes),
    function(v) sum(early * late), function(v) day * v, function(v) own$a * v, function(v) counts[1L] * v,
    function(v) if (v > 0) named[1L] else 0, function(v) sum(v:3), function(v) max(v:3), function(v) c(v:3, 1L)[1L],
    function(v) {
      g <- function(a) {
        for (i in 1:3) if (a > i) return(1L)
        0.5
      }
      g(v) + 2147483647L
    }, function(v) {
      s <- 0
      for (j in (v + 49999):50001) s <- s + j * j
      s
    }, function(v) bitwAnd(if (v > 0) TRUE else 2L, 1L), function(v) any(w * v),
    function(v) bitwAnd(v > 0, 1L), function(v) choose(5, v + 0.5), function(v) active)
  run <- function(f, x) {
    reads <<- 0
    tryCatch(suppressWarnings(sapply(x, f)), error = conditionMessage)
  }
  for (f in c(compiled, others)) for (values in list(rep(c(1, 2), 4096), rep(c(1, -1, NA, 2), 2048), rep(-3, 8192))) {
    cases$n <- cases$n + 1L
    expect_identical(run(f, gpu(values)), run(f, values), label = deparse1(body(f)))
  }
  for (f in list(function(v) if (v > 0) 1L else 0.5, function(v) if (v > 0) v else NA)) {
    values <- rep(c(1, -1), 5000)
    expect_identical(Map(f, gpu(values)), Map(f, values))
    expect_identical(mapply(f, gpu(values), SIMPLIFY = FALSE), mapply(f, values, SIMPLIFY = FALSE))
  }
  # what base R computes from the first call on is not compiled for nothing, and the rest is still compiled
  run_once <- function(f) run(f, gpu(rep(c(1, 2), 4096)))
  for (f in compiled) {
    run_once(f)
    expect_true(was_compiled(f), label = deparse1(body(f)))
  }
})

test_that("extremes of no elements within a function are R's, with their types and warnings", {
  # on a GPU short arrays would be left to base R
  before <- force_device_path(test_device != "cpu")
  on.exit(force_device_path(before))
  w <- c(4L, 2L, 9L)
  u <- c(TRUE, FALSE)
  functions <- list(function(v) max(w, na.rm = TRUE), function(v) (v > 2) - max(w, na.rm = TRUE),
    function(v) max(which(w > v)), function(v) sign(max(which(w > v))), function(v) max(which(w > v)) > 2,
    function(v) if (max(w[w > v]) > 3) 1 else 2, function(v) min(u, na.rm = TRUE), function(v) min(u[u]),
    function(v) 1 / min(c(v, 1)[c(v, 1) > 2]), function(v) range(w[w > v])[1L] %/% 2L, function(v) max(rep(v, 2) > 1,
      na.rm = TRUE), function(v) is.na(which.max(w[w > v])), function(v) sum(which.max(c(NA, v))), function(v) {
      best <- which.min(w[w > v])
      if (isTRUE(best > 1)) 3L else 4L
    }, function(v) {
      if (v > 3) {
        low <- max(numeric(0))
        return(low > 0)
      }
      FALSE
    }, function(v) max(seq_len(v)), function(v) max(w[-1L], na.rm = FALSE))
  run <- function() {
    found <- list()
    for (x in list(c(1, 5, 2, 12, 3), c(1, 2), c(1L, 12L, 3L), c(3, NA, 8), 0)) for (f in functions) {
      found <- c(found, compare(function(x) sapply(x, f), list(x), what = deparse1(body(f))),
        compare(function(x) mapply(f, x, SIMPLIFY = FALSE), list(x), what = deparse1(body(f))))
    }
    rows <- matrix(c(-1, 2, 3, -4, NA, 6, -7, -8, 2), 3)
    for (f in list(function(r) max(which(r > 0)), function(r) sign(max(which(r > 0))), function(r) max(r[r > 5]) > 0,
      function(r) sum(which.max(r[r > 5])), function(r) min(r, na.rm = TRUE), function(r) max(r, na.rm = TRUE) < 0)) {
      found <- c(found, compare(function(m) apply(m, 1, f), list(rows), what = deparse1(body(f))),
        compare(function(m) apply(m, 2, f), list(rows * NA), what = deparse1(body(f))),
        compare(function(m) tapply(m, rep(1:2, length.out = 9), f), list(rows), what = deparse1(body(f))))
    }
    found
  }
  expect_all_same(run())
  expect_composed_same(run)
  # where there are elements, such functions are computed on the device
  for (f in functions[1:6]) {
    values <- rep(c(1, 3), 4096)
    expect_identical(sapply(gpu(values), f), sapply(values, f))
    expect_true(was_compiled(f), label = deparse1(body(f)))
  }
})

# sapply() of each function and each of its inputs is base R's, also where it is computed as on a GPU. Variables of the
# functions are the caller's.
expect_sapply_same <- function(functions, inputs) {
  # on a GPU short arrays would be left to base R
  before <- force_device_path(test_device != "cpu")
  on.exit(force_device_path(before))
  run <- function() {
    found <- list()
    for (f in functions) for (x in inputs)
      found <- c(found, compare(function(x) sapply(x, f), list(x), what = deparse1(body(f))))
    found
  }
  expect_all_same(run())
  expect_composed_same(run)
}

test_that("seq() in a function refuses ends that are not finite, as R's does", {
  expect_sapply_same(list(function(v) sum(seq(v, by = 1, length.out = 2)), function(v) sum(seq(v, 4, length.out = 3)),
    function(v) sum(seq(1, v, length.out = 3)), function(v) sum(seq(to = v, by = 2, length.out = 2))),
    list(c(1, 2.5), c(1, NA), c(Inf, 1), c(2L, NA), c(2, NaN)))
})

test_that("parts of a captured list are lists", {
  parts <- list(2, 3)
  named <- list(a = 2, b = list(k = 4))
  expect_sapply_same(list(function(v) v * parts[1], function(v) v * named["a"], function(v) sum(v, named["a"]),
    function(v) v * parts[[1]], function(v) v * named$a, function(v) v * named[["b"]]$k, function(v) named$b["k"]),
    list(c(1, 2)))
})

test_that("lists and named vectors within a function are R's", {
  # on a GPU short arrays would be left to base R
  before <- force_device_path(test_device != "cpu")
  on.exit(force_device_path(before))
  named <- c(a = 1, b = 2)
  functions <- list(function(v) c(a = v, b = 2) * 2, function(v) c(a = v, b = 2)["a"], function(v) rev(c(a = v, b = 2)),
    function(v) sum(c(a = v, b = 2)), function(v) c(list(v), 2L)[[2]], function(v) list(v, 2), function(v) list(v) + 1,
    function(v) { u <- c(q = named[2]); u[["q"]] + v }, function(v) c(list(q = 1), r = named[2])[["r"]] + v,
    function(v) { for (e in list(2.5, 1L)) NULL; e }, function(v) { l <- list(v, 1L); l <- list(l[[2]], l[[1]]); l[[1]] },
    function(v) { g <- function() { for (k in 1:3) if (v > k) return(c(1L, k)); c(3L, 2L) }; g() })
  run <- function() {
    found <- list()
    for (f in functions) for (x in list(c(0.5, 2), 1:3))
      found <- c(found, compare(function(x) sapply(x, f), list(x), what = deparse1(body(f))),
        compare(function(x) lapply(x, f), list(x), what = deparse1(body(f))))
    m <- matrix(c(1, 2, 3, 4), 2, dimnames = list(NULL, c("p", "q")))
    c(found, compare(function(m) apply(m, 1, function(v) { u <- c(k = v[1]); sum(u[["k.p"]], v) }), list(m)),
      compare(function(m) apply(m, 1, function(v) { u <- c(k = v[1]); u[["k"]] }), list(m)))
  }
  expect_all_same(run())
  expect_composed_same(run)
})

test_that("ifelse() of a vector has the type of the alternatives that are taken", {
  expect_sapply_same(list(function(v) sum(ifelse(c(v, 2) > 0, 1L, 0.5)), function(v) ifelse(c(v, 2) > 0, 1L, 0.5),
    function(v) ifelse(c(v, 2) > 0, TRUE, 2L), function(v) c(10, 20)[ifelse(c(v, 2) > -5, TRUE, 1L)][1],
    function(v) ifelse(c(v, 2) > NA, c(v, 1), v), function(v) ifelse(c(v, 2) > 0, c(v, 1), NA)),
    list(c(0.5, 2), c(-1, 2), c(NA, 2), c(-1, -2), 1:3))
})
