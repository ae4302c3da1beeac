"""Exports through our C table, and what current_work_stream answers (rule S21).

The table syncs nothing for a stream that it is not told: a consumer launches its kernel on the
stream that `current_work_stream` answers for the device of its first argument, NULL being the
default one.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

import dlshim
from device import libraries, matrix
from device.libraries import source_of
from device.matrix_run import Calls, warm
from doubles import capsules as caps
from doubles import device as fake
from doubles import vendors
from doubles.ctable import Table
from drivers import HIP_LIVE, checks, run_checks

VARIANTS = ("13.0", "12.2", *HIP_LIVE)
PRODUCER, TENSOR = Table(dlshim.Producer), Table(dlshim.Tensor)
#: No stream in a dict of version 3 is the producer's word that nothing is unfinished: here a lie.
LIARS = ("cai 3, None", "cai 3, no key")
#: Taken for users of L, which is a convention and no proof (S11).
OF_L = tuple(name for name, producer in matrix.PRODUCERS.items() if producer.knows == "L")
#: Who can be asked for P, once they are known to be off the host.
KNOWN = (
    "torch",
    "torch 2.9",
    "torch 2.8",
    "cupy",
    "cupy 13",
    "old cupy",
    "tvm-ffi",
    "cupy's toDlpack",
    "table",
)


def take(how: str, source: object) -> tuple[object, caps.View]:
    """What keeps the memory, and what the consumer sees."""
    table = Table(type(source))
    if how == "owned":
        owned = table.owned(source)
        return owned, owned.view
    return source, table.borrow(source)


class Scene:
    """An array with unfinished work on P, in a child's driver."""

    def __init__(self, drv: Any, producer: str, p: str, device: int = 0) -> None:
        drv.reset()
        self.drv, self.producer, self.device = drv, producer, device
        self.vendor, its = vendors.of(drv), libraries.of(drv)
        self.where = self.vendor.device_of("device", device)
        drv.make_current(device)
        self.current = drv.now_current()
        self.p = self.vendor.stream(drv, p, device)
        its.stand_on(self.p)
        self.array = its.make[producer](drv, self.p, device=device)
        assert not drv.write(self.p, self.array.address)

    def upgraded(self, **options: object) -> object:
        return dlshim.upgrade(source_of(self.producer, self.array), **options)

    def answer(self) -> int | None:
        return PRODUCER.stream(self.where)

    def kernel_is_synced(self) -> bool:
        """A read on the stream that is answered."""
        stream, owner = self.answer() or self.vendor.legacy, self.drv.context(self.device)
        return not self.drv.read(stream, self.array.address, context=owner)

    def effects(self) -> list[str]:
        calls = Calls.at(self.drv, self.device)
        return [line for line in calls.effects() if line != "producer"]


@checks.only_on("13.0", *HIP_LIVE)
def check_a_kernel_on_the_answered_stream_is_synced(drv: Any) -> None:
    """Every kind of producer, of P, device and way of asking: the first time and learned."""
    synced = [producer for producer in libraries.of(drv).make if producer not in LIARS]
    with libraries.of(drv).imported():
        warm(drv)
        for producer, p, device, how in itertools.product(
            synced, matrix.P_KINDS, (0, 1), ("owned", "borrowed")
        ):
            if producer in OF_L and p == "N":
                continue
            scene = Scene(drv, producer, p, device)
            source = scene.upgraded()
            for time in range(2):
                kept, view = take(how, source)
                told = (producer, p, device, how, time)
                assert view.data == scene.array.address and view.device == scene.where, told
                assert scene.kernel_is_synced(), (told, drv.races())
                assert not drv.gil_held_calls(every=True), told
                assert drv.now_current() == scene.current, told
                del kept, view
            del source


def check_P_is_answered_where_it_is_known(drv: Any) -> None:
    """Then nothing is synced, and what the kernel writes comes before the producer's next."""
    its, legacy = libraries.of(drv), vendors.of(drv).legacy
    known = [name for name in KNOWN if name in its.make]
    with its.imported():
        warm(drv)
        for producer in known:
            x = its.make[producer](drv, legacy)
            dlshim.upgrade(source_of(producer, x)).__dlpack__(stream=-1)
        for producer, p, how in itertools.product(known, matrix.P_KINDS, ("owned", "borrowed")):
            if (producer, p, legacy) == ("tvm-ffi", "L", 0):
                continue  # its 0 may mean that nobody has said a stream
            scene = Scene(drv, producer, p)
            source = scene.upgraded()
            drv.clear_log()
            kept, _ = take(how, source)
            answer, told = scene.answer(), (producer, p, how)
            assert answer == (None if scene.p == legacy else scene.p), told
            assert scene.effects() == [], (told, scene.effects())
            assert not drv.write(answer or legacy, scene.array.address)
            assert not drv.write(scene.p, scene.array.address), told
            del kept, source


def check_the_user_may_name_P(drv: Any) -> None:
    scene = Scene(drv, "no keyword", "N")
    dlshim.upgrade(scene.array).__dlpack__(stream=-1)  # known to be off the host from now on
    drv.clear_log()
    for how in ("owned", "borrowed"):
        kept, _ = take(how, scene.upgraded(producer_stream=scene.p))
        assert scene.answer() == scene.p and scene.effects() == []
        del kept


