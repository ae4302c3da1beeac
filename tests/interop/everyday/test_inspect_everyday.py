"""`inspect --to` of the objects of an ordinary day: each line that it shows was tried."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys

import pytest

import dlshim
from dlshim.known.holders import HOLDERS, Holder
from replays.running import missing

#: An expression, what it needs, the outcome of the upgraded object, and what is in the line to use,
#: or in the one that comes nearest.
OBJECTS = [
    ("PIL.Image.new('RGB', (4, 2))", "pillow", "same values", "upgrade(x, readonly='copy')"),
    ("pandas.Series([1.0, 2.0])", "pandas", "same values", "upgrade(x, readonly='copy')"),
    ("polars.Series([1.0, 2.0])", "polars", "same values", "upgrade(x, readonly='copy')"),
    ("polars.Series([1, None])", "polars", "refused", "upgrade(x.fill_null(0))"),
    ("pandas.Series(['a', 'b'])", "pandas", "refused", "x.astype('category')"),
    ("polars.DataFrame({'a': [1], 'b': ['c']})", "polars", "refused", "x['a']"),
    ("dask.array.ones(3)", "dask", "refused", "upgrade(x.compute())"),
    ("zarr.ones(3)", "zarr", "refused", "upgrade(numpy.asanyarray(x))"),
    ("scipy.sparse.csr_array(numpy.eye(2))", "scipy", "refused", "upgrade(x.toarray())"),
]


@pytest.mark.parametrize(("expression", "needs", "upgraded", "cure"), OBJECTS)
def test_an_object_is_known(expression: str, needs: str, upgraded: str, cure: str) -> None:
    for each in (needs, "torch>=2.13"):
        if reason := missing(each):
            pytest.skip(reason)
    command = [sys.executable, "-m", "dlshim", "inspect", expression, "--to", "torch"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and not done.stderr, done.stderr
    told = dict(re.findall(r"^    . (torch\.\S*\(.*\))  +(.*)$", done.stdout, re.M))
    assert told["torch.from_dlpack(dlshim.upgrade(x))"].startswith(upgraded), done.stdout
    assert cure in done.stdout


#: An object of each holder, and the values that arrive.
MADE = {
    "pillow": ("PIL.Image.new('L', (2, 1), 7)", [[7, 7]]),
    "opencv-python-headless": ("cv2.flip(numpy.array([[1, 2]]), 0)", [[1, 2]]),
    "h5py": ("h5py.File(io.BytesIO(), 'w').create_dataset('a', data=[1.0, 2.0])", [1, 2]),
    "zarr": ("zarr.array(numpy.arange(2))", [0, 1]),
    "xarray": ("xarray.DataArray([1.0, 2.0])", [1, 2]),
    "dask": ("dask.array.arange(2)", [0, 1]),
    "scipy": ("scipy.sparse.csr_array([[1, 0]])", [[1, 0]]),
    "awkward": ("awkward.Array([[1, 2]])", [[1, 2]]),
}


@pytest.mark.parametrize("row", HOLDERS, ids=lambda row: row.distribution)
def test_what_doctor_says_of_a_holder_gives_the_values(row: Holder) -> None:
    if reason := missing(row.distribution):
        pytest.skip(reason)
    expression, values = MADE[row.distribution]
    space: dict[str, object] = {}
    for name in ("cv2", "dask.array", "h5py", "io", "numpy", "PIL.Image", "scipy.sparse",
                 "xarray", "zarr", "awkward"):  # fmt: skip
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)
            space[name.partition(".")[0]] = sys.modules[name.partition(".")[0]]
    space["x"] = eval(expression, space)
    torch = pytest.importorskip("torch", reason="torch is not installed")
    made = dlshim.upgrade(eval(row.given, space), readonly="copy")
    assert torch.from_dlpack(made).tolist() == values
