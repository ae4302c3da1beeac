"""The library that a call of `dlshim.to` names, as it is imported."""

from __future__ import annotations

import sys

from ..habits import PACKAGES, TAKES, TAKES_OF_CLASSES, Takes
from ..importers import makes_read_only, of_class, of_release
from ..libraries import version_tuple
from .making import MAKE, MAKE_OF_CLASSES
from .sources import top

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..importers import Importer

#: By another package that the classes of a library name, and by its module.
_NAMES = {name: key for key, row in TAKES.items() for name in (row.package, row.module) if name}
#: Of a library that is not known.
_UNKNOWN = Takes("")


class Target:
    """A library that a call has named."""

    def __init__(
        self,
        row: Takes,
        name: str,
        make: Importer,
        module: Any,
        own: tuple[type, ...],
        asked: type | None = None,
    ) -> None:
        self.row, self.name, self.make = row, name, make
        #: The module, and the classes of its arrays there.
        self.module, self.own = module, own
        self.module_name = getattr(module, "__name__", "")
        #: What names it in another call.
        self.library: Any = module if asked is None else asked
        self.layout = _layout(row, name)
        #: By the type of an array that came before: what makes an array of the library of it, or
        #: raises.  Every other way is longer.
        self.roads: dict[type, Callable[[Any], Any]] = {}

    def has(self, word: str) -> bool:
        return word in self.row.words

    @property
    def is_direct(self) -> bool:
        """Whether an upgraded exchange gives what `to` promises."""
        return self.has("DIRECT") and not makes_read_only(self.module)

    def constructor(self) -> Any:
        """What makes an array of Python's lists and numbers; None: NumPy does."""
        return getattr(self.module, self.row.constructor) if self.row.constructor else None


def _layout(row: Takes, name: str) -> str:
    """The strides that this release takes; where PACKAGES has no word on strides, the row's."""
    name = name.partition(".")[0]
    for package, _, layout, _, older in PACKAGES:
        if package == name and layout != "ANY":
            told = version_tuple(str(getattr(sys.modules.get(name), "__version__", "")))
            return older[1] if older and told < older[0] else layout
    return row.layout


def _reached(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part, None)
    return module


def _known(key: str, asked: type | None = None, row: Takes | None = None) -> Target:
    """A library that has a row; `asked` where one of its classes is meant alone."""
    row = row or TAKES[key]
    name = row.module or key
    __import__(name)
    module = sys.modules[name]
    own = tuple(cls for path in row.own if isinstance(cls := _reached(module, path), type))
    make = MAKE_OF_CLASSES[key, asked.__name__] if asked else MAKE.get(key)
    return Target(row, key, make or of_release(module.from_dlpack), module, own, asked)


def _of_module(module: Any) -> Target:
    """The library of a module: by its ``from_dlpack``, so that wrappers of a library are it."""
    name = module.__name__
    key = _NAMES.get(name, name)
    if key in TAKES:
        return _known(key)
    found = getattr(module, "from_dlpack", None)
    if not callable(found):
        raise TypeError(
            f"to(): {name!r} has no arrays of its own that are made by DLPack\n  if its "
            'functions take NumPy\'s arrays, pass "numpy"'
        )
    key = (getattr(found, "__module__", None) or "").partition(".")[0]
    if key in TAKES:
        return _known(key)
    return Target(_UNKNOWN, name, of_release(found), module, ())


def _of_class(cls: type) -> Target:
    """The library of a class; its own ``from_dlpack``, where it has one and its library no row."""
    for base in cls.__mro__:
        key = _NAMES.get(top(base), top(base))
        row = TAKES_OF_CLASSES.get((key, base.__name__))
        if row is not None:
            return _known(key, base, row)
        if key in TAKES:
            return _known(key)
    own = of_class(cls)
    if own is not None:
        return Target(_UNKNOWN, cls.__name__, own, None, (cls,), cls)
    module = sys.modules.get(cls.__module__.partition(".")[0])
    if module is None or cls.__module__ == "builtins":
        raise TypeError(f"to(): {cls.__name__!r} is no class of arrays")
    return _of_module(module)


def _of_name(name: str) -> Target:
    try:
        if name in TAKES:
            return _known(name)
        __import__(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # its own import has failed
        raise _missing(name) from None
    except ValueError:
        raise _missing(name) from None
    return _of_module(sys.modules[name])


def _missing(name: str) -> ModuleNotFoundError:
    text = f"to(): there is no module {name!r} here\n  install the library, or look at the name"
    return ModuleNotFoundError(text, name=name)


def find(library: Any) -> Target:
    """The library of a name, a module, a class or an array; a name is imported."""
    if isinstance(library, str):
        return _of_name(library)
    if isinstance(library, type(sys)):
        return _of_module(library)
    if isinstance(library, type):
        return _of_class(library)
    if library is None or isinstance(library, (int, float, complex, list, tuple, dict)):
        raise TypeError(
            "to() takes the name of a library, a module, a class or an array, not "
            f"{type(library).__name__!r}"
        )
    return _of_class(type(library))
