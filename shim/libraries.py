"""Array libraries: their keys, modules and distributions, and the versions that are installed.

Nothing here imports a library.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib.util import find_spec

from . import known
from .known.rows import Fault, Version
from .locks import import_module

#: In the order in which a child of the matrix imports them.
BY_KEY = {
    module.LIBRARY.key: module.LIBRARY for module in known.MODULES if hasattr(module, "LIBRARY")
}

FAULTS: list[Fault] = known.rows("FAULTS")

#: Libraries among which the matrix exchanges arrays; the others need a device or hold no arrays.
MATRIX = tuple(
    module.LIBRARY.key
    for module in known.MODULES
    if hasattr(module, "GIVES") or hasattr(module, "TAKES")
)

#: Python's own buffers and raw capsules: always here.
BUILT_IN = ("stdlib", "capsule")


def version_tuple(version: str) -> Version:
    """Return the first three numbers of a version; a part that is no number ends it."""
    found = re.match(r"\d+(?:\.\d+){0,2}", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def version_of(key: str) -> str | None:
    """Return a library's version, as its module or its metadata have it; None: not installed."""
    library = BY_KEY.get(key)
    if library is None:
        return None
    name = library.module.partition(".")[0]
    told = getattr(sys.modules.get(name), "__version__", None)
    if isinstance(told, str):
        return told
    try:
        found = find_spec(name)
    except (ImportError, ValueError):
        found = None
    return _version_in_metadata(library.distributions) if found else None


def _version_in_metadata(distributions: Iterable[str]) -> str | None:
    # Its import takes longer than most commands need for all else.
    metadata = import_module("importlib.metadata")
    for distribution in distributions:
        try:
            return metadata.version(distribution)  # type: ignore[no-any-return]
        except metadata.PackageNotFoundError:
            continue
    return None


def installed_versions(keys: Iterable[str] = BY_KEY) -> dict[str, str]:
    """Return the version of each library that is installed, by its key."""
    return {key: version for key in keys if (version := version_of(key)) is not None}


def faults(library: str, version: Version) -> list[Fault]:
    """Return the known faults of a release."""
    return [
        fault
        for fault in FAULTS
        if fault.library == library
        and version >= fault.since
        and (not fault.until or version < fault.until)
    ]


def version_of_module(name: str) -> str | None:
    """Return the version of a top-level module, as it or its metadata have it; None: no one."""
    told = getattr(sys.modules.get(name), "__version__", None)
    if isinstance(told, str):
        return told
    keys = [key for key, library in BY_KEY.items() if library.module.partition(".")[0] == name]
    found = [version_of(key) for key in keys] or [_version_in_metadata([name])]
    return found[0]
