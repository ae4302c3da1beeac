"""`__sycl_usm_array_interface__` v1 in and out, field by field, on doubles of dpctl's objects.

The same on a real runtime: tests/oneapi.  The fields are those of dpctl's page: shape, typestr,
data, strides, offset, syclobj, version.  Entries that all dicts share: test_ways_in.py.
"""

from __future__ import annotations

import gc
import re
import sys
import weakref
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dlshim
from dlshim import _core
from doubles import capsules as caps
from doubles import sycl
from doubles.asking import ASKINGS, bare, refused, tells, versioned
from doubles.producers import P2, masquerade
from doubles.streams import Index
from doubles.sycl import Context, Device, Getter, Memory, Queue, SyclOnly

pytestmark = pytest.mark.once  # there is never a capsule to hand on

BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())
DROP = SyclOnly.DROP
PROTOCOL = "__sycl_usm_array_interface__"
#: Of dpctl's page.  Each has tests with its name and "in" or "out" in theirs.
FIELDS = ("shape", "typestr", "data", "strides", "offset", "syclobj", "version")


@pytest.fixture
def imported_library(monkeypatch):
    """The library is imported, so that its classes can be found."""
    monkeypatch.setitem(sys.modules, "dpctl", sycl.library())


@pytest.fixture
def no_library(monkeypatch):
    monkeypatch.delitem(sys.modules, "dpctl", raising=False)


@pytest.mark.parametrize("direction", ["in", "out"])
@pytest.mark.parametrize("field", FIELDS)
def test_the_field_has_a_test(field, direction):
    """Here, on doubles, and on the real runtime."""
    real = Path(__file__).parent.parent / "oneapi" / "test_interface.py"
    for text in (Path(__file__).read_text(), real.read_text()):
        names = [set(name.split("_")) for name in re.findall(r"^def (test_\w+)", text, re.M)]
        assert any({field, direction} <= words for words in names), (field, direction)


# --- shape, typestr, data, version: in ----------------------------------------------------


@BOTH
def test_shape_in(ask):
    for shape in ((2, 3), (24,), (), (2, 3, 4), (1,) * 64):
        with ask(dlshim.upgrade(SyclOnly(shape))) as imported:
            assert imported.view.shape == shape
            assert imported.view.device == (14, 0)
            assert (imported.view.strides or ()) == caps.row_major(shape)


@pytest.mark.parametrize(
    ("typestr", "dtype"),
    [
        ("|b1", (6, 8, 1)),
        ("|i1", (0, 8, 1)),
        ("|u2", (1, 16, 1)),
        ("|i8", (0, 64, 1)),
        ("|f2", (2, 16, 1)),
        ("|f4", (2, 32, 1)),
        ("|f8", (2, 64, 1)),
        ("|c8", (5, 64, 1)),
        ("|c16", (5, 128, 1)),
        (caps.native("<f4"), (2, 32, 1)),
    ],
)
def test_typestr_in_begins_with_a_bar_whatever_the_size(typestr, dtype):
    tensor = dlshim.from_dlpack(SyclOnly((2,), changes={"typestr": typestr}))
    assert (tensor.dtype, tensor.strides) == (dtype, (1,))


@BOTH
def test_data_in_is_the_address(ask):
    x = SyclOnly()
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.view.data == x.base
        assert imported.values() == [0, 1, 2, 3, 4, 5]
    with ask(dlshim.upgrade(SyclOnly(changes={"data": [Index(x.base), 0]}))) as imported:
        assert imported.view.data == x.base


def test_data_of_memory_objects_is_writable_whatever_they_say():
    x = Memory(12)
    assert x.__sycl_usm_array_interface__["data"][1] is True
    assert "offset" not in x.__sycl_usm_array_interface__
    for attempt in (bare, versioned):
        with attempt(dlshim.upgrade(x)) as imported:
            assert not imported.view.readonly
            assert imported.values() == list(range(12))
    assert not dlshim.from_dlpack(x).readonly
    assert dlshim.from_dlpack(dlshim.upgrade(x, readonly=True)).readonly


