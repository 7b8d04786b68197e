# Calls of sparse matrices, one a line, made by package Matrix on its own objects and by the package on theirs.

# Matrices of Matrix: shapes, elements that are missing, infinite, or 0 and stored, names, logical values.
sparse_inputs <- function() {
  from <- function(i, j, x, dims, dimnames = list(NULL, NULL))
    Matrix::sparseMatrix(i = i, j = j, x = x, dims = dims, dimnames = dimnames, repr = "C")
  none <- function(dims, x = numeric()) from(integer(), integer(), x, dims)
  random <- function(m, n, k, seed) {
    set.seed(seed)
    at <- sample.int(m * n, k) - 1L
    from(at %% m + 1L, at %/% m + 1L, sample(c(-3:-1, 1:4, 0.5), k, TRUE), c(m, n))
  }
  named <- function(S) {
    dimnames(S) <- list(paste0("r", seq_len(nrow(S))), paste0("c", seq_len(ncol(S))))
    S
  }
  logical <- random(6L, 4L, 9L, 4L) > 0
  list(
    plain = random(7L, 5L, 14L, 1L),
    named = named(random(5L, 8L, 13L, 2L)),
    square = named(random(6L, 6L, 15L, 3L)),
    odd = from(c(1, 3, 2, 3, 1, 4, 2, 4), c(1, 1, 2, 4, 4, 5, 5, 6), c(1, -2, NA, 0, Inf, NaN, -Inf, 2), c(4L, 6L)),
    zeros = from(c(1, 2, 2, 3), c(1, 1, 3, 2), c(0, 2, 0, -0), c(3L, 3L)),
    holes = from(c(2, 9, 5), c(2, 2, 4), c(3, -1, 4), c(9L, 4L), list(NULL, letters[1:4])),
    full = from(rep(1:3, 2), rep(1:2, each = 3), c(1, -2, 3, 4, 5, -6), c(3L, 2L)),
    column = random(6L, 1L, 3L, 5L), row = random(1L, 6L, 3L, 6L), one = from(1, 1, 7, c(1L, 1L)),
    nothing = none(c(4L, 3L)), no_rows = none(c(0L, 3L)), no_columns = none(c(3L, 0L)), empty = none(c(0L, 0L)),
    logical = methods::as(methods::as(logical, "lMatrix"), "CsparseMatrix"),
    unsure = from(c(1, 2, 3, 3), c(1, 1, 2, 3), c(TRUE, NA, FALSE, TRUE), c(3L, 4L))
  )
}

# Those of the grids of calls: an emulated GPU takes its time.
grid_inputs <- function() {
  all <- sparse_inputs()
  if (emulated) all[setdiff(names(all), c("plain", "zeros", "column", "no_columns", "logical"))] else all
}

# The variables of the calls: S, a second one T of its shape, dense ones beside them (d of its shape, B and C of as many
# rows as it has columns and rows), and vectors (v as long as its columns are, w as its rows).
sparse_variables <- function(S) {
  m <- nrow(S)
  n <- ncol(S)
  set.seed(m + 10L * n)
  k <- m * n
  at <- which(rep_len(c(TRUE, FALSE, FALSE, TRUE, FALSE), k)) - 1L
  T <- Matrix::sparseMatrix(i = at %% max(m, 1L) + 1L, j = at %/% max(m, 1L) + 1L,
    x = rep_len(c(2, -1, 3, 0), length(at)), dims = c(m, n), repr = "C")
  small <- function(k) sample(c(-2:-1, 1:3), k, TRUE) + 0
  list(S = S, T = T, d = matrix(small(k), m, n), B = matrix(small(2L * n), n, 2L, dimnames = if (n) list(NULL,
    c("x", "y"))), C = matrix(small(2L * m), m, 2L), v = small(m), w = small(n))
}

# Where calls are evaluated: what is Matrix's is found first, or this package's masks.
beside_matrix <- function(variables) list2env(variables, parent = asNamespace("Matrix"))
beside_us <- function(variables) list2env(variables, parent = as.environment("package:verdigris"))

on_device <- function(variables, dtype = NULL) lapply(variables, function(x)
  if (isS4(x)) as_gpu(x, device = test_device, dtype = if (!inherits(x, "lsparseMatrix")) dtype) else
    if (is.matrix(x)) as_gpu(x, device = test_device, dtype = dtype) else x)

