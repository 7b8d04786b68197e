# Functions of base R on splits that no group generic covers: elementwise functions of several arguments, positions of
# extremes and of TRUE, first and last rows.

# Records an elementwise function of several arguments. The first split matrix, or else the first split, gives the shape
# of the result; ordinary arguments are recycled along the whole. `more` is passed to each member unchanged.
recorded_elements <- function(name, args, call, more = list()) {
  splits <- Filter(is_split, args)
  for (x in splits) frames_refused(x, name, call)
  shaped <- Filter(function(x) state_of(x)$kind == "matrix", splits)
  x <- if (length(shaped)) shaped[[1L]] else splits[[1L]]
  for (y in splits) check_alike(x, y, call)
  args <- lapply(args, function(arg) if (is_split(arg)) arg else if (name %in% c("part_pmin", "part_pmax"))
    operand_for(x, arg, call, gettext("an argument will be fractionally recycled", domain = "R-base")) else
    operand_for(x, arg, call))
  record_split(x, name, c(args, more), names = if (state_of(x)$kind == "matrix") state_of(x)$names)
}

# pmin() and pmax() of splits.
split_extreme <- function(name, args, na.rm, call) {
  if (!is_flag(na.rm)) abort_argument("na.rm", "TRUE or FALSE", na.rm, call)
  for (x in Filter(is_split, args)) if (!is.null(prototype_of(x, call)) && !is_split_int64(x, call))
    refuse_split(name, call, "Only numbers are supported.")
  # base R takes the result's attributes from the first argument
  first <- args[[1L]]
  if (!is_split(first) || state_of(first)$kind == "vector") for (x in Filter(is_split, args)) if (state_of(x)$kind ==
    "matrix") refuse_split(name, call, "The split matrix must be the first argument.")
  recorded_elements(paste0("part_", name), unname(args), call, list(na.rm = na.rm))
}
part_pmin <- function(..., na.rm) pmin(..., na.rm = na.rm)
part_pmax <- function(..., na.rm) pmax(..., na.rm = na.rm)

# match() and %in% of a split vector and an ordinary table, which is sent to all members.
split_match <- function(name, x, table, nomatch, incomparables, call) {
  if (!is.null(incomparables) && !isFALSE(incomparables))
    refuse_split(name, call, "`incomparables` is not supported.")
  if (is_split(table)) return(match_in_split(name, x, table, nomatch, call))
  check_vector_split(x, name, call)
  if (is_gpu(table)) table <- collect(table)
  record_split(x, if (name == "match") "part_match" else "part_among", c(list(x, table), if (name == "match")
    list(nomatch)), kind = "vector")
}
part_match <- function(x, table, nomatch) match(x, table, nomatch)
part_among <- function(x, table) x %in% table

# Raises an error unless x is a split vector.
check_vector_split <- function(x, name, call) if (state_of(x)$kind != "vector") refuse_split(name, call,
  "Only vectors, such as `x[, 1]`, are supported.")

split_intervals <- function(x, vec, rightmost.closed, all.inside, left.open, call) {
  if (is_split(vec) || !is_split(x)) refuse_split("findInterval", call,
    "`x` must be the split, and `vec` an ordinary vector.")
  check_vector_split(x, "findInterval", call)
  if (is_gpu(vec)) vec <- collect(vec)
  record_split(x, "part_bins", list(x, vec, rightmost.closed, all.inside, left.open))
}
part_bins <- function(x, vec, rightmost.closed, all.inside, left.open) findInterval(x, vec, rightmost.closed,
  all.inside, left.open)

split_tabulate <- function(bin, nbins, call) {
  check_vector_split(bin, "tabulate", call)
  prototype <- prototype_of(bin, call)
  if (!is.null(prototype) && !is.factor(prototype)) stop_as_base(gettext("'bin' must be numeric or a factor",
    domain = "R-base"), call)
  # base R's default, max(1L, bin)
  nbins <- if (!is.null(nbins)) nbins else max(1L, reduced(bin, "stat_highest", fold = "max", call = call))
  as_whole_counts(as.vector(reduced(bin, "stat_tabulate", list(as.integer(nbins)), call = call)))
}
# The bins of a part as integers, converted as base R's tabulate() does.
part_bin <- function(bin) if (is.double(bin <- part_numbers(bin))) suppressWarnings(as.integer(strip(bin))) else bin
stat_highest <- function(bin) as.double(base::max(1, collect(part_bin(bin)), na.rm = TRUE))
stat_tabulate <- function(bin, nbins) as.double(tabulate(part_bin(bin), nbins))

