"""Start the children."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from drivers import run_with_driver
from drivers.library import built

from . import child, store

ALL = {group: name for name, (_, groups) in child.CHILDREN.items() for group in groups}

CODE = """
from transcript import child
drv.start()
child.run(drv, *arguments)
"""


def now(groups: Iterable[str]) -> tuple[dict[str, store.Bodies], str]:
    """The bodies of these groups as they are today, and how long each took."""
    wanted: dict[str, list[str]] = {}
    for group in groups:
        wanted.setdefault(ALL[group], []).append(group)
    for name in wanted:
        built(child.CHILDREN[name][0])
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as children:

        def run(name: str) -> str:
            variant = child.CHILDREN[name][0]
            return run_with_driver(variant, CODE, wanted[name], folder, timeout=500)

        said = "".join(children.map(run, wanted))
        texts = {g: (Path(folder) / g).read_text() for mine in wanted.values() for g in mine}
    return {group: store.bodies_of(text) for group, text in texts.items()}, said
