# Functions of equal elements: unique values, matches and bins. Beyond a few elements they use a stable sort: the first
# element of a run of equal elements is the first in the array, or comes from the first of two joined vectors.

# Tables with at most this many numbers are compared one by one, in one kernel.
MOST_COMPARED <- 8L

# Masks of the missing elements. NA and NaN are different elements for these functions, as in base R. Each part is a
# logical array; NULL if nothing is missing.
missing_parts <- function(x) {
  if (!length(x) || !anyNA(x)) return(NULL)
  # Narrow dtypes have one missing value, as NA and NaN have the same bits there.
  if (!is.double(x) || is_narrow(x)) return(list(na = is.na(x)))
  nan <- is.nan(x)
  list(na = is.na(x) & !nan, nan = nan)
}

# The position (1-based) of the first (or last) TRUE of a logical array; numeric() if there is none.
first_position <- function(mask, from_last) {
  if (!any(mask)) return(numeric())
  if (from_last) length(mask) + 1 - which.max(rev(mask)) else which.max(mask)
}

# The positions of the first occurrences of distinct elements, including NA and NaN, in increasing order; NULL if that
# takes a sort.
first_positions <- function(x) {
  at <- .Call(C_firsts, x)
  if (is.null(at)) return(NULL)
  missing <- missing_parts(x)
  if (is.null(missing)) return(at)
  alone <- base::unlist(lapply(missing, first_position, FALSE))
  if (length(alone)) base::sort(c(at, as.integer(alone))) else at
}

repeated_flags <- function(x, from_last) {
  x <- strip(x)
  at <- if (!from_last) first_positions(x)
  if (!is.null(at)) {
    if (length(at) == length(x)) return(gpu_full(FALSE, length(x), device = gpu_device(x)))
    flags <- gpu_full(TRUE, length(x), device = gpu_device(x))
    flags[at] <- FALSE
    return(flags)
  }
  r <- equal_runs(x)
  flags <- gpu_full(TRUE, r$n, device = gpu_device(x))
  if (r$known > 0L) flags[r$at[if (from_last) r$last else r$first]] <- FALSE
  if (r$known < r$n) {
    alone <- unlist(lapply(missing_parts(x), first_position, from_last))
    flags[alone] <- FALSE
  }
  flags
}

by_rows <- function(x, incomparables, ..., fromLast = FALSE)
  !is_switch(fromLast) || !is.null(dim(x)) || is.complex(x) || !isFALSE(incomparables) ||
  ...length() && length(base::setdiff(names(list(...)), c("fromLast", "nmax"))) > 0L

# base R has no methods for integer64 matrices: int64 elements are replaced by codes, their positions among `values`.
coded_elements <- function(x) {
  values <- unique(strip(x))
  list(values = values, codes = base::array(as.vector(match(strip(x), values)), dim(x), dimnames(x)))
}
host_elements <- function(x) if (is_int64(x) && !is.null(dim(x))) coded_elements(x)$codes else host_copy(x, exact = TRUE)

