"""The doubles do to a vendor's driver what they say real libraries do; dlshim takes no part."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from doubles import capsules as caps
from doubles import device as fake
from doubles import streams, vendors
from drivers import ALL_LIVE, Driver, checks, run_checks, run_with_driver

OMIT = object()


def syncs(drv: Any) -> list[str]:
    """What the producer called, contexts, devices and questions left out."""
    asks = ("cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuCtxGetDevice")
    asks += ("hipGetDevice", "hipSetDevice")
    return [name for name in drv.calls(by=fake.PRODUCER) if name not in asks]


def export(x: Any, stream: Any = OMIT, **keywords: Any) -> caps.Import:
    if stream is not OMIT:
        keywords["stream"] = stream
    return caps.take(x.__dlpack__(**keywords))


def setting(drv: Any, cls: type, device: int = 0, **options: Any) -> tuple[Any, int]:
    """A producer whose last kernel is still running on P, and a consumer's stream."""
    drv.reset()
    drv.make_current(device)
    p = drv.stream_new(device, False, name="P")
    s = drv.stream_new(device, False, name="S")
    x = cls(drv, p, device=device, **options)
    assert not x.write()
    return x, s


def outcome(drv: Any, cls: type, stream: Any, **options: Any) -> str:
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
    did, vendor = syncs(drv), vendors.of(drv)
    ways = {(): "nothing", tuple(vendor.edge): "edge", (vendor.stream_sync,): "sync"}
    what, legacy = ways[tuple(did)], vendor.legacy
    reader = {OMIT: legacy, None: legacy, -1: s, 0: legacy}.get(given, given)
    if vendor.is_hip and given in (1, 2):
        reader = s  # 1 and 2 are no streams there
    racy = drv.read(int(reader), x.address, context=x.context)
    assert racy == (what == "nothing"), (stream, what, drv.log())
    assert drv.gil_held_calls() == {}
    where = vendor.device_of(x.kind, 0)
    assert taken.view.device == where and taken.values() == x.values()
    assert not hasattr(x, "__dlpack_device__") or tuple(x.__dlpack_device__()) == where
    taken.release()
    assert x.deletions == 1
    return what


