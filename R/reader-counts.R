# Distinct values of readers, counts, and sums by group. Blocks are counted on the device and merged on the host, whose
# memory holds only the distinct values.

# The largest number of distinct values: 1 GB of doubles.
MOST_DISTINCT <- 2^27

check_distinct <- function(n, call) if (n > MOST_DISTINCT) stop_verdigris("memory", sprintf(
  "The reader has more than %s distinct values.", format_count(MOST_DISTINCT)), c(
    "`sort(x, to = path)` brings equal values together in a file.",
    "`round()`, `signif()`, `findInterval()` or `cut(labels = FALSE)` of a reader makes fewer values."), call = call)

# Raises an error unless x is a reader of a vector.
check_vector_reader <- function(x, name, call) {
  if (x$frame || !is_vector_reader(x)) refuse_reader(name, call, "Only vectors are supported.")
}

#' @rdname reader-methods
#' @export
unique.gpu_reader <- function(x, incomparables = FALSE, ...) {
  call <- environment()
  if (...length() || !isFALSE(incomparables)) refuse_reader("unique", call, "Other arguments are not supported.")
  check_vector_reader(x, "unique", call)
  distinct_values(x, call)
}

# The distinct values in the order of their first occurrence.
distinct_values <- function(x, call) {
  if (is_int64_reader(x)) return(over_blocks(x, function(block) collect_values(unique(strip(block))), function(a, b) {
    out <- united_int64(a, b)$values
    check_distinct(length(out), call)
    out
  }, call = call) %||% collect(empty_array(x)))
  over_blocks(x, function(block) as.vector(collect(unique(strip(block)))), function(a, b) {
    out <- base::unique(c(a, b))
    check_distinct(length(out), call)
    out
  }, call = call) %||% no_elements(x)
}

# ---- counts --------------------------------------------------------------------------------------------------

# The distinct values of a block, missing ones included, and how many elements have each.
block_counts <- function(block) {
  if (is_int64(block)) return(int64_counts(block))
  x <- strip(block)
  if (is.complex(x)) {
    x <- as.vector(collect(x))
    values <- base::unique(x)
    return(list(values = values, counts = as.double(base::tabulate(base::match(x, values), length(values)))))
  }
  n <- length(x)
  known <- counted(x)
  values <- known$values
  counts <- as.double(known$counts)
  missing <- n - sum(counts)
  # NA and NaN are in the order of their first occurrence
  parts <- if (missing > 0) missing_parts(x)
  first <- vapply(parts, function(part) c(first_position(part, FALSE), Inf)[1L], 1)
  own <- vapply(parts, function(part) as.double(sum(part)), 1)
  kinds <- if (length(parts)) names(parts)[order(first)][seq_len(sum(own > 0))]
  for (kind in kinds) {
    values <- c(values, if (kind == "nan") NaN else values[0L][1L])
    counts <- c(counts, own[[kind]])
  }
  list(values = values, counts = counts)
}

merged_counts <- function(a, b, call) {
  if (is_host_int64(a$values)) {
    both <- united_int64(a$values, b$values)
    values <- both$values
    places <- both$places
  } else {
    values <- base::unique(c(a$values, b$values))
    places <- list(base::match(a$values, values), base::match(b$values, values))
  }
  check_distinct(length(values), call)
  counts <- numeric(length(values))
  counts[places[[1L]]] <- a$counts
  counts[places[[2L]]] <- counts[places[[2L]]] + b$counts
  list(values = values, counts = counts)
}

# table() of a reader: base R's table() of the distinct values gives the form, names and levels.
table_of_reader <- function(x, dnn, options, call) {
  check_vector_reader(x, "table", call)
  found <- over_blocks(x, block_counts, function(a, b) merged_counts(a, b, call), call = call) %||%
    list(values = if (is_int64_reader(x)) collect(empty_array(x)) else no_elements(x), counts = numeric())
  out <- if (is_host_int64(found$values)) do.call(table, c(list(on_cpu(found$values)), options, list(dnn = dnn))) else
    call_base(base::table, c(list(found$values), options, list(dnn = dnn)))
  at <- base::match(as.character(if (is_host_int64(found$values)) on_cpu(found$values) else found$values),
    dimnames(out)[[1L]])
  known <- base::which(!is.na(at))
  counts <- numeric(length(out))
  # numbers with the same text share a cell
  sums <- base::rowsum(found$counts[known], at[known])
  counts[as.integer(rownames(sums))] <- sums[, 1L]
  out[] <- as_whole_counts(counts)
  out
}

