# Distributions: goodness of fit, base R's limits, warnings and types, and the same numbers on every device.

# Draws on the cpu device, which has the numbers of every device: the last test compares.
drawn <- function(f, n, ..., seed = 1L) {
  set.seed(seed)
  as.vector(f(n, ..., device = "cpu"))
}

# Kolmogorov and Smirnov's p of draws from a continuous distribution.
fits <- function(f, p, ..., n = 40000L) {
  x <- drawn(f, n, ...)
  suppressWarnings(ks.test(x, p, ...)$p.value)
}

# Pearson's p of counts, in cells of 20 expected or more.
fits_counts <- function(f, d, ..., n = 40000L) {
  x <- drawn(f, n, ...)
  expect_type(x, "integer")
  values <- seq(min(x), max(x))
  expected <- d(values, ...) * n
  # what is beyond the values seen belongs to the ends
  cell <- cumsum(expected) %/% 20
  observed <- tapply(tabulate(x - min(x) + 1L, length(values)), cell, sum)
  expected <- tapply(expected, cell, sum)
  last <- length(expected)
  expected[last] <- expected[last] + max(n - sum(expected), 0)
  if (last < 2L) return(as.numeric(abs(observed[1L] - n) < 1e-9 * n))
  pchisq(sum((observed - expected)^2 / expected), last - 1L, lower.tail = FALSE)
}

test_that("continuous distributions fit, for small and large shapes", {
  skip_if(emulated, "the numbers are the cpu device's")
  for (shape in c(0.05, 0.5, 1, 1.3, 2, 20, 1e4, 1e9)) {
    expect_gt(fits(gpu_rgamma, pgamma, shape, 3), 1e-3, label = paste("gamma", shape))
    expect_gt(fits(gpu_rchisq, pchisq, shape), 1e-3, label = paste("chisq", shape))
    expect_gt(fits(gpu_rt, pt, shape), 1e-3, label = paste("t", shape))
  }
  for (shapes in list(c(0.1, 0.2), c(0.5, 0.5), c(1, 1), c(0.3, 20), c(2, 3), c(300, 100), c(1e6, 1e6))) {
    expect_gt(fits(gpu_rbeta, pbeta, shapes[1L], shapes[2L]), 1e-3, label = paste("beta", shapes[1L], shapes[2L]))
  }
  for (p in list(c(-1, 0.1), c(0, 1), c(2, 3))) expect_gt(fits(gpu_rlnorm, plnorm, p[1L], p[2L]), 1e-3, label = "lnorm")
  for (p in list(c(0.2, 1), c(1, 2), c(7, 0.5)))
    expect_gt(fits(gpu_rweibull, pweibull, p[1L], p[2L]), 1e-3, label = "weibull")
  for (p in list(c(0, 1), c(-3, 10))) {
    expect_gt(fits(gpu_rcauchy, pcauchy, p[1L], p[2L]), 1e-3, label = "cauchy")
    expect_gt(fits(gpu_rlogis, plogis, p[1L], p[2L]), 1e-3, label = "logis")
  }
  expect_gt(fits(gpu_rchisq, pchisq, 3, 2), 1e-3)
  expect_gt(fits(gpu_rt, pt, 5, 1), 1e-3)
  expect_gt(fits(gpu_rbeta, pbeta, 2, 3, 1), 1e-3)
})

