# Members that end, fail, stop answering, or call something else; strangers, wrong tokens, other versions: a classed
# error on all that live, soon, and never a hang. In processes of their own, which have a limit.

# Code with a team of n workers, `cl` and `team`; said() shows an error's class and message, took() how long code takes.
# Workers hear SIGINT, which parallel starts as a shell's background processes.
with_workers <- function(n, code, timeout = 20) c(
  "rscript <- tempfile()",
  sprintf("writeLines(c('#!/bin/sh', paste('exec %s', file.path(R.home('bin'), 'Rscript'), '\"$@\"')), rscript)",
    paste(hears_sigint, collapse = " ")),
  "Sys.chmod(rscript, '755')",
  sprintf("cl <- parallel::makePSOCKcluster(%d, outfile = '/dev/null', rscript = rscript)", n),
  sprintf("invisible(parallel::clusterCall(cl, function(device) options(verdigris.device = device), %s))",
    deparse(test_device)),
  sprintf("team <- gpu_team(cl, timeout = %g)", timeout),
  "said <- function(expr) {",
  "  began <- proc.time()[[3]]",
  "  e <- tryCatch(expr, error = identity)",
  "  line <- function(text) gsub('\\n', ' ', paste(text, collapse = ' '))",
  "  cat(class(e)[1L], '|', line(conditionMessage(e)), '|', line(e$failed), '|', proc.time()[[3]] - began, '\\n')",
  "}",
  code
)

# The lines that said() wrote: class, message, what each member said, and seconds.
said_by <- function(out) {
  rows <- strsplit(grep("|", out, fixed = TRUE, value = TRUE), " *[|] *")
  lapply(rows, function(row) list(class = row[1L], message = row[2L], members = paste(row[3L], collapse = " "),
    seconds = as.numeric(row[length(row)])))
}

expect_member_error <- function(said, pattern, within = 2) {
  expect_identical(said$class, "verdigris_error_member")
  expect_match(paste(said$message, said$members), pattern)
  expect_lt(said$seconds, within * stretch())
}

test_that("a member that fails is named, its error stays, and the team goes on", {
  out <- expect_child_ends(with_workers(3, c(
    "planted <- function() { if (gpu_team_rank() == 2) stop('planted'); gpu_barrier() }",
    "e <- tryCatch(gpu_together(team, planted), error = identity)",
    "stopifnot(e$rank == 2, inherits(e, 'verdigris_error_member'), conditionMessage(e$parent) == 'planted')",
    "said(gpu_together(team, planted))",
    "x <- gpu_split(1:6, team)",
    "mine <- function() if (gpu_team_rank() == 1) rlang::abort('own', class = 'mine') else gpu_all_reduce(1)",
    "stopifnot(inherits(tryCatch(gpu_together(team, mine), error = identity), 'mine'))",
    "stopifnot(identical(sum(x), 21L))",
    # all fail in the same way, without a collective
    "said(gpu_together(team, function() log(-1) + 'a'))",
    "stopifnot(identical(gpu_together(team, function() gpu_all_reduce(1)), list(3, 3, 3)))"
  )), timeout = 60 * stretch())
  said <- said_by(out)
  expect_member_error(said[[1L]], "failed on member 2 of 3.*planted.*has stopped")
  expect_match(said[[2L]]$message, "on member 1 of 3.*non-numeric argument")
})

