"""What the tests need of dpctl and dpnp, under the names that are the same in all releases.

The array library is `xp`: dpctl.tensor up to dpctl 0.21, since then dpnp.tensor.
"""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import dpctl
import dpctl.memory as usm
import dpctl.program
import numpy as np

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dpctl 0.21.1 says that this will move to dpnp
        import dpctl.tensor as xp

    dpnp: Any = None
except ImportError:
    import dpnp
    import dpnp.tensor as xp

Queue = dpctl.SyclQueue
KINDS_OF_MEMORY = ("device", "shared", "host")
MEMORY = {
    "device": usm.MemoryUSMDevice,
    "shared": usm.MemoryUSMShared,
    "host": usm.MemoryUSMHost,
}
VERSION = tuple(int(part) for part in metadata.version("dpctl").split(".")[:2])
HAS_DPNP = dpnp is not None
ONEAPI = 14

#: How arrays of the same memory are made and taken: the array library's way, and dpnp's own.
MAKERS: dict[str, Any] = {"usm_ndarray": lambda x: x}
CONSUMERS: dict[str, Any] = {"usm_ndarray": xp.from_dlpack}
if HAS_DPNP:
    MAKERS["dpnp_array"] = dpnp.dpnp_array.dpnp_array._create_from_usm_ndarray
    CONSUMERS["dpnp_array"] = dpnp.from_dlpack


def new_queue() -> Queue:
    return dpctl.SyclQueue()


def counting(shape: Any = (4, 6), dtype: str = "f4", **where: Any) -> Any:
    """Element k in row-major order is k."""
    size = int(np.prod(shape))
    return xp.reshape(xp.arange(size, dtype=dtype, **where), shape)


def values(x: Any) -> list[Any]:
    """On the host, waiting for whatever is unfinished, of arrays of every library here."""
    plain = x.get_array() if hasattr(x, "get_array") else x
    return np.asarray(xp.asnumpy(plain)).tolist()


def address(x: Any) -> int:
    """Of element zero."""
    plain = x.get_array() if hasattr(x, "get_array") else x
    return plain._pointer


class OnlyInterface:
    """Shows the interface of an array and hides its `__dlpack__`."""

    def __init__(self, of: Any, **changes: Any) -> None:
        self.of, self.changes = of, changes

    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]:
        return self.of.__sycl_usm_array_interface__ | self.changes


class OnlyDict:
    """A dict that somebody has written down."""

    def __init__(self, fields: dict[str, Any], keep: Any = None) -> None:
        self.__sycl_usm_array_interface__, self.keep = fields, keep


def memory(nbytes: int = 96, kind: str = "shared", queue: Any = None, dtype: str = "f4") -> Any:
    """A USM allocation whose elements of this dtype count up; it is not an array."""
    made = MEMORY[kind](nbytes, queue=queue or new_queue())
    made.copy_from_host(np.arange(nbytes // np.dtype(dtype).itemsize, dtype=dtype).view("u1"))
    return made


def fields(of: Any, **changes: Any) -> dict[str, Any]:
    """The dict of a memory object as float32, with these entries replaced or left out."""
    made = of.__sycl_usm_array_interface__
    made |= {"typestr": "|f4", "shape": (made["shape"][0] // 4,), "data": (made["data"][0], False)}
    made |= changes
    return {key: value for key, value in made.items() if value is not Ellipsis}


# --- sync -------------------------------------------------------------------------------

SOURCE = """
__kernel void write_behind_gate(__global volatile int *gate, __global int *x) {
    gate[0] = 1;
    while (gate[1] == 0) { }
    x[0] = 42;
}
__kernel void copy(__global const int *x, __global int *y) { y[0] = x[0]; }
"""
OLD, NEW = 7, 42
#: No test waits longer for anything.
PATIENCE = 20.0


class Gate:
    """A kernel that stays unfinished in a queue until somebody opens the gate, and then writes.

    Host code that is to run behind the kernel must wait for it to have started: the thread that
    waits for another queue would else pick it up itself, and never return. A thread of the gate's
    own waits for the kernel, and so runs it where the runtime has no worker awake: now and then
    the worker sleeps on, and then no kernel starts until somebody waits for it.
    """

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._flags = usm.MemoryUSMShared(64, queue=queue)
        self.memory = usm.MemoryUSMShared(64, queue=queue)
        self.array = xp.usm_ndarray((1,), dtype="i4", buffer=self.memory)
        self._gate = np.frombuffer(self._flags, dtype="i4")
        self._view = np.frombuffer(self.memory, dtype="i4")
        self._gate[:] = 0
        self._view[:] = OLD
        self._watchdog = threading.Timer(PATIENCE, self._give_up)
        self._runner = threading.Thread(target=queue.wait)
        self.gave_up = False

    def _give_up(self) -> None:
        self.gave_up = True
        self.open()

    def _kernel(self, queue: Queue, name: str) -> Any:
        return dpctl.program.create_program_from_source(queue, SOURCE).get_sycl_kernel(name)

    def __enter__(self) -> Gate:
        self._watchdog.start()
        kernel = self._kernel(self.queue, "write_behind_gate")
        self.queue.submit_async(kernel, [self._flags, self.memory], [1])
        self._runner.start()
        while self._gate[0] == 0 and not self.gave_up:
            time.sleep(0.0005)
        if self.gave_up:
            self.__exit__()
            raise AssertionError("the kernel does not start")
        return self

    def __exit__(self, *_: Any) -> None:
        self.open()
        self._watchdog.cancel()
        self._runner.join()

    @property
    def is_open(self) -> bool:
        return bool(self._gate[1])

    def open(self) -> None:
        self._gate[1] = 1

    def reader(self, queue: Queue) -> Reader:
        """Work of a consumer in `queue`: it copies what is there."""
        target = usm.MemoryUSMShared(64, queue=queue)
        np.frombuffer(target, dtype="i4")[:] = 0
        event = queue.submit_async(self._kernel(queue, "copy"), [self.memory, target], [1])
        return Reader(queue, event, target)

    @contextlib.contextmanager
    def must_wait(self) -> Any:
        """What runs inside may not come back before the gate is open, which it is in a while."""
        opener = threading.Timer(0.2, self.open)
        opener.start()
        try:
            yield
            assert self.is_open, "it did not wait for the unfinished work"
            assert self._view[0] == NEW
        finally:
            opener.cancel()
            opener.join()
        assert not self.gave_up


class Reader(SimpleNamespace):
    def __init__(self, queue: Queue, event: Any, target: Any) -> None:
        super().__init__(queue=queue, event=event, target=target)

    @property
    def done(self) -> bool:
        return self.event.execution_status == dpctl.event_status_type.complete

    def read(self) -> int:
        self.queue.wait()
        return int(np.frombuffer(self.target, dtype="i4")[0])
