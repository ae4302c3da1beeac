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
