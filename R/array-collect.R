#' Read an array into an ordinary vector
#'
#' `as.vector()`, `as.numeric()`, `as.integer()`, `as.logical()`, `as.complex()`, `as.matrix()` and `as.array()` give
#' ordinary R vectors, as they do for those. `collect()` gives an ordinary vector with all attributes (`dim`,
#' `dimnames`, `names`, `tsp` and others) kept.
#'
#' All of them compute what is recorded. `collect()`, `as.matrix()` and `as.array()` wait for the result and copy the
#' elements. The others return a vector whose elements stay on the device until R reads one; R then waits and copies all
#' of them, once. An operation on arrays uses such a vector directly from the device as long as R has not read it, so
#' `X * as.vector(w)` in a loop never waits. Short arrays on the cpu device, int64 arrays, memory shared with another
#' library, and conversions that may lose information are read at once. Before a process is forked
#' (`parallel::mclapply()`) all such vectors are read. [gpu_free()] of the array does not free the elements that such a
#' vector still refers to.
#'
#' @param x An array or a sparse matrix; for `collect()` also a data frame or list whose arrays are brought back.
#' @param mode As in [base::as.vector()].
#' @param ... Ignored.
#' @returns An ordinary R vector, matrix or array. `collect()` of an `int64` array returns an `integer64` vector, whose
#'   methods are in the bit64 package; the others return its values as doubles, `NA` with a warning beyond 2^53.
#'   `collect()` of a sparse matrix returns a `dgCMatrix` or `lgCMatrix` of package Matrix, the others dense values.
#' @section Errors:
#' `verdigris_error_consumed` for an array that was freed; `verdigris_error_memory` if there is no memory to compute it;
#' on a GPU also the error of a kernel that failed, `verdigris_error_launch`.
#' @examples
#' x <- as_gpu(matrix(1:4, 2), device = "cpu")
#' as.vector(x)
#' collect(x)
#' collect(data.frame(a = as_gpu(1:2, device = "cpu")))
#' @export
collect <- function(x, ...) UseMethod("collect")

#' @export
collect.default <- function(x, ...) {
  if (...length()) rlang::check_dots_empty()
  x
}

#' @export
collect.gpu_array <- function(x, ...) {
  if (...length()) rlang::check_dots_empty()
  y <- collected(x, gpu_dtype(x) == "int64")
  if (inherits(x, "AsIs")) I(y) else y
}

collected <- function(x, exact) {
  if (exact) requireNamespace("bit64", quietly = TRUE) # so that R shows it and computes with it rightly
  y <- if (exact) .Call(C_collect_integer64, x) else .Call(C_collect, x)
  with_each(y, host_attributes(x, exact))
}

# The array's attributes, as an ordinary vector has them, in an order in which they can be given one by one. R makes a
# wrapper around a large vector that gets all at once, or that somebody else holds; base R's loops take longer through
# that.
host_attributes <- function(x, exact = FALSE) {
  keep <- attributes(x)
  # most have a class alone
  if (length(keep) == 1L && !exact) return(NULL)
  keep$class <- keep$gpu_dtype <- NULL
  if (length(keep) < 2L && is.null(keep$tsp) && !exact) return(keep)
  times <- times_of(keep$tsp)
  of_series <- !is.null(times) && length(keep$dim) == 2L && keep$dim[2L] != 1L && keep$dim[1L] == times
  class <- c(if (!is.null(times)) oldClass(stats::ts(if (of_series) matrix(0, 1L, 2L) else 0)),
    if (exact) "integer64")
  keep <- in_settable_order(keep, length(x))
  c(keep, if (length(class)) list(class = class))
}

# What base R's functions are given for an argument: of an array an ordinary vector. An int64 array comes as doubles, and
# an integer64 beside it too, since most of base R would compute with the bits of an integer64; `exact` where bit64 has a
# method.
# A read, by the rule on access, unless the copy is made on purpose, or is the cpu device's own way.
host_copy <- function(x, exact = FALSE, told = FALSE) {
  if (!is_gpu(x)) return(if (exact || !is_host_int64(x)) x else cpu_copy(as_gpu(x, device = "cpu")))
  if (is_sparse(x)) return(collect(x))
  if (!told) report_read(x)
  if (gpu_dtype(x) != "int64") return(collected(x, FALSE))
  # without bit64 the doubles are those of as.vector(), which warns of what they do not hold
  if (exact) return(collected(x, requireNamespace("bit64", quietly = TRUE)))
  collected(gpu_cast(x, "float64"), FALSE)
}

