"""What numba writes on its stream and another library reads on its own, both unmodified, is synced
when dlshim hands it on (rules S2 and S3)."""

from __future__ import annotations

from typing import Any

import pytest
from cuda_libraries.real import (
    KINDS,
    UNSYNCED,
    VARIANTS,
    Case,
    View,
    at_device,
    blocks,
    cases,
    core,
    core_stream,
    cuda,
    edge,
    np,
    pointer,
    stream,
    tvm_ffi,
)

import dlshim
from dlshim import _core
from drivers import Driver, checks, run_checks

# --- negative controls: the same exchanges where nobody syncs ----


def check_control_a_pointer_syncs_nothing(drv: Driver) -> None:
    """Why: a Buffer ignores `stream`, so bare it races wherever two streams do not sync
    themselves; were it not so, the checks below would prove nothing."""
    for p, s, case in cases(drv):
        view = case.to_core(case.buffer())
        assert view.ptr == case.address and case.syncs() == []
        assert case.read() == ((p, s) in UNSYNCED), (p, s)


def check_control_the_consumer_opts_out(drv: Driver) -> None:
    """Why: stream_ptr=-1 is the consumer's word that it needs no sync; nobody gives it any."""
    for p, s, case in cases(drv):
        View.from_cuda_array_interface(case.array, stream_ptr=-1)
        assert case.read() == ((p, s) in UNSYNCED), (p, s)


def check_control_the_library_syncs_by_itself(drv: Driver) -> None:
    """Why: cuda.core reads the dict's stream and makes its own edge: what dlshim has to match."""
    case = Case(drv)
    View.from_cuda_array_interface(case.array, stream_ptr=case.s)
    assert edge(case.syncs()) and not case.read()


# --- numba -> dlshim -> cuda.core ----


def check_numba_to_cuda_core(drv: Driver) -> None:
    """Why: numba's dict names P (version 3), so one edge is enough on every driver, and none
    where P is S."""
    for current in (0, 1, None):
        for p, s, case in cases(drv, current=current):
            view, told = case.to_core(dlshim.upgrade(case.array)), (p, s, current)
            assert view.ptr == case.address and view.device_id == 0 and not view.readonly
            assert (view.shape, view.strides, str(view.dtype)) == ((3, 4), (4, 1), "float32")
            if case.p == case.s:
                assert case.syncs() == [], told
            else:
                assert edge(case.syncs()), (told, case.syncs())
            case.check(told)
            assert not case.read(), (told, drv.races())


def check_views_with_strides(drv: Driver) -> None:
    """Why: a view's dict has another address and strides in bytes; the sync is the same."""
    views = {
        "columns": (lambda x: x[:, ::2], 0, (3, 2), (4, 2)),
        "rows": (lambda x: x[1:], 4, (2, 4), (4, 1)),
        "one row": (lambda x: x[2], 8, (4,), (1,)),
        "one column": (lambda x: x[:, 1], 1, (3,), (4,)),
        "both": (lambda x: x[::2, 1::2], 1, (2, 2), (8, 2)),
    }
    for name, (make, offset, shape, strides) in views.items():
        case = Case(drv)
        at_device(drv, 0)  # numba slices with its context current
        part = make(case.array)
        drv.clear_log()
        view = case.to_core(dlshim.upgrade(part))
        assert view.ptr == case.address + 4 * offset, name
        assert (view.shape, view.strides) == (shape, strides), name
        assert edge(case.syncs()) and not case.read(), name
        case.check(name)


