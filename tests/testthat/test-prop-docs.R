# Documentation: every export has a help page with a value and examples, and is in the reference index.

# The checkout's help pages or, where there is no checkout (R CMD check), the installed package's.
root <- test_path("..", "..")
pages <- if (dir.exists(file.path(root, "man"))) tools::Rd_db(dir = root) else tools::Rd_db("verdigris")

tags <- function(page) vapply(page, function(part) attr(part, "Rd_tag"), "")
texts <- function(page, tag) vapply(page[tags(page) == tag], function(part) trimws(paste(unlist(part), collapse = "")),
  "")
aliases <- lapply(pages, texts, "\\alias")

exports <- grep("^[.]__", getNamespaceExports("verdigris"), invert = TRUE, value = TRUE)

# The page of a name; an S4 method stands for its generic.
page_of <- function(name) {
  about <- vapply(aliases, function(a) name %in% a || any(startsWith(a, paste0(name, ","))), NA)
  names(pages)[about]
}

test_that("every export has a help page with a value and runnable examples", {
  skip_if(length(pages) == 0L, "installed without help pages")
  found <- lapply(stats::setNames(exports, exports), page_of)
  expect_identical(names(found)[lengths(found) == 0L], character())
  for (name in unique(unlist(found))) {
    for (tag in c("\\title", "\\description", "\\value", "\\examples")) {
      expect_true(tag %in% tags(pages[[name]]), label = paste(name, "has", tag))
    }
    inside <- unlist(lapply(pages[[name]][tags(pages[[name]]) == "\\examples"], tags))
    expect_false(any(c("\\dontrun", "\\donttest") %in% inside), label = paste(name, "has an example that is not run"))
  }
})

test_that("every export and every help page stands in the reference index", {
  skip_if(length(pages) == 0L, "installed without help pages")
  index <- file.path(root, "_pkgdown.yml")
  skip_if(!file.exists(index), "not in a checkout")
  # names that are no words stand in quotes
  entries <- gsub("[\"`]", "", sub("^ +- +", "", grep("^ +- +", readLines(index), value = TRUE)))
  expect_gt(length(entries), 20L)
  expect_identical(anyDuplicated(entries), 0L)
  named <- lapply(stats::setNames(entries, entries), page_of)
  expect_identical(entries[lengths(named) == 0L], character())
  expect_identical(setdiff(names(pages), unlist(named)), character())
  # a function that has its own page, or shares one, is listed by its own name unless base R's name brings it
  own <- exports[!vapply(exports, exists, NA, envir = baseenv()) & !vapply(exports, exists, NA,
    envir = asNamespace("stats"), inherits = FALSE)]
  expect_identical(setdiff(own, entries), character())
})

test_that("R CMD check takes no exported function for an S3 method, but max.col() before R 4.5", {
  # in another process, since it detaches the package
  code <- "cat(format(tools::checkS3methods('verdigris')), sep = '\\n')"
  out <- withr::with_envvar(c(`_R_CHECK_S3_METHODS_SHOW_POSSIBLE_ISSUES_` = "TRUE"), system2(file.path(R.home("bin"),
    "Rscript"), c("--vanilla", "-e", shQuote(code)), stdout = TRUE, stderr = FALSE))
  known <- if (getRversion() < "4.5.0") {
    c("Found the following apparent S3 methods exported but not registered:", "  max.col")
  }
  out <- out[nzchar(out)]
  # R 4.6 takes base R's qr.qy() and its like, where a package exports functions of these names, for methods of qr()
  if (getRversion() >= "4.6.0" && length(out)) {
    expect_match(out[1L], "Mismatches for apparent methods not registered")
    named <- sub(":$", "", grep("^[^ ].*:$", out[-1L], value = TRUE))
    expect_true(all(vapply(named, exists, NA, envir = baseenv(), inherits = FALSE)))
    out <- NULL
  }
  expect_identical(as.character(out), as.character(known))
})