def test_version_in():
    assert dlshim.from_dlpack(SyclOnly(changes={"version": Index(1)})).shape == (2, 3)


# --- strides and offset: in -----------------------------------------------------------------


@BOTH
def test_strides_in_count_elements(ask):
    x = SyclOnly((2, 3), strides=(12, 2))
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.view.strides == (12, 2)
        assert imported.values() == [0, 2, 4, 12, 14, 16]
    for dtype in ("uint8", "float64"):
        assert dlshim.from_dlpack(SyclOnly((3, 2), dtype, strides=(1, 3))).strides == (1, 3)


@BOTH
def test_strides_in_that_never_count_may_be_anything(ask):
    for shape, strides in [((1, 3), (2**62, 1)), ((3, 1), (1, -(2**62))), ((1,), (-5,))]:
        with ask(dlshim.upgrade(SyclOnly(shape, strides=strides))) as imported:
            assert imported.view.strides == caps.row_major(shape)


@BOTH
def test_offset_in_counts_elements(ask):
    x = SyclOnly((2, 3), offset=5)
    with ask(dlshim.upgrade(x)) as imported:
        assert (imported.view.data, imported.view.byte_offset) == (x.base + 20, 0)
        assert imported.values() == [5, 6, 7, 8, 9, 10]
    x = SyclOnly((2,), "int16", offset=Index(3))
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.view.data == x.base + 6


@BOTH
@pytest.mark.parametrize("changes", [{"offset": None}, {"offset": DROP}], ids=["None", "absent"])
def test_offset_in_defaults_to_0(ask, changes):
    x = SyclOnly(changes=changes)
    with ask(dlshim.upgrade(x)) as imported:
        assert (imported.view.data, imported.view.byte_offset) == (x.base, 0)


@BOTH
def test_offset_in_stays_apart_with_negative_strides(ask):
    """`arange(24).reshape(4, 6)[1:3, ::-2]`, which dpctl takes in no other form."""
    x = SyclOnly((2, 3), strides=(6, -2), offset=11)
    with ask(dlshim.upgrade(x, order="K")) as imported:
        view = imported.view
        assert (view.data, view.byte_offset, view.strides) == (x.base, 44, (6, -2))
        assert imported.values() == [11, 9, 7, 17, 15, 13]
    tensor = dlshim.from_dlpack(x)
    assert (tensor.data_ptr(), tensor.byte_offset) == (x.base + 44, 44)
    with pytest.raises(BufferError, match="negative strides"):
        dlshim.to_capsule(x)


# --- what is wrong ------------------------------------------------------------------------

#: What is wrong, the changed entries, and words of the message.
ODD: dict[str, tuple[dict[str, Any], str]] = {
    "no version": ({"version": DROP}, "version.*missing"),
    "version 0": ({"version": 0}, "version.*1, not 0"),
    "version 2": ({"version": 2}, "version.*1, not 2"),
    "version of a bool": ({"version": True}, "version.*bool"),
    "void": ({"typestr": "|V8"}, "no code for"),
    "strides that overflow as bytes": ({"strides": (2**62, 1)}, r"strides.*\[0\].*overflow"),
    "strides that overflow": ({"strides": (2**60, 2**60), "shape": (9, 9)}, "overflow"),
    "negative offset": ({"offset": -1}, "offset.*0 or above.*-1"),
    "offset that overflows": ({"offset": 2**62}, "offset.*4611686018427387904"),
    "huge offset": ({"offset": 2**80}, "offset"),
    "offset of a bool": ({"offset": True}, "offset.*bool"),
    "offset of a float": ({"offset": 1.0}, "offset.*float"),
    "no data": ({"data": DROP}, "data.*missing"),
    "a buffer": ({"data": b"ab"}, "data.*pair.*bytes"),
    "address of a bool": ({"data": (True, False)}, "data.*address.*bool"),
    "no syclobj": ({"syclobj": DROP}, "syclobj.*missing.*SyclQueue.*filter string"),
    "syclobj None": ({"syclobj": None}, "syclobj.*missing"),
    "syclobj of a number": ({"syclobj": 0}, "syclobj.*SyclQueue.*not int"),
    "a SyclDevice": ({"syclobj": Device()}, "syclobj.*SyclQueue.*not Device"),
}