test_that("counts fit, below and above the change of algorithm", {
  skip_if(emulated, "the numbers are the cpu device's")
  for (mean in c(0.01, 0.5, 3, 9.99, 10, 15, 100, 5e3)) {
    expect_gt(fits_counts(gpu_rpois, dpois, mean), 1e-3, label = paste("pois", mean))
  }
  for (p in list(c(1, 0.3), c(5, 0.9), c(20, 0.49), c(20, 0.5), c(1000, 0.009), c(1000, 0.01), c(1000, 0.995),
    c(100, 0.37), c(1e6, 0.2), c(2e9, 3e-8))) {
    expect_gt(fits_counts(gpu_rbinom, dbinom, p[1L], p[2L]), 1e-3, label = paste("binom", p[1L], p[2L]))
  }
  for (p in c(0.95, 0.3, 0.02)) expect_gt(fits_counts(gpu_rgeom, dgeom, p), 1e-3, label = paste("geom", p))
  for (p in list(c(0.5, 0.3), c(3, 0.1), c(200, 0.5))) {
    expect_gt(fits_counts(gpu_rnbinom, dnbinom, p[1L], p[2L]), 1e-3, label = paste("nbinom", p[1L], p[2L]))
  }
  for (p in list(c(5, 8, 4), c(100, 300, 50), c(300, 100, 350), c(1000, 20, 15), c(3000, 5000, 2000), c(20, 20, 11))) {
    expect_gt(fits_counts(gpu_rhyper, dhyper, p[1L], p[2L], p[3L]), 1e-3, label = paste("hyper", p[1L], p[2L], p[3L]))
  }
  for (n in c(1, 5, 20, 65)) expect_gt(fits_counts(gpu_rsignrank, dsignrank, n), 1e-3, label = paste("signrank", n))
  for (p in list(c(1, 4), c(6, 4), c(20, 30)))
    expect_gt(fits_counts(gpu_rwilcox, dwilcox, p[1L], p[2L]), 1e-3, label = paste("wilcox", p[1L], p[2L]))
  expect_gt(fits_counts(function(n, size, m, ...) gpu_rnbinom(n, size, mu = m, ...), function(x, size, m)
    dnbinom(x, size, mu = m), 2, 7), 1e-3)
  # beyond the tables: the standardised count is nearly normal
  for (z in list((drawn(gpu_rpois, 4e4, 1e12) - 1e12) / 1e6, (drawn(gpu_rbinom, 4e4, 4e12, 0.5) - 2e12) / 1e6)) {
    expect_gt(suppressWarnings(ks.test(z, "pnorm"))$p.value, 1e-3)
  }
})

test_that("tails are there", {
  skip_if(emulated, "the numbers are the cpu device's")
  n <- 1e6
  tails <- function(x, p, at) {
    for (q in at) {
      upper <- q > 0.5
      limit <- p(q)
      seen <- if (upper) sum(x > limit) else sum(x < limit)
      expected <- n * min(q, 1 - q)
      expect_lt(abs(seen - expected), 5 * sqrt(expected), label = paste("beyond", format(limit)))
    }
  }
  at <- c(1e-4, 1e-3, 1 - 1e-3, 1 - 1e-4)
  tails(drawn(gpu_rgamma, n, 0.7), function(q) qgamma(q, 0.7), at)
  tails(drawn(gpu_rgamma, n, 1), qexp, at)
  tails(drawn(gpu_rgamma, n, 40), function(q) qgamma(q, 40), at)
  tails(drawn(gpu_rcauchy, n), qcauchy, at)
  tails(drawn(gpu_rt, n, 3), function(q) qt(q, 3), at)
  tails(drawn(gpu_rexp, n), qexp, at)
  # counts are on one side of a limit by their probability
  beyond <- function(x, k, expected) expect_lt(abs(sum(x > k) - n * expected), 5 * sqrt(n * expected))
  beyond(drawn(gpu_rpois, n, 100), 137, ppois(137, 100, lower.tail = FALSE))
  beyond(drawn(gpu_rpois, n, 5), 16, ppois(16, 5, lower.tail = FALSE))
  beyond(drawn(gpu_rbinom, n, 100, 0.3), 46, pbinom(46, 100, 0.3, lower.tail = FALSE))
  beyond(drawn(gpu_rbinom, n, 50, 0.1), 14, pbinom(14, 50, 0.1, lower.tail = FALSE))
})

