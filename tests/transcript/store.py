"""How a group is kept: as text, each body once, below the names of the scenarios that have it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

RECORDED = Path(__file__).resolve().parent / "recorded"
Bodies = dict[str, list[str]]


def path_of(group: str) -> Path:
    return RECORDED / f"{group}.txt"


def text_of(bodies: Bodies) -> str:
    names: dict[tuple[str, ...], list[str]] = {}
    for name, body in bodies.items():
        assert all(line and "\n" not in line for line in (name, *body)), name
        names.setdefault(tuple(body), []).append(f"# {name}")
    return "\n".join("".join(f"{line}\n" for line in (*names[body], *body)) for body in names)


def bodies_of(text: str) -> Bodies:
    bodies: Bodies = {}
    for part in text.removesuffix("\n").split("\n\n"):
        lines = part.split("\n")
        body = [line for line in lines if not line.startswith("# ")]
        bodies |= {line[2:]: body for line in lines if line.startswith("# ")}
    return bodies


def write(group: str, bodies: Bodies) -> None:
    path_of(group).write_text(text_of(bodies), encoding="utf-8", newline="\n")


def read(group: str) -> Bodies:
    return bodies_of(path_of(group).read_text(encoding="utf-8"))


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
