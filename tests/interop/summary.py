"""What a run of the matrix says: counts, and the four questions that the tests ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dlshim.counted import counted

from . import cells
from .runner import Result

DLSHIM = "dlshim"


def meant(result: Result) -> bool:
    """Refused by dlshim, or with an error that rule T12 counts."""
    return result.refused_by == DLSHIM or counted(result.detail) is not None


class Summary:
    def __init__(self, results: Iterable[Result]) -> None:
        self.by_shim: dict[str, dict[tuple, Result]] = {}
        for result in results:
            self.by_shim.setdefault(result.shim, {})[result.key] = result

    def shim(self, name: str) -> dict[tuple, Result]:
        return self.by_shim.get(name, {})

    def pairs(self, shim: str):
        """(bare, upgraded) results of the same cell."""
        bare, other = self.shim("bare"), self.shim(shim)
        for key in bare.keys() & other.keys():
            if cells.NA not in (bare[key].kind, other[key].kind):
                yield bare[key], other[key]

    def red(self, shim: str = "upgraded") -> list[Result]:
        """Cells that are not as the model says."""
        return [r for r in self.shim(shim).values() if r.red]

    def broken(self, shim: str = "upgraded") -> list[tuple[Result, Result]]:
        """Worked bare and does not work now, or is copied now and need not be.  Rule T12's refusals
        apart.  The bare array has an address of its own, so the model alone knows who copies this
        one (JAX does where it is not aligned to 64 bytes): it is red then."""
        return [
            (bare, other)
            for bare, other in self.pairs(shim)
            if bare.works
            and (
                not other.works
                or (bare.kind == cells.OK and other.kind == cells.COPIED and other.red)
            )
            and not meant(other)
        ]

    def curable(self) -> list[tuple[Result, Result]]:
        """Fails bare, and by the model nothing but the protocol stands in the way."""
        return [(b, u) for b, u in self.pairs("upgraded") if not b.works and not u.row]

    def on_purpose(self) -> list[tuple[Result, Result]]:
        """Worked bare and is refused by dlshim on purpose (T12)."""
        return [(b, u) for b, u in self.pairs("upgraded") if b.works and not u.works and meant(u)]

    def noisy(self, shim: str = "upgraded") -> dict[str, list[Result]]:
        """By warning: the cells that warn of something of which no bare exchange of the two does.
        dlshim's own warning is meant (T8)."""
        bare: dict[tuple[str, str], set[str]] = {}
        for result in self.shim("bare").values():
            bare.setdefault((result.producer, result.consumer), set()).update(result.warned)
        found: dict[str, list[Result]] = {}
        for result in self.shim(shim).values():
            known = bare.get((result.producer, result.consumer), set())
            for warning in set(result.warned) - known:
                if not warning.startswith("ReadOnlyWarning: "):
                    found.setdefault(warning, []).append(result)
        return found

    def counts(self, shim: str = "upgraded") -> Counter:
        """The yardstick, for one adapter in between."""
        curable = {b.key for b, _ in self.curable()}
        other = self.shim(shim)
        found: Counter = Counter()
        for bare, after in self.pairs(shim):
            found["cells"] += 1
            found["bare ok"] += bare.works
            found["ok"] += after.works
            if bare.key in curable:
                found["curable"] += 1
                found["cured"] += after.works
            if bare.works and not after.works:
                found["refused on purpose" if self.purpose(bare.key) else "broken"] += 1
            found["refused as documented"] += not after.works and not bare.works and bool(after.row)
            for result, where in ((bare, " bare"), (after, "")):
                found["crashed" + where] += result.kind in (cells.CRASH, cells.HANG)
                found["dangling" + where] += result.kind == cells.DANGLING
                found["wrong" + where] += result.kind == cells.WRONG
                found["leaking" + where] += result.kind == cells.LEAK
        found["missing"] = len(self.shim("bare")) - len(other)
        return found

    def purpose(self, key: tuple) -> bool:
        upgraded = self.shim("upgraded").get(key)
        return upgraded is not None and meant(upgraded) and not upgraded.works

    def table(self) -> dict[tuple[str, str], Counter]:
        """Per producer and consumer: what a reader of the result file wants to know."""
        found: dict[tuple[str, str], Counter] = {}
        for bare, up in self.pairs("upgraded"):
            count = found.setdefault((bare.producer, bare.consumer), Counter())
            count["cells"] += 1
            count["bare"] += bare.works
            count["upgraded"] += up.works
            count["cured"] += up.works and not bare.works
            count["refused"] += not up.works and not up.red
            count["red"] += bool(up.red)
        return found


def grouped(results: Iterable[Result], limit: int = 40) -> str:
    """Red cells in few lines: same producer, consumer and reason together."""
    groups: dict[tuple, list[Result]] = {}
    for r in results:
        groups.setdefault((r.producer, r.consumer, r.shim, r.red or r.kind), []).append(r)
    lines = []
    for (producer, consumer, shim, reason), members in sorted(groups.items())[:limit]:
        where = few({m.dtype for m in members}) + "; " + few({m.layout for m in members})
        what = (len(members), producer, consumer, shim, reason, where)
        lines.append("%d x %s -> %s (%s): %s\n      %s" % what)
    if len(groups) > limit:
        lines.append("... and %d more groups" % (len(groups) - limit))
    return "\n".join(lines)


def few(names: set[str], limit: int = 6) -> str:
    return ", ".join(sorted(names)[:limit]) + (" ..." if len(names) > limit else "")
