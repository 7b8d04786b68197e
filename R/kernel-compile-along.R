# gpu_apply(), gpu_stencil(), gpu_reduce(), gpu_scan() and gpu_sort_by(). Each makes an R function that calls the
# user's, and compiles both together.

#' Apply R functions to rows, columns and neighbourhoods
#'
#' `gpu_apply(x, margin, f)` runs `f` for each row (1) or column (2) of a matrix, which `f` receives as a vector that it
#' may sum, loop over and index. `gpu_stencil(x, f, radius)` runs `f` for each element with its neighbourhood: a vector
#' of `2 * radius + 1` elements if `x` is a vector, a matrix with as many rows and columns if it is a matrix, with the
#' element in the middle.
#' @param x A vector or matrix: an array, or host values, which are copied to the device.
#' @param margin 1 for rows, 2 for columns.
#' @param f A function that can be compiled (see [gpu_compile()]). `gpu_apply()` calls it with a vector.
#' @param radius The number of neighbours on each side, from 1 to 5 (matrices: 3).
#' @param edge The values beyond the border: `NA`, a number, `"wrap"` (the opposite side), `"clamp"` (the nearest
#'   element) or `"reflect"` (mirrored, without repeating the border).
#' @param ... Further arguments of `f`: numbers, or arrays that are passed whole.
#' @returns An array on the device of `x`: `gpu_apply()` returns one element for each row or column (a matrix with a row
#'   for each if `f` returns several numbers), `gpu_stencil()` returns an array in the shape of `x`. The call computes
#'   nothing and does not wait.
#' @section Errors:
#' The errors of [gpu_compile()]; `verdigris_error_argument`; `verdigris_error_shape` if `x` is not a matrix.
#' @seealso [gpu_compile()], [gpu_reduce()].
#' @examples
#' m <- as_gpu(matrix(c(1, 5, 2, 8, 3, 9), 2), device = "cpu")
#' gpu_apply(m, 1, function(row) max(row) - min(row))
#' gpu_stencil(as_gpu(c(1, 4, 9, 16), device = "cpu"), function(w) w[3] - w[1], 1)
#' @name gpu_apply
NULL

#' @rdname gpu_apply
#' @export
gpu_apply <- function(x, margin, f, ...) {
  if (length(dim(x)) != 2L) stop_verdigris("shape", sprintf("`x` must be a matrix, not %s.", describe(x)))
  if (!is.numeric(margin) && !is.character(margin) || length(margin) != 1L)
    abort_argument("margin", "1 (rows) or 2 (columns)", margin)
  given <- margin
  margin <- margin_axes(x, given)
  if (is.null(margin)) abort_argument("margin", "1 (rows) or 2 (columns)", given)
  around <- list2env(list(x = array_of(x), f = plain_function(f)), parent = baseenv())
  more <- named_more(list(...), around)
  piece <- if (margin == 1L) quote(x[k, ]) else quote(x[, k])
  # with this test the compiler needs no bounds check for each element of the row
  inside <- if (margin == 1L) quote(k >= 1L && k <= nrow(x)) else quote(k >= 1L && k <= ncol(x))
  each <- made_function("k", bquote(if (.(inside)) .(as.call(c(list(quote(f), piece), more))) else
    stop("no such row or column")), around)
  out <- gpu_map(each, gpu_seq(1L, dim(x)[[margin]], device = gpu_device(around$x)))
  names <- dimnames(x)[[margin]]
  if (!is.null(names) && is_gpu(out) && is.null(dim(out))) names(out) <- names
  out
}

#' @rdname gpu_apply
#' @export
gpu_stencil <- function(x, f, radius = 1, edge = NA, ...) {
  d <- dim(x)
  if (length(d) > 2L) stop_verdigris("shape", "`x` must be a vector or a matrix.", "Take a slice: x[, , k].")
  planar <- length(d) == 2L
  most <- if (planar) 3L else 5L
  if (!is.numeric(radius) || length(radius) != 1L || is.na(radius) || radius != trunc(radius) || radius < 1 ||
    radius > most) {
    abort_argument("radius", sprintf("a whole number from 1 to %d", most), radius)
  }
  words <- c("wrap", "clamp", "reflect")
  if (length(edge) != 1L || !(is.character(edge) && edge %in% words || is.numeric(edge) || is.logical(edge))) {
    abort_argument("edge", "a number, NA, \"wrap\", \"clamp\" or \"reflect\"", edge)
  }
  radius <- as.integer(radius)
  around <- list2env(list(x = array_of(x), f = plain_function(f), edge = if (is.character(edge)) 0 else edge),
    parent = baseenv())
  more <- named_more(list(...), around)
  kind <- if (is.character(edge)) edge else "given"
  body <- stencil_code(planar, radius, kind, zero_like(around$x), more)
  device <- gpu_device(around$x)
  out <- if (planar) {
    each <- made_function(c("i", "j"), body, around)
    gpu_map(each, repeated(gpu_seq(1L, d[[1L]], device = device), times = d[[2L]]),
      repeated(gpu_seq(1L, d[[2L]], device = device), each = d[[1L]]))
  } else {
    gpu_map(made_function("i", body, around), gpu_seq(1L, length(x), device = device))
  }
  if (planar && is_gpu(out) && is.null(dim(out))) {
    dim(out) <- d
    if (!is.null(dimnames(x))) dimnames(out) <- dimnames(x)
  } else if (is_gpu(out) && !is.null(names(x))) {
    names(out) <- names(x)
  }
  out
}

