# Readers of raw files, functions and memory, and what gpu_chunked() writes, against whole matrices.

withr::local_options(verdigris.device = test_device)
set.seed(41)
m <- matrix(round(rnorm(35), 3), 7, dimnames = list(NULL, letters[1:5]))
columns <- raw_file(m, env = environment())
rows <- raw_file(t(m), env = environment())
by_columns <- gpu_reader(columns, dim = c(7, NA), dimnames = dimnames(m))
by_rows <- gpu_reader(rows, dim = c(NA, 5), byrow = TRUE, dimnames = dimnames(m))
of_function <- gpu_reader(function(rows) m[rows, , drop = FALSE], dim = 7)
readers <- list(by_columns, by_rows, of_function, gpu_reader(m), gpu_reader(gpu(m)))

test_that("a reader has the shape, names and elements of its matrix", {
  for (x in readers) {
    expect_identical(dim(x), dim(m))
    expect_identical(dimnames(x), dimnames(m))
    expect_identical(length(x), length(m))
    expect_identical(c(nrow(x), ncol(x)), dim(m))
    expect_identical(colnames(x), colnames(m))
    expect_identical(collect(x), m)
    expect_identical(as.matrix(x), m)
    expect_identical(collect(as_gpu(x)), m)
    expect_identical(class(x), c("gpu_reader", "gpu_remote"))
    expect_identical(gpu_reader(x), x)
  }
})

test_that("subscripts are those of a matrix", {
  calls <- alist(x[], x[2, ], x[, 3], x[2, 3], x[2, , drop = FALSE], x[3:1, c(5, 1)], x[-2, ], x[, -1],
    x[c(1, 1, 7), 2], x[, "b"], x[, c("e", "a")], x[c(TRUE, FALSE), ], x[rep(TRUE, 7), c(TRUE, FALSE, FALSE, TRUE,
    FALSE)], x[0, ],
    x[, 0], x[integer(), 2], x[7, 5], x[1:7, 5:1], x[c(0, 2), ], x[2:3, "a", drop = FALSE], head(x, 3), tail(x, 2))
  for (x in readers) for (call in calls) {
    want <- eval(call, list(x = m))
    got <- eval(call, list(x = x))
    # tail() gives rows of a matrix their numbers
    if (identical(call[[1L]], quote(tail))) rownames(want) <- rownames(got) <- NULL
    expect_identical(got, want, label = deparse1(call))
  }
  for (x in readers) {
    expect_error(x[8, ], "subscript out of bounds")
    expect_error(x[, "z"], "subscript out of bounds")
    expect_error(x[rep(TRUE, 8), ], "logical subscript too long")
    expect_error(x[3], class = "verdigris_error_argument")
    expect_error(x[NA_integer_, ], class = "verdigris_error_argument")
    expect_error(x[1, 1] <- 2, class = "verdigris_error_argument")
  }
  v <- gpu_reader(columns)
  expect_identical(v[], as.vector(m))
  expect_identical(v[c(30, 2)], as.vector(m)[c(30, 2)])
  expect_identical(v[-(1:30)], as.vector(m)[-(1:30)])
  expect_null(dim(v))
  for (call in alist(x[0.5, ], x[c(1.2, 1.7), ], x[7.5, 2], x[2.9, 3.9], x[-1.5, 1])) for (x in readers)
    expect_identical(eval(call, list(x = x)), eval(call, list(x = m)), label = deparse1(call))
  named <- gpu_reader(c(a = 1, b = 2, c = 3))
  expect_identical(named[c("c", "a")], c(c = 3, a = 1))
  expect_identical(gpu_chunked(named, function(x) x * 2, chunk = 2), c(a = 2, b = 4, c = 6))
})

