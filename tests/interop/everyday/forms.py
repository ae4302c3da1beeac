"""What functions make of a wrapper, a Tensor and an array of NumPy: docs/results/forms.csv.

    python -m interop.everyday.forms      (in tests/) tries them here, and writes their rows anew

The engine is that of ``inspect``: each call is made in a child process, on the memory of a tensor
of torch, and its result is compared with what the function makes of the same values.  Rows of
functions whose library is not here stay as they are.
"""

from __future__ import annotations

import csv
import datetime
from importlib import metadata
from pathlib import Path

import numpy as np

import dlshim

RECORD = Path(__file__).parents[3] / "docs" / "results" / "forms.csv"
#: dlshim.upgrade(x), dlshim.from_dlpack(x), and numpy.asarray() of them.
FORMS = ("wrapper", "tensor", "array")
COLUMNS = ("function", *FORMS, "release", "date")

#: What x is.
IMAGE, LINE = "torch.ones((2, 3), dtype=torch.uint8)", "torch.arange(3.0)"
ROWS = "torch.eye(3)"
#: A call, the distribution that has the function, and x.
CALLS = (
    ("torch.as_tensor(x)", "torch", IMAGE),
    ("torch.from_numpy(x)", "torch", IMAGE),
    ("jax.numpy.asarray(x)", "jax", IMAGE),
    ("jax.device_put(x)", "jax", IMAGE),
    ("scipy.ndimage.median_filter(x, 1)", "scipy", IMAGE),
    ("sklearn.utils.check_array(x)", "scikit-learn", ROWS),
    ("xgboost.DMatrix(x)", "xgboost-cpu", ROWS),
    ("PIL.Image.fromarray(x)", "pillow", IMAGE),
    ("cv2.blur(x, (1, 1))", "opencv-python-headless", IMAGE),
    ("numba.njit(lambda a: a.copy())(x)", "numba", IMAGE),
    ("xarray.DataArray(x)", "xarray", IMAGE),
    ("dask.array.from_array(x)", "dask", IMAGE),
    ("zarr.array(x)", "zarr", IMAGE),
    ("zarr.create_array({}, data=x)", "zarr", IMAGE),
    ("safetensors.numpy.save({'a': x})", "safetensors", IMAGE),
    ("pandas.Series(x)", "pandas", LINE),
    ("pandas.DataFrame(x)", "pandas", IMAGE),
    ("polars.Series(x)", "polars", LINE),
    ("polars.DataFrame(x)", "polars", IMAGE),
    ("pyarrow.array(x)", "pyarrow", LINE),
)


def outcome(x: object, call: str, upgraded: bool) -> str:
    (verdict,) = dlshim.inspect(x, consumer=call).verdicts
    result = (verdict.upgraded if upgraded else verdict.bare).result
    return {"works": "yes", "refused": "-"}.get(result, result)


def tried(call: str, make: str) -> tuple[str, ...]:
    """What came of each of FORMS."""
    import torch

    x = eval(make, {"torch": torch})
    t = dlshim.from_dlpack(x)
    return (
        outcome(x, call, upgraded=True),
        outcome(t, call, upgraded=False),
        outcome(np.asarray(t), call, upgraded=False),
    )


def recorded() -> dict[str, dict[str, str]]:
    with RECORD.open(encoding="utf-8", newline="") as file:
        return {row["function"]: row for row in csv.DictReader(file)}


def write() -> None:
    rows = recorded() if RECORD.exists() else {}
    for call, distribution, make in CALLS:
        try:
            release = f"{distribution} {metadata.version(distribution).partition('+')[0]}"
        except metadata.PackageNotFoundError:
            continue
        values = (call, *tried(call, make), release, str(datetime.date.today()))
        rows[call] = dict(zip(COLUMNS, values, strict=True))
    with RECORD.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[call] for call, _, _ in CALLS if call in rows)


if __name__ == "__main__":
    write()
