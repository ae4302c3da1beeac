"""The declarations of src/abi against the real hip_runtime_api.h of ROCm 5.2 and 6.4.

Our lists (gpu_calls.h) are compiled beside the real header, with its types, and
every prototype is compared by a static assertion with what it declares: a pass needs no run, and no
runtime.  The fake runtime is compiled against it, too, so that no test passes by a wrong prototype
of our own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from project.debian_packages import NotHere, unpacked
from project.tree import REQUIRED, ROOT, SRC, absent, compiler

from drivers import library

#: ROCm release -> Debian's suite whose libamdhip64-dev has it; sid moves, and what comes after 6.4
#: is as welcome.
SUITES = {"5.2": "bookworm", "6.4": "sid"}
KEPT = ROOT / "build" / "hip-headers"

BESIDE = """
#include <hip/hip_runtime_api.h>
#define GPU_STREAM hipStream_t
#define GPU_EVENT hipEvent_t
#define GPU_CAPTURE_STATUS hipStreamCaptureStatus
#define GPU_CAPTURE_MODE hipStreamCaptureMode
#define GPU_CAPTURE_ID unsigned long long
#include "abi/gpu_calls.h"
"""
PROGRAM = (
    BESIDE
    + """
#define SAME(need, result, name, parameters)                                    \\
    _Static_assert(_Generic(&name, result(*) parameters: 1, default: 0), #name);
DLS_HIP_CALL_LIST(SAME)
#define SHARED(need, member, cuda, hip, parameters) SAME(need, hipError_t, hip, parameters)
DLS_GPU_CALL_LIST(SHARED)

#define EQUAL(ours, theirs, value) _Static_assert((int)theirs == (value), #theirs);
DLS_HIP_CONSTANT_LIST(EQUAL)
#define SHARED_EQUAL(ours, cuda, hip, value) EQUAL(ours, hip, value)
DLS_GPU_CONSTANT_LIST(SHARED_EQUAL)
"""
)
#: hipMemoryType of a release: ours -> theirs.
MEMORY_TYPES = {
    "5.2": {"HIP_5_HOST": "hipMemoryTypeHost", "HIP_5_DEVICE": "hipMemoryTypeDevice"},
    "6.4": {
        "HIP_6_UNREGISTERED": "hipMemoryTypeUnregistered",
        "HIP_6_HOST": "hipMemoryTypeHost",
        "HIP_6_DEVICE": "hipMemoryTypeDevice",
    },
}
MEMBERS = ("device", "devicePointer", "hostPointer", "isManaged", "allocationFlags")
#: The member that says the type was called otherwise before 6.0.
TYPE_MEMBER = {"5.2": "memoryType", "6.4": "type"}


def version(folder: Path) -> tuple[int, ...]:
    text = (folder / "hip" / "hip_version.h").read_text()
    return tuple(map(int, re.findall(r"#define HIP_VERSION_(?:MAJOR|MINOR) +(\d+)", text)))


def download(release: str, folder: Path) -> None:
    try:
        with unpacked("libamdhip64-dev", SUITES[release]) as files:
            folder.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(files / "usr" / "include", folder)
    except NotHere as reason:
        absent(f"hip_runtime_api.h of ROCm {release} cannot be had from Debian: {reason}")


@pytest.fixture(scope="module", params=SUITES)
def release(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def include(release: str) -> Path:
    """The folder with the real hip/hip_runtime_api.h of the release."""
    folder = KEPT / release
    if not (folder / "hip" / "hip_runtime_api.h").is_file():
        if not REQUIRED and os.environ.get("DLSHIM_FETCH") != "1":
            absent(f"no hip_runtime_api.h of ROCm {release} (DLSHIM_FETCH=1 gets it from Debian)")
        download(release, folder)
    found = version(folder)
    assert found == (5, 2) if release == "5.2" else found >= (6, 4), found
    return folder


def compiled(source: Path, include: Path, *options: str) -> str:
    """The compiler's complaints."""
    command = [compiler(), "-std=c11", "-fsyntax-only", "-D__HIP_PLATFORM_AMD__", *options]
    command += ["-I", str(SRC), "-isystem", str(include), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def errors_of(text: str, include: Path, folder: Path) -> str:
    source = folder / "check.c"
    source.write_text(text)
    return compiled(source, include)


def test_every_prototype_and_constant_is_the_real_one(include: Path, tmp_path: Path) -> None:
    assert errors_of(PROGRAM, include, tmp_path) == ""


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            "SAME(MUST, hipError_t, hipEventRecord, (hipEvent_t, hipStream_t, int))",
            "hipEventRecord",
        ),
        ("SAME(MUST, int *, hipGetStreamDeviceId, (hipStream_t))", "hipGetStreamDeviceId"),
        (
            "SAME(MUST, hipError_t, hipMemcpyAsync, (void *, const void *, size_t, hipStream_t))",
            "hipMem",
        ),
        ("SAME(MUST, hipError_t, hipNoSuchThing, (void))", "hipNoSuchThing"),
        ("EQUAL(x, hipErrorNoDevice, 101)", "hipErrorNoDevice"),
        ("EQUAL(x, hipMemcpyDeviceToHost, 1)", "hipMemcpyDeviceToHost"),
    ],
)
def test_what_is_wrong_is_seen(wrong: str, told: str, include: Path, tmp_path: Path) -> None:
    assert told in errors_of(f"{PROGRAM}{wrong}\n", include, tmp_path)


