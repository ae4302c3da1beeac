"""What is known of these libraries holds for the real ones: masks, values, booleans, autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlshim


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed here", exc_type=ImportError)


def test_a_mask_of_astropy_is_refused_and_both_cures_work() -> None:
    masked = library("astropy.utils.masked").Masked
    units = library("astropy.units")
    column = library("astropy.table").MaskedColumn([1.0, 2.0], mask=[0, 1])
    for x in (masked(np.arange(2.0), mask=[0, 1]), masked(np.arange(2.0) * units.m, mask=[0, 1])):
        with pytest.raises(BufferError, match=r"mask.*\n  .*x\.unmasked"):
            np.from_dlpack(dlshim.upgrade(x))
        assert np.from_dlpack(dlshim.upgrade(x.unmasked)).tolist() == [0, 1]
        np.from_dlpack(dlshim.upgrade(x.filled(0)))
    with pytest.raises(BufferError, match=r"mask.*\n  .*numpy\.ma\.getdata"):
        np.from_dlpack(dlshim.upgrade(column))
    assert np.from_dlpack(dlshim.upgrade(np.ma.getdata(column))).tolist() == [1, 2]
    visible = masked(np.arange(2.0), mask=False)
    assert np.from_dlpack(dlshim.upgrade(visible)).tolist() == [0, 1]


def test_an_array_of_drjit_is_a_value() -> None:
    library("drjit")
    scalar = library("drjit.scalar")
    x = scalar.TensorXf([1, 2, 3])
    assert not np.from_dlpack(x).flags.writeable, "without dlshim it is read-only too"
    assert not np.from_dlpack(dlshim.upgrade(x)).flags.writeable
    assert dlshim.from_dlpack(x).readonly


def test_booleans_of_onnxruntime_are_booleans() -> None:
    ort = library("onnxruntime")
    x = ort.OrtValue.ortvalue_from_numpy(np.array([True, False]))
    number = ort.OrtValue.ortvalue_from_numpy(np.array([1, 0], np.uint8))
    assert np.from_dlpack(dlshim.upgrade(x)).dtype == np.bool_
    assert np.from_dlpack(dlshim.upgrade(x)).tolist() == [True, False]
    assert np.from_dlpack(dlshim.upgrade(number)).dtype == np.uint8


def test_a_parameter_of_paddle_is_refused_as_it_is_bare() -> None:
    paddle = library("paddle")
    parameter = paddle.create_parameter([3], "float32")
    result = paddle.ones([3])
    result.stop_gradient = False
    for x in (parameter, result * 2):
        with pytest.raises(BufferError):
            np.from_dlpack(x)
        for _ in range(2):
            with pytest.raises(BufferError, match="requires grad"):
                np.from_dlpack(dlshim.upgrade(x))
        np.from_dlpack(dlshim.upgrade(x, detach=True))
    plain = paddle.ones([3])
    assert np.from_dlpack(dlshim.upgrade(plain)).tolist() == [1, 1, 1]


def test_jax_takes_read_only_memory_without_an_option() -> None:
    jnp = library("jax.numpy")
    x = np.arange(3, dtype=np.float32)
    x.flags.writeable = False
    with pytest.raises((BufferError, TypeError)):
        jnp.from_dlpack(x)
    assert jnp.from_dlpack(dlshim.upgrade(x)).tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match="readonly="):
        jnp.from_dlpack(dlshim.upgrade(x, readonly="error"))


def test_packed_elements_of_jax_are_never_offered_byte_by_byte() -> None:
    jnp = library("jax.numpy")
    x = jnp.array([0.5, 1, 1.5], jnp.float4_e2m1fn)
    with pytest.raises(BufferError, match="convert them") as error:
        np.from_dlpack(dlshim.upgrade(x))
    assert "reinterpret" not in str(error.value)
    with pytest.raises(BufferError, match="take 4"):
        np.from_dlpack(dlshim.upgrade(x, reinterpret="uint8"))
    assert np.from_dlpack(dlshim.upgrade(x.astype("float32"))).tolist() == [0.5, 1, 1.5]


def test_a_quantity_of_pint_is_looked_at_once(monkeypatch) -> None:
    pint = library("pint")
    looks: list[str] = []
    x = pint.UnitRegistry().Quantity(np.arange(3.0), "m")
    found = type(x).__getattr__

    def counted(self: Any, name: str) -> Any:
        looks.append(name)
        return found(self, name)

    monkeypatch.setattr(type(x), "__getattr__", counted)
    assert np.from_dlpack(dlshim.upgrade(x)).tolist() == [0, 1, 2]
    looks.clear()
    assert np.from_dlpack(dlshim.upgrade(x)).tolist() == [0, 1, 2]
    assert looks == ["__dlpack__"]
