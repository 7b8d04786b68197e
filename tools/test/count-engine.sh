#!/usr/bin/env bash
# Adds cargo's results of the engine's tests to build/counts, a line "NAME passed failed skipped", and the name and
# reason of each failure to build/failures.
#
# usage: tools/test/count-engine.sh NAME LOG
set -euo pipefail
cd "$(dirname "$0")/../.."
awk -v name="$1" '
  /^test result:/ { p += $4; f += $6; s += $8 }
  END { if (p + f == 0) f = 1; print name, p + 0, f + 0, s + 0 }' "$2" >>build/counts
# A panic says where in one line, and what in those after it.
awk -v name="$1" '
  /^test .* FAILED$/ || /^error/ { print name ": " $0 }
  /panicked at/ { left = 4 }
  left > 0 { print "  " $0; left-- }' "$2" >>build/failures
