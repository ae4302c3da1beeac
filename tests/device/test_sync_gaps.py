"""Orderings that were missing once, captures that were broken, copies that were not made: each
found by reading the code against the reference on streams and the design, not by the matrix."""

from __future__ import annotations

import contextlib
import gc
import itertools
import weakref
from typing import Any

import pytest

import dlshim
from device.libraries import CUDA, CurrentTable
from device.scene import Scene
from dlshim import _core
from doubles import capsules as caps
from doubles import device as fake
from doubles import producers, vendors
from doubles.streams import Index
from drivers import ALL_LIVE, CUDA_LIVE, Driver, checks, run_checks

CAPTURES = CUDA_LIVE[1:]
CAPTURE_REFUSED = "this export would break it"
GUARDS = CUDA_LIVE[2:]


def fresh(base: type, **members: Any) -> type:
    """A type that nobody has met."""
    return type(base.__name__, (base,), members)


def here(drv: Any) -> tuple[int, int]:
    """The device on which a scene's arrays lie."""
    return vendors.of(drv).device_of("device", 0)


def device_of(capsule: Any) -> tuple[int, int]:
    return _core._peek(capsule)["device"]


# --- the word of the object and that of its tensor (N5: the tensor decides) ---------------


def check_an_object_that_says_pinned_and_gives_device_memory(drv: Any) -> None:
    vendor = vendors.of(drv)
    for _ in range(2):
        scene = Scene(drv)
        mistaken = fresh(fake.CupyLike, __dlpack_device__=lambda self: (vendor.host_type, 0))
        x = scene.array(mistaken)
        for _ in range(2):
            capsule = dlshim.upgrade(x).__dlpack__(stream=scene.s, max_version=(1, 0))
            assert device_of(capsule) == here(drv) and x.keywords[-1]["stream"] == scene.s
            assert not drv.read(scene.s, x.address)
        del capsule
        scene.ends()


@checks.on_cuda
def check_an_object_that_gives_managed_memory_under_another_name(drv: Driver) -> None:
    for said in ((3, 0), (2, 0)):
        scene = Scene(drv)
        x = scene.array(fresh(fake.CupyManaged, __dlpack_device__=lambda self, said=said: said))
        capsule = dlshim.upgrade(x).__dlpack__(max_version=(1, 0))
        assert device_of(capsule) == (13, 0)
        assert not drv.host_read(x.address), said
        del capsule
        scene.ends()


# --- assume_device: wrong labels are synced like right ones ------------------------------


class Mislabelled(fake.NoKw):
    """Its memory is CUDA's, and it does not know."""

    def answer(self) -> Any:
        return self._legacy(device=(1, 0))

    def __dlpack_device__(self) -> Any:
        return (1, 0)


def check_assume_device_of_a_type_that_was_met_on_the_host(drv: Any) -> None:
    scene, cls = Scene(drv), fresh(Mislabelled)
    x = scene.array(cls)
    dlshim.upgrade(x).__dlpack__()
    legacy = vendors.of(drv).legacy
    for stream in ("omitted", legacy, scene.s):
        scene = Scene(drv)
        x, given = scene.array(cls), {} if stream == "omitted" else {"stream": stream}
        if isinstance(stream, int) and stream > 2:
            given = {"stream": scene.s}
        capsule = dlshim.upgrade(x, assume_device=here(drv)).__dlpack__(**given)
        assert device_of(capsule) == here(drv)
        assert not drv.read(given.get("stream", legacy), x.address), (stream, drv.log())
        del capsule
        scene.ends()


def check_assume_device_of_a_capsule(drv: Any) -> None:
    for target in ("device", "host"):
        scene = Scene(drv)
        x = scene.array(fake.RawFn)
        options: dict[str, Any] = {"assume_device": here(drv)}
        if target == "host":
            options["device"] = "cpu"
        upgraded = dlshim.upgrade(x._legacy(device=(1, 0)), **options)
        capsule = upgraded.__dlpack__(stream=scene.s, max_version=(1, 0))
        if target == "device":
            assert device_of(capsule) == here(drv) and not drv.read(scene.s, x.address)
        else:
            assert caps.look(capsule).values() == x.values()
            assert not drv.host_read(caps.look(capsule).data, 24)
        del capsule, upgraded
        scene.ends()


