# Model frames and designs of splits: each member evaluates a formula's variables for its own rows.
#
# The result equals that of the whole only if a row's value depends on that row alone, or on numbers that are computed
# over all members first: the levels of factors, the coefficients of poly(), the knots of ns() and bs(), the means and
# deviations of scale(). So the session analyses expressions before it sends them, and refuses others.

# Functions of R that compute a row of the result from the same row of their arguments.
ROW_BY_ROW <- c("(", "+", "-", "*", "/", "^", "%%", "%/%", "==", "!=", "<", ">", "<=", ">=", "!", "&", "|", "xor",
  "abs", "sign", "sqrt", "exp", "expm1", "log", "log2", "log10", "log1p", "cos", "sin", "tan", "acos", "asin", "atan",
  "atan2", "cosh", "sinh", "tanh", "acosh", "asinh", "atanh", "cospi", "sinpi", "tanpi", "gamma", "lgamma",
  "digamma", "trigamma", "beta", "lbeta", "choose", "factorial", "floor", "ceiling", "trunc", "round", "signif",
  "ifelse", "pmin", "pmax",
  "is.na", "is.nan", "is.finite", "is.infinite", "I", "offset", "identity", "as.logical", "as.numeric", "as.double",
  "as.integer", "as.character", "Re", "Im", "Mod", "Arg", "cbind", "nchar", "substr", "substring", "toupper", "tolower",
  "trimws", "startsWith", "endsWith", "grepl", "plogis", "qlogis", "dnorm", "pnorm", "qnorm")

# Functions that do so for their first argument. The others are constants of any length, matched to the formals in
# ROW_TERMS.
ROW_AND_CONSTANTS <- c("%in%", "match", "findInterval", "cut", "relevel")

# Packages whose functions of these names are accepted; a user's function of the same name is not.
OF_R <- c("base", "stats", "splines", "verdigris", "methods")

# Whether `name`, looked up from `env`, is a function of these packages, or of this package on the search path.
is_known_function <- function(name, env) {
  f <- get0(name, envir = env, mode = "function")
  if (is.null(f) || is.primitive(f)) return(TRUE)
  if (environmentName(topenv(environment(f))) %in% OF_R) return(TRUE)
  own <- list(topenv(), if ("package:verdigris" %in% search()) as.environment("package:verdigris"))
  for (home in own) if (!is.null(home) && identical(f, get0(name, envir = home, inherits = FALSE))) return(TRUE)
  FALSE
}

# The name of the function that a call in a formula calls; NULL if is_known_function() rejects it. For splits and
# readers.
called_function <- function(e, env) {
  f <- e[[1L]]
  if (is.call(f) && length(f) == 3L && as.character(f[[1L]]) %in% c("::", ":::")) return(if (as.character(f[[2L]]) %in%
    OF_R) as.character(f[[3L]]))
  if (is.symbol(f) && is_known_function(as.character(f), env)) as.character(f)
}

# A call with its arguments matched to the formals in ROW_TERMS; arguments for `...` come last.
matched_by_form <- function(e, name) {
  e <- match.call(ROW_TERMS[[name]], e, expand.dots = FALSE)
  as.call(c(as.list(e)[names(e) != "..."], as.list(e$...)))
}

# The first split among a model's variables; NULL where all are ordinary.
split_among <- function(data, expressions, env) {
  if (is_split(data)) return(data)
  names <- unique(unlist(lapply(expressions, all.vars)))
  if (is.list(data)) {
    for (v in data) if (is_split(v)) return(v)
    names <- setdiff(names, names(data))
  }
  if (is.environment(data) && !is_remote(data)) env <- data
  for (name in names) {
    v <- tryCatch(get0(name, envir = env), error = function(e) NULL)
    if (is_split(v)) return(v)
  }
  NULL
}

# ---- expressions ---------------------------------------------------------------------------------------

# The state of reading a formula. `like` is the split that gives the rows; `sources` are values that members are sent in
# addition to `data`.
split_context <- function(like, data, env, here) {
  whole <- is_split(data)
  if (whole && state_of(data)$kind != "frame") stop_verdigris("argument", "`data` must be a split of a data frame.",
    "A split matrix can be a variable of the formula: `y ~ x` with splits `x` and `y`.", call = here)
  context <- new.env(parent = emptyenv())
  context$like <- like
  context$n <- sum(state_of(like)$layout$counts)
  context$data <- if (whole) data
  context$columns <- if (whole) names(data) else character()
  context$listed <- if (is.list(data) && !whole) data else list()
  context$env <- if (is.environment(data) && !whole) data else env
  context$sources <- list()
  context$here <- here
  context
}

