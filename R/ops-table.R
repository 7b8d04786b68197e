# Counts of distinct elements: tabulate(), table(), and the distinct values of keys for grouping and matching.

# Largest number of bins for counting whole numbers.
MOST_BINS <- 2^20

# Integers are mostly codes from 1 on: counts of 0 to MOST_GUESSED - 1 are tried first, because finding the range would
# wait once more.
MOST_GUESSED <- 1024

# The counts of 0, 1, 2 ... in an integer array; NULL if an element is outside this range or missing.
counted_codes <- function(x) {
  if (!is.integer(x) || !length(x)) return(NULL)
  counts <- .Call(C_collect, .Call(C_count_bins, x, 0, MOST_GUESSED))
  if (counts[MOST_GUESSED + 1] == 0) counts[seq_len(MOST_GUESSED)]
}

# The sorted distinct values, their counts, and the number of missing elements, for whole numbers in a narrow range;
# NULL for other arrays.
counted_whole <- function(x) {
  x <- strip(x)
  n <- length(x)
  if (!n || is.complex(x)) return(NULL)
  counts <- counted_codes(x)
  if (!is.null(counts)) return(as_counted(x, 0, counts, 0))
  reach <- if (is_int64(x)) suppressWarnings(.Call(C_reduce, "range", x, TRUE)) else .Call(C_reduce, "range", x, TRUE)
  # A list means that there is no known element, NA an int64 that no double represents.
  if (is.list(reach) || !all(is.finite(reach))) return(NULL)
  low <- as.double(reach[1L])
  bins <- as.double(reach[2L]) - low + 1
  if (low != floor(low) || abs(low) > 2^52 || bins != floor(bins) || bins > min(MOST_BINS, 16 * n + 1024)) return(NULL)
  counts <- .Call(C_collect, .Call(C_count_bins, x, low, bins))
  others <- counts[bins + 1]
  if (others > 0 && is.double(x) && others != sum(is.na(x))) return(NULL)
  as_counted(x, low, counts[seq_len(bins)], others)
}

# Drops values that do not occur from the counts of `low`, `low` + 1 ...
as_counted <- function(x, low, counts, missing) {
  at <- base::which(counts > 0)
  list(values = as.vector(low + at - 1, typeof(x)), counts = if (length(x) <= .Machine$integer.max)
    as.integer(counts[at]) else counts[at], missing = missing)
}

# The sorted distinct values and their counts as ordinary vectors; int64 values in a wide range as an array.
counted <- function(x) {
  whole <- counted_whole(x)
  if (!is.null(whole)) return(whole)
  r <- equal_runs(x)
  if (r$known == 0L) return(list(values = vector(typeof(x), 0L), counts = integer()))
  starts <- collect(which(r$first))
  values <- r$sorted[starts]
  list(values = if (is_int64(values)) values else as.vector(values), counts = diff(c(starts, r$known + 1L)))
}

#' @rdname matching
#' @export
tabulate <- interposed("tabulate", "bin", tabulate_array(bin, if (!missing(nbins)) list(nbins)),
  class = c("gpu_array", "gpu_split", "gpu_reader"))