#' Unique values, matching and tables
#'
#' [base::unique()], [base::duplicated()], [base::match()], `%in%`, [base::rle()], [base::findInterval()],
#' [base::cut()], [base::tabulate()] and [base::table()] of arrays, computed on a GPU by sorting, and on the cpu device
#' by base R; and [base::union()], [base::intersect()], [base::setdiff()], [base::setequal()] and [base::is.element()],
#' which are built from these. `match()` and `%in%` with a short numeric table compare with each of its elements, in one
#' kernel together with recorded operations.
#'
#' `findInterval(x, vec, rightmost.closed, all.inside, left.open)` has base R's arguments; at least one of the first two
#' must be an array.
#'
#' `NA` and `NaN` are different elements (in float32 and narrower arrays both are `NA`), and `0` and `-0` are the same,
#' as in base R. Matrices by rows, complex
#' numbers, `incomparables`, and matching with strings or factors are computed on the host. Ordinary numbers are rounded
#' to the type of a float32 or narrower array before they are compared with it, however many they are (see section
#' "Numbers beside an array" of [elementwise]); int64 is compared exactly, with strings by its decimal digits.
#'
#' Base R's own `match()`, on which `merge()` and functions of other packages are based, compares int64 exactly too.
#' Before R 4.3 it treats the elements of an `integer64` as doubles with the same bits, so a comparison with negative
#' values, or of `NA` with 0, is refused there: convert both arguments to arrays.
#' @param x,el An array; for `match()`, `%in%`, `findInterval()` and the set functions an array or a vector.
#' @param table,y,set The values to match with: an array or a vector.
#' @param incomparables,nomatch,nbins,bin,exclude,useNA,dnn,deparse.level As in [base::unique()], [base::match()],
#'   [base::tabulate()] and [base::table()].
#' @param breaks,labels,include.lowest,right,dig.lab,ordered_result As in [base::cut()].
#' @param ... For `table()` arrays, vectors or factors of the same length. Otherwise further arguments, such as
#'   `fromLast`, or those of base R.
#' @returns Arrays on the device of `x`, of base R's type; `match()`, `%in%`, `intersect()` and `setdiff()` of an
#'   ordinary `x` return ordinary vectors. `cut()` returns an ordinary factor, whose codes are copied to the host when R
#'   reads one: `table()`, `tapply()`, `rowsum()` and `split()` of the factor do not read them. `rle()`, `tabulate()`,
#'   `table()` and `anyDuplicated()` return base R's results.
#' @section Errors:
#' Base R's errors and messages; `verdigris_error_memory`; `verdigris_error_argument` if base R's `match()` cannot
#' distinguish int64 from an `integer64`.
#' @examples
#' x <- as_gpu(c(3, 1, 3, NA), device = "cpu")
#' unique(x)
#' x[!duplicated(x)]
#' match(x, c(1, 3))
#' findInterval(x, c(0, 2))
#' table(x, useNA = "ifany")
#' rle(x)
#' @aliases rle
#' @name matching
NULL

#' @rdname matching
#' @export
unique.gpu_array <- function(x, incomparables = FALSE, ...) {
  if (is_int64(x) && !is.null(dim(x))) {
    coded <- coded_elements(x)
    kept <- unique(coded$codes, incomparables, ...)
    return(with_dimnames(`dim<-`(coded$values[as.vector(kept)], dim(kept)), dimnames(kept)))
  }
  if (by_rows(x, incomparables, ...)) return(through_host(x, unique, incomparables, ...))
  # Base R keeps these classes, and factor() needs them: its levels are the texts of the distinct elements.
  if (is.object(x) && inherits(x, c("Date", "POSIXct", "factor"))) {
    keep <- attributes(x)[c("class", if (is.factor(x)) "levels" else if (inherits(x, "POSIXct")) "tzone")]
    return(with_attributes(unique(strip(x), incomparables, ...), Filter(Negate(is.null), keep)))
  }
  if (length(x) < 2L) return(strip(x))
  x <- strip(x)
  from_last <- isTRUE(as.logical(list(...)$fromLast))
  at <- if (!from_last) first_positions(x)
  if (is.null(at)) x[!repeated_flags(x, from_last)] else if (length(at) == length(x)) x else x[at]
}

#' @rdname matching
#' @export
duplicated.gpu_array <- function(x, incomparables = FALSE, ...) {
  if (by_rows(x, incomparables, ...)) return(duplicated(host_elements(x), incomparables, ...))
  if (length(x) == 0L) return(logical())
  repeated_flags(x, isTRUE(as.logical(list(...)$fromLast)))
}

#' @rdname matching
#' @export
anyDuplicated.gpu_array <- function(x, incomparables = FALSE, ...) {
  if (by_rows(x, incomparables, ...)) return(anyDuplicated(host_elements(x), incomparables, ...))
  if (length(x) < 2L) return(0L)
  # base R would compare the bits of an integer64 as doubles.
  if (prefers_host(x) && !is_int64(x)) return(anyDuplicated(ordinary_copy(strip(x), exact = TRUE, silent = TRUE), ...))
  from_last <- isTRUE(as.logical(list(...)$fromLast))
  as.integer(c(first_position(repeated_flags(x, from_last), from_last), 0)[1L])
}

