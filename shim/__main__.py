"""``python -m dlshim``: the command line."""

import sys

from .cli.main import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
