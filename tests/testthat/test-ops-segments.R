# Operations on segments against loops in base R: shapes, types, missing values, wrong structures.

access <- options(verdigris.host_access = "allow")

# A matrix by segments: `lengths` elements each, positions below `extent`, rising.
segments <- function(lengths, extent, values = function(n) round(rnorm(n), 2)) {
  i <- unlist(lapply(lengths, function(n) sort(sample.int(extent, n)) - 1L))
  list(p = c(0L, cumsum(as.integer(lengths))), i = as.integer(i), x = values(length(i)), extent = extent)
}
set.seed(1)
samples <- list(
  none = segments(integer(), 3L),
  "one empty" = segments(0L, 3L),
  "one column" = segments(4L, 9L),
  "empty rows" = segments(c(0L, 0L, 3L, 0L, 2L, 0L), 7L),
  "all empty" = segments(integer(5000), 7L),
  "one long" = segments(c(2L, 0L, 20000L, 1L), 30000L),
  many = segments(rpois(700, 4), 60L),
  zeros = segments(rpois(50, 3), 20L, function(n) sample(c(0, -0, 1), n, TRUE)),
  missing = segments(rpois(300, 5), 40L, function(n) sample(c(1:9, NA, NaN, Inf, -Inf), n, TRUE))
)
segment_of <- function(s) rep(seq_along(diff(s$p)), diff(s$p))
dense <- function(s) {
  m <- matrix(0, s$extent, length(s$p) - 1L)
  m[cbind(s$i + 1L, segment_of(s))] <- s$x
  m
}
# What crossprod() of the matrix would be if what is not stored were not multiplied.
products <- function(s, b, x = s$x) {
  b <- as.matrix(b)
  out <- matrix(0, length(s$p) - 1L, ncol(b))
  for (k in seq_len(nrow(out))) {
    e <- seq.int(s$p[k] + 1L, length.out = s$p[k + 1L] - s$p[k])
    for (j in seq_len(ncol(b))) out[k, j] <- sum(x[e] * b[s$i[e] + 1L, j])
  }
  out
}
on_device <- function(s, wide = FALSE, dtype = NULL)
  list(p = gpu(s$p, if (wide) "int64"), i = gpu(s$i), x = gpu(s$x, dtype), extent = s$extent)
same <- function(got, want, info, tolerance = 1e-12) {
  got <- collect(got)
  expect_identical(dim(got), dim(want), info = info)
  expect_identical(is.na(got), is.na(want), info = info)
  known <- is.finite(want)
  expect_identical(got[!known & !is.na(want)], want[!known & !is.na(want)], info = info)
  expect_true(all(abs(got[known] - want[known]) <= tolerance * (1 + abs(want[known]))), info = info)
}

test_that("products are sums over segments", {
  for (name in names(samples)) for (columns in c(0L, 1L, 2L, 7L, 64L)) {
    s <- samples[[name]]
    b <- matrix(round(rnorm(s$extent * columns), 2), s$extent)
    for (wide in c(FALSE, TRUE)) {
      d <- on_device(s, wide)
      info <- paste(name, columns, wide)
      same(segment_products(d$p, d$i, d$x, gpu(b)), products(s, b), info)
      same(segment_products(d$p, d$i, NULL, gpu(b)), products(s, b, rep(1, length(s$x))), info)
    }
  }
  s <- samples$many
  d <- on_device(s)
  b <- rnorm(s$extent)
  same(segment_products(d$p, d$i, d$x, gpu(b)), products(s, b), "a vector")
  turned <- t(gpu(matrix(b, 3, s$extent)))
  same(segment_products(d$p, d$i, d$x, turned), products(s, t(matrix(b, 3, s$extent))), "a view")
})

