"""``python -m dlshim matrix``: exchanges arrays among the libraries that are installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from ..libraries import BUILT_IN, installed_versions
from ..libraries import MATRIX as KEYS
from .output import Parser, progress, show

if TYPE_CHECKING:
    from pathlib import Path

MATRIX = """\
Exchange small arrays among the array libraries that are installed here, bare and
upgraded by dlshim, each in a child process, and show what failed and what works now.

examples:
  python -m dlshim matrix                         one screen about all that is installed
  python -m dlshim matrix --only numpy,torch      two libraries
  python -m dlshim matrix --full                  every pair, every limit, every cost
  python -m dlshim matrix --html matrix.html      a page to look at or to send

The exit status is 0 only if no upgraded exchange is worse than the bare one, but for those that
dlshim refuses on purpose, and none is wrong, ends the process or loses a read-only mark.

libraries: """


def _matrix_parser() -> Parser:
    names = ", ".join([*KEYS, *BUILT_IN])
    parser = Parser("matrix", MATRIX + names)
    parser.add_argument("--only", metavar="A,B", help="exchange among these libraries only")
    parser.add_argument("--full", action="store_true", help="print all tables, not one screen")
    parser.add_argument("--json", metavar="FILE", help="write every result to FILE")
    parser.add_argument("--html", metavar="FILE", help="write a page to FILE")
    parser.add_argument("--no-cost", action="store_true", help="do not time the exchanges")
    return parser


def _chosen(only: str | None, versions: dict[str, str]) -> set[str]:
    """Return the libraries to exchange among; ValueError says which cannot be."""
    here = set(versions) | set(BUILT_IN)
    if only is None:
        return here
    names = {name.strip().replace("-", "_") for name in only.split(",") if name.strip()}
    unknown = names - set(KEYS) - set(BUILT_IN)
    if unknown:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))} (see --help)")
    if names - here:
        raise ValueError(f"not installed: {', '.join(sorted(names - here))}")
    if not names:
        raise ValueError("--only names no library")
    return names


def _check_files(results: Path | None, page: Path | None) -> None:
    """An error where a result could not be written, before an hour is spent on it."""
    if page and not find_spec("jinja2"):
        raise ValueError("--html makes its page with Jinja2:  pip install jinja2")
    for file in filter(None, (results, page)):
        file.open("a").close()


def main(arguments: list[str]) -> int:
    """Exchange arrays among the installed libraries; return the exit status."""
    parser = _matrix_parser()
    options = parser.parse_args(arguments)

    # The help needs none of these.
    import json
    from pathlib import Path

    from ..matrix.page import write_page
    from ..matrix.pairs import plan
    from ..matrix.run import run
    from ..matrix.screen import full, one_screen

    results = None if options.json is None else Path(options.json)
    page = None if options.html is None else Path(options.html)
    versions = installed_versions(KEYS)
    try:
        chosen = _chosen(options.only, versions)
        _check_files(results, page)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    cells = plan(versions, chosen)
    versions = {key: version for key, version in versions.items() if key in chosen}
    with progress(2 * len(cells)) as step:
        report = run(versions, cells, cost=not options.no_cost, progress=step)
    if options.only is None and "nanobind" not in versions:
        report.left_out["into nanobind"] = "it is not installed"
    if results is not None:
        results.write_text(json.dumps(report.as_json(), indent=1) + "\n", encoding="utf-8")
    if page is not None and report.cells:
        write_page(report, page)
    elif page is not None and page.is_file():
        page.unlink()  # no page of this run
    show(full(report) if options.full else one_screen(report))
    return 1 if report.faults or not report.cells else 0
