"""``python -m dlshim``: the command line."""

from __future__ import annotations

import io
import os
import signal
import sys
from importlib import import_module

HELP = """\
usage: python -m dlshim COMMAND [options]

  matrix      exchange arrays among the libraries that are installed here, bare and
              upgraded, and show what failed and what works now
  explain     what an error message means, and what to type instead
  streams     the table of stream rules: what producers are passed, and what dlshim does
  --version   the version of dlshim

python -m dlshim COMMAND --help shows a command's options and examples.
In Python: import dlshim; help(dlshim.upgrade)
"""

#: The module of each command.
COMMANDS = {"matrix": ".matrix.command", "explain": ".explain", "streams": ".streams"}


def main(arguments: list[str]) -> int:
    """Run a command; return the exit status."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if arguments[0] in ("-V", "--version"):
        from . import __version__

        print(f"dlshim {__version__}")
        return 0
    if arguments[0] in COMMANDS:
        command = import_module(COMMANDS[arguments[0]], __package__)
        return int(command.main(arguments[1:]))
    print(f"python -m dlshim: no command {arguments[0]!r}\n\n{HELP}", file=sys.stderr, end="")
    return 2


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
