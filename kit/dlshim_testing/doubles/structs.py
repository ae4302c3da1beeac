"""What may stand in the struct of a capsule: fields of caps.make, by what is special about them."""

from __future__ import annotations

import ctypes
from typing import Any

MAX = 2**63 - 1
#: Memory for elements that are never read: their number overflows before.
BLOCK = (ctypes.c_char * 64)()

ANY: dict[str, dict[str, Any]] = {
    "plain": {},
    "scalar": {"shape": ()},
    "many dimensions": {"shape": (1,) * 64},
    "empty": {"shape": (2, 0, 3)},
    "strides of another order": {"strides": (1, 2)},
    "broadcast": {"strides": (0, 1)},
    "rows with gaps": {"strides": (4, 1)},
    "every second item": {"shape": (3,), "strides": (2,)},
    "gaps around an extent of one": {"shape": (2, 1, 3), "strides": (4, 77, 1)},
    "zero extent and gaps": {"shape": (2, 0, 3), "strides": (4, 4, 1)},
    "far strides that overflow": {"strides": (2**62, 1), "memory": BLOCK},
    "far rows that overflow": {"shape": (3, 3), "strides": (2**61, 2**61), "memory": BLOCK},
    "odd stride on an extent of one": {"shape": (1, 3), "strides": (77, 1)},
    "no strides": {"strides": None},
    "negative stride": {"strides": (-3, 1), "start": 3},
    "two negative extents": {"shape": (-2, -3), "strides": (-3, 1), "data": 64},
    "one negative extent": {"shape": (2, -3), "strides": (-3, 1), "data": 64},
    "elements that overflow": {"shape": (2**32, 2**32), "strides": (2**32, 1), "memory": BLOCK},
    "bytes that overflow": {"shape": (MAX // 2,), "strides": (1,), "memory": BLOCK},
    "null shape": {"null_shape": True},
    "negative ndim": {"ndim": -1},
    "absurd ndim": {"ndim": 2**30},
    "offset": {"shape": (2,), "byte_offset": 4},
    "cpu 1": {"device": (1, 1)},
    "sub-byte": {"dtype": (1, 4, 1)},
    "no lanes": {"dtype": (2, 32, 0)},
    "no bits": {"dtype": (2, 0, 1)},
    "vectors": {"dtype": (2, 32, 4)},
    "no deleter": {"deleter": False},
    "null data": {"data": None},
}
#: What only DLPack 1.x can say.
VERSIONED_ONLY: dict[str, dict[str, Any]] = {
    "read-only": {"flags": 1},
    "copied": {"flags": 2},
    "padded": {"flags": 4},
    "unknown flag": {"flags": 8},
    "another major": {"version": (2, 0)},
}
