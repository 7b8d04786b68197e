# Calls that editors, viewers and documents make on an array: they compute only the recorded elements that they show,
# and fetch at most 1,000 elements.

# Bytes of elements that come to the host while the code runs.
fetched_by <- function(code) {
  before <- .Call(verdigris:::C_live)[3]
  force(code)
  .Call(verdigris:::C_live)[3] - before
}
recorded <- function(x) verdigris:::gpu_info(x)$pending > 0
quietly <- function(code) suppressMessages(utils::capture.output(code, type = "output"))
long <- function(n = 1e6) gpu_seq(1, n, device = test_device) + 1

test_that("fetched bytes are counted", {
  x <- gpu(c(1, 2, 3))
  expect_identical(fetched_by(paste(as.vector(x))), 24)
  expect_identical(fetched_by(collect(gpu(1:3))), 12)
  expect_identical(fetched_by(base::order(x)), 24)
})

test_that("print, format, str, summary, head and tail fetch what they show", {
  shown <- function(x) c(
    print = fetched_by(quietly(print(x))), header = fetched_by(format(x, what = "header")),
      str = fetched_by(quietly(str(x))),
    head = fetched_by(quietly(print(head(x)))), tail = fetched_by(quietly(print(tail(x)))),
      summary = fetched_by(summary(x))
  )
  x <- gpu_compute(long())
  bytes <- shown(x)
  expect_identical(bytes[c("print", "header", "str", "head", "tail")], c(print = 160, header = 0, str = 80, head = 48,
    tail = 48))
  # the cpu device has base R look for quartiles
  if (test_device != "cpu") expect_lte(bytes[["summary"]], 8 * 100)
  m <- gpu_compute(`dim<-`(long(), c(1000, 1000)))
  expect_identical(fetched_by(quietly(print(m))), 8 * 80)
  expect_identical(fetched_by(quietly(print(head(m, c(3, 4))))), 8 * 12)
  expect_identical(fetched_by(quietly(str(list(m, x)))), 160)
})

test_that("of a recorded array only what is shown is computed", {
  x <- long()
  expect_output(print(x), "2  3  4  5")
  expect_identical(as.vector(x[3:5]), c(4, 5, 6))
  expect_identical(as.vector(head(x, 3)), c(2, 3, 4))
  expect_identical(as.vector(x[seq(1, 9, by = 4)]), c(2, 6, 10))
  expect_identical(format(x[1:2]), c("2", "3"))
  expect_true(recorded(x))
  expect_identical(as.vector(x[numeric()]), numeric())
  m <- `dim<-`(long(), c(1000, 1000))
  expect_output(print(m), "7002")
  expect_true(recorded(m))
  # operands that are recycled, strided or of another type; a transposed view that is computed but not in order
  y <- gpu(c(1, 2)) * long() + t(`dim<-`(long(), c(1000, 1000)))
  want <- as.vector(c(1, 2) * (1:1e6 + 1) + t(matrix(1:1e6 + 1, 1000)))
  expect_identical(as.vector(verdigris:::first(y, 1500)), want[1:1500])
  expect_true(recorded(y))
  expect_identical(as.vector(y), want)
  v <- t(gpu(matrix(1:1e4, 100)))
  expect_identical(verdigris:::first(v, 150), as.vector(t(matrix(1:1e4, 100)))[1:150])
  expect_identical(as.vector(v), as.vector(t(matrix(1:1e4, 100))))
  r <- gpu_runif(1e5, device = test_device) * 2
  few <- verdigris:::first(r, 10)
  expect_identical(as.vector(r)[1:10], few)
  expect_warning(verdigris:::first(sqrt(-long()), 2), "NaNs produced")
})

