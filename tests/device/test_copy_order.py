"""What a copy comes after, and what comes before its end (rules S10, S17 and S19).

The stream -1 speaks of the consumer: it asks for no sync with its own stream.  What a copy has read
too soon nobody can repair, so a copy comes after the producer's work all the same.  And a copy may
be read in other contexts than its own: its end waits for those whose work can be known of.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

import dlshim
from device import libraries
from doubles import capsules as caps
from doubles import device as fake
from doubles import vendors
from doubles.ctable import Table
from drivers import ALL_LIVE, CUDA_LIVE, HIP_LIVE, checks, run_checks

POLICIES = ("auto", "error", "legacy", "same")
NAMED = {"max_version": (1, 0), "stream": -1}
CAPTURES = tuple(v for v in ALL_LIVE if v != "9.2")


class Scene:
    """Memory of device 0 with unfinished work on P."""

    def __init__(self, drv: Any, *, own_context: bool = False) -> None:
        drv.reset()
        drv.make_current(0)
        self.drv, self.vendor = drv, vendors.of(drv)
        self.of = {"context": drv.context_new(0)} if own_context else {}
        self.p = drv.stream_new(0, False, name="P", **self.of)

    def array(self, make: Any, **fields: Any) -> Any:
        array = make(self.drv, self.p, **self.of, **fields)
        assert not array.write()
        self.drv.clear_log()
        return array

    def copied(self, source: Any) -> caps.Import:
        taken = caps.take(source.__dlpack__(**NAMED))
        assert taken.view.copied and sorted(taken.view.values()) == list(range(6))
        assert not self.drv.races(), self.drv.races()
        return taken


def named_sources(drv: Any, kind: str) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Sources whose P is known: how they are made of an array, and options."""
    if not vendors.of(drv).is_hip:
        yield "interface", fake.Cai3, {}
    yield "capsule", fake.RawFn, {"producer_stream": "P"}
    if kind != "pinned":
        yield "Tensor", fake.RawFn, {"tensor": True}


def source_of(scene: Scene, make: Any, options: dict[str, Any], **fields: Any) -> Any:
    array = scene.array(make, **fields)
    source = array() if isinstance(array, fake.RawFn) else array
    its = {name: scene.p if value == "P" else value for name, value in options.items()}
    if its.pop("tensor", False):
        return array, dlshim.from_dlpack(source, stream=scene.p, producer_stream=scene.p), its
    return array, source, its


# --- the stream -1 ------------------------------------------------------------------------------


def check_a_copy_on_the_device_comes_after_the_stream_that_was_named(drv: Any) -> None:
    """An edge from P, whatever unknown_stream says."""
    for policy, wanted in itertools.product(POLICIES, ({"copy": True}, {"align": 1 << 12})):
        for name, make, options in named_sources(drv, "device"):
            scene = Scene(drv)
            array, source, its = source_of(scene, make, options)
            upgraded = dlshim.upgrade(source, unknown_stream=policy, **its, **wanted)
            taken = scene.copied(upgraded)
            told = (policy, wanted, name)
            assert taken.view.data != array.address, told
            assert "cuCtxRecordEvent" not in drv.calls(), told
            del source, upgraded
            taken.release()
            caps.close_accounts()


@checks.on_cuda
def check_memory_that_the_host_reads_is_waited_for(drv: Any) -> None:
    """Managed and pinned memory for a device is read by the host."""
    for kind, to, policy in itertools.product(("managed", "pinned"), (0, 1), POLICIES):
        if (kind, to) == ("managed", 0):
            continue  # aliased
        for name, make, options in named_sources(drv, kind):
            scene = Scene(drv)
            array, source, its = source_of(scene, make, options, kind=kind)
            upgraded = dlshim.upgrade(source, device=f"cuda:{to}", unknown_stream=policy, **its)
            taken = scene.copied(upgraded)
            assert not drv.host_read(array.address), (kind, to, policy, name)
            del source, upgraded
            taken.release()
            caps.close_accounts()


@checks.on_hip
def check_pinned_memory_of_rocm_is_waited_for(drv: Any) -> None:
    scene = Scene(drv)
    array = scene.array(fake.RawFn, kind="pinned")
    upgraded = dlshim.upgrade(array(), device="rocm:0", producer_stream=scene.p)
    taken = scene.copied(upgraded)
    assert not drv.host_read(array.address)
    del upgraded
    taken.release()
    caps.close_accounts()


