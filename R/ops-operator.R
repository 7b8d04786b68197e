# Linear operators, by which the iterative methods (R/ops-iterative.R, R/ops-svds.R) multiply. An operator is a list:
#   dim, names        its extents, and the names of its rows and columns
#   device, dtype     of the vectors that it multiplies: columns of an array
#   forward(x)        A x
#   backward(y)       t(A) y
#   called            the name of A in messages; NULL for "A"
#   source            A itself; `kind`: "array", "function", "sparse" (on a device), "other" (a class with products)

operator_of <- function(A, like = NULL, dim = NULL, transpose = NULL, frame = parent.frame()) {
  if (is.function(A)) return(operator_of_function(A, like, dim, transpose, frame))
  for (name in c("dim", "transpose")) if (!is.null(get(name)))
    abort_argument(name, "NULL unless `A` is a function", get(name), frame)
  products <- isS4(A) && !is_gpu(A) || is.object(A) && inherits(A, "gpu_sparse")
  if (length(dim(A)) != 2L || !products && !takes_product(A) || is.complex(A)) abort_argument("A",
    "a matrix of real numbers, or a function", A, frame)
  extent <- as.double(base::dim(A))
  named <- dimnames(A) %||% list(NULL, NULL)
  if (products) return(operator_of_object(A, extent, named, frame))
  a <- if (is_gpu(A)) strip_names(A) else as_gpu(unname(A), dtype = if (!is.null(like)) host_dtype(A, like),
    device = if (!is.null(like)) gpu_device(like))
  # Cast once, not in each product.
  if (is_half(a)) a <- gpu_cast(a, "float32")
  if (!gpu_dtype(a) %in% c("float32", "float64")) a <- as_float64(a)
  gpu_compute(a)
  list(dim = extent, names = named, device = gpu_device(a), dtype = gpu_dtype(a), kind = "array", source = a,
    forward = function(x) matrix_product(a, x), backward = function(y) cross_product(a, y))
}

# Matrices of other packages are multiplied with ordinary matrices, on the host.
operator_of_object <- function(A, extent, named, frame) {
  if (inherits(A, "gpu_sparse")) return(operator_of_sparse(A, extent, named))
  by <- function(product, rows) function(x) columns_from(product(A, collect(x)), c(rows, ncol(x)), "cpu", "float64",
    "A", frame)
  list(dim = extent, names = named, device = "cpu", dtype = "float64", kind = "other", source = A,
    forward = by(`%*%`, extent[1L]), backward = by(generic_for(A, "crossprod"), extent[2L]))
}

# The operator of a sparse matrix on a device. Its values are reordered by rows once, if there is memory for a second
# copy.
operator_of_sparse <- function(S, extent, named) {
  x <- stored(S)
  dtype <- if (gpu_dtype(x) %in% c("float16", "bfloat16", "float32")) "float32" else "float64"
  x <- gpu_compute(as_float(x, dtype))
  rows <- by_rows <- NULL
  forward <- function(b) {
    if (is.null(rows)) {
      rows <<- row_structure(S)
      by_rows <<- tryCatch(gpu_compute(stored_by_rows(S, x)), verdigris_error_memory = function(e) NULL)
    }
    segment_products(rows$p, rows$i, by_rows %||% stored_by_rows(S, x), b)
  }
  list(dim = extent, names = named, device = gpu_device(x), dtype = dtype, kind = "sparse", source = S,
    forward = forward, backward = function(b) segment_products(S@p, S@i, x, b))
}

# The version of function f that dispatches on the class of A: before R 4.4 base R's functions have no S4 methods.
generic_for <- function(A, f) {
  home <- attr(class(A), "package")
  if (inherits(A, "gpu_sparse") || is.null(home)) return(get(f, topenv()))
  methods::getGeneric(f, where = if (home == ".GlobalEnv") globalenv() else asNamespace(home)) %||% get(f, topenv())
}

