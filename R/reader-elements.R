# Functions of base R on readers that no group generic covers: positions of elements, elementwise functions, and
# summaries in several passes.

#' @export
anyNA.gpu_reader <- function(x, recursive = FALSE) {
  isTRUE(over_blocks(x, function(block) if (is.data.frame(block)) any(vapply(as.list(block), anyNA, NA)) else
    anyNA(block), `||`, call = environment()))
}

# ---- positions -----------------------------------------------------------------------------------------------

setMethod("which", "gpu_reader", function(x, arr.ind = FALSE, useNames = TRUE) {
  call <- environment()
  if (x$frame || !is_vector_reader(x)) refuse_reader("which", call, "Only vectors are supported.")
  if (typeof(no_elements(x)) != "logical") stop_as_base("argument to 'which' is not logical")
  large <- rows_of_reader(x) > .Machine$integer.max
  before <- 0
  parts <- over_blocks(x, function(block) {
    at <- which(strip(block))
    out <- gpu_compute(if (large) as_float64(at) + before else at + as.integer(before))
    before <<- before + length(block)
    out
  }, call = call)
  out <- if (length(parts)) gpu_compute(join(parts)) else as_gpu(integer())
  if (!is.null(x$dimnames)) names(out) <- x$dimnames[collect(out)]
  out
})

# The position of the first minimum or maximum of a reader, for which.min() and which.max().
reader_place <- function(x, name) {
  call <- parent.frame()
  if (x$frame) refuse_reader(name, call, "Only matrices and vectors are supported.")
  if (is.complex(no_elements(x))) refuse_reader(name, call, "Only real numbers are supported.")
  f <- get(name, topenv())
  margin <- margin_for(x, NULL, NULL, .Call(C_device_name, NULL))
  rows <- rows_of_reader(x)
  before <- 0
  parts <- over_blocks(x, function(block) {
    y <- strip(block)
    at <- as.vector(f(y))
    n <- NROW(block)
    # positions count by columns: those in a block become those in the whole
    place <- if (margin == 2) before * rows + at else before + (at - 1) %/% n * rows + (at - 1) %% n + 1
    before <<- before + if (margin == 2) ncol(block) else n
    list(place = as.double(place), value = collect_values(y[at]))
  }, margin = margin, call = call)
  places <- unlist(lapply(parts, `[[`, "place"))
  if (!length(places)) return(integer())
  values <- do.call(joined_on_cpu, lapply(Filter(function(part) length(part$place) > 0L, parts), `[[`, "value"))
  place <- min(places[as.vector(values == values[as.vector(f(values))])])
  if (place <= .Machine$integer.max) place <- as.integer(place)
  if (is_vector_reader(x) && !is.null(x$dimnames)) names(place) <- x$dimnames[place]
  place
}
setMethod("which.max", "gpu_reader", function(x) reader_place(x, "which.max"))
setMethod("which.min", "gpu_reader", function(x) reader_place(x, "which.min"))

# rank(): a sort finds each element's position among the distinct values, and these codes have the elements' ranks.
setMethod("rank", "gpu_reader", `body<-`(base::rank, envir = topenv(), quote({
  ties <- match.arg(ties.method)
  call <- environment()
  check_vector_reader(x, "rank", call)
  check_sorted_fits(rows_of_reader(x), 16, "`sort(x, to = path)` sorts the values themselves into a file.", call)
  codes <- reader_ranks(x, call, "rank")
  if (!is.null(x$dimnames)) names(codes) <- x$dimnames
  rank_array(codes, na.last, ties)
})))

# Codes for duplicated(): equal codes mean equal values. NaN and NA are different values: NaN has code 0, NA is missing.
reader_codes <- function(x, name, call) {
  check_vector_reader(x, name, call)
  check_sorted_fits(rows_of_reader(x), 16, "`table(x)` counts values in less memory where they are few.", call)
  codes <- reader_ranks(x, call, name)
  if (!is.null(x$type) && x$type %in% c("float16", "bfloat16", "float32", "float64")) {
    at <- which(reader_with(is.nan(x), dimnames = NULL))
    if (length(at)) codes[at] <- 0L
  }
  codes
}
#' @export
duplicated.gpu_reader <- function(x, incomparables = FALSE, fromLast = FALSE, ...) {
  call <- environment()
  if (!isFALSE(incomparables)) refuse_reader("duplicated", call, "`incomparables` is not supported.")
  duplicated(reader_codes(x, "duplicated", call), fromLast = fromLast)
}
#' @export
anyDuplicated.gpu_reader <- function(x, incomparables = FALSE, fromLast = FALSE, ...) {
  call <- environment()
  if (!isFALSE(incomparables)) refuse_reader("anyDuplicated", call, "`incomparables` is not supported.")
  anyDuplicated(reader_codes(x, "anyDuplicated", call), fromLast = fromLast)
}

