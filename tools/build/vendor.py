#!/usr/bin/env python3
"""Packs the crates of src/rust/Cargo.lock into a tar.xz small enough for a package on CRAN.

usage: tools/build/vendor.py SRC_RUST OUT.tar.xz

`cargo vendor` brings whole crates. Left out here is what no build reads: tests, benchmarks, examples,
continuous integration, import libraries for Windows, prose that no source includes, and modules that
are compiled for tests alone or with features that are off. Each crate's .cargo-checksum.json is cut to the files that remain, or
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


MODULE = re.compile(r"((?:#\[(?:[^\[\]]|\[[^\]]*\])*\]\s*)+)(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;")
CONDITION = re.compile(r"#\[cfg\((.*)\)\]", re.S)
TOKEN = re.compile(r'\s*(\w+\s*=\s*"[^"]*"|\w+|[(),])')


def is_off(condition, features):
    """Whether a cfg condition is false whatever the target: of tests, and of features that nobody turns on."""
    tokens = TOKEN.findall(condition)

    def parse():
        """True, False, or None where the target decides."""
        word = tokens.pop(0)
        if word in {"all", "any", "not"} and tokens and tokens[0] == "(":
            tokens.pop(0)
            values = []
            while tokens[0] != ")":
                values.append(parse())
                if tokens[0] == ",":
                    tokens.pop(0)
            tokens.pop(0)
            if word == "not":
                return None if values[0] is None else not values[0]
            decisive = word == "any"
            if decisive in values:
                return decisive
            return None if None in values else not decisive
        if word.startswith("feature"):
            return word.split('"')[1] in features
        return False if word == "test" else None

    return parse() is False


def off_modules(crate, features):
    """The files and folders of modules that are compiled for tests alone, or with features that nobody turns on."""
    for source in sorted(crate.rglob("*.rs")):
        home = source.parent if source.name in {"lib.rs", "mod.rs", "main.rs"} else source.with_suffix("")
        off, on = set(), set()
        for attributes, name in MODULE.findall(source.read_text(errors="replace")):
            parts = re.findall(r"#\[.*?\](?=\s*(?:#|$))", attributes, re.S)
            conditions = [CONDITION.fullmatch(part) for part in parts]
            (off if any(found and is_off(found[1], features) for found in conditions) else on).add(name)
        # of a module that is written in the same file the modules lie one folder below
        folders = [home, *(d for d in home.glob("*") if d.is_dir())]
        for name in sorted(off - on):
            yield from (path for folder in folders for path in (folder / f"{name}.rs", folder / name) if path.exists())


def trim(crate, features):
    keep = included(crate)
    for path in list(off_modules(crate, features)):
        if path.exists():
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


def features_of_all(manifest):
    """The features of each crate, by name and version, that are turned on for any target."""
    said = subprocess.run(["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path",
        manifest / "Cargo.toml"], check=True, capture_output=True, text=True).stdout
    said = json.loads(said)
    on = {node["id"]: set(node["features"]) for node in said["resolve"]["nodes"]}
    return {(p["name"], p["version"]): on[p["id"]] for p in said["packages"] if p["id"] in on}


def name_and_version(crate):
    """Those of a vendored crate."""
    package = tomllib.loads((crate / "Cargo.toml").read_text())["package"]
    return package["name"], package["version"]


def main():
    manifest, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    vendor = manifest / "vendor"
    shutil.rmtree(vendor, ignore_errors=True)
    subprocess.run(["cargo", "vendor", "--quiet", "--locked", "--manifest-path", manifest / "Cargo.toml", vendor],
                   check=True, stdout=subprocess.DEVNULL)
    features = features_of_all(manifest)
    for crate in sorted(d for d in vendor.iterdir() if d.is_dir()):
        trim(crate, features.get(name_and_version(crate), set()))
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
