# Tables of calls, each run over dtypes, sizes, edge values and layouts, and compared with base R.

sizes_tried <- c(0L, 1L, 2L, 63L, 64L, 255L, 257L)

# Vectors of a type: `edges` has NA, NaN and infinities, `ties` few values and NA, `plain` finite numbers that all
# differ.
variants <- list(
  edges = function(type, n) values(type, n),
  ties = function(type, n) {
    set.seed(n)
    few <- switch(type, double = c(2, -1, 0, -0, 0.5, NA, NaN), integer = c(3L, 1L, 2L, NA),
      logical = c(TRUE, FALSE, NA), complex = c(1i, 2 + 0i, NA))
    few[sample.int(length(few), n, TRUE)]
  },
  plain = function(type, n) {
    set.seed(n + 1L)
    switch(type, double = round(rnorm(n), 5), integer = sample.int(2L * n + 3L)[seq_len(n)],
      logical = sample(c(TRUE, FALSE), n, TRUE), complex = complex(real = rnorm(n), imaginary = rnorm(n)))
  }
)

# What is done to host vector and array alike before the call, so that the array is a view or recorded.
arrangements <- list(
  whole = identity,
  view = function(v) if (is.matrix(v)) t(v) else if (is.null(dim(v))) rev(v) else aperm(v),
  recorded = function(v) if (is.logical(v)) !v else -v
)

# Runs each call of a named list over vectors of these types; `limit` is in units in the last place. Base R's deviations
# from itself are no matter here: a call gives what it gives on the host.
over_vectors <- function(calls, types = c("double", "integer", "logical"), kinds = names(variants), sizes = sizes_tried,
  limit = 0, layouts = names(arrangements), named = TRUE) {
  found <- list()
  for (type in types) for (kind in kinds) for (n in sizes) {
    x <- variants[[kind]](type, n)
    for (layout in layouts) for (call in names(calls)) if (is_next_ours()) {
      what <- sprintf("%s of %s %s[%d], %s", call, kind, type, n, layout)
      found <- c(found, compare(calls[[call]], list(x), ulp = limit, what = what, before = arrangements[[layout]]))
    }
    if (named && n %in% c(2L, 64L)) for (call in names(calls)) if (is_next_ours()) {
      found <- c(found, compare(calls[[call]], list(stats::setNames(x, paste0("n", seq_along(x)))), ulp = limit,
        what = sprintf("%s of named %s %s[%d]", call, kind, type, n)))
    }
  }
  found
}

# The same over matrices and arrays of three dimensions, with and without dimnames.
shapes_tried <- list(c(1L, 1L), c(3L, 4L), c(9L, 7L), c(64L, 2L), c(2L, 64L), c(0L, 3L), c(3L, 0L))
over_matrices <- function(calls, types = c("double", "integer", "logical"), kinds = names(variants),
  shapes = shapes_tried, limit = 0, layouts = names(arrangements)) {
  found <- list()
  for (type in types) for (kind in kinds) for (d in shapes) {
    x <- array(variants[[kind]](type, prod(d)), d)
    named <- x
    if (length(x)) dimnames(named) <- c(list(paste0("r", seq_len(d[1L]))), list(paste0("c", seq_len(d[2L]))),
      if (length(d) > 2L) list(NULL))
    for (call in names(calls)) if (is_next_ours()) {
      what <- sprintf("%s of %s %s[%s]", call, kind, type, paste(d, collapse = "x"))
      for (layout in layouts)
        found <- c(found, compare(calls[[call]], list(x), ulp = limit, what = paste(what, layout),
        before = arrangements[[layout]]))
      if (length(x)) found <- c(found, compare(calls[[call]], list(named), ulp = limit,
        what = paste(what, "with dimnames")))
    }
  }
  found
}

# Runs the code as on a GPU, where the cpu device would leave a function to base R.
composed <- function(code) {
  before <- force_device_path(TRUE)
  on.exit(force_device_path(before))
  force(code)
}

# Whether calls take a GPU's path with any device and any length. Returns what it was.
force_device_path <- function(value) {
  before <- verdigris:::settings$force_device_path
  assign("force_device_path", value, envir = verdigris:::settings)
  before
}

# The same with so many elements of a matrix in memory at a time, where it is taken in parts (R/stats-distance.R).
in_parts <- function(elements, code) {
  block_size_override <- verdigris:::block_size_override
  block_size_override$elements <- elements
  on.exit(block_size_override$elements <- NULL)
  force(code)
}

# The same calls once more by composed(), on the cpu device: on a GPU nothing is left to base R, and they would be the
# same calls.
expect_composed_same <- function(run) if (test_device == "cpu") expect_all_same(composed(run()))
