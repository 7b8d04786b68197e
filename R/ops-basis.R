# Orthonormal bases that grow by one column per step, for GMRES and for the Lanczos and Arnoldi methods.

# The scalars of a cycle's steps: a float64 array on the device of the bases, written by their kernels and read in one
# transfer. Element 0 is reserved for the device, and 0.
new_scalars <- function(op, size) {
  memory <- gpu_zeros(size + 1, dtype = "float64", device = op$device)
  gpu_compute(memory)
  used <- 1
  seen <- numeric()
  list(
    memory = memory,
    # Reserves `count` elements; the index (0-based) of the first.
    take = function(count) {
      at <- used
      used <<- used + count
      at
    },
    # Reads `count` elements from index `from` (0-based).
    at = function(from, count) as.vector(collect(strided(memory, size + 1, 1, count, start = from))),
    # All reserved elements as a vector, of which [k + 1] is element k. Those read before are not copied again.
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

# Upper bound of the scalars that columns `kept` to m need.
numbers_for <- function(m) (m + 3) * (m + 4)

# The basis: columns of a matrix that are written in place. Views that R code reads are freed before the next write,
# since a write copies memory that another array shares, and R frees arrays late. The kernel that adds a column
# (C_basis_extend) writes regardless of sharing.
new_basis <- function(op, rows, columns, numbers) {
  memory <- gpu_zeros(c(rows, columns + 1), dtype = op$dtype, device = op$device) # so that a part is never the whole
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
  # A user's function may keep its argument, so it gets a copy.
  shared <- op$kind == "function" || isTRUE(op$preconditioned)
  list(
    put = put, product = product,
    # Calls f with column j (1-based).
    with = function(j, f) reading(j - 1, 1, if (shared) function(part) f(gpu_compute(part + 0)) else f),
    # Replaces the first columns by linear combinations (the columns of s) of the first m. With `following`, column m +
    # 1 is moved behind them.
    restart = function(m, s, following = FALSE) {
      behind <- if (following) reading(m, 1, function(part) part + 0)
      put(seq_len(ncol(s)), product(m, as_gpu(s, device = op$device)))
      if (following) put(ncol(s) + 1L, behind)
    },
    # Orthogonalises w against the k columns, normalises it and writes it as column k + 1 (classical Gram-Schmidt). The
    # first pass skips the first `near` columns, the second pass the first `again`. If the product of w with column
    # `near` is known, `known` is its index among the scalars, otherwise 0. The scalars written begin at `at`: the
    # products with columns `near` + 1 to k, the remaining length, and the fraction of that length which the second pass
    # left. A fraction of at most a half means that w depends on the columns: with `replace` a random independent vector
    # is written instead (`lost`), and its length counts as 0. On a GPU checking this waits for the device, so it is
    # done there only if `careful`.
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

# The scalars of steps, each a list of the columns that it added: `products` and `norm` of each column. NULL if one is
# not finite. Attribute `lost`: whether a column turned out to be dependent without having been checked and replaced.
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
