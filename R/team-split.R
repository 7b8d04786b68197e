# Matrices, vectors and data frames whose rows, or columns, are distributed over the members of a team.
#
# A split has a state, an environment: its kind, how many rows (or columns) each member has, and the members' parts if
# they are in this process (team-here.R). Otherwise it has an id, and a recipe by which `gpu_repair()` makes it again;
# operations are then queued, and sent to the members with the next request for a value. The members record them like
# any other operations.

is_split <- function(x) is_of(x, "gpu_split")
state_of <- function(x) attr(x, "state")

# Divides n rows into contiguous runs, one for each member, as `run()` in the engine does. Returns their numbers from 1.
team_runs <- function(n, size) {
  bounds <- floor(n * (0:size) / size)
  if (n <= .Machine$integer.max) bounds <- as.integer(bounds)
  lapply(seq_len(size), function(k) bounds[k] + seq_len(bounds[k + 1L] - bounds[k]))
}

#' Split data over the members of a team
#'
#' Each member stores a contiguous block of rows (or columns) as an array on its device. For the functions below a split
#' behaves like the whole matrix. Operations are recorded, and the members compute them when a value is needed, with one
#' collective for each value. Other functions raise an error that recommends `collect()`, which copies the whole split
#' to this session. So data are never gathered silently.
#'
#' - Recorded, with a split as the result: the operators, functions of the group `Math` (cumulative ones of vectors),
#'   `is.na()` and related functions, `round()`, `ifelse()`, `pmin()`, `pmax()`, `atan2()`, `beta()`, `choose()` and
#'   related functions, `dnorm()`, `pnorm()`, `qnorm()`, `match()` and `%in%` of a vector and an ordinary table,
#'   `findInterval()`, `x[, columns]`, `t()`, `sweep()`, `x %*% y` with an ordinary `y`, and sums and means along the
#'   margin that is split (`rowSums()` of a matrix split by rows). Ordinary operands are recycled as in base R, over the
#'   whole matrix; other splits must be divided in the same way.
#' - Computed, with an ordinary result: `sum()`, `prod()`, `min()`, `max()`, `range()`, `any()`, `all()`, `mean()`,
#'   `weighted.mean()`, `var()`, `sd()`, `cov()`, `cor()`, `median()`, `quantile()` of all types, `IQR()`, `mad()`,
#'   `summary()` of a vector of numbers, `anyNA()`, `is.unsorted()`, `mean(x, trim)`, `colSums()`,
#'   `colMeans()` (`rowSums()`, `rowMeans()` of a matrix split by columns), `which.max()`, `which.min()`, `head()`,
#'   `tail()`, `table()`, `unique()`, `tabulate()`, `rle()` and `anyDuplicated()` of a vector, `match()` of an ordinary
#'   vector and a split table, `rowsum()`, and `crossprod(x)`, `crossprod(x, y)` if `y` is divided in the same way, or
#'   is an ordinary matrix or vector with as many rows (`tcrossprod()` of matrices split by columns).
#' - Computed, with a split as the result: `rank()` and `rev()` of a vector, `duplicated()` of a vector or of the rows
#'   of a matrix or data frame, and `match()` and `%in%` of two splits of a team, with the blocks of `x`; `diff()` of a
#'   vector or of the rows of a matrix, whose last blocks are shorter; `rev()` of a matrix, a vector. Each member is
#'   sent the parts of the others one after the other, so it needs memory for one more part; for `diff()` it is sent
#'   their first `lag` rows. The numbers of `rank(ties.method = "random")` are drawn in this session.
#' - With a split as the result, whose blocks differ from those of `x`: `sort()` of a vector, after which the first
#'   member has the smallest elements; `order()` by one or several keys, which may be splits divided in the same way,
#'   and vectors or arrays with as many elements, each with its own direction if `method = "radix"`; `which()`; and
#'   `x[i]` of a vector by a split condition. `apply()` over the margin that is split calls the function on the members.
#' - Models: [gpu_lm()] and [gpu_glm()], [gpu_knn()], `scale()`, `prcomp()`, `kmeans()` and [gpu_kmeans()]
#'   ([split-models]), `qr()` and `svd()` ([split-decompositions]).
#' - A split of a data frame: `x$column`, `x[["column"]]`, `x[, columns]`, `dim()`, `names()`, and as an argument of
#'   [gpu_together()].
#'
#' For columns that are dates, times, differences of times, factors, logical values or 64-bit integers, reductions,
#' `sort()`, `rev()` and `diff()` return base R's type and class, or raise its error.
#'
#' Medians and quantiles are exact: members sort their parts, and repeatedly send values at a few positions until only
#' one value remains.
#'
#' Sums are computed on each member first, then over the members in the order of their ranks: the last bits depend on
#' the number of members.
#'
#' @param x A matrix, vector or data frame; a [gpu_reader()], whose source each member opens to read its own rows, so
#'   that a file must have the same path everywhere; or `function(rows)`, which each member calls with the numbers of
#'   its rows, and which returns these rows: the data then never pass through this session. An array is split on its
#'   device if the members are devices of this process; a team of one member shares it. For `print()` and `collect()`, a
#'   split.
#' @param team A team, see [gpu_team()].
#' @param margin 1 to split rows, 2 for columns.
#' @param n The number of rows if `x` is a function.
#' @param ... Not used.
#' @returns `gpu_split()`: an object of class `gpu_split` with the dimensions of `x`. In a launcher's team all processes
#'   must call the same functions of splits. `collect()`: the whole data as an ordinary matrix, vector or data frame.
#' @section Errors:
#' `verdigris_error_argument` for an `x` of another kind; `verdigris_error_split` for functions without a method and for
#' splits that do not match; base R's errors on dimensions; the errors of [gpu_together()].
#' @examples
#' team <- gpu_team(c("cpu", "cpu"))
#' x <- gpu_split(matrix(c(1:9, NA), 5), team)
#' x
#' colMeans(x, na.rm = TRUE)
#' range(sqrt(x[, 1]))
#' crossprod(is.na(x) + 1)
#' collect(x * 2)
#' gpu_split(function(rows) cbind(rows, rows^2), team, n = 4)
#' @eval remote_topics()
#' @export
gpu_split <- function(x, team, margin = 1, n = NULL) {
  check_team(team)
  if (!(is_count(margin, 1) && margin %in% c(1, 2))) abort_argument("margin", "1 (rows) or 2 (columns)", margin)
  if (!is.null(n) && !is_count(n)) abort_argument("n", "a number of rows, or NULL", n)
  call <- environment()
  # members of other processes are sent ordinary numbers
  if (is_gpu(x) && !(are_here(team) && is_number(x))) x <- collect(x)
  read <- if (is_reader(x)) reader_for_split(x, margin, call)
  if (!is.null(read)) {
    n <- rows_of_split_reader(x, margin)
  } else if (is.function(x)) {
    if (is.null(n)) abort_argument("n", "the number of rows, where `x` is a function", n)
  } else if (is.data.frame(x)) {
    if (margin == 2) abort_argument("margin", "1 for a data frame", margin)
    n <- nrow(x)
  } else if (is_number(x) && length(dim(x)) %in% c(0L, 2L) || inherits(x, "integer64")) {
    if (margin == 2 && is.null(dim(x))) abort_argument("margin", "1 for a vector", margin)
    n <- if (is.null(dim(x))) length(x) else dim(x)[margin]
  } else {
    abort_argument("x", "a matrix, vector or data frame, a reader, or a function of rows", x)
  }
  recipe <- list(id = next_id(team), how = "source", x = read %||% x, n = n, margin = margin)
  layout <- new.env(parent = emptyenv())
  shape <- make_part(team, source_command(team, recipe, layout), "The split could not be made", call)
  kind <- shape$kind
  if (kind == "object") stop_verdigris("argument", "`x` must give a matrix, vector or data frame.")
  wrong <- is.function(x) && !isTRUE(all(layout$reported_rows == layout$counts))
  if (wrong) stop_verdigris("argument", sprintf("`x` must give the rows that it is called with: %s, not %s.",
    paste(layout$counts, collapse = " and "), paste(layout$reported_rows, collapse = " and ")))
  across <- if (margin == 2) dim(x)[1L] else shape$columns
  names <- if (margin == 2) rownames(x) else shape$names
  out <- new_split(team, recipe, layout, kind, margin, across, names)
  knowing_type(out, if (is_number(x) && !is_int64(x)) typeof(x))
}

