# Golden bits: what reductions, margins, groups, their epilogues and running values give for fixed inputs, as data
# (data/golden-bits.csv). The cpu device, each tier of a GPU, and every later version of this package give the same. A
# change of the order of additions changes them: VERDIGRIS_GOLDEN=write writes the file anew, and NEWS says so.

# Whole numbers below 2^32 that look random, the same in every version of R.
hashed <- function(n, salt) ((seq_len(n) + salt) * 2654435761) %% 2^32

golden_input <- function(n, dtype, salt = 0) {
  u <- hashed(n, salt) / 2^32
  # of very different sizes, so that another order of additions has other bits
  size <- 2^(hashed(n, salt + 17) %% 24 - 12)
  x <- switch(dtype, int32 = as.integer(hashed(n, salt) %% 2000) - 1000L, int64 = hashed(n, salt) - 2^31,
    complex128 = complex(real = (u - 0.5) * size, imaginary = (hashed(n, salt + 5) / 2^32 - 0.5) * size),
    (u - 0.25) * size)
  gpu(x, dtype = dtype)
}

golden_lengths <- c(1L, 2L, 31L, 1000L, 1025L, 16400L, 70001L, 300007L)
golden_shapes <- list(c(3L, 40L), c(40L, 3L), c(129L, 65L), c(1000L, 30L), c(30L, 1000L), c(5000L, 7L), c(7L, 5000L),
  c(2L, 70001L), c(70001L, 2L))

golden_whole <- list(sum = sum, mean = mean, var = var, sd = sd, range = function(x) c(min(x), max(x)),
  prod = function(x) prod(1 + x / 2^20), running = cumsum, running_prod = function(x) cumprod(1 + x / 2^20),
  squares = function(x) sum((x - 1)^2), narm = function(x) mean(x, na.rm = TRUE),
  groups = function(x) gpu_group(x, rep_len(c(3L, 1L, 1L, 2L, 5L, 4L, 4L), length(x)), "sum"),
  many = function(x) gpu_group(x, as.integer(hashed(length(x), 3) %% 1999) + 1L, "mean"),
  spread = function(x) gpu_group(x, rep_len(1:11, length(x)), "var"))
golden_margins <- list(rowSums = rowSums, colSums = colSums, rowMeans = rowMeans, colMeans = colMeans,
  row_var = function(m) apply(m, 1, var), col_var = function(m) apply(m, 2, var),
  centred = function(m) sweep(m, 2, colMeans(m)), shares = function(m) m / rowSums(m),
  rowsum = function(m) rowsum(m, as.integer(hashed(nrow(m), 9) %% 13)))
# what a type has
golden_skipped <- list(complex128 = c("var", "sd", "range", "spread", "many", "narm", "row_var", "col_var", "groups", "rowsum"),
  int64 = "prod", int32 = "prod")

golden_digest <- function(value) {
  value <- as.vector(collect(value))
  file <- tempfile()
  on.exit(unlink(file))
  value <- if (inherits(value, "integer64")) unclass(value) else if (is.complex(value)) c(Re(value), Im(value)) else
    as.double(value)
  writeBin(value, file, endian = "little")
  unname(substr(tools::md5sum(file), 1L, 16L))
}

# Of each case that this process has a part in.
golden_bits <- function() {
  found <- list()
  met <- 0L
  note <- function(dtype, shape, cases, x) {
    for (case in setdiff(names(cases), golden_skipped[[dtype]])) {
      met <<- met + 1L
      if (!is_ours(met)) next
      # their blocks wait for each other: the emulated device has all threads at once, each with a stack of its own
      many <- startsWith(case, "running") && prod(shape) > 1e5 || case == "rowsum" && max(shape) > 1e4
      if (emulated && many) next
      name <- sprintf("%s %s %s", case, dtype, paste(shape, collapse = "x"))
      found[[name]] <<- golden_digest(suppressWarnings(cases[[case]](x)))
    }
  }
  for (dtype in c("float64", "float32", "int32", "int64", "complex128")) {
    for (n in golden_lengths) note(dtype, n, golden_whole, golden_input(n, dtype))
    for (shape in golden_shapes) {
      note(dtype, shape, golden_margins, array(golden_input(prod(shape), dtype, 101), shape))
    }
  }
  set.seed(20261125)
  found[["gpu_runif float64 100003"]] <- golden_digest(gpu_runif(100003, device = test_device))
  found[["gpu_runif float32 100003"]] <- golden_digest(gpu_runif(100003, dtype = "float32", device = test_device))
  unlist(found)
}

golden_file <- test_path("data", "golden-bits.csv")

expect_golden <- function(found, label = "found") {
  kept <- utils::read.csv(golden_file, colClasses = "character")
  expect_gt(length(found), nrow(kept) %/% part[2L] - 20L)
  expect_identical(names(found)[found != kept$bits[match(names(found), kept$case)]], character(), label = label)
}

test_that("reductions, margins and groups give the bits that are written down", {
  found <- golden_bits()
  if (identical(Sys.getenv("VERDIGRIS_GOLDEN"), "write")) {
    utils::write.csv(data.frame(case = names(found), bits = found), golden_file, row.names = FALSE, quote = FALSE)
  }
  expect_golden(found)
})

test_that("each tier of a GPU gives the bits that are written down", {
  skip_if(test_device == "cpu", "the cpu device has one tier")
  for (tier in c("compiled", "interpreted")) expect_golden(with_tier(tier, golden_bits()), tier)
})