operator_of_function <- function(A, like, dim, transpose, frame) {
  if (!is.null(transpose) && !is.function(transpose)) abort_argument("transpose",
    "a function of a matrix of as many rows as `A` returns", transpose, frame)
  usable <- is.numeric(dim) && !is.object(dim) && length(dim) == 2L && all(vapply(as.list(dim), is_count, NA)) &&
    all(dim == trunc(dim))
  if (!usable) abort_argument("dim", "the numbers of rows and columns of what the function `A` multiplies by", dim,
    frame)
  device <- gpu_device(if (is_gpu(like)) like else gpu_zeros(0))
  dtype <- if (is_gpu(like) && is_narrow(like)) "float32" else "float64"
  by <- function(f, rows, name) function(x) columns_from(f(x), c(rows, ncol(x)), device, dtype, name, frame)
  list(dim = as.double(dim), names = list(NULL, NULL), device = device, dtype = dtype, kind = "function", source = A,
    forward = by(A, as.double(dim[1L]), "A"),
    backward = if (!is.null(transpose)) by(transpose, as.double(dim[2L]), "transpose") else function(y)
      abort_argument("transpose", "a function that multiplies by the transposed matrix", NULL, frame))
}

# Checks the result of a user's function or method, and returns it as a matrix on the device.
columns_from <- function(y, extent, device, dtype, name, frame) {
  if (isS4(y) && !is_gpu(y)) y <- as.matrix(y)
  if (!is_number(y) || is.complex(y)) stop_verdigris("argument", sprintf("`%s` must return real numbers, not %s.", name,
    describe(y)), call = frame)
  if (length(y) != prod(extent) || extent[2L] != 1 && length(dim(y)) == 2L && nrow(y) != extent[1L]) {
    came <- if (is.null(dim(y))) paste(format_count(length(y)), "elements") else paste("one of", paste(vapply(dim(y),
      format_count, ""), collapse = " x "))
    wanted <- "`%s` must return a matrix of %s rows and as many columns as its argument has (%s), not %s."
    stop_verdigris("shape", sprintf(wanted, name, format_count(extent[1L]), format_count(extent[2L]), came),
      if (extent[2L] != 1) sprintf("If it takes one vector, `function(x) %s` takes each column.",
      "do.call(cbind, lapply(seq_len(ncol(x)), function(j) f(x[, j])))") else character(), call = frame)
  }
  y <- if (is_gpu(y) && gpu_device(y) == device) strip(y) else as_gpu(as.vector(y), device = device)
  y <- as_float(y, dtype)
  dim(y) <- extent
  # The result is used more than once.
  gpu_compute(y)
}

# The operator of the transposed matrix.
turned <- function(op) {
  op[c("forward", "backward")] <- op[c("backward", "forward")]
  op$dim <- rev(op$dim)
  op$names <- rev(op$names)
  op
}

# The operator of the centered and scaled matrix, without changing A. `center` and `scale` are ordinary vectors or NULL.
standardised <- function(op, center, scale) {
  if (is.null(center) && is.null(scale)) return(op)
  on_device <- function(v) if (!is.null(v)) as_gpu(as.double(v), device = op$device)
  mu <- on_device(center)
  by <- on_device(scale)
  n <- op$dim[1L]
  p <- op$dim[2L]
  forward <- op$forward
  backward <- op$backward
  op$forward <- function(w) {
    w <- as_float64(w)
    if (!is.null(by)) w <- w / along_rows(by, ncol(w))
    out <- forward(as_float(w, op$dtype))
    if (is.null(mu)) return(out)
    as_float(as_float64(out) - along_columns(colSums(w * along_rows(mu, ncol(w))), n), op$dtype)
  }
  op$backward <- function(z) {
    out <- as_float64(backward(z))
    if (!is.null(mu)) out <- out - along_rows(mu, ncol(z)) * along_columns(colSums(as_float64(z)), p)
    if (!is.null(by)) out <- out / along_rows(by, ncol(z))
    as_float(out, op$dtype)
  }
  op
}

