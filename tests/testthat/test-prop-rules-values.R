# The rules for arrays as R vectors (docs/altrep.md, which says how each is kept); a test fails where its rule is
# broken. Rules 1 to 6: ownership of memory, copying, reading and writing.

test_that("rule 1: base's wrappers are seen through, and a plain vector of the class is adopted", {
  x <- gpu(real())
  y <- x
  eval(quote(attr(y, "note") <- "shared: base wraps")) # not compiled: compiled code copies
  expect_output(.Internal(inspect(y)), "wrapper")
  expect_true(.Call(verdigris:::C_is_array, y))
  expect_identical(collect(y + 1)[1:3], c(2, 3, 4))
  z <- structure(x, extra = 1)
  expect_true(.Call(verdigris:::C_is_array, z))
  expect_true(.Call(verdigris:::C_is_array, unclass(x)))
  expect_true(.Call(verdigris:::C_is_array, setNames(x, seq_along(x))))
  plain <- structure(c(1, 2, 3), class = c("gpu_array", "numeric"))
  expect_false(.Call(verdigris:::C_is_array, plain))
  expect_identical(as.vector(plain + 1), c(2, 3, 4))
  expect_true(.Call(verdigris:::C_is_array, as_gpu(plain)))
})

test_that("rule 1: a write through a wrapper does not reach the shared array", {
  x <- gpu(real())
  y <- structure(x, extra = 1)
  y <- unclass(y)
  y[2] <- -1
  expect_identical(as.vector(x), real())
  expect_identical(as.vector(x + 0), real())
})

test_that("rule 1: a wrapper keeps its dtype in a file", {
  x <- structure(gpu(real(), "float32"), extra = 1)
  y <- unserialize(serialize(x, NULL))
  expect_false(.Call(verdigris:::C_is_array, y))
  expect_identical(gpu_dtype(y), "float32")
  expect_identical(gpu_dtype(y + 1), "float32")
  expect_identical(as.vector(y), real())
})

test_that("rule 2: a file holds an ordinary vector, readable without the package, that keeps the dtype", {
  file <- withr::local_tempfile(fileext = ".rds")
  saveRDS(gpu(matrix(c(1.5, 2, 3, 4), 2), "float32"), file)
  x <- readRDS(file)
  expect_false(.Call(verdigris:::C_is_array, x))
  expect_identical(gpu_dtype(x), "float32")
  expect_identical(gpu_dtype(as_gpu(x)), "float32")
  expect_null(attr(as_gpu(x), "gpu_dtype"))
  expect_identical(collect(x), matrix(c(1.5, 2, 3, 4), 2))
  code <- sprintf("x <- unclass(readRDS('%s')); cat(length(x), sum(x), dim(x), 'verdigris' %%in%% loadedNamespaces())",
    file)
  out <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", "-e", shQuote(code)), stdout = TRUE)
  expect_identical(out, "4 10.5 2 2 FALSE")
})

test_that("rule 2: saving computes what is recorded and leaves the array as it was", {
  x <- gpu(real()) * 2
  y <- unserialize(serialize(x, NULL))
  expect_identical(as.vector(y), real() * 2)
  expect_identical(as.vector(x), real() * 2)
  expect_identical(names(attributes(x)), "class")
})

test_that("rule 2: what is computed from a saved array says nothing of its dtype", {
  x <- gpu(c(1, 2), "float32")
  serialize(x, NULL)
  for (y in list(x + gpu(1), sqrt(x), pmin(x, 1), gpu_cast(x, "float64")))
    expect_identical(names(attributes(y)), "class")
  wide <- structure(rep(x, 50) + gpu(1), extra = 1)
  expect_identical(gpu_dtype(unserialize(serialize(wide, NULL))), "float64")
})

