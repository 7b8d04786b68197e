# apply(), sweep(), scale() and functions that call a function on elements. Reductions and sweeps run on the device.

# The name among `names` of the base R function that FUN is ("count" for length()); NA for other functions.
known_function <- function(FUN, names) {
  # In package:verdigris some of these are masks.
  if (is_interposed(FUN)) return(base::intersect(environment(FUN)$.Generic, names)[1L])
  known <- known_functions()
  for (k in seq_along(known)) if (identical(known[[k]], FUN)) return(base::intersect(base::names(known)[k], names)[1L])
  NA_character_
}

# Listed at the first call: each name takes a lookup.
known_functions <- local({
  known <- NULL
  function() {
    if (is.null(known)) known <<- list(sum = base::sum, mean = base::mean, min = base::min, max = base::max,
      prod = base::prod, any = base::any, all = base::all, range = base::range, which.min = base::which.min,
      which.max = base::which.max, which.min = which.min, which.max = which.max, median = stats::median,
      quantile = stats::quantile, rank = base::rank, rank = rank, count = base::length, var = stats::var,
      sd = stats::sd, var = var, sd = sd)
    known
  }
})

REDUCED <- c("sum", "mean", "min", "max", "prod", "any", "all", "var", "sd", "range", "which.min", "which.max")

# The axes that a `MARGIN` names; NULL if it is invalid and base R is to raise the error.
margin_axes <- function(x, MARGIN) {
  if (is.numeric(MARGIN) && length(MARGIN) == 1L && !is.object(MARGIN) &&
    isTRUE(MARGIN >= 1 && MARGIN < length(dim(x)) + 1)) return(as.integer(MARGIN))
  MARGIN <- host_copy(MARGIN, silent = TRUE)
  if (is.object(MARGIN) || !(is.character(MARGIN) || is.numeric(MARGIN) && all(abs(MARGIN) <= length(dim(x)),
    na.rm = TRUE))) return(NULL)
  axes <- if (is.character(MARGIN)) match(MARGIN, names(dimnames(x))) else as.integer(MARGIN)
  if (!anyNA(axes) && all(axes %in% seq_along(dim(x))) && !anyDuplicated(axes)) axes
}

# Reduces x over all dimensions but `kept`; the result has no dimensions. NULL if base R's result may differ from the
# device's.
reduce_margin <- function(name, x, kept, na.rm) {
  d <- dim(x)
  rest <- seq_along(d)[-kept]
  long <- prod(d[rest])
  if (length(x) == 0L || is.complex(x)) return(NULL)
  if (name %in% c("any", "all") && !is.logical(x)) return(NULL)
  # Removing NA may leave a group empty, which base R warns about.
  if (na.rm && name %in% c("min", "max", "var", "sd")) return(NULL)
  if (name %in% c("var", "sd") && long < 2) return(NULL)
  if (name == "range") {
    if (na.rm) return(NULL)
    ends <- lapply(c("min", "max"), reduce_margin, x, kept, FALSE)
    return(if (!is.null(ends[[1L]])) rbind(ends[[1L]], ends[[2L]]))
  }
  if (identical(kept, seq_along(kept))) {
    groups <- c(1, long, prod(d[kept]))
  } else {
    if (!identical(kept, seq_along(d)[-seq_along(rest)])) x <- .Call(C_permute, x, d, c(rest, kept))
    groups <- c(prod(d[kept]), long, 1)
  }
  if (name %in% c("which.min", "which.max")) {
    at <- .Call(C_reduce_groups, name, strip(x), FALSE, groups, TRUE)
    # For a group without known elements base R returns no position.
    return(if (all(at >= 0)) gpu_cast(at + 1, "int32"))
  }
  whole <- !is.double(x)
  # As in base R, extremes of logicals are integers.
  if (is.logical(x) && name %in% c("min", "max")) x <- gpu_cast(x, "int32")
  if (whole && name == "prod") x <- gpu_cast(x, "float64")
  # A standard deviation is rounded to the width of x only after the square root.
  out <- .Call(C_reduce_groups, if (name == "sd") "var" else name, strip(x), na.rm, groups, name != "sd")
  if (name == "sd") return(if (is_narrow(x)) gpu_cast(sqrt(out), "float32") else sqrt(out))
  if (name %in% c("any", "all")) return(gpu_cast(out, "bool8"))
  if (whole && name == "sum") {
    if (any(abs(out) > .Machine$integer.max, na.rm = TRUE)) return(NULL)
    out <- gpu_cast(out, "int32")
  }
  out
}