# --- copies that a producer should make ----------------------------------------------------------


def check_copy_true_is_done_by_dlshim(drv: Any) -> None:
    """Where the producer has made none; nobody is believed to have (N7)."""
    silent = fake.named(fake.Silent)
    kinds = (fake.CupyLike, fake.Cai3, fake.ToDlpack, silent, fake.NoKw, fake.WarpLike)
    for make, tensor in itertools.product(kinds, (False, True)):
        scene = Scene(drv)
        x = scene.array(make)
        source = dlshim.from_dlpack(x, stream=scene.s) if tensor else dlshim.upgrade(x)
        taken = caps.take(source.__dlpack__(stream=scene.s, copy=True, max_version=(1, 0)))
        assert taken.view.copied and taken.view.data != x.address
        assert not drv.read(scene.s, taken.view.data, 24) and not drv.races(), drv.races()
        taken.release()
        del source
        scene.ends()


def check_copy_true_of_who_does_it(drv: Any) -> None:
    scene = Scene(drv)

    class Copies(fake.WarpLike):
        TAKES = producers.ALL_KEYWORDS

        def answer(self, stream: Any = None, copy: Any = None, **asked: Any) -> Any:
            target = drv.alloc(self.own.size) if copy else self.address
            if copy:
                self.edge(self.stream, stream)
                self.copy_address = target
            return self._versioned(flags=caps.IS_COPIED if copy else 0, data=target)

    x = scene.array(Copies)
    capsule = dlshim.upgrade(x).__dlpack__(stream=scene.s, copy=True, max_version=(1, 0))
    assert caps.look(capsule).data == x.copy_address
    del capsule
    scene.ends()


def check_copy_true_after_a_copy_false_that_was_taken(drv: Any) -> None:
    """One that is refused is made by dlshim; copy=False said nothing of it."""
    errors = (BufferError, RuntimeError, NotImplementedError, ValueError)
    for error, before in itertools.product(errors, ({}, {"copy": False})):

        class Shares(fake.WarpLike):
            TAKES = producers.ALL_KEYWORDS
            refusal = error

            def answer(self, stream: Any = None, copy: Any = None, **asked: Any) -> Any:
                if copy:
                    raise self.refusal("copies are made on the host alone")
                self.edge(self.stream, stream)
                return self._versioned(flags=0)

        scene = Scene(drv)
        asked = {"stream": scene.s, "max_version": (1, 0)}
        dlshim.upgrade(scene.array(Shares)).__dlpack__(**before, **asked)
        x = scene.array(Shares)
        taken = caps.take(dlshim.upgrade(x).__dlpack__(copy=True, **asked))
        assert taken.view.copied and taken.view.data != x.address, (error, before)
        assert not drv.read(scene.s, taken.view.data, 24) and not drv.races(), drv.races()
        taken.release()
        scene.ends()


def check_copies_of_managed_memory_that_the_host_wants(drv: Any) -> None:
    for make in (fake.WarpLike, fake.NoKw, fake.Cai3, fake.CupyLike):
        scene = Scene(drv)
        x = scene.array(make, kind="managed")
        keywords = {"dl_device": (1, 0), "copy": True, "max_version": (1, 0)}
        capsule = dlshim.upgrade(x).__dlpack__(**keywords)
        view = caps.look(capsule)
        assert view.device == (1, 0) and view.data != x.address and view.copied
        assert not drv.host_read(x.address), make
        del capsule
        scene.ends()


def check_copies_of_pinned_memory_wait_for_p(drv: Any) -> None:
    """The host is the reader, whatever stream the consumer passes (Warp passes one)."""
    for options, keywords in (
        ({}, {"copy": True}),
        ({"copy": True}, {}),
        ({"align": None}, {}),
        ({"readonly": "copy"}, {"max_version": None}),
    ):
        scene = Scene(drv)
        x = scene.array(fake.Cai3, kind="pinned", readonly="readonly" in options)
        if "align" in options:
            options["align"] = 2 * (x.address & -x.address)  # one that the address lacks
        upgraded = dlshim.upgrade(x, **options)
        asked = {"stream": scene.s, "max_version": (1, 0), **keywords}
        capsule = upgraded.__dlpack__(**asked)
        assert caps.look(capsule).data != x.address
        assert not drv.host_read(x.address), (options, keywords, drv.log())
        del capsule, upgraded
        scene.ends()


