# Wrong tensors, made by the package in exchanger/: each is refused with a classed error and still belongs to its owner,
# or it becomes an array that can be read. VERDIGRIS_EXAMPLES=all fuzzes longer.

base <- list() # eight doubles, 1-d
big <- 2^62
wild <- list(
  argument = list(
    list(data = 0), list(data = 0, shape = c(2, 4), strides = c(1, 2)), list(data = 8), list(data = 2^46),
      list(data = 2^47 - 8), list(data = 16, shape = 1),
    list(data = 0x7ffffffff000), list(data = 2^40, shape = 1e6), list(shape = 2^45),
      list(shape = c(2^22, 2^20), strides = c(1, 2^22)),
    list(strides = 2^42), list(shape = 2^58, strides = 0), list(shape = c(2, 2), strides = c(2^44, 1)),
      list(offset = 2^44), list(offset = 2^46 + 8),
    list(ndim = -1), list(ndim = -2^31), list(ndim = 1e9), list(ndim = 2^31 - 1), list(shape = -1),
      list(shape = c(2, -3), strides = c(1, 1)), list(shape = -2^62),
    list(shape_at = 0), list(shape_at = 8), list(shape_at = 16, ndim = 2), list(shape_at = 2^46), list(shape_at = 1),
      list(strides_at = 1), list(strides_at = 8),
    list(strides_at = 2^46), list(strides_at = 0x7ffffffff008), list(shape_at = 2^47 - 8, ndim = 3),
    list(tensor_at = 8), list(tensor_at = 2^46), list(tensor_at = 9), list(tensor_at = 0x7ffffffff000),
      list(tensor_at = 2^47 - 8), list(tensor_at = 4096),
    list(bits = 0), list(lanes = 0), list(tag = quote(another)), list(tag = NULL), list(tag = "dltensor"),
      list(tag = 1), list(tag = quote(dltensor_)),
    list(tag = quote(DLTENSOR)), list(tag = quote(used))
  ),
  consumed = list(list(tensor_at = 0), list(tag = quote(used_dltensor)), list(tag = quote(used_dltensor_versioned))),
  shape = list(
    list(strides = big), list(strides = -big), list(strides = 2^60), list(strides = -2^61),
      list(shape = c(4, 4), strides = c(2^61, 2^61)),
    list(shape = c(2, 2), strides = c(-2^62, -2^62)), list(shape = c(2^31, 1), strides = c(0, 0)),
      list(shape = c(1, 2^40), strides = c(0, 0)),
    list(shape = c(0, 2^31), strides = c(1, 1)), list(strides = -2^42), list(offset = 2^64 - 2048),
      list(strides = -2^45)
  ),
  dtype = c(
    # uint: only 8 bits
    lapply(c(8, 16, 32, 64, 128), function(bits) list(code = 1, bits = bits,
      shape = 1)[seq_len(if (bits == 8) 0 else 3)])[-1],
    lapply(c(1, 4, 7, 8, 63, 128, 255), function(bits) list(code = 2, bits = bits, shape = 1)), # float
    lapply(c(1, 4, 12, 24, 128), function(bits) list(code = 0, bits = bits, shape = 1)), # int
    lapply(c(8, 32, 64), function(bits) list(code = 4, bits = bits, shape = 1)), # bfloat
    lapply(c(32, 256 - 64), function(bits) list(code = 5, bits = bits, shape = 1)), # complex
    lapply(c(1, 16, 32), function(bits) list(code = 6, bits = bits, shape = 1)), # bool
    # handles, float8 and what is unknown
    lapply(c(3, 7, 8, 10, 17, 100, 255), function(code) list(code = code, bits = 8, shape = 1)),
    lapply(c(2, 4, 65535), function(lanes) list(lanes = lanes, shape = 1)),
    list(list(code = 6, bits = 8, fill = 2L), list(code = 6, bits = 8, fill = 255L))
  ),
  device = lapply(c(0, 4, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18, 99, -1, 2^31 - 1),
    function(type) list(device = type))
)

test_that("forged tensors are refused by classed errors, and stay their owner's", {
  e <- exchanger()
  collect_garbage()
  e$deleted()
  count <- 0
  for (kind in names(wild)) {
    for (fields in wild[[kind]]) {
      for (versioned in c(TRUE, FALSE)) {
        said <- paste(kind, deparse(fields, width.cutoff = 500L), if (versioned) "versioned" else "legacy")
        capsule <- e$forge(fields, versioned)
        copy <- if (versioned) NULL else count %% 4 == 1
        got <- tryCatch(from_dlpack(capsule, copy = copy), error = function(e) class(e)[[1]])
        expect_identical(got, paste0("verdigris_error_", kind), label = said)
        count <- count + 1
      }
    }
  }
  expect_gte(count, 200)
  rm(capsule)
  collect_garbage()
  # those with a tag or a place of their own have no finalizer; the others are deleted by their capsule
  own <- sum(vapply(unlist(wild, recursive = FALSE), function(f) is.null(f$tensor_at) && !"tag" %in% names(f), NA))
  expect_identical(e$deleted(), 2L * own)
})

