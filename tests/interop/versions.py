"""Versions of installed distributions, without importing them."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib import metadata


@cache
def text(distribution: str) -> str | None:
    if distribution == "python":
        return "%d.%d.%d" % sys.version_info[:3]
    for name in (distribution, *ALIASES.get(distribution, ())):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


ALIASES = {
    "tensorflow-cpu": ("tensorflow",),
    "open3d-cpu": ("open3d",),
    "paddlepaddle": ("paddlepaddle-gpu",),
}


def of(distribution: str) -> tuple[int, ...]:
    """The release numbers; () for what is not installed, which is less than everything."""
    found = text(distribution)
    if found is None:
        return ()
    return tuple(int(n) for n in re.match(r"\d+(\.\d+)*", found)[0].split("."))