test_that("a member that is killed is told of within two seconds, and the rest goes on", {
  out <- expect_child_ends(with_workers(3, c(
    "m <- matrix(rnorm(40), 10); x <- gpu_split(m, team); z <- x * 2 + 1",
    "kept <- gpu_together(team, function(x) x * 10, x, keep = TRUE)",
    "ends <- function() { if (gpu_team_rank() == 2) tools::pskill(Sys.getpid(), 9); gpu_barrier() }",
    "said(gpu_together(team, ends))",
    "said(sum(x))",
    "gpu_repair(team)",
    "stopifnot(all.equal(sum(x), sum(m)), all.equal(collect(z), m * 2 + 1), all.equal(collect(kept), m * 10))",
    # killed from outside, in the middle of a long sum; and between two calls
    "pid <- gpu_together(team, function() Sys.getpid())[[2]]",
    "system(sprintf('(sleep 0.5; kill -9 %d) &', pid))",
    "long <- function() { y <- as_gpu(runif(1e6)); repeat y <- gpu_all_reduce(y) / 2 }",
    "said(gpu_together(team, long))",
    "gpu_repair(team)",
    "stopifnot(all.equal(sum(x), sum(m)), nrow(team$members) == 1)",
    "tools::pskill(team$members$pid, 9); Sys.sleep(0.3)",
    "said(sum(x))",
    "said(gpu_repair(team))"
  )), timeout = 90 * stretch())
  said <- said_by(out)
  expect_member_error(said[[1L]], "member 2 of 3 has gone.*member 2 of 3 has ended, in barrier")
  expect_member_error(said[[2L]], "gpu_repair")
  expect_member_error(said[[3L]], "member 2 of 2 has gone.*member 2 of 2 has ended, in all-reduce", 4)
  expect_member_error(said[[4L]], "has gone")
  expect_member_error(said[[5L]], "No member of the team is left")
})

test_that("a member that stops answering is waited for as long as was asked", {
  wait <- ceiling(3 * stretch())
  out <- expect_child_ends(with_workers(3, c(
    "stuck <- function() { if (gpu_team_rank() == 3) tools::pskill(Sys.getpid(), tools::SIGSTOP); gpu_all_reduce(1) }",
    "pid <- team$members$pid[3]",
    "said(gpu_together(team, stuck))",
    "gpu_repair(team)",
    "stopifnot(identical(gpu_together(team, function() gpu_all_reduce(1)), list(2, 2)))",
    # one that is only late: the others wait
    "late <- function() { if (gpu_team_rank() == 2) Sys.sleep(1.5); gpu_all_reduce(1) }",
    "stopifnot(identical(gpu_together(team, late), list(2, 2)))",
    "tools::pskill(pid, 9)"
  ), timeout = wait), timeout = 60 + 10 * wait)
  expect_member_error(said_by(out)[[1L]], sprintf("member 3 of 3.*has not come within %d s", wait), wait + 5)
})

test_that("kept values are made again of arguments that are garbage, or named where they cannot be", {
  out <- expect_child_ends(with_workers(3, c(
    "x <- gpu_split(1:6, team)",
    "y <- gpu_split(function(rows) as.double(rows), team, n = 6) * 2",
    "kept <- gpu_together(team, function(x) x * 2L, x, keep = TRUE)",
    "deeper <- gpu_together(team, function(y, kept, a) y + kept + a, y, kept + 1L, 100, keep = TRUE)",
    "refs <- gpu_together(team, function() gpu_ref(gpu_team_rank() * 10))",
    "of_refs <- gpu_together(team, function(r) r + c(1, 2), refs, keep = TRUE)",
    "rm(x, y)",
    "for (k in 1:2) { gc(); sum(kept) }",
    "tools::pskill(team$members$pid[2], 9); Sys.sleep(0.2)",
    "try(sum(kept), silent = TRUE)",
    "e <- tryCatch(gpu_repair(team), error = identity)",
    "cat('repaired:', class(e)[1L], gsub('\\n', ' ', conditionMessage(e)), '\\n')",
    "stopifnot(nrow(team$members) == 2L, identical(collect(kept), 1:6 * 2L))",
    "stopifnot(identical(collect(deeper), 1:6 * 2 + 1:6 * 2 + 101))",
    "e <- tryCatch(collect(of_refs), error = identity)",
    "stopifnot(inherits(e, 'verdigris_error_member'))",
    "rm(of_refs); invisible(gc())",
    "tools::pskill(team$members$pid[2], 9); Sys.sleep(0.2)",
    "try(sum(kept), silent = TRUE)",
    "gpu_repair(team)",
    "stopifnot(identical(collect(deeper), 1:6 * 4 + 101))"
  )))
  expect_match(paste(out, collapse = " "), paste0("repaired: verdigris_error_split A split cannot be made again: ",
    "<gpu_split vector \\[6\\] over [23] members>"))
})

