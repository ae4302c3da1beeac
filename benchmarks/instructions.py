"""Instructions per operation, counted by callgrind.

    python benchmarks/instructions.py [--groups calls,pieces,...] [--select REGEX] [--json FILE]

One process runs under valgrind.  Counting begins when everything is imported and warm.  Each
statement runs N and 2N times; the slope is the cost of one, the median of three slopes counts,
and the empty loop is subtracted.  The exit status is 1 when a gate of budgets.toml fails, 2 when
nothing could be counted.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import build

build.add_path()

import operations as ops  # noqa: E402
import report  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
EMPTY = "(empty loop)"
ROUNDS = 3
WARM = 60  # beyond the interpreter's specialisation and every cache of plans
DUMP = "dls"  # marks our dumps among callgrind's own


# ---- inside valgrind ----------------------------------------------------------------------


def count_here(selected: list[ops.Operation], n: int, failures: pathlib.Path) -> None:
    """Runs every loop between marks; the dumps on disk are the result."""
    import dls_floor

    names = ops.Namespace()
    failed, ready = {}, []
    for index, operation in enumerate([None, *selected]):
        try:
            loop = ops.make_loop(operation, names)
            loop(WARM if operation is None or operation.loops == 1 else 2)
        except Exception as error:  # a peer may refuse; the others still count
            failed[operation.name] = f"{type(error).__name__}: {error}"
        else:
            ready.append((index, operation, loop))
    failures.write_text(json.dumps(failed))
    gc.collect()
    gc.disable()
    if not dls_floor.callgrind_start():
        raise SystemExit("not running under callgrind, or built without its header")
    for index, operation, loop in ready:
        once = n if operation is None or operation.loops == 1 else max(2, n // operation.loops)
        loop(once)
        for round_ in range(ROUNDS):
            for times in (once, 2 * once):
                dls_floor.callgrind_zero()
                loop(times)
                dls_floor.callgrind_dump(f"{DUMP}:{index}:{round_}:{times}")


# ---- outside ------------------------------------------------------------------------------


def run_valgrind(arguments: argparse.Namespace, folder: pathlib.Path) -> dict[str, str]:
    failures = folder / "failures.json"
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--quiet"]
    command += [f"--callgrind-out-file={folder}/out", "--dump-line=no"]
    command += [sys.executable, __file__, "--inside", str(failures)]
    command += ["--groups", ",".join(arguments.groups), "--select", arguments.select]
    command += ["-n", str(arguments.n)]
    environment = dict(os.environ, PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        environment[name] = "1"
    done = subprocess.run(command, env=environment, cwd=folder)
    if done.returncode != 0:
        print(f"valgrind ended with status {done.returncode}", file=sys.stderr)
    return json.loads(failures.read_text()) if failures.exists() else {}


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
        dump = read_dump(path)
        if dump:
            index, round_, times, instructions = dump
            totals.setdefault((index, round_), []).append((times, instructions))
    slopes: dict[int, list[float]] = {}
    for (index, _), pair in totals.items():
        if len(pair) == 2:
            (few, low), (many, high) = sorted(pair)
            slopes.setdefault(index, []).append((high - low) / (many - few))
    return {index: statistics.median(found) for index, found in slopes.items()}


def per_operation(selected: list[ops.Operation], counts: dict[int, float]) -> dict[str, float]:
    empty = counts.get(0, 0.0)
    return {
        operation.name: (counts[index] - empty) / operation.loops
        for index, operation in enumerate(selected, start=1)
        if index in counts
    }


# ---- judging ------------------------------------------------------------------------------


def load_budgets() -> dict:
    try:
        import tomllib
    except ModuleNotFoundError:  # before 3.11
        import tomli as tomllib
    return tomllib.loads((HERE / "budgets.toml").read_text())


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _verdict(value: float | None, limit: float | None) -> str:
    if value is None or limit is None:
        return "-"
    return "within" if value <= limit else "OVER"


def scale(piece: dict, floor: float | None) -> float:
    """How the probe of this interpreter stands to the same probe on CPython 3.11."""
    if sys.version_info[:2] == (3, 11) or not floor:
        return 1.0
    return floor / piece["probe"]


def extra(rule: dict, cost: dict[str, float]) -> float:
    """What the budget leaves out, as it was measured in this run, without the call itself."""
    if rule.get("plus") not in cost:
        return 0.0
    return cost[rule["plus"]] - cost.get("a call of nothing | floor", 0.0)


def piece_limit(piece: dict, cost: dict[str, float]) -> float | None:
    """The budget for this interpreter; None where what it depends on was not measured."""
    base = cost.get(f"{piece['case']} | {piece.get('over', 'floor')}")
    if "over" not in piece:
        return piece["budget"] * scale(piece, base) + extra(piece, cost)
    return None if base is None else base + piece["budget"] + extra(piece, cost)


def journey_limit(journey: dict, cost: dict[str, float]) -> float:
    """At most so many times the bare consumer."""
    bare = cost.get(f"{journey['case']} | bare")
    return journey["at_most"] + (extra(journey, cost) / bare if bare else 0)


def piece_row(piece: dict, cost: dict[str, float]) -> tuple[str, ...]:
    """Floor of this run, budget for this interpreter, dlshim, and the two ratios."""
    case, over = piece["case"], piece.get("over")
    floor, own = cost.get(f"{case} | floor"), cost.get(f"{case} | dlshim")
    limit = piece_limit(piece, cost)
    budget = f"{over} + {piece['budget']}" if over else f"{piece['budget']}"
    budget += " + bit" if "plus" in piece else ""
    share = f"{own / floor:.2f}" if own and floor else "-"
    allowed = f"{limit / floor:.2f}" if limit and floor else "-"
    numbers = (_number(floor), budget, _number(limit), _number(own))
    return (case, *numbers, share, allowed, _verdict(own, limit))


def dimension_row(rule: dict, cost: dict[str, float]) -> tuple[str, ...]:
    each = {}
    for way in ("floor", "dlshim"):
        first, last = cost.get(f"{rule['first']} | {way}"), cost.get(f"{rule['last']} | {way}")
        each[way] = (last - first) / rule["dimensions"] if first and last else None
    floor, own = each["floor"], each["dlshim"]
    share = f"{own / floor:.2f}" if own and floor else "-"
    budget = rule["budget"]
    allowed = f"{budget / rule['floor']:.2f}"
    verdict = _verdict(own, budget)
    numbers = (_number(floor), f"{budget}", f"{budget}", _number(own))
    return ("each further dimension", *numbers, share, allowed, verdict)


def journey_row(journey: dict, cost: dict[str, float]) -> tuple[str, ...]:
    case = journey["case"]
    ways = ("bare", "floor table", "floor", "dlshim")
    bare, table, floor, own = (cost.get(f"{case} | {way}") for way in ways)
    floor = table if table is not None else floor
    ratios = [f"{x / bare:.3f}" if bare and x else "-" for x in (floor, own)]
    limit = journey_limit(journey, cost)
    verdict = _verdict(own / bare if own and bare else None, limit)
    return (case, *map(_number, (bare, floor, own)), *ratios, f"{limit:.2f}", verdict)


def print_judgement(budgets: dict, cost: dict[str, float]) -> None:
    heads = ("operation", "F", "budget", "limit", "dlshim", "x F", "limit x F", "")
    rows = [piece_row(piece, cost) for piece in budgets["piece"]]
    rows += [dimension_row(rule, cost) for rule in budgets.get("dimension", ())]
    print(report.table(heads, [row for row in rows if row[1] != "-" or row[4] != "-"]))
    print()
    heads = ("journey", "bare", "floor", "dlshim", "floor/bare", "dlshim/bare", "limit", "")
    rows = [journey_row(journey, cost) for journey in budgets["journey"]]
    print(report.table(heads, [row for row in rows if row[1] != "-"]))


# ---- gates --------------------------------------------------------------------------------

SLACK = 1.05  # a row may cost so much more than what is held
MEAN_SLACK = 1.003  # the geometric mean of all rows: two runs differ by that


def held_rows(budgets: dict, cost: dict[str, float]) -> list[Held]:
    """Everything in budgets.toml that has a `held`, as far as it was measured."""

    def row(rule: dict, case: str, base: str, budget: float | None) -> Held | None:
        own, under = cost.get(f"{case} | dlshim"), cost.get(f"{case} | {base}")
        if own is None or under is None:
            return None
        return Held(case, own, under, rule.get("held"), budget, added="over" in rule)

    rows = []
    for piece in budgets["piece"]:
        limit = piece_limit(piece, cost)
        rows.append(row(piece, piece["case"], piece.get("over", "floor"), limit))
    for rule in budgets.get("dimension", ()):
        rows.append(row(rule, rule["last"], "floor", None))
    for journey in budgets["journey"]:
        bare = cost.get(f"{journey['case']} | bare", 0.0)
        rows.append(row(journey, journey["case"], "bare", journey_limit(journey, cost) * bare))
    return [each for each in rows if each is not None]


@dataclass(frozen=True)
class Held:
    """What an operation cost when it was last lowered: `held` times the base (the floor probe,
    or the bare consumer, of the same run), or `held` instructions more than it."""

    case: str
    own: float
    base: float
    held: float | None
    budget: float | None
    added: bool

    @property
    def now(self) -> float:
        return round(self.own - self.base) if self.added else round(self.own / self.base, 3)

    @property
    def expected(self) -> float | None:
        if self.held is None:
            return None
        return self.base + self.held if self.added else self.base * self.held

    @property
    def limit(self) -> float | None:
        """SLACK above what is held, or the budget where that is more."""
        if self.expected is None:
            return None
        return max(self.expected * SLACK, self.budget or 0.0)

    @property
    def failed(self) -> bool:
        return self.limit is not None and self.own > self.limit


def mean_change(rows: list[Held]) -> float:
    """The geometric mean of what was measured, as a multiple of what is held."""
    changes = [row.own / row.expected for row in rows if row.expected]
    return statistics.geometric_mean(changes) if changes else 1.0


def check_held(budgets: dict, cost: dict[str, float]) -> bool:
    rows = [row for row in held_rows(budgets, cost) if row.limit is not None]
    heads = ("gate: no more than before", "base", "held", "limit", "dlshim", "now", "")
    lines = []
    for row in rows:
        held = f"+ {row.held}" if row.added else f"x {row.held}"
        now = f"+ {row.now}" if row.added else f"x {row.now}"
        verdict = "FAILED" if row.failed else "passed"
        numbers = (_number(row.base), held, _number(row.limit), _number(row.own), now)
        lines.append((row.case, *numbers, verdict))
    if not lines:
        return False
    print(report.table(heads, lines), end="\n\n")
    mean = mean_change(rows)
    risen = mean > MEAN_SLACK
    print(f"GATE geometric mean of {len(rows)} rows: {mean:.4f} of what is held, at most ", end="")
    print(f"{MEAN_SLACK}: {'FAILED' if risen else 'passed'}")
    return not risen and all(line[-1] == "passed" for line in lines)


def hold(budgets: dict, cost: dict[str, float]) -> None:
    """Write what was measured, unless the geometric mean has risen."""
    rows = held_rows(budgets, cost)
    if mean_change(rows) > MEAN_SLACK:
        raise SystemExit("the geometric mean has risen, so nothing is written")
    path = HERE / "budgets.toml"
    blocks = path.read_text().split("\n\n")
    for row in rows:
        for i, block in enumerate(blocks):
            if re.search(rf'^(case|last) = "{re.escape(row.case)}"$', block, re.M):
                if "[[gate]]" in block:
                    continue
                block = re.sub(r"\nheld = .*", "", block)
                blocks[i] = f"{block.rstrip()}\nheld = {row.now}"
    path.write_text("\n\n".join(blocks).rstrip() + "\n")


def check_gates(budgets: dict, cost: dict[str, float]) -> bool:
    good = check_held(budgets, cost)
    for gate in budgets["gate"]:
        case, way, against = gate["case"], gate["way"], gate["against"]
        own, other = cost.get(f"{case} | {way}"), cost.get(f"{case} | {against}")
        if own is None or other is None:
            optional = gate.get("optional", False)
            print(f"GATE {case}: not measured, so not {'judged' if optional else 'passed'}")
            good = good and optional
            continue
        passed = own < gate["below"] * other
        good = good and passed
        print(
            f"GATE {case}: {way} {own:.0f} against {against} {other:.0f} "
            f"= {own / other:.3f}, must be below {gate['below']}: "
            f"{'passed' if passed else 'FAILED'}"
        )
    return good


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    everything = ",".join(ops.GROUPS)
    parser.add_argument(
        "--groups",
        default=",".join((*ops.DEFAULT_GROUPS, "tables")),
        type=lambda text: (everything if text == "all" else text).split(","),
        help=f"any of {everything}, or all",
    )
    parser.add_argument("--select", default="", help="only operations whose name matches")
    parser.add_argument("-n", type=int, default=200, help="executions in the shorter loop")
    parser.add_argument("--json", type=pathlib.Path, help="write the counts here")
    parser.add_argument("--keep", type=pathlib.Path, help="keep callgrind's files here")
    parser.add_argument("--hold", action="store_true", help="write the counts into budgets.toml")
    parser.add_argument("--no-gate", action="store_true", help="show only")
    parser.add_argument("--inside", type=pathlib.Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def measured_again(arguments: argparse.Namespace, budgets: dict, cost: dict) -> dict[str, float]:
    """The counts, with those of each case that is dearer than what is held from a run of the
    failed cases alone, where that is cheaper.

    Among many others a case may find one of pymalloc's pools full to the last place: then each
    object opens and closes a pool, some 240 instructions that are not the case's.
    """
    failed = {row.case: row for row in held_rows(budgets, cost) if row.failed}
    if not failed:
        return cost
    alone = argparse.Namespace(**vars(arguments))
    alone.select = "^({}) [|] ".format("|".join(map(re.escape, failed)))
    with tempfile.TemporaryDirectory() as folder:
        run_valgrind(alone, pathlib.Path(folder))
        selected = ops.select(alone.groups, alone.select)
        found = per_operation(selected, read_counts(pathlib.Path(folder)))
    better = [r.case for r in held_rows(budgets, found) if r.now < failed[r.case].now]
    print(f"measured again: {', '.join(failed)}; cheaper: {', '.join(better) or 'none'}\n")
    return cost | {
        name: counted for name, counted in found.items() if name.rpartition(" | ")[0] in better
    }


def measure(arguments: argparse.Namespace, folder: pathlib.Path) -> int:
    selected = ops.select(arguments.groups, arguments.select)
    failures = run_valgrind(arguments, folder)
    cost = per_operation(selected, read_counts(folder))
    if not cost:
        print("nothing was counted", file=sys.stderr)
        return 2
    print(f"{platform.python_implementation()} {platform.python_version()}, instructions")
    print(report.versions(), end="\n\n")
    print(report.by_road(selected, cost, "instr"), end="\n\n")
    for name, reason in failures.items():
        print(f"failed: {name}: {reason}")
    budgets = load_budgets()
    print_judgement(budgets, cost)
    if arguments.json:
        arguments.json.write_text(json.dumps(cost, indent=1) + "\n")
    if arguments.keep:
        index = {f"{i}": operation.name for i, operation in enumerate(selected, start=1)}
        (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    if arguments.hold:
        hold(budgets, cost)
    if arguments.no_gate:
        return 0
    return 0 if check_gates(budgets, measured_again(arguments, budgets, cost)) else 1


def main() -> int:
    arguments = parse()
    if arguments.inside:
        count_here(ops.select(arguments.groups, arguments.select), arguments.n, arguments.inside)
        return 0
    build.ensure()
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        return measure(arguments, arguments.keep.resolve())
    with tempfile.TemporaryDirectory() as folder:
        return measure(arguments, pathlib.Path(folder))


if __name__ == "__main__":
    raise SystemExit(main())
