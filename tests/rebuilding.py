"""An editable install (``pip install -e .``) is built anew where a file of C is newer."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def rebuild(root: Path = ROOT) -> bool:
    """Build the extension in place if dlshim is imported from the tree and older than its sources.

    Returns whether it was built.
    """
    package = find_spec("dlshim")
    folders = package and package.submodule_search_locations
    if not folders or root / "shim" not in map(Path, folders):
        return False
    built = max((file.stat().st_mtime for file in (root / "shim").glob("_core*.so")), default=0.0)
    sources = [root / "setup.py", *(root / "src").rglob("*.*"), *(root / "shim/include").iterdir()]
    if built > max(file.stat().st_mtime for file in sources):
        return False
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode:
        told = done.stdout + done.stderr
        raise SystemExit(
            f"{told[-3000:]}\nthe editable install cannot be built: it wants a C compiler, "
            "and setuptools>=77 (pip install 'setuptools>=77')"
        )
    return True
