"""Our C table at tvm-ffi: it adopts the stream that `current_work_stream` answers.

What is asserted is that the work is synced: a kernel on the stream that tvm-ffi has made its own
reads nothing that is still being written.
"""

from __future__ import annotations

from typing import Any

import pytest
from cuda_libraries.real import KINDS, VARIANTS, Case, cases, stream, tvm_ffi

import dlshim
from drivers import Driver, checks, run_checks


def adopted(*arguments: Any) -> int:
    """The stream on which a function of tvm-ffi would launch its kernels."""
    seen: list[int] = []
    device = tvm_ffi.device("cuda", 0)
    function = tvm_ffi.convert(lambda *_: seen.append(tvm_ffi.get_raw_stream(device)))
    function(*arguments)
    return int(seen[0] or 1)


def check_arrays_of_numba(drv: Driver) -> None:
    """Why: the dict names P; the export leads its work into L, which the answer NULL names."""
    for p in KINDS:
        case = Case(drv, p)
        launch = adopted(dlshim.upgrade(case.array))
        assert not case.read(launch), (p, launch, drv.races())
        case.check(p)


def check_a_named_stream_is_adopted(drv: Driver) -> None:
    """Why: `stream=` says where the kernel runs, so nothing else has to be synced."""
    for p, s, case in cases(drv):
        launch = adopted(dlshim.upgrade(case.array, stream=case.s))
        assert launch == case.s and not case.read(launch), (p, s, launch, drv.races())
        case.check((p, s))


def check_a_tensor_is_on_its_stream(drv: Driver) -> None:
    """Why: a Tensor remembers where its data are ready, and no call is made for it again."""
    for p, s, case in cases(drv):
        tensor = dlshim.from_dlpack(case.array, stream=case.s)
        drv.clear_log()
        launch = adopted(tensor)
        assert launch == case.s and not case.read(launch), (p, s, launch, drv.races())
        assert case.syncs() == []
        case.check((p, s))


def check_a_user_may_name_the_producers_stream(drv: Driver) -> None:
    """Why: a capsule says nothing of P; then the kernel runs on P itself."""
    for p in KINDS:
        case = Case(drv, p)
        capsule = dlshim.to_capsule(case.array, stream=-1)
        source = dlshim.upgrade(capsule, producer_stream=stream(p, "P"))
        launch = adopted(source)
        assert launch == case.p and not case.read(launch), (p, launch, drv.races())
        assert case.syncs() == []


def check_host_memory_has_no_stream(drv: Driver) -> None:
    """Why: tvm-ffi asks for a stream only off the host."""
    drv.clear_log()
    case = Case(drv)
    assert adopted(dlshim.upgrade(case.data)) == 1
    assert case.syncs() == []


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), VARIANTS))
def test_table(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
