"""Instructions per operation, counted by callgrind.

    python benchmarks/instructions.py [--groups calls,pieces,...] [--select REGEX] [--csv FOLDER]

One process runs under valgrind. Counting begins when everything is imported and warm. Each
statement runs N and 2N times; the slope is the cost of one, the median of three slopes counts,
and the empty loop is subtracted. The exit status is 1 when a gate of budgets.toml fails, 2 when
nothing could be counted.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

import build

build.add_path()

import operations as ops  # noqa: E402
import report  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
TIMES = 200  # executions in the shorter loop
ROUNDS = 3
WARM = 60  # beyond the interpreter's specialisation and every cache of plans
DUMP = "dls"  # marks our dumps among callgrind's own

Cost = dict[str, float]
"""operation -> instructions"""


# ---- inside valgrind ----------------------------------------------------------------------


def count_here(selected: list[ops.Operation], failures: pathlib.Path) -> None:
    """Runs every loop between marks; the dumps on disk are the result."""
    import dls_floor

    names = ops.Namespace()
    failed, ready = {}, []
    for index, operation in enumerate([None, *selected]):
        once = TIMES if operation is None or operation.loops == 1 else 2
        try:
            loop = ops.make_loop(operation, names)
            loop(min(WARM, once))
        except Exception as error:  # a peer may refuse; the others still count
            failed[operation.name] = f"{type(error).__name__}: {error}"
        else:
            ready.append((index, once, loop))
    failures.write_text(json.dumps(failed))
    gc.collect()
    gc.disable()
    if not dls_floor.callgrind_start():
        raise SystemExit("not running under callgrind, or built without its header")
    for index, once, loop in ready:
        loop(once)
        for round_ in range(ROUNDS):
            for times in (once, 2 * once):
                dls_floor.callgrind_zero()
                loop(times)
                dls_floor.callgrind_dump(f"{DUMP}:{index}:{round_}:{times}")


# ---- outside ------------------------------------------------------------------------------


def count_beside(numpy: pathlib.Path, pattern: str) -> Cost:
    """The group `releases` with the NumPy in this folder."""
    with tempfile.TemporaryDirectory() as temporary:
        counts = pathlib.Path(temporary) / "counts.json"
        command = [sys.executable, __file__, "--groups", "releases", "--select", pattern]
        environment = dict(os.environ, PYTHONPATH=str(numpy))
        subprocess.run([*command, "--json", counts], env=environment, stdout=subprocess.DEVNULL)
        return json.loads(counts.read_text()) if counts.exists() else {}


def run_valgrind(groups: list[str], pattern: str, folder: pathlib.Path) -> None:
    failures = folder / "failures.json"
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--quiet"]
    command += [f"--callgrind-out-file={folder}/out", "--dump-line=no", sys.executable, __file__]
    command += ["--inside", str(failures), "--groups", ",".join(groups), "--select", pattern]
    environment = dict(os.environ, PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        environment[name] = "1"
    done = subprocess.run(command, env=environment, cwd=folder)
    if done.returncode != 0:
        print(f"valgrind ended with status {done.returncode}", file=sys.stderr)
    failed = json.loads(failures.read_text()) if failures.exists() else {}
    for name, reason in failed.items():
        print(f"failed: {name}: {reason}")


_TRIGGER = re.compile(rf"Client Request: {DUMP}:(\d+):(\d+):(\d+)")


def read_dump(path: pathlib.Path) -> tuple[int, int, int, int] | None:
    """Index, round, times and instructions of one dump; None for one that is not ours."""
    key = None
    with path.open(errors="replace") as lines:
        for line in lines:
            if line.startswith("desc: Trigger:"):
                found = _TRIGGER.search(line)
                key = tuple(map(int, found.groups())) if found else None
            elif line.startswith("summary:"):
                return (*key, int(line.split()[1])) if key else None
    return None


def read_counts(folder: pathlib.Path) -> dict[int, float]:
    """Index: instructions per statement, the empty loop still in it."""
    totals: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for path in folder.glob("out.*"):
        if dump := read_dump(path):
            index, round_, times, instructions = dump
            totals.setdefault((index, round_), []).append((times, instructions))
    slopes: dict[int, list[float]] = {}
    for (index, _), pair in totals.items():
        if len(pair) == 2:
            (few, low), (many, high) = sorted(pair)
            slopes.setdefault(index, []).append((high - low) / (many - few))
    return {index: statistics.median(found) for index, found in slopes.items()}


def count(groups: list[str], pattern: str, keep: pathlib.Path | None = None) -> Cost:
    selected = ops.select(groups, pattern)
    with tempfile.TemporaryDirectory() as temporary:
        folder = keep or pathlib.Path(temporary)
        run_valgrind(groups, pattern, folder)
        counts = read_counts(folder)
    if keep:
        index = {f"{i}": operation.name for i, operation in enumerate(selected, start=1)}
        (keep / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    return {
        operation.name: (counts[index] - counts.get(0, 0.0)) / operation.loops
        for index, operation in enumerate(selected, start=1)
        if index in counts
    }


# ---- budgets ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """A row of budgets.toml that was measured."""

    rule: dict[str, Any]
    own: float
    base: float
    #: The budget as instructions of this run; 0 where there is none.
    limit: float

    @property
    def case(self) -> str:
        return self.rule["case"]

    @property
    def added(self) -> bool:
        """Whether `held` says how many more than the base, and not how many times the base."""
        return "over" in self.rule

    @property
    def now(self) -> float:
        return round(self.own - self.base) if self.added else round(self.own / self.base, 3)

    @property
    def expected(self) -> float:
        held = self.rule["held"]
        return self.base + held if self.added else self.base * held

    @property
    def verdict(self) -> str:
        return "-" if not self.limit else "within" if self.own <= self.limit else "OVER"


def extra(rule: dict[str, Any], cost: Cost) -> float:
    """What the budget leaves out, as it was measured in this run, without the call itself."""
    if rule.get("plus") not in cost:
        return 0.0
    return cost[rule["plus"]] - cost.get("a call of nothing | floor", 0.0)


def judged(rules: list[dict[str, Any]], usual: str, cost: Cost) -> list[Judged]:
    rows = []
    for rule in rules:
        case = rule["case"]
        own, base = (cost.get(f"{case} | {way}") for way in ("dlshim", rule.get("over", usual)))
        if own is not None and base is not None:
            limit = rule["at_most"] * base if "at_most" in rule else rule.get("budget", 0)
            limit += (base if {"over", "budget"} <= rule.keys() else 0) + extra(rule, cost)
            rows.append(Judged(rule, own, base, limit))
    return rows


def step_rows(steps: list[Judged], cost: Cost) -> list[report.Row]:
    rows = []
    for row in steps:
        floor = cost.get(f"{row.case} | floor")
        ratios = (f"{x / floor:.2f}" if floor and x else "-" for x in (row.own, row.limit))
        budget = f"{row.rule['over']} + " if row.added else ""
        budget += str(row.rule.get("budget", "-")) + (" + bit" if "plus" in row.rule else "")
        if "at_most" in row.rule:
            budget = f"{row.rule['at_most']} of {row.rule['over']}"
        least, limit = (f"{x:.0f}" if x else "-" for x in (floor, row.limit))
        rows.append((row.case, least, budget, limit, f"{row.own:.0f}", *ratios, row.verdict))
    return rows


def journey_rows(journeys: list[Judged], cost: Cost) -> list[report.Row]:
    rows = []
    for row in journeys:
        floor = cost.get(f"{row.case} | floor table", cost.get(f"{row.case} | floor"))
        beside = f"{floor:.0f}" if floor else "-", f"{row.own:.0f}"
        ratios = (f"{x / row.base:.3f}" if x else "-" for x in (floor, row.own))
        limit = f"{row.limit / row.base:.2f}"
        rows.append((row.case, f"{row.base:.0f}", *beside, *ratios, limit, row.verdict))
    return rows


STEPS = ("operation", "floor", "budget", "limit", "dlshim", "x floor", "limit x floor", "verdict")
JOURNEYS = (
    *("journey", "bare", "floor", "dlshim", "floor / bare", "dlshim / bare", "limit", "verdict"),
)

# ---- gates --------------------------------------------------------------------------------

SLACK = 1.05  # a row may cost so much more than what is held, and more within its budget
MEAN_SLACK = 1.003  # the geometric mean of all rows: two runs differ by that


def failed(rows: list[Judged]) -> dict[str, Judged]:
    return {row.case: row for row in rows if row.own > max(row.expected * SLACK, row.limit)}


def mean_change(rows: list[Judged]) -> float:
    """The geometric mean of what was measured, as a multiple of what is held."""
    return statistics.geometric_mean(row.own / row.expected for row in rows) if rows else 1.0


def gates(budgets: dict[str, Any], rows: list[Judged], cost: Cost) -> bool:
    """Prints what fails, and every comparison of two ways."""
    for row in failed(rows).values():
        most = max(row.expected * SLACK, row.limit)
        print(f"GATE {row.case}: {row.own:.0f}, {row.expected:.0f} is held, at most {most:.0f}")
    mean = mean_change(rows)
    print(f"GATE geometric mean of {len(rows)} rows: {mean:.4f} of what is held, at most "
          f"{MEAN_SLACK}")  # fmt: skip
    good = bool(rows) and not failed(rows) and mean <= MEAN_SLACK
    for gate in budgets["gate"]:
        own, other = (cost.get(f"{gate['case']} | {gate[side]}") for side in ("way", "against"))
        if own is None or other is None:
            print(f"GATE {gate['case']}, {gate['way']}: not measured")
            good = good and gate.get("optional", False)
            continue
        print(f"GATE {gate['case']}: {gate['way']} {own:.0f} against {gate['against']} {other:.0f}"
              f" = {own / other:.3f}, must be below {gate['below']}")  # fmt: skip
        good = good and own < gate["below"] * other
    print("passed" if good else "FAILED")
    return good


def hold(rows: list[Judged]) -> None:
    """Write what was measured, unless the geometric mean has risen."""
    if mean_change(rows) > MEAN_SLACK:
        raise SystemExit("the geometric mean has risen, so nothing is written")
    path = HERE / "budgets.toml"
    text = path.read_text()
    for row in rows:
        pattern = rf'(case = "{re.escape(row.case)}".* held = )[-\d.]+'
        text = re.sub(pattern, rf"\g<1>{row.now}", text)
    path.write_text(text)


def load_budgets() -> dict[str, Any]:
    try:
        import tomllib
    except ModuleNotFoundError:  # before 3.11
        import tomli as tomllib
    return tomllib.loads((HERE / "budgets.toml").read_text())


def counted_again(
    groups: list[str],
    before: dict[str, Judged],
    budgets: Any,
    cost: Cost,
    others: list[pathlib.Path],
) -> Cost:
    """The counts, with those of each failed case from a run of these alone, where that is cheaper.

    Among many others a case may find one of pymalloc's pools full to the last place: then each
    object opens and closes a pool, some 240 instructions that are not the case's.
    """
    pattern = "^({}) [|] ".format("|".join(map(re.escape, before)))
    found = count(groups, pattern)
    for numpy in others:
        found |= count_beside(numpy, pattern)
    rows = judge(budgets, found)
    better = [row.case for group in rows for row in group if row.now < before[row.case].now]
    print(f"measured again: {', '.join(before)}; cheaper: {', '.join(better) or 'none'}\n")
    return cost | {
        name: counted for name, counted in found.items() if name.rpartition(" | ")[0] in better
    }


def judge(budgets: Any, cost: Cost) -> tuple[list[Judged], list[Judged]]:
    return judged(budgets["piece"], "floor", cost), judged(budgets["journey"], "bare", cost)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ops.add_arguments(parser, (*ops.DEFAULT_GROUPS, "tables", "kernels"))
    parser.add_argument("--csv", type=pathlib.Path, help="write the tables into this folder")
    parser.add_argument("--json", type=pathlib.Path, help="write the counts here")
    parser.add_argument("--keep", type=pathlib.Path, help="keep callgrind's files here")
    parser.add_argument(
        "--numpy",
        type=pathlib.Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="count the group releases with the NumPy in this folder, too",
    )
    parser.add_argument("--hold", action="store_true", help="write the counts into budgets.toml")
    parser.add_argument("--inside", type=pathlib.Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        count_here(ops.select(given.groups, given.select), given.inside)
        return 0
    build.ensure()
    if given.keep:
        given.keep.mkdir(parents=True, exist_ok=True)
    cost = count(given.groups, given.select, given.keep and given.keep.resolve())
    for numpy in given.numpy:
        cost |= count_beside(numpy, "")
    if not cost:
        print("nothing was counted", file=sys.stderr)
        return 2
    told = report.conditions(*ops.distributions())
    selected = ops.select(given.groups, given.select)
    print(told, ops.by_case(selected, cost, "instr", 0, {}), sep="\n\n")
    budgets = load_budgets()
    steps, journeys = judge(budgets, cost)
    for name, heads, rows in (
        ("instructions-steps", STEPS, step_rows(steps, cost)),
        ("instructions-journeys", JOURNEYS, journey_rows(journeys, cost)),
    ):
        print("", report.table(heads, rows), "", sep="\n")
        if given.csv:
            report.write_csv(given.csv / f"{name}.csv", told, heads, rows)
    if given.json:
        given.json.write_text(json.dumps(cost, indent=1) + "\n")
    if given.hold:
        hold([*steps, *journeys])
    if again := failed([*steps, *journeys]):
        cost = counted_again(given.groups, again, budgets, cost, given.numpy)
        steps, journeys = judge(budgets, cost)
    return 0 if gates(budgets, [*steps, *journeys], cost) else 1


if __name__ == "__main__":
    raise SystemExit(main())
