"""Exports through our C table, and what current_work_stream answers (rule S21).

The table syncs nothing for a stream that it is not told: a consumer launches its kernel on the
stream that `current_work_stream` answers for the device of its first argument.
"""

from __future__ import annotations

import itertools
import threading

import pytest

import dlshim
from device import matrix
from device.matrix_run import CURRENT, MAKE, Calls, libraries, source_of, warm
from doubles import capsules as caps
from doubles import device as fake
from doubles.ctable import Table
from drivers import Driver, checks, run_checks

VARIANTS = ("13.0", "12.2")
PRODUCER, TENSOR = Table(dlshim.Producer), Table(dlshim.Tensor)
#: No stream in a dict of version 3 is the producer's word that nothing is unfinished: here a lie.
LIARS = ("cai 3, None", "cai 3, no key")
#: Taken for users of L, which is a convention and no proof (S11).
OF_L = tuple(name for name, producer in matrix.PRODUCERS.items() if producer.knows == "L")
SYNCED = [producer for producer in MAKE if producer not in LIARS]
#: Who can be asked for P, once they are known to be off the host.
KNOWN = (
    "torch",
    "torch 2.9",
    "torch 2.8",
    "cupy",
    "cupy 13",
    "tvm-ffi",
    "cupy's toDlpack",
    "table",
)


def take(how: str, source: object) -> tuple[object, caps.View]:
    """What keeps the memory, and what the consumer sees."""
    table = PRODUCER if type(source) is dlshim.Producer else TENSOR
    if how == "owned":
        owned = table.owned(source)
        return owned, owned.view
    return source, table.borrow(source)


class Scene:
    """An array with unfinished work on P, in a child's driver."""

    def __init__(self, drv: Driver, producer: str, p: str, device: int = 0) -> None:
        drv.reset()
        self.drv, self.producer, self.device = drv, producer, device
        self.context = drv.context(device)
        drv.set_current(self.context)
        self.p = {"L": 1, "PTDS": 2}.get(p) or drv.stream_new(device, p == "B", name="P")
        for current in CURRENT.values():
            current.handle = self.p
        self.array = MAKE[producer](drv, self.p, device=device)
        assert not drv.write(self.p, self.array.address)

    def upgraded(self, **options: object) -> object:
        return dlshim.upgrade(source_of(self.producer, self.array), **options)

    def kernel_is_synced(self) -> bool:
        """A read on the stream that is answered, NULL being the default stream."""
        stream = PRODUCER.stream((2, self.device)) or 1
        return not self.drv.read(stream, self.array.address, context=self.context)

    def effects(self) -> list[str]:
        calls = Calls(self.drv, self.drv.context_number(self.context))
        return [line for line in calls.effects() if line != "producer"]


@checks.only_on("13.0")
def check_a_kernel_on_the_answered_stream_is_synced(drv: Driver) -> None:
    """Every kind of producer, of P, device and way of asking: the first time and learned."""
    with libraries():
        warm(drv)
        for producer, p, device, how in itertools.product(
            SYNCED, matrix.P_KINDS, (0, 1), ("owned", "borrowed")
        ):
            if producer in OF_L and p == "N":
                continue
            scene = Scene(drv, producer, p, device)
            source = scene.upgraded()
            for time in range(2):
                kept, view = take(how, source)
                told = (producer, p, device, how, time)
                assert view.data == scene.array.address and view.device == (2, device), told
                assert scene.kernel_is_synced(), (told, drv.races())
                assert not drv.gil_held_calls(every=True), told
                del kept, view
            del source


def check_P_is_answered_where_it_is_known(drv: Driver) -> None:
    """Then nothing is synced, and what the kernel writes comes before the producer's next."""
    with libraries():
        warm(drv)
        for producer in KNOWN:
            dlshim.upgrade(source_of(producer, MAKE[producer](drv, 1))).__dlpack__(stream=-1)
        for producer, p, how in itertools.product(KNOWN, matrix.P_KINDS, ("owned", "borrowed")):
            scene = Scene(drv, producer, p)
            source = scene.upgraded()
            drv.clear_log()
            kept, _ = take(how, source)
            answer, told = PRODUCER.stream((2, 0)), (producer, p, how)
            assert answer == (None if scene.p == 1 else scene.p), told
            assert scene.effects() == [], (told, scene.effects())
            assert not drv.write(answer or 1, scene.array.address)
            assert not drv.write(scene.p, scene.array.address), told
            del kept, source


def check_the_user_may_name_P(drv: Driver) -> None:
    scene = Scene(drv, "no keyword", "N")
    dlshim.upgrade(scene.array).__dlpack__(stream=-1)  # known to be off the host from now on
    drv.clear_log()
    for how in ("owned", "borrowed"):
        kept, _ = take(how, scene.upgraded(producer_stream=scene.p))
        assert PRODUCER.stream((2, 0)) == scene.p and scene.effects() == []
        del kept