#' Apply functions along margins
#'
#' [base::apply()], [base::sweep()], [base::scale()], [base::asplit()], [base::marginSums()] and [base::proportions()]
#' for arrays. `apply()` runs `sum`, `mean`, `min`, `max`, `range`, `prod`, `any`, `all`, `var`, `sd`, `which.min` and
#' `which.max` on the device, fused with the operations recorded in the array. Along the rows or columns of a large
#' matrix it also runs other functions on the device, if [gpu_compile()] accepts them and they have no side effects: no
#' random draws, no `stop()`, no `<<-`. Such a function is called for all rows at once, in the type of the array. Any
#' other function receives the parts as ordinary vectors, on the host (see option `verdigris.host_access` in
#' [verdigris-package]). `asplit(x, MARGIN)` returns a list of views. `sweep()` and `scale()` record operations, with
#' the statistics as repeating views.
#' @param X,x An array with dimensions.
#' @param MARGIN,FUN,simplify,STATS,check.margin,margin As in [base::apply()], [base::sweep()] and [base::marginSums()].
#' @param center,scale As in [base::scale()].
#' @param ... Passed on to `FUN`; the functions that `apply()` runs on the device use only `na.rm`.
#' @returns Base R's result (sums of `int64` are `int64`) as an array on the device of `x`; if `apply()` runs another
#'   function, base R's result. `scale()` stores centres and scales as ordinary vectors in attributes, and waits for
#'   them.
#' @section Errors:
#' Base R's errors and messages; the errors of [gpu_compute()]; `verdigris_error_host_access` if host reads are
#' forbidden.
#' @examples
#' m <- as_gpu(matrix(c(1, 2, 3, 4, 5, 9), 2), device = "cpu")
#' apply(m, 1, max)
#' sweep(m, 2, colMeans(m))
#' scale(m)
#' proportions(m, 1)
#' @name apply
NULL

#' @rdname apply
#' @export
apply <- interposed("apply", "X", apply_array(X, MARGIN, match.fun(FUN), ..., simplify = simplify),
  class = c(ON_DEVICE, "gpu_split"), frames = TRUE)

# Whether base R's apply() keeps a list of dimnames that are all NULL (it depends on the version of R).
KEEPS_NO_NAMES <- !is.null(attributes(base::apply(base::array(0, c(1, 1, 1), list(NULL, "a", NULL)), c(3, 1),
  base::sum))$dimnames)

