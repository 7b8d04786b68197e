# Medians, quantiles and ranks of groups. One sort orders the elements by group and, within each group, by value.

# The number of elements in each group of grouping(), on the host.
group_sizes <- function(by) {
  groups <- prod(by$extent)
  .Call(C_collect, .Call(C_count_bins, by$codes, 1, groups))[seq_len(groups)]
}

# `at`: the positions of the elements by group and value, elements without a group last. `counts`: the sizes of the
# groups. `before`: the number of elements before each group.
ordered_groups <- function(x, by) {
  counts <- group_sizes(by)
  at <- order_arrays(list(by$codes, x), TRUE, FALSE, "radix")
  list(at = at, counts = counts, before = cumsum(c(0, counts))[seq_along(counts)])
}

# The median of each group, NA for empty groups.
median_by <- function(x, by) {
  groups <- ordered_groups(x, by)
  n <- groups$counts
  sorted <- as_float64(strip(x)[groups$at])
  some <- n > 0
  at <- function(place) sorted[base::ifelse(some, groups$before + place, 1)]
  low <- at((n + 1) %/% 2)
  out <- low
  if (any(n %% 2 == 0)) out <- select_by(as_gpu(n %% 2 == 1, device = gpu_device(x)), low, (low + at(n %/% 2 + 1)) / 2)
  if (!all(some)) out <- select_by(as_gpu(some, device = gpu_device(x)), out, NA_real_)
  out <- if (is_narrow(x)) gpu_cast(out, gpu_dtype(x)) else out
  dim(out) <- by$extent
  dimnames(out) <- by$levels
  out
}

# A list of the quantiles of each group as ordinary vectors, like tapply(). Only the order statistics that base R's
# formula uses are copied to the host.
quantiles_by <- function(x, by, probs = seq(0, 1, 0.25)) {
  groups <- ordered_groups(x, by)
  n <- groups$counts
  some <- base::which(n > 0)
  index <- outer(n[some] - 1, probs) + 1
  read <- c(floor(index), ceiling(index)) + groups$before[some]
  known <- as.vector(collect(as_float64(strip(x)[groups$at[read]])))
  dim(known) <- c(length(some), length(probs), 2L)
  labels <- names(stats::quantile(c(0, 1), probs))
  out <- vector("list", length(n))
  for (k in seq_along(some)) {
    places <- c(floor(index[k, ]), ceiling(index[k, ]))
    values <- c(known[k, , 1L], known[k, , 2L])
    found <- quantile_formula(function(at) values[base::match(at, places)], n[some[k]], probs, 7)
    out[[some[k]]] <- stats::setNames(found, labels)
  }
  dim(out) <- by$extent
  dimnames(out) <- by$levels
  out
}

# The rank of each element in its group; ties get their mean rank.
rank_by <- function(x, by) {
  groups <- ordered_groups(x, by)
  device <- gpu_device(x)
  n <- length(x)
  codes <- by$codes[groups$at]
  sorted <- strip(x)[groups$at]
  end <- gpu_full(TRUE, 1L, device = device)
  differs <- if (n > 1L) list(sorted[-1L] != sorted[-n] | codes[-1L] != codes[-n])
  first <- join(c(list(end), differs))
  middle <- (which(first) + which(join(c(differs, list(end))))) / 2
  y <- gpu_full(0, n, device = device)
  y[groups$at] <- middle[cumsum(first)] - as_gpu(groups$before, device = device)[codes]
  y
}
