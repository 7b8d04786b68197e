#!/usr/bin/env bash
# Builds the release tarball, crates included: build/verdigris_VERSION.tar.gz, under 5 MB.
set -euo pipefail
cd "$(dirname "$0")/../.."
stage=build/dist/verdigris

tools/build/copy-source.sh $stage
# what only tests and tools compile
tools/build/without-tests.py $stage/src/rust
rm -r $stage/src/rust/crates/engine/examples
sed -i '/^\[\[example\]\]/,/^$/d' $stage/src/rust/crates/engine/Cargo.toml
tools/build/vendor.py $stage/src/rust $stage/src/rust/vendor.tar.xz
# the packs of prebuilt kernels, for tools/config.R: text and machine code, each in one archive, which is a fifth smaller
# than all of them
packs=$stage/src/rust/crates/engine/ptx
zstd -dq --rm "$packs"/*.zst
archive() { # NAME XZ'S-OPTIONS PACK ...
  (cd "$packs" && tar --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u+rw,go=r -c "${@:3}" |
    xz --lzma2=preset=9e,"$2" -T1 >"$1.tar.xz" && rm "${@:3}")
}
mapfile -t code < <(cd "$packs" && ls -d sm_*)
archive code lc=0,lp=4,pb=4 "${code[@]}"
mapfile -t text < <(cd "$packs" && ls | grep -v '[.]')
archive text lc=4,lp=0,pb=0 "${text[@]}"
rm -f build/verdigris_*.tar.gz
(cd build && R CMD build dist/verdigris)
rm -rf build/dist

tarball=$(echo build/verdigris_*.tar.gz)
# Zopfli's gzip, which any gunzip reads, is 2% smaller
tools/build/fewer-colours.py "$tarball" | pigz -11 -n -c >"$tarball.smaller"
mv "$tarball.smaller" "$tarball"
bytes=$(stat -c %s "$tarball")
printf '%s: %d.%02d MB\n' "$tarball" $((bytes / 1000000)) $((bytes % 1000000 / 10000))
[ "$bytes" -lt 5000000 ] || { echo "dist.sh: R CMD check notes more than 5 MB; see what tools/build/vendor.py can leave out." >&2; exit 1; }
