# Base R's functions on splits: operations that are recorded on each member, and reductions over the members.

# The error of a function that has no method.
refuse_split <- function(name, call = parent.frame(), advice = NULL) {
  stop_verdigris("split", sprintf("`%s()` has no method for splits%s.", name, if (length(advice))
    " with these arguments" else ""), c(advice,
    "`collect(x)` copies all of it to this session, where every function works.",
    "`gpu_together(team, f, x)` runs a function on each member's part."), call = call)
}

frames_refused <- function(x, name, call = parent.frame()) {
  kind <- state_of(x)$kind
  if (kind == "frame") refuse_split(name, call, "Select columns of the data frame first: `x$column` or `x[, columns]`.")
  if (kind == "object") refuse_split(name, call)
}

# Base R's summaries of fits wrap vectors of the fit in c().
#' @export
c.gpu_split <- function(...) {
  parts <- list(...)
  if (length(parts) != 1L || !state_of(parts[[1L]])$kind == "vector") refuse_split("c")
  parts[[1L]]
}

# ---- elementwise -------------------------------------------------------------------------------------

# The method of R's operators.
split_operators <- function(e1, e2) {
  call <- environment()
  one <- missing(e2)
  x <- if (is_split(e1)) e1 else e2
  frames_refused(x, .Generic, call)
  if (one) return(record_split(x, .Generic, list(e1)))
  other <- if (is_split(e1)) e2 else e1
  # if a vector and a matrix are split alike, the result has the matrix's shape
  if (is_split(other)) {
    frames_refused(other, .Generic, call)
    check_alike(x, other, call)
    if (state_of(x)$kind == "vector") x <- other
  } else {
    other <- operand_for(x, other, call)
  }
  record_split(x, .Generic, if (is_split(e1)) list(e1, other) else list(other, e2))
}

# Raises an error unless two splits have the same team and runs and, as matrices, the same dimensions.
check_alike <- function(x, y, call) {
  a <- state_of(x)
  b <- state_of(y)
  if (!identical(a$team, b$team)) stop_verdigris("split", "The splits belong to different teams.",
    "`gpu_split(collect(x), team)` moves one to the other team.", call = call)
  both <- a$kind == "matrix" && b$kind == "matrix"
  if (both && !(a$margin == b$margin && identical(as.double(dim(x)), as.double(dim(y)))) ||
    !identical(as.double(a$layout$counts), as.double(b$layout$counts)) || (a$margin == 2 || b$margin == 2) && !both)
    stop_verdigris("split", sprintf("The splits do not match: %s and %s.", format(x), format(y)),
    "Splits in one operation must have the same dimensions, split in the same way.", call = call)
}

# An ordinary operand in the form that members are sent, after base R's checks of its length.
operand_for <- function(x, value, call, uneven = "longer object length is not a multiple of shorter object length") {
  if (is_gpu(value)) value <- collect(value)
  if (!is_number(value) && !inherits(value, "integer64")) stop_verdigris("split",
    sprintf("The other operand of a split must be numbers or a split, not %s.", describe(value)), call = call)
  if (length(value) == 1L && is.null(dim(value))) return(value)
  d <- dim(x)
  n <- if (is.null(d)) length(x) else prod(d)
  if (!is.null(dim(value)) && !(length(dim(value)) == 2L && !is.null(d) && all(dim(value) == d)))
    stop_as_base("non-conformable arrays", call)
  if (length(value) > n) {
    if (!is.null(d)) stop_as_base(sprintf("dims [product %s] do not match the length of object [%s]",
      format_each(n), format_each(length(value))), call)
    stop_verdigris("split", "A split cannot be combined with a longer vector.", call = call)
  }
  if (length(value) == 0L) stop_verdigris("split", "A split cannot be combined with a vector of length 0.", call = call)
  if (n %% length(value) != 0) warn_as_base(uneven, call)
  team_operand(value, x)
}

#' @export
Math.gpu_split <- function(x, ...) {
  frames_refused(x, .Generic)
  if (.Generic %in% c("cumsum", "cumprod", "cummax", "cummin")) return(cumulative_split(x, .Generic, environment()))
  more <- lapply(list(...), function(arg) if (is_split(arg)) arg else operand_for(x, arg, environment()))
  record_split(x, .Generic, c(list(x), more))
}

#' @export
Complex.gpu_split <- function(z) {
  frames_refused(z, .Generic)
  record_split(z, .Generic, list(z))
}

