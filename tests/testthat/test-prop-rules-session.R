# The rules for arrays as R vectors (docs/altrep.md, which says how each is kept); a test fails where its rule is
# broken. Rules 7 to 13: errors, dispatch, processes, types, classes.

test_that("rule 7: an error of Dataptr is an ordinary R error, of its class", {
  withr::local_options(verdigris.host_access = "error")
  x <- gpu(c(3, 1, 2))
  expect_error(base::order(x), class = "verdigris_error_host_access")
  said <- try(base::order(x), silent = TRUE)
  expect_s3_class(said, "try-error")
  expect_match(said, "order reads 3 elements", fixed = TRUE)
  # gc works again afterwards
  expect_no_error(gc())
  withr::local_options(verdigris.host_access = "allow")
  expect_identical(base::order(x), c(2L, 3L, 1L))
  expect_identical(eval(parse(text = deparse(unclass(x)))), c(3, 1, 2))
})

test_that("rule 7: try() shows a call in which an array stands", {
  withr::local_options(verdigris.host_access = "error")
  f <- function(x) stop("mine")
  for (n in c(3, 100)) {
    x <- gpu(real(n))
    expect_match(try(do.call("f", list(x)), silent = TRUE), "mine")
    expect_s3_class(try(do.call(base::order, list(x)), silent = TRUE), "try-error")
    expect_output(dput(x), "1, 2,")
  }
})

test_that("rule 7: the notice comes when the host copy is set, once for a function", {
  withr::local_options(verdigris.host_access = "inform")
  x <- gpu(real(1000001))
  reader <- function(x) base::order(x)[1]
  rm(list = ls(verdigris:::informed), envir = verdigris:::informed)
  seen <- copied <- NULL
  withCallingHandlers(base::order(x), verdigris_host_access = function(m) {
    seen <<- base::order(x)[1:2] # uses the array while it is being read
    rlang::cnd_muffle(m)
  })
  expect_identical(seen, 1:2)
  m <- gpu(matrix(real(1000001)))
  withCallingHandlers(touch(m), verdigris_host_access = function(message) {
    copied <<- info(m)$host
    rlang::cnd_muffle(message)
  })
  expect_true(copied)
  expect_no_message(base::order(gpu(real(1000001))))
})

test_that("rule 8: with classes that mean more the operators serve both orders", {
  day <- as.Date("2024-03-01")
  x <- gpu(c(1, 2))
  hours <- as.difftime(c(1, 2), units = "hours")
  # as in a user's code, which does not see the package's own functions
  outside <- function(e) eval(e, list(day = day, x = x, hours = hours), globalenv())
  expect_identical(outside(quote(day + x)), day + c(1, 2))
  expect_identical(outside(quote(x + day)), c(1, 2) + day)
  expect_identical(outside(quote(rep(day, 2) == x)), c(FALSE, FALSE))
  expect_identical(outside(quote(day - x)), day - c(1, 2))
  expect_identical(outside(quote(data.frame(a = 1:2) + x)), data.frame(a = 1:2) + c(1, 2))
  expect_identical(collect(outside(quote(ts(1:2) - x))), ts(1:2) - c(1, 2))
  expect_identical(outside(quote(hours * x)), hours * c(1, 2))
  expect_identical(outside(quote(x * hours)), c(1, 2) * hours)
  expect_warning(answer <- factor(c("a", "b")) + x, "not meaningful")
  expect_identical(answer, c(NA, NA))
  expect_warning(answer <- x > factor(c("a", "b")), "not meaningful")
  expect_identical(answer, c(NA, NA))
  expect_identical(collect(outside(quote(x + 1))), c(2, 3))
})

test_that("rule 8: calls without an array are base R's own", {
  code <- bquote({
    .(outcome_code)
    day <- as.Date("2024-03-01")
    f <- factor(c("a", "b"))
    hours <- as.difftime(c(1, 2), units = "hours")
    calls <- quote(list(day + 1, day - day, -hours, day > "2024-01-01", f == "a", f + 1, ordered(1:2) < 2, !f, day * 2,
      ts(1:3) + ts(2:4), data.frame(a = 1) + 2, day + hours, hours + day, day + "a", ts(1:3) + ts(1:3, start = 9)))
    print(outcomes_of(calls[-1L]))
  })
  plain <- in_child(code, attach = FALSE)
  attached <- in_child(code)
  expect_identical(attached, plain)
  expect_gt(length(plain), 40L)
})