# Methods of this package's S4 generics, which record the function.
for (name in c("atan2", "beta", "choose", "lbeta", "lchoose", "dnorm", "pnorm", "qnorm", "ifelse")) {
  generic <- get(name)
  arguments <- lapply(stats::setNames(nm = names(formals(generic))), as.name)
  method <- as.function(c(formals(generic), bquote(split_elements(.(name), .(as.call(c(list(quote(list)),
    unname(arguments)))), environment()))), envir = topenv())
  looks_at <- environment(generic)$.SigLength
  kinds <- if (looks_at == 1L) list("gpu_split") else list(c("gpu_split", "ANY"), c("ANY", "gpu_split"),
    c("gpu_split", "gpu_split"), c("gpu_split", "gpu_array"), c("gpu_array", "gpu_split"))
  for (kind in kinds) setMethod(name, kind, method)
}
rm(name, generic, arguments, method, looks_at, kinds, kind)

split_elements <- function(name, args, call) {
  args <- unname(args)
  x <- args[[1L]]
  # base R's ifelse() returns the shape of `test`, and uses only the first elements of a longer `yes` or `no`
  if (name == "ifelse" && state_of(x)$kind == "vector" && any(vapply(args[-1L], function(arg) is_split(arg) &&
    state_of(arg)$kind == "matrix", NA))) refuse_split(name, call,
      "If `yes` or `no` is a matrix, the test must be one, too.")
  for (arg in Filter(is_split, args)) frames_refused(arg, name, call)
  recorded_elements(if (name == "ifelse") "part_ifelse" else name, args, call)
}
# The type of a part must not depend on its elements.
part_ifelse <- function(test, yes, no) select_by(test, yes, no)

#' @export
anyNA.gpu_split <- function(x, recursive = FALSE) {
  frames_refused(x, "anyNA", environment())
  any(is.na(x))
}

# The position of the first minimum or maximum of a split, for which.min() and which.max().
split_place <- function(x, name) {
  call <- parent.frame()
  frames_refused(x, name, call)
  state <- state_of(x)
  prototype <- prototype_of(x, call)
  if (is.character(prototype)) refuse_split(name, call, "Only numbers are supported.")
  if (type_of(x) == "complex") refuse_split(name, call, "Only real numbers are supported.")
  gathered <- reduced(x, if (is_split_int64(x, call)) "stat_place64" else "stat_place", list(name), fold = "gather",
    call = call)
  # 64-bit integers are compared by their ranks among the members' extremes: doubles cannot hold them
  if (nrow(gathered) == 3L) gathered <- rbind(as.vector(rank(of_two_doubles(gathered[3L, ], gathered[1L, ]),
    ties.method = "min")), gathered[2L, ])
  found <- !is.na(gathered[2L, ])
  if (!any(found)) return(integer())
  counts <- state$layout$counts
  before <- c(0, cumsum(counts))[seq_along(counts)]
  # positions count by columns: those in a part become those in the whole
  at <- gathered[2L, ] - 1
  rows <- pmax(counts, 1)
  place <- if (state$kind == "vector") before + at else if (state$margin == 2) before * state$across + at else
    at %/% rows * sum(counts) + before + at %% rows
  best <- if (name == "which.max") max(gathered[1L, found]) else min(gathered[1L, found])
  place <- min(place[found & gathered[1L, ] == best]) + 1
  if (place <= .Machine$integer.max) as.integer(place) else place
}
# In a member: its extreme and the position from 1, NA without one. Of 64-bit integers: low half, position, high half.
stat_place <- function(x, name) {
  x <- part_numbers(x)
  at <- as.double(collect(get(name, topenv())(strip(x))))
  if (length(at)) c(as.double(collect(strip(x)[at])), at) else c(NA_real_, NA_real_)
}
stat_place64 <- function(x, name) {
  y <- strip(x)
  at <- as.vector(get(name, topenv())(y))
  if (!length(at)) return(rep(NA_real_, 3L))
  value <- in_two_doubles(y[at])
  c(value$low, at, value$high)
}
setMethod("which.max", "gpu_split", function(x) split_place(x, "which.max"))
setMethod("which.min", "gpu_split", function(x) split_place(x, "which.min"))

# which(): the members find different numbers of elements, so the result is a split with its own runs.
setMethod("which", "gpu_split", function(x, arr.ind = FALSE, useNames = TRUE) {
  call <- environment()
  frames_refused(x, "which", call)
  check_vector_split(x, "which", call)
  if (!is.null(prototype_of(x, call)) || type_of(x) != "logical") stop_as_base("argument to 'which' is not logical")
  compute_split(x, "part_which", list(x, elements_before(x), length(x) > .Machine$integer.max), kind = "vector",
    call = call)
})
part_which <- function(x, before, large) which(strip(x)) + if (large) before else as.integer(before)

