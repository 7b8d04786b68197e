# Sparse matrices of Bioconductor: SparseArray's classes in both layouts, and DelayedArray's SparseArraySeed. Where
# SparseArray is not installed classes with the same slots stand in.

real <- requireNamespace("SparseArray", quietly = TRUE)

local_classes <- function(frame = parent.frame()) {
  if (real) return(invisible())
  define <- function(...) methods::setClass(..., where = globalenv())
  methods::setClassUnion("NULL_or_list_of_tests", c("NULL", "list"), where = globalenv())
  define("SVT_SparseArray", representation(dim = "integer", dimnames = "list", type = "character",
    SVT = "NULL_or_list_of_tests", .svt_version = "integer"))
  define("SVT_SparseMatrix", contains = "SVT_SparseArray")
  define("COO_SparseMatrix", representation(dim = "integer", dimnames = "list", nzcoo = "matrix", nzdata = "ANY"))
  withr::defer(for (class in c("COO_SparseMatrix", "SVT_SparseMatrix", "SVT_SparseArray", "NULL_or_list_of_tests"))
    methods::removeClass(class, where = globalenv()), envir = frame)
}

# An object of a matrix: `version` 0 has the numbers of rows in front and no slot of its version, 1 values in front and
# NULL for ones.
svt_of <- function(x, version) {
  columns <- lapply(seq_len(ncol(x)), function(j) {
    at <- which(is.na(x[, j]) | x[, j] != 0)
    values <- unname(x[at, j])
    if (!length(at)) return(NULL)
    if (version == 0L) return(list(at - 1L, values))
    list(if (!anyNA(values) && all(values == 1)) NULL else values, at - 1L)
  })
  out <- methods::new("SVT_SparseMatrix", dim = dim(x), dimnames = dimnames(x) %||% list(NULL, NULL), type = typeof(x),
    SVT = if (all(vapply(columns, is.null, NA))) NULL else columns, .svt_version = 1L)
  if (version == 0L) attr(out, ".svt_version") <- NULL
  out
}

matrices <- function() {
  set.seed(8)
  numbers <- matrix(sample(c(0, 0, 0, 1, 2.5, -3, NA, Inf), 70, TRUE), 10, 7)
  numbers[, 3] <- 0
  numbers[, 4] <- rep(c(0, 1), 5)
  named <- numbers[1:4, ]
  dimnames(named) <- list(letters[1:4], NULL)
  whole <- matrix(sample(c(0L, 0L, 1L, 7L, NA), 30, TRUE), 5)
  list(numbers = numbers, named = named, whole = whole, logical = whole > 1L, ones = matrix(rep(c(1, 0), 6), 4),
    integer_ones = matrix(rep(c(1L, 0L), 6), 4), zeros = matrix(0, 3, 2), no_rows = matrix(0, 0, 3),
    no_columns = matrix(0, 3, 0), empty = matrix(FALSE, 0, 0), column = matrix(c(0, 2), 2, 1))
}

test_that("matrices of SparseArray are taken in both layouts", {
  local_classes()
  for (name in names(matrices())) for (version in 0:1) {
    x <- matrices()[[name]]
    M <- svt_of(x, version)
    want <- if (is.logical(x)) x else x + 0
    for (S in list(as_gpu(M, device = test_device), gpu_sparse(M, device = test_device))) {
      expect_s4_class(S, "gpu_sparse")
      expect_identical(as.matrix(S), want, info = paste(name, version))
      expect_identical(length(S@i), sum(is.na(x) | x != 0))
    }
  }
  M <- svt_of(matrices()$whole, 1L)
  expect_identical(gpu_dtype(as_gpu(M, dtype = "float32", device = test_device)), "float32")
  expect_identical(gpu_dtype(as_gpu(svt_of(matrices()$logical, 0L), device = test_device)), "bool8")
  withr::local_options(verdigris.dtype = "float32")
  expect_identical(gpu_dtype(as_gpu(M, device = test_device)), "float32")
})

test_that("coordinates are taken in any order", {
  local_classes()
  for (name in names(matrices())) {
    x <- matrices()[[name]]
    at <- which(is.na(x) | x != 0, arr.ind = TRUE)
    at <- unname(at[rev(seq_len(nrow(at))), , drop = FALSE])
    M <- methods::new("COO_SparseMatrix", dim = dim(x), dimnames = dimnames(x) %||% list(NULL, NULL), nzcoo = at,
      nzdata = x[at])
    expect_identical(as.matrix(as_gpu(M, device = test_device)), if (is.logical(x)) x else x + 0, info = name)
  }
})

