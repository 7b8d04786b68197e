# A value does not depend on what computes it: the expression's own kernel, the interpreter with the kernels in the
# package, or the cpu device. Random expressions under random reductions, scans, margins, groups and epilogues, over many
# shapes, compared bit by bit. VERDIGRIS_EXAMPLES=all compares more.

# Expressions of plain arithmetic, which has the same bits in every version of CUDA; some long enough that an element is
# a thread's whole work.
inner_expressions <- list(
  quote(x), quote(x * 3), quote(x - y), quote((x - y)^2), quote(x / (1 + abs(y))), quote(ifelse(x > y, x, -y)),
  quote(sqrt(abs(x)) * y + 1),
  Reduce(function(e, k) bquote(sqrt(abs(.(e)) + .(k / 7)) / (1 + abs(y * .(k)))), 1:14, quote(x))
)
reduced <- list(
  sum = function(v) sum(v), mean = function(v) mean(v), var = function(v) var(v), prod = function(v) prod(v),
  narm = function(v) sum(v, na.rm = TRUE), cumsum = function(v) cumsum(v), cumprod = function(v) cumprod(v),
  grouped = function(v) gpu_group(v, rep_len(c(3L, 1L, 1L, 2L, 5L, 4L, 4L), length(v)), "sum"),
  group_var = function(v) gpu_group(v, rep_len(1:1999, length(v)), "var"),
  group_mean = function(v) gpu_group(v, (seq_along(v) * 7919L) %% 13L, "mean", na.rm = TRUE)
)
by_margin <- list(
  colSums = function(m) colSums(m), rowSums = function(m) rowSums(m), colMeans = function(m) colMeans(m, na.rm = TRUE),
  rowMeans = function(m) rowMeans(m), apply_var = function(m) apply(m, 2, var), row_var = function(m) apply(m, 1, var),
  centred = function(m) sweep(m, 2, colMeans(m)), scaled = function(m) m / rowSums(m),
  log_sum = function(m) log1p(colSums(abs(m)))
)

bits_of <- function(v, dtype) {
  v <- as.double(unname(as.vector(collect(v))))
  # a missing value is one in any bits; float32 has no NA beside NaN
  v[is.nan(v)] <- NaN
  v[is.na(v) & !is.nan(v)] <- if (dtype == "float32") NaN else NA
  writeBin(v, raw())
}

compare_tiers <- function(call, name, expression, x, y) {
  computed <- function(x, y) bits_of(call(eval(expression, list(x = x, y = y))), gpu_dtype(x))
  found <- if (test_device != "cpu") lapply(c(own = "compiled", interpreted = "interpreted"),
    function(tier) with_tier(tier, computed(x, y)))
  # the cpu device's logarithm is the C library's
  if (name != "log_sum") {
    found$cpu <- computed(as_gpu(x, device = "cpu"), as_gpu(y, device = "cpu"))
  }
  other <- names(found)[!vapply(found, identical, NA, found[[length(found)]])]
  if (!length(other)) return(character())
  sprintf("%s of %s, %s %s: %s", name, paste(deparse(expression), collapse = "")[1L], gpu_dtype(x),
    paste(if (is.null(dim(x))) length(x) else dim(x), collapse = " x "), paste(other, collapse = ", "))
}

test_that("own kernels, the interpreter and the cpu device give the same bits", {
  skip_if(test_device == "cpu", "the cpu device has one tier")
  emulated <- nzchar(Sys.getenv("VERDIGRIS_EMULATOR"))
  everything <- identical(Sys.getenv("VERDIGRIS_EXAMPLES"), "all")
  set.seed(if (everything) as.integer(Sys.time()) else 20261125L)
  lengths <- c(1L, 7L, 128L, 129L, 4096L, 5003L, 70001L, if (!emulated) c(1048577L, 5e6L))
  shapes <- list(c(3L, 40L), c(33L, 9L), c(64L, 200L), c(200L, 7L), c(513L, 5L), c(5L, 513L), c(1000L, 600L), c(4100L, 3L),
    c(2L, 9001L), if (!emulated) c(1000L, 5000L), if (!emulated) c(300000L, 10L), if (!emulated) c(10L, 300000L))
  shapes <- Filter(Negate(is.null), shapes)
  drawn <- function(n) {
    v <- runif(n, -1, 1) * sample(c(1, 1e-3, 1e4), n, TRUE)
    if (runif(1) < 0.2) v[sample.int(n, 1L)] <- NA
    v
  }
  found <- character()
  compared <- 0L
  kernels <- if (emulated) 4L else if (everything) 200L else 40L
  for (k in seq_len(kernels)) {
    dtype <- sample(c("float64", "float32"), 1L)
    expression <- inner_expressions[[sample.int(length(inner_expressions), 1L)]]
    if (k %% 2L) {
      name <- sample(names(reduced), 1L)
      for (n in lengths) {
        x <- gpu(drawn(n), dtype)
        y <- gpu(drawn(n), dtype)
        found <- c(found, compare_tiers(reduced[[name]], name, expression, x, y))
        compared <- compared + 1L
      }
    } else {
      name <- sample(names(by_margin), 1L)
      for (d in shapes) {
        x <- gpu(matrix(drawn(prod(d)), d[1L]), dtype)
        y <- gpu(matrix(drawn(prod(d)), d[1L]), dtype)
        found <- c(found, compare_tiers(by_margin[[name]], name, expression, x, y))
        compared <- compared + 1L
      }
    }
  }
  expect_identical(found, character())
  expect_gt(compared, kernels)
})

test_that("the cpu device gives the same bits with any number of threads", {
  skip_on_cran()
  code <- quote({
    set.seed(3)
    gpu_use("cpu")
    written <- function(v) writeBin(as.double(as.vector(v)), raw())
    of <- function(n, dtype) {
      x <- as_gpu(stats::runif(n, -1, 1) * sample(c(1, 1e-3, 1e4), n, TRUE), dtype)
      m <- array(x[seq_len(n %/% 7L * 7L)], c(7L, n %/% 7L))
      g <- seq_len(n) %% 17L
      list(sum(x), mean(x), stats::var(x), prod(x), sum(x * x - 1), cumsum(x), cumprod(x), rowSums(m), colSums(m),
        rowMeans(t(m)), apply(m, 1L, stats::var), apply(m, 2L, stats::var), gpu_group(x, g, "sum"), gpu_group(x, g, "var"))
    }
    all <- lapply(c(5L, 1000L, 70001L, 1500000L), function(n) lapply(c("float64", "float32"), of, n = n))
    bytes <- unlist(rapply(all, written, how = "list"))
    file <- tempfile()
    writeBin(bytes, file)
    cat(length(bytes), unname(tools::md5sum(file)), "\n")
  })
  digests <- lapply(c("1", "2", "3"), function(threads) {
    out <- in_child(code, timeout = 300, env = paste0("RAYON_NUM_THREADS=", threads))
    expect_identical(attr(out, "status"), 0L)
    out[length(out)]
  })
  expect_match(digests[[1]], "^[0-9]+ [0-9a-f]{32}")
  expect_identical(digests[[2]], digests[[1]])
  expect_identical(digests[[3]], digests[[1]])
})
