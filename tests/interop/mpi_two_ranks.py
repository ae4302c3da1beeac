"""Two MPI ranks exchange arrays of old producers, upgraded; run by test_mpi.py under mpirun.

Rank 0 sends, rank 1 receives into memory of the same producer, and both take part in a broadcast
and a reduction in place. Each rank checks every value it got, that nothing is left alive, and ends
with a line that the test counts.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import warp as wp
from mpi4py import MPI

import dlshim
import dlshim._core as core

DTYPES = ["int8", "uint16", "int32", "int64", "float32", "float64"]


class KeywordlessArray:
    """NumPy up to 2.0, or warp: `stream` only, answers legacy. mpi4py retries without keywords."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self._array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class LegacyAnswer(KeywordlessArray):
    """MLX or TensorFlow: takes every keyword and answers legacy all the same."""

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None) -> Any:
        return self._array.__dlpack__()


class NamelessDevice(KeywordlessArray):
    """Paddle: its device has no number."""

    def __dlpack_device__(self) -> tuple[int, None]:
        return (1, None)


@dataclass
class OldProducer:
    name: str
    make: Callable[[np.ndarray], Any]
    read: Callable[[Any], np.ndarray]
    writable: bool
    refused_bare: bool
    """mpi4py cannot take it as it is."""
    dtypes: tuple[str, ...] = tuple(DTYPES)


PRODUCERS = [
    OldProducer("keywordless", KeywordlessArray, lambda x: x._array, True, False),
    OldProducer("legacy answer", LegacyAnswer, lambda x: x._array, True, True),
    OldProducer("nameless device", NamelessDevice, lambda x: x._array, True, True),
    OldProducer("warp", lambda a: wp.array(a, device="cpu"), lambda x: x.numpy(), True, False),
    OldProducer("jax", jnp.asarray, np.asarray, False, True, ("int8", "int32", "float32")),
]


def refuses_to_send(x: Any) -> bool:
    """Sent to this rank itself: a message to no one is not looked at."""
    try:
        MPI.COMM_SELF.Sendrecv(x, dest=0, recvbuf=bytearray(4096), source=0)
    except (TypeError, ValueError, BufferError, KeyError):
        return True
    return False


def refuses_to_receive(x: Any) -> bool:
    try:
        MPI.COMM_SELF.Sendrecv(bytearray(1), dest=0, recvbuf=x, source=0)
    except (TypeError, ValueError, BufferError, KeyError):
        return True
    return False


def expect(got: np.ndarray, want: np.ndarray, what: str) -> None:
    if got.dtype != want.dtype or not np.array_equal(got, want):
        raise AssertionError(f"{what}: got {got!r}, want {want!r}")


def exchange(comm: MPI.Comm, producer: OldProducer, dtype: str) -> int:
    """One point-to-point message, one broadcast, one reduction; returns how many were checked."""
    what = f"{producer.name} {dtype}"
    payload = np.arange(1, 25, dtype=dtype).reshape(4, 6)
    empty = np.zeros_like(payload)

    sent = producer.make(payload)
    if refuses_to_send(sent) != producer.refused_bare:
        raise AssertionError(f"{what}: bare, mpi4py refuses it: {not producer.refused_bare}")
    if comm.rank == 0:
        comm.Send(dlshim.upgrade(sent), dest=1, tag=7)
    else:
        # Immutable producers cannot receive: their memory is shown read-only.
        target = producer.make(empty.copy()) if producer.writable else empty.copy()
        comm.Recv(dlshim.upgrade(target), source=0, tag=7)
        got = producer.read(target) if producer.writable else target
        expect(got, payload, f"{what} Send/Recv")
    if not producer.writable:
        if not refuses_to_receive(dlshim.upgrade(sent)):
            raise AssertionError(f"{what}: mpi4py would write into immutable memory")
        return 1

    shared = producer.make(payload.copy() if comm.rank == 0 else empty.copy())
    comm.Bcast(dlshim.upgrade(shared), root=0)
    expect(producer.read(shared), payload, f"{what} Bcast")

    total = producer.make(empty.copy())
    comm.Allreduce(dlshim.upgrade(shared), dlshim.upgrade(total), op=MPI.SUM)
    expect(producer.read(total), payload + payload, f"{what} Allreduce")
    return 3


def exchange_strided(comm: MPI.Comm) -> int:
    """MPI wants contiguous memory and asks for copy=False: a transposed array is copied before."""
    payload = np.arange(24, dtype="int32").reshape(4, 6)
    if comm.rank == 0:
        comm.Send(dlshim.from_dlpack(LegacyAnswer(payload.T), copy=True), dest=1, tag=8)
    else:
        target = np.zeros((6, 4), dtype="int32")
        comm.Recv(dlshim.upgrade(LegacyAnswer(target)), source=0, tag=8)
        expect(target, np.ascontiguousarray(payload.T), "transposed, copied before")
    return 1


def main() -> None:
    wp.config.quiet = True
    comm = MPI.COMM_WORLD
    if comm.size != 2:
        sys.exit(f"two ranks are wanted, there are {comm.size}")
    before = core._counters()
    done = sum(exchange(comm, p, dtype) for p in PRODUCERS for dtype in p.dtypes)
    done += exchange_strided(comm)
    gc.collect()
    after = core._counters()
    if after["live"] != before["live"]:
        raise AssertionError(f"{after['live'] - before['live']} exports are still alive")
    translated = after["translated"] - before["translated"]
    if not translated:
        raise AssertionError("nothing was translated")
    comm.Barrier()
    print(f"rank {comm.rank}: {done} exchanges checked, {translated} translated", flush=True)


if __name__ == "__main__":
    try:
        main()
    except BaseException as error:
        # The other rank waits for a message that will not come.
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        MPI.COMM_WORLD.Abort(1)
        raise
