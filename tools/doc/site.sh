#!/usr/bin/env bash
# Builds the site into build/site, by pkgdown (Debian: r-cran-pkgdown), without a network. The package must be in
# build/library. pkgdown asks CRAN for the addresses of packages; an empty CRAN answers.
set -euo pipefail
cd "$(dirname "$0")/../.."
export R_LIBS="$PWD/build/library${R_LIBS:+:$R_LIBS}" R_CRAN_WEB="file://$PWD/build/empty-cran"
mkdir -p build/empty-cran/web/packages
Rscript --vanilla -e 'saveRDS(matrix(character(), 0, 4, dimnames = list(NULL, c("Package", "Maintainer", "URL", "BugReports"))), "build/empty-cran/web/packages/packages.rds")'
Rscript --vanilla -e 'options(pkgdown.internet = FALSE); pkgdown::build_site(install = FALSE, new_process = FALSE, devel = FALSE, preview = FALSE)'