test_that("rule 3: the host copy stays at one address", {
  x <- gpu(matrix(c(3, 1, 2)))
  touch(x)
  address <- info(x)$address
  y <- x + 1 # uploads what may have been written
  as.vector(y)
  touch(x)
  gc()
  expect_identical(info(x)$address, address)
  # outer reads two arguments' addresses from one object
  expect_identical(outer(unclass(x), unclass(x))[, 1, , 1], outer(c(3, 1, 2), c(3, 1, 2)))
  expect_true(identical(x, x))
})

test_that("rule 3: the host copy is not in R's heap", {
  x <- gpu(matrix(real(1e6)))
  words <- gc()["Vcells", 1]
  bytes <- counts()[["bytes"]]
  touch(x)
  expect_lt(gc()["Vcells", 1] - words, 1e5)
  expect_gte(counts()[["bytes"]] - bytes, 8e6)
})

test_that("rule 3: a duplicate copies from its clean sibling, and from no other", {
  x <- gpu(real(1000)) + 1
  y <- unclass(x) # before anything was read
  for (k in 1:20) .subset2(x, k * 40)
  expect_true(info(x)$host)
  z <- rlang::duplicate(x)
  expect_false(info(z)$host)
  expect_identical(elements_read(expect_identical(.colSums(z, 1000, 1), sum(real(1000) + 1))), 0)
  expect_identical(as.vector(y), real(1000) + 1)
  # a duplicate made while the copy was clean, and R wrote to the copy afterwards
  w <- unclass(gpu(real()))
  w[1] <- 1
  .Call(verdigris:::C_bare, w)
  expect_false(info(w)$dirty)
  v <- rlang::duplicate(w)
  address <- info(w)$address
  w[2] <- -5
  expect_identical(info(w)$address, address)
  expect_identical(base::order(v), 1:100)
})

test_that("rule 4: R's writes arrive on the device, and a duplicate does not follow them", {
  x <- gpu(c(1, 2, 3))
  y <- unclass(x)
  y[2] <- 20 # base's own assignment, into a duplicate
  expect_identical(as.vector(x + 0), c(1, 2, 3))
  expect_identical(y[1:3], c(1, 20, 3))
  class(y) <- "gpu_array"
  expect_identical(as.vector(y + 0), c(1, 20, 3))
  # REAL() of a shared one counts as a write: a later duplicate is of its own
  x <- gpu(matrix(c(1, 2, 3)))
  touch(x)
  expect_true(info(x)$dirty)
  y <- unclass(x)
  y[1] <- 9
  expect_identical(as.vector(x + 0), c(1, 2, 3))
  expect_false(info(x)$dirty)
  class(y) <- "gpu_array"
  expect_identical(as.vector(y * 1), c(9, 2, 3))
})

test_that("rule 4: a duplicate of a clean array shares its memory", {
  x <- gpu(real())
  expect_identical(elements_read(y <- rlang::duplicate(x)), 0)
  expect_true(.Call(verdigris:::C_is_array, y))
  z <- rlang::duplicate(x + 1)
  expect_gt(info(z)$pending, 0)
})

test_that("rule 4: a duplicate of what R has written has what was written, on the device and on the host", {
  x <- unclass(gpu(real()))
  x[1] <- 50
  expect_true(info(x)$dirty)
  y <- rlang::duplicate(x)
  z <- rlang::duplicate(x)
  x[2] <- 60
  expect_identical(as.vector(.Call(verdigris:::C_bare, y))[1:2], c(50, 2))
  expect_identical(z[1:2], c(50, 2))
  expect_identical(x[1:2], c(50, 60))
})

test_that("rule 4: a written duplicate keeps its dtype and device", {
  x <- gpu(matrix(c(1, 2, 3)), "float32")
  touch(x)
  expect_true(info(x)$dirty)
  y <- unclass(x)
  y[1] <- 0.1
  class(y) <- "gpu_array"
  expect_identical(gpu_dtype(y), "float32")
  expect_identical(gpu_device(y), gpu_device(x))
})

