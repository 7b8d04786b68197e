# Methods for generics of other packages, registered when these are loaded. Matrix, vctrs and DelayedArray have files of
# their own. Most packages need no methods: theirs for numbers and matrices take arrays, since the class attribute of an
# array includes its implicit class. docs/packages.md lists functions that no method can reach.

register_package_methods <- function() {
  # if dplyr is attached later, its generics mask ours
  register_late("compute", "dplyr", function(x, ...) gpu_compute(x))
  register_late("filter", "dplyr", function(.data, ...) filter(.data, ...))
  register_late("collect", "dplyr", function(x, ...) collect(x))
  when_loaded("dplyr", function() collect_first("collect", "data.frame", "dplyr"))
  # these methods drop elements that are no vectors by is.vector()
  ordinary <- function(x) {
    x[] <- lapply(x, host_copy, silent = TRUE)
    x
  }
  collect_first("stack", "default", "utils", ordinary)
  collect_first("stack", "data.frame", "utils", ordinary)
  # recode() compares the class of its results with that of ordinary vectors
  register_late("recode", "dplyr", function(.x, ...) numbers_back(dplyr::recode(host_copy(.x), ...), list(.x)))
  register_late("as.integer64", "bit64", function(x, ...) as_integer64(x))
  register_late("knit_print", "knitr", knit_print_array)
  register_vctrs()
}

# Extends a package's method for lists or data frames: it first copies the arrays in its first argument to the host.
collect_first <- function(generic, class, package, read = collect) {
  method <- utils::getS3method(generic, class, envir = asNamespace(package))
  x <- as.name(names(formals(method))[[1L]])
  body(method) <- bquote({
    if (.(holds_array)(.(x))) .(x) <- .(read)(.(x))
    .(body(method))
  })
  registerS3method(generic, class, method, envir = asNamespace(package))
}

# raster's methods for numbers call is.vector(), which is FALSE for an array.
register_raster_methods <- function(raster = asNamespace("raster")) {
  where <- new.env(parent = raster)
  set_method <- function(f, signature, method) {
    environment(method) <- topenv()
    methods::setMethod(f, signature, method, where = where)
  }
  set_method("setValues", c("RasterLayer", "gpu_array"), function(x, values, ...)
    get("setValues", asNamespace("raster"))(x, host_copy(values), ...))
  set_method("[<-", c("RasterLayer", "missing", "missing", "gpu_array"), function(x, i, j, ..., value) {
    x[] <- host_copy(value)
    x
  })
  method <- function(e1, e2) on_host(get(.Generic, baseenv()), e1, e2)
  for (group in c("Arith", "Compare", "Logic")) for (class in c("Raster", "RasterLayer")) {
    set_method(group, c(class, "gpu_array"), method)
    set_method(group, c("gpu_array", class), method)
  }
}
