# Invalid values of options and environment variables: an error of class verdigris_error_argument that names the option
# and the way back.

odd_values <- list(NA, NA_character_, NA_real_, NaN, Inf, -1, 0, 0.5, 1, 2L, 1.5, 1e300, "nonsense", "", "2", TRUE,
  FALSE, 1i, as.raw(1), list(1), list(), numeric(), character(), c("a", NA), c(1, 2), c(TRUE, FALSE), sum,
  factor("cpu"), as.Date("2020-01-01"), globalenv(), matrix("cpu", 2))

# A function of the user's: test files are within the package's namespace.
as_user <- function(f) {
  environment(f) <- new.env(parent = globalenv())
  f
}

# Of each option: the values above that mean something, and a use of it. What is read once is read by start_options.
start <- function() .Call(verdigris:::C_start_options)
uses <- list(
  verdigris.host_access = list(function(v) FALSE, function() apply(gpu(matrix(1:4, 2)), 1, function(r) r[1])),
  verdigris.matmul_precision = list(function(v) FALSE, function() gpu(matrix(1:4 / 2, 2)) %*% gpu(matrix(1:4 / 2, 2))),
  verdigris.device = list(function(v) FALSE, function() as_gpu(1)),
  # the user's code: what the package makes for itself does not ask
  verdigris.dtype = list(function(v) FALSE, as_user(function() as_gpu(1))),
  verdigris.cuda_path = list(function(v) is.character(v) && !anyNA(v), function() gpu_devices()),
  verdigris.memory_limit = list(function(v) is.numeric(v) && !is.object(v) && length(v) == 1L && isTRUE(v > 0),
    function() gpu_memory(test_device)),
  verdigris.pinned_limit = list(function(v) is.numeric(v) && !is.object(v) && length(v) == 1L && isTRUE(v >= 0),
    function() gpu_pinned(1e5)),
  verdigris.transfer_threads = list(function(v) (identical(v, 1) || identical(v, 2L)), function() gpu(numeric(2e6))),
  verdigris.debug = list(function(v) is.logical(v) && length(v) == 1L && !is.na(v), function() {
    f <- gpu_kernel("extern \"C\" __global__ void f(float* x) { x[0] = 1; }")
    f(as_gpu(1, "float32", device = test_device), grid = 1, block = 1)
  })
)

test_that("each option refuses each value that means nothing, and the default comes back", {
  before <- gpu_use(NULL)
  withr::defer(gpu_use(before))
  for (name in names(uses)) {
    right <- uses[[name]][[1L]]
    use <- uses[[name]][[2L]]
    if (test_device == "cpu" && name %in% c("verdigris.matmul_precision", "verdigris.transfer_threads",
      "verdigris.pinned_limit", "verdigris.debug")) next
    gpu_use(if (!name %in% c("verdigris.device", "verdigris.cuda_path")) test_device)
    for (value in odd_values) if (!right(value)) {
      cases$n <- cases$n + 1L
      error <- withr::with_options(stats::setNames(list(value), name), tryCatch(use(), error = identity))
      label <- paste0(name, " = ", deparse1(value))
      # a name that is no device's has that class
      class <- if (name == "verdigris.device" && is.character(value) && is.null(dim(value)) && length(value) == 1L &&
        !is.na(value) && nzchar(value)) "verdigris_error_device" else "verdigris_error_argument"
      expect_s3_class(error, class)
      text <- if (inherits(error, "condition")) conditionMessage(error) else "no error"
      expect(grepl(paste0("`", name, "`"), text, fixed = TRUE) && grepl(paste0("`options(", name, " = NULL)`"), text,
        fixed = TRUE), paste0(label, ": ", text))
    }
    expect_no_error(use())
  }
  expect_cases(if (test_device == "cpu") 100L else 200L)
})

test_that("names of devices are looked at, and other attributes are none", {
  withr::with_options(list(verdigris.memory_limit = c(nonsense = 1e9)), expect_error(gpu_memory(test_device),
    "verdigris.memory_limit", class = "verdigris_error_argument"))
  withr::with_options(list(verdigris.memory_limit = c(cpu = 0.5, cuda = 0.5)), expect_no_error(gpu_memory(test_device)))
})

