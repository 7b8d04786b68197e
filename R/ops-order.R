# Sorting, ranks, quantiles and positions of TRUE.

#' Sorting, ranking and quantiles
#'
#' `which()`, `sort()`, `order()`, `rank()`, `quantile()`, `median()` and `is.unsorted()` of arrays, computed on their
#' device. Missing values and ties are treated as in base R; sorting is stable. `quantile()` and `median()` fetch only
#' the values that they need; `mad()`, `IQR()` and `stats::fivenum()` are based on them. On the cpu device base R
#' computes the order by several keys that are not integers.
#'
#' `which()`, and the functions that return R numbers, wait for the device. The following are computed on the host:
#' sorting of complex numbers; `sort(partial = )`, whose result is partially sorted as base R's is;
#' `sort(index.return = TRUE)`; ranks with random ties; and `order()` with a key that is neither a number nor a factor.
#' A call of `order()` or `rank()` inside another package reaches base R's function, which reads the array on the host;
#' there `rank()` compares the elements pair by pair, which is slow: pass it `as.vector(x)`.
#' @param x An array.
#' @param decreasing,na.last As in [base::sort()], [base::order()] and [base::rank()].
#' @param method As in [base::order()]; the device has only one method.
#' @param ties.method,strictly As in [base::rank()] and [base::is.unsorted()].
#' @param probs,na.rm,names,type As in [stats::quantile()]; types 1 to 9.
#' @param arr.ind,useNames As in [stats::IQR()] and [base::which()].
#' @param ... For `order()` the keys, arrays or vectors. Otherwise further arguments.
#' @returns `sort()`, `order()`, `rank()` and `which()` return arrays on the same device; `which(arr.ind = TRUE)` of a
#'   matrix returns an ordinary matrix. The other functions return R numbers.
#' @section Errors:
#' Base R's errors and messages; `verdigris_error_memory`.
#' @examples
#' x <- as_gpu(c(3, 1, 2), device = "cpu")
#' sort(x)
#' x[order(x, decreasing = TRUE)]
#' rank(c(x, 3))
#' quantile(x, 0.5)
#' median(x)
#' which(x > 1)
#' @aliases which rank
#' @name sorting
NULL

setGeneric("which")

#' @rdname sorting
#' @export
setMethod("which", "gpu_array", function(x, arr.ind = FALSE, useNames = TRUE) {
  if (!is.logical(x)) stop_as_base("argument to 'which' is not logical")
  out <- .Call(C_which, x)
  if (isTRUE(arr.ind) && !is.null(dim(x)))
    return(base::arrayInd(collect(out), dim(x), dimnames(x), useNames = useNames))
  # As in base R, `useNames` only affects `arr.ind`.
  if (!is.null(names(x))) names(out) <- names(x)[collect(out)]
  out
})

#' @rdname sorting
#' @export
sort.gpu_array <- function(x, decreasing = FALSE, na.last = NA, ...) {
  more <- list(...)
  if (length(dim(x)) == 1L && length(more) == length(names(more)) && all(names(more) %in% "method"))
    return(sort_axis(x, c(list(decreasing = decreasing, na.last = na.last), more)))
  plain <- is_flag(decreasing) && is.logical(na.last) && length(na.last) == 1L &&
    (is.null(more$method) || is_choice(more$method, c("auto", "shell", "quick", "radix")))
  if (length(setdiff(names(more), "method")) || length(more) != length(names(more)) || is.complex(x) || !plain) {
    return(hosted(sort, c(list(x, decreasing = decreasing, na.last = na.last), more), exact = TRUE))
  }
  # As in base R, methods for `[` of classes in front of the array's (a user's, Date) decide what the result keeps.
  if (is.null(dim(x)) && !is.null(.Call(C_front_classes, oldClass(x))))
    return(x[order(x, na.last = na.last, decreasing = decreasing)])
  n <- length(x)
  named <- !is.null(names(x))
  found <- .Call(C_sort, x, isTRUE(decreasing), named)
  out <- found[[1L]]
  missing <- missing_last(out)
  if (named) names(out) <- names(x)[collect(found[[2L]])]
  # The device puts missing values last.
  if (missing == 0L || isTRUE(na.last)) return(out)
  if (is.na(na.last)) return(out[seq_len(n - missing)])
  out[c(n - missing + seq_len(missing), seq_len(n - missing))]
}

