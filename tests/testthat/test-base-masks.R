# Masks: a call without an array gives the same result as without this package, whatever is attached before or behind
# it; calls with arrays reach this package where it is in front. Each child process makes the calls of some packages
# without this one, with it attached after them, and with it attached before.

# The calls of a package's functions whose names this package has too, and of base R's on that package's classes.
calls_of <- list(
  bit64 = list(quote({
    x <- as.integer64(c(3, 1, 2, -5))
  }), quote({
    order(x)
    order(x, decreasing = TRUE)
    match(as.integer64(2), x)
    as.integer64(2) %in% x
    match(2, x)
    rank(x)
    rank(c(b = 2, a = 1))
    unlist(list(x, 2))
    table(x)
    which(x > 1)
    pmin(x, 2L)
    matrix(x, 2)
    order(1:3, nosuch = 2)
    order(not_there)
    match()
    ifelse(x > 1, 1, 2)
    outer(x, 1:2)
    sapply(x, class)
    tapply(x, c(1, 1, 2, 2), length)
    apply(matrix(1:4, 2), 1, order)
  }), quote({
    order(a)
    match(a, 1:3)
    a %in% 2
    match(2, a)
    rank(a)
  })),
  data.table = list(quote(dt <- data.table(a = c(3, 1, 2), g = c(1, 1, 2))), quote({
    as.data.frame(dt[order(-a)])
    as.data.frame(dt[, .(s = sd(a), v = var(a)), by = g])
    as.data.frame(dt[order(g, -a), .(m = outer(a, a)[1])])
    as.data.frame(dt[a %in% c(1, 2)])
    dt[, table(g)]
    dt[order(nosuch)]
    aggregate(a ~ g, dt, sum)
    with(dt, ave(a, g))
    all.equal(dt, dt[1:2])
    apply(dt, 1, sum)
    sapply(dt, class)
    complete.cases(dt)
    table(dt)
  }), quote({
    order(a)
  })),
  zoo = list(quote({
    z <- zoo(c(3, 1, NA, 2), as.Date("2020-01-01") + 0:3)
    zm <- zoo(matrix(1:8 + 0, 4), as.Date("2020-01-01") + 0:3)
  }), quote({
    order(z)
    aggregate(z, function(d) format(d, "%m"), sum, na.rm = TRUE)
    rollapply(zm, 2, sum)
    ifelse(z > 1, z, 0)
    which.max(z)
    pmin(z, 2)
    rowSums(zm)
    var(zm)
    filter(zm[, 1], c(1, 1))
    sweep(zm, 2, 1:2)
    matrix(z, 2)
    na.approx(z)
    all.equal(z, z * 2)
    crossprod(zm)
    IQR(z, na.rm = TRUE)
    fft(z)
    atan2(z, 1)
    toeplitz(z)
  }), quote({
    pmin(a, 2)
  })),
  dplyr = list(quote(n <- 0), quote({
    filter(mtcars, mpg > 30)
    filter(mtcars, cyl == 4, mpg > 30)
    mtcars %>% group_by(cyl) %>% filter(mpg == max(mpg))
    filter(mtcars, nosuch > 3)
    filter(mtcars, cyl = 4)
    filter()
    filter(1:10, rep(1 / 3, 3))
    filter(mtcars, letters)
    (function(mpg) filter(mtcars, mpg > 30))(3)
    (function(d, ...) filter(d, ...))(mtcars, mpg > 30)
    (function(d, v) filter(d, {{ v }} > 30))(mtcars, mpg)
    lapply(list(mtcars), filter, mpg > 32)
    do.call("filter", list(mtcars, quote(mpg > 32)))
    filter({
      n <<- n + 1
      mtcars
    }, mpg > n + 29)
    filter({
      warning("one")
      mtcars
    }, {
      warning("two")
      mpg > 32
    })
    filter(stop("here"), 2)
    filter(mpg > 32, .data = mtcars)
    stats::filter(1:5, 1)
    collect(tibble(a = 1))
    collect(1)
    summarise(mtcars, s = sd(mpg), w = which.max(mpg), t = list(table(cyl)))
    mutate(mtcars[1:2, ], r = rank(mpg), p = pmin(mpg, 21), f = ifelse(mpg > 21, "a", "b"), m = match(cyl, 4))
    all.equal(tibble(a = 1), tibble(a = 2))
    aggregate(mpg ~ cyl, mtcars, mean)
  }), quote({
    filter(a, c(1, 1))
    (function(v) filter(v, rep(1, 2)))(a)
  })),
  MASS = list(quote(fit <- lm(mpg ~ wt, mtcars)), quote({
    ginv(matrix(1:4, 2))
    lda(Species ~ ., iris)$scaling
    rlm(mpg ~ wt, mtcars)$coefficients
    mahalanobis(iris[1:3, 1:4], colMeans(iris[, 1:4]), cov(iris[, 1:4]))
    eigen(cov(iris[, 1:4]))$values
    isoMDS(dist(as.matrix(mtcars[1:6, 1:3])), trace = FALSE)$stress
    lm.fit(cbind(1, mtcars$wt), mtcars$mpg)$coefficients
  }), quote({
    norm(matrix(a))
  })),
  survival = list(quote(s <- with(lung, Surv(time, status))), quote({
    order(s)[1:3]
    match(1, s)
    survfit(s ~ sex, lung)$surv[1:3]
    coxph(s ~ age, lung)$coefficients
    aggregate(time ~ sex, lung, mean)
    unlist(list(s))[1:3]
    pmin(s, 1)[1:3]
    complete.cases(lung)[1:4]
    quantile(survfit(s ~ 1))
  }), quote({
    order(a)
  })),
  Matrix = list(quote({
    S <- as(Matrix(c(2, 0, 1, 0, 3, 0, 0, 1, 4), 3, sparse = TRUE), "generalMatrix")
    dimnames(S) <- list(letters[1:3], LETTERS[1:3])
    D <- Diagonal(3)
    m <- matrix(c(2, 1, 0, 1, 3, 0, 0, 0, 1), 3)
  }), quote({
    crossprod(S)
    crossprod(S, 1:3)
    crossprod(m)
    tcrossprod(m, S)
    diag(S)
    diag(3)
    diag(S, names = FALSE)
    norm(S)
    norm(S, "F")
    norm(m, "I")
    qr.coef(qr(S), 1:3)
    qr.qty(qr(S), c(1, 2, 3))
    qr.fitted(qr(S), 1:3)
    qr.R(qr(S))
    qr.coef(qr(m), 1:3)
    qr.solve(S, 1:3)
    rowSums(S, na.rm = TRUE)
    colMeans(D)
    kronecker(S, D)
    kronecker(m, 1:2)
    which(S > 1)
    chol2inv(chol(crossprod(S)))
    rcond(S)
    toeplitz(1:3)
    all.equal(S, S * 2)
    S %x% D
    apply(S, 1, sum)
    norm("a")
    diag(-1)
    crossprod("a")
    qr.coef(1, 2)
    do.call(diag, list(S))
    Reduce(crossprod, list(S, S))
    sapply(list(S, D), norm)
    (function(...) diag(...))(S, names = FALSE)
    isGeneric("norm")
  }), quote({
    crossprod(matrix(a))
    diag(a)
    rowSums(matrix(a, 1))
    kronecker(a, a)
    norm(matrix(a))
  }))
)