# Elementwise functions of one argument that are in no group generic.
each_element <- function(name) {
  force(name)
  function(x) {
    frames_refused(x, name)
    record_split(x, name, list(x))
  }
}
#' @export
is.na.gpu_split <- each_element("is.na")
#' @export
is.nan.gpu_split <- each_element("is.nan")
#' @export
is.finite.gpu_split <- each_element("is.finite")
#' @export
is.infinite.gpu_split <- each_element("is.infinite")

#' @export
round.gpu_split <- function(x, digits = 0, ...) {
  frames_refused(x, "round")
  record_split(x, "round", list(x, if (is_split(digits)) digits else operand_for(x, digits, environment())))
}

# ---- shape -------------------------------------------------------------------------------------------

#' @export
t.gpu_split <- function(x) {
  state <- state_of(x)
  if (state$kind != "matrix") refuse_split("t")
  record_split(x, "t", list(x), margin = 3 - state$margin)
}

#' @export
`[.gpu_split` <- function(x, i, j, drop = TRUE) {
  state <- state_of(x)
  call <- environment()
  rows <- "Rows stay on their members: select columns, or make a split of the rows that you need."
  # x[i] of a vector, where i is a split condition
  if (state$kind == "vector" && nargs() - (!missing(drop)) == 2L && !missing(i) && is_split(i)) {
    check_alike(x, i, call)
    if (type_of(i) != "logical") refuse_split("[", call, "Elements are selected by a condition, such as `x[x > 0]`.")
    return(compute_split(x, "part_pick", list(x, i), kind = "vector", call = call))
  }
  # x[j] of a data frame, x[, j] of a data frame or matrix
  list_like <- nargs() - (!missing(drop)) == 2L && state$kind == "frame" && !missing(i)
  columns <- if (list_like) i else if (!missing(j) && missing(i)) j
  if (!missing(i) && !list_like || !state$kind %in% c("frame", "matrix")) refuse_split("[", call, rows)
  if (is.null(columns)) return(x)
  if (state$margin == 2) refuse_split("[", call,
    "Columns of a matrix split by columns cannot be selected; `t(x)` is split by rows.")
  known <- stats::setNames(seq_len(state$across), state$names)
  at <- tryCatch(known[columns], error = function(e) stop_as_base(conditionMessage(e), call))
  if (anyNA(at)) stop_as_base(if (state$kind == "frame") "undefined columns selected" else "subscript out of bounds",
    call)
  at <- unname(at)
  if (length(at) == 1L && drop && !list_like) return(column_of(x, at))
  record_split(x, "part_columns", list(x, at), across = length(at), names = state$names[at])
}

# Column `at`, a number, of a split data frame or matrix: a split vector.
column_of <- function(x, at) record_split(x, "part_column", list(x, at), kind = "vector", across = NULL, names = NULL)

# In a member: subscripts of its part.
part_pick <- function(x, i) if (isTRUE(all(i))) x else x[i]
part_columns <- function(x, at) if (is.data.frame(x)) x[at] else x[, at, drop = FALSE]
part_column <- function(x, at) if (is.data.frame(x)) x[[at]] else strip(x[, at])

#' @export
`[[.gpu_split` <- function(x, i, ...) {
  state <- state_of(x)
  if (state$kind != "frame" || ...length() || length(i) > 1L) refuse_split("[[")
  at <- if (is.character(i)) match_names(i, state$names) else i
  if (length(at) != 1L || is.na(at)) return(NULL)
  if (!at %in% seq_along(state$names)) stop_as_base("subscript out of bounds")
  column_of(x, at)
}

#' @export
`$.gpu_split` <- function(x, name) {
  state <- state_of(x)
  if (state$kind != "frame") refuse_split("$")
  at <- pmatch(name, state$names)
  if (is.na(at)) NULL else column_of(x, at)
}

# ---- reductions --------------------------------------------------------------------------------------

# A statistic of each member's part, folded over the members by `fold`; with "gather" a matrix with a column for each
# member. `stat` names a function of this package that takes the part and `args`, and returns doubles or an array.
reduced <- function(x, stat, args = list(), fold = "+", what = NULL, call = parent.frame()) {
  state <- state_of(x)
  team <- state$team
  args <- lapply(c(list(x), args), task_argument, state$layout)
  task <- list(f = stat, args = args, fold = fold, once = if (team$engine$kind != "env") TRUE)
  values <- request_all(team, function(rank) task, what %||% "The split could not be reduced", call)
  if (team$engine$kind != "local") {
    values <- values[[1L]]
    # a team of one has gathered nothing: its value is not a list
    if (fold != "gather") return(values)
    return(matrix(unlist(lapply(if (is.list(values)) values else list(values), collect)), ncol = team$engine$size))
  }
  if (fold == "gather") return(do.call(base::cbind, lapply(values, collect)))
  fold_values(values, fold)
}

