.onLoad <- function(libname, pkgname) {
  # base wraps an object of 64 elements or more that two variables share when an attribute is set:
  # the library must know such a wrapper when it sees one
  wrapped <- lapply(list(logical(64), integer(64), double(64), complex(64)), function(x) {
    y <- x
    attr(y, "wrapped") <- TRUE
    y
  })
  .Call(C_attach, topenv(), wrapped)
  register_methods()
}
