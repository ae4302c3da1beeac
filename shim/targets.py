"""The libraries that `dlshim.to` brings arrays into: what is said of each, in one row.

Nothing here imports a library.  A library without a row is served by its own ``from_dlpack``, and
by the defaults of `Row`: its arrays may be written, and take no negative strides.
"""

from __future__ import annotations

import re
import sys
from _functools import partial

from ._core import upgrade
from .importers import (
    jax_array,
    numpy_array,
    of_class,
    of_release,
    paddle_tensor,
    tensorflow_tensor,
)
from .locks import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._core import Tensor
    from .importers import Importer

_FLOAT8 = ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
FLOAT8 = frozenset(f"float8_{name}" for name in _FLOAT8)
COMPLEX = frozenset({"complex64", "complex128"})
#: Dtypes that Arrow, and so a column, does not have.
NOT_IN_ARROW = FLOAT8 | COMPLEX | {"bfloat16"}
#: Dtypes that the array API standard does not have.
NOT_IN_STANDARD = FLOAT8 | {"bfloat16", "float16"}
#: What becomes of 64 bits in JAX, unless jax_enable_x64 is set, and of double complex in MLX.
HALVES = {
    "float64": "float32",
    "int64": "int32",
    "uint64": "uint32",
    "complex128": "complex64",
}


class Row:
    """What is said of a library as a target."""

    def __init__(
        self,
        key: str = "",
        make: Importer | None = None,
        *,
        module: str = "",
        own: tuple[str, ...] = (),
        construct: str = "",
        clone: str = "",
        writes: bool = True,
        late: bool = False,
        layout: str = "positive",
        align: int = 1,
        copies: bool = False,
        host: bool = False,
        lacks: frozenset[str] = frozenset(),
        halves: tuple[str, ...] = (),
        column: bool = False,
        immutable: bool = False,
        scalars: bool = True,
        short: dict[str, Any] | None = None,
    ) -> None:
        #: The name of the package.
        self.key = key
        #: The module that is imported, which has `own` and `construct`.
        self.module = module or key
        #: Makes an array of a Tensor; None: ``from_dlpack`` of the module.
        self.make = make
        #: The classes of its arrays and tables, which go through as they are.
        self.own = own
        #: The function that makes an array of Python's lists and numbers; "": by way of NumPy.
        self.construct = construct
        #: The method that copies an array of its own; "": an exchange does.
        self.clone = clone
        #: Its arrays may be written, whatever READ_ONLY says.
        self.writes = writes
        #: It computes later, from the memory as it is then.
        self.late = late
        #: The strides that it takes: "any", "positive", or "C".
        self.layout = layout
        #: Memory that is not so aligned is copied, by dlshim or by the library.
        self.align = align
        #: It copies whatever it takes.
        self.copies = copies
        #: It has host memory alone.
        self.host = host
        #: Dtypes that it does not have.
        self.lacks = lacks
        #: Dtypes that become half as wide in it.
        self.halves = halves
        #: Its arrays are columns, or tables of columns.
        self.column = column
        #: As sources its arrays must not change, though nothing marks them: results that are not
        #: computed yet read them.
        self.immutable = immutable
        #: It takes arrays without axes.
        self.scalars = scalars and not column
        #: Options of `upgrade` with which its ``from_dlpack`` makes the same of an array that it
        #: takes at all; None: it may not be the same.
        self.short = short


# ---- how arrays are made, where from_dlpack is not enough ----------------------------------------


def _own_numpy(tensor: Tensor) -> Any:
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
    packed = tensor.dtype == "bool"
    return sys.modules["polars"].Series(tensor.numpy() if packed else tensor)


def _pyarrow(tensor: Tensor) -> Any:
    pyarrow = sys.modules["pyarrow"]
    if tensor.dtype != "bool":
        return pyarrow.array(tensor)
    made = pyarrow.array(tensor.numpy().reshape(-1))
    for extent in reversed(tensor.shape[1:]):
        made = pyarrow.FixedSizeListArray.from_arrays(made, extent)
    return made


