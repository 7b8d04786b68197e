#!/usr/bin/env bash
# Proves that the release tarball installs with no network: in a network namespace of its own, with an
# empty home, no cargo registry, and no variables of this shell.
#
# usage: tools/build/check-offline.sh [TARBALL]      default build/verdigris_*.tar.gz
set -euo pipefail
cd "$(dirname "$0")/../.."
tarball=$(realpath "${1:-$(echo build/verdigris_*.tar.gz)}")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
mkdir "$work/home" "$work/library"
# rustup's cargo looks into the home folder for its toolchain; the toolchain itself does not
toolchain=$(PATH="$HOME/.cargo/bin:$PATH" rustc --print sysroot)/bin

offline() { unshare -rn env -i HOME="$work/home" PATH="$toolchain:/usr/local/bin:/usr/bin:/bin" LC_ALL=C.UTF-8 R_LIBS="$work/library" "$@"; }

[ "$(offline grep -c : /proc/net/dev)" = 1 ] || { echo "check-offline.sh: there is no network namespace to be had, or the network is still there." >&2; exit 1; }
offline R CMD INSTALL --library="$work/library" "$tarball" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
grep -E '^using ' "$work/log"
offline Rscript --vanilla -e 'library(verdigris); cat("installed and loaded offline:", format(packageVersion("verdigris")), "\n")'
left=$(find "$work/home" -mindepth 1)
[ -z "$left" ] || { echo "check-offline.sh: the build wrote into the home folder: $left" >&2; exit 1; }
