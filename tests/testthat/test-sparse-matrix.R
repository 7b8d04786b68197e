# Sparse matrices in Bioconductor's generics: seeds of DelayedArray, MatrixGenerics.

skip_if_not_installed("Matrix")

test_that("a DelayedArray takes a sparse seed, and finds its elements", {
  skip_if_not_installed("DelayedArray")
  suppressMessages(loadNamespace("DelayedArray"))
  delayed <- asNamespace("DelayedArray")
  for (name in c("plain", "named", "zeros", "nothing", "no_rows", "logical")) {
    M <- sparse_inputs()[[name]]
    S <- as_gpu(M, device = test_device)
    expect_true(delayed$is_sparse(S))
    index <- list(if (nrow(M)) rev(seq_len(nrow(M))), NULL)
    want <- unname(as.matrix(if (nrow(M)) M[index[[1L]], , drop = FALSE] else M))
    expect_identical(delayed$extract_array(S, index), want)
    D <- delayed$DelayedArray(S)
    expect_equal(unname(as.matrix(D)), unname(as.matrix(M)))
    if (!exists("SparseArraySeed", delayed)) next
    seed <- delayed$extract_sparse_array(S, index)
    expect_equal(unname(delayed$sparse2dense(seed)), want)
    if (!length(M)) next
    expect_equal(unname(as.matrix((D * 2)[, 2:1])), unname(as.matrix(M * 2)[, 2:1]))
    expect_equal(as.vector(get("rowSums", envir = delayed)(D)), as.vector(Matrix::rowSums(M)))
  }
})

test_that("MatrixGenerics takes arrays, and what delays a sparse matrix alone", {
  skip_if_not_installed("MatrixGenerics")
  skip_if_not_installed("DelayedArray")
  generics <- suppressMessages(asNamespace("MatrixGenerics"))
  delayed <- suppressMessages(asNamespace("DelayedArray"))
  M <- as.matrix(sparse_inputs()$named)
  for (name in c("rowVars", "colSds", "rowMaxs", "colSums2")) {
    f <- generics[[name]]
    for (na.rm in c(FALSE, TRUE)) {
      expect_equal(f(gpu(M), na.rm = na.rm), f(M, na.rm = na.rm), info = name)
      expect_equal(unname(f(delayed$DelayedArray(gpu_sparse(gpu(M))), na.rm = na.rm)), unname(f(M, na.rm = na.rm)),
        info = name)
    }
  }
  expect_equal(generics$rowVars(delayed$DelayedArray(gpu_sparse(gpu(M))), cols = 2:4, useNames = FALSE),
    unname(apply(M[, 2:4], 1, var)))
  expect_equal(unname(generics$rowQuantiles(gpu(M))), unname(generics$rowQuantiles(M)))
})

test_that("MatrixGenerics' functions are base R's along margins", {
  skip_if_not_installed("MatrixGenerics")
  generics <- suppressMessages(asNamespace("MatrixGenerics"))
  rules <- list(Sums2 = sum, Means2 = mean, Vars = var, Sds = sd, Maxs = max, Mins = min)
  for (name in c("plain", "named", "odd", "holes", "full", "column", "row")) {
    M <- sparse_inputs()[[name]]
    S <- as_gpu(M, device = test_device)
    for (rule in names(rules)) for (margin in 1:2) for (na.rm in c(FALSE, TRUE)) {
      f <- generics[[paste0(c("row", "col")[margin], rule)]]
      want <- suppressWarnings(base::apply(as.matrix(M), margin, rules[[rule]], na.rm = na.rm))
      got <- f(S, na.rm = na.rm)
      expect_equal(unname(got), as.vector(want), info = paste(rule, margin, na.rm, name))
      expect_identical(names(f(S)), dimnames(M)[[margin]])
    }
  }
  S <- as_gpu(sparse_inputs()$plain, device = test_device)
  M <- as.matrix(S)
  expect_equal(generics$colVars(S, rows = 2:4, cols = 1:3), apply(M[2:4, 1:3], 2, var))
  expect_identical(generics$colAnys(S > 1), apply(M > 1, 2, any))
  expect_identical(generics$rowAlls(S != 0), apply(M != 0, 1, all))
  expect_error(generics$colVars(S, center = 1:5), class = "verdigris_error_argument")
})