def _pyarrow_tensor(tensor: Tensor) -> Any:
    return sys.modules["pyarrow"].Tensor.from_numpy(tensor.numpy())


def _pandas(tensor: Tensor) -> Any:
    pandas, array = sys.modules["pandas"], _own_numpy(tensor)
    return (pandas.Series if array.ndim == 1 else pandas.DataFrame)(array, copy=False)


def _itself(tensor: Tensor) -> Any:
    return tensor


# ---- the rows ------------------------------------------------------------------------------------

ROWS = (
    Row(
        "numpy",
        _own_numpy,
        own=("ndarray",),
        construct="array",
        clone="copy",
        writes=False,
        layout="any",
        host=True,
        short={},
    ),
    Row(
        "torch",
        own=("Tensor",),
        construct="tensor",
        clone="clone",
        short={"order": "auto", "readonly": "copy"},
    ),
    Row(
        "jax",
        jax_array,
        module="jax.numpy",
        own=("ndarray",),
        construct="asarray",
        clone="copy",
        writes=False,
        late=True,
        layout="C",
        align=64,
        halves=("float64", "int64", "uint64", "complex128"),
    ),
    # The first operation on memory that is not aligned to 64 bytes ends the process.
    Row(
        "tensorflow",
        tensorflow_tensor,
        own=("Tensor", "SparseTensor", "RaggedTensor"),
        construct="constant",
        writes=False,
        layout="C",
        align=64,
        lacks=FLOAT8,
    ),
    Row("cupy", own=("ndarray",), construct="asarray", clone="copy"),
    Row(
        "mlx",
        _mlx,
        module="mlx.core",
        own=("array",),
        construct="array",
        writes=False,
        copies=True,
        immutable=True,
        lacks=FLOAT8,
        halves=("complex128",),
    ),
    Row("paddle", paddle_tensor, own=("Tensor",), construct="to_tensor", clone="clone"),
    Row(
        "warp",
        _warp,
        own=("array",),
        construct="array",
        lacks=FLOAT8 | COMPLEX,
        scalars=False,
    ),
    Row("tvm_ffi", own=("Tensor",)),
    Row(
        "array_api_strict",
        _strict,
        own=("_array_object.Array",),
        construct="asarray",
        writes=False,
        layout="any",
        host=True,
        lacks=NOT_IN_STANDARD,
    ),
    Row(
        "pyarrow",
        _pyarrow,
        own=("Array", "ChunkedArray", "Tensor", "Table", "RecordBatch"),
        construct="array",
        writes=False,
        layout="C",
        host=True,
        lacks=NOT_IN_ARROW,
        column=True,
    ),
    Row(
        "polars",
        _polars,
        own=("Series", "DataFrame"),
        construct="Series",
        writes=False,
        layout="C",
        host=True,
        lacks=NOT_IN_ARROW,
        column=True,
    ),
    Row(
        "pandas",
        _pandas,
        own=("Series", "Index", "DataFrame"),
        clone="copy",
        layout="any",
        host=True,
        column=True,
    ),
    Row("dlshim", _itself, own=("Tensor",), writes=False, layout="any"),
)
#: Classes of which an array is asked for by the class itself, where its library has others too.
CLASSES = {
    ("pyarrow", "Tensor"): Row(
        "pyarrow",
        _pyarrow_tensor,
        own=("Tensor",),
        writes=False,
        layout="any",
        host=True,
        lacks=NOT_IN_ARROW | {"bool"},
    ),
}
BY_KEY = {row.key: row for row in ROWS}


# ---- the library that a call names ---------------------------------------------------------------


def _makes_read_only(module: Any) -> bool:
    """Whether it is a NumPy before 2.2.5, to which all that it takes is read-only."""
    if module.__name__ != "numpy":
        return False
    numbers = re.findall(r"\d+", module.__version__)[:3]
    return tuple(map(int, numbers)) < (2, 2, 5)