next_id <- function(team) {
  team$made <- team$made + 1
  sprintf("p%.0f", team$made)
}

# A split with `parts`, or with those that members have stored under the recipe's id. `across` is the extent of the
# dimension that is not split, NULL for a vector, and `names` are the names along it.
new_split <- function(team, recipe, layout, kind, margin, across, names = NULL, parts = stored_parts(team, recipe$id)) {
  state <- list2env(list(team = team, layout = layout, kind = kind, margin = margin, across = across, names = names),
    parent = emptyenv())
  if (are_here(team)) state$parts <- parts else {
    id <- state$id <- recipe$id
    state$recipe <- recipe
    # by which a repair finds it
    team$splits[[id]] <- rlang::new_weakref(state)
    # the members free their parts when the state is garbage
    reg.finalizer(state, releasing(team, id))
  }
  split_of(state)
}
# Not made in new_split(), whose frame has all of the recipe.
releasing <- function(team, id) {
  force(team)
  force(id)
  function(state) {
    release(team, id)
    if (!is.null(team$splits[[id]])) rm(list = id, envir = team$splits)
  }
}
# Lets the members free their parts now: R's collector may run late.
free_parts <- function(x) {
  state <- state_of(x)
  if (are_here(state$team)) state$parts <- NULL else release(state$team, state$id)
}