def check_an_array_without_a_stream(drv: Driver) -> None:
    """Why: numba's `stream: None` says that no stream was chosen, and its copy on L may still be
    under way when it returns (pageable memory is only staged by then).  cuda.core, asked bare,
    takes None for "nothing is unfinished": a race on a stream that does not wait for L."""
    for s in KINDS:
        case = Case(drv, "L", s)
        ready = cuda.to_device(case.data)
        assert ready.__cuda_array_interface__["stream"] is None
        View.from_cuda_array_interface(ready, stream_ptr=case.s)
        assert drv.read(case.s, pointer(ready), case.bytes) == (s == "N"), s
    for s in KINDS:
        case = Case(drv, "L", s)
        ready = cuda.to_device(case.data)
        for _ in range(2):
            drv.clear_log()
            case.to_core(dlshim.upgrade(ready))
            assert case.syncs() == [] if s == "L" else edge(case.syncs()), (s, case.syncs())
            assert not drv.read(case.s, pointer(ready), case.bytes), (s, drv.races())
            case.check(s)
        cuda.synchronize()


def check_an_empty_array(drv: Driver) -> None:
    """Why: nothing can race in it: no sync, and a driver is at most asked for the device, which
    a dict with address 0 cannot tell."""
    for s in KINDS:
        case = Case(drv, "N", s, data=np.zeros((0, 3), np.float32))
        assert case.address == 0
        view = case.to_core(dlshim.upgrade(case.array))
        assert view.shape == (0, 3) and view.device_id == 0
        taken = tvm_ffi.from_dlpack(dlshim.upgrade(case.array))
        assert tuple(taken.shape) == (0, 3)
        assert set(drv.calls()) <= {"cuCtxGetDevice", "cuDeviceGet"}, drv.calls()
        case.check()


def check_dtypes(drv: Driver) -> None:
    """Why: numba's typestr has to arrive as the same dtype of DLPack."""
    for dtype in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16",
                  "?"):  # fmt: skip
        case = Case(drv, data=np.ones(5, dtype))
        assert case.to_core(dlshim.upgrade(case.array)).dtype == np.dtype(dtype)


def check_numbas_ambiguous_zero(drv: Driver) -> None:
    """Why: for its object of the default stream numba writes `stream: 0`, which the protocol
    forbids: cuda.core stops at an assertion; dlshim names the cure, and the cure works."""
    case = Case(drv)
    array = cuda.to_device(case.data, stream=cuda.default_stream())
    assert array.__cuda_array_interface__["stream"] == 0
    with pytest.raises(AssertionError):
        View.from_cuda_array_interface(array, stream_ptr=case.s)
    with pytest.raises(BufferError, match=r"'stream'\] must not be 0.*\n  .*producer_stream="):
        case.to_core(dlshim.upgrade(array))
    drv.write(1, pointer(array), case.bytes)
    drv.clear_log()
    view = case.to_core(dlshim.upgrade(array, producer_stream=cuda.default_stream()))
    assert edge(case.syncs()) and not drv.read(case.s, view.ptr, case.bytes)


# --- -> tvm-ffi ----


def check_numba_to_tvm_ffi(drv: Driver) -> None:
    """Why: tvm-ffi asks without a stream, which on CUDA means L; bare it takes no numba array."""
    for p in KINDS:
        case = Case(drv, p)
        with pytest.raises(TypeError):
            tvm_ffi.from_dlpack(case.array)
        taken = tvm_ffi.from_dlpack(dlshim.upgrade(case.array))
        assert taken.data_ptr() == case.address and tuple(taken.shape) == (3, 4)
        assert (case.syncs() == []) if p == "L" else edge(case.syncs())
        case.check(p)
        assert not case.read(1), (p, drv.races())


def check_a_stream_for_a_consumer_that_has_none(drv: Driver) -> None:
    """Why: the option `stream` says what tvm-ffi cannot; with -1 in its place it races."""
    for p, s, case in cases(drv):
        tvm_ffi.from_dlpack(dlshim.upgrade(case.array, stream=case.S))
        case.check((p, s))
        assert not case.read(), (p, s, drv.races())
        case = Case(drv, p, s)
        tvm_ffi.from_dlpack(dlshim.upgrade(case.array, stream=-1))
        assert case.syncs() == []
        assert case.read() == ((p, s) in UNSYNCED), (p, s)


