"""Compile the fake drivers."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

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

COMMON = (
    *("front.c", "journal.c", "clock.c", "model.c", "queue.c", "turns.c", "shadow.c", "control.c"),
)
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
FLAGS = ("-std=c11", "-g", "-fPIC", "-pthread", "-fvisibility=hidden")
LINK = ("-shared", "-Wl,--no-undefined")


class Unavailable(Exception):
    """No fake driver can be built here; the text says why."""


def compiler() -> str:
    """The C compiler's command: the one that CC names, else Python's own, else a usual one."""
    if not sys.platform.startswith("linux"):
        raise Unavailable(f"the fake drivers are built on Linux, and this is {sys.platform}")
    if named := os.environ.get("CC", "").split()[:1]:
        if not shutil.which(named[0]):
            raise Unavailable(
                f"the variable CC names {named[0]!r}, and there is no such command: "
                "let it name a C compiler, or unset it"
            )
        return named[0]
    usual = (sysconfig.get_config_var("CC") or "cc").split()[:1]
    found = next((cc for cc in (*usual, "cc", "gcc", "clang") if shutil.which(cc)), None)
    if found is None:
        raise Unavailable("no C compiler, which the fake drivers need")
    return found


def _compile(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"the C compiler failed: {' '.join(command)}\n{done.stderr}")


def compile_library(
    sources: Sequence[str | Path], soname: str, defines: Sequence[str], folder: Path, *flags: str
) -> Path:
    """One library in its own folder, under the name by which it is asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / soname
    command = [compiler(), *FLAGS, *flags, *LINK, f"-Wl,-soname,{soname}", "-o", str(target)]
    command += [f"-D{name}" for name in defines]
    _compile([*command, *(str(HERE / source) for source in sources), "-ldl"])
    return target


@functools.cache
def _common(*flags: str) -> Path:
    """The object file of COMMON, which is the same in all variants."""
    objects = _folder() / f"common{''.join(flags)}.o"
    command = [compiler(), *FLAGS, *flags, "-r", "-nostdlib", "-o", str(objects)]
    _compile([*command, *(str(HERE / source) for source in COMMON)])
    return objects


def build(variant: str, folder: Path | str, *flags: str) -> Path:
    """Compile a variant; the library lies in a folder of its own below `folder`."""
    if variant in HIP_VARIANTS:
        soname, defines = HIP_VARIANTS[variant]
        sources = (_common(*flags), *HIP)
    else:
        soname, defines = "libcuda.so.1", VARIANTS[variant]
        sources = (_common(*flags), *CUDA)
    return compile_library(sources, soname, defines, Path(folder) / variant, *flags)


@functools.cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="fake-drivers-")
    owner = os.getpid()
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    return Path(folder)


@functools.cache
def built(variant: str, *flags: str) -> Path:
    """The variant's library, compiled once in this process and removed at its end."""
    return build(variant, _folder(), *flags)
