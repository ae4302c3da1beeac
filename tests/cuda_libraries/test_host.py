"""CUDA memory that real NumPy reads: copies of numba's arrays, and managed and pinned memory, which
it takes without a stream and reads at once (rules S4, S5 and S18)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cuda_libraries.real import (
    KINDS,
    VARIANTS,
    Case,
    View,
    at_device,
    blocks,
    core,
    core_stream,
    cuda,
    np,
    numba_over,
    pointer,
    stream,
)

import dlshim
from drivers import Driver, checks, run_checks


class Shared:
    """Managed or pinned memory in which stream P has unfinished work, and who shows it to NumPy."""

    def __init__(self, drv: Driver, kind: str, p: str) -> None:
        drv.reset()
        at_device(drv, 0)
        core.Device(0).set_current()
        self.drv, self.kind = drv, kind
        self.P = stream(p, "P")
        self.p = int(self.P)
        self.address = drv.alloc(48, 0, kind)
        self.data = np.arange(12, dtype=np.float32)
        drv.put(self.address, self.data.tobytes())
        assert not drv.write(self.p, self.address, 48)
        self.stack = drv.context_stack()
        drv.clear_log()

    def buffer(self) -> Any:
        """cuda.core's, which says nothing about streams."""
        return core.Buffer.from_handle(self.address, 48)

    def array(self) -> Any:
        """numba's, whose dict names P."""
        made = numba_over(self.address, (3, 4), self.p)
        self.drv.clear_log()
        return made

    def numpy(self, source: Any, **options: Any) -> Any:
        """NumPy's array of it, which is the same memory."""
        taken = np.from_dlpack(source, **options)
        assert taken.ctypes.data == self.address
        assert np.array_equal(taken.view(np.float32).ravel(), self.data)
        assert self.drv.context_stack() == self.stack and not self.drv.gil_held_calls()
        return taken

    def waits(self) -> list[str]:
        return [
            f"{entry.name} {entry.args.get('stream', '')}".strip()
            for entry in self.drv.entries()
            if "Synchronize" in entry.name
        ]

    def races(self) -> bool:
        """Whether it is a race that the host reads now."""
        return self.drv.host_read(self.address, 48)


# --- negative controls ----


def check_control_numpy_waits_for_nobody(drv: Driver) -> None:
    """Why: NumPy takes a Buffer's managed or pinned memory bare, passes no stream, and reads."""
    for kind in ("managed", "pinned"):
        for p in KINDS:
            shared = Shared(drv, kind, p)
            shared.numpy(shared.buffer())
            assert shared.waits() == [] and shared.races(), (kind, p)


def check_control_numpy_takes_no_array_of_numba(drv: Driver) -> None:
    """Why: it has no __dlpack__; what follows works through dlshim alone."""
    for kind in ("managed", "pinned", "device"):
        shared = Shared(drv, kind, "N")
        with pytest.raises(AttributeError, match="__dlpack__"):
            np.from_dlpack(shared.array())


# --- managed memory ----


def check_managed_memory_of_cuda_core(drv: Driver) -> None:
    """Why: a Buffer does not know P, so the host waits for the whole device."""
    for p in KINDS:
        shared = Shared(drv, "managed", p)
        shared.numpy(dlshim.upgrade(shared.buffer()))
        assert shared.waits() == ["cuCtxSynchronize"] and not shared.races(), p


def check_managed_memory_whose_stream_is_named(drv: Driver) -> None:
    """Why: then the host waits for that stream and no other; objects of both libraries name it."""
    for p in KINDS:
        for library in ("numba", "cuda.core"):
            shared = Shared(drv, "managed", p)
            named = shared.P if library == "numba" else core_stream(p, "P")
            shared.numpy(dlshim.upgrade(shared.buffer(), producer_stream=named))
            (wait,) = shared.waits()
            assert wait.startswith("cuStreamSynchronize ") and not shared.races(), (p, library)


def check_managed_memory_of_numba(drv: Driver) -> None:
    """Why: the dict names P, the reader is the host, so it waits for P."""
    for p in KINDS:
        for source in (dlshim.upgrade, dlshim.from_dlpack):
            shared = Shared(drv, "managed", p)
            shared.numpy(source(shared.array()))
            assert len(shared.waits()) == 1 and not shared.races(), (p, source)


def check_a_managed_tensor_of_another_stream(drv: Driver) -> None:
    """Why: ready on S is not ready for the host; NumPy's taking of the Tensor has to wait for S."""
    shared = Shared(drv, "managed", "N")
    tensor = dlshim.from_dlpack(shared.array(), stream=stream("N", "S"))
    assert shared.waits() == [] and shared.races(), "the control: nobody has waited yet"
    shared.numpy(tensor)
    assert len(shared.waits()) == 1 and not shared.races()


