# Operators and functions of one argument on sparse matrices.
#
# As in Matrix: if an operation takes 0 to 0 for every other operand, its result is sparse, shares the structure of the
# operand, and is computed from the stored values. Otherwise it is a dense array. Values that become 0 stay stored.

#' Operators on sparse matrices
#'
#' Arithmetic, comparison and logic of sparse matrices with each other, with numbers, vectors (recycled along the
#' columns) and dense matrices, and R's functions of one argument. The result is sparse if the operation maps a 0 that
#' is not stored to 0 or `FALSE`: `S * 2`, `S / v`, `S^2`, `S > 0`, `abs(S)`, `log1p(S)`, `round(S)`; `S * A` for a
#' dense matrix `A` without missing or infinite elements; and, for two sparse matrices, `+`, `-`, `*`, `&`, `|`, `<`,
#' `>`, `!=`, `pmin()` and `pmax()`. Otherwise the result is a dense array: `S + 1`, `exp(S)`, `S == 0`, `S / S`, `!S`.
#' In `*` and `&` of two sparse matrices, an element that is not stored is 0 even where the other one is missing, as in
#' Matrix. A recycled sparse vector of Matrix counts as a sparse matrix. `pmax(S, 0)` is sparse; `pmax(0, S)` is a
#' vector, since base R uses the extents of the first argument.
#'
#' A result whose structure equals that of an operand shares this structure, and its values are recorded, not computed.
#' Elements that become 0 stay stored; `gpu_sparse(S, drop0 = TRUE)` drops them.
#' @param x A `gpu_sparse`.
#' @param ... Digits, or a base.
#' @returns A `gpu_sparse`, or a `gpu_array` that is a matrix. Logical values count as 0 and 1 in arithmetic.
#' @section Errors:
#' Base R's errors for extents that do not conform; `verdigris_error_dtype` for complex operands;
#' `verdigris_error_memory` for a dense result that does not fit in memory.
#' @examples
#' S <- gpu_sparse(i = 1:3, j = c(1, 2, 2), x = c(1, -2, 3), device = "cpu")
#' abs(S) * 2
#' S > 0
#' S + 1
#' @name sparse-operators
NULL

SPARSE_ARITHMETIC <- c("+", "-", "*", "/", "^", "%%", "%/%")
# Operators that give 0 for two zeros, so that two sparse matrices give a sparse one.
SPARSE_PAIRED <- c("+", "-", "*", "<", ">", "!=", "&", "|", "pmin", "pmax")

# Sparse matrices and arrays have the same methods for operators (register_methods()), so that R finds one method for
# both operands. The methods call the functions below for sparse operands.

sparse_sign <- function(operator, S) {
  x <- stored(S)
  with_stored(S, if (operator == "+") +x else -as_doubles(x))
}

#' @rdname sparse-operators
#' @export
`!.gpu_sparse` <- function(x) !gpu_dense(x)

sparse_operator <- function(operator, e1, e2, call = parent.frame(), f = get(operator, baseenv())) {
  device <- gpu_device(if (is_sparse(e1)) e1 else e2)
  as_operand <- function(e, S) {
    if (is.null(e)) return(numeric())
    # a recycled sparse vector stays sparse, as in Matrix
    if (!is_of_matrix(e, "sparseVector") || !length(e) || length(e) > length(S)) return(from_foreign_class(e, device))
    if (length(S) %% length(e) != 0)
      warn_as_base("longer object length is not a multiple of shorter object length", call)
    sparse_of_vector(e, S@Dim, device)
  }
  if (!is_sparse(e1)) e1 <- as_operand(e1, e2)
  if (!is_sparse(e2)) e2 <- as_operand(e2, e1)
  for (e in list(e1, e2)) {
    if (is.complex(e)) stop_verdigris("dtype", "Sparse matrices hold real numbers, not complex ones.",
      "Use `gpu_dense()` first.", call = call)
    if (!is_sparse(e) && !is_number(e) && !is_host_int64(e))
      stop_as_base(if (operator %in% c("&", "|"))
        sprintf("operations are possible only for numeric, logical or complex types") else
        "non-numeric argument to binary operator", call)
  }
  if (is_sparse(e1) && is_sparse(e2)) return(sparse_sparse_op(operator, f, e1, e2, call))
  if (is_sparse(e1)) sparse_dense_op(operator, f, e1, e2, FALSE, call) else
    sparse_dense_op(operator, f, e2, e1, TRUE, call)
}

