# Densities, distribution functions and quantiles: against tables of mpmath (tools/test/distribution-tables.py), and
# against base R on random cases, tails and edges.

FLAGS <- list(d = list(list(log = FALSE), list(log = TRUE)),
  p = list(list(), list(lower.tail = FALSE), list(log.p = TRUE), list(lower.tail = FALSE, log.p = TRUE)))
FLAGS$q <- FLAGS$p
# On a GPU each is a kernel that takes a second to compile: every other one, in turn with the distribution.
flags_of <- function(letter, name) {
  all <- FLAGS[[letter]]
  if (test_device == "cpu" || Sys.getenv("VERDIGRIS_EXAMPLES") == "all") return(all)
  all[(seq_along(all) + match(name, names(PARAMETERS))) %% 2L == 0L]
}

# What R calls a row's distribution
base_name <- function(name) sub("_(mu|ncp)$", "", name)
# Of numbers: the call's parameters by name, as far as the distribution has them.
called <- function(letter, name, x, parameters, flags) {
  do.call(paste0(letter, base_name(name)), c(list(x), parameters, flags))
}
PARAMETERS <- c(verdigris:::DISTRIBUTIONS, list(nbinom_mu = c("size", "mu"), chisq_ncp = c("df", "ncp"),
  t_ncp = c("df", "ncp"), beta_ncp = c("shape1", "shape2", "ncp"), f_ncp = c("df1", "df2", "ncp")))
COUNTS <- c("nbinom_mu", "nbinom", "binom", "pois", "geom", "hyper", "signrank", "wilcox")
letters_of <- function(name) if (name == "tukey") c("p", "q") else c("d", "p", "q")
named <- function(name, values) stats::setNames(values, PARAMETERS[[name]])

found_q <- function(name, rows, parameters, lower) {
  p <- gpu(if (lower) rows$log_lower else rows$log_upper)
  collect(called("q", name, p, parameters, list(lower.tail = lower, log.p = TRUE)))
}

test_that("values are those of mpmath", {
  table <- utils::read.csv("distributions.csv", colClasses = c(name = "character"))
  expect_gte(nrow(table), 690L)
  for (name in unique(table$name)) {
    rows <- table[table$name == name, ]
    parameters <- named(name, lapply(rows[c("a", "b", "c")][seq_along(PARAMETERS[[name]])], gpu))
    x <- gpu(rows$x)
    found <- function(letter, ...) collect(called(letter, name, x, parameters, list(...)))
    some <- function(ok) expect(all(ok), sprintf("%s: %d of %d, first case %s", name, sum(!ok), length(ok),
      deparse1(as.list(rows[which(!ok)[1L], ]))))
    exact <- function(column) exp(rows[[column]])
    # exp() of a large logarithm has its error many times: values are compared as such down to exp(-30)
    slack <- function(column) pmax(1e-13, 4 * 2^-52 * abs(rows[[column]]))
    close <- function(got, column) {
      l <- rows[[column]]
      abs(got - exact(column)) <= pmax(ifelse(l > log(1e-10), 1e-13, 1e-10), slack(column)) * exact(column)
    }
    if (name != "tukey") {
      some(close(found("d"), "log_density"))
      some(abs(found("d", log = TRUE) - rows$log_density) <= 1e-13 * pmax(1, abs(rows$log_density)))
    }
    some(close(found("p"), "log_lower"))
    some(close(found("p", lower.tail = FALSE), "log_upper"))
    # logarithms: near 0 as good as the probability beside 1, elsewhere in proportion
    log_close <- function(got, column) abs(got - rows[[column]]) <= 1e-13 * pmax(abs(rows[[column]]), 1e-8)
    some(log_close(found("p", log.p = TRUE), "log_lower"))
    some(log_close(found("p", lower.tail = FALSE, log.p = TRUE), "log_upper"))
    # quantiles: of the smaller tail's logarithm, as far as the distribution tells its neighbours apart
    lower <- rows$log_lower < rows$log_upper
    got <- ifelse(lower, found_q(name, rows, parameters, TRUE), found_q(name, rows, parameters, FALSE))
    if (name %in% COUNTS) {
      some(got == rows$x)
    } else if (name == "tukey") {
      some(abs(got - rows$x) <= 1e-11 * rows$x)
    } else {
      l <- pmin(rows$log_lower, rows$log_upper)
      # d log x = d log p * p / (x f)
      condition <- abs(l) * exp(l - rows$log_density - log(abs(rows$x)))
      some(abs(got - rows$x) <= pmax(1e-13, 8 * 2^-52 * (1 + condition)) * abs(rows$x))
    }
  }
})

