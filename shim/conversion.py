"""`dlshim.to`: any array as an array of a library that is named.

It is written with the public functions: an array is taken by `dlshim.from_dlpack`, looked at,
copied where the library needs that (`shim/targets.py` says what each needs), and given to the
library.
"""

from __future__ import annotations

import re
import sys
import warnings
from sys import modules

from ._core import (
    CopyRequiredError,
    Producer,
    ReadOnlyWarning,
    Tensor,
    _options,
    from_dlpack,
    upgrade,
)
from .arrays import HOST_DEVICES, row_major
from .targets import BY_KEY, HALVES, Target, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, overload

    import cupy
    import jax
    import mlx.core
    import numpy
    import paddle
    import pandas
    import polars
    import pyarrow
    import tensorflow
    import torch
    import tvm_ffi
    import warp


class NarrowedWarning(UserWarning):
    """`dlshim.to` has made an array of half as many bits, which hold all its values."""

    __module__ = "dlshim"


#: What was named before, by its name.
_found: dict[str, Target] = {}
#: Types that `_python` makes arrays of.
_PYTHON = (bool, int, float, complex, list, tuple, range)
#: Options of `upgrade` that texts name and `to` does not have.
_CURES = re.compile(r"\b((?:order|readonly|reinterpret|assume_device|detach)=[\"\w]+)")


# ---- what is said to the caller ------------------------------------------------------------------


def _kind(x: Any) -> str:
    cls = type(x)
    return f"'{cls.__module__}.{cls.__qualname__}' object"


