# Methods of sparse matrices for generics of other packages: Matrix, MatrixGenerics, DelayedArray.

# Once Matrix is loaded, its S4 generics dispatch first, and the other operand may be an object of its classes.
register_sparse_for_matrix <- function(matrix = asNamespace("Matrix")) {
  where <- new.env(parent = matrix)
  set_method <- function(f, signatures, method) {
    environment(method) <- topenv()
    # from Matrix 1.6 on some generics dispatch on fewer arguments
    n <- length(methods::getGeneric(f, where = matrix)@signature)
    for (signature in unique(lapply(signatures, utils::head, n)))
      methods::setMethod(f, signature, method, where = where)
  }
  # Matrix's own methods for (class, ANY) match as closely as ours for (ANY, gpu_sparse): name these classes explicitly
  competing_classes <- function(f) {
    taken <- do.call(rbind, strsplit(names(methods::findMethods(f, where = matrix)), "#", fixed = TRUE))
    classes <- unique(c("Matrix", taken[taken[, 2L] == "ANY", 1L], taken[taken[, 1L] == "ANY", 2L]))
    setdiff(classes, c("ANY", "missing", "gpu_sparse"))
  }
  pairs <- function(f) c(SPARSE_PAIRS, lapply(competing_classes(f), function(class) c("gpu_sparse", class)),
    lapply(competing_classes(f), function(class) c(class, "gpu_sparse")))
  set_method("%*%", pairs("%*%"), function(x, y) sparse_product(x, y))
  set_method("crossprod", c(pairs("crossprod"), list(c("gpu_sparse", "missing"))), function(x, y = NULL, ...)
    sparse_crossprod(x, if (missing(y)) NULL else y))
  set_method("tcrossprod", c(pairs("tcrossprod"), list(c("gpu_sparse", "missing"))), function(x, y = NULL, ...)
    sparse_tcrossprod(x, if (missing(y)) NULL else y))
  # if an argument is an S4 object, base R's cbind() calls these with two arguments at a time
  set_method("cbind2", list(c("gpu_sparse", "missing")), function(x, y, ...) x)
  set_method("rbind2", list(c("gpu_sparse", "missing")), function(x, y, ...) x)
  set_method("cbind2", pairs("cbind2"), function(x, y, ...) bind_sparse(list(x, y), c("", ""), FALSE, environment()))
  set_method("rbind2", pairs("rbind2"), function(x, y, ...) bind_sparse(list(x, y), c("", ""), TRUE, environment()))
  set_method("kronecker", pairs("kronecker"), function(X, Y, FUN = "*", make.dimnames = FALSE, ...)
    kronecker_sparse(X, Y, FUN, make.dimnames, ...))
  set_method("%&%", pairs("%&%"), function(x, y) sparse_pattern_product(x, y))
  for (class in c("Matrix", "diagonalMatrix", "sparseVector"))
    set_method("Ops", list(c("gpu_sparse", class), c(class, "gpu_sparse")),
      function(e1, e2) sparse_operator(.Generic, e1, e2))
  set_method("diag", "gpu_sparse", function(x = 1, nrow, ncol, names = TRUE) {
    out <- diag_of_sparse(x, names)
    # Matrix's dimScale() passes the diagonal to its Diagonal(), which takes only ordinary vectors
    if (called_by_matrix(sys.function(sys.parent()))) collect(out) else out
  })
  set_method("drop", "gpu_sparse", function(x) drop_extents(x))
  set_method("diag<-", "gpu_sparse", function(x, value) assign_sparse_diagonal(x, value, environment()))
  set_method("norm", list(c("gpu_sparse", "missing"), c("gpu_sparse", "character")), function(x, type, ...)
    norm_of_sparse(x, if (missing(type)) "O" else type))
  set_method("band", "gpu_sparse", function(x, k1, k2, ...) checked_band(x, k1, k2, environment()))
  set_method("triu", "gpu_sparse", function(x, k = 0, ...) checked_band(x, k, x@Dim[2L], environment()))
  set_method("tril", "gpu_sparse", function(x, k = 0, ...) checked_band(x, -x@Dim[1L], k, environment()))
  set_method("isDiagonal", "gpu_sparse", function(object) is_sparse_diagonal(object))
  set_method("isTriangular", "gpu_sparse", function(object, upper = NA, ...) is_sparse_triangle(object, upper))
  if (methods::isGeneric("all.equal", where = matrix))
    set_method("all.equal", pairs("all.equal"), function(target, current, ...)
      all.equal.gpu_sparse(target, current, ...))
  for (class in c("Matrix", "matrix", "gpu_array")) methods::setAs(class, "gpu_sparse", as_sparse, where = where)
  set_method("nnzero", "gpu_sparse", function(x, na.counted = NA) nonzeros(x, na.counted))
  set_method("cov2cor", "gpu_sparse", function(V) correlation_of_sparse(V, environment()))
  set_method("writeMM", "gpu_sparse", function(obj, file, ...) Matrix::writeMM(collect(obj), file, ...))
  register_sparse_factors(set_method, where, matrix)
  register_sparse_coercion(where, matrix)
}

