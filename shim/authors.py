"""For authors of libraries: `producer` makes a class a modern producer of DLPack.

What it puts on the class is in C (src/module/producer_class.c).  The author's own methods stay,
under the names below, where `dlshim.arrays.authored` finds them.
"""

from __future__ import annotations

import abc

from ._core import Producer, Tensor, _class_attributes
from .arrays import OWN, bind, is_ours

__all__ = ["ProducerMixin", "producer"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, overload

    from typing_extensions import CapsuleType

    _Class = TypeVar("_Class", bound=type)
else:

    def overload(function):
        return function


_TABLES = ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__")


def _of_base(owner: type, name: str) -> Any:
    """Make a method that calls what this base class has by then."""

    def own(self: Any, *args: Any, **keywords: Any) -> Any:
        return bind(vars(owner)[name], self)(*args, **keywords)

    own.owner = owner  # type: ignore[attr-defined]
    return own


def _keep_own(cls: type, name: str) -> bool:
    """Give the author's method another name; say whether ours may take its place."""
    for base in cls.__mro__:
        value = vars(base).get(name)
        if value is None:
            continue
        if is_ours(value):
            return True
        abstract = getattr(value, "__isabstractmethod__", False)
        if abstract or base is object:
            return base is not cls
        if name in OWN:
            kept = value
            if base is not cls and type(value).__name__ != "method_descriptor":
                kept = _of_base(base, name)
            setattr(cls, OWN[name], kept)
        return True
    return True


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
    if cls is None:
        return lambda cls: producer(cls, inner=inner, array=array)
    if not isinstance(cls, type):
        raise TypeError(f"dlshim.producer changes classes, not {cls!r}: use dlshim.upgrade(x)")
    try:
        if cls in (Producer, Tensor):
            raise TypeError
        put = {
            name: value
            for name, value in _class_attributes().items()
            if (array or name != "__array__")
            and (name not in vars(cls) if name in _TABLES else _keep_own(cls, name))
        }
        if inner is not None:
            setattr(cls, OWN["__dlpack__"], inner)
        for name, value in put.items():
            setattr(cls, name, value)
    except (TypeError, AttributeError) as error:
        raise TypeError(
            f"{cls!r} cannot be changed: wrap its objects with dlshim.upgrade(x) instead"
        ) from error
    return abc.update_abstractmethods(cls)


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
        super().__init_subclass__(**keywords)
        producer(cls, inner=inner, array=array)


producer.__module__ = ProducerMixin.__module__ = "dlshim"