#' @export
summary.gpu_split <- function(object, ..., digits = NULL, quantile.type = 7) {
  call <- environment()
  frames_refused(object, "summary", call)
  check_vector_split(object, "summary", call)
  if (!is.null(prototype_of(object, call)) || !type_of(object) %in% c("integer", "double")) refuse_split("summary", call,
    "Only real numbers are supported.")
  summary_of_remote(object, digits, quantile.type)
}

# ---- rows ----------------------------------------------------------------------------------------------

#' @export
head.gpu_split <- function(x, n = 6L, ...) {
  call <- environment()
  rows_at_end(x, "head", n, function(total) seq_len(if (n < 0) max(0, total + n) else min(n, total)), call)
}
#' @export
tail.gpu_split <- function(x, n = 6L, keepnums = TRUE, ...) {
  call <- environment()
  first <- NULL
  out <- rows_at_end(x, "tail", n, function(total) {
    # base R's seq.int(to = total, length.out = size) rounds a size that is not whole up
    size <- ceiling(if (n < 0) max(0, total + n) else min(n, total))
    first <<- total - size
    first + seq_len(size)
  }, call)
  at <- first + seq_len(NROW(out))
  # as in base R, rows of a matrix without names are labelled by their numbers
  if (state_of(x)$kind == "matrix" && keepnums && nrow(out) > 0L)
    rownames(out) <- row_labels(at)
  if (is.data.frame(out)) attr(out, "row.names") <- if (is.integer(at) || max(0, at) <= .Machine$integer.max)
    as.integer(at) else format_each(at)
  out
}

# The rows, or elements, that `rows(total)` selects, as an ordinary value.
rows_at_end <- function(x, name, n, rows, call) {
  state <- state_of(x)
  if (state$kind == "object" || state$margin == 2) refuse_split(name, call, "Only data split by rows are supported.")
  if (!is.numeric(n) || length(n) != 1L || is.na(n)) refuse_split(name, call, "`n` must be one number of rows.")
  counts <- state$layout$counts
  wanted <- rows(sum(counts))
  before <- c(0, cumsum(counts))
  own <- lapply(seq_along(counts), function(k) wanted[wanted > before[k] & wanted <= before[k + 1L]] - before[k])
  collect(compute_split(x, "part_some_rows", list(x, structure(function(rank) own[[rank]], class = "team_each")),
    kind = state$kind, call = call))
}
part_some_rows <- function(x, rows) {
  if (is.null(dim(x))) return(x[rows])
  out <- x[rows, , drop = FALSE]
  if (is.data.frame(out)) attr(out, "row.names") <- .set_row_names(length(rows))
  out
}

#' @export
unique.gpu_split <- function(x, incomparables = FALSE, ...) {
  call <- environment()
  if (...length() || !isFALSE(incomparables)) refuse_split("unique", call, "Other arguments are not supported.")
  check_vector_split(x, "unique", call)
  prototype <- prototype_of(x, call)
  if (inherits(prototype, "integer64")) {
    parts <- gathered_lists(x, "part_unique64", list(), call)
    of_all <- function(name) unlist(lapply(parts, `[[`, name)) %||% numeric()
    return(collect_values(unique(of_two_doubles(of_all("high"), of_all("low")))))
  }
  values <- unlist(lapply(gathered_lists(x, "part_unique", list(), call), `[[`, "values"))
  if (is.null(values)) values <- vector(if (is.null(prototype)) type_of(x) else typeof(prototype), 0L)
  unique(if (is.object(prototype)) restored(values, prototype) else values)
}
part_unique64 <- function(x) in_two_doubles(unique(strip(x)))
part_unique <- function(x) list(values = as.vector(collect(unique(strip(part_numbers(x))))))

# ---- what a split is -----------------------------------------------------------------------------------

#' @export
is.numeric.gpu_split <- function(x) {
  state <- state_of(x)
  if (!state$kind %in% c("vector", "matrix")) return(FALSE)
  prototype <- prototype_of(x)
  if (is.null(prototype)) type_of(x) %in% c("integer", "double") else is.numeric(prototype)
}
#' @export
is.matrix.gpu_split <- function(x) state_of(x)$kind == "matrix"
#' @export
is.array.gpu_split <- is.matrix.gpu_split
#' @export
levels.gpu_split <- function(x) if (state_of(x)$kind == "vector") levels(prototype_of(x))

#' @export
is.numeric.gpu_reader <- function(x) !is.null(x$type) && !x$type %in% c("bool8", "complex64", "complex128")
#' @export
is.matrix.gpu_reader <- function(x) !x$frame && !is_vector_reader(x)
#' @export
is.array.gpu_reader <- is.matrix.gpu_reader
