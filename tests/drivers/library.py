"""Compile fake drivers with warnings as errors, and run Python beside one of them."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from dlshim_testing.drivers import building as kit
from dlshim_testing.drivers.building import (
    ALL_LIVE,
    COMMON,
    CUDA,
    CUDA_LIVE,
    HERE,
    HIP,
    HIP_LIVE,
    HIP_VARIANTS,
    VARIANTS,
)
from doubles import child

__all__ = [
    "ALL_LIVE",
    "COMMON",
    "CUDA",
    "CUDA_LIVE",
    "HERE",
    "HIP",
    "HIP_LIVE",
    "HIP_VARIANTS",
    "VARIANTS",
    "build",
    "built",
    "compile_library",
    "compiler",
    "run_checks",
    "run_with_driver",
]

WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")


def compiler() -> str:
    """The C compiler; without one the test is skipped, or fails where DLSHIM_CI=1."""
    try:
        return kit.compiler()
    except kit.Unavailable as why:
        if os.environ.get("DLSHIM_CI") == "1":
            pytest.fail(f"required here: a C compiler, for the fake drivers ({why})")
        pytest.skip(str(why))


def compile_library(
    sources: Sequence[str], soname: str, defines: Sequence[str], folder: Path
) -> Path:
    compiler()
    return kit.compile_library(sources, soname, defines, folder, *WARNINGS)


def build(variant: str, folder: Path | str) -> Path:
    compiler()
    return kit.build(variant, folder, *WARNINGS)


def built(variant: str) -> Path:
    """The variant's library, compiled once in this process and removed at its end."""
    compiler()
    return kit.built(variant, *WARNINGS)


PRELUDE = """\
import sys
import drivers
drv = drivers.load_any({path!r})
arguments = {arguments!r}
"""


def run_with_driver(
    variant: str,
    code: str,
    *arguments: object,
    returncode: int = 0,
    timeout: float = child.HANGS,
) -> str:
    """Run `code` in a child in which the fake is mapped; return what it printed.

    The code finds ``drv``, the loaded :class:`~drivers.control.Driver` (for the variants of HIP
    :class:`~drivers.control.HipDriver`), not yet initialised, and
    ``arguments``, whatever was given (by ``repr``).  `returncode` says how the child has to end:
    ``-signal.SIGABRT`` for use that the fake does not bear.
    """
    prelude = PRELUDE.format(path=str(built(variant)), arguments=arguments)
    code = prelude + textwrap.dedent(code)
    return child.run(code, returncode=returncode, timeout=timeout)


CHECKS = """
from drivers import checks
checks.run(drv, *arguments)
"""


#: (variant, file): the checks that pytest has chosen, where it has collected (``device/conftest``).
chosen: dict[tuple[str, str], list[str]] = {}
_answers: dict[tuple[str, str], dict[str, str | None] | AssertionError] = {}


def run_checks(variant: str, file: str, timeout: float = child.HANGS) -> dict[str, str | None]:
    """Run the chosen ``check_*(drv)`` of a file in one child, each after ``drv.reset()``.

    Gives for each name None, or the traceback.  A check marked with ``checks.only_on`` runs on
    those variants alone.  The answer is kept, so ask as often as there are tests; a child that
    dies fails them all, and its output ends with the name of the check that was its last.
    """
    answer = _answers.get((variant, file))
    if answer is None:
        try:
            names = chosen.get((variant, str(file)))
            given = (variant, str(file), names)
            out = run_with_driver(variant, CHECKS, *given, timeout=timeout)
            answer = json.loads(out.splitlines()[-1])
        except AssertionError as failure:
            answer = failure
        _answers[variant, file] = answer
    if isinstance(answer, AssertionError):
        raise AssertionError(*answer.args)
    return answer
