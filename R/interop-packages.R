# Methods for generics of other packages, registered when these are loaded. The packages with many are in files of their
# own: Matrix, vctrs, DelayedArray. Most packages need none: their methods for numbers and matrices take arrays, whose
# class attribute names what they are. What no method reaches is in docs/packages.md.

register_package_methods <- function() {
  # where dplyr is attached later its generics are in front
  register_late("compute", "dplyr", function(x, ...) gpu_compute(x))
  register_late("filter", "dplyr", function(.data, ...) filter(.data, ...))
  register_late("collect", "dplyr", function(x, ...) collect(x))
  when_loaded("dplyr", function() collect_first("collect", "data.frame", "dplyr"))
  # these leave out what is no vector to is.vector()
  collect_first("stack", "default", "utils")
  collect_first("stack", "data.frame", "utils")
  # what it makes of numbers it compares with the class of ordinary ones
  register_late("recode", "dplyr", function(.x, ...) numbers_back(dplyr::recode(host_copy(.x), ...), list(.x)))
  register_late("as.integer64", "bit64", function(x, ...) as_integer64(x))
  register_late("knit_print", "knitr", knit_print_array)
  register_vctrs()
}

# A package's method for lists or data frames, which begins with bringing back the arrays in them.
collect_first <- function(generic, class, package) {
  method <- utils::getS3method(generic, class, envir = asNamespace(package))
  x <- as.name(names(formals(method))[[1L]])
  body(method) <- bquote({
    if (.(holds_array)(.(x))) .(x) <- .(collect)(.(x))
    .(body(method))
  })
  registerS3method(generic, class, method, envir = asNamespace(package))
}

# raster's methods for numbers ask is.vector().
register_raster_methods <- function(raster = asNamespace("raster")) {
  where <- new.env(parent = raster)
  own <- function(f, signature, method) {
    environment(method) <- topenv()
    methods::setMethod(f, signature, method, where = where)
  }
  own("setValues", c("RasterLayer", "gpu_array"), function(x, values, ...)
    get("setValues", asNamespace("raster"))(x, host_copy(values), ...))
  own("[<-", c("RasterLayer", "missing", "missing", "gpu_array"), function(x, i, j, ..., value) {
    x[] <- host_copy(value)
    x
  })
  method <- function(e1, e2) on_host(get(.Generic, baseenv()), e1, e2)
  for (group in c("Arith", "Compare", "Logic")) for (class in c("Raster", "RasterLayer")) {
    own(group, c(class, "gpu_array"), method)
    own(group, c("gpu_array", class), method)
  }
}
