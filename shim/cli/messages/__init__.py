"""Error messages around arrays: how each is recognised, who says it, its cause, and the code that
cures it.

A subject is a module with its ``ROWS``.  The first row that matches is told first, so special rows
stand before general ones, in a module and among the modules.  The troubleshooting page of the
manual is made from these rows too; tests/interop/messages.toml has an example of each, and its
origin.
"""

from __future__ import annotations

from . import columns, conversions, devices, dtypes, memory, own, protocol, refusals, torch_numpy
from .message import Message

__all__ = ["GENERAL", "MESSAGES", "SUBJECTS", "Message"]

SUBJECTS = {
    "own": own.ROWS,
    "columns": columns.ROWS,
    "torch_numpy": torch_numpy.ROWS,
    "conversions": conversions.ROWS,
    "protocol": protocol.ROWS,
    "dtypes": dtypes.ROWS,
    "refusals": refusals.ROWS,
    "memory": memory.ROWS,
    "devices": devices.ROWS,
}

#: What dlshim gave is given to a function that takes no wrapper.
_WRAPPER = Message(
    "wrapper",
    patterns=(
        r"(?<!')dlshim\.(Producer|Tensor)\b",
        r"'dlshim\.(Producer|Tensor)'(?! object: )",
        "unsupported type 'Producer'",
        "alias arbitrary sequence into a tensor",
        "only supported from non-string numpy arrays",
    ),
    versions="Python, torch, JAX, pandas and others, of what dlshim gave them",
    cause=(
        "The function takes arrays of its own library, sequences or bytes. A dlshim.Producer "
        "has no shape, no items and no arithmetic; a dlshim.Tensor has the first two."
    ),
    cures=(
        'consumer(dlshim.to(x, "torch"))  # or the library whose function it is',
        'consumer(dlshim.to(x, "numpy"))  # for a function that takes arrays of NumPy, too',
        "consumer(dlshim.from_dlpack(x))  # for shape, dtype, len() and items",
        "consumer(memoryview(dlshim.from_dlpack(x)))  # for a function of bytes",
    ),
)

#: Every refusal of dlshim.
_ANY = Message(
    "own",
    patterns=(r"'[\w.]+' object: \S", "^dlshim.UnsupportedObjectError"),
    versions="dlshim",
    cause=(
        "The message of dlshim names the reason and the cure. If another library raised an "
        "error first, it is the __cause__."
    ),
    cures=("print(dlshim.inspect(x, export=True))",),
)

#: The rows that are told where no other one matches.
GENERAL = (_WRAPPER, _ANY)

MESSAGES = (*(row for rows in SUBJECTS.values() for row in rows), *GENERAL)
