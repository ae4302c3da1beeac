"""`dlshim.producer` and its mixin: classes of authors that become producers of every edition.

What they put on a class is written in C (src/module/producer_class.c).  Here is how a class is
changed, and how an author's own methods are found behind ours.
"""

from __future__ import annotations

import abc
from contextlib import suppress
from functools import update_wrapper
from types import FunctionType

from ._core import Producer, Tensor, _class_attributes
from .locks import changing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, overload

    from typing_extensions import CapsuleType

    _Class = TypeVar("_Class", bound=type)
else:

    def overload(function):
        return function


# Under which names their authors' own methods are kept, and that of the attribute or method that
# gives an inner array.
OWN = {"__dlpack__": "__dlshim_dlpack__", "__dlpack_device__": "__dlshim_dlpack_device__"}
INNER = "__dlshim_inner__"


def is_ours(value: Any) -> bool:
    """Whether it is a method that `producer` puts on classes: no other is one of `object`."""
    return getattr(value, "__objclass__", None) is object


def is_abstract(value: Any) -> Any:
    """Whether a subclass has to write the method."""
    return getattr(value, "__isabstractmethod__", None)


def bind(value: Any, x: Any) -> Any:
    """Make a method of a class's member, as looking it up on `x` does."""
    get = getattr(type(value), "__get__", None)
    return get(value, x, type(x)) if get else value


def _later(owner: type, name: str) -> Any:
    """Make a method that calls the member that this class has at the time of the call."""
    members = vars(owner)

    def own(self: Any, *args: Any, **keywords: Any) -> Any:
        now = members[name]
        if type(now) is FunctionType:  # as usual: half the time
            return now(self, *args, **keywords)
        return bind(now, self)(*args, **keywords)

    own.__objclass__ = owner  # type: ignore[attr-defined]
    return own


def _find_own(cls: type, name: str, level: int) -> Any:
    """Find an author's method, after `level` others, and the place of its class in the MRO.

    The search begins at the first class that has ours: the classes before it have called super().
    """
    ours, first, done = False, True, []
    for at, base in enumerate(cls.__mro__):
        own = vars(base)
        value = own.get(name)
        ours = ours or is_ours(value)
        key = OWN[name]
        kept = (name == "__dlpack__" and own.get(INNER)) or own.get(key)
        named = first and kept is not None
        if kept is not None:
            first = False
        elif not ours or value is None or is_ours(value) or base in done or is_abstract(value):
            continue
        else:
            kept, key = value, name
        owner = getattr(kept, "__objclass__", base)
        done.append(owner)
        if level:
            level -= 1
        elif isinstance(kept, str):
            return kept, at
        else:
            return key if named else _later(base, key), cls.__mro__.index(owner)
    return None, -1


def authored(x: Any, level: int, device_level: int, device_asked: bool) -> Any:
    """Tell how an author's class exports; `level`: so many of its methods run already."""
    cls = type(x)
    found, at = _find_own(cls, "__dlpack__", level)
    device: Any = "__dlpack_device__"
    ours = is_ours(getattr(cls, device, None))
    if isinstance(found, str) and found != OWN["__dlpack__"]:
        return found, callable(getattr(cls, found, None)), not ours, None, None, at
    if device_asked or ours:
        device, _ = _find_own(cls, device, device_level)
    return None, False, not ours, found, device, at


_TABLES = ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__")


# A part of the name of each attribute by which an object may be exported, such as to_dlpack.
_OFFERS = ("dlpack", "__buffer__", "array_interface", "array_struct")


def _may_export(cls: type) -> Any:
    """Whether a class can have anything to export; an abstract one may leave that to others."""
    members = [vars(base).copy() for base in cls.__mro__[:-1]]
    made_in_c = any(type(own.get("__new__")) is type(len) for own in members)
    named = (part in name.lower() for own in members for name in own for part in _OFFERS)
    return made_in_c or any(named) or getattr(cls, "__abstractmethods__", None)


def _keep_own(cls: type, name: str, put: dict[str, Any], fill: bool) -> bool:
    """Give the author's method another name, in `put`; say whether ours may take its place.

    fill: also the place of an abstract one of a base, and of None.
    """
    for base in cls.__mro__:
        value = vars(base).get(name)
        if value is None:
            if not fill and name in vars(base):
                return False
            continue
        if is_ours(value):
            if name not in OWN or OWN[name] in vars(base) or INNER in vars(base):
                break
            continue  # the mixin's, in front of the class that has the author's
        if is_abstract(value):
            return fill and base is not cls
        if name not in OWN:
            raise TypeError(f"{cls!r} has an {name} of its own, which stays: leave array=True out")
        if base is not cls and type(value).__name__ != "method_descriptor":
            value = update_wrapper(_later(base, name), value, updated=())
        put[OWN[name]] = value
        break
    return True


def _check(inner: Any, array: Any) -> None:
    if not (inner is None or (isinstance(inner, str) and inner.isidentifier())):
        raise TypeError(
            f"inner={inner!r} is not the name of an attribute or of a method: name a method that "
            "returns the array"
        )
    if not isinstance(array, bool):
        raise TypeError(f"array={array!r} is neither True nor False")