apply_array <- function(X, MARGIN, FUN, ..., simplify = TRUE) {
  if (is_split(X)) return(split_apply(X, MARGIN, FUN, list(...), simplify, parent.frame()))
  X <- without_frame(X)
  if (is_sparse(X)) return(apply_sparse(X, MARGIN, FUN, ..., simplify = simplify))
  d <- dim(X)
  more <- list(...)
  name <- known_function(FUN, REDUCED)
  na.rm <- FALSE
  takes <- !is.na(name) && isTRUE(simplify) && length(d) > 1L && (!length(more) || identical(names(more), "na.rm") &&
    (isTRUE(more[[1L]]) || isFALSE(more[[1L]]))) && !(length(more) && startsWith(name, "which"))
  kept <- if (length(d) > 1L) margin_axes(X, MARGIN)
  if (takes) {
    na.rm <- length(more) && more[[1L]]
    if (length(kept) && length(kept) < length(d)) {
      out <- reduce_margin(name, X, kept, na.rm)
      if (!is.null(out)) {
        names <- dimnames(X)[kept]
        if (name == "range") {
          dim(out) <- c(2L, d[kept])
          dimnames(out) <- dimnames_of_parts(dimnames(X), kept)
        } else if (length(kept) == 1L) {
          if (!is.null(names[[1L]])) names(out) <- names[[1L]]
        } else {
          dim(out) <- d[kept]
          out <- with_dimnames(out, names)
          if (KEEPS_NO_NAMES && !is.null(names)) attr(out, "dimnames") <- names
        }
        return(out)
      }
    }
  }
  out <- if (is.na(name) && isTRUE(simplify)) apply_pure(X, kept, FUN, more)
  if (!is.null(out)) return(out)
  # Base R first permutes the elements one by one, which is slow on an array.
  call_base(base::apply, list(ordinary_copy(X), MARGIN, FUN, ..., simplify = simplify), parent.frame())
}

#' @rdname apply
#' @export
sweep <- interposed("sweep", "x", sweep_array(x, MARGIN, STATS, match.fun(FUN), check.margin, ...),
  class = c(ON_DEVICE, "gpu_split"))

sweep_array <- function(x, MARGIN, STATS, FUN, check.margin, ...) {
  if (is_sparse(x)) return(sweep_sparse(x, MARGIN, STATS, FUN, check.margin, ...))
  if (is_split(x)) return(split_sweep(x, MARGIN, STATS, FUN, parent.frame()))
  d <- dim(x)
  kept <- margin_axes(x, MARGIN)
  device <- gpu_device(x)
  if (is_host_int64(STATS)) STATS <- as_gpu(STATS, device = device)
  if (is.null(d) || is.null(kept) || !is_number(STATS) || !length(STATS) || !is_switch(check.margin)) {
    return(hosted(base::sweep, list(x, MARGIN, STATS, FUN, check.margin, ...)))
  }
  if (check.margin && !identical(if (is.null(dim(STATS))) length(STATS) else dim(STATS), d[kept])) {
    # Base R raises the warning about extents that do not match, for an array with extent 1 in all other dimensions.
    call_base(base::sweep, list(base::array(0, replace(d, -kept, 1L)), kept, blank(STATS), `+`, TRUE))
  }
  size <- prod(d[kept])
  whole <- length(STATS) == size
  stats <- if (is_gpu(STATS)) STATS else as_gpu(as.vector(STATS), dtype = host_dtype(STATS, x), device = device)
  if (!whole && size %% length(STATS) != 0) {
    # As in base R, the statistics are recycled over the other dimensions.
    rest <- setdiff(seq_along(d), kept)
    spread <- .Call(C_permute, recycle(stats, prod(d)), d[c(kept, rest)], order(c(kept, rest)))
  } else {
    axes <- base::match(seq_along(d), kept, nomatch = 0L)
    spread <- strided(recycle(stats, size), d[kept], pmax.int(axes, 1L), d, step = as.double(axes > 0L))
  }
  FUN(x, shaped(spread, d), ...)
}

#' @rdname apply
#' @export
marginSums <- interposed("marginSums", "x", sums_of_margin(x, margin))
#' @rdname apply
#' @export margin.table
margin.table <- interposed("margin.table", "x", sums_of_margin(x, margin))

sums_of_margin <- function(x, margin) {
  if (!is.array(x)) {
    if (!is.numeric(x)) stop_as_base("'x' is not an array")
    dim(x) <- length(x)
  }
  if (!length(margin)) return(sum(x))
  out <- apply(x, margin, sum)
  if (is.array(out)) return(out)
  if (is.character(margin)) margin <- match(margin, names(dimnames(x)))
  dim(out) <- dim(x)[margin]
  names <- dimnames(x)[margin]
  if (!is.null(names)) dimnames(out) <- names
  out
}

