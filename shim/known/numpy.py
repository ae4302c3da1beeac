"""NumPy: its arrays, its scalars, and its functions that take arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..look import ALL
from .arrays import STRIDED, Consumer, Producer, made_by_numpy, see_numpy
from .rows import (
    ALWAYS_READONLY,
    BOOL,
    HONOURS,
    LEGACY,
    PLAIN,
    VERSIONED,
    Fault,
    Known,
    Library,
    Source,
    old,
    spans,
)

LIBRARY = Library("numpy", "numpy", ("numpy",), "NumPy")

_NUMPY_SAYS: dict[str, Any] = {"states": True, "refuses_readonly": "BufferError", "dtypes": PLAIN}

SOURCES = (
    old(
        "numpy",
        "numpy",
        (1, 22),
        (1, 24),
        **_NUMPY_SAYS | {"refuses_readonly": "TypeError", "dtypes": PLAIN - BOOL},
    ),
    old("numpy", "numpy", (1, 24), (2, 1), **_NUMPY_SAYS),
    Source("numpy", "numpy", (2, 1), (2, 6), **_NUMPY_SAYS),
    Source("numpy scalar", "numpy", until=(99,), immutable=True),
)

FAULTS = (
    Fault(
        "numpy",
        "its deleters need the GIL",
        "kills",
        since=(1, 22),
        until=(1, 24),
        upgraded="cured",
        source="numpy/numpy#22507",
    ),
    Fault(
        "numpy",
        "whatever it takes is read-only",
        "refuses",
        since=(1, 22),
        until=(2, 2, 5),
        upgraded="none",
        source="numpy/numpy#28599",
    ),
)

_NUMPY = spans(
    (2, 6),
    Known(
        "numpy.from_dlpack",
        "numpy",
        (1, 22),
        asks=LEGACY,
        flag=ALWAYS_READONLY,
        dtypes=PLAIN - BOOL,
        limits=("dtype",),
        raises=("RuntimeError", "BufferError"),
        no_way=("AttributeError",),
    ),
    ((1, 25), {"dtypes": PLAIN}),
    ((2, 1), {"asks": VERSIONED, "keywords": ("dl_device", "copy", "max_version")}),
    ((2, 2, 5), {"flag": HONOURS}),
)

FUNCTIONS = (
    *_NUMPY,
    *spans(
        (2, 6),
        replace(
            _NUMPY[1],
            name="numpy.asarray",
            since=(1, 22),
            wants="buffer",
            takes_own=True,
            flag=HONOURS,
            dtypes=ALL,
            limits=("ml_dtypes",),
            raises=("TypeError",),
        ),
    ),
)


GIVES = (
    Producer(
        "numpy",
        "numpy",
        "numpy",
        (*STRIDED, "reversed", "readonly"),
        made_by_numpy,
    ),
)

TAKES = (Consumer("numpy", "numpy", "numpy", "numpy.from_dlpack", see_numpy, since=(1, 22)),)