setGeneric("rle")
#' @rdname matching
#' @export
setMethod("rle", "gpu_array", function(x) {
  n <- length(x)
  if (!is.null(dim(x)) || !is.null(names(x)) || !is.null(attr(x, "tsp")) || n < 2L || is.complex(x))
    return(if (is_int64(x) && is.null(dim(x)) && is.null(attr(x, "tsp"))) rle_of_int64(x) else
      base::rle(host_copy(x, exact = TRUE)))
  x <- strip(x)
  changes <- x[-1L] != x[-n]
  at <- which(changes | is.na(changes))
  ends <- join(list(at, n))
  structure(list(lengths = collect(gpu_cast(ends - join(list(0L, at)), "int32")), values = collect(x[ends])),
    class = "rle")
})

# rle() of an int64 vector with names, or a short one: base R refuses an integer64, so it gets codes.
rle_of_int64 <- function(x) {
  plain <- strip(x)
  codes <- as.vector(match(plain, unique(plain)))
  codes[as.vector(is.na(plain))] <- NA
  out <- base::rle(stats::setNames(codes, names(x)))
  out$values <- stats::setNames(collect(plain[cumsum(out$lengths)]), names(out$values))
  out
}

# ---- matching ----------------------------------------------------------------------------------------

#' @rdname matching
#' @export
match <- interposed("match", c("x", "table"), match_arrays(x, table, nomatch, incomparables),
  class = c("gpu_array", "gpu_split", "gpu_reader"))

#' @rdname matching
#' @usage x \%in\% table
#' @export
`%in%` <- interposed("%in%", c("x", "table"), in_arrays(x, table), class = c("gpu_array", "gpu_split",
  "gpu_reader"))

matches_on_device <- function(x, table) is_key_number(x) && is_key_number(table)
is_key_number <- function(x) (is_number(x) || inherits(x, "integer64")) && !is.complex(x)

# Numbers as int64, for comparison with int64. A number that is not an int64 becomes NA.
as_int64 <- function(x) {
  if (is_int64(x)) return(x)
  gpu_cast(if (is.double(x)) select_by(abs(x) < 2^63 & x == floor(x), x, NA_real_) else x, "int64")
}

# Whether each element equals one value, which may be NA or NaN; never NA.
equals <- function(x, value) {
  if (is.na(value) && is_narrow(x)) return(is.na(x))
  if (is.nan(value)) return(is.nan(x))
  if (is.na(value)) return(if (is.double(x)) is.na(x) & !is.nan(x) else is.na(x))
  x == value & !is.na(x)
}

in_arrays <- function(x, table, name = "%in%") {
  if (is_split(x) || is_split(table)) return(split_match(name, x, table, 0L, NULL, parent.frame()))
  if (is_reader(x)) return(reader_match(name, x, table, 0L, NULL, parent.frame()))
  if (is_reader(table)) refuse_reader(name, parent.frame(), "`x` must be the reader, and `table` an ordinary vector.")
  if (!matches_on_device(x, table)) return(call_base(base::`%in%`, plain_pair(x, table)))
  if (is_gpu(x) && is_small_table(table, x)) {
    if (length(table) == 0L || length(x) == 0L) return(gpu_full(FALSE, length(x), device = gpu_device(x)))
    x <- strip(x)
    return(Reduce(`|`, lapply(unique(as.vector(table)), function(value) equals(x, value))))
  }
  match_arrays(x, table, 0L, NULL) > 0L
}

# Whether the table is short enough to be compared element by element.
is_small_table <- function(table, x) length(table) <= MOST_COMPARED && meets_alike(table, x)

# Whether comparing x with the table's elements as R numbers gives the result of comparing arrays: neither is int64, and
# a table that is an array has the dtype of x, or x is float64.
meets_alike <- function(table, x) {
  !is_int64(x) && !is_int64(table) && (!is_gpu(table) || gpu_dtype(x) == "float64" || gpu_dtype(x) == gpu_dtype(table))
}

match_arrays <- function(x, table, nomatch, incomparables) {
  if (is_split(x) || is_split(table)) return(split_match("match", x, table, nomatch, incomparables, parent.frame()))
  if (is_reader(x)) return(reader_match("match", x, table, nomatch, incomparables, parent.frame()))
  if (is_reader(table)) refuse_reader("match", parent.frame(), "`x` must be the reader, and `table` an ordinary vector.")
  usual <- is.atomic(nomatch) && !is.object(nomatch) && (is.numeric(nomatch) || is.logical(nomatch)) &&
    length(nomatch) == 1L
  if (!usual || !matches_on_device(x, table) || !(is.null(incomparables) || isFALSE(incomparables))) {
    return(call_base(base::match, c(plain_pair(x, table), list(host_copy(nomatch), incomparables))))
  }
  nomatch <- as.integer(nomatch)
  if (!is_gpu(x)) return(collect(match_on_device(cast_like(x, table), table, nomatch)))
  match_on_device(x, table, nomatch)
}

