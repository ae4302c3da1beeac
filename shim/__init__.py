"""Let any two array libraries exchange memory, whatever DLPack version each speaks.

``dlshim.upgrade(obj)`` wraps an array, a raw capsule or an object of an older
protocol; the wrapper answers every consumer in the form that it asked for.
"""

# Importing the package must stay cheap (2 ms).  It imports what an exchange that succeeds may need,
# before it shows a function that makes one: no signal handler, finalizer or forked child meets an
# import of these modules that has not ended.  The other modules are imported when they are first
# asked for, and a fork waits for the end of that.
from . import arrays, columns, importers, library_calls, oneapi  # noqa: F401
from . import locks as _locks
from ._core import (
    CopyRequiredError,
    Producer,
    ReadOnlyWarning,
    Tensor,
    UnsupportedObjectError,
    from_dlpack,
    to_capsule,
    upgrade,
)
from ._core import (
    _c_api_v1 as _c_api_v1,  # dlshim.h looks for it here
)
from .arrays import rebuild as _rebuild  # noqa: F401  # pickles name it
from .dtypes import dtype

# With its type: editors do not take it for the constant, and read the names below it.
TYPE_CHECKING: bool = False
if TYPE_CHECKING:
    from .conversion import NarrowedWarning, to
    from .decorator import ProducerMixin, producer
    from .enums import DLDataTypeCode, DLDeviceType
    from .kernels import kernel
    from .report import Outcome, Report, Verdict, inspect
    from .tracking import Live, live, stats, track

__version__ = "0.1.0"

UNSET = "auto"
"""Default of ``stream``: whatever the consumer passes goes on unchanged."""

__all__ = [
    "UNSET",
    "CopyRequiredError",
    "DLDataTypeCode",
    "DLDeviceType",
    "Live",
    "NarrowedWarning",
    "Outcome",
    "Producer",
    "ProducerMixin",
    "ReadOnlyWarning",
    "Report",
    "Tensor",
    "UnsupportedObjectError",
    "Verdict",
    "dtype",
    "from_dlpack",
    "get_include",
    "inspect",
    "kernel",
    "live",
    "producer",
    "stats",
    "to",
    "to_capsule",
    "track",
    "upgrade",
]


def get_include() -> str:
    """Tell the folder of ``dlshim.h``, and of its file for pkg-config."""
    return f"{__path__[0]}/include"


_LAZY = {
    "DLDataTypeCode": "enums",
    "DLDeviceType": "enums",
    "Live": "tracking",
    "NarrowedWarning": "conversion",
    "Outcome": "report",
    "ProducerMixin": "decorator",
    "Report": "report",
    "Verdict": "report",
    "_rebuild_kernel": "kernels",
    "inspect": "report",
    "kernel": "kernels",
    "live": "tracking",
    "producer": "decorator",
    "stats": "tracking",
    "to": "conversion",
    "track": "tracking",
}


def __dir__() -> list[str]:
    """The public names, which editors offer, and what every module has."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


# Hidden from type checkers: with it, each misspelt name would be one that they know.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = _locks.import_module(f"dlshim.{_LAZY[name]}")
        value = getattr(module, name.lstrip("_"))
        globals()[name] = value
        return value
