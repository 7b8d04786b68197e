# Warnings of recorded operations find the handlers that enclose the call, as base R's do: the same conditions in the
# same places.

# What a body does in turn, by `at()`; its value; and the warnings that leave it, or that come when the value is read.
# `make` makes the numbers: base R's vector, or an array.
course <- function(body, make) {
  events <- character()
  at <- function(what) events <<- c(events, what)
  value <- tryCatch(
    withCallingHandlers(
      {
        value <- body(make, at)
        at("read")
        lapply(if (is.list(value)) value else list(value), as.vector)
      },
      warning = function(w) {
        at(paste("outside:", conditionMessage(w)))
        invokeRestart("muffleWarning")
      }
    ),
    error = function(e) conditionMessage(e)
  )
  list(events = events, value = value)
}

odd <- c(-1, 4)
setClass("holder", representation(x = "ANY"))
setGeneric("rooted", function(object, ...) standardGeneric("rooted"))
setMethod("rooted", "holder", function(object, ...) suppressWarnings(sqrt(object@x)))
bodies <- list(
  "suppressWarnings" = function(U, at) suppressWarnings(log(U(odd))),
  "of an operator" = function(U, at) suppressWarnings(U(.Machine$integer.max) + 1L),
  "of two operands" = function(U, at) suppressWarnings(pnorm(U(odd), sd = -1)),
  "of a cast" = function(U, at) suppressWarnings(as.integer(U(c(3e9, 1)))),
  "of a power, and later" = function(U, at) { y <- suppressWarnings(U(odd)^0.5); at("after"); y + 1 },
  "with another class" = function(U, at) {
    y <- suppressWarnings(sqrt(U(odd)), classes = "special")
    at("after")
    y
  },
  "with its own class" = function(U, at) suppressWarnings(sqrt(U(odd)), classes = "simpleWarning"),
  "a function that is called" = function(U, at) {
    f <- function(v) sqrt(v) + g(v)
    g <- function(v) log(v)
    suppressWarnings(f(U(odd)))
  },
  "a function in a function" = function(U, at) {
    f <- function(v) { y <- suppressWarnings(sqrt(v)); at("sqrt"); y + log(v) }
    tryCatch(f(U(odd)), warning = function(w) at(conditionMessage(w)))
  },
  "a promise" = function(U, at) {
    quietly <- function(v) suppressWarnings({ at("force"); v })
    quietly(sqrt(U(odd)))
  },
  "a promise that was forced" = function(U, at) {
    quietly <- function(v) { force(v); at("forced"); suppressWarnings(v) }
    quietly(sqrt(U(odd)))
  },
  "eval() in the same frame" = function(U, at) {
    x <- U(odd)
    quietly <- function(e) suppressWarnings(eval(substitute(e), parent.frame()))
    list(quietly(sqrt(x)), { y <- sqrt(x); at("loud"); y }, quietly(log(x)), quietly(evalq(sqrt(x))))
  },
  "local()" = function(U, at) suppressWarnings(local({ y <- U(odd); sqrt(y) })),
  "local() inside" = function(U, at) local({ y <- suppressWarnings(sqrt(U(odd))); at("after"); log(y) }),
  "a loop" = function(U, at) {
    y <- U(odd)
    for (k in 1:3) { y <- if (k == 2L) suppressWarnings(sqrt(y - 2)) else sqrt(y); at(paste("turn", k)) }
    y
  },
  "handlers that change from turn to turn" = function(U, at) {
    x <- U(odd)
    one <- function() sqrt(x)
    for (k in 1:4) {
      if (k %% 2) suppressWarnings(one()) else tryCatch(one(), warning = function(w) at(paste("caught in", k)))
      at(paste("turn", k))
    }
    0
  },
  "lapply" = function(U, at) suppressWarnings(lapply(list(U(odd), U(odd - 1)), sqrt)),
  "lapply inside" = function(U, at) lapply(list(odd, odd - 1), function(v) {
    y <- suppressWarnings(sqrt(U(v)))
    at("one")
    y
  }),
  "Map and Reduce" = function(U, at) suppressWarnings(Map(function(a, b) log(a - b), list(U(odd)), list(1))),
  "do.call" = function(U, at) suppressWarnings(do.call(sqrt, list(U(odd)))),
  "do.call by name" = function(U, at) suppressWarnings(do.call("sqrt", list(U(odd)))),
  "an S4 method" = function(U, at) rooted(new("holder", x = U(odd))),
  "tryCatch" = function(U, at) tryCatch({ y <- sqrt(U(odd)); at("not here"); y },
    warning = function(w) conditionMessage(w)),
  "tryCatch of another class" = function(U, at) tryCatch({ y <- sqrt(U(odd)); at("after"); y },
    error = function(e) "no"),
  "tryCatch by condition" = function(U, at) tryCatch(log(U(odd)), condition = function(w) class(w)),
  "tryCatch, another name" = function(U, at) { guard <- tryCatch; guard(sqrt(U(odd)), warning = function(w) "caught") },
  "tryCatch, finally" = function(U, at) tryCatch(sqrt(U(odd)), finally = at("finally"), warning = function(w) "caught"),
  "in a handler that exits" = function(U, at) tryCatch(stop("a"),
    error = function(e) { y <- sqrt(U(odd)); at("after"); y }, warning = function(w) "of the same tryCatch"),
  "a handler that muffles" = function(U, at) withCallingHandlers({ y <- sqrt(U(odd)); at("after"); y },
    warning = function(w) { at(conditionMessage(w)); tryInvokeRestart("muffleWarning") }),
  "a handler that looks on" = function(U, at) withCallingHandlers({ y <- sqrt(U(odd)); at("after"); y },
    warning = function(w) at("seen")),
  "suppressed inside a handler" = function(U, at) withCallingHandlers(
    { y <- suppressWarnings(sqrt(U(odd))); at("after"); y }, warning = function(w) at("seen")),
  "a handler inside suppressWarnings" = function(U, at) suppressWarnings(withCallingHandlers(
    { y <- sqrt(U(odd)); at("after"); y }, warning = function(w) at("seen"))),
  "while a handler outside runs" = function(U, at) {
    y <- NULL
    withCallingHandlers(suppressWarnings(message("a")), message = function(m) {
      y <<- sqrt(U(odd))
      at("handled")
      tryInvokeRestart("muffleMessage")
    })
    y
  },
  "while a handler of an error runs" = function(U, at) {
    y <- NULL
    handler <- function(e) { y <<- sqrt(U(odd)); at("handled") }
    try(withCallingHandlers(suppressWarnings(base::log("a")), error = handler), silent = TRUE)
    y
  },
  "while a handler inside runs" = function(U, at) {
    y <- NULL
    suppressWarnings(withCallingHandlers(message("a"), message = function(m) {
      y <<- sqrt(U(odd))
      at("handled")
      tryInvokeRestart("muffleMessage")
    }))
    y
  },
  "the call" = function(U, at) {
    x <- U(odd)
    n <- U(.Machine$integer.max)
    calls <- list()
    keep <- function(w) { calls <<- c(calls, list(conditionCall(w))); tryInvokeRestart("muffleWarning") }
    withCallingHandlers({ sqrt(x); log(x); x^0.5; gamma(x - 3); n + 1L }, warning = keep)
    vapply(calls, deparse1, "")
  },
  "try_fetch" = function(U, at) rlang::try_fetch(sqrt(U(odd)), warning = function(w) "caught"),
  "catch_cnd" = function(U, at) class(rlang::catch_cnd(sqrt(U(odd)))),
  "try" = function(U, at) try(sqrt(U(odd)), silent = TRUE),
  "warn = 2" = function(U, at) {
    withr::local_options(warn = 2)
    r <- rep("", 2L)
    r[1L] <- tryCatch({ y <- sqrt(U(odd)); at("not here"); "no" }, error = conditionMessage,
      warning = function(w) "caught")
    r[2L] <- { y <- suppressWarnings(sqrt(U(odd))); at("after"); "yes" }
    r
  }
)