# sort() of a one-dimensional array. Whether the result keeps its dimension depends on the type, the method, for
# integers on whether they are sorted already, and on the version of R: base R sorts an array of two elements to find
# out.
sort_axis <- function(x, args) {
  names <- names(x)
  first <- !(is.integer(x) && isFALSE(is.unsorted(x)))
  like <- base::array(as.vector(c(first, FALSE), typeof(x)), 2L, if (!is.null(names)) list(c("a", "b")))
  kept <- !is.null(dim(call_base(base::sort, c(list(like), args))))
  at <- order(x, na.last = args$na.last, decreasing = args$decreasing)
  if (kept) return(x[at])
  out <- strip(x)[at]
  if (!is.null(names)) names(out) <- names[collect(at)]
  out
}

# The number of missing elements of a sorted array. The device puts them last, so the last element tells whether there
# are any.
missing_last <- function(sorted) {
  n <- length(sorted)
  if (n > 0L && anyNA(sorted[n])) sum(is.na(sorted)) else 0L
}

#' @rdname sorting
#' @export
order <- interposed("order", "...", order_arrays(list(...), na.last, decreasing, if (missing(method)) "auto" else
  method), class = c("gpu_array", "gpu_split", "gpu_reader"))

order_arrays <- function(keys, na.last, decreasing, method) {
  keys <- unname(keys)
  if (any(vapply(keys, is_split, NA))) return(order_of_splits(keys, na.last, decreasing, method, parent.frame()))
  if (any(vapply(keys, is_reader, NA))) return(reader_order(keys, na.last, decreasing, method, parent.frame()))
  usable <- vapply(keys, function(k) (is_number(k) || is.factor(k)) && !is.complex(k), NA)
  n <- length(keys[[1L]])
  plain <- length(na.last) == 1L && is.logical(na.last) && is.logical(decreasing) && !anyNA(decreasing) &&
    length(decreasing) %in% c(1L, length(keys)) &&
    (is_choice(method, c("auto", "shell", "radix")) || is.null(method) ||
      identical(method, c("auto", "shell", "radix")))
  if (!all(usable) || any(lengths(keys) != n) || !plain || n == 0L) {
    host <- lapply(keys, function(k) if (is_gpu(k)) xtfrm(k) else k)
    return(call_base(base::order, c(host, list(na.last = na.last, decreasing = decreasing, method = method))))
  }
  device <- device_of(keys)
  # Base R is faster than the cpu device for several keys of which one is double; for a single key, and for integers,
  # the device is faster.
  if (length(keys) > 1L && prefers_host(Find(is_gpu, keys)) && any(vapply(keys, is.double, NA))) {
    host <- lapply(keys, function(k) if (is.factor(k)) as.integer(k) else as.vector(if (!is_gpu(k)) k else
      if (is.integer(k)) collect(k) else
        ordinary_copy(if (gpu_dtype(k) == "int64") xtfrm(k) else k, silent = TRUE)))
    return(.Call(C_result,
      call_base(base::order, c(host, list(na.last = na.last, decreasing = decreasing, method = method))), NULL, device))
  }
  keys <- lapply(keys, function(k) if (is_gpu(k)) strip(k) else as_gpu(if (is.factor(k)) as.integer(k) else
    as.vector(k), device = device))
  decreasing <- rep_len(decreasing, length(keys))
  # Sorts by the last key first: each pass is stable, so it keeps the order of earlier passes for equal elements.
  at <- NULL
  for (k in rev(seq_along(keys))) {
    found <- .Call(C_order, if (is.null(at)) keys[[k]] else keys[[k]][at], decreasing[k])
    at <- if (is.null(at)) found else at[found]
  }
  if (isTRUE(na.last) || length(keys) == 1L && !anyNA(keys[[1L]])) return(at)
  missing <- Reduce(`|`, lapply(keys, is.na))
  if (is.na(na.last)) return(at[!missing[at]])
  if (length(keys) == 1L) {
    k <- sum(missing)
    return(if (k == n) at else join(list(at[(n - k + 1L):n], at[seq_len(n - k)])))
  }
  # With several keys each has its own missing elements first. Ranks with 0 for missing elements sort accordingly.
  first <- lapply(Map(order_first, keys, decreasing), strip)
  order_arrays(first, TRUE, FALSE, method)
}

