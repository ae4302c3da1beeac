"""Compile fake drivers, and run Python beside one of them."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from doubles import child

HERE = Path(__file__).resolve().parent

#: The variants of libcuda.so.1, and what is defined for each.
VARIANTS: dict[str, tuple[str, ...]] = {
    "9.2": ("FAKE_VERSION=9020",),  # no captures, no pools, no cuGetProcAddress
    "12.2": ("FAKE_VERSION=12020",),  # no cuCtxRecordEvent
    "12.5": ("FAKE_VERSION=12050",),
    "13.0": ("FAKE_VERSION=13000",),  # other functions behind old names of cuGetProcAddress
    "stub": ("FAKE_STUB",),  # the toolkit's: 34 to everything
    "nodev": ("FAKE_NODEV",),  # cuInit gives 100
}

#: The variants of libamdhip64: the file's name and soname, and what is defined for each.
HIP_VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    # Memory types are 0 and 1, an unknown pointer or stream is an error.
    "hip5": ("libamdhip64.so.5", ("FAKE_VERSION=50221153",)),
    # Memory types are 1 and 2, an unknown pointer is told to be unregistered.
    "hip6": ("libamdhip64.so.6", ("FAKE_VERSION=60443484",)),
    # As 6, but that an unknown stream ends the process.
    "hip7": ("libamdhip64.so.7", ("FAKE_VERSION=70000000",)),
    "hip-nodev5": ("libamdhip64.so.5", ("FAKE_VERSION=50221153", "FAKE_NODEV=101")),
    "hip-nodev6": ("libamdhip64.so.6", ("FAKE_VERSION=60443484", "FAKE_NODEV=100")),
}

#: Those that have devices.
CUDA_LIVE = ("9.2", "12.2", "12.5", "13.0")
HIP_LIVE = ("hip5", "hip6", "hip7")
ALL_LIVE = (*CUDA_LIVE, *HIP_LIVE)

COMMON = ("front.c", "journal.c", "clock.c", "model.c", "shadow.c", "control.c")
CUDA = (
    "cuda.c",
    "cuda_context.c",
    "cuda_stream.c",
    "cuda_capture.c",
    "cuda_memory.c",
    "cuda_copy.c",
    "cuda_lookup.c",
)
HIP = ("hip.c", "hip_stream.c", "hip_memory.c")
FLAGS = (
    "-std=c11",
    "-g",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Werror",
    "-shared",
    "-fPIC",
    "-pthread",
)
LINK = ("-fvisibility=hidden", "-Wl,--no-undefined")


def compiler() -> str:
    """The C compiler; without one the test is skipped, or fails where DLSHIM_CI=1."""
    configured = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    found = next((cc for cc in (configured, "cc", "gcc", "clang") if shutil.which(cc)), None)
    if found is None:
        if os.environ.get("DLSHIM_CI") == "1":
            pytest.fail("required here: a C compiler, for the fake drivers")
        pytest.skip("no C compiler, which the fake drivers need")
    return found


def compile_library(
    sources: Sequence[str], soname: str, defines: Sequence[str], folder: Path
) -> Path:
    """One library in its own folder, under the name by which it is asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / soname
    command = [compiler(), *FLAGS, *LINK, f"-Wl,-soname,{soname}", "-o", str(target)]
    command += [f"-D{name}" for name in defines]
    command += [str(HERE / source) for source in sources]
    done = subprocess.run([*command, "-ldl"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return target


def build(variant: str, folder: Path | str) -> Path:
    """Compile a variant; the library lies in a folder of its own below `folder`."""
    if variant in HIP_VARIANTS:
        soname, defines = HIP_VARIANTS[variant]
        return compile_library([*COMMON, *HIP], soname, defines, Path(folder) / variant)
    defines = VARIANTS[variant]
    return compile_library([*COMMON, *CUDA], "libcuda.so.1", defines, Path(folder) / variant)


@functools.cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="fake-drivers-")
    owner = os.getpid()
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    return Path(folder)


@functools.cache
def built(variant: str) -> Path:
    """The variant's library, compiled once in this process and removed at its end."""
    return build(variant, _folder())


PRELUDE = """\
import sys
import drivers
drv = drivers.{load}({path!r})
arguments = {arguments!r}
"""


def run_with_driver(
    variant: str,
    code: str,
    *arguments: object,
    returncode: int = 0,
    timeout: float = 120,
) -> str:
    """Run `code` in a child in which the fake is mapped; return what it printed.

    The code finds ``drv``, the loaded :class:`~drivers.control.Driver` (for the variants of HIP
    :class:`~drivers.control.HipDriver`), not yet initialised, and
    ``arguments``, whatever was given (by ``repr``).  `returncode` says how the child has to end:
    ``-signal.SIGABRT`` for use that the fake does not bear.
    """
    load = "load_hip" if variant in HIP_VARIANTS else "load"
    prelude = PRELUDE.format(load=load, path=str(built(variant)), arguments=arguments)
    code = prelude + textwrap.dedent(code)
    return child.run(code, returncode=returncode, timeout=timeout)


CHECKS = """
from drivers import checks
checks.run(drv, *arguments)
"""


_answers: dict[tuple[str, str], dict[str, str | None] | AssertionError] = {}


def run_checks(variant: str, file: str, timeout: float = 300) -> dict[str, str | None]:
    """Run every ``check_*(drv)`` of a file in one child, each after ``drv.reset()``.

    Gives for each name None, or the traceback.  A check marked with ``checks.only_on`` runs on
    those variants alone.  The answer is kept, so ask as often as there are tests; a child that
    dies fails them all, and its output ends with the name of the check that was its last.
    """
    answer = _answers.get((variant, file))
    if answer is None:
        try:
            out = run_with_driver(variant, CHECKS, variant, str(file), timeout=timeout)
            answer = json.loads(out.splitlines()[-1])
        except AssertionError as failure:
            answer = failure
        _answers[variant, file] = answer
    if isinstance(answer, AssertionError):
        raise AssertionError(*answer.args)
    return answer
