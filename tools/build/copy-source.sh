#!/usr/bin/env bash
# Copies the checkout, as git sees it (tracked files and new ones that are not ignored), into a folder, which is emptied
# first. File and folder times are kept, so cargo builds only what changed.
#
# usage: tools/build/copy-source.sh FOLDER
set -euo pipefail
to=$(realpath -m "${1:?usage: tools/build/copy-source.sh FOLDER}")
cd "$(dirname "$0")/../.."
rm -rf "$to"; mkdir -p "$to"
git -c safe.directory="$PWD" ls-files -coz --exclude-standard |
  while IFS= read -r -d '' f; do [ ! -e "$f" ] || printf '%s\0' "$f"; done |
  tar --null -T - -c | tar -x -C "$to"
from=$PWD; cd "$to"
find . -type d -print0 | while IFS= read -r -d '' d; do touch -r "$from/$d" "$d"; done
