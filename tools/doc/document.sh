#!/usr/bin/env bash
# Writes man/ and NAMESPACE from the comments in R/, by roxygen2 on the installed package, and inst/coverage.csv for
# ?verdigris-coverage. Install the package anew when a function was exported, and call this again: coverage is that of
# the installed package.
#
# usage: tools/doc/document.sh [--check]     --check: change nothing, and fail when something would change
set -euo pipefail
cd "$(dirname "$0")/../.."
export R_LIBS="$PWD/build/library${R_LIBS:+:$R_LIBS}"
at=.
if [ "${1:-}" = --check ]; then at=build/document; tools/build/copy-source.sh $at; fi
[ $at != . ] || Rscript --vanilla tools/test/coverage.R
(cd $at && Rscript --vanilla -e 'roxygen2::roxygenise(load_code = roxygen2::load_installed)')
if [ $at != . ]; then
  diff -ru man $at/man && diff -u NAMESPACE $at/NAMESPACE && diff -u DESCRIPTION $at/DESCRIPTION ||
    { echo "document.sh: man/ or NAMESPACE is out of date; run make document and commit." >&2; exit 1; }
  # R CMD check notes lines of usage and examples that the PDF manual would cut off
  Rscript --vanilla -e 'wide <- tools:::.check_Rd_line_widths("."); print(wide); quit(status = length(wide) > 0)'
fi