#' @rdname apply
#' @export
proportions <- interposed("proportions", "x", shares_of_margin(x, margin))
#' @rdname apply
#' @export prop.table
prop.table <- interposed("prop.table", "x", shares_of_margin(x, margin))

shares_of_margin <- function(x, margin) {
  if (length(margin)) sweep(x, margin, sums_of_margin(x, margin), `/`, check.margin = FALSE) else x / sum(x)
}

# From R 4.5 on asplit() has an argument `drop`.
#' @rdname apply
#' @usage NULL
#' @export
asplit <- interposed("asplit", "x", asplit_array(x, MARGIN, get0("drop", environment(), inherits = FALSE)))

asplit_array <- function(x, MARGIN, drop) {
  d <- dim(x)
  kept <- margin_axes(x, MARGIN)
  usable <- !isTRUE(drop) && length(d) > 1L && length(x) && length(kept) && length(kept) < length(d)
  if (!usable) return(call_base(base::asplit, c(list(ordinary_copy(x), MARGIN), if (!is.null(drop))
    list(drop = drop))))
  rest <- setdiff(seq_along(d), kept)
  parts <- .Call(C_permute, x, d, c(rest, kept))
  names <- dimnames(x)
  out <- .Call(C_slices, parts, as.double(d[rest]))
  # Base R keeps the names of axes without labels.
  if (!is.null(names)) out <- lapply(out, `attr<-`, "dimnames", names[rest])
  dim(out) <- d[kept]
  if (!is.null(names)) attr(out, "dimnames") <- names[kept]
  out
}

# As scale() computes them: the roots of each column's sum of squares over its known elements but one.
root_mean_squares <- function(x) {
  squares <- collect(margin("sum", x^2, TRUE, 1L, FALSE))
  known <- if (anyNA(x)) collect(margin("sum", !is.na(x), FALSE, 1L, FALSE)) else nrow(x)
  sqrt(squares / base::pmax(1, known - 1))
}

#' @rdname apply
#' @export
scale.gpu_array <- function(x, center = TRUE, scale = TRUE) {
  if (length(dim(x)) != 2L) x <- matrix(x, dimnames = if (!is.null(names(x))) list(names(x), NULL))
  p <- ncol(x)
  takes <- function(v) (isTRUE(v) || isFALSE(v)) || is.numeric(v) && length(v) == p
  if (is.complex(x) || !length(x) || !takes(center) || !takes(scale))
    return(upload_result_like(scale(host_copy(x), host_copy(center), host_copy(scale)), x))
  # Given statistics are rounded to the type of x as R numbers are. Computed ones are kept in float64, as is x until the
  # end.
  given <- x
  if (is_narrow(x)) x <- gpu_cast(x, "float64")
  along <- function(v, known) if (known || !is_narrow(given)) v else gpu_cast(cast_like(v, given), "float64")
  found <- is.logical(center)
  if (found) center <- if (isTRUE(center[1L])) collect(margin("mean", x, TRUE, 1L, FALSE))
  center <- host_copy(center)
  if (!is.null(center)) x <- sweep(x, 2L, along(center, found), check.margin = FALSE)
  found <- is.logical(scale)
  if (found) scale <- if (isTRUE(scale[1L])) root_mean_squares(x)
  scale <- host_copy(scale)
  if (!is.null(scale)) x <- sweep(x, 2L, along(scale, found), "/", check.margin = FALSE)
  if (is_narrow(given)) x <- gpu_cast(x, gpu_dtype(given))
  with_attributes(x, c(attributes(x), if (is.numeric(center)) list("scaled:center" = center), if (is.numeric(scale))
    list("scaled:scale" = scale)))
}