match_on_device <- function(x, table, nomatch) {
  x <- strip(x)
  n <- length(x)
  m <- length(table)
  device <- gpu_device(x)
  if (n == 0L || m == 0L) return(gpu_full(nomatch, n, device = device))
  if (is_small_table(table, x)) {
    values <- as.vector(table)
    out <- nomatch
    for (k in rev(seq_len(m))) out <- select_by(equals(x, values[k]), k, out)
    return(out)
  }
  table <- cast_like(table, x)
  mixed <- is_int64(x) != is_int64(table)
  left <- if (mixed) as_int64(x) else x
  right <- if (mixed) as_int64(table) else table
  at <- .Call(C_matches, left, right)
  out <- if (is.null(at)) match_by_search(left, right, nomatch) else if (nomatch == 0L && !is.na(nomatch)) at else
    select_by(at == 0L, nomatch, at)
  missing <- missing_parts(x)
  if (!is.null(missing)) {
    among <- missing_parts(table)
    for (part in names(missing)) {
      at <- if (is.null(among[[part]])) numeric() else first_position(among[[part]], FALSE)
      if (length(at)) out <- select_by(missing[[part]], as.integer(at), out)
    }
  }
  out
}

# match_on_device() for elements that are not missing, by a sort of the table and a binary search.
match_by_search <- function(x, table, nomatch) {
  # The sort is stable: the first of equal elements is the first in the table.
  sorted <- .Call(C_sort, table, FALSE, TRUE)
  known <- length(table) - missing_last(sorted[[1L]])
  if (known == 0L) return(gpu_full(nomatch, length(x), device = gpu_device(x)))
  values <- sorted[[1L]][seq_len(known)]
  place <- .Call(C_search, x, values, TRUE) + 1L
  out <- select_by(values[place] == x, sorted[[2L]][place], nomatch)
  # NA here means that x is missing, or greater than all.
  select_by(is.na(out), nomatch, out)
}

# ---- sets --------------------------------------------------------------------------------------------

#' @rdname matching
#' @export
union <- interposed("union", c("x", "y"), union_of_arrays(x, y))
#' @rdname matching
#' @export
intersect <- interposed("intersect", c("x", "y"), part_of_array("intersect", x, y))
#' @rdname matching
#' @export
setdiff <- interposed("setdiff", c("x", "y"), part_of_array("setdiff", x, y))
#' @rdname matching
#' @export
setequal <- interposed("setequal", c("x", "y"), equal_sets(x, y))
#' @rdname matching
#' @export
is.element <- interposed("is.element", c("el", "set"), in_arrays(el, set, "is.element"), class = c("gpu_array",
  "gpu_split", "gpu_reader"))

# A numeric result is an array where the sets computed on the device are.
set_on_base <- function(name, x, y) {
  out <- call_base(get(name, baseenv()), plain_pair(x, y))
  like <- if (is_gpu(x)) x else if (name == "union") y
  plain <- !is.object(out) && (is.numeric(out) || is.logical(out) || is.complex(out))
  if (name == "setequal" || is.null(like) || !plain) out else upload_result_like(out, like)
}

union_of_arrays <- function(x, y) {
  if (!matches_on_device(x, y)) return(set_on_base("union", x, y))
  both <- list(cast_like(x, if (is_gpu(x)) x else y), cast_like(y, if (is_gpu(y)) y else x))
  wide <- vapply(both, is_int64, NA)
  # The union of int64 and doubles is int64 if all doubles are whole numbers in its range, otherwise double.
  if (any(wide) && !all(wide)) {
    whole <- as_int64(both[[which(!wide)]])
    if (sum(is.na(whole)) == sum(is.na(both[[which(!wide)]]))) both[[which(!wide)]] <- whole else
      both[[which(wide)]] <- cast_like(as.vector(both[[which(wide)]]), both[[which(!wide)]])
  }
  unique(join(both))
}

