"""The stream of devices that dlshim does not synchronise, through the C table (rule S21).

Written after the C table of NPU builds of torch (torch_npu, as TileLang 0.1.15 installs it in
tilelang/ascend/torch_npu_exchange.pyx), whose `current_work_stream` names the stream of a device
that no driver here knows.  A consumer asks for the stream right after the export.
"""

from __future__ import annotations

import ctypes as C
import threading

import pytest

import dlshim
from doubles import capsules as caps
from doubles.ctable import Table
from doubles.producers import P2, TableMixin, c_table, table_capsule

#: OpenCL, Metal, kDLExtDev, oneAPI and kDLAscend.
DEVICE = pytest.mark.parametrize("device", [(code, 3) for code in (4, 8, 12, 14, 21)], ids=str)
STREAM = 0xABCD
PRODUCER, TENSOR = Table(dlshim.Producer), Table(dlshim.Tensor)

_CurrentStream = C.PYFUNCTYPE(C.c_int, C.c_int32, C.c_int32, C.c_void_p)


def _work_stream(device_type: int, device_id: int, out: int) -> int:
    Npu.asked.append((device_type, device_id))
    C.c_void_p.from_address(out).value = Npu.stream
    return Npu.code


_work_stream_c = _CurrentStream(_work_stream)
caps.keep_for_ever(_work_stream_c)


class Npu(TableMixin, P2):
    """A library of a device that dlshim does not know, with a stream of its own."""

    stream: int | None = STREAM
    code = 0
    asked: list[tuple[int, int]] = []
    __dlpack_c_exchange_api__ = table_capsule(
        c_table(current_work_stream=C.cast(_work_stream_c, C.c_void_p).value)
    )


class Silent(TableMixin, P2):
    """Its C table has no `current_work_stream`."""

    __dlpack_c_exchange_api__ = table_capsule(c_table(current_work_stream=None))


@pytest.fixture(autouse=True)
def _reset():
    Npu.stream, Npu.code, Npu.asked = STREAM, 0, []


def on(device: tuple[int, int], cls: type = Npu) -> object:
    return cls((3,), "float32", device=device)


def answer(source: object, how: str = "owned") -> int | None:
    """What the consumer of the C table takes for its stream after this argument."""
    table = Table(type(source))
    device = source.__dlpack_device__()
    if how == "owned":
        taken = table.owned(source)
        said = table.stream(device)
        taken.release()
        return said
    table.borrow(source)
    return table.stream(device)


@DEVICE
@pytest.mark.parametrize("how", ["owned", "borrowed"])
def test_the_answer_is_that_of_the_source(device, how):
    bare = Table(Npu).stream(device)
    assert bare == STREAM
    for _ in range(3):  # met, learned, again
        assert answer(dlshim.upgrade(on(device)), how) == bare
    assert set(Npu.asked) == {device}
    Npu.stream = 0xBEEF
    assert answer(dlshim.upgrade(on(device)), how) == 0xBEEF
    Npu.stream = None
    assert answer(dlshim.upgrade(on(device)), how) is None


@DEVICE
def test_a_source_that_names_none_has_the_default_one(device):
    assert answer(dlshim.upgrade(on(device))) == STREAM
    assert answer(dlshim.upgrade(on(device, Silent))) is None
    assert answer(dlshim.upgrade(on(device))) == STREAM
    assert answer(dlshim.upgrade(on(device, P2))) is None
    Npu.code = -1  # is passed on, as bare
    for table in (Table(Npu), Table(type(dlshim.upgrade(on(device))))):
        with pytest.raises(AssertionError):
            table.stream(device)


@DEVICE
@pytest.mark.parametrize("how", ["owned", "borrowed"])
def test_a_tensor_keeps_the_stream_of_its_source(device, how):
    tensor = dlshim.from_dlpack(on(device))
    again = dlshim.from_dlpack(tensor)
    Npu.stream = 0xBEEF
    assert answer(tensor, how) == STREAM
    assert answer(dlshim.upgrade(tensor), how) == STREAM
    assert answer(again, how) == STREAM
    assert answer(dlshim.from_dlpack(on(device, Silent)), how) is None


@DEVICE
def test_a_tensor_of_such_a_stream_goes_to_every_consumer(device):
    """The stream is said, and nothing is refused for it."""
    tensor = dlshim.from_dlpack(on(device))
    for stream in (None, -1):
        caps.take(tensor.__dlpack__(stream=stream, max_version=(1, 0))).release()


def test_an_option_names_the_stream():
    for device in ((12, 0), (21, 0)):
        assert answer(dlshim.upgrade(on(device), stream=0x77)) == 0x77
        assert answer(dlshim.upgrade(on(device), producer_stream=0x78)) == 0x78
        assert answer(dlshim.upgrade(on(device), stream=-1)) == STREAM  # names no stream


