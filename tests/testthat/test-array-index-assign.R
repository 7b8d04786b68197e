# Assignment to parts: the same values, types, names, growth, warnings and errors as base R; the old value stays. What
# is assigned a second time is in memory of its own, and written in place.

same_assign <- function(x, i, value, j = NULL, what) {
  f <- if (is.null(j)) function(v, w) { v[i] <- w; v[i] <- w; v } else
    function(v, w) { v[i, j[[1L]]] <- w; v[i, j[[1L]]] <- w; v }
  c(compare(f, list(x, list(value)), what = what), if (is.numeric(value) || is.logical(value) || is.complex(value))
    compare(f, list(x, value), what = paste(what, "(array)")))
}

test_that("parts of vectors are assigned as in base R", {
  found <- list()
  subscripts <- list(2, c(1, 3), -1, TRUE, c(TRUE, FALSE), 0, integer(), 7, c(6, 8), 1:3, c(3, 3), "b", c("a", "new"),
    NA, c(1, NA), c(TRUE, NA, FALSE), -9, c(-1, 1),
                     2.9, factor("c"), logical(), NULL, 1i, rep(TRUE, 7))
  for (type in names(edges)) {
    x <- values(type, 5L)
    for (v in list(x, setNames(x, letters[1:5]))) for (i in subscripts) {
      for (value in list(1, 2L, TRUE, NA, c(10, 20), 1:3, 2i, numeric())) {
        found <- c(found, same_assign(v, i, value, what = sprintf("%s%s[%s] <- %s", type,
          if (!is.null(names(v))) " named" else "", deparse1(i), deparse1(value))))
      }
    }
  }
  expect_all_same(found)
})

test_that("what is not a number is assigned as base R does", {
  found <- list()
  x <- c(a = 1, b = 2, c = 3)
  for (value in list("z", list(1), NULL, as.raw(1), factor("q"), as.Date("2020-01-01"), sum)) {
    found <- c(found, compare(function(v) { v[2] <- value; v }, list(x), what = paste("x[2] <-", deparse1(value))))
  }
  expect_all_same(found)
})

test_that("parts of matrices are assigned as in base R", {
  found <- list()
  for (type in c("double", "integer", "complex")) {
    plain <- matrix(values(type, 12L), 3L)
    for (m in list(plain, `dimnames<-`(plain, list(letters[1:3], LETTERS[1:4])))) {
      for (i in list(1, 2:3, -1, TRUE, c(TRUE, FALSE, TRUE), 0, 4, "b", "z", NA))
        for (value in list(1, 1:2, 1:4, c(1, 2, 3), 5i, numeric())) {
        what <- sprintf("%s[%s, ] <- %s", type, deparse1(i), deparse1(value))
        found <- c(found, compare(function(v) { v[i, ] <- value; v }, list(m), what = what),
                   compare(function(v) { v[i, 2:3] <- value; v }, list(m), what = paste(what, "2:3")))
      }
      found <- c(found,
        compare(function(v) { v[, 2] <- 0; v }, list(m), what = "[, 2] <- 0"), compare(function(v) { v[] <- 7; v },
          list(m), what = "[] <- 7"),
        compare(function(v) { v[, ] <- 1:12; v }, list(m), what = "[, ] <- 1:12"), compare(function(v) { v[5] <- 1; v },
          list(m), what = "[5] <- 1"),
        compare(function(v) { v[14] <- 1; v }, list(m), what = "[14] <- 1"),
          compare(function(v) { v[cbind(1:2, 2:3)] <- c(1, 2); v }, list(m), what = "[cbind] <-"),
        compare(function(v) { v[cbind(1:2, 2:9)] <- 1; v }, list(m), what = "[cbind outside] <-"),
          compare(function(v) { v[1, 1, 1] <- 1; v }, list(m), what = "[1, 1, 1] <-"),
        compare(function(v) { v[Re(v) > 0] <- NA; v }, list(Re(plain)), what = "[mask] <-"),
          compare(function(v) { v[["b"]] <- 1; v }, list(m), what = "[['b']] <-"))
    }
  }
  a <- array(values("double", 24L), 2:4)
  found <- c(found,
    compare(function(v) { v[1, , ] <- 0; v }, list(a), what = "[1, , ] <-"), compare(function(v) { v[, 2, 3] <- 1:2
    v }, list(a), what = "[, 2, 3] <-"),
    compare(function(v) { v[3, , ] <- 0; v }, list(a), what = "[3, , ] <-"), compare(function(v) { t(v[, , 1])[1, 1]
    v[2] <- 1i; v }, list(a), what = "promotion keeps dim"))
  expect_all_same(found)
})

test_that("[[<- agrees with base R", {
  found <- list()
  x <- c(a = 1, b = 2, c = 3)
  for (i in list(1, "b", "new", 4, 6, 0, -1, NA, c(1, 2), integer(), TRUE))
    for (value in list(9, 1L, 2i, c(1, 2), numeric())) {
    found <- c(found, compare(function(v) { v[[i]] <- value; v }, list(x), what = sprintf("x[[%s]] <- %s", deparse1(i),
      deparse1(value))))
  }
  found <- c(found, compare(function(v) { v[[2, 3]] <- 9; v }, list(matrix(1:6 + 0, 2)), what = "m[[2, 3]] <-"))
  expect_all_same(found)
})

test_that("assignment leaves other holders of the array alone", {
  x <- gpu(c(1, 2, 3))
  y <- x
  z <- x * 2
  y[2] <- 10
  expect_identical(collect(x), c(1, 2, 3))
  expect_identical(collect(y), c(1, 10, 3))
  expect_identical(collect(z), c(2, 4, 6))
  m <- gpu(matrix(1:6 + 0, 2))
  v <- t(m)
  m[1, 1] <- 100
  expect_identical(collect(v)[1, 1], 1)
})

