# Compiled kernels on disk: files that are damaged, misnamed, or owned by others are not used, and the values are right.

skip_on_os(c("mac", "windows"))

# In an R of its own that keeps its kernels in `folder`: values that a kernel each computes, then how many sources were
# compiled.
kernels_in <- function(folder, ...) {
  code <- c(
    sprintf("options(verdigris.cache_dir = %s, verdigris.tier = 'compiled')", deparse(folder)),
    "suppressMessages(library(verdigris))",
    sprintf("gpu_use(%s)", deparse(test_device)),
    "before <- .Call(verdigris:::C_counters)[[4]]",
    "x <- as_gpu(as.double(1:1000))",
    "cat(format(sum(sqrt(x) * 2)), format(as.vector((x * 3 + 1)^3)[[2]]), format(sum(exp(x / 1000))), '')",
    "kernel <- 'extern \"C\" __global__ void f(double* x, int n) { for (int i = 0; i < n; i++) x[i] += 1; }'",
    "k <- gpu_kernel(kernel, 'f'); k(x, 1000L, grid = 1, block = 1)",
    "cat(format(sum(x)), '\\n')",
    "cat(.Call(verdigris:::C_counters)[[4]] - before, '\\n')"
  )
  out <- in_child(code, attach = FALSE, ...)
  list(values = trimws(out[[length(out) - 1L]]), compiled = as.integer(out[[length(out)]]),
    status = attr(out, "status"))
}
right <- "42194.91 343 1719.141 501500"

kernel_files <- function(folder) list.files(folder, "[.]bin$", full.names = TRUE)

test_that("files that are damaged, swapped or renamed are compiled anew", {
  skip_if(test_device == "cpu", "the cpu device compiles nothing")
  folder <- withr::local_tempdir()
  first <- kernels_in(folder)
  expect_identical(first$values, right)
  skip_if(first$compiled == 0L, "there is no compiler")
  files <- kernel_files(folder)
  expect_identical(length(files) >= 2L, TRUE)
  expect_true(all(file.info(files)$mode == as.octmode("600")))
  again <- kernels_in(folder)
  expect_identical(again[c("values", "compiled")], list(values = right, compiled = 0L))
  contents <- lapply(files, function(file) readBin(file, "raw", file.size(file)))
  damage <- list(
    swapped = function() Map(writeBin, contents[c(seq_along(files)[-1L], 1L)], files),
    truncated = function() Map(function(bytes, file) writeBin(bytes[seq_len(length(bytes) %/% 2L)], file), contents,
      files),
    flipped = function() {
      Map(function(bytes, file) {
        at <- length(bytes) %/% 2L
        bytes[[at]] <- xor(bytes[[at]], as.raw(1))
        writeBin(bytes, file)
      }, contents, files)
    },
    linked = function() {
      unlink(files)
      elsewhere <- file.path(folder, "elsewhere")
      writeBin(as.raw(1:100), elsewhere)
      file.symlink(elsewhere, files)
    }
  )
  for (how in names(damage)) {
    damage[[how]]()
    out <- kernels_in(folder)
    expect_identical(out$values, right, info = how)
    expect_gt(out$compiled, 0L)
    expect_identical(Sys.readlink(files), rep("", length(files)), info = how)
  }
  expect_identical(readBin(file.path(folder, "elsewhere"), "raw", 1e7), as.raw(1:100))
  expect_identical(kernels_in(folder)$compiled, 0L)
})

test_that("a folder that others may write to is not used, and that is said once", {
  folder <- withr::local_tempdir()
  said <- function(folder) {
    in_child(c(sprintf("options(verdigris.cache_dir = %s)", deparse(folder)), "library(verdigris)",
      "invisible(gpu_sitrep())"), attach = FALSE)
  }
  Sys.chmod(folder, "700")
  expect_false(any(grepl("not used:", said(folder), fixed = TRUE)))
  Sys.chmod(folder, "777", use_umask = FALSE)
  out <- said(folder)
  expect_length(grep("is not used: others may write to it", out), 1L)
  expect_true(any(grepl("They are not used: others may write", out)))
  expect_true(any(grepl("Sys.chmod", out, fixed = TRUE)))
  if (test_device != "cpu") {
    expect_identical(kernels_in(folder)$values, right)
    expect_identical(kernel_files(folder), character())
  }
  # a link leads to the folder
  link <- withr::local_tempfile()
  file.symlink(folder, link)
  expect_true(any(grepl("others may write", said(link))))
  Sys.chmod(folder, "755", use_umask = FALSE)
  expect_false(any(grepl("not used:", said(link), fixed = TRUE)))
  # root can give it away
  if (system2("chown", c("12345", shQuote(folder)), stderr = FALSE) == 0L && Sys.info()[["user"]] == "root") {
    expect_true(any(grepl("belongs to user 12345", said(folder))))
  }
  # a file where the folder should be
  file <- withr::local_tempfile(lines = "")
  expect_true(any(grepl("not a folder", said(file))))
})

test_that("a folder that cannot be written keeps nothing, and processes share one", {
  skip_if(test_device == "cpu", "the cpu device compiles nothing")
  expect_identical(kernels_in("/proc/verdigris")$values, right)
  folder <- withr::local_tempdir()
  both <- parallel::mclapply(1:2, function(k) kernels_in(folder)$values, mc.cores = 2L)
  expect_identical(both, list(right, right))
  expect_identical(list.files(folder, "part$", all.files = TRUE), character())
})
