# Parts, assignment and joining of sparse matrices against package Matrix, and base R where Matrix has no answer.

skip_if_not_installed("Matrix")

test_that("rows and columns are Matrix's", {
  calls <- c("S[1, ]", "S[, 1]", "S[1, , drop = FALSE]", "S[, 1, drop = FALSE]", "S[1:2, ]", "S[, 1:2]", "S[2:1, ]",
    "S[, 3:1]", "S[c(1, 1, 2), ]", "S[, c(2, 2, 1)]", "S[-1, ]", "S[, -1]", "S[-(1:2), -1]", "S[0, ]", "S[, 0]",
    "S[1:2, c(1, 3)]", "S[c(TRUE, FALSE), ]", "S[, c(FALSE, TRUE)]", "S['r2', ]", "S[, c('c3', 'c1')]", "S['r1', 'c1']",
    "S[, 'b']", "S['no', ]", "S[, 100]", "S[100, ]", "S[v > 0, ]", "S[, w > 0]", "S[seq_len(nrow(S)), ]",
    "S[rev(seq_len(nrow(S))), rev(seq_len(ncol(S)))]", "S[]", "S[, ]", "S[2, 2]", "S[c(0, 1), ]", "S[1.9, ]",
    "S[integer(), integer()]", "head(S, 2)", "tail(S, 2)", "head(S, -1)")
  # Matrix does not drop an extent of 1 that a mask leaves, and has no rows to leave out where there are none
  kind <- function(name, call) !grepl("[vw] > 0", call)
  expect_same_sparse(calls, of = "base", kind = kind)
  expect_same_sparse(calls, of = "base", kind = kind, front = beside_matrix)
})

test_that("values by one subscript are base R's", {
  skip_if(getRversion() < "4.2")
  calls <- c("S[1]", "S[c(1, 3, 2)]", "S[-1]", "S[0]", "S[S > 0]", "S[T != 0]", "S[d > 0]", "S[cbind(1, 1)]",
    "S[integer()]", "S[c(2, NA)]", "S[is.na(S)]")
  for (S in sparse_inputs()) {
    if (!length(S)) next
    variables <- sparse_variables(S)
    arrays <- on_device(variables)
    plain <- lapply(variables, function(x) if (isS4(x)) unname(as.matrix(x)) else x)
    for (call in calls) {
      want <- tryCatch(eval(parse(text = call), plain), error = function(e) NULL)
      if (is.null(want)) next
      got <- eval(parse(text = call), beside_us(arrays))
      expect_equal(as.vector(got), as.vector(want), info = call)
    }
  }
})

test_that("assignment is base R's", {
  assignments <- c("S[1, 1] <- 5", "S[2, ] <- 0", "S[, 2] <- 1:3", "S[1:2, 1:2] <- c(1, 0, NA, 4)", "S[S > 0] <- 9",
    "S[is.na(S)] <- 0", "S[1] <- 7", "S[c(1, 1)] <- c(2, 3)", "S[cbind(1:2, 2:1)] <- 8", "S[d > 0] <- -1",
    "S[-1, ] <- 2", "S[] <- 0", "S[, 'b'] <- 1", "S[2, 2] <- TRUE", "S[, 1] <- S[, 2]", "S[1, ] <- numeric()",
    "S[1:2, ] <- 1:3", "S[100, 1] <- 1", "diag(S) <- 1", "diag(S) <- seq_len(min(dim(S)))", "S[T != 0] <- 3",
    "S[1, 1] <- 'a'", "dimnames(S) <- list(NULL, NULL)", "dimnames(S) <- list(letters[1:2], NULL)",
    "rownames(S) <- seq_len(nrow(S))")
  for (name in names(grid_inputs())) {
    S <- sparse_inputs()[[name]]
    variables <- sparse_variables(S)
    arrays <- on_device(variables)
    plain <- lapply(variables, function(x) if (isS4(x)) as.matrix(x) else x)
    for (text in assignments) {
      # base R makes a character matrix of it
      if (text == "S[1, 1] <- 'a'") {
        expect_error(eval(parse(text = text), beside_us(arrays)))
        next
      }
      # which makes a vector of it, or looks at no subscript
      if (!length(S) && text %in% c("S[1] <- 7", "S[c(1, 1)] <- c(2, 3)", "S[1, ] <- numeric()")) next
      run <- function(variables, parent) {
        frame <- list2env(variables, parent = parent)
        tryCatch(suppressWarnings({ eval(parse(text = text), frame); described_result(frame$S)$value }),
          error = function(e) list(failed = TRUE, message = conditionMessage(e)))
      }
      want <- run(plain, baseenv())
      got <- run(arrays, as.environment("package:verdigris"))
      said <- sparse_difference(list(sparse = TRUE, value = got, failed = got$failed), list(sparse = TRUE, value = want,
        failed = want$failed))
      expect(is.null(said), sprintf("%s of %s: %s", text, name, said))
    }
  }
})