# Parameters and x of random cases: scales from small to large, probabilities from the centre to tails.
random_case <- function(name, n) {
  size <- function(least, most) 10^stats::runif(n, least, most)
  switch(name,
    unif = { a <- stats::rnorm(n); list(a, a + size(-2, 2)) },
    exp = list(size(-2, 2)), chisq = , t = list(size(-1, 3)), pois = list(size(-2, 4)),
    geom = list(stats::runif(n)), gamma = , weibull = list(size(-1, 2), size(-2, 2)),
    beta = list(size(-1, 3), size(-1, 3)), f = list(size(-1, 3), size(-1, 3)),
    lnorm = , logis = , cauchy = list(stats::rnorm(n), size(-1, 1)),
    binom = list(round(size(0, 4)), stats::runif(n)), nbinom = list(size(-1, 3), stats::runif(n)),
    nbinom_mu = list(size(-1, 3), size(-1, 3)),
    hyper = { m <- round(size(0, 3)); k <- round(size(0, 3)); list(m, k, round(stats::runif(n) * (m + k))) },
    signrank = list(round(size(0, 1.7))), wilcox = list(round(size(0, 1.3)), round(size(0, 1.5))),
    tukey = list(sample(2:8, n, TRUE), size(0.7, 2), sample(1:2, n, TRUE)),
    chisq_ncp = list(size(-1, 2), size(-2, 2)), t_ncp = list(size(0, 2), stats::rnorm(n, 0, 3)),
    beta_ncp = , f_ncp = list(size(-0.5, 2), size(-0.5, 2), size(-2, 2)))
}
# Where base R's own error is larger than 1e-11: of probabilities (absolute, since it subtracts for the other tail), of
# densities and quantiles (relative). mpmath's values of the cases that differ most are the package's.
ROUGH <- list(
  # its sum of densities ends early; quantiles are searched to 1e-11
  chisq_ncp = c(d = 1e-7, p = 1e-12, q = 1e-9),
  # densities are differences of distribution functions, whose error is 1e-12; quantiles are searched to 1e-11, by those
  t_ncp = c(d = 1e-6, p = 1e-11, q = 1e-6),
  # its sum of the distribution function ends at 1e-9; quantiles are searched to 1e-6 by that
  beta_ncp = c(d = 1e-11, p = 1e-8, q = 1e-4),
  # the same, and by 1 - x where x is a beta's, of which densities have few digits next to 1
  f_ncp = c(d = 1e-6, p = 1e-8, q = 1e-4),
  # its rule of Gauss and Legendre has 16 nodes, so that for few degrees of freedom tails of 1e-4 have one digit
  tukey = c(d = 0, p = 1e-5, q = 0.1))
# Base R's quantiles of small tails have no digits.
NEAR_CENTRE <- c(names(ROUGH), "hyper", "signrank", "wilcox")
random_probability <- function(n) {
  u <- stats::runif(n)
  ifelse(seq_len(n) %% 4 == 0, 10^-stats::runif(n, 1, 30), ifelse(seq_len(n) %% 4 == 1, pmin(1 - u^4, 1 - 1e-10), u))
}
base_function <- function(letter, name) {
  f <- get(paste0(letter, base_name(name)), asNamespace("stats"))
  # R 4.6.2 takes the counts of one size for those of the next one of the same call
  if (name %in% c("signrank", "wilcox") && getRversion() >= "4.6.0") function(x, ..., lower.tail, log.p, log) {
    flags <- as.list(match.call())
    flags <- lapply(flags[intersect(names(flags), c("lower.tail", "log.p", "log"))], eval, parent.frame())
    unlist(.mapply(f, list(x, ...), flags))
  } else f
}

