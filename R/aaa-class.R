# R evaluates the files of R/ in the order of their names. Code that other files call at top level is in aaa-*.R; zzz.R,
# which lists all functions, is last. The other prefixes (array-, ops- and so on) stand for folders, since R reads no
# subfolders of R/.

# Classes whose data are on a device: arrays, and sparse matrices made of them.
ON_DEVICE <- c("gpu_array", "gpu_sparse")

# The common second class of splits, readers and references, whose data are in other processes or in files. Generics
# without a method for the object's own class refuse it (team-remote.R).
REMOTE <- "gpu_remote"
REMOTES <- c("gpu_split", "gpu_reader", "gpu_ref")
for (class in REMOTES) setOldClass(c(class, REMOTE))
rm(class)
fields_of <- function(x) attr(x, "fields", exact = TRUE)
# An object of one of these classes is a locked environment. Base functions without a method refuse an environment,
# whereas they would treat a list as an empty one. It holds one variable because some functions treat an empty
# environment as data without elements.
remote_object <- function(class, ...) {
  home <- new.env(hash = FALSE, parent = emptyenv(), size = 1L)
  home$remote <- class
  lockEnvironment(home, bindings = TRUE)
  attributes(home) <- list(..., class = c(class, REMOTE))
  home
}

# S4 looks only at the first string of the class attribute, which names the kind of array. Each kind extends the
# corresponding class of R, so that slots, reference classes and S4 methods for that class accept the array.
setOldClass("gpu_array")
KINDS <- c(gpu_logical = "logical", gpu_integer = "integer", gpu_numeric = "numeric", gpu_complex = "complex",
  gpu_matrix = "matrix", gpu_tensor = "array", gpu_ts = "ts", gpu_mts = "mts")
for (kind in names(KINDS)) {
  setOldClass(c(kind, "gpu_array"))
  # The S4 classes of time series have slots, so an array needs an explicit coercion.
  if (endsWith(kind, "ts")) setIs(kind, KINDS[[kind]], coerce = function(from) host_series(from),
    replace = function(from, value) value) else setIs(kind, KINDS[[kind]])
}
rm(kind)
