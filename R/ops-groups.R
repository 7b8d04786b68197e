# Grouped computations: reductions and splits of the elements that share a key.
#
# Keys become integer codes, and each code has an accumulator to which its elements are added in a fixed order
# (`C_reduce_coded`). A GPU has memory for accumulators of some ten thousand groups. Beyond that, one sort by code makes
# the elements of each group adjacent, and the groups are reduced as segments (`C_segment_reduce`).

GROUPED <- c("sum", "prod", "mean", "var", "sd", "min", "max", "count", "first", "last")

# Converts keys to a combined code. `codes`: an array of positions (1-based) among all combinations of levels, NA if a
# key is missing; `levels`: the levels of each key as strings; `extent`: their numbers.
grouping <- function(keys, device) {
  coded <- lapply(keys, function(key) {
    key <- if (is_host_int64(key)) as_gpu(key, device = device) else unread_to_array(key, device)
    if (!is_gpu(key)) {
      key <- as.factor(key)
      return(list(codes = factor_codes(key, device), levels = levels(key)))
    }
    values <- counted(key)$values
    # As in factor(), NaN is a level, NA is not, and numbers with the same string are one level.
    nan <- if (is.double(key) && !is_narrow(key)) is.nan(strip(key))
    texts <- c(as.character(values), if (!is.null(nan) && any(nan)) "NaN")
    levels <- unique(texts)
    codes <- if (length(values)) codes_among(key, values) else gpu_full(NA_integer_, length(key), device = device)
    if (length(texts) > length(values)) codes <- select_by(nan, length(texts), codes)
    if (length(levels) < length(texts)) codes <- as_gpu(match(texts, levels), device = device)[codes]
    list(codes = codes, levels = levels)
  })
  levels <- lapply(coded, `[[`, "levels")
  extent <- lengths(levels, use.names = FALSE)
  if (prod(extent) > .Machine$integer.max) stop_as_base("total number of levels >= 2^31")
  strides <- cumprod(c(1L, extent))
  codes <- coded[[1L]]$codes
  for (k in seq_along(coded)[-1L]) codes <- codes + as.integer(strides[k]) * (coded[[k]]$codes - 1L)
  list(codes = codes, levels = stats::setNames(levels, names(keys)), extent = extent)
}

# The codes of a factor as an array. Base R's as.integer() would copy them on the host first.
factor_codes <- function(x, device) {
  if (is_unread_factor(x)) return(as_gpu(as.integer(x), device = device))
  strip(.Call(C_upload, x, "int32", device, NULL))
}

# If key is a vector from as.vector() whose elements are still on the device, the array; otherwise the key unchanged.
unread_to_array <- function(key, device) {
  if (!is.object(key) && is.numeric(key) && .Call(C_is_unread, key)) as_gpu(key, device = device) else key
}

# The position (1-based) of each element among distinct sorted values, which include all known elements.
codes_among <- function(x, values) {
  x <- strip(x)
  m <- length(values)
  if (is.integer(x) && as.double(values[m]) - values[1L] == m - 1)
    return(if (values[1L] == 1L) x else gpu_cast(x, "int32") - (values[1L] - 1L))
  .Call(C_search, x, as_gpu(values, dtype = gpu_dtype(x), device = gpu_device(x)), FALSE)
}

# Reduces each of `groups` groups to one number. `none` is the value for empty groups; NULL leaves that of an empty
# accumulator.
reduce_by <- function(x, codes, groups, name, na.rm, none = NA) {
  x <- strip(x)
  if (na.rm && anyNA(x)) codes <- select_by(is.na(x), NA_integer_, codes)
  if (name == "count" || !is.null(none)) counts <- .Call(C_count_bins, codes, 1, groups)[seq_len(groups)]
  if (name == "count") return(gpu_cast(counts, "int32"))
  out <- reduce_coded(x, codes, groups, name)
  if (is.null(out)) return(of_all(reduce_sorted(x, codes, name), groups, none %||% 0))
  if (!is.null(none) && any(counts == 0)) out <- select_by(counts == 0, none, out)
  as_base_sum(out, x, name)
}