# Folds the values of members of this process, in the order of ranks.
fold_values <- function(values, fold) {
  f <- switch(fold, "+" = `+`, "*" = `*`, min = pmin, max = pmax)
  here <- values[[1L]]
  if (is_gpu(here)) values <- lapply(values, as_gpu,
    device = if (length(here) > FEW_VALUES) gpu_device(here) else "cpu")
  collect(Reduce(f, values))
}
# A copy between devices takes longer than so few elements' way to the host.
FEW_VALUES <- 2^14

# `gpu_all_reduce()` of a split whose parts have the same shape.
fold_parts <- function(x, op) {
  state <- state_of(x)
  if (!state$kind %in% c("vector", "matrix")) frames_refused(x, "gpu_all_reduce")
  if (length(unique(state$layout$counts)) > 1L) stop_verdigris("shape", sprintf(
    "The members' parts have different shapes: %s rows.", paste(state$layout$counts, collapse = ", ")),
    "`gpu_all_reduce()` adds the parts to one another; `sum(x)` and `colSums(x)` add within them.",
    call = parent.frame())
  value <- reduced(x, "identity_part", fold = op, call = parent.frame())
  if (!is.null(state$names) && length(dim(value)) == 2L) colnames(value) <- state$names
  value
}
identity_part <- function(x) x

# Statistics of a part. Integers are summed as doubles: the sum of a part may overflow though that of the whole does
# not. stat_range() is c(-min, max), so that max folds both; stat_truth() counts TRUE, FALSE and NA.
widen_for_sum <- function(x) {
  if (is_gpu(x)) gpu_cast(x, if (is.complex(x)) "complex128" else "float64") else as.double(x)
}
stat_sum <- function(x, na.rm) numbers_later(sum(widen_for_sum(x), na.rm = na.rm))
stat_count <- function(x, na.rm) numbers_later(sum(widen_for_sum(x), na.rm = na.rm), if (na.rm)
  sum(widen_for_sum(!is.na(x))) else length(x))
stat_prod <- function(x, na.rm) numbers_later(prod(widen_for_sum(x), na.rm = na.rm))
stat_range <- function(x, na.rm) {
  # warnings of operations recorded in x are not those of range()
  if (is_gpu(x)) gpu_compute(x)
  ends <- suppressWarnings(range(widen_for_sum(x), na.rm = na.rm))
  later(function() suppressWarnings(as.vector(ends)) * c(-1, 1))
}
stat_truth <- function(x, na.rm) {
  missing <- sum(widen_for_sum(is.na(x)))
  true <- sum(widen_for_sum(x != 0), na.rm = TRUE)
  later(function() c(as.vector(true), length(x) - as.vector(missing) - as.vector(true), if (na.rm) 0 else
    as.vector(missing)))
}
stat_type <- function(x) match(typeof(x), c("logical", "integer", "double", "complex"))
stat_columns <- function(x, na.rm, rows, count) {
  f <- if (rows) rowSums else colSums
  numbers_later(f(widen_for_sum(x), na.rm = na.rm), if (count) f(widen_for_sum(!is.na(x))))
}
stat_crossprod <- function(x, y = NULL) {
  product <- crossprod(x, y)
  if (is_narrow(product)) as_float64(product) else product
}
# The number of rows, the columns' means, and the cross products of the columns less their means.
stat_moments <- function(x, na.rm) {
  y <- widen_for_sum(x)
  if (na.rm) y <- y[!is.na(y)]
  about_means(y, crossprod)
}
# The same with sums of squares only, which need no second matrix of the size of y.
stat_spread <- function(x) about_means(widen_for_sum(x), function(off) colSums(off^2))
about_means <- function(y, sums) {
  if (is.null(dim(y))) dim(y) <- c(length(y), 1L)
  n <- nrow(y)
  p <- ncol(y)
  if (n == 0L) return(c(0, numeric(p), as.vector(sums(base::matrix(0, 0L, p)))))
  means <- column_means(y)
  found <- sums(less_means(y, means))
  numbers_later(n, means, found)
}
# The means of a part's columns, on its device, and the part less its means. On a GPU nothing as long as the part is
# uploaded.
column_means <- function(y) strip(colMeans(y))
less_means <- function(y, means) y - if (is_gpu(y)) along_columns(means, nrow(y)) else rep(means, each = nrow(y))