@pytest.mark.parametrize(("changes", "words"), ODD.values(), ids=ODD)
def test_dicts_that_are_wrong(changes, words):
    refused(SyclOnly(changes=changes), words)


# --- syclobj: in ----------------------------------------------------------------------------


def six_forms(queue: Queue) -> dict[str, Any]:
    """Every form that dpctl's page names, all of the same device."""
    return {
        "filter string": "level_zero:gpu:1",
        "SyclContext": queue.sycl_context,
        "capsule of a context": queue.sycl_context._get_capsule(),
        "SyclQueue": queue,
        "capsule of a queue": queue._get_capsule(),
        "object with _get_capsule() of a queue": Getter(queue),
        "object with _get_capsule() of a context": Getter(queue.sycl_context),
    }


FORMS = list(six_forms(Queue()))
WITH_QUEUE = [form for form in FORMS if "ueue" in form]
WITHOUT_QUEUE = [form for form in FORMS if form not in WITH_QUEUE]


@pytest.mark.usefixtures("imported_library")
@pytest.mark.parametrize("form", FORMS)
def test_syclobj_in_tells_the_device(form):
    x = SyclOnly(syclobj=six_forms(Queue(2))[form])
    for ask in (bare, versioned):
        with ask(dlshim.upgrade(x), stream=-1) as imported:
            assert imported.view.device == (14, 2)
    assert dlshim.upgrade(x).__dlpack_device__() == (14, 2)
    assert dlshim.from_dlpack(x, stream=-1).device == (14, 2)


@pytest.mark.usefixtures("imported_library")
@pytest.mark.parametrize("form", WITH_QUEUE)
def test_syclobj_in_that_is_a_queue_tells_whose_work_is_unfinished(form):
    p, s = Queue(), Queue()
    x = SyclOnly(syclobj=six_forms(p)[form])
    for stream, of_p, of_s in [
        (None, ["wait"], []),
        (-1, [], []),
        (s, [("barrier",)], [("barrier", p)]),
        (p, [], []),
    ]:
        p.log.clear()
        s.log.clear()
        versioned(dlshim.upgrade(x), stream=stream).release()
        assert (p.log, s.log) == (of_p, of_s), stream


@pytest.mark.usefixtures("imported_library")
@pytest.mark.parametrize("form", WITHOUT_QUEUE)
def test_syclobj_in_that_is_no_queue_leaves_the_work_unknown(form):
    """Without a stream it passes, as with dpctl; a queue that wants an order gets none."""
    p, s = Queue(2), Queue(2)
    x = SyclOnly(syclobj=six_forms(p)[form])
    for policy in ("auto", "legacy"):
        ask = partial(dlshim.upgrade, x, unknown_stream=policy)
        versioned(ask()).release()
        versioned(ask(), stream=None).release()
        caps.take(dlshim.to_capsule(ask())).release()
        for order in ({"stream": s}, {"stream": 2**40}):
            with pytest.raises(BufferError) as error:
                versioned(ask(), **order)
            tells(error.value, "SyclOnly", "queue is not known", "names a context or a device")
            tells(error.value, "producer_stream=", "stream=-1")
        with pytest.raises(BufferError, match="queue is not known"):
            versioned(dlshim.upgrade(x, unknown_stream=policy, stream="wait"))
    for stream in (None, s):
        with pytest.raises(BufferError, match="queue is not known"):
            versioned(dlshim.upgrade(x, unknown_stream="error"), stream=stream)
        versioned(dlshim.upgrade(x, unknown_stream="same"), stream=stream).release()
    assert p.log == s.log == []
    versioned(dlshim.upgrade(x, producer_stream=p)).release()
    assert p.log == ["wait"]
    versioned(dlshim.upgrade(x), stream=-1).release()
    assert p.log == ["wait"]