# A sum of integers or logicals is an integer if all results fit.
as_base_sum <- function(out, x, name) {
  if (name == "sum" && typeof(x) %in% c("integer", "logical") && !any(abs(out) > .Machine$integer.max, na.rm = TRUE))
    gpu_cast(out, "int32") else out
}

# Results like x: of floats narrower than double they are accumulated in double, and rounded once, as by `colSums()`.
as_narrow <- function(out, x) if (is.double(x) && is_narrow(x) && gpu_dtype(out) == "float64")
  gpu_cast(out, "float32") else out

# `reduce_by()` with an accumulator for each group; NULL if the device has no memory for as many.
reduce_coded <- function(x, codes, groups, name) {
  if (name %in% c("first", "last")) {
    place <- gpu_seq(1, by = 1, length.out = length(x), device = gpu_device(x))
    at <- .Call(C_reduce_coded, if (name == "first") "min" else "max", place, codes, groups, FALSE)
    # The extreme of an empty group is infinite.
    return(if (!is.null(at)) x[select_by(is.finite(at), at, NA_real_)])
  }
  if (is.logical(x)) x <- gpu_cast(x, "int32")
  out <- .Call(C_reduce_coded, if (name == "sd") "var" else name, x, codes, groups, FALSE)
  if (name == "sd" && !is.null(out)) sqrt(out) else out
}

# Reduces each non-empty group by a sort: `values`, an array, and `present`, the numbers of these groups.
reduce_sorted <- function(x, codes, name) {
  device <- gpu_device(x)
  known <- !is.na(codes)
  if (!all(known)) {
    x <- x[known]
    codes <- codes[known]
  }
  found <- .Call(C_sort, codes, FALSE, TRUE)
  starts <- if (length(codes))
    collect(which(join(c(list(gpu_full(TRUE, 1L, device = device)), differing(found[[1L]]))))) else integer()
  present <- if (length(starts)) as.vector(found[[1L]][starts]) else integer()
  counts <- diff(c(starts, length(codes) + 1L))
  whole <- typeof(x) %in% c("integer", "logical")
  if (!length(present)) {
    out <- recycle(x, 0)
  } else if (name == "first") {
    out <- x[found[[2L]][starts]]
  } else if (name == "last") {
    out <- x[found[[2L]][starts + counts - 1L]]
  } else {
    y <- x[found[[2L]]]
    if (name %in% c("min", "max")) {
      if (is.logical(y)) y <- gpu_cast(y, "int32")
    } else if (whole) {
      y <- gpu_cast(y, "float64")
    }
    offsets <- as_gpu(c(starts, length(codes) + 1) - 1, dtype = if (length(codes) < 2^31) "int32" else "int64",
      device = device)
    of_groups <- function(y, name) .Call(C_segment_reduce, offsets, y, name, FALSE)
    out <- switch(name,
      mean = of_groups(y, "sum") / counts,
      var = , sd = {
        wide <- as_gpu(rep.int(seq_along(counts), counts), device = device)
        deviation <- y - (of_groups(y, "sum") / counts)[wide]
        spread <- of_groups(deviation * deviation, "sum") / select_by(counts > 1L, counts - 1, NA_real_)
        # As in base R, the result is NA, not NaN, if any element is missing.
        if (anyNA(y)) spread <- select_by(of_groups(gpu_cast(is.na(y), "float64"), "sum") > 0, NA_real_, spread)
        if (name == "sd") sqrt(spread) else spread
      },
      of_groups(y, name))
  }
  list(values = as_base_sum(out, x, name), present = present)
}

# Number of groups from which sums of several columns are computed as a sparse matrix product. Sums by code take a pass
# for each column, and from there their accumulators no longer fit into a GPU's fast memory.
SPARSE_GROUPS <- 256

# The rows of each group as a sparse matrix (p, i), for the product in `group_sums()`. NULL if sums by code are better,
# or a code is missing. `sorted` is an environment that caches the result under `key`.
rows_by_group <- function(x, codes, groups, sorted = NULL, key = NULL) {
  if (prefers_host(x) || ncol(x) == 1L || groups < SPARSE_GROUPS) return(NULL)
  if (!is.null(sorted[[key]])) return(sorted[[key]])
  if (anyNA(codes)) return(NULL)
  rows <- sorted_rows(codes, groups)
  if (!is.null(sorted)) sorted[[key]] <- rows
  rows
}