# --- captures that were broken ------------------------------------------------------------


@checks.only_on(*CAPTURES)
def check_a_probe_of_all_that_a_wait_touches(drv: Driver) -> None:
    """Attribute 89 makes a wait for P one for the whole device: another's capture is in it."""
    scene = Scene(drv)
    drv.option("concurrent_managed", 0)
    other = drv.stream_new(0, True, name="O")
    x = scene.array(fake.NoKw, kind="managed")
    drv.capture_begin(other, "relaxed")
    with pytest.raises(BufferError, match="this export would break it"):
        dlshim.upgrade(x, producer_stream=scene.p).__dlpack__()
    assert drv.capture_state(other) == "active"
    caps.close_accounts()


@checks.only_on(*CAPTURES)
def check_l_is_asked_in_the_context_where_it_would_be_used(drv: Driver) -> None:
    """P of another context or device; L and its captures are those of the memory's context."""
    for where in ("context", "device"):
        scene = Scene(drv)
        other = drv.context_new(0) if where == "context" else drv.context(1)
        p = drv.stream_new(blocking=False, context=other, name="P2")
        blocking = drv.stream_new(0, True, name="O")
        x = fake.NoKw(drv, p, device=0)
        drv.capture_begin(blocking, "relaxed")
        for stream in (1, None):
            with pytest.raises(BufferError, match="this export would break it"):
                dlshim.upgrade(x, producer_stream=p).__dlpack__(stream=stream)
            assert drv.capture_state(blocking) == "active", (where, stream)
        drv.capture_end(blocking)
        # The other way round: what is captured there is no matter to an edge to S.
        blocking = drv.stream_new(blocking=True, context=other, name="O2")
        drv.capture_begin(blocking, "relaxed")
        capsule = dlshim.upgrade(x, producer_stream=p).__dlpack__(stream=scene.s)
        assert drv.capture_state(blocking) == "active"
        drv.capture_end(blocking)
        del capsule
        caps.close_accounts()


@checks.only_on(*CAPTURES)
def check_torch_during_a_capture(drv: Driver) -> None:
    """What the bare exchange leaves alone, the upgraded one may refuse, and never end; where no
    stream is named, torch syncs nothing, and nothing is refused."""
    with CUDA.imported():
        for stream in (None, 2, "omitted"):
            scene = Scene(drv)
            p = CUDA.current["torch"].handle = drv.stream_new(0, True, name="P2")
            x = fake.named(fake.TorchLike)(drv, p)
            drv.capture_begin(p, "relaxed")
            x.write()
            if stream == "omitted":
                dlshim.upgrade(x).__dlpack__(max_version=(1, 0))
            else:
                with pytest.raises(BufferError, match=CAPTURE_REFUSED):
                    dlshim.upgrade(x).__dlpack__(max_version=(1, 0), stream=stream)
            assert drv.capture_state(p) == "active", stream
            dlshim.upgrade(x).__dlpack__(stream=p, max_version=(1, 0))
            dlshim.upgrade(x).__dlpack__(stream=-1, max_version=(1, 0))
            drv.capture_end(p)
            CUDA.current["torch"].handle = 1
            scene.ends()


#: What captures, which stream is torch's current one, what is said of the stream; what torch is
#: passed, and whether a reader on L is right then.  None: the export is refused, and torch not
#: called.
OF_TORCH: dict[str, tuple[str, str, dict[str, Any], int | None, bool]] = {
    "no capture": ("", "P", {}, 1, True),
    "P captures": ("P", "P", {}, -1, False),
    "another blocking stream captures": ("O", "P", {}, -1, False),
    "P is L": ("", "L", {}, 1, True),
    "P is L, and another blocking stream captures": ("O", "L", {}, 1, False),
    "None": ("", "P", {"stream": None}, 1, True),
    "None, and P captures": ("P", "P", {"stream": None}, None, False),
    "None, and another blocking stream captures": ("O", "P", {"stream": None}, None, False),
}