test_that("random cases agree with base R", {
  set.seed(31)
  n <- 400L
  found <- list()
  for (name in names(PARAMETERS)) {
    if (!is_next_ours()) next
    parameters <- named(name, random_case(name, n))
    arrays <- lapply(parameters, gpu)
    p <- random_probability(n)
    if (name %in% NEAR_CENTRE) p <- pmin(pmax(p, 1e-4), 1 - 1e-4)
    x <- suppressWarnings(do.call(base_function("q", name), c(list(p), parameters)))
    usable <- is.finite(x) & abs(x) < 1e100 & (abs(x) > 1e-100 | x == 0)
    if (name %in% COUNTS) x <- x + sample(0:1, n, TRUE) else
      x <- x * exp(stats::rnorm(n, 0, 0.1))
    for (letter in letters_of(name)) for (flags in flags_of(letter, name)) {
      at <- if (letter != "q") x else if (isTRUE(flags$log.p)) log(p) else p
      at[!usable] <- if (letter == "q") at[!usable] else 1
      want <- suppressWarnings(do.call(base_function(letter, name), c(list(at), parameters, flags)))
      got <- suppressWarnings(collect(called(letter, name, gpu(at), arrays, flags)))
      cases$n <- cases$n + n
      counts <- letter == "q" && name %in% COUNTS
      # base R's own error: of quantiles by search, of beta's in logarithms, of p next to a step
      limit <- if (letter == "q") 1e-9 else 1e-11
      ok <- got == want | abs(got - want) <= limit * abs(want) + 1e-300 | is.na(want) & is.na(got) |
        abs(want) < 1e-3 & abs(got - want) < 1e-14
      ok <- ok | abs(want) > 1e250
      if (name %in% names(ROUGH)) {
        rough <- ROUGH[[name]][[letter]]
        of <- function(v) if (letter != "q" && (isTRUE(flags$log.p) || isTRUE(flags$log))) exp(v) else v
        ok <- ok | abs(of(got) - of(want)) <= rough * (if (letter == "p") 1 else abs(of(want))) |
          letter == "d" & abs(of(got) - of(want)) < 1e-10 | is.na(want) & letter == "q"
        # base R's x of the beta next to 1
        if (name == "f_ncp" && letter == "d") ok <- ok | parameters$df1 / parameters$df2 * at > 1e4
      }
      ok[is.na(ok)] <- FALSE
      # a step of 1 where p lies on a step to the last digit
      if (counts) ok <- ok | abs(got - want) <= 1 & seq_len(n) %in% which(got != want)[seq_len(min(4L, sum(got != want)))]
      bad <- which(!ok & usable)
      # where they differ, whose quantile has the probability
      if (length(bad) && letter == "q" && !counts) {
        back <- function(q) do.call(base_function("p", name), c(list(q), parameters, flags))
        ours <- suppressWarnings(abs(back(got) - at)) <= suppressWarnings(abs(back(want) - at))
        bad <- bad[!ours[bad] %in% TRUE]
      }
      if (length(bad)) found <- c(found, sprintf("%s%s(%s%s) %s: %d of %d, first %.17g, base R %.17g", letter, name,
        format(at[bad[1L]], digits = 17), paste0(", ", vapply(parameters, function(v) format(v[bad[1L]], digits = 17),
        ""), collapse = ""), deparse1(flags), length(bad), n, got[bad[1L]], want[bad[1L]]))
    }
  }
  expect_all_same(found)
})

# Values where base R is odd and the package is not: infinite shapes, and infinite sizes; with ncp and of the
# studentized range where it has no limit, or (t, ncp above 37.6) another distribution. For infinite numbers of ranks it
# has no memory.
skipped <- function(name, x, parameters, letter) {
  a <- parameters[[1L]]
  b <- if (length(parameters) > 1L) parameters[[2L]] else 0
  switch(name, gamma = , chisq = is.infinite(a), weibull = is.infinite(a), nbinom = is.infinite(a),
    nbinom_mu = is.infinite(b) | is.infinite(a) | a == 0, signrank = is.infinite(a),
    beta_ncp = is.infinite(a) | is.infinite(b) | is.infinite(parameters[[3L]]),
    wilcox = , hyper = is.infinite(a) | is.infinite(b), chisq_ncp = a == 0 & b == 0, t_ncp = abs(b) > 37,
    f_ncp = is.infinite(x), tukey = is.infinite(a), FALSE)
}