type_of <- function(x) {
  state <- state_of(x)
  if (is.null(state$type)) {
    # parts that were made by a function may differ: the widest type is the whole's
    codes <- unlist(told_by_parts(x, "stat_type", "The split could not be reduced", parent.frame()))
    if (state$team$engine$kind == "env") codes <- gpu_all_gather(codes)
    if (anyNA(codes)) stop_verdigris("split", "The split has elements that are not numbers.",
      "`gpu_together(team, f, x)` runs a function on each member's part.", call = parent.frame())
    state$type <- c("logical", "integer", "double", "complex")[max(codes)]
  }
  state$type
}

#' @export
Summary.gpu_split <- function(..., na.rm = FALSE) {
  call <- environment()
  parts <- list(...)
  if (length(parts) != 1L) refuse_split(.Generic, call, "Only one split is supported.")
  x <- parts[[1L]]
  frames_refused(x, .Generic, call)
  na.rm <- isTRUE(as.logical(na.rm))
  name <- .Generic
  prototype <- prototype_of(x, call)
  if (is.character(prototype)) return(string_summary(x, name, na.rm, call))
  if (inherits(prototype, "integer64") && !name %in% c("any", "all")) return(int64_summary(x, name, na.rm, call))
  if (is.object(prototype) && !inherits(prototype, "integer64")) {
    # base R raises its errors before members compute
    get(name, baseenv())(restored(1, prototype))
  }
  classed <- function(value) in_class(x, get(name, baseenv()), value, call)
  type <- type_of(x)
  whole <- type %in% c("logical", "integer")
  # sums and extremes of integers are integers
  as_type <- function(value) if (whole) as.integer(value) else value
  if (type == "complex" && !.Generic %in% c("sum", "prod"))
    stop_as_base("invalid 'type' (complex) of argument", call)
  if (type == "complex") return(reduced(x, paste0("stat_", .Generic), list(na.rm), if (.Generic == "sum") "+" else "*",
    call = call))
  if (.Generic == "sum") {
    total <- reduced(x, "stat_sum", list(na.rm), call = call)
    # as in base R since 3.5, a sum that is too large for an integer is a double
    return(classed(if (!is.na(total) && abs(total) > .Machine$integer.max) total else as_type(total)))
  }
  if (.Generic == "prod") return(classed(reduced(x, "stat_prod", list(na.rm), "*", call = call)))
  if (.Generic %in% c("any", "all")) {
    if (!whole && length(x) > 0) warn_as_base(sprintf("coercing argument of type '%s' to logical", type), call)
    counts <- reduced(x, "stat_truth", list(na.rm), call = call)
    decided <- if (.Generic == "any") counts[1L] > 0 else counts[2L] > 0
    return(if (decided) .Generic == "any" else if (counts[3L] > 0) NA else .Generic == "all")
  }
  ends <- reduced(x, "stat_range", list(na.rm), "max", call = call) * c(-1, 1)
  # base R's warnings about no elements
  if (ends[1L] %in% Inf && ends[2L] %in% -Inf) return(get(.Generic, baseenv())(restored(if (whole) integer() else
    numeric(), prototype)))
  classed(as_type(switch(.Generic, min = ends[1L], max = ends[2L], range = ends)))
}

#' @export
mean.gpu_split <- function(x, trim = 0, na.rm = FALSE, ...) {
  call <- environment()
  frames_refused(x, "mean")
  # base R returns NA with a warning for factors and strings
  if (is_no_number(x)) return(mean(""))
  if (!is_untrimmed(trim)) {
    if (type_of(x) == "complex")
      stop_as_base(gettext("trimmed means are not defined for complex data", domain = "R-base"), call)
    if (!is.null(prototype_of(x))) refuse_split("mean", call, "Only numbers have trimmed means.")
    return(remote_trimmed(x, trim, isTRUE(na.rm), function(x, ranks) split_at_ranks(x, ranks, call),
      function(low, high) reduced(x, "stat_between", list(low, high), call = call), call))
  }
  prototype <- prototype_of(x)
  if (inherits(prototype, "integer64")) return(int64_mean(x, isTRUE(na.rm), environment()))
  sums <- reduced(x, "stat_count", list(isTRUE(na.rm)))
  value <- sums[1L] / if (is.complex(sums)) Re(sums[2L]) else sums[2L]
  in_class(x, mean, value)
}