class _Hook(classmethod):  # type: ignore[type-arg]
    """An ``__init_subclass__`` of `producer`."""


def _for_subclasses(cls: type, own: Any) -> Any:
    """Make an ``__init_subclass__`` that changes the subclasses of an abstract class."""

    def change(sub: Any, /, **keywords: Any) -> None:
        # dataclass(slots=True) puts it on another class: that one is looked for.
        owners = (base for base in sub.__mro__ if vars(base).get("__init_subclass__") is made)
        after = super(next(owners, cls), sub).__init_subclass__  # type: ignore[arg-type]
        bound = getattr(own, "__get__", lambda *_: own or after)(None, sub)
        bound(**keywords)
        with suppress(TypeError):  # its metaclass may refuse
            _change(sub, None, False, False)

    made = _Hook(change)
    return made


def _change(cls: Any, inner: str | None, array: bool, fill: bool = True) -> Any:
    with changing:  # no thread may see a class half changed
        put: dict[str, Any] = {}
        hook = vars(cls).get("__init_subclass__")
        if fill and getattr(cls, "__abstractmethods__", None) and not isinstance(hook, _Hook):
            put["__init_subclass__"] = _for_subclasses(cls, hook)
        for name, value in _class_attributes().items():
            if name in _TABLES:
                if name not in vars(cls):
                    put[name] = value
            elif (array or name != "__array__") and _keep_own(cls, name, put, fill):
                put[name] = value
        if inner is not None:
            owner = cls.__name__.lstrip("_")
            if inner.startswith("__") and not inner.endswith("__") and owner:
                inner = f"_{owner}{inner}"  # as Python names it in the class
            put[INNER] = inner
        before = vars(cls).copy()
        try:
            if cls in (Producer, Tensor):
                raise TypeError
            for name, value in put.items():
                setattr(cls, name, value)
        except BaseException as error:
            # A metaclass may refuse any of them: then none stays.
            for name in put:
                if name in vars(cls) and name not in before:
                    type.__delattr__(cls, name)
                elif vars(cls).get(name) is not before.get(name):
                    type.__setattr__(cls, name, before[name])
            if not isinstance(error, (TypeError, AttributeError)):
                raise
            raise TypeError(
                f"{cls!r} cannot be changed: wrap its objects with dlshim.upgrade(x) instead"
            ) from error
        return abc.update_abstractmethods(cls)


@overload
def producer(cls: _Class, /, *, inner: str | None = None, array: bool = False) -> _Class: ...
@overload
def producer(  # noqa: F811
    cls: None = None, /, *, inner: str | None = None, array: bool = False
) -> Callable[[_Class], _Class]: ...
def producer(  # noqa: F811
    cls: Any = None, /, *, inner: str | None = None, array: bool = False
) -> Any:
    """Make a class a producer of every edition of DLPack: change it, and return it.

    Its objects are asked as ``upgrade`` asks them: by a ``__dlpack__``, a buffer, an interface.

    inner: the attribute or method that gives an array, which is then exported instead
    array: add ``__array__`` too, for NumPy
    """
    _check(inner, array)
    if cls is None:
        return lambda cls: producer(cls, inner=inner, array=array)
    if not isinstance(cls, type):
        cure = "name an array with inner=, or wrap an object with dlshim.upgrade(x)"
        raise TypeError(f"dlshim.producer changes classes, not {cls!r}: {cure}")
    if getattr(cls, "_is_protocol", False):
        raise TypeError(f"{cls!r} is a Protocol: change the classes that follow it instead")
    if inner is None and not _may_export(cls):
        raise TypeError(
            f"{cls!r} has nothing to export: name its array with inner=, or write a __dlpack__. "
            "A base class whose subclasses do so takes dlshim.ProducerMixin"
        )
    return _change(cls, inner, array)


class ProducerMixin:
    """A base class instead of `producer`: its subclasses are changed as the decorator does.

    ``class Array(dlshim.ProducerMixin, inner="_array")`` takes the decorator's options.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        __dlpack_c_exchange_api__: CapsuleType
        __c_dlpack_exchange_api__: int

        # An override may take other parameters.
        def __dlpack__(self, *args: Any, **keywords: Any) -> CapsuleType: ...
        def __dlpack_device__(self, *args: Any, **keywords: Any) -> tuple[int, int]: ...

    def __init_subclass__(
        cls, /, *, inner: str | None = None, array: bool = False, **keywords: Any
    ) -> None:
        _check(inner, array)
        following = super().__init_subclass__
        if keywords and not hasattr(following, "__func__"):  # that of `object`
            given = ", ".join(keywords)
            raise TypeError(f"{cls!r}: dlshim.ProducerMixin takes inner= and array=, not {given}=")
        following(**keywords)
        _change(cls, inner, array)


_change(ProducerMixin, None, False)
producer.__module__ = ProducerMixin.__module__ = "dlshim"
