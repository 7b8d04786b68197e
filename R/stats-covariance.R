# Statistics of several variables: covariances, correlations, histograms, distances.

#' Covariances and correlations
#'
#' [stats::var()], [stats::cov()] and [stats::cor()] of arrays: centred and multiplied on the device, for `use` of
#' `"everything"`, `"all.obs"`, `"complete.obs"` and `"na.or.complete"` and for Pearson's and Spearman's methods;
#' `cov.wt()` uses base R's own code. All types are computed in float64. Kendall's method and `"pairwise.complete.obs"`
#' are computed on the host; on the cpu device everything is computed by base R.
#' @param x,y Matrices, or vectors of the same length.
#' @param use,method As in [stats::cor()].
#' @returns An ordinary number or matrix, as in base R. The call waits for the device.
#' @section Errors:
#' Base R's errors and messages; the errors of [matmult].
#' @examples
#' m <- as_gpu(cbind(a = c(1, 2, 4), b = c(3, 1, 2)), device = "cpu")
#' cov(m)
#' cor(m, method = "spearman")
#' @name covariance
NULL

#' @rdname covariance
#' @export
cov <- interposed("cov", c("x", "y"), covariance(x, y, use, match.arg(method), FALSE), home = "stats",
  class = c(ON_DEVICE, "gpu_split", "gpu_reader"), frames = TRUE)
#' @rdname covariance
#' @export
cor <- interposed("cor", c("x", "y"), covariance(x, y, use, match.arg(method), TRUE), home = "stats",
  class = c(ON_DEVICE, "gpu_split", "gpu_reader"), frames = TRUE)

#' @rdname covariance
#' @usage NULL
#' @export cov.wt
cov.wt <- interposed("cov.wt", "x", with_float64(stats::cov.wt, environment()), home = "stats")

# Calls f with the arguments of the interposed function's call whose frame this is. Narrow arrays become float64.
with_float64 <- function(f, frame) {
  given <- Filter(function(name) !eval(call("missing", as.name(name)), frame), names(formals(f)))
  call_base(f, lapply(mget(given, envir = frame), function(v) if (is_gpu(v) && is_narrow(v)) as_float64(v) else v))
}