test_that("rule 8: beside a class that nobody knows R says that it finds no method", {
  skip_if(getRversion() >= "4.3.0")
  x <- gpu(c(1, 2))
  registerS3method("Ops", "strange", function(e1, e2) "theirs", envir = baseenv())
  strange <- structure(1:2, class = "strange")
  expect_error(suppressWarnings(strange + x), class = "verdigris_error_argument")
  expect_error(suppressWarnings(x + strange), class = "verdigris_error_argument")
  expect_identical(collect(x + 1), c(2, 3))
})

test_that("rule 8: Matrix's generics take arrays", {
  skip_if_not_installed("Matrix")
  m <- matrix(c(2, 0, 1, 3), 2)
  x <- gpu(m)
  v <- gpu(c(1, 2))
  for (other in list(Matrix::Matrix(m, sparse = TRUE), Matrix::Matrix(m + 1), Matrix::Diagonal(2),
    methods::as(Matrix::Diagonal(2, 1:2), "TsparseMatrix"))) {
    # Matrix 1.7-3 cannot solve a triangular matrix of triplets with a dense one
    fails <- function(expr) is.null(tryCatch(expr, error = function(e) NULL))
    for (f in c("%*%", "crossprod", "tcrossprod", "solve", "cbind2", "rbind2", "kronecker")) {
      g <- get(f, asNamespace("Matrix"))
      if (!fails(g(other, m))) expect_identical(g(other, x), g(other, m))
      expect_identical(g(x, other), g(m, other))
    }
    if (!fails(Matrix::solve(other, c(1, 2)))) expect_identical(Matrix::solve(other, v), Matrix::solve(other, c(1, 2)))
    expect_identical(other %*% v, other %*% c(1, 2))
    expect_identical(cbind(other, x), cbind(other, m))
    expect_identical(x + other, m + other)
    expect_identical(other > x, other > m)
  }
})

test_that("rule 9: finalizers only queue", {
  before <- alive()
  for (k in 1:1000) gpu(c(1, 2, 3))
  expect_lte(alive()[["handles"]], before[["handles"]] + 1)
  x <- gpu(real())
  invisible(base::order(x))
  rm(x)
  expect_lte(alive()[["bytes"]], before[["bytes"]])
  skip_on_os(c("mac", "windows"))
  # the memory goes to the pool with the next call into the package, not within gc, and from there to the system
  gpu_memory("cpu", trim = TRUE)
  held <- function() .Call(verdigris:::C_device_memory, "cpu")[[3]] # kept for reuse; the one call that frees nothing
  x <- gpu(matrix(real(8e6)))
  touch(x)
  rm(x)
  gc()
  expect_lt(held(), 64e6)
  counts()
  expect_gte(held(), 64e6)
  gpu_memory("cpu", trim = TRUE)
  expect_lt(held(), 64e6)
})

test_that("rule 9: an array serves until R has ended", {
  out <- in_new_r(
    "last <- new.env()", "nothing <- reg.finalizer(last, function(e) cat('last:', sum(x), y[2], base::order(x)), onexit = TRUE)",
    "x <- as_gpu(c(3, 1, 2), device = 'cpu')", "y <- x * 2")
  expect_identical(out, "last: 6 2 2 3 1")
})

test_that("rule 9: a forked child reads cpu arrays and frees nothing of its parent", {
  skip_on_os("windows")
  skip_if(test_device != "cpu")
  x <- gpu(real(1000)) * 2
  y <- gpu(real(1000))
  collect_garbage() # a child frees what its parent had queued
  out <- parallel::mclapply(1:2, function(k) {
    before <- alive()[["handles"]]
    y <<- NULL
    c(sum(x) + k, alive()[["handles"]] - before)
  }, mc.cores = 2)
  # the sum has made no handle; that of y is queued by nobody
  expect_identical(out, lapply(1:2, function(k) c(sum(real(1000) * 2) + k, 0)))
  expect_identical(as.vector(x), real(1000) * 2)
  expect_identical(as.vector(y), real(1000))
})

