"""What the C code leaves to modules of shim/, where these cannot be imported or run out of memory.

python left_to_python.py CASE [ARGUMENT ...]    for tests/core/test_left_to_python.py
"""

import array
import builtins
import gc
import os
import sys

import dlshim
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


def as_usual():
    """Each refusal has its cure, and each copy is made."""
    words = {
        "stranger": "pass numpy.asarray(x) instead",
        "refused": "pass x.to_dense() instead",
        "wrapper": "pass x.to_local() instead",
    }
    for road in roads:
        error = told(road)
        assert words[road] in str(error) if road in words else error is None, error


def without_the_modules():
    for module in ("cures", "oneapi"):
        sys.modules[f"dlshim.{module}"] = None
    words = {
        "stranger": "pass an array instead",
        "refused": "it cannot be exported: RuntimeError: own",
        "wrapper": "no memory is behind it",
        "fetched": "no queue could be made for its device",
        "sent": "24 bytes to oneAPI device 0 failed",
        "read": "does not tell its device",
        "ordered": "synchronising SYCL queues failed",
    }
    for road in roads:
        before, error = live(), told(road)
        assert words[road] in str(error), (road, error)
        causes = {"refused": RuntimeError} | dict.fromkeys(copies, ImportError)
        assert isinstance(error.__cause__, causes.get(road, type(None))), road
        del error
        assert live() == before, road


def at_the_end(*imported):
    """In the finaliser of what goes after the modules; these roads import their module before."""
    for road in imported:
        told(road)

    class Late:
        def __del__(self, told=told, roads=roads, write=os.write):
            for road in roads:
                error = told(road)
                write(1, f"{road}: {type(error).__name__};".encode())

    builtins.late = Late()


def without_memory(road, most):
    """So many allocations fail, from each one on; what is printed is how often this was noticed."""
    from doubles.faults import attempt

    usual = str(told(road))
    gc.collect()
    before, failed, quiet, n = live(), 0, 0, 0
    while quiet < 5 and n < 500:
        error = attempt(roads[road], n, n + int(most))[1]
        quiet = quiet + 1 if str(error) == usual else 0
        failed += quiet == 0
        del error
        n += 1
    gc.collect()
    assert live() == before
    assert str(told(road)) == usual
    print(failed, flush=True)
    os._exit(0)


class Descriptor:
    def __get__(self, x, owner):
        return lambda **asked: dlshim.upgrade(array.array("i", [1, 2])).__dlpack__()


class Base:
    __dlpack__ = Descriptor()


def without_another_module():
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


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
