# R's own examples on base's and stats' help pages, for the functions of ?verdigris-coverage: run as they are, and with
# their numbers in arrays (assigned values, data sets, and the results of c(), `:`, seq(), matrix(), rnorm() and their
# kin). Each expression's value, warnings and error are compared.
#
# A part of the pages runs here; all of them where VERDIGRIS_EXAMPLES is "all" (make examples).

# Expressions that are left out, by page and by how their code begins, and why.
left_out <- list(
  "an array is not identical() to an ordinary vector, which stands on the other side" = list(
    apply = c("identical(x", "identical(x3", "stopifnot(identical(dimnames"),
      crossprod = c("stopifnot(identical(tcrossprod", "identical(tcrossprod("), Extremes = "stopifnot(identical(D",
      ifelse = "stopifnot(identical(y2", merge = "stopifnot(exprs", rawConversion = "stopifnot(exprs",
      rle = "stopifnot(x ==",
    tapply = "stopifnot(identical(tapply", cor = "stopifnot(identical(C2", smoothEnds = "stopifnot(exprs",
      stepfun = "stopifnot(identical(y0", approxfun = "stopifnot(exprs = { identical(unname(unclass(aperm",
      toeplitz = "stopifnot(identical(T.", model.frame = "stopifnot(is.data.frame"),
  "what says of a value what it is says that it is an array" = list(
    attributes = "attributes(x)", class = c("class(x)", "oldClass(x)", ".class2("), data.class = "stopifnot(data.class",
      data.frame = "rbind(class", identical = c("attributes(m0)", "names(attributes"), vector = "is.vector(x)",
      mode = c("mex3")),
  "R before 4.3 warns where an object with the S4 bit gets several classes" = list(class = "class(x) <- c(",
    case.names = "summary(lmxy"),
  "base R gives list(NULL, NULL) as dimnames to what is empty, and list(NULL) to columns without row names" = list(
    cbind = "cbind(0, matrix(1, nrow = 0", split = "asplit(ma, 2)"),
  "a logical NA becomes NA + 0i, as from R 4.4 on" = list(colSums = c("rowMeans(x, na.rm = TRUE)",
    "colMeans(x, na.rm = TRUE)")),
  "an error's call names the function, where base R's names a method" = list(chol = "try(chol("),
  "before R 4.5 pbeta() of degenerate shapes is 0 at the end" = list(Beta = paste0("pl.beta(", c("0, 0", "0, 2", "1, Inf",
    "Inf, 2", "3, 0"), ")")),
  "base R's qtukey() of few degrees of freedom has three digits" = list(Tukey = "(qtt <- qtukey("),
  "masses are within 1e-13 of their value, and R 4.6's example asks for their last bit" = list(
    Hypergeometric = "stopifnot(abs(phyper("),
  "the signs of principal components are by a rule of this package (?principal)" = list(prcomp = c(
    "pZ <- prcomp(Z, tol", "summary(pZ)", "pz3 <- prcomp(", "summary(pz3)")),
  "it depends on the clock, or on what ran before" = list(lengths = "dates <- split(", sequence = "sequence(3, 1:3)",
    Extract = c("op <- options(warnPartial", "if (is.null(op"), SSasymp = "options(show.nls"),
  "attributes(y) <- attributes(x) gives strings the class of an array (?host)" = list(match = "symnum(outer("),
  "base R asks is.vector(), is.object() or is.list() of what it was given" = list(row.names = c("attr(df",
    "deparse(df"), sweep = "dimnames(A) <-", model.frame = "ncars <- get_all_vars", pp.test = "PP.test(",
    qqnorm = "qqline(y, distribution")
)

is_left_out <- function(page, code) {
  for (reason in left_out) for (begin in reason[[page]]) if (startsWith(gsub("\\s+", " ", code), begin)) return(TRUE)
  FALSE
}

test_that("R's own examples give the same with arrays", {
  all <- Sys.getenv("VERDIGRIS_EXAMPLES") == "all"
  skip_if(test_device != "cpu" && !all, "make examples runs them there")
  withr::local_options(verdigris.host_access = "allow")
  coverage <- utils::read.csv(system.file("coverage.csv", package = "verdigris"), na.strings = character())
  found <- character()
  served <- character()
  pages <- expressions <- excluded <- 0L
  for (package in c("base", "stats")) {
    db <- tools::Rd_db(package)
    for (file in names(db)) {
      aliases <- trimws(vapply(Filter(function(part) attr(part, "Rd_tag") == "\\alias", db[[file]]),
        function(p) paste(unlist(p), collapse = ""), ""))
      about <- intersect(aliases, coverage$name[coverage$package == package])
      name <- sub("[.]Rd$", "", file)
      # these take seconds each
      slow <- c("ansari.test", "all.equal", "arima", "uniroot", "StructTS", "ppr", "chisq.test", "pretty")
      if (!length(about) || !all && name %in% slow) next
      rows <- compare_examples(db[[file]])
      if (is.null(rows)) next
      out <- vapply(rows$code, function(code) is_left_out(name, code), NA)
      pages <- pages + 1L
      expressions <- expressions + sum(!out)
      excluded <- excluded + sum(out)
      called <- unlist(lapply(example_code(db[[file]])[!out], all.names, unique = TRUE))
      served <- c(served, intersect(about, called))
      bad <- rows[rows$said != "" & !out, ]
      found <- c(found, sprintf("%s: %s: %s", name, substr(bad$code, 1L, 80L), bad$said))
    }
  }
  cat(sprintf("\nexamples: %d functions, %d pages, %d expressions, %d left out\n", length(unique(served)), pages,
    expressions, excluded))
  expect(length(found) == 0L, paste(c(sprintf("%d expressions differ:", length(found)), utils::head(found, 40L)),
    collapse = "\n"))
  expect_gte(length(unique(served)), 300L)
  expect_gte(expressions, 3000L)
  expect_lte(excluded, 66L)
})
