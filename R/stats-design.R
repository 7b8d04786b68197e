# Model frames and model matrices of arrays.
#
# Base R decides what a formula means: model.frame() evaluates its variables, and model.matrix() of a single row gives
# the columns' names, terms and contrasts. A column itself is a recipe: a product of arrays and of entries of factors'
# contrast matrices, looked up by the factors' codes. The matrix is computed for a block of rows at a time. Only
# model.matrix() and Householder reflections need it as a whole.

# ---- model frames ----------------------------------------------------------------------------------------------

# Evaluates base R's model frame of these arguments of a call in `frame`; arrays stay arrays. `drop`: levels without
# rows are dropped (not where the rows are those of one member of a team).
frame_of <- function(call, formula, parts, frame, drop = TRUE) {
  mf <- call[c(1L, match(parts, names(call), 0L))]
  mf[[1L]] <- quote(stats::model.frame)
  mf$formula <- formula
  action <- action_of(mf, frame)
  mf$na.action <- if (is.null(action$name)) action$given else quote(stats::na.pass)
  mf$drop.unused.levels <- is.null(action$name)
  if (is.null(action$name)) return(eval(mf, frame))
  at <- device_subset(mf, formula, frame)
  if (!is.null(at)) mf$subset <- NULL
  out <- eval(mf, frame)
  if (!is.null(at)) {
    rows <- attr(out, "row.names")
    out <- frame_rows(out, at, FALSE)
    attr(out, "row.names") <- rows[collect(at)]
  }
  out <- without_missing(out, action$name)
  if (drop) drop_levels(out, device_of(out)) else out
}

# The positions of a `subset` that is a condition on arrays, which model.frame() would read on the host. NULL if base R
# can take it, or has to.
device_subset <- function(mf, formula, frame) {
  if (!"subset" %in% names(mf) || is.null(formula)) return(NULL)
  data <- if ("data" %in% names(mf)) eval(mf$data, frame) else environment(formula)
  if (!is.list(data) && !is.environment(data)) return(NULL)
  keep <- eval(mf$subset, data, environment(formula))
  if (!is_gpu(keep) || !is.logical(keep) || !is.null(dim(keep)) || anyNA(keep)) return(NULL)
  # base R recycles a condition of another length
  rows <- if (is.data.frame(data)) nrow(data) else NROW(eval(stats::as.formula(formula)[[2L]], data,
    environment(formula)))
  if (length(keep) == rows) which(keep)
}

# The handling of missing values: `name` of one of base R's functions for it, or `given`, another function.
action_of <- function(mf, frame) {
  given <- mf$na.action
  value <- eval(given, frame)
  if (!"na.action" %in% names(mf)) {
    data <- if ("data" %in% names(mf)) attr(eval(mf$data, frame), "na.action")
    value <- if (!is.null(data) && mode(data) != "numeric") data else getOption("na.action") %||% "na.fail"
    given <- value
  }
  if (is.null(value)) return(list(name = "na.pass"))
  for (name in c("na.omit", "na.exclude", "na.fail", "na.pass"))
    if (identical(value, name) || identical(value, get(name, asNamespace("stats")))) return(list(name = name))
  list(given = given)
}

# The rows in which a variable of the frame has a missing value: a logical vector or array, NULL where none has.
missing_rows <- function(frame) {
  found <- NULL
  for (v in with_missing(unclass(frame))) {
    one <- is.na(v)
    if (length(dim(v)) == 2L) one <- rowSums(one) > 0
    attributes(one) <- if (is_gpu(one)) attributes(strip(one))
    found <- if (is.null(found)) one else found | one
  }
  found
}

# The variables that have missing values. Usually no array has any: one call checks all arrays, and the answer is cached
# until one of them is written to.
with_missing <- function(frame) {
  frame <- frame[vapply(frame, is.atomic, NA)]
  arrays <- Filter(is_gpu, frame)
  if (length(unique(vapply(arrays, gpu_device, ""))) == 1L && .Call(C_are_complete, unname(arrays)))
    frame <- frame[!names(frame) %in% names(arrays)]
  device <- device_of(arrays)
  frame[vapply(frame, has_missing, NA, device)]
}

