# Operators, functions of one argument and reductions of sparse matrices against package Matrix.

skip_if_not_installed("Matrix")

# Values and names are base R's on dense matrices, and where the result is sparse is Matrix's.

test_that("operators beside numbers are right", {
  numbers <- c("2", "0", "NA_real_", "-Inf", "TRUE", "3L")
  calls <- c(outer(c("+", "-", "*", "/", "^", "%%", "%/%", "==", "!=", "<", "<=", ">", ">=", "&", "|"), numbers,
    function(f, e) sprintf("S %s %s", f, e)), outer(c("+", "-", "*", "/", "^", "<", ">=", "&"), numbers,
    function(f, e) sprintf("%s %s S", e, f)), "-S", "+S", "!S")
  expect_same_sparse(calls, of = "base")
})

test_that("operators beside vectors and dense matrices are right", {
  operators <- c("+", "-", "*", "/", "^", "==", "!=", "<", ">", ">=", "&", "|")
  calls <- c(sprintf("S %s v", operators), sprintf("v %s S", operators), sprintf("S %s d", operators),
    sprintf("d %s S", operators))
  # of comparisons Matrix looks at what came out
  expect_same_sparse(calls, of = "base", kind = function(name, call) grepl("[*/] v", call))
})

test_that("operators of two sparse matrices are right", {
  calls <- function(operators) c(sprintf("S %s T", operators), sprintf("T %s S", operators),
    sprintf("S %s S", operators))
  expect_same_sparse(calls(c("+", "-", "<", ">", "!=", "|")), of = "base")
  # of these a missing element beside one that is not stored is none, in Matrix
  expect_same_sparse(calls(c("*", "&")))
  expect_same_sparse(calls(c("/", "^", "%%", "%/%", "==", "<=", ">=")), of = "base",
    kind = function(name, call) FALSE)
})

test_that("least and greatest of sparse matrices and others are right", {
  calls <- c(outer(c("pmin", "pmax"), c("(S, T)", "(T, S, S)", "(S, T, na.rm = TRUE)", "(S, 2)", "(S, -1, T)",
    "(S, v)", "(S, d)"), paste0))
  # of numbers and logical values Matrix makes logical ones, and keeps sparse what has no 0
  expect_same_sparse(calls, of = "base", kind = function(name, call) !grepl("[vd12]", call))
  # structures that share all places, some, or none, and one after the other
  S <- gpu_sparse(i = c(1, 3, 2, 4), j = c(1, 1, 2, 3), x = c(1, -2, 3, NA), dim = c(4, 3), device = test_device)
  for (at in list(1:4, 3:1, 4, integer())) {
    T <- gpu_sparse(i = c(2, 3, 2, 1)[at], j = c(1, 1, 2, 3)[at], x = c(5, 6, -7, 8)[at], dim = c(4, 3),
      device = test_device)
    for (f in list(`+`, `-`, `!=`, `|`, pmin, pmax)) for (pair in list(list(S, T), list(T, S))) {
      out <- f(pair[[1]], pair[[2]])
      expect_s4_class(out, "gpu_sparse")
      expect_identical(as.matrix(out) + 0, f(as.matrix(pair[[1]]), as.matrix(pair[[2]])) + 0)
      expect_identical(collect(out@i), collect(as_gpu(collect(out), device = test_device)@i))
    }
  }
})

test_that("functions of one argument are right", {
  functions <- c("abs", "sign", "sqrt", "floor", "ceiling", "trunc", "round", "exp", "expm1", "log", "log1p", "log2",
    "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "sinpi", "cospi", "is.na",
    "is.nan", "is.infinite", "is.finite", "gamma", "lgamma")
  calls <- c(sprintf("%s(S)", functions), "round(S, 1)", "signif(S, 2)", "log(S, 3)", "cumsum(S)", "cummax(S)",
    "anyNA(S)")
  expect_same_sparse(calls, of = "base")
})

