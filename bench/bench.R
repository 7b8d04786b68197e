# Runs verdigris on the cases of cases.csv, from plain R code.
#
#   Rscript bench/bench.R OUT.jsonl [--device=cuda] [--scale=1] [--inputs=FOLDER] [--seconds=0.15] [--serve] [PREFIX
#   ...]
#
# Runs the cases whose names begin with a PREFIX (default: those marked so in cases.csv), or, with --serve, the groups
# that it reads from its standard input, one line "GROUP ROUND" each (bench/run.sh). Each result is first checked
# against base R on the host in float64; a wrong one is reported and not timed. Each case writes a line of JSON to
# OUT.jsonl: `ms`, one figure a repeat; `host_us`, until the call returns; `launches` a call; `peak_bytes`, the maximum
# held by arrays.
#
# The functions below are what a user writes. They take a list of operands, which are ordinary vectors for the reference
# and arrays for the device. Timed calls end in gpu_compute() and each repeat in gpu_sync(); calls that return a number
# are timed until R has it.
suppressPackageStartupMessages(library(verdigris))
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)[1L]))
source(file.path(folder, "measure.R"))

# ---- operands: x and y are host vectors, put() brings one to where it is used ------------------------------------
shape <- function(x, ...) {
  dim(x) <- c(...)
  x
}
side_of <- function(x) as.integer(sqrt(length(x)))
operands <- list(
  elementwise = function(x, y, put) {
    side <- side_of(x)
    o <- list(x = put(x), y = put(y), v = put(x[seq_len(side)]))
    c(o, list(m = shape(o$x, side, side), pairs_x = shape(o$x, 2L, length(x) %/% 2L),
      pairs_y = shape(o$y, 2L, length(y) %/% 2L)))
  },
  number = function(x, y, put) list(x = put(x), y = put(y)),
  margin = function(x, y, put) {
    m <- shape(put(x), side_of(x), side_of(x))
    # of 1e8: 2^28, and 16384 x 4096 at least. `%/%` binds more closely than `*`
    long <- put(rep_len(x, ((length(x) %/% 1e4) * 26843.5456) %/% 16 * 16))
    soft <- put(rep_len(y, max(((length(x) %/% 1e4) * 6711) %/% 64, 1) * 64))
    columns <- if (length(soft) >= 4096 * 64) 4096L else 8L
    rows <- length(soft) %/% columns
    soft <- soft[seq_len(rows * columns)]
    list(m = m, flat = shape(long, 16L, length(long) %/% 16L), tall = shape(long, length(long) %/% 16L, 16L),
         rows = shape(soft, rows, columns), columns = shape(soft, columns, rows))
  },
  order = function(x, y, put) {
    set.seed(1)
    list(x = put(x), i = put(sample.int(length(x), length(x), TRUE)))
  },
  groups = function(x, y, put) {
    set.seed(2)
    drawn <- function(most) put(sample.int(most, length(x), TRUE))
    list(x = put(x), g = drawn(1000L), b = drawn(256L), u = drawn(1000000L))
  },
  random = function(x, y, put) list(n = length(x), put = put),
  linear = function(x, y, put, n) list(m = put(shape(x[seq_len(n^2)], n, n)), w = put(shape(y[seq_len(n^2)], n, n))),
  library = function(x, y, put, n) {
    tall <- shape(x[seq_len(length(x) %/% 100L * 100L)], length(x) %/% 100L, 100L)
    a <- shape(x[seq_len(n^2)], n, n)
    list(tall = put(tall), a = put(a), spd = put(crossprod(a) + diag(n, n)),
      b = put(shape(y[seq_len(16L * n)], n, 16L)), z = put(complex(real = x, imaginary = y)))
  }
)
operands$elementwise_f64 <- operands$elementwise