test_that("rule 4: a recorded operation took its snapshot", {
  x <- gpu(matrix(c(1, 2, 3)))
  touch(x)
  y <- x + 1
  z <- unclass(x)
  rm(x)
  z[1] <- 100
  expect_identical(as.vector(y), c(2, 3, 4))
})

test_that("rule 4: an int64 array that R has read keeps what doubles cannot show", {
  skip_if_not_installed("bit64")
  big <- bit64::as.integer64("9007199254740993") + bit64::as.integer64(c(0, 1, 2))
  x <- gpu(big)
  expect_identical(gpu_dtype(x), "int64")
  dim(x) <- c(3, 1)
  expect_warning(touch(x), "2\\^53")
  expect_true(info(x)$dirty)
  y <- collect(x)
  dim(y) <- NULL
  expect_identical(y, big)
})

test_that("rule 5: assignment makes a new array, whoever else holds the old one", {
  for (dtype in c("float64", "float32", "int32")) {
    old <- 1:6
    x <- gpu(matrix(old, 2), dtype)
    y <- x
    held <- list(x)
    pending <- x + 0
    view <- t(x)
    part <- x[, 2:3]
    plain <- .Call(verdigris:::C_bare, x)
    x[2, 3] <- 100
    x[1] <- 50
    x[[2]] <- 70
    expect_identical(as.numeric(x), c(50, 70, 3, 4, 5, 100))
    for (kept in list(y, held[[1]], pending, plain)) expect_identical(as.numeric(kept), as.numeric(old))
    expect_identical(as.numeric(view), as.numeric(t(matrix(old, 2))))
    expect_identical(as.numeric(part), as.numeric(3:6))
  }
  f <- function(a) {
    a[1] <- -1
    names(a) <- letters[1:3]
    sum(a)
  }
  x <- gpu(c(1, 2, 3))
  expect_identical(f(x), 4)
  expect_identical(collect(x), c(1, 2, 3))
  # called as functions, where R has not made a duplicate
  for (y in list(`[<-`(x, 2, value = 9), `[[<-`(x, 2, value = 9), replace(x, 2, 9))) {
    expect_identical(collect(y), c(1, 9, 3))
    expect_identical(collect(x), c(1, 2, 3))
  }
  expect_identical(names(`names<-`(x, letters[1:3])), letters[1:3])
  expect_null(names(x))
})

test_that("rule 5: assignment to an array that R has read leaves the host copy alone", {
  x <- gpu(matrix(c(1, 2, 3)))
  y <- x
  touch(x)
  x[2] <- 20
  expect_identical(touch(y), 6)
  expect_identical(touch(x), 24)
})

test_that("rule 6: length computes nothing, and single elements are fetched before everything", {
  x <- gpu(real(50000)) + 1
  expect_identical(length(x), 50000L)
  expect_gt(info(x)$pending, 0)
  expect_identical(elements_read(expect_identical(.subset2(x, 3), 4)), 1)
  expect_false(info(x)$host)
  expect_lt(elements_read(for (k in 1:100) .subset2(x, 5L)), 20000)
  expect_false(info(x)$host)
  for (k in 1:10) for (far in c(1, 49000)) .subset2(x, far)
  expect_true(info(x)$host)
  expect_identical(.subset(x, c(1, 50000)), c(2, 50001))
})

test_that("rule 6: a selection knows its length", {
  x <- gpu(c(1, -2, 3))
  y <- x[x > 0]
  expect_identical(info(y)$length, 2)
  expect_identical(elements_read(length(y)), 0)
  z <- y * 2
  expect_identical(length(z), 2L)
  expect_gt(info(z)$pending, 0)
})

test_that("rule 6: reads by region give all elements in order", {
  for (n in c(1, 511, 513, 100000)) {
    x <- gpu(real(n))
    expect_identical(sum(unclass(x)), sum(real(n)))
    expect_identical(as.integer(unclass(x)), as.integer(real(n)))
  }
})
