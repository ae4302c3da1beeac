"""Let any two array libraries exchange memory, whatever DLPack version each speaks.

``dlshim.upgrade(obj)`` wraps an array, a raw capsule or an object of an older
protocol; the wrapper answers every consumer in the form that it asked for.
"""

# Importing the package must stay cheap (2 ms) and must import no other module:
# what is not needed for an exchange is loaded when it is first asked for.
from ._core import (
    CopyRequiredError,
    Producer,
    Tensor,
    UnsupportedObjectError,
    from_dlpack,
    to_capsule,
    upgrade,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import EllipsisType

    from .enums import DLDataTypeCode, DLDeviceType
    from .report import Report, inspect

__version__ = "0.1.0"

UNSET: "EllipsisType" = ...
"""Default of ``stream``: whatever the consumer passes goes on unchanged."""

__all__ = [
    "UNSET",
    "CopyRequiredError",
    "DLDataTypeCode",
    "DLDeviceType",
    "Producer",
    "Report",
    "Tensor",
    "UnsupportedObjectError",
    "from_dlpack",
    "inspect",
    "to_capsule",
    "upgrade",
]

_LAZY = {
    "DLDataTypeCode": "enums",
    "DLDeviceType": "enums",
    "Report": "report",
    "inspect": "report",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _LAZY[name] == "enums":
        from . import enums

        value = getattr(enums, name)
    else:
        from . import report

        value = getattr(report, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING"})
