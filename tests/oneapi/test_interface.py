"""`__sycl_usm_array_interface__` against the real runtime, each field of it, in and out.

The fields are those of dpctl's page: shape, typestr, data, strides, offset, syclobj, version.  What
a parser does with wrong dicts is tested without a runtime: tests/core/test_sycl_interface.py.
"""

from __future__ import annotations

import itertools
from typing import Any

import dpctl
import dpctl.memory as usm
import numpy as np
import pytest

import dlshim
from doubles import capsules as caps
from doubles.asking import tells, versioned

from . import runtime
from .runtime import OnlyDict, OnlyInterface, xp

DTYPES = ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
#: The memory's element k is k.
LAYOUTS: dict[str, Any] = {
    "whole": lambda x: x,
    "offset": lambda x: x[1:, 2:],
    "steps": lambda x: x[::2, 1::3],
    "columns": lambda x: x.T,
    "backwards": lambda x: x[1:3, ::-2],
    "upside down": lambda x: x[::-1],
    "one column": lambda x: x[:, 3],
    "one element": lambda x: x[2, 3],
    "row of one": lambda x: x[3:, :],
    "broadcast": lambda x: xp.broadcast_to(x[1, :], (3, 6)),
    "nothing": lambda x: x[4:, :],
}
LAYOUT = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())


def through(x: Any, **options: Any) -> Any:
    """dpctl's array from what dlshim made of an interface."""
    return xp.from_dlpack(dlshim.upgrade(x, **options))


# --- in -------------------------------------------------------------------------------------


