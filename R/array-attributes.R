# Attributes are stored by R: `dim`, `names` and so on are read as from any vector. Setting one creates a new array on
# the same memory. Base R's setters would wrap a shared array in an ALTREP wrapper instead, and the class would not
# follow the dimensions.

#' @export
`dim<-.gpu_array` <- function(x, value) {
  keep <- attributes(x)
  # Most arrays have no attribute but the class.
  keep <- if (length(keep) > 1L)
    keep[is.na(base::match(names(keep), c("class", "dim", "dimnames", "names", "gpu_dtype")))]
  front <- fronted(x)
  x <- .Call(C_bare, x)
  with_user_call(dim(x) <- value)
  if (!is.null(keep$tsp)) {
    keep <- in_settable_order(c(attributes(x), keep), length(x))
    dim(x) <- NULL
    # In this frame: passing `x` to with_each() would add a reference, and R would copy the vector.
    for (k in seq_along(keep)) attr(x, names(keep)[k]) <- keep[[k]]
  } else if (length(keep)) {
    attributes(x) <- c(attributes(x), keep)
  }
  if (!is.null(front)) oldClass(x) <- front
  .Call(C_classed, x)
}

# The class attribute of an array, if a user's own classes stand in front of the array's: class(x) <- c("mine",
# class(x)). C_classed keeps those classes, as base R keeps a class.
fronted <- function(x) {
  class <- oldClass(x)
  if (!is.null(.Call(C_front_classes, class))) class
}

# The array `out` with the classes that a user has put in front of the class of `x`.
fronted_like <- function(out, x) {
  front <- fronted(x)
  if (is.null(front) || !is_gpu(out)) return(out)
  with_attributes(out, c(attributes(out)[names(attributes(out)) != "class"], list(class = front)))
}

# The attributes in an order in which R accepts them one by one. If `dim` was set after `tsp`, `tsp` may describe
# another number of rows than `dim` has, and R would refuse it. A `dim` that matches `tsp` is then set first and
# replaced by the real one.
in_settable_order <- function(keep, n) {
  times <- times_of(keep$tsp)
  rest <- keep[!names(keep) %in% c("dim", "tsp")]
  if (is.null(times) || times == (if (is.null(keep$dim)) n else keep$dim[1L]))
    return(c(keep["dim"[!is.null(keep$dim)]], keep["tsp"[!is.null(times)]], rest))
  c(list(dim = c(times, n / times)), keep["tsp"], list(dim = keep$dim), rest)
}

times_of <- function(tsp) if (!is.null(tsp)) round((tsp[2L] - tsp[1L]) * tsp[3L]) + 1

with_each <- function(x, attributes) {
  for (k in seq_along(attributes)) attr(x, names(attributes)[k]) <- attributes[[k]]
  x
}

#' @export
`dimnames<-.gpu_array` <- function(x, value) {
  if (is.list(value)) value <- lapply(value, host_copy, silent = TRUE)
  relabelled(x, value, "dimnames")
}

#' @export
`names<-.gpu_array` <- function(x, value) relabelled(x, host_copy(value), "names")

# The assignments are written out: handing `x` to a setter would add a reference, and R would copy the vector.
relabelled <- function(x, value, which, frame = parent.frame()) {
  kept <- attributes(x)
  kept$class <- kept$gpu_dtype <- NULL
  front <- fronted(x)
  x <- .Call(C_bare, x)
  attributes(x) <- kept
  with_user_call(if (which == "names") names(x) <- value else dimnames(x) <- value, frame)
  if (!is.null(front)) oldClass(x) <- front
  .Call(C_classed, x)
}

# Base R's functions would return an ordinary vector of another type that still has the class of an array.
#' @rdname host
#' @usage NULL
#' @export
`mode<-` <- interposed("mode<-", "x", retyped(x, value, base::`mode<-`))

# Base R's function is a primitive, which interposed() does not support.
#' @rdname host
#' @usage NULL
#' @export
`storage.mode<-` <- function(x, value) if (inherits(x, "gpu_array")) retyped(x, value, base::`storage.mode<-`) else
  base::`storage.mode<-`(x, value)

retyped <- function(x, value, f) {
  wide <- is_choice(value, c("double", "numeric"))
  if (wide && is.double(x) || is_choice(value, "integer") && is.integer(x)) return(x)
  if (wide && !is.complex(x)) return(with_attributes(gpu_cast(x, "float64"), attributes(x)))
  out <- call_base(f, list(host_copy(x), value))
  if (is.numeric(out) || is.logical(out) || is.complex(out)) fronted_like(upload_result_like(out, x), x) else out
}