# Ranks of the elements, equal for equal elements. Missing elements get 0.
order_first <- function(key, decreasing) {
  y <- ranked(equal_runs(key), "min", TRUE)
  select_by(is.na(key), 0L, if (decreasing) -y + length(y) + 1L else y)
}

# The known elements of an array, sorted: `at`, their positions; `first` and `last`, whether each is the first or last
# of a run of equal elements; `missing`, the positions of missing elements.
equal_runs <- function(x) {
  x <- strip(x)
  n <- length(x)
  found <- .Call(C_sort, x, FALSE, TRUE)
  m <- n - missing_last(found[[1L]])
  sorted <- if (m == n) found[[1L]] else found[[1L]][seq_len(m)]
  at <- if (m == n) found[[2L]] else found[[2L]][seq_len(m)]
  differs <- differing(sorted)
  end <- list(gpu_full(TRUE, 1L, device = gpu_device(x)))
  list(n = n, known = m, sorted = sorted, at = at, missing = if (m < n) found[[2L]][(m + 1L):n],
    first = if (m > 0L) join(c(end, differs)), last = if (m > 0L) join(c(differs, end)))
}

# Whether each element, from the second on, differs from the one before it: a list of one array, or an empty list
# (NULL).
differing <- function(sorted) {
  n <- length(sorted)
  if (n > 1L) list(sorted[-1L] != sorted[-n])
}

# Ranks of the elements whose equal_runs() are `r`. Missing elements are ranked last, in their order, or with `keep`
# stay missing.
ranked <- function(r, ties, keep) {
  m <- r$known
  device <- gpu_device(r$sorted)
  missing <- if (ties == "average") NA_real_ else NA_integer_
  if (m == 0L) return(if (keep || r$n == 0L) gpu_full(missing, r$n, device = device) else gpu_seq(1L, by = 1L,
    length.out = r$n, device = device))
  place <- gpu_seq(1L, by = 1L, length.out = m, device = device)
  if (ties != "first") {
    start <- which(r$first)
    end <- which(r$last)
    of <- switch(ties, min = start, max = end, average = (start + end) / 2, last = start + end)
    place <- if (ties == "last") of[cumsum(r$first)] - place else of[cumsum(r$first)]
  }
  y <- gpu_full(missing, r$n, device = device)
  y[r$at] <- place
  if (!keep && m < r$n) y[r$missing] <- (m + 1L):r$n
  y
}

setGeneric("rank")
#' @rdname sorting
#' @export
setMethod("rank", "gpu_array", `body<-`(base::rank, envir = topenv(),
  quote(rank_array(x, na.last, match.arg(ties.method)))))

rank_array <- function(x, na.last, ties) {
  names <- names(x)
  x <- strip(x)
  runs <- if (!is.complex(x) && ties != "random" && length(x) && length(na.last) == 1L) equal_runs(x)
  if (is.null(runs) || runs$known == 0L) {
    y <- xtfrm(x)
    return(call_base(base::rank, list(stats::setNames(as.vector(y), names), na.last = na.last, ties.method = ties)))
  }
  keep <- identical(na.last, "keep") || is.na(na.last)
  y <- ranked(runs, ties, keep)
  known <- runs$known
  if (known < length(x)) {
    missing <- is.na(x)
    if (!keep && !isTRUE(as.logical(na.last))) {
      y <- select_by(missing, y - known, y + (length(x) - known))
      if (ties != "average") y <- gpu_cast(y, "int32")
    }
    if (is.na(na.last)) {
      y <- y[!missing]
      names <- names[!collect(missing)]
    }
  }
  if (!is.null(names)) names(y) <- names
  y
}

