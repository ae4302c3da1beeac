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
