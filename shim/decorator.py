"""`dlshim.producer` and its mixin: classes of authors that become producers of every edition.

What they put on a class is written in C (src/authors/producer_class.c).  Here is how a class is
changed.  Each of our methods knows what its author wrote there.
"""

from __future__ import annotations

import abc
import sys
from contextlib import nullcontext, suppress
from functools import update_wrapper
from types import FunctionType, MethodDescriptorType

from ._core import Producer, Tensor, _class_method, _class_tables
from .importers import GIVEN, of_class
from .locks import changing, import_module
from .text import as_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, overload

    from typing_extensions import CapsuleType

    _Class = TypeVar("_Class", bound=type)
else:

    def overload(function):
        return function


# The names under which the authors' own methods are kept, that of the attribute or method that
# gives an inner array, and that of the _Methods of a class.
OWN = {"__dlpack__": "__dlshim_dlpack__", "__dlpack_device__": "__dlshim_dlpack_device__"}
INNER = "__dlshim_inner__"
METHODS = "__dlshim_methods__"


class _Given:
    """The function from_dlpack=, which is no method of the class."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        self.function = function


class _Methods:
    """The methods that `producer` made for one class.

    methods: by name; known: what each knows of the class, by name; inherited: the base that an own
    method is kept from, by name; tables: the C table under its names
    """

    def __init__(self, inherited: dict[str, type]) -> None:
        self.methods: dict[str, Any] = {}
        self.known: dict[str, tuple[Any, str | None]] = {}
        self.inherited = inherited
        self.tables: dict[str, Any] = {}

    def make(self, cls: type, name: str, own: Any, inner: str | None, had: _Methods | None) -> Any:
        """Make a method that knows the own one and the inner array; the same twice is one."""
        known = own, inner
        before = had.known.get(name) if had else None
        if had and before and all(a is b for a, b in zip(before, known, strict=True)):
            made = had.methods[name]
        else:
            plain = own is None or type(own) in _PLAIN
            made = _class_method(cls, name, own if plain else later(cls, OWN[name]), inner)
        self.known[name], self.methods[name] = known, made
        return made

    def make_tables(self, from_dlpack: Any, members: dict[str, Any]) -> dict[str, Any]:
        """Make the C table of a class whose home is its own `from_dlpack`; of the missing names."""
        tables = _class_tables(from_dlpack)
        self.tables = {name: table for name, table in tables.items() if name not in members}
        return self.tables

    def __set_name__(self, copied: type, _: str) -> None:
        """Give a class that was made of the members of another one methods of its own.

        dataclass(slots=True) makes such a class. The methods take objects of their own class alone.
        """
        methods = _Methods(self.inherited)
        for name, method in self.methods.items():
            made = methods.make(copied, name, *self.known[name], None)
            if vars(copied).get(name) is method:
                type.__setattr__(copied, name, made)
        members = {k: v for k, v in vars(copied).items() if self.tables.get(k, methods) is not v}
        for name, table in methods.make_tables(of_class(copied), members).items():
            type.__setattr__(copied, name, table)
        type.__setattr__(copied, METHODS, methods)


# The kinds of members that are called with the object as their first argument.
_PLAIN: tuple[type, ...] = (FunctionType, MethodDescriptorType)


def is_abstract(value: Any) -> Any:
    """Whether a subclass has to write the method."""
    return getattr(value, "__isabstractmethod__", None)


def bind(value: Any, x: Any) -> Any:
    """Make a method of a class's member, as looking it up on `x` does."""
    get = getattr(type(value), "__get__", None)
    return get(value, x, type(x)) if get else value


def later(owner: type, name: str) -> Any:
    """Make a function that calls the member that this class has at the time of the call."""
    members = vars(owner)

    def own(self: Any, *args: Any, **keywords: Any) -> Any:
        now = members[name]
        if type(now) is FunctionType:  # as usual: half the time
            return now(self, *args, **keywords)
        return bind(now, self)(*args, **keywords)

    return own


def _has_ours(members: Any, name: str) -> bool:
    """Whether the class of these members has the method that was made for it."""
    put = members.get(METHODS)
    return put is not None and members.get(name) is put.methods[name]


#: Of code that takes `*args`.
CO_VARARGS = 0x04


def runs(x: Any, function: Any) -> bool:
    """Whether this function is called with `x` already, in this thread and greenlet."""
    codes = []
    while function is not None:  # functools.wraps puts a function around the author's
        codes.append(getattr(function, "__code__", None))
        function = getattr(function, "__wrapped__", None)
    frame = sys._getframe(1) if codes != [None] else None
    while frame is not None:
        if frame.f_code in codes and _was_called_with(frame, x):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _was_called_with(frame: Any, x: Any) -> bool:
    """Whether the first argument was `x`; an object of no such class has taken its name since."""
    code, values = frame.f_code, frame.f_locals
    if code.co_argcount:
        first = values.get(code.co_varnames[0])
        return first is x or not isinstance(first, type(x))
    if not code.co_flags & CO_VARARGS:
        return False
    given = values.get(code.co_varnames[code.co_kwonlyargcount])
    return not isinstance(given, tuple) or not given or given[0] is x


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
        if _has_ours(vars(base), name):
            if name not in OWN or OWN[name] in vars(base) or INNER in vars(base):
                break
            continue  # the mixin's, in front of the class that has the author's
        if is_abstract(value):
            return fill and base is not cls
        if name not in OWN:
            raise TypeError(
                f"{cls!r} has an {name} of its own, which stays\n  leave array=True out"
            )
        inherited = put[METHODS].inherited
        inherited.pop(name, None)
        if base is not cls:
            inherited[name] = base
            if type(value) is not MethodDescriptorType:
                value = update_wrapper(later(base, name), value, updated=())
        put[OWN[name]] = value
        break
    return True


