#!/usr/bin/env bash
# Builds the site into build/site, by pkgdown (Debian: r-cran-pkgdown), without a network. The package must be in
# build/library.
set -euo pipefail
cd "$(dirname "$0")/../.."
export R_LIBS="$PWD/build/library${R_LIBS:+:$R_LIBS}"
# downlit asks CRAN where packages that are attached in an article, and not installed, have their pages
Rscript --vanilla - <<'R'
options(pkgdown.internet = FALSE)
none <- data.frame(Package = character(), URL = character())
utils::assignInNamespace("CRAN_urls", function() none, "downlit")
pkgdown::build_site(install = FALSE, new_process = FALSE, devel = FALSE, preview = FALSE)
R