# The offsets of the groups (`p`), and the positions of their rows (`i`), 0-based.
sorted_rows <- function(codes, groups) segment_transpose(gpu_seq(0L, by = 1L, length.out = length(codes) + 1, device =
  gpu_device(codes)), codes - 1L, groups)[c("p", "i")]

#' Grouped aggregation
#'
#' `gpu_group()` computes one number for each group of elements, on the device, in one pass over the elements and their
#' group codes. A GPU has accumulators for about ten thousand groups; for more groups it sorts the codes.
#' [base::rowsum()], and [base::tapply()] and [stats::ave()] with one of base R's functions `sum`, `prod`, `mean`,
#' `var`, `sd`, `min`, `max` and `length`, use the same code. `tapply()` with [stats::median()] or [stats::quantile()],
#' and `ave()` with [base::rank()], of doubles without missing values, use one sort.
#'
#' If `FUN` is a function that [gpu_compile()] accepts and that has no side effects, `tapply()` of many small groups on
#' a GPU is one kernel, whose result is an ordinary array. Any other function is called with the array of each group, as
#' returned by [split()]. `split()` sorts the elements by group once and returns views of them, which keep the whole
#' sorted array in memory. [stats::aggregate()] of a data frame of arrays is base R's; it reads its keys on the host,
#' and, with one of these functions, its groups. On the cpu device base R computes `rowsum()` if the groups are not
#' integers.
#'
#' Sums are added in a fixed order: the same call gives the same bits on every run, and, up to about ten thousand
#' groups, on the cpu device and on every card. The number of elements and the position of each group are copied to the
#' host; the call waits until the groups are known.
#' @param x,X An array: a vector, or for `rowsum()` also a matrix.
#' @param group,INDEX The groups: an array, a vector or a factor, as long as `x`; for `gpu_group()` and `tapply()`
#'   also a list of these, whose combinations are the groups.
#' @param f The statistic: `"sum"`, `"prod"`, `"mean"`, `"var"`, `"sd"`, `"min"`, `"max"`, `"count"`, `"first"` or
#'   `"last"`; for `split()` the groups.
#' @param na.rm Whether missing elements are left out. Elements whose group is missing are always left out, except by
#'   `rowsum()`.
#' @param FUN,default,simplify,reorder,drop As in [base::tapply()], [base::rowsum()] and [base::split()].
#' @param ... Passed on to `FUN`; for `ave()` the groups.
#' @returns `gpu_group()` and `tapply()`: an array on the device of `x` with a dimension for each grouping variable and
#'   the levels as dimnames, as in [base::tapply()]; empty groups are `NA`, and 0 for `"count"`. `rowsum()`: a matrix
#'   with a row for each group. `ave()`: an array like `x`. `split()`: a list of arrays. Sums and statistics of
#'   float32 and narrower arrays are accumulated in double; `rowsum()` and `ave()` round them once, to float32.
#' @section Errors:
#' `verdigris_error_argument` if the length of the groups differs from the length of `x`; base R's errors and messages.
#' @examples
#' x <- as_gpu(c(1, 2, 3, 4), device = "cpu")
#' gpu_group(x, c("a", "b", "a", "a"), "mean")
#' gpu_group(x, list(u = c(1, 1, 2, 2), v = c("p", "q", "q", "q")), "sum")
#' tapply(x, c(1, 2, 1, 2), max)
#' rowsum(x, c(1, 2, 1, 2))
#' split(x, c(1, 2, 1, 2))
#' ave(x, c(1, 1, 2, 2))
#' @export
gpu_group <- function(x, group, f = c("sum", "prod", "mean", "var", "sd", "min", "max", "count", "first", "last"),
  na.rm = FALSE) {
  if (!is_gpu(x) || is.complex(x)) abort_argument("x", "an array of numbers", x)
  f <- one_of("f", f, c("sum", "prod", "mean", "var", "sd", "min", "max", "count", "first", "last"))
  if (!is_switch(na.rm)) abort_argument("na.rm", "TRUE or FALSE", na.rm)
  keys <- if (is.list(group) && !is.object(group) || is.data.frame(group)) as.list(group) else list(group)
  if (!length(keys)) abort_argument("group", "at least one key", group)
  if (!all(vapply(keys, function(k) is.atomic(k) || inherits(k, "POSIXlt"), NA)))
    abort_argument("group", "a vector, or a list of vectors", group)
  wrong <- which(lengths(keys) != length(x))
  if (length(wrong)) abort_argument("group", sprintf("as long as `x` (%s elements)", format_count(length(x))),
    keys[[wrong[1L]]])
  grouped(x, grouping(keys, gpu_device(x)), f, isTRUE(as.logical(na.rm)))
}

