# Random programs, run by base R on host vectors and by the package on arrays. Each statement computes a value from
# earlier ones, assigns to parts of one, or evaluates one; all values are compared at the end. All values are exact in
# binary, so that no sum depends on its order.

# ---- leaves ------------------------------------------------------------------------------------------

# Sources that are computed (`as_gpu`) and sources that are only recorded. Code that makes an array; the host has its
# copy.
hunt_leaf <- function(n) {
  one <- function(...) list(...)[[sample.int(...length(), 1L)]]
  some <- function(k = n) sample(c(-6:6, 0.5, -1.25), k, TRUE)
  key <- sample.int(1000L, 1L)
  one(
    bquote(gpu(.(some()))), bquote(gpu(.(sample(-5:9, n, TRUE)))),
      bquote(gpu(.(replace(sample(-5:9, n, TRUE), sample.int(n, 1L), NA)))),
    bquote(gpu(.(replace(some(), sample.int(n, 1L), NA)))), bquote(gpu(.(sample(c(TRUE, FALSE, NA), n, TRUE)))),
    bquote(gpu_seq(.(sample(c(0.5, 1, -3), 1L)), by = .(sample(c(1, -0.5, 2), 1L)), length.out = .(n),
      device = test_device)),
    bquote(gpu_seq(.(sample.int(5L, 1L)), by = .(sample(c(1L, -2L), 1L)), length.out = .(n), device = test_device)),
    bquote({ set.seed(.(key)); floor(gpu_runif(.(n), -4, 4, device = test_device) * 4) / 4 }),
    bquote({ set.seed(.(key)); round(gpu_rnorm(.(n), device = test_device) * 2) }),
    bquote({ set.seed(.(key)); gpu_runif(.(n), device = test_device) > 0.5 }),
    bquote({ set.seed(.(key)); gpu_sample_int(9L, .(n), TRUE, device = test_device) }),
    bquote(gpu_full(.(sample(c(2, -1.5), 1L)), .(n), device = test_device)),
    bquote(rep(gpu(.(some(4L))), length.out = .(n))), bquote(rep(gpu(.(some(ceiling(n / 3)))), each = 3L)[1:.(n)]),
    bquote(rev(gpu(.(some()))) + 0.5), bquote(gpu(.(some(n + 3L)))[3:.(n + 2L)]),
      bquote(gpu(.(some(2L * n)))[seq(1, .(2L * n), 2)] * 2),
    bquote({ v <- gpu(.(some())); v[.(sample.int(n, 1L))] <- 3; v[.(sample.int(n, 2L, TRUE))] <- c(-1, 2); v })
  )
}

# ---- expressions -------------------------------------------------------------------------------------

hunt_pick <- function(...) sample(c(...), 1L)
hunt_position <- function(n) {
  if (n == 0L) return(0L)
  a <- sample.int(n, 1L)
  b <- sample.int(n, 1L)
  switch(sample.int(9L, 1L), call(":", a, b), call(":", a, b), sample.int(n), sample.int(n, sample.int(n, 1L)),
    sample.int(n, min(n, 6L), TRUE), call("-", a),
    sample(c(TRUE, FALSE), n, TRUE), bquote(gpu(.(sample.int(n, min(n, 5L), TRUE)))), c(a, 0L, b))
}

