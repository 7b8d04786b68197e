#!/usr/bin/env python3
"""Removes from a copy of the workspace what only `cargo test` compiles: modules that are declared under `#[cfg(test)]`,
inline or in files of their own.

usage: tools/build/without-tests.py FOLDER      the copy of src/rust
"""

import pathlib
import re
import shutil
import sys

MODULE = re.compile(
    r"(?:^///[^\n]*\n)*^#\[cfg\((?:all\()?test\b[^\n]*\)\]\n(?:#\[[^\n]*\]\n)*(?:pub(?:\([a-z]+\))? )?mod (\w+)(?:;\n| \{\n.*?^\}\n)",
    re.DOTALL | re.MULTILINE,
)


def home(source):
    """The folder of a file's modules."""
    return source.parent if source.name in ("mod.rs", "lib.rs") else source.with_suffix("")


def main():
    root = pathlib.Path(sys.argv[1])
    for source in sorted([*root.glob("crates/*/src/**/*.rs"), *root.glob("src/**/*.rs")]):
        if not source.exists():
            continue
        text = source.read_text()
        for name in MODULE.findall(text):
            home(source).joinpath(f"{name}.rs").unlink(missing_ok=True)
            shutil.rmtree(home(source) / name, ignore_errors=True)
        without = MODULE.sub("", text)
        if without != text:
            source.write_text(without)


if __name__ == "__main__":
    main()