# Analyses an expression. In the list that it returns, `expr` is what members evaluate, `kept` is what a fit's terms
# keep for predictions, `rows` says whether there is a value for each row, and `value` is the value of a constant.
read_expression <- function(e, context) {
  if (is.symbol(e) && as.character(e) %in% context$columns) return(list(expr = e, kept = e, rows = TRUE))
  if (!is.call(e) || !has_rows(e, context)) {
    value <- eval(e, context$listed, context$env)
    return(read_value(value, e, context))
  }
  name <- called_function(e, context$env)
  if (is.null(name)) refuse_rows_of(deparse1(e[[1L]]), context, "is not known to work row by row")
  if (name %in% c("$", "[[", "[")) return(read_part(e, name, context))
  special <- SPECIAL_TERMS[[name]]
  if (!is.null(special)) return(special(e, context))
  if (name %in% ROW_AND_CONSTANTS) return(read_constants(e, name, context))
  if (!name %in% ROW_BY_ROW) refuse_rows_of(name, context)
  kept <- e
  for (k in seq_along(e)[-1L]) {
    part <- read_expression(e[[k]], context)
    if (!part$rows && length(part$value) != 1L) stop_verdigris("argument", sprintf(
      "`%s` in the formula has %d elements, and the splits have %s rows.", deparse1(e[[k]]), length(part$value),
      format_count(context$n)), call = context$here)
    e[k] <- list(part$expr)
    kept[k] <- list(part$kept)
  }
  list(expr = e, kept = kept, rows = TRUE)
}

refuse_rows_of <- function(name, context, why = "needs all rows at once, or is not known to work row by row") {
  stop_verdigris("split", sprintf("`%s()` in a formula of splits %s.", name, why),
    c("Compute the column beforehand, when the data are made or by functions that take splits.",
      "`gpu_together(team, f, x, keep = TRUE)` computes each member's rows of a column; `collect()` gathers all rows."),
    call = context$here)
}

# Whether an expression uses a column of the split `data`, or a variable that is a split.
has_rows <- function(e, context) {
  names <- all.vars(e)
  if (any(names %in% context$columns)) return(TRUE)
  for (name in names) {
    v <- if (name %in% names(context$listed)) context$listed[[name]] else tryCatch(get0(name, envir = context$env),
      error = function(e) NULL)
    if (is_split(v)) return(TRUE)
  }
  FALSE
}

# A value that the session has evaluated: a split, an ordinary value with an element for each row, or a constant.
read_value <- function(value, e, context) {
  if (is_gpu(value)) value <- collect(value)
  if (is_split(value)) {
    if (!state_of(value)$kind %in% c("vector", "matrix") || state_of(value)$margin != 1L) stop_verdigris("split",
      sprintf("`%s` must be a vector, or a matrix split by rows.", deparse1(e)), call = context$here)
    check_alike(context$like, value, context$here)
    return(read_source(value, e, context))
  }
  if (is.atomic(value) && NROW(value) == context$n && context$n > 1L) return(read_source(if (length(dim(value)) == 2L)
    operand_rows(value, context) else team_operand(value, rows_only(context$like)), e, context))
  list(expr = value, kept = e, rows = FALSE, value = value)
}
operand_rows <- function(value, context) structure(list(value = value, margin = 1, across = ncol(value)), class =
  "team_operand")
# a stand-in for a split vector: team_operand() reads only these fields of the state
rows_only <- function(x) split_of(list(margin = 1, across = NULL))

# Adds a value that members are sent, under a name that the expression uses.
read_source <- function(value, e, context) {
  name <- sprintf(".source%d", length(context$sources) + 1L)
  context$sources[[name]] <- value
  list(expr = as.name(name), kept = e, rows = TRUE)
}

