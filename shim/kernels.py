"""Compiled kernels as arrays of any library call them: `dlshim.kernel` (K1-K11).

A call runs in C (``src/public/kernel.c``): what the function is given for arrays, and for lists and
tuples of them.  What comes back is brought home here, and so are calls with anything else: types
that were not met yet, columns, and deeper containers take `Calls.in_full`.
"""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import sys
from weakref import WeakKeyDictionary

from ._core import (
    Producer,
    Tensor,
    _check_wanted,
    _home_of,
    _kernel,
    _upgrade_into,
    from_dlpack,
    to_capsule,
    upgrade,
)
from .arguments import accepted, at, check_named, check_writable, positional, signature, written
from .importers import LIBRARIES, importer_of, of_release
from .locks import import_module
from .text import as_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, ParamSpec, TypeAlias, TypedDict, TypeVar, overload

    from typing_extensions import Unpack

    from .arguments import Wanted
    from .importers import Importer

    P = ParamSpec("P")
    R = TypeVar("R")
    Takes: TypeAlias = Literal["tensor", "capsule", "capsule-1"] | str | None
    Returns: TypeAlias = Literal["home"] | type | None
    Types: TypeAlias = Any  # one value or several, or a dict of such by name and position
    Writes: TypeAlias = bool | str | int | tuple[str | int, ...] | list[str | int]

    class Options(TypedDict, total=False):
        """The options of `upgrade`."""

        stream: Any
        producer_stream: Any
        unknown_stream: Literal["auto", "legacy", "same", "error"]
        device: Any
        copy: bool | None
        readonly: bool | Literal["error", "copy", "share"] | None
        order: Literal["K", "C", "auto"] | None
        align: int | None
        reinterpret: Any
        assume_device: Any
        detach: bool | Literal["auto"]
        on_release: Literal["contract", "guard"]


#: What a type has whose objects are arrays here (K3).
_OF_ARRAYS = (
    "__dlpack__",
    "__dlpack_c_exchange_api__",
    "__c_dlpack_exchange_api__",
    "__cuda_array_interface__",
    "__sycl_usm_array_interface__",
)
#: Methods of columns and tables of Arrow, and names that tables, readers and data sets alone have.
_OF_ARROW = (
    "__arrow_c_device_array__",
    "__arrow_c_array__",
    "__arrow_c_device_stream__",
    "__arrow_c_stream__",
)
_OF_PANDAS = {("pandas", "Series"), ("pandas", "Index")}
_OF_TABLES = ("columns", "column_names", "read_all", "to_table")


def _offers(x: Any, names: tuple[str, ...]) -> bool:
    cls = type(x)
    return any(getattr(cls, name, None) is not None for name in names)


def is_array(x: Any) -> bool:
    """Whether a result is an array, by its type."""
    return _offers(x, _OF_ARRAYS)


def is_argument(x: Any) -> bool:
    """Whether an argument is an array or a column, by its type."""
    if is_array(x):
        return True
    return (_offers(x, _OF_ARROW) or _is_of_pandas(x)) and not _offers(x, _OF_TABLES)


def _is_of_pandas(x: Any) -> bool:
    """Whether it is a column of pandas, which need not offer Arrow (C12)."""
    # Classes made in C may have no module, those of SWIG for example.
    names = {
        (str(getattr(cls, "__module__", "")).partition(".")[0], cls.__name__)
        for cls in type(x).__mro__
    }
    return not names.isdisjoint(_OF_PANDAS)


# ---- containers --------------------------------------------------------------------------------


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_make")


def _items(x: Any) -> list[tuple[Any, Any]] | None:
    """The places and the contents of a container that is searched; None: it is none.

    A container is read here and nowhere else: what runs meanwhile, in this thread or in another,
    may change it.
    """
    cls = type(x)
    if cls is dict:
        return list(x.copy().items())
    if cls is list or cls is tuple or _is_named_tuple(cls):
        return list(enumerate(tuple(x)))
    return None


def _made_of(cls: Any, items: list[tuple[Any, Any]]) -> Any:
    """A container of this class with these places and contents."""
    if cls is dict:
        return dict(items)
    values = [value for _, value in items]
    return cls(values) if cls in (list, tuple) else cls._make(values)


