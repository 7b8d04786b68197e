# Methods for generics of package Matrix with one of its objects and an array: the array is copied to the host, and
# Matrix computes.
#
# Without them Matrix's methods for (CsparseMatrix, ANY) and the like would call the generic again with the result of
# as.matrix(), which is still an array: solve(Matrix, x) would recurse without end.

MATRIX_GENERICS <- c("%*%", "crossprod", "tcrossprod", "solve", "cbind2", "rbind2", "kronecker")

# Classes to which as() converts a matrix. Without these methods as() takes an array for a vector without dimensions.
MATRIX_CLASSES <- c("Matrix", "sparseMatrix", "CsparseMatrix", "RsparseMatrix", "TsparseMatrix", "denseMatrix",
  "generalMatrix", "symmetricMatrix", "triangularMatrix", "diagonalMatrix",
  "dMatrix", "lMatrix", "nMatrix", "dgeMatrix", "dgCMatrix", "dsyMatrix", "dtrMatrix")

register_matrix_methods <- function() {
  for (f in MATRIX_GENERICS) register_matrix_generic(f)
  register_own_methods()
  register_matrix_parts()
  register_matrix_coercion()
  register_matrix_operators()
  register_sparse_for_matrix()
}

# Matrix makes generics of these functions, which mask ours if Matrix is attached later. These methods send calls with
# arrays alone to our functions.
register_own_methods <- function(matrix = asNamespace("Matrix")) {
  where <- new.env(parent = matrix)
  set_method <- function(f, signatures, method) {
    environment(method) <- topenv()
    for (signature in signatures) methods::setMethod(f, signature, method, where = where)
  }
  set_method("chol2inv", "gpu_array", function(x, size = NCOL(x), ...) inverse_of_factor(x, size))
  set_method("toeplitz", "gpu_array", function(x, ...) toeplitz(x))
  set_method("norm", list(c("gpu_array", "missing"), c("gpu_array", "character")), function(x, type, ...)
    norm_of(x, if (missing(type)) "O" else type))
  set_method("rcond", list(c("gpu_array", "missing"), c("gpu_array", "character")), function(x, norm, ...)
    reciprocal_condition(x, if (missing(norm)) "O" else match.arg(norm, c("O", "I", "1")), ...))
  for (f in c("qr.Q", "qr.R", "qr.X", "qr.qy", "qr.qty", "qr.coef", "qr.fitted", "qr.resid"))
    if (methods::isGeneric(f, where = matrix)) {
    arguments <- formals(methods::getGeneric(f, where = matrix))
    passed <- setdiff(names(arguments), "...")
    set_method(f, "gpu_qr", as.function(c(arguments,
      as.call(c(as.name(f), stats::setNames(lapply(passed, as.name), passed))))))
  }
  # a sparse decomposition of Matrix, and an array
  for (f in c("qr.qy", "qr.qty", "qr.coef", "qr.fitted", "qr.resid")) {
    arguments <- formals(methods::getGeneric(f, where = matrix))
    passed <- lapply(setdiff(names(arguments), "..."), as.name)
    names(passed) <- vapply(passed, as.character, "")
    passed$y <- quote(host_copy(y, silent = TRUE))
    set_method(f, list(c("sparseQR", "gpu_array")), as.function(c(arguments, as.call(c(get(f, matrix), passed)))))
  }
  # from R 4.4 on crossprod() and tcrossprod() are base R's own generics
  if (getRversion() >= "4.4.0") return(invisible())
  pairs <- list(c("gpu_array", "missing"), c("gpu_array", "gpu_array"), c("gpu_array", "ANY"), c("ANY", "gpu_array"))
  set_method("crossprod", pairs, function(x, y = NULL, ...) cross_product(x, if (missing(y)) NULL else y))
  set_method("tcrossprod", pairs, function(x, y = NULL, ...) tcross_product(x, if (missing(y)) NULL else y))
}

register_matrix_operators <- function(matrix = asNamespace("Matrix")) {
  where <- new.env(parent = matrix)
  method <- function(e1, e2) on_host(get(.Generic, baseenv()), e1, e2)
  environment(method) <- topenv()
  for (class in c("Matrix", "diagonalMatrix")) {
    methods::setMethod("Ops", c(class, "gpu_array"), method, where = where)
    methods::setMethod("Ops", c("gpu_array", class), method, where = where)
  }
}

# Methods for (C, gpu_array) and (gpu_array, C), for each class C that Matrix has methods for with ANY as the other
# class: ours match more closely.
register_matrix_generic <- function(f, matrix = asNamespace("Matrix")) {
  generic <- methods::getGeneric(f, where = matrix)
  taken <- do.call(rbind, strsplit(names(methods::findMethods(f, where = matrix)), "#", fixed = TRUE))
  competing_classes <- function(any, other)
    setdiff(c("Matrix", taken[taken[, any] == "ANY", other]), c("ANY", "missing"))
  arguments <- formals(generic)
  body <- as.call(c(quote(on_host), get(f, matrix), lapply(names(arguments)[1:2], as.name),
    if ("..." %in% names(arguments)) quote(...)))
  method <- as.function(c(arguments, body), envir = topenv())
  # our namespace is sealed if Matrix is loaded later; the generic's table finds methods set in another environment
  where <- new.env(parent = matrix)
  for (class in competing_classes(2L, 1L)) methods::setMethod(f, c(class, "gpu_array"), method, where = where)
  for (class in competing_classes(1L, 2L)) methods::setMethod(f, c("gpu_array", class), method, where = where)
}

# Subscripts and new values that are arrays. Only nargs() tells x[i] from x[i, ].
register_matrix_parts <- function(matrix = asNamespace("Matrix")) {
  where <- new.env(parent = matrix)
  part <- function(x, i, j, ..., drop = TRUE) {
    axes <- nargs() - (!missing(drop)) > 2L
    at <- list(if (missing(i)) quote(expr = ) else host_copy(i, silent = TRUE))
    if (axes) at <- c(at, list(if (missing(j)) quote(expr = ) else host_copy(j, silent = TRUE), drop = drop))
    do.call(`[`, c(list(x), at))
  }
  replace <- function(x, i, j, ..., value) {
    axes <- nargs() > 3L
    at <- list(if (missing(i)) quote(expr = ) else host_copy(i, silent = TRUE))
    if (axes) at <- c(at, list(if (missing(j)) quote(expr = ) else host_copy(j, silent = TRUE)))
    do.call(`[<-`, c(list(x), at, list(value = host_copy(value, silent = TRUE))))
  }
  environment(part) <- environment(replace) <- topenv()
  for (class in c("gpu_array", "gpu_sparse")) {
    for (subscripts in list(c(class, "ANY"), c("ANY", class))) {
      methods::setMethod("[", c("Matrix", subscripts, "ANY"), part, where = where)
      methods::setMethod("[<-", c("Matrix", subscripts, "ANY"), replace, where = where)
    }
    methods::setMethod("[<-", c("Matrix", "ANY", "ANY", class), replace, where = where)
  }
}

register_matrix_coercion <- function(matrix = asNamespace("Matrix")) {
  where <- new.env(parent = matrix)
  for (class in Filter(function(class) methods::isClass(class, where = matrix), MATRIX_CLASSES)) {
    convert <- eval(bquote(function(from) methods::as(host_copy(from, silent = TRUE), .(class))))
    environment(convert) <- topenv()
    for (kind in ON_DEVICE) methods::setAs(kind, class, convert, where = where)
  }
}
