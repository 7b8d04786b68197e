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
  to <- vctrs::vec_ptype2(prototype(x), prototype(y), ...)
  arrays <- Filter(is_gpu, list(x, y))
  as_gpu(to, dtype = common_dtype(arrays, typeof(to)), device = gpu_device(arrays[[1L]]))
}

# The dtype of a combination of arrays that has this R type; NULL for the type's default dtype.
common_dtype <- function(arrays, type) {
  dtypes <- unique(vapply(arrays, gpu_dtype, ""))
  if (length(dtypes) == 1L && type == typeof(arrays[[1L]])) return(dtypes)
  # of several dtypes, that of their sum
  empty <- lapply(arrays, function(x) as_gpu(vector(typeof(x), 0L), dtype = gpu_dtype(x), device = "cpu"))
  sum <- if (type != "logical") gpu_dtype(Reduce(`+`, empty))
  if (!is.null(sum) && typeof(as_gpu(double(), dtype = sum, device = "cpu")) == type) sum
}

cast_to_array <- function(x, to, ...) {
  if (!is_gpu(x) || typeof(x) != typeof(to)) {
    x <- vctrs::vec_cast(host_copy(x, silent = TRUE), prototype(to), ...) # vctrs' own check that nothing is lost
  }
  as_gpu(x, dtype = gpu_dtype(to), device = gpu_device(to))
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
      method("vec_ptype2", paste0(kind, ".", other), common_prototype)
      method("vec_cast", paste0(kind, ".", other), cast_to_array)
      if (other %in% kinds) next
      method("vec_ptype2", paste0(other, ".", kind), common_prototype)
      method("vec_cast", paste0(other, ".", kind), cast_from_array)
    }
    method("vec_restore", kind, restore_array)
    method("vec_ptype_abbr", kind, abbreviation)
    method("vec_ptype_full", kind, function(x, ...) sprintf("gpu_array<%s>", gpu_dtype(x)))
  }
})
