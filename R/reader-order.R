# Order statistics of readers, in two passes. The first keeps values at regular positions of each sorted block. For each
# rank, they give two values that bound its element and have few elements between them. The second pass counts the
# elements not above the lower value, and gathers those between the two (Munro and Paterson, Theoretical Computer
# Science 12, 1980).

# How many positions of a sorted block are kept.
PLACES_OF_BLOCK <- 2048L

# Samples of a block, in order. For a value v, the sum of `not_above` over samples up to v is at most the number of
# elements not above v; the sum of `below` over them is at least the number of elements below the next sample.
sampled_block <- function(block, name, call) {
  block <- block_numbers(block, call)
  check_sortable(block, name, call)
  sorted <- part_sorted(block)
  n <- length(sorted)
  places <- if (n > 0L) unique(round(seq(1, n, length.out = min(n, PLACES_OF_BLOCK)))) else numeric()
  list(n = n, type = typeof(block), values = order_values(sorted, places),
    not_above = diff(c(0, places)), below = if (n > 0L) c(diff(places), 1) else numeric())
}

# Samples that bound the element of each rank: lower <= element <= upper.
bounds_of_ranks <- function(blocks, ranks) {
  if (!length(ranks)) return(list(lower = numeric(), upper = numeric()))
  part <- function(name) unlist(lapply(blocks, `[[`, name))
  values <- part("values")
  at <- order(values)
  values <- values[at]
  last <- base::which(!duplicated(values, fromLast = TRUE))
  not_above <- cumsum(part("not_above")[at])[last]
  below <- c(0, cumsum(part("below")[at])[last])[seq_along(last)]
  values <- values[last]
  # `upper`: the first sample that enough elements are not above; `lower`: the last that few enough elements are below
  list(upper = values[findInterval(ranks, not_above, left.open = TRUE) + 1L],
    lower = values[findInterval(ranks, below, left.open = TRUE)])
}

# The elements whose ranks `ranks(known)` returns, where `known` is the number of elements that are not missing:
# list(values, known, type).
reader_at_ranks <- function(x, ranks, name, call) {
  if (x$frame) refuse_reader(name, call, "Only matrices and vectors are supported.")
  check_sortable(no_elements(x), name, call)
  blocks <- over_blocks(x, function(block) sampled_block(block, name, call), call = call)
  known <- sum(vapply(blocks, function(block) as.double(block$n), 1))
  types <- vapply(blocks, `[[`, "", "type")
  type <- c("logical", "integer", "double")[max(1L, match(types, c("logical", "integer", "double")))]
  if (!length(blocks)) type <- typeof(no_elements(x))
  wanted <- if (known > 0) ranks(known) else numeric()
  value <- identity
  if (is_int64_reader(x)) {
    coded <- coded_int64(lapply(blocks, `[[`, "values"))
    value <- coded$value
    blocks <- Map(function(block, codes) replace(block, "values", list(codes)), blocks, coded$codes)
  }
  bounds <- bounds_of_ranks(blocks, wanted)
  values <- lapply(bounds$lower, value)
  open <- base::which(bounds$lower < bounds$upper)
  if (length(open)) {
    pairs <- unique(data.frame(lower = bounds$lower[open], upper = bounds$upper[open]))
    counted <- over_blocks(x, function(block) {
      y <- strip(block_numbers(block, call))
      if (is.logical(y)) y <- y + 0L
      whole <- is_int64(y)
      limit <- function(code) if (whole) as_gpu(value(code), device = gpu_device(y)) else code
      Map(function(lower, upper) {
        lower <- limit(lower)
        inside <- y[which(y > lower & y < limit(upper))]
        list(not_above = as.double(sum(widen_for_sum(y <= lower), na.rm = TRUE)),
          inside = if (whole) collect_values(inside) else as.double(collect(inside)))
      }, pairs$lower, pairs$upper)
    }, call = call)
    for (k in seq_len(nrow(pairs))) {
      of_pair <- lapply(counted, `[[`, k)
      not_above <- sum(vapply(of_pair, `[[`, 1, "not_above"))
      inside <- lapply(of_pair, `[[`, "inside")
      inside <- if (is_int64_reader(x)) sort(do.call(joined_on_cpu, inside)) else sort(unlist(inside))
      for (j in open[bounds$lower[open] == pairs$lower[k] & bounds$upper[open] == pairs$upper[k]]) {
        after <- wanted[j] - not_above
        values[[j]] <- if (after <= 0) value(pairs$lower[k]) else if (after <= length(inside)) inside[after] else
          value(pairs$upper[k])
      }
    }
  }
  # as doubles: NA, with a warning, where a double cannot hold a 64-bit integer
  values <- if (is_int64_reader(x) && length(values)) as.vector(do.call(joined_on_cpu, values)) else
    as.numeric(unlist(values))
  list(values = if (type == "double") values else as.integer(values), known = known, type = type)
}

# Elements of a sorted array at positions, as `integer64` if they are 64-bit integers.
order_values <- function(sorted, places) if (is_int64(sorted)) collect_values(sorted[places]) else if (length(places))
  stat_at(sorted, places) else numeric()

#' @rdname reader-methods
#' @export
median.gpu_reader <- function(x, na.rm = FALSE, ...) {
  found <- reader_at_ranks(x, median_ranks, "median", environment())
  median_found(found, length(x), found$type, na.rm)
}

#' @rdname reader-methods
#' @export
quantile.gpu_reader <- function(x, probs = seq(0, 1, 0.25), na.rm = FALSE, names = TRUE, type = 7, ...) {
  call <- environment()
  quantiles_by_ranks(function(ranks) reader_at_ranks(x, ranks, "quantile", call), length(x), probs, na.rm, names, type,
    ..., call = call)
}