# Of all arguments. Beside an object of a package such as Matrix arrays are copied on purpose.
host_copies <- function(args) lapply(args, host_copy, told = is_beside_s4(args))
is_beside_s4 <- function(args) any(vapply(args, function(x) isS4(x) && !is_gpu(x), NA))

# The same for what base R computes for the cpu device, whose own way that is: a read for arrays on a GPU alone.
cpu_copy <- function(x) host_copy(x, told = is_gpu(x) && gpu_device(x) == "cpu")

# For functions of base R that read their argument and let it go: on the cpu device the array's own memory, elsewhere a
# copy.
host_view <- function(x) {
  if (!is_gpu(x)) return(host_copy(x))
  (if (is.null(names(x)) && is.null(attr(x, "tsp"))) lent(x)) %||% cpu_copy(x)
}

# An array's own memory, with its shape and names alone; NULL where it is not as R has it, or not on the cpu device.
lent <- function(x) if (!settings$compose) .Call(C_lend, x)

# For bit64's generic: whole numbers of any array, exactly.
as_integer64 <- function(x) {
  y <- .Call(C_collect_integer64, .Call(C_cast, x, "int64", sys.call(-1L)))
  class(y) <- "integer64"
  y
}

#' @export
collect.list <- function(x, ...) {
  if (...length()) rlang::check_dots_empty()
  x[] <- lapply(x, collect)
  x
}

#' @export
collect.data.frame <- collect.list

#' @rdname collect
#' @export
as.vector.gpu_array <- function(x, mode = "any") {
  report_conversion(x)
  y <- .Call(C_as_vector, x, NULL, NULL)
  if (identical(mode, "list")) names(y) <- names(x) # as base does
  as.vector(y, mode)
}

# The elements as an ordinary vector of another type: the device converts them.
collected_as <- function(x, type, dtype, call) .Call(C_as_vector, x, if (typeof(x) != type) dtype, call)

#' @rdname collect
#' @export
as.double.gpu_array <- function(x, ...) {
  report_conversion(x)
  as.double(collected_as(x, "double", "float64", sys.call()))
}

#' @rdname collect
#' @export
as.integer.gpu_array <- function(x, ...) {
  report_conversion(x)
  as.integer(collected_as(x, "integer", "int32", sys.call()))
}

#' @rdname collect
#' @export
as.logical.gpu_array <- function(x, ...) {
  report_conversion(x)
  as.logical(collected_as(x, "logical", "bool8", sys.call()))
}

#' @rdname collect
#' @export
as.complex.gpu_array <- function(x, ...) {
  report_conversion(x)
  as.complex(collected_as(x, "complex", "complex128", sys.call()))
}

#' @export
as.character.gpu_array <- function(x, ...) {
  report_conversion(x)
  if (gpu_dtype(x) != "int64") return(as.character(.Call(C_collect, x)))
  if (getRversion() < "4.3" && identical(sys.function(sys.parent()), base::factor)) spell_levels(parent.frame())
  y <- .Call(C_digits, x, 0, length(x))
  y[y == "NA"] <- NA
  y
}

# factor() looks for the strings of an array among its levels by match(), which before R 4.3 reads the bits of an
# integer64 as doubles, and finds nothing: there, in this frame, they become strings.
spell_levels <- function(frame) {
  for (name in c("levels", "exclude"))
    if (!eval(call("missing", as.name(name)), frame)) frame[[name]] <- spelled(frame[[name]])
}

# An integer64, or an int64 array, as digits; anything else as it is.
spelled <- function(x) if (is_int64(x)) as.character(as_gpu(x)) else x

#' @rdname collect
#' @method as.matrix gpu_array
#' @rawNamespace S3method(base::as.matrix,gpu_array)
as.matrix.gpu_array <- function(x, ...) {
  report_conversion(x)
  # of int64 doubles, too: base R would compute with the bits of an integer64
  as.matrix(collected(x, FALSE))
}

#' @rdname collect
#' @export
as.array.gpu_array <- function(x, ...) {
  report_conversion(x)
  as.array(collected(x, FALSE))
}