# rowSums() and the like. Sums over a row (or column) that one member holds stay on the members; the others are reduced.
split_margin <- function(x, na.rm, dims, rows, mean, name) {
  call <- parent.frame()
  state <- state_of(x)
  frames_refused(x, name, call)
  if (state$kind != "matrix" || !identical(as.integer(dims), 1L))
    stop_as_base("'x' must be an array of at least two dimensions", call)
  if (rows != (state$margin == 2)) return(record_split(x, name, list(x, na.rm), kind = "vector", margin = 1,
    across = NULL, names = NULL))
  na.rm <- isTRUE(as.logical(na.rm))
  values <- reduced(x, "stat_columns", list(na.rm, rows, mean && na.rm), call = call)
  sums <- values[seq_len(state$across)]
  if (mean) sums <- sums / if (na.rm) Re(values[state$across + seq_len(state$across)]) else sum(state$layout$counts)
  names(sums) <- state$names
  sums
}
setMethod("colSums", "gpu_split", function(x, na.rm = FALSE, dims = 1L) split_margin(x, na.rm, dims, FALSE, FALSE,
  "colSums"))
setMethod("rowSums", "gpu_split", function(x, na.rm = FALSE, dims = 1L) split_margin(x, na.rm, dims, TRUE, FALSE,
  "rowSums"))
setMethod("colMeans", "gpu_split", function(x, na.rm = FALSE, dims = 1L) split_margin(x, na.rm, dims, FALSE, TRUE,
  "colMeans"))
setMethod("rowMeans", "gpu_split", function(x, na.rm = FALSE, dims = 1L) split_margin(x, na.rm, dims, TRUE, TRUE,
  "rowMeans"))

# Means and products of all rows from those of the members (Chan, Golub and LeVeque, 1979).
merged_moments <- function(x, na.rm, call) {
  parts <- reduced(x, "stat_moments", list(na.rm), "gather", call = call)
  p <- state_of(x)$across %||% 1L
  n <- sum(parts[1L, ])
  means <- parts[1L + seq_len(p), , drop = FALSE]
  mean <- as.vector(means %*% parts[1L, ]) / n
  products <- base::matrix(rowSums(parts[-seq_len(1L + p), , drop = FALSE]), p)
  off <- means - mean
  products <- products + off %*% (t(off) * parts[1L, ])
  list(n = n, mean = mean, products = products)
}

# The sum of squares about the means of all rows.
total_squares <- function(x, call) {
  parts <- reduced(x, "stat_spread", list(), "gather", call = call)
  p <- state_of(x)$across %||% 1L
  means <- parts[1L + seq_len(p), , drop = FALSE]
  off <- means - as.vector(means %*% parts[1L, ]) / sum(parts[1L, ])
  sum(parts[-seq_len(1L + p), ]) + sum(colSums(off^2) * parts[1L, ])
}

setMethod("var", "gpu_split", function(x, y = NULL, na.rm = FALSE, use) {
  call <- environment()
  frames_refused(x, "var", call)
  if (!is.null(y) || !missing(use)) refuse_split("var", call, "Only `var(x)` of one split is supported.")
  state <- state_of(x)
  if (state$kind == "matrix" && (state$margin == 2 || isTRUE(na.rm))) refuse_split("var", call,
    "Only matrices split by rows are supported, without `na.rm`.")
  if (is_no_number(x, call)) return(stats::var(restored(c(1, 1), prototype_of(x))))
  if (type_of(x) == "complex") refuse_split("var", call, "Only real numbers are supported.")
  moments <- merged_moments(x, isTRUE(na.rm), call)
  out <- if (moments$n < 2) replace(moments$products, TRUE, NA) else moments$products / (moments$n - 1)
  if (state$kind == "vector") return(out[1L])
  if (!is.null(state$names)) dimnames(out) <- list(state$names, state$names)
  out
})
setMethod("sd", "gpu_split", function(x, na.rm = FALSE) {
  call <- environment()
  frames_refused(x, "sd", call)
  if (state_of(x)$kind == "matrix") refuse_split("sd", call, "Only vectors, such as `x[, 1]`, are supported.")
  if (is_no_number(x, call)) return(stats::sd(restored(c(1, 1), prototype_of(x))))
  if (type_of(x) == "complex") refuse_split("sd", call, "Only real numbers are supported.")
  moments <- merged_moments(x, isTRUE(na.rm), call)
  if (moments$n < 2) NA_real_ else sqrt(moments$products[1L] / (moments$n - 1))
})