def replace(
    x: Any,
    chosen: Callable[[Any], bool],
    change: Callable[[Any, str], Any],
    place: str,
    met: dict[int, tuple[Any, Any]],
) -> Any:
    """Change what is chosen in x, depth first; a container without a change stays itself.

    met: by its id, each container that was met before, and what has become of it, or None as long
    as it is searched.  So one container at two places stays one, and is searched once.
    """
    found = _items(x)
    if found is None:
        return change(x, place) if chosen(x) else x
    if id(x) in met:
        _, became = met[id(x)]
        if became is None:
            raise ValueError(
                f"{place} contains itself: arrays are not looked for in such a container"
            )
        return became
    met[id(x)] = (x, None)
    items = [
        (key, replace(value, chosen, change, f"{place}[{key!r}]", met)) for key, value in found
    ]
    changed = any(new is not old for (_, new), (_, old) in zip(items, found, strict=True))
    became = _made_of(type(x), items) if changed else x
    met[id(x)] = (x, became)
    return became


# ---- where results go --------------------------------------------------------------------------


class Home:
    """The library of a call: the class of Producers, and what makes an array of the library."""

    def __init__(self, array: Any) -> None:
        is_type = isinstance(array, type)
        source = array.source if isinstance(array, Producer) else array
        self.producers = Producer if is_type else _home_of(array)
        self.type = array if is_type else type(source)
        self.importer: Importer = importer_of(self.type) or from_dlpack

    def has(self, x: Any) -> bool:
        """Whether a result is of this library already."""
        importer = from_dlpack if isinstance(x, Tensor) else importer_of(type(x))
        return isinstance(x, self.type) or importer == self.importer

    def takes(self, x: Any) -> bool:
        """Whether an argument is passed as it is: ours, or one whose C table allocates (K3)."""
        cls = type(x)
        has_table = hasattr(cls, "__dlpack_c_exchange_api__") or issubclass(cls, Tensor)
        return has_table and _home_of(x) is self.producers

    def make(self, tensor: Tensor) -> Any:
        """An array of the library."""
        try:
            return self.importer(tensor)
        except (BufferError, RuntimeError):
            if getattr(self.importer, "__module__", None) != "numpy" or tensor.dtype.kind != "V":
                raise
        return tensor.numpy()  # bfloat16 and the like are those of ml_dtypes

    def bring(self, result: Any, own: dict[int, Any]) -> Any:
        """The result with its arrays of this library; `own`: the caller's, by what was passed."""

        def change(x: Any, place: str) -> Any:
            if id(x) in own:
                return own[id(x)]
            return x if self.has(x) else self.make(from_dlpack(x))

        return replace(result, is_array, change, "the result", {})


# ---- what a function is given instead of an array ----------------------------------------------


def _library(name: str) -> Callable[..., Any]:
    """The function that makes an array of the library that the user has named (K7)."""
    known = import_module("dlshim.libraries").BY_KEY
    module = importlib.import_module(known[name].module if name in known else name)
    found = getattr(module, "from_dlpack", None)
    if name in LIBRARIES:
        return LIBRARIES[name]
    if not callable(found):
        raise ValueError(f"takes={name!r}: {module.__name__} has no from_dlpack")
    return of_release(found)


def _capsule_1(x: Any, **options: Any) -> Any:
    return to_capsule(x, max_version=(1, 3), **options)


#: In the order of dls_kernel_takes (src/public/kernel_arguments.h), from 1 on.
_MAKERS: dict[str, Callable[..., Any]] = {
    "tensor": from_dlpack,
    "capsule": to_capsule,
    "capsule-1": _capsule_1,
}


# ---- the calls of one function -----------------------------------------------------------------