def _warn(category: type[Warning], text: str) -> None:
    """Warn in the name of the line that called `to`."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(text, category, stacklevel=level)


def _told(error: BufferError) -> BufferError:
    """The same error, whose cures can be typed as they are: `to` has no such options."""
    text = _CURES.sub(r"dlshim.upgrade(x, \1)", str(error))
    if text == str(error):
        return error
    told = type(error)(text)
    told.__cause__ = error.__cause__
    return told


def _copy_needed(x: Any, why: str) -> CopyRequiredError:
    error = CopyRequiredError(f"{_kind(x)}: {why}, and copy=False was passed")
    if "strides" in why:
        error.reason = "order"
    elif "aligned" in why:
        error.reason = "align"
    return error


def _reason(error: BufferError) -> str:
    """Why an exchange was refused: the text without the object and without the cure."""
    text = str(error).partition("' object: ")[2] or str(error)
    return re.split(r"; |, and copy=False|: convert ", text)[0]


# ---- what the source is --------------------------------------------------------------------------


def _package(x: Any, *names: str) -> bool:
    """Whether the class of x, or one below it, is of one of these packages."""
    tops = {str(getattr(cls, "__module__", "")).partition(".")[0] for cls in type(x).__mro__}
    return not tops.isdisjoint(names)


def _held(x: Any) -> Any:
    """What an object holds, where reading it does no work: files, labels, variables."""
    name = type(x).__name__
    if name in ("Dataset", "Array", "Variable") and _package(x, "h5py", "zarr", "netCDF4"):
        return x[...]
    if name in ("DataArray", "Variable", "IndexVariable") and _package(x, "xarray"):
        return x.data
    if "Variable" in name and _package(x, "tensorflow") and hasattr(x, "read_value"):
        return x.read_value()
    grad = getattr(x, "requires_grad", None) is True or getattr(x, "stop_gradient", None) is False
    return x.detach() if grad and _package(x, "torch", "paddle") else x


def _is_immutable(x: Any) -> bool:
    """Whether the table says that it must not change, which its memory does not say."""
    row = BY_KEY.get(str(getattr(type(x), "__module__", "")).partition(".")[0])
    return row is not None and row.immutable


def _undone(x: Any) -> str | None:
    """The call that does the work which an object stands for."""
    if type(x).__name__ == "LazyFrame" and _package(x, "polars"):
        return "x.collect()"
    return "x.compute()" if hasattr(x, "dask") and hasattr(x, "compute") else None


def _is_table(x: Any) -> bool:
    name = type(x).__name__
    return name in ("DataFrame", "Table", "RecordBatch") and _package(
        x, "pandas", "polars", "pyarrow"
    )


def _is_column(x: Any) -> bool:
    cls = type(x)
    arrow = hasattr(cls, "__arrow_c_array__") or hasattr(cls, "__arrow_c_stream__")
    return (arrow and not hasattr(cls, "__array_interface__")) or (
        _package(x, "pandas") and cls.__name__.endswith(("Series", "Index"))
    )


def _mended(x: Any) -> Any:
    """The same values in memory that DLPack can describe, made anew; None: nothing makes it."""
    if _package(x, "numpy"):
        odd = not x.dtype.isnative or any(step % x.itemsize for step in x.strides)
        if not odd or x.dtype.kind not in "iufcb" or hasattr(x, "mask"):
            return None
        return sys.modules["numpy"].array(x, x.dtype.newbyteorder("="), order="C")
    if _package(x, "torch") and (x.is_conj() or x.is_neg()):
        return x.resolve_conj().resolve_neg()
    if _package(x, "pandas") and str(x.dtype).startswith("bool") and not x.hasnans:
        return x.to_numpy("bool", copy=True)
    if _package(x, "polars") and "Boolean" in str(x.dtype) and not x.null_count():
        return sys.modules["numpy"].array(x.to_numpy())
    if _package(x, "pyarrow") and str(getattr(x, "type", "")) == "bool" and not x.null_count:
        zero = {} if hasattr(x, "num_chunks") else {"zero_copy_only": False}
        return sys.modules["numpy"].array(x.to_numpy(**zero))
    return None


def _taken(x: Any, device: Any, copy: bool | None) -> tuple[Tensor, bool]:
    """A Tensor of x, and whether its memory was made here.

    What DLPack cannot describe, and a copy can, is copied.
    """
    options = {} if device is None else {"device": device}
    try:
        if copy is None:
            return from_dlpack(x, **options), False
        return from_dlpack(x, copy=copy, **options), copy
    except CopyRequiredError:
        raise
    except BufferError as error:
        first = error
    made = _again(x, options, first)
    if copy is False:
        raise _copy_needed(x, _reason(first)) from None
    return made, True


def _again(x: Any, options: dict[str, Any], first: BufferError) -> Tensor:
    """By a copy; where that is refused too, by what the library of x can make."""
    try:
        return from_dlpack(x, copy=True, **options)
    except BufferError as error:
        told = error
    try:
        mended = _mended(x)
    except Exception:  # an object that only looks like one of the library
        mended = None
    if mended is None:
        raise _told(told) from first.__cause__
    return from_dlpack(mended, **options)


# ---- what the library needs ----------------------------------------------------------------------


def _takes_strides(tensor: Tensor, layout: str) -> bool:
    if layout == "any" or 0 in tensor.shape:
        return True
    walked = [
        (step, want)
        for n, step, want in zip(tensor.shape, tensor.strides, row_major(tensor.shape), strict=True)
        if n > 1
    ]
    if layout == "positive":
        return all(step >= 0 for step, _ in walked)
    return all(step == want for step, want in walked)


def _why_copied(tensor: Tensor, target: Target) -> str:
    """Why the library cannot have this memory; "": it can."""
    row = target.row
    if not _takes_strides(tensor, row.layout):
        return f"{target.name} does not take its strides"
    if row.align > 1 and tensor.size and tensor.data_ptr() % row.align:
        return f"{target.name} needs memory that is aligned to {row.align} bytes"
    return ""


def _fitted(x: Any, tensor: Tensor, private: bool, target: Target, copy: bool | None) -> Tensor:
    """The memory that the library gets: that of the Tensor, or one copy of it."""
    row = target.row
    word = _options(x).get("readonly") if isinstance(x, Producer) else None
    why = _why_copied(tensor, target)
    fixed = tensor.readonly or _is_immutable(x)
    guarded = fixed and not private and (row.writes or word == "copy")
    if copy is False:
        if why or row.copies:
            raise _copy_needed(x, why or f"{target.name} copies it")
        if guarded and word != "share":
            _warn(
                ReadOnlyWarning,
                f"{_kind(x)}: it is read-only, and {target.name} does not heed that: what is "
                "written there changes this memory; drop copy=False for a private copy",
            )
    elif why or (guarded and word != "share") or (row.late and not (fixed or private)):
        return from_dlpack(tensor, copy=True, order="C", align=row.align)
    if fixed and not (private or tensor.readonly) and word != "share":
        tensor = from_dlpack(tensor, readonly=True)  # the library of the result heeds the flag
    if tensor.readonly and word != "error":
        return from_dlpack(tensor, readonly="share")
    return tensor


def _check_target(x: Any, tensor: Tensor, target: Target) -> None:
    """What the library cannot hold."""
    row, name, dtype = target.row, target.name, tensor.dtype.name
    if row.host and tensor.device[0] not in HOST_DEVICES:
        raise BufferError(
            f'{name} has host memory alone, and {_kind(x)} is on {tensor.device}; pass device="cpu"'
        )
    if dtype in row.lacks:
        bits = tensor.dtype.itemsize * 8
        cure = f'pass dlshim.upgrade(x, reinterpret="uint{bits}") for its bits'
        cure = f", or {cure}" if bits <= 64 and not dtype.startswith("complex") else ""
        raise BufferError(f"{name} has no {dtype}; convert it first{cure}")
    if tensor.ndim == 0 and not row.scalars:
        what = "a column" if row.column else "an array"
        raise BufferError(
            f"{_kind(x)}: it has no axes, and {what} of {name} has one; pass x.reshape(1)"
        )
    if name == "pandas" and tensor.ndim > 2:
        raise BufferError(
            f"{_kind(x)}: it has {tensor.ndim} axes, and a table of pandas has two; pass "
            "x.reshape(len(x), -1)"
        )
    if name == "polars" and 0 in tensor.shape[1:]:
        raise BufferError(
            f"{_kind(x)}: its rows have no elements, and polars takes no such column; pass "
            "x.reshape(-1)"
        )


# ---- fewer bits ----------------------------------------------------------------------------------


def _halves(tensor: Tensor, target: Target) -> bool:
    dtype, row = tensor.dtype.name, target.row
    if dtype not in row.halves or dtype not in HALVES:
        return False
    return target.name != "jax" or not sys.modules["jax"].config.jax_enable_x64


def _cure_of_halves(target: Target) -> str:
    if target.name == "jax":
        return 'jax.config.update("jax_enable_x64", True)'
    return "convert it first"


def _halved(x: Any, tensor: Tensor, target: Target, copy: bool | None) -> Tensor:
    """The values in half as many bits, where all of them fit."""
    wide, name = tensor.dtype.name, target.name
    half, cure = HALVES[wide], _cure_of_halves(target)
    if copy is False:
        raise _copy_needed(x, f"{name} has no {wide} (only {half}): it would be converted")
    if tensor.device[0] not in HOST_DEVICES:
        raise BufferError(f"{name} has no {wide} (only {half}); convert it first, or {cure}")
    np = sys.modules.get("numpy") or __import__("numpy")
    values = tensor.numpy()
    made = _aligned(np, values.shape, half)
    with np.errstate(all="ignore"):
        np.copyto(made, values, casting="unsafe")
    integers = wide.endswith("int64")
    fits = (made == values) if integers else (np.isfinite(made) == np.isfinite(values))
    if not fits.all():
        raise BufferError(
            f"{name} has no {wide}, and there are values that {half} cannot hold; convert it "
            f"first, or {cure}"
        )
    _warn(
        NarrowedWarning,
        f"{_kind(x)}: {name} has no {wide}, so its values are {half} there; convert it first, "
        f"or {cure}",
    )
    return from_dlpack(made)


def _aligned(np: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """New memory whose address is a multiple of 64."""
    made = np.dtype(dtype)
    size = made.itemsize
    for extent in shape:
        size *= extent
    room = np.empty(size + 64, "uint8")
    start = -room.ctypes.data % 64
    return room[start : start + size].view(made).reshape(shape)


# ---- Python's own lists and numbers --------------------------------------------------------------


def _leaves(x: Any) -> list[Any]:
    if isinstance(x, (list, tuple)):
        return [leaf for each in x for leaf in _leaves(each)]
    return [x]


def _is_array(x: Any) -> bool:
    """Whether it is an array and no scalar of NumPy, which lists may have as numbers."""
    cls = type(x)
    offers = hasattr(cls, "__dlpack__") or hasattr(cls, "__array_interface__")
    return offers and not (_package(x, "numpy") and not hasattr(cls, "__setitem__"))


def _python(x: Any, target: Target, device: Any, copy: bool | None) -> Any:
    """An array of numbers in lists, by the library's constructor; of arrays, which are stacked."""
    leaves = [] if isinstance(x, range) else _leaves(x)
    are_arrays = bool(leaves) and all(_is_array(each) for each in leaves)
    if copy is False:
        lie = "its arrays lie in memory of their own"
        raise _copy_needed(x, lie if are_arrays else "its numbers lie in no memory of an array")
    if are_arrays:
        return _stacked(x, target, device)
    if any(each is None for each in leaves) and target.name not in ("polars", "pyarrow"):
        raise ValueError(
            f"to(): None is in the list, and an array of {target.name} has no missing values; put "
            "a number in its place, such as float('nan')"
        )
    if not target.row.scalars and not isinstance(x, (list, tuple, range)):
        x = [x]
    make = target.constructor()
    if make is None or target.name == "numpy":
        array = _numbers(x, leaves)
        is_text = target.name == "pandas" and array.dtype.kind in "UO"
        return _own(target, array) if is_text else _to(array, target, device, None, private=True)
    made = _constructed(make, x, target.name)
    return made if device is None else _to(made, target, device, None)