# --- tvm-ffi -> ----


def of_tvm_ffi(case: Case) -> Any:
    """The same memory as a Tensor of tvm-ffi, which takes `stream` and syncs nothing."""
    return tvm_ffi.from_dlpack(dlshim.upgrade(case.array, stream=-1))


def check_tvm_ffis_stream_of_the_device(drv: Driver) -> None:
    """Why: the user has told tvm-ffi on which stream its kernels run (`use_raw_stream`); from there
    one edge is enough, and is needed."""
    for p, s, case in cases(drv):
        tensor = of_tvm_ffi(case)
        drv.clear_log()
        with tvm_ffi.use_raw_stream(tensor.device, case.p):
            case.to_core(dlshim.upgrade(tensor))
            told = (p, s, case.syncs())
            assert (case.syncs() == []) if case.p == case.s else edge(case.syncs()), told
            case.check(told)
        assert not case.read(), (told, drv.races())


def check_control_tvm_ffi_syncs_nothing(drv: Driver) -> None:
    """Why: bare, the stream is taken and ignored, whatever tvm-ffi was told."""
    for p, s, case in cases(drv):
        tensor = of_tvm_ffi(case)
        drv.clear_log()
        with tvm_ffi.use_raw_stream(tensor.device, case.p):
            case.to_core(tensor)
        assert case.syncs() == []
        assert case.read() == ((p, s) in UNSYNCED), (p, s)


def check_tvm_ffi_that_was_told_no_stream(drv: Driver) -> None:
    """Why: its answer is 0 then, which says nothing of a Tensor that came from another library."""
    for p, s, case in cases(drv):
        tensor = of_tvm_ffi(case)
        drv.clear_log()
        assert tvm_ffi.get_raw_stream(tensor.device) == 0
        case.to_core(dlshim.upgrade(tensor))
        assert whole_device(drv, case), (p, s, case.syncs())
        case.check((p, s))
        assert not case.read(), (p, s, drv.races())


# --- producers that say nothing about their stream ----


def whole_device(drv: Driver, case: Case) -> bool:
    """The sync with everything: an event of the context, or (before CUDA 12.5) a wait."""
    calls = [call.split()[0] for call in case.syncs()]
    able = drv.has("cuCtxRecordEvent")
    return calls == (["cuCtxRecordEvent", "cuStreamWaitEvent"] if able else ["cuCtxSynchronize"])


def check_a_buffer_of_cuda_core(drv: Driver) -> None:
    """Why: nobody can know the stream of a Buffer, so S waits for the whole device."""
    for p, s, case in cases(drv):
        view = case.to_core(dlshim.upgrade(case.buffer()))
        assert view.ptr == case.address and view.shape == (case.bytes,)
        assert whole_device(drv, case), (p, s, case.syncs())
        case.check((p, s))
        assert not case.read(), (p, s, drv.races())


def check_a_buffer_whose_stream_is_named(drv: Driver) -> None:
    """Why: producer_stream makes one edge of it, and the host never waits."""
    for p, s, case in cases(drv):
        for name in (case.P, core_stream(p, "P"), case.p):
            drv.clear_log()
            case.to_core(dlshim.upgrade(case.buffer(), producer_stream=name))
            if case.p == case.s:
                assert case.syncs() == [], (p, s)
            else:
                assert edge(case.syncs()), (p, s, case.syncs())
        case.check((p, s))
        assert not case.read(), (p, s, drv.races())


def check_the_other_policies(drv: Driver) -> None:
    """Why: "legacy" is right for streams that sync themselves with L and for no other, "same"
    for one stream, "error" refuses: what the guide says of them, on a real Buffer."""
    for p, s, case in cases(drv):
        case.to_core(dlshim.upgrade(case.buffer(), unknown_stream="legacy"))
        assert case.read() == (p == "N"), (p, s)
        case = Case(drv, p, s)
        case.to_core(dlshim.upgrade(case.buffer(), unknown_stream="same"))
        assert case.syncs() == [] and case.read() == ((p, s) in UNSYNCED), (p, s)
        with pytest.raises(BufferError, match="unknown_stream"):
            case.to_core(dlshim.upgrade(case.buffer(), unknown_stream="error"))


