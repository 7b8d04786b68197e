# sort() and order() of readers, an external merge sort, against base R's of the whole; and the files that it leaves.

withr::local_options(verdigris.device = test_device)

# Elements of many kinds: ties, missing values of both kinds, zeros of both signs, more equal ones than a block holds.
mixed <- function(n = 900) {
  set.seed(51)
  sample(c(round(rnorm(n), 2), rep(2, n / 4), NA, NaN, 0, -0, 0, -0, Inf, -Inf, NaN, NA))
}
left <- function(folder = tempdir()) grep("verdigris-", list.files(folder, all.files = TRUE), value = TRUE)

expect_sorted <- function(v, rows, flags = list(c(FALSE, NA), c(TRUE, TRUE), c(FALSE, FALSE), c(TRUE, NA))) {
  x <- gpu_reader(v, memory = 3 * (if (is.double(v)) 8 else if (is.integer(v)) 4 else 1) * rows)
  for (flag in flags) {
    want <- sort(v, decreasing = flag[1L], na.last = flag[2L])
    got <- collect(sort(x, decreasing = flag[1L], na.last = flag[2L]))
    expect_identical(got, want)
    # zeros of both signs, NA and NaN as they are in base R's
    if (is.double(v)) expect_identical(list(1 / unname(got), is.nan(got)), list(1 / unname(want), is.nan(want)))
    expect_identical(collect(order(x, decreasing = flag[1L], na.last = flag[2L])), order(v, decreasing = flag[1L],
      na.last = flag[2L]))
  }
}

test_that("values and places are base R's, with blocks of any size", {
  v <- mixed()
  for (rows in if (emulated) 300 else c(41, 300, 5000)) {
    expect_sorted(v, rows)
    if (rows < 300) next
    expect_sorted(suppressWarnings(as.integer(v * 100)), rows)
    expect_sorted(v > 0, rows)
    expect_sorted(stats::setNames(v, seq_along(v)), rows)
  }
  expect_sorted(rep(3, 100), 7)
  expect_sorted(rep(c(1, NA), c(5, 95)), 7)
  expect_sorted(as.double(100:1), 9)
  for (v in list(numeric(), integer(), 1, NA_real_, c(NA, NaN))) expect_sorted(v, 1)
})

test_that("order() takes several keys, each with its own direction", {
  set.seed(61)
  n <- 700
  keys <- list(a = sample(c(1:6, NA), n, TRUE), b = sample(c(round(rnorm(300), 1), NA, NaN, 0, -0), n, TRUE),
    l = sample(c(TRUE, FALSE, NA), n, TRUE), w = factor(sample(letters, n, TRUE), rev(letters)))
  for (rows in c(90, 1e4)) {
    x <- lapply(keys[1:3], function(key) gpu_reader(key, memory = 3 * 8 * rows))
    for (flags in list(FALSE, TRUE, c(TRUE, FALSE, TRUE))) for (last in c(TRUE, FALSE, NA)) {
      want <- order(keys$a, keys$b, keys$l, decreasing = flags, na.last = last, method = "radix")
      expect_identical(collect(order(x$a, x$b, x$l, decreasing = flags, na.last = last, method = "radix")), want)
      expect_identical(collect(order(x$a, keys$b, x$l, decreasing = flags, na.last = last, method = "radix")), want)
    }
    expect_identical(collect(order(keys$w, x$b, as_gpu(keys$a))), order(keys$w, keys$b, keys$a))
    expect_identical(collect(order(x$a, as.character(keys$w))), order(keys$a, as.character(keys$w)))
  }
  expect_identical(collect(order(gpu_reader(integer()), gpu_reader(numeric()))), integer())
  far <- gpu_cast(as_gpu(sample(0:5, n, TRUE)), "int64") + gpu_cast(as_gpu(2^60), "int64")
  expect_identical(collect(order(gpu_reader(far, memory = 3 * 8 * 90), gpu_reader(keys$b))), collect(order(far,
    keys$b)))
})