# anyNA() of a factor would allocate is.na() of all its elements. `device`: where codes of factors are counted, or NULL.
has_missing <- function(x, device) {
  if (!is.factor(x)) return(anyNA(x))
  counts <- level_counts(x, device)
  if (is.null(counts)) anyNA(unclass(x)) else counts[length(counts)] > 0
}

without_missing <- function(frame, name) {
  bad <- if (name != "na.pass") missing_rows(frame)
  if (is.null(bad)) return(frame)
  if (name == "na.fail") stats::na.fail(NA)
  rows <- attr(frame, "row.names")
  at <- as.integer(collect(which(bad)))
  out <- frame_rows(frame, which(!bad), TRUE)
  attr(out, "row.names") <- rows[-at]
  attr(out, "na.action") <- structure(at, names = as.character(rows[at]),
    class = if (name == "na.omit") "omit" else "exclude")
  out
}

# Some rows of a frame, by an array or vector of positions. `keep`: its variables keep their attributes, as in base R
# where rows with missing values are left out.
frame_rows <- function(frame, at, keep) {
  host <- if (is_gpu(at) && !all(vapply(frame, is_gpu, NA))) collect(at) else at
  kept <- attributes(frame)
  out <- lapply(frame, function(v) {
    i <- if (is_gpu(v)) at else host
    w <- if (length(dim(v)) == 2L) v[i, , drop = FALSE] else v[i]
    if (is_gpu(v) || !keep) return(w)
    for (name in setdiff(names(attributes(v)), c("names", "dim", "dimnames", "tsp", names(attributes(w)))))
      attr(w, name) <- attr(v, name)
    w
  })
  attributes(out) <- kept
  out
}

# Drops the levels that no row has from the factors of a frame.
drop_levels <- function(frame, device) {
  for (name in names(frame)[vapply(unclass(frame), is.factor, NA)]) {
    x <- frame[[name]]
    counts <- level_counts(x, device) %||% base::tabulate(x, nlevels(x))
    if (all(counts[seq_len(nlevels(x))] > 0L)) next
    frame[[name]] <- x[, drop = TRUE]
    if (!identical(attr(frame[[name]], "contrasts"), attr(x, "contrasts"))) warning(gettextf(
      "contrasts dropped from factor %s due to missing levels", name, domain = "R-stats"), call. = FALSE)
  }
  frame
}

# The factors whose codes a fit has copied to a GPU: a fit sets `coded_factors$all` to a list, and to NULL when it ends.
# It counts a factor's levels and missing codes, and computes with its codes: all by one copy.
coded_factors <- new.env(parent = emptyenv())

# The codes of a factor, as an array.
codes_in_fit <- function(x, device) {
  for (one in coded_factors$all) if (one$device == device && rlang::is_reference(one$factor, x)) return(one$codes)
  codes <- factor_codes(x, device)
  # the list's reference to the factor keeps R from changing it in place
  if (!is.null(coded_factors$all))
    coded_factors$all <- c(coded_factors$all, list(list(factor = x, device = device, codes = codes)))
  codes
}

# The counts of a long factor's levels, then of missing codes, on a GPU. NULL where the host is to count.
level_counts <- function(x, device) {
  if (is.null(device) || !settings$force_device_path && (device == "cpu" || length(x) < 2^16)) return(NULL)
  as.vector(.Call(C_count_bins, codes_in_fit(x, device), 1, nlevels(x)))
}

# The device of a model: the one that was asked for, else that of the frame's arrays, else the current one.
device_for <- function(frame, device = NULL) {
  if (!is.null(device)) return(gpu_device(as_gpu(0, device = device)))
  device_of(frame) %||% gpu_device(as_gpu(0))
}

# A variable of a frame on the device, in float64; complex ones stay complex.
on_device_of <- function(x, device) {
  if (is_gpu(x) && !is.complex(x) && gpu_device(x) == device) return(as_float64(x))
  x <- if (is_gpu(x)) x else as_gpu(if (is.null(dim(x))) as.vector(x) else base::matrix(as.vector(x), nrow(x)),
    dtype = if (is.numeric(x) || is.logical(x)) "float64", device = device)
  if (is.complex(x)) return(x)
  as_float64(as_gpu(x, device = device))
}