# `$`, `[[` and `[`: of a variable that contains a split, or columns `x[, j]` of an expression with rows.
read_part <- function(e, name, context) {
  root <- e[[2L]]
  value <- if (is.symbol(root) && !as.character(root) %in% context$columns) eval(root, context$listed, context$env)
  if (is_split(value)) return(read_value(eval(e, context$listed, context$env), e, context))
  part <- read_expression(root, context)
  whole <- name == "[" && length(e) >= 4L && identical(e[[3L]], quote(expr = ))
  if (!whole || has_rows(as.call(as.list(e)[-2L]), context)) refuse_rows_of(name, context)
  kept <- e
  e[[2L]] <- part$expr
  kept[[2L]] <- part$kept
  for (k in seq_along(e)[-(1:3)]) e[k] <- list(eval(e[[k]], context$listed, context$env))
  list(expr = e, kept = kept, rows = TRUE)
}

# A call whose first argument has rows, and whose others are constants: list(call, kept, x).
constants_of <- function(e, name, context) {
  e <- matched_by_form(e, name)
  x <- read_expression(e[[2L]], context)
  kept <- e
  e[[2L]] <- x$expr
  kept[[2L]] <- x$kept
  for (k in seq_along(e)[-(1:2)]) {
    if (has_rows(e[[k]], context)) refuse_rows_of(deparse1(e[[1L]]), context)
    kept[k] <- e[k] <- list(eval(e[[k]], context$listed, context$env))
  }
  list(call = e, kept = kept, x = x)
}

read_constants <- function(e, name, context) {
  read <- constants_of(e, name, context)
  if (!read$x$rows || name == "cut" && length(read$call$breaks) < 2L) refuse_rows_of(name, context,
    if (name == "cut") "needs `breaks` as a vector of limits" else "needs rows as its first argument")
  list(expr = read$call, kept = read$kept, rows = TRUE)
}

# ---- terms whose parameters are computed over all rows --------------------------------------------------

# The values of an expression on the members, as a split.
split_of_expression <- function(expr, context, f = "part_value") {
  args <- c(list(expr = expr, data = context$data), context$sources)
  record_split(context$like, f, args, kind = "vector", margin = 1, across = NULL, names = NULL)
}
part_value <- function(expr, data = NULL, ...) {
  value <- eval(expr, c(if (!is.null(data)) as.list(data), list(...)), row_functions())
  if (is_number(value)) strip(value) else value
}

# The environment in which members evaluate expressions.
row_functions <- function() {
  numbers_of <- function(f) function(x, ...) {
    if (is.factor(x)) stop_verdigris("split", "The codes of a factor depend on the levels of all members.",
      "`as.numeric(as.character(x))` converts its labels to numbers.", call = NULL)
    f(x, ...)
  }
  list2env(list(poly = polynomials, scale = scaled_column, as.numeric = numbers_of(as.numeric),
    as.double = numbers_of(as.double), as.integer = numbers_of(as.integer)), parent = topenv())
}

# In a member: poly() with coefficients that were computed over all rows, by the three-term recurrence.
polynomials <- function(x, degree = 1, coefs = NULL, raw = FALSE, ...) {
  x <- strip(if (is_gpu(x)) as_float64(x) else as.double(x))
  columns <- vector("list", degree)
  if (raw) {
    for (k in seq_len(degree)) columns[[k]] <- x^k
  } else {
    before <- 0 * x
    now <- before + 1
    size <- coefs$norm2
    for (k in seq_len(degree)) {
      after <- (x - coefs$alpha[k]) * now - if (k > 1L) size[k + 1L] / size[k] * before else 0
      columns[[k]] <- after / sqrt(size[k + 2L])
      before <- now
      now <- after
    }
  }
  out <- do.call(cbind, columns)
  colnames(out) <- seq_len(degree)
  out
}
scaled_column <- function(x, center, scale) {
  x <- strip(x)
  if (is.numeric(center)) x <- x - center
  if (is.numeric(scale)) x <- x / scale
  dim(x) <- c(length(x), 1L)
  x
}

# In a member: sums for the next orthogonal polynomial p: of p^2, of x p^2, and of the square of its leading power.
stat_polynomial <- function(x, center, alpha, norm2) {
  x <- as_gpu(x, dtype = "float64")
  before <- 0 * x
  now <- before + 1
  for (k in seq_along(alpha)) {
    after <- (x - alpha[k]) * now - if (k > 1L) norm2[k + 1L] / norm2[k] * before else 0
    before <- now
    now <- after
  }
  as.vector(c(sum(now * now), sum(x * now * now), sum((x - center)^(2 * length(alpha)))))
}

