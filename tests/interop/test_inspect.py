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


def one(x, consumer):
    (verdict,) = dlshim.inspect(x, consumer=consumer).verdicts
    return verdict


def typed(verdict, x):
    """What the line to use gives in this process."""
    space = {name: importlib.import_module(name) for name in ("numpy", "dlshim")}
    head = verdict.consumer.partition(".")[0]
    return eval(verdict.cure, {**space, head: importlib.import_module(head), "x": x})


def test_a_tensor_that_requires_grad():
    torch = pytest.importorskip("torch", reason="torch is not in this environment")
    x = torch.ones(3, requires_grad=True)
    verdict = one(x, "numpy")
    assert verdict.bare.result == verdict.upgraded.result == "refused"
    assert "detach=True" in verdict.cure
    assert typed(verdict, x).tolist() == [1, 1, 1]
    assert one(dlshim.upgrade(x, detach=True), "numpy").bare.result == "works"


def test_torch_ends_the_process_on_negative_strides_or_takes_them():
    """The example of docs/guide.rst."""
    torch = pytest.importorskip("torch", reason="torch is not in this environment")
    x = np.arange(6.0)[::-1]
    verdict = one(x, torch.from_dlpack)
    assert verdict.bare.result in ("dies", "refused", "works")
    line = verdict.cure or verdict.bare.line
    made = eval(line, {"torch": torch, "dlshim": dlshim, "x": x})
    assert made.tolist() == [5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("wide", ["0", "1"])
def test_jax_halves_elements_where_inspect_says_so(wide):
    """In a process of its own: the setting is read when jax is imported."""
    pytest.importorskip("jax.numpy", reason="jax is not in this environment")
    code = (
        "import numpy, jax, dlshim\n"
        "x = numpy.arange(3.)\n"
        "(verdict,) = dlshim.inspect(x, consumer='jax.numpy.from_dlpack').verdicts\n"
        "print(verdict.bare.result, verdict.upgraded.result)\n"
        "print(jax.numpy.from_dlpack(x).dtype, jax.numpy.from_dlpack(dlshim.upgrade(x)).dtype)"
    )
    if importlib.import_module("jax").__version_info__ < (0, 4, 16):
        pytest.skip("this jax takes capsules only")
    env = os.environ | {"JAX_ENABLE_X64": wide, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    said, seen = (line.split() for line in done.stdout.splitlines()[-2:])
    assert seen == (["float64"] * 2 if wide == "1" else ["float32"] * 2), done.stderr
    assert said == (["works"] * 2 if wide == "1" else ["changes"] * 2)


def test_jax_is_read_only_and_torch_writes_to_it():
    """T8: the mark is lost bare and upgraded, and the line to use keeps x as it is."""
    torch = pytest.importorskip("torch", reason="torch is not in this environment")
    jax = pytest.importorskip("jax.numpy", reason="jax is not in this environment")
    x = jax.arange(4.0)
    verdict = one(x, torch.from_dlpack)
    assert "READ-ONLY" in verdict.what and "copy" in verdict.cure
    typed(verdict, x)[0] = 9
    assert x.tolist() == [0, 1, 2, 3]


def test_a_consumer_of_capsules_refuses_the_object():
    tensorflow = pytest.importorskip("tensorflow", reason="tensorflow is not in this environment")
    x = np.arange(3, dtype="float32")
    verdict = one(x, "tensorflow.experimental.dlpack.from_dlpack")
    with pytest.raises(TypeError):
        tensorflow.experimental.dlpack.from_dlpack(x)
    assert verdict.bare.raises == ("TypeError",) and "dlshim.to_capsule(" in verdict.cure
    assert typed(verdict, x).numpy().tolist() == [0, 1, 2]


def test_an_array_that_jax_deleted_cannot_be_made_anew():
    jax = pytest.importorskip("jax.numpy", reason="jax is not in this environment")
    x = jax.arange(4.0)
    x.delete()
    verdict = one(x, "numpy.from_dlpack")
    assert verdict.bare.result == "not tried" and "pickled" in verdict.why


@pytest.mark.parametrize("mask", [[False, True], True])
def test_a_mask_that_hides_elements(mask):
    x = np.ma.MaskedArray([1.0, 2.0], mask=mask)
    verdict = one(x, "numpy.from_dlpack")
    with pytest.raises(BufferError, match="mask"):
        np.from_dlpack(dlshim.upgrade(x))
    assert verdict.bare.result != "works"
    assert verdict.upgraded.result == "refused" and "x.filled(" in verdict.why
    assert verdict.cure == "" and "for a missing or hidden value" in str(verdict)


@pytest.mark.parametrize("mask", [np.ma.nomask, [False, False], False])
def test_a_mask_that_hides_nothing(mask):
    x = np.ma.MaskedArray([1.0, 2.0], mask=mask)
    assert one(x, "numpy.from_dlpack").upgraded.result == "works"


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
def test_a_library_without_a_row_can_be_asked_about(library):
    pytest.importorskip(library, reason=f"{library} is not in this environment")
    x = np.arange(4.0)
    verdict = one(x, library)
    assert verdict.version and verdict.bare.result != "not tried"
    assert verdict.bare.result == "works" or verdict.cure
