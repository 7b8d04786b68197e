# One word for each meaning over the arguments of the package's own functions; base R's words where a function has the
# arguments of one of base R's. CONTRIBUTING.md states the rule.

# The synonyms of each word, which no function of the package's own has.
synonyms <- list(
  x = c("data", "X", "S", "object", "arr", "array", "tensor", "vec"),
  A = c("a", "M", "mat", "matrix"),
  dtype = c("type", "mode", "dt"),
  device = c("dev", "gpu", "where", "on"),
  dim = c("dims", "shape", "size", "extent", "extents", "sizes"),
  margin = c("MARGIN", "axis", "axes", "along", "dimension"),
  n = c("N", "length", "len", "count", "nrow"),
  width = c("window_length", "win", "len_window"),
  f = c("FUN", "fun", "fn", "func", "FN"),
  expr = c("code", "expression", "body"),
  group = c("g", "by", "groups", "INDEX", "index"),
  path = c("file", "filename", "con", "fname"),
  names = c("labels"),
  na.rm = c("na_rm", "narm"),
  tol = c("tolerance", "eps", "epsilon"),
  max_iter = c("maxit", "maxiter", "max.iter", "iter.max", "iterations"),
  seed = c("rng", "random_state"),
  stream = c("queue"),
  timeout = c("timeout_s", "wait", "seconds")
)

# Where a word has another meaning: the kind of a result among names, source text, columns of clusters.
other_meanings <- c("gpu_code type", "gpu_window type", "gpu_vcov type", "gpu_kernel code", "gpu_module code")

# Functions with the arguments of one of base R's or of stats', which keep its words; what they have besides is theirs.
twins <- c(gpu_lm = "lm", gpu_glm = "glm", gpu_kmeans = "kmeans", gpu_seq = "seq.default", gpu_sample = "sample",
  gpu_sample_int = "sample.int", gpu_rmvnorm = NA, gpu_rwishart = "rWishart", gpu_map = "mapply")

own <- function() {
  names <- sort(getNamespaceExports("verdigris"))
  names <- grep("^(gpu_|as_|from_|is_|with_|local_|collect$)", names, value = TRUE)
  functions <- lapply(stats::setNames(nm = names), getExportedValue, ns = "verdigris")
  Filter(is.function, functions)
}
# Of a distribution it is stats' own function.
twin_of <- function(name) {
  base <- if (name %in% names(twins)) twins[[name]] else sub("^gpu_r", "r", name)
  if (!is.na(base) && grepl("^gpu_", name) && base != name && exists(base, envir = asNamespace("stats")))
    names(formals(args(get(base, envir = asNamespace("stats"))))) else character()
}

test_that("no argument has another word for a meaning that has one", {
  banned <- unlist(synonyms, use.names = FALSE)
  expect_identical(anyDuplicated(banned), 0L)
  expect_length(intersect(banned, names(synonyms)), 0L)
  found <- character()
  for (name in names(own())) for (argument in names(formals(args(own()[[name]])))) {
    if (!argument %in% banned || argument %in% twin_of(name) || paste(name, argument) %in% other_meanings) next
    word <- names(Filter(function(words) argument %in% words, synonyms))
    found <- c(found, sprintf("%s(%s): `%s` is written `%s`", name, argument, argument, word))
  }
  expect_identical(found, character())
})

test_that("what is allowed is there", {
  functions <- own()
  expect_gt(length(functions), 90L)
  for (one in strsplit(other_meanings, " ")) expect_true(one[2L] %in% names(formals(functions[[one[1L]]])))
  expect_true(all(names(twins) %in% names(functions)))
})

test_that("words have one form: small letters, with underscores; base R's where it has them", {
  # base R's own spellings, by which users know them
  base <- c("na.rm", "na.action", "length.out", "iter.max", "MoreArgs", "singular.ok", "fe.control", "Sigma", "A",
    ".local_envir")
  for (name in names(own())) {
    arguments <- setdiff(names(formals(args(own()[[name]]))), c(base, "..."))
    expect_identical(grep("^[a-z][a-z0-9_]*$", arguments, value = TRUE, invert = TRUE), character(), label = name)
  }
})

test_that("an old name is R's ordinary error", {
  unused <- function(code) expect_error(code, "unused argument")
  unused(gpu_knn(data = gpu(1:3 + 0)))
  unused(gpu_dense(S = gpu(1)))
  unused(gpu_solve(a = gpu(diag(2)), b = 1:2))
  unused(with_gpu("cpu", code = 1))
  unused(with_gpu_stream(NULL, code = 1))
  unused(gpu_sparse(i = 1, j = 1, dims = c(1, 1)))
  unused(gpu_roll(gpu(1:3), k = 2))
  unused(gpu_writer("a.bin", type = "float32"))
  unused(gpu_pinned(2, type = "double"))
  # what has dots passes it on, and a generic's dots are empty
  expect_error(gpu_apply(gpu(matrix(1, 2, 2)), MARGIN = 1, function(x) sum(x)), "`margin` must be")
  path <- raw_file(c(1, 2))
  expect_error(gpu_reader(path, type = "float64"), class = "rlib_error_dots_nonempty")
})