test_that("calls of one distribution are independent of each other", {
  skip_if(emulated, "the numbers are the cpu device's")
  n <- 20000L
  set.seed(1)
  one <- list(gpu_rgamma(n, 2, device = "cpu"), gpu_rgamma(n, 2, device = "cpu"), gpu_rpois(n, 20, device = "cpu"),
              gpu_rpois(n, 20, device = "cpu"), gpu_rbinom(n, 90, 0.4, device = "cpu"),
                gpu_rbeta(n, 1, 2, device = "cpu"))
  r <- cor(vapply(one, as.numeric, numeric(n)))
  expect_lt(max(abs(r[upper.tri(r)])), 4 / sqrt(n))
  # neighbours too
  for (x in one) expect_lt(abs(cor(as.numeric(x)[-1L], as.numeric(x)[-n])), 4 / sqrt(n))
})

# What kind of value each draw is: limits of base R are point masses, infinities or NaN.
kind_of_draw <- function(x) ifelse(is.na(x), "NA", ifelse(is.infinite(x), format(x), "finite"))

test_that("limits, missing and impossible parameters are base R's", {
  pairs <- list(
    list(gpu_rgamma, function(n, a, b, ...) rgamma(n, a, scale = b), "scale"), list(gpu_rbeta, rbeta),
      list(gpu_rlnorm, rlnorm),
    list(gpu_rweibull, rweibull), list(gpu_rcauchy, rcauchy), list(gpu_rlogis, rlogis), list(gpu_rnorm, rnorm),
      list(gpu_runif, runif),
    list(gpu_rchisq, function(n, a, b) rchisq(n, a, b)), list(gpu_rbinom, rbinom), list(gpu_rnbinom, rnbinom),
      list(gpu_rnbinom, function(n, a, b) rnbinom(n, a, mu = b), "mu")
  )
  edges <- c(0, 1, 2, 0.5, -1, 2.5, Inf, -Inf, NA, NaN)
  grid <- expand.grid(a = edges, b = edges)
  found <- character() # of thousands of comparisons
  for (pair in pairs) {
    for (k in seq_len(nrow(grid))) {
      a <- grid$a[k]
      b <- grid$b[k]
      args <- list(2L, a, b)
      if (length(pair) == 3L) names(args) <- c("", "", pair[[3L]])
      want <- outcome({ set.seed(1); kind_of_draw(pair[[2L]](2L, a, b)) })
      got <- outcome({ set.seed(1); kind_of_draw(collect(do.call(pair[[1L]], c(args, device = test_device)))) })
      if (!identical(got[c("value", "warnings")], want[c("value", "warnings")]))
        found <- c(found, paste(deparse(pair[[2L]])[1L], a, b))
    }
  }
  for (pair in list(list(gpu_rexp, rexp), list(gpu_rchisq, rchisq), list(gpu_rt, rt), list(gpu_rpois, rpois),
    list(gpu_rgeom, rgeom))) {
    for (a in edges) {
      want <- outcome({ set.seed(1); kind_of_draw(pair[[2L]](2L, a)) })
      got <- outcome({ set.seed(1); kind_of_draw(collect(pair[[1L]](2L, a, device = test_device))) })
      if (!identical(got[c("value", "warnings")], want[c("value", "warnings")]))
        found <- c(found, paste(deparse(pair[[2L]])[1L], a))
    }
  }
  expect_identical(found, character())
})

test_that("point masses are base R's", {
  at <- function(f, ...) collect(f(3L, ..., device = test_device))
  expect_identical(at(gpu_rgamma, 0), numeric(3))
  expect_identical(at(gpu_rgamma, 2, scale = 0), numeric(3))
  expect_identical(at(gpu_rbeta, 0, 2), numeric(3))
  expect_identical(at(gpu_rbeta, Inf, Inf), rep(0.5, 3))
  expect_identical(at(gpu_rbeta, 2, 0), rep(1, 3))
  expect_true(all(at(gpu_rbeta, 0, 0) %in% 0:1))
  expect_identical(at(gpu_rweibull, 2, 0), numeric(3))
  expect_identical(at(gpu_rcauchy, 5, 0), rep(5, 3))
  expect_identical(at(gpu_rnorm, c(1, Inf, 3), as_gpu(0, device = test_device)), c(1, Inf, 3))
  expect_identical(at(gpu_rexp, Inf), numeric(3))
  expect_identical(at(gpu_rbinom, 7, c(0, 1, 1)), c(0L, 7L, 7L))
  expect_identical(at(gpu_rpois, 0), integer(3))
  expect_identical(at(gpu_rgeom, 1), integer(3))
  expect_identical(at(gpu_rnbinom, 5, 1), integer(3))
})