test_that("rule 9: arrays travel to other processes", {
  skip_on_cran()
  cluster <- parallel::makePSOCKcluster(1)
  on.exit(parallel::stopCluster(cluster))
  x <- gpu(matrix(1:6, 2), "int16")
  back <- parallel::clusterApply(cluster, list(x), function(x) x)[[1]]
  expect_identical(collect(back), matrix(1:6, 2))
  expect_identical(gpu_dtype(back), "int16")
})

test_that("rule 10: every type is read by element, region, address and as a copy", {
  values <- list(c(TRUE, NA, FALSE), c(1L, NA, 3L), c(1, NA, NaN, Inf), c(1i, NA, 2))
  for (v in values) {
    x <- gpu(v)
    expect_identical(.subset2(x, 2), v[[2]])
    expect_identical(.subset(x, seq_along(v)), v)
    expect_identical(as.vector(x), v)
    y <- unclass(gpu(v))
    y[1] <- y[1]
    expect_identical(as.vector(y), v)
    expect_identical(vapply(seq_along(v), function(k) .subset2(gpu(v), k), v[1]), v)
    expect_output(.Internal(inspect(x)), paste("on", test_device), fixed = TRUE)
  }
})

test_that("rule 10: empty arrays", {
  for (v in list(logical(), integer(), double(), complex())) {
    x <- gpu(v)
    expect_identical(as.vector(x), v)
    expect_identical(length(x), 0L)
    expect_identical(.subset(x, integer()), v)
    expect_identical(base::order(unclass(x)), integer())
  }
})

test_that("rule 10: regions are read as regions, where there is no host copy", {
  x <- unclass(gpu(real(512)) * 1)
  expect_identical(elements_read(expect_identical(sum(x), sum(real(512)))), 512)
  expect_false(info(x)$host)
})

test_that("rule 10: order and missing values are claimed only where they are known", {
  for (v in list(c(3, NA, 1), c(3L, NA, 1L), c(TRUE, NA))) {
    x <- unclass(gpu(v))
    expect_true(anyNA(x))
    expect_identical(sort(x), sort(v))
    expect_identical(is.unsorted(x, na.rm = TRUE), is.unsorted(v, na.rm = TRUE))
  }
  x <- unclass(gpu(c(1, 2, 3)))
  expect_false(anyNA(x))
  expect_identical(sort(x), c(1, 2, 3))
  x[1] <- NA
  x[2] <- 5
  expect_true(anyNA(x))
  expect_identical(sort(x), c(3, 5))
})

test_that("rule 10: the library calls nothing that is not R's API", {
  nm <- Sys.which("nm")
  skip_if(nm == "", "there is no nm")
  skip_on_os(c("mac", "windows"))
  library <- getLoadedDLLs()[["verdigris"]][["path"]]
  wanted <- sub("@.*", "", sub("^.* U ", "", system2(nm, c("-D", "--undefined-only", shQuote(library)), stdout = TRUE)))
  expect_true("R_new_altrep" %in% wanted)
  # before R 4.5 there is no other way to see at once that a vector has no attributes (operators.c)
  gone <- c(if (getRversion() >= "4.5.0") "ATTRIB", "SET_ATTRIB", "OBJECT", "SET_OBJECT", "LEVELS", "SETLEVELS",
    "DATAPTR", "STDVEC_DATAPTR", "SET_S4_OBJECT",
            "UNSET_S4_OBJECT", "IS_S4_OBJECT", "Rf_allocVector3", "NAMED", "SET_NAMED", "SETLENGTH", "SET_TRUELENGTH",
              "SET_TYPEOF")
  unlisted <- get0("nonAPI", asNamespace("tools"), inherits = FALSE, ifnotfound = character())
  # before R 4.6 there is no other way to look at a promise without forcing it (dots.c, target.c)
  promises <- if (getRversion() < "4.6.0") c("ENCLOS", "PRENV", "PRVALUE", "R_PromiseExpr", "Rf_findVarInFrame3")
  expect_identical(setdiff(intersect(wanted, c(gone, paste0("Rf_", gone), unlisted)), promises), character())
})

