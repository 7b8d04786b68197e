#!/usr/bin/env bash
# What a newcomer does: clones the repository, runs README's two commands for a shell, and then its R code, whose output
# must be what README shows. Prints the seconds from `git clone` to the demo's first line, and to its end.
#
# The clone is of HEAD, into build/newcomer, which is emptied first; cargo's registry in the home folder serves it.
#
# usage: tools/doc/newcomer.sh       as root on Debian, since `make demo` installs what is missing
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD at=$PWD/build/newcomer
rm -rf "$at"; mkdir -p "$at/library"
# README's first block of shell commands, without the comments
mapfile -t commands < <(sed -n '/^```sh$/,/^```$/p' README.md | sed '1d;/^```$/,$d;s/ *#.*//')
[ ${#commands[@]} = 2 ] || { echo "newcomer.sh: README has ${#commands[@]} commands for a shell, not 2" >&2; exit 1; }

export PATH="$HOME/.cargo/bin:$PATH" # where rustup puts cargo
begin=$SECONDS
git -c safe.directory="$root" clone --quiet --no-hardlinks "file://$root" "$at/verdigris"
cd "$at/verdigris"
export R_LIBS_USER=$at/library R_LIBS=
for command in "${commands[@]}"; do
  echo "\$ $command"
  bash -euo pipefail -c "$command" 2>&1 | while IFS= read -r line; do
    case $line in
      'Yearly drift'*) echo "$((SECONDS - begin)) s after the clone: $line" ;;
      *paths*second* | *'.png'* | '* DONE'* | ERROR* | Error*) echo "$line" ;;
    esac
  done
done
echo "$((SECONDS - begin)) s after the clone: the demo has ended"
# README's code with the package that its first command has installed
Rscript -e 'stopifnot(startsWith(find.package("verdigris"), Sys.getenv("R_LIBS_USER")))' \
  -e 'system2(file.path(R.home("bin"), "Rscript"), c("tools/doc/readme.R", "--check")) -> status; quit(status = status)'
echo "README's code prints what README shows"
