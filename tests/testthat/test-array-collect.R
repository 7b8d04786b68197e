# Ordinary vectors that are read when R asks for an element. The cpu device leaves large ones unread, and with C_defer
# those of any size but one.

deferring <- function(code) {
  before <- .Call(C_defer, TRUE)
  on.exit(.Call(C_defer, before))
  force(code)
}
shown <- function(x) paste(utils::capture.output(.Internal(inspect(x))), collapse = "\n")
is_unread <- function(x) grepl("an ordinary vector", shown(x)) && !grepl("host copy", shown(x))
fetched <- function() .Call(C_live)[3L]

host <- c(1, NaN, -2.5, NA, Inf, 0)

test_that("as.vector() and its like give base R's vectors, which are not read yet", {
  kinds <- list(double = host, integer = c(3L, NA, -1L), logical = c(TRUE, NA, FALSE), complex = c(1i, NA, 2))
  for (kind in names(kinds)) {
    v <- kinds[[kind]]
    x <- gpu(v)
    y <- deferring(as.vector(x))
    expect_true(is_unread(y), label = kind)
    expect_null(attributes(y))
    expect_type(y, kind)
    expect_identical(length(y), length(v))
    expect_identical(y, v)
    for (f in c("as.logical", "as.integer", "as.double", "as.complex")) {
      expect_identical(suppressWarnings(deferring(match.fun(f)(x))), suppressWarnings(match.fun(f)(v)), label = f)
    }
  }
  m <- gpu(matrix(host, 2, dimnames = list(c("a", "b"), NULL)))
  expect_identical(deferring(as.vector(m)), host)
  expect_identical(deferring(as.vector(m, "list")), as.list(host))
  expect_identical(deferring(as.vector(m, "character")), as.character(host))
  expect_identical(deferring(as.vector(m > 0)), host > 0)
})

test_that("narrow arrays come as R's types", {
  for (dtype in c("float32", "float16", "bfloat16")) {
    y <- deferring(as.vector(gpu(host, dtype)))
    expect_true(is_unread(y), label = dtype)
    expect_identical(y, collect(gpu(host, dtype)))
  }
  for (dtype in c("int8", "int16")) expect_identical(deferring(as.vector(gpu(1:3, dtype))), 1:3)
  wide <- gpu(c(1, 2^40), "int64")
  expect_false(is_unread(deferring(as.vector(wide))))
  expect_identical(as.vector(wide), c(1, 2^40))
})

test_that("an operation takes the elements from the device, in the type that they have in R", {
  x <- gpu(host)
  m <- gpu(matrix(1:12 / 8, 6))
  w <- deferring(as.vector(x * 2))
  before <- fetched()
  product <- m * w
  more <- w - x
  place <- x[deferring(as.vector(gpu(c(1, 3, 5))))]
  kept <- x[deferring(as.vector(x > 0 & !is.na(x)))]
  single <- gpu(1:6, "float32") * w
  again <- as_gpu(w, device = test_device)
  narrow <- as_gpu(w, "float32", test_device)
  expect_identical(fetched(), before)
  expect_true(is_unread(w))
  expect_identical(collect(product), matrix(1:12 / 8, 6) * (host * 2))
  expect_identical(collect(more), host * 2 - host)
  expect_identical(collect(place), host[c(1, 3, 5)])
  expect_identical(collect(kept), host[host > 0 & !is.na(host)])
  expect_identical(gpu_dtype(single), "float32")
  # float32 has no NA
  without_na <- function(v) ifelse(is.na(v), NaN, v)
  expect_identical(without_na(collect(single)), without_na(1:6 * host * 2))
  expect_identical(collect(again), host * 2)
  expect_identical(gpu_dtype(narrow), "float32")
  # a double that came of a float32 meets integers as a double
  f <- deferring(as.vector(gpu(host, "float32")))
  expect_identical(gpu_dtype(gpu(1:6) * f), "float64")
})