test_that("edges, attributes and conditions are base R's", {
  all_edges <- c(NA, NaN, -Inf, Inf, -1, 0, 0.5, 1, 1.5, 2, 10, 3.3, 40)
  found <- list()
  few <- c(NA, NaN, Inf, -1, 0, 1, 2, 3.3)
  for (name in names(PARAMETERS)) {
    if (!is_next_ours()) next
    edge <- if (length(PARAMETERS[[name]]) > 2L) few else all_edges
    grid <- expand.grid(c(list(edge), rep(list(edge), length(PARAMETERS[[name]]))))
    parameters <- named(name, as.list(unname(grid[-1L])))
    keep <- !(skipped(name, grid[[1L]], parameters) %in% TRUE)
    parameters <- lapply(parameters, `[`, keep)
    for (letter in letters_of(name)) for (flags in flags_of(letter, name)) {
      x <- grid[[1L]][keep]
      if (letter == "q" && isTRUE(flags$log.p)) x <- -x
      f <- function(x, ...) called(letter, name, x, stats::setNames(list(...), names(parameters)),
        flags)
      cases$n <- cases$n + length(x)
      want <- outcome(do.call(base_function(letter, name), c(list(x), parameters, flags)))
      got <- outcome(do.call(f, c(list(gpu(x)), lapply(unname(parameters), gpu))))
      # far out base R's qt() is infinite too early
      early <- name == "t" & letter == "q" & is.infinite(want$value) & abs(got$value) > 1e30
      # of degenerate ones pbeta() is 0 beyond its end before R 4.5, and 1 before its beginning since; dbinom() of an
      # infinite size is NaN before R 4.6, which warns
      degenerate <- name == "beta" & letter == "p" & Reduce(`|`, lapply(parameters, `%in%`, c(0, Inf)))
      endless <- name == "binom" & letter == "d" & parameters[[1L]] %in% Inf
      # base R's values have too few digits to be compared in tails (the tests above look at ours); limits have all
      few_digits <- (grepl("_ncp", name) | name == "tukey") & is.finite(got$value) & (is.finite(want$value) |
        letter == "q" | isTRUE(flags$log.p) | isTRUE(flags$log)) & !want$value %in% c(0, 1)
      # it takes an absolute 2e-15 off a probability, and exp(-40) is less
      rounded <- name == "wilcox" & letter == "q" & abs(x) == 40
      # it rounds before R 4.6
      fraction <- name == "signrank" & letter == "p" & x != trunc(x)
      fine <- (early | degenerate | endless | few_digits | rounded | fraction | abs(got$value - want$value) < 1e-13) %in% TRUE
      said <- difference(got$value, want$value, ulp = 1e6, fine = fine)
      short <- function(w) sort(unique(sub(" = .*", "", w)))
      if (is.null(said) && !identical(short(got$warnings), short(grep("converge|precision", want$warnings,
        invert = TRUE, value = TRUE)))) said <- paste(c("warnings", got$warnings), collapse = ";")
      if (!is.null(said)) found <- c(found, sprintf("%s%s %s: %s", letter, name, deparse1(flags), said))
    }
  }
  m <- matrix(c(0.1, 0.5, 0.9, 0.2), 2L, dimnames = list(c("a", "b"), NULL))
  found <- c(found,
    compare(function(x) pgamma(x, 2), list(m), ulp = 4500, what = "a matrix"),
    compare(function(x) qbeta(x, 2, 1:2), list(c(a = 0.1, b = 0.2)), ulp = 4500, what = "names"),
    compare(function(x) dbinom(x, 3L, 0.5), list(0:3), ulp = 4500, what = "integers"),
    compare(function(x) pt(x, 5), list(c(TRUE, NA)), ulp = 4500, what = "logicals"),
    compare(function(x) pt(x, 5), list(numeric()), what = "nothing"),
    compare(function(x) pt(x, numeric()), list(1), what = "a parameter of length 0"),
    compare(function(x) dgamma(1, x, 2:3), list(c(1, 2, 3)), ulp = 4500, what = "arrays among the parameters"),
    compare(function(x) dgamma(x, 2, rate = 1, scale = 1), list(1), ulp = 4500, what = "rate and scale"),
    compare(function(x) dgamma(x, 2, rate = 1, scale = 2), list(1), what = "rate and another scale"),
    compare(function(x) dnbinom(x, 2, 0.5, 3), list(1), what = "prob and mu"),
    compare(function(x) dgamma(x), list(1), what = "no shape"),
    compare(function(x) pchisq(x, 3, ncp = 1), list(1), ulp = 4500, what = "noncentral"),
    compare(function(x) dbeta(x, 2, 3, ncp = 1:2), list(c(a = 0.1, b = 0.2)), ulp = 4500, what = "four operands"),
    compare(function(x) dhyper(x, 5L, 3L, 4L), list(0:4), ulp = 4500, what = "hypergeometric"),
    compare(function(x) dhyper(2, x, 3:4, 4), list(c(5, 6)), ulp = 4500, what = "an array among four"),
    compare(function(x) psignrank(x, 5:6), list(matrix(c(3, 8), 1L)), ulp = 4500, what = "signed ranks"),
    compare(function(x) ptukey(x, 3, 10), list(c(a = 2, b = 3)), ulp = 1e7, what = "studentized range"),
    compare(function(x) dt(x, 3, ncp = NULL), list(1), what = "ncp = NULL"),
    compare(function(x) pt(x, "a"), list(1), what = "a string"),
    compare(function(x) dexp(x, log = NA), list(1), what = "log = NA"))
  expect_all_same(found)
  expect_warning(gpu_compute(dpois(gpu(c(0.5, 1)), 2)), "non-integer x")
  at <- gpu(c(-1, 0, 0.3, 0.5, 1, 2))
  expect_identical(as.vector(pbeta(at, 0, 1)), c(0, 1, 1, 1, 1, 1))
  expect_identical(as.vector(pbeta(at, 1, 0)), c(0, 0, 0, 0, 1, 1))
  expect_identical(as.vector(pbeta(at, 0, 0)), c(0, 0.5, 0.5, 0.5, 1, 1))
  expect_identical(as.vector(pbeta(at, Inf, Inf)), c(0, 0, 0, 1, 1, 1))
  expect_identical(as.vector(pbeta(at, 0, 0, log.p = TRUE))[2L], log(0.5))
  expect_identical(as.vector(dbinom(gpu(c(0, 1, 3)), Inf, 0.5)), c(0, 0, 0))
})

