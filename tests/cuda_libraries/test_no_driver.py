"""Real consumers of CUDA arrays in a process that has no driver at all, and
the end of the interpreter."""

from __future__ import annotations

import pytest
from cuda_libraries.real import VARIANTS

from doubles import child
from drivers import run_with_driver

#: A producer of CUDA memory whose address nobody reads, and what is mapped of the driver.
PRELUDE = """
import tvm_ffi, numpy as np
from cuda.core.utils import StridedMemoryView as View
import dlshim
from dlshim import _core
from doubles.producers import P1, P2

def drivers():
    return [line for line in open("/proc/self/maps") if "libcuda.so" in line]

def on_device(cls=P2, **keywords):
    return cls((2, 3), device=(2, 0), data=0x7F0000000000, **keywords)
"""


def run(code: str) -> str:
    return child.run(PRELUDE + code)


def test_cuda_core_passes_its_stream_on() -> None:
    """Why: a producer that syncs is handed the stream, and dlshim has no need of a driver."""
    run("""
x = on_device()
view = View.from_dlpack(dlshim.upgrade(x), stream_ptr=4242)
assert view.ptr == 0x7F0000000000 and view.shape == (2, 3) and view.device_id == 0
assert [asked.get("stream") for asked in x.keywords] == [4242], x.keywords
assert not drivers()
""")


def test_minus_one_looks_for_no_driver() -> None:
    """Why: whatever the producer, the consumer wants no sync."""
    run("""
for source in (on_device(), on_device(P1), on_device().__dlpack__(max_version=(1, 0))):
    view = View.from_dlpack(dlshim.upgrade(source), stream_ptr=-1)
    assert view.ptr == 0x7F0000000000
    assert tvm_ffi.from_dlpack(dlshim.upgrade(view, stream=-1)).data_ptr() == view.ptr
assert not drivers()
""")


def test_tvm_ffi_passes_no_stream() -> None:
    """Why: no stream means L; a producer whose stream nobody can tell is passed None (S3)."""
    run("""
x = on_device()
taken = tvm_ffi.from_dlpack(dlshim.upgrade(x))
assert taken.data_ptr() == 0x7F0000000000 and str(taken.device) == "cuda:0"
assert [asked.get("stream", "absent") for asked in x.keywords] == [None], x.keywords
assert not drivers()
""")


def test_a_sync_needs_a_driver() -> None:
    """Why: a capsule says nothing of its stream; without a driver that is an error, not a wish."""
    run("""
source = dlshim.upgrade(on_device().__dlpack__(max_version=(1, 0)))
try:
    View.from_dlpack(source, stream_ptr=4242)
except BufferError as error:
    assert "driver" in str(error) and "stream=-1" in str(error), error
else:
    raise AssertionError("unsynced")
assert View.from_dlpack(source, stream_ptr=-1).shape == (2, 3), "and the capsule can still be taken"
""")


def test_the_interpreter_ends_while_tvm_ffi_holds_an_array() -> None:
    """Why: tvm-ffi calls deleters while Python is shutting down (T10)."""
    out = run("""
_core._hook("hand_on", False)  # dlshim's own deleter, not the double's
kept = [tvm_ffi.from_dlpack(dlshim.upgrade(on_device()))]
kept.append(tvm_ffi.from_dlpack(dlshim.upgrade(np.arange(6.0))))
print("end")
""")
    assert out.split() == ["end"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_interpreter_ends_while_device_memory_is_shared(variant: str) -> None:
    """Why: at the end numba, cuda.core and tvm-ffi let go in any order, the driver may be gone,
    and the fake ends the process for a call with a handle that it does not know."""
    out = run_with_driver(
        variant,
        """
        drv.start()
        from cuda_libraries.real import Case, View, core, cuda, np, tvm_ffi
        import dlshim
        case = Case(drv)
        kept = [
            dlshim.upgrade(case.array),
            dlshim.from_dlpack(case.array, stream=case.S),
            View.from_dlpack(dlshim.upgrade(case.array), stream_ptr=case.s),
            tvm_ffi.from_dlpack(dlshim.upgrade(case.array)),
            cuda.as_cuda_array(dlshim.from_dlpack(case.array, stream=case.S)),
            np.from_dlpack(dlshim.upgrade(core.LegacyPinnedMemoryResource().allocate(64))),
        ]
        if drv.has("cuCtxRecordEvent"):
            kept.append(tvm_ffi.from_dlpack(dlshim.upgrade(case.array, on_release="guard")))
        dlshim.forgotten = kept  # lives as long as a module can
        print("end")
        """,
    )
    assert out.split() == ["end"]