# Calls by what they take: each has a value `x` of the program (`v`, what it is on the host) and a generator of others,
# `more(test)`.
HUNT_ANY <- list(
  function(x, v, more) call(hunt_pick("-", "abs", "floor", "is.na", "!", "sign", "ceiling"), x),
  function(x, v, more) call(hunt_pick("+", "-", "*", "<", ">=", "==", "&", "|", "%%"), x,
    sample(c(2, -1, 0.5, 3L, 1L), 1L)),
  function(x, v, more) call(hunt_pick("+", "-", "*", ">"), sample(c(2, -1, 0.5, 3L), 1L), x),
  function(x, v, more) call(hunt_pick("+", "-", "*", "<", "pmin", "pmax", "=="), x,
    more(function(w) length(w) == length(v) && (is.null(dim(w)) || is.null(dim(v)) || identical(dim(w), dim(v))))),
  function(x, v, more) call(hunt_pick("+", "-", "*", "<"), x, more(function(w) length(v) && length(w) &&
    length(v) %% length(w) == 0L && is.null(dim(w)))),
  function(x, v, more) {
    # where one branch alone is taken base R has its type, and does not hear the other's warnings
    if (!all(c(TRUE, FALSE) %in% (v > 0))) stop("no branches")
    bquote(ifelse(.(x) > 0, .(more(function(w) length(w) == length(v))) + 0.5, .(hunt_pick(1, -2.5))))
  },
  function(x, v, more) bquote(.(x)[.(hunt_position(length(v)))]),
  function(x, v, more) bquote(.(x)[.(call(hunt_pick(">", "<=", "!="), x, 1))]),
  function(x, v, more) bquote(.(x)[.(more(function(w) is.logical(w) && length(w) == length(v)))]),
  function(x, v, more) bquote(
    .(x)[.(more(function(w) is.numeric(w) && length(w) && !anyNA(w) && all(w >= 1 & w <= length(v) + 1)))]),
  function(x, v, more) call("rev", x),
  function(x, v, more) call(hunt_pick("head", "tail"), x, sample(c(1:6, -2L), 1L)),
  function(x, v, more) call("c", x, more(function(w) TRUE)),
  function(x, v, more) bquote(rep(.(x), .(sample.int(3L, 1L)))),
  function(x, v, more) bquote(rep(.(x), each = .(sample.int(3L, 1L)))),
  function(x, v, more) bquote(rep(.(x), length.out = .(sample.int(40L, 1L)))),
  function(x, v, more) bquote(matrix(.(x), .(hunt_pick(2L, 3L, 4L, 8L)), byrow = .(hunt_pick(TRUE, FALSE)))),
  function(x, v, more) bquote(array(.(x), .(sample(c(2L, 3L, 4L, 2L), sample(2:3, 1L))))),
  function(x, v, more) call(hunt_pick("cbind", "rbind"), x, more(function(w) length(w) == length(v) &&
    is.null(dim(w)) && is.null(dim(v)) || identical(dim(w), dim(v)) && length(dim(v)) == 2L)),
  function(x, v, more) call(hunt_pick("cumsum", "cummax", "cummin"), x),
  function(x, v, more) call(hunt_pick("-", "*", "+"), x,
    bquote(.(as.name(hunt_pick("sum", "max", "min", "mean")))(.(more(function(w) length(w) > 0)), na.rm = TRUE))),
  function(x, v, more) call("sort", x, decreasing = hunt_pick(TRUE, FALSE)),
  function(x, v, more) call("order", x),
  function(x, v, more) call(hunt_pick("unique", "duplicated"), x),
  function(x, v, more) bquote(match(.(x), .(more(function(w) length(w) < 50)))),
  function(x, v, more) bquote(.(x) %in% .(more(function(w) length(w) < 50))),
  function(x, v, more) bquote(which(.(x) > .(hunt_pick(0, 1)))),
  function(x, v, more) bquote(replace(.(x), .(hunt_position(length(v))), .(hunt_pick(7, -3, 2L)))),
  function(x, v, more) bquote(as.vector(.(x)) + .(x)),
  function(x, v, more) bquote(outer(head(.(x), 5), head(.(more(function(w) TRUE)), 4), .(hunt_pick("+", "*", "-")))),
  function(x, v, more) bquote(diff(.(x), .(hunt_pick(1L, 2L)))),
  function(x, v, more) bquote(as.vector(tapply(.(x), rep_len(c(2L, 1L, 3L), length(.(x))),
    .(hunt_pick("sum", "max", "length")))) * 2),
  function(x, v, more) bquote(findInterval(.(x), c(-2, 0, 1.5))),
  function(x, v, more) bquote(embed(c(.(x), 1, 2), 2)),
  function(x, v, more) bquote(rank(.(x), ties.method = "min")),
  function(x, v, more) bquote(.(x)[[.(max(1L, sample.int(max(length(v), 1L), 1L)))]] + .(more(function(w) TRUE)))
)
HUNT_MATRIX <- list(
  function(x, v, more) call("t", x), function(x, v, more) call("t", x), function(x, v, more) call("t", x),
  function(x, v, more) bquote(t(t(.(x)) * .(more(function(w) is.null(dim(w)) && length(w) == ncol(v))))),
  function(x, v, more) bquote(
    t(t(.(x)) + (.(as.name(hunt_pick("colSums", "colMeans")))(.(x)) +
    .(more(function(w) is.null(dim(w)) && length(w) == ncol(v)))))),
  function(x, v, more) bquote(
    .(x) * (.(as.name(hunt_pick("rowSums", "rowMeans")))(.(more(function(w) identical(dim(w), dim(v))))) -
    .(more(function(w) is.null(dim(w)) && length(w) == nrow(v))))),
  function(x, v, more) call(hunt_pick("rowSums", "colSums", "rowMeans", "colMeans"), x, na.rm = hunt_pick(TRUE, FALSE)),
  function(x, v, more) call(hunt_pick("+", "-", "*"), x, call("rowSums", x)),
  function(x, v, more) bquote(.(x)[.(hunt_position(nrow(v))), ]),
  function(x, v, more) bquote(.(x)[, .(hunt_position(ncol(v)))]),
  function(x, v, more) bquote(.(x)[.(hunt_position(nrow(v))), .(hunt_position(ncol(v))), drop = FALSE]),
  function(x, v, more) bquote(.(x)[.(hunt_position(nrow(v))), .(hunt_position(ncol(v)))]),
  function(x, v, more) bquote(.(x)[cbind(.(sample.int(nrow(v), 4L, TRUE)), .(sample.int(ncol(v), 4L, TRUE)))]),
  function(x, v, more) bquote(.(x)[.(x)[, .(sample.int(ncol(v), 1L))] > 0, ]),
  function(x, v, more) bquote(apply(.(x), .(hunt_pick(1L, 2L)), .(hunt_pick("max", "sum", "min")))),
  function(x, v, more) bquote(sweep(.(x), 1L, .(more(function(w) is.null(dim(w)) && length(w) == nrow(v))),
    .(hunt_pick("+", "-", "*")))),
  function(x, v, more) bquote(sweep(.(x), 2L, .(more(function(w) is.null(dim(w)) && length(w) == ncol(v))),
    .(hunt_pick("+", "-", "*")))),
  function(x, v, more) bquote(sweep(.(x), 2L, colSums(.(x)))),
  function(x, v, more) call(hunt_pick("diag", "upper.tri", "row", "col", "upper.tri"), x),
  function(x, v, more) bquote(.(x)[.(as.name(hunt_pick("upper.tri", "lower.tri")))(.(x))]),
  function(x, v, more) bquote(.(x) %*% .(more(function(w) NROW(w) == ncol(v)))),
  function(x, v, more) bquote(t(.(x)) %*% .(more(function(w) NROW(w) == nrow(v)))),
  function(x, v, more) call(hunt_pick("crossprod", "tcrossprod"), x),
  function(x, v, more) bquote(aperm(.(x), 2:1) + 1),
  function(x, v, more) bquote(cbind(.(x), .(more(function(w) is.null(dim(w)) && length(w) == nrow(v))))),
  function(x, v, more) bquote(rbind(.(x), .(more(function(w) is.null(dim(w)) && length(w) == ncol(v))), 1)),
  function(x, v, more) bquote(kronecker(.(x), matrix(1:2, 1))),
  function(x, v, more) bquote(rowsum(.(x), rep_len(2:1, nrow(.(x))))),
  function(x, v, more) bquote(scale(.(x), scale = FALSE)[, , drop = FALSE]),
  function(x, v, more) bquote({ y <- .(x); diag(y) <- .(hunt_pick(0, 5)); y }),
  function(x, v, more) bquote({ y <- .(x); y[.(hunt_position(nrow(v))), ] <- .(hunt_pick(0, 5)); y }),
  function(x, v, more) bquote({ y <- .(x); y[y > 1] <- 0; y })
)
HUNT_CUBE <- list(
  function(x, v, more) bquote(aperm(.(x), .(sample.int(3L)))), function(x, v, more)
    bquote(aperm(.(x), .(sample.int(3L)))),
  function(x, v, more) bquote(.(x)[.(hunt_position(dim(v)[1L])), , ]),
  function(x, v, more) bquote(.(x)[, .(hunt_position(dim(v)[2L])), ]),
  function(x, v, more) bquote(.(x)[, , .(hunt_position(dim(v)[3L]))]),
  function(x, v, more) bquote(.(x)[.(hunt_position(dim(v)[1L])), , .(hunt_position(dim(v)[3L])), drop = FALSE]),
  function(x, v, more) bquote(apply(.(x), .(sample.int(3L, sample.int(2L, 1L))), .(hunt_pick("sum", "max")))),
  function(x, v, more) bquote(rowSums(.(x), dims = .(hunt_pick(1L, 2L)))),
  function(x, v, more) bquote(colSums(.(x), dims = .(hunt_pick(1L, 2L)))),
  function(x, v, more) bquote(sweep(.(x), .(sample.int(3L, 1L)), 1)),
  function(x, v, more) bquote(asplit(.(x), .(sample.int(3L, 1L)))[[1L]])
)