split_of <- function(state) remote_object("gpu_split", state = state)

# ---- how parts are made, and made again ---------------------------------------------------------------

# Makes a part at once, and returns its shape on the first member. `layout$reported_rows` becomes the members' numbers
# of rows, and so does `layout$counts` if it is not yet known.
make_part <- function(team, command, what, call) {
  task <- c(command, list(keep = command$id))
  shapes <- request_all(team, function(rank) task, what, call)
  kinds <- unique(lapply(shapes, function(shape) shape[c("kind", "columns", "names")]))
  # values of `gpu_together(keep = TRUE)` may be of any kind
  if (length(kinds) > 1L && isTRUE(command$alike)) stop_verdigris("split",
    "The members' parts differ in kind, columns or names.",
    "The function must return parts of the same form on all members.", call = call)
  layout <- command$layout
  layout$reported_rows <- vapply(shapes, function(shape) as.double(shape$rows), 1)
  if (team$engine$kind == "env") layout$reported_rows <- gpu_all_gather(layout$reported_rows)
  if (is.null(layout$counts)) layout$counts <- layout$reported_rows
  shapes[[1L]]
}

# The command that makes the part of a source. Each member is sent its rows.
source_command <- function(team, recipe, layout) {
  runs <- team_runs(recipe$n, team$engine$size)
  layout$counts <- lengths(runs)
  x <- recipe$x
  piece <- function(rank) {
    rows <- runs[[rank]]
    # a source that only this session can read is read here and sent
    if (is_reader(x)) return(local_rows(x, rows, recipe$margin))
    if (is.function(x)) return(rows)
    # a member that has all rows shares the array without a copy
    if (is_gpu(x) && length(rows) == recipe$n) return(x)
    if (is.null(dim(x))) x[rows] else if (recipe$margin == 2) x[, rows, drop = FALSE] else
      x[rows, , drop = FALSE]
  }
  args <- list(structure(piece, class = "team_each"))
  if (is.function(x)) args <- c(args, list(x))
  list(do = "call", id = recipe$id, f = "source_part", args = args, layout = layout,
    alike = is.function(x) && recipe$margin == 1)
}

# In a member: its rows on its device; of a data frame, the numeric columns. Recorded values are computed now, since
# otherwise each use of the part would compute them again.
source_part <- function(rows, read = NULL) {
  x <- if (is.null(read)) rows else read(rows)
  y <- as_gpu(x, device = running_member()$device)
  # base R's subscript of a data frame keeps the row names of the whole; the part's rows are numbered from 1
  if (is.data.frame(y) && !is.character(attr(x, "row.names"))) attr(y, "row.names") <- .set_row_names(nrow(x))
  arrays <- unname(Filter(is_gpu, if (is.list(y)) as.list(y) else list(y)))
  if (length(arrays)) do.call(gpu_compute, arrays)
  y
}

