"""Runs the targets under atheris: `python fuzz_boundary.py [libFuzzer's options] CORPUS...`.

`tools/fuzz.py run boundary` starts it with an extension that was built for coverage.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import atheris  # noqa: E402

from fuzz.boundary import targets  # noqa: E402

if __name__ == "__main__":
    # Where libFuzzer starts itself again (-merge), it runs the first argument.
    program = os.environ.get("DLSHIM_FUZZ_PROGRAM", sys.argv[0])
    atheris.Setup([program, *sys.argv[1:]], targets.run)
    atheris.Fuzz()
