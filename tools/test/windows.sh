#!/usr/bin/env bash
# Builds the package's parts for 64-bit Windows with Debian's mingw-w64, and runs what can run here:
#   - the tests of the crates ops, compile and engine, under Wine (cpu device), and one with a driver of CUDA that shows
#     no device (tests/windows/nvcuda.c);
#   - the bridge, the C and C++ files and R's BLAS are linked to verdigris.dll, against import libraries with the names
#     that this machine's R and BLAS export. R for Windows is in no package registry, so the library is not loaded.
#
# usage: tools/test/windows.sh      (make windows)
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH="$HOME/.cargo/bin:$PATH"

target=x86_64-pc-windows-gnu
root=$PWD
out=$root/build/windows
mkdir -p "$out"

if ! command -v rustup >/dev/null || ! timeout 300 rustup -q target add $target; then
  echo "NOT CHECKED: the Rust libraries for $target, which rustup gets"
  exit 77
fi

mingw=x86_64-w64-mingw32
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=$mingw-gcc-posix CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine
export CXX_x86_64_pc_windows_gnu=$mingw-g++-posix AR_x86_64_pc_windows_gnu=$mingw-ar
export WINEPREFIX=$out/wine WINEDEBUG=-all WINEPATH="Z:${out//\//\\}"

# ---- libraries that Windows has and Wine has not -----------------------------------------------------------
$mingw-gcc-posix -shared -O2 -o "$out/bcryptprimitives.dll" tests/windows/bcryptprimitives.c -ladvapi32
$mingw-gcc-posix -shared -O2 -o "$out/nvcuda.dll" tests/windows/nvcuda.c

# ---- the engine's tests ---------------------------------------------------------------------------------------
cargo_test() {
  R CMD cargo test --release --target $target --manifest-path src/rust/Cargo.toml --target-dir "$out/target" "$@"
}
status=0
cargo_test -p verdigris-ops -p verdigris-compile -p verdigris-engine --lib --tests --no-fail-fast >"$out/test.log" 2>&1 ||
  status=1
cargo_test -p verdigris-engine --lib -- --ignored a_driver_without_devices >>"$out/test.log" 2>&1 || status=1
tools/test/count-engine.sh windows "$out/test.log"

# ---- the library of the package ---------------------------------------------------------------------------------
R CMD cargo build --release --target $target --lib --manifest-path src/rust/Cargo.toml --target-dir "$out/target"
include=$(R CMD config --cppflags)
for file in src/*.c; do
  # shellcheck disable=SC2086
  $mingw-gcc-posix -std=gnu11 -O2 -Wall -Werror -DNDEBUG $include -c "$file" -o "$out/$(basename "$file" .c).o"
done
# shellcheck disable=SC2086
$mingw-g++-posix -std=c++17 -O2 -Wall -DNDEBUG $include -c src/torch_bridge.cpp -o "$out/torch_bridge.o"
names() { nm -D --defined-only "$1" | awk '$2 ~ /[TW]/ { print "  " $3 } $2 ~ /[BDRV]/ { print "  " $3 " DATA" }'; }
import() { # NAME FILE: an import library with the names that the file exports
  { echo "LIBRARY $1.dll"; echo EXPORTS; names "$2"; } >"$out/$1.def"
  $mingw-dlltool -d "$out/$1.def" -l "$out/lib$1.dll.a"
}
import R "$(R RHOME)/lib/libR.so"
import Rblas "$(readlink -f "$(ldconfig -p | awk '/libblas\.so\.3/ { print $NF; exit }')")"
printf 'EXPORTS\n  R_init_verdigris\n' >"$out/verdigris.def"
libs=$(sed -n 's/^PKG_LIBS = -L$(LIBDIR) \(.*\) $(BLAS_LIBS) $(FLIBS)$/\1/p' src/Makevars.win.in)
# shellcheck disable=SC2086
$mingw-g++-posix -shared -static-libgcc -static-libstdc++ -o "$out/verdigris.dll" "$out"/*.o "$out/verdigris.def" \
  -L"$out/target/$target/release" $libs -L"$out" -lRblas -lR
[ "$($mingw-objdump -p "$out/verdigris.dll" | grep -c R_init_verdigris)" = 1 ]
echo "verdigris.dll is linked, $(du -h "$out/verdigris.dll" | cut -f1)"

exit $status