# The code that gpu_stencil() compiles around `f`, cached. `edge` is the rule for the border, or "given" for a number.
STENCILS <- new.env(parent = emptyenv())
stencil_code <- function(planar, radius, edge, zero, more) {
  key <- paste(c(planar, radius, edge, typeof(zero), length(more), names(more)), collapse = "\n")
  if (!is.null(STENCILS[[key]])) return(STENCILS[[key]])
  # the position of neighbour k on an axis of length n; with "given" it may lie outside
  beyond <- function(k, n) {
    if (identical(edge, "wrap")) return(bquote((.(k) - 1L) %% .(n) + 1L))
    if (identical(edge, "clamp")) return(bquote(pmin(pmax(.(k), 1L), .(n))))
    if (identical(edge, "reflect")) return(bquote({
      m <- (.(k) - 1L) %% pmax(2L * .(n) - 2L, 1L)
      1L + if (m < .(n)) m else 2L * .(n) - 2L - m
    }))
    k
  }
  inside <- edge == "given"
  size <- 2L * radius + 1L
  offset <- function(of, from) bquote(.(of) + .(from) - .(radius + 1L))
  STENCILS[[key]] <- if (planar) {
    read <- if (inside) quote(if (a >= 1L && a <= nrow(x) && b >= 1L && b <= ncol(x)) x[a, b] else edge) else
      quote(x[a, b])
    bquote({
      w <- matrix(.(zero), .(size), .(size))
      for (q in 1:.(size)) {
        b <- .(beyond(offset(quote(j), quote(q)), quote(ncol(x))))
        for (p in 1:.(size)) {
          a <- .(beyond(offset(quote(i), quote(p)), quote(nrow(x))))
          w[p, q] <- .(read)
        }
      }
      .(as.call(c(list(quote(f), quote(w)), more)))
    })
  } else {
    read <- if (inside) quote(if (a >= 1L && a <= length(x)) x[a] else edge) else quote(x[a])
    bquote({
      w <- rep(.(zero), .(size))
      for (p in 1:.(size)) {
        a <- .(beyond(offset(quote(i), quote(p)), quote(length(x))))
        w[p] <- .(read)
      }
      .(as.call(c(list(quote(f), quote(w)), more)))
    })
  }
}

#' Custom reductions, scans and sort orders
#'
#' `gpu_reduce(x, f, init)` combines all elements by `f`, as [base::Reduce()] does. `gpu_scan(x, f)` combines the
#' elements up to each position, as [base::Reduce()] with `accumulate = TRUE` does. `f` takes two numbers and must be
#' associative: the device combines neighbours first, in a fixed tree, so that every run gives the same bits. It need
#' not be commutative. `gpu_sort_by(x, before)` sorts by a function of two numbers that returns whether the first
#' precedes the second. Two elements keep their order if neither precedes the other.
#' @param x A vector: an array, or host values, which are copied to the device.
#' @param f A function of two numbers that returns one number (see [gpu_compile()]).
#' @param init The initial value of `gpu_reduce()`: the left operand for the first element. By default the first element
#'   itself is the initial value.
#' @param before A function of two numbers that returns TRUE or FALSE: a strict order, such as `function(a, b) a < b`.
#' @returns `gpu_reduce()`: one number, as an array of length 1 (if `x` is empty, `init` or an error); the others return
#'   arrays like `x`. The type of the result is that of `f` for two elements of `x`. The values are computed at once, in
#'   several launches: log64(n) for `gpu_reduce()`, log2(n) for `gpu_scan()`, log2(n)^2 / 2 for `gpu_sort_by()`.
#' @section Errors:
#' The errors of [gpu_compile()]; `verdigris_error_argument` if `f` returns several numbers, or if `x` is empty and
#' there is no `init`.
#' @seealso [gpu_compile()]. For sums, extremes, sorting by value and cumulative sums R's own functions are faster:
#'   `sum()`, `max()`, `sort()`, `cumsum()`.
#' @examples
#' x <- as_gpu(c(3, 1, 2), device = "cpu")
#' gpu_reduce(x, function(a, b) if (abs(a) > abs(b)) a else b)
#' gpu_scan(x, function(a, b) a * b)
#' gpu_sort_by(x, function(a, b) a %% 2 > b %% 2)
#' @export
gpu_reduce <- function(x, f, init = NULL) {
  x <- array_of(x)
  f <- plain_function(f)
  if (!length(x)) {
    if (is.null(init)) stop_verdigris("argument", "`x` is empty, and there is no `init`.",
      "Give `init`, or at least one element.")
    return(as_gpu(init, device = gpu_device(x)))
  }
  x <- fixed_type(strip(x), f)
  while (length(x) > 1L) {
    n <- length(x)
    around <- list2env(list(x = x, f = f, n = n, piece = REDUCED_TOGETHER), parent = baseenv())
    each <- made_function("k", quote({
      from <- (k - 1) * piece + 1
      state <- x[from]
      for (j in seq_len(pmin(piece, n - from + 1) - 1)) state <- f(state, x[from + j])
      state
    }), around)
    x <- gpu_compute(gpu_map(each, gpu_seq(1, ceiling(n / REDUCED_TOGETHER), device = gpu_device(x))))
  }
  if (!is.null(init)) x <- gpu_map(f, init, x)
  x
}