# Records a call of `f` on the members' parts, and returns a split with the runs of x. Arguments are splits,
# `team_operand`s, or values that all members get whole.
record_split <- function(x, f, args, kind = state_of(x)$kind, margin = state_of(x)$margin, across = state_of(x)$across,
  names = state_of(x)$names) {
  team <- state_of(x)$team
  layout <- state_of(x)$layout
  recipe <- parts <- NULL
  if (are_here(team)) parts <- parts_made(team, f, args, layout) else {
    recipe <- list(id = next_id(team), how = "call", f = f, args = lapply(args, recipe_argument), like = layout)
    team$queue[[length(team$queue) + 1L]] <- call_command(recipe)
  }
  out <- new_split(team, recipe, layout, kind, margin, across, names, parts)
  # parts that are all in this process tell it when it is asked for
  if (team$engine$kind == "local") out else knowing_type(out, type_of_call(f, args))
}

# Computes a split whose number of rows on each member depends on the values: it is known once the part is made, and may
# be another one after a repair. `kind` is taken from the first member's part unless it is given.
compute_split <- function(x, f, args, kind = NULL, what = "The rows could not be computed", call = parent.frame()) {
  state <- state_of(x)
  recipe <- list(id = next_id(state$team), how = "computed", f = f, args = lapply(args, recipe_argument),
    like = state$layout, kind = kind)
  layout <- new.env(parent = emptyenv())
  shape <- make_part(state$team, computed_command(recipe, layout), what, call)
  new_split(state$team, recipe, layout, kind %||% shape$kind, 1, shape$columns, shape$names)
}

computed_command <- function(recipe, layout) {
  command <- call_command(recipe)
  command$layout <- layout
  command$kind <- recipe$kind
  command
}

# An argument as a recipe keeps it. Of a split it keeps the recipe, but not the state, whose finalizer frees the parts.
# In this process, where a recipe is used once, the split stays.
recipe_argument <- function(arg) {
  if (!is_split(arg) || are_here(state_of(arg)$team)) return(arg)
  state <- state_of(arg)
  source <- list(recipe = state$recipe, layout = state$layout)
  class(source) <- "team_source"
  source
}

call_command <- function(recipe) {
  list(do = "call", id = recipe$id, f = recipe$f, args = lapply(recipe$args, wire_argument, recipe$like),
    layout = recipe$like)
}

# An argument as members are sent it: the id of a part, a function of the rank, or the value.
wire_argument <- function(arg, layout) {
  if (inherits(arg, "team_source")) return(part_named(arg$recipe$id))
  if (inherits(arg, "team_operand")) return(structure(function(rank) operand_of(arg, layout, rank),
    class = "team_each"))
  arg
}

# Stands for the part of this id in what members are sent.
part_named <- function(id) {
  part <- list(id = id)
  class(part) <- "team_part"
  part
}

# An argument of a task: for a split members get their parts. The runs `layout` are needed for a `team_operand`.
task_argument <- function(arg, layout = NULL) wire_argument(recipe_argument(arg), layout)
check_team_of <- function(x, team, call) {
  if (!identical(state_of(x)$team$id, team$id)) stop_verdigris("split", "The split belongs to another team.",
    "Split the data over this team by `gpu_split()`.", call = call)
}

# Calls f on the members; the values stay there, as a split.
kept_split <- function(team, f, args, call) {
  recipe <- list(id = next_id(team), how = "kept", f = f, args = lapply(args, recipe_argument))
  layout <- new.env(parent = emptyenv())
  shape <- make_part(team, kept_command(recipe, layout), "`f` failed", call)
  new_split(team, recipe, layout, shape$kind, 1, shape$columns, shape$names)
}

kept_command <- function(recipe, layout) c(replace(recipe, "args", list(lapply(recipe$args, wire_argument, NULL))),
  list(layout = layout))

