# Cumulative functions of readers. One pass finds the carry, the running value before each block. The result is a
# reader, which continues from the carry when a block is read.

# The running values of a block, which continue from `carry`; NULL begins anew. The carry itself is not in the result.
cumulated <- function(name, carry, block) {
  f <- get(name, baseenv())
  y <- strip(block)
  # as in R, running values of narrow floats are doubles
  if (is.double(y) && gpu_dtype(y) != "int64") y <- as_float64(y)
  if (is.logical(y)) y <- gpu_cast(y, "int32")
  if (name == "cumprod" && !is.complex(y)) y <- as_float64(y)
  if (is.null(carry)) return(f(y))
  f(join(list(if (is_host_int64(carry)) as_gpu(carry, device = gpu_device(y)) else carry, y)))[-1L]
}

cumulative_reader <- function(x, name, call) {
  if (x$frame || !is_vector_reader(x)) refuse_reader(name, call, "Only vectors are supported.")
  kind <- typeof(no_elements(x))
  # raises base R's error
  if (kind == "complex" && name %in% c("cummax", "cummin")) return(get(name, baseenv())(0i))
  type <- if (kind == "complex") "complex128" else if (name == "cumprod") "float64" else if (x$type == "int64")
    "int64" else if (kind == "double") "float64" else "int32"
  starts <- numeric()
  carries <- list()
  carry <- NULL
  at <- 0
  overflow <- FALSE
  over_blocks(x, function(block) {
    starts[length(starts) + 1L] <<- at
    carries[length(carries) + 1L] <<- list(carry)
    n <- length(block)
    last <- withCallingHandlers(collect_values(cumulated(name, carry, block)[n]), warning = function(w) {
      # over_blocks() handles warnings about precision
      if (inherits(w, "verdigris_warning_precision")) return()
      overflow <<- TRUE
      tryInvokeRestart("muffleWarning")
    })
    carry <<- last
    at <<- at + n
    NULL
  }, margin = 1, call = call)
  if (overflow) warning(simpleWarning(scan_overflow(type == "int64"), written_call(call)))
  new_reader(open_cumulated, list(x = described(x), name = name, type = type, starts = starts, carries = carries), x$dim,
    x$dimnames, type, 1, x$memory, sprintf("%s() of %s", name, x$label), portable = x$portable, step = x$step)
}

# A block that begins inside one of the first pass is read from that one's beginning, for which the carry is known.
open_cumulated <- function(x, name, type, starts, carries) list(
  ahead = function(from, count, margin, dtype, device) {
    k <- max(1L, findInterval(from, starts))
    first <- c(starts, 0)[k]
    list(inner = block_start(x, first, from - first + count, 1, NULL, device), skip = from - first, length = count,
      carry = c(carries, list(NULL))[[k]])
  },
  take = function(coming) {
    block <- block_take(x, coming$inner)
    if (length(block) == 0L) return(gpu_cast(block, type))
    # the warning was raised when the reader was made
    out <- withCallingHandlers(cumulated(name, coming$carry, block), warning = function(w)
      tryInvokeRestart("muffleWarning"))
    if (coming$skip > 0) out <- out[coming$skip + seq_len(coming$length)]
    out <- gpu_compute(strip(out))
    if (is.null(coming$inner$given) && !rlang::is_reference(out, block)) free_block(block)
    out
  }
)
