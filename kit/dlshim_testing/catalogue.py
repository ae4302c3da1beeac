"""What a check is, what comes out of one, and the list of the checks of a side that are loaded.

A check is a rule tried in one case.  Its name, ``rule[case]``, is stable: known failures are listed
by it.  The list is the same for every library; what a library cannot make is "not applicable".
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from . import rules
from .rules import Rule

PASS, FAIL, CRASH, NA = "pass", "fail", "crash", "not applicable"
HANG = "hang"  # the process of the check did not answer in time, and was ended
ERROR = "error"  # the check itself failed: neither a finding nor a pass


class NotApplicable(Exception):
    """The case cannot be made, or is no business of this rule; the text says why.

    `lacks` is the keyword of `Producer` with which the target can give what is missing.
    """

    def __init__(self, why: str, lacks: str = "") -> None:
        super().__init__(why)
        self.lacks = lacks


class Broken(Exception):
    """The library does not do what the rule says; the text is the evidence."""


class TargetError(Exception):
    """The target cannot be loaded, or does not make what it is said to make: it is the target that
    is wrong, and nothing is said about the library."""


def insist(holds: object, evidence: str) -> None:
    if not holds:
        raise Broken(evidence)


class Check(NamedTuple):
    name: str
    rule: Rule
    run: Callable[[Any], None]
    risky: bool
    """A library that is wrong here may end the process."""
    group: str
    """The rule and the first word of the case: one that crashes for one dtype does for all."""


class Finding(NamedTuple):
    """What came out of one check."""

    check: str
    rule: str
    level: str
    """As in the rule, or "noted" where the library claims an edition that did not say so yet."""
    status: str
    evidence: str
    source: str
    quote: str

    @property
    def wrong(self) -> bool:
        return self.status in (FAIL, CRASH, HANG)

    @property
    def failed(self) -> bool:
        """Whether this check fails a run: a MUST that is broken, a hang, or a crash (but for a
        HABIT, where the struct is one that no producer may give)."""
        crashed = self.status == CRASH and self.level != rules.HABIT
        broken = self.status == FAIL and self.level == rules.MUST
        return crashed or broken or self.status == HANG

    def __str__(self) -> str:
        text = f"{self.check}: {self.status} ({self.level}): {self.evidence}"
        return f'{text}\n    {self.source}: "{self.quote}"' if self.quote else text


Body = Callable[..., None]
#: By side and name; ``every.checks`` loads all of them.
REGISTERED: dict[str, dict[str, Check]] = {"producer": {}, "consumer": {}}


def slug(case: object) -> str:
    """A part of a name; pytest's -k takes it as it is."""
    text = "x".join(map(str, case)) or "scalar" if isinstance(case, tuple) else str(case)
    return re.sub(r"[^\w.+-]+", "-", text).rstrip("-")


def paired(one: Sequence[Any], other: Sequence[Any], *more: Sequence[Any]) -> list[Any]:
    """Combinations in which any two cases of two axes meet, far fewer than all: of the later axes
    each combination of the first two has one case, which moves on as in a Latin square."""
    return [
        (a, b, *(axis[(at + step * to) % len(axis)] for step, axis in enumerate(more, 1)))
        for at, a in enumerate(one)
        for to, b in enumerate(other)
    ]


def check(
    side: str, rule: str, *cases: Iterable[Any], risky: bool = False, pairs: bool = False
) -> Callable[[Body], Body]:
    """Registers a function for each combination of the cases, or with ``pairs=True`` for so many
    that any two cases meet; it gets the library's side first."""

    def register(body: Body) -> Body:
        axes = [list(axis) for axis in cases]
        for combination in paired(*axes) if pairs else itertools.product(*axes):
            label = "-".join(slug(case) for case in combination)
            name = f"{rule}[{label}]" if label else rule
            group = f"{rule}[{slug(combination[0])}" if label else rule
            found = rules.BY_NAME[side, rule]
            assert name not in REGISTERED[side], name

            def run(partner: Any, combination: tuple[Any, ...] = combination) -> None:
                body(partner, *combination)

            REGISTERED[side][name] = Check(name, found, run, risky, group)
        return body

    return register


def level_of(rule: Rule, claims: str) -> str:
    """A rule that is younger than what the library claims is only noted."""
    return rule.level if rule.since <= claims else "noted"


def why_not(reason: NotApplicable) -> str:
    """Why a case cannot be made, and how the target can give it where that is what is missing."""
    give = f": give one, Producer(..., {reason.lacks}=...)" if reason.lacks else ""
    return f"{reason}{give}"


def outcome(one: Check, partner: Any) -> Finding:
    """Runs one check in this process; TargetError where the target is wrong."""
    from .doubles.capsules import without_lingering

    try:
        if partner.leaves and one.rule.name != "error-kept":
            raise RuntimeError(f"a deleter of the library leaves an exception: {partner.leaves}")
        with without_lingering():
            one.run(partner)
        status, evidence = PASS, ""
    except NotApplicable as reason:
        status, evidence = NA, why_not(reason)
    except Broken as found:
        status, evidence = FAIL, str(found)
        if one.rule.name in rules.BY_DLSHIM and partner.is_decorated:
            status, evidence = NA, f"the class has it from dlshim: {rules.BY_DLSHIM[one.rule.name]}"
    except TargetError:
        raise
    except Exception as error:
        status, evidence = ERROR, f"{type(error).__name__}: {error}"
    return finding(one, level_of(one.rule, partner.claims), status, evidence)


def finding(one: Check, level: str, status: str, evidence: str) -> Finding:
    rule = one.rule
    return Finding(one.name, rule.name, level, status, evidence, rule.source, rule.quote)