def _own(target: Target, array: Any) -> Any:
    return target.module.Series(array.tolist())


def _constructed(make: Any, x: Any, name: str) -> Any:
    x = list(x) if isinstance(x, range) else x
    try:
        return make(list(x) if isinstance(x, tuple) else x)
    except Exception as error:
        raise ValueError(
            f"to(): {name}.{make.__name__} refuses the list: {type(error).__name__}: {error}"
        ) from error


def _numbers(x: Any, leaves: list[Any]) -> Any:
    """An array of NumPy; integers stay exact."""
    np = sys.modules.get("numpy") or __import__("numpy")
    made = _constructed(np.array, x, "numpy")
    whole = leaves and all(isinstance(each, int) for each in leaves)
    if made.dtype.kind == "O" or (whole and made.dtype.kind == "f"):
        raise ValueError(
            "to(): the list has integers that no dtype of NumPy holds, or what is no number; "
            "convert them first"
        )
    return made


def _stacked(arrays: Any, target: Target, device: Any) -> Any:
    """The arrays of a list along a new axis, as those of a batch."""
    np = sys.modules.get("numpy") or __import__("numpy")
    if any(isinstance(each, (list, tuple)) for each in arrays):
        raise ValueError("to(): lists of lists of arrays are no array; stack the inner ones first")
    # By the exchange, which refuses what an array of NumPy hides: a mask.
    found = [to(each, "dlshim").numpy() for each in arrays]
    for what in ("shape", "dtype"):
        told = {str(getattr(each, what)): None for each in found}
        if len(told) > 1:
            raise ValueError(
                f"to(): the arrays in the list have different {what}s ({', '.join(told)}), so they "
                f"are no array; pass them one by one, or {'pad' if what == 'shape' else 'convert'} "
                "them"
            )
    return _to(np.stack(found), target, device, None, private=True)