# ---- the cases, by their names without the type --------------------------------------------------------------------
cases <- list(
  axpy = function(o) 2.5 * o$x + o$y,
  chain = function(o) sqrt(o$x * o$x + o$y * o$y) * 2 - exp(-o$x) / (1 + abs(o$y)),
  strided = function(o) o$pairs_x[1L, ] + o$pairs_y[1L, ],
  broadcast_column = function(o) o$m + o$v,
  broadcast_row = function(o) t(t(o$m) + o$v),
  transpose = function(o) t(o$m) + 0,
  add_transpose = function(o) o$m + t(o$m),
  sum = function(o) sum(o$x),
  var = function(o) var(o$x),
  norm = function(o) sqrt(sum((o$x - o$y)^2)),
  whichmax = function(o) which.max(o$x),
  colsums = function(o) colSums(o$m),
  rowsums = function(o) rowSums(o$m),
  colsums_16x2e24 = function(o) colSums(o$flat),
  rowsums_16x2e24 = function(o) rowSums(o$flat),
  colsums_2e24x16 = function(o) colSums(o$tall),
  rowsums_2e24x16 = function(o) rowSums(o$tall),
  softmax_contiguous = function(o) {
    e <- exp(o$columns)
    t(t(e) / colSums(e))
  },
  softmax_across = function(o) {
    e <- exp(o$rows)
    e / rowSums(e)
  },
  cumsum = function(o) cumsum(o$x),
  sort = function(o) sort(o$x),
  order = function(o) order(o$x),
  gather = function(o) o$x[o$i],
  rowsum = function(o) rowsum(o$x, o$g),
  quantile = function(o) quantile(o$x),
  table_256 = function(o) table(o$b),
  unique_1e6 = function(o) unique(o$u),
  mask = function(o) o$x[o$x > 0],
  rnorm = function(o) gpu_rnorm(o$n, dtype = o$dtype, device = device),
  runif = function(o) gpu_runif(o$n, dtype = o$dtype, device = device),
  matmul = function(o) o$m %*% o$w,
  matmul_bf16_8192 = function(o) o$m %*% o$w,
  matmul_f32_tf32_8192 = function(o) {
    before <- options(verdigris.matmul_precision = "tf32")
    on.exit(options(before))
    o$m %*% o$w
  },
  crossprod = function(o) crossprod(o$tall),
  solve = function(o) solve(o$a, o$b),
  chol = function(o) chol(o$spd),
  qr = function(o) qr(o$a),
  qr_q = function(o) qr.Q(qr(o$a)),
  eigen_sym = function(o) eigen(o$spd, TRUE),
  svd = function(o) svd(o$a),
  fft = function(o) fft(o$z)
)
case_of <- function(name) cases[[if (name %in% names(cases)) name else sub("_(f32|f64|c128)(_.*)?$", "", name)]]
dtype_of <- function(name) if (grepl("_f32", name)) "float32" else if (grepl("_bf16", name)) "bfloat16" else "float64"

# ---- one group after the other ---------------------------------------------------------------------------------------
run_cases <- function(table, round) {
  group <- sub("_f(32|64)$", "", table$group[1L])
  make <- operands[[group]]
  size <- NULL
  for (k in seq_len(nrow(table))) {
    case <- table[k, ]
    dtype <- dtype_of(case$name)
    put <- function(v) as_gpu(v, dtype = if (is.double(v)) dtype, device = device)
    n <- if (group %in% c("linear", "library")) matrix_side(case$name)
    with_n <- function(x, y, put, n) if (is.null(n)) make(x, y, put) else make(x, y, put, n)
    f <- case_of(case$name)
    if (round == 1L) {
      few <- if (is.null(n)) min(even_square(1e4), length(host$x)) else 4900L
      small_n <- if (!is.null(n)) min(n, 64L)
      small <- with_n(host$x[seq_len(few)], host$y[seq_len(few)], put, small_n)
      small$dtype <- dtype
      reference <- with_n(host$x[seq_len(few)], host$y[seq_len(few)], identity, small_n)
      if (!check_small(case, f, small, reference)) next
    } else if (case$name %in% refused) next
    # operands of one group serve all its cases
    if (!identical(size, list(n, dtype))) {
      o <- NULL
      invisible(gc(FALSE))
      o <- with_n(host$x, host$y, put, n)
      o$dtype <- dtype
      for (a in o) if (is_gpu(a)) gpu_compute(a)
      gpu_sync(device)
      size <- list(n, dtype)
    }
    if (round == 1L && !check_full(case, f, o)) next
    if (case$kind == "number") measure_calls(case, round, function() f(o)) else measure_device(case, round,
      function() f(o))
  }
}

matrix_side <- function(name) {
  n <- as.numeric(sub(".*_([0-9]+)$", "\\1", name))
  if (is.na(n)) n <- 1000
  max(16L, as.integer(n * sqrt(scale)))
}

