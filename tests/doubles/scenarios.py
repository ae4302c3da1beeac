"""Whole exchanges that several tests repeat: under failing allocations, on fallbacks, in
threads, a hundred thousand times.  Each builds its own input, checks what arrives and gives
everything back; a scenario that returns has found everything right.
"""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

import dlshim

from . import arrow, consumers
from . import capsules as caps
from . import columns as made
from .asking import bare, versioned
from .older import InterfaceOnly, StructOnly
from .producers import (
    P1,
    P2,
    P3,
    CopiesAlways,
    InstanceOnly,
    P0ToDlpack,
    P1a,
    P1b,
    P1bOffset,
    P1NullStrides,
    Placeholder,
    PyarrowWithNulls,
    Strict,
    VersionedAlways,
)

SIX = [0, 1, 2, 3, 4, 5]


def _expect(imported: Any, values: list[Any]) -> None:
    try:
        assert imported.values() == values, imported.values()
    finally:
        imported.release()


def _both(make: Callable[[], Any], values: list[Any] = SIX, **options: Any) -> None:
    for ask in (bare, versioned):
        x = make()
        _expect(ask(dlshim.upgrade(x, **options)), values)


def legacy_producer() -> None:
    _both(P1)


def producer_without_keywords() -> None:
    _both(P1a)


def half_modern_producer() -> None:
    _both(P1b)


def modern_producer() -> None:
    _both(P2)


def producer_with_table() -> None:
    _both(P3)


def null_strides() -> None:
    _both(P1NullStrides)


def offset() -> None:
    _both(P1bOffset, [4, 5, 6, 7, 8, 9])


def refusing_keywords() -> None:
    _both(Strict)


def on_the_instance() -> None:
    _both(InstanceOnly)


def capsule_method() -> None:
    _both(P0ToDlpack)


def copy_on_request() -> None:
    for ask in (bare, versioned):
        _expect(ask(dlshim.upgrade(P2()), copy=True), SIX)


def copy_for_order() -> None:
    _both(lambda: P1((2, 3), "int32", strides=(1, 2)), [0, 2, 4, 1, 3, 5], order="C")


def copy_for_legacy() -> None:
    _expect(bare(dlshim.upgrade(P2(readonly=True), readonly="copy")), SIX)


def the_producers_copy() -> None:
    _both(CopiesAlways)


def raw_capsules() -> None:
    _both(caps.make)
    _both(lambda: caps.make(version=(1, 0)))
    _both(caps.make_of_c)


def buffer() -> None:
    _both(lambda: array.array("i", range(6)))
    _both(lambda: memoryview(bytearray(range(12)))[::2], [0, 2, 4, 6, 8, 10])


def array_struct() -> None:
    _both(StructOnly)


def read_only_bytes() -> None:
    _expect(versioned(dlshim.upgrade(bytes(range(6)))), SIX)
    _expect(bare(dlshim.upgrade(bytes(range(6)), readonly="copy")), SIX)


def array_interface() -> None:
    _both(InterfaceOnly)


def array_interface_over_a_buffer() -> None:
    _both(lambda: InterfaceOnly((6,), "uint8", changes={"data": bytearray(range(6))}))


def tensor() -> None:
    taken = dlshim.from_dlpack(P2())
    assert memoryview(taken).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert taken.__array_interface__["shape"] == taken.shape == (2, 3)
    for ask in (bare, versioned):
        _expect(ask(taken), SIX)
    _expect(versioned(dlshim.upgrade(taken)), SIX)


def tensor_copy() -> None:
    taken = dlshim.from_dlpack(P1(), copy=True)
    _expect(versioned(taken), SIX)


def arrow_column() -> None:
    x = P2((2, 3), "int32")
    column = arrow.Column(dlshim.from_dlpack(x))
    try:
        assert column.formats == ["+w:3", "i"] and column.values() == SIX
    finally:
        column.release()
    dlshim.from_dlpack(x).__arrow_c_array__()