@LAYOUT
def test_shape_strides_and_offset_in(kind, layout):
    x = layout(runtime.counting(usm_type=kind))
    shown = x.__sycl_usm_array_interface__
    tensor = dlshim.from_dlpack(OnlyInterface(x))
    assert tensor.shape == tuple(shown["shape"]) == x.shape
    if tensor.size:
        assert tensor.data_ptr() == shown["data"][0] + 4 * shown["offset"] == runtime.address(x)
    if x.ndim and tensor.size:
        wide = [n > 1 for n in x.shape]
        kept = [s for s, counts in zip(tensor.strides, wide, strict=True) if counts]
        assert kept == [s for s, counts in zip(x.strides, wide, strict=True) if counts]
    assert runtime.values(through(OnlyInterface(x))) == runtime.values(x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_typestr_in(dtype):
    x = xp.asarray(np.arange(6).astype(dtype))
    assert x.__sycl_usm_array_interface__["typestr"] == f"|{dtype}"
    tensor = dlshim.from_dlpack(OnlyInterface(x))
    assert tensor.dtype == dlshim.from_dlpack(np.arange(6).astype(dtype)).dtype
    y = through(OnlyInterface(x))
    assert y.dtype == x.dtype
    assert runtime.values(y) == runtime.values(x)


def test_data_in_is_the_same_memory(kind):
    x = runtime.counting((6,), usm_type=kind)
    y = through(OnlyInterface(x))
    assert runtime.address(y) == runtime.address(x)
    y[2] = 77
    assert runtime.values(x) == [0, 1, 77, 3, 4, 5]


def test_data_in_says_read_only():
    x = runtime.counting()
    assert through(OnlyInterface(x)).flags.writable
    x.flags.writable = False
    assert x.__sycl_usm_array_interface__["data"][1] is True
    assert dlshim.from_dlpack(OnlyInterface(x)).readonly
    assert not through(OnlyInterface(x)).flags.writable


def test_data_of_memory_objects_is_writable_whatever_they_say(kind):
    memory = runtime.memory(8, kind, dtype="u1")
    assert memory.__sycl_usm_array_interface__["data"][1] is True
    assert not xp.asarray(memory).flags.writable  # their own word taken as it stands
    y = through(memory)
    assert y.flags.writable
    y[1] = 77
    assert memory.copy_to_host().tolist() == [0, 77, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("strides", [None, ...], ids=["None", "absent"])
def test_strides_in_default_to_row_major(strides):
    memory = runtime.memory(96)
    x = OnlyDict(runtime.fields(memory, shape=(2, 3, 4), strides=strides), memory)
    assert runtime.values(through(x)) == np.arange(24.0).reshape(2, 3, 4).tolist()


@pytest.mark.parametrize("offset", [None, ..., 0], ids=["None", "absent", "0"])
def test_offset_in_defaults_to_0(offset):
    memory = runtime.memory(24)
    x = OnlyDict(runtime.fields(memory, offset=offset), memory)
    assert runtime.values(through(x)) == [0, 1, 2, 3, 4, 5]


def test_negative_strides_in_which_dpctl_itself_refuses():
    x = runtime.counting()[1:3, ::-2]
    with pytest.raises(ValueError, match="accommodate"):
        xp.asarray(OnlyInterface(x))
    with versioned(dlshim.upgrade(OnlyInterface(x), order="K")) as imported:
        view = imported.view
        shown = x.__sycl_usm_array_interface__
        assert (view.data, view.byte_offset) == (shown["data"][0], 4 * shown["offset"])
    assert runtime.values(through(OnlyInterface(x))) == [[11, 9, 7], [17, 15, 13]]


@pytest.mark.parametrize("version", [..., 0, 2], ids=["absent", "0", "2"])
def test_version_in(version):
    memory = runtime.memory()
    x = OnlyDict(runtime.fields(memory, version=version), memory)
    with pytest.raises(ValueError, match="version"):
        usm.as_usm_memory(x)
    with pytest.raises(BufferError, match=r"version.*must be the int 1"):
        through(x)


# --- syclobj: in -----------------------------------------------------------------------------


class Getter:
    """An object that is no SyclQueue, but gives its capsule."""

    def __init__(self, of: Any) -> None:
        self._get_capsule = of._get_capsule


FORMS: dict[str, Any] = {
    "filter string": lambda q: q.sycl_device.filter_string,
    "short filter string": lambda q: "cpu",
    "SyclContext": lambda q: q.sycl_context,
    "capsule of a context": lambda q: q.sycl_context._get_capsule(),
    "SyclQueue": lambda q: q,
    "subclass of SyclQueue": lambda q: type("Mine", (dpctl.SyclQueue,), {})(q.sycl_device),
    "capsule of a queue": lambda q: q._get_capsule(),
    "object with _get_capsule() of a queue": Getter,
    "object with _get_capsule() of a context": lambda q: Getter(q.sycl_context),
}
FORM = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


@FORM
def test_syclobj_in(form, kind, queue):
    memory = runtime.memory(24, kind, queue)
    x = OnlyDict(runtime.fields(memory, syclobj=form(queue)), memory)
    for _ in range(2):  # a capsule too can be read again
        assert dlshim.upgrade(x).__dlpack_device__() == (14, 0)
        y = through(x)
        assert runtime.values(y) == [0, 1, 2, 3, 4, 5]
        assert runtime.address(y) == memory._pointer
    assert usm.as_usm_memory(x)._pointer == memory._pointer  # it is still for others to use


def copied(x: Any, **keywords: Any) -> Any:
    """The values of dlshim's copy on the host."""
    with versioned(dlshim.upgrade(x), dl_device=(1, 0), **keywords) as imported:
        return imported.values()


#: What takes an object with the interface, and names no queue.
ROADS: dict[str, Any] = {
    "array": lambda x: runtime.values(through(x)),
    "another queue": lambda x: runtime.values(through(x).to_device(runtime.new_queue())),
    "Tensor": lambda x: runtime.values(xp.asarray(dlshim.from_dlpack(x))),
    "Tensor by DLPack": lambda x: runtime.values(xp.from_dlpack(dlshim.from_dlpack(x))),
    "copy to the host": lambda x: np.from_dlpack(dlshim.upgrade(x, device="cpu")).tolist(),
    "copy to the host, -1": lambda x: copied(x, stream=-1),
}


RESHAPED = (
    lambda x: xp.reshape(x, (24,)),
    lambda x: xp.permute_dims(xp.reshape(x, (2, 3, 4)), (2, 0, 1)),
)


def test_what_dpctl_takes_bare_is_taken_without_options(queue):
    """Every kind of memory, dtype, layout and form of syclobj, writable and read-only."""
    bare = served = 0
    sources = [
        (x, layout(x), readonly)
        for kind in runtime.KINDS_OF_MEMORY
        for dtype in DTYPES
        for x in [xp.zeros((4, 6), dtype=dtype, usm_type=kind, sycl_queue=queue)]
        for layout in (*LAYOUTS.values(), *RESHAPED)
        for readonly in (False, True)
    ]
    queue.wait()
    for (whole, x, readonly), (name, form) in itertools.product(sources, FORMS.items()):
        data = (shown(x)["data"][0], readonly)

        def make(x=x, whole=whole, form=form, data=data):
            return OnlyDict(shown(x) | {"syclobj": form(queue), "data": data}, whole)

        try:
            taken = xp.asarray(make(), copy=False)
        except ValueError:  # dpctl refuses negative strides there
            continue
        bare += 1
        y = through(make())
        told = (name, shown(x), readonly)
        assert y.shape == taken.shape and y.dtype == taken.dtype, told
        assert not x.size or runtime.address(y) == runtime.address(taken), told
        assert y.flags.writable is taken.flags.writable is not readonly, told
        served += 1
    print(f"{served} of {bare}")
    assert served == bare == 8316


@FORM
@pytest.mark.parametrize("road", ROADS.values(), ids=ROADS.keys())
def test_syclobj_in_without_options_on_every_road(road, form, kind, queue):
    """As dpctl itself takes all of them: `asarray`, and `as_usm_memory`."""
    memory = runtime.memory(24, kind, queue)
    fields = runtime.fields(memory, syclobj=None)

    def x():
        return OnlyDict(fields | {"syclobj": form(queue)}, memory)

    bare = usm.as_usm_memory(x())
    assert bare._pointer == memory._pointer
    assert road(x()) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", FORMS)
def test_a_queue_that_wants_an_order_needs_the_producers(name, queue, other_queue):
    memory = runtime.memory(24, "shared", queue)
    x = OnlyDict(runtime.fields(memory, syclobj=FORMS[name](queue)), memory)
    if "ueue" in name:
        versioned(dlshim.upgrade(x), stream=other_queue).release()
        return
    with pytest.raises(BufferError) as error:
        versioned(dlshim.upgrade(x), stream=other_queue)
    tells(error.value, "OnlyDict", "queue is not known", "names a context or a device")
    versioned(dlshim.upgrade(x, producer_stream=queue), stream=other_queue).release()


def test_a_capsule_that_others_have_used(queue):
    """dpctl as a consumer uses it up."""
    for capsule in (queue._get_capsule(), queue.sycl_context._get_capsule()):
        memory = runtime.memory(24, queue=queue)
        x = OnlyDict(runtime.fields(memory, syclobj=capsule), memory)
        usm.as_usm_memory(x)
        with pytest.raises(ValueError, match="not consistent"):
            usm.as_usm_memory(x)
        with pytest.raises(BufferError, match="has been used"):
            through(x, unknown_stream="same")


@pytest.mark.parametrize(
    ("syclobj", "words"),
    [
        ("nonsense", "nonsense"),
        ("gpu", "gpu"),
        (..., "missing"),
        (None, "missing"),
        (0, "not int"),
    ],
)
def test_a_syclobj_that_tells_no_device(syclobj, words):
    memory = runtime.memory()
    x = OnlyDict(runtime.fields(memory, syclobj=syclobj), memory)
    with pytest.raises((ValueError, dpctl.SyclQueueCreationError)):
        usm.as_usm_memory(x)
    with pytest.raises(BufferError) as error:
        through(x, unknown_stream="same")
    tells(error.value, "OnlyDict", "syclobj", words)


def test_a_device_is_not_a_form(queue):
    memory = runtime.memory(queue=queue)
    x = OnlyDict(runtime.fields(memory, syclobj=queue.sycl_device), memory)
    with pytest.raises(BufferError, match=r"syclobj.*not SyclDevice"):
        through(x)


# --- out ---------------------------------------------------------------------------------------


def shown(x: Any) -> dict[str, Any]:
    return x.__sycl_usm_array_interface__


@LAYOUT
def test_shape_strides_offset_data_and_version_out(kind, layout):
    x = layout(runtime.counting(usm_type=kind))
    tensor = dlshim.from_dlpack(x)
    mine, theirs = shown(tensor), shown(x)
    assert set(mine) == set(theirs)
    assert mine["shape"] == tuple(theirs["shape"])
    assert mine["version"] == theirs["version"] == 1
    assert mine["data"][1] is tensor.readonly
    assert mine["strides"] in (None, tensor.strides)
    backwards = any(s < 0 for s in tensor.strides)
    if not backwards:
        assert mine["offset"] == 0
    elif tensor.size:
        assert (mine["data"][0], mine["offset"]) == (theirs["data"][0], theirs["offset"])
    if tensor.size:
        assert mine["data"][0] + 4 * mine["offset"] == runtime.address(x)


@LAYOUT
def test_dpctl_takes_the_memory_of_a_tensor(kind, layout):
    x = layout(runtime.counting(usm_type=kind))
    tensor = dlshim.from_dlpack(x)
    if not tensor.size:
        return
    memory = usm.as_usm_memory(tensor)
    theirs = usm.as_usm_memory(x)
    assert (memory._pointer, memory.nbytes) == (theirs._pointer, theirs.nbytes)
    assert memory.get_usm_type() == kind
    if all(s >= 0 for s in tensor.strides):
        y = xp.asarray(tensor)
        assert runtime.values(y) == runtime.values(x)
        assert runtime.address(y) == runtime.address(x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_typestr_out(dtype):
    x = xp.asarray(np.arange(6).astype(dtype))
    tensor = dlshim.from_dlpack(x)
    assert np.dtype(shown(tensor)["typestr"]) == np.dtype(dtype)
    y = xp.asarray(tensor)
    assert y.dtype == x.dtype
    assert runtime.values(y) == runtime.values(x)


def test_data_out_says_read_only():
    x = runtime.counting()
    assert xp.asarray(dlshim.from_dlpack(x)).flags.writable
    x.flags.writable = False
    tensor = dlshim.from_dlpack(x)
    assert shown(tensor)["data"][1] is True
    assert not xp.asarray(tensor).flags.writable


class Stranger:
    """A producer of which nothing is known but DLPack."""

    def __init__(self, of: Any) -> None:
        self.__dlpack__, self.__dlpack_device__ = of.__dlpack__, of.__dlpack_device__


def test_syclobj_out_is_a_filter_string_that_dpctl_takes(queue):
    x = runtime.counting(sycl_queue=queue)
    tensor = dlshim.from_dlpack(Stranger(x))
    assert shown(tensor)["syclobj"] == "0"
    memory = usm.as_usm_memory(tensor)
    assert memory.sycl_context == queue.sycl_context
    assert memory.sycl_device == queue.sycl_device


def test_syclobj_out_is_the_queue_that_is_known(queue, other_queue):
    x = runtime.counting(sycl_queue=queue)
    assert shown(dlshim.from_dlpack(x))["syclobj"] == queue  # which the array itself names
    tensor = dlshim.from_dlpack(x, stream=other_queue)
    assert shown(tensor)["syclobj"] is other_queue
    assert xp.asarray(tensor).sycl_queue == other_queue
    memory = runtime.memory(queue=queue)
    assert shown(dlshim.from_dlpack(memory))["syclobj"] is queue
    # Arrays of one queue can be computed with.
    y = xp.asarray(dlshim.from_dlpack(OnlyInterface(x)))
    assert runtime.values(x + y) == (2 * np.arange(24.0).reshape(4, 6)).tolist()


@FORM
def test_syclobj_out_is_what_the_source_named(form, queue):
    memory = runtime.memory(24, queue=queue)
    x = OnlyDict(runtime.fields(memory, syclobj=form(queue)), memory)
    tensor = dlshim.from_dlpack(dlshim.upgrade(x, unknown_stream="same"))
    for _ in range(2):
        assert usm.as_usm_memory(tensor)._pointer == memory._pointer
        assert runtime.values(xp.asarray(tensor)) == [0, 1, 2, 3, 4, 5]


def test_a_tensor_keeps_what_it_shows_alive():
    x = runtime.counting((6,))
    tensor = dlshim.from_dlpack(x)
    y = xp.asarray(tensor)
    del x, tensor
    for _ in range(20):
        runtime.counting((6,))[:] = -1
    assert runtime.values(y) == [0, 1, 2, 3, 4, 5]


def test_other_memory_is_not_shown():
    assert not hasattr(dlshim.from_dlpack(np.arange(3)), "__sycl_usm_array_interface__")
    x = dlshim.from_dlpack(dlshim.upgrade(runtime.counting(), device="cpu"))
    assert x.device == (1, 0)
    assert not hasattr(x, "__sycl_usm_array_interface__")


def test_a_legacy_capsule_of_memory_that_has_no_dlpack(kind):
    """Memory objects have no `__dlpack__` at all."""
    memory = runtime.memory(8, kind, dtype="u1")
    assert not hasattr(memory, "__dlpack__")
    with caps.take(dlshim.to_capsule(memory)) as imported:
        assert imported.view.device == (14, 0)
        assert imported.view.data == memory._pointer
        if kind != "device":  # which the host cannot read everywhere
            assert imported.values() == list(range(8))
