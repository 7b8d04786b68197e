test_condition <- function(what, text) .Call(verdigris:::C_test_condition, what, text)
odd <- "100% {of} %s %n \\ \"it\" \u00e9"

test_that("errors have classes, and their text is taken literally", {
  e <- tryCatch(test_condition("error", odd), error = identity)
  expect_s3_class(e, c("verdigris_error_shape", "verdigris_error", "rlang_error", "error", "condition"), exact = TRUE)
  expect_match(conditionMessage(e), odd, fixed = TRUE)
  expect_identical(e$detail, odd)
  expect_identical(e$kind, "shape")
})

test_that("a panic is an error, and the next call works", {
  e <- tryCatch(test_condition("panic", odd), error = identity)
  expect_s3_class(e, "verdigris_error_panic")
  expect_match(conditionMessage(e), odd, fixed = TRUE)
  expect_match(e$detail, "entries/session.rs", fixed = TRUE)
  expect_identical(as.vector(gpu(1)), 1)
})

test_that("warnings are base R's, with the call that recorded the operation", {
  w <- tryCatch(test_condition("warning", odd), warning = identity)
  expect_s3_class(w, c("simpleWarning", "warning", "condition"), exact = TRUE)
  expect_identical(conditionMessage(w), odd)
  expect_warning(expect_true(test_condition("warning", "one")), "one")
  # the class comes with a warning, whatever its words are
  w <- tryCatch(test_condition("warning", "integer precision lost while converting to double"), warning = identity)
  expect_s3_class(w, c("simpleWarning", "warning", "condition"), exact = TRUE)
  w <- tryCatch(as_gpu(3e9, dtype = "int32", device = test_device), warning = identity)
  expect_identical(conditionMessage(w), "NAs introduced by coercion to integer range")
  expect_identical(conditionCall(w)[[1]], quote(as_gpu))
  expect_s3_class(w, c("simpleWarning", "warning", "condition"), exact = TRUE)
})

test_that("a warning of a recorded operation comes when it is computed, once", {
  x <- sqrt(gpu(c(-1, 4)))
  expect_warning(v <- as.vector(x), "NaNs produced")
  expect_identical(v, c(NaN, 2))
  expect_no_warning(as.vector(x))
  x <- sqrt(gpu(c(-1, 4)))
  expect_warning(base::order(x), "NaNs produced")
})

test_that("a warning that is an error leaves the array usable", {
  x <- sqrt(gpu(c(-1, 4)))
  withr::local_options(warn = 2)
  expect_error(base::order(x), "NaNs produced")
  expect_error(as.vector(sqrt(gpu(-1))), "NaNs produced")
  withr::local_options(warn = 0)
  expect_identical(as.vector(x), c(NaN, 2))
})

test_that("wrong arguments are refused by name", {
  # the messages alone: how testthat shows a condition differs between its versions
  said <- function(expr) {
    e <- tryCatch(expr, verdigris_error = identity)
    cat(class(e)[1], "\n", conditionMessage(e), "\n\n", sep = "")
  }
  local_reproducible_output()
  expect_snapshot({
    said(as_gpu("a"))
    said(as_gpu(factor("a")))
    said(as_gpu(Sys.Date()))
    said(as_gpu(list(1)))
    said(as_gpu(NULL))
    said(as_gpu(1, dtype = "int33"))
    said(as_gpu(1, device = "tpu"))
    said(as_gpu(1, dtype = 1))
    said(gpu_dtype(1))
    said(gpu_zeros(-1))
    said(gpu_full(1:2, 3))
    said(gpu_seq(1))
  })
})