class Calls:
    """What `kernel` was told of a function, and its calls as far as they run in Python."""

    def __init__(
        self,
        function: Callable[..., Any],
        takes: Takes,
        returns: Returns,
        like: Any,
        writes: Writes,
        dtypes: Any,
        ndims: Any,
        options: dict[str, Any],
    ) -> None:
        self.function, self.takes, self.returns = function, takes, returns
        # The caller may change a list later, and a pickle reads it again (`said`).
        self.writes = tuple(writes) if isinstance(writes, list) else writes
        self.types = {"dtypes": copy.deepcopy(dtypes), "ndims": copy.deepcopy(ndims)}
        self.like, self.given = like, options
        # A Tensor's address goes to code that looks at nothing else (K12).
        by_address = takes == "tensor"
        self.options = ({"order": "C"} if by_address else {}) | options
        self.home = Home(like) if like is not None else None
        self.out = Home(returns) if isinstance(returns, type) else None
        self.maker = _MAKERS.get(takes) if takes else None
        # Whether arrays of a type are those of the library that takes= names.
        self.own_types: WeakKeyDictionary[type, bool] = WeakKeyDictionary()
        parameters = signature(function)
        self.names = positional(parameters)
        self.written = written(self.writes)
        check_named(function, parameters, "writes", self.written)
        self.all_written = writes is True
        for word, value in self.types.items():
            check_named(function, parameters, word, value if isinstance(value, dict) else ())
        host = by_address and not {"device", "like"} & {*options}
        self.wanted: tuple[Wanted, ...] | None = None
        self.wanted_positions, self.wanted_names = 0, dict[str, int]()
        if found := accepted(self.types, self.names, host):
            self.wanted, self.wanted_positions, self.wanted_names = found
        for each in self.wanted or ():
            _check_wanted(each)
        self._tell_c()

    def _tell_c(self) -> None:
        """Attributes that kernel.c reads: what was said, decided as far as it can be."""
        kinds = [None, *_MAKERS]
        self.kind = kinds.index(self.takes) if self.takes in kinds else len(kinds)
        self.stay = int(self.returns is None)
        home = self.out or self.home
        self.home_class = self.home and self.home.producers
        self.of_results = home and home.type
        # A bit for each position; keywords, and positions without a bit, in a set.
        bits = {i for i in range(64) if self.is_written(i)}
        self.mask = sum(1 << i for i in bits)
        far = {i for i in range(64, len(self.names)) if self.is_written(i)}
        named = {key for key in self.names if self.is_written(key)} | self.written | far
        self.written_names = None if self.all_written or not named else named
        self.look: dict[str, Any] = (
            {"stream": -1} | self.options if bits or named or self.wanted else {}
        )

    # ---- in ----

    def place(self, key: int | str, item: int = -1) -> str:
        """What an argument, by its position or its name, or an item of it is called in messages."""
        if isinstance(key, int):
            known = self.names[key] if key < len(self.names) else key + 1
        else:
            known = key
        return f"argument {known!r}" + (f"[{item}]" if item >= 0 else "")

    def is_written(self, key: int | str) -> bool:
        """Whether f writes an argument, by its position or its name."""
        if isinstance(key, int):
            named = self.names[key] if key < len(self.names) else None
            return self.all_written or key in self.written or named in self.written
        at = self.names.index(key) if key in self.names else None
        return self.all_written or key in self.written or at in self.written

    def wanted_of(self, key: int | str) -> Wanted | None:
        """What is accepted of an argument, by its position or its name; None: any array."""
        if self.wanted is None:
            return None
        if isinstance(key, str):
            return self.wanted[self.wanted_names.get(key, 0)]
        return self.wanted[key + 1 if key < self.wanted_positions else 0]

    def begin(
        self, skip: int, args: tuple[Any, ...], kwargs: dict[str, Any], pairs: tuple[Any, ...] = ()
    ) -> Call:
        """Upgrade the arguments of a call; the first `skip` are no arguments.

        pairs: arrays that the C code has met, each with what stands for it: they are not asked
        a second time.
        """
        call = Call(self)
        for array, made in pairs:
            call.done.setdefault(id(array), []).append(made)
        call.args = [*args[:skip]]
        call.own = {id(x): x for x in args[:skip]}
        for i, x in enumerate(args[skip:], skip):
            call.args.append(call.give(x, i))
        for key, x in kwargs.items():
            call.kwargs[key] = call.give(x, key)
        return call

    # ---- the ways in ----

    def in_full(
        self, skip: int, args: tuple[Any, ...], kwargs: dict[str, Any], pairs: tuple[Any, ...] = ()
    ) -> Any:
        """A call that the C code leaves to Python."""
        call = self.begin(skip, args, kwargs, pairs)
        return call.end(self.function(*call.args, **call.kwargs))

    def bring_home(self, result: Any, first: Any, pairs: tuple[Any, ...]) -> Any:
        """The result of a call whose arguments the C code has upgraded.

        pairs: each object of the caller, and what the function was given for it.
        """
        own = {id(made): array for array, made in pairs}
        return (self.out or self.home or Home(first)).bring(result, own)

    def imported(self, key: int | str, item: int, x: Any) -> Any:
        """What stands for an array where takes= is the name of a library."""
        if self.maker is None:
            self.maker = _library(self.takes or "")
        cls = type(x)
        is_own = self.own_types.get(cls)
        if is_own is None:
            is_own = self.own_types[cls] = importer_of(cls) == self.maker
        return x if is_own and not self.options else self.maker(from_dlpack(x, **self.options))

    def refuse_written(self, key: int | str, item: int, x: Any) -> None:
        """The refusal of memory that the function cannot write."""
        check_writable(x, self.place(key, item), self.options)

    def fail(self, key: int | str, item: int, error: BaseException) -> None:
        """The error of an argument, with its place."""
        if isinstance(error, (BufferError, TypeError, ValueError)):
            raise at(error, self.place(key, item)) from error.__cause__
        raise error

    def said(self) -> dict[str, Any]:
        """The keywords that `kernel` was given."""
        words = {"takes": self.takes, "returns": self.returns, "like": self.like}
        plain = {"takes": None, "returns": "home", "like": None}
        told = {name: value for name, value in words.items() if value is not plain[name]}
        told |= {name: value for name, value in self.types.items() if value is not None}
        return told | ({"writes": self.writes} if self.writes != () else {}) | self.given


