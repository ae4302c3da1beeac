"""Which HIP runtime: the copy that is mapped, the one that knows the pointer (rule S7).  Of CUDA's
driver there is one in a process; what both vendors have is in ``test_loading.py``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from project.debian_packages import NotHere, unpacked
from project.tree import REQUIRED

import dlshim
from device.test_loading import ABSENT, BEGIN, in_process, required_names
from doubles import child
from drivers import built

# --- its name -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.6.4.60443-abc"]
)
def test_the_file_may_be_called_otherwise_than_its_soname(name: str, tmp_path: Path) -> None:
    """Wheels of torch bundle torch/lib/libamdhip64.so with the soname of its release."""
    folder = tmp_path / "torch" / "lib"
    folder.mkdir(parents=True)
    shutil.copy(built("hip6"), folder / name)
    in_process(
        "rocm",
        f"""
import drivers
drv = drivers.load_hip({str(folder / name)!r})
drv.start()
edge(drv)
""",
    )


@pytest.mark.parametrize("name", ["amdhip64.so", "xlibamdhip64.so.6", "libamdhip.so.6"])
def test_other_files_are_no_runtime(name: str, tmp_path: Path) -> None:
    shutil.copy(built("hip6"), tmp_path / name)
    code = f"ctypes.CDLL({str(tmp_path / name)!r})\nuse.driver_calls_refused({ABSENT['rocm']!r})"
    in_process("rocm", code)


# --- several: tests/programs/hip_runtimes.py ----------------------------------------------


def with_two(case: str, first: str, second: str) -> None:
    child.program("hip_runtimes", case, built(first), built(second))


@pytest.mark.parametrize(
    ("first", "second"), [("hip5", "hip6"), ("hip6", "hip5"), ("hip7", "hip6"), ("hip6", "hip7")]
)
def test_of_several_runtimes_the_one_that_knows_the_pointer(first: str, second: str) -> None:
    with_two("the_one_that_knows_the_pointer", first, second)


@pytest.mark.parametrize(("first", "second"), [("hip5", "hip6"), ("hip6", "hip5")])
def test_no_error_is_left_in_the_runtime_that_does_not_know_the_pointer(
    first: str, second: str
) -> None:
    with_two("no_error_is_left", first, second)


@pytest.mark.parametrize(
    ("first", "second"), [("hip5", "hip6"), ("hip6", "hip7"), ("hip7", "hip5")]
)
def test_copies_with_several_runtimes(first: str, second: str) -> None:
    """On a stream of the runtime that knows the pointer; who has to be asked for the memory first
    is passed -1, and synced when the address is known."""
    with_two("copies", first, second)


@pytest.mark.parametrize(("first", "second"), [("hip5", "hip6"), ("hip6", "hip7")])
def test_copies_to_devices_with_several_runtimes(first: str, second: str) -> None:
    """By the runtime that knows the source, on its device and on another one."""
    with_two("copies_to_devices", first, second)


@pytest.mark.parametrize(("first", "second"), [("hip5", "hip6"), ("hip6", "hip7")])
def test_interfaces_with_several_runtimes(first: str, second: str) -> None:
    with_two("interfaces", first, second)


@pytest.mark.parametrize(("first", "second"), [("hip5", "hip6"), ("hip6", "hip7")])
def test_producers_of_several_runtimes_on_another_device(first: str, second: str) -> None:
    """CuPy records on the current device's stream, which is another one: a race that nobody
    sees.  torch refuses."""
    with_two("producers_on_another_device", first, second)


def test_two_copies_of_one_release(tmp_path: Path) -> None:
    shutil.copytree(built("hip6").parent, tmp_path / "copy")
    copy = tmp_path / "copy" / built("hip6").name
    child.program("hip_runtimes", "two_copies_of_one_release", built("hip6"), copy)


def test_a_second_runtime_that_comes_later() -> None:
    """It is looked for when no runtime that is known knows the pointer."""
    with_two("one_that_comes_later", "hip6", "hip5")


def test_the_stream_of_another_runtime_is_an_error_that_says_so() -> None:
    with_two("the_stream_of_another_runtime", "hip6", "hip5")


def test_cuda_and_rocm_in_one_process() -> None:
    with_two("cuda_and_rocm", "hip6", "13.0")


# --- Debian's real runtime ----------------------------------------------------------------

#: ROCm 5.2.3 and what it is linked with.
REAL = (
    *("libamdhip64-5", "libhsa-runtime64-1", "libhsakmt1", "libnuma1", "libelf1", "libdrm2"),
    "libdrm-amdgpu1",
)


@pytest.fixture(scope="module")
def real_runtime() -> Iterator[Path]:
    """The folder of AMD's libamdhip64.so.5 as Debian packages it: never kept, never committed."""
    if not REQUIRED and os.environ.get("DLSHIM_FETCH") != "1":
        pytest.skip("AMD's runtime is not here (DLSHIM_FETCH=1 gets it from Debian)")
    try:
        with unpacked(" ".join(REAL), "bookworm") as files:
            yield next(files.rglob("libamdhip64.so.5")).parent
    except NotHere as reason:
        pytest.skip(f"AMD's runtime cannot be had from Debian: {reason}")


