# What base R's functions make of splits, readers and references: the value that they have for the whole, or an error.

team <- gpu_team(rep(test_device, 3))
withr::local_options(verdigris.device = test_device)
v <- c(3, 1, 2, 2, 5, 4, 0.5)
m <- matrix(c(3, 1, 2, 2, 5, 4, 9, 8, 7, 7, 1, 2, 4, 4), 7)
lines <- function(...) unlist(lapply(strsplit(c(...), "|", fixed = TRUE), trimws))

# Of these the package has functions or methods: values are base R's, and errors name the function that was called and
# the remedy.
known <- lines("match(X, 2)|match(2, X)|X %in% 2|2 %in% X|is.element(X, 1:3)|is.element(1, X)|which.max(X)|which.min(X)",
  "pmax(X, 2)|pmin(X, 2)|pmin(2, X)|pmax(X, X / 2, 3)|which(X > 2)|order(X)|rank(X)|rev(X)|head(X, 2)|tail(X, 2)",
  "head(X, -3)|tail(X, -5)|head(X, 100)|head(X)|unique(X)|duplicated(X)|anyDuplicated(X)|tabulate(X)",
  "tabulate(X, 3)|cut(X, 3)|findInterval(X, 1:5)|findInterval(X, c(1, 5), left.open = TRUE)|ifelse(X > 2, 1, 0)",
  "ifelse(X > 2, X, -X)|ifelse(X > 2, seq_len(7), 0)|as.vector(X)|as.numeric(X)|as.double(X)|as.integer(X)|as.list(X)",
  "as.character(X)|as.logical(X)|as.complex(X)|as.matrix(X)|as.array(X)|as.data.frame(X)|sapply(X, sqrt)|vapply(X, sqrt, 1)",
  "mapply(function(x) x, X)|Map(function(x) x, X)|outer(X, 1:2)|outer(1:2, X)|X %o% 1|kronecker(X, 1)|all.equal(X, X0)",
  "all.equal(1, X)|is.numeric(X)|is.matrix(X)|is.array(X)|length(X)|dim(X)|nrow(X)|NCOL(X)|c(X, 1)|rbind(X, 1)|cbind(X, 1)",
  "cbind(1, X)|var(X)|sd(X)|cov(X)|cor(X, X)|mad(X)|IQR(X)|quantile(X)|median(X)|mean(X, trim = 0.1)|diff(X)|dist(X)",
  "cumsum(X)|range(X)|table(X)|tapply(X, rep(1, 7), sum)|ave(X)|split(X, 1)|rowsum(X, c(1, 1, 2, 2, 3, 3, 3))|density(X)",
  "hist(X, plot = FALSE)|fft(X)|mvfft(X)|convolve(X, 1:2)|filter(X, 1)|t.test(X)|wilcox.test(X)|cor.test(X, X)|union(X, 1)",
  "approx(X, X)|crossprod(X)|tcrossprod(X)|X %*% 1|intersect(X, 1)|setdiff(X, 1)|setequal(X, 1)|rep(X, 2)|Find(sqrt, X)",
  "Position(sqrt, X)|complete.cases(X)|na.omit(X)|anyNA(X)|round(X, 1)|signif(X, 1)|trunc(X)|summary(X)|max.col(X)|aperm(X)",
  "colSums(X)|rowMeans(X)|sweep(X, 2, 1:2)|solve(X)|eigen(X)|chol(X)|diag(X)|upper.tri(X)|row(X)|col(X)|norm(X)|rcond(X)",
  "mahalanobis(X, 0, 1)|dnorm(X)|dnorm(X, 1, 2, TRUE)|pnorm(X)|pnorm(X, lower.tail = FALSE)|qnorm(X / 10)|beta(X, 1)",
  "choose(X, 1)|atan2(X, 1)|atan2(1, X)|lbeta(X, X)|lchoose(5, X)|psigamma(X)|besselI(X, 1)|rle(X)|embed(X, 1)|mean(X)",
  "weighted.mean(X, rep(1, 7))|is.unsorted(X)|matrix(X, 2)|array(X, 2)|drop(X)|marginSums(X)|proportions(X)|asplit(X, 1)",
  "cov.wt(X)|cmdscale(X)|acf(X, plot = FALSE)|spectrum(X, plot = FALSE)|toeplitz(X)|lm.fit(X, v)|chol2inv(X)|aggregate(X, list(1), sum)",
  "backsolve(X, v)|`diag<-`(X, 1)|`dim<-`(X, 7)|`names<-`(X, 'a')|`length<-`(X, 2)|`levels<-`(X, 'a')|`dimnames<-`(X, NULL)",
  "`is.na<-`(X, 1)|`[[<-`(X, 1, 1)|`$<-`(X, a, 1)|`mode<-`(X, 'integer')|Re(X)|Mod(X)|X + 1|-X|exp(X)|sum(X)|any(X > 1)")

