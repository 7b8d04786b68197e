# Code that cannot be compiled: the expression, its line, the reason, and what to write instead. The messages are
# snapshots.

# The message of the refusal; NA where the function compiled.
refusal <- function(f, ...) {
  f <- gpu_compile(f, whole = intersect("v", names(formals(f))))
  message <- tryCatch(
    {
      f(...)
      NA_character_
    },
    verdigris_error_compile = conditionMessage,
    error = function(e) paste("another error:", conditionMessage(e))
  )
  cli::ansi_strip(message)
}

outer_vector <- c(1, 2, 3)
outer_list <- list(a = 1, b = "text")
a_word <- "word"
a_number <- 2
a_factor <- factor(c("a", "b"))
a_frame <- data.frame(x = 1:2)
recursive <- function(n) if (n < 2) 1 else n * recursive(n - 1)
ping <- function(n) pong(n)
pong <- function(n) ping(n)
dotted <- function(x, ...) sum(x, ...)

refused <- list(
  # text and output
  "print" = function(x) {
    print(x)
    x
  },
  "paste" = function(x) paste(x, "units"),
  "string assigned" = function(x) {
    kind <- "low"
    x
  },
  "string compared" = function(x) if (x == "a") 1 else 0,
  "nchar" = function(x) nchar(x),
  "as.character" = function(x) as.character(x),
  "stop with paste" = function(x) if (x < 0) stop(paste("bad", x)) else x,
  "warning" = function(x) {
    if (x < 0) warning("negative")
    x
  },
  "outside string" = function(x) x + a_word,
  # calls
  "no such function" = function(x) no_such_function(x),
  "recursion" = function(n) recursive(n),
  "mutual recursion" = function(n) ping(n),
  "Recall" = function(n) if (n < 2) 1 else n * Recall(n - 1),
  "dots with arguments" = function(x) dotted(x, 1),
  "unused argument" = function(x) {
    f <- function(a) a
    f(x, 2)
  },
  "wrong name of an argument" = function(x) {
    f <- function(a) a
    f(b = x)
  },
  "missing argument" = function(x) {
    f <- function(a, b) a + b
    f(x)
  },
  "sapply" = function(x) sum(sapply(1:3, function(k) k * x)),
  "Reduce" = function(x) Reduce(`+`, c(1, 2, x)),
  "do.call" = function(x) do.call(sum, list(x, 1)),
  "apply" = function(x) apply(matrix(x, 2, 2), 1, sum),
  "tryCatch" = function(x) tryCatch(sqrt(x), error = function(e) 0),
  "Sys.time" = function(x) x + as.numeric(Sys.time()),
  "get" = function(x) get("x"),
  "a function as a value" = function(x) x + sqrt,
  "calling a number" = function(x) {
    y <- x
    (y)(1)
  },
  "a function that gives a function" = function(x) {
    f <- function(a) function(b) a + b
    f(x)(1)
  },
  "function as result" = function(x) function(y) x + y,
  "too many arguments" = function(x) sqrt(x, 2),
  "round with a wrong name" = function(x) round(x, places = 2),
  # assignments
  "<<-" = function(x) {
    count <<- x
    x
  },
  "outside vector changed" = function(x) {
    outer_vector[1] <- x
    x
  },
  "argument taken whole, changed" = function(v) {
    v[1] <- 0
    v[1]
  },
  "element of nothing" = function(x) {
    w[1] <- x
    w[1]
  },
  "NULL that grows" = function(x) {
    v <- NULL
    for (k in 1:3) v[k] <- x
    sum(v)
  },
  "c() that grows" = function(x) {
    v <- c()
    for (k in 1:3) v <- c(v, x)
    sum(v)
  },
  "vector that grows" = function(x) {
    v <- x
    for (k in 1:3) v <- c(v, k)
    sum(v)
  },
  "an element too far" = function(x) {
    v <- numeric(3)
    v[4] <- x
    v
  },
  "names assigned" = function(x) {
    v <- c(1, x)
    names(v) <- c("a", "b")
    v
  },
  "part of a part" = function(x) {
    l <- list(v = c(1, 2))
    l$v[1] <- x
    l$v
  },
  "row of another length" = function(x) {
    m <- matrix(0, 2, 2)
    m[1, ] <- c(x, 1, 2)
    sum(m)
  },
  "vector from a computed length" = function(n) sum(numeric(n)),
  "too long a vector" = function(x) sum(rep(x, 5000)),
  "matrix of a wrong size" = function(x) sum(matrix(c(1, 2, x), 2, 2)),
  # values that may not be there
  "assigned on one way" = function(x) {
    if (x > 0) y <- 1
    y
  },
  "value of if without else" = function(x) {
    y <- if (x > 0) 1
    y + 1
  },
  "result of if without else" = function(x) if (x > 0) x,
  "read before it is assigned, in a loop" = function(x) {
    for (k in 1:3) {
      if (k > 1) x <- x + earlier
      earlier <- x * k
    }
    x
  },
  "a variable outside, assigned in a loop" = function(x) {
    for (k in 1:3) {
      x <- x + a_number
      a_number <- k
    }
    x
  },
  "assigned in a loop" = function(n) {
    for (k in seq_len(n)) y <- k
    y
  },
  "loop variable after the loop" = function(n) {
    for (k in seq_len(n)) {}
    k
  },
  "NULL result" = function(x) NULL,
  "empty function" = function(x) {},
  "a loop as result" = function(x) for (k in 1:3) x <- x + k,
  "never returns" = function(x) repeat x <- x + 1,
  "no such object" = function(x) x + no_such_object,
  # types and forms
  "results that differ" = function(x) if (x > 0) c(1, 2) else 3,
  "names that differ" = function(x) if (x > 0) list(a = 1) else list(b = 1),
  "number or vector" = function(x) {
    y <- if (x > 0) c(1, 2) else 1
    sum(y)
  },
  "vector in a condition" = function(x) if (c(x, 1) > 0) 1 else 0,
  "vector and vector" = function(x) sum(c(1, 2, x) + c(1, x)),
  "complex compared" = function(x) if (complex(real = x, imaginary = 1) > 1) 1 else 0,
  "arithmetic on a function" = function(x) {
    f <- function(a) a
    f + x
  },
  "logical subscript" = function(x) {
    v <- c(1, x, 3)
    v[v > 1]
  },
  "logical subscript in a product" = function(x) {
    v <- c(1, x, 3)
    c(v[v > 1], 2)
  },
  "negative subscript" = function(v, k) sum(v[-k]) + v[-3],
  "subscripts of both signs" = function(v) sum(v[c(-1, 2)]),
  "negative subscript of one element" = function(x) c(x, 2, 3)[[-1]],
  "complex subscript" = function(v) v[1i],
  "string as a subscript" = function(v) v["a"],
  "matrix as a subscript" = function(x) {
    m <- matrix(x, 2, 2)
    m[matrix(1, 1, 2)]
  },
  "rows by a logical" = function(x) {
    m <- matrix(x, 2, 2)
    sum(m[m[, 1] > 0, ])
  },
  "dimensions kept" = function(x) {
    m <- matrix(x, 2, 2)
    ncol(m[1, , drop = FALSE])
  },
  "a logical subscript that is too long" = function(x) {
    m <- matrix(x, 2, 2)
    sum(m[c(x > 0, TRUE, FALSE), 1])
  },
  "covariance" = function(x) var(c(x, 1), c(2, 3)),
  "trimmed mean" = function(x) mean(c(x, 1, 2), trim = 0.5),
  "wrong number of subscripts" = function(x) outer_vector[1, 2] + x,
  "element of a list" = function(x, k) list(x, 2)[[k]],
  "no such element" = function(x) {
    l <- list(a = x)
    l$b
  },
  "$ of a vector" = function(x) outer_vector$a + x,
  "text in a list outside" = function(x) x + outer_list$b,
  "a factor" = function(x) x + a_factor[1],
  "a data frame" = function(x) x + a_frame[1, 1],
  "na.rm that is computed" = function(x) sum(c(x, NA), na.rm = x > 0),
  "finite" = function(x) max(range(c(x, NA), finite = TRUE)),
  "sort" = function(x) sort(c(3, x, 1))[1],
  "which" = function(x) which(c(x, 1) > 0),
  "matrix product" = function(x, v) sum(v %*% matrix(1, 2, 2)),
  "sizes that do not fit" = function(x) sum(matrix(x, 2, 3) %*% matrix(1, 2, 2)),
  "logical subscript of another length" = function(x) {
    v <- c(1, x, 3)
    v[c(x > 0, TRUE, FALSE, TRUE)] <- 0
    v
  },
  "attributes" = function(x) attr(x, "unit"),
  # loops
  "break outside" = function(x) {
    if (x > 0) break
    x
  },
  "loop over a string" = function(x) {
    for (k in "abc") x <- x + 1
    x
  },
  "wrong sign" = function(x) {
    for (k in seq(1, 10, by = -1)) x <- x + k
    x
  },
  "form changes in a loop" = function(x) {
    y <- x
    for (k in 1:3) y <- list(a = k)
    x
  },
  # draws
  "several draws" = function(x) sum(rnorm(3)) + x,
  "draw without parameter" = function(x) rgamma(1) + x,
  "set.seed" = function(x) {
    set.seed(1)
    runif(1)
  },
  "a sample" = function(x) sum(sample(5, 2)) + x,
  # switch
  "switch by a string outside" = function(x) switch(a_word, low = 1, word = 2) + x,
  "switch with two defaults" = function(x) switch("b", a = 1, 2, 3) + x,
  "switch without the alternative" = function(x) switch("b", a = 1) + x,
  "empty alternative" = function(x) switch(x, a = , 2),
  "default that is changed before" = function(x, y = x * 2) {
    x <- x + 1
    x + y
  }
)

test_that("what cannot be compiled says why, where, and what to write instead", {
  expect_gte(length(refused), 60L)
  messages <- vapply(refused, function(f) {
    needed <- vapply(formals(f), function(default) identical(default, quote(expr = )), NA)
    do.call(refusal, c(f, rep(list(1.5), sum(needed))))
  }, "")
  expect_identical(names(messages)[is.na(messages)], character())
  expect_false(any(startsWith(messages, "another error")),
    label = paste(messages[startsWith(messages, "another error")], collapse = "\n"))
  expect_snapshot(writeLines(paste0("# ", names(messages), "\n", messages, "\n")))
})

test_that("arguments that are no numbers are refused", {
  f <- gpu_compile(function(x) x + 1)
  expect_error(f("a"), class = "verdigris_error_argument")
  expect_error(f(list(1, 2)), class = "verdigris_error_argument")
  expect_error(f(factor("a")), class = "verdigris_error_argument")
  expect_error(f(), "argument \"x\" is missing|no value", class = "verdigris_error")
  expect_error(gpu_compile(sum), class = "verdigris_error_argument")
  expect_error(gpu_compile("f"), class = "verdigris_error_argument")
  expect_error(gpu_compile(function(x) x, whole = "y"), class = "verdigris_error_argument")
})