def test_the_real_runtime_without_a_device(
    real_runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if Path("/dev/kfd").exists():
        pytest.skip("here is a device, and the subject is that there is none")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(real_runtime))
    in_process(
        "rocm",
        """
library = ctypes.CDLL("libamdhip64.so.5")
version, count = ctypes.c_int(), ctypes.c_int(9)
assert library.hipRuntimeGetVersion(ctypes.byref(version)) == 0
assert 50200000 <= version.value < 50300000, version
assert library.hipGetDeviceCount(ctypes.byref(count)) == 100 and count.value == 0
assert library.hipDeviceSynchronize() == 101
use.driver_calls_refused("finds no device")
use.other_calls_pass()
""",
    )


def test_the_real_runtime_has_every_function_that_must_be_there(
    real_runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(real_runtime))
    names = required_names("rocm")
    in_process(
        "rocm",
        f"library = ctypes.CDLL('libamdhip64.so.5')\nfor n in {names!r}: getattr(library, n)",
    )


#: ROCm 6.4 is built for a newer C library than this machine may have: it comes with its own.
REAL_6 = (
    *("libamdhip64-6", "libhsa-runtime64-1", "libnuma1", "libelf1t64", "libdrm2", "libzstd1"),
    *("libdrm-amdgpu1", "libamd-comgr3", "libc6", "libstdc++6", "libgcc-s1", "zlib1g"),
)


@pytest.fixture(scope="module")
def beside_real_6() -> Iterator[list[str]]:
    """The command that runs this Python by the loader of the suite that has libamdhip64.so.6."""
    if not REQUIRED and os.environ.get("DLSHIM_FETCH") != "1":
        pytest.skip("AMD's runtime is not here (DLSHIM_FETCH=1 gets it from Debian)")
    try:
        with unpacked(" ".join(REAL_6), "sid") as files:
            own = next(files.rglob("libamdhip64.so.6")).parent
            (loader, *_) = files.rglob("ld-linux-*.so.*")
            python = Path(sys.executable).resolve()
            paths = [str(own), str(python.parent.parent / "lib"), "/usr/lib", str(SYSTEM)]
            command = [str(loader), "--library-path", ":".join(paths), str(python)]
            probe = "import ctypes; ctypes.CDLL('libamdhip64.so.6')"
            done = subprocess.run([*command, "-c", probe], capture_output=True, check=False)
            if done.returncode:
                pytest.skip(f"this Python does not run by another loader: {done.stderr[-200:]!r}")
            yield command
    except NotHere as reason:
        pytest.skip(f"AMD's runtime 6 cannot be had from Debian: {reason}")


SYSTEM = Path("/usr/lib") / (sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu")


def test_the_real_runtime_6_without_a_device(beside_real_6: list[str]) -> None:
    if Path("/dev/kfd").exists():
        pytest.skip("here is a device, and the subject is that there is none")
    code = (
        BEGIN.format(name="rocm")
        + """
library = ctypes.CDLL("libamdhip64.so.6")
version, count = ctypes.c_int(), ctypes.c_int(9)
assert library.hipRuntimeGetVersion(ctypes.byref(version)) == 0
assert 60000000 <= version.value < 80000000, version
assert library.hipGetDeviceCount(ctypes.byref(count)) == 100 and count.value == 0
assert library.hipDeviceSynchronize() == 100
use.driver_calls_refused("finds no device")
use.other_calls_pass()
"""
        + f"for n in {required_names('rocm')!r}: getattr(library, n)\n"
    )
    paths = [child.TESTS, str(Path(dlshim.__file__).parent.parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [*beside_real_6, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
