# Sparse matrices: from and to others, constructors, refused input, copies in files and processes.

skip_if_not_installed("Matrix")

classes <- function() {
  S <- sparse_inputs()$square
  symmetric <- Matrix::forceSymmetric(unname(S))
  triangular <- Matrix::triu(unname(S))
  unit <- methods::new("dtCMatrix", i = c(0L, 0L), p = c(0L, 0L, 1L, 2L), x = c(2, 3), Dim = c(3L, 3L), diag = "U")
  repeated <- methods::new("dgTMatrix", i = c(0L, 0L, 2L, 0L), j = c(1L, 1L, 0L, 1L), x = c(1, 2, 3, -3),
    Dim = c(3L, 2L))
  doubted <- methods::new("lgTMatrix", i = c(0L, 0L, 2L), j = c(1L, 1L, 0L), x = c(TRUE, NA, NA), Dim = c(3L, 2L))
  list(dgCMatrix = S, dgTMatrix = repeated, dgRMatrix = methods::as(S, "RsparseMatrix"), dsCMatrix = symmetric,
    dtCMatrix = triangular, unit = unit, dsTMatrix = methods::as(symmetric, "TsparseMatrix"),
    lgCMatrix = S > 0, lgTMatrix = doubted, ngCMatrix = methods::as(S, "nMatrix"),
    ngTMatrix = methods::as(methods::as(S, "nMatrix"), "TsparseMatrix"), ddiMatrix = Matrix::Diagonal(3, 1:3 + 0),
    unit_diagonal = Matrix::Diagonal(3), ldiMatrix = Matrix::Diagonal(2, c(TRUE, NA)),
    pMatrix = methods::as(c(2L, 3L, 1L), "pMatrix"), indMatrix = methods::as(c(2L, 1L, 1L), "indMatrix"))
}

test_that("each class of Matrix is taken, and gives its values back", {
  for (name in names(classes())) {
    M <- classes()[[name]]
    S <- as_gpu(M, device = test_device)
    expect_s4_class(S, "gpu_sparse")
    want <- as.matrix(M)
    got <- as.matrix(S)
    expect_identical(typeof(got), typeof(want), info = name)
    expect_equal(got, want, info = name)
    back <- collect(S)
    expect_identical(class(back)[1L], if (is.logical(want)) "lgCMatrix" else "dgCMatrix", info = name)
    expect_true(methods::validObject(back), info = name)
    expect_equal(as.matrix(back), want, info = name)
    expect_identical(is.unsorted(collect(S@p)), FALSE)
    dense <- gpu_dense(S)
    expect_equal(collect(dense), want, info = name)
  }
  expect_s3_class(as_gpu(Matrix::Matrix(1:4 + 0, 2, sparse = FALSE), device = test_device), "gpu_array")
})

test_that("all inputs come back as they were", {
  for (S in sparse_inputs()) {
    G <- as_gpu(S, device = test_device)
    expect_identical(collect(G), S)
    expect_true(methods::validObject(G))
    expect_identical(dim(G), dim(S))
    expect_identical(length(G), length(S))
    expect_identical(dimnames(G), dimnames(S))
    expect_identical(collect(gpu_sparse(as.matrix(S), device = test_device)), collect(gpu_sparse(gpu_dense(G))))
    expect_identical(unname(as.matrix(gpu_sparse(gpu_dense(G)))), unname(as.matrix(S)))
    expect_identical(as.vector(G), as.vector(as.matrix(S)))
    expect_identical(as.numeric(G), as.numeric(as.matrix(S)))
  }
})

test_that("as() and all.equal() know sparse matrices where Matrix is loaded", {
  M <- sparse_inputs()$named
  S <- as_gpu(M, device = test_device)
  for (class in c("dgCMatrix", "CsparseMatrix", "sparseMatrix", "Matrix"))
    expect_identical(as.matrix(methods::as(S, class)), as.matrix(M))
  expect_s4_class(methods::as(S, "denseMatrix"), "dgeMatrix")
  for (from in list(M, as.matrix(M), gpu_dense(S))) expect_identical(as.matrix(methods::as(from, "gpu_sparse")),
    as.matrix(M))
  for (other in list(M, S, S * 2 / 2)) {
    expect_true(all.equal(S, other))
    expect_true(all.equal(other, S))
  }
  expect_match(all.equal(S, S * 2), "relative difference")
})