test_that("a transfer that an option stops leaves what it would have changed", {
  skip_if(test_device == "cpu", "there are no transfers")
  x <- gpu(as.double(1:2e6))
  z <- x + 0
  withr::with_options(list(verdigris.transfer_threads = "many"), {
    expect_error(cumsum(as.vector(z)), "verdigris.transfer_threads", class = "verdigris_error_argument")
    expect_error(gpu(numeric(2e6)), "verdigris.transfer_threads", class = "verdigris_error_argument")
  })
  expect_identical(as.vector(z), as.double(1:2e6))
})

# What a child that loads the package says: at loading, at the first use of a GPU, and once that is mended.
started <- function(before, mended, env = character()) {
  in_child(c(
    before, "said <- function(e) cat(class(e)[1], gsub('\\n', ' ', conditionMessage(e)), '\\n')",
    "withCallingHandlers(library(verdigris), packageStartupMessage = function(m) { if (!grepl('gpu_sitrep', conditionMessage(m))) cat('library', conditionMessage(m)); invokeRestart('muffleMessage') })",
    "cat('cpu', sum(as_gpu(c(1, 2), device = 'cpu')), '\\n')", "invisible(tryCatch(gpu_devices(), error = said))",
      "invisible(capture.output(suppressMessages(gpu_sitrep())))",
    mended, "cat('rows', nrow(gpu_devices()) > 0, '\\n')"
  ), attach = FALSE, env = env)
}

test_that("options that are read once are said at loading, refused at the first use of a GPU, and read again", {
  wrong <- list(
    verdigris.tier = list("quick", NA, 1, c("auto", "auto")), verdigris.cache_size = list("much", NA_real_, -1, c(1, 2),
      TRUE, factor("a")),
    verdigris.cache_dir = list(TRUE, 1, "", character(), c("a", "b"), list("a"))
  )
  every <- unlist(lapply(names(wrong), function(name) lapply(wrong[[name]], function(value) list(name, value))),
    recursive = FALSE)
  # one value of each in a process of its own, all others in one
  for (name in names(wrong)) {
    out <- started(sprintf("options(%s = %s)", name, deparse1(wrong[[name]][[1L]])),
      sprintf("options(%s = NULL)", name))
    expect_identical(attr(out, "status"), 0L)
    said <- paste(out, collapse = "\n")
    expect_match(said, paste0("library Option `", name, "` must be"))
    expect_match(said, "cpu 3", fixed = TRUE)
    expect_match(said, paste0("verdigris_error_argument Option `", name, "` must be .*`options\\(", name,
      " = NULL\\)`"))
    expect_match(said, "rows TRUE", fixed = TRUE)
  }
  code <- c(
    "options(verdigris.tier = 1)", "suppressMessages(library(verdigris))", "options(verdigris.tier = NULL)",
    vapply(every, function(one) {
      sprintf("options(%s = %s); cat(tryCatch({ verdigris::gpu_devices(); 'nothing' }, error = function(e) class(e)[1]), '\\n'); options(%s = NULL)", one[[1L]], deparse1(one[[2L]]), one[[1L]])
    }, "")
  )
  out <- in_child(code, attach = FALSE)
  expect_identical(trimws(as.vector(out)), rep("verdigris_error_argument", length(every)))
  out <- started("options(verdigris.cache_dir = NA, verdigris.cache_size = 0L, verdigris.tier = 'auto')", NULL)
  expect_identical(trimws(as.vector(out)), c("cpu 3", "rows TRUE"))
})

test_that("environment variables that mean nothing are refused in the same way", {
  for (name in c("VERDIGRIS_TIER", "VERDIGRIS_SUBMIT")) {
    out <- paste(started(NULL, sprintf("Sys.unsetenv('%s')", name), env = paste0(name, "=nonsense")), collapse = "\n")
    expect_match(out, paste0("library Environment variable `", name, "` must be"))
    expect_match(out, paste0("verdigris_error_argument Environment variable `", name,
      "` must be .* not \"nonsense\".*Sys.unsetenv"))
    expect_match(out, "rows TRUE", fixed = TRUE)
  }
})

