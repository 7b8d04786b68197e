# Which expressions a model of readers may compute in each block: functions that work row by row, known by their names,
# as for splits.

# Functions that work row by row, in addition to those for splits.
BLOCK_BY_ROW <- c("paste", "paste0", "sub", "gsub", "as.Date", "weekdays", "months", "quarters", "interaction",
  "lchoose")

# Functions that make factors.
FACTORS_BY_ROW <- c("factor", "as.factor", "ordered", "as.ordered")

# Functions for which the codes of levels do not matter.
BY_LABEL <- c("==", "!=", "%in%", "match", "as.character", "is.na", FACTORS_BY_ROW)

# Checks all expressions of a model. Returns the rows; arguments of the call that have a value for each row are added to
# `others`.
check_terms <- function(rows) {
  if (rows$n < 2) return(rows)
  columns <- c(rows$names, setdiff(names(rows$readers), ".data"), names(rows$others))
  empty <- structure(rep(list(numeric()), length(rows$names)), names = rows$names, class = "data.frame",
    row.names = integer())
  terms <- stats::terms(rows$formula, data = empty)
  context <- list2env(list(rows = rows, columns = columns, env = environment(rows$formula), by_code = character()),
    parent = emptyenv())
  for (e in as.list(attr(terms, "variables"))[-1L]) check_variable(e, "formula", context)
  for (part in intersect(c("weights", "offset", "etastart", "mustart", "subset"), names(rows$call))) {
    e <- rows$call[[part]]
    if (!reads_rows(e, context)) {
      value <- eval(e, as.list(rows$given), context$env)
      if (part == "subset") check_condition(value, rows)
      if (is.null(value) || length(value) == 1L) next
      if (NROW(value) == rows$n) {
        # the value is cut into blocks, like a variable
        name <- paste0(".", part)
        rows$others[[name]] <- value
        rows$call[[part]] <- as.name(name)
        next
      }
    }
    check_variable(e, part, context)
  }
  rows$by_code <- context$by_code
  rows
}

reads_rows <- function(e, context) any(all.vars(e) %in% context$columns)

check_variable <- function(e, part, context) {
  if (reads_rows(e, context)) return(check_rows_of(e, part, context, if (is.symbol(e)) "label" else "factor"))
  # model.frame() finds the variable, or raises its error
  if (!is.call(e) && is.language(e)) return()
  value <- eval(e, as.list(context$rows$given), context$env)
  if (length(value) > 1L) stop_verdigris("argument", sprintf(
    "`%s` of `%s` has %s elements and is not a variable, but readers are read by blocks.", deparse1(e), part,
    format_count(NROW(value))), "Assign it to a variable with a value for each row.", call = context$rows$frame)
}

# `subset` must be a condition: positions would refer to all rows.
check_condition <- function(value, rows, n = rows$n) {
  if (is.null(value) || is.logical(value) && length(value) %in% c(1, n)) return()
  stop_verdigris("argument", sprintf("`subset` must be a condition with a value for each row, not %s.",
    describe(value)), "An example is `subset = x > 0`. A reader's function can leave out rows by their numbers.",
    call = rows$frame)
}

may_depend <- function(e, part, context, why = "whose values may depend on all rows") stop_verdigris("argument",
  sprintf("`%s` has `%s`, %s, but readers are read by blocks.", part, deparse1(e), why),
  c(
  "Compute it beforehand, as a column that the reader's `function(rows)` returns or that `gpu_chunked(x, f)` writes.",
    "`poly()` needs `coefs` or `raw = TRUE`, splines need `knots` and `Boundary.knots`, `scale()` needs numbers."),
  call = context$rows$frame)

# Checks that an expression has a value for each row that depends on this row alone. `use` says what matters of a factor
# in it: its labels, the factor as a variable (whose levels are compared over the blocks), or its codes.
check_rows_of <- function(e, part, context, use) {
  refuse <- function(...) may_depend(e, part, context, ...)
  if (is.symbol(e)) {
    if (use != "label") context$by_code <- unique(c(context$by_code, as.character(e)))
    return(invisible())
  }
  name <- called_function(e, context$env)
  if (is.null(name)) refuse()
  constant <- function(e) eval(e, as.list(context$rows$given), context$env)
  if (name == "$") return(check_rows_of(e[[2L]], part, context, use))
  if (name %in% c("[[", "[")) {
    column <- name == "[[" && length(e) == 3L || name == "[" && length(e) >= 4L && identical(e[[3L]], quote(expr = ))
    others <- as.list(e)[-(1:2)]
    if (!column || any(vapply(others, function(i) !identical(i, quote(expr = )) && reads_rows(i, context), NA)))
      refuse()
    return(check_rows_of(e[[2L]], part, context, use))
  }
  if (!is.null(ROW_TERMS[[name]])) {
    # arguments that `...` matches are constants, too
    args <- as.list(matched_by_form(e, name))[-1L]
    for (arg in args[-1L]) if (reads_rows(arg, context)) refuse()
    if (!reads_rows(args[[1L]], context)) refuse()
    given <- lapply(args[-1L], constant)
    if (!ROW_CONDITIONS[[name]](given)) refuse()
    if (use == "code" && name %in% FACTORS_BY_ROW && is.null(given$levels)) refuse()
    return(check_rows_of(args[[1L]], part, context, use_of_arguments(name, use)))
  }
  if (!name %in% c(ROW_BY_ROW, BLOCK_BY_ROW)) refuse()
  if (name %in% c("paste", "paste0") && !is.null(e$collapse)) refuse()
  if (name == "interaction" && !is.null(e$drop)) refuse()
  for (arg in as.list(e)[-1L]) {
    if (reads_rows(arg, context)) check_rows_of(arg, part, context, use_of_arguments(name, use))
    else if (length(constant(arg)) > 1L) refuse("which recycles several numbers along the rows")
  }
}