@checks.only_on(*CAPTURES)
def check_what_torch_is_passed_where_no_stream_is_named(drv: Driver) -> None:
    """An omitted stream is None (S3), and a capture that works bare is not broken (S14)."""
    for torch, (case, row) in itertools.product((fake.Torch29, fake.TorchLike), OF_TORCH.items()):
        captures, current, asked, passed, right = row
        with CUDA.imported():
            scene = Scene(drv)
            streams = {"P": scene.p, "L": 1, "O": drv.stream_new(0, True, name="O")}
            p = CUDA.current["torch"].handle = streams[current]
            x = fake.named(torch)(drv, p)
            assert not x.write()
            if captures:
                drv.capture_begin(streams[captures], "relaxed")
            give = dlshim.upgrade(x).__dlpack__
            if passed is None:
                with pytest.raises(BufferError, match=CAPTURE_REFUSED):
                    give(max_version=(1, 0), **asked)
                assert not x.keywords, case
            else:
                capsule = give(max_version=(1, 0), **asked)
                assert x.keywords[-1]["stream"] == passed, case
                del capsule
            if captures:
                assert drv.capture_state(streams[captures]) == "active", case
                drv.capture_end(streams[captures])
            if right:
                assert not drv.read(1, x.address), case
            CUDA.current["torch"].handle = 1
            scene.ends()


@checks.only_on(*CAPTURES)
def check_a_torch_whose_stream_cannot_be_told_is_passed_minus_one(drv: Driver) -> None:
    """No real torch is such: its arrays are there, and torch.cuda is not imported."""
    for torch in (fake.Torch29, fake.TorchLike):
        for asked, passed in (({}, -1), ({"stream": None}, 1)):
            scene = Scene(drv)
            x = scene.array(fake.named(torch))
            dlshim.upgrade(x).__dlpack__(max_version=(1, 0), **asked)
            assert x.keywords[-1]["stream"] == passed, (torch, asked)
            scene.ends()


@checks.only_on(*CAPTURES)
def check_torchs_current_stream_in_a_capture(drv: Driver) -> None:
    """A non-blocking P, which no probe of L sees: torch says that it is its current stream."""
    with CUDA.imported():
        for make, library, given in (
            (fake.named(fake.TorchLike), "torch", {"stream": None}),
            (fake.named(fake.CupyLike), "cupy", {"stream": None}),
            (fake.named(fake.CupyLike), "cupy", {}),
        ):
            scene = Scene(drv)
            CUDA.current[library].handle = scene.p
            x = make(drv, scene.p)
            drv.capture_begin(scene.p, "relaxed")
            x.write()
            with pytest.raises(BufferError, match=CAPTURE_REFUSED):
                dlshim.upgrade(x).__dlpack__(max_version=(1, 0), **given)
            assert drv.capture_state(scene.p) == "active", library
            drv.capture_end(scene.p)
            CUDA.current[library].handle = 1
            scene.ends()


@checks.only_on(*CAPTURES)
def check_managed_memory_of_a_modern_producer_during_a_capture(drv: Driver) -> None:
    for keywords in ({}, {"dl_device": (1, 0)}):
        scene = Scene(drv)
        other = drv.stream_new(0, True, name="O")
        x = scene.array(fake.WarpLike, kind="managed")
        drv.capture_begin(other, "relaxed")
        with pytest.raises(BufferError, match="this export would break it"):
            dlshim.upgrade(x).__dlpack__(max_version=(1, 0), **keywords)
        assert drv.capture_state(other) == "active"
        caps.close_accounts()


# --- memory whose context nobody names ----------------------------------------------------


@checks.on_cuda
def check_pool_memory_while_another_context_is_current(drv: Driver) -> None:
    """Its unfinished work may be in the primary context, or in the current one: both are synced."""
    for named, reads in itertools.product((False, True), ("S", "copy")):
        scene = Scene(drv)
        x = scene.array(fake.NoKw, kind="pool")
        drv.set_current(drv.context_new(0))
        options: dict[str, Any] = {"producer_stream": scene.p} if named else {}
        if reads == "copy":
            options["device"] = "cpu"
        capsule = dlshim.upgrade(x, **options).__dlpack__(stream=scene.s, max_version=(1, 0))
        if reads == "copy":
            assert not drv.host_read(caps.look(capsule).data, 24), (named, drv.log())
        else:
            assert not drv.read(scene.s, x.address), (named, drv.log())
        del capsule
        scene.ends()


