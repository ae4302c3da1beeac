"""``python -m dlshim``: the command line."""

from __future__ import annotations

import io
import os
import signal
import sys

from .commands import main


def run(arguments: list[str]) -> int:
    """Run a command; where its reader goes away, end by SIGPIPE as other tools do."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal may lack an arrow or a frame; that is no reason to end.
        sys.stdout.reconfigure(errors="replace")
    try:
        try:
            return main(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The rest of the buffer goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if hasattr(signal, "SIGPIPE"):
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGPIPE)
        return 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
