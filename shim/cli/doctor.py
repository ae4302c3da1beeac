"""``python -m dlshim doctor``: what is installed, and what ordinary arrays come to between it.

What is installed is told at once: versions come from the metadata of distributions, faults from
rows; nothing is imported, and no driver is started.  The trial is a child process's.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .. import __version__, _core
from .output import Box, Note, Parser, Table, columns, line, progress, show

if TYPE_CHECKING:
    from .output import Block

    Facts = dict[str, Any]

DOCTOR = """\
Say what is installed, its known faults, and what ordinary arrays come to between each two.

examples:
  python -m dlshim doctor                 what is here, and what works
  python -m dlshim doctor --json          the same for a bug report, or for a program
  python -m dlshim doctor && make train   go on only if ordinary arrays pass
  python -m dlshim doctor --no-trial      only what is installed, at once

A child process, which may die, tries some arrays of each library with the usual function of each
other one; python -m dlshim matrix tries all.  The exit status is 0 if the most ordinary array of
each passes by some line, perhaps with an option; else 1.
"""

#: The drivers that are looked for, by the beginning of their names on Linux.
DRIVERS = {"CUDA": "libcuda.so.1", "ROCm": "libamdhip64.so", "SYCL": "libsycl.so"}


def _installed(versions: Mapping[str, str]) -> Iterable[Facts]:
    from ..libraries import faults, version_tuple

    for key, text in versions.items():
        found = faults(key, version_tuple(text))
        yield {
            "name": key,
            "version": text,
            "faults": [(each.harm, each.what, each.upgraded) for each in found],
        }


def _holders() -> Iterable[Facts]:
    """Objects of installed libraries that are no arrays, and what of them is exchanged."""
    from dataclasses import asdict
    from importlib.metadata import PackageNotFoundError, version

    from ..known.holders import HOLDERS

    for row in HOLDERS:
        with contextlib.suppress(PackageNotFoundError):
            yield {"version": version(row.distribution), **asdict(row)}


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
    """What is installed, as data."""
    from ..libraries import installed_versions

    free = ", free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    python = f"{platform.python_implementation()} {platform.python_version()}{free}"
    return {
        "dlshim": f"{__version__}, {_wheel()}",
        "extension": _core.__file__,
        "python": f"{python}, {platform.platform()}",
        "drivers": {name: _driver(file) for name, file in DRIVERS.items()},
        "libraries": list(_installed(installed_versions())),
        "objects": list(_holders()),
    }


def trial(told: Facts) -> Facts:
    """What ordinary arrays come to between the installed libraries, as data."""
    from ..trial.samples import SAMPLES, quick

    versions = {each["name"]: each["version"] for each in told["libraries"]}
    here = [key for key in SAMPLES if key in versions]
    arrays = sum(len(SAMPLES[key]) for key in here)
    with progress(2 * arrays * (len(here) - 1)) as step:
        found = quick(versions, step)
    return {**found, "works": all(pair["arrays"][0]["line"] for pair in found["pairs"])}


def _table(title: str, *heads: str) -> Table:
    return Table(line((title, "strong")), columns(heads))


def _installed_tables(told: Facts) -> list[Table]:
    here = _table("Installed libraries", "@library", "*version")
    wrong = _table("Known faults", "@library", "bare", "*what", "with dlshim")
    for each in told["libraries"]:
        here.add(each["name"], each["version"])
        for fault in each["faults"]:
            wrong.add(each["name"], *fault)
    title = "Objects that hold arrays, and what of them to upgrade"
    held = _table(title, "@library", "version", "x", "upgrade", "*which is")
    for each in told["objects"]:
        held.add(*(each[name] for name in ("distribution", "version", "what", "given", "how")))
    return [table for table in (here, wrong, held) if table.rows]


def _tried_tables(told: Facts) -> list[Table]:
    asked = _table("DLPack as it was asked for and given", "@library", "gives", "*asks for")
    for each in told["asked"]:
        asked.add(each["name"], each["gives"] or "—", each["asks_for"] or "—")
    heads = ("@from", "*into", ">bare", ">upgraded", ">some line", ">with harm")
    works = _table("Some arrays of each, with the usual function of each other one", *heads)
    worst = _table("What does harm, or passes by no line", "@into", "*array", "*it comes to")
    for pair in told["pairs"]:
        arrays = pair["arrays"]
        right = [sum(each[part] == "works" for each in arrays) for part in ("bare", "upgraded")]
        right.append(sum(bool(each["line"]) for each in arrays))
        harm = sum(bool(each["harm"]) for each in arrays)
        counts = [f"{number}/{len(arrays)}" for number in right]
        works.add(pair["from"], pair["into"], *counts, str(harm or ""))
        for each in arrays:
            if what := _worst(each):
                worst.add(pair["into"], each["array"], what)
    lacking = _table("Not tried", "@what", "*why")
    for what, why in told["left_out"].items():
        lacking.add(what, why.partition("\n")[0])
    return [table for table in (asked, works, worst, lacking) if table.rows]


def _worst(told: Facts) -> str:
    """What is to be known of an array: harm that a bare call does, or that it passes by no line."""
    if told["bare"] == "dies":
        return "bare it ends the process"
    if told["bare"] in ("wrong", "hangs"):
        return f"bare it comes to: {told['bare_why']}"
    return "" if told["line"] else str(told["why"])


def installed_blocks(told: Facts) -> list[Block]:
    drivers = "; ".join(f"{name} {path or 'not found'}" for name, path in told["drivers"].items())
    rows = {key: told[key] for key in ("dlshim", "extension", "python")} | {"drivers": drivers}
    note = Note([line((key.ljust(11), "strong"), text) for key, text in rows.items()])
    return [note, *_installed_tables(told)]


def tried_blocks(told: Facts) -> list[Block]:
    verdict = line(("all ordinary arrays pass by some line", "good"))
    if not told["works"]:
        verdict = line(("some ordinary arrays do not pass", "bad"))
    if not told["pairs"]:
        verdict = line("no two array libraries that it can try are installed")
    arrays = sum(len(pair["arrays"]) for pair in told["pairs"])
    processes = f"{told['children']} child process{'es' * (told['children'] != 1)}"
    sums = f"{arrays} arrays and functions, {told['calls']} calls in {processes}"
    more = "python -m dlshim inspect ARRAY --to FUNCTION  shows each line"
    verb = 'dlshim.to(x, "numpy"), or another library: any array, and lists and tables'
    return [
        *_tried_tables(told),
        Box("dlshim doctor", [line(sums), line(more), line(verb), verdict]),
    ]


def main(arguments: list[str]) -> int:
    """Print the diagnosis; return the exit status."""
    parser = Parser("doctor", DOCTOR)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--no-trial", action="store_true", help="try nothing")
    options = parser.parse_args(arguments)
    told = diagnose()
    if not options.json:
        show(installed_blocks(told))
        sys.stdout.flush()
    told |= {"pairs": [], "works": True} if options.no_trial else trial(told)
    if options.json:
        import json

        print(json.dumps(told, indent=1))
    elif not options.no_trial:
        show(tried_blocks(told))
    return 0 if told["works"] else 1
