# Runs code in a separate R process, so that a crash or a hang is a failure and not the end of the suite. The child uses
# the device of the tests. The value is its output; attribute "status" is its exit status: 0, R's own, 128 + a signal's
# number, or 124 where `timeout` seconds were not enough (an emulated GPU's kernels take g++ a second each). Without
# `attach` the package is on the child's library path only. `limits` are the shell's, such as "ulimit -v 2000000".
in_child <- function(code, timeout = if (emulated) 240 else 60, env = character(), R = "Rscript",
  arguments = "--vanilla", attach = TRUE, limits = NULL) {
  file <- tempfile(fileext = ".R")
  on.exit(unlink(file))
  head <- if (attach) c("suppressMessages(library(verdigris))", sprintf("gpu_use(%s)", deparse(test_device)))
  writeLines(c(head, if (is.language(code)) deparse(code) else code), file)
  env <- c(env, paste0("R_LIBS=", paste(.libPaths(), collapse = ":")))
  command <- paste(c("exec", file.path(R.home("bin"), R), arguments, shQuote(file)), collapse = " ")
  command <- c(hears_sigint, "timeout", "--kill-after=5", timeout, "sh", "-c",
    shQuote(paste(c(limits, command), collapse = "; ")))
  out <- suppressWarnings(system2(command[1L], command[-1L], stdout = TRUE, stderr = TRUE, env = env))
  status <- attr(out, "status")
  structure(as.vector(out), status = if (is.null(status)) 0L else status)
}

# What a shell runs in the background ignores SIGINT, and R from 4.5 on keeps to that. With these words in front of a
# command, where env is that of coreutils, it does not.
hears_sigint <- if (nzchar(Sys.which("env")) && system2("env", c("--default-signal=INT", "true"), stdout = FALSE,
  stderr = FALSE) == 0L) c("env", "--default-signal=INT")

# The child came to its end, and its last line is "end".
expect_child_ends <- function(code, ...) {
  out <- in_child(c(if (is.language(code)) deparse(code) else code, "cat(\"end\\n\")"), ...)
  ended <- attr(out, "status") == 0L && length(out) && out[length(out)] == "end"
  testthat::expect(ended, paste(c(sprintf("the child ended with status %d:", attr(out, "status")),
    utils::tail(out, 12L)), collapse = "\n"))
  invisible(out)
}