test_that("joining, diagonals and products of Kronecker are Matrix's", {
  calls <- c("t(S)", "t(t(S))", "cbind(S, T)", "rbind(S, T)", "cbind(S, S, T)", "cbind(S, 1)", "rbind(S, 1)",
    "cbind(S, d)", "rbind(d, S)", "cbind(S, a = v)", "cbind(S, v)", "rbind(w, S)", "cbind(S)", "rbind(S)",
    "cbind(S, NULL)",
    "cbind(S, matrix(1, 40, 1))", "diag(S)", "kronecker(S, T)", "kronecker(S, d)", "kronecker(d, S)", "S %x% T",
    "kronecker(S, 2)", "which(S > 0)", "which(S > 0, arr.ind = TRUE)", "isSymmetric(S)", "isSymmetric(crossprod(T))",
    "drop(S)", "unname(S)")
  # of no elements kronecker() fails in Matrix
  skip <- function(name, call) grepl("kron|%x%", call) && name %in% c("no_rows", "no_columns", "empty") ||
    grepl("^which", call) && name %in% c("no_rows", "no_columns", "empty") ||
    # Matrix 1.7 divides by 0 there, which ends R
    grepl("bind.*[vw]\\b", call) && name %in% c("no_rows", "no_columns", "empty")
  expect_same_sparse(calls, skip = skip, more = TRUE)
  expect_same_sparse(calls, skip = skip, front = beside_matrix, more = TRUE)
  expect_same_sparse(c("triu(S)", "tril(S)", "triu(S, 1)", "tril(S, -1)", "band(S, 0, 1)", "nnzero(S)",
    "nnzero(S, TRUE)"), front = beside_matrix, more = TRUE)
})

test_that("apply(), sweep(), scale() and rowsum() are base R's on the dense matrix", {
  calls <- c("apply(S, 1, sum)", "apply(S, 2, mean)", "apply(S, 1, var)", "apply(S, 2, sd)", "apply(S, 1, max)",
    "apply(S, 2, min)", "apply(S, 2, range)", "apply(S, 1, sum, na.rm = TRUE)", "apply(S, 2, var, na.rm = TRUE)",
    "apply(S, 2, max, na.rm = TRUE)", "apply(S, 1, function(x) sum(x > 0))", "apply(S, 2, function(x) x)",
    "apply(S > 0, 1, any)", "apply(S > 0, 2, all)", "apply(S, 1:2, function(x) x + 1)", "sweep(S, 1, v)",
    "sweep(S, 2, w)", "sweep(S, 1, v, '*')", "sweep(S, 2, w, '/')", "sweep(S, 2, w, `^`)", "sweep(S, 2, 2, '*')",
    "sweep(S, 2, w, function(x, y) x - y)", "scale(S)", "scale(S, center = FALSE)", "scale(S, FALSE, w)",
    "scale(S, TRUE, FALSE)", "rowsum(S, rep_len(c('b', 'a', 'c'), nrow(S)))",
    "rowsum(S, rep_len(3:1, nrow(S)), reorder = FALSE)", "rowsum(S, rep_len(1:2, nrow(S)), na.rm = TRUE)")
  for (name in names(grid_inputs())) {
    variables <- sparse_variables(sparse_inputs()[[name]])
    if (!length(variables$S)) next
    arrays <- on_device(variables)
    plain <- lapply(variables, function(x) if (isS4(x)) as.matrix(x) else x)
    for (text in calls) {
      call <- parse(text = text)[[1L]]
      want <- sparse_outcome(call, list2env(plain, parent = as.environment("package:verdigris")))
      got <- sparse_outcome(call, beside_us(arrays))
      said <- sparse_difference(got, want, 1e-10, kind = FALSE)
      expect(is.null(said), sprintf("%s of %s: %s", text, name, said))
    }
  }
  S <- as_gpu(sparse_inputs()$plain, device = test_device)
  for (call in expression(sweep(S, 2, 1:5, "*"), sweep(S, 1, 1:7, "/"), scale(S, center = FALSE)))
    expect_s4_class(eval(call), "gpu_sparse")
  expect_equal(attr(scale(S, center = FALSE), "scaled:scale"),
    attr(scale(as.matrix(S), center = FALSE), "scaled:scale"))
  for (call in expression(scale(S), sweep(S, 2, 1:5))) expect_s3_class(eval(call), "gpu_array")
})

