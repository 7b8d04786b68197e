# Teams of processes that a launcher has started: by hand with each launcher's variables, and by mpirun where that is.

script <- function(code) c(
  "suppressMessages(library(verdigris))",
  sprintf("options(verdigris.device = %s)", deparse(test_device)),
  "team <- gpu_team('env', timeout = 60)",
  "m <- matrix(1:20 / 4, 10, dimnames = list(NULL, c('a', 'b')))",
  code,
  "cat(sprintf('end %d %d\\n', gpu_team_rank(), gpu_team_size()))"
)

checks <- c(
  "stopifnot(identical(gpu_all_reduce(c(1, gpu_team_rank())), c(2, 3)))",
  "x <- gpu_split(m, team)",
  "stopifnot(all.equal(colSums(x * 2), colSums(m * 2)), all.equal(crossprod(x), crossprod(m)))",
  "stopifnot(all.equal(var(x), var(m)))",
  "stopifnot(identical(collect(x + 1), m + 1), identical(range(x), range(m)), identical(sum(x > 2), sum(m > 2)))",
  "stopifnot(identical(gpu_together(team, function(x) nrow(x), x), list(5L)))",
  "rows <- gpu_split(function(rows) rows, team, n = 7)",
  "stopifnot(identical(collect(rows), 1:7), identical(gpu_all_gather(gpu_team_rank()), 1:2))",
  "v <- c(3, 1, NA, 3, 2, 1, 1)",
  "s <- gpu_split(v, team)",
  "stopifnot(identical(collect(rank(s)), rank(v)), identical(collect(duplicated(s)), duplicated(v)))",
  "stopifnot(identical(collect(rev(s)), rev(v)), identical(collect(diff(s, 2)), diff(v, 2)), identical(rle(s), rle(v)))",
  "stopifnot(identical(anyDuplicated(s), 4L), identical(collect(match(s, rev(s))), match(v, rev(v))))",
  "stopifnot(identical(match(c(1, 9), s), c(2L, NA)))",
  "stopifnot(identical(tryCatch(gpu_repair(team), error = function(e) class(e)[1L]), 'verdigris_error_member'))"
)

# Starts two processes with these variables, `%d` being the rank from 0; what both wrote.
launched_by_hand <- function(variables, code = checks, wait = 90 * stretch()) {
  folder <- withr::local_tempdir()
  file <- file.path(folder, "script.R")
  writeLines(script(code), file)
  paths <- paste0("R_LIBS=", paste(.libPaths(), collapse = ":"))
  outs <- file.path(folder, paste0("out", 0:1))
  R <- file.path(R.home("bin"), "Rscript")
  commands <- vapply(0:1, function(rank) {
    set <- paste(gsub("%d", rank, variables, fixed = TRUE), collapse = " ")
    sprintf("env %s %s %s --vanilla %s > %s 2>&1", set, shQuote(paths), R, shQuote(file), shQuote(outs[rank + 1L]))
  }, "")
  both <- paste0(commands[2L], " & ", commands[1L], "; wait")
  system2("timeout", c("--kill-after=5", wait, "sh", "-c", shQuote(both)))
  lapply(outs, readLines)
}

expect_both_end <- function(outs) {
  for (rank in 1:2) expect(any(grepl(sprintf("end %d 2", rank), outs[[rank]])), paste(c(sprintf("process %d wrote:",
    rank), utils::tail(outs[[rank]], 10L)), collapse = "\n"))
}

