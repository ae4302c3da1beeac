"""Producers of Arrow's C data, stream and device interfaces: columns made by hand, which can lie.

A `Count` says how often each struct was released, and how many still have to be.
"""

from __future__ import annotations

import ctypes as C
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from doubles.arrow import ArrowArray, ArrowSchema

_new = C.PYFUNCTYPE(C.py_object, C.c_void_p, C.c_char_p, C.c_void_p)(("PyCapsule_New", C.pythonapi))
_pointer = C.PYFUNCTYPE(C.c_void_p, C.c_void_p, C.c_char_p)(("PyCapsule_GetPointer", C.pythonapi))
RELEASE = C.CFUNCTYPE(None, C.c_void_p)
GET = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p)
TEXT = C.CFUNCTYPE(C.c_void_p, C.c_void_p)


class ArrowStream(C.Structure):
    _fields_ = [
        (name, C.c_void_p)
        for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")
    ]


class ArrowDeviceArray(C.Structure):
    _fields_ = [
        ("array", ArrowArray),
        ("device_id", C.c_int64),
        ("device_type", C.c_int32),
        ("sync_event", C.c_void_p),
        ("reserved", C.c_int64 * 3),
    ]


class ArrowDeviceStream(C.Structure):
    _fields_ = [
        ("device_type", C.c_int32),
        ("get_schema", C.c_void_p),
        ("get_next", C.c_void_p),
        ("get_last_error", C.c_void_p),
        ("release", C.c_void_p),
        ("private_data", C.c_void_p),
    ]


#: Every struct and callback that was made, so that none is freed while it is used, nor at exit:
#: columns that a cycle holds are released by the last collection.
_kept: list[Any] = []
C.pythonapi.Py_IncRef(C.py_object(_kept))
_names: dict[str, C.c_char_p] = {
    name: C.c_char_p(name.encode())
    for name in (
        "arrow_schema",
        "arrow_array",
        "arrow_array_stream",
        "arrow_device_array",
        "arrow_device_array_stream",
        "dltensor",
    )
}


@contextmanager
def freed() -> Iterator[None]:
    """Free what is made inside: none of it is in use at the end."""
    before = len(_kept)
    try:
        yield
    finally:
        del _kept[before:]


