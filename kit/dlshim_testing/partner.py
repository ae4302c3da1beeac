"""The two sides of an exchange as the checks see them, and what names on a command line mean."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .catalogue import NotApplicable
from .doubles import capsules as caps
from .doubles.producers import P2
from .rules import EDITIONS

#: The dtypes that cases are made of, as the array API and ml_dtypes name them.
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128", "bfloat16",
)  # fmt: skip
OF_THE_STANDARD = tuple(name for name in DTYPES if name not in ("float16", "bfloat16"))

Make = Callable[..., Any]


def said(error: BaseException) -> str:
    """An exception in one line."""
    text = re.sub(r"\x1b\[[0-9;]*m|\[[01](;\d+)?m", "", " ".join(str(error).split()))
    text = re.sub(r"0x[0-9a-f]{6,}", "0x...", text)
    return f"{type(error).__name__}: {text[:200]}"


class Producer:
    """A library's arrays.

    ``make(shape, dtype)`` gives a new array.  Its elements are all zero, or count up from zero in
    row-major order.  The dtype is passed as the namespace's object of that name where there is one,
    else as a string; a function that takes no dtype is called with the shape alone.
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
    ) -> None:
        self._make = make
        self.namespace = namespace
        self.read_only = read_only
        self.special = dict(special or {})
        self.refused = dict(refused or {})
        self._claims = claims

    @property
    def claims(self) -> str:
        """The edition of the array API that the library claims; it is asked when first needed."""
        if not self._claims:
            self._claims = claimed(self.namespace) or self._by_its_answer()
        return self._claims

    def _by_its_answer(self) -> str:
        """A struct of DLPack 1.x is a claim of 2023.12, where `max_version` came from."""
        try:
            capsule = self.make((2, 3)).__dlpack__(max_version=(1, 0))
        except Exception:
            return "2022.12"
        return "2023.12" if caps.name_of(capsule) == caps.VERSIONED else "2022.12"

    def make(self, shape: tuple[int, ...], dtype: str = "float32") -> Any:
        """A new array, or NotApplicable where the library cannot make it."""
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
                failures.append(said(error))
                continue
            if not keywords and len(arguments) == 1 and dtype != "float32":
                break
            if (made := dtype_name(array)) not in ("", dtype):
                raise NotApplicable(f"the library makes {made} where {dtype} is asked for")
            return array
        raise NotApplicable(f"the library makes no {dtype} of shape {shape}: {failures[0]}")


def dtype_name(array: Any) -> str:
    """The name of an array's dtype where it can be told, else nothing."""
    try:
        text = str(getattr(array, "dtype", ""))
    except Exception:  # a dtype that the library itself has no name for
        return ""
    last = text.rsplit(".", 1)[-1].strip("'<> ")
    last = {"bool_": "bool", "boolean": "bool"}.get(last, last)
    return last if last in DTYPES else ""


class Consumer:
    """A library's function that takes arrays.

    ``consume(x)`` is passed an object with `__dlpack__`, or a raw capsule where ``wants`` is
    "legacy capsule" or "versioned capsule".  ``one_dimension`` says that it takes nothing else,
    ``flat`` that its result is the bytes alone, without shape and dtype, and
    ``is_from_dlpack=False`` that it is a function of another purpose, which the text about
    ``from_dlpack`` does not bind.
    """

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
    ) -> None:
        assert wants in ("object", "legacy capsule", "versioned capsule")
        self.consume = consume
        self.wants = wants
        self.one_dimension = one_dimension
        self.flat = flat
        self.is_from_dlpack = is_from_dlpack
        self._claims = claims or claimed(namespace)

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


def producer_of(target: Any, **options: Any) -> Producer:
    """A Producer of whatever names one: itself, a function, or ``module:name``."""
    namespace = None
    if isinstance(target, str):
        target, namespace = load(target)
    if isinstance(target, Producer):
        return target
    return Producer(target, **{"namespace": namespace} | options)


def consumer_of(target: Any, **options: Any) -> Consumer:
    namespace = None
    if isinstance(target, str):
        target, namespace = load(target)
    if isinstance(target, Consumer):
        return target
    return Consumer(target, **{"namespace": namespace} | options)