test_that("members in different collectives are told of both", {
  wait <- ceiling(3 * stretch())
  out <- expect_child_ends(with_workers(2, c(
    "said(gpu_together(team, function() if (gpu_team_rank() == 1) gpu_barrier() else gpu_all_reduce(c(1, 2))))",
    "said(gpu_together(team, function() gpu_all_reduce(numeric(gpu_team_rank()))))",
    "said(gpu_together(team, function() gpu_all_reduce(if (gpu_team_rank() == 1) 1L else 1)))",
    "said(gpu_together(team, function() gpu_all_reduce(1, if (gpu_team_rank() == 1) '+' else 'max')))",
    # who sends only learns of it at the next one
    "said(gpu_together(team, function() { gpu_broadcast(1, gpu_team_rank()); gpu_barrier() }))",
    # one more than the other
    "said(gpu_together(team, function() { gpu_barrier(); if (gpu_team_rank() == 1) gpu_barrier() }))",
    "invisible(parallel::clusterCall(cl, function() options(verdigris.debug = TRUE)))",
    "calls <- function() { first <- 1; if (gpu_team_rank() == 1) gpu_all_reduce(first) else gpu_barrier() }",
    "said(gpu_together(team, calls))",
    "said(gpu_together(team, function() gpu_broadcast(1, gpu_team_rank())))",
    "stopifnot(identical(gpu_together(team, function() gpu_broadcast(1:3, 2)), list(1:3, 1:3)))",
    "stopifnot(identical(gpu_together(team, function() gpu_all_reduce(1)), list(2, 2)))"
  ), timeout = wait), timeout = 60 + 10 * wait)
  said <- said_by(out)
  expect_member_error(said[[1L]], "member 1 in barrier, number [0-9]+; member 2 in all-reduce \\(\\+\\), 2 float64")
  expect_member_error(said[[2L]], "member 1 in all-reduce \\(\\+\\), 1 float64.*member 2 .*, 2 float64")
  expect_member_error(said[[3L]], "1 int32.*1 float64")
  expect_member_error(said[[4L]], "all-reduce \\(\\+\\).*all-reduce \\(max\\)")
  expect_member_error(said[[5L]], "broadcast of member 1.*barrier|barrier.*broadcast of member 2")
  expect_member_error(said[[6L]], "has not come|has stopped|has ended", wait + 5)
  expect_member_error(said[[7L]], "by `gpu_all_reduce\\(first\\)`; member 2 in barrier.*by `gpu_barrier\\(\\)`")
  expect_member_error(said[[8L]], "member 1 in broadcast of member 1.*member 2 in broadcast of member 2")
})

test_that("strangers, wrong tokens and other versions are refused", {
  out <- expect_child_ends(c(
    "own <- verdigris:::own_version()",
    "join <- function(port, token, rank, size, version = own, listener = NULL, timeout = 5) .Call(",
    "  verdigris:::C_team_join, listener, '127.0.0.1', port, token, rank, size, timeout, version, 'cpu', FALSE)",
    "said <- function(expr) { began <- proc.time()[[3]]; e <- tryCatch(expr, error = identity)",
    "  cat(class(e)[1L], '|', gsub('\\n', ' ', conditionMessage(e)), '| |', proc.time()[[3]] - began, '\\n') }",
    "listen <- function() .Call(verdigris:::C_team_listen, '127.0.0.1', 0, NULL)",
    # nobody comes but strangers, who speak http or nothing
    "first <- listen()",
    "silent <- socketConnection('127.0.0.1', first$port, open = 'r+b')",
    "talker <- socketConnection('127.0.0.1', first$port, open = 'r+b')",
    "writeBin(charToRaw('GET / HTTP/1.1\\r\\n\\r\\n'), talker)",
    "said(join(first$port, first$token, 0, 2, listener = first$listener, timeout = 1))",
    # a stranger that serves the address: what it sends is not taken for anything
    "child <- function(code) system2(file.path(R.home('bin'), 'Rscript'), c('--vanilla', '-e', shQuote(code)),",
    "  wait = FALSE, stdout = FALSE, stderr = FALSE)",
    "other <- function(port, token, rank, size, version) child(sprintf(",
    "  \".Call(verdigris:::C_team_join, NULL, '127.0.0.1', %d, '%s', %d, %d, 10, '%s', 'cpu', FALSE)\",",
    "  port, token, rank, size, version))",
    "wrong <- listen()",
    "other(wrong$port, strrep('0', 32), 1, 2, own)",
    "said(join(wrong$port, wrong$token, 0, 2, listener = wrong$listener, timeout = 4))",
    "old <- listen()",
    "other(old$port, old$token, 1, 2, '0.0.1')",
    "said(join(old$port, old$token, 0, 2, listener = old$listener, timeout = 20))",
    "said(join(old$port, old$token, 1, 2))",
    "said(.Call(verdigris:::C_team_join, NULL, '127.0.0.1', 1, 'token', 1, 2, 1, own, 'cpu', FALSE))",
    "said(.Call(verdigris:::C_team_join, old$listener, '127.0.0.1', 1, old$token, 0, 2, 1, own, 'cpu', FALSE))"
  ), timeout = 90 * stretch())
  said <- said_by(out)
  expect_member_error(said[[1L]], "did not join: 2 before the time was over")
  expect_member_error(said[[2L]], "did not join: 2", 6)
  expect_member_error(said[[3L]], "member 2 has version 0.0.1 of verdigris, and member 1 has", 20)
  expect_member_error(said[[4L]], "cannot reach the member", 6)
  expect_identical(said[[5L]]$class, "verdigris_error_argument")
  expect_identical(said[[6L]]$class, "verdigris_error_consumed")
})

