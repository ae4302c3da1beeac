"""The command line: finds the command, and runs it."""

from __future__ import annotations

import io
import os
import signal
import sys
from importlib import import_module

from .. import __version__, get_include

HELP = """\
usage: python -m dlshim COMMAND [options]

  python -m dlshim matrix                                         what works here, with dlshim
  python -m dlshim inspect "numpy.arange(6.)[::-1]" --to torch    will it work, and what cures it
  python -m dlshim explain "the error message"                    what to type instead

  matrix      exchange arrays among the libraries that are installed here, bare and
              upgraded, and show what failed and what works now
  doctor      what is installed, its known faults, and what to expect between each two
              libraries
  explain     what an error message means, and what to type instead
  inspect     what an object offers, and what a library will do with it and why
  streams     the table of stream rules: what producers are passed, and what dlshim does
  --version   the version of dlshim
  --include   the folder of dlshim.h, for authors of C extensions
  --cmake     the folder of its files for CMake

python -m dlshim COMMAND --help shows a command's options and examples.
In Python: import dlshim; help(dlshim.upgrade)
"""


#: Modules of this package; only the one that is asked for is imported.
COMMANDS = ("matrix", "doctor", "explain", "inspect", "streams")


def main(arguments: list[str]) -> int:
    """Run a command; return the exit status."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"dlshim {__version__}")
        return 0
    if arguments[0] == "--include":
        print(get_include())
        return 0
    if arguments[0] == "--cmake":
        print(os.path.join(os.path.dirname(get_include()), "cmake"))
        return 0
    if arguments[0] in COMMANDS:
        status: int = import_module(f".{arguments[0]}", __package__).main(arguments[1:])
        return status
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