test_that("handlers see the warnings of recorded operations where base R's are", {
  for (name in names(bodies)) {
    # from the second time on what was found for a frame may be known
    for (time in 1:2) expect_identical(course(bodies[[name]], gpu), course(bodies[[name]], identity), info = name)
  }
})

test_that("one after the other in the same function they do, too", {
  all <- function(U, at) lapply(names(bodies), function(name) { at(name); bodies[[name]](U, at) })
  expect_identical(course(all, gpu)$events, course(all, identity)$events)
})

test_that("warnings are errors where R was told so", {
  withr::local_options(warn = 2)
  x <- gpu(odd)
  expect_error(sqrt(x), "converted from warning.*NaNs produced")
  expect_s3_class(try(log(x), silent = TRUE), "try-error")
  expect_identical(as.vector(suppressWarnings(sqrt(x))), c(NaN, 2))
})

test_that("expectations take the warnings that the code gives", {
  x <- gpu(odd)
  expect_warning(y <- sqrt(x), "NaNs produced")
  expect_no_warning(as.vector(y))
  expect_silent(y <- suppressWarnings(log(x)))
  expect_silent(as.vector(y))
  expect_silent(sqrt(gpu(4)))
  expect_no_warning(sqrt(gpu(4)))
})

test_that("a frontend's handlers do not count: recorded is recorded", {
  recorded <- function(x) length(gpu_explain(x)$kernels) == 1L
  x <- gpu(odd)
  y <- log(sqrt(x) + 1) # test_that() has a handler of warnings
  expect_true(recorded(y))
  expect_true(recorded(suppressWarnings(log(sqrt(x) + 1))))
  expect_false(recorded(tryCatch(sqrt(abs(x)), warning = identity)))
  suppressWarnings(as.vector(y))
  skip_if_not_installed("evaluate")
  env <- list2env(list(x = x, recorded = recorded))
  out <- evaluate::evaluate("f <- function() log(sqrt(x) + 1)\ny <- f()\nr <- recorded(y)\nas.vector(y)", env)
  expect_true(env$r)
  said <- Filter(function(o) inherits(o, "warning"), out)
  expect_identical(unique(vapply(said, conditionMessage, "")), "NaNs produced")
  # handlers in a document are the user's
  out <- evaluate::evaluate("z <- tryCatch(sqrt(x), warning = function(w) 'caught')", env)
  expect_identical(env$z, "caught")
})