# ---- products ----------------------------------------------------------------------------------------

# crossprod() where at least one of x and y is a split.
split_crossprod <- function(x, y, call) {
  if (!is_split(x)) return(t(split_crossprod(y, x, call)))
  for (z in list(x, y)) if (is_split(z)) frames_refused(z, "crossprod", call)
  state <- state_of(x)
  if (state$margin == 2 || is_split(y) && state_of(y)$margin == 2) refuse_split("crossprod", call,
    "Only matrices split by rows are supported.")
  names <- list(state$names, state$names)
  if (is_split(y)) {
    if (!identical(as.double(state$layout$counts), as.double(state_of(y)$layout$counts)) ||
      !identical(state$team, state_of(y)$team)) stop_as_base("non-conformable arguments", call)
    names[2L] <- list(state_of(y)$names)
  } else if (!is.null(y)) {
    if (is_gpu(y)) y <- collect(y)
    if (!is_number(y) || NROW(y) != sum(state$layout$counts)) stop_as_base("non-conformable arguments", call)
    names[2L] <- list(colnames(y))
    y <- team_operand(y, x)
  }
  out <- reduced(x, "stat_crossprod", if (!is.null(y)) list(y) else list(), call = call)
  if (!is.null(names[[1L]]) || !is.null(names[[2L]])) dimnames(out) <- names
  out
}

split_product <- function(x, y, call) {
  if (!is_split(x) || is_split(y)) refuse_split("%*%", call,
    "`x %*% y` needs a split `x` and an ordinary `y`; `crossprod(x, y)` adds over the rows of two splits.")
  frames_refused(x, "%*%", call)
  state <- state_of(x)
  if (state$kind != "matrix" || state$margin == 2) refuse_split("%*%", call,
    "Only matrices split by rows are supported.")
  if (is_gpu(y)) y <- collect(y)
  if (!is_number(y) || length(dim(y)) > 2L) stop_as_base("requires numeric/complex matrix/vector arguments", call)
  # as for matrices: a vector is a column, or a row where that conforms
  if (is.null(dim(y))) y <- if (length(y) == state$across) base::matrix(y) else if (state$across == 1) t(y) else
    stop_as_base("non-conformable arguments", call)
  if (nrow(y) != state$across) stop_as_base("non-conformable arguments", call)
  record_split(x, "matrix_product", list(x, y), across = ncol(y), names = colnames(y))
}

# tcrossprod(): adds over columns that are split, or multiplies rows by an ordinary matrix.
split_tcrossprod <- function(x, y, call) {
  columns <- function(z) is_split(z) && state_of(z)$kind == "matrix" && state_of(z)$margin == 2
  if (columns(x) && (is.null(y) || columns(y))) return(split_crossprod(t(x), if (!is.null(y)) t(y), call))
  if (is_split(x) && is_number(y) && length(dim(y)) == 2L) return(split_product(x, t(if (is_gpu(y)) collect(y) else y),
    call))
  refuse_split("tcrossprod", call, c("Its result would have a row and a column for each row of the split.",
    "`crossprod(x)` adds over the rows; `x %*% y` and `tcrossprod(x, y)` multiply them by an ordinary matrix."))
}

# `sweep()`: all members are sent statistics of the columns; statistics of the rows are split like the rows.
split_sweep <- function(x, margin, stats, f, call) {
  state <- state_of(x)
  frames_refused(x, "sweep", call)
  if (state$kind != "matrix" || !is_count(margin, 1) || !margin %in% c(1, 2)) refuse_split("sweep", call)
  if (is_split(stats) || margin == state$margin) return(f(x, if (margin == 1) stats else refuse_split("sweep", call)))
  if (length(stats) != state$across) stop_as_base("STATS does not match the extent of the split's margin", call)
  if (is_gpu(stats)) stats <- collect(stats)
  record_split(x, "part_sweep", list(x, margin, as.vector(stats), f))
}
part_sweep <- function(x, margin, stats, f) sweep(x, margin, stats, f)