# is.unsorted() of a reader or a split.
remote_unsorted <- function(x, na.rm, strictly, call) {
  if (!is_flag(na.rm)) abort_argument("na.rm", "TRUE or FALSE", na.rm, call)
  if (!is_flag(strictly)) abort_argument("strictly", "TRUE or FALSE", strictly, call)
  if (is_split(x)) return(split_unsorted(x, na.rm, strictly, call))
  check_vector_reader(x, "is.unsorted", call)
  check_sortable(no_elements(x), "is.unsorted", call)
  joined_unsorted(over_blocks(x, function(block) ends_in_order(strip(block), na.rm, strictly), call = call), length(x),
    na.rm, strictly)
}
# Whether a part has missing elements, whether its other elements are unsorted, and the first and last of them.
ends_in_order <- function(y, na.rm, strictly) {
  missing <- anyNA(y)
  if (missing && !na.rm) return(list(missing = TRUE))
  if (missing) y <- y[!is.na(y)]
  n <- length(y)
  unsorted <- n > 1L && is.unsorted(y, strictly = strictly)
  list(missing = FALSE, unsorted = unsorted, ends = if (n > 0L && !unsorted) collect_values(y[c(1L, n)]))
}
# is.unsorted() of n elements, from what ends_in_order() returned for their parts in order.
joined_unsorted <- function(parts, n, na.rm, strictly) {
  if (n <= 1) return(FALSE)
  if (any(vapply(parts, `[[`, NA, "missing"))) return(NA)
  if (any(vapply(parts, `[[`, NA, "unsorted"))) return(TRUE)
  ends <- Filter(length, lapply(parts, `[[`, "ends"))
  if (length(ends) < 2L) return(FALSE)
  ends <- do.call(joined_on_cpu, ends)
  # the first and the last element of each part alternate in `ends`
  last <- ends[2L * seq_len(length(ends) %/% 2L - 1L)]
  first <- ends[2L * seq_len(length(ends) %/% 2L - 1L) + 1L]
  !all(if (strictly) first > last else first >= last)
}

# ---- elements ------------------------------------------------------------------------------------------------

# match() and %in% of a reader and an ordinary table, computed when the result is read.
reader_match <- function(name, x, table, nomatch, incomparables, call) {
  if (is_remote(table)) refuse_reader(name, call, "`x` must be the reader, and `table` an ordinary vector.")
  if (!is.null(incomparables) && !isFALSE(incomparables))
    refuse_reader(name, call, "`incomparables` is not supported.")
  check_vector_reader(x, name, call)
  if (is_gpu(table)) table <- collect(table)
  if (is.complex(no_elements(x))) refuse_reader(name, call, "Only real numbers are supported.")
  if (is.null(table)) table <- logical()
  if (!matches_on_device(no_elements(x), table)) refuse_reader(name, call, "`table` must be numbers.")
  x <- reader_with(x, dimnames = NULL)
  if (name != "match") return(each_of_reader(x, name, block_function(function(block) in_arrays(block, table),
    list(table = table)), "bool8"))
  each_of_reader(x, name, block_function(function(block) match_arrays(block, table, nomatch, NULL), list(table = table,
    nomatch = nomatch)), "int32")
}

# pmin() and pmax() of one reader and numbers.
reader_extreme <- function(name, args, na.rm, call) {
  if (!is_flag(na.rm)) abort_argument("na.rm", "TRUE or FALSE", na.rm, call)
  at <- base::which(vapply(args, is_reader, NA))
  x <- args[[at[1L]]]
  others <- lapply(args[-at], function(v) if (is_gpu(v)) collect(v) else v)
  fits <- length(at) == 1L && all(vapply(others, function(v) (is_number(v) || is_host_int64(v)) && length(v) == 1L, NA))
  if (!fits) refuse_reader(name, call, "The other arguments must be numbers.")
  # base R takes the result's attributes from the first argument
  if (at != 1L && !is_vector_reader(x)) refuse_reader(name, call, "The matrix must be the first argument.")
  if (at != 1L) x <- reader_with(x, dimnames = NULL)
  args[-at] <- others
  each_of_reader(x, name, block_function(function(block) {
    args[[at]] <- block
    do.call(f, c(args, list(na.rm = na.rm)))
  }, list(f = get(name, topenv()), args = unname(args), at = at, na.rm = na.rm)))
}

setMethod("ifelse", "gpu_reader", function(test, yes, no) {
  call <- environment()
  values <- lapply(list(yes, no), function(v) if (is_gpu(v)) collect(v) else v)
  if (!all(vapply(values, function(v) is_number(v) && length(v) == 1L, NA))) refuse_reader("ifelse", call,
    "`yes` and `no` must be numbers.")
  each_of_reader(test, "ifelse", block_function(function(block) select_by(block, yes, no), list(yes =
    as.vector(values[[1L]]), no = as.vector(values[[2L]]))))
})

