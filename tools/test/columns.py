#!/usr/bin/env python3
"""Fails where more than 0.5% of the lines of code and documents are longer than 120 columns, or a file has more
than 600 lines, and names them.

usage: tools/test/columns.py [FILE ...]      default: all files of the checkout that are written by hand

A table that reads better wide stands between two comments, `lint: wide` and `lint: end`, and its lines do not count.
"""

import os
import pathlib
import re
import subprocess
import sys

WIDTH, SHARE, LINES = 120, 0.005, 600
MARK = re.compile(r"\s*(?:#|//|/\*|<!--) *lint: (wide|end)\b")
WRITTEN = re.compile(r"\.(R|rs|c|h|cpp|cuh|py|sh|md)$")
GENERATED = re.compile(r"^(man/|bench/results\.md$|tests/testthat/_snaps/|src/rust/vendor/)")


def files():
    listed = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    return [f for f in listed.split("\0") if WRITTEN.search(f) and not GENERATED.match(f)]


def lines_of(name, lines):
    """Numbers and columns of the lines that count."""
    wide = None
    for number, line in enumerate(lines, 1):
        mark = MARK.match(line)
        if mark:
            wide = number if mark[1] == "wide" else None
        elif wide is None:
            yield number, len(line)
    if wide is not None:
        sys.exit(f"{name}:{wide}: `lint: wide` without `lint: end`")


root = pathlib.Path(__file__).resolve().parents[2]
given = [str(pathlib.Path(f).resolve().relative_to(root)) for f in sys.argv[1:]]
os.chdir(root)
counted, long, tall = 0, [], []
for name in given or [f for f in files() if pathlib.Path(f).is_file()]:
    lines = pathlib.Path(name).read_text(encoding="utf-8").splitlines()
    for number, columns in lines_of(name, lines):
        counted += 1
        if columns > WIDTH:
            long.append((name, number, columns))
    if len(lines) > LINES:
        tall.append((name, len(lines)))
failed = len(long) > SHARE * counted
for name, number, columns in long if failed else []:
    print(f"{name}:{number}: {columns} columns")
for name, count in tall:
    print(f"{name}: {count} lines, at most {LINES}: it is two subjects")
share = 100 * len(long) / max(counted, 1)
print(f"columns.py: {len(long)} of {counted} lines have more than {WIDTH} columns: {share:.2f}%,"
      f" at most {100 * SHARE}%")
sys.exit(failed or bool(tall))