# Whether a value is small and exact enough to go on with.
hunt_usable <- function(v, most) {
  if (!(is.numeric(v) || is.logical(v)) || is.object(v) || length(v) > most) return(FALSE)
  k <- v[is.finite(v)]
  !length(k) || all(abs(k) < 2^20) && all(k * 256 == floor(k * 256))
}

# ---- programs ----------------------------------------------------------------------------------------

# A list of statements; the host's values are made on the way, which says what fits.
hunt_program <- function(length, big = FALSE) {
  most <- if (big) 20000L else 400L
  host <- new.env(parent = environment(hunt_program))
  host$gpu <- function(x, dtype = NULL) x
  value_of <- function(e) tryCatch(suppressWarnings(eval(e, host)), error = function(err) NULL)
  statements <- list()
  names <- character()
  for (k in 1:3) {
    n <- sample(if (big) c(1L, 33L, 65L, 1023L, 1025L, 2080L, 4097L) else c(1L, 3L, 4L, 8L, 12L, 16L, 24L, 30L, 64L),
      1L)
    leaf <- hunt_leaf(n)
    if (k == 1L || runif(1) < 0.4) {
      d <- switch(as.character(n), `12` = c(4L, 3L), `16` = c(4L, 4L), `24` = if (runif(1) < 0.5) c(2L, 3L, 4L) else
        c(8L, 3L), `8` = c(2L, 4L), `30` = c(5L, 6L), `64` = if (runif(1) < 0.5) c(8L, 8L) else c(4L, 4L, 4L),
        `4` = c(2L, 2L), `1023` = c(33L, 31L), `1025` = c(25L, 41L), `2080` = if (runif(1) < 0.5) c(32L, 65L) else
        c(4L, 8L, 65L), `4097` = c(17L, 241L), c(n, 1L))
      leaf <- bquote(array(.(leaf), .(d)))
      if (base::length(d) == 2L && runif(1) < 0.3)
        leaf <- bquote(`dimnames<-`(.(leaf), list(NULL, paste0("c", 1:.(d[2L])))))
    }
    name <- paste0("a", k)
    names <- c(names, name)
    statements[[k]] <- call("<-", as.name(name), call("leaf", leaf))
    assign(name, collect(eval(leaf, list(gpu = gpu), environment(hunt_program))), host)
  }
  grow <- function(depth, test) {
    for (attempt in 1:6) {
      if (depth <= 0L || runif(1) < 0.1) {
        fit <- Filter(function(name) test(get(name, host)), names)
        if (base::length(fit)) return(as.name(fit[[sample.int(base::length(fit), 1L)]]))
        # one call more may fit; a search that goes on from there has no end
        if (depth < 0L) stop("nothing fits")
      }
      x <- grow(depth - 1L, function(v) TRUE)
      v <- value_of(x)
      if (is.null(v)) next
      among <- if (base::length(dim(v)) == 2L && runif(1) < 0.7) HUNT_MATRIX else if (base::length(dim(v)) == 3L &&
        runif(1) < 0.6) HUNT_CUBE else HUNT_ANY
      e <- tryCatch(among[[sample.int(base::length(among), 1L)]](x, v, function(wanted) grow(depth - 1L, wanted)),
        error = function(err) NULL)
      if (is.null(e)) next
      w <- value_of(e)
      if (!is.null(w) && hunt_usable(w, most) && test(w)) return(e)
    }
    # what fits any length
    fit <- Filter(function(name) test(get(name, host)), names)
    if (!base::length(fit)) stop("nothing fits")
    as.name(fit[[1L]])
  }
  while (base::length(statements) < length) {
    what <- runif(1)
    if (what < 0.12) {
      statements <- c(statements,
        list(call("look", call(hunt_pick("computed", "sum", "length", "collect", "head"), as.name(sample(names, 1L))))))
      next
    }
    if (what < 0.3) {
      name <- sample(names, 1L)
      v <- get(name, host)
      at <- hunt_position(base::length(v))
      target <- if (base::length(dim(v)) == 2L && runif(1) < 0.5) {
        if (runif(1) < 0.5) bquote(.(as.name(name))[.(hunt_position(nrow(v))), ]) else
          bquote(.(as.name(name))[, .(hunt_position(ncol(v)))])
      } else bquote(.(as.name(name))[.(at)])
      value <- tryCatch(if (runif(1) < 0.5) sample(c(9, -4, 3L), 1L) else grow(1L, function(w) base::length(w) &&
        base::length(w) == base::length(value_of(target))), error = function(err) 5)
      s <- call("<-", target, value)
      before <- v
      if (inherits(tryCatch(suppressWarnings(eval(s, host)), error = identity), "error") ||
        !hunt_usable(get(name, host), most)) {
        assign(name, before, host)
        next
      }
      statements <- c(statements, list(s))
      next
    }
    e <- tryCatch(grow(sample.int(4L, 1L), function(v) TRUE), error = function(err) NULL)
    if (is.null(e) || is.symbol(e)) next
    name <- if (runif(1) < 0.2) sample(names, 1L) else paste0("v", base::length(statements))
    w <- value_of(e)
    if (is.null(w) || !hunt_usable(w, most) || base::length(w) == 0L && runif(1) < 0.9) next
    assign(name, w, host)
    names <- unique(c(names, name))
    statements <- c(statements, list(call("<-", as.name(name), e)))
  }
  statements
}