def _own_of(cls: type, name: str, put: dict[str, Any]) -> Any:
    """What the author of this class wrote in it, which may have its other name already."""
    if name not in OWN or name in put[METHODS].inherited:
        return None
    return put.get(OWN[name], vars(cls).get(OWN[name]))


def _inner_of(cls: type, name: str, put: dict[str, Any]) -> str | None:
    """The name of the inner array of this class, which its __dlpack__ exports."""
    return put.get(INNER, vars(cls).get(INNER)) if name == "__dlpack__" else None


def _package_of(module: Any) -> str:
    """Name the package at the top; `_mylib`, compiled, and `mylib` are one."""
    return str(module).partition(".")[0].lstrip("_")


# Flags of types: made at run time, and of those the ones that nobody may change.
_HEAP, _IMMUTABLE = 1 << 9, 1 << 8
_CHANGEABLE = _HEAP | _IMMUTABLE


def _is_finished(cls: type) -> bool:
    """Whether a class is found under its name: it is, once its definition has ended.

    The qualified name of `jax.Array` begins with another module: so its last part counts, too.
    """
    module: Any = sys.modules.get(cls.__module__)
    names = cls.__qualname__.split(".")
    found = module
    for name in names:
        found = getattr(found, name, None)
    return found is cls or getattr(module, names[-1], None) is cls


def _is_foreign(cls: type) -> bool:
    """Whether a class that is finished, and can be changed, is of a package without a part here."""
    if cls.__flags__ & _CHANGEABLE != _HEAP:
        return False
    module, frame = getattr(cls, "__module__", None), sys._getframe(1)
    packages = set()
    while frame is not None:
        packages.add(_package_of(frame.f_globals.get("__name__")))
        frame = frame.f_back  # type: ignore[assignment]
    home = _package_of(module)
    if home in packages or not _is_finished(cls):
        return False
    found_in = import_module("importlib.metadata").packages_distributions()
    brings = {_package_of(name): {*found} for name, found in found_in.items()}
    ours = set().union(*(brings.get(name, set()) for name in packages))
    return not ours & brings.get(home, set()) - {"dlshim"}


def _check(inner: Any, array: Any, from_dlpack: Any) -> None:
    if not (from_dlpack is None or callable(from_dlpack)):
        raise TypeError(
            f"from_dlpack={as_code(from_dlpack)} cannot be called\n"
            "  pass a function that makes an object of a dlshim.Tensor"
        )
    if not (inner is None or (isinstance(inner, str) and inner.isidentifier())):
        raise TypeError(
            f"inner={as_code(inner)} is not the name of an attribute or of a method\n"
            "  name a method that returns the array"
        )
    if not isinstance(array, bool):
        raise TypeError(f"array={as_code(array)} is neither True nor False")


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


def _has_plain_metaclass(cls: type) -> bool:
    """Whether members of the class are read and set without code of its metaclass."""
    meta = type(cls)
    plain = meta.__setattr__ is type.__setattr__ and meta.__getattribute__ is type.__getattribute__
    return plain and not any(hasattr(meta, name) for name in OWN)  # a property has a setter


def _changes_of(cls: type) -> list[Any]:
    """Tell how the class and its bases are changed now: another thread's change shows here."""
    return [vars(base).get(METHODS) for base in cls.__mro__]


def _change(
    cls: Any, inner: str | None, array: bool, fill: bool = True, from_dlpack: Any = None
) -> Any:
    """Change a class: first all its new members are made, and then they are set.

    They are set under the lock, so that no other change and no fork comes in between.  Where a
    metaclass has code of its own for that, the lock is not taken: the code may want a lock which a
    forking thread has.
    """
    lock = changing if _has_plain_metaclass(cls) else nullcontext()
    while True:
        with lock:
            seen = _changes_of(cls)
        made = _members(cls, inner, array, fill, from_dlpack)
        with lock:
            if _changes_of(cls) == seen:  # else another thread was quicker
                refused = _set_members(cls, made)
                break
    if refused is not None:
        raise TypeError(
            f"{cls!r} cannot be changed\n  wrap its objects with dlshim.upgrade(x) instead"
        ) from refused
    return abc.update_abstractmethods(cls)


