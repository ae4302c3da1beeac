"""Objects that work against us: each case once crashed, leaked or gave wrong data."""

from __future__ import annotations

import ctypes as C
import gc
import itertools
import math
import sys
import threading
import weakref

import pytest

import dlshim
from doubles import capsules as caps
from doubles import child
from doubles.asking import bare
from doubles.gil import types_end, with_gil
from doubles.older import InterfaceOnly
from doubles.producers import P2, torch_like

pytestmark = pytest.mark.once


@with_gil("a shared capsule is claimed before it is read, and its other holder gets the error")
def test_a_capsule_that_its_other_holder_consumes_meanwhile_is_not_freed_twice():
    """The holder consumes and lets go: the count is back at one, the pointer is stale."""
    shared = []

    class Shares(torch_like(edition=1)):
        def __dlpack__(self, stream=None):
            capsule = super().__dlpack__(stream)
            shared.append(capsule)
            return capsule

        def is_neg(self):
            if shared:
                caps.take(shared.pop()).release()
            return False

    Shares.__module__, Shares.__qualname__ = "torch", "Tensor"
    with pytest.raises(BufferError, match="consumed"):
        bare(dlshim.upgrade(Shares()))


def test_a_cleared_producer_is_refused_not_read_as_a_tensor():
    code = """
    import gc, dlshim
    class Node: pass
    producer = dlshim.upgrade(dlshim.from_dlpack(b"abc"))
    heard = []
    class Last:
        def __init__(self, producer): self.producer = producer
        def __del__(self): heard.append(self.producer.__dlpack_device__())
    node = Node(); node.me = node; node.last = Last(producer)
    del producer, node
    gc.collect()
    assert heard == [(1, 0)], heard
    """
    child.run(code)


@pytest.mark.parametrize("kind", ["tensor", "view", "producer"])
def test_cycles_through_a_held_buffer_are_collected(kind):
    class Memory(bytearray):
        pass

    memory = Memory(8)
    if kind == "tensor":
        memory.me = dlshim.from_dlpack(memory)
    elif kind == "view":
        memory.me = memoryview(dlshim.from_dlpack(memory))
    else:
        memory.me = dlshim.upgrade(memory)
    dead = weakref.ref(memory)
    del memory
    gc.collect()
    assert dead() is None


@types_end
def test_the_module_goes_when_it_is_dropped():
    child.run("""
    import gc, sys, weakref
    dead = []
    for _ in range(5):
        import dlshim
        dlshim.upgrade(bytearray(3)).__dlpack__()
        dead.append(weakref.ref(sys.modules["dlshim._core"]))
        for name in [n for n in sys.modules if n.startswith("dlshim")]:
            del sys.modules[name]
        del dlshim
    gc.collect()
    assert sum(ref() is not None for ref in dead) <= 1, dead
    """)


# What is called, each saved before the module is emptied; `ran` holds what came of it.
AFTER_THE_MODULE = {
    "upgrade": "call(dlshim.upgrade, b'x')",
    "upgrade anew": "call(dlshim.upgrade, (C.c_int * 3)())",
    "upgrade, options": "call(dlshim.upgrade, b'x', copy=True, readonly='copy')",
    "upgrade, a capsule": "call(dlshim.upgrade, tensor.__dlpack__())",
    "upgrade, nothing": "call(dlshim.upgrade, object())",
    "from_dlpack": "call(dlshim.from_dlpack, b'x')",
    "from_dlpack, a tensor": "call(dlshim.from_dlpack, tensor, copy=True)",
    "from_dlpack, a producer": "call(dlshim.from_dlpack, producer)",
    "to_capsule": "call(dlshim.to_capsule, b'x', copy=True)",
    "to_capsule, versioned": "call(dlshim.to_capsule, b'x', max_version=(1, 0))",
    "inspect": "call(dlshim.inspect, b'x')",
    "inspect, export": "call(dlshim.inspect, producer, export=True)",
    "a producer": "call(producer.__dlpack__, max_version=(1, 0))",
    "a producer, copy": "call(producer.__dlpack__, max_version=(1, 0), copy=True)",
    "a producer, refused": "call(producer.__dlpack__, copy=2)",
    "a producer's device": "call(producer.__dlpack_device__)",
    "a stranger's producer": "call(strange.__dlpack__, max_version=(1, 0))",
    "a tensor": "call(tensor.__dlpack__, max_version=(1, 0))",
    "a tensor, copy": "call(tensor.__dlpack__, max_version=(1, 0), copy=True)",
    "a tensor's device": "call(tensor.__dlpack_device__)",
    "repr": "call(lambda *all: [repr(x) for x in all], producer, strange, tensor)",
    "memoryview": "call(memoryview, tensor)",
    "owned": "call(table._owned, C.py_object(producer), out)",
    "owned, a copy": "call(table._owned, C.py_object(copying), out)",
    "owned, a tensor": "call(table._owned, C.py_object(tensor), out)",
    "borrowed": "call(table._borrow, C.py_object(producer), out)",
    "borrowed, a tensor": "call(table._borrow, C.py_object(tensor), out)",
    "to_py_object": "call(table._to_object, managed, C.cast(out, C.POINTER(C.py_object)))",
    "allocator": "call(table._allocate, prototype, out, None, None)",
    "the stream": "call(table._stream, 1, 0, C.cast(out, C.POINTER(C.c_void_p)))",
}