def check_a_view_of_cuda_core(drv: Driver) -> None:
    """Why: a StridedMemoryView, too, takes `stream` and syncs nothing, seen in the log of its
    bare export."""
    for p, s, case in cases(drv):
        first = View.from_cuda_array_interface(case.array, stream_ptr=-1)
        first.__dlpack__(stream=case.s, max_version=(1, 3))
        assert case.syncs() == [], "it syncs now: the row in habits.py is another"
        case.to_core(dlshim.upgrade(first))
        case.check((p, s))
        assert not case.read(), (p, s, drv.races())


def check_a_tensor_of_tvm_ffi(drv: Driver) -> None:
    """Why: tvm-ffi takes `stream` and does nothing with it, bare it races."""
    for p, s, case in cases(drv):
        tensor = tvm_ffi.from_dlpack(dlshim.upgrade(case.array, stream=-1))
        case.to_core(dlshim.upgrade(tensor))
        assert whole_device(drv, case), (p, s, case.syncs())
        case.check((p, s))
        assert not case.read(), (p, s, drv.races())
        case = Case(drv, p, s)
        case.to_core(tvm_ffi.from_dlpack(dlshim.upgrade(case.array, stream=-1)))
        assert case.read() == ((p, s) in UNSYNCED), (p, s)


# --- stream objects ----


def check_stream_objects_as_the_consumers(drv: Driver) -> None:
    """Why: numba's and cuda.core's streams answer `__cuda_stream__` with (0, handle); each does
    what its number does."""
    for p, s, case in cases(drv):
        seen = []
        for given in (case.s, case.S, core_stream(s, "S")):
            drv.clear_log()
            tvm_ffi.from_dlpack(dlshim.upgrade(case.array, stream=given))
            seen.append(case.syncs())
            drv.clear_log()
            dlshim.upgrade(case.array).__dlpack__(stream=given)
            seen.append(case.syncs())
            drv.clear_log()
            tensor = dlshim.from_dlpack(case.array, stream=given)
            seen.append(case.syncs())
            assert tensor.__cuda_array_interface__["stream"] == case.s
        assert all(each == seen[0] for each in seen), (p, s, seen)
        case.check((p, s))
        assert not case.read(), (p, s)


def check_the_default_stream_as_an_object(drv: Driver) -> None:
    """Why: numba's default stream says (0, 0); an object is no ambiguous number, it means L."""
    default = cuda.default_stream()
    assert default.__cuda_stream__() == (0, 0)
    case = Case(drv, "N", "L")
    dlshim.upgrade(case.array).__dlpack__(stream=default)
    assert edge(case.syncs()) and not case.read()
    with pytest.raises(ValueError, match="stream=0"):
        dlshim.upgrade(case.array).__dlpack__(stream=0)


def check_a_producers_stream_counts_less_than_its_protocol(drv: Driver) -> None:
    """Why: numba's dict names P itself; an option that is wrong must not undo that."""
    case = Case(drv)
    case.to_core(dlshim.upgrade(case.array, producer_stream=core.LEGACY_DEFAULT_STREAM))
    assert not case.read()


# --- what numba knows of its stream without the protocol's word ----


def version_2(array: Any, on: Any) -> Any:
    """numba's own class, on that stream, with the dict of version 2, which names none."""

    class Older(type(array)):  # type: ignore[misc]
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            given = dict(super().__cuda_array_interface__)
            del given["stream"]
            return {**given, "version": 2}

    return Older(array.shape, array.strides, array.dtype, stream=on, gpu_data=array.gpu_data)