test_that("a product's type is that of its factors", {
  s <- samples$many
  d <- on_device(s)
  b <- round(rnorm(s$extent), 1)
  types <- function(x, y) gpu_dtype(segment_products(d$p, d$i, x, y))
  single <- gpu(s$x, "float32")
  expect_identical(types(single, gpu(b, "float32")), "float32")
  expect_identical(types(single, gpu(b)), "float64")
  expect_identical(types(NULL, gpu(b, "float32")), "float32")
  expect_identical(types(NULL, gpu(1:60)), "float64")
  expect_identical(types(gpu(s$x, "float16"), gpu(b, "float16")), "float32")
  same(segment_products(d$p, d$i, single, gpu(b, "float32")), products(s, b), "float32", 1e-5)
  flags <- rep_len(c(TRUE, FALSE, NA), length(s$x))
  same(segment_products(d$p, d$i, gpu(flags), gpu(1:60)), products(s, 1:60, flags), "logical")
  same(segment_products(d$p, d$i, gpu(as.integer(flags)), gpu(1:60)), products(s, 1:60, flags), "integer")
  expect_error(segment_products(d$p, d$i, gpu(as.complex(s$x)), gpu(b)), class = "verdigris_error_dtype")
})

test_that("NA in a segment gives NA, and another NaN NaN", {
  s <- segments(c(2L, 0L, 9000L, 1L), 9001L)
  d <- on_device(s)
  of <- function(x, b) collect(segment_products(d$p, d$i, gpu(x), gpu(b)))
  for (columns in c(1L, 6L)) {
    b <- matrix(1, s$extent, columns)
    x <- s$x
    x[c(1L, 5L, 9003L)] <- c(NA, NaN, Inf)
    got <- of(x, b)
    expect_true(all(is.na(got[1L, ]) & !is.nan(got[1L, ])))
    expect_true(all(is.nan(got[3L, ])) && all(got[2L, ] == 0) && all(got[4L, ] == Inf))
    x[9001L] <- NA
    expect_false(any(is.nan(of(x, b)[3L, ])))
    b[s$i[9003L] + 1L, ] <- NA
    expect_false(any(is.nan(of(s$x, b)[4L, ])))
  }
})

test_that("reductions are base R's of each segment", {
  for (name in names(samples)) {
    s <- samples[[name]]
    groups <- split(s$x, factor(segment_of(s), seq_len(length(s$p) - 1L)))
    for (what in c("sum", "mean", "min", "max", "any", "all")) for (na.rm in c(FALSE, TRUE)) {
      f <- match.fun(what)
      truth <- what %in% c("any", "all")
      want <- suppressWarnings(vapply(groups, f, if (truth) NA else 0, na.rm = na.rm, USE.NAMES = FALSE))
      d <- on_device(s, what == "sum")
      got <- segment_reduce(d$p, d$x, what, na.rm)
      info <- paste(name, what, na.rm)
      if (truth) expect_identical(as.vector(got), want, info = info) else same(got, want, info)
    }
    expect_identical(as.vector(segment_reduce(d$p, NULL)), as.vector(diff(s$p)))
  }
  s <- samples$many
  d <- on_device(s)
  flags <- rep_len(c(TRUE, FALSE, NA), length(s$x))
  each <- function(x, f) vapply(split(x, factor(segment_of(s), seq_len(length(s$p) - 1L))), f, 0, USE.NAMES = FALSE)
  same(segment_reduce(d$p, gpu(flags), "sum", TRUE), each(flags, function(v) sum(v, na.rm = TRUE) + 0), "logical")
  same(segment_reduce(d$p, gpu(s$i), "sum"), each(s$i, function(v) as.double(sum(v))), "integer")
  same(segment_reduce(d$p, gpu(s$i), "min"), suppressWarnings(each(s$i, function(v) as.double(min(v)))), "integer")
  expect_identical(gpu_dtype(segment_reduce(d$p, gpu(s$x, "float32"), "sum")), "float32")
})

test_that("the other margin has the same elements", {
  for (name in names(samples)) for (wide in c(FALSE, TRUE)) {
    s <- samples[[name]]
    d <- on_device(s, wide)
    got <- segment_transpose(d$p, d$i, s$extent)
    by <- order(s$i, segment_of(s))
    expect_identical(as.vector(got$order), by - 1L, info = name)
    expect_identical(as.vector(got$i), segment_of(s)[by] - 1L, info = name)
    expect_identical(as.double(got$p), cumsum(c(0, tabulate(s$i + 1L, s$extent))), info = name)
    expect_identical(gpu_dtype(got$p), if (wide) "int64" else "int32")
    expect_identical(as.vector(segment_expand(d$p)), segment_of(s) - 1L, info = name)
  }
})

