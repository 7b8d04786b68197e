# Arrays in models, frames, lists, Matrix and DelayedArray.

test_that("lists that hold arrays are unlisted into arrays", {
  lists <- list(list(c(1, 2), 3), list(a = 1:2, b = 3L), list(a = 1, b = list(c = c(x = 1, y = 2), 5)),
    list(TRUE, NULL, 2L), list(matrix(1:4, 2), 7L), list(list(1), list(list(2:3))), list(numeric()),
    list(a = 1i, b = TRUE))
  for (x in lists) for (recursive in c(TRUE, FALSE)) for (names in c(TRUE, FALSE)) {
    arrays <- rapply(x, gpu, how = "replace")
    got <- unlist(arrays, recursive, names)
    want <- base::unlist(x, recursive, names)
    if (!is.list(want)) expect_true(is_gpu(got))
    expect_identical(rapply(list(got), collect, how = "replace")[[1L]], want)
  }
  expect_identical(collect(unlist(as_gpu(data.frame(u = 1:2, v = c(1.5, 2)), device = test_device))),
    unlist(data.frame(u = 1:2, v = c(1.5, 2))))
  expect_identical(unlist(list(a = "x", b = gpu(1))), c(a = "x", b = "1"))
  expect_identical(unlist(list(1, b = "u")), base::unlist(list(1, b = "u")))
})

test_that("a linear model of arrays prints, and is summarised, as one of ordinary vectors; residuals are arrays as the response is", {
  printed <- function(expr) utils::capture.output(print(expr))
  x <- mtcars$wt
  y <- mtcars$mpg
  host <- list(model = lm(y ~ x))
  x <- gpu(x)
  y <- gpu(y)
  model <- lm(y ~ x)
  expect_identical(printed(model), printed(host$model))
  expect_identical(printed(summary(model)), printed(summary(host$model)))
  expect_identical(printed(anova(model)), printed(anova(host$model)))
  for (f in list(coef, vcov, confint, function(m) predict(m), influence, rstandard, cooks.distance, AIC))
    expect_equal(rapply(list(f(model)), collect, how = "replace"), list(f(host$model)))
  for (f in list(residuals, fitted)) {
    expect_true(is_gpu(f(model)))
    expect_equal(collect(f(model)), f(host$model))
    expect_equal(sum(f(model)^2), sum(f(host$model)^2))
  }
  expect_identical(class(model$qr$qr), class(host$model$qr$qr))
})

test_that("linear models, generalised and not linear ones, and smoothers agree with base R", {
  host <- airquality[stats::complete.cases(airquality), ]
  frame <- as_gpu(host, device = test_device)
  new <- 1:5
  models <- list(
    lm = function(d) lm(Ozone ~ Wind + poly(Temp, 2) + factor(Month), d), "lm weights" = function(d)
      lm(log(Ozone) ~ Wind * Temp, d, weights = Solar.R, subset = Temp > 70),
    glm = function(d) glm(Ozone > 40 ~ Wind + Temp, binomial, d), poisson = function(d)
      glm(Ozone ~ Wind + log(Temp), poisson, d), aov = function(d) aov(Ozone ~ factor(Month), d),
    nls = function(d) nls(Ozone ~ a * exp(b * Temp), d, start = list(a = 1, b = 0.05)), loess = function(d)
      loess(Ozone ~ Wind, d))
  for (name in names(models)) {
    want <- models[[name]](host)
    got <- suppressWarnings(models[[name]](frame)) # of classes, on R before 4.3
    bare <- function(x) if (is.null(x)) x else as.vector(x)
    expect_equal(bare(fitted(got)), bare(fitted(want)), tolerance = 1e-8, label = name)
    expect_equal(bare(residuals(got)), bare(residuals(want)), tolerance = 1e-8, label = name)
    expect_equal(bare(predict(got, frame[new, ])), bare(predict(want, host[new, ])), tolerance = 1e-8, label = name)
    if (name != "loess") expect_equal(coef(got), coef(want), tolerance = 1e-7, label = name)
    # they work as numbers, and as arrays
    expect_equal(sum(residuals(got)^2), sum(residuals(want)^2), tolerance = 1e-8)
    expect_identical(typeof(residuals(got)), "double")
    shown <- function(m) grep("^ +[0-9.-]+ +[0-9.-]+|Call|data =|formula|convergence",
      utils::capture.output(print(summary(m))), invert = TRUE, value = TRUE)
    expect_identical(shown(got), shown(want))
  }
  expect_equal(model.matrix(~ Wind + factor(Month), frame), model.matrix(~ Wind + factor(Month), host))
  expect_equal(anova(lm(Ozone ~ Wind + Temp, frame)), anova(lm(Ozone ~ Wind + Temp, host)))
})

