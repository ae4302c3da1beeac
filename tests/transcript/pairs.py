"""Which scenarios there are: a group is a function of one scenario, and the axes of its arguments.

    @group(library=("unknown", "numpy"), error=ERRORS, ask=BOTH)
    def errors(library: str, error: str, ask: str) -> None: ...

Not all of the product is recorded: `pairwise` draws few cases, in which every two values come
together.  A value is a short name; values that behave alike are one, and its name stands for them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

Case = TypeVar("Case")
#: Its name, what it does, and whether structs may be handed on.
Scenario = tuple[str, Callable[[], Any], bool]


def pairwise(
    cases: Iterable[Case], parts: Callable[[Case], Iterable[Hashable]] = lambda case: case  # type: ignore
) -> list[Case]:  # fmt: skip
    """Few of these cases, which have together all pairs of parts that the cases have.

    The case with the most pairs that no case before it has is the next; of several the first.
    """
    rows = [(case, tuple(parts(case))) for case in cases]
    columns = zip(*(row for _, row in rows), strict=True)
    varied = [axis for axis, values in enumerate(columns) if len({*values}) > 1]
    left = []
    for number, (case, row) in enumerate(rows):
        values = [(axis, row[axis]) for axis in varied]
        left.append((number, case, {*itertools.combinations(values, min(2, len(values)))}))
    drawn: list[tuple[int, Case]] = []
    seen: set[Any] = set()
    for most in range(max((len(pairs) for _, _, pairs in left), default=0), 0, -1):
        rest = []
        for number, case, pairs in left:
            new = len(pairs - seen)
            if new == most:
                drawn.append((number, case))
                seen |= pairs
            elif new:
                rest.append((number, case, pairs))
        left = rest
    return [case for _, case in sorted(drawn, key=lambda one: one[0])]


def shown(value: Any) -> str:
    return f"({', '.join(value)})" if isinstance(value, tuple) else str(value)


class Group(NamedTuple):
    """Called with what every scenario of it is given first, it yields them."""

    scenario: Callable[..., None]
    axes: dict[str, Iterable[Any]]
    where: Callable[[SimpleNamespace], bool]

    def cases(self) -> Iterator[tuple[Any, ...]]:
        for case in itertools.product(*self.axes.values()):
            if self.where(SimpleNamespace(**dict(zip(self.axes, case, strict=True)))):
                yield case

    def __call__(self, *given: Any) -> Iterator[Scenario]:
        for case in pairwise(self.cases()):
            name = ", ".join(map(shown, case))
            yield name, partial(self.scenario, *given, *case), "translate" not in case


def group(
    where: Callable[[SimpleNamespace], bool] = lambda case: True, **axes: Iterable[Any]
) -> Callable[[Callable[..., None]], Group]:
    """Make a group of a function; `where` says which cases there are at all."""
    return lambda scenario: Group(scenario, axes, where)