test_that("parameters are recycled, and the warning names the call", {
  p <- c(0.5, 2, 30)
  whole <- drawn(gpu_rgamma, 300L, p, c(1, 10))
  expect_identical(drawn(gpu_rgamma, 300L, as_gpu(p, device = "cpu"), as_gpu(c(1L, 10L), device = "cpu")), whole)
  # an element depends on its place and parameters alone
  expect_identical(drawn(gpu_rgamma, 300L, 2, 10)[1:50 * 6 - 4], whole[1:50 * 6 - 4])
  expect_length(drawn(gpu_rpois, 2L, 1:10), 2L)
  expect_length(drawn(gpu_rpois, 0L, 1:10), 0L)
  expect_warning(out <- drawn(gpu_rgamma, 3L, numeric()), "NAs produced")
  expect_identical(out, rep(NA_real_, 3L))
  expect_error(gpu_rgamma(3, "a", device = "cpu"), class = "verdigris_error_argument")
  expect_error(gpu_rgamma(-3, 1, device = "cpu"), class = "verdigris_error_argument")
  w <- tryCatch(collect(gpu_rpois(3, -1, device = "cpu")), warning = identity)
  expect_identical(conditionMessage(w), "NAs produced")
  expect_identical(conditionCall(w)[[1L]], quote(gpu_rpois))
})

test_that("arguments are base R's", {
  for (pair in list(list(gpu_rgamma, rgamma), list(gpu_rbeta, rbeta), list(gpu_rt, rt), list(gpu_rchisq, rchisq),
    list(gpu_rbinom, rbinom),
                    list(gpu_rpois, rpois), list(gpu_rlnorm, rlnorm), list(gpu_rweibull, rweibull),
                      list(gpu_rcauchy, rcauchy),
                    list(gpu_rlogis, rlogis), list(gpu_rgeom, rgeom), list(gpu_rnbinom, rnbinom), list(gpu_rexp, rexp),
                      list(gpu_rnorm, rnorm), list(gpu_runif, runif))) {
    ours <- formals(pair[[1L]])
    base <- formals(pair[[2L]])
    expect_identical(names(ours), c(names(base), "dtype", "device"))
    expect_identical(lapply(ours[names(base)], deparse), lapply(base, deparse))
  }
  expect_error(gpu_rgamma(2, 1, rate = 2, scale = 3), "specify 'rate' or 'scale' but not both")
  expect_warning(gpu_rgamma(2, 1, rate = 2, scale = 0.5, device = "cpu"), "specify 'rate' or 'scale' but not both")
  expect_error(gpu_rnbinom(2, 1, 0.5, 3), "'prob' and 'mu' both specified")
})