# ---- model matrices --------------------------------------------------------------------------------------------

is_coded <- function(x) is.factor(x) || is.logical(x) || is.character(x)

# A design has `n` rows and `p` columns with `names`. Columns are given by `columns` (recipes), `plain` (their arrays,
# see plain_columns()) and `groups` (see alike()), or by `x`, a whole matrix. `scale`: factors of the rows, or NULL.
# `assign`, `contrasts`: attributes of base R's model matrix. `sorted`: the cache of sorted_codes().
design_of <- function(terms, frame, contrasts, device) {
  n <- if (length(frame)) NROW(frame[[1L]]) else length(attr(frame, "row.names"))
  if (any(vapply(frame, is.character, NA))) frame[] <- lapply(frame, function(v) if (is.character(v)) factor(v) else v)
  made <- c(list(n = n), columns_of_terms(terms, frame, n, contrasts), list(device = device))
  columns <- recipes(terms, frame, made$contrasts, device)
  # base R has used another rule, so it makes the matrix
  if (length(columns) != length(made$assign)) {
    host <- stats::model.matrix(terms, collect(frame), contrasts)
    return(structure(c(made, list(p = ncol(host), x = strip_names(as_gpu(unclass(host), device = device)))),
      class = "gpu_design"))
  }
  structure(c(made, list(p = length(columns), columns = columns, plain = plain_columns(columns), groups = alike(columns),
    sorted = sorted_codes())), class = "gpu_design")
}

# The names, `assign` and `contrasts` of base R's model matrix. If each term is a variable with one number for each row,
# they follow from the terms.
columns_of_terms <- function(terms, frame, n, contrasts) {
  labels <- attr(terms, "term.labels")
  if (is.null(contrasts) && length(labels) && all(attr(terms, "order") == 1L)) {
    pattern <- attr(terms, "factors")
    used <- rownames(pattern)[rowSums(pattern > 0L) > 0L]
    is_plain <- function(v) is.null(dim(v)) && is.numeric(v) && (is_gpu(v) || !is.object(v))
    has_response <- attr(terms, "response") > 0L && rownames(pattern)[attr(terms, "response")] %in% used
    one <- if (attr(terms, "intercept") > 0L) 0L
    if (!has_response && all(vapply(unclass(frame)[used], is_plain, NA))) return(list(names = c(if (length(one))
      "(Intercept)", labels), assign = c(one, seq_along(labels)), contrasts = NULL))
  }
  out <- stats::model.matrix(terms, one_row(frame, n), contrasts)
  list(names = colnames(out), assign = attr(out, "assign"), contrasts = attr(out, "contrasts"))
}

# The arrays of columns that all are in memory (NULL for a column of ones). NULL if some column has to be computed.
plain_columns <- function(columns) if (all(vapply(columns, is_in_memory, NA))) lapply(columns, function(column)
  if (length(column)) column[[1L]]$values)

# A design's cache of the rows sorted by each combination of codes: every step of a fit needs the same ones.
sorted_codes <- function() new.env(parent = emptyenv())

# The first row of a frame, with zeros in place of arrays' elements; no row if the frame has none.
one_row <- function(frame, n) {
  out <- lapply(frame, function(v) {
    m <- min(n, 1L)
    if (!is_gpu(v)) return(if (length(dim(v)) == 2L) v[seq_len(m), , drop = FALSE] else v[seq_len(m)])
    w <- vector(if (is.logical(v)) "logical" else "double", m * NCOL(v))
    if (length(dim(v)) == 2L) base::matrix(w, m, NCOL(v), dimnames = list(NULL, colnames(v))) else w
  })
  structure(out, names = names(frame), terms = attr(frame, "terms"), class = "data.frame",
    row.names = seq_len(min(n, 1L)))
}