test_that("blocks of rows and columns are those of the matrix", {
  for (x in readers) for (chunk in c(1, 2, 3, 7, 100)) {
    f <- function(x) collect(x)
    expect_identical(gpu_chunked(x, f, rbind, chunk = chunk, margin = 1), m)
    if (identical(x, of_function)) expect_error(gpu_chunked(x, f, cbind, margin = 2),
      class = "verdigris_error_argument") else expect_identical(gpu_chunked(x, f, cbind, chunk = chunk, margin = 2), m)
    expect_equal(as.vector(collect(gpu_chunked(x, colSums, "+", chunk = chunk, margin = 1))), unname(colSums(m)),
      tolerance = 1e-14)
  }
  # by its own margin, and a budget
  small <- gpu_reader(by_columns, memory = 3 * 8 * 7 * 2)
  expect_identical(gpu_chunked(small, ncol), c(2L, 2L, 1L))
  expect_identical(gpu_chunked(gpu_reader(by_rows, memory = blocks_of_rows(3, 5)), nrow), c(3L, 3L, 1L))
  expect_error(gpu_chunked(gpu_reader(by_rows, memory = 100), nrow), "memory", class = "verdigris_error_argument")
  expect_output(print(small), "Blocks take at most")
})

test_that("every type is read as readBin() reads it", {
  x <- c(0, 1, 2, 100, 127, 55, 3, 9)
  check <- function(path, type, want, ...) for (byrow in c(FALSE, TRUE)) {
    r <- gpu_reader(path, dim = c(4, 2), dtype = type, byrow = byrow, ...)
    expect_equal(collect(r), matrix(want, 4, byrow = byrow), label = type)
    expect_equal(gpu_chunked(r, function(x) collect(x), rbind, chunk = 3, margin = 1), matrix(want, 4, byrow = byrow))
  }
  for (endian in c("little", "big")) {
    check(raw_file(x, 8L, endian), "float64", x, endian = endian)
    check(raw_file(x, 8L, endian), "double", x, endian = endian)
    check(raw_file(x, 4L, endian), "float32", x, endian = endian)
    check(raw_file(as.integer(x), 4L, endian), "int32", as.integer(x), endian = endian)
    check(raw_file(c(-5L, NA, as.integer(x)[-(1:2)]), 4L, endian), "integer", c(-5L, NA, as.integer(x)[-(1:2)]),
      endian = endian)
    check(raw_file(as.integer(x) - 200L, 2L, endian), "int16", as.integer(x) - 200L, endian = endian)
    large <- c(65535L, 40000L, 1L, 0L, 32768L, 32767L, 5L, 6L)
    check(raw_file(large, 2L, endian), "uint16", large, endian = endian)
    check(raw_file(c(-1L, 1L, -2L, 0L, 7:10), 4L, endian), "uint32", c(2^32 - 1, 1, 2^32 - 2, 0, 7:10), endian = endian)
    z <- complex(real = x, imaginary = -x)
    check(raw_file(z, endian = endian), "complex128", z, endian = endian)
  }
  check(raw_file(as.raw(c(x[-1], 255))), "uint8", as.integer(c(x[-1], 255)))
  check(raw_file(as.raw(c(x[-1], 255))), "int8", as.integer(c(x[-1], -1)))
  check(raw_file(as.raw(c(0, 1, 1, 0, 2, 1, 0, 0))), "bool8", c(FALSE, TRUE, TRUE, FALSE, NA, TRUE, FALSE, FALSE))
  odd <- gpu_reader(raw_file(as.raw(c(0, 9))), dtype = "bool8")
  expect_error(collect(odd), "the byte 9", class = "verdigris_error_file")
  # behind a header, with missing values
  path <- raw_file(c(NA, NaN, Inf, -0), header = as.raw(1:16))
  expect_identical(collect(gpu_reader(path, offset = 16)), c(NA, NaN, Inf, -0))
  expect_identical(is.na(collect(gpu_reader(path, offset = 16))), c(TRUE, TRUE, FALSE, FALSE))
  skip_if_not_installed("bit64")
  long <- bit64::as.integer64(c("9007199254740993", NA, "-7"))
  path <- raw_file(unclass(long))
  expect_identical(collect(gpu_reader(path, dtype = "int64")), long)
})

test_that("a chunk has another dtype where it is asked for", {
  expect_identical(gpu_chunked(by_rows, gpu_dtype, dtype = "float32"), "float32")
  expect_equal(gpu_chunked(by_columns, function(x) collect(x), cbind, dtype = "float32", chunk = 2), m,
    tolerance = 1e-6)
  expect_equal(gpu_chunked(by_rows, function(x) collect(x), rbind, dtype = "float32", chunk = 2), m, tolerance = 1e-6)
})

