# Errors and interrupts wherever R may jump out of the package's code: no hang, no leak, and the next calls work.
# planted/ has the code that causes them.

planted_library <- function() {
  skip_if(Sys.info()[["sysname"]] != "Linux", "functions of R are preloaded, as Linux can")
  skip_if(!file.exists(file.path(R.home("include"), "R.h")), "R's headers are not installed")
  skip_if(Sys.which("make") == "" || Sys.which("gcc") == "", "no compiler")
  folder <- tempfile("planted")
  dir.create(folder)
  file.copy(test_path("planted", "planted.c"), folder)
  out <- withr::with_dir(folder,
    suppressWarnings(system2(file.path(R.home("bin"), "R"), c("CMD", "SHLIB", "planted.c"), stdout = TRUE,
    stderr = TRUE)))
  library <- file.path(folder, "planted.so")
  if (!file.exists(library)) stop(paste(out, collapse = "\n"))
  library
}

# `share` of the entries; all of them where VERDIGRIS_PLANTED is set.
run_planted <- function(library, mode, share) {
  all <- nzchar(Sys.getenv("VERDIGRIS_PLANTED"))
  arguments <- c("--vanilla", test_path("planted", "planted.R"), library, mode,
    if (all) c(200, 0, 1) else c(40, share, 7))
  env <- c(paste0("LD_PRELOAD=", library), paste0("R_LIBS=", paste(.libPaths(), collapse = ":")),
    paste0("VERDIGRIS_TEST_DEVICE=", test_device))
  out <- suppressWarnings(system2(
    "timeout", c("--kill-after=5", if (all) 3000 else 120, file.path(R.home("bin"), "Rscript"), shQuote(arguments)),
    stdout = TRUE, stderr = TRUE, env = env
  ))
  expect(length(out) > 0L && out[[length(out)]] == "end",
    paste(c("the child did not end:", utils::tail(out, 12L)), collapse = "\n"))
  expect_identical(grep("^WRONG", out, value = TRUE), character())
  times <- as.integer(sub("times ", "", grep("^times ", out, value = TRUE)))
  expect_gt(times, 40L)
}

test_that("an error or an interrupt at each allocation leaves nothing behind", {
  skip_on_cran()
  library <- planted_library()
  share <- as.integer(format(Sys.Date(), "%j")) %% 7L
  run_planted(library, 0L, share)
  run_planted(library, 1L, share)
})

test_that("an interrupt while Rust works ends it, and the next call works", {
  skip_on_os("windows")
  code <- quote({
    x <- gpu_compute(gpu_runif(4e6))
    slow <- gpu_compile(function(a) {
      for (k in 1:100000) a <- a * 0.999 + sin(a)
      a
    })
    pid <- Sys.getpid()
    start <- Sys.time()
    system(sprintf("(sleep 2; kill -INT %d) &", pid))
    got <- tryCatch(
      {
        as.vector(slow(x))
        "done"
      },
      interrupt = function(e) "interrupt"
    )
    stopifnot(got == "interrupt", Sys.time() - start < 30, sum(as_gpu(1:3)) == 6)
  })
  skip_if(test_device != "cpu", "the cpu device takes long enough")
  expect_child_ends(code)
})

test_that("the bridge calls R so that no jump passes Rust", {
  file <- test_path("..", "..", "tools", "test", "lint-bridge.R")
  skip_if(!file.exists(file), "not in a checkout")
  lint <- new.env()
  sys.source(file, lint)
  folder <- test_path("..", "..", "src", "rust", "src")
  expect_identical(lint$lint_bridge(folder), character())
  # what it is to find
  copy <- tempfile("bridge")
  dir.create(copy)
  file.copy(list.files(folder, full.names = TRUE), copy, recursive = TRUE)
  write("pub unsafe fn f() { extendr_ffi::Rf_allocVector(1, 1); }\nfn g() { LOCKED.lock().set(r::string(\"a\")) }",
    file.path(copy, "planted.rs"))
  write("pub use raw::{Rf_cons};\nfn h() { unsafe { raw::Rf_mkChar(p) } }", file.path(copy, "r", "mod.rs"),
    append = TRUE)
  found <- lint$lint_bridge(copy)
  for (what in c("planted.rs:1", "planted.rs:2", "`Rf_cons` is passed on", "`raw::Rf_mkChar` is called outside")) {
    expect_true(any(grepl(what, found, fixed = TRUE)), label = what)
  }
})