#' Apply a function to each element
#'
#' [base::mapply()], [base::Map()], functions of [base::Vectorize()], [base::Position()], [base::Find()] and
#' [stats::complete.cases()] for arrays. Except for the last one, they call an R function with each element, on the
#' host. Base R would read an array element by element; here it is read once, as [base::lapply()] does; `Position()` and
#' `Find()` read the first 4,096 elements, and the rest if needed. `complete.cases()` searches for missing values on the
#' device.
#'
#' For large arrays `sapply()`, `vapply()`, `mapply()` and `Map()` run a function on the device if [gpu_compile()]
#' accepts it and it has no side effects: no random draws, no `stop()`, no `<<-`. The result is still an ordinary
#' vector, of base R's type: a function is left to base R if a value of several types (an integer or a double, by a
#' branch) decides within it, or if it captures objects of a class.
#' With a function made by [gpu_compile()], `mapply()`, `Map()` and `sapply()` are [gpu_map()], whose result is an
#' array.
#' @param FUN,f,...,MoreArgs,SIMPLIFY,USE.NAMES,x,X,simplify,right,nomatch,vectorize.args,FUN.VALUE As in
#'   [base::mapply()], [base::Map()], [base::vapply()], [base::Vectorize()] and [base::Find()].
#' @returns Base R's result: ordinary vectors and lists; for a compiled function the result of [gpu_map()].
#' @section Errors:
#' The errors of `FUN`; `verdigris_error_host_access` if host reads are forbidden.
#' @examples
#' x <- as_gpu(c(3, 1, 2), device = "cpu")
#' mapply(function(a, b) a + b, x, 1:3)
#' Position(function(a) a < 2, x)
#' complete.cases(x)
#' @export
mapply <- interposed("mapply", quote(.ours$is_mapped(FUN, list(...))), mapply_arrays(match.fun(FUN), list(...),
  MoreArgs, SIMPLIFY, USE.NAMES),
  class = c("gpu_array", "gpu_function"), arguments = c("FUN", "...")
)

mapply_arrays <- function(f, parts, MoreArgs, SIMPLIFY, USE.NAMES) {
  if (is_compiled(f)) return(do.call(gpu_map, c(list(f), parts, list(MoreArgs = MoreArgs)), quote = TRUE))
  plain <- (isTRUE(SIMPLIFY) || isFALSE(SIMPLIFY)) && is_switch(USE.NAMES)
  out <- if (plain) map_pure(f, parts, MoreArgs, each = isFALSE(SIMPLIFY))
  if (!is.null(out) && (SIMPLIFY || is.null(dim(out)))) {
    out <- if (SIMPLIFY) out else as.list(out)
    return(with_part_names(out, if (USE.NAMES) names(parts[[1L]])))
  }
  call_base(base::mapply, c(list(f), lapply(parts, ordinary_copy),
    list(MoreArgs = MoreArgs, SIMPLIFY = SIMPLIFY, USE.NAMES = USE.NAMES)))
}

#' @rdname mapply
#' @export
Map <- interposed("Map", quote(.ours$is_mapped(f, list(...))), mapply_arrays(match.fun(f), list(...), NULL, FALSE,
  TRUE),
  class = c("gpu_array", "gpu_function"), arguments = c("f", "...")
)

# Whether f was made by gpu_compile(), or an array is among the arguments that are iterated over.
is_mapped <- function(f, parts) is_compiled(f) || any(vapply(parts, is_gpu, NA))
is_compiled <- function(f) !missing(f) && is.object(f) && inherits(f, "gpu_function")

#' @rdname mapply
#' @export
sapply <- interposed("sapply", quote(.ours$is_compiled(FUN) || !missing(X) && is.object(X) && inherits(X, "gpu_array")),
  sapply_array(X, FUN, list(...), simplify, USE.NAMES), class = c("gpu_array", "gpu_function"),
  arguments = c("X", "FUN"))

