# Random programs in the language of gpu_compile(). A variable keeps its type, since on a device a variable of two types
# has the wider one. Operations that R computes in long double, or leaves to the machine, are left out.

random_function <- function(seed) {
  set.seed(seed)
  one <- function(x) x[[sample.int(length(x), 1L)]]
  chance <- function(p) stats::runif(1) < p
  types <- c("integer", "double", "logical")
  scope <- list(integer = c("a", "a2"), double = c("b", "b2"), logical = "p")
  fixed <- c("a2", "b2") # parameters that stay as they are
  vectors <- list()
  counters <- 0L
  fresh <- function(prefix) {
    counters <<- counters + 1L
    paste0(prefix, counters)
  }
  code <- function(...) as.call(c(as.name(..1), list(...)[-1L]))
  name <- function(x) as.name(x)
  helpers <- list()

  literal <- function(type) switch(type,
    integer = one(c(0L, 1L, 2L, 3L, 7L, 46341L, NA)), double = one(list(0, 1, 0.5, -2, 1e10, 3, Inf, NA_real_, pi)),
    logical = one(c(TRUE, FALSE, NA)))
  variable <- function(type) if (length(scope[[type]])) name(one(scope[[type]])) else literal(type)
  of_type <- function(type) Filter(function(v) v$type == type, vectors)
  element <- function(type, depth) {
    v <- one(of_type(type))
    # mostly within, sometimes beyond
    at <- if (chance(0.5)) one(seq_len(v$length)) else if (chance(0.8)) bquote(.(expr("integer",
      depth - 1L)) %% .(v$length) + 1L) else v$length + 1L
    if (is.null(v$rows)) return(code("[", name(v$name), at))
    code("[", name(v$name), bquote(.(expr("integer", 0L)) %% .(v$rows) + 1L), one(seq_len(v$length %/% v$rows)))
  }
  # a subscript that takes several elements of a vector, or none
  several <- function(v, depth) {
    x <- name(v$name)
    alike <- Filter(function(w) w$type == "logical" && w$length == v$length, vectors)
    masks <- list(
      quote(code("is.na", x)), quote(code("!", code("is.na", x))),
      quote(code(if (v$type == "logical") "!=" else one(c(">", "<=", "==")), x, expr(v$type, 0L))),
      quote(code("c", TRUE, expr("logical", 0L))),
      quote(expr("logical", 0L)), quote(code("&", code("!", code("is.na", x)), expr("logical", 0L))),
      quote(if (length(alike)) name(one(alike)$name) else TRUE), quote(code("rev", code("is.na", x))),
      quote(code("-", one(seq_len(v$length + 1L)))),
      quote(code("-", code("(", bquote(.(expr("integer", depth - 1L)) %% .(v$length + 1L))))),
      quote(code("-", code("c", 1L, v$length))), quote(code("-", code("which", code("is.na", x)))),
      quote(code("-", bquote(seq_len(.(one(0:2)))))), quote(code("which", code("is.na", x))), quote(0L)
    )
    eval(one(masks))
  }
  taken <- function(v, depth) code("[", name(v$name), several(v, depth))
  expr <- function(type, depth) {
    if (depth <= 0L) return(if (chance(0.75)) variable(type) else literal(type))
    if (chance(0.2) && length(of_type(type))) return(element(type, depth))
    if (chance(0.08) && length(of_type(type))) return(code("[", taken(one(of_type(type)), depth), one(1:2)))
    if (chance(0.08)) return(code("if", test(depth - 1L), expr(type, depth - 1L), expr(type, depth - 1L)))
    if (chance(0.05)) return(code("ifelse", expr("logical", depth - 1L), expr(type, depth - 1L),
      expr(type, depth - 1L)))
    if (chance(0.1) && length(h <- Filter(function(h) h$type == type, helpers))) {
      h <- one(h)
      return(as.call(c(name(h$name), lapply(h$takes, expr, depth = depth - 1L))))
    }
    if (chance(0.04)) {
      temporary <- fresh("t")
      return(code("{", code("<-", name(temporary), expr(type, depth - 1L)), code("(", name(temporary))))
    }
    e <- function(t) expr(t, depth - 1L)
    switch(type,
      integer = one(list(
        quote(code("+", e("integer"), e("integer"))), quote(code("-", e("integer"), e("integer"))),
        quote(code("*", e("integer"), e("integer"))),
        quote(code("%/%", e("integer"), e("integer"))), quote(code("%%", e("integer"), e("integer"))),
        quote(code("-", e("integer"))),
        quote(code("abs", e("integer"))), quote(code("as.integer", e("logical"))),
        quote(code("max", e("integer"), e("integer"))),
        quote(code("min", e("integer"), e("integer"), e("integer"))), quote(code("+", e("logical"), e("integer"))),
        quote(code("bitwAnd", code("as.integer", e("integer")), code("as.integer", e("integer")))),
        quote(whole_of(depth)), quote(code("sum", code("c", e("logical"), e("logical"))))
      )),
      double = one(list(
        quote(code("+", e("double"), e("double"))), quote(code("-", e("double"), e("integer"))),
        quote(code("*", e("double"), e("double"))),
        quote(code("/", e("integer"), e("integer"))), quote(code("/", e("double"), e("double"))),
        quote(code("-", e("double"))), quote(code("abs", e("double"))),
        quote(code("sqrt", e("double"))), quote(code("floor", e("double"))), quote(code("trunc", e("double"))),
        quote(code("as.numeric", e("integer"))),
        quote(code("^", e("double"), 2)), quote(code("max", e("double"), e("integer"))),
        quote(code("min", e("double"), e("double"))),
        quote(code("%%", code("max", code("min", e("double"), 1000), -1000), one(c(7, 0.5, -3))))
      )),
      logical = one(list(
        quote(code(one(c("<", ">", "<=", ">=", "==", "!=")), e("integer"), e("integer"))),
        quote(code(one(c("<", ">", "<=", "!=")), e("double"), e("double"))),
        quote(code("&", e("logical"), e("logical"))), quote(code("|", e("logical"), e("logical"))),
        quote(code("&&", e("logical"), e("logical"))),
        quote(code("||", e("logical"), e("logical"))), quote(code("!", e("logical"))),
        quote(code("xor", e("logical"), e("logical"))),
        quote(code("is.na", e(one(types)))), quote(code("isTRUE", e("logical"))),
        quote(code("any", e("logical"), e("logical"))), quote(code("all", e("logical"), e("logical"))),
        quote(code("%in%", e("integer"), code("c", e("integer"), 2L))),
        quote(if (length(vectors)) code(one(c("any", "all")),
          code("is.na", taken(one(vectors), depth))) else e("logical")),
          quote(if (length(of_type("double"))) code("any",
          code(">", taken(one(of_type("double")), depth), e("double"))) else e("logical"))
      ))
    ) |> eval()
  }
  # a whole number of a vector
  whole_of <- function(depth) {
    v <- of_type("integer")
    if (!length(v)) return(expr("integer", depth - 1L))
    v <- one(v)
    if (chance(0.4)) return(one(list(code("sum", code("%%", taken(v, depth), 1000L)), code("length", taken(v, depth)),
      as.call(list(as.name("sum"), code("%%", taken(v, depth), 7L), na.rm = TRUE)))))
    v <- name(v$name)
    # R's sum() of integers is a double where it is large
    one(list(code("sum", code("%%", v, 1000L)), code("max", v), code("length", v),
      code("sum", code("%%", code("*", v, expr("integer", 0L)), 1000L)), code("min", code("rev", v)),
      code("[", code("cumsum", code("%%", v, 7L)), 2L)))
  }
  # a condition, which mostly is not NA
  test <- function(depth) {
    value <- expr("logical", depth)
    if (chance(0.7)) code("isTRUE", value) else if (chance(0.5)) code("||", code("is.na", value), value) else value
  }
  block <- function(depth, loop, size = sample.int(3L, 1L)) as.call(c(as.name("{"),
    unlist(lapply(seq_len(size), function(k) statement(depth, loop)), recursive = FALSE)))
  assignable <- function(type) setdiff(scope[[type]], fixed)
  statement <- function(depth, loop) {
    kind <- sample(c("assign", "if", "for", "while", "repeat", "element", "vector", "leave", "return"), 1L,
                   prob = c(6, if (depth > 0L) c(3, 1.5, 0.7, 0.7) else c(0, 0, 0, 0), if (length(vectors)) 2 else 0,
                     if (length(vectors)) 0.7 else 0, if (loop) 1 else 0, 0.4))
    switch(kind,
      assign = {
        type <- one(types)
        target <- assignable(type)
        if (!length(target)) return(list())
        list(code("<-", name(one(target)), expr(type, 2L)))
      },
      "if" = list(if (chance(0.5)) code("if", test(2L), block(depth - 1L, loop),
        block(depth - 1L, loop)) else code("if", test(2L), block(depth - 1L, loop))),
      "for" = {
        k <- fresh("k")
        over <- one(list(quote(1:3), quote(3:1), quote(seq_len(2L)), quote(seq(1L, 7L, by = 3L)),
          bquote(seq_len(2L * isTRUE(.(expr("logical", 1L))) + 1L)), quote(c(4L, NA, 2L))))
        if (chance(0.2) && length(v <- of_type("integer"))) over <- if (chance(0.5)) taken(one(v),
          1L) else name(one(v)$name)
        scope$integer <<- c(scope$integer, k)
        fixed <<- c(fixed, k)
        body <- block(depth - 1L, TRUE)
        scope$integer <<- setdiff(scope$integer, k)
        list(code("for", name(k), over, body))
      },
      "while" = {
        k <- fresh("k")
        body <- as.call(append(as.list(block(depth - 1L, TRUE)), list(code("<-", name(k), code("+", name(k), 1L))),
          after = 1L))
        list(code("<-", name(k), 0L), code("while", code("&&", code("<", name(k), 4L), test(1L)), body))
      },
      "repeat" = {
        k <- fresh("k")
        head <- list(code("<-", name(k), code("+", name(k), 1L)), code("if", code(">", name(k), 3L), quote(break)))
        body <- as.call(append(as.list(block(depth - 1L, TRUE)), head, after = 1L))
        list(code("<-", name(k), 0L), code("repeat", body))
      },
      element = {
        v <- one(vectors)
        if (chance(0.4)) {
          target <- if (!is.null(v$rows) && chance(0.5)) code("[", name(v$name),
            one(list(TRUE, -1L, quote(c(TRUE, FALSE)), -2L)), one(seq_len(v$length %/% v$rows))) else taken(v, 1L)
          return(list(code("<-", target, expr(v$type, 2L))))
        }
        at <- if (chance(0.5)) one(seq_len(v$length)) else bquote(.(expr("integer", 1L)) %% .(v$length) + 1L)
        target <- if (is.null(v$rows)) code("[", name(v$name), at) else code("[", name(v$name),
          bquote(.(expr("integer", 0L)) %% .(v$rows) + 1L), one(seq_len(v$length %/% v$rows)))
        list(code("<-", target, expr(v$type, 2L)))
      },
      vector = {
        plain <- Filter(function(v) v$type != "logical" && is.null(v$rows), vectors)
        if (!length(plain)) return(list())
        v <- one(plain)
        x <- name(v$name)
        list(code("<-", x, one(list(code("+", x, expr(v$type, 1L)), code("-", x), code("rev", x), code("*", x, x),
          code("abs", x)))))
      },
      leave = list(code("if", test(1L), one(list(quote(break), quote(next))))),
      return = list(code("if", test(1L), code("return", expr(result, 1L))))
    )
  }
  # helper functions: of their arguments, and perhaps of what stands around
  result <- "double"
  make_helper <- function() {
    before <- list(scope, fixed, vectors, result)
    takes <- sample(types, sample.int(2L, 1L), TRUE)
    parameters <- paste0("u", seq_along(takes))
    result <<- one(types)
    type <- result
    if (chance(0.6)) {
      scope <<- list(integer = character(), double = character(), logical = character())
      vectors <<- list()
    }
    fixed <<- unlist(scope)
    for (k in seq_along(takes)) scope[[takes[[k]]]] <<- c(scope[[takes[[k]]]], parameters[[k]])
    read_only <- vectors
    vectors <<- list()
    # one that is assigned before it is read is an argument that R never finds
    force <- chance(0.5)
    if (!force) fixed <<- c(fixed, parameters)
    body <- as.call(c(as.name("{"), if (force) lapply(parameters, as.name),
      unlist(lapply(seq_len(sample.int(2L, 1L)), function(k) statement(1L, FALSE)), recursive = FALSE),
      list(expr(type, 2L))))
    formals <- rep(list(quote(expr = )), length(takes))
    names(formals) <- parameters
    scope <<- before[[1L]]
    fixed <<- before[[2L]]
    vectors <<- before[[3L]]
    result <<- before[[4L]]
    h <- list(name = fresh("h"), takes = takes, type = type)
    helpers[[length(helpers) + 1L]] <<- h
    list(code("<-", name(h$name), call("function", as.pairlist(formals), body)))
  }

  result <- one(types)
  statements <- list()
  for (type in types) for (k in seq_len(2L)) {
    x <- fresh(substr(type, 1L, 1L))
    statements <- c(statements, list(code("<-", name(x), expr(type, 1L))))
    scope[[type]] <- c(scope[[type]], x)
  }
  for (k in seq_len(sample.int(3L, 1L) - 1L)) {
    type <- one(types)
    n <- sample(2:6, 1L)
    v <- list(name = fresh("v"), type = type, length = n)
    make <- if (chance(0.4)) code(switch(type, integer = "integer", double = "numeric", logical = "logical"),
      n) else as.call(c(as.name("c"), lapply(seq_len(n), function(j) expr(type, 0L))))
    # c() of NA alone has another type
    if (identical(make[[1L]], as.name("c"))) make[[2L]] <- switch(type, integer = 1L, double = 1.5, logical = TRUE)
    if (type == "integer" && chance(0.2)) make <- bquote(1:.(n))
    if (n %in% c(4L, 6L) && chance(0.3)) {
      v$rows <- 2L
      make <- code("matrix", make, 2L, n %/% 2L)
    }
    statements <- c(statements, list(code("<-", name(v$name), make)))
    vectors[[length(vectors) + 1L]] <- v
  }
  if (chance(0.4)) statements <- c(statements, make_helper())
  statements <- c(statements, unlist(lapply(seq_len(sample(2:5, 1L)), function(k) statement(2L, FALSE)),
    recursive = FALSE))
  if (chance(0.2)) statements <- c(statements, make_helper())
  statements <- c(statements, list(expr(result, 3L)))
  f <- function(a, b, p, a2 = 3L, b2 = 0.25) NULL
  body(f) <- as.call(c(as.name("{"), statements))
  environment(f) <- baseenv()
  f
}

random_arguments <- list(
  a = c(1L, NA, 0L, -3L, 5L, 12L, 2147483647L, 2L), b = c(0.5, 1, NA, -2, Inf, NaN, -0, 100.25),
  p = c(TRUE, FALSE, NA, TRUE, FALSE, TRUE, FALSE, TRUE)
)