# A column's recipe is a list of parts that are multiplied; without parts it is a column of ones. A part is list(key,
# values), an array with an element for each row, or for a factor list(key, codes, table, gaps): an array of codes, an
# ordinary vector with a number for each code, and whether a code is missing. Factors' parts of one key share codes.
recipes <- function(terms, frame, contrasts, device) {
  out <- if (attr(terms, "intercept") > 0L) list(list())
  pattern <- attr(terms, "factors")
  if (!length(pattern)) return(out)
  response <- attr(terms, "response")
  of_response <- if (response > 0L) pattern[response, ] > 0L else rep(FALSE, ncol(pattern))
  coded <- vapply(frame[rownames(pattern)], is_coded, NA)
  # without an intercept the first factor has a column for each level
  if (attr(terms, "intercept") == 0L) {
    first <- base::which(pattern > 0L & coded & rep(!of_response, each = nrow(pattern)))
    if (length(first)) pattern[first[1L]] <- 2L
  }
  variables <- unclass(frame)
  parts <- new.env(parent = emptyenv())
  part_of <- function(v, code) {
    key <- paste(code, v)
    parts[[key]] %||% (parts[[key]] <- variable_parts(key, variables[[v]], contrasts[[v]], code == 2L, device))
  }
  involved <- lapply(seq_len(ncol(pattern)), function(term) rownames(pattern)[pattern[, term] > 0L])
  for (term in base::which(!of_response)) {
    columns <- list(list())
    # most terms are a single variable
    if (length(involved[[term]]) == 1L) {
      out <- c(out, lapply(part_of(involved[[term]], pattern[involved[[term]], term]), list))
      next
    }
    # the columns of the first variable vary fastest
    for (v in involved[[term]]) {
      own <- part_of(v, pattern[v, term])
      columns <- do.call(c, lapply(own, function(part) lapply(columns, function(column) c(column, list(part)))))
    }
    out <- c(out, columns)
  }
  out
}

# The parts of a variable, one for each column: of a factor its contrasts, or if `full` an indicator of each level.
variable_parts <- function(key, x, contrasts, full, device) {
  if (!is_coded(x)) {
    x <- on_device_of(x, device)
    computed_arrays(list(x))
    if (is.null(dim(x))) return(list(list(key = paste(key, 1L), values = strip(x))))
    n <- NROW(x)
    return(lapply(seq_len(NCOL(x)), function(j) list(key = paste(key, j),
      values = if (length(x) == n) strip(x) else strided(strip(x), length(x), 1, n, start = n * (j - 1)))))
  }
  levels <- if (is.logical(x)) c("FALSE", "TRUE") else levels(x)
  codes <- if (is.logical(x)) gpu_cast(as_gpu(x, device = device), "int32") + 1L else
    codes_in_fit(x, device)
  gpu_compute(codes)
  table <- if (full) diag(1, length(levels)) else {
    coded <- factor(levels, levels = levels)
    attr(coded, "contrasts") <- contrasts
    as.matrix(stats::contrasts(coded))
  }
  gaps <- anyNA(codes)
  lapply(seq_len(ncol(table)), function(j) list(key = key, codes = strip(codes), table = as.double(table[, j]),
    gaps = gaps))
}

# ---- the matrix ------------------------------------------------------------------------------------------------

# Rows of a block: enough elements to occupy a GPU; on the cpu device as many as a core's cache holds.
block_rows <- function(d) max(1, floor((if (d$device == "cpu") 2^18 else 2^25) / max(1, d$p)))

# A matrix as a design.
as_design <- function(x) {
  if (inherits(x, "gpu_design")) return(x)
  x <- if (is_gpu(x)) x else as_gpu(unclass(x))
  structure(list(n = nrow(x), p = ncol(x), names = colnames(x), x = strip_names(as_float64(x)),
    device = gpu_device(x)), class = "gpu_design")
}

# The values of a part in some rows; `piece(v)` takes these rows of an array.
part_values <- function(part, piece, device) if (is.null(part$codes)) piece(part$values) else
  as_gpu(part$table, device = device)[piece(part$codes)]