@pytest.mark.usefixtures("imported_library")
@pytest.mark.parametrize("form", WITHOUT_QUEUE)
def test_a_tensor_of_it_says_what_the_syclobj_says(form):
    p, s = Queue(2), Queue(2)
    tensor = dlshim.from_dlpack(SyclOnly(syclobj=six_forms(p)[form]))
    assert tensor.device == (14, 2)
    syclobj = tensor.__sycl_usm_array_interface__["syclobj"]
    assert not hasattr(syclobj, "sycl_device")
    for source in (tensor, dlshim.from_dlpack(tensor)):
        versioned(source).release()
        with pytest.raises(BufferError, match="queue is not known"):
            versioned(source, stream=s)
    assert p.log == s.log == []


@pytest.mark.parametrize("cls", [sycl.DpctlArray, sycl.DpnpTensor, sycl.DpnpArray])
def test_arrays_that_wait_themselves_are_not_waited_for_again(cls):
    p, s = Queue(), Queue()
    x = cls(syclobj=p)
    for stream in (None, -1, s):
        p.log.clear()
        versioned(dlshim.upgrade(x), stream=stream).release()
        assert (p.log, s.log) == (["wait"], []), stream


def test_memory_objects_wait_for_nothing_so_they_are_waited_for():
    p = Queue()
    versioned(dlshim.upgrade(Memory(syclobj=p))).release()
    assert p.log == ["wait"]


@pytest.mark.usefixtures("imported_library")
@pytest.mark.parametrize("of", [Queue, Context])
def test_a_capsule_can_be_read_again(of):
    capsule = of(1)._get_capsule()
    name = caps.name_of(capsule)
    x = SyclOnly(syclobj=capsule)
    for _ in range(2):
        assert dlshim.upgrade(x).__dlpack_device__() == (14, 1)
        versioned(dlshim.upgrade(x), stream=-1).release()
        assert caps.name_of(capsule) == name


@pytest.mark.usefixtures("imported_library")
@pytest.mark.parametrize(("of", "name"), [(Queue, sycl.QUEUE), (Context, sycl.CONTEXT)])
def test_a_used_capsule_says_so(of, name):
    capsule = of()._get_capsule()
    sycl.use(capsule, name)
    refused(SyclOnly(syclobj=capsule), "syclobj", "has been used")


def test_a_capsule_of_something_else():
    class OfDevice:
        def _get_capsule(self) -> Any:
            return sycl.capsule("SyclDeviceRef", None)

    for wrong in (OfDevice()._get_capsule(), OfDevice()):
        refused(SyclOnly(syclobj=wrong), "syclobj", "SyclQueue")
    wrong = Getter(SimpleNamespace(_get_capsule=int))
    refused(SyclOnly(syclobj=wrong), "syclobj", "_get_capsule", "Getter")


def test_the_first_device_of_a_context_counts():
    x = SyclOnly(syclobj=Context([Device(3), Device(1)]))
    assert dlshim.from_dlpack(x, stream=-1).device == (14, 3)


@pytest.mark.usefixtures("imported_library")
def test_a_filter_string_that_fits_nothing():
    error = refused(SyclOnly(syclobj="nonsense"), "syclobj", "'nonsense'", "assume_device=")
    assert isinstance(error.__cause__, sycl.SyclDeviceCreationError)


@pytest.mark.usefixtures("no_library")
@pytest.mark.parametrize("form", [f for f in FORMS if f not in ("SyclContext", "SyclQueue")])
def test_without_its_library_only_objects_tell_the_device(form):
    x = SyclOnly(syclobj=six_forms(Queue(2))[form])
    with pytest.raises(BufferError) as error:
        versioned(dlshim.upgrade(x), stream=-1)
    tells(error.value, "SyclOnly", "syclobj", "not imported", "import dpctl", "assume_device=")
    assert "dpctl" not in sys.modules
    with versioned(dlshim.upgrade(x, assume_device=(14, 5)), stream=-1) as imported:
        assert imported.view.device == (14, 5)


@pytest.mark.usefixtures("no_library")
@pytest.mark.parametrize("form", ["SyclContext", "SyclQueue"])
def test_objects_tell_the_device_themselves(form):
    x = SyclOnly(syclobj=six_forms(Queue(2))[form])
    assert dlshim.from_dlpack(x, stream=-1).device == (14, 2)