test_that("assignment keeps the array's dtype where it holds the value", {
  x <- gpu(c(1, 2, 3), "float32")
  x[2] <- 0.1
  expect_identical(gpu_dtype(x), "float32")
  expect_equal(collect(x)[2], 0.1, tolerance = 1e-7)
  i <- gpu(1:3, "int16")
  i[2] <- 7L
  expect_identical(collect(i), c(1L, 7L, 3L))
  big <- gpu(bit64::as.integer64(c("9007199254740993", "1")))
  big[2] <- bit64::as.integer64("9007199254740995")
  expect_identical(as.character(collect(big)), c("9007199254740993", "9007199254740995"))
})

test_that("the assignments are as many as they were", {
  expect_cases(2000L)
})

test_that("a logical subscript lengthens a vector, and what is empty stays so only for a value of its type", {
  assigned <- function(x, i, value) { x[i] <- value; x }
  found <- list()
  for (x in list(1, c(a = 1), 1:2, c(TRUE, FALSE)))
    for (i in list(c(TRUE, NA), c(FALSE, FALSE, FALSE), c(TRUE, NA, FALSE, NA, TRUE))) for (on_host in c(TRUE, FALSE)) {
    found <- c(found, compare(function(x, i) assigned(x, i, 0L), list(x, if (on_host) list(i) else i),
      what = paste("lengthened by", deparse1(i))))
  }
  for (x in list(integer(), numeric(), logical())) for (value in list(integer(), numeric(), logical()))
    for (i in list(1:2, TRUE, NA, -1, 0)) {
    found <- c(found, compare(assigned, list(x, list(i), value), what = paste("nothing at", deparse1(i))))
  }
  expect_all_same(found)
})

# How many of the assignments in `code` were written in place.
in_place <- function(code) {
  before <- .Call(verdigris:::C_counters)[[8L]]
  force(code)
  .Call(verdigris:::C_counters)[[8L]] - before
}

test_that("an array that nobody else holds is written in place", {
  x <- gpu(as.numeric(1:100))
  m <- gpu(matrix(as.numeric(1:100), 10L))
  l <- list(x = gpu(as.numeric(1:8)))
  e <- new.env()
  e$x <- gpu(as.numeric(1:8))
  i <- c(2L, 5L, 9L)
  expect_identical(in_place(for (k in 1:9) x[k] <- k / 2), 9)
  expect_identical(in_place({ x[2:5] <- 1; x[i] <- 7; x[i + 1L] <- c(7, 8, 9); x[length(x)] <- 3L; x[-1] <- 4 }), 5)
  expect_identical(in_place({ m[2, ] <- 1; m[, 3] <- 1:10; m[2:3, i] <- 5 }), 3)
  expect_identical(in_place({ m[4, 4] <- 6; m[i, i] <- 8; diag(m) <- 9 }), 3)
  expect_identical(in_place({ l$x[2] <- 5; l[["x"]][3] <- 6; e$x[1:2] <- 7 }), 3)
  f <- compiler::cmpfun(function(x, i, v) { x[1] <- 0; x[i] <- v; x[i + 1] <- v; x })
  expect_identical(in_place(f(x, 3, 9)), 2)
  expect_identical(in_place({ m[[2, 3]] <- 5; k <- 3; m[[2, k]] <- 4 }), 2)
})

test_that("an array that somebody holds is not", {
  x <- gpu(as.numeric(1:100))
  x[1] <- 0
  y <- NULL
  expect_identical(in_place({ y <- x; x[1] <- 1 }), 0)
  expect_identical(in_place(x[{ y <- x; 1 }] <- 2), 0)
  delayedAssign("late", { y <- x; 1 })
  expect_identical(in_place(x[late] <- 3), 0)
  expect_identical(in_place(`[<-`(x, 1, value = 4)), 0)
  x[1] <- 5
  recorded <- x * 2
  expect_identical(in_place(x[1] <- 6), 0)
  part <- x[1:90 + 5L]
  half <- gpu_as_strided(x, 10)
  expect_identical(in_place(x[1] <- 7), 0)
  capsule <- as_dlpack(x)
  expect_identical(in_place(x[1] <- 8), 0)
  # too much to be copied by `[`
  z <- gpu(as.numeric(1:2000))
  z[1] <- 0
  expect_identical(in_place(z[2:1999] <- z[1:1998] + z[3:2000]), 0)
  expect_identical(collect(z), c(0, 3, 2 * 3:1999, 2000))
  expect_identical(in_place(x[3] <- x), 0) |> suppressWarnings()
  expect_identical(collect(y)[1:2], c(2, 2))
  expect_identical(collect(recorded)[1], 10)
  expect_identical(c(collect(half)[1], collect(from_dlpack(capsule))[1]), c(6, 7))
})

test_that("a number that is written in place is rounded as one that is uploaded", {
  set.seed(1)
  v <- c(rnorm(50) * 10^runif(50, -8, 8), 0.1, 1 / 3, 65504, 65520, 1e-8, NA, NaN, Inf, -Inf, -0, 2049, 2049.5)
  for (dtype in c("float64", "float32", "float16", "bfloat16")) {
    x <- as_gpu(numeric(length(v)), dtype, device = test_device)
    written <- in_place(for (k in seq_along(v)) x[k] <- v[k])
    expect_identical(collect(x), collect(as_gpu(v, dtype, device = test_device)), info = dtype)
    expect_gte(written, length(v) - 1)
  }
})