class Column:
    """Its structs are made anew for each export, as those of pyarrow are."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        self.count = made.Count()
        memory = made.array(self.count, 2, made.numbers(1, 2))
        return (
            made.capsule(made.schema(self.count, "l"), "arrow_schema", self.count),
            made.capsule(memory, "arrow_array", self.count),
        )


@made.freed()
def columns_in() -> None:
    for _ in range(2):  # as at first, and as it was learned
        x = Column()
        _expect(versioned(dlshim.upgrade(x)), [1, 2])
        _expect(bare(dlshim.upgrade(x, readonly="share")), [1, 2])
        assert x.count.owed == 0
    for make in (lambda: made.column(1, 2), lambda: made.chunked((1, 2))):
        assert memoryview(dlshim.from_dlpack(make()[0])).tolist() == [1, 2]
    for make, wanted in (
        (lambda: made.chunked((1, 2), (3,), (4, 5)), [1, 2, 3, 4, 5]),
        (lambda: made.column(1, valid=b"\0", null_count=1), None),
    ):
        x, count = make()
        try:
            assert memoryview(dlshim.from_dlpack(x, order="C")).tolist() == wanted
        except BufferError:
            assert wanted is None
        finally:
            assert count.owed == 0


def kernels() -> None:
    """Two are made, and called with arrays and with a list of arrays."""
    shapes = dlshim.kernel(
        lambda *x: [each.shape for each in x], takes="tensor", order="C", dtypes={0: "int32"}
    )
    for make in (P1, P2, P3):
        x = make((2, 3), "int32")
        assert shapes(x, x) == [(2, 3), (2, 3)]
    count = dlshim.kernel(len, returns=None)
    assert count([P1(), P2()]) == 2


def classes_new_to_kernels() -> None:
    class New(P1):
        def __dlpack__(self, **asked: Any) -> Any:
            return super().__dlpack__(**asked)

    values = dlshim.kernel(lambda x: memoryview(x).tolist(), takes="tensor", returns=None)
    assert values(New()) == [[0, 1, 2], [3, 4, 5]]


def capsules() -> None:
    for version in (None, (1, 0)):
        _expect(caps.take(dlshim.to_capsule(P1(), max_version=version)), SIX)
        del_me = dlshim.to_capsule(P2(), max_version=version)
        del del_me  # unconsumed


def many_options() -> None:
    upgraded = dlshim.upgrade(
        P2((2, 3), "uint16"), device="cpu", readonly="share", order="C",
        align=64, reinterpret="uint16", stream=3,
    )  # fmt: skip
    _expect(versioned(upgraded), SIX)
    _expect(bare(dlshim.upgrade(upgraded, readonly=False)), SIX)


def the_device_question() -> None:
    for make in (P1, P2, P3, P0ToDlpack, InstanceOnly):
        assert dlshim.upgrade(make()).__dlpack_device__() == (1, 0)
        assert dlshim.from_dlpack(make()).__dlpack_device__() == (1, 0)


def odd_consumers() -> None:
    for ask in (
        consumers.ask_like_mpi4py31,
        consumers.ask_like_mpi4py41,
        consumers.ask_like_cudacore,
        consumers.ask_like_tvmffi,
    ):
        _expect(ask(dlshim.upgrade(P1())), SIX)
    _expect(caps.seize(dlshim.upgrade(P1()).__dlpack__(max_version=(1, 1))), SIX)


def refusals() -> None:
    """Everything that fails cleanly must go on failing cleanly."""
    for make, options in (
        (PyarrowWithNulls, {}),
        (Placeholder, {}),
        (lambda: P2(readonly=True), {}),
        (lambda: P2(data=None), {}),
        (lambda: VersionedAlways(version=(2, 0)), {}),
        (lambda: VersionedAlways(flags=64), {}),
        (lambda: P1(dtype="int16"), {"reinterpret": "int32"}),
        (lambda: caps.new_capsule(8, "foreign"), {}),
        (lambda: P2(strides=(1, 2)), {"order": "C", "copy": False}),
        (lambda: InterfaceOnly(changes={"typestr": caps.native(">f4")}), {}),
    ):
        x = make()
        try:
            dlshim.upgrade(x, **options).__dlpack__()
        except BufferError:
            continue
        raise AssertionError(f"{type(x).__name__} was not refused")


def inspection() -> None:
    for make in (P1, P2, StructOnly, caps.make):
        dlshim.inspect(make())


# What cannot be had where the interpreter has no buffer functions for extensions.  The options of a
# kernel are tried on bytes.
NEED_BUFFERS = ("buffer", "read_only_bytes", "array_interface_over_a_buffer", "kernels",
                "classes_new_to_kernels")  # fmt: skip

ALL: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (
        legacy_producer,
        producer_without_keywords,
        half_modern_producer,
        modern_producer,
        producer_with_table,
        null_strides,
        offset,
        refusing_keywords,
        on_the_instance,
        capsule_method,
        copy_on_request,
        copy_for_order,
        copy_for_legacy,
        the_producers_copy,
        raw_capsules,
        buffer,
        array_struct,
        array_interface,
        read_only_bytes,
        array_interface_over_a_buffer,
        tensor,
        tensor_copy,
        arrow_column,
        columns_in,
        kernels,
        classes_new_to_kernels,
        capsules,
        many_options,
        the_device_question,
        odd_consumers,
        refusals,
        inspection,
    )
}

#: Those that make classes or functions each time.
WITH_NEW_CLASSES = {columns_in, kernels, classes_new_to_kernels}