test_that("principal components, clusters and optimisers agree with base R", {
  m <- as.matrix(iris[1:4])
  x <- gpu(m)
  expect_equal(prcomp(x, scale. = TRUE)$sdev, prcomp(m, scale. = TRUE)$sdev, tolerance = 1e-8)
  expect_equal(princomp(x)$sdev, princomp(m)$sdev, tolerance = 1e-8)
  expect_equal(kmeans(x, x[c(1, 60, 120), ])$size, kmeans(m, m[c(1, 60, 120), ])$size)
  expect_equal(cutree(hclust(dist(x)), 3), cutree(hclust(dist(m)), 3))
  X <- cbind(1, m[, 1:2])
  y <- m[, 3]
  loss <- function(X, y) function(b) sum((y - X %*% b)^2)
  slope <- function(X, y) function(b) -2 * as.vector(crossprod(X, y - as.vector(X %*% b)))
  want <- optim(c(0, 0, 0), loss(X, y), slope(X, y), method = "BFGS")
  got <- optim(c(0, 0, 0), loss(gpu(X), gpu(y)), slope(gpu(X), gpu(y)), method = "BFGS")
  expect_equal(got[c("par", "value", "convergence")], want[c("par", "value", "convergence")], tolerance = 1e-5)
  start <- gpu(c(-1.2, 1))
  expect_equal(as.vector(optim(start, function(b) 100 * (b[2] - b[1]^2)^2 + (1 - b[1])^2)$par),
    optim(c(-1.2, 1), function(b) 100 * (b[2] - b[1]^2)^2 + (1 - b[1])^2)$par)
  expect_equal(nlminb(c(0, 0, 0), loss(gpu(X), gpu(y)))$par, nlminb(c(0, 0, 0), loss(X, y))$par, tolerance = 1e-5)
  expect_equal(optimize(function(k) sum((gpu(y) - k)^2), c(0, 9))$minimum, mean(y), tolerance = 1e-4)
})

test_that("tests by ranks agree with base R, and name their data", {
  v <- c(1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30)
  w <- c(0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29)
  g <- rep(1:3, 3)
  calls <- alist(wilcox.test(v, w), wilcox.test(v, mu = 1), wilcox.test(x = v, y = w, paired = TRUE), ansari.test(v, w),
    kruskal.test(v, g), fligner.test(v, g), wilcox.test(v, w, conf.int = TRUE), t.test(v, w),
    cor.test(v, w, method = "spearman"), cor.test(v, w), cor.test(v, w, method = "kendall"), mood.test(v, w),
    cor.test(~ v + w, method = "spearman"), wilcox.test(v ~ g > 1), mood.test(v ~ g > 1), PP.test(v),
    cor.test(v[-1], rev(w)[-1], method = "spearman"), wilcox.test(y = w + 1, exact = FALSE, x = v * 2),
    do.call(wilcox.test, list(v, w)), do.call(mood.test, list(y = v, x = w)), kruskal.test(list(v, w)))
  for (call in calls) {
    want <- suppressWarnings(eval(call))
    got <- suppressWarnings(eval(call, list(v = gpu(v), w = gpu(w))))
    expect_equal(got, want, label = deparse1(call))
  }
})