# `count` rows of a design from the 0-based row `from`, as a matrix.
design_rows <- function(d, from, count, scaled = TRUE) {
  scale <- if (scaled && !is.null(d$scale)) vector_rows(d$scale, from, count)
  if (!is.null(d$x)) {
    x <- vector_rows(d$x, from, count)
    return(if (is.null(scale)) x else x * scale)
  }
  if (!length(d$columns)) return(gpu_zeros(c(count, 0), device = d$device))
  joined_columns(scaled_columns(dense_parts(d, from, count), scale, count, d$device), count)
}

# Some rows of each column, unscaled: an array, in memory or recorded, or NULL for a column of ones.
dense_parts <- function(d, from, count) {
  if (!is.null(d$x)) return(columns_in(d$x, from, count))
  if (!is.null(d$plain) && count == d$n) return(d$plain)
  piece <- function(v) vector_rows(v, from, count)
  lapply(d$columns, function(column) {
    if (length(column) == 1L) part_values(column[[1L]], piece, d$device) else if (length(column))
      Reduce(`*`, lapply(column, part_values, piece, d$device))
  })
}

# Columns (NULL for ones) as arrays, each times `by` if that is given.
scaled_columns <- function(columns, by, count, device) lapply(columns, function(x)
  if (is.null(x)) by %||% gpu_ones(count, device = device) else if (is.null(by)) x else x * by)

# Columns as one matrix.
joined_columns <- function(columns, count) {
  x <- join(columns)
  dim(x) <- c(count, length(columns))
  x
}

# Whether a column needs no computation: it is an array as it is, or ones.
is_in_memory <- function(column) !length(column) || length(column) == 1L && is.null(column[[1L]]$codes)

# Views of some rows of each column of a vector or matrix; NULL for NULL.
columns_in <- function(y, from, count) {
  n <- NROW(y)
  if (is.null(dim(y))) return(if (!is.null(y)) list(vector_rows(y, from, count)))
  y <- strip(y)
  lapply(seq_len(length(y) / max(n, 1)), function(j) strided(y, length(y), 1, count, start = n * (j - 1) + from))
}

# Computes the arrays that f makes of a block of rows (NULL for a design without columns), then frees the block: R's
# collector would come too late. A single column is not freed, as it may be the memory of a variable.
with_rows <- function(d, from, count, f, scaled = TRUE) {
  x <- if (d$p > 0L) design_rows(d, from, count, scaled)
  out <- computed_arrays(f(x))
  if (is.null(d$x) && d$p > 1L) gpu_free(x)
  out
}

computed_arrays <- function(arrays) {
  .Call(C_compute, arrays)
  arrays
}

# `count` rows, from the 0-based row `from`, of a vector or of a matrix of right sides.
vector_rows <- function(y, from, count) {
  if (is.null(y) || count == NROW(y)) return(y)
  if (is.null(dim(y))) strided(y, length(y), 1, count, start = from) else
    y[(from + 1):(from + count), , drop = FALSE]
}

# A list of f(from, count) for each block of rows.
by_blocks <- function(d, f, size = block_rows(d)) {
  from <- if (d$n > 0) seq(0, d$n - 1, by = size) else 0
  Map(f, from, pmin(size, d$n - from))
}

# The unscaled design times a vector, which is recorded, or times a matrix.
design_times <- function(d, b) {
  if (!is.null(d$x)) {
    out <- d$x %*% as_gpu(b, dtype = "float64", device = d$device)
    return(if (is.matrix(b)) out else strip(out))
  }
  if (is.matrix(b)) {
    b <- as_gpu(b, dtype = "float64", device = d$device)
    return(do.call(rbind, by_blocks(d, function(from, count)
      with_rows(d, from, count, function(x) list(x %*% b), scaled = FALSE)[[1L]])))
  }
  if (!is.null(d$plain))
    return(.Call(C_combination, d$plain, as.double(b), NULL) %||% gpu_full(sum(b), d$n, device = d$device))
  # adds from the first column to the last, as base R: columns in memory by one call, those of a factor as one term
  plain <- vapply(d$columns, is_in_memory, NA)
  first <- match(d$groups, d$groups)
  runs <- cumsum(c(TRUE, !(plain[-1L] & plain[-d$p])))[first]
  out <- NULL
  for (j in split(seq_len(d$p), runs)) {
    column <- d$columns[[j[1L]]]
    if (plain[j[1L]]) {
      out <- .Call(C_combination, plain_columns(d$columns[j]), as.double(b[j]), out) %||% sum(b[j])
      next
    }
    coded <- which_coded(column)
    # one number per code for all columns of the factor together
    if (length(j) > 1L) column[[coded]]$table <- as.vector(vapply(d$columns[j], function(column) column[[coded]]$table,
      column[[coded]]$table) %*% b[j])
    term <- Reduce(`*`, lapply(column, part_values, identity, d$device))
    if (length(j) == 1L) term <- term * b[j]
    out <- if (is.null(out)) term else out + term
  }
  if (is_gpu(out)) out else gpu_full(out %||% 0, d$n, device = d$device)
}

