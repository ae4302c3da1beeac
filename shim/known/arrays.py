"""Arrays that the matrix makes of a library, and sees: what their rows say, and what they share.

The functions of rows run only in a child process, which has imported the library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .rows import Version


def loaded(module: str) -> Any:
    """Return a module that this process has imported."""
    return sys.modules[module]


# ---- producers ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    key: str
    title: str
    shape: tuple[int, ...]
    #: Row-major values that every consumer must see.
    values: tuple[float | int | bool, ...]
    dtype: str = "float32"
    #: "dense" (C-contiguous), "transposed" (dense in another order), "step" (with gaps), "reversed"
    layout: str = "dense"
    readonly: bool = False


DENSE = ("line", "grid", "scalar", "empty", "bool", "uint8")
STRIDED = (*DENSE, "transposed", "step")


@dataclass(frozen=True)
class Made:
    """An object to exchange, and where its first element lies (None: not asked)."""

    obj: Any
    address: int | None


@dataclass(frozen=True)
class Producer:
    key: str
    label: str
    library: str
    cases: tuple[str, ...]
    make: Callable[[Case], Made]
    #: Libraries that the factory needs besides its own.
    needs: tuple[str, ...] = ()
    #: The type is immutable, whatever its capsules say.
    immutable: bool = False
    #: It has __dlpack__; a column has Arrow's methods instead.
    dlpack: bool = True
    #: A capsule is used up by one exchange, so repeating it costs a new capsule each time.
    one_shot: bool = False


def laid_out(
    case: Case, make: Callable[[list[Any]], Any], turned: Callable[[Any], Any] = lambda made: made.T
) -> Any:
    """Lay out what a library makes of a list, which has one dimension."""
    if case.layout == "dense":
        return make(list(case.values)).reshape(case.shape)
    made = make([0, 1, 2, 3, 4, 5])
    if case.layout == "transposed":
        return turned(made.reshape((2, 3)))
    return made[:: 2 if case.layout == "step" else -1]


def aligned(array: Any) -> Any:
    """A copy of a NumPy array at a multiple of 64 bytes, where JAX need not copy it."""
    room = loaded("numpy").empty(array.nbytes + 64, "uint8")
    start = -room.__array_interface__["data"][0] % 64
    made = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def numpy_array(case: Case) -> Any:
    numpy = loaded("numpy")
    dtype = loaded("ml_dtypes").bfloat16 if case.dtype == "bfloat16" else case.dtype
    made = laid_out(case, lambda values: aligned(numpy.array(values, dtype)))
    made.flags.writeable = not case.readonly
    return made


def made_by_numpy(case: Case) -> Made:
    made = numpy_array(case)
    return Made(made, made.__array_interface__["data"][0])


def bytes_of(case: Case) -> bytearray:
    """Return the case's elements, those skipped by a step included, as bytes."""
    from array import array

    if case.layout == "step":
        return bytearray(array("f", range(6)).tobytes())
    if case.dtype == "float32":
        values = sorted(case.values) if case.layout == "transposed" else case.values
        return bytearray(array("f", values).tobytes())
    if case.dtype == "bfloat16":  # the upper halves of the float32 values
        words = memoryview(array("f", case.values).tobytes()).cast("I")
        return bytearray(array("H", [word >> 16 for word in words]).tobytes())
    return bytearray(map(int, case.values))


def aligned_bytes(case: Case) -> memoryview:
    """Return these bytes at a multiple of 64."""
    import ctypes

    owner = bytes_of(case)
    room = bytearray(len(owner) + 64)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(room)) % 64
    view = memoryview(room)[start : start + len(owner)]
    view[:] = owner
    return view


def capsule_of(case: Case, *, versioned: bool) -> Made:
    """Make a raw capsule of the case, without any library."""
    import ctypes

    from ..arrays import row_major
    from ..matrix.capsules import make_capsule

    view = aligned_bytes(case)
    holder = ctypes.c_char.from_buffer(view if len(view) else bytearray(1))
    strides = {"transposed": (1, 3), "step": (2,)}.get(case.layout)
    address = ctypes.addressof(holder)
    made = make_capsule(
        address,
        case.shape,
        strides or row_major(case.shape),
        case.dtype,
        versioned=versioned,
        readonly=case.readonly,
        keep=holder,
    )
    return Made(made, address)


def numpy_address(made: Any) -> int:
    """Return where the first element of a column lies, by the array of NumPy that it gives."""
    return int(made.to_numpy().__array_interface__["data"][0])


def arrow_address(made: Any) -> int:
    """The same, as pyarrow sees a column that gives NumPy a copy."""
    return int(loaded("pyarrow").array(made).buffers()[1].address)


def nested(case: Case) -> list[Any]:
    """Return the values as lists in lists, row-major."""
    made: list[Any] = list(case.values)
    for extent in case.shape[:0:-1]:
        made = [made[k : k + extent] for k in range(0, len(made), extent)]
    return made


def exported_address(made: Any) -> int | None:
    """Return where the first element of a legacy capsule, or of an object's own, lies."""
    from ..matrix.capsules import is_capsule, read_capsule

    return read_capsule(made if is_capsule(made) else made.__dlpack__()).address


# ---- consumers ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """The result of an exchange, as the consuming library shows it."""

    shape: tuple[int, ...]
    values: tuple[float | int | bool, ...]
    #: Address of the first element; None where the library does not tell.
    address: int | None
    #: None where the library does not tell.
    writable: bool | None = None


@dataclass(frozen=True)
class Consumer:
    key: str
    label: str
    library: str
    #: The function, with its module.
    name: str
    see: Callable[[Any], Seen]
    #: "object", or "capsule" for libraries that take nothing else.
    wants: str = "object"
    #: Lowest version that exists as a consumer.
    since: Version = ()
    #: First version in which it is another one.
    until: Version | None = None
    #: The library whose version decides how it asks, where it is another one.
    asks_through: str = ""
    #: The module of the function, and its name there; "": as `name` has them.
    path: str = ""
    #: It holds elements without a shape.
    flat: bool = False


def _flat(nested: Any) -> Iterable[float | int | bool]:
    if isinstance(nested, list):
        for item in nested:
            yield from _flat(item)
    else:
        yield nested


def shown(shape: Iterable[int], nested: Any, address: int | None, writable: Any = None) -> Seen:
    return Seen(tuple(int(n) for n in shape), tuple(_flat(nested)), address, writable)


def see_numpy(made: Any) -> Seen:
    address = made.__array_interface__["data"][0]
    return shown(made.shape, made.tolist(), address, made.flags.writeable)


def see_capsule(capsule: Any) -> Seen:
    from ..matrix.capsules import read_capsule

    contents = read_capsule(capsule)
    writable = not contents.readonly if contents.versioned else None
    return Seen(contents.shape, contents.values, contents.address, writable)


def see_exported(made: Any) -> Seen:
    """See a result through its own legacy export."""
    seen = see_capsule(made.__dlpack__())
    return Seen(seen.shape, seen.values, seen.address)