def check_managed_memory_under_the_hosts_name(drv: Driver) -> None:
    """Why: device="cpu" gives the same memory under the host's device, after the same wait."""
    for p in KINDS:
        shared = Shared(drv, "managed", p)
        taken = shared.numpy(dlshim.upgrade(shared.array(), device="cpu"))
        assert taken.shape == (3, 4) and not shared.races(), p
        shared = Shared(drv, "managed", p)
        shared.numpy(dlshim.upgrade(shared.buffer()), device="cpu")
        assert not shared.races(), p


def check_managed_memory_for_a_stream(drv: Driver) -> None:
    """Why: cuda.core passes S, so an edge is enough and the host goes on, which is seen in that
    its own reading would race."""
    for p in KINDS:
        shared = Shared(drv, "managed", p)
        s = stream("N", "S")
        view = View.from_dlpack(dlshim.upgrade(shared.array()), stream_ptr=int(s))
        assert view.ptr == shared.address and view.is_device_accessible
        assert shared.waits() == [] and not drv.read(int(s), shared.address, 48), p
        assert shared.races(), p


# --- pinned memory ----


def check_pinned_memory_of_numba(drv: Driver) -> None:
    """Why: the dict names P, somebody writes there, so the host waits for P."""
    for p in KINDS:
        shared = Shared(drv, "pinned", p)
        shared.numpy(dlshim.upgrade(shared.array()))
        assert len(shared.waits()) == 1 and not shared.races(), p


def check_pinned_memory_whose_stream_is_named(drv: Driver) -> None:
    """Why: the user knows of the copy into it; that is the only one who can."""
    for p in KINDS:
        shared = Shared(drv, "pinned", p)
        shared.numpy(dlshim.upgrade(shared.buffer(), producer_stream=core_stream(p, "P")))
        assert len(shared.waits()) == 1 and not shared.races(), p


def check_pinned_memory_of_nobody(drv: Driver) -> None:
    """Why: as the guide says, nobody keeps track of copies into pinned memory: where no stream
    is named nothing is done, and it is as it is bare."""
    shared = Shared(drv, "pinned", "N")
    shared.numpy(dlshim.upgrade(shared.buffer()))
    assert drv.log() == [] or shared.waits() == []
    assert shared.races()


def check_pinned_memory_that_cuda_core_allocates(drv: Driver) -> None:
    """Why: its own resource's buffers, not only wrapped addresses, are device (3, 0)."""
    drv.reset()
    at_device(drv, 0)
    core.Device(0).set_current()
    buffer = core.LegacyPinnedMemoryResource().allocate(64)
    p = int(stream("N", "P"))
    assert not drv.write(p, int(buffer.handle), 64)
    taken = np.from_dlpack(dlshim.upgrade(buffer, producer_stream=p))
    assert taken.nbytes == 64 and taken.ctypes.data == int(buffer.handle)
    assert not drv.host_read(int(buffer.handle), 64)


# --- copies of what the host cannot read ----

STRIDED: dict[str, Callable[[Any], Any]] = {
    "all": lambda x: x,
    "rows": lambda x: x[1:3],
    "every other row": lambda x: x[::2],
    "columns": lambda x: x[:, 1:4],
    "every other column": lambda x: x[:, ::2],
    "one column": lambda x: x[:, 2],
    "upside down": lambda x: x[::-1],
    "mirrored": lambda x: x[:, ::-1],
    "both": lambda x: x[3::-2, 4::-3],
    "nothing": lambda x: x[2:2],
}


def the_copy(case: Case) -> None:
    """It was synced with P by an event, waited for, and never on L."""
    calls = case.syncs()
    recorded = [call for call in calls if call.startswith("cuEventRecord ")]
    assert len(recorded) == 1 and len(blocks(calls)) >= 1, calls
    assert "cuCtxSynchronize" not in calls
    assert not any(call.endswith(" L") for call in calls if call not in recorded), calls


def check_copies_of_views(drv: Driver) -> None:
    """Why: the values are NumPy's own of the same view, complete when the call returns, and the
    copy came after what was unfinished on P."""
    for current in (0, 1, None):
        for name, part in STRIDED.items():
            data = np.arange(20, dtype=np.int32).reshape(4, 5)
            case = Case(drv, data=data)
            at_device(drv, 0)  # numba slices with its context current
            array = part(case.array)
            at_device(drv, current)
            case.stack = drv.context_stack()
            drv.clear_log()
            taken = np.from_dlpack(dlshim.upgrade(array, device="cpu"))
            assert np.array_equal(taken, part(data)), (name, taken)
            assert taken.shape == part(data).shape and taken.flags.c_contiguous
            if taken.size:
                the_copy(case)
                assert not drv.host_read(taken.ctypes.data, taken.nbytes), name
            assert not drv.races(), (name, drv.races())
            case.check(name)


