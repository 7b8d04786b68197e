# vctrs, on which tibble and dplyr are built: the common type of arrays, and of arrays and numbers, is an array. The
# methods are registered when vctrs is loaded (.onLoad). There is no vec_proxy(): vctrs then slices by `[`, which stays
# on the device.

# A vector (or an array with no rows) of length 0 with x's R type and shape, so that vctrs' own rules apply.
prototype <- function(x) {
  if (!is_gpu(x)) return(x)
  d <- dim(x)
  if (is.null(d)) vector(typeof(x), 0L) else array(vector(typeof(x), 0L), c(0L, d[-1L]))
}

# The common type of two operands: vctrs decides on type and shape, and the arrays on the dtype, as in c().
common_prototype <- function(x, y, ...) {
  # dplyr combines the results of a thousand groups pair by pair
  if (has_same_dtype(x, y) && length(x) == 0L && is.null(dim(x)) && is.null(dim(y)) && is.null(names(x)))
    return(x)
  to <- vctrs::vec_ptype2(prototype(x), prototype(y), ...)
  arrays <- Filter(is_gpu, list(x, y))
  dtype <- common_dtype(arrays, typeof(to))
  # int64 holds no fractions of ordinary doubles
  if (identical(dtype, "int64") && any(vapply(list(x, y), function(v) !is_gpu(v) && is.double(v), NA))) dtype <- NULL
  as_gpu(to, dtype = dtype, device = gpu_device(arrays[[1L]]))
}

# vctrs takes a subscript for a logical one if it has a common type with logicals, which numbers have otherwise.
numbers_and_logicals <- function(x, y, ..., x_arg = "", y_arg = "") {
  # vctrs' C code calls methods by way of frames of its own.
  above <- base::lapply(seq(to = sys.nframe() - 1L, length.out = min(8L, sys.nframe() - 1L)), sys.function)
  subscripted <- any(vapply(mget(SUBSCRIPTED, asNamespace("vctrs"), ifnotfound = list(NULL)), function(f)
    any(vapply(above, identical, NA, f)), NA))
  if (subscripted) vctrs::stop_incompatible_type(x, y, x_arg = x_arg, y_arg = y_arg, action = "combine")
  common_prototype(x, y, ..., x_arg = x_arg, y_arg = y_arg)
}
SUBSCRIPTED <- c("vec_as_location", "vec_as_subscript", "vec_as_subscript_result", "vec_as_subscript2_result",
  "num_as_location", "vec_slice", "vec_assign", "vec_slice<-")

# The dtype of a combination of arrays that has this R type; NULL for the type's default dtype.
common_dtype <- function(arrays, type) {
  dtypes <- unique(vapply(arrays, gpu_dtype, ""))
  if (length(dtypes) == 1L && type == typeof(arrays[[1L]])) return(dtypes)
  # of several dtypes, that of their sum
  empty <- lapply(arrays, function(x) as_gpu(vector(typeof(x), 0L), dtype = gpu_dtype(x), device = "cpu"))
  sum <- if (type != "logical") gpu_dtype(Reduce(`+`, empty))
  if (!is.null(sum) && typeof(as_gpu(double(), dtype = sum, device = "cpu")) == type) sum
}

# Whether these are arrays of one dtype and device.
has_same_dtype <- function(x, y) is_gpu(x) && is_gpu(y) && gpu_dtype(x) == gpu_dtype(y) &&
  gpu_device(x) == gpu_device(y)

cast_to_array <- function(x, to, ...) {
  if (has_same_dtype(x, to)) return(x)
  if (!is_gpu(x) || typeof(x) != typeof(to)) {
    x <- vctrs::vec_cast(host_copy(x, silent = TRUE), prototype(to), ...) # vctrs' own check that nothing is lost
  }
  wanted <- gpu_dtype(to)
  if (!grepl("int", wanted)) return(as_gpu(x, dtype = wanted, device = gpu_device(to)))
  # vctrs' own check that nothing is lost knows R's types only
  out <- suppressWarnings(as_gpu(x, dtype = wanted, device = gpu_device(to)))
  given <- as_gpu(x, device = gpu_device(to))
  lost <- as.vector(select_by(is.na(out) | is.na(given), is.na(out) != is.na(given), out != given))
  vctrs::maybe_lossy_cast(out, x, to, lossy = lost %in% TRUE, ...)
}

cast_from_array <- function(x, to, ...) vctrs::vec_cast(host_copy(x, silent = TRUE), to, ...)

# Uploads a vector that vctrs has combined on the host.
restore_array <- function(x, to, ...) {
  x <- with_plain_attributes(x)
  as_gpu(x, dtype = if (typeof(x) == typeof(to)) gpu_dtype(to), device = gpu_device(to))
}

with_plain_attributes <- function(x) {
  if (is_gpu(x) && .Call(C_is_array, x)) return(x)
  attributes(x) <- attributes(x)[intersect(names(attributes(x)), c("names", "dim", "dimnames"))]
  x
}

abbreviation <- function(x, ...) paste0("gpu:", gpu_dtype(x))

# vctrs looks only at the first string of the class attribute, so each kind of array needs methods.
register_vctrs <- function() when_loaded("vctrs", function() {
  method <- function(generic, class, f) registerS3method(generic, class, f, envir = asNamespace("vctrs"))
  kinds <- c("gpu_array", names(KINDS))
  for (kind in kinds) {
    for (other in c(kinds, "logical", "integer", "double", "complex")) {
      numbers <- other == "logical" && kind %in% c("gpu_integer", "gpu_numeric", "gpu_complex")
      common <- if (numbers) numbers_and_logicals else common_prototype
      method("vec_ptype2", paste0(kind, ".", other), common)
      method("vec_cast", paste0(kind, ".", other), cast_to_array)
      if (other %in% kinds) next
      method("vec_ptype2", paste0(other, ".", kind), common)
      method("vec_cast", paste0(other, ".", kind), cast_from_array)
    }
    method("vec_restore", kind, restore_array)
    method("vec_ptype_abbr", kind, abbreviation)
    method("vec_ptype_full", kind, function(x, ...) sprintf("gpu_array<%s>", gpu_dtype(x)))
  }
})
