#!/usr/bin/env bash
# Builds the release tarball, crates included: build/verdigris_VERSION.tar.gz, under 5 MB as CRAN asks.
set -euo pipefail
cd "$(dirname "$0")/../.."
stage=build/dist/verdigris

tools/build/copy-source.sh $stage
tools/build/vendor.py $stage/src/rust $stage/src/rust/vendor.tar.xz
rm -f build/verdigris_*.tar.gz
(cd build && R CMD build dist/verdigris)
rm -rf build/dist

tarball=$(echo build/verdigris_*.tar.gz)
bytes=$(stat -c %s "$tarball")
printf '%s: %d.%02d MB\n' "$tarball" $((bytes / 1000000)) $((bytes % 1000000 / 10000))
[ "$bytes" -lt 5000000 ] || { echo "dist.sh: CRAN takes at most 5 MB; see what tools/build/vendor.py can leave out." >&2; exit 1; }
