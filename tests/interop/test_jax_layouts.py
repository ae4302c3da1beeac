"""Which layouts JAX takes (PACKAGES of habits.py), in the release that is here."""

from __future__ import annotations

import itertools

import pytest

import dlshim

np = pytest.importorskip("numpy", reason="NumPy is not in this environment")
pytest.importorskip("jax", reason="JAX is not in this environment")

import jax.dlpack  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from interop import versions  # noqa: E402

VERSION = versions.of("jax")
#: Before, functions take capsules, or ask from another module without a device question.
ASKS = VERSION >= (0, 4, 16)
FUNCTIONS = [jax.dlpack.from_dlpack] if ASKS else []
FUNCTIONS += [jnp.from_dlpack] if VERSION >= (0, 4, 26) else []


def memory(aligned):
    raw = np.zeros(1024 + 64, dtype="uint8")
    start = -raw.ctypes.data % 64 + (0 if aligned else 4)
    made = raw[start : start + 1024].view("float32")
    made[:] = np.arange(256)
    return made


def view(base, shape, strides, start=0):
    return np.lib.stride_tricks.as_strided(base[start:], shape, [4 * each for each in strides])


LAYOUTS = {
    "row-major": ((2, 3, 4), (12, 4, 1)),
    "no dimension": ((), ()),
    "one element": ((1,), (5,)),
    "no elements": ((3, 0, 2), (1, 99, 3)),
    "one row, a large stride": ((1, 3), (99, 1)),
    "column-major": ((2, 3), (1, 2)),
    "an extent of 1, a large stride": ((3, 1, 2), (1, 99, 3)),
    "an extent of 1, repeated": ((3, 1, 2), (1, 0, 3)),
    "an extent of 1, backwards": ((1, 3, 2), (-6, 1, 3)),
    "every second": ((4,), (2,)),
    "rows apart": ((2, 3), (5, 1)),
    "transposed, apart": ((2, 3), (1, 5)),
    "repeated": ((2, 3), (0, 1)),
    "one for all": ((2, 3), (0, 0)),
    "overlapping": ((3, 3), (1, 1)),
    "backwards": ((4,), (-1,), 10),
    "rows backwards": ((2, 3), (-3, 1), 10),
    "transposed, backwards": ((2, 3), (1, -2), 10),
}
AXES = {f"axes {axes}": axes for axes in itertools.permutations(range(3))}


def array(name, aligned):
    base = memory(aligned)
    if name in AXES:
        return base[:24].reshape(2, 3, 4).transpose(AXES[name])
    return view(base, *LAYOUTS[name])


EACH = pytest.mark.parametrize("name", [*LAYOUTS, *AXES])
ALIGNED = pytest.mark.parametrize("aligned", [True, False], ids=["aligned", "unaligned"])


def is_compact(x):
    pairs = sorted((step // 4, n) for step, n in zip(x.strides, x.shape, strict=True) if n > 1)
    expected = 1
    for step, n in pairs:
        if step != expected:
            return x.size == 0
        expected *= n
    return True


@EACH
@ALIGNED
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__module__)
def test_dlshim_refuses_what_jax_refuses_and_nothing_else(function, name, aligned):
    x = array(name, aligned)
    taken = True
    try:
        bare = np.asarray(function(x))
    except Exception as error:  # its class changed its name
        taken = False
        assert "UNIMPLEMENTED" in str(error)
    for wrap in (dlshim.upgrade, dlshim.from_dlpack):
        if is_compact(x):
            assert not taken or np.array_equal(np.asarray(function(wrap(x))), bare)
            continue
        assert not taken
        with pytest.raises(BufferError, match=r"jax takes no such memory\n  pass order=\"auto\""):
            function(wrap(x))


@EACH
@ALIGNED
def test_jax_computes_right_values_with_order_auto(name, aligned):
    x = array(name, aligned)
    functions = FUNCTIONS or [jnp.from_dlpack]
    for function in functions:
        y = function(dlshim.upgrade(x, order="auto"))
        assert y.shape == x.shape
        assert np.array_equal(np.asarray(y), x) and np.array_equal(np.asarray(y + 0), x)


@pytest.mark.skipif(VERSION < (0, 8), reason="JAX before 0.8 gets a copy of transposed arrays")
@EACH
def test_order_auto_shares_what_jax_takes(name):
    x = array(name, aligned=True)
    y = jnp.from_dlpack(dlshim.upgrade(x, order="auto"))
    if x.size:
        assert (y.unsafe_buffer_pointer() == x.ctypes.data) is is_compact(x)


@EACH
def test_other_roads_into_jax_take_every_layout(name):
    """They ask for an array of NumPy."""
    x = array(name, aligned=True)
    for options in ({}, {"order": "auto"}):
        upgraded = dlshim.upgrade(x, **options)
        for take in (jnp.asarray, jnp.array, lambda each: jax.device_put(np.asarray(each))):
            assert np.array_equal(np.asarray(take(upgraded)), x)
