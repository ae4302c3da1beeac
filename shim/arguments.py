"""The parser of a command's options, with help that a reader may stop reading.

Each command of ``python -m dlshim`` makes one. Its tests are in tests/project/test_matrix.py.
"""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["Parser"]


class Parser(argparse.ArgumentParser):
    """argparse's parser; where help cannot be written, the command hears of it."""

    def print_help(self, file: Any = None) -> None:
        """Write the help to a file or to stdout.

        Newer argparse ignores that it could not write: a command whose output is not buffered
        would end with 0, and one whose output is buffered, and lost by the last flush, would not.
        """
        print(self.format_help(), end="", file=file)
