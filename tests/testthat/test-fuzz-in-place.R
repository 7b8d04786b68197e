# Assignment writes in place where nobody can see it. Random programs full of aliases are run on ordinary vectors and on
# arrays, byte-compiled and not, with garbage collected at random places; all variables must be equal in the end.
# VERDIGRIS_IN_PLACE=10000 makes so many programs, VERDIGRIS_PROGRAM=17 runs one of them and shows it.

# ---- the programs ----------------------------------------------------------------------------------

pick <- function(...) { all <- c(...); all[[sample.int(length(all), 1L)]] }
vectors <- c("a", "b", "d", "l$x", "l[[\"y\"]]", "e$x", "o$in_list$z")
plain_vectors <- c("a", "b", "d")
some <- function() pick(vectors)
plain <- function() pick(plain_vectors)
number <- function() pick("7", "-2.5", "100L", "TRUE", "NA", "0.5", sprintf("a[%d]", sample(5L, 1L)), "k", "sum(b) / 8")

# Subscripts of a vector; some run code that makes another reference to the vector that is assigned to.
place <- function(x) pick("1", "2L", "5", "k", "k + 1", "length(a)", "(k)", "idx[2]", "one[[1]]",
  sprintf("{ %s <- %s; 3 }", plain(), some()), sprintf("{ also <- %s; 4 }", x),
    sprintf("{ assign(\"beyond\", %s); 2 }", x),
  sprintf("alias(%s, 2)", x), "late", "now_and_then()", sprintf("{ l3 <- list(%s); 1 }", x))
places <- function(x) pick("2:4", "1:3 + k", "c(1, 3, 5)", "-1", "-(1:3)", "idx", "a > 1", "b == 2", "TRUE",
  "c(2, 2, 4)",
  "8:1", "seq(1, 7, 2)", "integer()", sprintf("{ %s <- %s; 2:4 }", plain(), some()), "late_range",
    sprintf("{ also <- %s; 2:3 }", x))