class Call:
    """One call: what the function is given, and what of it is the caller's own."""

    def __init__(self, calls: Calls) -> None:
        self.calls, self.home = calls, calls.home
        self.args: list[Any] = []
        self.kwargs: dict[str, Any] = {}
        self.own: dict[int, Any] = {}
        self.kept: list[Any] = []  # the ids in `own` are of objects that live as long
        self.done: dict[int, list[Any]] = {}  # by its id, what stands for an array already
        # The containers that were met (`replace`), by what is checked of their arrays.
        self.met: dict[Any, dict[int, Any]] = {}

    def give(self, x: Any, key: int | str) -> Any:
        """What the function is given for an argument, by its position or its name."""
        written, wanted = self.calls.is_written(key), self.calls.wanted_of(key)

        def change(array: Any, place: str) -> Any:
            done = self.done.get(id(array))
            if written and not done:
                check_writable(array, place, self.calls.options)
            made = done.pop(0) if done else self.made(array, place, wanted)
            self.home = self.home or Home(array)
            self.kept.append(made)
            self.own[id(made)] = array
            return made

        met = self.met.setdefault((written, id(wanted)), {})
        return replace(x, is_argument, change, self.calls.place(key), met)

    def made(self, x: Any, place: str, wanted: Wanted | None) -> Any:
        """What stands for an array."""
        calls = self.calls
        options = calls.options
        try:
            self.home = self.home or Home(x)
            if calls.takes == "tensor":
                tensor = from_dlpack(x, **options)
                if wanted:
                    _check_wanted(wanted, x, tensor)
                return tensor
            if wanted:
                _check_wanted(wanted, x, from_dlpack(x, **calls.look))
            if calls.takes in _MAKERS:
                return calls.maker(x, **options)  # type: ignore[misc]
            if calls.takes:
                return calls.imported(0, -1, x)
            if not options and self.home.takes(x):
                return x
            return _upgrade_into(self.home.producers, x, **options)
        except (BufferError, TypeError, ValueError) as error:
            raise at(error, place) from error.__cause__

    def end(self, result: Any) -> Any:
        """What the caller gets."""
        if self.calls.returns is None:
            return result
        home = self.calls.out or self.home
        return result if home is None else home.bring(result, self.own)


# ---- the public function -----------------------------------------------------------------------


def _check_function(function: Any) -> None:
    kind = ""
    if isinstance(function, type):
        kind = "a class: what it makes keeps what it is given"
    elif is_array(function):
        kind = "an array\n  pass the function that takes it"
    elif inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        kind = "a generator function: what it yields would not come home\n  return a list"
    elif not callable(function):
        kind = "not callable"
    if kind:
        raise TypeError(f"kernel() takes a function, and {as_code(function)} is {kind}")


