# The documentation is whole: every export has a help page with a value and examples, and stands in the reference index.

# The checkout's or, where there is none (R CMD check), the installed package's help pages.
root <- test_path("..", "..")
pages <- if (dir.exists(file.path(root, "man"))) tools::Rd_db(dir = root) else tools::Rd_db("verdigris")

tags <- function(page) vapply(page, function(part) attr(part, "Rd_tag"), "")
texts <- function(page, tag) vapply(page[tags(page) == tag], function(part) trimws(paste(unlist(part), collapse = "")), "")
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
  own <- exports[!vapply(exports, exists, NA, envir = baseenv()) & !vapply(exports, exists, NA, envir = asNamespace("stats"), inherits = FALSE)]
  expect_identical(setdiff(own, entries), character())
})

test_that("ARCHITECTURE.md lists every function that stands before base R's, and every S4 generic", {
  file <- file.path(root, "ARCHITECTURE.md")
  skip_if(!file.exists(file), "not in a checkout")
  section <- sub("\n## .*", "", sub(".*\n## How base R's functions find arrays\n", "", paste(readLines(file), collapse = "\n")))
  listed <- unlist(strsplit(unlist(regmatches(section, gregexpr("`[^`]+`", section))), "[` \n]+"))
  ours <- asNamespace("verdigris")
  interposed <- Filter(function(name) verdigris:::is_interposed(get(name, ours)), exports)
  generics <- Filter(function(name) methods::isGeneric(name, ours), getNamespaceExports("verdigris"))
  expect_gt(length(interposed), 40L)
  expect_identical(setdiff(c(interposed, generics), listed), character())
})
