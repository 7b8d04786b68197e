# What the tidyverse asks when it joins columns: an array beside numbers stays an array, with the dtype that c() gives.

register_vctrs_methods <- function() {
  register <- function(generic, classes, method) registerS3method(generic, classes, method, envir = asNamespace("vctrs"))
  for (type in c("gpu_array", "double", "integer", "logical", "complex")) {
    register("vec_ptype2", paste0("gpu_array.", type), array_prototype)
    register("vec_cast", paste0("gpu_array.", type), cast_to_array)
    if (type != "gpu_array") {
      register("vec_ptype2", paste0(type, ".gpu_array"), array_prototype)
      register("vec_cast", paste0(type, ".gpu_array"), cast_from_array)
    }
  }
}

array_prototype <- function(x, y, ...) {
  if (!is.null(dim(x)) || !is.null(dim(y))) return(vctrs::vec_default_ptype2(x, y, ...))
  if (is_gpu(x)) c(strip(x)[0L], strip(y)[0L]) else c(strip(y)[0L], strip(x)[0L])
}

# vctrs decides on the host copies what a cast would lose, and refuses that.
cast_to_array <- function(x, to, ...) {
  if (!is.null(dim(x)) || !is.null(dim(to))) return(vctrs::vec_default_cast(x, to, ...))
  value <- if (is_gpu(x) && typeof(x) == typeof(to)) x else vctrs::vec_cast(collect(x), vector(typeof(to)), ...)
  as_gpu(value, dtype = gpu_dtype(to), device = gpu_device(to))
}

cast_from_array <- function(x, to, ...) vctrs::vec_cast(collect(x), to, ...)