test_that("longer blocks, of short and long runs, are those of the matrix", {
  big <- matrix(as.double(seq_len(3e5)), 1e5)
  path <- raw_file(big)
  turned <- raw_file(t(big))
  for (x in list(gpu_reader(path, dim = c(NA, 3)), gpu_reader(turned, dim = c(NA, 3), byrow = TRUE))) {
    expect_identical(collect(x), big)
    expect_identical(gpu_chunked(x, function(x) collect(x), rbind, margin = 1, chunk = 33333), big)
    expect_identical(gpu_chunked(x, function(x) collect(x), cbind, margin = 2, chunk = 2), big)
    expect_identical(x[c(5, 99999, 50000), 2:3], big[c(5, 99999, 50000), 2:3])
    expect_equal(gpu_chunked(x, function(x) collect(x), rbind, margin = 1, chunk = 7777, dtype = "float32"), big)
  }
})

test_that("empty and single rows are read", {
  none <- gpu_reader(raw_file(numeric()), dim = c(0, 3))
  expect_identical(collect(none), matrix(0, 0, 3))
  expect_null(gpu_chunked(none, colSums, margin = 1))
  expect_identical(collect(gpu_reader(raw_file(numeric()))), numeric())
  one <- gpu_reader(raw_file(c(1, 2, 3)), dim = c(1, 3))
  expect_identical(gpu_chunked(one, function(x) collect(x), rbind, margin = 1), matrix(c(1, 2, 3), 1))
  expect_identical(collect(gpu_reader(function(rows) cbind(rows + 0), dim = 0)), matrix(0, 0, 1))
  expect_output(print(none), "[0 x 3]", fixed = TRUE)
})

test_that("data frames come in blocks, with the columns that are no numbers", {
  d <- data.frame(a = 1:7, b = (1:7) / 2, s = letters[1:7], f = factor(rep(c("u", "v"), length.out = 7)))
  for (x in list(gpu_reader(d), gpu_reader(function(rows) d[rows, ], dim = 7))) {
    expect_identical(names(x), names(d))
    expect_identical(dim(x), dim(d))
    expect_identical(x[2:3, "s"], d[2:3, "s"])
    expect_identical(x[5:6, c("b", "f")], d[5:6, c("b", "f")])
    expect_equal(collect(x), d)
    expect_identical(gpu_chunked(x, function(d) sum(d$a * d$b), "+", chunk = 3), sum(d$a * d$b))
    expect_identical(gpu_chunked(x, function(d) as.character(d$s), chunk = 3), d$s)
    expect_error(gpu_chunked(x, identity, margin = 2), class = "verdigris_error_argument")
  }
})

test_that("functions that do not give their rows are refused", {
  refused <- function(code, pattern) expect_error(code, pattern, class = "verdigris_error_argument")
  refused(gpu_reader(function(rows) "a", dim = 3), "must be a function that returns")
  refused(gpu_reader(function(rows) stop("torn tape"), dim = 3), "torn tape")
  refused(gpu_reader(function(rows) cbind(1, 2), dim = c(3, 5)), "gives 2 columns")
  refused(gpu_reader(function(rows) 1), "`dim` must be")
  x <- gpu_reader(function(rows) matrix(0, 1, 2), dim = 5)
  refused(collect(x), "a matrix of 5 rows and 2 columns, not a matrix of 1 x 2")
  expect_error(gpu_chunked(x, nrow, chunk = 2), "must give a matrix of 2 rows", class = "verdigris_error_chunk")
  y <- gpu_reader(function(rows) if (length(rows) > 1) stop("broken pipe") else rows + 0, dim = 5)
  expect_error(gpu_chunked(y, sum, chunk = 2), "broken pipe", class = "verdigris_error_chunk")
  z <- gpu_reader(function(rows) data.frame(a = rows)[if (length(rows) > 1) "b" else "a"], dim = 5)
  expect_error(gpu_chunked(z, nrow), class = "verdigris_error_chunk")
})