test_that("each launcher's variables make a team", {
  run <- sprintf("VERDIGRIS_TEAM=test%d", Sys.getpid())
  expect_both_end(launched_by_hand(c("RANK=%d", "WORLD_SIZE=2", run)))
  short <- "stopifnot(identical(gpu_all_reduce(1), 2))"
  # processes of one shell have one parent, which names the run
  expect_both_end(launched_by_hand(c("-u VERDIGRIS_TEAM", "PMI_RANK=%d", "PMI_SIZE=2"), short))
  expect_both_end(launched_by_hand(c("OMPI_COMM_WORLD_RANK=%d", "OMPI_COMM_WORLD_SIZE=2",
    sprintf("PMIX_NAMESPACE=ns%d", Sys.getpid())), short))
  expect_both_end(launched_by_hand(c("SLURM_PROCID=%d", "SLURM_NTASKS=2", "SLURM_JOB_NUM_NODES=1", "SLURM_STEP_ID=0",
    sprintf("SLURM_JOB_ID=%d", Sys.getpid())), short))
})

test_that("mpirun's processes are a team", {
  mpirun <- Sys.which("mpirun")
  skip_if(!nzchar(mpirun), "mpirun is not installed")
  file <- withr::local_tempfile(fileext = ".R")
  writeLines(script(checks), file)
  as_root <- if (any(grepl("Open MPI", suppressWarnings(system2(mpirun, "--version", stdout = TRUE))))) c(
    "--allow-run-as-root", "--oversubscribe")
  R <- file.path(R.home("bin"), "Rscript")
  arguments <- c("--kill-after=5", 90 * stretch(), mpirun, as_root, "-n", 2, R, "--vanilla", shQuote(file))
  paths <- paste0("R_LIBS=", paste(.libPaths(), collapse = ":"))
  out <- suppressWarnings(system2("timeout", arguments, stdout = TRUE, stderr = TRUE, env = paths))
  expect_both_end(list(out, out))
})

test_that("a process that fails or ends is told of on the others", {
  run <- sprintf("VERDIGRIS_TEAM=ends%d", Sys.getpid())
  ends <- c("if (gpu_team_rank() == 2) tools::pskill(Sys.getpid(), 9)", "began <- proc.time()[[3]]",
    "e <- tryCatch(gpu_barrier(), error = identity)",
    "cat('end', gpu_team_rank(), class(e)[1L], proc.time()[[3]] - began < 5, conditionMessage(e), '\\n')")
  outs <- launched_by_hand(c("RANK=%d", "WORLD_SIZE=2", run), ends)
  expect_match(outs[[1L]], "end 1 verdigris_error_member TRUE member 2 of 2 has ended", all = FALSE)
})

test_that("what no launcher has started is refused, and wrong variables", {
  ask <- function(variables) withr::with_envvar(variables, tryCatch(gpu_team("env", timeout = 0.5), error = identity))
  none <- c(RANK = NA, WORLD_SIZE = NA, PMI_RANK = NA, PMI_SIZE = NA, OMPI_COMM_WORLD_RANK = NA, SLURM_PROCID = NA,
    SLURM_NTASKS = NA)
  expect_s3_class(e <- ask(none), "verdigris_error_member")
  expect_match(conditionMessage(e), "not started by a launcher")
  for (size in c("0", "-1", "1.5", "1")) {
    expect_s3_class(e <- ask(replace(none, c("RANK", "WORLD_SIZE"), c("1", size))), "verdigris_error_argument")
    expect_match(conditionMessage(e), "`WORLD_SIZE`")
  }
  # nobody leaves an address; another user's file, or what is no address, is none
  folder <- withr::local_tempdir()
  there <- replace(none, c("RANK", "WORLD_SIZE"), c("1", "2"))
  there <- c(there, VERDIGRIS_TEAM = "nobody", VERDIGRIS_TEAM_DIR = folder)
  expect_s3_class(e <- ask(there), "verdigris_error_member")
  expect_match(conditionMessage(e), "has left no address")
  file <- file.path(folder, sprintf("verdigris-team-%s-nobody", Sys.info()[["user"]]))
  for (lines in list("", c("127.0.0.1", "1", strrep("0", 32)), c("127.0.0.1", "x", "y"), c("a", "b", "c", "d"))) {
    writeLines(lines, file)
    expect_s3_class(ask(there), "verdigris_error")
  }
})