@checks.only_on(*GUARDS)
def check_a_guard_of_pool_memory_in_another_context(drv: Driver) -> None:
    scene = Scene(drv)
    x = scene.array(fake.CupyLike, kind="pool", rewrites=True)
    taken = caps.take(
        dlshim.upgrade(x, on_release="guard").__dlpack__(stream=scene.s, max_version=(1, 0))
    )
    assert not drv.read(scene.s, x.address)
    drv.set_current(drv.context_new(0))
    taken.release()
    scene.ends()


@checks.only_on(*GUARDS)
def check_a_guard_that_the_driver_refuses_waits_instead(drv: Driver) -> None:
    for name, rc in itertools.product(("cuCtxWaitEvent", "cuCtxRecordEvent"), (2, 700)):
        scene = Scene(drv)
        x = scene.array(fake.CupyLike, rewrites=True)
        upgraded = dlshim.upgrade(x, on_release="guard")
        taken = caps.take(upgraded.__dlpack__(stream=scene.s, max_version=(1, 0)))
        assert not drv.read(scene.s, x.address)
        drv.fail_next(name, rc)
        taken.release()
        assert x.deletions == 1
        scene.ends()


@checks.only_on(*GUARDS)
def check_guards_that_wait_go_with_the_next_export(drv: Driver) -> None:
    """Of guarded memory, released or not."""
    scene = Scene(drv)
    x = scene.array(fake.NoKw)
    other = drv.stream_new(0, True, name="O")
    taken = caps.take(dlshim.upgrade(x, on_release="guard").__dlpack__(stream=scene.s))
    drv.capture_begin(other)
    taken.release()
    assert x.deletions == 0
    drv.capture_end(other)
    y = scene.array(fake.NoKw)
    capsule = dlshim.upgrade(y, on_release="guard").__dlpack__(stream=scene.s)
    assert (x.deletions, y.deletions) == (1, 0)
    del capsule
    scene.ends()


@checks.only_on(*GUARDS)
def check_guarded_tensors_can_be_collected(drv: Driver) -> None:
    scene = Scene(drv)
    for options in ({}, {"on_release": "guard"}):
        x = fake.Cai3(drv, scene.p)
        x.tensor = dlshim.from_dlpack(dlshim.upgrade(x, **options), stream=-1)
        alive = weakref.ref(x)
        del x
        gc.collect()
        assert alive() is None, options
    scene.ends()


# --- what is learned, and from whom -------------------------------------------------------


@checks.on_cuda
def check_a_table_that_fails_where_dlpack_works(drv: Driver) -> None:
    scene = Scene(drv)

    class Both(producers.TableMixin, fake.CupyLike):
        __dlpack_c_exchange_api__ = producers.P3Failing.__dlpack_c_exchange_api__
        failure = BufferError("no table for device memory")

        def __bool__(self) -> bool:
            raise self.failure

    for stream in (scene.s, 1, None, -1):
        x = Both(drv, scene.p)
        capsule = dlshim.upgrade(x).__dlpack__(stream=stream, max_version=(1, 0))
        assert device_of(capsule) == (2, 0)
        del capsule
    scene.ends()


@checks.on_cuda
def check_a_table_that_a_learned_type_is_given_names_the_stream(drv: Driver) -> None:
    """S11: a library that is imported later may give a class its first table."""
    scene = Scene(drv)
    late = type("Late", (producers.TableMixin, fake.NoKw), {"LIBRARY": ("late", "Array")})
    wide = {"cuCtxRecordEvent", "cuCtxSynchronize"}  # all work of the device
    for known in (False, False, True, True):
        if known:
            late.__dlpack_c_exchange_api__ = CurrentTable.__dlpack_c_exchange_api__
            CurrentTable.current = scene.p
        x = scene.array(late)
        capsule = dlshim.upgrade(x).__dlpack__(stream=scene.s, max_version=(1, 0))
        assert bool(wide & set(drv.calls())) is not known
        assert not scene.races(x, capsule)
    CurrentTable.current = None
    scene.ends()