test_that("wrong arguments are refused by name", {
  refused <- function(code, pattern) expect_error(code, pattern, class = "verdigris_error_argument")
  for (odd in list(NA_character_, "", c("a", "b"))) refused(gpu_reader(odd), "`x` must be")
  for (odd in list(NULL, list(1), globalenv(), array(1, c(2, 2, 2)), quote(x))) refused(gpu_reader(odd), "`x` must be")
  for (odd in list("float65", NA, 1, c("float32", "float64"))) refused(gpu_reader(columns, dtype = odd),
    "`dtype` must be")
  refused(gpu_reader(columns, dtype = "float46"), "Did you mean")
  for (odd in list(-1, c(1, 2, 3), c(NA, NA), "a", 1.5)) refused(gpu_reader(columns, dim = odd), "`dim` must be")
  for (odd in list(-1, NA, "a", c(1, 2))) refused(gpu_reader(columns, offset = odd), "`offset` must be")
  for (odd in list(NA, 1, "a")) refused(gpu_reader(columns, byrow = odd), "`byrow` must be")
  for (odd in list(0, -1, NA, "a", c(1, 2))) refused(gpu_reader(columns, memory = odd), "`memory` must be")
  refused(gpu_reader(columns, dim = c(7, 5), dimnames = list(NULL, "a")), "must have 5 names")
  refused(gpu_reader(columns, endian = "middle"), "`endian` must be")
  refused(gpu_chunked(by_rows, sum, chunk = 0), "`chunk` must be")
  expect_error(gpu_reader(columns, by_row = TRUE))
})

# ---- faults --------------------------------------------------------------------------------------------------

test_that("files that are not what was said are errors that name the remedy", {
  file_error <- function(code, pattern) expect_error(code, pattern, class = "verdigris_error_file")
  file_error(gpu_reader("nowhere.bin", dim = c(2, 2)), "cannot be read")
  file_error(gpu_reader("nowhere.bin"), "cannot be read")
  file_error(gpu_reader(tempdir(), dim = c(2, 2)), "a folder, not a file")
  file_error(gpu_reader(columns, dim = c(7, 6)), "has 280 bytes, but `dim`, `dtype` and `offset` say 336")
  file_error(gpu_reader(columns, dim = c(7, 4)), "say 224")
  file_error(gpu_reader(columns, dim = c(7, 5), dtype = "float32"), "say 140")
  file_error(gpu_reader(columns, dim = c(7, 5), offset = 8), "say 288")
  file_error(gpu_reader(columns, dim = c(6, NA)), "not a multiple of 48")
  file_error(gpu_reader(columns, offset = 3), "not a multiple of 8")
  file_error(gpu_reader(columns, dim = c(2^40, 2^12)), "more bytes than there are|say")
})

test_that("a file that becomes shorter is an error, and the session goes on", {
  path <- raw_file(as.double(1:4e5))
  x <- gpu_reader(path, dim = c(NA, 4), memory = blocks_of_rows(2e4, 4))
  con <- file(path, "r+b")
  seek(con, 8e5, rw = "write")
  truncate(con)
  close(con)
  said <- tryCatch(gpu_chunked(x, sum, margin = 1), error = identity)
  expect_s3_class(said, "verdigris_error_file")
  expect_s3_class(said, "verdigris_error_chunk")
  expect_match(conditionMessage(said$parent), "has become shorter")
  expect_error(colSums(x), class = "verdigris_error_file")
  expect_identical(sum(gpu(1:3)), 6L)
})