test_that("slots that are not in order are put right, and false ones refused", {
  with_slots <- function(i, p, x) {
    S <- sparse_inputs()$full
    # as code may leave them that does not ask for validity
    attr(S, "i") <- i
    attr(S, "p") <- p
    attr(S, "x") <- x
    S
  }
  S <- as_gpu(with_slots(c(2L, 0L, 1L, 1L), c(0L, 2L, 4L), c(1, 2, 3, 4)), device = test_device)
  expect_identical(as.matrix(S), matrix(c(2, 0, 1, 0, 7, 0), 3))
  expect_identical(collect(S@i), c(0L, 2L, 1L))
  for (wrong in list(with_slots(c(0L, 3L), c(0L, 1L, 2L), c(1, 2)), with_slots(c(0L, -1L), c(0L, 1L, 2L), c(1, 2)),
    with_slots(c(0L, 1L), c(0L, 1L, 3L), c(1, 2)), with_slots(c(0L, 1L), c(0L, 2L, 1L), c(1, 2)),
    with_slots(c(0L, 1L), c(0L, 2L), c(1, 2)), with_slots(c(0L, NA), c(0L, 1L, 2L), c(1, 2)),
    with_slots(c(0L, 1L), c(0L, NA, 2L), c(1, 2)), with_slots(c(0L, 1L), c(0L, 1L, 2L), 1)))
    expect_error(as_gpu(wrong, device = test_device), class = "verdigris_error_argument")
})

test_that("gpu_sparse() is sparseMatrix()", {
  calls <- list(
    quote(f(i = c(1, 3, 2), j = c(1, 1, 4), x = 1:3)), quote(f(i = c(3, 1, 3, 3), j = c(2, 1, 2, 2), x = 1:4 + 0)),
    quote(f(i = 1:3, j = 1:3, x = 2)), quote(f(i = c(1, 3, 2), p = c(0, 2, 2, 3), x = 1:3, index1 = TRUE)),
    quote(f(j = c(1, 3, 2), p = c(0, 2, 2, 3), x = 1:3)), quote(f(i = 0:2, j = 2:0, x = 1:3, index1 = FALSE)),
    quote(f(i = 1:2, j = 1:2, x = 1:2, dims = c(4, 5))), quote(f(i = c(1, 3, 2), p = c(0, 2, 3), x = 1:3, dims = 3:4)),
    quote(f(j = c(1, 3, 2), p = c(0, 2, 3), x = 1:3, dims = 4:3)), quote(f(i = c(3, 1, 3), p = c(0, 3), x = 1:3)),
    quote(f(i = integer(), j = integer(), x = 1, dims = c(2, 3))),
    quote(f(i = 1:2, j = 1:2, x = 1:2, dimnames = list(c("a", "b"), NULL))),
    quote(f(i = c(1, 1), j = c(1, 1), x = c(TRUE, FALSE))), quote(f(i = c(1, 1), j = c(1, 1), x = c(TRUE, NA))),
    quote(f(i = c(1, 1, 2), j = c(1, 1, 1), x = c(5, -5, 1)))
  )
  for (call in calls) {
    f <- Matrix::sparseMatrix
    want <- eval(call)
    f <- function(..., dims = NULL) gpu_sparse(..., dim = dims, device = test_device)
    got <- eval(call)
    expect_equal(as.matrix(got), as.matrix(want), info = deparse1(call))
    # the same of arrays
    f <- function(..., dims = NULL) gpu_sparse(..., dim = dims)
    arrays <- as.list(call)
    for (name in intersect(c("i", "j", "x"), names(arrays)))
      arrays[[name]] <- as_gpu(eval(arrays[[name]]), device = test_device)
    expect_equal(as.matrix(eval(as.call(arrays))), as.matrix(want), info = deparse1(call))
  }
  expect_true(all(as.matrix(gpu_sparse(i = 1:2, j = 1:2, device = test_device))[cbind(1:2, 1:2)]))
  expect_identical(length(gpu_sparse(i = 1:3, j = 1:3, x = c(0, 1, NA), drop0 = TRUE, device = test_device)@x), 2L)
})

