"""Functions of flashinfer, CuTe DSL and Hugging Face Kernels with arrays of other libraries.

What runs on a CPU: functions for the host.  Nothing here is a double of ours.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dlshim

from .kernel_cases import Own, build

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not in this environment")


def old(values):
    """An array of a class whose `__dlpack__` is of 2021."""

    class Old:
        def __dlpack__(self, stream=None):
            return values.__dlpack__()

        def __dlpack_device__(self):
            return 1, 0

    return Old()


# ---- flashinfer --------------------------------------------------------------------------------


def include_folders(data: Path) -> list[Path]:
    packages = [Path(sys.executable).parents[1], *map(Path, sys.path)]
    cuda = [each / "nvidia" / "cu13" / "include" for each in packages]
    own = ["csrc", "include", "csrc/nv_internal", "csrc/nv_internal/include", "spdlog/include"]
    found = [*(data / each for each in own), *cuda, *(each / "cccl" for each in cuda)]
    return [each for each in found if each.is_dir()]


@pytest.fixture(scope="module")
def flashinfer(tmp_path_factory):
    """flashinfer's module of functions for FP4, without its kernels for GPUs.

    Of cuBLAS, which it does not call, the names of the errors are enough.
    """
    spec = importlib.util.find_spec("flashinfer")
    if spec is None:
        pytest.skip("flashinfer is not in this environment")
    data = Path(spec.submodule_search_locations[0], "data")  # importing it would need torch
    internal = data / "csrc" / "nv_internal"
    names = set()
    for header in (internal / "include").rglob("*.h"):
        names |= set(re.findall(r"CUBLAS_STATUS_[A-Z_]+", header.read_text()))
    folder = tmp_path_factory.mktemp("flashinfer")
    (folder / "cublas_v2.h").write_text(
        f"#pragma once\nenum cublasStatus_t {{ {', '.join(sorted(names))} }};\n"
    )
    (folder / "cublasLt.h").write_text('#include "cublas_v2.h"\n')
    config = [sys.executable, "-m", "tvm_ffi.config"]
    flags = [
        subprocess.run([*config, flag], capture_output=True, text=True, check=True).stdout.split()
        for flag in ("--cxxflags", "--ldflags", "--libs")
    ]
    sources = [internal / "tensorrt_llm" / "thop" / "fp4Op.cpp"]
    common = ("tllmException", "logger", "envUtils", "stringUtils")
    sources += [internal / "cpp" / "common" / f"{name}.cpp" for name in common]
    command = ["g++", "-std=c++17", "-fPIC", "-shared", "-Wl,-z,lazy", "-w", "-include", "cmath"]
    command += ["-DENABLE_BF16", "-DENABLE_FP8", "-DENABLE_FP4", f"-I{folder}"]
    command += [f"-I{each}" for each in include_folders(data)]
    library = folder / "fp4.so"
    command += [*flags[0], *map(str, sources), *flags[1], *flags[2], "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return tvm_ffi.load_module(str(library))


#: The values of FP4, by their four bits.
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], "f4")


@pytest.mark.parametrize("make", [lambda x: x, Own, old, dlshim.from_dlpack])
def test_flashinfer_s_own_function(flashinfer, make):
    """mxfp4_dequantize_host: two numbers a byte, and a scale for each 32 of them."""
    packed = np.random.default_rng(0).integers(0, 255, (4, 32), dtype="u1")
    scale = np.array([[127, 128], [126, 127], [130, 120], [127, 127]], "u1")  # 2 ** (x - 127)
    out = np.zeros((4, 64), "f4")
    halves = np.stack([packed & 15, packed >> 4], -1).reshape(4, 64)
    expected = FP4[halves] * np.repeat(2.0 ** (scale.astype("i4") - 127), 32, axis=1)
    k = dlshim.kernel(flashinfer.mxfp4_dequantize_host, writes=2)
    assert k(make(packed), make(scale), make(out), 32) is None
    assert np.array_equal(out, expected.astype("f4"))
    wide = np.zeros((4, 128), "u1")[:, ::2]
    with pytest.raises(RuntimeError, match="contiguous"):
        k(wide, scale, out, 32)
    with pytest.raises(RuntimeError, match="contiguous"):
        flashinfer.mxfp4_dequantize_host(wide, scale, out, 32)
    out[...] = 0
    rows = dlshim.kernel(flashinfer.mxfp4_dequantize_host, order="C")
    rows(np.repeat(packed, 2, axis=1)[:, ::2], make(scale), make(out), 32)
    assert np.array_equal(out, expected.astype("f4"))
    out.flags.writeable = False
    with pytest.raises(BufferError, match=r"argument 3: .*read-only"):
        k(packed, scale, out, 32)


# ---- CuTe DSL ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def add_ten():
    pytest.importorskip("cutlass.cute", reason="CuTe DSL is not in this environment")
    from .cute_function import add_ten

    return add_ten


def six(number=0.0):
    return np.full(6, number, "f4")


@pytest.mark.parametrize("make", [lambda x: x, Own, old, dlshim.from_dlpack])
def test_a_function_of_CuTe_DSL(add_ten, make):
    """It takes CuTe's own tensors alone."""
    with pytest.raises(Exception, match="expects argument"):
        add_ten(six(), six())
    k = dlshim.kernel(add_ten, takes="cutlass.cute.runtime", writes="b")
    out = six()
    assert k(make(six(1)), make(out)) is None
    assert (out == 11).all()
    out.flags.writeable = False
    with pytest.raises(BufferError, match=r"argument 'b': .*read-?only"):
        k(make(six()), make(out))


@pytest.mark.parametrize("make", [lambda x: x, Own, old, dlshim.from_dlpack])
def test_a_function_that_CuTe_DSL_has_compiled_for_tvm_ffi(add_ten, make):
    from cutlass import cute

    tensors = [cute.runtime.from_dlpack(six()) for _ in range(2)]
    compiled = cute.compile(add_ten, *tensors, options="--enable-tvm-ffi")
    out = six()
    dlshim.kernel(compiled, writes=1)(make(six(1)), make(out))
    assert (out == 11).all()
    compiled(dlshim.upgrade(make(six(2))), dlshim.upgrade(make(out)))
    assert (out == 12).all()


# ---- Hugging Face Kernels ----------------------------------------------------------------------


def test_a_kernel_that_Hugging_Face_s_package_has_loaded(tmp_path):
    """From a folder, as it is after a download: the variant for tvm-ffi and the CPU."""
    kernels = pytest.importorskip("kernels", reason="kernels is not in this environment")
    version = "".join(tvm_ffi.__version__.split(".")[:2])
    variant = tmp_path / "build" / f"tvm-ffi{version}-cpu-x86_64-linux"
    variant.mkdir(parents=True)
    told = {"name": "twice", "id": "_twice_1", "version": 1, "license": "MIT"}
    told |= {"python-depends": [], "backend": {"type": "cpu"}}
    (variant / "metadata.json").write_text(json.dumps(told))
    (variant / "__init__.py").write_text(
        "import pathlib, tvm_ffi\n"
        "there = pathlib.Path(__file__).with_name('kernel_tvm_ffi.so')\n"
        "twice = tvm_ffi.load_module(str(there)).twice\n"
    )
    build("kernel_tvm_ffi.cpp", variant)
    twice = kernels.get_local_kernel(tmp_path, backend="cpu").twice
    with pytest.raises(RuntimeError, match="has not been called"):
        twice(six(1))
    for x in (six(1), Own(six(1))):
        result = dlshim.kernel(twice)(x)
        assert type(result) is type(x) and (np.from_dlpack(dlshim.upgrade(result)) == 2).all()