test_that("Ctrl-C ends reading soon", {
  skip_on_os("windows")
  skip_if(emulated, "takes long")
  out <- in_child(c(
    sprintf("options(verdigris.device = %s)", deparse(test_device)),
    "slow <- function(rows) { Sys.sleep(0.01); cbind(rows + 0) }",
    "x <- gpu_reader(slow, dim = 1e6, memory = 3 * 8 * 100)",
    "path <- tempfile(); con <- file(path, 'wb'); for (k in 1:40) writeBin(numeric(1e6), con); close(con)",
    "y <- gpu_reader(path, dim = c(NA, 10), memory = 3e6)",
    "out <- tempfile(tmpdir = tempdir(check = TRUE))",
    "for (call in list(quote(colSums(x)), quote(repeat colSums(y)), quote(gpu_lm(V1 ~ ., y)),",
    "  quote(repeat gpu_chunked(y, function(x) x * 2, margin = 1, to = out)))) {",
    "  mark <- tempfile()",
    "  system(sprintf('(sleep 0.3; date +%%s.%%N > %s; kill -INT %d) > /dev/null 2>&1 &', mark, Sys.getpid()))",
    "  how <- tryCatch({ repeat eval(call) }, interrupt = function(e) 'interrupted')",
    "  cat('@', how, as.numeric(Sys.time()) - as.numeric(readLines(mark)), '\\n')",
    "}",
    "Sys.sleep(0.5); cat('left', length(list.files(tempdir(), '[.]part$', all.files = TRUE)), '\\n')"
  ), timeout = 120)
  told <- do.call(rbind, strsplit(grep("^@", out, value = TRUE), " "))
  expect_identical(told[, 2L], rep("interrupted", 4L), info = paste(out, collapse = "\n"))
  expect_true(all(as.numeric(told[, 3L]) < 0.2 * stretch()), info = paste(out, collapse = "\n"))
  expect_true("left 0 " %in% out, info = paste(out, collapse = "\n"))
})

test_that("blocks are freed, also where a function fails", {
  before <- alive()[["device"]]
  path <- raw_file(as.double(1:1e6))
  x <- gpu_reader(path, dim = c(NA, 2), memory = blocks_of_rows(2e4, 2))
  peak <- 0
  gpu_chunked(x, function(x) {
    peak <<- max(peak, gpu_memory(test_device)[["live"]])
    sum(x)
  }, "+", margin = 1)
  expect_lte(peak - before, 3 * 8 * 2e4 * 2 + 1e5)
  expect_error(gpu_chunked(x, function(x) stop("halt"), margin = 1), "halt")
  gc()
  expect_lte(alive()[["device"]], before + 1e5)
})

# ---- writers -------------------------------------------------------------------------------------------------

test_that("results are written block by block, and read back", {
  folder <- withr::local_tempdir()
  n <- 0
  path <- function() file.path(folder, paste0("out", n <<- n + 1))
  for (x in readers) for (margin in 1:2) for (chunk in c(1, 3, 10)) {
    if (identical(x, of_function) && margin == 2) next
    y <- gpu_chunked(x, function(x) x * 2, chunk = chunk, margin = margin, to = path())
    expect_s3_class(y, "gpu_reader")
    expect_identical(collect(y), m * 2)
    expect_identical(gpu_chunked(y, function(x) collect(x), if (margin == 1) rbind else cbind, margin = margin), m * 2)
    v <- gpu_chunked(x, if (margin == 1) rowSums else colSums, chunk = chunk, margin = margin, to = path())
    expect_equal(collect(v), if (margin == 1) rowSums(m) else colSums(m))
  }
  # the elements alone
  y <- gpu_chunked(m, identity, margin = 2, chunk = 2, to = file.path(folder, "plain"))
  expect_identical(readBin(file.path(folder, "plain"), "double", 100), as.vector(m))
  # host results, other shapes, types
  expect_identical(collect(gpu_chunked(m, function(x) as.integer(round(as.vector(x[, 1]))), margin = 1, chunk = 2,
    to = path())), as.integer(round(m[, 1])))
  for (type in c("float64", "float32", "int32", "int16", "int8", "uint8", "int64", "bool8", "complex128")) {
    w <- gpu_chunked(c(1, 0, 1, 1), identity, chunk = 3, to = gpu_writer(path(), type))
    expect_equal(as.numeric(Re(collect(w))), c(1, 0, 1, 1), label = type)
  }
  expect_warning(w <- gpu_chunked(c(1, 300), identity, to = gpu_writer(path(), "int8")))
  expect_identical(collect(w), c(1L, NA))
  expect_null(gpu_chunked(numeric(), identity, to = path()))
  expect_output(print(gpu_writer("a.bin", "float32")), "as float32")
})