@checks.on_cuda
def check_keywords_that_are_refused_by_other_exceptions(drv: Driver) -> None:
    """N2: a keyword step, unless it is the stream, for which only a TypeError counts.  A
    RuntimeError is how libraries tell of an error of the device: nobody is asked again then."""
    for refused, error in itertools.product(
        ("max_version", "copy"), (NotImplementedError, ValueError)
    ):
        scene = Scene(drv)

        class Strict(fake.CupyLike):
            def answer(self, refused: str = refused, error: type = error, **asked: Any) -> Any:
                if asked.get(refused) is not None:
                    raise error(f"{refused} is not supported")
                return super().answer(**asked)

        x = scene.array(Strict)
        keywords = {"copy": False} if refused == "copy" else {}
        for _ in range(2):
            upgraded = dlshim.upgrade(x)
            capsule = upgraded.__dlpack__(stream=scene.s, max_version=(1, 0), **keywords)
            assert x.keywords[-1]["stream"] == scene.s
            assert not drv.read(scene.s, x.address), (refused, error)
        del capsule, upgraded
        scene.ends()


@checks.on_cuda
def check_one_fault_of_one_array_teaches_nothing(drv: Driver) -> None:
    """A TypeError of its own, once: later exports still say read-only, and pass the stream."""
    scene = Scene(drv)

    class Faulty(fake.CupyLike):
        bad = False

        def answer(self, **asked: Any) -> Any:
            if self.bad and asked.get("max_version") is not None:
                raise TypeError("a bug of this array's own")
            return super().answer(**asked)

    dlshim.upgrade(Faulty(drv, scene.p)).__dlpack__(stream=scene.s, max_version=(1, 0))
    x = Faulty(drv, scene.p)
    x.bad = True
    with contextlib.suppress(BufferError):
        dlshim.upgrade(x).__dlpack__(stream=scene.s, max_version=(1, 0))
    y = Faulty(drv, scene.p, readonly=True)
    capsule = dlshim.upgrade(y).__dlpack__(stream=scene.s, max_version=(1, 0))
    assert caps.look(capsule).readonly
    assert y.keywords[-1] == {"stream": scene.s, "max_version": (1, 0)}
    del capsule
    caps.close_accounts()


@checks.on_cuda
def check_a_subclass_that_does_not_wait(drv: Driver) -> None:
    """What TensorFlow's __dlpack__ does says nothing of another one."""
    scene = Scene(drv)

    class Own(fake.named(fake.TensorFlowLike)):  # type: ignore[misc]
        def __dlpack__(self, stream: Any = None) -> Any:
            return self._legacy()

    x = scene.array(Own)
    capsule = dlshim.upgrade(x).__dlpack__(stream=scene.s)
    assert not drv.read(scene.s, x.address)
    del capsule
    scene.ends()


# --- streams that are objects -------------------------------------------------------------


class Proxy:
    """A "current stream" that is another one each time it is asked."""

    def __init__(self, *handles: int) -> None:
        self.handles = list(handles)

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.handles.pop(0) if len(self.handles) > 1 else self.handles[0])


@checks.on_cuda
def check_a_stream_object_is_asked_once(drv: Driver) -> None:
    for make in (fake.NoKw, fake.CupyLike, fake.Cai3):
        scene = Scene(drv)
        second = drv.stream_new(0, False, name="S2")
        x = scene.array(make)
        tensor = dlshim.from_dlpack(x, stream=Proxy(scene.s, second))
        tensor.__dlpack__(stream=second)
        assert not drv.read(second, x.address), (make, drv.log())
        says = tensor.__cuda_array_interface__["stream"]
        assert not drv.read(says, x.address)
        del tensor
        scene.ends()