SPECIAL_TERMS <- list(
  factor = function(e, context) factor_term(e, context),
  as.factor = function(e, context) factor_term(e, context),
  ordered = function(e, context) factor_term(e, context),
  scale = function(e, context) {
    read <- constants_of(e, "scale", context)
    x <- split_of_expression(read$call[[2L]], context)
    moments <- NULL
    for (name in c("center", "scale")) {
      given <- read$call[[name]] %||% TRUE
      if (isTRUE(given)) {
        if (is.null(moments)) moments <- merged_moments(x, TRUE, context$here)
        centred <- read$call$center
        # base R's scale is the root mean square after centring
        given <- if (name == "center") moments$mean else sqrt((moments$products[1L] + moments$n * (if (is.numeric(
          centred)) (moments$mean - centred)^2 else if (isFALSE(centred)) moments$mean^2 else 0)) / max(1,
          moments$n - 1))
      } else if (is.numeric(given) && length(given) != 1L) {
        stop_as_base(gettextf("length of '%s' must equal the number of columns of 'x'", name, domain = "R-base"),
          context$here)
      }
      read$call[[name]] <- read$kept[[name]] <- given
    }
    list(expr = read$call, kept = read$kept, rows = TRUE)
  },
  poly = function(e, context) {
    read <- constants_of(e, "poly", context)
    # an unnamed second argument is the degree
    unnamed <- base::which(names(read$call) == "")[-1L]
    if (length(unnamed)) {
      names(read$call)[unnamed[1L]] <- names(read$kept)[unnamed[1L]] <- "degree"
      if (length(unnamed) > 1L) refuse_rows_of("poly", context, "takes one variable")
    }
    degree <- read$call$degree %||% 1
    if (!is_count(degree, 1)) stop_as_base(gettext("'degree' must be at least 1", domain = "R-stats"), context$here)
    if (!isTRUE(read$call$raw) && is.null(read$call$coefs))
      read$call$coefs <- read$kept$coefs <- polynomial_of(split_of_expression(read$call[[2L]], context), degree,
        context)
    list(expr = read$call, kept = read$kept, rows = TRUE)
  },
  ns = function(e, context) spline_term("ns", e, context),
  bs = function(e, context) spline_term("bs", e, context)
)

# The coefficients of base R's poly(), those of the recurrence, from sums over all rows.
polynomial_of <- function(x, degree, context) {
  moments <- merged_moments(x, FALSE, context$here)
  if (!is.finite(moments$products))
    stop_as_base(gettext("missing values are not allowed in 'poly'", domain = "R-stats"), context$here)
  alpha <- numeric()
  norm2 <- 1
  for (k in 0:degree) {
    sums <- reduced(x, "stat_polynomial", list(moments$mean, alpha, norm2), call = context$here)
    # only a rounding error is left of the power: there are too few distinct points
    if (!(sums[1L] > 1e-14 * sums[3L])) stop_as_base(gettext("'degree' must be less than number of unique points",
      domain = "R-stats"), context$here)
    norm2 <- c(norm2, sums[1L])
    if (k < degree) alpha <- c(alpha, sums[2L] / sums[1L])
  }
  list(alpha = alpha, norm2 = norm2)
}

# ns() and bs() with knots that are computed over all rows.
spline_term <- function(name, e, context) {
  read <- constants_of(e, name, context)
  given <- as.list(read$call)
  x <- split_of_expression(read$call[[2L]], context)
  if (is.null(given$Boundary.knots)) given$Boundary.knots <- range(x, na.rm = TRUE) else if (is.null(given$knots) &&
    !is.null(given$df)) refuse_rows_of(name, context, "needs `knots` beside `Boundary.knots`")
  if (is.null(given$knots) && !is.null(given$df)) {
    inner <- given$df - isTRUE(given$intercept) - if (name == "ns") 1 else given$degree %||% 3
    if (inner < 0) refuse_rows_of(name, context, "needs a larger `df`")
    if (inner > 0) given$knots <- stats::quantile(x, seq.int(0, 1, length.out = inner + 2L)[-c(1L, inner + 2L)],
      na.rm = TRUE)
    given$df <- NULL
  }
  kept <- given
  given[[1L]] <- kept[[1L]] <- call("::", quote(splines), as.name(name))
  kept[[2L]] <- read$kept[[2L]]
  list(expr = as.call(given), kept = as.call(kept), rows = TRUE)
}

