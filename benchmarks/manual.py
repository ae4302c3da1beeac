"""Writes the tables of the manual's page on performance, in one run.

    python benchmarks/manual.py FOLDER [--python PYTHON ...]

All is counted and timed in the environment that runs this. With --python, which may be given more
than once, a table of instructions on several CPythons and NumPys is written, too: PYTHON is the
interpreter of an environment with dlshim, NumPy, PyArrow and apache-tvm-ffi, and folders `numpy-*`
of that environment have other releases of NumPy (`pip install --target`).
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import subprocess
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import build

build.add_path()

import bench  # noqa: E402
import instructions  # noqa: E402
import operations as ops  # noqa: E402
import report  # noqa: E402
from instructions import Cost  # noqa: E402

GROUPS = (
    *("calls", "pieces", "dimensions", "tables", "journeys", "copies", "tensors", "older"),
    *("refusals", "kernels", "raw_capsules", "off_host", "first_meetings", "releases"),
    *("arguments", "authored"),
)
#: What stands beside dlshim in each case, the first that was measured.
BESIDE = ("bare", "by hand", "plain", "direct", "upgrade")
#: What is one step beside the shortest road: no row of these may grow unseen.
STEPS_BESIDE = "|".join(
    (
        *(r"kernel, (1|8|12|20) of numpy", r"kernel, (?!\d).*", r"from_dlpack, \w+=", "first .*"),
        *(r"to_capsule, (?!torch).*", ".* CUDA, .*", "a class, .*", "a Tensor, .*"),
        *(r"(standard class|pyarrow|instance) to numpy", r".*, \d+\.\d+"),
    )
)
PATTERN = rf"^({STEPS_BESIDE}) \| (dlshim|{'|'.join(BESIDE)})$"
PEERS = r"^(legacy|pylegacy|modern|numpy|torch) to numpy \| (ctypes-dlpack|pydlpack)$"
#: What the tables have: of the journeys, no adapter but those in a table.
SHOWN_WAYS = rf"\| (dlshim|floor.*|inner|torch|{'|'.join(BESIDE)})$|^.* tvm-ffi( call)? \| tvm-ffi$"
SHOWN_WAYS += r"|^a function of|kept argument"
TIMED_APART = "jax|torch subclass|tvm-ffi|by a capsule|standard class|pyarrow"
RAW = ("numpy", "torch")

Table = tuple[report.Row, Iterable[report.Row]]


class Measured(NamedTuple):
    selected: list[ops.Operation]
    counted: Cost
    timed: Cost

    def cases(self, pattern: str, group: str = "") -> list[str]:
        names = {each.case for each in ops.GROUPS[group]()} if group else None
        every = dict.fromkeys(each.case for each in self.selected)
        return [case for case in every if re.search(pattern, case) and (not names or case in names)]


def cell(cost: Cost, case: str, way: str) -> str:
    found = cost.get(f"{case} | {way}")
    return f"{found:.0f}" if found is not None else ""


def pairs(cost: Cost, cases: Iterable[str]) -> Iterator[report.Row]:
    """Case, what stands beside it, its cost, that of dlshim, and the ratio."""
    for case in cases:
        own = cost.get(f"{case} | dlshim")
        beside = next((way for way in BESIDE if f"{case} | {way}" in cost), None)
        if own is not None and beside is not None:
            least = cost[f"{case} | {beside}"]
            yield plain(case), beside, f"{least:.0f}", f"{own:.0f}", f"{own / least:.2f}"


def plain(case: str) -> str:
    """The case without the release of NumPy, which its column says."""
    return re.sub(r", \d+\.\d+$", "", case)


# ---- the tables of one environment ---------------------------------------------------------


def exchanges(m: Measured) -> Iterator[tuple[str, Table]]:
    heads = ("exchange", "bare", "dlshim", "ratio")
    usual = [c for c in m.cases("", "journeys") if not re.search(TIMED_APART, c)]
    apart = [*m.cases("jax|torch subclass", "journeys"), "device of JAX", *m.cases("^refused")]
    for name, cases in (("times", usual), ("times-jax", apart)):
        rows = pairs(m.timed, cases)
        yield name, (heads, [(case, *numbers) for case, _, *numbers in rows])
    rows = pairs(m.timed, m.cases(f"^({STEPS_BESIDE})$"))
    yield "times-steps", (("operation", "beside", "bare", "dlshim", "ratio"), rows)
    rows = (
        (case, *(cell(m.counted, case, way) for way in bench.WRAPPERS))
        for case in m.cases(" to numpy$", "journeys")
    )
    heads = ("exchange", *bench.WRAPPERS)
    yield "instructions-peers", (heads, [row for row in rows if all(row)])


def capsules(m: Measured) -> Iterator[tuple[str, Table]]:
    """The roads of an array into torch, instructions and nanoseconds."""
    heads = ("given", *(f"{producer}{unit}" for producer in RAW for unit in ("", " ns")))
    rows = []
    for given, way in {
        "x": "bare",
        "dlshim.upgrade(x)": "upgrade",
        "dlshim.to_capsule(x)": "dlshim",
    }.items():
        cases = [f"{producer} to torch by a capsule" for producer in RAW]
        cells = [cell(cost, case, way) for case in cases for cost in (m.counted, m.timed)]
        rows.append((given, *cells))
    yield "times-capsules", (heads, rows)


def arguments(m: Measured) -> Iterator[tuple[str, Table]]:
    rows = []
    for case in m.cases("", "arguments"):
        for unit, cost in (("nanoseconds", m.timed), ("instructions", m.counted)):
            told = (cell(cost, case, way) for way in ("bare", "upgrade", "dlshim", "tvm-ffi"))
            rows.append((f"{case.partition(',')[0]}, {unit}", *told))
    yield "times-arguments", (("array", "itself", "producer", "tensor", "tvm-ffi"), rows)
    rows = []
    for case in m.cases("tvm-ffi", "journeys"):
        told = [cell(m.timed, case, way) for way in ("bare", "dlshim", "tvm-ffi")]
        ratio = m.timed[f"{case} | dlshim"] / m.timed[f"{case} | bare"]
        rows.append((case.replace("to tvm-ffi", "to tvm_ffi.from_dlpack")
                     if case.endswith("tvm-ffi") else case, *told, f"{ratio:.2f}"))  # fmt: skip
    yield "times-calls", (("exchange", "bare", "dlshim", "tvm-ffi", "ratio"), rows)


def kernels(m: Measured) -> Iterator[tuple[str, Table]]:
    names = {"numpy": "NumPy", "torch": "torch", "legacy": "a legacy C object"}
    called = {"bare": "bare", "upgrade": "with upgrade around each", "dlshim": "as a kernel"}
    counts = (1, 2, 3, 8, 12, 20)
    rows = [
        (name, told, *(cell(m.counted, f"kernel, {n} of {key}", way) for n in counts))
        for key, name in names.items()
        for way, told in called.items()
    ]
    heads = ("arrays of", "called", "one argument", "two", "three", *map(str, counts[3:]))
    yield "kernel_costs", (heads, rows)
    rows = [
        (case, *(cell(m.counted, f"kernel, {case}", way) for way in ("by hand", "dlshim")))
        for case in ops.TOLD
    ]
    yield "kernel_told", (("a kernel with", "by hand", "as a kernel"), rows)


def authors(m: Measured) -> Iterator[tuple[str, Table]]:
    ways = {
        "nb": "nanobind",
        "nb const": "nanobind, const",
        "import": "nanobind, dlshim::array",
        "borrow": "nanobind, dlshim::borrowed",
        "pybuffer": "pybind11 buffer",
        "pyimport": "pybind11, dlshim::array",
        "tvm": "tvm-ffi call",
    }
    rows = []
    for producer in ("numpy", "torch", "legacy", "pylegacy", "modern", "jax"):
        case = f"a function of {producer}"
        cells = [cell(m.counted, case, way) for way in ways.values()]
        if producer == "jax":  # its arrays may not be written
            suffixed = [ways["nb const"], *(f"{ways[w]} const" for w in ("import", "borrow"))]
            const = [cell(m.counted, case, way) for way in suffixed]
            cells = [const[0], const[0], *const[1:], "", "", cells[-1]]
        rows.append((f"{producer} (const)" if producer == "jax" else producer, *cells))
    yield "instructions-authors", (("producer", *ways), rows)


def budgets(m: Measured) -> Iterator[tuple[str, Table]]:
    steps, journeys = instructions.judge(instructions.load_budgets(), m.counted)
    usual = [row for row in journeys if not re.search(r", \d+\.\d+$", row.case)]
    shown = [row for row in steps if re.search(SHOWN, row.case)]
    yield "instructions-steps", (instructions.STEPS, instructions.step_rows(shown, m.counted))
    rows = instructions.journey_rows(usual, m.counted)
    yield "instructions-journeys", (instructions.JOURNEYS, rows)


#: The steps that are shown beside the floor probe.
SHOWN = "construct|to versioned$|to legacy|handed on|device of|^from_dlpack, (legacy|vers|C table)"
TABLES = (exchanges, capsules, arguments, kernels, authors, budgets)

# ---- several CPythons and NumPys -----------------------------------------------------------

INSIDE = """
import importlib.metadata, json, platform, sys
import build
build.ensure()
import instructions, operations
counted = instructions.count(sys.argv[1].split(","), sys.argv[2])
names = ("numpy", "pyarrow")
told = [platform.python_version(), *(importlib.metadata.version(name) for name in names)]
print(json.dumps([told, counted]))
"""


def counted_by(python: pathlib.Path, numpy: pathlib.Path | None) -> tuple[list[str], Cost]:
    """CPython, NumPy and PyArrow of an environment, and the counts there."""
    environment = dict(os.environ)
    environment.pop("PYTHONPATH", None)
    if numpy:
        environment["PYTHONPATH"] = str(numpy)
    command = [str(python), "-c", INSIDE, ",".join(GROUPS), PATTERN]
    done = subprocess.run(
        command, env=environment, cwd=build.HERE, check=True, stdout=subprocess.PIPE, text=True
    )
    told, counted = json.loads(done.stdout.splitlines()[-1])
    return told, {f"{plain(k.rpartition(' | ')[0])} | {k.rpartition(' | ')[2]}": n
                  for k, n in counted.items()}  # fmt: skip


def short(release: str) -> str:
    return ".".join(release.split(".")[:2])


Environment = tuple[list[str], Cost]


def environments(python: pathlib.Path) -> list[Environment]:
    """The counts with the newest NumPy of a CPython, which is that of its environment, and then
    with each other."""
    found = [counted_by(python, None)]
    for folder in sorted(python.parent.parent.glob("numpy-*")):
        if short(folder.name.partition("-")[2]) != short(found[0][0][1]):
            found.append(counted_by(python, folder))
    return found


def versions(pythons: list[pathlib.Path]) -> tuple[str, report.Row, list[report.Row]]:
    """What it was, heads and rows: an operation with one NumPy, on each CPython.  Instructions do
    not notice that others are counted meanwhile."""
    found: dict[tuple[str, str], Cost] = {}
    told, heads = [], []
    with ThreadPoolExecutor() as pool:
        counted = list(pool.map(environments, pythons))
    for each in counted:
        release, _, arrow = each[0][0]
        heads.append(short(release))
        found[heads[-1], "newest"] = each[0][1]
        found |= {(heads[-1], short(numpy)): cost for (_, numpy, _), cost in each}
        numpys = ", ".join(numpy for (_, numpy, _), _ in each)
        told.append(f"CPython {release} (NumPy {numpys}, PyArrow {arrow})")
    rows = []
    for numpy in ("1.26", "2.2", "newest"):
        every = dict.fromkeys(
            name.rpartition(" | ")[0]
            for (_, which), cost in found.items()
            if which == numpy
            for name in cost
        )
        for case in every:
            costs = [found.get((python, numpy), {}) for python in heads]
            both = [next(pairs(cost, [case]), ("", "", "", "", "")) for cost in costs]
            beside = next((row[1] for row in both if row[1]), "")
            if beside:
                rows.append((case, beside, numpy, *(c for row in both for c in row[2:4])))
    columns = [
        f"py{python.replace('.', '')} {what}" for python in heads for what in ("bare", "dlshim")
    ]
    return "; ".join(told), ("operation", "beside", "numpy", *columns), rows


# ---- all -----------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="where the tables are written")
    parser.add_argument("--python", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--without-peers", action="store_true", help="they take long to count")
    parser.add_argument("--only-versions", action="store_true", help="nothing but that table")
    given = parser.parse_args()
    build.ensure()
    told = report.conditions(*ops.distributions())
    if not given.only_versions:
        pattern = SHOWN_WAYS if given.without_peers else f"{SHOWN_WAYS}|{PEERS}"
        selected = ops.select(GROUPS, pattern)
        counted = instructions.count(list(GROUPS), pattern)
        timed = {name: min(each) for name, each in bench.measure(selected).items()}
        m = Measured(selected, counted, timed)
        for tables in TABLES:
            for name, (heads, rows) in tables(m):
                if lines := list(rows):
                    report.write_csv(given.folder / f"{name}.csv", told, heads, lines)
    if given.python:
        where, heads, rows = versions(given.python)
        told = f"{told.partition(', CPython')[0]}, {where}"
        report.write_csv(given.folder / "instructions-versions.csv", told, heads, rows)


if __name__ == "__main__":
    main()
