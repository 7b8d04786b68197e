# R before 4.3 looks for S3 methods of an object with the S4 bit by its first class alone (see ?UseMethod). Base R would
# find the methods for matrices, arrays, time series or numbers by the other classes; here these generics of R's own
# packages are given methods that do.

IMPLICIT <- list(
  base = c("as.Date", "as.POSIXct", "as.POSIXlt", "determinant", "diff", "isSymmetric", "plot", "subset"),
  stats = c("aggregate", "as.ts", "cycle", "diffinv", "kernapply", "monthplot", "time"),
  graphics = c("boxplot", "lines"),
  grDevices = "as.raster",
  utils = c("relist", "tail")
)

register_implicit_methods <- function() {
  for (package in names(IMPLICIT)) {
    home <- asNamespace(package)
    # some have a method of their own
    for (generic in IMPLICIT[[package]]) if (!exists(paste0(generic, ".gpu_array"), topenv(), inherits = FALSE))
      registerS3method(generic, "gpu_array", implicit_method(generic, home), home)
  }
  registerS3method("na.omit", "gpu_array", omitting, asNamespace("stats"))
}

# Base R's method of series sets the class anew, which warns of the S4 bit.
omitting <- function(object, ...) {
  if (is.null(attr(object, "tsp"))) return(na_omit(object, ...))
  back_beside(stats::na.omit(host_series(object), ...), object)
}
na_omit <- utils::getS3method("na.omit", "default", envir = asNamespace("stats"))

implicit_method <- function(generic, home) {
  force(generic)
  # getS3method() takes longer than most of the methods: what it finds in R's own packages stays
  found <- new.env(parent = emptyenv())
  method_for <- function(class) {
    if (!exists(class, envir = found, inherits = FALSE))
      assign(class, utils::getS3method(generic, class, optional = TRUE, envir = home), envir = found)
    get(class, envir = found, inherits = FALSE)
  }
  # the last classes, and their method
  last <- method <- NULL
  function(x, ...) {
    classes <- oldClass(x)
    if (!identical(classes, last)) {
      methods <- Filter(Negate(is.null), lapply(c(classes[-1L], "default"), method_for))
      if (!length(methods)) stop(sprintf("no method of %s() for an array of these dimensions", generic), call. = FALSE)
      method <<- methods[[1L]]
      last <<- classes
    }
    out <- method(x, ...)
    # with x's attributes its S4 bit may have come along
    if (isS4(out) && is.atomic(out) && !is_gpu(out)) asS4(out, FALSE, complete = FALSE) else out
  }
}

# For head.gpu_array(), whose file is evaluated before this one.
head_of_others <- implicit_method("head", asNamespace("utils"))

# Before R 4.3 base R's own warns that what has several classes loses its S4 bit.
#' @rdname host
#' @usage NULL
#' @export
I <- interposed("I", "x", without_bit(x))
without_bit <- function(x) withCallingHandlers(base::I(x), warning = function(w) tryInvokeRestart("muffleWarning"))