# ---- tables and columns --------------------------------------------------------------------------


def _table(x: Any, target: Target, device: Any, copy: bool | None) -> Any:
    """Two axes, of the columns of a table that have one dtype."""
    if target.row.column:
        cure = {"polars": "polars.DataFrame(x)", "pyarrow": "pyarrow.table(x)"}
        raise BufferError(
            f"{_kind(x)}: a table is no column; pass "
            f"{cure.get(target.name, 'x.to_pandas()')} or one of its columns"
        )
    names = list(x.columns) if not _package(x, "pyarrow") else list(x.column_names)
    if not names:
        raise BufferError(f"{_kind(x)}: it has no columns")
    if _package(x, "pandas") and {type(each).__module__[:5] for each in x.dtypes} == {"numpy"}:
        found = x.to_numpy()
        if len(set(x.dtypes)) == 1 and found.dtype.kind in "iufcb":
            return _to(found, target, device, copy)
    columns = [x.iloc[:, i] if hasattr(x, "iloc") else x[name] for i, name in enumerate(names)]
    kinds = [str(getattr(each, "dtype", None) or each.type) for each in columns]
    if len(set(kinds)) > 1:
        raise BufferError(
            f"{_kind(x)}: its columns have different dtypes ({', '.join(dict.fromkeys(kinds))}); "
            f"pass x[{names[0]!r}], or convert them to one dtype"
        )
    if copy is False:
        raise _copy_needed(x, "its columns lie in memory of their own")
    np = sys.modules.get("numpy") or __import__("numpy")
    made = []
    for name, each in zip(names, columns, strict=True):
        try:
            made.append(to(each, "numpy"))
        except BufferError as error:
            text = str(error).replace("(x", f"(x[{name!r}]").replace(" x.", f" x[{name!r}].")
            raise BufferError(f"column {name!r}: {text}") from error.__cause__
    return _to(np.stack(made, axis=1), target, device, None, private=True)


