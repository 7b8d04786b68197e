#!/usr/bin/env python3
"""Writes LICENSE.note: the Rust crates that are compiled into the package, their authors and licences.

usage: tools/build/licenses.py [--check]     --check: change nothing, and fail when something would change
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTE = ROOT / "LICENSE.note"


def crates():
    """The crates of Cargo.lock, those of other platforms too, without this project's own."""
    said = subprocess.run(["cargo", "metadata", "--format-version", "1", "--manifest-path",
        ROOT / "src/rust/Cargo.toml"],
                          check=True, capture_output=True, text=True).stdout
    found = [p for p in json.loads(said)["packages"] if p["source"]]
    return sorted(found, key=lambda p: (p["name"], p["version"]))


def entry(crate):
    authors = ", ".join(a.split(" <")[0] for a in crate["authors"]) or f"the {crate['name']} authors"
    return (f"{crate['name']} {crate['version']}\n"
            f"  Licence: {crate['license'] or 'see its LICENSE file'}\n"
            f"  Authors: {authors}\n"
            f"  Source:  {crate['repository'] or 'https://crates.io/crates/' + crate['name']}\n")


def minimum(found):
    """The newest rust-version that any crate asks for."""
    return max((tuple(map(int, c["rust_version"].split("."))), c["name"]) for c in found if c["rust_version"])


def main():
    found = crates()
    text = ("verdigris itself is under the MIT licence (see the file LICENSE). Its compiled code holds these Rust\n"
            "crates, or parts of them; their licence texts are in src/rust/vendor.tar.xz of the release tarball.\n"
            "This file is written by tools/build/licenses.py from `cargo metadata`.\n\n" + "\n".join(map(entry, found)))
    version, name = minimum(found)
    asked = ".".join(map(str, version[:2]))
    if f"rustc >= {asked}" not in (ROOT / "DESCRIPTION").read_text():
        sys.exit(f"licenses.py: {name} needs rustc {asked}; DESCRIPTION's SystemRequirements must say so.")
    if "--check" in sys.argv:
        if NOTE.read_text() != text:
            sys.exit("licenses.py: LICENSE.note is out of date; run make licenses and commit.")
        return
    NOTE.write_text(text)
    print(f"LICENSE.note: {len(found)} crates; newest rust-version {asked} ({name})")


main()
