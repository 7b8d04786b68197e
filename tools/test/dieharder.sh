#!/bin/sh
# Debian's dieharder on the raw generator: the words that kernels/random.h makes of one key, in the order in which a
# stream uses them. It takes an hour and is in no gate: run it after a change of philox4x32(). dieharder 3.31.1 (-a, key
# 20260101) gave 147 results on 2026-11-21: none failed; three were weak at first and passed with more samples.
#
#   tools/test/dieharder.sh [KEY] [ARGUMENTS OF dieharder]      (default: 20260101 -a)
set -eu
cd "$(dirname "$0")/../.."
command -v dieharder >/dev/null || { echo "tools/test/dieharder.sh needs dieharder (apt-get install dieharder)" >&2; exit 1; }
key=${1:-20260101}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- -a

out=build/dieharder
mkdir -p "$out"
cat > "$out/words.cpp" <<'CPP'
#include <stdio.h>
#include <stdlib.h>
#include "random.h"

int main(int, char** arguments) {
  u64 key = strtoull(arguments[1], 0, 0);
  static philox_block block[1 << 12];
  for (u64 b = 0;; b += 1 << 12) {
    for (u64 k = 0; k < 1 << 12; k++) {
      philox_block c = {(u32)(b + k), (u32)((b + k) >> 32), 0u, 0u};
      block[k] = philox4x32(c, (u32)key, (u32)(key >> 32));
    }
    if (fwrite(block, sizeof block, 1, stdout) != 1) return 0;  // dieharder has read enough
  }
}
CPP
${CXX:-g++} -std=c++14 -O3 -ffp-contract=off -I src/rust/crates/ops/kernels -o "$out/words" "$out/words.cpp"
# 200: raw binary words from stdin; -k 2: exact Kolmogorov-Smirnov; -Y 1: a weak result is taken up again with more
# samples
"$out/words" "$key" | dieharder -g 200 -k 2 -Y 1 "$@"
