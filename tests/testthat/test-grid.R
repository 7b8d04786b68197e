# The differential grid, generated from the operation table: operation x dtype x layout x edges.

edges <- list(
  double = c(NA, NaN, Inf, -Inf, 0, -0, 1, -1, 0.5, -0.5, 2, 3, -2.5, 1e-300, -1e300, 1e308, 5e-324, 2^31, 1e15 + 0.5, pi),
  integer = c(NA, 0L, 1L, -1L, 2L, 7L, -13L, .Machine$integer.max, -.Machine$integer.max, 65536L),
  logical = c(NA, TRUE, FALSE),
  complex = c(NA, 0+0i, 1+0i, -1+0i, 0+1i, 3-4i, -2.5+0.5i, complex(real = Inf, imaginary = 1), 1e-5+1e5i)
)

lengths_tried <- c(0L, 1L, 63L, 64L, 65L, 257L)

# Values of a type, as many as asked for, the edges first and then numbers in an ordinary range.
values <- function(type, n, seed = 1L) {
  e <- edges[[type]]
  set.seed(seed)
  rest <- switch(type,
    double = round(rnorm(n, 0, 3), 6), integer = sample(-50:50, n, TRUE),
    logical = sample(c(TRUE, FALSE, NA), n, TRUE), complex = complex(real = rnorm(n), imaginary = rnorm(n)))
  rep_len(c(e, rest), n)
}

# Every layout of one argument: contiguous of each length, matrix, transposed view, named.
layouts <- function(type) {
  flat <- lapply(lengths_tried, function(n) values(type, n))
  m <- matrix(values(type, 60L), 12L)
  named <- values(type, 5L)
  names(named) <- letters[1:5]
  full <- m
  dimnames(full) <- list(NULL, letters[1:5])
  c(flat, list(m, full, named))
}

operations <- gpu_operations()

call_of <- function(name) get(name, envir = asNamespace(if (exists(name, baseenv())) "base" else "stats"))

test_that("operations of one argument agree with base R", {
  rows <- operations[operations$r != "" & operations$arity == 1L & operations$group %in% c("Math", "Complex", "Generic"), ]
  expect_gt(nrow(rows), 30)
  for (k in seq_len(nrow(rows))) {
    f <- call_of(rows$r[k])
    ulp <- rows$ulp[k]
    found <- list()
    for (type in names(edges)) {
      for (x in layouts(type)) {
        found <- c(found, compare(f, list(x), NULL, ulp, sprintf("%s(%s[%d])", rows$r[k], type, length(x))))
        if (is.matrix(x)) {
          found <- c(found, compare(function(m) f(t(m)), list(x), NULL, ulp, sprintf("%s(t(%s))", rows$r[k], type)))
        }
      }
    }
    for (dtype in c("float32", "float16", "bfloat16")) {
      found <- c(found, compare(f, list(values("double", 257L)), dtype, ulp, sprintf("%s(%s)", rows$r[k], dtype)))
    }
    expect_all_same(found)
  }
})