test_that("no name of the namespace is defined twice", {
  skip_if(!dir.exists(file.path(root, "R")), "not in a checkout")
  defined <- function(file) unlist(lapply(parse(file, keep.source = FALSE), function(code)
    if (is.call(code) && identical(code[[1L]], as.name("<-")) && !is.call(code[[2L]])) as.character(code[[2L]])))
  files <- list.files(file.path(root, "R"), "[.]R$", full.names = TRUE)
  skip_if(length(files) < 2L, "installed") # its R/ holds a database
  names <- unlist(lapply(files, defined))
  expect_gt(length(names), 500L)
  expect_identical(names[duplicated(names)], character())
})

# ---- documents of the checkout -----------------------------------------------------------------------

in_checkout <- function() skip_if(!file.exists(file.path(root, "ARCHITECTURE.md")), "not in a checkout")
# All of them are shown, since one renaming of a file or function may concern many.
expect_none <- function(found, what) {
  expect(!length(found), paste(c(paste0(what, ":"), unique(found)), collapse = "\n  "))
}
text_of <- function(path) paste(readLines(file.path(root, path), encoding = "UTF-8"), collapse = "\n")
section <- function(path, title) {
  parts <- strsplit(text_of(path), "\n## ", fixed = TRUE)[[1L]]
  part <- parts[startsWith(parts, paste0(title, "\n"))]
  expect_length(part, 1L)
  part
}
found <- function(pattern, text) unlist(regmatches(text, gregexpr(pattern, text, perl = TRUE)))
without_code <- function(text) gsub("(?s)\n *```.*?\n *```", "", text, perl = TRUE)
spans <- function(text) gsub("`", "", gsub("\\s+", " ", found("`[^`]+`", without_code(text))), fixed = TRUE)
documents <- function() {
  pages <- list.files(file.path(root, "docs"), "[.]md$", recursive = TRUE)
  c("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", file.path("docs", pages))
}

# The files and folders of the sources; what is built beside them is left out.
sources <- function() {
  below <- function(folder, recursive = TRUE) {
    at <- file.path(root, folder)
    inside <- list.files(at, all.files = TRUE, recursive = recursive, include.dirs = TRUE, no.. = TRUE)
    c(folder, file.path(folder, inside))
  }
  folders <- c(
    "R", "bench", "docs", "examples", "inst", "src/rust/crates", "src/rust/src", "tests", "tools", "vignettes", ".ci"
  )
  c(list.files(root), below("src", FALSE), unlist(lapply(folders, below)))
}
# A path may leave out the folders at its beginning; `*` stands for any name.
is_there <- function(path, all) {
  pattern <- gsub("*", "[^/]*", gsub(".", "[.]", sub("/$", "", path), fixed = TRUE), fixed = TRUE)
  any(grepl(paste0("(^|/)", pattern, "$"), all))
}
is_path <- function(span) {
  endings <- "[A-Za-z0-9_*-][.](R|Rmd|c|cpp|cu|cuh|csv|h|md|ptx|py|rs|sh|svg)$"
  grepl("^[A-Za-z0-9_.*/-]+$", span) & grepl(endings, span)
}

# Whether a file defines a function, type or constant: `name()`, `Type`, `Type::name()`, `Type::Variant`.
defines <- function(name, file) {
  code <- text_of(file)
  parts <- strsplit(sub("()", "", name, fixed = TRUE), "::", fixed = TRUE)[[1L]]
  last <- parts[length(parts)]
  forms <- if (grepl("[.]R$", file)) {
    "(?m)^\\s*%s <- "
  } else if (endsWith(name, "()")) {
    c("\\bfn %s\\b", "(?m)^\\w[^\n;={]*\\b%s\\([^;{]*\\) \\{")
  } else {
    c("\\b(struct|enum|trait|type|const|static) %s\\b", if (length(parts) > 1L) "(?m)^ +%s( \\{|\\(|,)")
  }
  here <- any(vapply(sprintf(forms, last), grepl, NA, code, perl = TRUE))
  owner <- sprintf("\\b(struct|enum|trait|impl|for)(<[^>]*>)? %s\\b", parts[1L])
  here && (length(parts) == 1L || grepl(owner, code, perl = TRUE))
}