@pytest.mark.parametrize("number", [-1, 2**31, 2**80, "one", ValueError("no root device")], ids=str)
def test_a_device_without_a_number(number):
    x = SyclOnly(syclobj=Queue(Device(0)))
    x.queue.sycl_device.number = number
    refused(x, "syclobj", "device", r"assume_device=\(14")
    with versioned(dlshim.upgrade(x, assume_device=(14, 1))) as imported:
        assert imported.view.device == (14, 1)


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), MemoryError("m")])
def test_what_nobody_may_hide_comes_through(failure):
    x = SyclOnly(syclobj=Queue(Device(0)))
    x.queue.sycl_device.number = failure
    with pytest.raises(type(failure)):
        versioned(dlshim.upgrade(x))


def test_an_assumed_device_of_another_kind_is_not_synced_by_a_queue():
    p = Queue()
    x = SyclOnly(syclobj=p)
    with versioned(dlshim.upgrade(x, assume_device=(8, 1))) as imported:
        assert imported.view.device == (8, 1)
    assert p.log == []
    with pytest.raises(BufferError):
        versioned(dlshim.upgrade(x, assume_device=(14, 0), device="cuda"))


# --- memory ---------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 2**62)], ids=repr)
def test_empty_arrays_are_not_waited_for(ask, shape):
    for address in (0, 0x1000):
        x = SyclOnly(shape, changes={"data": (address, False)})
        with ask(dlshim.upgrade(x)) as imported:
            assert (imported.view.shape, imported.view.data) == (shape, address)
        assert x.queue.log == []


def test_a_cycle_through_the_dict_is_collected():
    x = SyclOnly()
    x.note = dlshim.from_dlpack(x)  # type: ignore[attr-defined]
    died = weakref.ref(x)
    del x
    gc.collect()
    assert died() is None


def test_nothing_is_read_before_an_export():
    x = SyclOnly()
    wrapped = dlshim.upgrade(x)
    dlshim.inspect(x)
    repr(wrapped)
    assert x.times_asked == 0
    versioned(wrapped).release()
    assert x.times_asked == 1


# --- out --------------------------------------------------------------------------------------


def on(device: tuple[int, int], *arguments: Any, **keywords: Any) -> Any:
    return P2(*arguments, device=device, **keywords)


def shown(tensor: Any) -> dict[str, Any]:
    return tensor.__sycl_usm_array_interface__


def test_all_fields_out():
    tensor = dlshim.from_dlpack(on((14, 3), (3, 2), "int16"))
    assert shown(tensor) == {
        "shape": (3, 2),
        "typestr": caps.native("<i2"),
        "data": (tensor.data_ptr(), False),
        "strides": None,
        "offset": 0,
        "syclobj": "3",
        "version": 1,
    }
    fields = shown(tensor)
    assert fields["data"][1] is False and type(fields["version"]) is int


@pytest.mark.parametrize("shape", [(), (24,), (3, 2), (0, 3), (1,) * 64], ids=str)
def test_shape_out(shape):
    given = shown(dlshim.from_dlpack(on((14, 0), shape)))["shape"]
    assert given == shape
    assert type(given) is tuple
    assert all(type(extent) is int for extent in given)


def test_version_out():
    """1, whatever version of DLPack the memory came by."""
    for version in ((1, 0), (1, 3)):
        tensor = dlshim.from_dlpack(on((14, 0), version=version))
        assert (tensor.version[0], shown(tensor)["version"]) == (1, 1)
    legacy = dlshim.upgrade(on((14, 0)).__dlpack__(), unknown_stream="same")
    assert shown(dlshim.from_dlpack(legacy))["version"] == 1


@pytest.mark.parametrize(
    ("dtype", "typestr"),
    [
        ("bool", "|b1"),
        ("uint8", "|u1"),
        ("float16", caps.native("<f2")),
        ("complex128", caps.native("<c16")),
    ],
)
def test_typestr_out(dtype, typestr):
    assert shown(dlshim.from_dlpack(on((14, 0), (2,), dtype)))["typestr"] == typestr


