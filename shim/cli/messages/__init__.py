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

__all__ = ["ANY", "MESSAGES", "SUBJECTS", "Message"]

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

#: Every refusal of dlshim; it is told where no other row matches.
ANY = Message(
    "own",
    patterns=(r"'[\w.]+' object: \S", "^dlshim.UnsupportedObjectError"),
    versions="dlshim",
    cause=(
        "The message of dlshim names the reason and the cure. If another library raised an "
        "error first, it is the __cause__."
    ),
    cures=("print(dlshim.inspect(x, export=True))",),
)

MESSAGES = (*(row for rows in SUBJECTS.values() for row in rows), ANY)