test_that("operators agree with base R", {
  binary <- c("+", "-", "*", "/", "^", "%%", "%/%", "==", "!=", "<", "<=", ">", ">=", "&", "|")
  rows <- operations[match(binary, operations$r), ]
  expect_false(anyNA(rows$name))
  for (k in seq_along(binary)) {
    f <- get(binary[k], baseenv())
    ulp <- rows$ulp[k]
    found <- list()
    for (a in names(edges)) {
      for (b in names(edges)) {
        what <- sprintf("%s %s %s", a, binary[k], b)
        # all pairs of edges
        x <- rep(edges[[a]], times = length(edges[[b]]))
        y <- rep(edges[[b]], each = length(edges[[a]]))
        found <- c(found, compare(f, list(x, y), NULL, ulp, what))
        # host operands on either side, scalar and vector
        found <- c(found, compare(f, list(x, list(y)), NULL, ulp, paste(what, "(host)")))
        found <- c(found, compare(f, list(list(y[[2L]]), x), NULL, ulp, paste(what, "(scalar)")))
      }
      for (n in lengths_tried) {
        x <- values(a, n)
        found <- c(found, compare(f, list(x, values(a, n, 2L)), NULL, ulp, sprintf("%s[%d] %s", a, n, binary[k])))
        # recycled, evenly and not
        found <- c(found, compare(f, list(x, values(a, 3L, 2L)), NULL, ulp, sprintf("%s[%d] %s [3]", a, n, binary[k])))
        found <- c(found, compare(f, list(values(a, 1L, 2L), x), NULL, ulp, sprintf("%s[1] %s [%d]", a, binary[k], n)))
      }
      m <- matrix(values(a, 60L), 12L, dimnames = list(letters[1:12], NULL))
      v <- values(a, 12L, 3L)
      found <- c(found,
        compare(f, list(m, m), NULL, ulp, sprintf("%s matrix %s matrix", a, binary[k])),
        compare(f, list(m, v), NULL, ulp, sprintf("%s matrix %s vector", a, binary[k])),
        compare(f, list(v, m), NULL, ulp, sprintf("%s vector %s matrix", a, binary[k])),
        compare(f, list(m, m[1:2, ]), NULL, ulp, sprintf("%s non-conformable %s", a, binary[k])),
        compare(function(p, q) f(t(p), t(q)), list(m, m), NULL, ulp, sprintf("t(%s) %s t()", a, binary[k])),
        compare(function(p, q) f(t(p), q), list(m, values(a, 5L)), NULL, ulp, sprintf("t(%s) %s vector", a, binary[k])))
    }
    for (dtype in c("float32", "float16", "bfloat16")) {
      x <- values("double", 257L)
      found <- c(found, compare(f, list(x, rev(x)), dtype, ulp, paste(dtype, binary[k])))
    }
    expect_all_same(found)
  }
})

test_that("unary operators agree with base R", {
  found <- list()
  for (type in names(edges)) for (x in layouts(type)) {
    found <- c(found,
      compare(function(v) -v, list(x), what = paste("-", type)),
      compare(function(v) +v, list(x), what = paste("+", type)),
      compare(function(v) !v, list(x), what = paste("!", type)))
  }
  expect_all_same(found)
})

test_that("functions of several arguments agree with base R", {
  of <- function(name) operations$ulp[match(name, operations$name)]
  x <- values("double", 257L)
  p <- seq(0, 1, length.out = 257L)
  u <- abs(round(x[is.finite(x)], 3)) + 0.25
  found <- list(
    compare(atan2, list(x, rev(x)), ulp = of("atan2"), what = "atan2"),
    compare(atan2, list(x, list(2)), ulp = of("atan2"), what = "atan2(x, 2)"),
    compare(function(v) log(v, 3), list(x), ulp = of("log_base"), what = "log(x, 3)"),
    compare(function(v) log(v, base = 2), list(x), ulp = of("log2"), what = "log(x, 2)"),
    compare(function(v) log(v, base = 10), list(x), ulp = of("log10"), what = "log(x, 10)"),
    compare(function(v) round(v, 2), list(x), ulp = of("round_digits"), what = "round(x, 2)"),
    compare(function(v) round(v, -1), list(x), ulp = of("round_digits"), what = "round(x, -1)"),
    compare(function(v) signif(v, 3), list(x), ulp = of("signif"), what = "signif(x, 3)"),
    compare(function(a, b) beta(a, b), list(u, rev(u)), ulp = of("beta"), what = "beta"),
    compare(function(a, b) lbeta(a, b), list(u, rev(u)), ulp = of("lbeta"), what = "lbeta"),
    compare(function(n) choose(n, 3), list(u), ulp = of("choose"), what = "choose(n, 3)"),
    compare(choose, list(c(5, 10, 50, 2.5), c(2, 3, 25, 2)), ulp = of("choose"), what = "choose"),
    compare(factorial, list(c(0, 1, 5, 10, 170, 0.5)), ulp = of("gamma"), what = "factorial"),
    compare(function(v) dnorm(v, 1, 2), list(x), ulp = of("dnorm"), what = "dnorm"),
    compare(function(v) dnorm(v, log = TRUE), list(x), ulp = of("dnorm_log"), what = "dnorm log"),
    compare(function(v) pnorm(v, 1, 2), list(x), ulp = of("pnorm"), what = "pnorm"),
    compare(function(v) pnorm(v, lower.tail = FALSE), list(x), ulp = of("pnorm_upper"), what = "pnorm upper"),
    compare(function(v) pnorm(v, log.p = TRUE), list(x), ulp = of("pnorm_log"), what = "pnorm log"),
    compare(qnorm, list(p), ulp = of("qnorm"), what = "qnorm"),
    compare(function(v) ifelse(v > 0, v, -v), list(x), what = "ifelse"),
    compare(function(v) pmin(v, 1), list(x), what = "pmin"),
    compare(function(v) pmax(v, 0, na.rm = TRUE), list(x), what = "pmax na.rm"),
    compare(pmax, list(values("integer", 65L), values("integer", 65L, 2L)), what = "pmax integer"))
  expect_all_same(found)
})