#' @rdname sorting
#' @export
is.unsorted <- interposed("is.unsorted", "x", unsorted_array(x, na.rm, strictly), class = c("gpu_array", "gpu_reader",
  "gpu_split"))

# Number of elements that are checked first.
SOON <- 256L

unsorted_array <- function(x, na.rm, strictly) {
  if (is_remote(x)) return(remote_unsorted(x, na.rm, strictly, parent.frame()))
  if (is.complex(x) || !is_switch(na.rm) || !is_flag(strictly))
    return(call_base(base::is.unsorted, list(as.vector(ordinary_copy(x)), na.rm, strictly)))
  x <- strip(x)
  n <- length(x)
  if (n <= 1L) return(FALSE)
  in_order <- function(x, n) isTRUE(all(if (strictly) x[-1L] > x[-n] else x[-1L] >= x[-n]))
  # Most unsorted vectors are unsorted within the first elements. A vector in order has no missing elements.
  soon <- n > 2 * SOON && !isFALSE(base::is.unsorted(as.vector(x[seq_len(SOON)]), strictly = strictly))
  if (!soon && in_order(x, n)) return(FALSE)
  if (!anyNA(x)) return(TRUE)
  if (!na.rm) return(NA)
  x <- x[!is.na(x)]
  n <- length(x)
  n > 1L && !in_order(x, n)
}

# The elements at some ranks, and `known`, the number of known elements. `ranks` is a function of that number. The
# device finds a few elements without sorting all.
at_ranks <- function(x, ranks) {
  n <- length(x)
  found <- if (n > 0L) .Call(C_ranks, x, ranks(n))
  # The number of missing elements is known now: repeat with the right ranks.
  if (length(found) && found[[2L]] > 0 && found[[2L]] < n) found <- .Call(C_ranks, x, ranks(n - found[[2L]]))
  if (length(found)) return(list(values = as.vector(found[[1L]]), known = n - found[[2L]]))
  sorted <- .Call(C_sort, x, FALSE, FALSE)[[1L]]
  known <- n - missing_last(sorted)
  list(values = if (known > 0) as.vector(sorted[ranks(known)]), known = known)
}

# The ranks whose mean is the median. median_found() computes the median of splits and readers from the elements at
# them.
median_ranks <- function(known) unique(c((known + 1) %/% 2, known %/% 2 + 1))
median_found <- function(found, n, type, na.rm) {
  if (found$known == 0 || found$known < n && !isTRUE(as.logical(na.rm))) return(vector(type, 1L)[NA_integer_])
  if (type == "logical") return(stats::median(as.logical(found$values)))
  if (length(found$values) == 1L) found$values else mean(found$values)
}

#' @rdname sorting
#' @importFrom stats median
#' @export
median.gpu_array <- function(x, na.rm = FALSE, ...) {
  # Base R names the missing median of a named vector without elements.
  if (length(x) == 0L) return(stats::median(host_copy(x, silent = TRUE), na.rm = na.rm, ...))
  if (is.complex(x) || !is_switch(na.rm)) return(stats::median(as.vector(ordinary_copy(x)), na.rm = na.rm, ...))
  x <- strip(x)
  found <- at_ranks(x, median_ranks)
  if (found$known == 0 || found$known < length(x) && !na.rm) return(as.vector(x[NA_integer_]))
  middle <- found$values
  if (length(middle) == 1L) middle else if (is.logical(x)) stats::median(middle) else mean(middle)
}

#' @rdname sorting
#' @export
IQR <- interposed("IQR", "x", iqr_array(x, na.rm, type), home = "stats", class = c(ON_DEVICE, "gpu_split",
  "gpu_reader"))