# Arrays beside another package's objects go to that package; so these give ordinary values.
mixed_calls <- quote({
  crossprod(S, a)
  tcrossprod(S, as_gpu(m))
  kronecker(S, a)
  qr.coef(qr(S), a)
  qr.qy(qr(S), a)
  qr.fitted(qr(S), a)
  qr.solve(S, a)
})

child_of <- function(packages) {
  step <- function(package) {
    parts <- calls_of[[package]]
    bquote({
      library(.(package), character.only = TRUE)
      before <- ls(globalenv())
      .(parts[[1L]])
      calls <- as.list(quote(.(parts[[2L]])))[-1L]
      want <- outcomes_of(calls)
      library(verdigris)
      .(parts[[1L]])
      compare_outcomes(calls, want, outcomes_of(calls), .(paste(package, "before verdigris")))
      a <- as_gpu(c(3, 1, 2), device = .(test_device))
      for (call in as.list(quote(.(parts[[3L]])))[-1L]) {
        host <- eval(call, list(a = c(3, 1, 2), filter = stats::filter))
        got <- eval(call)
        if (!isTRUE(all.equal(collect(got), host, check.attributes = FALSE)) || !is_gpu(got) && length(got) > 1L)
          cat("not verdigris': ", deparse(call), "\n")
      }
      .(if (package == "Matrix") {
        bquote(for (call in as.list(quote(.(mixed_calls)))[-1L]) {
          host <- eval(call, list(a = c(3, 1, 2), as_gpu = identity))
          if (!isTRUE(all.equal(eval(call), host))) cat("not Matrix's: ", deparse(call), "\n")
        })
      })
      detach(.(paste0("package:", package)), character.only = TRUE)
      library(.(package), character.only = TRUE)
      .(parts[[1L]])
      compare_outcomes(calls, want, outcomes_of(calls), .(paste(package, "behind verdigris")))
      detach("package:verdigris")
      detach(.(paste0("package:", package)), character.only = TRUE)
    })
  }
  c(
    list(outcome_code, quote(library <- function(...)
      suppressWarnings(suppressPackageStartupMessages(base::library(..., warn.conflicts = FALSE))))),
    lapply(packages, step)
  )
}