test_that("products of two matrices have what may not be 0", {
  sizes <- list(c(9L, 7L, 5L), c(1L, 1L, 1L), c(300L, 40L, 200L), c(2000L, 30L, 20L), c(5L, 3L, 0L), c(40L, 60L, 50L))
  for (size in sizes) for (type in c("double", "missing", "ones")) {
    # of NA and NaN a product is one or the other
    values <- function(n) if (type == "missing") sample(c(-3:3, NA, Inf), n, TRUE) else sample(-3:3, n, TRUE) + 0
    a <- segments(pmin(rpois(size[2L], 3), size[1L]), size[1L], values)
    b <- segments(pmin(rpois(size[3L], 3), size[2L]), size[2L], values)
    if (type == "ones") b$x[] <- 1
    da <- on_device(a, type == "ones")
    db <- on_device(b)
    got <- segment_multiply(da$p, da$i, da$x, size[1L], db$p, db$i, if (type != "ones") db$x)
    # sums of what is stored, in the order of the second one's elements
    terms <- do.call(rbind, lapply(seq_along(b$i), function(e) {
      f <- seq.int(a$p[b$i[e] + 1L] + 1L, length.out = diff(a$p)[b$i[e] + 1L])
      x <- a$x[f] * b$x[e]
      # of NA and NaN the processor takes the first
      x[is.na(a$x[f]) & !is.nan(a$x[f]) | is.na(b$x[e]) & !is.nan(b$x[e])] <- NA
      data.frame(column = rep(segment_of(b)[e], length(f)), row = a$i[f], x = x)
    }))
    keys <- if (!is.null(terms)) terms$column * 1e6 + terms$row
    at <- sort(unique(keys))
    # NA before NaN, whatever the order
    want <- vapply(at, function(k) {
      own <- terms$x[keys == k]
      if (any(is.na(own) & !is.nan(own))) NA_real_ else sum(own)
    }, 0)
    info <- paste(toString(size), type)
    expect_identical(as.vector(got$i), as.integer(at %% 1e6), info = info)
    expect_identical(as.vector(got$p), c(0L, cumsum(tabulate(at %/% 1e6, size[3L]))), info = info)
    expect_identical(is.nan(as.vector(got$x)), is.nan(want), info = info)
    expect_equal(as.vector(got$x), want, tolerance = 1e-14, info = info)
  }
  expect_error(segment_multiply(db$p, db$i, db$x, 60L, db$p, db$i, db$x), class = "verdigris_error_argument")
})

test_that("products of two matrices are base R's for columns of each size", {
  rows <- 2300L
  sizes <- c(0L, 1L, 15:17, 31:33, 104:105, 208:209, 416:417, 832:833, 2048:2049, 2300L)
  # an element in each column, then some longer ones and one with each row
  a <- segments(c(rep(1L, rows), rpois(20, 30), rows, 0L), rows)
  a$i[seq_len(rows)] <- seq_len(rows) - 1L
  # `size` rows by one element each; or these, with longer columns of the first matrix as well
  columns <- rep(sizes, 2L)
  more <- c(integer(length(sizes)), rep_len(c(0:3, 22L), length(sizes)))
  i <- Map(function(size, more) c(seq_len(size), if (more > 0L) rows + seq_len(more)) - 1L, columns, more)
  b <- list(p = c(0L, cumsum(lengths(i))), i = unlist(i), extent = rows + 22L)
  b$x <- round(rnorm(length(b$i)), 2)
  # zeros are stored elements
  a$x[sample.int(length(a$x), 200L)] <- 0
  for (type in c("double", "float32", "left", "right", "int64")) {
    left <- if (type != "right") a$x else rep(1, length(a$x))
    right <- if (type != "left") b$x else rep(1, length(b$x))
    wide <- type == "int64"
    da <- on_device(a, wide, if (type == "float32") "float32")
    db <- on_device(b, FALSE, if (type == "float32") "float32")
    got <- segment_multiply(da$p, da$i, if (type != "right") da$x, rows, db$p, db$i, if (type != "left") db$x)
    full <- function(s, x) { s$x <- x; dense(s) }
    want <- full(a, left) %*% full(b, right)
    stored <- full(a, rep(1, length(left))) %*% full(b, rep(1, length(right))) > 0
    expect_identical(as.vector(got$p), as.integer(c(0, cumsum(colSums(stored)))), info = type)
    expect_identical(as.vector(got$i), row(stored)[stored] - 1L, info = type)
    expect_equal(as.vector(got$x), want[stored], tolerance = if (type == "float32") 1e-5 else 1e-12, info = type)
    again <- segment_multiply(da$p, da$i, if (type != "right") da$x, rows, db$p, db$i, if (type != "left") db$x)
    expect_identical(as.vector(again$x), as.vector(got$x), info = type)
  }
})