class Count:
    """How often structs were released, by their names."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        self.released: Counter[str] = Counter()
        self.given = 0

    @property
    def owed(self) -> int:
        """How many that were given away still have to be released."""
        return self.given - self.released.total()

    @property
    def pending(self) -> int:
        return self.made.total() - self.released.total()

    def note(self, name: str, kind: Any) -> int:
        """A release callback for a struct of this kind, as an address."""
        self.made[name] += 1

        # At exit the collector may have cleared the object before.
        def release(address: int, released: Counter[str] = self.released) -> None:
            released[name] += 1
            kind.from_address(address).release = None

        callback = RELEASE(release)
        _kept.append(callback)
        return C.cast(callback, C.c_void_p).value or 0


def capsule(made: Any, name: str, count: Count) -> Any:
    """A capsule that releases the struct, unless it was moved away, as Arrow asks."""

    def destroy(address: int) -> None:
        kind = type(made)
        its = kind.from_address(_pointer(address, name.encode()))
        release = its.array.release if kind is ArrowDeviceArray else its.release
        if release:
            RELEASE(release)(C.addressof(its))

    count.given += 1
    destructor = C.PYFUNCTYPE(None, C.c_void_p)(destroy)
    _kept.extend([made, destructor])
    return _new(C.addressof(made), _names[name], C.cast(destructor, C.c_void_p))


def pointers(addresses: Iterable[int | None]) -> int:
    found = [*addresses]
    array = (C.c_void_p * len(found))(*found)
    _kept.append(array)
    return C.addressof(array)


def metadata(pairs: dict[str, str]) -> bytes:
    """As Arrow counts them: "<i" for each length."""
    said = struct.pack("=i", len(pairs))
    for text in (each for pair in pairs.items() for each in pair):
        said += struct.pack("=i", len(text.encode())) + text.encode()
    return said


BOOL8 = metadata({"ARROW:extension:name": "arrow.bool8", "ARROW:extension:metadata": ""})


def schema(
    count: Count,
    format: str | None,
    *children: ArrowSchema,
    name: str = "",
    said: bytes | None = None,
    **lies: Any,
) -> ArrowSchema:
    made = ArrowSchema(
        format=format.encode() if format is not None else None,
        name=name.encode(),
        flags=2,
        n_children=len(children),
        children=pointers(map(C.addressof, children)) if children else None,
    )
    if said is not None:
        buffer = C.create_string_buffer(said)
        _kept.append(buffer)
        made.metadata = C.addressof(buffer)
    made.release = count.note("schema", ArrowSchema)
    for member, value in lies.items():
        setattr(made, member, value)
    _kept.extend([made, children])
    return made


def child_schema(format: str | None, *children: ArrowSchema, **lies: Any) -> ArrowSchema:
    """A schema that its parent releases: nobody calls its own release."""
    return schema(Count(), format, *children, **lies)


def bitmap(valid: Iterable[int]) -> bytes:
    bits = [*valid]
    said = bytearray((len(bits) + 7) // 8)
    for i, bit in enumerate(bits):
        said[i // 8] |= bool(bit) << i % 8
    return bytes(said)


def array(
    count: Count,
    length: int,
    data: bytes | None,
    *children: ArrowArray,
    valid: bytes | None = None,
    null_count: int = 0,
    offset: int = 0,
    **lies: Any,
) -> ArrowArray:
    """data None: a list, which has no buffer but the bitmap."""
    buffers: list[int | None] = []
    for each in (valid, data):
        if each is None:
            buffers.append(None)
            continue
        buffer = C.create_string_buffer(each, max(len(each), 1))
        _kept.append(buffer)
        buffers.append(C.addressof(buffer))
    if children:
        buffers = buffers[:1]
    made = ArrowArray(
        length=length,
        null_count=null_count,
        offset=offset,
        n_buffers=len(buffers),
        n_children=len(children),
        buffers=pointers(buffers),
        children=pointers(map(C.addressof, children)) if children else None,
    )
    made.release = count.note("array", ArrowArray)
    for member, value in lies.items():
        setattr(made, member, value)
    _kept.extend([made, children])
    return made


def child(length: int, data: bytes | None, *children: ArrowArray, **more: Any) -> ArrowArray:
    return array(Count(), length, data, *children, **more)


def numbers(*values: int, letter: str = "q") -> bytes:
    return struct.pack(f"={len(values)}{letter}", *values)


def method(name: str, answer: Callable[[], Any]) -> Any:
    """An object whose type has this method."""
    return type("Column", (), {name: lambda self, requested_schema=None, **kwargs: answer()})()


def of_array(count: Count, type_: ArrowSchema, memory: ArrowArray) -> Any:
    """An object with ``__arrow_c_array__``, which gives its structs once."""
    return method(
        "__arrow_c_array__",
        lambda: (
            capsule(type_, "arrow_schema", count),
            capsule(memory, "arrow_array", count),
        ),
    )


def of_device_array(
    count: Count,
    type_: ArrowSchema,
    memory: ArrowArray,
    device: tuple[int, int] = (1, -1),
    event: int | None = None,
) -> Any:
    made = ArrowDeviceArray(
        array=memory, device_type=device[0], device_id=device[1], sync_event=event
    )
    return method(
        "__arrow_c_device_array__",
        lambda: (
            capsule(type_, "arrow_schema", count),
            capsule(made, "arrow_device_array", count),
        ),
    )


def column(*values: int, **more: Any) -> tuple[Any, Count]:
    """An object with one array, of int64 if no format is given, and its count."""
    count = Count()
    length = more.pop("length", len(values))
    type_ = schema(count, more.pop("format", "l"), said=more.pop("said", None))
    memory = array(count, length, numbers(*values, letter=more.pop("letter", "q")), **more)
    return of_array(count, type_, memory), count


def fill(count: Count, address: int, made: Any) -> None:
    """Write the struct where the caller wants it; it is the caller's from then on."""
    count.given += 1
    C.memmove(address, C.addressof(made), C.sizeof(made))


def stream(
    count: Count,
    type_: ArrowSchema | int,
    chunks: Iterable[ArrowArray | int],
    *,
    on_device: bool = False,
    device: tuple[int, int] = (1, -1),
    error: bytes | None = None,
) -> Any:
    """A stream of these; a number in the place of a struct is the code that the call returns."""
    kind: Any = ArrowDeviceStream if on_device else ArrowStream
    left = iter(chunks)
    text = C.c_char_p(error)

    def get_schema(_: int, out: int) -> int:
        if isinstance(type_, int):
            return type_
        fill(count, out, type_)
        return 0

    def get_next(_: int, out: int) -> int:
        made = next(left, None)
        if isinstance(made, int):
            return made
        if made is None:
            C.memset(out, 0, C.sizeof(ArrowArray))
        elif on_device:
            its = ArrowDeviceArray(array=made, device_type=device[0], device_id=device[1])
            fill(count, out, its)
        else:
            fill(count, out, made)
        return 0

    def get_last_error(_: int) -> int | None:
        return C.cast(text, C.c_void_p).value

    callbacks = [GET(get_schema), GET(get_next), TEXT(get_last_error)]
    made = kind()
    for name, callback in zip(("get_schema", "get_next", "get_last_error"), callbacks, strict=True):
        setattr(made, name, C.cast(callback, C.c_void_p))
    made.release = count.note("stream", kind)
    if on_device:
        made.device_type = device[0]
    _kept.extend([made, callbacks, text])
    return made


def of_stream(count: Count, made: Any) -> Any:
    on_device = isinstance(made, ArrowDeviceStream)
    name = "arrow_device_array_stream" if on_device else "arrow_array_stream"
    return method(
        "__arrow_c_device_stream__" if on_device else "__arrow_c_stream__",
        lambda: capsule(made, name, count),
    )


def chunked(*chunks: tuple[int, ...], **more: Any) -> tuple[Any, Count]:
    """An object with a stream of these chunks of int64, and its count."""
    count = Count()
    arrays = [array(count, len(values), numbers(*values)) for values in chunks]
    return of_stream(count, stream(count, schema(count, "l"), arrays, **more)), count
