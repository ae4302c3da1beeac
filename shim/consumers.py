"""Functions that take arrays: the rows of all libraries, and what they are called by.

tests/interop compares these rows with what happens.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from . import known
from .known.rows import Known, Version
from .libraries import nearest, version_of, version_tuple

#: The name of a library stands for its first function.
CONSUMERS: list[Known] = known.rows("FUNCTIONS")


def rows_of(name: str) -> list[Known]:
    """Return the rows of a function, the oldest releases first."""
    return [row for row in CONSUMERS if row.name == name]


def row_of(name: str, version: Version) -> tuple[Known, bool]:
    """Return the row nearest to a release, and whether it speaks of this release."""
    return nearest(rows_of(name), version)


def filled(row: Known) -> tuple[Known, str]:
    """Return a row with what it has from the function that it calls, and why that is not known."""
    if not row.through:
        return row, ""
    version = version_of(rows_of(row.through)[0].library)
    under, verified = row_of(row.through, version_tuple(version or ""))
    why = "" if verified else "of a release that is not in the table"
    why = why if version else "which is not installed here"
    own = {name: getattr(row, name) for name in _OWN}
    limits = (*row.limits, *under.limits)
    return replace(under, **own, limits=limits, raises=(*row.raises, *under.raises)), why


#: The fields that a row says itself, although it calls another library's function.
_OWN = (
    *("name", "library", "since", "until", "family", "through"),
    *("converts", "no_way", "passes_on", "stream"),
)


def names() -> list[str]:
    """Return what a consumer may be called: libraries, and their functions."""
    return sorted({*map(family_of, CONSUMERS)} | {row.name for row in CONSUMERS})


def family_of(row: Known) -> str:
    """Return the library that a row's function belongs to."""
    return row.family or row.name.partition(".")[0]


def functions(name: str) -> list[str]:
    """Return the functions that a name means: that of this name, or a library's first ones."""
    found = [row.name for row in CONSUMERS if row.name.startswith(f"{name}.") or row.family == name]
    alike = [each for each in found if _kind(each) == _kind(found[0])]
    return [name] if rows_of(name) else list(dict.fromkeys(alike))


def _kind(name: str) -> tuple[int, str]:
    """How deep a function lies, and its name: pyarrow has the same one in two classes."""
    return name.count("."), name.rpartition(".")[2] if "." in name else ""


def _called(consumer: Any) -> str:
    if isinstance(consumer, str):
        return consumer
    if isinstance(consumer, type(sys)):
        return consumer.__name__
    name = str(getattr(consumer, "__qualname__", None) or getattr(consumer, "__name__", ""))
    module = getattr(consumer, "__module__", None)
    owner = getattr(consumer, "__self__", None)
    if module is None and isinstance(owner, type):  # torch.asarray
        module = owner.__module__
    if type(consumer).__name__ == "nb_func" and module != "mlx.core":
        return "nanobind"
    return f"{module}.{name}"


def functions_of(consumer: Any) -> list[str]:
    """Return the functions that a name, a module or a function means; ValueError: none."""
    name = _called(consumer)
    if found := functions(name):
        return found
    # A function knows the module that defines it, not the one that it is called by.
    parts = name.split(".")
    for row in () if isinstance(consumer, str) else CONSUMERS:
        theirs = row.name.split(".")
        same = 2 if theirs[-2:][0][:1].isupper() else 1  # of a class: the class too
        ours = parts[0] == theirs[0] or (parts[0] == "None" and same == 2)
        if ours and parts[-same:] == theirs[-same:]:
            return [row.name]
    # A static method that is written in C names no class.
    named = {row.name for row in CONSUMERS if row.name.startswith(f"{parts[0]}.")}
    alone = [each for each in named if each.endswith(f".{parts[-1]}")]
    if len(alone) == 1 and not isinstance(consumer, str):
        return alone
    kind = "" if isinstance(consumer, str) else f" of type {type(consumer).__name__}"
    raise ValueError(f"consumer {consumer!r}{kind} is not known; {_known(parts[0])}")


def _known(library: str) -> str:
    """What may be asked for instead of an unknown function of this library."""
    libraries = sorted({*map(family_of, CONSUMERS)})
    if library in libraries:
        of = sorted({row.name for row in CONSUMERS if family_of(row) == library})
        return f"of {library}, these are: {', '.join(of)}"
    return (
        'for one that takes NumPy\'s arrays ask "numpy.asarray"; these libraries are known: '
        f"{', '.join(libraries)}"
    )