def memory_types(named: dict[str, str]) -> str:
    lines = [
        f'_Static_assert((int){ours} == (int){real}, "{ours}");' for ours, real in named.items()
    ]
    return BESIDE + "\n".join(lines)


def test_the_types_of_memory_of_the_release(release: str, include: Path, tmp_path: Path) -> None:
    assert errors_of(memory_types(MEMORY_TYPES[release]), include, tmp_path) == ""


def test_the_types_of_memory_are_not_those_of_the_other_release(
    release: str, include: Path, tmp_path: Path
) -> None:
    other = {"5.2": "6.4", "6.4": "5.2"}[release]
    shared = {"hipMemoryTypeHost", "hipMemoryTypeDevice"}
    for ours, real in MEMORY_TYPES[other].items():
        if real in shared:
            assert ours in errors_of(memory_types({ours: real}), include, tmp_path), ours


def struct_of_ours() -> str:
    text = (SRC / "abi" / "gpu_calls.h").read_text()
    end = text.index("} hipPointerAttribute_t;")
    start = text.rindex("typedef struct {", 0, end)
    return text[start:end] + "} our_facts;\n"


def layout(pairs: list[tuple[str, str]]) -> str:
    text = "#include <hip/hip_runtime_api.h>\n#include <stddef.h>\n" + struct_of_ours()
    for ours, real in pairs:
        text += (
            f"_Static_assert(offsetof(our_facts, {ours}) == offsetof(hipPointerAttribute_t, {real})"
            f" && sizeof(((our_facts *)0)->{ours}) == sizeof(((hipPointerAttribute_t *)0)->{real}),"
            f' "{ours}");\n'
        )
    return text + '_Static_assert(sizeof(our_facts) == sizeof(hipPointerAttribute_t), "size");\n'


def test_what_pointers_tell_is_laid_out_as_theirs(
    release: str, include: Path, tmp_path: Path
) -> None:
    pairs = [("type", TYPE_MEMBER[release]), *((name, name) for name in MEMBERS)]
    assert errors_of(layout(pairs), include, tmp_path) == ""
    assert "device" in errors_of(layout([("device", "devicePointer")]), include, tmp_path)


def test_the_fake_runtime_has_the_real_prototypes(release: str, include: Path) -> None:
    variant = {"5.2": "hip5", "6.4": "hip6"}[release]
    defines = library.HIP_VARIANTS[variant][1]
    options = [f"-D{name}" for name in (*defines, "FAKE_REAL_HEADER=<hip/hip_runtime_api.h>")]
    for source in library.HIP:
        assert compiled(library.HERE / source, include, *options) == "", source
    wrong = "-DhipGetStreamDeviceId=hipStreamGetFlags"
    assert "hipStreamGetFlags" in compiled(library.HERE / "hip_stream.c", include, *options, wrong)
