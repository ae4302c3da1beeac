"""The two sides of an exchange as the checks see them, and what names on a command line mean."""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import math
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .catalogue import NotApplicable, TargetError
from .doubles import capsules as caps
from .doubles.producers import P2
from .rules import EDITIONS, edition

#: The dtypes that cases are made of, as the array API and ml_dtypes name them.
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128", "bfloat16",
)  # fmt: skip
OF_THE_STANDARD = tuple(name for name in DTYPES if name not in ("float16", "bfloat16"))

#: Numbers that arithmetic, or a way through another dtype, changes, by their bits: minus zero,
#: the least number, infinity, and a number that is none and says why; of integers large ones.
ODD = {
    name: [
        (bits | (sign << 8 * size - 1)).to_bytes(size, sys.byteorder) * parts
        for bits, sign in ((0, 1), (1, 0), (1, 1), (infinite, 0), (infinite | quiet | 5, 0))
    ]
    for name, size, parts, infinite, quiet in (
        ("float16", 2, 1, 0x7C00, 0x200),
        ("float32", 4, 1, 0x7F800000, 0x400000),
        ("float64", 8, 1, 0x7FF << 52, 1 << 51),
        ("complex64", 4, 2, 0x7F800000, 0x400000),
        ("complex128", 8, 2, 0x7FF << 52, 1 << 51),
    )
} | {
    name: [number.to_bytes(8, sys.byteorder) for number in (2**53 + 1, 2**63 - 1, 2**64 - 1, 1)]
    for name in ("int64", "uint64")  # which a float64 does not hold
}

#: Kinds of devices that one memory may have: what the host reads, what CUDA reads, and ROCm.
KIN = ({1, 3, 11, 13}, {2, 3, 13}, {10, 11})


