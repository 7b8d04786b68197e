# Transposing and permuting: values, dim, dimnames, names of dimnames and errors as base R's.

test_that("t() agrees with base R", {
  found <- list()
  for (type in names(edges)) {
    m <- matrix(values(type, 12L), 3L)
    named <- setNames(values(type, 4L), letters[1:4])
    for (x in list(m, `dimnames<-`(m, list(letters[1:3], NULL)), `dimnames<-`(m, list(r = NULL, c = LETTERS[1:4])),
      m[0, ], m[1, , drop = FALSE], unname(named), named,
                   array(values(type, 3L), 3L), array(values(type, 3L), 3L, list(letters[1:3])),
                     array(values(type, 3L), 3L, list(k = letters[1:3])),
                   array(values(type, 8L), c(2L, 2L, 2L)))) {
      found <- c(found, compare(t, list(x), what = paste("t", deparse1(x))), compare(function(v) t(t(v)), list(x),
        what = paste("t(t())", deparse1(x))))
    }
  }
  expect_all_same(found)
})

test_that("aperm() agrees with base R", {
  found <- list()
  a <- array(values("double", 24L), 2:4)
  named <- `dimnames<-`(a, list(x = letters[1:2], y = NULL, z = LETTERS[1:4]))
  for (v in list(a, named)) {
    for (perm in list(NULL, 3:1, c(2, 1, 3), c(3, 1, 2), c(1, 2), c(1, 1, 2), 1:4, c(1, 2, 4), c("z", "x", "y"),
      c("q", "x", "y"), c(NA, 1, 2))) {
      found <- c(found, compare(function(w) aperm(w, perm), list(v), what = paste("aperm", deparse1(perm))))
    }
    found <- c(found, compare(function(w) aperm(w, resize = FALSE), list(v), what = "resize = FALSE"),
               compare(function(w) aperm(aperm(w, c(2, 3, 1)), c(3, 1, 2)), list(v), what = "there and back"),
               compare(function(w) aperm(w, c(2, 1, 3))[, 2, ] + 1, list(v), what = "a part of a view"))
  }
  found <- c(found, compare(aperm, list(1:3), what = "aperm of a vector"), compare(aperm, list(matrix(1:6, 2)),
    what = "aperm of a matrix"))
  expect_all_same(found)
})

test_that("views compute as what they show", {
  found <- list()
  m <- matrix(values("double", 80L)[21:80], 12L)
  found <- c(found,
    compare(function(v) t(v) * 2 + 1, list(m), what = "arithmetic"), compare(function(v) sum(t(v)[2:3, ]), list(m),
      ulp = 8, what = "sum of a part"),
    compare(function(v) t(v[2:5, c(1, 3)]), list(m), what = "t of a part"), compare(function(v) v[12:1, ] + t(t(v)),
      list(m), what = "reversed"),
    compare(function(v) v[, 2] * v[, 4], list(m), what = "columns"),
      compare(function(v) rowSums(t(v)[, c(TRUE, FALSE)]), list(m), ulp = 8, what = "rowSums of a view"),
    compare(function(v) sort(t(v)), list(m), what = "sort of a view"), compare(function(v) cumsum(t(v)), list(m),
      ulp = 8, what = "cumsum of a view"))
  expect_all_same(found)
})

test_that("dim, dimnames and names are set as in base R", {
  x <- values("double", 12L)
  found <- list(
    compare(function(v) { dim(v) <- c(3, 4); v }, list(x), what = "dim<-"), compare(function(v) { dim(v) <- c(5, 4)
    v }, list(x), what = "dim<- of another size"),
    compare(function(v) { dim(v) <- NULL; v }, list(matrix(x, 3)), what = "dim<- NULL"),
      compare(function(v) { names(v) <- letters[1:12]; v }, list(x), what = "names<-"),
    compare(function(v) { names(v) <- "a"; v }, list(x), what = "names<-, short"),
      compare(function(v) { names(v) <- letters[1:13]; v }, list(x), what = "names<-, long"),
    compare(function(v) { dimnames(v) <- list(letters[1:3], NULL); v }, list(matrix(x, 3)), what = "dimnames<-"),
    compare(function(v) { dimnames(v) <- list(letters[1:4], NULL); v }, list(matrix(x, 3)),
      what = "dimnames<- of another size"),
    compare(function(v) { colnames(v) <- LETTERS[1:4]; v }, list(matrix(x, 3)), what = "colnames<-"),
      compare(function(v) { rownames(v) <- 1:3; v }, list(matrix(x, 3)), what = "rownames<-"))
  expect_all_same(found)
})

test_that("names of what is bound come from the first argument that has some", {
  v <- c(x = 5)
  m <- matrix(1:4, 4, 1, dimnames = list(letters[1:4], "w"))
  n <- matrix(1:4, 2, dimnames = list(c("r", "s"), NULL))
  w <- c(p = 1, q = 2)
  found <- list()
  for (order in list(1:2, 2:1))
    for (parts in list(list(v, m), list(v, unname(m)), list(w, n), list(w, unname(n)), list(w, t(n))))
    for (f in c("cbind", "rbind")) {
    found <- c(found, suppressWarnings(compare(function(a, b) do.call(f, list(a, b)), parts[order],
      what = paste(f, deparse1(parts[order])))))
  }
  expect_all_same(found)
})

test_that("the shapes are as many as they were", {
  expect_cases(120L)
})

test_that("rows longer than a thread's task are bound and taken", {
  m <- matrix(seq_len(120000) / 7, 40000)
  x <- gpu(m)
  expect_identical(collect(rbind(x, x)), rbind(m, m))
  long <- rbind(m, m)
  at <- c(seq_len(nrow(long)), 3L)
  expect_identical(collect(gpu(long)[at, c(3L, 1L)]), long[at, c(3L, 1L)])
})

test_that("matrices, vectors and ordinary numbers are bound and combined with base R's labels", {
  made <- function(G) list(x = G(c(1.5, 2, 3)), m = G(matrix(1:9 + 0.5, 3)), y = G(1:3), z = c(9, 8, 7),
    l = G(c(TRUE, NA, FALSE)), n = G(c(a = 1, b = 2, c = 3)), h = diag(3))
  calls <- alist(rbind(m, x), rbind(x, m, y), cbind(m, x), cbind(m, z, 1:3), rbind(m, c(1, 2, 3)), rbind(a = m, b = x),
    cbind(q = x, m), rbind(x, y), cbind(x, z), rbind(m, x, deparse.level = 0), rbind(m, x, deparse.level = 2),
    rbind(m, x, deparse.level = 1.7), cbind(m, n), rbind(m, 1), cbind(m, h), rbind(h, m, x), cbind(y, l), rbind(m, m),
    cbind(1:3, x), cbind(c(x), c(y)), rbind(x, complex(real = 1:3, imaginary = 2)), rbind(m, NULL), cbind(m, "a"),
    rbind(x[0], m), cbind(m[, 0], x), c(x, y), c(x, 1L), c(m, x), c(x, n), c(a = x, y), c(l, y), c(x, "a"), c(x, NULL),
    c(x, list(1)), c(x, z, TRUE), c(y, 2i), c(x, as.raw(1)), c(x, factor("a")), c(x, n, use.names = FALSE))
  for (call in calls) {
    want <- eval(call, made(identity))
    got <- eval(call, made(gpu))
    expect_identical(if (is.list(got)) lapply(got, collect) else collect(got), want, label = deparse1(call))
  }
})