test_that("extreme parameters have values, or NaN with a warning, in a moment", {
  near <- function(got, want, tolerance = 1e-12) expect_equal(as.vector(got), want, tolerance = tolerance)
  seconds <- system.time({
    # half of the mass at the mean, by symmetry, beyond the number of terms that can be summed
    size <- c(1e10, 1e14, 1e30, 1e90)
    near(phyper(gpu(size / 2), size, size, size), 0.5 + 0.5 / sqrt(2 * pi * size / 8), 1e-14)
    near(phyper(gpu(size / 2 - 1), size, size, size, lower.tail = FALSE)[1:3], 0.5 + 0.5 / sqrt(2 * pi * size[1:3] / 8),
      1e-14)
    near(qhyper(gpu(0.5), 1e14, 1e14, 1e14), 5e13)
    near(dhyper(gpu(0:3), 1e20, 1e20, 3), c(1, 3, 3, 1) / 8)
    # one of them is normal, the other the least of normals
    near(ptukey(gpu(3), 2, c(1e9, 1e300, Inf)), c(1 - 2 * pnorm(-3 / sqrt(2))) + c(0, 0, 0), 1e-8)
    near(ptukey(gpu(c(3, 1e17)), 1e7, 8), c(0, 1))
    near(ptukey(gpu(c(3, 200)), 1e300, 10) + ptukey(gpu(c(3, 200)), 1e300, 10, lower.tail = FALSE), c(1, 1))
    # powers of the least x and the greatest
    near(pchisq(gpu(1e-300), 1e-3, 2) / (exp(-1) * pgamma(1e-300 / 2, 5e-4)), 1)
    near(pt(gpu(1e250), 0.01, -2, FALSE) / pt(gpu(1e90), 0.01, -2, FALSE) / 1e160^-0.01, 1)
    near(pt(gpu(-3), 0.2, 450, log.p = TRUE) < -1e3, TRUE)
    near(pt(qt(gpu(c(1e-300, 0.3, 1 - 1e-10)), 0.05, -4), 0.05, -4)[2:3], c(0.3, 1 - 1e-10), 1e-10)
    near(pbeta(gpu(c(1e-320, 0.5, 1 - 1e-16)), 1e-3, 1e7, 1e8), c(0, 0, 1), 1e-12)
    expect_true(all(is.finite(collect(qf(gpu(c(1e-10, 0.5)), 1e6, 1e7, 1e8)))))
    for (f in list(function() psignrank(gpu(5), 1e5 + 1), function() qwilcox(gpu(0.5), 2, 1e6),
      function() dwilcox(gpu(5), 1e6, 1e6), function() phyper(gpu(5), 1e150, 1e150, 10)))
      expect_warning(expect_identical(as.vector(f()), NaN), "NaNs produced")
    near(psignrank(gpu(1e8 / 2), 2e4) > 0.01, FALSE)
    near(pwilcox(gpu(c(2e9, 4e9)), 1e5, 1e5) > 0.01, c(FALSE, FALSE))
    near(psignrank(gpu((1e8 + 1e4) / 4), 1e4), 0.5, 1e-5)
  })
  expect_lt(seconds[[3L]], if (emulated) 300 else 20)
})

