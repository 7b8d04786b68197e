# Unusual values of counts, extents, margins, digits, flags and names in base R's functions: the same results or errors.

odd_arguments <- quote(list(
  NULL, NA, NA_real_, NaN, Inf, -Inf, "a", "2", TRUE, 1i, as.raw(1), list(1), list(), sum, factor("b"), numeric(),
    character(), 1:2, c(TRUE, FALSE), 0.5, -1, 0, 1, 2L, -2^31,
  c(a = 1), matrix(2), data.frame(a = 1)
))[-1L]

argument_calls <- c(
  # counts and extents
  "rep(X, K)", "rep(X, each = K)", "rep(X, length.out = K)", "rep_len(X, K)", "rep.int(X, K)", "rep_len(X[0], K)",
    "rep_len(M[, 0], K)", "log(M[, 0], K)", "round(M[, 0] + 1i, K)", "signif(M[, 0] + 1i, K)", "rep.int(X[0], K)",
    "head(X, K)", "tail(M, K)", "matrix(X, K)", "matrix(X, ncol = K)", "array(X, K)", "diag(X, K)", "diag(X, 2, K)",
    "diag(M, K)",
  "tabulate(B, K)", "tabulate(X, K)", "diff(X, K)", "diff(M, 1, K)", "embed(X, K)", "cut(X, K)",
    "hist(X, K, plot = FALSE)$counts", "density(X, n = K)$bw", "backsolve(S, c(1, 2), k = K)", "chol2inv(S, K)",
    "abs(svd(M, nu = K)$u)", "filter(X, 1, sides = K)", "filter(X, 1, 'recursive', init = K)",
  # margins
  "apply(M, K, sum)", "apply(M, K, range)", "sweep(M, K, 1)", "aperm(M, K)", "marginSums(M, K)", "proportions(M, K)",
    "rowSums(M, dims = K)", "colMeans(A, dims = K)", "unique(M, MARGIN = K)",
  # digits, bases and probabilities
  "round(X, K)", "signif(X, K)", "log(X, K)", "quantile(X, K)", "mean(X, trim = K)", "dnorm(X, K)", "choose(X, K)",
    "beta(X, K)", "solve(S, tol = K)", "match(X, c(1, 2), K)", "findInterval(X, K)", "mad(X, constant = K)",
  # flags
  "matrix(X, 2, byrow = K)", "diag(M, names = K)", "sweep(M, 1, c(1, 2), check.margin = K)", "aperm(M, resize = K)",
    "rowSums(M, K)", "sort(X, decreasing = K)", "order(X, decreasing = K)", "order(X, na.last = K)",
    "unique(X, fromLast = K)", "duplicated(X, fromLast = K)",
  "anyDuplicated(X, fromLast = K)", "median(X, K)", "quantile(X, na.rm = K)", "quantile(X, names = K)", "IQR(X, K)",
    "range(X, na.rm = K)", "range(X, finite = K)", "pmax(X, 1, na.rm = K)", "is.unsorted(X, K)",
    "is.unsorted(X, strictly = K)", "row(M, K)", "upper.tri(M, K)",
  "findInterval(X, c(1, 2), rightmost.closed = K)", "findInterval(X, c(1, 2), all.inside = K)",
    "findInterval(X, c(1, 2), left.open = K)", "cut(X, 3, include.lowest = K)", "kronecker(X, 1:2, make.dimnames = K)",
    "split(X, c(1, 1, 2, 2), drop = K)", "pnorm(X, lower.tail = K)", "pnorm(X, log.p = K)",
  "dnorm(X, log = K)", "eigen(S, symmetric = K)$values", "eigen(S, only.values = K)$values", "c(X, 1, use.names = K)",
    "unlist(list(a = X), use.names = K)", "unlist(list(a = X), recursive = K)", "sum(X, na.rm = K)",
  "sum(N, na.rm = K)", "sum(N, X, na.rm = K)", "prod(N, na.rm = K)", "max(N, na.rm = K)", "min(1, N, na.rm = K)",
    "range(N, na.rm = K)", "any(N > 9, na.rm = K)", "all(N > 0, na.rm = K)", "mean(N, na.rm = K)", "var(N, na.rm = K)",
    "sd(N, na.rm = K)", "median(N, na.rm = K)", "rowsum(N, c(1, 1, 2, 2), na.rm = K)", "rowSums(M, na.rm = K)",
  # words and names
  "sort(X, method = K)", "order(X, method = K)", "cor(M, use = K)", "rank(X, ties.method = K)", "norm(S, K)",
    "matrix(X, dimnames = K)", "array(X, c(2, 2), K)", "table(B, dnn = K)", "cbind(X, 1, deparse.level = K)",
    "rbind(X, 1, deparse.level = K)", "as.data.frame(X, K)"
)

# Where base R's own answer is none, or differs on purpose.
argument_known <- list(
  list("signif\\(.*(Inf|2\\^31)", "of more digits than an int holds base R makes none"),
  list("choose\\(.*\\^", "of what is not whole, and many, base R loses digits"),
  list("match\\(.*(list\\(\\)|sum)", "base R looks at memory that it has not set"),
  list("(diff|embed)\\(.*(matrix\\(2\\)|c\\(a = 1\\))", "attributes of a number that is counted with")
)

test_that("functions of base R take arguments as base R does", {
  local <- list(X = c(1.5, 3, 2, 5), N = c(1.5, NA, 2, 5), M = base::matrix(c(1, 4, 2, 8, 5, 7), 2, dimnames = list(p = c("a", "b"), NULL)),
    A = base::array(1:12 / 2, c(2, 3, 2)), B = c(1L, 2L, 2L, 3L), S = base::matrix(c(4, 1, 1, 3), 2))
  sides <- lapply(list(local, lapply(local, gpu)), list2env, parent = globalenv())
  withr::local_options(verdigris.host_access = "allow")
  found <- list()
  for (text in argument_calls) {
    e <- parse(text = text, keep.source = FALSE)[[1L]]
    # the emulator takes every seventh, which goes with any share of the cases
    for (value in as.list(odd_arguments)) if (is_next_ours() && (!emulated || cases$met %% 7L == 0L)) {
      call <- eval(call("substitute", e, list(K = value)))
      label <- deparse1(call)
      if (any(vapply(argument_known, function(k) grepl(k[[1L]], label), NA))) next
      results <- lapply(sides, function(side) {
        set.seed(1)
        outcome(eval(call, side))
      })
      cases$n <- cases$n + 1L
      said <- odd_difference(results[[2L]]$value, results[[1L]]$value)
      if (is.null(said) && !setequal(results[[1L]]$warnings, results[[2L]]$warnings))
        said <- paste0("warnings {", toString(results[[2L]]$warnings), "} are not {", toString(results[[1L]]$warnings),
        "}")
      if (!is.null(said)) found <- c(found, paste0(label, ": ", said))
    }
  }
  expect_all_same(found)
  expect_cases(if (emulated) 300L else 2600L)
})
