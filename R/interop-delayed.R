# DelayedArray's interface of a seed, so that an array can back a DelayedArray. dim() and dimnames() are R's own;
# extract_array() selects the requested part on the device and fetches it.

extract_part <- function(x, index) {
  subscripts <- lapply(index, function(i) if (is.null(i)) quote(expr = ) else i)
  part <- if (all(vapply(index, is.null, NA))) x else do.call(`[`, c(list(x), subscripts, list(drop = FALSE)))
  part <- collect(part)
  dimnames(part) <- NULL
  part
}

register_delayed_methods <- function(delayed = asNamespace("DelayedArray")) {
  # the package's namespace is sealed when DelayedArray is loaded
  where <- new.env(parent = delayed)
  method <- extract_part
  methods::setMethod("extract_array", "gpu_array", method, where = where)
}
