#!/usr/bin/env bash
# Builds the site into build/site, by pkgdown (Debian: r-cran-pkgdown), without a network. The package must be in
# build/library. Then tools/doc/check-site.py looks at it.
set -euo pipefail
cd "$(dirname "$0")/../.."
export R_LIBS="$PWD/build/library${R_LIBS:+:$R_LIBS}"
# downlit asks CRAN where packages that are attached in an article, and not installed, have their pages
Rscript --vanilla - <<'R'
options(pkgdown.internet = FALSE)
none <- data.frame(Package = character(), URL = character())
utils::assignInNamespace("CRAN_urls", function() none, "downlit")
pkgdown::build_site(install = FALSE, new_process = FALSE, devel = FALSE, preview = FALSE)

# README and its like link to files of the repository that the site does not have. Pictures are copied; a link to
# another file goes to the repository, if DESCRIPTION names one on GitHub, and is left out otherwise.
description <- read.dcf("DESCRIPTION")
urls <- if ("URL" %in% colnames(description)) strsplit(description[, "URL"], "[, \n]+")[[1L]]
repository <- grep("^https://github[.]com/", urls, value = TRUE)[1L]
for (page in list.files("build/site", "[.]html$", full.names = TRUE)) {
  html <- paste(readLines(page, encoding = "UTF-8"), collapse = "\n")
  links <- regmatches(html, gregexpr('<a href="[^"#:]+(#[^"]*)?"[^>]*>(.*?)</a>', html, perl = TRUE))[[1L]]
  for (link in unique(links)) {
    path <- sub('^<a href="([^"#]+).*', "\\1", link)
    if (file.exists(file.path("build/site", path))) next
    source <- Filter(file.exists, unique(c(path, sub("[.]html$", ".md", path))))
    if (!length(source)) next # tools/doc/check-site.py tells of it
    if (grepl("[.](png|svg)$", path)) {
      dir.create(file.path("build/site", dirname(path)), recursive = TRUE, showWarnings = FALSE)
      file.copy(path, file.path("build/site", path))
    } else {
      inside <- sub("</a>$", "", sub("^<a [^>]*>", "", link))
      to <- if (!is.na(repository)) sprintf('<a href="%s/blob/HEAD/%s">%s</a>', repository, source[1L], inside)
      html <- gsub(link, if (is.null(to)) inside else to, html, fixed = TRUE)
    }
  }
  writeLines(html, page, useBytes = TRUE)
}
R
tools/doc/check-site.py
