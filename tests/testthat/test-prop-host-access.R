# Option verdigris.host_access: each read on the host is reported, under the name of what the user called.

# What is said while code runs: the functions that notices name, or the error's message.
said_of <- function(code, x, rule) {
  withr::local_options(verdigris.host_access = rule)
  withr::local_pdf(NULL)
  rm(list = ls(verdigris:::informed), envir = verdigris:::informed)
  said <- character()
  run <- function() suppressWarnings(eval(code, list(x = x), globalenv()))
  tryCatch(
    withCallingHandlers(run(), verdigris_host_access = function(m) {
      said <<- c(said, m$function_name)
      tryInvokeRestart("muffleMessage")
    }),
    verdigris_error_host_access = function(e) said <<- sub(" reads .*", "", conditionMessage(e)[[1L]])
  )
  said
}

# By the name that is said of them.
readers <- alist(
  lowess = lowess(x), smooth.spline = smooth.spline(x), poly = poly(x, 2),
  spline = spline(x), wilcox.test = wilcox.test(x),
  t.test = t.test(x), approx = approx(x, n = 5), ecdf = ecdf(x),
  cor.test = cor.test(x, rev(x)), lm = lm(x ~ 1), ccf = ccf(x, x, plot = FALSE), nextn = nextn(x),
  "base::order" = base::order(x), "stats::fft" = stats::fft(x), apply = apply(matrix(x, 2), 1, function(r) r[[1L]])
)

test_that("every read of a function that knows nothing of arrays is an error where reads are forbidden", {
  x <- gpu(c(3, 1, 2, 5, 4, 7, 6, 9, 8, 10))
  for (name in names(readers)) expect_identical(said_of(readers[[name]], x, "error"), name, info = name)
})

test_that("large reads are told of once a call, with the name of what the user called", {
  x <- gpu(seq_len(2^20) / 2^20)
  for (name in c("t.test", "approx", "lm", "base::order", "stats::fft"))
    expect_identical(said_of(readers[[name]], x, "inform"), name, info = name)
  mine <- function(v) approx(v, n = 5)
  environment(mine) <- globalenv() # a user's; tests see the package's own functions
  expect_identical(said_of(quote(t.test(x)), x, "allow"), character())
  expect_identical(said_of(bquote(.(mine)(x)), x, "inform"), "approx")
  expect_identical(said_of(quote(with(list(), approx(x, n = 5))), x, "inform"), "approx")
})

test_that("what is copied on purpose, and what runs on the device, is no read", {
  x <- gpu(c(3, 1, 2, 5, 4, 7, 6, 9, 8, 10))
  calls <- alist(as.vector(x), as.numeric(x), as.integer(x), collect(x), sapply(list(x), as.vector), lapply(list(x),
    as.numeric), do.call(as.vector, list(x)), as.matrix(x), as.data.frame(x), plot(x), hist(x, plot = FALSE),
    median(x), quantile(x), sort(x), order(x), summary(x), print(x), format(x[[1L]]), table(x > 2), var(x), cumsum(x),
    fivenum(x), mad(x), range(x), duplicated(x), anyDuplicated(x), rowsum(x, rep(1:2, 5)), serialize(x, NULL),
    solve(matrix(x, 3)[1:2, 1:2]), qr(matrix(x, 5)), svd(matrix(x, 5)), dput(x), deparse(x))
  capture.output(
    for (call in calls) expect_identical(said_of(call, x, "error"), character(), info = deparse1(call))
  )
})