# f(S, v), or f(v, S) if `turned`, of a sparse matrix and a number, a vector or a dense matrix `v`.
sparse_dense_op <- function(operator, f, S, v, turned, call) {
  apply_to <- if (turned) function(x, v) f(v, x) else f
  as_operand <- if (operator %in% SPARSE_ARITHMETIC) as_doubles else identity
  n <- length(S)
  names <- S@Dimnames
  if (length(dim(v)) == 2L) {
    if (!identical(as.integer(dim(v)), S@Dim)) stop_as_base("non-conformable arrays", call)
    # names are those of the first operand that has any
    if (all(vapply(names, is.null, NA)) || turned && !is.null(dimnames(v))) names <- dimnames(v) %||% names
  } else if (length(dim(v)) > 2L || length(dim(v)) == 1L && !operator %in% c("pmin", "pmax")) {
    stop_as_base("non-conformable arrays", call)
  } else if (length(v) > 1L && length(v) > n && n > 0) {
    stop_as_base(sprintf("dims [product %s] do not match the length of object [%d]", format(n, scientific = FALSE),
      length(v)), call)
  } else if (!length(v) && n > 0) {
    return(apply_to(as_operand(stored(S))[0L], v))
  } else if (length(v) && n %% length(v) != 0) {
    warn_as_base("longer object length is not a multiple of shorter object length", call)
  }
  v <- if (length(v) == 1L && !is_gpu(v)) as.vector(v) else cast_like(v, S@x)
  zero <- suppressWarnings(apply_to(0, if (length(v)) v else 1))
  if (!isTRUE(all(zero == 0))) {
    dense <- as_operand(gpu_dense(S))
    dimnames(dense) <- NULL
    # recycle `v` along the columns
    out <- if (length(v) == 1L) apply_to(dense, v) else apply_to(dense, `dim<-`(recycle(v, n), S@Dim))
    return(with_dimnames(out, names))
  }
  x <- as_operand(stored(S, call))
  m <- max(length(v), 1L)
  at <- if (length(v) == 1L) NULL else if (m == S@Dim[1L]) S@i + 1L else
    element_keys(S@i, columns_of(S), S@Dim) %% m + 1
  with_stored(S, apply_to(x, if (is.null(at)) v else v[strip(at)]), names)
}

sparse_sparse_op <- function(operator, f, A, B, call) {
  if (!identical(A@Dim, B@Dim)) stop_as_base("non-conformable arrays", call)
  as_operand <- if (operator %in% SPARSE_ARITHMETIC) as_doubles else identity
  names <- if (all(vapply(A@Dimnames, is.null, NA))) B@Dimnames else A@Dimnames
  if (!operator %in% SPARSE_PAIRED) {
    a <- as_operand(gpu_dense(A))
    b <- as_operand(gpu_dense(B))
    dimnames(a) <- dimnames(b) <- NULL
    return(with_dimnames(f(a, b), names))
  }
  a <- as_operand(stored(A, call))
  b <- as_operand(stored(B, call))
  if (same_structure(A, B)) return(with_stored(A, f(a, b), names))
  both <- if (operator %in% c("*", "&")) common_structure(A, B, a, b) else joint_structure(A, B, a, b)
  new_sparse(both$p, both$i, f(both$a, both$b), A@Dim, names)
}

# pmin() or pmax() of two or more arguments. Logical if all arguments are, as in Matrix.
extreme_of_sparse <- function(name, na.rm, args, call) {
  logical <- all(vapply(args, function(x) is.logical(if (is_sparse(x)) x@x else x), NA))
  f <- if (name == "pmin") pmin else pmax
  of_two <- function(a, b) {
    out <- f(a, b, na.rm = na.rm)
    if (logical) out != 0 else as_doubles(out)
  }
  # results of two dense arguments are dense
  out <- Reduce(function(x, y) if (is_sparse(x) || is_sparse(y)) sparse_operator(name, x, y, call, of_two) else
    of_two(x, y), args)
  # extents and names are those of the first, as in base R
  if (is.null(dim(args[[1L]]))) return(strip(if (is_sparse(out)) gpu_dense(out) else out))
  names <- dimnames(args[[1L]]) %||% list(NULL, NULL)
  if (!is_sparse(out)) return(with_dimnames(`dim<-`(strip(out), dim(args[[1L]])), names))
  out@Dimnames <- names
  out
}

