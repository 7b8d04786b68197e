# Orthonormal bases that grow by a column, which GMRES and Lanczos methods build.

# Columns of a matrix in memory. Columns are written in place: what reads some of them is freed before the next write,
# since a write copies memory that another array shares, and R frees arrays late.
new_basis <- function(op, rows, columns) {
  memory <- gpu_zeros(c(rows, columns + 1), dtype = op$dtype, device = op$device) # a part is never all of it
  gpu_compute(memory)
  reading <- function(at, f) {
    part <- memory[, at, drop = FALSE]
    on.exit(gpu_free(part))
    gpu_compute(f(part))
  }
  put <- function(at, value) {
    memory[, at] <<- value
    NULL
  }
  cross <- function(k, w) reading(seq_len(k), function(part) cross_product(part, w))
  product <- function(k, s) reading(seq_len(k), function(part) matrix_product(part, as_float(s, op$dtype)))
  draws <- 0
  list(
    put = put, product = product,
    one = function(j) reading(j, function(part) part + 0),
    # Linear combinations of the first m columns replace the first ones; column m + 1 (`following`) comes next.
    restart = function(m, s, following = FALSE) {
      behind <- if (following) reading(m + 1L, function(part) part + 0)
      put(seq_len(ncol(s)), product(m, as_gpu(s, device = op$device)))
      if (following) put(ncol(s) + 1L, behind)
    },
    # Makes w orthogonal to the first k columns and of length 1, and writes it behind them, by classical Gram-Schmidt,
    # twice; once if a recurrence has done so up to rounding (`near`). `along`: its products with the columns, unless it
    # was near; `norm`: its length without them; `left`: how much of that the last time has left. If that is less than a
    # half, w has no part of its own: an independent vector is written instead. On a GPU that needs `careful`, since it
    # costs as much as two more times, and looking whether it is needed a wait.
    extend = function(k, w, near = FALSE, replace = FALSE, careful = FALSE) {
      along <- if (k > 0 && !near) cross(k, w)
      if (!is.null(along)) w <- gpu_compute(w - product(k, along))
      norm <- root(column_products(op, w))
      w <- gpu_compute(w * beside_columns(op, ratio(1, norm), rows))
      if (k > 0) {
        more <- cross(k, w)
        w <- gpu_compute(w - product(k, more))
        if (!is.null(along)) along <- as_float64(along) + as_float64(more) * norm
      }
      left <- root(column_products(op, w))
      norm <- norm * left
      lost <- left <= 0.5
      if (replace && (if (is_gpu(lost)) careful else isTRUE(lost))) {
        draws <<- draws + 1
        v <- as_float(random_vectors(rows, 1, op$device, draws, 4), op$dtype)
        for (time in seq_len(2 * (k > 0))) v <- gpu_compute(v - product(k, cross(k, v)))
        w <- if (is_gpu(lost)) ifelse(along_columns(lost, rows), v, w) else v
        dim(w) <- c(rows, 1)
        norm <- norm * only_where(!lost, 1)
        length <- root(column_products(op, w))
      } else {
        length <- left
      }
      put(k + 1L, gpu_compute(w * beside_columns(op, ratio(1, length), rows)))
      list(along = along, norm = norm, left = left)
    }
  )
}

# What steps recorded, each a list of numbers or arrays of them, as ordinary vectors; copied together.
numbers_of <- function(steps) {
  parts <- do.call(c, steps)
  parts <- parts[!vapply(parts, is.null, NA)]
  on_device <- vapply(parts, is_gpu, NA)
  lengths <- lengths(parts)
  if (any(on_device)) {
    read <- split_at(collect(join(lapply(parts[on_device], function(x) strip(as_float64(x))))), lengths[on_device])
    parts[on_device] <- read
  }
  owner <- rep(seq_along(steps), vapply(steps, function(step) sum(!vapply(step, is.null, NA)), 0L))
  numbers <- lapply(seq_along(steps), function(k) unlist(lapply(parts[owner == k], as.double)))
  structure(numbers, arrays = on_device)
}

split_at <- function(x, lengths) unname(split(x, rep(seq_along(lengths), lengths)))
