"""arro3: Array and ChunkedArray, which give their memory by Arrow."""

from __future__ import annotations

from .arrays import Case, Made, Producer, arrow_address, loaded
from .rows import Library

LIBRARY = Library("arro3", "arro3.core", ("arro3-core",))


def _arro3(case: Case) -> Made:
    core = loaded("arro3.core")
    dtype = {"float32": core.DataType.float32(), "uint8": core.DataType.uint8()}[case.dtype]
    made = core.Array(list(case.values), dtype)
    return Made(made, arrow_address(made))


GIVES = (
    Producer(
        "arro3",
        "arro3 Array",
        "arro3",
        ("line", "uint8"),
        _arro3,
        needs=("pyarrow",),
        immutable=True,
        dlpack=False,
    ),
)