def check_the_option_stream_is_where_the_kernel_runs(drv: Driver) -> None:
    for producer, how in itertools.product(("cupy", "no keyword", "cai 3"), ("owned", "borrowed")):
        with libraries():
            scene = Scene(drv, producer, "N")
            s = drv.stream_new(0, False, name="S")
            options = {} if producer != "no keyword" else {"producer_stream": scene.p}
            kept, _ = take(how, scene.upgraded(stream=s, **options))
            assert PRODUCER.stream((2, 0)) == s and scene.kernel_is_synced()
            del kept


def check_arguments_of_two_libraries_are_given_one_stream(drv: Driver) -> None:
    """A consumer asks once, after its first argument: the option says the stream of all (S21)."""
    pairs = (("torch", "cupy"), ("cupy", "torch"), ("torch", "no keyword"), ("cai 3", "torch"))
    with libraries():
        warm(drv)
        for (first, second), how in itertools.product(pairs, ("owned", "borrowed")):
            scene = Scene(drv, first, "N")
            q = drv.stream_new(0, False, name="Q")
            for name, current in CURRENT.items():
                current.handle = q if name == second else scene.p
            other = MAKE[second](drv, q, device=0)
            assert not drv.write(q, other.address)
            s = drv.stream_new(0, False, name="S")
            both = [
                dlshim.upgrade(source_of(name, x), stream=s)
                for name, x in ((first, scene.array), (second, other))
            ]
            kept = [take(how, both[0])]
            answer = PRODUCER.stream((2, 0))
            kept.append(take(how, both[1]))
            assert answer == s, (first, second, how)
            for x in (scene.array, other):
                assert not drv.read(answer, x.address), (first, second, how)
            del kept, both


def check_a_tensor_answers_the_stream_of_its_data(drv: Driver) -> None:
    scene = Scene(drv, "no keyword", "N")
    s = drv.stream_new(0, False, name="S")
    for how, stream in itertools.product(("owned", "borrowed"), (s, 1, None, 2)):
        tensor = dlshim.from_dlpack(
            dlshim.upgrade(scene.array, producer_stream=scene.p), stream=stream
        )
        drv.clear_log()
        for source in (tensor, dlshim.upgrade(tensor)):
            kept, _ = take(how, source)
            answer = PRODUCER.stream((2, 0))
            assert answer == (None if stream in (1, None) else stream), (how, stream, answer)
            assert scene.kernel_is_synced() and scene.effects() == []
            del kept
        del tensor, source


def check_a_tensor_that_was_not_synced_is_synced_first(drv: Driver) -> None:
    for how in ("owned", "borrowed"):
        scene = Scene(drv, "no keyword", "N")
        tensor = dlshim.from_dlpack(scene.array, stream=-1)
        kept, _ = take(how, tensor)
        assert PRODUCER.stream((2, 0)) is None and scene.kernel_is_synced()
        del kept, tensor


def check_the_answer_is_for_this_thread_and_device(drv: Driver) -> None:
    scene = Scene(drv, "no keyword", "N")
    dlshim.upgrade(scene.array).__dlpack__(stream=-1)
    _kept = take("owned", scene.upgraded(producer_stream=scene.p))
    answers = []
    thread = threading.Thread(target=lambda: answers.append(PRODUCER.stream((2, 0))))
    thread.start()
    thread.join()
    assert answers == [None]
    assert PRODUCER.stream((2, 1)) is None and PRODUCER.stream((1, 0)) is None
    assert PRODUCER.stream((2, 0)) == scene.p


def check_refusals_belong_to_the_export(drv: Driver) -> None:
    """No edge is possible while a graph is captured: the export says so, the question never."""
    for how in ("owned", "borrowed"):
        scene = Scene(drv, "nanobind", "N")
        dlshim.upgrade(scene.array).__dlpack__(stream=-1)
        other = drv.stream_new(0, True, name="O")
        drv.capture_begin(other)
        with pytest.raises(
            BufferError, match="a graph capture is running, and this export would break it; "
        ):
            take(how, scene.upgraded())
        assert drv.capture_state(other) == "active"
        PRODUCER.stream((2, 0))
        drv.capture_end(other)


def check_host_memory_calls_no_driver(drv: Driver) -> None:
    drv.clear_log()
    for source in (dlshim.upgrade(bytearray(8)), dlshim.from_dlpack(bytearray(8))):
        for how in ("owned", "borrowed"):
            take(how, source)
    assert drv.log(by="") == []


def check_empty_arrays_are_not_synced(drv: Driver) -> None:
    scene = Scene(drv, "no keyword", "N")
    drv.clear_log()
    for how in ("owned", "borrowed") * 2:
        take(how, dlshim.upgrade(fake.NoKw(drv, 1, shape=(0, 3)), unknown_stream="error"))
    assert scene.effects() == []


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), VARIANTS))
def test_work_stream(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