#: What each library does with omitted, None, -1, 0, 1, 2 and a handle (read in their
#: sources: torch 2.8 takes 0 and 2 for handles, on ROCm 1 and 2, which are not tried).
CUDA = {
    "PinnedBuffer": "nothing nothing nothing nothing nothing nothing nothing",
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
ROCM = {
    "TorchLike": "nothing edge nothing edge AssertionError AssertionError edge",
    "Torch29": "edge edge nothing edge AssertionError AssertionError edge",
    "TorchOld": "nothing nothing nothing edge - - edge",
    "CupyRocm": "edge edge nothing edge ValueError ValueError edge",
    "Cupy13Rocm": "edge edge nothing edge ValueError ValueError edge",
    "Careful": "edge edge nothing edge TypeError TypeError edge",
    "Silent": "nothing nothing nothing nothing nothing nothing nothing",
    "PinnedBuffer": "nothing nothing nothing nothing nothing nothing nothing",
    "NoKw": "nothing TypeError TypeError TypeError TypeError TypeError TypeError",
}
ARGUMENTS = (OMIT, None, -1, 0, 1, 2, "S")


def table(drv: Any) -> dict[str, str]:
    return ROCM if vendors.of(drv).is_hip else CUDA


def cupys(drv: Any) -> tuple[Any, Any]:
    """CuPy, and one of the releases that took the keyword `stream` alone."""
    hip = vendors.of(drv).is_hip
    return (fake.CupyRocm, fake.Cupy13Rocm) if hip else (fake.CupyLike, fake.Cupy13)


def careful(drv: Any) -> Any:
    """Records on its array's own device."""
    return fake.Careful if vendors.of(drv).is_hip else fake.WarpLike


def check_what_each_does_with_each_stream(drv: Any) -> None:
    for name, cells in table(drv).items():
        cls = getattr(fake, name)
        for argument, wanted in zip(ARGUMENTS, cells.split(), strict=True):
            if wanted != "-":
                found = outcome(drv, cls, argument)
                assert found == wanted, (name, argument, found, wanted)


def check_what_is_no_stream_at_all(drv: Any) -> None:
    wrong: dict[str, dict[Any, str]] = {
        "TorchLike": {True: "TypeError", "x": "TypeError", 7.5: "TypeError"},
        "TorchOld": {True: "TypeError", "x": "TypeError"},
    }
    if vendors.of(drv).is_hip:
        wrong |= {
            "CupyRocm": {True: "ValueError", "x": "ValueError", -2: "ValueError"},
            "Careful": {"x": "TypeError", -2: "TypeError"},
        }
    else:
        wrong |= {
            "CupyLike": {True: "edge", "x": "ValueError", -2: "ValueError"},
            "WarpLike": {"x": "TypeError", -2: "TypeError"},
            "JaxLike": {"x": "TypeError"},
        }
    for name, cases in wrong.items():
        for argument, wanted in cases.items():
            assert outcome(drv, getattr(fake, name), argument) == wanted, (name, argument)


def check_no_edge_to_the_stream_itself(drv: Any) -> None:
    cupy, _ = cupys(drv)
    for cls in (fake.TorchLike, fake.TorchOld, cupy, careful(drv)):
        x, _ = setting(drv, cls)
        export(x, x.stream).release()
        assert syncs(drv) == [], cls
    for cls in (fake.TorchLike, cupy):
        for given in (None, vendors.of(drv).legacy):
            drv.reset()
            drv.make_current(0)
            export(cls(drv), given).release()
            assert syncs(drv) == [], cls


def check_the_log_tells_which_streams(drv: Any) -> None:
    x, s = setting(drv, careful(drv))
    export(x, s).release()
    record, wait = (e for e in drv.entries() if e.name in vendors.of(drv).edge[1:3])
    assert (record.args["stream"], wait.args["stream"]) == ("P", "S")
    assert record.by == wait.by == fake.PRODUCER
    assert drv.log(by="") == []


def check_another_device_is_current(drv: Any) -> None:
    """torch refuses; older torch and CuPy record on the wrong stream; others get it right."""
    right = [careful(drv)] if vendors.of(drv).is_hip else [fake.WarpLike, fake.JaxLike]
    for cls in (fake.TorchOld, *cupys(drv), *right):
        x, s = setting(drv, cls, device=1)
        drv.make_current(0)
        here = drv.now_current()
        export(x, s).release()
        assert syncs(drv) == vendors.of(drv).edge and drv.now_current() == here
        assert drv.read(s, x.address) == (cls not in right), cls
    for cls in (fake.TorchLike, fake.Torch29):
        x, s = setting(drv, cls, device=1)
        for current in vendors.of(drv).currents:
            drv.make_current(current)
            for stream in (OMIT, None, -1, s):
                try:
                    export(x, stream).release()
                except BufferError as refusal:
                    told = str(refusal)
                    assert current != 1 and "Expected: 1. Current device: 0." in told
                else:
                    assert current == 1
        assert not drv.read(s, x.address)


def check_what_is_current_is_left_as_it_was(drv: Any) -> None:
    for name in table(drv):
        if name == "NoKw":
            continue
        x, s = setting(drv, getattr(fake, name))
        for current in (None, 0):
            drv.make_current(current)
            here = drv.now_current()
            export(x, None).release()
            assert drv.now_current() == here, name
        before = drv.live_events()
        drv.fail_next(vendors.of(drv).record, 700)
        if name not in ("Silent", "PinnedBuffer", "TensorFlowLike"):
            with pytest.raises(fake.DriverFailure):
                export(x, s)
        assert drv.live_events() == before and drv.now_current() == here, name


def check_generations(drv: Any) -> None:
    cupy, old_cupy = cupys(drv)
    versions = {fake.TorchLike: (1, 3), fake.Torch29: (1, 3), cupy: (1, 0), fake.Silent: (1, 0)}
    for cls in (*versions, fake.JaxLike, fake.TensorFlowLike):
        x, _ = setting(drv, cls)
        taken = export(x, None, max_version=(1, 0))
        assert taken.view.version == versions.get(cls), cls
        taken.release()
    for cls in (fake.TorchOld, old_cupy, careful(drv), fake.NoKw):
        x, _ = setting(drv, cls)
        with pytest.raises(TypeError):
            export(x, max_version=(1, 0))
        assert x.keywords == [{"max_version": (1, 0)}]


def check_positional_streams(drv: Any) -> None:
    for cls, works in ((fake.TorchOld, True), (cupys(drv)[0], False)):
        x, s = setting(drv, cls)
        if works:
            caps.take(x.__dlpack__(s)).release()
            assert x.keywords == [{"stream": s}]
        else:
            with pytest.raises(TypeError):
                x.__dlpack__(s)


def check_copies_to_the_host(drv: Any) -> None:
    cupy, _ = cupys(drv)
    for cls, flags in ((fake.TorchLike, 0), (cupy, caps.IS_COPIED), (fake.JaxLike, None)):
        x, _ = setting(drv, cls, shape=(2, 3), strides=(1, 2))
        taken = export(x, None, max_version=(1, 0), dl_device=(1, 0))
        assert taken.view.device == (1, 0) and taken.flags == flags
        assert taken.values() == x.values() and not drv.races()
        assert syncs(drv)[-2:] == [vendors.of(drv).to_host, vendors.of(drv).stream_sync]
        taken.release()
        with pytest.raises((ValueError, BufferError)):
            export(x, None, dl_device=(1, 0), copy=False)
    x, _ = setting(drv, fake.Silent)
    with pytest.raises(BufferError):
        export(x, dl_device=(1, 0))


@checks.on_cuda
def check_managed_memory(drv: Any) -> None:
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


def check_pinned_memory(drv: Any) -> None:
    x, _ = setting(drv, fake.PinnedBuffer)
    with export(x, 5) as taken:
        where = vendors.of(drv).device_of("pinned", 0)
        assert taken.view.device == x.__dlpack_device__() == where
        assert drv.host_read(x.address)
    if vendors.of(drv).is_hip:
        return  # of torch on ROCm this is not modelled
    x, s = setting(drv, fake.TorchPinned)
    assert x.__dlpack_device__() == (3, 0)
    with export(x, max_version=(1, 0)) as taken:
        assert taken.view.device == (1, 0)
    with pytest.raises(AssertionError):
        export(x, s)


def check_host_arrays_bear_no_stream(drv: Any) -> None:
    for cls, error in ((fake.NumPyLike, RuntimeError), (fake.PyArrowLike, NotImplementedError)):
        export(cls(), None).release()
        for stream in (-1, 1):
            with pytest.raises(error):
                export(cls(), stream)
    assert drv.log() == []


def check_functions_and_methods_that_give_capsules(drv: Any) -> None:
    for cls, call in ((fake.RawFn, "__call__"), (fake.ToDlpack, "toDlpack")):
        x, s = setting(drv, cls)
        taken = caps.take(getattr(x, call)())
        assert taken.view.device == vendors.of(drv).device_of("device", 0) and syncs(drv) == []
        assert drv.read(s, x.address)
        assert not hasattr(x, "__dlpack__")
        taken.release()
        assert x.deletions == 1


def check_an_allocator_that_uses_memory_again(drv: Any) -> None:
    """The consumer reads and gives back; the producer's next kernel is already on its way."""
    wait: list[Callable[[Any, Any, int], object]] = [
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


def check_cuda_array_interfaces(drv: Any) -> None:
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
        assert fake.Cai3(drv, entry=entry).__cuda_array_interface__["stream"] == entry
    assert "stream" not in fake.Cai3(drv, entry=drop).__cuda_array_interface__
    assert fake.Cai2(drv, shape=(0, 3)).__cuda_array_interface__["data"] == (0, False)


@checks.on_hip
def check_cupy_has_no_interface_on_rocm(drv: Any) -> None:
    for cls in cupys(drv):
        assert not hasattr(cls(drv), "__cuda_array_interface__")
    assert fake.Cai3(drv).__cuda_array_interface__["stream"] == 1, "0 is not allowed there"


def check_a_lazy_pointer(drv: Any) -> None:
    x, _ = setting(drv, fake.CudfLike)
    pair = x.__cuda_array_interface__["data"]
    assert not isinstance(pair, tuple) and x.asked == []
    assert (pair[0], pair[1]) == (x.address, False) and x.asked == [0, 1]


@checks.on_cuda
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


def check_real_names(drv: Any) -> None:
    for name in (*table(drv), "TorchPinned", "CupyManaged"):
        cls = getattr(fake, name)
        if cls.LIBRARY[0]:
            real = fake.named(cls)
            assert (real.__module__, real.__qualname__) == cls.LIBRARY
            assert real is fake.named(cls) and isinstance(real(drv), cls)


def check_stream_objects(drv: Any) -> None:
    for handle in (0, 1, 1 << 40):
        for name, stream in streams.forms(handle).items():
            protocol = getattr(stream, "__cuda_stream__", None)
            if protocol is not None:
                assert (protocol() if callable(protocol) else protocol) == (0, handle), name
            names = ("cuda_stream", "ptr", "handle", "native_handle")
            found = [getattr(stream, a, None) for a in names]
            assert protocol is not None or any(value is not None for value in found) or not handle


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ALL_LIVE))
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
