"""The device doubles do to the driver what they say real libraries do; dlshim takes no part."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from doubles import capsules as caps
from doubles import device as fake
from doubles import streams
from drivers import Driver, checks, run_checks, run_with_driver

LIVE = ("9.2", "12.2", "12.5", "13.0")
EDGE = ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy_v2"]
OMIT = object()


def syncs(drv: Driver) -> list[str]:
    """What the producer called, contexts and questions left out."""
    asks = ("cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuCtxGetDevice")
    return [name for name in drv.calls(by=fake.PRODUCER) if name not in asks]


def export(x: Any, stream: Any = OMIT, **keywords: Any) -> caps.Import:
    if stream is not OMIT:
        keywords["stream"] = stream
    return caps.take(x.__dlpack__(**keywords))


def setting(drv: Driver, cls: type, device: int = 0, **options: Any) -> tuple[Any, int]:
    """A producer whose last kernel is still running on P, and a consumer's stream."""
    drv.reset()
    drv.set_current(drv.context(device))
    p = drv.stream_new(device, False, name="P")
    s = drv.stream_new(device, False, name="S")
    x = cls(drv, p, device=device, **options)
    assert not x.write()
    return x, s


def outcome(drv: Driver, cls: type, stream: Any, **options: Any) -> str:
    """ "edge", "sync", "nothing", or the exception's name; and never a lie about the sync."""
    x, s = setting(drv, cls, **options)
    given = s if stream == "S" else stream
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            taken = export(x, given)
    except Exception as refusal:
        assert syncs(drv) == []
        return type(refusal).__name__
    did = syncs(drv)
    what = {(): "nothing", tuple(EDGE): "edge", ("cuStreamSynchronize",): "sync"}[tuple(did)]
    reader = {OMIT: 1, None: 1, -1: s, 0: 1}.get(given, given)
    racy = drv.read(int(reader), x.address, context=x.context)
    assert racy == (what == "nothing"), (stream, what, drv.log())
    assert drv.gil_held_calls() == {}
    assert taken.view.device == (2, 0) and taken.values() == x.values()
    taken.release()
    assert x.deletions == 1
    return what


#: What each library does with omitted, None, -1, 0, 1, 2 and a handle (read in their
#: sources: torch 2.8 takes 0 and 2 for handles).
TABLE = {
    "TorchLike": "nothing edge nothing AssertionError edge BufferError edge",
    "Torch29": "edge edge nothing AssertionError edge BufferError edge",
    "TorchOld": "nothing nothing nothing edge edge edge edge",
    "CupyLike": "edge edge nothing edge edge edge edge",
    "Cupy13": "edge edge nothing edge edge edge edge",
    "WarpLike": "edge edge nothing edge edge edge edge",
    "JaxLike": "sync sync - edge edge edge edge",
    "Silent": "nothing nothing nothing nothing nothing nothing nothing",
    "TensorFlowLike": "sync sync RuntimeError RuntimeError RuntimeError RuntimeError RuntimeError",
    "NoKw": "nothing TypeError TypeError TypeError TypeError TypeError TypeError",
}
ARGUMENTS = (OMIT, None, -1, 0, 1, 2, "S")


def check_what_each_does_with_each_stream(drv: Driver) -> None:
    for name, cells in TABLE.items():
        cls = getattr(fake, name)
        for argument, wanted in zip(ARGUMENTS, cells.split(), strict=True):
            if wanted != "-":
                found = outcome(drv, cls, argument)
                assert found == wanted, (name, argument, found, wanted)


def check_what_is_no_stream_at_all(drv: Driver) -> None:
    wrong = {
        "TorchLike": {True: "TypeError", "x": "TypeError", 7.5: "TypeError"},
        "TorchOld": {True: "TypeError", "x": "TypeError"},
        "CupyLike": {True: "edge", "x": "ValueError", -2: "ValueError"},
        "WarpLike": {"x": "TypeError", -2: "TypeError"},
        "JaxLike": {"x": "TypeError"},
    }
    for name, cases in wrong.items():
        for argument, wanted in cases.items():
            assert outcome(drv, getattr(fake, name), argument) == wanted, (name, argument)


def check_no_edge_to_the_stream_itself(drv: Driver) -> None:
    for cls in (fake.TorchLike, fake.TorchOld, fake.CupyLike, fake.WarpLike):
        x, _ = setting(drv, cls)
        export(x, x.stream).release()
        assert syncs(drv) == [], cls
    for cls in (fake.TorchLike, fake.CupyLike):
        drv.reset()
        drv.set_current(drv.context(0))
        export(cls(drv, 1), None if cls is fake.CupyLike else 1).release()
        assert syncs(drv) == [], cls