test_that("what is written to the vector, or to the array, stays there", {
  x <- gpu(host)
  w <- deferring(as.vector(x))
  x[1] <- 9
  expect_identical(w, host)
  expect_identical(collect(x)[1], 9)
  w <- deferring(as.vector(x))
  w[2] <- 7
  expect_identical(collect(x)[2], NaN)
  expect_identical(collect(x + w)[2], NaN)
  expect_identical(collect(gpu(rep(0, 6)) + w), c(9, 7, host[3:6]))
  # a copy is another vector
  a <- b <- deferring(as.vector(x))
  b[3] <- 1
  expect_identical(a, c(9, host[-1]))
  expect_identical(collect(gpu(rep(0, 6)) + b)[3], 1)
  dim(a) <- c(2, 3)
  expect_identical(a, matrix(c(9, host[-1]), 2))
  expect_identical(collect(gpu(matrix(0, 2, 3)) + a), a + 0)
  names(b) <- letters[1:6]
  expect_identical(names(gpu(host) + b), letters[1:6])
  # values of before, also where the array's memory is written in place
  w <- deferring(as.vector(x))
  for (k in 1:6) x[k] <- k
  expect_identical(w, c(9, host[-1]))
  w <- deferring(as.vector(x))
  gpu_compute(x * 0, out = x)
  expect_identical(w, 1:6 + 0)
  w <- deferring(as.vector(gpu(host)))
  gpu_free(x)
  gc()
  expect_identical(w, host)
})

test_that("an element that is asked for is base R's, and what R does to vectors works", {
  v <- c(3, 1, 2, 8, 5, 4)
  make <- function() deferring(as.vector(gpu(v)))
  expect_identical(make()[2], 1)
  expect_identical(sum(make()), 23)
  expect_identical(sort(make()), sort(v))
  expect_identical(make() + 1, v + 1)
  expect_identical(rev(make()), rev(v))
  expect_identical(unserialize(serialize(make(), NULL)), v)
  expect_identical(unlist(lapply(make(), identity)), v)
  expect_identical(matrix(make(), 2), matrix(v, 2))
  expect_identical(data.frame(v = make())$v, v)
  expect_identical(ifelse(make() > 2, make(), 0), ifelse(v > 2, v, 0))
  s <- 0
  y <- make()
  for (k in seq_along(y)) s <- s + y[k]
  expect_identical(s, 23)
  f <- factor(make())
  expect_identical(f, factor(v))
  expect_output(print(make()), "[1] 3 1 2 8 5 4", fixed = TRUE)
})

test_that("option verdigris.host_access is about reads that nobody has asked for", {
  before <- options(verdigris.host_access = "error")
  on.exit(options(before))
  y <- deferring(as.vector(gpu(host)))
  expect_identical(y, host)
  expect_error(base::sum(unclass(gpu(host))), class = "verdigris_error_host_access")
})

test_that("large vectors of the cpu device are not read either, few elements are", {
  skip_if(test_device != "cpu", "on a GPU all are")
  expect_false(is_unread(as.vector(gpu(host))))
  x <- gpu(runif(1e5))
  y <- as.vector(x)
  expect_true(is_unread(y))
  expect_identical(y[7], collect(x)[7])
  expect_identical(y, collect(x))
})

test_that("memory that another library may write to is read at once", {
  skip_if(test_device != "cpu", "numbers of the host's memory")
  x <- gpu(runif(1e5))
  capsule <- as_dlpack(x)
  y <- as.vector(x)
  expect_false(is_unread(y))
  expect_false(is_unread(as.vector(from_dlpack(capsule))))
})

test_that("what fails, fails where as.vector() is called", {
  x <- gpu(host)
  gpu_free(x)
  expect_error(deferring(as.vector(x)), class = "verdigris_error_consumed")
  expect_warning(deferring(as.vector(sqrt(gpu(c(-1, 2))))) + 0, "NaNs produced")
})

test_that("a forked process finds the elements", {
  skip_on_os("windows")
  y <- deferring(as.vector(gpu(host) * 2))
  expect_true(is_unread(y))
  child <- parallel::mcparallel(y)
  expect_identical(parallel::mccollect(child)[[1L]], host * 2)
  expect_false(is_unread(y))
})