# Merges the element keys of two matrices, both in column-major order. `below`: for each element of B the number of
# elements of A before it. `common`: whether A has an element in the same place. `before(k)`: how many of the first k
# elements of B are common. `a`, `b`: the keys.
merged_order <- function(A, B) {
  keys <- function(S) strip(element_keys(strip(S@i), columns_of(S), S@Dim))
  a <- keys(A)
  b <- keys(B)
  below <- count_below(b, a, TRUE)
  n <- length(a)
  common <- if (n) below < n & a[pmin(below + 1L, n)] == b else below < 0L
  sums <- running_total(as_int32(common), length(b))
  gpu_compute(below, common, sums)
  list(a = a, b = b, below = below, common = common, before = function(k) sums[strip(k) + 1L])
}

# The elements stored in both matrices.
common_structure <- function(A, B, a, b) {
  merged <- merged_order(A, B)
  second <- which(merged$common)
  list(p = merged$before(B@p), i = B@i[second], a = a[merged$below[second] + 1L], b = b[second])
}

# The elements stored in one matrix or both. Where a matrix does not store one, its value is 0.
joint_structure <- function(A, B, a, b) {
  merged <- merged_order(A, B)
  wide <- length(a) + length(b) > .Machine$integer.max
  p <- (if (wide) gpu_cast(strip(A@p), "int64") else strip(A@p)) + strip(B@p) - merged$before(B@p)
  n <- as.vector(p[length(p)])
  if (wide && n <= .Machine$integer.max) p <- as_int32(p)
  spread <- function(x, slots) {
    out <- gpu_full(if (is.logical(x)) FALSE else 0L, n, dtype = gpu_dtype(x), device = gpu_device(x))
    if (length(x)) out[slots] <- x
    out
  }
  # the position of an element: its own index, plus how many elements of the other matrix alone come before it
  places <- function(S) gpu_seq(0, length(S@i) - 1, length.out = length(S@i), device = gpu_device(S))
  above <- if (length(a)) count_below(merged$a, merged$b, TRUE) else strip(A@i)
  of_a <- if (length(a)) places(A) + above - merged$before(above) + 1
  of_b <- if (length(b)) places(B) + merged$below - merged$before(places(B)) + 1
  i <- spread(strip(A@i), of_a)
  if (length(b)) i[of_b] <- strip(B@i)
  list(p = p, i = i, a = spread(a, of_a), b = spread(b, of_b))
}
as_int32 <- function(x) gpu_cast(x, "int32")

# ---- functions of one argument -------------------------------------------------------------------------

#' @rdname sparse-operators
#' @export
Math.gpu_sparse <- function(x, ...) {
  f <- get(.Generic, baseenv())
  if (startsWith(.Generic, "cum")) {
    return(f(strip(gpu_dense(x)), ...))
  }
  zero <- suppressWarnings(f(0, ...))
  if (length(zero) == 1L && !is.na(zero) && zero == 0) return(with_stored(x, f(stored_numbers(x), ...)))
  f(as_doubles(gpu_dense(x)), ...)
}

sparse_test <- function(f) {
  force(f)
  function(x) with_stored(x, f(stored(x)))
}
#' @export
is.na.gpu_sparse <- sparse_test(function(x) is.na(x))
#' @export
is.nan.gpu_sparse <- sparse_test(function(x) is.nan(x))
#' @export
is.infinite.gpu_sparse <- sparse_test(function(x) is.infinite(x))
#' @export
is.finite.gpu_sparse <- function(x) is.finite(gpu_dense(x))
#' @export
anyNA.gpu_sparse <- function(x, recursive = FALSE) anyNA(stored(x))
