"""The options of ``python -m dlshim matrix``."""

from __future__ import annotations

import json
import sys
from argparse import RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from dlshim.arguments import Parser

from . import libraries, run, story

__all__ = ["main"]

DESCRIPTION = """\
Exchange small arrays among the array libraries that are installed here, bare and
upgraded by dlshim, each in a child process, and show what failed and what works now.
The exit status is 0 only if every upgraded exchange that should work does.
"""

EXAMPLES = """\
examples:
  python -m dlshim matrix                         one screen about all that is installed
  python -m dlshim matrix --only numpy,torch      two libraries
  python -m dlshim matrix --full                  every pair, every limit, every cost
  python -m dlshim matrix --html matrix.html      a page to look at or to send
"""


def _parser() -> Parser:
    known = ", ".join([*libraries.BY_KEY, *libraries.BUILT_IN])
    parser = Parser(
        prog="python -m dlshim matrix",
        description=DESCRIPTION,
        epilog=f"{EXAMPLES}\nlibraries: {known}",
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only",
        metavar="A,B",
        help="only the exchanges among these libraries (names below, separated by commas)",
    )
    parser.add_argument("--full", action="store_true", help="print all tables, not one screen")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write every result to FILE")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page to FILE")
    parser.add_argument("--no-cost", action="store_true", help="do not time the exchanges")
    return parser


def _chosen(only: str | None, versions: dict[str, str]) -> set[str]:
    """Return the libraries to exchange among; ValueError says which cannot be."""
    here = set(versions) | set(libraries.BUILT_IN)
    if only is None:
        return here
    names = {name.strip().replace("-", "_") for name in only.split(",") if name.strip()}
    unknown = names - set(libraries.BY_KEY) - set(libraries.BUILT_IN)
    if unknown:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))} (see --help)")
    if names - here:
        raise ValueError(f"not installed: {', '.join(sorted(names - here))}")
    if not names:
        raise ValueError("--only names no library")
    return names


def _drawing() -> ModuleType:
    """Return what draws: rich if it is installed, else plain text."""
    try:
        from . import view
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "rich":
            raise
        from . import plain

        return plain
    return view


def _check_files(*files: Path | None) -> None:
    """OSError where a result could not be written, before an hour is spent on it."""
    for file in files:
        if file is not None:
            with file.open("a"):
                pass


def _check_page(wanted: bool) -> None:
    """ModuleNotFoundError where a page is wanted that cannot be made."""
    if wanted:
        import jinja2  # noqa: F401


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = _parser().parse_args(arguments)
    versions = libraries.installed_versions()
    try:
        chosen = _chosen(options.only, versions)
        _check_page(options.html is not None)
        _check_files(options.json, options.html)
    except ModuleNotFoundError:
        print(
            "python -m dlshim matrix: --html makes its page with Jinja2, which is not installed.\n"
            "Install it with:  pip install jinja2    (or: pip install 'dlshim[demo]')",
            file=sys.stderr,
        )
        return 2
    except (ValueError, OSError) as error:
        print(f"python -m dlshim matrix: {error}", file=sys.stderr)
        return 2
    cells = run.plan(versions, chosen)
    versions = {key: version for key, version in versions.items() if key in chosen}
    drawing = _drawing()
    report = drawing.watch(versions, cells, cost=not options.no_cost)
    if options.json is not None:
        options.json.write_text(json.dumps(report.as_json(), indent=1) + "\n", encoding="utf-8")
    if options.html is not None and report.cells:
        from . import page

        page.write(report, options.html)
    elif options.html is not None and options.html.is_file():
        options.html.unlink()  # no page of this run
    drawing.show(story.full(report) if options.full else story.one_screen(report))
    return 1 if report.faults or not report.cells else 0