test_that("arguments that mean nothing are refused by name", {
  refused <- function(...) tryCatch(gpu_sparse(..., device = test_device), error = function(e) e)
  cases <- list(
    list("`i`", i = c(1, 2.5), j = 1:2), list("`i`", i = c(0, 1), j = 1:2), list("`i`", i = c(1, NA), j = 1:2),
    list("`j`", i = 1:2, j = c(1, Inf)), list("`i`", i = c("a", "b"), j = 1:2), list("`i` and `j`", i = 1:2, j = 1:3),
    list("`x`", i = 1:3, j = 1:3, x = 1:2), list("`dim`", i = 1:3, j = 1:3, x = 1, dim = c(2, 3)),
    list("`dim`", i = 1:3, j = 1:3, x = 1, dim = 3), list("`dim`", i = 1, j = 1, x = 1, dim = c(-1, 3)),
    list("`p`", i = 1:3, p = c(0, 2)), list("`p`", i = 1:3, p = c(0, 4, 3)), list("`i`, `j`", j = 1),
    list("`index1`", i = 1, j = 1, index1 = NA), list("`dtype`", i = 1, j = 1, x = 1, dtype = "int32"),
    list("Values", i = 1, j = 1, x = "a"), list("Values", i = 1, j = 1, x = 1i), list("`i`", i = 1:3),
    list("dimnames", i = 1, j = 1, x = 1, dimnames = list("a", c("b", "c")))
  )
  for (case in cases) {
    e <- do.call(refused, case[-1L])
    expect_s3_class(e, "error")
    expect_match(conditionMessage(e), case[[1L]], fixed = TRUE)
  }
  expect_error(as_gpu(sparse_inputs()$plain, dtype = "int32"), class = "verdigris_error_dtype")
  expect_error(gpu_dense("a"), class = "verdigris_error_argument")
})

test_that("dtypes and devices are chosen and changed", {
  M <- sparse_inputs()$named
  S <- as_gpu(M, dtype = "float32", device = test_device)
  expect_identical(gpu_dtype(S), "float32")
  expect_identical(gpu_device(S), test_device)
  expect_true(is_gpu(S))
  expect_identical(gpu_dtype(gpu_cast(S, "float64")), "float64")
  expect_identical(gpu_dtype(gpu_cast(S, "bool8")), "bool8")
  host <- as_gpu(S, device = "cpu")
  expect_identical(unique(vapply(c("p", "i", "x"), function(slot) gpu_device(methods::slot(host, slot)), "")), "cpu")
  expect_equal(as.matrix(host), as.matrix(M))
  S@x <- S@x * 2 + 1
  gpu_compute(S)
  expect_equal(verdigris:::gpu_info(S@x)$pending, 0)
  withr::local_options(verdigris.dtype = "float32")
  expect_identical(gpu_dtype(as_gpu(M, device = test_device)), "float32")
})

test_that("files and other processes carry the matrix, without its structure by rows", {
  M <- sparse_inputs()$named
  S <- as_gpu(M, device = test_device)
  before <- length(serialize(S, NULL))
  S %*% seq_len(ncol(S))
  expect_identical(length(serialize(S, NULL)) - before < 200L, TRUE)
  file <- withr::local_tempfile()
  saveRDS(S, file)
  read <- readRDS(file)
  expect_identical(collect(read), M)
  expect_equal(as.vector(read %*% rep(1, 8)), as.vector(M %*% rep(1, 8)))
  out <- in_child(c(sprintf("S <- readRDS(%s)", deparse(file)), "cat(sum(S), dim(S), \"\\n\")",
    "cat(as.vector(S %*% rep(1, ncol(S))), \"\\n\")", "cat(\"Matrix\" %in% loadedNamespaces(), \"\\n\")"))
  expect_identical(attr(out, "status"), 0L)
  expect_match(out[1L], paste(sum(M), 5, 8))
  # nothing of it needs Matrix
  expect_match(out[3L], "FALSE")
})