reader_tabulate <- function(bin, given, call) {
  check_vector_reader(bin, "tabulate", call)
  if (bin$type %in% c("bool8", "complex64", "complex128")) stop_as_base("'bin' must be numeric or a factor", call)
  nbins <- given[[1L]]
  if (!is.null(given) && !(is_count(nbins) && nbins <= .Machine$integer.max))
    return(call_base(base::tabulate, list(1L, nbins)))
  longer <- function(counts, n) c(counts, numeric(n - length(counts)))
  counts <- over_blocks(bin, function(block) {
    as.double(if (is.null(given)) tabulate(strip(block)) else tabulate(strip(block), nbins))
  }, function(a, b) {
    n <- max(length(a), length(b))
    check_distinct(n, call)
    longer(a, n) + longer(b, n)
  }, call = call) %||% numeric(if (is.null(given)) 1L else nbins)
  as_whole_counts(counts)
}

# Whether hist() can count the elements of a reader.
has_real_numbers <- function(x) x$frame || x$type %in% setdiff(RAW_TYPES, c("bool8", "complex64", "complex128"))

# The number of finite elements of a reader, and their range, for histogram_on_arrays().
finite_in_reader <- function(x, call) {
  if (x$frame) refuse_reader("hist", call, "Only matrices and vectors are supported.")
  found <- over_blocks(x, function(block) {
    y <- finite_in_block(block)
    c(length(y), if (length(y)) as.vector(range(y)) else c(Inf, -Inf))
  }, function(a, b) c(a[1L] + b[1L], min(a[2L], b[2L]), max(a[3L], b[3L])), call = call) %||% 0
  if (found[1L] == 0) return(numeric())
  structure(list(reader = x, n = found[1L], range = found[2:3]), class = "gpu_finite")
}
finite_in_block <- function(block) {
  y <- strip(block)
  as_float64(y[is.finite(y)])
}
counts_in_reader <- function(x, limits, bins, include.lowest, right, call) as.vector(over_blocks(x$reader,
  function(block) bin_counts(finite_in_block(block), limits, bins, include.lowest, right), `+`, call = call))

# findInterval() of a reader: a reader of the intervals' numbers.
reader_intervals <- function(x, vec, rightmost.closed, all.inside, left.open, call) {
  if (is_reader(vec) || !is_reader(x)) refuse_reader("findInterval", call,
    "`x` must be the reader, and `vec` an ordinary vector.")
  check_vector_reader(x, "findInterval", call)
  if (is_gpu(vec)) vec <- collect(vec)
  # an error for a wrong `vec` is raised here, not with the first block
  if (is_host_int64(vec)) intervals_of_array(on_cpu(0), vec, rightmost.closed, all.inside, left.open) else
    base::findInterval(0, vec, rightmost.closed, all.inside, left.open)
  x <- reader_with(x, dimnames = NULL)
  each_of_reader(x, "findInterval", block_function(function(block) intervals_of_array(block, vec, rightmost.closed,
    all.inside, left.open), list(vec = vec, rightmost.closed = rightmost.closed, all.inside = all.inside,
    left.open = left.open)), "int32")
}

#' @rdname reader-methods
#' @export
cut.gpu_reader <- function(x, breaks, labels = NULL, include.lowest = FALSE, right = TRUE, dig.lab = 3L,
  ordered_result = FALSE, ...) {
  call <- environment()
  check_vector_reader(x, "cut", call)
  if (!isFALSE(labels)) refuse_reader("cut", call,
    "`cut(x, breaks, labels = FALSE)` is a reader of the intervals' numbers, and `tabulate()` of it counts them.")
  if (is_gpu(breaks)) breaks <- collect(breaks)
  if (is_host_int64(breaks) && length(breaks) == 1L) breaks <- as.vector(on_cpu(breaks))
  if (length(breaks) == 1L && is_real(breaks) && breaks >= 2)
    breaks <- equal_intervals(reach_of_reader(x), breaks)
  # an error for wrong `breaks` is raised here, not with the first block
  if (is_host_int64(breaks)) cut(on_cpu(0), breaks, FALSE, include.lowest, right) else
    base::cut.default(0, breaks, FALSE, include.lowest, right)
  each_of_reader(x, "cut", block_function(function(block) gpu_cast(as_gpu(cut(strip(block), breaks, labels = FALSE,
    include.lowest = include.lowest, right = right), device = gpu_device(block)), "int32"), list(breaks = breaks,
    include.lowest = include.lowest, right = right)), "int32")
}

# The range in doubles, to which 64-bit integers are rounded as in cut() of an array.
reach_of_reader <- function(x) if (is_int64_reader(x)) range(as_doubles_reader(x), na.rm = TRUE) else
  range(x, na.rm = TRUE)
as_doubles_reader <- function(x) each_of_reader(x, "cut", block_function(function(block) as_float64(block)))

# ---- sums by group -------------------------------------------------------------------------------------------

