"""Tables: plain text, columns aligned, so that they can be read in a log and pasted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from operations import LIBRARIES, Operation, missing_libraries

# Module: the name of its package, where the two differ.
_PACKAGES = {
    "tvm_ffi": "apache-tvm-ffi",
    "cuda.core": "cuda-core",
    "dlpack": "pydlpack",
    "dls_nanobind": "nanobind",
}


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """The first columns to the left, the others to the right."""
    lines = [list(heads), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def versions() -> str:
    """What takes part and what is not installed, one line each."""
    from importlib.metadata import PackageNotFoundError, version

    missing = missing_libraries()
    lines = []
    for library, (module, _) in LIBRARIES.items():
        if library in ("floor", "pyshim"):
            continue
        package = _PACKAGES.get(module, module)
        if library in missing:
            lines.append(f"{library}: not installed ({package})")
            continue
        try:
            lines.append(f"{library}: {package} {version(package)}")
        except PackageNotFoundError:
            lines.append(f"{library}: {package}, version unknown")
    return "\n".join(lines)


def by_road(
    operations: Iterable[Operation],
    cost: dict[str, float],
    unit: str,
    digits: int = 0,
    beside: tuple[str, dict[str, float]] | None = None,
) -> str:
    """One table: every operation with its cost and the ratio to its reference."""
    rows: list[tuple[str, ...]] = []
    heads = ["case", "way", unit, *([beside[0]] if beside else []), "ratio", "to"]
    case = None
    for operation in operations:
        own, reference = cost.get(operation.name), cost.get(operation.reference_name)
        if own is None:
            continue
        if case not in (None, operation.case):
            rows.append(("",) * len(heads))
        name, case = operation.case if operation.case != case else "", operation.case
        numbers = [own] + ([beside[1][operation.name]] if beside else [])
        ratio = f"{own / reference:.2f}" if reference else "-"
        cells = (f"{number:.{digits}f}" for number in numbers)
        rows.append((name, operation.way, *cells, ratio, operation.reference))
    return table(heads, rows, left=2)
