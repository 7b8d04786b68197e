#' Read an array into an ordinary vector
#'
#' `as.vector()`, `as.numeric()`, `as.integer()`, `as.logical()`, `as.complex()`, `as.matrix()` and `as.array()` return
#' ordinary R vectors, as they do for ordinary arguments. `collect()` returns an ordinary vector and keeps all
#' attributes (`dim`, `dimnames`, `names`, `tsp` and others).
#'
#' All of these functions compute recorded operations. `collect()`, `as.matrix()` and `as.array()` wait for the result
#' and copy the elements. The others return a vector whose elements stay on the device until R reads one; R then waits
#' and copies all of them, once. An operation on arrays uses such a vector directly from the device as long as R has not
#' read it, so `X * as.vector(w)` in a loop never waits. Short arrays on the cpu device, int64 arrays, memory shared
#' with another library, and conversions that may lose information are read at once. Before a process is forked
#' (`parallel::mclapply()`) all such vectors are read. [gpu_free()] of the array does not free the elements that such a
#' vector still refers to.
#'
#' @param x An array or a sparse matrix; for `collect()` also a data frame or list whose arrays are converted.
#' @param mode As in [base::as.vector()].
#' @param ... Ignored.
#' @returns An ordinary R vector, matrix or array. `collect()` of an `int64` array returns an `integer64` vector, whose
#'   methods are in the bit64 package (of a time series, doubles); the other functions return its values as doubles, or
#'   `NA` with a warning for values beyond 2^53 that no double represents. `collect()` of a sparse matrix returns a
#'   `dgCMatrix` or `lgCMatrix` of package Matrix; the other functions return dense values.
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
  # R has no time series of integer64: base R's methods would take the bits for doubles.
  y <- if (gpu_dtype(x) != "int64") collected(x, FALSE) else if (is.null(attr(x, "tsp"))) collected(x, TRUE) else
    collected(gpu_cast(x, "float64"), FALSE)
  front <- .Call(C_front_classes, oldClass(x))
  if (is.null(front)) return(y)
  # I() puts its class in front of the class attribute, and a program usually in front of class(x)
  oldClass(y) <- c(front, if (identical(front, "AsIs")) oldClass(y) else class(y))
  y
}

collected <- function(x, exact) {
  if (exact) requireNamespace("bit64", quietly = TRUE) # registers the methods of integer64
  y <- if (exact) .Call(C_collect_integer64, x) else .Call(C_collect, x)
  with_each(y, host_attributes(x, exact))
}

# The attributes that the host copy of an array gets, in an order in which R accepts them one by one. Setting all
# attributes at once on a large vector, or on one with other references, makes R put an ALTREP wrapper around it, which
# slows base R's loops.
host_attributes <- function(x, exact = FALSE) {
  keep <- attributes(x)
  # Most arrays have no attribute but the class.
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

# An argument for a base R function: an array becomes an ordinary vector, anything else stays as it is. int64 arrays and
# integer64 vectors become doubles, because most of base R would compute with the bits of an integer64; with `exact`,
# for functions that have methods of bit64, they become integer64. The copy counts as a read under option
# verdigris.host_access unless `silent` is TRUE: for intended copies, and for computations that the cpu device leaves to
# base R.
host_copy <- function(x, exact = FALSE, silent = FALSE) {
  if (!is_gpu(x)) return(if (exact || !is_host_int64(x)) x else cpu_copy(as_gpu(x, device = "cpu")))
  if (is_sparse(x)) return(collect(x))
  if (!silent) report_read(x)
  if (gpu_dtype(x) != "int64") return(collected(x, FALSE))
  # Without bit64 the doubles are those of as.vector(), which warns about values that doubles do not represent.
  if (exact && is.null(attr(x, "tsp"))) return(collected(x, requireNamespace("bit64", quietly = TRUE)))
  collected(gpu_cast(x, "float64"), FALSE)
}

# host_copy() of all arguments. If one is an S4 object of another package, such as a Matrix, the copies are intended.
host_copies <- function(args) lapply(args, host_copy, silent = is_beside_s4(args))
is_beside_s4 <- function(args) any(vapply(args, function(x) isS4(x) && !is_gpu(x), NA))

# host_copy() for computations that the cpu device leaves to base R: only arrays on a GPU count as read.
cpu_copy <- function(x) host_copy(x, silent = is_gpu(x) && gpu_device(x) == "cpu")

# For base R functions that keep no reference to their argument: the memory of an array on the cpu device without a
# copy, otherwise a host copy.
host_view <- function(x) {
  if (!is_gpu(x)) return(host_copy(x))
  (if (is.null(names(x)) && is.null(attr(x, "tsp"))) host_alias(x)) %||% cpu_copy(x)
}

# An ordinary vector on the array's own memory, with its shape but no other attributes. NULL if the array is not on the
# cpu device or its elements are not in R's representation. Its users must not modify or keep it.
host_alias <- function(x) if (!settings$force_device_path) .Call(C_lend, x)

# Method for bit64's generic: the whole numbers of any array, exactly.
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
  if (identical(mode, "list")) names(y) <- names(x) # as base R does
  as.vector(y, mode)
}

# The elements as an ordinary vector of `type`; the device converts them to `dtype`.
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
  in_factor <- identical(sys.function(sys.parent()), base::factor)
  if (gpu_dtype(x) != "int64") {
    y <- as.character(.Call(C_collect, x))
    # The missing value of narrow dtypes is no level.
    if (in_factor && is_narrow(x)) y[y == "NaN"] <- NA
    return(y)
  }
  if (getRversion() < "4.3" && in_factor) spell_levels(parent.frame())
  y <- .Call(C_digits, x, 0, length(x))
  y[y == "NA"] <- NA
  y
}

# factor() converts an array's elements to strings and matches them against its levels. Before R 4.3 match() reads the
# bits of an integer64 as doubles and finds nothing, so the variables `levels` and `exclude` of that frame are converted
# to strings.
spell_levels <- function(frame) {
  for (name in c("levels", "exclude"))
    if (!eval(call("missing", as.name(name)), frame)) frame[[name]] <- spelled(frame[[name]])
}

# An integer64 vector or int64 array as strings of digits; anything else unchanged.
spelled <- function(x) if (is_int64(x)) as.character(as_gpu(x)) else x

#' @rdname collect
#' @method as.matrix gpu_array
#' @rawNamespace S3method(base::as.matrix,gpu_array)
as.matrix.gpu_array <- function(x, ...) {
  report_conversion(x)
  # int64 also becomes double: base R would compute with the bits of an integer64.
  as.matrix(collected(x, FALSE))
}

#' @rdname collect
#' @export
as.array.gpu_array <- function(x, ...) {
  report_conversion(x)
  as.array(collected(x, FALSE))
}
