#!/usr/bin/env python3
"""Reduces the pictures in the vignettes of a package's tarball to 16 colours, by pngquant: they are half of its pages.

usage: fewer-colours.py TARBALL >TAR     the archive that it writes is not compressed
"""
import base64
import io
import re
import subprocess
import sys
import tarfile

PICTURE = re.compile(rb"(data:image/png;base64,)([A-Za-z0-9+/=]+)")


def reduced(match):
    picture = base64.b64decode(match[2])
    made = subprocess.run(["pngquant", "--strip", "--speed", "1", "16", "-"], input=picture, capture_output=True)
    if made.returncode:
        sys.exit(f"fewer-colours.py: pngquant: {made.stderr.decode().strip()}")
    return match[1] + base64.b64encode(min(picture, made.stdout, key=len))


with tarfile.open(sys.argv[1]) as old, tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.GNU_FORMAT) as new:
    for member in old:
        content = old.extractfile(member).read() if member.isfile() else b""
        if re.fullmatch(r"[^/]+/inst/doc/[^/]+[.]html", member.name):
            content = PICTURE.sub(reduced, content)
            member.size = len(content)
        new.addfile(member, io.BytesIO(content) if member.isfile() else None)