test_that("printing shows a corner", {
  S <- gpu_sparse(i = c(1, 3, 2), j = c(1, 1, 2), x = c(1, -2.5, NA), dim = c(3, 3), device = test_device,
    dimnames = list(c("a", "b", "c"), NULL))
  out <- utils::capture.output(print(S))
  expect_match(out[1L], "<gpu_sparse float64 [3 x 3] on ", fixed = TRUE)
  expect_match(out[3L], "^a +1[.]0 +[.] +[.]$")
  expect_identical(utils::capture.output(S), out)
  large <- gpu_sparse(i = 1:1000, j = 1:1000, x = 1, device = test_device)
  out <- utils::capture.output(large)
  expect_lt(length(out), 30L)
  expect_match(out[length(out)], "990 more rows, 992 more columns", fixed = TRUE)
  expect_output(str(S), "Dimnames[[1]]: \"a\" \"b\" \"c\"", fixed = TRUE)
  expect_identical(nrow(summary(S)), 3L)
  for (M in sparse_inputs()) expect_output(print(as_gpu(M, device = test_device)), "gpu_sparse")
})

test_that("without Matrix all but collect() works", {
  out <- in_child(c(
    "S <- gpu_sparse(i = c(1, 3, 2), j = c(1, 1, 2), x = c(1, -2, 3), dim = c(3, 3))",
    "T <- S + t(S)", "stopifnot(all.equal(as.matrix(T), as.matrix(S) + t(as.matrix(S))))",
    "v <- S %*% 1:3; w <- crossprod(S, gpu_dense(S)); Q <- crossprod(S)",
    "stopifnot(all.equal(collect(w), crossprod(as.matrix(S))), all.equal(as.matrix(Q), collect(w)))",
    "B <- cbind(S, 1, T); B[1, 1] <- 4; K <- kronecker(S, T); a <- apply(S, 2, var); s <- colSums(S)",
    "A <- as_gpu(diag(3)); stopifnot(inherits(A + S, 'gpu_array'), inherits(S * A, 'gpu_sparse'))",
    "stopifnot(inherits(A %*% S, 'gpu_array'), inherits(cbind(A, S), 'gpu_sparse'))",
    "print(S); log1p(abs(S)); S[S > 0]; S[2, ]",
    "cat('Matrix' %in% loadedNamespaces(), '\\n')"))
  expect_identical(attr(out, "status"), 0L, info = paste(out, collapse = "\n"))
  expect_match(out[length(out)], "FALSE")
})

test_that("the slots go to scipy and come back without a copy", {
  skip_if(test_device != "cpu")
  skip_if_not_installed("reticulate")
  skip_if_not(tryCatch(reticulate::py_module_available("scipy"), error = function(e) FALSE), "scipy is not there")
  np <- reticulate::import("numpy", convert = FALSE)
  S <- as_gpu(sparse_inputs()$named, device = "cpu")
  slots <- lapply(list(S@x, S@i, S@p), np$from_dlpack)
  M <- reticulate::import("scipy.sparse", convert = FALSE)$csc_matrix(do.call(reticulate::tuple, slots),
    shape = reticulate::tuple(nrow(S), ncol(S)))
  expect_equal(as.matrix(as_gpu(M$toarray())), unname(as.matrix(S)))
  R <- gpu_sparse(i = as_gpu(M$indices), p = as_gpu(M$indptr), x = as_gpu(M$data), dim = dim(S), index1 = FALSE)
  expect_identical(as.matrix(R), unname(as.matrix(S)))
  address <- function(x) gpu_pointer(x, writable = FALSE)$address
  for (slot in c("p", "i", "x"))
    expect_identical(address(methods::slot(R, slot)), address(methods::slot(S, slot)), info = slot)
})