failure <- function(expr) tryCatch(suppressWarnings(expr), error = conditionMessage)

test_that("a large diagonal is written where it is needed", {
  n <- 300
  v <- runif(n * n)
  k <- gpu(matrix(v, n))
  K <- matrix(v, n)
  d <- diag(1e-2, n)
  expect_true(is_unread(d))
  expect_identical(collect(k + d), K + base::diag(1e-2, n))
  expect_identical(collect(k - diag(n)), K - base::diag(n))
  expect_identical(collect(diag(n) %*% k), K)
  expect_identical(collect(gpu(K, "float32") + diag(0.5, n)), 
    collect(gpu(collect(gpu(K, "float32")) + base::diag(0.5, n), "float32")))
  expect_true(is_unread(d))
  # and is base R's in all else
  expect_identical(d, base::diag(1e-2, n))
  expect_identical(diag(n), base::diag(n))
  expect_identical(diag(300L), base::diag(300L))
  expect_identical(diag(-0.5, 257.9), base::diag(-0.5, 257.9))
  expect_identical(attributes(diag(2, n)), list(dim = c(300L, 300L)))
  e <- diag(n)
  e[2, 1] <- 3
  expect_identical(collect(k + e), `[<-`(K + base::diag(n), 2, 1, K[2, 1] + 3))
  expect_identical(solve(diag(2, n)), base::solve(base::diag(2, n)))
  expect_identical(2 * diag(n), 2 * base::diag(n))
  # of an array it is one, recorded
  y <- runif(n)
  for (of in list(y, y > 0.5, as.integer(100 * y), complex(real = y, imaginary = -y))) {
    expect_identical(collect(diag(gpu(of))), base::diag(of))
    expect_identical(collect(k + diag(gpu(of))), K + base::diag(of))
  }
  expect_identical(collect(diag(gpu(y), n, 310)), base::diag(y, n, 310))
  expect_identical(collect(diag(gpu(y), 310, n)), base::diag(y, 310, n))
  expect_identical(gpu_dtype(diag(gpu(y, "float32"))), "float32")
  expect_identical(gpu_dtype(diag(gpu(rep(1:3, 100), "int8"))), "int8")
  # calls that are not of this kind
  expect_identical(diag(2L, n), base::diag(2L, n))
  expect_identical(diag(2, n, 2), base::diag(2, n, 2))
  expect_identical(diag(NA_real_, n), base::diag(NA_real_, n))
  expect_identical(diag(TRUE, n), base::diag(TRUE, n))
  expect_identical(diag(c(a = 1, b = 2)), base::diag(c(a = 1, b = 2)))
  expect_identical(failure(diag(300, NULL)), failure(base::diag(300, NULL)))
  expect_identical(failure(diag(1, "a")), failure(base::diag(1, "a")))
  expect_identical(failure(diag(1, -300)), failure(base::diag(1, -300)))
})

test_that("drop() gives the class of what is left", {
  x <- gpu(matrix(c(1, 2, 3), 3, dimnames = list(letters[1:3], "z")))
  y <- drop(x)
  expect_identical(class(y), class(gpu(c(1, 2, 3))))
  expect_identical(collect(y), drop(collect(x)))
  expect_identical(collect(drop(gpu(array(1:6, c(1, 2, 3))))), drop(array(1:6, c(1, 2, 3))))
  expect_identical(collect(drop(gpu(matrix(1:4, 2)))), matrix(1:4, 2))
  expect_identical(collect(drop(gpu(5))), 5)
  expect_identical(drop(matrix(1:3, 3)), 1:3)
})

test_that("what I() has marked stays marked", {
  x <- matrix(c(a = 1.5, b = NA), 1L)
  for (value in list(1:3, x, integer())) {
    expect_identical(collect(I(as_gpu(value))), I(value))
    expect_identical(collect(data.frame(n = seq_along(value), v = I(as_gpu(as.vector(value))))),
      data.frame(n = seq_along(value), v = I(as.vector(value))))
  }
})
