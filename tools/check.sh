#!/usr/bin/env bash
# R CMD check --as-cran of the release tarball; an error or a warning fails, notes are shown.
#
# usage: tools/check.sh [TARBALL]      default build/verdigris_*.tar.gz
set -euo pipefail
cd "$(dirname "$0")/.."
tarball=$(realpath "${1:-$(echo build/verdigris_*.tar.gz)}")
# What asks CRAN's servers is off; suggested packages that Debian lacks (torch) may be missing.
export _R_CHECK_CRAN_INCOMING_=false _R_CHECK_CRAN_INCOMING_REMOTE_=false _R_CHECK_FORCE_SUGGESTS_=false \
  _R_CHECK_URLS_SHOW_301_STATUS_=false _R_CHECK_XREFS_REPOSITORIES_="" _R_CHECK_XREFS_USE_ALIASES_FROM_CRAN_=false
export PATH="$PATH:$HOME/.cargo/bin"
rm -rf build/check; mkdir -p build/check
R CMD check --as-cran --no-manual --output=build/check "$tarball" || true
log=build/check/verdigris.Rcheck/00check.log
tail -1 "$log" | grep -qE '^Status: (OK|[0-9]+ NOTEs?)$' || { echo "check.sh: see $log" >&2; exit 1; }