# factor() with the levels of all members' rows.
factor_term <- function(e, context) {
  name <- as.character(if (is.call(e[[1L]])) e[[1L]][[3L]] else e[[1L]])
  read <- constants_of(e, name, context)
  kept <- e
  kept[[2L]] <- read$kept[[2L]]
  if (is.null(read$call$levels)) {
    x <- split_of_expression(read$call[[2L]], context)
    gathered <- gathered_lists(x, "part_uniques", list(), context$here)
    if (name == "as.factor" && !is.null(gathered[[1L]]$levels))
      return(list(expr = read$x$expr, kept = kept, rows = TRUE))
    values <- unlist(lapply(gathered, `[[`, "values"))
    levels <- unique(unlist(lapply(gathered, `[[`, "levels")))
    values <- if (is.null(levels)) sort(unique(values)) else levels[levels %in% values]
    read$call$levels <- values[!duplicated(as.character(values))]
    # factor() of an ordered factor is ordered
    if (isTRUE(gathered[[1L]]$ordered) && is.null(read$call$ordered)) read$call$ordered <- TRUE
  }
  read$call[[1L]] <- if (name == "ordered") quote(base::ordered) else quote(base::factor)
  list(expr = read$call, kept = kept, rows = TRUE)
}
part_uniques <- function(x) {
  if (is.factor(x)) return(list(values = as.character(unique(x[!is.na(x)])), levels = levels(x),
    ordered = is.ordered(x)))
  values <- if (is_gpu(x)) collect(unique(x)) else unique(x)
  list(values = as.vector(values[!is.na(values)]))
}

# ---- values from all members ----------------------------------------------------------------------------

# A list of each member's value of the function named `f` of its part. The members of a launcher's team exchange only
# numbers, so there the values must be what packed() can encode.
gathered_lists <- function(x, f, args = list(), call = parent.frame()) {
  state <- state_of(x)
  args <- lapply(c(list(x), args), task_argument, state$layout)
  values <- request_all(state$team, function(rank) list(f = f, args = args), "The split could not be read", call)
  if (state$team$engine$kind != "env") return(values)
  unpacked(lapply(packed(values[[1L]]), function(part) as.vector(gpu_all_gather(part))), gpu_team_size())
}

# Encodes a nested list of vectors as one vector of doubles, in which each vector or list follows its type and length.
# Elements must be numbers, logical values, strings or NULL. Returns list(length, numbers).
packed <- function(value) {
  numbers <- list()
  put <- function(x) numbers[[length(numbers) + 1L]] <<- as.double(x)
  pack <- function(x) {
    if (is.list(x)) {
      put(c(5, length(x)))
      pack(names(x) %||% character())
      for (part in x) pack(part)
      return(invisible())
    }
    kind <- match(if (is.null(x)) "NULL" else typeof(x), c("NULL", "logical", "integer", "double", "character")) - 1L
    if (kind == 4L) {
      texts <- lapply(enc2utf8(x), function(text) if (is.na(text)) -1 else utf8ToInt(text))
      put(c(4, length(x), lengths(texts), unlist(texts)))
    } else {
      put(c(kind, length(x), x))
    }
  }
  pack(value)
  numbers <- unlist(numbers)
  list(length(numbers), numbers)
}
# Decodes the values of `size` members, of which the lengths and the numbers were concatenated.
unpacked <- function(gathered, size) {
  ends <- cumsum(gathered[[1L]])
  lapply(seq_len(size), function(rank) {
    numbers <- gathered[[2L]][seq_len(gathered[[1L]][rank]) + ends[rank] - gathered[[1L]][rank]]
    at <- 0
    take <- function(n) {
      at <<- at + n
      numbers[seq_len(n) + at - n]
    }
    unpack <- function() {
      head <- take(2)
      if (head[1L] == 5) {
        names <- unpack()
        out <- lapply(seq_len(head[2L]), function(k) unpack())
        if (length(names)) names(out) <- names
        return(out)
      }
      if (head[1L] == 4) return(vapply(take(head[2L]), function(n) {
        code <- take(n)
        if (identical(code, -1)) NA_character_ else intToUtf8(code)
      }, ""))
      values <- take(head[2L])
      switch(head[1L] + 1, NULL, as.logical(values), as.integer(values), values)
    }
    unpack()
  })
}

# ---- frames --------------------------------------------------------------------------------------------

