#!/usr/bin/env bash
# Runs the package's tests under R 4.5 (trixie) and R 4.6 (sid), each in a copy of the checkout with a
# target folder of its own, and adds a line a version to build/counts.
#
# usage: tools/test-r-versions.sh [trixie] [sid]       as root
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- trixie sid
mkdir -p build; touch build/counts
status=0
for suite in "$@"; do
  home=build/$suite
  tools/copy-source.sh "$home/verdigris"
  mkdir -p "$home/target" "$home/library"
  ln -s ../../../target "$home/verdigris/src/rust/target"
  # shellcheck disable=SC2016
  tools/r-versions.sh "$suite" sh -c '
    cd "$1/verdigris" && export R_LIBS="$PWD/../library"
    R CMD INSTALL --no-multiarch --no-docs --library="$R_LIBS" . >../install.log 2>&1 || { tail -40 ../install.log; exit 1; }
    Rscript --vanilla tools/test.R "R-$(Rscript --vanilla -e "cat(as.character(getRversion()))")"' sh "$home" || {
      [ $? != 77 ] || { [ $status != 0 ] || status=77; continue; } # it could not be tried
      status=1
    }
  if [ -s "$home/verdigris/build/counts" ]; then cat "$home/verdigris/build/counts"; else echo "$suite 0 1 0"; fi >>build/counts
done
exit $status