run_transfers <- function(table, round) {
  for (k in seq_len(nrow(table))) {
    case <- table[k, ]
    if (case$kind == "first" && round > 1L) next
    n <- length(host$x)
    matrix <- grepl("_matrix", case$name)
    dtype <- if (grepl("f32", case$name)) "float32" else "float64"
    x <- if (matrix) shape(host$x, side_of(host$x), side_of(host$x)) else host$x
    if (startsWith(case$name, "h2d")) {
      measure_host(case, round, function() as_gpu(x, dtype = dtype, device = device), sync = TRUE)
    } else {
      a <- as_gpu(x, dtype = dtype, device = device)
      gpu_sync(device)
      if (round == 1L && case$kind != "first" && !near(collect(a), x, 1e-6)) {
        report_wrong(case, "not what went up")
        next
      }
      # as.vector() fetches nothing until an element is read. An array keeps the host copy that it has once made, so each
      # repeat fetches a new one.
      measure_host(case, round, function(b) collect(b), before = function() {
        b <- a + 0
        gpu_compute(b)
        b
      }, once = case$kind == "first")
    }
  }
}

run_dtypes <- function(table, round) {
  n <- max(1000L, as.integer(2.5e7 * scale))
  for (k in seq_len(nrow(table))) {
    case <- table[k, ]
    dtype <- sub("^...._?", "", sub("^(h2d|d2h)_", "    ", case$name))
    x <- host$x[seq_len(min(n, length(host$x)))]
    x <- switch(sub("[0-9]+$", "", dtype), float = , bfloat = x, bool = x > 0,
      complex = complex(real = x, imaginary = rev(x)), uint = as.integer(abs(x) * 20), as.integer(x * 20))
    tolerance <- switch(dtype, float16 = 1e-3, bfloat16 = 1e-2, complex64 = 1e-6, 0)
    few <- x[seq_len(1000L)]
    if (round == 1L && !near(as.vector(as_gpu(few, dtype = dtype, device = device)), few, tolerance)) {
      report_wrong(case, "not what went up")
      next
    }
    if (startsWith(case$name, "h2d")) {
      measure_host(case, round, function() as_gpu(x, dtype = dtype, device = device), sync = TRUE)
    } else {
      zero <- if (is.logical(x)) FALSE else if (is.integer(x)) 0L else 0
      a <- as_gpu(x, dtype = dtype, device = device)
      measure_host(case, round, function(b) collect(b), before = function() {
        b <- gpu_cast(if (is.logical(x)) a & TRUE else a + zero, dtype)
        gpu_compute(b)
        b
      })
    }
  }
}

run_small <- function(table, round) {
  x <- as_gpu(host$x[1:10], dtype = "float32", device = device)
  y <- as_gpu(host$y[1:10], dtype = "float32", device = device)
  stopifnot(near(as.vector(x + y), host$x[1:10] + host$y[1:10], 1e-6), near(sum(x), sum(host$x[1:10]), 1e-6))
  calls <- list(record_add = function() x + y, small_add = function() gpu_compute(x + y), small_sum = function()
    sum(x) + 0,
                small_dlpack = function() from_dlpack(as_dlpack(x)))
  if (device != "cpu" && "small_kernel" %in% table$name) {
    kernel <- gpu_kernel('extern "C" __global__ void axpy(const float* x, float* y, float a, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] += a * x[i];
    }')
    u <- as_gpu(rep(1, 1000), dtype = "float32", device = device)
    v <- as_gpu(rep(1, 1000), dtype = "float32", device = device)
    calls$small_kernel <- function() kernel(u, v, 2, 1000L, grid = 4L, block = 256L)
  }
  for (k in seq_len(nrow(table))) {
    if (is.null(calls[[table$name[k]]])) report_absent(table[k, ]) else measure_many(table[k, ], round,
      calls[[table$name[k]]])
  }
}

# Expression k of 192: one structure each, so one kernel each. bench.py makes the same ones.
UNARY <- c("sin", "cos", "tanh", "atan", "exp", "abs", "floor", "sqrt")
fresh_expression <- function(k) {
  at <- (k * 37L + 11L) %% 192L
  f <- UNARY[1L + c(at %% 8L, at %/% 8L %% 8L)]
  operator <- as.name(c("+", "-", "*")[1L + at %/% 64L])
  inner <- function(f, v) if (f == "sqrt") bquote(sqrt(abs(.(as.name(v))))) else call(f, as.name(v))
  bquote(.(call(as.character(operator), inner(f[1L], "x"), inner(f[2L], "y"))) * 0.5 + x)
}

