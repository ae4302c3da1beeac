"""Every cure on an object of each kind: it works, and keeps what the object has or says what not.

    python -m cures.test_cures_tried LIBRARY     (in tests/) tells what each object of one is told

A library has a process of its own: some cannot be imported beside others.
"""

from __future__ import annotations

import ast
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import numpy
import pytest
from objects.test_cures_applied import DEVICES, NOT_NUMBERS, OBJECTS

from cures import judge, kinds
from dlshim import cures, cures_by_library, cures_of_columns, cures_of_items, cures_of_views

MODULES = (cures, cures_by_library, cures_of_columns, cures_of_items, cures_of_views)
FILES = {module.__file__: module.__name__ for module in MODULES}

#: The libraries of tests/objects whose objects tell their values; of others that file has them.
TELLING = (
    *("pandas", "polars", "pyarrow", "arro3.core", "nanoarrow", "awkward", "duckdb", "xarray"),
    *("scipy.sparse", "sparse", "zarr", "dask.array", "pint"),
)
#: What is no cure for its object: it has no numbers, or no array that has them all.
NO_CURE = {
    "numpy": {
        *("list of rows of several lengths", "list of rows and numbers", "list that holds itself"),
        *("list of text", "list of mappings", "list of arrays of several shapes"),
        *("list of lists of masked arrays", "list of a masked and a plain array"),
    },
    "netCDF4": {"text"},
    "astropy": {"list of masked quantities"},
    "h5py": {
        *("empty", "text", "bytes of one length", "rows of several lengths", "references"),
    },
    "zarr": {"text"},
    "pandas": {
        *("lists of several lengths", "arrays of several shapes", "arrays, one missing"),
        *("mappings",),
    },
    "datasets": {"stream", "without columns"},
    "torch": {"list of several shapes", "list of lists of tensors", "list of masked tensors"},
    "ml_dtypes": {"text"},
}


#: The session of this file does not install them, because they are large; `objects` runs it too.
ELSEWHERE = {"SimpleITK", "av", "cv2", "jax", "paddle", "pygame", "tensorflow", "tinygrad", "torch"}
#: Returned for objects that this environment lacks: of those libraries, or of older releases, which
#: export no dates and no lists and which `columns-old` has.
NOT_HERE = {
    "instead(f'torch.empty(0, dtype={kind}{where}).set_(x)')",
    "instead('jax.random.key_data(x)')",
    "instead('x.addressable_shards[0].data', 'other processes have the other shards')",
    "converted(given(x, physical), COUNTS)",
    "converted(cast, COUNTS)",
    "converted('x.flatten()', FLAT) if rows == 'x' else instead(rows)",
}
#: Rows for those libraries, and for libraries that nobody installs here: tests/core/test_cures.py
#: types these on classes of its own.
ROWS_ELSEWHERE = {
    *("x.to_tensor(value)", "x.to_dense()", "x.dequantize()", "x.to_padded_tensor(0)"),
    *("x.to_local()", "x.__jax_array__()", "tf.sparse.to_dense(x)", "x.to_tensor()", "x.numpy()"),
    *("SimpleITK.GetArrayFromImage(x)", "x.get_view('3')", "x.to_ndarray()", "x.get()"),
    *("x.to_host()", "faiss.vector_to_array(x)", "x.to_arrow_array()", "x.to_numpy()"),
    "x.asnumpy()",
}


def objects_of(library: str, folder: Path) -> kinds.Objects:
    """Those of `kinds`, and those whose values tests/objects knows."""
    module = importlib.import_module(library)
    if library == "pyarrow":
        importlib.import_module("pyarrow.compute")
    space = {"m": module, "numpy": numpy, "ODD": kinds.ODD}
    texts = [*OBJECTS.get(library, ()), *NOT_NUMBERS.get(library, ())]
    found: kinds.Objects = {text: functools.partial(eval, text, space) for text in texts}
    if library not in TELLING:
        found = {
            text: (make, _expected(OBJECTS[library].get(text))) for text, make in found.items()
        }
    return found | (kinds.KINDS[library](folder) if library in kinds.KINDS else {})


def _expected(values: Any) -> Any:
    return getattr(values, "tolist", lambda: values or [])()


def tell(library: str) -> None:
    """What each object is told, and what is wrong with it, a line of JSON each."""
    ran: set[tuple[str, int]] = set()

    def seen(frame: FrameType, event: str, _arg: Any) -> Any:
        name = FILES.get(frame.f_code.co_filename)
        if name is None:
            return None
        ran.add((name, frame.f_lineno))
        return seen

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for name, kind in objects_of(library, Path(folder)).items():
            make, values = kind if isinstance(kind, tuple) else (kind, None)
            sys.settrace(seen)
            try:
                steps = judge.follow(make, values)
                told = {
                    "cures": [each.cure for each in steps],
                    "said": [each.said for each in steps],
                }
            except judge.Wrong as error:
                told = {"wrong": str(error)}
            finally:
                sys.settrace(None)
            print(json.dumps({"object": name, **told}), flush=True)
    print(json.dumps({"ran": sorted(ran)}))


# ---- the tests ----------------------------------------------------------------------------------


@functools.cache
def told(library: str) -> list[dict[str, Any]]:
    """The lines of a process that looks at one library; the last has what ran."""
    if find_spec(library.partition(".")[0]) is None:
        pytest.skip(f"{library} is not installed here")
    done = subprocess.run(
        [sys.executable, "-m", "cures.test_cures_tried", library],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        env=os.environ | DEVICES,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


LIBRARIES = sorted({*kinds.KINDS, *OBJECTS})


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_a_message_names_works_and_says_what_it_changes(library: str) -> None:
    lines = told(library)[:-1]
    assert lines and {each["object"]: each["wrong"] for each in lines if "wrong" in each} == {}
    ends = {each["object"] for each in lines if each["cures"][-1:] == [""]}
    assert ends == NO_CURE.get(library, set()) | {*NOT_NUMBERS.get(library, ())}


def all_here() -> list[str]:
    """The libraries of this environment, which are all installed."""
    lacking = {each for each in LIBRARIES if find_spec(each.partition(".")[0]) is None}
    if lacking - ELSEWHERE:
        pytest.skip(f"not installed here: {', '.join(sorted(lacking - ELSEWHERE))}")
    return [each for each in LIBRARIES if each not in lacking]


def cure_lines() -> dict[tuple[str, int], str]:
    """Where a cure is returned, and which."""
    found = {}
    for file, name in FILES.items():
        tree = ast.parse(Path(str(file)).read_text(encoding="utf-8"))
        for node in (each for each in ast.walk(tree) if isinstance(each, ast.Return)):
            names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            if names & {"instead", "converted", "one_column", "by_pyarrow"}:
                found[name, node.lineno] = ast.unparse(node.value or node)
    return found


def test_every_cure_was_typed() -> None:
    """On an object of a library that is installed, or somewhere else by the table."""
    ran = {tuple(each) for library in all_here() for each in told(library)[-1]["ran"]}
    missed = {where: name for where, name in cure_lines().items() if where not in ran}
    assert {*missed.values()} - NOT_HERE == set()


def test_every_row_was_typed() -> None:
    lines = [each for library in all_here() for each in told(library)[:-1]]
    typed = {cure for each in lines for cure in each.get("cures", ())}
    texts = {text for _, _, text in cures.CURES if text}
    assert texts - typed - ROWS_ELSEWHERE == set()


if __name__ == "__main__":
    tell(sys.argv[1])
