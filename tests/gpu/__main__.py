"""``python tests/gpu``: the suite for a GPU, and one file to send.

The settings that CUDA and JAX read when they are loaded are there before any plug-in of pytest is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

if __name__ == "__main__":
    settings = {"CUDA_DEVICE_MAX_CONNECTIONS": "32", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, "-m", "pytest", "-rs", str(HERE), *sys.argv[1:]]
    sys.exit(subprocess.run(command, env=os.environ | settings, check=False).returncode)