def akin(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether one memory may have both names; the id of the host's is 0 whatever device reads it,
    so that ids are compared only where the kinds are the same."""
    kinds = {one[0], other[0]}
    return one == other or (len(kinds) == 2 and any(kinds <= each for each in KIN))


Make = Callable[..., Any]


def said(error: BaseException) -> str:
    """An exception in one line."""
    text = re.sub(
        r"\x1b\[[0-9;]*m|\[[01](;\d+)?m", "", " ".join(str(error).replace("\n  ", "; ").split())
    )
    text = re.sub(r"0x[0-9a-f]{6,}", "0x...", text)
    return f"{type(error).__name__}: {text[:200]}"


def known_dtypes(names: Sequence[str] | str) -> tuple[str, ...]:
    """The names in a sequence, or in a text with commas between them."""
    listed = names.split(",") if isinstance(names, str) else names
    names = tuple(name.strip() for name in listed if name.strip())
    for name in names:
        if name not in DTYPES:
            raise ValueError(f"{name!r} is no dtype of the checks; they are {', '.join(DTYPES)}")
    return names


def any_of(dtypes: tuple[str, ...], dtype: str) -> str:
    """float32 stands for the first of the dtypes where it is not among them."""
    return dtypes[0] if dtypes and dtype == "float32" and dtype not in dtypes else dtype


def insist_callable(what: str, value: Any) -> None:
    if not callable(value):
        raise TypeError(f"{what} must be a function, and it is of type {type(value).__name__}")


def functions_of(what: str, table: Any) -> dict[str, Callable[[], Any]]:
    """A dictionary whose values are functions, or nothing."""
    if not isinstance(table or {}, Mapping):
        raise TypeError(f"{what} must be a dictionary of functions, not a {type(table).__name__}")
    for name, value in (found := dict(table or {})).items():
        insist_callable(f"{what}[{name!r}]", value)
    return found


def called(what: str, function: Callable[[], Any]) -> Any:
    """What a function of the target gives; TargetError where it fails."""
    try:
        return function()
    except Exception as error:
        raise TargetError(f"{what} fails: {said(error)}{place_of(error)}") from error


def place_of(error: BaseException) -> str:
    """Where an exception was raised, for people to look at."""
    *_, last = [None, *traceback.extract_tb(error.__traceback__)]
    return f" ({last.filename}, line {last.lineno})" if last else ""


def given(what: str, make: Callable[[], Any]) -> Any:
    """An array that the target makes; TargetError where it makes none."""
    if (array := called(what, make)) is None:
        raise TargetError(f"{what} gives None, and must give an array")
    return array


class Producer:
    """A library's arrays.

    ``make(shape, dtype)`` gives a new array.  Its elements are all zero, or count up from zero in
    row-major order.  The dtype is passed as the namespace's object of that name where there is one,
    else as a string; a function that takes no dtype is called with the shape alone.

    ``read_only()`` gives an array that may not be written, ``special`` arrays made in special ways
    with the values that they hold, ``refused`` arrays that DLPack cannot describe.
    ``dtypes`` are the only ones that the library has, by the names of the array API; where float32
    is not among them, the checks that need any dtype take the first one.
    ``one_dimension`` says that it has no arrays of other dimensions.
    ``work_stream()`` gives the stream of a device on which the library's unfinished work lies, by
    default the legacy default stream.  ``always_ready=True`` says that there is none: the library
    waits for its work before anybody gets the array, and may ignore ``stream`` therefore.
    """

    def __init__(
        self,
        make: Make,
        *,
        namespace: Any = None,
        claims: str = "",
        read_only: Callable[[], Any] | None = None,
        special: Mapping[str, Callable[[], tuple[Any, list[Any]]]] | None = None,
        refused: Mapping[str, Callable[[], Any]] | None = None,
        work_stream: Callable[[], int] | None = None,
        always_ready: bool = False,
        one_dimension: bool = False,
        dtypes: Sequence[str] = (),
    ) -> None:
        if isinstance(make, Consumer):
            raise TypeError("the target is named as a producer, and is a Consumer")
        insist_callable("a producer", make)
        for name, value in (("read_only", read_only), ("work_stream", work_stream)):
            if value is not None:
                insist_callable(f"{name}=", value)
        if always_ready and work_stream is not None:
            raise TypeError("always_ready=True says that no work is unfinished: no work_stream=")
        self._make = make
        self.leaves = ""
        """The exception that a deleter of its exports left behind: whatever drops a capsule fails
        then at some later place, so that nothing is found out."""
        self.always_ready = always_ready
        self.one_dimension = one_dimension
        self.dtypes = known_dtypes(dtypes)
        self._work_stream = work_stream
        self.namespace = namespace
        self.read_only = read_only
        self.special = functions_of("special=", special)
        self.refused = functions_of("refused=", refused)
        self._claims = edition(claims)

    @property
    def claims(self) -> str:
        """The edition of the array API that the library claims; it is asked when first needed."""
        if not self._claims:
            self._claims = claimed(self.namespace) or self._by_its_answer()
        return self._claims

    def _by_its_answer(self) -> str:
        """A struct of DLPack 1.x is a claim of 2023.12, where `max_version` came from."""
        name = self.answer({"max_version": (1, 0)})
        return "2023.12" if name == caps.VERSIONED else "2022.12"

    def answer(self, keywords: dict[str, Any]) -> str:
        """The name of the capsule that an export gives, which goes here; nothing where it is
        refused, or gives something else, which the checks judge.  What its deleter leaves behind
        is kept in `leaves`."""
        try:
            only = [self.make((2, 3)).__dlpack__(**keywords)]
        except Exception:
            return ""
        if not isinstance(only[0], caps.Capsule):
            return ""
        name = caps.name_of(only[0])
        try:
            caps.let_go(only)
        except Exception as error:
            self.leaves = said(error)
        return name

    @property
    def is_decorated(self) -> bool:
        """Whether the arrays have their `__dlpack__` from `dlshim.producer`."""
        method = inspect.getattr_static(type(self.make((2, 3))), "__dlpack__", None)
        return type(method).__module__ == "dlshim._core" and type(method).__name__ == "Method"

    def work_stream(self, default: int) -> int:
        """The stream of the library's unfinished work; TargetError where the target gives none."""
        if self._work_stream is None:
            return default
        stream = called("work_stream=", self._work_stream)
        if not isinstance(stream, int):
            kind = type(stream).__name__
            raise TargetError(f"work_stream= must give the stream as an int, and gives a {kind}")
        return stream

    def usual(self, dtype: str = "float32") -> str:
        """What is made where a check names this dtype; float32 stands for any."""
        return any_of(self.dtypes, dtype)

    def make(self, shape: tuple[int, ...], dtype: str = "float32") -> Any:
        """A new array, or NotApplicable where the library cannot make it.

        Of a library of one dimension alone it has that many elements in a row.
        """
        if self.one_dimension and len(shape) != 1:
            if not shape:
                raise NotApplicable("the target is said to have one dimension alone")
            shape = (math.prod(shape),)
        if (dtype := self.usual(dtype)) not in (self.dtypes or DTYPES):
            raise NotApplicable(f"the target is said to have {', '.join(self.dtypes)} alone")
        wanted = getattr(self.namespace, dtype, dtype)
        failures = []
        for arguments, keywords in (
            ((shape,), {"dtype": wanted}),
            ((shape, wanted), {}),
            ((shape,), {"dtype": dtype}),
            ((shape,), {}),
        ):
            try:
                array = self._make(*arguments, **keywords)
            except Exception as error:
                failures.append((is_of_the_call(error), said(error)))
                continue
            if array is None:
                failures.append((False, "the function gives None"))
                continue
            by_shape_alone = not keywords and len(arguments) == 1
            if by_shape_alone and dtype != self.usual():
                break
            if by_shape_alone and (why := wraps_the_shape(array)):
                raise NotApplicable(
                    f"the target {name_of(self._make)} does not take (shape, dtype): called with "
                    f"the shape alone, it gives an object that has no device ({why}); name a "
                    f"function of a shape and a dtype"
                )
            if (made := dtype_name(array)) not in ("", dtype):
                said_no = [why for of_the_call, why in failures if not of_the_call]
                raise NotApplicable(
                    f"the library makes {made} where {dtype} is asked for; if it has no other "
                    f'dtype, say so: Producer(..., dtypes=("{made}",)), or --dlpack-dtypes {made}'
                    + "".join(f"; asked for dtype={wanted!r}, it raised {no}" for no in said_no[:1])
                )
            if (found := shape_of(array)) not in (None, shape):
                raise NotApplicable(
                    f"the library makes an array of shape {found} where {shape} is asked for; if "
                    "it has no other number of dimensions, say so: Producer(..., "
                    "one_dimension=True)"
                )
            return array
        _, why = min(failures, key=lambda failure: failure[0])  # the first of the library's own
        raise NotApplicable(f"the library makes no {dtype} of shape {shape}: {why}")


def name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__name__)


