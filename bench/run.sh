#!/usr/bin/env bash
# Runs verdigris and its peers side by side on one machine. R and Python stay up and take turns, a group of cases at a
# time, for some rounds, so that both see the same GPU in the same state. Then bench/report.R makes OUT/results.json and
# OUT/results.md.
#
#   bench/run.sh OUT [--rounds=2] [--quick] [--device=cuda] [--scale=1] [--seconds=0.15] [--peers=cupy,torch,jax]
#   [--programs] [PREFIX ...]
#
# --programs: whole programs too (bench/programs), before the cases, on the device and by the peers cupy and torch.
# PREFIXes select the cases whose names begin so (bench/cases.csv); --quick: one round of short repeats. R finds the
# package by R_LIBS. Without a GPU: bench/run.sh OUT --device=cpu --peers=numpy --scale=1e-3
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd); shift
rounds=2 flags=() prefixes=() programs= device=cuda scale=1 peers=cupy,torch
for a in "$@"; do
  case $a in
    --rounds=*) rounds=${a#*=} ;;
    --programs) programs=1 ;;
    --device=*) device=${a#*=}; flags+=("$a") ;;
    --scale=*) scale=${a#*=}; flags+=("$a") ;;
    --peers=*) peers=${a#*=}; flags+=("$a") ;;
    --quick) rounds=1; flags+=(--seconds=0.03) ;;
    --*) flags+=("$a") ;;
    *) prefixes+=("$a") ;;
  esac
done
rm -f "$out"/{verdigris,peers}.jsonl
work=$(mktemp -d)
export R_USER_CACHE_DIR=$work/cache   # kernels are compiled anew in every run
if [ -n "$programs" ]; then
  rm -f "$out/programs.jsonl"
  Rscript "$here/programs/run.R" "$out/programs.jsonl" --who="$device" --scale="$scale"
  peers=$(tr , '\n' <<<"$peers" | grep -xE 'cupy|torch' | paste -sd,)
  [ -z "$peers" ] || python3 "$here/programs/peers.py" "$out/programs.jsonl" --who="$peers" --scale="$scale"
fi
mkfifo "$work"/{r,p}.{in,out}
Rscript "$here/bench.R" "$out/verdigris.jsonl" --serve --inputs="$work" "${flags[@]}" "${prefixes[@]}" <"$work/r.in" >"$work/r.out" 2>"$out/verdigris.log" & r=$!
python3 "$here/bench.py" "$out/peers.jsonl" --serve --inputs="$work" "${flags[@]}" "${prefixes[@]}" <"$work/p.in" >"$work/p.out" 2>"$out/peers.log" & p=$!
exec 3>"$work/r.in" 4>"$work/p.in" 5<"$work/r.out" 6<"$work/p.out"
trap 'kill $r $p 2>/dev/null; rm -rf "$work"' EXIT
trap '' PIPE

tell_r() { echo "$*" >&3; }
tell_p() { echo "$*" >&4; }
wait_r() { local reply; read -r -t 400 reply <&5 || { echo "bench.R has ended: see $out/verdigris.log" >&2; tail -3 "$out/verdigris.log" >&2; r_gone=1; }; }
wait_p() { local reply; read -r -t 400 reply <&6 || { echo "bench.py has ended: see $out/peers.log" >&2; tail -3 "$out/peers.log" >&2; p_gone=1; }; }
r_gone= p_gone=
turn_r() { [ -n "$r_gone" ] || { tell_r "$*"; wait_r; }; }
turn_p() { [ -n "$p_gone" ] || { tell_p "$*"; wait_p; }; }

turn_p inputs
[ -n "$p_gone" ] || tell_p begin
turn_r inputs
[ -n "$p_gone" ] || wait_p
echo "inputs and libraries ready after $SECONDS s"
groups=$(python3 - "$here/cases.csv" "${prefixes[@]}" <<'PY'
import csv, sys
rows, prefixes = csv.DictReader(open(sys.argv[1])), sys.argv[2:]
print(*dict.fromkeys(c["group"] for c in rows if (any(c["name"].startswith(p) for p in prefixes) if prefixes else c["default"] == "1")))
PY
)
for round in $(seq "$rounds"); do
  turn_p limit "$round"
  for group in $groups; do
    from=$SECONDS
    if [ $((round % 2)) = 1 ]; then turn_r "$group" "$round"; turn_p "$group" "$round"; else turn_p "$group" "$round"; turn_r "$group" "$round"; fi
    echo "round $round $group: $((SECONDS - from)) s"
  done
done
tell_r quit; tell_p quit
wait $r $p 2>/dev/null
echo "measured after $SECONDS s"
Rscript "$here/report.R" "$out"