test_that("files, functions, matrices and narrow types are sorted", {
  v <- mixed()
  path <- raw_file(v)
  expect_identical(collect(sort(gpu_reader(path, memory = 3 * 8 * 100))), sort(v))
  by_function <- gpu_reader(function(rows) v[rows], dim = length(v), memory = 3 * 8 * 100)
  expect_identical(collect(sort(by_function, decreasing = TRUE)), sort(v, decreasing = TRUE))
  expect_identical(collect(order(by_function)), order(v))
  m <- matrix(v[1:900], 300)
  expect_identical(collect(sort(gpu_reader(m, memory = 3 * 8 * 300))), sort(m))
  expect_identical(collect(sort(gpu_reader(raw_file(t(m)), dim = dim(m), byrow = TRUE,
    memory = blocks_of_rows(70, 3)))), sort(m))
  float <- gpu_reader(raw_file(v, 4L), dtype = "float32", memory = 3 * 4 * 100)
  expect_equal(collect(sort(float)), sort(v), tolerance = 1e-6)
  expect_identical(gpu_dtype(sort(float)), "float32")
  whole <- as.raw(sample(0:200, 500, TRUE))
  expect_identical(collect(sort(gpu_reader(raw_file(whole), dtype = "uint8", memory = 3 * 90))),
    sort(as.integer(whole)))
  # of what is computed when it is read
  expect_identical(collect(sort(abs(gpu_reader(v, memory = 3 * 8 * 100)))), sort(abs(v)))
  skip_if_not_installed("hdf5r")
  h5 <- withr::local_tempfile(fileext = ".h5")
  gpu_chunked(v, identity, chunk = 200, to = gpu_writer(h5, name = "v"))
  expect_identical(collect(sort(gpu_reader(h5, name = "v", memory = 3 * 8 * 250))), sort(v))
  gpu_chunked(v, identity, chunk = 200, to = gpu_writer(h5, name = "v2"))
  sorted <- sort(gpu_reader(h5, name = "v", memory = 3 * 8 * 250), to = gpu_writer(h5, name = "sorted"))
  expect_identical(collect(sorted), sort(v))
})

test_that("the result may be a file", {
  folder <- withr::local_tempdir()
  v <- mixed()
  for (rows in c(100, 1e5)) for (decreasing in c(FALSE, TRUE)) {
    path <- file.path(folder, "out")
    y <- sort(gpu_reader(v, memory = 3 * 8 * rows), decreasing, na.last = TRUE, to = path)
    expect_s3_class(y, "gpu_reader")
    expect_identical(collect(y), sort(v, decreasing, na.last = TRUE))
    expect_identical(readBin(path, "double", 1e5), sort(v, decreasing, na.last = TRUE))
    expect_identical(list.files(folder, all.files = TRUE, no.. = TRUE), "out")
  }
  named <- stats::setNames(v, seq_along(v))
  y <- sort(gpu_reader(named, memory = 3 * 8 * 100), to = path)
  expect_identical(collect(y), sort(named))
  expect_identical(collect(sort(gpu_reader(integer()), to = path)), integer())
  typed <- sort(gpu_reader(3:1), to = gpu_writer(path, "float32"))
  expect_identical(collect(typed), c(1, 2, 3))
  # the file that is read may be the one that is written
  source <- gpu_reader(raw_file(v), memory = 3 * 8 * 100)
  expect_identical(collect(sort(source, to = source$args$path)), sort(v))
})

test_that("what cannot be sorted, and what is wrong, is refused by name", {
  x <- gpu_reader(c(2, 1))
  for (call in alist(sort(gpu_reader(1i)), sort(gpu_reader(data.frame(a = 1))), order(x, gpu_reader(matrix(1, 2, 2))),
    order(gpu_reader(c(1i, 2)), x), order(gpu_reader(matrix(1, 2, 2))), sort(x, partial = 1), order(gpu_reader(1i))))
    expect_error(eval(call), class = "verdigris_error_reader", label = deparse1(call))
  for (call in alist(sort(x, decreasing = NA), sort(x, na.last = "a"), sort(x, to = 1), order(x, decreasing = NA)))
    expect_error(eval(call), class = "verdigris_error_argument", label = deparse1(call))
  expect_error(sort(x, to = file.path(tempdir(), "no", "where")), class = "verdigris_error_file")
  expect_error(order(x, 1:3), "argument lengths differ")
  expect_error(order(x, x, decreasing = NA), "'decreasing' elements must be TRUE or FALSE")
  # more than fits
  large <- gpu_reader(function(rows) rows + 0, dim = 1e12)
  expect_error(sort(large), "sort(x, to = path)", fixed = TRUE, class = "verdigris_error_memory")
  expect_error(order(large), "sort(x, to = path)", fixed = TRUE, class = "verdigris_error_memory")
})