test_that("float32 is rounded float64", {
  x <- gpu(c(0.1, 0.5, 0.9), "float32")
  expect_identical(gpu_dtype(qgamma(x, 2)), "float32")
  expect_equal(collect(qgamma(x, 2)), stats::qgamma(collect(x), 2), tolerance = 1e-7)
  expect_equal(collect(pt(x, 3)), stats::pt(collect(x), 3), tolerance = 1e-7)
  for (dtype in c("int8", "int32", "float16", "bfloat16")) {
    k <- gpu(c(0, 1, 5), dtype)
    expect_equal(collect(dpois(k, 2)), stats::dpois(c(0, 1, 5), 2), tolerance = 1e-2, info = dtype)
  }
  # no row is computed in float32
  set.seed(32)
  n <- 100L
  for (name in if (test_device == "cpu") names(PARAMETERS)) {
    narrow <- lapply(named(name, random_case(name, n)), gpu, "float32")
    wide <- lapply(narrow, function(v) gpu(collect(v)))
    p <- gpu(stats::runif(n), "float32")
    for (letter in letters_of(name)) {
      x <- if (letter == "q") p else gpu(collect(called("q", name, p, narrow, list())), "float32")
      got <- suppressWarnings(collect(called(letter, name, x, narrow, list())))
      want <- suppressWarnings(collect(gpu(collect(called(letter, name, gpu(collect(x)), wide, list())), "float32")))
      expect_identical(got, want, label = paste0(letter, name))
    }
  }
})

test_that("compiled functions have them", {
  x <- c(0.1, 0.5, 0.9, 0.3)
  same <- function(f, tolerance = 1e-12) {
    expect_equal(collect(gpu_map(f, gpu(x))), vapply(x, f, 0), tolerance = tolerance, info = deparse1(f))
  }
  same(function(v) dgamma(v, 2, rate = 3) + pgamma(v, shape = v + 1, scale = 2, lower.tail = FALSE))
  same(function(v) qbeta(v, 2, v + 1) * dbeta(v, 2, 3, log = TRUE))
  same(function(v) pt(v, 4, log.p = TRUE) + qt(v, df = 5) + df(v, 2, 3) + pf(v, 3, 4))
  same(function(v) dnbinom(2, size = 3, mu = v) + pnbinom(2, 3, v) + ppois(3, v) + qbinom(v, 10, 0.3))
  same(function(v) punif(v) + dexp(v) + plnorm(v, sdlog = 2) + dweibull(v, 2) + plogis(v) + qcauchy(v))
  same(function(v) pchisq(v, 3, ncp = 1) + dchisq(v, 3, v) + qbeta(v, 2, 3, ncp = v) + pf(v, 2, 3, 1, FALSE), 1e-8)
  same(function(v) dhyper(2, 5, 4, 3) * v + phyper(v, 5, 4, 3) + psignrank(3, 5) + qwilcox(v, 4, 5))
  same(function(v) pt(v, 10, ncp = 0.5, log.p = TRUE) + ptukey(v, 3, 10, lower.tail = FALSE), 1e-8)
  expect_error(gpu_map(function(v) dtukey(v, 3, 10), gpu(x)), class = "verdigris_error_compile")
  expect_error(gpu_map(function(v) dgamma(v, 2, rate = 1, scale = 1), gpu(x)), class = "verdigris_error_compile")
})

