# R evaluates the files of R/ in the order of their names. Code that other files call at top level is in aaa-*.R; zzz.R,
# which lists all functions, is last. The other prefixes (array-, ops- and so on) stand for folders, since R reads no
# subfolders of R/.

# What lives on a device: arrays, and sparse matrices made of them.
ON_DEVICE <- c("gpu_array", "gpu_sparse")

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