# The result in the shape of tapply(): a dimension for each key.
grouped <- function(x, by, name, na.rm) {
  out <- reduce_by(x, by$codes, prod(by$extent), name, na.rm)
  dim(out) <- by$extent
  dimnames(out) <- by$levels
  out
}

# Expands the result of `reduce_sorted()` to all groups; `none`, 0 or NA, is the value for empty groups.
of_all <- function(found, groups, none) {
  values <- found$values
  if (length(found$present) == groups) return(values)
  all <- gpu_full(vector(typeof(values), 1L)[if (is.na(none)) 2L else 1L], groups, dtype = gpu_dtype(values),
    device = gpu_device(values))
  if (length(found$present)) all[found$present] <- values
  all
}

#' @rdname gpu_group
#' @export
tapply <- interposed("tapply", "X", tapply_array(X, INDEX, if (!is.null(FUN)) match.fun(FUN), ..., default = default,
  simplify = simplify), class = c("gpu_array", "gpu_reader"))

tapply_array <- function(X, INDEX, FUN = NULL, ..., default = NA, simplify = TRUE) {
  if (is_reader(X)) return(reader_tapply(X, INDEX, FUN, list(...), default, simplify, parent.frame()))
  name <- known_function(FUN, c(GROUPED, "median", "quantile"))
  more <- list(...)
  keys <- if (is.list(INDEX) && !is.factor(INDEX)) INDEX else list(INDEX)
  takes <- !is.na(name) && isTRUE(simplify) && !is.complex(X) && identical(default, NA) && length(keys) &&
    all(lengths(keys) == length(X)) &&
    (!length(more) || identical(names(more), "na.rm") && isFALSE(more[[1L]])) && length(X)
  on_base <- function() {
    known <- !is.na(name)
    out <- call_base(base::tapply, list(if (known) ordinary_copy(X) else X, if (known) lapply(keys, plain_key) else
      INDEX, FUN, ..., default = default, simplify = simplify))
    if (known && is_number(out)) upload_result_like(out, X) else out
  }
  if (takes) {
    by <- grouping(keys, gpu_device(X))
    # Without groups base R's result has another type.
    if (prod(by$extent) == 0)
      return(call_base(base::tapply, list(ordinary_copy(X), lapply(keys, plain_key), FUN, ..., default = default,
      simplify = simplify)))
    if (name %in% c("median", "quantile")) {
      # For integers base R's type depends on the values, and base R handles missing elements.
      if (!is.double(X) || is_int64(X) || length(more) || anyNA(X)) return(on_base())
      return(if (name == "median") median_by(X, by) else quantiles_by(X, by))
    }
    out <- grouped(X, by, name, FALSE)
    # Base R handles integer sums that overflow.
    if (!(name == "sum" && !is.double(X) && is.double(out))) {
      if (name == "count" && any(out == 0L)) out <- select_by(out == 0L, NA_integer_, out)
      return(out)
    }
  }
  called <- is.na(name) && is.function(FUN) && isTRUE(simplify) && identical(default, NA) && length(X) && length(keys)
  out <- if (called && all(lengths(keys) == length(X))) tapply_pure(X, keys, FUN, more)
  out %||% on_base()
}