test_that("rule 11: the class says what base R asks", {
  expect_identical(oldClass(gpu(1)), c("gpu_numeric", "gpu_array", "numeric", "vector"))
  expect_identical(oldClass(gpu(matrix(1L))), c("gpu_matrix", "gpu_array", "matrix", "array", "integer", "numeric"))
  expect_identical(oldClass(gpu(array(TRUE, c(1, 1, 1)))), c("gpu_tensor", "gpu_array", "array", "logical"))
  expect_true(inherits(gpu(matrix(1)), "gpu_array"))
  frame <- data.frame(a = gpu(c(1, 2)), b = c("x", "y"))
  expect_true(is_gpu(frame$a))
  expect_identical(dim(as.data.frame(gpu(matrix(1:6, 2)))), c(2L, 3L))
  expect_identical(collect(unique(gpu(matrix(c(1, 1, 2, 2), 2)))), unique(matrix(c(1, 1, 2, 2), 2)))
  expect_identical(collect(duplicated(gpu(c(1, 1, 2)))), c(FALSE, TRUE, FALSE))
})

test_that("rule 11: base R's and the tidyverse's functions that ask for the class", {
  v <- c(2, 1, 1, 3)
  m <- matrix(c(2, 0, 1, 3), 2)
  x <- gpu(v)
  expect_identical(det(gpu(m)), det(m))
  expect_identical(isSymmetric(gpu(m)), isSymmetric(m))
  expect_identical(collect(subset(gpu(m), c(TRUE, FALSE))), subset(m, c(TRUE, FALSE)))
  s <- ts(c(1, 3, 2, 5, 4, 6, 8, 7), start = c(2000, 1), frequency = 4)
  for (f in list(diff, time, cycle, function(x) stats::aggregate(x, FUN = sum))) {
    got <- collect(f(gpu(s)))
    expect_identical(got, f(s))
    expect_false(isS4(got))
  }
  k <- c("a", "b", "a", "b")
  expect_identical(stats::aggregate(x, list(k), sum), stats::aggregate(v, list(k), sum))
  expect_identical(collect(merge(data.frame(x = x, k), data.frame(k = "a", w = 1))),
    merge(data.frame(x = v, k), data.frame(k = "a", w = 1)))
})

test_that("rule 11: vctrs combines arrays with arrays and numbers", {
  skip_if_not_installed("vctrs")
  x <- gpu(c(a = 1, b = 2), "float32")
  names(x) <- NULL
  for (joined in list(vctrs::vec_c(x, 3), vctrs::vec_c(x, 3L), vctrs::vec_c(x, gpu(3, "float32")))) {
    expect_true(is_gpu(joined))
    expect_identical(gpu_dtype(joined), "float32")
    expect_identical(collect(joined), c(1, 2, 3))
  }
  joined <- vctrs::vec_c(0.5, x, TRUE)
  expect_true(is_gpu(joined))
  expect_identical(collect(joined), c(0.5, 1, 2, 1))
  expect_identical(gpu_dtype(vctrs::vec_c(gpu(1L), x)), gpu_dtype(c(gpu(1L), x)))
  expect_identical(vctrs::vec_cast(x, double()), c(1, 2))
  expect_identical(gpu_dtype(vctrs::vec_cast(1:2, x)), "float32")
  expect_identical(vctrs::vec_cast(gpu(c(TRUE, NA)), integer()), c(1L, NA))
  expect_error(vctrs::vec_cast(gpu(1.5), integer()), class = "vctrs_error_cast_lossy")
  expect_error(vctrs::vec_c(x, "a"), class = "vctrs_error_incompatible_type")
  expect_identical(vctrs::vec_match(2, x), 2L)
  both <- vctrs::vec_rbind(data.frame(x = x), data.frame(x = 5))
  expect_identical(collect(both), data.frame(x = c(1, 2, 5)))
})

test_that("rule 12: a host write is rounded where R sees it", {
  for (dtype in c("float32", "float16", "bfloat16")) {
    y <- unclass(gpu(c(1, 2, 3), dtype))
    y[1] <- 0.1
    class(y) <- "gpu_array"
    once <- as.vector(y + 0)[1]
    expect_identical(.subset2(y, 1), once)
    expect_false(.subset2(y, 1) == 0.1)
    expect_identical(touch(`dim<-`(y, c(3, 1))), once + 5)
  }
  y <- unclass(gpu(c(1i, 2), "complex64"))
  y[1] <- 0.1i
  .Call(verdigris:::C_bare, y)
  expect_false(.subset2(y, 1) == 0.1i)
  y <- unclass(gpu(1:3, "int8"))
  y[1] <- 300L
  suppressWarnings(.Call(verdigris:::C_bare, y))
  expect_identical(.subset2(y, 1), NA_integer_)
  y <- unclass(gpu(c(TRUE, FALSE)))
  y[2] <- NA
  .Call(verdigris:::C_bare, y)
  expect_identical(y[1:2], c(TRUE, NA))
})

