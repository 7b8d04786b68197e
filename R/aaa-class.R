# R evaluates the files of R/ in the order of their names. Code that other files call at top level is in aaa-*.R; zzz.R,
# which lists all functions, is last. The other prefixes (array-, ops- and so on) stand for folders, since R reads no
# subfolders of R/.

# What lives on a device: arrays, and sparse matrices made of them.
ON_DEVICE <- c("gpu_array", "gpu_sparse")

# The class of splits, readers and references beside their own: data that are elsewhere. What has no method refuses it
# (team-remote.R).
REMOTE <- "gpu_remote"
REMOTES <- c("gpu_split", "gpu_reader", "gpu_ref")
for (class in REMOTES) setOldClass(c(class, REMOTE))
rm(class)
fields_of <- function(x) attr(x, "fields", exact = TRUE)
# An object of these classes: a locked environment, since base R's functions without methods say that they cannot take
# one, where they would find a list empty. It has a variable: some find that an empty one has no elements.
remote_object <- function(class, ...) {
  home <- list2env(list(remote = class), parent = emptyenv())
  lockEnvironment(home, bindings = TRUE)
  structure(home, ..., class = c(class, REMOTE))
}

# S4 looks at the first string of the class attribute alone. It names the kind of an array, and here it is said which
# class of R's own an array of this kind is: so slots, reference classes and S4 methods for that class take the array.
setOldClass("gpu_array")
KINDS <- c(gpu_logical = "logical", gpu_integer = "integer", gpu_numeric = "numeric", gpu_complex = "complex",
  gpu_matrix = "matrix", gpu_tensor = "array", gpu_ts = "ts", gpu_mts = "mts")
for (kind in names(KINDS)) {
  setOldClass(c(kind, "gpu_array"))
  # the S4 classes of series have slots
  if (endsWith(kind, "ts")) setIs(kind, KINDS[[kind]], coerce = function(from) host_series(from),
    replace = function(from, value) value) else setIs(kind, KINDS[[kind]])
}
rm(kind)