test_that("what cannot be written leaves nothing", {
  folder <- withr::local_tempdir()
  path <- file.path(folder, "out")
  writeLines("kept", path)
  left <- function() list.files(folder, all.files = TRUE, no.. = TRUE)
  expect_error(gpu_chunked(m, function(x) stop("halt"), to = path), "halt", class = "verdigris_error_chunk")
  expect_error(gpu_chunked(m, function(x) "a", to = path), "must return a vector or a matrix",
    class = "verdigris_error_argument")
  turn <- 0
  expect_error(gpu_chunked(m, function(x) x[seq_len(turn <<- turn + 1), , drop = FALSE], chunk = 1, margin = 2,
    to = path), "results of `f` do not match", class = "verdigris_error_shape")
  expect_error(gpu_chunked(m, sum, combine = c, to = path), "`combine` must be missing",
    class = "verdigris_error_argument")
  for (odd in list(1, NA, "", TRUE, c("a", "b"))) expect_error(gpu_chunked(m, sum, to = odd), "`to` must be",
    class = "verdigris_error_argument")
  expect_error(gpu_writer(path, "uint16"), "`dtype` must be", class = "verdigris_error_argument")
  expect_error(gpu_writer(path, "float16", name = "x"), "`dtype` must be", class = "verdigris_error_argument")
  Sys.sleep(0.2)
  expect_identical(left(), "out")
  expect_identical(readLines(path), "kept")
  expect_error(gpu_chunked(m, sum, to = file.path(folder, "no", "where")), class = "verdigris_error_file")
  expect_error(gpu_chunked(m, sum, to = folder), "a folder", class = "verdigris_error_file")
})

test_that("a full disk is an error, and what was written goes", {
  skip_on_os(c("windows", "mac"))
  skip_if(emulated, "takes long")
  out <- in_child(c(
    sprintf("options(verdigris.device = %s)", deparse(test_device)),
    "folder <- tempfile('full'); dir.create(folder); path <- file.path(folder, 'out')",
    "x <- gpu_reader(function(rows) cbind(rows + 0, 1), dim = 1e6, memory = 3e6)",
    "said <- tryCatch(gpu_chunked(x, identity, to = path), error = identity)",
    "cat('class', inherits(said, 'verdigris_error_file'), '\\n')",
    "Sys.sleep(0.3); cat('left', length(list.files(folder, all.files = TRUE, no.. = TRUE)), '\\n')"
  ), limits = "ulimit -f 1000; trap '' XFSZ", timeout = 100)
  expect_true("class TRUE " %in% out, info = paste(out, collapse = "\n"))
  expect_true("left 0 " %in% out, info = paste(out, collapse = "\n"))
})

test_that("progress says how large a chunk is", {
  expect_identical(verdigris:::reader_blocks(by_rows, 2, NULL, NULL, "cpu")[c("chunks", "bytes")], list(chunks = 4,
    bytes = 80))
  # rows, where a column is too long for a block
  expect_identical(verdigris:::reader_blocks(gpu_reader(by_columns, memory = 3 * 40), NULL, NULL, NULL, "cpu")$chunks,
    7)
  expect_equal(colSums(gpu_reader(by_columns, memory = 3 * 40)), colSums(m))
})

# ---- teams ---------------------------------------------------------------------------------------------------

test_that("members read their own rows", {
  compare <- function(team) {
    all <- c(list(by_columns, by_rows), list(gpu_reader(m)))
    for (x in all) for (margin in 1:2) {
      s <- gpu_split(x, team, margin)
      expect_equal(collect(s), m)
      expect_identical(dim(s), dim(m))
    }
    expect_equal(colMeans(gpu_split(by_columns, team)), colMeans(m))
    expect_equal(crossprod(gpu_split(by_rows, team)), crossprod(m))
    expect_equal(sum(gpu_split(gpu_reader(columns), team)), sum(m))
    d <- data.frame(a = 1:5, s = letters[1:5])
    expect_identical(collect(gpu_split(gpu_reader(d), team)), d)
    # a reader travels
    expect_identical(unique(unlist(gpu_together(team, function(x) dim(x), by_rows))), dim(m)[1:2])
    sums <- gpu_together(team, function(x) as.vector(collect(gpu_chunked(x, colSums, "+", margin = 1))), by_columns)
    for (s in sums) expect_equal(s, unname(colSums(m)))
  }
  compare(gpu_team(rep(test_device, 3)))
  team <- gpu_team(rep(test_device, 2))
  expect_error(gpu_split(of_function, team, margin = 2), "`margin` must be", class = "verdigris_error_argument")
  generated <- gpu_reader(function(rows) cbind(i = rows, square = rows^2), dim = 8)
  expect_identical(collect(gpu_split(generated, team)), cbind(i = as.double(1:8), square = (1:8)^2))
  compare(gpu_team(worker_cluster(2)))
})

