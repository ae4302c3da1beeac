"""An option of ``upgrade`` with its value, as cures name it."""

from __future__ import annotations

from typing import Any


class Option(str):
    """An option and its value; as a str it is the text that a user types: ``order="C"``."""

    name: str
    value: Any

    def __new__(cls, name: str, value: Any) -> Option:
        typed = f'"{value}"' if isinstance(value, str) else repr(value)
        made = super().__new__(cls, f"{name}={typed}")
        made.name, made.value = name, value
        return made

    def __reduce_ex__(self, protocol: object) -> tuple[type[str], tuple[str]]:
        """Copies and pickles, of reports, are plain text."""
        return str, (str(self),)


DETACH = Option("detach", True)
TO_HOST = Option("device", "cpu")
ROW_MAJOR = Option("order", "C")
AS_TAKEN = Option("order", "auto")
AS_BOOL = Option("reinterpret", "bool")
COPY = Option("copy", True)
COPY_READONLY = Option("readonly", "copy")
VOUCH = Option("readonly", False)

#: A cure that is no option: the consumer is given a Tensor, and takes its buffer.
AS_BUFFER = "dlshim.from_dlpack(x)"
#: The same, where the Tensor must be a copy in row-major order.
AS_ROW_MAJOR_BUFFER = f"dlshim.from_dlpack(x, {ROW_MAJOR})"
#: The cures that are no option, with the options that they hold.
BUFFERS: dict[str, dict[str, Any]] = {
    AS_BUFFER: {},
    AS_ROW_MAJOR_BUFFER: {ROW_MAJOR.name: ROW_MAJOR.value},
}
