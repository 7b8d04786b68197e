# Members that end in a fit; fits of a launcher's processes; the share of a host's cores; the bandwidth that is printed.

test_that("a member that is killed in a fit is told of within two seconds, and the rest fits", {
  out <- expect_child_ends(c(
    "cl <- parallel::makePSOCKcluster(3, outfile = '/dev/null')",
    sprintf("invisible(parallel::clusterCall(cl, function() options(verdigris.device = %s)))", deparse(test_device)),
    "team <- gpu_team(cl, timeout = 20); set.seed(1); n <- 3e5",
    "d <- data.frame(x = rnorm(n), z = rnorm(n)); d$y <- rpois(n, exp(0.3 * d$x))",
    "s <- gpu_split(d, team)",
    "system(sprintf('(sleep 0.7; kill -9 %d; date +%%s.%%N > %s) &', team$members$pid[2], file <- tempfile()))",
    "e <- NULL",
    "repeat {",
    "  e <- tryCatch({gpu_glm(y ~ x + z, poisson, s); NULL}, error = identity)",
    "  if (!is.null(e)) break",
    "}",
    "now <- as.double(Sys.time()); Sys.sleep(0.2)",
    "cat(class(e)[1L], '|', gsub('\\n', ' ', conditionMessage(e)), '|', now - as.double(readLines(file)), '\\n')",
    "gpu_repair(team)",
    "stopifnot(nrow(team$members) == 2L)",
    "stopifnot(all.equal(coef(gpu_glm(y ~ x + z, poisson, s)), coef(glm(y ~ x + z, poisson, d)), tolerance = 1e-8))",
    # a member that fails alone is named, and the team goes on
    "d$y[2e5] <- -1; bad <- gpu_split(d, team)",
    "e <- tryCatch(gpu_glm(y ~ x, poisson, bad), error = identity)",
    "stopifnot(inherits(e, 'verdigris_error_member'))",
    "stopifnot(grepl('negative values not allowed', paste(e$failed, collapse = ' ')))",
    "stopifnot(all.equal(sum(s$x), sum(d$x)))"
  ), timeout = 90 * stretch())
  said <- strsplit(grep("|", out, fixed = TRUE, value = TRUE)[1L], " *[|] *")[[1L]]
  expect_identical(said[1L], "verdigris_error_member")
  expect_match(said[2L], "member 2 of 3 has gone")
  expect_lt(as.numeric(said[3L]), 2 * stretch())
})

test_that("a launcher's processes fit what they hold together", {
  folder <- withr::local_tempdir()
  script <- file.path(folder, "script.R")
  writeLines(c(
    "suppressMessages(library(verdigris))", sprintf("options(verdigris.device = %s)", deparse(test_device)),
    "team <- gpu_team('env', timeout = 60)",
    "set.seed(3); d <- data.frame(x = rnorm(90), s = rep(c('a', 'b', 'd'), each = 30), k = rep(1:9, 10))",
    "d$y <- rnorm(90); d$b <- rbinom(90, 1, 0.5); d$x[4] <- NA",
    "s <- gpu_split(d, team)",
    "stopifnot(all.equal(quantile(s$y), quantile(d$y)), identical(collect(sort(s$y)), sort(d$y)))",
    "fit <- gpu_lm(y ~ x + s + factor(k), s); want <- lm(y ~ x + s + factor(k), d)",
    "stopifnot(all.equal(coef(summary(fit)), coef(summary(want))), identical(fit$xlevels, want$xlevels))",
    "stopifnot(all.equal(collect(residuals(fit)), unname(residuals(want))))",
    "fit <- gpu_glm(b ~ x + s, binomial, s); want <- glm(b ~ x + s, binomial, d)",
    "stopifnot(all.equal(coef(fit), coef(want), tolerance = 1e-8), all.equal(AIC(fit), AIC(want)))",
    "m <- gpu_split(as.matrix(d[c('y', 'k')]), team)",
    "stopifnot(all.equal(svd(m)$d, svd(as.matrix(d[c('y', 'k')]))$d), identical(c(table(s$s)), c(table(d$s))))",
    "capture.output(print(team))", "cat(sprintf('end %d\\n', gpu_team_rank()))"
  ), script)
  outs <- file.path(folder, paste0("out", 0:1))
  commands <- sprintf("env RANK=%d WORLD_SIZE=2 VERDIGRIS_TEAM=models%d R_LIBS=%s %s --vanilla %s > %s 2>&1", 0:1,
    Sys.getpid(), shQuote(paste(.libPaths(), collapse = ":")), file.path(R.home("bin"), "Rscript"), shQuote(script),
    shQuote(outs))
  system2("timeout", c("--kill-after=5", 90 * stretch(), "sh", "-c", shQuote(paste0(commands[2L], " & ", commands[1L],
    "; wait"))))
  for (rank in 1:2) expect(any(readLines(outs[rank]) == sprintf("end %d", rank)), paste(utils::tail(readLines(outs[
    rank]), 10L), collapse = "\n"))
})

test_that("workers share the cores of their host", {
  cl <- worker_cluster(2)
  threads <- function() .Call(get("C_cpu_threads", envir = asNamespace("verdigris")), Inf)
  all <- .Call(C_cpu_threads, Inf)
  withr::local_envvar(RAYON_NUM_THREADS = NA)
  parallel::clusterCall(cl, function() Sys.unsetenv("RAYON_NUM_THREADS"))
  team <- within_seconds(60, gpu_team(cl, timeout = 30))
  own <- unlist(gpu_together(team, threads))
  expect_true(all(own == max(1, all %/% 2)))
  parallel::clusterCall(cl[1], function() options(verdigris.threads = 1))
  parallel::clusterCall(cl[2], function() Sys.setenv(RAYON_NUM_THREADS = "3"))
  again <- within_seconds(60, gpu_team(cl, timeout = 30))
  expect_identical(unlist(gpu_together(again, threads))[1L], 1)
  parallel::clusterCall(cl[1], function() options(verdigris.threads = "many"))
  expect_error(gpu_team(cl, timeout = 10), "could not be made", class = "verdigris_error_member")
  # alone on its host a member has all
  parallel::clusterCall(cl[1], function() options(verdigris.threads = NULL))
  one <- within_seconds(60, gpu_team(cl[1], timeout = 30))
  expect_identical(gpu_together(one, threads)[[1L]], all)
})

test_that("print() of a team measures its bandwidth once", {
  cl <- worker_cluster(2)
  team <- within_seconds(60, gpu_team(cl, timeout = 30))
  expect_output(print(team, bandwidth = FALSE), "transport host>")
  expect_output(print(team), "transport host, [0-9.]+ GB/s>")
  first <- team$bandwidth
  expect_output(print(team), "GB/s")
  expect_identical(team$bandwidth, first)
  expect_output(print(gpu_team(test_device)), "transport (host|device copies)>")
  expect_error(print(team, bandwidth = 3), class = "verdigris_error_argument")
})