def wraps_the_shape(array: Any) -> str:
    """Why this is no array but an object around the tuple that it was made of; else nothing.

    A class of arrays whose constructor takes an array is no producer.
    """
    try:
        array.__dlpack_device__()
    except AttributeError as error:
        return said(error) if isinstance(error.obj, tuple) else ""
    except Exception:
        return ""
    return ""


def is_of_the_call(error: Exception) -> bool:
    """Whether a function was not even begun, as it takes no arguments of this kind."""
    trace = error.__traceback__
    return isinstance(error, TypeError) and (trace is None or trace.tb_next is None)


def shape_of(array: Any) -> tuple[int, ...] | None:
    """The array's own word; None where it has none."""
    try:
        return tuple(int(extent) for extent in array.shape)
    except Exception:
        return None


def dtype_name(array: Any) -> str:
    """The name of an array's dtype where it can be told, else nothing."""
    try:
        text = str(getattr(array, "dtype", ""))
    except Exception:  # a dtype that the library itself has no name for
        return ""
    last = text.rsplit(".", 1)[-1].strip("'<> ")
    last = {"bool_": "bool", "boolean": "bool"}.get(last, last)
    return last if last in DTYPES else ""


#: What a consumer may be passed.
WANTS = ("object", "legacy capsule", "versioned capsule")


