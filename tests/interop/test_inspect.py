"""What ``inspect`` says of real consumers, beyond the cells of the matrix."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

import dlshim

np = pytest.importorskip("numpy", reason="NumPy is not in this environment")

FUNCTIONS = {
    "torch": "from_dlpack",
    "jax.numpy": "from_dlpack",
    "numpy": "from_dlpack",
    "tvm_ffi": "from_dlpack",
    "pyarrow": "Tensor.from_dlpack",
    "onnxruntime": "OrtValue.from_dlpack",
    "mlx.core": "from_dlpack",
    "warp": "from_dlpack",
    "nanoarrow": "c_buffer",
}


@pytest.mark.parametrize("module", FUNCTIONS)
def test_a_function_is_known_by_itself(module):
    """In a process of its own: some libraries cannot live beside others."""
    pytest.importorskip(module, reason=f"{module} is not in this environment")
    code = (
        "import importlib, operator, sys, dlshim\n"
        "module, name = sys.argv[1:]\n"
        "try: function = operator.attrgetter(name)(importlib.import_module(module))\n"
        "except AttributeError: sys.exit(3)\n"
        "told = dlshim.inspect(bytearray(4), consumer=function).verdicts\n"
        "print([verdict.consumer for verdict in told])"
    )
    line = [sys.executable, "-c", code, module, FUNCTIONS[module]]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip(f"this release of {module} has no {FUNCTIONS[module]}")
    assert done.stdout.splitlines()[-1:] == [f"[{module + '.' + FUNCTIONS[module]!r}]"], done.stderr


def test_a_tensor_that_requires_grad():
    torch = pytest.importorskip("torch", reason="torch is not in this environment")
    x = torch.ones(3, requires_grad=True)
    (verdict,) = dlshim.inspect(x, consumer="numpy").verdicts
    assert verdict.bare.result == verdict.upgraded.result == "refused"
    with pytest.raises((BufferError, RuntimeError, TypeError)):
        np.from_dlpack(x)
    assert "detach=True" in verdict.cure
    assert eval(verdict.cure, {"numpy": np, "dlshim": dlshim, "x": x}).tolist() == [1, 1, 1]
    upgraded = dlshim.upgrade(x, detach=True)
    (given,) = dlshim.inspect(upgraded, consumer="numpy", export=True).verdicts
    assert given.upgraded.result == "works"


@pytest.mark.parametrize("wide", ["0", "1"])
def test_jax_halves_elements_where_inspect_says_so(wide):
    """In a process of its own: the setting is read when jax is imported."""
    pytest.importorskip("jax.numpy", reason="jax is not in this environment")
    code = (
        "import numpy, jax, dlshim\n"
        "x = numpy.arange(3.)\n"
        "(verdict,) = dlshim.inspect(x, consumer='jax').verdicts\n"
        "print(verdict.bare.result, verdict.upgraded.result)\n"
        "print(jax.numpy.from_dlpack(x).dtype, jax.numpy.from_dlpack(dlshim.upgrade(x)).dtype)"
    )
    if importlib.import_module("jax").__version_info__ < (0, 4, 16):
        pytest.skip("this jax takes capsules only")
    env = os.environ | {"JAX_ENABLE_X64": wide, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    said, seen = (line.split() for line in done.stdout.splitlines()[-2:])
    assert seen == (["float64"] * 2 if wide == "1" else ["float32"] * 2), done.stderr
    assert said == (["works"] * 2 if wide == "1" else ["wrong"] * 2)


def test_a_consumer_of_capsules_refuses_the_object():
    tensorflow = pytest.importorskip("tensorflow", reason="tensorflow is not in this environment")
    x = np.arange(3, dtype="float32")
    (verdict,) = dlshim.inspect(x, consumer=tensorflow).verdicts
    with pytest.raises(TypeError):
        tensorflow.experimental.dlpack.from_dlpack(x)
    assert verdict.bare.raises == ("TypeError",)
    space = {"tensorflow": tensorflow, "dlshim": dlshim, "x": x}
    assert eval(verdict.cure, space).numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_a_layout_has_its_cure_whatever_jax_makes_of_the_dtype(dtype):
    jax = pytest.importorskip("jax.numpy", reason="jax is not in this environment")
    x = np.arange(6, dtype=dtype)[::2]
    (verdict,) = dlshim.inspect(x, consumer="jax").verdicts
    if "unknown" in (verdict.bare.result, verdict.upgraded.result):
        pytest.skip(f"this release of jax is not in the table: {verdict.why}")
    assert 'order="auto"' in verdict.cure
    space = {"jax": importlib.import_module("jax"), "dlshim": dlshim, "x": x}
    made = eval(verdict.cure, space)
    assert made.tolist() == [0, 2, 4]
    assert (made.dtype == x.dtype) == ("64 bits 32" not in verdict.what)
    assert jax.from_dlpack(dlshim.upgrade(x, order="auto")).dtype == made.dtype


def test_both_reasons_are_told_where_bare_and_upgraded_fail_for_others():
    pytest.importorskip("jax.numpy", reason="jax is not in this environment")
    x = np.broadcast_to(np.float32(3), (4,))
    (verdict,) = dlshim.inspect(x, consumer="jax").verdicts
    if verdict.bare.why == verdict.upgraded.why:
        pytest.skip(f"this release of jax takes it: {verdict.why}")
    both = f"{verdict.bare.why}; upgraded: {verdict.upgraded.why}"
    same = verdict.upgraded.why.startswith(verdict.bare.why)  # the rule stands behind
    assert verdict.why == (verdict.upgraded.why if same else both)
    assert "without gaps" in verdict.why and 'order="auto"' in verdict.cure


def test_read_only_memory_with_strides_has_one_cure_for_both():
    tensorflow = pytest.importorskip("tensorflow", reason="tensorflow is not in this environment")
    x = np.arange(6, dtype="float32")[::2]
    x.flags.writeable = False
    (verdict,) = dlshim.inspect(x, consumer=tensorflow).verdicts
    space = {"tensorflow": tensorflow, "dlshim": dlshim, "x": x}
    assert verdict.upgraded.result == "refused" and 'order="C"' in verdict.cure
    assert eval(verdict.cure, space).numpy().tolist() == [0, 2, 4]


@pytest.mark.parametrize("export", [False, True])
def test_an_array_that_jax_deleted(export):
    jax = pytest.importorskip("jax.numpy", reason="jax is not in this environment")
    x = jax.arange(4.0)
    x.delete()
    (verdict,) = dlshim.inspect(x, export=export, consumer="numpy.from_dlpack").verdicts
    with pytest.raises(Exception) as bare:
        np.from_dlpack(x)
    with pytest.raises(BufferError):
        np.from_dlpack(dlshim.upgrade(x))
    assert verdict.bare.result == verdict.upgraded.result == "refused"
    assert type(bare.value).__name__ in verdict.bare.raises
    assert "deleted" in verdict.why and verdict.cure == ""


@pytest.mark.parametrize("mask", [[False, True], True])
@pytest.mark.parametrize("export", [False, True])
def test_a_mask_that_hides_elements(mask, export):
    x = np.ma.MaskedArray([1.0, 2.0], mask=mask)
    (verdict,) = dlshim.inspect(x, export=export, consumer="numpy.from_dlpack").verdicts
    with pytest.raises(BufferError, match="mask"):
        np.from_dlpack(dlshim.upgrade(x))
    assert verdict.bare.result != "works"
    assert verdict.upgraded.result == "refused" and verdict.upgraded.by == "dlshim"
    assert "x.filled(" in verdict.why and verdict.cure == ""


@pytest.mark.parametrize("mask", [np.ma.nomask, [False, False], False])
def test_a_mask_that_hides_nothing(mask):
    x = np.ma.MaskedArray([1.0, 2.0], mask=mask)
    (verdict,) = dlshim.inspect(x, consumer="numpy.from_dlpack").verdicts
    assert verdict.upgraded.result == "works"
    assert np.from_dlpack(dlshim.upgrade(x)).tolist() == [1, 2]