test_that("a file has the first result's type, which must hold the others", {
  path <- file.path(withr::local_tempdir(), "out")
  turn <- 0
  wider <- function(x) if ((turn <<- turn + 1) == 1) 1:3 else c(4.5, 5, 6)
  expect_error(gpu_chunked(as.double(1:6), wider, chunk = 3, to = path), "float64, after others of int32",
    class = "verdigris_error_dtype")
  expect_length(list.files(dirname(path), all.files = TRUE, no.. = TRUE), 0)
  turn <- 0
  typed <- gpu_chunked(as.double(1:6), wider, chunk = 3, to = gpu_writer(path, "float64"))
  expect_identical(collect(typed), c(1, 2, 3, 4.5, 5, 6))
  narrower <- function(x) if (as.vector(x)[1] > 3) 4:6 else c(0.5, 2, 3)
  expect_identical(collect(gpu_chunked(as.double(1:6), narrower, chunk = 3, to = path)), c(0.5, 2, 3, 4, 5, 6))
  for (odd in c(NA, -3, 300)) expect_warning(w <- gpu_chunked(c(1, odd), identity, to = gpu_writer(path, "uint8")),
    "treated as 0")
  expect_equal(as.integer(collect(w)), c(1L, 0L))
})

test_that("direct I/O reads the same elements", {
  big <- matrix(as.double(seq_len(3e5)), 1e5, dimnames = list(NULL, c("a", "b", "c")))
  files <- list(columns = raw_file(big), rows = raw_file(t(big)), behind = raw_file(big, header = as.raw(1:24)),
    single = raw_file(big, 4L), short = raw_file(c(big[1:3, ])), none = raw_file(numeric()))
  tryCatch(gpu_reader(files$columns, direct = TRUE), verdigris_error_file = function(e) skip(conditionMessage(e)))
  for (x in list(gpu_reader(files$columns, c(NA, 3), direct = TRUE), gpu_reader(files$rows, c(NA, 3), byrow = TRUE,
    direct = TRUE), gpu_reader(files$behind, c(NA, 3), offset = 24, direct = TRUE), gpu_reader(files$single, c(NA, 3),
    dtype = "float32", direct = TRUE))) {
    expect_output(print(x), "read without the page cache")
    expect_identical(collect(x), unname(big))
    expect_identical(x[c(5, 99999, 50000), 2:3], unname(big[c(5, 99999, 50000), 2:3]))
    for (chunk in c(1000, 33333)) expect_identical(gpu_chunked(x, function(x) collect(x), rbind, margin = 1,
      chunk = chunk), unname(big))
    expect_identical(colSums(x), unname(colSums(big)))
    # as another process opens it
    expect_identical(collect(unserialize(serialize(x, NULL))), unname(big))
  }
  expect_identical(collect(gpu_reader(files$short, c(3, 3), direct = TRUE)), unname(big[1:3, ]))
  expect_identical(collect(gpu_reader(files$none, direct = TRUE)), numeric())
  expect_output(print(gpu_reader(files$columns)), "^(?!.*page cache)", perl = TRUE)
  x <- gpu_reader(files$columns, direct = TRUE)
  writeBin(as.vector(big[1:10, ]), files$columns)
  expect_error(collect(x), "become shorter", class = "verdigris_error_file")
  for (direct in list(1, "yes", NULL, c(TRUE, FALSE))) expect_error(gpu_reader(files$rows, direct = direct), "`direct`",
    class = "verdigris_error_argument")
})