class Consumer:
    """A library's function that takes arrays.

    ``consume(x)`` is passed an object with `__dlpack__`, or a raw capsule where ``wants`` is
    "legacy capsule" or "versioned capsule".  ``one_dimension`` says that it takes nothing else,
    ``flat`` that its result is the bytes alone, without shape and dtype, and
    ``is_from_dlpack=False`` that it is a function of another purpose, which the text about
    ``from_dlpack`` does not bind.  ``dtypes`` are the only ones that it takes, as in `Producer`.
    ``own`` is the producer of the library's own arrays, as a `Producer`, a function or a name.
    """

    leaves, is_decorated = "", False

    def __init__(
        self,
        consume: Callable[..., Any],
        *,
        namespace: Any = None,
        claims: str = "",
        wants: str = "object",
        one_dimension: bool = False,
        flat: bool = False,
        is_from_dlpack: bool = True,
        dtypes: Sequence[str] = (),
        own: Any = None,
    ) -> None:
        if isinstance(consume, Producer):
            raise TypeError("the target is named as a consumer, and is a Producer")
        insist_callable("a consumer", consume)
        if wants not in WANTS:
            raise ValueError(f"wants={wants!r} is none of {', '.join(map(repr, WANTS))}")
        self.consume = consume
        self.wants = wants
        self.one_dimension = one_dimension
        self.flat = flat
        self.is_from_dlpack = is_from_dlpack
        self.own: Producer | None = None if own is None else producer_of(own)
        self.dtypes = known_dtypes(dtypes)
        self._claims = edition(claims) or claimed(namespace)

    def usual(self, dtype: str = "float32") -> str:
        """What is offered where a check names this dtype; float32 stands for any."""
        return any_of(self.dtypes, dtype)

    @property
    def claims(self) -> str:
        """The edition that the library claims; asking for `max_version` is a claim of 2023.12."""
        if not self._claims:
            asked = self._by_its_call() if self.wants == "object" else False
            self._claims = "2023.12" if asked else "2022.12"
        return self._claims

    def _by_its_call(self) -> bool:
        array = P2()
        with contextlib.suppress(Exception):
            self.consume(array)
        return any("max_version" in keywords for keywords in array.keywords)


def claimed(namespace: Any) -> str:
    """The edition that a namespace says it implements; nothing where it says none."""
    edition = getattr(namespace, "__array_api_version__", "")
    return edition if isinstance(edition, str) and edition in EDITIONS else ""


def namespace_of(producer: Producer, array: Any) -> Any:
    """The namespace that was named with the target, else the array's own; else None."""
    if producer.namespace is not None:
        return producer.namespace
    try:
        return array.__array_namespace__()
    except Exception:  # whatever a library raises of an edition that it does not know
        return None


# ---- names ----------------------------------------------------------------------------------


def load(target: str) -> tuple[Any, Any]:
    """(object, namespace) of ``module:name`` or ``file.py:name``."""
    where, colon, name = target.rpartition(":")
    if not colon or not where or not name:
        raise ValueError(f"{target!r} is not MODULE:NAME; an example is numpy:zeros")
    if where.endswith(".py"):
        path = Path(where).resolve()
        sys.path.insert(0, str(path.parent))
        module = importlib.import_module(path.stem)
    else:
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        module = importlib.import_module(where)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part)
    return found, module


def partner_of(kind: Any, target: Any, claims: str = "", **options: Any) -> Any:
    """A Producer or a Consumer of whatever names one: itself, a function, or ``module:name``."""
    namespace = None
    if isinstance(target, str):
        target, namespace = load(target)
    if not isinstance(target, kind):
        return kind(target, **{"namespace": namespace, "claims": claims} | options)
    if own := options.pop("own", None):
        target = copy.copy(target)
        target.own = target.own or producer_of(own)
    if options:
        raise TypeError(
            f"the target is a {kind.__name__} already: "
            f"give it {', '.join(options)} where it is made"
        )
    if claims:
        target = copy.copy(target)
        target._claims = edition(claims)
    return target


def producer_of(target: Any, **options: Any) -> Producer:
    return partner_of(Producer, target, **options)


def consumer_of(target: Any, **options: Any) -> Consumer:
    return partner_of(Consumer, target, **options)