test_that("reductions and margins are Matrix's", {
  calls <- c("sum(S)", "sum(S, na.rm = TRUE)", "max(S)", "min(S)", "max(S, na.rm = TRUE)", "range(S)", "any(S > 0)",
    "all(S != 0)", "any(S > 0, na.rm = TRUE)", "all(S == S)", "sum(S, T)", "max(S, 3, T)", "mean(S)",
    "mean(S, na.rm = TRUE)", "prod(T)", "prod(S, na.rm = TRUE)", "min(S, na.rm = TRUE)", "range(S, T, na.rm = TRUE)",
    "rowSums(S)", "colSums(S)", "rowMeans(S)", "colMeans(S)",
    "rowSums(S, na.rm = TRUE)", "colSums(S, na.rm = TRUE)", "rowMeans(S, na.rm = TRUE)", "colMeans(S, na.rm = TRUE)",
    "length(S)", "dim(S)", "norm(S)", "norm(T, 'I')", "norm(T, 'F')", "norm(T, 'M')")
  expect_same_sparse(calls, of = "base", kind = function(name, call) FALSE)
  expect_same_sparse(calls, of = "base", kind = function(name, call) FALSE, front = beside_matrix)
})

test_that("results share the structure of an operand, and their values are recorded", {
  S <- gpu_sparse(i = c(1, 3, 2), j = c(1, 1, 2), x = c(1, -2, 3), dim = c(3, 4), device = test_device)
  R <- sqrt(abs(S) * 2)
  expect_true(rlang::is_reference(R@i, S@i))
  expect_gt(verdigris:::gpu_info(R@x)$pending, 0)
  expect_length(gpu_explain(R)$kernels, 1L)
  expect_error(gpu_free(R), class = "verdigris_error_argument")
  expect_equal(collect(R@x), sqrt(c(2, 4, 6)))
  # so that a sum of both needs no merging
  expect_true(rlang::is_reference((S + R)@i, S@i))
  expect_equal(as.matrix(S + R), as.matrix(S) + as.matrix(R))
})

test_that("narrow floats stay narrow", {
  inputs <- sparse_inputs()[c("plain", "named", "holes", "column", "no_rows")]
  calls <- c("S * 2", "S + T", "S * T", "S %*% B", "crossprod(S)", "colSums(S)", "rowMeans(S)", "S[, 1]", "cbind(S, 1)",
    "S * v", "S + d", "sqrt(abs(S))", "t(S)")
  for (dtype in c("float32", "float16", "bfloat16")) {
    tolerance <- c(float32 = 1e-6, float16 = 2e-3, bfloat16 = 2e-2)[[dtype]]
    expect_same_sparse(calls, inputs, dtype = dtype, tolerance = tolerance, more = TRUE)
    arrays <- on_device(sparse_variables(inputs$plain), dtype)
    for (call in calls) {
      out <- eval(parse(text = call)[[1L]], beside_us(arrays))
      # as of dense arrays
      sums <- call %in% c("colSums(S)", "rowMeans(S)") && dtype != "float32"
      expect_identical(gpu_dtype(out), if (sums) "float32" else dtype, info = call)
    }
  }
})

test_that("operands that do not conform are refused as in base R", {
  S <- gpu_sparse(i = 1:3, j = c(1, 2, 2), x = c(1, -2, 3), dim = c(3, 4), device = test_device)
  expect_error(S + S[1:2, ], "non-conformable arrays")
  expect_error(S * matrix(1, 2, 2), "non-conformable arrays")
  expect_error(S + 1:13, "do not match the length of object")
  expect_warning(S * 1:5, "longer object length is not a multiple of shorter object length")
  expect_error(S + "a", "non-numeric argument to binary operator")
  expect_error(S + 1i, class = "verdigris_error_dtype")
  expect_error(S + list(1), "non-numeric argument to binary operator")
  expect_length(NULL + S, 0L)
  expect_identical(length(S * numeric()), 0L)
})

test_that("an assigned slot of another length is found out", {
  S <- gpu_sparse(i = 1:3, j = c(1, 2, 2), x = c(1, -2, 3), device = test_device)
  expect_error(S@x <- c(1, 2, 3), "gpu_array")
  S@x <- as_gpu(1:3, device = test_device)
  for (call in expression(S + S, S * 2L, S[1:2, ], rowSums(S), S %*% 1:2, abs(S), mean(S)))
    expect_equal(described_result(eval(call))$value, described_result(eval(call, list(S = as.matrix(S))))$value)
  expect_identical(collect(S)@x, c(1, 2, 3))
  S@x <- as_gpu(1:2 + 0, device = test_device)
  expect_error(S * 2, class = "verdigris_error_argument")
  expect_error(S %*% 1:2, class = "verdigris_error_argument")
  expect_error(sum(S), class = "verdigris_error_argument")
})