# `given`: list(nbins), or NULL if the argument is missing.
tabulate_array <- function(bin, given = NULL) {
  if (is_split(bin)) return(split_tabulate(bin, given[[1L]], parent.frame()))
  if (is_reader(bin)) return(reader_tabulate(bin, given, parent.frame()))
  if (!is.numeric(bin)) return(call_base(base::tabulate, c(list(ordinary_copy(bin)), given)))
  nbins <- given[[1L]]
  # Evaluating base R's default, max(1L, bin), would dispatch on `bin` and copy the array to the host.
  if (is.null(given)) {
    counts <- counted_codes(strip(bin))
    # tabulate() ignores values below 1.
    if (!is.null(counts)) return(as.integer(counts[1L + seq_len(max(1L, base::which(counts[-1L] > 0)))]))
    nbins <- max(1L, suppressWarnings(max(if (is_int64(bin)) as_float64(bin) else bin, na.rm = TRUE)))
    # Base R converts the elements to integer before it counts.
    if (nbins > .Machine$integer.max) return(call_base(base::tabulate, list(ordinary_copy(bin))))
  }
  usual <- is_count(nbins) && nbins <= .Machine$integer.max
  if (!usual || nbins > MOST_BINS)
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

# Whether an argument is an array, a split or a reader, or a factor from cut() whose codes are still on the device.
is_counted <- function(parts) {
  for (x in parts) if (is.object(x) && (inherits(x, c("gpu_array", "gpu_split", "gpu_reader")) ||
    is_unread_factor(x))) return(TRUE)
  FALSE
}
is_unread_factor <- function(x) is.factor(x) && .Call(C_is_unread, x)

# table() of one vector with these sorted distinct values.
table_of_counts <- function(values, counts, name) {
  labels <- list(as.character(values))
  names(labels) <- name
  out <- base::array(counts, length(values), labels)
  class(out) <- "table"
  out
}

table_arrays <- function(parts, expressions, dnn, deparse.level, options) {
  if (.Call(C_any_inherit, parts, "gpu_split")) {
    if (length(parts) > 1L || length(options)) refuse_split("table", parent.frame(),
      "Only one split is supported, without `exclude` and `useNA`.")
    name <- if (length(dnn)) dnn[[1L]] else names(parts) %||% if (is.symbol(expressions[[1L]]) && deparse.level > 0)
      as.character(expressions[[1L]]) else ""
    return(table_of_split(parts[[1L]], name, parent.frame()))
  }
  dnn <- if (is.null(dnn)) labels_of(expressions, deparse.level) else dnn[[1L]]
  if (.Call(C_any_inherit, parts, "gpu_reader")) {
    if (length(parts) > 1L) refuse_reader("table", parent.frame(), "Only one reader is supported.")
    return(table_of_reader(parts[[1L]], dnn, options, parent.frame()))
  }
  # The usual call: one array of whole numbers.
  usual <- length(parts) == 1L && !length(options) && is.character(dnn) && length(dnn) == 1L && is_gpu(parts[[1L]])
  whole <- if (usual) counted_whole(parts[[1L]])
  if (length(whole$values)) return(table_of_counts(whole$values, whole$counts, dnn))
  if (!is.null(options$exclude)) options$exclude <- spelled(options$exclude)
  on_base <- function(parts) call_base(base::table, c(unname(parts), options, list(dnn = dnn)))
  device <- device_of(parts)
  parts <- lapply(parts, function(x) if (is_host_int64(x)) as_gpu(x, device = device) else unread_to_array(x, device))
  usable <- vapply(parts, function(x) is_number(x) && !is.complex(x) || is.factor(x) && !anyNA(levels(x)) ||
    is.character(x), NA)
  n <- length(parts[[1L]])
  if (!all(usable) || n == 0L || any(lengths(parts) != n)) return(on_base(lapply(parts, plain_key)))
  # Each argument as its distinct values, and the positions of its elements among them.
  coded <- lapply(parts, function(x) {
    if (is_unread_factor(x)) {
      at <- factor_codes(x, device)
      return(list(values = factor(c(levels(x), NA), levels(x), ordered = is.ordered(x)),
        at = select_by(is.na(at), nlevels(x) + 1L, at)))
    }
    if (!is_gpu(x)) {
      f <- if (is.factor(x)) x else factor(x, exclude = NULL)
      values <- if (is.factor(x)) c(seq_along(levels(x)), NA) else sort(unique(x), na.last = TRUE)
      at <- if (is.factor(x)) ifelse(is.na(x), nlevels(x) + 1L, as.integer(x)) else base::match(x, values)
      return(list(values = if (is.factor(x)) factor(levels(x)[values], levels(x), ordered = is.ordered(x)) else values,
        at = as_gpu(at, device = device)))
    }
    known <- if (usual) whole else counted_whole(x)
    missing <- if (is.null(known) || known$missing > 0) vapply(missing_parts(x), any, NA) else logical()
    if (sum(missing) > 1L) return(NULL)
    # Otherwise base R's table() is faster on the host.
    if (is.null(known) && prefers_host(x) && !is_int64(x)) return(NULL)
    known <- known %||% counted(x)
    values <- if (is_gpu(known$values)) factor(as.character(known$values), as.character(known$values)) else known$values
    values <- if (is.factor(values)) values[c(seq_along(values), if (any(missing)) NA)] else
      c(values, if (isTRUE(missing["na"])) NA, if (isTRUE(missing["nan"])) NaN)
    counts <- c(known$counts, if (any(missing)) n - sum(known$counts))
    if (length(parts) == 1L) return(list(values = values, counts = counts))
    at <- if (length(known$values)) codes_among(x, known$values) else gpu_full(NA_integer_, n, device = device)
    list(values = values, at = if (any(missing)) select_by(is.na(at), length(values), at) else at)
  })
  # If NA and NaN both occur, base R orders them by first occurrence.
  if (any(vapply(coded, is.null, NA))) return(on_base(lapply(parts, plain_key)))
  sizes <- vapply(coded, function(p) length(p$values), 1L)
  strides <- cumprod(c(1, sizes))[seq_along(sizes)]
  found <- if (!is.null(coded[[1L]]$counts)) list(values = seq_len(sizes) - 1, counts = coded[[1L]]$counts) else {
    counted(Reduce(`+`, Map(function(p, stride) if (stride == 1) p$at - 1L else (as_doubles(p$at) - 1) * stride, coded,
      strides)))
  }
  rows <- lapply(seq_along(coded), function(k) coded[[k]]$values[found$values %/% strides[k] %% sizes[k] + 1])
  # Base R's table() of one element for each combination defines the shape and names. The counts are then placed by the
  # dimnames.
  out <- on_base(rows)
  at <- Map(function(row, names) base::match(as.character(row), names), rows, unname(dimnames(out)))
  cells <- do.call(cbind, at)
  kept <- stats::complete.cases(cells)
  out[] <- 0L
  flat <- as.vector(1 + (cells[kept, , drop = FALSE] - 1) %*% cumprod(c(1, dim(out)))[seq_along(dim(out))])
  counts <- found$counts[kept]
  # Two combinations may share a cell, such as NA and NaN: add their counts.
  twice <- duplicated(flat)
  out[flat[!twice]] <- counts[!twice]
  for (k in which(twice)) out[flat[k]] <- out[flat[k]] + counts[k]
  out
}
