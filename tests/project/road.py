"""Child of test_road.py: which functions does an exchange call?  python road.py CORE.SO

Prints {exchange: [offsets of the called functions in the library, in order]} as JSON.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

ROOM = 65536
WARM = 8


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("_core", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def base(path: str) -> int:
    """Where the library begins in memory."""
    lines = [line for line in Path("/proc/self/maps").read_text().splitlines() if path in line]
    return min(int(line.split("-")[0], 16) for line in lines)


def main(path: str) -> None:
    import numpy

    core = load(path)
    library = ctypes.CDLL(path)
    on = ctypes.c_int.in_dll(library, "dls_trace_on")
    count = ctypes.c_size_t.in_dll(library, "dls_trace_count")
    seen = (ctypes.c_void_p * ROOM).in_dll(library, "dls_trace_seen")
    start = base(path)

    def calls(exchange: Callable[[], object]) -> list[int]:
        for _ in range(WARM):
            exchange()
        count.value = 0
        on.value = 1
        kept = exchange()
        on.value = 0
        del kept
        assert 0 < count.value < ROOM
        return [seen[n] - start for n in range(count.value)]

    array = numpy.arange(3.0)
    old = type("Old", (), {"__dlpack__": lambda self, stream=None: array.__dlpack__()})()
    tensor = core.from_dlpack(array)
    producer, legacy = core.upgrade(array), core.upgrade(old)
    exchanges = {
        "versioned, handed on": lambda: producer.__dlpack__(max_version=(1, 3)),
        "legacy, handed on": lambda: producer.__dlpack__(),
        "legacy, translated": lambda: legacy.__dlpack__(max_version=(1, 3)),
        "to a Tensor": lambda: core.from_dlpack(array),
        "of a Tensor": lambda: tensor.__dlpack__(max_version=(1, 3)),
    }
    print(json.dumps({name: calls(exchange) for name, exchange in exchanges.items()}))


main(sys.argv[1])