iqr_array <- function(x, na.rm, type) {
  if (is_remote(x)) return(remote_iqr(x, na.rm, type))
  if (!is_switch(na.rm))
    return(call_base(stats::IQR, list(if (is_sparse(x)) as.matrix(x) else host_copy(x), na.rm, type)))
  x <- if (is_sparse(x)) with_stored(x, stored_numbers(x)) else as_doubles(strip(x))
  diff(quantile(x, c(0.25, 0.75), na.rm = na.rm, names = FALSE, type = type))
}

#' @rdname sorting
#' @usage NULL
#' @export
mad <- interposed("mad", "x", mad_array(x, if (!missing(center)) list(center = center),
  list(constant = constant, na.rm = na.rm, low = low, high = high)), home = "stats", class = c("gpu_array", "gpu_split",
    "gpu_reader"))

# The deviations of float32 from its median are computed in float64, which represents both.
mad_array <- function(x, center, args) {
  if (is_remote(x)) return(do.call(remote_mad, c(list(x, center[[1L]]), args, list(call = parent.frame()))))
  if (!is.null(center)) center[[1L]] <- if (is_number(center[[1L]])) as.vector(cast_like(center[[1L]], x)) else
    center[[1L]]
  call_base(stats::mad, c(list(if (is_narrow(x)) as_float64(x) else x), center, args))
}

#' @rdname sorting
#' @export
quantile.gpu_array <- function(x, probs = seq(0, 1, 0.25), na.rm = FALSE, names = TRUE, type = 7, ...) {
  if (is.complex(x) || !is_real(probs) || !is_switch(na.rm) || !is_switch(names) || !is_quantile_type(type) ||
      "fuzz" %in% names(list(...))) {
    return(stats::quantile(as.vector(host_copy(x)), host_copy(probs), na.rm = na.rm, names = names, type = type, ...))
  }
  probs <- as.vector(probs)
  x <- as_flat(x)
  if (length(x) == 0L || !length(probs) || anyNA(probs) || any(probs < 0 | probs > 1)) {
    if (!na.rm && anyNA(x)) stop_as_base("missing values and NaN's not allowed if 'na.rm' is FALSE")
    return(stats::quantile(as.vector(host_copy(x)), probs, na.rm = na.rm, names = names, type = type, ...))
  }
  # Only the order statistics that base R's formula uses are fetched.
  found <- at_ranks(x, function(n) quantile_ranks(n, probs))
  if (!na.rm && found$known < length(x)) stop_as_base("missing values and NaN's not allowed if 'na.rm' is FALSE")
  if (found$known == 0) return(stats::quantile(as.vector(x), probs, na.rm = TRUE, names = names, type = type,
    ...))
  quantiles_found(found, probs, names, type, ...)
}

is_quantile_type <- function(type) is.numeric(type) && length(type) == 1L && type %in% 1:9

# For data whose elements are not all here: base R's error for `type`, which older versions do not check.
check_quantile_arguments <- function(type, ..., call) {
  if (!is_quantile_type(type)) stats::quantile(c(0, 1), type = type)
  if ("fuzz" %in% names(list(...))) stop_verdigris("argument",
    "`fuzz` of `quantile()` has its default for split, sparse and streamed data.",
    "Leave it out, or collect() the elements first.", call = call)
}

# The ranks among n elements that the formulas of all types use.
quantile_ranks <- function(n, probs) {
  probs <- probs[!is.na(probs)]
  around <- 1 + (n - 1) * probs
  ranks <- pmin.int(pmax.int(c(floor(around) - 2, floor(around) - 1, floor(around), floor(around) + 1,
    floor(around) + 2, 1, n), 1), n)
  ranks <- ranks[base::order(ranks)]
  ranks[!base::duplicated(ranks)]
}