def _by_arrow(x: Any, target: Target) -> Any:
    """A column that is no array: with missing values, text, dates, categories or lists."""
    module = target.module
    if target.name == "polars":
        return module.Series(x)
    pyarrow = module if target.name == "pyarrow" else __import__("pyarrow")
    chunked = hasattr(type(x), "__arrow_c_stream__") and not hasattr(type(x), "__arrow_c_array__")
    made = pyarrow.chunked_array(x) if chunked else pyarrow.array(x)
    if target.name == "pyarrow":
        return made
    return module.Series(module.arrays.ArrowExtensionArray(pyarrow.chunked_array(made)))


def _column(x: Any, target: Target, device: Any, copy: bool | None) -> Any:
    """A column into a library of columns: as an array, and by Arrow where it is none."""
    try:
        return _array(x, target, device, copy)
    except CopyRequiredError:
        raise
    except BufferError as error:
        try:
            return _by_arrow(x, target)
        except Exception:
            raise error from None


def _dates(x: Any, target: Target) -> bool:
    """Whether it is one axis of NumPy's dates or texts, and the library has columns of them."""
    return (
        target.row.column
        and _package(x, "numpy")
        and getattr(x, "ndim", 0) == 1
        and x.dtype.kind in "MmUST"
    )


# ---- one array -----------------------------------------------------------------------------------


def _array(x: Any, target: Target, device: Any, copy: bool | None, private: bool = False) -> Any:
    tensor, made = _taken(x, device, copy if not target.row.copies else copy and None)
    private = private or made or tensor.is_copied
    _check_target(x, tensor, target)
    if _halves(tensor, target):
        tensor = _halved(x, tensor, target, copy)
    else:
        tensor = _fitted(x, tensor, private, target, copy)
    try:
        result = target.make(tensor)
    except (MemoryError, RecursionError):
        raise
    except Exception as error:
        raise _refused(tensor, target, error) from error
    if copy is False:
        _check_shared(x, tensor, result, target)
    return result


def _check_shared(x: Any, tensor: Tensor, result: Any, target: Target) -> None:
    """The library may have copied all the same; what does not tell where it lies is believed."""
    if not tensor.size or tensor.device[0] not in HOST_DEVICES:
        return
    if target.row.column:
        if tensor.dtype.name == "bool" and target.name != "pandas":
            raise _copy_needed(x, f"{target.name} packs booleans into bits")
        return
    try:
        address = from_dlpack(result, stream=-1).data_ptr()
    except (BufferError, TypeError):
        return
    if address != tensor.data_ptr():
        raise _copy_needed(x, f"{target.name} copies it")


def _refused(tensor: Tensor, target: Target, error: Exception) -> BufferError:
    on_host = tensor.device[0] in HOST_DEVICES
    cure = "" if on_host else '; if it has host memory alone, pass device="cpu"'
    return BufferError(f"{target.name} refuses it: {type(error).__name__}: {error}{cure}")


def _to(x: Any, target: Target, device: Any, copy: bool | None, private: bool = False) -> Any:
    """As `to`, for a library that is found."""
    call = _undone(x)
    if call is not None:
        raise BufferError(f"{_kind(x)}: it is work that has not been done yet; pass {call}")
    found = _held(x)
    if found is not x:
        return to(found, target.library, device=device, copy=copy)
    if _is_table(x):
        return _table(x, target, device, copy)
    if _dates(x, target):
        if copy is False:
            raise _copy_needed(x, f"{target.name} copies dates and texts")
        return (target.module.array if target.name == "pyarrow" else target.module.Series)(x)
    if target.row.column and _is_column(x):
        return _column(x, target, device, copy)
    made = _array(x, target, device, copy, private)
    row = BY_KEY.get(type(x).__module__.partition(".")[0])
    usual = row is not None and not row.immutable and not isinstance(x, Producer)
    if target.wrap is not None and usual:
        target.plain.add(type(x))
    return made


