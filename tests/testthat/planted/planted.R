# Rscript planted.R LIBRARY MODE MOST PART PARTS: for each entry, and each of its first MOST calls of R's allocating
# functions, makes that call fail (MODE 0) or be interrupted (1). The last line is "end"; failures are lines before it
# that begin with "WRONG". planted.so is preloaded.
arguments <- commandArgs(TRUE)
mode <- as.integer(arguments[[2]])
most <- as.integer(arguments[[3]])
part <- as.integer(arguments[[4]])
parts <- as.integer(arguments[[5]])
suppressMessages(library(verdigris))
device <- Sys.getenv("VERDIGRIS_TEST_DEVICE", "cpu")
gpu_use(device)
dyn.load(arguments[[1]])
options(verdigris.host_access = "allow", warn = -1)

v <- c(3, 1, 2, 5, 4, 6)
x <- as_gpu(v)
y <- as_gpu(rev(v))
i <- as_gpu(1:6)
m <- as_gpu(matrix(c(4, 1, 2, 1, 5, 3, 2, 3, 6), 3))
big <- gpu_compute(gpu_full(1, 2e5))
names(v) <- letters[1:6]
file <- tempfile(fileext = ".safetensors")
gpu_save(list(a = x, m = m), file)
square <- gpu_compile(function(a) a * a + 1)
bytes <- "\xff" # no path: the error that is raised needs memory, too
Encoding(bytes) <- "bytes"

entries <- expression(
# lint: wide
  x + y, x + 1, sqrt(x * 2) + 1, sum(x + 0), mean(x), range(x), x[2:4], x[x > 2], x[[3]], { z <- x; z[2] <- 9; z[8] <- 1L; z },
  as_gpu(v), as_gpu(1:6), as_gpu(matrix(1:6, 2, dimnames = list(NULL, c("a", "b", "c")))), gpu_cast(x, "float32"), as.vector(x * 3), as.vector(big),
  gpu_compute(x + 2, y * 2), from_dlpack(as_dlpack(x)), gpu_from_pointer(gpu_pointer(x)), gpu_from_array_interface(gpu_array_interface(x)),
  gpu_save(list(a = x, b = m), tempfile()), gpu_load(file), m %*% m, solve(m), sort(x), order(x), table(i), cumsum(x), t(m)[1:2, ], cbind(m, m),
  ifelse(x > 2, x, 0), rep(x, 2), gpu_map(function(a, b) a * b, x, y), square(x), gpu_rnorm(5), { p <- gpu_pinned(8); gpu_copy(x[1:6], gpu_zeros(6)) },
  { s <- gpu_stream(); e <- gpu_event(); gpu_event_record(e); gpu_sync(); gpu_event_elapsed(e, e) }, capture.output(print(x)), gpu_explain(x * 2 + 1), gpu_devices(),
  gpu_graph(x * 2 + 1)(y), rowSums(m), apply(m, 1, sum), outer(x, y), unique(x), match(2, x), x %in% 1:3, qr(m), svd(m), suppressWarnings(as.vector(sqrt(-x))),
  gpu_memory(), gpu_time(x + 1), { options(verdigris.cuda_path = bytes); try(gpu_devices(), silent = TRUE); options(verdigris.cuda_path = NULL) }, identical(x, y),
  unserialize(serialize(x, NULL)), gpu_runif(4) + i, rowsum(x, c(1, 1, 2, 2, 3, 3)), gpu_scan(x, "sum"), names(as_gpu(v)), x * 1:6, gpu_free(x + 0),
  # typed arguments that are refused, and the results of entries that are called seldom
  try(gpu_pinned("a"), silent = TRUE), try(gpu_use("100%s"), silent = TRUE), try(.Call(verdigris:::C_stream_sync, x), silent = TRUE),
  try(.Call(verdigris:::C_upper_triangle, x, 1), silent = TRUE), try(.Call(verdigris:::C_tier, 1), silent = TRUE),
  .Call(verdigris:::C_counters), .Call(verdigris:::C_tier, NULL), .Call(verdigris:::C_device_list), try(.Call(verdigris:::C_library_report), silent = TRUE),
  { k <- gpu_module("extern \"C\" __global__ void f(float *x, int n) { }"); names(k); k$f }, gpu_profile(x + 1), .Call(verdigris:::C_operation_table)
# lint: end
)

alive <- function() {
  for (k in 1:3) {
    gc()
    gpu_sync(device)
  }
  c(handles = .Call(verdigris:::C_live)[[1]], host = .Call(verdigris:::C_live)[[2]],
    device = gpu_memory(device)[["live"]])
}

# Whether the package works.
works <- function() {
  options(verdigris.cuda_path = NULL)
  all(
    identical(as.vector(x + 1), c(4, 2, 3, 6, 5, 7)), sum(y) == 21, identical(as.vector(x[2:3]), c(1, 2)),
    length(gpu_cast(x, "float32")) == 6L,
    identical(as.vector(from_dlpack(as_dlpack(y))), c(6, 4, 5, 2, 1, 3)), identical(as.vector(as_gpu(1:3)), 1:3),
    nrow(gpu_devices()) >= 1L,
    identical(as.vector(i), 1:6), identical(dim(t(m)), c(3L, 3L)), sum(square(x)) == 97
  )
}

planted <- function(entry, k) {
  out <- tryCatch(
    {
      .C("planted_arm", k, mode)
      eval(entry, new.env(parent = globalenv()))
      .C("planted_check")
      "ok"
    },
    error = function(e) "error", interrupt = function(e) "interrupt"
  )
  calls <- .C("planted_disarm", 0L)[[1]]
  # what was between sink() and its end
  while (sink.number() > 0L) sink()
  # what came too late for the entry
  tryCatch(.C("planted_check"), interrupt = function(e) NULL)
  calls
}

works()
times <- 0L
for (n in seq_along(entries)) {
  if (n %% parts != part %% parts) next
  name <- substr(paste(deparse(entries[[n]]), collapse = " "), 1, 60)
  cat("entry", name, "\n")
  before <- NULL
  last <- 0L
  for (k in seq_len(most)) {
    calls <- planted(entries[[n]], k)
    if (!tryCatch(works(), error = function(e) { print(e); FALSE })) cat("WRONG works after call", k, "of", name, "\n")
    times <- times + 1L
    if (calls < k) break # it has no more
  }
  # all that is made once is made by now
  planted(entries[[n]], 1e6L)
  before <- alive()
  for (k in seq_len(min(k, most))) planted(entries[[n]], k)
  after <- alive()
  if (any(after > before + c(2, 4096, 4096))) cat("WRONG leaks", after - before, "by", name, "\n")
}
cat("times", times, "\n")
cat("end\n")