#' @rdname gpu_group
#' @export
rowsum.gpu_array <- function(x, group, reorder = TRUE, na.rm = FALSE, ...) {
  usable <- is.numeric(x) && !is.complex(x) && length(group) == NROW(x) && length(x) && length(dim(x)) <= 2L &&
    is_flag(na.rm)
  given <- group <-
    if (is_host_int64(group)) as_gpu(group, device = gpu_device(x)) else unread_to_array(group, gpu_device(x))
  on_base <- function() {
    # int64 groups are replaced by their positions among the distinct ones, since doubles may not represent them.
    distinct <- if (is_int64(given) && is_gpu(given)) counted(given)$values
    codes <- if (length(distinct)) codes_among(given, distinct) else given
    elements <- ordinary_copy(x, silent = prefers_host(x))
    out <- call_base(base::rowsum, list(elements, plain_vector(codes), reorder = reorder, na.rm = na.rm, ...))
    if (length(distinct)) rownames(out) <- as.character(distinct)[as.integer(rownames(out))]
    upload_result_like(out, x)
  }
  if (!usable) return(on_base())
  device <- gpu_device(x)
  # The groups of a factor are in the order of its levels.
  if (is.factor(group)) group <- factor_codes(group, device) else
    if (is.integer(group) && !is.object(group)) group <- as_gpu(group, device = device)
  whole <- if (is_gpu(group)) counted_whole(group)
  if (if (is.null(whole)) prefers_host(x) && !is_int64(x) || anyNA(group) else whole$missing > 0) return(on_base())
  values <- if (is_gpu(group)) (whole %||% counted(group))$values else
    sort(unique(group), method = "quick")
  codes <- if (is_gpu(group)) codes_among(group, values) else as_gpu(base::match(group, values), device = device)
  p <- NCOL(x)
  out <- if (p > 1L && !(na.rm && anyNA(x))) reduce_coded(strip(x), codes, length(values), "sum")
  if (is.null(out)) {
    columns <- lapply(seq_len(p), function(k) reduce_by(if (p == 1L) x else x[, k], codes, length(values), "sum", na.rm,
      NULL))
    out <- if (p == 1L) columns[[1L]] else join(columns)
  } else {
    out <- as_base_sum(out, x, "sum")
  }
  if (is.integer(x) && is.double(out)) return(on_base())
  out <- shaped(as_narrow(out, x), c(length(values), p))
  names <- list(if (is.factor(given)) levels(given)[values] else as.character(values),
    if (length(dim(x)) == 2L) colnames(x))
  if (!reorder) {
    first <- as.vector(match_on_device(as_gpu(seq_along(values), device = device), codes, NA_integer_))
    out <- out[order(first), , drop = FALSE]
    names[[1L]] <- names[[1L]][order(first)]
  }
  attr(out, "dimnames") <- names
  out
}

#' @rdname gpu_group
#' @export
split.gpu_array <- function(x, f, drop = FALSE, ...) {
  if (!is.null(dim(x))) {
    # As in base R, the parts have no dimensions.
    names <- names(x)
    x <- strip(x)
    if (!is.null(names)) names(x) <- names
    return(split(x, f, drop = drop, ...))
  }
  if (!is.null(names(x)) || ...length() || !is_key(f, length(x))) return(NextMethod())
  places <- places_by(f, gpu_device(x))
  counts <- places$counts
  # After sorting by group, each group is a view.
  parts <- .Call(C_pieces, strip(x)[places$at], counts)
  names(parts) <- places$levels
  # as.factor() makes no unused levels, and base R ignores `drop` for keys that are not factors.
  if (is.factor(f) && drop) parts[counts > 0] else parts
}

# Whether f is a single key of n elements that `grouping()` accepts.
is_key <- function(f, n) n > 0L && length(f) == n && !is.list(f) && !is.complex(f) && (is_gpu(f) || is.factor(f) ||
  !is.object(f))

