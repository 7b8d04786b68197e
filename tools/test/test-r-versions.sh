#!/usr/bin/env bash
# Runs the package's tests under R 4.5 (trixie) and R 4.6 (sid), each in a copy of the checkout, and adds a line a
# version to build/counts. In CI (VERDIGRIS_TURN) it is a sixth of the files, of those that tools/test/test.sh leaves
# out, and always those about R itself. The engine does not depend on R, so its build is reused; the bridge is built
# anew.
# (tools/build/check.sh builds all of it with that Debian's compilers.)
#
# usage: tools/test/test-r-versions.sh [trixie] [sid]       as root
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- trixie sid
mkdir -p build; touch build/counts

# Libraries, what build scripts made, and what cargo knows of them. What links R is left out: cargo looks at the path of
# R's headers, which is the same for every version, and would take the other version's for built.
engine_for() { # FOLDER
  local built=src/rust/target/release
  rm -rf "$1"; mkdir -p "$1/release/deps"
  [ -d $built/.fingerprint ] || return 0
  cp -a $built/.fingerprint $built/build "$1/release/"
  find $built/deps -maxdepth 1 \( -name 'lib*' -o -name '*.d' \) -exec cp -a -t "$1/release/deps" {} +
  rm -rf "$1"/release/.fingerprint/{extendr-ffi,verdigris}-???????????????? "$1"/release/build/extendr-ffi-*
}

status=0
for suite in "$@"; do
  home=build/$suite
  # Debian 12 has no SparseArray, and unstable not always one that can be installed
  [ "$suite" != trixie ] || export R_VERSIONS_PACKAGES="r-bioc-sparsearray r-bioc-delayedarray"
  tools/build/copy-source.sh "$home/verdigris"
  mkdir -p "$home/library"
  engine_for "$home/target"
  ln -s ../../../target "$home/verdigris/src/rust/target"
  # shellcheck disable=SC2016
  tools/test/r-versions.sh "$suite" sh -c '
    cd "$1/verdigris" && export R_LIBS="$PWD/../library"
    R CMD INSTALL --no-multiarch --library="$R_LIBS" . >../install.log 2>&1 || { tail -40 ../install.log; exit 1; }
    [ -z "${VERDIGRIS_TURN:-}" ] || VERDIGRIS_TURN=$((VERDIGRIS_TURN + 1))
    export VERDIGRIS_SHARES=6 VERDIGRIS_ALWAYS="^(array-|base-(host|coverage)|ops-matching|prop-(int64|rules|strings)|utils-|fuzz-odd)"
    Rscript --vanilla tools/test/test.R "R-$(Rscript --vanilla -e "cat(as.character(getRversion()))")"' sh "$home" || {
      [ $? != 77 ] || { [ $status != 0 ] || status=77; continue; } # it could not be tried
      status=1
    }
  if [ -s "$home/verdigris/build/counts" ]; then cat "$home/verdigris/build/counts"; else echo "$suite 0 1 0"; fi >>build/counts
  cat "$home/verdigris/build/failures" 2>/dev/null >>build/failures || true
done
exit $status
