"""``python -m dlshim doctor``: what is installed, and what to expect between each two libraries.

It imports nothing but dlshim and starts no driver: versions come from the metadata of
distributions, all else from the rows of ``consumers`` and ``sources``.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .. import __version__, _core
from .output import Box, Note, Parser, Table, columns, line, show, some_of

if TYPE_CHECKING:
    from ..known.rows import Source
    from .output import Block

    Facts = dict[str, Any]

DOCTOR = """\
Say what is installed, its known faults, and what to expect between each two libraries.

examples:
  python -m dlshim doctor                 what to expect here
  python -m dlshim doctor --json          the same for a bug report, or for a program
  python -m dlshim doctor && make train   go on only if ordinary arrays pass

Nothing is tried; python -m dlshim matrix does that.  The exit status is 0 if ordinary
arrays pass between all of them when upgraded, perhaps with an option; else 1.
"""

#: The drivers that are looked for, by the beginning of their names on Linux.
DRIVERS = {"CUDA": "libcuda.so.1", "ROCm": "libamdhip64.so", "SYCL": "libsycl.so"}


def _given(source: Source) -> str:
    if source.protocol != "DLPack":
        return source.protocol
    return "0.x and 1.x" if source.versioned else "0.x"


def _installed(versions: Mapping[str, str]) -> Iterable[Facts]:
    from ..consumers import filled, functions, rows_of
    from ..libraries import nearest, version_tuple
    from ..sources import SOURCES, faults

    for key, text in versions.items():
        version = version_tuple(text)
        sources = [row for row in SOURCES if row.library == key]
        sources = [row for row in sources if row.protocol == "DLPack"] or sources
        takes = rows_of("".join(functions(key)[:1]))
        gives, tried = nearest(sources, version) if sources else (None, True)
        into, verified = nearest(takes, version) if takes else (None, True)
        into, unknown = filled(into) if into else (None, "")
        yield {
            "name": key,
            "version": text,
            "gives": gives and _given(gives),
            "asks_for": into and into.asks,
            # Releases that are in no table count as the nearest that is.
            "verified": tried and verified and not unknown,
            "faults": [(each.harm, each.what, each.upgraded) for each in faults(key, version)],
        }


def _holders() -> Iterable[Facts]:
    """Objects of installed libraries that are no arrays, and what of them is exchanged."""
    from dataclasses import asdict
    from importlib.metadata import PackageNotFoundError, version

    from ..known.holders import HOLDERS

    for row in HOLDERS:
        with contextlib.suppress(PackageNotFoundError):
            yield {"version": version(row.distribution), **asdict(row)}


def _pair(cells: list[Any]) -> Facts:
    exchange, limit = cells[0].exchange, cells[0].limit
    bare = exchange.expected()[0].result
    return {
        "from": exchange.producer.label,
        "into": exchange.consumer.label,
        # None: it cannot be told
        "bare": None if bare == "unknown" else bare == "works",
        # "works", the option that it needs, or "no"
        "upgraded": "works" if limit is None else limit.cure or "no",
        # Other arrays that a plain upgrade cannot pass, with the option that helps.
        "limits": [
            (cell.exchange.case.title, cell.limit.why, cell.limit.cure)
            for cell in cells[1:]
            if cell.limit
        ],
    }


def pairs(versions: dict[str, str]) -> list[Facts]:
    """Return the expectations for each two libraries of the matrix that have float32."""
    from ..matrix.pairs import between_libraries, by_pair, plan

    cells = between_libraries(plan(versions, set(versions)))
    cells = [cell for cell in cells if cell.exchange.producer.library != "ml_dtypes"]
    return list(map(_pair, by_pair(cells).values()))


def _driver(name: str) -> str | None:
    """The path of a driver; it is looked for and not opened."""
    import subprocess
    from pathlib import Path

    cache = b""
    with contextlib.suppress(OSError):
        cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True).stdout
    found = re.findall(rf"\t{re.escape(name)}.* => (.*)", os.fsdecode(cache))
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    folders += [f"{sys.prefix}/lib", f"{sysconfig.get_path('platlib')}/torch/lib"]
    for folder in filter(None, [*folders, "/usr/lib/wsl/lib"]):
        found += map(str, Path(folder).glob(f"{name}*"))
    return found[0] if found else None


def _wheel() -> str:
    from importlib.metadata import distributions
    from pathlib import Path

    here = str(Path(__file__).parents[2])
    for found in distributions(name="dlshim", path=[here]):
        told = (found.read_text("WHEEL") or "").splitlines()
        return ", ".join(row[5:] for row in told if row.startswith("Tag: "))
    return "not installed as a wheel"


def diagnose() -> Facts:
    """All that is told, as data."""
    from ..libraries import installed_versions

    versions = installed_versions()
    expected = pairs(versions)
    free = ", free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    python = f"{platform.python_implementation()} {platform.python_version()}{free}"
    return {
        "dlshim": f"{__version__}, {_wheel()}",
        "extension": _core.__file__,
        "python": f"{python}, {platform.platform()}",
        "drivers": {name: _driver(file) for name, file in DRIVERS.items()},
        "libraries": list(_installed(versions)),
        "objects": list(_holders()),
        "pairs": expected,
        "works": all(pair["upgraded"] != "no" for pair in expected),
    }


def _table(title: str, *heads: str) -> Table:
    return Table(line((title, "strong")), columns(heads))


def _way(pair: Facts) -> str:
    """How the ordinary arrays of a pair pass; each that passes bare is "bare", and what follows."""
    upgraded = pair["upgraded"]
    if upgraded == "works":
        return "bare" if pair["bare"] else "upgraded"
    if not pair["bare"]:
        return str(upgraded)
    return "bare only" if upgraded == "no" else f"bare, or {upgraded}"


def _tables(told: Facts) -> list[Table]:
    here = _table("DLPack of the installed libraries", "@library", "version", "gives", "asks for")
    if not all(each["verified"] for each in told["libraries"]):
        here.note = "*: not verified; the rows of the nearest release that is known are used"
    wrong = _table("Known faults", "@library", "bare", "*what", "with dlshim")
    for each in told["libraries"]:
        mark = "" if each["verified"] else " *"
        here.add(
            each["name"], each["version"] + mark, each["gives"] or "—", each["asks_for"] or "—"
        )
        for fault in each["faults"]:
            wrong.add(each["name"], *fault)
    works = _table("What to expect of ordinary arrays", "@from", "works", "*into")
    limits = _table("What a plain upgrade cannot do", "+works with", "*why", "into")
    ways: dict[tuple[str, str], list[str]] = defaultdict(list)
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pair in told["pairs"]:
        ways[pair["from"], _way(pair)].append(pair["into"])
        for _, reason, option in pair["limits"]:
            # It is said of one array elsewhere, and of a pair here.
            some = reason.replace("this dtype", "every dtype")
            reasons[option or "nothing", some].append(pair["into"])
    title = "Objects that hold arrays, and what of them to upgrade"
    held = _table(title, "@library", "version", "x", "upgrade", "*which is")
    for each in told["objects"]:
        held.add(*(each[name] for name in ("distribution", "version", "what", "given", "how")))
    for (source, how), into in ways.items():
        works.add(source, how, ", ".join(into))
    for (option, reason), into in reasons.items():
        limits.add(option, reason, some_of(into, 3))
    return [table for table in (here, wrong, works, held, limits) if table.rows]


def blocks(told: Facts) -> list[Block]:
    drivers = "; ".join(f"{name} {path or 'not found'}" for name, path in told["drivers"].items())
    rows = {key: told[key] for key in ("dlshim", "extension", "python")} | {"drivers": drivers}
    verdict = line(("all ordinary arrays pass when upgraded", "good"))
    if not told["works"]:
        verdict = line(("some pairs do not work", "bad"))
    if not told["pairs"]:
        verdict = line("no array library is installed")
    bare = sum(pair["bare"] is True for pair in told["pairs"])
    more = sum(not pair["bare"] and pair["upgraded"] != "no" for pair in told["pairs"])
    sums = f"{len(told['pairs'])} pairs, {bare} work bare, {more} more with dlshim"
    return [
        Note([line((key.ljust(11), "strong"), text) for key, text in rows.items()]),
        *_tables(told),
        Box(
            "dlshim doctor",
            [
                line(f"{sums}; python -m dlshim matrix tries them"),
                verdict,
                line('dlshim.to(x, "numpy"), or another library: any array, and lists and tables'),
            ],
        ),
    ]


def main(arguments: list[str]) -> int:
    """Print the diagnosis; return the exit status."""
    parser = Parser("doctor", DOCTOR)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    told = diagnose()
    if options.json:
        import json

        print(json.dumps(told, indent=1))
    else:
        show(blocks(told))
    return 0 if told["works"] else 1