test_that("a worker with another version is refused before it joins", {
  out <- expect_child_ends(with_workers(2, c(
    "old <- function() utils::assignInNamespace('own_version', function() '0.0.1', 'verdigris')",
    "invisible(parallel::clusterCall(cl[2], old))",
    "said(gpu_team(cl))"
  )), timeout = 60 * stretch())
  expect_member_error(said_by(out)[[1L]], "Member 2 has version 0.0.1 of verdigris, and this session has")
})

test_that("an interrupt ends a collective, here and on the others, and the team goes on", {
  out <- expect_child_ends(with_workers(2, c(
    "x <- gpu_split(1:6, team)",
    "slow <- function() { if (gpu_team_rank() == 2) Sys.sleep(3); gpu_barrier() }",
    "pid <- Sys.getpid()",
    "began <- proc.time()[[3]]",
    "how <- tryCatch({",
    "  system(sprintf('(sleep 1; kill -INT %d) &', pid))",
    "  gpu_together(team, slow)",
    "}, interrupt = function(e) 'interrupted')",
    "stopifnot(identical(how, 'interrupted'), proc.time()[[3]] - began < 2.5)",
    # the answers of that call are not taken for those of this one
    "stopifnot(identical(sum(x), 21L))",
    # a member that is interrupted itself, once it is in the call
    "waits <- function() {",
    "  if (gpu_team_rank() == 2) Sys.sleep(2) else system(sprintf('(sleep 0.5; kill -INT %d) &', Sys.getpid()))",
    "  gpu_barrier()",
    "}",
    "said(gpu_together(team, waits))",
    "stopifnot(identical(sum(x), 21L))"
  )), timeout = 60 * stretch())
  said <- said_by(out)
  expect_identical(said[[1L]]$class, "verdigris_error_member")
  expect_lt(said[[1L]]$seconds, 6 * stretch())
})

test_that("a forked child of a member is none, and does not keep its parent alive", {
  skip_on_os("windows")
  out <- expect_child_ends(with_workers(2, c(
    "forks <- function() {",
    "  child <- parallel::mcparallel(tryCatch(gpu_barrier(), error = function(e) class(e)[1L]))",
    "  parallel::mccollect(child)[[1L]]",
    "}",
    "stopifnot(identical(gpu_together(team, forks), rep(list('verdigris_error_fork'), 2)))",
    "stopifnot(identical(gpu_together(team, function() gpu_all_reduce(1)), list(2, 2)))",
    # the child of a member that is killed lives on, for a while
    "ends <- function() {",
    "  if (gpu_team_rank() == 2) {",
    "    parallel::mcparallel({Sys.sleep(4); tools::pskill(Sys.getpid(), 9)})",
    "    tools::pskill(Sys.getpid(), 9)",
    "  }",
    "  gpu_barrier()",
    "}",
    "said(gpu_together(team, ends))"
  )), timeout = 60 * stretch())
  # the cluster's own connection is open in the child: that the member has ended is known by the team's alone
  expect_match(said_by(out)[[1L]]$members, "member 2 of 2 has ended")
})