test_that("a product that memory has no room for says how much it is", {
  # of other devices it would fit, or take long
  skip_if_not(emulated, "the emulated GPU's memory is small")
  n <- 40000L
  column <- list(p = gpu(c(0L, n)), i = gpu_seq(0L, by = 1L, length.out = n, device = test_device))
  row <- list(p = gpu_seq(0L, by = 1L, length.out = n + 1L, device = test_device), i = gpu(integer(n)))
  expect_error(segment_multiply(column$p, column$i, NULL, n, row$p, row$i, NULL), "1600000000 products",
    class = "verdigris_error_memory")
})

test_that("products of rows at elements are those of the whole product", {
  for (name in c("one column", "empty rows", "many", "all empty")) for (inner in c(1L, 3L, 50L)) {
    s <- samples[[name]]
    d <- on_device(s)
    a <- matrix(rnorm(s$extent * inner), s$extent)
    b <- matrix(rnorm((length(s$p) - 1L) * inner), length(s$p) - 1L)
    want <- tcrossprod(a, b)[cbind(s$i + 1L, segment_of(s))]
    same(segment_sampled(d$p, d$i, gpu(a), gpu(b)), want, paste(name, inner))
  }
})

test_that("triangular systems are solved", {
  n <- 120L
  m <- matrix(ifelse(runif(n^2) < 0.05, round(rnorm(n^2), 2), 0), n) + diag(4, n)
  s <- list(p = c(0L, cumsum(colSums(m != 0))), i = row(m)[m != 0] - 1L, x = m[m != 0], extent = n)
  s$p <- as.integer(s$p)
  for (upper in c(FALSE, TRUE)) for (unit in c(FALSE, TRUE)) for (columns in c(1L, 5L)) {
    d <- on_device(s, upper)
    b <- matrix(rnorm(n * columns), n)
    used <- m
    if (unit) diag(used) <- 1
    want <- if (upper) backsolve(used, b) else forwardsolve(used, b)
    same(segment_solve(d$p, d$i, d$x, gpu(b), upper, unit), want, paste(upper, unit, columns), 1e-9)
  }
  same(segment_solve(gpu(c(0L, 1L, 1L)), gpu(0L), gpu(2), gpu(c(4, 1)), TRUE), cbind(c(2, Inf)), "no diagonal")
})

test_that("structures that are none are errors or NA, and nothing else is read", {
  x <- gpu(c(1, 2, 3))
  b <- gpu(c(1, 10, 100, 1000))
  i <- gpu(c(0L, 3L, 1L))
  product <- function(p, at = i, ...) segment_products(gpu(p), at, x, b)
  expect_error(product(integer()), class = "verdigris_error_shape")
  expect_error(product(0L), class = "verdigris_error_argument")
  expect_error(segment_products(gpu(c(0L, 3L)), i, gpu(1:2), b), class = "verdigris_error_shape")
  expect_error(segment_products(gpu(c(0L, 3L)), i, x, "a"))
  expect_error(segment_reduce(gpu(c(0L, 3L)), x, "median"), class = "verdigris_error_argument")
  for (p in list(c(0L, 2L, 4L), c(1L, 2L, 3L), c(0L, 3L, 2L, 3L), c(0L, 4L, 3L), c(0L, -1L, 3L), c(0L, NA, 3L))) {
    # a GPU would have to wait to know
    if (test_device == "cpu") expect_error(product(p), class = "verdigris_error_argument")
    else expect_length(collect(product(p)), length(p) - 1L)
  }
  for (at in c(-1L, 4L, .Machine$integer.max, NA)) for (columns in 1:2) {
    got <- segment_products(gpu(c(0L, 2L, 3L)), gpu(c(0L, 3L, at)), x, gpu(matrix(1, 4, columns)))
    expect_identical(is.na(collect(got)), matrix(c(FALSE, TRUE), 2, columns))
  }
})

options(access)