test_that("versions: another major one is refused, another minor one and unknown flags are not", {
  e <- exchanger()
  for (major in c(0, 2, 3, 99, 2^31, 2^32 - 1))
    expect_error(from_dlpack(e$forge(list(major = major))), class = "verdigris_error_argument")
  for (minor in c(0, 1, 3, 99, 2^32 - 1)) expect_identical(sum(from_dlpack(e$forge(list(minor = minor)))), 28)
  for (flags in c(0, 1, 2, 4, 7, 2^40)) expect_identical(sum(from_dlpack(e$forge(list(flags = flags)))), 28)
})

test_that("what looks odd and is right comes in", {
  e <- exchanger()
  values <- function(...) collect(from_dlpack(e$forge(list(...))))
  expect_identical(values(shape = numeric()), 0) # 0-d
  expect_identical(values(shape = c(0, 3), data = 0), matrix(0, 0, 3))
  expect_identical(values(shape = 0, strides = 2^62), numeric())
  expect_identical(values(shape = 4, strides = 2), c(0, 2, 4, 6))
  expect_identical(values(shape = 4, strides = -2, offset = 56), c(7, 5, 3, 1))
  expect_identical(values(shape = c(3, 2), strides = c(0, 1)), matrix(c(0, 0, 0, 1, 1, 1), 3))
  expect_identical(values(shape = c(3, 4), strides = c(2, 1)), matrix(c(0, 2, 4, 1, 3, 5, 2, 4, 6, 3, 5, 7), 3))
  expect_identical(values(shape = 7, offset = 8), as.numeric(1:7))
  expect_identical(values(shape = c(1, 1, 8), strides = c(2^62, -2^62, 1)), array(as.numeric(0:7), c(1, 1, 8)))
  expect_identical(values(device = 3), as.numeric(0:7)) # pinned host memory
  # data that are not aligned are copied, or refused where that is forbidden
  odd <- e$forge(list(shape = 3, offset = 4))
  expect_error(from_dlpack(odd, copy = FALSE), class = "verdigris_error_argument")
  expect_length(from_dlpack(odd), 3)
})

test_that("memory that may not be read is refused", {
  skip_on_os(c("windows", "mac"))
  e <- exchanger()
  page <- e$reserved()
  skip_if(page == 0)
  expect_error(from_dlpack(e$forge(list(data = page, shape = 1024))), class = "verdigris_error_argument")
  expect_error(gpu_from_pointer(page, 8, "float64", device = "cpu"), class = "verdigris_error_argument")
  expect_error(gpu_from_pointer(page, 8192, "float64", device = "cpu"), class = "verdigris_error_argument")
})

test_that("fuzzed tensors end in a classed error or in an array", {
  e <- exchanger()
  collect_garbage()
  e$deleted()
  times <- if (Sys.getenv("VERDIGRIS_EXAMPLES") == "all") 50000 else 400
  set.seed(20261122)
  kinds <- paste0("verdigris_error_", c("argument", "shape", "dtype", "device", "library", "fork", "memory"))
  near <- c(-9:9, 2^c(20, 31, 32, 46, 47, 48, 62), -2^c(31, 47, 62))
  pick <- function(x, n = 1) x[sample.int(length(x), n, replace = TRUE)]
  errors <- 0
  # An error of rlang's takes ten times as long as all else, most of it for its backtrace: from the 401st tensor on it
  # has none.
  plain <- function(kind, message, ...) {
    stop(structure(list(message = message, call = NULL), class = c(paste0("verdigris_error_", kind), "verdigris_error",
      "error", "condition")))
  }
  before <- verdigris:::stop_verdigris
  withr::defer(utils::assignInNamespace("stop_verdigris", before, "verdigris"))
  for (k in seq_len(times)) {
    if (k == 401L) utils::assignInNamespace("stop_verdigris", plain, "verdigris")
    fields <- list()
    if (runif(1) < 0.7) {
      n <- pick(0:4)
      fields$shape <- as.numeric(if (runif(1) < 0.5) pick(0:4, n) else pick(near, n))
      fields$strides <- as.numeric(if (runif(1) < 0.5) pick(-2:4, n) else pick(near, n))
    }
    if (runif(1) < 0.3) fields$code <- pick(0:18)
    if (runif(1) < 0.3) fields$bits <- pick(c(0, 1, 4, 8, 16, 32, 64, 128, 255))
    if (runif(1) < 0.1) fields$lanes <- pick(0:3)
    if (runif(1) < 0.2) fields$device <- pick(c(1, 1, 3, 0:20))
    if (runif(1) < 0.1) fields$id <- pick(near)
    if (runif(1) < 0.3) fields$offset <- pick(abs(near))
    if (runif(1) < 0.1) fields$data <- pick(abs(near))
    if (runif(1) < 0.05) fields$ndim <- pick(near[abs(near) < 2^31])
    if (runif(1) < 0.1) fields$major <- pick(0:3)
    got <- tryCatch(
      {
        y <- from_dlpack(e$forge(fields, runif(1) < 0.5), copy = pick(list(NULL, TRUE, FALSE))[[1]])
        if (length(y) < 1e5) collect(y)
        TRUE
      },
      error = function(e) e
    )
    if (!isTRUE(got)) errors <- errors + 1
    if (!isTRUE(got) && !class(got)[[1]] %in% kinds)
      fail(paste(deparse(fields), class(got)[[1]], conditionMessage(got)))
  }
  expect_gt(errors, times / 4)
  expect_lt(errors, times)
  rm(y, got)
  collect_garbage()
  expect_equal(e$deleted(), times)
})