def check_the_log_tells_which_streams(drv: Driver) -> None:
    x, s = setting(drv, fake.WarpLike)
    export(x, s).release()
    record, wait = (entry for entry in drv.entries() if entry.name in EDGE[1:3])
    assert (record.args["stream"], wait.args["stream"]) == ("P", "S")
    assert record.by == wait.by == fake.PRODUCER
    assert drv.log(by="") == []


def check_another_device_is_current(drv: Driver) -> None:
    """torch refuses; older torch and CuPy record on the wrong stream; Warp and JAX get it right."""
    for cls, racy in (
        (fake.TorchOld, True),
        (fake.CupyLike, True),
        (fake.Cupy13, True),
        (fake.WarpLike, False),
        (fake.JaxLike, False),
    ):
        x, s = setting(drv, cls, device=1)
        drv.set_current(drv.context(0))
        export(x, s).release()
        assert syncs(drv) == EDGE
        assert drv.read(s, x.address) == racy, cls
    for cls in (fake.TorchLike, fake.Torch29):
        x, s = setting(drv, cls, device=1)
        for current, refused in ((drv.context(0), True), (None, True), (drv.context(1), False)):
            drv.set_current(current)
            for stream in (OMIT, None, -1, s):
                try:
                    export(x, stream).release()
                except BufferError as refusal:
                    assert refused and "Expected: 1. Current device: 0." in str(refusal)
                else:
                    assert not refused


def check_the_stack_is_left_as_it_was(drv: Driver) -> None:
    for name in TABLE:
        if name == "NoKw":
            continue
        x, s = setting(drv, getattr(fake, name))
        for current in (None, drv.context(0)):
            drv.set_current(current)
            before = drv.context_stack()
            export(x, None).release()
            assert drv.context_stack() == before, name
        before = drv.live_events()
        drv.fail_next("cuEventRecord", 700)
        if name not in ("Silent", "TensorFlowLike"):
            with pytest.raises(fake.DriverFailure):
                export(x, s)
        assert drv.live_events() == before and drv.context_stack() == (
            drv.context_number(x.context),
        )


def check_generations(drv: Driver) -> None:
    versions = {"TorchLike": (1, 3), "Torch29": (1, 3), "CupyLike": (1, 0), "Silent": (1, 0)}
    for name in ("TorchLike", "Torch29", "CupyLike", "JaxLike", "Silent", "TensorFlowLike"):
        x, _ = setting(drv, getattr(fake, name))
        taken = export(x, None, max_version=(1, 0))
        assert taken.view.version == versions.get(name), name
        taken.release()
    for cls in (fake.TorchOld, fake.Cupy13, fake.WarpLike, fake.NoKw):
        x, _ = setting(drv, cls)
        with pytest.raises(TypeError):
            export(x, max_version=(1, 0))
        assert x.keywords == [{"max_version": (1, 0)}]


def check_positional_streams(drv: Driver) -> None:
    for cls, works in ((fake.TorchOld, True), (fake.WarpLike, True), (fake.CupyLike, False)):
        x, s = setting(drv, cls)
        if works:
            caps.take(x.__dlpack__(s)).release()
            assert x.keywords == [{"stream": s}]
        else:
            with pytest.raises(TypeError):
                x.__dlpack__(s)


def check_copies_to_the_host(drv: Driver) -> None:
    for cls, flags in ((fake.TorchLike, 0), (fake.CupyLike, caps.IS_COPIED), (fake.JaxLike, None)):
        x, _ = setting(drv, cls, shape=(2, 3), strides=(1, 2))
        taken = export(x, None, max_version=(1, 0), dl_device=(1, 0))
        assert taken.view.device == (1, 0) and taken.flags == flags
        assert taken.values() == x.values() and not drv.races()
        assert "cuMemcpyDtoHAsync_v2" in syncs(drv)
        taken.release()
        with pytest.raises((ValueError, BufferError)):
            export(x, None, dl_device=(1, 0), copy=False)
    x, _ = setting(drv, fake.Silent)
    with pytest.raises(BufferError):
        export(x, dl_device=(1, 0))


def check_managed_memory(drv: Driver) -> None:
    x, _ = setting(drv, fake.CupyManaged)
    taken = export(x, None, max_version=(1, 0))
    assert taken.view.device == x.__dlpack_device__() == (13, 0)
    assert drv.host_read(x.address), "an edge to L is nothing to the host"
    taken.release()
    x, _ = setting(drv, fake.CupyManaged)
    taken = export(x, None, max_version=(1, 0), dl_device=(1, 0), copy=False)
    assert taken.view.device == (13, 0) and taken.view.data == x.address
    assert not drv.host_read(x.address)
    taken.release()


def check_pinned_memory(drv: Driver) -> None:
    x, _ = setting(drv, fake.PinnedBuffer)
    with export(x, 5) as taken:
        assert taken.view.device == x.__dlpack_device__() == (3, 0)
        assert drv.host_read(x.address)
    x, s = setting(drv, fake.TorchPinned)
    assert x.__dlpack_device__() == (3, 0)
    with export(x, max_version=(1, 0)) as taken:
        assert taken.view.device == (1, 0)
    with pytest.raises(AssertionError):
        export(x, s)


