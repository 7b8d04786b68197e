# Vignettes: a chunk with the option `host = TRUE` reads an array on the host, and no other chunk does; their figures of
# a card are those of bench/results.md; code fits the page.

folder <- test_path("..", "..", "vignettes")
skip_if(!dir.exists(folder), "not in a checkout")
vignettes <- list.files(folder, "[.]Rmd$")

# The chunks of a file, as lists of `label`, `options` (an expression) and `code` (lines).
chunks_of <- function(file) {
  lines <- readLines(file, encoding = "UTF-8")
  begins <- grep("^ *```\\{r.*\\}$", lines)
  ends <- grep("^ *```$", lines)
  lapply(begins, function(begin) {
    header <- sub("^ *```\\{r,? *(.*)\\}$", "\\1", lines[begin])
    label <- if (grepl("^[A-Za-z0-9-]+(,|$)", header)) sub(",.*", "", header) else ""
    options <- sub("^, *", "", substring(header, nchar(label) + 1L))
    end <- min(ends[ends > begin])
    list(label = label, options = parse(text = paste0("list(", options, ")"))[[1L]],
      code = lines[seq_len(end - begin - 1L) + begin])
  })
}

# Runs the chunks in order where no function may read an array on the host unasked. Gives the lines of chunks that do so
# without the option `host`, and of those with it that do not.
wrong_hosts <- function(file) {
  frame <- new.env(parent = globalenv())
  wrong <- character()
  evaluate <- function(code) for (expression in code) {
    value <- withVisible(eval(expression, frame))
    if (value$visible) utils::capture.output(print(value$value))
  }
  for (chunk in chunks_of(file)) {
    code <- parse(text = chunk$code)
    settings <- utils::modifyList(list(eval = knitr::opts_chunk$get("eval")), eval(chunk$options, frame))
    if (!isTRUE(settings$eval)) next
    if (isTRUE(settings$error)) {
      for (k in seq_along(code)) try(evaluate(code[k]), silent = TRUE)
      options(verdigris.host_access = "error")
      next
    }
    read <- tryCatch({ evaluate(code); FALSE }, verdigris_error_host_access = function(e) TRUE)
    if (read != isTRUE(settings$host)) wrong <- c(wrong, sprintf("%s: %s", basename(file), chunk$code[1L]))
    if (read) {
      options(verdigris.host_access = "allow")
      evaluate(code)
      options(verdigris.host_access = "error")
    }
  }
  wrong
}

test_that("the chunks that claim to run on the host do so, and no others", {
  skip_if_not_installed("knitr")
  skip_if(test_device != "cpu", "vignettes are built on the cpu device")
  grDevices::pdf(NULL)
  old <- options(verdigris.host_access = "error", warn = 1)
  settings <- knitr::opts_chunk$get()
  in_vignettes <- setwd(folder)
  local_gpu("cpu")
  on.exit({
    setwd(in_vignettes)
    options(old)
    knitr::opts_chunk$restore(settings)
    grDevices::dev.off()
  }, add = TRUE)
  checked <- 0
  for (file in vignettes) {
    knitr::opts_chunk$restore(settings)
    utils::capture.output(wrong <- suppressWarnings(suppressMessages(wrong_hosts(file))))
    expect_identical(wrong, character())
    checked <- checked + length(chunks_of(file))
  }
  expect_gt(checked, 100)
})

test_that("the check finds a wrong claim", {
  skip_if_not_installed("knitr")
  local_gpu("cpu")
  old <- options(verdigris.host_access = "error")
  on.exit(options(old))
  file <- tempfile(fileext = ".Rmd")
  writeLines(c("```{r}", "x <- verdigris::as_gpu(c(1, 4))", "y <- x + 1",
    "```", "```{r, host = TRUE}", "verdigris::collect(x)", "```",
    "```{r a-name}", "sprintf('%f', x)", "```", "```{r, host = TRUE}", "sprintf('%g', y)", "```"), file)
  expect_identical(sub("^[^:]*: ", "", wrong_hosts(file)), c("verdigris::collect(x)", "sprintf('%f', x)"))
})

test_that("figures of a card in vignettes are those of bench/results.md", {
  shown <- utils::read.csv(file.path(folder, "h100.csv"), colClasses = "character")
  rows <- grep("^[|] [a-z]", readLines(file.path(folder, "..", "bench", "results.md")), value = TRUE)
  cells <- strsplit(rows, " | ", fixed = TRUE)
  ms <- stats::setNames(vapply(cells, `[`, "", 3L), sub("^[|] ", "", vapply(cells, `[`, "", 1L)))
  expect_gt(nrow(shown), 5)
  expect_identical(shown$ms, unname(ms[shown$name]))
})

test_that("code in vignettes fits the page", {
  for (file in vignettes) {
    lines <- readLines(file.path(folder, file), encoding = "UTF-8")
    inside <- cumsum(grepl("^ *```", lines)) %% 2 == 1
    wide <- lines[inside & nchar(lines) > 96L & !grepl("^ *```|^#>", lines)]
    expect_identical(wide, character(), label = file)
  }
})