test_that("offsets of 64 bits, which more than 2^31 elements have, do as well", {
  calls <- c("S[, 2:3]", "S[, c(3, 1, 1)]", "S[c(1, 3), ]", "S[2:1, ]", "t(S)", "cbind(S, S)", "rbind(S, T)", "S + T",
    "S * T", "rowSums(S)", "colMeans(S)", "S %*% B", "crossprod(S)", "S[3]", "diag(S)", "S[S > 0]", "apply(S, 2, var)",
    "gpu_dense(S)", "as.matrix(S)", "which(S > 0)", "sweep(S, 2, w, '*')", "collect(S)", "summary(S)$j", "kronecker(S,
    T)")
  variables <- on_device(sparse_variables(sparse_inputs()$named))
  wide <- variables
  wide$S@p <- gpu_cast(wide$S@p, "int64")
  for (text in calls) {
    call <- parse(text = text)[[1L]]
    said <- sparse_difference(sparse_outcome(call, beside_us(wide)), sparse_outcome(call, beside_us(variables)))
    expect(is.null(said), paste(text, said))
  }
  expect_identical(utils::capture.output(print(wide$S)), utils::capture.output(print(variables$S)))
})

test_that("missing elements in symmetric places leave a matrix symmetric", {
  m <- matrix(0, 4, 4)
  m[1, 2] <- m[2, 1] <- NA
  m[3, 4] <- m[4, 3] <- 2
  symmetric <- function(m) isSymmetric(as_gpu(as(m, "CsparseMatrix"), device = test_device))
  skip_if_not_installed("Matrix")
  as <- function(m, class) methods::as(methods::as(m, "dMatrix"), class)
  expect_identical(symmetric(m), isSymmetric(m))
  m[1, 3] <- NA
  expect_identical(symmetric(m), isSymmetric(m))
  m[3, 1] <- 0
  expect_identical(symmetric(m), isSymmetric(m))
  m[3, 1] <- NA
  expect_identical(symmetric(m), isSymmetric(m))
  m[4, 3] <- 1
  expect_identical(symmetric(m), isSymmetric(m))
})

test_that("apply() of any() and all() warns of numbers, as base R does", {
  S <- as_gpu(diag(3), device = test_device)
  S <- gpu_sparse(S)
  for (f in list(any, all)) {
    expect_warning(out <- apply(S, 1, f), "coercing argument of type 'double' to logical")
    expect_identical(collect(out), suppressWarnings(apply(diag(3), 1, f)))
    expect_silent(apply(S > 0, 2, f))
  }
})

test_that("a 0 assigned to rows and columns leaves out their elements", {
  calls <- c("{S[-1, ] <- 0; S}", "{S[, 1] <- 0; S}", "{S[1:2, 1] <- 0; S}", "{S[c(1, 1), ] <- 0L; S}",
    "{S[, ] <- FALSE; S}", "{S[0, ] <- 0; S}", "{S[, 0] <- FALSE; S}", "{S[1, 1] <- -0; S}")
  expect_same_sparse(calls, of = "base", kind = function(name, call) FALSE)
  S <- as_gpu(sparse_inputs()$plain, device = test_device)
  before <- as.matrix(S)
  T <- S
  T[1:3, ] <- as_gpu(0, device = test_device)
  expect_identical(as.matrix(T), replace(before, row(before) < 4, 0))
  expect_true(all(collect(T@i) > 2L))
  expect_identical(as.matrix(S), before)
  L <- S > 0
  L[1, ] <- FALSE
  expect_type(as.matrix(L), "logical")
  # also the type of a matrix of which no element is replaced
  for (value in list(FALSE, 0, 1L, numeric())) {
    L[0, ] <- value
    expect_identical(is.logical(L@x), is.logical(value))
    L <- L > 0
  }
  n <- 60000L
  S <- gpu_sparse(i = 1:3, j = 1:3, x = 1:3, dim = c(n, n), device = test_device)
  S[-1, ] <- 0
  expect_identical(length(S@i), 1L)
})

test_that("functions of users sweep a sparse matrix", {
  calls <- c("sweep(S, 1, v, function(a, b) a * b)", "sweep(S, 2, w, function(a, b) a * b)",
    "sweep(S, 2, w, function(a, b, c) a * b + c, c = 0)", "sweep(S, 1, v, function(a, b) a - b)",
    "sweep(S, 1, v, pmin)", "sweep(S, 2, w, pmax, na.rm = TRUE)", "sweep(S, 2, 1:2, function(a, b) a * b)")
  expect_same_sparse(calls, of = "base", kind = function(name, call) FALSE)
  S <- as_gpu(sparse_inputs()$named, device = test_device)
  expect_s4_class(sweep(S, 1, 1:5, function(a, b) a * b), "gpu_sparse")
  expect_s3_class(sweep(S, 2, 1:8, function(a, b) a - b), "gpu_matrix")
})
