#!/usr/bin/env bash
# Runs the tests on the emulated device (tests/emulator/README.md), for the package installed in build/library. The
# grids of expressions run on the interpreters, and a part of them on kernels of their own, each of which takes g++ a
# tenth of a second. Each run adds a line "NAME passed failed skipped" to build/counts.
set -uo pipefail
cd "$(dirname "$0")/../.."
export PATH="$HOME/.cargo/bin:$PATH" R_LIBS="$PWD/build/library${R_LIBS:+:$R_LIBS}"
logs=build/emulated; mkdir -p $logs
tools/test/emulator.sh || exit 1
status=0
tools/test/emulator.sh build/emulator/test >$logs/emulator.log || status=1
awk '/^ok:/ { p++ } /^FAILED:/ { f++ } END { if (p + f == 0) f = 1; print "emulator", p + 0, f + 0, 0 }' $logs/emulator.log >>build/counts

# Kernels start their blocks and threads in any order, and memory ends where it ends.
export VERDIGRIS_EMULATOR_SHUFFLE=1
# One thread uses a device, as in R: cargo's tests of a process come one after the other.
engine() { # NAME TARGET ...
  local name=$1; shift
  tools/test/emulator.sh R CMD cargo test --release --manifest-path src/rust/Cargo.toml -p verdigris-engine "$@" cuda \
    -- --include-ignored --test-threads=1 --skip cuda_every_row_in_every_type --skip every_kernel_compiles \
    --skip kernels_of_segments_compile --skip what_is_interpreted_has_the_bits_of_its_kernel >"$logs/$name.log" 2>&1 || { echo "FAILED: $name"; return 1; }
}
tests() { # NAME FILTER [VARIABLE=VALUE ...]
  local name=$1 filter=$2; shift 2
  tools/test/emulator.sh env "$@" Rscript --vanilla tools/test/test.R "emulated-$name" "$filter" >"$logs/$name.log" 2>&1 || { echo "FAILED: $name"; status=1; }
}

# Left out: tests that need NVRTC or a GPU's two compilers; and for their time a kernel for each row and type (the grids
# have them all), tests of full memory, most cases of long tables, and what the cpu device shows as well: examples,
# plots, models, distributions. In CI these are an eighteenth of the files, in turn.
package='^(?!(diff-(grid|examples|narrow-.*)|fuzz-(hunt|odd)|int-around|base-(coverage|plots)|stats-distributions|device-cuda-graph|prop-(large|memory|planted)).*)'
engine engine --lib & running=$!
engine engine-device --test cuda_device --test cuda_exchange & running="$running $!"
tests grids '^(diff-grid|fuzz-(hunt|odd))' VERDIGRIS_TIER=interpreted
tests package "$package" VERDIGRIS_EMULATOR_GUARD=1 VERDIGRIS_PART=1/12 VERDIGRIS_SHARES=18
tests sample '^diff-grid-(trees|dtypes|reductions)' VERDIGRIS_TIER=compiled VERDIGRIS_PART=1/60
tests late '^(ops-reduce-deferred|device-chunked|int-travel|utils-conditions|device-streams)' VERDIGRIS_EMULATOR_DELAY=300 VERDIGRIS_TIER=compiled VERDIGRIS_SUBMIT=always
for each in $running; do wait "$each" || status=1; done
for log in engine engine-device; do tools/test/count-engine.sh "emulated-$log" "$logs/$log.log"; done
tail -n 40 $logs/*.log | grep -v '^$'
exit $status
