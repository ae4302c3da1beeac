"""Device memory where host memory, a dtype or a rank is wanted (K12)."""

from __future__ import annotations

from typing import Any

import pytest

import dlshim
from device.test_copies_to_devices import Case, on_device
from drivers import ALL_LIVE, checks, run_checks

seen: list[Any] = []


def look(x: Any) -> None:
    seen.append((x.device, x.dtype, x.is_copied))


def check_an_address_of_a_device_goes_into_no_kernel(drv: Any) -> None:
    case = Case(drv)
    for fields in ({}, {"shape": (3, 4), "strides": (1, 3)}):
        x = on_device(case, 0, **fields)
        kernel = dlshim.kernel(look, takes="tensor", dtypes="float32")
        for _ in range(2):
            with pytest.raises(
                BufferError, match=r"argument 'x': .* not on the host\n  pass"
            ) as error:
                kernel(x)
        assert seen == []
        cure = str(error.value).rpartition("pass ")[2]
        kernel(eval(cure, {"dlshim": dlshim, "x": x}))
        dlshim.kernel(look, takes="tensor", dtypes="float32", device="cpu")(x)
        dlshim.kernel(look, takes="tensor", dtypes="float32", device=None)(x)
        assert [device[0] for device, _, _ in seen] == [1, 1, case.want[0]]
        seen.clear()
    assert not drv.races()


def check_a_dtype_and_a_rank_on_a_device(drv: Any) -> None:
    case = Case(drv)
    x = on_device(case, 0)
    for takes in (None, "tensor", "capsule-1"):
        options: dict[str, Any] = {"device": None} if takes == "tensor" else {}
        kernel = dlshim.kernel(lambda x: None, takes=takes, dtypes="float32", ndims=2, **options)
        wrong = dlshim.kernel(lambda x: seen.append(x), takes=takes, dtypes="int8", **options)
        flat = dlshim.kernel(lambda x: seen.append(x), takes=takes, ndims=3, **options)
        for _ in range(2):
            kernel(x)
            with pytest.raises(TypeError, match=r"argument 'x': .* has dtype float32, not int8"):
                wrong(x)
            with pytest.raises(ValueError, match=r"argument 'x': .* has 2 dimensions, not 3"):
                flat(x)
    assert seen == []
    with pytest.raises(TypeError, match="has dtype float32, not int8"):
        dlshim.from_dlpack(x, dtypes="int8")
    with pytest.raises(dlshim.CopyRequiredError, match="needs a copy, and is not made unasked"):
        dlshim.from_dlpack(x, writable=True, device="cpu")
    assert dlshim.from_dlpack(x, writable=True, dtypes="float32").device == x.__dlpack_device__()


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ALL_LIVE))
def test_wanted_devices(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