test_that("types are base R's, and the dtype is as asked", {
  dtype <- function(x) gpu_dtype(x)
  expect_identical(dtype(gpu_rpois(2, 1e9, device = "cpu")), "int32")
  expect_identical(dtype(gpu_rpois(2, 3e9, device = "cpu")), "float64")
  expect_identical(dtype(gpu_rbinom(2, 3e9, 0.5, device = "cpu")), "float64")
  expect_identical(dtype(gpu_rbinom(2, as_gpu(c(5, 3e9), device = "cpu"), 0.5)), "float64")
  expect_identical(dtype(gpu_rgeom(2, 1e-3, device = "cpu")), "int32")
  expect_identical(dtype(gpu_rgeom(2, 1e-12, device = "cpu")), "float64")
  expect_identical(dtype(gpu_rnbinom(2, 3, 1e-12, device = "cpu")), "float64")
  for (d in c("float64", "float32", "float16", "bfloat16")) {
    for (f in list(function(...) gpu_rgamma(9, 2, ...), function(...) gpu_rlnorm(9, ...),
      function(...) gpu_rchisq(9, 2, 1, ...))) {
      expect_identical(dtype(f(dtype = d, device = "cpu")), d)
    }
    expect_identical(dtype(gpu_rpois(9, 2, dtype = d, device = "cpu")), d)
  }
  # narrower than float64 is rounded from it
  expect_identical(drawn(gpu_rgamma, 99L, 2, dtype = "float32"),
    drawn(function(...) gpu_cast(gpu_rgamma(...), "float32"), 99L, 2))
})

test_that("draws are made where they are used", {
  used <- function() unclass(gpu_memory(test_device))[["live"]]
  set.seed(1)
  # more than the cpu device stores at their first use
  x <- gpu_rgamma(2e5, 2, device = test_device)
  before <- alive()[["device"]]
  expect_lt(abs(mean(x > 2) - pgamma(2, 2, lower.tail = FALSE)), 5 * 0.5 / sqrt(2e5))
  # the draws themselves are nowhere
  expect_lt(used() - before, 8 * 2e5)
  gpu_compute(x)
  # a few bytes of an earlier test may have gone meanwhile
  expect_gt(used() - before, 7 * 2e5)
})

test_that("an element is the same however it is reached", {
  set.seed(1)
  x <- gpu_rgamma(500, c(0.5, 2, 9), device = test_device)
  set.seed(1)
  all <- collect(gpu_rgamma(500, c(0.5, 2, 9), device = test_device))
  expect_identical(collect(x[c(400, 3, 500)]), all[c(400, 3, 500)])
  expect_identical(collect((x * 2)[101:105]), all[101:105] * 2)
  expect_identical(collect(head(x, 3)), all[1:3])
  expect_identical(collect(x[x > 1]), all[all > 1])
  expect_identical(collect(x + rep(0, 1000)), c(all, all))
  expect_identical(collect(t(matrix(x, 20))), t(matrix(all, 20)))
  set.seed(1)
  at <- gpu_sample_int(100, 60, TRUE, device = test_device)
  expect_identical(collect(t(matrix(at, 20))), t(matrix(collect(at), 20)))
  # of one array two uses are the same draws
  expect_identical(collect(x - x), numeric(500))
})

test_that("an element is the same beside others of its kind and beside others", {
  # the cpu device draws most elements of a block side by side, and the rest one by one
  beside <- function(f, own, other, n = 700L) {
    among <- seq_len(n) %% 2L == 0L
    parameters <- Map(function(a, b) ifelse(among, a, b), own, other)
    alone <- do.call(drawn, c(list(f, n), own))
    mixed <- do.call(drawn, c(list(f, n), parameters))
    few <- do.call(drawn, c(list(f, n), Map(function(a, b) ifelse(seq_len(n) %% 100L == 0L, b, a), own, other)))
    expect_identical(mixed[among], alone[among])
    expect_identical(few[seq_len(n) %% 100L != 0L], alone[seq_len(n) %% 100L != 0L])
  }
  for (mean in c(0.01, 3, 9.9, 10, 12, 100, 1e6)) beside(gpu_rpois, list(mean), list(if (mean < 10) 50 else 2))
  for (p in c(0.001, 0.3, 0.5, 0.8, 0.999)) for (size in c(1, 7, 40, 1000)) {
    expected <- size * min(p, 1 - p)
    beside(gpu_rbinom, list(size, p), if (expected < 10) list(500, 0.4) else list(5, 0.4))
  }
})

