# 64-bit integers of readers. Doubles cannot hold all of them, so values that are kept between blocks are `integer64`
# vectors, which are computed with as arrays on the cpu device. A sum is kept as two sums, of the upper and of the lower
# 32 bits, which overflow only if the whole sum does.

is_int64_reader <- function(x) identical(x$type, "int64")

# An array of length 0 with a reader's type.
empty_array <- function(x) as_gpu(no_elements(x), dtype = if (is_int64_reader(x)) "int64")

# A copy on the host, which remains when the block is freed, and arrays of such copies.
collect_values <- function(x) collect(strip(x))
on_cpu <- function(x) as_gpu(x, device = "cpu")
joined_on_cpu <- function(...) join(lapply(list(...), on_cpu))
int64_number <- function(value, device) gpu_cast(as_gpu(value, device = device), "int64")

# Codes of `integer64` vectors, a list: positions among all their distinct values in order. `value()` turns a code into
# its value.
coded_int64 <- function(values) {
  distinct <- if (length(values)) sort(unique(do.call(joined_on_cpu, values))) else int64_number(numeric(), "cpu")
  list(codes = lapply(values, function(v) if (length(v)) as.double(as.vector(match(on_cpu(v), distinct))) else numeric()),
    value = function(code) collect_values(distinct[code]))
}

# ---- sums ----------------------------------------------------------------------------------------------------

# The upper and the lower 32 bits of an array's 64-bit integers.
in_two_parts <- function(y) {
  unit <- int64_number(2^32, gpu_device(y))
  high <- y %/% unit
  list(high = high, low = y - high * unit)
}

# The sums of 64-bit integers by `f`, as two `integer64` vectors, of the upper and of the lower 32 bits.
sums_in_two <- function(y, f) lapply(in_two_parts(y), function(part) collect_values(f(part)))
plus_in_two <- function(a, b) Map(function(u, v) collect(on_cpu(u) + on_cpu(v)), a, b)

# The sums as an array, from their two parts. NA, with bit64's warning, where a sum overflows.
sums_of_two <- function(sums, call = NULL) {
  high <- on_cpu(sums$high)
  more <- in_two_parts(on_cpu(sums$low))
  out <- suppressWarnings(gpu_compute(of_two_parts(high + more$high, more$low)))
  if (any(is.na(out) & !is.na(high))) warning(simpleWarning("NAs produced by integer64 overflow", call))
  out
}

# The number of `high` upper and `low` lower 32 bits, in a form whose product does not overflow if the number does not.
of_two_parts <- function(high, low) {
  unit <- int64_number(2^32, "cpu")
  up <- gpu_cast(high < 0L, "int32")
  (high + up) * unit + (low - up * unit)
}
# The same from two vectors of doubles, as which members send 64-bit integers, since all engines can send doubles; and
# the reverse.
of_two_doubles <- function(high, low) gpu_compute(of_two_parts(int64_number(high, "cpu"), int64_number(low, "cpu")))
in_two_doubles <- function(y) lapply(in_two_parts(y), as.vector)

# sum(), min(), max() and range(). Base R's function is called on an array that contains the result, so it returns a
# double, and warns if a double cannot hold the result.
summary_of_int64 <- function(x, name, na.rm, call) {
  f <- get(name, baseenv())
  if (name == "sum") {
    sums <- over_blocks(x, function(block) sums_in_two(`dim<-`(strip(block), c(length(block), 1)), function(y)
      colSums(y, na.rm = na.rm)), plus_in_two, call = call)
    return(if (is.null(sums)) 0 else f(sums_of_two(sums, written_call(call))))
  }
  low <- function(y) y[which.min(y)]
  high <- function(y) y[which.max(y)]
  found <- over_blocks(x, function(block) {
    y <- strip(block)
    list(missing = anyNA(y), low = collect_values(low(y)), high = collect_values(high(y)))
  }, function(a, b) list(missing = a$missing || b$missing, low = collect_values(low(joined_on_cpu(a$low, b$low))),
    high = collect_values(high(joined_on_cpu(a$high, b$high)))), call = call)
  if (isTRUE(found$missing) && !na.rm) return(f(NA_real_))
  if (!length(found$low)) return(f(numeric()))
  f(switch(name, min = on_cpu(found$low), max = on_cpu(found$high), joined_on_cpu(found$low, found$high)))
}

# colSums() and rowSums(): an `integer64` vector.
margin_of_int64 <- function(x, na.rm, rows, call) {
  f <- if (rows) rowSums else colSums
  block <- function(block) sums_in_two(strip_names(block), function(y) strip(f(y, na.rm = na.rm)))
  margin <- margin_for(x, NULL, NULL, .Call(C_device_name, NULL))
  # a block of whole columns has complete column sums, but only terms of the row sums; for a block of rows it is the
  # reverse
  independent <- rows == (margin == 1)
  found <- over_blocks(x, block, if (!independent) plus_in_two, margin, call = call)
  if (independent && length(found)) found <- do.call(Map, c(list(function(...) collect(joined_on_cpu(...))), found))
  size <- as.double(x$dim[if (rows) 1L else 2L])
  out <- collect(if (length(found)) sums_of_two(found) else int64_number(numeric(size), "cpu"))
  names(out) <- x$dimnames[[if (rows) 1L else 2L]]
  out
}

# ---- distinct values -----------------------------------------------------------------------------------------

# A block's distinct values in order, NA last, and how many elements have each.
int64_counts <- function(block) {
  x <- strip(block)
  known <- counted(x)
  values <- int64_number(known$values, gpu_device(x))
  counts <- as.double(known$counts)
  missing <- length(x) - sum(counts)
  if (missing > 0) values <- join(list(values, int64_number(NA_real_, gpu_device(x))))
  list(values = collect_values(values), counts = c(counts, if (missing > 0) missing))
}

# unique() of two `integer64` vectors, and the positions of their elements in it.
united_int64 <- function(a, b) {
  values <- unique(joined_on_cpu(a, b))
  place <- function(v) as.vector(match(on_cpu(v), values))
  list(values = collect_values(values), places = list(place(a), place(b)))
}

# The levels that as.factor() gives to distinct values, and the values' codes.
levels_of_int64 <- function(values) {
  values <- on_cpu(values)
  sorted <- sort(values)
  list(levels = as.character(sorted), codes = as.vector(match(values, sorted)))
}

# Sums (in two parts) or extremes by group. `codes` must be on the block's device.
grouped_int64 <- function(y, codes, groups, name) {
  by <- function(v) reduce_by(v, codes, groups, name, FALSE, 0L)
  if (name == "sum") sums_in_two(y, by) else collect_values(by(y))
}
# Sums by group of each column of a matrix, in two parts.
grouped_columns_of_int64 <- function(y, codes, groups) {
  n <- nrow(y)
  sums_in_two(y, function(v) join(lapply(seq_len(ncol(v)), function(j) reduce_by(strided(strip(v), length(v), 1, n,
    start = n * (j - 1)), codes, groups, "sum", FALSE, 0L))))
}

# Merges the extremes by group of two blocks, whose groups have `m` and `n` elements.
extremes_of_both <- function(a, b, m, n, f) {
  a <- on_cpu(a)
  b <- on_cpu(b)
  collect_values(select_by(on_cpu(m == 0), b, select_by(on_cpu(n == 0), a, f(a, b))))
}