# As many values as the range has places, which may read what is assigned to.
stencil <- function(x) {
  from <- sample(2:4, 1L)
  to <- from + sample(0:2, 1L)
  part <- function(by) sprintf("%s[%d:%d]", x, from + by, to + by)
  value <- pick(sprintf("%s + %s", part(-1L), part(1L)), part(1L), part(-1L), sprintf("(%s - %s) * 2", part(0L),
    part(1L)),
    sprintf("rev(%s)", part(0L)), sprintf("%s[%d:%d]", plain(), from, to), sprintf("%s * %s", part(0L), number()))
  sprintf("%s[%d:%d] <- %s", x, from, to, value)
}
matrix_stencil <- function() pick("m[2:3, 2:3] <- m[1:2, 2:3] + m[3:4, 2:3] * 0.5", "m[2:3, ] <- m[1:2, ]",
  "m[, 1:2] <- m[, 2:3] * 2", "m[1, ] <- m[, 1]", "m[k, k] <- m[1, 1] + 1", "m[1:2, k] <- m[3:4, 1]", "m <- t(m)",
  "m[] <- t(m)", "m[c(1, 4), 2:3] <- 0", "m[m > 2] <- -1", "diag(m) <- a[1:4]", "diag(m) <- 7", "m[[2, 3]] <- 5",
  "m[-1, 4] <- m[-4, 4]", "m[4:1, 2] <- m[, 2]", "a[1:4] <- m[, 2]", "m[, 3] <- a[2:5]", "n <- m", "n[1, 1] <- 9",
  "m[cbind(1:3, 2:4)] <- 1:3", "dim(m) <- c(2, 8)
dim(m) <- c(4, 4)", "rownames(m) <- letters[1:4]", "m[\"a\", 2] <- 3", "m <- n", "m[2, {n <- m; 3}] <- 8")

assignment <- function(x = some()) pick(
  sprintf("%s[%s] <- %s", x, place(x), number()), sprintf("%s[[%s]] <- %s", x, place(x), number()),
  sprintf("%s[%s] <- %s", x, places(x), number()), stencil(x),
  # the second write finds what nobody else holds, but for what its subscript does
  sprintf("%s[1] <- 3; %s[%s] <- %s; %s[5] <- 4", x, x, pick(place(x), places(x)), number(), x),
  sprintf("%s[%s][%s] <- %s", x, "1:4", pick("2", "k", sprintf("{ %s <- %s; 1 }", plain(), x)), number()))

statement <- function() {
  x <- some()
  y <- plain()
  z <- plain()
  pick(
    assignment(), assignment(), assignment(plain()), assignment(plain()), matrix_stencil(), matrix_stencil(),
    sprintf("%s <- %s", y, x), sprintf("%s <- %s", x, y), sprintf("%s <- %s", x, y),
    sprintf("%s <- %s; %s", y, x, assignment(y)),
    # lists, environments, attributes
    "l2 <- l", "l <- l2", "l$x <- e$x", "e$x <- l$y", "l <- list(x = a, y = b)", "l2$x[2] <- 17",
      "o$in_list <- list(z = d)",
    sprintf("e2 <- as.environment(list(x = %s)); e2$x[2] <- 33", x), "f <- e; f$x[1] <- 21",
    sprintf("attr(box, \"held\") <- %s; attr(box, \"held\")[3] <- 44", x), sprintf("%s <- attr(box, \"held\")", y),
    sprintf("names(%s) <- letters[seq_along(%s)]; names(%s)[2] <- \"q\"", y, y, y), sprintf("%s[\"q\"] <- 12", y),
    sprintf("s <- structure(list(v = %s), class = \"boxed\"); s$v[1] <- 3; s", x), sprintf("%s <- s$v", y),
    # functions, closures, promises
    sprintf("%s <- change(%s, %s)", y, x, pick("1", "k", "2:3")), sprintf("change(%s, 2)", x),
    sprintf("set1(%s) <- %s", y, number()), sprintf("set2(%s, %s) <- %s", x, place(x), number()),
    sprintf("w <- writer(%s); %s <- w(2, 5); %s <- w(3, 6)", x, y, z), sprintf("%s <- w(k, 8)", y),
    "environment(w)$s[2] <- 13", sprintf("%s <- environment(w)$s", y), sprintf("kept <- reader(%s)", x),
    sprintf("%s <- kept()", y), sprintf("delayedAssign(\"later\", %s)", x), sprintf("%s <- later", y),
    sprintf("%s <- lazily(%s, { %s[1] <- 55; 2 })", y, y, y), sprintf("%s <- lazily({ %s[2] <- 56; %s }, 1)", y, y, y),
    sprintf("%s <- deep(%s, 3)", y, x), sprintf("%s <- on_exit(%s); %s[1] <- seen[1]", y, x, y),
    sprintf("%s <- do.call(change, list(%s, 2))", y, x), sprintf("invisible(lapply(1:3, function(i) %s[i] <<- i))", y),
    sprintf("l3 <- lapply(1:2, function(i) { %s[i] <- i; %s })", y, y),
    sprintf("l3 <- Reduce(function(p, i) { p[i] <- i; p }, 1:3, %s, accumulate = TRUE)", y),
    sprintf("pair <- list(%s, { %s[1] <- 61; 0 })", y, y), sprintf("pair <- list({ %s[1] <- 62; 0 }, %s, %s)", y, y, x),
    sprintf("pair <- c(list(%s), list({ %s[2] <- 63; %s }))", y, y, y), sprintf("local({ %s[2] <- 64; %s <<- %s })",
      y, z, y),
    sprintf("assign(\"%s\", %s); %s[2] <- 65", y, x, y), sprintf("eval(quote(%s[k] <- 66))", y),
    sprintf("with(l, { x[1] <- 67; %s <<- x })", y), sprintf("active[%s] <- 68", pick("1", "k", "2:3")),
    sprintf("%s <- active", y), sprintf("try(%s[{ %s <- %s; stop() }] <- 5, silent = TRUE)", y, z, y),
    sprintf("%s <- %s; %s <- %s", y, z, z, y), sprintf("%s[%s + 1] <- 4", y, "length(a)"), sprintf("%s[3] <- \"3\"
%s <- made(8)", y, y),
    # loops
    sprintf("for (el in %s) %s[2] <- el", y, y), sprintf("for (i in 1:4) %s[i] <- %s", x, pick("i", "k", "i / 2")),
    sprintf("for (i in 2:5) %s[i] <- %s[i - 1] + 1", x, x), sprintf("for (i in 1:3) { %s <- %s; %s[i] <- -i }", z, y,
      y),
    sprintf("for (i in 1:3) l$x[i] <- %s[i]", y), sprintf("i <- 0; while (i < 3) { i <- i + 1; %s[[i]] <- i }", y),
    "for (i in 1:2) for (j in 1:3) m[i, j] <- i * j", "for (i in 2:4) m[i, ] <- m[i - 1, ] + 1",
    # what reads later: recorded operations, views, other owners of the memory, addresses, sums
    sprintf("r1 <- %s * 2 + %s", y, z), sprintf("r2 <- r1 - %s", y), sprintf("v1 <- %s[2:6]", x), "v1[2] <- 71",
    sprintf("v2 <- %s[8:1]", y), sprintf("out <- exported(%s)", y), sprintf("again <- imported(exported(%s))", y),
    sprintf("h <- addressed(%s)", x), sprintf("s1 <- sum(%s)", y), sprintf("%s[1] <- s1", y), "t1 <- t(m)",
      "t1[1, 2] <- 72",
    sprintf("q <- sqrt(abs(%s)); q[1] <- 0", y), sprintf("cc <- c(%s, %s); cc[2] <- 73", y, z),
      sprintf("%s <- %s * 1", y, y),
    sprintf("in_finalizer(%s)", y), sprintf("%s <- made(%s)", y, pick("8", "8", "800")), "ints[k] <- 3L",
      "ints[2] <- 2.5",
    "ints <- counted(8)", "more <- ints; more[1] <- 9L", "flags <- a > 1; flags[2] <- NA",
    # views that are too large to be copied, of what is written in place before and after
    sprintf("%s <- made(800)", y), sprintf("%s[1] <- 81; v3 <- %s[2:length(%s)]; %s[3] <- 82", y, y, y, y),
    sprintf("%s[1] <- 83; v3 <- rev(%s); %s", y, y, assignment(y)), "v3[2] <- 84", "d <- v3",
    "d[5] <- 85; v4 <- d[-1]; d[6] <- 86",
    "m[1, 1] <- 87; t1 <- t(m); m[2, 1] <- 88", "t1[2, 2] <- 89", "m <- t1", "d[2:799] <- d[1:798] + d[3:800]",
    "d[1] <- 1; r1 <- d + d; d[2:7] <- d[1:6] * 2",
    "collected()")
}

program <- function(length) paste(vapply(seq_len(length), function(i) statement(), ""), collapse = "\n")

# What a program finds: `make` brings numbers to where they are to be. What runs stands in the program's own frame.
prelude <- function(make, on_device, often) {
  made <- function(n) make(as.numeric(seq_len(n)) %% 5)
  world <- list(
    made = made, counted = function(n) make(seq_len(n)), k = 2L, idx = c(2L, 4L), one = list(3), l3 = NULL, pair = NULL,
    box = 1:3, o = list(in_list = list(z = made(8))), a = made(8), b = made(8), d = made(800), ints = make(1:8),
    m = make(matrix(as.numeric(1:16), 4)), n = make(matrix(0, 4, 4)), l = list(x = made(8), y = made(8)),
      l2 = list(x = made(8)),
    change = function(x, i) { x[i] <- 90; x }, writer = function(s) { force(s); function(i, v) { s[i] <<- v; s } },
    reader = function(s) function() s, lazily = function(p, q) { q; p[2] <- 91; p },
    deep = function(x, n) if (n > 0) { x[n] <- n; deep(x, n - 1) } else x,
    `set1<-` = function(x, value) { x[1] <- value; x }, `set2<-` = function(x, i, value) { x[[i]] <- value; x },
    exported = if (on_device) function(x) as_dlpack(x) else
      function(x) if (is.list(x)) stop("a list") else as.vector(x),
    imported = if (on_device) function(capsule) from_dlpack(capsule) else identity,
    # C code of R's that asks for addresses, to read and to write
    addressed = function(x) { identical(x, x + 1); order(x); rev(as.vector(x)) },
    collected = function() if (runif(1) < often) invisible(gc(full = FALSE))
  )
  world$s <- list(v = world$a)
  world
}
# In the frame of the program, since these reach into it.
inside <- quote({
  e <- new.env()
  e$x <- made(8)
  w <- writer(made(8))
  kept <- reader(b)
  attr(box, "held") <- made(8)
  deep <- deep
  environment(deep) <- environment()
  v1 <- v3 <- v4 <- r1 <- cc <- also <- beyond <- last_alias <- a_before <- seen <- made(8)
  t1 <- n
  out <- exported(made(8))
  alias <- function(x, i) { last_alias <<- x; i }
  now_and_then <- function() { a_before <<- a; 2 }
  on_exit <- function(x) { on.exit(seen <<- x); x[1] <- 92; x }
  in_finalizer <- function(z) {
    force(z)
    reg.finalizer(new.env(), function(unused) { z[2] <- 93; done_in_finalizer[1] <<- done_in_finalizer[1] * 1 })
    invisible()
  }
  done_in_finalizer <- made(8)
  delayedAssign("late", { before_late <- a; 3 })
  delayedAssign("late_range", { before_range <- b; 2:4 })
  delayedAssign("later", d)
  hidden <- made(8)
  makeActiveBinding("active", function(v) if (missing(v)) hidden else hidden <<- v, environment())
})

# The variables in the end, as ordinary vectors.
host <- function(x, depth = 0L) {
  if (is_gpu(x)) x <- collect(x)
  if (inherits(x, "dlpack_capsule")) x <- collect(from_dlpack(x))
  if (is.function(x)) return(if (is.null(environment(x)$s) || depth > 2L) "a function" else host(environment(x)$s))
  if (is.environment(x)) return(if (depth > 2L) "an environment" else host(as.list(x, sorted = TRUE), depth + 1L))
  held <- attr(x, "held")
  if (is.list(x)) x <- lapply(x, host, depth = depth + 1L)
  kept <- attributes(x)[c("dim", "names", "dimnames")]
  x <- as.vector(x)
  list(x, kept[!vapply(kept, is.null, NA)], if (!is.null(held)) host(held))
}

# A function that runs the program in a frame of its own, and returns the frame; it finds the prelude in `home`.
program_function <- function(text, home, compiled) {
  lines <- parse(text = text, keep.source = FALSE)
  # each statement may fail, as it does on both sides
  tried <- lapply(lines, function(line) bquote(failed <- c(failed, tryCatch({ .(line); FALSE },
    error = function(e) TRUE))))
  # what programs write to must be their own
  own <- lapply(setdiff(names(prelude(identity, FALSE, 0)), c("made", "counted")), function(name)
    call("<-", as.name(name), as.name(name)))
  body <- as.call(c(quote(`{`), own, as.list(inside)[-1L], quote(failed <- logical()), tried, quote(environment())))
  f <- eval(call("function", NULL, body), home)
  if (compiled) compiler::cmpfun(f) else f
}

run_program <- function(f, home, make, on_device, seed, often) {
  rm(list = ls(home, all.names = TRUE), envir = home)
  list2env(prelude(make, on_device, often), home)
  set.seed(seed)
  end <- f()
  gc(full = FALSE)
  is_kept <- function(name) name %in% c("w", "later") || !is.function(get(name, end)) && !name %in% c("e2", "f")
  names <- Filter(is_kept, ls(end))
  stats::setNames(lapply(names, function(name) host(get(name, end))), names)
}

differing <- function(text, compiled, seed, often) {
  home <- new.env(parent = environment(program_function))
  f <- program_function(text, home, compiled)
  want <- run_program(f, home, identity, FALSE, seed, often)
  got <- run_program(f, home, gpu, TRUE, seed, often)
  names <- union(names(want), names(got))
  bad <- names[!vapply(names, function(name) isTRUE(all.equal(want[[name]], got[[name]], tolerance = 0)), NA)]
  if (length(bad)) paste0(toString(bad), if (compiled) " (compiled)")
}

test_that("programs full of aliases give what base R gives", {
  withr::local_options(verdigris.host_access = "allow", warn = -1)
  # R would compile what runs a second time, which is with arrays
  jit <- compiler::enableJIT(0L)
  withr::defer(compiler::enableJIT(jit))
  alone <- Sys.getenv("VERDIGRIS_PROGRAM")
  count <- as.integer(Sys.getenv("VERDIGRIS_IN_PLACE", if (emulated) "20" else "150"))
  programs <- if (nzchar(alone)) as.integer(alone) else seq_len(count)
  found <- character()
  for (seed in programs) {
    set.seed(seed)
    text <- program(sample(4:16, 1L))
    if (nzchar(alone)) cat(text, "\n")
    bad <- tryCatch(differing(text, seed %% 4L == 0L, seed, if (seed %% 5L == 0L) 0.5 else 0.02),
      error = function(e) paste("stopped:", conditionMessage(e)))
    if (length(bad)) found <- c(found, paste0("program ", seed, ": ", bad))
  }
  expect_identical(found, character())
})