# A model frame over the members: a split of frames, `frame`, and `terms`, as base R's model.frame() has them. `more`
# are the expressions of weights, offset and subset.
split_frame <- function(like, formula, data, env, more, action, contrasts, here) {
  formula <- stats::as.formula(formula)
  context <- split_context(like, data, environment(formula) %||% env, here)
  known <- if (length(context$columns)) context$columns else names(context$listed)
  # as.data.frame() would take longer than all the rest of terms()
  terms <- stats::terms(formula, data = if (length(known)) structure(stats::setNames(rep(list(numeric()),
    length(known)), known), class = "data.frame", row.names = integer()))
  action <- split_action(action, here)
  variables <- lapply(as.list(attr(terms, "variables"))[-1L], read_expression, context)
  more <- lapply(Filter(Negate(is.null), more), read_expression, context)
  # weights and the like may be NULL, as if they were missing; `subset = TRUE` selects all rows
  more <- Filter(function(one) one$rows || !is.null(one$value), more)
  if (isTRUE(more$subset$value)) more$subset <- NULL
  named <- c(stats::setNames(variables, vapply(as.list(attr(terms, "variables"))[-1L], deparse1, "")),
    stats::setNames(more, sprintf("(%s)", names(more))))
  for (name in names(named)) if (!named[[name]]$rows) {
    if (name == "(subset)") abort_argument("subset", "a condition on the columns", named[[name]]$value, here)
    stop_as_base(gettextf("variable lengths differ (found for '%s')", name, domain = "R-stats"), here)
  }
  with_exprs <- function(which) as.call(c(list(quote(list)), unname(lapply(variables, `[[`, which))))
  local <- terms
  attr(local, "predvars") <- with_exprs("expr")
  environment(local) <- baseenv()
  spec <- list(terms = local, more = lapply(more, `[[`, "expr"), action = action)
  frame <- compute_split(like, "part_frame", c(list(spec = spec, data = context$data), context$sources), call = here,
    what = "The model frame could not be made")
  frame <- with_levels(frame, here)
  about <- gathered_lists(frame, "frame_facts", list(), here)
  if (sum(state_of(frame)$layout$counts) == 0) stop_as_base(gettext("0 (non-NA) cases", domain = "R-stats"), here)
  attr(terms, "predvars") <- with_exprs("kept")
  attr(terms, "dataClasses") <- unlist(about[[1L]]$classes)
  list(frame = frame, terms = terms, xlevels = about[[1L]]$xlevels,
    na.action = omitted_rows(about, action), has = unlist(about[[1L]]$has), factor = about[[1L]]$factor)
}

# The name of the action for missing values: na.omit or na.fail.
split_action <- function(given, here) {
  if (is.null(given)) given <- getOption("na.action") %||% "na.fail"
  for (name in c("na.omit", "na.fail")) if (identical(given, name) || identical(given, get(name, asNamespace("stats"))))
    return(name)
  abort_argument("na.action", "na.omit or na.fail for splits", given, here)
}

# In a member: the model frame of its rows.
part_frame <- function(spec, data = NULL, ...) {
  env <- row_functions()
  env$.data <- c(if (!is.null(data)) as.list(data), list(...))
  terms <- spec$terms
  environment(terms) <- env
  if (!is.null(spec$more$subset) && !is.logical(eval(spec$more$subset, env$.data, env))) stop_verdigris("argument",
    "`subset` must be a condition for splits, not row numbers.", call = NULL)
  call <- as.call(c(list(as.name("gpu_lm"), data = quote(.data)), spec$more, list(na.action = spec$action)))
  frame_of(call, terms, c("formula", "data", "subset", "weights", "na.action", "offset", "etastart", "mustart"), env,
    drop = FALSE)
}

# In a member: what the session needs to know of its frame, as lists of vectors.
frame_facts <- function(frame) {
  terms <- attr(frame, "terms")
  response <- attr(terms, "response")
  bad <- attr(frame, "na.action")
  list(classes = as.list(attr(terms, "dataClasses")), xlevels = stats::.getXlevels(terms, frame),
    rows = nrow(frame) + length(bad), bad = as.double(bad), has = c("(weights)", "(offset)", "(etastart)",
      "(mustart)") %in% names(frame) | c(FALSE, length(attr(terms, "offset")) > 0L, FALSE, FALSE),
    factor = response > 0L && is_coded(frame[[response]]) && !is.logical(frame[[response]]))
}

