# Counts of distinct elements: tabulate() and table(), and what grouping and matching ask of keys.

# Most bins in which whole numbers are counted.
MOST_BINS <- 2^20

# Most integers are codes from 1 on: they are counted at once, where their range would be another wait before.
MOST_GUESSED <- 1024

# How many elements are 0, 1, 2 ..., where all are so small; NULL of others.
counted_codes <- function(x) {
  if (!is.integer(x) || !length(x)) return(NULL)
  counts <- .Call(C_collect, .Call(C_count_bins, x, 0, MOST_GUESSED))
  if (counts[MOST_GUESSED + 1] == 0) counts[seq_len(MOST_GUESSED)]
}

# The distinct known elements, in order, how many there are of each, and how many elements are missing, of whole numbers
# that lie near each other; NULL of others.
counted_whole <- function(x) {
  x <- strip(x)
  n <- length(x)
  if (!n || is.complex(x)) return(NULL)
  counts <- counted_codes(x)
  if (!is.null(counts)) return(as_counted(x, 0, counts, 0))
  reach <- if (is_int64(x)) suppressWarnings(.Call(C_reduce, "range", x, TRUE)) else .Call(C_reduce, "range", x, TRUE)
  # a list: there is none; NA: int64 that no double holds
  if (is.list(reach) || !all(is.finite(reach))) return(NULL)
  low <- as.double(reach[1L])
  bins <- as.double(reach[2L]) - low + 1
  if (low != floor(low) || abs(low) > 2^52 || bins != floor(bins) || bins > min(MOST_BINS, 16 * n + 1024)) return(NULL)
  counts <- .Call(C_collect, .Call(C_count_bins, x, low, bins))
  others <- counts[bins + 1]
  if (others > 0 && is.double(x) && others != sum(is.na(x))) return(NULL)
  as_counted(x, low, counts[seq_len(bins)], others)
}

# Counts of the numbers from `low` on.
as_counted <- function(x, low, counts, missing) {
  at <- base::which(counts > 0)
  list(values = as.vector(low + at - 1, typeof(x)), counts = if (length(x) <= .Machine$integer.max)
    as.integer(counts[at]) else counts[at], missing = missing)
}

# The distinct known elements, in order, and how many there are of each: ordinary vectors, but of int64 that lie far
# from each other an array.
counted <- function(x) {
  whole <- counted_whole(x)
  if (!is.null(whole)) return(whole)
  r <- runs(x)
  if (r$known == 0L) return(list(values = vector(typeof(x), 0L), counts = integer()))
  starts <- collect(which(r$first))
  values <- r$sorted[starts]
  list(values = if (is_int64(values)) values else as.vector(values), counts = diff(c(starts, r$known + 1L)))
}

#' @rdname matching
#' @export
tabulate <- interposed("tabulate", "bin", tabulate_array(bin, if (!missing(nbins)) list(nbins)),
  class = c("gpu_array", "gpu_split", "gpu_reader"))

# `given`: nbins in a list, or NULL where it is base R's default.
tabulate_array <- function(bin, given = NULL) {
  if (is_split(bin)) return(split_tabulate(bin, given[[1L]], parent.frame()))
  if (is_reader(bin)) return(reader_tabulate(bin, given, parent.frame()))
  nbins <- given[[1L]]
  # base R's default, max(1L, bin), asks its first argument for a method, and so reads the array
  if (is.null(given)) {
    counts <- counted_codes(strip(bin))
    # what is below 1 is in no bin
    if (!is.null(counts)) return(as.integer(counts[1L + seq_len(max(1L, base::which(counts[-1L] > 0)))]))
    nbins <- if (is.numeric(bin)) {
      max(1L, suppressWarnings(max(if (is_int64(bin)) as_float64(bin) else bin, na.rm = TRUE)))
    } else {
      max(1L, host_copy(bin), na.rm = TRUE)
    }
    # base R has made integers of the elements by then
    if (is.infinite(nbins)) return(call_base(base::tabulate, list(ordinary_copy(bin))))
  }
  usual <- is_count(nbins) && nbins <= .Machine$integer.max
  if (!is.numeric(bin) || !usual || nbins > MOST_BINS)
    return(call_base(base::tabulate, list(ordinary_copy(bin), nbins)))
  nbins <- as.integer(nbins)
  if (prefers_host(bin) && !is.integer(bin)) return(call_base(base::tabulate, list(collect(strip(bin)), nbins)))
  counts <- .Call(C_count_bins, strip(if (is.integer(bin)) bin else as_gpu(bin, dtype = "int32")), 1, nbins)
  as.integer(as.vector(counts)[seq_len(nbins)])
}

#' @rdname matching
#' @export
table <- interposed("table", quote(.Call(.ours$C_any_inherit, list(...), c("gpu_array", "factor", "gpu_split",
  "gpu_reader")) && .ours$is_counted(list(...))), table_arrays(list(...),
  as.list(substitute(list(...)))[-1L], if (!missing(dnn)) list(dnn), deparse.level,
  c(if (!missing(exclude)) list(exclude = exclude), if (!missing(useNA)) list(useNA = useNA))),
  class = c("gpu_array", "gpu_split", "gpu_reader"), arguments = "...", is = function(x) is_gpu(x) || is_split(x) ||
    is_reader(x))