def test_the_answer_is_of_the_device_and_the_thread():
    source = dlshim.upgrade(on((21, 3)))
    assert answer(source) == STREAM
    assert [PRODUCER.stream(d) for d in ((21, 2), (12, 3), (1, 0), (21, 3))] == [
        None,
        None,
        None,
        STREAM,
    ]
    others = []
    thread = threading.Thread(target=lambda: others.append(PRODUCER.stream((21, 3))))
    thread.start()
    thread.join()
    assert others == [None]
    PRODUCER.owned(dlshim.upgrade(P2((3,), "float32"))).release()  # of the host: says nothing
    assert PRODUCER.stream((21, 3)) == STREAM


MET = pytest.mark.parametrize("met", [None, (1, 0), "device"], ids=["new", "host", "device"])


def export_once(cls: type, met: object, device: tuple[int, int]) -> object:
    """A Producer of a class that was met there."""
    producer = dlshim.upgrade(on(device, cls))
    if met is not None:
        caps.take(
            dlshim.upgrade(on(device if met == "device" else met, cls)).__dlpack__(
                stream=-1, max_version=(1, 0)
            )
        ).release()
    return producer


@DEVICE
@MET
@pytest.mark.parametrize("how", ["owned", "borrowed"])
def test_a_table_that_is_replaced_at_run_time_is_asked(device, met, how):
    """TileLang gives torch.Tensor another table when it is imported."""
    late = type("Late", (Silent,), {"__dlpack_c_exchange_api__": Silent.__dlpack_c_exchange_api__})
    made_before = export_once(late, met, device)
    late.__dlpack_c_exchange_api__ = Npu.__dlpack_c_exchange_api__
    for _ in range(3):
        assert answer(dlshim.upgrade(on(device, late)), how) == STREAM
        assert answer(made_before, how) == STREAM
    del late.__dlpack_c_exchange_api__  # that of the class before it, again
    assert answer(dlshim.upgrade(on(device, late)), how) == STREAM  # it has the home of before
    assert answer(dlshim.upgrade(on(device, late)), how) is None
    assert answer(made_before, how) is None


@DEVICE
@MET
def test_a_table_that_a_class_is_given_after_it_was_met_is_asked(device, met):
    """torch-c-dlpack-ext gives torch.Tensor its first one."""
    late = type("Late", (TableMixin, P2), {"__dlpack_c_exchange_api__": None})
    made_before = export_once(late, met, device)
    late.__dlpack_c_exchange_api__ = Npu.__dlpack_c_exchange_api__
    assert answer(dlshim.upgrade(on(device, late))) == answer(made_before) == STREAM
    late.__dlpack_c_exchange_api__ = None
    assert answer(dlshim.upgrade(on(device, late))) == STREAM  # it has the home of before
    assert answer(dlshim.upgrade(on(device, late))) is None


@MET
@pytest.mark.parametrize("name", ["__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"])
@pytest.mark.parametrize("on_base", [False, True], ids=["on the class", "on its base"])
def test_a_first_table_is_seen_by_a_type_that_was_learned(met, name, on_base):
    """Not even the name was there: the question for it, at each export off the host, is a cheap one
    that must still find it."""
    base = type("Base", (TableMixin, P2), {})
    late = type("Late", (base,), {})
    made_before = export_once(late, met, (12, 3))
    assert "C table" not in dlshim.inspect(on((12, 3), late)).plan
    assert answer(made_before) is None
    owner = base if on_base else late
    setattr(owner, name, Npu.__dlpack_c_exchange_api__)
    for _ in range(3):
        assert answer(dlshim.upgrade(on((12, 3), late))) == answer(made_before) == STREAM
    assert "C table" in dlshim.inspect(on((12, 3), late)).plan
    delattr(owner, name)
    assert answer(dlshim.upgrade(on((12, 3), late))) == STREAM  # it has the home of before
    assert answer(dlshim.upgrade(on((12, 3), late))) is answer(made_before) is None


def test_a_table_that_does_not_count_is_not_looked_at_again():
    """A class before its owner has a __dlpack__ of its own, so nothing is asked of it (N2)."""
    late = type("Late", (Npu,), {"__dlpack__": lambda self, **asked: Npu.__dlpack__(self, **asked)})
    assert "C table" not in str(dlshim.inspect(on((12, 0), late)).plan)
    for _ in range(3):
        assert answer(dlshim.upgrade(on((12, 0), late))) is None
    learned = dlshim.inspect(on((12, 0), late)).learned
    assert learned == dlshim.inspect(on((12, 0), late)).learned
