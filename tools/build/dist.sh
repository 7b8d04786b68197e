#!/usr/bin/env bash
# Builds the release tarball, crates included: build/verdigris_VERSION.tar.gz, under 5 MB as CRAN asks.
set -euo pipefail
cd "$(dirname "$0")/../.."
stage=build/dist/verdigris

tools/build/copy-source.sh $stage
# what only tests and tools compile
find $stage/src/rust/crates \( -name tests.rs -o -name 'differential*.rs' -o -name bits.rs \) -delete
rm -r $stage/src/rust/crates/engine/examples
sed -i '/^\[\[example\]\]/,/^$/d' $stage/src/rust/crates/engine/Cargo.toml
tools/build/vendor.py $stage/src/rust $stage/src/rust/vendor.tar.xz
# the packs of prebuilt kernels, for tools/config.R: one archive is a fifth smaller than all of them
packs=$stage/src/rust/crates/engine/ptx
zstd -dq --rm "$packs"/*.zst
names=$(cd "$packs" && ls | grep -v '[.]txt$')
# shellcheck disable=SC2086
(cd "$packs" && tar --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u+rw,go=r -c $names | xz --lzma2=preset=9e,lc=2,lp=2,pb=3 -T1 >packs.tar.xz && rm $names)
rm -f build/verdigris_*.tar.gz
(cd build && R CMD build dist/verdigris)
rm -rf build/dist

tarball=$(echo build/verdigris_*.tar.gz)
# Zopfli's gzip, which any gunzip reads, is 2% smaller
gzip -dc "$tarball" | pigz -11 -n -c >"$tarball.smaller"
mv "$tarball.smaller" "$tarball"
bytes=$(stat -c %s "$tarball")
printf '%s: %d.%02d MB\n' "$tarball" $((bytes / 1000000)) $((bytes % 1000000 / 10000))
[ "$bytes" -lt 5000000 ] || { echo "dist.sh: CRAN takes at most 5 MB; see what tools/build/vendor.py can leave out." >&2; exit 1; }
