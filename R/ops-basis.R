# Orthonormal bases that grow by a column, which GMRES, Lanczos and Arnoldi methods build.

# Numbers of the steps of a cycle: float64 on the device of the bases, whose kernels write them. The first is the
# device's own. They are read together.
new_numbers <- function(op, size) {
  memory <- gpu_zeros(size + 1, dtype = "float64", device = op$device)
  gpu_compute(memory)
  used <- 1
  seen <- numeric()
  list(
    memory = memory,
    # Where the next ones go, counted from 0.
    take = function(count) {
      at <- used
      used <<- used + count
      at
    },
    # Some of them, as ordinary numbers.
    at = function(from, count) as.vector(collect(strided(memory, size + 1, 1, count, start = from))),
    # All that have been taken, so that they are found where they are; those read before are not copied again.
    read = function() {
      known <- max(length(seen), 1)
      if (used > known) seen <<- c(if (length(seen)) seen else 0, as.vector(collect(strided(memory, size + 1, 1,
        used - known, start = known))))
      seen
    },
    forget = function() {
      used <<- 1
      seen <<- numeric()
    }
  )
}

# So many numbers are enough for columns from `kept` on to m.
numbers_for <- function(m) (m + 3) * (m + 4)

# Columns of a matrix in memory, which are written in place. What R's own functions read of it is freed before they
# write, since their writes copy memory that another array shares, and R frees arrays late; the kernel of a new column
# (C_basis_extend) writes whatever shares it.
new_basis <- function(op, rows, columns, numbers) {
  memory <- gpu_zeros(c(rows, columns + 1), dtype = op$dtype, device = op$device) # a part is never all of it
  gpu_compute(memory)
  extent <- c(rows, columns + 1)
  reading <- function(from, count, f) {
    part <- strided(memory, extent, c(1, 2), c(rows, count), start = c(0, from))
    dim(part) <- c(rows, count)
    on.exit(gpu_free(part))
    gpu_compute(f(part))
  }
  put <- function(at, value) {
    memory[, at] <<- value
    NULL
  }
  product <- function(k, s) reading(0, k, function(part) matrix_product(part, as_float(s, op$dtype)))
  draws <- 0
  grow <- function(k, w, near, again, known, at) .Call(C_basis_extend, memory, w, numbers$memory,
    c(rows, k, near, again, at, known))
  # somebody's function may keep what it is given
  shared <- op$kind == "function" || isTRUE(op$preconditioned)
  list(
    put = put, product = product,
    # f of a column.
    with = function(j, f) reading(j - 1, 1, if (shared) function(part) f(gpu_compute(part + 0)) else f),
    # Linear combinations of the first m columns replace the first ones; column m + 1 (`following`) comes next.
    restart = function(m, s, following = FALSE) {
      behind <- if (following) reading(m, 1, function(part) part + 0)
      put(seq_len(ncol(s)), product(m, as_gpu(s, device = op$device)))
      if (following) put(ncol(s) + 1L, behind)
    },
    # Makes w orthogonal to the columns before the new one, k of them, and of length 1, and writes it behind them, by
    # classical Gram-Schmidt: to all but the first `near`, and once more to all but the first `again`. `known` is where
    # the numbers have its product with the last of the first ones. Its own numbers begin `at`: products with all but
    # the first `near`, its length without them, and how much of that the second time has left. If that is less than a
    # half, w has no part of its own: with `replace` an independent vector is written instead, `lost`, whose length
    # counts as 0. On a GPU looking whether that is needed is a wait: only with `careful`.
    extend = function(k, w, near = 0, again = 0, known = 0, replace = FALSE, careful = FALSE) {
      at <- numbers$take(k - near + 2)
      grow(k, w, near, again, known, at)
      norm <- at + k - near
      lost <- replace && (careful || reads_at_once(op)) && isTRUE(numbers$at(norm + 1, 1) <= 0.5)
      if (lost) {
        draws <<- draws + 1
        grow(k, as_float(random_vectors(rows, 1, op$device, draws, 4), op$dtype), 0, 0, 0, numbers$take(k + 2))
      }
      list(at = at, norm = norm, products = k - near, lost = lost, checked = replace)
    }
  )
}

# What steps have written, each a list of the columns that it made: their numbers are `products` and `norm`. NULL where
# these are not finite. Attribute `lost`: whether a vector was lost that no one has looked at.
numbers_of <- function(steps, numbers) {
  read <- numbers$read()
  if (!all(is.finite(read))) return(NULL)
  unseen <- FALSE
  of_column <- function(column) {
    if (is.null(column)) return(NULL)
    norm <- read[column$norm + 1]
    if (column$checked && !column$lost && read[column$norm + 2] <= 0.5) unseen <<- TRUE
    list(products = read[column$at + seq_len(column$products)], norm = if (column$lost) 0 else norm)
  }
  out <- lapply(steps, lapply, of_column)
  structure(out, lost = unseen)
}
