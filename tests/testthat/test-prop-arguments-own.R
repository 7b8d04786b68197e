# Wrong arguments and options of the package's own: a classed error that names them.

refused <- function(code, pattern = NULL) expect_error(code, pattern, class = "verdigris_error")

test_that("arguments that nothing takes are refused", {
  misspelt <- function(code) expect_error(code, class = "rlib_error_dots_nonempty")
  misspelt(as_gpu(c(1, 2), dtpye = "float32"))
  misspelt(as_gpu(gpu(c(1, 2)), dtpye = "float32"))
  misspelt(as_gpu(data.frame(a = 1), dtpye = "float32"))
  misspelt(collect(gpu(1), "a"))
  misspelt(collect(1, 2))
  misspelt(collect(list(gpu(1)), 2))
})

test_that("words, functions and extents are checked by name", {
  x <- gpu(c(1, 2, 3))
  for (odd in list(NULL, NA, 1, "nonsense", character(), c("sum", "sum"), list("sum"), sum, factor("sum"))) {
    refused(gpu_roll(x, 2, odd), "`f` must be one of \"sum\"")
    refused(gpu_roll(x, 2, align = odd), "`align` must be one of")
    refused(gpu_group(x, c(1, 1, 2), odd), "`f` must be one of")
    refused(gpu_compile(function(x) x, bounds = odd), "`bounds` must be one of")
    refused(gpu_code(gpu_compile(function(x) x), odd), "`type` must be one of")
  }
  for (odd in list(NULL, NA, 1, "no such function", character(), list())) {
    refused(gpu_chunked(c(1, 2), odd), "`f` must be a function")
    refused(gpu_chunked(c(1, 2), sum, combine = odd), "`combine` must be a function")
  }
  expect_identical(gpu_chunked(c(1, 2, 3), "sum", combine = "+", chunk = 2, device = test_device), 6)
  for (odd in list(NULL, NA, NaN, Inf, -Inf, -1, 0.5, "a", list(1), sum, character(), TRUE)) {
    refused(gpu_full(1, odd), "`dim` must be whole numbers")
    if (!identical(odd, -1)) refused(gpu_as_strided(x, 2, 1, odd), "`offset` must be one whole number")
    if (!is.null(odd) && !identical(odd, -1)) refused(gpu_as_strided(x, 2, odd), "`strides` must be")
    refused(gpu_roll(x, odd), "`width` must be a whole number")
  }
  refused(gpu_rgamma(2, 1, rate = "a"), "`rate` must be")
  refused(gpu_rbeta(2, "a", 1, 0), "`shape1` must be")
  refused(gpu_group(x, c(1, 1, 2), na.rm = NA), "`na.rm` must be TRUE or FALSE")
  refused(gpu_map(function(x) x + 1, x, 2), "do not fit the parameters")
  refused(gpu_map(function(x) x + 1, x, MoreArgs = 2), "`MoreArgs` must be a list or NULL")
})

test_that("factors, times and language are no counts, extents, addresses or values", {
  x <- gpu(c(1, 2, 3))
  for (odd in list(factor("b"), as.Date("2020-01-01"), Sys.time(), as.difftime(1, units = "secs"))) {
    refused(gpu_pinned(odd), "`n` must be")
    refused(gpu_full(odd, 2), "`value` must be one number")
    refused(gpu_from_pointer(odd, 1, "float64", device = test_device), "`address` must be an address")
    refused(gpu_array_interface(x, stream = odd), "`stream` must be an address")
  }
  for (odd in list(y ~ x, quote(f(x)), quote(x))) {
    refused(gpu_rnorm(odd), "`n` must be")
    refused(gpu_group(gpu(1:3 + 0), if (is.symbol(odd)) list(odd) else odd), "`group` must be")
  }
  for (odd in list(NA, NA_character_, list(), character(), sum, 1:2, c("int32", "int32"), Sys.time(), "nonsense"))
    refused(gpu_sample_int(5, 2, dtype = odd), "dtype")
  for (odd in list(1, "a", NA, quote(x))) {
    refused(gpu_from_array_interface(gpu_array_interface(x), on_free = odd), "`on_free` must be NULL or a function")
    refused(gpu_map(function(x, k) x + k, x, MoreArgs = odd), "`MoreArgs` must be a list or NULL")
  }
  refused(gpu_seq(NULL, 3), "`from` must be")
  skip_if_not_installed("bit64")
  expect_identical(collect(gpu_full(bit64::as.integer64(3), 2, device = test_device)), bit64::as.integer64(c(3, 3)))
})

test_that("a pointer or capsule gives no more than the memory that it is of", {
  x <- gpu(c(1, 2, 3))
  p <- gpu_pointer(x)
  for (wrong in list(quote(gpu_from_pointer(p, dim = 1e4)), quote(gpu_from_pointer(p, dim = 3, strides = -1)),
    quote(gpu_from_pointer(p, dim = c(2, 1e4), dtype = "uint8")),
    quote(gpu_from_pointer(p$owner, 1e4, "float64", device = test_device)))) {
    expect_error(eval(wrong), "extend beyond the .* bytes", class = "verdigris_error_shape")
  }
  expect_identical(collect(gpu_from_pointer(p, dim = 3)), c(1, 2, 3))
  expect_length(gpu_from_pointer(p, dim = 24, dtype = "uint8"), 24L)
  capsule <- as_dlpack(x)
  refused(gpu_from_pointer(capsule, 3, "float64", device = test_device), "not a DLPack capsule")
  refused(gpu_array_interface(x, stream = capsule), "not a DLPack capsule")
  expect_identical(collect(from_dlpack(capsule)), c(1, 2, 3))
  refused(gpu_from_pointer(capsule, 3, "float64", device = test_device), "not a DLPack capsule")
})

test_that("options with values that mean nothing are refused where they are first looked at", {
  x <- gpu(runif(9))
  for (odd in list("eror", NA, 1, c("allow", "error"), character(), list())) {
    withr::with_options(list(verdigris.host_access = odd), {
      refused(.Call(get("C_cor", asNamespace("stats")), gpu(runif(9)), NULL, 4L, FALSE), "verdigris.host_access")
      refused(apply(gpu(matrix(1:4, 2)), 1, function(r) r[1]), "verdigris.host_access")
    })
  }
  # looked at where memory is asked of the system, which the pool does not serve
  values <- runif(4e6)
  for (odd in list(c(1, 2), "a", NA, NaN, -1, 0, TRUE, numeric(), c(nonsense = 1e9), list(1))) {
    withr::with_options(list(verdigris.memory_limit = odd), refused(gpu(values), "verdigris.memory_limit"))
  }
  withr::with_options(list(verdigris.memory_limit = c(cpu = 0.9, cuda = 0.9)), expect_length(gpu(runif(10)), 10L))
})
