test_that("times and counts of code", {
  h <- runif(2e5)
  x <- gpu(h)
  t <- gpu_time({
    y <- gpu_compute(x * 2)
    z <- gpu_compute(sqrt(y))
    as.vector(z[1:10])
  }, test_device)
  expect_s3_class(t, "gpu_time")
  expect_gt(t$host, 0)
  expect_gt(t$device, 0)
  expect_gte(t$launches, 2)
  expect_gte(t$peak, 3 * 8 * 2e5)
  expect_identical(t$value, sqrt(h * 2)[1:10])
  up <- gpu_time(as_gpu(h, device = test_device), test_device)
  expect_gte(up$up, 8 * 2e5)
  down <- gpu_time(collect(x), test_device)
  expect_identical(down$down, 8 * 2e5)
  expect_identical(down$launches, 0)
  # a recorded value is computed
  expect_gte(gpu_time(x + 1, test_device)$launches, 1)
  expect_null(gpu_time(NULL, test_device)$value)
  expect_output(print(t), "launch(es)?")
  expect_error(gpu_time(stop("inside"), test_device), "inside")
})

test_that("a profile has a row for each kernel, and a timeline", {
  x <- gpu(runif(1e4))
  run <- function() {
    for (k in 1:3) gpu_compute(exp(x))
    sum(x) + 0
  }
  run()
  p <- gpu_profile(run(), test_device)
  expect_s3_class(p, c("gpu_profile", "data.frame"), exact = TRUE)
  expect_true(any(p$calls == 3 & p$kind == "kernel"))
  expect_equal(sum(p$share), 1)
  expect_true(all(p$least <= p$mean & p$mean <= p$most & p$least >= 0))
  timeline <- attr(p, "timeline")
  expect_identical(nrow(timeline), as.integer(sum(p$calls)))
  expect_true(all(timeline$end >= timeline$start))
  expect_type(attr(p, "value"), "double")
  expect_output(print(p), "kernel")
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  expect_identical(plot(p), p)
  expect_output(print(gpu_profile(1, test_device)), "nothing ran")
  expect_error(plot(gpu_profile(1, test_device)), class = "verdigris_error_argument")
  expect_error(gpu_profile(stop("inside"), test_device), "inside")
  # the one that failed has ended
  expect_gte(nrow(gpu_profile(gpu_compute(x + 1), test_device)), 1L)
})

test_that("copies and streams are in the timeline", {
  skip_if(test_device == "cpu", "the cpu device copies nothing")
  x <- gpu_compute(gpu_zeros(3e5, device = test_device))
  p <- as_pinned(runif(3e5), test_device)
  s <- gpu_stream(device = test_device)
  profile <- gpu_profile({
    with_gpu_stream(s, gpu_copy(p, x))
    gpu_compute(x + 1)
    gpu_copy(x, p)
  }, test_device)
  timeline <- attr(profile, "timeline")
  expect_setequal(intersect(c("upload", "kernel", "download"), timeline$kind), c("upload", "kernel", "download"))
  expect_identical(timeline$bytes[timeline$kind == "upload"], 8 * 3e5)
  up <- timeline[timeline$kind == "upload", ]
  kernel <- timeline[timeline$kind == "kernel", ]
  expect_false(up$stream == kernel$stream[1])
  expect_lte(up$end, kernel$end[1])
})

test_that("ranges are transparent", {
  expect_identical(gpu_nvtx_range("a step", 1 + 1), 2)
  expect_error(gpu_nvtx_range("a step", stop("inside")), "inside")
  expect_error(gpu_nvtx_range(1, 2), class = "verdigris_error_argument")
})

test_that("ranges go to the library that a profiler names", {
  skip_on_os("windows")
  folder <- withr::local_tempdir()
  # what a profiler's library does, by the interface of NVTX 3: it asks for the table of functions, and puts its own
  # there
  writeLines(c(
    "#include <stdio.h>",
    "#include <stdlib.h>",
    "struct callbacks { size_t bytes; int (*functions)(unsigned, void ****, unsigned *); };",
    "static void say(const char *what, const char *name) {",
    '  FILE *out = fopen(getenv("RANGES"), "a");',
    '  fprintf(out, "%s%s\\n", what, name);',
    "  fclose(out);",
    "}",
    'static int push(const char *name) { say("push ", name); return 0; }',
    'static int pop(void) { say("pop", ""); return 0; }',
    "int InitializeInjectionNvtx2(const void *(*table_of)(unsigned)) {",
    "  const struct callbacks *callbacks = table_of(1);",
    "  void ***core = NULL, ***domains = NULL;",
    "  unsigned size = 0;",
    "  if (!callbacks->functions(5, &domains, &size) || size < 15) return 0;",
    "  if (!callbacks->functions(1, &core, &size) || size < 11) return 0;",
    "  *core[9] = (void *)push;",
    "  *core[11] = (void *)pop;",
    "  return 1;",
    "}"
  ), file.path(folder, "profiler.c"))
  built <- suppressWarnings(system2(file.path(R.home("bin"), "R"),
    c("CMD", "SHLIB", "-o", file.path(folder, "profiler.so"), file.path(folder, "profiler.c")), stdout = TRUE,
    stderr = TRUE))
  skip_if_not(file.exists(file.path(folder, "profiler.so")), "no C compiler")
  script <- file.path(folder, "ranges.R")
  writeLines(c("suppressMessages(library(verdigris))", 'gpu_nvtx_range("a step", gpu_nvtx_range("inside", 1))',
    'try(gpu_nvtx_range("fails", stop("here")), silent = TRUE)'), script)
  ranges <- file.path(folder, "ranges.txt")
  system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), stdout = FALSE, stderr = FALSE,
    env = c(paste0("NVTX_INJECTION64_PATH=", file.path(folder, "profiler.so")), paste0("RANGES=", ranges)))
  expect_identical(readLines(ranges), c("push a step", "push inside", "pop", "pop", "push fails", "pop"))
})
