# Launches by the launch thread (backend/cuda/launch/submit.rs): whatever comes between them, the driver sees the order
# of the calls.

run <- function(mode, code) {
  file <- script_of(c("suppressMessages(library(verdigris))", "gpu_use(\"cuda\")", code))
  rscript <- file.path(R.home("bin"), "Rscript")
  suppressWarnings(system2(rscript, c("--vanilla", shQuote(file)), stdout = TRUE, stderr = TRUE, timeout = 300,
    env = c(paste0("VERDIGRIS_SUBMIT=", mode), paste0("R_LIBS=", paste(.libPaths(), collapse = ":")))))
}
script_of <- function(lines) {
  file <- tempfile(fileext = ".R")
  writeLines(lines, file)
  file
}

increments <- 'more <- gpu_kernel("extern \\"C\\" __global__ void more(float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += 1.0f; }")'

test_that("launches come between copies, reads, assignments and other launches as they were asked for", {
  skip_if(test_device == "cpu")
  code <- c(
    increments,
    "x <- as_gpu(numeric(256), dtype = \"float32\"); want <- 0; set.seed(1)",
    "for (i in 1:3000) {",
    "  more(x, 256L, grid = 1L, block = 256L); want <- want + 1",
    "  if (i %% 7 == 0) { x <- gpu_compute(x * 2); want <- want * 2 }",
    "  if (i %% 11 == 0) { x <- gpu_compute(x - want + i); want <- as.numeric(i) }",
    "  if (i %% 97 == 0) stopifnot(identical(x[[i %% 256 + 1]], want))",
    "  if (i %% 101 == 0) { x[] <- 5; want <- 5 }",
    "  if (i %% 103 == 0) { keep <- x + 0; more(x, 256L); want <- want + 1; stopifnot(sum(keep) == 256 * (want - 1)) }",
    "  if (i %% 401 == 0) Sys.sleep(0.001)", # the thread falls asleep
    "  if (i %% 211 == 0) gc(FALSE)",
    "  if (i %% 503 == 0) { g <- gpu_graph({ more(x, 256L); x }, copy = FALSE); rm(g) }",
    "  if (i == 2500) gpu_sync()",
    "}",
    "stopifnot(all(x == want)); cat(want, sum(x), \"\\n\")"
  )
  said <- lapply(c("always", "auto", "never"), run, code = code)
  expect_match(said[[1L]], "^[0-9]+ [0-9]+", all = FALSE)
  expect_identical(said[[1L]], said[[3L]])
  expect_identical(said[[2L]], said[[3L]])
})

test_that("launches that come again are graphs of one kernel, by the thread and without it", {
  skip_if(test_device == "cpu")
  code <- c(
    increments,
    "x <- as_gpu(numeric(256), dtype = \"float32\"); y <- as_gpu(1:10 + 0)",
    # the thread may have launches left to make, which are counted when they are made
    "graphs <- function() { gpu_sync(); .Call(verdigris:::C_counters)[[7]] }",
    "again <- function(code) { before <- graphs(); for (i in 1:200) code(); graphs() - before }",
    "k <- again(function() more(x, 256L, grid = 1L, block = 256L))",
    # another grid has a graph of its own, and so has a number that R waits for
    "l <- again(function() more(x, 256L, grid = 2L, block = 128L))",
    "s <- again(function() stopifnot(sum(y) == 55))",
    # more of them than are kept, and one that comes when others have not come for long
    "for (g in 1:80) for (i in 1:20) more(x, 256L, grid = g, block = 256L)",
    "none <- again(function() more(x, 256L, grid = 100L, block = 256L))",
    "for (i in 1:4200) more(x, 256L, grid = 1L, block = 256L)",
    "late <- again(function() more(x, 256L, grid = 100L, block = 256L))",
    "cat(k > 100, l > 100, s > 100, none == 0, late > 100, all(x == 800 + 1600 + 4200), \"\\n\")"
  )
  expect_identical(run("always", code), "TRUE TRUE TRUE TRUE TRUE TRUE ")
  expect_identical(run("never", code), "FALSE FALSE FALSE TRUE FALSE TRUE ")
})

test_that("R ends while launches wait to be made", {
  skip_if(test_device == "cpu")
  code <- c(increments, "x <- as_gpu(numeric(256), dtype = \"float32\")", "for (i in 1:300) more(x, 256L)",
    "cat(\"ends\\n\")", "quit(status = 7)")
  said <- run("always", code)
  expect_identical(attr(said, "status"), 7L)
  expect_identical(as.vector(said), "ends")
})

test_that("a failure that the thread meets is told at the next call, with its kernel", {
  skip_if(test_device == "cpu")
  code <- c(
    'fails <- gpu_kernel("extern \\"C\\" __global__ void fails(float* x, int n) { if (n == 7) __trap(); x[0] = n; }")',
    "x <- as_gpu(numeric(2), dtype = \"float32\")",
    "for (n in 1:9) tryCatch(fails(x, n, grid = 1, block = 64), error = function(e) NULL)",
    "tryCatch(print(x), verdigris_error_launch = function(e) cat(conditionMessage(e)))"
  )
  expect_match(paste(run("always", code), collapse = " "), "failed in (kernel|one of the kernels) `fails`")
})