test_that("conditions show the call that was written, not methods and helpers", {
  x <- gpu(c(-1, 4))
  freed <- gpu(c(1, 2))
  gpu_free(freed)
  m <- gpu(matrix(1:4, 2))
  shows <- function(expr, call = NULL) {
    call <- if (is.null(call)) substitute(expr) else call
    said <- tryCatch(force(expr), error = identity, warning = identity)
    expect_identical(deparse1(conditionCall(said)), deparse1(call))
  }
  # warnings when values are computed
  shows(as.vector(sqrt(x)), quote(sqrt(x)))
  shows(as.vector(log(x)), quote(log(x)))
  shows(as.vector(log(x, 3)), quote(log(x, 3)))
  shows(as.vector(gamma(x - 4)), quote(gamma(x - 4)))
  shows(as.vector(pnorm(x, sd = -1)), quote(pnorm(x, sd = -1)))
  shows(as.vector(gpu(.Machine$integer.max) + 1L), quote(gpu(.Machine$integer.max) + 1L))
  # at once
  shows(x + 1:3)
  shows(m + gpu(matrix(1:6, 2)))
  shows(x + "a")
  shows(x * freed)
  shows(-freed)
  shows(sqrt(freed))
  shows(mean(freed))
  shows(freed[1])
  shows(collect(freed))
  shows(atan2(x, freed))
  shows(pnorm(freed))
  shows(t(freed))
  shows(x["a", 1])
  shows(m[3, 1])
  shows(m[3, ])
  shows(rowSums(x))
  shows(which(x))
  shows(besselI(x, "a"))
  shows(as_gpu("a"))
  shows(gpu_zeros(-1))
  shows(gpu(1:3) %*% gpu(1:2))
  shows(median(gpu("a")), quote(as_gpu(x, dtype = dtype, device = test_device)))
})

test_that("errors about complex numbers have base R's message and classes", {
  x <- gpu(c(1i, 2))
  for (call in expression(x > 1, max(x), min(x, 1), floor(x), x %% 2, cummax(x), cummin(x), pmin(x, 1), gamma(x))) {
    e <- expect_error(eval(call), class = "verdigris_error_dtype")
    wanted <- tryCatch(eval(call, list(x = c(1i, 2))), error = identity)
    expect_s3_class(e, "simpleError")
    expect_identical(conditionMessage(e), conditionMessage(wanted))
  }
  # an error that is not base R's
  expect_false(inherits(tryCatch(as_gpu("a"), error = identity), "simpleError"))
})

test_that("errors name the generic that was called", {
  x <- gpu(1:2)
  for (call in expression(rep(x, -1), rep(x, each = -1), rep(x, times = 1:3), rep(x, length.out = -1), rep_len(x, -1),
    rep.int(x, -1), sum(x, "a"), prod(x, "a"), max(x, list()), sum(x, list()), sum(x, quote(a)), min(x, gpu(1i)),
    array(x, c(1e9, 1e9)), matrix(x, 1e9, 1e9), tabulate(x + 1i), tabulate(x > 1L))) {
    e <- expect_error(eval(call))
    expect_identical(deparse1(conditionCall(e)[[1L]]), deparse1(call[[1L]]))
    if (!grepl("gpu", deparse1(call))) expect_identical(conditionMessage(e),
      conditionMessage(tryCatch(eval(call, list(x = 1:2)), error = identity)))
  }
})

test_that("data that model.frame() refuses as ordinary vectors are refused as arrays", {
  m <- matrix(1:6, 3, dimnames = list(NULL, c("a", "b")))
  f <- c(1, 2, 3)
  for (x in list(m, array(1:3, 3L), c(a = 1, b = 2))) for (call in expression(model.matrix(~., x), model.frame(~f, x),
    xtabs(~f, x), lm(f ~ 1, x), glm(f ~ 1, data = x))) {
    wanted <- tryCatch(eval(call, list(x = x, f = f)), error = identity)
    # xtabs() takes a matrix
    if (!inherits(wanted, "error")) next
    e <- expect_error(eval(call, list(x = gpu(x), f = f)), class = "simpleError")
    expect_identical(conditionMessage(e), conditionMessage(wanted))
    expect_identical(deparse1(conditionCall(e)), deparse1(conditionCall(wanted)))
  }
})

test_that("errors of replacement functions have the user's call, and base R's words", {
  called <- function(x, assign) {
    e <- tryCatch(assign(x), error = identity)
    list(conditionMessage(e), as.character(conditionCall(e)[[1L]]))
  }
  words <- function(x, assign) tryCatch(assign(x), error = conditionMessage)
  m <- matrix(1:4, 2L)
  for (case in list(
    list("names<-", 1:3, function(x) { names(x) <- letters; x }),
    list("dim<-", 1:3, function(x) { dim(x) <- 7L; x }),
    list("dimnames<-", m, function(x) { dimnames(x) <- list(1:3, NULL); x }),
    list("[<-", 1:3, function(x) { x[list(1)] <- 1L; x }),
    list("[<-", 1:3, function(x) { x["a", 1L] <- 1L; x })
  )) expect_identical(called(gpu(case[[2L]]), case[[3L]]), list(words(case[[2L]], case[[3L]]), case[[1L]]))
})