test_that("rule 13: remainders are the running R's, with its warnings", {
  set.seed(13)
  n <- 5000
  a <- round(rnorm(n), 3) * 10^sample(-20:20, n, TRUE)
  b <- round(rnorm(n), 3) * 10^sample(-20:20, n, TRUE)
  a[1:1000] <- trunc(a[1:1000])
  b[1:500] <- trunc(b[1:500])
  small <- which(abs(a / b) <= 2^63 | b == 0) # beyond, base R's remainder is arbitrary
  edges <- expand.grid(a = edges$double, b = edges$double)
  edges <- edges[which(!(abs(edges$a / edges$b) > 2^63 & is.finite(edges$a / edges$b))), ]
  whole <- expand.grid(a = c(NA, 0L, 7L, -7L, .Machine$integer.max), b = c(NA, 0L, 2L, -3L, -.Machine$integer.max))
  for (f in list(`%%`, `%/%`)) {
    expect_null(compare(f, list(a[small], b[small]), what = "random"))
    expect_null(compare(f, list(edges$a, edges$b), what = "edges"))
    expect_null(compare(f, list(whole$a, whole$b), what = "integers"))
    expect_null(compare(f, list(whole$a, list(2.5)), what = "integer and double"))
    expect_null(compare(f, list(1i, 2), what = "complex"))
  }
  # the warning, for one quotient at a time
  for (q in c(2^52, 2^53 + 2, 2^60, 2^63, 2^63 * 1.5, 2^70))
    expect_identical(outcome(gpu(q) %% 1)$warnings, outcome(q %% 1)$warnings)
})

test_that("rule 13: products are found as the running R looks for them", {
  m <- matrix(c(1, 2, 3, 4), 2)
  x <- gpu(m)
  plain <- structure(m, class = c("other", "matrix", "array"))
  for (p in list(x %*% m, m %*% x, x %*% x, x %*% c(1, 2), c(1, 2) %*% x)) expect_true(is_gpu(p))
  expect_identical(collect(m %*% x), m %*% m)
  expect_identical(as.matrix(unclass(plain) %*% x), m %*% m)
  for (p in list(plain %*% x, x %*% plain)) expect_identical(matrix(as.vector(p), 2), m %*% m)
  expect_false(isS4(x))
  for (f in list(crossprod, tcrossprod)) expect_identical(as.matrix(f(x, m)), f(m, m))
})

test_that("methods that others find are those of the namespace", {
  space <- asNamespace("verdigris")
  registered <- get(".__S3MethodsTable__.", baseenv())
  for (name in grep("\\.gpu_array$", names(registered), value = TRUE)) {
    if (!is.null(space[[name]])) expect_identical(registered[[name]], space[[name]], label = name)
  }
  outside <- new.env(parent = globalenv())
  expect_identical(eval(quote(collect(round(x, 1))), list(x = gpu(1.26), collect = collect), outside), 1.3)
  expect_equal(eval(quote(collect(log(x, 2))), list(x = gpu(8), collect = collect), outside), 3)
})

test_that("gctorture finds nothing unprotected", {
  skip_on_cran()
  # in a small R, where a collection is quick; VERDIGRIS_GCTORTURE does the same to whole files (docs/testing.md)
  out <- in_new_r(
    "x <- as_gpu(c(a = 1, b = 2, c = 3), dtype = 'float32', device = 'cpu')",
    "nothing <- gctorture2(1)",
    "m <- as_gpu(matrix(1:4, 2), device = 'cpu')", "dim(m) <- 4", "y <- unclass(x)", "y[2] <- 5",
    "s <- collect(x * c(1, 2, 3) + 1)", "z <- unserialize(serialize(x, NULL))", "p <- collect(x[2:3])", "x[1] <- 7",
    "w <- tryCatch(.Call(verdigris:::C_test_condition, 'warning', 'text'), warning = conditionMessage)",
    "nothing <- gctorture2(0)",
    "cat(as.vector(x), as.vector(m), as.vector(y), s, as.vector(z), p, w, names(s))")
  expect_identical(out[length(out)], "7 2 3 1 2 3 4 1 5 3 2 5 10 1 2 3 2 3 text a b c")
})