# Runs a program on one side; every name's value, and the warnings.
hunt_run <- function(statements, device) {
  env <- new.env(parent = environment(hunt_run))
  if (device) {
    env$look <- identity
    env$leaf <- identity
    env$computed <- function(x) if (is_gpu(x)) gpu_compute(x) # numbers are R's
  } else {
    env$look <- function(x) NULL
    makes <- environment(hunt_run)
    env$leaf <- function(x) collect(eval(substitute(x), list(gpu = gpu), makes))
    env$gpu <- function(x, dtype = NULL) x
  }
  warned <- character()
  failed <- withCallingHandlers(tryCatch({
    for (s in statements) eval(s, env)
    NULL
  }, error = function(e) conditionMessage(e)), warning = function(w) {
    warned <<- c(warned, conditionMessage(w))
    invokeRestart("muffleWarning")
  })
  names <- ls(env, pattern = "^[av][0-9]+$")
  values <- lapply(stats::setNames(nm = names), function(name) outcome(get(name, env)))
  list(failed = failed, values = lapply(values, `[[`, "value"),
    warned = unique(c(warned, unlist(lapply(values, `[[`, "warnings")))))
}

# What differs between the two: sentences, or NULL.
hunt_compare <- function(statements) {
  want <- hunt_run(statements, FALSE)
  got <- hunt_run(statements, TRUE)
  if (!identical(is.null(want$failed), is.null(got$failed)))
    return(paste("failed:", got$failed, "base R:", want$failed))
  for (name in names(want$values)) {
    w <- want$values[[name]]
    g <- got$values[[name]]
    # base R's array() keeps dimnames that are none, list(NULL, NULL)
    none <- function(y) if (length(dimnames(y)) && all(vapply(dimnames(y), is.null, NA))) `dimnames<-`(y, NULL) else y
    w <- none(w)
    g <- none(g)
    # the sign of a zero sum depends on where the sum begins
    if (is.double(w)) w <- w + 0
    if (is.double(g)) g <- g + 0
    said <- difference(g, w, payload = FALSE)
    if (!is.null(said)) return(paste0(name, ": ", said))
  }
  if (!setequal(want$warned, got$warned))
    return(paste0("warnings {", toString(got$warned), "} are not {", toString(want$warned), "}"))
  NULL
}

# The shortest part of a program that still differs.
hunt_shrink <- function(statements) {
  k <- length(statements)
  while (k > 0L) {
    fewer <- statements[-k]
    said <- tryCatch(hunt_compare(fewer), error = function(e) NULL)
    if (!is.null(said) && !grepl("not found", said)) statements <- fewer
    k <- min(k - 1L, length(statements))
  }
  statements
}

hunt_text <- function(statements)
  paste(vapply(statements, function(s) paste(deparse(s, width.cutoff = 500L), collapse = " "), ""), collapse = "\n")