# What a call gave, as data: sparse or dense, its shape and names, and its numbers as doubles.
described_result <- function(v) {
  sparse <- inherits(v, "gpu_sparse") || isS4(v) && inherits(v, "sparseMatrix")
  if (isS4(v) && inherits(v, "sparseVector")) v <- as.vector(v)
  if (isS4(v)) v <- as.matrix(v)
  if (is_gpu(v)) v <- collect(v)
  if (is.atomic(v) && !is.character(v)) {
    names <- if (is.matrix(v)) dimnames(v) else names(v)
    if (is.list(names) && all(vapply(names, is.null, NA))) names <- NULL
    numbers <- as.double(v)
    v <- list(type = if (is.logical(v)) "logical" else "number", dim = dim(v), names = names, values = numbers)
  }
  list(sparse = sparse, value = v)
}

sparse_outcome <- function(call, frame) {
  value <- tryCatch(suppressMessages(suppressWarnings(eval(call, frame))), error = function(e) e)
  if (!inherits(value, "error")) return(described_result(value))
  list(failed = TRUE, panic = inherits(value, "verdigris_error_panic"), message = conditionMessage(value))
}

# Where two outcomes differ: a sentence, or NULL. `kind` is whether sparse and dense count.
sparse_difference <- function(got, want, tolerance = 1e-12, kind = TRUE, more = FALSE) {
  if (more && isTRUE(want$failed)) return(if (isTRUE(got$panic)) paste("panic:", got$message))
  if (isTRUE(got$panic)) return(paste("panic:", got$message))
  if (isTRUE(want$failed) != isTRUE(got$failed)) return(if (isTRUE(got$failed)) paste("failed:", got$message) else
    paste("did not fail:", want$message))
  if (isTRUE(want$failed)) return(NULL)
  if (kind && isTRUE(got$sparse != want$sparse)) return(if (got$sparse) "is sparse" else "is dense")
  a <- got$value
  b <- want$value
  if (!is.list(a) || !is.list(b) || is.null(a$type) || is.null(b$type))
    return(if (!isTRUE(all.equal(a, b, check.attributes = FALSE))) "differs")
  if (!identical(a$dim, b$dim)) return(paste("extents", deparse(a$dim), "are not", deparse(b$dim)))
  if (!identical(a$names, b$names)) return(paste("names", deparse1(a$names), "are not", deparse1(b$names)))
  if (length(a$values) != length(b$values)) return("length differs")
  off <- is.na(a$values) != is.na(b$values) | !is.na(a$values) & !is.na(b$values) & a$values != b$values &
    !(abs(a$values - b$values) <= tolerance * pmax(1, abs(b$values)))
  off <- off | is.na(off)
  if (any(off)) sprintf("%d of %d values differ; the first, [%d], is %s and not %s", sum(off), length(off),
    which(off)[1L], format(a$values[which(off)[1L]]), format(b$values[which(off)[1L]]))
}

# Makes each call, a string, of each matrix; gives a line for each that differs. Values and names are Matrix's, or base
# R's on dense matrices (`of = "base"`): Matrix loses names here and there. `kind(name, call)` tells whether the result
# must be sparse where Matrix's is; `skip(name, call)` where Matrix's answer is not R's; `more`: whether calls may give
# what Matrix has no method for.
over_sparse <- function(calls, inputs = grid_inputs(), front = beside_us, dtype = NULL, tolerance = 1e-12,
  kind = function(name, call) TRUE, skip = function(name, call) FALSE, more = FALSE,
  of = "Matrix") {
  found <- character()
  for (name in names(inputs)) {
    variables <- sparse_variables(inputs[[name]])
    arrays <- on_device(variables, dtype)
    plain <- lapply(variables, function(x) if (isS4(x)) as.matrix(x) else x)
    for (text in calls) {
      if (skip(name, text)) next
      call <- parse(text = text)[[1L]]
      of_kind <- kind(name, text)
      if (of == "Matrix" || of_kind) want <- sparse_outcome(call, beside_matrix(variables))
      if (of == "base") {
        # stats' namespace has base R's functions and those of utils
        dense <- sparse_outcome(call, list2env(plain, parent = asNamespace("stats")))
        want <- list(sparse = if (of_kind) want$sparse, value = dense$value, failed = dense$failed,
          message = dense$message)
      }
      got <- sparse_outcome(call, front(arrays))
      said <- sparse_difference(got, want, tolerance, of_kind, more)
      if (!is.null(said)) found <- c(found, sprintf("%s of %s: %s", text, name, said))
    }
  }
  found
}

expect_same_sparse <- function(...) {
  skip_if_not_installed("Matrix")
  found <- over_sparse(...)
  testthat::expect(!length(found), paste(c(sprintf("%d calls differ:", length(found)), utils::head(found, 30L)),
    collapse = "\n"))
}
