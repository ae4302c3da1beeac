"""Carry out groups: in one child for each fake driver, and what commands say beside them."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable
from typing import Any

from drivers import run_with_driver

from . import host, off_host, older, record, store, witness

#: By the driver that is mapped in a child, its groups.
CHILDREN: dict[str, dict[str, Any]] = {
    "host": host.GROUPS | older.GROUPS,
    "cuda": off_host.CUDA,
    "rocm": off_host.ROCM,
}
VARIANTS = {"host": "13.0", "cuda": "13.0", "rocm": "hip7"}
ALL = [group for groups in CHILDREN.values() for group in groups]

CODE = """
from transcript import running
drv.start()
running.run(drv, *arguments)
"""


def bodies(drv: Any, child: str, group: str) -> store.Bodies:
    drv.reset()
    gc.collect()
    gc.freeze()  # what is here stays: scenarios are collected without walking it
    gc.disable()
    found: store.Bodies = {}
    make = CHILDREN[child][group]
    for number, (name, scenario, hand_on) in enumerate(make() if child == "host" else make(drv)):
        assert name not in found, f"{group}: {name} twice"
        found[name] = record.run(scenario, hand_on)
        if number % 200 == 199:
            gc.collect()
    gc.enable()
    return found


def run(drv: Any, child: str, groups: list[str]) -> None:
    off_host.prelude(drv)
    print(json.dumps({group: bodies(drv, child, group) for group in groups}))


def now(groups: Iterable[str]) -> dict[str, store.Bodies]:
    """The bodies of these groups and commands as they are today."""
    wanted, found = set(groups), {}
    for child, its in CHILDREN.items():
        if mine := [group for group in its if group in wanted]:
            said = run_with_driver(VARIANTS[child], CODE, child, mine, timeout=500)
            found |= json.loads(said.splitlines()[-1])
    return found | {name: say() for name, say in witness.COMMANDS.items() if name in wanted}
