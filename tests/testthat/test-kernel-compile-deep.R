# Deeply nested code: it gives its value or is refused, and never ends R, with the usual stack and with a small one.

deep_code <- quote({
  nested <- function(n, start, step) { e <- start; for (k in seq_len(n)) e <- step(e, k); e }
  shapes <- list(
    left = function(n) nested(n, quote(x), function(e, k) call("+", e, 1)),
    right = function(n) nested(n, quote(x), function(e, k) call("+", 1, e)),
    calls = function(n) nested(n, quote(x), function(e, k) call("abs", e)),
    braces = function(n) nested(n, quote(x), function(e, k) call("{", call("(", e))),
    conditions = function(n) nested(n, quote(x), function(e, k) call("if", call(">", quote(x), k), k, e)),
    loops = function(n) nested(n, quote(s <- s + x),
      function(e, k) call("for", as.name(paste0("i", k)), quote(1:1), e)),
    vectors = function(n) call("sum", nested(n, quote(c(x, 2)), function(e, k) call("-", e))),
    masks = function(n) call("sum", nested(n, quote(c(x, 2)), function(e, k) call("[", e, TRUE))),
    rows = function(n) call("sum", nested(n, quote(m[1, ] * x), function(e, k) call("*", e, 1))),
    functions = function(n) nested(n, quote(x),
      function(e, k) as.call(list(call("function", as.pairlist(alist(y = )), quote(y + 1)), e))),
    lambdas = function(n) nested(n, quote(x), function(e, k) as.call(list(call("function", NULL, e)))),
    defaults = function(n) nested(n, quote(x), function(e,
      k) as.call(list(call("function", as.pairlist(list(y = e)), quote(y)))))
  )
  m <- matrix(1, 1, 2)
  say <- function(what, r) cat(what,
    if (inherits(r, "verdigris_error_compile")) "refused" else if (inherits(r, "condition")) paste("error:",
    conditionMessage(r)) else as.vector(r), "\n")
  for (n in depths) {
    for (name in names(shapes)) {
      f <- as.function(c(alist(x = ), call("{", quote(s <- 0), shapes[[name]](n))))
      say(name, tryCatch(gpu_map(f, as_gpu(c(1.5, 2))), error = identity))
    }
    n <- min(n, 300)
    around <- new.env()
    for (k in seq_len(n)) assign(paste0("f", k), eval(bquote(function(x) .(as.name(paste0("f", k + 1L)))(x) + 1)),
      around)
    for (k in seq_len(n)) environment(around[[paste0("f", k)]]) <- around
    assign(paste0("f", n + 1L), function(x) x, around)
    say("chain", tryCatch(gpu_map(around$f1, as_gpu(c(1.5, 2))), error = identity))
  }
  cat("end\n")
})

run_deep <- function(depths, stack) {
  file <- tempfile(fileext = ".R")
  on.exit(unlink(file))
  writeLines(c("suppressMessages(library(verdigris))", sprintf("gpu_use(%s)", deparse(test_device)),
    "invisible(compiler::enableJIT(0))", paste0("depths <- ", deparse1(depths)), deparse(deep_code)), file)
  command <- sprintf("ulimit -s %d; exec timeout 120 %s --vanilla %s", stack,
    shQuote(file.path(R.home("bin"), "Rscript")), shQuote(file))
  out <- suppressWarnings(system2("sh", c("-c", shQuote(command)), stdout = TRUE, stderr = TRUE,
    env = paste0("R_LIBS=", paste(.libPaths(), collapse = ":"))))
  expect_identical(utils::tail(out, 1L), "end", info = paste(utils::tail(out, 5L), collapse = "\n"))
  # beside them stands what rlang prints where it cannot walk over the calls of its trace
  sub(" $", "", grep("^[a-z]+ (refused|error:|[-0-9])", out, value = TRUE))
}

test_that("code that is nested deep gives its value or is refused", {
  skip_on_os(c("windows", "mac"))
  skip_if(emulated)
  # an ordinary depth is compiled with any stack
  values <- list(left = c(11.5, 12), right = c(11.5, 12), calls = c(1.5, 2), braces = c(1.5, 2), conditions = c(1, 1),
    loops = NULL, vectors = c(3.5, 4), masks = c(3.5, 4), rows = c(3, 4), functions = c(11.5, 12), lambdas = c(1.5, 2),
    defaults = c(1.5, 2), chain = c(11.5, 12))
  for (stack in c(8192, 1024)) {
    out <- run_deep(10, stack)
    for (name in setdiff(names(values), "loops")) expect_true(paste(c(name, values[[name]]), collapse = " ") %in% out,
      info = paste(c(name, stack, grep(paste0("^", name), out, value = TRUE)), collapse = " "))
  }
  for (stack in c(8192, 1024)) {
    out <- run_deep(c(300, 4000), stack)
    expect_length(out, 2L * length(values))
    expect_identical(grep("error:", out, value = TRUE), character())
  }
})