# ---- faults --------------------------------------------------------------------------------------------------

test_that("a source that fails leaves no file", {
  folder <- withr::local_tempdir()
  path <- file.path(folder, "out")
  writeLines("kept", path)
  before <- left()
  x <- gpu_reader(function(rows) if (rows[1L] > 500) stop("torn tape") else rows + 0, dim = 1000,
    memory = 3 * 8 * 100)
  expect_error(sort(x, to = path), "torn tape", class = "verdigris_error_chunk")
  expect_error(sort(x), "torn tape", class = "verdigris_error_chunk")
  expect_error(order(x), "torn tape", class = "verdigris_error_chunk")
  Sys.sleep(0.2)
  expect_identical(left(), before)
  expect_identical(list.files(folder, all.files = TRUE, no.. = TRUE), "out")
  expect_identical(readLines(path), "kept")
  # while runs are merged
  before_it <- utils::getFromNamespace("segment_parts", "verdigris")
  withr::defer(utils::assignInNamespace("segment_parts", before_it, "verdigris"))
  utils::assignInNamespace("segment_parts", function(...) stop("halt"), "verdigris")
  y <- gpu_reader(as.double(1:1000), memory = 3 * 8 * 100)
  expect_error(sort(y, to = path), "halt")
  expect_error(order(y), "halt")
  Sys.sleep(0.2)
  expect_identical(left(), before)
  expect_identical(readLines(path), "kept")
})

test_that("a full disk and Ctrl-C leave no file", {
  skip_on_os(c("windows", "mac"))
  skip_if(emulated, "takes long")
  code <- c(
    sprintf("options(verdigris.device = %s)", deparse(test_device)),
    "folder <- tempfile('full'); dir.create(folder); path <- file.path(folder, 'out')",
    "left <- function() length(grep('verdigris-|out', c(list.files(folder, all.files = TRUE),",
    "  list.files(tempdir(), all.files = TRUE))))")
  out <- in_child(c(code,
    "x <- gpu_reader(function(rows) rows + 0, dim = 1e6, memory = 3e6)",
    "for (call in list(quote(sort(x, to = path)), quote(sort(x)), quote(order(x)))) {",
    "  said <- tryCatch(eval(call), error = identity)",
    "  Sys.sleep(0.3); cat('file', inherits(said, 'verdigris_error_file'), 'left', left(), '\\n')",
    "}"
  ), limits = "ulimit -f 1000; trap '' XFSZ", timeout = 100)
  expect_identical(sum(out == "file TRUE left 0 "), 3L, info = paste(out, collapse = "\n"))
  out <- in_child(c(code,
    "x <- gpu_reader(function(rows) rows %% 1013 + 0, dim = 3e6, memory = 3 * 8 * 3e4)",
    "for (wait in c(0.2, 0.5, 0.9)) {",
    "  system(sprintf('(sleep %g; kill -INT %d) > /dev/null 2>&1 &', wait, Sys.getpid()))",
    "  how <- tryCatch({ repeat sort(x, to = path) }, interrupt = function(e) 'interrupted')",
    "  unlink(path); Sys.sleep(0.3); cat(how, 'left', left(), '\\n')",
    "}"
  ), timeout = 100)
  expect_identical(sum(out == "interrupted left 0 "), 3L, info = paste(out, collapse = "\n"))
})

test_that("a sort holds a few blocks of a device", {
  skip_if(emulated, "takes long")
  path <- raw_file(stats::runif(1e6))
  x <- gpu_reader(path, memory = 3 * 8 * 5e4)
  gc()
  before <- alive()[["device"]]
  peak <- 0
  counted <- gpu_reader(function(rows) {
    gc(FALSE)
    peak <<- max(peak, gpu_memory(test_device)[["live"]])
    x[rows]
  }, dim = 1e6, memory = 3 * 8 * 5e4)
  y <- sort(counted, to = withr::local_tempfile())
  # blocks, each rounded up by the pool
  expect_lte(peak - before, 10 * 8 * 5e4)
  expect_false(is.unsorted(collect(y)))
})
