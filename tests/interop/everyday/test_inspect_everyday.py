"""`inspect --to` of the objects of an ordinary day: it knows them, and its cure is typed in."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from replays.running import missing

#: An expression, what it needs, the outcome of the upgraded object, and the cure that is named.
OBJECTS = [
    ("PIL.Image.new('RGB', (4, 2))", "pillow", "works, zero copy", 'upgrade(x, readonly="copy")'),
    ("pandas.Series([1.0, 2.0])", "pandas", "works, zero copy", 'upgrade(x, readonly="copy")'),
    ("polars.Series([1.0, 2.0])", "polars", "works, zero copy", 'upgrade(x, readonly="copy")'),
    ("polars.Series([1, None])", "polars", "refused by dlshim", "pass x.fill_null(0) instead"),
    ("pandas.Series(['a', 'b'])", "pandas", "refused by dlshim", "pass x.astype('category')"),
    ("polars.DataFrame({'a': [1], 'b': ['c']})", "polars", "refused by dlshim", "pass x['a']"),
    ("dask.array.ones(3)", "dask", "refused by dlshim", "pass numpy.asarray(x) instead"),
    ("zarr.ones(3)", "zarr", "refused by dlshim", "pass numpy.asarray(x) instead"),
    ("scipy.sparse.csr_array(numpy.eye(2))", "scipy", "refused by dlshim", "pass x.toarray()"),
]


@pytest.mark.parametrize(("expression", "needs", "upgraded", "cure"), OBJECTS)
def test_an_object_is_known(expression: str, needs: str, upgraded: str, cure: str) -> None:
    for each in (needs, "torch>=2.13"):
        if reason := missing(each):
            pytest.skip(reason)
    command = [sys.executable, "-m", "dlshim", "inspect", expression, "--to", "torch"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and not done.stderr, done.stderr
    told = dict(re.findall(r"^    (upgraded|cure) +(.*)$", done.stdout, re.M))
    assert told["upgraded"].startswith(upgraded) and cure in told["cure"], done.stdout
