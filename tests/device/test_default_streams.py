"""Libraries that name no stream and work on the default one: RAPIDS, PyCUDA, numba (rule S11).

One edge from L, and nothing that concerns the whole device: no capture of another thread is ended.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

import dlshim
from device.matrix_run import Calls
from doubles import capsules as caps
from doubles import device as fake
from doubles.producers import masquerade
from drivers import Driver, checks, run_checks

VARIANTS = ("12.2", "13.0")


#: A class of each row, with the version of its dict.
CLASSES: dict[str, Any] = {
    "numba": fake.named(fake.NumbaLike),
    "numba record": masquerade(fake.NumbaLike, "DeviceRecord", "numba.cuda.cudadrv.devicearray"),
    "pycuda": fake.named(fake.PycudaLike),
    "rmm": fake.named(fake.RmmLike),
    "cudf buffer": masquerade(fake.RmmLike, "Buffer", "cudf.core.buffer.buffer"),
    "cudf spilling": masquerade(
        fake.CudfLike, "SpillableBufferCAIWrapper", "cudf.core.buffer.spillable_buffer"
    ),
    "cudf column": fake.named(fake.CudfColumn),
    "cudf mask": masquerade(fake.CudfColumn, "MaskCAIWrapper", "cudf.core.column.column"),
    "cudf series": masquerade(
        fake.CudfColumn, "SingleColumnFrame", "cudf.core.single_column_frame"
    ),
    "pylibcudf": fake.named(fake.PylibcudfLike),
    "pylibcudf column": masquerade(fake.PylibcudfLike, "OwnerWithCAI", "pylibcudf.column"),
    "pylibcudf mask": masquerade(fake.PylibcudfLike, "OwnerMaskWithCAI", "pylibcudf.column"),
    "cuml": masquerade(fake.Cai2, "CumlArray", "cuml.internals.array"),
    "pylibraft": fake.named(fake.RaftLike),
    "cuvs": fake.named(fake.CuvsLike),
}
EDGE = ["push C", "cuEventRecord L in C", "cuStreamWaitEvent S in C", "pop"]


class Scene:
    """An array whose last kernel is in P, and a side stream S that waits for nobody."""

    def __init__(self, drv: Driver, name: str, p: int = 1) -> None:
        drv.reset()
        self.drv, self.context = drv, drv.context(0)
        drv.set_current(self.context)
        # Whoever needs an event later finds one in the pool.
        warm = drv.stream_new(0, False)
        dlshim.upgrade(fake.NoKw(drv, 1), producer_stream=1).__dlpack__(stream=warm)
        self.s = drv.stream_new(0, False, name="S")
        self.array = CLASSES[name](drv, 1)
        self.p = p
        drv.clear_log()

    def export(self, **options: Any) -> list[str]:
        caps.take(dlshim.upgrade(self.array, **options).__dlpack__(stream=self.s)).release()
        return Calls(self.drv, self.drv.context_number(self.context)).effects()

    def races(self) -> bool:
        return self.drv.read(self.s, self.array.address)


def check_one_edge_from_the_default_stream(drv: Driver) -> None:
    for name in CLASSES:
        scene = Scene(drv, name)
        assert not scene.array.write()
        drv.clear_log()
        assert scene.export() == EDGE, name
        assert not scene.races(), name
    caps.close_accounts()


def check_the_per_thread_streams_of_all_threads_come_before(drv: Driver) -> None:
    """CUDF_PER_THREAD_STREAM=1, raft's resources, numba's CUDA_PER_THREAD_DEFAULT_STREAM=1."""
    for name in CLASSES:
        scene = Scene(drv, name)

        def work(scene: Scene = scene) -> None:
            drv.set_current(scene.context)
            assert not drv.write(2, scene.array.address)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert scene.export()[1:2] == EDGE[1:2], name
        assert not scene.races(), name
    caps.close_accounts()


def check_a_capture_in_another_thread_goes_on(drv: Driver) -> None:
    for name in CLASSES:
        scene = Scene(drv, name)
        assert not scene.array.write()
        captured = drv.stream_new(0, False, name="captured")
        thread = threading.Thread(target=drv.capture_begin, args=(captured, "relaxed"))
        thread.start()
        thread.join()
        scene.export()
        assert drv.capture_state(captured) == "active", name
        assert not scene.races(), name
        drv.capture_end(captured)
    caps.close_accounts()


def check_the_user_knows_better(drv: Driver) -> None:
    """A call that was given a stream: producer_stream says it."""
    for name in CLASSES:
        scene = Scene(drv, name)
        p = drv.stream_new(0, False, name="P")
        assert not drv.write(p, scene.array.address)
        drv.clear_log()
        assert scene.export(producer_stream=p)[1] == "cuEventRecord P in C", name
        assert not scene.races(), name
        assert scene.export(producer_stream=-1)[4:] == [], name
    caps.close_accounts()


def check_others_without_a_stream_are_as_before(drv: Driver) -> None:
    """The whole device for a dict before version 3; nothing for None in a later one."""
    for cls, effects in ((fake.Cai0, True), (fake.Cai2, True), (fake.Cai3, False)):
        drv.reset()
        drv.set_current(drv.context(0))
        array = cls(drv, 1, **({} if effects else {"entry": None}))
        drv.clear_log()
        dlshim.upgrade(array).__dlpack__(stream=drv.stream_new(0, False))
        whole = {"cuCtxRecordEvent", "cuCtxSynchronize"} & set(drv.calls(by=""))
        assert bool(whole) == effects, cls
    caps.close_accounts()


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), VARIANTS))
def test_default_streams(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