as_sparse <- function(from) gpu_sparse(from)

# Matrix's `%&%`: TRUE where any pair of elements that are not 0 meets.
sparse_pattern_product <- function(x, y) {
  device <- gpu_device(if (is_sparse(x)) x else y)
  as_pattern <- function(v) {
    if (is_of_matrix(v, "sparseVector")) return(v)
    if (!is_sparse(v) && is.null(dim(v))) return(as.double(is.na(v) | v != 0))
    v <- gpu_sparse(v, device = device, drop0 = TRUE)
    with_stored(v, gpu_full(1, length(v@i), device = device))
  }
  out <- sparse_product(as_pattern(x), as_pattern(y))
  if (!is_sparse(out)) out <- gpu_sparse(out)
  with_stored(out, stored(out) != 0)
}

nonzeros <- function(S, na.counted = NA) {
  x <- stored(S)
  if (is.na(na.counted) && anyNA(x)) return(NA_integer_)
  counts <- x != 0
  n <- sum(select_by(is.na(x), isTRUE(na.counted), counts))
  if (n <= .Machine$integer.max) as.integer(n) else n
}

# As in Matrix the stored elements decide: a stored 0 counts as an element.
is_sparse_diagonal <- function(S) S@Dim[1L] == S@Dim[2L] && all(strip(S@i) == columns_of(S))

is_sparse_triangle <- function(S, upper = NA) {
  if (!is.logical(upper) || length(upper) != 1L) stop_as_base("'upper' must be TRUE or FALSE or NA", parent.frame())
  off <- columns_of(S) - strip(S@i)
  is_triangle <- function(upper) S@Dim[1L] == S@Dim[2L] && all(if (upper) off >= 0L else off <= 0L)
  if (!is.na(upper)) return(is_triangle(upper))
  if (is_triangle(TRUE)) structure(TRUE, kind = "U") else if (is_triangle(FALSE)) structure(TRUE, kind = "L") else FALSE
}

# cov2cor() of a sparse matrix. Keeps its structure.
correlation_of_sparse <- function(V, frame) {
  if (V@Dim[1L] != V@Dim[2L]) stop_as_base("'V' is not a square matrix", frame)
  scale <- sqrt(1 / as_doubles(diag_of_sparse(V, FALSE)))
  if (!all(is.finite(scale))) warn_as_base(
    "diag(V) had non-positive or NA entries; the non-finite result may be dubious", frame)
  names <- symmetric_names(V@Dimnames)
  out <- with_stored(V, stored_numbers(V) * scale[strip(V@i) + 1L] * scale[columns_of(V) + 1L], names)
  assign_sparse_diagonal(out, 1, frame)
}

norm_of_sparse <- function(S, type = "O") {
  given <- type
  type <- if (is.character(type) && length(type)) toupper(substr(type[1L], 1L, 1L)) else ""
  if (!all(S@Dim > 0L)) return(0)
  switch(EXPR = type, O = , "1" = max(colSums(abs(S))), I = max(rowSums(abs(S))), M = max(abs(S)),
    F = , E = sqrt(sum(stored_numbers(S)^2)),
    "2" = norm(gpu_dense(S), "2"),
    stop_as_base(sprintf("argument type[1]='%s' must be one of 'M','1','O','I','F', 'E' or '2'",
      as.character(given)[1L])))
}

# ---- MatrixGenerics ----------------------------------------------------------------------------------

register_sparse_statistics <- function(generics = asNamespace("MatrixGenerics")) {
  where <- new.env(parent = generics)
  register_array_statistics(generics, where)
  rules <- list(Sums2 = "sum", Means2 = "mean", Vars = "var", Sds = "sd", Maxs = "max", Mins = "min", Anys = "any",
    Alls = "all")
  for (rule in names(rules)) for (rows in c(TRUE, FALSE)) {
    name <- paste0(if (rows) "row" else "col", rule)
    arguments <- formals(methods::getGeneric(name, where = generics))
    given <- function(argument) if (argument %in% names(arguments)) as.name(argument)
    body <- bquote(sparse_statistic(x, .(rules[[rule]]), .(rows), na.rm, rows, cols, .(given("center")),
      .(given("value")), .(given("useNames"))))
    methods::setMethod(name, "gpu_sparse", as.function(c(arguments, body), envir = topenv()), where = where)
  }
}

# Dense arrays get the methods for ordinary matrices, which S4 does not find by itself. These call matrixStats.
register_array_statistics <- function(generics, where) {
  all <- methods::getGenerics(generics)
  for (name in all@.Data[all@package == "MatrixGenerics"]) {
    method <- methods::selectMethod(name, "matrix", optional = TRUE, fdef = methods::getGeneric(name, where = generics))
    if (!is.null(method) && method@defined[[1L]] != "ANY")
      methods::setMethod(name, "gpu_array", methods::unRematchDefinition(method), where = where)
  }
}

