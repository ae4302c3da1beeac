"""DuckDB: results, which are tables of Arrow."""

from __future__ import annotations

from .arrays import Case, Made, Producer, loaded, numpy_address
from .rows import Library

LIBRARY = Library("duckdb", "duckdb", ("duckdb",))


def _duckdb(case: Case) -> Made:
    kind = {"float32": "float", "uint8": "utinyint"}[case.dtype]
    values = ", ".join(map(str, case.values))
    result = loaded("duckdb").sql(f"select unnest([{values}])::{kind} as v")
    made = result.to_arrow_table()["v"]
    return Made(made, numpy_address(made.chunk(0)))


GIVES = (
    Producer(
        "duckdb",
        "DuckDB column",
        "duckdb",
        ("line", "uint8"),
        _duckdb,
        needs=("pyarrow", "numpy"),
        immutable=True,
        dlpack=False,
    ),
)