as_float <- function(x, dtype) if (gpu_dtype(x) == dtype) x else gpu_cast(x, dtype)

# A product with several vectors. A function is called with one column at a time, since it may only support one.
each_column <- function(op, product, x) {
  if (op$kind != "function" || ncol(x) == 1L) return(product(x))
  do.call(cbind, lapply(seq_len(ncol(x)), function(j) product(gpu_compute(column_at(x, j)))))
}

# One column of a matrix, as a matrix: a view.
column_at <- function(x, j) {
  y <- strided(x, dim(x), c(1, 2), c(nrow(x), 1), start = c(0, j - 1))
  dim(y) <- c(nrow(x), 1)
  y
}

# ---- numbers of columns ------------------------------------------------------------------------------------------

# The methods need a few scalars per column: ordinary numbers on the cpu device, where reading is free, otherwise
# arrays, so that the host does not wait. The functions below, and R's arithmetic, accept both.
reads_at_once <- function(op) op$device == "cpu" && !settings$force_device_path

# Scalar products of corresponding columns of two matrices.
column_products <- function(op, x, y = x) {
  extent <- base::dim(x)
  # colSums() without its checks of arguments
  out <- .Call(C_reduce_groups, "sum", as_float64(x) * as_float64(y), FALSE, c(extent[2L], extent[1L], 1), TRUE)
  if (reads_at_once(op)) collect(out) else gpu_compute(out)
}

# Scalars as ordinary numbers. Waits for the device.
host_numbers <- function(x) if (is_gpu(x)) collect(x) else x

# Scalars per column, repeated so that they combine with the elements of a matrix.
broadcast_columns <- function(op, s, rows) {
  if (!is_gpu(s)) {
    if (length(s) == 1L) return(s)
    s <- as_gpu(s, device = op$device)
  }
  s <- as_float(s, op$dtype)
  if (length(s) == 1L) s else along_columns(s, rows)
}

# Square roots without warnings: under a warning handler of the user, an operation that may warn is computed at once.
root <- function(x) if (is_gpu(x)) suppressWarnings(sqrt(x)) else sqrt(x)

# `yes` where the condition holds, otherwise 0; NA where the condition is NA.
only_where <- function(condition, yes) {
  if (is_gpu(condition)) return(.External2(C_recycled, "select", list(condition, yes, 0), NULL))
  # Faster for one column.
  if (length(condition) == 1L) return(if (is.na(condition)) condition + 0 else if (condition) yes else 0)
  base::ifelse(condition, yes, 0)
}
ratio <- function(a, b) only_where(b != 0, a / b)

# Makes a function that tells whether a condition holds for any column. On the cpu device every call checks it. On other
# devices every STEPS_AHEAD-th call records the condition and reads the one recorded by the check before, so that the
# device stays busy. NA if a number is not finite.
STEPS_AHEAD <- 4L
convergence_check <- function(op) {
  recorded <- NULL
  calls <- 0L
  function(active) {
    if (!is_gpu(active)) return(if (anyNA(active)) NA else any(active))
    if (!length(active)) return(FALSE)
    calls <<- calls + 1L
    if (calls %% STEPS_AHEAD != 0L) return(TRUE)
    before <- recorded
    recorded <<- max(only_where(active, 1))
    if (is.null(before)) return(TRUE)
    before <- before + 0
    if (is.na(before)) NA else before > 0
  }
}

not_finite <- function(op, frame) stop_verdigris("argument",
  sprintf("A product with `%s`%s has elements that are missing or infinite, or that overflow.", op$called %||% "A",
    if (isTRUE(op$preconditioned)) ", or the result of `preconditioner`," else ""),
  c("`is.finite()` finds such elements of a matrix.", "Divide a matrix of large numbers, and its right sides, by one."),
  call = frame)