@checks.on_cuda
def check_managed_memory_of_an_unknown_stream_is_waited_for(drv: Any) -> None:
    for make in (fake.Cai2, fake.RawFn, fake.NoKw, fake.named(fake.Silent)):
        scene = Scene(drv)
        array, source, _ = source_of(scene, make, {}, kind="managed")
        taken = scene.copied(dlshim.upgrade(source, device="cuda:1"))
        del source
        taken.release()
        with pytest.raises(BufferError, match='unknown_stream="error" was asked for'):
            source = array() if make is fake.RawFn else array
            dlshim.upgrade(source, device="cuda:1", unknown_stream="error").__dlpack__(**NAMED)
        del source
        caps.close_accounts()


HOST_COPIES = (
    ({"copy": True}, {}),
    ({"order": "C"}, {"strides": (1, 2)}),
    ({"align": 1 << 20}, {}),
    ({"device": "cpu", "copy": True}, {}),
)


def check_a_copy_by_the_host_waits(drv: Any) -> None:
    """And where nothing has to be copied, -1 waits for nobody."""
    kinds = ("pinned",) if vendors.of(drv).is_hip else ("pinned", "managed")
    for kind, (wanted, fields) in itertools.product(kinds, HOST_COPIES):
        if kind == "managed" and "device" not in wanted:
            continue  # dlshim makes no managed memory
        for name, make, options in named_sources(drv, kind):
            if fields and name == "interface":
                continue  # its double has no strides
            scene = Scene(drv)
            array, source, its = source_of(scene, make, options, kind=kind, **fields)
            upgraded = dlshim.upgrade(source, **its, **wanted)
            taken = scene.copied(upgraded)
            assert not drv.host_read(array.address), (kind, wanted, name)
            del source, upgraded
            taken.release()
            caps.close_accounts()
    for wanted in ({"order": "C"}, {"align": 1}):
        scene = Scene(drv)
        array = scene.array(fake.RawFn, kind="pinned")
        upgraded = dlshim.upgrade(array(), producer_stream=scene.p, **wanted)
        taken = caps.take(upgraded.__dlpack__(**NAMED))
        assert taken.view.data == array.address and drv.host_read(array.address), wanted
        del upgraded
        taken.release()
        caps.close_accounts()


def check_pinned_memory_that_is_exported_as_the_hosts_is_waited_for(drv: Any) -> None:
    """torch says by its device question alone that the memory is pinned."""
    scene = Scene(drv)
    array = scene.array(fake.named(fake.TorchPinned))
    for _ in range(2):  # met, and met again
        upgraded = dlshim.upgrade(array, copy=True, producer_stream=scene.p)
        taken = scene.copied(upgraded)
        assert not drv.host_read(array.address)
        taken.release()
        array.write()
    caps.close_accounts()


def check_what_has_waited_is_not_waited_for_again(drv: Any) -> None:
    """JAX is passed None for -1, and TensorFlow waits: their memory is ready, so that even
    unknown_stream="error" has nothing to refuse."""
    for make in (fake.JaxLike, fake.TensorFlowLike):
        scene = Scene(drv)
        array = scene.array(fake.named(make))
        source = dlshim.upgrade(array, align=1 << 12, unknown_stream="error")
        taken = scene.copied(source)
        own = [entry.name for entry in drv.entries() if not entry.by]
        assert not {"cuCtxRecordEvent", "cuCtxSynchronize", "hipDeviceSynchronize"} & set(own), own
        del source
        taken.release()
        caps.close_accounts()


def check_copies_through_the_table(drv: Any) -> None:
    """Its consumer works on P: the export is asked with -1."""
    table = Table(dlshim.Producer)
    kinds = ("device",) if vendors.of(drv).is_hip else ("device", "managed")
    for kind in kinds:
        with libraries.of(drv).imported():
            scene = Scene(drv)
            libraries.of(drv).stand_on(scene.p)
            array = scene.array(fake.named(fake.CupyLike), kind=kind)
            wanted = {"align": 1 << 12} if kind == "device" else {"device": "cuda:1"}
            upgraded = dlshim.upgrade(array, **wanted)
            taken = table.owned(upgraded)
            assert taken.view.data != array.address
            assert not drv.races(), (kind, drv.races())
            taken.release()
            del upgraded
            caps.close_accounts()
            libraries.of(drv).stand_on(scene.vendor.legacy)


@checks.only_on(*CAPTURES)
def check_a_copy_with_minus_one_is_no_part_of_a_capture(drv: Any) -> None:
    """The work of P has not run: the copy is refused, and the capture goes on."""
    kinds = ("device", "pinned") if vendors.of(drv).is_hip else ("device", "managed", "pinned")
    for kind in kinds:
        scene = Scene(drv)
        array = scene.array(fake.RawFn, kind=kind)
        elsewhere = {"device": f"{scene.vendor.name}:1"}
        wanted = {"copy": True} if kind == "device" else elsewhere
        upgraded = dlshim.upgrade(array(), producer_stream=scene.p, **wanted)
        drv.capture_begin(scene.p, "thread")
        with pytest.raises(BufferError, match="a graph capture is running"):
            upgraded.__dlpack__(**NAMED)
        assert drv.capture_state(scene.p) == "active", kind
        drv.capture_end(scene.p)
        del upgraded
        caps.close_accounts()