test_that("what living members keep is read, and used, after another has ended", {
  out <- expect_child_ends(with_workers(3, c(
    "refs <- gpu_together(team, function() gpu_ref(as_gpu(gpu_team_rank() * c(1, 10))))",
    "lists <- gpu_together(team, function() gpu_ref(list(a = as.double(gpu_team_rank()))))",
    "x <- gpu_split(1:6, team); y <- x * 2L",
    "stopifnot(identical(lapply(refs, function(r) as.vector(collect(r))), lapply(1:3, function(k) k * c(1, 10))))",
    "ends <- function() { if (gpu_team_rank() == 2) tools::pskill(Sys.getpid(), 9); gpu_barrier() }",
    "said(gpu_together(team, ends))",
    # before the repair, and what was lost
    "kept <- function() { for (k in c(1, 3)) stopifnot(identical(as.vector(collect(refs[[k]])), k * c(1, 10)),",
    "  identical(collect(lists[[k]])$a, k), identical(collect(as_gpu(refs[[k]])), k * c(1, 10))) }",
    "kept()",
    "said(collect(refs[[2]]))",
    "print(refs)",
    "gpu_repair(team)",
    "kept()",
    "said(collect(refs[[2]]))",
    "said(gpu_together(team, function(r) sum(r), refs))",
    "stopifnot(identical(gpu_together(team, function(r) as.vector(sum(r)), refs[c(1, 3)]), list(11, 33)))",
    "stopifnot(identical(gpu_together(team, function(r) as.vector(sum(r)), refs[c(3, 1)]), list(11, 33)))",
    "stopifnot(identical(gpu_together(team, function(r) gpu_team_rank(), refs[c(1, 3)]), list(1L, 2L)))",
    "stopifnot(identical(collect(y), 1:6 * 2L))",
    # new ones beside them, which do not share their names
    "more <- gpu_together(team, function() gpu_ref(as_gpu(gpu_team_rank() + 0.5)))",
    "rm(more); invisible(gc()); sum(x); kept()",
    "more <- gpu_together(team, function() gpu_ref(as_gpu(gpu_team_rank() + 0.5)))",
    # once more, from outside; between two calls nobody knows it yet
    "tools::pskill(team$members$pid[1], 9); Sys.sleep(0.3)",
    "said(collect(more[[1]]))",
    "stopifnot(identical(as.vector(collect(refs[[3]])), c(3, 30)), identical(as.vector(collect(more[[2]])), 2.5))",
    "gpu_repair(team)",
    "stopifnot(identical(as.vector(collect(refs[[3]])), c(3, 30)), identical(as.vector(collect(more[[2]])), 2.5))",
    "stopifnot(identical(gpu_together(team, function(r) as.vector(sum(r)), refs[3]), list(33)))",
    "stopifnot(identical(collect(y), 1:6 * 2L))",
    # parts of earlier teams are not kept
    "held <- function() length(ls(asNamespace('verdigris')$MEMBERS))",
    "environment(held) <- globalenv()",
    "stopifnot(identical(gpu_together(team, held), list(1L)))"
  )), timeout = 90 * stretch())
  said <- said_by(out)
  expect_member_error(said[[1L]], "member 2 of 3 has gone")
  expect_member_error(said[[2L]], "was lost with its member")
  expect_member_error(said[[3L]], "was lost with its member")
  expect_member_error(said[[4L]], "array was lost")
  expect_member_error(said[[5L]], "has gone")
  expect_match(paste(out, collapse = " "), "of member 1>.*that was lost with its member>.*of member 3>")
})

test_that("references of a team whose member failed, and of another team, are told apart", {
  out <- expect_child_ends(with_workers(2, c(
    "refs <- gpu_together(team, function() gpu_ref(gpu_team_rank()))",
    "planted <- function() { if (gpu_team_rank() == 2) stop('planted'); gpu_barrier() }",
    "said(gpu_together(team, planted))",
    "stopifnot(identical(lapply(refs, collect), list(1L, 2L)))",
    "stopifnot(identical(gpu_together(team, function(r) r, refs), list(1L, 2L)))",
    "other <- gpu_team(c('cpu', 'cpu'))",
    "said(gpu_together(other, function(r) r, refs))"
  )), timeout = 60 * stretch())
  expect_identical(said_by(out)[[2L]]$class, "verdigris_error_argument")
})