here <- function(packages) Filter(function(package) nzchar(system.file(package = package)), packages)

for (packages in list(c("bit64", "data.table", "zoo"), c("dplyr", "MASS", "survival"), "Matrix")) {
  test_that(paste("calls are as without this package:", paste(packages, collapse = " ")), {
    packages <- here(packages)
    skip_if(!length(packages), "none of the packages is installed")
    out <- expect_child_ends(unlist(lapply(child_of(packages), deparse)), attach = FALSE, timeout = 120)
    expect_identical(grep("verdigris|not Matrix's", out, value = TRUE), character())
  })
}

test_that("a function of any masked name sees the call, the frames and the promises as if this package were not there",
  {
  out <- expect_child_ends(quote({
    behind <- function(f, name) attach(stats::setNames(list(f), name), pos = match("package:verdigris", search()) + 1L,
      name = "probe", warn.conflicts = FALSE)
    # what a function can find out about its call
    seen <- quote({
      before <- names(list(...))
      given <- list(call = sys.call(), matched = match.call(), n = nargs(), caller = parent.frame(),
        itself = sys.function(), missing = c(missing(first), missing(second)))
      c(given, list(code = substitute(list(first, second, ...)), second = second, first = if (!missing(first)) first,
        names = before, local = ls()))
    })
    probes <- list(function(first, ..., second = first) NULL, function(first, second = nargs(), ...) NULL,
      function(first = 2, second = letters, ...) NULL)
    same <- function(a, b) identical(a, b, ignore.environment = FALSE, ignore.bytecode = TRUE, ignore.srcref = TRUE)
    names <- intersect(names(verdigris:::MASKED), ls("package:verdigris"))
    count <- 0
    for (name in setdiff(names, verdigris:::PLAIN)) for (k in seq_along(probes)) {
      probe <- probes[[k]]
      body(probe) <- seen
      behind(probe, name)
      calls <- lapply(list(quote(f(1 + 1)), quote(f(second = 3, 1)), quote(f()), quote(f(1, 2, z = 3)),
        quote(f(1, , 2)), quote(f({
        count <<- count + 1
        7
      }))), function(call) {
        call[[1L]] <- as.name(name)
        call
      })
      run <- function(call, f) local({
        if (!is.null(f)) assign(name, f)
        frame <- environment()
        got <- tryCatch(eval(call), error = function(e) list(conditionMessage(e), conditionCall(e)))
        if (identical(got$caller, frame)) got$caller <- "right"
        got
      })
      for (call in calls) {
        want <- run(call, probe)
        got <- run(call, NULL)
        if (!same(want, got)) {
          cat("differs:", name, k, deparse(call), "\n")
        }
      }
      detach("probe")
    }
    # each was evaluated once, with and without
    cat("evaluated", count == 6 * length(setdiff(names, verdigris:::PLAIN)), "\n")
    # a function that never looks at its second argument
    behind(function(x, y) x, "outer")
    outer(1, stop("evaluated"))
    detach("probe")
    behind(sum, "norm")
    cat("primitive", norm(1, 2) == 3, "\n")
    detach("probe")
    cat("base again", identical(order, verdigris::order), "\n")
  }))
  expect_identical(grep("differs", out, value = TRUE), character())
  expect_identical(grep("evaluated|primitive|again", out, value = TRUE), c("evaluated TRUE ", "primitive TRUE ",
    "base again TRUE "))
})

