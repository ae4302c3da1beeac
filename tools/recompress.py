"""Writes wheels anew with the smallest deflate streams that zopfli finds, some 4 % less.

    python tools/recompress.py WHEEL_OR_FOLDER ...

Of a folder all wheels are taken. Every unzip reads them. Names, contents and their order stay;
dates become the oldest that a zip file knows, so that the same contents give the same bytes.
"""

from __future__ import annotations

import struct
import sys
import zipfile
import zlib
from pathlib import Path

import zopfli.zlib

# Of a zip file: headers of a member and of its entry in the directory, and the directory's end.
LOCAL, CENTRAL, END = struct.Struct("<4s5H3L2H"), struct.Struct("<4s6H3L5H2L"), "<4s4H2LH"
DEFLATED, MIDNIGHT, FIRST_OF_1980 = 8, 0, 1 << 5 | 1
VERSION, MADE_ON_UNIX = 20, 3 << 8


def deflated(data: bytes) -> bytes:
    """Without zlib's two bytes before and four after."""
    return zopfli.zlib.compress(data, numiterations=200)[2:-4]


def recompress(wheel: Path) -> None:
    members, directory = bytearray(), bytearray()
    with zipfile.ZipFile(wheel) as old:
        entries = [(entry, old.read(entry)) for entry in old.infolist()]
    for entry, data in entries:
        name, packed = entry.filename.encode(), deflated(data)
        common = (VERSION, 0, DEFLATED, MIDNIGHT, FIRST_OF_1980, zlib.crc32(data), len(packed))
        sizes = (len(data), len(name), 0)
        where = (0, 0, 0, entry.external_attr, len(members))
        directory += CENTRAL.pack(b"PK\1\2", MADE_ON_UNIX | VERSION, *common, *sizes, *where) + name
        members += LOCAL.pack(b"PK\3\4", *common, *sizes) + name + packed
    count = len(entries)
    end = struct.pack(END, b"PK\5\6", 0, 0, count, count, len(directory), len(members), 0)
    before = wheel.stat().st_size
    wheel.write_bytes(bytes(members + directory) + end)
    with zipfile.ZipFile(wheel) as new:
        same = [(e.filename, new.read(e)) for e in new.infolist()]
    if same != [(entry.filename, data) for entry, data in entries]:
        raise RuntimeError(f"{wheel.name} does not hold what it held")
    print(f"{wheel.name}: {before} -> {wheel.stat().st_size} bytes")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        given = Path(argument)
        for wheel in sorted(given.glob("*.whl")) if given.is_dir() else [given]:
            recompress(wheel)
