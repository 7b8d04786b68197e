#!/usr/bin/env bash
# Builds the emulated GPU (tests/emulator/README.md) into build/emulator where its sources are newer, and runs a command
# with it in place of a GPU.
#
# usage: tools/test/emulator.sh [COMMAND ...]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
sources=$root/tests/emulator out=$root/build/emulator
cxx=${CXX:-g++}
mkdir -p "$out"
exec 9>"$out/lock"; flock 9 # one builds, others wait
# kernels that an earlier emulator has compiled are not this one's
stamp=$(cat "$sources"/*.cpp "$sources"/*.h "$0" | sha256sum | cut -c1-16)
if [ "$(cat "$out/stamp" 2>/dev/null)" != "$stamp" ]; then
  # longjmp out of a fiber is what the hardened library functions take for an attack
  flags="-std=c++17 -O2 -g -Wall -Wextra -Wno-clobbered -fPIC -fvisibility=hidden -U_FORTIFY_SOURCE"
  objects=()
  for unit in grid memory device driver modules nvrtc cublas cusolver cufft; do
    $cxx $flags -c "$sources/$unit.cpp" -o "$out/$unit.o"
  done
  for unit in grid memory device driver modules; do objects+=("$out/$unit.o"); done
  $cxx -shared -Wl,-soname,libcuda.so.1 -o "$out/libcuda.so.1" "${objects[@]}" -lpthread -ldl
  $cxx -shared -Wl,-soname,libnvrtc.so.12 -o "$out/libnvrtc.so.12" "$out/nvrtc.o" -ldl
  $cxx -shared -Wl,-soname,libcublas.so.12 -Wl,-rpath,"$out" -o "$out/libcublas.so.12" "$out/cublas.o" "$out/libcuda.so.1"
  # R needs LAPACK too, so it is there
  $cxx -shared -Wl,-soname,libcusolver.so.11 -Wl,-rpath,"$out" -o "$out/libcusolver.so.11" "$out/cusolver.o" "$out/libcuda.so.1" -llapack -lblas
  $cxx -shared -Wl,-soname,libcufft.so.11 -Wl,-rpath,"$out" -o "$out/libcufft.so.11" "$out/cufft.o" "$out/libcuda.so.1"
  $cxx -std=c++17 -O1 -Wall -Wextra -o "$out/test" "$sources/test.cpp" "$out/libcuda.so.1" "$out/libnvrtc.so.12" -Wl,-rpath,"$out"
  cp "$sources"/*.h "$out/"
  rm -rf "$out"/*.o "$out/cache" "$out/objects" "$out/headers" || true # an earlier one's tests may still be at work
  echo "$stamp" >"$out/stamp"
fi
exec 9>&-
[ $# -gt 0 ] || exit 0
export LD_LIBRARY_PATH=$out${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# tests of what takes a GPU's size or speed look at VERDIGRIS_EMULATOR
export VERDIGRIS_EMULATOR=1
export VERDIGRIS_CUDA_PATH=$out VERDIGRIS_TEST_DEVICE=cuda R_USER_CACHE_DIR=$out/cache/${VERDIGRIS_EMULATOR_CHECK:+checked}
exec "$@"