# After a repair: makes the parts of all live splits again, in the order in which they were first made. If some cannot
# be made, because a lost member held their sources, the error is raised after all others have been made.
make_again <- function(team, call) {
  states <- Filter(Negate(is.null), lapply(mget(ls(team$splits), envir = team$splits), rlang::wref_key))
  numbers <- vapply(states, function(state) as.numeric(substring(state$id, 2L)), 1)
  alive <- vapply(states, function(state) state$id, "")
  shown <- vapply(states, function(state) format(split_of(state)), "")
  made <- character()
  failed <- list()
  again <- function(recipe) {
    if (recipe$id %in% made) return()
    for (arg in recipe$args) if (inherits(arg, "team_source")) again(arg$recipe)
    made <<- c(made, recipe$id)
    layout <- layouts[[recipe$id]]
    if (recipe$how == "call") {
      team$queue[[length(team$queue) + 1L]] <- call_command(recipe)
      return()
    }
    layout$counts <- NULL
    command <- switch(recipe$how, computed = computed_command(recipe, layout), source = source_command(team, recipe,
      layout), kept_command(recipe, layout))
    tryCatch(make_part(team, command, "The split could not be made again", call), verdigris_error = function(e) {
      if (!is.null(team$broken)) stop(e)
      failed[[recipe$id]] <<- e
    })
  }
  # layouts of dead splits, too: splits that were computed from them share the layouts
  layouts <- list()
  collect_layouts <- function(recipe, layout) {
    if (recipe$how != "call") layouts[[recipe$id]] <<- layout
    for (arg in recipe$args) if (inherits(arg, "team_source")) collect_layouts(arg$recipe, arg$layout)
  }
  for (state in states) collect_layouts(state$recipe, state$layout)
  for (state in states[order(numbers)]) again(state$recipe)
  for (id in setdiff(made, alive)) release(team, id)
  if (!length(failed)) return()
  lost <- states[vapply(states, function(state) any(names(failed) %in% recipes_of(state$recipe)), NA)]
  for (state in lost) if (is.null(state$layout$counts)) state$layout$counts <- numeric(team$engine$size)
  stop_verdigris("split", sprintf("%s cannot be made again: %s.", if (length(lost) == 1L) "A split" else sprintf(
    "%d splits", length(lost)), paste(shown[alive %in% vapply(lost, function(state) state$id, "")], collapse = ", ")),
    c("The team can be used, and its other splits are complete.",
      "Arrays of `gpu_ref()` and values of `keep = TRUE` were lost with their member: make them again."),
    call = call, parent = failed[[1L]])
}

# The ids of a recipe and of all recipes that it depends on.
recipes_of <- function(recipe) c(recipe$id, unlist(lapply(recipe$args, function(arg) if (inherits(arg, "team_source"))
  recipes_of(arg$recipe))))

# ---- operands ----------------------------------------------------------------------------------------

# An ordinary value of which each member is sent the elements for its rows, by R's rule: recycled along the columns of
# the whole. The split x gives the shape.
team_operand <- function(value, x) {
  state <- state_of(x)
  structure(list(value = value, margin = state$margin, across = state$across), class = "team_operand")
}

# The number of elements of a split vector before each member's part: a function of the rank, since a repair changes it.
elements_before <- function(x) {
  layout <- state_of(x)$layout
  # a split in the function's environment would keep its parts
  rm(x)
  structure(function(rank) sum(layout$counts[seq_len(rank - 1L)]), class = "team_each")
}

# The elements of an operand for one rank.
operand_of <- function(operand, layout, rank) {
  counts <- layout$counts
  before <- sum(counts[seq_len(rank - 1L)])
  here <- seq_len(counts[rank])
  n <- sum(counts)
  value <- operand$value
  across <- operand$across
  if (length(dim(value)) == 2L) return(if (operand$margin == 2) value[, before + here, drop = FALSE] else
    value[before + here, , drop = FALSE])
  if (is.null(across)) return(value[(before + here - 1) %% length(value) + 1])
  if (operand$margin == 2) {
    at <- before * across + seq_len(counts[rank] * across) - 1
    return(matrix(value[at %% length(value) + 1], across, counts[rank]))
  }
  # all columns use the same elements
  if (n %% length(value) == 0) return(value[(before + here - 1) %% length(value) + 1])
  at <- outer(before + here - 1, (seq_len(across) - 1) * n, "+")
  matrix(value[at %% length(value) + 1], counts[rank], across)
}