run_fresh <- function(table, round) {
  n <- max(1000L, as.integer(1e6 * scale))
  h <- list(x = host$x[seq_len(n)], y = host$y[seq_len(n)])
  o <- lapply(h, as_gpu, dtype = "float32", device = device)
  gpu_sync(device)
  before <- counters()
  ms <- numeric()
  for (k in (round - 1L) * 30L + 0:29) {
    e <- fresh_expression(k)
    gpu_sync(device)
    from <- now()
    r <- gpu_compute(eval(e, o))
    gpu_sync(device)
    ms <- c(ms, (now() - from) * 1e3)
    if (!near(as.vector(r[1:100]), eval(e, lapply(h, `[`, 1:100)), 1e-4)) return(report_wrong(table, deparse(e)))
  }
  used <- counters() - before
  emit(table$name, round, ms, extra = list(compiled = used[["compiled"]], cache_hits = used[["cache_hits"]]))
}

run_cold <- function(table, round) {
  if (round > 1L) return(invisible())
  cache <- tempfile("cache")
  code <- sprintf('suppressPackageStartupMessages(library(verdigris)); set.seed(1); x <- as_gpu(runif(%d), dtype = "float32", device = "%s"); gpu_sync("%s")
    from <- Sys.time(); y <- gpu_compute(sqrt(x * x + 1) * 2 - exp(-x)); gpu_sync("%s"); cat(as.numeric(Sys.time() - from, units = "secs") * 1e3)', as.integer(1e6 * scale), device, device, device)
  for (name in intersect(c("cold_empty", "cold_warm"), table$name)) {
    ms <- replicate(3L, {
      if (name == "cold_empty") unlink(cache, recursive = TRUE)
      as.numeric(system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote(code)), stdout = TRUE,
        env = paste0("R_USER_CACHE_DIR=", cache)))
    })
    if (length(unlist(ms)) == 3L) emit(name, round, unlist(ms)) else report_wrong(table[table$name == name, ],
      "the process failed")
  }
}

run_loop <- function(table, round) {
  n <- max(1000L, as.integer(1e6 * scale))
  steps <- max(100L, as.integer(1e5 * scale))
  h <- host$x[seq_len(n)]
  start <- as_gpu(h, dtype = "float32", device = device)
  loop <- function(x, a, b, steps) {
    for (k in seq_len(steps)) x <- x * a + b
    x
  }
  loop_computed <- function(x, a, b, steps) {
    for (k in seq_len(steps)) x <- gpu_compute(x * a + b)
    x
  }
  for (k in seq_len(nrow(table))) {
    f <- if (table$name[k] == "loop") loop else loop_computed
    if (!near(as.vector(f(start, 0.99, 0.01, 100L)[1:100]), loop(h[1:100], 0.99, 0.01, 100L), 1e-4)) {
      report_wrong(table[k, ], "not the loop's value")
      next
    }
    gpu_sync(device)
    invisible(gc())
    before <- counters()
    gc.time(TRUE)
    spent <- gc.time()[[3L]]
    from <- now()
    x <- gpu_compute(f(start, 0.99, 0.01, steps))
    returned <- now()
    gpu_sync(device)
    end <- now()
    used <- counters() - before
    emit(table$name[k], round, (end - from) * 1e3, host_us = (returned - from) * 1e6 / steps,
      launches = used[["launches"]],
         peak = counters()[["peak"]], extra = list(steps = steps, gc_share = (gc.time()[[3L]] - spent) / (end - from)))
  }
}

run_group <- function(group, round) {
  table <- wanted_cases[wanted_cases$group == group, ]
  if (!nrow(table)) return(invisible())
  switch(group, transfer = run_transfers, dtypes = run_dtypes, small = run_small, compile = run_fresh, cold = run_cold,
    loop = run_loop, run_cases)(table, round)
  # the device is left empty for the process that comes next
  gpu_memory(device, trim = TRUE)
  invisible()
}

check_names(names(cases))
main(run_group)