# --- several contexts ---------------------------------------------------------------------------

HOW: dict[str, dict[str, Any]] = {
    "on the device": {"copy": True},
    "strided": {"order": "C"},
    "from another device": {"device": "cuda:1"},
    "managed": {"device": "cuda:1"},
    "pinned": {"device": "cuda:0"},
}
WORKS_IN = ("own", "primary", "third")


def copy_between_contexts(drv: Any, how: str, asked: object, current: str, works: str) -> None:
    """The source is in a context of its own, the consumer works in another one."""
    told = (how, asked, current, works)
    to = 1 if how in ("from another device", "managed") else 0
    scene = Scene(drv, own_context=True)
    there = {
        "own": drv.context_new(1) if to else scene.of["context"],
        "third": drv.context_new(to),
        "primary": drv.context(to),
    }
    memory = drv.live_memory()
    fields: dict[str, Any] = {"kind": how} if how in ("managed", "pinned") else {}
    make, options = fake.Cai3, HOW[how]
    if how == "strided":
        make, options = fake.RawFn, {"producer_stream": scene.p, **options}
        fields["strides"] = (4, 1)
    array = scene.array(make, **fields)
    s = drv.stream_new(to, False, context=there[works], name="S")
    drv.set_current(None if current == "none" else there[current])
    stack = drv.context_stack()
    keywords = {"stream": s} if asked == "S" else {} if asked == "omitted" else {"stream": asked}
    source = array() if how == "strided" else array
    capsule = dlshim.upgrade(source, **options).__dlpack__(max_version=(1, 0), **keywords)
    taken = caps.take(capsule)
    values = array.values() if how == "strided" else caps.numbers((2, 3), "float32")
    assert taken.view.copied and taken.view.values() == values, told
    assert not drv.read(s, taken.view.data, 24, context=there[works]), (told, drv.races())
    taken.release()
    assert not drv.races(), (told, drv.races())
    assert drv.context_stack() == stack, told
    del capsule, array, source
    caps.close_accounts()
    assert drv.live_memory() <= memory + 1, (told, "the copy was not given back")


@checks.on_cuda
def check_a_copy_is_freed_after_the_work_of_the_consumers_context(drv: Any) -> None:
    """S names its context, whatever is current."""
    for how, current, works in itertools.product(HOW, (*WORKS_IN, "none"), WORKS_IN):
        copy_between_contexts(drv, how, "S", current, works)


@checks.on_cuda
def check_a_copy_for_no_stream_is_freed_after_the_primary_and_the_current_context(drv: Any) -> None:
    for how, asked, current in itertools.product(
        HOW, ("omitted", None, -1, 1), (*WORKS_IN, "none")
    ):
        for works in {"primary", current} - {"none"}:
            copy_between_contexts(drv, how, asked, current, works)


@checks.only_on(*CUDA_LIVE[1:])
def check_no_copy_is_freed_while_the_primary_context_captures(drv: Any) -> None:
    """It waits for the end of the capture, as where the copy itself is in that context."""
    scene = Scene(drv, own_context=True)
    array = scene.array(fake.Cai3)
    drv.set_current(scene.of["context"])
    memory = drv.live_memory()
    taken = caps.take(dlshim.upgrade(array, copy=True).__dlpack__(max_version=(1, 0)))
    capturing = drv.stream_new(0, True, name="capturing")
    drv.capture_begin(capturing, "relaxed")
    taken.release()
    assert drv.live_memory() == memory + 1
    assert drv.capture_state(capturing) == "active"
    drv.capture_end(capturing)
    caps.take(dlshim.upgrade(array, copy=True).__dlpack__(max_version=(1, 0))).release()
    assert drv.live_memory() == memory and not drv.races(), drv.races()
    caps.close_accounts()


@checks.on_cuda
def check_no_primary_context_is_made_at_the_end(drv: Any) -> None:
    """A program of the driver API alone has none, and pays for none."""
    scene = Scene(drv, own_context=True)
    array = scene.array(fake.Cai3)
    drv.set_current(scene.of["context"])
    drv.primary_release(0)
    caps.take(dlshim.upgrade(array, copy=True).__dlpack__(max_version=(1, 0))).release()
    assert not drv.primary_active(0) and not drv.races()
    caps.close_accounts()


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), (*CUDA_LIVE, *HIP_LIVE)))
def test_copy_order(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
