"""How groups are kept: each body once, under its hash, and which scenarios have it.

A file is compressed; ``--show`` and the test's message are for reading.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path

RECORDED = Path(__file__).resolve().parent / "recorded"
Bodies = dict[str, list[str]]


def path_of(group: str) -> Path:
    return RECORDED / f"{group}.gz"


def digest(body: list[str]) -> str:
    return hashlib.sha256("\n".join(body).encode()).hexdigest()[:8]


def text_of(bodies: Bodies) -> str:
    seen: dict[str, list[str]] = {}
    names = []
    for name, body in bodies.items():
        key = digest(body)
        assert seen.setdefault(key, body) == body, "two bodies of one hash"
        assert "\n" not in name and all("\n" not in line for line in body), name
        names.append(f"{key} {name}")
    parts = [f"{key}:\n" + "".join(f"\t{line}\n" for line in seen[key]) for key in sorted(seen)]
    return "\n".join(names) + "\n\n" + "".join(parts)


def bodies_of(text: str) -> Bodies:
    names, _, rest = text.partition("\n\n")
    bodies: dict[str, list[str]] = {}
    current: list[str] = []
    for line in rest.splitlines():
        if line.startswith("\t"):
            current.append(line[1:])
        else:
            current = bodies[line[:-1]] = []
    return {line[9:]: bodies[line[:8]] for line in names.splitlines()}


def write(group: str, bodies: Bodies) -> None:
    RECORDED.mkdir(exist_ok=True)
    path_of(group).write_bytes(gzip.compress(text_of(bodies).encode(), 9, mtime=0))


def read(group: str) -> Bodies:
    return bodies_of(gzip.decompress(path_of(group).read_bytes()).decode())


def differences(recorded: Bodies, now: Bodies, most: int = 8) -> Iterator[str]:
    """The first of each kind of difference as diffs, and last how many scenarios differ."""
    missing = [name for name in recorded if name not in now]
    added = [name for name in now if name not in recorded]
    changed = [name for name in recorded if name in now and recorded[name] != now[name]]
    if not (missing or added or changed):
        return
    kinds: dict[tuple[str, ...], list[str]] = {}
    diffs = {}
    for name in changed:
        diff = list(difflib.unified_diff(recorded[name], now[name], n=3, lineterm=""))[3:]
        kind = tuple(line for line in diff if line[:1] in "+-")
        kinds.setdefault(kind, []).append(name)
        diffs[name] = diff
    for names in list(kinds.values())[:most]:
        more = f" (and {len(names) - 1} more with this difference)" if names[1:] else ""
        yield f"--- {names[0]}{more}"
        yield from (f"    {line}" for line in diffs[names[0]])
    if len(kinds) > most:
        yield f"... and {len(kinds) - most} more kinds of differences"
    yield from (f"gone: {name}" for name in missing[:most])
    yield from (f"new: {name}" for name in added[:most])
    yield f"{len(changed)} of {len(recorded)} differ, {len(missing)} gone, {len(added)} new"
