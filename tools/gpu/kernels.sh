#!/usr/bin/env bash
# Compiles CUDA kernels with NVRTC, which needs no GPU: those of the operation table, those that the differential tests
# ask for, as tools/test/test.sh left them in build/kernels (5,000 at most; in CI a sixteenth, in turn, and of the older
# architectures a share), and those that gather and sort. The table's are compiled to machine code for sm_90, and to PTX
# for sm_75, sm_80 and the newest architecture that NVRTC knows; the tests' for sm_90 (every fifth to machine code, the
# others to PTX) and for one of the other three in turn (VERDIGRIS_TRACED_ALL=1: for each). The table's machine code is
# compiled as for a device (in CI an eighth, in turn, and three eighths quickly); the rest with little optimisation,
# which is where the time goes.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH="$HOME/.cargo/bin:$PATH"

library=$(find "$PWD/build/venv" -name 'libnvrtc.so.*' | head -1)
[ -n "$library" ] || { echo "kernels.sh: build/venv has no NVRTC; run make kernels, which installs it." >&2; exit 1; }
if [ -z "$(find build/kernels -name '*.cu' -print -quit 2>/dev/null)" ]; then
  echo "kernels.sh: no trace of the tests in build/kernels; running the differential tests"
  rm -rf build/kernels; mkdir -p build/kernels build/library
  export R_LIBS="$PWD/build/library${R_LIBS:+:$R_LIBS}"
  R CMD INSTALL --no-multiarch --library=build/library . >build/install.log 2>&1 || { tail -40 build/install.log >&2; exit 1; }
  VERDIGRIS_KERNEL_TRACE="$PWD/build/kernels" Rscript --vanilla tools/test/test.R grid '^diff-grid'
fi

export VERDIGRIS_NVRTC="$library" VERDIGRIS_TRACED="$PWD/build/kernels" VERDIGRIS_NVRTC_ARCHS=sm_90,compute_75,compute_80,compute_newest
# one test after the other: each uses all cores
test() { R CMD cargo test --release --manifest-path src/rust/Cargo.toml -p verdigris-engine "$@" </dev/null; }
test --test cuda_compile -- --ignored --nocapture --test-threads=1
test --test routines sources_compile -- --ignored
test --lib every_kernel_compiles_for_every_generation -- --ignored
test --lib kernels_of_segments_compile -- --ignored
