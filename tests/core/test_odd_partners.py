"""Odd partners: tables that answer something else each time, streams that are none, queues whose
methods raise, dictionaries with entries of the wrong kind.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import pytest

import dlshim
from doubles import capsules as caps
from doubles import cuda_interface, producers, sycl
from doubles.asking import bare, tells, versioned
from doubles.ctable import Table
from doubles.older import InterfaceOnly
from doubles.producers import P1, P2, P3, P3TableOnly
from doubles.sycl import Queue, SyclOnly

TABLE = Table(dlshim.Producer)


def raises(error):
    def method(*_):
        raise error

    return method


# --- tables ---------------------------------------------------------------------------


ANSWERS = {
    "another dtype": {"dtype": "int32"},
    "another width": {"dtype": "float16"},
    "vectors": {"dtype": (2, 32, 2), "shape": (3,), "strides": (1,)},
    "another shape": {"shape": (3, 2), "strides": (2, 1)},
    "one dimension less": {"shape": (6,), "strides": (1,)},
    "other strides": {"strides": (1, 2)},
    "another device": {"device": (3, 0)},
    "another device of its kind": {"device": (1, 1)},
}


@pytest.mark.parametrize("fields", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("base", [P1, P2, P3TableOnly])
def test_a_borrowed_view_follows_what_the_object_says(base, fields):
    """The memory is one; what is said of it changes, and changes back."""

    class Changing(base):
        said: dict = {}

        def _export(self, version, **given):
            return super()._export(version, **(given | self.said))

        def __dlpack_device__(self):
            return self.said.get("device", (1, 0))

    x = Changing((2, 3))
    upgraded = dlshim.upgrade(x)
    first = TABLE.borrow(upgraded)
    x.said = fields
    other = TABLE.borrow(upgraded)
    x.said = {}
    again = TABLE.borrow(upgraded)
    assert (again.shape, again.dtype) == (first.shape, first.dtype)
    assert again.element_zero == other.element_zero == first.element_zero


def test_a_table_with_nothing_behind_it():
    """NULL shape and NULL data: empty it is not, and it cannot be read."""

    class Hollow(P3):
        def table_export(self):
            made = self._export((1, 3), data=None)
            made.struct.dl_tensor.shape = None
            return made

    for ask in (bare, versioned):
        with ask(dlshim.upgrade(Hollow())) as imported:
            assert imported.values() == [0, 1, 2, 3, 4, 5]


# --- streams --------------------------------------------------------------------------


def of(**members):
    return type("Stream", (), members)()


INTERRUPT = raises(KeyboardInterrupt())


GOOD_STREAMS = {
    "a list": of(__cuda_stream__=lambda self: [0, 7]),
    "an attribute": of(__cuda_stream__=(0, 7)),
    "an index": of(__index__=lambda self: 7),
    "a value": of(ptr=of(value=7)),
    "a value of None": of(ptr=of(value=None)),
    "a handle of None": of(ptr=None),
}
BAD_STREAMS = {
    "another version": of(__cuda_stream__=lambda self: (1, 7)),
    "one item": of(__cuda_stream__=lambda self: (0,)),
    "no pair": of(__cuda_stream__=lambda self: 7),
    "no int": of(__cuda_stream__=lambda self: ("0", 7)),
    "raises": of(__cuda_stream__=raises(RuntimeError("no stream"))),
    "text": of(ptr="7"),
    "a float that is too large": of(ptr=of(__int__=lambda self: 2**64)),
    "negative": of(ptr=-5),
    "an index that raises": of(__index__=raises(ValueError("none"))),
    "a value that raises": of(ptr=of(value=property(raises(KeyError("value"))))),
    "minus two": -2,
    "too large": 2**64,
    "far too large": 2**100,
    "text itself": "1",
    "a bool's array": b"1",
    "a float": 1.0,
}


@pytest.mark.parametrize("stream", GOOD_STREAMS.values(), ids=GOOD_STREAMS)
def test_streams_of_unusual_forms(stream):
    """On the host a stream is read, and nothing is done with it."""
    upgraded = dlshim.upgrade(P2(), stream=stream)
    versioned(upgraded).release()
    caps.take(dlshim.upgrade(P2()).__dlpack__(max_version=(1, 0), stream=stream)).release()


@pytest.mark.parametrize("stream", BAD_STREAMS.values(), ids=BAD_STREAMS)
def test_streams_that_are_none(stream):
    x = cuda_interface.empty()
    for use in (
        lambda: dlshim.upgrade(P2(), stream=stream),
        lambda: dlshim.upgrade(P2(), producer_stream=stream).__dlpack__(),
        lambda: dlshim.upgrade(P2()).__dlpack__(max_version=(1, 0), stream=stream),
        lambda: dlshim.upgrade(x, producer_stream=stream).__dlpack__(stream=1),
        lambda: dlshim.upgrade(x).__dlpack__(max_version=(1, 0), stream=stream),
    ):
        with suppress(BufferError, TypeError, ValueError, RuntimeError, KeyError):
            assert use() is not None


INTERRUPTED = {
    "__cuda_stream__": of(__cuda_stream__=INTERRUPT),
    "__index__": of(__index__=INTERRUPT),
    "__index__ of ptr": of(ptr=of(__index__=INTERRUPT)),
    "ptr": of(ptr=property(INTERRUPT)),
    "the value of ptr": of(ptr=of(value=property(INTERRUPT))),
}


@pytest.mark.parametrize("stream", INTERRUPTED.values(), ids=INTERRUPTED)
def test_an_interrupt_in_a_stream(stream):
    """It is never taken for an answer; a stream that nobody needs is not read."""
    x = cuda_interface.empty()
    for use in (
        lambda: dlshim.upgrade(P2(), stream=stream),
        lambda: dlshim.upgrade(x, producer_stream=stream).__dlpack__(max_version=(1, 0), stream=5),
        lambda: dlshim.upgrade(x, producer_stream=7).__dlpack__(stream=stream),
    ):
        with suppress(KeyboardInterrupt):
            assert use() is not None


# --- queues of SYCL --------------------------------------------------------------------


def queue(**methods):
    return type("Queue", (Queue,), {"__hash__": Queue.__hash__, **methods})()


ABSENT = property(raises(AttributeError()))
NO_BARRIER = raises(ValueError("no barrier"))
#: What the queues of the producer, P, and of the consumer, S, have.
BAD_QUEUES = {
    "no comparison": ({"__eq__": raises(ValueError("no order"))}, {}),
    "a barrier that raises": ({"submit_barrier": NO_BARRIER}, {}),
    "a barrier of S that raises": ({}, {"submit_barrier": NO_BARRIER}),
    "a barrier of S that cannot be found": ({}, {"submit_barrier": property(NO_BARRIER)}),
    "a wait that raises": ({"wait": raises(RuntimeError("lost")), "submit_barrier": ABSENT}, {}),
    "no way to wait": ({"wait": ABSENT, "submit_barrier": ABSENT}, {}),
}
INTERRUPTED_QUEUES = {
    "wait": {"wait": INTERRUPT, "submit_barrier": ABSENT},
    "submit_barrier": {"submit_barrier": INTERRUPT},
    "__eq__": {"__eq__": INTERRUPT},
}


@pytest.fixture
def dpctl(monkeypatch):
    monkeypatch.setitem(sys.modules, "dpctl", sycl.library())


@pytest.mark.parametrize(("of_p", "of_s"), BAD_QUEUES.values(), ids=BAD_QUEUES)
def test_queues_that_cannot_be_synced(of_p, of_s, dpctl):
    x = SyclOnly(syclobj=queue(**of_p))
    with pytest.raises(BufferError) as error:
        dlshim.upgrade(x).__dlpack__(max_version=(1, 0), stream=queue(**of_s))
    tells(error.value, "SyclOnly", "synchronising SYCL queues failed")


@pytest.mark.parametrize("of_p", INTERRUPTED_QUEUES.values(), ids=INTERRUPTED_QUEUES)
def test_an_interrupt_in_a_queue(of_p, dpctl):
    x = SyclOnly(syclobj=queue(**of_p))
    with pytest.raises(KeyboardInterrupt):
        dlshim.upgrade(x).__dlpack__(max_version=(1, 0), stream=queue())


@pytest.mark.parametrize("policy", ["legacy", "auto", "error"])
def test_an_unknown_queue_is_refused_by_every_policy_but_same(policy, dpctl):
    refused, taken = SyclOnly(syclobj=sycl.Context()), SyclOnly(syclobj=sycl.Context())
    with pytest.raises(BufferError) as error:
        versioned(dlshim.upgrade(refused, unknown_stream=policy), stream=queue())
    tells(error.value, "SyclOnly", "queue is not known")
    versioned(dlshim.upgrade(taken, unknown_stream="same"), stream=queue()).release()


SYCL_OBJECTS = {
    "devices that raise": of(get_devices=raises(RuntimeError("no devices"))),
    "no devices": of(get_devices=lambda self: []),
    "devices that cannot be found": of(get_devices=property(raises(RuntimeError("not now")))),
    "a capsule that raises": of(_get_capsule=raises(RuntimeError("no capsule"))),
    "no capsule": of(_get_capsule=lambda self: 5),
    "a getter that cannot be found": of(_get_capsule=property(raises(RuntimeError("not now")))),
}


@pytest.mark.parametrize("syclobj", SYCL_OBJECTS.values(), ids=SYCL_OBJECTS)
def test_sycl_objects_without_a_device(syclobj, dpctl):
    with pytest.raises(BufferError) as error:
        versioned(dlshim.upgrade(SyclOnly(syclobj=syclobj)))
    tells(error.value, "SyclOnly")


# --- dictionaries -----------------------------------------------------------------------


FAILS = raises(KeyError("x"))
NO_REPR = of(__repr__=raises(ValueError("not shown")))
#: Entries other than those of a 2 x 3 array of float32.
REFUSED = {
    "typestr with NUL": {"typestr": caps.native("<f4\0")},
    "bytes with NUL": {"typestr": caps.native("<f4\0").encode()},
    "typestr of no text": {"typestr": "\udcff"},
    "typestr of objects": {"typestr": "|O"},
    "typestr of a huge size": {"typestr": caps.native("<f99999999999")},
    "typestr without a kind": {"typestr": "<"},
    "a truth that raises": {"data": (4096, of(__bool__=FAILS))},
    "an address with more bits than a pointer": {"data": (2 * (sys.maxsize + 1) + 4096, False)},
    "an address that raises": {"data": (of(__index__=FAILS), 0)},
    "an extent that raises": {"shape": (of(__index__=FAILS),)},
    "65 dimensions": {"shape": (1,) * 65, "strides": None},
    "an offset that is no int": {"offset": "x"},
    "an offset that raises": {"offset": of(__index__=FAILS)},
    "a tuple that raises": {"shape": type("T", (list,), {"__iter__": FAILS})([2, 3])},
    "a typestr that cannot be shown": {"typestr": NO_REPR},
    "a text that cannot be shown": {
        "typestr": type("Text", (str,), {"__repr__": type(NO_REPR).__repr__})("xx"),
    },
    "a shape that cannot be shown": {"shape": NO_REPR},
    "strides that cannot be shown": {"strides": NO_REPR},
    "data that cannot be shown": {"data": NO_REPR},
    "a version that cannot be shown": {"version": NO_REPR},
}  # fmt: skip


@pytest.mark.parametrize("entries", REFUSED.values(), ids=REFUSED)
def test_odd_entries_that_are_refused(entries):
    with pytest.raises(BufferError):
        versioned(dlshim.upgrade(InterfaceOnly((2, 3), "float32", changes=entries)))


@pytest.mark.parametrize(
    "entries",
    [{"typestr": caps.native("<f4").encode()}, {"typestr": ">u1", "shape": (6,)}],
    ids=["typestr of bytes", "big-endian bytes"],
)
def test_odd_entries_that_are_taken(entries):
    versioned(dlshim.upgrade(InterfaceOnly((2, 3), "float32", changes=entries))).release()


def test_an_interrupt_in_an_extent():
    x = InterfaceOnly((2, 3), "float32", changes={"shape": (of(__index__=INTERRUPT),)})
    with pytest.raises(KeyboardInterrupt):
        versioned(dlshim.upgrade(x))


def test_stream_0_in_the_cuda_interface_is_refused_unless_another_is_named():
    entries = dict(cuda_interface.empty().__cuda_array_interface__, stream=0)
    x = type("Zero", (), {"__cuda_array_interface__": entries})()
    for options in ({}, {"producer_stream": None}):
        with pytest.raises(BufferError) as error:
            dlshim.upgrade(x, **options).__dlpack__(max_version=(1, 0), stream=5)
        tells(error.value, "Zero", "ambiguous")
    for options, stream in (({"producer_stream": 5}, 5), ({}, -1)):
        capsule = dlshim.upgrade(x, **options).__dlpack__(max_version=(1, 0), stream=stream)
        caps.take(capsule).release()


# --- errors of others -------------------------------------------------------------------


class NoText(RuntimeError):
    def __str__(self):
        raise ValueError("it has no text")


class Surrogate(type):
    """A class whose name is no text that can be shown."""

    def __getattribute__(cls, name):
        return 5 if name == "__qualname__" else type.__getattribute__(cls, name)


class Nameless(RuntimeError, metaclass=Surrogate):
    pass


OWN_CAUSE = RuntimeError("its own cause")
OWN_CAUSE.__cause__ = OWN_CAUSE


@pytest.mark.parametrize(
    "error", [NoText(), Nameless("x"), BufferError("x"), AssertionError(), OWN_CAUSE]
)
def test_errors_that_cannot_be_shown(error):
    class Odd(producers.Dunder):
        def __dlpack__(self, **_):
            raise error

    with pytest.raises(BufferError) as caught:
        versioned(dlshim.upgrade(Odd()))
    tells(caught.value, "Odd")
    assert caught.value.__cause__ is error