@with_gil("its collector clears the callback of ctypes before the Tensor that would call it")
@pytest.mark.parametrize("end", ["exit", "collect"])
@pytest.mark.parametrize("what", AFTER_THE_MODULE.values(), ids=AFTER_THE_MODULE)
def test_what_is_called_after_the_collector_emptied_the_module(what, end):
    """A deleter written in Python that runs while the collector takes the module apart."""
    said = child.program("after_the_module", what, end)
    assert "called" in said


@types_end
def test_what_a_module_needed_goes_when_nobody_can_look_at_it():
    """A Tensor outlives its module, and works; what it needs goes with it, at the next import."""
    child.program("after_modules")


CHAINS = {
    "capsules": "dlshim.from_dlpack(t.__dlpack__())",
    "versioned capsules": "dlshim.from_dlpack(t.__dlpack__(max_version=(1, 0)))",
    "to_capsule": "dlshim.from_dlpack(dlshim.to_capsule(t))",
    "producers of capsules": "dlshim.from_dlpack(dlshim.upgrade(dlshim.upgrade(t).__dlpack__()))",
    "tensors": "dlshim.from_dlpack(t)",
    "tables": "table.to_object(owned(t))",
}


@pytest.mark.parametrize("step", CHAINS.values(), ids=CHAINS)
def test_exports_of_exports_do_not_become_a_chain(step):
    """A loop that passes its buffer round: dropping the last one once overflowed the stack."""
    child.program("chain_of_exports", step)


def test_types_that_come_and_go_at_the_recursion_limit_leave_no_plan():
    """Up to 3.11 a weak reference's callback fails there, and addresses are used again."""
    child.program("types_at_the_recursion_limit")


def test_strides_that_count_for_nothing_do_not_overflow():
    tensor = dlshim.from_dlpack(caps.make((1, 3), "int64", strides=(2**62, 1)))
    assert tensor.__array_interface__["shape"] == (1, 3)
    assert memoryview(tensor).tolist() == [[0, 1, 2]]


@pytest.mark.parametrize(
    "layout",
    [
        {"shape": (0, 2**61)},
        {"shape": (0, 2**31)},
        {"shape": (2**31,), "strides": (0,)},
        {"shape": (2**16, 2**13), "strides": (0, 0)},
    ],
    ids=lambda layout: str(layout["shape"]),
)
def test_a_buffer_has_every_extent_or_is_refused(layout):
    """Numbers of buffers have as many bits as addresses; extents of DLPack have 64 everywhere."""
    tensor = dlshim.from_dlpack(caps.make(dtype="int64", memory=(C.c_int64 * 4)(), **layout))
    if sys.maxsize < 2**32:
        with pytest.raises(BufferError, match="32 bits\n  pass a part"):
            memoryview(tensor)
    else:
        view = memoryview(tensor)
        assert view.shape == layout["shape"]
        assert view.nbytes == 8 * math.prod(layout["shape"])


@pytest.mark.parametrize("more", [0, 1, 64])
@pytest.mark.parametrize("options", [{"copy": True}, {"order": "C"}], ids=["copy", "order"])
def test_a_copy_of_more_bytes_than_addresses_can_count_is_no_small_one(options, more):
    """The low bits of that number alone would be allocated, and all of it written."""
    count = 2 * (sys.maxsize + 1) // 8 + more
    capsule = caps.make((count,), "int64", strides=(0,), memory=(C.c_int64 * 4)())
    with pytest.raises((BufferError, MemoryError)):
        dlshim.upgrade(capsule, **options).__dlpack__()


def test_a_producer_that_asks_its_own_wrapper_ends():
    class Loop:
        def __dlpack__(self, **asked):
            return self.wrapper.__dlpack__(**asked)

        def __dlpack_device__(self):
            return self.wrapper.__dlpack_device__()

    loop = Loop()
    loop.wrapper = dlshim.upgrade(loop)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        with pytest.raises(RecursionError):
            loop.wrapper.__dlpack__()
    finally:
        sys.setrecursionlimit(limit)
    del loop.wrapper