@checks.on_cuda
def check_ints_by_another_name(drv: Driver) -> None:
    """numpy.int64 and their like: -1 is -1 and 0 no stream, as of an int."""
    scene = Scene(drv)
    for make in (fake.NoKw, fake.RawFn):
        x = scene.array(make)
        upgraded = dlshim.upgrade(x() if make is fake.RawFn else x)
        drv.clear_log()
        upgraded.__dlpack__(stream=Index(-1))
        assert drv.log(by="") == [] or make is fake.NoKw
        assert not [name for name in drv.calls(by="") if "vent" in name]
        with pytest.raises(ValueError, match="stream"):
            upgraded.__dlpack__(stream=Index(0))
        capsule = upgraded.__dlpack__(stream=Index(scene.s))
        assert not drv.read(scene.s, x.address)
        del capsule, upgraded
    scene.ends()


@checks.on_cuda
def check_handles_that_are_no_address(drv: Driver) -> None:
    for handle in (7.5, "12", True, b"1", object()):
        scene = Scene(drv)
        stream = type("Stream", (), {"handle": handle})()
        with pytest.raises(TypeError, match="stream"):
            dlshim.upgrade(fake.NoKw(drv, scene.p)).__dlpack__(stream=stream)
        scene.ends()


@checks.only_on(*CAPTURES)
def check_looking_for_an_interface_does_no_harm(drv: Driver) -> None:
    """hasattr is how consumers look: an answer or an AttributeError."""
    scene = Scene(drv)
    tensor = dlshim.from_dlpack(fake.NoKw(drv, scene.p), stream=-1)
    other = drv.stream_new(0, True, name="O")
    drv.capture_begin(other, "relaxed")
    assert not hasattr(tensor, "__cuda_array_interface__")
    assert drv.capture_state(other) == "active"
    drv.capture_end(other)
    assert hasattr(tensor, "__cuda_array_interface__")
    del tensor
    scene.ends()


@checks.on_cuda
def check_a_device_that_was_reset_has_another_context(drv: Driver) -> None:
    """cudaDeviceReset, numba.cuda.close(): the primary context that was known is gone."""
    for _ in range(3):
        drv.reset(hard=False)
        drv.primary_release(1)
        context = drv.context(1)
        drv.set_current(None)
        p = drv.stream_new(1, False, name="P")
        x = fake.NoKw(drv, 1, device=1, kind="pool")
        assert not x.write()
        drv.clear_log()
        s = drv.stream_new(1, False, name="S")
        taken = caps.take(dlshim.upgrade(x, unknown_stream="legacy").__dlpack__(stream=s))
        assert not drv.read(s, x.address) and drv.context(1) == context
        assert drv.context_stack() == () and p
        taken.release()
        caps.close_accounts()


@checks.on_cuda
def check_an_event_of_the_whole_device_that_cannot_be_recorded(drv: Driver) -> None:
    """Refused for another reason than a capture (801): the host waits, as the guard does."""
    if not drv.has("cuCtxRecordEvent"):
        return
    for rc in (801, 1):
        scene = Scene(drv)
        x = scene.array(fake.NoKw)
        drv.fail_next("cuCtxRecordEvent", rc)
        taken = caps.take(dlshim.upgrade(x).__dlpack__(stream=scene.s))
        assert "cuCtxSynchronize" in drv.calls(by="")
        assert not drv.read(scene.s, x.address)
        taken.release()
        scene.ends()
    scene = Scene(drv)
    x = scene.array(fake.NoKw)
    drv.fail_next("cuCtxRecordEvent", 900)
    with pytest.raises(BufferError, match="a graph capture is running"):
        dlshim.upgrade(x).__dlpack__(stream=scene.s)
    assert "cuCtxSynchronize" not in drv.calls(by="")


@checks.on_cuda
def check_a_function_is_called_once(drv: Driver) -> None:
    scene = Scene(drv)
    x = scene.array(fake.ToDlpack)
    capsule = dlshim.upgrade(x).__dlpack__(stream=scene.s)
    assert len(x.calls) == 1
    del capsule
    scene.ends()


# --- the tests ----------------------------------------------------------------------------

#: Checks that fail, and why: strict, so that none stays here when it passes.
FAULTS: dict[str, str] = {
    "check_a_subclass_that_does_not_wait": "takes the stream and ignores it: nobody can tell",
    "check_looking_for_an_interface_does_no_harm": "a BufferError where it cannot be synced",
}


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ALL_LIVE))
def test_gaps(variant: str, name: str) -> None:
    """Each check_* of this file, in a child with that fake driver; FAULTS are expected to fail."""
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
