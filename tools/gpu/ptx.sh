#!/usr/bin/env bash
# Writes src/rust/crates/engine/ptx: the prebuilt kernels, which the driver compiles where there is no NVRTC and where a
# result should not wait for it. Run it after a change of kernels/, of the operation table or of the code that writes
# reductions, gathers or sorts; the engine's test `prebuilt_kernels_are_up_to_date` tells when.
#
# NVRTC 12.0 writes PTX 8.0, which every driver of CUDA 12.0 and later takes (525.60 and later). Machine code is 12.9's,
# the last version before CUDA's functions changed; all drivers of CUDA 12 and later take it. `prebuilt.rs` depends on
# both versions, since values do.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH="$HOME/.cargo/bin:$PATH"

nvrtc() { # VERSION: its folder, with pip's help
  local folder=$PWD/build/nvrtc-$1
  if [ ! -e "$folder/nvidia/cuda_nvrtc/lib/libnvrtc.so.12" ]; then
    python3 -m pip install --quiet --no-deps --target "$folder" "nvidia-cuda-nvrtc-cu12==$1" >&2 ||
      { echo "ptx.sh: pip could not install nvidia-cuda-nvrtc-cu12 $1 into $folder; see its message above." >&2; exit 1; }
  fi
  echo "$folder/nvidia/cuda_nvrtc/lib"
}
make_packs() { # VERSION ptx|ARCHITECTURE ...
  local path; path=$(nvrtc "$1"); shift
  VERDIGRIS_CUDA_PATH=$path R CMD cargo run --release --manifest-path src/rust/Cargo.toml -p verdigris-engine --example ptx -- "$PWD/$made" "$@"
}
command -v zstd >/dev/null || { echo "ptx.sh: zstd is missing: apt-get install zstd" >&2; exit 1; }

out=src/rust/crates/engine/ptx
made=build/ptx
rm -rf $made; mkdir -p $made
make_packs 12.0.140 ptx
make_packs 12.9.86 75 80 90 120
for pack in $made/*; do
  case $pack in
    *.txt) cp "$pack" $out/ ;;
    *) zstd -q -f --ultra -22 --long=24 "$pack" -o "$out/$(basename "$pack").zst" ;;
  esac
done
du -cb $out/* | tail -1