test_that("attaching, detaching, copies and assignments leave the right function in front", {
  out <- expect_child_ends(quote({
    say <- function(what, ok) if (!isTRUE(ok)) cat("wrong:", what, "\n")
    x <- as_gpu(c(3, 1, 2), device = "cpu")
    say("active", bindingIsActive("order", as.environment("package:verdigris")))
    say("locked", inherits(try(assign("order", 1, as.environment("package:verdigris")), silent = TRUE), "try-error"))
    library(verdigris)
    say("attached twice", is_gpu(order(x)))
    # a copy of the exports behind, and a list in front
    attach(as.environment("package:verdigris"), pos = 3L, name = "copy", warn.conflicts = FALSE)
    say("copy", is_gpu(order(x)) && identical(order(3:1), 3:1))
    attach(list(order = function(...) "theirs"), pos = 4L, name = "theirs", warn.conflicts = FALSE)
    say("behind a copy", is_gpu(order(x)) && order(1) == "theirs")
    say("by full name", identical(verdigris::order(3:1), 3:1))
    kept <- order
    detach("theirs")
    say("kept as it was found", kept(1) == "theirs" && identical(order(3:1), 3:1))
    detach("copy")
    imported <- verdigris::order
    say("imported", identical(imported(3:1), 3:1) && is_gpu(imported(x)))
    detach("package:verdigris")
    say("detached", identical(order, base::order))
    suppressMessages(library(verdigris))
    say("attached again", is_gpu(order(x)))
    detach("package:stats")
    say("without stats", is_gpu(filter(x, 1)) && all(filter(1:3, 1) == 1:3))
    library(stats, warn.conflicts = FALSE)
    say("stats in front", !is_gpu(filter(1:3, 1)))
    trace("order", quote(cat("")), print = FALSE, where = as.environment("package:verdigris"))
    say("traced", inherits(order, "functionWithTrace") && identical(order(3:1), 3:1) && is_gpu(order(x)))
    untrace("order", where = as.environment("package:verdigris"))
    # generics that a user makes
    setClass("thing", representation(a = "numeric"))
    for (name in c("diag", "norm", "outer", "rank", "svd")) suppressMessages(setGeneric(name))
    setMethod("diag", "thing", function(x = 1, nrow, ncol, names = TRUE) "thing")
    say("a user's method", diag(new("thing")) == "thing" && identical(diag(2), base::diag(2)))
    say("arrays", identical(collect(diag(x)), base::diag(c(3, 1, 2))) && identical(as.vector(collect(outer(x, 1:2))),
      c(3, 1, 2, 6, 2, 4)))
    say("rank", identical(collect(rank(x)), c(3, 1, 2)) && norm(diag(2)) == 1 && norm(as_gpu(diag(2))) == 1)
  }))
  expect_identical(grep("wrong", out, value = TRUE), character())
})

test_that("where dplyr is in front arrays come here by its generics", {
  skip_if_not_installed("dplyr")
  out <- expect_child_ends(quote({
    suppressMessages(library(dplyr))
    x <- as_gpu(c(3, 1, 2), device = "cpu")
    cat("same", identical(as.vector(filter(x, c(1, 1))), as.vector(stats::filter(c(3, 1, 2), c(1, 1)))),
      identical(collect(x), c(3, 1, 2)), "\n")
  }))
  expect_true("same TRUE TRUE " %in% out)
})

test_that("library() speaks of a masked function only where it cannot be handed on", {
  said <- function(code) in_child(code, attach = FALSE)
  expect_false(any(grepl("masked", said(quote(library(verdigris))))))
  expect_false(any(grepl("masked", said(quote({
    attach(list(order = function(...) 1), name = "a", warn.conflicts = FALSE)
    library(verdigris)
  })))))
  expect_true(any(grepl("gpu_seq", said(quote({
    attach(list(gpu_seq = function(...) 1), name = "a", warn.conflicts = FALSE)
    library(verdigris)
  })))))
})

test_that("an argument that fails is reported in base R's words, with the call", {
  calls <- expression(
    unlist(stop("x")), aggregate(stop("x")), complete.cases(stop("x")), order(nosuch), order(stop("x"), 1),
      match(1, nosuch), match(nosuch), match(), table(nosuch), matrix(nosuch), array(stop("x")),
    outer(1, nosuch), diag(nosuch), apply(nosuch, 1, sum), tapply(nosuch, 1), which(nosuch), which("a"), rowSums(1),
      ifelse(nosuch, 1, 2), pmin(nosuch), pmin(), rank(nosuch), all.equal(nosuch, 1),
    norm("a"), fft("a"), dnorm(nosuch), atan2(nosuch, 1), rle(nosuch), which.max(nosuch), embed(nosuch),
      upper.tri(nosuch), findInterval(nosuch, 1), sweep(nosuch, 1, 2), var("a"), colMeans("a")
  )
  code <- bquote(for (call in as.list(.(calls))) cat("heard:", deparse(call),
    tryCatch(eval(call), error = function(e) c(conditionMessage(e), deparse(conditionCall(e)))), "\n"))
  heard <- function(attach) grep("^heard", in_child(code, attach = attach), value = TRUE)
  want <- heard(FALSE)
  expect_length(want, length(calls))
  expect_identical(heard(TRUE), want)
})

test_that("package Matrix in front of this one is pointed out", {
  skip_if_not_installed("Matrix")
  said <- function(...) paste(in_child(c(...), attach = FALSE), collapse = "\n")
  front <- "Diagonal\\(\\), drop0\\(\\).* of Matrix do not take arrays. Attach verdigris after Matrix"
  expect_match(said("library(verdigris)", "library(Matrix)"), front)
  expect_no_match(said("library(Matrix)", "library(verdigris)"), front)
  expect_no_match(said("library(verdigris)", "suppressPackageStartupMessages(library(Matrix))"), front)
  expect_no_match(said("library(verdigris)", "detach('package:verdigris')", "library(Matrix)"), front)
})
