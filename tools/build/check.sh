#!/usr/bin/env bash
# R CMD check --as-cran of the release tarball; an error or a warning fails, notes are shown.
#
# usage: tools/build/check.sh [--no-tests] [TARBALL]      default build/verdigris_*.tar.gz
set -euo pipefail
cd "$(dirname "$0")/../.."
tests=(); [ "${1:-}" != --no-tests ] || { tests=(--no-tests); shift; }
tarball=$(realpath "${1:-$(echo build/verdigris_*.tar.gz)}")
export PATH="$HOME/.cargo/bin:$PATH"
out=$PWD/build/check-$(Rscript --vanilla -e 'cat(as.character(getRversion()))')
rm -rf "$out"; mkdir -p "$out"

# What compares with the packages now on CRAN is off, and suggested packages that Debian lacks (torch) may be missing.
export _R_CHECK_CRAN_INCOMING_=false _R_CHECK_CRAN_INCOMING_REMOTE_=false _R_CHECK_FORCE_SUGGESTS_=false _R_CHECK_SYSTEM_CLOCK_=false
# One check (for orphaned packages) asks CRAN all the same, and R CMD check stops where it cannot: an empty CRAN serves
# it.
Rscript --vanilla - "$out/cran" <<'RS'
mirror <- commandArgs(TRUE)
dir.create(file.path(mirror, "web/packages"), recursive = TRUE)
dir.create(file.path(mirror, "src/contrib"), recursive = TRUE)
saveRDS(matrix(character(), 0, 2, dimnames = list(NULL, c("Package", "Maintainer"))), file.path(mirror, "web/packages/packages.rds"))
invisible(file.create(file.path(mirror, "src/contrib/PACKAGES")))
RS
export R_CRAN_WEB="file://$out/cran" R_CRAN_SRC="file://$out/cran"

R CMD check --as-cran --no-manual "${tests[@]}" --output="$out" "$tarball" || true
log=$out/verdigris.Rcheck/00check.log
tail -1 "$log" | grep -qE '^Status: (OK|[0-9]+ NOTEs?)$' || { echo "check.sh: see $log" >&2; exit 1; }