# A grouping key: its distinct `values`, and `codes(from, count, device)`, the codes of a block's rows. The distinct
# values of a reader take a pass of their own. With `factor`, the levels of as.factor() replace the values. NULL unless
# the key has n elements.
reader_key <- function(key, n, call, factor = FALSE) {
  if (is_reader(key)) {
    check_vector_reader(key, "group", call)
    if (rows_of_reader(key) != n) return(NULL)
    values <- distinct_values(key, call)
    codes <- function(from, count, device) {
      block <- block_take(key, block_start(key, from, count, 1, NULL, device))
      if (is_int64_reader(key)) return(as.vector(match(strip(block), as_gpu(values, device = device))))
      base::match(as.vector(collect(strip(block))), values)
    }
  } else {
    if (is_gpu(key)) key <- collect(key)
    if (length(key) != n) return(NULL)
    values <- if (is.factor(key)) levels(key) else if (is_host_int64(key)) collect_values(unique(on_cpu(key))) else
      base::unique(key)
    own <- if (is.factor(key)) as.integer(key) else if (is_host_int64(key)) as.vector(match(on_cpu(key),
      on_cpu(values))) else base::match(key, values)
    codes <- function(from, count, device) own[from + seq_len(count)]
  }
  if (factor && is_host_int64(values)) {
    known <- levels_of_int64(values)
    return(list(levels = known$levels, codes = function(...) known$codes[codes(...)]))
  }
  if (factor) {
    # as.factor() makes one level of numbers with the same text, and gives missing values no level
    f <- if (is.factor(key)) key[0L] else base::as.factor(values)
    if (is.factor(key)) return(list(levels = levels(f), codes = codes))
    into <- as.integer(f)
    return(list(levels = levels(f), codes = function(...) into[codes(...)]))
  }
  used <- if (is.factor(key)) base::unique(own) else seq_along(values)
  list(values = values, codes = codes, used = used, factor = is.factor(key))
}

#' @rdname reader-methods
#' @export
rowsum.gpu_reader <- function(x, group, reorder = TRUE, na.rm = FALSE, ...) {
  call <- environment()
  key <- reader_key(group, rows_of_reader(x), call)
  if (is.null(key)) stop_as_base(gettext("incorrect length for 'group'", domain = "R-base"), call)
  if (typeof(no_elements(x)) %in% c("logical", "complex")) stop_as_base("'x' must be numeric", call)
  # of a factor, only levels that occur, in the order of their first occurrence
  values <- key$values
  used <- key$used
  known <- if (is_host_int64(values)) on_cpu(values)[used] else values[used]
  if (anyNA(known)) warn_as_base(gettext("missing values for 'group'", domain = "R-base"), call)
  k <- length(values) + key$factor
  na.rm <- isTRUE(na.rm)
  kinds <- integer()
  at <- 0
  found <- if (!identical(x$dim[2L], 0L)) over_blocks(x, function(block) {
    y <- strip_names(block_numbers(block, call))
    kinds <<- c(kinds, stat_type(y))
    n <- NROW(y)
    device <- gpu_device(y)
    codes <- key$codes(at, n, device)
    at <<- at + n
    if (key$factor) codes[is.na(codes)] <- k
    codes <- as_gpu(codes, device = device)
    if (is_int64_reader(x)) {
      if (na.rm) y <- select_by(is.na(y), 0L, y)
      if (is.null(dim(y))) dim(y) <- c(n, 1L)
      return(grouped_columns_of_int64(y, codes, k))
    }
    y <- widen_for_sum(y)
    if (na.rm) y <- select_by(is.na(y), 0, y)
    if (is.null(dim(y))) dim(y) <- c(n, 1L)
    gpu_compute(group_sums(y, codes, k))
  }, if (is_int64_reader(x)) plus_in_two else function(a, b) gpu_compute(a + b), 1, call = call)
  p <- if (is_vector_reader(x)) 1L else x$dim[2L]
  if (key$factor) used[is.na(used)] <- k
  order <- if (!reorder) seq_along(used) else if (key$factor) base::order(used) else as.vector(order(known))
  names <- as.character(known)[order]
  if (is_int64_reader(x)) {
    sums <- if (is.null(found)) int64_number(numeric(k * p), "cpu") else sums_of_two(found)
    dim(sums) <- c(k, p)
    out <- sums[used[order], , drop = FALSE]
    dimnames(out) <- list(names, if (!is_vector_reader(x)) x$dimnames[[2L]])
    return(collect(out))
  }
  sums <- if (is.null(found)) base::matrix(0, k, p) else base::matrix(as.vector(collect(found)), k)
  out <- sums[used[order], , drop = FALSE]
  whole <- length(kinds) && all(kinds <= 2L) || !length(kinds) && typeof(no_elements(x)) == "integer"
  if (whole) out <- as_whole_sums(out)
  dimnames(out) <- list(names, if (!is_vector_reader(x)) x$dimnames[[2L]])
  out
}