class Target:
    """A library that a call has named, as it is imported."""

    def __init__(
        self,
        row: Row,
        name: str,
        make: Importer,
        module: Any,
        own: tuple[type, ...],
        asked: type | None = None,
    ) -> None:
        self.row, self.name, self.make = row, name, make
        #: The module, and the classes of its arrays there.
        self.module, self.own = module, own
        self.module_name = getattr(module, "__name__", "")
        #: What names it in another call.
        self.library: Any = module if asked is None else asked
        #: The short way: the types that go it, which went the longer one before; what wraps their
        #: arrays (None: there is no short way), and what takes the wrapper.
        self.plain: set[type] = set()
        self.wrap, self.take = None, getattr(module, "from_dlpack", None)
        if row.short is not None and not _makes_read_only(module):
            self.wrap = partial(upgrade, **row.short)

    def constructor(self) -> Any:
        """What makes an array of Python's lists and numbers; None: NumPy does."""
        return getattr(self.module, self.row.construct) if self.row.construct else None


def _reached(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part, None)
    return module


def _of_row(row: Row, asked: type | None = None) -> Target:
    __import__(row.module)
    module = sys.modules[row.module]
    own = tuple(cls for path in row.own if isinstance(cls := _reached(module, path), type))
    make = row.make or of_release(module.from_dlpack)
    return Target(row, row.key, make, module, own, asked)


def _of_module(module: Any) -> Target:
    """The library of a module: by its ``from_dlpack``, so that wrappers of a library are it."""
    name = module.__name__
    if name == "dlshim" or name in BY_KEY or name in [row.module for row in ROWS]:
        return _of_row(BY_KEY[name.partition(".")[0]])
    found = getattr(module, "from_dlpack", None)
    if not callable(found):
        raise TypeError(
            f"to(): {name!r} has no arrays of its own that are made by DLPack; if its functions "
            'take NumPy\'s arrays, pass "numpy"'
        )
    top = (getattr(found, "__module__", None) or "").partition(".")[0]
    if top in BY_KEY:
        return _of_row(BY_KEY[top])
    return Target(Row(name), name, of_release(found), module, ())


def _of_class(cls: type) -> Target:
    """The library of a class; its own ``from_dlpack``, where it has one and its library no row."""
    for base in cls.__mro__:
        top = str(getattr(base, "__module__", "")).partition(".")[0]
        asked = CLASSES.get((top, base.__name__))
        top = "jax" if top == "jaxlib" else top
        if asked is not None:
            return _of_row(asked, cls)
        if top in BY_KEY:
            return _of_row(BY_KEY[top])
    own = of_class(cls)
    if own is not None:
        return Target(Row(cls.__name__), cls.__name__, own, None, (cls,), cls)
    module = sys.modules.get(cls.__module__.partition(".")[0])
    if module is None or cls.__module__ == "builtins":
        raise TypeError(f"to(): {cls.__name__!r} is no class of arrays")
    return _of_module(module)


def _of_name(name: str) -> Target:
    if name in BY_KEY:
        return _of_row_by_name(name)
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # its own import has failed
        raise _missing(name) from None
    except ValueError:
        raise _missing(name) from None
    return _of_module(sys.modules[name])


def _of_row_by_name(name: str) -> Target:
    try:
        return _of_row(BY_KEY[name])
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise _missing(name) from None


def _missing(name: str) -> ModuleNotFoundError:
    text = f"to(): there is no module {name!r} here: install the library, or look at the name"
    return ModuleNotFoundError(text, name=name)


def find(library: Any) -> Target:
    """The library of a name, a module, a class or an array; a name is imported."""
    if isinstance(library, str):
        return _of_name(library)
    if isinstance(library, type(sys)):
        return _of_module(library)
    if isinstance(library, type):
        return _of_class(library)
    if library is None or isinstance(library, (int, float, complex, list, tuple, dict)):
        raise TypeError(
            "to() takes the name of a library, a module, a class or an array, not "
            f"{type(library).__name__!r}"
        )
    return _of_class(type(library))