# relevel() for blocks: the factor of a block may lack a level that others have.
relevel_in_block <- function(frame) {
  force(frame)
  function(x, ref, ...) {
    if (is.factor(x) && is.character(ref) && !all(ref %in% levels(x))) stop_verdigris("argument", sprintf(
      "`relevel()` finds no level \"%s\" in a block, whose levels are %s.", ref[!ref %in% levels(x)][1L],
      paste(utils::head(levels(x), 5L), collapse = ", ")),
      "Always give the factor the same `levels` in the reader's `function(rows)`, or write `factor(x, levels)`.",
      call = frame)
    stats::relevel(x, ref, ...)
  }
}

# `use` for the arguments of a function whose value has this `use`.
use_of_arguments <- function(name, use) if (name %in% BY_LABEL) "label" else if (name %in% c("relevel", "C",
  "interaction", "(", "I")) use else "code"

# Formals that match a call's arguments if those after the first are constants; below, conditions on these constants.
ROW_TERMS <- list(
  "%in%" = function(x, table) NULL,
  match = function(x, table, ...) NULL,
  findInterval = function(x, vec, ...) NULL,
  cut = function(x, breaks, ...) NULL,
  relevel = function(x, ref, ...) NULL,
  factor = function(x, levels, labels, exclude, ordered, nmax) NULL,
  as.factor = function(x) NULL,
  ordered = function(x, levels, labels, ...) NULL,
  as.ordered = function(x) NULL,
  C = function(object, contr, how.many, ...) NULL,
  poly = function(x, ..., degree, coefs, raw, simple) NULL,
  scale = function(x, center, scale) NULL,
  ns = function(x, df, knots, intercept, Boundary.knots) NULL,
  bs = function(x, df, knots, degree, intercept, Boundary.knots) NULL
)
any_constants <- function(given) TRUE
given_levels <- function(given) {
  if (!is.null(given$levels)) return(!anyNA(given$levels) || is.null(given$exclude) && !"exclude" %in% names(given))
  is.null(given$labels) && !"exclude" %in% names(given)
}
given_knots <- function(given) length(given$Boundary.knots) == 2L && (!is.null(given$knots) || is.null(given$df))
ROW_CONDITIONS <- list("%in%" = any_constants, match = any_constants, findInterval = any_constants,
  cut = function(given) length(given$breaks) >= 2L, relevel = any_constants, factor = given_levels,
  as.factor = any_constants, ordered = given_levels, as.ordered = any_constants, C = any_constants,
  poly = function(given) isTRUE(given$raw) || !is.null(given$coefs),
  scale = function(given) all(vapply(c("center", "scale"), function(name) is.numeric(given[[name]]) ||
    isFALSE(given[[name]]), NA)), ns = given_knots, bs = given_knots)

# ---- levels --------------------------------------------------------------------------------------------------

# The levels of a factor in a block: `all` of them (for text, all values), their order (`orders`), and those that are
# `used`. `kind` says how the levels of all blocks are put in order. For a call such as factor(x), the type of x decides
# it.
levels_of_block <- function(v, variable, evaluate) {
  if (!is.factor(v)) return(list(kind = "text", all = as.character(unique(v)), used = NULL))
  own <- levels(v)
  out <- list(kind = if (is.call(variable)) "call" else "column", all = own, orders = list(own),
    used = own[base::tabulate(as.integer(collect(v)), length(own)) > 0L])
  if (!is.call(variable)) return(out)
  f <- variable[[1L]]
  maker <- if (is.symbol(f)) as.character(f) else if (is.call(f)) as.character(f[[3L]]) else ""
  read <- if (maker %in% FACTORS_BY_ROW) match.call(ROW_TERMS[[maker]], variable, expand.dots = FALSE)
  if (is.null(read) || !is.null(read$levels)) return(out)
  x <- evaluate(read[[2L]])
  if (is.factor(x)) {
    if (is.symbol(read[[2L]])) out$kind <- "column"
    out$orders <- list(levels(x))
  } else {
    out$kind <- if (is.numeric(x) || inherits(x, "integer64")) "numbers" else if (is.logical(x)) "truth" else "text"
  }
  out
}

joined_levels <- function(a, b) list(kind = a$kind, all = base::union(a$all, b$all), orders = unique(c(a$orders,
  b$orders)), used = base::union(a$used, b$used))

# The levels of all blocks in base R's order, without unused ones.
levels_of_all <- function(name, found, frame) {
  sorted <- function(v) levels(factor(v[!is.na(v)]))
  all <- switch(found$kind,
    text = sorted(found$all),
    numbers = found$all[order(suppressWarnings(as.numeric(found$all)))],
    truth = sorted(found$all),
    if (length(found$orders) == 1L) found$orders[[1L]]
    # each block's levels are sorted text, as factor() makes them, so those of all blocks are sorted, too
    else if (found$kind == "column" && all(vapply(found$orders, function(v) identical(v, sorted(v)), NA)) &&
      anyNA(suppressWarnings(as.numeric(unlist(found$orders))))) sorted(unlist(found$orders))
    else other_levels(name, found$orders, frame))
  if (is.null(found$used)) all else intersect(all, found$used)
}

other_levels <- function(name, orders, frame) {
  shown <- vapply(orders[1:2], function(v) paste(utils::head(v, 5L), collapse = ", "), "")
  stop_verdigris("argument", sprintf("`%s` has different levels in different blocks: %s; %s.", name, shown[1L],
    shown[2L]),
    "Always give the factor the same `levels` in the reader's `function(rows)`, or in `factor()` in the formula.",
    call = frame)
}
