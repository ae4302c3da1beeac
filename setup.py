"""Builds the one extension module; all metadata is in pyproject.toml.

FLOOR is the oldest CPython that the wheel serves. It drives the three things that must agree and
that nothing else ties together: the macro (which functions the headers offer), the file name
(`.abi3.so`) and the wheel's tag. A free-threaded interpreter has no such ABI, so there all three
are off and the wheel serves that one version.

Environment: DLSHIM_WERROR=1 makes warnings errors, DLSHIM_ASSERT=1 keeps the asserts (they are
absent from the wheel), CFLAGS replaces the optimisation (sanitizers, distributions), never the
hardening.
"""

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from glob import glob

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FLOOR = (3, 10)

if sys.implementation.name != "cpython":
    sys.exit(
        f"dlshim needs CPython, and this is {sys.implementation.name}. The C API of PyPy lacks "
        "PyInterpreterState_Get and PyInterpreterState_GetDict."
    )

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
LIMITED = not FREE_THREADED
MACROS = [
    ("Py_LIMITED_API", "0x%02x%02x0000" % FLOOR) if LIMITED
    else ("DLS_FREE_THREADED", "1")  # src/core/lock.h
]  # fmt: skip

GIVEN = os.environ.get("CFLAGS", "")
ASSERTS = "UNDEBUG" if os.environ.get("DLSHIM_ASSERT") else "DNDEBUG"


def hardening() -> list[str]:
    """The C library's checks need an optimised build, and get in the way of sanitizers."""
    level = re.findall(r"-O\S*", f"{sysconfig.get_config_var('CFLAGS')} {GIVEN}")[-1:]
    flags = ["-fstack-protector-strong"]
    if "_FORTIFY_SOURCE" not in GIVEN + os.environ.get("CPPFLAGS", ""):
        flags.append("-U_FORTIFY_SOURCE")
        checked = "-fsanitize" not in GIVEN and level not in ([], ["-O0"])
        flags += ["-D_FORTIFY_SOURCE=2"] * (checked or not GIVEN)
    return flags


if os.name == "nt":  # atomics need Visual Studio 2022 17.5 or newer
    COMPILE, LINK = ["/std:c11", "/experimental:c11atomics", f"/{ASSERTS}"], []
else:
    COMPILE = ["-std=c11", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wconversion", f"-{ASSERTS}"]
    COMPILE += hardening() + ([] if GIVEN else ["-O2", "-g0"])
    COMPILE += ["-Werror"] if os.environ.get("DLSHIM_WERROR") else []
    LINK = ["-Wl,-z,relro,-z,now"] if sys.platform == "linux" else []


class BuildExt(build_ext):
    """Links across files where the compiler can; drops the run path that some interpreters add."""

    def build_extensions(self) -> None:
        if sys.platform == "linux":
            linker = [word for word in self.compiler.linker_so if not word.startswith("-Wl,-rpath")]
            self.compiler.linker_so = linker
            if not GIVEN and links_across_files(linker):
                self.extensions[0].extra_compile_args += ["-flto"]
                self.extensions[0].extra_link_args += [*COMPILE, "-flto"]
        super().build_extensions()


def links_across_files(linker: list[str]) -> bool:
    """Whether a trial program links: clang needs a plug-in for GNU's linker."""
    with tempfile.TemporaryDirectory() as folder:
        line = [*linker, "-O2", "-flto", "-fPIC", "-x", "c", "-", "-o", f"{folder}/trial.so"]
        return not subprocess.run(line, input=b"int trial;", capture_output=True).returncode


NAMES = ["src/*/*.h", "src/*/*.def", "shim/include/dlshim.h"]
CORE = Extension("dlshim._core", sorted(glob("src/*/*.c")), include_dirs=["src", "shim/include"],
                 depends=sorted(file for name in NAMES for file in glob(name)),
                 define_macros=MACROS, py_limited_api=LIMITED,
                 extra_compile_args=COMPILE, extra_link_args=LINK)  # fmt: skip
TAG = {"bdist_wheel": {"py_limited_api": "cp%d%d" % FLOOR}} if LIMITED else {}
setup(cmdclass={"build_ext": BuildExt}, ext_modules=[CORE], options=TAG)
