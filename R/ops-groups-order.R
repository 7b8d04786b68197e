# Medians, quantiles and ranks of groups: one sort brings the elements into the order of their groups and, within each,
# of their values.

# How many elements each group of grouping() has, on the host.
group_sizes <- function(by) {
  groups <- prod(by$extent)
  .Call(C_collect, .Call(C_count_bins, by$codes, 1, groups))[seq_len(groups)]
}

# The places of the elements in that order, those of no group last; how many each group has, and how many stand before
# its first one.
ordered_groups <- function(x, by) {
  counts <- group_sizes(by)
  at <- order_arrays(list(by$codes, x), TRUE, FALSE, "radix")
  list(at = at, counts = counts, before = cumsum(c(0, counts))[seq_along(counts)])
}

# One number of each group, NA where there are no elements.
median_by <- function(x, by) {
  groups <- ordered_groups(x, by)
  n <- groups$counts
  sorted <- as_float64(strip(x)[groups$at])
  some <- n > 0
  at <- function(place) sorted[base::ifelse(some, groups$before + place, 1)]
  low <- at((n + 1) %/% 2)
  out <- low
  if (any(n %% 2 == 0)) out <- ifelse(as_gpu(n %% 2 == 1, device = gpu_device(x)), low, (low + at(n %/% 2 + 1)) / 2)
  if (!all(some)) out <- ifelse(as_gpu(some, device = gpu_device(x)), out, NA_real_)
  out <- if (is_narrow(x)) gpu_cast(out, gpu_dtype(x)) else out
  dim(out) <- by$extent
  dimnames(out) <- by$levels
  out
}

# The quantiles of each group, an ordinary vector for each: a list, as tapply() has it. Only the order statistics that
# base R's formula reads come to the host.
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

# The rank of each element in its group, the mean of those of equal ones.
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