def _target(library: Any) -> Target:
    target = find(library)
    if type(library) is str:
        _found[library] = target
    return target


def _clone(x: Any, target: Target) -> Any:
    """A copy of an array of the library itself."""
    method = target.row.clone
    return getattr(x, method)() if method else _to(x, target, None, True)


def _is_there(x: Any, device: Any) -> bool:
    """Whether an array lies where it is wanted."""
    try:
        here = upgrade(x).__dlpack_device__()
    except (BufferError, TypeError):
        return False  # the exchange says why
    return here == _options(upgrade(b"", device=device))["device"]


# ---- the public function -------------------------------------------------------------------------

# An editor and a type checker know the class of the result by the name of the library, for which
# nothing is imported.  Where the library is not installed, its classes are Any to them.

if TYPE_CHECKING:

    @overload
    def to(
        x: Any, library: Literal["numpy"], /, *, device: Any = None, copy: bool | None = None
    ) -> numpy.ndarray[Any, Any]: ...

    @overload
    def to(
        x: Any, library: Literal["torch"], /, *, device: Any = None, copy: bool | None = None
    ) -> torch.Tensor: ...

    @overload
    def to(
        x: Any, library: Literal["jax"], /, *, device: Any = None, copy: bool | None = None
    ) -> jax.Array: ...

    @overload
    def to(
        x: Any, library: Literal["tensorflow"], /, *, device: Any = None, copy: bool | None = None
    ) -> tensorflow.Tensor: ...

    @overload
    def to(
        x: Any, library: Literal["cupy"], /, *, device: Any = None, copy: bool | None = None
    ) -> cupy.ndarray: ...

    @overload
    def to(
        x: Any, library: Literal["mlx"], /, *, device: Any = None, copy: bool | None = None
    ) -> mlx.core.array: ...

    @overload
    def to(
        x: Any, library: Literal["paddle"], /, *, device: Any = None, copy: bool | None = None
    ) -> paddle.Tensor: ...

    @overload
    def to(
        x: Any, library: Literal["warp"], /, *, device: Any = None, copy: bool | None = None
    ) -> warp.array: ...

    @overload
    def to(
        x: Any, library: Literal["tvm_ffi"], /, *, device: Any = None, copy: bool | None = None
    ) -> tvm_ffi.Tensor: ...

    @overload
    def to(
        x: Any, library: Literal["pyarrow"], /, *, device: Any = None, copy: bool | None = None
    ) -> pyarrow.Array: ...

    @overload
    def to(
        x: Any, library: Literal["polars"], /, *, device: Any = None, copy: bool | None = None
    ) -> polars.Series: ...

    @overload
    def to(
        x: Any, library: Literal["pandas"], /, *, device: Any = None, copy: bool | None = None
    ) -> pandas.Series | pandas.DataFrame: ...

    @overload
    def to(
        x: Any, library: Literal["dlshim"], /, *, device: Any = None, copy: bool | None = None
    ) -> Tensor: ...

    @overload
    def to(x: Any, library: Any, /, *, device: Any = None, copy: bool | None = None) -> Any: ...


def to(x: Any, library: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """Bring an array into a library: an ordinary array of that library with the values of x.

    You may do with it whatever the library lets you do: memory that must not change is not changed
    by it, and an array that must not change is not changed by writing to x.  Memory is shared where
    that is so, else copied, once.

    library: a name ("torch", which is imported), a module, a class, or an array
    device: deliver there, as the option of `upgrade`
    copy: None: where it is needed; False: never, read-only memory is shared with a
        ReadOnlyWarning; True: always

    >>> dlshim.to(x, "torch", copy=False)
    """
    target = _found.get(library) if type(library) is str else None
    if target is None or modules.get(target.module_name) is not target.module:
        target = _target(library)
    if type(x) in target.plain and device is None and copy is None:
        try:
            return target.take(target.wrap(x))  # type: ignore[misc]
        except Exception:  # told, or cured, by the longer way
            pass
    if isinstance(x, target.own) and (device is None or _is_there(x, device)):
        return _clone(x, target) if copy else x
    if type(x) in _PYTHON:
        return _python(x, target, device, copy)
    return _to(x, target, device, copy)