# ---- summaries -----------------------------------------------------------------------------------------------

# cov() and cor() of the columns of a reader or a split.
remote_covariance <- function(x, scale, call) {
  out <- var(x)
  if (!scale) return(out)
  spread <- sqrt(diag(out))
  if (any(spread %in% 0)) warn_as_base(gettext("the standard deviation is zero", domain = "R-stats"), call)
  spread[spread %in% 0] <- NA
  out <- pmax(pmin(out / spread / rep(spread, each = length(spread)), 1), -1)
  # as in base R, also for a column with missing elements
  if (dim(x)[1L] > 1L) diag(out) <- 1
  out
}
reader_covariance <- function(x, y, use, method, scale, call) {
  if (!is_reader(x) || !is.null(y) || !identical(use, "everything") || method != "pearson") refuse_reader(if (scale)
    "cor" else "cov", call, "Only one reader, with `use = \"everything\"` and Pearson's method, is supported.")
  if (is_vector_reader(x)) stop_as_base("supply both 'x' and 'y' or a matrix-like 'x'", call)
  remote_covariance(x, scale, call)
}

# mean(x, trim): `at_ranks` finds the smallest and the largest element that are kept, and `sums` is stat_between() of
# these.
remote_trimmed <- function(x, trim, na.rm, at_ranks, sums, call) {
  if (!is.numeric(trim) || length(trim) != 1L)
    stop_as_base(gettext("'trim' must be numeric of length one", domain = "R-base"), call)
  if (is.na(trim)) abort_argument("trim", "a number", trim, call)
  kept <- function(known) {
    low <- floor(known * trim) + 1
    c(low, known + 1 - low)
  }
  found <- at_ranks(x, if (trim >= 0.5) median_ranks else kept)
  if (found$known < length(x) && !na.rm) return(NA_real_)
  if (found$known == 0) return(NaN)
  if (trim >= 0.5) return(median_found(found, length(x), found$type %||% type_of(x), TRUE))
  low <- as.double(found$values[1L])
  high <- as.double(found$values[2L])
  if (low == high) return(low)
  rank <- kept(found$known)
  between <- sums(low, high)
  (between[1L] + (between[2L] - rank[1L] + 1) * low + (rank[2L] - between[3L]) * high) / (rank[2L] - rank[1L] + 1)
}
# The sum of the elements between `low` and `high`, the number of elements not above `low`, and of those below `high`.
stat_between <- function(x, low, high) {
  y <- widen_for_sum(strip(part_numbers(x)))
  c(as.vector(sum(y[which(y > low & y < high)])), as.vector(sum(widen_for_sum(y <= low), na.rm = TRUE)),
    as.vector(sum(widen_for_sum(y < high), na.rm = TRUE)))
}

# summary() of numbers, by several passes. base R's summary of two elements, one of them missing if x has such, gives
# the form.
summary_of_remote <- function(object, digits, type) {
  missing <- sum(is.na(object))
  found <- stats::quantile(object, names = FALSE, na.rm = TRUE, type = type)
  found <- c(found[1:3], mean(object, na.rm = TRUE), found[4:5])
  if (!is.null(digits)) found <- signif(found, digits)
  out <- base::summary.default(c(0, if (missing > 0) NA))
  out[] <- c(found, if (missing > 0) missing)
  out
}
#' @rdname reader-methods
#' @export
summary.gpu_reader <- function(object, ..., digits = NULL, quantile.type = 7) {
  call <- environment()
  check_vector_reader(object, "summary", call)
  if (!is.numeric(object)) refuse_reader("summary", call, "Only real numbers are supported.")
  summary_of_remote(object, digits, quantile.type)
}

# IQR() and mad() of a reader or a split.
remote_iqr <- function(x, na.rm, type) {
  # base R computes with the numbers of dates and the codes of factors
  if (is_split(x) && is.object(prototype <- prototype_of(x)) && !inherits(prototype, "integer64"))
    x <- record_split(x, "part_plain", list(x))
  found <- stats::quantile(x, c(0.25, 0.75), na.rm = na.rm, names = FALSE, type = type)
  # as in base R, a double without class or units
  if (!inherits(found, "integer64")) found <- as.double(found)
  diff(found)
}
remote_mad <- function(x, center, constant, na.rm, low, high, call) {
  if (!isFALSE(low) || !isFALSE(high)) {
    advice <- "`low` and `high` must be FALSE."
    if (is_split(x)) refuse_split("mad", call, advice) else refuse_reader("mad", call, advice)
  }
  if (is.null(center)) center <- stats::median(x, na.rm = na.rm)
  constant * stats::median(abs(x - center), na.rm = na.rm)
}
