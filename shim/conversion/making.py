"""How a library makes an array of its own of a Tensor, where its from_dlpack is not enough.

What a library must be given, and what it is asked by, stands in ``habits`` (TAKES).
"""

from __future__ import annotations

import sys

from ..importers import LIBRARIES, numpy_array
from ..locks import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._core import Tensor
    from ..importers import Importer


def _numpy(tensor: Tensor) -> Any:
    """An array; bfloat16 and the like need ml_dtypes."""
    if tensor.dtype.kind == "V":
        import_module("ml_dtypes")
    return numpy_array(tensor)


def _strict(tensor: Tensor) -> Any:
    return sys.modules["array_api_strict"].asarray(tensor.numpy(), copy=False)


def _mlx(tensor: Tensor) -> Any:
    """An array; its from_dlpack makes float64 float32."""
    mx = sys.modules["mlx.core"]
    if tensor.dtype == "float64" and tensor.device[0] == 1:
        return mx.array(tensor.numpy(), dtype=mx.float64)
    return mx.from_dlpack(tensor) if hasattr(mx, "from_dlpack") else mx.array(tensor)


def _warp(tensor: Tensor) -> Any:
    """An array; its from_dlpack fails before init()."""
    warp = sys.modules["warp"]
    warp.init()
    return warp.from_dlpack(tensor)


def _polars(tensor: Tensor) -> Any:
    polars, packed = sys.modules["polars"], tensor.dtype == "bool"
    try:
        return polars.Series(tensor.numpy() if packed else tensor)
    except TypeError:  # before 1.3 it asks no other object than PyArrow's
        return polars.from_arrow(_pyarrow(tensor))


def _pyarrow(tensor: Tensor) -> Any:
    pyarrow = import_module("pyarrow")
    if tensor.dtype != "bool":
        return pyarrow.array(tensor)
    made = pyarrow.array(tensor.numpy().reshape(-1))
    for extent in reversed(tensor.shape[1:]):
        made = pyarrow.FixedSizeListArray.from_arrays(made, extent)
    return made


def _pyarrow_tensor(tensor: Tensor) -> Any:
    return sys.modules["pyarrow"].Tensor.from_numpy(tensor.numpy())


def _pandas(tensor: Tensor) -> Any:
    pandas, array = sys.modules["pandas"], _numpy(tensor)
    return (pandas.Series if array.ndim == 1 else pandas.DataFrame)(array, copy=False)


def _itself(tensor: Tensor) -> Any:
    return tensor


#: By the package; a library that is not here has a from_dlpack.
MAKE: dict[str, Importer] = {
    **LIBRARIES,
    "numpy": _numpy,
    "array_api_strict": _strict,
    "mlx": _mlx,
    "warp": _warp,
    "polars": _polars,
    "pyarrow": _pyarrow,
    "pandas": _pandas,
    "dlshim": _itself,
}
MAKE_OF_CLASSES: dict[tuple[str, str], Importer] = {("pyarrow", "Tensor"): _pyarrow_tensor}


# ---- a column of what is no array: missing values, text, dates, categories or lists --------------


def _of_arrow(x: Any) -> Any:
    pyarrow = import_module("pyarrow")
    chunked = hasattr(type(x), "__arrow_c_stream__") and not hasattr(type(x), "__arrow_c_array__")
    return pyarrow.chunked_array(x) if chunked else pyarrow.array(x)


def _polars_of_arrow(x: Any) -> Any:
    return sys.modules["polars"].Series(x)


def _pandas_of_arrow(x: Any) -> Any:
    pandas, made = sys.modules["pandas"], import_module("pyarrow").chunked_array(_of_arrow(x))
    return pandas.Series(pandas.arrays.ArrowExtensionArray(made))


#: By the package, of the libraries that have columns.
COLUMN: dict[str, Callable[[Any], Any]] = {
    "polars": _polars_of_arrow,
    "pyarrow": _of_arrow,
    "pandas": _pandas_of_arrow,
}