# ---- what a split is ---------------------------------------------------------------------------------

#' @export
dim.gpu_split <- function(x) {
  state <- state_of(x)
  if (state$kind %in% c("vector", "object")) return(NULL)
  n <- sum(state$layout$counts)
  extents <- if (state$margin == 2) c(state$across, n) else c(n, state$across)
  if (all(extents <= .Machine$integer.max)) as.integer(extents) else extents
}

#' @export
length.gpu_split <- function(x) {
  state <- state_of(x)
  if (state$kind == "frame") return(length(state$names))
  n <- sum(state$layout$counts) * (state$across %||% 1)
  if (n <= .Machine$integer.max) as.integer(n) else n
}

#' @export
dimnames.gpu_split <- function(x) {
  state <- state_of(x)
  if (is.null(state$names)) return(NULL)
  if (state$margin == 2) list(state$names, NULL) else list(NULL, state$names)
}

#' @export
names.gpu_split <- function(x) if (state_of(x)$kind == "frame") state_of(x)$names

#' @rdname gpu_split
#' @export
print.gpu_split <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  state <- state_of(x)
  if (state$kind == "object") return(invisible(x))
  args <- list(task_argument(x), state$kind, state$margin)
  first <- request_all(state$team, function(rank) if (rank == 1L) list(f = "first_rows", args = args),
    "The split could not be shown", environment())[[1L]]
  if (!is.null(first)) print(first)
  left <- sum(state$layout$counts) - if (state$kind == "vector") length(first) else if (state$margin == 2)
    NCOL(first) else NROW(first)
  if (!is.null(first) && left > 0) cat(sprintf("... and %s more %s\n", format_count(left), if (state$kind == "vector")
    "elements" else if (state$margin == 2) "columns" else "rows"))
  invisible(x)
}

# In a member: the first rows, for print().
first_rows <- function(x, kind, margin) {
  few <- seq_len(min(6L, if (margin == 2) ncol(x) else NROW(x)))
  collect(if (kind == "vector") x[few] else if (margin == 2) x[, few, drop = FALSE] else x[few, , drop = FALSE])
}

#' @export
format.gpu_split <- function(x, ...) {
  state <- state_of(x)
  size <- state$team$engine$size
  extents <- if (is.null(dim(x))) length(x) else dim(x)
  what <- switch(state$kind, frame = "data frame", object = "values", state$kind)
  along <- if (state$kind %in% c("vector", "object")) "" else if (state$margin == 2) ", by columns" else ", by rows"
  sprintf("<gpu_split %s [%s] over %d member%s%s>", what, paste(format_each(extents), collapse = " x "), size,
    if (size == 1L) "" else "s", along)
}
format_each <- function(n) format(n, scientific = FALSE, trim = TRUE)

#' @export
str.gpu_split <- function(object, ...) cat("", format(object), "\n")

#' @rdname gpu_split
#' @export
collect.gpu_split <- function(x, ...) {
  if (...length()) rlang::check_dots_empty()
  state <- state_of(x)
  parts <- parts_here(x, environment())
  if (state$kind == "object") return(parts)
  if (state$kind == "vector") return(do.call(c, parts))
  out <- do.call(if (state$margin == 2) cbind else rbind, parts)
  # base R gives some matrices without elements dimnames that are all NULL
  if (state$kind == "matrix" && !is.null(dimnames(out)) && all(vapply(dimnames(out), is.null, NA)))
    dimnames(out) <- NULL
  with_scaling(out, x)
}

# The parts as ordinary values, by rank.
parts_here <- function(x, call) {
  state <- state_of(x)
  task <- list(f = "collect", args = list(task_argument(x)))
  what <- "The split could not be collected"
  if (state$team$engine$kind != "env") return(request_all(state$team, function(rank) task, what, call))
  if (!state$kind %in% c("vector", "matrix")) stop_verdigris("split",
    "In a launcher's team only vectors and matrices of numbers can be collected.",
    "For other values use collectives, such as `gpu_all_gather()`.", call = call)
  part <- request_all(state$team, function(rank) task, what, call)[[1L]]
  list(gpu_all_gather(part, state$margin))
}
