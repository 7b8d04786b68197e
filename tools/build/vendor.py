#!/usr/bin/env python3
"""Packs the crates of src/rust/Cargo.lock into a tar.xz small enough for a package on CRAN.

usage: tools/build/vendor.py SRC_RUST OUT.tar.xz

`cargo vendor` brings whole crates. Left out here is what no build reads: tests, benchmarks, examples,
continuous integration, import libraries for Windows, prose that no source includes, and the modules of
cudarc whose features are off. Each crate's .cargo-checksum.json is cut to the files that remain, or
cargo would refuse the crate. tools/build/check-offline.sh is the proof that what remains is enough.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

# Files by name, and folders at the top of a crate, that its build never reads.
UNREAD_SUFFIXES = {".a", ".lib", ".dll", ".png", ".jpg", ".svg", ".gif", ".ipynb", ".yml", ".yaml", ".sh", ".py", ".nix"}
UNREAD_NAMES = {"Cargo.lock", "Cargo.toml.orig", ".cargo_vcs_info.json", ".gitignore", ".gitattributes",
                "rustfmt.toml", ".rustfmt.toml", "clippy.toml", "justfile", "Makefile", "CODEOWNERS"}
UNREAD_FOLDERS = {"tests", "test", "benches", "bench", "examples", "doc", "docs", "ci", "fuzz", "guide",
                  ".github", ".cargo", ".circleci", ".githooks", ".config", ".clippy"}
LICENCE = re.compile(r"licen[cs]e|copying|copyright|notice|authors|unlicense", re.I)
PROSE = {".md", ".txt", ".rst", ".adoc", ""}


def included(crate):
    """The files that the crate's sources name in include!, include_str! or include_bytes!."""
    found = set()
    for source in crate.rglob("*.rs"):
        if source.relative_to(crate).parts[0] in UNREAD_FOLDERS:
            continue
        text = source.read_text(errors="replace")
        for name in re.findall(r'include(?:_str|_bytes)?!\s*\(\s*"([^"]+)"', text):
            found.add((source.parent / name).resolve())
        # README.md through env!("CARGO_MANIFEST_DIR") or #![doc = include_str!(concat!(..., "/README.md"))]
        for name in re.findall(r'concat!\([^)]*"/?([^"]+\.md)"', text):
            found.add((crate / name).resolve())
    return found


def unread(crate, path, keep):
    if path.resolve() in keep:
        return False
    inside = path.relative_to(crate)
    if inside.name == ".cargo-checksum.json" or LICENCE.search(inside.name):
        return False
    if inside.parts[0] in UNREAD_FOLDERS or inside.name in UNREAD_NAMES or path.suffix in UNREAD_SUFFIXES:
        return True
    return len(inside.parts) == 1 and path.suffix in PROSE


TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;")


def test_modules(crate):
    """The files and folders of modules that are compiled for the crate's own tests alone."""
    for source in sorted(crate.rglob("*.rs")):
        home = source.parent if source.name in {"lib.rs", "mod.rs", "main.rs"} else source.with_suffix("")
        for name in TEST_MODULE.findall(source.read_text(errors="replace")):
            yield from (path for path in (home / f"{name}.rs", home / name) if path.exists())


def off_modules(crate, features):
    """The module folders of cudarc that no feature in use turns on: `driver` needs itself alone."""
    on = set(features)
    return [d for d in sorted((crate / "src").iterdir()) if d.is_dir() and d.name not in on]


def trim(crate, features):
    keep = included(crate)
    if crate.name.split("-")[0] == "cudarc":
        for folder in off_modules(crate, features):
            shutil.rmtree(folder)
    for path in list(test_modules(crate)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in sorted(crate.rglob("*")):
        if path.is_file() and unread(crate, path, keep):
            path.unlink()
    for folder in sorted((d for d in crate.rglob("*") if d.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()
    sums = crate / ".cargo-checksum.json"
    known = json.loads(sums.read_text())
    known["files"] = {name: sha for name, sha in known["files"].items() if (crate / name).exists()}
    sums.write_text(json.dumps(known, separators=(",", ":"), sort_keys=True))


def cudarc_features(manifest):
    """The features of cudarc that the engine asks for, with those that they imply."""
    tables = tomllib.loads((manifest / "crates/engine/Cargo.toml").read_text())
    asked = set()
    for section in [tables, *tables.get("target", {}).values()]:
        asked |= set(section.get("dependencies", {}).get("cudarc", {}).get("features", []))
    own = tomllib.loads((manifest / "vendor/cudarc/Cargo.toml").read_text())["features"]
    todo = list(asked)
    while todo:
        for implied in own.get(todo.pop(), []):
            if implied in own and implied not in asked:
                asked.add(implied)
                todo.append(implied)
    return asked


def main():
    manifest, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    vendor = manifest / "vendor"
    shutil.rmtree(vendor, ignore_errors=True)
    subprocess.run(["cargo", "vendor", "--quiet", "--locked", "--manifest-path", manifest / "Cargo.toml", vendor],
                   check=True, stdout=subprocess.DEVNULL)
    features = cudarc_features(manifest)
    for crate in sorted(d for d in vendor.iterdir() if d.is_dir()):
        trim(crate, features)
    out.unlink(missing_ok=True)
    # the same bytes from the same lock file
    tar = subprocess.Popen(["tar", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner",
        "--mode=u+rw,go=rX",
                            "-C", manifest, "-c", "vendor"], stdout=subprocess.PIPE)
    with out.open("wb") as file:
        subprocess.run(["xz", "-9e", "-T1"], stdin=tar.stdout, stdout=file, check=True)
    if tar.wait() != 0:
        sys.exit("vendor.py: tar failed")
    shutil.rmtree(vendor)
    print(f"{out.name}: {out.stat().st_size / 1e6:.2f} MB")


main()