def test_a_subclass_that_exports_its_own_way_is_not_trusted_like_its_base():
    numpy = pytest.importorskip("numpy")

    class Own(numpy.ndarray):
        def __dlpack__(self, **asked):
            return super().__dlpack__(**asked)

    x = numpy.zeros(3).view(Own)
    assert dlshim._core._plan(x)["library"] is None
    assert dlshim._core._plan(numpy.zeros(3))["library"] == "numpy"


def test_a_capsule_that_is_given_back_is_freed():
    """Taken, then renamed back from another literal: the name counts, not its address."""
    before = dlshim._core._counters()["live"]
    capsule = dlshim.upgrade(bytearray(3)).__dlpack__()
    caps.rename(capsule)
    name = b"dltensor"
    caps.keep_for_ever(name)
    caps._api("PyCapsule_SetName", int, caps.C.py_object, caps.C.c_char_p)(capsule, name)
    del capsule
    assert dlshim._core._counters()["live"] == before


def test_a_failed_export_leaves_the_memory_of_the_last_one():
    x = dlshim.upgrade(bytearray(b"abcdefgh"), copy=True)
    capsule = x.__dlpack__()
    address = dlshim._core._peek(capsule)["data"]
    del capsule  # as mpi4py 3.1 to 4.0 does
    with pytest.raises(dlshim.CopyRequiredError):
        x.__dlpack__(copy=False)
    assert caps.C.string_at(address, 8) == b"abcdefgh"


def test_another_thread_does_not_use_up_the_device_question():
    x = dlshim.upgrade(InterfaceOnly((3,), "int8", strides=(-1,)))
    x.__dlpack_device__()

    def asks_like_numpy():
        x.__dlpack__(max_version=(1, 0), dl_device=None, copy=None)

    thread = threading.Thread(target=asks_like_numpy)
    thread.start()
    thread.join()
    with pytest.raises(BufferError, match="negative"):
        x.__dlpack__()


def test_keywords_that_run_code_while_they_are_read():
    """Reading a value may export again: the places of the keywords must not move."""
    x = dlshim.upgrade(bytearray(24))
    turns = itertools.count()

    class Stream:
        @property
        def ptr(self):
            if next(turns) < 50:
                for names in (("copy",), ("copy", "stream"), ("dl_device", "max_version", "copy")):
                    asked = dict.fromkeys(names)
                    x.__dlpack__(**asked)
            return 7

    for _ in range(5):
        seen = dlshim._core._peek(x.__dlpack__(stream=Stream(), max_version=(1, 0), copy=True))
        assert seen["name"] == "dltensor_versioned" and seen["flags"] & 2


def test_a_type_that_loses_its_method_is_met_anew() -> None:
    modern, older = P2((6,)), InterfaceOnly((6,))

    class Changing:
        def __dlpack__(self, **asked: object) -> object:
            return modern.__dlpack__(**asked)

    x = Changing()
    kept = dlshim.upgrade(x)
    for _ in range(3):
        assert dlshim.from_dlpack(kept).data_ptr() == modern.element_zero
    del Changing.__dlpack__
    Changing.__array_interface__ = property(lambda self: older.__array_interface__)
    for wrapped in (kept, dlshim.upgrade(x)):
        assert dlshim.from_dlpack(wrapped).data_ptr() == older.element_zero


def test_an_attribute_error_of_the_producer_is_not_taken_for_a_missing_method() -> None:
    class Careless:
        def __dlpack__(self, **asked: object) -> object:
            return self.not_there  # type: ignore[attr-defined]

    with pytest.raises(BufferError, match=r"AttributeError.*not_there"):
        dlshim.upgrade(Careless()).__dlpack__()


@pytest.mark.parametrize("words", [{}, {"stream": -1}, {"stream": -1, "max_version": (1, 7)}])
def test_what_a_source_raises_is_not_met_by_what_is_read_after_it(words) -> None:
    """-1 is also how CPython says that an int cannot be read."""

    class Moody(P2):
        refuses: Exception | None = None

        def __dlpack__(self, **kwargs):
            if kwargs and self.refuses is not None:
                raise self.refuses
            return super().__dlpack__(**kwargs)

    x = Moody()
    wrapped = dlshim.upgrade(x)
    wrapped.__dlpack__(), wrapped.__dlpack__(max_version=(1, 0))
    x.refuses = BufferError("not today")
    with pytest.raises(BufferError, match="cannot be exported") as error:
        wrapped.__dlpack__(**words)
    assert error.value.__cause__ is x.refuses
    x.refuses = TypeError("no keywords today")
    caps.take(wrapped.__dlpack__(**words)).release()


def test_an_object_that_leaves_its_class_while_it_is_looked_at():
    """The class ends with its last object, and its address was still used."""
    assert child.program("object_leaves_its_class").strip() == "end"
