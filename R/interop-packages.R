# Methods for generics of other packages, registered when these are loaded. The packages with many are in files of their
# own: Matrix, vctrs, DelayedArray. Most packages need none: their methods for numbers and matrices take arrays, whose
# class attribute names what they are. What no method reaches is in docs/packages.md.

register_package_methods <- function() {
  # where dplyr is attached later its generics are in front
  register_late("compute", "dplyr", function(x, ...) gpu_compute(x))
  register_late("filter", "dplyr", function(.data, ...) filter(.data, ...))
  register_late("collect", "dplyr", function(x, ...) collect(x))
  register_late("as.integer64", "bit64", function(x, ...) as_integer64(x))
  register_late("knit_print", "knitr", knit_print_array)
  register_vctrs()
}