test_that("a condition's call holds no data", {
  x <- gpu_seq(-1, -1e6, device = test_device)
  before <- .Call(verdigris:::C_live)[3]
  w <- tryCatch(.Call(verdigris:::C_fetch, do.call(sqrt, list(x)), 0, 10), warning = identity)
  expect_identical(conditionCall(w), quote(sqrt(...)))
  freed <- gpu(c(1, 2))
  gpu_free(freed)
  e <- tryCatch(sum(freed), error = identity)
  expect_identical(conditionCall(e), quote(sum(...)))
  e <- tryCatch(do.call(`+`, list(x, "a")), error = identity)
  expect_lt(object.size(conditionCall(e)), 1e4)
  expect_match(conditionMessage(e), "non-numeric argument")
})

test_that("an array that was freed can be copied and shown, not read", {
  x <- gpu(c(a = 1, b = 2))
  gpu_free(x)
  y <- rlang::duplicate(x)
  expect_output(print(x), "[2], freed by gpu_free()", fixed = TRUE)
  expect_output(str(y), "freed by gpu_free()", fixed = TRUE)
  expect_identical(length(y), 2L)
  for (f in list(as.vector, collect, function(v) v + 1, sum, base::order, function(v) v[1], format)) {
    expect_error(f(y), class = "verdigris_error_consumed")
  }
})

test_that("warnings of cbind(), rbind() and operators have the call that was written", {
  z <- gpu(1:3)
  heard <- function(expr) deparse1(conditionCall(tryCatch(expr, warning = identity)))
  expect_identical(heard(cbind(z, 1:2)), "cbind(z, 1:2)")
  expect_identical(heard(rbind(z, b = 1:2)), "rbind(z, b = 1:2)")
  within <- function(x) cbind(x, 1:2)
  expect_identical(heard(within(z)), "cbind(x, 1:2)")
  # what R says of an array of one element that is recycled
  one <- gpu(array(1, 1))
  expect_identical(heard(z + one), "z + one")
  expect_identical(heard(one * z), "one * z")
})

test_that("an array that is kept as it is stays one, without a warning", {
  x <- gpu(matrix(c(1, 2, 3, 4), 2))
  expect_no_warning(kept <- I(x))
  expect_true(is_gpu(kept))
  expect_s3_class(kept, "AsIs")
  # as in base R, the class stays
  expect_identical(collect(kept + 1)[, 2], I(c(4, 5)))
  expect_no_warning(data.frame(a = I(gpu(1:3))))
  expect_identical(I(3), structure(3, class = "AsIs"))
})

test_that("an operation that several readers compute warns once, without a handler", {
  out <- in_child(quote({
    options(warn = 1, verdigris.host_access = "allow")
    x <- log(as_gpu(c(-1, 1, 2)))
    cat("value", sum(x), mean(x), max(x), collect(x), "\n")
    y <- as_gpu(c(.Machine$integer.max, 1L)) + 1L
    cat("value", sum(y, na.rm = TRUE), max(y, na.rm = TRUE), collect(y), "\n")
    # each operation warns, also of the same call
    for (k in 1:3) z <- c(z = sum(sqrt(as_gpu(c(-1, 4)))))
    # suppressed for one reader only
    u <- log(as_gpu(c(-3, 2)))
    cat("value", suppressWarnings(sum(u)), mean(u), max(u), "\n")
    # two operations that one reader computes
    collect(log(as_gpu(-1)) + sqrt(as_gpu(-4)))
  }))
  said <- grep("Warning|NAs produced|NaNs produced", out, value = TRUE)
  expect_length(grep("log(as_gpu(c(-1, 1, 2)))", said, fixed = TRUE), 1L)
  expect_length(grep("integer overflow", out, fixed = TRUE), 1L)
  expect_length(grep("sqrt(as_gpu(c(-1, 4)))", said, fixed = TRUE), 3L)
  expect_length(grep("log(as_gpu(c(-3, 2)))", said, fixed = TRUE), 1L)
  expect_length(grep("log(as_gpu(-1))", said, fixed = TRUE), 1L)
  expect_length(grep("sqrt(as_gpu(-4))", said, fixed = TRUE), 1L)
})
