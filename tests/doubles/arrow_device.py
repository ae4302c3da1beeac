"""Columns of Arrow in device memory: structs that point to an event of the fake driver.

The layout is that of Arrow's header (apache/arrow-nanoarrow@c0eb931d,
``nanoarrow_device.h``, ``ArrowDeviceArray`` and ``ArrowDeviceArrayStream``).
``released`` tells how often each exported array was released.
"""

from __future__ import annotations

import ctypes as C
import errno
from collections.abc import Callable, Sequence
from typing import Any

from . import vendors
from .arrow import ArrowArray, ArrowSchema, _new
from .columns import ArrowDeviceArray, ArrowDeviceStream
from .device import PRODUCER, Memory

SCHEMA, DEVICE_ARRAY, DEVICE_STREAM = (
    C.c_char_p(name)
    for name in (b"arrow_schema", b"arrow_device_array", b"arrow_device_array_stream")
)
_Release = C.CFUNCTYPE(None, C.c_void_p)
#: Formats of Arrow for some dtypes.
FORMATS = {"int8": b"c", "uint8": b"C", "int32": b"i", "int64": b"l", "float32": b"f"}
#: Structs and functions that C code still uses: for the life of the process.
_kept: list[Any] = []


assert C.sizeof(ArrowDeviceArray) == 128 and C.sizeof(ArrowDeviceStream) == 48


_pointer = C.PYFUNCTYPE(C.c_void_p, C.c_void_p, C.c_char_p)(("PyCapsule_GetPointer", C.pythonapi))


def capsule(made: Any, name: Any, release: Any) -> Any:
    """A capsule whose destructor releases a struct that nobody has taken."""

    def destroy(at: int) -> None:
        assert _pointer(at, name) == C.addressof(made)
        if release().release:
            _Release(release().release)(C.addressof(made))

    destructor = C.PYFUNCTYPE(None, C.c_void_p)(destroy)
    _kept.extend((made, destructor))
    return _new(C.addressof(made), name, C.cast(destructor, C.c_void_p))


def fill_schema(schema: ArrowSchema, format: bytes) -> None:
    def release(at: int) -> None:
        ArrowSchema.from_address(at).release = None

    function = _Release(release)
    text = C.create_string_buffer(format)
    _kept.extend((function, text))
    schema.format = C.cast(text, C.c_char_p)
    schema.name = b""
    schema.release = C.cast(function, C.c_void_p)


class DeviceColumn:
    """A column by ``__arrow_c_device_array__``: what it says of itself, whether it is true or not.

    `event` is what `sync_event` shall be: an address of an event's handle, or None.
    """

    def __init__(
        self,
        address: int,
        length: int = 6,
        *,
        format: bytes = b"i",
        device: tuple[int, int] = (1, -1),
        event: int | None = None,
        bitmap: int | None = None,
        null_count: int = 0,
        offset: int = 0,
    ) -> None:
        self.address, self.length, self.format = address, length, format
        self.says, self.event = device, event
        self.bitmap, self.null_count, self.offset = bitmap, null_count, offset
        self.exports: list[ArrowDeviceArray] = []
        self.released: list[int] = []
        self.copied_to_host = 0

    # what a subclass does to the driver

    def record(self) -> int | None:
        """What `sync_event` is in this export."""
        return self.event

    def destroy(self, event: int | None) -> None:
        """The end of that event."""

    # the structs

    def fill(self, made: ArrowDeviceArray) -> None:
        """The struct of one export, which is relocatable."""
        number = len(self.released)
        event = self.record()
        self.released.append(0)

        def release(at: int) -> None:
            self.released[number] += 1
            self.destroy(event)
            ArrowArray.from_address(at).release = None

        function = _Release(release)
        buffers = (C.c_void_p * 2)(self.bitmap, self.address)
        _kept.extend((function, buffers))
        made.array.length, made.array.null_count = self.length, self.null_count
        made.array.offset, made.array.n_buffers = self.offset, 2
        made.array.buffers = C.addressof(buffers)
        made.array.release = C.cast(function, C.c_void_p)
        made.device_type, made.device_id = self.says
        made.sync_event = event

    def __arrow_c_device_array__(self, requested_schema: Any = None, **keywords: Any) -> Any:
        assert requested_schema is None and not keywords
        schema, made = ArrowSchema(), ArrowDeviceArray()
        fill_schema(schema, self.format)
        self.fill(made)
        self.exports.append(made)
        return (
            capsule(schema, SCHEMA, lambda: schema),
            capsule(made, DEVICE_ARRAY, lambda: made.array),
        )

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        self.copied_to_host += 1
        raise AssertionError("the copy in host memory was asked for")