which_coded <- function(column) base::which(vapply(column, function(part) !is.null(part$codes), NA))

# A key for each column. Columns that differ only in which contrast of one factor they use share a key.
alike <- function(columns) {
  vapply(seq_along(columns), function(j) {
    column <- columns[[j]]
    if (is_in_memory(column)) return(paste("column", j))
    if (length(which_coded(column)) != 1L) return(sprintf("column %d", j))
    paste(vapply(column, `[[`, "", "key"), collapse = " : ")
  }, "")
}

# A design with some of the columns. design_at() takes some of the rows.
design_columns <- function(d, j) {
  if (is.character(j)) j <- match(j, d$names)
  d$p <- length(seq_len(d$p)[j])
  d$names <- d$names[j]
  d$columns <- d$columns[j]
  d$plain <- d$plain[j]
  d$groups <- d$groups[j]
  if (!is.null(d$x)) d$x <- d$x[, j, drop = FALSE]
  d
}

design_at <- function(d, at) {
  d$n <- length(at)
  if (!is.null(d$scale)) d$scale <- d$scale[at]
  if (!is.null(d$x)) d$x <- d$x[at, , drop = FALSE]
  if (!is.null(d$columns)) {
    d$sorted <- sorted_codes()
    # several columns may share a part: take its rows once
    taken <- new.env(parent = emptyenv())
    d$columns <- lapply(d$columns, lapply, function(part) {
      name <- if (is.null(part$codes)) "values" else "codes"
      if (is.null(taken[[part$key]])) taken[[part$key]] <- part[[name]][at]
      part[[name]] <- taken[[part$key]]
      part
    })
    d$plain <- plain_columns(d$columns)
  }
  d
}

# The model matrix as an array, with base R's column names and attributes, and without names of rows.
model_array <- function(d) {
  x <- with_dimnames(design_rows(d, 0, d$n, FALSE), list(NULL, d$names))
  attr(x, "assign") <- d$assign
  attr(x, "contrasts") <- d$contrasts
  x
}

model_matrix_on_device <- function(object, data, contrasts.arg = NULL, ...) {
  if (inherits(object, "lm")) return(stats::model.matrix(object, ...))
  model_array(design_of(object, data, contrasts.arg, device_for(data)))
}

# ---- a design in glm.fit() -------------------------------------------------------------------------------------

# Methods that base R's glm.fit() needs for its matrix. `%*%` and `*` are masked there instead (glm_fit_on_device()).

#' @export
dim.gpu_design <- function(x) c(x$n, x$p)
#' @export
dimnames.gpu_design <- function(x) list(NULL, x$names)
#' @method as.matrix gpu_design
#' @rawNamespace S3method(base::as.matrix,gpu_design)
as.matrix.gpu_design <- function(x, ...) x
#' @export
`[.gpu_design` <- function(x, i, j, drop = FALSE) {
  if (!missing(j)) x <- design_columns(x, j)
  if (missing(i) || all(i)) x else design_at(x, which(i))
}

# A design times a vector, which scales its rows; a design of one column times a single coefficient.
scaled_design <- function(d, by) {
  if (length(by) == 1L && d$n != 1) return(design_times(d, by))
  d$scale <- strip(on_device_of(by, d$device))
  d
}
