# Writes into README.md what its R code prints, and the table of speeds: from bench/base-r.csv (bench/base-r.R) and
# bench/results.md (bench/run.sh).
#
# usage: Rscript tools/doc/readme.R [--check]     verdigris must be in R_LIBS; --check changes nothing, and fails where
#                                                 README is out of date

# A block of code with the lines `#>` that it prints, as knitr shows it. Lines of code without output stay as they are.
with_output <- function(lines, frame) {
  code <- grep("^#>", lines, invert = TRUE, value = TRUE)
  parsed <- parse(text = code, keep.source = TRUE)
  places <- utils::getSrcref(parsed)
  out <- character()
  at <- 0L
  for (k in seq_along(parsed)) {
    last <- as.integer(places[[k]])[3L]
    out <- c(out, code[seq(at + 1L, last)])
    at <- last
    printed <- utils::capture.output({
      value <- suppressPackageStartupMessages(withVisible(eval(parsed[[k]], frame)))
      if (value$visible) print(value$value)
    })
    out <- c(out, if (length(printed)) sub(" +$", "", paste("#>", printed)))
  }
  c(out, code[seq_along(code) > at])
}

# The blocks ```r of a document that show output.
refresh_code <- function(lines) {
  frame <- new.env(parent = globalenv())
  begins <- grep("^```r$", lines)
  for (begin in rev(begins)) {
    end <- begin + which(lines[-seq_len(begin)] == "```")[1L]
    block <- lines[seq(begin + 1L, end - 1L)]
    if (any(startsWith(block, "#>"))) {
      lines <- c(lines[seq_len(begin)], with_output(block, frame), lines[seq(end, length(lines))])
    }
  }
  lines
}

CASES <- c(
  "`sqrt(x * x + y * y) * 2 - exp(-x) / (1 + abs(y))`" = "chain_f64", "`var(x)`" = "var_f64",
  "`quantile(x)`" = "quantile_f64", "`sort(x)`" = "sort_f64", "normal random numbers" = "rnorm_f64"
)

speed_table <- function(root = ".") {
  host <- utils::read.csv(file.path(root, "bench", "base-r.csv"), row.names = "name")
  cells <- strsplit(grep("^[|] [a-z]", readLines(file.path(root, "bench", "results.md")), value = TRUE), " | ",
    fixed = TRUE)
  card <- stats::setNames(vapply(cells, `[`, "", 3L), sub("^[|] ", "", vapply(cells, `[`, "", 1L)))
  ms <- function(seconds) format(signif(1000 * seconds, 3), big.mark = ",", trim = TRUE, scientific = FALSE)
  c("| 1e8 doubles | base R, ms | cpu device, ms | H100, ms |", "|---|---|---|---|",
    sprintf("| %s | %s | %s | %s |", names(CASES), vapply(host[CASES, "base_s"], ms, ""),
      vapply(host[CASES, "cpu_s"], ms, ""), format(signif(as.numeric(card[CASES]), 2), trim = TRUE, drop0trailing = TRUE)))
}

refresh_table <- function(lines, root = ".") {
  from <- which(startsWith(lines, "| 1e8 doubles"))
  stopifnot(length(from) == 1L)
  rest <- lines[-seq_len(from)]
  rows <- which(!startsWith(rest, "|"))[1L]
  c(lines[seq_len(from - 1L)], speed_table(root), rest[seq(rows, length(rest))])
}

refresh <- function(lines, root = ".") refresh_code(refresh_table(lines, root))

if (sys.nframe() == 0L) {
  old <- readLines("README.md", encoding = "UTF-8")
  new <- refresh(old)
  if ("--check" %in% commandArgs(TRUE)) {
    if (!identical(old, new)) stop("README.md is out of date: Rscript tools/doc/readme.R, and commit")
  } else {
    writeLines(new, "README.md", useBytes = TRUE)
  }
}