def check_numbas_row(drv: Driver) -> None:
    """Why: without the protocol's word P is learned at the attribute `stream`, a Stream or, for
    the default, the number 0."""
    for p, s, case in cases(drv):
        array = version_2(case.array, case.P)
        assert _core._plan(array)["library"] == "numba"
        drv.clear_log()
        case.to_core(dlshim.upgrade(array))
        assert case.syncs() == [] if case.p == case.s else edge(case.syncs()), (p, s)
        case.check((p, s))
        assert not case.read(), (p, s, drv.races())
    for default in (0, cuda.default_stream()):
        case = Case(drv, "L", "N")
        array = version_2(case.array, default)
        drv.clear_log()
        case.to_core(dlshim.upgrade(array))
        assert edge(case.syncs()) and "cuEventRecord L" in case.syncs()
        assert not case.read()


# --- -1 ----


def check_minus_one_makes_no_call(drv: Driver) -> None:
    """Why: -1 is the consumer's word that it needs no sync, so not even the driver is asked."""
    for p in KINDS:
        case = Case(drv, p)
        tensor = dlshim.from_dlpack(case.array, stream=-1)
        buffer = case.buffer()
        assert buffer.__dlpack_device__() == (2, 0)  # cuda.core asks the driver, once
        made = (dlshim.upgrade(buffer), tensor, dlshim.upgrade(tensor))
        for source in made:
            drv.clear_log()
            case.to_core(source, -1)
            assert drv.log() == [], (p, source, drv.log())
        drv.clear_log()
        named = dlshim.upgrade(case.array, assume_device="cuda:0")
        named.__dlpack__(stream=-1, max_version=(1, 3))
        assert drv.log() == [], (p, drv.log())
        case.check(p)


def check_minus_one_and_the_device_of_a_dict(drv: Driver) -> None:
    """Why: a dict names no device, so whose the address is may be asked, and nothing more."""
    case = Case(drv)
    case.to_core(dlshim.upgrade(case.array), -1)
    asked = {"cuPointerGetAttributes", "cuThreadExchangeStreamCaptureMode"}
    assert set(drv.calls()) <= asked, drv.calls()


def check_minus_one_with_a_device_named(drv: Driver) -> None:
    """Why: assume_device says whose the address is, so nobody need be asked; cuda.core asks for
    the device first."""
    case = Case(drv)
    case.to_core(dlshim.upgrade(case.array, assume_device="cuda:0"), -1)
    assert drv.log() == [], drv.log()


# --- a Tensor between them ----


def check_a_tensor_between(drv: Driver) -> None:
    """Why: a Tensor remembers the stream on which it was made ready, and syncs from there."""
    for p, middle, case in cases(drv):
        tensor = dlshim.from_dlpack(case.array, stream=case.S)
        assert not case.read(), (p, middle)
        drv.clear_log()
        case.to_core(tensor)
        assert case.syncs() == [], "ready there already"
        last = int(stream("N", "last"))
        drv.clear_log()
        case.to_core(tensor, last)
        assert edge(case.syncs()), (p, middle, case.syncs())
        case.check((p, middle))
        assert not case.read(last), (p, middle, drv.races())


# --- -> numba ----


def check_numba_takes_a_tensor(drv: Driver) -> None:
    """Why: numba reads the Tensor's dict and waits for the stream in it, as it does with its
    own, so that all of its streams may read."""
    for p, s, case in cases(drv):
        tensor = dlshim.from_dlpack(case.array, stream=case.S)
        at_device(drv, 0)
        drv.clear_log()
        taken = cuda.as_cuda_array(tensor)
        assert pointer(taken) == case.address and taken.shape == (3, 4)
        assert len(blocks(case.syncs())) == 1 == len(case.syncs()), (p, s)
        assert not case.host_read() and not case.read(), (p, s)
        assert np.array_equal(taken.copy_to_host(), case.data)


