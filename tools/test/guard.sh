#!/usr/bin/env bash
# Counts instructions, which are the same on every run and need no GPU: callgrind counts those of recording, planning
# and the cpu device (src/rust/crates/engine/examples/guard.rs) and of small calls from R; NVRTC compiles generated
# kernels for sm_90, whose instructions are counted too, and those of float32 arrays for sm_86 and sm_89, which compute
# float64 at 1/64 of the rate: of these the float64 instructions. bench/bounds.csv has the accepted counts; more than a
# tenth above fails, and so does a float64 instruction in a kernel that has no bound.
#
# usage: tools/test/guard.sh [--write]     --write: make the new counts the bounds. Say in the commit why they rose.
# The bounds are for this compiler and R (Debian 12) and the NVRTC that tools/build/setup.sh pins; a count without a
# bound fails too.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH="$HOME/.cargo/bin:$PATH" R_LIBS="$PWD/build/library${R_LIBS:+:$R_LIBS}" RAYON_NUM_THREADS=1 LC_ALL=C
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
bounds=bench/bounds.csv counted=build/guard.csv
mkdir -p build

R CMD cargo build --release --manifest-path src/rust/Cargo.toml -p verdigris-engine --example guard
guard=src/rust/target/release/examples/guard
VERDIGRIS_NVRTC=$(find "$PWD/build/venv" -name 'libnvrtc.so.*' | head -1); export VERDIGRIS_NVRTC
[ -n "$VERDIGRIS_NVRTC" ] || { echo "guard.sh: build/venv has no NVRTC; run make guard, which installs it." >&2; exit 1; }

# Runs a function beside others: what is counted does not depend on what else is at work, but its files must be its own.
apart() { # FOLDER FUNCTION ...
  work=$work/$1; shift
  mkdir "$work"
  valgrind=(valgrind --tool=callgrind --callgrind-out-file="$work/out")
  "$@"
}
total() { awk '/^totals:/ { print $2 }' "$work/out"; } # of the run before
# Instructions of one time, from a run of few times and one of many: what a run does besides is in both.
each() { # FEW MANY COMMAND ...: the command gets the number of times as its last argument
  local few=$1 many=$2 first log=$work/log; shift 2
  "$@" "$few" >"$log" 2>&1 || { cat "$log" >&2; return 1; }
  first=$(total)
  "$@" "$many" >"$log" 2>&1 || { cat "$log" >&2; return 1; }
  echo $((($(total) - first) / (many - few)))
}
engine() { "${valgrind[@]}" $guard run "$@"; }
kernels_and_engine() {
  $guard kernels | sed 's/^/kernel /'
  $guard float64
  $guard list | while read -r name; do echo "$name,$(each 5 25 engine "$name" </dev/null)"; done
}
# What R does for each body, in one run: callgrind writes what it has counted so far, and begins anew, where a function
# of ours is called. R's heap has room for all of it, since a collection falls into one part or another by chance.
script=$work/calls.R
cat >"$script" <<'R'
suppressMessages(library(verdigris))
device <- commandArgs(TRUE)[[2L]]
x <- as_gpu(c(1, 2, 3), device = device)
y <- as_gpu(c(4, 5, 6), device = device)
bodies <- if (device == "cpu") list(
  "x + y" = function(n) for (i in seq_len(n)) x + y,
  "gpu_compute(x + y)" = function(n) for (i in seq_len(n)) gpu_compute(x + y),
  "sum(x)" = function(n) for (i in seq_len(n)) sum(x),
  "sqrt(x) which may warn" = function(n) for (i in seq_len(n)) sqrt(x),
  "x <- x * 0.5 + 1" = function(n) for (i in seq_len(n)) x <<- x * 0.5 + 1,
  "as_gpu(x)" = function(n) for (i in seq_len(n)) as_gpu(x),
  "from_dlpack(as_dlpack(x))" = function(n) for (i in seq_len(n)) from_dlpack(as_dlpack(x))
) else {
  k <- gpu_kernel("__global__ void k(const double* x, double* y, double a, int n) { if (threadIdx.x < n) y[threadIdx.x] += a * x[threadIdx.x]; }")
  list(
    "k(x y 2.5 3L)" = function(n) for (i in seq_len(n)) k(x, y, 2.5, 3L),
    "k(x = x y = y a = 2.5 n = 3L)" = function(n) for (i in seq_len(n)) k(x = x, y = y, a = 2.5, n = 3L),
    "as_dlpack(x) when idle" = function(n) { gpu_sync(); for (i in seq_len(n)) as_dlpack(x) },
    "from_dlpack(as_dlpack(x)) when idle" = function(n) { gpu_sync(); for (i in seq_len(n)) from_dlpack(as_dlpack(x)) }
  )
}
mark <- function() .Call(verdigris:::C_counters)
for (body in bodies) {
  for (n in c(300, 1)) body(n) # compiled by now
  mark()
  body(2000)
  mark()
}
cat(names(bodies), sep = "\n", file = commandArgs(TRUE)[[1L]])
R
# Of a GPU, which is the emulated one, what R's thread does is counted, the driver's part of it among that.
calls() { # DEVICE [COMMAND ...]
  local device=$1 r k=0; shift
  rm -f "$work"/out*
  "$@" R --vanilla --no-echo --min-nsize=20M --min-vsize=300M -d "${valgrind[*]} --separate-threads=yes --dump-before=C_counters" \
    -f "$script" --args "$work/names" "$device" >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
  r=$(Rscript --vanilla -e 'cat(sub("[.][0-9]+$", "", getRversion()))')
  while read -r name; do
    k=$((k + 2))
    echo "R $r $name,$(awk '/^(summary|totals):/ { printf "%d", $2 / 2000; exit }' "$work/out.$k-01")"
  done <"$work/names"
}

(apart 1 kernels_and_engine) >"$work/counts1" & other=$!
(apart 2 calls cpu) </dev/null >"$work/counts2"
(apart 3 calls cuda tools/test/emulator.sh) </dev/null >"$work/counts3"
wait $other
{ echo subject,instructions; cat "$work"/counts[123]; } >$counted

if [ "${1:-}" = --write ]; then cp $counted $bounds; echo "guard.sh: $bounds has $(($(wc -l <$bounds) - 1)) bounds"; exit 0; fi
awk -F, '
  FNR == 1 { next }
  NR == FNR { bound[$1] = $2; next }
  !($1 in bound) { printf "%-34s %9d  has no bound\n", $1, $2; bad++; next }
  {
    ratio = $2 / bound[$1]; seen++
    word = ratio > 1.1 ? "MORE THAN ITS BOUND" : ratio < 0.9 ? "less: make guard-bounds" : ""
    printf "%-34s %9d  %9d  %5.2f  %s\n", $1, $2, bound[$1], ratio, word
    if (ratio > 1.1) bad++
    delete bound[$1]
  }
  END {
    for (name in bound) { printf "%-34s was not counted\n", name; bad++ }
    printf "guard.sh: %d of %d counts are beyond their bounds, or have none\n", bad, seen + 0
    exit bad > 0
  }' $bounds $counted || { echo "guard.sh: where more is right, run make guard-bounds, and say in the commit why." >&2; exit 1; }