covariance <- function(x, y, use, method, correlation) {
  if (is_split(x) || is_split(y)) return(split_covariance(x, y, use, method, correlation, parent.frame()))
  if (is_reader(x) || is_reader(y)) return(reader_covariance(x, y, use, method, correlation, parent.frame()))
  x <- dense_numbers(without_frame(x))
  y <- dense_numbers(without_frame(y))
  f <- if (correlation) stats::cor else stats::cov
  on_base <- function() call_base(f, list(host_frame(x), host_frame(y), use = use, method = method))
  x <- if (is.data.frame(x)) as.matrix(collect(x)) else x
  y <- if (is.data.frame(y)) as.matrix(collect(y)) else y
  parts <- c(list(x), if (!is.null(y)) list(y))
  usable <- all(vapply(parts, function(p) is_number(p) && !is.complex(p) && length(dim(p)) %in% c(0L, 2L) &&
    length(p) > 0L, NA))
  like <- Find(is_gpu, parts)
  if (!is.character(use) || length(use) != 1L) return(on_base())
  use <- c("all.obs", "complete.obs", "pairwise.complete.obs", "everything",
    "na.or.complete")[pmatch(use, c("all.obs", "complete.obs", "pairwise.complete.obs", "everything",
    "na.or.complete"))]
  if (!usable || is.na(use) || use == "pairwise.complete.obs" || method == "kendall" || prefers_host(like) ||
    is.null(y) && is.null(dim(x)) ||
        !is.null(y) && NROW(x) != NROW(y) || NROW(x) < 2L) {
    return(on_base())
  }
  device <- gpu_device(like)
  float64_of <- function(p) as_float64(strip(if (is_gpu(p)) p else as_gpu(p, device = device)))
  table_of <- function(p) {
    q <- float64_of(p)
    dim(q) <- c(NROW(p), NCOL(p))
    q
  }
  if (use == "everything" && method == "pearson" && !is.null(y) && is.null(dim(x)) && is.null(dim(y))) {
    found <- of_vectors(float64_of(x), float64_of(y), correlation)
    # NA: the general code below tells missing values from infinite ones, and warns
    if (!is.na(found)) return(found)
  }
  tables <- lapply(parts, table_of)
  missing <- vapply(tables, anyNA, NA)
  if (any(missing)) {
    if (use == "all.obs") return(on_base())
    if (use != "everything") {
      whole <- Reduce(`&`, lapply(tables, function(p) rowSums(is.na(p)) == 0))
      if (sum(whole) < 2) return(on_base())
      whole <- which(whole)
      tables <- lapply(tables, function(p) p[whole, , drop = FALSE])
    }
  }
  # a column with missing values gives NA, and must not spoil the other columns
  spoilt <- lapply(tables, function(p) as.vector(colSums(is.na(p)) > 0))
  if (method == "spearman")
    tables <- lapply(tables,
    function(p) do.call(cbind, lapply(seq_len(ncol(p)), function(k) rank(p[, k], na.last = "keep"))))
  n <- nrow(tables[[1L]])
  centred <- lapply(tables, function(p) sweep(p, 2L, colMeans(p), check.margin = FALSE))
  second <- centred[[length(centred)]]
  product <- collect(if (ncol(centred[[1L]]) == 1L && ncol(second) == 1L) gpu_full(sum(centred[[1L]] * second), c(1, 1),
    device = "cpu") else t(centred[[1L]]) %*% second)
  out <- product / (n - 1)
  if (correlation) {
    size <- lapply(centred, function(p) sqrt(as.vector(colSums(p * p))))
    flat <- unlist(size)
    out <- product / tcrossprod(size[[1L]], size[[length(size)]])
    none <- lapply(size, function(s) !is.na(s) & s == 0)
    if (any(unlist(none))) {
      warn_as_base("the standard deviation is zero")
      out[none[[1L]], ] <- NA
      out[, none[[length(none)]]] <- NA
    }
    out <- pmin(pmax(out, -1), 1)
  }
  out[spoilt[[1L]], ] <- NA
  out[, spoilt[[length(spoilt)]]] <- NA
  if (correlation && is.null(y)) {
    # base R correlates each column with itself as 1, even where it has missing values
    own <- seq_len(ncol(out))
    out[base::cbind(own, own)] <- 1
  }
  names <- lapply(parts, colnames)
  names <- list(names[[1L]], names[[length(names)]])
  if (is.null(dim(x)) && (is.null(y) || is.null(dim(y)))) return(as.vector(out))
  dimnames(out) <- if (!all(vapply(names, is.null, NA))) names
  out
}

# The covariance or correlation of two vectors in a few passes. NA sends the caller to the general code.
of_vectors <- function(x, y, correlation) {
  x <- x - mean(x)
  y <- y - mean(y)
  product <- sum(x * y)
  if (!correlation) return(product / (length(x) - 1))
  size <- sqrt(sum(x * x)) * sqrt(sum(y * y))
  if (is.na(size) || size == 0) NA_real_ else min(max(product / size, -1), 1)
}

host_frame <- function(x) if (is.data.frame(x)) collect(x) else host_view(x)

#' Histograms
#'
#' [graphics::hist()] of an array: elements are counted per bin on the device, and only the counts are copied to the
#' host. Breaks that are defined by a function, or by the name of a rule other than Sturges', are computed on the host.
#' The arguments are those of [graphics::hist()]; elements that are not finite are ignored.
#' @returns An object of class `histogram`, invisibly if it is drawn. The call waits for the device.
#' @section Errors:
#' Base R's errors and messages.
#' @examples
#' hist(as_gpu(c(1, 2, 2, 3, 5), device = "cpu"), plot = FALSE)$counts
#' @name histogram
NULL

