# Every exported function of the package's own, each argument, values that mean nothing there: the call works, or fails
# with a class of the package. A tenth of the calls, another one each day; VERDIGRIS_EXAMPLES=all makes all.

wrong_values <- list(
  "NULL" = NULL, "NA" = NA, string = "a", "no string" = NA_character_, empty = "", strings = c("a", "b"),
  none = character(), negative = -1, complex = 1i, list = list(), "list of 1" = list(1), two = c(1, 2),
  infinite = Inf, "not a number" = NaN, nothing = numeric(), huge = 1e300, half = 0.5, logical = TRUE,
  "function" = function(x) x, environment = globalenv(), symbol = quote(a), call = quote(f(x)), factor = factor("a"),
  date = as.Date("2020-01-01"), frame = data.frame(a = 1), raw = as.raw(1), array = gpu(c(1, 2, 3))
)

# Right values, by the names of arguments, where there is no default.
right_values <- function() {
  x <- gpu(c(3, 1, 2))
  list(x = x, y = x, n = 3, f = function(a) a + 1, group = c(1, 2, 1), k = 2, width = 2, margin = 1, prob = 0.5, size = 2, shape = 1, df = 3,
    lambda = 2, m = 2, nn = 2, value = 1, dim = 3, from = 0,
    path = withr::local_tempfile(.local_envir = parent.frame()),
    shape1 = 1, shape2 = 1, stream = NULL, event = gpu_event(), name = "k", address = gpu_pointer(x), strides = 1,
    formula = mpg ~ wt, data = mtcars, fit = gpu_lm(mpg ~ wt, mtcars, device = test_device),
    interface = gpu_array_interface(x), capsule = as_dlpack(x), expr = quote(1 + 1), out = x, to = gpu_pinned(3))
}

# Functions that take base R's arguments, and say base R's words of them; those of their own are as elsewhere.
as_base <- function(name, argument) name %in% c("gpu_lm", "gpu_glm") && !argument %in% c("fe", "fe.control", "device")

# What decides of itself how long it takes, waits for the user, or is base R's function.
not_called <- c("gpu_chunked x", "gpu_sitrep", "gpu_example", "start_torch", "as_torch")

own_functions <- function() {
  names <- sort(getNamespaceExports("verdigris"))
  names <- names[grepl("^(gpu_|as_gpu|as_dlpack|from_dlpack|is_gpu|collect)", names) & !names %in% not_called]
  names[vapply(names, function(name) is.function(getExportedValue("verdigris", name)), NA)]
}

# One call, in which `argument` has a value; NULL, or what is wrong with how it failed.
call_with <- function(name, argument, value, others) {
  f <- getExportedValue("verdigris", name)
  formals <- formals(args(f))
  given <- list()
  for (other in setdiff(names(formals), c("...", argument))) {
    # prob and mu of one distribution exclude each other
    if (identical(formals[[other]], quote(expr = )) && !(name == "gpu_rnbinom" && other == "mu"))
      given[other] <- list(others[[other]])
  }
  given[argument] <- list(value)
  if (name == "gpu_rnbinom" && argument == "mu") given$prob <- NULL
  failed <- tryCatch({
    out <- suppressWarnings(do.call(f, given, quote = TRUE))
    if (is_gpu(out)) suppressWarnings(as.vector(out))
    NULL
  }, error = identity)
  if (is.null(failed) || as_base(name, argument)) return(NULL)
  if (inherits(failed, "verdigris_error") && !inherits(failed, "verdigris_error_panic")) return(NULL)
  sprintf("[%s] %s", class(failed)[1L], conditionMessage(failed))
}

test_that("wrong arguments of the package's own functions are classed errors", {
  skip_on_cran()
  withr::local_options(verdigris.host_access = "allow")
  withr::local_dir(withr::local_tempdir()) # "a" is a path, too
  before <- gpu_use(NULL)
  withr::defer(gpu_use(before))
  found <- list()
  all <- identical(Sys.getenv("VERDIGRIS_EXAMPLES"), "all")
  day <- as.integer(format(Sys.Date(), "%j"))
  for (name in own_functions()) {
    others <- right_values()
    for (argument in setdiff(names(formals(args(getExportedValue("verdigris", name)))), "...")) {
      if (paste(name, argument) %in% not_called) next
      for (what in names(wrong_values)) {
        cases$met <- cases$met + 1L
        if (!all && cases$met %% 10L != day %% 10L) next
        cases$n <- cases$n + 1L
        said <- call_with(name, argument, wrong_values[[what]], others)
        if (!is.null(said)) found <- c(found, sprintf("%s(%s = %s): %s", name, argument, what, said))
      }
      gpu_use(test_device)
    }
  }
  expect_all_same(found)
  expect_identical(as.vector(gpu(c(1, 2)) + 1), c(2, 3))
  expect_cases(if (all) 4000L else 400L)
})
