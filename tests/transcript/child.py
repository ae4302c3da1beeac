"""What runs beside a fake driver: all groups of it, written where the parent says."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any

from . import host, off_host, older, record, store, words

#: By child: the driver that is mapped, and the groups.
CHILDREN: dict[str, tuple[str, dict[str, Any]]] = {
    "host": ("13.0", host.GROUPS | older.GROUPS),
    "cuda": ("13.0", off_host.CUDA),
    "rocm": ("hip7", off_host.ROCM),
}


def bodies(drv: Any, group: str) -> store.Bodies:
    drv.reset()
    gc.collect()
    gc.freeze()  # what is here stays: scenarios are collected without walking it
    gc.disable()
    found: store.Bodies = {}
    make = next(groups[group] for _, groups in CHILDREN.values() if group in groups)
    scenarios = make() if group in CHILDREN["host"][1] else make(drv)
    for number, (name, scenario, hand_on) in enumerate(scenarios):
        recorded = words.entry(name)
        assert recorded not in found, f"{group}: {name} twice"
        found[recorded] = record.run(scenario, hand_on)
        if number % 200 == 199:
            gc.collect()
    gc.enable()
    return found


def run(drv: Any, groups: list[str], folder: str) -> None:
    off_host.prelude(drv)
    for group in groups:
        start = time.perf_counter()
        text = store.text_of(bodies(drv, group))
        (Path(folder) / group).write_text(text)
        print(f"{group}: {time.perf_counter() - start:.1f} s, {len(text)} characters", flush=True)