test_that("what is no such matrix is refused", {
  local_classes()
  refused <- function(object, words, kind = "argument") expect_error(as_gpu(object, device = test_device), words,
    class = paste0("verdigris_error_", kind))
  M <- svt_of(matrices()$numbers, 1L)
  with <- function(name, value) {
    if (is.null(value)) attr(M, name) <- NULL else methods::slot(M, name, check = FALSE) <- value
    M
  }
  refused(with(".svt_version", 2L), "version 2.*versions 0 and 1")
  refused(with("type", "complex"), "not complex", "dtype")
  refused(with("type", "list"), "not list", "dtype")
  refused(with("type", "integer"), "Slot `SVT`")
  refused(with("SVT", M@SVT[-1L]), "Slot `SVT`")
  refused(with("SVT", c(list(1:3), M@SVT[-1L])), "Slot `SVT`")
  refused(with("SVT", c(list(list(c(1, 2), 0L)), M@SVT[-1L])), "Slot `SVT`")
  refused(with("SVT", c(list(list(c(1, 2), c(0L, 10L))), M@SVT[-1L])), "number of rows")
  refused(with("SVT", c(list(list(c(1, 2), c(-1L, 3L))), M@SVT[-1L])), "whole numbers from 0")
  refused(with("dim", c(10L, 7L, 1L)), "Slot `dim`")
  # rows in another order are put right
  expect_identical(as.matrix(as_gpu(with("SVT", c(list(list(c(5, 6), 2:1)), M@SVT[-1L])), device = test_device))[, 1L],
    c(0, 6, 5, 0, 0, 0, 0, 0, 0, 0))
  # an object in the other layout than it says
  refused(with(".svt_version", NULL), "Slot `SVT`")
  cube <- methods::new("SVT_SparseArray", dim = c(2L, 2L, 2L), dimnames = vector("list", 3L), type = "double",
    SVT = NULL)
  refused(cube, "two extents, not 3", "shape")
})

test_that("matrices of Bioconductor are operands beside one on a device", {
  local_classes()
  set.seed(9)
  x <- matrix(sample(c(0, 0, 1, -2.5), 48, TRUE), 8)
  y <- matrix(sample(c(0, 0, 3, 0.5), 48, TRUE), 8)
  S <- gpu_sparse(x, device = test_device)
  same <- function(got, want) expect_equal(unname(as.matrix(collect(got))), want, info = deparse1(substitute(got)))
  for (version in 0:1) {
    M <- svt_of(y, version)
    for (f in list(`+`, `-`, `*`, `>`, `!=`)) {
      same(f(S, M), f(x, y))
      same(f(M, S), f(y, x))
    }
    same(S / M, x / y)
    same(S %*% svt_of(t(y), version), x %*% t(y))
    same(svt_of(t(y), version) %*% S, t(y) %*% x)
    same(crossprod(S, M), crossprod(x, y))
    same(crossprod(M, S), crossprod(y, x))
    same(tcrossprod(M, S), tcrossprod(y, x))
    same(cbind(S, M, S), cbind(x, y, x))
    same(rbind(S, M), rbind(x, y))
    same(gpu_dense(M), y)
    expect_equal(collect(S[svt_of(y > 1, version)]), x[y > 1])
    changed <- S
    changed[, 1:6] <- M
    same(changed, y)
  }
})

test_that("a DelayedArray is taken as a whole", {
  skip_if_not_installed("DelayedArray")
  set.seed(10)
  x <- matrix(sample(c(0, 0, 1, -2.5), 48, TRUE), 8, dimnames = list(letters[1:8], NULL))
  dense <- DelayedArray::DelayedArray(x)
  expect_equal(collect(as_gpu(dense * 2 + 1, device = test_device)), x * 2 + 1)
  expect_identical(gpu_dtype(as_gpu(dense, dtype = "float32", device = test_device)), "float32")
  cube <- array(1:24, 2:4)
  expect_equal(collect(as_gpu(DelayedArray::DelayedArray(cube), device = test_device)), cube)
  sparse <- DelayedArray::DelayedArray(methods::as(x, "CsparseMatrix"))
  S <- as_gpu(sparse * 3, device = test_device)
  expect_s4_class(S, "gpu_sparse")
  expect_equal(as.matrix(S), x * 3)
  expect_equal(as.matrix(S + sparse), x * 4)
  own <- DelayedArray::DelayedArray(gpu_sparse(x, device = test_device))
  expect_equal(as.matrix(as_gpu(own)), x)
})

test_that("a matrix goes back where SparseArray is installed", {
  skip_if_not(real, "SparseArray is not installed")
  for (x in matrices()[c("numbers", "named", "logical")]) {
    S <- gpu_sparse(x, device = test_device)
    back <- methods::as(S, "SVT_SparseMatrix")
    expect_s4_class(back, "SVT_SparseMatrix")
    expect_equal(as.matrix(back), x)
    expect_equal(as.matrix(methods::as(back, "gpu_sparse")), x)
  }
})

test_that("DelayedArray's sparse seeds are taken", {
  skip_if_not_installed("DelayedArray", "0.20")
  delayed <- asNamespace("DelayedArray")
  skip_if_not(methods::isClass("SparseArraySeed", where = delayed), "DelayedArray has no SparseArraySeed")
  x <- matrices()$named
  seed <- methods::as(methods::as(x, "CsparseMatrix"), "SparseArraySeed")
  S <- as_gpu(seed, device = test_device)
  expect_equal(as.matrix(S), x)
  expect_equal(as.matrix(gpu_sparse(seed, device = test_device)), x)
  three <- get("SparseArraySeed", delayed)(c(2L, 2L, 2L), nzindex = base::cbind(1L, 2L, 1L), nzdata = 3)
  expect_error(as_gpu(three, device = test_device), "two extents, not 3", class = "verdigris_error_shape")
})