def check_the_option_stream_is_where_the_kernel_runs(drv: Any) -> None:
    for producer, how in itertools.product(("cupy", "no keyword", "cai 3"), ("owned", "borrowed")):
        with libraries.of(drv).imported():
            scene = Scene(drv, producer, "N")
            s = drv.stream_new(0, False, name="S")
            options = {} if producer != "no keyword" else {"producer_stream": scene.p}
            kept, _ = take(how, scene.upgraded(stream=s, **options))
            assert scene.answer() == s and scene.kernel_is_synced()
            del kept


def check_arguments_of_two_libraries_are_given_one_stream(drv: Any) -> None:
    """A consumer asks once, after its first argument: the option says the stream of all (S21)."""
    its = libraries.of(drv)
    pairs = (("torch", "cupy"), ("cupy", "torch"), ("torch", "no keyword"), ("cai 3", "torch"))
    with libraries.of(drv).imported():
        warm(drv)
        for (first, second), how in itertools.product(pairs, ("owned", "borrowed")):
            scene = Scene(drv, first, "N")
            q = drv.stream_new(0, False, name="Q")
            for name, current in its.current.items():
                current.handle = q if name == second else scene.p
            other = its.make[second](drv, q, device=0)
            assert not drv.write(q, other.address)
            s = drv.stream_new(0, False, name="S")
            both = [
                dlshim.upgrade(source_of(name, x), stream=s)
                for name, x in ((first, scene.array), (second, other))
            ]
            kept = [take(how, both[0])]
            answer = scene.answer()
            kept.append(take(how, both[1]))
            assert answer == s, (first, second, how)
            for x in (scene.array, other):
                assert not drv.read(answer, x.address), (first, second, how)
            del kept, both


def check_a_tensor_answers_the_stream_of_its_data(drv: Any) -> None:
    scene = Scene(drv, "no keyword", "N")
    s = drv.stream_new(0, False, name="S")
    legacy = scene.vendor.legacy
    known = (s, legacy, None) if scene.vendor.is_hip else (s, legacy, None, 2)
    for how, stream in itertools.product(("owned", "borrowed"), known):
        tensor = dlshim.from_dlpack(
            dlshim.upgrade(scene.array, producer_stream=scene.p), stream=stream
        )
        drv.clear_log()
        for source in (tensor, dlshim.upgrade(tensor)):
            kept, _ = take(how, source)
            answer = scene.answer()
            assert answer == (None if stream in (legacy, None) else stream), (how, stream, answer)
            assert scene.kernel_is_synced() and scene.effects() == []
            del kept
        del tensor, source


def check_a_tensor_that_was_not_synced_is_synced_first(drv: Any) -> None:
    for how in ("owned", "borrowed"):
        scene = Scene(drv, "no keyword", "N")
        tensor = dlshim.from_dlpack(scene.array, stream=-1)
        kept, _ = take(how, tensor)
        assert scene.answer() is None and scene.kernel_is_synced()
        del kept, tensor


def check_the_answer_is_for_this_thread_and_device(drv: Any) -> None:
    scene = Scene(drv, "no keyword", "N")
    dlshim.upgrade(scene.array).__dlpack__(stream=-1)
    _kept = take("owned", scene.upgraded(producer_stream=scene.p))
    answers = []
    thread = threading.Thread(target=lambda: answers.append(scene.answer()))
    thread.start()
    thread.join()
    assert answers == [None]
    kind, number = scene.where
    other = vendors.CUDA if scene.vendor.is_hip else vendors.ROCM
    for elsewhere in ((kind, 1 - number), (1, 0), (other.device_type, 0)):
        assert PRODUCER.stream(elsewhere) is None, elsewhere
    assert scene.answer() == scene.p


def check_refusals_belong_to_the_export(drv: Any) -> None:
    """No edge is possible while a graph is captured: the export says so, the question never."""
    for how in ("owned", "borrowed"):
        scene = Scene(drv, "nanobind", "N")
        dlshim.upgrade(scene.array).__dlpack__(stream=-1)
        other = drv.stream_new(0, True, name="O")
        drv.capture_begin(other)
        with pytest.raises(BufferError, match="this export would break it"):
            take(how, scene.upgraded())
        assert drv.capture_state(other) == "active"
        scene.answer()
        drv.capture_end(other)


def check_host_memory_calls_no_driver(drv: Any) -> None:
    drv.clear_log()
    for source in (dlshim.upgrade(bytearray(8)), dlshim.from_dlpack(bytearray(8))):
        for how in ("owned", "borrowed"):
            take(how, source)
    assert drv.log(by="") == []


def check_empty_arrays_are_not_synced(drv: Any) -> None:
    scene = Scene(drv, "no keyword", "N")
    drv.clear_log()
    for how in ("owned", "borrowed") * 2:
        take(how, dlshim.upgrade(fake.NoKw(drv, shape=(0, 3)), unknown_stream="error"))
    assert scene.effects() == []


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), VARIANTS))
def test_work_stream(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