def _check_words(takes: Any, returns: Any, options: dict[str, Any]) -> None:
    if takes is not None and not (isinstance(takes, str) and takes):
        raise TypeError(f"takes= is {', '.join(map(repr, _MAKERS))}, the name of a library or None")
    if returns is not None and returns != "home" and not isinstance(returns, type):
        raise TypeError(f"returns= is 'home', a type or None, not {as_code(returns)}")
    try:
        upgrade(b"", **options)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("upgrade()", "kernel()")) from None


if TYPE_CHECKING:

    @overload
    def kernel(
        function: Callable[P, R],
        /,
        *,
        takes: Takes = None,
        returns: Returns = "home",
        like: Any = None,
        writes: Writes = (),
        dtypes: Types = None,
        ndims: Types = None,
        **options: Unpack[Options],
    ) -> Callable[P, R]: ...
    @overload
    def kernel(
        function: None = None,
        /,
        *,
        takes: Takes = None,
        returns: Returns = "home",
        like: Any = None,
        writes: Writes = (),
        dtypes: Types = None,
        ndims: Types = None,
        **options: Unpack[Options],
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def kernel(
    function: Any = None,
    /,
    *,
    takes: Any = None,
    returns: Any = "home",
    like: Any = None,
    writes: Any = (),
    dtypes: Any = None,
    ndims: Any = None,
    **options_of_upgrade: Any,
) -> Any:
    """Have a function that takes DLPack arrays take, and return, arrays of any library.

    Array arguments, also those in lists, tuples and dicts, are upgraded, and arrays that come back
    become arrays of the library of the first one.  As a call or as a decorator.

    takes: what the function gets for an array: None: a Producer, which compiled functions take,
        "tensor", "capsule" or "capsule-1" (of DLPack 1), or "torch" and the like
    returns: "home": results of the library of the first array, a type: of its library, None: as
        the function returns them
    like: an array of the library that results come home to
    writes: names or positions of the arguments that the function writes, or True: memory that is
        read-only, or that an option would copy, is refused.  Without it read-only memory is passed
        with its flag, which many compiled functions do not look at
    dtypes: the dtype that the function accepts, or several, of every array, or a dict of such by
        name and position of the arguments; others are a TypeError before the function is called
    ndims: as dtypes, the number of dimensions; others are a ValueError.  With takes="tensor" rows
        lie one after the other (order="C"), and memory off the host is refused unless device= says
        otherwise
    options_of_upgrade: for every array argument
    """
    _check_words(takes, returns, options_of_upgrade)
    told = {"takes": takes, "returns": returns, "like": like, "writes": writes}
    told |= {"dtypes": dtypes, "ndims": ndims} | options_of_upgrade
    if function is None:
        return functools.partial(kernel, **told)
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(kernel(function.__func__, **told))
    _check_function(function)
    calls = Calls(function, takes, returns, like, writes, dtypes, ndims, options_of_upgrade)
    if inspect.iscoroutinefunction(function):
        return _awaiting(calls)
    made = _kernel(function, calls)
    return functools.update_wrapper(made, function)


def _awaiting(calls: Calls) -> Callable[..., Any]:
    """A function, as `inspect.iscoroutinefunction` wants one; it knows the object of a method."""

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        classes = type(args[0]).__mro__ if args else ()
        is_method = any(vars(cls).get(awaited.__name__) is awaited for cls in classes)
        call = calls.begin(int(is_method), args, kwargs)
        return call.end(await calls.function(*call.args, **call.kwargs))

    return functools.wraps(calls.function)(awaited)


def reduce(made: Any, calls: Calls) -> Any:
    """A pickle of what `kernel` has made: by name, as of a function, else of what it wraps."""
    module = sys.modules.get(getattr(made, "__module__", None) or "")
    name = found = getattr(made, "__qualname__", None)
    if name:
        found = functools.reduce(lambda x, part: getattr(x, part, None), name.split("."), module)
    if found is made:
        return name
    return rebuild_kernel, (calls.function, calls.said())


def rebuild_kernel(function: Callable[..., Any], told: dict[str, Any]) -> Any:
    """Make a kernel from the values of `reduce`; pickles name this ``dlshim._rebuild_kernel``."""
    return kernel(function, **told)


rebuild_kernel.__module__, rebuild_kernel.__qualname__ = "dlshim", "_rebuild_kernel"