# The names in each item of a section that no file named in the item defines.
undefined <- function(text, names) {
  items <- strsplit(without_code(text), "\n(?=\\s*([0-9]+[.]|-) )", perl = TRUE)[[1L]]
  missing <- lapply(items, function(item) {
    spans <- spans(item)
    files <- Filter(function(file) file.exists(file.path(root, file)), spans[is_path(spans)])
    wanted <- unique(grep(names, spans, value = TRUE))
    Filter(function(name) !any(vapply(files, function(file) defines(name, file), NA)), wanted)
  })
  list(checked = sum(grepl(names, spans(text))), missing = as.character(unlist(missing)))
}

test_that("files, functions and types that ARCHITECTURE.md names exist, in the files that it names", {
  in_checkout()
  names <- "^[A-Za-z_]\\w*(::\\w+)*\\(\\)$|^[A-Z]\\w*(::\\w+)*$"
  walk <- undefined(section("ARCHITECTURE.md", "A walk of three values"), names)
  expect_gt(walk$checked, 60L)
  expect_none(walk$missing, "not defined in the files that the step names")
  invariants <- undefined(section("ARCHITECTURE.md", "Invariants"), "\\(\\)$")
  expect_gt(invariants$checked, 2L)
  expect_none(invariants$missing, "not defined in the files that the invariant names")
})

test_that("the check of names finds what is not there", {
  in_checkout()
  node <- "`src/rust/crates/engine/src/graph/node.rs`"
  text <- paste0("1. `C_binary()` in `src/operators.c`\n2. `Node::lazy()`, `Node::busy()` and `Edge` in ", node)
  expect_identical(undefined(text, "\\(\\)$|^[A-Z]\\w+$")$missing, c("Node::busy()", "Edge"))
  expect_false(defines("takes()", "src/masks.c"))
  expect_true(defines("takes()", "src/operators.c"))
  expect_false(is_there("R/no-such-file.R", sources()))
})

test_that("paths and links in the documents lead somewhere", {
  in_checkout()
  all <- sources()
  for (document in documents()) {
    text <- text_of(document)
    paths <- Filter(is_path, spans(text))
    expect_none(Filter(function(path) !is_there(path, all), paths), paste("paths in", document, "that lead nowhere"))
    links <- sub("#.*", "", sub("^\\]\\((.*)\\)$", "\\1", found("\\]\\([^)\n]+\\)", text)))
    links <- grep("^https?:", links, invert = TRUE, value = TRUE)
    there <- file.exists(file.path(root, dirname(document), links))
    expect_none(links[!there], paste("links in", document, "that lead nowhere"))
  }
  decisions <- list.files(file.path(root, "docs", "decisions"), "^[0-9]{3}-")
  expect_gt(length(decisions), 10L)
  index <- text_of("docs/decisions/README.md")
  expect_none(Filter(function(page) !grepl(page, index, fixed = TRUE), decisions), "pages that are not in the index")
})

test_that("the documents are as short as they should be", {
  in_checkout()
  most <- c(README.md = 9216, ARCHITECTURE.md = 16384, CONTRIBUTING.md = 6144)
  sizes <- file.size(file.path(root, names(most)))
  expect_none(names(most)[sizes > most], "too long")
  wide <- unlist(lapply(documents(), function(document) {
    lines <- readLines(file.path(root, document), encoding = "UTF-8")
    sprintf("%s:%d", document, which(nchar(lines) > 120L))
  }))
  expect_none(wide, "lines of more than 120 columns")
})

test_that("docs/base-functions.md lists every function that stands before base R's, and every S4 generic", {
  in_checkout()
  listed <- unlist(strsplit(spans(text_of("docs/base-functions.md")), " ", fixed = TRUE))
  ours <- asNamespace("verdigris")
  interposed <- Filter(function(name) verdigris:::is_interposed(get(name, ours)), exports)
  generics <- Filter(function(name) methods::isGeneric(name, ours), getNamespaceExports("verdigris"))
  expect_gt(length(interposed), 40L)
  expect_identical(setdiff(c(interposed, generics), listed), character())
  # roxygen takes a function with a dot in its name for an S3 method
  made <- Filter(function(name) verdigris:::is_interposed(get(name, ours)), ls(ours))
  expect_identical(setdiff(made, exports), character())
})