# Quantiles from the order statistics that `at_ranks()` has found; NA where a probability is.
quantiles_found <- function(found, probs, names, type, ...) {
  n <- found$known
  known <- found$values
  if (n == 0) return(stats::quantile(known[0L], probs, names = names, type = type, ...))
  reach <- quantile_ranks(n, probs)
  at <- function(k) known[match(k, reach)]
  value <- rep(known[NA_integer_], length(probs))
  given <- base::which(!is.na(probs))
  value[given] <- quantile_formula(at, n, probs[given], type)
  # R before 4.6 returns integers for some types.
  if (!is.double(value) && is.double(stats::quantile(vector(typeof(known), 1L), c(0.5, if (anyNA(probs)) NA),
    names = FALSE, type = type))) value <- as.double(value)
  if (names && length(probs)) names(value) <- if (...length()) names(stats::quantile(c(0, 1), probs, ...)) else
    quantile_names(probs)
  value
}

# The names that quantile() gives, remembered for the last probabilities: programs ask for the same ones many times.
quantile_names <- local({
  last <- found <- NULL
  function(probs) {
    if (!identical(probs, last)) {
      found <<- names(stats::quantile(c(0, 1), probs))
      last <<- probs
    }
    found
  }
})

# quantile() of `n` elements that `find` finds by their ranks, as at_ranks() does.
quantiles_by_ranks <- function(find, n, probs, na.rm, names, type, ..., call) {
  if (is_gpu(probs)) probs <- collect(probs)
  check_quantile_arguments(type, ..., call = call)
  # base R raises its errors, and computes the result of no probabilities
  fuzz <- 100 * .Machine$double.eps
  if (!is.numeric(probs) || any(probs < -fuzz | probs > 1 + fuzz, na.rm = TRUE) || !length(probs))
    return(stats::quantile(numeric(), probs, na.rm = na.rm, names = names, type = type, ...))
  probs <- pmax(0, pmin(1, probs))
  found <- find(function(known) quantile_ranks(known, probs))
  if (found$known < n && !isTRUE(as.logical(na.rm))) stop_as_base(gettext(
    "missing values and NaN's not allowed if 'na.rm' is FALSE", domain = "R-stats"), call)
  quantiles_found(found, probs, names, type, ...)
}

# Whether this R's quantile() has an argument `fuzz`, which is relative to positions. Before, fuzz was absolute.
RELATIVE_FUZZ <- "fuzz" %in% names(formals(utils::getS3method("quantile", "default")))

# Quantiles by Hyndman and Fan (1996), with base R's fuzz: positions in 1..n, then a weighted mean of two order
# statistics. `at` is a function that returns the elements at ranks.
quantile_formula <- function(at, n, probs, type) {
  fuzz <- if (type == 7 || type == 3 && !RELATIVE_FUZZ) 0 else 4 * .Machine$double.eps
  below <- function(position) floor(if (RELATIVE_FUZZ) position * (1 + fuzz) else position + fuzz)
  if (type == 7) {
    index <- 1 + (n - 1) * probs
    low <- below(index)
    high <- ceiling(index)
    value <- at(low)
    weight <- index - low
    other <- which(index > low & at(high) != value)
    value[other] <- (1 - weight[other]) * value[other] + weight[other] * at(high)[other]
    return(value)
  }
  if (type <= 3) {
    nppm <- if (type == 3) n * probs - 0.5 else n * probs
    j <- below(nppm)
    weight <- switch(type, nppm > j, ((nppm > j) + 1) / 2, (nppm != j) | (j %% 2L == 1L))
  } else {
    a <- switch(type - 3, 0, 0.5, 0, 1, 1 / 3, 3 / 8)
    b <- if (type %in% c(5, 6, 8, 9)) switch(type - 4, 0.5, 0, NA, 1 / 3, 3 / 8) else 1
    nppm <- a + probs * (n + 1 - a - b)
    j <- below(nppm)
    weight <- nppm - j
    weight[abs(weight) < fuzz] <- 0
  }
  low <- at(pmin.int(pmax.int(j, 1), n))
  high <- at(pmin.int(pmax.int(j + 1, 1), n))
  value <- low
  other <- which(weight != 0 & low != high)
  value[weight == 1] <- high[weight == 1]
  mixed <- setdiff(other, which(weight == 1))
  if (length(mixed)) value[mixed] <- (1 - weight[mixed]) * low[mixed] + weight[mixed] * high[mixed]
  value
}