# A statistic of the selected rows and columns. Ordinary numbers, as MatrixGenerics gives for all its classes.
sparse_statistic <- function(x, name, by_rows, na.rm, rows, cols, center, value, useNames) {
  if (!is.null(center)) stop_verdigris("argument", "`center` is computed and cannot be given.")
  if (!is.null(value) && !isTRUE(value)) stop_verdigris("argument", "`value` must be TRUE.",
    "Compare first: `colAnys(S == value)`.")
  if (!is.null(rows)) x <- x[rows, , drop = FALSE]
  if (!is.null(cols)) x <- x[, cols, drop = FALSE]
  out <- collect(SPARSE_APPLIED[[name]](x, by_rows, isTRUE(na.rm)))
  if (isFALSE(useNames)) unname(out) else out
}

# ---- DelayedArray ------------------------------------------------------------------------------------

# The interface of a seed: `extract_array()` gives a part as an ordinary array, `extract_sparse_array()` its stored
# elements.
register_sparse_seed <- function(delayed = asNamespace("DelayedArray")) {
  where <- new.env(parent = delayed)
  part <- function(x, index) {
    for (k in 1:2) if (!is.null(index[[k]])) x <- if (k == 1L) x[index[[1L]], , drop = FALSE] else
      x[, index[[2L]], drop = FALSE]
    x
  }
  methods::setMethod("extract_array", "gpu_sparse", function(x, index) {
    out <- as.matrix(part(x, index))
    dimnames(out) <- NULL
    out
  }, where = where)
  if (!methods::isGeneric("is_sparse", where = delayed)) return(invisible())
  methods::setMethod("is_sparse", "gpu_sparse", function(x) TRUE, where = where)
  if (!methods::isGeneric("extract_sparse_array", where = delayed)) return(invisible())
  # before SparseArray (Bioconductor 3.18), DelayedArray's own class SparseArraySeed held such parts
  methods::setMethod("extract_sparse_array", "gpu_sparse", function(x, index) {
    x <- part(x, index)
    if (methods::isClass("SparseArraySeed", where = delayed)) {
      at <- base::cbind(collect(strip(x@i)) + 1L, collect(columns_of(x)) + 1L)
      return(get("SparseArraySeed", delayed)(x@Dim, nzindex = at, nzdata = collect(stored(x)), check = FALSE))
    }
    methods::as(collect(x), "SVT_SparseArray")
  }, where = where)
}

# A DelayedMatrix whose seed is a sparse matrix on a device and that delays nothing. Products and margins use the whole
# seed instead of block after block. Delaying an operation gives an ordinary DelayedMatrix.
register_sparse_delayed <- function(delayed = asNamespace("DelayedArray")) {
  where <- new.env(parent = delayed)
  own <- methods::setClass("gpu_sparse_delayed", contains = methods::getClass("DelayedMatrix", where = delayed),
    where = where)
  method <- function(f, signature, definition) methods::setMethod(f, signature, definition, where = where)
  as_delayed <- get("DelayedArray", delayed)
  method("DelayedArray", "gpu_sparse", function(seed) own(seed = seed))
  of_seed <- function(x) if (methods::is(x, "gpu_sparse_delayed")) x@seed else if (methods::is(x, "DelayedArray"))
    as.matrix(x) else x
  product <- function(turn) {
    force(turn)
    function(x, y) as_delayed(sparse_product(of_seed(x), of_seed(y), turn[1L], turn[2L]))
  }
  turned <- list(`%*%` = c(FALSE, FALSE), crossprod = c(TRUE, FALSE), tcrossprod = c(FALSE, TRUE))
  for (f in names(turned)) {
    of_two <- product(turned[[f]])
    if (f != "%*%") method(f, c("gpu_sparse_delayed", "missing"), local({
      multiply <- of_two
      function(x, y = NULL, ...) multiply(x, x)
    }))
    for (other in c("ANY", "DelayedMatrix", "gpu_sparse_delayed")) for (signature in unique(list(c("gpu_sparse_delayed",
      other), c(other, "gpu_sparse_delayed")))) method(f, signature, if (f == "%*%") of_two else local({
      multiply <- of_two
      function(x, y = NULL, ...) multiply(x, y)
    }))
  }
  for (name in c("rowSums", "colSums", "rowMeans", "colMeans")) method(name, "gpu_sparse_delayed", local({
    margin <- get(name, topenv())
    function(x, na.rm = FALSE, dims = 1, ...) collect(margin(x@seed, na.rm = na.rm, dims = dims))
  }))
  # the statistics of MatrixGenerics, which DelayedArray imports
  generics <- asNamespace("MatrixGenerics")
  for (name in methods::getGenerics(generics)@.Data) {
    if (!methods::existsMethod(name, "gpu_sparse")) next
    generic <- methods::getGeneric(name, where = generics)
    passed <- setdiff(names(formals(generic)), c("x", "..."))
    on_seed <- as.call(c(list(generic, quote(x@seed)), stats::setNames(lapply(passed, as.name), passed)))
    method(name, "gpu_sparse_delayed", as.function(c(formals(generic), on_seed), envir = topenv()))
  }
}