class PylibcudfColumn(DeviceColumn):
    """pylibcudf's Column (rapidsai/cudf@6a22d1d2f90), `python/pylibcudf/pylibcudf/column.pyx`
    `_to_device_array` and `libcudf/interop.pxd` `to_arrow_device_raw`, over
    `cpp/src/interop/to_arrow_device.cu` `create_device_array` and `ArrowDeviceArrayRelease`.

    The event is made at the export, with timing, in the current context, and recorded on the
    stream; `sync_event` points into the private data, and the release destroys it.  The number of
    the device is that of the current one.  The release drops a reference to the object as well, and
    takes no lock of Python's for that (`PylibcudfArrowDeviceArrayRelease`); functions of ctypes
    take it themselves.  On ROCm the same by HIP's names (hipDF).
    """

    def __init__(
        self,
        drv: Any,
        stream: int | None = None,
        *,
        device: int = 0,
        kind: str = "device",
        length: int = 6,
        dtype: str = "int32",
        context: int | None = None,
        **fields: Any,
    ) -> None:
        self.drv, self.vendor = drv, vendors.of(drv)
        stream = self.vendor.legacy if stream is None else stream
        self.own = Memory(
            drv, stream, device=device, kind=kind, shape=(length,), dtype=dtype, context=context
        )
        self.stream, self.index = stream, device
        super().__init__(
            self.own.base,
            length,
            format=FORMATS[dtype],
            device=self.vendor.device_of(kind, device),
            **fields,
        )

    def write(self) -> bool:
        """A kernel on P writes the memory: whether it was racy."""
        return self.own.write()

    def _call(self, name: str, *arguments: Any) -> None:
        rc = getattr(self.drv.cu, name)(*arguments)
        assert rc == 0, (name, rc)

    def record(self) -> int | None:
        cell = C.c_void_p()
        _kept.append(cell)
        with self.drv.caller(PRODUCER):
            if self.vendor.is_hip:
                here = self.drv.device()
                self.drv.set_device(self.index)
            else:
                self._call("cuCtxPushCurrent_v2", self.own.context)
            self._call(self.vendor.create_event, C.byref(cell), 0)
            self._call(self.vendor.record, cell, self.stream)
            if self.vendor.is_hip:
                self.drv.set_device(here)
            else:
                self._call("cuCtxPopCurrent_v2", None)
        return C.addressof(cell)

    def destroy(self, event: int | None) -> None:
        cell = C.c_void_p.from_address(event or 0)
        with self.drv.caller(PRODUCER):
            self._call(self.vendor.destroy_event, cell)
        cell.value = 0xDEAD  # the private data are freed


class DeviceStream:
    """`__arrow_c_device_stream__` over columns, each of which has an event of its own.

    No library offers one today; the layout and the rules are those of the header.
    """

    def __init__(
        self, chunks: Sequence[DeviceColumn], *, format: bytes = b"i", device_type: int = 2
    ) -> None:
        self.chunks, self.format, self.device_type = [*chunks], format, device_type
        self.released = 0
        self.fails_with: Callable[[], bytes | None] | None = None

    def __arrow_c_device_stream__(self, requested_schema: Any = None, **keywords: Any) -> Any:
        assert requested_schema is None and not keywords
        left = iter(self.chunks)

        def get_schema(_: int, at: int) -> int:
            fill_schema(ArrowSchema.from_address(at), self.format)
            return 0

        def get_next(_: int, at: int) -> int:
            if self.fails_with is not None:
                return errno.EIO
            made = ArrowDeviceArray.from_address(at)
            chunk = next(left, None)
            if chunk is None:
                made.array.release = None
            else:
                chunk.fill(made)
            return 0

        def get_last_error(_: int) -> int | None:
            text = self.fails_with() if self.fails_with else None
            if text is None:
                return None
            _kept.append(C.create_string_buffer(text))
            return C.addressof(_kept[-1])

        def release(at: int) -> None:
            self.released += 1
            ArrowDeviceStream.from_address(at).release = None

        asks = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p)
        functions = (
            *(asks(get_schema), asks(get_next)),
            *(C.CFUNCTYPE(C.c_void_p, C.c_void_p)(get_last_error), _Release(release)),
        )
        made = ArrowDeviceStream(self.device_type, *(C.cast(f, C.c_void_p) for f in functions))
        _kept.extend(functions)
        return capsule(made, DEVICE_STREAM, lambda: made)