sapply_array <- function(X, FUN, more, simplify, USE.NAMES) {
  if (is_compiled(FUN)) return(map_compiled(FUN, X, more))
  out <- if (isTRUE(simplify) && is_switch(USE.NAMES)) map_pure(FUN, list(X), more)
  if (!is.null(out)) return(with_part_names(out, names(X)))
  # Base R's lapply() calls as.vector(X), which reads the array once.
  call_base(base::sapply, c(list(X, FUN), more, list(simplify = simplify, USE.NAMES = USE.NAMES)), parent.frame())
}

#' @rdname mapply
#' @export
vapply <- interposed("vapply", "X", vapply_array(X, FUN, FUN.VALUE, list(...), USE.NAMES))

vapply_array <- function(X, FUN, FUN.VALUE, more, USE.NAMES) {
  plain <- is.atomic(FUN.VALUE) && is.null(attributes(FUN.VALUE)) && is_switch(USE.NAMES)
  out <- if (plain) map_pure(FUN, list(X), more)
  found <- if (is.null(dim(out))) 1L else nrow(out)
  if (!is.null(out) && typeof(out) == typeof(FUN.VALUE) && length(FUN.VALUE) == found)
    return(with_part_names(out, if (USE.NAMES) names(X)))
  call_base(base::vapply, c(list(X, FUN, FUN.VALUE), more, list(USE.NAMES = USE.NAMES)), parent.frame())
}

# Base R's function in this namespace, so that its results call this package's `mapply()`.
#' @rdname mapply
#' @export
Vectorize <- base::Vectorize
environment(Vectorize) <- topenv()

map_compiled <- function(f, x, more) do.call(gpu_map, list(f, x, MoreArgs = more), quote = TRUE)

#' @rdname mapply
#' @export
Position <- interposed("Position", "x", position_in_array(match.fun(f), x, right, nomatch))

position_in_array <- function(f, x, right, nomatch) {
  # Most searches succeed early: the first elements are read first, the others only if needed.
  near <- min(length(x), SEARCHED)
  start <- if (right) length(x) - near else 0L
  at <- base::Position(f, as.vector(x[start + seq_len(near)]), right)
  if (!is.na(at)) return(as.integer(start + at))
  if (near == length(x)) return(nomatch)
  rest <- as.vector(ordinary_copy(x))
  at <- base::Position(f, if (right) rest[seq_len(start)] else rest[-seq_len(near)], right)
  if (is.na(at)) nomatch else as.integer(if (right) at else near + at)
}

# Number of elements that are searched before all are read.
SEARCHED <- 4096L

#' @rdname mapply
#' @export
Find <- interposed("Find", "x", found_in_array(f, x, right, nomatch))

found_in_array <- function(f, x, right, nomatch) {
  at <- position_in_array(match.fun(f), x, right, 0L)
  if (at > 0L) x[[at]] else nomatch
}

#' @rdname mapply
#' @export
complete.cases <- interposed("complete.cases", quote(.Call(.ours$C_holds_array, list(...))),
  complete_in_arrays(list(...)),
  home = "stats", arguments = "...", is = function(x) is_gpu(x) || holds_array(x)
)

complete_in_arrays <- function(parts) {
  plain <- vapply(parts, function(x) is_gpu(x) && length(x) && length(dim(x)) %in% c(0L, 2L), NA)
  if (!all(plain) || length(unique(vapply(parts, NROW, 1L))) > 1L)
    return(do.call(stats::complete.cases, lapply(parts, missing_alone)))
  complete <- lapply(parts, function(x) if (is.null(dim(x))) !is.na(strip(x)) else strip(rowSums(is.na(x))) == 0)
  as.vector(collect(Reduce(`&`, complete)))
}

# A host vector with NA where x is missing and FALSE elsewhere, which is all that complete.cases() inspects.
missing_alone <- function(x) {
  if (is.list(x)) x[] <- lapply(x, missing_alone)
  if (!is_gpu(x)) return(x)
  y <- collect(is.na(x))
  y[y] <- NA
  y
}