test_that("an environment pane computes nothing and fetches ten elements at most", {
  x <- long()
  y <- gpu_compute(long())
  frame <- data.frame(a = 1:1e6)
  frame$x <- x
  ask <- function(x) quietly({
    str(x, max.level = 1, give.attr = FALSE, comp.str = "  ", no.list = TRUE, vec.len = 5)
    object.size(x)
    list(class(x), typeof(x), mode(x), length(x), dim(x), names(x), is.function(x), is.data.frame(x), is.environment(x),
      isS4(x), inherits(x, "factor"), is.null(attributes(x)))
    methods::is(x, "ore.frame")
    if (is_gpu(x)) format(x, what = "header")
    utils::ls.str(list2env(list(x = x)))
  })
  expect_identical(fetched_by(ask(x)), 0)
  expect_identical(fetched_by(ask(frame)[0]), 0)
  expect_true(recorded(x))
  expect_lte(fetched_by(ask(y)), 2 * 80)
})

test_that("completion asks for names alone", {
  x <- long()
  complete <- function(line) {
    utils:::.assignLinebuffer(line)
    utils:::.assignEnd(nchar(line))
    utils:::.guessTokenFromLine()
    utils:::.completeToken()
    utils:::.retrieveCompletions()
  }
  assign("verdigris_test_array", x, envir = globalenv())
  on.exit(rm("verdigris_test_array", envir = globalenv()))
  expect_identical(fetched_by({
    expect_identical(complete("verdigris_test_arr"), "verdigris_test_array")
    complete("verdigris_test_array$")
    complete("verdigris_test_array[")
    complete("sum(verdigris_test_array, na")
  }), 0)
  expect_true(recorded(x))
})

test_that("View() gets the first 1,000 elements and says so", {
  withr::local_envvar(DISPLAY = "", "_R_CHECK_SCREEN_DEVICE_" = "")
  view <- function(x) try(suppressWarnings(utils::View(x)), silent = TRUE) # there is no screen
  x <- long()
  expect_message(bytes <- fetched_by(view(x)), "the first 1,000 of 1,000,000 elements")
  expect_identical(bytes, 8000)
  m <- `dim<-`(long(), c(100, 1e4))
  expect_message(bytes <- fetched_by(view(m)), "the first 1,000 of")
  expect_identical(bytes, 8000)
  cube <- `dim<-`(long(), c(100, 100, 100))
  expect_lte(fetched_by(suppressMessages(view(cube))), 8000)
  frame <- data.frame(k = 1:1e6)
  frame$x <- x
  expect_identical(fetched_by(view(frame)), 8000)
  expect_true(all(recorded(x), recorded(m), recorded(cube)))
  expect_no_message(view(gpu(c(a = 1, b = 2))))
})

test_that("RStudio's viewer gets the same", {
  rstudio <- attach(NULL, name = "tools:rstudio")
  on.exit(detach("tools:rstudio", character.only = TRUE))
  hook <- function(x) as.data.frame(x, optional = TRUE)
  environment(hook) <- rstudio
  x <- long()
  expect_identical(fetched_by(frame <- suppressMessages(hook(x))), 8000)
  expect_identical(frame[[1]], 2:1001 + 0)
  expect_identical(hook(gpu(matrix(1:6, 2, dimnames = list(NULL, c("a", "b", "c"))))),
    as.data.frame(matrix(1:6, 2, dimnames = list(NULL, c("a", "b", "c")))))
  expect_identical(nrow(as.data.frame(x)), 1000000L)
})

test_that("a knitr document shows arrays as R does, inline ones in part", {
  skip_if_not_installed("knitr")
  x <- long()
  few <- gpu(c(1.5, 2))
  env <- environment()
  text <- c("```{r}", "x", "few * 2", "```", "Inline: `r few` and `r x`.")
  bytes <- fetched_by(out <- knitr::knit(text = text, envir = env, quiet = TRUE))
  expect_match(out, "## ... and 999,980 more", fixed = TRUE)
  expect_match(out, "## [1] 3 4", fixed = TRUE)
  expect_match(out, "Inline: 1.5, 2 and 2, 3, 4", fixed = TRUE)
  expect_match(out, "... (1,000,000 elements).", fixed = TRUE)
  expect_lte(bytes, 8000)
  expect_true(recorded(x))
})