test_that("functions that deparse their arguments take about as long as of ordinary vectors", {
  set.seed(1)
  v <- rnorm(20000)
  w <- v + rnorm(20000)
  g <- rep_len(1:5, 20000)
  calls <- alist(density(v, na.rm = TRUE), density(v, bw = "SJ"), density(v, weights = rep(1 / 20000, 20000)),
    wilcox.test(v, w), kruskal.test(v, g), fligner.test(v, g), mood.test(v, w), cor.test(v, w),
    cor.test(v, w, method = "spearman"), cor.test(v[1:1000], w[1:1000], method = "kendall"), PP.test(v),
    plot(v, w, main = "m"), plot(ts(v)), boxplot(v, w), image(matrix(v, 200)), hist(v, "FD", plot = FALSE), dist(v[1:300]),
    barplot(v[1:200]), lines(v), density(replace(v, 3, NA), na.rm = TRUE))
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  seconds <- function(call, frame) min(replicate(3, sum(system.time(suppressWarnings(eval(call, frame)))[1:2])))
  arrays <- list(v = gpu(v), w = gpu(w), g = gpu(g))
  for (call in calls) {
    host <- seconds(call, list(v = v, w = w, g = g))
    expect_lte(seconds(call, arrays), 4 * host + if (emulated) 2 else 0.03, label = deparse1(call))
  }
})

test_that("all.equal() takes an array on either side", {
  expect_true(all.equal(c(1, 2), gpu(c(1, 2))))
  expect_true(all.equal(gpu(c(1, 2)), c(1, 2)))
  expect_true(base::all.equal(gpu(c(a = 1)), c(a = 1)))
  expect_identical(all.equal(c(1, 2), gpu(c(1, 3))), all.equal(c(1, 2), c(1, 3)))
})

test_that("index matrices may be arrays", {
  m <- matrix(1:6, 2)
  i <- cbind(c(1, 2), c(3, 1))
  found <- list(compare(function(x, k) x[k], list(m, i), what = "read"), compare(function(x, k) { x[k] <- 0L; x },
    list(m, i), what = "write"), compare(function(x, k) x[k], list(m, list(i)), what = "host index"),
    compare(function(x, k) x[k], list(m, m > 2), what = "mask"),
    compare(function(x, k) x[k], list(m, matrix(1:6, 3)), what = "places"),
      compare(function(x, k) x[k], list(m, cbind(3, 3)), what = "outside"))
  expect_all_same(found)
})

test_that("frames have columns of arrays, and of their matrices", {
  host <- data.frame(a = c(3, 1, 2), k = c("u", "v", "v"))
  frame <- as_gpu(host, device = test_device)
  same <- function(f) expect_identical(collect(f(frame)), f(host))
  for (f in list(function(d) d[order(d$a), ], function(d) transform(d, b = a * 2), function(d) within(d, b <- a + 1),
    function(d) rbind(d, d), function(d) merge(d, data.frame(k = c("u", "v"), w = 1:2)), function(d)
    aggregate(a ~ k, d, sum), function(d) d[d$a > 1, "a"], function(d) subset(d, a > 1, "a"),
    function(d) transform(d, z = scale(a)[, 1]), function(d) unsplit(split(d, d$k), d$k), function(d)
      do.call(rbind, split(d, d$k)), function(d) head(d, 2), function(d) d[order(d$k, -d$a), ], function(d)
      unique(d))) same(f)
  expect_identical(names(cbind(data.frame(a = 1:2), X = gpu(matrix(1:4, 2)))), c("a", "X.1", "X.2"))
  expect_identical(as.vector(order(gpu(c(1, 1)), factor(c("a", "b"), levels = c("b", "a")))), 2:1)
})