# Base R's hist.default() for arrays and readers. Its enclosure has functions that find the finite elements and count
# them, so that its arguments and conditions are those of the running R.
histogram_on_arrays <- function() {
  f <- utils::getS3method("hist", "default", envir = asNamespace("graphics"))
  host_values <- function(x) as.vector(host_copy(x))
  with_finite <- function(name, f, rule = FALSE) function(x, ...) {
    if (!inherits(x, "gpu_finite")) return(f(if (rule && is_gpu(x)) host_values(x) else x, ...))
    switch(name, length = x$n, range = x$range, nclass.Sturges = ceiling(log2(x$n) + 1),
      refuse_reader("hist", parent.frame(), "`breaks` must be numbers, or \"Sturges\"."))
  }
  environment(f) <- list2env(list(
    is.numeric = function(x) if (is_reader(x)) has_real_numbers(x) else base::is.numeric(x),
    # the finite elements; otherwise `i` selects from ordinary vectors
    "[" = function(x, i, ...) if (is_gpu(x)) as_float64(strip(x)[is.finite(x)]) else if (is_reader(x))
      finite_in_reader(x, parent.frame()) else base::`[`(x, i, ...),
    # the number of elements may be larger than an integer
    as.integer = function(x) if (is.double(x) && length(x) == 1L && !is.na(x) && x > .Machine$integer.max) x else
      base::as.integer(x),
    sort = function(x, ...) base::sort(if (is_gpu(x)) host_values(x) else x, ...),
    length = with_finite("length", base::length), range = with_finite("range", base::range),
    nclass.Sturges = with_finite("nclass.Sturges", grDevices::nclass.Sturges),
    nclass.FD = with_finite("nclass.FD", grDevices::nclass.FD, TRUE),
    nclass.scott = with_finite("nclass.scott", grDevices::nclass.scott, TRUE),
    .breaks_on_host = function(breaks, x, call) if (is_reader(x)) refuse_reader("hist", call,
      "`breaks` must be numbers, or \"Sturges\".") else {
      force(breaks)
      function(x) breaks(if (is_gpu(x)) host_values(x) else x)
    },
    .bin_count = function(.NAME, x, limits, right, include.lowest)
      counts_of_bins(x, limits, right, include.lowest, parent.frame(), function(...) call_theirs(.NAME, ...))
  ), parent = asNamespace("graphics"))
  # R CMD check looks for the routine of each .Call() in this package.
  body(f) <- call("{", quote(if (!missing(breaks) && is.function(breaks)) breaks <- .breaks_on_host(breaks, x,
    environment())), with_other_heads(body(f), ".Call", ".bin_count"))
  f
}

# How many elements each bin has. `theirs` is base R's function: it finds elements outside all bins, from the range.
counts_of_bins <- function(x, limits, right, include.lowest, call, theirs) {
  ends <- if (inherits(x, "gpu_finite")) x$range else if (length(x)) range(x) else numeric()
  found <- theirs(as.double(ends), as.double(limits), right, include.lowest)
  if (sum(found) < 2) return(found)
  bins <- length(limits) - 1L
  as_whole_counts(if (is_gpu(x)) bin_counts(x, limits, bins, include.lowest, right) else
    counts_in_reader(x, limits, bins, include.lowest, right, call))
}
# Counts the elements of each bin.
bin_counts <- function(values, limits, bins, include.lowest, right) {
  code <- count_below(values, limits, right)
  code <- if (include.lowest) pmin(pmax(code, 1L), bins) else code
  as.double(tabulate(gpu_cast(code, "int32"), bins))
}

#' @rdname histogram
#' @importFrom graphics hist
#' @usage NULL
#' @export
hist.gpu_array <- histogram_on_arrays()
#' @rdname reader-methods
#' @usage NULL
#' @export
hist.gpu_reader <- histogram_on_arrays()