test_that("the numbers are the same on every device", {
  skip_if(test_device == "cpu", "there is one device")
  n <- 1003L
  cases <- list(
    function(...) gpu_rnorm(n, c(1, 2, 3), c(1, -1), ...), function(...)
      gpu_rgamma(n, c(0.1, 0.7, 1, 3, 50, 1e6), c(1, 2), ...),
    function(...) gpu_rbeta(n, c(0.01, 2, 30), c(0.5, 3), ...), function(...)
      gpu_rt(n, c(0.1, 3, Inf), ...), function(...) gpu_rchisq(n, c(0.1, 3, 100), ...),
    function(...) gpu_rchisq(n, 3, c(0.1, 3), ...), function(...) gpu_rlnorm(n, 0, c(1, 3), ...), function(...)
      gpu_rweibull(n, c(0.1, 2), 3, ...),
    function(...) gpu_rcauchy(n, 1, 2, ...), function(...) gpu_rlogis(n, 1, 2, ...), function(...)
      gpu_rpois(n, c(0.1, 5, 12, 1e3, 1e8, -1), ...),
    function(...) gpu_rbinom(n, c(1, 10, 100, 1e6), c(0.1, 0.5, 0.99), ...), function(...)
      gpu_rgeom(n, c(0.01, 0.5), ...),
    function(...) gpu_rnbinom(n, c(0.1, 3, 100), c(0.1, 0.9), ...), function(...)
      gpu_rnbinom(n, c(0.1, 3), mu = c(1, 40), ...), function(...) gpu_rexp(n, ...),
    function(...) gpu_runif(n, -1, 3, ...), function(...) gpu_rnorm(n, ...)
  )
  for (f in cases) {
    for (dtype in list(NULL, "float32", "float16")) {
      on <- lapply(c("cpu", test_device), function(device) {
        set.seed(7)
        suppressWarnings(collect(f(dtype = dtype, device = device)))
      })
      expect_identical(on[[2L]], on[[1L]], label = paste(deparse(body(f)), dtype))
    }
  }
})

test_that("multivariate normals have their means and covariances", {
  skip_if(emulated, "the numbers are the cpu device's")
  sigma <- matrix(c(2, 1, 0, 1, 3, -1, 0, -1, 1), 3, dimnames = list(NULL, c("a", "b", "c")))
  set.seed(1)
  x <- gpu_rmvnorm(50000, c(0, 10, -5), sigma, device = "cpu")
  expect_identical(dim(x), c(50000L, 3L))
  expect_identical(colnames(x), c("a", "b", "c"))
  m <- as.matrix(collect(x))
  expect_lt(max(abs(colMeans(m) - c(0, 10, -5))), 5 * sqrt(3 / 50000))
  expect_lt(max(abs(cov(m) - unname(sigma))), 5 * 3 * sqrt(2 / 50000))
  # of less than full rank
  x <- collect(gpu_rmvnorm(100, sigma = tcrossprod(1:3), device = "cpu"))
  expect_equal(x[, 2L], 2 * x[, 1L])
  expect_error(gpu_rmvnorm(2, sigma = diag(c(1, -1)), device = "cpu"), class = "verdigris_error_argument")
  expect_error(gpu_rmvnorm(2, sigma = matrix(1:4, 2), device = "cpu"), class = "verdigris_error_argument")
  expect_error(gpu_rmvnorm(2, 1:3, diag(2), device = "cpu"), class = "verdigris_error_argument")
})

test_that("hypergeometric and rank draws have base R's limits", {
  m <- c(5, -1, NA, 5, 0)
  n <- c(3, 3, 3, 0, 5)
  k <- c(9, 2, 2, 3, 3)
  want <- suppressWarnings(rhyper(5, m, n, k))
  got <- suppressWarnings(collect(gpu_rhyper(5, m, n, k, device = "cpu")))
  expect_identical(got, want)
  expect_warning(gpu_compute(gpu_rhyper(1, 5, 3, 9, device = "cpu")), "NAs produced")
  got <- suppressWarnings(collect(gpu_rsignrank(3, c(0, -1, NA), device = "cpu")))
  expect_identical(got, suppressWarnings(rsignrank(3, c(0, -1, NA))))
  got <- suppressWarnings(collect(gpu_rwilcox(4, c(0, -1, NA, 3), c(3, 2, 2, 0), device = "cpu")))
  expect_identical(got, suppressWarnings(rwilcox(4, c(0, -1, NA, 3), c(3, 2, 2, 0))))
})