def check_copies_of_three_dimensions(drv: Driver) -> None:
    """Why: planes, rows and gaps in both are copied pitched or gathered."""
    data = np.arange(60, dtype=np.float64).reshape(3, 4, 5)
    views: list[Callable[[Any], Any]] = [
        lambda x: x[:, :, ::2],
        lambda x: x[:, ::2],
        lambda x: x[::2, ::3, 1:],
        lambda x: x[::-1, :, ::-2],
        lambda x: x[1, :, 3],
        lambda x: x[:, 1:3, 2:4],
    ]
    for number, part in enumerate(views):
        case = Case(drv, data=data)
        taken = np.from_dlpack(dlshim.upgrade(part(case.array), device="cpu"))
        assert np.array_equal(taken, part(data)), (number, taken)
        assert not drv.races(), (number, drv.races())
        case.check(number)


def check_copies_of_columns_first(drv: Driver) -> None:
    """Why: numba keeps the order of what it is given; the copy is row by row all the same."""
    for data in (np.asfortranarray(np.arange(12.0).reshape(3, 4)), np.arange(12.0).reshape(3, 4).T):
        case = Case(drv, data=data)
        assert case.array.strides == data.strides
        taken = np.from_dlpack(dlshim.upgrade(case.array, device="cpu"))
        assert np.array_equal(taken, data) and taken.flags.c_contiguous
        assert not drv.races()


def check_copies_of_every_dtype(drv: Driver) -> None:
    """Why: the bytes are what they are, whatever they stand for."""
    for dtype in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16",
                  "?"):  # fmt: skip
        data = np.arange(7).astype(dtype)
        case = Case(drv, data=data)
        taken = np.from_dlpack(dlshim.upgrade(case.array[::2], device="cpu"))
        assert taken.dtype == data.dtype and np.array_equal(taken, data[::2]), dtype


def check_every_kind_of_stream(drv: Driver) -> None:
    """Why: each kind of P is recorded in its own way; PTDS and L only in the right context."""
    for current in (0, 1, None):
        for p in KINDS:
            case = Case(drv, p, current=current)
            taken = np.from_dlpack(dlshim.upgrade(case.array, device="cpu"))
            the_copy(case)
            assert np.array_equal(taken, case.data) and not drv.races(), (p, current, drv.races())
            assert not drv.host_read(taken.ctypes.data, taken.nbytes), (p, current)
            case.check((p, current))


def check_numpy_asks_for_the_host(drv: Driver) -> None:
    """Why: NumPy 2.1's device="cpu" sends dl_device=(1, 0), for which numba cannot be asked."""
    for make in (dlshim.upgrade, dlshim.from_dlpack):
        case = Case(drv)
        source = make(case.array)
        drv.clear_log()
        taken = np.from_dlpack(source, device="cpu")
        assert np.array_equal(taken, case.data) and taken.flags.writeable
        assert not drv.races() and not drv.host_read(taken.ctypes.data, taken.nbytes)
        case.check()
        with pytest.raises(RuntimeError):
            np.from_dlpack(source)  # NumPy reads no device memory, and says so
        with pytest.raises(ValueError):
            np.from_dlpack(source, device="cpu", copy=False)


def check_a_copy_of_a_buffer(drv: Driver) -> None:
    """Why: a Buffer refuses dl_device and knows no P: the copy comes after the whole device."""
    for p in KINDS:
        case = Case(drv, p)
        with pytest.raises(BufferError):
            np.from_dlpack(case.buffer(), device="cpu")
        drv.clear_log()
        taken = np.from_dlpack(dlshim.upgrade(case.buffer(), device="cpu"))
        assert np.array_equal(taken.view(np.float32), case.data.ravel())
        assert not drv.races(), (p, drv.races())
        case.check(p)


def check_the_source_is_not_held(drv: Driver) -> None:
    """Why: the copy is complete, so the array may be written, or go, at once."""
    case = Case(drv)
    taken = np.from_dlpack(dlshim.upgrade(case.array, device="cpu"))
    drv.put(case.address, bytes(case.bytes))
    assert not case.write() and not drv.races()
    assert np.array_equal(taken, case.data)


def check_a_copy_into_numba(drv: Driver) -> None:
    """Why: host to device is the consumer's: numba copies dlshim's host memory by itself."""
    case = Case(drv)
    host = dlshim.from_dlpack(case.array, device="cpu")
    back = cuda.to_device(np.asarray(host))
    assert pointer(back) != case.address and np.array_equal(back.copy_to_host(), case.data)


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), VARIANTS))
def test_host(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