def check_host_arrays_bear_no_stream(drv: Driver) -> None:
    for cls, error in ((fake.NumPyLike, RuntimeError), (fake.PyArrowLike, NotImplementedError)):
        export(cls(), None).release()
        for stream in (-1, 1):
            with pytest.raises(error):
                export(cls(), stream)
    assert drv.log() == []


def check_functions_and_methods_that_give_capsules(drv: Driver) -> None:
    for cls, call in ((fake.RawFn, "__call__"), (fake.ToDlpack, "toDlpack")):
        x, s = setting(drv, cls)
        taken = caps.take(getattr(x, call)())
        assert taken.view.device == (2, 0) and syncs(drv) == []
        assert drv.read(s, x.address)
        assert not hasattr(x, "__dlpack__")
        taken.release()
        assert x.deletions == 1


def check_an_allocator_that_uses_memory_again(drv: Driver) -> None:
    """The consumer reads and gives back; the producer's next kernel is already on its way."""
    wait: list[Callable[[Driver, Any, int], object]] = [
        lambda drv, x, s: None,
        lambda drv, x, s: x.edge(s, x.stream),
    ]
    for k, action in enumerate(wait):
        x, s = setting(drv, fake.Silent, rewrites=True)
        x.edge(x.stream, s)
        taken = export(x, s)
        assert not drv.read(s, x.address)
        action(drv, x, s)
        taken.release()
        assert bool(drv.races()) == (k == 0)


def check_cuda_array_interfaces(drv: Driver) -> None:
    drop = fake.Cai.DROP
    for cls, version, keys in (
        (fake.Cai0, 0, set()),
        (fake.Cai1, 1, {"mask"}),
        (fake.Cai2, 2, set()),
        (fake.Cai3, 3, {"stream"}),
    ):
        x, s = setting(drv, cls)
        found = x.__cuda_array_interface__
        assert set(found) == {"shape", "typestr", "data", "strides", "version"} | keys
        assert found["version"] == version and found["data"] == (x.address, False)
        assert found.get("stream", x.stream) == x.stream
        assert drv.log() == [] and drv.read(s, x.address), "the dict syncs nothing"
        assert x.times_asked == 1
    for entry in (None, 0, 1, 2, 77):
        assert fake.Cai3(drv, 1, entry=entry).__cuda_array_interface__["stream"] == entry
    assert "stream" not in fake.Cai3(drv, 1, entry=drop).__cuda_array_interface__
    assert fake.Cai2(drv, 1, shape=(0, 3)).__cuda_array_interface__["data"] == (0, False)


def check_a_lazy_pointer(drv: Driver) -> None:
    x, _ = setting(drv, fake.CudfLike)
    pair = x.__cuda_array_interface__["data"]
    assert not isinstance(pair, tuple) and x.asked == []
    assert (pair[0], pair[1]) == (x.address, False) and x.asked == [0, 1]


def check_other_contexts_and_kinds(drv: Driver) -> None:
    drv.reset()
    context = drv.context_new(1)
    p = drv.stream_new(context=context, name="P")
    s = drv.stream_new(1, False, name="S")
    for kind, expected in (("device", 2), ("pool", 2), ("managed", 13), ("pinned", 3)):
        x = fake.WarpLike(drv, p, device=1, context=context, kind=kind)
        assert not x.write()
        with export(x, s) as taken:
            assert taken.view.device == (expected, 0 if kind == "pinned" else 1)
            assert not drv.read(s, x.address)


def check_real_names(drv: Driver) -> None:
    for name in (*TABLE, "PinnedBuffer", "TorchPinned", "CupyManaged"):
        cls = getattr(fake, name)
        if cls.LIBRARY[0]:
            real = fake.named(cls)
            assert (real.__module__, real.__qualname__) == cls.LIBRARY
            assert real is fake.named(cls) and isinstance(real(drv, 1), cls)


def check_stream_objects(drv: Driver) -> None:
    for handle in (0, 1, 1 << 40):
        for name, stream in streams.forms(handle).items():
            protocol = getattr(stream, "__cuda_stream__", None)
            if protocol is not None:
                assert (protocol() if callable(protocol) else protocol) == (0, handle), name
            names = ("cuda_stream", "ptr", "handle", "native_handle")
            found = [getattr(stream, a, None) for a in names]
            assert protocol is not None or any(value is not None for value in found) or not handle


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), LIVE))
def test_doubles(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]


def test_jax_hands_minus_one_to_the_driver() -> None:
    code = """
        from doubles.device import JaxLike
        drv.reset()
        JaxLike(drv, 1).__dlpack__(stream=-1)
    """
    run_with_driver("13.0", code, returncode=-6)