test_that("gpu_sitrep() shows options that there are not, paths that do not exist, and goes on where one is wrong", {
  withr::local_options(verdigris.memory_limt = 0.5, verdigris.cuda_path = "/nowhere/at/all")
  out <- paste(capture.output(gpu_sitrep()), collapse = "\n")
  expect_match(out, "verdigris.memory_limt = 0.5: there is no such option", fixed = TRUE)
  expect_match(out, "/nowhere/at/all does not exist", fixed = TRUE)
  withr::local_options(verdigris.cuda_path = 1)
  out <- paste(capture.output(gpu_sitrep()), collapse = "\n")
  expect_match(out, "Option `verdigris.cuda_path` must be", fixed = TRUE)
})

test_that("option verdigris.dtype says what arrays are made of doubles, and nothing else", {
  made <- as_user(function(device) {
    gpu_use(device)
    x <- as_gpu(c(0.1, 2))
    frame <- as_gpu(data.frame(a = c(0.5, 1), b = 1:2, c = TRUE))
    wide <- as_gpu(c(0.1, 2), "float64")
    arrays <- list(double = x, matrix = as_gpu(matrix(0.5, 2, 2)), complex = as_gpu(1i), integer = as_gpu(1:2),
      logical = as_gpu(TRUE), frame = frame$a, frame_integer = frame$b, full = gpu_full(0.5, 2), whole = gpu_full(1L, 2),
      zeros = gpu_zeros(2), ones = gpu_ones(c(2, 2)), empty = gpu_empty(2), seq = gpu_seq(0, 1, by = 0.5),
      seq_integer = gpu_seq(1, 3), uniform = gpu_runif(2), normal = gpu_rnorm(2), normals = gpu_rnorm(2, c(0, 1)),
      exponential = gpu_rexp(2), gamma = gpu_rgamma(2, 1), beta = gpu_rbeta(2, 1, 2, 1), t = gpu_rt(2, 3, 1),
      multivariate = gpu_rmvnorm(2, c(0, 1)), counts = gpu_rpois(2, 3), sample = gpu_sample(c(0.1, 0.2), 2),
      positions = gpu_sample(3, 2), named = as_gpu(1, "float64"), zeros_named = gpu_zeros(2, "float64"), again = as_gpu(wide),
      beside = wide + c(0.1, 0.2), beside_number = wide * 0.1, narrow = x * 0.1, integers = as_gpu(1:2) / 2L,
      mapped = lapply(list(1), as_gpu)[[1L]], covariance = wide %*% as_gpu(diag(2), "float64"),
      chunk = gpu_chunked(c(0.5, 1), function(v) v, combine = list)[[1L]])
    gpu_use(NULL)
    vapply(arrays, function(a) if (is_gpu(a)) gpu_dtype(a) else typeof(a), "")
  })
  wide <- made(test_device)
  expect_identical(withr::with_options(list(verdigris.dtype = "float64"), made(test_device)), wide)
  narrow <- withr::with_options(list(verdigris.dtype = "float32"), made(test_device))
  kept <- c("named", "zeros_named", "again", "beside", "beside_number", "integers", "covariance")
  expected <- ifelse(wide == "float64" & !names(wide) %in% kept, "float32", ifelse(wide == "complex128", "complex64", wide))
  expect_identical(narrow, expected)
  expect_true(all(c("double", "frame", "zeros", "empty", "uniform", "t") %in% names(narrow)[narrow == "float32"]))
  # what the package computes by arrays of its own is as exact as ever
  exact <- as_user(function(x) list(cov = cov(x, as.vector(x)[c(3, 1, 2)]), median = tapply(x, c(1, 1, 2), median)))
  x <- gpu(c(0.1, 1 / 3, 2 / 7))
  expect_identical(withr::with_options(list(verdigris.dtype = "float32"), exact(x)), exact(x))
  expect_identical(withr::with_options(list(verdigris.dtype = "float32"), composed(exact(x))), composed(exact(x)))
})