test_that("compiled functions draw ranks", {
  set.seed(6)
  i <- as_gpu(seq_len(20000), device = "cpu")
  for (drawn in list(list(function(i) rsignrank(1, 4), dsignrank(0:10, 4)), list(function(i) rwilcox(1, 3, 3),
    dwilcox(0:9, 3, 3)))) {
    x <- collect(gpu_map(drawn[[1L]], i))
    expect_gt(suppressWarnings(chisq.test(tabulate(x + 1, length(drawn[[2L]])), p = drawn[[2L]]))$p.value, 1e-4)
  }
})

test_that("draws that would take too long are refused", {
  for (f in list(function() gpu_rwilcox(1, 1e9, 5, dtype = "float64", device = "cpu"),
    function() gpu_rsignrank(1, 1e15, dtype = "float64", device = "cpu"),
    function() gpu_rhyper(1, 1e12, 1e12, 1e6, dtype = "float64", device = "cpu")))
    expect_warning(expect_identical(collect(f()), NaN), "NAs produced")
})

test_that("multinomial draws are base R's in shape and law", {
  set.seed(4)
  prob <- c(a = 1, b = 0, c = 3, d = 2)
  x <- collect(gpu_rmultinom(20000, 12, prob, device = "cpu"))
  expect_identical(dim(x), c(4L, 20000L))
  expect_identical(dimnames(x), dimnames(rmultinom(2, 12, prob)))
  expect_type(x, "integer")
  expect_true(all(colSums(x) == 12L))
  expect_true(all(x["b", ] == 0L))
  share <- prob / sum(prob)
  expect_lt(max(abs(rowMeans(x) - 12 * share)), 5 * sqrt(12 / 4 / 20000))
  expect_equal(cov(t(x))[c(1, 3, 4), c(1, 3, 4)], (12 * (diag(share) - tcrossprod(share)))[c(1, 3, 4), c(1, 3, 4)],
    tolerance = 0.05, ignore_attr = TRUE)
  sizes <- c(0, 5, 100)
  expect_identical(colSums(collect(gpu_rmultinom(3, sizes, c(1, 1), device = "cpu"))), sizes)
  expect_identical(dim(gpu_rmultinom(0, 3, c(1, 1), device = "cpu")), c(2L, 0L))
  expect_error(gpu_rmultinom(1, 3, c(1, -1)), class = "verdigris_error_argument")
})

test_that("Wishart draws have their mean and variance", {
  set.seed(5)
  sigma <- matrix(c(2, 1, 0.5, 1, 3, -0.4, 0.5, -0.4, 1), 3L)
  w <- gpu_rwishart(20000, 5, sigma, device = "cpu")
  expect_identical(dim(w), c(3L, 3L, 20000L))
  w <- collect(w)
  expect_identical(w, aperm(w, c(2L, 1L, 3L)))
  expect_equal(apply(w, 1:2, mean), 5 * sigma, tolerance = 0.03)
  expect_equal(apply(w, 1:2, var), 5 * (sigma^2 + tcrossprod(diag(sigma))), tolerance = 0.06)
  expect_true(all(apply(w[, , 1:50], 3L, det) > 0))
  expect_identical(dim(gpu_rwishart(0, 5, sigma, device = "cpu")), c(3L, 3L, 0L))
  expect_error(gpu_rwishart(1, 2, sigma), class = "verdigris_error_argument")
  expect_error(gpu_rwishart(1, 5, -sigma), class = "verdigris_error_argument")
})
