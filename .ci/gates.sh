# Helpers of .ci/run and .ci/full: a gate runs a command with a time limit and counts whether it succeeded; `sum_up`
# prints the counts. A gate that this machine cannot run (mounts are forbidden, say) prints NOT CHECKED and counts as
# skipped. To be sourced, with the words that gates' names must contain as arguments; without arguments all gates run.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
logs=build/ci; mkdir -p $logs
passed=0 failed=0 skipped=0 words=("$@") notes=()
readonly MINUTES=25 ALL=${ALL:-80} # at most: a gate, and all of them

wanted() { # NAME
  local w; [ ${#words[@]} -gt 0 ] || return 0
  for w in "${words[@]}"; do case $1 in *"$w"*) return 0 ;; esac; done
  return 1
}

# The command's output goes by way of a file: what it leaves running holds that file open and not our output, for whose
# end others may wait.
gate() { # NAME COMMAND ...
  local name=$1 log=$logs/${1//[^a-zA-Z0-9.]/-}.log from=$SECONDS status child limit; shift
  wanted "$name" || return 0
  limit=$((ALL * 60 - SECONDS)); [ $limit -le $((MINUTES * 60)) ] || limit=$((MINUTES * 60)); [ $limit -gt 0 ] || limit=1
  printf '\n==== %s\n' "$name"
  : >"$log"
  timeout --kill-after=20 $limit "$@" </dev/null >"$log" 2>&1 &
  child=$!
  tail --pid=$child -s 0.5 -n +1 -f "$log"
  wait $child; status=$?
  # a gate may say so itself (status 77), or a part of it may (status 0)
  case $status in 0 | 77) ! grep -q '^NOT CHECKED' "$log" || status=unchecked ;; esac
  case $status in
    0) passed=$((passed + 1)); echo "---- $name: ok, $((SECONDS - from)) s" ;;
    unchecked) skipped=$((skipped + 1)); notes+=("$name: $(grep -m1 '^NOT CHECKED' "$log")"); echo "---- $name: NOT CHECKED" ;;
    124 | 137) failed=$((failed + 1)); notes+=("$name: FAILED"); echo "---- $name: FAILED, ended after $((SECONDS - from)) s" ;;
    *) failed=$((failed + 1)); notes+=("$name: FAILED"); echo "---- $name: FAILED ($status), $((SECONDS - from)) s" ;;
  esac
}

# The closing lines; its status is that of the whole run.
sum_up() {
  local name p f s
  echo
  while read -r name p f s; do
    echo "$name: $p tests passed, $f failed, $s skipped"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  done < <(cat build/counts 2>/dev/null)
  [ ! -s build/failures ] || { echo; cat build/failures; echo; }
  [ ${#notes[@]} = 0 ] || printf '%s\n' "${notes[@]}"
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" = 0 ]
}
