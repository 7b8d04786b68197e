# 64-bit integers of readers. Doubles do not hold all of them, so what is kept from block to block are `integer64`
# vectors, with which arrays on the cpu device compute. A sum is kept as two, of the upper and of the lower 32 bits:
# it overflows only where the whole does.

is_int64_reader <- function(x) identical(x$type, "int64")

# No elements of a reader's type, as an array.
empty_array <- function(x) as_gpu(no_elements(x), dtype = if (is_int64_reader(x)) "int64")

# A copy that stays when the block is gone, and arrays of such.
held <- function(x) collect(strip(x))
on_cpu <- function(x) as_gpu(x, device = "cpu")
joined_on_cpu <- function(...) join(lapply(list(...), on_cpu))
int64_number <- function(value, device) gpu_cast(as_gpu(value, device = device), "int64")

# The codes in `values`, `integer64` vectors: their places among all distinct ones in order. `value()` gives those of a
# code.
coded_int64 <- function(values) {
  distinct <- if (length(values)) sort(unique(do.call(joined_on_cpu, values))) else int64_number(numeric(), "cpu")
  list(codes = lapply(values, function(v) if (length(v)) as.double(as.vector(match(on_cpu(v), distinct))) else numeric()),
    value = function(code) held(distinct[code]))
}

# ---- sums ----------------------------------------------------------------------------------------------------

# The upper and the lower 32 bits of an array's 64-bit integers.
in_two_parts <- function(y) {
  unit <- int64_number(2^32, gpu_device(y))
  high <- y %/% unit
  list(high = high, low = y - high * unit)
}

# `f` adds elements. Of an array of 64-bit integers its sums, as two `integer64` vectors.
sums_in_two <- function(y, f) lapply(in_two_parts(y), function(part) held(f(part)))
plus_in_two <- function(a, b) Map(function(u, v) collect(on_cpu(u) + on_cpu(v)), a, b)

# The sums themselves, an array: NA, with bit64's warning, where one overflows.
sums_of_two <- function(sums, call = NULL) {
  high <- on_cpu(sums$high)
  more <- in_two_parts(on_cpu(sums$low))
  out <- suppressWarnings(gpu_compute(of_two_parts(high + more$high, more$low)))
  if (any(is.na(out) & !is.na(high))) warning(simpleWarning("NAs produced by integer64 overflow", call))
  out
}

# The number of its upper and its lower 32 bits. The product must not overflow where the number does not.
of_two_parts <- function(high, low) {
  unit <- int64_number(2^32, "cpu")
  up <- gpu_cast(high < 0L, "int32")
  (high + up) * unit + (low - up * unit)
}
# The same of numbers that members tell, and what tells them: doubles, which any engine carries.
of_two_doubles <- function(high, low) gpu_compute(of_two_parts(int64_number(high, "cpu"), int64_number(low, "cpu")))
in_two_doubles <- function(y) lapply(in_two_parts(y), as.vector)

# sum(), min(), max() and range(): the value of the array that has the result as its elements, which warns of what a
# double does not hold.
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
    list(missing = anyNA(y), low = held(low(y)), high = held(high(y)))
  }, function(a, b) list(missing = a$missing || b$missing, low = held(low(joined_on_cpu(a$low, b$low))),
    high = held(high(joined_on_cpu(a$high, b$high)))), call = call)
  if (isTRUE(found$missing) && !na.rm) return(f(NA_real_))
  if (!length(found$low)) return(f(numeric()))
  f(switch(name, min = on_cpu(found$low), max = on_cpu(found$high), joined_on_cpu(found$low, found$high)))
}

# colSums() and rowSums(): an `integer64` vector.
margin_of_int64 <- function(x, na.rm, rows, call) {
  f <- if (rows) rowSums else colSums
  block <- function(block) sums_in_two(strip_names(block), function(y) strip(f(y, na.rm = na.rm)))
  margin <- margin_for(x, NULL, NULL, .Call(C_device_name, NULL))
  # of whole columns, column sums are parts of the result, and row sums are added
  apart <- rows == (margin == 1)
  found <- over_blocks(x, block, if (!apart) plus_in_two, margin, call = call)
  if (apart && length(found)) found <- do.call(Map, c(list(function(...) collect(joined_on_cpu(...))), found))
  size <- as.double(x$dim[if (rows) 1L else 2L])
  out <- collect(if (length(found)) sums_of_two(found) else int64_number(numeric(size), "cpu"))
  names(out) <- x$dimnames[[if (rows) 1L else 2L]]
  out
}

# ---- distinct values -----------------------------------------------------------------------------------------

# In the order in which they come first, with the number of elements that have each.
int64_counts <- function(block) {
  x <- strip(block)
  known <- counted(x)
  values <- int64_number(known$values, gpu_device(x))
  counts <- as.double(known$counts)
  missing <- length(x) - sum(counts)
  if (missing > 0) values <- join(list(values, int64_number(NA_real_, gpu_device(x))))
  list(values = held(values), counts = c(counts, if (missing > 0) missing))
}

# As base R's unique() of two, and the places of their elements there.
united_int64 <- function(a, b) {
  values <- unique(joined_on_cpu(a, b))
  place <- function(v) as.vector(match(on_cpu(v), values))
  list(values = held(values), places = list(place(a), place(b)))
}

# The levels that as.factor() has of some values, and their codes.
levels_of_int64 <- function(values) {
  values <- on_cpu(values)
  sorted <- sort(values)
  list(levels = as.character(sorted), codes = as.vector(match(values, sorted)))
}

# The sums, or the least or greatest elements, of groups: `codes` are on the block's device.
grouped_int64 <- function(y, codes, groups, name) {
  by <- function(v) reduce_by(v, codes, groups, name, FALSE, 0L)
  if (name == "sum") sums_in_two(y, by) else held(by(y))
}
# Sums of the columns of a matrix.
grouped_columns_of_int64 <- function(y, codes, groups) {
  n <- nrow(y)
  sums_in_two(y, function(v) join(lapply(seq_len(ncol(v)), function(j) reduce_by(strided(strip(v), length(v), 1, n,
    start = n * (j - 1)), codes, groups, "sum", FALSE, 0L))))
}

# Of two blocks, whose groups have `m` and `n` elements.
extremes_of_both <- function(a, b, m, n, f) {
  a <- on_cpu(a)
  b <- on_cpu(b)
  held(ifelse(on_cpu(m == 0), b, ifelse(on_cpu(n == 0), a, f(a, b))))
}