equal_sets <- function(x, y) {
  if (!matches_on_device(x, y)) return(set_on_base("setequal", x, y))
  all(in_arrays(x, y)) && all(in_arrays(y, x))
}

# intersect() or setdiff(): the distinct elements of x that are in y, or not in y. An array if x is one.
part_of_array <- function(name, x, y) {
  if (!matches_on_device(x, y)) return(set_on_base(name, x, y))
  x <- if (inherits(x, "integer64") && !is_gpu(x)) as_gpu(x, device = gpu_device(y)) else strip(x)
  found <- match_arrays(x, y, 0L, NULL)
  out <- unique(x[if (name == "setdiff") found == 0L else found > 0L])
  # The type is base R's, which depends on the version of R.
  type <- typeof(get(name, baseenv())(vector(typeof(x), 0L), vector(typeof(y), 0L)))
  if (type == typeof(x)) out else if (is_gpu(out)) gpu_cast(out, type) else as.vector(out, type)
}

# ---- bins --------------------------------------------------------------------------------------------

# The number of elements of the sorted `vec` that are at most x (less than x, if `strictly`); NA where x is.
count_below <- function(x, vec, strictly) {
  n <- length(x)
  m <- length(vec)
  device <- gpu_device(x)
  if (n == 0L) return(gpu_full(0L, 0L, device = device))
  if (m <= 2L * MOST_COMPARED) {
    if (m == 0L) return(select_by(is.na(x), NA_integer_, 0L))
    values <- if (meets_alike(vec, x)) as.vector(vec) else lapply(seq_len(m), function(k) vec[k])
    tests <- lapply(values, function(v) if (strictly) x > v else x >= v)
    return(if (m == 1L) tests[[1L]] + 0L else Reduce(`+`, tests))
  }
  x <- strip(x)
  vec <- cast_like(vec, x)
  if (is_int64(x) == is_int64(vec)) return(.Call(C_search, x, vec, strictly))
  # A comparison with a whole number does not change if the bound is rounded to the next whole number, and all int64 are
  # within 2^63. So bounds are rounded and compared as int64.
  nearest <- if (is_int64(x) == strictly) floor else ceiling
  if (is_int64(x)) {
    bounds <- nearest(vec)
    low <- sum(bounds <= -2^63)
    within <- bounds[abs(bounds) < 2^63]
    known <- if (length(within)) .Call(C_search, x, as_int64(within), strictly) else
      select_by(is.na(x), NA_integer_, 0L)
    return(known + as.integer(low))
  }
  bounds <- nearest(x)
  select_by(is.na(x) | abs(bounds) < 2^63, .Call(C_search, as_int64(bounds), vec, strictly),
    select_by(bounds > 0, m, 0L))
}

# From R 4.5 on findInterval() has more arguments.
#' @rdname matching
#' @usage NULL
#' @export
findInterval <- interposed("findInterval", c("x", "vec"), intervals_of_array(x, vec, rightmost.closed, all.inside,
  left.open), class = c("gpu_array", "gpu_split", "gpu_reader"))

intervals_of_array <- function(x, vec, rightmost.closed, all.inside, left.open) {
  if (is_reader(x) || is_reader(vec)) return(reader_intervals(x, vec, rightmost.closed, all.inside, left.open,
    parent.frame()))
  if (is_split(x) || is_split(vec)) return(split_intervals(x, vec, rightmost.closed, all.inside, left.open,
    parent.frame()))
  takes <- function(v) is_real(v) || inherits(v, "integer64")
  usual <- is_switch(rightmost.closed) && is_switch(all.inside) && is_switch(left.open) && takes(x) && takes(vec) &&
    !(length(vec) == 1L && is.na(as.vector(vec)))
  if (!usual) return(hosted(base::findInterval, list(x, vec, rightmost.closed, all.inside, left.open)))
  x <- cast_like(x, if (is_gpu(x)) x else vec)
  if (inherits(vec, "integer64")) vec <- cast_like(vec, x)
  if (is.unsorted(vec) %in% c(TRUE, NA)) stop_as_base("'vec' must be sorted non-decreasingly and not contain NAs")
  m <- length(vec)
  x <- as_doubles(strip(x))
  out <- count_below(x, vec, left.open)
  if (m > 0L && rightmost.closed) {
    out <- if (left.open) select_by(x == vec[1L], 1L, out) else select_by(x == vec[m], m - 1L, out)
  }
  if (all.inside) out <- pmin(pmax(out, 1L), m - 1L)
  gpu_cast(out, "int32")
}