test_that("gradients are those of differences", {
  x <- c(0.3, 0.7, 0.8, 0.2)
  expect_slope <- function(f, at = 1.3) {
    got <- gpu_grad(f, "a")(gpu(x), at)
    total <- function(a) sum(vapply(x, f, 0, a))
    h <- 1e-3
    want <- (8 * (total(at + h) - total(at - h)) - (total(at + 2 * h) - total(at - 2 * h))) / (12 * h)
    expect_equal(got[["a"]], want, tolerance = 1e-7, info = deparse1(f))
  }
  for (f in list(
    function(x, a) dgamma(x, a, 2, log = TRUE), function(x, a) dgamma(x, 2, scale = a), function(x, a) dgamma(a, x, a),
    function(x, a) dbeta(x, a, 2, log = TRUE), function(x, a) dbeta(x, 2, a), function(x, a) dbeta(a / 2, x, 3),
    function(x, a) dexp(x, a), function(x, a) dexp(a * x, 2, log = TRUE), function(x, a) dunif(x, 0, a + 1),
    function(x, a) dlnorm(x, a, 2), function(x, a) dlnorm(x, 1, a, log = TRUE), function(x, a) dlnorm(a, x, 2),
    function(x, a) dchisq(x, a), function(x, a) dchisq(a, 3, log = TRUE), function(x, a) dt(x, a, log = TRUE),
    function(x, a) dt(a, x), function(x, a) df(x, a, 3), function(x, a) df(x, 3, a, log = TRUE),
    function(x, a) df(a, 3, 4), function(x, a) dweibull(x, a, 2), function(x, a) dweibull(x, 2, a, log = TRUE),
    function(x, a) dweibull(a, 2, 3), function(x, a) dlogis(x, a, 2), function(x, a) dlogis(x, 1, a, log = TRUE),
    function(x, a) dcauchy(x, a, 2), function(x, a) dcauchy(x, 1, a, log = TRUE), function(x, a) dcauchy(a, 1),
    function(x, a) dbinom(2, 5, a / 2), function(x, a) dpois(3, a, log = TRUE), function(x, a) dgeom(2, a / 2),
    function(x, a) dnbinom(2, 3, a / 2, log = TRUE), function(x, a) dnbinom(2, a, mu = 3),
    function(x, a) dnbinom(2, 3, mu = a, log = TRUE), function(x, a) pgamma(a, x + 1),
    function(x, a) pgamma(x, 2, scale = a, lower.tail = FALSE), function(x, a) pbeta(a / 2, 2, x, log.p = TRUE),
    function(x, a) pt(a, 3, lower.tail = FALSE, log.p = TRUE), function(x, a) pf(a, 2, 3),
    function(x, a) pweibull(x, a, 2), function(x, a) plogis(x, 1, a, log.p = TRUE), function(x, a) pcauchy(x, a),
    function(x, a) punif(x, 0, a), function(x, a) pexp(x, a, lower.tail = FALSE), function(x, a) plnorm(x, a, 2),
    function(x, a) ppois(2, a), function(x, a) pbinom(2, 5, a / 2, lower.tail = FALSE),
    function(x, a) pnbinom(2, 3, a / 2, log.p = TRUE), function(x, a) pgeom(2, a / 2), function(x, a) qgamma(a / 2, 3),
    function(x, a) qbeta(a / 2, 2, 3, lower.tail = FALSE), function(x, a) qt(-a, 4, log.p = TRUE),
    function(x, a) dchisq(x, 3, a), function(x, a) dchisq(a, 3, x, log = TRUE), function(x, a) pchisq(x, 3, a),
    function(x, a) qchisq(x, 3, a), function(x, a) pchisq(a, 3, x, lower.tail = FALSE),
    function(x, a) dbeta(x, 2, 3, a, log = TRUE), function(x, a) dbeta(a / 2, 2, 3, x), function(x, a) df(x, 3, 4, a),
    function(x, a) df(a, 3, 4, x, log = TRUE), function(x, a) pf(a, 3, 4, x), function(x, a) pbeta(a / 2, 2, 3, x),
    function(x, a) pt(a, 5, x), function(x, a) qexp(x, a), function(x, a) qweibull(x, a, 2),
    function(x, a) qlogis(x, 1, a))) expect_slope(f)
  for (f in list(function(x, a) pgamma(x, a), function(x, a) pt(x, a), function(x, a) qbeta(x, a, 2),
    function(x, a) dt(x, 3, a), function(x, a) dchisq(x, a, 2), function(x, a) ptukey(a, 3, 10),
    function(x, a) pbeta(x, 2, 3, a)))
    expect_error(gpu_grad(f, "a")(gpu(x), 1.3), class = "verdigris_error_compile")
})

test_that("there are as many cases as there were", expect_cases(100000))