# Whether an array is among some arguments, or a factor that cut() has made of one and nobody has read.
is_counted <- function(parts) {
  for (x in parts) if (is.object(x) && (inherits(x, c("gpu_array", "gpu_split", "gpu_reader")) ||
    is_unread_factor(x))) return(TRUE)
  FALSE
}
is_unread_factor <- function(x) is.factor(x) && .Call(C_is_unread, x)

table_arrays <- function(parts, expressions, dnn, deparse.level, options) {
  if (any(vapply(parts, is_split, NA))) {
    if (length(parts) > 1L || length(options)) refuse_split("table", parent.frame(),
      "Only one split is supported, without `exclude` and `useNA`.")
    name <- if (length(dnn)) dnn[[1L]] else names(parts) %||% if (is.symbol(expressions[[1L]]) && deparse.level > 0)
      as.character(expressions[[1L]]) else ""
    return(table_of_split(parts[[1L]], name, parent.frame()))
  }
  dnn <- if (is.null(dnn)) labels_of(expressions, deparse.level) else dnn[[1L]]
  if (any(vapply(parts, is_reader, NA))) {
    if (length(parts) > 1L) refuse_reader("table", parent.frame(), "Only one reader is supported.")
    return(table_of_reader(parts[[1L]], dnn, options, parent.frame()))
  }
  if (!is.null(options$exclude)) options$exclude <- spelled(options$exclude)
  on_base <- function(parts) call_base(base::table, c(unname(parts), options, list(dnn = dnn)))
  device <- device_of(parts)
  parts <- lapply(parts, function(x) if (is_host_int64(x)) as_gpu(x, device = device) else where_it_is(x, device))
  usable <- vapply(parts, function(x) is_number(x) && !is.complex(x) || is.factor(x) && !anyNA(levels(x)) ||
    is.character(x), NA)
  n <- length(parts[[1L]])
  if (!all(usable) || n == 0L || any(lengths(parts) != n)) return(on_base(lapply(parts, plain_key)))
  # each argument as the places of its elements among its distinct ones
  coded <- lapply(parts, function(x) {
    if (is_unread_factor(x)) {
      at <- factor_codes(x, device)
      return(list(values = factor(c(levels(x), NA), levels(x), ordered = is.ordered(x)),
        at = ifelse(is.na(at), nlevels(x) + 1L, at)))
    }
    if (!is_gpu(x)) {
      f <- if (is.factor(x)) x else factor(x, exclude = NULL)
      values <- if (is.factor(x)) c(seq_along(levels(x)), NA) else sort(unique(x), na.last = TRUE)
      at <- if (is.factor(x)) ifelse(is.na(x), nlevels(x) + 1L, as.integer(x)) else base::match(x, values)
      return(list(values = if (is.factor(x)) factor(levels(x)[values], levels(x), ordered = is.ordered(x)) else values,
        at = as_gpu(at, device = device)))
    }
    known <- counted_whole(x)
    missing <- if (is.null(known) || known$missing > 0) vapply(missing_parts(x), any, NA) else logical()
    if (sum(missing) > 1L) return(NULL)
    # of others base R's table() costs less on the host
    if (is.null(known) && prefers_host(x) && !is_int64(x)) return(NULL)
    known <- known %||% counted(x)
    values <- if (is_gpu(known$values)) factor(as.character(known$values), as.character(known$values)) else known$values
    values <- if (is.factor(values)) values[c(seq_along(values), if (any(missing)) NA)] else
      c(values, if (isTRUE(missing["na"])) NA, if (isTRUE(missing["nan"])) NaN)
    counts <- c(known$counts, if (any(missing)) n - sum(known$counts))
    if (length(parts) == 1L) return(list(values = values, counts = counts))
    at <- if (length(known$values)) codes_among(x, known$values) else gpu_full(NA_integer_, n, device = device)
    list(values = values, at = if (any(missing)) ifelse(is.na(at), length(values), at) else at)
  })
  # of NA and NaN base R has first what comes first
  if (any(vapply(coded, is.null, NA))) return(on_base(lapply(parts, plain_key)))
  sizes <- vapply(coded, function(p) length(p$values), 1L)
  strides <- cumprod(c(1, sizes))[seq_along(sizes)]
  found <- if (!is.null(coded[[1L]]$counts)) list(values = seq_len(sizes) - 1, counts = coded[[1L]]$counts) else {
    counted(Reduce(`+`, Map(function(p, stride) if (stride == 1) p$at - 1L else (as_doubles(p$at) - 1) * stride, coded,
      strides)))
  }
  rows <- lapply(seq_along(coded), function(k) coded[[k]]$values[found$values %/% strides[k] %% sizes[k] + 1])
  # base R says of one element of each kind what the table looks like; each row's cell is where its words stand
  out <- on_base(rows)
  at <- Map(function(row, names) base::match(as.character(row), names), rows, unname(dimnames(out)))
  cells <- do.call(cbind, at)
  kept <- stats::complete.cases(cells)
  out[] <- 0L
  flat <- as.vector(1 + (cells[kept, , drop = FALSE] - 1) %*% cumprod(c(1, dim(out)))[seq_along(dim(out))])
  counts <- found$counts[kept]
  # cells that two kinds fall on, as NA and NaN may
  twice <- duplicated(flat)
  out[flat[!twice]] <- counts[!twice]
  for (k in which(twice)) out[flat[k]] <- out[flat[k]] + counts[k]
  out
}