test_that("odd arguments give R's errors or this package's, no panics and no false values", {
  odd <- list(NULL, NA, Inf, -1, 2^53, "a", list(1), quote(x), mean, 1i, logical(), factor("a"), matrix(1:4, 2),
    data.frame(a = 1), as_gpu(NA, device = test_device), as_gpu(1i, device = test_device),
    gpu_sparse(i = 1, j = 1, device = test_device), globalenv(), raw(2), Matrix::Diagonal(2))
  S <- as_gpu(sparse_inputs()$named, device = test_device)
  want <- as.matrix(S)
  calls <- list(function(o) S[o], function(o) S[o, ], function(o) S[, o], function(o) S[o, o], function(o) S[1, 1, o],
    function(o) S[1, , drop = o], function(o) { S[o] <- 1; S }, function(o) { S[1, ] <- o; S },
    function(o) { S[o, 1] <- o; S }, function(o) S + o, function(o) o * S, function(o) o & S, function(o) S > o,
    function(o) S %*% o, function(o) o %*% S, function(o) crossprod(S, o), function(o) tcrossprod(o, S),
    function(o) cbind(S, o), function(o) rbind(o, S), function(o) kronecker(S, o), function(o) rowSums(S, o),
    function(o) colMeans(S, dims = o), function(o) sum(S, o), function(o) max(S, na.rm = o), function(o) mean(S,
    na.rm = o),
    function(o) apply(S, o, sum), function(o) apply(S, 1, o), function(o) sweep(S, o, 1), function(o) sweep(S, 1, o),
    function(o) sweep(S, 1, 1, o), function(o) scale(S, o), function(o) scale(S, FALSE, o), function(o) rowsum(S, o),
    function(o) head(S, o), function(o) diag(S, o), function(o) { diag(S) <- o; S }, function(o) { dim(S) <- o; S },
    function(o) { dimnames(S) <- o; S }, function(o) { rownames(S) <- o; S }, function(o) round(S, o),
    function(o) log(S, o), function(o) as_gpu(S, dtype = o), function(o) as_gpu(S, device = o), function(o) gpu_cast(S,
    o),
    function(o) gpu_sparse(o, device = test_device), function(o) gpu_sparse(i = o, j = 1, device = test_device),
    function(o) gpu_sparse(i = 1, j = 1, x = o, device = test_device), function(o) gpu_sparse(i = 1, p = o),
    function(o) gpu_sparse(i = 1, j = 1, dim = o), function(o) gpu_sparse(i = 1, j = 1, dimnames = o),
    function(o) gpu_sparse(i = 1, j = 1, index1 = o), function(o) gpu_dense(o), function(o) norm(S, o),
    function(o) isSymmetric(S, tol = o), function(o) all.equal(S, o), function(o) which(S > 0, o), function(o) print(S,
    o),
    function(o) format(S, what = o), function(o) as.vector(S, o), function(o) gpu_compute(S, o), function(o) gpu_knn(S,
    o),
    function(o) S %in% o, function(o) gpu_matmul(S, o), function(o) ifelse(S, o, 1), function(o) svd(S),
    function(o) S^o,
    function(o) outer(S, o), function(o) c(S, o), function(o) list(S, o), function(o) identical(S, o),
    function(o) pmax(S, o), function(o) match(S, o), function(o) order(S, o))
  for (k in seq_along(calls)) for (o in seq_along(odd)) {
    value <- NULL
    utils::capture.output(value <- tryCatch(suppressMessages(suppressWarnings(calls[[k]](odd[[o]]))),
      error = function(e) e))
    what <- paste(deparse1(body(calls[[k]])), "of", o)
    expect_false(inherits(value, "verdigris_error_panic"), label = what)
    # what is a sparse matrix is one
    if (inherits(value, "gpu_sparse")) {
      back <- tryCatch(collect(value), error = function(e) NULL)
      if (!is.null(back)) expect(isTRUE(methods::validObject(back, test = TRUE)), what)
    }
  }
  expect_identical(as.matrix(S), want)
})
