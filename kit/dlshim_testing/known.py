"""Known failures: what a TOML file or pytest's ini file lists, for the plug-in and the command."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .catalogue import CRASH, ERROR, FAIL, HANG, NA, PASS, Finding
from .every import checks

if TYPE_CHECKING:
    from .running import Report

SIDES = ("producer", "consumer")


class Known(NamedTuple):
    """A failure that is expected; the check may be a pattern with stars."""

    side: str
    check: str
    reason: str
    where: str

    @property
    def strict(self) -> bool:
        """Whether it names one check, which must fail still."""
        return "*" not in self.check

    @property
    def stale(self) -> str:
        return f"{self.where}: no check of {self.side} {self.check!r} fails any more"


def of_file(file: str | Path) -> list[Known]:
    """What a TOML file lists; ValueError where a line means nothing."""
    found = []
    for side, names in read_toml(Path(file)).items():
        if side not in SIDES or not isinstance(names, dict):
            raise ValueError(f"{file}: [{side}] is neither [producer] nor [consumer]")
        found += [Known(side, name, reason, str(file)) for name, reason in names.items()]
    return insisted(found)


def of_lines(lines: Iterable[str], where: str) -> list[Known]:
    """What lines such as "producer CHECK: reason" list."""
    found = []
    for line in lines:
        side, _, rest = line.partition(" ")
        name, colon, reason = rest.strip().partition(":")
        if side not in SIDES or not colon:
            raise ValueError(f"{where}: {line!r} is not 'producer CHECK: reason'")
        found.append(Known(side, name, reason.strip(), where))
    return insisted(found)


def insisted(found: list[Known]) -> list[Known]:
    """The same, each of which has a reason and names a check."""
    for known in found:
        what = f"{known.where}: {known.side} {known.check!r}"
        if not isinstance(known.reason, str) or not known.reason.strip():
            raise ValueError(f"{what} has no reason: say why it fails, or which issue says so")
        every = checks(known.side)
        if any(matches(name, known.check) for name in every):
            continue
        other = next(side for side in SIDES if side != known.side)
        cure = near(known.check, every)
        if any(matches(name, known.check) for name in checks(other)):
            cure = f"; it is one of a {other}"
        raise ValueError(f"{what} is the name of no check{cure}")
    return found


def near(name: str, names: Iterable[str]) -> str:
    """What to write instead of a name that there is not, where one is like it."""
    found = difflib.get_close_matches(name, names, n=1)
    return f"; a check of that name is {found[0]!r}" if found else ""


def read_toml(file: Path) -> dict[str, Any]:
    try:
        import tomllib
    except ImportError:  # CPython 3.10, where pytest brings the other one
        try:
            import tomli as tomllib
        except ImportError:
            raise ValueError(f"{file}: Python 3.10 reads TOML with tomli: install it") from None
    try:
        return tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{file}: {error}") from error


def matches(name: str, pattern: str) -> bool:
    """A name, or a pattern whose only special character is the star."""
    return name == pattern or fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


def listed(known: Iterable[Known], side: str, check: str) -> list[Known]:
    """The lines that name this check."""
    return [each for each in known if each.side == side and matches(check, each.check)]


def noted(report: Report, known: Iterable[Known]) -> Report:
    """The report with the names of those of its checks that are listed."""
    known = list(known)
    names = [f.check for f in report.findings if listed(known, report.side, f.check)]
    return report._replace(known=names)


def found_by(known: Known, reports: Iterable[Report]) -> list[Finding]:
    every = (found for each in reports if each.side == known.side for found in each.findings)
    return [found for found in every if matches(found.check, known.check)]


def mended(known: Iterable[Known], reports: Iterable[Report]) -> list[Known]:
    """Patterns with a star of which every check was run, some passed and none failed."""
    stale, reports = [], list(reports)
    for each in known:
        found = [one.status for one in found_by(each, reports)]
        ran_all = sum(matches(name, each.check) for name in checks(each.side))
        if not each.strict and PASS in found and {*found} <= {PASS, NA} and len(found) >= ran_all:
            stale.append(each)
    return stale


def passed(known: Iterable[Known], reports: Iterable[Report]) -> list[Known]:
    """Names without a star of which a check passes: to pytest this is an XPASS(strict)."""
    reports = list(reports)
    fails = {FAIL, CRASH, HANG, ERROR}
    return [
        each
        for each in known
        if each.strict
        and (found := {one.status for one in found_by(each, reports)})
        and PASS in found
        and not found & fails
    ]