@pytest.mark.parametrize("dtype", ["bfloat16", (2, 32, 2)], ids=str)
def test_typestr_out_has_no_word_for_it(dtype):
    tensor = dlshim.from_dlpack(on((14, 0), (2,), dtype))
    assert not hasattr(tensor, PROTOCOL)
    with pytest.raises(AttributeError, match=r"no typestr.*\n.*reinterpret="):
        shown(tensor)


def test_data_out_says_read_only():
    tensor = dlshim.from_dlpack(on((14, 0), readonly=True))
    assert shown(tensor)["data"] == (tensor.data_ptr(), True)
    assert shown(dlshim.from_dlpack(Memory()))["data"][1] is False


def test_strides_out_count_elements():
    for strides in ((1, 3), (2, 1)):
        x = on((14, 0), (3, 2), "int16", strides=strides)
        assert shown(dlshim.from_dlpack(x))["strides"] == (None if strides == (2, 1) else strides)
    x = on((14, 0), (1, 2), "int16", strides=(77, 1))
    assert shown(dlshim.from_dlpack(x))["strides"] is None


def test_offset_out_is_folded_but_for_negative_strides():
    tensor = dlshim.from_dlpack(SyclOnly((2,), offset=5))
    assert (shown(tensor)["offset"], shown(tensor)["data"][0]) == (0, tensor.data_ptr())
    x = SyclOnly((2, 3), strides=(6, -2), offset=11)
    fields = shown(dlshim.from_dlpack(x))
    assert (fields["data"][0], fields["offset"], fields["strides"]) == (x.base, 11, (6, -2))


@pytest.mark.parametrize(("byte_offset", "offset"), [(4, 2), (3, 0)])
def test_offset_out_that_is_no_whole_element_is_folded(byte_offset, offset):
    x = P2((3,), "int16", strides=(-1,), start=2, byte_offset=byte_offset, device=(14, 0))
    tensor = dlshim.from_dlpack(x)
    assert tensor.byte_offset == byte_offset
    fields = shown(tensor)
    assert fields["offset"] == offset
    assert fields["data"][0] + 2 * offset == tensor.data_ptr() == x.element_zero


@pytest.mark.usefixtures("imported_library")
@pytest.mark.parametrize("form", FORMS)
def test_syclobj_out_is_what_the_source_named(form):
    """A capsule would be used up by the first consumer: what it held is named instead."""
    queue = Queue(2)
    named = six_forms(queue)[form]
    tensor = dlshim.from_dlpack(dlshim.upgrade(SyclOnly(syclobj=named), unknown_stream="same"))
    for source in (tensor, dlshim.from_dlpack(tensor)):
        syclobj = shown(source)["syclobj"]
        if form in ("filter string", "SyclContext", "SyclQueue"):
            assert syclobj is named
        elif form in WITH_QUEUE:
            assert syclobj == queue
        else:
            assert syclobj.devices == [queue.sycl_device]


def test_syclobj_out_is_else_the_queue_of_the_tensor():
    s = Queue()
    tensor = dlshim.from_dlpack(on((14, 0)), stream=s)
    assert shown(tensor)["syclobj"] is s


def test_the_data_are_ready_when_the_dict_arrives():
    p, s = Queue(), Queue()
    tensor = dlshim.from_dlpack(SyclOnly(syclobj=p), stream=s)
    assert s.log == [("barrier", p)]
    assert shown(tensor)["syclobj"] is p
    assert s.log == [("barrier", p), "wait"]
    p.log.clear()
    tensor = dlshim.from_dlpack(SyclOnly(syclobj=p))
    assert p.log == ["wait"]
    shown(tensor)
    assert p.log == ["wait"]
    tensor = dlshim.from_dlpack(SyclOnly((0, 3), syclobj=p), stream=s)
    s.log.clear()
    shown(tensor)
    assert s.log == []


