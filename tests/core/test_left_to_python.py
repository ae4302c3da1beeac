"""What the C code leaves to modules of shim/, where these cannot be imported or run out of memory:
the refusal comes, without its cure; nothing crashes, and no ImportError takes its place."""

from __future__ import annotations

import sys

import pytest

from doubles import child, gil

pytestmark = pytest.mark.once

HEAD = """
import os, sys
import dlshim
from dlshim import _core
from doubles import sycl
from doubles.asking import live, versioned
from doubles.producers import P1, P2, P1a, Raises, fresh
from doubles.sycl import Queue, SyclOnly

ONEAPI = (14, 0)
sys.modules["dpctl"], sys.modules["dpctl.memory"] = sycl.library(), sycl.memory_library()
wrapper = fresh(P2)
wrapper.to_local = lambda self: None
failing = fresh(Raises)
failing.to_dense = lambda self: None

def fetched():
    dlshim.from_dlpack(fresh(P1)((2, 3), device=ONEAPI), device="cpu")

def sent():
    dlshim.from_dlpack(P2(), device="oneapi")

def read():
    dlshim.from_dlpack(SyclOnly((2, 3), syclobj="0"), stream=-1)

def ordered():
    x = dlshim.upgrade(fresh(P1a)((2, 3), device=ONEAPI), producer_stream=Queue())
    versioned(x, stream=Queue()).release()

refusals = {
    "stranger": lambda: dlshim.upgrade([1]),
    "refused": lambda: versioned(dlshim.upgrade(failing(RuntimeError("own reason")))),
    "wrapper": lambda: versioned(dlshim.upgrade(wrapper((3,), data=None))),
}
copies = {"fetched": fetched, "sent": sent, "read": read, "ordered": ordered}
roads = refusals | copies

def told(road):
    try:
        roads[road]()
    except (BufferError, dlshim.UnsupportedObjectError) as error:
        return error
"""


def test_the_roads_lead_through_python() -> None:
    child.run(
        HEAD
        + """
words = {"stranger": "pass numpy.asarray(x) instead", "refused": "pass x.to_dense() instead",
         "wrapper": "pass x.to_local() instead"}
for road in roads:
    error = told(road)
    assert words[road] in str(error) if road in words else error is None, error
"""
    )


def test_without_the_module_the_refusal_comes_without_its_cure() -> None:
    child.run(
        HEAD
        + """
for module in ("cures", "oneapi"):
    sys.modules[f"dlshim.{module}"] = None
words = {"stranger": "pass an array instead", "refused": "it cannot be exported: RuntimeError: own",
         "wrapper": "no memory is behind it", "fetched": "no queue could be made for its device",
         "sent": "24 bytes to oneAPI device 0 failed", "read": "does not tell its device",
         "ordered": "synchronising SYCL queues failed"}
for road in roads:
    before, error = live(), told(road)
    assert words[road] in str(error), (road, error)
    causes = {"refused": RuntimeError} | dict.fromkeys(copies, ImportError)
    assert isinstance(error.__cause__, causes.get(road, type(None))), road
    del error
    assert live() == before, road
"""
    )


def test_while_the_interpreter_ends_too() -> None:
    """In the finaliser of what goes after the modules; the module is imported before, or not."""
    for first in ("", "told('stranger'), told('fetched')"):
        out = child.run(
            HEAD
            + f"""
{first}
class Late:
    def __del__(self, told=told, roads=roads, write=os.write):
        for road in roads:
            error = told(road)
            write(1, f"{{road}}: {{type(error).__name__}};".encode())

import builtins
builtins.late = Late()
"""
        )
        kinds = dict(part.split(": ") for part in out.strip(";\n").split(";"))
        assert kinds["stranger"] == "UnsupportedObjectError"
        assert kinds["refused"] == kinds["wrapper"] == "BufferError"
        assert {kinds[name] for name in ("fetched", "sent", "read", "ordered")} <= {
            "BufferError",
            "NoneType",
        }


@gil.lists_survive
@pytest.mark.parametrize("road", ["stranger", "refused", "wrapper", "fetched", "sent", "read"])
@pytest.mark.parametrize("last", ["n + 1", "n + 3000"], ids=["one fails", "all fail"])
def test_memory_may_run_out(road, last):
    """Nothing crashes, nothing is left, and the next time all is as usual.

    The doubles run out of memory, too, so the error may be another.
    """
    pytest.importorskip("_testcapi", reason="this Python has no hook for allocations")
    if sys.version_info >= (3, 12) and road != "stranger":
        pytest.skip("CPython from 3.12 on crashes in generators, with which the doubles are made")
    out = child.run(
        HEAD
        + f"""
import gc
from doubles.faults import attempt
road = {road!r}
usual = str(told(road))
gc.collect()
before, failed, quiet, n = live(), 0, 0, 0
while quiet < 5 and n < 500:
    error = attempt(roads[road], n, {last})[1]
    quiet = quiet + 1 if str(error) == usual else 0
    failed += quiet == 0
    del error
    n += 1
gc.collect()
assert live() == before
assert str(told(road)) == usual
print(failed, flush=True)
os._exit(0)
"""
    )
    assert int(out) > 3


def test_without_another_module_its_error_is_shown_and_nothing_is_left() -> None:
    child.run(
        HEAD
        + """
import array
from dlshim import decorator

class Descriptor:
    def __get__(self, x, owner):
        return lambda **asked: dlshim.upgrade(array.array("i", [1, 2])).__dlpack__()

class Base:
    __dlpack__ = Descriptor()

@dlshim.producer
class Fresh(Base):
    pass

x = array.array("i", [1, 2])
tensor = dlshim.from_dlpack(x)
asked = {
    "arrays": lambda: repr(dlshim.upgrade(x)),
    "dtypes": lambda: tensor.dtype,
    "decorator": lambda: dlshim.upgrade(Fresh()).__dlpack__(),
}
for module, ask in asked.items():
    sys.modules[f"dlshim.{module}"] = None
    before = live()
    try:
        ask()
    except (ImportError, BufferError) as error:
        assert f"import of dlshim.{module} halted" in str(error)
    else:
        raise AssertionError(module)
    assert live() == before, module
    versioned(dlshim.upgrade(x)).release()
"""
    )