test_that("reductions agree with base R", {
  functions <- list(sum = sum, prod = prod, min = min, max = max, range = range, any = function(x, ...) any(x != 0, ...),
                    all = function(x, ...) all(x != 0, ...), mean = mean, var = var, sd = sd)
  for (name in names(functions)) {
    f <- functions[[name]]
    found <- list()
    for (type in names(edges)) {
      if (type == "complex" && name %in% c("var", "sd", "min", "max", "range")) next
      for (x in c(layouts(type), list(abs(values("integer", 300L)), rep(0.1, 5000L)))) {
        if (name %in% c("var", "sd") && is.matrix(x)) x <- as.vector(x)
        calm <- x[!is.na(x) & (!is.double(x) | (abs(x) < 1e4 & abs(x) > 1e-4))]
        for (v in list(x, calm)) for (na.rm in c(FALSE, TRUE)) {
          found <- c(found, compare(function(w) f(w, na.rm = na.rm), list(v), ulp = 8,
                                    what = sprintf("%s(%s[%d], na.rm = %s)", name, type, length(v), na.rm)))
        }
      }
    }
    expect_all_same(found)
  }
  found <- list()
  for (type in c("double", "integer", "logical")) for (x in layouts(type)) {
    found <- c(found, compare(which.max, list(x), what = paste("which.max", type)),
               compare(which.min, list(x), what = paste("which.min", type)))
  }
  expect_all_same(found)
})

test_that("sums and means along margins agree with base R", {
  found <- list()
  for (type in c("double", "integer", "logical", "complex")) {
    x <- values(type, 24L * 5L)
    shapes <- list(matrix(x, 24L), matrix(x, 5L, dimnames = list(letters[1:5], NULL)), array(x, c(4L, 6L, 5L)), matrix(x[0], 0L, 3L))
    for (m in shapes) for (na.rm in c(FALSE, TRUE)) for (f in list(rowSums, colSums, rowMeans, colMeans)) {
      found <- c(found, compare(function(v) f(v, na.rm = na.rm), list(m), ulp = 8, what = paste("margins", type)))
    }
    found <- c(found, compare(function(v) rowSums(v, dims = 2L), list(shapes[[3L]]), ulp = 8, what = "rowSums dims = 2"))
    found <- c(found, compare(function(v) colSums(t(v)), list(shapes[[1L]]), ulp = 8, what = "colSums(t())"))
  }
  expect_all_same(found)
})

test_that("random expression trees agree with base R", {
  set.seed(20)
  leaves <- list(a = values("double", 65L)[-(1:20)], b = values("double", 65L, 5L)[-(1:20)], i = values("integer", 45L), l = values("logical", 45L))
  on_device <- lapply(leaves, gpu)
  unary <- c("abs", "floor", "-", "sqrt", "is.na", "!", "sign", "ceiling")
  binary <- c("+", "-", "*", "/", "<", ">=", "==", "&", "|", "%%")
  grow <- function(depth) {
    if (depth == 0 || runif(1) < 0.15) {
      return(if (runif(1) < 0.2) round(rnorm(1), 2) else as.name(sample(names(leaves), 1L)))
    }
    if (runif(1) < 0.35) call(sample(unary, 1L), grow(depth - 1)) else call(sample(binary, 1L), grow(depth - 1), grow(depth - 1))
  }
  found <- list()
  for (k in 1:2000) {
    tree <- grow(sample(2:6, 1L))
    want <- outcome(eval(tree, leaves))
    got <- outcome(eval(tree, on_device))
    cases$n <- cases$n + 1L
    said <- difference(got$value, want$value, ulp = 0)
    if (is.null(said) && !setequal(got$warnings, want$warnings)) said <- "warnings differ"
    if (!is.null(said)) found <- c(found, paste0(paste(deparse(tree), collapse = ""), ": ", said))
  }
  expect_all_same(found)
})

test_that("the grid is as large as it should be", {
  cat(sprintf("\ndifferential cases on %s: %d\n", test_device, cases$n))
  expect_gt(cases$n, 5000)
})