def _members(
    cls: Any, inner: str | None, array: bool, fill: bool, from_dlpack: Any
) -> dict[str, Any]:
    """Make the new members of a class.

    They come in the order in which they are set: after each of them its objects can be exported.
    """
    had = vars(cls).get(METHODS)
    methods = _Methods(dict(had.inherited) if had else {})
    put: dict[str, Any] = {METHODS: methods}
    if inner is not None:
        owner = cls.__name__.lstrip("_")
        if inner.startswith("__") and not inner.endswith("__") and owner:
            inner = f"_{owner}{inner}"  # as Python names it in the class
        put[INNER] = inner
    if from_dlpack is not None:
        put[GIVEN] = _Given(from_dlpack)
    hook = vars(cls).get("__init_subclass__")
    if fill and getattr(cls, "__abstractmethods__", None) and not isinstance(hook, _Hook):
        put["__init_subclass__"] = _for_subclasses(cls, hook)
    for name in (*OWN, "__array__"):
        asked = array or name != "__array__"
        taken = asked and _keep_own(cls, name, put, fill)
        own = _own_of(cls, name, put)
        value = methods.make(cls, name, own, _inner_of(cls, name, put), had)
        if taken:
            put[name] = value
    ours = had.tables if had else {}
    now = vars(cls).copy()  # another thread may change the class
    members = {k: v for k, v in now.items() if ours.get(k, put) is not v}
    return put | put[METHODS].make_tables(from_dlpack or of_class(cls), members)


def _set_members(cls: Any, made: dict[str, Any]) -> Exception | None:
    """Set all or none; return the error of a class that cannot be changed."""
    before = vars(cls).copy()
    try:
        if cls is Producer or cls is Tensor:
            raise TypeError
        for name, value in made.items():
            setattr(cls, name, value)
    except BaseException as error:
        # A metaclass may refuse any of them: then none stays.
        for name in made:
            if name in vars(cls) and name not in before:
                type.__delattr__(cls, name)
            elif vars(cls).get(name) is not before.get(name):
                type.__setattr__(cls, name, before[name])
        if not isinstance(error, (TypeError, AttributeError)):
            raise
        return error
    return None


@overload
def producer(
    cls: _Class,
    /,
    *,
    inner: str | None = None,
    array: bool = False,
    from_dlpack: Callable[[Tensor], Any] | None = None,
) -> _Class: ...
@overload
def producer(  # noqa: F811
    cls: None = None,
    /,
    *,
    inner: str | None = None,
    array: bool = False,
    from_dlpack: Callable[[Tensor], Any] | None = None,
) -> Callable[[_Class], _Class]: ...
def producer(  # noqa: F811
    cls: Any = None,
    /,
    *,
    inner: str | None = None,
    array: bool = False,
    from_dlpack: Callable[[Tensor], Any] | None = None,
) -> Any:
    """Make a class a producer of every edition of DLPack: change it, and return it.

    Its objects are asked as ``upgrade`` asks them: by a ``__dlpack__``, a buffer, an interface.

    inner: the attribute or method that gives an array, or (buffer, shape, dtype), which is then
        exported instead
    array: add ``__array__`` too, for NumPy
    from_dlpack: makes an object of a Tensor, for what compiled functions return; without it the
    class's own classmethod or staticmethod ``from_dlpack`` does
    """
    _check(inner, array, from_dlpack)
    if cls is None:
        return lambda cls: producer(cls, inner=inner, array=array, from_dlpack=from_dlpack)
    if not isinstance(cls, type):
        cure = "name an array with inner=, or wrap an object with dlshim.upgrade(x)"
        raise TypeError(f"dlshim.producer changes classes, not {as_code(cls)}\n  {cure}")
    if getattr(cls, "_is_protocol", False):
        raise TypeError(f"{cls!r} is a Protocol\n  change the classes that follow it instead")
    if _is_foreign(cls):
        package = cls.__module__.partition(".")[0]
        raise TypeError(
            f"{cls!r} belongs to {package}, whose other users would see it changed\n"
            "  wrap its objects with dlshim.upgrade(x), or decorate a subclass of your own"
        )
    if inner is None and not _may_export(cls):
        raise TypeError(
            f"{cls!r} has nothing to export\n"
            "  name its array with inner=, or write a __dlpack__; a base class whose subclasses do "
            "so takes dlshim.ProducerMixin"
        )
    return _change(cls, inner, array, from_dlpack=from_dlpack)


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
        cls,
        /,
        *,
        inner: str | None = None,
        array: bool = False,
        from_dlpack: Callable[[Tensor], Any] | None = None,
        **keywords: Any,
    ) -> None:
        _check(inner, array, from_dlpack)
        following = super().__init_subclass__
        if keywords and not hasattr(following, "__func__"):  # that of `object`
            given = ", ".join(keywords)
            raise TypeError(
                f"{cls!r}: dlshim.ProducerMixin takes inner=, array= and from_dlpack=, not {given}="
            )
        following(**keywords)
        _change(cls, inner, array, from_dlpack=from_dlpack)


# No thread sees it before the import ends, and an import may not take the lock (locks.py).
_set_members(ProducerMixin, _members(ProducerMixin, None, False, True, None))
producer.__module__ = ProducerMixin.__module__ = "dlshim"