reader_tapply <- function(X, INDEX, FUN, more, default, simplify, call) {
  keys <- if (is.list(INDEX) && !is.object(INDEX) || is.data.frame(INDEX)) as.list(INDEX) else list(INDEX)
  if (!is_reader(X)) refuse_reader("tapply", call, "Only `X` may be a reader, and the groups beside it.")
  check_vector_reader(X, "tapply", call)
  name <- known_function(FUN, c("sum", "mean", "min", "max", "count"))
  na.rm <- identical(names(more), "na.rm") && isTRUE(more[[1L]])
  fits <- !is.na(name) && isTRUE(simplify) && identical(default, NA) && !is.complex(no_elements(X)) &&
    (!length(more) || identical(names(more), "na.rm") && name != "count")
  if (!fits) refuse_reader("tapply", call, paste("`FUN` must be `sum`, `mean`, `min`, `max` or `length`, and `na.rm`",
    "the only other argument."))
  n <- rows_of_reader(X)
  coded <- lapply(unname(keys), reader_key, n, call, TRUE)
  if (!length(coded)) stop_as_base(gettext("'INDEX' is of length zero", domain = "R-base"), call)
  if (any(vapply(coded, is.null, NA))) stop_as_base(gettext("arguments must have same length", domain = "R-base"), call)
  levels <- stats::setNames(lapply(coded, `[[`, "levels"), names(keys))
  extent <- lengths(levels, use.names = FALSE)
  groups <- prod(extent)
  check_distinct(groups, call)
  strides <- cumprod(c(1, extent))
  at <- 0
  whole <- is_int64_reader(X)
  # as for arrays, the results are doubles if `na.rm` is given
  exact <- whole && name %in% c("sum", "min", "max") && !length(more)
  # sums and counts are added over the blocks, extremes are merged by pmin() and pmax()
  fold <- switch(name, min = base::pmin, max = base::pmax, `+`)
  found <- over_blocks(X, function(block) {
    y <- strip(block)
    if (!is.double(y) || whole && !exact && name != "count") y <- widen_for_sum(y)
    device <- gpu_device(y)
    m <- length(y)
    codes <- 1L + Reduce(`+`, Map(function(key, stride) as.integer(stride) * (key$codes(at, m, device) - 1L), coded,
      strides[seq_along(coded)]))
    at <<- at + m
    codes <- as_gpu(codes, device = device)
    counted <- function(codes) as.vector(.Call(C_count_bins, codes, 1, groups))[seq_len(groups)]
    # `all_counts` includes missing elements, `counts` does not if they are left out
    all_counts <- counted(codes)
    if (na.rm) codes <- select_by(is.na(y), NA_integer_, codes)
    counts <- if (na.rm) counted(codes) else all_counts
    if (name == "count") return(list(counts = counts, all_counts = all_counts))
    if (is_int64(y)) return(list(counts = counts, all_counts = all_counts, value = grouped_int64(y, codes, groups,
      name)))
    known <- counts > 0
    all <- rep(switch(name, min = Inf, max = -Inf, 0), groups)
    value <- as.vector(reduce_by(widen_for_sum(y), codes, groups, if (name == "mean") "sum" else name, FALSE, NULL))
    all[known] <- value[known]
    list(counts = counts, all_counts = all_counts, value = all)
  }, function(a, b) list(counts = a$counts + b$counts, all_counts = a$all_counts + b$all_counts,
    value = if (name == "count") NULL else if (!exact)
    fold(a$value, b$value) else if (name == "sum") plus_in_two(a$value, b$value) else
      extremes_of_both(a$value, b$value, a$counts, b$counts, if (name == "min") pmin else pmax)), 1, call = call)
  out <- if (is.null(found)) rep(NA, groups) else if (exact) {
    value <- if (name == "sum") sums_of_two(found$value) else on_cpu(found$value)
    collect_values(select_by(on_cpu(found$counts == 0), NA_integer_, value))
  } else {
    tapply_found(found, name, typeof(no_elements(X)), call)
  }
  dim(out) <- extent
  dimnames(out) <- levels
  out
}
tapply_found <- function(found, name, type, call) {
  counts <- found$all_counts
  out <- switch(name, count = as_whole_counts(counts), mean = found$value / found$counts, found$value)
  if (name == "count") return(select_by(counts == 0, NA_integer_, out))
  # for a group of missing elements only, `value` is what base R returns, with its warning
  if (name %in% c("min", "max")) for (k in base::which(counts > 0 & found$counts == 0)) warn_as_base(gettext(sprintf(
    "no non-missing arguments to %s; returning %s", name, if (name == "min") "Inf" else "-Inf"), domain = "R"), call)
  out[counts == 0] <- NA
  if (type != "double" && name != "mean") as_whole_sums(out) else out
}
