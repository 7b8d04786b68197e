# Attributes are R's own: `dim`, `names` and so on are read as from any vector. What sets them makes a new array
# on the same memory: base R would wrap the shared one, and the class would not follow the dimensions.

#' @export
`dim<-.gpu_array` <- function(x, value) {
  keep <- attributes(x)
  # most have a class alone
  keep <- if (length(keep) > 1L) keep[is.na(base::match(names(keep), c("class", "dim", "dimnames", "names", "gpu_dtype")))]
  x <- .Call(C_bare, x)
  dim(x) <- value
  if (length(keep)) attributes(x) <- c(attributes(x), keep)
  .Call(C_classed, x)
}

#' @export
`dimnames<-.gpu_array` <- function(x, value) {
  if (is.list(value)) value <- lapply(value, host_copy)
  attributes <- attributes(x)
  attributes$class <- attributes$gpu_dtype <- NULL
  x <- .Call(C_bare, x)
  attributes(x) <- attributes
  dimnames(x) <- value
  .Call(C_classed, x)
}

#' @export
`names<-.gpu_array` <- function(x, value) {
  value <- host_copy(value)
  attributes <- attributes(x)
  attributes$class <- attributes$gpu_dtype <- NULL
  x <- .Call(C_bare, x)
  attributes(x) <- attributes
  names(x) <- value
  .Call(C_classed, x)
}