# Elements that one thread combines.
REDUCED_TOGETHER <- 64

#' @rdname gpu_reduce
#' @export
gpu_scan <- function(x, f) {
  given <- x
  x <- array_of(x)
  f <- plain_function(f)
  out <- fixed_type(strip(x), f)
  step <- 1
  while (step < length(out)) {
    around <- list2env(list(x = out, f = f, step = step), parent = baseenv())
    each <- made_function("k", quote(if (k > step) f(x[k - step], x[k]) else x[k]), around)
    out <- gpu_compute(gpu_map(each, gpu_seq(1, length(out), device = gpu_device(x))))
    step <- 2 * step
  }
  if (!is.null(names(given))) names(out) <- names(given)
  out
}

#' @rdname gpu_reduce
#' @export
gpu_sort_by <- function(x, before) {
  x <- array_of(x)
  before <- plain_function(before)
  n <- length(x)
  if (n < 2L) return(x)
  device <- gpu_device(x)
  at <- gpu_seq(1L, n, device = device)
  places <- gpu_seq(0L, 2^ceiling(log2(n)) - 1, device = device)
  # sorts the positions by their elements: Batcher's bitonic sort (1968). Positions beyond the end sort last.
  order <- gpu_compute(places + 1L)
  size <- 2
  while (size <= length(order)) {
    step <- size / 2
    while (step >= 1) {
      around <- list2env(list(x = strip(x), order = order, before = before, n = n, size = size, step = step),
        parent = baseenv())
      each <- made_function("p", quote({
        upper <- p %/% step %% 2 == 1
        other <- if (upper) p - step else p + step
        a <- order[p + 1]
        b <- order[other + 1]
        first <- if (a > n || b > n) a < b else if (before(x[a], x[b])) TRUE else if (before(x[b], x[a])) FALSE else
          a < b
        ascending <- p %/% size %% 2 == 0
        # the lower place of an ascending pair takes the position that sorts first
        if (first == (ascending != upper)) a else b
      }), around)
      order <- gpu_compute(gpu_map(each, places))
      step <- step / 2
    }
    size <- 2 * size
  }
  x[order[at]]
}

# ---- helpers --------------------------------------------------------------------------------------------------------------------

array_of <- function(x, call = parent.frame()) {
  if (is_gpu(x)) return(x)
  if (!is.numeric(x) && !is.logical(x) && !is.complex(x) || is.factor(x))
    abort_argument("x", "numbers or an array of numbers", x, call)
  as_gpu(x)
}

# A function with these parameters and body, whose enclosure is `env`.
made_function <- function(parameters, body, env) {
  formals <- rep(list(quote(expr = )), length(parameters))
  names(formals) <- parameters
  as.function(c(formals, list(body)), envir = env)
}

# Makes further arguments of the user's function variables in `around`, and returns the arguments of a call with them.
named_more <- function(more, around) {
  if (!length(more)) return(list())
  labels <- names(more) %||% character(length(more))
  variables <- paste0(".more", seq_along(more))
  for (k in seq_along(more)) assign(variables[[k]], more[[k]], envir = around)
  stats::setNames(lapply(variables, as.name), labels)
}

# The zero of an array's R type.
zero_like <- function(x) if (is.logical(x)) FALSE else if (is.integer(x)) 0L else if (is.complex(x)) 0i else 0

# Casts an array to the type of f's result for two of its elements, so that all levels of a tree have the same type.
fixed_type <- function(x, f) {
  of <- gpu_map(f, x[1L], x[1L])
  if (!is_gpu(of) || length(of) != 1L)
    stop_verdigris("argument", "`f` must return one number for two numbers.", call = parent.frame())
  if (gpu_dtype(of) == gpu_dtype(x)) x else gpu_cast(x, gpu_dtype(of))
}