class Dpctl(P2):
    """dpctl 0.21: None syncs nothing, a queue is synced by a barrier pair."""

    def __init__(self, *args: Any, queue: Queue, **keywords: Any) -> None:
        super().__init__(*args, device=(14, 0), **keywords)
        self.sycl_queue = queue

    def answer(self, stream: Any = None, **asked: Any) -> Any:
        if stream is not None and stream != self.sycl_queue:
            stream.submit_barrier([self.sycl_queue.submit_barrier()])
        return super().answer(**asked)


UsmArray = masquerade(Dpctl, "usm_ndarray", "dpctl.tensor._usmarray")
DpnpArray = masquerade(Dpctl, "dpnp_array", "dpnp.dpnp_array")


@pytest.mark.parametrize("cls", [UsmArray, DpnpArray])
def test_a_tensor_of_an_array_remembers_its_queue(cls):
    """Nobody was asked to wait, so what the Tensor shows and hands on waits."""
    p, s = Queue(), Queue()
    tensor = dlshim.from_dlpack(cls((2, 3), queue=p))
    assert p.log == []
    assert shown(tensor)["syclobj"] is p
    assert p.log == ["wait"]
    versioned(tensor).release()
    assert p.log == ["wait", "wait"]
    versioned(tensor, stream=s).release()
    assert (p.log[2:], s.log) == ([("barrier",)], [("barrier", p)])
    versioned(tensor, stream=-1).release()
    versioned(tensor, stream=p).release()
    assert len(p.log) == 3


@pytest.mark.parametrize("stream", [-1, "S"])
def test_a_tensor_that_was_taken_with_a_stream_remembers_that(stream):
    p, s = Queue(), Queue()
    given = s if stream == "S" else stream
    tensor = dlshim.from_dlpack(UsmArray((2, 3), queue=p), stream=given)
    before = list(p.log)
    if given == -1:
        with pytest.raises(BufferError, match="stream=-1"):
            shown(tensor)
    else:
        assert shown(tensor)["syclobj"] is s and s.log == [("barrier", p), "wait"]
    assert p.log == before


def test_an_array_of_no_elements_has_no_queue_to_wait_for():
    p = Queue()
    shown(dlshim.from_dlpack(UsmArray((0, 3), queue=p)))
    assert p.log == []


def test_what_was_taken_without_sync_cannot_be_shown():
    tensor = dlshim.from_dlpack(SyclOnly(), stream=-1)
    with pytest.raises(BufferError) as error:
        shown(tensor)
    tells(error.value, PROTOCOL, "stream=-1", "SyclQueue")


@pytest.mark.parametrize("device", [(1, 0), (2, 0), (3, 0), (7, 0), (10, 0), (13, 0)], ids=str)
def test_other_memory_is_not_shown(device):
    tensor = dlshim.from_dlpack(on(device), stream=-1)
    assert not hasattr(tensor, PROTOCOL)
    with pytest.raises(AttributeError, match="oneAPI memory only"):
        shown(tensor)
    for name in ("__array_interface__", "__cuda_array_interface__"):
        assert not hasattr(dlshim.from_dlpack(on((14, 0)), stream=-1), name)


def test_there_and_back():
    x = SyclOnly((2, 3), strides=(6, -2), offset=11, readonly=True)
    tensor = dlshim.from_dlpack(x)
    again = dlshim.from_dlpack(SimpleNamespace(__sycl_usm_array_interface__=shown(tensor)))
    for name in ("shape", "strides", "dtype", "device", "byte_offset", "readonly"):
        assert getattr(again, name) == getattr(tensor, name), name
    assert again.data_ptr() == tensor.data_ptr()


# --- allocation failures, versions of CPython ----------------------------------------------------


@pytest.mark.usefixtures("imported_library")
def test_allocations_that_fail_leak_nothing():
    x = SyclOnly((2, 3), strides=(6, -2), offset=11, syclobj=Queue()._get_capsule())
    versioned(dlshim.upgrade(x)).release()
    before = _core._counters()["live"]
    for n in range(40):
        _core._hook("fail_alloc", n)
        try:
            versioned(dlshim.upgrade(x)).release()
        except MemoryError:
            continue
        finally:
            _core._hook("fail_alloc", -1)
        break
    else:
        raise AssertionError("it never ran out of allocations to fail")
    assert _core._counters()["live"] == before
