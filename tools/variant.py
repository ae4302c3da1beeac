"""Builds the package with other flags than the wheel's into a folder of its own.

What tools/sanitize.py, coverage.py, debug.py and memcheck.py share.  The installed package is left
alone; the folder goes on sys.path, by PYTHONPATH or by a .pth file of an environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def build(
    folder: Path,
    flags: list[str],
    link_flags: list[str],
    *,
    asserts: bool,
    python: str = sys.executable,
) -> Path:
    """Makes folder/tree, a copy of the sources with what the compiler leaves there, and
    folder/site with the package, which is returned.  The interpreter needs setuptools."""
    tree, site = folder / "tree", folder / "site"
    leave_out = shutil.ignore_patterns(".git", ".nox", "build", "dist", "*.so", "*.egg-info")
    shutil.copytree(ROOT, tree, ignore=leave_out)
    env = {**os.environ, "CC": "gcc", "CFLAGS": " ".join(flags), "LDFLAGS": " ".join(link_flags)}
    env.pop("DLSHIM_ASSERT", None)
    if asserts:
        env["DLSHIM_ASSERT"] = "1"
    command = [python, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--target", str(site), str(tree)]
    if subprocess.run(command, env=env).returncode:
        sys.exit(f"the package does not build with {' '.join(flags)}")
    needs = subprocess.run(["nm", "-D", "-u", str(library(site))], capture_output=True, text=True)
    if ("__assert_fail" in needs.stdout) != asserts:
        sys.exit(f"the package was built {'without' if asserts else 'with'} the asserts")
    return site


def library(site: Path) -> Path:
    """The extension in a folder that build() has made."""
    (found,) = site.glob("dlshim/_core*.so")
    return found


def environment(folder: Path, python: str, packages: list[str]) -> str:
    """Makes an environment with these packages; returns its interpreter."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    inner = str(folder / "bin" / "python")
    command = [inner, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, "--only-binary=:all:", *packages], check=True)
    return inner


def put_into(environment: Path, site: Path) -> None:
    """Lets an environment find what build() has made, in its children with -I too."""
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "variant.pth").write_text(f"{site}\n")