# Of others R raises an error of its own where there is no method.
others <- lines("sum(1, X)|max(X, 10)|nchar(X)|sprintf('%f', X)|ecdf(X)|lm(X ~ 1)|shapiro.test(X)|bitwAnd(X, 1L)|if (X) 1",
  "for (i in X) i|polyroot(X)|rnorm(3, X)|model.matrix(~X)|loess(X ~ X)|ts(X)|mean.default(X)|formatC(X)|lapply(X, sqrt)",
  "Reduce(`+`, X)|Filter(function(x) x > 1, X)|do.call(sum, list(X))|rep_len(X, 3)|factor(X)|spline(X, X)|fivenum(X)",
  "sample(X)|append(X, 1)|paste(X)|toString(X)|cat(X)|unlist(X)|det(X)|inverse.rle(X)|seq(1, X)|poly(X, 2)|rev.default(X)",
  "merge(X, X)|trimws(X)|sort.int(X)|optim(X, sum)|cov2cor(X)|reshape(X)|smooth.spline(X)|lowess(X)",
  "nls(X ~ a)|chisq.test(X)|prop.test(X, X)|arima(X)|princomp(X)|image(X)|plot(X)|barplot(X)|boxplot(X, plot = FALSE)",
  "uniroot(X)|grepl('1', X)|substr(X, 1, 1)|make.names(X)|prettyNum(X)|zapsmall(X)|rapply(X, sqrt)|replace(X, 1, 0)",
  "assign('a', 1, X)|xor(X > 1, X > 2)|sort(X)|isSymmetric(X)|kappa(X)|is.na(X)|is.finite(X)|X[1, ]|X[[1]]")

wrong_calls <- function(x, whole, names, class, named = TRUE) {
  found <- list()
  ran <- function(code, x) {
    values <- list2env(list(X = x, X0 = whole, v = v), parent = globalenv())
    value <- NULL
    set.seed(7)
    utils::capture.output(value <- tryCatch(suppressWarnings(eval(code, values)), error = identity))
    if (is_remote_value(value)) value <- tryCatch(collect(value), error = identity)
    # duplicated() of a matrix is an array of one dimension, which splits do not have
    if (is.logical(value) && length(dim(value)) == 1L) value <- as.vector(value)
    # chisq.test()
    if (inherits(value, "htest")) value[] <- lapply(value, function(part) if (is_remote_value(part)) collect(part) else
      part)
    value
  }
  for (name in names) {
    code <- parse(text = name, keep.source = FALSE)[[1L]]
    want <- ran(code, whole)
    got <- ran(code, x)
    cases$n <- cases$n + 1L
    if (inherits(got, "error")) {
      # an error about the whole is base R's; S4 dispatch makes another error of that of an argument
      said <- conditionMessage(got)
      # as.numeric() is as.double()
      named_ones <- vapply(c(all.names(code), "as.double"), function(f) grepl(sprintf("`%s()`", f), said, fixed = TRUE), NA)
      refused <- (inherits(got, class) || grepl("selecting a method", said)) && grepl("collect(", said, fixed = TRUE) &&
        any(named_ones)
      if (named && !refused && !inherits(want, "error")) found <- c(found, sprintf("%s: %s", name, said))
    } else if (inherits(want, "error")) {
      found <- c(found, sprintf("%s is no error", name))
    } else if (!isTRUE(tryCatch(all.equal(got, want, tolerance = 1e-12), error = conditionMessage))) {
      found <- c(found, sprintf("%s: %s is not %s", name, deparse1(got), deparse1(want)))
    }
  }
  found
}
is_remote_value <- function(x) inherits(x, "gpu_remote") || inherits(x, "gpu_array")

test_that("functions of splits have base R's values, or are refused by name", {
  for (x in list(v, m)) {
    expect_all_same(wrong_calls(gpu_split(x, team), x, known, "verdigris_error_split"))
    expect_all_same(wrong_calls(gpu_split(x, team), x, others, "verdigris_error_split", FALSE))
  }
})

test_that("functions of readers have base R's values, or are refused by name", {
  for (x in list(v, m)) {
    expect_all_same(wrong_calls(gpu_reader(x), x, known, "verdigris_error_reader"))
    expect_all_same(wrong_calls(gpu_reader(x), x, others, "verdigris_error_reader", FALSE))
  }
})

test_that("functions of references are refused by name", {
  ref <- gpu_together(team, function(x) gpu_ref(x), v)[[2L]]
  describing <- "X (>|/) |^(length|dim|nrow|NCOL|is\\.|all.equal|identical)"
  for (name in grep(describing, known, value = TRUE, invert = TRUE)) {
    said <- tryCatch(suppressWarnings(eval(parse(text = name)[[1L]], list(X = ref, X0 = v, v = v))), error = identity)
    what <- if (inherits(said, "error")) conditionMessage(said) else class(said)
    expect(inherits(said, "verdigris_error_argument") && grepl("collect(", what, fixed = TRUE), paste(name, "gives",
      what[[1L]]))
  }
  expect_output(print(ref), "<gpu_ref to a vector [7] of member 2>", fixed = TRUE)
  expect_identical(collect(ref), v)
})

test_that("operators and products of an array beside a split, a reader or a reference are theirs", {
  a <- as_gpu(m)
  columns <- as_gpu(t(m))
  split <- gpu_split(m, team)
  reader <- gpu_reader(m)
  ref <- gpu_together(team, function(x) gpu_ref(x), m)[[2L]]
  for (name in c("+", ">", "==", "^")) {
    f <- get(name)
    expect_identical(collect(f(split, a)), f(m, m))
    expect_identical(collect(f(a, split)), f(m, m))
    # R looks for the next operator's method anew
    expect_identical(f(m, 2), collect(f(a, 2)))
    for (class in c("argument", "reader")) {
      x <- if (class == "reader") reader else ref
      expect_error(f(a, x), class = paste0("verdigris_error_", class))
      expect_error(f(x, a), class = paste0("verdigris_error_", class))
    }
  }
  expect_equal(collect(split %*% columns), m %*% t(m))
  expect_equal(collect(reader %*% columns), m %*% t(m))
  expect_error(columns %*% split, class = "verdigris_error_split")
  expect_error(columns %*% reader, class = "verdigris_error_reader")
  for (f in list(`%*%`, crossprod, tcrossprod)) {
    expect_error(f(a, ref), "references", class = "verdigris_error_argument")
    expect_error(f(ref, a), "references", class = "verdigris_error_argument")
  }
})
