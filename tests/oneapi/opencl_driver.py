"""Where the installed OpenCL device for the CPU is; it is told before anything imports dpctl."""

from __future__ import annotations

import os
from importlib import metadata

VARIABLE = "OCL_ICD_FILENAMES"


def find() -> str | None:
    """The wheel's own list of drivers names a path of the machine that built it."""
    try:
        files = metadata.files("intel-opencl-rt") or []
    except metadata.PackageNotFoundError:
        return None
    found = [file for file in files if file.name == "libintelocl.so"]
    return os.path.realpath(str(found[0].locate())) if found else None
