"""The declarations of src/abi against the real cuda.h of CUDA 12.9 and 13.0.

Our lists (gpu_calls.h) are compiled with the toolkit's own types, and every
prototype is compared by a static assertion with what the header declares: a pass needs no run, and
no driver.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from project.tree import REQUIRED, ROOT, SRC, absent, compiler

#: CUDA release -> the small wheel that carries its cuda.h.
WHEELS = {
    "12.9": "nvidia-cuda-runtime-cu12==12.9.79",
    "13.0": "nvidia-cuda-runtime==13.0.96",
}
KEPT = ROOT / "build" / "cuda-headers"

PROGRAM = """
/* The old names of functions that a later release has moved to a macro, too. */
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#define GPU_STREAM CUstream
#define GPU_EVENT CUevent
#define GPU_CAPTURE_STATUS CUstreamCaptureStatus
#define GPU_CAPTURE_MODE CUstreamCaptureMode
#define GPU_CAPTURE_ID cuuint64_t
#include "abi/gpu_calls.h"

#define SAME(need, name, parameters)                                            \\
    _Static_assert(_Generic(&name, CUresult(CUDAAPI *) parameters: 1, default: 0), #name);
DLS_CUDA_CALL_LIST(SAME)
#define SHARED(need, member, cuda, hip, parameters) SAME(need, cuda, parameters)
DLS_GPU_CALL_LIST(SHARED)

#define EQUAL(ours, theirs, value) _Static_assert((int)theirs == (value), #theirs);
DLS_CUDA_CONSTANT_LIST(EQUAL)
#define SHARED_EQUAL(ours, cuda, hip, value) EQUAL(ours, cuda, value)
DLS_GPU_CONSTANT_LIST(SHARED_EQUAL)
"""

MEMBERS = (
    *("srcXInBytes", "srcY", "srcMemoryType", "srcHost", "srcDevice", "srcArray", "srcPitch"),
    *("dstXInBytes", "dstY", "dstMemoryType", "dstHost", "dstDevice", "dstArray", "dstPitch"),
    *("WidthInBytes", "Height"),
)


def download(wheel: str, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    done = subprocess.run(
        [*command, str(folder), wheel], capture_output=True, text=True, check=False
    )
    if done.returncode:
        absent(f"{wheel} cannot be downloaded: {done.stderr.strip().splitlines()[-1]}")


@pytest.fixture(scope="module", params=WHEELS)
def include(request: pytest.FixtureRequest) -> Path:
    """The folder with the real cuda.h of one release."""
    folder = KEPT / request.param
    if not list(folder.rglob("cuda.h")):
        if not REQUIRED and os.environ.get("DLSHIM_FETCH") != "1":
            absent(f"no cuda.h of CUDA {request.param} (DLSHIM_FETCH=1 gets it from PyPI)")
        download(WHEELS[request.param], folder)
    (header,) = folder.rglob("cuda.h")
    major, minor = request.param.split(".")
    assert f"#define CUDA_VERSION {int(major) * 1000 + int(minor) * 10}" in header.read_text()
    return header.parent


def errors_of(text: str, include: Path, folder: Path) -> str:
    source = folder / "check.c"
    source.write_text(text)
    command = [compiler(), "-std=c11", "-fsyntax-only", "-I", str(SRC), "-I", str(include)]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def test_every_prototype_and_constant_is_the_real_one(include: Path, tmp_path: Path) -> None:
    assert errors_of(PROGRAM, include, tmp_path) == ""


def test_a_wrong_prototype_and_a_wrong_constant_are_seen(include: Path, tmp_path: Path) -> None:
    wrong = (
        PROGRAM + "SAME(MUST, cuEventRecord, (CUevent, CUstream, int))\nEQUAL(x, CUDA_SUCCESS, 1)\n"
    )
    found = errors_of(wrong, include, tmp_path)
    assert "cuEventRecord" in found and "CUDA_SUCCESS" in found


def test_the_struct_of_pitched_copies_is_laid_out_as_theirs(include: Path, tmp_path: Path) -> None:
    ours = (SRC / "abi" / "gpu_calls.h").read_text()
    start = ours.index("typedef struct {\n    size_t srcXInBytes")
    end = ours.index("} CUDA_MEMCPY2D;")
    text = "#include <cuda.h>\n#include <stddef.h>\n" + ours[start:end] + "} our_copy;\n"
    for member in MEMBERS:
        text += (
            f"_Static_assert(offsetof(our_copy, {member}) == offsetof(CUDA_MEMCPY2D, {member}) && "
            f'sizeof(((our_copy *)0)->{member}) == sizeof(((CUDA_MEMCPY2D *)0)->{member}), "");\n'
        )
    text += '_Static_assert(sizeof(our_copy) == sizeof(CUDA_MEMCPY2D), "");\n'
    assert errors_of(text, include, tmp_path) == ""