test_that("integers that doubles do not hold are suppressed like others", {
  x <- as_gpu(c(2^53 + 2, 1), dtype = "int64", device = test_device) + 1L
  expect_silent(suppressWarnings(gpu_compute(x * 0.5)))
  expect_identical(tryCatch(gpu_compute(x * 0.5), verdigris_warning_precision = function(w) "caught"), "caught")
  expect_identical(tryCatch({ y <- x * 0.5; "late" }, warning = function(w) "caught"), "caught")
  y <- suppressWarnings(x * 0.5)
  expect_silent(as.vector(y))
  # sums of groups, which are recorded without a call
  big <- as_gpu(matrix(9e18, 2, 2), dtype = "int64", device = test_device)
  sums <- list(function() rowSums(big), function() colSums(big), function() rowsum(big, c(1, 1)),
    function() gpu_group(big[, 1], c(1, 1), "sum"), function() colMeans(x + matrix(0L, 2, 2)))
  # of several columns on a GPU it comes when they are read
  if (test_device != "cpu") sums[[3L]] <- function() rowsum(big[, 1], c(1, 1))
  for (f in sums) {
    y <- suppressWarnings(f())
    expect_silent(gpu_compute(y))
    expect_identical(tryCatch({ f(); "late" }, warning = function(w) "caught"), "caught", info = deparse1(f))
  }
})