# The numbers of omitted rows in the whole, as base R's na.omit() returns them.
omitted_rows <- function(about, action) {
  before <- cumsum(c(0, vapply(about, `[[`, 1, "rows")))
  at <- unlist(lapply(seq_along(about), function(k) about[[k]]$bad + before[k]))
  if (!length(at)) return(NULL)
  if (max(at) <= .Machine$integer.max) at <- as.integer(at)
  structure(at, names = format_each(at), class = "omit")
}

# Gives factors the same levels on all members: those that occur in some row.
with_levels <- function(frame, here) {
  gathered <- gathered_lists(frame, "part_levels_used", list(), here)
  names <- unique(unlist(lapply(gathered, names)))
  wanted <- list()
  for (name in names) {
    each <- lapply(gathered, `[[`, name)
    used <- unlist(lapply(each, `[[`, "used"))
    levels <- unique(unlist(lapply(each, `[[`, "levels")))
    levels <- if (is.null(levels)) sort(unique(used)) else levels[levels %in% used]
    same <- vapply(each, function(one) identical(one$levels, levels), NA)
    if (all(same)) next
    wanted[[name]] <- levels
    if (any(vapply(each, function(one) isTRUE(one$contrasts), NA))) warning(gettextf(
      "contrasts dropped from factor %s due to missing levels", name, domain = "R-stats"), call. = FALSE)
  }
  if (length(wanted)) record_split(frame, "part_with_levels", list(frame, wanted)) else frame
}
part_levels_used <- function(frame) {
  # a response of strings is no factor, and base R refuses it
  response <- names(frame)[attr(attr(frame, "terms"), "response")]
  coded <- Filter(function(name) is.factor(frame[[name]]) || is.character(frame[[name]]) && !name %in% response,
    names(frame))
  stats::setNames(lapply(coded, function(name) {
    x <- frame[[name]]
    list(used = as.character(unique(x[!is.na(x)])), levels = levels(x), contrasts = !is.null(attr(x, "contrasts")))
  }), coded)
}
part_with_levels <- function(frame, wanted) {
  for (name in names(wanted)) {
    x <- frame[[name]]
    frame[[name]] <- factor(as.character(x), levels = wanted[[name]], ordered = is.ordered(x))
  }
  frame
}

# ---- designs -------------------------------------------------------------------------------------------

# The design of a split frame: `part` is the split of the members' designs, and the rest is known to the session.
split_design <- function(made, contrasts, here) {
  part <- record_split(made$frame, "part_design", list(made$frame, contrasts, getOption("contrasts")), kind = "object",
    across = NULL, names = NULL)
  known_design(part, NULL, here)
}

# `columns` selects columns of the part's design; NULL selects all.
known_design <- function(part, columns, here) {
  state <- state_of(part)
  reference <- task_argument(part)
  task <- function(rank) if (rank == 1L || state$team$engine$kind == "env") list(f = "design_facts", args =
    list(reference, columns))
  about <- request_all(state$team, task, "The model matrix could not be made", here)[[1L]]
  structure(c(about, list(part = part, columns = columns, n = sum(state$layout$counts), device = "cpu")),
    class = "gpu_split_design", assign = about$assign)
}

# In a member: the design of its frame. `defaults` is the session's option `contrasts`.
part_design <- function(frame, contrasts, defaults) {
  before <- options(contrasts = defaults)
  on.exit(options(before))
  design_of(attr(frame, "terms"), frame, contrasts, running_member()$device)
}
design_facts <- function(d, columns) {
  chosen <- if (is.null(columns)) d else design_columns(d, columns)
  factors <- lapply(factor_columns(chosen), function(f) f[c("levels", "columns", "table")])
  list(p = chosen$p, names = chosen$names, assign = d$assign, contrasts = d$contrasts, factors = factors)
}

#' @export
dim.gpu_split_design <- function(x) c(x$n, x$p)
#' @export
dimnames.gpu_split_design <- function(x) list(NULL, x$names)
#' @method as.matrix gpu_split_design
#' @rawNamespace S3method(base::as.matrix,gpu_split_design)
as.matrix.gpu_split_design <- function(x, ...) x
#' @export
`[.gpu_split_design` <- function(x, i, j, drop = FALSE) {
  if (!missing(i)) refuse_split("[", advice = "Only columns of a model matrix over a team can be selected.")
  all <- x$columns %||% seq_len(x$p)
  out <- known_design(x$part, if (is.character(j)) all[match(j, x$names)] else all[j], environment())
  out$assign <- x$assign[j]
  attr(out, "assign") <- out$assign
  out
}