# `at`: the positions of all elements sorted by group, those without a group last; `counts` and `levels`: the size and
# the name of each group.
places_by <- function(f, device) {
  by <- grouping(list(f), device)
  levels <- by$levels[[1L]]
  list(at = .Call(C_order, by$codes, FALSE),
    counts = as.vector(.Call(C_count_bins, by$codes, 1, length(levels)))[seq_along(levels)], levels = levels)
}

#' @rdname gpu_group
#' @export
ave <- interposed("ave", "x", ave_array(x, list(...), match.fun(FUN)), home = "stats")

ave_array <- function(x, keys, FUN) {
  name <- known_function(FUN, c(GROUPED, "rank"))
  keys <- lapply(keys, unread_to_array, gpu_device(x))
  usable <- !is.na(name) && length(keys) && !is.complex(x) && length(x) && all(lengths(keys) == length(x)) &&
    !any(vapply(keys, function(key) is.list(key) || anyNA(key), NA))
  if (!usable) return(do.call(stats::ave, c(list(x), unname(lapply(keys, plain_key)), list(FUN = FUN))))
  by <- grouping(unname(keys), gpu_device(x))
  if (name == "rank") {
    # int64, and ranks of missing elements, which differ between versions of R, are left to base R.
    if (is_int64(x) || anyNA(x)) {
      host <- call_base(stats::ave, c(list(ordinary_copy(x)), unname(lapply(keys, plain_key)), list(FUN = base::rank)))
      return(upload_result_like(host, x))
    }
    return(with_attributes(rank_by(x, by), attributes(x)))
  }
  value <- as_narrow(strip(grouped(x, by, name, FALSE)), x)
  x[] <- value[by$codes]
  x
}

# Assigns all groups at once, for unsplit(). Base R's method makes one assignment per group, each of which copies the
# array.
#' @rdname gpu_group
#' @usage NULL
#' @export
`split<-.gpu_array` <- function(x, f, drop = FALSE, ..., value) {
  places <- if (...length() == 0L && is_key(f, length(x))) places_by(f, gpu_device(x))
  at <- if (is.null(places)) split(seq_along(x), f, drop = drop, ...)
  extents <- if (is.null(places)) unname(lengths(at)) else if (drop) places$counts[places$counts > 0] else places$counts
  values <- if (is.list(value)) rep_len(unname(value), length(extents)) else list()
  on_device <- vapply(values, inherits, NA, "gpu_array")
  usable <- length(extents) && all(vapply(values[!on_device], is_number, NA)) && identical(as.double(extents),
    as.double(lengths(values)))
  if (!usable) return(call_base(base::`split<-.default`, list(x, f, drop = drop, ..., value = value)))
  at <- if (is.null(places)) base::unlist(at, use.names = FALSE) else places$at[seq_len(sum(extents))]
  x[at] <- if (all(on_device)) join(values) else if (any(on_device)) join(lapply(values, as_elements)) else
    base::unlist(values)
  x
}

is_frame_of_arrays <- function(x) is.data.frame(x) && any(vapply(x, is_gpu, NA))

# aggregate() of a data frame of arrays. Base R would format each element of a key that is an object as a string.
#' @rdname gpu_group
#' @usage NULL
#' @export
aggregate <- interposed("aggregate", quote(!missing(x) && is.object(x) && .ours$is_frame_of_arrays(x)),
  aggregate_frame(x, ...),
  home = "stats", arguments = "x", is = is_frame_of_arrays
)

aggregate_frame <- function(x, by, FUN, ...) {
  args <- c(list(x), if (!missing(by)) list(by = by), if (!missing(FUN)) list(FUN = FUN), list(...))
  read <- function(v, exact = TRUE) ordinary_copy(v, exact = exact)
  if (is.list(args$by)) args$by[] <- lapply(args$by, read)
  # These functions return one number for ordinary parts too, so base R may call them on host copies. Means of int64
  # are doubles, whereas those of integer64 are cut to whole numbers.
  name <- if (missing(FUN)) NA else known_function(match.fun(FUN), c(GROUPED, "median"))
  if (!is.na(name)) args[[1L]][] <- lapply(x, read, !name %in% c("mean", "median", "var", "sd"))
  call_base(stats::aggregate, args, parent.frame())
}