def check_numba_takes_a_tensor_without_waiting(drv: Driver) -> None:
    """Why: with sync=False numba goes on in the dict's stream; a stream that is not led there
    races (the control)."""
    for p in KINDS:
        case = Case(drv, p)
        taken = cuda.as_cuda_array(dlshim.from_dlpack(case.array, stream=case.S), sync=False)
        assert not blocks(case.syncs()) and int(taken.stream) == case.s
        assert not case.read(int(taken.stream)), p
        assert case.host_read(), "nobody waited"


def check_numba_takes_what_is_not_synced(drv: Driver) -> None:
    """Why: after -1 nobody knows P, and the protocol cannot say that: the device's work is
    led into L, which the dict names."""
    for p in KINDS:
        case = Case(drv, p)
        tensor = dlshim.from_dlpack(case.array, stream=-1)
        assert case.syncs() == []
        taken = cuda.as_cuda_array(tensor)
        assert taken.__cuda_array_interface__["stream"] == 1
        assert not case.host_read() and not case.read(), (p, drv.races())


def check_numba_takes_kernel_arguments_by_dlpack(drv: Driver) -> None:
    """Why: numba types an argument with stream -1 and views it at launch with its stream, by way
    of cuda.core: the first must cost nothing, the second must sync."""
    from numba.cuda.cudadrv.devicearray import _to_strided_memory_view
    from numba.cuda.typing.typeof import typeof

    for p, s, case in cases(drv):
        source = dlshim.upgrade(case.array)
        assert str(typeof(source)) == "array(float32, 2d, C)"
        assert case.syncs() == [], (p, s)
        view, copied = _to_strided_memory_view(source, stream=case.S)
        assert view.ptr == case.address and not copied
        case.check((p, s))
        assert not case.read(), (p, s, drv.races())


def check_cuda_core_takes_a_tensors_dict(drv: Driver) -> None:
    """Why: the dict of a Tensor is of version 3 and names its stream, so cuda.core's own edge
    starts at the right one."""
    for p, s, case in cases(drv):
        middle = stream("N", "middle")
        tensor = dlshim.from_dlpack(case.array, stream=middle)
        drv.clear_log()
        View.from_cuda_array_interface(tensor, stream_ptr=case.s)
        assert edge(case.syncs()) and not case.read(), (p, s, drv.races())


# --- captures ----


def check_captures(drv: Driver) -> None:
    """Why: within one stream there is nothing to do; an edge into or out of a capture would break
    it, so it is refused and the capture goes on."""
    for p, captured in (("B", "P"), ("N", "P"), ("B", "S"), ("N", "S")):
        case = Case(drv, p)
        at = case.p if captured == "P" else case.s
        drv.capture_begin(at)
        with pytest.raises(BufferError, match="captur"):
            case.to_core(dlshim.upgrade(case.array))
        case.to_core(dlshim.upgrade(case.array), -1)
        if captured == "P":
            case.to_core(dlshim.upgrade(case.array), case.p)
        assert drv.capture_state(at) == "active" and not drv.marks(), (p, captured, drv.marks())
        drv.capture_end(at)


# --- the other device ----


def check_an_array_of_another_device(drv: Driver) -> None:
    """Why: the dict names no device, the driver knows it from the address."""
    for current in (0, 1, None):
        drv.reset()
        at_device(drv, 1)
        with cuda.gpus[1]:
            at_device(drv, 1)
            p, s = drv.stream_new(1, False, name="P"), drv.stream_new(1, False, name="S")
            array = cuda.to_device(np.arange(6, dtype="f4"), stream=cuda.external_stream(p))
        address = pointer(array)
        assert not drv.write(p, address, 24)
        at_device(drv, current)
        stack = drv.context_stack()
        view = View.from_dlpack(dlshim.upgrade(array), stream_ptr=s)
        assert view.device_id == 1 and view.ptr == address
        assert not drv.read(s, address, 24), drv.races()
        assert drv.context_stack() == stack


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), VARIANTS))
def test_sync(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