test_that("Matrix's classes take arrays as operands, subscripts and values", {
  skip_if_not_installed("Matrix")
  s <- Matrix::Matrix(c(2, 0, 1, 3), 2, sparse = TRUE)
  others <- list(s, Matrix::Diagonal(2, c(2, 3)), Matrix::forceSymmetric(Matrix::Matrix(c(2, 1, 1, 3), 2)))
  m <- matrix(c(1, 2, 3, 5), 2)
  for (M in others) {
    for (f in list(`+`, `*`, `>`, `%*%`, Matrix::crossprod, Matrix::tcrossprod, Matrix::solve, Matrix::kronecker, cbind,
      rbind)) {
      expect_equal(unname(as.matrix(f(M, gpu(m)))), unname(as.matrix(f(M, m))))
      expect_equal(unname(as.matrix(f(gpu(m), M))), unname(as.matrix(f(m, M))))
    }
    calls <- alist(M[i], M[i, ], M[i, , drop = FALSE], M[, i], M[i, i], M[l, ], M[l, 1], M[1, l], M[i, drop = FALSE],
      `[<-`(M, i, , value = v), `[<-`(M, , i, value = v), `[<-`(M, i, 1, value = 9), `[<-`(M, 1, 2, value = v[1]))
    for (call in calls) expect_identical(eval(call, list(i = gpu(2L), l = gpu(c(TRUE, FALSE)), v = gpu(c(5, 6)),
      M = M)), eval(call, list(i = 2L, l = c(TRUE, FALSE), v = c(5, 6), M = M)))
  }
  for (class in c("sparseMatrix", "dgCMatrix", "Matrix", "generalMatrix"))
    expect_identical(as(gpu(m), class), as(m, class))
})

test_that("an array is the seed of a DelayedArray", {
  skip_if_not_installed("DelayedArray")
  m <- matrix(as.double(1:12), 3, dimnames = list(letters[1:3], NULL))
  x <- gpu(m)
  delayed <- DelayedArray::DelayedArray(x)
  expect_true(is_gpu(DelayedArray::seed(delayed)))
  expect_identical(DelayedArray::extract_array(x, list(NULL, 2L)), unname(m[, 2, drop = FALSE]))
  expect_identical(DelayedArray::extract_array(x, list(c(3L, 3L, 1L), integer())), unname(m[c(3, 3, 1), integer()]))
  expect_identical(as.matrix(delayed * 2 + 1), m * 2 + 1)
  expect_identical(as.matrix(delayed[2:3, c(1, 4)]), m[2:3, c(1, 4)])
  a <- array(1:24, 2:4)
  expect_identical(as.array(DelayedArray::DelayedArray(gpu(a))[, 2, ]), a[, 2, ])
})

test_that("what R's examples found stays mended", {
  f <- addNA(factor(c("a", NA, "b")))
  found <- list(compare(function(v) table(v, f), list(c(TRUE, FALSE, TRUE)), what = "a level that is NA"),
    compare(function(v) quantile(v, 0.3, type = 1), list(c(1i, 2 + 1i, 3)), what = "complex quantile"),
    compare(any, list(c(1, 0)), what = "any of doubles"), compare(all, list(c(1, NA)), what = "all of doubles"),
    compare(function(v) cbind(v, cos(v * 2 + 1), deparse.level = 2), list(c(1, 2)), ulp = 2, what = "long labels"),
      compare(xtfrm, list(c(a = 1, b = 2)), what = "xtfrm"), compare(function(v) diffinv(v), list(c(1, 2)),
      what = "diffinv"), compare(toeplitz, list(c(1, 2, 3)), what = "toeplitz"), compare(function(v)
      mahalanobis(v, c(0, 1), diag(2)), list(c(1, 2)), what = "mahalanobis"))
  expect_all_same(found)
})

test_that("groups are put back where they were in one assignment", {
  g <- rep_len(c("b", "a", "c"), 20)
  calls <- list(function(v) unsplit(split(v, g), g), function(v) { split(v, g) <- list(1, 2, 3); v }, function(v) {
    split(v, g) <- lapply(split(v, g), rev); v }, function(v) { split(v, g) <- split(v * 1.5, g); v }, function(v) {
    split(v, g) <- list(1:2, 0L); v }, function(v) unsplit(split(v, list(g, rev(g))), list(g, rev(g))))
  expect_all_same(lapply(list(c(1:20), c(1:19, NA) / 2, 1:20 > 5), function(v) lapply(calls, compare, list(v),
    what = "split<-")))
})
