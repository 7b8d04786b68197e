#!/usr/bin/env bash
# Runs the tests of the Rust crates, installs the package into build/library and runs its tests there. One that
# fails does not keep the next from running. build/counts gets a line "NAME passed failed skipped" each. In CI
# (VERDIGRIS_TURN) it is a third of the package's test files, in turn, and always those of everyday use and of the project.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH="$HOME/.cargo/bin:$PATH" R_LIBS="$PWD/build/library${R_LIBS:+:$R_LIBS}"
[ ! -x build/venv/bin/python ] || export VERDIGRIS_PYTHON="$PWD/build/venv/bin/python" RETICULATE_PYTHON="$PWD/build/venv/bin/python"
mkdir -p build/library
rm -f build/counts build/failures
status=0

# `R CMD` gives cargo R's environment: with another one the build scripts would run anew each time.
# The profile is the package's, so what the tests build the installation need not build again.
R CMD cargo test --release --manifest-path src/rust/Cargo.toml -p verdigris-ops -p verdigris-compile -p verdigris-engine --no-fail-fast 2>&1 | tee build/test-engine.log || status=1
tools/test/count-engine.sh engine build/test-engine.log
if [ "${VERDIGRIS_TEST_DEVICE:-}" = cuda ]; then
  # the tests that need a device; those that need NVRTC are run by tools/gpu/kernels.sh
  R CMD cargo test --release --manifest-path src/rust/Cargo.toml -p verdigris-engine --lib --tests --no-fail-fast -- --ignored --test-threads=1 \
    --skip sources_compile --skip kernels_compile --skip every_kernel_compiles 2>&1 | tee build/test-engine-device.log || status=1
  tools/test/count-engine.sh engine-device build/test-engine-device.log
fi

if R CMD INSTALL --no-multiarch --library=build/library . 2>&1 | tee build/install.log; then
  rm -rf build/kernels; mkdir build/kernels # for tools/gpu/kernels.sh
  export VERDIGRIS_SHARES=3 VERDIGRIS_ALWAYS='^(array-|diff-(grid|programs)|prop-(docs|rules)|utils-)'
  VERDIGRIS_KERNEL_TRACE="$PWD/build/kernels" Rscript --vanilla tools/test/test.R "R-$(Rscript --vanilla -e 'cat(as.character(getRversion()))')" || status=1
  grep -q '^R-' build/counts || { echo "R 0 1 0" >>build/counts; status=1; } # R itself ended
else
  echo "installation 0 1 0" >>build/counts; status=1
fi
awk '{ printf "%-12s %5d passed, %d failed, %d skipped\n", $1 ":", $2, $3, $4 }' build/counts
exit $status