# The breaks of base R's cut() for a number of intervals: equally spaced over the range, extended by a thousandth at
# both ends.
equal_intervals <- function(reach, count) {
  pieces <- as.integer(count + 1)
  width <- reach[2L] - reach[1L]
  more <- (if (width != 0) width else if (reach[1L] != 0) abs(reach[1L]) else 1) / 1000
  if (width == 0) return(seq.int(reach[1L] - more, reach[2L] + more, length.out = pieces))
  breaks <- seq.int(reach[1L], reach[2L], length.out = pieces)
  replace(breaks, c(1L, pieces), c(reach[1L] - more, reach[2L] + more))
}

#' @rdname matching
#' @export
cut.gpu_array <- function(x, breaks, labels = NULL, include.lowest = FALSE, right = TRUE, dig.lab = 3L,
  ordered_result = FALSE, ...) {
  # Breaks of int64 beyond 2^53 are compared exactly, not as doubles. A single number is the number of intervals.
  whole <- if (is_int64(breaks)) strip(as_gpu(breaks, device = gpu_device(x)))
  exact <- length(whole) > 1L && !anyNA(whole) && !all(abs(whole) <= 2^53)
  breaks <- if (exact) seq_along(whole) + 0 else if (is.null(whole)) host_copy(breaks) else as.vector(whole)
  if (exact) {
    whole <- sort(whole)
    if (is.null(labels)) labels <- interval_labels(as.character(whole), include.lowest, right)
    if (anyDuplicated(whole)) breaks[2L] <- breaks[1L]
  }
  args <- list(breaks = breaks, labels = labels, include.lowest = include.lowest, right = right, dig.lab = dig.lab,
    ordered_result = ordered_result, ...)
  usable <- is_switch(include.lowest) && is_switch(right) && is.numeric(breaks) && length(breaks) && !anyNA(breaks) &&
    !is.complex(x) && !is.logical(x) && length(x)
  # A single number: breaks are computed from the range of x.
  known <- if (usable && length(breaks) == 1L && breaks >= 2 && !all(is.na(x)))
    as.double(range(if (is_int64(x)) as_float64(x) else x, na.rm = TRUE))
  if (!usable || length(breaks) == 1L && !(length(known) && all(is.finite(known))))
    return(do.call(cut, c(list(as.vector(host_copy(x))), args)))
  shape <- call_base(base::cut.default, c(list(known %||% 0), args))
  x <- as_doubles(strip(x))
  if (length(breaks) == 1L) {
    # Computed breaks have float64 precision.
    x <- as_float64(x)
    breaks <- equal_intervals(known, breaks)
  } else {
    breaks <- sort.int(as.double(breaks))
  }
  if (exact) breaks <- whole
  pieces <- length(breaks) - 1L
  code <- count_below(x, breaks, right)
  if (include.lowest) code <- if (right) select_by(x == breaks[1L], 1L, code) else
    select_by(x == breaks[pieces + 1L], pieces, code)
  code <- gpu_cast(select_by(code < 1L | code > pieces, NA_integer_, code), "int32")
  if (is.null(levels(shape))) return(code)
  # Intervals with the same label are one level.
  if (anyDuplicated(as.character(labels)))
    code <- as_gpu(base::match(as.character(labels), levels(shape)), device = gpu_device(x))[code]
  out <- as.vector(code)
  attributes(out) <- attributes(shape)
  out
}

# The labels of intervals between bounds with these digits, as in base R.
interval_labels <- function(digits, include.lowest, right) {
  n <- length(digits)
  closed <- is_switch(include.lowest) && include.lowest
  right <- is_switch(right) && right
  open <- rep.int(if (right) "(" else "[", n - 1L)
  close <- rep.int(if (right) "]" else ")", n - 1L)
  if (closed && right) open[1L] <- "["
  if (closed && !right) close[n - 1L] <- "]"
  paste0(open, digits[-n], ",", digits[-1L], close)
}
